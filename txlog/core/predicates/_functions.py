"""The SQL functions on which Spark and pyarrow agree: their names, arguments and result types.

In: a name and bound arguments. Out: a bound expression. Other functions are refused, because their results depend on
the engine or the time; the error names them. ``_kernels`` computes each function with Arrow.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence

from txlog.core.format.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    VOID,
    DataType,
    Decimal,
    type_name,
)
from txlog.core.predicates._build import (
    arithmetic,
    as_condition,
    call,
    cast_to,
    check_sign,
    chosen,
    compare,
    convert,
    is_null,
    literal,
    try_cast_to,
)
from txlog.core.predicates._collection_functions import COLLECTION_FUNCTIONS
from txlog.core.predicates._format_functions import FORMAT_FUNCTIONS
from txlog.core.predicates._nested_functions import NESTED_FUNCTIONS
from txlog.core.predicates._operands import Make, constant, typed
from txlog.core.predicates._package_functions import package_function
from txlog.core.predicates._string_functions import STRING_FUNCTIONS
from txlog.core.predicates._time_functions import TIME_FUNCTIONS, extracted
from txlog.core.predicates.terms.predicate import Not
from txlog.core.predicates.terms.tree import Call, CallSql, Expression, Value
from txlog.core.predicates.terms.types import common_type, is_floating, is_integer, is_numeric, is_ordered

NONDETERMINISTIC = frozenset(
    {
        *("rand", "random", "randn", "uuid", "shuffle", "monotonically_increasing_id", "spark_partition_id"),
        *("input_file_name", "current_user", "session_user", "user"),
    }
)
"""Functions that return another value in each call or session."""

_INSTEAD = {
    "asinh": "Spark's versions compute it in different ways: write sign(x) * ln(abs(x) + sqrt(x * x + 1))",
    "acosh": "Spark's versions compute it in different ways: write ln(x + sqrt(x * x - 1))",
    **dict.fromkeys(
        ("count", "sum", "avg", "min", "max", "first", "last", "any_value", "collect_list", "collect_set"),
        "it is a value of several rows: compute it first",
    ),
    **dict.fromkeys(("explode", "posexplode", "stack"), "it makes several rows of one: do that first"),
    "charindex": "write locate(part, text)",
    "iff": "write if(condition, value, otherwise)",
    "starts_with": "write startswith(text, prefix)",
    "ends_with": "write endswith(text, suffix)",
    "convert_timezone": "write from_utc_timestamp(at, zone) or to_utc_timestamp(at, zone)",
    "make_interval": "write make_dt_interval(days, hours) or make_ym_interval(years, months)",
    "ilike": "write text ILIKE pattern",
    "like": "write text LIKE pattern",
    **dict.fromkeys(("strftime", "to_char"), "write date_format(at, 'yyyy-MM-dd')"),
}
"""Functions that are left out, and the nearest that can be written instead."""


def function(name: str, arguments: Sequence[Expression]) -> Expression:
    """``name(arguments)``. Raises ``ValueError`` naming what is wrong, and what to write instead."""
    name = ALIASES.get(name.lower(), name.lower())
    lowest, highest, make = _known(name)
    if not lowest <= len(arguments) <= (highest or len(arguments)):
        wanted = f"{lowest}" if lowest == highest else f"{lowest} to {highest}" if highest else f"at least {lowest}"
        raise ValueError(f"{name}() takes {wanted} argument{'s' if wanted != '1' else ''}, not {len(arguments)}")
    return make(*arguments)


def check_function(name: str) -> None:
    """Raises ``ValueError``, as `function` does, if there is no function of this name."""
    _known(ALIASES.get(name.lower(), name.lower()))


def _known(name: str) -> tuple[int, int | None, Make]:
    if name in NONDETERMINISTIC:
        raise ValueError(f"{name}() returns another value each time: compute it once, and write the value")
    known = FUNCTIONS.get(name)
    if known is None and (brought := package_function(name)):
        known = brought.lowest, brought.highest, brought.make
    if known is None:
        raise ValueError(f"the function {name}() is not supported: {_INSTEAD.get(name) or _similar(name)}")
    return known


def _similar(name: str) -> str:
    close = difflib.get_close_matches(name, [*FUNCTIONS, *ALIASES], n=3)
    return f"did you mean {', '.join(close)}?" if close else "docs/expressions.md lists the functions"


# --- numbers and choices --------------------------------------------------------------------------------------


def _absolute(value: Expression) -> Expression:
    if not is_numeric(value.type):
        raise ValueError(f"abs() takes a number, not {type_name(value.type)}")
    check_sign(value)
    return call("abs", (value,), value.type)


def _whole(name: str) -> Make:
    def make(value: Expression, digits: Expression | None = None) -> Expression:
        if digits is not None:
            return _whole_digits(name, value, constant(digits, int, name))
        if isinstance(value.type, Decimal):
            return call(name, (value,), Decimal(min(38, value.type.precision - value.type.scale + 1), 0))
        if not is_numeric(value.type):
            raise ValueError(f"{name}() takes a number, not {type_name(value.type)}")
        return call(name, (convert(value, LONG) if is_integer(value.type) else convert(value, DOUBLE),), LONG)

    return make


def _whole_digits(name: str, value: Expression, count: int) -> Expression:
    """``ceil(decimal, digits)``."""
    if not isinstance(value.type, Decimal):
        raise ValueError(f"{name}() with a number of digits takes a decimal, not {type_name(value.type)}: CAST it")
    sql = CallSql(f"{name}({{}}, {count})")
    return call("rounded_" + name, (value,), _rounded_type(value.type, _checked_digits(name, count)), (count, sql))


def _checked_digits(name: str, count: int) -> int:
    if not -38 <= count <= 38:
        raise ValueError(f"{name}() takes from -38 to 38 digits, not {count}")
    return count


def _rounded_type(kind: Decimal, count: int) -> Decimal:
    scale = min(kind.scale, max(count, 0))
    whole = max(kind.precision - kind.scale + 1, 1 - min(count, 0))
    return Decimal(min(38, whole + scale), scale)


def _rounded(name: str) -> Make:
    def make(value: Expression, digits: Expression | None = None) -> Expression:
        count = 0 if digits is None else constant(digits, int, name)
        if not is_numeric(value.type):
            raise ValueError(f"{name}() takes a number, not {type_name(value.type)}")
        _checked_digits(name, count)
        if is_integer(value.type) and count >= 0:
            return value
        kind = _rounded_type(value.type, count) if isinstance(value.type, Decimal) else value.type
        return call(name, (value,), kind, (count,))

    return make


def _extreme(name: str) -> Make:
    def make(*values: Expression) -> Expression:
        kind: DataType | None = VOID
        for value in values:
            kind = common_type(kind, value.type) if kind is not None else None
        if kind is None or not is_ordered(kind):
            types = sorted({type_name(value.type) for value in values})
            raise ValueError(f"{name}() takes values of one type with an order, not {', '.join(types)}: CAST them")
        return call(name, [convert(value, kind) for value in values], kind)

    return make


def _pmod(left: Expression, right: Expression) -> Expression:
    """The remainder; a negative one plus the divisor."""
    rest = arithmetic("%", left, right)
    shifted = convert(arithmetic("%", arithmetic("+", rest, right), right), rest.type)
    return chosen([as_condition(compare("<", rest, literal(0)))], [shifted, rest])


def _try_divide(left: Expression, right: Expression) -> Expression:
    is_zero = as_condition(compare("=", right, literal(0)))
    return chosen([is_zero], [literal(None), arithmetic("/", left, right)])


def _tried(name: str, operator: str) -> Make:
    """Arithmetic of numbers that is null where it overflows."""

    def make(left: Expression, right: Expression) -> Expression:
        if not all(is_numeric(each.type) or each.type == VOID for each in (left, right)):
            raise ValueError(f"{name}() takes numbers, not {type_name(left.type)} and {type_name(right.type)}")
        made = arithmetic(operator, left, right)
        if not isinstance(made, Call):
            return made
        return call("try_arithmetic", made.arguments, made.type, (operator, CallSql(f"{name}({{}}, {{}})")))

    return make


def _try_mod(left: Expression, right: Expression) -> Expression:
    is_zero = as_condition(compare("=", right, literal(0)))
    return chosen([is_zero], [literal(None), arithmetic("%", left, right)])


def _factorial(number: Expression) -> Expression:
    if not is_integer(number.type) or number.type == LONG:
        raise ValueError(f"factorial() takes an int, not {type_name(number.type)}")
    return call("factorial", (convert(number, INTEGER),), LONG)


def _decode(value: Expression, *rest: Expression) -> Expression:
    """``decode(value, search, result, ..., default)``: the result of the first search that ``<=>`` finds equal."""
    pairs = len(rest) // 2
    conditions = [as_condition(compare("<=>", value, each)) for each in rest[0 : 2 * pairs : 2]]
    default = rest[-1] if len(rest) % 2 else literal(None)
    found = chosen(conditions, [*rest[1 : 2 * pairs : 2], default])
    if value.type != STRING or not is_numeric(found.type) or len(rest) % 2:
        return found
    if not is_integer(found.type):
        raise ValueError(
            "decode() of a string without a default makes strings or whole numbers, and not"
            f" {type_name(found.type)}: give NULL as its last value"
        )
    return convert(found, LONG)  # as Spark does


def _of_doubles(name: str) -> Make:
    def make(*values: Expression) -> Expression:
        for value in values:
            if not is_numeric(value.type) and value.type != VOID:
                raise ValueError(f"{name}() takes a number, not {type_name(value.type)}")
        return call(name, [convert(value, DOUBLE) for value in values], DOUBLE)

    return make


def _log(base: Expression, value: Expression | None = None) -> Expression:
    return _of_doubles("ln")(base) if value is None else _of_doubles("log")(base, value)


def _bit_count(value: Expression) -> Expression:
    if not is_integer(value.type):
        raise ValueError(f"bit_count() takes a whole number, not {type_name(value.type)}")
    return call("bit_count", (convert(value, LONG),), INTEGER)


def _shifted(value: Expression, count: Expression) -> Expression:
    if not is_integer(value.type):
        raise ValueError(f"shiftleft() takes a whole number, not {type_name(value.type)}")
    kind = LONG if value.type == LONG else INTEGER
    return call("shiftleft", (convert(value, kind), typed(count, INTEGER, "shiftleft")), kind)


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


def _negated(value: Expression) -> Expression:
    if not is_numeric(value.type):
        raise ValueError(f"cannot negate {type_name(value.type)}")
    check_sign(value)
    return call("negate", (value,), value.type)


def _positive(value: Expression) -> Expression:
    if not is_numeric(value.type):
        raise ValueError(f"positive() takes a number, not {type_name(value.type)}")
    return value


def _nanvl(value: Expression, other: Expression) -> Expression:
    return chosen([as_condition(_isnan(value))], [other, value])


def _null_if_zero(value: Expression) -> Expression:
    return _nullif(value, literal(0))


def _zero_if_null(value: Expression) -> Expression:
    return chosen([], [value, literal(0)], "coalesce")


def _date_part(part: Expression, value: Expression) -> Expression:
    return extracted(str(constant(part, str, "date_part")), value)


def _from_unix_time(seconds: Expression, pattern: Expression | None = None) -> Expression:
    written = literal("yyyy-MM-dd HH:mm:ss") if pattern is None else pattern
    return TIME_FUNCTIONS["date_format"][2](TIME_FUNCTIONS["timestamp_seconds"][2](seconds), written)


def _regexp_substr(text: Expression, pattern: Expression) -> Expression:
    return _nullif(STRING_FUNCTIONS["regexp_extract"][2](text, pattern, literal(0)), literal(""))


def _cast(data_type: DataType) -> Make:
    return lambda value: cast_to(value, data_type)


def _try_cast(data_type: DataType, name: str) -> Make:
    return lambda value: try_cast_to(typed(value, STRING, name), data_type)


_CASTS: dict[str, DataType] = {
    **{"tinyint": BYTE, "smallint": SHORT, "int": INTEGER, "bigint": LONG, "float": FLOAT, "double": DOUBLE},
    **{"string": STRING, "boolean": BOOLEAN, "binary": BINARY, "timestamp": TIMESTAMP},
}
_EPOCH = Value(0, DATE)
_OF_ONE_DOUBLE = (
    *(
        "sign",
        "sqrt",
        "exp",
        "ln",
        "log2",
        "log10",
        "cbrt",
        "degrees",
        "radians",
        "rint",
        "expm1",
        "log1p",
        "sin",
        "cos",
        "tan",
    ),
    *("cot", "sec", "csc", "asin", "acos", "atan", "sinh", "cosh", "tanh", "atanh"),
)


FUNCTIONS: dict[str, tuple[int, int | None, Make]] = {
    **STRING_FUNCTIONS,
    **TIME_FUNCTIONS,
    **NESTED_FUNCTIONS,
    **COLLECTION_FUNCTIONS,
    **FORMAT_FUNCTIONS,
    "abs": (1, 1, _absolute),
    "negative": (1, 1, _negated),
    "positive": (1, 1, _positive),
    "ceil": (1, 2, _whole("ceil")),
    "floor": (1, 2, _whole("floor")),
    "round": (1, 2, _rounded("round")),
    "bround": (1, 2, _rounded("bround")),
    **{name: (1, 1, _of_doubles(name)) for name in _OF_ONE_DOUBLE},
    "atan2": (2, 2, _of_doubles("atan2")),
    "hypot": (2, 2, _of_doubles("hypot")),
    "log": (1, 2, _log),
    "power": (2, 2, _of_doubles("power")),
    "pi": (0, 0, lambda: Value(math.pi, DOUBLE)),
    "e": (0, 0, lambda: Value(math.e, DOUBLE)),
    "isnan": (1, 1, _isnan),
    "bit_count": (1, 1, _bit_count),
    "shiftleft": (2, 2, _shifted),
    "mod": (2, 2, lambda left, right: arithmetic("%", left, right)),
    "pmod": (2, 2, _pmod),
    "try_divide": (2, 2, _try_divide),
    "try_mod": (2, 2, _try_mod),
    "try_add": (2, 2, _tried("try_add", "+")),
    "try_subtract": (2, 2, _tried("try_subtract", "-")),
    "try_multiply": (2, 2, _tried("try_multiply", "*")),
    "factorial": (1, 1, _factorial),
    "greatest": (2, None, _extreme("greatest")),
    "least": (2, None, _extreme("least")),
    **{name: (1, 1, _cast(data_type)) for name, data_type in _CASTS.items()},
    "try_to_date": (1, 1, _try_cast(DATE, "try_to_date")),
    "try_to_timestamp": (1, 1, _try_cast(TIMESTAMP, "try_to_timestamp")),
    "date_part": (2, 2, _date_part),
    "monthname": (1, 1, lambda value: TIME_FUNCTIONS["date_format"][2](value, literal("MMM"))),
    "dayname": (1, 1, lambda value: TIME_FUNCTIONS["date_format"][2](value, literal("EEE"))),
    "regexp_substr": (2, 2, _regexp_substr),
    "from_unixtime": (1, 2, _from_unix_time),
    "unix_date": (1, 1, lambda value: TIME_FUNCTIONS["datediff"][2](typed(value, DATE, "unix_date"), _EPOCH)),
    "date_from_unix_date": (1, 1, lambda days: TIME_FUNCTIONS["date_add"][2](_EPOCH, days)),
    "equal_null": (2, 2, lambda left, right: compare("<=>", left, right)),
    "nanvl": (2, 2, _nanvl),
    "nullifzero": (1, 1, _null_if_zero),
    "zeroifnull": (1, 1, _zero_if_null),
    "coalesce": (1, None, lambda *values: chosen([], values, "coalesce")),
    "if": (3, 3, _if),
    "nullif": (2, 2, _nullif),
    "nvl2": (3, 3, _nvl2),
    "decode": (3, None, _decode),
    "isnull": (1, 1, is_null),
    "isnotnull": (1, 1, lambda value: Not(as_condition(is_null(value)))),
}
"""Name -> the minimum and maximum number of operands (None: any), and what builds the expression."""

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
    "dayofmonth": "day",
    "date_diff": "datediff",
    "dateadd": "date_add",
    "date": "to_date",
    "position": "locate",
    "regexp": "rlike",
    "regexp_like": "rlike",
    "sha": "sha1",
    "signum": "sign",
    "pow": "power",
    "cardinality": "size",
    "array_size": "size",
    "datepart": "date_part",
    "to_unix_timestamp": "unix_timestamp",
    "char": "chr",
}
