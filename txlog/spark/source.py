"""The Spark data source ``txlog``: what Spark calls to read a table or write a DataFrame, on the driver and in tasks.

Spark runs a write in three kinds of Python process, none of which has the SparkSession: the *planner* (`writer`
checks options and schema against the table and makes a ``WriteJob``), the *tasks* (`TxlogWriter.write` turns rows
into data files and returns a ``Committable``), and one process for `commit` or `abort`. Only the pickled writer and
the messages of the tasks pass between them. No task touches the log; the commit is one version.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from msgspec.structs import replace
from pyspark import TaskContext
from pyspark.sql import datasource
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter

from txlog.core.writing import WriteJob
from txlog.core.writing.write_intent import OVERWRITE, OVERWRITE_PARTITIONS
from txlog.errors import TableNotFoundError, TxlogError, UnsupportedFeatureError
from txlog.spark.errors import crossing
from txlog.spark.options import SparkWriteOptions, parse_stream_options, parse_write_options
from txlog.spark.schema import struct_type
from txlog.spark.settings import SessionSettings, require_own_mode, require_own_zone
from txlog.spark.task import TaskMessage, numbered, warn_of_orphans, write_in_task

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from txlog.spark.reader import TxlogReader
    from txlog.spark.stream import TxlogStreamWriter
    from txlog.spark.stream_reader import TxlogStreamReader

__all__ = ["TaskMessage", "TxlogDataSource", "TxlogWriter"]


class TxlogDataSource(DataSource):
    """``format("txlog")`` of ``spark.read``, ``spark.readStream``, ``df.write`` and ``df.writeStream``."""

    _pinned_version: int | None = None
    _is_inferred = False

    @classmethod
    def name(cls) -> str:
        return "txlog"

    def writer(self, schema: StructType, overwrite: bool) -> TxlogWriter:
        """Plan a batch write. Raises every error in the schema and the options."""
        from txlog.spark.planning import plan, staged_if_new

        with crossing():
            options, columns = parse_write_options(self.options), struct_type(schema)
            try:
                job, is_replay = plan(options, columns, overwrite=overwrite)
            except TableNotFoundError:  # a name that its catalog does not have
                options = staged_if_new(options)
                job, is_replay = plan(options, columns, overwrite=overwrite)
            is_on_sail = isinstance(schema, pa.Schema)
            if is_on_sail:
                require_own_mode(options, job)
                require_own_zone(options, job)
            return TxlogWriter(options, job, is_replay=is_replay, is_on_sail=is_on_sail)

    def schema(self) -> StructType:
        """The columns of the version to read. A batch read pins the version here, since Spark keeps this object.

        Spark does not say whether it wants a stream. A stream has its own start, so it pins no version.
        """
        from txlog.spark.assumed_zone import zone_of_read
        from txlog.spark.read_options import has_stream_option, parse_read_options, parse_stream_read_options
        from txlog.spark.reader import opened, read_schema, stream_schema
        from txlog.spark.table_version import open_version
        from txlog.spark.task_reader import spark_arrow_schema

        with crossing():
            self._is_inferred = True
            if has_stream_option(self.options):
                stream = parse_stream_read_options(self.options)
                at = stream.path, zone_of_read(stream), stream.storage_options
                return stream_schema(open_version(*at), stream)
            options = parse_read_options(self.options)
            table = opened(options)
            self._pinned_version = table.state.version
            found = read_schema(table, options)
            return spark_arrow_schema(found) if "pysail" in sys.modules else found  # Sail takes Arrow's types too

    def reader(self, schema: StructType) -> TxlogReader:
        """Plan a batch read. Raises every error in the schema and the options."""
        from txlog.spark.read_options import parse_read_options
        from txlog.spark.reader import TxlogReader, opened

        with crossing():
            options = parse_read_options(self.options)
            return TxlogReader(options, opened(options, self._pinned_version), struct_type(schema))

    def streamReader(self, schema: StructType) -> TxlogStreamReader:
        """The reader of a stream, for the driver or for tasks. Every error in the options is raised here."""
        from txlog.spark.read_options import parse_stream_read_options
        from txlog.spark.stream_reader import TxlogStreamReader

        with crossing():
            options = parse_stream_read_options(self.options)
            return TxlogStreamReader(options, schema, reads_all=self._is_inferred and options.columns is None)

    def streamWriter(self, schema: StructType, overwrite: bool) -> TxlogStreamWriter:
        """Plan a micro-batch; ``overwrite`` means complete mode. Only its tasks and its commit know the batch id."""
        from txlog.spark.planning import plan

        with crossing():
            if not hasattr(datasource, "DataSourceStreamArrowWriter"):
                raise UnsupportedFeatureError(
                    'writeStream.format("txlog") needs pyspark 4.1: earlier releases give a Python data source no Arrow'
                    " batches of a stream. Write the stream with .foreachBatch(txlog.spark.foreach_batch(path)), or"
                    " install a newer pyspark",
                    features=("DataSourceStreamArrowWriter",),
                )
            from txlog.spark.stream import TxlogStreamWriter

            options = parse_stream_options(self.options)
            job, _ = plan(options.write, schema, overwrite=overwrite)
            return TxlogStreamWriter(options, job)


class TxlogWriter(DataSourceArrowWriter):
    """One planned batch write. Spark pickles it once, for the tasks and for the commit.

    ``is_replay``: the table already contained this write when it was planned, so the tasks write nothing.
    ``is_on_sail``: the tasks know neither their partition nor the session's settings, and one of them commits.
    """

    def __init__(self, options: SparkWriteOptions, job: WriteJob, *, is_replay: bool, is_on_sail: bool = False) -> None:
        self.options = options
        self.job = job
        self.is_replay = is_replay
        self.is_on_sail = is_on_sail

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        """Runs in a task: writes its rows.

        Raises:
            TxlogErrorInSpark: A row is invalid (a null in a NOT NULL column, a bad value), or the store failed.
        """
        context = TaskContext.get()
        settings = SessionSettings() if context is None else SessionSettings.seen_by(context.getLocalProperty)
        try:
            job = self._job_in(settings)
        except TxlogError:
            return TaskMessage(None, settings.values)  # `commit` raises the error, once
        if self.is_replay:
            return TaskMessage(None, settings.values)
        with crossing():
            committable = write_in_task(self.options, job, context, iterator)
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
                found = [message.committable for message in messages]
                options = replace(self.options, time_zone=job.plan.time_zone)
                if self.is_on_sail:
                    commit(options, job, numbered(found), may_be_second=True)
                else:
                    commit(options, job, found)

    def abort(self, messages: Sequence[Any]) -> None:
        """Delete nothing: this process cannot know whether a commit was tried, and which files that commit names."""
        warn_of_orphans(self.job, messages)

    def _job_in(self, settings: SessionSettings) -> WriteJob:
        """The job with the session's settings applied: the same in every task and on the driver.

        Raises:
            InvalidInputError, UnsupportedFeatureError: As `SessionSettings.refuse`.
        """
        intent, has_partitions = self.job.intent, self.job.plan.partition_columns != ()
        settings.refuse(
            self.options,
            overwrite=intent.is_overwrite,
            creating=self.job.creates_table,
            obeys_overwrite_mode=has_partitions and intent.kind in ("append", "overwrite"),
        )
        settings.require_compaction(self.job.plan.configuration)
        by_partition = intent == OVERWRITE and has_partitions and settings.overwrites_partitions(self.options)
        app_id, checkpoint_id = settings.transaction(self.options) or (None, None)
        return replace(
            self.job,
            intent=OVERWRITE_PARTITIONS if by_partition else intent,
            commit=replace(
                self.job.commit,
                app_id=app_id,
                checkpoint_id=checkpoint_id,
                user_metadata=settings.user_metadata(self.options),
            ),
            plan=settings.plan(self.options, self.job.plan),
        )
