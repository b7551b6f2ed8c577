"""Which data files may hold one of many keys, by partition values and statistics.

In: key columns with the wanted values, and what the log knows about files. Out: False only if no row of a file can have
one of them: each key column excludes by itself. A null matches nothing. All files are judged together: their bounds are
searched for in the sorted values.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txlog.core.format.arrow.arrays import flags_of, numbers_of
from txlog.core.format.arrow.wide_years import is_beyond_python
from txlog.core.format.column_mapping import physical_path
from txlog.core.format.schema import Struct
from txlog.core.predicates.skipping._bounds_columns import BoundsColumns, ColumnBounds, Mask
from txlog.core.predicates.skipping._many_files import FilePruner, Partition
from txlog.core.predicates.skipping._one_file import ColumnFacts, Pruner
from txlog.core.predicates.terms.predicate import And, Comparison, IsNull, Predicate, bind
from txlog.core.predicates.terms.tree import Path
from txlog.core.predicates.terms.values import beside

if TYPE_CHECKING:
    from numpy.typing import NDArray

_UNKNOWN = ColumnFacts()

SortedValues: TypeAlias = "NDArray[Any]"
"""Distinct values of a key column, ascending: 64-bit integers, or Python's strings or decimals."""


class KeyRanges(msgspec.Struct, frozen=True):
    """Ranges, ends included, that hold all keys of a column: for keys that are too many to list.

    They ascend and do not overlap.
    """

    lows: pa.Array
    highs: pa.Array


class _SortedRanges(msgspec.Struct, frozen=True):
    """The same, ready to search; a single value is both ends of its range."""

    lows: SortedValues
    highs: SortedValues

    @classmethod
    def of(cls, column: pa.Array | KeyRanges) -> _SortedRanges | None:
        """None for a type whose bounds are not used."""
        if not isinstance(column, KeyRanges) and pa.types.is_large_string(column.type):
            column = _whole_range(column)
        if isinstance(column, KeyRanges):
            lows, highs = _sorted_values(column.lows), _sorted_values(column.highs)
        else:
            lows = highs = _sorted_values(column)
        return None if lows is None or highs is None else cls(lows, highs)


class KeyPruner(FilePruner):
    """Many keys, ready for questions about columns of files. ``columns`` hold no nulls. Thread-safe."""

    def __init__(
        self,
        paths: Sequence[Path],
        columns: Sequence[pa.Array | KeyRanges],
        schema: Struct,
        partition_columns: tuple[str, ...],
    ) -> None:
        self.of_one_file = SingleFileKeys(paths, columns, schema, partition_columns)
        super().__init__(self.of_one_file)

    def _judge(self, bounds: BoundsColumns, partition: Partition, codes: Any) -> Mask:
        verdict = ~bounds.empty
        for path, ranges in self.of_one_file.sorted_ranges:
            known = bounds.columns.get(path)
            if known is not None:
                verdict &= known.may_be_value & _overlap(known, ranges)
            elif path[0] in self.partition_columns:
                each = [_overlaps(facts.get(path, _UNKNOWN), ranges) for facts in partition.facts]
                verdict &= np.array(each, dtype=bool)[codes]
        return verdict


class SingleFileKeys(Pruner):
    """The rule for one file: each key column must have a value among the file's."""

    def __init__(
        self,
        paths: Sequence[Path],
        columns: Sequence[pa.Array | KeyRanges],
        schema: Struct,
        partition_columns: tuple[str, ...],
    ) -> None:
        # The underlying rules take only the column names from this predicate.
        super().__init__(_all_of([IsNull(path) for path in paths]), schema, partition_columns)
        self.sorted_ranges = [
            (physical_path(schema, path), ranges)
            for path, column in zip(paths, columns, strict=True)
            if (ranges := _SortedRanges.of(column)) is not None
        ]
        self.needs_statistics = any(path[0] not in self.partition_columns for path, _ in self.sorted_ranges)

    def is_possible(self, facts: Mapping[Path, ColumnFacts]) -> bool:
        return all(_overlaps(facts.get(path, _UNKNOWN), ranges) for path, ranges in self.sorted_ranges)

    def holds_others(self, partition_values: Mapping[str, str | None], stats: str | None) -> bool:
        """Whether the file reaches beyond the range of the keys' first column, so a filter by range is useful."""
        if not self.sorted_ranges:
            return False
        path, ranges = self.sorted_ranges[0]
        facts = self.statistics_facts(stats) | self.partition_facts(partition_values)
        known = facts.get(path, _UNKNOWN)
        if known.low is None or known.high is None:
            return True
        return bool(known.low < ranges.lows[0] or known.high > ranges.highs[-1])


