"""What a mirrored table's columns are, and what becomes of them when the source's columns change. Pure.

In: the columns that a mirror has, those of the stream, and the database's catalog, which may be ahead of the stream.
Out: the new columns, with what they were before; rows of the old columns as rows of the new ones. A change that the
stream does not tell apart from another one is refused: guessing would lose values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from txlog.errors import SchemaMismatchError
from txlog.mirror.properties import MirrorColumn
from txlog.mirror.sources import SourceColumn
from txlog.mirror.types import ColumnType, values_of


class StreamColumn(NamedTuple):
    """A column as the stream has it."""

    name: str
    type: ColumnType


def followed(
    table: str, known: Sequence[MirrorColumn], now: Sequence[StreamColumn], catalog: Sequence[SourceColumn]
) -> tuple[MirrorColumn, ...] | None:
    """The columns that a mirror with the columns ``known`` gets; None if nothing changed.

    Raises SchemaMismatchError for a change that cannot be followed.
    """
    of_name = {column.name: column for column in known}
    entries = {column.name: column for column in catalog}
    kept: dict[str, MirrorColumn] = {}
    for column in now:
        old = of_name.get(column.name)
        entry = entries.get(column.name)
        if old is None:
            continue
        is_another = entry is not None and old.number not in (0, entry.number)
        if old.type == column.type.delta and not is_another:
            kept[column.name] = old
        elif old.type == column.type.delta:
            raise _refused(table, f"the column {column.name} was dropped, and there is a new one of this name")
        elif not is_another or entry is None or entry.type.delta != column.type.delta:
            raise _refused(
                table, f"the type of the column {column.name} changed: it is {column.type.source}, and was {old.type}"
            )
    if len(kept) == len(known) == len(now):
        return None
    renamed = _renamed(table, [each for each in known if each.name not in kept], now, kept, catalog)
    return tuple(
        kept.get(column.name) or renamed.get(column.name) or _added(table, column, known, catalog) for column in now
    )


def _renamed(
    table: str,
    gone: Sequence[MirrorColumn],
    now: Sequence[StreamColumn],
    kept: Mapping[str, MirrorColumn],
    catalog: Sequence[SourceColumn],
) -> dict[str, MirrorColumn]:
    """The columns that have another name now, by that."""
    new = {column.name: column for column in now if column.name not in kept}
    numbers = {column.number: column.name for column in catalog}
    found: dict[str, MirrorColumn] = {}
    for old in gone:
        if old.number not in numbers:
            continue  # it was dropped
        name = numbers[old.number]
        if name in kept or name not in new:  # renamed again since
            like = [each.name for each in new.values() if each.type.delta == old.type and each.name not in found]
            if len(like) != 1:
                raise _refused(table, f"the column {old.name} has another name, and the catalog does not say which")
            name = like[0]
        if new[name].type.delta != old.type:
            raise _refused(table, f"the column {old.name} has another name and another type")
        found[name] = MirrorColumn(name, old.number, old.type)
    return found


def _added(
    table: str, column: StreamColumn, known: Sequence[MirrorColumn], catalog: Sequence[SourceColumn]
) -> MirrorColumn:
    numbers = {each.number for each in known}
    new = [each for each in catalog if each.number not in numbers and each.type.delta == column.type.delta]
    found = [each for each in new if each.name == column.name] or new
    if len(found) > 1:
        raise _refused(
            table, f"the new column {column.name} has another name since, and the catalog does not say which"
        )
    if not found:  # dropped since
        return MirrorColumn(column.name, 0, column.type.delta)
    entry = found[0]
    if entry.is_filled:
        raise _refused(
            table,
            f"the new column {column.name} has a default, so the rows that were there before may have values that"
            " PostgreSQL did not publish",
        )
    return MirrorColumn(column.name, entry.number, column.type.delta, entry.existing)


def _refused(table: str, what: str) -> SchemaMismatchError:
    return SchemaMismatchError(
        f"the mirror cannot follow {table}: {what}. Nothing of the change was applied. Mirror the table from a new"
        f" snapshot: txlog mirror ... --resync {table}"
    )


def moved_rows(
    batch: pa.RecordBatch,
    old: Sequence[MirrorColumn],
    new: Sequence[MirrorColumn],
    types: Mapping[str, ColumnType],
) -> pa.RecordBatch:
    """Rows of the columns ``old`` as rows of the columns ``new``; columns that are of neither stay, at the end."""
    places = {column.number: place for place, column in enumerate(old) if column.number}
    arrays, names = [], []
    for column in new:
        place = places.get(column.number)
        if place is not None:
            arrays.append(batch.column(place))
        else:
            value = values_of(pa.array([column.existing], pa.string()), types[column.name])
            arrays.append(value.take(pa.array([0] * batch.num_rows, pa.int32())))
        names.append(column.name)
    more = batch.schema.names[len(old) :]
    return pa.RecordBatch.from_arrays([*arrays, *(batch.column(name) for name in more)], names=[*names, *more])
