"""``BEGIN TRANSACTION; ...; COMMIT``: statements that change several tables together.

In: a `Cursor` at the first word, or a statement between the two. Out: `BeginTransaction` and `CommitTransaction`, which
stand around the statements of a transaction; a statement that cannot be part of one is refused. ``BEGIN ATOMIC ...
END`` is the same.
Sources: the statements of DuckDB and PostgreSQL; Databricks, "ATOMIC compound statement".
"""

from __future__ import annotations

from typing import Any

import msgspec

from txlog.statements.changes import (
    AddColumns,
    AlterColumn,
    AlterTable,
    ColumnComment,
    Described,
    DropColumns,
    RenameColumn,
    SetProperties,
    SyncIdentity,
)
from txlog.statements.cursor import Cursor
from txlog.statements.query import Query
from txlog.statements.rows import ChangeByQuery, Delete, Insert, Merge, Update

BEGINS = ("BEGIN", "START")
ENDS = ("COMMIT", "END", "ROLLBACK")
"""The words that begin and end a transaction."""

_FORMS = "one is BEGIN TRANSACTION; ...; COMMIT or BEGIN ATOMIC ...; ...; END"
_DEFINITIONS = (AddColumns, AlterColumn, Described, DropColumns, RenameColumn, SetProperties, SyncIdentity)
_PARTS = (Query, Insert, Delete, Update, ChangeByQuery, Merge, ColumnComment)


class BeginTransaction(msgspec.Struct, frozen=True):
    """``end`` is the word that ends the transaction."""

    at: str
    end: str


class CommitTransaction(msgspec.Struct, frozen=True):
    at: str


def read_begin(cursor: Cursor) -> BeginTransaction:
    """The first statement of a block follows at once, behind ATOMIC."""
    at = cursor.place()
    if cursor.take("START"):
        cursor.expect("TRANSACTION")
        cursor.expect_end()
        return BeginTransaction(at, "COMMIT")
    cursor.expect("BEGIN")
    if cursor.take("ATOMIC"):
        return BeginTransaction(at, "END")
    cursor.take_one("TRANSACTION", "WORK")
    if not cursor.is_at_end:
        raise cursor.refused(f"expected a semicolon: {_FORMS}")
    return BeginTransaction(at, "COMMIT")


def read_end(cursor: Cursor, begun: BeginTransaction | None) -> CommitTransaction:
    at = cursor.place()
    if cursor.word() == "ROLLBACK":
        raise cursor.refused(
            "a statement that fails rolls the transaction back by itself: leave out statements that should not land"
        )
    if begun is None:
        raise cursor.refused(f"no transaction has begun: {_FORMS}")
    cursor.expect(begun.end)
    if begun.end == "COMMIT":
        cursor.take_one("TRANSACTION", "WORK")
    cursor.expect_end()
    return CommitTransaction(at)


def require_part(statement: Any, place: Cursor) -> None:
    """Raises InvalidInputError for a statement that cannot be part of a transaction; ``place`` is at its first word."""
    if getattr(statement, "merges_schema", False):
        raise place.refused("WITH SCHEMA EVOLUTION is not for transactions: add the columns by ALTER TABLE before")
    change = statement.change if isinstance(statement, AlterTable) else None
    if isinstance(statement, _PARTS) or isinstance(change, _DEFINITIONS):
        return
    raise place.refused(
        "this statement cannot be part of a transaction, which has INSERT, UPDATE, DELETE, MERGE, queries, and of ALTER"
        " TABLE what changes columns, properties and comments: put it before BEGIN or after the end"
    )
