"""Rows that differ between two versions, found without a change feed. The oracle is DuckDB's EXCEPT ALL."""

from __future__ import annotations

import collections
import random
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import txlog
from txlog.audit import row_diff
from txlog.errors import InvalidInputError, NotFoundError, SchemaMismatchError
from txlog.table import Table

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("day", pa.string()),
        ("x", pa.float64()),
        ("name", pa.string()),
        ("place", pa.struct([("zip", pa.int32()), ("tags", pa.list_(pa.string()))])),
    ]
)
VECTORS = {"delta.enableDeletionVectors": "true"}


def rows_of(chance: random.Random, count: int) -> pa.Table:
    """Rows of which several are equal."""
    return pa.Table.from_pylist(
        [
            {
                "id": chance.choice([None, *range(12)]),
                "day": chance.choice(["mon", "tue", None]),
                "x": chance.choice([0.0, -0.0, float("nan"), None, 1.5]),
                "name": chance.choice(["a", "", None]),
                "place": chance.choice([None, {"zip": 1, "tags": ["a", None]}, {"zip": None, "tags": []}]),
            }
            for _ in range(count)
        ],
        SCHEMA,
    )


def change(table: Table, chance: random.Random) -> None:
    where = chance.choice(["id < 4", "day = 'mon'", "x is null", "id in (3, 7)", "name = 'a'"])
    match chance.choice(["append", "append", "delete", "update", "optimize", "overwrite", "replace"]):
        case "append":
            table.append(rows_of(chance, chance.randrange(1, 9)))
        case "delete":
            table.delete(where)
        case "update":
            txlog.sql(f"update delta.`{table.uri}` set id = id + 1 where {where}")
        case "optimize":
            table.optimize()
        case "overwrite":
            days = pa.array(["tue"] * 5)
            table.overwrite(rows_of(chance, 5).set_column(1, "day", days), where="day = 'tue'")
        case "replace":
            table.overwrite(rows_of(chance, 6))


def multiset(rows: pa.Table) -> collections.Counter[str]:
    """Rows as SQL tells them apart: there is one zero and one NaN."""
    return collections.Counter(repr(row).replace("-0.0", "0.0") for row in rows.to_pylist())


def by_duckdb(before: pa.Table, after: pa.Table) -> dict[str, collections.Counter[str]]:
    connection = duckdb.connect()
    connection.register("before", before)
    connection.register("after", after)
    return {
        kind: multiset(connection.sql(f"from {one} except all from {other}").to_arrow_table())
        for kind, one, other in (("insert", "after", "before"), ("delete", "before", "after"))
    }


def of_kind(rows: pa.Table, kind: str) -> pa.Table:
    return rows.filter(pc.equal(rows["_change_type"], kind)).drop_columns(["_change_type"])


@pytest.mark.parametrize("part_bytes", [row_diff.PART_BYTES, 700], ids=["one part", "parts"])
@pytest.mark.parametrize("properties", [{}, VECTORS], ids=["copies", "vectors"])
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.hunt(part="properties")) for seed in (1, 2))]
)
def test_rows_that_differ_are_those_that_duckdb_finds(
    tmp_path: Path, properties: dict[str, str], seed: int, part_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_diff, "PART_BYTES", part_bytes)
    chance = random.Random(seed)
    table = Table.create(tmp_path / "t", SCHEMA, "day", properties)
    for _ in range(14):
        change(table, chance)
    for _ in range(12):
        first, last = chance.randrange(table.version + 1), chance.randrange(table.version + 1)
        columns = chance.choice([None, None, ["id", "day"], ["place", "x"]])
        before, after = (table.snapshot(version).to_arrow(columns) for version in (first, last))
        found = table.diff_rows(first, last, columns).read_all()
        expected = by_duckdb(before, after)
        assert {kind: multiset(of_kind(found, kind)) for kind in expected} == expected, (first, last)
        where = "id > 5"
        some = table.diff_rows(first, last, where=where).read_all()
        before, after = (table.snapshot(version).to_arrow(where=where) for version in (first, last))
        expected = by_duckdb(before, after)
        assert {kind: multiset(of_kind(some, kind)) for kind in expected} == expected, (first, last)


