"""The statistics of many files as columns of bounds: ``statistics_read`` for many files at a time.

In: the JSON texts of ``add.stats``, or the struct array of ``add.stats_parsed``, and the requested leaf columns. Out:
`BoundsColumns`, which use exactly the statistics that the rule for one file uses. Text that Arrow's reader refuses, or
might read differently, is refused or marked odd: the rule for one file then decides. PROTOCOL.md, "Per-file
Statistics".
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txlog.core.format.arrow.arrays import array_of, flags_of, from_numbers, numbers_of
from txlog.core.format.schema import (
    DOUBLE,
    TIMES,
    TIMESTAMP,
    TIMESTAMPS,
    DataType,
    Decimal,
    Primitive,
    Struct,
    field_at,
    leaf_paths,
    type_to_arrow,
)
from txlog.core.format.statistics import LAST_CHARACTER, above_all
from txlog.core.format.statistics_read import OLD_LAST_CHARACTER, widened_maximum
from txlog.core.format.stats_struct import read_json_objects, tree_type
from txlog.core.format.type_widening import was_float
from txlog.core.predicates.terms.values import INTEGER_ENDS, Ordered, beside, ordered

Path: TypeAlias = tuple[str, ...]
Mask: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"


class ColumnBounds(msgspec.Struct, frozen=True):
    """One leaf column in each file. ``low`` and ``high`` hold values as `values.ordered` makes them, null if unknown.

    They are None if the column's type has no order in statistics.
    """

    low: pa.Array | None
    high: pa.Array | None
    may_be_null: Mask
    may_be_value: Mask


class BoundsColumns(msgspec.Struct, frozen=True):
    """``empty`` marks files without rows, ``odd`` files whose text only the rule for one file can read."""

    columns: Mapping[Path, ColumnBounds]
    empty: Mask
    odd: Mask


class ColumnLeaf(msgspec.Struct, frozen=True):
    """A leaf column that a predicate names. ``kind`` is its type's name, ``"decimal"``, or "" for one without order."""

    path: Path
    type: DataType
    kind: str
    was_float: bool = False

    def bound(self, value: Any, *, is_maximum: bool) -> Ordered | None:
        """One bound of many files, from a checkpoint's footer, in the form for comparisons; None if it cannot be
        compared.

        Floats have no such bound, since footers leave NaN out.
        """
        wanted = _PYTHON_TYPES.get(self.kind)
        if wanted is None or type(value) is not wanted:
            return None
        if self.kind in _MOMENTS:
            return int(ordered(value, self.type)) + (_MILLISECOND_US if is_maximum else 0)
        if is_maximum and isinstance(value, str):
            return _above_cut(value)
        if isinstance(self.type, Decimal) and isinstance(value, decimal.Decimal):
            return beside(value, self.type.precision, self.type.scale, above=is_maximum)
        return ordered(value, self.type)


def _above_cut(maximum: str) -> str | None:
    """An upper bound, given the greatest of many maxima, of which smaller ones may be cut by an older Delta, and be no
    bounds: their values begin with at least as many UTF-16 units that are no greater than those of this one."""
    units = maximum.encode("utf-16-le")
    if maximum.endswith(OLD_LAST_CHARACTER):
        return None
    if len(units) < 2 * _UNCUT_UNITS and LAST_CHARACTER not in maximum:
        return maximum
    return above_all(units[: 2 * _UNCUT_UNITS].decode("utf-16-le", "ignore").partition(LAST_CHARACTER)[0])


def leaves_of(schema: Struct, paths: frozenset[Path]) -> tuple[ColumnLeaf, ...]:
    """The leaf columns among ``paths``, in schema order; other paths have no statistics."""
    return tuple(
        ColumnLeaf(path, data_type, _kind(data_type), data_type == DOUBLE and was_float(field_at(schema, path)))
        for path, data_type in leaf_paths(schema)
        if path in paths
    )


def bounds_of_text(texts: pa.StringArray, leaves: Sequence[ColumnLeaf]) -> BoundsColumns:
    """The bounds in each text, none of them null. Raises what `parsed_statistics` raises."""
    return bounds_of_parsed(parsed_statistics(texts, leaves), leaves)


def parsed_statistics(texts: pa.StringArray, leaves: Sequence[ColumnLeaf]) -> pa.StructArray:
    """The statistics of these columns in the texts, none of them null, in the types of Arrow's JSON reader.

    Raises ``ArrowException`` or ``ValueError`` if Arrow does not read a text as Python does: the caller then splits the
    texts, and decides what is left file by file.
    """
    ordered_leaves = [leaf for leaf in leaves if leaf.kind]
    members: list[tuple[str, pa.DataType]] = [("numRecords", pa.int64()), ("tightBounds", pa.bool_())]
    if ordered_leaves:
        bounds = tree_type(
            (leaf.path, _JSON_TYPES.get(leaf.kind) or type_to_arrow(leaf.type)) for leaf in ordered_leaves
        )
        members += [("minValues", bounds), ("maxValues", bounds)]
    if leaves:
        members.append(("nullCount", tree_type((leaf.path, pa.int64()) for leaf in leaves)))
    return read_json_objects(texts, pa.struct(members))


