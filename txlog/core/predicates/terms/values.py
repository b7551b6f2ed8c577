"""The values that predicates compare: one ordered Python form for each Delta type.

In: literals, decoded partition values, bounds from file statistics. Out: `Ordered`: booleans, integers, floats,
``Decimal``, strings and bytes as themselves; a date as days and a timestamp as microseconds since the epoch,
since Delta's years go beyond ``datetime``'s. Python orders these values as Spark does, except for NaN, which
`compare` handles.
"""

from __future__ import annotations

import datetime
import decimal
import math
import re
import struct
from typing import Any, TypeAlias

import msgspec

from txlog.core.format import schema as delta
from txlog.core.format.schema import DataType
from txlog.core.util import UTC

Ordered: TypeAlias = bool | int | float | decimal.Decimal | str | bytes
"""A value in the form that `compare` orders."""

_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_DAY = _EPOCH.date().toordinal()
_MICROSECOND = datetime.timedelta(microseconds=1)
_DAY_MICROSECONDS = 86_400_000_000
_WIDE = decimal.Context(prec=100)
_FLOAT_ERROR = decimal.Decimal("2e-15")  # four times the error of one rounding, more than rounding back adds
INTEGER_ENDS = (decimal.Decimal(-(2**63)), decimal.Decimal(2**63 - 1))
"""A bound of exactly this value is unusable: see `beside`."""
NO_NUMBER = "the string is not a number"
"""Why text does not fit a column of numbers."""
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIMESTAMP = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?)?\s*(?:(Z|UTC)|([+-])(\d\d):?(\d\d))?"
)


class FittedLiteral(msgspec.Struct, frozen=True):
    """A literal as a value of a column's type.

    If ``exact`` is False, the type cannot hold the literal: ``value`` is the greatest value below it, or None if all
    values of the type are above it.
    """

    value: Ordered | None
    exact: bool = True


class Microseconds(int):
    """A moment that is bound already: the value of a timestamp, with a zone or without."""


def fit(value: Any, data_type: DataType, zone: str = UTC) -> FittedLiteral:
    """Fit a literal to a column's type as Spark compares the two; a string is parsed as a value of the type.

    A timestamp without a zone is in ``zone``. Raises ``ValueError`` saying why the two cannot be compared.
    """
    if isinstance(data_type, delta.Decimal):
        unit = decimal.Decimal(1).scaleb(-data_type.scale)
        return _fit_number(_number(value), unit, 10**data_type.precision - 1)
    name = data_type.name if isinstance(data_type, delta.Primitive) else ""
    if name in _BITS:
        fitted = _fit_number(_number(value), decimal.Decimal(1), 2 ** (_BITS[name] - 1) - 1, lowest_extra=1)
        return FittedLiteral(None if fitted.value is None else int(fitted.value), fitted.exact)
    if name in ("float", "double"):
        return FittedLiteral(_as_float(_number(value)))
    if name in _PLAIN:
        kind, literal = _PLAIN[name]
        if type(value) is not kind:
            raise ValueError(f"a {name} column needs {literal}")
        if isinstance(value, str):
            utf8(value)
        return FittedLiteral(value)
    if name == "date":
        return FittedLiteral(_days(value))
    if data_type in delta.TIMESTAMPS:
        return FittedLiteral(_microseconds(value, zone if data_type == delta.TIMESTAMP else None))
    raise ValueError(f"values of this type are not compared as a whole{next_comparison(data_type)}")


def next_part(data_type: DataType) -> str:
    """The end of an error about a part of a value without elements: how its parts are written, if it has some."""
    return data_type.facts.part_hint if isinstance(data_type, delta.Primitive) else ""


def next_comparison(data_type: DataType) -> str:
    """The end of an error about a comparison of values with parts: which comparison there is."""
    if isinstance(data_type, delta.Array):
        return ": in SQL, array_contains(c, value), c[0] = value and size(c) = number compare what an array c holds"
    if isinstance(data_type, delta.Map):
        return ": in SQL, c['key'] = value and size(c) = number compare what a map c holds"
    if isinstance(data_type, delta.Primitive):
        return data_type.facts.comparison_hint
    if isinstance(data_type, delta.Struct):
        name = next(iter(data_type.names), "field")
        return f": compare its fields, as c.{name} = value in SQL, or txlog.col('c', {name!r}) == value"
    return ""


