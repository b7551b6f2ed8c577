"""The number of rows in a version, from its log alone if possible.

In: live files and a table's store. Out: the number of live rows: ``numRecords`` of each file minus the cardinality of
its deletion vector. The footer is read only for files without ``numRecords``.
PROTOCOL.md, "Per-file Statistics", "Deletion Vectors".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from txlog.protocol.statistics_read import num_records
from txlog.protocol.stats_struct import read_json_objects
from txlog.reading.scan_plan import ScanPlan
from txlog.reading.scan_task import Selection, TaskReader
from txlog.store.base import TableFiles
from txlog.util.parallel import parallel_map

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["count_rows", "recorded_rows"]

_FOOTERS_AT_ONCE = 8
_ROWS = pa.struct([("numRecords", pa.int64())])


def count_rows(store: TableFiles, selection: Selection, files: pa.Table) -> int:
    """The live rows of ``files``. ``selection`` has no columns and no predicate: it names the table and version.

    Raises:
        NotFoundError: A file whose rows the log does not count is missing.
        CorruptLogError: Such a file is not a readable Parquet file.
        StorageError: The store failed.
    """
    total = 0
    uncounted = []
    for batch in files.select(["path", "size", "partitionValues", "deletionVector", "stats"]).to_batches():
        rows = recorded_rows(batch.column("stats"))
        known = rows >= 0
        dead = batch.column("deletionVector").field("cardinality").fill_null(0).to_numpy(zero_copy_only=False)
        total += int(rows[known].sum()) - int(dead[known].sum())
        if not known.all():
            uncounted.append(batch.filter(pa.array(~known)))
    if uncounted:
        reader = TaskReader(store, replace(selection, fields=(), predicate=None))
        tasks = ScanPlan(selection, pa.Table.from_batches(uncounted)).tasks()
        total += sum(
            parallel_map(lambda task: sum(b.num_rows for b in reader.batches(task)), tasks, threads=_FOOTERS_AT_ONCE)
        )
    return total


def recorded_rows(texts: pa.StringArray) -> NDArray[np.int64]:
    """``numRecords`` of each JSON text, -1 if it has none."""
    rows = np.full(len(texts), -1, dtype=np.int64)
    present = texts.is_valid().to_numpy(zero_copy_only=False)
    found = texts.filter(texts.is_valid())
    try:
        counts = read_json_objects(found, _ROWS).field("numRecords").fill_null(-1).to_numpy(zero_copy_only=False)
    except (pa.ArrowException, ValueError):  # one text is not plain JSON: parse them one by one
        known = (num_records(text) for text in found.to_pylist())
        counts = np.array([-1 if count is None else count for count in known], dtype=np.int64)
    rows[present] = np.maximum(counts, -1)
    return rows
