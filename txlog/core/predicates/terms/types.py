"""Type rules: the common type of two values, the type of arithmetic, and which casts exist. Spark's, in ANSI mode.

In: Delta types. Out: Delta types, or None and False if SQL has no rule or txlog refuses to follow it. Pure tables;
``build`` turns a refusal into an error with what to write instead.
"""

from __future__ import annotations

from txlog.core.format.schema import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    STRING,
    TIMES,
    TIMESTAMP,
    VOID,
    Array,
    DataType,
    Decimal,
    Field,
    Map,
    Primitive,
    Struct,
    fold_name,
    places_by_name,
    type_to_arrow,
    types_in,
)

_PRECISION_MAX = 38
_KEPT_SCALE = 6  # fraction digits that a decimal result keeps if it has too many digits (Spark's adjustPrecisionScale)

INTEGER_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 20}
"""The precision of the decimal that holds every value of an integer type."""

_WIDTHS = list(INTEGER_DIGITS)


def is_integer(data_type: DataType) -> bool:
    return isinstance(data_type, Primitive) and data_type.name in INTEGER_DIGITS


def is_floating(data_type: DataType) -> bool:
    return data_type in (FLOAT, DOUBLE)


def is_numeric(data_type: DataType) -> bool:
    return is_integer(data_type) or is_floating(data_type) or isinstance(data_type, Decimal)


def is_ordered(data_type: DataType) -> bool:
    """Whether values of the type can be compared."""
    return data_type.facts.is_ordered if isinstance(data_type, Primitive) else isinstance(data_type, Decimal)


def is_same_nested(left: DataType, right: DataType) -> bool:
    """Whether nested types differ at most in their fields' metadata: comments, or ids of mapped columns."""
    nested = (Struct, Array, Map)
    return isinstance(left, nested) and isinstance(right, nested) and type_to_arrow(left) == type_to_arrow(right)


def common_type(left: DataType, right: DataType) -> DataType | None:
    """The type that both sides of a comparison, or all branches of a CASE, are cast to; None if there is none.

    Strings have none with other types: see `type_beside`.
    """
    if left == right or right == VOID or is_same_nested(left, right):
        return left
    if left == VOID:
        return right
    if is_numeric(left) and is_numeric(right):
        return _common_number(left, right)
    if left in TIMES and right in TIMES:
        return TIMESTAMP if DATE not in (left, right) else right if left == DATE else left
    return _common_nested(left, right)


def type_beside(other: DataType) -> DataType:
    """The type as which Spark reads a string beside a value of type ``other``."""
    if is_integer(other):
        return Primitive("long")
    return DOUBLE if is_numeric(other) else other


def _common_nested(left: DataType, right: DataType) -> DataType | None:
    """The type of nested values whose parts have common types: ``array(1)`` and ``array(1.5)``."""
    match left, right:
        case Array(), Array():
            element = common_type(left.element, right.element)
            return element and Array(element, left.contains_null or right.contains_null)
        case Map(), Map():
            key, value = common_type(left.key, right.key), common_type(left.value, right.value)
            return key and value and Map(key, value, left.value_contains_null or right.value_contains_null)
        case Struct(), Struct() if left.names == right.names:
            fields = []
            for one, other in zip(left.fields, right.fields, strict=True):
                part = common_type(one.type, other.type)
                if part is None:
                    return None
                fields.append(Field(one.name, part, one.nullable or other.nullable))
            return Struct(tuple(fields))
    return None


def arithmetic_type(operator: str, left: DataType, right: DataType) -> DataType | None:
    """The type of ``left operator right`` for ``+ - * / % div & | ^``; None if SQL has no such operation."""
    if not (is_numeric(left) and is_numeric(right)):
        return None
    if operator in ("&", "|", "^"):
        return _common_number(left, right) if is_integer(left) and is_integer(right) else None
    if operator == "div":
        return None if is_floating(left) or is_floating(right) else Primitive("long")
    if is_floating(left) or is_floating(right):
        return DOUBLE if operator == "/" else _common_number(left, right)
    if is_integer(left) and is_integer(right):
        return DOUBLE if operator == "/" else _common_number(left, right)
    return _decimal_result(operator, _as_decimal(left), _as_decimal(right))


def can_cast(source: DataType, target: DataType) -> bool:
    """Whether ``CAST(source AS target)`` means the same in Spark and here."""
    if source in (target, VOID) or is_same_nested(source, target):
        return True
    if is_numeric(source) and is_numeric(target):
        return True
    match source, target:
        case Array(), Array():
            return can_cast(source.element, target.element)
        case Map(), Map():
            return can_cast(source.key, target.key) and can_cast(source.value, target.value)
        case Struct(), Struct():  # Spark takes the fields in order, and txlog by their names
            names = [[fold_name(name) for name in each.names] for each in (source, target)]
            pairs = zip(source.fields, target.fields, strict=False)
            return names[0] == names[1] and all(can_cast(one.type, other.type) for one, other in pairs)
    if target == STRING:
        return is_numeric(source) or source in (BOOLEAN, *TIMES) or _is_shown(source)
    if source == STRING:
        return is_numeric(target) or target in (BOOLEAN, *TIMES, BINARY)
    if source == BOOLEAN or target == BOOLEAN:
        return is_numeric(target if source == BOOLEAN else source)
    if is_numeric(source) or is_numeric(target):
        return TIMESTAMP in (source, target) and not isinstance(target, Decimal)
    return source in TIMES and target in TIMES


