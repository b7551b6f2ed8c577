"""Statistics between their JSON text and typed columns; judged by Python's own JSON and by hand-written values."""

from __future__ import annotations

import datetime
import decimal
import json
from typing import Any

import pyarrow as pa
import pytest

from txlog.core.format import stats_struct
from txlog.core.format.schema import leaf_paths, parse_schema
from txlog.core.format.stats_struct import statistics_as_struct, statistics_type
from txlog.core.format.stats_text import statistics_as_json

SCHEMA = parse_schema(
    json.dumps(
        {
            "type": "struct",
            "fields": [
                {"name": name, "type": kind, "nullable": True, "metadata": {}}
                for name, kind in (
                    ("i", "integer"),
                    ("l", "long"),
                    ("f", "double"),
                    ("s", "string"),
                    ("d", "date"),
                    ("t", "timestamp"),
                    ("n", "timestamp_ntz"),
                    ("x", "decimal(20,5)"),
                    ("b", "boolean"),
                    ("a", {"type": "array", "elementType": "long", "containsNull": True}),
                    (
                        "o",
                        {
                            "type": "struct",
                            "fields": [{"name": "in.side", "type": "long", "nullable": True, "metadata": {}}],
                        },
                    ),
                )
            ],
        }
    )
)


def kind() -> pa.StructType:
    return statistics_type(leaf_paths(SCHEMA))


def text(bound: dict[str, Any], **others: Any) -> str:
    return json.dumps({"numRecords": 3, "minValues": bound, "maxValues": bound, "nullCount": {"i": 1}, **others})


WHOLE = {
    "i": 2**31 - 1,
    "l": -(2**63),
    "f": 0.1,
    "s": 'a"\\\n\x01é\U0001f600\x7f',
    "d": "1582-10-15",
    "t": "2024-02-29T23:59:59.123Z",
    "n": "0001-01-01T00:00:00.001",
    "o": {"in.side": 5},
}


def test_bounds_are_for_ordered_types_and_null_counts_for_all() -> None:
    members = {field.name: field.type for field in kind()}
    assert [field.name for field in members["minValues"]] == ["i", "l", "f", "s", "d", "t", "n", "x", "o"]
    assert [field.name for field in members["nullCount"]] == [*"ilfsdtnxba", "o"]


def test_a_table_of_no_ordered_columns_has_no_bounds_at_all() -> None:
    assert [field.name for field in statistics_type([(("b",), SCHEMA.fields[8].type)])] == [
        "numRecords",
        "tightBounds",
        "nullCount",
    ]


def test_text_becomes_typed_values() -> None:
    row = statistics_as_struct(pa.array([text(WHOLE)]), kind())[0].as_py()
    least = row["minValues"]
    assert (least["i"], least["l"], least["f"], least["s"]) == (WHOLE["i"], WHOLE["l"], WHOLE["f"], WHOLE["s"])
    assert least["d"] == datetime.date(1582, 10, 15)
    assert least["t"] == datetime.datetime(2024, 2, 29, 23, 59, 59, 123000, tzinfo=datetime.timezone.utc)
    assert least["n"] == datetime.datetime(1, 1, 1, 0, 0, 0, 1000)
    assert least["o"] == {"in.side": 5}
    assert (row["numRecords"], row["nullCount"]["i"], row["nullCount"]["l"]) == (3, 1, None)


def test_decimals_keep_every_digit() -> None:
    exact = text({}).replace('"minValues": {}', '"minValues": {"x": 123456789012345.67891}')
    typed = statistics_as_struct(pa.array([exact]), kind())
    assert typed[0]["minValues"]["x"].as_py() == decimal.Decimal("123456789012345.67891")
    assert "123456789012345.67891" in statistics_as_json(typed)[0].as_py()


def test_statistics_survive_a_round_trip() -> None:
    texts = [text(WHOLE), None, text({"i": 1}), '{"numRecords":0}', text({"s": "plain"}, tightBounds=False)]
    back = statistics_as_json(statistics_as_struct(pa.array(texts, pa.string()), kind())).to_pylist()
    assert back[1] is None
    for reported, found in zip(texts, back, strict=True):
        if reported is None or found is None:
            continue
        expected, actual = json.loads(reported), json.loads(found)
        assert actual["numRecords"] == expected["numRecords"]
        assert actual.get("tightBounds") == expected.get("tightBounds")
        bounds = {name: value for name, value in actual.get("minValues", {}).items() if value != {}}
        assert bounds == expected.get("minValues", {})


