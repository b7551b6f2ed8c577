"""Statements that change rows: INSERT, UPDATE, DELETE, TRUNCATE, MERGE and COPY INTO.

In: a `Cursor` behind the first word. Out: a value that says what to do. Sources: the syntax of Spark's Delta,
docs.delta.io "Table deletes, updates, and merges".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from txlog.core.format.schema import backquoted, fold_name
from txlog.result import counted
from txlog.statements.cursor import Cursor
from txlog.statements.names import TableName, read_table_name
from txlog.statements.query import Query, query_around, read_query, read_whole

_WHEN = ("WHEN",)

Assignments: TypeAlias = tuple[tuple[tuple[str, ...], str], ...]
"""Columns, or fields of structs, by their paths, and the texts of their values."""


class Insert(msgspec.Struct, frozen=True):
    """``columns`` are those that the query's columns go to, in order; None: all, or those of the same names.

    ``where`` is the condition of REPLACE WHERE. PARTITION has ``partition``, the columns with a constant, and
    ``left_to_rows``, those without.
    """

    table: TableName
    query: Query
    overwrites: bool = False
    where: str | None = None
    partition: tuple[tuple[str, str], ...] = ()
    left_to_rows: tuple[str, ...] = ()
    columns: tuple[str, ...] | None = None
    with_defaults: tuple[tuple[str, ...], ...] = ()
    """The rows of VALUES, if DEFAULT is among them."""
    by_name: bool = False
    merges_schema: bool = False


class Delete(msgspec.Struct, frozen=True):
    table: TableName
    where: str | None = None


class Update(msgspec.Struct, frozen=True):
    table: TableName
    values: Assignments
    where: str | None = None


class ChangeByQuery(msgspec.Struct, frozen=True):
    """A DELETE, or with ``values`` an UPDATE, whose condition or values have queries.

    ``query`` is of the rows to change, which the table calls ``alias``. It selects the column ``KEYS``, in whose place
    go all columns that its rows depend on, and the values that have queries; in ``values``, these are columns of
    ``SOURCE``.
    """

    table: TableName
    alias: str
    query: Query
    values: Assignments | None = None

    def selecting(self, columns: Sequence[str]) -> Query:
        """The query with these columns of the table in place of ``KEYS``: as ``KEYS0``, ``KEYS1``, ..."""
        listed = (f"{backquoted(self.alias)}.{backquoted(name)} AS {KEYS}{at}" for at, name in enumerate(columns))
        first, *rest = self.query.pieces
        return msgspec.structs.replace(self.query, pieces=(first.replace(KEYS, ", ".join(listed), 1), *rest))


KEYS, SOURCE = "txlog_key", "txlog_source"


class Clause(msgspec.Struct, frozen=True):
    """One WHEN clause; ``values`` None means all columns."""

    when: Literal["matched", "not matched", "not matched by source"]
    then: Literal["update", "insert", "delete"]
    values: Assignments | None = None
    condition: str | None = None


class Merge(msgspec.Struct, frozen=True):
    table: TableName
    alias: str
    query: Query
    source_alias: str
    on: str
    clauses: tuple[Clause, ...]
    merges_schema: bool = False


class CopyInto(msgspec.Struct, frozen=True):
    table: TableName
    source: str
    format: str
    pattern: str | None = None
    format_options: tuple[tuple[str, str], ...] = ()
    copy_options: tuple[tuple[str, str], ...] = ()


def read_insert(cursor: Cursor) -> Insert:
    merges_schema = cursor.take("WITH", "SCHEMA", "EVOLUTION")
    overwrites = cursor.take_one("INTO", "OVERWRITE")
    if overwrites is None:
        raise cursor.refused("expected INTO or OVERWRITE")
    cursor.take("TABLE")
    table = read_table_name(cursor)
    where = cursor.text("a condition", "SELECT", "WITH", "VALUES", "TABLE", "FROM") if _replaces(cursor) else None
    (partition, left_to_rows), columns, by_name = _partition(cursor), None, cursor.take("BY", "NAME")
    if cursor.looks_at("(") and cursor.word(1) not in ("SELECT", "WITH", "VALUES", "("):
        columns = cursor.inside().whole_list(lambda each: each.name("a column"))
        by_name = False
    if where is not None and overwrites == "OVERWRITE":
        raise cursor.refused("REPLACE WHERE goes with INSERT INTO")
    defaults = _rows_with_defaults(cursor)
    query = read_query(cursor)
    given = overwrites == "OVERWRITE", where, partition, left_to_rows, columns, defaults, by_name, merges_schema
    return Insert(table, query, *given)


def _rows_with_defaults(cursor: Cursor) -> tuple[tuple[str, ...], ...]:
    if not (cursor.looks_at("VALUES", "(") and "DEFAULT" in (cursor.word(ahead) for ahead in range(len(cursor)))):
        return ()
    ahead = cursor.copy()
    ahead.expect("VALUES")
    rows = ahead.whole_list(lambda row: row.inside().whole_list(lambda each: each.text("a value", ",")))
    return rows if any(is_default(value) for row in rows for value in row) else ()


def is_default(text: str) -> bool:
    """Whether a value is the word DEFAULT."""
    return text.upper() == "DEFAULT"


def _replaces(cursor: Cursor) -> bool:
    return cursor.take("REPLACE", "WHERE")


def _partition(cursor: Cursor) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """The partition columns with a value each, and those whose values the rows have, as in PARTITION (day)."""
    if not cursor.take("PARTITION"):
        return (), ()

    seen = set()

    def constant(each: Cursor) -> tuple[str, str | None]:
        ahead = each.copy()
        column = each.name("a partition column")
        if fold_name(column) in seen:
            raise ahead.refused(f"PARTITION has {column} twice")
        seen.add(fold_name(column))
        return column, each.text("a value", ",") if each.take("=") else None

    found = cursor.inside().whole_list(constant)
    constants = tuple((column, text) for column, text in found if text is not None)
    return constants, tuple(column for column, text in found if text is None)


def read_delete(cursor: Cursor) -> Delete | ChangeByQuery:
    cursor.expect("FROM")
    table, names = _target(cursor, "WHERE")
    where = cursor.part("a condition") if cursor.take("WHERE") else None
    if where is not None and where.has_query:
        return _by_query(table, names, where, (), None)
    return Delete(table, None if where is None else _rendered(where, names))


def _rendered(cursor: Cursor, names: _Names) -> str:
    """The text, in which columns have no table in front of them."""
    cursor.qualifiers = tuple((name, "") for name in names)
    return cursor.rendered()


def _by_query(
    table: TableName, names: _Names, where: Cursor | None, queries: Sequence[Cursor], values: Assignments | None
) -> ChangeByQuery:
    named = ".".join(map(backquoted, table.parts))
    if names[0] != table.parts:
        named += f" AS {backquoted(names[0][-1])}"
    parts: list[str | Cursor] = [f"SELECT DISTINCT {KEYS}"]
    for at, each in enumerate(queries):
        parts += [", (", each, f") AS {_value(at)}"]
    parts.append(f" FROM {named}")
    parts += [] if where is None else [" WHERE ", where]
    return ChangeByQuery(table, names[0][-1], query_around(parts, table.at), values)


def _value(at: int) -> str:
    return f"txlog_value{at}"


def read_truncate(cursor: Cursor) -> Delete:
    cursor.expect("TABLE")
    table = read_table_name(cursor)
    return Delete(table)


def read_update(cursor: Cursor) -> Update | ChangeByQuery:
    table, names = _target(cursor, "SET")
    cursor.expect("SET")
    queries: list[Cursor] = []

    def value(each: Cursor) -> tuple[tuple[str, ...], str]:
        path, text = _set(each, names), each.part("a value", ",", "WHERE")
        if not text.has_query:
            return path, _rendered(text, names)
        queries.append(text)
        return path, f"{SOURCE}.{_value(len(queries) - 1)}"

    values = cursor.list(value)
    where = cursor.part("a condition") if cursor.take("WHERE") else None
    if queries or (where is not None and where.has_query):
        return _by_query(table, names, where, queries, values)
    return Update(table, values, None if where is None else _rendered(where, names))


_Names: TypeAlias = tuple[tuple[str, ...], ...]
"""What a table may be called in front of a column: by its alias, or by its whole name or the last part of it."""


def _folded(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(map(fold_name, names))


def _target(cursor: Cursor, *stops: str) -> tuple[TableName, _Names]:
    table = read_table_name(cursor)
    if cursor.take("AS") or not (cursor.is_at_end or cursor.word() in stops):
        return table, ((cursor.name("an alias"),),)
    return table, tuple(dict.fromkeys((table.parts, table.parts[-1:])))


def _assignment(cursor: Cursor, names: _Names, *stops: str) -> tuple[tuple[str, ...], str]:
    return _set(cursor, names), cursor.text("a value", *stops)


def _set(cursor: Cursor, names: _Names) -> tuple[str, ...]:
    """The column or field in front of ``=``. Moves behind it."""
    path = cursor.names("a column")
    for name in names:
        if len(path) > len(name) and _folded(path[: len(name)]) == _folded(name):
            path = path[len(name) :]
            break
    if not cursor.take("=") and not cursor.take("=="):
        raise cursor.refused("expected =")
    return path


def read_merge(cursor: Cursor) -> Merge:
    merges_schema = cursor.take("WITH", "SCHEMA", "EVOLUTION")
    cursor.expect("INTO")
    table, names = _target(cursor, "USING")
    cursor.expect("USING")
    source: tuple[str, ...] = ("source",)
    if cursor.looks_at("("):
        inside = cursor.inside()
        query = read_query(inside)
        inside.expect_end()
    else:
        name, query = read_whole(cursor)
        source = name.parts
    if cursor.take("AS") or not cursor.looks_at("ON"):
        source = (cursor.name("an alias"),)
    alias, source_alias = names[0][-1], source[-1]
    if fold_name(alias) == fold_name(source_alias):
        alias, source_alias = ".".join(names[0]), ".".join(source)
        if fold_name(alias) == fold_name(source_alias):
            raise cursor.refused(f"the table and the source are both called {alias}: give one of them another alias")
    whole = ((names[0], alias), (source, source_alias))
    cursor.qualifiers = tuple((parts, f"{backquoted(text)}.") for parts, text in whole if len(parts) > 1)
    if cursor.looks_at("("):  # which Spark refuses too
        raise cursor.refused(
            f"a MERGE does not name its source's columns here: write USING (SELECT * FROM VALUES (...) AS v(id, name))"
            f" AS {source_alias}"
        )
    cursor.expect("ON")
    on = cursor.text("a condition", *_WHEN)
    clauses: list[Clause] = []
    while cursor.take("WHEN"):
        clauses.append(_clause(cursor, table, names))
    if not clauses:
        raise cursor.refused("expected WHEN MATCHED or WHEN NOT MATCHED")
    return Merge(table, alias, query, source_alias, on, tuple(clauses), merges_schema)


def _clause(cursor: Cursor, table: TableName, names: _Names) -> Clause:
    when: Literal["matched", "not matched", "not matched by source"] = "matched"
    if not cursor.take("MATCHED"):
        cursor.expect("NOT", "MATCHED")
        when = "not matched"
        if cursor.take("BY", "SOURCE"):
            when = "not matched by source"
        else:
            cursor.take("BY", "TARGET")
    condition = cursor.text("a condition", "THEN") if cursor.take("AND") else None
    cursor.expect("THEN")
    if when == "not matched":
        cursor.expect("INSERT")
        return Clause(when, "insert", _inserted(cursor, table, names), condition)
    if cursor.take("DELETE"):
        return Clause(when, "delete", None, condition)
    cursor.expect("UPDATE")
    if cursor.take("SET", "*") or (when == "matched" and cursor.take("*")):
        if when != "matched":
            raise cursor.refused("a row without a source cannot get all of its columns")
        return Clause(when, "update", None, condition)
    cursor.expect("SET")
    return Clause(when, "update", cursor.list(lambda each: _assignment(each, names, ",", *_WHEN)), condition)


def _inserted(cursor: Cursor, table: TableName, names: _Names) -> Assignments | None:
    if cursor.take("*"):
        return None
    qualifiers = [(), *map(_folded, names), _folded(table.parts)]

    def column(each: Cursor) -> tuple[str, ...]:
        ahead = each.copy()
        *qualifier, name = each.names("a column")
        if _folded(qualifier) not in qualifiers:
            raise ahead.refused(
                f"INSERT names columns of {names[-1][0]}, not fields: write named_struct for a whole struct"
            )
        return (name,)

    columns = cursor.inside().whole_list(column)
    cursor.expect("VALUES")
    values = cursor.inside().whole_list(lambda each: each.text("a value", ","))
    if len(columns) != len(values):
        raise cursor.refused(f"there are {counted(len(columns), 'column')} and {counted(len(values), 'value')}")
    return tuple(zip(columns, values, strict=True))


def read_copy(cursor: Cursor) -> CopyInto:
    cursor.expect("INTO")
    table = read_table_name(cursor)
    cursor.expect("FROM")
    source = cursor.string("the folder of the files")
    cursor.expect("FILEFORMAT", "=")
    format, pattern = cursor.name("a format").lower(), None
    given: dict[str, tuple[tuple[str, str], ...]] = {}
    if format not in ("parquet", "csv", "json"):
        raise cursor.refused("the format is PARQUET, CSV or JSON")
    while not cursor.is_at_end:
        if cursor.take("PATTERN", "="):
            pattern = cursor.string("a pattern of names")
        elif (kind := cursor.take_one("FORMAT_OPTIONS", "COPY_OPTIONS")) is not None:
            given[kind] = cursor.options()
        else:
            raise cursor.refused("expected PATTERN, FORMAT_OPTIONS or COPY_OPTIONS")
    options = given.get("FORMAT_OPTIONS", ()), given.get("COPY_OPTIONS", ())
    return CopyInto(table, source, format, pattern, *options)
