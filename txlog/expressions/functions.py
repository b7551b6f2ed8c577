"""The SQL functions on which Spark and pyarrow agree: their names, arguments and result types.

In: a name and bound arguments. Out: a bound expression. Other functions are refused, because their results depend on
the engine or the time; the error names them. ``kernels`` computes each function with Arrow.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import Any

from txlog.expressions.build import arithmetic, as_condition, call, cast_to, chosen, compare, convert, is_null, literal
from txlog.expressions.predicates import Not
from txlog.expressions.time_patterns import pattern_parts
from txlog.expressions.tree import Expression, Value
from txlog.expressions.types import is_floating, is_integer, is_numeric
from txlog.protocol.schema import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    type_name,
)

__all__ = ["ALIASES", "FUNCTIONS", "NONDETERMINISTIC", "concat", "function"]

NONDETERMINISTIC = frozenset(
    {
        *("rand", "random", "randn", "uuid", "shuffle", "monotonically_increasing_id", "spark_partition_id"),
        *("input_file_name", "current_user", "session_user", "user", "current_timezone", "unix_timestamp"),
    }
)
"""Functions that return another value in each call or session."""

_DIFFERS = {
    "round": "engines round doubles differently: CAST to a decimal with fewer digits, which rounds half up",
    "bround": "engines round doubles differently: CAST to a decimal with fewer digits, which rounds half up",
    "regexp_like": "engines have different kinds of regular expressions: write LIKE, or filter the rows first",
    "rlike": "engines have different kinds of regular expressions: write LIKE, or filter the rows first",
    "regexp_replace": "engines have different kinds of regular expressions: write replace(), or compute it first",
    "ln": "engines differ in the last digit: compute it first",
    "log": "engines differ in the last digit: compute it first",
    "exp": "engines differ in the last digit: compute it first",
    "pow": "engines differ in the last digit: multiply",
    "power": "engines differ in the last digit: multiply",
    "initcap": "engines differ in what a word is: compute it first",
}
"""Functions left out on purpose, and what to do instead."""


def function(name: str, arguments: Sequence[Expression]) -> Expression:
    """``name(arguments)``. Raises ``ValueError`` naming what is wrong, and what to write instead."""
    name = ALIASES.get(name.lower(), name.lower())
    if name in NONDETERMINISTIC:
        raise ValueError(f"{name}() returns another value each time: compute it once, and write the value")
    known = FUNCTIONS.get(name)
    if known is None:
        raise ValueError(f"the function {name}() is not supported: {_DIFFERS.get(name) or _similar(name)}")
    lowest, highest, make = known
    if not lowest <= len(arguments) <= (highest or len(arguments)):
        wanted = f"{lowest}" if lowest == highest else f"{lowest} to {highest}" if highest else f"at least {lowest}"
        raise ValueError(f"{name}() takes {wanted} argument{'s' if wanted != '1' else ''}, not {len(arguments)}")
    return make(*arguments)


def _similar(name: str) -> str:
    close = difflib.get_close_matches(name, [*FUNCTIONS, *ALIASES], n=3)
    return f"did you mean {', '.join(close)}?" if close else f"there are {', '.join(sorted(FUNCTIONS))}"


def _typed(argument: Expression, data_type: DataType, name: str) -> Expression:
    """The argument; its type must be this one, or NULL."""
    if argument.type == data_type or (isinstance(argument, Value) and argument.value is None):
        return convert(argument, data_type)
    raise ValueError(f"{name}() takes {type_name(data_type)}, not {type_name(argument.type)}: CAST it")


def _constant(argument: Expression, kind: type, name: str) -> Any:
    if isinstance(argument, Value) and type(argument.value) is kind:
        return argument.value
    raise ValueError(f"{name}() takes a literal {'string' if kind is str else 'whole number'} here, not {argument}")


# --- strings --------------------------------------------------------------------------------------------------


def _of_string(name: str, result: DataType = STRING) -> Callable[..., Expression]:
    return lambda text: call(name, (_typed(text, STRING, name),), result)


def _with_pattern(name: str) -> Callable[..., Expression]:
    def make(text: Expression, pattern: Expression) -> Expression:
        return call(name, (_typed(text, STRING, name),), BOOLEAN, (_constant(pattern, str, name),))

    return make


def concat(*texts: Expression) -> Expression:
    return call("concat", [_typed(text, STRING, "concat") for text in texts], STRING)


def _substring(text: Expression, position: Expression, length: Expression | None = None) -> Expression:
    """The text from a position on. Positions count from 1, negative ones from the end; Spark reads 0 as 1."""
    start = _constant(position, int, "substring")
    count = None if length is None else max(0, _constant(length, int, "substring"))
    if start < 0 and length is not None:
        raise ValueError("substring() from the end takes no length, because engines differ in it: write right(s, n)")
    first = start if start < 0 else max(start - 1, 0)
    stop = None if count is None else first + count
    return call("substring", (_typed(text, STRING, "substring"),), STRING, (first, stop))


def _left(text: Expression, count: Expression) -> Expression:
    length = max(0, _constant(count, int, "left"))
    return call("substring", (_typed(text, STRING, "left"),), STRING, (0, length))


def _right(text: Expression, count: Expression) -> Expression:
    length = max(0, _constant(count, int, "right"))
    span = (-length, None) if length else (0, 0)
    return call("substring", (_typed(text, STRING, "right"),), STRING, span)


def _replace(text: Expression, search: Expression, replacement: Expression | None = None) -> Expression:
    words = (_constant(search, str, "replace"), "" if replacement is None else _constant(replacement, str, "replace"))
    return call("replace", (_typed(text, STRING, "replace"),), STRING, words)


def _octet_length(value: Expression) -> Expression:
    if value.type not in (STRING, BINARY):
        raise ValueError(f"octet_length() takes a string or binary, not {type_name(value.type)}")
    return call("octet_length", (value,), INTEGER)


# --- numbers and choices --------------------------------------------------------------------------------------


def _absolute(value: Expression) -> Expression:
    if not is_numeric(value.type):
        raise ValueError(f"abs() takes a number, not {type_name(value.type)}")
    return call("abs", (value,), value.type)


def _whole(name: str) -> Callable[..., Expression]:
    def make(value: Expression) -> Expression:
        if not (is_integer(value.type) or is_floating(value.type)):
            raise ValueError(f"{name}() takes an integer or a double, not {type_name(value.type)}")
        return call(name, (convert(value, LONG) if is_integer(value.type) else convert(value, DOUBLE),), LONG)

    return make


def _sqrt(value: Expression) -> Expression:
    if not is_numeric(value.type):
        raise ValueError(f"sqrt() takes a number, not {type_name(value.type)}")
    return call("sqrt", (convert(value, DOUBLE),), DOUBLE)


def _isnan(value: Expression) -> Expression:
    if not is_floating(value.type):
        raise ValueError(f"isnan() takes a float or a double, not {type_name(value.type)}")
    return call("isnan", (value,), BOOLEAN)


def _if(condition: Expression, value: Expression, otherwise: Expression) -> Expression:
    return chosen([as_condition(condition)], [value, otherwise])


def _nullif(value: Expression, other: Expression) -> Expression:
    return chosen([as_condition(compare("=", value, other))], [literal(None), value])


def _nvl2(value: Expression, present: Expression, absent: Expression) -> Expression:
    return chosen([Not(as_condition(is_null(value)))], [present, absent])


# --- dates and times ------------------------------------------------------------------------------------------


def _day(value: Expression, name: str) -> Expression:
    """The day of a date or of a timestamp, in UTC."""
    if value.type in (TIMESTAMP, TIMESTAMP_NTZ):
        return cast_to(value, DATE)
    return _typed(value, DATE, name)


def _date_part(name: str) -> Callable[..., Expression]:
    return lambda value: call(name, (_day(value, name),), INTEGER)


def _time_part(name: str) -> Callable[..., Expression]:
    def make(value: Expression) -> Expression:
        if value.type not in (TIMESTAMP, TIMESTAMP_NTZ):
            raise ValueError(f"{name}() takes a timestamp, not {type_name(value.type)}")
        return call(name, (value,), INTEGER)

    return make


def _shifted(name: str) -> Callable[..., Expression]:
    def make(day: Expression, count: Expression) -> Expression:
        if not is_integer(count.type) or count.type == LONG:
            raise ValueError(f"{name}() takes a number of days of type int, not {type_name(count.type)}")
        return call(name, (_day(day, name), convert(count, INTEGER)), DATE)

    return make


def _datediff(end: Expression, start: Expression) -> Expression:
    return call("datediff", (_day(end, "datediff"), _day(start, "datediff")), INTEGER)


def _to_date(value: Expression) -> Expression:
    return cast_to(value, DATE)


_UNITS = {
    **dict.fromkeys(("year", "yyyy", "yy"), "year"),
    "quarter": "quarter",
    **dict.fromkeys(("month", "mon", "mm"), "month"),
    "week": "week",
}
_CLOCK_UNITS = {"day": "day", "dd": "day", "hour": "hour", "minute": "minute", "second": "second"}


def _unit(argument: Expression, units: dict[str, str], name: str) -> str:
    written = str(_constant(argument, str, name)).lower()
    if written not in units:
        raise ValueError(f"{name}() supports the units {', '.join(sorted(set(units.values())))}, not {written!r}")
    return units[written]


def _date_trunc(unit: Expression, moment: Expression) -> Expression:
    if moment.type in (DATE, TIMESTAMP_NTZ):
        moment = cast_to(moment, TIMESTAMP)
    if moment.type != TIMESTAMP:
        raise ValueError(f"date_trunc() takes a timestamp, not {type_name(moment.type)}")
    name = _unit(unit, _UNITS | _CLOCK_UNITS, "date_trunc")
    return call("date_trunc", (moment,), TIMESTAMP, (name,))


def _date_format(moment: Expression, pattern: Expression) -> Expression:
    if moment.type == DATE:
        moment = cast_to(moment, TIMESTAMP)
    if moment.type not in (TIMESTAMP, TIMESTAMP_NTZ):
        raise ValueError(f"date_format() takes a date or a timestamp, not {type_name(moment.type)}")
    written = str(_constant(pattern, str, "date_format"))
    pattern_parts(written)
    return call("date_format", (moment,), STRING, (written,))


def _trunc(day: Expression, unit: Expression) -> Expression:
    return call("trunc", (_day(day, "trunc"),), DATE, (_unit(unit, _UNITS, "trunc"),))


def _negated(value: Expression) -> Expression:
    if not is_numeric(value.type):
        raise ValueError(f"cannot negate {type_name(value.type)}")
    return call("negate", (value,), value.type)


FUNCTIONS: dict[str, tuple[int, int | None, Callable[..., Expression]]] = {
    "upper": (1, 1, _of_string("upper")),
    "lower": (1, 1, _of_string("lower")),
    "length": (1, 1, _of_string("length", INTEGER)),
    "octet_length": (1, 1, _octet_length),
    "trim": (1, 1, _of_string("trim")),
    "ltrim": (1, 1, _of_string("ltrim")),
    "rtrim": (1, 1, _of_string("rtrim")),
    "reverse": (1, 1, _of_string("reverse")),
    "concat": (1, None, concat),
    "substring": (2, 3, _substring),
    "left": (2, 2, _left),
    "right": (2, 2, _right),
    "replace": (2, 3, _replace),
    "startswith": (2, 2, _with_pattern("startswith")),
    "endswith": (2, 2, _with_pattern("endswith")),
    "contains": (2, 2, _with_pattern("contains")),
    "abs": (1, 1, _absolute),
    "negative": (1, 1, _negated),
    "ceil": (1, 1, _whole("ceil")),
    "floor": (1, 1, _whole("floor")),
    "sqrt": (1, 1, _sqrt),
    "isnan": (1, 1, _isnan),
    "mod": (2, 2, lambda left, right: arithmetic("%", left, right)),
    "coalesce": (1, None, lambda *values: chosen([], values, "coalesce")),
    "if": (3, 3, _if),
    "nullif": (2, 2, _nullif),
    "nvl2": (3, 3, _nvl2),
    "isnull": (1, 1, is_null),
    "isnotnull": (1, 1, lambda value: Not(as_condition(is_null(value)))),
    "date_add": (2, 2, _shifted("date_add")),
    "date_sub": (2, 2, _shifted("date_sub")),
    "datediff": (2, 2, _datediff),
    "to_date": (1, 1, _to_date),
    "date_trunc": (2, 2, _date_trunc),
    "trunc": (2, 2, _trunc),
    "date_format": (2, 2, _date_format),
    **{
        name: (1, 1, _date_part(name))
        for name in ("year", "quarter", "month", "day", "dayofyear", "dayofweek", "weekday", "weekofyear")
    },
    **{name: (1, 1, _time_part(name)) for name in ("hour", "minute", "second")},
}
"""Name -> the minimum and maximum number of arguments (None: any), and what builds the expression."""

ALIASES = {
    "ucase": "upper",
    "lcase": "lower",
    "char_length": "length",
    "character_length": "length",
    "len": "length",
    "substr": "substring",
    "ceiling": "ceil",
    "nvl": "coalesce",
    "ifnull": "coalesce",
    "iff": "if",
    "dayofmonth": "day",
    "date_diff": "datediff",
    "dateadd": "date_add",
    "date": "to_date",
}
