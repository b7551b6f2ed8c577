"""Creates a table as version 0, or checks that an existing one fits the arguments.

In: an open location, a schema and the rest of a table's definition. Out: nothing; the table exists.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from txlog.core.definition._table_definition import Definition, check_agrees, commit_definition, new_table
from txlog.core.format.actions import operation_parameters
from txlog.core.format.column_mapping import MODE_KEY
from txlog.core.format.properties import path_text, validate
from txlog.core.store import probe_store
from txlog.core.util import check_text, invalid, one_of
from txlog.core.versions import OpenTable
from txlog.core.wording import advice, argument
from txlog.errors import InvalidInputError, MetadataChangedError, ProtocolChangedError, TableExistsError, TxlogError


def create_table(
    open_table: OpenTable,
    schema: Any,
    partition_by: str | Iterable[str] | None,
    properties: Mapping[str, str] | None,
    *,
    cluster_by: str | Iterable[str] | None = None,
    column_mapping: str | None = None,
    name: str | None = None,
    description: str | None = None,
    exist_ok: bool = False,
    user_metadata: str | None = None,
) -> None:
    """Create an empty table. Raises what `Table.create` raises."""
    with TxlogError.located(open_table.uri):
        given = validate(_with_mapping(properties, column_mapping) or {})
        properties = {**open_table.store.new_properties, **given}
        check_text("name", name)
        check_text("description", description)
        metadata, protocol, domains = new_table(schema, partition_by or (), properties, cluster_by)
        definition = Definition(replace(metadata, name=name or None, description=description), protocol, domains)
    if not open_table.log.exists():
        probe_new_location(open_table)
        try:
            commit_definition(open_table, None, definition, "CREATE TABLE", _parameters(definition), user_metadata)
            return
        except (ProtocolChangedError, MetadataChangedError):
            pass  # a concurrent writer created it first
    if not exist_ok:
        raise TableExistsError(
            "there is already a table here; "
            + advice("open an existing table", "Table.open opens it, and so does exist_ok=True"),
            table=open_table.uri,
        )
    state = open_table.log.reload()
    with TxlogError.located(open_table.uri, state.version):
        check_agrees(state, definition, properties or {})


def probe_new_location(open_table: OpenTable) -> None:
    """Before a table is created, refuse a store that ignores the condition: the first race would lose data."""
    if open_table.store.log.capabilities.refuses_taken_names or open_table.log.exists():
        return
    probe_store(open_table.store).require_safe()


def _with_mapping(properties: Mapping[str, str] | None, mode: str | None) -> Mapping[str, str] | None:
    """The properties with the mode of column mapping that the argument asks for."""
    if mode is None:
        return properties
    if mode not in ("name", "id"):
        raise invalid("column_mapping", mode, one_of(("name", "id")))
    given = validate(properties or {})
    if given.setdefault(MODE_KEY, mode) != mode:
        raise InvalidInputError(
            f"{argument('column_mapping')} is {mode}, and the property {MODE_KEY} says {given[MODE_KEY]}: leave one out"
        )
    return given


def _parameters(definition: Definition) -> dict[str, str]:
    metadata = definition.metadata
    return operation_parameters(
        isManaged=False,
        partitionBy=list(metadata.partition_columns),
        clusterBy=[path_text(path) for path in definition.clustering_columns] or None,
        properties=metadata.configuration,
    )
