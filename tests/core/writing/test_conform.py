"""The strict schema rule: which data a table takes, what is converted, and how a refusal reads."""

from __future__ import annotations

import datetime
import re
import uuid
from decimal import Decimal as D
from typing import Any

import duckdb
import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from txlog.core.format.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Array,
    DataType,
    Decimal,
    Field,
    Map,
    Struct,
    to_arrow,
    type_to_arrow,
)
from txlog.core.writing._conform import Conformer
from txlog.core.writing._input import open_data
from txlog.errors import InvalidInputError, SchemaMismatchError

UTC = datetime.timezone.utc


def table_of(*fields: Field) -> Struct:
    return Struct(fields)


def conformed(schema: Struct, data: Any, **where: Any) -> pa.Table:
    stream = open_data(data)
    conformer = Conformer(schema, stream.schema, **where)
    batches = [conformer.conform(batch) for batch in stream.batches]
    for batch in batches:
        batch.validate(full=True)
        assert batch.schema == to_arrow(schema)
    return pa.Table.from_batches(batches, to_arrow(schema))


def one_column(target: DataType, values: pa.Array, *, nullable: bool = True) -> list[Any]:
    found: list[Any] = conformed(table_of(Field("c", target, nullable)), pa.table({"c": values}))["c"].to_pylist()
    return found


# --- conversions that lose nothing ------------------------------------------------------------------------------

MICROS = [0, 1_700_000_000_123_456, -1]
MOMENTS = [datetime.datetime(1970, 1, 1, tzinfo=UTC) + datetime.timedelta(microseconds=value) for value in MICROS]
DAYS = [datetime.date(1970, 1, 1), datetime.date(1970, 1, 2)]
BEFORE_EPOCH = [MOMENTS[0] - datetime.timedelta(seconds=5)]

UUIDS = pa.array([uuid.UUID(int=1).bytes, None, uuid.UUID(int=2**127 + 5).bytes], pa.binary(16)).cast(pa.uuid())

HALVES = pa.array(np.array([1.5, 0], np.float16), mask=np.array([False, True]))

