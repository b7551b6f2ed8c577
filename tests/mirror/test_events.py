"""Tables that follow events of Debezium from lines: each line once, however often they come."""

from __future__ import annotations

import datetime as dt
import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pytest

import txlog
from tests.mirror.envelopes import EVERY_TYPE, HEARTBEAT, MESSAGE, ORDERS, TRUNCATE, UNAVAILABLE, decimal, event
from txlog.errors import CorruptLogError, InvalidInputError, SchemaMismatchError
from txlog.mirror.events import EventMirror

FIRST = {"id": 1, "name": "a", "day": 19_000, "at": 1_700_000_000_123_456, "amount": decimal(-150)}
SECOND = {"id": 2, "name": None, "day": None, "at": None, "amount": None}


def follow(folder: Path, *lines: bytes, name: str = "orders.jsonl", **options: Any) -> None:
    EventMirror(folder, name, **{"keys": ["id"], **options}).follow(io.BytesIO(b"\n".join(lines)))


def rows(folder: Path, table: str = "public.orders") -> list[dict[str, Any]]:
    found = deltalake.DeltaTable(txlog.Catalog(folder).location(table)).to_pyarrow_table().to_pylist()
    return sorted(found, key=lambda row: row["id"])


def test_the_types_and_values_are_those_of_the_schema(tmp_path: Path) -> None:
    follow(tmp_path, event("c", FIRST), event("r", SECOND))
    at = dt.datetime(2023, 11, 14, 22, 13, 20, 123_456)
    expected = {"id": 1, "name": "a", "day": dt.date(2022, 1, 8), "at": at, "amount": Decimal("-1.50")}
    assert rows(tmp_path) == [expected, SECOND]


def test_lines_that_come_again_change_nothing_and_those_that_follow_them_do(tmp_path: Path) -> None:
    lines = [event("c", FIRST), event("u", {**FIRST, "name": "b"}, FIRST), event("c", SECOND)]
    follow(tmp_path, *lines)
    version = txlog.Catalog(tmp_path).table("public.orders").version
    follow(tmp_path, *lines)
    assert txlog.Catalog(tmp_path).table("public.orders").version == version
    follow(tmp_path, *lines, event("d", None, {**FIRST, "name": "b"}), b"null", b"")
    assert [row["id"] for row in rows(tmp_path)] == [2]


def test_a_large_value_that_was_not_sent_stays_also_when_the_key_changes(tmp_path: Path) -> None:
    follow(tmp_path, event("c", FIRST))
    without = {**FIRST, "name": UNAVAILABLE}
    follow(
        tmp_path,
        event("c", FIRST),
        event("u", {**without, "day": 1}),
        event("d", None, {"id": 1, "name": UNAVAILABLE}),
        b"",
        event("c", {**without, "id": 7}),
    )
    assert [(row["id"], row["name"]) for row in rows(tmp_path)] == [(7, "a")]


def test_a_key_that_changes_keeps_its_large_value_though_its_delete_was_committed_alone(tmp_path: Path) -> None:
    """Debezium writes a delete, a tombstone and an insert, between which a pipe may pause."""
    changes = [event("d", None, {"id": 1, "name": None}), b"null", event("c", {**FIRST, "id": 7, "name": UNAVAILABLE})]
    for count in range(4):
        follow(tmp_path, event("c", FIRST), *changes[:count])
    assert [(row["id"], row["name"]) for row in rows(tmp_path)] == [(7, "a")]
    with pytest.raises(CorruptLogError, match=r"no row with the key \(9,\)"):
        follow(tmp_path, event("c", FIRST), *changes, event("c", {**FIRST, "id": 9, "name": UNAVAILABLE}))


def test_what_debezium_wrote_for_each_type_of_postgresql_is_the_value_there(tmp_path: Path) -> None:
    fields = tuple(field for field, _, _ in EVERY_TYPE)
    row = {field["field"]: value for field, value, _ in EVERY_TYPE}
    nulls = {**dict.fromkeys(row), "id": 2}
    follow(tmp_path, HEARTBEAT, event("r", {"id": 3}), TRUNCATE, MESSAGE, name="other")
    follow(tmp_path, event("r", row, fields=fields, table="each"), event("c", nulls, fields=fields, table="each"))
    expected = {field["field"]: value for field, _, value in EVERY_TYPE}
    assert rows(tmp_path, "public.each") == [expected, nulls]
    assert rows(tmp_path) == []
    infinite = {**row, "day": -2147472692}  # 'infinity'
    with pytest.raises(
        InvalidInputError, match=r"line 3 of orders\.jsonl: the column day: -2147472692 is not of the type Date"
    ):
        follow(tmp_path, b"", b"", event("u", infinite, fields=fields, table="each"))


def test_a_decimal_that_is_written_as_a_number_keeps_its_digits(tmp_path: Path) -> None:
    """Connect's JsonConverter with ``decimal.format=NUMERIC``."""
    decimal_field = {**ORDERS[-1], "parameters": {"scale": "2", "connect.decimal.precision": "30"}}
    fields = (ORDERS[0], decimal_field, {"field": "d", "type": "double", "optional": True})
    line = event("c", {"id": 1, "amount": "digits", "d": 0.1}, fields=fields)
    follow(tmp_path, line.replace(b'"digits"', b"12345678901234567890.12"))
    assert rows(tmp_path) == [{"id": 1, "amount": Decimal("12345678901234567890.12"), "d": 0.1}]


