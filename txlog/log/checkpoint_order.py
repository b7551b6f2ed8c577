"""The order of files in a checkpoint: by partition, so that row groups have narrow bounds on partition values.

In: the live files, in any order, in chunks. Out: batches of one row group each. Only one row group is copied at a
time: a sorted copy of a million files would double the memory, and taking from the chunked table the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from txlog.log.files import partition_column

__all__ = ["row_groups_by_partition"]


def row_groups_by_partition(
    files: pa.Table, partition_columns: Sequence[str], group_rows: int
) -> Iterator[pa.RecordBatch]:
    """``files`` in pieces of ``group_rows``, each with the partition values that follow those of the one before.

    Nulls come last. Within a piece the order is by partition only as far as files lay together before.
    """
    if not partition_columns or files.num_rows <= group_rows:
        yield from _unsorted(files, group_rows)
        return
    import numpy as np

    batches = files.to_batches()
    starts = np.cumsum([0, *(batch.num_rows for batch in batches)])
    order = np.argsort(_partition_ranks(batches, partition_columns), kind="stable")
    for start in range(0, len(order), group_rows):
        rows = order[start : start + group_rows]
        owners = np.searchsorted(starts, rows, side="right") - 1
        taken = [
            batches[owner].take(pa.array(rows[owners == owner] - starts[owner])) for owner in np.unique(owners).tolist()
        ]
        yield from _unsorted(pa.Table.from_batches(taken), group_rows)


def _unsorted(files: pa.Table, group_rows: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, files.num_rows, group_rows):
        yield from files.slice(start, group_rows).combine_chunks().to_batches()


def _partition_ranks(batches: Sequence[pa.RecordBatch], columns: Sequence[str]) -> Any:
    """One number per file, ordered as its partition values; columns that no longer fit into it are left out."""
    import numpy as np
    import pyarrow.compute as pc

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
