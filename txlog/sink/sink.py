"""`Sink`: the Flink-shaped door, for any engine. Tasks write, their committables travel, one committer commits.

In: batches per (checkpoint_id, task_id). Out: committables as plain data, then a ``WriteResult`` per checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from txlog.committer import raise_conflict
from txlog.errors import ConflictReason, InvalidInputError, NotFoundError, UnsupportedFeatureError
from txlog.protocol.column_mapping import physical_schema
from txlog.protocol.schema_merge import reads
from txlog.result import WriteResult
from txlog.sink.committable import Committable, validate_committables
from txlog.sink.global_committer import GlobalCommitter
from txlog.sink.planning import WriteOptions, check_identity, plan_write
from txlog.sink.task_committer import TaskCommitter
from txlog.sink.task_writer import TaskWriter
from txlog.sink.write_job import WriteJob

if TYPE_CHECKING:
    from txlog.table import Table

__all__ = ["Sink", "SinkTask"]


class SinkTask:
    """One task of one checkpoint: a context manager. Leaving it cleanly seals the files; an exception aborts them."""

    def __init__(self, files: Any, job: WriteJob, task_id: int, attempt: int) -> None:
        self._task = job.task(task_id, attempt)
        self._committer = TaskCommitter(files, job.plan)
        self._writer = TaskWriter(files, job.plan, self._task)
        self._committable: Committable | None = None

    def write(self, data: Any) -> None:
        """Write a record batch, or anything ``Table.append`` takes. An error aborts the task."""
        self._writer.write(data)

    @property
    def committable(self) -> Committable:
        """What the task produced: ready after the ``with`` block ended."""
        if self._committable is None:
            raise InvalidInputError("the task is not sealed yet: its committable is ready after its with block")
        return self._committable

    def __enter__(self) -> SinkTask:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._writer.abort()
            return
        try:
            self._committable = self._committer.seal(self._task, self._writer.close())
        except BaseException:
            self._writer.abort()
            raise


class Sink:
    """Exactly-once writes of one application to one table.

    ``app_id`` names the application for ever: it must survive restarts, and no two applications may share one.
    """

    def __init__(self, table: Table, app_id: str, *, user_metadata: str | None = None) -> None:
        check_identity(app_id, 0)
        self._engine = table._engine
        self._app_id = app_id
        self._user_metadata = user_metadata
        self._committer = GlobalCommitter(self._engine)

    def task(self, checkpoint_id: int, task_id: int = 0, attempt: int = 0) -> SinkTask:
        """Begin one task. Each (checkpoint_id, task_id) may be committed from one attempt only."""
        return SinkTask(self._engine.store.files, self._job(checkpoint_id), task_id, attempt)

    def commit(
        self, checkpoint_id: int, committables: Sequence[Committable], *, fingerprint: str | None = None
    ) -> WriteResult:
        """Commit one checkpoint: every task's committable at once, or, as a replay, nothing.

        ``fingerprint`` (such as the source's offsets) is kept with the commit and compared by a later replay.
        Raises ``InvalidInputError`` for committables of another checkpoint, application or table;
        ``MetadataChangedError`` where a column that their files hold has changed since, and ``NotFoundError`` where
        a file is gone (vacuum takes what no commit names for an orphan): write the checkpoint again.
        """
        job = self._job(checkpoint_id, fingerprint)
        replayed = self._committer.replay_of(job)
        if replayed is not None:
            return replayed
        validate_committables(
            committables,
            partition_columns=job.plan.physical_partition_columns,
            table=self._engine.uri,
            table_id=job.plan.table_id,
            app_id=self._app_id,
            checkpoint_id=checkpoint_id,
            files=self._engine.store.files,
        )
        for version in {each.read_version for each in committables}:
            self._require_readable(job, version)
        return self._committer.commit(job, committables)

    def _require_readable(self, job: WriteJob, written_for: int) -> None:
        """Committables may be old: others may have changed the schema since their files were written."""
        if written_for == job.read_version:
            return
        try:
            then = self._engine.log.head_at(written_for)
        except NotFoundError:
            detail = f"and v{written_for}, which the files were written for, can no longer be looked at"
        else:
            if reads(physical_schema(job.plan.schema), physical_schema(then.schema)):
                return
            detail = f"changed the schema that the files were written for at v{written_for}"
        reason = ConflictReason("MetadataChangedError", job.read_version, "or an earlier commit", detail)
        raise_conflict((reason,), self._engine.uri)

    def last_checkpoint_id(self) -> int | None:
        """The last checkpoint of this application in the table; None before the first."""
        return self._engine.log.head().transaction_version(self._app_id)

    def recover(self) -> NoReturn:
        """Not in this release: committables are not staged durably yet, so there is nothing to recover from."""
        raise UnsupportedFeatureError(
            "Sink.recover is not in this release: keep the committables yourself (to_bytes) and commit them again",
            table=self._engine.uri,
            features=("Sink.recover",),
        )

    def _job(self, checkpoint_id: int, fingerprint: str | None = None) -> WriteJob:
        from txlog.protocol.schema import to_arrow

        schema = to_arrow(self._engine.writable_head().schema)
        options = WriteOptions(
            app_id=self._app_id,
            checkpoint_id=checkpoint_id,
            fingerprint=fingerprint,
            user_metadata=self._user_metadata,
        )
        return plan_write(self._engine, schema, options)
