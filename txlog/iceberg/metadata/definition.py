"""The definition of a table in Iceberg metadata: schema, partition spec, name mapping.

In: the ``metaData`` of one Delta version, and the Iceberg metadata exported before it. Out: an `IcebergDefinition`,
which depends only on the input. Ids are never reused, not even after a column is dropped, because files of older
snapshots hold such columns. Iceberg spec, "Table Metadata Fields", "Column Projection", "Partitioning".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import orjson

from txlog.core.format.actions import Metadata
from txlog.core.format.column_mapping import ROW_ID_COLUMNS, is_mapped, physical_name, physical_schema, schema_of
from txlog.core.format.schema import Array, DataType, Map, Struct
from txlog.errors import IcebergExportError
from txlog.iceberg.metadata.schema import (
    ColumnPath,
    IcebergLeaf,
    IcebergSchema,
    Known,
    KnownColumn,
    NewMeaningError,
    convert,
)

NAME_MAPPING = "schema.name-mapping.default"
"""The Iceberg table property that holds the name mapping, as JSON text."""

TABLE_PROPERTIES = {"gc.enabled": "false", "write.metadata.metrics.default": "counts"}
"""Iceberg table properties of every export.

``gc.enabled``: Iceberg's maintenance must not delete files, which belong to the Delta table. The metrics mode: without
it Spark would answer MIN and MAX from file bounds, and Delta's timestamp bounds are only approximate.
"""

_FIRST_PARTITION_ID = 1000
_FEED = "delta.enableChangeDataFeed"
_CHANGE_TYPE: dict[str, Any] = {"field-id": 2_147_483_446, "names": ["_change_type"]}
"""A column that Spark writes to data files of tables with a change data feed. PyIceberg cannot read a file with a
column that the name mapping lacks. The id is below Iceberg's reserved range, and no column gets it."""


class PartitionField(msgspec.Struct, frozen=True):
    """A partition column: its transform is the identity.

    ``name`` is the one in the partition spec and in manifests, ``physical_name`` the one in ``partitionValues``.
    """

    field_id: int
    source_id: int
    name: str
    physical_name: str
    type: DataType


class IcebergDefinition(msgspec.Struct, frozen=True):
    """A table's definition for Iceberg readers. ``schema`` and ``spec`` keep their ids while they are unchanged."""

    format_version: int
    schema: dict[str, Any]
    spec: dict[str, Any]
    name_mapping: list[dict[str, Any]]
    """The name mapping, including dropped columns and the hidden columns of row tracking."""
    leaves: tuple[IcebergLeaf, ...]
    partition: tuple[PartitionField, ...]
    physical: Struct
    """The Delta schema with the names used in files and statistics."""
    column_ids: Mapping[ColumnPath, int]
    last_column_id: int
    last_partition_id: int
    drops_history: bool
    """A name or id now means another column, or a partition column changed its type or was dropped: this version is
    exported in full, and older snapshots are dropped."""
    is_mapped: bool
    """Whether the table maps its columns; then the ids are Delta's."""
    files_need_element_ids: bool
    """Whether files with column ids must have ids inside lists and maps too: otherwise readers show nulls there."""


def define(metadata: Metadata, format_version: int, before: Mapping[str, Any] | None) -> IcebergDefinition:
    """The definition of one version.

    Args:
        metadata: The version's ``metaData`` action.
        format_version: 2 or 3.
        before: The last exported Iceberg table metadata; None if there is none, or for a full export.

    Raises:
        IcebergExportError: Iceberg readers could not read the table, or would read it wrongly; names the column and
        why.
        CorruptLogError: The table's schema cannot be read.
        UnsupportedFeatureError: The schema has a type that this release does not support.
    """
    schema = schema_of(metadata)
    try:
        return _continued(metadata, schema, format_version, before)
    except NewMeaningError:
        return _continued(metadata, schema, format_version, None, drops_history=True)


def _continued(
    metadata: Metadata,
    schema: Struct,
    format_version: int,
    before: Mapping[str, Any] | None,
    *,
    drops_history: bool = False,
) -> IcebergDefinition:
    before = before or {}
    old_mapping = orjson.loads(before.get("properties", {}).get(NAME_MAPPING, "[]"))
    known = _known(before, old_mapping)
    converted = convert(
        schema,
        mapped=is_mapped(schema),
        format_version=format_version,
        known=known,
        last_column_id=before.get("last-column-id", 0),
    )
    _make_optional(converted, metadata.partition_columns)
    spec, last_partition_id = _spec(metadata, schema, converted, before)
    _check_partition_types([spec, *before.get("partition-specs", [])], converted, known)
    return IcebergDefinition(
        format_version=format_version,
        schema={"type": "struct", "schema-id": _schema_id(converted, before), "fields": converted.fields},
        spec=spec,
        name_mapping=_with_dropped([*converted.name_mapping, *_hidden_columns(metadata)], old_mapping),
        leaves=tuple(converted.leaves),
        partition=tuple(_partition_fields(metadata, schema, spec)),
        physical=physical_schema(schema),
        column_ids=converted.ids,
        last_column_id=converted.last_column_id,
        last_partition_id=last_partition_id,
        drops_history=drops_history,
        is_mapped=is_mapped(schema),
        files_need_element_ids=is_mapped(schema) and any(_has_elements(member.type) for member in schema.fields),
    )


# --- what was exported before -------------------------------------------------------------------------------------


