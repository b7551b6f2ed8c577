"""The number of rows in a version, or of those that match a condition, from its log alone if possible.

In: live files and a table's store. Out: the number of live rows: ``numRecords`` of each file minus the cardinality of
its deletion vector. The footer is read only for files without ``numRecords``, and rows only of files of which partition
values and statistics do not prove that each row matches.
PROTOCOL.md, "Per-file Statistics", "Deletion Vectors".
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from txlog.core.format.arrow.arrays import from_flags, numbers_or
from txlog.core.format.defined_table import DefinedTable
from txlog.core.format.stats_struct import recorded_rows
from txlog.core.parallel import parallel_map
from txlog.core.predicates.terms.predicate import Predicate
from txlog.core.reading._scan_plan import ScanPlan
from txlog.core.reading._scan_task import Selection, TaskReader
from txlog.core.store import TableFiles

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


def count_matching_rows(store: TableFiles, plan: ScanPlan, table: DefinedTable) -> int:
    """The live rows of a plan, which may have a condition.

    Raises:
        TxlogError: What `count_rows` and `ScanPlan.batches` raise.
    """
    predicate, selection, files = plan.selection.predicate, plan.selection, plan.files
    if predicate is None:
        return count_rows(store, selection, files)
    match = np.fromiter(_whole_matches(files, predicate, table), bool, files.num_rows)
    to_read = ScanPlan(selection, files.filter(from_flags(~match)))
    counted = count_rows(store, selection, files.filter(from_flags(match)))
    return counted + sum(int(batch.num_rows) for batch in to_read.batches(store))


def _whole_matches(files: pa.Table, predicate: Predicate, table: DefinedTable) -> Iterator[bool]:
    """For each file, whether the log proves that all of its rows match."""
    from txlog.core.predicates.skipping import PartitionPredicate, Pruner, every_row_matches

    decided = PartitionPredicate.of(predicate, table)
    pruner = Pruner(predicate, table.schema, table.partition_columns)
    for batch in files.select(["partitionValues", "stats"]).to_batches():
        for values, stats in zip(batch["partitionValues"].to_pylist(), batch["stats"].to_pylist(), strict=True):
            known = dict(values)
            yield every_row_matches(pruner, known, stats) if decided is None else decided.holds(known)
