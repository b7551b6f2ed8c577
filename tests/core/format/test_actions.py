"""Actions to and from JSON: what a known field may be, and that unknown ones survive a rewrite."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from txlog.core.format.actions import AddFile, CommitInfo, Metadata, RemoveFile, action_from_json, action_to_json
from txlog.core.format.schema import parse_schema
from txlog.core.format.wire import ActionError

ADD = {"path": "a.parquet", "partitionValues": {"day": None}, "size": 3, "modificationTime": -1, "dataChange": True}
METADATA = {
    "id": "i",
    "schemaString": "{}",
    "partitionColumns": [],
    "configuration": {},
    "format": {"provider": "parquet"},
}

LINES: list[dict[str, Any]] = [
    {"add": ADD},
    {"add": {**ADD, "stats": "{}", "tags": {"k": None}, "baseRowId": 0, "clusteringProvider": "liquid"}},
    {
        "add": {
            **ADD,
            "deletionVector": {
                "storageType": "u",
                "pathOrInlineDv": "x",
                "offset": 1,
                "sizeInBytes": 2,
                "cardinality": 3,
                "maxRowIndex": 4,
            },
        }
    },
    {
        "remove": {
            "path": "a.parquet",
            "dataChange": False,
            "deletionTimestamp": 5,
            "extendedFileMetadata": True,
            "size": 3,
        }
    },
    {"metaData": {**METADATA, "name": "n", "description": "d", "createdTime": 1}},
    {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["a"], "writerFeatures": []}},
    {"txn": {"appId": "app", "version": 2**63 - 1, "lastUpdated": 5}},
    {"domainMetadata": {"domain": "d", "configuration": "{}", "removed": False}},
    {"cdc": {"path": "c", "partitionValues": {}, "size": 0, "dataChange": False}},
    {"commitInfo": {"operation": "WRITE", "anything": [1, {"x": None}]}},
    {"checkpointMetadata": {"version": 3}},
    {"sidecar": {"path": "s.parquet", "sizeInBytes": 1, "modificationTime": 1}},
]


@pytest.mark.parametrize("line", LINES, ids=lambda line: next(iter(line)))
def test_every_action_survives_the_way_in_and_out(line: dict[str, Any]) -> None:
    action = action_from_json(line)
    assert action is not None
    assert action_to_json(action) == line


@pytest.mark.parametrize("line", LINES, ids=lambda line: next(iter(line)))
@pytest.mark.parametrize("extra", [None, "fromTheFuture", "extra", "(unknown fields)"])
def test_an_action_read_at_once_is_the_one_read_field_by_field(line: dict[str, Any], extra: str | None) -> None:
    (key, value), *_ = line.items()
    value = value if extra is None else {**value, extra: {}}
    kind = type(action_from_json({key: value}))
    if kind is not CommitInfo:
        assert kind.from_json(value) == kind.read_fields(value)  # type: ignore[union-attr]


@pytest.mark.parametrize("key", ["add", "remove", "metaData", "protocol", "txn", "domainMetadata", "cdc"])
def test_unknown_fields_of_an_action_are_written_back(key: str) -> None:
    line = next(line for line in LINES if key in line)
    line = {key: {**line[key], "fromTheFuture": {"x": [1]}}}
    action = action_from_json(line)
    assert action is not None
    assert action_to_json(action) == line


@pytest.mark.parametrize("line", [{}, {"fromTheFuture": {"x": 1}}, {"add": None}])
def test_unknown_actions_are_ignored(line: dict[str, Any]) -> None:
    assert action_from_json(line) is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("path", None),
        ("path", 1),
        ("size", -1),
        ("size", 2**63),
        ("size", 1.5),
        ("size", True),
        ("size", "three"),
        ("size", orjson.loads(b"18446744073709551616")),
        ("modificationTime", 2**63),
        ("dataChange", 1),
        ("dataChange", "true"),
        ("partitionValues", None),
        ("partitionValues", {"day": 1}),
        ("partitionValues", "day"),
        ("partitionValues", [1]),
        ("partitionValues", [["day", "x"]]),
        ("partitionValues", [("day",)]),
        ("stats", {"numRecords": 1}),
        ("tags", [("k", 1)]),
        ("deletionVector", {"storageType": "u"}),
        ("deletionVector", {"storageType": "u", "pathOrInlineDv": "x", "offset": 2**31}),
        ("baseRowId", -1),
    ],
)
def test_a_known_field_of_the_wrong_kind_is_refused_and_named(field: str, value: Any) -> None:
    with pytest.raises(ActionError, match=rf"^add\.{field} "):
        action_from_json({"add": {**ADD, field: value}})


@pytest.mark.parametrize(
    "line",
    [1, "add", [], {"add": 1}, {"add": []}, {"commitInfo": "x"}, {"add": ADD, "txn": {"appId": "a", "version": 1}}],
)
def test_a_line_that_is_not_one_action_is_refused(line: Any) -> None:
    with pytest.raises(ActionError):
        action_from_json(line)


def test_a_map_may_come_as_the_pairs_that_arrow_hands_over() -> None:
    add = AddFile.from_json({**ADD, "partitionValues": [("day", "x"), ("hour", None)]})
    assert add.partition_values == {"day": "x", "hour": None}


def test_removing_a_file_echoes_what_identifies_it() -> None:
    vector = {"storageType": "u", "pathOrInlineDv": "x", "offset": 1, "sizeInBytes": 2, "cardinality": 3}
    add = AddFile.from_json(
        {**ADD, "deletionVector": vector, "baseRowId": 4, "defaultRowCommitVersion": 5, "tags": {"a": "b"}}
    )
    removed = add.removed(deletion_timestamp=9, data_change=False).to_json()
    assert removed == {
        "path": "a.parquet",
        "dataChange": False,
        "deletionTimestamp": 9,
        "extendedFileMetadata": True,
        "partitionValues": {"day": None},
        "size": 3,
        "tags": {"a": "b"},
        "deletionVector": vector,
        "baseRowId": 4,
        "defaultRowCommitVersion": 5,
    }


def test_a_remove_without_data_change_counts_as_one_that_changes_data() -> None:
    assert RemoveFile.from_json({"path": "a"}).data_change is True


def test_commit_info_is_free_form_and_its_known_fields_are_read_only_where_they_fit() -> None:
    info = CommitInfo(
        {"txnId": 1, "operation": "WRITE", "inCommitTimestamp": "x", "isBlindAppend": "true", "txlog": []}
    )
    assert (info.txn_id, info.operation, info.in_commit_timestamp) == (None, "WRITE", None)
    assert (info.is_blind_append, info.declared_actions, info.fingerprint) == (False, None, None)
    ours = CommitInfo({"txnId": "t", "isBlindAppend": True, "txlog": {"actions": 3, "fingerprint": "f"}})
    assert (ours.txn_id, ours.is_blind_append, ours.declared_actions, ours.fingerprint) == ("t", True, 3, "f")


def test_metadata_without_a_schema_has_no_columns_as_in_spark() -> None:
    found = Metadata.from_json({key: value for key, value in METADATA.items() if key != "schemaString"})
    assert parse_schema(found.schema_string).fields == ()
