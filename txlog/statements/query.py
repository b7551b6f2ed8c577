"""A query, and the tables that it reads.

In: a `Cursor` at SELECT, WITH, VALUES, TABLE or FROM. Out: `Query`: the text with a placeholder for each table, which
an engine takes as it is. ``VERSION AS OF``, ``TIMESTAMP AS OF``, ``t@v3`` and ``table_changes(...)`` are part of what a
placeholder stands for.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias

import msgspec
import sqlglot
from sqlglot import exp

from txlog.core.format.schema import backquoted
from txlog.core.predicates import QueryDialect
from txlog.core.util import pattern
from txlog.errors import InvalidInputError
from txlog.statements.cursor import Cursor, Dialect, DuckdbDialect
from txlog.statements.names import AsOf, TableName, read_as_of, read_table_name, table_in_string

BEGINNINGS = ("SELECT", "WITH", "VALUES", "TABLE", "FROM", "(")

FAULTS = (sqlglot.errors.SqlglotError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What sqlglot raises for text that it cannot take: its own error, or what happens to it."""

_CHANGES = (exp.Insert, exp.Update, exp.Delete, exp.Merge, exp.Create, exp.Into)

_Span: TypeAlias = "tuple[int, int, Reading | None, bool]"
"""A part of the text, from where to where: a table and whether it has an alias, or None for what is left out."""

_AT_VERSION = pattern(r"[vV](\d+)")
_ALL_OF = pattern(r"\s*(?:SELECT\s*\*\s*FROM\s*)?", re.IGNORECASE)
_AT_MOST = pattern(r"(?:\s+AS `[^`]*`)?(?:\s+LIMIT\s+(\d{1,18}))?\s*", re.IGNORECASE)
_VERSIONED = ("VERSION", "TIMESTAMP", "SYSTEM_VERSION", "SYSTEM_TIME")


class ChangesOf(msgspec.Struct, frozen=True):
    """The versions, or times, of ``table_changes(name, from, to)``, as literals."""

    first: str
    last: str | None = None


class Reading(msgspec.Struct, frozen=True):
    """One table that a query reads: the rows of a version, or the changes of several."""

    table: TableName
    as_of: AsOf = AsOf()
    changes: ChangesOf | None = None


class Whole(msgspec.Struct, frozen=True):
    """All rows of a table, or as many as the LIMIT says."""

    limit: int | None = None


class Query(msgspec.Struct, frozen=True):
    """``pieces`` are the query's text, with a table of ``readings`` between each two of them."""

    pieces: tuple[str, ...]
    readings: tuple[Reading, ...]
    at: str = ""
    dialect: Dialect = "spark"

    def text(self, *names: str) -> str:
        """The text with these names in place of the tables."""
        return self.pieces[0] + "".join(f"{name}{piece}" for name, piece in zip(names, self.pieces[1:], strict=True))

    def escaped(self) -> Query:
        """The query for Python's ``str.format``."""
        pieces = tuple(piece.replace("{", "{{").replace("}", "}}") for piece in self.pieces)
        return msgspec.structs.replace(self, pieces=pieces)

    @property
    def whole(self) -> Whole | None:
        """What the query is, if it is all of one table: ``TABLE t``, or ``SELECT * FROM t``, perhaps with a LIMIT."""
        if len(self.pieces) != 2 or not _ALL_OF.fullmatch(self.pieces[0]):
            return None
        end = _AT_MOST.fullmatch(self.pieces[1])
        return None if end is None else Whole(None if end[1] is None else int(end[1]))


def read_query(cursor: Cursor) -> Query:
    """The query at the cursor, up to its end."""
    at = cursor.place()
    if cursor.take("TABLE"):
        return read_whole(cursor)[1]
    if cursor.word() not in BEGINNINGS:
        raise cursor.refused("expected a query: SELECT, WITH or VALUES")
    if cursor.common_queries and cursor.word() == "WITH":
        raise cursor.refused("the statement already begins with WITH: write all of its queries there")
    return _split(*_without_versions(cursor.behind_common_queries()), at, cursor.dialect)


def query_around(parts: Sequence[str | Cursor], at: str) -> Query:
    """The query of these texts, one behind the other."""
    text = ""
    marked: dict[int, Reading] = {}
    places: dict[int, str] = {}
    for part in parts:
        if isinstance(part, str):
            text += part
            continue
        found, its_marked, its_places = _without_versions(part)
        before = len(text)
        places.update({end + before: place for end, place in its_places.items()})
        marked.update({begin + (before if begin > 0 else -before): read for begin, read in its_marked.items()})
        text += found
    return _split(text, marked, places, at)


