"""Pruning: which data files may hold a row that a predicate keeps. The rule; `_many_files` computes it by columns.

In: a predicate and what the log knows about a file: partition values and statistics. Out: False only if no row of the
file can match; in doubt, True. Partition values are exact. Statistics are bounds that may be wide or missing; decimal
bounds may be too narrow by the precision of a 64-bit float. A maximum is assumed to cover NaN, as in Spark's order, and
as Spark and txlog write it; deltalake leaves NaN out of the maximum. PROTOCOL.md, "Per-file Statistics".

The rule is written twice because Arrow's JSON reader and kernels have a fixed price: the check of one added file in a
conflict takes 0.02 ms here and 0.8 ms or more by columns; from 64 files on, columns are cheaper. Texts that Arrow's
JSON reader might misread, partition values and row groups need this one too. Tests compare the two.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from txlog.core.format.column_mapping import physical_names, physical_path, physical_schema
from txlog.core.format.partition_values import decode
from txlog.core.format.schema import DataType, Decimal, Struct
from txlog.core.format.statistics_read import FileBounds, StatisticsReader
from txlog.core.predicates.skipping._parts import Parts
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
    paths_of,
    prunable,
    type_of,
    with_paths,
)
from txlog.core.predicates.terms.tree import Path
from txlog.core.predicates.terms.values import Ordered, beside, compare, ordered
from txlog.errors import TxlogError


class ColumnFacts(msgspec.Struct, frozen=True):
    """What is known about one column in one file: all its values are between ``low`` and ``high``, if these are
    known."""

    low: Ordered | None = None
    high: Ordered | None = None
    may_be_null: bool = True
    may_be_value: bool = True


_UNKNOWN = ColumnFacts()
_ALL_NULL = ColumnFacts(may_be_value=False)

_Possible: TypeAlias = tuple[bool, bool]
"""Whether some row may make the predicate (true, false). A row that makes it unknown is neither."""


class Pruner:
    """One predicate, prepared to check files one by one; ``_many_files`` checks many at a time.

    The predicate must be bound to the schema. Each combination of partition values is decided once. ``schema`` and
    ``paths`` have the names in the log.
    """

    def __init__(self, predicate: Predicate, schema: Struct, partition_columns: tuple[str, ...]) -> None:
        # The log names columns as the files do; all code below uses these names.
        parts = Parts(with_paths(predicate, functools.partial(physical_path, schema)), physical_schema(schema))
        self.predicate = prunable(parts.predicate)
        partition_columns = physical_names(schema, partition_columns)
        self.schema = schema = parts.schema
        self.with_parts = parts.in_statistics if parts.has_any else lambda stats: stats
        self.has_parts = parts.has_any
        self.paths = paths_of(self.predicate)
        self.partition_columns = tuple(name for name in partition_columns if (name,) in self.paths)
        self.only_partition_column = (
            self.partition_columns[0] if len(partition_columns) == 1 == len(self.partition_columns) else None
        )
        self._partition_types = {name: type_of((name,), schema) for name in self.partition_columns}
        self.needs_statistics = any(path[0] not in partition_columns for path in self.paths)
        self._statistics = StatisticsReader(schema, self.paths)
        self._by_partition: dict[tuple[str | None, ...], bool] = {}

    def may_match(self, partition_values: Mapping[str, str | None], stats: str | None) -> bool:
        """False only if no row of this file makes the predicate true."""
        if not self.partition_may_match(partition_values):
            return False
        if stats is None or not self.needs_statistics:
            return True
        bounds = self._statistics.read(self.with_parts(stats) or "")
        if bounds.num_records == 0:
            return False
        return self.is_possible(self._facts(bounds) | self.partition_facts(partition_values))

    def is_possible(self, facts: Mapping[Path, ColumnFacts]) -> bool:
        """Whether some row of a file with these facts may make the predicate true."""
        return possible(self.predicate, facts)[0]

    def statistics_facts(self, stats: str | None) -> dict[Path, ColumnFacts]:
        """The facts in these statistics for the predicate's columns, except partition columns."""
        return self._facts(self._statistics.read(self.with_parts(stats)))

    def _facts(self, bounds: FileBounds) -> dict[Path, ColumnFacts]:
        paths = (path for path in self.paths if path[0] not in self._partition_types)
        return {path: _facts_of(bounds, path, self.schema) for path in paths}

    def partition_may_match(self, partition_values: Mapping[str, str | None]) -> bool:
        """The same from partition values alone. A column without an entry is unknown, which is not null."""
        key = tuple(partition_values.get(name, "") for name in self.partition_columns)
        if not all(name in partition_values for name in self.partition_columns):
            return True
        found = self._by_partition.get(key)
        if found is None:
            found = self._by_partition[key] = self.is_possible(self.partition_facts(partition_values))
        return found

    def partition_type(self, name: str) -> DataType:
        """The type of one of ``partition_columns``."""
        return self._partition_types[name]

    def partition_facts(self, partition_values: Mapping[str, str | None]) -> dict[Path, ColumnFacts]:
        """What these values say about the predicate's columns. An unreadable value says nothing."""
        facts: dict[Path, ColumnFacts] = {}
        for name, data_type in self._partition_types.items():
            try:
                value = decode(partition_values[name], data_type, column=name)
            except (TxlogError, KeyError):
                continue
            if value is None:
                facts[(name,)] = _ALL_NULL
            else:
                exact = ordered(value, data_type)
                facts[(name,)] = ColumnFacts(exact, exact, may_be_null=False)
        return facts


