"""The actions of the Delta protocol (PROTOCOL.md, "Actions"): one class each, to and from JSON values.

In: one decoded line of a commit, or a struct row of a checkpoint. Out: immutable values whose known
fields are strictly typed. Unknown fields are kept in ``extra`` and written back; unknown actions are
none of this file's business (``commit_file`` ignores them, as the protocol asks).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, TypeAlias, TypeVar

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
    "FileKey",
    "Metadata",
    "Protocol",
    "RemoveFile",
    "SetTransaction",
    "Sidecar",
    "action_from_json",
    "action_to_json",
]

INT64_MAX = 2**63 - 1
INT32_MAX = 2**31 - 1

Json: TypeAlias = Mapping[str, Any]
FileKey: TypeAlias = tuple[str, str | None]
"""(path as written in the log, unique id of the deletion vector or None): PROTOCOL.md, "Action Reconciliation"."""


class ActionError(ValueError):
    """A known field of an action has the wrong type or range. Whoever knows the file and line reports it."""


# --- strict readers of known fields ------------------------------------------------------------------


def _text(value: Any) -> str:
    if type(value) is not str:
        raise ActionError(f"must be a string, is {_shown(value)}")
    return value


def _size(value: Any) -> int:
    """A count, size, version or time: orjson silently reads 2**64 as a float, so the type is checked too."""
    if type(value) is not int or not 0 <= value <= INT64_MAX:
        raise ActionError(f"must be an integer from 0 to 2**63-1, is {_shown(value)}")
    return value


def _long(value: Any) -> int:
    if type(value) is not int or not -INT64_MAX - 1 <= value <= INT64_MAX:
        raise ActionError(f"must be a 64-bit integer, is {_shown(value)}")
    return value


def _int32(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= INT32_MAX:
        raise ActionError(f"must be an integer from 0 to 2**31-1, is {_shown(value)}")
    return value


def _flag(value: Any) -> bool:
    if type(value) is not bool:
        raise ActionError(f"must be true or false, is {_shown(value)}")
    return value


def _text_map(value: Any) -> dict[str, str | None]:
    """A map of strings to strings or nulls. Arrow hands maps over as lists of pairs."""
    items = value.items() if isinstance(value, Mapping) else value
    if not isinstance(value, (Mapping, list)):
        raise ActionError(f"must be a map of strings, is {_shown(value)}")
    result: dict[str, str | None] = {}
    for key, item in items:
        if type(key) is not str or not (item is None or type(item) is str):
            raise ActionError(f"must be a map of strings, has {_shown(key)}: {_shown(item)}")
        result[key] = item
    return result


def _plain_map(value: Any) -> dict[str, str]:
    result = _text_map(value)
    return {key: item for key, item in result.items() if item is not None}


def _text_list(value: Any) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)) or any(type(item) is not str for item in value):
        raise ActionError(f"must be a list of strings, is {_shown(value)}")
    return tuple(value)


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ActionError(f"must be an object, is {_shown(value)}")
    return dict(value)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


# --- the wire description of a class: which key feeds which attribute -----------------------------------


@dataclass(frozen=True, slots=True)
class _Wire:
    key: str
    read: Callable[[Any], Any]
    required: bool
    default: Any = None


def _wire(key: str, read: Callable[[Any], Any], *, required: bool = True, default: Any = None) -> Any:
    """A dataclass field that knows its JSON key. An optional one is absent from JSON when it is ``default``."""
    metadata = {"wire": _Wire(key, read, required, default)}
    if required:
        return field(metadata=metadata)
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


def _optional(key: str, read: Callable[[Any], Any], default: Any = None) -> Any:
    return _wire(key, read, required=False, default=default)


A = TypeVar("A", bound="_WireAction")


@dataclass(frozen=True, slots=True)
class _WireAction:
    """What every action shares: the JSON key it stands under and its fields, read and written by ``_wire``."""

    KEY: ClassVar[str] = ""

    @classmethod
    def from_json(cls: type[A], value: Any) -> A:
        """Build from a decoded JSON object (or a checkpoint row as a dict); raises ``ActionError``."""
        if not isinstance(value, Mapping):
            raise ActionError(f"{cls.KEY} must be an object, is {_shown(value)}")
        by_key = _wires(cls)
        known: dict[str, Any] = {}
        for name, wire in by_key.items():
            raw = value.get(wire.key)
            if raw is not None:
                try:
                    known[name] = wire.read(raw)
                except ActionError as error:
                    raise ActionError(f"{cls.KEY}.{wire.key} {error}") from None
            elif wire.required:
                raise ActionError(f"{cls.KEY}.{wire.key} is missing")
        if "extra" in cls.__dataclass_fields__:
            keys = {wire.key for wire in by_key.values()}
            extra = {key: item for key, item in value.items() if key not in keys and item is not None}
            if extra:
                known["extra"] = extra
        return cls(**known)

    def to_json(self) -> dict[str, Any]:
        """The JSON object that stands under ``KEY``; optional fields that are unset are left out."""
        result: dict[str, Any] = {}
        for name, wire in _wires(type(self)).items():
            item = getattr(self, name)
            if not wire.required and item == wire.default:
                continue
            result[wire.key] = _jsonable(item)
        result.update(getattr(self, "extra", {}))
        return result


_wires_of: dict[type, dict[str, _Wire]] = {}


def _wires(cls: type) -> dict[str, _Wire]:
    found = _wires_of.get(cls)
    if found is None:
        found = {f.name: f.metadata["wire"] for f in fields(cls) if "wire" in f.metadata}
        _wires_of[cls] = found
    return found


def _jsonable(item: Any) -> Any:
    if isinstance(item, _WireAction):
        return item.to_json()
    return list(item) if isinstance(item, tuple) else item


# --- the actions ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DeletionVectorDescriptor(_WireAction):
    """Where the dead rows of a file are listed (PROTOCOL.md, "Deletion Vector Descriptor Schema")."""

    KEY: ClassVar[str] = "deletionVector"
    storage_type: str = _wire("storageType", _text)
    path_or_inline: str = _wire("pathOrInlineDv", _text)
    offset: int | None = _optional("offset", _int32)
    size_in_bytes: int = _optional("sizeInBytes", _int32, 0)
    cardinality: int = _optional("cardinality", _size, 0)

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
        return result


@dataclass(frozen=True, slots=True)
class Metadata(_WireAction):
    """``metaData``: the table's schema, partitioning and properties. Replaces the previous one whole."""

    KEY: ClassVar[str] = "metaData"
    id: str = _wire("id", _text)
    schema_string: str = _wire("schemaString", _text)
    partition_columns: tuple[str, ...] = _wire("partitionColumns", _text_list)
    configuration: dict[str, str] = _wire("configuration", _plain_map)
    format: dict[str, Any] = _wire("format", _object)
    name: str | None = _optional("name", _text)
    description: str | None = _optional("description", _text)
    created_time: int | None = _optional("createdTime", _long)
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Protocol(_WireAction):
    """``protocol``: what a reader and a writer must understand. Feature lists iff the version is 3 / 7."""

    KEY: ClassVar[str] = "protocol"
    min_reader_version: int = _wire("minReaderVersion", _int32)
    min_writer_version: int = _wire("minWriterVersion", _int32)
    reader_features: tuple[str, ...] | None = _optional("readerFeatures", _text_list)
    writer_features: tuple[str, ...] | None = _optional("writerFeatures", _text_list)
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AddFile(_WireAction):
    """``add``: a data file enters the table. ``path`` is the URI text of the log, not a decoded path."""

    KEY: ClassVar[str] = "add"
    path: str = _wire("path", _text)
    partition_values: dict[str, str | None] = _wire("partitionValues", _text_map)
    size: int = _wire("size", _size)
    modification_time: int = _wire("modificationTime", _long)
    data_change: bool = _wire("dataChange", _flag)
    stats: str | None = _optional("stats", _text)
    tags: dict[str, str | None] | None = _optional("tags", _text_map)
    deletion_vector: DeletionVectorDescriptor | None = _optional("deletionVector", DeletionVectorDescriptor.from_json)
    base_row_id: int | None = _optional("baseRowId", _size)
    default_row_commit_version: int | None = _optional("defaultRowCommitVersion", _size)
    clustering_provider: str | None = _optional("clusteringProvider", _text)
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> FileKey:
        return self.path, self.deletion_vector.unique_id if self.deletion_vector else None

    def removed(self, *, deletion_timestamp: int, data_change: bool) -> RemoveFile:
        """The ``remove`` that undoes this add: echoes its deletion vector and row ids, as writers must."""
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
class RemoveFile(_WireAction):
    """``remove``: a data file leaves the table; kept as a tombstone until vacuum may delete the file."""

    KEY: ClassVar[str] = "remove"
    path: str = _wire("path", _text)
    data_change: bool = _optional("dataChange", _flag, True)
    deletion_timestamp: int | None = _optional("deletionTimestamp", _long)
    extended_file_metadata: bool | None = _optional("extendedFileMetadata", _flag)
    partition_values: dict[str, str | None] | None = _optional("partitionValues", _text_map)
    size: int | None = _optional("size", _size)
    stats: str | None = _optional("stats", _text)
    tags: dict[str, str | None] | None = _optional("tags", _text_map)
    deletion_vector: DeletionVectorDescriptor | None = _optional("deletionVector", DeletionVectorDescriptor.from_json)
    base_row_id: int | None = _optional("baseRowId", _size)
    default_row_commit_version: int | None = _optional("defaultRowCommitVersion", _size)
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> FileKey:
        return self.path, self.deletion_vector.unique_id if self.deletion_vector else None

    def to_json(self) -> dict[str, Any]:
        # dataChange is required on the wire although old writers left it out.
        # (a slotted dataclass is rebuilt by its decorator, so zero-argument super() would not find it)
        return {"dataChange": self.data_change, **_WireAction.to_json(self)}


