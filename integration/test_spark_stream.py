"""The Structured Streaming sink: a micro-batch is one version, once, whatever dies in between."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import merge_model
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from java_home import spark_environment
from pyspark import cloudpickle
from spark_fixtures import SHORT_LIVED
from spark_helpers import as_rows, commit_info, commits, own_rows, refused

import txlog
import txlog.spark
from txlog.spark.source import TxlogDataSource
from txlog.spark.stream import TxlogStreamWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).parent.parent

# The workers cannot import a test module, so its classes travel as code.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

Read = Callable[..., "DataFrame"]
VECTORS = {"delta.enableDeletionVectors": "true"}


class FaultyStreamWriter(TxlogStreamWriter):
    """The real writer, with a fault a batch. ``faults`` is a file that lists those to come."""

    faults = Path()

    def write(self, iterator: Iterator[Any]) -> Any:
        message = super().write(iterator)
        if self._happens("a task dies"):
            os._exit(9)
        if self._happens("a batch that goes well"):
            return message
        if self._happens("a conflict"):
            txlog.Table.open(self.job.plan.table).set_properties({"delta.appendOnly": "false"})
        return message

    def commit(self, messages: Any, batchId: int) -> None:
        if self._happens("death before the commit"):
            os._exit(9)
        super().commit(messages, batchId)
        if self._happens("death after the commit"):
            os._exit(9)

    def _happens(self, fault: str) -> bool:
        """Whether this is the moment of ``fault``: each happens once, in the order of the list."""
        faults = self.faults.read_text().splitlines()
        if faults[:1] != [fault]:
            return False
        self.faults.write_text("\n".join(faults[1:]))
        return True


class FaultyStream(TxlogDataSource):
    @classmethod
    def name(cls) -> str:
        return "txlog_faulty_stream"

    def streamWriter(self, schema: Any, overwrite: bool) -> TxlogStreamWriter:
        faults = Path(self.options.pop("faults"))
        writer = super().streamWriter(schema, overwrite)
        writer.__class__ = FaultyStreamWriter
        writer.faults = faults  # type: ignore[attr-defined]
        return writer


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder that a stream reads a file at a time: two files of ten rows."""
    folder = tmp_path / "source"
    folder.mkdir()
    put_files(folder, 0, 2)
    return folder


def ten_rows(number: int) -> pa.Table:
    return pa.table({"id": pa.array(range(number * 10, number * 10 + 10), pa.int64())})


def put_files(folder: Path, first: int, end: int) -> None:
    """Files of ten rows each, numbered on; the later ones are newer."""
    for number in range(first, end):
        rows = ten_rows(number)
        hidden = folder / f"_{number}.tmp"
        pq.write_table(rows, hidden)
        os.utime(hidden, (number, number))
        hidden.rename(folder / f"{number:03}.parquet")


def read_files(spark: SparkSession, source: Path) -> DataFrame:
    return spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).parquet(str(source))


def start(frame: DataFrame, path: Path, name: str = "txlog", mode: str = "append", **options: str) -> Any:
    """A query over everything there is now, with its checkpoint next to the table."""
    checkpoint = options.pop("checkpointLocation", str(path.parent / "checkpoint"))
    writer = frame.writeStream.format(name).outputMode(mode).option("checkpointLocation", checkpoint)
    return writer.options(**options).trigger(availableNow=True).start(str(path))


def run(query: Any) -> Any:
    assert query.awaitTermination(300)
    return query


def ids(path: Path) -> list[int]:
    return sorted(row["id"] for row in own_rows(path))


def transactions(path: Path, app_id: str) -> list[int]:
    """The batch ids that the log holds of one stream, in the order of its versions."""
    named = [line["txn"] for commit in commits(path) for line in commit if "txn" in line]
    return [txn["version"] for txn in named if txn["appId"] == app_id]


def test_each_micro_batch_is_one_version_that_names_query_and_batch_also_after_a_restart(
    spark: SparkSession, read_delta: Read, source: Path, path: Path
) -> None:
    query = run(start(read_files(spark, source), path))
    run(start(read_files(spark, source), path))  # nothing new: no version
    put_files(source, 2, 3)
    run(start(read_files(spark, source), path))
    assert ids(path) == list(range(30))
    assert as_rows(read_delta(path)) == as_rows(spark.range(30))
    assert len(commits(path)) == 3
    assert transactions(path, query.id) == [0, 1, 2]
    sink = query.recentProgress[0]["sink"]
    assert sink["numOutputRows"] == 10
    assert not sink["metrics"], "Spark shows a Python sink's metrics now: let ours be among them"


def test_a_failed_batch_is_in_the_table_once_after_the_restart_whatever_failed(
    spark: SparkSession, source: Path, path: Path, tmp_path: Path
) -> None:
    """A stream that loses a real conflict fails with our error, and continues when it is restarted."""
    put_files(source, 2, 4)
    faults = tmp_path / "faults"
    spark.dataSource.register(FaultyStream)

    def again() -> Any:
        return run(start(read_files(spark, source), path, "txlog_faulty_stream", faults=str(faults)))

    faults.write_text("a task dies\ndeath before the commit")
    with pytest.raises(Exception, match=r"EOF|crash|exited|terminated|PYTHON"):
        again()  # Spark runs the task again by itself
    faults.write_text("death after the commit")
    with pytest.raises(Exception, match=r"EOF|crash|exited|terminated|PYTHON"):
        again()
    faults.write_text("a batch that goes well\na conflict")  # the replay of what landed, then a new one
    error = refused(again)
    assert isinstance(error, txlog.MetadataChangedError)
    assert "changed the table's schema, partitioning or properties" in error.message
    query = again()
    assert not faults.read_text()
    assert ids(path) == list(range(40))
    assert transactions(path, query.id) == [0, 1, 2, 3]
    assert len(commits(path)) == 5


