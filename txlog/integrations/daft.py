"""Daft: dataframes written to tables and read from them, by Daft's workers.

In: a ``daft.DataFrame``, or a table. Out: one version, or a dataframe. Needs ``pip install daft``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from uuid import UUID

import pyarrow as pa
from daft import DataFrame, DataType, Schema
from daft.io.pushdowns import Pushdowns
from daft.io.sink import DataSink
from daft.io.sink import WriteResult as Written
from daft.io.source import DataSource, DataSourceTask
from daft.recordbatch import MicroPartition, RecordBatch

from txlog.core.ambient import uuid4
from txlog.core.changes.tasks import ReadTask
from txlog.integrations.tasked_write import Target, TargetMode, TaskedWrite
from txlog.result import WriteResult
from txlog.snapshot import Snapshot
from txlog.table import Table

__all__ = ["read", "write"]


def write(
    data: DataFrame,
    table: Table,
    *,
    mode: TargetMode = "append",
    keys: str | Sequence[str] | None = None,
    app_id: str | None = None,
    key: str | None = None,
) -> WriteResult:
    """Write a dataframe to a table as one version, by Daft's workers.

    Args:
        data: The rows. It is not computed if the table has the key already.
        table: The table.
        mode: "append", "overwrite" (replaces all rows) or "upsert".
        keys: The columns that identify a row, for "upsert".
        app_id: With ``key``: the permanent name of the job, as for ``Sink.once``.
        key: What this run of the job is for: a run that is repeated adds nothing.

    Returns:
        The result.

    Raises:
        TxlogError: What ``Table.append`` raises. What a task raises comes as Daft's error, with txlog's text in it.
    """

    def run(planned: TaskedWrite) -> Sequence[bytes]:
        sink = _Sink(planned)
        data.write_sink(sink)
        return sink.written

    return Target(table, mode, keys, app_id, key).write(run)


def read(table: Table | Snapshot, columns: Sequence[str] | None = None, where: str | None = None) -> DataFrame:
    """A table, or a version of it, as a dataframe: deleted rows left out, files skipped by the log.

    Args:
        table: The table, read at its newest version, or a snapshot.
        columns: The columns to read; None means all.
        where: A condition in SQL, as for ``Snapshot.to_arrow``.

    Returns:
        The dataframe.

    Raises:
        TxlogError: What ``Snapshot.scan_tasks`` raises.
    """
    snapshot = table.snapshot() if isinstance(table, Table) else table
    return _Source(snapshot, columns, where).read()


class _Sink(DataSink[bytes]):  # type: ignore[misc]
    def __init__(self, planned: TaskedWrite) -> None:
        self._planned = planned
        self.written: Sequence[bytes] = ()

    def name(self) -> str:
        return "txlog"

    def schema(self) -> Schema:
        return Schema.from_pydict({"rows": DataType.int64()})

    def write(self, micropartitions: Iterator[MicroPartition]) -> Iterator[Written[bytes]]:
        counts = {"bytes_written": 0, "rows_written": 0}

        def pieces() -> Iterator[pa.Table]:
            for part in micropartitions:
                rows = part.to_arrow()
                counts["bytes_written"] += rows.nbytes
                counts["rows_written"] += rows.num_rows
                yield rows

        task_id = UUID(uuid4()).int >> 65  # Daft does not number its tasks; an id has 63 bits
        yield Written(self._planned.run(task_id, pieces()), **counts)

    def finalize(self, write_results: list[Written[bytes]]) -> MicroPartition:
        self.written = [each.result for each in write_results]
        return MicroPartition.from_pydict({"rows": [sum(each.rows_written for each in write_results)]})


class _Source(DataSource):  # type: ignore[misc]
    def __init__(self, snapshot: Snapshot, columns: Sequence[str] | None, where: str | None) -> None:
        self._snapshot, self._where = snapshot, where
        self._schema = snapshot.head(0, columns, where).schema

    @property
    def name(self) -> str:
        return "txlog"

    @property
    def schema(self) -> Schema:
        return Schema.from_pyarrow_schema(self._schema)

    async def get_tasks(self, pushdowns: Pushdowns) -> AsyncIterator[DataSourceTask]:
        needed = {*(pushdowns.columns or self._schema.names), *pushdowns.filter_required_column_names()}
        columns = [name for name in self._schema.names if name in needed]
        for task in self._snapshot.scan_tasks(columns, self._where):
            yield _DaftTask(task)


class _DaftTask(DataSourceTask):  # type: ignore[misc]
    def __init__(self, task: ReadTask) -> None:
        self._task = task

    @property
    def schema(self) -> Schema:
        return Schema.from_pyarrow_schema(self._task.schema)

    async def read(self) -> AsyncIterator[RecordBatch]:
        for batch in self._task.batches():
            yield RecordBatch.from_arrow_record_batches([batch], self._task.schema)
