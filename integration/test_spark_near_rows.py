"""Copies that take over pages around deleted rows, by Spark's readers with filters pushed down: parquet-java skips row
groups by dictionaries and statistics, and its two ways to decode meet pages of every kind in one chunk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import txlog
from tests.core.changes.test_near_rows import pages
from tests.core.changes.test_spliced_copies import data_file
from txlog.core.changes.tasks import _near_rows as near_rows
from txlog.core.changes.tasks import _spliced_copies as spliced_copies

ROWS, PAGE = 30_000, 1_000
IN_THE_HUNT = pytest.mark.hunt(part="spark")
OTHERS = ("spark", "2"), ("arrow", "1"), ("arrow", "2")
GONE = range(4_200, 9_900)


def rows() -> pa.Table:
    numbers = range(ROWS)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "few": [None if number % 11 == 3 else f"part {number % 6}" for number in numbers],
            "some": pa.array([number * 31 % 500 for number in numbers], pa.int32()),
            "full": [f"text {number * 7919 % 20_011}" for number in numbers],
            "x": [None if number % 7 == 1 else number * 7919 % 10_009 / 8 for number in numbers],
            "flag": [number % 3 == 0 for number in numbers],
        }
    )


def by_arrow(path: Path, version: str) -> None:
    limit = {"dictionary_pagesize_limit": 20_000, "max_rows_per_page": PAGE}
    pq.write_table(rows(), path, row_group_size=ROWS, data_page_version=f"{version}.0", **limit)


def by_spark(spark: SparkSession, path: Path, version: str) -> None:
    staged = path.with_name("staged.parquet")
    pq.write_table(rows(), staged)
    settings = {"parquet.page.row.count.limit": PAGE, "parquet.writer.version": f"PARQUET_{version}_0"}
    settings |= {"parquet.dictionary.page.size": 20_000, "parquet.page.write-checksum.enabled": version == "2"}
    writer = spark.read.parquet(str(staged)).coalesce(1).write
    for name, value in settings.items():
        writer = writer.option(name, str(value).lower() if isinstance(value, bool) else value)
    writer.parquet(str(path.with_name("written")))
    (made,) = path.with_name("written").glob("part-*.parquet")
    made.rename(path)


@pytest.mark.parametrize(
    ("by", "version"),
    [
        ("spark", "1"),
        *(pytest.param(*each, marks=IN_THE_HUNT) for each in (("spark", "2"), ("arrow", "1"), ("arrow", "2"))),
    ],
)
def test_spark_finds_the_rows_around_deleted_ones_by_each_filter(
    tmp_path: Path,
    delta: SparkSession,
    read_delta: Callable[..., DataFrame],
    monkeypatch: pytest.MonkeyPatch,
    by: str,
    version: str,
) -> None:
    monkeypatch.setattr(spliced_copies, "SMALL_BYTES", 0)
    monkeypatch.setattr(near_rows, "PAGE_ROWS", PAGE)
    table = txlog.Table.create(str(tmp_path / "t"), rows().schema)
    file = tmp_path / "made.parquet"
    by_arrow(file, version) if by == "arrow" else by_spark(delta, file, version)
    file.rename(tmp_path / "t" / "f.parquet")
    table.add_files(["f.parquet"])
    before = pages(data_file(table))
    table.delete(f"id BETWEEN {GONE[0]} AND {GONE[-1]}")
    after = pages(data_file(table))
    assert sum((Counter(before[name]) & Counter(after[name])).total() >= 10 for name in before) >= 4
    left = [row for row in rows().to_pylist() if row["id"] not in GONE]
    wanted: dict[str, Callable[[dict[str, Any]], bool]] = {
        "true": lambda row: True,
        "few = 'part 2'": lambda row: row["few"] == "part 2",
        "few is null": lambda row: row["few"] is None,
        "some in (3, 499)": lambda row: row["some"] in (3, 499),
        "full = 'text 7919'": lambda row: row["full"] == "text 7919",
        "full = 'no such text'": lambda row: False,
        "id between 4100 and 10000": lambda row: 4100 <= row["id"] <= 10000,
        "x > 1000 and flag": lambda row: row["x"] is not None and row["x"] > 1000 and row["flag"],
    }
    for is_vectorized in ("true", "false"):
        delta.conf.set("spark.sql.parquet.enableVectorizedReader", is_vectorized)
        for where, matches in wanted.items():
            found = [row.asDict() for row in read_delta(table.uri).where(where).collect()]
            assert sorted(found, key=lambda row: row["id"]) == [row for row in left if matches(row)], where
