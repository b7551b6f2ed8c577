"""The command that clones a table."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import txlog
from txlog.cli.app import app


def run(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, [*arguments])
    assert done.exit_code == code, done.output + done.stderr
    return " ".join((done.stdout if code == 0 else done.stderr).split())


@pytest.fixture
def uri(tmp_path: Path) -> str:
    table = txlog.Table.create(str(tmp_path / "t"), pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1, 2]}))
    return table.uri


def test_a_table_is_cloned_and_the_clone_follows_it(uri: str, tmp_path: Path) -> None:
    place = str(tmp_path / "c")
    assert "is at version 0: a clone of version 1, 1 file" in run("clone", uri, place)
    assert "--mode replace makes it the clone" in run("clone", uri, place, code=1)
    assert "stays as it is" in run("clone", uri, place, "--mode", "ignore")
    assert "a clone of version 1 already" in run("clone", uri, place, "--mode", "replace")
    txlog.Table.open(uri).append(pa.table({"id": [3]}))
    done = json.loads(run("clone", uri, place, "--mode", "replace", "--property", "a.b=c", "--json"))
    assert (done["version"], done["files_copied"], done["source_version"]) == (1, 1, 2)
    clone = txlog.Table.open(place)
    assert clone.to_arrow().num_rows == 3
    assert clone.snapshot().properties["a.b"] == "c"


def test_a_shallow_clone_of_an_older_version_is_made(uri: str, tmp_path: Path) -> None:
    place = str(tmp_path / "c")
    found = run(
        "clone", uri, place, "--shallow", "--version", "0", "--user-metadata", "why", "--target-option", "region=x"
    )
    assert "reads the files of the table" in found
    clone = txlog.Table.open(place)
    assert clone.to_arrow().num_rows == 0
    assert clone.history()[0]["userMetadata"] == "why"
    assert "expected 'error', 'ignore' or 'replace'" in run("clone", uri, place, "--mode", "again", code=1)
