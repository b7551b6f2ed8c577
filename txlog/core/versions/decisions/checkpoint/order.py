"""The order of files in a checkpoint: by partition, so row groups have narrow bounds on partition values.

In: the live files, in any order, in chunks. Out: row groups, one after the other, each assembled when it is
requested: a sorted copy of a million files would double the memory, and taking rows from the chunked table the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txlog.core.format.file_columns import partition_column

RowGroup: TypeAlias = Callable[[], pa.Table]
"""Assembles a row group. May run in any thread."""


def row_groups_by_partition(files: pa.Table, partition_columns: Sequence[str], group_rows: int) -> Iterator[RowGroup]:
    """Pieces of ``files`` of ``group_rows`` rows, in ascending order of their partition values.

    Nulls come last. Inside a piece, files keep their old order, so they need not be sorted.
    """
    starts = range(0, files.num_rows, group_rows)
    if not partition_columns or files.num_rows <= group_rows:
        yield from (partial(files.slice, start, group_rows) for start in starts)
        return
    batches = files.to_batches()
    firsts = np.cumsum([0, *(batch.num_rows for batch in batches)])
    order = np.argsort(_partition_ranks(batches, partition_columns), kind="stable")
    yield from (partial(_taken, batches, firsts, order[start : start + group_rows]) for start in starts)


def _taken(batches: Sequence[pa.RecordBatch], firsts: Any, rows: Any) -> pa.Table:
    """The rows ``rows``, one chunk of the result for each of their batches. ``firsts`` holds each batch's first row."""
    owners = np.searchsorted(firsts, rows, side="right") - 1
    return pa.Table.from_batches(
        [batches[owner].take(pa.array(rows[owners == owner] - firsts[owner])) for owner in np.unique(owners).tolist()]
    )


def _partition_ranks(batches: Sequence[pa.RecordBatch], columns: Sequence[str]) -> Any:
    """A number for each file that sorts like the partition values. Columns that do not fit into it are left out."""
    ranks = np.zeros(sum(batch.num_rows for batch in batches), dtype=np.int64)
    count = 1
    for name in columns:
        texts = pa.chunked_array([partition_column(batch, name) for batch in batches], pa.string())
        distinct = pc.unique(texts).drop_null()
        distinct = distinct.take(pc.sort_indices(distinct))
        width = len(distinct) + 1
        count *= width
        if count > 2**62:
            break
        places = pc.fill_null(pc.index_in(texts, value_set=distinct), len(distinct))
        ranks = ranks * width + places.to_numpy()
    return ranks
