"""Tasks that fail, workers that die, jobs that abort: no row twice, nothing half visible, no committed file deleted."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import cloudpickle
from spark_helpers import as_rows, commits, own_rows, refused, save

import txlog
import txlog.spark
from txlog.spark.source import TaskMessage, TxlogDataSource, TxlogWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# The workers cannot import a test module, so its classes travel as code.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

Read = Callable[..., "DataFrame"]


class FaultyWriter(TxlogWriter):
    """The real writer, with one fault at one moment. ``flag`` is a file that says the fault has happened."""

    fault = ""
    flag = ""

    def write(self, iterator: Iterator[Any]) -> TaskMessage:
        message = super().write(iterator)
        if self.fault.startswith("task") and not os.path.exists(self.flag):
            Path(self.flag).touch()
            if self.fault == "task dies":
                os._exit(9)
            raise RuntimeError("fault: the task fails after its files were sealed")
        return message

    def commit(self, messages: Any) -> None:
        if self.fault == "before the commit":
            raise RuntimeError("fault: nothing was sent")
        super().commit(messages)
        if self.fault == "dies after the commit":
            os._exit(9)
        if self.fault == "after the commit":
            raise RuntimeError("fault: the answer was lost")


class FaultySource(TxlogDataSource):
    @classmethod
    def name(cls) -> str:
        return "txlog_faulty"

    def writer(self, schema: Any, overwrite: bool) -> TxlogWriter:
        fault, flag = self.options.pop("fault"), self.options.pop("flag")
        writer = super().writer(schema, overwrite)
        writer.__class__ = FaultyWriter
        writer.fault, writer.flag = fault, flag  # type: ignore[attr-defined]
        return writer


@pytest.fixture
def save_with_fault(spark: SparkSession, tmp_path: Path) -> Callable[..., None]:
    spark.dataSource.register(FaultySource)

    def write(frame: DataFrame, path: Path, fault: str, **options: str) -> None:
        writer = frame.write.format("txlog_faulty").mode("append").options(**options)
        writer.option("fault", fault).option("flag", str(tmp_path / "flag")).save(str(path))

    return write


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t"


def ids(path: Path) -> list[int]:
    return sorted(row["id"] for row in own_rows(path))


def data_files(path: Path) -> list[Path]:
    return sorted(path.glob("**/*.parquet"))


@pytest.mark.parametrize("fault", [pytest.param("task fails", marks=pytest.mark.hunt(part="spark")), "task dies"])
def test_a_task_that_is_run_again_after_it_wrote_its_files_adds_its_rows_once(
    spark: SparkSession, read_delta: Read, save_with_fault: Callable[..., None], path: Path, fault: str
) -> None:
    save_with_fault(spark.range(1000).repartition(2), path, fault)
    assert (path.parent / "flag").exists()
    assert ids(path) == list(range(1000))
    assert read_delta(path).count() == 1000
    assert len(commits(path)) == 1
    assert len(data_files(path)) > txlog.Table.open(str(path)).snapshot().num_files  # what the first attempt left


@pytest.mark.hunt(part="spark")
@pytest.mark.parametrize("dies", [False, True])
def test_rows_that_fail_once_on_their_way_are_written_once(spark: SparkSession, path: Path, dies: bool) -> None:
    flag = str(path.parent / "flag")

    def fail_once(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            yield batch
            if not os.path.exists(flag):
                Path(flag).touch()
                if dies:
                    os._exit(9)
                raise RuntimeError("fault: after the first batch")

    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    save(spark.range(2000).repartition(2).mapInArrow(fail_once, "id long"), path)
    assert os.path.exists(flag)
    assert ids(path) == list(range(2000))


def test_a_job_that_fails_for_good_leaves_nothing_visible(spark: SparkSession, path: Path) -> None:
    frame = spark.range(100).repartition(4).selectExpr("if(id = 77, raise_error('bad row'), id) as id")
    with pytest.raises(Exception, match="bad row"):
        save(frame, path)
    assert not txlog.Table.exists(str(path))
    save(spark.range(3), path)
    with pytest.raises(Exception, match="bad row"):
        save(frame, path, "overwrite")
    assert ids(path) == [0, 1, 2]
    assert len(commits(path)) == 1


@pytest.mark.hunt(part="spark")
def test_a_commit_that_failed_before_it_was_sent_leaves_nothing_visible(
    spark: SparkSession, save_with_fault: Callable[..., None], path: Path
) -> None:
    with pytest.raises(Exception, match="nothing was sent"):
        save_with_fault(spark.range(10), path, "before the commit")
    assert not txlog.Table.exists(str(path))
    assert data_files(path), "abort cannot know whether a commit was tried, so the files stay for vacuum"


@pytest.mark.parametrize(
    "fault", [pytest.param("after the commit", marks=pytest.mark.hunt(part="spark")), "dies after the commit"]
)
def test_a_commit_whose_answer_was_lost_keeps_its_files_and_is_not_repeated(
    spark: SparkSession, read_delta: Read, save_with_fault: Callable[..., None], path: Path, fault: str
) -> None:
    """Spark calls abort, in the second case in a process that knows nothing of the commit."""
    identity = {"txnAppId": "etl", "txnVersion": "1"}
    with pytest.raises(Exception, match=r"answer was lost|EOFException|PYTHON_DATA_SOURCE_ERROR"):
        save_with_fault(spark.range(10), path, fault, **identity)
    assert as_rows(read_delta(path)) == as_rows(spark.range(10))
    save(spark.range(10), path, **identity)
    assert ids(path) == list(range(10))
    assert len(commits(path)) == 1


def test_concurrent_writes_all_land_once(spark: SparkSession, read_delta: Read, path: Path) -> None:
    """They race to create the table, and then for each version."""
    with ThreadPoolExecutor(4, initializer=txlog.spark.register, initargs=(spark,)) as pool:
        list(pool.map(lambda at: save(spark.range(at * 10, at * 10 + 10), path), range(8)))
    assert ids(path) == list(range(80))
    assert read_delta(path).count() == 80
    assert len(commits(path)) == 8


def test_an_overwrite_that_lost_to_another_overwrite_says_so(spark: SparkSession, path: Path) -> None:
    """Both were planned on version 0: the second would remove files that are gone."""
    save(spark.range(3), path)

    def overwrite_meanwhile(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        import txlog

        txlog.Table.open(str(path)).overwrite(pa.table({"id": [7]}))
        yield from batches

    frame = spark.range(100, 101).coalesce(1).mapInArrow(overwrite_meanwhile, "id long")
    error = refused(lambda: save(frame, path, "overwrite"))
    assert isinstance(error, txlog.ConflictError)
    assert error.winner_version == 1
    assert error.reasons
    assert ids(path) == [7]
