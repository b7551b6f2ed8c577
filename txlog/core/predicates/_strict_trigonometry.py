"""Trigonometric and hyperbolic functions of doubles, ``cbrt``, ``expm1``, ``log1p`` and ``hypot``, as Java's
``StrictMath`` defines them: by the steps of fdlibm (Sun Microsystems, 1993), taken for all rows at once.

In: numpy arrays of doubles. Out: the same.
"""

from __future__ import annotations

import functools
from fractions import Fraction
from typing import Any

import numpy as np

from txlog.core.predicates._strict_math import cut, exp, high_word, polynomial, with_high_word

_PI_HALF, _PI_HALF_LOW = 1.57079632679489655800e00, 6.12323399573676603587e-17
_PI, _PI_LOW = 3.1415926535897931160e00, 1.2246467991473531772e-16
_PI_QUARTER, _PI_QUARTER_LOW = 7.85398163397448278999e-01, 3.06161699786838301793e-17
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_HYPERBOLIC_LARGEST = 7.10475860073943863426e02
_OF_ATAN_EVEN = (
    *(3.33333333333329318027e-01, 1.42857142725034663711e-01, 9.09088713343650656196e-02),
    *(6.66107313738753120669e-02, 4.97687799461593236017e-02, 1.62858201153657823623e-02),
)
_OF_ATAN_ODD = (
    *(-1.99999999998764832476e-01, -1.11111104054623557880e-01, -7.69187620504482999495e-02),
    *(-5.83357013379057348645e-02, -3.65315727442169155270e-02),
)
_ATAN_HIGH = (4.63647609000806093515e-01, 7.85398163397448278999e-01, 9.82793723247329054082e-01, _PI_HALF)
_ATAN_LOW = (2.26987774529616870924e-17, _PI_QUARTER_LOW, 1.39033110312309984516e-17, _PI_HALF_LOW)
_OF_ASIN_ABOVE = (
    *(1.66666666666666657415e-01, -3.25565818622400915405e-01, 2.01212532134862925881e-01),
    *(-4.00555345006794114027e-02, 7.91534994289814532176e-04, 3.47933107596021167570e-05),
)
_OF_ASIN_BELOW = (
    *(1.0, -2.40339491173441421878e00, 2.02094576023350569471e00),
    *(-6.88283971605453293030e-01, 7.70381505559019352791e-02),
)
_OF_SIN = (
    *(8.33333333332248946124e-03, -1.98412698298579493134e-04, 2.75573137070700676789e-06),
    *(-2.50507602534068634195e-08, 1.58969099521155010221e-10),
)
_SIN_FIRST = -1.66666666666666324348e-01
_OF_COS = (
    *(4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05),
    *(-2.75573143513906633035e-07, 2.08757232129817482790e-09, -1.13596475577881948265e-11),
)
_TAN_FIRST = 3.33333333333334091986e-01
_OF_TAN_ODD = (
    *(1.33333333333201242699e-01, 2.18694882948595424599e-02, 3.59207910759131235356e-03),
    *(5.88041240820264096874e-04, 7.81794442939557092300e-05, -1.85586374855275456654e-05),
)
_OF_TAN_EVEN = (
    *(5.39682539762260521377e-02, 8.86323982359930005737e-03, 1.45620945432529025516e-03),
    *(2.46463134818469906812e-04, 7.14072491382608190305e-05, 2.59073051863633712884e-05),
)
_OF_EXPM1 = (
    *(1.0, -3.33333333333331316428e-02, 1.58730158725481460165e-03, -7.93650757867487942473e-05),
    *(4.00821782732936239552e-06, -2.01099218183624371326e-07),
)
_OF_LOG1P = (
    *(6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01, 2.222219843214978396e-01),
    *(1.818357216161805012e-01, 1.531383769920937332e-01, 1.479819860511658591e-01),
)
_PIECES_OF_PI = (
    *(1.57079632673412561417e00, 6.07710050650619224932e-11, 6.07710050630396597660e-11),
    *(2.02226624879595063154e-21, 2.02226624871116645580e-21, 8.47842766036889956997e-32),
)
_OF_CBRT = (19 / 35, -864 / 1225, 45 / 28, 5 / 14, 99 / 70)
_MEDIUM = 2.0**19 * _PI_HALF


