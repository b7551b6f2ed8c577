"""`table.add_files`: Parquet files of others become rows where they lie."""

from __future__ import annotations

from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_table import SCHEMA, data_files, ids_of, rows_of

import txlog
from txlog.table import Table


def test_existing_files_become_rows_without_being_rewritten(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", SCHEMA, partition_by=["day"])
    for day, name in (("mon", "a.parquet"), ("a%2Fb", "b c.parquet"), ("__HIVE_DEFAULT_PARTITION__", "c.parquet")):
        folder = tmp_path / "t" / f"day={day}"
        folder.mkdir()
        pq.write_table(pa.table({"id": [len(day)]}), folder / name)
    before = {path: path.stat().st_mtime_ns for path in data_files(tmp_path / "t")}
    paths = [str(path.relative_to(tmp_path / "t")) for path in before]
    reported: list[tuple[str, int, int | None]] = []
    result = table.add_files(paths, on_progress=lambda *step: reported.append(step))
    assert (result.version, result.metrics.files, reported) == (
        1,
        3,
        [("reading footers of files", done, 3) for done in (1, 2, 3)],
    )
    expected = [("mon", 3), ("a/b", 5), (None, 26)]
    found = [(row["day"], row["id"]) for row in table.snapshot().to_arrow().to_pylist()]
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    assert {path: path.stat().st_mtime_ns for path in data_files(tmp_path / "t")} == before
    theirs = deltalake.DeltaTable(str(tmp_path / "t")).to_pyarrow_table().to_pylist()
    assert sorted(((row["day"], row["id"]) for row in theirs), key=repr) == sorted(expected, key=repr)
    assert table.snapshot().files("id = 5").num_rows == 1, "statistics came from the footers"


def test_a_file_is_added_once_however_its_path_is_spelled(table: Table, tmp_path: Path) -> None:
    pq.write_table(rows_of(1), tmp_path / "t" / "a b.parquet")
    with pytest.raises(txlog.InvalidInputError, match="twice"):
        table.add_files(["a b.parquet", "a b.parquet"])
    table.add_files(["a b.parquet"])
    with pytest.raises(txlog.InvalidInputError, match="already"):
        table.add_files(["a b.parquet"])
    assert ids_of(table) == [1]


def test_a_file_that_does_not_fit_is_refused_and_none_is_added(table: Table, tmp_path: Path) -> None:
    pq.write_table(rows_of(1), tmp_path / "t" / "good.parquet")
    pq.write_table(pa.table({"id": ["x"], "day": ["mon"], "more": [1]}), tmp_path / "t" / "bad.parquet")
    with pytest.raises(txlog.SchemaMismatchError) as caught:
        table.add_files(["good.parquet", "bad.parquet"])
    assert "table bigint, file string" in str(caught.value)
    assert "more" in str(caught.value)
    assert caught.value.path == "bad.parquet"
    with pytest.raises(txlog.NotFoundError):
        table.add_files(["nowhere.parquet"])
    with pytest.raises(txlog.InvalidInputError, match="list of paths"):
        table.add_files("good.parquet")
    assert table.snapshot().version == 0


def test_a_float_column_with_nan_gets_no_bounds_that_lie(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", pa.schema([("x", pa.float64())]))
    pq.write_table(pa.table({"x": [1.0, float("nan")]}), tmp_path / "t" / "a.parquet")
    table.add_files(["a.parquet"])
    assert table.snapshot().to_arrow(where="x > 5").num_rows == 1, "NaN is greater than every number"
