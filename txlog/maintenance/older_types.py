"""Which live files hold a column in a type that it had before: their footers are read by workers.

In: an open table and files of a version. Out: the paths of those files.
"""

from __future__ import annotations

import pyarrow as pa

from txlog.commit.open_table import OpenTable
from txlog.log.state import TableState
from txlog.protocol.file_columns import add_files_of
from txlog.protocol.type_widening import TYPE_CHANGES_KEY
from txlog.tasks.older_types import HasOlderTypes
from txlog.workers.threads import ThreadWorkers

__all__ = ["files_with_older_types"]

_FOOTERS_AT_ONCE = 8


def files_with_older_types(open_table: OpenTable, state: TableState, files: pa.Table) -> list[str]:
    """The paths, as the log has them, of those ``files``.

    Raises ``NotFoundError``, ``CorruptLogError``, ``StorageError`` for a file whose footer cannot be read.
    """
    if TYPE_CHANGES_KEY not in state.metadata.schema_string:
        return []
    adds = add_files_of(files)
    found = dict(ThreadWorkers(_FOOTERS_AT_ONCE).map(HasOlderTypes(open_table.task_table(state)), adds))
    return [add.path for number, add in enumerate(adds) if found[number]]
