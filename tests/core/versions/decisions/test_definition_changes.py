"""Which properties are rules of writing: every key that txlog knows is sorted; one that it does not know is a rule."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from txlog.core.format.actions import Metadata, Protocol
from txlog.core.format.properties import KNOWN_KEYS, OWN_KEYS
from txlog.core.format.schema import LONG, STRING, Field, Struct, type_to_json
from txlog.core.versions.decisions.definition_changes import (
    keeps_write_rules,
    lacked_columns,
    only_adds_harmless_features,
)

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
    "delta.enableMaterializePartitionColumnsFeature",
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


def _defined(*fields: Field, **changed: object) -> Metadata:
    text = json.dumps(type_to_json(Struct(fields)))
    return replace(METADATA, schema_string=text, partition_columns=(), **changed)


ID, NEW, OTHER = (Field(name, LONG, True, {}) for name in ("id", "new", "other"))
BEFORE = _defined(ID)


@pytest.mark.parametrize(
    ("after", "written", "lacked"),
    [
        (_defined(ID), (ID, NEW), (NEW,)),
        (_defined(ID, NEW), (ID, NEW), ()),
        (_defined(ID, OTHER), (ID, NEW), (NEW,)),
        (_defined(ID, OTHER, NEW), (ID, NEW), ()),
        (_defined(ID, replace(NEW, metadata={"comment": "said"})), (ID, NEW), ()),
        (_defined(ID, replace(NEW, type=STRING)), (ID, NEW), None),
        (_defined(ID, replace(NEW, name="NEW")), (ID, NEW), None),
        (_defined(ID, replace(OTHER, metadata={"CURRENT_DEFAULT": "7"})), (ID, NEW), None),
        (_defined(ID, replace(OTHER, metadata={"delta.generationExpression": "id"})), (ID, NEW), None),
        (_defined(replace(ID, nullable=False)), (ID, NEW), None),
        (_defined(replace(ID, type=STRING)), (ID, NEW), None),
        (_defined(OTHER), (ID, NEW), None),
        (_defined(ID, configuration={"delta.constraints.c": "id > 5"}), (ID, NEW), None),
        (_defined(ID, configuration={**METADATA.configuration, "delta.checkpointInterval": "5"}), (ID, NEW), (NEW,)),
        (replace(_defined(ID), partition_columns=("id",)), (ID, NEW), None),
    ],
)
def test_files_of_a_schema_merge_fit_beside_plain_new_columns_alone(
    after: Metadata, written: tuple[Field, ...], lacked: tuple[Field, ...] | None
) -> None:
    found = lacked_columns(BEFORE, after, Struct(written))
    assert (None if found is None else found.fields) == lacked


@pytest.mark.parametrize(
    ("added", "is_harmless"),
    [
        *((name, True) for name in ("domainMetadata", "deletionVectors", "v2Checkpoint", "vacuumProtocolCheck")),
        *((name, False) for name in ("rowTracking", "columnMapping", "inCommitTimestamp", "icebergCompatV2")),
        *((name, False) for name in ("checkConstraints", "generatedColumns", "allowColumnDefaults", "clustering")),
        ("aFeatureOfTomorrow", False),
    ],
)
def test_only_features_that_change_nothing_in_an_append_are_harmless(added: str, is_harmless: bool) -> None:
    before = Protocol(3, 7, ("deletionVectors",), ("deletionVectors", "appendOnly"))
    after = replace(before, writer_features=(*before.writer_features, added))
    assert only_adds_harmless_features(before, after) is is_harmless
    assert only_adds_harmless_features(after, before) is (added == "deletionVectors")
