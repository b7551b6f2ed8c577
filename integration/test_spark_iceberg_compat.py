"""Tables with Delta's Iceberg compatibility, or with partition columns in their files: Spark's Delta and txlog write
them side by side, and every file of both is by the rules. What Iceberg readers see of them is in `iceberg_tables`."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rows import assert_sound
from spark_helpers import save

import txlog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Read = Callable[..., "DataFrame"]
COLUMNS = "id bigint, day date, part string, tags array<int>, m map<string, struct<a: int>>, name string"
PROMISES = {
    "icebergCompatV2": "delta.enableIcebergCompatV2",
    "icebergCompatV3": "delta.enableIcebergCompatV3",
    "materializePartitionColumns": "delta.enableMaterializePartitionColumnsFeature",
}


def ours(table: txlog.Table, *ids: int) -> pa.Table:
    schema = table.to_arrow().schema
    columns = {
        "id": list(ids),
        "day": [datetime.date(2026, 1, id) for id in ids],
        "part": ["a b" if id % 2 else None for id in ids],
        "tags": [[id, None] for id in ids],
        "m": [[("k", {"a": id})] for id in ids],
        "name": [f"txlog {id}" for id in ids],
    }
    return pa.table([pa.array(columns[field.name], field.type) for field in schema], schema=schema)


def theirs(*ids: int) -> str:
    rows = (
        f"({id}, date'2026-01-{id:02}', {'null' if id % 2 else repr('é')}, array({id}),"
        f" map('k', named_struct('a', {id})), 'spark {id}')"
        for id in ids
    )
    return ", ".join(rows)


@pytest.mark.hunt(part="spark")
@pytest.mark.parametrize("promised", PROMISES)
def test_spark_and_txlog_write_a_compatible_table_side_by_side(
    delta: SparkSession, read_delta: Read, tmp_path: Path, promised: str
) -> None:
    key = PROMISES[promised]
    for made_by in ("spark", "txlog"):
        path = tmp_path / made_by
        if made_by == "spark":
            delta.sql(
                f"create table delta.`{path}` ({COLUMNS}) using delta partitioned by (part, day)"
                f" tblproperties ('{key}' = 'true')"
            )
        else:
            txlog.Table.create(path, COLUMNS, partition_by=["part", "day"], properties={key: "true"})
        table = txlog.Table.open(path)
        delta.sql(f"insert into delta.`{path}` values {theirs(1, 2, 3)}")
        table.append(ours(table, 4, 5, 6))
        save(delta.createDataFrame([(7, "by the source")], "id long, name string"), path)
        table.update({"name": txlog.expr("'new'")}, "id in (1, 4)")
        table.delete("id = 2")
        delta.sql(f"update delta.`{path}` set name = 'newer' where id in (3, 5)")
        table.optimize()
        delta.sql(f"delete from delta.`{path}` where id = 6")
        found = {row.id: row.name for row in read_delta(path).select("id", "name").collect()}
        assert found == {1: "new", 3: "newer", 4: "new", 5: "newer", 7: "by the source"}
        assert sorted(read_delta(path).toArrow().to_pylist(), key=str) == sorted(table.to_arrow().to_pylist(), key=str)
        assert_sound(str(path))
        physical = {field["name"]: field["metadata"] for field in schema_of(path)}
        names = {name: each.get("delta.columnMapping.physicalName", name) for name, each in physical.items()}
        for line in Path(path, "_delta_log").glob("*.json"):
            for action in map(json.loads, line.read_text().splitlines()):
                if "add" in action:
                    check_file(path, action["add"], names, promised)


def check_file(root: Path, add: dict[str, Any], names: dict[str, str], promised: str) -> None:
    """Values of partitions are in the file, last, and the numbers of rows in the log."""
    stored = pq.ParquetFile(root / unquote(add["path"]))
    assert {*stored.schema_arrow.names[-2:]} == {names["part"], names["day"]}, add
    rows = stored.read().select([names["part"], names["day"]]).to_pylist()
    expected = add["partitionValues"]
    assert all(
        (None if value is None else str(value)) == expected[name] for row in rows for name, value in row.items()
    ), add
    assert json.loads(add["stats"])["numRecords"] == len(rows)
    if promised != "materializePartitionColumns":
        assert ids_in(stored.schema_arrow), add


def ids_in(schema: Iterable[pa.Field]) -> list[int]:
    """The ids of all columns, list elements, keys and values. Raises KeyError if one has none."""
    found: list[int] = []
    for field in schema:
        found.append(int(field.metadata[b"PARQUET:field_id"]))
        if pa.types.is_map(field.type):
            found += ids_in([field.type.key_field, field.type.item_field])
        elif pa.types.is_list(field.type):
            found += ids_in([field.type.value_field])
        elif pa.types.is_struct(field.type):
            found += ids_in(field.type)
    return found


def schema_of(path: Path) -> list[dict[str, Any]]:
    first = Path(path, "_delta_log", f"{0:020}.json").read_text().splitlines()
    metadata = next(json.loads(line)["metaData"] for line in first if '"metaData"' in line)
    fields: list[dict[str, Any]] = json.loads(metadata["schemaString"])["fields"]
    return fields
