"""What a task sends to the committer: a `Committable`, as a value and as checked bytes.

In: the outcome of one sealed task: new files (`PendingFile`) and key files (`KeyFile`). Out: plain data for the driver,
which uses it only after `validate_committables` checked it: nothing is repaired, every check must pass. The bytes carry
a format version and a checksum, since they travel through message queues and are stored in staging areas.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from txlog.core.format.actions import AddCDCFile, AddFile
from txlog.core.format.paths import encode_path, resolve_data_path
from txlog.core.format.schema import Field
from txlog.core.format.statistics import statistics_problem
from txlog.core.format.wire import read_long, read_size, read_text, read_text_map
from txlog.core.parallel import do_all
from txlog.core.store import FileStore
from txlog.core.util import described
from txlog.core.writing.write_intent import APPEND, WriteIntent
from txlog.errors import CorruptLogError, InvalidInputError
from txlog.result import counted, human_size

if TYPE_CHECKING:
    import pyarrow as pa

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

    @property
    def is_open(self) -> bool:
        """Whether it has the changes of keys whose result depends on the table's rows (`changelog.staged_rows`)."""
        return self.path.rpartition("/")[2].startswith(f"{OPEN_ROWS}-")


OPEN_ROWS = "open"
"""The ``file_kind`` of files for which `KeyFile.is_open` is true."""


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
    def key_files(self) -> tuple[KeyFile, ...]:
        """Its ``keys`` without files of open changes."""
        return tuple(file for file in self.keys if not file.is_open)

    @property
    def num_keys(self) -> int:
        """The number of keys whose rows are replaced or deleted."""
        return sum(file.num_keys for file in self.key_files)

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
        from txlog.core.format import sealed_json

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
        from txlog.core.format import sealed_json

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


# --- checks of committables ----------------------------------------------------------------------------------------


_LOOKUPS_AT_ONCE = 16
_CHANGE_DATA = "_change_data/"


def require_committables(given: Any, table: str) -> list[Committable]:
    """A caller's committables, one or several. Raises ``InvalidInputError`` for anything else."""
    found = list(given) if isinstance(given, Iterable) else [given]  # a list, since it is read twice
    for each in found:
        if not isinstance(each, Committable):
            raise InvalidInputError(
                f"{described(each)} is not a committable: pass task.committable,"
                " or Committable.from_bytes(data) with the bytes that a task sent",
                table=table,
            )
    return found


def validate_committables(
    committables: Sequence[Committable],
    *,
    partition_fields: Mapping[str, Field],
    intent: WriteIntent = APPEND,
    table: str | None = None,
    table_id: str | None = None,
    app_id: str | None = None,
    checkpoint_id: int | None = None,
    files: FileStore | None = None,
    since_ms: int | None = None,
) -> None:
    """Check that committables can become one commit.

    Each committable is for this table, application and checkpoint (if given). No task and no path appears twice. Paths
    stay below the table. There is exactly one partition value for each of ``partition_fields``, by its name in the log.
    Statistics are JSON. Only a write with the intent "upsert" has key files. With ``files``, it also checks each file's
    size, and that it was not modified before ``since_ms`` (in ms since the epoch), since a vacuum may remove older
    files as orphans.

    Raises InvalidInputError; NotFoundError, StorageError from the store.
    """
    _check_origin(committables, table, {"table_id": table_id, "app_id": app_id, "checkpoint_id": checkpoint_id})
    seen: set[str] = set()
    for file in _new_files(committables):
        problem = _problem(file, partition_fields)
        if problem is None and file.path in seen:
            problem = "is named twice"
        if problem is not None:
            raise InvalidInputError(f"the committed file {file.path!r} {problem}: nothing was committed", table=table)
        seen.add(file.path)
    _check_keys(committables, intent, table)
    if files is not None:
        _look_up([*_new_files(committables)], files, since_ms or 0, table)


def _check_keys(committables: Sequence[Committable], intent: WriteIntent, table: str | None) -> None:
    for committable in committables:
        if committable.keys and intent.kind != "upsert":
            raise InvalidInputError(
                f"task {committable.task_id} changes rows by their keys, but the write's intent is to {intent}:"
                " nothing was committed",
                table=table,
            )


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


def _new_files(committables: Iterable[Committable]) -> Iterator[PendingFile | KeyFile]:
    for committable in committables:
        yield from committable.files
        yield from committable.keys


def _problem(file: PendingFile | KeyFile, partition_fields: Mapping[str, Field]) -> str | None:
    try:
        path = resolve_data_path(encode_path(file.path))
    except CorruptLogError as error:
        return f"has a path that no writer may use ({error.message})"
    if not path.is_relative or path.scheme is not None:
        return "is not below the table"
    if file.path.startswith(_CHANGE_DATA):
        return f"is in {_CHANGE_DATA}, which is only for change data files"
    num_rows = file.num_keys if isinstance(file, KeyFile) else file.num_rows
    if file.size_bytes <= 0 or num_rows <= 0:
        return f"is empty ({file.size_bytes} bytes, {num_rows} rows)"
    if isinstance(file, KeyFile):
        return None
    if (problem := statistics_problem(file.stats)) is not None:
        return problem
    if not partition_fields and not file.partition_values:
        return None
    from txlog.core.format.partition_values import problem_of

    return problem_of(file.partition_values, partition_fields)


def _look_up(found: Sequence[PendingFile | KeyFile], files: FileStore, since_ms: int, table: str | None) -> None:
    def check(file: PendingFile | KeyFile) -> None:
        path, seen = file.path, files.stat(file.path)
        if seen.size != file.size_bytes:
            raise InvalidInputError(
                f"{path} has {seen.size} bytes, but its task wrote {file.size_bytes}: nothing was committed",
                table=table,
            )
        if seen.modified_ms < since_ms:
            raise InvalidInputError(
                f"{path} was written {(since_ms - seen.modified_ms) / 3_600_000:.1f} hours too long ago: a vacuum "
                "may delete it any time, since no commit names it. Nothing was committed. Write the checkpoint again, "
                "or raise the table's delta.deletedFileRetentionDuration (half of it is the limit) if no vacuum runs",
                table=table,
                path=path,
            )

    do_all(check, found, threads=_LOOKUPS_AT_ONCE, few=4)
