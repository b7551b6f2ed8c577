"""Debezium's events by HTTP: upserts, deletes, truncates and new columns, each batch once. deltalake reads them."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import msgspec
import pytest

import txlog
from tests.mirror.envelopes import EVERY_TYPE, HEARTBEAT, MESSAGE, ORDERS, TRUNCATE, UNAVAILABLE, event
from tests.serve.services import create, serving
from tests.serve.test_http_door import ask, door
from txlog.serve.access import Access, new_grant
from txlog.serve.http import HttpDoor

FIELDS = ORDERS[:2]
COLUMNS = "id int, name string"
PATH = "/tables/events/rows?envelope=debezium&keys=id"
KIND = "application/json"


def body(*events: bytes) -> bytes:
    return b"\n".join(events)


def order(op: str, number: int | str, name: str | None = None, **more: Any) -> bytes:
    row = {"id": number, "name": name}
    return event(op, None if op == "d" else row, row if op == "d" else None, **{"fields": FIELDS, **more})


def found(table: txlog.Table) -> list[tuple[Any, ...]]:
    rows = deltalake.DeltaTable(table.uri).to_pyarrow_table().to_pylist()
    return sorted(tuple(row.values()) for row in rows)


def test_events_insert_update_and_delete_in_their_order_and_tombstones_change_nothing(tmp_path: Path) -> None:
    table = create(tmp_path, columns=COLUMNS)
    with door(tmp_path) as (http_door, _):
        first = body(order("r", 1, "a"), order("c", 2, "b"), order("u", 1, "c"), b"", HEARTBEAT, MESSAGE)
        assert ask(http_door, PATH, first).said == {"outcome": "committed", "version": 1, "rows": 3}
        assert ask(http_door, PATH, body(order("d", 2), b"null")).status == 200
        array = b"[" + order("c", 3, "x") + b"," + order("d", 3) + b"," + order("c", 4, "d") + b"]"
        assert ask(http_door, PATH, array, KIND).status == 200
        pretty = json.dumps(json.loads(order("u", 4, "e")), indent=2).encode()
        assert ask(http_door, PATH, pretty, KIND).status == 200
        version = table.snapshot().version
        assert ask(http_door, PATH, HEARTBEAT).said == {"outcome": "committed"}
    assert found(table) == [(1, "c"), (4, "e")]
    assert table.snapshot().version == version


def test_a_numbered_batch_of_events_lands_once_also_after_a_crash_and_if_it_changes_nothing(tmp_path: Path) -> None:
    table = create(tmp_path, columns=COLUMNS)
    numbered = f"{PATH}&stream=shop&batch="
    with door(tmp_path, journal=tmp_path / "journal") as (http_door, _):
        assert ask(http_door, f"{numbered}0", order("c", 1, "a")).said["outcome"] == "committed"
        assert ask(http_door, f"{numbered}0", order("c", 1, "a")).said["outcome"] == "already_committed"
        assert ask(http_door, f"{numbered}1", b"").said["batch"] == 1
        assert ask(http_door, f"{numbered}3", order("d", 1)).status == 409
        assert ask(http_door, f"{numbered}2&answer=durable", body(TRUNCATE, order("c", 2, "b"))).status == 202
        assert ask(http_door, f"{numbered}3&answer=durable", order("u", 2, "c")).status == 202
    with door(tmp_path, journal=tmp_path / "journal") as (http_door, _):
        assert ask(http_door, f"{numbered}2", order("c", 7, "x")).said["outcome"] == "already_committed"
        assert ask(http_door, f"{numbered}4", order("c", 3, "d")).status == 200
    assert found(table) == [(2, "c"), (3, "d")]
    assert table.snapshot().transaction_version("serve/shop") == 4


def test_a_truncate_empties_the_table_and_lands_alone(tmp_path: Path) -> None:
    table = create(tmp_path, columns=COLUMNS)
    with door(tmp_path, journal=tmp_path / "journal") as (http_door, service):
        ask(http_door, PATH, body(order("c", 1, "a"), order("c", 2, "b")))
        assert ask(http_door, PATH.replace("&keys=id", ""), TRUNCATE).said["version"] == 2  # its message has no key
        assert found(table) == []
        for events in ((order("c", 3, "c"), TRUNCATE, order("c", 4, "d")), (TRUNCATE, order("c", 5, "e")), (TRUNCATE,)):
            ask(http_door, f"{PATH}&answer=durable", body(*events))
        ask(http_door, f"{PATH}&answer=durable", order("c", 6, "f"))
        service.close()
    assert found(table) == [(6, "f")]


def test_new_columns_come_with_their_default_if_the_client_wishes_and_gone_ones_are_null(tmp_path: Path) -> None:
    table = create(tmp_path, columns=COLUMNS)
    more = ({"field": "country", "type": "string", "default": "NO"}, {"field": "n", "type": "int64"})
    row = {"id": 2, "name": "b", "country": "SE", "n": 5}
    with door(tmp_path) as (http_door, _):
        ask(http_door, PATH, order("c", 1, "a"))
        wider = body(order("c", 3, "before"), event("c", row, fields=(*FIELDS, *more)))
        refused = ask(http_door, PATH, wider)
        assert (refused.status, refused.said["kind"]) == (422, "SchemaMismatchError")
        assert ask(http_door, f"{PATH}&schema_mode=merge", wider).status == 200
        assert ask(http_door, PATH, event("u", {"id": 2, "country": "DK"}, fields=(FIELDS[0], more[0]))).status == 200
        renamed = (FIELDS[0], FIELDS[1], more[1], {"field": "land", "type": "string"})
        refused = ask(http_door, f"{PATH}&schema_mode=merge", event("c", {"id": 9, "land": "SE"}, fields=renamed))
        assert (
            "new columns land, and lacks country: the events do not say whether these were renamed"
            in refused.said["message"]
        )
        both = body(order("c", 8, "x"), event("c", {"id": 9}, fields=(FIELDS[0], renamed[3])))
        assert "whether these were renamed" in ask(http_door, f"{PATH}&schema_mode=merge", both).said["message"]
        retyped = event("c", {"id": 9, "country": 5}, fields=(FIELDS[0], {"field": "country", "type": "int64"}))
        assert ask(http_door, f"{PATH}&schema_mode=merge", retyped).said["kind"] == "SchemaMismatchError"
    assert found(table) == [(1, "a", "NO", None), (2, None, "DK", None), (3, "before", "NO", None)]


def test_each_type_that_debezium_writes_is_the_value_and_events_without_a_schema_take_the_tables(
    tmp_path: Path,
) -> None:
    row = {field["field"]: value for field, value, _ in EVERY_TYPE}
    fields = tuple(field for field, _, _ in EVERY_TYPE)
    create(tmp_path, "first", columns="id int")
    bare = create(tmp_path, "bare", columns="id int, name string, ok boolean, twice int generated always as (id * 2)")
    exact = create(tmp_path, "exact", columns="id int, amount decimal(30,2)")
    with door(tmp_path) as (http_door, _):
        path = "/tables/first/rows?envelope=debezium&keys=id&schema_mode=merge"
        assert ask(http_door, path, event("c", row, fields=fields, table="first")).status == 200
        path = "/tables/bare/rows?envelope=debezium&keys=id"
        assert ask(http_door, path, event("c", {"id": 1, "name": "a", "ok": True}, fields=None)).status == 200
        avro = json.loads(event("u", fields=None))
        avro["after"] = {"public.orders.Value": {"id": 1, "name": {"string": "b"}}}
        assert ask(http_door, path, json.dumps(avro).encode()).status == 200
        digits = event("c", {"id": 1, "amount": "digits"}, fields=None).replace(b'"digits"', b"12345678901234567890.12")
        assert ask(http_door, "/tables/exact/rows?envelope=debezium&keys=id", digits).status == 200
        unknown = ask(http_door, f"{path}&schema_mode=merge", event("c", {"id": 1, "more": 1}, fields=None))
        assert "let the converter write schemas" in unknown.said["message"]
    expected = {field["field"]: value for field, _, value in EVERY_TYPE}
    assert txlog.Catalog(tmp_path).table("first").to_arrow().to_pylist() == [expected]
    assert bare.to_arrow().to_pylist() == [{"id": 1, "name": "b", "ok": None, "twice": 2}]
    assert exact.to_arrow().to_pylist() == [{"id": 1, "amount": Decimal("12345678901234567890.12")}]


def test_events_of_all_tables_go_to_the_tables_that_they_name_with_the_keys_of_their_messages(tmp_path: Path) -> None:
    orders, lines = (create(tmp_path, f"public.{name}", columns=COLUMNS) for name in ("orders", "lines"))
    grants = tmp_path / "tokens"
    made = {name: new_grant(name, (tables,), ("change",)) for name, tables in (("all", "*"), ("one", "public.orders"))}
    grants.write_bytes(b"\n".join(msgspec.json.encode(grant) for _, grant in made.values()))

    def message(value: bytes) -> dict[str, Any]:
        return {
            "topic": "x",
            "partition": 0,
            "offset": 1,
            "key": '{"payload": {"id": 1}, "schema": {}}',
            "payload": value.decode(),
        }

    sent = json.dumps([message(order("c", 1, "a")), message(order("c", 2, "b", table="lines"))]).encode()
    with serving(tmp_path) as service:
        http_door = HttpDoor(service, Access(grants), None)
        assert ask(http_door, "/rows?envelope=debezium", sent).status == 401
        assert ask(http_door, "/rows?envelope=debezium", sent, token=made["one"][0]).status == 403
        assert found(orders) == []
        assert ask(http_door, "/rows?envelope=debezium", sent, token=made["all"][0]).said == {
            "outcome": "committed",
            "rows": 2,
        }
        numbered = ask(http_door, "/rows?envelope=debezium&stream=x&batch=0", sent, token=made["all"][0])
        assert "send the events of each to /tables/NAME/rows" in numbered.said["message"]
        assert ask(http_door, "/rows", sent, token=made["all"][0]).status == 422
    assert (found(orders), found(lines)) == ([(1, "a")], [(2, "b")])


@pytest.mark.parametrize(
    ("more", "sent", "said"),
    [
        ("", b'{"id": 1}', "message 1: this is not a Debezium event"),
        ("", body(order("c", 1, "a"), b"nonsense"), "message 2: this is not JSON"),
        ("", body(b"", order("c", 1), order("c", "x")), "message 3: the column id: int32 'x' is not a value of int32"),
        (
            "",
            body(order("c", 1), order("c", 2, table="lines")),
            "the events are of several tables, public.orders, publ",
        ),
        ("", body(order("c", 1), order("u", 1, UNAVAILABLE)), "__debezium_unavailable_value"),
        ("&mode=append", order("c", 1), "mode is not for envelope=debezium"),
        ("&quarantine=bad", order("c", 1), "quarantine is not for envelope=debezium"),
        ("&schema_mode=loose", order("c", 1), "schema_mode"),
    ],
)
def test_events_that_cannot_be_applied_are_refused_with_the_reason_and_nothing_lands(
    tmp_path: Path, more: str, sent: bytes, said: str
) -> None:
    table = create(tmp_path, columns=COLUMNS)
    with door(tmp_path) as (http_door, service):
        answer = ask(http_door, f"{PATH}{more}", sent)
        assert answer.status == 422, answer.said
        assert said in answer.said["message"]
        assert service.room.used_bytes == 0
        assert ask(http_door, PATH, b"id\n1", "text/csv").status == 415
        unkeyed = ask(http_door, "/tables/events/rows?envelope=debezium", order("c", 1))
        assert "pass keys=id" in unkeyed.said["message"]
        unknown = ask(http_door, "/tables/events/rows?envelope=maxwell&keys=id", order("c", 1))
        assert "maxwell" in unknown.said["message"]
    assert found(table) == []
