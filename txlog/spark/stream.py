"""The Structured Streaming sink: what Spark calls for each micro-batch of ``df.writeStream.format("txlog")``.

A micro-batch is one checkpoint: ``app_id`` is the query's id (stored in the stream's ``checkpointLocation``, so it
survives restarts) or the option ``txnAppId``, ``checkpoint_id`` is the batch id, and one commit holds both. If Spark
reruns a batch after a crash, the table already contains it, and the rerun adds nothing. The fingerprint proves that it
is the same batch and not another one with the same number: it holds the query's id, and a hash of the offsets that
Spark recorded before it ran the batch. Spark plans the tasks and the commit in different processes, so the tasks'
messages carry the plan from one to the other.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter

from txlog.core.writing import WriteJob
from txlog.errors import InvalidInputError, TxlogError
from txlog.spark.errors import crossing
from txlog.spark.options import StreamOptions
from txlog.spark.settings import CHECKPOINTS, QUERY_ID, SessionSettings
from txlog.spark.task import TaskMessage, batch_fingerprint, warn_of_orphans, write_in_task

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH_ID = "streaming.sql.batchId"


@dataclass
class StreamMessage(TaskMessage):
    """A task's message, plus what the committing process cannot know: the plan of the tasks, and the query's id."""

    job: WriteJob
    query_id: str | None


class TxlogStreamWriter(DataSourceStreamArrowWriter):
    """One planned micro-batch. Spark makes one for the tasks, and another that shares nothing for the commit."""

    def __init__(self, options: StreamOptions, job: WriteJob) -> None:
        self.options = options
        self.job = job

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StreamMessage:
        """Runs in a task: writes its rows.

        Raises:
            TxlogErrorInSpark: A row is invalid, or the store failed.
        """
        context = TaskContext.get()
        assert context is not None
        settings = SessionSettings.seen_by(context.getLocalProperty)
        query_id, batch_id = context.getLocalProperty(QUERY_ID), context.getLocalProperty(_BATCH_ID)
        try:
            job = self._job_in(settings, query_id, int(batch_id))
        except TxlogError:
            return StreamMessage(None, settings.values, self.job, query_id)  # `commit` raises the error, once
        with crossing():
            committable = write_in_task(self.options.write, job, context, iterator)
        return StreamMessage(*TaskMessage.fields_of(committable, settings), self.job, query_id)

    def commit(self, messages: Sequence[Any], batchId: int) -> None:
        """Runs once per micro-batch, after every task. Spark ends the query with what this raises."""
        from txlog.spark.planning import commit_batch

        with crossing():
            reported = [message for message in messages if message is not None]
            if not reported:
                self._commit_without_tasks(batchId)
                return
            first = reported[0]
            self.job = first.job
            settings = SessionSettings(first.settings)
            fingerprint = self._fingerprint(settings, first.query_id, batchId)
            job = self._job_in(settings, first.query_id, batchId, fingerprint)
            if any(message.job.job_id != job.job_id for message in reported):
                raise InvalidInputError("the tasks of one micro-batch have different plans", table=job.plan.table)
            commit_batch(_in_zone_of(self.options, job), job, [message.committable for message in reported])

    def _commit_without_tasks(self, batch_id: int) -> None:
        """Finish a batch without tasks. No task reported the query's id, which only an overwrite needs."""
        from txlog.spark.planning import commit_batch

        if self.job.intent.is_overwrite:
            settings = SessionSettings()
            location = self.options.checkpoint_location
            query_id = None if location is None else _query_id_of(_local(location))
            fingerprint = self._fingerprint(settings, query_id, batch_id)
            commit_batch(self.options, self._job_in(settings, query_id, batch_id, fingerprint), [])

    def abort(self, messages: Sequence[Any], batchId: int) -> None:
        """Delete nothing: this process cannot know whether a commit was tried, and which files that commit names."""
        warn_of_orphans(self.job, messages)

    def _job_in(
        self, settings: SessionSettings, query_id: str | None, batch_id: int, fingerprint: str | None = None
    ) -> WriteJob:
        options = self.options.write
        settings.refuse_transaction()
        settings.refuse(options, overwrite=self.job.intent.is_overwrite, creating=self.job.creates_table)
        settings.require_compaction(self.job.plan.configuration)
        app_id = self.options.app_id or query_id
        if app_id is None:
            raise InvalidInputError("Spark did not provide the query's id: name the stream with the option txnAppId")
        return replace(
            self.job,
            commit=replace(
                self.job.commit,
                app_id=app_id,
                checkpoint_id=batch_id,
                fingerprint=fingerprint,
                user_metadata=settings.user_metadata(options),
            ),
            plan=settings.plan(options, self.job.plan),
        )

    def _fingerprint(self, settings: SessionSettings, query_id: str | None, batch_id: int) -> str | None:
        """The batch's fingerprint; None if the query's id is not known."""
        if query_id is None:
            return None
        folder = self._checkpoint_folder(settings, query_id)
        return batch_fingerprint(query_id, None if folder is None else _content(folder / "offsets" / str(batch_id)))

    def _checkpoint_folder(self, settings: SessionSettings, query_id: str) -> Path | None:
        """The stream's checkpoint folder, which may be one of many in a folder that the session names; None if it is
        not on a disk that this process can read."""
        if self.options.checkpoint_location is not None:
            return _local(self.options.checkpoint_location)
        root = settings.values.get(CHECKPOINTS)
        with contextlib.suppress(OSError):
            for folder in _local(root).iterdir() if root is not None else ():
                if _query_id_of(folder) == query_id:
                    return folder
        return None


def _in_zone_of(options: StreamOptions, job: WriteJob) -> StreamOptions:
    return replace(options, write=replace(options.write, time_zone=job.plan.time_zone))


def _local(location: str) -> Path:
    return Path(location.removeprefix("file:"))


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except (OSError, ValueError):
        return None


def _query_id_of(folder: Path) -> str | None:
    try:
        found = json.loads(_content(folder / "metadata") or b"")["id"]
    except (ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, str) else None
