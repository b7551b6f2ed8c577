"""Which changes of a table's definition leave alone how rows are written: a plan then goes on, on the new definition.

In: the metadata that a change of rows was made for, and a later one. Out: whether the change means the same on both.
Named here are the properties that only say how the table is kept: everything else, also what a later protocol may
bring, counts as a rule of writing. Pure.
"""

from __future__ import annotations

from dataclasses import replace

from txlog.protocol.actions import Metadata

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
    )
)
"""Retention, checkpoints, statistics, sizes and high-water marks; and the isolation level, since a plan's commits are
serializable whatever it is."""


def keeps_write_rules(before: Metadata, after: Metadata) -> bool:
    """Whether schema, partitioning and every property that may forbid or change a row are the same.

    Properties of users (without ``delta.``), the table's name and its description never matter.
    """
    return before is after or _rules(before) == _rules(after)


def _rules(metadata: Metadata) -> Metadata:
    """The metadata without what does not matter."""
    configuration = {
        key: value for key, value in metadata.configuration.items() if key.startswith("delta.") and key not in _UPKEEP
    }
    return replace(metadata, configuration=configuration, name=None, description=None)
