"""What is in a variant, as a type in SQL: Spark's ``schema_of_variant``.

In: a part of a variant. Out: the text of a type, such as ``OBJECT<a: BIGINT, b: ARRAY<VARIANT>>``. Pure.
"""

from __future__ import annotations

import decimal

from txlog.core.format.schema import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    LONG,
    STRING,
    TIMES,
    TIMESTAMP,
    VARIANT,
    VOID,
    Array,
    DataType,
    Decimal,
    Field,
    Map,
    Primitive,
    Struct,
    member_name,
    timestamp_of,
    type_name,
)
from txlog.variant.encoding import Part

_KINDS: dict[str, DataType] = {
    **dict.fromkeys(("byte", "short", "integer", "long"), LONG),
    **{"null": VOID, "boolean": BOOLEAN, "double": DOUBLE, "float": FLOAT, "string": STRING, "binary": BINARY},
    **{each.name: each for each in TIMES},
}
_NUMBERS = (LONG, FLOAT, DOUBLE)
_TIMES = (DATE, timestamp_of(has_zone=False), TIMESTAMP)
_DIGITS_MAX = 38
_LONG_DIGITS = 20


def schema_of(part: Part) -> str:
    """The text of the type. Raises MalformedVariantError."""
    return _text(shape_of(part))


def shape_of(part: Part) -> DataType:
    """The type: a struct for an object. Raises MalformedVariantError."""
    kind = part.kind
    if kind == "object":
        part.python()  # checks how deep it nests, and that no offset is used twice
        return Struct(tuple(Field(name, shape_of(each)) for name, each in part.fields()))
    if kind == "array":
        part.python()
        element: DataType = VOID
        for each in part.items():
            element = _common(element, shape_of(each))
        return Array(element)
    if kind == "decimal":
        return _decimal(part.python())
    return _KINDS.get(kind, Primitive(kind))


def _decimal(value: decimal.Decimal) -> Decimal:
    _, digits, exponent = (value.normalize(decimal.Context(prec=80)) if value else decimal.Decimal(0)).as_tuple()
    scale = max(-int(exponent), 0)
    return Decimal(max(len(digits) + max(int(exponent), 0), scale), scale)


def _common(one: DataType, other: DataType) -> DataType:
    """The type of both, as Spark infers it from JSON; a variant if they have none."""
    match one, other:
        case _ if one == other or other == VOID:
            return one
        case _ if one == VOID:
            return other
        case Struct(), Struct():
            names = sorted({*one.names, *other.names})
            pairs = [(name, _field(one, name), _field(other, name)) for name in names]
            return Struct(tuple(Field(name, _common(left, right)) for name, left, right in pairs))
        case Array(), Array():
            return Array(_common(one.element, other.element))
        case Decimal(), Decimal():
            scale = max(one.scale, other.scale)
            digits = max(one.precision - one.scale, other.precision - other.scale) + scale
            return Decimal(digits, scale) if digits <= _DIGITS_MAX else DOUBLE
        case Decimal(), _ if other in (LONG, DOUBLE):
            return DOUBLE if other == DOUBLE else _common(one, Decimal(_LONG_DIGITS, 0))
        case _, Decimal() if one in (LONG, DOUBLE):
            return _common(other, one)
    for order in (_NUMBERS, _TIMES):
        if one in order and other in order:
            return order[max(order.index(one), order.index(other))]
    return VARIANT


def _field(struct: Struct, name: str) -> DataType:
    return next((field.type for field in struct.fields if field.name == name), VOID)


def _text(shape: DataType) -> str:
    match shape:
        case Struct(fields):
            return f"OBJECT<{', '.join(f'{member_name(each.name)}: {_text(each.type)}' for each in fields)}>"
        case Array(element):
            return f"ARRAY<{_text(element)}>"
        case Map():
            raise TypeError("a variant has no maps")
    return type_name(shape).upper()
