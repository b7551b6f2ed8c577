"""The reconciliation of a table's files: checkpoint batches filtered by the tail.

In: record batches of a checkpoint, commits after it. Out: one table of live files (``FILES_SCHEMA``) or of
tombstones (``TOMBSTONES_SCHEMA``). Only files that the tail touches become Python objects.
PROTOCOL.md, "Action Reconciliation"; the key of a file is (path, unique id of its deletion vector).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from txlog.core.format.actions import AddFile, FileKey, RemoveFile
from txlog.core.format.arrow.arrays import STRING_MAP, array_of, flags_of, from_flags, from_numbers, members_of
from txlog.core.format.commit_file import Commit
from txlog.core.format.file_columns import (
    DELETION_VECTOR,
    FILES_SCHEMA,
    TOMBSTONES_SCHEMA,
    add_files_of,
    adds_to_batch,
    removes_to_batch,
    vector_ids,
)
from txlog.core.format.paths import canonical_path, canonical_paths
from txlog.core.format.stats_text import statistics_as_json
from txlog.core.versions.decisions.typed_statistics import STATS_PARSED, with_typed_statistics
from txlog.errors import CorruptLogError

_PLAIN = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=/"
"""Bytes with only one spelling in a path. A relative path of only such bytes is canonical."""

_KEYS_SCHEMA = pa.schema([("path", pa.string()), ("deletionVector", DELETION_VECTOR)])
_CHUNKS_MAX = 64
_CHUNK_ROWS = 16_384
_ABSENT_ROWS = 32_768
_NEVER_NULL = ("path", "partitionValues", "size", "modificationTime", "dataChange")

Newest = Mapping[FileKey, AddFile | RemoveFile]
"""The newest action of each file that the tail names, under its comparable key."""


# --- the tail -----------------------------------------------------------------------------------------


def fold_commits(commits: Iterable[Commit]) -> dict[FileKey, AddFile | RemoveFile]:
    """Newest action per file, over commits in ascending order. Keys hold paths in comparable form."""
    newest: dict[FileKey, AddFile | RemoveFile] = {}
    for commit in commits:
        for action in commit.actions:
            if type(action) is AddFile or type(action) is RemoveFile:
                path, vector_id = action.key
                newest[canonical_path(path), vector_id] = action
    return newest


def live_files(files: pa.Table, paths: Iterable[str]) -> list[AddFile]:
    """The live ``files`` that ``paths`` name. A path may be spelled differently than in the log."""
    from txlog.core.format.arrow.compute import pc

    wanted = array_of(list({canonical_path(path) for path in paths}), pa.string())
    if not len(wanted):
        return []
    masks = [pc.is_in(_comparable_paths(batch.column("path")), value_set=wanted) for batch in files.to_batches()]
    return add_files_of(files.filter(pa.chunked_array(masks, pa.bool_())))


class NamedFiles:
    """Chooses the files, live or removed, with some paths in canonical form."""

    def __init__(self, paths: Collection[str]) -> None:
        self._paths = frozenset(paths)
        self._array = array_of(list(self._paths), pa.string())

    def among(self, newest: Newest) -> Newest:
        """The actions about these files."""
        return {key: action for key, action in newest.items() if key[0] in self._paths}

    def rows(self, paths: pa.StringArray) -> Any:
        """For each path, as a log spells it, whether it is one of them."""
        from txlog.core.format.arrow.compute import pc

        return flags_of(pc.is_in(_comparable_paths(paths), value_set=self._array))


# --- checkpoint batches -------------------------------------------------------------------------------


def adds_of_batch(batch: pa.RecordBatch, statistics: pa.StructType | None = None) -> pa.RecordBatch | None:
    """The ``add`` rows of one checkpoint batch in ``FILES_SCHEMA``; None if it has none.

    With ``statistics``, the last column is ``stats_parsed`` of this type: see `with_typed_statistics`. A leaf that the
    batch lacks counts as null (``partitionValues`` as empty). Statistics that the checkpoint holds only as
    ``stats_parsed`` become JSON text. Raises ``CorruptLogError``.
    """
    rows = _rows_of(batch, "add")
    if rows is None:
        return None
    columns = members_of(rows)
    parsed = columns.get(STATS_PARSED)
    if parsed is not None:
        columns["stats"] = statistics_texts(columns.get("stats"), parsed)
    adds = _conformed(columns, len(rows), FILES_SCHEMA)
    for name in _NEVER_NULL:
        if adds.column(name).null_count:
            raise CorruptLogError(f"the checkpoint has a file without add.{name}")
    return adds if statistics is None else with_typed_statistics(adds, parsed, statistics)


def mentions(newest: Newest, batch: pa.RecordBatch) -> bool:
    """Whether the tail names a file of one checkpoint batch, given its paths and deletion vectors."""
    rows = _rows_of(batch, "add")
    if rows is None:
        return False
    files = _conformed(members_of(rows), len(rows), _KEYS_SCHEMA)
    untouched: int = left_after(newest, files).num_rows
    return untouched < len(rows)


def removes_of_batch(batch: pa.RecordBatch) -> pa.RecordBatch | None:
    """The ``remove`` rows of one checkpoint batch in ``TOMBSTONES_SCHEMA``; None if it has none."""
    rows = _rows_of(batch, "remove")
    return None if rows is None else _conformed(members_of(rows), len(rows), TOMBSTONES_SCHEMA)


def _rows_of(batch: pa.RecordBatch, name: str) -> pa.StructArray | None:
    index = batch.schema.get_field_index(name)
    if index < 0:
        return None
    rows = batch.column(index)
    if rows.null_count:
        rows = rows.filter(rows.is_valid())
    return rows if len(rows) else None


def _conformed(columns: Mapping[str, pa.Array], length: int, schema: pa.Schema) -> pa.RecordBatch:
    arrays = []
    for field in schema:
        column = columns.get(field.name)
        if column is None:
            arrays.append(_absent(field, length))
        elif field.type == DELETION_VECTOR:
            arrays.append(_deletion_vectors(column))
        else:
            arrays.append(column if column.type == field.type else column.cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _absent(field: pa.Field, length: int) -> pa.Array:
    """A column whose leaves are all null. An empty map looks the same, and a reader may leave such leaves out."""
    return _shared_absent(field).slice(0, length) if length <= _ABSENT_ROWS else _all_absent(field, length)


@functools.lru_cache(maxsize=32)
def _shared_absent(field: pa.Field) -> pa.Array:
    """One column shared by all batches: separate ones would take 50 MB for a million files."""
    return _all_absent(field, _ABSENT_ROWS)


def _all_absent(field: pa.Field, length: int) -> pa.Array:
    if field.name == "partitionValues":
        return pa.repeat(array_of([[]], STRING_MAP)[0], length)
    if field.name == "dataChange":
        return pa.repeat(array_of([False], pa.bool_())[0], length)
    return pa.nulls(length, field.type)


def _deletion_vectors(column: pa.StructArray) -> pa.Array:
    if column.type == DELETION_VECTOR:
        return column
    members = members_of(column)
    arrays = [
        members[field.name].cast(field.type) if field.name in members else pa.nulls(len(column), field.type)
        for field in DELETION_VECTOR
    ]
    return pa.StructArray.from_arrays(arrays, fields=list(DELETION_VECTOR), mask=column.is_null())


def statistics_texts(text: pa.Array | None, parsed: pa.StructArray) -> pa.Array:
    """The JSON text of statistics, made of ``stats_parsed`` where a checkpoint has no text."""
    from txlog.core.format.arrow.compute import pc

    if text is None:
        return statistics_as_json(parsed)
    return pc.coalesce(text, statistics_as_json(parsed)) if text.null_count else text


# --- reconciliation -----------------------------------------------------------------------------------


def reconcile(
    batches: Iterable[pa.RecordBatch], newest: Newest, mask: Callable[[pa.RecordBatch], Any] | None = None
) -> pa.Table:
    """Live files: the checkpoint's (``adds_of_batch``) that the tail does not name, then the tail's adds.

    ``mask`` selects among the tail's adds.
    """
    return with_added((left_after(newest, batch) for batch in batches), newest, mask)


def with_added(
    batches: Iterable[pa.RecordBatch],
    newest: Newest,
    mask: Callable[[pa.RecordBatch], Any] | None = None,
    statistics: pa.StructType | None = None,
) -> pa.Table:
    """`reconcile`, for ``batches`` that no longer have the files that the tail names.

    With ``statistics``, the last column of the batches and of the table holds typed statistics of this type.
    """
    live = [batch for batch in batches if batch.num_rows]
    adds = [action for action in newest.values() if type(action) is AddFile]
    if adds:
        added = adds_to_batch(adds)
        if statistics is not None:
            added = with_typed_statistics(added, None, statistics)
        live.append(added if mask is None else added.filter(from_flags(mask(added))))
    schema = FILES_SCHEMA if statistics is None else FILES_SCHEMA.append(pa.field(STATS_PARSED, statistics))
    return pa.Table.from_batches(live, schema=schema)


def coalesced(files: pa.Table) -> pa.Table:
    """The same rows, with runs of small chunks joined: a list that is refreshed often would become many small
    chunks."""
    batches = files.to_batches()
    is_short = files.num_rows < _CHUNK_ROWS // 4  # one chunk of this size costs less to copy than several to visit
    if len(batches) <= (1 if is_short else _CHUNKS_MAX + files.num_rows // _CHUNK_ROWS):
        return files
    joined: list[pa.RecordBatch] = []
    for is_small, run in itertools.groupby(batches, lambda batch: batch.num_rows < _CHUNK_ROWS):
        table = pa.Table.from_batches(run)
        joined += (table.combine_chunks() if is_small else table).to_batches()
    return pa.Table.from_batches(joined, schema=files.schema)


def reconcile_tombstones(batches: Iterable[pa.RecordBatch], newest: Newest) -> pa.Table:
    """Tombstones: the checkpoint's (``removes_of_batch``) that the tail does not name, then the tail's."""
    kept = [rest for batch in batches if (rest := left_after(newest, batch)).num_rows]
    removes = [action for action in newest.values() if type(action) is RemoveFile]
    if removes:
        kept.append(removes_to_batch(removes))
    return pa.Table.from_batches(kept, schema=TOMBSTONES_SCHEMA)


def left_after(newest: Newest, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of a checkpoint batch, of files or tombstones, that the tail does not name."""
    if not newest:
        return batch
    from txlog.core.format.arrow.compute import pc

    paths = _comparable_paths(batch.column("path"))
    hits = pc.is_in(paths, value_set=array_of(list({path for path, _ in newest}), pa.string()))
    if not hits.true_count:
        return batch
    keep = np.ones(batch.num_rows, dtype=bool)
    rows = np.flatnonzero(flags_of(hits))
    named = from_numbers(rows)
    vectors = vector_ids(batch.column("deletionVector").take(named))
    keep[rows] = [key not in newest for key in zip(paths.take(named).to_pylist(), vectors, strict=True)]
    # A change of every file is common in small tables, and a filter costs by column.
    return batch.filter(from_flags(keep)) if keep.any() else batch.slice(0, 0)


def _comparable_paths(paths: pa.StringArray) -> pa.StringArray:
    """Paths in canonical spelling, for comparison.

    Nearly all have it already; the raw bytes show it.
    """
    offsets = np.frombuffer(paths.buffers()[1], dtype=np.int32)[paths.offset : paths.offset + len(paths) + 1]
    text = memoryview(paths.buffers()[2] or b"")[offsets[0] : offsets[-1]].tobytes()
    # A damaged log may name an empty path. If it is the last one, it starts after the end of the buffer.
    starts = np.frombuffer(text + b" ", dtype=np.uint8)[offsets[:-1] - offsets[0]]
    if not text.translate(None, _PLAIN) and not (starts == ord("/")).any():
        return paths
    return canonical_paths(paths)
