"""MERGE: clauses for rows that match a source, for rows that only the source has, and for rows that only the table has.

In: a source, clauses and `RowOptions`. Out: a ``WriteResult``. ``core/changes/tasks/operations/_merge`` says what the
clauses do.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from txlog.core import ambient
from txlog.core.changes.plan._new_columns import RepeatableSource, made_again, with_new_columns
from txlog.core.changes.plan._options import RowOptions
from txlog.core.changes.plan._run import prepared_steps, replayed, state_to_change
from txlog.core.changes.tasks.operations import MergeClause, MergeOptions, MergeRows, known_keys, read_merge_source
from txlog.core.format.properties import column_paths
from txlog.core.format.schema import Struct, fold_name
from txlog.core.format.statistics import ColumnPath
from txlog.core.row_rules import Numbers, NumbersOfPreview
from txlog.core.versions import OpenTable, numbers_of
from txlog.core.versions.decisions.state import TableState
from txlog.core.writing import DataStream, open_data
from txlog.errors import TxlogError
from txlog.result import WriteResult

if TYPE_CHECKING:
    from txlog.core.definition import Definition
    from txlog.core.workers import GivenWorkers, Workers


def merge_rows(
    open_table: OpenTable,
    data: Any,
    merge: MergeOptions,
    clauses: tuple[MergeClause, ...],
    options: RowOptions,
    workers: GivenWorkers | None = None,
) -> WriteResult:
    """Merge ``data`` by ``clauses``. Raises what `run_row_change` and `MergeBuilder.execute` raise."""
    places = open_table.given_workers(workers)
    with open_table.log.files_ahead():
        if merge.schema_mode != "merge":
            return _merge_rows(open_table, data, merge, clauses, options, places)
        source = RepeatableSource(data)
        return made_again(
            lambda: _merge_rows(open_table, source.opened(), merge, clauses, options, places),
            merge.schema_mode,
            options.commit,
            source.can_be_opened,
        )


def _merge_rows(
    open_table: OpenTable,
    data: Any,
    merge: MergeOptions,
    clauses: tuple[MergeClause, ...],
    options: RowOptions,
    workers: Workers | None,
) -> WriteResult:
    state = state_to_change(open_table, options, "a merge")
    found = replayed(open_table, state, options)
    if found is not None:
        return found
    stream = open_data(data)
    with TxlogError.located(open_table.uri, state.version):
        definition = columns_of_merge(state, stream.schema, merge, clauses)
    if workers is not None:
        return _merge_on(open_table, state, stream, merge, clauses, options, workers, definition)
    bound_to = state if definition is None else state.defined_as(definition.metadata, definition.protocol)
    numbers = NumbersOfPreview() if options.dry_run else None
    operation = bound_merge(open_table, bound_to, stream, merge, clauses, numbers)
    return open_table.run(prepared_steps(open_table, state, options, operation, definition))


def _merge_on(
    open_table: OpenTable,
    state: TableState,
    stream: DataStream,
    merge: MergeOptions,
    clauses: tuple[MergeClause, ...],
    options: RowOptions,
    workers: Workers,
    definition: Definition | None,
) -> WriteResult:
    from txlog.core.changes.plan._distributed_tasks import defined_as
    from txlog.core.changes.plan._held_source import change_with_held_source
    from txlog.core.changes.tasks import MergeSpec

    now, names = ambient.now(), (merge.source_alias, merge.target_alias)
    with TxlogError.located(open_table.uri, state.version):
        bound_to = defined_as(state, definition)
        rows = read_merge_source(stream, merge.condition, bound_to, now, *names, table=open_table.uri).rows
    spec = MergeSpec(merge, clauses, now)
    return change_with_held_source(open_table, state, spec, rows, rows.num_rows, options, workers, definition)


def columns_of_merge(
    state: TableState, source: pa.Schema, merge: MergeOptions, clauses: tuple[MergeClause, ...]
) -> Definition | None:
    """The table with the source's new columns that the clauses set; None if it gets none."""
    if merge.schema_mode != "merge":
        return None
    return with_new_columns(state, source, _paths_set(clauses, source, state.schema))


def _paths_set(clauses: tuple[MergeClause, ...], source: pa.Schema, table: Struct) -> set[ColumnPath] | None:
    """The columns and struct fields that the clauses set; None for all columns of the source."""
    found: set[ColumnPath] = set()
    columns = {fold_name(name) for name in (*source.names, *table.names)}
    for clause in clauses:
        if clause.values is None and clause.then != "delete":
            if not clause.except_columns:
                return None
            left_out = {fold_name(name) for name in clause.except_columns}
            found |= {(name,) for name in source.names if fold_name(name) not in left_out}
        for name in clause.values or ():
            if not isinstance(name, str):
                continue
            if fold_name(name) in columns:  # a column's own name may have a dot
                found.add((name,))
                continue
            with contextlib.suppress(ValueError):  # `Assignments` reports a name that is none
                found.update(column_paths(name))
    return found


def bound_merge(
    open_table: OpenTable,
    state: TableState,
    data: Any,
    merge: MergeOptions,
    clauses: tuple[MergeClause, ...],
    numbers: Numbers | None = None,
) -> MergeRows:
    """Read the source and bind the merge to a version, with ``numbers`` as for `bound_upsert`.

    Raises what `merge_rows` raises.
    """
    with TxlogError.located(open_table.uri, state.version):
        now = ambient.now()
        source = read_merge_source(
            data, merge.condition, state, now, merge.source_alias, merge.target_alias, table=open_table.uri
        )
        known = None
        if source.index is not None and not source.computed:
            known = known_keys(open_table.key_cache, source.index, state)
        return MergeRows(source, merge, clauses, state, now, known, numbers or numbers_of(open_table, state))
