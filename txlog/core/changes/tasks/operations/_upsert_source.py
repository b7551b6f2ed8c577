"""An upsert's source: its rows, stored for several passes and checked before the table is read.

In: data, and the table columns that it must have. Out: a `UpsertSource`: rows in the table's types, each with a
different key. The data is read once, so each execution of the change sees the same rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txlog.core.changes.tasks.operations._numbered_keys import NumberedKeys, index_of
from txlog.core.format.arrow.spill import SpillError, held, no_room
from txlog.core.format.schema import Struct, fold_name, to_arrow
from txlog.core.row_rules import ComputedColumns, KeyColumn, KeyIndex, key_text
from txlog.core.wording import argument, setting
from txlog.core.writing import DataStream, absent_columns, completed, open_data, refuse_unavailable
from txlog.errors import InvalidInputError, SchemaMismatchError

if TYPE_CHECKING:
    from numpy.typing import NDArray

OnDuplicate: TypeAlias = Literal["error", "last", "first"]
"""What to do if two source rows have one key: raise an error, or use the last one."""

MEMORY_MAX_BYTES = 192 << 20
"""Sources larger than this are stored in a temporary file."""


class UpsertSource(msgspec.Struct, frozen=True):
    """``rows`` are in the table's types; ``index`` has their keys; ``num_given`` also counts dropped rows."""

    rows: pa.Table
    index: KeyIndex | NumberedKeys
    num_given: int

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        found: int = self.rows.num_rows
        return found

    def batches(self, is_wanted: NDArray[np.bool_]) -> Iterator[pa.RecordBatch]:
        """The rows that are marked."""
        first = 0
        for batch in self.rows.to_batches(max_chunksize=1 << 17):
            wanted = is_wanted[first : first + batch.num_rows]
            first += batch.num_rows
            if wanted.all():
                yield batch
            elif wanted.any():
                yield batch.filter(pa.array(wanted))


def read_source(
    data: Any,
    schema: Struct,
    keys: Sequence[KeyColumn],
    *,
    on_duplicate: OnDuplicate = "error",
    sequence_by: str | None = None,
    table: str | None = None,
    left_out: Collection[str] = (),
    computed: ComputedColumns | None = None,
    may_lack: bool = False,
) -> UpsertSource:
    """Read ``data`` (anything ``Table.append`` takes), which must have exactly the columns of ``schema``.

    It may also have the columns ``left_out``, which are ignored, and ``sequence_by``, which need not be a column of
    ``schema``, and may lack the generated columns ``computed``. If it ``may_lack`` others, except keys, its rows get
    their defaults, or nulls.

    Raises ``SchemaMismatchError`` naming columns that are missing or do not fit, ``InvalidInputError`` naming a null
    key or a key that two rows have, ``StorageError`` if there is no space for a large source.
    """
    stream = open_data(data)
    if not stream.schema.names:
        stream = DataStream(to_arrow(schema), stream.batches)
    stream = _without(stream, {fold_name(name) for name in left_out})
    beside: list[pa.Array] = []  # a sequence that the table does not store
    if sequence_by is not None and schema.find(sequence_by) is None:
        stream = _with_kept(stream, sequence_by, beside, table)
    require_columns(schema, keys, stream.schema, table, computed, may_lack=may_lack)
    batches = conformed(_available(whole_batches(stream, table)), schema, table, computed)
    rows = stored_rows(batches, to_arrow(schema), table)
    columns = [key.of(rows) for key in keys]
    refuse_null_keys(keys, columns, table)
    index = index_of(keys, columns)
    repeated = index.first_repeated() if isinstance(index, KeyIndex) else None
    if repeated is None or isinstance(index, NumberedKeys):
        return UpsertSource(rows, index, rows.num_rows)
    if on_duplicate == "error":
        raise _one_key(repeated, keys, columns, table)
    if on_duplicate == "first":
        stays = index.last_rows(np.arange(rows.num_rows)[::-1])
    else:
        stays = index.last_rows(None if sequence_by is None else _order_by(rows, sequence_by, beside, table))
    kept = rows.filter(pa.array(stays))
    return UpsertSource(kept, index_of(keys, [key.of(kept) for key in keys]), rows.num_rows)


def _one_key(
    rows: tuple[int, int], keys: Sequence[KeyColumn], columns: Sequence[pa.Array], table: str | None
) -> InvalidInputError:
    first, second = rows
    return InvalidInputError(
        f"rows {first} and {second} of the source (counting from 0) have one key, {key_text(keys, columns, first)}:"
        f" remove one of them, or pass {setting('on_duplicate', 'last')} to use the later one, or the greatest by"
        f" {argument('sequence_by')}",
        table=table,
    )


def _without(stream: DataStream, left_out: Collection[str]) -> DataStream:
    def kept(names: Sequence[str]) -> list[int]:
        return [at for at, name in enumerate(names) if fold_name(name) not in left_out]

    schema = pa.schema([stream.schema.field(at) for at in kept(stream.schema.names)])
    return DataStream(schema, (batch.select(kept(batch.schema.names)) for batch in stream.batches))


def _with_kept(stream: DataStream, name: str, kept: list[pa.Array], table: str | None) -> DataStream:
    """The stream without a column, whose values are kept. Raises ``InvalidInputError`` if it lacks it."""

    def taken(batch: pa.RecordBatch) -> pa.RecordBatch:
        kept.append(batch.column(_place_of(batch.schema.names, name, table)))
        return batch

    _place_of(stream.schema.names, name, table)
    return _without(DataStream(stream.schema, map(taken, stream.batches)), {fold_name(name)})


