"""Change files for the commit: a changelog's rows as they arrived, to be merged with the table's.

In: rows of a table with a merge engine, and their kinds. Out: the plan and the rows of Parquet files next to the data
files, and the same rows read back. A row has the table's columns, none of them required, its ``kind`` and its ``place``
among its task's rows. Columns have their physical names, so table columns may be added or reordered between the task
and the commit.

No commit names such a file. It is in the data files' folder, so every vacuum removes one left behind.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace

from txlog.errors import InvalidInputError, NotFoundError, SchemaMismatchError
from txlog.protocol.column_mapping import physical_name
from txlog.protocol.schema import BYTE, LONG, Field, Struct, to_arrow
from txlog.store.base import FileStore
from txlog.writer.committable import KeyFile
from txlog.writer.conform import conformer_for, nullable
from txlog.writer.write_plan import WritePlan

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["are_staged_rows", "read_staged_rows", "staged_rows", "staged_rows_plan"]


_PREFIX = "c_"  # so no table column has the name of one of ours
_KIND, _PLACE = "kind", "place"


def staged_rows_plan(plan: WritePlan) -> WritePlan:
    """The plan for the changelog rows of a task that writes with ``plan``."""
    return replace(
        plan.without_rules(),
        schema=_staged_schema(plan.schema),
        partition_columns=(),
        configuration={"delta.dataSkippingNumIndexedCols": "0"},  # these files are never skipped by statistics
        computed=None,
        hidden_columns=(),
        file_kind="keys",
    )


def _staged_schema(schema: Struct) -> Struct:
    own = [replace(field, name=_PREFIX + physical_name(field), metadata={}) for field in nullable(schema).fields]
    return Struct((*own, Field(_KIND, BYTE, False, {}), Field(_PLACE, LONG, False, {})))


def are_staged_rows(names: Sequence[str]) -> bool:
    """Whether a file with these columns is a change file for the commit."""
    return {_KIND, _PLACE} <= set(names)


def staged_rows(plan: WritePlan, rows: pa.RecordBatch, kinds: NDArray[np.int8], first: int) -> pa.RecordBatch:
    """These rows, for files of ``plan``, which `staged_rows_plan` made; ``first`` is the first row's place."""
    places = np.arange(first, first + rows.num_rows)
    return pa.RecordBatch.from_arrays([*rows.columns, pa.array(kinds), pa.array(places)], schema=to_arrow(plan.schema))


def read_staged_rows(files: FileStore, file: KeyFile, schema: Struct, table: str) -> pa.Table:
    """The rows of a file, with their ``kind`` and ``place`` after the columns of ``schema``.

    A column added to the table after the task wrote the file is null in its rows.

    Raises ``NotFoundError``, ``StorageError``; ``InvalidInputError`` if it is damaged, or has columns that the table
    lacks.
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
    try:
        conformer = conformer_for(_staged_schema(schema), found.schema, table)
        batches = [conformer.conform(batch) for batch in found.to_batches()]
    except SchemaMismatchError as error:
        listed = re.sub(f"^  {_PREFIX}", "  ", error.message, flags=re.MULTILINE)
        raise _unusable(file, f"was written for other columns than the table has now: {listed}\n", table) from error
    wanted = pa.schema([*to_arrow(nullable(schema)), (_KIND, pa.int8()), (_PLACE, pa.int64())])
    return pa.Table.from_batches([pa.RecordBatch.from_arrays(each.columns, schema=wanted) for each in batches], wanted)


def _unusable(file: KeyFile, problem: str, table: str) -> InvalidInputError:
    return InvalidInputError(
        f"the change file {file.path} {problem}; nothing was committed. Write the checkpoint again",
        table=table,
        path=file.path,
    )
