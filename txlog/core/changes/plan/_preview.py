"""What a row change would do, without writing: it reads every file that may hold a match.

In: an operation bound to the newest version. Out: a `RowPreview`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from txlog.core.changes.plan._local_tasks import would_do
from txlog.core.changes.plan._options import RowOptions, uses_vectors
from txlog.core.changes.plan._run import state_to_change
from txlog.core.changes.tasks.operation import RowOperation
from txlog.core.changes.tasks.operations.delete import DeleteSpec
from txlog.core.definition import Definition
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.state import TableState
from txlog.core.writing.input import open_data
from txlog.errors import TxlogError

__all__ = ["RowPreview", "preview_delete", "preview_update", "preview_upsert"]


class RowPreview(msgspec.Struct, frozen=True):
    """What a row change would do to a table at ``version``.

    Attributes:
        version: The version it is based on.
        rows_inserted: The number of rows that would be added.
        rows_updated: The number of rows that would be changed.
        rows_deleted: The number of rows that would be removed. Files removed as a whole count 0 if the log lacks their
            row counts.
        rows_copied: The number of rows that would be copied, since they share a file with rows that change.
        files_removed: The number of files that would be removed or rewritten.
        files_marked: The number of files that would stay, with some of their rows marked as deleted.
    """

    version: int
    rows_inserted: int
    rows_updated: int
    rows_deleted: int
    rows_copied: int
    files_removed: int
    files_marked: int


def preview_delete(open_table: OpenTable, where: str | None) -> RowPreview:
    """Raises what `Table.delete` raises."""
    return _preview(open_table, "a delete", DeleteSpec(where).bind)


def preview_update(open_table: OpenTable, values: Mapping[str, Any], where: str | None) -> RowPreview:
    """Raises what `Table.update` raises, except for errors that only writing the rows would find."""
    from txlog.core.changes.tasks.operations.update import UpdateSpec

    return _preview(open_table, "an update", UpdateSpec(values, where).bind)


def preview_upsert(open_table: OpenTable, rows: Any, how: Any) -> RowPreview:
    """``how`` are ``UpsertOptions``. Raises what `Table.upsert` raises."""
    from txlog.core.changes.plan._upsert import added_columns, bound_upsert
    from txlog.core.writing.generated_columns import NumbersOfPreview

    stream = open_data(rows)
    return _preview(
        open_table,
        "an upsert",
        lambda state: bound_upsert(open_table, state, stream, how, NumbersOfPreview()),
        lambda state: added_columns(state, stream.schema, how),
    )


def _preview(
    open_table: OpenTable,
    what: str,
    operation_for: Callable[[TableState], RowOperation],
    definition_for: Callable[[TableState], Definition | None] = lambda _: None,
) -> RowPreview:
    options = RowOptions()
    state = state_to_change(open_table, options, what)
    with TxlogError.located(open_table.uri, state.version):
        definition = definition_for(state)
        defined = state if definition is None else state.defined_as(definition.metadata, definition.protocol)
        operation = operation_for(defined)
        with_vectors = uses_vectors(state, options.mode)
    open_table.log.check_zones(state)
    would = would_do(
        open_table,
        state,
        operation,
        open_table.log.files(state),
        with_vectors=with_vectors,
        definition=definition,
    )
    return RowPreview(
        state.version,
        would.rows_inserted,
        would.rows_updated,
        would.rows_deleted,
        would.rows_copied,
        would.files_removed,
        would.vectors,
    )
