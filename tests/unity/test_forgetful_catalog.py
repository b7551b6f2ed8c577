"""A catalog whose server forgets commits that it had accepted, as a killed one does whose database is synced late.

What was acknowledged stays in the table or is named by an error, whoever writes next and by whichever handle; nothing
is published over another commit, and no commit is acknowledged beside one that contradicts it.
"""

from __future__ import annotations

import http.client
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import txlog
from txlog.cli.app import app
from txlog.core.store import LocalLogStore, RetryPolicy
from txlog.errors import CommitStateUnknownError, ForkedTableError
from txlog.testing.unity_server import UnityServer

NAME = "main.s.t"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[UnityServer]:
    with UnityServer(tmp_path / "server") as server:
        yield server


@pytest.fixture
def table(server: UnityServer) -> txlog.Table:
    return txlog.Catalog(server.uri).create(NAME, "id bigint")


def opened(server: UnityServer) -> txlog.Table:
    return txlog.Catalog(server.uri).table(NAME)


def row(number: int) -> pa.Table:
    return pa.table({"id": pa.array([number], pa.int64())})


def ids(server: UnityServer) -> list[int]:
    return sorted(opened(server).to_arrow()["id"].to_pylist())


def log_of(table: txlog.Table) -> Path:
    return Path(table.uri) / "_delta_log"


def published(table: txlog.Table) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in log_of(table).glob("*.json") if len(path.name) == 25}


def accept_as_another_engine(server: UnityServer, table: txlog.Table, version: int, body: bytes) -> str:
    """Stage these bytes and have the catalog accept them, as an engine does that publishes later."""
    name = f"{version:020}.{uuid4()}.json"
    (log_of(table) / "_staged_commits" / name).write_bytes(body)
    at = json.loads(body.splitlines()[0])["commitInfo"]["inCommitTimestamp"]
    commit = {"version": version, "timestamp": at, "file-name": name, "file-size": len(body)}
    request = {
        "requirements": [{"type": "assert-table-uuid", "uuid": server.table(NAME)["uuid"]}],
        "updates": [{"action": "add-commit", "commit": {**commit, "file-modification-timestamp": at}}],
    }
    connection = http.client.HTTPConnection(urlsplit(server.uri).netloc)
    path = "/api/2.1/unity-catalog/delta/v1/catalogs/main/schemas/s/tables/t"
    connection.request("POST", path, json.dumps(request))
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    connection.close()
    return name


def forget_the_last(server: UnityServer, table: txlog.Table, number: int = 2) -> dict[str, bytes]:
    """One append stays, and the server forgets the next one, which was acknowledged. Returns what is published."""
    table.append(row(1))
    book = server.book()
    table.append(row(number))
    server.go_back(book)
    return published(table)


def test_no_handle_writes_over_an_acknowledged_version_that_the_catalog_has_forgotten(
    server: UnityServer, table: txlog.Table
) -> None:
    other = opened(server)
    before = forget_the_last(server, table)
    asked = len(server.requests)
    for handle in (table, other, opened(server)):
        for write in (lambda handle=handle: handle.append(row(9)), lambda handle=handle: handle.delete("id = 1")):
            with pytest.raises(ForkedTableError, match="`txlog repair` offers it") as raised:
                write()
            error = raised.value
            assert (error.table, error.version) == (f"uc://{NAME}", 2)
            assert (error.path, error.catalog_file) == (f"{2:020}.json", "")
    assert len(server.requests) - asked < 30, "a handle that is stuck asks again and again"
    assert published(table) == before
    assert server.table(NAME)["latest"] == 1


def test_a_reader_is_told_of_versions_that_the_catalog_has_forgotten(
    server: UnityServer, table: txlog.Table, caplog: pytest.LogCaptureFixture
) -> None:
    forget_the_last(server, table)
    with caplog.at_level(logging.WARNING, "txlog"):
        assert ids(server) == [1]
    assert f"{2:020}.json is published" in caplog.text
    assert "uc://" not in table.uri
    assert table.uri not in caplog.text, "a folder of ids is no name"


def test_verify_finds_what_the_catalog_has_forgotten(server: UnityServer, table: txlog.Table) -> None:
    forget_the_last(server, table)
    for handle in (opened(server), table):
        (finding,) = handle.verify().findings
        assert (finding.rule, finding.version, finding.path) == ("forked-version", 2, f"{2:020}.json")


