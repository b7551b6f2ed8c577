"""The Structured Streaming sink: a micro-batch is one version, once, whatever dies in between."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle
from spark_helpers import as_rows, commit_info, commits, own_rows, refused

import txlog
from txlog.spark.source import TxlogDataSource
from txlog.spark.stream import TxlogStreamWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# The workers cannot import a test module, so its classes travel as code.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

Read = Callable[..., "DataFrame"]


class FaultyStreamWriter(TxlogStreamWriter):
    """The real writer, with one fault at one moment, once. ``flag`` is a file that says the fault has happened."""

    fault = ""
    flag = ""

    def write(self, iterator: Iterator[Any]) -> Any:
        message = super().write(iterator)
        self._happen("task")
        return message

    def commit(self, messages: Any, batchId: int) -> None:
        self._happen("before the commit")
        super().commit(messages, batchId)
        self._happen("after the commit")

    def _happen(self, moment: str) -> None:
        if self.fault == moment and not os.path.exists(self.flag):
            Path(self.flag).touch()
            os._exit(9)


class FaultyStream(TxlogDataSource):
    @classmethod
    def name(cls) -> str:
        return "txlog_faulty_stream"

    def streamWriter(self, schema: Any, overwrite: bool) -> TxlogStreamWriter:
        fault, flag = self.options.pop("fault"), self.options.pop("flag")
        writer = super().streamWriter(schema, overwrite)
        writer.__class__ = FaultyStreamWriter
        writer.fault, writer.flag = fault, flag  # type: ignore[attr-defined]
        return writer


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder that a stream reads a file at a time: four files of ten rows."""
    folder = tmp_path / "source"
    folder.mkdir()
    for number in range(4):
        put_file(folder, number)
    return folder


def put_file(folder: Path, number: int) -> None:
    rows = pa.table({"id": pa.array(range(number * 10, number * 10 + 10), pa.int64())})
    hidden = folder / f"_{number}.tmp"
    pq.write_table(rows, hidden)
    hidden.rename(folder / f"{number:03}.parquet")


def stream(spark: SparkSession, source: Path, path: Path, name: str = "txlog", **options: str) -> Any:
    frame = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).parquet(str(source))
    checkpoint = options.pop("checkpointLocation", str(path.parent / "checkpoint"))
    writer = frame.writeStream.format(name).option("checkpointLocation", checkpoint).options(**options)
    return writer.trigger(availableNow=True).start(str(path))


def run(query: Any) -> None:
    assert query.awaitTermination(120)


def ids(path: Path) -> list[int]:
    return sorted(row["id"] for row in own_rows(path))


def test_each_micro_batch_is_one_version_that_names_query_and_batch(
    spark: SparkSession, read_delta: Read, source: Path, path: Path
) -> None:
    query = stream(spark, source, path)
    run(query)
    assert ids(path) == list(range(40))
    assert as_rows(read_delta(path)) == as_rows(spark.range(40))
    assert len(commits(path)) == 4
    named = [line["txn"] for commit in commits(path) for line in commit if "txn" in line]
    assert [(txn["appId"], txn["version"]) for txn in named] == [(query.id, number) for number in range(4)]


def test_a_restarted_stream_goes_on_where_it_was(spark: SparkSession, source: Path, path: Path) -> None:
    run(stream(spark, source, path))
    run(stream(spark, source, path))  # nothing new: no version
    put_file(source, 4)
    run(stream(spark, source, path))
    assert ids(path) == list(range(50))
    assert len(commits(path)) == 5


@pytest.mark.parametrize("fault", ["task", "before the commit", "after the commit"])
def test_a_batch_whose_process_died_is_in_the_table_once_after_the_restart(
    spark: SparkSession, source: Path, path: Path, tmp_path: Path, fault: str
) -> None:
    spark.dataSource.register(FaultyStream)
    told = {"fault": fault, "flag": str(tmp_path / "flag")}
    query = stream(spark, source, path, "txlog_faulty_stream", **told)
    if fault == "task":
        run(query)  # Spark runs the task again by itself
    else:
        with pytest.raises(Exception, match=r"EOF|crash|exited|terminated|PYTHON"):
            query.awaitTermination(120)
        run(stream(spark, source, path, "txlog_faulty_stream", **told))
    assert (tmp_path / "flag").exists()
    assert ids(path) == list(range(40))
    assert len(commits(path)) == 4


