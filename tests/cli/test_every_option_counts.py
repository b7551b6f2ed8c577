"""Every option of a command that writes has an effect, or the command refuses it. None is ignored."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import typer
from typer.testing import CliRunner
from write_outcomes import commits_since

import txlog
from txlog.cli.app import app

REGION = "id <> 2"
CSV = "id,day\n1,mon\n4,mon\n"
COMMANDS: dict[str, list[str]] = {
    "create and append": ["append", "URI", "FILE", "--create"],
    "append": ["append", "URI", "FILE"],
    "overwrite": ["overwrite", "URI", "FILE"],
    "overwrite a region": ["overwrite", "URI", "FILE", "--where", REGION],
    "delete": ["delete", "URI", "--where", "id = 1"],
    "update": ["update", "URI", "--set", "day='fri'", "--where", "id = 1"],
    "upsert": ["upsert", "URI", "FILE", "--key", "id"],
    "merge": ["merge", "URI", "FILE", "--on", "target.id = source.id", "--insert-all"],
}


@dataclass(frozen=True)
class Given:
    """An option in a situation in which it can matter."""

    arguments: list[str]
    text: str = CSV
    beside: list[str] = field(default_factory=list)
    suffix: str = ".csv"


OPTIONS = {
    "--format": Given(["--format", "json"], suffix=".rows"),
    "--null": Given(["--null", "mon"]),
    "--delimiter": Given(["--delimiter", ";"]),
    "--decimal-comma": Given(["--decimal-comma"], text='id,day,n\n1,mon,"1,5"\n', beside=["--merge-schema"]),
    "--no-header": Given(["--no-header"], text="1,mon\n4,mon\n"),
    "--create": Given(["--create"]),
    "--partition-by": Given(["--partition-by", "id"]),
    "--cluster-by": Given(["--cluster-by", "id"]),
    "--merge-schema": Given(["--merge-schema"], text="id,day,more\n1,mon,7\n"),
    "--app-id": Given(["--app-id", "orders"], beside=["--checkpoint-id", "7"]),
    "--checkpoint-id": Given(["--checkpoint-id", "7"], beside=["--app-id", "orders"]),
    "--user-metadata": Given(["--user-metadata", "by hand"]),
    "--target-file-size": Given(
        ["--target-file-size", "1"], text="id,day\n" + "\n".join(f"{n},mon" for n in range(5, 60_000))
    ),
    "--parquet": Given(["--parquet", "parquet.compression=gzip"]),
    "--storage-option": Given(["--storage-option", "nothing=of value"]),
    "--json": Given(["--json"]),
    "--where": Given(["--where", REGION]),
    "--param": Given(["--param", "unnamed=1"]),
    "--all": Given(["--all"]),
    "--dry-run": Given(["--dry-run"]),
    "--row-mode": Given(["--row-mode", "copy-on-write"]),
    "--on-conflict": Given(["--on-conflict", "rerun"], beside=["--read-version", "0"]),
    "--read-version": Given(["--read-version", "0"]),
    "--set": Given(["--set", "id=9"]),
    "--key": Given(["--key", "day"]),
    "--when-matched": Given(["--when-matched", "ignore"]),
    "--when-not-matched": Given(["--when-not-matched", "ignore"]),
    "--missing-columns": Given(["--missing-columns", "default"], text="id\n1\n"),
    "--on-duplicate": Given(["--on-duplicate", "last"], text="id,day\n1,mon\n1,tue\n"),
    "--sequence-by": Given(["--sequence-by", "day"], text="id,day\n1,tue\n1,mon\n", beside=["--on-duplicate", "last"]),
    "--row-kind": Given(["--row-kind", "kind"], text="id,day,kind\n1,mon,-D\n"),
    "--row-kinds": Given(["--row-kinds", "x=-D"], text="id,day,kind\n1,mon,x\n", beside=["--row-kind", "kind"]),
    "--merge-engine": Given(["--merge-engine", "first-row"]),
    "--merge-option": Given(["--merge-option", "merge-engine=first-row"]),
    "--on": Given(["--on", "target.id = source.id + 5"]),
    "--delete-if": Given(["--delete-if", "source.id = 1"]),
    "--update-all": Given(["--update-all"]),
    "--update": Given(["--update", "day = 'fri'"]),
    "--update-if": Given(["--update-if", "source.id > 1"], beside=["--update", "day = 'fri'"]),
    "--insert-all": Given(["--insert-all"]),
    "--insert": Given(["--insert", "id = source.id"]),
    "--insert-if": Given(["--insert-if", "false"]),
    "--delete-rest": Given(["--delete-rest"]),
    "--delete-rest-if": Given(["--delete-rest-if", "target.id = 3"]),
    "--workers": Given(["--workers", "0"]),  # test_workers.py shows what a number does
}


REFUSED = Given(["--on-conflict", "never"])  # a test of Python shows what it does beside other writers
OPTIONS_OF = {
    ("delete", "--parquet"): Given(["--parquet", "parquet.compression=gzip"], beside=["--row-mode", "copy-on-write"]),
    ("merge", "--row-mode"): Given(["--row-mode", "copy-on-write"], beside=["--update-all"]),
    **{(command, "--on-conflict"): REFUSED for command in ("delete", "update", "upsert", "merge")},
}


NAMES_OF_PYTHON = re.compile(r"\b(?<!['.])\w+_(id|by|mode|version|conflict|metadata|matched|duplicate|kinds?)\b(?!')")


ALL: Any = typer.main.get_command(app)


def options_of(command: str) -> list[str]:
    found = ALL.commands[COMMANDS[command][0]]
    return [each.opts[0] for each in found.params if each.param_type_name == "option" and each.opts[0] != "--help"]


@pytest.mark.parametrize(("command", "name"), [(each, name) for each in COMMANDS for name in options_of(each)])
def test_no_option_of_a_command_is_ignored(command: str, name: str, tmp_path: Path) -> None:
    given = OPTIONS_OF.get((command, name), OPTIONS[name])
    if (command, name) == ("append", "--create"):
        pytest.skip("the option is about a table that is absent")
    if name in COMMANDS[command] and name not in ("--key", "--set", "--on"):
        pytest.skip("the option makes the command")
    without = outcome_of(tmp_path / "without", command, given, [])
    with_it = outcome_of(tmp_path / "with", command, given, given.arguments)
    assert with_it != without, without
    assert not NAMES_OF_PYTHON.search(str(with_it[-1])), with_it[-1]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_same_command_twice_has_the_same_outcome(command: str, tmp_path: Path) -> None:
    """Or else the test above could not fail."""
    given = Given([])
    assert outcome_of(tmp_path / "one", command, given, []) == outcome_of(tmp_path / "two", command, given, [])


def outcome_of(folder: Path, command: str, given: Given, arguments: list[str]) -> Any:
    uri, file = folder / "t", folder / f"rows{given.suffix}"
    folder.mkdir()
    file.write_text(given.text)
    first = 0
    if "create" not in command:
        table = txlog.Table.create(uri, "id bigint, day string", ["day"], {"delta.enableDeletionVectors": "true"})
        table.append(pa.table({"id": pa.array([1, 2, 3], pa.int64()), "day": ["mon", "mon", "tue"]}))
        table.update({"day": txlog.expr("'wed'")}, "id = 3")
        first = table.version + 1
    placed = [{"URI": str(uri), "FILE": str(file)}.get(each, each) for each in COMMANDS[command]]
    done = CliRunner().invoke(app, [*placed, *given.beside, *arguments])
    return commits_since(uri, first), done.exit_code, shown(done.output.replace(str(folder), ""))


def shown(output: str) -> Any:
    """Errors whole; of a result only its form, since the sizes of files in it differ from run to run."""
    return output if output.startswith(("Usage", "InvalidInputError")) else output.startswith("{")
