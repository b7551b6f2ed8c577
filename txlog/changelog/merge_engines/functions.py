"""Aggregate functions: they combine the values of one column for each key.

In: `Runs` and the column. Out: one value for each key number. Functions that choose one of the values (first, last,
least, greatest) work for every type; the others count, sum, multiply or join. A retracting row removes its value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txlog.changelog.merge_engines.field_functions import FieldFunction
from txlog.changelog.merge_engines.runs import Runs, ranks
from txlog.errors import InvalidInputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_EXACT_MAX = 2.0**62  # products below it are exact in 64 bits, whatever the rounding error of their estimate


def aggregated(runs: Runs, column: pa.ChunkedArray, name: str, function: FieldFunction) -> pa.ChunkedArray:
    """The value of each key.

    Raises ``InvalidInputError`` with the column if a result does not fit its type, or a value cannot be retracted.
    """
    if function.ignores_retracts:
        runs = runs.filter(~runs.retracts)
    try:
        found = _FUNCTIONS[function.name](runs, column, function)
        return found if found.type == column.type else found.cast(column.type)
    except (pa.ArrowInvalid, OverflowError) as error:
        why = f": {error}" if isinstance(error, pa.ArrowInvalid) else ""
        raise InvalidInputError(
            f"the {function.name} of column {name} does not fit its type, {column.type}{why}. Give the column a"
            " wider type"
        ) from error
    except _NotRetractable as error:
        raise InvalidInputError(f"the {function.name} of column {name} cannot retract {error}") from error


class _NotRetractable(Exception):
    pass


# --- values that are chosen -------------------------------------------------------------------------------------


def _last_value(runs: Runs, column: pa.ChunkedArray, _: FieldFunction) -> pa.ChunkedArray:
    return runs.picked(column, runs.last())


def _last_non_null_value(runs: Runs, column: pa.ChunkedArray, _: FieldFunction) -> pa.ChunkedArray:
    return runs.picked(column, runs.last(runs.valid(column)))


def _first_value(runs: Runs, column: pa.ChunkedArray, _: FieldFunction) -> pa.ChunkedArray:
    return runs.picked(column, runs.first())


def _first_non_null_value(runs: Runs, column: pa.ChunkedArray, _: FieldFunction) -> pa.ChunkedArray:
    return runs.picked(column, runs.first(runs.valid(column)))


def _by_value(runs: Runs, column: pa.ChunkedArray) -> Runs:
    """The rows with a value, sorted by value within each key."""
    return runs.filter(runs.valid(column)).sorted_by(ranks(column))


def _min(runs: Runs, column: pa.ChunkedArray, _: FieldFunction) -> pa.ChunkedArray:
    by_value = _by_value(runs, column)
    return by_value.picked(column, by_value.first())


def _max(runs: Runs, column: pa.ChunkedArray, _: FieldFunction) -> pa.ChunkedArray:
    by_value = _by_value(runs, column)
    return by_value.picked(column, by_value.last())


# --- values that are computed -----------------------------------------------------------------------------------


def _sum(runs: Runs, column: pa.ChunkedArray, _: FieldFunction) -> pa.ChunkedArray:
    values = column.take(pa.array(runs.rows)).cast(_wide(column.type))
    if runs.retracts.any():
        values = pc.if_else(pa.array(runs.retracts), pc.negate(values), values)
    return _sums(values, runs)


def _count(runs: Runs, column: pa.ChunkedArray, _: FieldFunction) -> pa.ChunkedArray:
    """The table's rows hold the count so far; each new row with a value adds one."""
    ones = np.where(runs.valid(column), np.where(runs.retracts, -1, 1), 0)
    before = column.take(pa.array(runs.rows)).cast(pa.int64()).fill_null(0)
    return _sums(pc.if_else(pa.array(runs.rows < runs.num_old), before, pa.array(ones)), runs).fill_null(0)


def _sums(values: pa.ChunkedArray, runs: Runs) -> pa.ChunkedArray:
    table = pa.table([pa.array(runs.keys), values], names=["key", "value"])
    sums = table.group_by("key", use_threads=False).aggregate([("value", "sum")])
    return _by_key(sums["value_sum"], sums["key"].to_numpy(), runs.num_keys)


def _wide(data_type: pa.DataType) -> pa.DataType:
    """A type that holds sums of any number of values."""
    if pa.types.is_decimal(data_type):
        return pa.decimal256(76, data_type.scale)
    if pa.types.is_floating(data_type):
        return pa.float64()
    return pa.decimal128(38, 0) if data_type == pa.int64() else pa.int64()


def _by_key(values: pa.ChunkedArray, keys: NDArray[np.int64], num_keys: int) -> pa.ChunkedArray:
    """Some keys' values as one value for each key number, null for the others."""
    at = np.full(num_keys, -1, dtype=np.int64)
    at[keys] = np.arange(len(keys))
    return values.take(pa.array(at, mask=at < 0))


