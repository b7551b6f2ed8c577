"""`make hunt`: each part runs within its budget and says in one line what came of it; no marked test is left out."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import hunt as hunting
import pytest
from hunt import PARTS, Part, hunt, marked_files

ROOT = Path(__file__).parent.parent
MARKED = re.compile(r'\bhunt\(part="([\w-]+)"\)')
TESTS = [path for folder in ("tests", "integration") for path in sorted((ROOT / folder).rglob("test_*.py"))]


def program(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


@pytest.fixture(autouse=True)
def _output_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hunting, "OUTPUT", tmp_path)


def test_a_hunt_prints_a_line_for_each_part_and_a_summary(capsys: pytest.CaptureFixture[str]) -> None:
    parts = {
        "one": Part("a", 60, [program("print('12 passed')")]),
        "two": Part("b", 60, [program("print('all well')")]),
    }
    assert hunt(parts)
    one, two, summary = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"one +nothing found +\d+ s of +60 s  12 passed", one)
    assert re.fullmatch(r"two +nothing found +\d+ s of +60 s  all well", two)
    assert summary == "hunt: 2 of 2 parts found nothing"


def test_a_part_that_fails_fails_the_hunt_and_the_others_still_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    first = [program("print('a bug'); raise SystemExit(1)"), program("print('never reached')")]
    assert not hunt({"one": Part("a", 60, first), "two": Part("b", 60, [program("print('all well')")])})
    one, two, summary = capsys.readouterr().out.splitlines()
    assert re.match(r"one +FAILED .* a bug$", one)
    assert "nothing found" in two
    assert summary == f"hunt: 1 of 2 parts found nothing; look into one: {tmp_path}"
    assert "never reached" not in (tmp_path / "one.txt").read_text().partition("a bug\n")[2]


def test_a_part_over_its_budget_is_ended_with_all_that_it_started(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    starts = ("sh", "-c", f"sleep 600 & echo $! >{tmp_path}/pid; wait")
    assert not hunt({"slow": Part("a", 1, [starts])})
    assert "OVER BUDGET" in capsys.readouterr().out
    assert has_ended(int((tmp_path / "pid").read_text()))


def has_ended(process_id: int) -> bool:
    """A process that was killed is gone, or waits to be buried, within moments."""
    for _ in range(1_000):
        try:
            if Path(f"/proc/{process_id}/stat").read_text().split()[2] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.01)
    return False


def test_as_many_parts_run_at_once_as_there_are_processors_and_parts_that_keep_all_busy_run_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each of two waits for the file of the other; one that needs all processors finds none of them."""
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    meets = """
import pathlib, sys, time
folder, mine, other = pathlib.Path(sys.argv[1]), *sys.argv[2:]
(folder / mine).touch()
while not (folder / other).exists():
    time.sleep(0.01)
"""
    is_alone = "import pathlib, sys; sys.exit(any(pathlib.Path(sys.argv[1]).glob('ran-*')))"
    parts = {
        "one": Part("a", 60, [(*program(meets), str(tmp_path), "ran-1", "ran-2")]),
        "two": Part("b", 60, [(*program(meets), str(tmp_path), "ran-2", "ran-1")]),
        "all": Part("c", 60, [(*program(is_alone), str(tmp_path))], is_parallel=True),
    }
    assert hunt(parts)


def test_a_search_takes_the_seconds_that_are_asked_for_on_top_of_its_budget(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    search = Part("a", 60, [program("import os, sys; print(sys.argv[1:], os.environ['FOR'])")], {"FOR": "{seconds}"})
    search = Part(search.finds, 60, [(*search.commands[0], "{seconds}")], search.environment, is_search=True)
    assert hunt({"search": search}, seconds=7, arguments=["--seed", "1"])
    printed = capsys.readouterr().out.splitlines()
    assert "['7', '--seed', '1'] 7" in printed, "what was asked for is answered"
    assert re.search(r"of +67 s  \['7', '--seed', '1'\] 7$", printed[-2])


def test_an_unknown_part_is_refused_with_the_parts_that_there_are() -> None:
    run = subprocess.run(
        [sys.executable, str(ROOT / "integration" / "hunt.py"), "rases"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 2
    assert "no part is called rases: there are scenarios, " in run.stderr


def test_every_marked_test_belongs_to_a_part_and_every_part_has_a_command_or_tests() -> None:
    marked = {part for path in TESTS for part in MARKED.findall(path.read_text())} - {"..."}
    assert marked <= PARTS.keys()
    assert [name for name, part in PARTS.items() if not part.commands and not marked_files(name)] == []
    by_marker = {
        name for name, part in PARTS.items() if not part.commands or any("{files}" in each for each in part.commands)
    }
    assert marked <= by_marker, "a program runs, and not the tests with its marker"


def test_without_the_hunt_no_test_of_it_runs(tmp_path: Path) -> None:
    (tmp_path / "test_two.py").write_text(
        "import pytest\n\n@pytest.mark.hunt(part='races')\ndef test_long(): pass\n\ndef test_short(): pass\n"
    )
    found = {}
    for chosen in ((), ("-m", "hunt(part='races')"), ("-m", "hunt(part='large')")):
        run = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-c", ROOT / "pyproject.toml", "--rootdir", tmp_path, "--noconftest"),
                *("--collect-only", "-p", "no:cacheprovider", *chosen, tmp_path / "test_two.py"),
            ],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTEST_XDIST_WORKER": ""},
            check=False,
        )
        found[chosen] = re.findall(r"::(\w+)", run.stdout)
    assert list(found.values()) == [["test_short"], ["test_long"], []]


def test_a_marker_of_the_hunt_is_written_in_the_one_form_that_is_looked_for() -> None:
    for path, text in ((path, path.read_text()) for path in TESTS):
        if "mark.hunt" in text:
            calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
            markers = [node for node in calls if ast.unparse(node.func).endswith("mark.hunt")]
            assert len(markers) <= len(MARKED.findall(text)), path