def test_complete_mode_replaces_the_table_with_each_batch(spark: SparkSession, source: Path, path: Path) -> None:
    counted = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).parquet(str(source)).groupBy().count()
    writer = counted.writeStream.format("txlog").outputMode("complete")
    run(writer.option("checkpointLocation", str(path.parent / "c")).trigger(availableNow=True).start(str(path)))
    assert [row["count"] for row in own_rows(path)] == [40]
    assert len(commits(path)) == 4
    assert commit_info(path)["operationParameters"]["mode"] == "Overwrite"


def test_batches_without_rows_make_no_version(spark: SparkSession, source: Path, path: Path) -> None:
    frame = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).parquet(str(source)).where("id >= 20")
    writer = frame.writeStream.format("txlog").option("checkpointLocation", str(path.parent / "c"))
    run(writer.option("txnAppId", "late").trigger(availableNow=True).start(str(path)))
    assert ids(path) == list(range(20, 40))
    assert len([c for c in commits(path) if any("add" in line for line in c)]) == 2
    assert txlog.Table.open(str(path)).snapshot().transaction_version("late") == 3


def test_a_named_stream_whose_checkpoint_folder_was_replaced_is_refused_and_loses_nothing(
    spark: SparkSession, source: Path, path: Path, tmp_path: Path
) -> None:
    run(stream(spark, source, path, txnAppId="orders"))
    fresh = str(tmp_path / "another checkpoint")
    error = refused(lambda: run(stream(spark, source, path, txnAppId="orders", checkpointLocation=fresh)))
    assert isinstance(error, txlog.InvalidInputError)
    assert "skipCommittedBatches" in error.message
    assert ids(path) == list(range(40))
    put_file(source, 4)
    run(stream(spark, source, path, txnAppId="orders", checkpointLocation=fresh, skipCommittedBatches="true"))
    assert ids(path) == list(range(50))


def test_a_stream_partitions_the_table_it_creates_by_its_own_option(
    spark: SparkSession, source: Path, path: Path
) -> None:
    frame = spark.readStream.schema("id long").parquet(str(source)).selectExpr("id", "id % 2 as part")
    writer = frame.writeStream.format("txlog").option("checkpointLocation", str(path.parent / "c"))
    run(writer.option("partitionBy", "part").trigger(availableNow=True).start(str(path)))
    assert txlog.Table.open(str(path)).snapshot().partition_columns == ("part",)
    assert len(own_rows(path)) == 40


def test_a_stream_refuses_what_belongs_to_batch_writes(spark: SparkSession, source: Path, path: Path) -> None:
    assert "batch id" in refused(lambda: run(stream(spark, source, path, txnVersion="3"))).message
    assert not txlog.Table.exists(str(path))


DRIVER = """
    import sys
    from pyspark.sql import SparkSession
    source, path, checkpoint = sys.argv[1:]
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    frame = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).parquet(source)
    query = frame.writeStream.format("txlog").option("checkpointLocation", checkpoint).start(path)
    print("started", flush=True)
    query.awaitTermination()
"""


def test_a_stream_whose_driver_is_killed_again_and_again_ends_equal_to_its_source(
    source: Path, path: Path, tmp_path: Path
) -> None:
    """kill -9 of the driver with all its workers, at three moments; ``TXLOG_KILLS`` asks for more rounds."""
    kills = int(os.environ.get("TXLOG_KILLS", "3"))
    command = [sys.executable, "-c", textwrap.dedent(DRIVER), str(source), str(path), str(tmp_path / "checkpoint")]
    for number in range(4, 30):
        put_file(source, number)
    for round_number in range(kills + 1):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"started\n"
            if round_number < kills:
                time.sleep(1.5 + 0.37 * round_number % 1.1)
            else:
                _wait_for(lambda: txlog.Table.exists(str(path)) and len(ids(path)) >= 300)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert ids(path) == list(range(300))
    assert len(commits(path)) == 30


def _wait_for(done: Callable[[], bool]) -> None:
    for _ in range(240):
        if done():
            return
        time.sleep(0.5)
    raise AssertionError("the stream did not catch up with its source")
