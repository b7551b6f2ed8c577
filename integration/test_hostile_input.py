"""The fuzzer of `tests/hostile/test_hostile_log.py` with time on its hands: thousands of damaged logs."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import fuzz
import hostile_log

BUDGET_S = fuzz.budget_s(30)


def test_no_damage_to_a_log_lets_anything_but_a_txlog_error_escape(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    tables = hostile_log.build_tables(tmp_path / "whole")
    seed = fuzz.first_seed()
    print(f"repeat with TXLOG_FUZZ_SEED={seed}")
    tried, started_s, slowest_s = 0, time.monotonic(), 0.0
    while time.monotonic() - started_s < BUDGET_S:
        rng = random.Random(seed + tried)
        shape = rng.choice(hostile_log.SHAPES)
        table = shutil.copytree(tables[shape], tmp_path / "damaged")
        done = [hostile_log.mutate(table, rng) for _ in range(rng.randint(1, 3))]
        began_s = time.monotonic()
        assert hostile_log.escapes(table) == [], f"TXLOG_FUZZ_SEED={seed + tried}, {shape}: {done}"
        slowest_s = max(slowest_s, time.monotonic() - began_s)
        shutil.rmtree(table)
        tried += 1
    record_property("measured", f"damaged logs: {tried} in {BUDGET_S:.0f} s, the slowest took {slowest_s:.2f} s")
