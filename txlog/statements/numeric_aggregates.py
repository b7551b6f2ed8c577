"""Functions of several numbers: percentiles, moments, and what two columns have in common.

In: operands. Out: an `Aggregate`, which duckdb computes, or numpy of a list of all numbers of a group.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from txlog.core.format.schema import DOUBLE, LONG, Array, DataType, Decimal, type_to_arrow
from txlog.core.predicates import IntervalType
from txlog.core.predicates.terms.tree import Value
from txlog.core.predicates.terms.types import is_integer, is_numeric
from txlog.statements.aggregate_calls import Aggregate, AggregateCall, AggregateOperand, Make

_HALF = AggregateOperand("", DOUBLE, Value(0.5, DOUBLE))


def _of_doubles(name: str) -> Make:
    def make(operands: Sequence[AggregateOperand]) -> Aggregate | None:
        if not all(is_numeric(operand.type) for operand in operands):
            return None
        return Aggregate(DOUBLE, (AggregateCall(name, tuple(f"CAST({each.text} AS DOUBLE)" for each in operands)),))

    return make


def _of_lists(
    texts: Sequence[str], types: Sequence[DataType], function: Callable[..., Any], result: DataType
) -> Aggregate:
    """The value of a function of all values of a group, in rows where none is null; null if there are none."""
    where = " AND ".join(f"{text} IS NOT NULL" for text in texts)

    def compute(*lists: pa.Array) -> pa.Array:
        rows = zip(*(map(_numbers, each) for each in lists), strict=True)
        return pa.array([None if row[0] is None else function(*row) for row in rows], type_to_arrow(result))

    calls = tuple(AggregateCall("list", (text,), where) for text in texts)
    shown = tuple(f"{{{at}}}" for at in range(len(texts)))
    return Aggregate(result, calls, shown, compute, tuple(map(Array, types)))


def _numbers(values: Any) -> Any:
    return values.values.to_numpy(zero_copy_only=False) if values.is_valid else None


# --- percentiles ------------------------------------------------------------------------------------------------


def _percentile(operands: Sequence[AggregateOperand]) -> Aggregate | None:
    """``median(x)``, ``percentile(x, share)``, and with how often each value counts."""
    value, share = operands[0], operands[1] if len(operands) > 1 else _HALF
    shares = _shares(share)
    if not is_numeric(value.type) or not all(is_integer(each.type) for each in operands[2:]):
        return None
    text = f"CAST({value.text} AS DOUBLE)"
    is_exact = is_integer(value.type) or isinstance(value.type, Decimal)
    if is_exact and len(operands) < 3 and not share.items:
        return Aggregate(DOUBLE, (AggregateCall("quantile_cont", (text, f"CAST({shares[0]!r} AS DOUBLE)")),))

    def find(values: Any, counts: Any = None) -> Any:
        if counts is not None and (counts < 0).any():
            raise pa.ArrowInvalid("percentile() has a frequency below zero")
        ordered = np.sort(values if counts is None else np.repeat(values, counts))
        return _found([_between(ordered, each) for each in shares] if len(ordered) else None, share)

    texts = [text, *(f"CAST({each.text} AS BIGINT)" for each in operands[2:])]
    return _of_lists(texts, [DOUBLE, *[LONG] * len(operands[2:])], find, _type_of(share))


def _of_order(*, is_discrete: bool) -> Make:
    """``percentile_cont(share) WITHIN GROUP (ORDER BY x)``, or ``percentile_disc``; the last operand says whether the
    order is upwards."""

    def make(operands: Sequence[AggregateOperand]) -> Aggregate | None:
        value, share, is_upwards = operands
        if is_upwards.literal is None or not is_numeric(value.type):
            return None
        if is_upwards.literal.value and not is_discrete:
            return _percentile([value, share])
        shares, step = _shares(share), 1 if is_upwards.literal.value else -1
        at = _at if is_discrete else _between

        def find(values: Any) -> Any:
            ordered = np.sort(values)[::step]
            return _found([at(ordered, each) for each in shares], share)

        return _of_lists([f"CAST({value.text} AS DOUBLE)"], [DOUBLE], find, _type_of(share))

    return make


def _between(ordered: Any, share: float) -> float:
    """The value at the share of the way, or between two."""
    place = (len(ordered) - 1) * share
    lower, higher = math.floor(place), math.ceil(place)
    one, other = float(ordered[lower]), float(ordered[higher])
    if one == other or lower == higher or (math.isnan(one) and math.isnan(other)):
        return one
    return (higher - place) * one + (place - lower) * other


def _at(ordered: Any, share: float) -> float:
    """The first value up to which the share of all is reached."""
    return float(ordered[max(math.ceil(len(ordered) * share), 1) - 1])


def _shares(share: AggregateOperand) -> list[float]:
    values = [each.value for each in share.items or filter(None, (share.literal,))]
    if not values or any(isinstance(each, (str, bytes, bool)) or each is None for each in values):
        raise ValueError("percentile() takes a literal number from 0 to 1, or an array of them")
    found = [float(each) for each in values]  # type: ignore[arg-type]
    if not all(0 <= each <= 1 for each in found):
        raise ValueError("percentile() takes a literal number from 0 to 1, or an array of them")
    return found


def _type_of(share: AggregateOperand) -> DataType:
    return Array(DOUBLE, contains_null=False) if share.items else DOUBLE


def _found(values: list[float] | None, share: AggregateOperand) -> Any:
    return values if share.items or values is None else values[0]


# --- moments ----------------------------------------------------------------------------------------------------


def _moment(power: int) -> Make:
    """Skewness (of the third power) and kurtosis (of the fourth), null for equal values: by Spark's steps from row to
    row, since its last digits are theirs."""

    def find(values: Any) -> float | None:
        count = mean = second = third = fourth = 0.0
        for value in values.tolist():
            count += 1.0
            away = value - mean
            step = away / count
            mean += step
            second += away * (away - step)
            square, step_square = away * away, step * step
            third = third - 3.0 * step * second + away * (square - step_square)
            if power == 4:
                rest = away * (away * square - step * step_square)
                fourth = fourth - 4.0 * step * third - 6.0 * step_square * second + rest
        if second == 0.0:
            return None
        if power == 3:
            return math.sqrt(count) * third / math.sqrt(second * second * second)
        return count * fourth / (second * second) - 3.0

    def make(operands: Sequence[AggregateOperand]) -> Aggregate | None:
        (value,) = operands
        text = f"CAST({value.text} AS DOUBLE)"
        return _of_lists([text], [DOUBLE], find, DOUBLE) if is_numeric(value.type) else None

    return make


def _mean_of_pairs(name: str) -> Make:
    """Of decimals, Spark's is a decimal."""

    def make(operands: Sequence[AggregateOperand]) -> Aggregate | None:
        is_decimal = any(isinstance(operand.type, Decimal) for operand in operands)
        return None if is_decimal else _of_doubles(name)(operands)

    return make


