"""A table that stays open between pieces of work that each open it by its place, such as micro-batches and statements.

In: an ``OpenTable``. Out: whether the table at its location is still the same, with its newest version known. A table
may be dropped and created again in between; a user's handle would then refuse it, and here it is opened again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from txlog.commit.open_table import OpenTable
from txlog.errors import NotFoundError, TxlogError
from txlog.store.base import ObjectMeta
from txlog.util.parallel import begin

__all__ = ["KEPT_MAX", "KeptOpen"]

KEPT_MAX = 16
"""Who works on more tables opens the least recently used ones again."""


class KeptOpen(NamedTuple):
    """An open table, and the file of one of its versions, which identifies it among tables at the same location. The
    file may still be asked for; asking for it raises ``NotFoundError`` if only a checkpoint is left of the version."""

    open_table: OpenTable
    version: int
    file: Callable[[], ObjectMeta]

    @classmethod
    def of(cls, open_table: OpenTable, version: int) -> KeptOpen:
        """The table, known by a version that it has now."""
        return cls(open_table, version, begin(partial(open_table.log.versions.stat, version)))

    def is_current_and_refreshed(self) -> bool:
        """Whether it is still the table at its location; the handle then knows the newest version.

        It looks at the file of its version and for newer ones at the same time. Raises what loading the newest version
        raises.
        """
        file = begin(partial(self.open_table.log.versions.stat, self.version))
        failure: TxlogError | None = None
        try:
            self.open_table.log.newest_state()
        except TxlogError as error:  # perhaps because it is another table by now
            failure = error
        try:
            is_current = file() == self.file()
        except NotFoundError:  # dropped, or cleaned up since, or a copied table that has it only as a checkpoint
            return False
        if is_current and failure is not None:
            raise failure
        return is_current