# --- angles of numbers ------------------------------------------------------------------------------------------


def atan(x: Any) -> Any:
    size = np.abs(x)
    limits = (0.4375, 0.6875, 1.1875, 2.4375)
    piece = sum((size >= limit).astype(np.int64) for limit in limits)
    reduced = np.select(
        [piece == 0, piece == 1, piece == 2, piece == 3],
        [x, (2.0 * size - 1.0) / (2.0 + size), (size - 1.0) / (size + 1.0), (size - 1.5) / (1.0 + 1.5 * size)],
        -1.0 / size,
    )
    z = reduced * reduced
    w = z * z
    total = z * polynomial(w, _OF_ATAN_EVEN) + w * polynomial(w, _OF_ATAN_ODD)
    at = np.maximum(piece - 1, 0)
    far = np.take(_ATAN_HIGH, at) - ((reduced * total - np.take(_ATAN_LOW, at)) - reduced)
    found = np.where(piece == 0, reduced - reduced * total, np.copysign(far, x))
    found = np.where(size < 2.0**-29, x, found)
    return np.where(size >= 2.0**66, np.copysign(_PI_HALF + _PI_HALF_LOW, x), np.where(np.isnan(x), np.nan, found))


def atan2(y: Any, x: Any) -> Any:
    y, x = y + 0.0, x + 0.0  # as Spark does: both zeros are one
    exponent = (high_word(np.abs(y)) - high_word(np.abs(x))) >> 20
    angle = atan(np.abs(y / x))
    angle = np.where((x < 0) & (exponent < -60), 0.0, np.where(exponent > 60, _PI_HALF + 0.5 * _PI_LOW, angle))
    found = np.where(x < 0, _PI - (angle - _PI_LOW), angle)
    found = np.where(x == 0, _PI_HALF, found)
    found = np.where(y == 0, np.where(x < 0, _PI, 0.0), found)
    of_endless = np.where(np.isinf(y), np.where(x > 0, _PI_QUARTER, 3.0 * _PI_QUARTER), np.where(x > 0, 0.0, _PI))
    found = np.where(np.isinf(x), of_endless, np.where(np.isinf(y), _PI_HALF, found))
    found = np.copysign(found, y)
    found = np.where(x == 1.0, atan(y), found)
    return np.where(np.isnan(x) | np.isnan(y), np.nan, found)


def _of_asin(t: Any) -> Any:
    return t * polynomial(t, _OF_ASIN_ABOVE) / polynomial(t, _OF_ASIN_BELOW)


def asin(x: Any) -> Any:
    size = np.abs(x)
    near = x + x * _of_asin(x * x)
    t = (1.0 - size) * 0.5
    r, s = _of_asin(t), np.sqrt(t)
    first = cut(s)
    c = (t - first * first) / (s + first)
    p, q = 2.0 * s * r - (_PI_HALF_LOW - 2.0 * c), _PI_QUARTER - 2.0 * first
    middle = _PI_QUARTER - (p - q)
    far = _PI_HALF - (2.0 * (s + s * r) - _PI_HALF_LOW)
    found = np.copysign(np.where(high_word(size) >= 0x3FEF3333, far, middle), x)
    found = np.where(size < 0.5, np.where(size < 2.0**-27, x, near), found)
    found = np.where(size == 1.0, x * _PI_HALF + x * _PI_HALF_LOW, found)
    return np.where(size <= 1.0, found, np.nan)


def acos(x: Any) -> Any:
    size = np.abs(x)
    near = _PI_HALF - (x - (_PI_HALF_LOW - x * _of_asin(x * x)))
    t = (1.0 - size) * 0.5
    r, s = _of_asin(t), np.sqrt(t)
    first = cut(s)
    c = (t - first * first) / (s + first)
    above = 2.0 * (first + (r * s + c))
    below = _PI - 2.0 * (s + (r * s - _PI_HALF_LOW))
    found = np.where(size < 0.5, near, np.where(x < 0, below, above))
    found = np.where(high_word(size) <= 0x3C600000, _PI_HALF + _PI_HALF_LOW, found)
    found = np.where(size == 1.0, np.where(x > 0, 0.0, _PI + 2.0 * _PI_HALF_LOW), found)
    return np.where(size <= 1.0, found, np.nan)