def names_in(query: Query) -> set[tuple[str, ...]]:
    """The names of columns in it, those of the queries in it included, by their parts."""
    tree = sqlglot.parse_one(query.text(*(f"t{at}" for at in range(len(query.readings)))), dialect=QueryDialect)
    return {tuple(part.name for part in column.parts) for column in tree.find_all(exp.Column)}


def read_whole(cursor: Cursor) -> tuple[TableName, Query]:
    """The table that is named at the cursor, or one of the queries in front of the statement, and all of its rows."""
    name, as_of = read_table_name(cursor), read_as_of(cursor)
    if as_of != AsOf() or len(name.parts) != 1 or not cursor.common_queries:
        return name, Query(("SELECT * FROM ", ""), (Reading(name, as_of),), name.at)
    text, marked, places = _without_versions(cursor.common_queries_alone())
    return name, _split(f"{text} SELECT * FROM {backquoted(name.parts[0])}", marked, places, name.at)


def _without_versions(cursor: Cursor) -> tuple[str, dict[int, Reading], dict[int, str]]:
    """The text up to the end without what says which version of a table, what was left out by where it was, and the
    places in the statement of what ends there."""
    pieces: list[str] = []
    places: dict[int, str] = {}
    marked: dict[int, Reading] = {}
    length = 0

    def add(text: str) -> None:
        nonlocal length
        pieces.append(text)
        length += len(text)

    while not cursor.is_at_end:
        word = cursor.word()
        if word == "TABLE_CHANGES" and cursor.looks_at(word, "("):
            cursor.take(word)
            reading = _changes(cursor.inside())
            add(" ")
            marked[length] = reading
            add("`table_changes`")
        elif cursor.word(word == "FOR") in _VERSIONED and (word == "FOR" or cursor.looks_at(word, "AS", "OF")):
            end = length
            as_of = read_as_of(cursor)
            marked[-end] = Reading(TableName(()), as_of)
        elif word == "@" and _AT_VERSION.fullmatch(cursor.word(1)):
            marked[-length] = Reading(TableName(()), AsOf(version=int(cursor.word(1)[1:])))
            cursor.take("@", cursor.word(1))
        else:
            place = cursor.place()
            add(cursor.next_text(is_first=not length))
            places[length] = place
    return "".join(pieces), marked, places


def _changes(cursor: Cursor) -> Reading:
    at = cursor.place()
    name = table_in_string(cursor, at) if cursor.is_at_string() else read_table_name(cursor)
    if cursor.take(","):
        first = _version_or_time(cursor)
        last = _version_or_time(cursor) if cursor.take(",") else None
        cursor.expect_end()
        return Reading(name, changes=ChangesOf(first, last))
    raise cursor.refused("expected table_changes(table, from, to)")


def _version_or_time(cursor: Cursor) -> str:
    """Its text. A parameter from a command line is text, so digits are a version there, as in VERSION AS OF."""
    return str(cursor.whole_number()) if cursor.is_at_digits() else cursor.primary("a version or a time")


