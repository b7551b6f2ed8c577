"""The code in the pages works as shown: each block of Python passes mypy --strict, and a page's blocks run in order.

`test_spark_pages` runs the pages that use Spark.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import notebook
import pytest
from pages import PAGES, ROOT, blocks, pages_that_run, run_page
from spark_fixtures import needs_sail

import txlog

NOTEBOOK, NOTEBOOK_PAGE = ROOT / "docs" / "tutorial.ipynb", "docs/tutorial.md"

# What the text around a block speaks of.
GIVEN = """
from __future__ import annotations
import time
from collections.abc import Callable
from typing import Any
import deltalake, duckdb, polars
import pyarrow as pa
import pyarrow.compute as pc
import txlog
import txlog.spark
table = txlog.Table.open("t")
sink = txlog.Sink(table, "app")
path = uri = checkpoints = "t"
app_id, checkpoint_id, task_id, attempt, offset, topic, partition = "app", 1, 0, 0, 0, "orders", 0
frame: Any; df: Any; events: Any; data: Any; batch: Any; batches: Any; wider: Any; rows: Any; spark: Any
changes: Any; corrections: Any; customers: Any; new_orders: Any; prices: Any; add_one: Any; stream: Any; schema: Any
load_position: Callable[[], int]; handle: Callable[[pa.Table], None]; save_position: Callable[[int], None]
orders_table = lines_table = table; offsets = "17"; group = txlog.SinkGroup(sink)
adjusted: Callable[[pa.Table], pa.Table]; deleted: Any; report: Any; found: Any; friday: Any
"""


def test_every_block_of_python_passes_a_strict_type_checker(tmp_path: Path) -> None:
    for page in PAGES:
        programs = ["".join(blocks(page))] if page == NOTEBOOK_PAGE else [GIVEN + block for block in blocks(page)]
        for number, program in enumerate(programs):
            name = page.replace("/", "_").removesuffix(".md")
            (tmp_path / f"{name}_{number}.py").write_text(program)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert len(names) >= 15
    known = ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache")]  # by `make check`
    checker = ["mypy", *known, "--strict", "--follow-imports=silent", "--ignore-missing-imports", "--no-error-summary"]
    command = [sys.executable, "-m", *checker, *names]
    environment = {**os.environ, "MYPYPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.parametrize("page", pages_that_run(with_spark=False))
def test_the_blocks_of_a_page_run_from_the_first_to_the_last(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = run_page(page, tmp_path)
    if page == "docs/follow-changes.md":
        assert names["saved"] == [46], "its loop stored the next position once"


@needs_sail
def test_the_page_on_sail_runs_in_a_process_without_java(tmp_path: Path) -> None:
    program = "\n".join(["import txlog, txlog.spark", *blocks("docs/sail.md")]).replace("/tmp/", f"{tmp_path}/")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "JAVA_"))}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert txlog.Table.open(tmp_path / "numbers").count() == 1000


def test_the_notebook_runs_and_prints_what_it_and_its_page_show() -> None:
    kept = json.loads(NOTEBOOK.read_text())
    assert without_numbers(notebook.page(notebook.ran(kept))) == without_numbers(notebook.page(kept))
    assert (ROOT / NOTEBOOK_PAGE).read_text() == notebook.page(kept), "python integration/notebook.py writes the page"


def without_numbers(text: str) -> str:
    """Versions, times and sizes differ from run to run."""
    return re.sub(r"\d[\d.,:-]*", "0", text)


def test_the_page_of_examples_has_every_example_under_its_first_sentence() -> None:
    text = (ROOT / "docs" / "examples.md").read_text()
    for path in (ROOT / "examples").glob("*.py"):
        sentence = path.read_text().splitlines()[0].strip('"').rstrip(".")
        assert f'??? example "{sentence}"' in text
        assert f'--8<-- "examples/{path.name}"' in text
