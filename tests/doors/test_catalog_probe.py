"""What a probe says of a catalog: whether its book fits to the log's folder, and whether its database forgets."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import txlog
from txlog.cli.app import app
from txlog.testing.unity_server import UnityServer

URI = "uc://main.s.t"
ROW = pa.table({"id": pa.array([1], pa.int64())})


@pytest.fixture
def server(tmp_path: Path) -> Iterator[UnityServer]:
    with UnityServer(tmp_path / "server") as server:
        yield server


def test_a_catalog_that_has_forgotten_commits_is_not_safe(server: UnityServer) -> None:
    options = {"catalog": server.uri}
    table, book = txlog.Table.create(URI, "id bigint", storage_options=options), server.book()
    assert txlog.probe_store(URI, options).is_safe
    table.append(ROW)
    server.go_back(book)
    report = txlog.probe_store(URI, options)
    assert [problem for problem in report.problems if "version 1" in problem]
    with pytest.raises(txlog.UnsupportedFeatureError, match="has forgotten commits"):
        report.require_safe()


def test_the_settings_of_a_server_that_cannot_be_seen_are_named(server: UnityServer) -> None:
    options = {"catalog": server.uri}
    txlog.Table.create(URI, "id bigint", storage_options=options)
    (note,) = txlog.probe_store(URI, options).notes  # it has no settings
    assert "WRITE_DELAY=0" in note


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="only Linux shows who listens")
@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("jdbc:h2:file:./etc/db/h2db;DB_CLOSE_DELAY=-1", "does not sync each commit"),
        ("jdbc:h2:file:./etc/db/h2db;WRITE_DELAY=500", "does not sync each commit"),
        ("jdbc:h2:mem:testdb;DB_CLOSE_DELAY=-1", "in memory"),
        ("jdbc:h2:file:./etc/db/h2db;write_delay=0", ""),
        (r"jdbc\:postgresql\://localhost/ucdb", ""),
    ],
)
def test_the_database_of_a_server_on_this_machine_is_looked_at(tmp_path: Path, address: str, says: str) -> None:
    (tmp_path / "etc" / "conf").mkdir(parents=True)
    settings = f"# a comment\nhibernate.connection.driver_class=org.h2.Driver\nhibernate.connection.url={address}\n"
    (tmp_path / "etc" / "conf" / "hibernate.properties").write_text(settings)
    command = [sys.executable, "-m", "txlog.testing.unity_server", "book"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            options = {"catalog": process.stdout.readline().strip()}
            txlog.Table.create(URI, "id bigint", storage_options=options)
            report = txlog.probe_store(URI, options)
            given = ["probe-store", URI, "--storage-option", f"catalog={options['catalog']}"]
            done = CliRunner().invoke(app, given)
        finally:
            process.kill()
    assert (report.is_safe, report.notes) == (not says, ())
    assert says in "".join(report.problems)
    assert done.exit_code == (1 if says else 0), done.output
