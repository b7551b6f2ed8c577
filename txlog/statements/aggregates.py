"""Functions of several rows that duckdb computes with Spark's values, by the types of their operands.

In: a function's name and the types of its operands. Out: an `Aggregate`: which of duckdb's calls to make, and what
Spark makes of their values. A function in no table here is refused.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from txlog.core.format.schema import (
    BOOLEAN,
    DOUBLE,
    INTEGER,
    LONG,
    STRING,
    Array,
    DataType,
    Decimal,
    Primitive,
    Struct,
    type_name,
    type_to_arrow,
)
from txlog.core.predicates.terms.tree import Value
from txlog.core.predicates.terms.types import is_floating, is_integer, is_numeric, is_ordered
from txlog.statements.aggregate_calls import Aggregate, AggregateCall, AggregateOperand, Make
from txlog.statements.duckdb_expressions import duckdb_type, literal, text_literal
from txlog.statements.numeric_aggregates import NUMERIC_AGGREGATES

__all__ = [
    "AGGREGATES",
    "ALIASES",
    "OF_ANY_ORDER",
    "ORDERED_OTHERWISE",
    "RANKS",
    "WINDOW_VALUES",
    "Aggregate",
    "AggregateOperand",
    "aggregate",
    "is_aggregate",
]

_DIGITS = decimal.Context(prec=38, rounding=decimal.ROUND_HALF_UP)
_WIDE = decimal.Context(prec=76, rounding=decimal.ROUND_HALF_UP)


def aggregate(name: str, operands: Sequence[AggregateOperand], *, ignores_nulls: bool = False) -> Aggregate:
    """The aggregate of this name. Raises ValueError for operands whose value would be another one."""
    name = ALIASES.get(name, name)
    if name not in AGGREGATES:
        instead = _INSTEAD.get(name, f"there are {', '.join(sorted(AGGREGATES))}")
        raise ValueError(f"the aggregate {name}() is not supported in a query: {instead}")
    lowest, highest, make = AGGREGATES[name]
    if not lowest <= len(operands) <= (highest or len(operands)):
        raise ValueError(f"{name}() takes {lowest if lowest == highest else f'{lowest} or more'} values in a query")
    if ignores_nulls and name not in ("first", "last", "any_value"):
        raise ValueError(f"{name}() does not support IGNORE NULLS")
    found = make([*operands, AggregateOperand("", BOOLEAN, Value(True, BOOLEAN))] if ignores_nulls else operands)
    if found is None:
        types = ", ".join(type_name(operand.type) for operand in operands)
        raise ValueError(f"{name}() of {types} is not supported in a query: CAST it to a type that it takes")
    return found


def _same(name: str, fits: Callable[[DataType], bool]) -> Make:
    """An aggregate of duckdb with values of the operand's type."""

    def make(operands: Sequence[AggregateOperand]) -> Aggregate | None:
        (operand,) = operands
        return Aggregate(operand.type, (AggregateCall(name, (operand.text,)),)) if fits(operand.type) else None

    return make


def _count(operands: Sequence[AggregateOperand]) -> Aggregate:
    present = [
        each.text for each in operands if each.text != "*" and (each.literal is None or each.literal.value is None)
    ]
    if not present:
        return Aggregate(LONG, (AggregateCall("count", ("*",)),))
    if len(present) == 1:
        return Aggregate(LONG, (AggregateCall("count", (present[0],)),))
    where = " AND ".join(f"{text} IS NOT NULL" for text in present)
    return Aggregate(LONG, (AggregateCall("count", (f"({', '.join(present)})",), where),))


def _try_sum(operands: Sequence[AggregateOperand]) -> Aggregate | None:
    """NULL for a sum beyond 64 bits; of decimals with at most 28 digits, whose sums have room."""
    (operand,) = operands
    if is_integer(operand.type):
        return Aggregate(LONG, (AggregateCall("sum", (operand.text,)),), "TRY_CAST({0} AS BIGINT)")
    is_wide = isinstance(operand.type, Decimal) and operand.type.precision > _DIGITS.prec - 10
    return None if is_wide else _sum(operands)


