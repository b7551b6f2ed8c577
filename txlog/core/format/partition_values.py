"""Partition values as text: the strings of ``add.partitionValues``, to and from typed values.

In: Arrow arrays or Python values of one partition column. Out: text exactly as Spark writes it, null and empty
both as None; and back. The text decides which partition a file belongs to; its directory (``paths``) does not.
PROTOCOL.md, "Partition Value Serialization".
"""

from __future__ import annotations

import datetime
import decimal
import re
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa

from txlog.core.format.arrow.arrays import array_of, one_array
from txlog.core.format.schema import (
    TIMESTAMP,
    TIMESTAMPS,
    DataType,
    Decimal,
    Field,
    Primitive,
    type_name,
    type_to_arrow,
)
from txlog.core.util import pattern
from txlog.errors import CorruptLogError, InvalidInputError

_DAYS = (-719_162, 2_932_896)
"""0001-01-01 and 9999-12-31, days since the epoch: outside them, engines do not agree on the text."""
_MICROS = (_DAYS[0] * 86_400_000_000, (_DAYS[1] + 1) * 86_400_000_000 - 1)


def partitioning_text(columns: Iterable[str]) -> str:
    """A table's partitioning for error messages: ``partitioned by day``, or ``not partitioned``."""
    names = ", ".join(columns)
    return f"partitioned by {names}" if names else "not partitioned"


# --- values to text -----------------------------------------------------------------------------------------------


def encode(value: Any, data_type: DataType, *, column: str = "the partition column") -> str | None:
    """The text of one Python value (or Arrow scalar), or None for null, ``""`` and ``b""``.

    Raises InvalidInputError naming ``column`` if the value is not of this type or has no text.
    """
    try:
        values = pa.array([value.as_py() if isinstance(value, pa.Scalar) else value])
    except (pa.ArrowException, OverflowError) as error:
        raise InvalidInputError(f"{column}: {value!r} is not a {type_name(data_type)} ({error})") from None
    text: str | None = encode_array(values, data_type, column=column)[0].as_py()
    return text


def encode_array(values: pa.Array, data_type: DataType, *, column: str = "the partition column") -> pa.Array:
    """The texts (``pa.string()``, same length) of an array of this type, or of one that casts to it without loss.

    Raises InvalidInputError naming ``column``: binary that is not UTF-8, a date or timestamp outside the years
    1 to 9999, a value the type cannot hold, a type that no table is partitioned by.
    """
    typed = _cast(one_array(values), _arrow_type(data_type, column), data_type, column)
    if isinstance(data_type, Decimal):
        return _each_distinct(typed, lambda value: format(value, "f"))  # Arrow writes zero as 0E-18
    name = data_type.name if isinstance(data_type, Primitive) else ""
    if name in ("string", "binary"):
        return _null_where_empty(_cast(typed, pa.string(), data_type, column))
    if name == "date":
        _check_range(typed.view(pa.int32()), _DAYS, data_type, column)
    elif data_type in TIMESTAMPS:
        _check_range(typed.view(pa.int64()), _MICROS, data_type, column)
        return _timestamp_texts(typed.view(pa.timestamp("us")).cast(pa.string()), with_zone=data_type == TIMESTAMP)
    elif name in ("float", "double"):
        single = name == "float"
        return _each_distinct(typed.cast(pa.string()), lambda text: java_text(text, single=single))
    return typed.cast(pa.string())


def _arrow_type(data_type: DataType, column: str) -> pa.DataType:
    if isinstance(data_type, Decimal) or (isinstance(data_type, Primitive) and data_type.facts.is_ordered):
        return type_to_arrow(data_type, column)
    raise InvalidInputError(f"{column} is a {type_name(data_type)}: a table cannot be partitioned by it")


def _cast(values: pa.Array, target: pa.DataType, data_type: DataType, column: str) -> pa.Array:
    try:
        return values.cast(target)
    except pa.ArrowException as error:
        wanted = "UTF-8 text, as a partition value must be" if target == pa.string() else f"a {type_name(data_type)}"
        raise InvalidInputError(f"{column}: a value is not {wanted} ({error})") from None


def _each_distinct(values: pa.Array, convert: Callable[[Any], Any], result: pa.DataType | None = None) -> pa.Array:
    """``convert`` once for each distinct value: there are few partitions and many rows (or files)."""
    coded = values.dictionary_encode()
    converted = array_of([convert(value) for value in coded.dictionary.to_pylist()], result or pa.string())
    return converted.take(coded.indices)


