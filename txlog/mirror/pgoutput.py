"""The messages of PostgreSQL's logical replication, as its plugin pgoutput writes them: bytes to values. Pure.

In: one message of protocol version 1, without its frame. Out: a value for each kind. PostgreSQL documentation, "Logical
Replication Message Formats".
"""

from __future__ import annotations

import struct
from enum import Enum
from typing import NamedTuple, TypeAlias

from txlog.errors import InvalidInputError


class Unchanged(Enum):
    """What stands for a large value that an update did not touch: PostgreSQL does not log it (TOAST)."""

    UNCHANGED = "unchanged"


UNCHANGED = Unchanged.UNCHANGED

Values: TypeAlias = list["str | Unchanged | None"]
"""A row's values, each as PostgreSQL's text for it, None for null."""


class RelationColumn(NamedTuple):
    """A column of a table: its type by PostgreSQL's numbers. ``modifier`` is the length or precision; -1: none.

    ``is_of_key``: old rows are logged with it.
    """

    name: str
    type: int
    modifier: int
    is_of_key: bool


class BeginMessage(NamedTuple):
    """A transaction begins. ``lsn``: where its commit is in the log of the database; the time is in ms since 1970."""

    lsn: int
    committed_ms: int


class CommitMessage(NamedTuple):
    """A transaction ends. ``end``: the position behind it, from which the stream can continue."""

    lsn: int
    end: int


class RelationMessage(NamedTuple):
    """What a table is, before its first change and after each change of it. ``logs_whole_rows``: REPLICA IDENTITY FULL,
    which takes every column as one of the key."""

    number: int
    schema: str
    name: str
    columns: tuple[RelationColumn, ...]
    logs_whole_rows: bool = False


class ChangeMessage(NamedTuple):
    """A row is inserted ("I", no ``old``), updated ("U") or deleted ("D", no ``new``).

    ``old`` of an update is None unless its key changed or the table logs whole rows; ``old_is_whole`` says which. Of
    an old row that is not whole, only the values of the key are right.
    """

    kind: str
    relation: int
    old: Values | None
    new: Values | None
    old_is_whole: bool = False


class TruncateMessage(NamedTuple):
    """Tables are emptied."""

    relations: tuple[int, ...]


Message: TypeAlias = BeginMessage | CommitMessage | RelationMessage | ChangeMessage | TruncateMessage

_EPOCH_MS = 946_684_800_000
"""2000-01-01, where PostgreSQL's times begin, in ms since 1970."""
_BEGIN = struct.Struct(">qqi")
_COMMIT = struct.Struct(">bqqq")
_COLUMN = struct.Struct(">ii")
_NUMBER = struct.Struct(">I")
_SHORT = struct.Struct(">H")
_TRUNCATE = struct.Struct(">Ib")
_IGNORED = b"OYM"
"""Where a transaction came from, the names of types, and messages of programs."""


def decoded(message: bytes) -> Message | None:
    """A message; None for one that says nothing about rows. Raises InvalidInputError for one that pgoutput never
    writes in the first version of its protocol."""
    kind = message[:1]
    if not kind:
        raise InvalidInputError("the database sent a message of the unknown kind b''")
    try:
        if kind in _CHANGES:
            return _change(message)
        if kind == b"B":
            lsn, time_us, _ = _BEGIN.unpack_from(message, 1)
            return BeginMessage(lsn, _EPOCH_MS + time_us // 1000)
        if kind == b"C":
            _, lsn, end, _ = _COMMIT.unpack_from(message, 1)
            return CommitMessage(lsn, end)
        if kind == b"R":
            return _relation(message)
        if kind == b"T":
            count, _ = _TRUNCATE.unpack_from(message, 1)
            return TruncateMessage(struct.unpack_from(f">{count}I", message, 1 + _TRUNCATE.size))
    except (struct.error, IndexError, ValueError) as error:
        raise InvalidInputError(f"the database sent a message of kind {kind!r} that ends too early: {error}") from error
    if kind in _IGNORED:
        return None
    raise InvalidInputError(f"the database sent a message of the unknown kind {kind!r}")


def lsn_text(lsn: int) -> str:
    """A position as PostgreSQL writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


_CHANGES = b"IUD"


def _change(message: bytes) -> ChangeMessage:
    relation = _NUMBER.unpack_from(message, 1)[0]
    old: Values | None = None
    new: Values | None = None
    is_whole = False
    at = 5
    while at < len(message):
        part = message[at : at + 1]
        values, at = _values(message, at + 1)
        if part == b"N":
            new = values
        else:
            old, is_whole = values, part == b"O"
    return ChangeMessage(chr(message[0]), relation, old, new, is_whole)


def _values(message: bytes, at: int) -> tuple[Values, int]:
    count = _SHORT.unpack_from(message, at)[0]
    at += 2
    values: Values = []
    for _ in range(count):
        kind = message[at]
        at += 1
        if kind == 0x74:  # t: a text
            end = at + 4 + _NUMBER.unpack_from(message, at)[0]
            if end > len(message):
                raise ValueError("a value is longer than the message")
            values.append(message[at + 4 : end].decode())
            at = end
        elif kind == 0x6E:  # n: null
            values.append(None)
        elif kind == 0x75:  # u: unchanged
            values.append(UNCHANGED)
        else:
            raise ValueError(f"a value of the unknown kind {chr(kind)!r}")
    return values, at


def _relation(message: bytes) -> RelationMessage:
    number = _NUMBER.unpack_from(message, 1)[0]
    schema, at = _text(message, 5)
    name, at = _text(message, at)
    logs_whole_rows = message[at : at + 1] == b"f"
    count = _SHORT.unpack_from(message, at + 1)[0]
    at += 3
    columns = []
    for _ in range(count):
        is_of_key = bool(message[at])
        column, at = _text(message, at + 1)
        type_number, modifier = _COLUMN.unpack_from(message, at)
        at += _COLUMN.size
        columns.append(RelationColumn(column, type_number & 0xFFFFFFFF, modifier, is_of_key))
    return RelationMessage(number, schema or "pg_catalog", name, tuple(columns), logs_whole_rows)


def _text(message: bytes, at: int) -> tuple[str, int]:
    end = message.index(b"\0", at)
    return message[at:end].decode(), end + 1
