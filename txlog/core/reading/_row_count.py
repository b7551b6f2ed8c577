"""The number of rows in a version, from its log alone if possible.

In: live files and a table's store. Out: the number of live rows: ``numRecords`` of each file minus the cardinality of
its deletion vector. The footer is read only for files without ``numRecords``.
PROTOCOL.md, "Per-file Statistics", "Deletion Vectors".
"""

from __future__ import annotations

import pyarrow as pa
from msgspec.structs import replace

from txlog.core.format.arrow.arrays import from_flags, numbers_or
from txlog.core.format.stats_struct import recorded_rows
from txlog.core.reading._scan_plan import ScanPlan
from txlog.core.reading._scan_task import Selection, TaskReader
from txlog.core.store import TableFiles
from txlog.core.util.parallel import parallel_map

__all__ = ["count_rows"]

_FOOTERS_AT_ONCE = 8


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
        dead = numbers_or(batch.column("deletionVector").field("cardinality"), 0)
        total += int(rows[known].sum()) - int(dead[known].sum())
        if not known.all():
            uncounted.append(batch.filter(from_flags(~known)))
    if uncounted:
        reader = TaskReader(store, replace(selection, fields=(), predicate=None))
        tasks = ScanPlan(selection, pa.Table.from_batches(uncounted)).tasks()
        total += sum(
            parallel_map(lambda task: sum(b.num_rows for b in reader.batches(task)), tasks, threads=_FOOTERS_AT_ONCE)
        )
    return total
