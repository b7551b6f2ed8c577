"""A look at a damaged Parquet footer that was let pass never ends the process, whatever the damage was."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import fuzz
import hostile_data
import hostile_footers
import hostile_log

BUDGET_S = fuzz.budget_s(10)
PER_CHILD = 2_000


def test_no_look_at_a_footer_that_was_let_pass_ends_the_process(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    root, journal = tmp_path / "whole", tmp_path / "journal"
    hostile_data.build_tables(root / "data")
    hostile_log.build_tables(root / "log")
    first = fuzz.first_seed()
    seed, started_s = first, time.monotonic()
    while time.monotonic() - started_s < BUDGET_S:
        command = [sys.executable, hostile_footers.__file__, str(root), str(journal), str(seed), str(PER_CHILD)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, f"died of {done.returncode} at seed {journal.read_text()}: {done.stderr[-2000:]}"
        assert "'let pass'" in done.stdout
        assert "'refused'" in done.stdout
        seed += PER_CHILD
    record_property("measured", f"damaged footers: {seed - first} from seed {first} in {BUDGET_S:.0f} s")
