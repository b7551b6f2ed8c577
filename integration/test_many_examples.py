"""What the unit tests try in a few places at random, or in turn, tried in many more than a developer waits for."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = 28


@pytest.mark.parametrize(
    ("tests", "at_least"),
    [
        pytest.param(("tests", "-m", "hypothesis"), 20, id="properties"),
        pytest.param(("tests/commit/test_conflict_outcomes.py",), 600, id="conflicts at both isolation levels"),
    ],
)
def test_many_examples_hold(tests: tuple[str, ...], at_least: int) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *tests],
        cwd=Path(__file__).parent.parent,
        env=os.environ | {"TXLOG_EXAMPLES": str(EXAMPLES)},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    passed = re.search(r"(\d+) passed", run.stdout)
    assert passed is not None
    assert int(passed[1]) >= at_least
