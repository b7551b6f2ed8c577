"""PySpark programs on Sail, which needs no Java: `check_sail`, in processes of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from spark_fixtures import needs_sail


@needs_sail
@pytest.mark.parametrize("mode", ["local", pytest.param("local-cluster", marks=pytest.mark.hunt(part="spark"))])
def test_everything_that_the_documentation_says_of_sail_works(mode: str) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYTEST_"))}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(Path(__file__).with_name("check_sail.py"))]
    environment["SAIL_MODE"] = mode  # threads, or workers with tasks that it sends to them
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
