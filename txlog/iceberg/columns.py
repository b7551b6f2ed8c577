"""Many data files at once as records of Iceberg manifests: `FileEncoder` for a table of files, column by column.

In: live files as ``FILES_SCHEMA``, under one definition of the table. Out: for each the bytes that `FileEncoder` makes
of it, at a tenth of the cost. Statistics that Arrow's reader does not read as the rule for one file does, and files
without a number of rows, are left to `FileEncoder`. Iceberg spec, "Data File Fields".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txlog.arrow.arrays import flags_of, numbers_of
from txlog.arrow.maps import partition_texts
from txlog.iceberg.avro import NULL, SOME, encode_bytes, encode_long
from txlog.iceberg.definition import Definition
from txlog.iceberg.file_encoder import PARQUET, EncodedFiles, FileEncoder, PartitionValues
from txlog.iceberg.manifest import nullable_longs
from txlog.iceberg.values import bound_encoder
from txlog.log.files import add_files_of
from txlog.protocol.actions import AddFile
from txlog.protocol.schema import DataType, Primitive
from txlog.protocol.statistics_read import num_records
from txlog.protocol.stats_struct import read_json_objects, tree_type
from txlog.skipping.bounds_columns import BoundsColumns, bounds_of_text, leaves_of

__all__ = ["encode_files", "in_partitions"]

_FIXED = {
    **dict.fromkeys(("byte", "short", "integer", "date"), "<i4"),
    **dict.fromkeys(("long", "timestamp", "timestamp_ntz"), "<i8"),
    "float": "<f4",
    "double": "<f8",
    "boolean": "<u1",
}
_PLAIN_PATH = "^[A-Za-z0-9_=-][A-Za-z0-9_.=-]*(/[A-Za-z0-9_=-][A-Za-z0-9_.=-]*)*$"
_KEPT_FRAGMENTS = 100_000


def encode_files(
    files: pa.Table,
    definition: Definition,
    encoder: FileEncoder,
    rows_of: Callable[[AddFile], int],
    next_row_id: int | None,
) -> EncodedFiles:
    """Encode a table of live files.

    Args:
        files: As ``FILES_SCHEMA``, in the order of the result.
        definition: The table's definition.
        encoder: What encodes single files of it.
        rows_of: Counts the rows of a file whose statistics do not.
        next_row_id: The first row id that no row has; None in v2.

    Raises:
        CorruptLogError: A path or a partition value is not valid.
    """
    stats = files.column("stats").combine_chunks()
    rows, odd, counts, lower, upper = _statistics(stats, definition)
    singles = {at: add_files_of(files.slice(at, 1))[0] for at in np.flatnonzero(odd).tolist()}
    for at, add in singles.items():
        known = num_records(add.stats)
        rows[at] = rows_of(add) if known is None else known
    partitions, where = _partitions(files, encoder, definition)
    locations = _locations(files.column("path"), encoder)
    first_row_ids, next_row_id = _row_ids(files, rows, next_row_id)
    of_v3 = next_row_id is not None
    ids = [_nullable(number) for number in first_row_ids] if of_v3 else [b""] * len(rows)
    tail = NULL * 3 if of_v3 else NULL
    sizes = files.column("size").to_pylist()
    heads = [b"\0" + encode_bytes(location.encode()) + PARQUET for location in locations]
    numbers = [encode_long(count) + encode_long(size) for count, size in zip(rows, sizes, strict=True)]
    records = [
        b"".join((head, part, number, each, low, high, NULL, row_id, tail))
        for head, part, number, each, low, high, row_id in zip(
            heads, where, numbers, counts, lower, upper, ids, strict=True
        )
    ]
    for at, add in singles.items():
        count = rows[at]
        records[at], _ = encoder.data_file(add, lambda _, count=count: count, first_row_ids[at])  # type: ignore[misc]
    return EncodedFiles(locations, rows, partitions, records, next_row_id)


def in_partitions(files: pa.Table, names: Sequence[str]) -> pa.Array:
    """The order of live files in which those of a partition are together: ``names`` are its physical columns."""
    texts = [
        pa.chunked_array([partition_texts(chunk, name)[0] for chunk in files.column("partitionValues").chunks])
        for name in names
    ]
    keyed = pa.table(texts, names=[str(at) for at in range(len(names))])
    return pc.sort_indices(keyed, sort_keys=[(name, "ascending") for name in keyed.column_names])


def _row_ids(files: pa.Table, rows: Sequence[int], next_row_id: int | None) -> tuple[Sequence[int | None], int | None]:
    """The first row id of each file: its own, or the next ones."""
    tracked = files.column("baseRowId").to_pylist()
    if next_row_id is None:
        return tracked, None
    found = []
    for base, count in zip(tracked, rows, strict=True):
        first = next_row_id if base is None else base
        found.append(first)
        next_row_id = max(next_row_id, first + count)
    return found, next_row_id


def _locations(paths: pa.ChunkedArray, encoder: FileEncoder) -> list[str]:
    texts = paths.to_pylist()
    if not pc.all(pc.match_substring_regex(paths, _PLAIN_PATH)).as_py():
        return [encoder.location(text) for text in texts]
    root = encoder.location("x")[:-1]
    return [root + text for text in texts]


def _partitions(
    files: pa.Table, encoder: FileEncoder, definition: Definition
) -> tuple[list[PartitionValues], list[bytes]]:
    """The partition values of each file, typed and as bytes; each combination is decoded once."""
    names = [field.physical_name for field in definition.partition]
    if not names:
        return [()] * files.num_rows, [b""] * files.num_rows
    maps = files.column("partitionValues").combine_chunks()
    columns = [partition_texts(maps, name)[0].to_pylist() for name in names]
    known: dict[tuple[str | None, ...], tuple[PartitionValues, bytes]] = {}
    found = []
    for texts in zip(*columns, strict=True):
        one = known.get(texts)
        if one is None:
            values = encoder.partition_values(dict(zip(names, texts, strict=True)))
            one = known[texts] = (values, encoder.partition_bytes(values))
        found.append(one)
    return [values for values, _ in found], [body for _, body in found]


# --- statistics ---------------------------------------------------------------------------------------------------


def _statistics(texts: pa.StringArray, definition: Definition) -> tuple[list[int], Any, list[bytes], Any, Any]:
    """Rows (-1 if unknown), which files need a closer look, counts, lower and upper bounds."""
    length = len(texts)
    nothing = [NULL] * length
    leaves = leaves_of(definition.physical, frozenset(leaf.path for leaf in definition.leaves))
    unreadable = [-1] * length, np.ones(length, dtype=bool), nothing, nothing, nothing
    if texts.null_count:
        return unreadable
    try:
        bounds = bounds_of_text(texts, leaves)
        rows, counts = _counts(texts, definition)
    except (pa.ArrowException, ValueError):
        return unreadable
    odd = bounds.odd | (rows < 0)
    lower, upper = (_bounds(bounds, definition, length, upper=upper) for upper in (False, True))
    return rows.tolist(), odd, counts, lower, upper


def _counts(texts: pa.StringArray, definition: Definition) -> tuple[Any, list[bytes]]:
    """The rows of each file, and its maps of values and of nulls by column."""
    members: list[tuple[str, pa.DataType]] = [("numRecords", pa.int64()), ("tightBounds", pa.bool_())]
    paths = [leaf.path for leaf in definition.leaves]
    if paths:
        members.append(("nullCount", tree_type((path, pa.int64()) for path in paths)))
    found = read_json_objects(texts, pa.struct(members))
    rows = _numbers(found.field("numRecords"))
    loose = flags_of(pc.fill_null(pc.invert(found.field("tightBounds")), False))
    columns = []
    for path in paths:
        nulls = _numbers(_member(found.field("nullCount"), path))
        meaningless = (nulls > rows) | (loose & (nulls != 0) & (nulls != rows))
        columns.append(np.where(meaningless, -1, nulls))
    keys = [encode_long(leaf.field_id) for leaf in definition.leaves]
    table = np.ascontiguousarray(np.stack([rows, *columns], axis=1))
    raw, width = table.tobytes(), table.shape[1] * 8
    fragments: dict[bytes, bytes] = {}
    encoded = []
    for at, row in enumerate(table.tolist()):
        text = raw[at * width : at * width + width]
        fragment = fragments.get(text)
        if fragment is None:
            nulls = [(key, value) for key, value in zip(keys, row[1:], strict=True) if value >= 0]
            fragment = nullable_longs([(key, row[0]) for key, _ in nulls]) + nullable_longs(nulls)
            if len(fragments) < _KEPT_FRAGMENTS:
                fragments[text] = fragment
        encoded.append(fragment)
    return rows, encoded


def _bounds(bounds: BoundsColumns, definition: Definition, length: int, *, upper: bool) -> list[bytes]:
    """For each file the map from column id to bound.

    Bounds of a fixed width that every file has become one matrix of bytes; each other column is a list.
    """
    always, sometimes = [], []
    for leaf in definition.leaves:
        column = bounds.columns[leaf.path]
        values = column.high if upper else column.low
        if values is None or values.null_count == length:
            continue
        key = encode_long(leaf.field_id)
        form = _FIXED.get(leaf.type.name) if isinstance(leaf.type, Primitive) else None
        if form is None:
            sometimes.append(_variable(values, leaf.type, key, upper=upper))
            continue
        matrix = _matrix(values, form, key, upper=upper)
        if values.null_count:
            sometimes.append(_rows_of(matrix, flags_of(values.is_valid())))
        else:
            always.append(matrix)
    fixed = _rows_of(np.concatenate(always, axis=1), None) if always else [b""] * length
    heads = [SOME + encode_long(count) for count in range(len(always) + len(sometimes) + 1)]
    if not sometimes:
        return [heads[len(always)] + each + b"\0" for each in fixed] if always else [NULL] * length
    found = []
    for each, others in zip(fixed, zip(*sometimes, strict=True), strict=True):
        present = [other for other in others if other is not None]
        count = len(always) + len(present)
        found.append(b"".join((heads[count], each, *present, b"\0")) if count else NULL)
    return found


def _matrix(values: pa.Array, form: str, key: bytes, *, upper: bool) -> Any:
    """A row of bytes for each file: the column's id, the length, the bound."""
    numbers = numbers_of(values)
    if form in ("<f4", "<f8"):  # as in `values.bound_encoder`: a bound of zero holds for both zeros
        numbers = np.where(numbers == 0, 0.0 if upper else -0.0, numbers)
    column = np.ascontiguousarray(numbers.astype(form))
    width = column.dtype.itemsize
    head = np.frombuffer(key + encode_long(width), dtype=np.uint8)
    matrix = np.empty((len(column), len(head) + width), dtype=np.uint8)
    matrix[:, : len(head)] = head
    matrix[:, len(head) :] = column.view(np.uint8).reshape(len(column), width)
    return matrix


