"""Which changes of a table's definition do not affect how rows are written: a plan then continues with the new one.
And whether the files of an append fit a definition that others changed meanwhile.

In: the metadata that a change of rows was made for, and a later one. Out: whether the change means the same on both.
The properties listed here only concern how the table is maintained. Every other property of Delta and of txlog counts
as a rule of writing, also what a later release may add: merge engines and change feeds decide what a row becomes. The
high-water marks of identity columns matter to no commit but the ones that move them. Pure.
"""

from __future__ import annotations

from msgspec.structs import replace

from txlog.core.format.actions import Metadata, Protocol
from txlog.core.format.column_mapping import schema_of
from txlog.core.format.features import features_of
from txlog.core.format.properties import (
    GROUP_COMMIT,
    KEY_INDEX,
    PREFIX,
    SHORT_LOG_RETENTION,
    is_parquet_setting,
    of_packages,
)
from txlog.core.format.schema import Field, Struct

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
        KEY_INDEX,
        SHORT_LOG_RETENTION,
    )
)
"""Retention, checkpoints, statistics, sizes, exports, high-water marks, and how appends are committed; also the
isolation level, since the commits of plans are serializable at every level."""


_HARMLESS = frozenset(
    (
        "appendOnly",
        "checkpointProtection",
        "deletionVectors",
        "domainMetadata",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    )
)
"""Features that change neither the rows that an append may write nor how it writes them: they concern removals,
checkpoints, vacuums and metadata of other programs."""

_WITHOUT_RULE = frozenset(("comment",))


def is_same_definition(before: Metadata, after: Metadata) -> bool:
    """Whether two metadata say the same of every row: they differ at most in the high-water marks of identity columns,
    which only count what was given out."""
    if before is after or before == after:
        return True
    if _IDENTITY not in before.schema_string:
        return False
    from txlog.core.format.identity import is_same_but_for_marks  # not imported for a table without identity columns

    return is_same_but_for_marks(before, after)


def with_latest_marks(metadata: Metadata, newest: Metadata) -> Metadata:
    """Metadata to commit on top of ``newest``: its high-water marks of identity columns never go back."""
    if _IDENTITY not in metadata.schema_string:
        return metadata
    from txlog.core.format.identity import with_later_marks

    return with_later_marks(metadata, newest)


def keeps_write_rules(before: Metadata, after: Metadata) -> bool:
    """Whether schema, partitioning and every property that may forbid or change a row are the same.

    Properties of users (without ``delta.`` and ``txlog.``), the table's name and its description never matter.
    """
    return before is after or is_same_definition(_rules(before), _rules(after))


def changed_properties(before: Metadata, after: Metadata) -> list[str]:
    """The properties that are not the same, among those that may forbid or change a row."""
    old, new = (_rules(each).configuration for each in (before, after))
    return [key for key in {**old, **new} if old.get(key) != new.get(key)]


def only_adds_harmless_features(before: Protocol, after: Protocol) -> bool:
    """Whether a change of the protocol leaves alone what an append writes: it only adds features of `_HARMLESS`."""
    names = [{*readers, *writers} for readers, writers in map(features_of, (before, after))]
    return names[0] <= names[1] and names[1] - names[0] <= _HARMLESS


def lacked_columns(before: Metadata, after: Metadata, written: Struct) -> Struct | None:
    """The columns of an append's files that the definition ``after`` lacks; None if the files do not fit there.

    They were ``written`` for ``before`` and its new columns. They fit if other writers only added nullable columns
    without a rule, and a column that both added has one type. A mapped column has a name of its own in the files, which
    each writer chooses: such files never fit.
    """
    if before.partition_columns != after.partition_columns:
        return None
    if not keeps_write_rules(replace(before, schema_string=""), replace(after, schema_string="")):
        return None
    old, new = schema_of(before), schema_of(after)
    if any(new.find(field.name) != field for field in old.fields):
        return None
    lacked: list[Field] = []
    for field in written.fields:
        there = new.find(field.name)
        if there is None:
            lacked.append(field)
        elif (there.name, there.type) != (field.name, field.type):
            return None
    added = [field for field in new.fields if old.find(field.name) is None]
    are_plain = all(field.nullable and field.metadata.keys() <= _WITHOUT_RULE for field in (*added, *lacked))
    return Struct(tuple(lacked)) if are_plain else None


def _rules(metadata: Metadata) -> Metadata:
    """The metadata without the parts that do not matter."""
    configuration = {
        key: value
        for key, value in metadata.configuration.items()
        if key.startswith(("delta.", PREFIX)) and key not in _UPKEEP and not is_parquet_setting(key)
    }
    for key, rule in of_packages(configuration).items():
        if rule is not None and not rule.is_rule_of_rows:
            del configuration[key]
    return replace(metadata, configuration=configuration, name=None, description=None)
