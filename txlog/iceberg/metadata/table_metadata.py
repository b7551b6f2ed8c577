"""Iceberg's table metadata: the JSON document that names the schema, the properties and the retained snapshots.

In: the previous document (or none), a definition, snapshots. Out: the next document; none is changed in place. Keys are
sorted, so a document has one form: if it has another, another library wrote it. Iceberg spec, "Table Metadata Fields".
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import orjson

from txlog.core.format.actions import Metadata
from txlog.core.util import cached_property, repr_without
from txlog.errors import IcebergExportError
from txlog.iceberg.metadata.definition import NAME_MAPPING, TABLE_PROPERTIES, IcebergDefinition
from txlog.iceberg.metadata.dropped_columns import hidden_columns, with_columns
from txlog.iceberg.metadata.live_manifests import Layout
from txlog.iceberg.metadata.manifest_list import ManifestFile
from txlog.iceberg.metadata.names import table_uuid
from txlog.iceberg.metadata.schema import ColumnPath

FOLDER = "_iceberg"
"""The table's folder that is its Iceberg location; vacuums of all engines leave it alone."""
DELTA_VERSION = "delta.version"
"""The Iceberg table property that holds the newest exported Delta version."""

_SNAPSHOTS_MAX = 100
_VERSION_OF_SNAPSHOT = "delta-version"


class MetadataPlace(msgspec.Struct, frozen=True):
    """Where the table is: ``root`` is its absolute URI, with a scheme."""

    root: str

    @property
    def location(self) -> str:
        return f"{self.root}/{FOLDER}"

    @property
    def base(self) -> str:
        """The folder of all metadata files."""
        return f"{self.location}/metadata"


class Exported(msgspec.Struct, frozen=True):
    """One metadata file: the N of ``vN.metadata.json``, its document, the manifests of its current snapshot.

    ``layout`` is what its writer computed from the table's metadata and these manifests; the next export reuses it.
    """

    number: int
    document: Mapping[str, Any]
    manifests: tuple[ManifestFile, ...]
    layout: tuple[Metadata, Layout] | None = None

    __repr__ = repr_without("layout")

    @property
    def version(self) -> int:
        """The exported Delta version."""
        return int(self.document["properties"][DELTA_VERSION])

    @property
    def format_version(self) -> int:
        return int(self.document["format-version"])


class _Snapshot(dict[str, Any]):
    """A snapshot. It is in many documents and never changes, so it is encoded once."""

    @cached_property
    def fragment(self) -> orjson.Fragment:
        return orjson.Fragment(orjson.dumps(self, option=orjson.OPT_SORT_KEYS))


def encoded(document: Mapping[str, Any]) -> bytes:
    snapshots = [each.fragment if type(each) is _Snapshot else each for each in document["snapshots"]]
    return orjson.dumps({**document, "snapshots": snapshots}, option=orjson.OPT_SORT_KEYS)


def parsed(body: bytes, path: str) -> dict[str, Any]:
    """The document of a metadata file that this module wrote.

    Raises IcebergExportError if another Iceberg writer wrote it, or it is damaged. No file that the document names is
    opened before this check.
    """
    try:
        document = orjson.loads(body)
        if not isinstance(document, dict) or encoded(document) != body:
            raise ValueError("txlog did not write it")
        document["snapshots"] = [_Snapshot(each) for each in document["snapshots"]]
        snapshot = current_snapshot(document)
        if snapshot is not None and int(snapshot["summary"][_VERSION_OF_SNAPSHOT]) < 0:
            raise ValueError("its current snapshot has no Delta version")
        int(document["properties"][DELTA_VERSION])
    except (ValueError, KeyError, TypeError) as error:
        raise IcebergExportError(
            f"the newest Iceberg metadata is not txlog's: {error}. An Iceberg writer has committed here, or the file is"
            " damaged. What an Iceberg writer adds is not part of the table. export_iceberg(rebuild=True), or `txlog"
            " iceberg --rebuild`, exports the table again over it",
            path=path,
        ) from None
    return document


