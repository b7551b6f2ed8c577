"""Each rule of the local store's put, shown by breaking the system call that it is about."""

from __future__ import annotations

import ctypes
import errno
import multiprocessing
import os
import pickle
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import txlog
from txlog.core.store import _local_disk as disk
from txlog.core.store._base import ICEBERG, PutOutcome
from txlog.core.store._local_store import LocalFileStore, LocalLogStore, local_table_store
from txlog.core.store._open import open_store
from txlog.errors import NotFoundError, StorageError

COMMIT = f"{0:020}.json"
SECOND = f"{1:020}.json"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "table"


@pytest.fixture(params=["nameless", "hidden"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What a commit is until it takes its name: a file without one, or, where there are none, one of a hidden name."""
    monkeypatch.setattr(disk, "keeps_names", lambda _: request.param == "nameless")
    return str(request.param)


@pytest.fixture
def log(root: Path, way: str) -> LocalLogStore:
    """A log whose directory exists already, so that a test breaks the put itself."""
    store = LocalLogStore(str(root))
    store.put_if_absent("_made", b"")
    os.unlink(root / "_delta_log" / "_made")
    return store


def names_on_disk(root: Path) -> list[str]:
    return sorted(os.listdir(root / "_delta_log"))


def failing(code: int, only: Callable[..., bool] = lambda *_: True, function: Any = None) -> Callable[..., Any]:
    def call(*arguments: Any, **options: Any) -> Any:
        if only(*arguments):
            raise OSError(code, os.strerror(code))
        return function(*arguments, **options)

    return call


def closed_and(code: int) -> Callable[[int], None]:
    close = os.close

    def call(descriptor: int) -> None:
        close(descriptor)
        raise OSError(code, os.strerror(code))

    return call


def first(note: Callable[..., None], function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any, **options: Any) -> Any:
        note(*arguments)
        return function(*arguments, **options)

    return call


def synced_inodes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Fills with the inode of everything that is synced from now on."""
    inodes: list[int] = []
    monkeypatch.setattr(os, "fsync", first(lambda fd: inodes.append(os.fstat(fd).st_ino), os.fsync))
    return inodes


def is_directory(descriptor: int) -> bool:
    return stat.S_ISDIR(os.fstat(descriptor).st_mode)


def test_bytes_are_synced_before_the_name_and_the_directory_before_the_answer(
    log: LocalLogStore, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    note = steps.append
    monkeypatch.setattr(
        os, "fsync", first(lambda fd: note("sync directory" if is_directory(fd) else "sync file"), os.fsync)
    )
    monkeypatch.setattr(os, "link", first(lambda *_: note("link"), os.link))
    monkeypatch.setattr(os, "unlink", first(lambda name: name.endswith(".crc") or note("unlink"), os.unlink))
    assert log.put_if_absent(COMMIT, b"body") is PutOutcome.WRITTEN
    unlink = ["unlink"] if way == "hidden" else []
    assert steps == ["sync file", "link", *unlink, "sync directory"]


def test_file_names_are_on_disk_before_the_file_that_refers_to_them_takes_its_name(
    root: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that keeps names in their order needs no sync for it; any other takes all of them in one."""
    store = LocalLogStore(str(root), ICEBERG, ".metadata.json")
    store.put_if_absent("made", b"")
    steps: list[str] = []
    note = steps.append
    monkeypatch.setattr(
        os, "fsync", first(lambda fd: note("sync directory" if is_directory(fd) else "sync file"), os.fsync)
    )
    monkeypatch.setattr(os, "link", first(lambda *names: note(f"link {names[1].rpartition('/')[2]}"), os.link))
    for name in ("a.avro", "b.avro", "v1.metadata.json"):
        assert store.put_if_absent(name, b"body") is PutOutcome.WRITTEN
    named = ["sync file", "link a.avro", "sync file", "link b.avro"]
    before = [] if way == "nameless" else ["sync directory"]
    assert steps == [*named, "sync file", *before, "link v1.metadata.json", "sync directory"]


def test_a_file_that_names_others_is_not_put_where_their_names_cannot_be_synced(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "keeps_names", lambda _: False)
    store = LocalLogStore(str(root), ICEBERG, ".metadata.json")
    store.put_if_absent("a.avro", b"body")
    monkeypatch.setattr(os, "fsync", failing(errno.EIO, is_directory, os.fsync))
    with pytest.raises(StorageError, match="The call left nothing behind"):
        store.put_if_absent("v1.metadata.json", b"body")
    assert os.listdir(root / ICEBERG) == ["a.avro"]


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_directory_that_cannot_be_synced_is_not_durable_though_visible(
    log: LocalLogStore, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(os, "fsync", failing(code, is_directory, os.fsync))
    assert log.put_if_absent(COMMIT, b"body") is PutOutcome.NOT_DURABLE
    assert log.read(COMMIT) == b"body"


def test_a_directory_that_cannot_be_opened_for_its_sync_is_not_durable(
    log: LocalLogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    opens_directory = lambda _path, flags, *_: flags & os.O_TMPFILE == os.O_DIRECTORY  # noqa: E731
    monkeypatch.setattr(os, "open", failing(errno.EMFILE, opens_directory, os.open))
    assert log.put_if_absent(COMMIT, b"body") is PutOutcome.NOT_DURABLE


def test_a_temporary_name_that_cannot_be_removed_changes_nothing(
    log: LocalLogStore, way: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "unlink", failing(errno.EIO))
    assert log.put_if_absent(COMMIT, b"body") is PutOutcome.WRITTEN
    assert log.put_if_absent(COMMIT, b"other") is PutOutcome.ALREADY_EXISTS
    assert len(names_on_disk(root)) == (3 if way == "hidden" else 1), "of a hidden name each, two should have stayed"
    assert [meta.name for meta in log.list_from("")] == [COMMIT]


def test_a_write_that_takes_the_bytes_in_pieces_is_finished(
    log: LocalLogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:7]))
    body = bytes(range(100))
    assert log.put_if_absent(COMMIT, body) is PutOutcome.WRITTEN
    assert log.read(COMMIT) == body


def test_a_write_that_reports_a_wrong_length_never_gets_the_name(
    log: LocalLogStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: (write(fd, data[: len(data) // 2]), len(data))[1])
    with pytest.raises(StorageError, match="100 bytes were written but the file has 50"):
        log.put_if_absent(COMMIT, b"x" * 100)
    assert names_on_disk(root) == []


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EIO, errno.EDQUOT])
@pytest.mark.parametrize("call", ["open", "write", "fsync"])
def test_a_failure_before_the_name_is_taken_is_definite_and_leaves_nothing(
    log: LocalLogStore, root: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(os, call, failing(code))
        with pytest.raises(StorageError) as caught:
            log.put_if_absent(COMMIT, b"body")
    assert COMMIT in str(caught.value)
    assert names_on_disk(root) == []
    assert log.put_if_absent(COMMIT, b"body") is PutOutcome.WRITTEN


def test_a_synced_commit_that_cannot_be_closed_is_written_all_the_same(
    log: LocalLogStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def file_closed(descriptor: int) -> None:
        is_file = not is_directory(descriptor)
        close(descriptor)
        if is_file:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    close = os.close
    with monkeypatch.context() as broken:
        broken.setattr(os, "close", file_closed)
        assert log.put_if_absent(COMMIT, b"body") is PutOutcome.WRITTEN
    assert names_on_disk(root) == [COMMIT]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EROFS])
def test_a_put_whose_hard_link_is_refused_is_a_definite_failure(
    log: LocalLogStore, root: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(os, "link", failing(code))
    with pytest.raises(StorageError, match=os.strerror(code)):
        log.put_if_absent(COMMIT, b"body")
    assert names_on_disk(root) == []


def test_a_put_whose_hard_link_lands_and_reports_an_error_is_unknown(
    log: LocalLogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def landed_and_failed(*names: str, **options: Any) -> None:
        link(*names, **options)
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(os, "link", landed_and_failed)
    assert log.put_if_absent(COMMIT, b"body") is PutOutcome.UNKNOWN
    assert log.read(COMMIT) == b"body"


@pytest.mark.parametrize("way", ["hidden"], indirect=True)
def test_a_resent_link_that_finds_its_own_name_has_won(log: LocalLogStore, monkeypatch: pytest.MonkeyPatch) -> None:
    link = os.link

    def sent_twice(*names: str) -> None:
        link(*names)
        link(*names)

    monkeypatch.setattr(os, "link", sent_twice)
    assert log.put_if_absent(COMMIT, b"body") is PutOutcome.WRITTEN


@pytest.mark.parametrize("code", [errno.EPERM, errno.EOPNOTSUPP])
def test_without_hard_links_an_exclusive_rename_takes_the_name(
    log: LocalLogStore, root: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(os, "link", failing(code))
    assert log.put_if_absent(COMMIT, b"first") is PutOutcome.WRITTEN
    assert log.put_if_absent(COMMIT, b"second") is PutOutcome.ALREADY_EXISTS
    assert log.read(COMMIT) == b"first"
    assert names_on_disk(root) == [COMMIT]


def test_without_hard_links_and_exclusive_rename_the_put_is_refused(
    log: LocalLogStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", failing(errno.EPERM))
    monkeypatch.setattr(disk, "_renameat2", lambda: None)
    with pytest.raises(StorageError, match="neither hard links nor an exclusive rename"):
        log.put_if_absent(COMMIT, b"body")
    assert names_on_disk(root) == []


def test_an_interrupt_before_the_name_is_taken_leaves_nothing(
    log: LocalLogStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        log.put_if_absent(COMMIT, b"body")
    assert names_on_disk(root) == []


CRASH = """
import os, signal, sys
from txlog.core.store import _local_disk as disk
from txlog.core.store._local_store import LocalLogStore
disk.keeps_names = lambda _: sys.argv[4] == "nameless"
log = LocalLogStore(sys.argv[1])
real = getattr(os, sys.argv[2])
def die(*arguments, **options):
    if not str(arguments[0]).endswith(".crc"):
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*arguments)
setattr(os, sys.argv[2], die)
log.put_if_absent(sys.argv[3], b"from the dead")
"""


@pytest.mark.parametrize(
    ("way", "call", "is_visible"),
    [("hidden", "link", False), ("hidden", "unlink", True), ("nameless", "link", False)],
    indirect=["way"],
)
def test_a_writer_killed_at_a_step_leaves_a_whole_commit_or_none(
    log: LocalLogStore, way: str, root: Path, call: str, is_visible: bool
) -> None:
    died = subprocess.run([sys.executable, "-c", CRASH, str(root), call, COMMIT, way], check=False)
    assert died.returncode == -signal.SIGKILL
    assert len([name for name in names_on_disk(root) if name.endswith(".tmp")]) == (1 if way == "hidden" else 0)
    assert [meta.name for meta in log.list_from("")] == ([COMMIT] if is_visible else [])
    outcome = log.put_if_absent(COMMIT, b"from the living")
    assert outcome is (PutOutcome.ALREADY_EXISTS if is_visible else PutOutcome.WRITTEN)
    assert log.read(COMMIT) == (b"from the dead" if is_visible else b"from the living")


def test_only_temporary_files_of_crashed_writers_are_removed_after_a_day(log: LocalLogStore, root: Path) -> None:
    directory = root / "_delta_log"
    stale = directory / f".{COMMIT}.123e4567-e89b-42d3-a456-426614174000.tmp"
    fresh = directory / f".{SECOND}.123e4567-e89b-42d3-a456-426614174001.tmp"
    foreign = directory / ".keep.tmp"
    for path in (stale, fresh, foreign):
        path.write_bytes(b"")
    for path in (stale, foreign):
        os.utime(path, (1_000_000, 1_000_000))
    log.put("_last_checkpoint", b"{}")
    assert not stale.exists()
    assert fresh.exists()
    assert foreign.exists()


def test_the_first_put_makes_every_new_directory_durable(root: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that keeps names in their order has the folders once it has the name of a file in them."""
    synced = synced_inodes(monkeypatch)
    before_link = list[int]()
    monkeypatch.setattr(os, "link", first(lambda *_: before_link.extend(synced), os.link))
    deep = root / "a" / "b"
    LocalLogStore(str(deep)).put_if_absent(COMMIT, b"body")
    file, log = ((deep / "_delta_log" / name).stat().st_ino for name in (COMMIT, "."))
    above = [directory.stat().st_ino for directory in (root.parent, root, root / "a", deep)]
    assert sorted(before_link) == sorted([file, *(above if way == "hidden" else [])])
    assert synced == [*before_link, log]


def test_a_log_directory_made_by_another_is_synced_by_the_first_put_and_by_no_later_one(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "keeps_names", lambda _: False)
    LocalLogStore(str(root)).put_if_absent("_made", b"")
    other = LocalLogStore(str(root))
    synced = synced_inodes(monkeypatch)
    other.put_if_absent(COMMIT, b"body")
    assert root.stat().st_ino in synced
    synced.clear()
    other.put_if_absent(SECOND, b"body")
    assert root.stat().st_ino not in synced


def test_a_found_commit_is_synced_with_its_directory(
    log: LocalLogStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.put_if_absent(COMMIT, b"body")
    synced = synced_inodes(monkeypatch)
    log.make_durable(COMMIT)
    assert synced == [(root / "_delta_log" / COMMIT).stat().st_ino, (root / "_delta_log").stat().st_ino]


def test_making_a_found_commit_durable_fails_loudly(log: LocalLogStore, monkeypatch: pytest.MonkeyPatch) -> None:
    log.put_if_absent(COMMIT, b"body")
    monkeypatch.setattr(os, "fsync", failing(errno.EIO))
    with pytest.raises(StorageError, match=COMMIT):
        log.make_durable(COMMIT)


def test_replacing_a_hint_removes_the_checksum_that_spark_keeps_of_it(log: LocalLogStore, root: Path) -> None:
    checksum = root / "_delta_log" / "._last_checkpoint.crc"
    log.put("_last_checkpoint", b"{}")
    checksum.write_bytes(b"stale")
    log.put("_last_checkpoint", b"{ }")
    assert not checksum.exists()


def test_only_plain_files_with_log_names_are_listed(log: LocalLogStore, root: Path) -> None:
    directory = root / "_delta_log"
    log.put_if_absent(COMMIT, b"body")
    (directory / "_sidecars").mkdir()
    (directory / f".{SECOND}.crc").write_bytes(b"")
    (directory / f"{SECOND}#1").write_bytes(b"left by another client")
    (directory / "mine.json").symlink_to("/etc/hostname")
    (directory / f"{SECOND}.d").mkdir()
    assert [meta.name for meta in log.list_from("")] == [COMMIT]


@pytest.mark.parametrize("leads_to", ["/etc/hostname", "absent", SECOND])
def test_a_file_of_the_log_that_is_a_symbolic_link_is_an_error_that_says_so(
    leads_to: str, log: LocalLogStore, root: Path
) -> None:
    log.put_if_absent(COMMIT, b"body")
    (root / "_delta_log" / SECOND).symlink_to(leads_to)
    refused = pytest.raises(StorageError, match=f"{SECOND} is a symbolic link, .* Replace the link by what it leads to")
    with refused:
        log.list_from("")
    with refused:
        log.read(SECOND)
    with refused:
        log.make_durable(SECOND)
    (root / "_delta_log" / "_sidecars").mkdir()
    (root / "_delta_log" / "_sidecars" / "a.parquet").symlink_to(leads_to)
    with pytest.raises(StorageError, match=r"a\.parquet is a symbolic link"):
        log.read("_sidecars/a.parquet")


def test_a_file_below_the_log_is_read_but_not_through_a_symbolic_link(log: LocalLogStore, root: Path) -> None:
    sidecars = root / "_delta_log" / "_sidecars"
    sidecars.mkdir()
    (sidecars / "a.parquet").write_bytes(b"PAR1")
    assert log.read("_sidecars/a.parquet") == b"PAR1"
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "a.parquet").write_bytes(b"secret")
    (root / "_delta_log" / "_elsewhere").symlink_to(outside)
    with pytest.raises(StorageError, match="symbolic link"):
        log.read("_elsewhere/a.parquet")


def race(root: str, racer: int, versions: int, barrier: Any, won: Any) -> None:
    log = LocalLogStore(root)
    for version in range(versions):
        barrier.wait()
        if log.put_if_absent(f"{version:020}.json", f"racer {racer}".encode()) is PutOutcome.WRITTEN:
            won.put((version, racer))


def test_processes_that_race_have_one_winner_for_each_version(root: Path) -> None:
    processes = multiprocessing.get_context("fork")
    barrier, won = processes.Barrier(4), processes.Queue()
    racers = [processes.Process(target=race, args=(str(root), racer, 25, barrier, won)) for racer in range(4)]
    for racer in racers:
        racer.start()
    winners = dict(won.get(timeout=30) for _ in range(25))
    for racer in racers:
        racer.join(30)
        assert racer.exitcode == 0
    assert won.empty()
    log = LocalLogStore(str(root))
    assert {version: f"racer {racer}".encode() for version, racer in winners.items()} == {
        version: log.read(f"{version:020}.json") for version in range(25)
    }


def test_stores_pickle(log: LocalLogStore, root: Path) -> None:
    log.put_if_absent(COMMIT, b"body")
    assert pickle.loads(pickle.dumps(log)).read(COMMIT) == b"body"
    files = LocalFileStore(str(root))
    assert pickle.loads(pickle.dumps(files)).stat(f"_delta_log/{COMMIT}").size == 4


def written(files: LocalFileStore, path: str) -> None:
    output = files.create(path)
    output.sink.write(b"bytes")
    output.publish()


def test_a_file_in_progress_has_a_hidden_name_in_its_own_directory(root: Path) -> None:
    output = LocalFileStore(str(root)).create("day=1/part.parquet")
    assert os.listdir(root / "day=1") == [".part.parquet.inprogress"]
    output.abort()
    assert os.listdir(root / "day=1") == []


def test_a_published_file_is_synced_before_it_gets_its_name(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = LocalFileStore(str(root)).create("part.parquet")
    output.sink.write(b"bytes")
    monkeypatch.setattr(disk, "keeps_names", lambda _: True)
    steps: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: steps.append(f"sync {os.fstat(fd).st_size} bytes"))
    monkeypatch.setattr(os, "link", first(lambda *_: steps.append("link"), os.link))
    output.publish()
    assert steps == ["sync 5 bytes", "link"]
    assert os.listdir(root) == ["part.parquet"]


def test_a_file_that_cannot_be_synced_is_not_published(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = LocalFileStore(str(root)).create("part.parquet")
    output.sink.write(b"bytes")
    monkeypatch.setattr(os, "fsync", failing(errno.EIO))
    with pytest.raises(StorageError, match=r"publish part\.parquet"):
        output.publish()
    assert os.listdir(root) == []


def test_a_synced_file_that_cannot_be_closed_is_published_all_the_same(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = LocalFileStore(str(root)).create("part.parquet")
    output.sink.write(b"bytes")
    with monkeypatch.context() as broken:
        broken.setattr(os, "close", closed_and(errno.EIO))
        assert output.publish().size == 5
    assert os.listdir(root) == ["part.parquet"]


def test_a_file_shorter_than_what_was_written_is_not_published(root: Path) -> None:
    output = LocalFileStore(str(root)).create("part.parquet")
    output.sink.write(b"bytes")
    os.truncate(root / ".part.parquet.inprogress", 3)
    with pytest.raises(StorageError, match="5 bytes were written but the file has 3"):
        output.publish()
    assert os.listdir(root) == []


@pytest.mark.parametrize(("kind", "has_journal"), [("btrfs", True), ("ext4", False)])
def test_only_file_systems_known_to_sync_nameless_files_are_given_them(
    kind: str, has_journal: bool, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "_file_system", lambda _: kind)
    monkeypatch.setattr(disk, "_has_journal", lambda _: has_journal)
    monkeypatch.setattr(disk, "_journals_names", disk._journals_names.__wrapped__)  # forgets what it knew
    opened: list[int] = []
    monkeypatch.setattr(os, "open", first(lambda *given: opened.append(given[1]), os.open))
    LocalFileStore(str(root)).write("part.parquet", b"bytes")
    assert LocalLogStore(str(root)).put_if_absent(COMMIT, b"body") is PutOutcome.WRITTEN
    assert not any(flags & os.O_TMPFILE == os.O_TMPFILE for flags in opened)
    assert (root / "part.parquet").read_bytes() == b"bytes"


@pytest.mark.usefixtures("way")
def test_a_file_written_in_one_piece_is_complete_and_synced_with_its_name(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One journal transaction then takes both. No process looks for that name before a commit has it."""
    steps: list[str] = []
    path = root / "d" / "part.parquet"
    where = {True: "there", False: "not there"}
    monkeypatch.setattr(os, "fsync", lambda fd: steps.append(f"sync {os.fstat(fd).st_size}, {where[path.exists()]}"))
    link = os.link

    def linked(name: str, *args: Any, **kwargs: Any) -> None:
        steps.append(f"link {os.stat(name).st_size}")
        link(name, *args, **kwargs)

    monkeypatch.setattr(os, "link", linked)
    meta = LocalFileStore(str(root)).write("d/part.parquet", b"bytes")
    assert (meta.name, meta.size) == ("d/part.parquet", 5)
    assert steps == ["link 5", "sync 5, there"]
    assert os.listdir(root / "d") == ["part.parquet"]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("call", ["write", "fsync", "link"])
def test_a_file_written_in_one_piece_is_complete_or_absent(
    call: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, call, failing(errno.EIO))
    with pytest.raises(StorageError, match=r"could not write part\.parquet"):
        LocalFileStore(str(root)).write("part.parquet", b"bytes")
    assert os.listdir(root) == []


@pytest.mark.parametrize(
    ("call", "code"),
    [("open", errno.EOPNOTSUPP), ("open", errno.EISDIR), ("link", errno.ENOENT), ("link", errno.EXDEV)],
)
def test_where_no_file_can_be_without_a_name_it_has_a_hidden_one(
    call: str, code: int, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "keeps_names", lambda _: True)
    real = getattr(os, call)

    def refused(*args: Any, **kwargs: Any) -> Any:
        nameless = kwargs if call == "link" else args[1] & os.O_TMPFILE == os.O_TMPFILE
        return failing(code)(*args) if nameless else real(*args, **kwargs)

    monkeypatch.setattr(os, call, refused)
    meta = LocalFileStore(str(root)).write("part.parquet", b"bytes")
    assert (meta.size, os.listdir(root)) == (5, ["part.parquet"])
    assert (root / "part.parquet").read_bytes() == b"bytes"


def test_a_taken_name_is_not_written_over(root: Path) -> None:
    root.mkdir()
    (root / "part.parquet").write_bytes(b"early")
    with pytest.raises(StorageError, match=r"part\.parquet"):
        LocalFileStore(str(root)).write("part.parquet", b"late")
    assert (root / "part.parquet").read_bytes() == b"early"


def test_a_taken_name_is_never_overwritten(root: Path) -> None:
    files = LocalFileStore(str(root))
    output = files.create("part.parquet")
    output.sink.write(b"late")
    (root / "part.parquet").write_bytes(b"early")
    with pytest.raises(StorageError, match=r"part\.parquet"):
        output.publish()
    assert (root / "part.parquet").read_bytes() == b"early"
    assert os.listdir(root) == ["part.parquet"]


def test_new_directories_are_synced_once_for_many_files_and_then_only_where_files_are(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = LocalFileStore(str(root))
    paths = [f"year=1/day={day}/part-{number}.parquet" for day in (1, 2) for number in (1, 2, 3)]
    for path in paths:
        written(files, path)
    synced = synced_inodes(monkeypatch)
    files.make_durable(paths)
    leaves = [root / "year=1" / "day=1", root / "year=1" / "day=2"]
    expected = [*leaves, root / "year=1", root, root.parent]
    assert sorted(synced) == sorted(directory.stat().st_ino for directory in expected)
    synced.clear()
    files.make_durable(paths)
    assert sorted(synced) == sorted(directory.stat().st_ino for directory in leaves)


def test_a_directory_that_was_removed_and_made_again_is_synced_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A vacuum removes what is empty; the name of the new one is not on disk because that of the old one was."""
    files = LocalFileStore(str(root))
    for path in ("year=1/day=1/a.parquet", "year=1/day=2/a.parquet"):
        written(files, path)
        files.make_durable([path])
    shutil.rmtree(root / "year=1" / "day=1")
    written(files, "year=1/day=1/b.parquet")
    synced = synced_inodes(monkeypatch)
    files.make_durable(["year=1/day=1/b.parquet"])
    assert {(root / "year=1").stat().st_ino, (root / "year=1" / "day=1").stat().st_ino} <= set(synced)


def test_a_log_directory_that_was_removed_and_made_again_is_synced_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a location that proved unfit for a table, and is tried again."""
    monkeypatch.setattr(disk, "keeps_names", lambda _: False)
    log = LocalLogStore(str(root))
    log.put_if_absent(COMMIT, b"body")
    log.delete(COMMIT)
    log.remove_new_directories()
    assert not root.exists()
    synced = synced_inodes(monkeypatch)
    log.put_if_absent(COMMIT, b"body")
    for directory in (root.parent, root, root / "_delta_log"):
        assert directory.stat().st_ino in synced, f"{directory} was not synced"


def test_a_directory_of_data_files_that_cannot_be_synced_is_an_error(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = LocalFileStore(str(root))
    written(files, "day=1/part.parquet")
    monkeypatch.setattr(os, "fsync", failing(errno.EIO))
    with pytest.raises(StorageError, match="day=1"):
        files.make_durable(["day=1/part.parquet"])


def test_no_symbolic_link_leads_a_read_a_write_or_a_delete_out_of_the_table(root: Path) -> None:
    files = LocalFileStore(str(root))
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "victim.parquet").write_bytes(b"bytes")
    root.mkdir()
    (root / "day=1").symlink_to(outside)
    for ask in (files.open, files.stat, files.create, files.delete):
        with pytest.raises(StorageError, match="symbolic link"):
            ask("day=1/victim.parquet")
    assert os.listdir(outside) == ["victim.parquet"]


def test_a_symbolic_link_within_the_table_and_a_linked_table_are_fine(root: Path) -> None:
    (root / "real").mkdir(parents=True)
    (root / "real" / "part.parquet").write_bytes(b"bytes")
    (root / "alias").symlink_to("real")
    (root.parent / "linked").symlink_to(root)
    assert LocalFileStore(str(root)).stat("alias/part.parquet").size == 5
    assert LocalFileStore(str(root.parent / "linked")).stat("alias/part.parquet").size == 5


def test_a_list_of_files_follows_no_symbolic_link(root: Path) -> None:
    """Neither out of the table nor round in circles."""
    (root / "real").mkdir(parents=True)
    (root / "real" / "part.parquet").write_bytes(b"bytes")
    (root / "alias").symlink_to("real")
    (root / "real" / "up").symlink_to(root)
    (root / "part.parquet").symlink_to("real/part.parquet")
    listed = [meta.name for page in LocalFileStore(str(root)).list() for meta in page]
    assert listed == ["real/part.parquet"]


def test_files_and_folders_that_vanish_while_they_are_listed_are_left_out(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in ("a/gone", "b/kept"):
        (root / path).parent.mkdir(parents=True)
        (root / path).write_bytes(b"x")

    def vanish(folder: str) -> bool:
        shutil.rmtree(root / "a", ignore_errors=True)
        return False

    listed = [meta.name for page in LocalFileStore(str(root)).list(skip=vanish) for meta in page]
    assert listed == ["b/kept"]


def test_a_folder_that_may_not_be_listed_is_a_storage_error(root: Path) -> None:
    (root / "day=1").mkdir(parents=True)
    (root / "day=1" / "part").write_bytes(b"x")
    with pytest.raises(StorageError, match="could not list"):
        list(LocalFileStore(str(root)).list("day=1/part"))


def test_an_absent_file_is_not_found_and_a_directory_is_not_a_file(root: Path) -> None:
    files = LocalFileStore(str(root))
    with pytest.raises(NotFoundError):
        files.open("part.parquet")
    (root / "day=1").mkdir(parents=True)
    with pytest.raises(StorageError):
        files.open("day=1")


def test_a_relative_path_in_a_deleted_working_directory_is_a_typed_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "away").mkdir()
    monkeypatch.chdir(tmp_path / "away")
    (tmp_path / "away").rmdir()
    with pytest.raises(StorageError, match="the working directory was deleted: pass an absolute path"):
        local_table_store("t")


def _without_directory_syncs(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(code, os.strerror(code))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(disk, "_warned_of", set())
    monkeypatch.setattr(disk, "keeps_names", lambda directory: False)


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOTSUP, errno.ENOSYS], ids=errno.errorcode.get)
def test_a_drive_that_syncs_no_directories_is_written_and_warned_of_once(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _without_directory_syncs(monkeypatch, code)
    for name in ("a", "b"):
        txlog.write(tmp_path / name / "t", pa.table({"id": [1]}))
        txlog.Table.open(tmp_path / name / "t").append(pa.table({"id": [2]}))
        found = deltalake.DeltaTable(tmp_path / name / "t").to_pyarrow_table()
        assert sorted(found["id"].to_pylist()) == [1, 2]
    assert caplog.text.count("syncs no directories") == 1


def test_a_directory_whose_sync_fails_is_still_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _without_directory_syncs(monkeypatch, errno.EIO)
    with pytest.raises(txlog.StorageError, match=r"could not (sync|write)"):
        txlog.write(tmp_path / "t", pa.table({"id": [1]}))


def test_a_drive_without_exclusive_names_is_refused_unless_the_risk_is_taken_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    def no_rename(*_: Any) -> int:
        ctypes.set_errno(errno.ENOSYS)
        return -1

    monkeypatch.setattr(os, "link", unsupported)
    monkeypatch.setattr(disk, "_renameat2", lambda: no_rename)
    uri, rows, unsafe = tmp_path / "t", pa.table({"id": [1]}), {"allow_unsafe_rename": "true"}
    with pytest.raises(txlog.StorageError, match=r"neither hard links nor .*allow_unsafe_rename=true"):
        txlog.write(uri, rows)
    assert not list(tmp_path.rglob("*.parquet"))
    assert txlog.write(uri, rows, storage_options=unsafe).version == 0
    table = txlog.Table.open(uri, storage_options=unsafe)
    assert table.append(rows).version == 1
    store = pickle.loads(pickle.dumps(open_store(uri, unsafe).log))
    assert store.put_if_absent(f"{1:020}.json", b"another") is PutOutcome.ALREADY_EXISTS
    assert deltalake.DeltaTable(uri).to_pyarrow_table().num_rows == 2