def _sum(operands: Sequence[AggregateOperand]) -> Aggregate | None:
    (operand,) = operands
    call = AggregateCall("sum", (operand.text,))
    match operand.type:
        case Decimal(precision, scale) if precision > _DIGITS.prec - 10:
            return _wide_sum(operand, Decimal(_DIGITS.prec, scale))
        case Decimal(precision, scale):
            result: DataType = Decimal(precision + 10, scale)
        case kind if is_integer(kind):
            result = LONG
        case kind if is_floating(kind):
            result, call = DOUBLE, AggregateCall("sum", (f"CAST({operand.text} AS DOUBLE)",))
        case _:
            return None
    return Aggregate(result, (call,), f"CAST({{0}} AS {duckdb_type(result)})")


def _wide_sum(operand: AggregateOperand, result: Decimal) -> Aggregate:
    """A sum that is an error if it may have more digits on the way: Spark adds in any order, and stops there."""
    text, kind = operand.text, duckdb_type(result)
    most = f"CAST('{decimal.Decimal(10**result.precision - 1).scaleb(-result.scale, _WIDE):f}' AS {kind})"
    calls = [AggregateCall("sum", (text,), where) for where in ("", f"{text} > 0", f"{text} < 0")]
    is_beyond = f"coalesce({{1}} > {most}, false) OR coalesce({{2}} < -{most}, false)"
    error = f"CAST(error('a sum of decimals has more than 38 digits: CAST them to fewer') AS {kind})"
    return Aggregate(result, tuple(calls), f"CASE WHEN {is_beyond} THEN {error} ELSE CAST({{0}} AS {kind}) END")


def _average(operands: Sequence[AggregateOperand]) -> Aggregate | None:
    (operand,) = operands
    if isinstance(operand.type, Decimal):
        return _decimal_average(operand, operand.type)
    if not is_numeric(operand.type):
        return None
    return Aggregate(DOUBLE, (AggregateCall("avg", (f"CAST({operand.text} AS DOUBLE)",)),))


def _try_average(operands: Sequence[AggregateOperand]) -> Aggregate | None:
    """Of numbers whose average never overflows."""
    (operand,) = operands
    is_wide = isinstance(operand.type, Decimal) and operand.type.precision > _DIGITS.prec - 10
    return None if is_wide else _average(operands)


def _decimal_average(operand: AggregateOperand, kind: Decimal) -> Aggregate:
    """The quotient of the sum and the count: of 38 digits, as Spark computes it, and then of the result's."""
    total = Decimal(min(38, kind.precision + 10), kind.scale)
    result = Decimal(min(38, kind.precision + 4), min(38, kind.scale + 4))
    unit, arrow_type = decimal.Decimal(1).scaleb(-result.scale), type_to_arrow(result)

    def average(whole: decimal.Decimal | None, count: int) -> decimal.Decimal | None:
        if whole is None or not count:
            return None
        return _DIGITS.divide(whole, decimal.Decimal(count)).quantize(unit, context=_WIDE)

    def compute(wholes: pa.Array, counts: pa.Array) -> pa.Array:
        return pa.array(map(average, wholes.to_pylist(), counts.to_pylist()), arrow_type)

    calls = (AggregateCall("sum", (operand.text,)), AggregateCall("count", (operand.text,)))
    if kind.precision > _DIGITS.prec - 10:
        whole = _wide_sum(operand, total)
        return Aggregate(result, (*whole.calls, calls[1]), (str(whole.text), "{3}"), compute, (total, LONG))
    return Aggregate(result, calls, ("{0}", "{1}"), compute, (total, LONG))


def _first(name: str) -> Make:
    def make(operands: Sequence[AggregateOperand]) -> Aggregate | None:
        operand = operands[0]
        if len(operands) == 1:
            return Aggregate(operand.type, (AggregateCall(name, (operand.text,)),))
        ignores = operands[1].literal
        if ignores is None or not isinstance(ignores.value, bool):
            raise ValueError(f"{name}() takes true or false as its second value")
        where = f"{operand.text} IS NOT NULL" if ignores.value else ""
        return Aggregate(operand.type, (AggregateCall(name, (operand.text,), where),))

    return make


