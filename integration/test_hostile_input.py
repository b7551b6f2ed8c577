"""The fuzzer of `tests/hostile/test_hostile_log.py` with more time: thousands of damaged logs, in separate processes,
so a crash of the Parquet library differs from an error and names the seed that repeats it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import fuzz
import hostile_log
import pytest

BUDGET_S = fuzz.budget_s(8)
PER_CHILD = 50


@pytest.mark.hunt(part="damage")
def test_no_damage_to_a_log_lets_anything_but_a_txlog_error_escape(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    root, journal = tmp_path / "tables", tmp_path / "journal"
    hostile_log.build_tables(root)
    tried, slowest_s = 0, 0.0
    for printed in fuzz.children(hostile_log.__file__, root, journal, budget=BUDGET_S, per_child=PER_CHILD):
        *escaped, took_s = printed.splitlines()
        assert escaped == [], f"the seeds repeat it: {escaped[:5]}"
        slowest_s = max(slowest_s, float(took_s))
        tried += PER_CHILD
    record_property("measured", f"damaged logs: {tried} in {BUDGET_S:.0f} s, slowest {slowest_s:.2f} s")
