"""The JSON text of ``add.stats`` to typed columns, as a checkpoint holds them in ``add.stats_parsed``.

In: a string array and the columns that have statistics. Out: a struct array; null where the text is null. A value
that does not fit its column's type is left out: a missing bound is always allowed. ``stats_text`` does the reverse.
PROTOCOL.md, "Checkpoint Schema", "Per-file Statistics".
"""

from __future__ import annotations

import decimal
import json
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from txlog.core.format.arrow.arrays import array_of, flags_of, from_numbers, numbers_or
from txlog.core.format.package_bounds import text_form, with_typed_bounds
from txlog.core.format.schema import BOOLEAN, DataType, Primitive, has_bounds, type_to_arrow
from txlog.core.format.statistics_read import num_records

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from txlog.core.util import Apply

_SLICE_ROWS = 8_192
_SLICE_ROWS_MIN = 64
READ_BYTES = 4 << 20  # at a time, so a reader needs little memory besides the texts


def statistics_type(
    leaves: Iterable[tuple[tuple[str, ...], DataType]], *, has_booleans: bool = False, features: Collection[str] = ()
) -> pa.StructType:
    """The type of ``stats_parsed`` for these leaf columns (path, type); the trees mirror nested structs.

    ``has_booleans`` adds the bounds of booleans, which JSON texts may have and checkpoints leave out. With a table's
    ``features``, types of packages have bounds too, if one of these says so.
    """
    counted = list(leaves)
    bounded = [
        (path, type_to_arrow(data_type))
        for path, data_type in counted
        if has_bounds(data_type) or (has_booleans and data_type == BOOLEAN) or _has_own_bounds(data_type, features)
    ]
    members = [("numRecords", pa.int64()), ("tightBounds", pa.bool_())]
    members += [("minValues", tree_type(bounded)), ("maxValues", tree_type(bounded))] if bounded else []
    members += [("nullCount", tree_type((path, pa.int64()) for path, _ in counted))] if counted else []
    return pa.struct(members)


def _has_own_bounds(data_type: DataType, features: Collection[str]) -> bool:
    needed = data_type.facts.bounds_feature if isinstance(data_type, Primitive) else ""
    return bool(needed) and any(feature.removesuffix("-preview") == needed for feature in features)


def tree_type(leaves: Iterable[tuple[tuple[str, ...], pa.DataType]]) -> pa.StructType:
    """The nested struct type that has these leaves at these paths."""
    tree: dict[str, Any] = {}
    for path, leaf in leaves:
        _plant(tree, path, leaf)
    return _struct(tree)


def _plant(tree: dict[str, Any], path: tuple[str, ...], leaf: pa.DataType) -> None:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = leaf


def _struct(tree: dict[str, Any]) -> pa.StructType:
    return pa.struct([(name, _struct(item) if isinstance(item, dict) else item) for name, item in tree.items()])


def statistics_as_struct(texts: pa.StringArray, kind: pa.StructType, apply: Apply = map) -> pa.StructArray:
    """Parse one JSON object per row. Invalid JSON becomes null. ``apply`` maps over many rows."""
    read = text_form(kind)
    if read != kind:
        return with_typed_bounds(statistics_as_struct(texts, read, apply), kind)
    if texts.null_count:
        valid = flags_of(texts.is_valid())
        return statistics_as_struct(texts.drop_null(), kind, apply).take(from_numbers(np.cumsum(valid) - 1, valid))
    slices = (texts.slice(start, _SLICE_ROWS) for start in range(0, len(texts), _SLICE_ROWS))
    parts = [part for found in apply(lambda each: list(_parse(each, kind)), slices) for part in found]
    return pa.concat_arrays(parts) if parts else pa.nulls(0, kind)


def _parse(texts: pa.StringArray, kind: pa.StructType) -> Iterator[pa.StructArray]:
    """Parse all rows at once. If Arrow refuses a row, parse ever smaller pieces around it."""
    try:
        found = read_json_objects(texts, kind)
    except (pa.ArrowException, ValueError):
        if len(texts) <= _SLICE_ROWS_MIN:
            yield array_of([_parse_one(text, kind) for text in texts.to_pylist()], kind)
            return
        step = -(-len(texts) // 8)
        for start in range(0, len(texts), step):
            yield from _parse(texts.slice(start, step), kind)
    else:
        yield found


def read_json_objects(texts: pa.StringArray, kind: pa.StructType) -> pa.StructArray:
    """The fields that ``kind`` names, from the JSON object in each text; no text is null.

    Raises ``ArrowException`` or ``ValueError`` if Arrow's JSON reader refuses one of the texts.
    """
    step = max(1, READ_BYTES * len(texts) // max(1, texts.nbytes))
    if len(texts) <= step:
        return _read(texts, kind)
    return pa.concat_arrays([_read(texts.slice(at, step), kind) for at in range(0, len(texts), step)])


_ROWS = pa.struct([("numRecords", pa.int64())])


def recorded_rows(texts: pa.StringArray) -> NDArray[np.int64]:
    """``numRecords`` of each JSON text, -1 if it has none."""
    rows = np.full(len(texts), -1, dtype=np.int64)
    present = flags_of(texts.is_valid())
    found = texts.filter(texts.is_valid())
    try:
        counts = numbers_or(read_json_objects(found, _ROWS).field("numRecords"), -1)
    except (pa.ArrowException, ValueError):  # one text is not plain JSON: parse them one by one
        known = (num_records(text) for text in found.to_pylist())
        counts = np.array([-1 if count is None else count for count in known], dtype=np.int64)
    rows[present] = np.maximum(counts, -1)
    return rows


def _read(texts: pa.StringArray, kind: pa.StructType) -> pa.StructArray:
    from txlog.core.format.arrow.json import pj

    if not len(texts):
        return pa.nulls(0, kind)
    offsets = np.frombuffer(texts.buffers()[1], dtype=np.int32)[texts.offset : texts.offset + len(texts) + 1]
    # The objects are adjacent in the array's own buffer, and are parsed there: no copy, no newlines.
    body = texts.buffers()[2].slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    letters = np.frombuffer(body, dtype=np.uint8)
    starts, ends = offsets[:-1] - offsets[0], offsets[1:] - offsets[0] - 1
    if (ends <= starts).any() or (letters[starts] != ord("{")).any() or (letters[ends] != ord("}")).any():
        raise ValueError("not every text is one object")
    table = pj.read_json(
        pa.BufferReader(body),
        read_options=pj.ReadOptions(use_threads=False, block_size=body.size + 1),
        parse_options=pj.ParseOptions(
            explicit_schema=pa.schema(list(_readable(kind))), unexpected_field_behavior="ignore"
        ),
    )
    if table.num_rows != len(texts):
        raise ValueError(f"{len(texts)} texts hold {table.num_rows} objects")
    members = [table.column(field.name).combine_chunks().cast(field.type) for field in kind]
    return pa.StructArray.from_arrays(members, fields=list(kind))


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
    except (ValueError, ArithmeticError, RecursionError):
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
    import txlog.core.format.arrow.python_values  # noqa: F401  has pyarrow import pandas

    try:
        return None if value is None else pa.array([value]).cast(kind)[0].as_py()
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return None
