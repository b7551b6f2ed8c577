"""A table that another program wrote in Iceberg's format, as far as Delta can have it: its columns and partitioning.

In: the document of a ``metadata.json`` file. Out: a `ForeignTable`: columns with the ids that the files have, and the
manifest list of the current snapshot. The error for what Delta lacks names it. Pure. Iceberg's specification,
"Schemas and Data Types", "Partitioning", "Table Metadata".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import orjson

from txlog.core.format.column_mapping import ID_KEY, NESTED_IDS_KEY, PHYSICAL_NAME_KEY
from txlog.core.format.schema import PRIMITIVES, Array, DataType, Decimal, Field, Map, Primitive, Struct
from txlog.core.util import pattern
from txlog.errors import InvalidInputError, UnsupportedFeatureError

_NEWEST_FORMAT = 3
_FIRST_PARTITION_ID = 1000
_TYPES = {facts.iceberg: Primitive(name) for name, facts in PRIMITIVES.items() if facts.iceberg}
_DECIMAL = pattern(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_FIXED = pattern(r"fixed\[\d+\]")


class ForeignTable(msgspec.Struct, frozen=True):
    """An Iceberg table at its current snapshot.

    ``location`` is where its metadata says that it is. ``identity`` has, for each partition spec, the ids of the
    columns by whose values it partitions, with the ids of the partition's fields. ``names`` are the names of columns in
    files without ids, by id. ``manifest_list`` is None for a table without a snapshot.
    """

    location: str
    schema: Struct
    last_column_id: int
    identity: Mapping[int, Mapping[int, int]]
    names: Mapping[int, tuple[str, ...]]
    manifest_list: str | None
    format_version: int


def foreign_table(document: Mapping[str, Any]) -> ForeignTable:
    """Raises UnsupportedFeatureError naming what Delta or this release lacks, InvalidInputError if the document is not
    the metadata of a table."""
    try:
        return _table(document)
    except (KeyError, TypeError, ValueError, StopIteration) as error:
        raise InvalidInputError(f"this is not the metadata of an Iceberg table: {error!r}") from None


def _table(document: Mapping[str, Any]) -> ForeignTable:
    version = int(document["format-version"])
    if version > _NEWEST_FORMAT:
        raise UnsupportedFeatureError(
            f"the Iceberg table has format version {version}, and this release knows versions up to {_NEWEST_FORMAT}",
            features=(f"Iceberg v{version}",),
        )
    current = document.get("current-schema-id")
    schemas = document.get("schemas") or [document["schema"]]
    schema = next(each for each in schemas if current is None or each.get("schema-id", 0) == current)
    specs = document.get("partition-specs") or [{"spec-id": 0, "fields": document.get("partition-spec", [])}]
    snapshot_id = document.get("current-snapshot-id")
    snapshots = document.get("snapshots") or ()
    snapshot = next((each for each in snapshots if each["snapshot-id"] == snapshot_id), None)
    if snapshot is not None and "manifest-list" not in snapshot:
        raise UnsupportedFeatureError(
            "the snapshot lists its manifests in the metadata file, as the first writers of Iceberg did: write the"
            " table once with a current one",
            features=("Iceberg manifests",),
        )
    mapping = orjson.loads((document.get("properties") or {}).get("schema.name-mapping.default", "[]"))
    return ForeignTable(
        location=str(document["location"]).rstrip("/"),
        schema=_struct(schema["fields"], ""),
        last_column_id=int(document["last-column-id"]),
        identity={int(spec["spec-id"]): _identity(spec["fields"]) for spec in specs},
        names=dict(_names(mapping)),
        manifest_list=None if snapshot is None else str(snapshot["manifest-list"]),
        format_version=version,
    )


def _identity(fields: Sequence[Mapping[str, Any]]) -> dict[int, int]:
    """By the ids of columns. Format version 1 counts the ids of partition fields where it does not name them."""
    return {
        int(each["source-id"]): int(each.get("field-id", _FIRST_PARTITION_ID + at))
        for at, each in enumerate(fields)
        if each["transform"] == "identity"
    }


def _names(mapping: Sequence[Mapping[str, Any]]) -> Any:
    for each in mapping:
        if "field-id" in each:
            yield int(each["field-id"]), tuple(map(str, each.get("names", ())))
        yield from _names(each.get("fields") or ())


def _struct(fields: Sequence[Mapping[str, Any]], above: str) -> Struct:
    return Struct(tuple(_field(each, above) for each in fields))


def _field(given: Mapping[str, Any], above: str) -> Field:
    name, path = str(given["name"]), f"{above}{given['name']}"
    for key in ("initial-default", "write-default"):
        if given.get(key) is not None:
            raise UnsupportedFeatureError(
                f"column {path} has an Iceberg default ({key}), which is not in the files, so their rows would be null:"
                " write the table's files again in Iceberg, and drop the default",
                features=("Iceberg defaults",),
            )
    nested: dict[str, int] = {}
    data_type = _type(given["type"], path, name, nested)
    metadata: dict[str, Any] = {ID_KEY: int(given["id"]), PHYSICAL_NAME_KEY: name}
    if nested:
        metadata[NESTED_IDS_KEY] = nested
    if given.get("doc"):
        metadata["comment"] = str(given["doc"])
    return Field(name, data_type, not given["required"], metadata)


def _type(given: Any, path: str, physical: str, nested: dict[str, int]) -> DataType:
    """``nested`` takes the ids of elements, keys and values, by their place below the column's ``physical`` name."""
    if isinstance(given, Mapping):
        if given["type"] == "struct":
            return _struct(given["fields"], f"{path}.")
        if given["type"] == "list":
            nested[f"{physical}.element"] = int(given["element-id"])
            element = _type(given["element"], f"{path}.element", f"{physical}.element", nested)
            return Array(element, not given["element-required"])
        if given["type"] == "map":
            nested[f"{physical}.key"], nested[f"{physical}.value"] = int(given["key-id"]), int(given["value-id"])
            key = _type(given["key"], f"{path}.key", f"{physical}.key", nested)
            value = _type(given["value"], f"{path}.value", f"{physical}.value", nested)
            return Map(key, value, not given["value-required"])
    text = str(given["type"] if isinstance(given, Mapping) else given)
    if text in _TYPES:
        return _TYPES[text]
    if decimal := _DECIMAL.fullmatch(text):
        return Decimal(int(decimal[1]), int(decimal[2]))
    if _FIXED.fullmatch(text):
        return Primitive("binary")
    raise UnsupportedFeatureError(
        f"column {path} is a {text}, which Delta does not have: convert or drop the column in Iceberg first",
        features=(f"Iceberg {text}",),
    )
