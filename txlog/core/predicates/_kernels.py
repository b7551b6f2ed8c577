"""The Arrow kernels for each operator and function: one entry for each name that a `Call` may have.

In: a call and its arguments as arrays, scalars or Arrow expressions, already cast to the types that ``build`` chose.
Out: the result. Arithmetic is checked: an overflow raises ``pyarrow.ArrowInvalid``, as in Spark's ANSI mode.
"""

from __future__ import annotations

import decimal
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txlog.core.format.arrow.arrays import as_list_of_entries, offsets_and_mask
from txlog.core.format.arrow.decimals import divided, truncated
from txlog.core.format.schema import Decimal, Map, type_to_arrow
from txlog.core.predicates import _strict_math as strict_math
from txlog.core.predicates import _strict_trigonometry as trigonometry
from txlog.core.predicates._calendar_kernels import CALENDAR_KERNELS
from txlog.core.predicates._casts import floored, to_decimal
from txlog.core.predicates._collection_kernels import COLLECTION_FALLIBLE, COLLECTION_KERNELS
from txlog.core.predicates._format_kernels import FORMAT_FALLIBLE, FORMAT_KERNELS
from txlog.core.predicates._hash_kernels import HASH_KERNELS
from txlog.core.predicates._json_kernels import JSON_KERNELS
from txlog.core.predicates._patterns import like_pattern
from txlog.core.predicates._row_filter import ARROW_COMPARISONS
from txlog.core.predicates._row_kernels import ROW_FALLIBLE, ROW_KERNELS, by_row
from txlog.core.predicates._time_patterns import pattern_parts, written_by
from txlog.core.predicates.terms.arguments import as_arrays, as_given
from txlog.core.predicates.terms.tree import Call
from txlog.core.predicates.terms.types import is_floating, is_integer
from txlog.core.predicates.terms.zones import as_clock, as_instant

# Letters whose other case is two letters, depends on context, or exists only in the newest Unicode version.
_UPPER_DIFFERS = r"[ßŉǰɷɼΐΰև\x{1e96}-\x{1e9a}\x{1f50}-\x{1fff}\x{ab4b}\x{ab4c}\x{fb00}-\x{fb17}\x{1df40}-\x{1df7f}]"
_LOWER_DIFFERS = r"[İΣ\x{a7dd}\x{a7e2}\x{ab6c}\x{ab6d}\x{1df40}-\x{1df7f}]"


# --- numbers --------------------------------------------------------------------------------------------------


def _add(call: Call, left: Any, right: Any) -> Any:
    return _exact(call, pc.add_checked, left, right) if isinstance(call.type, Decimal) else pc.add_checked(left, right)


def _subtract(call: Call, left: Any, right: Any) -> Any:
    if isinstance(call.type, Decimal):
        return _exact(call, pc.subtract_checked, left, right)
    return pc.subtract_checked(left, right)


def _multiply(call: Call, left: Any, right: Any) -> Any:
    if not isinstance(call.type, Decimal):
        return pc.multiply_checked(left, right)
    one, other = (argument.type for argument in call.arguments)
    assert isinstance(one, Decimal)
    assert isinstance(other, Decimal)
    if one.precision + other.precision + 1 > 76:
        right = right.cast(pa.decimal256(75 - one.precision, other.scale))
    return _exact(call, pc.multiply_checked, left, right)


def _exact(call: Call, kernel: Callable[..., Any], left: Any, right: Any) -> Any:
    """The operation on decimals: in 256 bits and then rounded if the exact result may have more than 38 digits."""
    one, other = (argument.type for argument in call.arguments)
    result = call.type
    assert isinstance(one, Decimal)
    assert isinstance(other, Decimal)
    assert isinstance(result, Decimal)
    if kernel is pc.multiply_checked:
        scale, precision = one.scale + other.scale, one.precision + other.precision + 1
    else:
        scale = max(one.scale, other.scale)
        precision = max(one.precision - one.scale, other.precision - other.scale) + scale + 1
    if (precision, scale) == (result.precision, result.scale):
        return kernel(left, right)
    wide = kernel(_wide(left, one), _wide(right, other))
    return to_decimal(wide, Decimal(min(precision, 76), scale), result.precision, result.scale)