LOSSLESS = [
    pytest.param(STRING, pa.array(["a", None, "é"], pa.large_string()), ["a", None, "é"], id="large-string"),
    pytest.param(STRING, pa.array(["a", None, "x" * 40], pa.string_view()), ["a", None, "x" * 40], id="string-view"),
    pytest.param(STRING, pa.array(["a", None, "a"]).dictionary_encode(), ["a", None, "a"], id="dictionary"),
    pytest.param(
        STRING,
        pa.DictionaryArray.from_arrays(pa.array([1, None, 0], pa.uint32()), pa.array(["a", "b"], pa.string_view())),
        ["b", None, "a"],
        id="dictionary-of-views",
    ),
    pytest.param(STRING, pa.RunEndEncodedArray.from_arrays([2, 3], ["a", "b"]), ["a", "a", "b"], id="run-ends"),
    pytest.param(STRING, pa.array(["{}"]).cast(pa.json_()), ["{}"], id="json-extension"),
    pytest.param(STRING, UUIDS, [str(uuid.UUID(int=1)), None, str(uuid.UUID(int=2**127 + 5))], id="uuid-to-string"),
    pytest.param(BINARY, UUIDS, [uuid.UUID(int=1).bytes, None, uuid.UUID(int=2**127 + 5).bytes], id="uuid-to-binary"),
    pytest.param(STRING, pa.nulls(2, pa.uuid()), [None, None], id="uuids-of-nulls"),
    pytest.param(STRING, UUIDS.slice(0, 0), [], id="no-uuids"),
    pytest.param(STRING, pa.nulls(2), [None, None], id="null-type"),
    pytest.param(BINARY, pa.array([b"a", None], pa.binary_view()), [b"a", None], id="binary-view"),
    pytest.param(BINARY, pa.array([b"a", None], pa.large_binary()), [b"a", None], id="large-binary"),
    pytest.param(BINARY, pa.array([b"ab", None], pa.binary(2)), [b"ab", None], id="fixed-binary"),
    pytest.param(BYTE, pa.array([127, -128, None]), [127, -128, None], id="int64-to-byte"),
    pytest.param(SHORT, pa.array([0, 255], pa.uint8()), [0, 255], id="uint8-to-short"),
    pytest.param(INTEGER, pa.array([5, None], pa.uint32()), [5, None], id="uint32-to-int"),
    pytest.param(INTEGER, pa.array([5, None], pa.uint32()).dictionary_encode(), [5, None], id="dictionary-of-ints"),
    pytest.param(LONG, pa.array([2**63 - 1], pa.uint64()), [2**63 - 1], id="uint64-to-long"),
    pytest.param(Decimal(20, 0), pa.array([2**64 - 1], pa.uint64()), [D(2**64 - 1)], id="uint64-to-decimal"),
    pytest.param(Decimal(5, 2), pa.array([999, -7, None]), [D("999.00"), D("-7.00"), None], id="int64-to-decimal"),
    pytest.param(Decimal(38, 30), pa.array([99_999_999]), [D(99_999_999)], id="int64-to-a-decimal-of-scale-30"),
    pytest.param(Decimal(12, 4), pa.array([D("1.25"), None]), [D("1.2500"), None], id="decimal-to-wider"),
    pytest.param(Decimal(12, 4), pa.array([D("1.25")], pa.decimal256(5, 2)), [D("1.2500")], id="decimal256"),
    pytest.param(DOUBLE, pa.array([0.1, None], pa.float32()), [float(np.float32(0.1)), None], id="float-to-double"),
    pytest.param(FLOAT, HALVES, [1.5, None], id="half-to-float"),
    pytest.param(DOUBLE, pa.array([2**53, -3]), [2.0**53, -3.0], id="int64-to-double"),
    pytest.param(DATE, pa.array([0, 86_400_000], pa.date64()), DAYS, id="date64"),
    pytest.param(TIMESTAMP, pa.array(MICROS, pa.timestamp("us", "Europe/Paris")), MOMENTS, id="another-zone"),
    pytest.param(TIMESTAMP, pa.array([v * 1000 for v in MICROS], pa.timestamp("ns", "UTC")), MOMENTS, id="exact-ns"),
    pytest.param(TIMESTAMP, pa.array([-5], pa.timestamp("s", "+02:00")), BEFORE_EPOCH, id="seconds"),
    pytest.param(
        TIMESTAMP_NTZ, pa.array([1], pa.timestamp("ms")), [datetime.datetime(1970, 1, 1, 0, 0, 0, 1000)], id="ms-ntz"
    ),
    pytest.param(BOOLEAN, pa.array([True, None]), [True, None], id="boolean"),
]  # fmt: skip


@pytest.mark.parametrize(("target", "values", "expected"), LOSSLESS)
def test_a_lossless_conversion_is_made(target: DataType, values: pa.Array, expected: list[Any]) -> None:
    assert one_column(target, values) == expected


@pytest.mark.parametrize(("target", "values", "expected"), LOSSLESS)
def test_the_same_conversion_is_made_of_a_slice_and_inside_lists_and_structs(
    target: DataType, values: pa.Array, expected: list[Any]
) -> None:
    padded = pa.concat_arrays([values, values]) if not pa.types.is_run_end_encoded(values.type) else values
    assert one_column(target, padded.slice(1)) == [*expected, *expected][1 : len(padded)]
    size = len(values)
    lists = pa.LargeListArray.from_arrays(pa.array([0, size, size], pa.int64()), values)
    assert one_column(Array(target), lists) == [expected, []]
    members = pa.StructArray.from_arrays([values], names=["M"])
    assert one_column(Struct((Field("m", target),)), members) == [{"m": value} for value in expected]


LISTS = [[1, 2], None, [], [3, None]]


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(pa.list_(pa.int64()), id="list"),
        pytest.param(pa.large_list(pa.int16()), id="large-list"),
        pytest.param(pa.list_view(pa.int64()), id="list-view"),
        pytest.param(pa.large_list_view(pa.int32()), id="large-list-view"),
    ],
)
@pytest.mark.parametrize("element", [LONG, INTEGER])
def test_every_kind_of_list_becomes_a_list(source: pa.DataType, element: DataType) -> None:
    values = pa.array([[9], *LISTS], source)
    assert one_column(Array(element), values.slice(1)) == LISTS


