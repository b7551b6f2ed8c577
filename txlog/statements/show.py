"""Statements that tell about tables: DESCRIBE and SHOW.

In: a `Cursor` behind the first word. Out: a value that says what is asked. Sources: docs.delta.io, "Table utility
commands"; Spark's SQL reference, "Auxiliary statements".
"""

from __future__ import annotations

import msgspec

from txlog.core.catalogs import name_text
from txlog.statements.cursor import Cursor
from txlog.statements.names import TableName, read_table_name

__all__ = [
    "Describe",
    "DescribeDetail",
    "DescribeHistory",
    "ShowColumns",
    "ShowPartitions",
    "ShowProperties",
    "ShowTables",
    "read_describe",
    "read_show",
]


class Describe(msgspec.Struct, frozen=True):
    table: TableName
    is_extended: bool = False


class DescribeDetail(msgspec.Struct, frozen=True):
    table: TableName


class DescribeHistory(msgspec.Struct, frozen=True):
    table: TableName
    limit: int | None = None


class ShowTables(msgspec.Struct, frozen=True):
    schema: str | None = None
    pattern: str | None = None


class ShowColumns(msgspec.Struct, frozen=True):
    table: TableName


class ShowPartitions(msgspec.Struct, frozen=True):
    table: TableName


class ShowProperties(msgspec.Struct, frozen=True):
    table: TableName
    key: str | None = None


def read_describe(cursor: Cursor) -> Describe | DescribeDetail | DescribeHistory:
    if cursor.take("HISTORY"):
        table = read_table_name(cursor)
        return DescribeHistory(table, cursor.whole_number() if cursor.take("LIMIT") else None)
    if cursor.take("DETAIL"):
        return DescribeDetail(read_table_name(cursor))
    cursor.take("TABLE")
    is_extended = cursor.take_one("EXTENDED", "FORMATTED") is not None
    return Describe(read_table_name(cursor), is_extended)


def read_show(cursor: Cursor) -> ShowTables | ShowColumns | ShowPartitions | ShowProperties:
    if cursor.take("TABLES"):
        schema = name_text(cursor.names("a schema")) if cursor.take_one("IN", "FROM") else None
        has_pattern = cursor.take("LIKE") or cursor.is_at_string()
        return ShowTables(schema, cursor.string("a pattern") if has_pattern else None)
    if cursor.take("COLUMNS"):
        if cursor.take_one("IN", "FROM") is None:
            raise cursor.refused("expected IN")
        return ShowColumns(read_table_name(cursor))
    if cursor.take("PARTITIONS"):
        return ShowPartitions(read_table_name(cursor))
    if not cursor.take("TBLPROPERTIES"):
        raise cursor.refused("expected TABLES, COLUMNS, PARTITIONS or TBLPROPERTIES")
    table = read_table_name(cursor)
    return ShowProperties(table, cursor.inside().key() if cursor.looks_at("(") else None)
