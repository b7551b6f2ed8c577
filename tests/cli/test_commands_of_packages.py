"""Commands that packages bring: called and listed as txlog's own are, and refused with a reason if they cannot be."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

import txlog
from tests.packages import hide, install
from txlog.cli.app import app

COUNT = '''
import typer
from typing import Annotated
from rich.text import Text
from txlog.extend.cli import Json, Storage, Uri, opened

def count_rows(
    uri: Uri,
    twice: Annotated[bool, typer.Option("--twice", help="count each row as two")] = False,
    storage_options: Storage = None,
    as_json: Json = False,
) -> None:
    """Count the rows of a table.

    All of them.
    """
    with opened(uri, storage_options, as_json) as (table, out):
        rows = table.to_arrow().num_rows * (2 if twice else 1)
        out.result({"table": table.uri, "rows": rows}, Text(f"{rows} rows"))

several = typer.Typer(help="Commands about acme.")

@several.command()
def first() -> None:
    """Say one."""
    typer.echo("one")

@several.command()
def second() -> None:
    """Say two."""
    typer.echo("two")
'''


@pytest.fixture
def run() -> Callable[..., Result]:
    return lambda *arguments: CliRunner().invoke(app, [*map(str, arguments)])


@pytest.fixture
def acme(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    commands = {
        "count-rows": "acme_count:count_rows",
        "acme": "acme_count:several",
        "broken": "acme_count:nothing",
        "history": "acme_count:count_rows",
    }
    install(monkeypatch, tmp_path, "acme-count", {"txlog.commands": commands}, {"acme_count": COUNT})


@pytest.fixture
def uri(tmp_path: Path) -> str:
    txlog.write(tmp_path / "table", pa.table({"id": [1, 2, 3]}))
    return str(tmp_path / "table")


@pytest.mark.usefixtures("acme")
def test_a_command_of_another_package_runs_as_one_of_txlog_does(run: Callable[..., Result], uri: str) -> None:
    assert run("count-rows", uri).output == "3 rows\n"
    assert json.loads(run("count-rows", uri, "--twice", "--json").output) == {"table": uri, "rows": 6}
    missing = run("count-rows", f"{uri}-", "--json")
    assert (missing.exit_code, json.loads(missing.output)["error"]["kind"]) == (1, "TableNotFoundError")
    wrong = run("count-rows", uri, "--thrice", "--json")
    assert (wrong.exit_code, json.loads(wrong.output)["error"]["kind"]) == (2, "UsageError")
    described = run("count-rows", "--help").output
    assert "Count the rows of a table." in described
    assert "--twice" in described


@pytest.mark.usefixtures("acme")
def test_a_package_may_bring_several_commands_under_one_name(run: Callable[..., Result]) -> None:
    assert run("acme", "second").output == "two\n"
    assert "Say one." in run("acme", "--help").output


@pytest.mark.usefixtures("acme")
def test_commands_of_packages_are_listed_after_those_of_txlog(run: Callable[..., Result]) -> None:
    lines = run("--help").output.partition("Commands:")[2].splitlines()
    listed = [line.split()[0] for line in lines if line[:3].strip()]  # a line of a wrapped text begins farther right
    assert listed[0] == "create"
    assert listed[-4:] == ["abandon", "acme", "broken", "count-rows"]
    assert listed.index("verify") == listed.index("files") + 1


@pytest.mark.usefixtures("acme")
def test_a_package_cannot_replace_a_command_of_txlog(run: Callable[..., Result], uri: str) -> None:
    assert "3 rows" not in run("history", uri).output


@pytest.mark.usefixtures("acme")
def test_a_command_that_cannot_be_loaded_is_listed_and_says_why_when_it_is_called(run: Callable[..., Result]) -> None:
    assert "Cannot be used" in run("--help").output
    done = run("broken", "anything", "--of", "it", "--json")
    assert done.exit_code == 1
    error = json.loads(done.output)["error"]
    assert error["kind"] == "UnsupportedFeatureError"
    assert "acme-count" in error["message"]
    assert "nothing" in error["message"]


@pytest.mark.usefixtures("acme")
def test_a_mistyped_command_of_a_package_is_suggested(run: Callable[..., Result]) -> None:
    assert "Did you mean 'count-rows'" in run("count-row").output


def test_a_command_whose_package_is_absent_says_so(
    run: Callable[..., Result], uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hide(monkeypatch, "txlog.commands:verify", "txlog.data_files:files")
    assert "Check the invariants" not in run("--help").output
    done = run("verify", uri, "--json")
    assert (done.exit_code, json.loads(done.output)["error"]["features"]) == (1, ["verify"])
    rows = Path(uri).with_name("rows.csv")
    rows.write_text("id\n4\n")
    done = run("append", uri, rows, "--json")
    assert done.exit_code == 1
    assert "txlog.data_files" in json.loads(done.output)["error"]["message"]
    assert txlog.Table.open(uri).version == 0


def test_a_command_of_the_core_loads_no_extension_and_reads_no_metadata_of_packages() -> None:
    """A short command would spend more time on them than on its work."""
    program = (
        "import sys, importlib.metadata as m\nm.entry_points = None\nfrom txlog.cli.app import app\n"
        "try:\n    app(['history', '--help'], prog_name='txlog')\n"
        "finally:\n    print(' '.join(sys.modules), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    extensions = ("audit", "changelog", "iceberg", "loading", "report", "serve", "spark", "statements", "unity")
    loaded = done.stderr.split()
    assert not [name for name in loaded if name.startswith(tuple(f"txlog.{each}" for each in extensions))]


def test_the_names_of_extend_cli_are_those_of_the_command_line() -> None:
    import txlog.extend.cli as shared

    assert all(getattr(shared, name) is not None for name in shared.__all__)
    assert {*dir(shared)} == {*shared.__all__}
    with pytest.raises(AttributeError, match="nobody"):
        _ = shared.nobody
    assert shared.FAILED == 1
