"""Column chunks without some rows: other pages stay as they are, every reader finds the rows that stay, and nothing of
the others is left."""

from __future__ import annotations

import datetime
import decimal
import io
import random
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.parquet_bytes import parquet_of
from txlog.core.format.arrow.parquet_footer import check_footer
from txlog.core.format.arrow.parquet_pages import FlatColumn, ShorterChunk, without_rows
from txlog.core.format.arrow.parquet_splice import MAGIC, PageDamaged, Splice, pages_of
from txlog.core.format.arrow.parquet_thrift import I32, put_struct, read_struct

ROWS = 400
PHYSICAL = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
TYPES = {
    "int32": (pa.int32(), lambda n: n - 150),
    "int64": (pa.int64(), lambda n: n * 10_000_000_000),
    "float32": (pa.float32(), lambda n: n / 4),
    "float64": (pa.float64(), lambda n: n / 8 - 3),
    "bool": (pa.bool_(), lambda n: n % 3 == 0),
    "string": (pa.string(), lambda n: f"text {n:04}"),
    "binary": (pa.binary(), lambda n: bytes([n % 256, n // 256]) * (n % 3)),
    "date": (pa.date32(), lambda n: datetime.date(1969, 10, 1) + datetime.timedelta(n)),
    "moment": (pa.timestamp("us", "UTC"), lambda n: datetime.datetime.fromtimestamp(n - 99, datetime.timezone.utc)),
    "decimal": (pa.decimal128(22, 3), lambda n: decimal.Decimal(n - 200) / 1000),
}
ENCODINGS = {
    "int32": ["PLAIN", "DELTA_BINARY_PACKED"],
    "int64": ["PLAIN", "DELTA_BINARY_PACKED"],
    "float64": ["PLAIN", "BYTE_STREAM_SPLIT"],
    "bool": ["PLAIN", "RLE"],
    "string": ["PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"],
    "decimal": ["PLAIN"],
}


def column_of(body: bytes) -> FlatColumn:
    leaf = pq.read_metadata(pa.BufferReader(body)).schema.column(0)
    return FlatColumn(PHYSICAL.index(leaf.physical_type), leaf.length, bool(leaf.max_definition_level))


def shorter(body: bytes, stays: Any, *, keeps_dictionary: bool = True) -> ShorterChunk | None:
    """The only column chunk of a file without some rows."""
    splice = Splice.of(body, len(body))
    assert splice is not None
    metadata, start, length = splice.chunk(0, 0)
    return without_rows(
        memoryview(body)[start : start + length],
        metadata,
        column_of(body),
        np.asarray(stays, dtype=bool),
        keeps_dictionary=keeps_dictionary,
        wants_floats=True,
    )


def spliced(body: bytes, chunk: ShorterChunk) -> bytes:
    """The file with this chunk."""
    splice = Splice.of(body, len(body))
    assert splice is not None
    pieces = [*splice.replace(0, [(chunk.footer, [0])])]
    made = MAGIC + b"".join(chunk.body[start : start + length] for _, start, length, _ in pieces) + splice.finish()
    check_footer(made, pq.read_metadata(pa.BufferReader(made)))
    return made


def column_chunk(body: bytes) -> Any:
    return pq.read_metadata(pa.BufferReader(body)).row_group(0).column(0)


def pages(body: bytes) -> list[bytes]:
    """The bytes of each page of the only chunk."""
    splice = Splice.of(body, len(body))
    assert splice is not None
    _, start, length = splice.chunk(0, 0)
    chunk = memoryview(body)[start : start + length]
    return [bytes(chunk[page.start : page.end]) for page in pages_of(chunk)]


def assert_true_statistics(body: bytes, rows: pa.ChunkedArray) -> None:
    found = column_chunk(body).statistics
    if pa.types.is_floating(rows.type):
        assert found is None
        return
    ends = pc.min_max(rows).as_py()
    assert found.null_count == rows.null_count
    assert (found.min, found.max) == (ends["min"], ends["max"])


# --- pages that stay ------------------------------------------------------------------------------------------------


def test_pages_without_a_removed_row_stay_and_those_with_only_removed_rows_are_gone() -> None:
    rows = pa.table({"c": pa.array(range(ROWS), pa.int64())})
    body = parquet_of(rows, max_rows_per_page=50, use_dictionary=False)
    stays = np.ones(ROWS, dtype=bool)
    stays[60:210] = False
    chunk = shorter(body, stays)
    assert chunk is not None
    made = spliced(body, chunk)
    old, new = pages(body), pages(made)
    assert (len(old), len(new)) == (8, 5)
    assert [page in new for page in old] == [True, False, False, False, False, True, True, True]
    assert pq.read_table(pa.BufferReader(made))["c"].to_pylist() == [*range(60), *range(210, ROWS)]


def test_places_in_a_dictionary_stay_if_each_entry_is_still_used() -> None:
    rows = pa.table({"c": [["a", "b", None, "c"][number % 4] for number in range(ROWS)]})
    body = parquet_of(rows, max_rows_per_page=50)
    stays = np.arange(ROWS) < 310
    chunk = shorter(body, stays)
    assert chunk is not None
    made = spliced(body, chunk)
    assert pages(made)[:7] == pages(body)[:7]
    found = column_chunk(made)
    assert found.has_dictionary_page
    assert {each for each in found.encodings if "DICTIONARY" in each} == {
        each for each in column_chunk(body).encodings if "DICTIONARY" in each
    }
    assert pq.read_table(pa.BufferReader(made), read_dictionary=["c"])["c"].to_pylist() == rows["c"].to_pylist()[:310]
    assert_true_statistics(made, rows["c"].slice(0, 310))


@pytest.mark.parametrize("keeps_dictionary", [True, False])
def test_no_value_that_only_removed_rows_have_is_left(keeps_dictionary: bool) -> None:
    texts = ["a secret" if number in (7, 8) else f"text {number % 40}" for number in range(ROWS)]
    for options in ({}, {"dictionary_pagesize_limit": 60}, {"use_dictionary": False}):
        body = parquet_of(pa.table({"c": texts}), max_rows_per_page=50, compression="none", **options)
        assert b"a secret" in body
        chunk = shorter(body, [number not in (7, 8) for number in range(ROWS)], keeps_dictionary=keeps_dictionary)
        assert chunk is None or b"a secret" not in spliced(body, chunk)
        is_full_dictionary = not options
        assert (chunk is None) == (is_full_dictionary or (keeps_dictionary and "use_dictionary" not in options))


def test_a_dictionary_that_got_full_is_left_out_and_plain_pages_stay() -> None:
    rows = pa.table({"c": pa.array([number * 7919 for number in range(ROWS)])})
    body = parquet_of(rows, max_rows_per_page=50, dictionary_pagesize_limit=800)
    stays = np.ones(ROWS, dtype=bool)
    stays[10:20] = False
    chunk = shorter(body, stays, keeps_dictionary=False)
    assert chunk is not None
    made = spliced(body, chunk)
    assert pages(made)[-3:] == pages(body)[-3:]
    assert not column_chunk(made).has_dictionary_page
    assert not [each for each in column_chunk(made).encodings if "DICTIONARY" in each]
    assert pq.read_table(pa.BufferReader(made)).equals(rows.filter(pa.array(stays)))


def test_a_chunk_of_which_little_would_stay_is_decoded() -> None:
    body = parquet_of(pa.table({"c": [*range(ROWS)]}), max_rows_per_page=50, use_dictionary=False)
    assert shorter(body, np.arange(ROWS) % 60 != 3) is None
    whole = parquet_of(pa.table({"c": [*range(ROWS)]}), use_dictionary=False)
    assert shorter(whole, np.arange(ROWS) != 3) is None


# --- statistics -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gone", [[0, 50], [350, ROWS], [100, 150]], ids=["least", "greatest", "inside"])
@pytest.mark.parametrize("name", ["int32", "string", "decimal", "moment", "bool", "binary"])
def test_bounds_and_nulls_are_those_of_the_rows_that_stay(name: str, gone: list[int]) -> None:
    kind, value = TYPES[name]
    rows = pa.table({"c": pa.array([None if number % 9 == 4 else value(number) for number in range(ROWS)], kind)})
    body = parquet_of(rows, max_rows_per_page=40, use_dictionary=False)
    stays = np.ones(ROWS, dtype=bool)
    stays[slice(*gone)] = False
    chunk = shorter(body, stays)
    assert chunk is not None
    assert_true_statistics(spliced(body, chunk), rows.filter(pa.array(stays))["c"])


def test_floats_get_no_bounds_and_are_all_told() -> None:
    rows = pa.table({"c": [float(number) for number in range(ROWS)]})
    body = parquet_of(rows, max_rows_per_page=50, use_dictionary=False)
    stays = np.arange(ROWS) != 200
    chunk = shorter(body, stays)
    assert chunk is not None
    assert sorted(value for part in chunk.floats for value in part.to_pylist()) == [
        float(number) for number in range(ROWS) if number != 200
    ]
    assert not column_chunk(spliced(body, chunk)).is_stats_set


# --- what is not understood -----------------------------------------------------------------------------------------


def _with_header(body: bytes, number: int, change: Any) -> bytes:
    """The file with a page whose header is changed, to one of as many bytes."""
    found = pages(body)[number]
    header, end = read_struct(found, 0)
    change(header)
    made = bytearray()
    put_struct(made, header)
    assert len(made) == end
    return body.replace(found, bytes(made) + found[end:])


def _count(header: dict[int, Any]) -> None:
    header[5][1][1] = I32, header[5][1][1][1] - 1


def _old_levels(header: dict[int, Any]) -> None:
    header[5][1][3] = I32, 4


def _other_encoding(header: dict[int, Any]) -> None:
    header[5][1][2] = I32, 7


def _kind(header: dict[int, Any]) -> None:
    header[1] = I32, 1


@pytest.mark.parametrize("change", [_count, _old_levels, _other_encoding, _kind])
@pytest.mark.parametrize("number", [0, 3, 7])
def test_a_chunk_with_a_page_that_is_not_understood_is_decoded(change: Any, number: int) -> None:
    body = parquet_of(pa.table({"c": [*range(ROWS)]}), max_rows_per_page=50, use_dictionary=False)
    stays = np.arange(ROWS) != 200
    assert shorter(body, stays) is not None
    assert shorter(_with_header(body, number, change), stays) is None


def test_a_false_bound_or_count_of_nulls_is_found() -> None:
    body = parquet_of(pa.table({"c": [*range(ROWS)]}), max_rows_per_page=50, use_dictionary=False)
    splice = Splice.of(body, len(body))
    assert splice is not None
    metadata, start, length = splice.chunk(0, 0)
    chunk = memoryview(body)[start : start + length]
    stays = np.arange(ROWS) != 200
    for field, value in ((5, (8, (150).to_bytes(8, "little"))), (3, (6, -1)), (3, (6, 400))):
        false = {**metadata, 12: (12, {**metadata[12][1], field: value})}
        assert without_rows(chunk, false, column_of(body), stays, keeps_dictionary=True, wants_floats=False) is None


def test_a_checksum_that_a_page_contradicts_is_told() -> None:
    body = parquet_of(
        pa.table({"c": [*range(ROWS)]}), max_rows_per_page=50, use_dictionary=False, write_page_checksum=True
    )
    stays = np.arange(ROWS) != 200
    chunk = shorter(body, stays)
    assert chunk is not None
    assert all(4 in read_struct(page, 0)[0] for page in pages(spliced(body, chunk)))
    damaged = pages(body)[6]
    with pytest.raises(PageDamaged):
        shorter(body.replace(damaged, damaged[:-1] + bytes([damaged[-1] ^ 1])), stays)


# --- any chunk ------------------------------------------------------------------------------------------------------


def made_of(seed: int) -> bytes | None:
    """A file of one column without some rows, if pages of it stay: any type, encoding, form of pages and rows."""
    chance = random.Random(seed)
    name = chance.choice([*TYPES])
    kind, value = TYPES[name]
    spread, factor, nulls = chance.choice([3, 20, 1000]), chance.choice([1, 7]), chance.choice([0, 3, 17])
    values = [None if nulls and number % nulls == 1 else value(number * factor % spread) for number in range(ROWS)]
    schema = pa.schema([pa.field("c", kind, nullable=nulls > 0 or chance.random() < 0.5)])
    rows = pa.table({"c": pa.array(values, kind)}, schema)
    stays = np.ones(ROWS, dtype=bool)
    for _ in range(chance.randint(1, 3)):
        first = chance.randrange(ROWS)
        stays[first : first + chance.choice([1, 5, 60, 200])] = False
    encoding = chance.choice([None, None, *ENCODINGS.get(name, ["PLAIN"])])
    body = parquet_of(
        rows,
        use_dictionary=encoding is None,
        column_encoding=None if encoding is None else {"c": encoding},
        max_rows_per_page=chance.choice([10, 40]),
        dictionary_pagesize_limit=chance.choice([100, 1 << 20]),
        compression=chance.choice(["none", "snappy", "gzip", "zstd", "lz4", "brotli"]),
        data_page_version=chance.choice(["1.0", "2.0"]),
        write_page_checksum=chance.random() < 0.3,
        write_page_index=chance.random() < 0.3,
        store_schema=False,
    )
    chunk = shorter(body, stays, keeps_dictionary=chance.random() < 0.5)
    if chunk is None:
        return None
    made = spliced(body, chunk)
    left = rows.filter(pa.array(stays))
    assert pq.read_table(pa.BufferReader(made)).equals(left)
    assert_true_statistics(made, left["c"])
    found, at = column_chunk(made), pages(made)
    assert (found.num_values, found.total_compressed_size) == (len(left), sum(map(len, at)))
    assert_forms(made, body)
    assert found.has_dictionary_page == any("DICTIONARY" in each for each in found.encodings)
    assert len({*pages(body)} & {*at}) > 0
    return made


def _encoding_of(header: dict[int, Any]) -> int:
    """DataPageHeader and DictionaryPageHeader have it in field 2, DataPageHeaderV2 in 4."""
    encoding: int = header[8][1][4][1] if 8 in header else header[5 if 5 in header else 7][1][2][1]
    return encoding


def assert_forms(made: bytes, old: bytes) -> None:
    """Where the first data page is, and how many pages of each kind there are, which are kinds of the old chunk."""
    splice = Splice.of(made, len(made))
    assert splice is not None
    metadata, start, length = splice.chunk(0, 0)
    found = [*pages_of(memoryview(made)[start : start + length])]
    (first, *_) = (page.start for page in found if page.data is not None)
    assert metadata[9][1] == start + first
    told = {(each[1][1], each[2][1]): each[3][1] for each in metadata[13][1][1]}
    assert told == Counter((page.header[1][1], _encoding_of(page.header)) for page in found)
    assert {page.header[1][1] for page in found} <= {read_struct(page, 0)[0][1][1] for page in pages(old)}


def by_polars(body: bytes) -> list[Any]:
    return pl.read_parquet(io.BytesIO(body))["c"].to_list()


@given(st.integers(0, 1 << 30))
def test_any_chunk_holds_the_rows_that_stay(seed: int) -> None:
    made = made_of(seed)
    if made is not None:
        assert by_polars(made) == pq.read_table(pa.BufferReader(made))["c"].to_pylist()


@pytest.mark.hunt(part="properties")
def test_many_chunks_hold_the_rows_that_stay_and_most_are_not_decoded(tmp_path: Path) -> None:
    made = [*filter(None, map(made_of, range(2000)))]
    assert len(made) > 1000
    for number, body in enumerate(made):
        path = tmp_path / f"{number}.parquet"
        path.write_bytes(body)
        expected = pq.read_table(path)["c"]
        assert by_polars(body) == expected.to_pylist()
        found = duckdb.sql(f"FROM '{path}'").to_arrow_table()["c"]
        assert found.cast(expected.type).to_pylist() == expected.to_pylist()
