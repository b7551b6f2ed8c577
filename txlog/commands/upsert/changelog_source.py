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

from txlog.errors import InvalidInputError, SchemaMismatchError
from txlog.protocol.schema import Struct, fold_name, to_arrow
from txlog.tasks.operations.upsert_source import Source, refuse_null_keys, stored_rows
from txlog.util.wording import argument
from txlog.writer.absent_columns import absent_columns
from txlog.writer.changelog.required_values import check_members
from txlog.writer.changelog.row_kinds import DELETE, UPDATE_BEFORE, RowKinds
from txlog.writer.conform import completed, nullable
from txlog.writer.generated_columns import ComputedColumns, generated_of, without_generated
from txlog.writer.input import DataStream, open_data
from txlog.writer.keys import KeyColumn, KeyIndex
from txlog.writer.merge_engines.engine import MergeEngine
from txlog.writer.merge_engines.merge import KeyedRows, check_kinds

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ChangelogSource", "numbered", "read_changelog"]


class ChangelogSource(msgspec.Struct, frozen=True):
    """``changes`` are the rows with their key numbers; ``keys`` has one row for each number, in order."""

    changes: KeyedRows
    keys: Source


def read_changelog(
    data: Any,
    schema: Struct,
    keys: Sequence[KeyColumn],
    engine: MergeEngine,
    *,
    row_kind: str | None = None,
    row_kinds: Mapping[Any, str] | None = None,
    table: str | None = None,
    partition_columns: Sequence[str] = (),
    zone: str,
) -> ChangelogSource:
    """Read ``data``, anything ``Table.append`` takes.

    Raises ``SchemaMismatchError`` naming columns that are missing or do not fit, ``InvalidInputError`` naming a null
    key, an unknown row kind, or a kind that the engine does not take, ``StorageError`` if there is no space for it.
    """
    stream = open_data(data)
    if not stream.schema.names:
        names = to_arrow(schema) if row_kind is None else pa.schema([*to_arrow(schema), (row_kind, pa.string())])
        stream = DataStream(names, stream.batches)
    reader = _Reader(
        schema, row_kind, RowKinds(row_kinds), table, generated_of(schema, table, partition_columns, zone=zone)
    )
    rows = stored_rows(reader.conformed(stream), to_arrow(nullable(schema)), table)
    kinds = reader.kinds()
    if kinds is not None:
        check_kinds(engine, kinds)
    reader.require_columns(stream.schema, keys, engine, kinds)
    refuse_null_keys(keys, [key.of(rows) for key in keys], table)
    return numbered(rows, kinds, keys)


def numbered(rows: pa.Table, kinds: NDArray[np.int8] | None, keys: Sequence[KeyColumn]) -> ChangelogSource:
    """A changelog's rows, in the table's types and without null keys, with their key numbers."""
    index = KeyIndex(keys, [key.of(rows) for key in keys])
    is_last = index.last_rows()
    number = np.zeros(index.num_keys, dtype=np.int64)
    number[index.code_of_row[is_last]] = np.arange(index.num_keys)
    names = list(dict.fromkeys(key.path[0] for key in keys))
    named = rows.select(names).filter(pa.array(is_last))
    source = Source(named, KeyIndex(keys, [key.of(named) for key in keys]), rows.num_rows)
    return ChangelogSource(KeyedRows(rows, number[index.code_of_row], kinds), source)


class _Reader:
    """Takes the row kinds out of the batches, and converts the rest to the table's types."""

    def __init__(
        self,
        schema: Struct,
        row_kind: str | None,
        kinds: RowKinds,
        table: str | None,
        generated: ComputedColumns | None,
    ) -> None:
        self._schema = schema
        self._fitted = nullable(schema)
        self._generated = generated
        self._row_kind = row_kind
        self._kinds = kinds
        self._table = table
        self._found: list[NDArray[np.int8]] = []

    def conformed(self, stream: DataStream) -> Iterator[pa.RecordBatch]:
        arrow_schema = to_arrow(self._fitted)
        first_row = 0
        for batch in stream.batches:
            rows = self._without_kinds(batch, first_row)
            are_new = self._are_new(batch.num_rows)
            fitted = completed(self._fitted, rows, self._generated, self._table, first_row, are_new)
            check_members(self._schema, fitted, are_new, first_row)
            first_row += batch.num_rows
            yield pa.RecordBatch.from_arrays(fitted.columns, schema=arrow_schema)

    def _without_kinds(self, batch: pa.RecordBatch, first_row: int) -> pa.RecordBatch:
        name = self._row_kind
        if name is None:
            return batch
        at = next((at for at, each in enumerate(batch.schema.names) if fold_name(each) == fold_name(name)), None)
        if at is None:
            raise InvalidInputError(
                f"{argument('row_kind')} names {name!r}, which the source lacks; it has"
                f" {', '.join(batch.schema.names)}",
                table=self._table,
            )
        self._found.append(self._kinds.of(batch.column(at), name, first_row))
        if self._schema.find(name) is not None:
            return batch
        return batch.select([other for other in range(batch.num_columns) if other != at])

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

    def require_columns(
        self, found: pa.Schema, keys: Sequence[KeyColumn], engine: MergeEngine, kinds: NDArray[np.int8] | None
    ) -> None:
        """Refuse a source that lacks columns, unless these columns keep their values, or all rows are deletes."""
        absent = absent_columns(without_generated(self._schema), found)
        of_key = [path for path in absent if any(f"{key.name}.".startswith(f"{path}.") for key in keys)]
        only_deletes = kinds is not None and bool(len(kinds)) and bool((kinds == DELETE).all())
        if of_key or (absent and engine.name != "partial-update" and not only_deletes):
            raise SchemaMismatchError(
                f"the source lacks {', '.join(of_key or absent)}"
                + ("" if of_key else f": merge-engine {engine.name} would put nulls there; partial-update would not"),
                table=self._table,
            )
