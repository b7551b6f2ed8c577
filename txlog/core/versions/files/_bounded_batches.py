"""Parquet rows in batches of bounded size: a file of a few kilobytes may decode to gigabytes.

In: an open Parquet file, and the wanted columns and row groups. Out: record batches of at most ``rows`` rows, cut as
soon as they hold ``size_bytes``. If one long dictionary value may occur in every row, this looks up the longest value,
and decodes fewer rows at a time to stay within the bound.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from txlog.core.parallel import parallel_map

_STEP_BYTES = 128 << 20
_READ_BYTES = 1 << 20
_STEP_ROWS_MIN = 256
_SLOT_BYTES = 17  # the most that a null takes in Arrow: a decimal and a bit


def bounded_batches(
    file: Any,
    source: Any,
    columns: Sequence[str],
    *,
    rows: int,
    size_bytes: int,
    row_groups: Sequence[int] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The ``columns`` of a ``ParquetFile`` in batches of ``rows`` rows, or fewer as soon as they hold ``size_bytes``.

    ``source`` is what the file reads from. It decodes one step beyond the bound: 256 rows or more. Raises what pyarrow
    raises.
    """
    groups = list(range(file.metadata.num_row_groups) if row_groups is None else row_groups)
    step_rows = _step_rows(file.metadata, source, columns, groups, rows)
    steps: list[pa.RecordBatch] = []
    held_rows = held_bytes = 0
    missing_rows = sum(file.metadata.row_group(group).num_rows for group in groups)
    for step in file.iter_batches(step_rows, row_groups=groups, columns=list(columns), use_threads=False):
        if steps and held_rows + step.num_rows > rows:
            yield from _joined(steps)
            steps, held_rows, held_bytes = [], 0, 0
        steps.append(step)
        missing_rows -= step.num_rows
        held_rows += step.num_rows
        held_bytes += step.nbytes
        if held_rows >= rows or held_bytes >= size_bytes:
            yield from _joined(steps)
            steps, held_rows, held_bytes = [], 0, 0
    if missing_rows:
        raise pa.ArrowInvalid(f"{', '.join(columns)} lack {missing_rows} of the rows that the footer says")
    yield from _joined(steps)


def beside(left: Iterator[pa.RecordBatch], right: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join two column sets of the same rows; structs that both have get the fields of both.

    ``right`` is read in its own thread.
    """
    ahead = parallel_map(lambda batches: next(batches, None), itertools.repeat(right), threads=1)
    with contextlib.closing(ahead):
        other = pa.RecordBatch.from_arrays([], [])
        for one in left:
            while one.num_rows:
                if not other.num_rows:
                    other = next(ahead)
                    if other is None:
                        raise ValueError("its columns differ in length")
                rows = min(one.num_rows, other.num_rows)
                yield _members_of_both(one.slice(0, rows), other.slice(0, rows))
                one, other = one.slice(rows), other.slice(rows)


def _members_of_both(one: pa.RecordBatch, other: pa.RecordBatch) -> pa.RecordBatch:
    columns = []
    for left, right in zip(one.columns, other.columns, strict=True):
        members = [column.field(at) for column in (left, right) for at in range(column.type.num_fields)]
        mask = left.is_null() if left.null_count else None
        columns.append(pa.StructArray.from_arrays(members, fields=[*left.type, *right.type], mask=mask))
    return pa.RecordBatch.from_arrays(columns, one.schema.names)


def _joined(steps: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if len(steps) == 1:
        yield steps[0]
    elif steps:
        yield from pa.Table.from_batches(steps).combine_chunks().to_batches()


# --- how many rows at a time ------------------------------------------------------------------------------------


def _step_rows(metadata: Any, source: Any, columns: Sequence[str], groups: Sequence[int], rows: int) -> int:
    """The number of rows to decode at a time: all, unless a leaf may decode to far more bytes than it takes in the
    file."""
    roots = tuple(f"{name}." for name in columns)
    leaves = [at for at in range(metadata.num_columns) if f"{metadata.schema.column(at).path}.".startswith(roots)]
    step_rows = min(rows, _STEP_BYTES // (_SLOT_BYTES * max(1, len(leaves))))  # nulls take memory, but no file space
    for group in groups:
        group_rows = metadata.row_group(group).num_rows
        for leaf in leaves:
            chunk = metadata.row_group(group).column(leaf)
            if not _repeats_values(chunk):
                continue
            values_per_row = max(1, chunk.num_values // max(1, group_rows))
            longest = max(1, chunk.total_uncompressed_size)  # no value is longer than all of them together
            if min(rows, group_rows) * values_per_row * longest > _STEP_BYTES and chunk.has_dictionary_page:
                longest = max(1, _longest_of_dictionary(metadata, source, group, chunk.path_in_schema) or longest)
            step_rows = min(step_rows, _STEP_BYTES // (values_per_row * longest))
    return max(_STEP_ROWS_MIN, step_rows)


def _repeats_values(chunk: Any) -> bool:
    """Whether a value stored once may occur in many rows."""
    is_text = chunk.physical_type in ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
    return is_text and (chunk.has_dictionary_page or "DELTA_BYTE_ARRAY" in chunk.encodings)


def _longest_of_dictionary(metadata: Any, source: Any, group: int, leaf: str) -> int | None:
    """The size of the longest value in a leaf's dictionary, in bytes; None if pyarrow does not show it."""
    from txlog.core.format.arrow.parquet import pq

    # No read-ahead: only the first page is needed, and the rest of the column may take hundreds of megabytes.
    file = pq.ParquetFile(source, metadata=metadata, read_dictionary=[leaf], pre_buffer=False, buffer_size=_READ_BYTES)
    batch = next(file.iter_batches(1, row_groups=[group], columns=[leaf], use_threads=False), None)
    found = None if batch is None else batch.column(0)
    while found is not None and not pa.types.is_dictionary(found.type):
        if pa.types.is_struct(found.type):
            found = found.field(0)
        else:
            found = found.values if pa.types.is_list(found.type) else None
    if found is None or not pa.types.is_string(found.type.value_type):
        return None
    values = found.dictionary
    offsets = np.frombuffer(values.buffers()[1], dtype=np.int32)[values.offset : values.offset + len(values) + 1]
    return int(np.diff(offsets).max(initial=0))
