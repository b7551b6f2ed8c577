"""What each operation asks of the store, counted: it follows from what is new, never from what the table holds."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import orjson
import pyarrow as pa
import pytest

import txlog
from txlog.core import ambient
from txlog.core.definition import create_table
from txlog.core.format.log_names import LAST_CHECKPOINT, LogFileKind, commit_name, parse_log_name
from txlog.core.store import PutOutcome, TableStore
from txlog.core.store._base import LOCAL_DISK, OBJECT_STORE
from txlog.core.versions import OpenTable
from txlog.core.versions.upkeep._version_checksum import write_checksum
from txlog.testing.faults import FaultyFileStore, FaultyLogStore
from txlog.testing.memory_store import MemoryLogStore, memory_table_store

SCHEMA = pa.schema([("id", pa.int64())])
ROW = pa.table({"id": [1]})
TAIL = 3  # commits after the checkpoint
SMALL, LARGE = (6, 1), (150, 20)  # versions, and files that each of them adds
Asked = list[tuple[str, str]]


class DirectoryLog(MemoryLogStore):
    """Answers as a local directory does: its listing may miss names, so that each has to be asked for."""

    capabilities = LOCAL_DISK


class BucketLog(MemoryLogStore):
    capabilities = OBJECT_STORE


@pytest.fixture(params=[DirectoryLog, BucketLog], ids=["directory", "bucket"])
def log_of(request: pytest.FixtureRequest) -> Any:
    return request.param


class MinutesLater(ambient.Ambient):
    """When a kernel has long written what others did not sync."""

    def now_ms(self) -> int:
        return super().now_ms() + 600_000


class Counted:
    """A handle on a table with this many versions; notes its requests to the log while it is ``watched``."""

    def __init__(self, log: MemoryLogStore, versions: int, files_each: int) -> None:
        self.base = TableStore("memory:///t", log, memory_table_store().files)
        self.newest = 0
        open_table = OpenTable(self.base)
        create_table(open_table, SCHEMA, (), {"delta.checkpointInterval": "100000"})
        self.others_add(versions - TAIL, files_each)
        open_table.log.write_checkpoint(open_table.log.newest_state())
        self.others_add(TAIL, files_each)
        self.reopen()

    def reopen(self) -> None:
        self.log = FaultyLogStore(self.base.log)
        self.open_table = OpenTable(TableStore("memory:///t", self.log, FaultyFileStore(self.base.files)))
        self.table = txlog.Table(self.open_table)

    def others_add(self, commits: int, files_each: int = 1) -> None:
        for version in range(self.newest + 1, self.newest + commits + 1):
            lines: list[dict[str, Any]] = [{"commitInfo": {"operation": "WRITE", "isBlindAppend": True}}]
            for number in range(files_each):
                add = {"path": f"{version}-{number}", "partitionValues": {}, "size": 1, "modificationTime": 1}
                lines.append({"add": {**add, "dataChange": True, "stats": '{"numRecords":1}'}})
            body = b"".join(orjson.dumps(line) + b"\n" for line in lines)
            assert self.base.log.put_if_absent(commit_name(version), body) is PutOutcome.WRITTEN
        self.newest += commits

    def append(self) -> None:
        self.table.append(ROW)
        self.open_table.post_commit.drain()
        self.newest += 1

    def asked(self, work: Callable[[], object]) -> Asked:
        """The requests of ``work`` to the log, and of what follows it: operation and name, versions relative to the
        newest."""
        newest = self.newest
        _wait_for_requests()
        self.log.calls.clear()
        with ambient.use(MinutesLater()):
            work()
        self.open_table.post_commit.drain()
        _wait_for_requests()
        return [(operation, _named(name, newest)) for operation, name in self.log.calls]


def _wait_for_requests() -> None:
    """For those, too, whose answers nobody needed."""
    for thread in threading.enumerate():
        if thread.name == "txlog-work":
            thread.join(30)


def _named(name: str, newest: int) -> str:
    """``commit+1`` for the commit after the newest one."""
    parsed = parse_log_name(name)
    if parsed is None:
        return f"{int(name) - newest:+d}" if name.isdecimal() else name
    return f"{parsed.kind.value}{parsed.version - newest:+d}"


def not_asked_ahead(asked: Asked) -> Asked:
    """Without what a bucket is asked for beside the list of the log, before it is known to be there: the commits of
    about one checkpoint's interval, and the hint's own."""
    beyond = names(2, 30) | {f"{LogFileKind.COMMIT.value}{-TAIL}"}
    return [(operation, name) for operation, name in asked if operation != "read" or name not in beyond]


def in_both_sizes(log_of: Any, story: Callable[[Counted], Asked]) -> Asked:
    """What is asked of a small table, which is what is asked of a large one."""
    small, large = (story(Counted(log_of(), *size)) for size in (SMALL, LARGE))
    assert sorted(small) == sorted(large)  # some are sent at the same time
    return small


def commits_read(asked: Asked) -> Counter[str]:
    return Counter(name for operation, name in asked if operation == "read" and name.startswith("commit"))


def count(asked: Asked, operation: str) -> int:
    return sum(called == operation for called, _ in asked)


def names(first: int, last: int) -> set[str]:
    return {f"{LogFileKind.COMMIT.value}{version:+d}" for version in range(first, last + 1)}


def known_version_too(log_of: Any, number: int = 0) -> set[str]:
    """In a bucket, a handle reads the version that it looked at a minute ago again, at the same time as the next one:
    the table may have been dropped and created again."""
    return {f"commit{number:+d}"} if log_of is BucketLog else set()


def test_a_table_is_opened_by_its_hint_its_checkpoint_and_the_commits_since(log_of: Any) -> None:
    asked = in_both_sizes(log_of, lambda handle: not_asked_ahead(handle.asked(handle.table.snapshot)))
    assert count(asked, "list_from") <= 1
    assert [name for operation, name in asked if operation == "read" and name == LAST_CHECKPOINT] == [LAST_CHECKPOINT]
    assert names(1 - TAIL, 0) <= set(commits_read(asked)) <= names(1 - TAIL, 1)
    assert max(commits_read(asked).values()) == 1
    assert {name for _, name in asked if name.startswith("checkpoint")} == {f"checkpoint-{TAIL}"}


def test_an_append_in_an_open_handle_is_one_put_and_a_look_for_the_next_commit(log_of: Any) -> None:
    def story(handle: Counted) -> Asked:
        handle.append()
        return handle.asked(handle.append)

    asked = in_both_sizes(log_of, story)
    assert count(asked, "put_if_absent") == 1
    assert count(asked, "list_from") == 0
    looked = known_version_too(log_of, -1)  # not the own commit of since then
    assert set(commits_read(asked)) == {"commit+1"} | looked
    assert {name for _, name in asked} <= {"commit+1", "commit+0"} | looked


def test_a_handle_that_is_behind_reads_the_new_commits_and_nothing_else(log_of: Any) -> None:
    def story(handle: Counted) -> Asked:
        handle.table.snapshot()
        newest = handle.newest
        handle.others_add(7)
        handle.newest, now = newest, handle.newest
        asked = handle.asked(handle.table.snapshot)
        assert handle.table.snapshot().version == now
        return asked

    asked = in_both_sizes(log_of, story)
    assert {name: times for name, times in commits_read(asked).items() if name != "commit+8"} == dict.fromkeys(
        names(1, 7) | known_version_too(log_of), 1
    )
    assert count(asked, "list_from") <= 1
    # where a look is free: whether the version that was known is the same file still, and what the newest is
    assert count(asked, "stat") == (2 if log_of is DirectoryLog else 0)


def test_a_held_list_of_files_is_carried_on_by_the_own_last_commit_without_reading_it(log_of: Any) -> None:
    def story(handle: Counted) -> Asked:
        held = handle.table.snapshot().files()
        handle.append()
        state = handle.open_table.log.newest_state()
        lists = []
        asked = handle.asked(lambda: lists.append(handle.open_table.log.files(state)))
        assert sorted(lists[0]["path"].to_pylist()) == sorted(
            OpenTable(handle.base).log.files(state)["path"].to_pylist()
        )
        assert len(lists[0]) == len(held) + 1
        return asked

    assert in_both_sizes(log_of, story) == []


def test_a_list_of_files_that_is_still_held_is_carried_on_by_the_new_commits(log_of: Any) -> None:
    def story(handle: Counted) -> Asked:
        held = handle.table.snapshot().files()
        handle.others_add(5)
        handle.newest -= 5
        asked = handle.asked(lambda: handle.table.snapshot().files())
        assert held.num_rows
        return asked

    asked = in_both_sizes(log_of, story)
    assert (
        names(1, 5) <= set(commits_read(asked)) <= names(1, 8) | known_version_too(log_of)
    )  # at most twice as many as there are


def after_others_land(commits: int) -> Callable[[Counted], Asked]:
    """An append before whose put other writers commit."""

    def story(handle: Counted) -> Asked:
        handle.append()

        def others_first(real: Any, name: str, body: bytes) -> PutOutcome:
            handle.others_add(commits)
            handle.newest -= commits
            return real(name, body)  # type: ignore[no-any-return]

        handle.log.script["put_if_absent"] = [others_first]
        return handle.asked(handle.append)

    return story


def test_an_append_that_loses_once_reads_it_back_and_puts_again_immediately_in_a_bucket() -> None:
    asked = in_both_sizes(BucketLog, after_others_land(1))
    begin = asked.index(("put_if_absent", "commit+1"))
    assert asked[begin:] == [
        ("put_if_absent", "commit+1"),
        ("read", "commit+1"),
        ("put_if_absent", "commit+2"),
    ]


def test_an_append_that_loses_to_many_commits_reads_them_with_one_list(log_of: Any) -> None:
    asked = in_both_sizes(log_of, after_others_land(4))
    assert count(asked, "put_if_absent") <= 3
    assert count(asked, "list_from") <= 1
    assert names(1, 4) <= set(commits_read(asked)) <= names(0, 5) | known_version_too(log_of, -1)


def test_a_checkpoint_reads_the_last_one_and_the_commits_since(log_of: Any) -> None:
    def story(handle: Counted) -> Asked:
        handle.table.snapshot()
        return handle.asked(handle.table.create_checkpoint)

    asked = in_both_sizes(log_of, story)
    assert set(commits_read(asked)) <= names(1 - TAIL, 1)
    assert [name for operation, name in asked if operation == "put_if_absent"] == ["checkpoint+0", "checksum+0"]
    assert [name for operation, name in asked if operation == "put"] == [LAST_CHECKPOINT]
    assert {name for operation, name in asked if name.startswith("checkpoint")} == {
        "checkpoint+0",
        f"checkpoint-{TAIL}",
    }


def test_a_fresh_handle_appends_for_what_opening_and_one_put_cost(log_of: Any) -> None:
    """The first write besides tries a remote store's condition on the newest commit, which must not be replaced."""
    asked = in_both_sizes(log_of, lambda handle: not_asked_ahead(handle.asked(handle.append)))
    probed = ["commit+0"] if log_of is BucketLog else []
    assert [name for operation, name in asked if operation == "put_if_absent"] == [*probed, "commit+1"]
    assert count(asked, "list_from") <= 1
    assert set(commits_read(asked)) <= names(1 - TAIL, 1)


def test_a_checksum_file_spares_the_checkpoint_and_the_commits_before_it(log_of: Any) -> None:
    def story(handle: Counted) -> Asked:
        table = txlog.Table(OpenTable(handle.base))
        table.create_checkpoint()
        assert write_checksum(table._open_table.log, table._open_table.log.newest_state())
        handle.others_add(2)
        return not_asked_ahead(handle.asked(handle.table.snapshot))

    asked = in_both_sizes(log_of, story)
    assert not [name for operation, name in asked if operation == "read" and name.startswith("checkpoint")]
    assert set(commits_read(asked)) <= names(-2, 1)
