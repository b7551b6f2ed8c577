"""Dask: dataframes written to tables and read from them.

In: a ``dask.dataframe.DataFrame``, or a table. Out: one version, or a dataframe. Needs
``pip install 'dask[dataframe]'``. For ``workers=``, txlog takes a ``distributed.Client`` as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dask
import dask.dataframe as dd
import pandas as pd

from txlog.integrations.tasked_write import Target, TargetMode, TaskedWrite
from txlog.result import WriteResult
from txlog.snapshot import Snapshot
from txlog.table import Table

__all__ = ["read", "write"]


def write(
    data: dd.DataFrame,
    table: Table,
    *,
    mode: TargetMode = "append",
    keys: str | Sequence[str] | None = None,
    app_id: str | None = None,
    key: str | None = None,
) -> WriteResult:
    """Write a dataframe to a table as one version; each partition is a task.

    Args:
        data: The rows. A named index is a column, as in ``Table.append`` of a pandas frame; an unnamed one is left
            out. It is not computed if the table has the key already.
        table: The table.
        mode: "append", "overwrite" (replaces all rows) or "upsert".
        keys: The columns that identify a row, for "upsert".
        app_id: With ``key``: the permanent name of the job, as for ``Sink.once``.
        key: What this run of the job is for: a run that is repeated adds nothing.

    Returns:
        The result.

    Raises:
        TxlogError: What ``Table.append`` raises.
    """

    def run(planned: TaskedWrite) -> Sequence[bytes]:
        task = dask.delayed(_written, pure=False)
        written: Sequence[bytes] = dask.compute(
            *(task(planned, number, part) for number, part in enumerate(data.to_delayed()))
        )
        return written

    return Target(table, mode, keys, app_id, key).write(run)


def read(table: Table | Snapshot, columns: Sequence[str] | None = None, where: str | None = None) -> dd.DataFrame:
    """A table, or a version of it, as a dataframe of Arrow's types: deleted rows left out, files skipped by the log.

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
    tasks = snapshot.scan_tasks(columns, where)
    if not tasks:
        return dd.from_pandas(_frame(snapshot.to_arrow(columns, where)), npartitions=1)
    return dd.from_map(_read, tasks, meta=_frame(tasks[0].schema.empty_table()))


def _written(planned: TaskedWrite, number: int, part: pd.DataFrame) -> bytes:
    return planned.run(number, [part])


def _read(task: Any) -> pd.DataFrame:
    return _frame(task.to_arrow())


def _frame(rows: Any) -> pd.DataFrame:
    return rows.to_pandas(types_mapper=pd.ArrowDtype)
