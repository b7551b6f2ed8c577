"""Deletes and upserts of near rows by copies: pages around these rows are passed on, and each reader finds the rows."""

from __future__ import annotations

import datetime
import decimal
import functools
import json
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder, WriterProperties, write_deltalake

import txlog
from tests.core.changes.test_spliced_copies import data_file, made, paths, readers, replaced
from tests.other_writers import commit_files
from txlog.core.changes.tasks import _near_rows as near_rows
from txlog.core.changes.tasks import _rewrite as rewrite
from txlog.core.changes.tasks import _small_files as small_files
from txlog.core.changes.tasks import _spliced_copies as spliced_copies
from txlog.core.format.arrow.parquet_splice import Splice, pages_of
from txlog.core.reading import _scan_task as scan_task
from txlog.errors import CorruptLogError

ROWS = 1000
PAGE = 50
IN_THE_HUNT = pytest.mark.hunt(part="properties")


@pytest.fixture(autouse=True)
def _small_files_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spliced_copies, "SMALL_BYTES", 0)
    monkeypatch.setattr(spliced_copies, "PART_BYTES", 1 << 13)
    monkeypatch.setattr(rewrite, "JOINED_BYTES", 0)
    monkeypatch.setattr(small_files, "HELD_FILE_BYTES", 0)
    monkeypatch.setattr(scan_task, "SMALL_BYTES", 0)
    monkeypatch.setattr(near_rows, "PAGE_ROWS", PAGE)


@contextmanager
def decoded() -> Iterator[None]:
    """Every copied file is decoded."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spliced_copies, "SMALL_BYTES", 1 << 40)
        yield


@functools.lru_cache(1)
def rows(count: int = ROWS) -> pa.Table:
    """Sorted numbers, and columns of many types, of few values and of many, with nulls and without."""
    numbers = range(count)
    start = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
    cents = [decimal.Decimal(number * 7919 % 4001 - 2000) / 100 for number in numbers]
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "few": pa.array([f"part {number % 4}" for number in numbers]),
            "text": pa.array([None if number % 11 == 3 else f"text {number * 31 % 997:04}" for number in numbers]),
            "x": pa.array([None if number % 7 == 1 else number * 7919 % 1009 / 8 for number in numbers]),
            "small": pa.array([number * 37 % 101 for number in numbers], pa.int32()),
            "b": pa.array([None if number % 13 == 5 else number % 2 == 0 for number in numbers]),
            "d": pa.array(cents, pa.decimal128(9, 2)),
            "wide": pa.array(cents, pa.decimal128(30, 2)),
            "day": pa.array([datetime.date(2026, 1, 1) + datetime.timedelta(number // 60) for number in numbers]),
            "t": pa.array([start + datetime.timedelta(hours=number) for number in numbers], pa.timestamp("us", "UTC")),
            "n": pa.array([None if number % 9 == 0 else [number, 1] for number in numbers], pa.list_(pa.int64())),
            "p": pa.array([{"a": number / 2, "c": str(number % 3)} if number % 6 else None for number in numbers]),
            "none": pa.nulls(count, pa.int64()),
        }
    )


def one_group(folder: Path, data: pa.Table | None = None, **options: Any) -> txlog.Table:
    """A table of one file with one row group of many pages."""
    data = rows() if data is None else data
    folder.mkdir(parents=True, exist_ok=True)
    usual = {"row_group_size": len(data), "max_rows_per_page": PAGE, "store_decimal_as_integer": True}
    return made(folder, data, **{**usual, **options})


def pages(path: Path) -> dict[str, list[bytes]]:
    """The pages of each column of a file with one row group."""
    body = path.read_bytes()
    splice = Splice.of(body, len(body))
    assert splice is not None
    schema = pq.read_metadata(path).schema
    found = {}
    for leaf in range(len(schema)):
        _, start, length = splice.chunk(0, leaf)
        chunk = memoryview(body)[start : start + length]
        found[schema.column(leaf).path] = [bytes(chunk[page.start : page.end]) for page in pages_of(chunk)]
    return found


def passed_on(before: Path, after: Path) -> dict[str, int]:
    """How many pages of each column are in both files."""
    old, new = pages(before), pages(after)
    return {name: (Counter(old[name]) & Counter(new[name])).total() for name in old}


def told(table: txlog.Table) -> list[dict[str, Any]]:
    """The statistics of the table's files."""
    found = [json.loads(text) for text in table.snapshot().files()["stats"].to_pylist()]
    for each in found:
        each["nullCount"].pop("n", None)  # of arrays that are passed on, nobody counts the nulls
    return sorted(found, key=lambda each: each["numRecords"])