def bounds_of_parsed(parsed: pa.StructArray, leaves: Sequence[ColumnLeaf]) -> BoundsColumns:
    """The bounds in each row of `parsed_statistics` of the same ``leaves``. Raises the same errors."""
    table = {field.name: parsed.field(field.name) for field in parsed.type}
    odd = np.zeros(len(parsed), dtype=bool)
    return _assembled(table, leaves, odd, _ordered_text)


def bounds_of_struct(parsed: pa.StructArray, leaves: Sequence[ColumnLeaf]) -> BoundsColumns:
    """The bounds in each row of ``add.stats_parsed``; a leaf that is absent or of another type is unknown."""
    table = dict(zip((field.name for field in parsed.type), parsed.flatten(), strict=True))
    return _assembled(table, leaves, np.zeros(len(parsed), dtype=bool), _ordered_struct)


# --- both ---------------------------------------------------------------------------------------------------------


def _assembled(table: Mapping[str, pa.Array], leaves: Sequence[ColumnLeaf], odd: Mask, convert: Any) -> BoundsColumns:
    length = len(odd)
    rows = _counts(table.get("numRecords"), length)
    tight = table.get("tightBounds")
    loose = np.zeros(length, dtype=bool) if tight is None else _filled(pc.invert(tight), False)
    columns = {}
    for leaf in leaves:
        low = high = None
        if leaf.kind:
            low = convert(_member(table.get("minValues"), leaf.path), leaf, odd, is_maximum=False)
            high = convert(_member(table.get("maxValues"), leaf.path), leaf, odd, is_maximum=True)
        nulls = _counts(_member(table.get("nullCount"), leaf.path), length)
        # A null count above the number of rows is invalid; if bounds are not tight, only 0 and "all" mean anything.
        known = (nulls >= 0) & ~((rows >= 0) & (nulls > rows)) & ~(loose & (nulls != 0) & (nulls != rows))
        columns[leaf.path] = ColumnBounds(
            low, high, may_be_null=~known | (nulls > 0), may_be_value=~known | (rows < 0) | (nulls < rows)
        )
    return BoundsColumns(columns, empty=rows == 0, odd=odd)


def _counts(column: pa.Array | None, length: int) -> Any:
    """Counts; unknown ones are -1."""
    if column is None or not pa.types.is_integer(column.type):
        return np.full(length, -1, dtype=np.int64)
    counts = numbers_of(column.cast(pa.int64()))
    return np.maximum(np.where(flags_of(column.is_valid()), counts, -1) if column.null_count else counts, -1)


def _filled(column: pa.Array, default: bool) -> Mask:
    return flags_of(column) | flags_of(column.is_null()) if default else flags_of(column)


def _member(column: pa.Array | None, path: Path) -> pa.Array | None:
    """The field of nested structs, null if a struct around it is null."""
    for name in path:
        if column is None or not pa.types.is_struct(column.type):
            return None
        index = column.type.get_field_index(name)
        column = None if index < 0 else column.flatten()[index]
    return column


# --- values -------------------------------------------------------------------------------------------------------

_INTEGERS = ("byte", "short", "integer", "long")
_JSON_TYPES = {
    **dict.fromkeys(_INTEGERS, pa.int64()),
    **dict.fromkeys(("float", "double"), pa.float64()),
    "boolean": pa.bool_(),
    **dict.fromkeys(("string", *(each.name for each in TIMES)), pa.string()),
}
_PYTHON_TYPES: Mapping[str, type] = {
    **dict.fromkeys(_INTEGERS, int),
    "decimal": decimal.Decimal,
    "string": str,
    "date": datetime.date,
    **dict.fromkeys((each.name for each in TIMESTAMPS), datetime.datetime),
}
_DATE = r"^\d{4}-\d\d-\d\d$"
_CLOCK = r"T\d\d:\d\d:\d\d(\.\d{1,6})?"
_OFFSET = r"(Z|[+-]([01]\d|2[0-3]):[0-5]\d)"
_MOMENTS = {
    each.name: (rf"^\d{{4}}-\d\d-\d\d{_CLOCK}{_OFFSET if each == TIMESTAMP else ''}$", each.facts.arrow)
    for each in TIMESTAMPS
}
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896  # in the years 1 and 9999, Python's first and last
_DAY_US = 86_400_000_000
_INTEGER_DIGITS = 18  # all such numbers fit into 64 bits
_MILLISECOND_US = 1_000
_UNCUT_UNITS = 31  # an older Delta kept 32 UTF-16 units, and the last one may be half of a character


