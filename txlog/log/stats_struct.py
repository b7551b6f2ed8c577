"""The JSON text of ``add.stats`` to typed columns, as a checkpoint holds them in ``add.stats_parsed``.

In: a string array and the columns that have statistics. Out: a struct array; null where the text is. A value that
does not fit its column's type is left out, as a missing bound is always allowed. The way back is in ``stats_text``.
PROTOCOL.md, "Checkpoint Schema", "Per-file Statistics".
"""

from __future__ import annotations

import decimal
import json
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from txlog.protocol.schema import DataType, Decimal, Primitive, type_to_arrow

__all__ = ["statistics_as_struct", "statistics_type"]

_BOUNDED = frozenset(
    {"byte", "short", "integer", "long", "float", "double", "date", "timestamp", "timestamp_ntz", "string"}
)
_SLICE_ROWS = 16_384


def statistics_type(leaves: Iterable[tuple[tuple[str, ...], DataType]]) -> pa.StructType:
    """The type of ``stats_parsed`` for these leaf columns (path, type); the trees mirror nested structs."""
    bounds: dict[str, Any] = {}
    counts: dict[str, Any] = {}
    for path, data_type in leaves:
        _plant(counts, path, pa.int64())
        if isinstance(data_type, Decimal) or (isinstance(data_type, Primitive) and data_type.name in _BOUNDED):
            _plant(bounds, path, type_to_arrow(data_type))
    members = [("numRecords", pa.int64()), ("tightBounds", pa.bool_())]
    members += [("minValues", _struct(bounds)), ("maxValues", _struct(bounds))] if bounds else []
    members += [("nullCount", _struct(counts))] if counts else []
    return pa.struct(members)


def _plant(tree: dict[str, Any], path: tuple[str, ...], leaf: pa.DataType) -> None:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = leaf


def _struct(tree: dict[str, Any]) -> pa.StructType:
    return pa.struct([(name, _struct(item) if isinstance(item, dict) else item) for name, item in tree.items()])


def statistics_as_struct(texts: pa.StringArray, kind: pa.StructType) -> pa.StructArray:
    """Parse one JSON object per row. Text that is no JSON at all becomes null."""
    parts = [_parse_slice(texts.slice(start, _SLICE_ROWS), kind) for start in range(0, len(texts), _SLICE_ROWS)]
    return pa.concat_arrays(parts) if parts else pa.array([], kind)


def _parse_slice(texts: pa.StringArray, kind: pa.StructType) -> pa.StructArray:
    try:
        members = _parse_columnar(texts, kind)
    except (pa.ArrowException, ValueError):
        return pa.array([_parse_one(text, kind) for text in texts.to_pylist()], kind)
    return pa.StructArray.from_arrays(members, fields=list(kind), mask=texts.is_null())


def _parse_columnar(texts: pa.StringArray, kind: pa.StructType) -> list[pa.Array]:
    """All rows at once, through Arrow's JSON reader; raises where one row has something it does not take."""
    import numpy as np
    import pyarrow.compute as pc
    import pyarrow.json as pj

    present = pc.fill_null(texts, "{}") if texts.null_count else texts
    offsets = np.frombuffer(present.buffers()[1], dtype=np.int32)[present.offset : present.offset + len(present) + 1]
    # The objects stand one after the other in the array's own buffer, and so they are parsed: no copy, no newlines.
    body = present.buffers()[2].slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    table = pj.read_json(
        pa.BufferReader(body),
        read_options=pj.ReadOptions(use_threads=False, block_size=body.size + 1),
        parse_options=pj.ParseOptions(
            explicit_schema=pa.schema(list(_readable(kind))), unexpected_field_behavior="ignore"
        ),
    )
    if table.num_rows != len(texts):
        raise ValueError(f"{len(texts)} rows were parsed to {table.num_rows}")
    return [table.column(field.name).combine_chunks().cast(field.type) for field in kind]


def _readable(kind: pa.StructType) -> pa.StructType:
    """The same type with dates as timestamps, since the JSON reader knows no dates."""
    members = []
    for field in kind:
        if pa.types.is_struct(field.type):
            members.append((field.name, _readable(field.type)))
        else:
            members.append((field.name, pa.timestamp("s") if pa.types.is_date(field.type) else field.type))
    return pa.struct(members)


def _parse_one(text: str | None, kind: pa.StructType) -> dict[str, Any] | None:
    try:
        value = None if text is None else json.loads(text, parse_float=decimal.Decimal)
    except (ValueError, RecursionError):
        return None
    fitted: dict[str, Any] | None = _fitted(value, kind)
    return fitted


def _fitted(value: Any, kind: pa.DataType) -> Any:
    if pa.types.is_struct(kind):
        if not isinstance(value, dict):
            return None
        return {field.name: _fitted(value.get(field.name), field.type) for field in kind}
    if isinstance(value, decimal.Decimal) and not pa.types.is_decimal(kind):
        value = float(value)
    try:
        return None if value is None else pa.array([value]).cast(kind)[0].as_py()
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return None
