"""Change files for the commit: a changelog's rows as they arrived, to be merged with the table's.

In: rows of a table with a merge engine, and their kinds. Out: the plan and the rows of Parquet files next to the data
files. A row has the table's columns, none of them required, its ``kind`` and its ``place`` among its task's rows.
Columns, and the fields in them, have their physical names, as in data files: what changes a table's columns between
the task and the commit, and fits its data files, fits these too.

No commit names such a file. It is in the data files' folder, so every vacuum removes one left behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from txlog.protocol.column_mapping import PHYSICAL_NAME_KEY, physical_name
from txlog.protocol.schema import BYTE, LONG, Field, Struct, to_arrow
from txlog.writer.conform import nullable
from txlog.writer.write_plan import WritePlan

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["KIND", "PLACE", "are_staged_rows", "staged_columns", "staged_rows", "staged_rows_plan"]


_PREFIX = "c_"  # so no table column has the name of one of ours
KIND, PLACE = "kind", "place"
"""The columns that are not the table's."""


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


def staged_rows(plan: WritePlan, rows: pa.RecordBatch, kinds: NDArray[np.int8], first: int) -> pa.RecordBatch:
    """These rows, for files of ``plan``, which `staged_rows_plan` made; ``first`` is the first row's place."""
    places = np.arange(first, first + rows.num_rows)
    return pa.RecordBatch.from_arrays([*rows.columns, pa.array(kinds), pa.array(places)], schema=to_arrow(plan.schema))
