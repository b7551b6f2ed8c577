"""Runs ALTER TABLE: each change is a call of `Table`.

In: an open table, and the change. Out: the result of the call. Each statement is one version.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from txlog.core.format.schema import Struct, backquoted, fold_name
from txlog.core.format.schema_changes import column_path
from txlog.errors import InvalidInputError, TableNotFoundError
from txlog.extend import open_table_of
from txlog.result import WriteResult
from txlog.statements.changes import (
    AddColumns,
    AddConstraint,
    AlterColumn,
    Change,
    ClusterBy,
    CreateBranch,
    Described,
    DropColumns,
    DropConstraint,
    DropFeature,
    EndBranch,
    NewColumn,
    RenameColumn,
    SetProperties,
    SyncIdentity,
    UnsetProperties,
)
from txlog.statements.engine import Session
from txlog.table import Table


def alter(table: Table, change: Change, session: Session) -> Any:
    """Make the change. Raises what the method of `Table` raises."""
    note = session.user_metadata
    match change:
        case AddColumns(columns):
            return _add(table, columns, note)
        case RenameColumn(column, name):
            return table.rename_column(column, name, user_metadata=note)
        case DropColumns(columns, if_exists):
            return _drop(table, columns, note, if_exists=if_exists)
        case AlterColumn():
            options = {name: getattr(change, name) for name in ("type", "nullable", "comment", "default")}
            options |= {"first": change.after == "", "after": change.after or None, "user_metadata": note}
            return table.alter_column(change.column, **options)
        case SyncIdentity(column):
            return table.sync_identity(column, user_metadata=note)
        case AddConstraint(name, condition):
            return table.add_constraint(name, condition, user_metadata=note)
        case DropConstraint(name, if_exists):
            is_optional = if_exists or session.drops_missing_constraints
            return table.drop_constraint(name, if_exists=is_optional, user_metadata=note)
        case SetProperties(properties):
            return table.set_properties(dict(properties), user_metadata=note)
        case UnsetProperties(keys):
            wanted = {*map(_spelling, keys)}  # as in Spark, one that is not set is no error
            there = [key for key in table.snapshot().properties if _spelling(key) in wanted]
            return table.unset_properties(there, user_metadata=note)
        case ClusterBy(columns):
            return table.cluster_by(columns or None, user_metadata=note)
        case DropFeature(name, truncates_history):
            return table.drop_feature(name, truncate_history=truncates_history, user_metadata=note)
        case Described(text):
            return table.set_description(text, user_metadata=note)
        case CreateBranch(name, version):
            return WriteResult(table.branch(name, version).version, "committed", 1, "")
        case EndBranch(name, action, keep):
            branch = branch_of(table, name, is_discarded=action == "discard")
            if action == "publish":
                return branch.publish(keep=keep, user_metadata=note)
            return branch.rebase() if action == "rebase" else branch.discard()
    raise AssertionError(f"no runner for {type(change).__name__}")


def branch_of(table: Table, name: str, *, is_discarded: bool = False) -> Table:
    """The branch of a table, opened as the table is; also a broken one, if it is to be discarded."""
    of_table = open_table_of(table)
    given: Any = {"storage_options": of_table.storage_options, "credential_provider": of_table.credential_provider}
    try:
        return Table.open(f"{table.uri}@{name}", time_zone=of_table.time_zone, **given)
    except TableNotFoundError:
        broken = [each.uri for each in table.branches() if (each.name, each.status) == (name, "broken")]
        if not is_discarded or not broken:
            raise
        return Table.open(broken[0], time_zone=of_table.time_zone, **given)


def _spelling(key: str) -> str:
    """The same for all spellings of a property: the case of Delta's own does not matter."""
    return key.lower() if key.lower().startswith("delta.") else key


def _add(table: Table, columns: tuple[NewColumn, ...], note: str | None) -> Any:
    known = {fold_name(name) for name in table.snapshot().schema.names}
    for column in columns:
        if not column.path and fold_name(column.name) in known:
            raise InvalidInputError(f"there is a column {column.name} already", table=table.uri)
    ddl = ", ".join(_ddl(column) for column in columns)
    moved = [column for column in columns if column.after is not None]
    if not moved:
        return table.add_columns(ddl, user_metadata=note)
    with table.transaction(operation="ADD COLUMNS", user_metadata=note) as transaction:
        transaction.add_columns(ddl)
        for column in moved:
            path = ".".join(map(backquoted, (*column.path, column.name)))
            transaction.alter_column(path, first=column.after == "", after=column.after or None)
    return transaction.result


def _ddl(column: NewColumn) -> str:
    """The column in DDL, in the structs that it goes into."""
    ddl = column.ddl
    *structs, name = (*column.path, column.name)
    while structs:
        ddl, name = f"struct<{backquoted(name)}: {ddl}>", structs.pop()
    return f"{backquoted(name)} {ddl}"


def _drop(table: Table, columns: tuple[str, ...], note: str | None, *, if_exists: bool) -> Any:
    if if_exists:
        schema = table.snapshot().delta_schema
        columns = tuple(each for each in columns if _is_there(schema, each))
    return table.drop_columns(list(columns), user_metadata=note) if columns else None


def _is_there(schema: Struct, column: str) -> bool:
    with suppress(InvalidInputError):
        return bool(column_path(column, schema))
    return False
