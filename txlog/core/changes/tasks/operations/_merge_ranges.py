"""Pairs of rows whose values are in each other's range: ``s.ts BETWEEN t.start AND t.end``.

In: the comparisons of a join without keys. Out: for each row of one side, the slice of the other side's rows, in the
order of one value, that can join it. The search uses one value: the one with the tightest bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from txlog.core.format.arrow.arrays import numbers_of
from txlog.core.predicates import FLIPPED, JoinRange
from txlog.core.predicates.terms.tree import Expression, Side

if TYPE_CHECKING:
    from numpy.typing import NDArray

Pairs: TypeAlias = "tuple[NDArray[np.int64], NDArray[np.int64]]"
"""Row numbers of the table, or of a batch of it, and the source rows paired with them."""

PAIRS_AT_ONCE = 1 << 17
_BOUNDS = {"=": 3, ">": 1, ">=": 1, "<": 2, "<=": 2}  # bit 1: bounded below, bit 2: bounded above


class SortedSide(msgspec.Struct, frozen=True):
    """Some rows of one side, in the order of a value that is null in none of them."""

    values: NDArray[Any]
    rows: NDArray[np.int64]

    @classmethod
    def of(cls, column: pa.Array, rows: NDArray[np.int64]) -> SortedSide:
        """``column`` has a value for each of ``rows``."""
        values, is_null = _numbers(column)
        rows, values = rows[~is_null], values[~is_null]
        order = np.argsort(values, kind="stable")  # NaN comes last, as in SQL
        return cls(values[order], rows[order])


class RangeSearch(msgspec.Struct, frozen=True):
    """A ``value`` of one ``side``, and its comparisons with values of the other side: ``value operator other``."""

    side: Side
    value: Expression
    bounds: tuple[tuple[str, Expression], ...]

    @classmethod
    def best(cls, ranges: Sequence[JoinRange]) -> RangeSearch | None:
        """A search by a value that equals another, otherwise by one with bounds on both ends; None if there is no
        comparison."""
        found: dict[tuple[Side, Expression], list[tuple[str, Expression]]] = {}
        for each in ranges:
            found.setdefault(("target", each.target), []).append((each.operator, each.source))
            found.setdefault(("source", each.source), []).append((FLIPPED[each.operator], each.target))
        searches = [cls(side, value, tuple(bounds)) for (side, value), bounds in found.items()]
        return max(searches, key=lambda search: search._rank, default=None)

    @property
    def _rank(self) -> tuple[bool, int]:
        operators = [operator for operator, _ in self.bounds]
        ends = 0
        for operator in operators:
            ends |= _BOUNDS[operator]
        return "=" in operators, ends == 3

    def found(self, ordered: SortedSide, other: Callable[[Expression], pa.Array]) -> Pairs:
        """The slices of ``ordered`` that hold the matches of each row of the other side: begins and ends.

        ``other`` gives the values of the other side's rows.
        """
        lows: Any = 0
        highs: Any = len(ordered.values)
        for operator, expression in self.bounds:
            values, is_null = _numbers(other(expression))
            if operator in ("=", ">=", ">"):
                side = "right" if operator == ">" else "left"
                lows = np.maximum(lows, np.searchsorted(ordered.values, values, side=side))  # type: ignore[call-overload]
            if operator in ("=", "<=", "<"):
                side = "left" if operator == "<" else "right"
                highs = np.minimum(highs, np.searchsorted(ordered.values, values, side=side))  # type: ignore[call-overload]
            highs = np.where(is_null, 0, highs)
        return np.broadcast_to(lows, np.shape(highs)).astype(np.int64), np.maximum(highs, lows).astype(np.int64)


def slice_pairs(
    rows: NDArray[np.int64], others: NDArray[np.int64], begins: NDArray[np.int64], ends: NDArray[np.int64]
) -> Iterator[Pairs]:
    """Each of the ``rows`` with each row of its slice of ``others``, in bounded numbers of pairs.

    The pairs of one row are adjacent, in the order of ``others``.
    """
    counts = ends - begins
    last = np.cumsum(counts)
    firsts = begins - (last - counts)
    total = int(last[-1]) if len(last) else 0
    for start in range(0, total, PAIRS_AT_ONCE):
        numbers = np.arange(start, min(start + PAIRS_AT_ONCE, total))
        places = np.searchsorted(last, numbers, side="right")
        yield rows[places], others[firsts[places] + numbers]


def _numbers(column: pa.Array) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """The values as numbers in the same order, and which of them are null; a null has any number."""
    return numbers_of(column), column.is_null().to_numpy(zero_copy_only=False)
