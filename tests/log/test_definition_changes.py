"""Which properties are rules of writing: every key that txlog knows is sorted; one that it does not know is a rule."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from txlog.log.definition_changes import keeps_write_rules
from txlog.protocol.actions import Metadata
from txlog.protocol.properties import KNOWN_KEYS, OWN_KEYS

METADATA = Metadata("id", "{}", ("day",), {"delta.appendOnly": "false"}, {"provider": "parquet", "options": {}})
RULES = {
    "delta.appendOnly",
    "delta.columnMapping.mode",
    "delta.compatibility.symlinkFormatManifest.enabled",
    "delta.enableChangeDataFeed",
    "delta.enableDeletionVectors",
    "delta.enableIcebergCompatV1",
    "delta.enableIcebergCompatV2",
    "delta.enableIcebergCompatV3",
    "delta.enableInCommitTimestamps",
    "delta.enableRowTracking",
    "delta.enableTypeWidening",
    "delta.enableVariantShredding",
    "delta.inCommitTimestampEnablementTimestamp",
    "delta.inCommitTimestampEnablementVersion",
    "delta.minReaderVersion",
    "delta.minWriterVersion",
    "delta.parquet.format.version",
    "delta.randomPrefixLength",
    "delta.randomizeFilePrefixes",
    "delta.requireCheckpointProtectionBeforeVersion",
    "delta.rowTracking.materializedRowCommitVersionColumnName",
    "delta.rowTracking.materializedRowIdColumnName",
    "delta.rowTrackingSuspended",
    "delta.universalFormat.enabledFormats",
    "delta.writePartitionColumnsToParquet",
    "txlog.aggregation.remove-record-on-delete",
    "txlog.changelog-producer",
    "txlog.changelog-producer.row-deduplicate",
    "txlog.fields.default-aggregate-function",
    "txlog.ignore-delete",
    "txlog.merge-engine",
    "txlog.partial-update.remove-record-on-delete",
    "txlog.sequence.field",
    "txlog.tombstone-retention",
}
OPEN_ENDED = {"delta.constraints.positive", "delta.new", "txlog.fields.v.aggregate-function", "txlog.new"}
"""Rules whose names a user or a later release completes."""


@pytest.mark.parametrize("key", sorted(KNOWN_KEYS | OWN_KEYS | OPEN_ENDED | {"mine"}))
def test_a_property_is_a_rule_of_writing_or_not(key: str) -> None:
    after = replace(METADATA, configuration={**METADATA.configuration, key: "x"})
    is_rule = key in RULES | OPEN_ENDED
    assert keeps_write_rules(METADATA, after) is not is_rule
    assert keeps_write_rules(after, METADATA) is not is_rule


@pytest.mark.parametrize(
    ("change", "keeps"),
    [
        ({}, True),
        ({"name": "n", "description": "d"}, True),
        ({"schema_string": '{"x":1}'}, False),
        ({"partition_columns": ()}, False),
        ({"id": "other"}, False),
        ({"configuration": {}}, False),
        ({"format": {"provider": "orc"}}, False),
        ({"extra": {"later": 1}}, False),
    ],
)
def test_everything_but_name_and_description_matters(change: dict[str, object], keeps: bool) -> None:
    assert keeps_write_rules(METADATA, replace(METADATA, **change)) is keeps  # type: ignore[arg-type]
