"""``get_json_object``, ``json_tuple`` and ``from_json``: values in JSON texts, as Spark reads them.

In: JSON texts, and a path or a schema from the call. Out: texts, or values of the schema. A text that is not JSON has
no values. Where Spark reads more than JSON (single quotes), or writes a number in Java's way, the row is refused.
"""

from __future__ import annotations

import datetime
import decimal
import json
import math
import re
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any

import msgspec
import pyarrow as pa

from txlog.core.format.schema import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    LONG,
    TIMESTAMP,
    Array,
    DataType,
    Decimal,
    Map,
    Struct,
)
from txlog.core.predicates._row_kernels import by_row
from txlog.core.predicates.terms.tree import Call
from txlog.core.predicates.terms.zones import UTC, as_instant


class _Number(msgspec.Struct, frozen=True):
    """A number as it is written."""

    text: str

    @property
    def is_whole(self) -> bool:
        return not set(self.text) & set(".eE")


class _Object(msgspec.Struct, frozen=True):
    """The members of an object in order; a name may come twice."""

    members: list[tuple[str, Any]]


def _refused_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_Object,
    parse_float=_Number,
    parse_int=_Number,
    parse_constant=_refused_constant,
    strict=False,
)
_MISSING = object()
_LEVELS_MOST = 250
"""Fewer than Python reads by default in any release; newer ones would read thousands."""


def _read(call: Call, text: str) -> Any:
    """The value that the text begins with; `_MISSING` if it is not JSON. What follows does not matter."""
    if text.count("{") + text.count("[") > _LEVELS_MOST and _levels(text) > _LEVELS_MOST:
        raise _too_deep(call)
    try:
        return _DECODER.raw_decode(text.lstrip(" \t\r\n"))[0]
    except ValueError:
        if "'" in text:
            raise pa.ArrowInvalid(f"{call.name}() of a text with single quotes, which are not JSON") from None
        return _MISSING


def _levels(text: str) -> int:
    """How many objects and arrays are inside one another at most."""
    brackets = re.sub(r'"(?:[^"\\]|\\.)*"|[^][{}]', "", text)
    return max(accumulate(1 if each in "{[" else -1 for each in brackets), default=0)


def _too_deep(call: Call) -> pa.ArrowInvalid:
    return pa.ArrowInvalid(f"{call.name}() of JSON with hundreds of levels")


def _text_of(call: Call, value: Any) -> str:
    """The value as compact JSON."""
    match value:
        case _Object(members):
            return "{" + ",".join(f"{_quoted(name)}:{_text_of(call, each)}" for name, each in members) + "}"
        case list():
            return "[" + ",".join(_text_of(call, each) for each in value) + "]"
        case str():
            return _quoted(value)
        case _Number():
            return _number_text(call, value)
    return {None: "null", True: "true", False: "false"}[value]


def _number_text(call: Call, number: _Number) -> str:
    """A number as Java writes it: for a fraction, as a double."""
    if number.is_whole:
        if number.text == "-0":
            raise pa.ArrowInvalid(f"{call.name}() of the number -0, which engines write differently")
        return number.text
    value = float(number.text)
    digits = len(repr(value).replace(".", "").replace("-", "").strip("0"))
    if value and not (1e-3 <= abs(value) < 1e7 and digits <= 15):
        raise pa.ArrowInvalid(f"{call.name}() of the number {number.text}, which engines write differently")
    return repr(value)


_ESCAPED = r'["\\\x00-\x1f\U00010000-\U0010ffff]'
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _quoted(text: str) -> str:
    return f'"{re.sub(_ESCAPED, _escape, _storable(text))}"'


def _escape(found: re.Match[str]) -> str:
    """As Java writes it: letters beyond U+FFFF as two escapes."""
    units = found[0].encode("utf-16-be")
    escapes = (f"\\u{units[at : at + 2].hex().upper()}" for at in range(0, len(units), 2))
    return _ESCAPES.get(found[0]) or "".join(escapes)


