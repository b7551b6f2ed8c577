"""Files of passed-on and new column chunks: pyarrow, DuckDB and Polars read the rows that each chunk is to have."""

from __future__ import annotations

import datetime
import decimal
import inspect
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.parquet_bytes import altered, chunk_of, parquet_of
from txlog.core.format.arrow.parquet_footer import check_footer
from txlog.core.format.arrow.parquet_splice import MAGIC, Splice, footer_of, state_of

CAN_FILTER = "bloom_filter_options" in inspect.signature(pq.ParquetWriter.__init__).parameters
CODECS = ["none", "snappy", "gzip", "zstd", "lz4", "brotli"]
TYPES = [
    pa.int8(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.bool_(),
    pa.string(),
    pa.binary(),
    pa.date32(),
    pa.timestamp("us", "UTC"),
    pa.timestamp("us"),
    pa.decimal128(12, 3),
    pa.list_(pa.int32()),
    pa.map_(pa.string(), pa.int64()),
    pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string())), ("c", pa.struct([("d", pa.float64())]))]),
]


def value(kind: pa.DataType, seed: int) -> Any:
    """A value of any type, or None; equal seeds give equal values, and few of them differ."""
    types = pa.types
    if seed % 5 == 0:
        return None
    if types.is_struct(kind):
        return {member.name: value(member.type, seed + at + 1) for at, member in enumerate(kind)}
    if types.is_map(kind):
        return [(f"k{at}", value(kind.item_type, seed + at)) for at in range(seed % 3)]
    if types.is_list(kind):
        return [value(kind.value_type, seed + at) for at in range(seed % 4)]
    if types.is_string(kind):
        return f"text {seed % 7}"
    if types.is_binary(kind):
        return bytes([seed % 256]) * (seed % 4)
    if types.is_boolean(kind):
        return seed % 2 == 0
    if types.is_date(kind):
        return datetime.date(1970, 1, 1) + datetime.timedelta(seed)
    if types.is_timestamp(kind):
        zone = datetime.timezone.utc if kind.tz else None
        return datetime.datetime(2000, 1, 1, tzinfo=zone) + datetime.timedelta(seconds=seed)
    if types.is_decimal(kind):
        return decimal.Decimal(seed) / 1000
    return seed % 100 if types.is_integer(kind) else seed / 4


def rows_of(schema: pa.Schema, count: int, seed: int) -> pa.Table:
    columns = [
        pa.array([value(field.type, (row * 7 + seed) * (at + 1)) for row in range(count)], field.type)
        for at, field in enumerate(schema)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def spliced(old: bytes, plan: Sequence[tuple[int, pa.Table | None]], **options: Any) -> bytes:
    """The file with, in this order, row groups of ``old``, some of them with other rows in all columns or in some."""
    splice = Splice.of(old, len(old))
    assert splice is not None
    body = bytearray(MAGIC)
    for group, rows in plan:
        new = b"" if rows is None else parquet_of(rows, row_group_size=max(len(rows), 1), store_schema=False, **options)
        if rows is None:
            pieces = splice.pass_on(group)
        else:
            footer = footer_of(new)
            assert footer is not None
            columns = [path.split(".")[0] for path in _paths(old)]
            leaves = [leaf for leaf, name in enumerate(columns) if name in rows.column_names]
            pieces = splice.replace(group, [(footer, leaves)])
        for is_old, start, length, num_values in pieces:
            part = (old if is_old else new)[start : start + length]
            assert num_values is None or state_of(memoryview(part), num_values) == "whole"
            body += part
    end = splice.finish()
    made = bytes(body + end)
    check_footer(made, pq.read_metadata(pa.BufferReader(MAGIC + end)))
    return made


def _paths(body: bytes) -> list[str]:
    schema = pq.read_metadata(pa.BufferReader(body)).schema
    return [schema.column(at).path for at in range(len(schema))]


@st.composite
def cases(draw: st.DrawFn) -> tuple[pa.Schema, list[int], list[tuple[int, str, int]], dict[str, Any], dict[str, Any]]:
    """A schema, the sizes of row groups, what becomes of each, and the settings of the old and of the new chunks."""
    kinds = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=6))
    schema = pa.schema([pa.field(f"c{at}", kind) for at, kind in enumerate(kinds)])
    sizes = draw(st.lists(st.integers(1, 60), min_size=1, max_size=18))
    what = st.sampled_from(["pass", "columns", "whole", "leave"])
    plan = [(group, draw(what), draw(st.integers(1, 2 ** len(kinds) - 1))) for group in range(len(sizes))]

    def settings() -> dict[str, Any]:
        return {
            "compression": draw(st.sampled_from(CODECS)),
            "use_dictionary": draw(st.booleans()),
            "data_page_version": draw(st.sampled_from(["1.0", "2.0"])),
            "data_page_size": draw(st.sampled_from([64, 1 << 20])),
            "write_page_index": draw(st.booleans()),
            "write_page_checksum": draw(st.booleans()),
            "write_statistics": draw(st.booleans()),
        }

    return schema, sizes, plan, settings(), settings()


