"""What a task sends to the committer: a `Committable`, as a value and as checked bytes.

In: the outcome of one sealed task: new files (`PendingFile`), live files that go or get another deletion vector
(`ReplacedFile`), change data files (`ChangeFile`). Out: plain data for the driver, which trusts none of it before
``committable_checks`` has checked it. The bytes carry a format version and a checksum, since they travel through
message queues and are stored in staging areas.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from txlog.protocol.actions import AddCDCFile, AddFile, DeletionVectorDescriptor
from txlog.protocol.paths import encode_path
from txlog.protocol.wire import read_int32, read_long, read_size, read_text, read_text_map
from txlog.writer import sealed_json

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ChangeFile", "Committable", "FileTail", "PendingFile", "ReplacedFile"]

_TAIL_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class FileTail:
    """What the end of a file must read back as, its footer in it: for a file whose bytes were in memory as a whole."""

    start: int
    crc32: int

    @classmethod
    def of(cls, body: pa.Buffer) -> FileTail:
        start = max(0, body.size - _TAIL_BYTES)
        return cls(start, zlib.crc32(memoryview(body)[start:]))

    def is_end_of(self, size_bytes: int, found: bytes) -> bool:
        """Whether ``found``, all from ``start`` on, ends a file of that size as written."""
        return self.start + len(found) == size_bytes and zlib.crc32(found) == self.crc32


@dataclass(frozen=True, slots=True)
class PendingFile:
    """A finished data file that no commit names yet.

    ``path`` is relative to the table and decoded; ``partition_values`` and ``stats`` are as ``add`` holds them.
    ``deletion_vector`` marks those of its rows that the same write replaced later; ``num_rows`` counts them too.
    ``_tail`` stays in the process that wrote the file: names with an underscore are left out of `Committable.to_bytes`.
    """

    path: str
    size_bytes: int
    num_rows: int
    modified_ms: int
    partition_values: dict[str, str | None]
    stats: str | None
    deletion_vector: DeletionVectorDescriptor | None = None
    _tail: FileTail | None = field(default=None, compare=False, repr=False)

    @property
    def tail(self) -> FileTail | None:
        return self._tail

    def to_add(self, *, data_change: bool = True) -> AddFile:
        """The action that makes this file part of the table."""
        return AddFile(
            path=encode_path(self.path),
            partition_values=self.partition_values,
            size=self.size_bytes,
            modification_time=self.modified_ms,
            data_change=data_change,
            stats=self.stats,
            deletion_vector=self.deletion_vector,
        )


@dataclass(frozen=True, slots=True)
class ReplacedFile:
    """A live file that the write takes out of the table, or gives another deletion vector.

    ``path`` is the file's name in the log, as the log spells it, and ``vector_id`` the unique id of the deletion vector
    that it has there (None: it has none): together the key by which the log knows it. ``deletion_vector`` is what
    it gets, durable; None removes the file.
    """

    path: str
    vector_id: str | None = None
    deletion_vector: DeletionVectorDescriptor | None = None


@dataclass(frozen=True, slots=True)
class ChangeFile:
    """A finished file of row-level changes that no commit names yet; its fields are as those of `PendingFile`.

    It lies below ``_change_data/``.
    """

    path: str
    size_bytes: int
    num_rows: int
    partition_values: dict[str, str | None]

    def to_cdc(self) -> AddCDCFile:
        """The action that makes this file part of a version's changes."""
        return AddCDCFile(encode_path(self.path), self.partition_values, self.size_bytes, data_change=False)


@dataclass(frozen=True, slots=True)
class Committable:
    """The outcome of one attempt of one task, durable and counted, for one checkpoint of one application.

    ``table_id`` and ``read_version`` say which table the task wrote for, as it stood when the write was planned.
    ``files`` are new; ``replaced`` are live files that go or get another deletion vector; ``changes`` are files of
    change data.
    """

    app_id: str | None
    checkpoint_id: int | None
    job_id: str
    task_id: int
    attempt: int
    table_id: str
    read_version: int
    files: tuple[PendingFile, ...]
    replaced: tuple[ReplacedFile, ...] = ()
    changes: tuple[ChangeFile, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether it would change nothing."""
        return not (self.files or self.replaced or self.changes)

    @property
    def num_rows(self) -> int:
        """The rows of all its new files."""
        return sum(file.num_rows for file in self.files)

    @property
    def size_bytes(self) -> int:
        """The size of all its new files."""
        return sum(file.size_bytes for file in self.files)

    def adds(self, *, data_change: bool = True) -> tuple[AddFile, ...]:
        """Its files as ``add`` actions, as the log will name them."""
        return tuple(file.to_add(data_change=data_change) for file in self.files)

    def to_bytes(self) -> bytes:
        """Its bytes, with a checksum: see ``sealed_json``."""
        return sealed_json.to_bytes("committable", self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Committable:
        """The committable again. Raises InvalidInputError where a byte was changed or lost.

        UnsupportedFeatureError where a newer txlog wrote it.
        """
        return sealed_json.from_bytes("committable", data, _committable, if_damaged=": have the task send it again")


def _committable(value: dict[str, Any], version: int) -> Committable:
    """Read a committable. Every field is checked, since a program that can write a message can write its checksum."""
    files = value.pop("files")
    if version == 1:
        if any("deletion_vector" in file for file in files):
            raise ValueError("a file of format 1 has no deletion vector")
        pending = tuple(PendingFile(**_fields(file, _READ_FILE)) for file in files)
        return Committable(files=pending, **_fields(value, _READ_COMMITTABLE))
    return Committable(
        files=tuple(PendingFile(**_fields(file, _READ_FILE)) for file in files),
        replaced=tuple(ReplacedFile(**_fields(file, _READ_REPLACED)) for file in value.pop("replaced")),
        changes=tuple(ChangeFile(**_fields(file, _READ_CHANGE)) for file in value.pop("changes")),
        **_fields(value, _READ_COMMITTABLE),
    )


def _fields(value: dict[str, Any], read: dict[str, Callable[[Any], Any]]) -> dict[str, Any]:
    return {name: read[name](item) for name, item in value.items()}


def _or_none(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else read(value)


def _vector(value: Any) -> DeletionVectorDescriptor:
    return DeletionVectorDescriptor(**_fields(value, _READ_VECTOR))


_READ_VECTOR: dict[str, Callable[[Any], Any]] = {
    "storage_type": read_text,
    "path_or_inline": read_text,
    "offset": _or_none(read_int32),
    "size_in_bytes": read_int32,
    "cardinality": read_size,
    "max_row_index": _or_none(read_size),
}
_READ_FILE: dict[str, Callable[[Any], Any]] = {
    "path": read_text,
    "size_bytes": read_size,
    "num_rows": read_size,
    "modified_ms": read_long,
    "partition_values": read_text_map,
    "stats": _or_none(read_text),
    "deletion_vector": _or_none(_vector),
}
_READ_REPLACED: dict[str, Callable[[Any], Any]] = {
    "path": read_text,
    "vector_id": _or_none(read_text),
    "deletion_vector": _or_none(_vector),
}
_READ_CHANGE: dict[str, Callable[[Any], Any]] = {
    "path": read_text,
    "size_bytes": read_size,
    "num_rows": read_size,
    "partition_values": read_text_map,
}
_READ_COMMITTABLE: dict[str, Callable[[Any], Any]] = {
    "app_id": _or_none(read_text),
    "checkpoint_id": _or_none(read_long),
    "job_id": read_text,
    "task_id": read_size,
    "attempt": read_size,
    "table_id": read_text,
    "read_version": read_long,
}
