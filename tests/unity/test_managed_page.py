"""The page on managed tables: its code runs, in order, against the stand-in of a server."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

import txlog
from txlog.testing.unity_server import UnityServer

PAGE = (Path(__file__).parents[2] / "docs" / "managed-tables.md").read_text()
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_code_of_the_page_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = pa.table({"id": [1], "day": pa.array([0], pa.date32()), "amount": [1.5]})
    with UnityServer(tmp_path) as server:
        server._book["schemas"].append("main.sales")
        for block in BLOCK.findall(PAGE):
            exec(block.replace("https://unity.example.com", server.uri), {"txlog": txlog, "rows": rows})
        assert txlog.Catalog(server.uri).tables("main.sales") == ["main.sales.orders", "main.sales.returns"]
    assert capsys.readouterr().out == "1 ['main.sales.orders']\n"
