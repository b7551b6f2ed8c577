"""Bars of long work in a real notebook: nbclient runs the cells in a kernel of ipykernel."""

from __future__ import annotations

from pathlib import Path

import nbclient
import nbformat

SETUP = """
import time
import pyarrow as pa
import txlog
from txlog.core.maintenance import _optimize

_optimize.GROUP_FILES_MAX = 1
table = txlog.Table.create(PATH, "id bigint, day string", "day")
rows = pa.table({"id": [1, 2, 3], "day": ["mon", "tue", "wed"]})
table.append(rows)
table.append(rows)

class Slow(txlog.CommitHooks):
    def on_commit(self, table, result):
        time.sleep(1.2)

slow = txlog.Table.open(PATH, hooks=Slow())
"""


def test_long_work_shows_a_bar_in_a_notebook_and_short_work_or_a_callers_own_function_does_not(tmp_path: Path) -> None:
    cells = [
        SETUP.replace("PATH", repr(str(tmp_path / "t"))),
        "table.optimize()",
        "table.append(rows); slow.optimize()",
        "table.append(rows); slow.optimize(on_progress=lambda *_: None)",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    bars = [[out.data for out in cell.outputs if out.output_type == "display_data"] for cell in notebook.cells]
    assert [len(shown) for shown in bars] == [0, 0, 1, 0]
    (bar,) = bars[2]
    assert bar["text/plain"].startswith("rewriting bytes: ")
    assert "<progress value=" in bar["text/html"]
    size = bar["text/plain"].removeprefix("rewriting bytes: ").partition(",")[0].split(" of ")
    assert size[0] == size[1]
