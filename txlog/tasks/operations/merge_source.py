"""The source of a MERGE: its rows, stored for several passes, and which of them each table row joins.

In: data and a condition on two sides. Out: a `MergeSource`. A join consists of equal key columns, and may have terms on
the table alone. Any other join is refused: it would compare every row with every other.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import txlog.arrow.python_values  # noqa: F401  has pyarrow import pandas
from txlog.arrow.spill import held
from txlog.arrow.taken import joined_rows
from txlog.errors import InvalidInputError, StorageError
from txlog.expressions.evaluate import evaluate
from txlog.expressions.join import JoinCondition, split_join
from txlog.expressions.predicates import Predicate
from txlog.expressions.sql import parse_predicate
from txlog.protocol.defined_table import DefinedTable
from txlog.protocol.schema import Struct, from_arrow, to_arrow, type_to_arrow
from txlog.tasks.operations.upsert_source import MEMORY_MAX_BYTES
from txlog.writer.conform import conformer_for
from txlog.writer.input import DataStream, open_data
from txlog.writer.keys import KeyColumn, KeyIndex, check_key_type, compared_as, key_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["MergeSource", "merge_join", "read_merge_source"]

_PAIRS_AT_ONCE = 1 << 17


class MergeSource(msgspec.Struct, frozen=True, dict=True):
    """``keys`` are the table's key columns. ``index`` has the keys of the source rows ``indexed``, none of them null.

    ``target_term`` is true for table rows that can join; all others match no source row.
    """

    rows: pa.Table
    schema: Struct
    keys: tuple[KeyColumn, ...]
    index: KeyIndex
    indexed: NDArray[np.int64]
    target_term: Predicate | None

    def keys_of(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """The key columns of table rows, in the types used for comparison."""
        return [key.of(batch).cast(type_to_arrow(key.type)) for key in self.keys]

    def rows_of(self, batch: pa.RecordBatch) -> NDArray[np.int64]:
        """The number of the source row that each table row joins: the last of several, -1 for none."""
        found = self.index.source_rows(self.keys_of(batch))
        if self.target_term is not None:
            can_join = pc.fill_null(evaluate(self.target_term, batch), False).to_numpy(zero_copy_only=False)
            found = np.where(can_join, found, -1)
        if len(self.indexed) == self.rows.num_rows:
            return found
        if not len(self.indexed):
            return found
        return np.where(found >= 0, self.indexed[np.maximum(found, 0)], -1)

    def is_matched(self, matched: Sequence[NDArray[np.int64]]) -> NDArray[np.bool_]:
        """Whether each source row joins a table row: all source rows with a key in ``matched`` do."""
        found = np.zeros(self.rows.num_rows, dtype=bool)
        codes = np.zeros(self.index.num_keys, dtype=bool)
        for rows in matched:
            codes[self._codes[rows]] = True
        found[self.indexed] = codes[self.index.code_of_row]
        return found

    def is_repeated(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether other source rows have the key of each of these source rows."""
        if self.index.num_keys == len(self.indexed):
            return np.zeros(len(rows), dtype=bool)
        found: NDArray[np.bool_] = self._counts[self._codes[rows]] > 1
        return found

    def all_of_key(self, rows: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Pairs of a place in ``rows`` and a source row with that row's key, some pairs at a time.

        The pairs of one place are adjacent, in source order. They are made in parts, however many there are.
        """
        codes = self._codes[rows]
        counts = self._counts[codes]
        ends = np.cumsum(counts)
        in_order, first_of_code = self._rows_by_key
        firsts = first_of_code[codes] - (ends - counts)
        for start in range(0, int(ends[-1]) if len(ends) else 0, _PAIRS_AT_ONCE):
            numbers = np.arange(start, min(start + _PAIRS_AT_ONCE, int(ends[-1])))
            places = np.searchsorted(ends, numbers, side="right")
            yield places, in_order[firsts[places] + numbers]

    def key_of(self, row: int) -> str:
        """The key of a source row, for error messages."""
        return key_text(self.keys, self.index.columns, int(self.indexed.searchsorted(row)))

    @functools.cached_property
    def _codes(self) -> NDArray[np.int64]:
        """Each source row's key number; meaningless for a row with a null key."""
        if len(self.indexed) == self.rows.num_rows:
            return self.index.code_of_row
        found = np.zeros(self.rows.num_rows, dtype=np.int64)
        found[self.indexed] = self.index.code_of_row
        return found

    @functools.cached_property
    def _counts(self) -> NDArray[np.int64]:
        """How many source rows have each key."""
        return np.bincount(self.index.code_of_row, minlength=self.index.num_keys)

    @functools.cached_property
    def _rows_by_key(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The source rows with repeated keys, key by key, and the place of each key's first row."""
        is_repeated = self._counts > 1
        at = np.flatnonzero(is_repeated[self.index.code_of_row])
        in_order = at[np.argsort(self.index.code_of_row[at], kind="stable")]
        counts = np.where(is_repeated, self._counts, 0)
        return self.indexed[in_order], np.cumsum(counts) - counts


def read_merge_source(
    data: Any,
    condition: str,
    target: DefinedTable,
    now: datetime.datetime,
    source_alias: str,
    target_alias: str,
    *,
    table: str | None = None,
) -> MergeSource:
    """Read ``data`` (anything ``Table.append`` takes), and join it to the table ``target`` by ``condition``.

    ``table`` is its location, for errors.

    Raises ``InvalidInputError`` unless the condition has only key equalities and terms on the table alone.
    """
    stream = open_data(data)
    schema = from_arrow(stream.schema)
    parts = merge_join(condition, target, schema, now, source_alias, target_alias)
    keys = tuple(KeyColumn(key.target, key.type) for key in parts.keys)
    try:
        rows = held(_conformed(stream, schema, table), to_arrow(schema), memory_max_bytes=MEMORY_MAX_BYTES)
    except OSError as error:
        raise StorageError(f"the source could not be written to a temporary file: {error}", table=table) from error
    columns = [compared_as(KeyColumn(key.source, key.type).of(rows), type_to_arrow(key.type)) for key in parts.keys]
    is_valid = np.ones(rows.num_rows, dtype=bool)
    for column in columns:
        is_valid &= column.is_valid().to_numpy(zero_copy_only=False)
    indexed = np.flatnonzero(is_valid)
    if len(indexed) < rows.num_rows:
        columns = [column.take(pa.array(indexed)) for column in columns]
    return MergeSource(joined_rows(rows), schema, keys, KeyIndex(keys, columns), indexed, parts.target)


def merge_join(
    condition: str, target: DefinedTable, source: Struct, now: datetime.datetime, source_alias: str, target_alias: str
) -> JoinCondition:
    """The condition that joins a source with these columns to the table ``target``, split into its parts.

    Raises ``InvalidInputError`` unless the condition has only key equalities and terms on the table alone.
    """
    if target.schema.find(condition.strip(" `")) is not None:
        name = condition.strip(" `")
        raise InvalidInputError(
            f"the join {condition!r} is a column, not a condition: for rows that are equal in it, give the list"
            f" on=[{name!r}], or write {target_alias}.{name} = {source_alias}.{name}"
        )
    bound = parse_predicate(
        condition, target.schema, source=source, target_alias=target_alias, source_alias=source_alias, now=now
    )
    parts = split_join(bound)
    for why, term in (("reads the source alone", parts.source), ("is not an equality of two columns", parts.residual)):
        if term is not None:
            raise InvalidInputError(
                f"the join's term {term} {why}. A merge joins by equal key columns; besides these, only terms on the"
                " table are allowed: move other conditions into the clauses, or filter the source before the merge"
            )
    if not parts.keys:
        raise InvalidInputError(
            f"the join {condition!r} has no equality of a column of the table with one of the source, such as"
            f" {target_alias}.id = {source_alias}.id"
        )
    for key in parts.keys:
        check_key_type(".".join(key.target), key.type)
    return parts


def _conformed(stream: DataStream, schema: Struct, table: str | None) -> Iterator[pa.RecordBatch]:
    first_row = 0
    arrow_schema = to_arrow(schema)
    for batch in stream.batches:
        fitted = conformer_for(schema, batch.schema, table).conform(batch, first_row)
        first_row += batch.num_rows
        yield pa.RecordBatch.from_arrays(fitted.columns, schema=arrow_schema)
