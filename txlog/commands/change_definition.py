"""Commits changes of a table's definition: properties that are set or unset, and columns that are added.

In: an open table and what the caller asks for. Out: the ``WriteResult`` of a version that changes no data file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from txlog.commands.table_definition import (
    check_added_columns,
    commit_definition,
    with_columns,
    with_properties,
    without_properties,
)
from txlog.commit.open_table import OpenTable
from txlog.errors import TxlogError
from txlog.protocol.actions import operation_parameters
from txlog.protocol.properties import validate
from txlog.protocol.schema_input import from_any
from txlog.result import WriteResult
from txlog.util.arguments import names_in

__all__ = ["add_columns", "set_properties", "unset_properties"]


def set_properties(open_table: OpenTable, properties: Mapping[str, str], user_metadata: str | None) -> WriteResult:
    """Set table properties. Raises as `Table.set_properties`."""
    state = open_table.writable_state()
    with TxlogError.located(open_table.uri, state.version):
        properties = validate(properties)
        definition = with_properties(state, properties)
    parameters = operation_parameters(properties=properties)
    return commit_definition(open_table, state, definition, "SET TBLPROPERTIES", parameters, user_metadata)


def unset_properties(open_table: OpenTable, keys: Iterable[str], user_metadata: str | None) -> WriteResult:
    """Unset table properties. Raises as `Table.unset_properties`."""
    state = open_table.writable_state()
    keys = names_in("keys", keys)
    parameters = operation_parameters(properties=list(keys), ifExists=False)
    with TxlogError.located(open_table.uri, state.version):
        definition = without_properties(state, keys)
    return commit_definition(open_table, state, definition, "UNSET TBLPROPERTIES", parameters, user_metadata)


def add_columns(open_table: OpenTable, schema: Any, user_metadata: str | None) -> WriteResult:
    """Add the columns of a schema. Raises as `Table.add_columns`."""
    state = open_table.writable_state()
    with TxlogError.located(open_table.uri, state.version):
        new = from_any(schema)
        check_added_columns(state, new)
        parameters = operation_parameters(columns=[{"column": {"name": f.name}} for f in new.fields])
        definition = with_columns(state, new)
    return commit_definition(open_table, state, definition, "ADD COLUMNS", parameters, user_metadata)
