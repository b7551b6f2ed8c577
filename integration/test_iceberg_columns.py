"""Changes of columns of a table that Iceberg readers follow: PyIceberg reads each version as txlog does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

import txlog
from txlog.table import Table

SCHEMA = "id int, s struct<a: int, b: string>, p string, v float"
PROPERTIES = {"txlog.iceberg": "v2", "delta.enableTypeWidening": "true"}


def append(table: Table, **row: Any) -> None:
    table.append(pa.Table.from_pylist([row], schema=table.schema))


def plain(rows: pa.Table) -> list[str]:
    return sorted(str(sorted(row.items())) for row in rows.to_pylist())


def iceberg_rows(table: Table) -> list[str]:
    table.export_iceberg()
    folder = Path(table.uri, "_iceberg", "metadata")
    newest = max(folder.glob("v*.metadata.json"), key=lambda path: int(path.name[1:].partition(".")[0]))
    return plain(StaticTable.from_metadata(str(newest)).scan().to_arrow())


def test_renamed_dropped_and_widened_columns_are_read_by_iceberg_readers(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", SCHEMA, "p", PROPERTIES)
    append(table, id=1, s={"a": 1, "b": "x"}, p="u", v=1.5)
    iceberg_rows(table)
    table.set_properties({"delta.columnMapping.mode": "name"})
    append(table, id=2, s={"a": 2, "b": "y"}, p="v", v=2.5)
    assert iceberg_rows(table) == plain(table.to_arrow())
    table.rename_column("id", "key")
    table.rename_column("p", "part")
    table.rename_column("s.a", "aa")
    append(table, key=3, s={"aa": 3, "b": "z"}, part="w", v=3.5)
    assert iceberg_rows(table) == plain(table.to_arrow())
    table.drop_columns("s.b")
    table.alter_column("key", type="bigint", comment="wide", after="v")
    table.alter_column("v", type="double")
    append(table, key=2**40, s={"aa": 3}, part="w", v=1e300)
    assert iceberg_rows(table) == plain(table.to_arrow())
    table.add_columns("s struct<b: string>")
    table.purge()
    assert iceberg_rows(table) == plain(table.to_arrow())


def test_a_wider_type_that_iceberg_does_not_have_is_refused_with_the_property_named(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", SCHEMA, "p", PROPERTIES)
    with pytest.raises(txlog.InvalidInputError, match=r"txlog\.iceberg = v2"):
        table.alter_column("s.a", type="double")
    with pytest.raises(txlog.InvalidInputError, match=r"txlog\.iceberg = v2"):
        table.append(pa.table({"id": [0.5], "p": ["u"]}), schema_mode="merge")
    assert table.version == 0
