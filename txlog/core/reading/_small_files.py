"""Small files, which take longer to open than to decode, come in runs that are converted and filtered together.

In: scan tasks. Out: the same in order, in runs. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol, TypeVar

SMALL_FILE_BYTES = 128 << 10

FILES_AT_ONCE = 256
_FEW_FILES = 32
_BYTES_AT_ONCE = 8 << 20


class _WholeFile(Protocol):
    """What is asked of a `ScanTask`."""

    @property
    def size_bytes(self) -> int: ...
    @property
    def num_records(self) -> int | None: ...
    @property
    def row_groups(self) -> Any: ...
    @property
    def share(self) -> Any: ...


AnyTask = TypeVar("AnyTask", bound=_WholeFile)


def in_runs(tasks: Iterable[AnyTask], first_files: int, rows_max: int) -> Iterator[list[AnyTask]]:
    """The tasks in order, in runs of small files with ``rows_max`` rows together; a larger file is alone.

    A run has ``first_files``, or an eighth of as many as came before it, and behind `_FEW_FILES` a quarter: who wants
    only some rows has few files read in vain, although Arrow asks for some twenty batches ahead.
    """
    run: list[AnyTask] = []
    rows = size_bytes = passed = 0
    for task in tasks:
        if run and (
            len(run) >= min(max(first_files, passed // (8 if passed < _FEW_FILES else 4)), FILES_AT_ONCE)
            or not _is_small(task)
            or rows + (task.num_records or 0) > rows_max
            or size_bytes > _BYTES_AT_ONCE
        ):
            yield run
            passed += len(run)
            run, rows, size_bytes = [], 0, 0
        if not _is_small(task):
            yield [task]
            continue
        run.append(task)
        rows += task.num_records or 0
        size_bytes += task.size_bytes
    if run:
        yield run


def _is_small(task: _WholeFile) -> bool:
    """Whether it is a whole file with few rows, as far as the log says."""
    is_whole = task.row_groups is None and task.share is None
    return is_whole and task.size_bytes <= SMALL_FILE_BYTES and task.num_records is not None
