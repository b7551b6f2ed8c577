"""Which row groups of a Parquet file may hold a row that a predicate keeps, by the statistics in its footer.

In: a bound predicate and footers. Out: row group numbers. A column's footer statistics become the same `ColumnFacts` as
the log's statistics of a whole file, and the rule for one file decides.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from txlog.core.format.arrow.footer_statistics import FooterStatistics
from txlog.core.format.arrow.parquet_footer import check_footer
from txlog.core.format.schema import DataType, Decimal, Primitive, Struct, leaf_paths, timestamp_of
from txlog.core.format.statistics import file_leaves
from txlog.core.predicates.skipping._one_file import ColumnFacts, Pruner, possible
from txlog.core.predicates.terms.predicate import Predicate
from txlog.core.predicates.terms.tree import Path
from txlog.core.predicates.terms.values import Ordered
from txlog.core.util import cached_property

_Bound: TypeAlias = Callable[[Any], Ordered]
"""Makes a raw footer value an ordered one. Raises ValueError if it cannot be trusted."""

_INTEGERS = ("byte", "short", "integer", "long")
_TICKS_PER_MS = {"ms": 1, "us": 1_000, "ns": 1_000_000}
_WIDE = decimal.Context(prec=100)


class RowGroupPruner:
    """One predicate, bound to the table's schema, for the files of one table. In doubt, a row group stays."""

    def __init__(self, predicate: Predicate, schema: Struct, partition_columns: tuple[str, ...]) -> None:
        self._of = predicate, schema, partition_columns

    @cached_property
    def _pruner(self) -> Pruner:
        return Pruner(*self._of)  # files with one row group, as most are, do without

    @cached_property
    def _leaves(self) -> dict[Path, Primitive | Decimal]:
        stored = self._pruner.paths - {(name,) for name in self._pruner.partition_columns}
        return {
            path: data_type
            for path, data_type in leaf_paths(self._pruner.schema)
            if path in stored and isinstance(data_type, Primitive | Decimal)
        }

    def matching(
        self, metadata: pq.FileMetaData, footer: bytes, partition_values: Mapping[str, str | None]
    ) -> list[int]:
        """The row groups to read, ascending. For a file with only one, the log's statistics have already decided.

        Raises ``pa.ArrowInvalid`` if ``footer``, from which ``metadata`` was made, is damaged.
        """
        groups = range(metadata.num_row_groups)
        if len(groups) < 2 or not self._leaves:
            return list(groups)
        believed = FooterStatistics(metadata, check_footer(footer, metadata))
        # Nothing is known about a column that the file lacks or has in another type.
        in_file = dict(file_leaves(metadata.schema.to_arrow_schema()))
        columns = [
            (path, in_file[path][0], *_bounds(data_type, in_file[path][1]))
            for path, data_type in self._leaves.items()
            if path in in_file and not pa.types.is_nested(in_file[path][1])
        ]
        known = self._pruner.partition_facts(partition_values)
        return [group for group in groups if self._may_match(metadata.row_group(group), believed, columns, known)]

    def _may_match(
        self,
        group: Any,
        believed: FooterStatistics,
        columns: Iterable[tuple[Path, int, _Bound | None, _Bound | None]],
        known: Mapping[Path, ColumnFacts],
    ) -> bool:
        if group.num_rows == 0:
            return False
        facts = {path: _facts(group, believed.of(group, index), *bounds) for path, index, *bounds in columns}
        return possible(self._pruner.predicate, {**known, **facts})[0]


def _facts(group: Any, statistics: Any | None, minimum: _Bound | None, maximum: _Bound | None) -> ColumnFacts:
    """What a column's statistics in the footer say about one row group."""
    if statistics is None:
        return ColumnFacts()
    nulls = statistics.null_count if statistics.has_null_count else None
    low = high = None
    if statistics.has_min_max and minimum is not None and maximum is not None:
        try:
            low, high = minimum(statistics.min_raw), maximum(statistics.max_raw)
        except ValueError:
            low = high = None
    return ColumnFacts(low, high, nulls is None or nulls > 0, nulls is None or nulls < group.num_rows)


def _bounds(data_type: DataType, file_type: pa.DataType) -> tuple[_Bound | None, _Bound | None]:
    """How raw minima and maxima of a column become ordered values; None if they cannot.

    Floats have none: footers leave NaN out of their bounds, and NaN is greater than every number.
    """
    types = pa.types
    name = data_type.name if isinstance(data_type, Primitive) else ""
    as_it_is = (
        (name in _INTEGERS and types.is_signed_integer(file_type))
        or (name == "boolean" and types.is_boolean(file_type))
        or (name == "date" and types.is_date32(file_type))
    )
    if as_it_is:
        return _same, _same
    if name == "string" and types.is_string(file_type):
        return bytes.decode, bytes.decode
    if isinstance(data_type, Decimal) and types.is_decimal(file_type) and file_type.scale == data_type.scale:
        decimals = _decimals(data_type.scale)
        return decimals, decimals
    is_moment = types.is_timestamp(file_type) and data_type == timestamp_of(has_zone=file_type.tz is not None)
    if is_moment and file_type.unit in _TICKS_PER_MS:
        ticks = _TICKS_PER_MS[file_type.unit]
        # Readers cut nanoseconds to microseconds, so the bounds are moved outwards.
        return lambda raw: raw * 1_000 // ticks, lambda raw: -(-raw * 1_000 // ticks)
    return None, None


def _same(raw: Any) -> Any:
    return raw


def _decimals(scale: int) -> _Bound:
    def bound(raw: int | bytes) -> decimal.Decimal:
        unscaled = raw if isinstance(raw, int) else int.from_bytes(raw, "big", signed=True)
        return decimal.Decimal(unscaled).scaleb(-scale, context=_WIDE)

    return bound
