"""`NumberRanges`: the numbers of identity columns reserved for one handle, and not given out yet.

In: an identity column, a count, and a way to reserve a range. Out: numbers, each once. Each range is larger than the
one before, so a writer of many small appends needs few ranges; what is left when a process ends is a gap.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from txlog.core.format.identity import IdentityColumn
from txlog.core.parallel import new_lock

if TYPE_CHECKING:
    from numpy.typing import NDArray

_GROWTH = 8
_LARGEST = 1 << 22
"""A range has eight times as many numbers as the one before, but not more than this for what is not needed yet."""

_Key: TypeAlias = tuple[int, str, int | None, str, int, int]
"""The process, since a fork must not use the same numbers, the table and the column."""


class NumberRange(msgspec.Struct):
    """The numbers from ``first`` on, reserved by ``version``; ``size`` is how many these were at first."""

    first: int = 0
    left: int = 0
    size: int = 0
    version: int = -1


Reserve: TypeAlias = Callable[[int, int], NumberRange]
"""Reserves a range, given how many numbers are needed now, and how many are wanted."""


class NumberRanges:
    """The ranges of one handle. Thread-safe."""

    def __init__(self) -> None:
        self._lock = new_lock()
        self._ranges: dict[_Key, NumberRange] = {}

    def take(
        self, table: tuple[str, int | None], version: int, column: IdentityColumn, count: int, reserve: Reserve
    ) -> pa.Array:
        """``count`` numbers of a column, in the direction of its steps. Raises what ``reserve`` raises.

        ``table`` tells a table from a later one at the same place; ``version`` is the one that ``column`` is of.
        """
        if not count:
            return pa.array([], pa.int64())
        with self._lock:
            key = (os.getpid(), *table, column.physical, column.start, column.step)
            mine = self._ranges.setdefault(key, NumberRange())
            if _is_stale(mine, version, column):
                mine.left = 0
            parts = [_taken(mine, column, min(count, mine.left))]
            missing = count - len(parts[0])
            if missing:
                wanted = max(missing, min(mine.size * _GROWTH, _LARGEST))
                self._ranges[key] = mine = reserve(missing, wanted)
                parts.append(_taken(mine, column, missing))
        return pa.array(np.concatenate(parts), pa.int64())


def _is_stale(mine: NumberRange, version: int, column: IdentityColumn) -> bool:
    """Whether the column was replaced since: the mark of a later version is not beyond the range."""
    if not mine.left or version < mine.version:
        return False
    last = mine.first + (mine.left - 1) * column.step
    return column.mark is None or column.is_beyond(last, column.mark)


def _taken(mine: NumberRange, column: IdentityColumn, count: int) -> NDArray[np.int64]:
    if not count:
        return np.empty(0, np.int64)
    found: NDArray[np.int64] = mine.first + column.step * np.arange(count, dtype=np.int64)
    mine.first, mine.left = mine.first + count * column.step, mine.left - count
    return found
