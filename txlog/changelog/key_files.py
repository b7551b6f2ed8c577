"""Key files: the keys whose rows the commit of a task's changes must find in the table.

In: collapsed changes in ascending key order. Out: the plan and the rows of Parquet files next to the data files, and
the same rows read back. A row has the key's values (``key_0``, ``key_1``, ...); ``is_delete``, false if the task's data
files have a new row with the key; and ``sequence`` if the changelog has one.

A task without deletes and without a sequence writes none: the commit reads the keys of its changes from its data files.

No commit names such a file. It is in the data files' folder, so every vacuum removes one left behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from txlog.changelog.collapse import Changes
from txlog.changelog.staged_files import batches_of, opened, unusable
from txlog.core.format.arrow.arrays import flags_of
from txlog.core.format.schema import BOOLEAN, DataType, Field, Struct, to_arrow, type_to_arrow
from txlog.core.row_rules import KeyColumn
from txlog.core.store import FileStore
from txlog.core.writing import WritePlan
from txlog.core.writing.committable import KeyFile

if TYPE_CHECKING:
    from numpy.typing import NDArray

_IS_DELETE, _SEQUENCE = "is_delete", "sequence"


class StagedKeyRows(msgspec.Struct, frozen=True):
    """Some keys of one file: the values of each key column, which keys are deletes, and their sequence or None."""

    columns: tuple[pa.Array, ...]
    are_deletes: NDArray[np.bool_]
    sequence: pa.Array | None

    def __len__(self) -> int:
        return len(self.are_deletes)


def key_plan(plan: WritePlan, keys: Sequence[KeyColumn], sequence: DataType | None) -> WritePlan:
    """The plan for the keys of a task that writes with ``plan``; ``sequence`` is the type of the changelog's sequence,
    if any."""
    fields = [Field(f"key_{at}", key.type, False, {}) for at, key in enumerate(keys)]
    fields.append(Field(_IS_DELETE, BOOLEAN, False, {}))
    if sequence is not None:
        fields.append(Field(_SEQUENCE, sequence, False, {}))
    return replace(
        plan.without_rules(),
        schema=Struct(tuple(fields)),
        partition_columns=(),
        configuration={"delta.dataSkippingNumIndexedCols": "0"},  # statistics never skip these files
        computed=None,
        hidden_columns=(),
        file_kind="keys",
    )


def key_rows(plan: WritePlan, changes: Changes, keys: Sequence[KeyColumn]) -> pa.Table:
    """The rows of these changes for files of ``plan``, which `key_plan` made."""
    columns: list[pa.Array | pa.ChunkedArray] = [key.of(changes.rows) for key in keys]
    columns.append(pa.array(changes.are_deletes))
    if changes.sequence is not None:
        columns.append(changes.sequence)
    return pa.Table.from_arrays(columns, schema=to_arrow(plan.schema))


def read_keys(
    files: FileStore, file: KeyFile, keys: Sequence[KeyColumn], table: str, *, with_sequence: bool = False
) -> Iterator[StagedKeyRows]:
    """The content of a key file, a bounded number of rows at a time; in total as many rows as the committable says.

    Raises what `opened` raises, and ``InvalidInputError`` if it has other columns.
    """
    names = [*(f"key_{at}" for at in range(len(keys))), _IS_DELETE]
    types = [*(type_to_arrow(key.type) for key in keys), pa.bool_()]
    with opened(files, file, table, are_rows=False) as parquet:
        there = parquet.schema_arrow.names
        if there[: len(names)] != names:
            raise unusable(file, f"has the columns {', '.join(there)}, not those of its task", table)
        wanted = [*names, _SEQUENCE] if with_sequence and _SEQUENCE in there else names
        for batch in batches_of(parquet, file, wanted):
            columns = [column.cast(kind) for column, kind in zip(batch.columns, types, strict=False)]
            if any(column.null_count for column in columns):
                raise unusable(file, "has keys that are null, which its task did not write", table)
            sequence = batch.column(len(names)) if len(wanted) > len(names) else None
            yield StagedKeyRows(tuple(columns[:-1]), flags_of(columns[-1]), sequence)
