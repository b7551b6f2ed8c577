"""Changes of a table's definition: properties that are set or unset, and columns that are added.

In: a version of a table and what the caller asks for. Out: a `DefinitionChange`, and `change_definition`, which commits
one. Other changes of columns are in ``change_columns``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from txlog.core.definition._checked_definition import CheckFiles, DefinitionChange, MakeChange, commit_definition_change
from txlog.core.definition._table_definition import (
    check_added_columns,
    with_columns,
    with_properties,
    without_properties,
)
from txlog.core.format.actions import operation_parameters
from txlog.core.format.iceberg_compat import newly_required, with_what_it_needs
from txlog.core.format.properties import ICEBERG_COMPAT, SYMLINK_MANIFESTS, ColumnPath, validate
from txlog.core.format.schema import Field, type_to_json
from txlog.core.format.schema_input import from_any
from txlog.core.util import names_in
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.state import TableState
from txlog.core.workers import GivenWorkers
from txlog.errors import InvalidInputError, TxlogError
from txlog.result import WriteResult


def change_definition(
    open_table: OpenTable, make: MakeChange, user_metadata: str | None, workers: GivenWorkers | None = None
) -> WriteResult:
    """Commit what ``make`` makes for the newest version.

    Raises the errors of `commit_definition_change`, and ``UnsupportedFeatureError``.
    """
    return commit_definition_change(open_table, open_table.writable_state(), make, user_metadata, workers)


def set_properties(open_table: OpenTable, properties: Mapping[str, str], user_metadata: str | None) -> WriteResult:
    """See `Table.set_properties`. Files get row ids before the table promises them, and manifests are only promised if
    its files can be in one."""
    from txlog.core.definition._row_tracking import give_row_ids, turns_row_tracking_on

    state = _before_new_properties(open_table)
    with TxlogError.located(open_table.uri, state.version):
        turns_on = turns_row_tracking_on(state, checked := _validated(properties))
        if checked.get(SYMLINK_MANIFESTS) == "true" and not state.properties.symlink_manifests:
            from txlog.core.versions.decisions.symlink_manifests import manifests_of

            manifests_of(open_table.uri, state, open_table.log.files(state))
        if turns_on:  # before any commit: what else is asked for
            properties_set(state, properties, has_row_ids=True)
    if turns_on:
        give_row_ids(open_table, user_metadata)
        state = open_table.writable_state()
    return commit_definition_change(
        open_table, state, lambda state: properties_set(state, properties, has_row_ids=turns_on), user_metadata
    )


def unset_properties(open_table: OpenTable, keys: Iterable[str], user_metadata: str | None) -> WriteResult:
    """See `Table.unset_properties`."""
    state = _before_new_properties(open_table)
    return commit_definition_change(open_table, state, lambda state: properties_unset(state, keys), user_metadata)


def _before_new_properties(open_table: OpenTable) -> TableState:
    """The newest version. If a property keeps txlog from writing the table, it can still be unset: whether the table
    can be written is asked of the changed definition."""
    state = open_table.log.newest_state()
    open_table.check_maintainable(state)
    return state


def properties_set(state: TableState, properties: Mapping[str, str], *, has_row_ids: bool = False) -> DefinitionChange:
    """As `Table.set_properties`. ``has_row_ids``: every file of the table is known to have row ids."""
    checked = _validated(properties)
    parameters = operation_parameters(properties=checked)
    definition = with_properties(state, checked, has_row_ids=has_row_ids)
    return DefinitionChange(
        definition,
        "SET TBLPROPERTIES",
        parameters,
        check_files=_check_of_files(state, state.metadata.configuration, checked),
    )


def _validated(properties: Mapping[str, str]) -> dict[str, str]:
    return with_what_it_needs(validate(properties), is_new=False)


def _check_of_files(state: TableState, before: Mapping[str, str], new: Mapping[str, str]) -> CheckFiles | None:
    """What the table's files have to be before it promises that Iceberg readers can use them; None if it does not, or
    did before. Files that are there may lack what is only asked of new ones."""
    versions = newly_required(before, {**before, **new})
    if not versions or versions[0] == 3:
        return None
    key = ICEBERG_COMPAT[versions[0]]

    def check(files: pa.Table) -> None:
        marked = files.num_rows - files["deletionVector"].null_count
        if marked:
            raise InvalidInputError(
                f"{marked:,} files of the table have deletion vectors, which {key} = true does not allow:"
                " rewrite these files with purge(), or use version 3"
            )
        if versions[0] == 1 and state.partition_columns and files.num_rows:
            raise InvalidInputError(
                f"{key} = true requires the partition columns in every data file, and the {files.num_rows:,} files of"
                f" the table may lack them: use {ICEBERG_COMPAT[2]}, which requires them only in new files"
            )

    return check


def properties_unset(state: TableState, keys: Iterable[str]) -> DefinitionChange:
    """As `Table.unset_properties`."""
    names = names_in("keys", keys)
    parameters = operation_parameters(properties=list(names), ifExists=False)
    return DefinitionChange(without_properties(state, names), "UNSET TBLPROPERTIES", parameters)


def added_columns(state: TableState, schema: Any) -> DefinitionChange:
    """As `Table.add_columns`."""
    new = from_any(schema)
    check_added_columns(state, new)
    added = [{"column": history_column(field, (field.name,))} for field in new.fields]
    return DefinitionChange(with_columns(state, new), "ADD COLUMNS", operation_parameters(columns=added))


def history_name(path: ColumnPath) -> str:
    """A column in the history as Spark writes it, which puts only names with a dot in backticks."""
    return ".".join(f"`{name}`" if "." in name else name for name in path)


def history_column(field: Field, path: ColumnPath) -> dict[str, Any]:
    """A column with its properties in the history as Spark writes it."""
    kind = type_to_json(field.type)
    return {
        "name": history_name(path),
        "type": kind if isinstance(kind, str) else kind["type"],
        "nullable": field.nullable,
        "metadata": dict(field.metadata),
    }
