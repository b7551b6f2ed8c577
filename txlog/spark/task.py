"""What a Spark task does with its rows, for batches and streams: write them, seal them, report to the driver.

In: a ``WriteJob`` and an iterator of record batches. Out: a `TaskMessage` with a packed ``Committable``. Nothing here
can reach the log.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from pyspark.sql.datasource import WriterCommitMessage

from txlog.changelog.changelog_writer import ChangelogWriter
from txlog.core.catalogs import open_place
from txlog.core.util import logger
from txlog.core.writing import ENCODERS, WriteJob, write_task
from txlog.core.writing.committable import Committable
from txlog.errors import InvalidInputError
from txlog.spark.options import SparkWriteOptions
from txlog.spark.settings import SessionSettings

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import TaskContext


@dataclass
class TaskMessage(WriterCommitMessage):
    """What one task reports to the driver: its compressed ``Committable``, and the session settings that it saw.

    The committable is compressed because all messages of a job together must stay below
    ``spark.driver.maxResultSize``, and the statistics of many files are similar. ``packed`` is None if the task wrote
    nothing: either the driver will refuse the settings, or the table already contains this write.
    """

    packed: bytes | None
    settings: dict[str, str]

    @classmethod
    def of(cls, committable: Committable, settings: SessionSettings) -> TaskMessage:
        return cls(*cls.fields_of(committable, settings))

    @staticmethod
    def fields_of(committable: Committable, settings: SessionSettings) -> tuple[bytes, dict[str, str]]:
        return zlib.compress(committable.to_bytes(), 1), settings.values

    @property
    def committable(self) -> Committable:
        if self.packed is None:
            raise InvalidInputError("a task wrote nothing although this write was neither refused nor a replay")
        return Committable.from_bytes(zlib.decompress(self.packed))


def write_in_task(
    options: SparkWriteOptions, job: WriteJob, context: TaskContext | None, batches: Iterator[pa.RecordBatch]
) -> Committable:
    """Write and seal one task's rows.

    Args:
        options: The options of the write.
        job: The planned write.
        context: Spark's context of this task, with the partition, the attempt and the number of cores. Sail has none:
            `numbered` then tells its tasks apart.
        batches: The task's rows.

    Returns:
        The sealed files of this task.

    Raises:
        SchemaMismatchError: A row does not fit the table's schema.
        InvalidInputError: A row holds a value that cannot be written.
        StorageError: The store failed.
    """
    task = job.task() if context is None else job.task(context.partitionId(), context.taskAttemptId())
    files = open_place(options.path, options.storage_options).files
    if options.changelog is not None:
        return _write_changes(ChangelogWriter(files, job.plan, task, options.changelog), batches)
    # Use only the cores that Spark assigned to this task: the other cores belong to other tasks.
    cores = 1 if context is None else context.cpus()
    return write_task(files, job.plan, task, batches, encoders=min(ENCODERS, cores))


def numbered(committables: Iterable[Committable]) -> list[Committable]:
    """The committables of tasks that do not know their partitions, by partition.

    The files of each run of a task have names of their own. Sail passes the message of one run of each partition, in
    the order of partitions, and fails if a partition has two: so a message's place is its task's number.
    """
    return [replace(each, task_id=at) for at, each in enumerate(committables)]


def _write_changes(writer: ChangelogWriter, batches: Iterator[pa.RecordBatch]) -> Committable:
    try:
        for batch in batches:
            writer.write(batch)
        return writer.close()
    except BaseException:
        writer.abort()
        raise


def warn_of_orphans(job: WriteJob, messages: Sequence[Any]) -> None:
    """Log a warning if an aborted write left files of finished tasks, which only a vacuum removes."""
    finished = sum(message is not None and message.packed is not None for message in messages)
    if finished:
        logger.warning(
            "%s: the write was aborted; the files of %d finished tasks stay until a vacuum", job.plan.table, finished
        )


def batch_fingerprint(query_id: str, offsets: bytes | None) -> str:
    """Equal for a replay of a micro-batch, different for a batch from a rewound or replaced checkpoint folder.

    Args:
        query_id: The query's id, from the checkpoint folder.
        offsets: What Spark recorded in the folder before it ran the batch; None where nobody can read it.
    """
    return f"query {query_id}" + (f" offsets {sha256(offsets).hexdigest()[:16]}" if offsets is not None else "")