def current_snapshot(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The current snapshot; None for a table that never had a file."""
    wanted = document.get("current-snapshot-id")
    if wanted is None:
        return None
    found: Mapping[str, Any] = next(each for each in reversed(document["snapshots"]) if each["snapshot-id"] == wanted)
    return found


def defined(
    before: Mapping[str, Any] | None, definition: IcebergDefinition, place: MetadataPlace, table_id: str
) -> dict[str, Any]:
    """The document with another definition and the same snapshots."""
    document: dict[str, Any] = dict(before) if before else _empty(definition, place, table_id)
    document["schemas"] = _with(document["schemas"], definition.schema, "schema-id")
    document["current-schema-id"] = definition.schema["schema-id"]
    document["last-column-id"] = definition.last_column_id
    document["partition-specs"] = _with(document["partition-specs"], definition.spec, "spec-id")
    document["default-spec-id"] = definition.spec["spec-id"]
    document["last-partition-id"] = definition.last_partition_id
    document["properties"] = {
        **document["properties"],
        **TABLE_PROPERTIES,
        NAME_MAPPING: orjson.dumps(definition.name_mapping).decode(),
    }
    return document


def columns_of_files(document: Mapping[str, Any]) -> set[ColumnPath]:
    """The columns in the name mapping which only data files have."""
    return {*hidden_columns(orjson.loads(document["properties"].get(NAME_MAPPING, "[]")))}


def with_columns_of_files(document: Mapping[str, Any], paths: Iterable[ColumnPath]) -> dict[str, Any]:
    """The document with a name mapping that includes columns which only data files have."""
    properties = document["properties"]
    mapping = with_columns(orjson.loads(properties[NAME_MAPPING]), paths)
    return {**document, "properties": {**properties, NAME_MAPPING: orjson.dumps(mapping).decode()}}


def _empty(definition: IcebergDefinition, place: MetadataPlace, table_id: str) -> dict[str, Any]:
    document: dict[str, Any] = {
        "format-version": definition.format_version,
        "table-uuid": table_uuid(table_id),
        "location": place.location,
        "last-sequence-number": 0,
        "last-updated-ms": 0,
        "schemas": [],
        "partition-specs": [],
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {"created-by": "txlog"},
        "refs": {},
        "snapshots": [],
        "snapshot-log": [],
        "metadata-log": [],
    }
    if definition.format_version >= 3:
        document["next-row-id"] = 0
    return document


def _with(known: list[dict[str, Any]], one: dict[str, Any], key: str) -> list[dict[str, Any]]:
    return known if any(each[key] == one[key] for each in known) else [*known, one]


def with_version(document: Mapping[str, Any], version: int, timestamp_ms: int) -> dict[str, Any]:
    """The document after a Delta version that has been exported."""
    return {
        **document,
        "last-updated-ms": max(timestamp_ms, document["last-updated-ms"]),
        "properties": {**document["properties"], DELTA_VERSION: str(version)},
    }


def with_snapshot(document: Mapping[str, Any], snapshot: dict[str, Any], retention_ms: int) -> dict[str, Any]:
    """The document with a newer current snapshot, without snapshots that are too old or too many.

    ``retention_ms`` is how long the data files of an earlier version stay. Ages are counted from the new snapshot: the
    result must not depend on who exports it, or when.
    """
    before, log = document["snapshots"], document["snapshot-log"]
    oldest_ms = snapshot["timestamp-ms"] - retention_ms
    first = max(0, len(before) - (_SNAPSHOTS_MAX - 1))
    while first < len(before) and before[first]["timestamp-ms"] < oldest_ms:  # each is at least as new as the last one
        first += 1
    snapshots = [*before[first:], _Snapshot(snapshot)]
    dropped = {each["snapshot-id"] for each in before[:first]}
    entry = {"snapshot-id": snapshot["snapshot-id"], "timestamp-ms": snapshot["timestamp-ms"]}
    used = {document["current-schema-id"]}
    if len(document["schemas"]) > 1:
        used.update(each["schema-id"] for each in snapshots)
    return {
        **document,
        "snapshots": snapshots,
        "snapshot-log": [*itertools.dropwhile(lambda each: each["snapshot-id"] in dropped, log), entry],
        "current-snapshot-id": snapshot["snapshot-id"],
        "refs": {"main": {"snapshot-id": snapshot["snapshot-id"], "type": "branch"}},
        "schemas": [each for each in document["schemas"] if each["schema-id"] in used],
        "last-sequence-number": snapshot["sequence-number"],
    }