@pytest.mark.parametrize(
    ("odd", "expected"),
    [
        ('{"numRecords":1,"minValues":{"f":"NaN","i":4}}', 4),
        ('{"numRecords":1,"minValues":{"i":4.0}}', 4),
        ('{"numRecords":1,"minValues":{"i":4,"x":1.123456789}}', 4),
        ('{"numRecords":1,"minValues":{"i":4,"t":"2024-02-30T00:00:00Z"}}', 4),
        ('{"numRecords":1,"minValues":{"i":4,"t":17}}', 4),
        ('{"numRecords":1,"minValues":{"i":99999999999}}', None),
        ('{"numRecords":1,"minValues":{"i":"four"}}', None),
        ('{"numRecords":1,"minValues":7}', None),
    ],
)
def test_a_value_that_does_not_fit_is_left_out_and_the_others_stay(odd: str, expected: int | None) -> None:
    rows = statistics_as_struct(pa.array([text({"i": 1}), odd, None, text({"i": 2})], pa.string()), kind()).to_pylist()
    assert rows[1]["numRecords"] == 1
    assert (rows[1]["minValues"] or {}).get("i") == expected
    assert (rows[0]["minValues"]["i"], rows[2], rows[3]["minValues"]["i"]) == (1, None, 2)


HUGE = '{"minValues":{"x":1e99999999999999999999}}'


@pytest.mark.parametrize("broken", ["", "not json", "[1]", "{", "3", '{"numRecords":1}{"numRecords":2}', HUGE])
def test_text_that_is_no_object_becomes_null_and_shifts_no_row(broken: str) -> None:
    rows = statistics_as_struct(pa.array([text({"i": 1}), broken, text({"i": 2})]), kind()).to_pylist()
    assert [row and row["minValues"]["i"] for row in rows] == [1, None, 2]


def test_slices_are_parsed_as_the_rows_they_are() -> None:
    texts = pa.array([None, *(text({"l": number}) for number in range(40_000))], pa.string())
    typed = statistics_as_struct(texts.slice(1), kind())
    assert typed.field("minValues").field("l").to_pylist() == list(range(40_000))


def test_numbers_without_a_json_form_are_written_as_delta_writes_them() -> None:
    values = pa.array([float("nan"), float("inf"), float("-inf"), 1.0, 1e300, None])
    typed = pa.StructArray.from_arrays([pa.StructArray.from_arrays([values], ["f"])], ["minValues"])
    found = [json.loads(row)["minValues"].get("f") for row in statistics_as_json(typed).to_pylist()]
    assert found == ["NaN", "Infinity", "-Infinity", 1, 1e300, None]


def test_timestamps_are_cut_to_milliseconds_downwards() -> None:
    moment = pa.array([-1, 1_999], pa.timestamp("us", "UTC"))
    typed = pa.StructArray.from_arrays([pa.StructArray.from_arrays([moment], ["t"])], ["minValues"])
    assert [json.loads(row)["minValues"]["t"] for row in statistics_as_json(typed).to_pylist()] == [
        "1969-12-31T23:59:59.999Z",
        "1970-01-01T00:00:00.001Z",
    ]


def test_texts_of_several_writers_in_several_pieces_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats_struct, "READ_BYTES", 1000)
    forms = [
        '{"numRecords":%d,"minValues":{"i":1}}',
        '{ "minValues": {"i": 1}, "numRecords": %d }',
        '{"numRecords":%d,"minValues":{"i":"odd"}}',
    ]
    texts = [forms[2 if number == 250 else number % 2] % number for number in range(480)]
    rows = statistics_as_struct(pa.array(texts), kind()).to_pylist()
    assert [row["numRecords"] for row in rows] == [*range(480)]
    assert [number for number, row in enumerate(rows) if row["minValues"]["i"] is None] == [250]


@pytest.mark.parametrize(
    "number",
    ["5", "-0", "01", "-01", "-", "0x1f", "+5", "1.", ".5", "1.5", "1e2", "1.e5", "nan", "tru", "true", "", "null"],
)
@pytest.mark.parametrize("name", ["l", "f", "s"])
def test_a_number_in_any_spelling_is_what_pythons_json_reads(name: str, number: str) -> None:
    """Among others, and even where a reader does not ask for the column."""
    texts = ['{"minValues":{"l":7,"f":1.5}}'] * 100
    texts[50] = f'{{"minValues":{{"{name}":{number}}}}}'
    for wanted in (kind(), pa.struct([("numRecords", pa.int64()), ("minValues", pa.struct([("l", pa.int64())]))])):
        other, expected = (stats_struct._parse_one(texts[at], wanted) for at in (0, 50))
        assert statistics_as_struct(pa.array(texts), wanted).to_pylist() == [*[other] * 50, expected, *[other] * 49]
