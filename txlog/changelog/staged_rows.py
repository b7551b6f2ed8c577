"""Change files for the commit: a changelog's rows as they arrived, to be merged with the table's.

In: rows of a table with a merge engine, and their kinds. Out: the plan and the rows of Parquet files next to the data
files. A row has the table's columns, none of them required, its ``kind`` and its ``place`` among its task's rows.
Columns, and the fields in them, have their physical names, as in data files: what changes a table's columns between
the task and the commit, and fits its data files, fits these too.

Files of the same form hold the changes of open keys of a table without an engine, with a third column ``told``.

No commit names such a file. It is in the data files' folder, so every vacuum removes one left behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from txlog.core.format.column_mapping import PHYSICAL_NAME_KEY, physical_name
from txlog.core.format.schema import BYTE, LONG, STRING, Field, Struct, to_arrow
from txlog.core.writing import WritePlan, nullable
from txlog.core.writing.committable import OPEN_ROWS

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PREFIX = "c_"  # so no table column has the name of one of ours
KIND, PLACE = "kind", "place"
"""The columns that are not the table's."""
TOLD = "told"
"""In files of open changes: the physical names of the columns in which changes tell about themselves, as JSON."""

FEED_PLACES = 1 << 61
"""Places from here on are `change_order.feed_order`, which orders the rows of all tasks."""


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


def open_rows_plan(plan: WritePlan) -> WritePlan:
    """The plan for the changes of open keys of a task that writes with ``plan``."""
    found = staged_rows_plan(plan)
    schema = Struct((*found.schema.fields, Field(TOLD, STRING, False, {})))
    return replace(found, schema=schema, file_kind=OPEN_ROWS)


def staged_columns(schema: Struct) -> tuple[Field, ...]:
    """The columns of ``schema`` as a change file has them: not required, and with its names as their physical names."""
    return tuple(
        replace(field, metadata={PHYSICAL_NAME_KEY: _PREFIX + physical_name(field)})
        for field in nullable(schema).fields
    )


def _staged_schema(schema: Struct) -> Struct:
    own = [replace(field, name=physical_name(field)) for field in staged_columns(schema)]
    return Struct((*own, Field(KIND, BYTE, False, {}), Field(PLACE, LONG, False, {})))


def are_staged_rows(names: Sequence[str]) -> bool:
    """Whether a file with these columns is a change file for the commit."""
    return {KIND, PLACE} <= set(names)


def open_rows(plan: WritePlan, rows: pa.Table, kinds: NDArray[np.int8], told: str) -> pa.Table:
    """These changes, in order, for files of ``plan``, which `open_rows_plan` made."""
    own = [pa.array(kinds), pa.array(np.arange(len(kinds))), pa.array([told] * len(kinds), pa.string())]
    return pa.Table.from_arrays([*rows.columns, *own], schema=to_arrow(plan.schema))


def staged_rows(
    plan: WritePlan, rows: pa.RecordBatch, kinds: NDArray[np.int8], places: NDArray[np.int64]
) -> pa.RecordBatch:
    """These rows, for files of ``plan``, which `staged_rows_plan` made."""
    return pa.RecordBatch.from_arrays([*rows.columns, pa.array(kinds), pa.array(places)], schema=to_arrow(plan.schema))