def _known(before: Mapping[str, Any], mapping: list[dict[str, Any]]) -> Known:
    """Every column of the name mapping with its newest type, without the hidden columns of row tracking."""
    kinds: dict[int, str] = {}
    schemas = sorted(before.get("schemas", ()), key=lambda each: each["schema-id"] == before["current-schema-id"])
    for schema in schemas:
        kinds.update(_kinds(schema))
    return {path: KnownColumn(number, kinds[number]) for path, number in _mapped_ids(mapping, ()) if number in kinds}


def _kinds(typed: Any) -> Iterator[tuple[int, str]]:
    """The id and kind of everything inside a type."""
    if isinstance(typed, str):
        return
    inner = [(each["id"], each["type"]) for each in typed.get("fields", ())]
    inner += [(typed[f"{name}-id"], typed[name]) for name in ("element", "key", "value") if name in typed]
    for number, below in inner:
        yield number, below if isinstance(below, str) else below["type"]
        yield from _kinds(below)


def _mapped_ids(mapping: list[dict[str, Any]], path: ColumnPath) -> Iterator[tuple[ColumnPath, int]]:
    for entry in mapping:
        below = (*path, entry["names"][0])
        yield below, entry["field-id"]
        yield from _mapped_ids(entry.get("fields", []), below)


def _with_dropped(mapping: list[dict[str, Any]], old: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """``mapping`` with the entries that only ``old`` has: PyIceberg refuses a file with a column that it lacks."""
    by_name = {entry["names"][0]: at for at, entry in enumerate(mapping)}
    merged = list(mapping)
    for entry in old:
        at = by_name.get(entry["names"][0])
        if at is None:
            merged.append(entry)
        elif "fields" in entry:
            merged[at] = {**merged[at], "fields": _with_dropped(merged[at].get("fields", []), entry["fields"])}
    return merged


def _hidden_columns(metadata: Metadata) -> list[dict[str, Any]]:
    """Columns that data files may have although the table lacks them."""
    configuration = metadata.configuration
    is_free = schema_of(metadata).find(_CHANGE_TYPE["names"][0]) is None
    feed = [_CHANGE_TYPE] if _FEED in configuration and is_free else []
    return feed + [
        {"field-id": number, "names": [configuration[key]]}
        for key, number in ROW_ID_COLUMNS.items()
        if key in configuration
    ]


def _schema_id(converted: IcebergSchema, before: Mapping[str, Any]) -> int:
    schemas = before.get("schemas", ())
    same = next((each["schema-id"] for each in schemas if each["fields"] == converted.fields), None)
    return max((each["schema-id"] for each in schemas), default=-1) + 1 if same is None else int(same)


# --- partitions ---------------------------------------------------------------------------------------------------


def _spec(
    metadata: Metadata, schema: Struct, converted: IcebergSchema, before: Mapping[str, Any]
) -> tuple[dict[str, Any], int]:
    """The partition spec, and the highest partition field id ever given.

    A spec with the same columns is reused, whatever the columns are called now: Iceberg's partition fields have
    separate names. Only a name that another column has taken must change.
    """
    sources = [converted.ids[(physical_name(_column(schema, name)),)] for name in metadata.partition_columns]
    owners = {each["name"]: each["id"] for each in converted.fields}
    specs = before.get("partition-specs", [])
    for spec in specs:
        if [each["source-id"] for each in spec["fields"]] == sources and all(
            owners.get(each["name"], each["source-id"]) == each["source-id"] for each in spec["fields"]
        ):
            return dict(spec), before["last-partition-id"]
    used = {each["source-id"]: each["field-id"] for spec in specs for each in spec["fields"]}
    last = before.get("last-partition-id", _FIRST_PARTITION_ID - 1)
    fields = []
    for source, name in zip(sources, metadata.partition_columns, strict=True):
        if source not in used:
            last += 1
        field_id = used.get(source, last)
        # with its keys in order, as in a metadata file: manifests hold the text, and exporters must write the same one
        fields.append({"field-id": field_id, "name": name, "source-id": source, "transform": "identity"})
    return {"spec-id": max((spec["spec-id"] for spec in specs), default=-1) + 1, "fields": fields}, last


def _check_partition_types(specs: Sequence[Mapping[str, Any]], converted: IcebergSchema, known: Known) -> None:
    """Raise NewMeaningError if a spec's column changed its type or was dropped.

    Manifests hold its values in the old type, and DuckDB ends its process if the schema lacks the column.
    """
    before = {each.field_id: each.kind for each in known.values()}
    now = dict(_kinds({"fields": converted.fields}))
    sources = {field["source-id"] for spec in specs for field in spec["fields"]}
    if not sources <= now.keys() or any(before[source] != now[source] for source in sources & before.keys()):
        raise NewMeaningError


def _partition_fields(metadata: Metadata, schema: Struct, spec: Mapping[str, Any]) -> Iterator[PartitionField]:
    for name, each in zip(metadata.partition_columns, spec["fields"], strict=True):
        column = _column(schema, name)
        yield PartitionField(each["field-id"], each["source-id"], each["name"], physical_name(column), column.type)


def _column(schema: Struct, name: str) -> Any:
    found = schema.find(name)
    if found is None:
        raise IcebergExportError(f"the table is partitioned by {name}, but has no such column")
    return found


def _make_optional(converted: IcebergSchema, names: Sequence[str]) -> None:
    """Make columns optional that data files lack (partition columns): PyIceberg needs required columns in the file."""
    for each in converted.fields:
        if each["name"] in names:
            each["required"] = False


def _has_elements(data_type: DataType) -> bool:
    if isinstance(data_type, Struct):
        return any(_has_elements(member.type) for member in data_type.fields)
    return isinstance(data_type, Array | Map)