def utf8(text: str) -> str:
    """The string itself. Raises ``ValueError`` if it has lone surrogates, which no column can hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{text!r} is not a string that UTF-8 can encode") from None
    return text


_PLAIN: dict[str, tuple[type[str] | type[bool] | type[bytes], str]] = {
    "string": (str, "a string in quotes, such as 'a'"),
    "boolean": (bool, "true or false, without quotes"),
    "binary": (bytes, "bytes, such as X'0AFF'"),
}


def ordered(value: Any, data_type: DataType) -> Ordered:
    """The ordered form of a decoded partition value or bound, which may be a ``datetime`` or already a number.

    A bound of a 32-bit float is rounded to 32 bits: its decimal text means the float, not the nearest double.
    """
    if isinstance(value, datetime.datetime):
        return _instant(value)
    if isinstance(value, datetime.date):
        return value.toordinal() - _EPOCH_DAY
    if isinstance(data_type, delta.Primitive) and data_type.name in ("float", "double"):
        number = float(value)
        return as_float32(number) if data_type.name == "float" else number
    result: Ordered = value
    return result


def compare(left: Any, right: Any) -> int:
    """-1, 0 or 1 for two `Ordered` values of one column.

    NaN equals NaN and is greater than every other number (Spark, "NaN Semantics").
    """
    if left == right:
        return 0
    left_nan, right_nan = left != left, right != right
    if left_nan or right_nan:
        return int(left_nan) - int(right_nan)
    return -1 if left < right else 1


def as_float32(number: float) -> float:
    """The 32-bit float nearest to a number, as a double."""
    try:
        rounded: float = struct.unpack("f", struct.pack("f", number))[0]
    except OverflowError:
        return math.inf if number > 0 else -math.inf
    return rounded


def beside(value: decimal.Decimal, precision: int, scale: int, *, above: bool) -> decimal.Decimal | None:
    """The decimal above (or below) ``value`` by the precision that a bound loses if its writer stores it as a 64-bit
    float, or, without a fraction, as a 64-bit integer, which clips values to its range: deltalake does both. None if
    the type has no such value.
    """
    if value == INTEGER_ENDS[above]:
        return None
    margin = _WIDE.multiply(value.copy_abs(), _FLOAT_ERROR)
    moved = _WIDE.add(value, margin) if above else _WIDE.subtract(value, margin)
    moved = moved.quantize(decimal.Decimal(1).scaleb(-scale), context=_WIDE)  # unchanged if it has few digits
    return None if moved.copy_abs() >= decimal.Decimal(10).scaleb(precision - scale - 1) else moved


def parse_date(text: str) -> datetime.date:
    """``2026-11-20``. Raises ``ValueError``."""
    try:
        if _DATE.fullmatch(text.strip()):  # Python reads more forms
            return datetime.date.fromisoformat(text.strip())
    except ValueError:
        pass
    raise ValueError("the string is not a date like 2026-11-20")


def parse_timestamp(text: str) -> datetime.datetime:
    """``2026-11-20 08:15:00.123456+01:00``; clock, fraction and zone may be left out. Raises ``ValueError``."""
    found = _TIMESTAMP.fullmatch(text.strip())
    if found is None:
        raise ValueError("the string is not a timestamp like 2026-11-20 08:15:00")
    day, hour, minute, second, fraction, utc, sign, offset_hour, offset_minute = found.groups()
    clock = f"{hour or '00'}:{minute or '00'}:{second or '00'}.{(fraction or '').ljust(6, '0')}"
    moment = datetime.datetime.fromisoformat(f"{day}T{clock}")
    if utc:
        return moment.replace(tzinfo=datetime.timezone.utc)
    if sign:
        offset = datetime.timedelta(hours=int(offset_hour), minutes=int(offset_minute))
        return moment.replace(tzinfo=datetime.timezone(offset if sign == "+" else -offset))
    return moment


def value_text(value: Any, data_type: DataType | None) -> str:
    """The value as a SQL literal."""
    name = data_type.name if isinstance(data_type, delta.Primitive) else ""
    if name == "date" and type(value) is int:
        return f"'{_date_text(value)}'"
    if data_type in delta.TIMESTAMPS and type(value) is int:
        days, rest = divmod(value, _DAY_MICROSECONDS)
        seconds, micros = divmod(rest, 1_000_000)
        clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        fraction = f".{micros:06}" if micros else ""
        return f"'{_date_text(days)} {clock}{fraction}{'Z' if data_type == delta.TIMESTAMP else ''}'"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, bytes):
        return f"X'{value.hex().upper()}'"
    if isinstance(value, (str, datetime.date)):
        escaped = str(value).replace("\\", "\\\\").replace("'", "''")
        return f"'{escaped}'"
    if isinstance(value, float) and not math.isfinite(value):
        return f"'{value}'"
    return str(value)


def _date_text(days: int) -> str:
    ordinal = days + _EPOCH_DAY
    if 1 <= ordinal <= datetime.date.max.toordinal():
        return datetime.date.fromordinal(ordinal).isoformat()
    return f"day {days} since 1970"


# --- literals -----------------------------------------------------------------------------------------------


def _number(value: Any) -> int | float | decimal.Decimal:
    if isinstance(value, str):
        text = value.strip()
        if _NUMBER.fullmatch(text):
            return decimal.Decimal(text)
        if text.lower().lstrip("+-") in ("nan", "inf", "infinity"):
            return float(text)
        raise ValueError(NO_NUMBER)
    if isinstance(value, bool) or not isinstance(value, (int, float, decimal.Decimal)):
        raise ValueError("the column needs a number")
    return value


def _as_float(number: int | float | decimal.Decimal) -> float:
    """The nearest double; infinity if the number is beyond all doubles (integers may have any size)."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _fit_number(
    value: int | float | decimal.Decimal, unit: decimal.Decimal, units_max: int, *, lowest_extra: int = 0
) -> FittedLiteral:
    """Fit a number to the multiples of ``unit``, from ``-(units_max + lowest_extra)`` to ``units_max`` units."""
    highest = _WIDE.multiply(unit, decimal.Decimal(units_max))
    if value != value or value > highest:
        return FittedLiteral(highest, exact=False)
    if value < _WIDE.multiply(unit, decimal.Decimal(-(units_max + lowest_extra))):
        return FittedLiteral(None, exact=False)
    number = decimal.Decimal(repr(value)) if isinstance(value, float) else decimal.Decimal(value)
    below = number.quantize(unit, rounding=decimal.ROUND_FLOOR, context=_WIDE)
    return FittedLiteral(below, exact=below == number)


