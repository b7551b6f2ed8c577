"""What a merge engine that a package brings needs: what it derives from, the rows that it merges, and their options.

In: nothing. Out: names of ``txlog.changelog``, and `type_name`, which tells the types of columns. An engine derives
from `MergeEngine`, is declared under its name in the group ``txlog.merge_engines``, and gives `MergeEngine.column`, or
`MergeEngine.merged` if it does not merge column by column. Names load on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from txlog.changelog.merge_engines.engine import Merged, MergeEngine, RowOrder
    from txlog.changelog.merge_engines.keyed_rows import KeyedRows
    from txlog.changelog.merge_engines.merged_keys import KeyRuns
    from txlog.changelog.merge_engines.options import EngineOptions
    from txlog.changelog.merge_engines.runs import Runs, ranks
    from txlog.changelog.row_kinds import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, RowKinds
    from txlog.core.format.schema import type_name
else:
    from txlog.core.util import face

    __getattr__, __dir__ = face(
        __name__,
        """
        changelog.merge_engines.engine: MergeEngine Merged RowOrder
        changelog.merge_engines.keyed_rows: KeyedRows
        changelog.merge_engines.merged_keys: KeyRuns
        changelog.merge_engines.options: EngineOptions
        changelog.merge_engines.runs: Runs ranks
        changelog.row_kinds: DELETE INSERT UPDATE_AFTER UPDATE_BEFORE RowKinds
        core.format.schema: type_name
        """,
        of="txlog",
    )

__all__ = [
    "DELETE",
    "INSERT",
    "UPDATE_AFTER",
    "UPDATE_BEFORE",
    "EngineOptions",
    "KeyRuns",
    "KeyedRows",
    "MergeEngine",
    "Merged",
    "RowKinds",
    "RowOrder",
    "Runs",
    "ranks",
    "type_name",
]
