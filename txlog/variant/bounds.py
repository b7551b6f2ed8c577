"""Bounds of the parts of variants in a file, as the log has them in ``minValues`` and ``maxValues``.

In: the least and greatest values of parts, by their paths; or the text in the log, which may be another writer's and
hostile. Out: the text, or bounds as statistics of plain columns are written. Pure. PROTOCOL.md, "Statistics for Variant
Columns".
"""

from __future__ import annotations

import datetime
import decimal
import math
import struct
from collections.abc import Callable, Mapping
from typing import Any

from txlog.core.format.schema import (
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMPS,
    DataType,
    Decimal,
)
from txlog.core.format.statistics import LAST_CHARACTER
from txlog.core.format.z85 import z85, z85_bytes
from txlog.variant.encoding import Part, encode_value, metadata_of, names_of, object_of

_TEXT_MAX = 32
_ESCAPED = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", "'": "\\'", "\\": "\\\\"}
_EXACT_DOUBLE = 1 << 53


def path_text(path: tuple[str, ...]) -> str:
    """``$['a']['b']``, a normalized path of RFC 9535."""
    return "$" + "".join(f"['{''.join(map(_escaped, name))}']" for name in path)


def _escaped(character: str) -> str:
    return _ESCAPED.get(character) or (f"\\u{ord(character):04x}" if character < " " else character)


# --- to the log -----------------------------------------------------------------------------------------------------


def encoded_bounds(known: Mapping[tuple[str, ...], tuple[DataType, Any, Any]], *, is_maximum: bool) -> str | None:
    """The text of one tree for these parts, each with its type, its least and its greatest value; None for no part."""
    fields = {
        path_text(path): _written(data_type, high if is_maximum else low, is_maximum=is_maximum)
        for path, (data_type, low, high) in known.items()
    }
    names = sorted((name for name, value in fields.items() if value is not None), key=str.encode)
    if not names:
        return None
    value = object_of(range(len(names)), [fields[name] or b"" for name in names])
    return z85(metadata_of(names) + value)


def _written(data_type: DataType, value: Any, *, is_maximum: bool) -> bytes | None:
    """The value in its type's own width: both bounds of a part have one type. None if it is no bound."""
    if data_type == LONG:
        return bytes((6 << 2,)) + struct.pack("<q", value)
    if isinstance(data_type, Decimal):
        kind, width = (9, 8) if data_type.precision <= 18 else (10, 16)
        unscaled = int(value.scaleb(data_type.scale, _WIDE))
        return bytes((kind << 2, data_type.scale)) + unscaled.to_bytes(width, "little", signed=True)
    if data_type == STRING and len(value) > _TEXT_MAX:
        value = value[:_TEXT_MAX] + LAST_CHARACTER if is_maximum else value[:_TEXT_MAX]
    return encode_value(value, {})


_WIDE = decimal.Context(prec=80)


# --- from the log ---------------------------------------------------------------------------------------------------


def bound_of_part(text: Any, path: str, data_type: DataType, *, is_maximum: bool) -> Any:
    """The bound of the part at a path, as a plain column of this type has it in the statistics' JSON.

    None if the text has none for it, or one whose order is not that of the type. Text that is no variant has no bounds.
    """
    try:
        body = z85_bytes(text) if isinstance(text, str) else b""
        names = names_of(body)
        found = next((part for name, part in Part(names, body, _end_of_names(body)).fields() if name == path), None)
        return None if found is None else _as_type(found, data_type, is_maximum)
    except (ValueError, OverflowError, ArithmeticError):  # as for a malformed variant
        return None


def text_of_bounds(metadata: bytes, value: bytes) -> str:
    """The text of bounds that a checkpoint has as a variant."""
    return z85(metadata + value)


def bounds_of_text(text: str) -> tuple[bytes, bytes] | None:
    """``(metadata, value)`` of the text of bounds; None if it is none."""
    try:
        body = z85_bytes(text)
        names = names_of(body)
        end = _end_of_names(body)
        part = Part(names, body, end)
        part.python()  # checks it whole: readers of checkpoints trust what is typed
        return body[:end], part.encoded()
    except ValueError:
        return None


def _end_of_names(body: bytes) -> int:
    width = (body[0] >> 6) + 1
    count = int.from_bytes(body[1 : 1 + width], "little")
    start = 1 + width * (count + 2)
    return start + int.from_bytes(body[start - width : start], "little")


def _as_type(part: Part, target: DataType, is_maximum: bool) -> Any:
    """The bound of the values after the cast to ``target``; None if the cast has another order, or may fail."""
    kind, value = part.kind, part.python()
    if kind in ("byte", "short", "integer", "long"):
        return _of_whole(value, target)
    if kind == "decimal":
        return _of_decimal(value, target, is_maximum)
    if kind in ("double", "float"):
        # The maximum of another writer may leave NaN out, which is above all numbers.
        is_same = target == DOUBLE or (kind == "float" and target == FLOAT)
        return float(value) if is_same and not is_maximum and math.isfinite(value) else None
    same = {STRING.name: STRING, BOOLEAN.name: BOOLEAN, DATE.name: DATE, **{each.name: each for each in TIMESTAMPS}}
    if same.get(kind) != target or isinstance(value, tuple):
        return None
    return _AS_TEXT[kind](value) if kind in _AS_TEXT else value


def _of_whole(value: int, target: DataType) -> Any:
    bits = _BITS.get(target)
    if bits is not None:
        return value if -(1 << bits) <= value < 1 << bits else None
    if isinstance(target, Decimal):
        return value if abs(value) < 10 ** (target.precision - target.scale) else None
    return float(value) if target == DOUBLE and abs(value) <= _EXACT_DOUBLE else None


def _of_decimal(value: decimal.Decimal, target: DataType, is_maximum: bool) -> Any:
    if target in _BITS:
        return _of_whole(int(value), target)  # toward zero, which keeps the order
    if isinstance(target, Decimal):
        scale = -int(value.as_tuple().exponent)
        fits = scale <= target.scale and abs(value) < 10 ** (target.precision - target.scale)
        return float(value) if fits else None
    return math.nextafter(float(value), math.inf if is_maximum else -math.inf) if target == DOUBLE else None


_BITS: Mapping[DataType, int] = {BYTE: 7, SHORT: 15, INTEGER: 31, LONG: 63}
_AS_TEXT: Mapping[str, Callable[[Any], str]] = {
    DATE.name: lambda value: str(value),
    **{
        each.name: lambda value: (
            value.astimezone(datetime.timezone.utc).isoformat().replace("+00:00", "Z")
            if value.tzinfo
            else value.isoformat()
        )
        for each in (TIMESTAMP, *TIMESTAMPS)
    },
}
