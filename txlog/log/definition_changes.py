"""Which changes of a table's definition do not affect how rows are written: a plan then continues with the new one.

In: the metadata that a change of rows was made for, and a later one. Out: whether the change means the same on both.
The properties listed here only concern how the table is maintained. Every other property of Delta and of txlog counts
as a rule of writing, also what a later release may add: merge engines and change feeds decide what a row becomes. The
high-water marks of identity columns matter to no commit but the ones that move them. Pure.
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

__all__ = ["is_same_definition", "keeps_write_rules", "with_latest_marks"]

_IDENTITY = "delta.identity."

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
        "delta.dropFeatureTruncateHistory.retentionDuration",
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


def is_same_definition(before: Metadata, after: Metadata) -> bool:
    """Whether two metadata say the same of every row: they differ at most in the high-water marks of identity columns,
    which only count what was given out."""
    if before is after or before == after:
        return True
    if _IDENTITY not in before.schema_string:
        return False
    from txlog.protocol.identity import is_same_but_for_marks  # not imported for a table without identity columns

    return is_same_but_for_marks(before, after)


def with_latest_marks(metadata: Metadata, newest: Metadata) -> Metadata:
    """Metadata to commit on top of ``newest``: its high-water marks of identity columns never go back."""
    if _IDENTITY not in metadata.schema_string:
        return metadata
    from txlog.protocol.identity import with_later_marks

    return with_later_marks(metadata, newest)


def keeps_write_rules(before: Metadata, after: Metadata) -> bool:
    """Whether schema, partitioning and every property that may forbid or change a row are the same.

    Properties of users (without ``delta.`` and ``txlog.``), the table's name and its description never matter.
    """
    return before is after or is_same_definition(_rules(before), _rules(after))


def _rules(metadata: Metadata) -> Metadata:
    """The metadata without the parts that do not matter."""
    configuration = {
        key: value
        for key, value in metadata.configuration.items()
        if key.startswith(("delta.", PREFIX)) and key not in _UPKEEP and not is_parquet_setting(key)
    }
    return replace(metadata, configuration=configuration, name=None, description=None)
