"""Statements that keep a table fast, small and right: OPTIMIZE, REORG, VACUUM, GENERATE and RESTORE.

In: a `Cursor` behind the first word. Out: a value that says what to do. Sources: docs.delta.io, "Optimizations", "Table
utility commands".
"""

from __future__ import annotations

from typing import NoReturn

import msgspec

from txlog.statements.cursor import Cursor
from txlog.statements.names import AsOf, TableName, read_as_of, read_table_name

_ONCE = "ZORDER BY (a, b) orders the rows once; ALTER TABLE ... CLUSTER BY (a, b) makes every later OPTIMIZE order them"


class Optimize(msgspec.Struct, frozen=True):
    table: TableName
    where: str | None = None
    zorder_by: tuple[str, ...] = ()


class Purge(msgspec.Struct, frozen=True):
    table: TableName
    where: str | None = None


class Vacuum(msgspec.Struct, frozen=True):
    table: TableName
    retention_hours: float | None = None
    dry_run: bool = False
    lite: bool | None = None


class Generate(msgspec.Struct, frozen=True):
    table: TableName
    mode: str


class Restore(msgspec.Struct, frozen=True):
    table: TableName
    to: AsOf


def read_optimize(cursor: Cursor) -> Optimize:
    table = read_table_name(cursor)
    where = cursor.text("a condition", "ZORDER BY", "CLUSTER BY") if cursor.take("WHERE") else None
    columns: tuple[str, ...] = ()
    if cursor.looks_at("CLUSTER", "BY"):
        raise cursor.refused(_ONCE)
    if cursor.take("ZORDER", "BY"):
        inside = cursor.inside() if cursor.looks_at("(") else None
        columns = inside.whole_list(lambda each: each.column()) if inside else cursor.list(lambda each: each.column())
    return Optimize(table, where, columns)


def read_reorg(cursor: Cursor) -> Purge:
    cursor.take("TABLE")
    table = read_table_name(cursor)
    where = cursor.text("a condition", "APPLY") if cursor.take("WHERE") else None
    cursor.expect("APPLY", "(", "PURGE", ")")
    return Purge(table, where)


def read_vacuum(cursor: Cursor) -> Vacuum:
    table = read_table_name(cursor)
    retention_hours, dry_run, lite = None, False, None
    while not cursor.is_at_end:
        if cursor.take("RETAIN"):
            retention_hours = cursor.number("a number of hours")
            if cursor.take_one("HOURS", "HOUR") is None:
                raise cursor.refused("expected HOURS")
        elif cursor.take("DRY", "RUN"):
            dry_run = True
        elif (kind := cursor.take_one("LITE", "FULL")) is not None:
            lite = kind == "LITE"
        else:
            raise cursor.refused("expected RETAIN, DRY RUN, LITE or FULL")
    return Vacuum(table, retention_hours, dry_run, lite)


def read_generate(cursor: Cursor) -> Generate:
    mode = cursor.name()
    cursor.expect("FOR", "TABLE")
    return Generate(read_table_name(cursor), mode)


def read_analyze(cursor: Cursor) -> NoReturn:
    raise cursor.refused(
        "there are no statistics to compute. Each write stores statistics of its files, and readers skip files by them."
        " Files that another program added without any get them when OPTIMIZE or a change of their rows writes them"
        " again. What Spark's optimizer keeps about columns is in Spark's own catalog"
    )


def read_restore(cursor: Cursor) -> Restore:
    cursor.take("TABLE")
    table = read_table_name(cursor)
    cursor.expect("TO")
    to = read_as_of(cursor)
    if to == AsOf():
        raise cursor.refused("expected VERSION AS OF or TIMESTAMP AS OF")
    return Restore(table, to)
