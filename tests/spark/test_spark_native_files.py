"""Which files Spark's own reader may have, how they are grouped, and how tasks are spread over partitions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from txlog.core.format.actions import DeletionVectorDescriptor
from txlog.core.format.schema import STRING, Field, Struct, from_arrow
from txlog.core.reading import ScanTask, Selection, balanced
from txlog.spark.native_files import BRANCHES_MAX, FEW_FILES, groups_of, hadoop_root, is_plain_path, reads_natively
from txlog.spark.native_frames import words_of
from txlog.spark.scan import _few_listing_tasks
from txlog.spark.task_reader import task_partitions

VECTOR = DeletionVectorDescriptor("i", "x", size_in_bytes=1, cardinality=1)
SELECTION = Selection("t", 0, (), None, Struct(()))


def task(path: str, size: int = 1, vector: bool = False, **values: str | None) -> ScanTask:
    return ScanTask(path, path, size, SELECTION, values, VECTOR if vector else None)


@pytest.mark.parametrize(
    "path",
    ["part-0.parquet", "day=2026-11-22/part-00000-c0ffee.c000.snappy.parquet", "a/b/C_d.parquet", "p=_x/a+b.parquet"],
)
def test_a_path_that_spark_reads_correctly_is_plain(path: str) -> None:
    assert is_plain_path(path)


@pytest.mark.parametrize(
    "path",
    ["a,b", "a b", "a%20b", "a*", "a?", "[ab]", "{a}", "a:b", "é", "_a", ".a", "d/_a", "d/.a", "_d/a", "a\\b", "a#b",
     "a&b", "a'b", "d//a", "a\nb", "a\n", "a._COPYING_", ""],
)  # fmt: skip
def test_a_path_that_spark_could_misread_is_not_plain(path: str) -> None:
    assert not is_plain_path(path)


@pytest.mark.parametrize(
    ("uri", "root"),
    [
        ("/data/t", "file:///data/t"),
        ("/data/t/", "file:///data/t"),
        ("s3://bucket/a/t", "s3a://bucket/a/t"),
        ("s3a://bucket/t", "s3a://bucket/t"),
        ("abfss://c@account.dfs.core.windows.net/t", "abfss://c@account.dfs.core.windows.net/t"),
        ("gs://bucket/t", "gs://bucket/t"),
        ("az://container/t", None),
        ("/data/t,u", None),
        ("/data/t u", None),
        ("/data/t%20u", None),
        ("/data/[t]", None),
        ("memory://t", None),
        ("", None),
    ],
)
def test_a_location_becomes_hadoops_only_if_it_is_plain(uri: str, root: str | None) -> None:
    assert hadoop_root(uri) == root


def test_a_group_holds_files_of_one_partition_and_depth() -> None:
    tasks = [
        task("p=1/a", p="1"),
        task("p=1/b", p="1"),
        task("p=1/c", p="1", vector=True),
        task("p=1/x/a", p="1"),
        task("p=2/a", p="2"),
        task("p=2/a,b", p="2"),
    ]
    groups, others = groups_of(tasks)
    found = [
        (group.depth, group.has_vectors, group.partition_values, [t.path for t in group.tasks]) for group in groups
    ]
    assert found == [
        (2, True, (("p", "1"),), ["p=1/a", "p=1/b", "p=1/c"]),
        (3, False, (("p", "1"),), ["p=1/x/a"]),
        (2, False, (("p", "2"),), ["p=2/a"]),
    ]
    assert [t.path for t in others] == ["p=2/a,b"]


def test_more_than_a_few_files_are_read_apart_from_files_with_vectors() -> None:
    tasks = [task(str(at), vector=at % 4 == 0) for at in range(FEW_FILES + 1)]
    groups, _ = groups_of(tasks)
    assert [group.has_vectors for group in groups] == [False, True]
    assert [len(group.tasks) for group in groups] == [12, 5]
    [group] = groups_of(tasks[:-1])[0]
    assert group.tasks == tasks[:-1]


def test_many_partitions_are_read_together() -> None:
    tasks = [task(f"p={at}/a", p=str(at)) for at in range(65)]
    assert len(groups_of(tasks[:64])[0]) == 64
    [group] = groups_of(tasks)[0]
    assert group.partition_values is None
    assert group.tasks == tasks


@pytest.mark.parametrize(
    ("column", "is_native"),
    [
        (pa.field("a", pa.null()), True),
        (pa.field("a", pa.struct({"b": pa.null()})), False),
        (pa.field("a", pa.list_(pa.map_(pa.string(), pa.null()))), False),
        (pa.field("a", pa.list_(pa.struct({"b": pa.int8()}))), True),
        (pa.field("_Metadata", pa.int8()), False),
    ],
)
def test_columns_that_sparks_reader_lacks_are_left_to_txlog(column: pa.Field, is_native: bool) -> None:
    schema = from_arrow(pa.schema([column]))
    assert reads_natively(Selection("t", 0, schema.fields, None, schema)) == is_native
    assert not reads_natively(Selection("t", 0, schema.fields, None, schema, column_mapping_mode="id"))


@pytest.mark.parametrize(
    ("old", "new", "is_native"),
    [("integer", "long", True), ("integer", "decimal(12,2)", False), ("decimal(4,1)", "decimal(6,2)", True)],
)
def test_integers_that_became_decimals_are_left_to_txlog(old: str, new: str, is_native: bool) -> None:
    changes = {"delta.typeChanges": [{"fromType": old, "toType": new}]}
    inner = Field("a", STRING, metadata=changes)
    schema = Struct((Field("s", Struct((inner,))),))
    assert reads_natively(Selection("t", 0, schema.fields, None, schema)) == is_native


@given(st.sets(st.integers(0, 400)))
def test_a_bitmap_has_the_bits_of_the_dead_rows_and_no_others(dead: set[int]) -> None:
    words = words_of(np.array(sorted(dead), dtype=np.uint64))
    bits = {64 * at + bit for at, word in enumerate(words.tolist()) for bit in range(64) if (word >> bit) & 1}
    assert bits == dead
    assert len(words) == (max(dead) // 64 + 1 if dead else 0)


@given(st.lists(st.integers(0, 1 << 30), max_size=40), st.integers(1, 9))
def test_every_task_is_in_one_group_and_no_group_is_much_larger_than_it_must_be(sizes: list[int], groups: int) -> None:
    tasks = [task(str(at), size) for at, size in enumerate(sizes)]
    dealt = balanced(tasks, groups)
    assert sorted((t for group in dealt for t in group), key=lambda t: int(t.path)) == tasks
    assert len(dealt) == min(groups, len(tasks))
    costs = [sum(t.size_bytes + 4_000_000 for t in group) for group in dealt]
    if len(dealt) > 1:
        assert max(costs) - min(costs) <= max(sizes) + 4_000_000


def test_many_files_are_dealt_to_few_tasks_and_the_row_groups_of_a_large_one_to_several() -> None:
    small = task_partitions([task(str(at), 1000) for at in range(50_000)])
    assert len(small) == 256
    assert max(map(len, small)) - min(map(len, small)) <= 1
    assert [len(part) for part in task_partitions([task("a"), task("b")])] == [1, 1]
    large = task_partitions([task("a"), task("large", 200 << 20), task("b")])
    shares = [each for part in large for each in part if each.path == "large"]
    assert sorted(each.share or (9, 9) for each in shares) == [(number, 6) for number in range(6)]
    assert len([part for part in large if any(each.path == "large" for each in part)]) == 6
    assert task_partitions([]) == []


@pytest.mark.parametrize("partitions", [1, 50, 25_000])
def test_fifty_thousand_files_are_few_reads_and_no_listing_task_each(partitions: int) -> None:
    tasks = [task(f"p={n % partitions}/part-{n}.parquet", p=str(n % partitions)) for n in range(50_000)]
    groups, others = groups_of(tasks)
    assert not others
    assert len(groups) == (partitions if partitions <= BRANCHES_MAX else 1)
    assert sorted(each.path for group in groups for each in group.tasks) == sorted(each.path for each in tasks)


@pytest.mark.parametrize(
    ("root", "threshold", "parallelism"), [("file:/t", str(1 << 30), "10000"), ("s3a://b/t", "32", "64")]
)
def test_spark_looks_at_many_paths_in_the_driver_or_in_few_tasks(root: str, threshold: str, parallelism: str) -> None:
    before = {THRESHOLD: "32", PARALLELISM: "10000"}
    session: Any = SimpleNamespace(conf=Settings(before))
    with _few_listing_tasks(session, root, 50_000):
        assert session.conf.values == {THRESHOLD: threshold, PARALLELISM: parallelism}
    assert session.conf.values == before
    with _few_listing_tasks(session, root, 30):
        assert session.conf.values == before


THRESHOLD = "spark.sql.sources.parallelPartitionDiscovery.threshold"
PARALLELISM = "spark.sql.sources.parallelPartitionDiscovery.parallelism"


class Settings:
    """Those of a session."""

    def __init__(self, values: dict[str, str]) -> None:
        self.values = dict(values)

    def get(self, name: str) -> str:
        return self.values[name]

    def set(self, name: str, value: str) -> None:
        self.values[name] = value
