"""How long the fuzzers run, and where they start.

``TXLOG_FUZZ_S``: seconds for each; ``TXLOG_FUZZ_SEED``: the first seed, or ``random``. By default they start at the
same seed each time, so no change fails for unrelated damage; the hunt's searches look further.
"""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

__all__ = ["budget_s", "children", "first_seed", "seeds"]


def budget_s(default: float) -> float:
    """Seconds to spend."""
    return float(os.environ.get("TXLOG_FUZZ_S", default))


def first_seed() -> int:
    """The seed of the first case; the next ones count on from it."""
    asked = os.environ.get("TXLOG_FUZZ_SEED", "0")
    return random.SystemRandom().randrange(2**32) if asked == "random" else int(asked)


def seeds(budget: float, step: int = 1) -> Iterator[int]:
    """Each ``step``-th seed from the first on, until ``budget`` seconds are over; pytest shows the last one printed."""
    started_s = time.monotonic()
    for seed in itertools.count(first_seed(), step):
        if time.monotonic() - started_s >= budget:
            return
        print(f"seed {seed}")
        yield seed


def children(program: str, root: Path, journal: Path, *, budget: float, per_child: int) -> Iterator[str]:
    """What ``program`` prints, run on ``per_child`` seeds at a time until ``budget`` seconds are over.

    A crash of the Parquet library ends a child and not the test; the child notes in ``journal`` what it is about to do.
    """
    for seed in seeds(budget, per_child):
        command = [sys.executable, program, str(root), str(journal), str(seed), str(per_child)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, f"died of {done.returncode} at seed {journal.read_text()}: {done.stderr[-2000:]}"
        yield done.stdout