@pytest.mark.hunt(part="spark")
def test_a_stream_into_a_branch_is_published_once_whatever_failed(
    spark: SparkSession, read_delta: Read, source: Path, path: Path, tmp_path: Path
) -> None:
    table = txlog.Table.create(path, "id bigint")
    table.branch("b")
    faults = tmp_path / "faults"
    spark.dataSource.register(FaultyStream)

    def again() -> Any:
        return run(start(read_files(spark, source), Path(f"{path}@b"), "txlog_faulty_stream", faults=str(faults)))

    for number, fault in enumerate(("death before the commit", "death after the commit")):
        faults.write_text(fault)
        with pytest.raises(Exception, match=r"EOF|crash|exited|terminated|PYTHON"):
            again()
        again()
        txlog.Table.open(f"{path}@b").publish(keep=not number)
        assert ids(path) == list(range(20 + 10 * number))
        put_files(source, 2 + number, 3 + number)
    table.branch("b")
    again()  # under the name of the branch that ended, it goes on where it was
    txlog.Table.open(f"{path}@b").publish()
    assert as_rows(read_delta(path)) == as_rows(spark.range(40))


@pytest.mark.hunt(part="spark")
def test_complete_mode_replaces_the_table_with_each_batch_even_by_nothing(
    spark: SparkSession, source: Path, path: Path
) -> None:
    """Once a group of ten has become one of twenty it is filtered out, and then there is no row at all."""
    tens = read_files(spark, source).groupBy().count().where("count = 10")
    checkpoint = str(path.parent / "c")
    run(start(tens, path, mode="complete", checkpointLocation=checkpoint))
    assert own_rows(path) == []
    assert [row["count"] for row in txlog.Table.open(str(path)).snapshot(0).to_arrow().to_pylist()] == [10]
    assert len(commits(path)) == 2
    assert commit_info(path)["operationParameters"]["mode"] == "Overwrite"


@pytest.mark.hunt(part="spark")
def test_batches_without_rows_make_no_version_and_a_replaced_checkpoint_folder_loses_nothing(
    spark: SparkSession, source: Path, path: Path, tmp_path: Path
) -> None:
    put_files(source, 2, 3)
    gappy = read_files(spark, source).where("id not between 10 and 19")
    run(start(gappy, path, txnAppId="gappy"))
    assert (len(commits(path)), transactions(path, "gappy")) == (2, [0, 2])
    fresh = {"txnAppId": "gappy", "checkpointLocation": str(tmp_path / "another checkpoint")}
    error = refused(lambda: run(start(gappy, path, **fresh)))
    assert isinstance(error, txlog.InvalidInputError)
    assert "skipCommittedBatches" in error.message
    put_files(source, 3, 4)
    run(start(gappy, path, **fresh, skipCommittedBatches="true"))
    assert ids(path) == [*range(10), *range(20, 40)]


@pytest.mark.hunt(part="spark")
def test_only_the_same_batch_of_the_same_folder_is_taken_for_a_replay_of_the_last_one(
    spark: SparkSession, path: Path, tmp_path: Path
) -> None:
    """Its number is the same when the folder was replaced, or put back to where the batch had not been planned."""
    put_files(tmp_path, 0, 1)
    checkpoint = tmp_path / "checkpoint"

    def again(folder: Path = checkpoint, **options: str) -> Any:
        return run(
            start(read_files(spark, tmp_path), path, txnAppId="named", checkpointLocation=str(folder), **options)
        )

    def forget(*logs: str) -> None:
        for log in logs:
            for name in ("0", ".0.crc"):
                (checkpoint / log / name).unlink(missing_ok=True)

    again()
    forget("commits")  # as if it had died after the commit
    again()
    put_files(tmp_path, 1, 2)
    forget("commits", "offsets", "sources/0")
    for folder in (checkpoint, tmp_path / "another"):
        error = refused(lambda folder=folder: again(folder))  # type: ignore[misc]
        assert isinstance(error, txlog.InvalidInputError)
        assert "made from other input" in error.message
        assert "skipCommittedBatches" in error.message
    assert (ids(path), len(commits(path))) == (list(range(10)), 1)
    again(tmp_path / "another", skipCommittedBatches="true")
    assert (ids(path), transactions(path, "named")) == (list(range(20)), [0, 1])

    def in_a_function(folder: str) -> None:
        each = txlog.spark.foreach_batch(tmp_path / "each", app_id="named")
        writer = spark.readStream.schema("id long").parquet(str(tmp_path)).writeStream.foreachBatch(each)
        run(writer.option("checkpointLocation", str(tmp_path / folder)).trigger(availableNow=True).start())

    in_a_function("first")
    error = refused(lambda: in_a_function("second"))
    assert "made from other input" in error.message
    assert len(commits(tmp_path / "each")) == 1


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("sink", (None, "orders")),
        ("function", (None, "orders")),
        *(
            pytest.param(kind, names, marks=pytest.mark.hunt(part="spark"))
            for kind, names in (("sink", ("orders", None)), ("path", (None, "orders")), ("path", ("orders", "others")))
        ),
    ],
)
def test_a_stream_that_gets_another_name_at_the_restart_after_a_crash_writes_its_last_batch_once(
    spark: SparkSession, tmp_path: Path, kind: str, names: tuple[str | None, str | None]
) -> None:
    """The commit says by its fingerprint that it has the batch. A function may also write to a table twice."""
    source, path, checkpoint = (tmp_path / name for name in ("source", "t", "checkpoint"))
    source.mkdir()
    txlog.Table.create(path, "id bigint")
    put_files(source, 0, 1)

    def twice(batch: DataFrame, to: txlog.spark.MicroBatch) -> None:
        to.write(batch, path)
        if len(commits(path)) == 2 and not (tmp_path / "crashed").exists():
            (tmp_path / "crashed").touch()
            raise RuntimeError("died between the two")
        to.write(batch.selectExpr("id + 1000 as id"), path, app_id="more")

    for name in names:
        writer = spark.readStream.schema("id long").parquet(str(source)).writeStream
        writer = writer.option("checkpointLocation", str(checkpoint))
        if kind == "sink":
            writer = writer.format("txlog").option("path", str(path))
            writer = writer if name is None else writer.option("txnAppId", name)
        else:
            writes: Any = twice if kind == "function" else path
            writer = writer.foreachBatch(txlog.spark.foreach_batch(writes, app_id=name))
        with contextlib.suppress(*([Exception] if kind == "function" and name == names[0] else [])):
            run(writer.trigger(availableNow=True).start())
        for file in ("0", ".0.crc"):  # as if it had died after the commit
            (checkpoint / "commits" / file).unlink(missing_ok=True)
    assert ids(path) == [*range(10), *(range(1000, 1010) if kind == "function" else ())]


