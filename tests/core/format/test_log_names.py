from __future__ import annotations

import pytest

from txlog.core.format.log_names import (
    LogFileKind,
    checkpoint_name,
    checksum_name,
    commit_name,
    compacted_name,
    multipart_names,
    parse_log_name,
    v2_checkpoint_name,
)

UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"


@pytest.mark.parametrize(
    ("name", "kind", "version"),
    [
        (commit_name(7), LogFileKind.COMMIT, 7),
        (checksum_name(7), LogFileKind.CHECKSUM, 7),
        (checkpoint_name(10), LogFileKind.CLASSIC_CHECKPOINT, 10),
        (v2_checkpoint_name(3, UUID, "json"), LogFileKind.V2_CHECKPOINT, 3),
        (v2_checkpoint_name(3, UUID, "parquet"), LogFileKind.V2_CHECKPOINT, 3),
        (commit_name(2**63 - 1), LogFileKind.COMMIT, 2**63 - 1),
    ],
)
def test_a_written_name_is_recognized(name: str, kind: LogFileKind, version: int) -> None:
    found = parse_log_name(name)
    assert found is not None
    assert (found.kind, found.version, found.first_version, found.name) == (kind, version, version, name)


def test_names_are_spelled_as_the_protocol_spells_them() -> None:
    assert commit_name(0) == "00000000000000000000.json"
    assert checkpoint_name(10) == "00000000000000000010.checkpoint.parquet"
    assert multipart_names(4, 2) == (
        "00000000000000000004.checkpoint.0000000001.0000000002.parquet",
        "00000000000000000004.checkpoint.0000000002.0000000002.parquet",
    )
    assert compacted_name(4, 6) == "00000000000000000004.00000000000000000006.compacted.json"


def test_parts_and_ranges_are_read_back() -> None:
    parts = [parse_log_name(name) for name in multipart_names(4, 3)]
    assert [(p.part, p.parts, p.version) for p in parts if p] == [(1, 3, 4), (2, 3, 4), (3, 3, 4)]
    compacted = parse_log_name(compacted_name(4, 6))
    assert compacted is not None
    assert (compacted.kind, compacted.first_version, compacted.version) == (LogFileKind.COMPACTED, 4, 6)


@pytest.mark.parametrize(
    "name",
    [
        "_last_checkpoint",
        "0000000000000000000.json",  # 19 digits
        "000000000000000000000.json",  # 21 digits
        "\u0660" * 20 + ".json",  # digits, but not ASCII
        "00000000000000000000.json.tmp",
        ".00000000000000000000.json.crc",
        "00000000000000000000.json\n",
        "00000000000000000010.checkpoint.0000000003.0000000002.parquet",
        "00000000000000000010.checkpoint.0000000000.0000000002.parquet",
        "00000000000000000010.checkpoint.parquet.tmp",
        "00000000000000000010.checkpoint.not-a-uuid.parquet",
        "00000000000000000006.00000000000000000004.compacted.json",  # runs backwards
        "",
    ],
)
def test_a_foreign_name_is_not_recognized(name: str) -> None:
    assert parse_log_name(name) is None
