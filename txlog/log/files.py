"""The files of a table as Arrow columns, and their reconciliation: checkpoint batches filtered by the tail.

In: record batches of a checkpoint, commits after it. Out: one table of live files (``FILES_SCHEMA``) or of
tombstones (``TOMBSTONES_SCHEMA``). Only files that the tail touches become Python objects.
PROTOCOL.md, "Action Reconciliation"; the key of a file is (path, unique id of its deletion vector).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from txlog.arrow.arrays import array_of, flags_of, from_flags, from_numbers
from txlog.arrow.maps import STRING_MAP, partition_texts
from txlog.errors import CorruptLogError
from txlog.log.typed_statistics import STATS_PARSED, with_typed_statistics
from txlog.protocol.actions import AddFile, FileId, FileKey, LiveKey, RemoveFile
from txlog.protocol.commit_file import Commit
from txlog.protocol.paths import canonical_path, canonical_paths
from txlog.protocol.statistics_read import num_records
from txlog.protocol.stats_text import statistics_as_json

__all__ = [
    "DELETION_VECTOR",
    "FILES_SCHEMA",
    "TOMBSTONES_SCHEMA",
    "NamedFiles",
    "Newest",
    "add_files_of",
    "adds_of_batch",
    "adds_to_batch",
    "coalesced",
    "file_ids",
    "fold_commits",
    "left_after",
    "live_files",
    "live_keys",
    "live_rows",
    "mentions",
    "partition_column",
    "reconcile",
    "reconcile_tombstones",
    "removes_of_batch",
    "vector_ids",
    "with_added",
]

DELETION_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
        ("maxRowIndex", pa.int64()),
    ]
)
FILES_SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("partitionValues", STRING_MAP),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("stats", pa.string()),
        ("tags", STRING_MAP),
        ("deletionVector", DELETION_VECTOR),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
        ("clusteringProvider", pa.string()),
    ]
)
"""A live file; ``path`` is the URI text of the log, ``stats`` the JSON text of the log."""

TOMBSTONES_SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("deletionTimestamp", pa.int64()),
        ("dataChange", pa.bool_()),
        ("extendedFileMetadata", pa.bool_()),
        ("partitionValues", STRING_MAP),
        ("size", pa.int64()),
        ("deletionVector", DELETION_VECTOR),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
    ]
)
"""A removed file, which a vacuum may not have deleted yet."""

_PLAIN = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=/"
"""Bytes with only one spelling in a path. A relative path of such bytes alone is canonical."""

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


def adds_to_batch(adds: Sequence[AddFile]) -> pa.RecordBatch:
    """Actions to columns; unknown fields (``extra``) have no column and are left out."""
    vectors = [add.deletion_vector and add.deletion_vector.to_json() for add in adds]
    columns: list[Any] = [
        [add.path for add in adds],
        [list(add.partition_values.items()) for add in adds],
        [add.size for add in adds],
        [add.modification_time for add in adds],
        [add.data_change for add in adds],
        [add.stats for add in adds],
        [None if add.tags is None else list(add.tags.items()) for add in adds],
        vectors,
        [add.base_row_id for add in adds],
        [add.default_row_commit_version for add in adds],
        [add.clustering_provider for add in adds],
    ]
    return _batch(columns, FILES_SCHEMA)


def _removes_to_batch(removes: Sequence[RemoveFile]) -> pa.RecordBatch:
    columns: list[Any] = [
        [remove.path for remove in removes],
        [remove.deletion_timestamp for remove in removes],
        [remove.data_change for remove in removes],
        [remove.extended_file_metadata for remove in removes],
        [None if remove.partition_values is None else list(remove.partition_values.items()) for remove in removes],
        [remove.size for remove in removes],
        [remove.deletion_vector and remove.deletion_vector.to_json() for remove in removes],
        [remove.base_row_id for remove in removes],
        [remove.default_row_commit_version for remove in removes],
    ]
    return _batch(columns, TOMBSTONES_SCHEMA)


def _batch(columns: Sequence[Any], schema: pa.Schema) -> pa.RecordBatch:
    arrays = [array_of(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def add_files_of(files: pa.Table) -> list[AddFile]:
    """Turn rows of a table of live files back into actions. For the few rows that an operation touches, not for all."""
    return [AddFile.from_json(row) for row in files.to_pylist()]


def live_files(files: pa.Table, paths: Iterable[str]) -> list[AddFile]:
    """The live ``files`` that ``paths`` name. A path may be spelled differently than in the log."""
    from txlog.arrow.compute import pc

    wanted = array_of(list({canonical_path(path) for path in paths}), pa.string())
    if not len(wanted):
        return []
    masks = [pc.is_in(_comparable_paths(batch.column("path")), value_set=wanted) for batch in files.to_batches()]
    return add_files_of(files.filter(pa.chunked_array(masks, pa.bool_())))


class NamedFiles:
    """Chooses the files, live or removed, of some paths in their canonical form."""

    def __init__(self, paths: Collection[str]) -> None:
        self._paths = frozenset(paths)
        self._array = array_of(list(self._paths), pa.string())

    def among(self, newest: Newest) -> Newest:
        """Those of the actions that are about these files."""
        return {key: action for key, action in newest.items() if key[0] in self._paths}

    def rows(self, paths: pa.StringArray) -> Any:
        """For each path, as a log spells it, whether it is one of them."""
        from txlog.arrow.compute import pc

        return flags_of(pc.is_in(_comparable_paths(paths), value_set=self._array))


def live_rows(add: AddFile) -> int:
    """The number of rows of a file that are not deleted; 0 if the log does not count them."""
    dead = add.deletion_vector.cardinality if add.deletion_vector else 0
    return max(0, (num_records(add.stats) or 0) - dead)


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
    columns = _struct_columns(rows)
    parsed = columns.get(STATS_PARSED)
    if parsed is not None:
        columns["stats"] = _statistics(columns.get("stats"), parsed)
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
    files = _conformed(_struct_columns(rows), len(rows), _KEYS_SCHEMA)
    untouched: int = left_after(newest, files).num_rows
    return untouched < len(rows)


def removes_of_batch(batch: pa.RecordBatch) -> pa.RecordBatch | None:
    """The ``remove`` rows of one checkpoint batch in ``TOMBSTONES_SCHEMA``; None if it has none."""
    rows = _rows_of(batch, "remove")
    return None if rows is None else _conformed(_struct_columns(rows), len(rows), TOMBSTONES_SCHEMA)


def _rows_of(batch: pa.RecordBatch, name: str) -> pa.StructArray | None:
    index = batch.schema.get_field_index(name)
    if index < 0:
        return None
    rows = batch.column(index)
    if rows.null_count:
        rows = rows.filter(rows.is_valid())
    return rows if len(rows) else None


def _struct_columns(rows: pa.StructArray) -> dict[str, pa.Array]:
    return dict(zip((field.name for field in rows.type), rows.flatten(), strict=True))


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
    members = _struct_columns(column)
    arrays = [
        members[field.name].cast(field.type) if field.name in members else pa.nulls(len(column), field.type)
        for field in DELETION_VECTOR
    ]
    return pa.StructArray.from_arrays(arrays, fields=list(DELETION_VECTOR), mask=column.is_null())


def _statistics(text: pa.Array | None, parsed: pa.StructArray) -> pa.Array:
    from txlog.arrow.compute import pc

    if text is None:
        return statistics_as_json(parsed)
    return pc.coalesce(text, statistics_as_json(parsed)) if text.null_count else text


# --- reconciliation -----------------------------------------------------------------------------------


def reconcile(
    batches: Iterable[pa.RecordBatch], newest: Newest, mask: Callable[[pa.RecordBatch], Any] | None = None
) -> pa.Table:
    """Live files: those of the checkpoint (``adds_of_batch``) that the tail does not name, then the tail's adds.

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
    """Tombstones: those of the checkpoint (``removes_of_batch``) that the tail does not name, then the tail's."""
    kept = [rest for batch in batches if (rest := left_after(newest, batch)).num_rows]
    removes = [action for action in newest.values() if type(action) is RemoveFile]
    if removes:
        kept.append(_removes_to_batch(removes))
    return pa.Table.from_batches(kept, schema=TOMBSTONES_SCHEMA)


