"""What a merge engine that a package brings needs: what it derives from, the rows that it merges, and their options.

In: nothing. Out: names of ``txlog.changelog``. An engine derives from `MergeEngine`, is declared under its name in the
group ``txlog.merge_engines``, and gives `MergeEngine.column`, or `MergeEngine.merged` if it does not merge column by
column. Names load on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from txlog.changelog.merge_engines.engine import Merged, MergeEngine, RowOrder
    from txlog.changelog.merge_engines.keyed_rows import KeyedRows
    from txlog.changelog.merge_engines.merged_keys import KeyRuns
    from txlog.changelog.merge_engines.options import EngineOptions
    from txlog.changelog.merge_engines.runs import Runs, ranks
    from txlog.changelog.row_kinds import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE

_HOME = {
    **dict.fromkeys(("MergeEngine", "Merged", "RowOrder"), "merge_engines.engine"),
    "KeyedRows": "merge_engines.keyed_rows",
    "KeyRuns": "merge_engines.merged_keys",
    "EngineOptions": "merge_engines.options",
    **dict.fromkeys(("Runs", "ranks"), "merge_engines.runs"),
    **dict.fromkeys(("DELETE", "INSERT", "UPDATE_AFTER", "UPDATE_BEFORE"), "row_kinds"),
}

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
    "RowOrder",
    "Runs",
    "ranks",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'txlog.extend.merge_engines' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"txlog.changelog.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