@dataclass(frozen=True, slots=True)
class AddCDCFile(_WireAction):
    """``cdc``: a file of row-level changes of this version (PROTOCOL.md, "Add CDC File")."""

    KEY: ClassVar[str] = "cdc"
    path: str = _wire("path", _text)
    partition_values: dict[str, str | None] = _wire("partitionValues", _text_map)
    size: int = _wire("size", _size)
    data_change: bool = _wire("dataChange", _flag)
    tags: dict[str, str | None] | None = _optional("tags", _text_map)
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SetTransaction(_WireAction):
    """``txn``: the last version an application committed (PROTOCOL.md, "Transaction Identifiers")."""

    KEY: ClassVar[str] = "txn"
    app_id: str = _wire("appId", _text)
    version: int = _wire("version", _long)
    last_updated: int | None = _optional("lastUpdated", _long)
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DomainMetadata(_WireAction):
    """``domainMetadata``: the configuration of one named domain, or its removal."""

    KEY: ClassVar[str] = "domainMetadata"
    domain: str = _wire("domain", _text)
    configuration: str = _wire("configuration", _text)
    removed: bool = _wire("removed", _flag)
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CommitInfo:
    """``commitInfo``: free-form provenance. ``fields`` is the whole object as written."""

    KEY: ClassVar[str] = "commitInfo"
    fields: dict[str, Any]

    @classmethod
    def from_json(cls, value: Any) -> CommitInfo:
        if not isinstance(value, Mapping):
            raise ActionError(f"commitInfo must be an object, is {_shown(value)}")
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
        """What the writer declared; absent counts as not blind (the safe reading)."""
        return self.fields.get("isBlindAppend") is True

    @property
    def declared_actions(self) -> int | None:
        """How many lines txlog said this commit has, itself included; None in foreign commits."""
        own = self.fields.get("txlog")
        count = own.get("actions") if isinstance(own, Mapping) else None
        return count if type(count) is int else None

    @property
    def fingerprint(self) -> str | None:
        own = self.fields.get("txlog")
        value = own.get("fingerprint") if isinstance(own, Mapping) else None
        return value if type(value) is str else None


