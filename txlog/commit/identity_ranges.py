"""Numbers for identity columns: ranges that a commit of their own puts aside, so that rows are appended blindly.

In: a table's definition, an identity column and a count. Out: numbers that no other row of the table has or gets. A
handle, or a process with tasks, keeps what is left of its last range, and each range is larger than the one before: a
writer of many small appends needs few such commits. What is left when the process ends is a gap. No number is given out
twice, because two commits that move one high-water mark conflict, and the later one counts on from the earlier one.
PROTOCOL.md, "Identity Columns".
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from txlog.commit.outcome import raise_conflict
from txlog.errors import ConflictReason, InvalidInputError, MetadataChangedError, ProtocolChangedError
from txlog.log.proposal import Isolation, Proposal
from txlog.log.proposal_builder import ProposalBuilder
from txlog.protocol.actions import operation_parameters
from txlog.protocol.identity import IdentityColumn, identity_columns, with_mark
from txlog.result import WriteMetrics
from txlog.util import ambient
from txlog.util.locks import new_lock
from txlog.util.values import repr_without

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from txlog.commit.open_table import OpenTable
    from txlog.log.state import TableState
    from txlog.protocol.defined_table import DefinedTable

__all__ = ["IdentityRanges", "TableNumbers"]

_GROWTH = 4
_LARGEST = 1 << 22
"""A range has four times as many numbers as the one before, but not more than this for what is not needed yet."""

_Key: TypeAlias = tuple[int, str, int | None, str, int, int]
"""The process, since a fork must not use the same numbers, the table and the column."""


class TableNumbers(msgspec.Struct, frozen=True, dict=True):
    """The `Numbers` of a table that was defined as at a version. In another process, it opens the table there.

    ``table_id`` and ``created_ms`` tell a table from a later one at the same place. ``storage_options`` may hold
    secrets, so the repr leaves them out.
    """

    uri: str
    storage_options: Mapping[str, str]
    version: int
    table_id: str
    created_ms: int | None

    __repr__ = repr_without("storage_options")

    @classmethod
    def of(cls, ranges: IdentityRanges, storage_options: Mapping[str, str], table: DefinedTable) -> TableNumbers:
        """The numbers of a table in the process that has ``ranges``."""
        metadata = table.metadata
        found = cls(ranges.uri, dict(storage_options), table.version, metadata.id, metadata.created_time)
        found.__dict__["_ranges"] = ranges
        return found

    def take(self, column: IdentityColumn, count: int) -> pa.Array:
        """``count`` numbers. Raises ConflictError if the table is another one by now, and what a commit raises."""
        return self._ranges.take(self, column, count)

    @cached_property
    def _ranges(self) -> IdentityRanges:
        return _ranges_of_process(self.uri, tuple(sorted(self.storage_options.items())))


@functools.lru_cache(maxsize=16)
def _ranges_of_process(uri: str, storage_options: tuple[tuple[str, str], ...]) -> IdentityRanges:
    """The ranges that the tasks of this process share."""
    from txlog.commit.open_table import OpenTable
    from txlog.store.open import open_store

    options = dict(storage_options)
    return IdentityRanges(OpenTable(open_store(uri, options), storage_options=options))


class _Range(msgspec.Struct):
    """The numbers from ``first`` on, put aside by ``version``; ``size`` is how many these were at first."""

    first: int = 0
    left: int = 0
    size: int = 0
    version: int = -1


class IdentityRanges:
    """The ranges of one handle. Thread-safe."""

    def __init__(self, open_table: OpenTable) -> None:
        self._open_table = open_table
        self._lock = new_lock()
        self._ranges: dict[_Key, _Range] = {}

    @property
    def uri(self) -> str:
        return self._open_table.uri

    def take(self, table: TableNumbers, column: IdentityColumn, count: int) -> pa.Array:
        """``count`` numbers of a column, in the direction of its steps. Raises as `TableNumbers.take`."""
        if not count:
            return pa.array([], pa.int64())
        with self._lock:
            key = (os.getpid(), table.table_id, table.created_ms, column.physical, column.start, column.step)
            mine = self._ranges.setdefault(key, _Range())
            if _is_stale(mine, table, column):
                mine.left = 0
            parts = [_taken(mine, column, min(count, mine.left))]
            missing = count - len(parts[0])
            if missing:
                wanted = max(missing, min(mine.size * _GROWTH, _LARGEST))
                self._ranges[key] = mine = self._put_aside(table, column, missing, wanted)
                parts.append(_taken(mine, column, missing))
        return pa.array(np.concatenate(parts), pa.int64())

    def _put_aside(self, table: TableNumbers, column: IdentityColumn, least: int, count: int) -> _Range:
        """A new range, by a commit. Another change of the definition does not matter if the column is still there."""
        open_table = self._open_table
        while True:
            state = open_table.log.newest_state(refresh=False)
            if state.version < table.version:
                state = open_table.log.newest_state()
            open_table.check_writable(state)
            plan = _PutAside(open_table, table, column, count, least)
            plan.require_column(state)
            try:
                result = open_table.commit_plan(plan, state)
            except (MetadataChangedError, ProtocolChangedError):
                open_table.log.newest_state()
                continue
            assert result.version is not None
            return _Range(plan.first, plan.count, plan.count, result.version)


class _PutAside:
    """The `Plan` that moves a high-water mark, by ``count`` numbers, or by the ``least`` if there are not so many."""

    def __init__(
        self, open_table: OpenTable, table: TableNumbers, column: IdentityColumn, count: int, least: int
    ) -> None:
        self._open_table = open_table
        self._table = table
        self._column = column
        self._least = least
        self._txn_id = ambient.uuid4()
        self.count = count
        self.first = 0
        self.metrics = WriteMetrics()

    def execute(self, state: TableState) -> Proposal:
        """Raises MetadataChangedError if the table no longer has the column; InvalidInputError if it has no numbers
        left."""
        column = self.require_column(state)
        try:
            self.first, mark = column.next(self.count)
        except InvalidInputError:
            self.count = self._least
            self.first, mark = column.next(self.count)
        builder = ProposalBuilder(state)
        builder.define(with_mark(state.metadata, column, mark))
        return builder.build(
            txn_id=self._txn_id,
            now_ms=ambient.now_ms(),
            isolation=Isolation.SERIALIZABLE,
            operation="RESERVE IDENTITY",
            parameters=operation_parameters(column=column.name, first=self.first, last=mark),
            is_reexecutable=True,
        )

    def remaining_work_s(self, state: TableState) -> float:
        return 0.0

    def require_column(self, state: TableState) -> IdentityColumn:
        """The column in this version. Raises MetadataChangedError if it has been replaced."""
        wanted, metadata = self._column, state.metadata
        is_same = (metadata.id, metadata.created_time) == (self._table.table_id, self._table.created_ms)
        for each in identity_columns(state.schema) if is_same else ():
            if (each.physical, each.start, each.step) == (wanted.physical, wanted.start, wanted.step):
                return each
        detail = f"or an earlier commit replaced the table or its identity column {wanted.name}"
        reason = ConflictReason("MetadataChangedError", state.version, "unknown", detail)
        return raise_conflict((reason,), self._open_table.uri)


def _is_stale(mine: _Range, table: TableNumbers, column: IdentityColumn) -> bool:
    """Whether the column was replaced since: the mark of a later version is not beyond the range."""
    if not mine.left or table.version < mine.version:
        return False
    last = mine.first + (mine.left - 1) * column.step
    return column.mark is None or column.is_beyond(last, column.mark)


def _taken(mine: _Range, column: IdentityColumn, count: int) -> NDArray[np.int64]:
    if not count:
        return np.empty(0, np.int64)
    found: NDArray[np.int64] = mine.first + column.step * np.arange(count, dtype=np.int64)
    mine.first, mine.left = mine.first + count * column.step, mine.left - count
    return found