def all_rows(table: txlog.Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.snapshot().to_arrow().sort_by("id").to_pylist()
    return found


def changed(
    folder: Path, change: Callable[[txlog.Table], object], data: pa.Table, **options: Any
) -> tuple[txlog.Table, dict[str, int]]:
    """The table after a change, which has left as many rows and statistics as if every row had been decoded; and how
    many pages of each column were passed on."""
    with decoded():
        other = one_group(folder / "decoded", data, **options)
        change(other)
    table = one_group(folder / "pages", data, **options)
    before = data_file(table)
    change(table)
    assert repr(all_rows(table)) == repr(all_rows(other))  # NaN is not itself
    assert told(table) == told(other)
    assert not table.verify(footers=True).findings
    return table, passed_on(before, paths(table)[0])


# --- what is passed on ----------------------------------------------------------------------------------------------

FLAT = {"id", "few", "text", "x", "small", "b", "d", "wide", "t"}
"""The columns of which pages can stay: days end with the rows that are deleted, others are nested or empty."""


@pytest.mark.parametrize("version", ["1.0", pytest.param("2.0", marks=IN_THE_HUNT)])
def test_a_delete_of_near_rows_passes_on_pages_of_flat_columns(tmp_path: Path, version: str) -> None:
    table, counts = changed(
        tmp_path,
        lambda table: table.delete("id BETWEEN 210 AND 430"),
        rows(),
        data_page_version=version,
        use_dictionary=["few"],
    )
    assert {name for name, count in counts.items() if count >= 14} == FLAT | {"day"}
    expected = rows().filter(pc.invert(pc.and_(pc.greater_equal(rows()["id"], 210), pc.less_equal(rows()["id"], 430))))
    for found in readers(table):
        assert found.to_pylist() == expected.cast(found.schema).to_pylist()


def test_an_upsert_of_near_keys_passes_on_pages(tmp_path: Path) -> None:
    new = replaced(rows().slice(300, 90), "small", pa.chunked_array([pa.array([7] * 90, pa.int32())]))
    table, counts = changed(tmp_path, lambda table: table.upsert(new, ["id"]), rows(), use_dictionary=["few"])
    assert {name for name, count in counts.items() if count >= 17} >= FLAT
    assert all_rows(table)[300:390] == new.to_pylist()


@IN_THE_HUNT
def test_a_delete_of_the_first_rows_or_the_last_finds_the_new_bounds(tmp_path: Path) -> None:
    for number, where in enumerate(("id < 120", "id >= 930", "id < 20 OR id > 990")):
        table, counts = changed(
            tmp_path / str(number), lambda table, where=where: table.delete(where), rows(), use_dictionary=False
        )
        assert counts["id"] >= 17
        ids = [row["id"] for row in all_rows(table)]
        (found,) = told(table)
        assert (found["minValues"]["id"], found["maxValues"]["id"]) == (ids[0], ids[-1])


def test_a_deleted_value_is_in_no_page_and_no_dictionary(tmp_path: Path) -> None:
    texts = [f"text {number % 9}" for number in range(ROWS)]
    texts[400:402] = ["a secret"] * 2
    for number, options in enumerate(({}, {"use_dictionary": False}, {"dictionary_pagesize_limit": 40})):
        table = one_group(
            tmp_path / str(number), replaced(rows(), "text", pa.chunked_array([texts])), compression="none", **options
        )
        assert b"a secret" in data_file(table).read_bytes()
        table.delete("id BETWEEN 390 AND 410")
        assert b"a secret" not in data_file(table).read_bytes()
        assert table.count() == ROWS - 21


@IN_THE_HUNT
def test_marked_rows_that_are_near_are_left_out_of_a_copy(tmp_path: Path) -> None:
    table = one_group(tmp_path, rows(), properties={"delta.enableDeletionVectors": "true"}, use_dictionary=False)
    table.delete("id BETWEEN 100 AND 140")
    before = data_file(table)
    table.delete("id BETWEEN 600 AND 640", row_mode="copy-on-write")
    assert passed_on(before, data_file(table))["id"] >= 16
    assert [row["id"] for row in all_rows(table)] == [*range(100), *range(141, 600), *range(641, ROWS)]
    assert told(table)[0]["nullCount"]["none"] == ROWS - 82


@IN_THE_HUNT
def test_the_change_feed_has_rows_that_are_removed_page_by_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for room in (0, 1 << 20):
        monkeypatch.setattr(spliced_copies, "KEPT_BYTES", room)
        table = one_group(tmp_path / str(room), rows(), properties={"delta.enableChangeDataFeed": "true"})
        table.delete("id BETWEEN 390 AND 410")
        changes = table.changes(2).read_all().sort_by("id")
        assert changes.select(rows().column_names).to_pylist() == rows().slice(390, 21).to_pylist()


@IN_THE_HUNT
def test_a_setting_of_pages_is_followed_in_a_copy(tmp_path: Path) -> None:
    table = one_group(tmp_path, rows(), properties={"parquet.page.row.count.limit": "200"}, use_dictionary=False)
    before = data_file(table)
    table.delete("id BETWEEN 390 AND 410")
    assert not any(passed_on(before, data_file(table)).values())
    assert len(pages(data_file(table))["id"]) == 5


@pytest.mark.parametrize("special", [math.nan, *(pytest.param(each, marks=IN_THE_HUNT) for each in (-0.0, math.inf))])
def test_bounds_of_floats_are_those_of_the_rows_that_are_left(tmp_path: Path, special: float) -> None:
    values = [1.0 + number for number in range(ROWS)]
    values[900] = special
    data = replaced(rows(), "x", pa.chunked_array([values]))
    table, counts = changed(tmp_path, lambda table: table.delete("id BETWEEN 390 AND 410"), data, use_dictionary=False)
    assert counts["x"] >= 18
    found = told(table)[0]
    assert ("x" in found["minValues"]) == (not math.isnan(special))


# --- other programs -------------------------------------------------------------------------------------------------


def test_readers_that_filter_by_the_dictionary_find_each_row(tmp_path: Path) -> None:
    """A reader may skip the chunk, or its pages, by a dictionary that has all its values."""
    texts = [f"text {number % 5}" if number < 300 else f"text {number}" for number in range(ROWS)]
    data = rows().select(["id", "few"]).append_column("long", pa.array(texts))
    table = one_group(tmp_path, data, dictionary_pagesize_limit=200, use_dictionary=["few", "long"])
    before = data_file(table)
    table.delete("id BETWEEN 210 AND 430")
    after = data_file(table)
    assert all(count >= 10 for count in passed_on(before, after).values())
    engine = QueryBuilder().register("t", DeltaTable(table.uri))
    for name, value, numbers in (
        ("few", "part 2", range(2, ROWS, 4)),
        ("long", "text 3", range(3, 300, 5)),
        ("long", "text 800", [800]),
        ("long", "text 999", [999]),
        ("long", "gone", []),
    ):
        left = [number for number in numbers if not 210 <= number <= 430]
        where = f"{name} = '{value}'"
        found = [
            table.to_arrow(where=where)["id"].to_pylist(),
            duckdb.sql(f"SELECT id FROM '{after}' WHERE {where}").to_arrow_table()["id"].to_pylist(),
            pl.scan_parquet(after).filter(pl.col(name) == value).collect()["id"].to_list(),
            pa.table(engine.execute(f"SELECT id FROM t WHERE {where}"))["id"].to_pylist(),
            pq.read_table(after, filters=[(name, "=", value)])["id"].to_pylist(),
            pq.read_table(after, read_dictionary=[name], filters=[(name, "=", value)])["id"].to_pylist(),
        ]
        assert [sorted(each) for each in found] == [left] * 6


@IN_THE_HUNT
def test_pages_of_deltalake_and_polars_are_passed_on(tmp_path: Path) -> None:
    data = rows().select(["id", "few", "text", "x", "small", "b", "t", "n"])
    by_deltalake = WriterProperties(data_page_row_count_limit=PAGE, write_batch_size=PAGE)
    write_deltalake(str(tmp_path / "deltalake"), data, writer_properties=by_deltalake)
    by_polars = txlog.Table.create(str(tmp_path / "polars"), data.schema)
    frame = pl.from_arrow(data)
    assert isinstance(frame, pl.DataFrame)
    frame.write_parquet(tmp_path / "polars" / "f.parquet", data_page_size=400)
    commit_files(by_polars, "f.parquet")
    for name in ("deltalake", "polars"):
        table = txlog.Table.open(str(tmp_path / name))
        before = data_file(table)
        table.delete("id BETWEEN 390 AND 410")
        assert passed_on(before, data_file(table))["few"] >= 4, name
        expected = pa.concat_tables([data.slice(0, 390), data.slice(411)])
        for found in readers(table):
            assert found.to_pylist() == expected.cast(found.schema).to_pylist()
        assert not table.verify(footers=True).findings


# --- damage ---------------------------------------------------------------------------------------------------------


def test_a_damaged_page_is_told_by_its_checksum(tmp_path: Path) -> None:
    table = one_group(tmp_path, rows(), use_dictionary=False, write_page_checksum=True)
    path = data_file(table)
    page = pages(path)["t"][15]
    path.write_bytes(path.read_bytes().replace(page, page[:-1] + bytes([page[-1] ^ 1])))
    with pytest.raises(CorruptLogError, match="checksum of a page"):
        table.delete("id BETWEEN 390 AND 410")
    assert table.version == 1
    assert [each.name for each in Path(table.uri).iterdir() if each.is_file()] == ["f.parquet"]


# --- any delete -----------------------------------------------------------------------------------------------------


def any_delete(folder: Path, seed: int) -> int:
    """Delete rows of some ranges from a table that is written in any way, by pages and decoded. The pages passed on."""
    chance = random.Random(seed)
    data = rows()
    names = ["id", *chance.sample([name for name in data.column_names if name != "id"], chance.randint(1, 5))]
    ranges = [
        (first, first + chance.choice([0, 3, 70, 400])) for first in chance.sample(range(ROWS), chance.randint(1, 3))
    ]
    where = " OR ".join(f"id BETWEEN {first} AND {last}" for first, last in ranges)
    options = {
        "compression": chance.choice(["none", "snappy", "gzip", "zstd", "lz4", "brotli"]),
        "use_dictionary": chance.choice([True, False, ["few", "small"]]),
        "data_page_version": chance.choice(["1.0", "2.0"]),
        "max_rows_per_page": chance.choice([20, PAGE, 300]),
        "dictionary_pagesize_limit": chance.choice([100, 800, 1 << 20]),
        "row_group_size": chance.choice([ROWS, 400]),
        "write_page_checksum": chance.random() < 0.3,
        "write_page_index": chance.random() < 0.3,
    }
    left = [number for number in range(ROWS) if not any(first <= number <= last for first, last in ranges)]
    if not left:
        return 0
    table, counts = changed(folder, lambda table: table.delete(where), data.select(names), **options)
    for found in readers(table):
        assert found["id"].to_pylist() == left
    return sum(counts.values())


@pytest.mark.parametrize("seed", [3])
def test_any_delete_leaves_the_rows_and_statistics_of_a_copy_of_which_every_row_is_decoded(
    tmp_path: Path, seed: int
) -> None:
    any_delete(tmp_path, seed)


@IN_THE_HUNT
def test_many_deletes_leave_the_rows_and_statistics_of_a_copy_of_which_every_row_is_decoded(tmp_path: Path) -> None:
    counts = [any_delete(tmp_path / str(seed), seed) for seed in range(1_000, 1_400)]
    assert sum(count > 0 for count in counts) > 200