def _split(text: str, marked: dict[int, Reading], places: dict[int, str], at: str, dialect: Dialect = "spark") -> Query:
    try:
        tree = sqlglot.parse_one(text, dialect=DuckdbDialect if dialect == "duckdb" else QueryDialect)
    except FAULTS as error:
        fault = error.errors[0] if isinstance(error, sqlglot.errors.ParseError) and error.errors else {}
        near = f" near {fault['highlight']!r}" if fault.get("highlight") else ""
        why = _reason(str(fault.get("description", error)), fault.get("highlight"))
        raise InvalidInputError(f"the query at {at} cannot be read{near}: {why}; nothing was run") from None
    if tree.find(*_CHANGES) is not None:
        raise InvalidInputError(
            f"the query at {at} changes a table, which a query cannot: write INSERT INTO t WITH c AS (...) SELECT ...,"
            " CREATE TABLE t AS WITH c AS (...) SELECT ..., or MERGE INTO t USING (WITH c AS (...) SELECT ...);"
            " nothing was run"
        )
    for word in tree.find_all(exp.Identifier) if dialect == "spark" else ():
        if text[word.meta.get("start", len(text)) :][:1] in ("'", '"'):
            how = "write the name, in backquotes if it is not a plain word: "
            if "/" in word.name:
                how = "write a table by its location as delta."
            raise InvalidInputError(
                f"the query at {at} has a string, or a parameter, for the name of a table or a column, and it is a"
                f" value: {how}{backquoted(word.name)}; nothing was run"
            )
    spans: list[_Span] = []
    left = dict(marked)
    for table, is_named in _tables(tree):
        parts = [part for part in table.parts if part.meta.get("start") is not None]
        if not parts:
            continue  # a function that makes rows
        begin, end = parts[0].meta["start"], parts[-1].meta["end"] + 1
        reading = left.pop(begin, None) if begin else None
        version = left.pop(-end, None)
        if reading is None:
            if not is_named:
                continue
            place = places.get(parts[0].meta["end"] + 1, at)
            name = TableName(tuple(part.name for part in parts), place)
            reading = Reading(name, version.as_of if version else AsOf())
        spans.append((begin, end, reading, bool(table.alias)))
    if left:
        raise InvalidInputError(
            f"the query at {at} has VERSION AS OF or TIMESTAMP AS OF where no table's name is directly before it: write"
            " it after the name, and the alias after it; nothing was run"
        )
    spans += _qualifiers(tree, spans)
    return _with_placeholders(text, sorted(spans, key=lambda span: span[0]), at, dialect)


def _reason(description: str, near: str | None) -> str:
    """What is wrong, without the names of sqlglot's classes."""
    if near in ("/", ".", "~"):
        return "a table by its location is in backquotes, as delta.`./orders`"
    if description.startswith("Required keyword"):
        return "a value or a keyword is missing"
    if description.startswith("Invalid expression"):
        return "that is not expected there"
    return description.partition(" but got ")[0]


def _tables(tree: exp.Expr) -> list[tuple[exp.Table, bool]]:
    """The tables of a query, each with whether it is one of the catalog, and not a part of the query."""
    found = []
    for table in tree.find_all(exp.Table):
        if isinstance(table.this, exp.Identifier):
            is_cte = len(table.parts) == 1 and table.name.lower() in _common_names(table)
            found.append((table, not is_cte))
    return found


def _common_names(table: exp.Table) -> set[str]:
    """The names that WITH gives to queries where the table is."""
    names: set[str] = set()
    inner: exp.Expr = table
    while inner.parent is not None:
        above = inner.parent
        common = above.args.get("with_") or above.args.get("with")
        if isinstance(above, exp.With):  # a query sees those before it
            before = above.expressions[: above.expressions.index(inner) + bool(above.args.get("recursive"))]
            names |= {each.alias.lower() for each in before}
        elif common is not None and common is not inner:
            names |= {each.alias.lower() for each in common.expressions}
        inner = above
    return names


def _qualifiers(tree: exp.Expr, spans: list[_Span]) -> list[_Span]:
    """What columns have before the last part of their table's name, as in ``sales.orders.id``: a placeholder has that
    part alone as its alias."""
    named = [reading.table.parts for _, _, reading, has_alias in spans if reading is not None and not has_alias]
    others = {table.alias.lower() for table in tree.find_all(exp.Table) if table.alias}
    lasts = Counter(parts[-1] for parts in {tuple(map(str.lower, parts)) for parts in named} if parts)
    found: list[_Span] = []
    for column in tree.find_all(exp.Column):
        names = [part.name.lower() for part in column.parts]
        for parts in named:
            whole = [part.lower() for part in parts]
            if len(whole) < 2 or names[: len(whole)] != whole or len(names) == len(whole):
                continue
            if whole[0] in others or lasts[whole[-1]] > 1:
                continue  # it may be a field of another table's column, or one of several tables
            begin, end = (column.parts[at].meta["start"] for at in (0, len(whole) - 1))
            found.append((begin, end, None, False))
            break
    return found


def _with_placeholders(text: str, spans: list[_Span], at: str, dialect: Dialect) -> Query:
    pieces, done = [""], 0
    for begin, end, reading, has_alias in spans:
        pieces[-1] += text[done:begin]
        done = end
        if reading is not None:
            name = "table_changes" if reading.changes else reading.table.parts[-1]
            quoted = backquoted(name) if dialect == "spark" else exp.to_identifier(name, quoted=True).sql("duckdb")
            pieces.append("" if has_alias else f" AS {quoted}")
    pieces[-1] += text[done:]
    return Query(tuple(pieces), tuple(reading for _, _, reading, _ in spans if reading is not None), at, dialect)