@pytest.mark.parametrize(
    "kind",
    [
        "sink in a folder of the session",
        "append",
        *(pytest.param(kind, marks=pytest.mark.hunt(part="spark")) for kind in ("sink", "upsert", "overwrite")),
    ],
)
def test_the_last_batch_from_an_older_copy_of_the_checkpoint_folder_is_refused(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    """Its number is that of a batch in the table, and it has other rows: taken for a replay, they would be lost."""
    source, path, checkpoint, copy = (tmp_path / name for name in ("source", "t", "root/query", "copy"))
    source.mkdir()
    txlog.Table.create(path, "id bigint")

    def batch_of(number: int) -> None:
        put_files(source, number, number + 1)
        writer = spark.readStream.schema("id long").parquet(str(source)).writeStream.queryName("query")
        if kind.endswith("of the session"):
            spark.conf.set("spark.sql.streaming.checkpointLocation", str(checkpoint.parent))
        else:
            writer = writer.option("checkpointLocation", str(checkpoint))
        if kind.startswith("sink"):
            writer = writer.format("txlog").option("path", str(path))
        else:
            keys = "id" if kind == "upsert" else None
            writer = writer.foreachBatch(txlog.spark.foreach_batch(path, mode=kind, keys=keys))
        run(writer.trigger(availableNow=True).start())

    batch_of(0)
    shutil.copytree(checkpoint, copy)
    batch_of(1)
    before = ids(path)
    shutil.rmtree(checkpoint)
    copy.rename(checkpoint)
    error = refused(lambda: batch_of(2))
    assert "made from other input" in error.message
    assert (ids(path), len(commits(path))) == (before, 3)


def test_a_stream_partitions_the_table_it_creates_by_its_own_option_and_has_no_update_mode(
    spark: SparkSession, source: Path, path: Path
) -> None:
    """Spark drops ``writeStream.partitionBy`` and does not report it to the sink, so that it cannot be refused."""
    frame = spark.readStream.schema("id long").parquet(str(source)).selectExpr("id", "id % 2 as part")
    writer = frame.writeStream.format("txlog").option("checkpointLocation", str(path.parent / "c")).partitionBy("id")
    run(writer.option("partitionBy", "part").trigger(availableNow=True).start(str(path)))
    assert txlog.Table.open(str(path)).snapshot().partition_columns == ("part",)
    assert len(own_rows(path)) == 20
    with pytest.raises(Exception, match=r"(?i)update"):
        run(start(frame.groupBy("part").count(), path.parent / "u", mode="update"))


@pytest.mark.hunt(part="spark")
def test_a_batch_and_a_stream_of_changes_end_equal_to_the_changes_one_after_the_other(
    spark: SparkSession, path: Path, tmp_path: Path
) -> None:
    table = txlog.Table.create(str(path), "id bigint not null, n bigint not null", (), VECTORS)
    chance = random.Random(7)
    expected: dict[int, int] = {}
    source = tmp_path / "changes"
    source.mkdir()
    at = 0
    for number in range(3):
        changes = []
        for _ in range(40):
            at, id = at + 1, chance.randrange(12)
            kind = chance.choice("cuud")
            changes.append({"op": kind, "id": id, "n": None if kind == "d" else at, "at": at})
            expected = {**expected, id: at} if kind != "d" else {k: n for k, n in expected.items() if k != id}
        chance.shuffle(changes)
        pq.write_table(pa.Table.from_pylist(changes), source / f"{number}.parquet")
        os.utime(source / f"{number}.parquet", (number, number))
    options = {"upsertKeys": "id", "rowKindColumn": "op", "sequenceBy": "at"}
    first = spark.read.parquet(str(source / "0.parquet")).repartition(2)
    first.write.format("txlog").mode("append").options(**options, skipEmpty="true").save(str(path))
    assert table.version == 1
    schema = "op string, id long, n long, at long"
    frame = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(source)).where("at > 40")
    for _ in range(2):
        run(start(frame.repartition("id"), path, txnAppId="app", **options))
        for name in ("2", ".2.crc"):  # as if it had died after the commit
            (tmp_path / "checkpoint" / "commits" / name).unlink(missing_ok=True)
    assert {row["id"]: row["n"] for row in own_rows(path)} == expected
    assert transactions(path, "app") == [1, 2]
    one, other = (spark.createDataFrame([(1, n)], "id long, n long") for n in (1, 2))
    twice = one.union(other)
    error = refused(lambda: twice.write.format("txlog").mode("append").option("upsertKeys", "id").save(str(path)))
    assert "both changed the row with id=1" in error.message
    assert "df.repartition(<upsertKeys>)" in error.message


