"""Statistics read back, whichever engine wrote them: those that hold are used, those that may not hold are left out."""

from __future__ import annotations

import datetime
import decimal
import json
import math
import struct
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from txlog.core.format.schema import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Array,
    DataType,
    Decimal,
    Field,
    Struct,
    from_arrow,
    leaf_paths,
    parse_schema,
)
from txlog.core.format.statistics_read import FileBounds, StatisticsReader

D = decimal.Decimal
UTC = datetime.timezone.utc


def one(data_type: DataType, raw: str) -> tuple[Any, Any]:
    """Minimum and maximum of a column whose statistics hold this JSON as both."""
    text = f'{{"numRecords":1,"minValues":{{"c":{raw}}},"maxValues":{{"c":{raw}}},"nullCount":{{"c":0}}}}'
    found = StatisticsReader(Struct((Field("c", data_type),))).read(text)
    assert found.num_records == 1
    assert found.null_count == {("c",): 0}
    return found.minimum.get(("c",)), found.maximum.get(("c",))


@pytest.mark.parametrize(
    ("data_type", "raw", "value"),
    [
        (LONG, "9223372036854775807", 2**63 - 1),
        (INTEGER, "-7", -7),
        (DOUBLE, "1", 1.0),
        (DOUBLE, "-0.0", 0.0),
        (DOUBLE, '"Infinity"', math.inf),
        (DOUBLE, '"-Infinity"', -math.inf),
        (STRING, '"\\u00e9"', "é"),
        (BOOLEAN, "false", False),
        (DATE, '"2023-01-15"', datetime.date(2023, 1, 15)),
        (Decimal(38, 10), "1234567890123456789012345678.0123456789", D("1234567890123456789012345678.0123456789")),
        (Decimal(38, 0), "99999999999999999999999999999999999999", D(10**38 - 1)),
        (Decimal(5, 2), '"1.50"', D("1.50")),
        (Decimal(5, 2), "1e1", D(10)),
    ],
)
def test_values_are_typed_and_exact(data_type: DataType, raw: str, value: Any) -> None:
    assert one(data_type, raw) == (value, value)
    assert type(one(data_type, raw)[0]) is type(value)


@pytest.mark.parametrize(
    ("data_type", "raw"),
    [
        (LONG, '"7"'),
        (LONG, "1.5"),
        (LONG, "true"),
        (DOUBLE, '"NaN"'),
        (DOUBLE, "NaN"),
        (DOUBLE, '"abc"'),
        (DOUBLE, "true"),
        (FLOAT, "1e300"),
        (STRING, "7"),
        (STRING, '"half a pair \\ud83d"'),
        (BOOLEAN, "1"),
        (DATE, '"+12023-01-15"'),
        (DATE, "19372"),
        (TIMESTAMP, '"2024-01-01T00:00:00.000"'),
        (TIMESTAMP, '"+12024-01-01T00:00:00.000Z"'),
        (TIMESTAMP_NTZ, '"2024-01-01T00:00:00.000Z"'),
        (Decimal(5, 2), '"NaN"'),
        (Decimal(5, 2), "true"),
        (BINARY, '"abc"'),
        (LONG, "null"),
        (LONG, "{}"),
    ],
)
def test_a_value_of_another_type_is_not_a_bound(data_type: DataType, raw: str) -> None:
    assert one(data_type, raw) == (None, None)


@pytest.mark.parametrize(
    "raw",
    [
        '"2024-01-01T08:00:00.123Z"',
        '"2024-01-01T00:00:00.123-08:00"',
        '"2024-01-01 08:00:00.123+00:00"',
        '"2024-01-01T08:00:00.1230Z"',
        '"2024-01-01T08:00:00.123000000Z"',
    ],
)
def test_an_instant_is_read_in_any_spelling_and_a_maximum_is_widened_by_a_millisecond(raw: str) -> None:
    low, high = one(TIMESTAMP, raw)
    assert low == datetime.datetime(2024, 1, 1, 8, 0, 0, 123_000, UTC)
    assert high == datetime.datetime(2024, 1, 1, 8, 0, 0, 124_000, UTC)


def test_a_local_time_is_widened_too_and_stays_local() -> None:
    low, high = one(TIMESTAMP_NTZ, '"2023-06-15T12:30:00.000"')
    assert (low, high) == (
        datetime.datetime(2023, 6, 15, 12, 30),
        datetime.datetime(2023, 6, 15, 12, 30, 0, 1_000),
    )


def test_a_maximum_at_the_end_of_time_has_no_bound_above_it() -> None:
    low, high = one(TIMESTAMP, '"9999-12-31T23:59:59.999Z"')
    assert low == datetime.datetime(9999, 12, 31, 23, 59, 59, 999_000, UTC)
    assert high is None


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_float_written_as_short_as_floats_can_be_is_the_float_it_was(value: float) -> None:
    """Spark writes 3.14 for the 32-bit value 3.1400001049..., which as a double would lie below it."""
    shortest = str(pa.array([value], pa.float32()).cast(pa.string())[0])
    low, high = one(FLOAT, shortest)
    assert struct.pack("<d", low + 0.0) == struct.pack("<d", value + 0.0)
    assert high == low


