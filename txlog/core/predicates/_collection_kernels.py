"""What computes the functions of `COLLECTION_FUNCTIONS`, row by row: `COLLECTION_KERNELS`.

In: a call and its arguments. Out: an array, or a scalar if all arguments are scalars.
"""

from __future__ import annotations

import calendar
import datetime
import itertools
from typing import Any

import pyarrow as pa

from txlog.core.format.schema import LONG, Array, Struct
from txlog.core.predicates._row_kernels import by_row
from txlog.core.predicates.terms.tree import Call

_ELEMENTS_MAX = 1 << 24


def _inserted(call: Call, values: list[Any] | None, place: int | None, value: Any) -> list[Any] | None:
    """Nulls fill what is between the array and the place."""
    if values is None or place is None:
        return None
    if place == 0 or abs(place) > _ELEMENTS_MAX:
        raise pa.ArrowInvalid(f"array_insert() at position {place}: positions begin at 1, or at -1 from the end")
    if place > 0:
        return [*values[: place - 1], *[None] * (place - 1 - len(values)), value, *values[place - 1 :]]
    at = len(values) + place + 1
    return [*values[:at], value, *values[at:]] if at >= 0 else [value, *[None] * -at, *values]


def _overlaps(call: Call, one: list[Any], other: list[Any]) -> bool | None:
    if {*one} & {*other} - {None}:
        return True
    return None if one and other and (None in one or None in other) else False


def _zipped(call: Call, *arrays: list[Any]) -> list[dict[str, Any]]:
    assert isinstance(call.type, Array)
    assert isinstance(call.type.element, Struct)
    names = call.type.element.names
    return [dict(zip(names, row, strict=True)) for row in itertools.zip_longest(*arrays)]


def _element(call: Call, values: list[Any], place: int) -> Any:
    if place == 0:
        raise pa.ArrowInvalid("try_element_at() at index 0: indexes begin at 1")
    return values[place - 1 if place > 0 else place] if abs(place) <= len(values) else None


def _as_map(call: Call, pairs: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    keys = [key for key, _ in pairs]
    if None in keys:
        raise pa.ArrowInvalid(f"{call.name}() has a key that is NULL")
    if len({*keys}) < len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise pa.ArrowInvalid(f"{call.name}() has the key {twice!r} twice")
    return pairs


def _from_arrays(call: Call, keys: list[Any], values: list[Any]) -> list[tuple[Any, Any]]:
    if len(keys) != len(values):
        raise pa.ArrowInvalid(f"map_from_arrays() has {len(keys)} keys and {len(values)} values")
    return _as_map(call, list(zip(keys, values, strict=True)))


def _from_entries(call: Call, entries: list[Any]) -> list[tuple[Any, Any]] | None:
    if None in entries:
        return None
    key, value = call.options[:2]
    return _as_map(call, [(each[key], each[value]) for each in entries])


def _times(call: Call, start: Any, stop: Any) -> list[Any]:
    """From the start by whole steps: of months, on the same day or the last one."""
    count, is_of_months = call.options[:2]
    if is_of_months:
        many = (stop.year - start.year) * 12 + stop.month - start.month
        found = [_months_later(start, each) for each in range(0, many + (1 if count > 0 else -1), count)]
        return [each for each in found if (each <= stop if count > 0 else each >= stop)]
    step = datetime.timedelta(microseconds=count)
    return [start + at * step for at in range(_count_of_times(call, start, stop))]


def _count_of_times(call: Call, start: Any, stop: Any) -> int:
    count, is_of_months = call.options[:2]
    if (stop > start and count < 0) or (stop < start and count > 0):
        unit = "months" if is_of_months else "microseconds"
        raise pa.ArrowInvalid(f"sequence() from {start} to {stop} by {count} {unit} has no end")
    step = datetime.timedelta(days=28 * count) if is_of_months else datetime.timedelta(microseconds=count)
    found: int = (stop - start) // step + 1
    return found


def _months_later(day: Any, months: int) -> Any:
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    return day.replace(year=year, month=month + 1, day=min(day.day, calendar.monthrange(year, month + 1)[1]))


def _parted(call: Call, text: str) -> list[tuple[Any, Any]]:
    pairs, values = call.options[:2]
    parts = (each.partition(values) for each in text.split(pairs))
    return _as_map(call, [(key, value if sign else None) for key, sign, value in parts])


def _shifted_right(call: Call, number: int, count: int) -> int:
    bits = 64 if call.type == LONG else 32
    count %= bits
    if call.name == "shiftright":
        return number >> count
    found: int = (number & (2**bits - 1)) >> count
    return found - 2**bits if found >> (bits - 1) else found


COLLECTION_KERNELS: dict[str, Any] = {
    "array_remove": by_row(
        lambda call, values, unwanted: [each for each in values if each is None or each != unwanted]
    ),
    "array_compact": by_row(lambda call, values: [each for each in values if each is not None]),
    "array_insert": by_row(_inserted, takes_null=True),
    "arrays_overlap": by_row(_overlaps),
    "arrays_zip": by_row(_zipped),
    "try_element_at": by_row(_element),
    "map_entries": by_row(lambda call, pairs: [{"key": key, "value": value} for key, value in pairs]),
    "map_concat": by_row(lambda call, *maps: _as_map(call, [*itertools.chain.from_iterable(maps)])),
    "map_from_arrays": by_row(_from_arrays),
    "map_from_entries": by_row(_from_entries),
    "map_contains_key": by_row(lambda call, pairs, key: any(name == key for name, _ in pairs)),
    "sequence_of_times": by_row(_times, count=_count_of_times, most=_ELEMENTS_MAX),
    "str_to_map": by_row(_parted),
    "shiftright": by_row(_shifted_right),
    "shiftrightunsigned": by_row(_shifted_right),
}
COLLECTION_FALLIBLE = frozenset(
    (
        "array_insert",
        "try_element_at",
        "map_concat",
        "map_from_arrays",
        "map_from_entries",
        "sequence_of_times",
        "str_to_map",
    )
)
"""Those that can raise for some row."""
