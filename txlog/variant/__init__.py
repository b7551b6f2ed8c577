"""Variants: values of any type in one column, such as JSON. What makes them, and what they hold.

In: texts of JSON, Python values, or columns of variants, which are Arrow structs of two binaries, ``value`` and
``metadata``. Out: such columns, texts, or Python values. Names load on first use. docs/variants.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from txlog.variant.columns import from_python, parse_json, to_json, to_python, try_parse_json
    from txlog.variant.encoding import Nanoseconds, Timestamp
else:
    from txlog.core.util import face

    __getattr__, __dir__ = face(
        __name__,
        """
        columns: from_python parse_json to_json to_python try_parse_json
        encoding: Nanoseconds Timestamp
        """,
    )

__all__ = [
    "Nanoseconds",
    "Timestamp",
    "from_python",
    "parse_json",
    "to_json",
    "to_python",
    "try_parse_json",
]
