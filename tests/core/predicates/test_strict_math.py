"""exp, logarithms and powers, against digests of what ``java.lang.StrictMath`` gave for the same 60,000 pairs in Java
17 and in Java 25."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from txlog.core.format.schema import from_arrow
from txlog.core.predicates import _strict_math as strict_math
from txlog.core.predicates._evaluate import evaluate
from txlog.core.predicates._sql import parse

_DIGESTS = {
    "exp": "cf552f11afe20c54240b2e35d6d0dc2de06b4b780d6421a09df94b05f2474cb6",
    "log": "64db439db1944e137f3dd9fc320d3e32f759c11ee75000a72dcdc53de68f3a6d",
    "log10": "cc3f6d57ff80f4aec850365c03e843ec317d362c05837b2b89f82fadbd78c49c",
    "power": "f1ef09d44ebb6a681731406d93ab57ab43a596d12de8803661344689bc07cb50",
}


def _mixed(numbers: Any) -> Any:
    """The numbers' hashes by SplitMix64."""
    z = numbers * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _pairs() -> tuple[Any, Any]:
    """Any bits; numbers with small whole exponents; and small numbers with any exponents; in turn."""
    at = np.arange(60_000, dtype=np.uint64)
    p, q = (_mixed(np.uint64(2) * at + np.uint64(shift)) for shift in (1, 2))
    real_p, real_q = ((each >> np.uint64(11)).astype(np.float64) * 2.0**-53 for each in (p, q))
    kinds = [at % np.uint64(3) == kind for kind in (0, 1)]
    x = np.select(kinds, [p.view(np.float64), real_p * 200 - 100], real_p * 3)
    whole = (q >> np.uint64(58)).astype(np.float64) - 20
    return x, np.select(kinds, [q.view(np.float64), whole], real_q * 200 - 100)


@pytest.mark.parametrize("name", [*_DIGESTS])
def test_every_bit_is_that_of_javas_strict_math(name: str) -> None:
    x, y = _pairs()
    found = strict_math.power(x, y) if name == "power" else getattr(strict_math, name)(x)
    found = np.where(np.isnan(found), np.nan, found).astype("<f8")
    assert hashlib.sha256(found.tobytes()).hexdigest() == _DIGESTS[name]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("exp(1)", 2.7182818284590455),  # which is not Math.E
        ("exp(d)", [1.0, 2.7182818284590455, 0.0, math.inf, None]),
        ("ln(d)", [None, 0.0, None, math.inf, None]),
        ("log(d)", [None, 0.0, None, math.inf, None]),
        ("log(2, d + 7)", [2.807354922057604, 3.0, None, math.inf, None]),
        ("log10(d * 1000)", [None, 3.0, None, math.inf, None]),
        ("log2(8)", 2.0794415416798357 / 0.6931471805599453),
        ("power(d, 0)", [1.0, 1.0, 1.0, 1.0, None]),
        ("pow(-2, 3)", -8.0),
        ("power(d, -1)", [math.inf, 1.0, -0.0, 0.0, None]),
        ("degrees(pi())", 180.0),
        ("rint(2.5)", 2.0),
        ("cbrt(d * 8 - 27)", [-3.0, -2.668401648721945, -math.inf, math.inf, None]),
        ("cbrt(5e-324)", 1.7031839360032603e-108),
    ],
)
def test_what_has_no_logarithm_is_null(text: str, expected: Any) -> None:
    rows = pa.table({"d": [0.0, 1.0, -math.inf, math.inf, None]})
    found = evaluate(parse(text, from_arrow(rows.schema)), rows).to_pylist()
    assert found == (expected if isinstance(expected, list) else [expected] * 5)


def test_a_null_has_a_null_as_its_power() -> None:
    rows = pa.table({"n": [2, None], "m": [None, 3]})
    assert evaluate(parse("power(n, m)", from_arrow(rows.schema)), rows).to_pylist() == [None, None]
