"""The settings of data files: properties and arguments, and the files that every writer makes of them."""

from __future__ import annotations

import decimal
import inspect
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import orjson
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import txlog
from txlog.core.format.actions import Metadata, Protocol
from txlog.core.format.schema import from_arrow, schema_to_json
from txlog.core.writing._data_file import ColumnSettings, ParquetSettings
from txlog.core.writing._write_plan import WritePlan
from txlog.errors import InvalidInputError

PLAIN = Protocol(1, 2)
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("x", pa.float64()),
        ("ok", pa.bool_()),
        ("tags", pa.list_(pa.string())),
        ("at", pa.struct([("Day", pa.date32())])),
    ]
)
CAN_FILTER = "bloom_filter_options" in inspect.signature(pq.ParquetWriter.__init__).parameters


def rows(count: int = 5_000) -> pa.Table:
    numbers = range(count)
    return pa.table(
        {
            "id": numbers,
            "name": [f"name {number}" for number in numbers],
            "x": [number / 7 for number in numbers],
            "ok": [number % 2 == 0 for number in numbers],
            "tags": [[f"tag {number}"] for number in numbers],
            "at": [{"Day": number % 7} for number in numbers],
        },
        SCHEMA,
    )


def made(path: Path, **properties: str) -> txlog.Table:
    named = {key.replace("__", "#").replace("_", "."): value for key, value in properties.items()}
    return txlog.Table.create(str(path), SCHEMA, properties=named)


def metadata_with(properties: dict[str, str]) -> Metadata:
    return Metadata("t", schema_to_json(from_arrow(SCHEMA)), (), properties, {})


def footers(table: txlog.Table, folder: str = "") -> list[pq.FileMetaData]:
    if folder:
        return [pq.read_metadata(path) for path in sorted((Path(table.uri) / folder).rglob("*.parquet"))]
    return [pq.read_metadata(Path(table.uri) / path) for path in table.files()["path"].to_pylist()]


def column(footer: pq.FileMetaData, path: str) -> Any:
    group = footer.row_group(0)
    return next(each for each in map(group.column, range(footer.num_columns)) if each.path_in_schema == path)


def test_settings_of_a_table_are_read_once_into_one_value() -> None:
    properties = {
        "parquet.compression": "gzip",
        "parquet.compression.codec.gzip.level": "9",
        "parquet.block.size": "1000000",
        "parquet.page.size": "8192",
        "parquet.enable.dictionary": "false",
        "parquet.enable.dictionary#Name": "true",
        "parquet.bloom.filter.expected.ndv#id": "100",
        "parquet.page.row.count.limit": "many",
        "parquet.validation": "true",
    }
    metadata = metadata_with(properties)
    expected = ParquetSettings(
        codec="gzip",
        level=9,
        row_group_bytes=1_000_000,
        page_bytes=8192,
        dictionary=False,
        columns=(ColumnSettings("id", bloom_filter=True, distinct_values=100), ColumnSettings("name", dictionary=True)),
    )
    assert WritePlan.of(metadata, PLAIN, table="t").parquet == expected
    assert WritePlan.of(metadata, PLAIN, table="t", parquet={"parquet.compression": "none"}).parquet.codec == "none"


def test_files_of_appends_have_the_settings_of_the_table(tmp_path: Path) -> None:
    table = made(
        tmp_path,
        parquet_compression="zstd",
        parquet_block_row_count_limit="1000",
        parquet_enable_dictionary="false",
        parquet_enable_dictionary__id="true",
        txlog_parquet_encoding__x="BYTE_STREAM_SPLIT",
        txlog_parquet_encoding__name="DELTA_BYTE_ARRAY",
    )
    table.append(rows())
    (footer,) = footers(table)
    assert [footer.row_group(at).num_rows for at in range(footer.num_row_groups)] == [1000] * 5
    assert column(footer, "id").compression == "ZSTD"
    assert "RLE_DICTIONARY" in column(footer, "id").encodings
    assert "RLE_DICTIONARY" not in column(footer, "at.Day").encodings
    assert "BYTE_STREAM_SPLIT" in column(footer, "x").encodings
    assert "DELTA_BYTE_ARRAY" in column(footer, "name").encodings
    assert table.to_arrow().sort_by("id").equals(rows())
    assert table.files()["path"][0].as_py().endswith(".zstd.parquet")


SUMS = [decimal.Decimal(number).scaleb(-2) for number in (-999, -1, 0, 1, 50_000)]


