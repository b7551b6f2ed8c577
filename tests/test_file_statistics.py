"""What a table tells of its files and partitions as typed columns; the oracles are deltalake and DuckDB."""

from __future__ import annotations

import datetime as dt
import decimal
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import pyarrow as pa
import pytest

import txlog
from txlog.table import Table

ROWS = pa.table(
    {
        "id": pa.array([1, 2, None, 4], pa.int64()),
        "day": pa.array([dt.date(2026, 1, 1), dt.date(2026, 1, 2), None, dt.date(2026, 1, 2)]),
        "region": ["eu", None, "us", None],
        "price": pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("-2.25"), None], pa.decimal128(10, 2)),
        "x": [0.5, -1.0, None, 2.0],
        "name": ["a", "b", None, "d"],
        "at": pa.array([1_000_000, 2_000_000, None, 4_000_000], pa.timestamp("us", "UTC")),
        "place": pa.array(
            [{"zip": 1, "city": "B"}, None, {"zip": None, "city": "Z"}, {"zip": 9, "city": "A"}],
            pa.struct([("zip", pa.int32()), ("city", pa.string())]),
        ),
        "tags": pa.array([["a"], None, [], ["b", None]], pa.list_(pa.string())),
        "is_new": [True, None, False, True],
    }
)


def as_deltalake(uri: str) -> pa.Table:
    return pa.table(deltalake.DeltaTable(uri).get_add_actions(flatten=True)).sort_by("path")


def at(row: Any, name: str) -> Any:
    for part in name.split("."):
        row = None if row is None else row.get(part)
    return row


@pytest.mark.parametrize("partition_by", [None, ["day"], ["day", "region"]], ids=str)
def test_statistics_of_files_are_the_typed_columns_that_deltalake_reads(
    tmp_path: Path, partition_by: list[str] | None
) -> None:
    table = Table.create(tmp_path / "t", ROWS.schema, partition_by)
    table.append(ROWS)
    table.append(ROWS.slice(0, 1))
    expected = as_deltalake(table.uri)
    found = table.files(statistics=True).sort_by("path")
    assert not {"stats", "partitionValues"} & {*found.schema.names}
    assert found["num_records"].to_pylist() == expected["num_records"].to_pylist()
    compared = 0
    for name in expected.schema.names:
        kind, _, column = name.partition(".")
        if kind in ("null_count", "min", "max", "partition") and column:
            ours, theirs = (found[kind].to_pylist(), expected[name].to_pylist())
            if kind == "partition" or column not in (partition_by or ()):
                assert [at(each, column) for each in ours] == theirs, name
                compared += 1
    assert compared > 20
    for kind in ("min", "max"):
        assert found.schema.field(kind).type.field("price").type == pa.decimal128(10, 2)
        assert found.schema.field(kind).type.field("at").type == pa.timestamp("us", "UTC")
        assert found.schema.field(kind).type.field("place").type.field("zip").type == pa.int32()
    assert duckdb.sql('select max("max".id) from found').fetchall() == [(4,)]


def test_statistics_of_files_have_the_names_of_the_table_where_files_have_others(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", ROWS.schema, "day", column_mapping="name")
    table.append(ROWS)
    table.rename_column("id", "key")
    table.rename_column("place.zip", "code")
    table.rename_column("day", "on")
    found = table.files("`on` = date'2026-01-02'", statistics=True)
    assert found["partition"].to_pylist() == [{"on": dt.date(2026, 1, 2)}]
    (low,), (high,) = found["min"].to_pylist(), found["max"].to_pylist()
    assert ((low["key"], high["key"]), (low["place"]["code"], high["place"]["code"])) == ((2, 4), (9, 9))


def test_files_without_statistics_and_a_table_without_files_have_nulls_and_no_rows(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", ROWS.schema, "day", {"delta.dataSkippingNumIndexedCols": "1"})
    empty = table.files(statistics=True)
    assert (empty.num_rows, table.partitions().num_rows) == (0, 0)
    table.append(ROWS)
    found = table.files(statistics=True)
    assert found.schema == empty.schema
    assert {each["x"] for each in found["max"].to_pylist()} == {None}
    assert {each["id"] for each in found["max"].to_pylist()} == {1, 4, None}


def test_partitions_count_files_and_live_rows_by_typed_values(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", ROWS.schema, ["day", "region"], {"delta.enableDeletionVectors": "true"})
    table.append(ROWS)
    table.append(ROWS)
    table.delete("id = 4")
    by_partition = "select day, region, count(*) from rows group by all order by day nulls last, region nulls last"
    counted = duckdb.from_arrow(table.to_arrow()).query("rows", by_partition).fetchall()
    found = table.partitions().to_pylist()
    assert [(each["partition"]["day"], each["partition"]["region"], each["num_rows"]) for each in found] == counted
    assert [each["num_files"] for each in found] == [2, 2, 2]
    assert sum(each["size_bytes"] for each in found) == table.size_bytes
    assert table.snapshot(1).partitions("region = 'eu'").to_pylist() == [
        {
            "partition": {"day": dt.date(2026, 1, 1), "region": "eu"},
            "num_files": 1,
            "size_bytes": table.files("region = 'eu'")["size"][0].as_py(),
            "num_rows": 1,
        }
    ]


def test_a_table_that_is_not_partitioned_has_no_partitions_to_list(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "id bigint")
    with pytest.raises(txlog.InvalidInputError, match="the table is not partitioned"):
        table.partitions()


def test_name_and_description_are_those_that_other_writers_read_and_write(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "id bigint", name="orders", description="all orders")
    theirs = deltalake.DeltaTable(table.uri)
    assert (theirs.metadata().name, theirs.metadata().description) == ("orders", "all orders")
    assert (table.name, table.description) == ("orders", "all orders")
    theirs.alter.set_table_description("orders since 2020")
    theirs.alter.set_table_name("sales")
    assert (table.name, table.description) == ("sales", "orders since 2020")
    txlog.sql(f"comment on table delta.`{table.uri}` is 'by SQL'")
    assert table.description == "by SQL"
    table.set_description("", name="")
    assert (table.name, table.description) == (None, None)
    assert table.snapshot(0).description == "all orders"
    with pytest.raises(AttributeError, match=r"table\.set_description\(text\) sets the description"):
        table.describe("text")  # type: ignore[attr-defined]
