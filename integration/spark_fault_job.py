"""Work that Spark does for txlog, the faults that its tasks and its driver meet, and jobs that need a process for them.

A fault strikes as a task reports: its work is done and its files are there, but the driver knows of neither. As a
program: ``spark_fault_job.py killed WORK URI N`` is a driver that is killed as the results of its N-th job are there;
``spark_fault_job.py cluster FAULT FOLDER`` does each work, on the table of its name in the folder, on two executors
that are processes, and prints a line for each.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from maintained_tables import source_rows
from spark_fixtures import SHORT_LIVED

import txlog
import txlog.spark
from txlog.spark import spark_workers
from txlog.spark.rows import source, spread_source

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["FAULTS", "LOST_ROWS", "WORKS", "at_each_report", "dies_twice", "fails_twice", "waits"]

LOST_ROWS = "upsert of lost rows"
Fault = Callable[[], None]
MODULES = (spark_workers, spread_source)


def upsert(spark: SparkSession, uri: str) -> None:
    rows = spark.createDataFrame(source_rows(txlog.Table.open(uri)))
    txlog.spark.upsert(spark, uri, rows, "id")


def spread_upsert(spark: SparkSession, uri: str) -> None:
    """Spark's shuffle brings the rows of the source to the files."""
    with mock.patch.object(source, "SMALL_BYTES", -1):
        upsert(spark, uri)


WORKS: dict[str, Callable[[SparkSession, str], Any]] = {
    "optimize": lambda spark, uri: txlog.spark.optimize(spark, uri),
    "cluster": lambda spark, uri: txlog.spark.optimize(spark, uri, zorder_by=["id"], target_file_size=400),
    "upsert": upsert,
    "spread upsert": spread_upsert,
}
"""By name: what one process does as the command of `maintained_tables` with its last word as a name."""


@contextlib.contextmanager
def at_each_report(fault: Fault) -> Iterator[None]:
    """In the block, each task meets the fault, which travels as code."""
    real = spark_workers.packed

    def reported(result: Any) -> Any:
        fault()
        return real(result)

    with contextlib.ExitStack() as patches:
        for module in MODULES:
            patches.enter_context(mock.patch.object(module, "packed", reported))
        yield


def is_first(flag: str) -> bool:
    """Whether this is the first of all tasks to ask."""
    try:
        os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


# --- faults ---------------------------------------------------------------------------------------------------------


def fails_twice(flag: str) -> None:
    from pyspark import TaskContext

    if TaskContext.get().attemptNumber() < 2:
        Path(flag).touch()
        raise RuntimeError("fault: the task fails after its work")


def dies_twice(flag: str) -> None:
    from pyspark import TaskContext

    if TaskContext.get().attemptNumber() < 2:
        Path(flag).touch()
        os._exit(9)


def waits(flag: str) -> None:
    if is_first(flag):
        time.sleep(600)


def is_slow(flag: str) -> None:
    """The first task waits for longer than Spark does before it runs a second attempt, which notes itself."""
    from pyspark import TaskContext

    if is_first(flag):
        time.sleep(120)
    elif TaskContext.get().attemptNumber():
        Path(f"{flag}.again").touch()


def executor_dies(flag: str) -> None:
    from pyspark import TaskContext

    if is_first(flag):
        daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
        os.kill(int(daemon.rpartition(")")[2].split()[1]), signal.SIGKILL)
    elif TaskContext.get().attemptNumber():
        Path(f"{flag}.again").touch()


def upsert_of_lost_rows(spark: SparkSession, uri: str, flag: str) -> None:
    """The executor dies that has computed a part of the source, as it computes another part."""
    rows = spark.createDataFrame(source_rows(txlog.Table.open(uri)))

    def dying(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        for batch in batches:
            if TaskContext.get().partitionId() == 3:
                time.sleep(2)
                executor_dies(flag)
            yield batch

    txlog.spark.upsert(spark, uri, rows.repartition(4, "id").mapInArrow(dying, rows.schema), "id")


FAULTS = {"slow": is_slow, "executor dies": executor_dies}
"""What a cluster's tasks meet."""


# --- programs -------------------------------------------------------------------------------------------------------


def killed(work: str, uri: str, nth: str) -> None:
    """The driver dies as all tasks of a job have reported."""
    numbers = itertools.count(1)
    real = spark_workers.unpacked

    def gone(reports: Any) -> list[Any]:
        found = real(reports)
        if next(numbers) == int(nth):
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    with contextlib.ExitStack() as patches:
        for module in MODULES:
            patches.enter_context(mock.patch.object(module, "unpacked", gone))
        WORKS[work](session("local[2]"), uri)


def cluster(fault: str, folder: str) -> None:
    spark = session(
        two_hosts(folder),
        **{
            "spark.executor.memory": "512m",
            "spark.speculation": "true",
            "spark.speculation.quantile": "0.1",
            "spark.speculation.efficiency.enabled": "false",
            "spark.speculation.task.duration.threshold": "3s",
        },
    )
    faults = {name: at_each_report(partial(FAULTS[fault], f"{folder}/{name}.flag")) for name in WORKS}
    works = dict(WORKS)
    if fault == "executor dies":
        faults[LOST_ROWS] = contextlib.nullcontext()  # type: ignore[assignment]
        works[LOST_ROWS] = partial(upsert_of_lost_rows, flag=f"{folder}/{LOST_ROWS}.flag")
    for name, work in works.items():
        with faults[name]:
            try:
                work(spark, f"{folder}/{name}")
            except Exception as error:
                print(name, "failed:", str(error).partition("\n")[0], flush=True)
            else:
                print(name, "is done", flush=True)
    spark.stop()


def two_hosts(folder: str) -> str:
    """Start a cluster of two workers, on two hosts, since Spark runs no second attempt on the host of the first; its
    address. As Spark's own ``local-cluster``, whose workers are on one host, it is in this process's JVM, except for
    the executors."""
    from pyspark import SparkContext

    SparkContext._ensure_initialized()  # type: ignore[attr-defined]
    jvm: Any = SparkContext._jvm
    conf, none, deploy = jvm.org.apache.spark.SparkConf(), jvm.scala.Option.empty(), jvm.org.apache.spark.deploy
    master = deploy.master.Master.startRpcEnvAndEndpoint("127.0.0.1", 0, 0, conf)._1().address().toSparkURL()
    masters = SparkContext._gateway.new_array(jvm.String, 1)  # type: ignore[union-attr]
    masters[0] = master
    for number in (1, 2):
        at = (f"127.0.0.{number}", 0, 0, 1, 512)
        some = jvm.scala.Some(number)
        deploy.worker.Worker.startRpcEnvAndEndpoint(*at, masters, f"{folder}/workers", some, conf, none)
    return str(master)


def session(master: str, **settings: str) -> SparkSession:
    from pyspark.sql import SparkSession

    settings |= {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": SHORT_LIVED,
        "spark.executor.extraJavaOptions": SHORT_LIVED,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
    }
    spark = SparkSession.builder.master(master).config(map=settings).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


if __name__ == "__main__":
    {"killed": killed, "cluster": cluster}[sys.argv[1]](*sys.argv[2:])
