"""Texts cut by their shape, beside Arrow's reader of JSON and Python's: they find the same in each text."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from txlog.protocol import stats_struct
from txlog.protocol.schema import leaf_paths, parse_schema
from txlog.protocol.stats_shape import Shape
from txlog.protocol.stats_struct import _parse_one, _read_each, read_json_objects, statistics_as_struct, statistics_type

KINDS = {"l": "long", "i": "integer", "f": "float", "d": "double", "s": "string", "dt": "date", "ts": "timestamp"}
KINDS |= {"nz": "timestamp_ntz", "x": "decimal(9,2)", "y\u00e9 \\": "short"}
SCHEMA = parse_schema(
    json.dumps(
        {
            "type": "struct",
            "fields": [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in KINDS.items()],
        }
    )
)
KIND = statistics_type(leaf_paths(SCHEMA))
INTEGERS = [
    "0",
    "5",
    "-7",
    "10",
    "99999",
    "-0",
    "00",
    "-01",
    "0x1f",
    "1.0",
    "+5",
    " 5",
    "",
    "-",
    "null",
    "true",
    '"5"',
    "1e1",
]
INTEGERS += ["9223372036854775807", "9223372036854775808", "12345", "NaN", "[1]", '{"a":1}', "5,", "5}", '5"', "5\n"]
NUMBERS = [
    "0.5",
    "-1.25",
    "10",
    "5",
    "1e3",
    "-2.5E-7",
    "0.10",
    "1.",
    ".5",
    "05.5",
    "1.e5",
    "nan",
    "inf",
    "+1.5",
    "0x1",
    *INTEGERS,
]
TEXTS = [
    '"a"',
    '""',
    '"\u00e9\U0001f600"',
    '"a\\"b"',
    '"\\u00e9"',
    '"\x01"',
    '"\x7f"',
    '"}"',
    '",\\"l\\":7,\\""',
    "null",
    "7",
    '"a',
    '"a""',
]
DATES = [
    '"2024-01-02"',
    '"1582-10-15"',
    '"2024-02-30"',
    '"2024-1-2"',
    '"2024-01-02T00:00:00"',
    '"2024-01-02T03:00:00"',
    *TEXTS[:3],
]
TIMES = [
    '"2024-01-02T03:04:05.678Z"',
    '"2024-01-02T03:04:05Z"',
    '"2024-01-02T03:04:05.678"',
    '"2024-01-02T03:04:05.123456789Z"',
]
TIMES += ['"2024-01-02T03:04:05+01:00"', '"2024-01-02"', '"2024-01-02 03:04:05Z"', *TEXTS[:3]]
SPELLINGS = {"l": INTEGERS, "i": INTEGERS, "f": NUMBERS, "d": NUMBERS, "x": NUMBERS, "s": TEXTS, "dt": DATES}
SPELLINGS |= {"ts": TIMES, "nz": [TIMES[2], *TIMES]}


@st.composite
def texts_of_one_writer(draw: st.DrawFn) -> list[str]:
    names = draw(st.lists(st.sampled_from(sorted(SPELLINGS)), unique=True, min_size=1, max_size=4))
    space = draw(st.sampled_from(["", "", " "]))
    odd = draw(st.sampled_from([1, 1, 3, 40]))

    def text() -> str:
        values = [draw(st.sampled_from(SPELLINGS[name][: 2 + odd])) for name in names]
        tree = f",{space}".join(f'"{name}":{space}{value}' for name, value in zip(names, values, strict=True))
        rows = draw(st.sampled_from(INTEGERS[: 1 + odd]))
        last = draw(
            st.sampled_from(["", "", "", f',{space}"tightBounds":{space}false', '"', "}", " ", ',"minValues":{"l":3}'])
        )
        return f'{{"numRecords":{space}{rows},{space}"minValues":{space}{{{tree}}}{last}}}'

    return [text() for _ in range(draw(st.integers(1, 8)))]


@given(texts_of_one_writer())
def test_what_is_read_by_its_shape_is_what_readers_of_json_find(texts: list[str]) -> None:
    shape = Shape.of(texts[0])
    if shape is None:
        return
    cut = shape.cut(pa.array(texts))
    alike = [texts[row] for row in cut.rows]
    assert texts[0] in alike
    try:
        found = cut.objects(KIND).to_pylist()
    except (pa.ArrowException, ValueError):
        return
    assert found == [_read_each(pa.array([text]), KIND)[0].as_py() for text in alike]
    assert [json.loads(text, object_pairs_hook=keys) for text in alike] == [
        json.loads(texts[0], object_pairs_hook=keys)
    ] * len(alike)


def keys(pairs: list[tuple[str, object]]) -> object:
    return [(name, inner if isinstance(inner, list) else "") for name, inner in pairs]


PLAIN = (
    '{"numRecords":10,"minValues":{"l":%d,"i":-1,"f":1.5,"d":2.5,"s":"aa","dt":"2024-01-02","x":1.25,'
    '"ts":"2024-01-02T03:04:05.678Z","nz":"2024-01-02T03:04:05.678"},"maxValues":{"l":%d},"nullCount":{"l":0,"s":%d}}'
)


@pytest.mark.parametrize("text", [PLAIN % (1, 2, 3), json.dumps(json.loads(PLAIN % (1, 2, 3)))])
def test_what_writers_write_is_read_by_its_shape(text: str) -> None:
    """Else it would be right, and take three times as long."""
    shape = Shape.of(text)
    assert shape is not None
    texts = [
        text,
        text.replace("1.25", "-130.5").replace("aa", "\u00e9"),
        text.replace("2.5", "0").replace(": 10", ": 0"),
    ]
    cut = shape.cut(pa.array(texts))
    assert cut.rows.tolist() == [0, 1, 2]
    assert cut.objects(KIND).to_pylist() == [_parse_one(each, KIND) for each in texts]


@pytest.mark.parametrize(
    "text", ["", "7", "[]", "{", "{}", '{"a":{}}', '{"a":[1]}', '{"a":1,"a":2}', '{"a":NaN}x', '{"a" :1}', '{"a\\"":1}']
)
def test_what_is_written_in_another_way_has_no_shape(text: str) -> None:
    assert Shape.of(text) is None


def test_the_texts_of_several_writers_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each writer has eighty in each piece, and some texts are like none of theirs."""
    monkeypatch.setattr(stats_struct, "_SHAPED_ROWS", 64)
    forms = [
        PLAIN,
        '{"numRecords":10,"nullCount":{"l":%d,"i":%d,"s":%d}}',
        '{"minValues": {"l": %d, "i": %d, "d": %d}}',
    ]
    texts = [forms[number % 3] % (number, -number % 1000, 0) for number in range(480)]
    monkeypatch.setattr(stats_struct, "_SHAPED_BYTES", pa.array(texts).nbytes // 2)
    texts[250] = '{"minValues":{"s":"\\u00e9\\n"}}'
    texts[251] = '{"minValues":{"l":7.0}}'
    expected = [_parse_one(text, KIND) for text in texts]
    assert statistics_as_struct(pa.array(texts), KIND).to_pylist() == expected
    assert read_json_objects(pa.array(texts[:251]), KIND).to_pylist() == expected[:251]


@pytest.mark.parametrize("number", ["01", "-01", "-", "0x1f", "+5", "1.", ".5", "1.e5", "nan", "tru", "", " 5", "5 "])
@pytest.mark.parametrize("name", ["l", "d"])
def test_a_number_that_is_no_json_is_not_read_even_where_nobody_asks_for_it(name: str, number: str) -> None:
    good = '{"maxValues":{"l":-5,"d":1.5},"minValues":{"s":"a"}}'
    bad = good.replace({"l": "-5", "d": "1.5"}[name], number)
    shape = Shape.of(good)
    assert shape is not None
    cut = shape.cut(pa.array([good, bad]))
    wanted = pa.struct([("minValues", pa.struct([("s", pa.string())]))])
    assert shape.cut(pa.array([good])).objects(wanted).to_pylist() == [{"minValues": {"s": "a"}}]
    with pytest.raises((pa.ArrowException, ValueError)):
        cut.objects(wanted)


def test_bytes_that_are_no_text_are_refused() -> None:
    good = '{"minValues":{"s":"abc"}}'
    shape = Shape.of(good)
    assert shape is not None
    broken = pa.array([good.encode(), good.encode().replace(b"b", b"\xff")]).cast(pa.binary())
    texts = pa.StringArray.from_buffers(2, broken.buffers()[1], broken.buffers()[2])
    with pytest.raises(pa.ArrowInvalid):
        shape.cut(texts)