def _storable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise pa.ArrowInvalid("half of a surrogate pair is not a character") from None
    return text


# --- get_json_object -------------------------------------------------------------------------------------------


def _object_at(call: Call, text: str) -> str | None:
    value = _read(call, text)
    if value is None and not call.options[0]:
        return "null"  # in Spark, only of the whole text
    found = next(_values_at(value, call.options[0]), None)
    if found is None:
        return None
    return _storable(found) if isinstance(found, str) else _text_of(call, found)


def _values_at(value: Any, path: tuple[str | int, ...]) -> Iterator[Any]:
    """The values at a path that are not null: of members with one name, the first that has one counts."""
    if not path:
        if value is not None and value is not _MISSING:
            yield value
    elif isinstance(path[0], int):
        if isinstance(value, list) and path[0] < len(value):
            yield from _values_at(value[path[0]], path[1:])
    elif isinstance(value, _Object):
        for name, each in value.members:
            if name == path[0]:
                yield from _values_at(each, path[1:])


def _member(call: Call, text: str) -> str | None:
    """The value of one member of an object: of those with one name, the last that is not null counts."""
    value = _read(call, text)
    members = value.members if isinstance(value, _Object) else ()
    found = [each for name, each in members if name == call.options[0] and each is not None]
    if not found:
        return None
    return _storable(found[-1]) if isinstance(found[-1], str) else _text_of(call, found[-1])


# --- from_json --------------------------------------------------------------------------------------------------


class _OtherType(Exception):
    """The value is of another type: a field stays as it was."""


_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?(Z|[+-]\d\d:\d\d)?", re.ASCII)


def _from_json(call: Call, text: str) -> Any:
    """The struct, array or map that the text has. In a text of another value, a struct has nulls, and an array or a
    map is null."""
    if not text.strip(" \t\r\n"):
        return None
    value = _read(call, text)
    if isinstance(call.type, Struct):
        if isinstance(value, list):
            raise pa.ArrowInvalid("from_json() of an array as a struct, which engines read differently")
        return _struct_of(call, value if isinstance(value, _Object) else _Object([]), call.type)
    if value is _MISSING:
        return None
    kind = call.type
    if isinstance(kind, Array) and isinstance(kind.element, Struct) and isinstance(value, _Object):
        value = [value]
    if isinstance(kind, Map) and isinstance(value, list) and value:
        raise pa.ArrowInvalid("from_json() of an array as a map, which engines read differently")
    try:
        return _converted(call, value, kind)
    except _OtherType:
        if isinstance(value, list):
            raise pa.ArrowInvalid("from_json() of an array with a value of another type") from None
        return None


def _struct_of(call: Call, value: _Object, kind: Struct) -> dict[str, Any]:
    """The fields by name. Of members with one name, the last that fits counts."""
    fields = {field.name: field.type for field in kind.fields}
    found = dict.fromkeys(fields, None)
    for name, each in value.members:
        if name in fields:
            try:
                found[name] = _converted(call, each, fields[name])
            except _OtherType:
                continue
    return found


def _converted(call: Call, value: Any, kind: DataType) -> Any:
    """Raises `_OtherType`, or ``ArrowInvalid`` for what engines read differently."""
    if value is None:
        return None
    match kind:
        case Struct() if isinstance(value, _Object):
            return _struct_of(call, value, kind)
        case Array(element) if isinstance(value, list):
            return [_converted(call, each, element) for each in value]
        case Map(_, item) if isinstance(value, _Object):
            if len({name for name, _ in value.members}) < len(value.members):
                raise pa.ArrowInvalid("from_json() of an object with one name twice as a map")
            return [(_storable(name), _item(call, each, item, kind)) for name, each in value.members]
        case Struct() | Array() | Map():
            raise _OtherType
        case Decimal():
            return _decimal(value, kind)
    if kind in (DATE, TIMESTAMP):
        return _moment(call, value, kind)
    return _plain(call, value, kind)


