"""The SQL functions of arrays, maps and structs, and of values of any type: `NESTED_FUNCTIONS`.

In: bound operands. Out: bound expressions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from txlog.core.format.properties import path_text
from txlog.core.format.schema import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    LONG,
    STRING,
    TIMES,
    TIMESTAMP,
    VOID,
    Array,
    DataType,
    Decimal,
    Field,
    Map,
    Struct,
    fold_name,
    type_name,
)
from txlog.core.predicates._build import call, convert, literal, struct_of
from txlog.core.predicates._collection_functions import DAY_MICROSECONDS, times_between
from txlog.core.predicates._operands import Make, arrays_alike, constant, typed
from txlog.core.predicates.terms.predicate import resolve
from txlog.core.predicates.terms.tree import Call, CallSql, Expression, Reference, Value
from txlog.core.predicates.terms.types import common_type, is_floating, is_integer, is_ordered
from txlog.core.predicates.terms.values import next_part
from txlog.core.predicates.terms.zones import current_zone
from txlog.errors import InvalidInputError


def _array(*values: Expression) -> Expression:
    if not values:
        return Value([], Array(VOID))  # type: ignore[arg-type]  # which has no order
    given = _alike(values, "array")
    may_be_null = not all(isinstance(value, Value) and value.value is not None for value in values)
    return Call("array", tuple(given), Array(given[0].type, may_be_null))


def _struct(*values: Expression) -> Expression:
    return _named([_own_name(value) or f"col{at}" for at, value in enumerate(values, 1)], values)


def _own_name(value: Expression) -> str | None:
    """The name of a column, or of a field as it is written; other values have none."""
    if isinstance(value, Reference):
        return value.path[-1]
    return str(value.options[1]) if isinstance(value, Call) and value.name == "field" else None


def _named_struct(*given: Expression) -> Expression:
    if len(given) % 2:
        raise ValueError("named_struct() takes pairs of a name and a value")
    return _named([str(constant(name, str, "named_struct")) for name in given[::2]], given[1::2])


def _named(names: Sequence[str], values: Sequence[Expression]) -> Expression:
    if len({fold_name(name) for name in names}) < len(names):
        raise ValueError("a struct cannot have a name twice: write named_struct('name', value, ...)")
    return struct_of(Struct(tuple(Field(name, value.type) for name, value in zip(names, values, strict=True))), values)


def _map(*given: Expression) -> Expression:
    if len(given) % 2:
        raise ValueError("map() takes pairs of a key and a value")
    keys, values = _alike(given[::2], "map"), _alike(given[1::2], "map")
    if keys[0].type == VOID or any(isinstance(key, Value) and key.value is None for key in keys):
        raise ValueError("a key of a map cannot be NULL")
    return Call("map", (*keys, *values), Map(keys[0].type, values[0].type))


def _alike(values: Sequence[Expression], name: str) -> list[Expression]:
    """The values as their common type."""
    kind: DataType | None = VOID
    for value in values:
        kind = common_type(kind, value.type) if kind is not None else None
    if kind is None:
        types = ", ".join(sorted({type_name(value.type) for value in values}))
        raise ValueError(f"{name}() takes values of one type, not {types}: CAST them")
    return [convert(value, kind) for value in values]


def _size(values: Expression) -> Expression:
    if not isinstance(values.type, Array | Map):
        raise ValueError(f"size() takes an array or a map, not {type_name(values.type)}")
    return Call("size", (values,), INTEGER)


def _element_at(values: Expression, key: Expression) -> Expression:
    """An element of an array, counted from 1, or from the end if negative; or a value of a map."""
    return _map_value(values, key) if isinstance(values.type, Map) else _element("element_at", values, key)


def item(values: Expression, key: Expression) -> Expression:
    """``values[key]``: an element of an array, counted from 0, or a value of a map."""
    return _map_value(values, key) if isinstance(values.type, Map) else _element("item", values, key)


def field(value: Expression, name: str) -> Expression:
    """``value.name``: a field of a struct that is no column, such as an element of an array."""
    if not isinstance(value.type, Struct):
        raise ValueError(f"{type_name(value.type)} has no field {name}: only structs have fields")
    path, kind = resolve((name,), value.type, "the struct")
    return Call(
        "field", (value,), kind, (path[0], CallSql("{}." + path_text(path).replace("{", "{{").replace("}", "}}")))
    )


def _element(name: str, values: Expression, index: Expression) -> Expression:
    if not isinstance(values.type, Array):
        raise ValueError(f"{type_name(values.type)} has no elements: only arrays and maps do{next_part(values.type)}")
    if not is_integer(index.type) or index.type == LONG:
        raise ValueError(f"the index of an array must be an int, not {type_name(index.type)}")
    options = (CallSql("{}[{}]"),) if name == "item" else ()
    return Call(name, (values, convert(index, INTEGER)), values.type.element, options)


def _map_value(values: Expression, key: Expression) -> Expression:
    assert isinstance(values.type, Map)
    if common_type(values.type.key, key.type) != values.type.key:
        raise ValueError(f"the map has keys of type {type_name(values.type.key)}, not {type_name(key.type)}")
    return Call("map_value", (values, convert(key, values.type.key)), values.type.value, (CallSql("{}[{}]"),))


def _array_contains(values: Expression, wanted: Expression) -> Expression:
    if isinstance(values.type, Array) and is_integer(values.type.element) and is_integer(wanted.type):
        values, _ = arrays_alike(values, _array(wanted), "array_contains")
    if not isinstance(values.type, Array) or common_type(values.type.element, wanted.type) != values.type.element:
        raise ValueError(f"array_contains() takes an array and a value of its type, not {type_name(values.type)}")
    if wanted.type == VOID:
        raise ValueError("array_contains() cannot look for NULL")
    return Call("array_contains", (values, convert(wanted, values.type.element)), BOOLEAN)


def _of_array(name: str, result: Callable[[Array], DataType], *options: Any) -> Make:
    """A function of an array whose elements Python compares as Spark does, and more operands."""

    def make(values: Expression, *others: Expression) -> Expression:
        kind = values.type
        if not isinstance(kind, Array) or not is_ordered(kind.element) or is_floating(kind.element):
            raise ValueError(
                f"{name}() takes an array of whole numbers, strings, dates or decimals, not {type_name(kind)}"
            )
        return call(name, (values, *others), result(kind), options)

    return make


def _sort_array(values: Expression, ascending: Expression | None = None) -> Expression:
    is_ascending = True if ascending is None else constant(ascending, bool, "sort_array")
    way = "nulls first" if is_ascending else "descending"
    sql = CallSql(f"sort_array({{}}, {str(is_ascending).lower()})")
    return _of_array("sort_array", lambda kind: kind, way, sql)(values)


def _array_position(values: Expression, wanted: Expression) -> Expression:
    if not isinstance(values.type, Array) or common_type(values.type.element, wanted.type) != values.type.element:
        raise ValueError(f"array_position() takes an array and a value of its type, not {type_name(values.type)}")
    return _of_array("array_position", lambda kind: LONG)(values, convert(wanted, values.type.element))


def _with_value(name: str) -> Make:
    """An array and one more value of its type."""

    def make(values: Expression, value: Expression) -> Expression:
        kind = values.type
        if not isinstance(kind, Array) or common_type(kind.element, value.type) != kind.element:
            raise ValueError(f"{name}() takes an array and a value of its type, not {type_name(kind)}")
        return call(name, (values, convert(value, kind.element)), Array(kind.element))

    return make


def _of_arrays(name: str) -> Make:
    def make(one: Expression, other: Expression) -> Expression:
        return _of_array(name, lambda kind: Array(kind.element))(*arrays_alike(one, other, name))

    return make


def _repeated(value: Expression, count: Expression) -> Expression:
    return Call("array_repeat", (value, typed(count, INTEGER, "array_repeat")), Array(value.type))


def _flattened(values: Expression) -> Expression:
    if not isinstance(values.type, Array) or not isinstance(values.type.element, Array):
        raise ValueError(f"flatten() takes an array of arrays, not {type_name(values.type)}")
    return call("flatten", (values,), Array(values.type.element.element))


def _sequence(*bounds: Expression) -> Expression:
    kinds = {each.type for each in bounds}
    if kinds <= {*TIMES} and len(kinds) == 1 and len(bounds) == 2:
        return times_between(*bounds, DAY_MICROSECONDS, is_of_months=False)
    if not all(map(is_integer, kinds)) or len(kinds) > 1:
        shown = ", ".join(sorted(map(type_name, kinds)))
        raise ValueError(f"sequence() takes whole numbers of one type, not {shown}: CAST them")
    return Call("sequence", bounds, Array(bounds[0].type, contains_null=False))


def _got(values: Expression, index: Expression) -> Expression:
    if not isinstance(values.type, Array):
        raise ValueError(f"get() takes an array, not {type_name(values.type)}")
    return call("get", (values, typed(index, INTEGER, "get")), values.type.element)


def _type_of(value: Expression) -> Expression:
    return literal(type_name(value.type))


def _slice(values: Expression, start: Expression, length: Expression) -> Expression:
    bounds = [typed(each, INTEGER, "slice") for each in (start, length)]
    return _of_array("slice", lambda kind: kind)(values, *bounds)


def _entries(name: str) -> Make:
    def make(values: Expression) -> Expression:
        if not isinstance(values.type, Map):
            raise ValueError(f"{name}() takes a map, not {type_name(values.type)}")
        return Call(name, (values,), Array(values.type.key if name == "map_keys" else values.type.value))

    return make


_OF_JSON = (STRING, INTEGER, LONG, DOUBLE, BOOLEAN, DATE, TIMESTAMP)


def _from_json(text: Expression, schema: Expression) -> Expression:
    """What the text has. The schema is DDL, as in Spark: ``'a INT, b ARRAY<STRING>'``, or the type of an array or a
    map."""
    from txlog.core.format.schema_ddl import parse_columns, parse_types

    written = str(constant(schema, str, "from_json"))
    is_type = re.match(r"\s*(ARRAY|MAP|STRUCT)\s*<", written, re.IGNORECASE)
    try:
        kind = parse_types({"value": written}).fields[0].type if is_type else parse_columns(written)
    except InvalidInputError as error:
        raise ValueError(
            f"from_json() takes columns in SQL, such as 'a INT, b ARRAY<STRING>': {error.message}"
        ) from None
    _check_json(kind)
    sql = CallSql.of("from_json({}, ", written, after=")")
    return Call("from_json", (typed(text, STRING, "from_json"),), kind, (current_zone(), sql))


def _check_json(kind: DataType) -> None:
    match kind:
        case Struct(fields):
            for each in fields:
                if not each.nullable or each.metadata:
                    raise ValueError(
                        f"from_json() reads columns without NOT NULL, DEFAULT or COMMENT, unlike {each.name}"
                    )
                _check_json(each.type)
        case Array(element):
            _check_json(element)
        case Map(key, value) if key == STRING:
            _check_json(value)
        case _ if kind not in _OF_JSON and not isinstance(kind, Decimal):
            raise ValueError(
                "from_json() reads strings, int, bigint, double, decimals, boolean, dates, timestamps, and structs,"
                f" arrays and maps of them, and not {type_name(kind)}: read a STRING, and CAST it"
            )


def _hash(name: str, result: DataType) -> Make:
    def make(*values: Expression) -> Expression:
        if any(_has_map(value.type) for value in values):
            raise ValueError(f"{name}() refuses maps, since equal maps may order their keys differently")
        return Call(name, values, result)

    return make


def _has_map(kind: DataType) -> bool:
    if isinstance(kind, Struct):
        return any(_has_map(field.type) for field in kind.fields)
    return isinstance(kind, Map) or (isinstance(kind, Array) and _has_map(kind.element))


NESTED_FUNCTIONS: dict[str, tuple[int, int | None, Make]] = {
    "array": (0, None, _array),
    "array_append": (2, 2, _with_value("array_append")),
    "array_prepend": (2, 2, _with_value("array_prepend")),
    "array_union": (2, 2, _of_arrays("array_union")),
    "array_intersect": (2, 2, _of_arrays("array_intersect")),
    "array_except": (2, 2, _of_arrays("array_except")),
    "array_repeat": (2, 2, _repeated),
    "flatten": (1, 1, _flattened),
    "sequence": (2, 3, _sequence),
    "get": (2, 2, _got),
    "typeof": (1, 1, _type_of),
    "struct": (1, None, _struct),
    "named_struct": (2, None, _named_struct),
    "map": (2, None, _map),
    "size": (1, 1, _size),
    "element_at": (2, 2, _element_at),
    "array_contains": (2, 2, _array_contains),
    "from_json": (2, 2, _from_json),
    "array_distinct": (1, 1, _of_array("array_distinct", lambda kind: kind)),
    "array_position": (2, 2, _array_position),
    "array_max": (1, 1, _of_array("array_max", lambda kind: kind.element)),
    "array_min": (1, 1, _of_array("array_min", lambda kind: kind.element)),
    "array_sort": (1, 1, _of_array("sort_array", lambda kind: kind, "nulls last", CallSql("array_sort({})"))),
    "sort_array": (1, 2, _sort_array),
    "slice": (3, 3, _slice),
    "map_keys": (1, 1, _entries("map_keys")),
    "map_values": (1, 1, _entries("map_values")),
    "hash": (1, None, _hash("hash", INTEGER)),
    "xxhash64": (1, None, _hash("xxhash64", LONG)),
}
"""Name -> the minimum and maximum number of operands (None: any), and what builds the expression."""
