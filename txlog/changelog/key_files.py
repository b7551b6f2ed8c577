"""Key files: the keys whose rows the commit of a task's changes must find in the table.

In: collapsed changes in ascending key order. Out: the plan and the rows of Parquet files next to the data files, and
the same rows read back. A row has the key's values (``key_0``, ``key_1``, ...); ``is_delete``, false if the task's data
files have a new row with the key; and ``sequence`` if the changelog has one.

A task without deletes and without a sequence writes none: the commit reads the keys of its changes from its data files.

No commit names such a file. It is in the data files' folder, so every vacuum removes one left behind.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace

from txlog.changelog.collapse import Changes
from txlog.changelog.staged_rows import are_staged_rows
from txlog.core.format.arrow.arrays import flags_of
from txlog.core.format.arrow.parquet_rows import counted_batches
from txlog.core.format.schema import BOOLEAN, DataType, Field, Struct, to_arrow, type_to_arrow
from txlog.core.row_rules import KeyColumn
from txlog.core.store import FileStore
from txlog.core.writing import WritePlan
from txlog.core.writing.committable import KeyFile
from txlog.errors import InvalidInputError, NotFoundError, TxlogError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["StagedKeyRows", "key_plan", "key_rows", "read_keys"]

_IS_DELETE, _SEQUENCE = "is_delete", "sequence"
_BATCH_ROWS = 1 << 17
_AT_ONCE_BYTES = 4 << 20  # a file up to this size is read with one request to the store


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

    Raises ``NotFoundError``, ``StorageError``; ``InvalidInputError`` if it is damaged, or has other columns.
    """
    names = [*(f"key_{at}" for at in range(len(keys))), _IS_DELETE]
    types = [*(type_to_arrow(key.type) for key in keys), pa.bool_()]
    try:
        is_small = file.size_bytes <= _AT_ONCE_BYTES
        with contextlib.closing(
            pa.BufferReader(files.read_from(file.path, 0)) if is_small else files.open(file.path)
        ) as source:
            parquet = pq.ParquetFile(source)
            there, num_rows = parquet.schema_arrow.names, parquet.metadata.num_rows
            if are_staged_rows(there):
                raise InvalidInputError(
                    f"the change file {file.path} was written while the table had a merge engine, but it has none"
                    " now: nothing was committed. Set its properties again, or write the checkpoint again",
                    table=table,
                    path=file.path,
                )
            if there[: len(names)] != names or num_rows != file.num_keys:
                raise _not_what_was_staged(file, f"has {num_rows} rows of {', '.join(there)}", table)
            wanted = [*names, _SEQUENCE] if with_sequence and _SEQUENCE in there else names
            for _, batch in counted_batches(parquet, wanted, _BATCH_ROWS, use_threads=not is_small):
                columns = [column.cast(kind) for column, kind in zip(batch.columns, types, strict=False)]
                if any(column.null_count for column in columns):
                    raise _not_what_was_staged(file, "has keys that are null", table)
                sequence = batch.column(len(names)) if len(wanted) > len(names) else None
                yield StagedKeyRows(tuple(columns[:-1]), flags_of(columns[-1]), sequence)
    except TxlogError:
        raise
    except FileNotFoundError as error:
        raise NotFoundError("a staged key file is missing", table=table, path=file.path) from error
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise _not_what_was_staged(file, f"cannot be read: {error}", table) from error


def _not_what_was_staged(file: KeyFile, problem: str, table: str) -> InvalidInputError:
    return InvalidInputError(
        f"the key file {file.path} {problem}, which is not what its task wrote: nothing was committed. Write the"
        " checkpoint again",
        table=table,
        path=file.path,
    )
