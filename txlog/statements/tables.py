"""Statements that make and remove tables: CREATE TABLE, its CLONE, CONVERT TO DELTA and DROP TABLE.

In: a `Cursor` behind the first word. Out: a value that says what to do. Sources: docs.delta.io, "Table batch reads and
writes", "Clone a Delta table", "Convert a Parquet table".
"""

from __future__ import annotations

import msgspec

from txlog.statements.cursor import Cursor
from txlog.statements.names import AsOf, TableName, read_as_of, read_table_name
from txlog.statements.query import BEGINNINGS, Query, read_query


class CreateTable(msgspec.Struct, frozen=True):
    """``columns`` is DDL, ``constraints`` the CHECKs among it by name; ``query`` the rows of AS SELECT."""

    table: TableName
    columns: str | None = None
    query: Query | None = None
    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    properties: tuple[tuple[str, str], ...] = ()
    constraints: tuple[tuple[str, str], ...] = ()
    comment: str | None = None
    location: str | None = None
    if_not_exists: bool = False
    replaces: bool = False


class Clone(msgspec.Struct, frozen=True):
    table: TableName
    source: TableName
    as_of: AsOf
    is_shallow: bool
    properties: tuple[tuple[str, str], ...] = ()
    location: str | None = None
    if_not_exists: bool = False
    replaces: bool = False


class Convert(msgspec.Struct, frozen=True):
    location: str
    partition_by: str | None = None


class DropTable(msgspec.Struct, frozen=True):
    table: TableName
    if_exists: bool = False


class CreateView(msgspec.Struct, frozen=True):
    """A temporary view, perhaps with other names for the columns of its query.

    ``query`` is as it runs now; ``source`` is how it is written, in which views mean what they do when it is read.
    """

    name: TableName
    query: Query
    source: Query
    columns: tuple[str, ...] = ()
    replaces: bool = False


class DropView(msgspec.Struct, frozen=True):
    name: TableName
    if_exists: bool = False


class Use(msgspec.Struct, frozen=True):
    schema: tuple[str, ...]


def read_create(cursor: Cursor) -> CreateTable | Clone | CreateView:
    if cursor.word() in ("CATALOG", "DATABASE", "NAMESPACE", "SCHEMA"):
        raise cursor.refused("only tables are created: in a folder of tables, the first table of a schema makes it")
    replaces = cursor.take("OR", "REPLACE")
    if cursor.take_one("TEMPORARY", "TEMP"):
        return _view(cursor, replaces=replaces)
    if cursor.word() in ("GLOBAL", "VIEW"):
        raise cursor.refused("a view is part of a session: write CREATE TEMPORARY VIEW")
    cursor.expect("TABLE")
    return _table(cursor, replaces=replaces)


def _view(cursor: Cursor, *, replaces: bool) -> CreateView:
    cursor.expect("VIEW")
    at = cursor.place()
    name = TableName((cursor.name("the name of a view"),), at)
    columns = cursor.inside().whole_list(lambda each: each.name("a column")) if cursor.looks_at("(") else ()
    if cursor.take("COMMENT"):
        cursor.string("a comment")
    cursor.expect("AS")
    query = read_query(cursor)
    return CreateView(name, query, query, columns, replaces)


def read_replace(cursor: Cursor) -> CreateTable | Clone:
    cursor.expect("TABLE")
    return _table(cursor, replaces=True)


def _table(cursor: Cursor, *, replaces: bool) -> CreateTable | Clone:
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    if if_not_exists and replaces:
        raise cursor.refused("write OR REPLACE or IF NOT EXISTS, not both")
    table = read_table_name(cursor)
    if cursor.word() in ("SHALLOW", "DEEP", "CLONE"):
        return _clone(cursor, table, if_not_exists=if_not_exists, replaces=replaces)
    found: dict[str, object] = {}
    if cursor.looks_at("(") and cursor.word(1) not in BEGINNINGS:
        found["columns"], found["constraints"] = _columns(cursor.inside())
    while not cursor.is_at_end and not cursor.looks_at("AS") and cursor.word() not in BEGINNINGS:
        name, value = _part(cursor)
        if name in found:
            raise cursor.refused("this is given twice")
        found[name] = value
    if cursor.take("AS") or not cursor.is_at_end:
        if "columns" in found:
            raise cursor.refused("the columns of CREATE TABLE AS are those of the query: leave out the list of columns")
        found["query"] = read_query(cursor)
    found.pop("using", None)
    return CreateTable(table, if_not_exists=if_not_exists, replaces=replaces, **found)  # type: ignore[arg-type]


