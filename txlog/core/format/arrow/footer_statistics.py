"""Which statistics in the footer of a Parquet file are true: some writers are known to have written false ones.

In: a checked footer, and a column chunk. Out: the chunk's statistics, or None if they cannot be trusted: readers then
read more, and miss nothing. The rules are those by which parquet-mr (``CorruptStatistics``,
``ParquetMetadataConverter``) and Arrow (``ApplicationVersion::HasCorrectStatistics``) decide, and the faults that the
writers' own projects report. parquet-format, ``parquet.thrift``, ``ColumnOrder``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

import pyarrow as pa

from txlog.core.util import cached_property, pattern

_VERSION = pattern(r"(.*?)\s+version\s+v?(\d+)\.(\d+)(?:\.(\d+))?.*")
_BYTES = ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
_TIMES = ("DATE", "TIME", "TIMESTAMP")
_PARQUET_251 = (1, 8, 0)
"""Before this release parquet-mr kept a buffer as a bound and then wrote other values into it (PARQUET-251)."""
_DICTIONARIES_SINCE = {"parquet-cpp-arrow": (12, 0, 0)}
"""Before this release Arrow counted no nulls of dictionaries (ARROW-12513), and took the bounds of some of their pages
for those of all (apache/arrow#34106)."""


class _WritingProgram(NamedTuple):
    name: str
    version: tuple[int, int, int] | None


@lru_cache(64)
def _writer(created_by: str | None) -> _WritingProgram:
    found = _VERSION.fullmatch(created_by or "")
    if found is None:
        return _WritingProgram((created_by or "").partition(" version")[0], None)
    return _WritingProgram(found[1], (int(found[2]), int(found[3]), int(found[4] or 0)))


class FooterStatistics:
    """The statistics of a file's column chunks, as far as they are true.

    ``metadata`` has passed `check_footer`, which returned ``orders``: whether the footer states the order of each
    leaf's bounds.
    """

    def __init__(self, metadata: Any, orders: Sequence[bool]) -> None:
        self._metadata = metadata
        self._orders = orders
        self._doubts = _Doubts(metadata)

    def of(self, group: Any, leaf: int) -> Any | None:
        """The statistics of a leaf in a row group, or None."""
        column = self._metadata.schema.column(leaf)
        if self._doubts.has_any(leaf, column):
            return None
        found = group.column(leaf).statistics
        if found is None or not _is_consistent(found, group.column(leaf), column):
            return None
        if column.physical_type in _BYTES and not self._orders[leaf] and not self._doubts.is_one_value(found):
            return None
        return found

    def arrow_agrees(self, names: Collection[str]) -> bool:
        """Whether Arrow may skip row groups by its own reading of the statistics of these top-level columns: it trusts
        some that are not to be."""
        paths = [self._metadata.schema.column(leaf).path for leaf in range(len(self._orders))]
        leaves = [
            leaf
            for leaf, path in enumerate(paths)
            if any(prefix in names for prefix in accumulate(path.split("."), "{}.{}".format))
        ]
        groups = [self._metadata.row_group(group) for group in range(self._metadata.num_row_groups)]
        return not any(
            group.column(leaf).statistics is not None and self.of(group, leaf) is None
            for leaf in leaves
            for group in groups
        )


class _Doubts:
    """What is known of the program that wrote a file."""

    def __init__(self, metadata: Any) -> None:
        self._metadata = metadata
        self.writer = name, version = _writer(metadata.created_by)
        self.of_dictionaries = name.startswith("Arrow2") or (
            name in _DICTIONARIES_SINCE and (version is None or version < _DICTIONARIES_SINCE[name])
        )

    @cached_property
    def _dictionaries(self) -> frozenset[int] | None:
        """The leaves that were dictionaries in Arrow's memory; None if the file does not say."""
        if b"ARROW:schema" not in (self._metadata.metadata or {}):
            return None
        leaves = (kind for field in self._metadata.schema.to_arrow_schema() for kind in _leaves(field.type))
        return frozenset(at for at, kind in enumerate(leaves) if pa.types.is_dictionary(kind))

    def has_any(self, leaf: int, column: Any) -> bool:
        """Whether the writer's statistics of such a leaf may be false, whatever they are."""
        kind = column.physical_type
        if kind == "INT96":  # its order is not defined
            return True
        if self.writer.name.startswith(
            "Parquet.Net"
        ):  # bounds of times in another unit than their values; text in another order
            return kind in _BYTES or column.logical_type.type in (*_TIMES, "DECIMAL")
        if not self.of_dictionaries:
            return False
        return kind == "BYTE_ARRAY" if self._dictionaries is None else leaf in self._dictionaries

    def is_one_value(self, statistics: Any) -> bool:
        """Whether bounds without an order are true all the same: in each order if they are one value."""
        name, version = self.writer
        is_corrupt = not name or (name == "parquet-mr" and (version is None or version < _PARQUET_251))
        return not is_corrupt and statistics.has_min_max and statistics.min_raw == statistics.max_raw


def _is_consistent(statistics: Any, chunk: Any, column: Any) -> bool:
    if statistics.has_null_count and not 0 <= statistics.null_count <= chunk.num_values:
        return False
    if not statistics.has_min_max or column.converted_type.startswith("UINT"):
        return True
    low, high = statistics.min_raw, statistics.max_raw
    if column.logical_type.type == "DECIMAL" and isinstance(low, bytes):
        low, high = (int.from_bytes(bound, "big", signed=True) for bound in (low, high))
    return not low > high


def _leaves(kind: pa.DataType) -> Iterator[pa.DataType]:
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if not pa.types.is_nested(kind):
        yield kind
        return
    for at in range(kind.num_fields):
        yield from _leaves(kind.field(at).type)
