"""Spreads the work of a scan over workers: large files are split by their row groups, small ones come together.

In: tasks, each with its size. Out: groups of about equal size. Pure.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Protocol, TypeVar

from msgspec.structs import replace

from txlog.core.reading._scan_task import ScanTask

OPEN_BYTES = 256 << 10
"""Opening a file in an object store takes about as long as reading this many bytes."""


class _Task(Protocol):
    @property
    def size_bytes(self) -> int: ...


AnyTask = TypeVar("AnyTask", bound=_Task)


def in_shares(task: AnyTask, share_bytes: int, most: int) -> list[AnyTask]:
    """A task as at most ``most`` tasks of about ``share_bytes``, each for some of the file's row groups.

    Each of them opens the file and reads its footer. Tasks other than `ScanTask` stay whole.
    """
    count = min(task.size_bytes // share_bytes, most)
    if count < 2 or not isinstance(task, ScanTask) or task.row_groups is not None or task.share is not None:
        return [task]
    size_bytes = task.size_bytes // count
    return [replace(task, size_bytes=size_bytes, share=(number, count)) for number in range(count)]


def balanced(tasks: Sequence[AnyTask], groups: int) -> list[list[AnyTask]]:
    """Spread tasks over at most ``groups`` groups of about equal size. Each group keeps the order of the tasks."""
    open_groups: list[tuple[int, int, list[int]]] = [(0, at, []) for at in range(min(groups, len(tasks)))]
    for at in sorted(range(len(tasks)), key=lambda at: -tasks[at].size_bytes):
        size_bytes, number, members = heapq.heappop(open_groups)
        members.append(at)
        # Opening a file costs as much as reading about this many bytes.
        heapq.heappush(open_groups, (size_bytes + tasks[at].size_bytes + 4_000_000, number, members))
    return [[tasks[at] for at in sorted(members)] for _, _, members in sorted(open_groups, key=lambda group: group[1])]
