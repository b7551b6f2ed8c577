"""Which commits below ours are made durable first: those of writers that do not sync, down to one that does."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

import txlog
from txlog.commit.durability import unsynced_versions
from txlog.log_files.delta_log import DeltaLog
from txlog.protocol.log_names import commit_name
from txlog.store.local import local_table_store

ROW = pa.table({"id": pa.array([1], pa.int64())})


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
        return unsynced_versions(log, log.newest_state(), durable_version, keeps_order=keeps_order)


@pytest.mark.parametrize(
    ("story", "durable_version", "expected"),
    [
        ("ooo", 1, []),
        ("ooo", 3, []),
        ("ooo", -1, [3]),
        ("off", 1, [3, 2]),
        ("off", 2, [3]),
        ("off", 3, []),
        ("off", -1, [3, 2]),
        ("ofof", 1, [4]),
        ("ffo", 0, []),
    ],
)
def test_what_lies_on_the_last_commit_that_was_synced_is_doubtful(
    tmp_path: Path, story: str, durable_version: int, expected: list[int]
) -> None:
    assert Story(tmp_path, story).unsynced(durable_version) == expected


def test_where_names_may_reach_the_disk_out_of_order_the_newest_is_doubtful_whoever_wrote_it(tmp_path: Path) -> None:
    assert Story(tmp_path, "ooo").unsynced(1, keeps_order=False) == [3]


def test_what_the_kernel_has_long_written_is_not_synced_again(tmp_path: Path) -> None:
    story = Story(tmp_path, "offff")
    for version in range(1, 4):
        os.utime(story.log_path / commit_name(version), (1_600_000_000, 1_600_000_000))
    assert story.unsynced(-1) == [5, 4]


def test_of_many_foreign_commits_the_newest_are_enough(tmp_path: Path) -> None:
    assert Story(tmp_path, "f" * 40).unsynced(0) == list(range(40, 8, -1))
