"""The actions of the Delta protocol (PROTOCOL.md, "Actions"): one class each, to and from JSON values.

In: one decoded line of a commit, or a struct row of a checkpoint. Out: immutable values whose known
fields are strictly typed. Unknown fields are kept in ``extra`` and written back. ``commit_file`` ignores
unknown actions, as the protocol requires.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias, TypeVar

import orjson

from txlog.protocol.wire import (
    INT64_MAX,
    ActionError,
    WireAction,
    optional,
    read_flag,
    read_int32,
    read_long,
    read_object,
    read_plain_map,
    read_size,
    read_text,
    read_text_list,
    read_text_map,
    required,
    shown,
    wire_keys,
)

__all__ = [
    "INT64_MAX",
    "Action",
    "ActionError",
    "AddCDCFile",
    "AddFile",
    "CheckpointMetadata",
    "CommitInfo",
    "DeletionVectorDescriptor",
    "DomainMetadata",
    "FileId",
    "FileKey",
    "LiveKey",
    "Metadata",
    "Protocol",
    "RemoveFile",
    "SetTransaction",
    "Sidecar",
    "action_from_json",
    "action_to_json",
    "as_read",
]

FileKey: TypeAlias = tuple[str, str | None]
"""(path as written in the log, unique id of the deletion vector or None): PROTOCOL.md, "Action Reconciliation"."""

FileId: TypeAlias = tuple[str, int, int]
"""What tells one data file from a later one of the same path: path as written in the log, size, modification time."""

LiveKey: TypeAlias = tuple[FileId, str | None]
"""A live file with the unique id of its deletion vector or None: which rows it has for readers."""


def _read_format(value: Any) -> dict[str, Any]:
    """``provider`` and ``options``. Either may be absent: a checkpoint has no leaf for an empty one."""
    found = read_object(value)
    for key, read in (("provider", read_text), ("options", read_text_map)):
        if found.get(key) is not None:
            try:
                found[key] = read(found[key])
            except ActionError as error:
                raise ActionError(f".{key} {error}") from None
    return found


@dataclass(frozen=True, slots=True)
class DeletionVectorDescriptor(WireAction):
    """Where the dead rows of a file are listed (PROTOCOL.md, "Deletion Vector Descriptor Schema")."""

    KEY: ClassVar[str] = "deletionVector"
    storage_type: str = required("storageType", read_text)
    path_or_inline: str = required("pathOrInlineDv", read_text)
    offset: int | None = optional("offset", read_int32)
    size_in_bytes: int = optional("sizeInBytes", read_int32, 0)
    cardinality: int = optional("cardinality", read_size, 0)
    max_row_index: int | None = optional("maxRowIndex", read_size)
    """The last dead row. The protocol does not define it, but Spark writes and reads it."""

    @property
    def unique_id(self) -> str:
        base = self.storage_type + self.path_or_inline
        return base if self.offset is None else f"{base}@{self.offset}"

    def to_json(self) -> dict[str, Any]:
        result: dict[str, Any] = {
            "storageType": self.storage_type,
            "pathOrInlineDv": self.path_or_inline,
            "sizeInBytes": self.size_in_bytes,
            "cardinality": self.cardinality,
        }
        if self.offset is not None:
            result["offset"] = self.offset
        if self.max_row_index is not None:
            result["maxRowIndex"] = self.max_row_index
        return result


@dataclass(frozen=True, slots=True)
class Metadata(WireAction):
    """``metaData``: the table's schema, partitioning and properties. It replaces the previous one completely."""

    KEY: ClassVar[str] = "metaData"
    id: str = required("id", read_text)
    schema_string: str = required("schemaString", read_text)
    partition_columns: tuple[str, ...] = required("partitionColumns", read_text_list)
    configuration: dict[str, str] = required("configuration", read_plain_map)
    format: dict[str, Any] = required("format", _read_format)
    name: str | None = optional("name", read_text)
    description: str | None = optional("description", read_text)
    created_time: int | None = optional("createdTime", read_long)
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Protocol(WireAction):
    """``protocol``: the features that readers and writers must support.

    It has feature lists only at versions 3 and 7.
    """

    KEY: ClassVar[str] = "protocol"
    min_reader_version: int = required("minReaderVersion", read_int32)
    min_writer_version: int = required("minWriterVersion", read_int32)
    reader_features: tuple[str, ...] | None = optional("readerFeatures", read_text_list)
    writer_features: tuple[str, ...] | None = optional("writerFeatures", read_text_list)
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AddFile(WireAction):
    """``add``: a data file enters the table. ``path`` is the URI text of the log, not a decoded path."""

    KEY: ClassVar[str] = "add"
    path: str = required("path", read_text)
    partition_values: dict[str, str | None] = required("partitionValues", read_text_map)
    size: int = required("size", read_size)
    modification_time: int = required("modificationTime", read_long)
    data_change: bool = required("dataChange", read_flag)
    stats: str | None = optional("stats", read_text)
    tags: dict[str, str | None] | None = optional("tags", read_text_map)
    deletion_vector: DeletionVectorDescriptor | None = optional("deletionVector", DeletionVectorDescriptor.from_json)
    base_row_id: int | None = optional("baseRowId", read_size)
    default_row_commit_version: int | None = optional("defaultRowCommitVersion", read_size)
    clustering_provider: str | None = optional("clusteringProvider", read_text)
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> FileKey:
        return self.path, self.deletion_vector.unique_id if self.deletion_vector else None

    @property
    def file_id(self) -> FileId:
        return self.path, self.size, self.modification_time

    @property
    def live_key(self) -> LiveKey:
        return self.file_id, self.deletion_vector.unique_id if self.deletion_vector else None

    def removed(self, *, deletion_timestamp: int, data_change: bool) -> RemoveFile:
        """The ``remove`` of this file. It repeats the deletion vector and row ids, as the protocol requires."""
        return RemoveFile(
            path=self.path,
            data_change=data_change,
            deletion_timestamp=deletion_timestamp,
            extended_file_metadata=True,
            partition_values=self.partition_values,
            size=self.size,
            tags=self.tags,
            deletion_vector=self.deletion_vector,
            base_row_id=self.base_row_id,
            default_row_commit_version=self.default_row_commit_version,
        )


