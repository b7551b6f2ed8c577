"""The comparison operators of SQL as Arrow functions."""

from __future__ import annotations

import pyarrow.compute as pc

__all__ = ["ARROW_COMPARISONS"]

ARROW_COMPARISONS = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