def _product(runs: Runs, column: pa.ChunkedArray, _: FieldFunction) -> pa.ChunkedArray:
    runs = runs.filter(runs.valid(column))
    first = runs.first(~runs.retracts)  # before the first factor, there is no product to retract from
    runs = runs.filter((first[runs.keys] >= 0) & (np.arange(len(runs.rows)) >= first[runs.keys]))
    is_float = pa.types.is_floating(column.type)
    values = column.take(pa.array(runs.rows)).cast(pa.float64() if is_float else pa.int64()).to_numpy()
    keys, product = _products(values[~runs.retracts], runs.keys[~runs.retracts])
    divisor = _products(np.where(runs.retracts, values, 1), runs.keys)[1]
    if not is_float and ((divisor == 0) | (product % np.where(divisor == 0, 1, divisor) != 0)).any():
        raise _NotRetractable("a factor that the product does not have, or zero, which leaves the product unknown")
    result = product / divisor if is_float else (product // divisor).tolist()
    values = pa.array(result, pa.float64() if is_float else pa.int64())
    return _by_key(pa.chunked_array([values]), keys, runs.num_keys)


def _products(values: NDArray[Any], keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """The keys that have values, ascending, and the product of each one's values; exact for integers of any size."""
    found, starts = np.unique(keys, return_index=True)
    if not len(found):
        return found, values
    if values.dtype.kind == "i":
        estimate = np.multiply.reduceat(np.abs(values.astype(np.float64)), starts)
        if (estimate >= _EXACT_MAX).any():
            values = values.astype(object)
    return found, np.multiply.reduceat(values, starts)


def _listagg(runs: Runs, column: pa.ChunkedArray, function: FieldFunction) -> pa.ChunkedArray:
    runs = runs.filter(runs.valid(column))
    values = column.take(pa.array(runs.rows))
    lists = _lists(values, runs.keys, runs.num_keys, ~runs.has_row())
    return pa.chunked_array([pc.binary_join(lists, function.delimiter)])


def _lists(
    values: pa.ChunkedArray,
    keys: NDArray[np.int64],
    num_keys: int,
    is_null: NDArray[np.bool_],
    data_type: pa.DataType | None = None,
) -> pa.Array:
    """The values of each key as one list; ``keys`` ascend."""
    offsets = np.searchsorted(keys, np.arange(num_keys + 1)).astype(np.int32)
    flat = values.combine_chunks()
    flat = pa.concat_arrays(flat.chunks) if isinstance(flat, pa.ChunkedArray) else flat
    return pa.ListArray.from_arrays(pa.array(offsets), flat, type=data_type, mask=pa.array(is_null))


def _collect(runs: Runs, column: pa.ChunkedArray, function: FieldFunction) -> pa.ChunkedArray:
    runs = runs.filter(runs.valid(column))
    lists = column.take(pa.array(runs.rows))
    lengths = pc.list_value_length(lists).to_numpy()
    elements = pc.list_flatten(lists)
    keys, retracts = np.repeat(runs.keys, lengths), np.repeat(runs.retracts, lengths)
    if function.is_distinct or retracts.any():
        stays = _left(elements, keys, retracts, function.is_distinct)
        elements, keys = elements.filter(pa.array(stays)), keys[stays]
    is_null = ~runs.filter(~runs.retracts).has_row()
    return pa.chunked_array([_lists(elements, keys, runs.num_keys, is_null, column.type)])


def _left(
    elements: pa.ChunkedArray, keys: NDArray[np.int64], retracts: NDArray[np.bool_], is_distinct: bool
) -> NDArray[np.bool_]:
    """Which elements are left: a retracted element removes the first equal one, if there is one by then."""
    try:
        encoded = elements.combine_chunks().dictionary_encode("encode")
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        raise _NotRetractable(f"elements of the type {elements.type}, which cannot be compared") from error
    if isinstance(encoded, pa.ChunkedArray):
        encoded = pa.concat_arrays(encoded.unify_dictionaries().chunks)
    codes = encoded.indices.to_numpy().astype(np.int64)
    pairs = keys * (len(encoded.dictionary) + 1) + codes
    order = np.argsort(pairs, kind="stable")
    starts = np.flatnonzero(np.append(True, pairs[order][1:] != pairs[order][:-1])) if len(order) else order
    sizes = np.diff(np.append(starts, len(order)))
    group = np.repeat(np.arange(len(starts)), sizes)
    takes = retracts[order]
    stays = np.zeros(len(order), dtype=bool)
    if not len(order):
        return stays
    if is_distinct:
        places = np.arange(len(order))
        last_taken = np.maximum.reduceat(np.where(takes, places, -1), starts)
        after = ~takes & (places > last_taken[group])
        first = places[after][np.unique(group[after], return_index=True)[1]]
        stays[order[first]] = True
        return stays
    steps = np.where(takes, -1, 1)
    level = np.cumsum(steps)
    level -= (level[starts] - steps[starts])[group]
    lowest = np.minimum(np.minimum.reduceat(level, starts), 0)
    count = level[starts + sizes - 1] - lowest
    adds = np.cumsum(~takes)
    number: NDArray[np.int64] = adds - (adds[starts] - ~takes[starts])[group]  # of this add in its group, from 1
    total: NDArray[np.int64] = number[starts + sizes - 1]
    stays[order[~takes & (number > (total - count)[group])]] = True
    return stays


_Function = Callable[[Runs, pa.ChunkedArray, FieldFunction], pa.ChunkedArray]

_FUNCTIONS: Mapping[str, _Function] = {
    "sum": _sum,
    "product": _product,
    "count": _count,
    "min": _min,
    "max": _max,
    "first_value": _first_value,
    "last_value": _last_value,
    "first_non_null_value": _first_non_null_value,
    "last_non_null_value": _last_non_null_value,
    "listagg": _listagg,
    "bool_and": _min,
    "bool_or": _max,
    "collect": _collect,
}