# --- of angles --------------------------------------------------------------------------------------------------


def sin(x: Any) -> Any:
    times, y, low = _reduced(x)
    return _turned(x, times, (_sin(y, low), _cos(y, low)))


def cos(x: Any) -> Any:
    times, y, low = _reduced(x)
    return _turned(x, times + 1, (_sin(y, low), _cos(y, low)))


def tan(x: Any) -> Any:
    times, y, low = _reduced(x)
    return np.where(np.isfinite(x), _tan(y, low, times & 1 == 1), np.nan)


def _turned(x: Any, quarters: Any, values: tuple[Any, Any]) -> Any:
    found = np.where(quarters & 1 == 1, values[1], values[0])
    return np.where(np.isfinite(x), np.where(quarters & 2 == 2, -found, found), np.nan)


def _sin(x: Any, low: Any) -> Any:
    z = x * x
    v = z * x
    r = polynomial(z, _OF_SIN)
    found = x - ((z * (0.5 * low - v * r) - low) - v * _SIN_FIRST)
    return np.where(np.abs(x) < 2.0**-27, x, np.where(low == 0, x + v * (_SIN_FIRST + z * r), found))


def _cos(x: Any, low: Any) -> Any:
    size = np.abs(x)
    z = x * x
    r = z * polynomial(z, _OF_COS)
    quarter = with_high_word(np.zeros_like(x), np.maximum(high_word(size) - 0x00200000, 0))
    part = np.where(high_word(size) > 0x3FE90000, 0.28125, quarter)
    far = (1.0 - part) - ((0.5 * z - part) - (z * r - x * low))
    near = 1.0 - (0.5 * z - (z * r - x * low))
    return np.where(size < 2.0**-27, 1.0, np.where(high_word(size) < 0x3FD33333, near, far))


def _tan(x: Any, low: Any, inverts: Any) -> Any:
    """The tangent, or -1 over it."""
    size = np.abs(x)
    is_large = high_word(size) >= 0x3FE59428
    turned = (_PI_QUARTER - size) + (_PI_QUARTER_LOW - np.where(x < 0, -low, low))
    given, below = np.where(is_large, turned, x), np.where(is_large, 0.0, low)
    z = given * given
    w = z * z
    s = z * given
    r = below + z * (s * (polynomial(w, _OF_TAN_ODD) + z * polynomial(w, _OF_TAN_EVEN)) + below)
    r = r + _TAN_FIRST * s
    w = given + r
    v = np.where(inverts, -1.0, 1.0)
    large = np.where(x < 0, -1.0, 1.0) * (v - 2.0 * (given - (w * w / (w + v) - r)))
    first = cut(w)
    rest = r - (first - given)
    a = -1.0 / w
    t = cut(a)
    inverse = t + a * (1.0 + t * first + t * rest)
    found = np.where(is_large, large, np.where(inverts, inverse, w))
    return np.where((size < 2.0**-28) & ~inverts, x, found)


def _reduced(x: Any) -> tuple[Any, Any, Any]:
    """How many right angles are taken from each number, and the rest as a sum of two doubles."""
    size = np.where(np.isfinite(x), np.abs(x), 0.0)
    times = np.where(size <= _PI_QUARTER, 0.0, np.floor(size * 6.36619772367581382433e-01 + 0.5))
    rest = size - times * _PIECES_OF_PI[0]
    low = times * _PIECES_OF_PI[1]
    y = rest - low
    for at, bits in ((2, 16), (4, 49)):
        lost = (high_word(size) >> 20) - ((high_word(y) >> 20) & 0x7FF) > bits
        further = rest - times * _PIECES_OF_PI[at]
        error = times * _PIECES_OF_PI[at + 1] - ((rest - further) - times * _PIECES_OF_PI[at])
        rest, low = np.where(lost, further, rest), np.where(lost, error, low)
        y = rest - low
    tail = (rest - y) - low
    turns: Any = times.astype(np.int64)
    for number in np.flatnonzero(size > _MEDIUM):
        turns[number], y[number], tail[number] = _exactly(float(size[number]))
    is_small, sign = size <= _PI_QUARTER, np.copysign(1.0, x)
    y, tail = np.where(is_small, size, y), np.where(is_small, 0.0, tail)
    return np.where(x < 0, -turns, turns), sign * y, sign * tail


