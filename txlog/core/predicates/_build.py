"""Builds typed expressions: operators on bound operands, with SQL's implicit casts.

In: bound operands. Out: a bound tree in one normal form. A comparison of a target column with a literal becomes a leaf
of ``predicates``, which can skip files. An expression of literals is computed once, here. Raises ``ValueError`` that
says what does not fit; the caller adds the text and the place.
"""

from __future__ import annotations

import datetime
import decimal
import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from txlog.core.format.scalars import plain, scalar_type
from txlog.core.format.schema import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    STRING,
    TIMES,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TIMESTAMPS,
    VOID,
    DataType,
    Decimal,
    Primitive,
    Struct,
    type_name,
)
from txlog.core.format.time_zones import offset_of
from txlog.core.predicates._evaluate import evaluate
from txlog.core.predicates._package_functions import cast_of_package
from txlog.core.predicates.terms.predicate import (
    And,
    BooleanExpression,
    Comparison,
    Constant,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    StartsWith,
    bind_leaf,
)
from txlog.core.predicates.terms.tree import Call, CallSql, Expression, Reference, Value
from txlog.core.predicates.terms.types import (
    INTEGER_DIGITS,
    arithmetic_type,
    can_assign,
    can_cast,
    cast_depends_on_zone,
    common_type,
    is_integer,
    is_numeric,
    is_ordered,
    is_same_nested,
    type_beside,
)
from txlog.core.predicates.terms.values import Microseconds, fit, next_comparison
from txlog.core.predicates.terms.zones import UTC, current_zone
from txlog.core.util import described
from txlog.errors import InvalidInputError

FLIPPED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<=", "<=>": "<=>"}
"""The operator that means the same with its sides swapped."""

_DAY_MICROSECONDS = 86_400_000_000
_ONE_ROW = pa.RecordBatch.from_struct_array(pa.nulls(1, pa.struct([])))  # pa.array of a Python value imports pandas


def literal(value: Any) -> Value:
    """A Python value, or one of numpy, pandas or pyarrow, as a literal of the type that Spark gives the same literal:
    a number of numpy and a scalar of pyarrow keep their own.

    Raises ``ValueError``.
    """
    if isinstance(value, Value):
        return value
    own = plain(value)
    found = _of_python(own)
    kind = scalar_type(value)
    return found if kind is None else Value(None if own is None else fit(own, kind).value, kind, own)


def _of_python(value: Any) -> Value:
    if value is None:
        return Value(None, VOID)
    if isinstance(value, bool):
        return Value(value, BOOLEAN, value)
    if isinstance(value, int):
        digits = len(str(abs(value)))
        small = INTEGER if -(2**31) <= value < 2**31 else LONG
        if -(2**63) <= value < 2**63:
            return Value(value, small, value)
        value = decimal.Decimal(value)
        if digits > 38:
            raise ValueError("a whole number has at most 38 digits")
    if isinstance(value, decimal.Decimal):
        exponent = value.as_tuple().exponent
        if not isinstance(exponent, int):
            raise ValueError("a decimal is a finite number")
        scale = max(0, -exponent)
        precision = max(len(value.as_tuple().digits) + max(exponent, 0), scale, 1)
        if precision > 38:
            raise ValueError("a decimal has at most 38 digits")
        return Value(value, Decimal(precision, scale), value)
    for kind, data_type in _KINDS.items():
        if isinstance(value, kind):
            return Value(fit(value, data_type, current_zone()).value, data_type, value)
    raise ValueError(f"{type(value).__name__} is not a literal type{_instead_of(value)}")


def _instead_of(value: Any) -> str:
    """What to write for a value of several values; "" for every other kind."""
    if isinstance(value, dict):
        return ": write SQL for a struct, such as \"named_struct('x', 1)\"; maps come with rows, as by upsert"
    if isinstance(value, list | tuple | set | frozenset):
        return ': write SQL, such as "array(1, 2)"'
    return ""


def lit(value: Any) -> Expression:
    """A value as it is, where a string would be SQL: ``table.update({"status": txlog.lit("it's done")})``.

    Args:
        value: None, a bool, int, float, ``Decimal``, string, bytes, date or datetime, or the same as a scalar of numpy,
            pandas or pyarrow; NaT and NA are null.

    Returns:
        The literal, for ``update``, ``merge`` and comparisons with ``col``.

    Raises:
        InvalidInputError: No column can hold the value.
    """
    try:
        return literal(value)
    except ValueError as error:
        raise InvalidInputError(f"{described(value)} cannot be the value of a column: {error}") from None


