"""Conditions of Narwhals as `where`: the rows are those that the same condition of Polars keeps."""

from __future__ import annotations

import datetime as dt
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from polars import col as C

from txlog.core.format.schema import from_arrow
from txlog.core.predicates._conditions import bind_predicate
from txlog.core.predicates._evaluate import evaluate
from txlog.errors import InvalidInputError

nw = pytest.importorskip("narwhals", reason="NOT TESTED: narwhals is not installed")

MOMENT = dt.datetime(2026, 11, 20, 8, 15, 0, 123456, tzinfo=dt.timezone.utc)
ROWS = pa.table(
    {
        "id": pa.array(range(5), pa.int64()),
        "i": pa.array([-1, 0, 1, 2, None], pa.int32()),
        "l": pa.array([0, 2**53, 2**53 + 1, 5, None], pa.int64()),
        "d": [0.5, None, float("nan"), 1.0, None],
        "s": ["", "a", "ab", None, "b"],
        "b": [True, False, None, True, False],
        "t": pa.array([MOMENT - dt.timedelta(1), MOMENT, None, MOMENT, MOMENT], pa.timestamp("us", "UTC")),
    }
)
SCHEMA = from_arrow(ROWS.schema)


@pytest.mark.parametrize(
    ("where", "same"),
    [
        (nw.col("i") > 0, C("i") > 0),
        ((nw.col("s") == "a") | ~nw.col("b"), (C("s") == "a") | ~C("b")),
        (nw.col("l").is_in([2**53 + 1]), C("l").is_in([2**53 + 1])),
        (nw.col("t") >= MOMENT, C("t") >= MOMENT),
        (nw.col("i").is_between(0, 1) & ~nw.col("d").is_null(), C("i").is_between(0, 1) & ~C("d").is_null()),
        (nw.col("s").str.starts_with("a"), C("s").str.starts_with("a")),
    ],
    ids=str,
)
def test_a_condition_of_narwhals_keeps_the_rows_that_polars_keeps(where: Any, same: pl.Expr) -> None:
    bound = bind_predicate(where, SCHEMA, zone="UTC")
    found = ROWS.filter(evaluate(bound, ROWS))["id"].to_pylist()
    assert found == pl.DataFrame(ROWS).filter(same)["id"].to_list()


@pytest.mark.parametrize("where", [nw.col("i").sum() > 1, nw.col("i") + 1 > 2, nw.col("d") == float("nan")], ids=str)
def test_what_is_not_exact_is_refused(where: Any) -> None:
    with pytest.raises(InvalidInputError, match="cannot be translated exactly"):
        bind_predicate(where, SCHEMA, zone="UTC")