def _is_shown(source: DataType) -> bool:
    """Whether it is a nested type with a text, which has the same times in every zone."""
    parts = [] if isinstance(source, Primitive | Decimal) else list(types_in(source))
    return bool(parts) and all(each == VOID or can_cast(each, STRING) for each in parts[1:]) and TIMESTAMP not in parts


def cast_depends_on_zone(source: DataType, target: DataType) -> bool:
    """Whether a cast has another value in another time zone."""
    match source, target:
        case Struct(given), Struct(wanted):
            places_of = places_by_name(field.name for field in given)
            return any(cast_depends_on_zone(given[places_of(each.name)[0]].type, each.type) for each in wanted)
        case Array(given), Array(wanted):
            return cast_depends_on_zone(given, wanted)
        case Map(given_key, given_value), Map(key, value):
            return cast_depends_on_zone(given_key, key) or cast_depends_on_zone(given_value, value)
    other = target if source == TIMESTAMP else source
    return source != target and TIMESTAMP in (source, target) and other in (STRING, *TIMES)


def can_assign(source: DataType, target: DataType) -> bool:
    """Whether a value may be stored in a column of another type (SQL store assignment, Spark's ``ANSI`` policy).

    Numbers go into any numeric type and are checked by value; strings and booleans never turn into numbers or times.
    This goes for the parts of nested types too. Structs have the same fields, in any order. Whoever stores the value
    checks which parts may be null.
    """
    match source, target:
        case Struct(given), Struct(wanted):
            places_of = places_by_name(field.name for field in given)
            places = [places_of(field.name) for field in wanted]
            is_one_to_one = sorted(map(list, places)) == [[at] for at in range(len(given))]
            return is_one_to_one and all(
                can_assign(given[at].type, field.type) for (at,), field in zip(places, wanted, strict=True)
            )
        case Array(given_element), Array(element):
            return can_assign(given_element, element)
        case Map(given_key, given_value), Map(key, value):
            return can_assign(given_key, key) and can_assign(given_value, value)
    if source == STRING and target != STRING:
        return False
    if target == STRING and isinstance(source, Struct | Array | Map):
        return False
    if source == BOOLEAN and target not in (BOOLEAN, STRING):
        return False
    if target == BOOLEAN and source not in (BOOLEAN, VOID):
        return False
    if (is_numeric(source) and target in TIMES) or (source in TIMES and is_numeric(target)):
        return False
    if is_floating(source) and isinstance(target, Decimal):  # whose digits authors rarely mean
        return False
    return can_cast(source, target)


def _common_number(left: DataType, right: DataType) -> DataType:
    if is_integer(left) and is_integer(right):
        return left if _width(left) >= _width(right) else right
    if left == right == FLOAT:
        return FLOAT
    if is_floating(left) or is_floating(right):
        return DOUBLE
    one, other = _as_decimal(left), _as_decimal(right)
    scale = max(one.scale, other.scale)
    whole = max(one.precision - one.scale, other.precision - other.scale)
    return Decimal(min(whole + scale, _PRECISION_MAX), min(scale, max(_PRECISION_MAX - whole, 0)))


def _width(data_type: DataType) -> int:
    assert isinstance(data_type, Primitive)
    return _WIDTHS.index(data_type.name)


def _as_decimal(data_type: DataType) -> Decimal:
    if isinstance(data_type, Decimal):
        return data_type
    assert isinstance(data_type, Primitive)
    return Decimal(INTEGER_DIGITS[data_type.name], 0)


def _decimal_result(operator: str, left: Decimal, right: Decimal) -> Decimal:
    """Spark's result types (``DecimalPrecision``); too many digits shorten the fraction, to six digits at least."""
    match operator:
        case "+" | "-":
            scale = max(left.scale, right.scale)
            precision = max(left.precision - left.scale, right.precision - right.scale) + scale + 1
        case "*":
            scale = left.scale + right.scale
            precision = left.precision + right.precision + 1
        case "%":
            scale = max(left.scale, right.scale)
            precision = min(left.precision - left.scale, right.precision - right.scale) + scale
        case _:
            scale = max(_KEPT_SCALE, left.scale + right.precision + 1)
            precision = left.precision - left.scale + right.scale + scale
    if precision <= _PRECISION_MAX:
        return Decimal(precision, scale)
    whole = precision - scale
    return Decimal(_PRECISION_MAX, max(_PRECISION_MAX - whole, min(scale, _KEPT_SCALE)))