def test_a_list_view_whose_lists_are_out_of_order_keeps_them() -> None:
    views = pa.ListViewArray.from_arrays([3, 0, 1], [2, 0, 1], pa.array([1, 2, 3, 4, 5]))
    assert one_column(Array(LONG), views) == [[4, 5], [], [2]]


def test_a_fixed_size_list_becomes_a_list() -> None:
    assert one_column(Array(INTEGER), pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int64(), 2))) == [
        [1, 2],
        None,
        [3, 4],
    ]


MAPS = [[("a", 1), ("b", None)], None, []]


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(pa.array([[("z", 9)], *MAPS], pa.map_(pa.string(), pa.int64())), id="map"),
        pytest.param(pa.array([[("z", 9)], *MAPS], pa.map_(pa.large_string(), pa.int8())), id="map-of-other-types"),
        pytest.param(
            pa.array(
                [None if m is None else [{"key": k, "value": v} for k, v in m] for m in [[("z", 9)], *MAPS]],
                pa.large_list(pa.struct({"key": pa.string_view(), "value": pa.int64()})),
            ),
            id="list-of-entries-as-polars-exports-it",
        ),
    ],
)
@pytest.mark.parametrize("value", [LONG, INTEGER])
def test_every_kind_of_map_becomes_a_map(values: pa.Array, value: DataType) -> None:
    assert one_column(Map(STRING, value), values.slice(1)) == MAPS


# --- what only rows can show ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "values", "row", "shown"),
    [
        pytest.param(BYTE, pa.array([1, None, 300]), 2, "300", id="out-of-range"),
        pytest.param(LONG, pa.array([0, 2**63], pa.uint64()), 1, str(2**63), id="uint64"),
        pytest.param(INTEGER, pa.array([-1, 2**31, 5]), 1, str(2**31), id="int64"),
        pytest.param(DOUBLE, pa.array([2**53 + 1]), 0, str(2**53 + 1), id="int-to-double"),
        pytest.param(FLOAT, pa.array([1, 2**24 + 1]), 1, str(2**24 + 1), id="int-to-float"),
        pytest.param(Decimal(5, 2), pa.array([999, 1000]), 1, "1000", id="int-to-decimal"),
        pytest.param(TIMESTAMP_NTZ, pa.array([1000, 1001], pa.timestamp("ns")), 1, ".000001001", id="nanoseconds"),
        pytest.param(TIMESTAMP, pa.array([0, 2**62], pa.timestamp("s", "UTC")), 1, "", id="far-timestamp"),
        pytest.param(DATE, pa.array([0, 1], pa.date64()), 1, "1970-01-01", id="part-of-a-day"),
    ],
)
def test_a_value_that_does_not_fit_is_named_with_its_column_and_row(
    target: DataType, values: pa.Array, row: int, shown: str
) -> None:
    schema = table_of(Field("c", target))
    conformer = Conformer(schema, pa.schema({"c": values.type}), table="s3://b/t")
    with pytest.raises(InvalidInputError) as caught:
        conformer.conform(pa.record_batch({"c": values}), first_row=100)
    message = str(caught.value)
    assert message.startswith("s3://b/t: column c has ")
    assert shown in message
    assert f"(row {100 + row}," in message


@pytest.mark.parametrize(
    ("field", "values", "row", "column"),
    [
        pytest.param(Field("c", LONG, False), pa.array([1, None]), 1, "c", id="top-level"),
        pytest.param(Field("c", LONG, False), pa.nulls(2), 0, "c", id="null-type"),
        pytest.param(
            Field("c", Struct((Field("m", LONG, False),))),
            pa.array([None, {"m": 1}, {"m": None}]),
            2,
            "c.m",
            id="struct",
        ),
        pytest.param(Field("c", Array(LONG, False)), pa.array([[1], None, [2, None]]), 2, "c.element", id="list"),
        pytest.param(
            Field("c", Map(STRING, LONG, False)),
            pa.array([[("a", 1)], [("a", 1), ("b", None)]], pa.map_(pa.string(), pa.int64())),
            1,
            "c.value",
            id="map",
        ),
        pytest.param(
            Field("c", Array(Struct((Field("m", Array(LONG, False)),)))),
            pa.array([[], [{"m": [1]}, {"m": None}], [{"m": [1, 2]}, {"m": [3, None]}]]),
            2,
            "c.element.m.element",
            id="deep",
        ),
    ],
)
def test_not_null_is_checked_on_rows(field: Field, values: pa.Array, row: int, column: str) -> None:
    with pytest.raises(InvalidInputError, match=rf"column {column} is null.*\(row {row},"):
        conformed(table_of(field), pa.table({"c": values}))


