"""Files that are taken over are on disk before the commit that names them."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import txlog
from tests.core.versions.files.test_durability import ROW, synced_inodes
from txlog.core.format.actions import AddFile
from txlog.core.format.log_names import commit_name

PARTITIONED = pa.schema([("id", pa.int64()), ("day", pa.string()), ("hour", pa.int32())])


@pytest.mark.parametrize("by", ["add_files", "transaction"])
def test_a_data_file_that_is_taken_over_is_synced_with_each_directory_above_it(tmp_path: Path, by: str) -> None:
    table = txlog.Table.create(tmp_path / "t", PARTITIONED, partition_by=["day", "hour"])
    path = tmp_path / "t" / "day=1" / "hour=2" / "a.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(ROW, path)
    relative = "day=1/hour=2/a.parquet"
    with synced_inodes() as inodes:
        if by == "add_files":
            table.add_files([relative])
        else:
            with table.transaction() as transaction:
                values = {"day": "1", "hour": "2"}
                transaction.add(AddFile(relative, values, path.stat().st_size, 0, True, '{"numRecords":1}'))
    expected = [path, path.parent, path.parent.parent, tmp_path / "t"]
    assert [each for each in expected if each.stat().st_ino not in inodes] == []
    commit = tmp_path / "t" / "_delta_log" / commit_name(1)
    assert inodes.index(path.stat().st_ino) < inodes.index(commit.stat().st_ino)


def test_a_taken_over_file_that_cannot_be_synced_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = txlog.Table.create(tmp_path / "t", ROW.schema)
    pq.write_table(ROW, tmp_path / "t" / "a.parquet")

    def fails(descriptor: int) -> None:
        raise OSError(errno.EIO, "the disk is failing")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(txlog.StorageError, match=r"a\.parquet"):
        table.add_files(["a.parquet"])
    assert table.snapshot().version == 0
