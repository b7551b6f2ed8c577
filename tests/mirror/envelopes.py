"""Events as Debezium's documentation describes them, made of rows."""

from __future__ import annotations

import base64
import json
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
