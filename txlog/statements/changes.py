"""Statements that change a table's definition: ALTER TABLE and COMMENT ON.

In: a `Cursor` behind the first word. Out: `AlterTable` with one change, or a `ColumnComment`. Sources: docs.delta.io,
"Update table schema", "Constraints", "Type widening", "Use liquid clustering".
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from txlog.core.format.properties import path_text
from txlog.statements.cursor import Cursor
from txlog.statements.names import TableName, read_table_name


class NewColumn(msgspec.Struct, frozen=True):
    """A column in DDL; ``path`` is the struct that it goes into, ``after`` its neighbor, or "" to be the first."""

    name: str
    ddl: str
    path: tuple[str, ...] = ()
    after: str | None = None


class AddColumns(msgspec.Struct, frozen=True):
    columns: tuple[NewColumn, ...]


class RenameColumn(msgspec.Struct, frozen=True):
    column: str
    name: str


class DropColumns(msgspec.Struct, frozen=True):
    columns: tuple[str, ...]
    if_exists: bool = False


class AlterColumn(msgspec.Struct, frozen=True):
    """What is set is what changes; ``after`` is "" for FIRST, ``default`` "" to drop it."""

    column: str
    type: str | None = None
    nullable: bool | None = None
    comment: str | None = None
    default: str | None = None
    after: str | None = None


class SyncIdentity(msgspec.Struct, frozen=True):
    column: str


class RenameTable(msgspec.Struct, frozen=True):
    name: TableName


class AddConstraint(msgspec.Struct, frozen=True):
    name: str
    condition: str


class DropConstraint(msgspec.Struct, frozen=True):
    name: str
    if_exists: bool = False


class SetProperties(msgspec.Struct, frozen=True):
    properties: tuple[tuple[str, str], ...]


class UnsetProperties(msgspec.Struct, frozen=True):
    keys: tuple[str, ...]


class ClusterBy(msgspec.Struct, frozen=True):
    columns: tuple[str, ...]


class DropFeature(msgspec.Struct, frozen=True):
    name: str
    truncates_history: bool = False


class Described(msgspec.Struct, frozen=True):
    text: str


class CreateBranch(msgspec.Struct, frozen=True):
    name: str
    version: int | None = None


class EndBranch(msgspec.Struct, frozen=True):
    """What to do with a branch: "publish", "rebase" or "discard" it; ``keep`` is of a publication."""

    name: str
    action: Literal["publish", "rebase", "discard"]
    keep: bool = False


class CheckBranch(msgspec.Struct, frozen=True):
    """Show which rows of a branch fail conditions. It changes nothing."""

    name: str
    checks: tuple[str, ...] = ()


class DiffBranch(msgspec.Struct, frozen=True):
    """Show how a branch differs from what it began with. It changes nothing."""

    name: str


Change: TypeAlias = (
    AddColumns
    | AddConstraint
    | AlterColumn
    | CheckBranch
    | ClusterBy
    | CreateBranch
    | Described
    | DiffBranch
    | DropColumns
    | DropConstraint
    | DropFeature
    | EndBranch
    | RenameColumn
    | RenameTable
    | SetProperties
    | SyncIdentity
    | UnsetProperties
)


class AlterTable(msgspec.Struct, frozen=True):
    table: TableName
    change: Change


class ColumnComment(msgspec.Struct, frozen=True):
    """The comment of ``s.t.a.b``, of which only a catalog knows which ``parts`` are the table. ``at`` is where it is
    named."""

    parts: tuple[str, ...]
    text: str
    at: str
    schema: tuple[str, ...] = ()
    """What goes in front of a table's name of one part."""

    def on(self, table: TableName) -> AlterTable:
        """The change, if the first parts are this table."""
        is_whole = self.parts[: len(table.parts)] == table.parts
        column = self.parts[len(table.parts) if is_whole else 1 :]
        return AlterTable(table, AlterColumn(path_text(column), comment=self.text))

    @property
    def tables(self) -> list[TableName]:
        """The tables that may be meant, first the one with the longest name."""
        names = [TableName(self.parts[:length], self.at) for length in range(len(self.parts) - 1, 0, -1)]
        names[-1] = TableName((*self.schema, self.parts[0]), self.at)
        return [name for name in names if name.location is not None] or names


def read_alter(cursor: Cursor) -> AlterTable:
    cursor.expect("TABLE")
    return AlterTable(read_table_name(cursor), _change(cursor))


def read_comment(cursor: Cursor) -> AlterTable | ColumnComment:
    cursor.expect("ON")
    if cursor.take("TABLE"):
        table = read_table_name(cursor)
        cursor.expect("IS")
        return AlterTable(table, Described(cursor.string_or_null() or ""))
    cursor.expect("COLUMN")
    at = cursor.place()
    parts = cursor.names("a table and its column")
    if len(parts) == 1 or TableName(parts).location is not None:
        raise cursor.refused("expected table.column")
    cursor.expect("IS")
    return ColumnComment(parts, cursor.string_or_null() or "", at)


_OF_BRANCHES = {
    "AUDIT": "SQL has no statement for this: in Python, it is `with table.audit(checks) as staged:`",
    "DISCARD": "write DROP BRANCH",
    "RENAME": "a branch keeps its name",
}
"""What people may want to do with a branch, and what to write for it."""


