"""Reading an accepted, damaged Parquet footer never ends the process, whatever the damage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import fuzz
import hostile_data
import hostile_footers
import hostile_log

BUDGET_S = fuzz.budget_s(4)
PER_CHILD = 2_000


def test_reading_an_accepted_parquet_footer_never_crashes_the_process(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    root, journal = tmp_path / "whole", tmp_path / "journal"
    hostile_data.build_tables(root / "data")
    hostile_log.build_tables(root / "log")
    tried = 0
    for printed in fuzz.children(hostile_footers.__file__, root, journal, budget=BUDGET_S, per_child=PER_CHILD):
        assert "'let pass'" in printed
        assert "'refused'" in printed
        tried += PER_CHILD
    record_property("measured", f"damaged footers: {tried} in {BUDGET_S:.0f} s")
