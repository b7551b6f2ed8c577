"""What processes and all that they start use: CPU time and the peak of their memory together.

In: the ids of one or several processes. Out: CPU seconds and megabytes. Memory is what the processes hold at once, by
samples every few milliseconds; what one process held at most is exact, since the kernel keeps it. Pages that processes
share, such as a database's buffers, count once.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

__all__ = ["Peak", "cpu_s", "measured_peak", "tree_of"]

_SAMPLE_EVERY_S = 0.02
_LOOK_FOR_CHILDREN_EVERY_S = 0.2
_PROC = Path("/proc")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Peak:
    """The most memory of a block; ``mb`` is known when it has ended."""

    mb = 0.0


def tree_of(roots: Sequence[int]) -> list[int]:
    """The processes and all their descendants that live now."""
    found, unseen = [], list(roots)
    while unseen:
        pid = unseen.pop()
        found.append(pid)
        with contextlib.suppress(OSError):
            for thread in (_PROC / str(pid) / "task").iterdir():
                with contextlib.suppress(OSError):
                    unseen += map(int, (thread / "children").read_text().split())
    return found


def cpu_s(roots: Sequence[int]) -> float:
    """The CPU time of the processes, of their descendants, and of those descendants that they waited for."""
    ticks = 0
    for pid in tree_of(roots):
        with contextlib.suppress(OSError):
            fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))  # proc(5): utime, stime, cutime, cstime
    return ticks / _TICKS_PER_S


@contextlib.contextmanager
def measured_peak(roots: Sequence[int]) -> Iterator[Peak]:
    """The peak of the processes' memory while the block runs."""
    for pid in tree_of(roots):
        with contextlib.suppress(OSError):
            (_PROC / str(pid) / "clear_refs").write_text("5")  # forgets the peak so far
    peak, has_ended = Peak(), threading.Event()
    sampler = threading.Thread(target=_sample, args=(roots, peak, has_ended), daemon=True)
    sampler.start()
    try:
        yield peak
    finally:
        has_ended.set()
        sampler.join()
        alone = [_memory(pid).get("VmHWM", 0) for pid in tree_of(roots)]
        peak.mb = max([peak.mb, *(kb * 1024 / 1e6 for kb in alone)])


def _sample(roots: Sequence[int], peak: Peak, has_ended: threading.Event) -> None:
    pids, looked_s = tree_of(roots), time.monotonic()
    while not has_ended.wait(_SAMPLE_EVERY_S):
        if time.monotonic() - looked_s > _LOOK_FOR_CHILDREN_EVERY_S:
            pids, looked_s = tree_of(roots), time.monotonic()
        held = [_memory(pid) for pid in pids]
        own_kb = sum(each.get("RssAnon", 0) + each.get("RssFile", 0) for each in held)
        shared_kb = max((each.get("RssShmem", 0) for each in held), default=0)
        peak.mb = max(peak.mb, (own_kb + shared_kb) * 1024 / 1e6)


def _memory(pid: int) -> dict[str, int]:
    """The kilobytes that the kernel states for a process; nothing for one that has ended."""
    with contextlib.suppress(OSError):
        lines = (_PROC / str(pid) / "status").read_text().splitlines()
        return {line.split(":")[0]: int(line.split()[1]) for line in lines if line.endswith(" kB")}
    return {}
