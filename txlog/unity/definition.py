"""A table's definition in the catalog's terms: what a commit changes of it goes with the commit, as values.

In: the actions of a commit, and the definition that the catalog has. Out: the request's updates. Pure. Unity Catalog,
"ManagedTablesSpec.md", "Update actions", "Column Schema".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from txlog.core.format.actions import Action, DomainMetadata, Metadata, Protocol
from txlog.unity.messages import CreateTableRequest, ProtocolInfo, TableInfo

_DERIVED = (
    *("delta.minReaderVersion", "delta.minWriterVersion", "delta.feature.", "delta.clusteringColumns"),
    *("delta.rowTracking.rowIdHighWaterMark", "delta.lastUpdateVersion", "delta.lastCommitTimestamp"),
)
"""Properties, or their prefixes, that the catalog derives and that nobody may set or remove."""

_DOMAINS = ("delta.clustering", "delta.rowTracking")
"""The domains that the API has; others are in the log only."""

_PART_NAMES = {
    "elementType": "element-type",
    "containsNull": "contains-null",
    "keyType": "key-type",
    "valueType": "value-type",
    "valueContainsNull": "value-contains-null",
}


def definition_updates(actions: Sequence[Action], known: TableInfo) -> list[dict[str, Any]]:
    """What these actions change of the definition ``known`` to the catalog; empty if they change only rows."""
    updates: list[dict[str, Any]] = []
    for action in actions:
        if isinstance(action, Protocol):
            updates.append({"action": "set-protocol", "protocol": _protocol(action)})
        elif isinstance(action, Metadata):
            updates += _metadata_updates(action, known)
    domains = [each for each in actions if isinstance(each, DomainMetadata) and each.domain in _DOMAINS]
    if kept := _domains(domains):
        updates.append({"action": "set-domain-metadata", "updates": kept})
    if removed := [each.domain for each in domains if each.removed]:
        updates.append({"action": "remove-domain-metadata", "domains": removed})
    return updates


def creation(
    name: str, location: str, table_type: str, actions: Sequence[Action], timestamp_ms: int
) -> CreateTableRequest:
    """The request that registers a table whose version 0 has these actions."""
    metadata = next(each for each in actions if isinstance(each, Metadata))
    protocol = next(each for each in actions if isinstance(each, Protocol))
    return CreateTableRequest(
        name=name,
        location=location,
        table_type=table_type,
        columns=_columns(metadata),
        protocol=_protocol(protocol),
        properties=dict(metadata.configuration),
        last_commit_timestamp_ms=timestamp_ms,
        partition_columns=metadata.partition_columns,
        comment=metadata.description,
        domain_metadata=_domains([e for e in actions if isinstance(e, DomainMetadata) and e.domain in _DOMAINS])
        or None,
    )


def _metadata_updates(metadata: Metadata, known: TableInfo) -> list[dict[str, Any]]:
    updates: list[dict[str, Any]] = []
    if (columns := _columns(metadata)) != known.columns:
        updates.append({"action": "set-columns", "columns": columns})
    if list(metadata.partition_columns) != list(known.partition_columns):
        updates.append({"action": "set-partition-columns", "partition-columns": metadata.partition_columns})
    wanted = metadata.configuration
    if changed := {key: value for key, value in wanted.items() if known.properties.get(key) != value}:
        updates.append({"action": "set-properties", "updates": changed})
    if gone := [key for key in known.properties if key not in wanted and not key.startswith(_DERIVED)]:
        updates.append({"action": "remove-properties", "removals": gone})
    if metadata.description is not None:
        updates.append({"action": "set-table-comment", "comment": metadata.description})
    return updates


def _protocol(protocol: Protocol) -> ProtocolInfo:
    return ProtocolInfo(
        protocol.min_reader_version,
        protocol.min_writer_version,
        protocol.reader_features or (),
        protocol.writer_features or (),
    )


def _domains(domains: Sequence[DomainMetadata]) -> dict[str, Any]:
    return {each.domain: msgspec.json.decode(each.configuration) for each in domains if not each.removed}


def _columns(metadata: Metadata) -> Any:
    return _typed(msgspec.json.decode(metadata.schema_string))


def _typed(data_type: Any) -> Any:
    """A type as the API writes it. The metadata of a column stays as it is."""
    if not isinstance(data_type, Mapping):
        return data_type
    if data_type["type"] == "struct":
        fields = [{**field, "type": _typed(field["type"])} for field in data_type["fields"]]
        return {"type": "struct", "fields": fields}
    return {_PART_NAMES.get(key, key): _typed(value) for key, value in data_type.items()}
