"""What a process leaves behind if it dies at any of its steps, as copies of its folder.

The process stops itself before each step (`steps`), and a copy is made: it equals what a kill at that moment leaves,
since a kill removes nothing from a file. Many steps leave the same files as the one before (those before an fsync,
which a kill does not undo): each state is judged once. So the process runs once, not once per step.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.process import BaseProcess
from pathlib import Path

from fault_tools import stopped_or_ended

__all__ = ["judge_every_death"]


def judge_every_death(
    child: BaseProcess, folder: Path, reported: Path, judge: Callable[[Path, str], None]
) -> tuple[list[str], int]:
    """Let a child that stops before each step run to its end.

    Args:
        child: A process whose steps come to be in ``reported``, a line for each.
        folder: Where all is that it changes.
        reported: Outside of ``folder``.
        judge: Called with a copy of the folder and "died at step 7, link ...", for each state of the folder; on
            threads, while the child continues. The copy is removed afterwards.

    Returns:
        Every step, and how many states these steps began in.
    """
    states: set[frozenset[tuple[str, bytes]]] = set()
    judged: list[Future[None]] = []
    try:
        with ThreadPoolExecutor(2) as pool:
            while stopped_or_ended(child):
                state = _state_of(folder)
                if state not in states:
                    states.add(state)
                    steps = reported.read_text().splitlines()
                    copy = Path(shutil.copytree(folder, folder.with_name(f"{folder.name}-{len(judged)}")))
                    judged.append(pool.submit(_judge, judge, copy, f"died at step {len(steps)}, {steps[-1]}"))
                assert child.pid is not None
                os.kill(child.pid, signal.SIGCONT)
    finally:
        child.kill()
    assert child.exitcode == 0
    for each in judged:
        each.result()
    return reported.read_text().splitlines(), len(states)


def _judge(judge: Callable[[Path, str], None], copy: Path, died: str) -> None:
    judge(copy, died)
    shutil.rmtree(copy)


def _state_of(folder: Path) -> frozenset[tuple[str, bytes]]:
    """Every name with what it holds."""
    paths = folder.rglob("*")
    return frozenset((str(path), hashlib.sha1(path.read_bytes()).digest() if path.is_file() else b"") for path in paths)
