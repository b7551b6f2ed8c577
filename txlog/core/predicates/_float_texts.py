"""Floats as text, as Java writes them: the fewest digits that give the same number, ``1.0``, ``1.5E10``, ``NaN``.

In: an Arrow array of floats or doubles. Out: strings. Java 17 and 19 write some very large and very small numbers with
different digits (JDK-4511638). Spark runs on both, so these numbers are refused.
"""

from __future__ import annotations

import decimal

import pyarrow as pa
import pyarrow.compute as pc

from txlog.core.predicates.terms.arguments import takes_scalars

_PLAIN = (1e-3, 1e7)
"""Between these, numbers are written without an exponent."""

_AGREED = {pa.float32(): (1e-40, 2.0**25, 1e27), pa.float64(): (1e-319, 2.0**54, 1e27)}
"""Below the first number, and from the second to the third, Java's versions write different digits."""

_POWERS = [float(f"1e{exponent}") for exponent in (*range(17, 23), 24, 25, 26)]
"""Doubles between those two that all versions write alike: not so 1e23."""


@takes_scalars
def float_text(values: pa.Array) -> pa.Array:
    """The text of each number. Raises ``ArrowInvalid`` for one that Java's versions write differently."""
    least, large, larger = _AGREED[values.type]
    size = pc.abs(values)
    is_zero = pc.equal(values, 0)
    differs = pc.or_(
        pc.and_not(pc.less(size, least), is_zero), pc.and_(pc.greater_equal(size, large), pc.less(size, larger))
    )
    if values.type == pa.float64():
        differs = pc.and_not(differs, pc.is_in(size, pa.array(_POWERS)))
    at = pc.index(differs, True).as_py()
    if at >= 0:
        hint = "CAST it to a bigint or a decimal" if size[at].as_py() > 1 else "round it"
        raise pa.ArrowInvalid(f"Java's versions write {values[at].as_py()!r} with different digits: {hint} first")
    shortest = values.cast(pa.string())
    is_whole = pc.invert(pc.match_substring(shortest, "."))
    plain = pc.if_else(is_whole, pc.binary_join_element_wise(shortest, ".0", ""), shortest)
    is_plain = pc.or_(pc.and_(pc.greater_equal(size, _PLAIN[0]), pc.less(size, _PLAIN[1])), is_zero)
    if pc.all(is_plain).as_py() is not False:
        return plain
    others = pa.array(
        [_scientific(text) for text in shortest.filter(pc.invert(is_plain)).to_pylist() if text is not None],
        pa.string(),
    )
    return pc.replace_with_mask(plain, pc.invert(is_plain), others)


_WORDS = {"nan": "NaN", "-nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def _scientific(text: str) -> str:
    """The number with an exponent, and one digit before the point."""
    if text in _WORDS:
        return _WORDS[text]
    sign, digits, exponent = decimal.Decimal(text).as_tuple()
    assert isinstance(exponent, int)
    written = "".join(map(str, digits))
    rest = written[1:].rstrip("0") or "0"
    return f"{'-' * sign}{written[0]}.{rest}E{exponent + len(written) - 1}"