def test_a_truncate_empties_the_table(tmp_path: Path) -> None:
    follow(tmp_path, event("c", FIRST), event("t"), event("c", SECOND))
    assert rows(tmp_path) == [SECOND]


def test_columns_are_added_with_their_default_and_dropped(tmp_path: Path) -> None:
    more = {"field": "country", "type": "string", "optional": True, "default": "NO"}
    follow(tmp_path, event("c", FIRST))
    lines = [event("c", FIRST), event("c", {**SECOND, "country": "SE"}, fields=(*ORDERS, more))]
    follow(tmp_path, *lines)
    assert [row["country"] for row in rows(tmp_path)] == ["NO", "SE"]
    fewer = tuple(each for each in (*ORDERS, more) if each["field"] not in ("at", "amount"))
    follow(tmp_path, *lines, event("u", {"id": 2, "name": "x", "day": 0, "country": "SE"}, fields=fewer))
    assert rows(tmp_path)[1] == {"id": 2, "name": "x", "day": dt.date(1970, 1, 1), "country": "SE"}


def test_a_change_of_columns_with_two_meanings_is_refused_and_nothing_of_it_lands(tmp_path: Path) -> None:
    follow(tmp_path, event("c", FIRST))
    renamed = ({**ORDERS[1], "field": "title"}, ORDERS[0])
    with pytest.raises(SchemaMismatchError, match=r"line 2 of orders\.jsonl: public\.orders has the new columns title"):
        follow(tmp_path, event("c", FIRST), event("c", {"id": 2, "title": "x"}, fields=renamed))
    retyped = ({**ORDERS[0], "type": "string"}, *ORDERS[1:])
    with pytest.raises(SchemaMismatchError, match="the type of the column id changed"):
        follow(tmp_path, event("c", FIRST), event("c", {**SECOND, "id": "x"}, fields=retyped))
    assert len(rows(tmp_path)) == 1


def test_events_of_several_tables_go_to_theirs_and_messages_of_kafka_name_the_keys(tmp_path: Path) -> None:
    lines = fields = ({"field": "order", "type": "int64"}, {"field": "id", "type": "int8"})
    value = event("c", {"order": 1, "id": 2}, fields=fields, table="lines").decode()
    message = {"topic": "shop.public.lines", "partition": 0, "offset": 5, "key": json.dumps({"order": 1, "id": 2})}
    lines = [event("c", FIRST), json.dumps({**message, "payload": value}).encode()]
    follow(tmp_path, *lines, keys={"public.orders": ["id"]})
    assert rows(tmp_path, "public.lines") == [{"order": 1, "id": 2}]
    assert len(rows(tmp_path)) == 1
    with pytest.raises(InvalidInputError, match=r"which columns identify a row of public\.more"):
        follow(tmp_path, event("c", {"id": 1}, fields=ORDERS[:1], table="more"), keys=())


def test_events_without_a_schema_take_the_types_of_the_table(tmp_path: Path) -> None:
    bare = event("c", {"id": 1, "name": "a"}, fields=None)
    with pytest.raises(InvalidInputError, match=r"schemas\.enable"):
        follow(tmp_path, bare)
    txlog.Catalog(tmp_path).create("public.orders", "id bigint, name string, amount decimal(10,2)")
    avro = json.loads(event("u", fields=None))
    avro["after"] = {"public.orders.Value": {"id": 1, "name": {"string": "b"}, "amount": {"bytes": "\x00\u0096"}}}
    follow(tmp_path, bare, json.dumps(avro).encode())
    assert rows(tmp_path) == [{"id": 1, "name": "b", "amount": Decimal("1.50")}]
    with pytest.raises(SchemaMismatchError, match="new columns more"):
        follow(tmp_path, b"", b"", event("c", {"id": 2, "more": 1}, fields=None))
    with pytest.raises(InvalidInputError, match="may be a number or the bytes of one"):
        follow(tmp_path, b"", b"", event("c", {"id": 2, "amount": "1234"}, fields=None))


def test_a_mirror_that_ended_between_new_columns_and_their_rows_goes_on(tmp_path: Path) -> None:
    more = (*ORDERS[:2], {"field": "country", "type": "string", "optional": True})
    lines = [
        event("c", FIRST),
        event("c", SECOND),
        event("u", {**FIRST, "name": "b"}),
        event("u", {"id": 2, "name": "c", "country": "SE"}, fields=(ORDERS[0], *ORDERS[1:], more[2])),
        event("u", {"id": 1, "name": "d", "country": "NO"}, fields=more),
    ]
    follow(tmp_path, lines[0])
    with pytest.raises(CorruptLogError):  # when the table has its new columns by then
        follow(tmp_path, *lines, event("u", {"id": 9, "name": UNAVAILABLE, "country": ""}, fields=more))
    assert [*rows(tmp_path)[0]] == ["id", "name", "country"]
    follow(tmp_path, *lines)
    assert rows(tmp_path) == [{"id": 1, "name": "d", "country": "NO"}, {"id": 2, "name": "c", "country": "SE"}]