@pytest.mark.parametrize("by", ["the writer's handle", "another handle", "the command line"])
def test_repair_gives_the_catalog_back_what_it_has_forgotten_and_open_handles_go_on(
    server: UnityServer, table: txlog.Table, by: str
) -> None:
    other = opened(server)
    table.append(row(1))
    book = server.book()
    table.append(row(2))
    table.add_columns("note string")
    table.append(pa.table({"id": [3], "note": ["c"]}))
    server.go_back(book)
    before = published(table)
    if by == "the command line":
        done = CliRunner().invoke(app, ["repair", f"uc://{NAME}", "--storage-option", f"catalog={server.uri}"])
        assert done.exit_code == 0, done.output
        assert "version 4: the catalog has it again" in done.output
    else:
        repaired = (table if by == "the writer's handle" else opened(server)).repair()
        assert (repaired.offered, repaired.given_up) == ((2, 3, 4), ())
    assert [field["name"] for field in server.table(NAME)["columns"]["fields"]] == ["id", "note"]
    assert ids(server) == [1, 2, 3]
    for number, handle in enumerate((table, other, opened(server)), start=4):
        assert handle.append(pa.table({"id": [number], "note": ["d"]})).version == number + 1
    assert ids(server) == [1, 2, 3, 4, 5, 6]
    assert {name: body for name, body in published(table).items() if name in before} == before
    assert opened(server).verify().is_sound
    assert opened(server).repair().offered == ()


def test_a_repair_that_gets_no_answer_is_made_again(server: UnityServer, table: txlog.Table) -> None:
    forget_the_last(server, table)
    server.switches.cut = lambda method, path, body: "after" if method == "POST" else None
    with pytest.raises(txlog.StorageError, match="repair the table again"):
        opened(server).repair()
    server.switches.cut = None
    opened(server).repair()
    assert (ids(server), opened(server).verify().is_sound) == ([1, 2], True)