def _listed(name: str) -> Make:
    def make(operands: Sequence[AggregateOperand]) -> Aggregate | None:
        (operand,) = operands
        kind = Array(operand.type)
        call = AggregateCall("list", (operand.text,), f"{operand.text} IS NOT NULL")
        if name == "collect_set":
            if not is_ordered(operand.type):
                return None
            call = AggregateCall("list", (f"DISTINCT {operand.text}",), f"{operand.text} IS NOT NULL")
        return Aggregate(kind, (call,), f"coalesce({{0}}, CAST([] AS {duckdb_type(kind)}))")

    return make


def _count_if(operands: Sequence[AggregateOperand]) -> Aggregate | None:
    (operand,) = operands
    return Aggregate(LONG, (AggregateCall("count", ("*",), operand.text),)) if operand.type == BOOLEAN else None


def _by(name: str) -> Make:
    """The value in the row in which another one is the least or the greatest."""

    def make(operands: Sequence[AggregateOperand]) -> Aggregate | None:
        value, order = operands
        call = AggregateCall(name, (value.text, order.text))
        return Aggregate(value.type, (call,)) if is_ordered(order.type) else None

    return make


def _joined(operands: Sequence[AggregateOperand]) -> Aggregate | None:
    value = operands[0]
    if value.type != STRING and not is_integer(value.type):
        return None
    separator = operands[1].literal if len(operands) > 1 else Value("", STRING)
    if separator is None or not isinstance(separator.value, str):
        raise ValueError("listagg() takes a literal string as its separator")
    written = "'" + separator.value.replace("'", "''") + "'"
    text = value.text if value.type == STRING else f"CAST({value.text} AS VARCHAR)"
    return Aggregate(STRING, (AggregateCall("string_agg", (text, written)),))


def _is_boolean(data_type: DataType) -> bool:
    return data_type == BOOLEAN


def _grouping(operands: Sequence[AggregateOperand]) -> Aggregate:
    return Aggregate(Primitive("byte"), (AggregateCall("GROUPING", (operands[0].text,)),), "CAST({0} AS TINYINT)")


def _grouping_id(operands: Sequence[AggregateOperand]) -> Aggregate:
    return Aggregate(LONG, (AggregateCall("GROUPING", tuple(each.text for each in operands)),), "CAST({0} AS BIGINT)")


def _most_frequent(operands: Sequence[AggregateOperand]) -> Aggregate | None:
    """Of several that are equally frequent, the first by their order."""
    operand, order = operands[0], operands[1].literal if len(operands) > 1 else Value(True, BOOLEAN)
    if not is_ordered(operand.type):
        return None
    if is_floating(operand.type) and len(operands) == 1:
        return Aggregate(operand.type, (AggregateCall("mode", (operand.text,)),))
    if is_floating(operand.type) or order is None or not isinstance(order.value, bool):
        raise ValueError("mode() with an order takes true or false and values that are not floats")
    keys, counts = (f"{way}({{0}})" for way in ("map_keys", "map_values"))
    if not order.value:
        keys, counts = f"list_reverse({keys})", f"list_reverse({counts})"
    calls = (AggregateCall("histogram", (operand.text,)),)
    return Aggregate(operand.type, calls, f"list_extract({keys}, list_position({counts}, list_max({counts})))")


def _extreme(name: str) -> Make:
    """``min`` and ``max``: of structs, by their fields in turn, where a null is the least."""

    def make(operands: Sequence[AggregateOperand]) -> Aggregate | None:
        (operand,) = operands
        if not isinstance(operand.type, Struct):
            return _same(name, is_ordered)(operands)
        key = _sort_key(operand.text, operand.type)
        if key is None:
            return None
        return Aggregate(
            operand.type, (AggregateCall(f"arg_{name}", (operand.text, key), f"{operand.text} IS NOT NULL"),)
        )

    return make


def _sort_key(text: str, kind: Struct) -> str | None:
    """A struct without nulls, which duckdb orders as Spark orders the given one; None for fields without an order."""
    parts = []
    for field in kind.fields:
        value = f"struct_extract({text}, {text_literal(field.name)})"
        if isinstance(field.type, Struct):
            key = _sort_key(value, field.type)
        else:
            nothing = _LEAST.get(type_to_arrow(field.type), 0)
            key = f"coalesce({value}, {literal(nothing, field.type)})" if is_ordered(field.type) else None
        if key is None:
            return None
        parts += [f"{value} IS NOT NULL", key]
    return f"struct_pack({', '.join(f'k{at} := {part}' for at, part in enumerate(parts))})"


