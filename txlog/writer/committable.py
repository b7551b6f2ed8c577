"""What a task hands to the committer: `PendingFile` and `Committable`, as values and as checked bytes.

In: the files of one sealed task. Out: plain data for the driver, which trusts none of it before
`validate_committables` has looked. The bytes carry a format version and a checksum, since they travel through
message queues and lie in staging areas.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from txlog.errors import CorruptLogError, InvalidInputError
from txlog.protocol.actions import AddFile
from txlog.protocol.partition_values import problem_of
from txlog.protocol.paths import encode_path, resolve_data_path
from txlog.protocol.schema import Field
from txlog.protocol.wire import is_json_object, read_long, read_size, read_text, read_text_map
from txlog.store.base import FileStore
from txlog.writer import sealed_json

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Committable", "FileTail", "PendingFile", "validate_committables"]

_LOOKUPS_AT_ONCE = 16
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
    ``_tail`` stays in the process that wrote the file: names with an underscore are left out of `Committable.to_bytes`.
    """

    path: str
    size_bytes: int
    num_rows: int
    modified_ms: int
    partition_values: dict[str, str | None]
    stats: str | None
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
        )


@dataclass(frozen=True, slots=True)
class Committable:
    """All files of one attempt of one task, durable and counted, for one checkpoint of one application.

    ``table_id`` and ``read_version`` say which table the task wrote for, as it stood when the write was planned.
    """

    app_id: str | None
    checkpoint_id: int | None
    job_id: str
    task_id: int
    attempt: int
    table_id: str
    read_version: int
    files: tuple[PendingFile, ...]

    @property
    def num_rows(self) -> int:
        """The rows of all its files."""
        return sum(file.num_rows for file in self.files)

    @property
    def size_bytes(self) -> int:
        """The size of all its files."""
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


def validate_committables(
    committables: Sequence[Committable],
    *,
    partition_fields: Mapping[str, Field],
    table: str | None = None,
    table_id: str | None = None,
    app_id: str | None = None,
    checkpoint_id: int | None = None,
    files: FileStore | None = None,
    since_ms: int | None = None,
) -> None:
    """The driver's own look at what tasks sent, before it commits: nothing is repaired, all must hold.

    Each committable is for this table, application and checkpoint (where given); no task appears twice and no path
    twice; paths stay below the table; partition values are values of exactly ``partition_fields`` (by the names that
    the log has for them); statistics are JSON. With ``files`` the size of every file is looked up as well, and that it
    was not modified before ``since_ms`` (in ms since the epoch): a vacuum may take it for an orphan by its age. Raises
    InvalidInputError; NotFoundError, StorageError from the store.
    """
    _check_origin(committables, table, {"table_id": table_id, "app_id": app_id, "checkpoint_id": checkpoint_id})
    seen: set[str] = set()
    for file in _files_of(committables):
        problem = _problem(file, partition_fields)
        if problem is None and file.path in seen:
            problem = "is named twice"
        if problem is not None:
            raise InvalidInputError(f"the committed file {file.path!r} {problem}: nothing was committed", table=table)
        seen.add(file.path)
    if files is not None:
        _look_up(list(_files_of(committables)), files, since_ms or 0, table)


def _check_origin(committables: Sequence[Committable], table: str | None, wanted: dict[str, Any]) -> None:
    tasks: set[tuple[str, int | None, int]] = set()
    for committable in committables:
        for name, value in wanted.items():
            found = getattr(committable, name)
            if value is not None and found != value:
                raise InvalidInputError(
                    f"task {committable.task_id} sent a committable with {name} {found!r}, expected {value!r}: "
                    "nothing was committed",
                    table=table,
                )
        task = (committable.app_id or committable.job_id, committable.checkpoint_id, committable.task_id)
        if task in tasks:
            raise InvalidInputError(
                f"task {committable.task_id} sent two committables (attempt {committable.attempt} is one of them): "
                "commit one attempt of each task; nothing was committed",
                table=table,
            )
        tasks.add(task)


def _files_of(committables: Iterable[Committable]) -> Iterable[PendingFile]:
    return (file for committable in committables for file in committable.files)


def _problem(file: PendingFile, partition_fields: Mapping[str, Field]) -> str | None:
    try:
        path = resolve_data_path(encode_path(file.path))
    except CorruptLogError as error:
        return f"has a path that no writer may use ({error.message})"
    if not path.is_relative or path.scheme is not None:
        return "does not lie below the table"
    if file.size_bytes <= 0 or file.num_rows <= 0:
        return f"is empty ({file.size_bytes} bytes, {file.num_rows} rows)"
    if not is_json_object(file.stats):
        return "has statistics that are no JSON object, at which some readers fail"
    return problem_of(file.partition_values, partition_fields)


def _look_up(found: list[PendingFile], files: FileStore, since_ms: int, table: str | None) -> None:
    def check(file: PendingFile) -> None:
        seen = files.stat(file.path)
        if seen.size != file.size_bytes:
            raise InvalidInputError(
                f"{file.path} has {seen.size} bytes, its task counted {file.size_bytes}: nothing was committed",
                table=table,
            )
        if seen.modified_ms < since_ms:
            raise InvalidInputError(
                f"{file.path} was written {(since_ms - seen.modified_ms) / 3_600_000:.1f} hours too long ago: a vacuum "
                "may delete it any time, since no commit names it. Nothing was committed. Write the checkpoint again, "
                "or raise the table's delta.deletedFileRetentionDuration (half of it is the limit) if no vacuum runs",
                table=table,
                path=file.path,
            )

    if len(found) <= 4:
        for file in found:
            check(file)
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_LOOKUPS_AT_ONCE) as pool:
        for _ in pool.map(check, found):
            pass


def _committable(value: dict[str, Any]) -> Committable:
    """Whoever can write a message can write its checksum, so every field is looked at."""
    files = tuple(PendingFile(**_fields(file, _READ_FILE)) for file in value.pop("files"))
    return Committable(files=files, **_fields(value, _READ_COMMITTABLE))


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
_READ_COMMITTABLE: dict[str, Callable[[Any], Any]] = {
    "app_id": _or_none(read_text),
    "checkpoint_id": _or_none(read_long),
    "job_id": read_text,
    "task_id": read_size,
    "attempt": read_size,
    "table_id": read_text,
    "read_version": read_long,
}
