"""Tables exported as Iceberg, read by PyIceberg, Polars and DuckDB: they see the same rows in each version as we do."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from iceberg_tables import (
    TABLES,
    deleted_keys,
    exported,
    json_of_variants,
    metadata_file,
    snapshots,
    with_variants,
)
from pyiceberg.table import StaticTable
from rows import as_rows, in_schema

import txlog

if TYPE_CHECKING:
    from txlog.core.writing.write_intent import RowMode

Read = Callable[[txlog.Table, int], pa.Table]


@pytest.fixture(scope="module")
def table_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], txlog.Table]:
    """Each table is made once; the readers only read it."""

    @cache
    def made(name: str, format_version: str) -> txlog.Table:
        return exported(tmp_path_factory.mktemp("iceberg") / "table", name, format_version)

    return made


def _by_pyiceberg(table: txlog.Table, snapshot_id: int) -> pa.Table:
    return StaticTable.from_metadata(str(metadata_file(table))).scan(snapshot_id=snapshot_id).to_arrow()


@pytest.fixture(autouse=True)
def plan_polars_scans_with_pyiceberg(monkeypatch: pytest.MonkeyPatch) -> None:
    """Polars warns that it would like a plugin for it."""
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")


def _by_polars(table: txlog.Table, snapshot_id: int) -> pa.Table:
    return pl.scan_iceberg(str(metadata_file(table)), snapshot_id=snapshot_id).collect().to_arrow()


def _by_duckdb(table: txlog.Table, snapshot_id: int, condition: str = "true") -> pa.Table:
    source = f"iceberg_scan('{metadata_file(table)}', snapshot_from_id => {snapshot_id})"
    return _duckdb().sql(f"select * from {source} where {condition}").to_arrow_table()


@cache
def _duckdb() -> Any:
    extensions = pytest.importorskip("duckdb_extensions", reason="NOT TESTED: DuckDB's Iceberg reader is not installed")

    for name in ("avro", "icu", "iceberg"):
        extensions.import_extension(name)
    connection = duckdb.connect()
    for name in ("avro", "icu", "iceberg"):
        connection.load_extension(name)
    return connection.execute("set TimeZone = 'UTC'")


NO_VERSION_0 = {
    "a name with another meaning",
    "a partition column that goes",
    "columns dropped before the first export",
    "files of dropped columns that come back",
}
READERS: dict[str, Read] = {"pyiceberg": _by_pyiceberg, "polars": _by_polars, "duckdb": _by_duckdb}


@pytest.mark.parametrize("format_version", ["v2", "v3"])
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("reader", READERS)
def test_iceberg_readers_read_every_exported_version_like_txlog(
    reader: str, name: str, format_version: str, table_of: Callable[[str, str], txlog.Table]
) -> None:
    table = table_of(name, format_version)
    found = list(snapshots(table))
    assert found[-1].version == table.version
    assert found[0].version == 0 or name in NO_VERSION_0
    for each in found:
        expected = table.snapshot(version=each.version).to_arrow()
        rows = READERS[reader](table, each.id)
        assert as_rows(in_schema(rows, expected.schema)) == as_rows(expected), f"v{each.version}"


@pytest.mark.parametrize("is_shredded", [False, True])
def test_duckdb_reads_variants_of_every_exported_version(is_shredded: bool, tmp_path: Path) -> None:
    table = with_variants(tmp_path / "t", is_shredded=is_shredded)
    found = list(snapshots(table))
    assert len(found) >= 5
    for each in found:
        source = f"iceberg_scan('{metadata_file(table)}', snapshot_from_id => {each.id})"
        rows = _duckdb().sql(f"select id, v::json, s.w::json from {source} order by id").fetchall()
        texts = [(id, *(json.loads(text or "null") for text in parts)) for id, *parts in rows]
        assert texts == json_of_variants(table.snapshot(version=each.version).to_arrow()), f"v{each.version}"


@pytest.mark.parametrize("row_mode", ["merge-on-read", "copy-on-write"])
@pytest.mark.parametrize("format_version", ["v2", "v3"])
@pytest.mark.parametrize("reader", READERS)
def test_iceberg_readers_do_not_see_tombstones_of_deleted_keys(
    reader: str, format_version: str, row_mode: RowMode, tmp_path: Path
) -> None:
    table = deleted_keys(tmp_path / "t", {"txlog.iceberg": format_version}, row_mode)
    table.export_iceberg()
    newest = list(snapshots(table))[-1]
    assert newest.version == table.version
    expected = [(1, 21), (2, 15), (3, 10), (5, 10), (6, 10), (7, 10)]
    found = READERS[reader](table, newest.id)
    assert sorted(zip(found["id"].to_pylist(), found["seq"].to_pylist(), strict=True)) == expected
    scan = StaticTable.from_metadata(str(metadata_file(table))).scan(snapshot_id=newest.id)
    assert scan.count() == len(expected)
    files = list(scan.plan_files())
    entirely_deleted = [
        each for each in files if each.file.record_count in [deletes.record_count for deletes in each.delete_files]
    ]
    assert len(files) == table.snapshot().files().num_rows
    assert len(entirely_deleted) == 2, "the key files: one that OPTIMIZE joined, and one since then"
    assert table.verify(["id"]).findings == ()


FILTERS = (
    "byte = 127",
    "integer < 0",
    "long = 9223372036854775807",
    "string = 'changed'",
    "boolean is null",
    "double < 0",
    "decimal_of_64_bits < 0.500",
    "date < '1900-01-01'",
    "timestamp_ntz > '2000-01-01T00:00:00'",
)


@pytest.mark.parametrize("format_version", ["v2", "v3"])
@pytest.mark.parametrize("name", ["every type", "partitions of every type"])
@pytest.mark.parametrize("reader", ["pyiceberg", "duckdb"])
def test_a_filter_finds_the_same_rows_by_bounds_and_partitions(
    reader: str, name: str, format_version: str, table_of: Callable[[str, str], txlog.Table]
) -> None:
    table = table_of(name, format_version)
    for each in list(snapshots(table))[::3]:
        rows = table.snapshot(version=each.version).to_arrow()
        for condition in FILTERS:
            if condition.split()[0] not in rows.column_names:
                continue
            expected = _duckdb().from_arrow(rows).filter(condition).to_arrow_table().num_rows
            if reader == "duckdb":
                found = _by_duckdb(table, each.id, condition).num_rows
            else:
                scan = StaticTable.from_metadata(str(metadata_file(table))).scan(condition, snapshot_id=each.id)
                found = scan.to_arrow().num_rows
            assert found == expected, (each.version, condition)