def _change(cursor: Cursor) -> Change:
    if cursor.looks_at(cursor.word(), "BRANCH") and cursor.word() in _OF_BRANCHES:
        raise cursor.refused(_OF_BRANCHES[cursor.word()])
    if cursor.take("ADD"):
        return _added(cursor)
    if cursor.take("DROP"):
        return _dropped(cursor)
    if cursor.take("RENAME"):
        if cursor.take("TO"):
            return RenameTable(read_table_name(cursor))
        cursor.expect("COLUMN")
        column = cursor.column()
        cursor.expect("TO")
        return RenameColumn(column, cursor.name("a name"))
    if cursor.take("SET", "TBLPROPERTIES"):
        return SetProperties(cursor.options())
    if cursor.take("UNSET", "TBLPROPERTIES"):
        cursor.take("IF", "EXISTS")
        return UnsetProperties(cursor.inside().whole_list(lambda each: each.key()))
    if cursor.take("CLUSTER", "BY"):
        return ClusterBy(() if cursor.take("NONE") else cursor.inside().whole_list(lambda each: each.column()))
    if cursor.take_one("ALTER", "CHANGE"):
        cursor.take("COLUMN")
        return _altered(cursor)
    if cursor.take("CREATE", "BRANCH"):
        name = cursor.name("the name of a branch")
        return CreateBranch(name, cursor.whole_number() if cursor.take("VERSION", "AS", "OF") else None)
    if cursor.take("PUBLISH", "BRANCH"):
        return EndBranch(cursor.name("the name of a branch"), "publish", cursor.take("KEEP"))
    if cursor.take("REBASE", "BRANCH"):
        return EndBranch(cursor.name("the name of a branch"), "rebase")
    if cursor.take("CHECK", "BRANCH"):
        name = cursor.name("the name of a branch")
        checks = cursor.list(lambda each: each.string("a condition")) if cursor.is_at_string() else ()
        return CheckBranch(name, tuple(checks))
    if cursor.take("DIFF", "BRANCH"):
        return DiffBranch(cursor.name("the name of a branch"))
    raise cursor.refused(
        "expected ADD, DROP, RENAME, SET TBLPROPERTIES, UNSET TBLPROPERTIES, CLUSTER BY, ALTER COLUMN, or CREATE,"
        " CHECK, DIFF, PUBLISH or REBASE BRANCH"
    )


def _added(cursor: Cursor) -> Change:
    if cursor.take("CONSTRAINT"):
        name = cursor.name("the name of a constraint")
        cursor.expect("CHECK")
        return AddConstraint(name, cursor.inside().rest("a condition"))
    cursor.take_one("COLUMNS", "COLUMN")
    inside = cursor.inside() if cursor.looks_at("(") else cursor
    return AddColumns(inside.whole_list(_new_column) if inside is not cursor else cursor.list(_new_column))


def _new_column(cursor: Cursor) -> NewColumn:
    *path, name = cursor.names("a column")
    ddl = cursor.text("a type", ",", "FIRST", "AFTER", is_type=True)
    return NewColumn(name, ddl, tuple(path), _position(cursor))


def _position(cursor: Cursor) -> str | None:
    if cursor.take("FIRST"):
        return ""
    return cursor.name("a column") if cursor.take("AFTER") else None


def _dropped(cursor: Cursor) -> Change:
    if cursor.take("CONSTRAINT"):
        if_exists = cursor.take("IF", "EXISTS")
        return DropConstraint(cursor.name("the name of a constraint"), if_exists)
    if cursor.take("FEATURE"):
        name = cursor.string() if cursor.is_at_string() else cursor.name("the name of a feature")
        return DropFeature(name, cursor.take("TRUNCATE", "HISTORY"))
    if cursor.take("BRANCH"):
        return EndBranch(cursor.name("the name of a branch"), "discard")
    if cursor.take_one("COLUMNS", "COLUMN") is None:
        raise cursor.refused("expected COLUMN, CONSTRAINT, FEATURE or BRANCH")
    if_exists = cursor.take("IF", "EXISTS")
    inside = cursor.inside() if cursor.looks_at("(") else None
    columns = inside.whole_list(lambda each: each.column()) if inside else cursor.list(lambda each: each.column())
    return DropColumns(columns, if_exists)


def _altered(cursor: Cursor) -> Change:
    column = cursor.column()
    if cursor.take("SYNC", "IDENTITY"):
        return SyncIdentity(column)
    if cursor.take("TYPE"):
        return AlterColumn(column, type=cursor.text("a type", is_type=True))
    if cursor.take("COMMENT"):
        return AlterColumn(column, comment=cursor.string())
    if cursor.take("SET", "NOT", "NULL"):
        return AlterColumn(column, nullable=False)
    if cursor.take("DROP", "NOT", "NULL"):
        return AlterColumn(column, nullable=True)
    if cursor.take("SET", "DEFAULT"):
        return AlterColumn(column, default=cursor.text("a value"))
    if cursor.take("DROP", "DEFAULT"):
        return AlterColumn(column, default="")
    position = _position(cursor)
    if position is not None:
        return AlterColumn(column, after=position)
    return _changed_as_in_hive(cursor, column)


def _changed_as_in_hive(cursor: Cursor, column: str) -> AlterColumn:
    """``CHANGE COLUMN id id bigint COMMENT 'text' AFTER other``."""
    if cursor.column() != column:
        raise cursor.refused("a column is renamed by RENAME COLUMN")
    type_text = cursor.text("a type", "COMMENT", "FIRST", "AFTER", is_type=True)
    comment = cursor.string() if cursor.take("COMMENT") else None
    return AlterColumn(column, type_text, comment=comment, after=_position(cursor))
