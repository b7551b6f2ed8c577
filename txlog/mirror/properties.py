"""What a mirrored table remembers of its source, as the table property ``txlog.mirror``. Pure.

In: the property's text. Out: the source, the columns by the numbers that stay with them, the keys. pyproject.toml
declares the rule.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from txlog.core.format.properties import PropertyRule

MIRROR = "txlog.mirror"


class MirrorColumn(NamedTuple):
    """A column of a mirrored table.

    ``number`` stays with it when it is renamed; 0 is that of a column which the database's catalog no longer has.
    ``type`` is that of Arrow, by its name. ``existing``: what rows have that were there before it, as PostgreSQL's
    text.
    """

    name: str
    number: int
    type: str
    existing: str | None = None


class Mirrored(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a table is the mirror of.

    ``system`` and ``database``: whose data they are, wherever the server is. ``name``: the mirror's name, which is that
    of its slot. ``table``: ``schema.table`` there. ``is_log``: it has the changes, not the rows. ``is_history``: it has
    all rows that each key had.

    ``earlier``: the columns before the last change of them, which the transaction that ends at ``changed_at`` has seen:
    what it wrote before it changed them has these. If the table still has them, they are about to be replaced.

    ``snapshot_at``: the position of the snapshot that the table began with. ``restored``: how often the table had to
    begin again at a position that it had passed, since the database was restored to an earlier time. ``timeline``: that
    of the database's log on which the table stands, so that a standby which takes over is known to have what the table
    has; 0: an earlier release did not write it. ``number``, ``entry`` and
    ``partitions``: those of the `SourceTable`, likewise.
    """

    system: str
    database: str
    name: str
    table: str
    columns: tuple[MirrorColumn, ...]
    keys: tuple[str, ...]
    is_log: bool = False
    earlier: tuple[MirrorColumn, ...] = ()
    changed_at: int = 0
    is_history: bool = False
    snapshot_at: int = 0
    restored: int = 0
    timeline: int = 0
    number: int = 0
    entry: int = 0
    partitions: tuple[str, ...] | None = None

    @property
    def application(self) -> str:
        """The application in the table's log whose number is the position. After a restore it is another one, since
        numbers only grow."""
        return f"{self.name}/{self.restored}" if self.restored else self.name

    def text(self) -> str:
        """The property's value."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def of(cls, text: str) -> Mirrored:
        """Raises ValueError for a text that no mirror wrote."""
        try:
            return msgspec.json.decode(text, type=cls)
        except msgspec.DecodeError as error:
            raise ValueError(str(error)) from error


RULE = PropertyRule(Mirrored.of, "what txlog mirror wrote there", is_of_one_table=True, is_rule_of_rows=False)
