"""Footers of programs that are known to write false statistics: nobody misses a row because of them."""

from __future__ import annotations

import datetime as dt
import io
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import txlog
from tests.parquet_bytes import (
    BINARY,
    I64,
    NUM_ROWS,
    STRUCT,
    altered,
    chunk_of,
    parquet_of,
    statistics_of,
    written_by,
)
from txlog.core.format.arrow.footer_statistics import FooterStatistics
from txlog.core.format.arrow.parquet_footer import check_opened

OLD_MR = "parquet-mr version 1.8.2 (build c6522788629e590a53eb79874b95f6c3ff11f16c)"
OLDEST_MR = "parquet-mr version 1.7.0 (build 1af89788)"
NEW_MR = "parquet-mr version 1.13.1 (build db4183109d5b734ec5930d870cdae161e408ddba)"


class Lie(NamedTuple):
    """A column, the condition whose rows a reader loses that believes the footer, and how many there are."""

    values: pa.Array
    made: Callable[[bytes], bytes]
    where: str
    rows: int
    expression: pc.Expression


def bounds(low: bytes, high: bytes, *, old: bool = False) -> Callable[[dict[int, Any]], None]:
    def change(footer: dict[int, Any]) -> None:
        for group in (0, 1):
            statistics_of(footer, 0, group).update({2 if old else 6: (BINARY, low), 1 if old else 5: (BINARY, high)})

    return change


def nulls(count: int) -> Callable[[dict[int, Any]], None]:
    def change(footer: dict[int, Any]) -> None:
        for group in (0, 1):
            statistics_of(footer, 0, group)[3] = I64, count

    return change


def nulls_and_bounds(count: int, bound: bytes) -> Callable[[dict[int, Any]], None]:
    """In new statistics of both groups: Arrow writes none of timestamps in 96 bits."""

    def change(footer: dict[int, Any]) -> None:
        for group in (0, 1):
            chunk_of(footer, 0, group)[12] = STRUCT, {3: (I64, count), 6: (BINARY, bound), 5: (BINARY, bound)}

    return change


def of_96_bits(body: bytes) -> bytes:
    rows = pq.read_table(io.BytesIO(body))
    return parquet_of(rows, row_group_size=2, use_deprecated_int96_timestamps=True, store_schema=False)


def signed(value: int, width: int) -> bytes:
    return value.to_bytes(width, "big", signed=True)


def micros(moment: dt.datetime, factor: int) -> bytes:
    return (round(moment.timestamp()) * 1_000_000 * factor).to_bytes(8, "little", signed=True)


DECIMALS = pa.array([Decimal(n) for n in (1, 2, 200, 240)], pa.decimal128(25, 2))
TEXTS = pa.array(["a", "b", "é", "z"])
MOMENTS = pa.array(
    [dt.datetime(2024, 1, day, tzinfo=dt.timezone.utc) for day in (1, 2, 3, 4)], pa.timestamp("us", "UTC")
)
LATE = bytes(8) + (2_470_000).to_bytes(4, "little")  # a day in 2050, as nanoseconds and a Julian day
WITH_NULLS = pa.array(["a", None, "b", None]).dictionary_encode()
NUMBERS = pa.array([1, 2, 3, 4], pa.int32())
NEW_YEAR = pc.field("c") == pa.scalar(dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc), pa.timestamp("us", "UTC"))

