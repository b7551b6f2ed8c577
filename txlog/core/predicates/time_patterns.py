"""The patterns of dates and times: which ones Spark and txlog read and write alike.

In: a pattern in Spark's letters. Out: its parts: for the check during parsing, and for Arrow during evaluation.
"""

from __future__ import annotations

import re

__all__ = ["TIME_PATTERNS", "pattern_parts"]

TIME_PATTERNS = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}
"""The letters that Spark and Arrow write alike, as Arrow's."""

_PATTERN_PARTS = re.compile(r"([A-Za-z])\1*|[-/:., _]|'[A-Za-z]+'")


def pattern_parts(pattern: str, name: str) -> list[str]:
    """The parts of a pattern that the function ``name`` takes: field letters, or text. Raises ``ValueError``."""
    parts = [found[0] for found in _PATTERN_PARTS.finditer(pattern)]
    if "".join(parts) != pattern or any(part[0].isalpha() and part not in TIME_PATTERNS for part in parts):
        raise ValueError(
            f"{name}() supports the letters {', '.join(TIME_PATTERNS)}, the characters -/:., _ and words in quotes"
            f" like 'T', not {pattern!r}"
        )
    return parts
