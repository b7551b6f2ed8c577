"""Ray: datasets written to tables and read from them, and Ray's workers for txlog's commands.

In: a ``ray.data.Dataset``, or a table. Out: one version, or a dataset. Needs ``pip install 'ray[data]'``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

import pyarrow as pa
import ray
from ray.data import Dataset
from ray.data.block import Block, BlockAccessor, BlockMetadata
from ray.data.datasource import Datasink, Datasource, ReadTask

from txlog.integrations.tasked_write import Target, TargetMode, TaskedWrite
from txlog.result import WriteResult
from txlog.snapshot import Snapshot
from txlog.table import Table

__all__ = ["RayExecutor", "TxlogDatasink", "TxlogDatasource", "read", "write"]

Done = TypeVar("Done")


def write(
    dataset: Dataset,
    table: Table,
    *,
    mode: TargetMode = "append",
    keys: str | Sequence[str] | None = None,
    app_id: str | None = None,
    key: str | None = None,
) -> WriteResult:
    """Write a dataset to a table as one version, by Ray's tasks.

    Args:
        dataset: The rows. It is not computed if the table has the key already.
        table: The table.
        mode: "append", "overwrite" (replaces all rows) or "upsert".
        keys: The columns that identify a row, for "upsert".
        app_id: With ``key``: the permanent name of the job, as for ``Sink.once``.
        key: What this run of the job is for: a run that is repeated adds nothing.

    Returns:
        The result.

    Raises:
        TxlogError: What ``Table.append`` raises. What a task raises comes as Ray's error, with txlog's as its cause.
    """
    sink = TxlogDatasink(table, mode=mode, keys=keys, app_id=app_id, key=key)
    known = sink.committed()
    if known is not None:
        return known
    dataset.write_datasink(sink)
    assert sink.result is not None
    return sink.result


def read(
    table: Table | Snapshot, columns: Sequence[str] | None = None, where: str | None = None, **options: Any
) -> Dataset:
    """A table, or a version of it, as a dataset: deleted rows left out, files skipped by the log.

    Args:
        table: The table, read at its newest version, or a snapshot.
        columns: The columns to read; None means all.
        where: A condition in SQL, as for ``Snapshot.to_arrow``.
        options: Of ``ray.data.read_datasource``, such as ``concurrency``.

    Returns:
        The dataset.

    Raises:
        TxlogError: What ``Snapshot.scan_tasks`` raises.
    """
    return ray.data.read_datasource(TxlogDatasource(table, columns, where), **options)


class TxlogDatasink(Datasink[bytes]):  # type: ignore[misc]
    """For ``dataset.write_datasink(TxlogDatasink(table))``; the arguments are those of `write`.

    Attributes:
        result: After the write, its result.
    """

    def __init__(self, table: Table, **how: Any) -> None:
        self._target = Target(table, **how)
        self._planned: TaskedWrite | None = None
        self.result: WriteResult | None = None

    def committed(self) -> WriteResult | None:
        """The result of an earlier run with the same key, if there was one."""
        sink = self._target.sink()
        return None if sink is None else sink.committed(0)

    def __getstate__(self) -> dict[str, Any]:
        return {"_planned": self._planned}  # a task knows nothing of the log

    def get_name(self) -> str:
        return "txlog"

    def on_write_start(self, schema: pa.Schema | None = None) -> None:
        self._planned = self._target.plan(self._target.sink())

    def write(self, blocks: Iterable[Block], ctx: Any) -> bytes:
        assert self._planned is not None
        return self._planned.run(ctx.task_idx, (BlockAccessor.for_block(block).to_arrow() for block in blocks))

    def on_write_complete(self, write_result: Any) -> None:
        if self._planned is None:  # the dataset has no block
            self.on_write_start()
        assert self._planned is not None
        self.result = self._target.commit(self._planned, write_result.write_returns)


class TxlogDatasource(Datasource):  # type: ignore[misc]
    """For ``ray.data.read_datasource(TxlogDatasource(table))``; the arguments are those of `read`."""

    def __init__(self, table: Table | Snapshot, columns: Sequence[str] | None = None, where: str | None = None) -> None:
        super().__init__()
        self._snapshot = table.snapshot() if isinstance(table, Table) else table
        self._columns, self._where = columns, where

    def get_name(self) -> str:
        return "txlog"

    def estimate_inmemory_data_size(self) -> int | None:
        return None

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        size_bytes = max(1, self._snapshot.size_bytes // max(1, parallelism))
        tasks = self._snapshot.scan_tasks(self._columns, self._where, target_bytes=size_bytes)
        return [
            ReadTask(
                lambda task=task: (pa.Table.from_batches([each], task.schema) for each in task.batches()),
                BlockMetadata(num_rows=None, size_bytes=task.size_bytes, exec_stats=None, input_files=task.paths),
                schema=task.schema,
                per_task_row_limit=per_task_row_limit,
            )
            for task in tasks
        ]


class RayExecutor(Executor):
    """Ray's workers as ``workers=`` of ``Table.open`` and of txlog's commands."""

    def submit(self, fn: Callable[..., Done], /, *args: Any, **kwargs: Any) -> Future[Done]:
        """Run a call as a Ray task.

        Args:
            fn: What to call.
            args: Its arguments.
            kwargs: Its named arguments.

        Returns:
            Its outcome. Cancelling it does not stop a task that has begun.
        """
        found: Future[Done] = ray.remote(_called).remote(fn, args, kwargs).future()
        return found


def _called(fn: Callable[..., Done], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Done:
    return fn(*args, **kwargs)