_LEAST: dict[pa.DataType, Any] = {pa.string(): "", pa.binary(): b"", pa.bool_(): False}

AGGREGATES: dict[str, tuple[int, int | None, Make]] = {
    "any_value": (1, 2, _first("first")),
    "avg": (1, 1, _average),
    "bit_and": (1, 1, _same("bit_and", is_integer)),
    "bit_or": (1, 1, _same("bit_or", is_integer)),
    "bit_xor": (1, 1, _same("bit_xor", is_integer)),
    "bool_and": (1, 1, _same("bool_and", _is_boolean)),
    "bool_or": (1, 1, _same("bool_or", _is_boolean)),
    "collect_list": (1, 1, _listed("collect_list")),
    "collect_set": (1, 1, _listed("collect_set")),
    "count": (1, None, _count),
    "count_if": (1, 1, _count_if),
    "first": (1, 2, _first("first")),
    "grouping": (1, 1, _grouping),
    "grouping_id": (0, None, _grouping_id),
    "last": (1, 2, _first("last")),
    "listagg": (1, 2, _joined),
    "max": (1, 1, _extreme("max")),
    "max_by": (2, 2, _by("arg_max_null")),
    "min": (1, 1, _extreme("min")),
    "min_by": (2, 2, _by("arg_min_null")),
    "mode": (1, 2, _most_frequent),
    **NUMERIC_AGGREGATES,
    "sum": (1, 1, _sum),
    "try_avg": (1, 1, _try_average),
    "try_sum": (1, 1, _try_sum),
}
"""Name -> the least and the greatest number of operands (None: any), and what makes the aggregate."""

ALIASES = {
    **{"mean": "avg", "every": "bool_and", "some": "bool_or", "any": "bool_or", "array_agg": "collect_list"},
    **{"stddev": "stddev_samp", "std": "stddev_samp", "variance": "var_samp", "string_agg": "listagg"},
    **{"first_value": "first", "last_value": "last"},
}

_OTHERS = frozenset(
    {
        *("approx_count_distinct", "approx_percentile", "percentile_approx", "histogram_numeric", "product"),
        *("count_min_sketch", "hll_sketch_agg", "hll_union_agg", "bitmap_or_agg", "bitmap_construct_agg"),
        *("approx_top_k", "theta_sketch_agg", "kll_sketch_agg_double"),
    }
)
"""Spark's aggregates without an equal in duckdb, which are refused by name."""

_INSTEAD = {
    "approx_count_distinct": "Spark corrects its estimate by tables of measured errors: count(DISTINCT x) is exact",
    **dict.fromkeys(
        ("approx_percentile", "percentile_approx"),
        "Spark's value depends on how its rows are spread over tasks: percentile(x, 0.5) is exact",
    ),
    "histogram_numeric": "Spark's value depends on how its rows are spread over tasks: group by width and count",
}
"""What can be written in place of some of them, and why."""

RANKS: dict[str, DataType] = {
    **dict.fromkeys(("row_number", "rank", "dense_rank", "ntile"), INTEGER),
    **dict.fromkeys(("percent_rank", "cume_dist"), DOUBLE),
}
"""Window functions of a row's place, and their types."""

WINDOW_VALUES = ("lag", "lead", "first_value", "last_value", "nth_value", "first", "last", "any_value")
"""Window functions with the value of a row, which has the type of their first operand."""


ORDERED_OTHERWISE = ("max_by", "min_by")
"""Aggregates whose value among equal rows depends on which is first: as a window function, Spark has the last."""

OF_ANY_ORDER = frozenset(
    {"any_value", "collect_list", "collect_set", "first", "last", "listagg", "max_by", "min_by", "mode"}
)
"""Aggregates whose value may depend on the order in which rows come, which no engine promises. The page says so."""


def is_aggregate(name: str) -> bool:
    """Whether it is a function of several rows, one that is refused included."""
    return ALIASES.get(name, name) in AGGREGATES or name in _OTHERS
