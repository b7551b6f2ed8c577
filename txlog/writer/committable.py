"""What a task sends to the committer: a `Committable`, as a value and as checked bytes.

In: the outcome of one sealed task: new files (`PendingFile`) and key files (`KeyFile`). Out: plain data for the driver,
which uses it only after ``committable_checks`` checked it. The bytes carry a format version and a checksum, since they
travel through message queues and are stored in staging areas.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from txlog.protocol.actions import AddCDCFile, AddFile
from txlog.protocol.paths import encode_path
from txlog.protocol.wire import read_long, read_size, read_text, read_text_map
from txlog.result import counted, human_size
from txlog.util.values import repr_without
from txlog.writer import sealed_json

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ChangeFile", "Committable", "FileTail", "KeyFile", "PendingFile"]

_TAIL_BYTES = 64 << 10


class FileTail(msgspec.Struct, frozen=True):
    """The expected end of a file, with its footer: known if all the file's bytes were in memory."""

    start: int
    crc32: int

    @classmethod
    def of(cls, body: pa.Buffer) -> FileTail:
        start = max(0, body.size - _TAIL_BYTES)
        return cls(start, zlib.crc32(memoryview(body)[start:]))

    def is_end_of(self, size_bytes: int, found: bytes) -> bool:
        """Whether ``found``, everything from ``start`` on, is the end of a file of that size as written."""
        return self.start + len(found) == size_bytes and zlib.crc32(found) == self.crc32


class PendingFile(msgspec.Struct, frozen=True):
    """A finished data file that no commit names yet.

    ``path`` is relative to the table and decoded; ``partition_values`` and ``stats`` are as in ``add``.
    ``_tail`` stays in the process that wrote the file: names with an underscore are left out of `Committable.to_bytes`.
    """

    path: str
    size_bytes: int
    num_rows: int
    modified_ms: int
    partition_values: dict[str, str | None]
    stats: str | None
    _tail: FileTail | None = None

    __repr__ = repr_without("_tail")

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
        )


class ChangeFile(msgspec.Struct, frozen=True):
    """A finished file of row-level changes that no commit names yet; its fields are like `PendingFile`'s.

    It is below ``_change_data/``.
    """

    path: str
    size_bytes: int
    num_rows: int
    partition_values: dict[str, str | None]

    def to_cdc(self) -> AddCDCFile:
        """The action that makes this file part of a version's changes."""
        return AddCDCFile(encode_path(self.path), self.partition_values, self.size_bytes, data_change=False)


class KeyFile(msgspec.Struct, frozen=True):
    """A finished key file, whose rows the write removes from the table; ``changelog.key_files`` has its format.

    No commit ever names it, so a vacuum removes it if nothing else does. ``path`` is relative to the table and decoded.
    """

    path: str
    size_bytes: int
    num_keys: int
    modified_ms: int


class Committable(msgspec.Struct, frozen=True):
    """The outcome of one attempt of one task, durable and counted, for one checkpoint of one application.

    Args:
        app_id: The application that writes exactly once; None for a write without one.
        checkpoint_id: The application's number for this unit of work; None if and only if ``app_id`` is.
        job_id: The write that the task belongs to.
        task_id: The task, from 0.
        attempt: How often the task was started before, from 0. Any one attempt of a task may be committed.
        table_id: The table that the task wrote for: its ``metaData.id``.
        read_version: The table version that the write was planned on.
        files: New data files.
        keys: Key files for the rows to replace or delete, in a write with the intent "upsert"; without them, its keys
            are those in ``files``.
    """

    app_id: str | None
    checkpoint_id: int | None
    job_id: str
    task_id: int
    attempt: int
    table_id: str
    read_version: int
    files: tuple[PendingFile, ...]
    keys: tuple[KeyFile, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether it changes nothing."""
        return not (self.files or self.keys)

    @property
    def num_keys(self) -> int:
        """The number of keys whose rows are replaced or deleted."""
        return sum(file.num_keys for file in self.keys)

    @property
    def num_rows(self) -> int:
        """The number of rows in all its new files."""
        return sum(file.num_rows for file in self.files)

    @property
    def size_bytes(self) -> int:
        """The total size of its new files."""
        return sum(file.size_bytes for file in self.files)

    def __repr__(self) -> str:
        owner = "" if self.app_id is None else f"app_id={self.app_id!r}, checkpoint_id={self.checkpoint_id}, "
        counts = [counted(len(self.files), "file"), counted(self.num_rows, "row"), human_size(self.size_bytes)]
        if self.keys:
            counts.append(counted(self.num_keys, "key"))
        return f"Committable({owner}task_id={self.task_id}, attempt={self.attempt}, {', '.join(counts)})"

    def named_paths(self) -> set[str]:
        """The files below the table's root that it names.

        Returns:
            Relative paths, decoded.
        """
        return {file.path for file in self.files} | {file.path for file in self.keys}

    def adds(self, *, data_change: bool = True) -> tuple[AddFile, ...]:
        """Its new files as ``add`` actions, as the log will name them.

        Args:
            data_change: False if the rows only move to other files.

        Returns:
            One action for each file.
        """
        return tuple(file.to_add(data_change=data_change) for file in self.files)

    def to_bytes(self) -> bytes:
        """Its bytes, for a message queue or a file, with a format version and a checksum.

        Returns:
            What `from_bytes` takes.
        """
        return sealed_json.to_bytes("committable", self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Committable:
        """The committable that `to_bytes` wrote.

        Args:
            data: The bytes, whole.

        Returns:
            An equal committable.

        Raises:
            InvalidInputError: A byte was changed or lost.
            UnsupportedFeatureError: A newer txlog wrote it.
        """
        return sealed_json.from_bytes("committable", data, _committable, if_damaged=": have the task send it again")


def _committable(value: dict[str, Any]) -> Committable:
    """Read a committable. Every field is checked, since a program that can write a message can write its checksum."""
    return Committable(
        files=tuple(PendingFile(**_fields(file, _READ_FILE)) for file in value.pop("files")),
        keys=tuple(KeyFile(**_fields(file, _READ_KEYS)) for file in value.pop("keys")),
        **_fields(value, _READ_COMMITTABLE),
    )


def _fields(value: dict[str, Any], read: dict[str, Callable[[Any], Any]]) -> dict[str, Any]:
    return {name: read[name](item) for name, item in value.items()}


def _or_none(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else read(value)


_READ_FILE: dict[str, Callable[[Any], Any]] = {
    "path": read_text,
    "size_bytes": read_size,
    "num_rows": read_size,
    "modified_ms": read_long,
    "partition_values": read_text_map,
    "stats": _or_none(read_text),
}
_READ_KEYS: dict[str, Callable[[Any], Any]] = {
    "path": read_text,
    "size_bytes": read_size,
    "num_keys": read_size,
    "modified_ms": read_long,
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