@dataclass(frozen=True, slots=True)
class CheckpointMetadata(_WireAction):
    """``checkpointMetadata``: the mark of a V2 checkpoint; never in a commit."""

    KEY: ClassVar[str] = "checkpointMetadata"
    version: int = _wire("version", _size)
    tags: dict[str, str | None] | None = _optional("tags", _text_map)


@dataclass(frozen=True, slots=True)
class Sidecar(_WireAction):
    """``sidecar``: a Parquet file holding part of a V2 checkpoint's file actions; never in a commit."""

    KEY: ClassVar[str] = "sidecar"
    path: str = _wire("path", _text)
    size_in_bytes: int = _wire("sizeInBytes", _size)
    modification_time: int = _wire("modificationTime", _long)
    tags: dict[str, str | None] | None = _optional("tags", _text_map)


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
    """The action of one decoded commit line, or None where the action is unknown (and so ignored).

    Raises ``ActionError`` where a known action is malformed or a line holds more than one.
    """
    if not isinstance(line, Mapping):
        raise ActionError(f"an action must be an object, is {_shown(line)}")
    found = [(kind, line[key]) for key, kind in _BY_KEY.items() if line.get(key) is not None]
    if len(found) > 1:
        raise ActionError(f"one line holds {len(found)} actions: {', '.join(kind.KEY for kind, _ in found)}")
    if not found:
        return None
    kind, value = found[0]
    action: Action = kind.from_json(value)
    return action


def action_to_json(action: Action) -> dict[str, Any]:
    """The object to write as one line: ``{"add": {...}}``."""
    return {action.KEY: action.to_json()}