def _rows_of(matrix: Any, valid: Any) -> list[Any]:
    raw, width = matrix.tobytes(), matrix.shape[1]
    texts = [raw[at : at + width] for at in range(0, len(raw), width)]
    return texts if valid is None else [text if known else None for text, known in zip(texts, valid, strict=True)]


def _variable(values: pa.Array, data_type: DataType, key: bytes, *, upper: bool) -> list[bytes | None]:
    encode = bound_encoder(data_type, upper=upper)
    known: dict[Any, bytes | None] = {None: None}
    found = []
    for value in values.to_pylist():
        if value not in known:
            body = encode(value) if encode is not None else None
            one = None if body is None else key + encode_bytes(body)
            if len(known) < _KEPT_FRAGMENTS:
                known[value] = one
        else:
            one = known[value]
        found.append(one)
    return found


def _numbers(column: pa.Array) -> Any:
    """Numbers from 0, with -1 for nulls and for what is below."""
    return np.maximum(np.where(flags_of(column.is_valid()), numbers_of(column), -1), -1)


def _member(column: pa.Array, path: Sequence[str]) -> pa.Array:
    for name in path:
        column = column.flatten()[column.type.get_field_index(name)]
    return column


def _nullable(number: int | None) -> bytes:
    return NULL if number is None else SOME + encode_long(number)