@dataclass(frozen=True, slots=True)
class RemoveFile(WireAction):
    """``remove``: a data file leaves the table; kept as a tombstone until vacuum may delete the file."""

    KEY: ClassVar[str] = "remove"
    path: str = required("path", read_text)
    data_change: bool = optional("dataChange", read_flag, True)
    deletion_timestamp: int | None = optional("deletionTimestamp", read_long)
    extended_file_metadata: bool | None = optional("extendedFileMetadata", read_flag)
    partition_values: dict[str, str | None] | None = optional("partitionValues", read_text_map)
    size: int | None = optional("size", read_size)
    stats: str | None = optional("stats", read_text)
    tags: dict[str, str | None] | None = optional("tags", read_text_map)
    deletion_vector: DeletionVectorDescriptor | None = optional("deletionVector", DeletionVectorDescriptor.from_json)
    base_row_id: int | None = optional("baseRowId", read_size)
    default_row_commit_version: int | None = optional("defaultRowCommitVersion", read_size)
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> FileKey:
        return self.path, self.deletion_vector.unique_id if self.deletion_vector else None

    def to_json(self) -> dict[str, Any]:
        # dataChange is required on the wire although old writers left it out.
        # (a slotted dataclass is rebuilt by its decorator, so zero-argument super() would not find it)
        return {"dataChange": self.data_change, **WireAction.to_json(self)}


@dataclass(frozen=True, slots=True)
class AddCDCFile(WireAction):
    """``cdc``: a file of row-level changes of this version (PROTOCOL.md, "Add CDC File")."""

    KEY: ClassVar[str] = "cdc"
    path: str = required("path", read_text)
    partition_values: dict[str, str | None] = required("partitionValues", read_text_map)
    size: int = required("size", read_size)
    data_change: bool = required("dataChange", read_flag)
    tags: dict[str, str | None] | None = optional("tags", read_text_map)
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SetTransaction(WireAction):
    """``txn``: the last version an application committed (PROTOCOL.md, "Transaction Identifiers")."""

    KEY: ClassVar[str] = "txn"
    app_id: str = required("appId", read_text)
    version: int = required("version", read_long)
    last_updated: int | None = optional("lastUpdated", read_long)
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DomainMetadata(WireAction):
    """``domainMetadata``: the configuration of one named domain, or its removal."""

    KEY: ClassVar[str] = "domainMetadata"
    domain: str = required("domain", read_text)
    configuration: str = required("configuration", read_text)
    removed: bool = required("removed", read_flag)
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CommitInfo:
    """``commitInfo``: free-form provenance. ``fields`` is the whole object as written."""

    KEY: ClassVar[str] = "commitInfo"
    fields: dict[str, Any]

    @classmethod
    def from_json(cls, value: Any) -> CommitInfo:
        if not isinstance(value, Mapping):
            raise ActionError(f"commitInfo must be an object, not {shown(value)}")
        return cls(dict(value))

    def to_json(self) -> dict[str, Any]:
        return self.fields

    def _string(self, key: str) -> str | None:
        value = self.fields.get(key)
        return value if type(value) is str else None

    def _integer(self, key: str) -> int | None:
        value = self.fields.get(key)
        return value if type(value) is int else None

    @property
    def txn_id(self) -> str | None:
        return self._string("txnId")

    @property
    def operation(self) -> str | None:
        return self._string("operation")

    @property
    def timestamp(self) -> int | None:
        return self._integer("timestamp")

    @property
    def in_commit_timestamp(self) -> int | None:
        return self._integer("inCommitTimestamp")

    @property
    def is_blind_append(self) -> bool:
        """What the writer declared. If it declared nothing, the commit counts as not blind, which is safe."""
        return self.fields.get("isBlindAppend") is True

    @property
    def declared_actions(self) -> int | None:
        """How many lines the commit has, this one included, according to txlog; None in commits of other writers."""
        own = self.fields.get("txlog")
        count = own.get("actions") if type(own) is dict else None
        return count if type(count) is int else None

    @property
    def net_files(self) -> tuple[int, int] | None:
        """By how many files and bytes the commit changes the table, if txlog wrote it; None if unknown."""
        own = self.fields.get("txlog")
        net = own.get("net") if type(own) is dict else None
        if type(net) is list and len(net) == 2 and type(net[0]) is int and type(net[1]) is int:
            return net[0], net[1]
        return None

    @property
    def fingerprint(self) -> str | None:
        own = self.fields.get("txlog")
        value = own.get("fingerprint") if type(own) is dict else None
        return value if type(value) is str else None


