"""Whether a database's log goes on from where a table stands, though another server took over.

In: the timelines of the log, and where a table stands. Out: nothing, or why not. A standby that is promoted, and a
database that is restored to a moment, begin a new timeline where their copy of the log ended: what the tables have
beyond that never happened there, and other changes have these positions. PostgreSQL documentation, "Timelines".
"""

from __future__ import annotations

from collections.abc import Mapping

from txlog.mirror.pgoutput import lsn_text


def ends_in(history: str) -> dict[int, int]:
    """Where each earlier timeline ended, by its number, as a history file says. Raises ValueError for another text."""
    found: dict[int, int] = {}
    for line in history.splitlines():
        number, _, rest = line.strip().partition("\t")
        if not number or number.startswith("#"):
            continue
        high, low = rest.split("\t")[0].split("/")
        found[int(number)] = int(high, 16) << 32 | int(low, 16)
    return found


def why_not(stood_on: int, position: int, timeline: int, ends: Mapping[int, int]) -> str | None:
    """Why the log does not go on from a position on the timeline ``stood_on``; None if it does, or if the table does
    not know the timeline (0).

    Args:
        stood_on: The timeline.
        position: The position.
        timeline: The database's timeline now.
        ends: Where the timelines that it came from ended.
    """
    if stood_on in (0, timeline):
        return None
    end = ends.get(stood_on)
    if end is None:
        return f"its log, timeline {timeline}, does not come from timeline {stood_on}, which the tables follow"
    if position > end:
        return (
            f"it took over at {lsn_text(end)}, as timeline {timeline}, and the tables have changes up to"
            f" {lsn_text(position)} that it never had"
        )
    return None
