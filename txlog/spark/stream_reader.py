"""What Spark calls for ``spark.readStream.format("txlog")``: offsets and tasks on the driver, Arrow batches in tasks.

In: a stream's options and offsets as JSON. Out: the offset where the next batch ends, its partitions, their rows. The
offsets equal those of Delta's source for Spark (`core.versions.decisions.stream_offsets`). Spark keeps one reader on
the driver while the query runs, and pickles another, without a log, for the tasks.

pyspark 4.1 asks for the newest offset without saying where the batch begins, so it supports no limits, and it reads all
of ``Trigger.AvailableNow`` in one batch. pyspark 4.2 passes the start and supports limits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from txlog.core.reading import ChangeTask, ScanTask
from txlog.core.versions.decisions.stream_offsets import (
    ReadLimits,
    StreamOffset,
    end_of_batch,
    file_ranges,
    replayed_start,
)
from txlog.errors import NotFoundError, UnsupportedFeatureError
from txlog.spark.assumed_zone import AssumedZone
from txlog.spark.errors import crossing
from txlog.spark.read_options import StreamReadOptions
from txlog.spark.stream_log import StreamLog
from txlog.spark.task_reader import read_change_tasks, read_tasks, spark_arrow_schema, task_partitions

try:
    from pyspark.sql.streaming import datasource as admission
except ImportError:
    admission = None

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_FILES_DEFAULT = 1000
"""The maximum number of files in a batch if no limit is set, as in Delta's source."""


@dataclass
class StreamPartition(InputPartition):
    """What one Spark task reads: only scan tasks, or only change tasks. Plain data, without credentials."""

    tasks: list[ScanTask] | list[ChangeTask]
    assumed: AssumedZone | None = None


_AvailableNow: Any = object if admission is None else admission.SupportsTriggerAvailableNow


class TxlogStreamReader(DataSourceStreamReader, _AvailableNow):
    """A stream from a table.

    Args:
        options: The stream's options.
        schema: The columns that Spark wants.
        reads_all: Whether the stream reads all columns of the table, so that an added column is a change.
    """

    def __init__(self, options: StreamReadOptions, schema: StructType, *, reads_all: bool) -> None:
        self._options = options
        self._schema = schema
        self._reads_all = reads_all
        self._log: StreamLog | None = None
        self._last: int | None = None  # the newest version that may be read, under Trigger.AvailableNow
        self._initial: StreamOffset | None = None  # the initial offset, until a batch begins at it
        self._position: StreamOffset | None = None  # where the next batch begins, as far as this reader knows

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_log": None}

    # --- offsets ----------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        """The offset at which a new stream begins. Spark asks again if it was stopped in the first batch."""
        with crossing():
            log = self._opened()
            self._initial = self._position = log.start(log.newest_version() if self._last is None else self._last)
            return self._initial.to_json()

    def latestOffset(self, start: Mapping[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:
        """The offset at which the batch from ``start`` ends; ``start`` itself if there is nothing new."""
        with crossing():
            log = self._opened()
            at = self._position if start is None else StreamOffset.from_json(start, log.table_id)
            newest = log.newest_version() if self._last is None else self._last
            if at is None:
                return StreamOffset(log.table_id, newest + 1).to_json()
            log.follower.forget_before(at)
            if self._options.starts_at_latest and at == self._initial:
                # An empty first batch records the start in Spark's checkpoint, since "latest" changes over time.
                self._initial = None
                return at.to_json()
            return end_of_batch(at, log.follower.versions_from(at, newest), self._limits(limit)).to_json()

    def getDefaultReadLimit(self) -> Any:
        """The limit that Spark passes to `latestOffset`, unless the trigger reads all available rows."""
        found = self._limits(None)
        if found.files is not None:
            return admission.ReadMaxFiles(found.files)
        return admission.ReadMaxBytes(found.size_bytes)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The end of the newest known version, for the query's progress."""
        log = self._log
        return None if log is None else StreamOffset(log.table_id, log.newest_version(refresh=False) + 1).to_json()

    def prepareForTriggerAvailableNow(self) -> None:
        """Read no version after the table's current newest one."""
        with crossing():
            self._last = self._opened().newest_version()

    # --- batches ----------------------------------------------------------------------------------------

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[InputPartition]:
        """Runs on the driver: spreads the files between two offsets over partitions by size."""
        with crossing():
            log = self._opened()
            stop = StreamOffset.from_json(end, log.table_id)
            begin = replayed_start(StreamOffset.from_json(start, log.table_id), stop)
            self._position = stop
            if begin.version > stop.version and not begin.is_initial:
                if self._options.starts_at_latest:
                    return []  # the first batch again, which has no rows
                raise NotFoundError(
                    f"the stream's first batch ended at version {stop.version}, which is now before the stream's start:"
                    " the versions before the start were cleaned up, or the options of the start were changed. Start"
                    " the stream with a new checkpointLocation",
                    table=self._options.path,
                    version=stop.version,
                )
            tasks: list[Any] = [task for each in file_ranges(begin, stop) for task in log.follower.tasks(each)]
            groups = task_partitions(tasks)
            if log.assumed is not None and not groups:
                groups = [[]]  # a task has to check the zone, before the checkpoint keeps a start that may be wrong
            return [StreamPartition(group, log.assumed) for group in groups]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Runs in a task."""
        assert isinstance(partition, StreamPartition)
        if partition.assumed is not None:
            with crossing():
                partition.assumed.check()
        location = self._options.path, self._options.storage_options
        schema = spark_arrow_schema(self._schema)
        changes = [task for task in partition.tasks if isinstance(task, ChangeTask)]
        if changes:
            return read_change_tasks(*location, changes, schema)
        return read_tasks(*location, [task for task in partition.tasks if isinstance(task, ScanTask)], schema)

    def commit(self, end: Mapping[str, Any]) -> None:
        """Spark has finished everything up to ``end``."""
        with crossing():
            log = self._opened()
            log.follower.forget_before(StreamOffset.from_json(end, log.table_id))

    def _opened(self) -> StreamLog:
        if self._log is None:
            options = self._options
            if admission is None and (options.max_files, options.max_bytes) != (None, None):
                raise UnsupportedFeatureError(
                    "maxFilesPerTrigger and maxBytesPerTrigger need pyspark 4.2: earlier releases do not pass the start"
                    " of a batch to a Python data source. Leave these options out",
                    features=("maxFilesPerTrigger", "maxBytesPerTrigger"),
                )
            self._log = StreamLog(options, self._schema, reads_all=self._reads_all)
        return self._log

    def _limits(self, limit: Any) -> ReadLimits:
        """Both limits of the options, of which Spark passes only one; no limits if Spark asks for all rows."""
        options = self._options
        files = _FILES_DEFAULT if options.max_files is None and options.max_bytes is None else options.max_files
        if admission is None or isinstance(limit, admission.ReadAllAvailable):
            return ReadLimits(by_version=options.read_change_feed)
        return ReadLimits(files, options.max_bytes, options.read_change_feed)
