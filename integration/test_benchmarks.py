"""The benchmarks start: at tiny scales, without Spark, and what they print has every row."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.measure import ROOT, bold_least, fresh_process
from benchmarks.upsert_tables import BY_DEFAULT, LAYOUTS, WITH_VECTORS, make_table, save, source_rows


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
    assert {"delete of one row in a hundred", "update of one row in a hundred"} < first_cells
    names = [cell.replace("**", "") for cell in first_cells]
    assert {WITH_VECTORS, BY_DEFAULT, "deltalake"} < set(names)
    assert "upsert with the change feed: integers, in no order" in first_cells
    assert any("failed" in line and "keys once" in line for line in lines)
    assert not [*tmp_path.iterdir()], "what it made is removed"


def test_the_benchmark_of_large_tables_runs_and_reports_both_modes(tmp_path: Path) -> None:
    lines = _report_of("upsert_files", tmp_path)
    assert f"| files | {WITH_VECTORS}, ms | {BY_DEFAULT}, ms | deltalake, ms |" in "\n".join(lines)
    assert {"4", "10", "2,000 rows into 20,000"} < _first_cells(lines)
    assert {each.name for each in tmp_path.iterdir()} <= {"upsert_files.png"}, "what it made is removed"


def test_a_change_by_default_copies_files_and_one_with_vectors_does_not(tmp_path: Path) -> None:
    """The names of the contestants say what they do: what each leaves in the log shows it."""
    source = save(source_rows("random", 10, 100), tmp_path / "source.arrow")
    for name, has_vectors in ((WITH_VECTORS, True), (BY_DEFAULT, False)):
        for work in ("upsert", "delete", "update"):
            table = tmp_path / f"{work}-{has_vectors}"
            make_table(table, "random", 100, 2)
            condition = (
                "benchmarks.upsert_work.CONDITION='user_id < 500000'"  # of so few rows, one in a hundred is none
            )
            program = f"import benchmarks.upsert_work; {condition}; benchmarks.upsert_work.measure"
            fresh_process("-c", f"{program}({work!r}, {name!r}, {str(table)!r}, {str(source)!r}, 1)")
            log = "".join(path.read_text() for path in sorted((table / "_delta_log").glob("*.json")))
            assert ('"storageType"' in log) is has_vectors, (name, work)
            assert '"remove"' in log


def test_the_least_value_is_bold_whoever_has_it() -> None:
    assert bold_least({"ours": 2.0, "theirs": 1.0}) == ["ours", "**theirs**"]
    assert bold_least({"ours": 1.0, "theirs": 2.0}, {"ours": "1 s", "theirs": "2 s"}) == ["**1 s**", "2 s"]
    assert bold_least({"ours": 0, "theirs": 0}) == ["**ours**", "**theirs**"]


def test_the_benchmark_of_changelogs_runs_and_checks_what_each_contestant_wrote(tmp_path: Path) -> None:
    first_cells = _first_cells(_report_of("changes", tmp_path))
    assert {"append", "**upsert**", "**txlog**", "PyIceberg", "strings of 36 characters"} < first_cells
    assert not [*tmp_path.iterdir()], "what it made is removed"