def _part(cursor: Cursor) -> tuple[str, object]:
    """One of the clauses behind the columns, in any order."""
    if cursor.take("USING"):
        if not cursor.take("DELTA"):
            raise cursor.refused("tables are made USING DELTA")
        return "using", None
    if cursor.take("PARTITIONED", "BY"):
        return "partition_by", cursor.inside().whole_list(lambda each: each.name("a column"))
    if cursor.take("CLUSTER", "BY"):
        return "cluster_by", cursor.inside().whole_list(lambda each: each.column())
    if cursor.take("TBLPROPERTIES"):
        return "properties", cursor.options()
    if cursor.take("COMMENT"):
        return "comment", cursor.string()
    if cursor.take("LOCATION"):
        return "location", cursor.string()
    raise cursor.refused("expected USING, PARTITIONED BY, CLUSTER BY, TBLPROPERTIES, COMMENT, LOCATION or AS")


def _columns(cursor: Cursor) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The DDL of the columns, and the table's CHECK constraints."""
    columns: list[str] = []
    constraints: list[tuple[str, str]] = []
    while True:
        if cursor.looks_at("CONSTRAINT") and cursor.word(2) == "CHECK":
            cursor.expect("CONSTRAINT")
            name = cursor.name("the name of a constraint")
            cursor.expect("CHECK")
            constraints.append((name, cursor.inside().rest("a condition")))
        else:
            columns.append(cursor.text("a column and its type", ",", is_type=True))
        if not cursor.take(","):
            cursor.expect_end()
            return ", ".join(columns), tuple(constraints)


def _clone(cursor: Cursor, table: TableName, *, if_not_exists: bool, replaces: bool) -> Clone:
    is_shallow = cursor.take_one("SHALLOW", "DEEP") == "SHALLOW"
    cursor.expect("CLONE")
    source, as_of = read_table_name(cursor), read_as_of(cursor)
    properties = cursor.options() if cursor.take("TBLPROPERTIES") else ()
    location = cursor.string() if cursor.take("LOCATION") else None
    return Clone(table, source, as_of, is_shallow, properties, location, if_not_exists, replaces)


def read_convert(cursor: Cursor) -> Convert:
    cursor.expect("TO", "DELTA")
    names = cursor.names("parquet.`path` or iceberg.`path`")
    if len(names) != 2 or names[0].lower() not in ("parquet", "iceberg"):
        raise cursor.refused("a conversion takes parquet.`path` or iceberg.`path`")
    cursor.take("NO", "STATISTICS")
    partition_by = cursor.inside().rest("columns") if cursor.take("PARTITIONED", "BY") else None
    return Convert(names[1], partition_by)


def read_drop(cursor: Cursor) -> DropTable | DropView:
    if cursor.take("VIEW"):
        if_exists, at = cursor.take("IF", "EXISTS"), cursor.place()
        return DropView(TableName((cursor.name("the name of a view"),), at), if_exists)
    cursor.expect("TABLE")
    if_exists = cursor.take("IF", "EXISTS")
    table = read_table_name(cursor)
    cursor.take("PURGE")
    return DropTable(table, if_exists)


def read_use(cursor: Cursor) -> Use:
    if cursor.take("CATALOG"):
        raise cursor.refused("a session has one catalog, which it begins with: USE names a schema")
    cursor.take_one("SCHEMA", "DATABASE", "NAMESPACE")
    return Use(cursor.names("a schema"))
