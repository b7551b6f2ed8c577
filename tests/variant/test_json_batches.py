"""Texts of JSON that become variants together have the bytes of each alone, and PySpark's values."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.variant_utils import VariantUtils

from txlog import variant
from txlog.errors import InvalidInputError
from txlog.variant.json_batches import _groups_in, variants_of
from txlog.variant.json_shapes import ROWS_MIN
from txlog.variant.json_text import encode_json

ROWS = 2 * ROWS_MIN


def one_by_one(texts: list[str | None]) -> tuple[list[Any], list[tuple[int, str]]]:
    found: list[Any] = []
    refused: list[tuple[int, str]] = []
    for row, text in enumerate(texts):
        try:
            found.append(None if text is None else encode_json(text))
        except (ValueError, TypeError) as error:
            found.append(None)
            refused.append((row, str(error)))
    return found, refused


def together(texts: Any) -> tuple[list[Any], list[tuple[int, str]]]:
    refused: list[tuple[int, str]] = []
    found = variants_of(texts, lambda row, error: refused.append((row, str(error))))
    found.validate(full=True)
    return [each and (each["metadata"], each["value"]) for each in found.to_pylist()], refused


def grouped(texts: list[str]) -> int:
    """How many texts were encoded with others."""
    return sum(len(group.rows) for group in _groups_in(texts))


def events(count: int) -> list[dict[str, Any]]:
    random_ = random.Random(5)
    return [
        {
            "id": random_.randrange(-(10 ** random_.randrange(1, 18)), 10 ** random_.randrange(1, 18)),
            "kind": random_.choice(["click", "view", "", "é" * random_.randrange(40)]),
            "price": random_.randrange(10**6) / 100,
            "ok": random_.choice([True, False, None]),
            "user": {
                "z": [1, "x" * random_.randrange(90), {}],
                "name": f"user {at}, {{[:]}}",
                "at": "2026-01-01T00:00",
            },
        }
        for at in range(count)
    ]


@pytest.mark.parametrize("spaces", [{}, {"separators": (",", ":")}, {"indent": 2}], ids=["usual", "none", "lines"])
def test_texts_of_one_shape_are_encoded_together(spaces: dict[str, Any]) -> None:
    texts = [json.dumps(each, ensure_ascii=False, **spaces) for each in events(300)]
    found, refused = together(texts)
    assert (found, refused) == one_by_one(texts)
    assert grouped(texts) == (0 if "indent" in spaces else 300)
    for (metadata, value), text in list(zip(found, texts, strict=True))[::10]:
        theirs = VariantUtils.parse_json(text)
        assert VariantUtils.to_python(value, metadata) == VariantUtils.to_python(*theirs)


@pytest.mark.parametrize("make", [pa.array, lambda texts: pa.array(texts, pa.large_string())], ids=["string", "large"])
def test_arrow_arrays_slices_chunks_and_nulls_have_the_same_variants(make: Any) -> None:
    texts: list[str | None] = [json.dumps(each) for each in events(3 * ROWS)]
    for at in range(0, len(texts), 7):
        texts[at] = None
    expected = one_by_one(texts)[0]
    array = make(texts)
    assert together(array)[0] == together(texts)[0] == expected
    assert together(array[5:-3])[0] == expected[5:-3]
    assert together(pa.chunked_array([array[:100], array[100:100], array[100:]]))[0] == expected
    assert together(array.cast(pa.string_view()))[0] == expected
    assert together(array[:0]) == together([]) == ([], [])
    covered = pa.Array.from_buffers(
        array.type, len(array), [array.buffers()[0], *make(["[1]"] * len(texts)).buffers()[1:]]
    )
    assert [each is None for each in together(covered)[0]] == [text is None for text in texts]


ODD = [
    *(
        '{"a":1e3,"b":"x"}',
        '{"a":12345678901234567890,"b":"x"}',
        '{"a":1,"b":"\\n"}',
        '{"a":01,"b":"x"}',
        '{"a":1.,"b":"x"}',
    ),
    *('{"a":.5,"b":"x"}', '{"a":-,"b":"x"}', '{"a":1-2,"b":"x"}', '{"a":1.2.3,"b":"x"}', '{"a":nul,"b":"x"}'),
    *(
        '{"a":true1,"b":"x"}',
        '{"a": 1,"b":"x"}',
        '{"a":1 ,"b":"x"}',
        '{"a":,"b":"x"}',
        '{"a":1,"b":"x"}}',
        '{"a":1,"b":"x"',
    ),
    *('{"a":1,"a":"x"}', '{"a":1,"b":"x"} ', ' {"a":1,"b":"x"}', '{"a":1,"b":"x",}', '{"a":1,"b":"\t"}', '"', '""', ""),
    *(
        '{"a":--1,"b":"x"}',
        '{"a":-01,"b":"x"}',
        '{"a":00,"b":"x"}',
        '{"a":+1,"b":"x"}',
        '{"a":NaN,"b":"x"}',
        '{"a":"1",b:"x"}',
    ),
    *('{"a":1,"b":"' + "x" * size + '"}' for size in (63, 64, 200, 255, 256, 70_000)),
    *("[]", "{}", "[[]]", '{"a":{},"b":[]}', '{"a":-0,"b":"x"}', '{"a":-0.0,"b":"x"}', '{"a":0.10,"b":"x"}', "[" * 400),
    *(
        f'{{"a":{number},"b":"x"}}'
        for number in (127, 128, -128, -129, 32767, 32768, 2**31 - 1, 2**31, -(2**31), 10**18 - 1)
    ),
    *(
        f'{{"a":{number},"b":"x"}}'
        for number in (10**18, 2**63, "0.999999999", "9.999999999", "123456789.0", "-1.5", "0.0")
    ),
    *(
        '{"a":true,"b":"x"}',
        '{"a":false,"b":"x"}',
        '{"a":null,"b":"x"}',
        '{"a":tru,"b":"x"}',
        '{"a":"x","b":1}',
        '{"é":1}',
    ),
    *(
        '{"a"\uff1a1,"b":"x"}',
        '{"a":1,"b":"\ud800"}',
        '{"a":1,"b":"x"}\x00',
        '{"a":1;"b":"x"}',
        '{"a":[1],"b":"x"}',
        "1",
        "null",
    ),
]


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_text_among_others_has_its_own_variant_or_its_own_error(odd: str) -> None:
    texts: list[str | None] = [f'{{"a":{at},"b":"{at}"}}' for at in range(ROWS)]
    for at in (0, 1, ROWS // 2, ROWS - 1):
        texts[at] = odd
    assert together(texts) == one_by_one(texts)
    alike: list[str | None] = [odd] * ROWS
    assert together(alike) == one_by_one(alike)


scalars = (
    st.sampled_from(
        ["0", "-0", "1", "true", "false", "null", "1.5", "-1.50", "1e2", "007", "", " 1", "1 ", "nulls", "-"]
    )
    | st.integers(-(10**20), 10**20).map(str)
    | st.decimals(-(10**10), 10**10, places=6).map(str)
    | st.text(st.sampled_from('ab é{}[]:,"\\\n'), max_size=5).map(lambda text: f'"{text}"')
    | st.text(max_size=70).map(json.dumps)
)
templates = st.recursive(
    st.just("?"),
    lambda inner: (
        st.lists(inner, max_size=4).map(lambda each: f"[{','.join(each)}]")
        | st.dictionaries(st.sampled_from(["a", "b", "é", "", "c d", '\\"']), inner, max_size=4).map(
            lambda fields: "{" + ", ".join(f'"{name}": {each}' for name, each in fields.items()) + "}"
        )
    ),
    max_leaves=6,
)


@given(st.lists(templates, min_size=1, max_size=2), st.lists(scalars, min_size=1, max_size=12), st.randoms())
@settings(max_examples=40)
def test_any_texts_have_the_bytes_and_the_errors_of_each_alone(
    shapes: list[str], values: list[str], random_: random.Random
) -> None:
    texts: list[str | None] = []
    for _ in range(ROWS + 5):
        parts = random_.choice(shapes).split("?")
        texts.append(parts[0] + "".join(random_.choice(values) + part for part in parts[1:]))
    assert together(texts) == one_by_one(texts)


def test_objects_of_every_size_have_offsets_of_their_own_width() -> None:
    """Below and above 255 bytes of fields, in each of several objects."""
    random_ = random.Random(3)
    texts: list[str] = []
    for _ in range(400):
        parts = [{"x": "y" * random_.randrange(130), "z": "w" * random_.randrange(130)} for _ in range(3)]
        texts.append(json.dumps({"many": parts, "a": parts[0], "b": [1] * 200}))
    assert together(texts) == one_by_one(list(texts))
    assert grouped(texts) > 350


def test_a_text_that_is_not_utf8_is_refused_as_before() -> None:
    array = pa.array(['{"a":"x"}'] * ROWS).cast(pa.binary()).to_pylist()
    array[3] = b'{"a":"\xff"}'
    broken = pa.array(array, pa.binary()).view(pa.string())
    with pytest.raises(UnicodeDecodeError):
        variant.parse_json(broken)


def test_the_first_text_that_is_refused_is_named_by_its_row() -> None:
    texts = [f'{{"a":{at}}}' for at in range(1000)]
    texts[700] = texts[900] = '{"a":01}'
    with pytest.raises(InvalidInputError, match="row 700 has no text of JSON"):
        variant.parse_json(texts)
    assert [row for row, each in enumerate(variant.try_parse_json(texts).to_pylist()) if each is None] == [700, 900]


def test_many_rows_of_several_shapes_keep_their_order() -> None:
    kinds = ['{{"a":{0}}}', '{{"b":"{0}","c":{0}.5}}', "[{0},{0}]", '{{"a":{0},"e":"\\u00e9"}}', "{0}"]
    texts = [kinds[at % 5 if at % 11 else at % 2].format(at) for at in range(17_000)]
    found = variant.to_python(variant.parse_json(texts))
    assert [found[at] for at in (0, 1, 7, 16_998)] == [
        {"a": 0},
        {"b": "1", "c": found[1]["c"]},
        [7, 7],
        {"a": 16_998, "e": "é"},
    ]
    numbers = np.array(
        [
            int(next(iter(each.values())) if isinstance(each, dict) else each[0] if isinstance(each, list) else each)
            for each in found
        ]
    )
    assert (numbers == np.arange(17_000)).all()
