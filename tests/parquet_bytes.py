"""Parquet files whose footer says something else than its writer would, byte by byte; and the footers of such writers.

In: the bytes of a whole file. Out: the same pages below another footer. The footer is a tree: a struct is a dict of its
fields, each with its type in Thrift's compact protocol; a list is its element type and its values. parquet-format,
``parquet.thrift``.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["altered", "chunk_of", "parquet_of", "short_chunk", "shorter_pages", "statistics_of", "written_by"]

I64, BINARY, LIST, STRUCT = 6, 8, 9, 12
CREATED_BY, NUM_ROWS, ROW_GROUPS, COLUMN_ORDERS = 6, 3, 4, 7


def parquet_of(rows: pa.Table, **options: Any) -> bytes:
    body = io.BytesIO()
    pq.write_table(rows, body, **options)
    return body.getvalue()


def altered(body: bytes, change: Callable[[dict[int, Any]], None]) -> bytes:
    """The file with the footer that ``change`` makes of its own, in place."""
    size = int.from_bytes(body[-8:-4], "little")
    footer, _ = _read_struct(body, len(body) - 8 - size)
    change(footer)
    made = _struct(footer)
    return body[: -8 - size] + made + len(made).to_bytes(4, "little") + b"PAR1"


def written_by(body: bytes, created_by: str | None, *, has_orders: bool, old_bounds: bool = False) -> bytes:
    """The file as another program would have signed it. ``old_bounds``: with bounds under their old names only."""

    def change(footer: dict[int, Any]) -> None:
        footer.pop(CREATED_BY)
        if created_by is not None:
            footer[CREATED_BY] = BINARY, created_by.encode()
        if not has_orders:
            footer.pop(COLUMN_ORDERS)
        for statistics in _all_statistics(footer) if old_bounds else ():
            statistics |= {2: statistics.pop(6), 1: statistics.pop(5)}

    return altered(body, change)


def statistics_of(footer: dict[int, Any], column: int, group: int = 0) -> dict[int, Any]:
    """1 and 2 are the old maximum and minimum, 3 is the null count, 5 and 6 are the maximum and the minimum."""
    found: dict[int, Any] = chunk_of(footer, column, group)[12][1]
    return found


def short_chunk(body: bytes, column: int, group: int = 0) -> bytes:
    """The file with a column chunk that ends before its first value, though the footer counts its rows."""
    return altered(body, lambda footer: chunk_of(footer, column, group).update({5: (I64, 0)}))


def shorter_pages(body: bytes, column: int, group: int, other: int) -> bytes:
    """The file with the pages of another row group in a column chunk, which the footer counts as before."""

    def change(footer: dict[int, Any]) -> None:
        chunk = chunk_of(footer, column, group)
        chunk |= {field: value for field, value in chunk_of(footer, column, other).items() if field in (6, 7, 9, 11)}

    return altered(body, change)


def chunk_of(footer: dict[int, Any], column: int, group: int) -> dict[int, Any]:
    """The ``ColumnMetaData`` of a column in a row group; field 12 has its statistics."""
    groups = footer[ROW_GROUPS][1][1]
    found: dict[int, Any] = groups[group][1][1][1][column][3][1]
    return found


def _all_statistics(footer: dict[int, Any]) -> list[dict[int, Any]]:
    return [
        column[3][1][12][1] for group in footer[ROW_GROUPS][1][1] for column in group[1][1][1] if 12 in column[3][1]
    ]


# --- Thrift's compact protocol ----------------------------------------------------------------------------------------


def _read_varint(body: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        number |= (body[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if body[at - 1] < 128:
            return number, at


def _read(body: bytes, at: int, kind: int) -> tuple[Any, int]:
    if kind in (1, 2):
        return None, at
    if kind in (4, 5, 6):
        number, at = _read_varint(body, at)
        return (number >> 1) ^ -(number & 1), at
    if kind in (3, 7):
        width = 1 if kind == 3 else 8
        return body[at : at + width], at + width
    if kind == BINARY:
        size, at = _read_varint(body, at)
        return body[at : at + size], at + size
    if kind == LIST:
        size, element, at = body[at] >> 4, body[at] & 15, at + 1
        if size == 15:
            size, at = _read_varint(body, at)
        values = []
        for _ in range(size):
            value, at = (body[at], at + 1) if element in (1, 2) else _read(body, at, element)
            values.append(value)
        return (element, values), at
    assert kind == STRUCT, kind
    return _read_struct(body, at)


def _read_struct(body: bytes, at: int) -> tuple[dict[int, Any], int]:
    fields: dict[int, Any] = {}
    last = 0
    while body[at]:
        kind, step, at = body[at] & 15, body[at] >> 4, at + 1
        if step:
            last += step
        else:
            number, at = _read_varint(body, at)
            last = number >> 1
        value, at = _read(body, at, kind)
        fields[last] = kind, value
    return fields, at + 1


def _varint(number: int) -> bytes:
    return bytes([number & 127 | 128]) + _varint(number >> 7) if number > 127 else bytes([number])


def _value(kind: int, value: Any) -> bytes:
    if kind in (1, 2):
        return b""
    if kind in (4, 5, 6):
        return _varint((value << 1) ^ (value >> 63))
    if kind in (3, 7):
        return bytes(value)
    if kind == BINARY:
        return _varint(len(value)) + bytes(value)
    if kind == LIST:
        element, values = value
        head = (
            bytes([len(values) << 4 | element]) if len(values) < 15 else bytes([0xF0 | element]) + _varint(len(values))
        )
        return head + b"".join(bytes([each]) if element in (1, 2) else _value(element, each) for each in values)
    return _struct(value)


def _struct(fields: dict[int, Any]) -> bytes:
    body, last = b"", 0
    for field in sorted(fields):
        kind, value = fields[field]
        step = field - last
        body += (bytes([step << 4 | kind]) if step < 16 else bytes([kind]) + _varint(2 * field)) + _value(kind, value)
        last = field
    return body + b"\0"