def test_nullable_data_without_nulls_fits_a_not_null_column() -> None:
    assert one_column(LONG, pa.array([1, 2]), nullable=False) == [1, 2]


def test_not_null_is_not_checked_below_a_null_parent() -> None:
    import io

    import pyarrow.parquet as pq

    inner = Struct((Field("a", LONG, False), Field("s", STRING, False), Field("l", Array(LONG, False), False)))
    schema = table_of(Field("c", Struct((Field("m", inner, False), Field("k", Map(STRING, LONG), False)))))
    rows = [None, {"m": {"a": 1, "s": "x", "l": [1]}, "k": [("a", 1)]}, None]
    found = conformed(schema, pa.table({"c": pa.array(rows, _all_nullable(type_to_arrow(schema.fields[0].type)))}))
    assert found["c"].to_pylist() == rows
    body = io.BytesIO()
    pq.write_table(found, body)
    assert pq.read_table(body)["c"].to_pylist() == rows


STRICT = Struct((Field("w", INTEGER, False),))


@pytest.mark.parametrize(
    ("target", "values", "expected"),
    [
        (STRICT, pa.nulls(2), [None, None]),
        (Array(STRICT), pa.array([[None], None], pa.list_(pa.null())), [[None], None]),
        (Map(STRING, STRICT), pa.array([[("k", None)], []], pa.map_(pa.string(), pa.null())), [[("k", None)], []]),
        (Struct((Field("y", STRICT),)), pa.array([{"y": None}, None]), [{"y": None}, None]),
        (Struct((Field("x", LONG), Field("y", STRICT))), pa.array([{"x": 1}, None]), [{"x": 1, "y": None}, None]),
    ],
    ids=["untyped", "in a list", "in a map", "in a struct", "lacking"],
)
def test_a_struct_with_required_fields_may_be_null(target: DataType, values: pa.Array, expected: list[Any]) -> None:
    import io

    import pyarrow.parquet as pq

    found = conformed(table_of(Field("c", target)), pa.table({"c": values}))
    assert found["c"].to_pylist() == expected
    body = io.BytesIO()
    pq.write_table(found, body)
    assert pq.read_table(body)["c"].to_pylist() == expected


def test_values_hidden_below_a_null_struct_are_ignored() -> None:
    hidden = pa.StructArray.from_arrays(
        [pa.array([2**40, 1]), pa.array([[None], [2]], pa.list_(pa.int64()))], ["x", "y"], mask=pa.array([True, False])
    )
    target = Struct((Field("x", INTEGER), Field("y", Array(LONG, contains_null=False))))
    assert one_column(target, hidden) == [None, {"x": 1, "y": [2]}]