def _wide(values: Any, data_type: Decimal) -> Any:
    """The values as 256-bit decimals; unchanged if they already are."""
    if pa.types.is_decimal256(values.type):
        return values
    return values.cast(pa.decimal256(data_type.precision, data_type.scale))


def _divide(call: Call, left: Any, right: Any) -> Any:
    if not isinstance(call.type, Decimal):
        return pc.divide_checked(left, right)
    one, other = (argument.type for argument in call.arguments)
    assert isinstance(one, Decimal)
    assert isinstance(other, Decimal)
    # Arrow truncates the quotient, so it is computed with at least one more digit, which decides how to round it.
    scale = max(one.scale, call.type.scale - other.precision + other.scale)
    dividend = left.cast(pa.decimal256(one.precision - one.scale + scale, scale))
    quotient = divided(dividend, _wide(right, other))
    cut_scale = max(4, scale + other.precision - other.scale + 1)
    cut = Decimal(one.precision - one.scale + other.scale + cut_scale, cut_scale)
    return to_decimal(quotient, cut, call.type.precision, call.type.scale)


def _remainder(call: Call, left: Any, right: Any) -> Any:
    """Of integers computed from the quotient. 1 replaces a divisor of -1: the remainder is 0 too, and no quotient
    overflows."""
    if isinstance(call.type, Decimal):
        return _DECIMAL_REMAINDER(call, left, right)
    if is_floating(call.type):
        pc.divide_checked(left, right)  # raises for a divisor of zero
        return _by_numpy(np.fmod)(call, left, right)
    arrow_type = type_to_arrow(call.type)
    minus_one, one = pa.scalar(-1, arrow_type), pa.scalar(1, arrow_type)
    divisor = pc.if_else(pc.equal(right, minus_one), one, right)
    return pc.subtract_checked(left, pc.multiply_checked(pc.divide_checked(left, divisor), divisor))


def _whole_quotient(call: Call, left: Any, right: Any) -> Any:
    if isinstance(call.arguments[0].type, Decimal):
        return _DECIMAL_QUOTIENT(call, left, right)
    return pc.divide_checked(left, right)


def _decimal_quotient(call: Call, left: decimal.Decimal, right: decimal.Decimal) -> int:
    if not right:
        raise pa.ArrowInvalid("divide by zero")
    return int(_EXACT.divide_int(left, right))


def _tried(call: Call, left: Any, right: Any) -> Any:
    """The operation, with null where it overflows."""
    if isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar):
        return _tried(call, pa.repeat(left, 1), right)[0]
    try:
        return KERNELS[call.options[0]](Call(call.options[0], call.arguments, call.type), left, right)
    except (pa.ArrowInvalid, OverflowError):
        left, right = as_arrays((left, right))
    if len(left) == 1:
        return pa.nulls(1, type_to_arrow(call.type))
    at = len(left) // 2
    return pa.concat_arrays([_tried(call, left[:at], right[:at]), _tried(call, left[at:], right[at:])])


def _rounded_up(call: Call, value: decimal.Decimal) -> decimal.Decimal:
    """To so many digits: up, or down."""
    way = decimal.ROUND_CEILING if call.name == "rounded_ceil" else decimal.ROUND_FLOOR
    return value.quantize(decimal.Decimal(1).scaleb(-call.options[0]), way, _EXACT)


