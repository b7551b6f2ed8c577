"""Exact division of decimals: pyarrow's is wrong for some values if the divisor has more than 32 bits.

In: decimal arrays or scalars. Out: the same, rounded, cut or divided. With pyarrow 26, 2**64 - 1 with 38 digits after
the point rounds to 18446744066402043429; to take away up to nine digits at a time is exact, as is every division by a
number of 32 bits.
"""

from __future__ import annotations

import decimal
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_PRECISION = 76
_NARROW_PRECISION = 38
_DIGITS_AT_ONCE = 9
_DIVISOR_MAX = 2**32


def truncated(values: Any, scale: int) -> Any:
    """Decimals with at most ``scale`` digits after the point, cut towards zero: ``decimal256(76, scale)``, or the same
    values if they have no more."""
    while values.type.scale > scale:
        less = max(scale, values.type.scale - _DIGITS_AT_ONCE)
        values = pc.cast(values, pa.decimal256(_PRECISION, less), safe=False)
    return values


def rounded(values: Any, scale: int) -> Any:
    """Decimals rounded half away from zero to ``scale`` digits after the point. The type may keep more digits."""
    kind = values.type
    if kind.scale <= scale:
        return values
    if pa.types.is_decimal128(kind) and kind.precision < _NARROW_PRECISION and kind.scale - scale <= _DIGITS_AT_ONCE:
        with_room = pc.cast(values, pa.decimal128(kind.precision + 1, kind.scale))
        return pc.round(with_room, scale, round_mode="half_towards_infinity")
    # The next digit alone decides, so all others can be cut.
    values = truncated(pc.cast(values, pa.decimal256(_PRECISION, values.type.scale)), scale + 1)
    return pc.round(values, scale, round_mode="half_towards_infinity")


def divided(dividend: Any, divisor: Any) -> Any:
    """``pyarrow.compute.divide_checked`` of 256-bit decimals, with its type and cut towards zero, but exact."""
    found = pc.divide_checked(dividend, divisor)
    if isinstance(found, pa.Scalar):
        (one,) = _quotients([dividend.as_py()], [divisor.as_py()], dividend.type, divisor.type, found.type)
        return pa.scalar(one, found.type)
    limit = pa.scalar(decimal.Decimal(_DIVISOR_MAX).scaleb(-divisor.type.scale), pa.decimal256(_PRECISION, 38))
    is_long = pc.greater_equal(pc.abs(divisor), limit)
    if isinstance(is_long, pa.Scalar):
        is_long = pa.repeat(is_long, len(found))
    rows = pc.indices_nonzero(is_long)
    if not len(rows):
        return found
    ones, others = (
        [each.as_py()] * len(rows) if isinstance(each, pa.Scalar) else each.take(rows).to_pylist()
        for each in (dividend, divisor)
    )
    exact = _quotients(ones, others, dividend.type, divisor.type, found.type)
    return pc.replace_with_mask(found, is_long, pa.array(exact, found.type))


def _quotients(
    ones: Sequence[Any], others: Sequence[Any], dividend: pa.DataType, divisor: pa.DataType, wanted: pa.DataType
) -> list[decimal.Decimal | None]:
    """The quotients in Python's whole numbers, cut towards zero to the type ``wanted``."""
    shift = 10 ** (wanted.scale + divisor.scale - dividend.scale)  # never below 1: Arrow keeps so many digits
    found: list[decimal.Decimal | None] = []
    with decimal.localcontext(decimal.Context(prec=2 * _PRECISION)):
        for one, other in zip(ones, others, strict=True):
            if one is None or other is None:
                found.append(None)
                continue
            above, below = int(one.scaleb(dividend.scale)) * shift, int(other.scaleb(divisor.scale))
            whole = abs(above) // abs(below)
            found.append(decimal.Decimal(whole if (above < 0) == (below < 0) else -whole).scaleb(-wanted.scale))
    return found
