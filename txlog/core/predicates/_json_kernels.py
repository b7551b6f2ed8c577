"""``get_json_object`` and ``from_json``: values in JSON texts, as Spark reads them.

In: JSON texts, and a path or a schema from the call. Out: texts, or structs. A text that is not JSON has no values.
Where Spark reads more than JSON (single quotes), or writes a number in Java's way, the row is refused.
"""

from __future__ import annotations

import decimal
import json
import math
import re
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any

import msgspec
import pyarrow as pa

from txlog.core.format.schema import BOOLEAN, DOUBLE, INTEGER, LONG, DataType, Struct
from txlog.core.predicates._row_kernels import by_row
from txlog.core.predicates.terms.tree import Call


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
    found = next(_values_at(_read(call, text), call.options[0]), None)
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


# --- from_json --------------------------------------------------------------------------------------------------


def _struct_of(call: Call, text: str) -> dict[str, Any] | None:
    """The fields that the text has; null for a value of another type. Of members with one name, the last counts."""
    if not text.strip(" \t\r\n"):
        return None
    assert isinstance(call.type, Struct)
    fields = {field.name: field.type for field in call.type.fields}
    found = dict.fromkeys(fields, None)
    value = _read(call, text)
    if isinstance(value, list):
        raise pa.ArrowInvalid("from_json() of an array, which engines read differently")
    for name, each in value.members if isinstance(value, _Object) else ():
        if name in fields:
            found[name] = _converted(call, each, fields[name])
    return found


def _converted(call: Call, value: Any, kind: DataType) -> Any:
    if value is None:
        return None
    if kind in (INTEGER, LONG):
        if not isinstance(value, _Number) or not value.is_whole:
            return None
        number, limit = decimal.Decimal(value.text), 2**31 if kind == INTEGER else 2**63
        return int(number) if -limit <= number < limit else None
    if kind == DOUBLE:
        if isinstance(value, str) and re.fullmatch(r"[+-]?(NaN|INF|Infinity)", value, re.IGNORECASE):
            raise pa.ArrowInvalid(f"from_json() of the text {value} as a double, which engines read differently")
        if isinstance(value, _Number) and math.isinf(float(value.text)):
            raise pa.ArrowInvalid(f"from_json() of the number {value.text}, which is too large for a double")
        return float(value.text) if isinstance(value, _Number) else None
    if kind == BOOLEAN:
        return value if isinstance(value, bool) else None
    return _storable(value) if isinstance(value, str) else _text_of(call, value)


def _of_text(read: Callable[[Call, str], Any]) -> Callable[..., Any]:
    def of_row(call: Call, text: str) -> Any:
        try:
            return read(call, text)
        except RecursionError:
            raise _too_deep(call) from None

    return by_row(of_row)


JSON_KERNELS: dict[str, Callable[..., Any]] = {
    "get_json_object": _of_text(_object_at),
    "from_json": _of_text(_struct_of),
}
