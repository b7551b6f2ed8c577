"""CAST and store assignment with Arrow's kernels. Results equal Spark's in ANSI mode.

In: an array or an Arrow expression of one Delta type. Out: the same in another type. A value that the type cannot hold
raises ``pyarrow.ArrowInvalid``: no wrap, no silent NULL. A cast to an integer truncates a fraction; a cast to a decimal
with fewer digits rounds half away from zero. `types.can_cast` decides which casts exist.
"""

from __future__ import annotations

import decimal
import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txlog.core.format.arrow.arrays import as_list_of_entries, offsets_and_mask, one_array
from txlog.core.format.arrow.decimals import rounded, truncated
from txlog.core.format.arrow.wide_years import date_text
from txlog.core.format.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    STRING,
    TIMES,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TIMESTAMPS,
    VOID,
    Array,
    DataType,
    Decimal,
    Map,
    Primitive,
    Struct,
    places_by_name,
    type_name,
    type_to_arrow,
)
from txlog.core.predicates._float_texts import float_text
from txlog.core.predicates._time_texts import in_one_form
from txlog.core.predicates.terms.arguments import takes_scalars
from txlog.core.predicates.terms.types import INTEGER_DIGITS, cast_depends_on_zone, is_floating, is_integer, is_numeric
from txlog.core.predicates.terms.zones import UTC, as_clock, as_instant

_WIDE_PRECISION = 76
_INSTANT = pa.timestamp("us", "UTC")
_WIDE = decimal.Context(prec=400, rounding=decimal.ROUND_HALF_UP, Emax=9999, Emin=-9999)
_PLAIN_SCALE = 6  # Arrow writes more digits after the point with an exponent
_SECOND_US = 1_000_000
_BEYOND_US = 2**63
_FIRST_DAY, _LAST_DAY = -719_528, 2_932_896  # in the years 0 and 9999
_FIRST_US, _LAST_US = -719_162 * 86_400_000_000, 2_932_897 * 86_400_000_000 - 1  # in the years 1 and 9999
_TRUE_WORDS = ["t", "true", "y", "yes", "1"]
_FALSE_WORDS = ["f", "false", "n", "no", "0"]
_NUMBER = r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?"
_OFFSET = r"Z|[+-](0\d|1[0-7]):[0-5]\d|[+-]18:00"
"""The zone behind a time. Java's offsets go up to 18 hours."""
_FORMS = {
    "integer": r"^[+-]?\d+$",
    "decimal": rf"^{_NUMBER}$",
    "floating": rf"^({_NUMBER}|[+-]?(?i:inf|infinity)|(?i:nan))$",
    "date": r"^\d{4}-\d\d-\d\d$",
    "timestamp": r"^\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?$",
    "instant": rf"^\d{{4}}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{{1,6}})?({_OFFSET})?)?)?$",
}
_EXAMPLES = {DATE: "2026-11-20", TIMESTAMP: "2026-11-20T08:15:00Z", TIMESTAMP_NTZ: "2026-11-20 08:15:00"}
_OTHER_YEAR = r"([+-]\d{4,7}|\d{5,7})(-|$)"
_WITH_ZONE = r"\d{4}-\d{1,2}-\d{1,2}[ T]\d{1,2}:\d{1,2}:\d{1,2}(\.\d*)?[^\d.]"
_OTHER_TIME = rf"^({_OTHER_YEAR}|T?\d{{1,2}}:|{_WITH_ZONE})"
_SPARKS_FORMS = {
    "integer": r"[^\x20-\x7e]",
    "decimal": r"[^\x20-\x7e]",
    "floating": r"[^\x20-\x7e]|^[+-]?[\d.]+([eE][+-]?\d+)?[dDfF]$",
    "date": rf"^{_OTHER_YEAR}",
    "timestamp": _OTHER_TIME,
    "instant": _OTHER_TIME,
}
"""Texts of other forms that Spark may take for values: with another year, with no date, or with an unknown zone."""


