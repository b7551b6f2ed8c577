"""The contracts of stores and version owners, as checks for any implementation.

In: a fresh, empty `LogStore`, `FileStore` or `VersionLog`. Out: nothing, or an AssertionError that says what is wrong.
Run every function of `LOG_STORE_CONTRACT`, `FILE_STORE_CONTRACT` and `VERSION_LOG_CONTRACT`, each on a new one.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from txlog.core.format.paths import is_location
from txlog.core.store import Attempt, FileStore, FolderVersions, LogStore, PutOutcome, VersionLog
from txlog.errors import NotFoundError, StorageError

__all__ = ["FILE_STORE_CONTRACT", "LOG_STORE_CONTRACT", "VERSION_LOG_CONTRACT", "Attempt"]

RACERS = 16
ROUNDS = 5

T = TypeVar("T")

_commit = FolderVersions.name_of


def sixteen_racers_have_one_winner_whose_bytes_stay(log: LogStore) -> None:
    for version in range(ROUNDS):
        name = _commit(version)
        bodies = [f"racer {racer} ".encode() * 50 for racer in range(RACERS)]
        outcomes = _at_once([partial(log.put_if_absent, name, body) for body in bodies])
        winners = [body for body, outcome in zip(bodies, outcomes, strict=True) if outcome is PutOutcome.WRITTEN]
        losers = [outcome for outcome in outcomes if outcome is PutOutcome.ALREADY_EXISTS]
        assert len(winners) == 1, f"{len(winners)} winners at {name}: {outcomes}"
        assert len(losers) == RACERS - 1, f"a loser did not get ALREADY_EXISTS: {outcomes}"
        assert log.read(name) == winners[0], "the bytes are not the winner's"


def a_second_put_is_refused_and_changes_nothing(log: LogStore) -> None:
    assert log.put_if_absent(_commit(0), b"first") is PutOutcome.WRITTEN
    before = log.stat(_commit(0))
    for body in (b"second", b"first", b""):
        assert log.put_if_absent(_commit(0), body) is PutOutcome.ALREADY_EXISTS
    assert log.read(_commit(0)) == b"first"
    assert log.stat(_commit(0)) == before


def a_read_returns_what_the_put_wrote(log: LogStore) -> None:
    bodies = [b"", b"\n", bytes(range(256)) * 4096, "é\u2028".encode()]
    for version, body in enumerate(bodies):
        assert log.put_if_absent(_commit(version), memoryview(body)) is PutOutcome.WRITTEN
        assert log.read(_commit(version)) == body
        assert log.stat(_commit(version)).size == len(body)
        assert log.stat(_commit(version)).name == _commit(version)


def the_list_is_sorted_and_starts_where_asked(log: LogStore) -> None:
    names = [_commit(version) for version in (11, 2, 9, 10, 0, 199, 100)]
    names += [f"{10:020}.checkpoint.parquet", f"{9:020}.crc", "_last_checkpoint"]
    for name in names:
        assert log.put_if_absent(name, name.encode()) is PutOutcome.WRITTEN
    for start in ("", _commit(9), f"{10:020}", f"{10:020}.checkpoint", f"{20:020}", _commit(199), "_", "z"):
        listed = log.list_from(start)
        assert [meta.name for meta in listed] == sorted(name for name in names if name >= start), start
        assert all(meta.size == len(meta.name) for meta in listed)


def a_folder_of_the_log_is_listed_separately(log: LogStore) -> None:
    assert log.list_from("_sidecars/") == []
    names = ["_sidecars/b.parquet", "_sidecars/a.parquet", "_sidecars2/c.parquet", _commit(0)]
    for name in names:
        assert log.put_if_absent(name, name.encode()) is PutOutcome.WRITTEN
    assert [meta.name for meta in log.list_from("_sidecars/")] == ["_sidecars/a.parquet", "_sidecars/b.parquet"]
    assert [meta.name for meta in log.list_from("_sidecars/b")] == ["_sidecars/b.parquet"]
    assert [meta.name for meta in log.list_from("")] == [_commit(0)]
    log.make_durable("_sidecars/a.parquet")
    log.delete("_sidecars/a.parquet")
    assert [meta.size for meta in log.list_from("_sidecars/")] == [len("_sidecars/b.parquet")]


def list_and_stat_agree(log: LogStore) -> None:
    log.put_if_absent(_commit(0), b"body")
    [listed] = log.list_from("")
    seen = log.stat(_commit(0))
    assert (listed.name, listed.size) == (seen.name, seen.size) == (_commit(0), 4)
    # HTTP returns a single object's time in whole seconds.
    assert abs(listed.modified_ms - seen.modified_ms) < 1000


def an_absent_log_is_an_empty_list(log: LogStore) -> None:
    assert log.list_from("") == []
    assert log.list_from(_commit(7)) == []


def an_absent_name_is_not_found(log: LogStore) -> None:
    for present in (False, True):
        if present:
            log.put_if_absent(_commit(0), b"body")
        calls: tuple[Callable[[str], object], ...] = (log.read, log.stat, log.make_durable)
        for call in calls:
            _assert_raises(NotFoundError, partial(call, _commit(1)))


def no_partial_file_is_listed_or_read_while_others_write(log: LogStore) -> None:
    names = [_commit(version) for version in range(ROUNDS)]
    body = b"0123456789" * 20_000
    done = threading.Event()

    def write(name: str) -> None:
        log.put_if_absent(name, body)

    def watch() -> int:
        looks = 0
        while not done.is_set() or not looks:
            looks += 1
            for meta in log.list_from(""):
                assert meta.name in names, f"{meta.name} was listed"
                assert meta.size == len(body), f"{meta.name} was listed with {meta.size} bytes"
                assert log.read(meta.name) == body, f"{meta.name} was read in part"
        return looks

    with ThreadPoolExecutor(5) as pool:
        watcher = pool.submit(contextvars.copy_context().run, watch)
        writers = [pool.submit(contextvars.copy_context().run, write, name) for name in names for _ in range(2)]
        for writer in writers:
            writer.result()
        done.set()
        assert watcher.result() > 0
    assert [meta.name for meta in log.list_from("")] == names


def a_put_replaces_the_whole_file(log: LogStore) -> None:
    for body in (b"a" * 1000, b"b", memoryview(b"c" * 10)):
        log.put("_last_checkpoint", body)
        assert log.read("_last_checkpoint") == bytes(body)
    assert [meta.name for meta in log.list_from("")] == ["_last_checkpoint"]


def a_deleted_name_can_be_put_again(log: LogStore) -> None:
    log.put_if_absent(_commit(0), b"old")
    log.delete(_commit(0))
    log.delete(_commit(0))
    assert log.list_from("") == []
    _assert_raises(NotFoundError, lambda: log.read(_commit(0)))
    assert log.put_if_absent(_commit(0), b"new") is PutOutcome.WRITTEN


def a_name_that_leaves_the_log_is_refused(log: LogStore) -> None:
    for name in ("../escaped", "/tmp/escaped", "a/../../escaped", "", ".hidden", "a//b", "a\0b"):
        _assert_raises(StorageError, partial(log.put_if_absent, name, b"x"))
        _assert_raises(StorageError, partial(log.read, name))


def the_round_trip_is_measured(log: LogStore) -> None:
    log.put_if_absent(_commit(0), b"body")
    assert log.round_trip_s() > 0


def an_existing_name_can_be_made_durable(log: LogStore) -> None:
    log.put_if_absent(_commit(0), b"body")
    log.make_durable(_commit(0))
    assert log.read(_commit(0)) == b"body"


def a_file_is_hidden_until_it_is_published(files: FileStore) -> None:
    output = files.create("day=1/part-0.parquet")
    output.sink.write(b"bytes")
    _assert_raises(NotFoundError, lambda: files.stat("day=1/part-0.parquet"))
    meta = output.publish()
    assert (meta.name, meta.size) == ("day=1/part-0.parquet", 5)
    assert files.stat("day=1/part-0.parquet").size == 5
    files.make_durable(["day=1/part-0.parquet"])
    files.make_durable(["day=1/part-0.parquet"], with_contents=True)


def a_parquet_file_is_read_as_it_was_written(files: FileStore) -> None:
    table = pa.table({"n": list(range(50_000)), "text": [f"row {n % 97}" for n in range(50_000)]})
    output = files.create("part-1.parquet")
    with pq.ParquetWriter(output.sink, table.schema) as writer:
        for batch in table.to_batches(max_chunksize=10_000):
            writer.write_batch(batch)
    size_bytes = output.publish().size
    opened = files.open("part-1.parquet")
    assert opened.size() == size_bytes
    read = pq.ParquetFile(opened).read()
    assert read.equals(table)


def a_large_file_is_stored_completely(files: FileStore) -> None:
    piece = bytes(range(256)) * 4096
    output = files.create("large.bin")
    for _ in range(20):
        output.sink.write(piece)
    assert output.publish().size == 20 * len(piece)
    opened = files.open("large.bin")
    opened.seek(19 * len(piece))
    assert opened.read() == piece


def a_file_written_by_one_call_is_stored_completely(files: FileStore) -> None:
    for size in (0, 1, 65_536, 65_537, 100_000):
        body = (bytes(range(256)) * (size // 256 + 1))[:size]
        meta = files.write(f"day=3/at-once-{size}.bin", body if size == 1 else pa.py_buffer(body))
        assert (meta.size, files.stat(f"day=3/at-once-{size}.bin").size) == (size, size)
        assert files.open(f"day=3/at-once-{size}.bin").read() == body
        assert size == 0 or files.read_from(f"day=3/at-once-{size}.bin", size // 3) == body[size // 3 :]
    _assert_raises(NotFoundError, lambda: files.read_from("day=3/absent.bin", 0))


def a_file_can_be_replaced_as_a_whole(files: FileStore) -> None:
    for body in (b"first", b"second, longer", b""):
        files.replace("folder=1/manifest", body)
        assert files.read_from("folder=1/manifest", 0) == body
    assert [meta.name for page in files.list() for meta in page] == ["folder=1/manifest"]


def an_aborted_file_leaves_nothing(files: FileStore) -> None:
    output = files.create("day=2/part-2.parquet")
    output.sink.write(b"bytes" * 1000)
    output.abort()
    output.abort()
    _assert_raises(NotFoundError, lambda: files.open("day=2/part-2.parquet"))
    again = files.create("day=2/part-2.parquet")
    again.sink.write(b"again")
    assert again.publish().size == 5


def names_are_stored_unchanged(files: FileStore) -> None:
    for path in ("p=a%2Fb/x.parquet", "p=é ü/y.parquet", "p=1+1=2&3/#.parquet", "_hidden/~z.parquet"):
        output = files.create(path)
        output.sink.write(path.encode())
        output.publish()
        assert files.open(path).read() == path.encode(), path


def a_deleted_file_is_gone(files: FileStore) -> None:
    output = files.create("part-3.parquet")
    output.sink.write(b"bytes")
    output.publish()
    files.delete("part-3.parquet")
    files.delete("part-3.parquet")
    _assert_raises(NotFoundError, lambda: files.stat("part-3.parquet"))


def many_files_are_deleted_at_once(files: FileStore) -> None:
    written = [f"day={number % 3}/many-{number} é.bin" for number in range(40)]
    for path in (*written, "day=0/stays.bin"):
        files.write(path, b"x")
    files.delete_many([*written[:20], "day=0/absent.bin", "absent/absent.bin", *written[10:]])
    for path in written:
        _assert_raises(NotFoundError, partial(files.stat, path))
    assert files.stat("day=0/stays.bin").size == 1
    files.delete_many([])
    for path in ("../escaped", "/tmp/escaped", "day=0/../day=0/stays.bin"):
        _assert_raises(StorageError, partial(files.delete_many, [path]))
    assert files.stat("day=0/stays.bin").size == 1


def a_path_that_leaves_the_table_is_refused(files: FileStore) -> None:
    for path in ("../escaped", "/tmp/escaped", "a/../../escaped", "", "a//b", "./a"):
        calls: tuple[Callable[[str], object], ...] = (
            files.create,
            partial(files.write, body=b"x"),
            partial(files.read_from, start=0),
            files.delete,
            *(() if is_location(path) else (files.open, files.stat)),
        )
        for call in calls:
            _assert_raises(StorageError, partial(call, path))


def a_list_holds_every_file_with_its_size_and_time(files: FileStore) -> None:
    assert list(files.list()) == []
    assert list(files.list("day=1")) == []
    sizes = {"a.parquet": 1, "day=1/b.parquet": 2, "day=10/c=%2F/d.parquet": 3, "_txlog/staging/x": 4, "day=1/e f/g": 5}
    sizes |= {"_delta_log/_sidecars/s": 6, "p=é ü/#.parquet": 7}
    for path, size in sizes.items():
        files.write(path, b"x" * size)
    unfinished = files.create("day=1/unfinished.parquet")
    unfinished.sink.write(b"bytes")
    listed = [meta for page in files.list() for meta in page if "/.unfinished" not in meta.name]
    unfinished.abort()
    assert {meta.name: meta.size for meta in listed} == sizes
    assert len(listed) == len(sizes)
    for meta in listed:
        # HTTP returns a single object's time in whole seconds.
        assert abs(files.stat(meta.name).modified_ms - meta.modified_ms) < 1000


def a_list_has_only_the_folders_files_without_skipped_folders(files: FileStore) -> None:
    for path in ("a", "day=1/b", "day=1/c/d", "day=1/c/e/f", "day=10/g", "_log/h", "c/i"):
        files.write(path, b"x")

    def names(folder: str = "", skip: Callable[[str], bool] | None = None) -> list[str]:
        return sorted(meta.name for page in files.list(folder, skip=skip) for meta in page)

    assert names("day=1") == ["day=1/b", "day=1/c/d", "day=1/c/e/f"]
    assert names("day=1", lambda folder: folder == "day=1/c") == ["day=1/b"]
    assert names("day=1", lambda folder: folder in ("day=1", "c", "day=1/c/e")) == ["day=1/b", "day=1/c/d"]
    assert names(skip=lambda folder: folder.startswith("_")) == [
        "a",
        "c/i",
        "day=1/b",
        "day=1/c/d",
        "day=1/c/e/f",
        "day=10/g",
    ]
    assert names(skip=lambda folder: "/" not in folder) == ["a"]
    for folder in ("../escaped", "/tmp", "day=1/", "day=1/../c"):
        _assert_raises(StorageError, partial(names, folder))


def a_long_list_comes_in_pages(files: FileStore) -> None:
    wanted = [f"day={number % 7}/{number:04}" for number in range(1_100)]
    with ThreadPoolExecutor(8) as pool:
        written = [pool.submit(contextvars.copy_context().run, files.write, path, b"x") for path in wanted]
        for each in written:
            each.result()
    pages = list(files.list())
    assert sorted(meta.name for page in pages for meta in page) == sorted(wanted)
    assert max(map(len, pages)) <= 1_000


def a_list_that_starts_after_a_name_is_sorted_and_has_the_rest(files: FileStore) -> None:
    """Names sort by their bytes: ``b-`` comes before ``b/``, and ``b/`` before ``b0``."""
    wanted = sorted(["a", "b-/c", "b/a", "b/c/d", "b/c-d", "b0", "ba", "é/x", "Z", "_log/1"])
    for path in wanted:
        files.write(path, b"x")
    for after in ("", "a", "b", "b-/c", "b/", "b/c/d", "ba", "zz", "é/x"):
        found = [meta.name for page in files.list(start_after=after) for meta in page]
        assert found == [path for path in wanted if path > after], after
    found = [meta.name for page in files.list(start_after="b/b", skip=lambda folder: folder == "b/c") for meta in page]
    assert found == [path for path in wanted if path > "b/b" and not path.startswith("b/c/")]
    assert [meta.name for page in files.list("b", start_after="b/c-d") for meta in page] == ["b/c/d"]


def a_version_is_read_as_it_was_put(versions: VersionLog) -> None:
    bodies = [b"first", bytes(range(256)) * 4096, "é\u2028".encode()]
    for version, body in enumerate(bodies):
        assert versions.put(Attempt(version, body)) is PutOutcome.WRITTEN
        assert versions.read(version) == body
        assert versions.stat(version).size == len(body)
    assert [versions.read(version) for version in range(len(bodies))] == bodies


def sixteen_racers_for_a_version_have_one_winner(versions: VersionLog) -> None:
    for version in range(ROUNDS):
        attempts = [Attempt(version, f"racer {racer} ".encode() * 50) for racer in range(RACERS)]
        outcomes = _at_once([partial(versions.put, attempt) for attempt in attempts])
        winners = [each for each, outcome in zip(attempts, outcomes, strict=True) if outcome is PutOutcome.WRITTEN]
        assert len(winners) == 1, f"{len(winners)} winners of v{version}: {outcomes}"
        assert outcomes.count(PutOutcome.ALREADY_EXISTS) == RACERS - 1, f"a loser was not refused: {outcomes}"
        assert versions.read(version) == winners[0].body, "the bytes are not the winner's"


def a_version_that_has_landed_never_changes(versions: VersionLog) -> None:
    for version in range(2):
        assert versions.put(Attempt(version, b"first")) is PutOutcome.WRITTEN
    before = versions.stat(0).size, versions.stat(0).modified_ms
    for body in (b"second", b"first", b""):
        assert versions.put(Attempt(0, body)) is PutOutcome.ALREADY_EXISTS
    assert versions.read(0) == b"first"
    assert (versions.stat(0).size, versions.stat(0).modified_ms) == before


def an_absent_version_is_not_found(versions: VersionLog) -> None:
    for landed in (-1, 0):
        if landed == 0:
            versions.put(Attempt(0, b"body"))
        calls: tuple[Callable[[int], object], ...] = (versions.read, versions.stat, versions.make_durable)
        for call in calls:
            _assert_raises(NotFoundError, partial(call, landed + 1))


def the_tail_holds_what_landed_after_a_version(versions: VersionLog) -> None:
    assert dict(versions.tail(-1)) == {}
    for version in range(12):
        versions.put(Attempt(version, b"x" * (version + 1)))
    for after in (-1, 0, 8, 10, 11, 40):
        tail = versions.tail(after)
        assert {version: file.size for version, file in tail.items() if version > after} == {
            version: version + 1 for version in range(after + 1, 12)
        }


def a_list_that_was_made_before_hides_no_version(versions: VersionLog) -> None:
    for version in range(4):
        versions.put(Attempt(version, b"body"))
    listed = versions.tail(-1)
    assert versions.tail(-1, listed).keys() >= listed.keys()
    if versions.capabilities.remembers_versions:
        versions.publish(3)
        for after in (-1, 0, 2, 3):
            assert versions.tail(after, {}).keys() == versions.tail(after).keys()


def stat_and_tail_agree(versions: VersionLog) -> None:
    versions.put(Attempt(0, b"body"))
    listed, seen = versions.tail(-1)[0], versions.stat(0)
    assert (listed.name, listed.size) == (seen.name, seen.size)
    # HTTP returns a single object's time in whole seconds.
    assert abs(listed.modified_ms - seen.modified_ms) < 1000


def a_landed_version_can_be_made_durable(versions: VersionLog) -> None:
    versions.put(Attempt(0, b"body"))
    versions.make_durable(0)
    assert versions.read(0) == b"body"


def each_version_has_a_name_for_messages(versions: VersionLog) -> None:
    names = [versions.name_of(version) for version in range(3)]
    assert all(names)
    assert len(set(names)) == 3
    versions.put(Attempt(0, b"body"))
    assert versions.name_of(0) == names[0]


LOG_STORE_CONTRACT: tuple[Callable[[LogStore], None], ...] = (
    sixteen_racers_have_one_winner_whose_bytes_stay,
    a_second_put_is_refused_and_changes_nothing,
    a_read_returns_what_the_put_wrote,
    the_list_is_sorted_and_starts_where_asked,
    a_folder_of_the_log_is_listed_separately,
    list_and_stat_agree,
    an_absent_log_is_an_empty_list,
    an_absent_name_is_not_found,
    no_partial_file_is_listed_or_read_while_others_write,
    a_put_replaces_the_whole_file,
    a_deleted_name_can_be_put_again,
    a_name_that_leaves_the_log_is_refused,
    the_round_trip_is_measured,
    an_existing_name_can_be_made_durable,
)

FILE_STORE_CONTRACT: tuple[Callable[[FileStore], None], ...] = (
    a_file_is_hidden_until_it_is_published,
    a_parquet_file_is_read_as_it_was_written,
    a_large_file_is_stored_completely,
    a_file_written_by_one_call_is_stored_completely,
    a_file_can_be_replaced_as_a_whole,
    an_aborted_file_leaves_nothing,
    names_are_stored_unchanged,
    a_deleted_file_is_gone,
    many_files_are_deleted_at_once,
    a_path_that_leaves_the_table_is_refused,
    a_list_holds_every_file_with_its_size_and_time,
    a_list_has_only_the_folders_files_without_skipped_folders,
    a_long_list_comes_in_pages,
    a_list_that_starts_after_a_name_is_sorted_and_has_the_rest,
)

VERSION_LOG_CONTRACT: tuple[Callable[[VersionLog], None], ...] = (
    a_version_is_read_as_it_was_put,
    sixteen_racers_for_a_version_have_one_winner,
    a_version_that_has_landed_never_changes,
    an_absent_version_is_not_found,
    the_tail_holds_what_landed_after_a_version,
    a_list_that_was_made_before_hides_no_version,
    stat_and_tail_agree,
    a_landed_version_can_be_made_durable,
    each_version_has_a_name_for_messages,
)


def _at_once(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Make all calls at the same moment, each in its own thread."""
    start = threading.Barrier(len(calls))

    def run(call: Callable[[], T]) -> T:
        start.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        running = [pool.submit(contextvars.copy_context().run, run, call) for call in calls]
        return [each.result() for each in running]


def _assert_raises(kind: type[Exception], call: Callable[[], object]) -> None:
    try:
        call()
    except kind:
        return
    raise AssertionError(f"{kind.__name__} was not raised")