def key_range(paths: Sequence[Path], columns: Sequence[pa.Array | KeyRanges], schema: Struct) -> Predicate | None:
    """A condition that every row with one of the keys satisfies; None if no key column has an order.

    It says nothing of an end that is a date or timestamp beyond Python's years, which no condition can hold.
    """
    conditions: list[Predicate] = []
    for path, given in zip(paths, columns, strict=True):
        column = pa.concat_arrays([given.lows, given.highs]) if isinstance(given, KeyRanges) else given
        if len(column) == 0 or pa.types.is_boolean(column.type) or _is_binary(column.type):
            continue
        ends = pc.min_max(column)
        known = (each for each in ((">=", ends["min"]), ("<=", ends["max"])) if not is_beyond_python(each[1]))
        conditions += [Comparison(path, operator, end.as_py()) for operator, end in known]
    return bind(_all_of(conditions), schema) if conditions else None


def _all_of(conditions: Sequence[Predicate]) -> Predicate:
    return reduce(And, conditions[1:], conditions[0])


def _overlaps(known: ColumnFacts, ranges: _SortedRanges) -> bool:
    if not known.may_be_value:
        return False
    at = 0 if known.low is None else bisect.bisect_left(ranges.highs, known.low)
    return at < len(ranges.highs) and (known.high is None or bool(ranges.lows[at] <= known.high))


def _overlap(known: ColumnBounds, ranges: _SortedRanges) -> Mask:
    """Whether some value may lie between the bounds of each file."""
    if known.low is None or known.high is None:
        return np.ones(len(known.may_be_value), dtype=bool)
    lows, no_low = _bounds(known.low, ranges.highs, above=False)
    highs, no_high = _bounds(known.high, ranges.lows, above=True)
    first = np.where(no_low, 0, np.searchsorted(ranges.highs, lows, side="left"))
    end = np.where(no_high, len(ranges.lows), np.searchsorted(ranges.lows, highs, side="right"))
    found: Mask = first < end
    return found


def _bounds(column: pa.Array, values: SortedValues, *, above: bool) -> tuple[Any, Mask]:
    """Bounds in the form of ``values``, and which are unknown; unknown ones have the first value."""
    unknown: Mask = flags_of(column.is_null())
    if values.dtype != object:
        return np.where(unknown, values[0] if len(values) else 0, numbers_of(column)), unknown
    kind, bounds = column.type, column.to_pylist()
    if pa.types.is_decimal(kind):
        bounds = [None if each is None else beside(each, kind.precision, kind.scale, above=above) for each in bounds]
        unknown = np.array([each is None for each in bounds], dtype=bool)
    found = np.empty(len(bounds), dtype=object)
    found[:] = [(values[0] if len(values) else 0) if each is None else each for each in bounds]
    return found, unknown


def _sorted_values(column: pa.Array) -> SortedValues | None:
    """The values as `values.ordered` returns them, ascending; None for a type whose bounds are not used."""
    kind = column.type
    if pa.types.is_date(kind):
        column = column.cast(pa.int32())
    if pa.types.is_integer(column.type) or pa.types.is_timestamp(kind):
        numbers = np.sort(column.cast(pa.int64()).to_numpy(zero_copy_only=False))  # np.unique hashes, and then sorts
        found: SortedValues = numbers[np.append(True, numbers[1:] != numbers[:-1])[: len(numbers)]]
        return found
    if not (pa.types.is_string(kind) or pa.types.is_decimal(kind)):
        return None
    distinct = pc.unique(column)
    # Arrow orders strings by UTF-8 bytes and Python by code points, which is the same order.
    texts = distinct.take(pc.array_sort_indices(distinct)).to_pylist()
    values = np.empty(len(texts), dtype=object)
    values[:] = texts
    return values


def _whole_range(column: pa.Array) -> KeyRanges:
    """Just the least and greatest value, if there is more text than a string column holds."""
    ends = pc.min_max(column)
    return KeyRanges(pa.array([ends["min"].as_py()], pa.string()), pa.array([ends["max"].as_py()], pa.string()))


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))