LIES = {
    "decimals in bytes by an old parquet-mr": Lie(
        DECIMALS,
        lambda body: altered(
            written_by(body, OLD_MR, has_orders=False, old_bounds=True),
            bounds(signed(20000, 11), signed(9600, 11), old=True),
        ),
        "c = 1.00",
        1,
        pc.field("c") == pa.scalar(Decimal("1.00"), pa.decimal128(25, 2)),
    ),
    "text by the oldest parquet-mr, which wrote other values over its bounds": Lie(
        TEXTS,
        lambda body: altered(
            written_by(body, OLDEST_MR, has_orders=False, old_bounds=True), bounds(b"q", b"q", old=True)
        ),
        "c = 'a'",
        1,
        pc.field("c") == "a",
    ),
    "text by a parquet-mr without a version": Lie(
        TEXTS,
        lambda body: altered(
            written_by(body, "parquet-mr", has_orders=False, old_bounds=True), bounds(b"q", b"q", old=True)
        ),
        "c = 'a'",
        1,
        pc.field("c") == "a",
    ),
    "text by nobody": Lie(
        TEXTS,
        lambda body: altered(written_by(body, None, has_orders=False, old_bounds=True), bounds(b"q", b"q", old=True)),
        "c = 'a'",
        1,
        pc.field("c") == "a",
    ),
    "text in another order, which no column order says": Lie(
        TEXTS,
        lambda body: altered(
            written_by(body, "impala version 2.5.0", has_orders=False, old_bounds=True),
            bounds("é".encode(), b"z", old=True),
        ),
        "c = 'a'",
        1,
        pc.field("c") == "a",
    ),
    "nulls of a dictionary by an old Arrow": Lie(
        WITH_NULLS,
        lambda body: altered(written_by(body, "parquet-cpp-arrow version 4.0.1", has_orders=True), nulls(0)),
        "c is null",
        2,
        pc.field("c").is_null(),
    ),
    "bounds of a dictionary by an old Arrow": Lie(
        WITH_NULLS,
        lambda body: altered(written_by(body, "parquet-cpp-arrow version 10.0.1", has_orders=True), bounds(b"x", b"z")),
        "c = 'b'",
        1,
        pc.field("c") == "b",
    ),
    "times in another unit by Parquet.Net": Lie(
        MOMENTS,
        lambda body: altered(
            written_by(body, "Parquet.Net version 6.0.3", has_orders=True),
            bounds(micros(dt.datetime(2024, 1, 1), 10), micros(dt.datetime(2024, 1, 4), 10)),
        ),
        "c = timestamp '2024-01-01 00:00:00'",
        1,
        NEW_YEAR,
    ),
    "nulls and bounds of timestamps in 96 bits, whose order is not defined": Lie(
        pa.array([MOMENTS[0].as_py(), None, MOMENTS[1].as_py(), None], MOMENTS.type),
        lambda body: altered(of_96_bits(body), nulls_and_bounds(0, LATE)),
        "c is null",
        2,
        pc.field("c").is_null(),
    ),
    "bounds the wrong way round": Lie(
        NUMBERS,
        lambda body: altered(body, bounds(signed(4, 4)[::-1], signed(1, 4)[::-1])),
        "c = 1",
        1,
        pc.field("c") == 1,
    ),
    "more nulls than rows": Lie(NUMBERS, lambda body: altered(body, nulls(9)), "c = 1", 1, pc.field("c") == 1),
    "fewer nulls than none": Lie(NUMBERS, lambda body: altered(body, nulls(-2)), "c = 1", 1, pc.field("c") == 1),
    "no rows in the footer, and four in its row groups": Lie(
        NUMBERS,
        lambda body: altered(body, lambda footer: footer.update({NUM_ROWS: (I64, 0)})),
        "c = 1",
        1,
        pc.field("c") == 1,
    ),
}
EACH = pytest.mark.parametrize("lie", LIES.values(), ids=LIES)


def body_of(lie: Lie) -> bytes:
    return lie.made(parquet_of(pa.table({"c": lie.values}), row_group_size=2))


def unlogged(folder: Path, lie: Lie, **properties: str) -> txlog.Table:
    """A table whose log has no statistics of the file: only its footer says something."""
    table = txlog.Table.create(str(folder), pa.schema([("c", plain(lie.values.type))]), properties=properties)
    (folder / "f.parquet").write_bytes(body_of(lie))
    add = {"path": "f.parquet", "partitionValues": {}, "size": (folder / "f.parquet").stat().st_size}
    line = json.dumps({"add": {**add, "modificationTime": 1, "dataChange": True}})
    (folder / "_delta_log" / f"{table.version + 1:020}.json").write_text(line)
    return txlog.Table.open(str(folder))


def plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


@EACH
def test_a_converted_file_keeps_the_rows_that_its_footer_hides(lie: Lie, tmp_path: Path) -> None:
    (tmp_path / "f.parquet").write_bytes(body_of(lie))
    txlog.Table.convert(str(tmp_path))
    table = txlog.Table.open(str(tmp_path))

    assert table.count() == 4
    assert table.count(lie.where) == lie.rows
    assert table.to_arrow(where=lie.where).num_rows == lie.rows
    assert table.to_dataset().to_table(filter=lie.expression).num_rows == lie.rows
    assert table.verify(footers=True).findings == ()


@EACH
def test_an_added_file_keeps_the_rows_that_its_footer_hides(lie: Lie, tmp_path: Path) -> None:
    table = txlog.Table.create(str(tmp_path), pa.schema([("c", plain(lie.values.type))]))
    (tmp_path / "f.parquet").write_bytes(body_of(lie))
    table.add_files(["f.parquet"])

    assert table.count() == 4
    assert table.to_arrow(where=lie.where).num_rows == lie.rows