def cast(values: Any, source: DataType, target: DataType, zone: str = UTC) -> Any:
    """``values`` of type ``source`` as ``target``; ``zone`` is that of times without one."""
    arrow_type = type_to_arrow(target)
    if source == target:
        return values
    if isinstance(source, Struct | Array | Map):
        return (_nested_text if target == STRING else _nested)(values, source, target, zone)
    if source == STRING and target == TIMESTAMP:
        return _instants(values, zone)
    if zone != UTC and cast_depends_on_zone(source, target):
        return _in_zone(values, source, target, zone)
    if source == VOID:
        return _plain(values, arrow_type)
    if source == STRING:
        return _from_string(values, target)
    if source == DATE and target == STRING:
        return _date_text(values)
    if source in TIMESTAMPS and target == STRING:
        return _time_text(values)
    if is_floating(source) and target == STRING:
        return float_text(values)
    if isinstance(source, Decimal) and target == STRING:
        return _decimal_text(values)
    if target == BOOLEAN and not is_integer(source):
        return pc.not_equal(values, pa.scalar(0, pa.int8()).cast(values.type))
    if source == BOOLEAN and is_numeric(target):
        return _number(_plain(values, pa.int8()), BYTE, target)
    if target == STRING or BOOLEAN in (source, target):
        return _plain(values, arrow_type)
    if is_numeric(source):
        return _as_moment(values, target) if target in TIMESTAMPS else _number(values, source, target)
    if source in TIMESTAMPS and is_numeric(target):
        return _of_moment(values, target)
    return _plain(values, arrow_type)


def _in_zone(values: Any, source: DataType, target: DataType, zone: str) -> Any:
    if source == TIMESTAMP:
        return cast(as_clock(values, zone), TIMESTAMP_NTZ, target)
    return as_instant(cast(values, source, TIMESTAMP_NTZ), zone, starts_days=source == DATE)


@takes_scalars
def try_cast(values: Any, source: DataType, target: DataType, zone: str = UTC) -> Any:
    """`cast`, with null for a value that the type cannot hold."""
    if source == STRING:
        values = _of_form(values, target)
    if target == STRING:  # which holds every value: what raises is another one in another version of Java
        return cast(values, source, target, zone)
    if is_floating(source) and isinstance(target, Decimal):
        return _float_to_decimal(values, target, or_null=True)
    try:
        return cast(values, source, target, zone)
    except (pa.ArrowInvalid, OverflowError):
        if len(values) == 1:
            return pa.nulls(1, type_to_arrow(target))
    middle = len(values) // 2
    halves = (try_cast(part, source, target, zone) for part in (values[:middle], values[middle:]))
    return pa.concat_arrays([one_array(half) for half in halves])


def _of_form(texts: Any, target: DataType) -> Any:
    """The texts, with null for those that are no value of the type whatever its limits are.

    Raises ``ArrowInvalid`` for one of a form that Spark reads as a value, and `cast` does not.
    """
    trimmed = pc.ascii_trim_whitespace(texts)
    if target == BOOLEAN:
        return pc.if_else(pc.is_in(pc.ascii_lower(trimmed), pa.array(_TRUE_WORDS + _FALSE_WORDS)), texts, _NO_TEXT)
    form = _form(target)
    if target in TIMES:
        texts = trimmed = in_one_form(trimmed, target, _FORMS[form])
    fits = pc.match_substring_regex(trimmed, _FORMS[form])
    others = pc.if_else(fits, _NO_TEXT, trimmed)
    _or_fail(pc.invert(pc.match_substring_regex(others, _SPARKS_FORMS[form])), others, target)
    return pc.if_else(fits, texts, _NO_TEXT)


_NO_TEXT = pa.nulls(1, pa.string())[0]  # pa.scalar would import pandas


