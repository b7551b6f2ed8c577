"""Tables with deletion vectors that Spark wrote, changed by us on a copy: deltalake reads the remaining rows.

The rows are first the table's as Spark left it (`test_golden_tables` compares them with Spark's own answer), then a
plain Python list with the same changes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pytest
from golden import needed, unpack
from rows import assert_sound, read_by_deltalake

import txlog

pytestmark = needed

Row = dict[str, Any]
TABLES: dict[str, tuple[str, str, Callable[[Row], bool]]] = {
    "table-with-dv-small": ("value", "value in (1, 4)", lambda row: row["value"] in (1, 4)),
    "cdf-table-with-dv": ("value", "value in (1, 4)", lambda row: row["value"] in (1, 4)),
    "with-short-dv": ("id", "id in (4, 8)", lambda row: row["id"] in (4, 8)),
    "dv-partitioned-with-checkpoint": ("col1", "col1 % 3 = 0", lambda row: row["col1"] % 3 == 0),
}
"""The column that keys an upsert, and a condition that holds for some rows of files that have vectors already."""


def _changed(name: str, folder: Path) -> tuple[txlog.Table, list[Row]]:
    root = unpack(name, folder)
    table = txlog.Table.open(str(root / "delta" if (root / "delta").exists() else root))
    if name.startswith("cdf"):
        table.set_properties({"delta.enableChangeDataFeed": "false"})
    return table, table.snapshot().to_arrow().to_pylist()


def _rows(rows: list[Row]) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in rows)


def _require_rows(table: txlog.Table, expected: list[Row]) -> None:
    assert _rows(table.snapshot().to_arrow().to_pylist()) == _rows(expected)
    read = read_by_deltalake(deltalake.DeltaTable(table.uri), *table.snapshot().schema.names)
    found = read.cast(table.snapshot().to_arrow().schema).to_pylist()
    assert _rows(found) == _rows(expected)
    assert_sound(table.uri)


@pytest.mark.parametrize("mode", [None, "copy-on-write"])
@pytest.mark.parametrize("name", TABLES)
def test_rows_that_we_delete_from_a_spark_table_are_deleted_for_every_reader(
    name: str, mode: Any, tmp_path: Path
) -> None:
    table, before = _changed(name, tmp_path)
    _, condition, matches = TABLES[name]
    left = [row for row in before if not matches(row)]
    assert 0 < len(left) < len(before)
    done = table.delete(condition, row_mode=mode)
    assert done.metrics.rows_deleted == len(before) - len(left)
    _require_rows(table, left)


@pytest.mark.parametrize("name", TABLES)
def test_rows_that_we_upsert_into_a_table_of_sparks_take_the_place_of_their_keys(name: str, tmp_path: Path) -> None:
    table, before = _changed(name, tmp_path)
    key, _, matches = TABLES[name]
    old = table.snapshot().to_arrow()
    mine = {row[key]: row for row in before if matches(row)}
    new = {**before[0], key: max(row[key] for row in before) + 1}
    rows = [*mine.values(), new]
    table.upsert(type(old).from_pylist(rows, old.schema), [key])
    _require_rows(table, [row for row in before if row[key] not in mine] + rows)
