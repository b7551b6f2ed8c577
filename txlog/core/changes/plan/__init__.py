"""Row changes: deletes, updates, upserts and merges as one program, by deletion vectors or copies, run as a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from txlog.core.changes.plan._change_files import ChangeFiles
    from txlog.core.changes.plan._change_where import change_where
    from txlog.core.changes.plan._dead_rows import warn_of_dead_rows
    from txlog.core.changes.plan._distributed_tasks import parts_of, run_in_parts, table_of_tasks
    from txlog.core.changes.plan._local_tasks import change_locally, would_do
    from txlog.core.changes.plan._merge import bound_merge, columns_of_merge, merge_rows
    from txlog.core.changes.plan._merge_builder import MergeBuilder
    from txlog.core.changes.plan._new_columns import made_again
    from txlog.core.changes.plan._options import (
        RowOptions,
        check_changeable,
        check_delete,
        uses_vectors,
    )
    from txlog.core.changes.plan._run import change_in_transaction, prepared_steps, replayed
    from txlog.core.changes.plan._target import SourceSummary
    from txlog.core.changes.plan._upsert import added_columns, bound_upsert, upsert_rows
else:
    from txlog.core.util import face

    __getattr__, __dir__ = face(
        __name__,
        """
        _change_files: ChangeFiles
        _change_where: change_where
        _dead_rows: warn_of_dead_rows
        _distributed_tasks: parts_of run_in_parts table_of_tasks
        _local_tasks: change_locally would_do
        _merge: bound_merge columns_of_merge merge_rows
        _merge_builder: MergeBuilder
        _new_columns: made_again
        _options: RowOptions check_changeable check_delete uses_vectors
        _run: change_in_transaction prepared_steps replayed
        _target: SourceSummary
        _upsert: added_columns bound_upsert upsert_rows
        """,
    )

__all__ = [
    "ChangeFiles",
    "MergeBuilder",
    "RowOptions",
    "SourceSummary",
    "added_columns",
    "bound_merge",
    "bound_upsert",
    "change_in_transaction",
    "change_locally",
    "change_where",
    "check_changeable",
    "check_delete",
    "columns_of_merge",
    "made_again",
    "merge_rows",
    "parts_of",
    "prepared_steps",
    "replayed",
    "run_in_parts",
    "table_of_tasks",
    "upsert_rows",
    "uses_vectors",
    "warn_of_dead_rows",
    "would_do",
]
