"""Runs the cells of a notebook in order, in one process, as a notebook server would, and writes the notebook's page.

    python integration/notebook.py docs/tutorial.ipynb

stores what the cells print in the notebook, and the notebook as a page of the site beside it. Cells run in an empty
folder.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Notebook = dict[str, Any]


def ran(notebook: Notebook) -> Notebook:
    """The notebook with the outputs of its cells.

    Raises:
        Exception: Whatever a cell raises.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    home = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            return {**notebook, "cells": [_cell_that_ran(cell, names) for cell in notebook["cells"]]}
        finally:
            os.chdir(home)


def page(notebook: Notebook) -> str:
    """The notebook as Markdown: each cell of code is followed by what it printed."""
    return "\n\n".join("\n\n".join(_parts(cell)) for cell in notebook["cells"]) + "\n"


def _cell_that_ran(cell: Notebook, names: dict[str, Any]) -> Notebook:
    if cell["cell_type"] != "code":
        return cell
    outputs = []
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        value = _run("".join(cell["source"]), names)
    if printed.getvalue():
        outputs.append(
            {"output_type": "stream", "name": "stdout", "text": printed.getvalue().splitlines(keepends=True)}
        )
    if value is not None:
        shown = {"text/plain": repr(value).splitlines(keepends=True)}
        if hasattr(value, "_repr_html_"):
            shown["text/html"] = value._repr_html_().splitlines(keepends=True)
        outputs.append({"output_type": "execute_result", "execution_count": None, "metadata": {}, "data": shown})
    return {**cell, "outputs": outputs}


def _run(source: str, names: dict[str, Any]) -> object:
    """Runs a cell; the value of its last line, if that is an expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), names)


def _parts(cell: Notebook) -> Iterator[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] != "code":
        yield source
        return
    yield f"```python\n{source}\n```"
    for output in cell["outputs"]:
        if "text/html" in output.get("data", {}):
            yield f'<div class="output">{"".join(output["data"]["text/html"])}</div>'
        else:
            text = "".join(output.get("text") or output["data"]["text/plain"])
            yield f'```text title="Output"\n{text.rstrip()}\n```'


def main(path: Path) -> None:
    notebook = ran(json.loads(path.read_text()))
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")
    path.with_suffix(".md").write_text(page(notebook))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
