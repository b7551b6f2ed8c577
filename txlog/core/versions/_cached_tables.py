"""A table that stays open between pieces of work that each open it by its place, such as micro-batches and statements.

In: an ``OpenTable``. Out: whether the table at its location is still the same, with its newest version known. A table
may be dropped and created again in between; a user's handle would then refuse it, and here it is opened again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from txlog.core.parallel import begin
from txlog.core.versions._open_table import OpenTable
from txlog.core.versions.decisions.state import TableState
from txlog.errors import TxlogError

KEPT_MAX = 16
"""Who works on more tables opens the least recently used ones again."""


class CachedTable(NamedTuple):
    """An open table, and one of its versions, whose commit identifies it among tables at the same location. The commit
    may still be asked for."""

    open_table: OpenTable
    state: Callable[[], TableState]

    @classmethod
    def of(cls, open_table: OpenTable, state: TableState) -> CachedTable:
        """The table, known by the version ``state`` that was loaded."""
        if state.mark is not None:
            return cls(open_table, lambda: state)
        return cls(open_table, begin(partial(open_table.log.marked, state)))  # a checkpoint was loaded

    def is_current_and_refreshed(self) -> bool:
        """Whether it is still the table at its location; the handle then knows the newest version.

        It looks at the commit of its version and for newer ones at the same time. False too if only a checkpoint is
        left of its version. Raises what loading the newest version raises.
        """
        log = self.open_table.log
        look = begin(lambda: log.has_commit_of(self.state()))
        failure: TxlogError | None = None
        try:
            log.newest_state()
        except TxlogError as error:  # perhaps because it is another table by now
            failure = error
        is_current = look()
        if is_current and failure is not None:
            raise failure
        return is_current
