"""Files of changes: the rows of a changelog as they came, for a commit that merges them with the table's.

In: rows of a table with a merge engine, and their kinds. Out: the plan and the rows of Parquet files beside the data
files, and what is read of them again. A row has the columns of the table, none of them required, its ``kind`` and its
``place`` among the rows of its task.

No commit names such a file. It lies where data files do, so that every vacuum removes one that was left behind.
"""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING

import pyarrow as pa

from txlog.errors import InvalidInputError
from txlog.protocol.schema import BYTE, LONG, Field, Struct, to_arrow
from txlog.store.base import FileStore
from txlog.writer.committable import KeyFile
from txlog.writer.conform import nullable
from txlog.writer.write_plan import WritePlan

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["read_staged_rows", "staged_rows", "staged_rows_plan"]


def staged_rows_plan(plan: WritePlan) -> WritePlan:
    """How a task that writes by ``plan`` writes the rows of its changelog. Columns are called by their places."""
    own = [dataclasses.replace(field, name=f"c{at}") for at, field in enumerate(nullable(plan.schema).fields)]
    fields = (*own, Field("kind", BYTE, False, {}), Field("place", LONG, False, {}))
    return dataclasses.replace(
        plan,
        schema=Struct(tuple(dataclasses.replace(field, metadata={}) for field in fields)),
        partition_columns=(),
        configuration={"delta.dataSkippingNumIndexedCols": "0"},  # nobody prunes them
        rows_where=None,
        hidden_columns=(),
        file_kind="keys",
    )


def staged_rows(plan: WritePlan, rows: pa.RecordBatch, kinds: NDArray[np.int8], first: int) -> pa.RecordBatch:
    """These rows for files of ``plan``, which `staged_rows_plan` made; ``first`` is the place of the first one."""
    import numpy as np

    places = np.arange(first, first + rows.num_rows)
    return pa.RecordBatch.from_arrays([*rows.columns, pa.array(kinds), pa.array(places)], schema=to_arrow(plan.schema))


def read_staged_rows(files: FileStore, file: KeyFile, schema: Struct, table: str) -> pa.Table:
    """The rows of a file, with their ``kind`` and ``place`` behind the columns of ``schema``.

    Raises ``NotFoundError``, ``StorageError``; ``InvalidInputError`` where it is damaged, or not of these columns.
    """
    import pyarrow.parquet as pq

    try:
        with contextlib.closing(files.open(file.path)) as source:
            found = pq.read_table(source)
        wanted = pa.schema([*to_arrow(nullable(schema)), ("kind", pa.int8()), ("place", pa.int64())])
        if found.num_columns == len(wanted) and found.num_rows == file.num_keys:
            return found.rename_columns(wanted.names).cast(wanted)
        problem = f"has {found.num_rows} rows of {found.num_columns} columns"
    except pa.ArrowException as error:
        problem = f"cannot be read: {error}"
    raise InvalidInputError(
        f"the file of changes {file.path} {problem}, which is not what its task wrote: nothing was committed. Write the"
        " checkpoint again",
        table=table,
        path=file.path,
    )
