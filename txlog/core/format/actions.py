"""The actions of the Delta protocol (PROTOCOL.md, "Actions"): one class each, to and from JSON values.

In: one decoded line of a commit, or a struct row of a checkpoint. Out: immutable values whose known
fields are strictly typed. Unknown fields are kept in ``extra`` and written back. ``commit_file`` ignores
unknown actions, as the protocol requires.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeAlias, TypeVar

import msgspec
import orjson
from msgspec.structs import replace

from txlog.core.format.wire import (
    ActionError,
    Configuration,
    FileSize,
    FileTime,
    Format,
    Int32,
    Long,
    Size,
    TextMap,
    Unknown,
    WireAction,
    shown,
    wire_keys,
)
from txlog.errors import InvalidInputError

FileKey: TypeAlias = tuple[str, str | None]
"""(path as written in the log, unique id of the deletion vector or None): PROTOCOL.md, "Action Reconciliation"."""

FileId: TypeAlias = tuple[str, int, int]
"""What tells a data file from a later one with the same path: path as written in the log, size, modification time."""

LiveKey: TypeAlias = tuple[FileId, str | None]
"""A live file with the unique id of its deletion vector or None: which rows it has for readers."""


class DeletionVectorDescriptor(WireAction, frozen=True, omit_defaults=True):
    """Where the dead rows of a file are listed (PROTOCOL.md, "Deletion Vector Descriptor Schema")."""

    KEY: ClassVar[str] = "deletionVector"
    storage_type: str
    path_or_inline: str = msgspec.field(name="pathOrInlineDv")
    offset: Int32 | None = None
    size_in_bytes: Int32 = 0
    cardinality: Size = 0
    max_row_index: Size | None = None
    """The last dead row. The protocol does not define it, but Spark writes and reads it."""

    @property
    def unique_id(self) -> str:
        base = self.storage_type + self.path_or_inline
        return base if self.offset is None else f"{base}@{self.offset}"

    def to_json(self) -> dict[str, Any]:
        result: dict[str, Any] = {"storageType": self.storage_type, "pathOrInlineDv": self.path_or_inline}
        if self.offset is not None:
            result["offset"] = self.offset
        result |= {"sizeInBytes": self.size_in_bytes, "cardinality": self.cardinality}
        if self.max_row_index is not None:
            result["maxRowIndex"] = self.max_row_index
        return result


_USUAL_FORMAT: dict[str, Any] = {"provider": "parquet", "options": {}}
NO_COLUMNS = '{"type":"struct","fields":[]}'


class Metadata(WireAction, frozen=True):
    """``metaData``: the table's schema, partitioning and properties. It replaces the previous one completely."""

    KEY: ClassVar[str] = "metaData"
    id: str
    schema_string: str
    partition_columns: tuple[str, ...]
    configuration: Configuration
    format: Format
    name: str | None = None
    description: str | None = None
    created_time: Long | None = None
    extra: Unknown = msgspec.field(default_factory=dict, name="(unknown fields)")

    @classmethod
    def from_json(cls, value: Any) -> Metadata:
        """As of other actions. Databricks' pipelines write the first one without a schema: it has no columns, as in
        Spark."""
        if not isinstance(value, Mapping):
            return cls.read_fields(value)
        if value.get("schemaString") is None:
            value = {**value, "schemaString": NO_COLUMNS}
        return super().from_json(value) if value.get("format") == _USUAL_FORMAT else cls.read_fields(value)


class Protocol(WireAction, frozen=True):
    """``protocol``: the features that readers and writers must support.

    It has feature lists only at versions 3 and 7.
    """

    KEY: ClassVar[str] = "protocol"
    min_reader_version: Int32
    min_writer_version: Int32
    reader_features: tuple[str, ...] | None = None
    writer_features: tuple[str, ...] | None = None
    extra: Unknown = msgspec.field(default_factory=dict, name="(unknown fields)")


class AddFile(WireAction, frozen=True, omit_defaults=True, gc=False):
    """``add``: a data file enters the table. ``path`` is the URI text of the log, not a decoded path.

    A log has many, and none refers to itself, so the garbage collector need not look at them.
    """

    KEY: ClassVar[str] = "add"
    path: str
    partition_values: TextMap
    size: FileSize
    modification_time: FileTime
    data_change: bool
    stats: str | None = None
    tags: TextMap | None = None
    deletion_vector: DeletionVectorDescriptor | None = None
    base_row_id: Size | None = None
    default_row_commit_version: Size | None = None
    clustering_provider: str | None = None
    extra: Unknown = msgspec.field(default_factory=dict, name="(unknown fields)")

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


class RemoveFile(WireAction, frozen=True, omit_defaults=True):
    """``remove``: a data file leaves the table; kept as a tombstone until vacuum may delete the file."""

    KEY: ClassVar[str] = "remove"
    path: str
    data_change: bool = True
    deletion_timestamp: FileTime | None = None
    extended_file_metadata: bool | None = None
    partition_values: TextMap | None = None
    size: FileSize | None = None
    stats: str | None = None
    tags: TextMap | None = None
    deletion_vector: DeletionVectorDescriptor | None = None
    base_row_id: Size | None = None
    default_row_commit_version: Size | None = None
    extra: Unknown = msgspec.field(default_factory=dict, name="(unknown fields)")

    @property
    def key(self) -> FileKey:
        return self.path, self.deletion_vector.unique_id if self.deletion_vector else None

    def to_json(self) -> dict[str, Any]:
        # dataChange is required on the wire although old writers left it out.
        return {"dataChange": self.data_change, **super().to_json()}


