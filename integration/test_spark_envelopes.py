"""`txlog.spark.apply_changes`: Debezium's envelopes in a stream. Spark's Delta reads what the tables hold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pytest
from pages import blocks

import txlog
import txlog.spark
from tests.mirror.envelopes import ORDERS, event
from txlog.errors import InvalidInputError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FIELDS = ORDERS[:3]
MORE = (*FIELDS, {"field": "country", "type": "string", "optional": True})


def order(number: int, name: str, day: int = 0, **more: Any) -> dict[str, Any]:
    return {"id": number, "name": name, "day": day, **more}


BATCHES = [
    [
        event("r", order(1, "a"), fields=FIELDS, lsn=1),
        event("c", order(2, "b"), fields=FIELDS, lsn=2),
        event("u", order(1, "a2"), order(1, "a"), fields=FIELDS, lsn=3),
        event("c", order(3, "short"), fields=FIELDS, lsn=4),
        event("d", None, order(3, "short"), fields=FIELDS, lsn=5),
    ],
    [
        event("u", order(1, "a2"), fields=FIELDS, lsn=3),  # sent again, as after a restart of the connector
        event("u", order(1, "a3", country="NO"), fields=MORE, lsn=7),
        event("d", None, order(2, "b"), fields=FIELDS, lsn=6),
        b"",
        event("c", order(4, "d", country="SE"), fields=MORE, lsn=8),
    ],
]
NEWEST = {(1, "a3", "NO"), (4, "d", "SE")}
HISTORY = {
    (1, "a", None, 1, 3),
    (1, "a2", None, 3, 7),
    (1, "a3", "NO", 7, None),
    (2, "b", None, 2, 6),
    (3, "short", None, 4, 5),
    (4, "d", "SE", 8, None),
}


def run(spark: SparkSession, folder: Path, uri: str, **options: Any) -> None:
    """One run of the stream for each batch."""
    source = folder / "events"
    source.mkdir(exist_ok=True)
    for number, lines in enumerate(BATCHES):
        (source / f"{number}.txt").write_bytes(b"\n".join(lines))
        events = spark.readStream.text(str(source))
        changes = txlog.spark.apply_changes(events, uri, ["id"], sequence_by="source.lsn", **options)
        query = changes.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
        query.awaitTermination()


def test_each_key_has_its_newest_row_and_new_columns_come_with_the_events(
    spark: SparkSession, tmp_path: Path, read_delta: Callable[..., DataFrame]
) -> None:
    uri = str(tmp_path / "orders")
    run(spark, tmp_path, uri)
    found = read_delta(uri).select("id", "name", "country").collect()
    assert {tuple(row) for row in found} == NEWEST
    assert len(found) == len(NEWEST)


def test_each_key_has_all_rows_that_it_had(
    spark: SparkSession, tmp_path: Path, read_delta: Callable[..., DataFrame]
) -> None:
    uri = str(tmp_path / "orders")
    run(spark, tmp_path, uri, stored_as_scd_type=2)
    found = read_delta(uri).select("id", "name", "country", "__START_AT", "__END_AT").collect()
    assert {tuple(row) for row in found} == HISTORY
    assert len(found) == len(HISTORY)


def test_what_is_no_stream_of_envelopes_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    events = spark.readStream.text(str(tmp_path / "events"))
    with pytest.raises(InvalidInputError, match="for a stream"):
        txlog.spark.apply_changes(spark.createDataFrame([("x",)], "value string"), tmp_path / "t", ["id"])
    with pytest.raises(InvalidInputError, match="no offset that orders it"):
        txlog.spark.apply_changes(events, tmp_path / "t", ["id"])
    with pytest.raises(InvalidInputError, match="envelopes are in a column value"):
        txlog.spark.apply_changes(events.withColumnRenamed("value", "v"), tmp_path / "t", ["id"], sequence_by="v")


def test_the_program_of_the_page_runs_on_what_kafka_gives(spark: SparkSession, tmp_path: Path) -> None:
    messages = tmp_path / "kafka"
    lines = [(line, offset) for offset, line in enumerate((*BATCHES[0], None))]
    spark.createDataFrame(lines, "value binary, offset long").coalesce(1).write.parquet(str(messages))
    events = spark.readStream.schema("value binary, offset long").parquet(str(messages))
    *_, program = blocks("docs/mirror.md")
    _, _, program = program.partition(")\nchanges")
    for place in ("s3://bucket", "/checkpoints"):
        program = program.replace(place, str(tmp_path / place.rpartition("/")[2]))
    names = {"spark": spark, "txlog": txlog, "events": events}
    exec(f"changes{program}".replace(".start()", ".trigger(availableNow=True).start().awaitTermination()"), names)
    assert rows_of(tmp_path / "bucket" / "orders") == {(1, "a2"), (2, "b")}


@pytest.mark.hunt(part="spark")
def test_decoded_events_have_columns_of_their_own_and_what_cannot_be_applied_ends_the_query(
    spark: SparkSession, tmp_path: Path
) -> None:
    row, source = "struct<id: int, name: string>", {"db": "shop", "schema": "public", "table": "orders"}
    schema = (
        f"op string, before {row}, after {row}, source struct<db: string, schema: string, `table`: string, lsn: bigint>"
    )

    def apply(op: str, name: str, lsn: int) -> None:
        after = None if op == "t" else {"id": 1, "name": name}
        events = [{"op": op, "before": None, "after": after, "source": {**source, "lsn": lsn}}]
        spark.createDataFrame(events, schema).coalesce(1).write.mode("append").parquet(str(tmp_path / "decoded"))
        stream = spark.readStream.schema(schema).parquet(str(tmp_path / "decoded"))
        changes = txlog.spark.apply_changes(stream, tmp_path / "t", "id", sequence_by="source.lsn")
        changes = changes.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True)
        changes.start().awaitTermination()

    with pytest.raises(Exception, match=r"schemas\.enable"):
        apply("c", "a", 1)
    txlog.Table.create(tmp_path / "t", "id int, name string")
    apply("u", "b", 2)
    with pytest.raises(Exception, match=r"an event empties the table"):
        apply("t", "", 3)
    assert rows_of(tmp_path / "t") == {(1, "b")}


def rows_of(path: Path) -> set[tuple[Any, ...]]:
    rows = deltalake.DeltaTable(str(path)).to_pyarrow_table(columns=["id", "name"]).to_pylist()
    found = {tuple(row.values()) for row in rows}
    assert len(found) == len(rows)
    return found
