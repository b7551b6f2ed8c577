"""The Arrow kernels of functions with a lambda: its body is computed for all elements of all rows at once.

In: a call with the body in its options, the arrays, and the columns that the body names. Out: an array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txlog.core.format.arrow.arrays import as_list_of_entries, offsets_and_mask
from txlog.core.format.schema import type_to_arrow
from txlog.core.predicates.terms.arguments import as_arrays, as_given
from txlog.core.predicates.terms.tree import Call, captured_name, variable_name

Evaluate = Callable[..., pa.Array]
"""`evaluate.evaluate`, which calls these."""


def _kernel(compute: Callable[[Evaluate, Call, pa.Array, list[pa.Array]], pa.Array]) -> Callable[..., Any]:
    def kernel(evaluate: Evaluate, call: Call, *given: Any) -> Any:
        values, *captured = as_arrays(given)
        return as_given(given, compute(evaluate, call, values, captured))

    return kernel


def _computed(
    evaluate: Evaluate, body: Any, variables: Sequence[pa.Array], captured: Sequence[pa.Array], rows: Any
) -> pa.Array:
    """The body for each element; ``rows`` are the numbers of the rows that these are of."""
    columns = {variable_name(at): values for at, values in enumerate(variables)}
    columns |= {captured_name(at): values.take(rows) for at, values in enumerate(captured)}
    return evaluate(body, pa.RecordBatch.from_pydict(columns))


def _each(evaluate: Evaluate, call: Call, values: pa.Array, captured: list[pa.Array]) -> tuple[pa.Array, Any, Any]:
    """The body for each element, with the numbers of rows, and the places of the arrays in the elements."""
    rows, offsets = pc.list_parent_indices(values), offsets_and_mask(values)[0].to_numpy()
    places = np.arange(len(rows)) - offsets[:-1][rows.to_numpy()]
    variables = [values.flatten(), pa.array(places, pa.int32())]
    return _computed(evaluate, call.options[0], variables, captured, rows), rows.to_numpy(), offsets


def _transform(evaluate: Evaluate, call: Call, values: pa.Array, captured: list[pa.Array]) -> pa.Array:
    found, _, offsets = _each(evaluate, call, values, captured)
    mask = values.is_null() if values.null_count else None
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), found, type_to_arrow(call.type), mask=mask)


def _filter(evaluate: Evaluate, call: Call, values: pa.Array, captured: list[pa.Array]) -> pa.Array:
    found, rows, _ = _each(evaluate, call, values, captured)
    keeps = found.fill_null(False)
    counts = np.bincount(rows[keeps.to_numpy(zero_copy_only=False)], minlength=len(values))
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int32())
    mask = values.is_null() if values.null_count else None
    kind = type_to_arrow(call.type)
    return pa.ListArray.from_arrays(offsets, values.flatten().filter(keeps), kind, mask=mask)


def _quantified(evaluate: Evaluate, call: Call, values: pa.Array, captured: list[pa.Array]) -> pa.Array:
    """True if one element decides so, null if one is null and none decides, as OR and AND do."""
    found, rows, _ = _each(evaluate, call, values, captured)
    decides = call.name == "exists"
    decided = np.zeros(len(values), bool)
    decided[rows[pc.equal(found, decides).fill_null(False).to_numpy(zero_copy_only=False)]] = True
    unknown = np.zeros(len(values), bool)
    unknown[rows[found.is_null().to_numpy(zero_copy_only=False)]] = True
    is_null = (unknown & ~decided) | values.is_null().to_numpy(zero_copy_only=False)
    return pa.array(decided == decides, pa.bool_(), mask=is_null)


def _aggregate(evaluate: Evaluate, call: Call, values: pa.Array, captured: list[pa.Array]) -> pa.Array:
    """One element of all rows after another."""
    total, captured = captured[0], captured[1:]
    lengths = pc.list_value_length(values).fill_null(0).to_numpy()
    offsets, elements = offsets_and_mask(values)[0].to_numpy(), values.flatten()
    for place in range(lengths.max(initial=0)):
        rows = np.flatnonzero(lengths > place)
        numbers = pa.array(rows)
        variables = [total.take(numbers), elements.take(pa.array(offsets[rows] + place))]
        found = _computed(evaluate, call.options[0], variables, captured, numbers)
        order = np.arange(len(total))
        order[rows] = len(total) + np.arange(len(rows))
        total = pa.concat_arrays([total, found]).take(pa.array(order))
    return pc.if_else(values.is_valid(), total, pa.scalar(None, total.type)) if values.null_count else total


def _zip_with(evaluate: Evaluate, call: Call, one: pa.Array, captured: list[pa.Array]) -> pa.Array:
    """Each array as long as the longer one."""
    other, captured = captured[0], captured[1:]
    lengths = [pc.list_value_length(each).fill_null(0).to_numpy(zero_copy_only=False) for each in (one, other)]
    is_null = pc.or_(one.is_null(), other.is_null()).to_numpy(zero_copy_only=False)
    counts = np.where(is_null, 0, np.maximum(*lengths)).astype(np.int64)
    rows = np.repeat(np.arange(len(one)), counts)
    places = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    variables = []
    for values, length in zip((one, other), lengths, strict=True):
        offsets = offsets_and_mask(values)[0].to_numpy()
        variables.append(values.flatten().take(pa.array(offsets[:-1][rows] + places, mask=places >= length[rows])))
    found = _computed(evaluate, call.options[0], variables, captured, pa.array(rows))
    ends = pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int32())
    return pa.ListArray.from_arrays(ends, found, type_to_arrow(call.type), mask=pa.array(is_null))


def _of_map(evaluate: Evaluate, call: Call, values: pa.Array, captured: list[pa.Array]) -> pa.Array:
    """The entries that a lambda of a key and its value keeps, or with what it makes of them."""
    lists = as_list_of_entries(values)
    offsets, entries = offsets_and_mask(lists)[0].to_numpy(), lists.flatten()
    keys, items = entries.field(0), entries.field(1)
    rows = np.repeat(np.arange(len(values)), np.diff(offsets))
    found = _computed(evaluate, call.options[0], [keys, items], captured, pa.array(rows))
    if call.name == "map_filter":
        keeps = found.fill_null(False)
        keys, items = keys.filter(keeps), items.filter(keeps)
        counts = np.bincount(rows[keeps.to_numpy(zero_copy_only=False)], minlength=len(values))
        offsets = np.concatenate([[0], np.cumsum(counts)])
    elif call.name == "transform_values":
        items = found
    else:
        keys = _distinct_keys(found, rows)
    mask = values.is_null() if values.null_count else None
    return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, items, type_to_arrow(call.type), mask=mask)


def _distinct_keys(keys: pa.Array, rows: Any) -> pa.Array:
    if keys.null_count:
        raise pa.ArrowInvalid("transform_keys() makes a key that is NULL")
    if len({*zip(rows.tolist(), keys.to_pylist(), strict=True)}) < len(keys):
        raise pa.ArrowInvalid("transform_keys() makes a key twice")
    return keys


LAMBDA_KERNELS = {
    "transform": _kernel(_transform),
    "filter": _kernel(_filter),
    "exists": _kernel(_quantified),
    "forall": _kernel(_quantified),
    "aggregate": _kernel(_aggregate),
    "zip_with": _kernel(_zip_with),
    **dict.fromkeys(("map_filter", "transform_keys", "transform_values"), _kernel(_of_map)),
}
