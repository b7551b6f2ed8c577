"""Every example runs as a user would run it: as its own program, in an empty folder. Those on Spark in the hunt."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import java_home
import pytest
from spark_fixtures import SHORT_LIVED

ROOT = Path(__file__).parent.parent
EXAMPLES = [
    pytest.param(
        path,
        id=path.stem,
        marks=pytest.mark.hunt(part="spark")
        if path.stem in ("append_from_spark", "cdc_pipeline", "stream_exactly_once")
        else (),
    )
    for path in sorted((ROOT / "examples").glob("*.py"))
    if path.stem != "mirror_postgres"  # test_mirror has its server
]


def test_there_are_examples() -> None:
    assert EXAMPLES


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_runs_and_prints_its_result(example: Path, tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, str(example)],
        cwd=tmp_path,
        env={**java_home.spark_environment(), "JDK_JAVA_OPTIONS": SHORT_LIVED},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip()
