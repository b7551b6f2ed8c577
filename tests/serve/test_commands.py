"""`txlog serve` and `txlog serve-token` as commands: what they refuse before anything listens, and what they keep."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.serve.services import create
from txlog.cli.app import app
from txlog.errors import AccessError, InvalidInputError
from txlog.serve.access import Access, new_grant


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.com"])
def test_a_service_that_other_machines_reach_needs_tls_and_tokens(tmp_path: Path, host: str) -> None:
    create(tmp_path)
    for given in ([], ["--tokens", tmp_path / "tokens"], ["--tls-cert", "c.pem", "--tls-key", "k.pem"]):
        done = run("serve", tmp_path, "--host", host, *given)
        assert done.exit_code == 1
        assert "so the service needs --t" in done.output.replace("\n", " ")
    assert run("serve", tmp_path, "--tls-cert", "c.pem").exit_code == 2


def test_a_service_without_its_files_does_not_begin(tmp_path: Path) -> None:
    create(tmp_path)
    tls = ("--tls-cert", tmp_path / "c.pem", "--tls-key", tmp_path / "k.pem")
    assert "cannot be read" in run("serve", tmp_path, "--tokens", tmp_path / "nothing", "--json").output
    assert "certificate" in run("serve", tmp_path, *tls, "--flight-port", 0, "--json").output
    assert run("serve", tmp_path, "--max-batch", "64mb", "--max-waiting", "100mb").exit_code == 2
    assert "needs a port" in run("serve", tmp_path, "--flight-port", -1, "--http-port", -1, "--json").output


def test_a_token_is_shown_once_and_only_its_hash_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    till = json.loads(
        run("serve-token", file, "--name", "till", "--table", "sales.*", "--right", "append", "--json").output
    )
    both = run("serve-token", file, "--name", "all", "--table", "*", "--right", "append,change", "--right", "read")
    assert till["token"] not in file.read_text()
    assert both.output.strip() not in file.read_text()
    assert file.stat().st_mode & 0o077 == 0
    access = Access(file)
    access.check(till["token"], "Sales.Orders", "append")
    access.check(both.output.strip(), "events", "read")
    for table, right in (("events", "append"), ("sales.orders", "change"), ("sales.orders", "read")):
        with pytest.raises(AccessError, match=f"'till' does not give the right to {right} '{table}'"):
            access.check(till["token"], table, right)  # type: ignore[arg-type]
    assert run("serve-token", file, "--name", "x", "--table", "*", "--right", "rule").exit_code == 2


def test_a_token_that_was_taken_back_is_refused_while_the_service_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("txlog.serve.access.LOOK_EVERY_S", 0.0)
    token, grant = new_grant("till", ("*",), ("append",))
    file = tmp_path / "tokens"
    file.write_text(json.dumps({"name": "till", "sha256": grant.sha256, "tables": ["*"], "rights": ["append"]}))
    access = Access(file)
    access.check(token, "events", "append")
    file.write_text("")
    with pytest.raises(AccessError, match="does not know this token"):
        access.check(token, "events", "append")
    file.unlink()  # as while an editor writes it: nobody gets in by it
    with pytest.raises(AccessError):
        access.check(token, "events", "append")


def test_a_line_that_is_no_grant_is_refused_with_its_number(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text('\n{"name": "x", "sha256": "", "tables": ["*"], "rights": ["rule"]}\n')
    with pytest.raises(InvalidInputError, match="line 2 of the tokens is not a grant"):
        Access(file)