@pytest.mark.hunt(part="spark")
def test_batches_and_streams_hold_changes_back_that_do_not_fit_the_tables_rows(
    spark: SparkSession, path: Path, tmp_path: Path
) -> None:
    table = txlog.Table.create(str(path), "id bigint not null, n bigint", (), VECTORS)
    table.append(pa.table({"id": [1, 2, 3, 3], "n": [1, 2, 3, 33]}))
    changes = [("d", 1, None), ("d", 7, None), ("u", 2, 22), ("u", 3, 333), ("c", 4, 4)]
    frame = spark.createDataFrame(changes, "op string, id long, n long").repartition(2)
    options = {"upsertKeys": "id", "rowKindColumn": "op", "txnAppId": "batch", "txnVersion": "0"}

    def save(on_mismatch: str) -> None:
        frame.write.format("txlog").mode("append").options(**options, onMismatch=on_mismatch).save(str(path))

    error = refused(lambda: save("fail"))
    assert isinstance(error, txlog.InvalidInputError)
    assert "write with onMismatch=missing=quarantine" in error.message or "several=quarantine" in error.message
    assert error.table == str(path)
    assert table.version == 1
    for _ in range(2):
        save("quarantine")
    assert sorted((row["id"], row["n"]) for row in own_rows(path)) == [(2, 22), (3, 3), (3, 33), (4, 4)]
    held = {(3, 333, "+U", "several"), (7, None, "-D", "missing")}
    assert in_quarantine(path) == held

    source = tmp_path / "changes"
    source.mkdir()
    types = pa.schema([("op", pa.string()), ("id", pa.int64()), ("n", pa.int64())])
    batches: list[list[dict[str, Any]]] = [
        [{"op": "u", "id": 2, "n": 222}, {"op": "d", "id": 8, "n": None}],
        [{"op": "c", "id": 5, "n": 5}, {"op": "d", "id": 5, "n": None}, {"op": "c", "id": 6, "n": 6}],
    ]
    for number, rows in enumerate(batches):
        pq.write_table(pa.Table.from_pylist(rows, types), source / f"{number}.parquet")
        os.utime(source / f"{number}.parquet", (number, number))
    stream = spark.readStream.schema(frame.schema).option("maxFilesPerTrigger", 1).parquet(str(source))
    options = {"upsertKeys": "id", "rowKindColumn": "op", "txnAppId": "stream"}
    failed = refused(lambda: run(start(stream, path, **options, onMismatch="missing=fail")))
    assert "with id=8" in failed.message
    assert transactions(path, "stream") == []
    for _ in range(2):
        run(start(stream, path, **options, onMismatch="missing=quarantine"))
        for name in ("1", ".1.crc"):  # as if it had died after the commit
            (tmp_path / "checkpoint" / "commits" / name).unlink(missing_ok=True)
    assert transactions(path, "stream") == [0, 1]
    assert sorted((row["id"], row["n"]) for row in own_rows(path)) == [(2, 222), (3, 3), (3, 33), (4, 4), (6, 6)]
    assert in_quarantine(path) == held | {(8, None, "-D", "missing"), (5, None, "-D", "missing")}
    assert table.verify().is_sound


def in_quarantine(path: Path) -> set[tuple[Any, ...]]:
    """The changes in the files that commits name."""
    told = [each["operationParameters"] for each in txlog.Table.open(path).history()]
    files = [path / each["quarantine"] for each in told if "quarantine" in each]
    rows = [row for file in files for row in pq.read_table(file, partitioning=None).to_pylist()]
    assert len(rows) == len({tuple(row.values()) for row in rows}), "a replay holds nothing back again"
    return {(row["id"], row["n"], row["_kind"], row["_case"]) for row in rows}


