"""Exact division of decimals, at the values where pyarrow's own is wrong: just below powers of two."""

from __future__ import annotations

import itertools
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal, localcontext
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from txlog.core.format.arrow.decimals import divided, rounded, truncated

EXACT = Context(prec=160)
NEAR_POWERS = [2**power + more for power in (20, 32, 54, 62, 64, 96, 120) for more in (-3, -1, 0, 1)]
SCALES = [(9, 0), (10, 0), (18, 2), (20, 1), (38, 0), (38, 4), (38, 20), (3, 3)]


def values_of(scale: int) -> list[Decimal | None]:
    with localcontext(EXACT):
        found = [Decimal(sign * value).scaleb(-shift) for sign in (1, -1) for value in NEAR_POWERS for shift in (0, 2)]
        return [None, *(value for value in found if abs(value) < Decimal(10) ** (76 - scale))]


@pytest.mark.parametrize(("scale", "wanted"), SCALES)
def test_values_near_powers_of_two_are_rounded_and_cut_exactly(scale: int, wanted: int) -> None:
    values = values_of(scale)
    array = pa.array(values, pa.decimal256(76, scale))
    for function, rounding in ((rounded, ROUND_HALF_UP), (truncated, ROUND_DOWN)):
        with localcontext(EXACT):
            expected = [each and each.quantize(Decimal(1).scaleb(-wanted), rounding) for each in values]
        assert function(array, wanted).to_pylist() == expected


def exact_quotients(pairs: list[tuple[Any, Any]], scale: int) -> list[Any]:
    with localcontext(EXACT):
        return [
            None if one is None else (one / other).quantize(Decimal(1).scaleb(-scale), ROUND_DOWN)
            for one, other in pairs
        ]


def test_values_near_powers_of_two_are_divided_exactly() -> None:
    divisors = [Decimal(text) for text in ("3", "0.1", "-1000000007.5", "1e18", "18446744073709551615")]
    dividends = [None, *(Decimal(sign * value) for sign in (1, -1) for value in NEAR_POWERS)]
    pairs = list(itertools.product(dividends, divisors))
    one = pa.array([each for each, _ in pairs], pa.decimal256(45, 6))
    other = pa.array([each for _, each in pairs], pa.decimal256(25, 1))
    found = divided(one, other)
    assert found.to_pylist() == exact_quotients(pairs, found.type.scale)
    by_one = divided(one, other[3])
    assert by_one.to_pylist() == exact_quotients([(each, divisors[3]) for each, _ in pairs], by_one.type.scale)
    alone = divided(one[-1], other[-1])
    assert [alone.as_py()] == exact_quotients(pairs[-1:], alone.type.scale)


@given(
    st.lists(st.tuples(st.integers(-(10**45) + 1, 10**45 - 1), st.integers(1, 10**25 - 1), st.booleans()), min_size=1)
)
def test_any_quotient_is_exact(given: list[tuple[int, int, bool]]) -> None:
    with localcontext(EXACT):
        pairs = [(Decimal(a).scaleb(-6), Decimal(-b if is_negative else b).scaleb(-1)) for a, b, is_negative in given]
    columns = zip(*pairs, strict=True)
    one, other = (
        pa.array(each, kind) for each, kind in zip(columns, (pa.decimal256(45, 6), pa.decimal256(25, 1)), strict=True)
    )
    found = divided(one, other)
    assert found.to_pylist() == exact_quotients(pairs, found.type.scale)
