from __future__ import annotations

import hashlib
import json

import pytest

from txlog.core.format.log_names import LogFileKind, checkpoint_name, multipart_names, v2_checkpoint_name
from txlog.core.versions.decisions.checkpoint.hint import json_checksum, last_checkpoint_bytes, parse_last_checkpoint

V2 = v2_checkpoint_name(4, "80a083e8-7026-4e79-81be-64bd76c43a11", "json")


def test_the_checksum_is_the_one_of_the_protocols_own_example() -> None:
    sample = """{"k0":"'v 0'", "checksum": "adsaskfljadfkjadfkj", "k1":{"k2": 2, "k3": ["v3", [1, 2],
                {"k4": "v4", "k5": ["v5", "v6", "v7"]}]}}"""
    assert json_checksum(json.loads(sample)) == "6a92d155a59bf2eecbd4b4ec7fd1f875"


@pytest.mark.parametrize(
    ("value", "canonical"),
    [
        ({"a": [None, "hi ho", 2.71]}, '"a"+0=null,"a"+1="hi%20ho","a"+2=2.71'),
        ({"b": True, "a": "~-._"}, '"a"="~-._","b"=true'),
        ({"é": "a€+"}, '"%C3%A9"="a%E2%82%AC%2B"'),
    ],
)
def test_the_canonical_form_follows_the_protocols_rules(value: dict[str, object], canonical: str) -> None:
    assert json_checksum(value) == hashlib.md5(canonical.encode()).hexdigest()


def test_what_we_write_is_read_back_and_carries_its_checksum() -> None:
    body = last_checkpoint_bytes(7, actions=12, size_bytes=345, add_files=9)
    hint = json.loads(body)
    assert hint["checksum"] == json_checksum(hint)
    assert (hint["version"], hint["size"], hint["sizeInBytes"], hint["numOfAddFiles"]) == (7, 12, 345, 9)
    found = parse_last_checkpoint(body)
    assert found is not None
    assert found.files is not None
    assert (found.version, found.files.names, found.files.size_bytes) == (7, (checkpoint_name(7),), 345)


@pytest.mark.parametrize(
    ("body", "names", "kind"),
    [
        (b'{"version":4,"size":1}', (checkpoint_name(4),), LogFileKind.CLASSIC_CHECKPOINT),
        (b'{"version":4,"size":1,"parts":2}', multipart_names(4, 2), LogFileKind.MULTIPART_CHECKPOINT),
        (json.dumps({"version": 4, "v2Checkpoint": {"path": V2}}).encode(), (V2,), LogFileKind.V2_CHECKPOINT),
        (json.dumps({"version": 4, "v2Checkpoint": {"path": f"s3://b/t/_delta_log/{V2}"}}).encode(), (V2,), None),
    ],
)
def test_each_kind_of_checkpoint_is_named(body: bytes, names: tuple[str, ...], kind: LogFileKind | None) -> None:
    found = parse_last_checkpoint(body)
    assert found is not None
    assert found.files is not None
    assert found.files.names == names
    assert kind in (None, found.files.kind)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"null", b"[]", b"3", b"{}", b'{"version":"4"}', b'{"version":-1}', b'{"version":1e99}', b"\xff"],
)
def test_a_hint_that_makes_no_sense_is_ignored(body: bytes) -> None:
    assert parse_last_checkpoint(body) is None


@pytest.mark.parametrize(
    "body",
    [
        b'{"version":4,"parts":0}',
        b'{"version":4,"parts":"2"}',
        b'{"version":4,"parts":999999999999}',
        b'{"version":4,"v2Checkpoint":{}}',
        b'{"version":4,"v2Checkpoint":{"path":"../x.parquet"}}',
        json.dumps({"version": 5, "v2Checkpoint": {"path": V2}}).encode(),
    ],
)
def test_a_hint_without_usable_names_still_has_the_version(body: bytes) -> None:
    found = parse_last_checkpoint(body)
    assert found is not None
    assert (found.version in (4, 5), found.files) == (True, None)
