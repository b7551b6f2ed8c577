"""Statements that tell about tables: DESCRIBE and SHOW.

In: a `Cursor` behind the first word. Out: a value that says what is asked. Sources: docs.delta.io, "Table utility
commands"; Spark's SQL reference, "Auxiliary statements".
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from txlog.core.catalogs import name_text
from txlog.statements.cursor import Cursor
from txlog.statements.names import TableName, read_table_name
from txlog.statements.query import BEGINNINGS, Query, read_query


class Describe(msgspec.Struct, frozen=True):
    table: TableName
    is_extended: bool = False


class DescribeQuery(msgspec.Struct, frozen=True):
    """The columns of a query; with ``names_only`` as SHOW COLUMNS tells them."""

    query: Query
    names_only: bool = False


class Explain(msgspec.Struct, frozen=True):
    """Which files a statement would read."""

    statement: Any


class DescribeDetail(msgspec.Struct, frozen=True):
    table: TableName


class DescribeHistory(msgspec.Struct, frozen=True):
    table: TableName
    limit: int | None = None


class ShowTables(msgspec.Struct, frozen=True):
    schema: str | None = None
    pattern: str | None = None


class ShowSchemas(msgspec.Struct, frozen=True):
    pattern: str | None = None


class ShowViews(msgspec.Struct, frozen=True):
    pattern: str | None = None


class ShowCreate(msgspec.Struct, frozen=True):
    table: TableName


class ShowColumns(msgspec.Struct, frozen=True):
    table: TableName


class ShowPartitions(msgspec.Struct, frozen=True):
    table: TableName


class ShowBranches(msgspec.Struct, frozen=True):
    table: TableName


class ShowProperties(msgspec.Struct, frozen=True):
    table: TableName
    key: str | None = None


def read_describe(cursor: Cursor) -> Describe | DescribeQuery | DescribeDetail | DescribeHistory:
    if cursor.take("QUERY") or cursor.word() in BEGINNINGS[:3]:
        return DescribeQuery(read_query(cursor))
    if cursor.take("HISTORY"):
        table = read_table_name(cursor)
        return DescribeHistory(table, cursor.whole_number() if cursor.take("LIMIT") else None)
    if cursor.take("DETAIL"):
        return DescribeDetail(read_table_name(cursor))
    cursor.take("TABLE")
    is_extended = cursor.take_one("EXTENDED", "FORMATTED") is not None
    return Describe(read_table_name(cursor), is_extended)


Show: TypeAlias = (
    ShowTables | ShowSchemas | ShowViews | ShowCreate | ShowColumns | ShowPartitions | ShowBranches | ShowProperties
)


def read_show(cursor: Cursor) -> Show:
    if cursor.take("TABLES"):
        schema = name_text(cursor.names("a schema")) if cursor.take_one("IN", "FROM") else None
        return ShowTables(schema, _pattern(cursor))
    if cursor.take_one("SCHEMAS", "DATABASES", "NAMESPACES"):
        return ShowSchemas(_pattern(cursor))
    if cursor.take("VIEWS"):
        return ShowViews(_pattern(cursor))
    if cursor.take("CREATE", "TABLE"):
        return ShowCreate(read_table_name(cursor))
    if cursor.take("COLUMNS"):
        if cursor.take_one("IN", "FROM") is None:
            raise cursor.refused("expected IN")
        return ShowColumns(read_table_name(cursor))
    if cursor.take("PARTITIONS"):
        return ShowPartitions(read_table_name(cursor))
    if cursor.take("BRANCHES"):
        return ShowBranches(read_table_name(cursor))
    if not cursor.take("TBLPROPERTIES"):
        raise cursor.refused(
            "expected TABLES, SCHEMAS, VIEWS, COLUMNS, PARTITIONS, BRANCHES, TBLPROPERTIES or CREATE TABLE"
        )
    table = read_table_name(cursor)
    return ShowProperties(table, cursor.inside().key() if cursor.looks_at("(") else None)


def _pattern(cursor: Cursor) -> str | None:
    return cursor.string("a pattern") if cursor.take("LIKE") or cursor.is_at_string() else None
