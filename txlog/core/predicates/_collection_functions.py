"""More functions of arrays and maps: `COLLECTION_FUNCTIONS`.

In: bound operands. Out: bound expressions.
"""

from __future__ import annotations

from txlog.core.format.schema import (
    BOOLEAN,
    DATE,
    INTEGER,
    LONG,
    Array,
    Field,
    Map,
    Struct,
    fold_name,
    type_name,
)
from txlog.core.predicates._build import convert
from txlog.core.predicates._operands import Make, typed
from txlog.core.predicates.terms.tree import Call, CallSql, Expression, Reference
from txlog.core.predicates.terms.types import common_type, is_floating, is_integer, is_ordered

_UNITS = ("day", "month", "year")


def _array(values: Expression, name: str) -> Array:
    if not isinstance(values.type, Array):
        raise ValueError(f"{name}() takes an array, not {type_name(values.type)}")
    return values.type


def _compared(values: Expression, name: str) -> Array:
    """An array whose elements Python compares as Spark does."""
    kind = _array(values, name)
    if not is_ordered(kind.element) or is_floating(kind.element):
        raise ValueError(f"{name}() takes an array of whole numbers, strings, dates or decimals, not {type_name(kind)}")
    return kind


def _map_of(values: Expression, name: str) -> Map:
    if not isinstance(values.type, Map):
        raise ValueError(f"{name}() takes a map, not {type_name(values.type)}")
    return values.type


def _array_remove(values: Expression, unwanted: Expression) -> Expression:
    kind = _compared(values, "array_remove")
    if common_type(kind.element, unwanted.type) != kind.element:
        raise ValueError(f"array_remove() takes a value of the array's type, not {type_name(unwanted.type)}")
    return Call("array_remove", (values, convert(unwanted, kind.element)), kind)


def _array_compact(values: Expression) -> Expression:
    return Call("array_compact", (values,), _array(values, "array_compact"))


def _array_insert(values: Expression, place: Expression, value: Expression) -> Expression:
    kind = _array(values, "array_insert")
    if common_type(kind.element, value.type) != kind.element:
        raise ValueError(f"array_insert() takes a value of the array's type, not {type_name(value.type)}")
    operands = (values, typed(place, INTEGER, "array_insert"), convert(value, kind.element))
    return Call("array_insert", operands, Array(kind.element))


def _arrays_overlap(one: Expression, other: Expression) -> Expression:
    if _compared(one, "arrays_overlap").element != _compared(other, "arrays_overlap").element:
        raise ValueError("arrays_overlap() takes arrays of one type: CAST their values")
    return Call("arrays_overlap", (one, other), BOOLEAN)


def _arrays_zip(*arrays: Expression) -> Expression:
    names = [each.path[-1] if isinstance(each, Reference) else str(at) for at, each in enumerate(arrays)]
    if len({fold_name(name) for name in names}) < len(names):
        raise ValueError("arrays_zip() of one column twice makes structs in which one name means two fields")
    fields = [Field(name, _array(each, "arrays_zip").element) for name, each in zip(names, arrays, strict=True)]
    return Call("arrays_zip", arrays, Array(Struct(tuple(fields)), contains_null=False))


def _try_element_at(values: Expression, key: Expression) -> Expression:
    if isinstance(values.type, Map):
        wanted = _key_of(values.type, key)
        return Call("map_value", (values, wanted), values.type.value, (CallSql("try_element_at({}, {})"),))
    kind = _array(values, "try_element_at")
    return Call("try_element_at", (values, typed(key, INTEGER, "try_element_at")), kind.element)


def _map_entries(values: Expression) -> Expression:
    kind = _map_of(values, "map_entries")
    entry = Struct((Field("key", kind.key, nullable=False), Field("value", kind.value, kind.value_contains_null)))
    return Call("map_entries", (values,), Array(entry, contains_null=False))


def _map_concat(*maps: Expression) -> Expression:
    kind = _map_of(maps[0], "map_concat")
    for each in maps[1:]:
        other = _map_of(each, "map_concat")
        if (other.key, other.value) != (kind.key, kind.value):
            raise ValueError("map_concat() takes maps of one type: CAST them")
    return Call(
        "map_concat", tuple(convert(each, Map(kind.key, kind.value)) for each in maps), Map(kind.key, kind.value)
    )


def _map_from_arrays(keys: Expression, values: Expression) -> Expression:
    kinds = _array(keys, "map_from_arrays").element, _array(values, "map_from_arrays").element
    return Call("map_from_arrays", (keys, values), Map(*kinds))


def _map_from_entries(entries: Expression) -> Expression:
    entry = _array(entries, "map_from_entries").element
    if not isinstance(entry, Struct) or len(entry.fields) != 2:
        raise ValueError(f"map_from_entries() takes an array of structs of two fields, not {type_name(entries.type)}")
    key, value = entry.fields
    return Call(
        "map_from_entries",
        (entries,),
        Map(key.type, value.type),
        (key.name, value.name, CallSql("map_from_entries({})")),
    )


def _map_contains_key(values: Expression, key: Expression) -> Expression:
    kind = _map_of(values, "map_contains_key")
    return Call("map_contains_key", (values, _key_of(kind, key)), BOOLEAN)


def _key_of(kind: Map, key: Expression) -> Expression:
    if common_type(kind.key, key.type) != kind.key:
        raise ValueError(f"the map has keys of type {type_name(kind.key)}, not {type_name(key.type)}")
    return convert(key, kind.key)


def days_between(start: Expression, stop: Expression, count: int, unit: str) -> Expression:
    """``sequence(start, stop, INTERVAL count unit)`` of dates, whose default is a day."""
    unit = unit.lower().removesuffix("s")
    if unit == "week":
        count, unit = 7 * count, "day"
    if start.type != DATE or stop.type != DATE or unit not in _UNITS or not count:
        raise ValueError("sequence() of times takes two dates, and an interval of days, weeks, months or years")
    sql = CallSql(f"sequence({{}}, {{}}, INTERVAL '{count}' {unit.upper()})")
    return Call("sequence_of_days", (start, stop), Array(DATE, contains_null=False), (count, unit, sql))


def _shift(name: str) -> Make:
    def make(value: Expression, count: Expression) -> Expression:
        if not is_integer(value.type):
            raise ValueError(f"{name}() takes a whole number, not {type_name(value.type)}")
        kind = LONG if value.type == LONG else INTEGER
        return Call(name, (convert(value, kind), typed(count, INTEGER, name)), kind)

    return make


COLLECTION_FUNCTIONS: dict[str, tuple[int, int | None, Make]] = {
    "array_remove": (2, 2, _array_remove),
    "array_compact": (1, 1, _array_compact),
    "array_insert": (3, 3, _array_insert),
    "arrays_overlap": (2, 2, _arrays_overlap),
    "arrays_zip": (1, None, _arrays_zip),
    "try_element_at": (2, 2, _try_element_at),
    "map_entries": (1, 1, _map_entries),
    "map_concat": (1, None, _map_concat),
    "map_from_arrays": (2, 2, _map_from_arrays),
    "map_from_entries": (1, 1, _map_from_entries),
    "map_contains_key": (2, 2, _map_contains_key),
    "shiftright": (2, 2, _shift("shiftright")),
    "shiftrightunsigned": (2, 2, _shift("shiftrightunsigned")),
}
"""Name -> the minimum and maximum number of operands (None: any), and what builds the expression."""