_KINDS: dict[type, DataType] = {
    float: DOUBLE,
    str: STRING,
    bytes: BINARY,
    datetime.datetime: TIMESTAMP,
    datetime.date: DATE,
}


def call(name: str, arguments: Sequence[Expression], data_type: DataType, options: tuple[Any, ...] = ()) -> Expression:
    """The call, or its value if all arguments are literals and computing it does not fail."""
    made = Call(name, tuple(arguments), data_type, options)
    if not all(isinstance(argument, (Value, Constant)) for argument in arguments):
        return made
    try:
        found = evaluate(made, _ONE_ROW)
    except InvalidInputError:
        return made  # evaluating it raises, but only if some row needs it
    if data_type == DATE:
        found = found.cast(pa.int32())
    elif data_type in TIMESTAMPS:
        found = found.cast(pa.int64())
    return Constant(found[0].as_py()) if data_type == BOOLEAN else Value(found[0].as_py(), data_type)


def convert(expression: Expression, data_type: DataType) -> Expression:
    """An implicit cast: the same value as another type. The caller has checked that the cast exists."""
    if expression.type == data_type or is_same_nested(expression.type, data_type):
        return expression
    if isinstance(expression, Value):
        if expression.value is None:
            return Value(None, data_type)
        if is_numeric(data_type) and is_numeric(expression.type) and data_type != FLOAT:  # it is rounded to 32 bits
            fitted = fit(expression.value, data_type)
            if fitted.exact:
                return Value(fitted.value, data_type)
    zone = current_zone()
    in_zone = zone != UTC and cast_depends_on_zone(expression.type, data_type)
    return call("cast", (expression,), data_type, (zone,) if in_zone else ())


def clock_of(expression: Expression) -> Expression:
    """A timestamp as what a clock in the zone of the text shows, which functions of the time of day take."""
    is_instant = expression.type == TIMESTAMP and current_zone() != UTC
    return convert(expression, TIMESTAMP_NTZ) if is_instant else expression


def instant_of(clock: Expression, near: Expression) -> Expression:
    """The opposite: the instant at which the clock shows it; of two, the one with the offset at ``near``."""
    if clock.type != TIMESTAMP_NTZ or near.type != TIMESTAMP:
        return clock
    return call("instant", (clock, near), TIMESTAMP, (current_zone(), CallSql("{}")))


def cast_to(expression: Expression, data_type: DataType) -> Expression:
    """``CAST(expression AS data_type)``."""
    source = expression.type
    brought = None if source == data_type else cast_of_package(expression, data_type, is_try=False)
    if brought is not None:
        return brought
    if not can_cast(source, data_type):
        raise ValueError(f"engines differ in a cast of {type_name(source)} to {type_name(data_type)}, or lack it")
    return convert(expression, data_type)


def try_cast_to(expression: Expression, data_type: DataType) -> Expression:
    """``TRY_CAST(expression AS data_type)``: null for a value that does not fit."""
    brought = None if expression.type == data_type else cast_of_package(expression, data_type, is_try=True)
    if brought is not None:
        return brought
    cast = cast_to(expression, data_type)
    if not isinstance(data_type, Primitive | Decimal):
        raise ValueError("TRY_CAST does not take an array, map or struct: cast its parts")
    if not isinstance(cast, Call) or cast.name != "cast":
        return cast
    written = CallSql(f"TRY_CAST({{}} AS {type_name(data_type).upper()})")
    return call("try_cast", (expression,), data_type, (*cast.options, written))


def assigned(expression: Expression, data_type: DataType) -> Expression:
    """The expression as a value for a column (SQL store assignment): a value that does not fit raises, row by row."""
    if not can_assign(expression.type, data_type):
        given, wanted = type_name(expression.type), type_name(data_type)
        hint = ": write CAST" if can_cast(expression.type, data_type) else ""
        if expression.type in (FLOAT, DOUBLE) and isinstance(data_type, Decimal):
            hint = ": pass a decimal.Decimal, or in SQL a number with a point, such as 1.50"
        raise ValueError(
            f"a value of type {given} cannot be stored as {wanted}{hint or _differing(expression.type, data_type)}"
        )
    return convert(expression, data_type)


def _differing(given: DataType, wanted: DataType) -> str:
    """Which fields of a struct a value lacks, and which ones it has beyond them."""
    if not (isinstance(given, Struct) and isinstance(wanted, Struct)):
        return ""
    lacks = [name for name in wanted.names if given.find(name) is None]
    beyond = [name for name in given.names if wanted.find(name) is None]
    parts = [f"{verb} {', '.join(names)}" for verb, names in (("it lacks", lacks), ("it also has", beyond)) if names]
    return f": {', and '.join(parts)}" if parts else ""


