"""The order of files in a checkpoint: by partition, so that row groups have narrow bounds on partition values.

In: the live files, in any order, in chunks. Out: the same rows, sorted coarsely when there are very many
partitions. Sorting goes batch by batch and then stitches slices together: taking from a chunked table of a
million rows costs twice the time and memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from txlog.log.files import partition_column

__all__ = ["in_partition_order"]

_BUCKETS_MAX = 2_048


def in_partition_order(files: pa.Table, partition_columns: Sequence[str]) -> pa.Table:
    """``files`` ordered by their partition values, nulls last; ties keep their order."""
    if not partition_columns or files.num_rows < 2:
        return files
    import numpy as np

    batches = files.to_batches()
    codes, count = _codes(batches, partition_columns)
    buckets = min(count, _BUCKETS_MAX)
    edges = np.arange(buckets + 1) * count // buckets
    pieces: list[list[pa.RecordBatch]] = [[] for _ in range(buckets)]
    for batch, batch_codes in zip(batches, codes, strict=True):
        order = np.argsort(batch_codes, kind="stable")
        cuts = np.searchsorted(batch_codes[order], edges)
        ordered = batch.take(pa.array(order))
        for bucket in np.flatnonzero(np.diff(cuts)).tolist():
            pieces[bucket].append(ordered.slice(cuts[bucket], cuts[bucket + 1] - cuts[bucket]))
    return pa.Table.from_batches([piece for bucket in pieces for piece in bucket], schema=files.schema)


def _codes(batches: Sequence[pa.RecordBatch], columns: Sequence[str]) -> tuple[list[Any], int]:
    """One number per file, ordered as its partition values, and how many numbers there are."""
    import numpy as np
    import pyarrow.compute as pc

    codes = [np.zeros(batch.num_rows, dtype=np.int64) for batch in batches]
    count = 1
    for name in columns:
        texts = [partition_column(batch, name) for batch in batches]
        distinct = pc.unique(pa.chunked_array(texts, pa.string())).drop_null()
        distinct = distinct.take(pc.sort_indices(distinct))
        width = len(distinct) + 1
        if count * width > 2**62:
            break
        count *= width
        for place, text in enumerate(texts):
            found = pc.fill_null(pc.index_in(text, value_set=distinct), len(distinct))
            codes[place] = codes[place] * width + found.to_numpy(zero_copy_only=False)
    return codes, count
