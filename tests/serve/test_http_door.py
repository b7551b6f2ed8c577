"""HTTP: what clients and operators send, and what hostile ones do. The app is asked as any ASGI server asks it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pytest

import txlog
from tests.serve.services import create, ids, rows, serving
from txlog.serve import bodies, http
from txlog.serve.access import Access, new_grant
from txlog.serve.http import HttpDoor, Listener
from txlog.serve.service import Limits, Service

LINES = b'{"id": 1, "s": "a"}\n{"id": 2}\n'
JSON = "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"


class Answer(NamedTuple):
    status: int
    said: Any
    headers: dict[str, str]


def ask(
    door: HttpDoor,
    path: str,
    body: bytes | Sequence[bytes] | None = None,
    kind: str = JSON,
    *,
    token: str | None = None,
    headers: dict[str, str] | None = None,
    method: str | None = None,
) -> Answer:
    """One request. A body of several pieces comes without its length, and ends early after an empty piece."""
    path, _, query = path.partition("?")
    pieces = [body or b""] if not isinstance(body, list | tuple) else [*body]
    length = {} if isinstance(body, list | tuple) else {"content-length": str(len(pieces[0]))}
    sent = {"host": "localhost:8816", "content-type": kind, **length, **(headers or {})}
    sent |= {} if token is None else {"authorization": f"Bearer {token}"}
    scope = {
        "type": "http",
        "method": method or ("GET" if body is None else "POST"),
        "path": path,
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in {**sent}.items()],
    }
    got: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        piece = pieces.pop(0)
        if piece is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": piece, "more_body": bool(pieces)}

    async def send(message: dict[str, Any]) -> None:
        got.append(message)

    asyncio.run(door(scope, receive, send))
    text = got[1]["body"]
    found = {name.decode(): value.decode() for name, value in got[0]["headers"]}
    said = json.loads(text) if found["content-type"] == "application/json" else text.decode()
    return Answer(got[0]["status"], said, found)


@contextlib.contextmanager
def door(folder: Path, **how: Any) -> Iterator[tuple[HttpDoor, Service]]:
    with serving(folder, **how) as service:
        yield HttpDoor(service, Access(None)), service


def arrow(batch: pa.RecordBatch, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def test_json_lines_csv_and_arrow_are_the_same_rows(tmp_path: Path) -> None:
    table = create(tmp_path, columns="id bigint, s string, at timestamp, price decimal(9,2)")
    with door(tmp_path) as (http_door, _):
        lines = b'{"id": 1, "s": "a", "at": "2026-11-20T12:00:00+01:00", "price": "1.50"}\n'
        text = b"id,s,at,price\n2,a,2026-11-20T11:00:00Z,1.50\n"
        for body, kind in ((lines, JSON), (text, "text/csv; charset=utf-8"), (arrow(rows(3)), ARROW)):
            answer = ask(http_door, "/tables/events/rows", body, kind)
            assert (answer.status, answer.said["outcome"], answer.said["rows"]) == (200, "committed", 1)
        for text, advice in ((b"id;s\n2;a\n", "use commas"), (b"id\nNULL\n", "null, pass an empty value")):
            assert ask(http_door, "/tables/events/rows", text, "text/csv").said["message"].endswith(advice)
        refused = ask(http_door, "/tables/events/rows", b'{"id": 4, "new": 1}', JSON)
        assert refused.said["message"].endswith("or add it with schema_mode=merge")
    assert ids(table) == [1, 2, 3]
    both = table.to_arrow(where="id < 3").drop_columns(["id"]).to_pylist()
    assert both[0] == both[1]
    assert both[0]["price"] == Decimal("1.50")


def test_a_json_array_or_one_object_are_rows_with_their_digits(tmp_path: Path) -> None:
    table = create(tmp_path, columns="id bigint, s string, price decimal(38,2)")
    digits = "123456789012345678901234567890123456.78"
    array = f'[\n  {{"id": 1, "s": "a,]}}\\n[", "price": {digits}}},\r\n  {{"id": 2}}\n]\n'.encode()
    with door(tmp_path) as (http_door, _):
        for body, count in ((array, 2), (b' {\n"id": 3\n} ', 1), (b"[]", 0), (b'[{"id": 4}]', 1)):
            answer = ask(http_door, "/tables/events/rows", body, "application/json")
            assert (answer.status, answer.said.get("rows", 0)) == (200, count), answer
        for body, told in (
            (b'[{"id": 5},{"id": nope}]', "begins as a JSON array, but is not one"),
            (b'[{"id": 5}, 6]', "row 1"),
            (b'[{"id": 5}, {"id": "x"}]', "row 1"),
        ):
            refused = ask(http_door, "/tables/events/rows", body, "application/json")
            assert (refused.status, told in refused.said["message"]) == (422, True), refused
        many = ask(http_door, "/tables/events/rows", b"[" + b"{}," * 2_000_000 + b"{}]", "application/json")
        assert many.status == 413
        assert "application/x-ndjson" in many.said["message"]
        answer = ask(http_door, "/tables/events/rows?quarantine=bad", b'[{"id": 5}, {"id": "x"}]', "application/json")
        assert (answer.status, answer.said["rows"], answer.said["quarantined"]) == (200, 1, 1)
    assert ids(table) == [1, 2, 3, 4, 5]
    first = table.to_arrow(where="id = 1").to_pylist()[0]
    assert (first["s"], first["price"]) == ("a,]}\n[", Decimal(digits))


@pytest.mark.parametrize("kind", [JSON, "application/json"])
def test_bodies_that_ended_the_process_are_refused(kind: str, tmp_path: Path) -> None:
    table = create(tmp_path)
    bodies = [b"null", b"[null]", b" null{}", b'{"id": 1}\r\n\tnull\n', b"[" * 9_000, b'[{"id":' + b"[" * 9_000]
    with door(tmp_path) as (http_door, _):
        for body in bodies:
            refused = ask(http_door, "/tables/events/rows", body, kind)
            assert refused.status == 422, body[:20]
            assert ("is null, not a JSON object" in refused.said["message"]) == (b"null" in body)
        aside = ask(http_door, "/tables/events/rows?quarantine=bad", b'null\n{"id": 1}\n', kind)
        assert (aside.said["rows"], aside.said["quarantined"]) == (1, 1)
    assert ids(table) == [1]


def test_a_stream_is_numbered_and_asked_for(tmp_path: Path) -> None:
    table = create(tmp_path)
    with door(tmp_path, journal=tmp_path / "journal") as (http_door, _):
        path = "/tables/events/rows?stream=till%207&batch="
        assert ask(http_door, f"{path}0", LINES).said == {"batch": 0, "outcome": "committed", "version": 1, "rows": 2}
        assert ask(http_door, f"{path}0", LINES).said["outcome"] == "already_committed"
        late = ask(http_door, f"{path}2", LINES)
        assert (late.status, late.said["kind"], late.said["expected"]) == (409, "StreamOrderError", 1)
        durable = ask(http_door, f"{path}1&answer=durable", LINES)
        assert (durable.status, durable.said["outcome"]) == (202, "durable")
        assert ask(http_door, "/tables/events/streams/till%207").said == {"committed": 0, "taken": 1}
    assert ids(table) == [1, 1, 2, 2]


def test_bad_lines_are_refused_with_their_number_or_set_aside(tmp_path: Path) -> None:
    table = create(tmp_path)
    body = b'{"id": 1}\n{"id": "x"}\n\n[1]\nnonsense\n{"id": 9223372036854775808}\n{"id": 2}\n'
    with door(tmp_path) as (http_door, _):
        refused = ask(http_door, "/tables/events/rows", b'{"id": 1}\n{"id": "x"}\n')
        assert refused.status == 422
        assert "id" in refused.said["message"]
        assert "row 1" in refused.said["message"]
        answer = ask(http_door, "/tables/events/rows?quarantine=bad&stream=x&batch=0", body)
        assert (answer.status, answer.said["rows"], answer.said["quarantined"]) == (200, 2, 4)
    assert ids(table) == [1, 2]
    bad = txlog.Catalog(tmp_path).table("bad").to_arrow(columns=["row", "content"]).to_pylist()
    assert {each["row"]: each["content"] for each in bad} == {
        1: '{"id": "x"}',
        3: "[1]",
        4: "nonsense",
        5: '{"id": 9223372036854775808}',
    }


def test_changes_come_by_http_too(tmp_path: Path) -> None:
    table = create(tmp_path)
    path = "/tables/events/rows?mode=upsert&keys=id&row_kind=op"
    with door(tmp_path) as (http_door, _):
        ask(http_door, path, b'{"op": "c", "id": 1, "s": "a"}\n{"op": "c", "id": 2, "s": "b"}\n')
        assert ask(http_door, path, b'{"op": "d", "id": 1, "s": null}\n{"op": "u", "id": 2, "s": "c"}').status == 200
    assert table.to_arrow().to_pylist() == [{"id": 2, "s": "c"}]


def test_a_row_that_replaces_another_has_all_columns_and_one_that_deletes_its_key(tmp_path: Path) -> None:
    table = create(tmp_path, columns="id bigint, s string, p struct<a: int, b: int>")
    path = "/tables/events/rows?mode=upsert&keys=id&row_kind=op"
    whole = b'{"op": "u", "id": 1, "s": null, "p": {"a": 1, "b": 1}}\n{"op": "u", "id": 2, "s": "b", "p": null}\n'
    with door(tmp_path) as (http_door, _):
        assert ask(http_door, path, whole).status == 200
        for line, lacks in {
            b'{"op": "u", "id": 1, "p": null}': "s",
            b'{"op": "u", "id": 1, "s": "", "p": {}}': "p.a",
        }.items():
            refused = ask(http_door, path, b'{"op": "d", "id": 2}\n' + line)
            assert (refused.status, f"line 2 lacks '{lacks}'" in refused.said["message"]) == (422, True)
        assert ask(http_door, path, b'{"op": "d", "id": 2}\n').status == 200
    assert table.to_arrow().to_pylist() == [{"id": 1, "s": None, "p": {"a": 1, "b": 1}}]


def test_a_batch_that_is_refused_adds_no_column(tmp_path: Path) -> None:
    table = create(tmp_path, columns="id bigint not null, s string")
    path = "/tables/events/rows?schema_mode=merge"
    with door(tmp_path) as (http_door, _):
        assert ask(http_door, path, b'{"id": 1, "more": 1}\n{"id": null, "more": 2}\n').status == 422
        assert table.schema.names == ["id", "s"]
        changes = f"{path}&mode=upsert&keys=id&row_kind=op"
        assert ask(http_door, changes, b'{"op": "u", "id": null, "s": "", "more": 1}').status == 422
        assert table.schema.names == ["id", "s"]
        assert ask(http_door, path, b'{"id": 1, "more": 1}').status == 200
    assert table.to_arrow().to_pylist() == [{"id": 1, "s": None, "more": 1}]


def test_a_word_that_is_none_of_its_parameter_is_refused_with_those_that_are(tmp_path: Path) -> None:
    create(tmp_path)
    with door(tmp_path) as (http_door, _):
        refused = ask(http_door, "/tables/events/rows?mode=upsrt", LINES)
        assert refused.said["message"] == "Invalid mode 'upsrt': expected 'append' or 'upsert'"


def test_operators_see_health_and_numbers_and_the_table(tmp_path: Path) -> None:
    create(tmp_path)
    with door(tmp_path, journal=tmp_path / "journal") as (http_door, service):
        ask(http_door, "/tables/events/rows", LINES)
        ask(http_door, "/tables/events/rows?answer=durable", LINES)
        health = ask(http_door, "/health")
        assert (health.status, health.said["status"]) == (200, "ok")
        assert health.said["tables"]["events"]["waiting_batches"] == 1
        text = ask(http_door, "/metrics").said
        assert 'txlog_serve_rows_total{table="events"} 2\n' in text
        assert 'txlog_serve_batches_total{table="events",outcome="committed"} 1\n' in text
        assert ask(http_door, "/tables/events").said["columns"] == {"id": "int64", "s": "string"}
        service.close()
        assert ask(http_door, "/health").status == 503
        stopped = ask(http_door, "/tables/events/rows", LINES)
        assert (stopped.status, stopped.headers["retry-after"]) == (503, "1")


@pytest.mark.parametrize(
    ("path", "body", "kind", "status"),
    [
        ("/tables/events/rows", b"", "text/plain", 415),
        ("/tables/events/rows", b"", "application/x-www-form-urlencoded", 415),
        ("/tables/events/rows", b"no arrow", ARROW, 422),
        ("/tables/events/rows", b"\xff\xff\xff\xff\xff\xff\xff\x7f" + b"\0" * 64, ARROW, 422),
        ("/tables/events/rows", arrow(rows(1))[:-60], ARROW, 422),
        ("/tables/events/rows", arrow(rows(*range(1000)), compression="zstd"), ARROW, 422),
        ("/tables/events/rows", b'{"id": 1', JSON, 422),
        ("/tables/events/rows", b'{"s": "\xff"}', JSON, 422),
        ("/tables/events/rows", b'{"id":' * 10_000, JSON, 422),
        ("/tables/events/rows", b"id\nx", "text/csv", 422),
        ("/tables/events/rows?batch=1", LINES, JSON, 422),
        ("/tables/events/rows?stream=x&batch=one", LINES, JSON, 422),
        (f"/tables/events/rows?stream=x&batch={'1' * 5000}", LINES, JSON, 422),
        ("/tables/events/rows?what", LINES, JSON, 422),
        ("/tables/nothing/rows", LINES, JSON, 404),
        ("/tables/..%2f..%2fetc/rows", LINES, JSON, 422),
        ("/tables//rows", LINES, JSON, 422),
        ("/tables/events@x%2f..%2f..%2f..%2fsecret/rows", LINES, JSON, 404),
        ("/tables/events@/rows", LINES, JSON, 404),
        ("/tables/events@b/rows", LINES, JSON, 404),
        ("/elsewhere", LINES, JSON, 404),
        ("/health", LINES, JSON, 405),
    ],
)
def test_a_request_that_cannot_be_taken_is_answered_and_changes_nothing(
    tmp_path: Path, path: str, body: bytes, kind: str, status: int
) -> None:
    table = create(tmp_path)
    with door(tmp_path) as (http_door, service):
        answer = ask(http_door, path, body, kind)
        assert answer.status == status, answer.said
        assert set(answer.said) == {"kind", "message"}
        assert str(tmp_path) not in answer.said["message"]
        assert service.room.used_bytes == 0
        assert ask(http_door, "/tables/events/rows", LINES).status == 200
    assert table.snapshot().version == 1


@pytest.mark.parametrize(
    ("path", "kind", "hint"),
    [
        ("/", JSON, "POST /tables/NAME/rows"),
        ("/tables/events", JSON, "POST is not for this path: there are POST /tables/NAME/rows"),
        ("/tables/events/rows", "application/x-www-form-urlencoded", "set the header Content-Type to one of "),
    ],
)
def test_a_request_to_the_wrong_place_is_told_the_right_one(tmp_path: Path, path: str, kind: str, hint: str) -> None:
    create(tmp_path)
    with door(tmp_path) as (http_door, _):
        assert hint in ask(http_door, path, LINES, kind).said["message"]


def test_every_cut_and_many_flips_of_an_arrow_stream_are_refused_or_rows(tmp_path: Path) -> None:
    create(tmp_path)
    whole = arrow(rows(1, 2, 3))
    with door(tmp_path) as (http_door, service):
        bodies = [whole[:size] for size in range(0, len(whole), 16)]
        bodies += [whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :] for at in range(0, len(whole), 8)]
        answers = {ask(http_door, "/tables/events/rows", body, ARROW).status for body in bodies}
        assert answers <= {200, 422}
        assert service.room.used_bytes == 0
        assert service.health()["status"] == "ok"


def test_a_body_is_bounded_whether_or_not_it_tells_its_length(tmp_path: Path) -> None:
    table = create(tmp_path)
    with door(tmp_path, limits=Limits(batch_bytes=1000)) as (http_door, service):
        assert ask(http_door, "/tables/events/rows", b" " * 2000).status == 413
        assert ask(http_door, "/tables/events/rows", [b" " * 600, b" " * 600, b" " * 600]).status == 413
        assert ask(http_door, "/tables/events/rows", b"", headers={"content-length": "99999999999"}).status == 413
        assert service.room.used_bytes == 0
    assert table.snapshot().version == 0


def test_a_client_that_goes_away_in_its_body_leaves_nothing(tmp_path: Path) -> None:
    table = create(tmp_path)
    with door(tmp_path) as (http_door, service):
        ask(http_door, "/tables/events/rows", [LINES, None])  # type: ignore[list-item]
        assert service.room.used_bytes == 0
    assert table.snapshot().version == 0


def test_lines_that_are_no_rows_are_looked_at_one_by_one_only_if_they_are_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "LINES_MAX", 3)
    table = create(tmp_path)
    create(tmp_path, "bad", "reason string")
    with door(tmp_path) as (http_door, service):
        answer = ask(http_door, "/tables/events/rows?quarantine=bad", b"1\n" * 4)
        assert (answer.status, "4 lines" in answer.said["message"]) == (422, True)
        assert service.room.used_bytes == 0
    assert table.snapshot().version == 0


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"".join(b'{"k%d" : 1}\n' % number for number in range(5000)), JSON),
        (b"".join(b'{"k\\u00%02x%d": 1}\n' % (48 + number % 10, number) for number in range(5000)), JSON),
        (b"{" + b",".join(b'"k%d":1' % number for number in range(10_001)) + b"}", JSON),
        (b",".join(b"k%d" % number for number in range(10_001)) + b"\n", "text/csv"),
        (arrow(pa.RecordBatch.from_arrays([pa.array([1])] * 10_001, [f"k{n}" for n in range(10_001)])), ARROW),
    ],
    ids=["a name a line", "escaped names", "one line", "a head", "Arrow"],
)
def test_few_bytes_that_stand_for_very_many_values_are_refused(tmp_path: Path, body: bytes, kind: str) -> None:
    """5,000 lines of ten bytes would become 25,000,000 values, and each column takes kilobytes."""
    table = create(tmp_path)
    with door(tmp_path) as (http_door, service):
        assert ask(http_door, "/tables/events/rows", body, kind).status == 413
        assert service.room.used_bytes == 0
        lines = b"".join(b'{"id": %d, "s": "a: \\"b\\": %d"}\n' % (number, number) for number in range(5000))
        assert ask(http_door, "/tables/events/rows", lines).said["rows"] == 5000
    assert table.snapshot().version == 1


def test_a_name_that_is_no_text_is_refused(tmp_path: Path) -> None:
    create(tmp_path)
    body = arrow(rows(1)).replace(b"\x02\x00\x00\x00id\x00", b"\x02\x00\x00\x00\xc5\xff\x00")
    with door(tmp_path) as (http_door, _):
        assert ask(http_door, "/tables/events/rows", body, ARROW).status == 422


def test_a_connection_without_a_whole_head_is_closed_and_keeps_nobody_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "HEAD_WAIT_S", 0.2)
    create(tmp_path)
    with door(tmp_path) as (http_door, _):
        listener = Listener(http_door, "127.0.0.1", 0, connections=3)

        def connected(said: bytes) -> socket.socket:
            client = socket.create_connection(("127.0.0.1", listener.port), 10)
            client.sendall(said)
            return client

        whole = b"GET /health HTTP/1.1\r\nHost: localhost:1\r\n"
        idle = [connected(b""), connected(whole), connected(whole + b"\r\nGET /hea")]
        try:
            for client in idle:
                while client.recv(1000):  # until the service closes it
                    pass
            with connected(whole + b"Connection: close\r\n\r\n") as client:
                assert client.recv(1000).startswith(b"HTTP/1.1 200")
        finally:
            for client in idle:
                client.close()
            listener.close()


def test_a_page_of_another_site_cannot_use_a_service_without_tokens(tmp_path: Path) -> None:
    create(tmp_path)
    with door(tmp_path) as (http_door, _):
        assert ask(http_door, "/tables/events/rows", LINES, headers={"host": "evil.example:8816"}).status == 421
        assert ask(http_door, "/health", headers={"host": "[::1]:8816"}).status == 200


def test_rights_are_by_token_and_table_and_errors_do_not_tell_tokens(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    create(tmp_path, "sales.orders")
    create(tmp_path)
    grants = tmp_path / "tokens"
    token, grant = new_grant("till", ("sales.*",), ("append",))
    all_token, all_grant = new_grant("operator", ("*",), ("append", "change", "read"))
    grants.write_bytes(b"\n".join(map(msgspec.json.encode, (grant, all_grant))))
    assert token not in grants.read_text()
    with serving(tmp_path) as service:
        http_door = HttpDoor(service, Access(grants), None)

        def status(path: str, token: str | None, body: bytes | None = LINES) -> int:
            answer = ask(http_door, path, body, token=token)
            assert token is None or token not in f"{answer.said}{caplog.text}"
            return answer.status

        assert status("/tables/sales.orders/rows", token) == 200
        assert status("/tables/events/rows", token) == 403
        assert status("/tables/sales.orders/rows?mode=upsert&keys=id", token) == 403
        assert status("/tables/sales.orders/rows?schema_mode=merge", token) == 403
        assert status("/tables/sales.orders/rows?quarantine=events", token) == 403
        assert status("/tables/sales.orders", token, None) == 403
        assert status("/metrics", token, None) == 403
        assert status("/tables/sales.orders/rows", "guessed") == 401
        assert status("/tables/sales.orders/rows", None) == 401
        assert status("/tables/sales.orders/streams/x", token, None) == 200
        assert status("/tables/sales.orders/rows?schema_mode=merge", all_token) == 200
        assert status("/metrics", all_token, None) == 200
        assert ask(http_door, "/health").said == {"status": "ok"}
        assert "sales.orders" in ask(http_door, "/health", token=all_token).said["tables"]


def test_an_unexpected_failure_is_for_the_log_and_not_for_the_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    create(tmp_path)

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("inner workings")

    with door(tmp_path) as (http_door, _):
        monkeypatch.setattr(http, "rows_in", fail)
        answer = ask(http_door, "/tables/events/rows", LINES)
    assert (answer.status, answer.said["kind"]) == (500, "InternalError")
    assert "inner workings" not in str(answer.said)
    assert "inner workings" in caplog.text
