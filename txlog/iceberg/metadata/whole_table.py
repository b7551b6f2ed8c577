"""Assigns a table's live files to manifests: each partition's files together, so readers can skip manifests.

In: a reader of the live files, some at a time. Out: the files, each with its manifest's number. They are never all in
memory: sorting reads them twice, the first time without statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txlog.core.format.arrow.arrays import coded, numbers_of, partition_texts

FileBatches: TypeAlias = Callable[[bool], Iterator[pa.RecordBatch]]
"""Reads the live files as ``FILES_SCHEMA``, always in the same order, with their statistics or without."""

_FILES_PER_MANIFEST = 25_000
_FILES_AT_ONCE = 10_000


def in_manifests(
    read: FileBatches, names: Sequence[str], files_per_manifest: int = _FILES_PER_MANIFEST
) -> Iterator[tuple[pa.Table, Any]]:
    """Some files at a time, with an array of their manifests' numbers.

    Args:
        read: Reads the files.
        names: The physical names of the partition columns.
        files_per_manifest: The maximum number of files in a manifest.
    """
    numbers = _by_partition(read(False), names) // files_per_manifest if names else None
    start = 0
    for files in _in_parts(read(True)):
        end = start + files.num_rows
        yield files, np.arange(start, end) // files_per_manifest if numbers is None else numbers[start:end]
        start = end


def _in_parts(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The batches as tables, each with at most as many files as are encoded at a time."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        for start in range(0, batch.num_rows, _FILES_AT_ONCE):
            piece = batch.slice(start, _FILES_AT_ONCE)
            if held and sum(each.num_rows for each in held) + piece.num_rows > _FILES_AT_ONCE:
                yield pa.Table.from_batches(held)
                held = []
            held.append(piece)
    if held:
        yield pa.Table.from_batches(held)


def _by_partition(batches: Iterable[pa.RecordBatch], names: Sequence[str]) -> Any:
    """The files' indexes, sorted so that each partition's files are together."""
    texts: list[list[pa.Array]] = [[] for _ in names]
    for batch in batches:
        for column, name in zip(texts, names, strict=True):
            column.append(partition_texts(batch.column("partitionValues"), name)[0])
    keys = [_ranks(pa.chunked_array(column, pa.string())) for column in texts]
    order = np.lexsort(keys[::-1])  # the last key is the first to sort by
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return places


def _ranks(texts: pa.ChunkedArray) -> Any:
    """For each string, the index of its value among all values, nulls last."""
    values, numbers = coded(texts)
    ranks = np.empty(len(values), np.int64)
    ranks[numbers_of(pc.array_sort_indices(values))] = np.arange(len(values))
    return ranks[numbers]
