"""UPSERT: source rows replace the table rows with their keys, or are added if there are none.

In: rows, what to do with them, and `RowOptions`. Out: a ``WriteResult``. ``core/changes/tasks/operations/_upsert`` is
the plain upsert; what merges rows of a key by an engine is found by ``row_changes``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from txlog.core.changes.plan._new_columns import RepeatableSource, made_again, with_new_columns
from txlog.core.changes.plan._options import RowOptions
from txlog.core.changes.plan._run import prepared_steps, replayed, state_to_change
from txlog.core.changes.tasks.operations import (
    KeyedChange,
    UpsertOptions,
    for_source,
    keeping_numbers,
    read_upsert,
    read_upsert_source,
)
from txlog.core.format.schema import fold_name
from txlog.core.row_rules import Numbers, NumbersOfPreview
from txlog.core.versions import OpenTable, numbers_of
from txlog.core.versions.decisions.state import TableState
from txlog.core.wording import argument
from txlog.core.writing import DataStream, open_data
from txlog.errors import InvalidInputError, TxlogError
from txlog.result import WriteResult

if TYPE_CHECKING:
    from txlog.core.definition import BoundEngine, Definition, MergesRowChanges
    from txlog.core.workers import GivenWorkers, Workers


def upsert_rows(
    open_table: OpenTable,
    data: Any,
    upsert: UpsertOptions,
    options: RowOptions,
    workers: GivenWorkers | None = None,
) -> WriteResult:
    """Upsert ``data``. Raises what `run_row_change` and `read_source` raise.

    If only the handle has workers, an upsert that cannot run on them runs in this process.
    """
    places = open_table.given_workers(workers)
    with open_table.log.files_ahead():
        if upsert.schema_mode != "merge":
            return _upsert_rows(open_table, data, upsert, options, places, must_use=workers is not None)
        source = RepeatableSource(data)
        return made_again(
            lambda: _upsert_rows(open_table, source.opened(), upsert, options, places, must_use=workers is not None),
            upsert.schema_mode,
            options.commit,
            source.can_be_opened,
        )


def _upsert_rows(
    open_table: OpenTable,
    data: Any,
    upsert: UpsertOptions,
    options: RowOptions,
    workers: Workers | None,
    *,
    must_use: bool,
) -> WriteResult:
    state = state_to_change(open_table, options, "an upsert")
    found = replayed(open_table, state, options)
    if found is not None:
        return found
    stream = open_data(data)
    with TxlogError.located(open_table.uri, state.version):
        definition = added_columns(state, stream.schema, upsert)
        if workers is not None:
            if _merging(state, upsert) is None:
                return _upsert_on(open_table, state, stream, upsert, options, workers, definition)
            if must_use:
                raise InvalidInputError(
                    "an upsert that merges rows by a merge engine runs in this process: leave"
                    f" {argument('workers')} out"
                )
    bound_to = state if definition is None else state.defined_as(definition.metadata, definition.protocol)
    numbers = NumbersOfPreview() if options.dry_run else None
    operation = bound_upsert(open_table, bound_to, stream, upsert, numbers)
    if not operation.num_source_rows and not options.dry_run and options.commit.app_id is None and definition is None:
        return WriteResult(state.version, "committed", 0, "")
    return open_table.run(prepared_steps(open_table, state, options, operation, definition))


def _upsert_on(
    open_table: OpenTable,
    state: TableState,
    stream: DataStream,
    upsert: UpsertOptions,
    options: RowOptions,
    workers: Workers,
    definition: Definition | None,
) -> WriteResult:
    from txlog.core.changes.plan._distributed_tasks import defined_as
    from txlog.core.changes.plan._held_source import change_with_held_source
    from txlog.core.changes.tasks import UpsertSpec, adapted

    to = defined_as(state, definition)
    spec = adapted(UpsertSpec(for_source(upsert, stream.schema.names or state.schema.names, to)), to)
    source, _ = read_upsert_source(to, open_table.uri, stream, spec.upsert, numbers_of(open_table, to))
    if not source.rows.num_rows and options.commit.app_id is None and definition is None:
        return WriteResult(state.version, "committed", 0, "")
    given = spec, source.rows, source.num_given
    return change_with_held_source(open_table, state, *given, options, workers, definition)


def added_columns(state: TableState, found: pa.Schema, upsert: UpsertOptions) -> Definition | None:
    """The table with a source's new columns, without the row kind column; None if it gets none."""
    if upsert.schema_mode != "merge":
        return None
    kind = None if upsert.row_kind is None else fold_name(upsert.row_kind)
    return with_new_columns(state, found, [(name,) for name in found.names if fold_name(name) != kind])


def bound_upsert(
    open_table: OpenTable, state: TableState, data: Any, upsert: UpsertOptions, numbers: Numbers | None = None
) -> KeyedChange:
    """Read the source and bind its upsert to a version. Raises what `read_source` and `MergesRowChanges` raise.

    ``numbers`` are for the identity columns of new rows; None means the table's.
    """
    stream = open_data(data)
    with TxlogError.located(open_table.uri, state.version):
        merging = _merging(state, upsert)
        if merging is None:
            upsert = for_source(upsert, stream.schema.names or state.schema.names, state)
        upsert = keeping_numbers(upsert, state)
    if merging is not None:
        changes, engine = merging
        return changes.bound(open_table, state, stream, upsert, engine)
    numbers = numbers or numbers_of(open_table, state)
    return read_upsert(state, open_table.uri, stream, upsert, open_table.key_cache, numbers)


def _merging(state: TableState, upsert: UpsertOptions) -> tuple[MergesRowChanges, BoundEngine] | None:
    """What merges the rows of an upsert, and with which engine; None if it is a plain one."""
    from txlog.core.definition import is_merged, row_changes

    if not is_merged(state, upsert):
        return None
    changes = row_changes("an upsert with a merge engine or with row kinds")
    engine = changes.engine_of(state, upsert)
    return None if engine is None else (changes, engine)
