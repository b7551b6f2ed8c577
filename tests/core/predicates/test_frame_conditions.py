"""Conditions of Polars as `where`: the rows are those that Polars itself keeps, or they are refused.

The oracle is Polars' own filter on the same rows.
"""

from __future__ import annotations

import copy
import datetime as dt
import itertools
import math
import operator
import pickle
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import txlog
from txlog.core.format.schema import from_arrow
from txlog.core.predicates._conditions import bind_predicate
from txlog.core.predicates._evaluate import evaluate
from txlog.errors import InvalidInputError
from txlog.table import Table

UTC = dt.timezone.utc
MOMENT = dt.datetime(2026, 11, 20, 8, 15, 0, 123456)
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i": (pa.int32(), [-1, 0, 1, 2, None]),
    "l": (pa.int64(), [-(2**53) - 1, 0, 2**53, 2**53 + 1, None]),
    "f": (pa.float32(), [-0.0, 0.10000000149011612, 0.5, math.nan, None]),
    "d": (pa.float64(), [-math.inf, 0.1, 0.5, math.nan, None]),
    "m": (pa.decimal128(10, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal("0.10"), Decimal("0.50"), None]),
    "s": (pa.string(), ["", "a", "ab", "\uffff", None]),
    "b": (pa.bool_(), [True, False, True, False, None]),
    "y": (pa.binary(), [b"", b"a", b"\xff", b"ab", None]),
    "day": (pa.date32(), [dt.date(2026, 11, day) for day in (19, 20, 21, 22)] + [None]),
    "t": (pa.timestamp("us", "UTC"), [MOMENT.replace(hour=hour, tzinfo=UTC) for hour in (7, 8, 9, 10)] + [None]),
    "n": (pa.timestamp("us"), [MOMENT.replace(hour=hour) for hour in (7, 8, 9, 10)] + [None]),
}
LITERALS: list[Any] = [
    *(0, 1, -5, 2**53, 2**53 + 1, 2**62, 0.1, 0.5, 1.0, -0.0, math.nan, math.inf, Decimal("0.5"), Decimal("0.501")),
    *("a", "\U0001f600", b"a", True, dt.date(2026, 11, 20), MOMENT, MOMENT.replace(tzinfo=UTC)),
]
SIGNS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)


PLACES = pa.array([{"x": number, "Y": number} for number in range(5)])
ROWS = pa.table({name: pa.array(values, kind) for name, (kind, values) in VALUES.items()})
ROWS = ROWS.append_column("p", PLACES).append_column("id", pa.array(range(5), pa.int64()))
SCHEMA, FRAME = from_arrow(ROWS.schema), pl.DataFrame(ROWS)


def kept(where: Any) -> list[int] | None:
    """The rows that txlog keeps, or None if it refuses the condition."""
    try:
        bound = bind_predicate(where, SCHEMA, zone="UTC")
    except InvalidInputError:
        return None
    return list(ROWS.filter(evaluate(bound, ROWS))["id"].to_pylist())


def expected(where: pl.Expr) -> list[int] | None:
    """The rows that Polars keeps, or None if it refuses the condition."""
    try:
        return list(FRAME.filter(where)["id"].to_list())
    except pl.exceptions.PolarsError:
        return None


def test_a_comparison_of_polars_keeps_the_rows_that_polars_keeps_or_is_refused() -> None:
    wrong, understood = [], 0
    for name, value, sign in itertools.product(VALUES, LITERALS, SIGNS):
        for where in (sign(pl.col(name), value), ~sign(pl.col(name), value)):
            found = kept(where)
            understood += found is not None
            if found is not None and found != (own := expected(where)) and own is not None:
                wrong.append((str(where), found, own))
    assert not wrong
    assert understood >= 400


C = pl.col
UNDERSTOOD = [
    *(C(name).is_null() for name in VALUES),
    *(C(name).is_not_null() for name in VALUES),
    *(~C(name).is_in(values[:2]) for name, (_, values) in VALUES.items() if name != "f"),
    C("i").is_in([]),
    # In a filter, though in no column, Polars 2.0 takes a null for one that is not in an empty list.
    *([] if pl.__version__.startswith("2.0.") else [~C("i").is_in([])]),
    C("l").is_in(pl.Series([2**53 + 1, 0])),
    C("d").is_in([0.5, math.nan]),
    ~C("d").is_nan(),
    C("d").is_not_nan(),
    *(C("i").is_between(0, 2, closed) for closed in ("both", "left", "right", "none")),
    C("d").is_between(0, math.inf),
    C("s").str.starts_with("a"),
    ~C("s").str.ends_with("b"),
    C("b"),
    ~C("b"),
    (C("i") > 0) & C("b") | (C("s") == "a"),
    C("i").eq_missing(None),
    pl.all_horizontal(C("i") > 0, C("b"), C("s") == "a"),
    ~pl.any_horizontal(C("i") > 0, C("b")),
    C("s").ne_missing("a"),
    pl.lit(1) < C("i"),
    C("p").struct.field("x") > 2,
    C("i") == C("i"),
    C("i") == pl.lit(None),
]


@pytest.mark.parametrize("where", UNDERSTOOD, ids=str)
def test_a_condition_of_polars_keeps_the_rows_that_polars_keeps(where: pl.Expr) -> None:
    assert kept(where) == expected(where)


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        (C("i") + 1 > 2, "Polars and SQL may compute Plus differently"),
        (C("i") > C("l"), "Polars may round where it compares int with bigint"),
        (C("l") > 0.5, "Polars may round or fail where it compares bigint with"),
        (C("i").is_in([1, None]), "Polars and SQL differ about null in a list"),
        (C("I") > 1, "there is no column I: Polars tells it from i"),
        (C("i").cast(pl.Int64) > 1, "there is no equivalent of Cast"),
        (C("s").str.to_uppercase() == "A", "there is no equivalent of Uppercase"),
        (C("i").sum() > 1, "there is no equivalent of Agg"),
        (C("nothing") > 1, "there is no column nothing"),
    ],
    ids=str,
)
def test_what_polars_computes_otherwise_is_refused_by_name(where: Any, reason: str) -> None:
    with pytest.raises(InvalidInputError, match=reason):
        bind_predicate(where, SCHEMA, zone="UTC")


def test_deletes_and_updates_take_conditions_of_polars(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "id bigint, s string")
    table.append(pa.table({"id": [1, 2, 3], "s": ["a", "b", None]}))
    table.update({"s": txlog.lit("new")}, C("s").is_null())
    table.delete(C("id").is_between(2, 2))
    assert table.to_arrow().sort_by("id").to_pylist() == [{"id": 1, "s": "a"}, {"id": 3, "s": "new"}]


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("isin", ".is_in"),
        ("isNull", ".is_null"),
        ("isNotNull", ".is_not_null"),
        ("startswith", ".starts_with"),
        ("is_between", ".between(low, high)"),
        ("eqNullSafe", "<=>"),
        ("cast", "CAST(amount AS int)"),
        ("alias", "the mapping"),
        ("str", 'txlog.expr("upper(name)")'),
    ],
)
def test_a_name_of_pandas_polars_or_pyspark_on_a_column_is_answered_with_txlogs(name: str, use: str) -> None:
    for column in (txlog.col("x"), txlog.col("x") * 2, txlog.expr("x + 1")):
        with pytest.raises(AttributeError, match=re.escape(use)) as failure:
            getattr(column, name)
        assert isinstance(failure.value, InvalidInputError)
        assert not hasattr(column, "nothing_like_it")
        assert str(pickle.loads(pickle.dumps(column))) == str(copy.deepcopy(column)) == str(column)
