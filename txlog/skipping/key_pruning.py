"""Which data files may hold one of many keys, by partition values and statistics.

In: key columns with the values that are looked for, and what the log knows of a file. Out: False only where no row of
the file can have one of them: each key column excludes by itself. A null matches nothing.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txlog.expressions.predicates import And, Comparison, IsNull, Path, Predicate, bind
from txlog.protocol.column_mapping import physical_path
from txlog.protocol.schema import Struct
from txlog.skipping.one_file import Facts, Pruner

__all__ = ["KeyPruner", "key_range"]

_UNKNOWN = Facts()


class KeyPruner:
    """Many keys, ready to be asked about one file after the other. ``columns`` hold no nulls. Thread-safe."""

    def __init__(
        self, paths: Sequence[Path], columns: Sequence[pa.Array], schema: Struct, partition_columns: tuple[str, ...]
    ) -> None:
        self._pruner = Pruner(_all_of([IsNull(path) for path in paths]), schema, partition_columns)
        self._sorted = [
            (physical_path(schema, path), values)
            for path, column in zip(paths, columns, strict=True)
            if (values := _sorted_values(column)) is not None
        ]

    def may_hold(self, partition_values: Mapping[str, str | None], stats: str | None) -> bool:
        """Whether some row of a file may have one of the keys."""
        facts = self._facts(partition_values, stats)
        return all(_overlaps(facts.get(path, _UNKNOWN), values) for path, values in self._sorted)

    def holds_others(self, partition_values: Mapping[str, str | None], stats: str | None) -> bool:
        """Whether the file reaches beyond the range of the keys' first column, so that a filter by range is of use."""
        if not self._sorted:
            return False
        path, values = self._sorted[0]
        known = self._facts(partition_values, stats).get(path, _UNKNOWN)
        if known.low is None or known.high is None:
            return True
        return bool(known.low < values[0] or known.high > values[-1])

    def _facts(self, partition_values: Mapping[str, str | None], stats: str | None) -> dict[Path, Facts]:
        return self._pruner.statistics_facts(stats) | self._pruner.partition_facts(partition_values)


def key_range(paths: Sequence[Path], columns: Sequence[pa.Array], schema: Struct) -> Predicate | None:
    """A condition that every row with one of the keys satisfies; None where no key column has an order."""
    conditions: list[Predicate] = []
    for path, column in zip(paths, columns, strict=True):
        if len(column) == 0 or pa.types.is_boolean(column.type) or _is_binary(column.type):
            continue
        ends = pc.min_max(column)
        conditions += [Comparison(path, ">=", ends["min"].as_py()), Comparison(path, "<=", ends["max"].as_py())]
    return bind(_all_of(conditions), schema) if conditions else None


def _all_of(conditions: Sequence[Predicate]) -> Predicate:
    return reduce(And, conditions[1:], conditions[0])


def _overlaps(known: Facts, values: Sequence[Any]) -> bool:
    if not known.may_be_value:
        return False
    at = 0 if known.low is None else bisect.bisect_left(values, known.low)
    return at < len(values) and (known.high is None or bool(values[at] <= known.high))


def _sorted_values(column: pa.Array) -> Sequence[Any] | None:
    """The values as `predicates.ordered` has them, ascending; None for a type whose bounds are not looked at."""
    kind = column.type
    if pa.types.is_date(kind):
        column = column.cast(pa.int32())
    if pa.types.is_integer(column.type) or pa.types.is_timestamp(kind):
        return cast(Sequence[Any], np.unique(column.cast(pa.int64()).to_numpy(zero_copy_only=False)))
    if not (pa.types.is_string(kind) or pa.types.is_decimal(kind)):
        return None
    values: list[Any] = pc.unique(column).to_pylist()
    values.sort()
    return values


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))