def _line(name: str) -> Make:
    """The slope of the line through the pairs, or where it begins: null if all have one place."""

    def make(operands: Sequence[AggregateOperand]) -> Aggregate | None:
        if not all(is_numeric(operand.type) for operand in operands):
            return None
        texts = tuple(f"CAST({each.text} AS DOUBLE)" for each in operands)
        return Aggregate(
            DOUBLE, (AggregateCall(name, texts), AggregateCall("regr_sxx", texts)), "CASE WHEN {1} <> 0 THEN {0} END"
        )

    return make


def _count_of_pairs(operands: Sequence[AggregateOperand]) -> Aggregate | None:
    if not all(is_numeric(operand.type) for operand in operands):
        return None
    where = " AND ".join(f"{operand.text} IS NOT NULL" for operand in operands)
    return Aggregate(LONG, (AggregateCall("count", ("*",), where),))


NUMERIC_AGGREGATES: dict[str, tuple[int, int | None, Make]] = {
    "kurtosis": (1, 1, _moment(4)),
    "median": (1, 1, _percentile),
    "percentile": (2, 3, _percentile),
    "percentile_cont": (3, 3, _of_order(is_discrete=False)),
    "percentile_disc": (3, 3, _of_order(is_discrete=True)),
    "regr_avgx": (2, 2, _mean_of_pairs("regr_avgx")),
    "regr_avgy": (2, 2, _mean_of_pairs("regr_avgy")),
    "regr_count": (2, 2, _count_of_pairs),
    "regr_intercept": (2, 2, _line("regr_intercept")),
    "regr_slope": (2, 2, _line("regr_slope")),
    "skewness": (1, 1, _moment(3)),
    **{name: (1, 1, _of_doubles(name)) for name in ("stddev_pop", "stddev_samp", "var_pop", "var_samp")},
    **{name: (2, 2, _of_doubles(name)) for name in ("corr", "covar_pop", "covar_samp")},
    **{f"regr_{name}": (2, 2, _of_doubles(f"regr_{name}")) for name in ("r2", "sxx", "sxy", "syy")},
}
"""Name -> the least and the greatest number of operands, and what makes the aggregate."""


def average_of_intervals(operand: AggregateOperand) -> Aggregate:
    """Of microseconds, rounded half away from zero."""
    calls = (AggregateCall("sum", (operand.text,)), AggregateCall("count", (operand.text,)))
    total = "CAST({0} AS BIGINT)"
    text = f"CAST(sign({total}) * ((2 * abs({{0}}) + {{1}}) // nullif(2 * {{1}}, 0)) AS BIGINT)"
    return Aggregate(IntervalType("interval day to second", "day", "second"), calls, text)