def struct_of(kind: Struct, values: Sequence[Expression]) -> Expression:
    """A struct of this type, from the value of each field."""
    pairs = [f"{CallSql.of('', name)}, {{}}" for name in kind.names]
    return Call("struct", tuple(values), kind, (CallSql(f"named_struct({', '.join(pairs)})"),))


def as_condition(expression: Expression) -> Predicate:
    """The expression as a condition. Raises ``ValueError`` if it is not a boolean."""
    match expression:
        case Value(None, _):
            return Constant(None)
        case Value(bool() as value, _):
            return Constant(value)
        case Reference(path, data_type, "target"):
            return bind_leaf(Comparison(path, "=", True), data_type)
    if expression.type != BOOLEAN:
        raise ValueError(f"a condition must be a boolean, not {type_name(expression.type)}")
    return expression if isinstance(expression, Predicate) else BooleanExpression(expression)


def arithmetic(operator: str, left: Expression, right: Expression) -> Expression:
    """``left operator right``, of ``+ - * / % div & | ^``."""
    if left.type == VOID:
        left = convert(left, right.type)
    right = convert(right, left.type) if right.type == VOID else right
    left, right = _as_number(left, right.type), _as_number(right, left.type)
    if left.type == DATE and is_integer(right.type) and operator in ("+", "-") and right.type != LONG:
        return call("date_add" if operator == "+" else "date_sub", (left, convert(right, INTEGER)), DATE)
    result = arithmetic_type(operator, left.type, right.type)
    if result is None:
        hint = "; for days between two dates, write datediff(a, b)" if left.type == right.type == DATE else ""
        raise ValueError(f"cannot compute {type_name(left.type)} {operator} {type_name(right.type)}{hint}")
    if operator == "div" and Decimal in (type(left.type), type(right.type)):
        return call("div", (_decimal(left), _decimal(right)), LONG)
    if isinstance(result, Decimal):
        left, right = _decimal(left), _decimal(right)
        result = arithmetic_type(operator, left.type, right.type)
        _check_digits(operator, left.type, right.type)
    else:
        left, right = convert(left, result), convert(right, result)
    assert result is not None
    return call(operator, (left, right), result)


def _as_number(value: Expression, other: DataType) -> Expression:
    """A string beside a number, as Spark reads it."""
    return cast_to(value, type_beside(other)) if value.type == STRING and is_numeric(other) else value


def _decimal(expression: Expression) -> Expression:
    """An integer as a decimal. A literal's decimal has only as many digits as the literal."""
    if not is_integer(expression.type):
        return expression
    if isinstance(expression, Value) and isinstance(expression.value, int):
        return Value(decimal.Decimal(expression.value), Decimal(len(str(abs(expression.value))), 0))
    assert isinstance(expression.type, Primitive)
    return convert(expression, Decimal(INTEGER_DIGITS[expression.type.name], 0))


def _check_digits(operator: str, left: DataType, right: DataType) -> None:
    assert isinstance(left, Decimal)
    assert isinstance(right, Decimal)
    if operator == "/" and left.precision + right.precision + right.scale + 2 > 76:
        raise ValueError(
            f"{type_name(left)} / {type_name(right)} has too many digits: CAST both to fewer, or to DOUBLE"
        )


def check_sign(value: Expression) -> None:
    """Raises ``ValueError`` for a decimal that Spark rounds when it changes its sign: to 34 digits."""
    if isinstance(value.type, Decimal) and value.type.precision > 34:
        raise ValueError(f"engines round a {type_name(value.type)} with another sign: CAST it to at most 34 digits")


def compare(operator: str, left: Expression, right: Expression) -> Expression:
    """``left operator right``, of ``= != < <= > >= <=>``."""
    if isinstance(left, (Value, Constant)) and not isinstance(right, (Value, Constant)):
        left, right, operator = right, left, FLIPPED[operator]
    if operator == "<=>":
        if isinstance(right, Value) and right.value is None:
            return is_null(left)
    elif any(isinstance(side, Value) and side.value is None for side in (left, right)):
        return Constant(None)
    left, right = _read_beside(left, right), _read_beside(right, left)
    if left.type == FLOAT and isinstance(right, Value) and not _is_float(right):
        left, right = convert(left, DOUBLE), convert(right, DOUBLE)
    if isinstance(left, Reference) and left.side == "target" and isinstance(right, Value):
        if operator == "<=>":  # as a comparison that skips files, and never unknown
            return And(as_condition(compare("=", left, right)), Not(IsNull(left.path, left.type)))
        if _is_shown_twice(left.type, right):
            return _compare_clock(operator, left, right)
        return bind_leaf(Comparison(left.path, operator, _written(right, left.type)), left.type)
    left, right = _comparable(left, right)
    return call(operator, (left, right), BOOLEAN)