@EACH
def test_a_file_without_statistics_in_the_log_is_read_beyond_what_its_footer_says(lie: Lie, tmp_path: Path) -> None:
    table = unlogged(tmp_path, lie)

    assert table.count() == 4
    assert table.count(lie.where) == lie.rows
    assert table.to_arrow(where=lie.where).num_rows == lie.rows
    assert sum(task.to_arrow().num_rows for task in table.snapshot().scan_tasks(where=lie.where)) == lie.rows
    assert table.to_dataset().to_table(filter=lie.expression).num_rows == lie.rows
    assert table.to_dataset().count_rows(filter=lie.expression) == lie.rows
    fragments = table.to_dataset().get_fragments()
    assert sum(each.to_table(filter=lie.expression).num_rows for each in fragments) == lie.rows


@EACH
@pytest.mark.parametrize("vectors", ["true", "false"])
def test_a_change_of_a_file_finds_the_rows_that_its_footer_hides(lie: Lie, vectors: str, tmp_path: Path) -> None:
    properties = {"delta.enableDeletionVectors": vectors}
    assert unlogged(tmp_path / "a", lie, **properties).delete(lie.where).metrics.rows_deleted == lie.rows
    assert txlog.Table.open(str(tmp_path / "a")).to_arrow().num_rows == 4 - lie.rows
    assert (
        unlogged(tmp_path / "b", lie, **properties).update({"c": txlog.expr("c")}, where=lie.where).metrics.rows_updated
        == lie.rows
    )


@EACH
def test_a_loaded_file_has_all_its_rows(lie: Lie, tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "f.parquet").write_bytes(body_of(lie))
    table = txlog.Table.create(str(tmp_path / "t"), pa.schema([("c", plain(lie.values.type))]))
    table.copy_into(str(tmp_path / "files"))

    assert table.to_arrow(where=lie.where).num_rows == lie.rows


TRUE = {
    "text by a parquet-mr that states orders": (TEXTS, NEW_MR, True),
    "text by DuckDB": (TEXTS, "DuckDB version v1.5.5", True),
    "text by an old Arrow, which was no dictionary": (TEXTS, "parquet-cpp-arrow version 4.0.1", True),
    "a dictionary by a new Arrow": (WITH_NULLS, "parquet-cpp-arrow version 12.0.0", True),
    "numbers by an old parquet-mr": (NUMBERS, OLD_MR, False),
    "times by an old parquet-mr": (MOMENTS, OLD_MR, False),
    "numbers by Parquet.Net": (NUMBERS, "Parquet.Net version 6.0.3", True),
    "numbers by nobody": (NUMBERS, None, False),
    "decimals on both sides of zero by a new Arrow": (
        pa.array([Decimal(n) for n in (-1, 2, 200)], pa.decimal128(25, 2)),
        "parquet-cpp-arrow version 21.0.0",
        True,
    ),
}


@pytest.mark.parametrize(("values", "created_by", "has_orders"), TRUE.values(), ids=TRUE)
def test_statistics_that_are_known_to_be_right_are_believed(
    values: pa.Array, created_by: str | None, has_orders: bool
) -> None:
    body = written_by(parquet_of(pa.table({"c": values})), created_by, has_orders=has_orders, old_bounds=not has_orders)
    metadata = pq.ParquetFile(io.BytesIO(body)).metadata
    believed = FooterStatistics(metadata, check_opened(metadata))

    assert believed.of(metadata.row_group(0), 0).has_min_max
    assert believed.arrow_agrees({"c"})


def test_one_value_is_a_bound_in_every_order() -> None:
    body = parquet_of(pa.table({"c": pa.array([Decimal("-1.00")] * 2, pa.decimal128(25, 2))}))
    made = written_by(body, OLD_MR, has_orders=False, old_bounds=True)
    metadata = pq.ParquetFile(io.BytesIO(made)).metadata

    assert FooterStatistics(metadata, check_opened(metadata)).of(metadata.row_group(0), 0).max_raw == signed(-100, 11)


@pytest.mark.parametrize("version", ["5.0.0", "11.0.0"])
def test_statistics_of_dictionaries_by_an_arrow_before_12_are_not_believed(version: str) -> None:
    body = written_by(parquet_of(pa.table({"c": WITH_NULLS})), f"parquet-cpp-arrow version {version}", has_orders=True)
    metadata = pq.ParquetFile(io.BytesIO(body)).metadata
    believed = FooterStatistics(metadata, check_opened(metadata))
    assert believed.of(metadata.row_group(0), 0) is None
    assert not believed.arrow_agrees({"c"})