def test_of_two_commits_accepted_as_one_version_only_the_published_one_is_acknowledged(
    server: UnityServer, table: txlog.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server forgets the first one between its answer and the publication, and accepts a second one."""
    slow, quick, book = opened(server), opened(server), server.book()
    real, results = LocalLogStore.put_if_absent, []

    def put(store: LocalLogStore, name: str, body: bytes) -> Any:
        if name == f"{1:020}.json" and not results:
            results.append(None)
            server.go_back(book)
            results.append(quick.append(row(2)))
        return real(store, name, body)

    monkeypatch.setattr(LocalLogStore, "put_if_absent", put)
    with pytest.raises(ForkedTableError, match="not acknowledged"):
        slow.append(row(1))
    assert (results[1].version, ids(server)) == (1, [2])


def contradicted(server: UnityServer, table: txlog.Table) -> str:
    """Version 2 is published and acknowledged, and the catalog, which forgot it, has another commit as version 2."""
    forget_the_last(server, table)
    lines = published(table)[f"{2:020}.json"].splitlines()
    info = json.loads(lines[0])
    info["commitInfo"].update(txnId=str(uuid4()), inCommitTimestamp=info["commitInfo"]["inCommitTimestamp"] + 1)
    body = b"\n".join([json.dumps(info).encode(), *lines[1:]]) + b"\n"
    return accept_as_another_engine(server, table, 2, body)


def test_two_commits_of_one_version_are_named_by_every_door_and_neither_is_touched(
    server: UnityServer, table: txlog.Table
) -> None:
    name = contradicted(server, table)
    before = published(table)
    other = opened(server)
    doors: list[Callable[[], object]] = [
        lambda: table.append(row(9)),
        lambda: other.append(row(9)),
        lambda: opened(server).append(row(9)),
        lambda: other.to_arrow(),
        lambda: opened(server).snapshot(),
        lambda: other.repair(),
        lambda: table.repair(),
    ]
    for door in doors:
        with pytest.raises(ForkedTableError) as raised:
            door()
        assert (raised.value.version, raised.value.catalog_file) == (2, name)
        assert raised.value.path == f"{2:020}.json"
        assert "Move neither of the two away" in str(raised.value)
    rules = {finding.rule: finding.version for finding in other.verify().findings}
    assert rules["forked-version"] == 2
    assert published(table) == before
    (record, *_) = server.table(NAME)["commits"]
    assert record["file-name"] == name, "the catalog's only record was erased"


def test_the_published_commit_is_kept_if_the_user_says_so(server: UnityServer, table: txlog.Table) -> None:
    name = contradicted(server, table)
    done = opened(server).repair(remove=True)
    assert (done.given_up, done.offered) == ((name,), ())
    assert ids(server) == [1, 2]
    for number, handle in ((3, table), (4, opened(server))):
        assert handle.append(row(number)).version == number
    assert (ids(server), opened(server).verify().is_sound) == ([1, 2, 3, 4], True)


def test_what_stands_on_a_commit_that_was_not_published_cannot_be_kept_and_is_named(
    server: UnityServer, table: txlog.Table
) -> None:
    contradicted(server, table)
    body = published(table)[f"{2:020}.json"].replace(b'"txnId":"', b'"txnId":"x')
    accept_as_another_engine(server, table, 3, body)
    with pytest.raises(ForkedTableError, match="versions 3 were made on top"):
        opened(server).repair(remove=True)
    assert [each["version"] for each in server.table(NAME)["commits"]][:2] == [3, 2]


def test_a_published_file_that_nobody_offered_is_a_fork(server: UnityServer, table: txlog.Table) -> None:
    (log_of(table) / f"{1:020}.json").write_bytes(b"{}")
    with pytest.raises(ForkedTableError, match="somebody wrote without it"):
        table.append(row(1))
    assert server.table(NAME)["latest"] == 0
    with pytest.raises(ForkedTableError, match="is not offered"):
        opened(server).repair()
    assert server.table(NAME)["latest"] == 0


def test_a_checkpoint_above_what_the_catalog_has_is_not_read(server: UnityServer, table: txlog.Table) -> None:
    table.append(row(1))
    book = server.book()
    table.append(row(2))
    table.create_checkpoint()
    server.go_back(book)
    assert (opened(server).version, ids(server)) == (1, [1])
    with pytest.raises(ForkedTableError):
        opened(server).append(row(3))
    opened(server).repair()
    assert ids(server) == [1, 2]


def test_a_commit_that_is_accepted_and_cannot_be_published_is_unknown_and_is_resolved(
    server: UnityServer, table: txlog.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = txlog.Catalog(server.uri).table(NAME, retry=RetryPolicy(min_wait=0.001, max_wait=0.01, total_timeout=0.3))
    real = LocalLogStore.put_if_absent

    def put(store: LocalLogStore, name: str, body: bytes) -> Any:
        if len(name) == 25:
            raise txlog.StorageError("the disk is full", path=name)
        return real(store, name, body)

    with monkeypatch.context() as patch:
        patch.setattr(LocalLogStore, "put_if_absent", put)
        with pytest.raises(CommitStateUnknownError, match="the disk is full") as raised:
            handle.append(row(1))
    assert handle.resolve(raised.value.txn_id, raised.value.version) is True
    assert (sorted(published(table)), ids(server)) == ([f"{0:020}.json", f"{1:020}.json"], [1])


def test_a_version_that_its_writer_did_not_publish_is_published_before_the_next(
    server: UnityServer, table: txlog.Table
) -> None:
    """So a catalog that forgets it later can be given it back, with what was built on it."""
    table.append(row(1))
    body = published(table)[f"{1:020}.json"]
    info, *more = body.splitlines()
    later = json.loads(info)
    later["commitInfo"]["inCommitTimestamp"] += 1
    accept_as_another_engine(server, table, 2, b"\n".join([json.dumps(later).encode(), *more]) + b"\n")
    assert opened(server).append(row(3)).version == 3
    assert len(published(table)) == 4


def test_a_server_that_is_away_for_a_minute_is_waited_for(
    server: UnityServer, table: txlog.Table, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Sixty attempts fail, at every door: a read, an append, the names."""
    monkeypatch.setattr("txlog.unity.client.PATIENCE", RetryPolicy(total_timeout=60.0))
    left = [0]

    def cut(method: str, path: str, body: object) -> Any:
        left[0] -= 1
        return "before" if left[0] >= 0 else None

    server.switches.cut = cut
    doors: list[Callable[[], object]] = [
        lambda: opened(server),
        lambda: txlog.Catalog(server.uri).tables(),
        lambda: table.to_arrow(),
        lambda: table.append(row(1)),
    ]
    for door in doors:
        left[0] = 60
        door()
        assert left[0] < 0
    assert "does not answer" in caplog.text
    assert ids(server) == [1]


def test_records_that_come_back_with_the_past_leave_room_for_the_next_commit(
    server: UnityServer, table: txlog.Table
) -> None:
    """The server had dropped them, since they were reported as published, and has them again: more than it has room
    for."""
    for number in range(9):
        accept_as_another_engine(server, table, number + 1, with_time(server, table, number))
    writer = opened(server)
    book = server.book()
    writer.append(row(10))
    server.go_back(book)
    server.switches.unpublished_max = 9
    opened(server).repair()
    for number in (11, 12):
        assert writer.append(row(number)).version == number
    assert ids(server)[-3:] == [10, 11, 12]


def with_time(server: UnityServer, table: txlog.Table, number: int) -> bytes:
    """A commit without files, one ms after the one before it."""
    first = json.loads((log_of(table) / f"{0:020}.json").read_bytes().splitlines()[0])["commitInfo"]
    at = first["inCommitTimestamp"] + 1 + number
    info = {"timestamp": at, "inCommitTimestamp": at, "operation": "WRITE", "txnId": str(uuid4())}
    (log_of(table) / "_staged_commits").mkdir(exist_ok=True)
    return json.dumps({"commitInfo": info}).encode() + b"\n"
