"""Which changes of a table's definition do not affect how rows are written: a plan then continues with the new one.

In: the metadata that a change of rows was made for, and a later one. Out: whether the change means the same on both.
The properties listed here only concern how the table is maintained. Every other property of Delta and of txlog counts
as a rule of writing, also what a later release may add: merge engines and change feeds decide what a row becomes. Pure.
"""

from __future__ import annotations

from msgspec.structs import replace

from txlog.protocol.actions import Metadata
from txlog.protocol.properties import (
    GROUP_COMMIT,
    ICEBERG,
    ICEBERG_CATALOG,
    PREFIX,
    SHORT_LOG_RETENTION,
    is_parquet_setting,
)

__all__ = ["keeps_write_rules"]

_UPKEEP = frozenset(
    (
        "delta.autoOptimize.autoCompact",
        "delta.autoOptimize.optimizeWrite",
        "delta.checkpoint.writeStatsAsJson",
        "delta.checkpoint.writeStatsAsStruct",
        "delta.checkpointInterval",
        "delta.checkpointPolicy",
        "delta.columnMapping.maxColumnId",
        "delta.dataSkippingNumIndexedCols",
        "delta.dataSkippingStatsColumns",
        "delta.dataSkippingStringPrefixLength",
        "delta.deletedFileRetentionDuration",
        "delta.enableExpiredLogCleanup",
        "delta.enableFullRetentionRollback",
        "delta.isolationLevel",
        "delta.logRetentionDuration",
        "delta.parquet.compression.codec",
        "delta.sampleRetentionDuration",
        "delta.setTransactionRetentionDuration",
        "delta.targetFileSize",
        "delta.tuneFileSizesForRewrites",
        GROUP_COMMIT,
        ICEBERG,
        ICEBERG_CATALOG,
        SHORT_LOG_RETENTION,
    )
)
"""Retention, checkpoints, statistics, sizes, exports, high-water marks, and how appends are committed; also the
isolation level, since the commits of plans are serializable at every level."""


def keeps_write_rules(before: Metadata, after: Metadata) -> bool:
    """Whether schema, partitioning and every property that may forbid or change a row are the same.

    Properties of users (without ``delta.`` and ``txlog.``), the table's name and its description never matter.
    """
    return before is after or _rules(before) == _rules(after)


def _rules(metadata: Metadata) -> Metadata:
    """The metadata without the parts that do not matter."""
    configuration = {
        key: value
        for key, value in metadata.configuration.items()
        if key.startswith(("delta.", PREFIX)) and key not in _UPKEEP and not is_parquet_setting(key)
    }
    return replace(metadata, configuration=configuration, name=None, description=None)
