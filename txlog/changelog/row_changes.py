"""Merge engines and the checkpoints of changes, as the core asks for them: this module is its `RowChanges`.

Each function imports what it needs: a plain checkpoint of changes loads no merge engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from txlog.changelog.merge_engines.engine import MergeEngine
    from txlog.changelog.merged_rows import MergedRows
    from txlog.core.changes.tasks.operations import UpsertOptions
    from txlog.core.format.schema import Struct
    from txlog.core.versions import OpenTable, Steps
    from txlog.core.versions.decisions.state import TableState
    from txlog.core.writing import WriteJob
    from txlog.core.writing.committable import Committable
    from txlog.result import WriteResult


def engine_of(state: TableState, upsert: UpsertOptions) -> MergeEngine | None:
    from txlog.changelog.merged_rows import merge_engine_of

    return merge_engine_of(state, upsert)


def bound(
    open_table: OpenTable, state: TableState, data: Any, upsert: UpsertOptions, engine: MergeEngine
) -> MergedRows:
    from txlog.changelog.merged_rows import bound_merged_rows

    return bound_merged_rows(open_table, state, data, upsert, engine)


def require_engine(open_table: OpenTable, keys: Sequence[str], given: str | Mapping[str, Any]) -> None:
    from txlog.changelog.merged_rows import require_merge_engine

    require_merge_engine(open_table, keys, given)


def check_staged(open_table: OpenTable, job: WriteJob, committables: Sequence[Committable]) -> None:
    from txlog.changelog.staged_changes import check_staged_keys

    check_staged_keys(open_table, job, committables)


def staged_steps(
    open_table: OpenTable, state: TableState, job: WriteJob, committables: Sequence[Committable]
) -> Steps[WriteResult]:
    from txlog.changelog import staged_changes

    return staged_changes.staged_steps(open_table, state, job, committables)


def replaces(row_kind: str, row_kinds: Mapping[Any, str] | None) -> Callable[[Mapping[str, Any]], bool]:
    from txlog.changelog.row_kinds import RowKinds

    return partial(RowKinds(row_kinds).replaces, column=row_kind)


def check_definition(configuration: Mapping[str, str], schema: Struct) -> None:
    from txlog.changelog.merging_definition import check_merging

    check_merging(configuration, schema)
