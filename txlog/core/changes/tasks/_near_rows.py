"""Which column chunks may lose rows page by page, if these rows are near each other.

In: the footer of a file, and the positions of rows to remove. Out: whether enough pages are sure to stay as they are,
and the columns that are stored as `parquet_pages` takes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from txlog.core.format.arrow.footer_statistics import FooterStatistics
from txlog.core.format.arrow.parquet_pages import FlatColumn

if TYPE_CHECKING:
    from numpy.typing import NDArray

PAGE_ROWS = 20_000
"""The most rows that Arrow, parquet-java and parquet-rs write into a page."""

_TYPES = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
_MEANINGS = {"BYTE_ARRAY": ("STRING", "NONE"), "FIXED_LEN_BYTE_ARRAY": ("DECIMAL",)}
"""The logical types whose order of values is known there."""


def are_near(removed: NDArray[np.int64], num_rows: int) -> bool:
    """Whether at least half of the rows that stay are in pages without a ``removed`` one. These are numbers of rows in
    a row group of ``num_rows``, ascending."""
    gaps = np.diff(removed, prepend=-1, append=num_rows) - 1
    untouched = int(np.maximum(gaps - PAGE_ROWS, 0).sum())
    return 2 * untouched >= num_rows - len(removed) > 0


def flat_column(metadata: Any, believed: FooterStatistics, group: Any, leaf: int) -> FlatColumn | None:
    """How a leaf is stored in a row group, if its pages hold rows and its statistics can be trusted."""
    column = metadata.schema.column(leaf)
    if column.max_repetition_level or column.max_definition_level > 1:
        return None
    meaning = column.logical_type.type
    if meaning not in _MEANINGS.get(column.physical_type, (meaning,)):
        return None
    found = FlatColumn(_TYPES.index(column.physical_type), column.length, bool(column.max_definition_level))
    statistics = believed.of(group, leaf)
    is_known = statistics is not None and statistics.has_min_max and statistics.has_null_count
    return found if found.has_floats or is_known else None
