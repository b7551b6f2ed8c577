"""What a Unity Catalog server is asked and what it answers, as values.

In: JSON. Out: typed structs; what txlog does not use is left out. The names on the wire have hyphens. A server may
leave a field out or send null for it, and it means the same; fields that nobody knows are ignored. Unity Catalog,
"api/delta.yaml" (the "UC Delta API", version 1.0).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from txlog.core.format.features import CATALOG_MANAGED

T = TypeVar("T")

_OF_THE_TABLE = "columns"
"""The field with a table's schema, where a null belongs to the table."""


def decoded(raw: bytes, kind: type[T]) -> T:
    """An answer, in which a null is a field that is absent. Raises ``msgspec.MsgspecError``."""
    return msgspec.convert(_without_nulls(msgspec.json.decode(raw)), kind)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: each if key == _OF_THE_TABLE else _without_nulls(each)
            for key, each in value.items()
            if each is not None
        }
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


class _Wire(msgspec.Struct, frozen=True, rename="kebab"):
    pass


class ProtocolInfo(_Wire, frozen=True):
    """A table's protocol."""

    min_reader_version: int = 3
    min_writer_version: int = 7
    reader_features: Sequence[str] = ()
    writer_features: Sequence[str] = ()


class CommitRecord(_Wire, frozen=True):
    """An accepted commit: the file below ``_delta_log/_staged_commits/`` that holds it."""

    version: int
    timestamp: int
    file_name: str
    file_size: int
    file_modification_timestamp: int = 0


class TableInfo(_Wire, frozen=True):
    """A table's definition as the catalog knows it."""

    table_uuid: str
    location: str
    table_type: str = ""
    etag: str = ""
    columns: Any = None
    partition_columns: Sequence[str] = ()
    properties: Mapping[str, str] = {}

    @property
    def is_catalog_managed(self) -> bool:
        """Whether the catalog says that it decides the table's commits. A server may call a table MANAGED whose
        commits it does not decide: it owns the files alone."""
        return self.table_type == "MANAGED" and f"delta.feature.{CATALOG_MANAGED}" in self.properties


class LoadedTable(_Wire, frozen=True):
    """A table and its newest version. ``commits`` are accepted and perhaps not published yet, newest first."""

    metadata: TableInfo
    commits: Sequence[CommitRecord] = ()
    latest_table_version: int | None = None


class StorageCredential(_Wire, frozen=True):
    """Short-lived access to what is below a prefix. ``config`` holds secrets, so the repr leaves it out."""

    prefix: str
    expiration_time_ms: int | None = None
    config: Mapping[str, str] = {}

    def __repr__(self) -> str:
        return f"StorageCredential({self.prefix!r}, expires {self.expiration_time_ms})"


class Credentials(_Wire, frozen=True):
    storage_credentials: Sequence[StorageCredential] = ()


class StagedTable(_Wire, frozen=True):
    """A place for a new table, and what its version 0 must have."""

    table_id: str
    location: str
    required_protocol: ProtocolInfo
    required_properties: Mapping[str, str] = {}


class CreateTableRequest(_Wire, frozen=True, omit_defaults=True):
    """The request that makes a staged table, or a place that holds a table, a table of the catalog."""

    name: str
    location: str
    table_type: str
    columns: Any
    protocol: ProtocolInfo
    properties: Mapping[str, str]
    last_commit_timestamp_ms: int
    partition_columns: Sequence[str] = ()
    comment: str | None = None
    domain_metadata: Mapping[str, Any] | None = None


class Refusal(msgspec.Struct, frozen=True):
    """Why a request was refused, in either of the two shapes of the server's APIs."""

    error: _Error | None = None
    error_code: str = ""
    message: str = ""

    @property
    def kind(self) -> str:
        return self.error.type if self.error is not None else self.error_code

    @property
    def text(self) -> str:
        return self.error.message if self.error is not None else self.message


class _Error(msgspec.Struct, frozen=True):
    type: str = ""
    message: str = ""


class OldNames(msgspec.Struct, frozen=True):
    """A page of names of the old API: of catalogs, of the schemas of one, or of the tables of one."""

    catalogs: Sequence[OldName] = ()
    schemas: Sequence[OldName] = ()
    tables: Sequence[OldName] = ()
    next_page_token: str = ""


class OldName(msgspec.Struct, frozen=True):
    name: str
    table_id: str = ""
    table_type: str = ""
    data_source_format: str = ""
    storage_location: str = ""