def test_a_key_tells_updates_from_deletes_and_inserts(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "id bigint, day string, v bigint", properties=VECTORS)
    table.append(pa.table({"id": [1, 2, 3, None], "day": ["a", "a", "b", "b"], "v": [10, 20, 30, 40]}))
    table.upsert(pa.table({"id": [2, 4], "day": ["a", "c"], "v": [21, 41]}), ["id"])
    table.delete("id = 3")
    table.update({"v": 41}, "id is null")
    table.optimize()
    found = table.diff_rows(1, keys="id").read_all().to_pylist()
    kinds = [(row["_change_type"], row["id"], row["v"]) for row in found]
    assert kinds[-2:] == [("update_preimage", 2, 20), ("update_postimage", 2, 21)]
    assert sorted(kinds[:-2], key=str) == sorted(
        [("delete", 3, 30), ("insert", 4, 41), ("delete", None, 40), ("insert", None, 41)], key=str
    )
    only = table.diff_rows(1, None, ["day"], keys=["id"]).read_all()
    assert only.schema.names == ["id", "day", "_change_type"]
    assert [row["id"] for row in only.to_pylist()] == [3, 4], "the day of 2 is the same, and null keys cancel out"
    back = {
        (row["_change_type"], row["id"]) for row in table.diff_rows(table.version, 1, keys="id").read_all().to_pylist()
    }
    assert {("insert", 3), ("delete", 4), ("update_preimage", 2)} <= back


def test_rows_with_a_repeated_key_are_deletes_and_inserts(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "id bigint, v bigint")
    table.append(pa.table({"id": [1, 1, 2], "v": [10, 11, 20]}))
    table.overwrite(pa.table({"id": [1, 2], "v": [12, 20]}))
    found = table.diff_rows(1, keys=["id"]).read_all().to_pylist()
    assert sorted((row["_change_type"], row["id"], row["v"]) for row in found) == [
        ("delete", 1, 10),
        ("delete", 1, 11),
        ("insert", 1, 12),
    ]


def test_files_that_both_versions_have_are_not_read(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "id bigint, day string", "day", VECTORS)
    table.append(pa.table({"id": list(range(100)), "day": ["mon"] * 100}))
    table.append(pa.table({"id": [1, 2], "day": ["tue"] * 2}))
    table.append(pa.table({"id": [3], "day": ["tue"]}))
    table.delete("id = 2 and day = 'tue'")
    for file in (tmp_path / "t" / "day=mon").iterdir():
        file.unlink()
    found = table.diff_rows(2).read_all().to_pylist()
    assert sorted((row["_change_type"], row["id"]) for row in found) == [("delete", 2), ("insert", 3)]
    with pytest.raises(NotFoundError, match="vacuum"):
        table.diff_rows(0).read_all()


def test_columns_of_the_newer_version_are_compared(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "id bigint, v int", properties={"delta.enableTypeWidening": "true"})
    table.append(pa.table({"id": [1, 2], "v": pa.array([1, 2], pa.int32())}))
    table.add_columns("w string")
    table.alter_column("v", type="bigint")
    table.append(pa.table({"id": [3], "v": [2**40], "w": ["x"]}))
    for found in (table.diff_rows(1).read_all(), table.diff_rows(table.version, 1).read_all()):
        assert found.schema == pa.schema([*table.schema, pa.field("_change_type", pa.string(), nullable=False)])
        assert [(row["id"], row["v"], row["w"]) for row in found.to_pylist()] == [(3, 2**40, "x")]
    table.overwrite(pa.table({"id": ["one"]}), schema_mode="overwrite")
    with pytest.raises(SchemaMismatchError, match="the rows of version 1 cannot be read with the columns of version"):
        table.diff_rows(1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"columns": ["nope"]}, "nope"),
        ({"columns": []}, "columns"),
        ({"keys": "nope"}, "no column 'nope' to be a key"),
        ({"keys": ["place"]}, "place"),
        ({"where": "nope > 1"}, "nope"),
        ({"from_version": "1"}, "from_version"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    table = Table.create(tmp_path / "t", SCHEMA)
    table.append(rows_of(random.Random(1), 3))
    with pytest.raises(InvalidInputError, match=message):
        table.diff_rows(**{"from_version": 0, **arguments})
    with pytest.raises(NotFoundError):
        table.diff_rows(0, 9)