def _place_of(names: Sequence[str], name: str, table: str | None) -> int:
    at = next((at for at, each in enumerate(names) if fold_name(each) == fold_name(name)), None)
    if at is None:
        raise InvalidInputError(
            f"{argument('sequence_by')} names {name!r}, which the source lacks; it has {', '.join(names)}", table=table
        )
    return at


def _available(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Raises ``InvalidInputError`` for a value that a change did not bring, as Debezium says."""
    first_row = 0
    for batch in batches:
        refuse_unavailable(batch, first_row)
        first_row += batch.num_rows
        yield batch


def whole_batches(stream: DataStream, table: str | None) -> Iterator[pa.RecordBatch]:
    """The batches, all of which have the columns of the first one: a value that a row does not have is not null.

    Raises ``SchemaMismatchError`` naming the columns.
    """
    first = {fold_name(name) for name in stream.schema.names}
    first_row = 0
    for batch in stream.batches:
        names = {fold_name(name) for name in batch.schema.names}
        if names != first:
            raise SchemaMismatchError(
                f"the rows of the source from row {first_row} on (counting from 0) do not have the columns of those"
                f" before: {', '.join(sorted(names ^ first))} {'is' if len(names ^ first) == 1 else 'are'} only in some"
                " rows. The others would get nulls there; upsert rows with other columns in a separate call",
                table=table,
            )
        first_row += batch.num_rows
        yield batch


def _required(schema: Struct, keys: Sequence[KeyColumn], found: pa.Schema) -> Struct:
    """The key columns, and the columns that the source has: these must be whole."""
    names = {fold_name(name) for name in found.names} | {fold_name(key.path[0]) for key in keys}
    return Struct(tuple(field for field in schema.fields if fold_name(field.name) in names))


def conformed(
    batches: Iterator[pa.RecordBatch], schema: Struct, table: str | None, computed: ComputedColumns | None = None
) -> Iterator[pa.RecordBatch]:
    """The batches in exactly the types of ``schema``. Raises ``SchemaMismatchError``, ``InvalidInputError``."""
    first_row = 0
    arrow_schema = to_arrow(schema)
    for batch in batches:
        fitted = completed(schema, batch, computed, table, first_row)
        first_row += batch.num_rows
        yield pa.RecordBatch.from_arrays(fitted.columns, schema=arrow_schema)


def stored_rows(batches: Iterator[pa.RecordBatch], schema: pa.Schema, table: str | None) -> pa.Table:
    """The rows of a source, in memory or in a temporary file. Raises ``StorageError`` if there is no space for them,
    and unchanged what the caller's own iterator raises."""
    try:
        return held(batches, schema, memory_max_bytes=MEMORY_MAX_BYTES)
    except SpillError as error:
        raise no_room("the rows of the source", error, table) from error


def require_columns(
    schema: Struct,
    keys: Sequence[KeyColumn],
    found: pa.Schema,
    table: str | None,
    computed: ComputedColumns | None = None,
    *,
    may_lack: bool = False,
) -> None:
    """Raises ``SchemaMismatchError`` for a missing column that does not follow from the source's columns: it would
    replace values by nulls. If the source ``may_lack`` whole columns, only for a key or for a field of a struct."""
    schema = _required(schema, keys, found) if may_lack else schema
    follows = frozenset() if computed is None else computed.names_from(schema.names)
    absent = [path for path in absent_columns(schema, found) if path not in follows]
    if absent:
        raise SchemaMismatchError(
            f"the source lacks {', '.join(absent)}: an upsert replaces whole rows, and would put nulls there. Add the"
            f" columns, or pass {setting('missing_columns', 'default')}: matched rows keep them, and inserted rows get"
            " their defaults or nulls",
            table=table,
        )


def refuse_null_keys(keys: Sequence[KeyColumn], columns: Sequence[pa.Array], table: str | None) -> None:
    """Raises ``InvalidInputError`` for a source row with a null key."""
    for key, column in zip(keys, columns, strict=True):
        if column.null_count:
            row = int(pc.index(column.is_null(), True).as_py())
            more = f", and in {column.null_count - 1} more" if column.null_count > 1 else ""
            raise InvalidInputError(
                f"key {key.name} is null in row {row} of the source (counting from 0){more}: {key.why_not_null}. Fill"
                " or drop such rows",
                table=table,
            )


def _order_by(rows: pa.Table, name: str, beside: Sequence[pa.Array], table: str | None) -> NDArray[np.int64]:
    """The rows in ascending order of their sequence, a column of them or ``beside`` them; rows with the same sequence
    in order of arrival."""
    column = joined_sequence(beside, name, table) if beside else rows.column(_place_of(rows.schema.names, name, table))
    if column.null_count:
        raise InvalidInputError(
            f"{argument('sequence_by')} column {name} has {column.null_count} nulls, which have no order: fill or"
            " drop those rows",
            table=table,
        )
    ordered = pa.table([column, pa.array(np.arange(len(column)))], names=["sequence", "arrival"])
    try:
        places = pc.sort_indices(ordered, sort_keys=[("sequence", "ascending"), ("arrival", "ascending")])
    except (pa.ArrowException, TypeError) as error:
        raise InvalidInputError(
            f"{argument('sequence_by')} column {name} has no order: {error}", table=table
        ) from error
    found: NDArray[np.int64] = places.to_numpy().astype(np.int64)
    return found


def joined_sequence(parts: Sequence[pa.Array], name: str, table: str | None) -> pa.ChunkedArray:
    """A sequence that the table does not store, in one type. Raises ``InvalidInputError`` if its values have none."""
    try:
        tables = [pa.table({"sequence": each}) for each in parts]
        return pa.concat_tables(tables, promote_options="permissive").column(0)
    except pa.ArrowException as error:
        raise InvalidInputError(
            f"{argument('sequence_by')} column {name} has no order: {error}", table=table
        ) from error
