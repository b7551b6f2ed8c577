"""Whether a database's log is the one whose changes the tables have, and not that of another past.

In: where the tables stand, and the transactions of the stream that they have already. Out: nothing, or an error. A
database that is restored from a copy of its files has an earlier end of its log, and then writes other changes at
positions that the tables have passed: these would be left out for those that the tables have. So would those of a
standby that took over before it had everything.
"""

from __future__ import annotations

from collections.abc import Iterable

from txlog.errors import InvalidInputError
from txlog.mirror.pgoutput import BeginMessage, lsn_text
from txlog.mirror.target import MirrorTable

_ALLOWED_MS = 60_000
"""How far clocks may have moved against each other since the tables' commits."""


class SameLog:
    """What the transactions that a database sends again say about its log.

    A transaction ends exactly where a table stands, unless it stands at its snapshot; and none that the table has was
    committed later than the table's own commit.

    Args:
        tables: The tables that were mirrored before.
        confirmed: From where the database sends.
        ahead_ms: How far its clock is ahead.
    """

    def __init__(self, tables: Iterable[MirrorTable], confirmed: int, ahead_ms: int) -> None:
        self._tables = {each.shown: each for each in tables}
        self._committed_ms = {name: each.position_ms for name, each in self._tables.items()}
        self._ahead_ms = ahead_ms
        self._to_see = {
            each.position: name
            for name, each in self._tables.items()
            if each.position is not None and confirmed < each.position != each.state.snapshot_at
        }

    def ended(self, end: int) -> None:
        """A transaction ends at this position. Raises InvalidInputError if that shows another past."""
        if not self._to_see:
            return
        self._to_see.pop(end, None)
        for position, name in self._to_see.items():
            if position < end:
                raise self._another(f"no transaction ends at {lsn_text(position)}, where {name} stands")

    def left_out(self, table: MirrorTable, transaction: BeginMessage) -> None:
        """A transaction changes a table that has it already. Raises InvalidInputError if that shows another past."""
        committed_ms = self._committed_ms.get(table.shown)
        if committed_ms is not None and transaction.committed_ms > committed_ms + self._ahead_ms + _ALLOWED_MS:
            raise self._another(
                f"the transaction at {lsn_text(transaction.lsn)} was committed after {table.shown} had passed it"
            )

    def _another(self, why: str) -> InvalidInputError:
        again = " ".join(f"--resync {name}" for name in self._tables)
        return InvalidInputError(
            f"the database's history is not that of the tables: {why}. It was restored to an earlier time, or is a"
            " standby that took over without the last changes. Mirror the tables from a new snapshot: txlog mirror ..."
            f" {again}"
        )