def cast_can_fail(source: DataType, target: DataType) -> bool:
    """Whether some value of type ``source`` does not fit type ``target``."""
    if is_floating(source) and target == STRING:
        return True
    if isinstance(source, Struct | Array | Map) and target == STRING:
        return True
    if source in (target, VOID) or target == STRING or (is_floating(target) and source != STRING):
        return False
    if source == BOOLEAN and isinstance(target, Decimal):
        return target.precision == target.scale
    match source, target:
        case Struct(given), Struct(wanted):
            places_of = places_by_name(field.name for field in given)
            return any(cast_can_fail(given[places_of(each.name)[0]].type, each.type) for each in wanted)
        case Array(given), Array(wanted):
            return cast_can_fail(given, wanted)
        case Map(given_key, given_value), Map(key, value):
            return cast_can_fail(given_key, key) or cast_can_fail(given_value, value)
    if is_integer(source) and is_integer(target):
        return _digits(target) < _digits(source)
    if is_integer(source) and isinstance(target, Decimal):
        return target.precision - target.scale < _digits(source)
    if isinstance(source, Decimal) and isinstance(target, Decimal):
        return target.precision - target.scale < source.precision - source.scale + (target.scale < source.scale)
    return not (source == BOOLEAN or target in (BOOLEAN, DATE)) or source == STRING


def to_decimal(values: Any, source: DataType, precision: int, scale: int) -> Any:
    """Integers or decimals as a decimal of any precision up to 76, rounded half away from zero.

    Raises ``pyarrow.ArrowInvalid`` if a value has more digits before the point.
    """
    if is_integer(source):
        values, source = _plain(values, pa.decimal128(_digits(source), 0)), Decimal(_digits(source), 0)
    assert isinstance(source, Decimal)
    wanted = pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)
    if scale < source.scale:
        values = rounded(values, scale)
    elif precision - scale < source.precision - source.scale:
        values = _plain(values, pa.decimal256(_WIDE_PRECISION, source.scale))
    return _plain(values, wanted)


def _digits(data_type: DataType) -> int:
    assert isinstance(data_type, Primitive)
    return INTEGER_DIGITS[data_type.name]


def _plain(values: Any, arrow_type: pa.DataType, *, safe: bool = True) -> Any:
    if isinstance(values, pa.Scalar):
        return pc.cast(values, arrow_type, safe=safe)
    return values.cast(arrow_type, safe=safe)


def _number(values: Any, source: DataType, target: DataType) -> Any:
    arrow_type = type_to_arrow(target)
    if is_floating(source) and isinstance(target, Decimal):
        return _float_to_decimal(values, target)
    if isinstance(target, Decimal):
        return to_decimal(values, source, target.precision, target.scale)
    if is_floating(target):
        if isinstance(source, Decimal):  # through its text, so it is rounded only once
            return _plain(_plain(_plain(values, pa.string()), pa.float64()), arrow_type)
        return _plain(values, arrow_type, safe=False)
    if is_floating(source):
        values = pc.trunc(values)
    elif isinstance(source, Decimal):
        values = truncated(values, 0)
    return _plain(values, arrow_type)


@takes_scalars
def _float_to_decimal(values: Any, target: Decimal, *, or_null: bool = False) -> Any:
    """The digits that Java writes, rounded half away from zero; null for what is no number. With ``or_null``, also for
    one that is too large. Raises ``ArrowInvalid`` for one that Java's versions write differently."""
    doubles = _plain(values, pa.float64())
    doubles = pc.if_else(pc.is_finite(doubles), doubles, pa.nulls(1, pa.float64())[0])
    is_small = pc.less(pc.abs(doubles), 10.0 ** -(target.scale + 1))  # whatever its digits are
    doubles = pc.if_else(is_small, 0.0, doubles)
    is_large = pc.greater_equal(pc.abs(doubles), 10.0 ** (target.precision - target.scale))
    if or_null:
        doubles = pc.if_else(is_large, pa.nulls(1, pa.float64())[0], doubles)
    elif (at := pc.index(is_large, True).as_py()) >= 0:
        raise pa.ArrowInvalid(f"{doubles[at].as_py()!r} does not fit {type_name(target)}")
    digits = [None if text is None else _WIDE.create_decimal(text) for text in float_text(doubles).to_pylist()]
    unit, most = decimal.Decimal(1).scaleb(-target.scale), decimal.Decimal(10) ** (target.precision - target.scale)
    found = [None if each is None else each.quantize(unit, context=_WIDE) for each in digits]
    if or_null:
        found = [None if each is None or abs(each) >= most else each for each in found]
    return pa.array(found, type_to_arrow(target))