class AddCDCFile(WireAction, frozen=True):
    """``cdc``: a file of row-level changes of this version (PROTOCOL.md, "Add CDC File")."""

    KEY: ClassVar[str] = "cdc"
    path: str
    partition_values: TextMap
    size: Size
    data_change: bool
    tags: TextMap | None = None
    extra: Unknown = msgspec.field(default_factory=dict, name="(unknown fields)")


class SetTransaction(WireAction, frozen=True):
    """``txn``: the last version an application committed (PROTOCOL.md, "Transaction Identifiers")."""

    KEY: ClassVar[str] = "txn"
    app_id: str
    version: Long
    last_updated: Long | None = None
    extra: Unknown = msgspec.field(default_factory=dict, name="(unknown fields)")


class DomainMetadata(WireAction, frozen=True):
    """``domainMetadata``: the configuration of one named domain, or its removal."""

    KEY: ClassVar[str] = "domainMetadata"
    domain: str
    configuration: str
    removed: bool
    extra: Unknown = msgspec.field(default_factory=dict, name="(unknown fields)")


class CommitInfo(msgspec.Struct, frozen=True):
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
        """How many lines the commit has, this one included, according to txlog; None in other writers' commits."""
        own = self.fields.get("txlog")
        count = own.get("actions") if type(own) is dict else None
        return count if type(count) is int else None

    @property
    def net_files(self) -> tuple[int, int] | None:
        """How many files and bytes the table grows by, if txlog wrote the commit; None if unknown."""
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


class CheckpointMetadata(WireAction, frozen=True):
    """``checkpointMetadata``: the mark of a V2 checkpoint; never in a commit."""

    KEY: ClassVar[str] = "checkpointMetadata"
    version: Size
    tags: TextMap | None = None


class Sidecar(WireAction, frozen=True):
    """``sidecar``: a Parquet file holding part of a V2 checkpoint's file actions; never in a commit."""

    KEY: ClassVar[str] = "sidecar"
    path: str
    size_in_bytes: Size
    modification_time: Long
    tags: TextMap | None = None


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


_ENCODER = msgspec.json.Encoder()
_RUN_LINES = 1000
_TRIES = 100
"""After so many lines that it refuses, a decoder does not try again: a writer's lines are mostly alike."""
_ADD_START = b'{"add":{'


class _AddLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    add: AddFile


class AddDecoder:
    """Decodes commit lines that are usual ``add``s, in a fifth of the time of `action_from_json`.

    The actions are the same. It refuses any other line, and an ``add`` with an unknown field or a wrong one, which
    `action_from_json` keeps or explains.
    """

    def __init__(self, most_bytes: int) -> None:
        """``most_bytes`` is the length of the longest line to decode."""
        self._most_bytes = most_bytes
        self._decoder = msgspec.json.Decoder(_AddLine)
        self._tries = _TRIES
        self._next_run = 0  # the lines before it are decoded one by one

    def one(self, line: bytes) -> AddFile | None:
        """The action of one line; None if it is refused."""
        if not self._tries or not line.startswith(_ADD_START):
            return None
        try:
            return self._decoder.decode(line).add
        except (msgspec.MsgspecError, UnicodeDecodeError):
            self._tries -= 1
            return None

    def run(self, lines: Sequence[bytes], first: int) -> list[AddFile]:
        """The actions of some lines from the ``first`` one on, decoded at once; none if one of them is refused.

        No value goes over the end of a line, since JSON has no `}` before a `{` and no line end in a text. So there
        is one in each line if there are as many as lines.
        """
        if not self._tries or first < self._next_run or not lines[first].startswith(_ADD_START):
            return []
        run = list(itertools.takewhile(_is_whole_add, lines[first : first + _RUN_LINES]))
        self._next_run = first + len(run)
        if max(map(len, run), default=0) > self._most_bytes:
            return []
        try:
            found = self._decoder.decode_lines(b"\n".join(run))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return []
        return [line.add for line in found] if len(found) == len(run) else []


def _is_whole_add(line: bytes) -> bool:
    return line.startswith(_ADD_START) and line.endswith(b"}")


def action_to_json(action: Action) -> dict[str, Any]:
    """The object to write as one line: ``{"add": {...}}``."""
    return {action.KEY: action.to_json()}


def line_of(action: Action) -> bytes:
    """The line to write. A usual ``add`` or ``remove``, of which a commit may have very many, takes a fifth of the time
    of others.

    Raises TypeError if the action has a value that JSON cannot hold.
    """
    if (type(action) is AddFile or type(action) is RemoveFile) and not action.extra:
        vector = action.deletion_vector
        try:
            if vector is None or (vector.size_in_bytes and vector.cardinality):  # else the encoder leaves these out
                return _usual_line(action)
        except UnicodeEncodeError:
            pass  # below, as an error that says the same of every action
    return orjson.dumps(action_to_json(action))


def _usual_line(action: AddFile | RemoveFile) -> bytes:
    if type(action) is AddFile:
        return b'{"add":%b}' % _ENCODER.encode(action)
    flag = b"true" if action.data_change else b"false"
    without_flag = action if action.data_change else replace(action, data_change=True)
    return b'{"remove":{"dataChange":%b,%b}' % (flag, _ENCODER.encode(without_flag)[1:])


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


def operation_parameters(**values: object) -> dict[str, str]:
    """commitInfo's ``operationParameters`` in Spark's form: strings unchanged, anything else as JSON.

    ``operation_parameters(mode="Append", partitionBy=["day"])`` gives ``{"mode": "Append", "partitionBy":
    '["day"]'}``. None leaves a parameter out.
    """
    try:
        return {
            name: value if isinstance(value, str) else orjson.dumps(value).decode()
            for name, value in values.items()
            if value is not None
        }
    except TypeError as error:
        raise InvalidInputError(f"operation parameters cannot be written as JSON ({error}): {shown(values)}") from None
