"""The caller's own Spark, Hadoop and cloud accounts stay out of the tests and of every process that they start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from clean_environment import clean

ROOT = Path(__file__).parent.parent
FOREIGN = [
    *("SPARK_HOME", "SPARK_CONF_DIR", "HADOOP_CONF_DIR", "AWS_PROFILE", "AWS_ENDPOINT_URL", "PYSPARK_SUBMIT_ARGS"),
    *("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "JAVA_TOOL_OPTIONS"),
]
OWN = ["PATH", "HOME", "JAVA_HOME", "PYSPARK_PYTHON", "TZ", "LANG", "TXLOG_GOLDEN"]


def test_what_belongs_to_another_spark_or_an_account_is_removed_and_nothing_else() -> None:
    environment = dict.fromkeys([*FOREIGN, *OWN], "x")
    clean(environment)
    assert list(environment) == OWN


@pytest.mark.parametrize("folder", ["tests", "integration"])
def test_processes_that_the_tests_start_do_not_see_them(folder: str, tmp_path: Path) -> None:
    """By the conftest of each folder, run as pytest runs it."""
    program = (
        f"import os, runpy, sys; sys.path.insert(0, {str(ROOT / 'integration')!r});"
        f"runpy.run_path({str(ROOT / folder / 'conftest.py')!r});"
        "import subprocess; print(subprocess.run(['env'], capture_output=True, text=True).stdout)"
    )
    environment = {**os.environ, **dict.fromkeys(FOREIGN, "/nowhere")}
    run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert not [line for line in run.stdout.splitlines() if line.partition("=")[0] in FOREIGN]
    assert "PATH=" in run.stdout


@pytest.mark.parametrize("folder", ["tests", "integration"])
def test_where_file_names_are_not_in_utf_8_one_line_says_so(folder: str) -> None:
    ascii_names = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-m", "pytest", "--collect-only", "-p", "no:cacheprovider", folder]
    run = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **ascii_names}, capture_output=True, text=True, encoding="utf-8"
    )
    assert run.returncode == pytest.ExitCode.USAGE_ERROR
    assert "ERROR: file names are in ascii here" in run.stderr
