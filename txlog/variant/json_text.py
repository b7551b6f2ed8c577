"""Variants and JSON: texts to values as Spark's ``parse_json`` reads them, and values to texts as its ``to_json`` does.

In: the text of one JSON value, or one value of a variant. Out: the value, as `encoding.encode` takes it; or the text.
Pure.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math
import uuid
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from txlog.core.format.partition_values import java_text
from txlog.core.format.time_zones import offsets
from txlog.variant.encoding import Encoded, Nanoseconds, Single, Timestamp, decimal_of, encode

_DIGITS_MAX = 38


def parsed(text: str) -> Any:
    """The value of a JSON text. A number without an exponent is exact: an integer, or a decimal of up to 38 digits.

    Raises ValueError saying what is wrong with the text: it is no JSON, an object has a name twice, a number is larger
    than all doubles.
    """
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error}") from None
    except RecursionError:
        raise ValueError("it nests too deep") from None


def encode_json(text: str) -> tuple[bytes, bytes]:
    """``(metadata, value)`` of a JSON text. Raises ValueError as `parsed` and `encode` do.

    msgspec parses most texts, in half of the time. Of two fields with one name it takes the last, so a text is parsed
    again if it has a colon that is neither behind a name nor in a string.
    """
    try:
        value = _FAST.decode(text)
    except (ValueError, RecursionError):  # the other parser says what is wrong
        return encode(parsed(text))
    others = text.count(":") - _names_in(value)
    if others and ("\\u003" in text or others != _colons_in(value)):
        return encode(parsed(text))
    return encode(value)


def _names_in(value: Any) -> int:
    """How many names the objects in it have together."""
    kind = type(value)
    found = len(value) if kind is dict else 0
    for each in value.values() if kind is dict else value if kind is list else ():
        if type(each) is dict or type(each) is list:
            found += _names_in(each)
    return found


def _colons_in(value: Any) -> int:
    """How many colons its strings have, names too."""
    kind = type(value)
    if kind is str:
        return int(value.count(":"))
    if kind is dict:
        return sum(map(_colons_in, value)) + sum(map(_colons_in, value.values()))
    return sum(map(_colons_in, value)) if kind is list else 0


def _exact(text: str) -> Encoded | float:
    """A number with a fraction or an exponent, as `_number` has it."""
    whole, _, fraction = text.partition(".")
    found = None if "e" in text or "E" in text else decimal_of(int(whole + fraction), len(fraction))
    return _double(text) if found is None else found


def _integer(text: str) -> int | float:
    return int(text) if len(text) <= _DIGITS_MAX + 1 and abs(int(text)) < 10**_DIGITS_MAX else _double(text)


def _number(text: str) -> decimal.Decimal | float:
    """As in Spark: exact if it is written without an exponent, and has at most 38 digits."""
    if "e" in text or "E" in text:
        return _double(text)
    number = decimal.Decimal(text)
    _, digits, exponent = number.as_tuple()
    fits = len(digits) <= _DIGITS_MAX and -int(exponent) <= _DIGITS_MAX
    return number if fits else _double(text)


def _double(text: str) -> float:
    found = float(text)
    if math.isinf(found):
        raise ValueError(f"its number {text[:40]} is larger than all doubles")
    return found


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"an object has the name {twice!r} twice")
    return found


def _constant(text: str) -> Any:
    raise ValueError(f"it is not JSON: {text} is not a number of JSON")


_FAST = msgspec.json.Decoder(float_hook=_exact)
_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_number, parse_int=_integer, parse_constant=_constant
)


def text_of(value: Any, zone: str = "UTC") -> str:
    """The JSON text of a variant's value: without spaces, decimals without zeros at their end, times and dates as
    strings, an instant as what clocks in ``zone`` show."""
    parts: list[str] = []
    _write(value, parts.append, zone)
    return "".join(parts)


def _write(value: Any, put: Any, zone: str) -> None:
    match value:
        case None:
            put("null")
        case bool():
            put("true" if value else "false")
        case str():
            put(_quoted(value))
        case int():
            put(str(value))
        case float():
            put(double_text(value) if math.isfinite(value) else f'"{double_text(value)}"')
        case decimal.Decimal():
            put(decimal_text(value))
        case Mapping():
            put("{")
            for at, (name, each) in enumerate(value.items()):
                put(f"{',' if at else ''}{_quoted(name)}:")
                _write(each, put, zone)
            put("}")
        case list():
            put("[")
            for at, each in enumerate(value):
                put("," if at else "")
                _write(each, put, zone)
            put("]")
        case _:
            put(f'"{scalar_text(value, zone)}"')


def scalar_text(value: Any, zone: str) -> str:
    """A time, a date, bytes or a UUID."""
    match value:
        case Timestamp(micros, has_zone):
            return f"{micros} microseconds since 1970{' in UTC' if has_zone else ''}"
        case Nanoseconds(nanos, has_zone):
            micros, rest = divmod(nanos, 1000)
            moment = _EPOCH + datetime.timedelta(microseconds=micros)
            return f"{moment:%Y-%m-%d %H:%M:%S.%f}{rest:03}{'+00:00' if has_zone else ''}"
        case datetime.datetime():
            return _moment_text(value, zone)
        case datetime.date() | datetime.time() | uuid.UUID():
            return str(value)
        case bytes():
            return base64.b64encode(value).decode()
    raise ValueError(f"a variant has no {value!r}")


def _moment_text(value: datetime.datetime, zone: str) -> str:
    offset = ""
    if value.tzinfo is not None:
        value = value.astimezone(datetime.timezone.utc)
        seconds = int(offsets(np.array([value.timestamp() // 1], np.int64), zone)[0])
        value = value.astimezone(datetime.timezone(datetime.timedelta(seconds=seconds)))
        offset = value.isoformat()[-6:]
    clock = value.replace(tzinfo=None).isoformat(" ")
    return f"{clock.rstrip('0') if value.microsecond else clock}{offset}"


def double_text(value: float) -> str:
    """As Java writes it."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Single):
        return java_text(str(np.float32(value)), single=True)
    return java_text(repr(value) if value % 1 or abs(value) >= 1e16 else f"{value:.0f}", single=False)


def decimal_text(value: decimal.Decimal) -> str:
    """All digits, without zeros at the end of the fraction."""
    return f"{value.normalize(_EXACT):f}" if value else "0"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


_EPOCH = datetime.datetime(1970, 1, 1)
_EXACT = decimal.Context(prec=80)
