"""Which live files still hold values of columns that the table no longer has: their footers are read by workers.

In: an open table and files of a version. Out: the paths of those files.
"""

from __future__ import annotations

import pyarrow as pa

from txlog.commit.open_table import OpenTable
from txlog.log.state import TableState
from txlog.protocol.file_columns import add_files_of
from txlog.tasks.dropped_columns import HasDroppedColumns
from txlog.workers.threads import ThreadWorkers

__all__ = ["files_with_dropped_columns"]

_FOOTERS_AT_ONCE = 8


def files_with_dropped_columns(open_table: OpenTable, state: TableState, files: pa.Table) -> list[str]:
    """The paths, as the log has them, of those ``files`` that hold a dropped column, or a dropped member of a struct.

    Raises ``NotFoundError``, ``CorruptLogError``, ``StorageError`` for a file whose footer cannot be read.
    """
    if state.properties.column_mapping_mode == "none":
        return []
    adds = add_files_of(files)
    work = HasDroppedColumns(open_table.task_table(state))
    found = dict(ThreadWorkers(_FOOTERS_AT_ONCE).map(work, adds))
    return [add.path for number, add in enumerate(adds) if found[number]]
