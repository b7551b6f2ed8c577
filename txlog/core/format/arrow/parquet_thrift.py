"""Thrift's compact protocol, in which footers and page headers of Parquet files are encoded.

In: bytes. Out: structs as mappings of their fields, and bytes again. Thrift, "Thrift Compact protocol encoding".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

ThriftStruct: TypeAlias = Mapping[int, tuple[int, Any]]
"""By its number, each field's type and value. A list's value is the type of its elements, and these."""

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, _, STRUCT = range(1, 13)
NOTHING = (LIST, (STRUCT, ()))
_DOUBLE_BYTES = 8


def structs(field: tuple[int, Any]) -> Sequence[ThriftStruct]:
    found: Sequence[ThriftStruct] = field[1][1]
    return found


def read_struct(body: bytes | memoryview, at: int) -> tuple[dict[int, Any], int]:
    """A struct, and the position after it. Raises IndexError, ValueError."""
    found: dict[int, Any] = {}
    field = 0
    while head := body[at]:
        at += 1
        if head >> 4:
            field += head >> 4
        else:
            field, at = _signed(body, at)
        kind = head & 15
        value = None  # a boolean is in the type
        if kind not in (TRUE, FALSE):
            value, at = _value(body, at, kind)
        found[field] = (kind, value)
    return found, at + 1


def _value(body: bytes | memoryview, at: int, kind: int) -> tuple[Any, int]:
    if kind in (I16, I32, I64):
        return _signed(body, at)
    if kind == STRUCT:
        return read_struct(body, at)
    if kind in (LIST, SET):
        count, at = body[at] >> 4, at + 1
        element = body[at - 1] & 15
        if count == 15:
            count, at = _varint(body, at)
        values = []
        for _ in range(count):
            value, at = _value(body, at, element)
            values.append(value)
        return (element, values), at
    if kind == BINARY:
        length, at = _varint(body, at)
    elif kind in (TRUE, FALSE, BYTE):
        length = 1
    elif kind == DOUBLE:
        length = _DOUBLE_BYTES
    else:
        raise ValueError(f"parquet.thrift has no type {kind}")
    if at + length > len(body):
        raise IndexError
    return body[at : at + length], at + length


def _varint(body: bytes | memoryview, at: int) -> tuple[int, int]:
    number = shift = 0
    while (byte := body[at]) > 127:
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
    return number | byte << shift, at + 1


def _signed(body: bytes | memoryview, at: int) -> tuple[int, int]:
    number, at = _varint(body, at)
    return (number >> 1) ^ -(number & 1), at


def put_struct(out: bytearray, fields: ThriftStruct) -> None:
    last = 0
    for field in sorted(fields):
        kind, value = fields[field]
        if 0 < field - last < 16:
            out.append((field - last) << 4 | kind)
        else:
            out.append(kind)
            _put_signed(out, field)
        last = field
        if value is not None:
            _put(out, kind, value)
    out.append(0)


def _put(out: bytearray, kind: int, value: Any) -> None:
    if kind in (I16, I32, I64):
        _put_signed(out, value)
    elif kind == STRUCT:
        put_struct(out, value)
    elif kind in (LIST, SET):
        element, values = value
        if len(values) < 15:
            out.append(len(values) << 4 | element)
        else:
            out.append(0xF0 | element)
            put_varint(out, len(values))
        for each in values:
            _put(out, element, each)
    else:
        if kind == BINARY:
            put_varint(out, len(value))
        out += value


def put_varint(out: bytearray, number: int) -> None:
    """Append an unsigned number."""
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)


def _put_signed(out: bytearray, number: int) -> None:
    put_varint(out, number << 1 if number >= 0 else ~(number << 1))
