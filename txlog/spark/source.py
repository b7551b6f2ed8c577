"""The Spark data source ``txlog``: what Spark calls to write a DataFrame, on the driver and in each task.

Spark runs a write in three kinds of Python process, none of which has the SparkSession: the *planner* (`writer`
checks options and schema against the table and makes a ``WriteJob``), the *tasks* (`TxlogWriter.write` turns rows
into data files and hands back a ``Committable``), and one process for `commit` or `abort`. The pickled writer and
the messages of the tasks are all that passes between them. No task touches the log; the commit is one version.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

from txlog.errors import InvalidInputError, TxlogError, UnsupportedFeatureError
from txlog.sink.committable import Committable
from txlog.sink.task_committer import TaskCommitter
from txlog.sink.task_writer import TaskWriter
from txlog.sink.write_job import WriteJob
from txlog.spark.errors import crossing, raise_crossing
from txlog.spark.options import WriteOptions, parse_write_options
from txlog.spark.settings import SessionSettings
from txlog.store.open import open_store

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["TaskMessage", "TxlogDataSource", "TxlogWriter"]

logger = logging.getLogger("txlog")


class TxlogDataSource(DataSource):
    """``df.write.format("txlog")``. Options are in ``options``; reads and streams come with later releases."""

    @classmethod
    def name(cls) -> str:
        return "txlog"

    def writer(self, schema: StructType, overwrite: bool) -> TxlogWriter:
        """Plan a batch write. Everything that the schema and the options can be wrong about is raised here."""
        from txlog.spark.planning import plan

        with crossing():
            options = parse_write_options(self.options)
            job, is_replay = plan(options, schema, overwrite=overwrite)
            return TxlogWriter(options, job, is_replay=is_replay)

    def schema(self) -> NoReturn:
        _refuse_read()

    def reader(self, schema: StructType) -> NoReturn:
        _refuse_read()

    def streamReader(self, schema: StructType) -> NoReturn:
        _refuse_read()

    def simpleStreamReader(self, schema: StructType) -> NoReturn:
        _refuse_read()

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:
        raise_crossing(
            UnsupportedFeatureError(
                "df.writeStream.format('txlog') is not built yet; use foreachBatch, and in it a batch write with "
                "the options txnAppId (a name of your own for the query) and txnVersion (the batch id): "
                "a replayed batch then adds nothing",
                features=("writeStream",),
            )
        )


def _refuse_read() -> NoReturn:
    raise_crossing(
        UnsupportedFeatureError(
            "spark.read.format('txlog') is not built yet; read the table with spark.read.format('delta'), or "
            "without a JVM jar: txlog.Table.open(path).snapshot().to_arrow()",
            features=("read",),
        )
    )


@dataclass
class TaskMessage(WriterCommitMessage):
    """What one task tells the driver: its ``Committable``, packed, and the session settings that it saw.

    Packed, since all messages of a job together must stay below ``spark.driver.maxResultSize``, and the statistics
    of many files look much alike. Without a committable the task wrote nothing: the settings will be refused, or
    the table holds this write.
    """

    packed: bytes | None
    settings: dict[str, str]

    @classmethod
    def of(cls, committable: Committable, settings: SessionSettings) -> TaskMessage:
        return cls(zlib.compress(committable.to_bytes(), 1), settings.values)

    @property
    def committable(self) -> Committable:
        if self.packed is None:
            raise InvalidInputError("a task did not write although this write was neither refused nor a replay")
        return Committable.from_bytes(zlib.decompress(self.packed))


class TxlogWriter(DataSourceArrowWriter):
    """One planned batch write. Spark pickles it once, for the tasks and for the commit.

    ``is_replay``: the table held this write when it was planned, so that the tasks need not write it again.
    """

    def __init__(self, options: WriteOptions, job: WriteJob, *, is_replay: bool) -> None:
        self.options = options
        self.job = job
        self.is_replay = is_replay

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        """Runs in a task. Raises, in crossing form, what only rows can show: a null in a NOT NULL column, a range."""
        context = TaskContext.get()
        assert context is not None
        settings = SessionSettings.seen_by(context.getLocalProperty)
        try:
            job = self._job_in(settings)
        except TxlogError:
            return TaskMessage(None, settings.values)  # `commit` raises it, once
        if self.is_replay:
            return TaskMessage(None, settings.values)
        with crossing():
            task = job.task(context.partitionId(), context.taskAttemptId())
            files = open_store(self.options.path, self.options.storage_options).files
            with TaskWriter(files, job.plan, task) as writer:
                for batch in iterator:
                    writer.write(batch)
                pending = writer.close()
            committable = TaskCommitter(files, job.plan).seal(task, pending)
        return TaskMessage.of(committable, settings)

    def commit(self, messages: Sequence[Any]) -> None:
        """Runs once, on the driver, after every task. Spark calls `abort` when this raises."""
        from txlog.spark.planning import commit, confirm_replay

        with crossing():
            settings = SessionSettings(messages[0].settings) if messages else SessionSettings()
            job = self._job_in(settings)
            if self.is_replay:
                confirm_replay(self.options, job)
            else:
                commit(self.options, job, [message.committable for message in messages])

    def abort(self, messages: Sequence[Any]) -> None:
        """Deletes nothing: it cannot know whether a commit was tried, and whose files that commit names."""
        finished = sum(message is not None and message.packed is not None for message in messages)
        if finished:
            logger.warning(
                "%s: the write was aborted; what %d finished tasks wrote stays until vacuum",
                self.job.plan.table,
                finished,
            )

    def _job_in(self, settings: SessionSettings) -> WriteJob:
        """The job with what the session adds to it, the same in every task and on the driver; or its refusal."""
        overwrite = self.job.mode == "overwrite"
        settings.refuse(self.options, overwrite=overwrite, creating=self.job.creates_table)
        app_id, checkpoint_id = settings.transaction(self.options) or (None, None)
        return replace(
            self.job,
            app_id=app_id,
            checkpoint_id=checkpoint_id,
            user_metadata=settings.user_metadata(self.options),
            plan=replace(self.job.plan, max_records_per_file=settings.max_records_per_file(self.options)),
        )