def test_batches_and_streams_merge_by_the_engine_of_the_table_as_plain_python_does(
    spark: SparkSession, path: Path, tmp_path: Path
) -> None:
    """Its functions take rows back and mind no order, so that rows of one key may be in any task."""
    engine = {
        "merge-engine": "aggregation",
        "fields.n.aggregate-function": "sum",
        "fields.t.aggregate-function": "max",
        "fields.t.ignore-retract": "true",
    }
    named = {f"txlog.{name}": value for name, value in engine.items()}
    txlog.Table.create(str(path), "k bigint not null, n bigint, t string", (), {**VECTORS, **named})
    chance, source, changelog = random.Random(5), tmp_path / "changes", []
    source.mkdir()
    types = pa.schema([("op", pa.string()), ("k", pa.int64()), ("n", pa.int64()), ("t", pa.string())])
    for number in range(4):
        rows = []
        for at in range(number * 30, number * 30 + 30):
            row = {"k": chance.randrange(9), "n": at, "t": chance.choice(["a", "b", None])}
            rows.append({"op": chance.choice(merge_model.KINDS), **row})
            changelog.append((rows[-1]["op"], row))
        pq.write_table(pa.Table.from_pylist(rows, types), source / f"{number}.parquet")
        os.utime(source / f"{number}.parquet", (number, number))
    options = {"upsertKeys": "k", "rowKindColumn": "op", "mergeEngine": "aggregate"}
    frame = spark.read.schema("op string, k long, n long, t string").parquet(str(source / "0.parquet")).repartition(2)
    for _ in range(2):
        frame.write.format("txlog").mode("append").options(**options, txnAppId="first", txnVersion="0").save(str(path))
    stream = spark.readStream.schema(frame.schema).option("maxFilesPerTrigger", 1).parquet(str(source))
    stream = stream.where("n >= 30")
    for _ in range(2):
        run(start(stream.repartition(2), path, txnAppId="app", **options))
        for name in ("3", ".3.crc"):  # as if it had died after the commit
            (tmp_path / "checkpoint" / "commits" / name).unlink(missing_ok=True)
    expected = merge_model.apply(engine, ["k", "n", "t"], {}, changelog)
    assert {row["k"]: row for row in own_rows(path)} == expected
    assert transactions(path, "app") == [1, 2, 3]


def test_a_function_of_batches_merges_by_options_and_takes_rows_back_each_batch_once(
    spark: SparkSession, path: Path, tmp_path: Path
) -> None:
    plain = txlog.Table.create(str(path), "id bigint not null, n bigint, seen bigint", (), VECTORS)
    first = {"upsertKeys": "id", "mergeEngine": "partial-update"}
    back = {"upsertKeys": "id", "rowKindColumn": "op", "changelogMode": "retract"}
    (tmp_path / "source").mkdir()
    put_files(tmp_path / "source", 0, 1)
    reported = []

    def each(batch: DataFrame, to: txlog.spark.MicroBatch) -> None:
        reported.append(to.write(batch.selectExpr("id", "id * 2 as n"), path, app_id="n", options=first))
        reported.append(to.write(batch.selectExpr("id", "id + 1 as seen"), path, app_id="seen", options=first))
        gone = batch.where("id < 3").selectExpr("'-U' as op", "id", "id * 2 as n", "id + 1 as seen")
        reported.append(to.write(gone, path, app_id="gone", options=back))

    for _ in range(2):
        writer = read_files(spark, tmp_path / "source").writeStream.foreachBatch(txlog.spark.foreach_batch(each))
        run(writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start())
        for name in ("0", ".0.crc"):
            (tmp_path / "c" / "commits" / name).unlink(missing_ok=True)
    assert {row["id"]: (row["n"], row["seen"]) for row in own_rows(path)} == {
        id: (id * 2, id + 1) for id in range(3, 10)
    }
    assert [(result.version, result.outcome) for result in reported] == [
        *((version, "committed") for version in (1, 2, 3)),
        *((version, "already_committed") for version in (1, 2, 3)),
    ]
    plain.set_properties({"txlog.merge-engine": "first-row"})
    rows = spark.createDataFrame([(1, 1, 1)], "id long, n long, seen long")
    with pytest.raises(txlog.UnsupportedFeatureError, match=r"option\('upsertKeys'"):
        txlog.spark.upsert(spark, str(path), rows, ["id"])


# --- foreach_batch ------------------------------------------------------------------------------------------------


def test_a_function_of_batches_writes_each_of_its_tables_once_after_it_failed_between_them(
    spark: SparkSession, source: Path, path: Path, tmp_path: Path
) -> None:
    totals, reported, failures = tmp_path / "totals", [], [RuntimeError("between the tables")]

    def each(batch: DataFrame, to: txlog.spark.MicroBatch) -> None:
        reported.append(to.write(batch, path))
        if to.batch_id == 1 and failures:
            raise failures.pop()
        reported.append(to.write(batch.selectExpr("count(*) as n"), totals, mode="overwrite"))
        with pytest.raises(txlog.InvalidInputError, match="its own app_id"):
            to.write(batch, path.parent / "." / "t")
        to.write(batch.where("id % 10 = 0"), path, app_id="tens")
        assert to.write(batch.where("id < 0"), path, app_id="none") is None

    def again() -> Any:
        writer = read_files(spark, source).writeStream.foreachBatch(txlog.spark.foreach_batch(each))
        return run(writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start())

    with pytest.raises(Exception, match="between the tables"):
        again()
    query = again()
    assert ids(path) == sorted([*range(20), 0, 10])
    assert [row["n"] for row in own_rows(totals)] == [10]
    assert (transactions(path, query.id), transactions(path, "tens")) == ([0, 1], [0, 1])
    assert transactions(totals, query.id) == [0, 1]
    assert [(result.version, result.outcome, result.metrics.rows) for result in reported] == [
        *((0, "committed", 10), (0, "committed", 1)),
        (2, "committed", 10),
        *((2, "already_committed", 0), (1, "committed", 1)),
    ]


