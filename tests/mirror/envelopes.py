"""Events as Debezium's documentation describes them, made of rows."""

from __future__ import annotations

import base64
import json
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

ORDERS = (
    {"field": "id", "type": "int32", "optional": False},
    {"field": "name", "type": "string", "optional": True},
    {"field": "day", "type": "int32", "optional": True, "name": "io.debezium.time.Date"},
    {"field": "at", "type": "int64", "optional": True, "name": "io.debezium.time.MicroTimestamp"},
    {
        "field": "amount",
        "type": "bytes",
        "optional": True,
        "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": "2", "connect.decimal.precision": "10"},
    },
)
EVERY_TYPE: tuple[tuple[dict[str, Any], Any, Any], ...] = (
    ({"type": "int32", "optional": False, "field": "id"}, 1, 1),
    ({"type": "int64", "optional": True, "field": "big"}, 9007199254740993, 9007199254740993),
    ({"type": "int16", "optional": True, "field": "small"}, -3, -3),
    ({"type": "int32", "name": "io.debezium.time.Date", "version": 1, "field": "day"}, 19782, date(2024, 2, 29)),
    (
        {"type": "int64", "name": "io.debezium.time.MicroTimestamp", "version": 1, "field": "at"},
        1709208000123456,
        datetime(2024, 2, 29, 12, 0, 0, 123456),
    ),
    (
        {"type": "string", "name": "io.debezium.time.ZonedTimestamp", "version": 1, "field": "zoned"},
        "2024-02-29T07:00:00.123456Z",
        datetime(2024, 2, 29, 7, 0, 0, 123456, timezone.utc),
    ),
    (
        {"type": "int64", "name": "io.debezium.time.Timestamp", "version": 1, "field": "at_ms"},
        1709208001123,
        datetime(2024, 2, 29, 12, 0, 1, 123000),
    ),
    ({"type": "int64", "name": "io.debezium.time.MicroTime", "version": 1, "field": "t"}, 86399999999, 86399999999),
    ({"type": "string", "name": "io.debezium.time.ZonedTime", "version": 1, "field": "tz"}, "10:00:00Z", "10:00:00Z"),
    (
        {
            "type": "bytes",
            "name": "org.apache.kafka.connect.data.Decimal",
            "version": 1,
            "parameters": {"scale": "2", "connect.decimal.precision": "10"},
            "field": "amount",
        },
        "/2o=",
        Decimal("-1.50"),
    ),
    (
        {
            "type": "struct",
            "fields": [
                {"type": "int32", "optional": False, "field": "scale"},
                {"type": "bytes", "optional": False, "field": "value"},
            ],
            "optional": True,
            "name": "io.debezium.data.VariableScaleDecimal",
            "version": 1,
            "doc": "Variable scaled decimal",
            "field": "free",
        },
        {"scale": 6, "value": "At/cHDU="},
        "12345.678901",
    ),
    (
        {
            "type": "bytes",
            "name": "org.apache.kafka.connect.data.Decimal",
            "version": 1,
            "parameters": {"scale": "3", "connect.decimal.precision": "50"},
            "field": "huge",
        },
        "AJvTCjxkWUPdFpCgOoM=",
        "12345678901234567890123456789.123",
    ),
    (
        {
            "type": "bytes",
            "name": "org.apache.kafka.connect.data.Decimal",
            "version": 1,
            "parameters": {"scale": "2"},
            "field": "money",
        },
        "BNI=",
        Decimal("12.34"),
    ),
    ({"type": "boolean", "field": "ok"}, True, True),
    ({"type": "float", "field": "r"}, 1.5, 1.5),
    ({"type": "double", "field": "d"}, 0.1, 0.1),
    ({"type": "bytes", "field": "raw"}, "AP8=", b"\x00\xff"),
    ({"type": "string", "name": "io.debezium.data.Json", "version": 1, "field": "j"}, '{"b": [1, 2]}', '{"b": [1, 2]}'),
    (
        {
            "type": "string",
            "name": "io.debezium.data.Enum",
            "version": 1,
            "parameters": {"allowed": "good,bad"},
            "field": "mood",
        },
        "bad",
        "bad",
    ),
    ({"type": "int64", "name": "io.debezium.time.MicroDuration", "version": 1, "field": "iv"}, 2802600, 2802600),
    (
        {
            "type": "bytes",
            "name": "io.debezium.data.Bits",
            "version": 1,
            "parameters": {"length": "3"},
            "field": "bits",
        },
        "BQ==",
        b"\x05",
    ),
    (
        {"type": "array", "items": {"type": "string", "optional": True}, "field": "tags"},
        ["a", None, 'q"x'],
        ["a", None, 'q"x'],
    ),
    (
        {
            "type": "array",
            "items": {"type": "int32", "optional": True, "name": "io.debezium.time.Date", "version": 1},
            "field": "days",
        },
        [19723, None],
        [date(2024, 1, 1), None],
    ),
    (
        {
            "type": "array",
            "items": {
                "type": "bytes",
                "optional": True,
                "name": "org.apache.kafka.connect.data.Decimal",
                "version": 1,
                "parameters": {"scale": "2", "connect.decimal.precision": "6"},
            },
            "field": "amounts",
        },
        ["AJY=", None],
        [Decimal("1.50"), None],
    ),
)
"""Columns, and values as Debezium 3.6.1 wrote them for PostgreSQL 15; and what they are."""
HEARTBEAT = (
    b'{"schema": {"type": "struct", "fields": [{"type": "int64", "field": "ts_ms"}]},'
    b' "payload": {"ts_ms": 1795997027389}}'
)
"""As it wrote a heartbeat, ``pg_logical_emit_message`` and ``TRUNCATE``, without their schemas."""
MESSAGE = (
    b'{"op": "m", "ts_ms": 1795997032659, "source": {"version": "3.6.1.Final", "connector": "postgresql",'
    b' "name": "shop", "ts_ms": 1795997031673, "snapshot": "false", "db": "shop", "sequence":'
    b' "[\\"26452400\\",\\"26452464\\"]", "schema": "", "table": "", "txId": 750, "lsn": 26452464, "xmin": null},'
    b' "transaction": null, "message": {"prefix": "p", "content": "aGVsbG8="}}'
)
TRUNCATE = (
    b'{"before": null, "after": null, "source": {"version": "3.6.1.Final", "connector": "postgresql",'
    b' "name": "shop", "ts_ms": 1795997031634, "snapshot": "false", "db": "shop", "sequence":'
    b' "[\\"26448208\\",\\"26451112\\"]", "schema": "public", "table": "orders", "txId": 747, "lsn": 26451112,'
    b' "xmin": null}, "transaction": null, "op": "t", "ts_ms": 1795997032554,'
    b' "ts_us": 1795997032554503, "ts_ns": 1795997032554503155}'
)
UNAVAILABLE = "__debezium_unavailable_value"


def decimal(unscaled: int) -> str:
    """The bytes of a decimal, as Connect's JSON has them."""
    return base64.b64encode(unscaled.to_bytes((unscaled.bit_length() + 8) // 8, "big", signed=True)).decode()


def event(
    op: str,
    after: dict[str, Any] | None = None,
    before: dict[str, Any] | None = None,
    *,
    fields: tuple[dict[str, Any], ...] | None = ORDERS,
    table: str = "orders",
    **source: Any,
) -> bytes:
    """An event's value as JSON; with its schema unless ``fields`` is None."""
    source = {"db": "shop", "schema": "public", "table": table, "ts_ms": 1_700_000_000_000, **source}
    payload = {"before": before, "after": after, "source": source, "op": op, "ts_ms": 1_700_000_000_001}
    if fields is None:
        return json.dumps(payload).encode()
    row = {"type": "struct", "optional": True, "name": f"{table}.Value", "fields": list(fields)}
    schema = {"type": "struct", "fields": [{**row, "field": "before"}, {**row, "field": "after"}]}
    return json.dumps({"schema": schema, "payload": payload}).encode()