@given(cases())
def test_each_row_group_is_passed_on_or_replaced_in_all_columns_or_in_some_or_left_out(case: Any) -> None:
    schema, sizes, plan, old_settings, new_settings = case
    groups = [rows_of(schema, size, 31 * at) for at, size in enumerate(sizes)]
    body = io.BytesIO()
    with pq.ParquetWriter(body, schema, store_schema=sizes[0] % 2 == 0, **old_settings) as writer:
        for group in groups:
            writer.write_table(group)
    wanted = [schema.empty_table()]
    steps: list[tuple[int, pa.Table | None]] = []
    for group, what, columns in plan:
        rows = groups[group]
        names = [name for at, name in enumerate(schema.names) if columns >> at & 1]
        if what == "pass":
            steps.append((group, None))
            wanted.append(rows)
        elif what == "columns":
            new = rows_of(schema, sizes[group], 1000 + group)
            steps.append((group, new.select(names)))
            for name in names:
                rows = rows.set_column(schema.get_field_index(name), schema.field(name), new[name])
            wanted.append(rows)
        elif what == "whole":
            new = rows.filter(pa.array([row % 3 != group % 3 for row in range(len(rows))]))
            steps.append((group, new))
            wanted.append(new)
    made = spliced(body.getvalue(), steps, **new_settings)
    expected = pa.concat_tables(wanted)
    assert pq.read_table(pa.BufferReader(made)).cast(schema).equals(expected)
    assert pq.read_metadata(pa.BufferReader(made)).num_rows == len(expected)
    assert pl.read_parquet(io.BytesIO(made)).equals(pl.from_arrow(expected))


def nested(count: int, seed: int = 0) -> pa.Table:
    return rows_of(pa.schema([pa.field(f"c{at}", kind) for at, kind in enumerate(TYPES)]), count, seed)


def test_the_elements_of_a_list_keep_their_name_in_the_file() -> None:
    old = parquet_of(nested(20), use_compliant_nested_type=False)
    made = spliced(old, [(0, nested(20, 3).select(["c12"]))])
    assert "c12.list.item" in _paths(made)
    assert pq.read_table(pa.BufferReader(made))["c12"].to_pylist() == nested(20, 3)["c12"].to_pylist()


def test_duckdb_reads_a_file_of_passed_on_and_new_chunks(tmp_path: Path) -> None:
    rows, other = nested(300), nested(100, 5)
    old = parquet_of(rows, row_group_size=100, write_page_index=True)
    names = ["c1", "c6", "c12", "c14"]
    (tmp_path / "t.parquet").write_bytes(spliced(old, [(0, None), (1, other.select(names)), (2, other.slice(0, 40))]))
    middle = rows.slice(100, 100)
    for name in names:
        middle = middle.set_column(middle.schema.get_field_index(name), middle.schema.field(name), other[name])
    expected = pa.concat_tables([rows.slice(0, 100), middle, other.slice(0, 40)])
    found = duckdb.sql(f"FROM '{tmp_path}/t.parquet'").to_arrow_table()
    assert found.cast(expected.schema).to_pylist() == expected.to_pylist()