def _null_where_empty(texts: pa.Array) -> pa.Array:
    from txlog.core.format.arrow.compute import pc

    # A comparison with "", and ``pa.scalar(None)``, would import pandas: see `txlog.core.format.arrow.arrays`.
    return pc.if_else(pc.binary_length(texts).cast(pa.bool_()), texts, pa.nulls(1, pa.string())[0])


def _check_range(numbers: pa.Array, bounds: tuple[int, int], data_type: DataType, column: str) -> None:
    from txlog.core.format.arrow.compute import pc

    found = pc.min_max(numbers)
    low, high = found["min"].as_py(), found["max"].as_py()
    if low is not None and (low < bounds[0] or high > bounds[1]):
        raise InvalidInputError(f"{column}: a {type_name(data_type)} lies outside the years 1 to 9999")


def _timestamp_texts(texts: pa.Array, *, with_zone: bool) -> pa.Array:
    """``2024-06-15T19:30:45.000000Z`` for an instant; ``2024-06-15 19:30:45[.ffffff]`` for wall-clock time."""
    from txlog.core.format.arrow.compute import pc

    if with_zone:
        zone, nothing = array_of(["Z", ""], pa.string())
        return pc.binary_join_element_wise(pc.utf8_replace_slice(texts, 10, 11, "T"), zone, nothing)
    return pc.replace_substring_regex(texts, r"\.000000$", "")


def java_text(text: str, *, single: bool) -> str:
    """The result of Java's ``Float.toString`` / ``Double.toString``, from the shortest decimal that reads back equal.

    Java writes plain decimals from 1e-3 to 1e7 and ``d.dddE±x`` outside, always with a digit after the point.
    Minus zero keeps its sign, as in Spark and deltalake: it is a separate partition.
    """
    special = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity", "0": "0.0", "-0": "-0.0"}.get(text)
    if special is not None:
        return special
    sign, digits, exponent = decimal.Decimal(text).normalize().as_tuple()
    assert isinstance(exponent, int)
    if len(digits) == 1:
        digits, exponent = _second_digit(text, digits, exponent, single=single)
    power = len(digits) + exponent - 1
    shortest = decimal.Decimal((sign, digits, exponent))
    if -3 <= power < 7:
        plain = format(shortest, "f")
        return plain if "." in plain else f"{plain}.0"
    figures = "".join(map(str, digits))
    return f"{'-' if sign else ''}{figures[0]}.{figures[1:] or '0'}E{power}"


def _second_digit(text: str, digits: tuple[int, ...], exponent: int, *, single: bool) -> tuple[tuple[int, ...], int]:
    """Java writes at least two digits, the two that come closest: 4.9E-324 for Python's 5e-324."""
    value = _as_single(float(text)) if single else float(text)
    closest = f"{abs(value):.1e}"
    if (_as_single(float(closest)) if single else float(closest)) != abs(value):
        return digits, exponent
    _, digits, found = decimal.Decimal(closest).normalize().as_tuple()
    assert isinstance(found, int)
    return digits, found


def _as_single(value: float) -> float:
    rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return rounded


# --- text to values ---------------------------------------------------------------------------------------------


def decode(
    text: str | None,
    data_type: DataType,
    *,
    zone: datetime.tzinfo = datetime.timezone.utc,
    column: str = "the partition column",
) -> Any:
    """The Python value of one text: str, int, float, bool, bytes, date, `decimal.Decimal` at full scale, datetime.

    None and ``""`` are null for every type. Timestamps are returned in UTC. A text without a zone (Spark's older
    form, in the writer's own time zone) is read in ``zone``. Raises CorruptLogError naming ``column``.
    """
    if not text:
        return None
    try:
        if isinstance(data_type, Decimal):
            return _decimal_value(text, data_type)
        if isinstance(data_type, Primitive):
            if data_type == TIMESTAMP:
                return _moment(text, zone).astimezone(datetime.timezone.utc)
            if data_type in TIMESTAMPS:
                return _moment(text, None)
            return _READERS[data_type.name](text)
    except (ValueError, KeyError, ArithmeticError):
        pass
    raise CorruptLogError(f"{column} is a {type_name(data_type)}, but a partition value is {text[:60]!r}")


def partition_key(values: Mapping[str, str | None], fields: Mapping[str, Field]) -> tuple[str | None, ...]:
    """A partition's name: its values in the order of ``fields``, each spelled as txlog and Spark write it.

    Other writers may spell a value differently, such as a timestamp without a zone. ``fields`` are the table's
    partition columns by their names in the log; an absent value is null.
    """
    return tuple(canonical_text(values.get(name), field.type) for name, field in fields.items())


