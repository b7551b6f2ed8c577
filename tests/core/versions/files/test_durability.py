"""Which commits below ours are made durable first: those of writers that do not sync, down to one that does."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import txlog
from txlog.core import ambient
from txlog.core.format.log_names import commit_name
from txlog.core.store._local_store import local_table_store
from txlog.core.versions.files._commits import unsynced_versions
from txlog.core.versions.files._delta_log import DeltaLog

ROW = pa.table({"id": pa.array([1], pa.int64())})


@contextlib.contextmanager
def synced_inodes() -> Iterator[list[int]]:
    """The inodes that were synced inside the block, in order."""
    inodes: list[int] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        real(descriptor)
        inodes.append(os.fstat(descriptor).st_ino)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        yield inodes


class Story:
    """A table whose versions are ours ("o") or foreign ("f"), the first one ours."""

    def __init__(self, path: Path, story: str) -> None:
        self.table = txlog.Table.create(path / "t", ROW.schema)
        self.log_path = Path(self.table.uri) / "_delta_log"
        for version, whose in enumerate(story, 1):
            if whose == "o":
                self.table.append(ROW)
            else:
                (self.log_path / commit_name(version)).write_bytes(b'{"commitInfo":{"operation":"WRITE"}}\n')

    def unsynced(self, durable_version: int, *, keeps_order: bool = True) -> list[int]:
        self.table._open_table.post_commit.drain()
        log = DeltaLog(local_table_store(self.table.uri))
        state = log.newest_state()
        known = (state.version, state.newest_foreign, durable_version)
        return unsynced_versions(log.commits, *known, keeps_order=keeps_order)


class Later(ambient.Ambient):
    """Ten minutes from now; the machine was suspended for this many of those seconds."""

    def __init__(self, suspended_s: float) -> None:
        self._suspended_s = suspended_s

    def now_ms(self) -> int:
        return super().now_ms() + 600_000

    def suspended_s(self) -> float:
        return self._suspended_s


@pytest.mark.parametrize(("suspended_s", "expected"), [(0.0, [3]), (590.0, [3, 2])])
def test_a_kernel_writes_nothing_back_while_its_machine_is_suspended(
    tmp_path: Path, suspended_s: float, expected: list[int]
) -> None:
    story = Story(tmp_path, "off")
    with ambient.use(Later(suspended_s)):
        assert story.unsynced(1) == expected


@pytest.mark.parametrize(
    ("story", "durable_version", "expected"),
    [
        ("ooo", 1, []),
        ("ooo", 3, []),
        ("ooo", -1, [3]),
        ("off", 1, [3, 2]),
        ("off", 2, [3]),
        ("off", 3, []),
        ("off", -1, [3, 2, 1]),
        ("ofof", 1, [4, 3]),
        ("foof", 0, [4, 3]),
        ("ffo", 0, []),
    ],
)
def test_commits_above_the_last_synced_one_are_doubtful(
    tmp_path: Path, story: str, durable_version: int, expected: list[int]
) -> None:
    assert Story(tmp_path, story).unsynced(durable_version) == expected


def test_a_commit_below_another_engines_may_not_be_on_disk(
    tmp_path: Path,
) -> None:
    assert Story(tmp_path, "oof").unsynced(0) == [3, 2]


def test_where_names_may_reach_the_disk_out_of_order_the_newest_version_is_doubtful(tmp_path: Path) -> None:
    assert Story(tmp_path, "ooo").unsynced(1, keeps_order=False) == [3]


def test_commits_that_the_kernel_has_written_long_ago_are_not_synced_again(tmp_path: Path) -> None:
    story = Story(tmp_path, "offff")
    for version in range(1, 4):
        os.utime(story.log_path / commit_name(version), (1_600_000_000, 1_600_000_000))
    assert story.unsynced(-1) == [5, 4]


def test_every_foreign_commit_on_top_is_doubtful_however_many_there_are(tmp_path: Path) -> None:
    assert Story(tmp_path, "f" * 40).unsynced(0) == list(range(40, 0, -1))


def test_a_handle_never_takes_its_own_commits_for_another_engines(tmp_path: Path) -> None:
    """Else whatever rests on them would sync a version below, and read it."""
    table = Story(tmp_path, "ooo").table
    known = table._open_table.log.known_state
    assert known is not None
    assert (known.version, known.newest_foreign) == (3, -1)
    assert DeltaLog(local_table_store(table.uri)).newest_state().newest_foreign == -1


def test_a_version_is_made_durable_with_every_unsynced_one_below_it(tmp_path: Path) -> None:
    story = Story(tmp_path, "off")
    table = txlog.Table.open(story.table.uri)
    with synced_inodes() as inodes:
        table._open_table.make_version_durable(3)
    expected = {(story.log_path / commit_name(version)).stat().st_ino for version in (2, 3)}
    assert expected <= set(inodes)


@pytest.mark.parametrize("write", [txlog.Table.create_checkpoint, txlog.Table.compact_log])
def test_a_file_that_replaces_commits_is_written_when_all_of_them_are_on_disk(
    tmp_path: Path, write: Callable[[txlog.Table], object]
) -> None:
    """With the newest alone a power cut could leave that one, and a hole below it."""
    story = Story(tmp_path, "off")
    story.table._open_table.post_commit.drain()
    with synced_inodes() as inodes:
        write(txlog.Table.open(story.table.uri))
    commits = [(story.log_path / commit_name(version)).stat().st_ino for version in (2, 3)]
    assert [inode for inode in inodes if inode in commits] == commits


def test_a_sink_seals_on_every_unsynced_version_below_the_one_its_files_were_written_for(tmp_path: Path) -> None:
    story = Story(tmp_path, "off")
    sink = txlog.Sink(txlog.Table.open(story.table.uri), app_id="app")
    with sink.task(checkpoint_id=1) as task:
        task.write(ROW)
    with synced_inodes() as inodes:
        sink.prepare(1, [task.committable])
    expected = {(story.log_path / commit_name(version)).stat().st_ino for version in (2, 3)}
    assert expected <= set(inodes)
