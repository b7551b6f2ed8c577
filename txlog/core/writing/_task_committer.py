"""The end of a task: makes its pending files durable, verifies them, and seals them into a `Committable`.

In: the result of `TaskWriter.close`. Out: a committable. Each of its files is durable under its final name, and
complete: its footer was read back, or the store's acknowledgment proves it. The driver makes the commit.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from txlog.core.parallel import do_all
from txlog.core.store import FileStore
from txlog.core.writing._partition_writer import ENCODERS
from txlog.core.writing._task_writer import TaskWriter
from txlog.core.writing._write_plan import TaskIdentity, WritePlan
from txlog.core.writing.committable import Committable, PendingFile
from txlog.errors import NotFoundError, StorageError

_FOOTERS_AT_ONCE = 16


class TaskCommitter:
    """Seals tasks of one planned write."""

    def __init__(self, files: FileStore, plan: WritePlan) -> None:
        self._files = files
        self._plan = plan

    def seal(self, task: TaskIdentity, pending: Sequence[PendingFile]) -> Committable:
        """Make the names of ``pending`` durable, read back their footers if the store needs it, and seal the files.

        Raises StorageError (also if a footer is torn or has another row count), NotFoundError if a file is gone;
        nothing is committed then.
        """
        if pending:
            try:
                self._files.make_durable([file.path for file in pending])
                if self._files.needs_read_back:
                    do_all(self._check_footer, pending, threads=_FOOTERS_AT_ONCE, few=4)
            except NotFoundError as error:
                error.template += (
                    ": this write made it, and another program has deleted it, as a vacuum with a short retention"
                    " does with files that no commit names. Nothing was committed; run the write again"
                )
                raise
        return Committable(
            app_id=task.app_id,
            checkpoint_id=task.checkpoint_id,
            job_id=task.job_id,
            task_id=task.task_id,
            attempt=task.attempt,
            table_id=self._plan.table_id,
            read_version=self._plan.read_version,
            files=tuple(pending),
        )

    def _check_footer(self, file: PendingFile) -> None:
        if file.tail is not None:
            if not file.tail.is_end_of(file.size_bytes, self._files.read_from(file.path, file.tail.start)):
                raise self._damaged(file, "its end differs from what was written")
            return
        from txlog.core.format.arrow.parquet import pq

        try:
            with contextlib.closing(self._files.open(file.path)) as source:
                num_rows = pq.read_metadata(source).num_rows
        except (pa.ArrowException, OSError) as error:
            raise self._damaged(file, error) from error
        if num_rows != file.num_rows:
            raise StorageError(
                f"{file.path} reads back with {num_rows} rows, but {file.num_rows} were written. No commit names it; "
                "run the write again",
                table=self._plan.table,
                path=file.path,
            )

    def _damaged(self, file: PendingFile, why: object) -> StorageError:
        return StorageError(
            f"{file.path} was written but reads back damaged ({why}). No commit names it; run the write again",
            table=self._plan.table,
            path=file.path,
        )


def write_task(
    files: FileStore, plan: WritePlan, task: TaskIdentity, data: Any, *, encoders: int = ENCODERS
) -> Committable:
    """Write ``data`` (anything `open_data` takes) as one task, and seal it. Any error removes its files.

    ``encoders`` is how many threads may encode Parquet pages. Raises SchemaMismatchError, InvalidInputError,
    StorageError.
    """
    with TaskWriter(files, plan, task, encoders=encoders) as writer:
        writer.write(data)
        return seal_written(files, plan, task, writer)


def seal_written(files: FileStore, plan: WritePlan, task: TaskIdentity, writer: TaskWriter) -> Committable:
    """The end of a task: close its writer and seal its files. Any error removes them.

    Raises SchemaMismatchError, InvalidInputError, StorageError.
    """
    try:
        return TaskCommitter(files, plan).seal(task, writer.close())
    except BaseException:
        writer.abort()
        raise