def _is_float(value: Value) -> bool:
    """Whether a number has a float with the same value: others are compared with a float as doubles."""
    if value.type == FLOAT or not is_numeric(value.type) or value.value is None:
        return True
    try:
        number = float(value.value)
        return math.isnan(number) or struct.unpack("f", struct.pack("f", number))[0] == number
    except OverflowError:
        return False


def _read_beside(text: Expression, other: Expression) -> Expression:
    """A string that is compared with a value of another type, read as Spark reads it. A literal is read as the type of
    a column, but for booleans: see `values.fit`."""
    kind = type_beside(other.type)
    is_read = isinstance(text, Value) and kind != BOOLEAN
    if text.type != STRING or is_read or kind == STRING or not is_ordered(kind):
        return text
    return cast_to(text, kind)


def _is_shown_twice(data_type: DataType, value: Value) -> bool:
    """Whether a timestamp is compared with a column of clock times that have no order as instants: in the hour in which
    summer time begins or ends."""
    is_instant = value.type == TIMESTAMP and isinstance(value.written, datetime.datetime) and not value.written.tzinfo
    return data_type == TIMESTAMP_NTZ and is_instant and offset_of(current_zone()) is None


def _compare_clock(operator: str, left: Reference, right: Value) -> Predicate:
    """The comparison of instants, and bounds that skip files: within a day, clock times have the same order."""
    assert isinstance(right.written, datetime.datetime)
    clock_us = fit(right.written, TIMESTAMP_NTZ).value
    assert isinstance(clock_us, int)
    bounds: list[Predicate] = []
    if operator in ("=", ">", ">="):
        bounds.append(Comparison(left.path, ">=", clock_us - _DAY_MICROSECONDS, left.type))
    if operator in ("=", "<", "<="):
        bounds.append(Comparison(left.path, "<=", clock_us + _DAY_MICROSECONDS, left.type))
    exact = as_condition(call(operator, (convert(left, TIMESTAMP), right), BOOLEAN))
    return balanced([*bounds, exact], And)


def _written(value: Value, data_type: DataType) -> Any:
    """The literal as the value that `values.fit` expects for a comparison with a column."""
    if data_type == TIMESTAMP and value.type in TIMES:
        found = convert(value, TIMESTAMP)
        if isinstance(found, Value) and isinstance(found.value, int):
            return Microseconds(found.value)
    if value.written is not None:
        return value.written
    if value.type in TIMES:
        value = _dated(value, data_type)
        assert isinstance(value.value, int)
        if value.type == DATE:
            return datetime.date(1970, 1, 1) + datetime.timedelta(days=value.value)
        zone = datetime.timezone.utc if value.type == TIMESTAMP else None
        return datetime.datetime(1970, 1, 1, tzinfo=zone) + datetime.timedelta(microseconds=value.value)
    return value.value


def _dated(value: Value, data_type: DataType) -> Value:
    common = common_type(value.type, data_type)
    converted = convert(value, common) if common is not None else value
    return converted if isinstance(converted, Value) else value


def _comparable(left: Expression, right: Expression) -> tuple[Expression, Expression]:
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Value) and one.type == STRING and isinstance(one.value, str) and other.type != STRING:
            parsed = fit(one.value, other.type, current_zone())
            if parsed.exact:
                typed: Expression = Value(parsed.value, other.type)
                return (left, typed) if one is right else (typed, right)
    common = common_type(left.type, right.type)
    if common is None or not is_ordered(common):
        hint = next_comparison(left.type) or next_comparison(right.type)
        hint = hint or ("" if common is not None else ": CAST one of them")
        raise ValueError(f"{type_name(left.type)} and {type_name(right.type)} cannot be compared{hint}")
    if isinstance(common, Decimal):
        return _decimal(left), _decimal(right)
    return convert(left, common), convert(right, common)


def is_null(operand: Expression) -> Expression:
    """``operand IS NULL``."""
    if isinstance(operand, Reference) and operand.side == "target":
        return IsNull(operand.path, operand.type)
    return call("is_null", (operand,), BOOLEAN)


