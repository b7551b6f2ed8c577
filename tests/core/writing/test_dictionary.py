"""The sample distinguishes repeated values from distinct ones, in any order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from txlog.core.writing._data_file import dictionary_columns

ROWS = 200_000


def random() -> np.random.Generator:
    return np.random.default_rng(3)


def words(numbers: np.ndarray) -> pa.Array:
    return pa.array([f"word-{n}" for n in numbers.tolist()])


@pytest.mark.parametrize(
    ("values", "pays"),
    [
        pytest.param(lambda: words(random().integers(0, 20_000, ROWS)), True, id="text-drawn-from-20000"),
        pytest.param(lambda: words(np.arange(ROWS)), False, id="unique-text"),
        pytest.param(lambda: words(np.arange(ROWS) // 2), False, id="text-in-pairs"),
        pytest.param(lambda: words(np.arange(ROWS) // 100), True, id="sorted-text-in-runs"),
        pytest.param(lambda: pa.array(random().integers(0, 1000, ROWS)), True, id="numbers-drawn-from-1000"),
        pytest.param(lambda: pa.array(np.arange(ROWS)), False, id="unique-numbers"),
        pytest.param(lambda: pa.array(np.maximum(np.arange(ROWS) - 30_000, 0)), False, id="a-long-run-then-unique"),
        pytest.param(lambda: pa.array(random().random(ROWS)), False, id="floats"),
        pytest.param(lambda: pa.array(random().random(ROWS) > 0.5), False, id="booleans"),
        pytest.param(lambda: pa.nulls(ROWS, pa.string()), True, id="only-nulls"),
        pytest.param(lambda: words(np.arange(ROWS) % 4000), True, id="short-text-drawn-from-4000"),
    ],
)
def test_a_dictionary_is_used_where_it_pays(values: Callable[[], pa.Array], pays: bool) -> None:
    assert dictionary_columns(pa.table({"c": values()})) == (("c",) if pays else ())


def test_a_dictionary_that_grows_too_large_is_not_begun() -> None:
    long = pa.array(["x" * 5000 + str(n) for n in range(2000)] * 5)  # 10 MB of distinct values
    assert dictionary_columns(pa.table({"c": long})) == ()


def test_nested_columns_are_decided_by_their_leaves_and_named_as_in_parquet() -> None:
    rows = 10_000
    maps = pa.MapArray.from_arrays(
        pa.array(np.arange(0, 2 * rows + 1, 2), pa.int32()), pa.array(["k", "l"] * rows), pa.array(np.arange(2 * rows))
    )
    lists = pa.ListArray.from_arrays(pa.array(np.arange(rows + 1), pa.int32()), pa.array(["e"] * rows))
    struct = pa.StructArray.from_arrays([lists, maps], names=["l", "m"])
    assert dictionary_columns(pa.table({"s": struct})) == ("s.l.list.element", "s.m.key_value.key")


def test_few_rows_get_no_dictionary() -> None:
    assert dictionary_columns(pa.table({"c": ["x"] * 500})) == ()


def test_a_sample_of_empty_lists_gives_no_dictionary() -> None:
    assert dictionary_columns(pa.table({"c": pa.array([[]] * 5000, pa.list_(pa.string()))})) == ()