def _all_nullable(arrow: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(arrow):
        return pa.struct([pa.field(f.name, _all_nullable(f.type)) for f in arrow])
    if pa.types.is_list(arrow):
        return pa.list_(_all_nullable(arrow.value_type))
    return arrow


# --- columns ------------------------------------------------------------------------------------------------------


def test_columns_match_by_name_in_any_order_and_case_and_missing_ones_are_null() -> None:
    schema = table_of(
        Field("Id", LONG, False),
        Field("Name", STRING),
        Field("at", Struct((Field("Lat", DOUBLE), Field("Lon", DOUBLE)))),
    )
    data = pa.table({"AT": [{"lon": 2.0, "LAT": 1.0}], "ID": [7]})
    assert conformed(schema, data).to_pylist() == [{"Id": 7, "Name": None, "at": {"Lat": 1.0, "Lon": 2.0}}]


def test_data_that_fits_is_passed_on_without_a_copy() -> None:
    schema = table_of(Field("a", LONG), Field("b", STRING))
    batch = pa.record_batch({"a": [1], "b": ["x"]})
    assert Conformer(schema, batch.schema).conform(batch) is batch


def test_a_mismatch_lists_every_column_as_designed() -> None:
    schema = table_of(
        Field("year", INTEGER),
        Field("dep_delay", INTEGER),
        Field("origin", STRING, False),
        Field("at", Struct((Field("lat", DOUBLE), Field("when", TIMESTAMP)))),
        Field("price", Decimal(8, 2)),
    )
    data = pa.schema(
        {
            "note": pa.string(),
            "price": pa.decimal128(10, 3),
            "at": pa.struct({"LAT": pa.string(), "when": pa.timestamp("us"), "alt": pa.int64()}),
            "dep_delay": pa.string(),
            "YEAR": pa.int64(),
        }
    )
    with pytest.raises(SchemaMismatchError) as caught:
        Conformer(schema, data, table="s3://b/flights", version=11)
    assert str(caught.value).splitlines() == [
        "s3://b/flights v11: 7 columns differ",
        "  dep_delay  table int, data string  -> cast it",
        "  origin     table string not null, data has no such column  -> add it",
        '  at.alt     table has no such column, data int64  -> drop it, or add it with schema_mode="merge"',
        "  at.lat     table double, data string  -> cast it",
        "  at.when    table timestamp, data timestamp[us]  -> "
        "add its time zone: cast it to timestamp('us', tz='UTC'), in pandas with .dt.tz_localize(\"UTC\")",
        "  price      table decimal(8,2), data decimal128(10, 3)  -> cast it to decimal128(8, 2)",
        '  note       table has no such column, data string  -> drop it, or add it with schema_mode="merge"',
    ]


def test_a_mismatch_of_one_column_is_reported_as_designed() -> None:
    with pytest.raises(SchemaMismatchError) as caught:
        Conformer(
            table_of(Field("dep_delay", INTEGER)),
            pa.schema({"dep_delay": pa.string()}),
            table="s3://b/flights",
            version=11,
        )
    assert str(caught.value) == (
        "s3://b/flights v11: 1 column differs\n  dep_delay  table int, data string  -> cast it"
    )


@pytest.mark.parametrize(
    ("target", "source"),
    [
        (STRING, pa.binary()),
        (STRING, pa.int64()),
        (BINARY, pa.string()),
        (INTEGER, pa.float64()),
        (INTEGER, pa.bool_()),
        (BOOLEAN, pa.int8()),
        (FLOAT, pa.float64()),
        (Decimal(10, 2), pa.float64()),
        (Decimal(10, 2), pa.decimal128(10, 3)),
        (Decimal(10, 2), pa.decimal128(11, 2)),
        (DATE, pa.timestamp("us")),
        (TIMESTAMP, pa.timestamp("us")),
        (TIMESTAMP_NTZ, pa.timestamp("us", "UTC")),
        (TIMESTAMP, pa.date32()),
        (LONG, pa.time64("us")),
        (LONG, pa.duration("us")),
        (Array(LONG), pa.int64()),
        (LONG, pa.list_(pa.int64())),
        (Map(STRING, LONG), pa.struct({"a": pa.int64()})),
        (Map(STRING, LONG), pa.list_(pa.struct({"k": pa.string(), "v": pa.int64()}))),
        (Struct((Field("a", LONG),)), pa.map_(pa.string(), pa.int64())),
        (Array(LONG), pa.list_(pa.string())),
    ],
)
def test_conversions_that_could_lose_or_reinterpret_values_are_refused(target: DataType, source: pa.DataType) -> None:
    with pytest.raises(SchemaMismatchError, match="1 column differs"):
        Conformer(table_of(Field("c", target)), pa.schema({"c": source}))


def test_two_columns_that_differ_only_in_case_are_refused() -> None:
    with pytest.raises(SchemaMismatchError, match=r"id +table bigint, data has 2 columns \(id, ID\)  -> keep one"):
        Conformer(table_of(Field("id", LONG)), pa.schema([("id", pa.int64()), ("ID", pa.int64())]))


# --- what libraries really export ---------------------------------------------------------------------------------

EXPORTED = table_of(
    Field("text", STRING),
    Field("category", STRING),
    Field("small", INTEGER),
    Field("big", LONG),
    Field("amount", Decimal(18, 3)),
    Field("at", TIMESTAMP),
    Field("local", TIMESTAMP_NTZ),
    Field("day", DATE),
    Field("raw", BINARY),
    Field("list", Array(LONG)),
    Field("struct", Struct((Field("a", LONG), Field("b", STRING)))),
    Field("nothing", DOUBLE),
    Field("ratio", DOUBLE),
    Field("flag", BOOLEAN),
)
LOCAL = datetime.datetime(2024, 2, 29, 12, 0, 0, 123456)
EXPECTED = {
    "text": "x" * 20,
    "category": "red",
    "small": 7,
    "big": 2**40,
    "amount": D("1.500"),
    "at": LOCAL.replace(tzinfo=UTC),
    "local": LOCAL,
    "day": LOCAL.date(),
    "raw": b"\x00\xff",
    "list": [1, 2],
    "struct": {"a": 1, "b": "y"},
    "nothing": None,
    "ratio": 0.5,
    "flag": True,
}


def polars_frame() -> pl.DataFrame:
    return pl.DataFrame(
        {
            **{name: [EXPECTED[name]] for name in ("text", "raw", "struct", "nothing", "flag", "day")},
            "category": pl.Series(["red"], dtype=pl.Categorical),
            "small": pl.Series([7], dtype=pl.UInt32),
            "big": pl.Series([2**40], dtype=pl.UInt64),
            "amount": pl.Series([D("1.5")], dtype=pl.Decimal(10, 1)),
            "at": pl.Series([LOCAL], dtype=pl.Datetime("ns"))
            .dt.replace_time_zone("UTC")
            .dt.convert_time_zone("Asia/Tokyo"),
            "local": pl.Series([LOCAL], dtype=pl.Datetime("ns")),
            "list": pl.Series([[1, 2]], dtype=pl.Array(pl.Int32, 2)),
            "ratio": pl.Series([0.5], dtype=pl.Float32),
        }
    )


def pandas_frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            **{name: [EXPECTED[name]] for name in ("text", "raw", "list", "struct", "flag", "day", "ratio")},
            "category": pd.Categorical(["red"]),
            "small": pd.Series([7], dtype="UInt32"),
            "big": pd.Series([2**40], dtype="Int64"),
            "amount": [D("1.5")],
            "at": pd.Series([LOCAL.replace(tzinfo=UTC)], dtype="datetime64[ns, UTC]").dt.tz_convert("America/New_York"),
            "local": pd.Series([LOCAL], dtype="datetime64[ns]"),
            "nothing": pd.Series([None], dtype=object),
        }
    )


