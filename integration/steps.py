"""What a process does to a table's disk, step by step, seen from outside; it can stop before any step.

Nothing in txlog knows about it.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["Steps", "go_on", "note_steps", "stop"]

_write = os.write
_OF_A_NAME = {"os.mkdir", "os.link", "os.rename", "os.remove", "os.rmdir", "os.truncate"}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Steps:
    """Every call of this process that changes or syncs something below ``root``, numbered from 0.

    Names are seen by Python's audit hook before they change; writes and syncs, for which it has no event, by
    standing in front of ``os``. ``deed`` is called with the number and description of each step, before it is done.
    """

    def __init__(self, root: str, deed: Callable[[int, str], None]) -> None:
        self._root = os.path.realpath(root)
        self._deed = deed
        self._numbers = itertools.count()
        for name in ("write", "pwrite", "writev", "fsync", "fdatasync", "ftruncate"):
            self._stand_in_front_of(name)
        sys.addaudithook(self._audited)

    def _audited(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in _OF_A_NAME or (event == "open" and arguments[2] & _WRITING):
            paths = [os.path.realpath(os.fsdecode(path)) for path in arguments[:2] if isinstance(path, (str, bytes))]
            self._step(event.removeprefix("os."), *paths)

    def _stand_in_front_of(self, name: str) -> None:
        real = getattr(os, name)

        def seen(descriptor: int, *arguments: Any) -> Any:
            self._step(name, os.readlink(f"/proc/self/fd/{descriptor}"))
            return real(descriptor, *arguments)

        setattr(os, name, seen)

    def _step(self, call: str, *paths: str) -> None:
        if any(f"{path}/".startswith(f"{self._root}/") for path in paths):
            shown = " ".join(os.path.relpath(path, self._root) for path in paths)
            self._deed(next(self._numbers), f"{call} {shown}")


def note_steps(root: str, reported: str, then: Callable[[int], None]) -> None:
    """From now on the file ``reported`` gets a line for each step; ``then`` is called with its number."""
    lines = os.open(reported, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def deed(number: int, what: str) -> None:
        _write(lines, f"{what}\n".encode())
        then(number)

    Steps(root, deed)


def stop(number: int) -> None:
    """Stop before each step, until the parent lets this process continue."""
    os.kill(os.getpid(), signal.SIGSTOP)


def go_on(number: int) -> None:
    """Nothing happens to the process."""
