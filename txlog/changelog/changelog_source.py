"""The source of an upsert with a merge engine: a changelog, stored for several passes, with its keys numbered.

In: data, with or without a column of row kinds, and a `MergeEngine`. Out: a `ChangelogSource`. The data is read once,
so each execution of the change merges the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from txlog.changelog.change_order import (
    feed_columns,
    feed_order,
    in_versions,
    net_changes,
    of_moved_keys,
    orders_feed,
)
from txlog.changelog.change_order import of_feed as kinds_of_feed
from txlog.changelog.merge_engines.engine import MergeEngine
from txlog.changelog.merge_engines.keyed_rows import KeyedRows
from txlog.changelog.merge_engines.runs import ranks
from txlog.changelog.required_values import check_members, require_values
from txlog.changelog.retractions import compared_columns
from txlog.changelog.row_kinds import DELETE, UPDATE_BEFORE, RowKinds
from txlog.core.changes.tasks.operations import UpsertSource, joined_sequence, refuse_null_keys, stored_rows
from txlog.core.format.schema import Struct, fold_name, to_arrow
from txlog.core.row_rules import ComputedColumns, KeyColumn, KeyIndex, generated_of
from txlog.core.wording import argument
from txlog.core.writing import DataStream, completed, nullable, open_data
from txlog.errors import InvalidInputError

if TYPE_CHECKING:
    from numpy.typing import NDArray


class ChangelogSource(msgspec.Struct, frozen=True):
    """``changes`` are the rows with their key numbers; ``keys`` has one row for each number, in order."""

    changes: KeyedRows
    keys: UpsertSource


def read_changelog(
    data: Any,
    schema: Struct,
    keys: Sequence[KeyColumn],
    engine: MergeEngine,
    *,
    row_kind: str | None = None,
    row_kinds: Mapping[Any, str] | None = None,
    sequence_by: str | None = None,
    table: str | None = None,
    partition_columns: Sequence[str] = (),
    zone: str,
) -> ChangelogSource:
    """Read ``data``, anything ``Table.append`` takes. ``sequence_by`` orders it, if it is not a column of the table.

    Raises ``SchemaMismatchError`` naming columns that are missing or do not fit, ``InvalidInputError`` naming a null
    key, an unknown row kind, or a kind that the engine does not take, ``StorageError`` if there is no space for it.
    """
    stream = open_data(data)
    if not stream.schema.names:
        names = to_arrow(schema) if row_kind is None else pa.schema([*to_arrow(schema), (row_kind, pa.string())])
        stream = DataStream(names, stream.batches)
    beside = sequence_by if sequence_by is not None and schema.find(sequence_by) is None else None
    generated = generated_of(schema, table, partition_columns, zone=zone)
    reader = _ChangesReader(schema, keys, engine, row_kind, RowKinds(row_kinds), beside, table, generated)
    rows = stored_rows(reader.conformed(stream), to_arrow(nullable(schema)), table)
    kinds = reader.kinds()
    if kinds is not None:
        engine.check_kinds(kinds)
    refuse_null_keys(keys, [key.of(rows) for key in keys], table)
    order = reader.order()
    told = [name for name in (row_kind, sequence_by, *engine.sequence) if name is not None]
    found = numbered(rows, kinds, keys, compared_columns(schema, keys, told))
    if order is None:
        return found
    return replace(found, changes=ordered_changes(found.changes, order, engine, of_feed=reader.is_of_feed))


def ordered_changes(changes: KeyedRows, order: NDArray[np.int64], engine: MergeEngine, *, of_feed: bool) -> KeyedRows:
    """The changes by ``order``, then by arrival; in a feed, whose order is `feed_order`, with the kinds that merge."""
    kinds = changes.kinds
    if of_feed and kinds is not None:
        came_as = kinds if changes.came_as is None else changes.came_as
        if engine.takes_whole_rows:
            order, both = in_versions(changes.rows, kinds, changes.keys, order, changes.compared)
            merged_as = kinds_of_feed(kinds, both)
            changes = replace(changes, kinds=merged_as, came_as=came_as)
        else:
            columns = (*changes.compared, *engine.sequence)
            is_left = net_changes(changes.rows, kinds, changes.keys, order, columns, engine.cancelling_kinds)
            changes, order = replace(changes, came_as=came_as).taken(np.flatnonzero(is_left)), order[is_left]
            changes = replace(changes, kinds=of_moved_keys(kinds[is_left], changes.keys, order))
    return changes.taken(np.argsort(order, kind="stable"))


def numbered(
    rows: pa.Table, kinds: NDArray[np.int8] | None, keys: Sequence[KeyColumn], compared: Sequence[str]
) -> ChangelogSource:
    """A changelog's rows, in the table's types and without null keys, with their key numbers."""
    index = KeyIndex(keys, [key.of(rows) for key in keys])
    is_last = index.last_rows()
    number = np.zeros(index.num_keys, dtype=np.int64)
    number[index.code_of_row[is_last]] = np.arange(index.num_keys)
    names = list(dict.fromkeys(key.path[0] for key in keys))
    named = rows.select(names).filter(pa.array(is_last))
    source = UpsertSource(named, KeyIndex(keys, [key.of(named) for key in keys]), rows.num_rows)
    return ChangelogSource(KeyedRows(rows, number[index.code_of_row], kinds, compared=tuple(compared)), source)


class _ChangesReader:
    """Takes the columns about the changes out of the batches, and converts the rest to the table's types."""

    def __init__(
        self,
        schema: Struct,
        keys: Sequence[KeyColumn],
        engine: MergeEngine,
        row_kind: str | None,
        kinds: RowKinds,
        sequence_by: str | None,
        table: str | None,
        generated: ComputedColumns | None,
    ) -> None:
        self._schema = schema
        self._keys = keys
        self._engine = engine
        self._fitted = nullable(schema)
        self._generated = generated
        self._row_kind = row_kind
        self._kinds = kinds
        self._sequence_by = sequence_by
        self._table = table
        self._found: list[NDArray[np.int8]] = []
        self._order: list[pa.Array] = []
        self._ordered_by: str | None = None
        self.is_of_feed = False

    def conformed(self, stream: DataStream) -> Iterator[pa.RecordBatch]:
        arrow_schema = to_arrow(self._fitted)
        first_row = 0
        for batch in stream.batches:
            rows = self._taken(batch, first_row)
            are_new = self._are_new(batch.num_rows)
            rows = require_values(self._schema, self._keys, self._engine, rows, are_new, first_row)
            fitted = completed(self._fitted, rows, self._generated, self._table, first_row, are_new)
            check_members(self._schema, fitted, are_new, first_row)
            first_row += batch.num_rows
            yield pa.RecordBatch.from_arrays(fitted.columns, schema=arrow_schema)

    def _taken(self, batch: pa.RecordBatch, first_row: int) -> pa.RecordBatch:
        """The batch without the columns about its changes, which are kept."""
        names = batch.schema.names
        if self._row_kind is not None:
            at = self._at(names, "row_kind", self._row_kind)
            self._found.append(self._kinds.of(batch.column(at), self._row_kind, first_row))
        self._take_order(batch, first_row)
        own = {fold_name(each) for each in (*feed_columns(self._row_kind), self._row_kind, self._sequence_by) if each}
        beside = {name for name in own if self._schema.find(name) is None}
        kept = [at for at, name in enumerate(names) if fold_name(name) not in beside]
        return batch if len(kept) == len(names) else batch.select(kept)

    def _take_order(self, batch: pa.RecordBatch, first_row: int) -> None:
        of_feed = orders_feed(self._row_kind, self._sequence_by, batch.schema.names)
        name = of_feed or self._sequence_by
        if self._found[1:] or self._order:
            self._refuse_other_order(name, first_row)
        self._ordered_by = name
        if name is None:
            return
        column = batch.column(self._at(batch.schema.names, "sequence_by", name))
        if of_feed is not None:
            self.is_of_feed = True
            self._order.append(feed_order(column, self._found[-1], name, first_row))
            return
        if column.null_count:
            row = first_row + int(column.is_null().index(True).as_py())
            raise InvalidInputError(
                f"{argument('sequence_by')} column {name} is null in row {row} (counting from 0): a row without a"
                " sequence has no order. Fill or drop such rows",
                table=self._table,
            )
        self._order.append(column)

    def _refuse_other_order(self, name: str | None, first_row: int) -> None:
        if name != self._ordered_by:
            raise InvalidInputError(
                f"the rows before row {first_row} (counting from 0) are ordered by {self._ordered_by or 'arrival'}, and"
                f" those from it on by {name or 'arrival'}: give all batches the same columns",
                table=self._table,
            )

    def _at(self, names: Sequence[str], what: str, name: str) -> int:
        at = next((at for at, each in enumerate(names) if fold_name(each) == fold_name(name)), None)
        if at is None:
            raise InvalidInputError(
                f"{argument(what)} names {name!r}, which the source lacks; it has {', '.join(names)}",
                table=self._table,
            )
        return at

    def _are_new(self, num_rows: int) -> NDArray[np.bool_]:
        """Which rows of the last batch are neither -U nor -D."""
        if self._row_kind is None:
            return np.ones(num_rows, dtype=bool)
        return ~np.isin(self._found[-1], (UPDATE_BEFORE, DELETE))

    def kinds(self) -> NDArray[np.int8] | None:
        """The kinds of all rows; None without a column of row kinds."""
        if self._row_kind is None:
            return None
        return np.concatenate([np.empty(0, np.int8), *self._found])

    def order(self) -> NDArray[np.int64] | None:
        """What orders the rows, as numbers; None: their arrival."""
        if not self._order:
            return None
        column = joined_sequence(self._order, self._ordered_by or "", self._table)
        if self.is_of_feed:
            return np.asarray(column.to_numpy(), dtype=np.int64)
        try:
            return ranks(column)
        except pa.ArrowException as error:
            raise InvalidInputError(
                f"{argument('sequence_by')} column {self._ordered_by} has no order: {error}", table=self._table
            ) from error
