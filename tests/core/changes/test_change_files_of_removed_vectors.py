"""Change files where files with deletion vectors come or go and the operation itself reads none of them."""

from __future__ import annotations

import logging
from pathlib import Path

import pyarrow as pa
import pytest

import txlog

ROWS = pa.table({"id": [100]})


@pytest.fixture
def table(tmp_path: Path) -> txlog.Table:
    properties = {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "true"}
    made = txlog.Table.create(str(tmp_path / "t"), "id bigint", properties=properties)
    made.append(pa.table({"id": list(range(10))}))
    made.delete("id < 4", row_mode="merge-on-read")
    return made


def changes_of(table: txlog.Table) -> list[tuple[str, int]]:
    rows = table.changes(table.version).read_all()
    return sorted(zip(rows["_change_type"].to_pylist(), rows["id"].to_pylist(), strict=True))


def delete_data_files(table: txlog.Table) -> None:
    for path in table.snapshot().files()["path"].to_pylist():
        (Path(table.uri) / path).unlink()


def test_an_overwrite_of_files_with_vectors_has_change_files(table: txlog.Table) -> None:
    assert table.overwrite(ROWS).metrics.change_files == 1
    assert changes_of(table) == [*(("delete", each) for each in range(4, 10)), ("insert", 100)]


def test_an_overwrite_of_files_without_vectors_has_no_change_files(table: txlog.Table) -> None:
    table.overwrite(ROWS)
    assert table.overwrite(ROWS).metrics.change_files == 0


def test_a_restore_that_brings_back_files_with_vectors_has_change_files(table: txlog.Table) -> None:
    table.overwrite(ROWS)
    table.restore(2)
    assert list((Path(table.uri) / "_change_data").iterdir())
    assert changes_of(table) == [("delete", 100), *(("insert", each) for each in range(4, 10))]


@pytest.mark.parametrize("way", ["overwrite", "restore"])
def test_a_table_with_missing_files_can_still_be_overwritten_and_restored(
    table: txlog.Table, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    delete_data_files(table)
    with caplog.at_level(logging.WARNING, logger="txlog"):
        if way == "overwrite":
            table.overwrite(ROWS)
        else:
            table.restore(0)
    assert "no change files" in caplog.text
    assert table.to_arrow().num_rows == (1 if way == "overwrite" else 0)


def test_an_overwrite_by_a_column_of_another_type_needs_no_change_files(table: txlog.Table) -> None:
    assert table.overwrite(pa.table({"id": ["a"]}), schema_mode="overwrite").metrics.change_files == 0
    assert table.to_arrow().to_pylist() == [{"id": "a"}]


def test_an_overwrite_with_another_partitioning_needs_no_change_files(table: txlog.Table) -> None:
    rows = pa.table({"id": [100], "more": [1]})
    assert table.overwrite(rows, schema_mode="overwrite", partition_by=["id"]).metrics.change_files == 0
    assert table.to_arrow().to_pylist() == [{"id": 100, "more": 1}]