def _item(call: Call, value: Any, kind: DataType, around: Map) -> Any:
    """A value of a map. One that does not fit makes the whole text null; of a map inside, nobody has asked Spark."""
    try:
        return _converted(call, value, kind)
    except _OtherType:
        if around is call.type:
            raise
        raise pa.ArrowInvalid("from_json() of a map with a value of another type") from None


def _plain(call: Call, value: Any, kind: DataType) -> Any:
    if kind in (INTEGER, LONG):
        limit = 2**31 if kind == INTEGER else 2**63
        if not isinstance(value, _Number) or not value.is_whole or not -limit <= decimal.Decimal(value.text) < limit:
            raise _OtherType
        return int(value.text)
    if kind == DOUBLE:
        if isinstance(value, str) and re.fullmatch(r"[+-]?(NaN|INF|Infinity)", value, re.IGNORECASE):
            raise pa.ArrowInvalid(f"from_json() of the text {value} as a double, which engines read differently")
        if not isinstance(value, _Number):
            raise _OtherType
        if math.isinf(float(value.text)):
            raise pa.ArrowInvalid(f"from_json() of the number {value.text}, which is too large for a double")
        return float(value.text)
    if kind == BOOLEAN:
        if not isinstance(value, bool):
            raise _OtherType
        return value
    return _storable(value) if isinstance(value, str) else _text_of(call, value)


def _decimal(value: Any, kind: Decimal) -> decimal.Decimal:
    if not isinstance(value, _Number):
        if isinstance(value, str) and value:
            raise pa.ArrowInvalid("from_json() of a text as a decimal, which engines read differently")
        raise _OtherType
    number = decimal.Decimal(value.text)
    rounded = number.quantize(decimal.Decimal(1).scaleb(-kind.scale), decimal.ROUND_HALF_UP, decimal.Context(prec=400))
    if number.adjusted() > 38 or rounded.adjusted() >= kind.precision - kind.scale:
        raise _OtherType
    return rounded


def _moment(call: Call, value: Any, kind: DataType) -> datetime.date:
    """Of a text in the usual form."""
    if value == "" or not isinstance(value, str | _Number):
        raise _OtherType
    text = value if isinstance(value, str) else ""
    try:
        if kind == DATE:
            return datetime.date.fromisoformat(text if len(text) == 10 else "")
        found = _MOMENT.fullmatch(text)
        if found is None:
            raise ValueError(text)
        day, clock, fraction, offset = found.groups()
        moment = datetime.datetime.fromisoformat(f"{day} {clock}.{(fraction or '0').ljust(6, '0')}")
        if offset is None:
            return _in_zone(moment, call.options[0])
        ahead = datetime.timedelta(hours=int(offset[1:3]), minutes=int(offset[4:])) if offset != "Z" else _NO_TIME
        return (moment + ahead if offset[0] == "-" else moment - ahead).replace(tzinfo=datetime.timezone.utc)
    except (ValueError, OverflowError):
        wanted = "2024-02-29" if kind == DATE else "2024-02-29T10:00:00Z"
        shown = value if isinstance(value, str) else value.text
        raise pa.ArrowInvalid(
            f"from_json() reads a text such as {wanted}, not {shown!r}: read a STRING, and write TRY_CAST"
        ) from None


_NO_TIME = datetime.timedelta(0)


def _in_zone(clock: datetime.datetime, zone: str) -> datetime.datetime:
    if zone == UTC:
        return clock.replace(tzinfo=datetime.timezone.utc)
    found: datetime.datetime = as_instant(pa.array([clock], pa.timestamp("us")), zone)[0].as_py()
    return found


def _of_text(read: Callable[[Call, str], Any]) -> Callable[..., Any]:
    def of_row(call: Call, text: str) -> Any:
        try:
            return read(call, text)
        except RecursionError:
            raise _too_deep(call) from None

    return by_row(of_row)


JSON_KERNELS: dict[str, Callable[..., Any]] = {
    "get_json_object": _of_text(_object_at),
    "json_member": _of_text(_member),
    "from_json": _of_text(_from_json),
}
