"""Functions that no Arrow kernel computes as Spark does: value by value in Python.

In: a call and its arguments as arrays or scalars. Out: an array, or a scalar if all arguments are scalars. A null
argument makes the result null without calling the function.
"""

from __future__ import annotations

import base64
import calendar
import datetime
import decimal
import functools
import hashlib
import itertools
import math
import re
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txlog.core.format.schema import FLOAT, LONG, type_to_arrow
from txlog.core.predicates._time_reading import moment_of
from txlog.core.predicates.terms.tree import Call

_INTEGER_MIN, _INTEGER_MAX = -(2**31), 2**31 - 1
_TEXT_MAX = 1 << 30
_MANY = 1 << 40
VALUES_MAX = 1 << 27
"""Values of arrays that one call makes for all rows of a batch: a gigabyte of bigints."""
_FACTORIAL_MAX = 20
"""Whose product is the last one with 64 bits."""
_LINE_BYTES = 57
"""What a line of MIME holds."""


def by_row(
    function: Callable[..., Any],
    *,
    takes_null: bool = False,
    count: Callable[..., int] | None = None,
    most: int = VALUES_MAX,
) -> Callable[..., Any]:
    """A kernel that calls ``function(call, *values)`` for each row without a null, or for every row. ``count`` gives
    the number of values that a row would get: more than ``most`` in all are an error before memory is gone."""

    def kernel(call: Call, *given: Any) -> Any:
        if count is not None:
            counts = by_row(count, takes_null=takes_null)(Call(call.name, call.arguments, LONG, call.options), *given)
            if ((counts if isinstance(counts, pa.Scalar) else pc.sum(counts)).as_py() or 0) > most:
                raise pa.ArrowInvalid(f"it makes more than {most} values for these rows, too many for memory")
        kind = type_to_arrow(call.type)
        lengths = [len(values) for values in given if not isinstance(values, pa.Scalar)]
        columns = [
            itertools.repeat(values.as_py()) if isinstance(values, pa.Scalar) else values.to_pylist()
            for values in given
        ]
        rows = zip(*columns) if lengths else [tuple(values.as_py() for values in given)]  # noqa: B905  repeat() has no end
        found = [
            None if not takes_null and any(value is None for value in row) else function(call, *row) for row in rows
        ]
        made = pa.array(found, kind)
        return made if lengths else made[0]

    return kernel


# --- strings --------------------------------------------------------------------------------------------------


def _locate(call: Call, search: str | None, text: str | None, start: int | None) -> int | None:
    """As in Spark, a place that is null or before the text is found nowhere, whatever else is null."""
    if start is None:
        return 0
    if search is None or text is None:
        return None
    if start < 1:
        return 0
    return text.find(search, start - 1) + 1 if search else 1


def _joined(call: Call, separator: str | None, *given: str | list[str | None] | None) -> str | None:
    """Without the nulls. (Arrow's kernel repeats the value of an earlier row where the last text is null.)"""
    texts = itertools.chain.from_iterable(each if isinstance(each, list) else (each,) for each in given)
    return None if separator is None else separator.join(text for text in texts if text is not None)


def _part_of(call: Call, value: Any, position: int, length: int) -> Any:
    """As in Spark, the part of a place before the first letter counts too: ``substring('ab', -3, 2)`` is ``a``."""
    start = position - 1 if position > 0 else len(value) + position if position < 0 else 0
    stop = start + length
    return value[max(start, 0) : max(stop, 0)] if stop > start else value[:0]


def _stripped(call: Call, text: str, letters: str) -> str:
    match call.options[0]:
        case "LEADING":
            return text.lstrip(letters)
        case "TRAILING":
            return text.rstrip(letters)
    return text.strip(letters)


def _is_like(call: Call, text: str, pattern: str) -> bool:
    return _like_regex(pattern).fullmatch(text) is not None


