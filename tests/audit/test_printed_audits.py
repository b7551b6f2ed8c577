"""What a check and a comparison print: a line, and a line for each thing they found."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import txlog


def test_a_verification_prints_what_it_checked_and_each_finding(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path, "id bigint")
    table.append(pa.table({"id": [1, 2, 2]}))
    assert repr(table.verify()) == "Verification(version 1: no error in 2 commits, 1 data file)"
    (path,) = table.files()["path"].to_pylist()
    assert str(table.verify(keys="id", footers=True)).splitlines() == [
        "Verification(version 1: 1 error in 2 commits, 1 data file, 1 footer, keys of 3 rows)",
        f"  error: id=2 is the key of 2 rows, all in this file [{path}]",
    ]


def test_a_comparison_of_versions_prints_counts_and_each_change_of_the_definition(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path, "id bigint", properties={"delta.enableChangeDataFeed": "true"})
    table.append(pa.table({"id": [1, 2, 2]}))
    table.add_columns("day date")
    table.delete("id = 1")
    assert repr(table.diff(0)).splitlines() == [
        "VersionDiff(version 0 to 3: 1 file added, 0 removed, 0 marked; 0 rows before, 2 after;"
        " 3 rows inserted, 0 updated, 1 deleted)",
        "  day: none became date",
    ]
