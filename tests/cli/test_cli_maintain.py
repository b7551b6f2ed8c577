"""The command `txlog maintain`: one round, and rounds until a signal."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import txlog
from txlog.cli.app import app


@pytest.fixture
def table(make_table: Callable[..., txlog.Table]) -> txlog.Table:
    table = make_table(schema="id bigint")
    for number in range(6):
        table.append(pa.table({"id": [number]}))
    return table


def run(*arguments: object) -> str:
    done = CliRunner().invoke(app, ["maintain", *map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_maintain_prints_what_a_round_did_and_then_that_nothing_is_left(table: txlog.Table) -> None:
    assert "version 6; compaction: 6 files as 1" in run(table.uri, "--small-files", 5, "--dry-run")
    assert table.version == 6
    facts = json.loads(run(table.uri, "--small-files", 5, "--json"))
    assert (facts["compaction"]["files_removed"], facts["version"]) == (6, 7)
    assert run(table.uri, "--small-files", 5) == "version 7; nothing to do\n"


def test_maintain_refuses_an_interval_without_watch(table: txlog.Table) -> None:
    done = CliRunner().invoke(app, ["maintain", table.uri, "--interval", "5"])
    assert done.exit_code == 2
    assert "--interval is the time between the rounds of --watch" in done.output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_watching_prints_each_round_and_ends_cleanly_at_a_signal(table: txlog.Table, number: signal.Signals) -> None:
    watch = [sys.executable, "-m", "txlog", "maintain", table.uri, "--watch", "--interval", "0.1", "--small-files", "5"]
    with subprocess.Popen(watch, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first, second = process.stdout.readline(), process.stdout.readline()
        process.send_signal(number)
        _, reported = process.communicate(timeout=60)
    assert "version 7; compaction: 6 files as 1" in first
    assert second.endswith("Z  version 7; nothing to do\n")
    assert (process.returncode, reported.strip()) == (0, "stopped")
    assert table.count() == 6
