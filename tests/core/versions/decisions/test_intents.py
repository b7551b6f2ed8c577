"""Intents as bytes: what one writer offers, another one reads unchanged; nothing that could harm a table is read."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from tests.offered import FILE, METADATA, STATE, append
from txlog.core.format.actions import DomainMetadata, RemoveFile, SetTransaction
from txlog.core.versions.decisions.intents import INTENT_BYTES_MAX, Intent, can_be_offered, intent_name, named_intent
from txlog.core.versions.decisions.proposal import Isolation, Proposal
from txlog.errors import InvalidInputError, UnsupportedFeatureError

OFFERED = Intent("table", 7, (append(),))


def sealed(value: object, *, version: int = 1, checksum: str | None = None) -> bytes:
    body = value if isinstance(value, bytes) else orjson.dumps(value)
    digest = sha256(body).hexdigest() if checksum is None else checksum
    return b"txlog-intent %d %s\n%s" % (version, digest.encode(), body)


def value_of(intent: Intent = OFFERED) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(intent.to_bytes().partition(b"\n")[2])
    return found


def test_what_is_offered_is_read_unchanged() -> None:
    first = append(
        SetTransaction("app", 3, 5),
        FILE,
        txn_id="11111111-1111-4111-8111-111111111111",
        operation="STREAMING UPDATE",
        operation_parameters={"epochId": "3"},
        operation_metrics={"numOutputRows": "1"},
        user_metadata="note",
        fingerprint="offsets",
        tags={"a": "b"},
        isolation=Isolation.SERIALIZABLE,
    )
    second = append(replace(FILE, path="day=mon/b%20c.parquet"), txn_id="other")
    offered = Intent("table", 12, (first, second))
    found = Intent.from_bytes(offered.name, offered.to_bytes(), STATE)
    assert found == Intent("table", 12, tuple(replace(each, read_version=12) for each in (first, second)))
    assert found.name == "00000000000000000012.11111111-1111-4111-8111-111111111111.intent"


def test_the_format_is_the_documented_one() -> None:
    assert OFFERED.to_bytes().startswith(b"txlog-intent 1 ")
    assert value_of() == {
        "tableId": "table",
        "baseVersion": 7,
        "members": [
            {
                "txnId": "t",
                "operation": "WRITE",
                "operationParameters": {},
                "operationMetrics": {},
                "isolationLevel": "WriteSerializable",
                "userMetadata": None,
                "fingerprint": None,
                "tags": {},
                "actions": [
                    {
                        "add": {
                            "path": "day=mon/a.parquet",
                            "partitionValues": {"day": "mon"},
                            "size": 10,
                            "modificationTime": 1,
                            "dataChange": True,
                            "stats": '{"numRecords":1}',
                        }
                    }
                ],
            }
        ],
    }


def changed(path: str, value: object) -> dict[str, Any]:
    """The intent with one value replaced, by a path such as ``members.0.txnId``."""
    found: Any = value_of()
    *folders, last = path.split(".")
    at = found
    for name in folders:
        at = at[int(name) if name.isdigit() else name]
    at[int(last) if last.isdigit() else last] = value
    return found  # type: ignore[no-any-return]


ADD = "members.0.actions.0.add"


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"not JSON",
        b"[" * 2000,
        [],
        {},
        changed("tableId", None),
        changed("baseVersion", -1),
        changed("baseVersion", "7"),
        changed("baseVersion", 2**63),
        changed("members", []),
        changed("members", {}),
        changed("members", value_of()["members"] * 1001),
        changed("members.0", []),
        changed("members.0.txnId", None),
        changed("members.0.operation", 1),
        changed("members.0.operationParameters", {"a": [1]}),
        changed("members.0.operationParameters", {"a": 1}),
        changed("members.0.operationMetrics", {"a": True}),
        changed("members.0.isolationLevel", "None"),
        changed("members.0.tags", None),
        changed("members.0.tags", {"a": 1.5}),
        changed("members.0.actions", []),
        changed("members.0.actions.0", {"remove": {"path": "a", "dataChange": True, "deletionTimestamp": 1}}),
        changed("members.0.actions.0", {"metaData": METADATA.to_json()}),
        changed("members.0.actions.0", {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}),
        changed("members.0.actions.0", {"domainMetadata": {"domain": "d", "configuration": "", "removed": False}}),
        changed("members.0.actions.0", {"cdc": {"path": "a", "partitionValues": {}, "size": 1, "dataChange": False}}),
        changed("members.0.actions.0", {"commitInfo": {}}),
        changed("members.0.actions.0", {"unknown": {}}),
        changed("members.0.actions.0", {"txn": {"appId": "a", "version": "1"}}),
        changed(f"{ADD}.path", "../outside.parquet"),
        changed(f"{ADD}.path", "_delta_log/00000000000000000001.json"),
        changed(f"{ADD}.path", "/etc/passwd"),
        changed(f"{ADD}.path", "s3://other/file.parquet"),
        changed(f"{ADD}.path", "a%zz.parquet"),
        changed(f"{ADD}.path", ""),
        changed(f"{ADD}.size", -1),
        changed(f"{ADD}.size", "10"),
        changed(f"{ADD}.size", 10.0),
        changed(f"{ADD}.modificationTime", "1"),
        changed(f"{ADD}.dataChange", False),
        changed(f"{ADD}.baseRowId", 5),
        changed(f"{ADD}.defaultRowCommitVersion", 5),
        changed(
            f"{ADD}.deletionVector", {"storageType": "i", "pathOrInlineDv": "", "sizeInBytes": 0, "cardinality": 0}
        ),
    ],
)
def test_what_may_not_be_committed_for_others_is_refused(value: object) -> None:
    with pytest.raises(InvalidInputError):
        Intent.from_bytes(OFFERED.name, sealed(value), STATE)


def test_damaged_bytes_and_another_name_are_refused() -> None:
    body = OFFERED.to_bytes()
    for damaged in (body[:-1], body + b" ", body.replace(b"mon/a", b"mon/b"), sealed(value_of(), checksum="0" * 64)):
        with pytest.raises(InvalidInputError, match="damaged"):
            Intent.from_bytes(OFFERED.name, damaged, STATE)
    with pytest.raises(InvalidInputError, match="holds the intent"):
        Intent.from_bytes(intent_name(8, "t"), body, STATE)
    with pytest.raises(InvalidInputError, match="holds the intent"):
        Intent.from_bytes(intent_name(7, "another"), body, STATE)


def test_an_intent_of_a_newer_release_is_told_apart_from_a_damaged_one() -> None:
    with pytest.raises(UnsupportedFeatureError, match="format 3"):
        Intent.from_bytes(OFFERED.name, sealed(value_of(), version=3), STATE)


def test_an_intent_that_is_too_large_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(InvalidInputError, match=re.escape(f"more than the limit of {INTENT_BYTES_MAX}")):
        Intent.from_bytes(OFFERED.name, b"x" * (INTENT_BYTES_MAX + 1), STATE)


@pytest.mark.parametrize(
    ("proposal", "expected"),
    [
        (append(), True),
        (append(SetTransaction("app", 1), FILE), True),
        (append(members=(append(), append(txn_id="u"))), True),
        (append(replace(FILE, path="s3://other/a.parquet")), False),
        (append(replace(FILE, base_row_id=1)), False),
        (append(replace(FILE, data_change=False)), False),
        (append(RemoveFile("a", True, 1)), False),
        (append(DomainMetadata("d", "", False)), False),
        (append(METADATA), False),
        (append(adds_are_new=False), False),
        (append(is_tied_to_version=True), False),
        (append(members=(append(), append(adds_are_new=False))), False),
    ],
)
def test_only_appends_of_new_files_below_the_table_are_offered(proposal: Proposal, expected: bool) -> None:
    assert can_be_offered(proposal) is expected


def test_intent_names_ascend_with_the_base_version_and_marks_have_none() -> None:
    names = [intent_name(version, "t") for version in (0, 9, 10, 12345678901234)]
    assert names == sorted(names)
    assert [named_intent(name) for name in names] == [(0, "t"), (9, "t"), (10, "t"), (12345678901234, "t")]
    assert named_intent(intent_name(9, "t", replaces=True)) == (9, "t")
    for other in ("11111111-1111-4111-8111-111111111111", "7.t.intent", f"{7:020d}.t.other", f"{7:020d}.a/b.intent"):
        assert named_intent(other) is None
