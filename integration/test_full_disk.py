"""A disk that is full, page by page and file by file: a typed error, nothing half visible, and work continues
afterwards.

A small file system is filled until a given number of pages is left, so every write of data file, commit and checkpoint
meets the end of the disk in turn. About 3 s. Needs root (a mount); skipped, saying so, where there is none.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from fault_tools import require_mounts, small_disk
from rows import assert_sound, read_by_deltalake

import txlog

WHAT = "what a full disk does to a write"
PAGE_BYTES = 4096
Record = Callable[[str, object], None]


def _rows(first: int) -> pa.Table:
    return pa.table({"number": [first, first + 1], "day": ["a", "b"]})


def _new_table(uri: str) -> txlog.Table:
    table = txlog.Table.create(uri, _rows(0).schema, ["day"], properties={"delta.checkpointInterval": "1000"})
    table.append(_rows(0))
    return table


def _numbers(uri: str) -> list[int]:
    """As a handle sees it that took no part, and as deltalake does; the table has no fault."""
    assert_sound(uri)
    numbers = sorted(txlog.Table.open(uri).snapshot().to_arrow()["number"].to_pylist())
    theirs = read_by_deltalake(deltalake.DeltaTable(uri), "number")
    assert sorted(theirs["number"].to_pylist()) == numbers
    return numbers


def _stage(error: txlog.StorageError) -> str:
    path = str(error.path)
    if "checkpoint" in path:
        return "checkpoint"
    return "commit" if path.startswith("_delta_log/") else "data file"


def _write_until_it_fails(table: txlog.Table) -> tuple[bool, str | None]:
    """(was the append acknowledged, what could not be written)."""
    try:
        table.append(_rows(2))
    except txlog.StorageError as error:
        return False, _stage(error)
    try:
        table.create_checkpoint()
    except txlog.StorageError as error:
        return True, _stage(error)
    return True, None


def _judge(table: txlog.Table, acknowledged: bool) -> None:
    assert _numbers(table.uri) == [0, 1, 2, 3][: 4 if acknowledged else 2]


def test_a_disk_without_space_refuses_with_a_typed_error_and_is_used_again_when_there_is_space(
    tmp_path: Path, record_property: Record
) -> None:
    require_mounts(WHAT)
    met: dict[str | None, int] = {}
    with small_disk(tmp_path / "disk", 1 << 20) as disk:
        for pages in range(16):
            table = _new_table(str(disk / f"t{pages}"))
            ballast = disk / "ballast"
            ballast.write_bytes(bytes(shutil.disk_usage(disk).free - pages * PAGE_BYTES))
            acknowledged, stage = _write_until_it_fails(table)
            met[stage] = met.get(stage, 0) + 1
            _judge(table, acknowledged)
            ballast.unlink()
            table.append(_rows(4))
            table.create_checkpoint()
            assert _numbers(table.uri) == ([0, 1, 2, 3, 4, 5] if acknowledged else [0, 1, 4, 5])
            shutil.rmtree(disk / f"t{pages}")
    assert {"data file", "commit", "checkpoint", None} <= met.keys(), met
    record_property("measured", f"full disk: 16 sizes of what was left; the first that did not fit: {met}")


def test_a_disk_that_takes_no_more_files_refuses_with_a_typed_error_and_is_used_again(tmp_path: Path) -> None:
    require_mounts(WHAT)
    met = set()
    with small_disk(tmp_path / "disk", 1 << 20, files=64) as disk:
        for left in range(6):
            table = _new_table(str(disk / f"t{left}"))
            free = len(_fill_with_files(disk / "ballast")) - left
            assert free > 0
            for name in list((disk / "ballast").iterdir())[:left]:
                name.unlink()
            acknowledged, stage = _write_until_it_fails(table)
            met.add(stage)
            _judge(table, acknowledged)
            shutil.rmtree(disk / "ballast")
            table.append(_rows(4))
            assert _numbers(table.uri) == ([0, 1, 2, 3, 4, 5] if acknowledged else [0, 1, 4, 5])
            shutil.rmtree(disk / f"t{left}")
    assert {"data file", "commit", "checkpoint"} <= met, met


def _fill_with_files(folder: Path) -> list[Path]:
    folder.mkdir()
    made: list[Path] = []
    while True:
        try:
            (folder / str(len(made))).touch()
        except OSError:
            return made
        made.append(folder / str(len(made)))


def test_a_checkpoint_that_follows_a_commit_by_itself_and_finds_no_space_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    require_mounts(WHAT)
    with small_disk(tmp_path / "disk", 1 << 20) as disk:
        table = _new_table(str(disk / "t"))
        table.set_properties({"delta.checkpointInterval": "1"})
        table._open_table.post_commit.drain()
        (disk / "ballast").write_bytes(bytes(shutil.disk_usage(disk).free - 4 * PAGE_BYTES))
        result = table.append(_rows(2))
        table._open_table.post_commit.drain()
        assert result.outcome == "committed"
        assert any("the checkpoint at v3 failed" in record.message for record in caplog.records), caplog.text
        assert _numbers(table.uri) == [0, 1, 2, 3]
