"""More functions of arrays and maps: `COLLECTION_FUNCTIONS`.

In: bound operands. Out: bound expressions.
"""

from __future__ import annotations

import decimal
import re

from txlog.core.format.schema import (
    BOOLEAN,
    DATE,
    INTEGER,
    LONG,
    STRING,
    TIMES,
    TIMESTAMP,
    Array,
    Field,
    Map,
    Struct,
    fold_name,
    type_name,
)
from txlog.core.format.time_zones import offset_of
from txlog.core.predicates._build import convert
from txlog.core.predicates._operands import Make, arrays_alike, constant, typed
from txlog.core.predicates.terms.tree import Call, CallSql, Expression, Reference
from txlog.core.predicates.terms.types import common_type, is_floating, is_integer, is_ordered
from txlog.core.predicates.terms.zones import current_zone

DAY_MICROSECONDS = 86_400_000_000
_OF_PATTERNS = frozenset(".$|()[]{}^?*+\\")


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
    operands = arrays_alike(one, other, "arrays_overlap")
    _compared(operands[0], "arrays_overlap")
    return Call("arrays_overlap", tuple(operands), BOOLEAN)


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


def times_between(start: Expression, stop: Expression, count: int, *, is_of_months: bool) -> Expression:
    """``sequence(start, stop, step)`` of dates or of timestamps, by so many microseconds or months."""
    kind = start.type
    if kind not in TIMES or stop.type != kind:
        raise ValueError(
            f"sequence() by an interval takes two dates or two timestamps, not {type_name(kind)} and"
            f" {type_name(stop.type)}: CAST one of them"
        )
    if not count or (kind == DATE and not is_of_months and count % DAY_MICROSECONDS):
        raise ValueError("sequence() of dates takes an interval of whole days, months or years")
    has_days = is_of_months or abs(count) >= DAY_MICROSECONDS
    if kind == TIMESTAMP and has_days and offset_of(current_zone()) is None:
        raise ValueError(
            f"sequence() of timestamps by days or months in {current_zone()}, where days have 23 to 25 hours: write"
            " a sequence of dates, or of times without a zone"
        )
    if is_of_months:
        shown = f"make_ym_interval(0, {count})"
    elif count % DAY_MICROSECONDS:
        shown = f"make_dt_interval(0, 0, 0, {decimal.Decimal(count).scaleb(-6):f})"
    else:
        shown = f"INTERVAL '{count // DAY_MICROSECONDS}' DAY"
    options = (count, is_of_months, CallSql(f"sequence({{}}, {{}}, {shown})"))
    return Call("sequence_of_times", (start, stop), Array(kind, contains_null=False), options)


def _str_to_map(text: Expression, pairs: Expression | None = None, values: Expression | None = None) -> Expression:
    """``str_to_map(text, ',', ':')``: of pairs between signs."""
    signs = [
        default if given is None else str(constant(given, str, "str_to_map"))
        for given, default in ((pairs, ","), (values, ":"))
    ]
    for sign in signs:
        if not sign or set(re.sub(r"\\[^0-9A-Za-z]", "", sign)) & _OF_PATTERNS:
            raise ValueError(
                f"str_to_map() takes literal signs between pairs, such as ',' or '\\\\|', and not the pattern {sign!r}"
            )
    plain = [re.sub(r"\\([^0-9A-Za-z])", r"\1", sign) for sign in signs]
    sql = CallSql.of("str_to_map({}, ", *signs, after=")")
    return Call("str_to_map", (typed(text, STRING, "str_to_map"),), Map(STRING, STRING), (*plain, sql))


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
    "str_to_map": (1, 3, _str_to_map),
    "shiftright": (2, 2, _shift("shiftright")),
    "shiftrightunsigned": (2, 2, _shift("shiftrightunsigned")),
}
"""Name -> the minimum and maximum number of operands (None: any), and what builds the expression."""