def test_decimals_of_up_to_18_digits_are_integers_in_files_as_spark_writes_them(tmp_path: Path) -> None:
    kinds = {f"d{digits}": pa.decimal128(digits, 2) for digits in (9, 10, 18, 19)}
    data = pa.table({name: pa.array([*SUMS, None], kind) for name, kind in kinds.items()})
    data = data.append_column("many", pa.array([[each] for each in SUMS] + [None], pa.list_(kinds["d9"])))
    table = txlog.Table.create(tmp_path, data.schema, properties={"txlog.parquet.encoding#d10": "DELTA_BINARY_PACKED"})
    table.append(data)
    (footer,) = footers(table)
    leaves = map(footer.row_group(0).column, range(footer.num_columns))
    assert [each.physical_type for each in leaves] == ["INT32", "INT64", "INT64", "FIXED_LEN_BYTE_ARRAY", "INT32"]
    assert "DELTA_BINARY_PACKED" in column(footer, "d10").encodings
    assert table.to_arrow().equals(data)
    (stats,) = map(orjson.loads, table._open_table.log.files(table.snapshot()._state).column("stats").to_pylist())
    assert {*stats["minValues"].values()} == {-9.99}
    assert {*stats["maxValues"].values()} == {500}
    least, most = "min(d9), min(d10), min(d18), min(d19)", "max(d9), max(d10), max(d18), max(d19)"
    (found,) = duckdb.sql(f"SELECT {least}, {most} FROM read_parquet('{tmp_path}/*.parquet')").fetchall()
    assert found == (*[SUMS[0]] * 4, *[SUMS[-1]] * 4)
    assert [table.count(f"d{digits} > 0") for digits in (9, 10, 18, 19)] == [2] * 4
    assert pl.scan_delta(str(tmp_path)).select("d9", "d18").collect().to_arrow().column("d18").to_pylist() == [
        *SUMS,
        None,
    ]


def test_deletes_change_files_optimize_and_sinks_obey_the_same_properties(tmp_path: Path) -> None:
    table = made(tmp_path, parquet_compression="gzip", delta_enableChangeDataFeed="true")
    table.append(rows())
    table.delete("id < 10", row_mode="copy-on-write")
    assert {column(each, "id").compression for each in footers(table)} == {"GZIP"}
    assert {column(each, "id").compression for each in footers(table, "_change_data")} == {"GZIP"}
    sink = txlog.Sink(table, app_id="a")
    with sink.task(checkpoint_id=1, task_id=0) as task:
        task.write(rows(3))
    sink.commit(1, [task.committable])
    table.set_properties({"parquet.compression": "brotli"})
    table.upsert(rows(2), keys=["id"])
    table.optimize()
    assert {column(each, "id").compression for each in footers(table)} == {"BROTLI"}


def test_arguments_of_one_write_win_over_the_properties(tmp_path: Path) -> None:
    table = made(tmp_path, parquet_compression="gzip", delta_parquet_compression_codec="zstd")
    table.append(rows(), parquet={"parquet.compression": "none", "parquet.page.size": 1024})
    plain = footers(table)[0]
    table.overwrite(rows())
    assert column(plain, "id").compression == "UNCOMPRESSED"
    assert column(footers(table)[0], "id").compression == "ZSTD"
    table.append(rows(3))
    table.optimize(parquet={"parquet.compression": "lz4"})
    assert column(footers(table)[0], "id").compression == "LZ4"
    assert table.properties["delta.parquet.compression.codec"] == "zstd"
    txlog.write(str(tmp_path / "new"), rows(), parquet={"parquet.compression": "gzip"})
    new = txlog.Table.open(str(tmp_path / "new"))
    assert column(footers(new)[0], "id").compression == "GZIP"
    assert not new.properties


def test_levels_pages_and_row_groups_change_what_is_written(tmp_path: Path) -> None:
    def written(**parquet: object) -> pq.FileMetaData:
        table = made(tmp_path / str(len(list(tmp_path.iterdir()))))
        table.append(rows(), parquet={key.replace("_", "."): value for key, value in parquet.items()})
        return footers(table)[0]

    low = written(parquet_compression="zstd", parquet_compression_codec_zstd_level=1)
    high = written(parquet_compression="zstd", parquet_compression_codec_zstd_level=22)
    assert column(high, "name").total_compressed_size != column(low, "name").total_compressed_size
    assert written(parquet_block_size=100_000).num_row_groups > 1
    usual = column(written(), "name").total_uncompressed_size
    assert column(written(parquet_page_size=256), "name").total_uncompressed_size > usual
    if "max_rows_per_page" in inspect.signature(pq.ParquetWriter.__init__).parameters:
        assert column(written(parquet_page_row_count_limit=10), "name").total_uncompressed_size > usual


@pytest.mark.skipif(not CAN_FILTER, reason="this pyarrow writes no bloom filters")
def test_bloom_filters_are_written_for_the_columns_that_ask_for_them(tmp_path: Path) -> None:
    table = made(tmp_path, parquet_bloom_filter_enabled="true", parquet_bloom_filter_enabled__tags="false")
    table.append(rows())
    (footer,) = footers(table)
    has_filter = {
        column.path_in_schema: column.bloom_filter_offset is not None
        for column in map(footer.row_group(0).column, range(footer.num_columns))
    }
    assert has_filter == {
        "id": True, "name": True, "x": True, "ok": False, "tags.list.element": False, "at.Day": True
    }  # fmt: skip
    assert column(footer, "id").bloom_filter_length < 20_000, "a filter is sized for the rows of a row group"


