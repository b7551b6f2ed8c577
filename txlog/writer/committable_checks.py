"""The driver's checks of committables, before it commits them. Nothing is repaired; every check must pass.

In: committables, the table and job they must belong to and, to check sizes and ages, the store. Out: nothing, or an
error that names the task or file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from txlog.errors import CorruptLogError, InvalidInputError
from txlog.protocol.partition_values import problem_of
from txlog.protocol.paths import encode_path, resolve_data_path
from txlog.protocol.schema import Field
from txlog.protocol.statistics_read import statistics_problem
from txlog.store.base import FileStore
from txlog.util.arguments import described
from txlog.util.parallel import parallel_map
from txlog.writer.committable import Committable, KeyFile, PendingFile
from txlog.writer.write_intent import APPEND, WriteIntent

__all__ = ["require_committables", "validate_committables"]

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
    stay below the table. Partition values are exactly those of ``partition_fields``, by their names in the log.
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

    for _ in map(check, found) if len(found) <= 4 else parallel_map(check, found, threads=_LOOKUPS_AT_ONCE):
        pass
