"""Executors whose tasks end in unusual ways. Processes import this module, so it says what they do."""

from __future__ import annotations

import os
import pickle
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any

from txlog.core.changes.tasks import ReadTask
from txlog.core.maintenance.rewriting._bin import Bin
from txlog.core.maintenance.rewriting._rewrite_bin import RewriteBins, RewrittenBin


def kill_the_process_that_rewrites(path: str, flag: str) -> None:
    """In a new process: its first task that rewrites this file ends the process after it wrote, unless one has."""
    rewrite = RewriteBins.__call__

    def dying(self: RewriteBins, bins: Sequence[Bin]) -> list[RewrittenBin]:
        done = rewrite(self, bins)
        if any(add.path == path for each in bins for add in each.files) and not Path(flag).exists():
            Path(flag).touch()
            os._exit(9)
        return done

    RewriteBins.__call__ = dying  # type: ignore[method-assign]


class Speculating(ProcessPoolExecutor):
    """Runs every task twice, on pickled copies, and gives the second result, as an engine that found the first slow.

    It does so here, and starts no process.
    """

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        for is_last in (False, True):
            copied, given = pickle.loads(pickle.dumps((fn, args)))
            result = pickle.loads(pickle.dumps(copied(*given)))
            if is_last:
                future.set_result(result)
        return future


def ids_of_task(task: ReadTask) -> list[int]:
    ids: list[int] = task.to_arrow()["id"].to_pylist()
    return ids