@pytest.mark.parametrize(
    "cut", ["a" * 32 + "\ufffd", "\U0001f389" + "a" * 30 + "\ufffd", "a" * 31 + "?\ufffd", "b\ufffd"]
)
def test_a_maximum_that_an_older_delta_has_cut_is_no_bound(cut: str) -> None:
    """It counted UTF-16 units and appended U+FFFD, which sorts below an emoji, as does the "?" for half of one."""
    assert one(STRING, json.dumps(cut)) == (cut, None)
    assert one(STRING, json.dumps(cut + "a")) == (cut + "a", cut + "a")


NESTED = Struct(
    (
        Field("id", LONG),
        Field("place", Struct((Field("city", STRING), Field("at", Struct((Field("height", Decimal(9, 2)),)))))),
        Field("tags", Array(STRING)),
    )
)


def test_bounds_of_members_stand_under_their_path() -> None:
    text = json.dumps(
        {
            "numRecords": 3,
            "minValues": {"id": 1, "place": {"city": "A", "at": {"height": 1.25}}, "unknown": 5},
            "maxValues": {"id": {"no": 1}, "place": 7},
            "nullCount": {"id": 0, "place": {"city": 1, "at": {"height": 3}}, "tags": 2},
        }
    )
    assert StatisticsReader(NESTED).read(text) == FileBounds(
        num_records=3,
        minimum={("id",): 1, ("place", "city"): "A", ("place", "at", "height"): D("1.25")},
        maximum={},
        null_count={("id",): 0, ("place", "city"): 1, ("place", "at", "height"): 3, ("tags",): 2},
    )


def test_a_reader_for_some_columns_reads_only_these() -> None:
    text = '{"numRecords":1,"minValues":{"id":1,"place":{"city":"A"}},"nullCount":{"id":0,"tags":0}}'
    found = StatisticsReader(NESTED, {("place", "city")}).read(text)
    assert found == FileBounds(num_records=1, minimum={("place", "city"): "A"})


@pytest.mark.parametrize(
    "text",
    [
        *(None, "", "{", "[]", "7", "null", '{"numRecords":-1}', '{"minValues":[1]}', '{"nullCount":7}', "[" * 100_000),
        '{"minValues":{"id":1e99999999999999999999}}',
    ],
)
def test_statistics_that_make_no_sense_are_ignored(text: str | None) -> None:
    assert StatisticsReader(NESTED).read(text) == FileBounds()


def test_wide_bounds_keep_null_counts_only_at_their_ends() -> None:
    schema = Struct(tuple(Field(name, LONG) for name in "abc"))
    counts = '"nullCount":{"a":0,"b":2,"c":5}'
    wide = StatisticsReader(schema).read(f'{{"numRecords":5,"tightBounds":false,{counts}}}')
    assert (wide.tight, wide.null_count) == (False, {("a",): 0, ("c",): 5})
    tight = StatisticsReader(schema).read(f'{{"numRecords":4,{counts}}}')
    assert (tight.tight, tight.null_count) == (True, {("a",): 0, ("b",): 2})


def test_deltalakes_statistics_bound_the_rows_they_were_made_from(tmp_path: Path) -> None:
    now = datetime.datetime(2024, 5, 6, 7, 8, 9, 123_456, UTC)
    rows = pa.table(
        {
            "l": pa.array([-5, None, 2**60], pa.int64()),
            "x": [1.5, None, -2.25],
            "s": ["\U0001f600" * 20, None, "b" * 100],
            "b": [True, None, False],
            "d": [now.date(), None, datetime.date(1582, 10, 4)],
            "at": pa.array([now, None, now.replace(year=1900)], pa.timestamp("us", "UTC")),
            "m": pa.array([D("12345678901.23"), None, D("-0.01")], pa.decimal128(20, 2)),
            "p": pa.array([{"q": 1}, None, {"q": None}]),
        }
    )
    deltalake.write_deltalake(tmp_path, rows)
    lines = (tmp_path / "_delta_log" / f"{0:020}.json").read_text().splitlines()
    (add,) = [json.loads(line)["add"] for line in lines if '"add"' in line]
    schema = from_arrow(rows.schema)
    found = StatisticsReader(schema).read(add["stats"])
    assert found.num_records == 3
    for path, _ in leaf_paths(schema):
        values = [row[path[0]] if len(path) == 1 else (row["p"] or {}).get("q") for row in rows.to_pylist()]
        assert found.null_count[path] == values.count(None)
        known = [value for value in values if value is not None]
        assert found.minimum[path] <= min(known)
        assert max(known) <= found.maximum[path]


def test_every_bound_in_the_golden_tables_is_understood(golden_lines: list[tuple[str, dict]]) -> None:
    """Each value that Spark wrote for a column of a known type gives a bound; NaN, which bounds nothing, apart."""
    schemas: dict[str, Struct] = {}
    for name, line in golden_lines:
        if "schemaString" in line.get("metaData", {}) and "variant" not in name:
            schemas[name] = parse_schema(line["metaData"]["schemaString"])
    checked = 0
    for name, line in golden_lines:
        text = line.get("add", {}).get("stats")
        if not text or name not in schemas or "widening" in name:
            continue
        written = json.loads(text)
        found = StatisticsReader(schemas[name]).read(text)
        assert found.num_records == written["numRecords"]
        for path, _ in leaf_paths(schemas[name]):
            for side, bounds in (("minValues", found.minimum), ("maxValues", found.maximum)):
                raw = written.get(side, {})
                for part in path:
                    raw = raw.get(part) if isinstance(raw, dict) else None
                if raw is not None and raw != "NaN":
                    assert path in bounds, (name, path, raw)
                    checked += 1
    assert checked > 500
