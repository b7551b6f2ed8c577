"""Files that are added to a table that numbers its rows, and clones of it."""

from __future__ import annotations

from pathlib import Path

import pytest

import txlog
from tests.core.versions.test_row_tracking import TRACKED, rows
from txlog.errors import InvalidInputError


def test_a_file_whose_rows_are_not_counted_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    txlog.write(tmp_path, rows(5), properties=TRACKED)
    table = txlog.Table.open(tmp_path)
    from txlog.core.format.actions import AddFile

    live = table.snapshot().files().to_pylist()[0]
    (tmp_path / "other.parquet").write_bytes((tmp_path / live["path"]).read_bytes())
    with pytest.raises(InvalidInputError, match="numRecords"), table.transaction() as txn:
        txn.add(AddFile("other.parquet", {}, live["size"], 1, True, stats='{"minValues":{}}'))
    assert table.snapshot().version == 0


def test_a_clone_that_promises_row_ids_does_not_suspend_them(tmp_path: Path) -> None:
    txlog.write(tmp_path / "t", rows(5), properties=TRACKED)
    table = txlog.Table.open(tmp_path / "t")
    with pytest.raises(InvalidInputError, match=r"delta\.rowTrackingSuspended = true lets new files have no row ids"):
        table.clone(tmp_path / "clone", properties={"delta.rowTrackingSuspended": "true"})


@pytest.mark.parametrize("what", ["RowId", "RowCommitVersion"])
def test_a_clone_may_name_its_columns_of_row_ids_but_one_that_replaces_it_keeps_the_name(
    tmp_path: Path, what: str
) -> None:
    txlog.write(tmp_path / "t", rows(5), properties=TRACKED)
    table = txlog.Table.open(tmp_path / "t")
    key = f"delta.rowTracking.materialized{what}ColumnName"
    table.clone(tmp_path / "clone", properties={key: "other"})
    with pytest.raises(InvalidInputError, match=rf"{key} names the column .* cannot be set or unset"):
        table.clone(tmp_path / "clone", mode="replace", properties={key: "another"})
