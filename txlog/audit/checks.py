"""Checks of a table that packages bring: the point that `Table.verify` asks beside its own rules.

In: a table's stores. Out: what is wrong with that which a package keeps beside the log.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from txlog.core.points import Point
from txlog.core.store import TableStore


class CheckProblem(Protocol):
    """One thing that is wrong; ``path`` is relative to the table, and ``rule`` a short name of what is broken."""

    @property
    def message(self) -> str: ...

    @property
    def path(self) -> str: ...

    @property
    def rule(self) -> str: ...

    @property
    def is_warning(self) -> bool: ...


class ChecksTable(Protocol):
    def __call__(self, store: TableStore) -> Iterable[CheckProblem]:
        """What is wrong: an entry of the group ``txlog.checks``. Nothing, for a table without what the package keeps.

        The log may be damaged; what `verify` finds there needs no second report. Raises StorageError.
        """


CHECKS: Final[Point[ChecksTable]] = Point("txlog.checks", "the check of tables")