def canonical_text(text: str | None, data_type: DataType) -> str | None:
    """A partition value's text in the spelling that `encode` gives. An unreadable one is returned unchanged."""
    if not text or data_type in _SPELLED_ONE_WAY:
        return text or None
    try:
        return encode(decode(text, data_type), data_type)
    except (CorruptLogError, InvalidInputError):
        return text


def problem_of(values: Mapping[str, str | None], fields: Mapping[str, Field]) -> str | None:
    """Why a file cannot have these ``partitionValues``, as a phrase to follow the file's name; None if it can.

    ``fields`` are the table's partition columns by the names that the log has for them.
    """
    if values.keys() != fields.keys():
        return f"has values for {sorted(values)}, not for the table's partition columns"
    for name, field in fields.items():
        if not values[name] and not field.nullable:
            return f"has null for the partition column {field.name}, which is NOT NULL"
        try:
            decode(values[name], field.type, column=field.name)
        except CorruptLogError as error:
            return f"is in no partition that can be read: {error.message}"
    return None


def decode_array(
    texts: pa.Array,
    data_type: DataType,
    *,
    zone: datetime.tzinfo = datetime.timezone.utc,
) -> pa.Array:
    """The values of an array of texts, as the Arrow type of the column (`schema.type_to_arrow`). See `decode`."""
    strings = one_array(texts).cast(pa.string())
    target = type_to_arrow(data_type, "the partition column")
    return _each_distinct(strings, lambda text: decode(text, data_type, zone=zone), target)


_SPELLED_ONE_WAY = (Primitive("string"), Primitive("binary"))

_DATE = pattern(r"(\d{4})-(\d{1,2})-(\d{1,2})", re.ASCII)
_CLOCK = r"(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?"
_MOMENT = pattern(rf"{_DATE.pattern}(?:[ T]{_CLOCK})?\s*(Z|UTC|[+-]\d{{2}}:?\d{{2}})?", re.ASCII)
_INTEGER = pattern(r"[+-]?\d{1,20}", re.ASCII)
_NUMBER = pattern(r"[+-]?(?:NaN|Infinity|inf|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)", re.ASCII)  # deltalake writes inf


def _matched(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    found = pattern.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return found


def _moment(text: str, zone: datetime.tzinfo | None) -> datetime.datetime:
    year, month, day, hour, minute, second, fraction, offset = _matched(_MOMENT, text).groups()
    if offset is not None and zone is not None:
        zone = _offset_zone(offset)
    micros = int((fraction or "0")[:6].ljust(6, "0"))
    clock = (int(hour or 0), int(minute or 0), int(second or 0), micros)
    return datetime.datetime(int(year), int(month), int(day), *clock, tzinfo=zone)


def _offset_zone(offset: str) -> datetime.tzinfo:
    if offset in ("Z", "UTC"):
        return datetime.timezone.utc
    minutes = int(offset[1:3]) * 60 + int(offset[-2:])
    return datetime.timezone(datetime.timedelta(minutes=-minutes if offset[0] == "-" else minutes))


def _date_value(text: str) -> datetime.date:
    year, month, day = _matched(_DATE, text).groups()
    return datetime.date(int(year), int(month), int(day))


def _decimal_value(text: str, data_type: Decimal) -> decimal.Decimal:
    exact = decimal.Context(prec=data_type.precision, traps=[decimal.Inexact, decimal.InvalidOperation])
    _matched(_NUMBER, text)
    return decimal.Decimal(text).quantize(decimal.Decimal((0, (1,), -data_type.scale)), context=exact)


def _integer_value(bits: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        value = int(_matched(_INTEGER, text)[0])
        if not -(1 << bits - 1) <= value < 1 << bits - 1:
            raise ValueError(text)
        return value

    return read


_READERS: dict[str, Callable[[str], Any]] = {
    "string": str,
    "binary": str.encode,
    "boolean": lambda text: {"true": True, "false": False}[text.lower()],
    "byte": _integer_value(8),
    "short": _integer_value(16),
    "integer": _integer_value(32),
    "long": _integer_value(64),
    "float": lambda text: _as_single(float(_matched(_NUMBER, text)[0])),
    "double": lambda text: float(_matched(_NUMBER, text)[0]),
    "date": _date_value,
}