def _days(value: Any) -> int:
    if isinstance(value, str):
        value = parse_date(value)
    if isinstance(value, datetime.datetime) or not isinstance(value, datetime.date):
        raise ValueError("a date column needs a date, such as '2026-11-20'")
    return value.toordinal() - _EPOCH_DAY


def _microseconds(value: Any, zone: str | None) -> int:
    """The moment; None as its zone means that it has none."""
    if isinstance(value, Microseconds):
        return int(value)
    if isinstance(value, str):
        value = parse_timestamp(value)
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None and zone is None:
            raise ValueError(f"a {delta.timestamp_of(has_zone=False).name} column needs a timestamp without a zone")
        found, is_in_zone = _instant(value), value.tzinfo is None
    elif isinstance(value, datetime.date):
        found, is_in_zone = (value.toordinal() - _EPOCH_DAY) * _DAY_MICROSECONDS, True
    else:
        raise ValueError("a timestamp column needs a timestamp, such as '2026-11-20 08:15:00'")
    if zone is None or zone == UTC or not is_in_zone:
        return found
    from txlog.core.format.time_zones import instant

    return instant(found, zone, starts_days=not isinstance(value, datetime.datetime))


def _instant(moment: datetime.datetime) -> int:
    if moment.tzinfo is not None:
        moment = moment.astimezone(datetime.timezone.utc).replace(tzinfo=None)
    return (moment - _EPOCH) // _MICROSECOND
