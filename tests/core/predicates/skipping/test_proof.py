"""Proofs that every row matches, and conditions that may exclude files: held against the rows themselves."""

from __future__ import annotations

import math
import operator
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from txlog.core.format.schema import DOUBLE, LONG, STRING, Field, Struct, to_arrow
from txlog.core.predicates import col, evaluate
from txlog.core.predicates.skipping._one_file import Pruner
from txlog.core.predicates.skipping._proof import every_row_matches, without_nan_doubts
from txlog.core.predicates.terms.predicate import And, Constant, Not, Or, Predicate, bind

SCHEMA = Struct((Field("n", LONG), Field("s", STRING), Field("p", STRING), Field("x", DOUBLE)))
PARTITIONS = ("p",)

numbers = st.integers(-3, 3)
floats = st.sampled_from([-1.0, 0.0, 1.0, math.nan, math.inf])
operators = st.sampled_from([operator.eq, operator.ne, operator.lt, operator.gt, operator.le, operator.ge])
atoms = st.one_of(
    st.builds(
        lambda op, value: getattr(col("n"), op)(value),
        st.sampled_from(["__eq__", "__ne__", "__lt__", "__ge__"]),
        numbers,
    ),
    st.builds(
        lambda op, value: getattr(col("x"), op)(value),
        st.sampled_from(["__eq__", "__ne__", "__lt__", "__gt__"]),
        floats,
    ),
    st.builds(lambda values: col("n").is_in(values), st.lists(st.one_of(numbers, st.none()), max_size=3)),
    st.builds(lambda values: col("x").is_in(values), st.lists(floats, max_size=3)),
    st.builds(lambda value: col("p") == value, st.sampled_from("ab")),
    st.builds(lambda value: col("s") >= value, st.sampled_from("ab")),
    st.sampled_from(["n", "s", "p", "x"]).map(lambda name: col(name).is_null()),
    st.sampled_from([True, False, None]).map(Constant),
)
predicates = st.recursive(
    atoms,
    lambda inner: st.one_of(st.builds(And, inner, inner), st.builds(Or, inner, inner), inner.map(Not)),
    max_leaves=6,
)
rows = st.lists(
    st.fixed_dictionaries(
        {
            "n": st.one_of(numbers, st.none()),
            "s": st.one_of(st.sampled_from("ab"), st.none()),
            "x": st.one_of(floats, st.none()),
        }
    ),
    min_size=1,
    max_size=4,
)


def statistics(given: list[dict[str, Any]], slack: int) -> str:
    """Bounds that are ``slack`` too wide, as with a vector; for floats without NaN, as some writers have them."""
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for name in ("n", "s", "x"):
        held = [row[name] for row in given if row[name] is not None]
        found = [value for value in held if value == value and value != math.inf]
        nulls[name] = sum(row[name] is None for row in given)
        if found and (name != "x" or math.inf not in held):
            low[name] = min(found) - slack if name == "n" else min(found)
            high[name] = max(found) + slack if name == "n" else max(found)
    counts = {"numRecords": len(given), "minValues": low, "maxValues": high, "nullCount": nulls}
    return orjson.dumps(counts | ({"tightBounds": False} if slack else {})).decode()


def matching(predicate: Predicate, given: list[dict[str, Any]], partition: str | None) -> int:
    table = pa.Table.from_pylist([{**row, "p": partition} for row in given], to_arrow(SCHEMA))
    return int(evaluate(predicate, table).true_count)


@given(predicates, rows, st.sampled_from(["a", "b", None]), st.sampled_from([0, 1]))
def test_what_is_proven_holds_for_every_row_and_what_is_excluded_for_none(
    predicate: Predicate, given: list[dict[str, Any]], partition: str | None, slack: int
) -> None:
    bound = bind(predicate, SCHEMA)
    found = matching(bound, given, partition)
    stats = statistics(given, slack)
    if every_row_matches(Pruner(bound, SCHEMA, PARTITIONS), {"p": partition}, stats):
        assert found == len(given)
    necessary = without_nan_doubts(bound, SCHEMA)
    assert matching(necessary, given, partition) >= found
    if not Pruner(necessary, SCHEMA, PARTITIONS).may_match({"p": partition}, stats):
        assert found == 0


@pytest.mark.parametrize(
    ("predicate", "is_proven"),
    [
        (col("p") == "a", True),
        (col("n") >= 1, True),
        (col("n") > 1, False),
        (~(col("n") < 1), True),
        (col("n").is_not_null(), True),
        (col("s") >= "a", False),  # writers cut strings
        (col("x") >= 0.0, False),  # NaN
        (col("p").is_in(["a", None]), False),
        ((col("n") >= 1) & (col("x") >= 0.0), False),
        ((col("n") >= 1) | (col("x") >= 0.0), True),
    ],
)
def test_only_exact_bounds_prove_that_every_row_matches(predicate: Predicate, is_proven: bool) -> None:
    stats = statistics([{"n": 1, "s": "a", "x": 1.0}, {"n": 3, "s": "b", "x": 2.0}], 0)
    pruner = Pruner(predicate, SCHEMA, PARTITIONS)
    assert every_row_matches(pruner, {"p": "a"}, stats) is is_proven
    assert every_row_matches(pruner, {}, None) is False


@pytest.mark.parametrize(
    "predicate",
    [
        ~(col("x") <= 1.0),
        ~(col("x") < 1.0),
        ~(col("x") == 0.0),
        ~col("x").is_in([0.0]),
        ~~(col("x") > 1.0),
        ~((col("x") <= 1.0) & (col("n") == 1)),
        col("x") > 1.0,
        col("x") >= 1.0,
        col("x") != 0.0,
        col("x") == math.nan,
        col("x").is_in([1.0, math.nan]),
    ],
    ids=str,
)
def test_bounds_without_nan_do_not_exclude_a_file_with_nan(predicate: Predicate) -> None:
    given = [{"n": 1, "s": "a", "x": 0.0}, {"n": 1, "s": "a", "x": math.nan}]
    bound = bind(predicate, SCHEMA)
    assert matching(bound, given, "a") == 1
    assert Pruner(without_nan_doubts(bound, SCHEMA), SCHEMA, PARTITIONS).may_match({"p": "a"}, statistics(given, 0))