def _decimal_text(values: Any) -> Any:
    """All digits, without an exponent."""
    if values.type.scale <= _PLAIN_SCALE:
        return _plain(values, pa.string())
    if isinstance(values, pa.Scalar):
        return _decimal_text(pa.repeat(values, 1))[0]
    return pa.array([None if each is None else f"{each:f}" for each in values.to_pylist()], pa.string())


def _of_moment(values: Any, target: DataType) -> Any:
    """The seconds since 1970: of integers those that are whole, downwards."""
    micros = _plain(values, pa.int64())
    if is_integer(target):
        return _plain(floored(micros, pa.scalar(_SECOND_US, pa.int64())), type_to_arrow(target))
    seconds = pc.divide(_plain(micros, pa.float64(), safe=False), float(_SECOND_US))
    return _number(seconds, DOUBLE, target)


@takes_scalars
def _as_moment(values: Any, target: DataType) -> Any:
    """The moment so many seconds after 1970. Of integers, one beyond all is the last or the first; of decimals, as in
    Java, the last 64 bits count."""
    arrow_type = type_to_arrow(target)
    if pa.types.is_decimal(values.type):
        micros = [None if each is None else int(_WIDE.multiply(each, _SECOND_US)) for each in values.to_pylist()]
        low = [None if each is None else (each + _BEYOND_US) % (2 * _BEYOND_US) - _BEYOND_US for each in micros]
        return pa.array(low, pa.int64()).cast(arrow_type)
    numbers = pc.fill_null(values, 0).to_numpy(zero_copy_only=False)
    if pa.types.is_floating(values.type):
        numbers = numbers.astype(np.float64) * _SECOND_US
        if not (np.abs(numbers) <= _BEYOND_US).all():
            raise pa.ArrowInvalid("a float that is NaN, infinite or too large is not a timestamp")
        beyond, scaled = np.sign(numbers) * (np.abs(numbers) >= _BEYOND_US), numbers
    else:
        beyond = np.sign(numbers) * (np.abs(numbers.astype(np.float64)) > _BEYOND_US // _SECOND_US)
        scaled = np.where(beyond != 0, 0, numbers).astype(np.int64) * _SECOND_US
    found = np.where(beyond != 0, 0, scaled).astype(np.int64)
    found = np.where(beyond > 0, _BEYOND_US - 1, np.where(beyond < 0, -_BEYOND_US, found))
    mask = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    return pa.array(found, pa.int64(), mask=mask).cast(arrow_type)


def floored(given: Any, unit: pa.Scalar) -> Any:
    """How many whole units; Arrow's division cuts towards zero."""
    whole = pc.divide(given, unit)
    is_above = pc.less(pc.subtract(given, pc.multiply(whole, unit)), 0)
    return pc.if_else(is_above, pc.subtract(whole, 1), whole)


def _date_text(values: Any) -> Any:
    """As Spark writes dates: a year after 9999 has a plus sign. Arrow writes none, and no text for a distant year."""
    days = _plain(values, pa.int32())
    ends = pc.min_max(days)
    if not ends["min"].is_valid or _FIRST_DAY <= ends["min"].as_py() <= ends["max"].as_py() <= _LAST_DAY:
        return _plain(values, pa.string())
    if isinstance(days, pa.Scalar):
        return pa.scalar(date_text(days.as_py()), pa.string())
    return pa.array([None if day is None else date_text(day) for day in days.to_pylist()], pa.string())


def _time_text(values: Any) -> Any:
    """As Spark writes times: the fraction of the second without zeros at its end. Raises ``ArrowInvalid`` for a year
    that engines write differently."""
    ends = pc.min_max(_plain(values, pa.int64()))
    if ends["min"].is_valid and not _FIRST_US <= ends["min"].as_py() <= ends["max"].as_py() <= _LAST_US:
        raise pa.ArrowInvalid("a timestamp as a string has a year from 1 to 9999")
    clock = _plain(values, pa.timestamp("us"))  # always with six digits of the fraction
    return pc.replace_substring_regex(_plain(clock, pa.string()), r"\.?0*$", "")


# --- arrays, maps and structs ---------------------------------------------------------------------------------


@takes_scalars
def _nested(values: Any, source: DataType, target: DataType, zone: str) -> Any:
    """The same with each part cast; fields of structs go by name. Nulls stay, also where ``target`` has none."""
    arrow_type = type_to_arrow(target)
    match source, target:
        case Struct(given), Struct(wanted):
            # Values below a null struct are undefined, so they count as nulls.
            parts = values.flatten() if values.null_count else [values.field(at) for at in range(len(given))]
            places_of = places_by_name(field.name for field in given)
            places = [places_of(field.name)[0] for field in wanted]
            pairs = zip(places, wanted, strict=True)
            found = [cast(parts[at], given[at].type, field.type, zone) for at, field in pairs]
            mask = values.is_null() if values.null_count else None
            return pa.StructArray.from_arrays(found, fields=list(arrow_type), mask=mask)
        case Array(given_element), Array(element):
            offsets, mask = offsets_and_mask(values)
            return pa.ListArray.from_arrays(
                offsets, cast(values.flatten(), given_element, element, zone), arrow_type, mask=mask
            )
        case Map(given_key, given_value), Map(key, value):
            lists = as_list_of_entries(values)
            offsets, mask = offsets_and_mask(lists)
            entries = lists.flatten()
            keys = cast(entries.field(0), given_key, key, zone)
            items = cast(entries.field(1), given_value, value, zone)
            return pa.MapArray.from_arrays(offsets, keys, items, arrow_type, mask=mask)
    raise TypeError(f"no cast of {type_name(source)} to {type_name(target)}")


@takes_scalars
def _nested_text(values: Any, source: DataType, target: DataType, zone: str) -> Any:
    """``[1, null]``, ``{a -> 1}``; of a struct ``{1, a}``."""
    if isinstance(source, Struct):
        parts = [_shown(values.field(at), field.type) for at, field in enumerate(source.fields)]
        found = [f"{{{', '.join(row)}}}" for row in zip(*parts, strict=True)] if parts else ["{}"] * len(values)
    else:
        lists = as_list_of_entries(values) if isinstance(source, Map) else values
        offsets, _ = offsets_and_mask(lists)
        if isinstance(source, Map):
            entries = lists.flatten()
            pairs = zip(_shown(entries.field(0), source.key), _shown(entries.field(1), source.value), strict=True)
            shown = [f"{key} -> {value}" for key, value in pairs]
        else:
            assert isinstance(source, Array)
            shown = _shown(lists.flatten(), source.element)
        ends = offsets.to_pylist()
        form = "{{{}}}" if isinstance(source, Map) else "[{}]"
        found = [form.format(", ".join(shown[begin:end])) for begin, end in itertools.pairwise(ends)]
    flags = values.is_valid().to_pylist()
    return pa.array([text if flag else None for text, flag in zip(found, flags, strict=True)], pa.string())


def _shown(values: Any, kind: DataType) -> list[str]:
    return ["null" if text is None else text for text in cast(values, kind, STRING).to_pylist()]


# --- strings --------------------------------------------------------------------------------------------------


def _from_string(values: Any, target: DataType) -> Any:
    if target == BINARY:
        return _plain(values, pa.binary())
    values = pc.ascii_trim_whitespace(values)
    if target == BOOLEAN:
        return _words(values)
    if isinstance(target, Decimal):
        values = _checked(values, "decimal", target)
        wide = _plain(values, pa.decimal256(_WIDE_PRECISION, 38))
        return to_decimal(wide, Decimal(_WIDE_PRECISION, 38), target.precision, target.scale)
    kind = _form(target)
    if target in TIMES:
        values = in_one_form(values, target, _FORMS[kind])
    values = _checked(values, kind, target)
    values = pc.replace_substring_regex(values, r"^\+", "") if is_numeric(target) else values
    arrow_type = type_to_arrow(target)
    return _plain(_plain(values, pa.float64()), arrow_type) if target == DOUBLE else _plain(values, arrow_type)


def _instants(values: Any, zone: str) -> Any:
    """Texts as timestamps: in the zone behind the time, or else in ``zone``."""
    values = in_one_form(pc.ascii_trim_whitespace(values), TIMESTAMP, _FORMS["instant"])
    values = _checked(values, "instant", TIMESTAMP)
    offset = rf"({_OFFSET})$"
    has_offset = pc.match_substring_regex(values, rf":.*{offset}")  # not the day of 2026-11-18
    bare = pc.if_else(has_offset, pc.replace_substring_regex(values, offset, ""), values)
    clock = _plain(bare, pa.timestamp("us"))
    instants = as_instant(clock, zone) if zone != UTC else _plain(clock, _INSTANT)
    if not (has_offset if isinstance(has_offset, pa.Scalar) else pc.any(has_offset)).as_py():
        return instants
    is_utc = pc.or_(pc.invert(has_offset), pc.ends_with(values, "Z"))
    signed = pc.if_else(is_utc, "+00:00", pc.utf8_slice_codeunits(values, -6))
    hours, minutes = (_plain(pc.utf8_slice_codeunits(signed, *at), pa.int64()) for at in ((1, 3), (4, 6)))
    ahead = pc.multiply(pc.add(pc.multiply(hours, 60), minutes), 60_000_000)
    back = pc.if_else(pc.starts_with(signed, "-"), ahead, pc.negate(ahead))
    return pc.if_else(has_offset, _plain(pc.add(clock, _plain(back, pa.duration("us"))), _INSTANT), instants)


def _form(target: DataType) -> str:
    if isinstance(target, Decimal):
        return "decimal"
    if target == DATE:
        return "date"
    if target in TIMESTAMPS:
        return "instant" if target == TIMESTAMP else "timestamp"
    return "integer" if is_integer(target) else "floating"


def _checked(values: Any, kind: str, target: DataType) -> Any:
    """The strings, if SQL accepts all of them. Arrow accepts more forms, such as 0x1F for a number."""
    fits = pc.match_substring_regex(values, _FORMS[kind])
    return _or_fail(fits, values, target)


def _words(values: Any) -> Any:
    lower = pc.ascii_lower(values)
    is_true = pc.is_in(lower, value_set=pa.array(_TRUE_WORDS))
    is_false = pc.is_in(lower, value_set=pa.array(_FALSE_WORDS))
    known = pc.or_kleene(pc.or_kleene(is_true, is_false), pc.is_null(values))
    _or_fail(known, values, BOOLEAN)
    return pc.if_else(pc.is_null(values), pa.scalar(None, pa.bool_()), is_true)


def _or_fail(fits: Any, values: Any, target: DataType) -> Any:
    if isinstance(fits, pa.Scalar):
        misfit = values if fits.as_py() is False else None
    else:
        first = pc.index(fits, False).as_py()
        misfit = values[first] if first >= 0 else None
    if misfit is not None:
        like = f", such as {_EXAMPLES[target]}" if target in _EXAMPLES else ""
        raise pa.ArrowInvalid(f"{misfit.as_py()!r} is not a value of type {type_name(target)}{like}")
    return values
