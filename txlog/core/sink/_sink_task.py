"""`SinkTask`: one attempt of one task of a sink, in any process.

In: batches. Out: a `Committable`, when all files are sealed. Knows neither the log nor other tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import TracebackType

from txlog.core.store import FileStore
from txlog.core.util import explains_names
from txlog.core.writing import Changelog, ChangeWriter, KeepKeys, TaskWriter, WriteJob, seal_written
from txlog.core.writing.committable import Committable
from txlog.errors import InvalidInputError


@explains_names
class SinkTask:
    """One task of one checkpoint: a context manager. Leaving it cleanly seals the files; an exception aborts them."""

    def __init__(
        self,
        files: FileStore,
        job: WriteJob,
        task_id: int,
        attempt: int,
        changelog: Changelog | None = None,
        keep_keys: KeepKeys | None = None,
    ) -> None:
        self._task = job.task(task_id, attempt)
        self._changes: ChangeWriter | None = None
        self._writer: TaskWriter | ChangeWriter
        self._seal: Callable[[], Committable]
        if changelog is None:
            self._writer = rows = TaskWriter(files, job.plan, self._task)
            self._seal = partial(seal_written, files, job.plan, self._task, rows)
        else:
            self._writer = self._changes = changelog.writer(files, job.plan, self._task, keep_keys)
            self._seal = self._changes.close
        self._committable: Committable | None = None
        self._is_over = False

    def write(self, data: object) -> None:
        """Write rows or row changes. An error aborts the task.

        Args:
            data: A record batch, or anything that ``Table.append`` accepts.

        Raises:
            InvalidInputError: The task has ended, or a row cannot be stored.
            SchemaMismatchError: The columns do not fit the table.
            StorageError: The store failed.
        """
        self._writer.write(data)

    def delete(self, data: object) -> None:
        """Delete the rows with these keys, whatever their ``row_kind``. An error aborts the task.

        Args:
            data: Rows with at least the key columns, and the ``sequence_by`` column if the sink has one.

        Raises:
            InvalidInputError: The sink has no keys, the task has ended, or a key is null or missing.
            SchemaMismatchError: The columns do not fit the table.
            StorageError: There is no space for the keys.
        """
        if self._changes is None:
            raise InvalidInputError('only a sink of changes deletes rows: Sink(..., mode="upsert", keys=[...])')
        self._changes.delete(data)

    @property
    def committable(self) -> Committable:
        """The task's outcome, available after the ``with`` block. Raises InvalidInputError before that."""
        if self._committable is None:
            raise InvalidInputError("the task is not sealed yet: its committable is available after the with block")
        return self._committable

    def __enter__(self) -> SinkTask:
        if self._is_over:
            raise InvalidInputError("this task has ended: run it again with a higher attempt number")
        return self

    def __repr__(self) -> str:
        task = self._task
        state = "sealed" if self._committable is not None else "aborted" if self._is_over else "open"
        return (
            f"SinkTask(app_id={task.app_id!r}, checkpoint_id={task.checkpoint_id}, task_id={task.task_id},"
            f" attempt={task.attempt}, {state})"
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over = True
        if kind is not None:
            self._writer.abort()
            return
        self._committable = self._seal()
