"""Prunes many files at a time: the decision of ``_one_file`` for each, computed by columns.

In: a predicate and the files of a table, as Arrow columns. Out: a mask, False exactly if the rule for one file finds
that no row can match. Partition values are decided once for each combination, statistics as columns of bounds. If
Arrow's JSON reader might read a value differently than Python, the file is decided by itself. Row groups of a
checkpoint are decided by their footers. PROTOCOL.md, "Per-file Statistics".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txlog.core.format.arrow.arrays import array_of, flags_of, from_flags, from_numbers, numbers_of, partition_texts
from txlog.core.format.schema import STRING, Struct
from txlog.core.predicates.skipping._bounds_columns import (
    BoundsColumns,
    ColumnBounds,
    ColumnLeaf,
    Mask,
    bounds_of_struct,
    bounds_of_text,
    leaves_of,
)
from txlog.core.predicates.skipping._one_file import ColumnFacts, Pruner, possible
from txlog.core.predicates.terms.predicate import (
    And,
    Comparison,
    Constant,
    ExcludesNothing,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    StartsWith,
)
from txlog.core.predicates.terms.tree import Path
from txlog.core.predicates.terms.values import beside
from txlog.core.util import cached_property

if TYPE_CHECKING:
    from txlog.core.util import Apply

_SLICE_ROWS = 16_384
_SLICE_ROWS_MIN = 64
SINGLE_ROWS = 32  # fewer rows are decided faster one by one than by columns
_FEW_VALUES = 8

Possible: TypeAlias = "tuple[Mask, Mask]"


def prune_files(
    files: pa.Table, predicate: Predicate, schema: Struct, partition_columns: tuple[str, ...], apply: Apply = map
) -> pa.BooleanArray:
    """A mask over a table of files (columns ``partitionValues`` and ``stats``): True where a row may match.

    ``predicate`` is bound to the schema. ``apply`` maps over the table's batches.
    """
    return from_flags(FilePruner(Pruner(predicate, schema, partition_columns)).mask_of_table(files, apply))


class Partition(msgspec.Struct, frozen=True):
    """Partition values of some files: a code for each file, and what is known for each code, by column."""

    codes: Any
    facts: Sequence[Mapping[Path, ColumnFacts]]
    values: Sequence[Mapping[str, str | None]]


class FilePruner:
    """The rule for one file, prepared for columns of files."""

    def __init__(self, pruner: Pruner) -> None:
        self._pruner = pruner
        self.schema = self._pruner.schema
        self.partition_columns = self._pruner.partition_columns
        self.only_partition_column = pruner.only_partition_column
        self.needs_statistics = self._pruner.needs_statistics
        self._facts: dict[tuple[tuple[str, str | None], ...], Mapping[Path, ColumnFacts]] = {}

    @cached_property
    def leaves(self) -> tuple[ColumnLeaf, ...]:
        """The columns whose bounds decide, of more files than are decided one by one."""
        paths = frozenset(path for path in self._pruner.paths if path[0] not in self.partition_columns)
        return leaves_of(self._pruner.schema, paths)

    def mask_of_table(self, files: pa.Table, apply: Apply = map) -> Mask:
        """`mask` of a table of files in batches; ``apply`` maps over these."""
        masks = apply(self.mask, files.select(["partitionValues", "stats"]).to_batches())
        return np.concatenate([np.zeros(0, bool), *masks])

    def mask(self, files: pa.RecordBatch) -> Mask:
        """True for each file (columns ``partitionValues`` and ``stats``) that may hold a matching row."""
        maps = files.column("partitionValues")
        if len(maps) <= SINGLE_ROWS:
            return self._one_by_one(map(dict, maps.to_pylist()), files.column("stats"))
        partition, verdict = self._by_partition(maps)
        if self.needs_statistics:
            rows = np.flatnonzero(verdict)
            texts = self._with_parts(_taken(files.column("stats"), rows))
            verdict[rows] = self._by_text(texts, partition, partition.codes[rows])
        return verdict

    def mask_of_partitions(self, maps: pa.MapArray) -> Mask:
        """The same from partition values alone."""
        return self._by_partition(maps)[1]

    def mask_of_struct(self, maps: pa.MapArray, parsed: pa.StructArray) -> Mask:
        """The same from partition values and ``stats_parsed``; a file without the latter passes."""
        partition, verdict = self._by_partition(maps)
        bounds = bounds_of_struct(parsed, self.leaves)
        by_statistics = self._judge(bounds, partition, partition.codes)
        verdict &= by_statistics | flags_of(parsed.is_null())
        return verdict

    def facts_of_texts(self, low: str, high: str, *, is_whole: bool) -> Mapping[Path, ColumnFacts]:
        """The facts for the only partition column, if the texts of its values are between ``low`` and ``high``.

        Without ``is_whole`` the two may be truncated. Only strings sort like their texts.
        """
        name = self.only_partition_column
        if name is None:
            return {}
        if low == high and is_whole:
            return self._pruner.partition_facts({name: low})
        return {(name,): ColumnFacts(low, high)} if self._pruner.partition_type(name) == STRING else {}

    def may_match_any(self, facts: Mapping[Path, ColumnFacts]) -> bool:
        """Whether some file may match, given facts that hold for all of many files."""
        return self._pruner.is_possible(facts)

    # --- partition values ---------------------------------------------------------------------------------------

    def _by_partition(self, maps: pa.MapArray) -> tuple[Partition, Mask]:
        """Number the combinations of values, column by column, so that each is decided once."""
        codes = np.zeros(len(maps), dtype=np.int64)
        combinations: list[dict[str, str | None]] = [{}]
        for name in self.partition_columns:
            texts, absent = partition_texts(maps, name)
            encoded = texts.dictionary_encode(null_encoding="encode")
            values = encoded.dictionary.to_pylist()
            own = numbers_of(encoded.indices).astype(np.int64)
            if absent is not None:
                own[absent] = len(values)
            if name == self.partition_columns[0]:
                combinations = [{name: value} for value in values] + [{}]
                codes = own
                continue
            pairs, codes = np.unique(codes * (len(values) + 1) + own, return_inverse=True)
            combinations = [
                combinations[pair // (len(values) + 1)]
                | ({name: values[at]} if (at := pair % (len(values) + 1)) < len(values) else {})
                for pair in pairs.tolist()
            ]
        verdicts = np.array([self._pruner.partition_may_match(each) for each in combinations], dtype=bool)
        facts = [self._facts_of(each) for each in combinations] if self.needs_statistics else []
        return Partition(codes, facts, combinations), verdicts[codes]

    def _facts_of(self, values: Mapping[str, str | None]) -> Mapping[Path, ColumnFacts]:
        """`Pruner.partition_facts`, cached: each batch has the same few partitions."""
        key = tuple(values.items())
        found = self._facts.get(key)
        if found is None:
            found = self._facts[key] = self._pruner.partition_facts(values)
        return found

    # --- statistics ---------------------------------------------------------------------------------------------

    def _with_parts(self, texts: pa.StringArray) -> pa.StringArray:
        if not self._pruner.has_parts:
            return texts
        return array_of([self._pruner.with_parts(text) for text in texts.to_pylist()], pa.string())

    def _by_text(self, texts: pa.StringArray, partition: Partition, codes: Any) -> Mask:
        verdict = np.ones(len(texts), dtype=bool)
        present = np.flatnonzero(flags_of(texts.is_valid()))
        texts, codes = _taken(texts, present), codes[present]
        found = [
            self._by_slice(texts.slice(start, _SLICE_ROWS), partition, codes[start : start + _SLICE_ROWS])
            for start in range(0, len(texts), _SLICE_ROWS)
        ]
        verdict[present] = np.concatenate(found) if found else np.zeros(0, dtype=bool)
        return verdict

    def _by_slice(self, texts: pa.StringArray, partition: Partition, codes: Any) -> Mask:
        """Decide all texts at once; if Arrow refuses one, decide ever smaller pieces around it."""
        of_each = (partition.values[code] for code in codes.tolist())
        if len(texts) <= SINGLE_ROWS:
            return self._one_by_one(of_each, texts)
        try:
            bounds = bounds_of_text(texts, self.leaves)
        except (pa.ArrowException, ValueError):
            if len(texts) <= _SLICE_ROWS_MIN:
                return self._one_by_one(of_each, texts)
            step = -(-len(texts) // 8)
            starts = range(0, len(texts), step)
            return np.concatenate(
                [self._by_slice(texts.slice(at, step), partition, codes[at : at + step]) for at in starts]
            )
        verdict = self._judge(bounds, partition, codes)
        odd = np.flatnonzero(bounds.odd)
        if len(odd):
            verdict[odd] = self._one_by_one(
                map(partition.values.__getitem__, codes[odd].tolist()), texts.take(from_numbers(odd))
            )
        return verdict

    def _one_by_one(self, values: Iterable[Mapping[str, str | None]], texts: pa.StringArray) -> Mask:
        judged = map(self._pruner.may_match, values, texts.to_pylist())
        return np.fromiter(judged, dtype=bool, count=len(texts))

    def _judge(self, bounds: BoundsColumns, partition: Partition, codes: Any) -> Mask:
        """`Pruner.is_possible` over columns; also requires at least one row."""
        judge = _Judge(bounds, frozenset((name,) for name in self.partition_columns), partition, codes)
        return judge.possible(self._pruner.predicate)[0] & ~bounds.empty


class _Judge(msgspec.Struct, frozen=True):
    """`one_file.possible` over columns: whether some row of each file may make the predicate (true, false)."""

    bounds: BoundsColumns
    partition_paths: frozenset[Path]
    partition: Partition
    codes: Any

    def possible(self, predicate: Predicate) -> Possible:
        match predicate:
            case And(left, right):
                (left_true, left_false), (right_true, right_false) = self.possible(left), self.possible(right)
                return left_true & right_true, left_false | right_false
            case Or(left, right):
                (left_true, left_false), (right_true, right_false) = self.possible(left), self.possible(right)
                return left_true | right_true, left_false & right_false
            case Not(operand):
                may_be_true, may_be_false = self.possible(operand)
                return may_be_false, may_be_true
            case Constant(value):
                return self._all(value is True), self._all(value is False)
            case ExcludesNothing():
                return self._all(True), self._all(True)
            case Comparison(path) | In(path) | StartsWith(path) | IsNull(path):
                return self._of_column(predicate, path)
        raise TypeError(f"not a predicate: {predicate!r}")

    def _of_column(self, predicate: Predicate, path: Path) -> Possible:
        if path in self.partition_paths:
            each = np.array([possible(predicate, facts) for facts in self.partition.facts], dtype=bool)
            return each[self.codes, 0], each[self.codes, 1]
        known = self.bounds.columns.get(path)
        if known is None:
            may_be_true, may_be_false = possible(predicate, {})
            return self._all(may_be_true), self._all(may_be_false)
        match predicate:
            case Comparison(_, operator, value):
                return self._seen(known, _compared(known, operator, value, self._all(True)))
            case In(_, values, has_null):
                found_true, found_false = self._seen(known, _among(known, values, self._all(True)))
                return found_true, found_false & self._all(not has_null)
            case StartsWith(_, prefix):
                return self._seen(known, _prefixed(known, prefix, self._all(True)))
        return known.may_be_null, known.may_be_value

    def _seen(self, known: ColumnBounds, found: Possible) -> Possible:
        return found[0] & known.may_be_value, found[1] & known.may_be_value

    def _all(self, value: bool) -> Mask:
        return np.full(len(self.codes), value, dtype=bool)


def _taken(texts: pa.StringArray, rows: Any) -> pa.StringArray:
    """The rows at these ascending indices; without a copy if these are all rows."""
    return texts if len(rows) == len(texts) else texts.take(from_numbers(rows))


# --- comparing columns of bounds ----------------------------------------------------------------------------------


def _compared(known: ColumnBounds, operator: str, value: Any, every: Mask) -> Possible:
    below, low_reaches = _low_against(known.low, value, every)
    above, high_reaches = _high_against(known.high, value, every)
    match operator:
        case "<":
            return below, high_reaches
        case "<=":
            return low_reaches, above
        case ">":
            return above, low_reaches
        case ">=":
            return high_reaches, below
        case "=":
            return low_reaches & high_reaches, below | above
    return below | above, low_reaches & high_reaches


def _low_against(low: pa.Array | None, value: Any, every: Mask) -> Possible:
    """Whether the least value may be (below the literal, at or below it); NaN is above all."""
    if low is None or value != value:
        return every, every
    literal = _literal(value, low.type, above=True)
    return _or_unknown(pc.less(low, literal)), _or_unknown(pc.less_equal(low, literal))


def _high_against(high: pa.Array | None, value: Any, every: Mask) -> Possible:
    """Whether the greatest value may be (above the literal, at or above it)."""
    if high is None:
        return every, every
    if value != value:
        unknown: Mask = flags_of(high.is_null())
        return unknown, unknown
    literal = _literal(value, high.type, above=False)
    return _or_unknown(pc.greater(high, literal)), _or_unknown(pc.greater_equal(high, literal))


def _among(known: ColumnBounds, values: Sequence[Any], every: Mask) -> Possible:
    numbers = sorted(value for value in values if value == value)
    if len(numbers) <= _FEW_VALUES or not _is_searchable(known):
        chosen: Sequence[Any] = values
        may_be_true, may_be_false = ~every, every
    else:
        chosen = [value for value in values if value != value]
        may_be_true, may_be_false = _among_sorted(known, np.array(numbers))
    for value in chosen:
        is_true, is_false = _compared(known, "=", value, every)
        may_be_true, may_be_false = may_be_true | is_true, may_be_false & is_false
    return may_be_true, may_be_false


def _is_searchable(known: ColumnBounds) -> bool:
    return known.low is not None and known.high is not None and known.low.type in (pa.int64(), pa.float64())


def _among_sorted(known: ColumnBounds, values: Any) -> Possible:
    """Whether a listed value may occur, and whether an unlisted one may: not if low and high are one listed value."""
    assert known.low is not None
    assert known.high is not None
    low, no_low = _numbers(known.low)
    high, no_high = _numbers(known.high)
    from_low = np.where(no_low, 0, np.searchsorted(values, low, side="left"))
    to_high = np.where(no_high, len(values), np.searchsorted(values, high, side="right"))
    # A value differs from both bounds unless low >= value >= high, which is: low == value == high.
    from_high = np.searchsorted(values, high, side="left")
    to_low = np.searchsorted(values, low, side="right")
    only = ~no_low & ~no_high & (to_low > from_high)
    return to_high > from_low, ~only


def _numbers(column: pa.Array) -> tuple[Any, Mask]:
    absent: Mask = flags_of(column.is_null())
    return np.where(absent, 0, numbers_of(column)), absent


def _prefixed(known: ColumnBounds, prefix: str, every: Mask) -> Possible:
    if known.low is None or known.high is None:
        return every, every
    low, high = known.low, known.high
    literal = array_of([prefix], pa.string())[0]
    starts_after = flags_of(pc.greater(pc.utf8_slice_codeunits(low, 0, len(prefix)), literal))
    ends_before = flags_of(pc.less(high, literal))
    within = flags_of(pc.and_(pc.starts_with(low, prefix), pc.starts_with(high, prefix)))
    return ~(starts_after | ends_before), ~within


def _or_unknown(verdicts: pa.BooleanArray) -> Mask:
    """True where the bound is unknown: any value is possible there."""
    return flags_of(verdicts) | flags_of(verdicts.is_null())


def _literal(value: Any, kind: pa.DataType, *, above: bool) -> pa.Scalar:
    if pa.types.is_decimal(kind):
        value = beside(value, kind.precision, kind.scale, above=above)
    return array_of([int(value) if pa.types.is_uint8(kind) else value], kind)[0]
