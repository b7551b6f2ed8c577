"""Takes rows out of tables by number, however much text they hold.

In: chunked columns, and row numbers. Out: these rows in this order. Arrow's own ``take`` first joins a column's chunks
into one array, even for few rows. That copies all rows, and fails for more than 2 GiB of strings.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from txlog.core.format.arrow.arrays import from_numbers

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROWS_AT_ONCE = 1 << 15
JOINED_BYTES = 192 << 20
WHOLE_BYTES = 4 << 20  # columns up to this size, and those of one chunk, are left to Arrow


def joined_rows(rows: pa.Table) -> pa.Table:
    """The same rows, in one chunk if they are few enough to copy: taking many out of one chunk is faster."""
    return rows.combine_chunks() if rows.nbytes <= JOINED_BYTES else rows


def taken_batches(rows: pa.Table, numbers: NDArray[np.int64]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows with these numbers, each batch with the place in ``numbers`` of its first row."""
    for start in range(0, len(numbers), ROWS_AT_ONCE):
        for batch in taken_rows(rows, numbers[start : start + ROWS_AT_ONCE]).combine_chunks().to_batches():
            yield start, batch
            start += batch.num_rows


def taken_rows(rows: pa.Table, numbers: NDArray[np.int64]) -> pa.Table:
    """The rows with these numbers, as a table."""
    if not rows.num_columns:
        return rows.take(from_numbers(numbers))
    return pa.Table.from_arrays([taken_column(column, numbers) for column in rows.columns], schema=rows.schema)


def taken_column(column: pa.ChunkedArray, numbers: NDArray[np.int64]) -> pa.ChunkedArray:
    """The values of the rows with these numbers; null for the number -1."""
    if column.num_chunks == 1 or column.nbytes <= WHOLE_BYTES:
        try:
            return column.take(_indices(numbers))
        except pa.ArrowInvalid:  # long text that is taken many times
            pass
    return pa.chunked_array(_pieces(column, numbers), column.type)


def _pieces(column: pa.ChunkedArray, numbers: NDArray[np.int64]) -> Iterator[pa.Array]:
    chunks = [chunk for chunk in column.chunks if len(chunk)]
    starts = np.cumsum([0, *map(len, chunks)])
    waiting = [numbers[at : at + ROWS_AT_ONCE] for at in range(0, len(numbers), ROWS_AT_ONCE)][::-1]
    while waiting:
        piece = waiting.pop()
        try:
            yield _gathered(chunks, starts, piece, column.type)
        except pa.ArrowInvalid:  # more text than one array holds
            if len(piece) == 1:
                raise
            half = len(piece) // 2
            waiting += [piece[half:], piece[:half]]


def _gathered(
    chunks: list[pa.Array], starts: NDArray[np.int64], numbers: NDArray[np.int64], kind: pa.DataType
) -> pa.Array:
    """The values, taken chunk by chunk and then put in order."""
    given = np.flatnonzero(numbers >= 0)
    order = given[np.argsort(numbers[given], kind="stable")]
    ascending = numbers[order]
    cuts = np.searchsorted(ascending, starts)
    parts = [
        chunk.take(from_numbers(ascending[low:high] - start))
        for chunk, start, low, high in zip(chunks, starts.tolist(), cuts, cuts[1:], strict=False)
        if low < high
    ]
    places = np.full(len(numbers), -1, dtype=np.int64)
    places[order] = np.arange(len(order))
    return pa.concat_arrays([pa.nulls(0, kind), *parts]).take(_indices(places))


def _indices(numbers: NDArray[np.int64]) -> pa.Array:
    valid = numbers >= 0
    return from_numbers(numbers, None if valid.all() else valid)
