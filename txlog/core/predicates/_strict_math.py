"""``exp``, ``log``, ``log10`` and ``pow`` with every bit of Java's ``StrictMath``, for arrays of doubles.

In: numpy arrays of doubles. Out: the same. Libraries of C compute these functions with other last digits on other
machines. Java defines them by the method and the coefficients of fdlibm (Sun Microsystems, 1993), and each step there
is one operation of IEEE 754, which numpy does alike everywhere; here the steps are taken for all rows at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_EXP_LARGEST, _EXP_LEAST = 7.09782712893383973096e02, -7.45133219101941108420e02
_OF_EXP = (
    *(1.66666666666666019037e-01, -2.77777777770155933842e-03, 6.61375632143793436117e-05),
    *(-1.65339022054652515390e-06, 4.13813679705723846039e-08),
)
_OF_LOG_EVEN = (3.999999999940941908e-01, 2.222219843214978396e-01, 1.531383769920937332e-01)
_OF_LOG_ODD = (
    *(6.666666666666735130e-01, 2.857142874366239149e-01),
    *(1.818357216161805012e-01, 1.479819860511658591e-01),
)
_OF_POWER = (
    *(5.99999999999994648725e-01, 4.28571428578550184252e-01, 3.33333329818377432918e-01),
    *(2.72728123808534006489e-01, 2.30660745775561754067e-01, 2.06975017800338417784e-01),
)
_HIGH_WORD = np.int64(-(2**32))
_MANTISSA = 0xFFFFF
"""Of the high word."""


def exp(x: Any) -> Any:
    """e to the power of each number."""
    with np.errstate(all="ignore"):
        size, sign = np.abs(x), np.sign(x)
        times = np.where(high_word(size) < 0x3FF0A2B2, sign, np.trunc(1.44269504088896338700 * x + 0.5 * sign))
        times = np.where((high_word(size) > 0x3FD62E42) & np.isfinite(x), times, 0.0)
        high, low = x - times * _LN2_HIGH, times * _LN2_LOW
        rest = high - low
        square = rest * rest
        c = rest - square * polynomial(square, _OF_EXP)
        near_zero = 1.0 - ((rest * c) / (c - 2.0) - rest)
        found = np.ldexp(1.0 - ((low - (rest * c) / (2.0 - c)) - high), times.astype(np.int32))
        found = np.where(times == 0, np.where(high_word(size) < 0x3E300000, 1.0 + x, near_zero), found)
        found = np.where(x > _EXP_LARGEST, np.inf, np.where(x < _EXP_LEAST, 0.0, found))
        return np.where(np.isnan(x), x, found)


def log(x: Any) -> Any:
    """The natural logarithm of each number: NaN for one below zero."""
    with np.errstate(all="ignore"):
        exponent, mantissa = _parts(x)
        above = (mantissa + 0x95F64) & 0x100000  # whether it counts as less than 1, of the next exponent
        exponent = exponent + (above >> 20)
        times = exponent.astype(np.float64)
        f = with_high_word(_normal(x), mantissa | (above ^ 0x3FF00000)) - 1.0
        s = f / (2.0 + f)
        z = s * s
        w = z * z
        r = z * polynomial(w, _OF_LOG_ODD) + w * polynomial(w, _OF_LOG_EVEN)
        half = 0.5 * f * f
        low = times * _LN2_LOW
        near = times * _LN2_HIGH - ((half - (s * (half + r) + low)) - f)
        far = times * _LN2_HIGH - ((s * (f - r) - low) - f)
        found = np.where(((mantissa - 0x6147A) | (0x6B851 - mantissa)) > 0, near, far)
        tiny = f * f * (0.5 - 0.33333333333333333 * f)
        is_tiny = (_MANTISSA & (2 + mantissa)) < 3
        found = np.where(is_tiny, times * _LN2_HIGH - ((tiny - low) - f), found)
        found = np.where(is_tiny & (f == 0), times * _LN2_HIGH + low, found)
        found = np.where(x == 0, -np.inf, np.where(x < 0, np.nan, found))
        return np.where(np.isnan(x) | (x == np.inf), x, found)


def log10(x: Any) -> Any:
    """The logarithm to the base 10 of each number."""
    with np.errstate(all="ignore"):
        exponent, mantissa = _parts(x)
        below = (exponent < 0).astype(np.int64)
        times = (exponent + below).astype(np.float64)
        scaled = with_high_word(_normal(x), mantissa | ((0x3FF - below) << 20))
        z = times * 3.69423907715893078616e-13 + 4.34294481903251816668e-01 * log(scaled)
        found = z + times * 3.01029995663611771306e-01
        found = np.where(x == 0, -np.inf, np.where(x < 0, np.nan, found))
        return np.where(np.isnan(x) | (x == np.inf), x, found)


def power(x: Any, y: Any) -> Any:
    """Each number to the power of the other."""
    with np.errstate(all="ignore"):
        size, exponent_size = np.abs(x), np.abs(y)
        is_odd = (np.fmod(exponent_size, 2.0) == 1.0) & (exponent_size < 2.0**53)
        is_whole = (np.trunc(y) == y) & (exponent_size >= 1.0)
        is_negative = np.signbit(x)
        sign = np.where(is_negative & is_odd, -1.0, 1.0)
        found = sign * _power_of_size(size, y)
        found = np.where(is_negative & ~is_whole, np.nan, found)
        special = np.where(y < 0, 1.0 / size, size)
        found = np.where(
            (size == 0) | np.isinf(size) | (size == 1),
            np.where(is_negative & (size == 1) & ~is_whole, np.nan, sign * special),
            found,
        )
        endless = np.where(size == 1, np.nan, np.where((size > 1) == (y > 0), np.inf, 0.0))
        found = np.where(np.isinf(y), endless, found)
        found = np.where(exponent_size == 1, np.where(y == 1, x, 1.0 / x), found)
        found = np.where((y == 0.5) & (x >= -np.finfo(np.float64).max), np.sqrt(x + 0.0), found)
        found = np.where(y == 2, x * x, found)
        return np.where(y == 0, 1.0, np.where(np.isnan(x) | np.isnan(y), np.nan, found))


def _power_of_size(size: Any, y: Any) -> Any:
    """2 to the power of ``y * log2(size)``, where the logarithm and the product have more bits than a double."""
    is_huge = np.abs(y) > 2147485695.9995117  # then only a number next to 1 has a power that is no zero or infinity
    high, low = (np.where(is_huge, *parts) for parts in zip(_log2_near_one(size), _log2(size), strict=True))
    first = cut(y)
    low = (y - first) * high + y * low
    high = first * high
    z = low + high
    is_beyond = (z > 1024) | ((z == 1024) & (low + 8.0085662595372944372e-17 > z - high))
    is_nothing = (z < -1075) | ((z == -1075) & (low <= z - high))
    found = _power_of_two(high, low, np.where(np.isfinite(z), z, 0.0))
    found = np.where(is_nothing, 0.0, np.where(is_beyond, np.inf, found))
    far_below = is_huge & (size < 0.9999995231628418)
    far_above = is_huge & (size > 1.0000009536743162)
    found = np.where(far_below, np.where(y < 0, np.inf, 0.0), found)
    return np.where(far_above, np.where(y > 0, np.inf, 0.0), found)


def _log2_near_one(size: Any) -> tuple[Any, Any]:
    t = size - 1.0
    w = (t * t) * (0.5 - t * (0.3333333333333333333333 - t * 0.25))
    u = 1.44269502162933349609 * t
    v = t * 1.92596299112661746887e-08 - w * 1.44269504088896338700
    high = cut(u + v)
    return high, v - (high - u)


def _log2(size: Any) -> tuple[Any, Any]:
    """The logarithm to the base 2 as a sum of two doubles."""
    scaled = np.where(size < np.finfo(np.float64).tiny, size * 2.0**53, size)
    word = high_word(scaled)
    times = (word >> 20) - 0x3FF - np.where(scaled != size, 53, 0)
    mantissa = word & _MANTISSA
    is_middle = (mantissa > 0x3988E) & (mantissa < 0xBB67A)  # between the roots of 3/2 and 3
    is_upper = mantissa >= 0xBB67A
    times = (times + is_upper).astype(np.float64)
    word = (mantissa | 0x3FF00000) - np.where(is_upper, 0x100000, 0)
    near = np.where(is_middle, 1.5, 1.0)
    whole = with_high_word(scaled, word)
    u, v = whole - near, 1.0 / (whole + near)
    ss = u * v
    s_high = cut(ss)
    sum_high = with_high_word(
        np.zeros_like(size), ((word >> 1) | 0x20000000) + 0x00080000 + np.where(is_middle, 1 << 18, 0)
    )
    sum_low = whole - (sum_high - near)
    s_low = v * ((u - s_high * sum_high) - s_high * sum_low)
    square = ss * ss
    r = square * square * polynomial(square, _OF_POWER)
    r = r + s_low * (s_high + ss)
    square = s_high * s_high
    t_high = cut(3.0 + square + r)
    t_low = r - ((t_high - 3.0) - square)
    u, v = s_high * t_high, s_low * t_high + t_low * ss
    p_high = cut(u + v)
    p_low = v - (p_high - u)
    z_high = 9.61796700954437255859e-01 * p_high
    z_low = (
        -7.02846165095275826516e-09 * p_high
        + p_low * 9.61796693925975554329e-01
        + np.where(is_middle, 1.35003920212974897128e-08, 0.0)
    )
    of_near = np.where(is_middle, 5.84962487220764160156e-01, 0.0)
    high = cut(((z_high + z_low) + of_near) + times)
    return high, z_low - (((high - times) - of_near) - z_high)


def _power_of_two(high: Any, low: Any, z: Any) -> Any:
    """2 to the power of ``high + low``, whose sum is ``z``."""
    size = np.abs(cut(z))
    times = np.where(size > 0.5, np.copysign(np.floor(size + 0.5), z), 0.0)
    high = high - times
    t = cut(low + high)
    u = t * 6.93147182464599609375e-01
    v = (low - (t - high)) * 6.93147180559945286227e-01 + t * -1.90465429995776804525e-09
    z = u + v
    w = v - (z - u)
    t = z * z
    c = z - t * polynomial(t, _OF_EXP)
    r = (z * c) / (c - 2.0) - (w + z * w)
    return np.ldexp(1.0 - (r - z), times.astype(np.int32))


def polynomial(x: Any, coefficients: tuple[float, ...]) -> Any:
    *rest, found = coefficients
    total: Any = found
    for coefficient in reversed(rest):
        total = coefficient + x * total
    return total


def _bits(x: Any) -> Any:
    return np.ascontiguousarray(x, np.float64).view(np.int64)


def high_word(x: Any) -> Any:
    """The first 32 bits."""
    return _bits(x) >> 32


def cut(x: Any) -> Any:
    """The number whose last 32 bits are zero."""
    return (_bits(x) & _HIGH_WORD).view(np.float64)


def with_high_word(x: Any, word: Any) -> Any:
    return ((_bits(x) & 0xFFFFFFFF) | (word << 32)).view(np.float64)


def _normal(x: Any) -> Any:
    """The number, or one with the same digits and a larger exponent where it has fewer than 53 of them."""
    return np.where(np.abs(x) < np.finfo(np.float64).tiny, x * 2.0**54, x)


def _parts(x: Any) -> tuple[Any, Any]:
    """The exponent, and the first 20 bits behind the leading one."""
    word = high_word(_normal(x))
    return (word >> 20) - 1023 - np.where(np.abs(x) < np.finfo(np.float64).tiny, 54, 0), word & _MANTISSA
