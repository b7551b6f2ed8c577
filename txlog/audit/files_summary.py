"""Summarizes the live files of a version: sizes, partitions, small files, and removed files that await a vacuum.

In: a table's log and the state of a version. Out: a ``FilesSummary``, counted column by column: a million files take
about as long as listing them. PROTOCOL.md, "Add File and Remove File".
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txlog.core import ambient
from txlog.core.format.arrow.arrays import are_among, numbers_of
from txlog.core.format.arrow.take_rows import taken_rows
from txlog.core.format.column_mapping import physical_names
from txlog.core.format.file_columns import partition_column
from txlog.core.format.paths import canonical_paths
from txlog.core.maintenance import vacuumed_until_ms
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.state import TableState
from txlog.core.versions.files import DeltaLog
from txlog.result.audits import FilesSummary, PartitionFiles, SizeBin

MB = 1_000_000
SMALL_BYTES = 32 * MB
_BIN_STARTS = (0, MB, 8 * MB, 32 * MB, 128 * MB, 512 * MB, 1000 * MB)


def files_summary(open_table: OpenTable, *, version: int) -> FilesSummary:
    """Count the files of a version. Raises ``CorruptLogError``, ``NotFoundError``, ``StorageError``."""
    state = open_table.log.state_at(version)
    files, removed = files_and_removed(open_table.log, state)
    return summary_of(state, files, removed, now_ms=ambient.now_ms())


def files_and_removed(log: DeltaLog, state: TableState) -> tuple[pa.Table, pa.Table]:
    """The live files of a version, and one tombstone for each removed file that the last vacuum left: its last."""
    files, tombstones = log.files_and_tombstones(state)
    removed = _gone_files(files, tombstones)
    until_ms = vacuumed_until_ms(log, state.properties.deleted_file_retention_ms)
    if until_ms is None:
        return files, removed
    times = pc.fill_null(removed.column("deletionTimestamp"), 0)
    return files, removed.filter(pc.greater(times, until_ms))


def _gone_files(files: pa.Table, tombstones: pa.Table) -> pa.Table:
    """The tombstones of files that are not live, one for each file: its last.

    A file that gets another deletion vector has a tombstone too, for the one it had.
    """
    live = canonical_paths(files.column("path"))
    paths = canonical_paths(tombstones.column("path"))
    times = pc.fill_null(tombstones.column("deletionTimestamp"), 0)
    found = pa.table({"path": paths, "time": times, "row": np.arange(tombstones.num_rows)})
    found = found.filter(pc.invert(are_among(paths, live)))
    found = taken_rows(found, numbers_of(pc.sort_indices(found, [("time", "descending")])))
    rows = found.group_by("path", use_threads=False).aggregate([("row", "first")]).column("row_first")
    return taken_rows(tombstones, rows.to_numpy())


def summary_of(state: TableState, files: pa.Table, tombstones: pa.Table, *, now_ms: int) -> FilesSummary:
    """Count the live ``files`` of ``state``, and the removed files that wait for a vacuum, by their ``tombstones``."""
    size = files.column("size")
    is_small = pc.less(size, SMALL_BYTES)
    partitions = _partitions(state, files, is_small)
    vectors = pc.struct_field(files.column("deletionVector"), "cardinality")
    expired = pc.less_equal(
        pc.fill_null(tombstones.column("deletionTimestamp"), 0),
        now_ms - state.properties.deleted_file_retention_ms,
    )
    median = pc.quantile(size, 0.5, interpolation="lower")[0].as_py()
    return FilesSummary(
        version=state.version,
        files=files.num_rows,
        size_bytes=_sum(size),
        smallest_bytes=pc.min(size).as_py(),
        median_bytes=median,
        largest_bytes=pc.max(size).as_py(),
        sizes=_sizes(size),
        partitions=partitions,
        small_below_bytes=SMALL_BYTES,
        small_files=_sum(is_small),
        small_bytes=_sum(size.filter(is_small)),
        mergeable_files=sum(found.small_files for found in partitions if found.small_files > 1),
        files_with_deleted_rows=len(vectors) - vectors.null_count,
        deleted_rows=_sum(vectors),
        removed_files=tombstones.num_rows,
        removed_bytes=_sum(tombstones.column("size")),
        expired_files=_sum(expired),
    )


def _sizes(size: pa.ChunkedArray) -> tuple[SizeBin, ...]:
    bins = []
    for start, end in zip(_BIN_STARTS, (*_BIN_STARTS[1:], None), strict=True):
        inside = pc.greater_equal(size, start)
        if end is not None:
            inside = pc.and_(inside, pc.less(size, end))
        bins.append(SizeBin(start, end, _sum(inside), _sum(size.filter(inside))))
    return tuple(bins)


def _partitions(state: TableState, files: pa.Table, is_small: Any) -> tuple[PartitionFiles, ...]:
    names = state.partition_columns
    keys = enumerate(physical_names(state.schema, names))
    columns = {f"key{number}": _texts(files, key) for number, key in keys}
    counted = pa.table({**columns, "size": files.column("size"), "small": pc.cast(is_small, pa.int64())})
    grouped = counted.group_by(list(columns)).aggregate([("size", "count"), ("size", "sum"), ("small", "sum")])
    grouped = grouped.sort_by([("size_count", "descending"), *((name, "ascending") for name in columns)])
    return tuple(
        PartitionFiles(
            {name: row[key] for name, key in zip(names, columns, strict=True)},
            row["size_count"],
            row["size_sum"] or 0,
            row["small_sum"] or 0,
        )
        for row in grouped.to_pylist()
    )


def _texts(files: pa.Table, key: str) -> pa.ChunkedArray:
    batches = files.select(["partitionValues"]).to_batches()
    return pa.chunked_array([partition_column(batch, key) for batch in batches], pa.string())


def _sum(values: Any) -> int:
    return int(pc.sum(values).as_py() or 0)
