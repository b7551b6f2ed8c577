"""Columns that come with a change of rows: an upsert or a merge may add those of its source to the table.

In: the table's definition and the columns of the source. Out: the definition with the columns that the table lacks,
struct fields too, and with wider types if the table takes them: as an append with ``schema_mode="merge"``.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

import pyarrow as pa

from txlog.core.definition import Definition, is_wider, with_columns
from txlog.core.format.schema import Field, fold_name, from_arrow
from txlog.core.format.schema_merge import adds_members
from txlog.core.format.statistics import ColumnPath
from txlog.core.versions.decisions.state import TableState

__all__ = ["with_new_columns"]


def with_new_columns(
    state: TableState, data_schema: pa.Schema, only: Iterable[ColumnPath] | None = None
) -> Definition | None:
    """Add the columns and struct fields of data that the table lacks, and take wider types; None if none change.

    ``only`` limits this to the columns and struct fields that it names.
    """
    paths = None if only is None else {tuple(map(fold_name, path)) for path in only}
    named = data_schema if paths is None else _cut_to(paths, data_schema)
    fields = [field for field in named if is_wider(state, field) or _is_new(field, state.schema.find(field.name))]
    return with_columns(state, from_arrow(pa.schema(fields))) if fields else None


def _cut_to(paths: Set[ColumnPath], fields: Iterable[pa.Field]) -> list[pa.Field]:
    """The fields that folded ``paths`` name; a struct of which they name members has only these."""
    found: list[pa.Field] = []
    for field in fields:
        name = fold_name(field.name)
        below = {path[1:] for path in paths if path[0] == name}
        if () in below:
            found.append(field)
        elif below and pa.types.is_struct(field.type) and (members := _cut_to(below, field.type)):
            found.append(field.with_type(pa.struct(members)))
    return found


def _is_new(field: pa.Field, there: Field | None) -> bool:
    """Whether a column of data is not ``there`` in the table, or has members that the table's column lacks."""
    return there is None or adds_members(there, from_arrow(pa.schema([field])).fields[0])
