"""What the log knows about each file, as Arrow expressions that hold for all its rows.

In: live files (``partitionValues`` and ``stats``), a table's schema, and a filter's columns. Out: one expression for
each file, or None. Arrow's datasets call such an expression a guarantee: they skip a file whose guarantee contradicts
the filter, and take partition values from it. Floats have guarantees only as partition values: bounds do not cover NaN,
which may pass filters that exclude them. PROTOCOL.md, "Per-file Statistics", "Partition Value Serialization".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from txlog.core.format.column_mapping import physical_name
from txlog.core.format.schema import Decimal, Field, Struct, type_to_arrow
from txlog.core.predicates.skipping import ColumnBounds, ColumnLeaf, bounds_of_text, leaves_of
from txlog.core.predicates.terms.values import beside
from txlog.core.reading._scan_task import partition_scalar

Expression: TypeAlias = pc.Expression

_UNORDERED = ("", "float", "double")
_SLICE_ROWS = 4_096


class Guarantees:
    """The guarantees of a table's files for some columns.

    Args:
        schema: The table's columns; statistics name them by their physical names.
        partition_columns: The table's partition columns.
        columns: The top-level columns whose bounds are needed. Partition values are always included.
    """

    def __init__(self, schema: Struct, partition_columns: tuple[str, ...], columns: Iterable[str]) -> None:
        constant = schema.own_names(partition_columns)
        self._partition = [each for each in schema.fields if each.name in constant]
        wanted = {*columns}
        stored = [each for each in schema.fields if each.name not in constant and each.name in wanted]
        # The statistics have physical names, so the schema for reading them must too.
        physical = Struct(tuple(Field(physical_name(each), each.type, each.nullable, each.metadata) for each in stored))
        self._names = {physical_name(each): each.name for each in stored}
        paths = frozenset((name,) for name in self._names)
        self._leaves = tuple(leaf for leaf in leaves_of(physical, paths) if leaf.kind not in _UNORDERED)
        self._values: dict[tuple[tuple[str, str | None], ...], Expression | None] = {}

    def of(self, files: pa.Table) -> Iterator[Expression | None]:
        """The guarantee of each file, in order."""
        for batch in files.select(["partitionValues", "stats"]).combine_chunks().to_batches(max_chunksize=_SLICE_ROWS):
            bounds = self._bounds(batch.column("stats")) if self._leaves else [None] * batch.num_rows
            for values, known in zip(batch.column("partitionValues").to_pylist(), bounds, strict=True):
                yield _both(self._of_partition(dict(values or ())), known)

    def _of_partition(self, values: Mapping[str, str | None]) -> Expression | None:
        if not self._partition:
            return None
        key = tuple(values.items())
        if key not in self._values:
            found: Expression | None = None
            for column in self._partition:
                value = partition_scalar(column, values)
                name = pc.field(column.name)
                found = _both(found, name == value if value.is_valid else name.is_null())
            self._values[key] = found
        return self._values[key]

    def _bounds(self, texts: pa.StringArray) -> list[Expression | None]:
        found: list[Expression | None] = [None] * len(texts)
        present = [row for row, is_there in enumerate(texts.is_valid().to_pylist()) if is_there]
        try:
            bounds = bounds_of_text(texts.filter(texts.is_valid()), self._leaves)
        except (pa.ArrowException, ValueError):  # rare JSON forms: such files are always opened
            return found
        for leaf in self._leaves:
            for at, known in enumerate(self._column(bounds.columns[leaf.path], leaf)):
                if not bounds.odd[at] and not bounds.empty[at]:
                    found[present[at]] = _both(found[present[at]], known)
        return found

    def _column(self, known: ColumnBounds, leaf: ColumnLeaf) -> Iterator[Expression | None]:
        name = pc.field(self._names[leaf.path[0]])
        is_null = name.is_null()
        kind = type_to_arrow(leaf.type)
        for low, high, may_be_null, may_be_value in zip(
            _scalars(known.low, leaf, kind, above=False),
            _scalars(known.high, leaf, kind, above=True),
            known.may_be_null.tolist(),
            known.may_be_value.tolist(),
            strict=True,
        ):
            if not may_be_value:
                yield is_null
                continue
            found: Expression | None = None
            for bound in (None if low is None else name >= low, None if high is None else name <= high):
                if bound is not None:
                    found = _both(found, bound | is_null if may_be_null else bound)
            yield found


def _scalars(bounds: pa.Array | None, leaf: ColumnLeaf, kind: pa.DataType, *, above: bool) -> list[pa.Scalar | None]:
    """Bounds in their ordered form as scalars of the column's type, None where unknown."""
    assert bounds is not None, "a leaf with an order has bounds"
    if isinstance(leaf.type, Decimal):
        precision, scale = leaf.type.precision, leaf.type.scale
        wider = (None if each is None else beside(each, precision, scale, above=above) for each in bounds.to_pylist())
        return [None if each is None else pa.scalar(each, kind) for each in wider]
    if pa.types.is_date32(kind):
        bounds = bounds.cast(pa.int32())
    # A bound that does not fit the type is dropped: the statistics have another type than the column.
    try:
        typed = bounds.cast(kind)
    except pa.ArrowInvalid:
        return [None] * len(bounds)
    return [each if each.is_valid else None for each in typed]


def _both(left: Any, right: Any) -> Any:
    """The conjunction of two guarantees, either of which may be None."""
    if left is None or right is None:
        return right if left is None else left
    return left & right