@functools.lru_cache(1000)
def _like_regex(pattern: str) -> re.Pattern[str]:
    found = []
    for part in re.findall(r"\\?.", pattern, re.DOTALL):
        if part[0] == "\\" and part not in ("\\\\", "\\%", "\\_"):
            raise pa.ArrowInvalid("in a LIKE pattern, a backslash must be followed by %, _ or another backslash")
        found.append({"%": ".*", "_": "."}.get(part) or re.escape(part[-1]))
    return re.compile("".join(found), re.DOTALL)


def _chosen_by_place(call: Call, place: int | None, *values: str | None) -> str | None:
    if place is None:
        return None
    if not 1 <= place <= len(values):
        raise pa.ArrowInvalid(f"elt() at index {place} of {len(values)} values: indexes begin at 1")
    return values[place - 1]


def _letter(call: Call, number: int) -> str:
    return "" if number < 0 else chr(number & 0xFF)


def _padded(call: Call, text: str, length: int, pad: str) -> str:
    if length <= 0:
        return ""
    missing = length - len(text)
    if missing <= 0 or not pad:
        return text[:length]
    if length > _TEXT_MAX:
        raise pa.ArrowInvalid(f"{call.name}() of more than {_TEXT_MAX} letters")
    filling = (pad * (missing // len(pad) + 1))[:missing]
    return filling + text if call.name == "lpad" else text + filling


def _repeated(call: Call, text: str, count: int) -> str:
    if len(text) * max(count, 0) > _TEXT_MAX:
        raise pa.ArrowInvalid(f"repeat() makes more than {_TEXT_MAX} letters")
    return text * max(count, 0)


def _translated(call: Call, text: str, old: str, new: str) -> str:
    letters: dict[int, str | None] = {}
    for at, letter in enumerate(old):
        letters.setdefault(ord(letter), new[at] if at < len(new) else None)
    return text.translate(letters)


def _substring_index(call: Call, text: str, separator: str, count: int) -> str:
    """As in Spark, separators may overlap: each is searched for one letter after, or before, the start of the last."""
    if not separator or not count:
        return ""
    at = -1 if count > 0 else len(text) - len(separator) + 1
    for _ in range(abs(count)):
        if count < 0 and at < 1:
            return text
        at = text.find(separator, at + 1) if count > 0 else text.rfind(separator, 0, at - 1 + len(separator))
        if at < 0:
            return text
    return text[:at] if count > 0 else text[at + len(separator) :]


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _digest(call: Call, value: str | bytes) -> str:
    return hashlib.new(call.options[0], _bytes(value), usedforsecurity=False).hexdigest()


def _unhex(call: Call, text: str) -> bytes | None:
    if re.fullmatch("[0-9a-fA-F]*", text) is None:
        raise pa.ArrowInvalid(f"unhex() of {text!r}, which is not a hexadecimal number")
    return bytes.fromhex(text if len(text) % 2 == 0 else f"0{text}")


def _unbase64(call: Call, text: str) -> bytes:
    try:
        return base64.b64decode(text.replace("\r\n", ""), validate=True)
    except ValueError:
        raise pa.ArrowInvalid(f"unbase64() of {text!r}, which is not in base 64") from None


def _base64(call: Call, value: str | bytes) -> str:
    if len(_bytes(value)) > _LINE_BYTES:
        raise pa.ArrowInvalid(f"base64() of more than {_LINE_BYTES} bytes, which engines break into lines differently")
    return base64.b64encode(_bytes(value)).decode()


def _factorial(call: Call, number: int) -> int | None:
    return math.factorial(number) if 0 <= number <= _FACTORIAL_MAX else None


def _hex_of(call: Call, value: int | str | bytes) -> str:
    return f"{value & (2**64 - 1):X}" if isinstance(value, int) else _bytes(value).hex().upper()


# --- numbers --------------------------------------------------------------------------------------------------

_ROUNDINGS = {"round": decimal.ROUND_HALF_UP, "bround": decimal.ROUND_HALF_EVEN}
_CONTEXT = decimal.Context(prec=400, Emax=9999, Emin=-9999)


def _rounded(call: Call, value: Any) -> Any:
    """Doubles are rounded as they are written: 2.675 to 2.68, whatever the nearest binary value is."""
    (digits,) = call.options
    if isinstance(value, float):
        if not math.isfinite(value):
            return value
        written = decimal.Decimal(str(np.float32(value)) if call.type == FLOAT else repr(value))
    else:
        written = decimal.Decimal(value)
    exponent = decimal.Decimal(1).scaleb(-digits)
    found = written.quantize(exponent, _ROUNDINGS[call.name], _CONTEXT)
    if isinstance(value, float):
        return float(found) if found else 0.0
    return int(found) if isinstance(value, int) else found


# --- dates and times ------------------------------------------------------------------------------------------


def _parsed(call: Call, text: str) -> Any:
    try:
        moment = moment_of(call.options[0], call.name, text)
    except ValueError as error:
        raise pa.ArrowInvalid(f"{call.name}() cannot read {text!r} as {call.options[0]!r}: {error}") from None
    return moment.date() if call.name == "to_date" else moment


def _months_later(call: Call, value: Any, count: int) -> Any:
    months = value.year * 12 + value.month - 1 + count
    year, month = divmod(months, 12)
    if not 1 <= year <= 9999:
        raise pa.ArrowInvalid(f"{value} and {count} months are in the year {year}")
    day = min(value.day, calendar.monthrange(year, month + 1)[1])
    return value.replace(year=year, month=month + 1, day=day)


def _interval_later(call: Call, value: Any) -> Any:
    return _months_later(call, value, call.options[0])


def _last_day(call: Call, value: datetime.date) -> datetime.date:
    return value.replace(day=calendar.monthrange(value.year, value.month)[1])


def _made_date(call: Call, year: int, month: int, day: int) -> datetime.date:
    try:
        return datetime.date(year, month, day)
    except ValueError as error:
        raise pa.ArrowInvalid(f"make_date({year}, {month}, {day}): {error}") from None


def _made_timestamp(call: Call, year: int, month: int, day: int, hour: int, minute: int, second: Any) -> Any:
    """A second of 60 is the next minute, if it has no fraction."""
    try:
        whole = int(second)
        moment = datetime.datetime(year, month, day, hour, minute, 0 if second == 60 else whole)
        return moment + datetime.timedelta(minutes=second == 60, microseconds=int((second - whole) * 1_000_000))
    except (ValueError, OverflowError) as error:
        raise pa.ArrowInvalid(f"make_timestamp({year}, {month}, {day}, {hour}, {minute}, {second}): {error}") from None


# --- arrays and maps ------------------------------------------------------------------------------------------


def _element(call: Call, values: list[Any], index: int) -> Any:
    if index == 0 or abs(index) > len(values):
        raise pa.ArrowInvalid(f"element_at() at index {index} of an array of {len(values)} values: indexes begin at 1")
    return values[index - 1 if index > 0 else index]


def _item(call: Call, values: list[Any], index: int) -> Any:
    if not 0 <= index < len(values):
        raise pa.ArrowInvalid(f"there is no index {index} in an array of {len(values)} values: indexes begin at 0")
    return values[index]


def _value_of(call: Call, pairs: list[tuple[Any, Any]], key: Any) -> Any:
    return next((value for name, value in pairs if name == key), None)


def _contains(call: Call, values: list[Any], wanted: Any) -> bool | None:
    is_nan = isinstance(wanted, float) and math.isnan(wanted)
    if wanted in values or (is_nan and any(value is not None and math.isnan(value) for value in values)):
        return True
    return None if None in values else False


def _distinct(call: Call, values: list[Any]) -> list[Any]:
    return list(dict.fromkeys(values))


def _position(call: Call, values: list[Any], wanted: Any) -> int:
    return values.index(wanted) + 1 if wanted in values else 0


def _sorted(call: Call, values: list[Any]) -> list[Any]:
    nulls = [None] * values.count(None)
    present = sorted((value for value in values if value is not None), reverse=call.options[0] == "descending")
    return [*nulls, *present] if call.options[0] == "nulls first" else [*present, *nulls]


def _most(call: Call, values: list[Any]) -> Any:
    present = [value for value in values if value is not None]
    return (max if call.name == "array_max" else min)(present, default=None)


def _sliced(call: Call, values: list[Any], start: int, length: int) -> list[Any]:
    if start == 0 or length < 0:
        raise pa.ArrowInvalid(f"slice() from position {start}, of {length} values: positions begin at 1")
    first = start - 1 if start > 0 else len(values) + start
    return values[first : first + length] if first >= 0 else []


def _with_last(call: Call, values: list[Any] | None, value: Any) -> list[Any] | None:
    return None if values is None else [*values, value]


def _with_first(call: Call, values: list[Any] | None, value: Any) -> list[Any] | None:
    return None if values is None else [value, *values]


def _united(call: Call, one: list[Any], other: list[Any]) -> list[Any]:
    return list(dict.fromkeys([*one, *other]))


def _common(call: Call, one: list[Any], other: list[Any]) -> list[Any]:
    return list(dict.fromkeys(value for value in one if value in other))


def _without(call: Call, one: list[Any], other: list[Any]) -> list[Any]:
    return list(dict.fromkeys(value for value in one if value not in other))


def _times(call: Call, value: Any, count: int | None) -> list[Any] | None:
    return None if count is None else [value] * count


def _flat(call: Call, values: list[list[Any] | None]) -> list[Any] | None:
    return None if None in values else [value for each in values for value in each or ()]


def _numbers(call: Call, start: int, stop: int, step: int | None = None) -> Any:
    """Up or down to ``stop``, which is in it."""
    steps = np.arange(_count_of_numbers(call, start, stop, step), dtype=np.int64)
    by = step if step is not None else 1 if stop >= start else -1
    return (start + by * steps).astype(type_to_arrow(call.type).value_type.to_pandas_dtype())


def _count_of_numbers(call: Call, start: int, stop: int, step: int | None = None) -> int:
    by = step if step is not None else 1 if stop >= start else -1
    if (by == 0 and start != stop) or (stop - start) * by < 0:
        raise pa.ArrowInvalid(f"sequence() from {start} to {stop} by {by} has no end")
    return min((stop - start) // by + 1 if by else 1, _MANY)


def _divided_half_up(call: Call, number: int, divisor: int) -> int:
    if not divisor:
        raise pa.ArrowInvalid("divide by zero")
    size = (2 * abs(number) + abs(divisor)) // (2 * abs(divisor))
    return size if (number < 0) == (divisor < 0) else -size


def _got(call: Call, values: list[Any], index: int) -> Any:
    return values[index] if 0 <= index < len(values) else None


def _split_part(call: Call, text: str, separator: str, place: int) -> str:
    if place == 0:
        raise pa.ArrowInvalid("split_part() of the part 0: parts begin at 1")
    parts = text.split(separator) if separator else [text]
    at = place - 1 if place > 0 else len(parts) + place
    return parts[at] if 0 <= at < len(parts) else ""


def _capitalized(call: Call, text: str) -> str:
    """The first letter of each word, which ends with a space, and the others small."""
    words = text.lower().split(" ")
    return " ".join(word[:1].title() + word[1:] for word in words)


def _place_in_set(call: Call, text: str, words: str) -> int:
    found = words.split(",")
    return found.index(text) + 1 if text in found else 0


def _shifted(call: Call, number: int, count: int) -> int:
    """In as many bits as the type has, whose first is the sign."""
    bits = 64 if call.type == LONG else 32
    found: int = (number << (count % bits)) & (2**bits - 1)
    return found - 2**bits if found >> (bits - 1) else found


def _distance(call: Call, one: str, other: str) -> int:
    """How many letters to insert, remove or replace."""
    row = list(range(len(other) + 1))
    for at, letter in enumerate(one, 1):
        before, row[0] = row[0], at
        for place, wanted in enumerate(other, 1):
            cost = before + (letter != wanted)
            before, row[place] = row[place], min(cost, row[place] + 1, row[place - 1] + 1)
    return row[-1]


ROW_KERNELS: dict[str, Callable[..., Any]] = {
    "locate": by_row(_locate, takes_null=True),
    "concat_ws": by_row(_joined, takes_null=True),
    "lpad": by_row(_padded),
    "rpad": by_row(_padded),
    "repeat": by_row(_repeated),
    "translate": by_row(_translated),
    "substring_index": by_row(_substring_index),
    "part_of": by_row(_part_of),
    "strip": by_row(_stripped),
    "like_pattern": by_row(_is_like),
    "elt": by_row(_chosen_by_place, takes_null=True),
    "chr": by_row(_letter),
    "bin": by_row(lambda call, number: f"{number & (2**64 - 1):b}"),
    "factorial": by_row(_factorial),
    "unbase64": by_row(_unbase64),
    "concat_arrays": by_row(lambda call, *arrays: list(itertools.chain.from_iterable(arrays))),
    "digest": by_row(_digest),
    "crc32": by_row(lambda call, value: zlib.crc32(_bytes(value))),
    "hex": by_row(_hex_of),
    "unhex": by_row(_unhex),
    "base64": by_row(_base64),
    "round": by_row(_rounded),
    "bround": by_row(_rounded),
    "to_date": by_row(_parsed),
    "to_timestamp": by_row(_parsed),
    "add_months": by_row(_months_later),
    "interval_months": by_row(_interval_later),
    "last_day": by_row(_last_day),
    "make_date": by_row(_made_date),
    "make_timestamp": by_row(_made_timestamp),
    "element_at": by_row(_element),
    "item": by_row(_item),
    "map_value": by_row(_value_of),
    "field": by_row(lambda call, struct: struct[call.options[0]]),
    "array_contains": by_row(_contains),
    "array_distinct": by_row(_distinct),
    "array_position": by_row(_position),
    "sort_array": by_row(_sorted),
    "array_max": by_row(_most),
    "array_min": by_row(_most),
    "slice": by_row(_sliced),
    "split_part": by_row(_split_part),
    "startswith": by_row(lambda call, text, other: text.startswith(other)),
    "endswith": by_row(lambda call, text, other: text.endswith(other)),
    "contains": by_row(lambda call, text, other: other in text),
    "left": by_row(lambda call, text, count: text[: max(count, 0)]),
    "right": by_row(lambda call, text, count: text[-count:] if count > 0 else ""),
    "replace": by_row(lambda call, text, old, new: text.replace(old, new) if old else text),
    "initcap": by_row(_capitalized),
    "ascii": by_row(lambda call, text: ord(text[0]) if text else 0),
    "find_in_set": by_row(_place_in_set),
    "bit_count": by_row(lambda call, number: (number & (2**64 - 1)).bit_count()),
    "shiftleft": by_row(_shifted),
    "array_append": by_row(_with_last, takes_null=True),
    "array_prepend": by_row(_with_first, takes_null=True),
    "array_union": by_row(_united),
    "array_intersect": by_row(_common),
    "array_except": by_row(_without),
    "array_repeat": by_row(_times, takes_null=True, count=lambda call, value, count: max(count or 0, 0)),
    "flatten": by_row(_flat),
    "sequence": by_row(_numbers, count=_count_of_numbers),
    "get": by_row(_got),
    "divided_half_up": by_row(_divided_half_up),
    "levenshtein": by_row(_distance),
}

ROW_FALLIBLE = frozenset(
    {
        *("lpad", "rpad", "repeat", "unhex", "base64", "round", "bround"),
        *(
            "to_date",
            "to_timestamp",
            "add_months",
            "interval_months",
            "make_date",
            "make_timestamp",
            "element_at",
            "item",
        ),
        *("slice", "split_part", "array_repeat", "sequence", "like_pattern", "elt", "unbase64", "divided_half_up"),
    }
)
"""Those that can raise for some row."""
