"""The curve, and ranks of values: as decisions over numbers."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from txlog.core.maintenance.rewriting._hilbert import Ranks, bits_for, can_rank, hilbert_distance


@pytest.mark.parametrize(("dimensions", "bits"), [(1, 5), (2, 4), (3, 3), (4, 2), (2, 1)])
def test_the_curve_visits_every_point_once_and_goes_to_a_neighbor_each_time(dimensions: int, bits: int) -> None:
    axes = np.meshgrid(*[np.arange(1 << bits)] * dimensions, indexing="ij")
    points = np.array(axes).reshape(dimensions, -1).astype(np.uint64)
    distances = hilbert_distance(points, bits)
    assert sorted(distances.tolist()) == list(range(1 << (dimensions * bits)))
    path = points[:, np.argsort(distances)].astype(np.int64)
    assert (np.abs(np.diff(path, axis=1)).sum(axis=0) == 1).all()


@pytest.mark.parametrize("columns", range(1, 9))
def test_a_distance_fits_into_64_bits(columns: int) -> None:
    assert columns * bits_for(columns) <= 63


VALUES: list[Any] = [
    pa.array([3, None, -5, 2**62, 0, 3]),
    pa.array([2.5, float("-inf"), None, float("nan"), 0.0]),
    pa.array(["customer-10", "customer-2", None, "customer-", "customer-2x"]),
    pa.array([b"\x00", b"\xff\xff", None, b"\x01"]),
    pa.array(["a", "b", None], pa.large_string()),
    pa.array([datetime.date(1600, 1, 1), None, datetime.date(2026, 11, 22)]),
    pa.array([datetime.datetime(1969, 1, 1), None, datetime.datetime(2026, 11, 22)], pa.timestamp("us")),
    pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("-99.99")]),
    pa.array([True, None, False]),
]


@pytest.mark.parametrize("values", VALUES, ids=lambda values: str(values.type))
def test_ranks_have_the_order_of_the_values_and_null_has_the_least(values: pa.Array) -> None:
    assert can_rank(values.type)
    ranks = Ranks.of(values, 12).of_values(values).tolist()
    known = [(value, rank) for value, rank in zip(values.to_pylist(), ranks, strict=True) if value is not None]
    known.sort(key=lambda each: (each[0] != each[0], each[0]))
    assert [rank for _, rank in known] == sorted(rank for _, rank in known)
    assert ranks[values.to_pylist().index(None)] == 0
    assert max(ranks) < 1 << 12


def test_text_that_is_not_utf8_is_ranked_by_its_bytes() -> None:
    """Other writers may have stored any bytes as text, and their table is clustered like others."""
    values = pa.array([b"a", b"\xe9", b"\xff\xfe"])
    assert Ranks.of(values.view(pa.string()), 12).of_values(values.view(pa.string())).tolist() == (
        Ranks.of(values, 12).of_values(values).tolist()
    )


def test_ranks_of_few_values_are_spread_evenly_and_nulls_rank_zero() -> None:
    values = pa.array(["a", "b", "c"] * 10)
    assert sorted(set(Ranks.of(values, 10).of_values(values).tolist())) == [341, 682, 1023]
    nothing = pa.array([None, None], pa.int64())
    assert Ranks.of(nothing, 10).of_values(nothing).tolist() == [0, 0]


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=200, max_size=300, unique=True))
def test_each_rank_has_about_as_many_values_whatever_their_distribution(values: list[int]) -> None:
    counts = np.bincount(Ranks.of(pa.array(values), 3).of_values(pa.array(values)).astype(np.int64), minlength=8)
    assert counts.max() - counts.min() <= 2


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.int64()), pa.struct([("a", pa.int64())]), pa.map_(pa.string(), pa.int64())]
)
def test_nested_types_have_no_order(kind: pa.DataType) -> None:
    assert not can_rank(kind)
