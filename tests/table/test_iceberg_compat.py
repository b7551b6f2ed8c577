"""Tables that promise Delta's Iceberg compatibility, or partition columns in their files: what every new file holds, at
every door. The oracle is Parquet's own reader."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import txlog

COLUMNS = "id int, day string, tags array<int>, name string"
PROMISES = {
    "icebergCompatV2": {"delta.enableIcebergCompatV2": "true"},
    "icebergCompatV3": {"delta.enableIcebergCompatV3": "true"},
    "materializePartitionColumns": {"delta.enableMaterializePartitionColumnsFeature": "true"},
    "the property": {"delta.writePartitionColumnsToParquet": "true"},
}


def rows(*ids: int, day: str = "a") -> pa.Table:
    days = [day if id % 2 else "" for id in ids]
    return pa.table(
        {
            "id": pa.array(ids, pa.int32()),
            "day": days,
            "tags": pa.array([[id, None] for id in ids], pa.list_(pa.int32())),
            "name": [f"name {id}" for id in ids],
        }
    )


def source(*ids: int) -> pa.Table:
    return rows(*ids, day="b")


DOORS: dict[str, Callable[[txlog.Table], object]] = {
    "append": lambda table: table.append(rows(5, 6)),
    "overwrite": lambda table: table.overwrite(rows(5, 6)),
    "overwrite of partitions": lambda table: table.overwrite_partitions(rows(5, 7)),
    "delete": lambda table: table.delete("id = 1", row_mode="copy-on-write"),
    "update": lambda table: table.update({"name": txlog.expr("'new'")}, "id = 1"),
    "update of the partition column": lambda table: table.update({"day": txlog.lit("c")}, "id = 1"),
    "upsert": lambda table: table.upsert(source(1, 9), keys=["id"]),
    "merge": lambda table: (
        table.merge(source(1, 9), ["id"]).when_matched_update_all().when_not_matched_insert_all().execute()
    ),
    "optimize": lambda table: (table.append(rows(5)), table.optimize()),
    "sink": lambda table: txlog.Sink(table, "app").once("key", rows(5, 6)),
    "transaction": lambda table: _in_transaction(table),
    "sql": lambda table: txlog.sql(f"INSERT INTO delta.`{table.uri}` VALUES (5, 'a', ARRAY(1), 'five')"),
}


def _in_transaction(table: txlog.Table) -> None:
    with table.transaction() as txn:
        txn.delete("id = 1")
        txn.append(rows(5, 6))


def new_files(table: txlog.Table, after: int) -> Iterator[dict[str, Any]]:
    """The actions of data files and of change files that versions after ``after`` add."""
    for version in range(after + 1, table.version + 1):
        for line in Path(table.uri, "_delta_log", f"{version:020}.json").read_text().splitlines():
            action = json.loads(line)
            yield from (action[kind] for kind in ("add", "cdc") if kind in action)


def field_ids(kind: pa.DataType | pa.Schema) -> Iterator[int | None]:
    """The ids of all columns and of what is inside them, in order."""
    for field in kind if isinstance(kind, pa.Schema | pa.StructType) else [kind.value_field]:
        found = (field.metadata or {}).get(b"PARQUET:field_id")
        yield None if found is None else int(found)
        if pa.types.is_nested(field.type):
            yield from field_ids(field.type)


@pytest.mark.parametrize(
    ("promised", "door"),
    [
        *((promised, door) for promised in ("icebergCompatV3", "materializePartitionColumns") for door in DOORS),
        *((promised, "append") for promised in ("icebergCompatV2", "the property")),
    ],
)
def test_every_new_file_has_the_partition_columns_last_with_the_values_of_the_log(
    tmp_path: Path, promised: str, door: str
) -> None:
    properties = {**PROMISES[promised], "delta.enableChangeDataFeed": "true"}
    table = txlog.Table.create(tmp_path / "t", COLUMNS, partition_by="day", properties=properties)
    table.append(rows(1, 2, 3, 4))
    DOORS[door](table)
    physical = {field["name"]: field["metadata"] for field in _schema(table)}
    name = physical["day"].get("delta.columnMapping.physicalName", "day")
    files = list(new_files(table, 0))
    assert files
    for each in files:
        path = Path(table.uri, unquote(each["path"]))
        stored = pq.ParquetFile(path).read()
        assert stored.column_names[-1] == name
        assert set(stored[name].to_pylist()) <= {each["partitionValues"][name]}
        stats = json.loads(each.get("stats", "{}"))
        assert "stats" not in each or (stats["numRecords"] == stored.num_rows and name not in stats["nullCount"])
        if promised.startswith("iceberg"):
            found = [id for id in field_ids(pq.read_schema(path)) if id is not None]
            nested = physical["tags"]["delta.columnMapping.nested.ids"].values()
            assert {*found} >= {*nested, *(each["delta.columnMapping.id"] for each in physical.values())}
    assert table.verify().findings == ()
    assert {row["day"] for row in table.to_arrow().to_pylist()} <= {"a", "b", "c", None}


def _schema(table: txlog.Table) -> list[dict[str, Any]]:
    first = Path(table.uri, "_delta_log", f"{0:020}.json").read_text().splitlines()
    metadata = next(json.loads(line)["metaData"] for line in first if '"metaData"' in line)
    fields: list[dict[str, Any]] = json.loads(metadata["schemaString"])["fields"]
    return fields


def test_a_copy_that_passes_pages_on_has_the_partition_columns_too(tmp_path: Path) -> None:
    properties = PROMISES["materializePartitionColumns"]
    table = txlog.Table.create(tmp_path / "t", "p int, id bigint, text string", partition_by="p", properties=properties)
    count = 60_000
    ids = pa.array(range(count))
    text = pa.array([f"{number * 7919 % 1_000_003:040}" for number in range(count)])
    table.append(pa.table({"p": pa.array([1] * count, pa.int32()), "id": ids, "text": text}))
    table.update({"text": txlog.lit("new")}, "id = 5")
    table.delete("id = 7")
    table.update({"p": txlog.expr("CAST(2 AS INT)")}, "id = 9")
    for each in new_files(table, 1):
        stored = pq.ParquetFile(Path(table.uri, each["path"])).read()
        assert stored.column_names == ["id", "text", "p"]
        assert {str(value) for value in stored["p"].to_pylist()} == {each["partitionValues"]["p"]}
    found = table.to_arrow(where="id in (5, 7, 9)").sort_by("id").to_pylist()
    assert [(row["p"], row["id"], row["text"]) for row in found] == [(1, 5, "new"), (2, 9, text[9].as_py())]
    assert table.to_arrow().num_rows == count - 1


def test_an_empty_value_of_a_partition_column_that_is_not_null_is_still_refused(tmp_path: Path) -> None:
    properties = PROMISES["icebergCompatV2"]
    columns = "id int, day string not null, tags array<int>, name string"
    table = txlog.Table.create(tmp_path / "t", columns, partition_by="day", properties=properties)
    with pytest.raises(txlog.InvalidInputError, match="partition column day is NOT NULL"):
        table.append(rows(1, 2))
    assert table.version == 0


def test_a_new_table_gets_what_compatibility_needs_and_an_older_one_is_told(tmp_path: Path) -> None:
    new = txlog.Table.create(tmp_path / "new", COLUMNS, properties=PROMISES["icebergCompatV3"])
    assert new.properties["delta.columnMapping.mode"] == "name"
    assert new.properties["delta.enableRowTracking"] == "true"
    table = txlog.Table.create(tmp_path / "t", COLUMNS)
    table.append(rows(1, 2))
    with pytest.raises(txlog.UnsupportedFeatureError, match=r"set delta\.columnMapping\.mode to name together with it"):
        table.set_properties(PROMISES["icebergCompatV2"])
    assert table.version == 1
    table.set_properties({**PROMISES["icebergCompatV2"], "delta.columnMapping.mode": "name"})
    table.set_properties({"delta.enableIcebergCompatV2": "false", **PROMISES["icebergCompatV3"]})
    assert table.verify().findings == ()
    table.append(rows(3))
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 2, 3]


def _with_vectors(path: Path) -> txlog.Table:
    properties = {"delta.columnMapping.mode": "name", "delta.enableDeletionVectors": "true"}
    table = txlog.Table.create(path, COLUMNS, properties=properties)
    table.append(rows(1, 2, 3))
    table.delete("id = 1")
    return table


def test_a_table_whose_files_have_vectors_is_purged_before_it_promises_that_none_has(tmp_path: Path) -> None:
    table = _with_vectors(tmp_path / "t")
    promise = {**PROMISES["icebergCompatV2"], "delta.enableDeletionVectors": "false"}
    before = table.version
    with pytest.raises(txlog.InvalidInputError, match=r"1 files of the table have deletion vectors.*purge"):
        table.set_properties(promise)
    with pytest.raises(txlog.InvalidInputError, match="1 files of the table"), table.transaction() as txn:
        txn.set_properties(promise)
    assert table.version == before
    table.purge()
    table.set_properties(promise)
    table.delete("id = 2")
    assert all("deletionVector" not in each for each in new_files(table, before))
    with pytest.raises(txlog.UnsupportedFeatureError, match="does not go with deletion vectors"):
        table.set_properties({"delta.enableDeletionVectors": "true"})


def test_the_first_version_wants_the_partition_columns_in_files_that_are_there(tmp_path: Path) -> None:
    columns, mapped = "id int, day string", {"delta.columnMapping.mode": "name"}
    table = txlog.Table.create(tmp_path / "t", columns, partition_by="day", properties=mapped)
    table.append(rows(1).select(["id", "day"]))
    with pytest.raises(txlog.InvalidInputError, match=r"use delta\.enableIcebergCompatV2"):
        table.set_properties({"delta.enableIcebergCompatV1": "true"})
    table.set_properties(PROMISES["icebergCompatV2"])


@pytest.mark.parametrize("promised", ["icebergCompatV2", "icebergCompatV3", "materializePartitionColumns"])
def test_the_feature_can_be_dropped_and_files_are_plain_again(tmp_path: Path, promised: str) -> None:
    table = txlog.Table.create(tmp_path / "t", COLUMNS, partition_by="day", properties=PROMISES[promised])
    table.append(rows(1))
    table.drop_feature(promised)
    assert not {*PROMISES[promised]} & {*table.properties}
    before = table.version
    table.append(rows(3))
    (new,) = new_files(table, before)
    assert len(pq.read_schema(Path(table.uri, new["path"])).names) == 3
    assert table.to_arrow().num_rows == 2
    assert table.verify().findings == ()


@pytest.mark.skipif(int(pa.__version__.partition(".")[0]) < 22, reason="this pyarrow has no variants")
def test_rules_hold_when_the_table_changes(tmp_path: Path) -> None:
    properties = {**PROMISES["icebergCompatV2"], "delta.enableTypeWidening": "true"}
    table = txlog.Table.create(tmp_path / "t", COLUMNS, partition_by="day", properties=properties)
    table.append(rows(1))
    for change, said in [
        (lambda: table.add_columns("v variant"), "does not allow the column v"),
        (lambda: table.alter_column("id", type="double"), "changes of types that Iceberg does not know"),
        (lambda: table.overwrite(rows(1), schema_mode="overwrite", partition_by=["id"]), "keep its partition columns"),
        (lambda: table.drop_feature("columnMapping"), "drop that first"),
    ]:
        with pytest.raises(txlog.TxlogError, match=said):
            change()
    table.alter_column("id", type="bigint")
    table.rename_column("day", "date")
    table.append(pa.table({"id": [2], "date": ["a"]}), schema_mode="merge")
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 2]


def test_a_default_of_a_table_for_iceberg_is_a_literal(tmp_path: Path) -> None:
    for text in ("current_timestamp()", "now()"):
        with pytest.raises(txlog.InvalidInputError, match="requires a literal"):
            txlog.Table.create(
                tmp_path / "no", f"id int, at timestamp default {text}", properties=PROMISES["icebergCompatV3"]
            )
    columns = "id int, n int default 5, s string default 'x', d date default DATE '2026-01-31'"
    table = txlog.Table.create(tmp_path / "t", columns, properties=PROMISES["icebergCompatV3"])
    table.append(pa.table({"id": pa.array([1], pa.int32())}))
    assert table.to_arrow()["n"].to_pylist() == [5]


def test_files_of_other_programs_are_not_added_where_they_would_break_the_promise(tmp_path: Path) -> None:
    table = txlog.Table.create(
        tmp_path / "t", "id int, day string", partition_by="day", properties=PROMISES["materializePartitionColumns"]
    )
    folder = Path(table.uri, "day=a")
    folder.mkdir()
    pq.write_table(rows(1).select(["id"]), folder / "x.parquet")
    with pytest.raises(txlog.InvalidInputError, match="partition columns in each data file"):
        table.add_files(["day=a/x.parquet"])
    plain = tmp_path / "plain"
    plain.mkdir()
    pq.write_table(rows(1), plain / "x.parquet")
    with pytest.raises(txlog.InvalidInputError, match="convert them without it"):
        txlog.Table.convert(plain, properties=PROMISES["icebergCompatV2"])


def test_a_clone_follows_the_rules_of_its_source_and_takes_up_no_others(tmp_path: Path) -> None:
    source = txlog.Table.create(tmp_path / "s", COLUMNS, partition_by="day", properties=PROMISES["icebergCompatV2"])
    source.append(rows(1, 2))
    source.clone(tmp_path / "c")
    clone = txlog.Table.open(tmp_path / "c")
    clone.append(rows(3))
    assert clone.properties["delta.enableIcebergCompatV2"] == "true"
    assert clone.verify().findings == ()
    plain = txlog.Table.create(tmp_path / "p", COLUMNS, properties={"delta.columnMapping.mode": "name"})
    with pytest.raises(txlog.InvalidInputError, match="set it on the clone"):
        plain.clone(tmp_path / "d", properties=PROMISES["icebergCompatV2"])
