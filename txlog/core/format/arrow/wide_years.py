"""Python values of Arrow columns, whose dates and timestamps may lie outside of Python's years, 1 to 9999.

In: columns, rows or single values of a table. Out: Python values for people, in which such a date or timestamp is its
text in ISO 8601, with a sign before a year beyond 9999. A package may show the values of its type in its own way. All
other values are what pyarrow makes of them. Pure.
"""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from txlog.core.format.type_support import shown_by_packages

_FIRST_DAY = -719_162  # of the year 1, in days since the epoch
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097  # after which the calendar repeats
_SECOND_US = 1_000_000
_DAY_US = 86_400 * _SECOND_US
_LAST_YEAR = 9999
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def python_rows(rows: pa.RecordBatch | pa.Table, *, maps_as_pydicts: Any = None) -> list[dict[str, Any]]:
    """As ``to_pylist`` of pyarrow, which raises for such a date."""
    try:
        found: list[dict[str, Any]] = rows.to_pylist(maps_as_pydicts=maps_as_pydicts)
    except OverflowError:
        names = rows.schema.names
        columns = [python_values(column, maps_as_pydicts=maps_as_pydicts) for column in rows.columns]
        found = [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
    return found


def python_values(column: pa.Array | pa.ChunkedArray, *, maps_as_pydicts: Any = None) -> list[Any]:
    """As ``to_pylist`` of pyarrow, which raises for such a date."""
    shown = shown_by_packages(column) if pa.types.is_struct(column.type) else None
    if shown is not None:
        return shown
    try:
        found: list[Any] = column.to_pylist(maps_as_pydicts=maps_as_pydicts)
    except OverflowError:
        found = [python_value(value, maps_as_pydicts=maps_as_pydicts) for value in column]
    return found


def python_value(value: pa.Scalar, *, maps_as_pydicts: Any = None) -> Any:
    """As ``as_py`` of pyarrow, which raises for such a date."""
    try:
        return value.as_py(maps_as_pydicts=maps_as_pydicts)
    except OverflowError:
        pass
    if isinstance(value, pa.StructScalar):
        return {name: python_value(member, maps_as_pydicts=maps_as_pydicts) for name, member in value.items()}
    if isinstance(value, pa.MapScalar):
        columns = [pc.struct_field(value.values, part) for part in (0, 1)]
        pairs = zip(*(python_values(part, maps_as_pydicts=maps_as_pydicts) for part in columns), strict=True)
        return list(pairs) if maps_as_pydicts is None else dict(pairs)
    if isinstance(value, pa.ListScalar):
        return python_values(value.values, maps_as_pydicts=maps_as_pydicts)
    if isinstance(value, pa.Date32Scalar):
        return date_text(value.value)
    if isinstance(value, pa.TimestampScalar):
        text = timestamp_text(value.value * _SECOND_US // _PER_SECOND[value.type.unit])
        return text if value.type.tz is None else f"{text}+00:00"
    raise TypeError(f"a value of type {value.type} has no text")


def is_beyond_python(value: pa.Scalar) -> bool:
    """Whether it is such a date or timestamp."""
    try:
        value.as_py()
    except OverflowError:
        return True
    return False


def date_text(days: int) -> str:
    """A date by its days since the epoch."""
    cycles, day = divmod(days - _FIRST_DAY, _CYCLE_DAYS)
    date = datetime.date.fromordinal(day + 1)
    year = date.year + cycles * _CYCLE_YEARS
    sign = "+" if year > _LAST_YEAR else "-" if year < 0 else ""
    return f"{sign}{abs(year):04}-{date.month:02}-{date.day:02}"


def timestamp_text(microseconds: int) -> str:
    """A timestamp by its microseconds since the epoch, as ``isoformat`` writes it without a time zone."""
    days, rest_us = divmod(microseconds, _DAY_US)
    time = (datetime.datetime.min + datetime.timedelta(microseconds=rest_us)).time()
    return f"{date_text(days)}T{time.isoformat()}"