@dataclass(frozen=True, slots=True)
class CheckpointMetadata(WireAction):
    """``checkpointMetadata``: the mark of a V2 checkpoint; never in a commit."""

    KEY: ClassVar[str] = "checkpointMetadata"
    version: int = required("version", read_size)
    tags: dict[str, str | None] | None = optional("tags", read_text_map)


@dataclass(frozen=True, slots=True)
class Sidecar(WireAction):
    """``sidecar``: a Parquet file holding part of a V2 checkpoint's file actions; never in a commit."""

    KEY: ClassVar[str] = "sidecar"
    path: str = required("path", read_text)
    size_in_bytes: int = required("sizeInBytes", read_size)
    modification_time: int = required("modificationTime", read_long)
    tags: dict[str, str | None] | None = optional("tags", read_text_map)


Action: TypeAlias = (
    Metadata
    | Protocol
    | AddFile
    | RemoveFile
    | AddCDCFile
    | SetTransaction
    | DomainMetadata
    | CommitInfo
    | CheckpointMetadata
    | Sidecar
)

Kind = TypeVar("Kind", bound=Action)

_BY_KEY: dict[str, Any] = {
    kind.KEY: kind
    for kind in (
        Metadata,
        Protocol,
        AddFile,
        RemoveFile,
        AddCDCFile,
        SetTransaction,
        DomainMetadata,
        CommitInfo,
        CheckpointMetadata,
        Sidecar,
    )
}


def action_from_json(line: Any) -> Action | None:
    """The action of one decoded commit line, or None if the action is unknown (and so ignored).

    Raises ``ActionError`` if a known action is malformed or a line has more than one action.
    """
    if type(line) is not dict and not isinstance(line, Mapping):
        raise ActionError(f"an action must be an object, not {shown(line)}")
    found = [(_BY_KEY[key], value) for key, value in line.items() if value is not None and key in _BY_KEY]
    if len(found) > 1:
        raise ActionError(f"one line has {len(found)} actions: {', '.join(kind.KEY for kind, _ in found)}")
    if not found:
        return None
    kind, value = found[0]
    action: Action = kind.from_json(value)
    return action


def action_to_json(action: Action) -> dict[str, Any]:
    """The object to write as one line: ``{"add": {...}}``."""
    return {action.KEY: action.to_json()}


def as_read(action: Kind) -> Kind:
    """The action that a reader will get from its commit line, for an action made by hand.

    Raises ``ActionError`` if no reader would accept it, or if ``extra`` has a key of one of the action's own fields.
    """
    extra = getattr(action, "extra", {})
    if not isinstance(extra, dict):
        raise ActionError(f"{action.KEY}.extra must be a dict, not {shown(extra)}")
    if shadowed := sorted(map(str, extra.keys() & wire_keys(type(action)))):
        raise ActionError(f"{action.KEY}.extra must not contain {', '.join(shadowed)}: the action has a field for it")
    try:
        line = orjson.dumps(action_to_json(action))
    except TypeError as error:
        raise ActionError(f"{action.KEY} cannot be written as JSON ({error})") from None
    found = action_from_json(orjson.loads(line))
    assert type(found) is type(action)
    return found
