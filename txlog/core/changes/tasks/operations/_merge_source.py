"""The source of a MERGE: its rows, stored for several passes, and which of them each table row joins.

In: data and a condition on two sides. Out: a `MergeSource`. Rows with equal keys are found by hashing. Other terms are
evaluated for pairs of rows: those with equal keys or, without keys, those in the range of each other (`_merge_ranges`).
Without either, every row is compared with every other.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import txlog.core.format.arrow.python_values  # noqa: F401  has pyarrow import pandas
from txlog.core.changes.tasks.operations._merge_ranges import Pairs, RangeSearch, SortedSide, slice_pairs
from txlog.core.changes.tasks.operations._upsert_source import conformed, stored_rows, whole_batches
from txlog.core.format.arrow.arrays import absent, flags_of, joined_chunks
from txlog.core.format.arrow.take_rows import joined_rows, taken_batches
from txlog.core.format.arrow.wide_years import is_beyond_python
from txlog.core.format.defined_table import DefinedTable
from txlog.core.format.properties import path_text
from txlog.core.format.schema import DataType, Struct, from_arrow, to_arrow, type_to_arrow
from txlog.core.predicates import (
    AnyCondition,
    JoinCondition,
    JoinKey,
    JoinRange,
    balanced,
    bind_predicate,
    evaluate,
    path_of,
    split_join,
)
from txlog.core.predicates.skipping import key_range
from txlog.core.predicates.terms.predicate import And, Comparison, Constant, Predicate, bind
from txlog.core.predicates.terms.tree import Expression, Path, Side, columns_of
from txlog.core.row_rules import KeyColumn, KeyIndex, compared_as, key_text
from txlog.core.util import cached_property, logger
from txlog.core.writing import idle_as_null, open_data
from txlog.errors import InvalidInputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

PAIRS_AT_ONCE = 1 << 17
_MANY_ROWS = 1000


class ComputedKey(msgspec.Struct, frozen=True):
    """A key of the source that is computed from its columns. It takes the place of a `KeyColumn`."""

    value: Expression
    type: DataType

    def of(self, rows: pa.RecordBatch) -> pa.Array:
        """The key of each row."""
        return evaluate(self.value, None, rows)


class MergeSource(msgspec.Struct, frozen=True, dict=True):
    """``keys`` are the table's key columns, the first ones of ``index``; after them it has the ``computed`` keys.

    ``index`` has the keys of the source rows ``indexed``. Those can join: none of their keys is null, and the terms on
    the source alone are true. It is None for a join without keys. ``target_term`` is true for rows of the
    table that can join. ``residual`` is evaluated for each pair of such rows that have the same keys.
    """

    rows: pa.Table
    schema: Struct
    keys: tuple[KeyColumn, ...]
    computed: tuple[JoinKey, ...]
    index: KeyIndex | None
    indexed: NDArray[np.int64]
    target_term: Predicate | None
    residual: Predicate | None
    ranges: tuple[JoinRange, ...]

    @property
    def is_by_keys(self) -> bool:
        """Whether every source row with the keys of a row of the table joins it."""
        return self.index is not None and self.residual is None

    @property
    def key_values(self) -> tuple[pa.Array, ...]:
        """The values of ``keys`` that the source has, of the rows ``indexed``."""
        return () if self.index is None else self.index.columns[: len(self.keys)]

    @cached_property
    def target_columns(self) -> frozenset[str]:
        """The columns of the table that decide which source rows join a row of it."""
        computed = [key.target for key in self.computed]
        read = [each for each in (*computed, self.target_term, self.residual) if each is not None]
        named = {path[0] for each in read for side, path in columns_of(each) if side == "target"}
        return frozenset(named | {key.path[0] for key in self.keys})

    def keys_of(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """The keys of rows of the table, in the types in which they are compared."""
        columns = [key.of(batch).cast(type_to_arrow(key.type)) for key in self.keys]
        return columns + [evaluate(key.target, batch) for key in self.computed]

    def rows_of(self, batch: pa.RecordBatch) -> NDArray[np.int64]:
        """The number of a source row that has the keys of each row of the table: the last one of several, -1 for
        none."""
        assert self.index is not None
        found = self.index.source_rows(self.keys_of(batch))
        if self.target_term is not None:
            found = np.where(flags_of(evaluate(self.target_term, batch)), found, -1)
        if len(self.indexed) == self.rows.num_rows or not len(self.indexed):
            return found
        return np.where(found >= 0, self.indexed[np.maximum(found, 0)], -1)

    def pairs_of(self, batch: pa.RecordBatch, pairs_max: int) -> Pairs:
        """Every pair of a row of ``batch`` and a source row that it joins, ordered by row, then by source row.

        Raises ``InvalidInputError`` for more than ``pairs_max`` pairs.
        """
        rows, source_rows = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        left = pairs_max
        for places, sources in self._same_keys(batch) if self.index is not None else self._in_ranges(batch):
            joins = self._joins(batch, places, sources)
            rows.append(places[joins])
            source_rows.append(sources[joins])
            left -= len(rows[-1])
            if left < 0:
                raise InvalidInputError(
                    "too many pairs of rows satisfy the join of the merge to be kept in memory. Let the join have a"
                    " narrower condition, or give the source fewer rows"
                )
        found = np.concatenate(rows), np.concatenate(source_rows)
        order = np.lexsort((found[1], found[0]))
        return found[0][order], found[1][order]

    def _same_keys(self, batch: pa.RecordBatch) -> Iterator[Pairs]:
        found = self.rows_of(batch)
        at = np.flatnonzero(found >= 0)
        is_repeated = self.is_repeated(found[at])
        single, several = at[~is_repeated], at[is_repeated]
        for start in range(0, len(single), PAIRS_AT_ONCE):
            here = single[start : start + PAIRS_AT_ONCE]
            yield here, found[here]
        for places, sources in self.all_of_key(found[several]):
            yield several[places], sources

    def _in_ranges(self, batch: pa.RecordBatch) -> Iterator[Pairs]:
        """Pairs of all rows that can join, without those that a range excludes."""
        rows = np.arange(batch.num_rows)
        if self.target_term is not None:
            rows = np.flatnonzero(flags_of(evaluate(self.target_term, batch)))
        if not len(rows) or not len(self.indexed):
            return
        search = self._search
        if search is None:
            begins = np.zeros(len(rows), np.int64)
            yield from slice_pairs(rows, self.indexed, begins, begins + len(self.indexed))
        elif search.side == "source":
            lows, highs = search.found(self._sorted_source, lambda value: _of_rows(evaluate(value, batch), rows))
            yield from slice_pairs(rows, self._sorted_source.rows, lows, highs)
        else:
            ordered = SortedSide.of(_of_rows(evaluate(search.value, batch), rows), rows)
            lows, highs = search.found(ordered, self._of_indexed)
            for sources, places in slice_pairs(self.indexed, ordered.rows, lows, highs):
                yield places, sources

    def _joins(
        self, batch: pa.RecordBatch, rows: NDArray[np.int64], source_rows: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Which of these pairs satisfy the terms that read both sides."""
        joins = np.ones(len(rows), dtype=bool)
        if self.residual is None or not len(rows):
            return joins
        read = columns_of(self.residual)
        target = batch.select([name for name in batch.schema.names if ("target", name) in _tops(read)])
        source = self.rows.select([name for name in self.rows.schema.names if ("source", name) in _tops(read)])
        for first, there in taken_batches(source, source_rows):
            here = slice(first, first + there.num_rows)
            joins[here] = flags_of(evaluate(self.residual, target.take(pa.array(rows[here])), there))
        return joins

    @property
    def compares_all_pairs(self) -> bool:
        """Whether nothing but the terms on one side alone limits the pairs of rows that are compared."""
        return self.index is None and self.residual is not None and self._search is None

    def condition_on_target(self, schema: Struct) -> Predicate | None:
        """A condition that every row of the table that joins a source row satisfies; None if there is none."""
        if not len(self.indexed):
            return Constant(False)
        found = [] if self.target_term is None else [self.target_term]
        within = key_range([key.path for key in self.keys], self.key_values, schema)
        found += [within] if within is not None else []
        for each in self.ranges:
            found += self._bound(each, schema)
        return balanced(found, And) if found else None

    def _bound(self, join: JoinRange, schema: Struct) -> list[Predicate]:
        """What ``target operator source`` says of a column of the table, given the least and greatest source value."""
        path = path_of(join.target)
        if path is None:
            return []
        values = self._of_indexed(join.source)
        if pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py():
            return []
        ends = pc.min_max(values)
        if not ends["min"].is_valid:
            return [Constant(False)]
        operators = {"=": (">=", "<="), ">": (">",), ">=": (">=",), "<": ("<",), "<=": ("<=",)}[join.operator]
        bounds = ((operator, ends["min" if operator in (">", ">=") else "max"]) for operator in operators)
        known = ((operator, end.as_py()) for operator, end in bounds if not is_beyond_python(end))
        return [bind(Comparison(path, operator, value), schema) for operator, value in known]

    @cached_property
    def _search(self) -> RangeSearch | None:
        return RangeSearch.best(self.ranges)

    @cached_property
    def _sorted_source(self) -> SortedSide:
        assert self._search is not None
        return SortedSide.of(self._of_indexed(self._search.value), self.indexed)

    def _of_indexed(self, value: Expression) -> pa.Array:
        """The values of the rows ``indexed`` on the source's side of a range, computed once for all files."""
        known = self._range_values
        if value not in known:
            known[value] = _of_rows(_values_of(value, self.rows), self.indexed)
        return known[value]

    @cached_property
    def _range_values(self) -> dict[Expression, pa.Array]:
        return {}

    def is_matched(self, matched: Sequence[NDArray[np.int64]]) -> NDArray[np.bool_]:
        """Whether each source row joins a row of the table, given the source rows ``matched`` by such rows: where keys
        alone decide, any one of those with the key of each row; otherwise all of them."""
        found = np.zeros(self.rows.num_rows, dtype=bool)
        if not self.is_by_keys:
            for rows in matched:
                found[rows] = True
            return found
        assert self.index is not None
        codes = np.zeros(self.index.num_keys, dtype=bool)
        for rows in matched:
            codes[self._codes[rows]] = True
        found[self.indexed] = codes[self.index.code_of_row]
        return found

    def is_repeated(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether other source rows have the key of each of these source rows."""
        assert self.index is not None
        if self.index.num_keys == len(self.indexed):
            return np.zeros(len(rows), dtype=bool)
        found: NDArray[np.bool_] = self._counts[self._codes[rows]] > 1
        return found

    def all_of_key(self, rows: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Pairs of a place in ``rows`` and a source row with that row's key, some pairs at a time.

        The pairs of one place are adjacent, in source order. They are made in parts, however many there are.
        """
        codes = self._codes[rows]
        in_order, first_of_code = self._rows_by_key
        begins = first_of_code[codes]
        return slice_pairs(np.arange(len(rows)), in_order, begins, begins + self._counts[codes])

    def key_of(self, row: int) -> str:
        """The key of a source row, for error messages; its number if the join has no keys."""
        if self.index is None:
            return f"source row {row}, counting from 0"
        return key_text(self.index.keys, self.index.columns, int(self.indexed.searchsorted(row)))

    @cached_property
    def _codes(self) -> NDArray[np.int64]:
        """Each source row's key number; meaningless for a row with a null key."""
        assert self.index is not None
        if len(self.indexed) == self.rows.num_rows:
            return self.index.code_of_row
        found = np.zeros(self.rows.num_rows, dtype=np.int64)
        found[self.indexed] = self.index.code_of_row
        return found

    @cached_property
    def _counts(self) -> NDArray[np.int64]:
        """How many source rows have each key."""
        assert self.index is not None
        return np.bincount(self.index.code_of_row, minlength=self.index.num_keys)

    @cached_property
    def _rows_by_key(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The source rows with repeated keys, key by key, and the place of each key's first row."""
        assert self.index is not None
        is_repeated = self._counts > 1
        at = np.flatnonzero(is_repeated[self.index.code_of_row])
        in_order = at[np.argsort(self.index.code_of_row[at], kind="stable")]
        counts = np.where(is_repeated, self._counts, 0)
        return self.indexed[in_order], np.cumsum(counts) - counts


def read_merge_source(
    data: Any,
    condition: AnyCondition,
    target: DefinedTable,
    now: datetime.datetime,
    source_alias: str,
    target_alias: str,
    *,
    table: str | None = None,
) -> MergeSource:
    """Read ``data`` (anything ``Table.append`` takes), and join it to the table ``target`` by ``condition``.

    ``table`` is its location, for errors.

    Raises ``InvalidInputError`` for a text that is no condition on the two, and for a source value that it cannot be
    computed for.
    """
    stream = open_data(data)
    schema = from_arrow(stream.schema)
    parts = merge_join(condition, target, schema, now, source_alias, target_alias)
    rows = stored_rows(conformed(whole_batches(stream, table), schema, table), to_arrow(schema), table)
    if (fitted := _idle_as_null(target.schema, rows)) is not rows:
        rows, schema = fitted, from_arrow(fitted.schema)
        parts = merge_join(condition, target, schema, now, source_alias, target_alias)
    indexed, columns = _rows_to_match(rows, parts)
    keys = [KeyColumn(key.target_path or (str(key.target),), key.type) for key in parts.keys]
    plain = tuple(key for key, part in zip(keys, parts.keys, strict=True) if part.target_path is not None)
    found = MergeSource(
        joined_rows(rows),
        schema,
        plain,
        parts.keys[len(plain) :],
        KeyIndex(keys, columns) if keys else None,
        indexed,
        parts.target,
        parts.residual,
        parts.ranges,
    )
    if found.compares_all_pairs and len(indexed) >= _MANY_ROWS:
        logger.warning(
            "%s: the merge's join %r has no equality or range to search by, so every row of the table is compared with"
            " each of %d source rows",
            table,
            condition,
            len(indexed),
        )
    return found


def _rows_to_match(rows: pa.Table, parts: JoinCondition) -> tuple[NDArray[np.intp], list[pa.Array]]:
    """The source rows that can match a row of the table, and their keys: those of which the join's condition on the
    source holds, and no key is null."""
    indexed, given = np.arange(rows.num_rows), rows
    if parts.source is not None:
        is_joined = np.concatenate(
            [np.empty(0, bool), *(flags_of(evaluate(parts.source, None, batch)) for batch in rows.to_batches())]
        )
        indexed, given = np.flatnonzero(is_joined), rows.filter(pa.array(is_joined))
    columns = [compared_as(_values_of(key.source, given), type_to_arrow(key.type)) for key in parts.keys]
    is_valid = np.ones(len(indexed), dtype=bool)
    for column in columns:
        is_valid &= column.is_valid().to_numpy(zero_copy_only=False)
    if not is_valid.all():
        at = np.flatnonzero(is_valid)
        indexed, columns = indexed[at], [column.take(pa.array(at)) for column in columns]
    return indexed, columns


def _idle_as_null(target: Struct, rows: pa.Table) -> pa.Table:
    """The rows, with columns without a value in the types of the table's columns of those names."""
    idle = [
        name for name, column in zip(rows.schema.names, rows.columns, strict=True) if column.null_count == len(column)
    ]
    if not idle:
        return rows
    one = [absent(1, rows.schema.field(name).type) for name in idle]
    for field in idle_as_null(target, pa.RecordBatch.from_arrays(one, idle)).schema:
        if rows.schema.field(field.name).type != field.type:
            at = rows.schema.get_field_index(field.name)
            rows = rows.set_column(at, field, absent(rows.num_rows, field.type))
    return rows


def merge_join(
    condition: AnyCondition,
    target: DefinedTable,
    source: Struct,
    now: datetime.datetime,
    source_alias: str,
    target_alias: str,
) -> JoinCondition:
    """The condition that joins a source with these columns to the table ``target``, split into its parts.

    Raises ``InvalidInputError`` for a text that is no condition on these columns.
    """
    name = "" if isinstance(condition, Predicate) else str(condition).strip(" `")
    if target.schema.find(name) is not None:
        raise InvalidInputError(
            f"the join {condition!r} is a column, not a condition: for rows that are equal in it, give the list"
            f" on=[{name!r}], or write {path_text((target_alias, name))} = {path_text((source_alias, name))}"
        )
    bound = bind_predicate(
        condition,
        target.schema,
        zone=target.time_zone,
        source=source,
        target_alias=target_alias,
        source_alias=source_alias,
        now=now,
    )
    return split_join(bound)


def _values_of(value: Expression, rows: pa.Table) -> pa.Array:
    """The values of source rows, as one array; more text than a string array holds comes as ``large_string``."""
    kind = type_to_arrow(value.type)
    return joined_chunks(pa.chunked_array([evaluate(value, None, batch) for batch in rows.to_batches()], kind))


def _tops(columns: Iterable[tuple[Side, Path]]) -> set[tuple[Side, str]]:
    return {(side, path[0]) for side, path in columns}


def _of_rows(column: pa.Array, rows: NDArray[np.int64]) -> pa.Array:
    return column.take(pa.array(rows))