def test_settings_follow_a_renamed_column_and_leave_with_a_dropped_one(tmp_path: Path) -> None:
    table = made(
        tmp_path,
        delta_columnMapping_mode="name",
        parquet_enable_dictionary__at_day="true",
        txlog_parquet_encoding__x="BYTE_STREAM_SPLIT",
        parquet_compression="zstd",
    )
    table.rename_column("at", "when")
    table.rename_column("x", "y")
    assert "parquet.enable.dictionary#when.day" in table.properties
    table.append(rows().rename_columns(["id", "name", "y", "ok", "tags", "when"]))
    (footer,) = footers(table)
    group = footer.row_group(0)
    encodings = [set(group.column(at).encodings) for at in range(footer.num_columns)]
    assert "BYTE_STREAM_SPLIT" in encodings[2], "the file has the physical name of the column"
    table.drop_columns(["when", "y"])
    assert {key for key in table.properties if "parquet" in key} == {"parquet.compression"}


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("parquet.compression", "zip", "zstd"),
        ("parquet.page.size", "1mb", "an integer from 1"),
        ("parquet.compression.codec.zstd.level", "23", "from 1 to 22"),
        ("parquet.bloom.filter.fpp#id", "2", "between 0 and 1"),
        ("parquet.bloom.filter.fpp", "0.1", "needs a column"),
        ("parquet.page.size#id", "1", "not for single columns"),
        ("parquet.blok.size", "1", "did you mean 'parquet.block.size'"),
        ("parquet.compression.codec", "zstd", "did you mean 'delta.parquet.compression.codec'"),
        ("parquet.enable.dictionary#nope", "true", "not a data column"),
        ("txlog.parquet.encoding#id", "DELTA_BYTE_ARRAY", "PLAIN or DELTA_BINARY_PACKED or BYTE_STREAM_SPLIT"),
        ("txlog.parquet.encoding#id", "zip", "DELTA_BINARY_PACKED"),
    ],
)
def test_a_bad_setting_is_refused_before_anything_is_written(
    tmp_path: Path, key: str, value: str, problem: str
) -> None:
    table = made(tmp_path / "t")
    with pytest.raises(InvalidInputError, match=problem):
        table.set_properties({key: value})
    with pytest.raises(InvalidInputError, match=problem):
        table.append(rows(1), parquet={key: value})
    with pytest.raises(InvalidInputError, match=problem):
        table.optimize(parquet={key: value})
    with pytest.raises(InvalidInputError, match=problem):
        txlog.Table.create(str(tmp_path / "u"), SCHEMA, properties={key: value})
    assert table.version == 0


def test_other_settings_of_parquet_java_are_kept_but_are_no_arguments(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.set_properties({"parquet.validation": "true"})
    table.append(rows(1))
    with pytest.raises(InvalidInputError, match=r"'parquet.validation', which is not a setting of data files"):
        table.append(rows(1), parquet={"parquet.validation": "true"})
    with pytest.raises(InvalidInputError, match="'use_dictionary', which is not a setting of data files"):
        table.append(rows(1), parquet={"use_dictionary": ["id"]})  # type: ignore[dict-item]
    with pytest.raises(InvalidInputError, match="a mapping"):
        table.append(rows(1), parquet="zstd")  # type: ignore[arg-type]


def test_a_setting_that_another_engine_made_for_a_missing_column_is_ignored() -> None:
    properties = {"parquet.bloom.filter.enabled#gone": "true", "parquet.block.size": "128mb"}
    metadata = metadata_with(properties)
    assert WritePlan.of(metadata, PLAIN, table="t").parquet.row_group_bytes is None


def test_a_row_change_encodes_its_new_files_as_it_is_told(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.append(rows())
    gzip = {"parquet.compression": "gzip"}

    def codecs() -> set[str]:
        return {column(each, "id").compression for each in footers(table)}

    table.update({"x": txlog.expr("x + 1")}, "id < 10", parquet=gzip)
    assert codecs() == {"GZIP"}
    with ThreadPoolExecutor(2) as workers:
        table.delete("id < 5", parquet={"parquet.compression": "zstd"}, workers=workers)
    assert codecs() == {"ZSTD"}
    table.upsert(rows(), "id", parquet=gzip)
    assert codecs() == {"GZIP"}
    merge = table.merge(rows(), ["id"], parquet={"parquet.compression": "zstd"})
    merge.when_matched_update_all().execute()
    assert codecs() == {"ZSTD"}
    with pytest.raises(txlog.InvalidInputError, match="which is not a data column of the table"):
        table.delete("id = 7", parquet={"parquet.enable.dictionary#gone": "true"})