def test_a_column_that_somebody_renamed_as_the_error_says_is_followed(tmp_path: Path) -> None:
    renamed = (ORDERS[0], {**ORDERS[1], "field": "title"})
    lines = [
        event("c", {"id": 1, "name": "a"}, fields=ORDERS[:2]),
        event("c", {"id": 2, "name": "b"}, fields=ORDERS[:2]),
        event("c", {"id": 3, "title": "c"}, fields=renamed),
    ]
    follow(tmp_path, lines[0], properties={"delta.columnMapping.mode": "name"})
    with pytest.raises(SchemaMismatchError, match=r"line 3 of orders\.jsonl: .* Rename or drop the columns"):
        follow(tmp_path, *lines)
    table = txlog.Catalog(tmp_path).table("public.orders")
    assert table.to_arrow().num_rows == 2  # what came before the error is there
    table.rename_column("name", "title")
    follow(tmp_path, *lines)
    assert sorted(table.to_arrow()["title"].to_pylist()) == ["a", "b", "c"]


@pytest.mark.parametrize("line", [b"{", b"[]", b'{"id": 1}', b'{"op": "c", "source": {"db": "x", "table": "y"}}'])
def test_a_line_that_is_no_event_is_named(tmp_path: Path, line: bytes) -> None:
    with pytest.raises(InvalidInputError, match=r"line 2 of orders\.jsonl"):
        follow(tmp_path, event("c", FIRST), line)


# --- histories --------------------------------------------------------------------------------------------------------

FIELDS = ORDERS[:2]


def order(op: str, number: int, name: str | None = None, **source: Any) -> bytes:
    row = {"id": number, "name": name}
    return event(op, None if op == "d" else row, row if op == "d" else None, **{"fields": FIELDS, **source})


def versions(folder: Path) -> list[tuple[Any, ...]]:
    found = deltalake.DeltaTable(txlog.Catalog(folder).location("public.orders")).to_pyarrow_table().to_pylist()
    found.sort(key=lambda row: (row["id"], row["__START_AT"]))
    columns = [name for name in ("id", "name", "country", "__START_AT", "__END_AT") if name in found[0]]
    return [tuple(row[name] for name in columns) for row in found]


@pytest.mark.parametrize("commits", [(8,), (1, 2, 3, 4, 5, 6, 7, 8), (3, 3, 8)])
def test_a_history_has_every_row_that_a_key_had_however_its_changes_are_committed(
    tmp_path: Path, commits: tuple[int, ...]
) -> None:
    lines = [
        order("r", 1, "a"),
        order("c", 2, "b"),
        order("u", 1, "c"),
        order("d", 2),
        b"",
        order("c", 2, "d"),
        event("u", {"id": 1, "name": "e", "country": "NO"}, fields=(*FIELDS, {"field": "country", "type": "string"})),
        event(
            "u",
            {"id": 1, "name": UNAVAILABLE, "country": "SE"},
            fields=(*FIELDS, {"field": "country", "type": "string"}),
        ),
    ]
    for count in commits:
        follow(tmp_path, *lines[:count], stored_as_scd_type=2)
    assert versions(tmp_path) == [
        (1, "a", None, 1, 3),
        (1, "c", None, 3, 7),
        (1, "e", "NO", 7, 8),
        (1, "e", "SE", 8, None),
        (2, "b", None, 2, 4),
        (2, "d", None, 6, None),
    ]


def test_in_a_history_by_the_sources_sequence_events_that_come_again_are_left_out(tmp_path: Path) -> None:
    lines = [order("c", 1, "a", lsn=10), order("u", 1, "b", lsn=20), order("c", 2, "x", lsn=25), order("d", 2, lsn=30)]
    again = [*lines, *lines, order("u", 1, "c", lsn=40)]
    for count in (2, 7, 9):
        follow(tmp_path, *again[:count], stored_as_scd_type=2, sequence_by="source.lsn")
    assert versions(tmp_path) == [(1, "a", 10, 20), (1, "b", 20, 40), (1, "c", 40, None), (2, "x", 25, 30)]


def test_a_history_refuses_truncates_and_a_table_stays_what_it_is(tmp_path: Path) -> None:
    follow(tmp_path, order("c", 1, "a"), stored_as_scd_type=2)
    with pytest.raises(
        InvalidInputError, match=r"line 2 of orders\.jsonl: public\.orders was truncated, which SCD type 2"
    ):
        follow(tmp_path, b"", TRUNCATE, stored_as_scd_type=2)
    with pytest.raises(InvalidInputError, match=r"every row|all rows that each key had \(SCD type 2\)"):
        follow(tmp_path, b"", order("c", 2, "b"))
    with pytest.raises(InvalidInputError, match="sequence_by"):
        follow(tmp_path, b"", sequence_by="source.lsn")