def left_after(newest: Newest, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of a checkpoint batch, of files or tombstones, that the tail does not name."""
    if not newest:
        return batch
    from txlog.arrow.compute import pc

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


def vector_ids(vectors: pa.StructArray | pa.ChunkedArray) -> list[str | None]:
    """The unique id of each deletion vector; None where there is none."""
    from txlog.arrow.compute import pc

    if vectors.null_count == len(vectors):
        return [None] * len(vectors)
    # A column at a time, which takes a tenth of what a dict for each vector does.
    kinds, names, offsets = (
        pc.struct_field(vectors, member).to_pylist() for member in ("storageType", "pathOrInlineDv", "offset")
    )
    return [
        None if name is None else kind + name if offset is None else f"{kind}{name}@{offset}"
        for kind, name, offset in zip(kinds, names, offsets, strict=True)
    ]


def file_ids(files: pa.Table) -> list[FileId]:
    """What tells these live files from others of the same paths."""
    columns = (files.column(name).to_pylist() for name in ("path", "size", "modificationTime"))
    return list(zip(*columns, strict=True))


def live_keys(files: pa.Table) -> list[LiveKey]:
    """The same with the unique ids of their deletion vectors."""
    return list(zip(file_ids(files), vector_ids(files.column("deletionVector")), strict=True))


def _comparable_paths(paths: pa.StringArray) -> pa.StringArray:
    """Paths in the canonical spelling, in which they are compared.

    Nearly all have it already; the raw bytes show it.
    """
    offsets = np.frombuffer(paths.buffers()[1], dtype=np.int32)[paths.offset : paths.offset + len(paths) + 1]
    text = memoryview(paths.buffers()[2] or b"")[offsets[0] : offsets[-1]].tobytes()
    # A damaged log may name an empty path. If it is the last one, it starts after the end of the buffer.
    starts = np.frombuffer(text + b" ", dtype=np.uint8)[offsets[:-1] - offsets[0]]
    if not text.translate(None, _PLAIN) and not (starts == ord("/")).any():
        return paths
    return canonical_paths(paths)


def partition_column(files: pa.RecordBatch, name: str) -> pa.StringArray:
    """The raw text of one partition column for each file of a batch; null where the value is null or absent."""
    return partition_texts(files.column("partitionValues"), name)[0]