def member(operand: Expression, items: Sequence[Expression]) -> Expression:
    """``operand IN (items)``."""
    values = [item for item in items if isinstance(item, Value)]
    if operand.type == STRING and not isinstance(operand, Value):
        kinds = {type_beside(item.type) for item in items if item.type != VOID}
        if len(kinds) == 1 and kinds != {STRING}:
            return member(cast_to(operand, kinds.pop()), items)
    if operand.type == FLOAT and not all(map(_is_float, values)):
        return member(convert(operand, DOUBLE), items)
    of_clock = any(_is_shown_twice(operand.type, value) for value in values)
    if len(values) < len(items) or isinstance(operand, Value) or of_clock:
        return balanced([as_condition(compare("=", operand, item)) for item in items], Or)
    present = [value for value in values if value.value is not None]
    has_null = len(present) < len(values)
    if isinstance(operand, Reference) and operand.side == "target":
        written = tuple(_written(value, operand.type) for value in present)
        return bind_leaf(In(operand.path, written, has_null), operand.type)
    kept = []
    for value in present:
        _comparable(operand, value)
        fitted = fit(_written(value, operand.type), operand.type, current_zone())
        kept += [fitted.value] if fitted.exact else []
    return call("in", (operand,), BOOLEAN, (tuple(kept), has_null))


def like(operand: Expression, pattern: str) -> Expression:
    """``operand LIKE pattern``."""
    if operand.type != STRING:
        if isinstance(operand, Reference) and operand.side == "target":
            return bind_leaf(StartsWith(operand.path, pattern.rstrip("%")), operand.type)
        raise ValueError(f"LIKE takes a string, not {type_name(operand.type)}")
    _check_like(pattern)
    is_column = isinstance(operand, Reference) and operand.side == "target"
    prefix = pattern[:-1] if pattern.endswith("%") else pattern
    if not any(special in prefix for special in "%_\\") and is_column:
        assert isinstance(operand, Reference)
        if pattern.endswith("%"):
            return bind_leaf(StartsWith(operand.path, prefix), STRING)
        return bind_leaf(Comparison(operand.path, "=", pattern), STRING)
    return call("like", (operand,), BOOLEAN, (pattern,))


def like_any_case(operand: Expression, pattern: str) -> Expression:
    """``operand ILIKE pattern``."""
    if operand.type != STRING:
        raise ValueError(f"ILIKE takes a string, not {type_name(operand.type)}")
    _check_like(pattern)
    lowered = call("lower", (literal(pattern),), STRING)
    if not isinstance(lowered, Value):
        raise ValueError("engines differ in the lower case of a letter in this ILIKE pattern")
    return call("ilike", (operand,), BOOLEAN, (lowered.value, CallSql.of("({} ILIKE ", pattern, after=")")))


def like_column(operand: Expression, pattern: Expression) -> Expression:
    """``operand LIKE pattern``, with another pattern in each row."""
    if operand.type != STRING:
        raise ValueError(f"LIKE takes a string, not {type_name(operand.type)}")
    return call("like_pattern", (operand, pattern), BOOLEAN, (CallSql("({} LIKE {})"),))


def _check_like(pattern: str) -> None:
    unescaped = pattern.replace("\\\\", "").replace("\\%", "").replace("\\_", "")
    if "\\" in unescaped:
        raise ValueError("in a LIKE pattern, a backslash must be followed by %, _ or another backslash")


def chosen(conditions: Sequence[Expression], values: Sequence[Expression], name: str = "case") -> Expression:
    """``CASE WHEN condition THEN value ... ELSE value END``, or COALESCE of the values, with their common type."""
    data_type: DataType | None = VOID
    for kind in sorted((value.type for value in values), key=lambda kind: kind != STRING):  # as Spark finds it
        data_type = None if data_type is None else common_type(data_type, kind) or _type_of_texts(data_type, kind)
    if data_type is None:
        types = sorted({type_name(value.type) for value in values})
        raise ValueError(f"its values have no common type ({', '.join(types)}): CAST them to one")
    converted = [convert(value, data_type) for value in values]
    if name == "coalesce":
        return call(name, converted, data_type)
    arguments = [part for pair in zip(conditions, converted, strict=False) for part in pair]
    return call(name, [*arguments, converted[-1]], data_type)


def _type_of_texts(first: DataType, other: DataType) -> DataType | None:
    is_read = first == STRING and isinstance(other, Primitive | Decimal) and can_cast(STRING, other)
    return type_beside(other) if is_read else None


def balanced(terms: Sequence[Predicate], connect: Callable[[Predicate, Predicate], Predicate]) -> Predicate:
    """The terms joined by AND or OR, as a flat tree: a thousand terms must not nest a thousand deep."""
    if len(terms) == 1:
        return terms[0]
    middle = len(terms) // 2
    return connect(balanced(terms[:middle], connect), balanced(terms[middle:], connect))
