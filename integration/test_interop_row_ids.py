"""Row ids and Spark's Delta: a row has the same ``_metadata.row_id`` before and after either engine rewrites it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import txlog
from txlog.audit.verify import verify_table

TRACKED = {"delta.enableRowTracking": "true"}
VECTORS = {"delta.enableDeletionVectors": "true"}
SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string()), ("v", pa.int64())])
ReadDelta = Callable[..., DataFrame]


def rows_of(*rows: tuple[int, str, int]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def ids_of(frame: DataFrame) -> dict[int, tuple[int, int]]:
    """By the key of each row: its id, and the version that changed it last."""
    found = frame.select("id", "_metadata.row_id", "_metadata.row_commit_version").collect()
    assert len({row.row_id for row in found}) == len(found)
    return {row.id: (row.row_id, row.row_commit_version) for row in found}


def merge(table: txlog.Table) -> Any:
    return (
        table.merge(rows_of((3, "x", 3), (4, "y", 4), (21, "x", 21)), ["id"])
        .when_matched_update({"v": txlog.expr("source.v")}, "source.v = 3")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    )


@pytest.mark.hunt(part="spark")
@pytest.mark.parametrize(
    ("properties", "mapping"),
    [(VECTORS, "id")],  # copies keep ids in the random commands of test_spark_rows.py
    ids=["vectors, columns by id"],
)
def test_rows_keep_the_ids_that_sparks_delta_reads_and_keeps(
    tmp_path: Path, delta: SparkSession, read_delta: ReadDelta, properties: dict[str, str], mapping: str
) -> None:
    uri = tmp_path / "t"
    delta.conf.set("spark.sql.parquet.fieldId.read.enabled", "true")  # which Spark wants for columns found by id
    mapped = {"delta.columnMapping.mode": mapping}
    table = txlog.Table.create(str(uri), SCHEMA, ["day"], {**TRACKED, **properties, **mapped})
    table.append(rows_of(*((id, "ab"[id % 2], id) for id in range(10))))
    target = f"delta.`{uri}`"
    steps: list[tuple[Callable[[], Any], set[int], set[int], set[int]]] = [  # updated, deleted, inserted
        (lambda: table.update({"v": txlog.expr("v + 1")}, "id in (1, 2)"), {1, 2}, set(), set()),
        (lambda: table.update({"day": txlog.expr("'moved'")}, "id = 5"), {5}, set(), set()),
        (lambda: delta.sql(f"update {target} set v = 0 where id in (2, 3, 5)"), {2, 3, 5}, set(), set()),
        (lambda: table.upsert(rows_of((2, "b", 9), (20, "b", 9)), ["id"]), {2}, set(), {20}),
        (lambda: table.delete("id in (0, 6)"), set(), {0, 6}, set()),
        (lambda: delta.sql(f"delete from {target} where id = 7"), set(), {7}, set()),
        (lambda: merge(table), {3, 4}, set(), {21}),
        (lambda: table.upsert(rows_of((1, "b", 5)), ["id"], update_columns=["v"]), {1}, set(), set()),
        (lambda: delta.sql(f"optimize {target}"), set(), set(), set()),
        (lambda: table.optimize(), set(), set(), set()),
        (lambda: table.overwrite(rows_of((8, "b", 50)), "id = 8"), set(), {8}, {8}),
    ]
    before = ids_of(read_delta(uri))
    for number, (act, updated, deleted, inserted) in enumerate(steps):
        act()
        version = table.version
        found_now = ids_of(read_delta(uri))
        after = dict(found_now)
        expected = {id: found for id, found in before.items() if id not in deleted}
        expected |= {id: (before[id][0], version) for id in updated}
        new = {id: after.pop(id) for id in inserted}
        assert after == expected, f"step {number}"
        assert all(
            found[1] == version and found[0] not in {each[0] for each in before.values()} for found in new.values()
        )
        before = found_now
    assert verify_table(table._open_table.store).is_sound
    rows = sorted((row.id, row.day, row.v) for row in read_delta(uri).collect())
    assert rows == sorted((row["id"], row["day"], row["v"]) for row in table.snapshot().to_arrow().to_pylist())
    tags = {entry["version"]: entry.get("tags", {}) for entry in table.history()}
    assert all(each.get("delta.rowTracking.preserved") == "true" for each in tags.values()), tags
