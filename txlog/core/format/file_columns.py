"""The files of a table as Arrow columns: their schemas, and actions to columns and back.

In: file actions, or a table of live files. Out: columns (``FILES_SCHEMA``, ``TOMBSTONES_SCHEMA``), actions, and what
identifies each file. ``core/versions/decisions/files`` makes such tables from checkpoints and commits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa

from txlog.core.format.actions import AddFile, FileId, LiveKey, RemoveFile
from txlog.core.format.arrow.arrays import STRING_MAP, array_of, partition_texts
from txlog.core.format.statistics_read import num_records

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
_MAPS = ("partitionValues", "tags")
_ADD_FILES = list[AddFile]


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


def removes_to_batch(removes: Sequence[RemoveFile]) -> pa.RecordBatch:
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
    names = files.schema.names
    columns = {name: files.column(name).to_pylist() for name in names}
    for name in _MAPS:
        columns[name] = [None if pairs is None else dict(pairs) for pairs in columns[name]]
    rows = [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    try:
        return msgspec.convert(rows, _ADD_FILES)
    except msgspec.ValidationError:  # the slower way says which value is wrong
        return [AddFile.from_json(row) for row in rows]


def live_rows(add: AddFile) -> int:
    """The number of rows of a file that are not deleted; 0 if the log does not count them."""
    dead = add.deletion_vector.cardinality if add.deletion_vector else 0
    return max(0, (num_records(add.stats) or 0) - dead)


def vector_ids(vectors: pa.StructArray | pa.ChunkedArray) -> list[str | None]:
    """The unique id of each deletion vector; None where there is none."""
    from txlog.core.format.arrow.compute import pc

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


def partition_column(files: pa.RecordBatch, name: str) -> pa.StringArray:
    """The raw text of one partition column for each file of a batch; null where the value is null or absent."""
    return partition_texts(files.column("partitionValues"), name)[0]
