"""Reads change files: the rows that tasks staged for a table with a merge engine.

In: a file, and the table's columns as they are now. Out: its rows in these columns, which are found by their physical
names at every depth, as in data files. Commits refuse a definition that data files of the task would not fit.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from txlog.changelog.staged_rows import KIND, PLACE, TOLD, are_staged_rows, staged_columns
from txlog.core.format.schema import Struct, to_arrow
from txlog.core.reading import ParquetColumns
from txlog.core.row_rules import KeyColumn
from txlog.core.store import FileStore
from txlog.core.writing import nullable
from txlog.core.writing.committable import KeyFile
from txlog.errors import CorruptLogError, InvalidInputError, NotFoundError

__all__ = ["read_staged_rows"]

_OTHER_COLUMNS = "was written for other columns than the table has now"


def read_staged_rows(
    files: FileStore, file: KeyFile, schema: Struct, keys: Sequence[KeyColumn], table: str
) -> pa.Table:
    """The rows of a file, with their ``kind`` and ``place`` (and ``told``, if the file has open changes) after the
    columns of ``schema``.

    A column added to the table after the task wrote the file is null in its rows; one dropped since is left out.

    Raises ``NotFoundError``, ``StorageError``; ``InvalidInputError`` if the file is damaged, or was written for a table
    with other keys or types.
    """
    try:
        with contextlib.closing(files.open(file.path)) as source:
            found = pq.read_table(source)
    except FileNotFoundError as error:
        raise NotFoundError("a staged change file is missing", table=table, path=file.path) from error
    except (pa.ArrowException, OSError) as error:
        raise _unusable(file, f"cannot be read: {error}", table) from error
    if found.num_rows != file.num_keys:
        raise _unusable(file, f"has {found.num_rows} rows, not the {file.num_keys} that its task wrote", table)
    if not are_staged_rows(found.column_names):
        raise _unusable(file, "was written while the table had no merge engine, but it has one now", table)
    own = pa.schema([(KIND, pa.int8()), (PLACE, pa.int64()), *([(TOLD, pa.string())] if file.is_open else [])])
    wanted = pa.schema([*to_arrow(nullable(schema)), *own])
    fields = staged_columns(schema)
    try:
        columns = ParquetColumns(found.schema, fields, "name")
        batches = [
            pa.RecordBatch.from_arrays(
                [*(columns.array(batch, field) for field in fields), *(batch.column(name) for name in own.names)],
                schema=wanted,
            )
            for batch in found.to_batches()
        ]
    except (CorruptLogError, pa.ArrowException) as error:
        raise _unusable(file, f"{_OTHER_COLUMNS}: {error}", table) from error
    rows = pa.Table.from_batches(batches, wanted)
    lost = [key.name for key in keys if key.of(rows).null_count]
    if lost:  # the task refused null keys
        raise _unusable(file, f"{_OTHER_COLUMNS}: its rows have no {', '.join(lost)}", table)
    return rows


def _unusable(file: KeyFile, problem: str, table: str) -> InvalidInputError:
    return InvalidInputError(
        f"the change file {file.path} {problem}; nothing was committed. Write the checkpoint again",
        table=table,
        path=file.path,
    )