# --- one file -----------------------------------------------------------------------------------------------


def _facts_of(bounds: FileBounds, path: Path, schema: Struct) -> ColumnFacts:
    data_type = type_of(path, schema)
    low, high = bounds.minimum.get(path), bounds.maximum.get(path)
    nulls = bounds.null_count.get(path)
    if isinstance(data_type, Decimal):
        digits = data_type.precision, data_type.scale
        low = None if low is None else beside(low, *digits, above=False)
        high = None if high is None else beside(high, *digits, above=True)
    lowest = None if low is None else ordered(low, data_type)
    return ColumnFacts(
        # A minimum of NaN would mean that every value is NaN, which cannot be trusted from another writer.
        low=None if lowest != lowest else lowest,
        high=None if high is None else ordered(high, data_type),
        may_be_null=nulls is None or nulls > 0,
        may_be_value=nulls is None or bounds.num_records is None or nulls < bounds.num_records,
    )


def possible(predicate: Predicate, facts: Mapping[Path, ColumnFacts]) -> _Possible:
    """Whether some row of a file with these facts may make the bound predicate (true, false)."""
    match predicate:
        case And(left, right):
            (left_true, left_false), (right_true, right_false) = possible(left, facts), possible(right, facts)
            return left_true and right_true, left_false or right_false
        case Or(left, right):
            (left_true, left_false), (right_true, right_false) = possible(left, facts), possible(right, facts)
            return left_true or right_true, left_false and right_false
        case Not(operand):
            may_be_true, may_be_false = possible(operand, facts)
            return may_be_false, may_be_true
        case Constant(value):
            return value is True, value is False
        case ExcludesNothing():
            return True, True
        case IsNull(path):
            known = facts.get(path, _UNKNOWN)
            return known.may_be_null, known.may_be_value
        case Comparison(path, operator, value):
            return _compared(facts.get(path, _UNKNOWN), operator, value)
        case In(path, values, has_null):
            may_be_true, may_be_false = _among(facts.get(path, _UNKNOWN), values)
            return may_be_true, may_be_false and not has_null
        case StartsWith(path, prefix):
            return _prefixed(facts.get(path, _UNKNOWN), prefix)
    raise TypeError(f"not a predicate: {predicate!r}")


def _compared(known: ColumnFacts, operator: str, value: Any) -> _Possible:
    if not known.may_be_value:
        return False, False
    low = -1 if known.low is None else compare(known.low, value)
    high = 1 if known.high is None else compare(known.high, value)
    below, above = low < 0, high > 0  # some value may be smaller, greater than the literal
    same = low <= 0 <= high
    match operator:
        case "<":
            return below, high >= 0
        case "<=":
            return low <= 0, above
        case ">":
            return above, low <= 0
        case ">=":
            return high >= 0, below
        case "=":
            return same, below or above
    return below or above, same


def _among(known: ColumnFacts, values: tuple[Any, ...]) -> _Possible:
    if not known.may_be_value:
        return False, False
    found = [_compared(known, "=", value) for value in values]
    return any(may_be_true for may_be_true, _ in found), all(may_be_false for _, may_be_false in found)


def _prefixed(known: ColumnFacts, prefix: str) -> _Possible:
    if not known.may_be_value:
        return False, False
    low, high = known.low, known.high
    assert low is None or isinstance(low, str)
    assert high is None or isinstance(high, str)
    starts_after = low is not None and low[: len(prefix)] > prefix
    ends_before = high is not None and high < prefix
    all_inside = low is not None and high is not None and low.startswith(prefix) and high.startswith(prefix)
    return not (starts_after or ends_before), not all_inside