def test_a_function_upserts_and_merges_each_batch_once_after_it_failed_between_them(
    spark: SparkSession, source: Path, path: Path, tmp_path: Path
) -> None:
    last, seen = (txlog.Table.create(str(tmp_path / name), "key bigint, n bigint", (), VECTORS) for name in "ls")
    reported, failures = [], [RuntimeError("between the tables")]

    def each(batch: DataFrame, to: txlog.spark.MicroBatch) -> None:
        rows = batch.selectExpr("id % 10 as key", "id as n")
        reported.append(to.upsert(rows.where("n % 2 = 0"), last.uri, ["key"]))
        if to.batch_id == 1 and failures:
            raise failures.pop()
        counted = to.merge(rows, seen.uri, ["key"]).when_matched_update({"n": txlog.expr("target.n + 1")})
        reported.append(
            counted.when_not_matched_insert({"key": txlog.expr("source.key"), "n": txlog.expr("1")}).execute()
        )
        with pytest.raises(txlog.InvalidInputError, match="its own app_id"):
            to.upsert(rows, last.uri, ["key"])
        assert to.upsert(rows.where("n < 0"), last.uri, ["key"], app_id="none") is None

    def again() -> None:
        writer = read_files(spark, source).writeStream.foreachBatch(txlog.spark.foreach_batch(each, app_id="app"))
        run(writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start())

    with pytest.raises(Exception, match="between the tables"):
        again()
    again()
    assert {row["key"]: row["n"] for row in own_rows(Path(last.uri))} == {key: 10 + key for key in range(0, 10, 2)}
    assert {row["key"]: row["n"] for row in own_rows(Path(seen.uri))} == dict.fromkeys(range(10), 2)
    assert [transactions(Path(table.uri), "app") for table in (last, seen)] == [[0, 1], [0, 1]]
    assert [(each.outcome, each.metrics.rows_inserted, each.metrics.rows_updated) for each in reported if each] == [
        *(("committed", 5, 0), ("committed", 10, 0), ("committed", 0, 5)),
        *(("already_committed", 0, 0), ("committed", 0, 10)),
    ]


def test_sql_of_a_function_changes_each_table_once_after_it_failed_between_two_statements(
    spark: SparkSession, source: Path, path: Path, tmp_path: Path
) -> None:
    counted = txlog.Table.create(str(path), "key bigint, n bigint")
    failures = [RuntimeError("between the statements")]

    def each(batch: DataFrame, to: txlog.spark.MicroBatch) -> None:
        batch.selectExpr("id % 10 as key").createOrReplaceTempView("updates")
        table = f"delta.`{counted.uri}`"
        to.sql(
            f"MERGE INTO {table} t USING updates s ON t.key = s.key WHEN MATCHED THEN UPDATE SET n = n + 1"
            " WHEN NOT MATCHED THEN INSERT (key, n) VALUES (s.key, 1)"
        )
        if to.batch_id == 1 and failures:
            raise failures.pop()
        to.sql(f"INSERT INTO {table} SELECT key + 100, 0 FROM updates", app_id="added")
        to.sql(f"UPDATE {table} SET n = n + :by WHERE key >= 100", parameters={"by": 5}, app_id="raised")
        for again in (f"DELETE FROM {table}", f"DELETE FROM {table} WHERE n = 0; DELETE FROM {table}", "SHOW TABLES"):
            with pytest.raises(txlog.InvalidInputError, match=r"its own app_id|each exactly once"):
                to.sql(again)
        with pytest.raises(txlog.InvalidInputError, match="its own app_id"):
            to.write(batch, counted.uri, app_id="added")

    def again() -> None:
        writer = read_files(spark, source).writeStream.foreachBatch(txlog.spark.foreach_batch(each, app_id="app"))
        run(writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start())

    with pytest.raises(Exception, match="between the statements"):
        again()
    again()
    (tmp_path / "c" / "commits" / "1").unlink()  # as if it had died after the last statement
    (tmp_path / "c" / "commits" / ".1.crc").unlink(missing_ok=True)
    again()
    found = sorted((row["key"], row["n"]) for row in own_rows(path))
    added = [(100 + key, n) for key in range(10) for n in (5, 10)]  # the second batch raises both
    assert found == [*((key, 2) for key in range(10)), *added]
    assert [transactions(path, name) for name in ("app-sql", "added", "raised")] == [[0, 1]] * 3


@pytest.mark.hunt(part="spark")
def test_counts_of_update_mode_are_upserted_and_a_replayed_batch_counts_once(
    spark: SparkSession, source: Path, path: Path, tmp_path: Path
) -> None:
    txlog.Table.create(str(path), "key bigint, count bigint", (), VECTORS)
    counts = read_files(spark, source).selectExpr("id % 7 as key").groupBy("key").count()

    def again() -> None:
        each = txlog.spark.foreach_batch(path, app_id="counts", mode="upsert", keys=["key"])
        writer = counts.writeStream.outputMode("update").foreachBatch(each)
        run(writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start())

    again()
    for name in ("1", ".1.crc"):  # as if it had died after the commit
        (tmp_path / "c" / "commits" / name).unlink(missing_ok=True)
    put_files(source, 2, 3)
    again()
    assert {row["key"]: row["count"] for row in own_rows(path)} == Counter(id % 7 for id in range(30))
    assert transactions(path, "counts") == [0, 1, 2]
    with pytest.raises(txlog.InvalidInputError, match="go together"):
        txlog.spark.foreach_batch(path, mode="upsert")


