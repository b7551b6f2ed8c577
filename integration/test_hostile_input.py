"""The fuzzer of `tests/hostile/test_hostile_log.py` with time on its hands: thousands of damaged logs, in processes of
their own, so that a crash of the Parquet library is told from an error and names the seed that repeats it.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import fuzz
import hostile_log

BUDGET_S = fuzz.budget_s(30)
PER_CHILD = 50


def test_no_damage_to_a_log_lets_anything_but_a_txlog_error_escape(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    root, journal = tmp_path / "tables", tmp_path / "journal"
    hostile_log.build_tables(root)
    first = fuzz.first_seed()
    seed, started_s, slowest_s = first, time.monotonic(), 0.0
    while time.monotonic() - started_s < BUDGET_S:
        command = [sys.executable, hostile_log.__file__, str(root), str(journal), str(seed), str(PER_CHILD)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, f"died of {done.returncode} at seed {journal.read_text()}: {done.stderr[-2000:]}"
        *escaped, took_s = done.stdout.splitlines()
        assert escaped == [], f"the seeds repeat it: {escaped[:5]}"
        slowest_s = max(slowest_s, float(took_s))
        seed += PER_CHILD
    record_property(
        "measured", f"damaged logs: {seed - first} from seed {first} in {BUDGET_S:.0f} s, slowest {slowest_s:.2f} s"
    )
