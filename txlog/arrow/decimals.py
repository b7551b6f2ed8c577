"""Exact division of decimals: pyarrow's is wrong for some values if the divisor has more than 32 bits.

In: decimal arrays or scalars. Out: the same, rounded, cut or divided. With pyarrow 26, 2**64 - 1 with 38 digits after
the point rounds to 18446744066402043429; to take away up to nine digits at a time is exact, as is every division by a
number of 32 bits.
"""

from __future__ import annotations

import decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["divided", "rounded", "truncated"]

_PRECISION = 76
_DIGITS_AT_ONCE = 9
_DIVISOR_MAX = 2**32


def truncated(values: Any, scale: int) -> Any:
    """Decimals with at most ``scale`` digits after the point, cut towards zero: ``decimal256(76, scale)``, or the same
    values if they have no more."""
    while values.type.scale > scale:
        less = max(scale, values.type.scale - _DIGITS_AT_ONCE)
        values = _as(values, pa.decimal256(_PRECISION, less))
    return values


def rounded(values: Any, scale: int) -> Any:
    """Decimals rounded half away from zero to ``scale`` digits after the point. The type may keep one more digit."""
    if values.type.scale <= scale:
        return values
    # The next digit alone decides, so all others can be cut.
    values = truncated(_as(values, pa.decimal256(_PRECISION, values.type.scale)), scale + 1)
    return pc.round(values, scale, round_mode="half_towards_infinity")


def divided(dividend: Any, divisor: Any) -> Any:
    """``pyarrow.compute.divide_checked`` of 256-bit decimals, with its type and cut towards zero, but exact."""
    found = pc.divide_checked(dividend, divisor)
    limit = pa.scalar(decimal.Decimal(_DIVISOR_MAX).scaleb(-divisor.type.scale), pa.decimal256(_PRECISION, 38))
    is_long = pc.greater_equal(pc.abs(divisor), limit)
    if isinstance(is_long, pa.Scalar):
        if not is_long.as_py():
            return found
        is_long = None
    elif not pc.any(is_long).as_py():
        return found
    if isinstance(found, pa.Scalar):
        return pa.scalar(_quotient(dividend.as_py(), divisor.as_py(), found.type.scale), found.type)
    rows = range(len(found)) if is_long is None else pc.indices_nonzero(is_long).to_pylist()
    exact = found.to_pylist()
    for row in rows:
        one = dividend if isinstance(dividend, pa.Scalar) else dividend[row]
        other = divisor if isinstance(divisor, pa.Scalar) else divisor[row]
        exact[row] = _quotient(one.as_py(), other.as_py(), found.type.scale)
    return pa.array(exact, found.type)


def _quotient(dividend: decimal.Decimal | None, divisor: decimal.Decimal | None, scale: int) -> Any:
    if dividend is None or divisor is None:
        return None
    with decimal.localcontext(decimal.Context(prec=2 * _PRECISION, rounding=decimal.ROUND_DOWN)):
        one, other = dividend.as_integer_ratio(), divisor.as_integer_ratio()
        above, below = one[0] * other[1] * 10**scale, one[1] * other[0]
        whole = abs(above) // abs(below)
        return decimal.Decimal(whole if (above < 0) == (below < 0) else -whole).scaleb(-scale)


def _as(values: Any, kind: pa.DataType) -> Any:
    return pc.cast(values, kind, safe=False) if isinstance(values, pa.Scalar) else values.cast(kind, safe=False)