def test_a_function_for_a_path_takes_replays_and_refuses_older_batches(spark: SparkSession, path: Path) -> None:
    write = txlog.spark.foreach_batch(path, app_id="app", options={"partitionBy": "part"})
    rows = spark.range(9).selectExpr("id", "id % 2 as part")
    for batch_id in (0, 3, 3):
        write(rows.where(f"id between {batch_id} and {batch_id + 1}"), batch_id)
    with pytest.raises(Exception, match="rewound or replaced") as caught:
        write(rows, 2)
    assert isinstance(txlog.spark.error_from(caught.value), txlog.InvalidInputError)
    txlog.spark.foreach_batch(path, app_id="app", skip_committed_batches=True)(rows, 2)
    with pytest.raises(Exception, match="text") as caught:
        write(rows.selectExpr("*", "'a' as text"), 4)
    assert isinstance(txlog.spark.error_from(caught.value), txlog.SchemaMismatchError)
    assert ids(path) == [0, 1, 3, 4]
    assert transactions(path, "app") == [0, 3]
    assert txlog.Table.open(str(path)).snapshot().partition_columns == ("part",)


def test_an_error_in_a_function_for_batches_ends_the_query_and_is_given_back_typed(
    spark: SparkSession, source: Path, path: Path, tmp_path: Path
) -> None:
    each = txlog.spark.foreach_batch(path, options={"mergeScheme": "true"})
    writer = read_files(spark, source).writeStream.foreachBatch(each).option("checkpointLocation", str(tmp_path / "c"))
    with pytest.raises(Exception, match="mergescheme") as caught:
        run(writer.trigger(availableNow=True).start())
    error = txlog.spark.error_from(caught.value)
    assert isinstance(error, txlog.InvalidInputError)
    assert "mergeSchema" in error.message


# --- kill -9 ------------------------------------------------------------------------------------------------------

STREAMS = ("file", "rate", "each", "table")
DRIVER = """
    import sys, time
    import txlog.spark
    from pyspark.sql import SparkSession
    source, table, path, checkpoint = sys.argv[1:]
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # it does not live for long
        "spark.sql.shuffle.partitions": "2",
    }
    spark = SparkSession.builder.master("local[2,3]").config(map=settings).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    frames = {
        "file": spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).parquet(source),
        "rate": spark.readStream.format("rate-micro-batch").options(rowsPerBatch=10, numPartitions=2).load(),
        "table": spark.readStream.format("txlog").option("maxFilesPerTrigger", 1).load(table),
    }
    frames["each"] = frames["rate"] = frames["rate"].withColumnRenamed("value", "id")
    frames["counts"] = frames["rate"].selectExpr("id % 7 as key").groupBy("key").count()
    queries = {}
    while True:
        for name, frame in frames.items():
            if name not in queries or not queries[name].isActive:  # a killed worker may have ended it
                rows = frame if name == "counts" else frame.selectExpr(f"'{name}' as source", "id")
                writer = rows.writeStream.option("checkpointLocation", f"{checkpoint}-{name}")
                writer = writer.trigger(processingTime="0.5 seconds")
                if name == "counts":
                    each = txlog.spark.foreach_batch(f"{path}-counts", app_id=name, mode="upsert", keys=["key"])
                    queries[name] = writer.outputMode("update").foreachBatch(each).start()
                elif name == "each":
                    queries[name] = writer.foreachBatch(txlog.spark.foreach_batch(path, app_id=name)).start()
                else:
                    queries[name] = writer.format("txlog").option("txnAppId", name).start(path)
        time.sleep(0.05)
"""


