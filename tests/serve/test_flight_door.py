"""Arrow Flight: real clients of pyarrow, over a real connection on loopback."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.flight as fl
import pytest

import txlog
from tests.serve.services import create, ids, rows, serving
from txlog.serve.access import Access, new_grant
from txlog.serve.doors import Doors
from txlog.serve.service import Limits, Service


@contextlib.contextmanager
def door(folder: Path, access: Access | None = None, **how: Any) -> Iterator[tuple[Any, Service]]:
    with serving(folder, **how) as service:
        doors = Doors(service, access or Access(None), "127.0.0.1", {"flight": 0})
        with fl.connect(doors.addresses[0]) as client:
            yield client, service
        doors.close()
        assert doors._closing is not None
        doors._closing.join()


class Put:
    """A call of `do_put` that waits for each answer."""

    def __init__(self, client: Any, terms: dict[str, Any] | str, options: Any = None) -> None:
        of_path = isinstance(terms, str)
        where = fl.FlightDescriptor.for_path(terms) if of_path else fl.FlightDescriptor.for_command(json.dumps(terms))
        self._writer, self._reader = client.do_put(where, rows(1).schema, options)

    def write(self, batch: pa.RecordBatch, number: int | None = None) -> None:
        if number is None:
            self._writer.write_batch(batch)
        else:
            self._writer.write_with_metadata(batch, json.dumps({"batch": number}).encode())

    def answer(self) -> dict[str, Any]:
        said = self._reader.read()
        if said is None:  # the call has ended: its error comes with the end of the client's side
            self.close()
        return dict(json.loads(said.to_pybytes()))

    def send(self, batch: pa.RecordBatch, number: int | None = None) -> dict[str, Any]:
        self.write(batch, number)
        return self.answer()

    def close(self) -> None:
        self._writer.close()


def test_each_batch_is_in_the_table_when_its_answer_comes(tmp_path: Path) -> None:
    table = create(tmp_path)
    with door(tmp_path) as (client, _):
        put = Put(client, "events")
        assert put.send(rows(1)) == {"outcome": "committed", "version": 1, "rows": 1}
        assert ids(table) == [1]
        assert put.send(rows(2, 3))["version"] == 2
        put.close()
    assert ids(table) == [1, 2, 3]


def test_batches_that_are_sent_without_a_wait_are_answered_in_their_order(tmp_path: Path) -> None:
    table = create(tmp_path)
    with door(tmp_path) as (client, _):
        put = Put(client, {"table": "events", "stream": "x", "first": 0})
        for number in range(40):
            put.write(rows(number))
        assert [put.answer()["batch"] for _ in range(40)] == [*range(40)]
        put.close()
    assert ids(table) == [*range(40)]
    assert table.snapshot().transaction_version("serve/x") == 39


def test_a_token_that_is_taken_back_ends_what_its_client_has_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("txlog.serve.access.LOOK_EVERY_S", 0)
    table = create(tmp_path)
    token, grant = new_grant("till", ("*",), ("append",))
    grants = tmp_path / "tokens"
    grants.write_bytes(msgspec.json.encode(grant))
    with door(tmp_path, Access(grants)) as (client, _):
        options = fl.FlightCallOptions(headers=[(b"authorization", f"Bearer {token}".encode())])
        put = Put(client, "events", options)
        assert put.send(rows(1))["outcome"] == "committed"
        grants.write_bytes(b"\n")
        assert put.send(rows(2))["error"]["kind"] == "AccessError"
        with pytest.raises(fl.FlightUnauthenticatedError):
            put.close()
    assert ids(table) == [1]


def test_a_refused_batch_is_told_by_its_answer_and_at_the_end(tmp_path: Path) -> None:
    table = create(tmp_path)
    with door(tmp_path) as (client, _):
        put = Put(client, {"table": "events", "stream": "x"})
        assert put.send(rows(0), 0)["outcome"] == "committed"
        refused = put.send(rows(2), 2)
        assert (refused["batch"], refused["error"]["kind"], refused["error"]["expected"]) == (2, "StreamOrderError", 1)
        assert put.send(rows(1), 1)["outcome"] == "committed"
        with pytest.raises(fl.FlightServerError, match="batch 2 of stream 'x' came"):
            put.close()
    assert ids(table) == [0, 1]


def test_a_client_that_reads_no_answer_is_told_of_a_refusal_at_the_end(tmp_path: Path) -> None:
    create(tmp_path)
    with door(tmp_path) as (client, _):
        writer, _reader = client.do_put(fl.FlightDescriptor.for_path("events"), pa.schema([("nonsense", pa.int64())]))
        writer.write_batch(pa.record_batch({"nonsense": [1]}))
        writer.write_batch(pa.record_batch({"nonsense": [2]}))
        with pytest.raises(fl.FlightServerError, match="2 batches were refused"):
            writer.close()


def test_a_client_asks_where_its_stream_stands_and_what_columns_there_are(tmp_path: Path) -> None:
    create(tmp_path)
    with door(tmp_path, journal=tmp_path / "journal") as (client, _):
        Put(client, {"table": "events", "stream": "x"}).send(rows(0), 0)
        Put(client, {"table": "events", "stream": "x", "answer": "durable"}).send(rows(1), 1)
        asked = fl.Action("position", json.dumps({"table": "events", "stream": "x"}).encode())
        assert json.loads(next(iter(client.do_action(asked))).body.to_pybytes()) == {"committed": 0, "taken": 1}
        assert client.get_schema(fl.FlightDescriptor.for_path("events")).schema.names == ["id", "s"]
        info = client.get_flight_info(fl.FlightDescriptor.for_path("events"))
        assert client.do_get(info.endpoints[0].ticket).read_all().num_rows == 1
        asked = {"table": "events", "columns": ["s"], "where": "id = 0"}
        assert client.do_get(fl.Ticket(json.dumps(asked).encode())).read_all().to_pylist() == [{"s": "s0"}]
        assert {each.type for each in client.list_actions()} == {"position", "health"}


def test_rights_are_by_token_and_table(tmp_path: Path) -> None:
    create(tmp_path)
    create(tmp_path, "other")
    token, grant = new_grant("till", ("events",), ("append",))
    (tmp_path / "tokens").write_bytes(msgspec.json.encode(grant))
    with door(tmp_path, Access(tmp_path / "tokens")) as (client, _):
        options = fl.FlightCallOptions(headers=[(b"authorization", f"Bearer {token}".encode())])
        assert Put(client, "events", options).send(rows(1))["outcome"] == "committed"
        for terms in ("other", {"table": "events", "mode": "upsert", "keys": "id"}):
            with pytest.raises(fl.FlightUnauthorizedError, match="does not give the right"):
                Put(client, terms, options).send(rows(1))
        for asked in ("events", "other"):
            with pytest.raises(fl.FlightUnauthorizedError):
                client.do_get(fl.Ticket(asked.encode()), options).read_all()
        with pytest.raises(fl.FlightUnauthenticatedError, match="needs a token"):
            Put(client, "events").send(rows(1))
        wrong = fl.FlightCallOptions(headers=[(b"authorization", b"Bearer guessed")])
        with pytest.raises(fl.FlightUnauthenticatedError, match="does not know this token") as refused:
            list(client.do_action(fl.Action("health", b""), wrong))
        assert "guessed" not in str(refused.value)


@pytest.mark.parametrize(
    ("terms", "problem"),
    [
        ({"table": "nothing"}, "no table 'nothing': a name without a schema is of the schema default, default.nothing"),
        ({"table": "events", "mode": "upsert"}, "needs keys"),
        ({"stream": "x"}, "table"),
        ({"table": "events", "colour": "red"}, "unknown 'colour'"),
        ({"table": ["events"]}, "wrong"),
        ({"table": "events", "stream": "x", "first": "0"}, "first is the number"),
    ],
)
def test_terms_that_make_no_sense_are_refused(tmp_path: Path, terms: dict[str, Any], problem: str) -> None:
    create(tmp_path)
    with door(tmp_path) as (client, _), pytest.raises(fl.FlightServerError, match=problem):
        Put(client, terms).send(rows(1))


def test_more_clients_than_the_service_may_have_are_told_to_come_back(tmp_path: Path) -> None:
    create(tmp_path)
    with door(tmp_path, limits=Limits(connections=1)) as (client, _):
        put = Put(client, "events")
        put.send(rows(1))
        with pytest.raises(fl.FlightUnavailableError, match="come back later"):
            Put(client, "events").send(rows(1))
        put.close()
        assert Put(client, "events").send(rows(2))["outcome"] == "committed"


def test_a_catalog_s_tables_are_reached_by_their_full_names(tmp_path: Path) -> None:
    create(tmp_path, "sales.orders")
    with door(tmp_path) as (client, _):
        writer, reader = client.do_put(fl.FlightDescriptor.for_path("sales", "orders"), rows(1).schema)
        writer.write_batch(rows(1))
        reader.read()
        writer.close()
    assert txlog.Catalog(tmp_path).table("sales.orders").snapshot().count() == 1


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 100,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\xff\xff\x01\x04\x00\x00\x00\x01" + b"\x00" * 50,
        bytes(range(256)) * 100,
    ],
)
def test_bytes_that_are_no_calls_harm_nobody(tmp_path: Path, garbage: bytes) -> None:
    table = create(tmp_path)
    with serving(tmp_path) as service:
        doors = Doors(service, Access(None), "127.0.0.1", {"flight": 0})
        with socket.create_connection(("127.0.0.1", doors._flight.port), 10) as raw, contextlib.suppress(OSError):
            raw.sendall(garbage)
        with fl.connect(doors.addresses[0]) as client:
            assert Put(client, "events").send(rows(1))["outcome"] == "committed"
        doors.close()
    assert ids(table) == [1]


@pytest.mark.parametrize(
    "metadata", [b"", b"nonsense", b"[]", b'{"batch": "x"}', b'{"batch": -1}', b'{"batch": 1e300}']
)
def test_metadata_that_is_no_number_of_a_batch_is_refused(tmp_path: Path, metadata: bytes) -> None:
    table = create(tmp_path)
    with door(tmp_path) as (client, service):
        writer, answers = client.do_put(
            fl.FlightDescriptor.for_command(b'{"table": "events", "stream": "x"}'), rows(1).schema
        )
        writer.write_with_metadata(rows(1), metadata)
        assert "number" in json.loads(answers.read().to_pybytes())["error"]["message"]
        with pytest.raises(fl.FlightServerError):
            writer.close()
        assert service.room.used_bytes == 0
    assert table.snapshot().version == 0


def test_a_client_that_goes_away_without_an_end_leaves_what_was_answered(tmp_path: Path) -> None:
    table = create(tmp_path)
    with serving(tmp_path) as service:
        doors = Doors(service, Access(None), "127.0.0.1", {"flight": 0})
        client = fl.connect(doors.addresses[0])
        put = Put(client, "events")
        assert put.send(rows(1))["outcome"] == "committed"
        del put
        client.close()
        with fl.connect(doors.addresses[0]) as another:
            assert Put(another, "events").send(rows(2))["outcome"] == "committed"
        doors.close()
    assert ids(table) == [1, 2]
