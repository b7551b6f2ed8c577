"""The SQL functions of variants: how each is bound, and its values for arrays of rows. Spark's, in ANSI mode.

In: bound operands, then arrays of their values. Out: bound calls, then arrays. `FUNCTIONS` has them by name; `cast` is
what CAST and ``v:path::type`` mean.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from txlog.core.format.arrow.arrays import array_of
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
    Map,
    Primitive,
    Struct,
    timestamp_of,
    type_name,
    type_to_arrow,
    types_in,
)
from txlog.core.format.schema_input import from_any
from txlog.core.predicates import PackageFunction, constant, try_cast, typed
from txlog.core.predicates.terms.tree import Call, CallSql, Expression, Reference, Value
from txlog.core.predicates.terms.types import can_cast, is_floating, is_numeric
from txlog.core.predicates.terms.zones import current_zone
from txlog.errors import InvalidInputError
from txlog.variant.arrow_form import struct_of
from txlog.variant.bounds import path_text
from txlog.variant.encoding import MalformedVariantError, Part, Single, encode, encode_value, metadata_of, names_of
from txlog.variant.json_batches import variants_of
from txlog.variant.json_text import double_text, scalar_text, text_of
from txlog.variant.path import part_at, path_of
from txlog.variant.shape import schema_of

_WIDE = decimal.Context(prec=400)
_WHOLE = ("byte", "short", "integer", "long")
_SOURCES: dict[str, DataType] = {
    **dict.fromkeys(_WHOLE, LONG),
    **{each.name: each for each in (DOUBLE, FLOAT, BOOLEAN, STRING, *TIMES)},
}
"""The types by which values are cast, by their kinds in a variant; decimals have one for each scale."""
_NUMBERS = ("long", "decimal", "double", "float")


# --- binding ------------------------------------------------------------------------------------------------------


def cast(expression: Expression, data_type: DataType, *, is_try: bool = False) -> Expression:
    """``CAST(v AS type)``: the value, of a type that fits it; and ``CAST(x AS VARIANT)``. Raises ValueError."""
    word = "TRY_CAST" if is_try else "CAST"
    if data_type == VARIANT:
        if expression.type == VOID:
            return Value(None, VARIANT)
        if isinstance(expression.type, (Struct, Map)):
            raise ValueError(
                f"a CAST of {type_name(expression.type)} to variant does not exist: to_variant_object() does"
            )
        return Call("to_variant", (expression,), VARIANT, (CallSql("CAST({} AS VARIANT)"),))
    return _got(expression, "$", data_type, is_try=is_try, written=f"{word}({{}} AS {type_name(data_type).upper()})")


def _variant_get(name: str) -> Callable[..., Expression]:
    def make(variant: Expression, path: Expression, wanted: Expression | None = None) -> Expression:
        data_type = VARIANT if wanted is None else _type_named(str(constant(wanted, str, name)), name)
        text = str(constant(path, str, name))
        options = [text] if wanted is None else [text, str(constant(wanted, str, name))]
        written = CallSql.of(f"{name}({{}}, ", *options, after=")")
        return _got(typed(variant, VARIANT, name), text, data_type, is_try=name.startswith("try"), written=written)

    return make


def _got(variant: Expression, path: str, data_type: DataType, *, is_try: bool, written: str) -> Expression:
    path_of(path)
    for inner in types_in(data_type):
        if inner == VARIANT != data_type or (isinstance(inner, Map) and inner.key != STRING):
            raise ValueError(
                f"a part of a variant cannot be a {type_name(data_type)}: take its elements or fields, one by one"
            )
    name = "try_variant_get" if is_try else "variant_get"
    return Call(name, (variant,), data_type, (path, current_zone(), CallSql(written)))


def _type_named(text: str, name: str) -> DataType:
    try:
        return from_any({"value": text}).fields[0].type
    except InvalidInputError as error:
        raise ValueError(f"{name}() takes a type, such as 'int': {error.message}") from None


def _of_text(name: str) -> Callable[[Expression], Expression]:
    return lambda text: Call(name, (typed(text, STRING, name),), VARIANT)


def _of_variant(name: str, result: DataType, *options: Any) -> Callable[[Expression], Expression]:
    return lambda variant: Call(name, (typed(variant, VARIANT, name),), result, options)


def _to_json(variant: Expression) -> Expression:
    return Call("to_json", (typed(variant, VARIANT, "to_json"),), STRING, (current_zone(), CallSql("to_json({})")))


def _to_variant_object(value: Expression) -> Expression:
    if not isinstance(value.type, (Struct, Map, Array)):
        raise ValueError(f"to_variant_object() takes a struct, a map or an array, not {type_name(value.type)}")
    return Call("to_variant", (value,), VARIANT, (CallSql("to_variant_object({})"),))


# --- values -------------------------------------------------------------------------------------------------------


def _texts(call: Call, given: Any) -> Any:
    def refused(row: int, error: Exception) -> None:
        if not call.name.startswith("try"):
            raise pa.ArrowInvalid(f"{error}") from None

    found = variants_of(_listed(given) if isinstance(given, pa.Scalar) else given, refused)
    return found[0] if isinstance(given, pa.Scalar) else found


def _made(call: Call, given: Any) -> Any:
    """Variants of typed values: of a float, one with 32 bits."""
    source = call.arguments[0].type
    try:
        made = [None if each is None else encode(_plain(each, source)) for each in _listed(given)]
    except ValueError as error:
        raise pa.ArrowInvalid(f"{error}") from None
    return _as_given(given, made, struct_of)


def _plain(value: Any, data_type: DataType) -> Any:
    """A value of Arrow as one of a variant."""
    match data_type:
        case _ if value is None:
            return None
        case Struct(fields):
            return {field.name: _plain(value[field.name], field.type) for field in fields}
        case Map(_, each):
            return {str(key): _plain(item, each) for key, item in value}
        case Array(element):
            return [_plain(item, element) for item in value]
        case Primitive("float"):
            return Single(value)
        case Primitive("variant"):
            return Part(names_of(value["metadata"]), value["value"])
    return value


def _read(given: Any, read: Callable[[Part], Any], result: pa.DataType) -> Any:
    """``read`` of each variant, of what is not null."""
    return _as_given(given, [None if each is None else read(each) for each in _parts(given)], _array(result))


def _parts(given: Any) -> Iterator[Part | None]:
    known: dict[bytes, tuple[str, ...]] = {}
    for each in _listed(given):
        if each is None:
            yield None
            continue
        try:
            metadata = each["metadata"]
            if metadata not in known:
                known[metadata] = names_of(metadata)
            yield Part(known[metadata], each["value"])
        except MalformedVariantError as error:
            raise pa.ArrowInvalid(f"a variant is damaged: {error}") from None


def _listed(given: Any) -> list[Any]:
    return [given.as_py()] if isinstance(given, pa.Scalar) else given.to_pylist()


def _as_given(given: Any, found: list[Any], array: Callable[[list[Any]], pa.Array]) -> Any:
    """An array, or the scalar that the only operand is."""
    made = array(found)
    return made[0] if isinstance(given, pa.Scalar) else made


def _array(kind: pa.DataType) -> Callable[[list[Any]], pa.Array]:
    return lambda values: array_of(values, kind)


def _json_texts(call: Call, given: Any) -> Any:
    zone = call.options[0]
    return _read(given, lambda part: text_of(_value(part), zone), pa.string())


def _value(part: Part) -> Any:
    try:
        return part.python()
    except MalformedVariantError as error:
        raise pa.ArrowInvalid(f"a variant is damaged: {error}") from None


def _is_variant_null(call: Call, given: Any) -> Any:
    """False for a null of SQL."""
    found = [each is not None and each.kind == "null" for each in _parts(given)]
    return _as_given(given, found, _array(pa.bool_()))


def _got_values(call: Call, given: Any) -> Any:
    path, zone, *_ = call.options
    steps, is_try = path_of(path), call.name.startswith("try")
    try:
        parts = [None if each is None else part_at(each, steps) for each in _parts(given)]
    except MalformedVariantError as error:
        raise pa.ArrowInvalid(f"a variant is damaged: {error}") from None
    if call.type == VARIANT:
        return _as_given(given, [None if part is None else _alone(part) for part in parts], struct_of)
    if isinstance(call.type, (Array, Map, Struct)):
        for part in parts:
            if part is not None:
                _value(part)  # checks how deep it nests, and that no offset is used twice
    found = _typed(parts, call.type, zone, is_try)
    return _as_given(given, found, lambda values: pa.array(values, type_to_arrow(call.type)))


def _typed(parts: Sequence[Part | None], target: DataType, zone: str, is_try: bool) -> list[Any]:
    """The parts as values of a type; those of a nested type by its elements, keys or fields."""
    kinds = [None if part is None or part.kind == "null" else part.kind for part in parts]
    match target:
        case Array(element):
            rows = _members(parts, kinds, "array", target, is_try)
            inside = iter(_typed([item for row in rows if row for _, item in row], element, zone, is_try))
            return [None if row is None else [next(inside) for _ in row] for row in rows]
        case Map(_, value):
            rows = _members(parts, kinds, "object", target, is_try)
            inside = iter(_typed([item for row in rows if row for _, item in row], value, zone, is_try))
            return [None if row is None else [(name, next(inside)) for name, _ in row] for row in rows]
        case Struct(fields):
            objects = [None if row is None else dict(row) for row in _members(parts, kinds, "object", target, is_try)]
            columns = [
                _typed([None if row is None else row.get(field.name) for row in objects], field.type, zone, is_try)
                for field in fields
            ]
            names = target.names
            return [
                None if row is None else dict(zip(names, values, strict=True))
                for row, values in zip(objects, zip(*columns, strict=True), strict=True)
            ]
    values = [_value(part) if part is not None and kind else None for part, kind in zip(parts, kinds, strict=True)]
    return _cast_to_text(values, kinds, zone) if target == STRING else _cast(values, kinds, target, zone, is_try)


def _members(
    parts: Sequence[Part | None], kinds: Sequence[str | None], wanted: str, target: DataType, is_try: bool
) -> list[list[tuple[str, Part]] | None]:
    """The elements or the fields of each part, with their names; None for a null, and for another kind of value."""
    found: list[list[tuple[str, Part]] | None] = []
    for part, kind in zip(parts, kinds, strict=True):
        if part is None or kind != wanted:
            if kind is not None and not is_try:
                raise pa.ArrowInvalid(
                    f"a variant's {kind} is not of the type {type_name(target)}: try_variant_get() returns NULL"
                )
            found.append(None)
        else:
            found.append([("", item) for item in part.items()] if wanted == "array" else [*part.fields()])
    return found


def _part_of(call: Call) -> tuple[tuple[str, ...], str] | None:
    """The column that a call takes a part of, and the part's path; None for an element of an array, whose bounds nobody
    keeps."""
    steps: list[str | int] = []
    node: Expression = call
    while isinstance(node, Call) and node.name in ("variant_get", "try_variant_get"):
        steps = [*path_of(node.options[0]), *steps]
        node = node.arguments[0]
    names = tuple(step for step in steps if isinstance(step, str))
    if not isinstance(node, Reference) or node.side != "target" or len(names) < len(steps):
        return None
    return node.path, path_text(names)


def _alone(part: Part) -> tuple[bytes, bytes]:
    """A part as a variant of its own, with no other names than its own."""
    ids: dict[str, int] = {}
    try:
        value = encode_value(part, ids)
    except ValueError as error:
        raise pa.ArrowInvalid(f"a variant is damaged: {error}") from None
    return metadata_of(ids), value


def _cast_to_text(values: list[Any], kinds: list[str | None], zone: str) -> list[str | None]:
    """As Spark casts them: objects and arrays to JSON, times without the offset of their zone."""

    def text(value: Any, kind: str | None) -> str | None:
        match kind:
            case None:
                return None
            case "string":
                return str(value)
            case "binary":
                try:
                    return bytes(value).decode()
                except UnicodeDecodeError:
                    raise pa.ArrowInvalid("a binary in a variant is not text in UTF-8") from None
            case "double" | "float":
                return double_text(value)
            case "timestamp":
                return scalar_text(value, zone)[:-6]
            case "object" | "array" | "boolean" | "decimal" | "byte" | "short" | "integer" | "long":
                return text_of(value, zone)
        return scalar_text(value, zone)

    return [text(value, kind) for value, kind in zip(values, kinds, strict=True)]


def _cast(values: list[Any], kinds: list[str | None], target: DataType, zone: str, is_try: bool) -> list[Any]:
    """The values as another type: those of one source type at once."""
    found: list[Any] = [None] * len(values)
    groups: dict[DataType | str, list[int]] = {}
    for at, kind in enumerate(kinds):
        if kind is not None:
            groups.setdefault(_source(kind, values[at]), []).append(at)
    for source, rows in groups.items():
        for at, value in zip(rows, _cast_group([values[at] for at in rows], source, target, zone), strict=True):
            if value is None and not is_try:
                shown = text_of(values[at], zone)
                shown = shown if len(shown) <= 60 else f"{shown[:60]}..."
                raise pa.ArrowInvalid(
                    f"a variant's value {shown} is not of the type {type_name(target)}: try_variant_get() returns NULL"
                )
            found[at] = value
    return found


def _source(kind: str, value: Any) -> DataType | str:
    """The type by which a value is cast; its kind, if no type has it."""
    if kind == "decimal":
        return Decimal(38, max(-value.as_tuple().exponent, 0))
    return _SOURCES.get(kind, kind)


def _cast_group(values: list[Any], source: DataType | str, target: DataType, zone: str) -> list[Any]:
    """None for a value that is none of the type."""
    if isinstance(source, str):
        return [bytes(each) if source == "binary" and target == BINARY else None for each in values]
    if source == target:
        return values
    kind = source.name if isinstance(source, Primitive) else "decimal"
    if _is_never_cast(source, kind, target):
        return [None] * len(values)
    if kind in _NUMBERS and target == BOOLEAN:
        return [value != 0 for value in values]
    if source == BOOLEAN and (is_floating(target) or isinstance(target, Decimal)):
        values, source = [int(value) for value in values], LONG
    if is_floating(source) and isinstance(target, Decimal):
        return [_rounded(value, target) for value in values]
    is_of_time = TIMESTAMP in (source, target) and is_numeric(source) != is_numeric(target)
    if not can_cast(source, target) or (is_of_time and STRING not in (source, target)) or _has_exponent(source, target):
        raise pa.ArrowInvalid(
            f"a variant has a {type_name(source)}, and engines differ in a cast of it to {type_name(target)}, or lack"
            " it"
        )
    array = pa.array(values, type_to_arrow(source))
    return list(try_cast(array, source, target, zone).to_pylist())


def _has_exponent(source: DataType, target: DataType) -> bool:
    """Whether some decimal of the type is written with an exponent in one mode of Spark."""
    return isinstance(source, Decimal) and source.scale > 6 and target == STRING


def _is_never_cast(source: DataType, kind: str, target: DataType) -> bool:
    """Whether Spark casts no value of one type to the other."""
    if source == BOOLEAN or kind in _NUMBERS:
        return target in (DATE, timestamp_of(has_zone=False), BINARY) or (source == BOOLEAN and target in TIMES)
    is_number = is_numeric(target) or target == BOOLEAN
    return source in TIMES and (target == BINARY or (is_number and (source != TIMESTAMP or target == BOOLEAN)))


def _rounded(value: float, target: Decimal) -> decimal.Decimal | None:
    """As Java does: of the digits that show the double, halves away from zero."""
    if not math.isfinite(value):
        return None
    unit = decimal.Decimal(1).scaleb(-target.scale)
    found = decimal.Decimal(repr(float(value))).quantize(unit, decimal.ROUND_HALF_UP, _WIDE)
    return found if abs(found) < decimal.Decimal(10) ** (target.precision - target.scale) else None


def _schema_text(part: Part) -> str:
    try:
        return schema_of(part)
    except MalformedVariantError as error:
        raise pa.ArrowInvalid(f"a variant is damaged: {error}") from None


FUNCTIONS: Mapping[str, PackageFunction] = {
    "parse_json": PackageFunction(1, 1, _of_text("parse_json"), _texts),
    "try_parse_json": PackageFunction(1, 1, _of_text("try_parse_json"), _texts, False),
    **{
        name: PackageFunction(2, 3, _variant_get(name), _got_values, part=_part_of)
        for name in ("variant_get", "try_variant_get")
    },
    "is_variant_null": PackageFunction(1, 1, _of_variant("is_variant_null", BOOLEAN), _is_variant_null),
    "to_json": PackageFunction(1, 1, _to_json, _json_texts),
    "to_variant": PackageFunction(1, 1, _to_variant_object, _made),
    "to_variant_object": PackageFunction(1, 1, _to_variant_object, _made),
    "schema_of_variant": PackageFunction(
        1, 1, _of_variant("schema_of_variant", STRING), lambda call, given: _read(given, _schema_text, pa.string())
    ),
}
