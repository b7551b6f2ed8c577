"""Change events as Debezium writes them: JSON, or Avro that was decoded to it. Pure.

In: an event's value, as the text or the object of a message. Out: what it does to which table, and the row's values as
the texts that `txlog.mirror.types` reads. An event may carry its schema (``schemas.enable``), which has the types; one
without it takes the types of the table that it goes to. Debezium documentation, "Data change events"; Apache Avro
specification, "JSON Encoding", whose unions have their type around each value.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from txlog.errors import InvalidInputError
from txlog.mirror.pgoutput import UNCHANGED, Values
from txlog.mirror.types import ColumnType

UNAVAILABLE = "__debezium_unavailable_value"
"""What Debezium writes in place of a large value that the database did not send."""
_UNAVAILABLE_BYTES = base64.b64encode(UNAVAILABLE.encode()).decode()
_OPERATIONS = {"c": "I", "r": "I", "u": "U", "d": "D", "t": "T"}
_PRIMITIVES = {"string", "int", "long", "float", "double", "boolean", "bytes"}
_CONNECT = {
    "boolean": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float": pa.float32(),
    "float32": pa.float32(),
    "double": pa.float64(),
    "float64": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
}
_DECODER = msgspec.json.Decoder(float_hook=Decimal)
_ENCODER = msgspec.json.Encoder(decimal_format="number")
_DAY = timedelta(days=1)
_EPOCH = datetime(1970, 1, 1)
_NAIVE, _UTC = pa.timestamp("us"), pa.timestamp("us", "UTC")
_MEANINGS: Mapping[str, pa.DataType] = {
    "io.debezium.time.Date": pa.date32(),
    "org.apache.kafka.connect.data.Date": pa.date32(),
    "io.debezium.time.Timestamp": _NAIVE,
    "io.debezium.time.MicroTimestamp": _NAIVE,
    "io.debezium.time.NanoTimestamp": _NAIVE,
    "org.apache.kafka.connect.data.Timestamp": _NAIVE,
    "io.debezium.time.ZonedTimestamp": _UTC,
    "io.debezium.time.IsoDate": pa.date32(),
    "io.debezium.time.IsoTimestamp": _NAIVE,
}
"""The types of what Connect's schemas name. All other names, such as those of JSON, UUIDs and times of a day, say more
about a string or a number than Delta knows."""


class EventField(NamedTuple):
    """A column as an event's schema has it. ``meaning``: the name that Debezium gives to its values, or "".

    ``existing``: its default, as text, which rows have that were there before the column.
    """

    name: str
    type: ColumnType
    meaning: str
    scale: int = 0
    existing: str | None = None


class Event(NamedTuple):
    """What an event does. ``kind``: "I", "U", "D", or "T" for a truncate; ``fields``: None without a schema.

    ``table``: ``schema.table``, or ``database.table`` where the database has no schemas.
    """

    kind: str
    database: str
    table: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    fields: tuple[EventField, ...] | None
    committed_ms: int
    source: Mapping[str, Any]


def event_of(message: bytes | str | Mapping[str, Any] | None) -> Event | None:
    """What a message says; None for one that changes no row: a tombstone, a heartbeat, a message of a program.

    Raises InvalidInputError for a message that is no such event.
    """
    value = json_of(message) if isinstance(message, bytes | str) else message
    schema = None
    if isinstance(value, Mapping) and set(value) == {"schema", "payload"}:
        schema, value = value["schema"], value["payload"]
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise InvalidInputError(f"an event of Debezium is an object, not {type(value).__name__}")
    operation, source = _plain(value.get("op")), value.get("source")
    if operation == "m" or (operation is None and source is None and "ts_ms" in value):
        return None
    if operation not in _OPERATIONS or not isinstance(source, Mapping):
        raise InvalidInputError(
            "this is not a Debezium event, which has op (c, r, u, d or t), source, and before or after: let Debezium"
            " write whole events, without ExtractNewRecordState"
        )
    before, after = (_row(value.get(name)) for name in ("before", "after"))
    if operation in "cru" and after is None:
        raise InvalidInputError(f"an event with op = {operation!r} has the row in after, and this one has none")
    if operation == "d" and before is None:
        raise InvalidInputError("an event with op = 'd' has the key in before, and this one has none")
    names = [_plain(source.get(name)) for name in ("db", "schema", "table")]
    table = f"{names[1] or names[0]}.{names[2]}" if names[2] else ""
    committed_ms = _plain(source.get("ts_ms")) or _plain(value.get("ts_ms")) or 0
    fields = None if schema is None else _fields(schema)
    return Event(_OPERATIONS[operation], str(names[0] or ""), table, before, after, fields, int(committed_ms), source)


def json_of(text: bytes | str) -> Any:
    """The value of a JSON text, None for an empty one. Its numbers with a point or an exponent are Decimals: a Connect
    with ``decimal.format=NUMERIC`` writes more digits than a float has. Raises InvalidInputError for other texts."""
    try:
        return _DECODER.decode(text) if text.strip() else None
    except (msgspec.DecodeError, UnicodeError, RecursionError, ArithmeticError) as error:
        raise InvalidInputError(f"this is not JSON: {error}") from None


def row_of(row: Mapping[str, Any], fields: Sequence[EventField]) -> Values:
    """A row's values as texts, in the order of the fields; a column that the row lacks is null.

    Raises InvalidInputError for a value that its column does not have, or that says too little without a schema.
    """
    found: Values = []
    for field in fields:
        value = row.get(field.name)
        if value in (UNAVAILABLE, _UNAVAILABLE_BYTES, UNAVAILABLE.encode(), [UNAVAILABLE]):
            found.append(UNCHANGED)
            continue
        try:
            found.append(None if value is None else _text(value, field.type, field.meaning, field.scale))
        except (ArithmeticError, ValueError, TypeError, OverflowError) as error:
            raise InvalidInputError(
                f"the column {field.name}: {value!r} is not of the type {field.type.source}: {error}"
            ) from None
    return found


# --- values ----------------------------------------------------------------------------------------------------------


def _text(value: Any, of: ColumnType, meaning: str, scale: int) -> str:
    arrow = of.arrow
    if of.element is not None:
        return _array_text([None if each is None else _text(each, of.element, meaning, scale) for each in value])
    if pa.types.is_boolean(arrow):
        if not isinstance(value, bool):
            raise TypeError("expected true or false")
        return "t" if value else "f"
    if pa.types.is_date(arrow):
        return value if isinstance(value, str) else (date(1970, 1, 1) + int(value) * _DAY).isoformat()
    if pa.types.is_timestamp(arrow):
        return _time_text(value, arrow, meaning)
    if pa.types.is_decimal(arrow) or meaning == _DECIMAL:
        return _decimal_text(value, meaning, arrow.scale if pa.types.is_decimal(arrow) else scale)
    if pa.types.is_binary(arrow):
        return "\\x" + (value if isinstance(value, bytes) else base64.b64decode(value, validate=True)).hex()
    if meaning == _VARIABLE_DECIMAL and isinstance(value, Mapping):
        return _decimal_text(value["value"], meaning, int(value["scale"]))
    if isinstance(value, bool) and not pa.types.is_string(arrow):
        raise TypeError("expected a number")
    return value if isinstance(value, str) else _ENCODER.encode(value).decode()


_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_VARIABLE_DECIMAL = "io.debezium.data.VariableScaleDecimal"
_PER_SECOND = {
    "io.debezium.time.Timestamp": 10**3,
    "org.apache.kafka.connect.data.Timestamp": 10**3,
    "io.debezium.time.MicroTimestamp": 10**6,
    "io.debezium.time.NanoTimestamp": 10**9,
}


def _time_text(value: Any, arrow: pa.DataType, meaning: str) -> str:
    if isinstance(value, str):
        moment = datetime.fromisoformat(re.sub(r"Z$", "+00:00", value))
        if (moment.tzinfo is None) != (arrow.tz is None):
            raise ValueError("a time with a zone belongs in a column of timestamps with a zone")
        if moment.tzinfo is not None:
            moment = moment.astimezone(timezone.utc).replace(tzinfo=None)
    elif meaning in _PER_SECOND:
        micros, rest = divmod(int(value) * 10**6, _PER_SECOND[meaning])
        if rest:
            raise ValueError("Delta has no nanoseconds")
        moment = _EPOCH + timedelta(microseconds=micros)
    else:
        raise ValueError(
            "a number as a time has no unit without the event's schema: set schemas.enable of the converter"
        )
    return moment.isoformat(" ") + ("" if arrow.tz is None else "+00")


def _decimal_text(value: Any, meaning: str, scale: int) -> str:
    if isinstance(value, str) and meaning in (_DECIMAL, _VARIABLE_DECIMAL):
        value = base64.b64decode(value, validate=True)
    if isinstance(value, bytes):
        unscaled = int.from_bytes(value, "big", signed=True)
        digits = str(abs(unscaled)).rjust(scale + 1, "0")
        whole, fraction = digits[: len(digits) - scale], digits[len(digits) - scale :]
        return f"{'-' if unscaled < 0 else ''}{whole}{'.' if fraction else ''}{fraction}"
    if isinstance(value, str) and not meaning and "." not in value:
        raise ValueError(
            "without the event's schema, this may be a number or the bytes of one: set schemas.enable of the converter"
        )
    return format(Decimal(str(value)), "f")  # decimal.handling.mode = string, or double


def _array_text(elements: Sequence[str | None]) -> str:
    """As PostgreSQL writes an array."""
    quoted = (
        "NULL" if each is None else '"' + each.replace("\\", "\\\\").replace('"', '\\"') + '"' for each in elements
    )
    return "{" + ",".join(quoted) + "}"


# --- schemas ---------------------------------------------------------------------------------------------------------


def _fields(schema: Any) -> tuple[EventField, ...] | None:
    """The columns of the row, by an envelope's schema in Connect's JSON; None if that has none, as for a truncate."""
    parts = {part.get("field"): part for part in schema.get("fields") or ()}
    row = parts.get("after") or parts.get("before")
    if row is None:
        return None
    return tuple(_field(field) for field in row.get("fields") or ())


def _field(field: Mapping[str, Any]) -> EventField:
    of, meaning, scale = _type(field)
    default = field.get("default")
    existing = None if default is None else _text(default, of, meaning, scale)
    return EventField(str(field["field"]), of, meaning, scale, existing)


def _type(field: Mapping[str, Any]) -> tuple[ColumnType, str, int]:
    """A column's type, what its values mean, and their scale."""
    kind, meaning = str(field.get("type")), str(field.get("name") or "")
    parameters = field.get("parameters") or {}
    if meaning == _DECIMAL:
        scale = int(parameters.get("scale", 0))
        precision = int(parameters.get("connect.decimal.precision", 38))
        if scale < 0 or not scale <= precision <= 38:
            return ColumnType("decimal", pa.string(), "text: decimals of Delta have at most 38 digits"), meaning, scale
        return ColumnType(f"decimal({precision},{scale})", pa.decimal128(precision, scale)), meaning, scale
    if meaning in _MEANINGS:
        return ColumnType(meaning.rpartition(".")[2], _MEANINGS[meaning]), meaning, 0
    if kind == "array":
        element, inner, scale = _type(field["items"])
        return ColumnType(f"{element.source}[]", pa.list_(element.arrow), element.differs, element), inner, scale
    if kind not in _CONNECT:
        return ColumnType(meaning or kind, pa.string(), "text: JSON"), meaning, 0
    return ColumnType(kind, _CONNECT[kind]), meaning, 0


# --- Avro ------------------------------------------------------------------------------------------------------------


def _row(value: Any) -> Mapping[str, Any] | None:
    """A row; if it is a union of Avro, what is in it."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise InvalidInputError(f"a row of an event is an object, not {type(value).__name__}")
    if len(value) == 1:
        ((name, inner),) = value.items()
        if isinstance(inner, Mapping) and name.rpartition(".")[2] == "Value":
            return {column: _plain(each) for column, each in inner.items()}
    return value


def _plain(value: Any) -> Any:
    """A value; if it is a union of Avro, what is in it."""
    if not isinstance(value, Mapping) or len(value) != 1:
        return value
    ((name, inner),) = value.items()
    if name == "bytes" and isinstance(inner, str):
        return inner.encode("latin-1")
    if name == "array" and isinstance(inner, list):
        return [_plain(each) for each in inner]
    return inner if name in _PRIMITIVES else value