def duckdb_relation() -> Any:
    connection = duckdb.connect()
    connection.execute("set timezone = 'Asia/Kolkata'")
    return connection.sql(
        """select repeat('x', 20) as text, 'red'::enum('red', 'blue') as category, 7::uinteger as small,
           (2**40)::ubigint as big, 1.5::decimal(10, 1) as amount,
           timestamptz '2024-02-29 12:00:00.123456+00' as at, timestamp_ns '2024-02-29 12:00:00.123456' as local,
           date '2024-02-29' as day, '\\x00\\xFF'::blob as raw, [1, 2]::int[2] as list, {'a': 1, 'b': 'y'} as struct,
           null as nothing, 0.5::float as ratio, true as flag"""
    )


@pytest.mark.parametrize("make", [polars_frame, pandas_frame, duckdb_relation])
def test_exports_of_polars_pandas_and_duckdb_are_stored_in_the_tables_types(make: Any) -> None:
    found = conformed(EXPORTED, make()).to_pylist()
    assert found == [EXPECTED]


def test_integers_that_pandas_turned_into_floats_fit_after_the_advised_cast() -> None:
    times = pd.to_datetime(["2026-11-20", None])
    frame = pd.DataFrame({"id": [1, None], "at": times, "day": times})
    schema = table_of(Field("id", LONG), Field("at", TIMESTAMP), Field("day", DATE))
    with pytest.raises(SchemaMismatchError) as caught:
        Conformer(schema, open_data(frame).schema)
    assert re.findall(r"in pandas with (\S+)", str(caught.value)) == [
        '.astype("Int64")',
        '.dt.tz_localize("UTC")',
        ".dt.date",
    ]
    frame = frame.assign(id=frame["id"].astype("Int64"), at=frame["at"].dt.tz_localize("UTC"), day=frame["day"].dt.date)
    stream = open_data(frame)
    [batch] = stream.batches
    assert Conformer(schema, stream.schema).conform(batch).column("id").to_pylist() == [1, None]