@pytest.mark.hunt(part="spark")
def test_streams_that_are_killed_again_and_again_end_equal_to_their_sources(
    source: Path, path: Path, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """kill -9 of a driver and of its Python workers at random moments, while others append and rewrite.

    Three are of the sink, of which one reads files and one a table of txlog's; one is a function of batches, and one
    upserts counts in update mode.
    ``TXLOG_KILLS`` asks for more rounds of each kind than one.
    """
    kills = int(os.environ.get("TXLOG_KILLS", "1"))
    batches = 6 * kills + 6
    put_files(source, 2, batches)
    moment = random.Random(os.environ.get("TXLOG_SEED", "1"))
    txlog.Table.create(str(path), pa.schema({"source": pa.string(), "id": pa.int64()}))
    table = txlog.Table.create(str(tmp_path / "from"), pa.schema({"id": pa.int64()}))
    for number in range(4):
        table.append(ten_rows(number))
    counts = txlog.Table.create(f"{path}-counts", "key bigint, count bigint", (), VECTORS)
    with Neighbors(path) as neighbors:
        for killed in range(kills):
            table.append(ten_rows(4 + killed))
            print(f"round {killed + 1} of {kills}, version {neighbors.table.snapshot().version}", flush=True)
            with Driver(source, table.uri, path, tmp_path / "checkpoint") as driver:
                driver.advance(moment.randint(1, 3))
                time.sleep(moment.random() / 3)
                driver.kill_a_worker(moment)
                driver.advance(moment.randint(1, 3))
                time.sleep(moment.random() / 3)
        with Driver(source, table.uri, path, tmp_path / "checkpoint") as driver:
            table.append(ten_rows(4 + kills))
            driver.wait_for(lambda: driver.rows("table") == 10 * (5 + kills))
            driver.wait_for(
                lambda: driver.last_batch("file") >= batches - 1 - kills and driver.rows("file") == 10 * batches
            )
            driver.wait_for(lambda: driver.last_batch("rate") >= 3 and driver.last_batch("each") >= 3)
            killed_at = counts.snapshot().transaction_version("counts") or 0
            driver.wait_for(lambda: (counts.snapshot().transaction_version("counts") or 0) > killed_at)
    rows = own_rows(path)
    found = {name: sorted(row["id"] for row in rows if row["source"] == name) for name in (*STREAMS, "append")}
    count = {name: driver.last_batch(name) + 1 for name in STREAMS}
    # Killed after it noted down a file and before the batch, Spark puts the next file into that batch too.
    assert batches - kills <= count["file"] <= batches
    assert found["file"] == list(range(10 * batches))
    assert found["table"] == list(range(10 * (5 + kills)))
    assert found["rate"] == list(range(10 * count["rate"]))
    assert found["each"] == list(range(10 * count["each"]))
    for name in STREAMS:
        assert transactions(path, name) == list(range(count[name]))
    counted = counts.snapshot()
    expected = Counter(id % 7 for id in range(10 * ((counted.transaction_version("counts") or 0) + 1)))
    assert {row["key"]: row["count"] for row in counted.to_arrow().to_pylist()} == expected
    assert found["append"] == list(range(neighbors.appended))
    assert len(commits(path)) == 1 + sum(count.values()) + neighbors.appended + neighbors.rewritten
    record_property(
        "measured",
        f"stream: {kills} drivers and {kills} Python workers killed with kill -9; {len(rows):,} rows, each once, of"
        f" {count} batches, {neighbors.appended} appends alongside"
        f" {neighbors.rewritten} rewrites, as many versions",
    )


class Driver:
    """A separate Spark program with all streams. Leaving the block kills it, with all its workers."""

    def __init__(self, source: Path, table: str, path: Path, checkpoint: Path) -> None:
        self.table = txlog.Table.open(str(path))
        places = [str(ROOT), str(ROOT / "txlog" / "spark" / "discovery"), os.environ.get("PYTHONPATH", "")]
        self.process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(DRIVER), str(source), table, str(path), str(checkpoint)],
            env={
                **spark_environment(),
                "PYTHONPATH": os.pathsep.join(filter(None, places)),
                "JDK_JAVA_OPTIONS": SHORT_LIVED,
            },
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        for process_id in (self.process.pid, *descendants(self.process.pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process_id, signal.SIGKILL)
        self.process.wait()

    def advance(self, commits: int) -> None:
        """Wait until the streams have made this many more commits."""
        goal = self.last_batch("file") + self.last_batch("rate") + commits
        self.wait_for(lambda: self.last_batch("file") + self.last_batch("rate") >= goal)

    def last_batch(self, app_id: str) -> int:
        found = self.table.snapshot().transaction_version(app_id)
        return -1 if found is None else found

    def rows(self, source: str) -> int:
        return int(self.table.snapshot().to_arrow(columns=["id"], where=f"source = '{source}'").num_rows)

    def wait_for(self, done: Callable[[], bool]) -> None:
        for _ in range(3_000):
            if done():
                return
            assert self.process.poll() is None, "the driver ended by itself"
            time.sleep(0.1)
        raise AssertionError("the streams made no progress")

    def kill_a_worker(self, moment: random.Random) -> None:
        """Any process that Spark started for Python: of a task, of the planning, of the commit, or their parent."""
        workers = [found for found in descendants(self.process.pid) if "pyspark.daemon" in command_line(found)]
        with contextlib.suppress(ProcessLookupError):
            os.kill(moment.choice(workers), signal.SIGKILL)


def descendants(process_id: int) -> list[int]:
    reported = subprocess.run(["pgrep", "-P", str(process_id)], capture_output=True, text=True).stdout.split()
    return [found for child in map(int, reported) for found in (child, *descendants(child))]


def command_line(process_id: int) -> str:
    try:
        return Path(f"/proc/{process_id}/cmdline").read_text()
    except OSError:  # it has ended meanwhile
        return ""


class Neighbors:
    """While it is entered: a thread that appends single rows, and one that moves rows into other files."""

    def __init__(self, path: Path) -> None:
        self.table = txlog.Table.open(str(path))
        self.path = path
        self.appended = 0
        self.rewritten = 0
        self.ends = threading.Event()
        self.pool = ThreadPoolExecutor(2)

    def __enter__(self) -> Neighbors:
        self.running = [self.pool.submit(self._append), self.pool.submit(self._rewrite)]
        return self

    def __exit__(self, *_: object) -> None:
        self.ends.set()
        for thread in self.running:
            thread.result()

    def _append(self) -> None:
        while not self.ends.wait(0.5):
            self.table.append(pa.table({"source": ["append"], "id": pa.array([self.appended], pa.int64())}))
            self.appended += 1

    def _rewrite(self) -> None:
        while not self.ends.wait(1):
            with self.table.transaction(operation="OPTIMIZE", data_change=False) as transaction:
                small = transaction.snapshot.files().sort_by("size").column("path").to_pylist()[:5]
                if len(small) < 2:
                    continue
                transaction.append(pa.concat_tables(pq.read_table(self.path / unquote(name)) for name in small))
                transaction.remove(*small)
            self.rewritten += 1
