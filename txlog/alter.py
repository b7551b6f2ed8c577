"""Changes of a table's definition: what to put into the log to create it, set properties, or add columns.

In: the current head (or nothing) and what the caller asks for. Out: ``protocol`` and ``metaData`` actions, or None
where nothing changes. Pure but for the id and time of a new table. PROTOCOL.md, "Change Metadata".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from txlog import ambient
from txlog.errors import InvalidInputError
from txlog.log.state import TableHead
from txlog.protocol.actions import Metadata, Protocol
from txlog.protocol.features import check_can_write, protocol_for, upgraded_for
from txlog.protocol.properties import TableProperties, stored, validate
from txlog.protocol.schema import Struct, from_any, schema_to_json
from txlog.protocol.schema_merge import check_partition_columns, check_schema, merge
from txlog.protocol.statistics import check_statistics_columns

__all__ = ["Definition", "new_table", "with_columns", "with_properties", "without_properties"]


@dataclass(frozen=True, slots=True)
class Definition:
    """A table's new metadata, with the protocol it needs where that changes too."""

    metadata: Metadata
    protocol: Protocol | None = None

    @property
    def actions(self) -> tuple[Protocol | Metadata, ...]:
        return (self.metadata,) if self.protocol is None else (self.protocol, self.metadata)


def new_table(
    schema: Any, partition_by: Iterable[str] = (), properties: Mapping[str, str] | None = None
) -> tuple[Metadata, Protocol]:
    """The first metadata and protocol of a table.

    ``schema`` is a pyarrow, Spark or Delta schema. Raises ``InvalidInputError`` (schema, partition columns,
    property values) and ``UnsupportedFeatureError`` for what this release could not write.
    """
    struct = from_any(schema)
    check_schema(struct)
    configuration = validate(properties or {})
    metadata = Metadata(
        id=ambient.uuid4(),
        schema_string=schema_to_json(struct),
        partition_columns=check_partition_columns(struct, _listed(partition_by)),
        configuration=stored(configuration),
        format={"provider": "parquet", "options": {}},
        created_time=ambient.now_ms(),
    )
    protocol = protocol_for(struct, configuration)
    _check(protocol, metadata, struct)
    return metadata, protocol


def with_properties(head: TableHead, properties: Mapping[str, str]) -> Definition | None:
    """Set table properties. Raises ``InvalidInputError`` naming key and value of what is not valid."""
    return _reconfigured(head, {**head.metadata.configuration, **validate(properties)})


def without_properties(head: TableHead, keys: Iterable[str]) -> Definition | None:
    """Unset table properties. Raises ``InvalidInputError`` for one that is not set."""
    configuration = dict(head.metadata.configuration)
    for key in keys:
        if key not in configuration:
            known = ", ".join(sorted(configuration)) or "none"
            raise InvalidInputError(f"property {key!r} is not set; set are: {known}")
        del configuration[key]
    return _reconfigured(head, configuration)


def with_columns(head: TableHead, new: Struct) -> Definition | None:
    """Add the columns of ``new`` that the table lacks, nested struct members too; None where it lacks none.

    Raises ``SchemaMismatchError`` where a column that both have differs in type.
    """
    merged = merge(head.schema, new)
    if merged == head.schema:
        return None
    metadata = replace(head.metadata, schema_string=schema_to_json(merged))
    protocol = upgraded_for(head.protocol, merged, metadata.configuration)
    _check(protocol or head.protocol, metadata, merged)
    return Definition(metadata, protocol)


def _reconfigured(head: TableHead, configuration: dict[str, str]) -> Definition | None:
    metadata = replace(head.metadata, configuration=stored(configuration))
    protocol = upgraded_for(head.protocol, head.schema, configuration)
    if protocol is None and metadata == head.metadata:
        return None
    _check(protocol or head.protocol, metadata, head.schema)
    return Definition(metadata, protocol)


def _check(protocol: Protocol, metadata: Metadata, schema: Struct) -> None:
    """The table as it will be must be one that this release can go on writing."""
    check_can_write(protocol, metadata)
    check_statistics_columns(schema, TableProperties.of(metadata.configuration), metadata.partition_columns)


def _listed(names: Iterable[str]) -> tuple[str, ...]:
    """A lone text is an iterable of letters, which nobody means."""
    if isinstance(names, str):
        raise InvalidInputError(f"partition_by must be a list of column names, is the text {names!r}: use [{names!r}]")
    return tuple(names)
