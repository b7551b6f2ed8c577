"""`txlog iceberg` exports and rebuilds; `txlog show` says how far Iceberg readers are behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from txlog import Table
from txlog.cli.app import app


@pytest.fixture
def table(tmp_path: Path) -> Table:
    table = Table.create(tmp_path / "t", pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1, 2]}))
    return table


def run(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done.output


def facts(*arguments: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(run(*arguments, "--json"))
    return loaded


def test_iceberg_exports_once_and_then_has_nothing_new(table: Table) -> None:
    assert "Iceberg readers see version 1: 1 new snapshot" in run("iceberg", table.uri)
    assert "nothing new" in run("iceberg", table.uri)
    table.append(pa.table({"id": [3]}))
    done = facts("iceberg", table.uri)
    assert (done["version"], done["snapshots"]) == (2, 1)
    assert Path(done["metadata_location"].removeprefix("file://")).exists()


def test_show_says_how_far_iceberg_readers_are_behind(table: Table) -> None:
    assert facts("show", table.uri)["iceberg"] is None
    assert "Iceberg" not in run("show", table.uri)
    run("iceberg", table.uri)
    assert "version 1, up to date" in run("show", table.uri)
    table.append(pa.table({"id": [3]}))
    assert facts("show", table.uri)["iceberg"] == {"version": 1, "lag": 1, "problem": None}
    assert "version 1, 1 version behind" in run("show", table.uri)


def test_a_rebuild_repairs_what_an_iceberg_writer_left(table: Table) -> None:
    run("iceberg", table.uri)
    folder = Path(table.uri) / "_iceberg/metadata"
    (folder / "v2.metadata.json").write_text("{}")
    assert "txlog iceberg --rebuild" in run("iceberg", table.uri, code=1)
    assert "txlog iceberg --rebuild" in facts("show", table.uri)["iceberg"]["problem"]
    assert facts("iceberg", table.uri, "--rebuild")["metadata_location"].endswith("v3.metadata.json")
