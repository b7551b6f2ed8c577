"""From data files to record batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from txlog.core.reading._change_rows import ChangeReader, ChangeTask, VersionChanges
    from txlog.core.reading._dataset import SnapshotDataset, may_hold_nan
    from txlog.core.reading._deletion_vectors import DeletionVectorReader
    from txlog.core.reading._footers import checked_footer, path_in_store, read_footer, why_missing
    from txlog.core.reading._key_cache import CachedKeys, KeyCache, new_key_numbers
    from txlog.core.reading._key_folder import KeyFolder
    from txlog.core.reading._key_values import FileKeys, KeyNumbers, KeyPlaces, KeyValues
    from txlog.core.reading._notebook import version_as_html
    from txlog.core.reading._pandas import DtypeBackend, TypesMapper
    from txlog.core.reading._parquet_columns import ParquetColumns
    from txlog.core.reading._row_count import count_matching_rows, count_rows
    from txlog.core.reading._rows import Rows
    from txlog.core.reading._scan_plan import ScanPlan, select
    from txlog.core.reading._scan_shares import OPEN_BYTES, AnyTask, balanced, in_shares
    from txlog.core.reading._scan_task import BATCH_ROWS, ScanTask, Selection, TaskReader, partition_scalar
else:
    from txlog.core.util import face

    __getattr__, __dir__ = face(
        __name__,
        """
        _change_rows: ChangeReader ChangeTask VersionChanges
        _dataset: SnapshotDataset may_hold_nan
        _deletion_vectors: DeletionVectorReader
        _footers: checked_footer path_in_store read_footer why_missing
        _key_cache: CachedKeys KeyCache new_key_numbers
        _key_folder: KeyFolder
        _key_values: FileKeys KeyNumbers KeyPlaces KeyValues
        _notebook: version_as_html
        _pandas: DtypeBackend TypesMapper
        _parquet_columns: ParquetColumns
        _row_count: count_matching_rows count_rows
        _rows: Rows
        _scan_plan: ScanPlan select
        _scan_shares: AnyTask OPEN_BYTES balanced in_shares
        _scan_task: BATCH_ROWS ScanTask Selection TaskReader partition_scalar
        """,
    )

__all__ = [
    "BATCH_ROWS",
    "OPEN_BYTES",
    "AnyTask",
    "CachedKeys",
    "ChangeReader",
    "ChangeTask",
    "DeletionVectorReader",
    "DtypeBackend",
    "FileKeys",
    "KeyCache",
    "KeyFolder",
    "KeyNumbers",
    "KeyPlaces",
    "KeyValues",
    "ParquetColumns",
    "Rows",
    "ScanPlan",
    "ScanTask",
    "Selection",
    "SnapshotDataset",
    "TaskReader",
    "TypesMapper",
    "VersionChanges",
    "balanced",
    "checked_footer",
    "count_matching_rows",
    "count_rows",
    "in_shares",
    "may_hold_nan",
    "new_key_numbers",
    "partition_scalar",
    "path_in_store",
    "read_footer",
    "select",
    "version_as_html",
    "why_missing",
]