def _kind(data_type: DataType) -> str:
    if isinstance(data_type, Decimal):
        return "decimal"
    return data_type.name if isinstance(data_type, Primitive) and data_type.name in _JSON_TYPES else ""


def _ordered_text(column: pa.Array, leaf: ColumnLeaf, odd: Mask, *, is_maximum: bool) -> pa.Array:
    """A column from the JSON reader in the form for comparisons; rows that need a closer look become odd."""
    if leaf.kind == "date":
        days = _cast_where(column, _DATE, pa.date32(), odd).cast(pa.int32()).cast(pa.int64())
        return _within(days, _FIRST_DAY, _LAST_DAY, odd)
    if leaf.kind in _MOMENTS:
        pattern, kind = _MOMENTS[leaf.kind]
        moments = _cast_where(column, pattern, kind, odd).cast(pa.int64())
        last = (_LAST_DAY + 1) * _DAY_US - 1 - _MILLISECOND_US
        moments = _within(moments, _FIRST_DAY * _DAY_US, last, odd)
        return pc.add(moments, array_of([_MILLISECOND_US], pa.int64())[0]) if is_maximum else moments
    return _ordered(column, leaf, is_maximum)


def _ordered_struct(column: pa.Array | None, leaf: ColumnLeaf, odd: Mask, *, is_maximum: bool) -> pa.Array | None:
    wanted = type_to_arrow(leaf.type)
    if column is None or not (column.type == wanted or (pa.types.is_timestamp(wanted) and _same_zone(column, wanted))):
        return None
    if leaf.kind == "date":
        return column.cast(pa.int32()).cast(pa.int64())
    if leaf.kind in _MOMENTS:
        moments = column.cast(pa.timestamp("us", wanted.tz), safe=False).cast(pa.int64())
        return pc.add(moments, array_of([_MILLISECOND_US], pa.int64())[0]) if is_maximum else moments
    return _ordered(column, leaf, is_maximum)


def _same_zone(column: pa.Array, wanted: pa.DataType) -> bool:
    return pa.types.is_timestamp(column.type) and (column.type.tz is None) == (wanted.tz is None)


def _ordered(column: pa.Array, leaf: ColumnLeaf, is_maximum: bool) -> pa.Array:
    """Bounds of a type that JSON and Arrow represent alike, in the form for comparisons."""
    if leaf.kind in _INTEGERS:
        return column.cast(pa.int64())
    if leaf.kind == "boolean":
        return column.cast(pa.uint8())
    if leaf.kind == "string" and is_maximum:
        return _widened_maxima(column)
    if leaf.kind in ("float", "double"):
        return _floats(column, leaf, is_maximum)
    if isinstance(leaf.type, Decimal) and leaf.type.precision - leaf.type.scale > _INTEGER_DIGITS:
        end = pa.scalar(INTEGER_ENDS[is_maximum], column.type)
        return pc.if_else(pc.equal(column, end), pa.scalar(None, column.type), column)
    return column


def _widened_maxima(column: pa.Array) -> pa.Array:
    """`widened_maximum` of each."""
    ends = pc.utf8_slice_codeunits(column, -1)
    is_cut = pc.is_in(ends, value_set=array_of([LAST_CHARACTER, OLD_LAST_CHARACTER], ends.type))
    if not flags_of(is_cut).any():
        return column
    cut = column.filter(is_cut).to_pylist()
    return pc.replace_with_mask(column, is_cut, array_of([widened_maximum(each) for each in cut], column.type))


def _floats(column: pa.Array, leaf: ColumnLeaf, is_maximum: bool) -> pa.Array:
    known = _filled(column.is_valid(), False)
    values = np.where(known, numbers_of(column.cast(pa.float64())), 0.0)
    known = known & ~np.isnan(values)
    if leaf.kind == "float" or leaf.was_float:
        with np.errstate(over="ignore"):
            nearest = values.astype(np.float32).astype(np.float64)
        known &= ~(np.isinf(nearest) & np.isfinite(values))
        if leaf.kind == "float":
            values = nearest
        else:
            values = np.maximum(values, nearest) if is_maximum else np.minimum(values, nearest)
    return from_numbers(values, known)


def _cast_where(column: pa.Array, pattern: str, kind: pa.DataType, odd: Mask) -> pa.Array:
    """The texts of this form, cast. Any other text marks its row as odd."""
    plain = pc.match_substring_regex(column, pattern)
    strange = _filled(pc.invert(plain), False)
    if strange.any():
        odd |= strange
        column = pc.if_else(plain, column, pa.scalar(None, pa.string()))
    return column.cast(kind)


def _within(values: pa.Array, first: int, last: int, odd: Mask) -> pa.Array:
    numbers = numbers_of(values)
    odd |= flags_of(values.is_valid()) & ((numbers < first) | (numbers > last))
    return values
