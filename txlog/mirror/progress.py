"""What a mirror tells of each commit."""

from __future__ import annotations

import msgspec


class MirrorCommit(msgspec.Struct, frozen=True):
    """What a mirror committed. ``position``: up to where the tables have the database's log, as PostgreSQL writes it.

    ``rows``: the changes of each table, or the rows of its snapshot. ``committed_ms``: when the database committed the
    last of the transactions, in ms since 1970. ``is_snapshot``: whether these are whole tables; ``differs`` then says
    which columns have another type than at the source, and how they differ, and what of the table is not followed.
    """

    position: str
    rows: dict[str, int]
    committed_ms: int
    is_snapshot: bool = False
    differs: dict[str, str] = {}
