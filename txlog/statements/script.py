"""A script: SQL text to statements. Nothing is run before all of it is read.

In: text, and values for its parameters. Out: the values of ``rows``, ``tables``, ``changes``, ``upkeep``, ``show``,
``transactions`` and ``query``. A word that begins no statement is refused.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, get_args

from txlog.core.util import invalid
from txlog.errors import InvalidInputError
from txlog.statements.changes import read_alter, read_comment
from txlog.statements.cursor import Cursor, Dialect, read_script
from txlog.statements.query import BEGINNINGS, Query, read_query
from txlog.statements.rows import read_copy, read_delete, read_insert, read_merge, read_truncate, read_update
from txlog.statements.show import Explain, read_describe, read_show
from txlog.statements.tables import read_convert, read_create, read_drop, read_replace, read_use
from txlog.statements.transactions import BEGINS, ENDS, BeginTransaction, read_begin, read_end, require_part
from txlog.statements.upkeep import (
    read_analyze,
    read_generate,
    read_optimize,
    read_reorg,
    read_restore,
    read_vacuum,
)

_READERS: dict[str, Callable[[Cursor], Any]] = {
    "ALTER": read_alter,
    "ANALYZE": read_analyze,
    "COMMENT": read_comment,
    "CONVERT": read_convert,
    "COPY": read_copy,
    "CREATE": read_create,
    "DELETE": read_delete,
    "DESC": read_describe,
    "DESCRIBE": read_describe,
    "DROP": read_drop,
    "GENERATE": read_generate,
    "INSERT": read_insert,
    "MERGE": read_merge,
    "OPTIMIZE": read_optimize,
    "REORG": read_reorg,
    "REPLACE": read_replace,
    "RESTORE": read_restore,
    "SHOW": read_show,
    "TRUNCATE": read_truncate,
    "UPDATE": read_update,
    "USE": read_use,
    "VACUUM": read_vacuum,
}


STATEMENTS = ("SELECT", *sorted({*_READERS, "EXPLAIN", "BEGIN"} - {"ANALYZE"}))
"""The words that begin a statement."""

_CLOSERS = ("'", '"', "`", "*/")


def read_statements(text: str, parameters: Mapping[str, object] | None = None, dialect: Dialect = "spark") -> list[Any]:
    """The statements of a script, in order. Raises InvalidInputError, with the line and the column."""
    if dialect not in get_args(Dialect):
        raise invalid("dialect", dialect, "one of " + ", ".join(map(repr, get_args(Dialect))))
    cursors = read_script(text, parameters, dialect)
    if dialect == "duckdb":
        return [_own_query(cursor) for cursor in cursors]
    return [*_with_transactions(cursors)]


def _with_transactions(cursors: Iterable[Cursor]) -> Iterator[Any]:
    """The statements, with a `BeginTransaction` and a `Commit` around those of each transaction."""
    begun: BeginTransaction | None = None
    for cursor in cursors:
        if cursor.word() in BEGINS:
            if begun is not None:
                raise cursor.refused(
                    f"the transaction that begins at {begun.at} has not ended: write {begun.end} before"
                )
            yield (begun := read_begin(cursor))
            if cursor.is_at_end:
                continue
        elif cursor.word() in ENDS:
            yield read_end(cursor, begun)
            begun = None
            continue
        place = cursor.copy()
        statement = _statement(cursor)
        if begun is not None:
            require_part(statement, place)
        yield statement
    if begun is not None:
        raise InvalidInputError(
            f"the transaction that begins at {begun.at} does not end in this text: write {begun.end} after its last"
            " statement; nothing was run"
        )


def _own_query(cursor: Cursor) -> Query:
    if cursor.word() not in BEGINNINGS:
        raise cursor.refused("dialect='duckdb' runs only queries: append their rows to a table, or write them as one")
    return read_query(cursor)


def ends_statement(text: str) -> bool:
    """Whether the last statement of the text has its semicolon: one that is not in a string, a name or a comment.

    True, too, for text with a semicolon at its end that cannot be read whatever follows, so that its error is shown.
    False within a transaction.
    """
    if _begins_and_does_not_end(text):
        return False
    with_more = _count(f"{text}\nx")
    if with_more is not None:
        return with_more != _count(text)
    return text.rstrip().endswith(";") and all(_count(text + closer) is None for closer in _CLOSERS)


def _begins_and_does_not_end(text: str) -> bool:
    begun = False
    with suppress(InvalidInputError):  # the error is shown
        for cursor in read_script(text):
            begun = (begun or cursor.word() in BEGINS) and cursor.word() not in ENDS
    return begun


def _count(text: str) -> int | None:
    """How many statements the text has behind another one without a semicolon; None if it cannot be read."""
    try:
        return len(read_script(f"x {text}"))
    except InvalidInputError:
        return None


def _statement(cursor: Cursor) -> Any:
    if cursor.word() == "WITH":
        cursor = _behind_common_queries(cursor)
    if cursor.word() in BEGINNINGS:
        statement: Any = read_query(cursor)
    else:
        reader = _explain if cursor.word() == "EXPLAIN" else _READERS.get(cursor.word())
        if reader is None:
            close = difflib.get_close_matches(cursor.word(), STATEMENTS, 1)
            raise cursor.refused(
                f"no statement begins like this: {f'did you mean {close[0]}? T' if close else 't'}here are"
                f" {', '.join(STATEMENTS)}"
            )
        cursor.take(cursor.word())
        statement = reader(cursor)
    cursor.expect_end()
    return statement


def _explain(cursor: Cursor) -> Explain:
    cursor.take_one("EXTENDED", "FORMATTED", "COST", "CODEGEN")
    rest = cursor.part("a statement")
    statement = _statement(rest)
    if isinstance(statement, Explain):
        raise rest.refused("EXPLAIN takes a statement")
    return Explain(statement)


def _behind_common_queries(cursor: Cursor) -> Cursor:
    """The cursor, behind ``WITH c AS (...)`` if a statement follows that has a query of its own."""
    ahead = cursor.copy()
    try:
        ahead.take_common_queries()
    except InvalidInputError:  # what is wrong with it, the query says
        return cursor
    if ahead.word() in ("UPDATE", "DELETE"):
        raise ahead.refused("UPDATE and DELETE cannot use the queries of WITH: leave WITH out, or use MERGE INTO")
    return ahead if ahead.word() in ("INSERT", "MERGE") else cursor
