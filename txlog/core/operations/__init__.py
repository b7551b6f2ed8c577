"""The operations that users call on a table, one file each."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from txlog.core.operations._batch_write import write_steps
    from txlog.core.operations._changes import VersionSpan, read_changes
    from txlog.core.operations._committed_batches import CommittedBatch, OnChange, follow_table
    from txlog.core.operations._extension_operations import OPERATIONS, operation
    from txlog.core.operations._follower import FeedSelection, Follower, RowRule, bind_to_feed
    from txlog.core.operations._global_committer import GlobalCommitter
    from txlog.core.operations._history import HISTORY_COLUMNS, History, history_row
    from txlog.core.operations._repair import repair
    from txlog.core.operations._replaced_files import RegionReplacement, decided_by_partitions
    from txlog.core.operations._row_check import RowCheck
    from txlog.core.operations._transaction_history import history_metrics, history_operation, history_parameters
    from txlog.core.operations._write_options import WriteOptions, check_mode
    from txlog.core.operations._write_planning import check_counted_columns, check_removable, plan_for_rows, plan_write
else:
    from txlog.core.util import face

    __getattr__, __dir__ = face(
        __name__,
        """
        _batch_write: write_steps
        _changes: VersionSpan read_changes
        _extension_operations: OPERATIONS operation
        _committed_batches: CommittedBatch OnChange follow_table
        _follower: FeedSelection Follower RowRule bind_to_feed
        _global_committer: GlobalCommitter
        _history: HISTORY_COLUMNS History history_row
        _repair: repair
        _replaced_files: RegionReplacement decided_by_partitions
        _row_check: RowCheck
        _transaction_history: history_metrics history_operation history_parameters
        _write_options: WriteOptions check_mode
        _write_planning: check_counted_columns check_removable plan_for_rows plan_write
        """,
    )

__all__ = [
    "HISTORY_COLUMNS",
    "OPERATIONS",
    "CommittedBatch",
    "FeedSelection",
    "Follower",
    "GlobalCommitter",
    "History",
    "OnChange",
    "RegionReplacement",
    "RowCheck",
    "RowRule",
    "VersionSpan",
    "WriteOptions",
    "bind_to_feed",
    "check_counted_columns",
    "check_mode",
    "check_removable",
    "decided_by_partitions",
    "follow_table",
    "history_metrics",
    "history_operation",
    "history_parameters",
    "history_row",
    "operation",
    "plan_for_rows",
    "plan_write",
    "read_changes",
    "repair",
    "write_steps",
]
