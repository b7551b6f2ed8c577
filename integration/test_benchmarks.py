"""The benchmarks run at tiny scales, without Spark, and print every row."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks import bars, process_tree, summary
from benchmarks.measure import ROOT, best_in_bold, fresh_process
from benchmarks.peers import Measured, check, table_of
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


def test_the_peak_of_a_tree_of_processes_has_its_children_and_what_they_had_before_is_left_out() -> None:
    child = "b = b'x' * (200 << 20); print('full', flush=True); input()"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", parent], stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        with process_tree.measured_peak([process.pid]) as peak:
            assert process.stdout.readline() == "full\n"
        assert 200 < peak.mb < 400
        with process_tree.measured_peak([process.pid]) as peak:
            pass
        assert 200 < peak.mb < 400, "what the child still holds"
        assert process_tree.cpu_s([process.pid]) > 0
        process.communicate("\n")


def test_a_peer_with_other_rows_fails_the_benchmark_and_sums_of_doubles_may_differ_in_their_last_digits() -> None:
    check("a peer", [3, 0.1 + 0.2, "x"], [3, 0.3, "x"])
    for wrong in ([4, 0.3, "x"], [3, 0.31, "x"], [3, 0.3, "y"], [3, 0.3]):
        with pytest.raises(RuntimeError, match="a peer has other rows"):
            check("a peer", wrong, [3, 0.3, "x"])


def test_the_ratios_of_peers_are_to_the_better_mode_of_txlog_and_a_peer_that_failed_says_why() -> None:
    lines = {
        ("1 %", "txlog-vectors"): Measured(2.0, 1.0, 100.0, 5.0),
        ("1 %", "txlog-copies"): Measured(4.0, 3.0, 50.0, 5.0),
        ("1 %", "deltalake"): Measured(8.0, 1.0, 200.0, 5.0),
        ("1 %", "pyiceberg"): Measured(failure="longer than 60 s"),
    }
    names = {name: name for _, name in lines}
    table = table_of(lines, names, {})
    assert "| 1 %: deltalake | 8.00 | 1.00 | 200 | 5.0 |  | 4.00 | 4.00 |" in table
    assert "| 1 %: pyiceberg | longer than 60 s |" in table


def test_the_picture_at_the_top_takes_the_lines_of_the_field_from_their_sections() -> None:
    told = '<!-- ratios {"1 %": {"deltalake": 2.5, "DuckLake, SQLite": 4.0, "DuckLake, PostgreSQL": 3.0}} -->'
    (line,) = summary.field_lines(f"<!-- merge_micro -->\n{told}\n<!-- /merge_micro -->\n{told}")
    assert line == bars.Line("LHBench, merge of 1 %", [2.5, None, None, 3.0])
    drawn = bars.picture("times", "said", ["a", "b", "c"], [line])
    assert ">2.5<" in drawn
    assert ">LHBench, merge of 1 %<" in drawn


@pytest.mark.hunt(part="benchmarks")
@pytest.mark.parametrize(
    ("benchmark", "cells"),
    [
        ("merge_micro", {"1 % (500 rows): deltalake", f"1 % (500 rows): {BY_DEFAULT}"}),
        ("lineitem_merges", {"mixed upsert, 1 %: PyIceberg", "updates alone, 5 %: DuckLake, SQLite"}),
        ("small_batches", {"deltalake", "DuckLake, SQLite", "DuckLake, SQLite, without inlining"}),
        ("usable_rates", {"as many overwrites as appends"}),
        ("longevity", {"deltalake, with upkeep", "PyIceberg", f"{WITH_VECTORS}, with upkeep"}),
    ],
)
def test_the_benchmarks_of_the_field_run_and_check_the_rows_of_every_peer(
    benchmark: str, cells: set[str], tmp_path: Path
) -> None:
    assert cells <= _first_cells(_report_of(benchmark, tmp_path))


@pytest.mark.hunt(part="benchmarks")
def test_the_benchmark_of_changed_rows_runs_and_reports_every_comparison(tmp_path: Path) -> None:
    lines = _report_of("upsert", tmp_path)
    first_cells = _first_cells(lines)
    assert {f"upsert: {words}" for words in LAYOUTS.values()} < first_cells
    assert {"delete of one row in a hundred", "update of one row in a hundred"} < first_cells
    assert {WITH_VECTORS, BY_DEFAULT, "deltalake"} < first_cells
    assert "upsert with the change feed: integers, in no order" in first_cells
    assert any("failed" in line and "keys once" in line for line in lines)
    assert not [*tmp_path.iterdir()], "what it made is removed"


@pytest.mark.hunt(part="benchmarks")
def test_the_benchmark_of_merges_runs_and_reports_each_kind(tmp_path: Path) -> None:
    lines = _report_of("merges", tmp_path)
    assert {"SCD type 2: 200 changes", "5 ranges, which hold 200 rows"} < _first_cells(lines)
    assert any(f"{WITH_VECTORS}, s" in line for line in lines)


@pytest.mark.hunt(part="benchmarks")
def test_the_benchmark_of_large_tables_runs_and_reports_both_modes(tmp_path: Path) -> None:
    lines = _report_of("upsert_files", tmp_path)
    assert f"| files | {WITH_VECTORS}, ms | {BY_DEFAULT}, ms | deltalake, ms |" in "\n".join(lines)
    assert {"4", "10", "2,000 rows into 20,000", "append", "update", "delete"} < _first_cells(lines)
    assert {each.name for each in tmp_path.iterdir()} <= {"upsert_files.png"}, "what it made is removed"


@pytest.mark.hunt(part="benchmarks")
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


def test_the_top_of_the_page_has_the_readmes_figures_and_a_picture_of_them() -> None:
    assert summary.page_with_summary(summary.PAGE.read_text()) == summary.PAGE.read_text()
    assert summary.picture() == summary.PICTURE.read_text()


def test_the_least_value_is_bold_whoever_has_it() -> None:
    assert best_in_bold([2.0, 1.0], ["2 s", "1 s"]) == ["2 s", "**1 s**"]
    assert best_in_bold([1.0, 2.0], ["1 s", "2 s"]) == ["**1 s**", "2 s"]
    assert best_in_bold([1.0, 2.0], ["1/s", "2/s"], is_most=True) == ["1/s", "**2/s**"]
    assert best_in_bold([0, 0], ["none", "none"]) == ["**none**", "**none**"]
    assert best_in_bold([0.114, 0.112, 0.3], ["0.11", "0.11", "0.30"]) == ["**0.11**", "**0.11**", "0.30"]


def test_in_the_page_the_least_cost_of_each_line_is_bold_whoever_has_it() -> None:
    """In tables with a column for each contestant; commits per second are the one measure of which more is better."""
    checked = 0
    header: list[str] = []
    for line in (ROOT / "docs" / "benchmarks.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            header = []
        elif not header:
            header = cells
        elif not cells[0].startswith("---"):
            bold = [number for number, cell in enumerate(cells) if cell.startswith("**") and _unit(header[number])]
            if bold:
                unit = _unit(header[bold[0]])
                of = [number for number, name in enumerate(header) if _unit(name) == unit and cells[number]]
                values = {number: float(re.sub(r"[*,]", "", re.split(r" / | \(", cells[number])[0])) for number in of}
                best = (max if unit == "commits/s" else min)(values.values())
                assert bold == [number for number in of if values[number] == best], line
                checked += 1
    assert checked > 50


def _unit(name: str) -> str:
    """What the column measures, if it is one of a contestant's costs."""
    is_of_a_contestant = re.match(r"(txlog|deltalake|Spark's Delta)\b", name) and " : " not in name
    if not is_of_a_contestant or "keys known" in name or "over the floor" in name:
        return ""
    found = re.search(r"\b(commits/s|ms|s)( / (MB|CPU s))?$", name)
    return found[1] if found else ""


@pytest.mark.hunt(part="benchmarks")
def test_the_benchmark_of_changelogs_runs_and_checks_what_each_contestant_wrote(tmp_path: Path) -> None:
    first_cells = _first_cells(_report_of("changes", tmp_path))
    assert {"append", "upsert", "txlog", "PyIceberg", "strings of 36 characters"} < first_cells
    assert not [*tmp_path.iterdir()], "what it made is removed"


@pytest.mark.hunt(part="benchmarks")
def test_the_benchmark_of_sql_runs_and_both_dialects_have_the_same_values(tmp_path: Path) -> None:
    lines = _report_of("sql", tmp_path)
    ratios = [line.split("|")[4].strip() for line in lines if line.startswith("| ") and "`" in line]
    assert len(ratios) == 5
    assert all(float(each) > 0 for each in ratios)


@pytest.mark.hunt(part="benchmarks")
def test_the_benchmark_of_variants_runs_and_filters_open_the_files_of_a_column(tmp_path: Path) -> None:
    lines = _report_of("variants", tmp_path)
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `")]
    assert [each[1] == each[2] for each in cells] == [True] * 3