def _exactly(size: float) -> tuple[int, float, float]:
    turn = _right_angle()
    times = round(Fraction(size) / turn)
    rest = Fraction(size) - times * turn
    y = float(rest)
    return times % 4, y, float(rest - Fraction(y))


@functools.cache
def _right_angle() -> Fraction:
    """Half of pi, to more digits than any double takes (Machin)."""
    one = 1 << 1400

    def of_inverse(n: int) -> int:
        total, term, odd = 0, one // n, 1
        while term:
            total += term // odd if odd % 4 == 1 else -(term // odd)
            term, odd = term // (n * n), odd + 2
        return total

    return Fraction(2 * (4 * of_inverse(5) - of_inverse(239)), one)


# --- hyperbolic functions and their parts -----------------------------------------------------------------------


def expm1(x: Any) -> Any:
    size = np.abs(x)
    word = high_word(size)
    safe = np.where(np.isfinite(x), np.clip(x, -800.0, 800.0), 0.0)
    times = np.where(word < 0x3FF0A2B2, np.sign(safe), np.trunc(1.44269504088896338700 * safe + np.copysign(0.5, safe)))
    times = np.where(word > 0x3FD62E42, times, 0.0)
    high, low = safe - times * _LN2_HIGH, times * _LN2_LOW
    given = high - low
    c = (high - given) - low
    half = 0.5 * given
    square = given * half
    r = polynomial(square, _OF_EXPM1)
    t = 3.0 - r * half
    e = square * ((r - t) / (6.0 - given * t))
    zero = given - (given * e - square)
    e = (given * (e - c) - c) - square
    k = times.astype(np.int32)
    one = np.where(given < -0.25, -2.0 * (e - (given + 0.5)), 1.0 + 2.0 * (given - e))
    beyond = np.ldexp(1.0 - (e - given), k) - 1.0
    power = np.ldexp(np.ones_like(given), -k)
    middle = np.ldexp(np.where(k < 20, (1.0 - power) - (e - given), (given - (e + power)) + 1.0), k)
    found = np.select(
        [k == 0, k == -1, k == 1, (k <= -2) | (k > 56)], [zero, 0.5 * (given - e) - 0.5, one, beyond], middle
    )
    found = np.where(word < 0x3C900000, x, found)
    found = np.where(x > 7.09782712893383973096e02, np.inf, np.where((word >= 0x4043687A) & (x < 0), -1.0, found))
    return np.where(np.isnan(x), np.nan, found)


def sinh(x: Any) -> Any:
    size = np.abs(x)
    t = expm1(np.minimum(size, 22.0))
    near = np.where(size < 1.0, 2.0 * t - t * t / (t + 1.0), t + t / (t + 1.0))
    found = np.copysign(0.5, x) * np.where(size < 22.0, near, exp(size))
    root = exp(0.5 * size)
    found = np.where(high_word(size) >= 0x40862E42, np.copysign(0.5, x) * root * root, found)
    found = np.where(size < 2.0**-28, x, found)
    return np.where(size > _HYPERBOLIC_LARGEST, np.copysign(np.inf, x), np.where(np.isnan(x), np.nan, found))


def cosh(x: Any) -> Any:
    size = np.abs(x)
    t = expm1(np.minimum(size, 1.0))
    near = np.where(size < 2.0**-55, 1.0 + t, 1.0 + t * t / ((1.0 + t) + (1.0 + t)))
    power = exp(size)
    found = np.where(size < 22.0, 0.5 * power + 0.5 / power, 0.5 * power)
    root = exp(0.5 * size)
    found = np.where(high_word(size) >= 0x40862E42, 0.5 * root * root, found)
    found = np.where(high_word(size) < 0x3FD62E43, near, found)
    return np.where(size > _HYPERBOLIC_LARGEST, np.inf, np.where(np.isnan(x), np.nan, found))


