"""Symlink manifests beside Spark's Delta, the reference: both write the same files with the same lines, in turns."""

from __future__ import annotations

import glob
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import txlog

KEY = "delta.compatibility.symlinkFormatManifest.enabled"


def manifests(root: Path) -> dict[str, list[str]]:
    found = glob.glob(
        f"{glob.escape(str(root))}/_symlink_format_manifest/**/manifest", recursive=True, include_hidden=True
    )
    return {str(Path(each).relative_to(root)): sorted(Path(each).read_text().splitlines()) for each in found}


@pytest.mark.hunt(part="spark")
@pytest.mark.parametrize("partitions", ["", "PARTITIONED BY (p, q)"], ids=["flat", "partitioned"])
def test_both_write_the_same_manifests_in_turns(delta: SparkSession, tmp_path: Path, partitions: str) -> None:
    root = tmp_path / "a table%20é"
    table_sql = f"delta.`{root}`"
    delta.sql(
        f"CREATE TABLE {table_sql} (i BIGINT, p STRING, q DATE) USING delta {partitions}"
        f" TBLPROPERTIES ('{KEY}' = 'true')"
    )
    delta.sql(
        f"INSERT INTO {table_sql} VALUES (1, 'a b', DATE'2026-11-29'), (2, 'x/y:z%', NULL),"
        " (3, NULL, DATE'1969-01-01'), (4, 'é', NULL), (5, '', NULL), (6, 'k=v', NULL),"
        " (7, '_hidden', NULL), (8, '.', NULL)"
    )
    by_spark = manifests(root)
    table = txlog.Table.open(root)
    table.generate()
    assert manifests(root) == by_spark
    for change in (
        lambda: table.append(pa.table({"i": [9, 10], "p": ["a b", "new"]})),
        lambda: table.delete("i = 1"),
        lambda: table.delete("p = 'new' OR p = 'é'"),
        lambda: table.update({"i": txlog.expr("i + 100")}, "i > 5"),
        lambda: table.overwrite(pa.table({"i": [11], "p": ["only"]})),
        lambda: delta.sql(f"INSERT INTO {table_sql} VALUES (12, 'spark', NULL)"),
        lambda: table.append(pa.table({"i": [13], "p": ["spark"]})),
        lambda: table.optimize(),
        lambda: table.delete(all=True),
    ):
        change()
        by_commit = manifests(root)
        assert table.verify().findings == ()
        delta.sql(f"GENERATE symlink_format_manifest FOR TABLE {table_sql}")
        assert by_commit == manifests(root)
    files = [line for lines in manifests(root).values() for line in lines]
    assert not files