def test_pages_that_end_early_hold_too_few_values_or_contradict_their_checksum_are_told() -> None:
    old = parquet_of(
        pa.table({"k": [*range(1000)]}), data_page_size=800, write_page_checksum=True, use_dictionary=False
    )
    splice = Splice.of(old, len(old))
    assert splice is not None
    (piece,) = splice.pass_on(0)
    chunk = old[piece.start : piece.start + piece.length]
    assert state_of(memoryview(chunk), 1000) == "whole"
    assert state_of(memoryview(chunk), 999) == "unclear"
    assert state_of(memoryview(chunk[:-1]), 1000) == "unclear"
    assert state_of(memoryview(b"\xff" * 40 + chunk[40:]), 1000) == "unclear"
    flipped = chunk[:-9] + bytes([chunk[-9] ^ 1]) + chunk[-8:]
    assert state_of(memoryview(flipped), 1000) == "damaged"


@pytest.mark.skipif(not CAN_FILTER, reason="this pyarrow writes no bloom filters")
def test_bloom_filters_are_passed_on_and_page_indexes_left_out(tmp_path: Path) -> None:
    rows = pa.table({"k": range(4000), "x": [1.5] * 4000})
    old = parquet_of(rows, row_group_size=1000, bloom_filter_options={"k": {"ndv": 1000}}, write_page_index=True)
    new = pa.table({"x": [2.5] * 1000})
    path = tmp_path / "t.parquet"
    path.write_bytes(spliced(old, [(1, None), (2, new), (3, None)]))
    chunk = pq.read_metadata(path).row_group(0).column(0)
    assert (chunk.has_column_index, chunk.has_offset_index) == (False, False)
    probe = "SELECT bloom_filter_excludes FROM parquet_bloom_probe(?, 'k', ?)"
    for key, excluded in ((1500, [False, True, True]), (2500, [True, False, True]), (500, [True, True, True])):
        found = [row[0] for row in duckdb.execute(probe, [str(path), key]).fetchall()]
        assert sum(found) >= sum(excluded) - 1  # a filter may be wrong once in a hundred
        assert not any(is_out and not wanted for is_out, wanted in zip(found, excluded, strict=True))


def test_pairs_of_the_footer_that_may_count_rows_are_left_out() -> None:
    rows = pa.table({"k": [1, 2]}).replace_schema_metadata({"pandas": "{}", "org.apache.spark.version": "3.5.0"})
    pairs = pq.read_metadata(pa.BufferReader(spliced(parquet_of(rows), [(0, None)]))).metadata
    assert {*pairs} == {b"ARROW:schema", b"org.apache.spark.version"}


def _far(footer: dict[int, Any]) -> None:
    chunk_of(footer, 0, 0)[7] = 6, 1 << 40


def _in_another_chunk(footer: dict[int, Any]) -> None:
    chunk_of(footer, 1, 0)[9] = chunk_of(footer, 0, 0)[9]
    chunk_of(footer, 1, 0).pop(11, None)


def _elsewhere(footer: dict[int, Any]) -> None:
    footer[4][1][1][0][1][1][1][0][1] = 8, b"other.parquet"


def _encrypted(footer: dict[int, Any]) -> None:
    footer[4][1][1][0][1][1][1][0][9] = 8, b"secret"


def _short_chunks(footer: dict[int, Any]) -> None:
    footer[6] = 8, b"parquet-mr version 1.2.8 (build 1)"


@pytest.mark.parametrize("change", [_far, _in_another_chunk, _elsewhere, _encrypted, _short_chunks])
def test_a_footer_that_does_not_say_where_all_bytes_are_is_refused(change: Callable[[dict[int, Any]], None]) -> None:
    body = altered(parquet_of(pa.table({"a": [1, 2], "b": ["x", "y"]})), change)
    assert Splice.of(body, len(body)) is None


def test_a_footer_that_would_be_encoded_in_other_bytes_is_refused() -> None:
    body = parquet_of(pa.table({"a": [1, 2]}))
    size = int.from_bytes(body[-8:-4], "little")
    footer = body[-8 - size : -8]
    assert footer[0] == 0x15, "field 1 is an i32"
    longer = b"\x05\x02" + footer[1:]  # the same field with its number written out
    for other in (longer, footer + b"\0"):
        changed = body[: -8 - size] + other + len(other).to_bytes(4, "little") + MAGIC
        assert Splice.of(changed, len(changed)) is None
    assert Splice.of(body[:-4] + b"PARE", len(body)) is None