def test_a_named_pandas_index_is_reported_as_an_extra_column() -> None:
    frame = pd.DataFrame({"a": [1]}, index=pd.Index(["x"], name="key"))
    with pytest.raises(SchemaMismatchError, match="key  table has no such column"):
        conformed(table_of(Field("a", LONG)), frame)


# --- any table of ours fits itself ----------------------------------------------------------------------------------

leaves: st.SearchStrategy[DataType] = st.sampled_from(
    [STRING, LONG, INTEGER, BYTE, DOUBLE, BOOLEAN, BINARY, DATE, TIMESTAMP, Decimal(10, 3)]
)


def types(depth: int = 2) -> st.SearchStrategy[DataType]:
    if depth == 0:
        return leaves
    inner = types(depth - 1)
    nested: st.SearchStrategy[DataType] = st.one_of(
        leaves,
        st.builds(Array, inner, st.booleans()),
        st.builds(Map, st.just(STRING), inner, st.booleans()),
        st.lists(st.tuples(inner, st.booleans()), min_size=1, max_size=3).map(
            lambda members: Struct(tuple(Field(f"m{n}", t, nullable) for n, (t, nullable) in enumerate(members)))
        ),
    )
    return nested


def values_of(target: DataType) -> st.SearchStrategy[Any]:
    match target:
        case Struct(fields):
            return st.fixed_dictionaries(
                {f.name: (st.none() | values_of(f.type)) if f.nullable else values_of(f.type) for f in fields}
            )
        case Array(element, contains_null):
            return st.lists((st.none() | values_of(element)) if contains_null else values_of(element), max_size=3)
        case Map(_, value, contains_null):
            item = (st.none() | values_of(value)) if contains_null else values_of(value)
            return st.dictionaries(st.text(max_size=3), item, max_size=2).map(lambda found: list(found.items()))
        case Decimal():
            return st.integers(-9_999_999, 9_999_999).map(lambda n: D(n) / 1000)
    return {
        STRING: st.text(max_size=4),
        LONG: st.integers(-(2**63), 2**63 - 1),
        INTEGER: st.integers(-(2**31), 2**31 - 1),
        BYTE: st.integers(-128, 127),
        DOUBLE: st.floats(allow_nan=False),
        BOOLEAN: st.booleans(),
        BINARY: st.binary(max_size=4),
        DATE: st.dates(),
        TIMESTAMP: st.datetimes(datetime.datetime(1800, 1, 1), timezones=st.just(UTC)),
    }[target]


@given(st.data())
def test_any_rows_survive_conversion_from_polars_like_types(data: st.DataObject) -> None:
    target = data.draw(types())
    rows = data.draw(st.lists(st.none() | values_of(target), min_size=1, max_size=5))
    schema = table_of(Field("c", target))
    exact = pa.array(rows, type_to_arrow(target))
    loose = pa.array(rows, _loosened(type_to_arrow(target)))
    offset = data.draw(st.integers(0, len(rows) - 1))
    for values in (exact, loose):
        assert conformed(schema, pa.table({"c": values.slice(offset)}))["c"].to_pylist() == rows[offset:]


def _loosened(arrow: pa.DataType) -> pa.DataType:
    """The same values in the types polars and duckdb like: views, large lists, wider integers."""
    if pa.types.is_struct(arrow):
        return pa.struct([pa.field(f.name, _loosened(f.type)) for f in reversed(list(arrow))])
    if pa.types.is_map(arrow):
        return pa.map_(pa.large_string(), _loosened(arrow.item_type))
    if pa.types.is_list(arrow):
        return pa.large_list(_loosened(arrow.value_type))
    swaps = {
        pa.string(): pa.string_view(),
        pa.binary(): pa.large_binary(),
        pa.int8(): pa.int64(),
        pa.int32(): pa.int64(),
    }
    return swaps.get(arrow, arrow)


def test_floats_for_a_decimal_column_are_told_what_to_become() -> None:
    with pytest.raises(
        SchemaMismatchError, match=r"decimal\.Decimal, or round them and cast them to decimal128\(8, 2\)"
    ):
        Conformer(table_of(Field("price", Decimal(8, 2))), pa.schema({"price": pa.float64()}), table="t", version=0)