def _by_numpy(function: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel of floats. What has no number as its value is NaN or an infinity."""

    def kernel(call: Call, *values: Any) -> Any:
        columns = as_arrays(values)
        with np.errstate(all="ignore"):
            found = function(*(each.to_numpy(zero_copy_only=False) for each in columns))
        is_null = functools.reduce(pc.or_, map(pc.is_null, columns)).to_numpy(zero_copy_only=False)
        return as_given(values, pa.array(found, type_to_arrow(call.type), mask=is_null))

    return kernel


def _logarithm(function: Callable[..., Any], above: float = 0.0) -> Callable[..., Any]:
    """A kernel of logarithms: null for zero and below, or for ``above`` and below."""

    def kernel(call: Call, *values: Any) -> Any:
        nothing = pa.scalar(None, pa.float64())
        return _by_numpy(function)(call, *(pc.if_else(pc.less_equal(each, above), nothing, each) for each in values))

    return kernel


def _decimal_remainder(call: Call, left: decimal.Decimal, right: decimal.Decimal) -> decimal.Decimal:
    if not right:
        raise pa.ArrowInvalid("divide by zero")
    return _EXACT.remainder(left, right)


_EXACT = decimal.Context(prec=160)  # any quotient of two decimals has fewer digits
_DECIMAL_REMAINDER = by_row(_decimal_remainder)
_DECIMAL_QUOTIENT = by_row(_decimal_quotient)


def _whole(call: Call, values: Any, is_beyond: Callable[..., Any], step: int) -> Any:
    """Decimals without a fraction, one ``step`` further if the cut value ``is_beyond`` the value: Arrow's own floor is
    wrong for some (`core.format.arrow.decimals`)."""
    cut = truncated(values, 0).cast(pa.decimal256(39, 0))
    digit = pa.decimal256(1, 0)
    steps = pc.if_else(is_beyond(cut, values), pa.scalar(step, digit), pa.scalar(0, digit))
    return pc.add_checked(cut, steps).cast(type_to_arrow(call.type))


def _ceil(call: Call, values: Any) -> Any:
    if is_integer(call.arguments[0].type):
        return values
    if pa.types.is_decimal(values.type):
        return _whole(call, values, pc.less, 1)
    return _as_whole(call, pc.ceil(values))


def _floor(call: Call, values: Any) -> Any:
    if is_integer(call.arguments[0].type):
        return values
    if pa.types.is_decimal(values.type):
        return _whole(call, values, pc.greater, -1)
    return _as_whole(call, pc.floor(values))


def _as_whole(call: Call, values: Any) -> Any:
    """Floating-point numbers without a fraction as integers. Raises ``ArrowInvalid`` for NaN and what does not fit."""
    kind = type_to_arrow(call.type)
    try:
        return values.cast(kind)
    except pa.ArrowInvalid:
        raise pa.ArrowInvalid(
            f"{call.name}() makes integers, and a value is NaN, infinite or too large for one"
        ) from None


def _extreme(call: Call, *values: Any) -> Any:
    """GREATEST and LEAST: nulls are left out, and of equal values the first one counts."""
    found = values[0]
    compared = Call(">" if call.name == "greatest" else "<", call.arguments[:2], call.type)
    for other in values[1:]:
        is_further = pc.coalesce(_compare(compared, other, found), pc.is_null(found))
        found = pc.if_else(is_further, other, found)
    return found


# --- comparison -----------------------------------------------------------------------------------------------


def _compare(call: Call, left: Any, right: Any) -> Any:
    data_type = call.arguments[0].type
    if isinstance(data_type, Decimal):
        left, right = _same_decimals(call, left, right)
    found = ARROW_COMPARISONS[call.name](left, right)
    if not is_floating(data_type):
        return found
    left_nan, right_nan = pc.is_nan(left), pc.is_nan(right)
    match call.name:
        case "=":
            return pc.or_kleene(found, pc.and_kleene(left_nan, right_nan))
        case "!=":
            return pc.and_kleene(found, pc.invert(pc.and_kleene(left_nan, right_nan)))
        case "<":
            return pc.or_kleene(found, pc.and_kleene(pc.invert(left_nan), right_nan))
        case "<=":
            return pc.or_kleene(found, pc.and_kleene(right_nan, _known(left_nan)))
        case ">":
            return pc.or_kleene(found, pc.and_kleene(left_nan, pc.invert(right_nan)))
    return pc.or_kleene(found, pc.and_kleene(left_nan, _known(right_nan)))


def _known(flags: Any) -> Any:
    """True where the value is not null."""
    return pc.or_kleene(flags, pc.invert(flags))


def _same_decimals(call: Call, left: Any, right: Any) -> tuple[Any, Any]:
    one, other = (argument.type for argument in call.arguments)
    assert isinstance(one, Decimal)
    assert isinstance(other, Decimal)
    if one == other:
        return left, right
    scale = max(one.scale, other.scale)
    precision = max(one.precision - one.scale, other.precision - other.scale) + scale
    wanted = pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)
    return left.cast(wanted), right.cast(wanted)


def _null_safe_equal(call: Call, left: Any, right: Any) -> Any:
    equal = _compare(Call("=", call.arguments, call.type), left, right)
    both_null = pc.and_kleene(pc.is_null(left), pc.is_null(right))
    return pc.or_kleene(both_null, pc.coalesce(equal, pa.scalar(False, pa.bool_())))


def _case(call: Call, *arguments: Any) -> Any:
    # A null condition is unknown: `case_when` does not take its branch.
    return pc.case_when(pc.make_struct(*arguments[:-1:2]), *arguments[1::2], arguments[-1])


def _is_true(call: Call, values: Any) -> Any:
    return pc.coalesce(values, pa.scalar(False, pa.bool_()))


# --- strings --------------------------------------------------------------------------------------------------


def _upper(call: Call, values: Any) -> Any:
    return pc.utf8_upper(_mapped_alike(call, values, _UPPER_DIFFERS))


def _lower(call: Call, values: Any) -> Any:
    return pc.utf8_lower(_mapped_alike(call, values, _LOWER_DIFFERS))


def _mapped_alike(call: Call, values: Any, differs: str) -> Any:
    """The strings. Raises ``ArrowInvalid`` if one has a letter whose other case differs between engines."""
    column = pa.array([values.as_py()], pa.string()) if isinstance(values, pa.Scalar) else values
    is_plain = pc.all(pc.string_is_ascii(column)).as_py() is not False
    if not is_plain and pc.any(pc.match_substring_regex(column, differs)).as_py():
        raise pa.ArrowInvalid(f"engines differ in the {call.name} case of some letter in these strings, such as ß or Σ")
    return values


def _concat(call: Call, *values: Any) -> Any:
    separator = pa.scalar("", pa.string())
    return pc.binary_join_element_wise(*values, separator, null_handling="emit_null")


def _concat_ws(call: Call, separator: Any, *given: Any) -> Any:
    """Two at a time: Arrow's kernel that skips nulls repeats the value of an earlier row where the last is null."""
    is_one = isinstance(separator, pa.Scalar) and separator.is_valid
    if not is_one or not given or any(not pa.types.is_string(values.type) for values in given):
        return ROW_KERNELS["concat_ws"](call, separator, *given)
    joined = given[0]
    for values in given[1:]:
        both = pc.binary_join_element_wise(joined, values, separator, null_handling="emit_null")
        joined = pc.coalesce(both, joined, values)
    return pc.coalesce(joined, pa.scalar("", pa.string()))


def _like(call: Call, values: Any) -> Any:
    """Arrow's kernel searches for the text between two % as it is written, with the backslashes that escape."""
    pattern = call.options[0]
    if "\\" in pattern:
        return pc.match_substring_regex(values, like_pattern(pattern))
    return pc.match_like(values, pattern)


def _like_any_case(call: Call, values: Any) -> Any:
    return _like(call, _lower(call, values))


def _split(call: Call, values: Any) -> Any:
    separator, count = call.options[:2]
    if not separator:
        return _LETTERS(call, values)
    found = pc.split_pattern(values, separator, max_splits=count - 1 if count > 0 else None)
    return found.cast(type_to_arrow(call.type))


def _split_by_pattern(call: Call, values: Any) -> Any:
    pattern, count = call.options[:2]
    found = pc.split_pattern_regex(values, pattern, max_splits=count - 1 if count > 0 else None)
    return found.cast(type_to_arrow(call.type))


_LETTERS = by_row(lambda call, text: list(text) or [""])


def _stripped(call: Call, values: Any, letters: Any) -> Any:
    if isinstance(letters, pa.Scalar) and letters.as_py() and not isinstance(values, pa.Scalar):
        return _TRIMS[call.options[0]](values, letters.as_py())
    return ROW_KERNELS["strip"](call, values, letters)


_TRIMS = {"BOTH": pc.utf8_trim, "LEADING": pc.utf8_ltrim, "TRAILING": pc.utf8_rtrim}


def _regexp_extract(call: Call, values: Any) -> Any:
    found = pc.struct_field(pc.extract_regex(values, call.options[0]), "found")
    is_there = pc.is_valid(values)
    return pc.if_else(is_there, pc.coalesce(found, pa.scalar("", pa.string())), pa.scalar(None, pa.string()))


def _substring(call: Call, values: Any) -> Any:
    start, stop = call.options
    return pc.utf8_slice_codeunits(values, start, stop)


def _replace(call: Call, values: Any) -> Any:
    pattern, replacement = call.options
    return pc.replace_substring(values, pattern, replacement) if pattern else values


# --- dates and times ------------------------------------------------------------------------------------------


def _date_add(call: Call, days: Any, count: Any) -> Any:
    return pc.add_checked(days.cast(pa.int32()), count).cast(pa.date32())


def _date_sub(call: Call, days: Any, count: Any) -> Any:
    return pc.subtract_checked(days.cast(pa.int32()), count).cast(pa.date32())


def _date_diff(call: Call, end: Any, start: Any) -> Any:
    return pc.subtract_checked(end.cast(pa.int32()), start.cast(pa.int32()))


def _part(kernel: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    def of(call: Call, values: Any) -> Any:
        _check_years(values)
        return kernel(values, **options).cast(pa.int32())

    return of


def _check_years(values: Any) -> None:
    """Raises ``ArrowInvalid`` for a moment beyond the years of Arrow's calendar, which has 16 bits for them."""
    days = values.cast(pa.int32() if pa.types.is_date32(values.type) else pa.int64())
    ends = pc.min_max(days)
    size = 1 if pa.types.is_date32(values.type) else 86_400_000_000
    if ends["min"].is_valid and not -_LAST_DAY * size < ends["min"].as_py() <= ends["max"].as_py() < _LAST_DAY * size:
        raise pa.ArrowInvalid("the year is not between -28000 and 31900")


_LAST_DAY = 10_950_000  # in the year 31950, and the same number of days before 1970


def _microseconds_later(call: Call, moments: Any) -> Any:
    count = pa.scalar(call.options[0], pa.int64())
    return pc.add_checked(moments.cast(pa.int64()), count).cast(type_to_arrow(call.type))


def _moved(call: Call, moments: Any, counts: Any) -> Any:
    size = pa.scalar(call.options[0], pa.int64())
    return pc.add_checked(moments.cast(pa.int64()), pc.multiply_checked(counts.cast(pa.int64()), size)).cast(
        type_to_arrow(call.type)
    )


def _from_epoch(call: Call, numbers: Any) -> Any:
    """The moment that is this many units (of the option's length in microseconds) after the epoch."""
    return pc.multiply_checked(numbers, pa.scalar(call.options[0], pa.int64())).cast(type_to_arrow(call.type))


def _to_epoch(call: Call, moments: Any) -> Any:
    """The whole units since the epoch; those before it are rounded down."""
    return floored(moments.cast(pa.int64()), pa.scalar(call.options[0], pa.int64()))


def _shown_elsewhere(call: Call, moments: Any) -> Any:
    """The instant at which clocks in UTC show what those of the zone show at this one."""
    return as_clock(moments, call.options[0]).cast(pa.timestamp("us", "UTC"))


def _shown_here(call: Call, moments: Any) -> Any:
    return as_instant(moments.cast(pa.timestamp("us")), call.options[0])


def _seconds(call: Call, moments: Any) -> Any:
    """The seconds of the minute with their fraction."""
    given, minute = moments.cast(pa.int64()), pa.scalar(60_000_000, pa.int64())
    rest = pc.subtract(given, pc.multiply(floored(given, minute), minute))
    return pc.multiply(rest.cast(pa.decimal128(19, 0)), pa.scalar(_MICRO)).cast(type_to_arrow(call.type))


_MICRO = decimal.Decimal("0.000001")


def _truncated(call: Call, values: Any) -> Any:
    _check_years(values)
    return pc.floor_temporal(values, 1, call.options[0])


def _formatted(call: Call, values: Any) -> Any:
    (moments,) = as_arrays((values,))
    return as_given((values,), written_by(pattern_parts(call.options[0], call.name), moments))


# --- arrays, maps and structs ---------------------------------------------------------------------------------


def _rounded(call: Call, values: Any) -> Any:
    """Decimals half away from zero, in Arrow; other numbers, and decimals to tens, as they are written."""
    source = call.arguments[0].type
    if not isinstance(source, Decimal) or not isinstance(call.type, Decimal) or call.options[0] < 0:
        return ROW_KERNELS["round"](call, values)
    return to_decimal(values, source, call.type.precision, call.type.scale)


def _size(call: Call, values: Any) -> Any:
    given = call.arguments[0].type
    if isinstance(given, Map):  # Arrow counts in lists alone
        kind = type_to_arrow(given)
        values = values.cast(pa.list_(pa.struct([kind.key_field, kind.item_field])))
    return pc.list_value_length(values).cast(pa.int32())


def _array(call: Call, *values: Any) -> Any:
    if not values:
        return pa.scalar([], type_to_arrow(call.type))
    columns = as_arrays(values)
    length = len(columns[0])
    joined, kind = pa.concat_arrays(columns), type_to_arrow(call.type)
    if joined.type != kind.value_type:  # a cast refuses a null struct with required fields
        joined = joined.cast(kind.value_type)
    order = np.arange(len(columns) * length).reshape(len(columns), length).T.ravel()
    ends = pa.array(np.arange(0, len(joined) + 1, len(columns), dtype=np.int32))
    return as_given(values, pa.ListArray.from_arrays(ends, joined.take(pa.array(order)), kind))


def _map(call: Call, *values: Any) -> Any:
    """Entries from the keys, which come first, and the values. Raises ``ArrowInvalid`` for a key that is null or twice
    in a map, as Spark does."""
    if not values:
        return pa.scalar([], type_to_arrow(call.type))
    columns = as_arrays(values)
    kind, count, length = type_to_arrow(call.type), len(columns) // 2, len(columns[0])
    order = pa.array(np.arange(count * length).reshape(count, length).T.ravel())
    keys, items = (pa.concat_arrays(part).take(order) for part in (columns[:count], columns[count:]))
    if keys.null_count:
        raise pa.ArrowInvalid("a key of a map cannot be NULL")
    if count > 1:
        rows = pa.table({"row": np.repeat(np.arange(length), count), "key": keys})
        if rows.group_by(["row", "key"]).aggregate([]).num_rows < len(keys):
            raise pa.ArrowInvalid("a map cannot have a key twice")
    ends = pa.array(np.arange(0, len(keys) + 1, count, dtype=np.int32))
    return as_given(values, pa.MapArray.from_arrays(ends, keys.cast(kind.key_type), items.cast(kind.item_type)))


def _entries(call: Call, values: Any) -> Any:
    """The keys, or the values, of a map."""
    if isinstance(values, pa.Scalar):
        return _entries(call, pa.repeat(values, 1))[0]
    lists = as_list_of_entries(as_arrays((values,))[0])
    offsets, mask = offsets_and_mask(lists)
    part = lists.flatten().field(0 if call.name == "map_keys" else 1)
    return pa.ListArray.from_arrays(offsets, part, mask=mask).cast(type_to_arrow(call.type))


def _struct(call: Call, *values: Any) -> Any:
    kind = type_to_arrow(call.type)
    return as_given(values, pa.StructArray.from_arrays(as_arrays(values), fields=list(kind)))


def _compared_with(name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Arrow's kernel for a literal; a text of another column for each row."""
    return lambda call, *given: (
        kernel(given[0], call.options[0]) if len(given) == 1 else ROW_KERNELS[name](call, *given)
    )


_OF_ANGLES = ("acos", "asin", "atan", "atan2", "cbrt", "cos", "cosh", "expm1", "hypot", "sin", "sinh", "tan", "tanh")

KERNELS: dict[str, Callable[..., Any]] = {
    **ROW_KERNELS,
    "+": _add,
    "-": _subtract,
    "*": _multiply,
    "/": _divide,
    "%": _remainder,
    "div": _whole_quotient,
    "try_arithmetic": _tried,
    "rounded_ceil": by_row(_rounded_up),
    "rounded_floor": by_row(_rounded_up),
    "&": lambda call, left, right: pc.bit_wise_and(left, right),
    "|": lambda call, left, right: pc.bit_wise_or(left, right),
    "^": lambda call, left, right: pc.bit_wise_xor(left, right),
    "~": lambda call, values: pc.bit_wise_not(values),
    "negate": lambda call, values: pc.negate_checked(values),
    "abs": lambda call, values: pc.abs_checked(values),
    "ceil": _ceil,
    "floor": _floor,
    "sqrt": lambda call, values: pc.sqrt(values),
    "exp": _by_numpy(strict_math.exp),
    "ln": _logarithm(strict_math.log),
    "log": _logarithm(lambda base, values: strict_math.log(values) / strict_math.log(base)),
    **{name: _by_numpy(getattr(trigonometry, name)) for name in _OF_ANGLES},
    "cot": _by_numpy(lambda values: 1.0 / trigonometry.tan(values)),
    "sec": _by_numpy(lambda values: 1.0 / trigonometry.cos(values)),
    "csc": _by_numpy(lambda values: 1.0 / trigonometry.sin(values)),
    "atanh": _by_numpy(lambda values: 0.5 * (trigonometry.log1p(values) - trigonometry.log1p(-values))),
    "log1p": _logarithm(trigonometry.log1p, above=-1.0),
    "log2": _logarithm(lambda values: strict_math.log(values) / strict_math.log(np.float64(2))),
    "log10": _logarithm(strict_math.log10),
    "power": _by_numpy(strict_math.power),
    "degrees": _by_numpy(lambda values: values * (180 / math.pi)),
    "radians": _by_numpy(lambda values: values * (math.pi / 180)),
    "rint": _by_numpy(np.rint),
    "sign": lambda call, values: pc.if_else(pc.equal(values, 0.0), values, pc.sign(values)),  # zeros keep theirs
    "greatest": _extreme,
    "least": _extreme,
    "isnan": lambda call, values: pc.coalesce(pc.is_nan(values), pa.scalar(False, pa.bool_())),
    **dict.fromkeys(ARROW_COMPARISONS, _compare),
    "<=>": _null_safe_equal,
    "is_null": lambda call, values: pc.is_null(values),
    "is_true": _is_true,
    "case": _case,
    "coalesce": lambda call, *values: pc.coalesce(*values),
    "like": _like,
    "ilike": _like_any_case,
    "rlike": lambda call, values: pc.match_substring_regex(values, call.options[0]),
    "regexp_replace": lambda call, values: pc.replace_substring_regex(values, *call.options[:2]),
    "regexp_extract": _regexp_extract,
    "split": _split,
    "split_regex": _split_by_pattern,
    "upper": _upper,
    "lower": _lower,
    "length": lambda call, values: pc.utf8_length(values),
    "octet_length": lambda call, values: pc.binary_length(values),
    "trim": lambda call, values: pc.utf8_trim(values, " "),
    "ltrim": lambda call, values: pc.utf8_ltrim(values, " "),
    "rtrim": lambda call, values: pc.utf8_rtrim(values, " "),
    "reverse": lambda call, values: pc.utf8_reverse(values),
    "concat": _concat,
    "concat_ws": _concat_ws,
    "strip": _stripped,
    "bit_length": lambda call, values: pc.multiply(pc.binary_length(values), 8),
    "encode": lambda call, values: values.cast(pa.binary()),
    "regexp_count": lambda call, values: pc.count_substring_regex(values, call.options[0]),
    "substring": _substring,
    "replace": lambda call, *given: (_replace if len(given) == 1 else ROW_KERNELS["replace"])(call, *given),
    "startswith": _compared_with("startswith", pc.starts_with),
    "endswith": _compared_with("endswith", pc.ends_with),
    "contains": _compared_with("contains", pc.match_substring),
    "round": _rounded,
    **CALENDAR_KERNELS,
    **HASH_KERNELS,
    **JSON_KERNELS,
    **COLLECTION_KERNELS,
    **FORMAT_KERNELS,
    "size": _size,
    "array": _array,
    "struct": _struct,
    "map": _map,
    "map_keys": _entries,
    "map_values": _entries,
    "from_utc_timestamp": _shown_elsewhere,
    "to_utc_timestamp": _shown_here,
    "interval_microseconds": _microseconds_later,
    "moved": _moved,
    "from_epoch": _from_epoch,
    "to_epoch": _to_epoch,
    "unix_timestamp": lambda call, moments: pc.divide(moments.cast(pa.int64()), pa.scalar(1_000_000, pa.int64())),
    "date_add": _date_add,
    "date_sub": _date_sub,
    "datediff": _date_diff,
    "year": _part(pc.year),
    "quarter": _part(pc.quarter),
    "month": _part(pc.month),
    "day": _part(pc.day),
    "dayofyear": _part(pc.day_of_year),
    "dayofweek": _part(pc.day_of_week, count_from_zero=False, week_start=7),
    "weekday": _part(pc.day_of_week, count_from_zero=True, week_start=1),
    "weekofyear": _part(pc.iso_week),
    "yearofweek": _part(pc.iso_year),
    "hour": _part(pc.hour),
    "minute": _part(pc.minute),
    "second": _part(pc.second),
    "extract_second": _seconds,
    "date_trunc": _truncated,
    "trunc": _truncated,
    "date_format": _formatted,
    "instant": lambda call, clock, near: as_instant(clock, call.options[0], near),
}


def _overflows(call: Call) -> bool:
    exact = isinstance(call.type, Decimal) and call.type.precision == 38
    return is_integer(call.type) or exact


def _is_integer_valued(call: Call) -> bool:
    return is_integer(call.type)


_OF_THE_CALENDAR = (
    *("year", "quarter", "month", "day", "dayofyear", "dayofweek", "weekday", "weekofyear", "hour", "minute", "second"),
    *("yearofweek", "date_trunc", "trunc"),
)

FALLIBLE: dict[str, Callable[[Call], bool]] = {
    "+": _overflows,
    "-": _overflows,
    "*": _overflows,
    "/": lambda call: True,
    "%": lambda call: True,
    "div": lambda call: True,
    "negate": _is_integer_valued,
    "abs": _is_integer_valued,
    "ceil": lambda call: is_floating(call.arguments[0].type),
    "floor": lambda call: is_floating(call.arguments[0].type),
    "ilike": lambda call: True,
    **dict.fromkeys(("interval_microseconds", "moved"), lambda call: True),
    "from_epoch": lambda call: True,
    **dict.fromkeys(
        (*ROW_FALLIBLE, *CALENDAR_KERNELS, *JSON_KERNELS, *COLLECTION_FALLIBLE, *FORMAT_FALLIBLE), lambda call: True
    ),
    **dict.fromkeys(("map", "from_utc_timestamp", "to_utc_timestamp"), lambda call: True),
    "date_add": lambda call: True,
    "date_sub": lambda call: True,
    "datediff": lambda call: True,
    "upper": lambda call: True,
    "lower": lambda call: True,
    "date_format": lambda call: True,
    **dict.fromkeys(_OF_THE_CALENDAR, lambda call: True),
}
"""The functions that can fail for some row, and in which calls."""
