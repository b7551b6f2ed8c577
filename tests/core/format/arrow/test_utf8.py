"""Text that is not UTF-8 is found in every form that a column may have, and nothing else is."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from txlog.core.format.arrow.text import first_not_utf8

BAD = b"\xe9t\xe9"


def text(*values: bytes | None, kind: Any = None) -> pa.Array:
    """Strings of any bytes, as Arrow's readers of files make them."""
    if kind == pa.string_view():
        views = pa.array(values, pa.binary_view())
        return pa.Array.from_buffers(kind, len(values), views.buffers())
    return pa.array(values, pa.large_binary() if kind == pa.large_string() else pa.binary()).view(kind or pa.string())


def first(column: pa.Array) -> tuple[str, int] | None:
    return first_not_utf8(pa.record_batch({"id": pa.array(range(len(column))), "t": column}))


GOOD_TEXT = text(b"a", "été".encode(), None, b"")
BAD_TEXT = text(b"a", "été".encode(), None, BAD)

FORMS = {
    "string": lambda values: values,
    "large-string": lambda values: text(*values.cast(pa.binary()).to_pylist(), kind=pa.large_string()),
    "string-view": lambda values: text(*values.cast(pa.binary()).to_pylist(), kind=pa.string_view()),
    "dictionary": lambda values: pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3]), values),
    "long-dictionary": lambda values: pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 2, 3]), pa.concat_arrays([values, text(BAD, BAD)])
    ),
    "run-ends": lambda values: pa.Array.from_buffers(
        pa.run_end_encoded(pa.int32(), pa.string()), 4, [None], children=[pa.array([1, 2, 3, 4], pa.int32()), values]
    ),
    "struct": lambda values: pa.StructArray.from_arrays([values], ["m"]),
    "list": lambda values: pa.ListArray.from_arrays([0, 1, 2, 3, 4], values),
    "large-list": lambda values: pa.LargeListArray.from_arrays([0, 1, 2, 3, 4], values),
    "fixed-list": lambda values: pa.FixedSizeListArray.from_arrays(values, 1),
    "map-value": lambda values: pa.MapArray.from_arrays([0, 1, 2, 3, 4], pa.array(range(4)), values),
    "map-key": lambda values: pa.MapArray.from_arrays([0, 1, 2, 3, 4], values.fill_null("n"), pa.array(range(4))),
    "extension": lambda values: pa.ExtensionArray.from_storage(pa.opaque(pa.string(), "t", "v"), values),
    "list-of-structs": lambda values: pa.ListArray.from_arrays(
        [0, 1, 2, 3, 4], pa.StructArray.from_arrays([values], ["m"])
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_text_that_is_not_utf8_is_found_in_every_form_of_a_column(form: str) -> None:
    assert first(FORMS[form](BAD_TEXT)) == ("t", 3)
    assert first(FORMS[form](GOOD_TEXT)) is None


@pytest.mark.parametrize("form", FORMS)
def test_text_outside_of_a_slice_does_not_count(form: str) -> None:
    column = FORMS[form](text(BAD, b"a", "é".encode(), BAD))
    assert first(column.slice(1, 2)) is None
    assert first(column.slice(1, 3)) == ("t", 2)
    assert first(column.slice(0, 0)) is None


def test_text_under_a_null_does_not_count() -> None:
    validity = pa.py_buffer(b"\x02")
    hidden = pa.Array.from_buffers(pa.string(), 2, [validity, *text(BAD, b"a").buffers()[1:]])
    assert first(hidden) is None
    mask = pa.array([True, False])
    assert first(pa.StructArray.from_arrays([text(BAD, b"a")], ["m"], mask=mask)) is None
    assert first(pa.ListArray.from_arrays([0, 1, 2], text(BAD, b"a"), mask=mask)) is None


def test_values_that_are_split_between_two_rows_are_not_utf8_together() -> None:
    one, other = "é".encode()[:1], "é".encode()[1:]
    assert first(text(b"a", one, other)) == ("t", 1)


def test_columns_without_text_are_of_no_interest() -> None:
    for column in (pa.nulls(3), pa.array([BAD]), pa.array([1.5]), pa.nulls(3, pa.string())):
        assert first(column) is None