def tanh(x: Any) -> Any:
    size = np.abs(x)
    large, small = expm1(2.0 * np.minimum(size, 22.0)), expm1(-2.0 * np.minimum(size, 22.0))
    found = np.where(size >= 1.0, 1.0 - 2.0 / (large + 2.0), -small / (small + 2.0))
    found = np.copysign(np.where(size < 22.0, found, 1.0), x)
    return np.where(np.isnan(x), np.nan, np.where(size < 2.0**-55, x * (1.0 + x), found))


def log1p(x: Any) -> Any:
    is_near = (x > -0.2929) & (high_word(x) < 0x3FDA827A) & ((high_word(x) > 0) | (high_word(np.abs(x)) <= 0x3FD2BEC3))
    u = np.where(np.abs(x) < 2.0**53, 1.0 + x, x)
    word = high_word(u)
    k = (word >> 20) - 1023
    c = np.where(np.abs(x) < 2.0**53, np.where(k > 0, 1.0 - (u - x), x - (u - 1.0)) / u, 0.0)
    mantissa = word & 0xFFFFF
    is_upper = mantissa >= 0x6A09E
    scaled = with_high_word(u, mantissa | np.where(is_upper, 0x3FE00000, 0x3FF00000))
    k = np.where(is_near, 0, k + is_upper)
    c = np.where(is_near, 0.0, c)
    left = np.where(is_near, 1, np.where(is_upper, (0x00100000 - mantissa) >> 2, mantissa))
    f = np.where(is_near, x, scaled - 1.0)
    half = 0.5 * f * f
    r = half * (1.0 - 0.66666666666666666 * f)
    tiny = np.where(k == 0, f - r, k * _LN2_HIGH - ((r - (k * _LN2_LOW + c)) - f))
    tiny = np.where(f == 0, k * _LN2_HIGH + (c + k * _LN2_LOW), tiny)
    s = f / (2.0 + f)
    z = s * s
    r = z * polynomial(z, _OF_LOG1P)
    far = k * _LN2_HIGH - ((half - (s * (half + r) + (k * _LN2_LOW + c))) - f)
    found = np.where(left == 0, tiny, np.where(k == 0, f - (half - s * (half + r)), far))
    size = np.abs(x)
    found = np.where(size < 2.0**-29, np.where(size < 2.0**-54, x, x - x * x * 0.5), found)
    found = np.where(x == -1.0, -np.inf, np.where(x < -1.0, np.nan, found))
    return np.where(np.isnan(x) | (x == np.inf), x, found)


def cbrt(x: Any) -> Any:
    size = np.abs(x)
    is_tiny = size < np.finfo(np.float64).tiny
    third = high_word(np.where(is_tiny, size * 2.0**54, size)) // 3 + np.where(is_tiny, 696219795, 715094163)
    t = with_high_word(np.zeros_like(size), third)
    s = _OF_CBRT[0] + (t * t / size) * t
    t = t * (_OF_CBRT[3] + _OF_CBRT[2] / (s + _OF_CBRT[4] + _OF_CBRT[1] / s))
    t = with_high_word(np.zeros_like(t), high_word(t) + 1)
    r = size / (t * t)
    found = np.copysign(t + t * ((r - t) / ((t + t) + r)), x)
    return np.where((x == 0) | ~np.isfinite(x), x, found)


def hypot(x: Any, y: Any) -> Any:
    a, b = np.maximum(np.abs(x), np.abs(y)), np.minimum(np.abs(x), np.abs(y))
    scale = np.where(a > 2.0**500, 600, np.where(b < 2.0**-1022, -1022, np.where(b < 2.0**-500, -600, 0)))
    large, small = np.ldexp(a, -scale), np.ldexp(b, -scale)
    w = large - small
    first = cut(large)
    apart = np.sqrt(first * first - (small * (-small) - (large - first) * (large + first)))
    twice = large + large
    one, other = cut(twice), cut(small)
    near = np.sqrt(one * other - (w * (-w) - (one * (small - other) + (twice - one) * small)))
    found = np.ldexp(np.where(w > small, apart, near), scale)
    found = np.where((high_word(a) - high_word(b) > 0x3C00000) | (b == 0), a + b, found)
    is_endless = np.isinf(x) | np.isinf(y)
    return np.where(is_endless, np.inf, np.where(np.isnan(x) | np.isnan(y), np.nan, found))
