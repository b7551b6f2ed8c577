"""The benchmarks start: at tiny scales, without Spark, and what they print has every row."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.measure import ROOT, fresh_process
from benchmarks.upsert_tables import LAYOUTS


def _report_of(benchmark: str, scratch: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--quick", "--no-spark", "--scratch", str(scratch), benchmark],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'integration'}{os.pathsep}{ROOT}"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


def _first_cells(lines: list[str]) -> set[str]:
    return {line.split("|")[1].strip() for line in lines if line.startswith("|")}


def test_the_peak_memory_of_a_fresh_process_is_its_own() -> None:
    ours = b"x" * (256 << 20)
    theirs = fresh_process("-c", "from benchmarks.measure import peak_mb; print(peak_mb())")
    assert float(theirs.stdout) < 128 < len(ours) >> 20


def test_the_benchmark_of_changed_rows_runs_and_reports_every_comparison(tmp_path: Path) -> None:
    lines = _report_of("upsert", tmp_path)
    first_cells = _first_cells(lines)
    assert {f"upsert: {words}" for words in LAYOUTS.values()} < first_cells
    assert {"delete of one row in a hundred", "update of one row in a hundred", "**txlog**", "deltalake"} < first_cells
    assert "upsert with the change feed: integers, in no order" in first_cells
    assert any("failed" in line and "keys once" in line for line in lines)
    assert "2,000 rows into 20,000" in first_cells
    assert {each.name for each in tmp_path.iterdir()} <= {"upsert_files.png"}, "what it made is removed"


def test_the_benchmark_of_changelogs_runs_and_checks_what_each_contestant_wrote(tmp_path: Path) -> None:
    first_cells = _first_cells(_report_of("changes", tmp_path))
    assert {"append", "**upsert**", "**txlog**", "PyIceberg", "strings of 36 characters"} < first_cells
    assert not [*tmp_path.iterdir()], "what it made is removed"
