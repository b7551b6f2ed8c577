"""Files of keys: which rows of the table a task's changes take out, for the commit to look up.

In: collapsed changes in ascending order of their keys. Out: the plan and the rows of Parquet files beside the data
files, and what is read of them again. A row has the values of the key (``key_0``, ``key_1``, ...), ``is_delete``, false
where the task's data files have a new row with the key, and ``sequence`` where the changelog has one.

No commit names such a file. It lies where data files do, so that every vacuum removes one that was left behind.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from txlog.errors import InvalidInputError, NotFoundError
from txlog.protocol.schema import BOOLEAN, DataType, Field, Struct, to_arrow, type_to_arrow
from txlog.store.base import FileStore
from txlog.writer.changelog.collapse import Changes
from txlog.writer.committable import KeyFile
from txlog.writer.keys import KeyColumn
from txlog.writer.write_plan import WritePlan

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["KeysOfFile", "key_plan", "key_rows", "read_keys"]

_IS_DELETE, _SEQUENCE = "is_delete", "sequence"


@dataclasses.dataclass(frozen=True, slots=True)
class KeysOfFile:
    """The keys of one file: the values of each key column, which of them are deletes, and their sequence or None."""

    columns: tuple[pa.ChunkedArray, ...]
    are_deletes: NDArray[np.bool_]
    sequence: pa.ChunkedArray | None


def key_plan(plan: WritePlan, keys: Sequence[KeyColumn], sequence: DataType | None) -> WritePlan:
    """How a task that writes by ``plan`` writes its keys; ``sequence`` is the type of the changelog's, if any."""
    fields = [Field(f"key_{at}", key.type, False, {}) for at, key in enumerate(keys)]
    fields.append(Field(_IS_DELETE, BOOLEAN, False, {}))
    if sequence is not None:
        fields.append(Field(_SEQUENCE, sequence, False, {}))
    return dataclasses.replace(
        plan,
        schema=Struct(tuple(fields)),
        partition_columns=(),
        configuration={"delta.dataSkippingNumIndexedCols": "0"},  # nobody prunes them
        rows_where=None,
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


def read_keys(files: FileStore, file: KeyFile, keys: Sequence[KeyColumn], table: str) -> KeysOfFile:
    """What a file of keys holds.

    Raises ``NotFoundError``, ``StorageError``; ``InvalidInputError`` where it is damaged, or not of these columns.
    """
    import pyarrow.parquet as pq

    names = [f"key_{at}" for at in range(len(keys))]
    types = [(name, type_to_arrow(key.type)) for name, key in zip(names, keys, strict=True)]
    try:
        with contextlib.closing(files.open(file.path)) as source:
            found = pq.read_table(source)
        for name, kind in (*types, (_IS_DELETE, pa.bool_())):
            found = found.set_column(found.column_names.index(name), name, found.column(name).cast(kind))
    except FileNotFoundError as error:
        raise NotFoundError("a staged file of keys is gone", table=table, path=file.path) from error
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise _not_what_was_staged(file, f"cannot be read: {error}", table) from error
    if found.column_names[: len(keys) + 1] != [*names, _IS_DELETE] or found.num_rows != file.num_keys:
        raise _not_what_was_staged(file, f"has {found.num_rows} rows of {', '.join(found.column_names)}", table)
    columns = tuple(found.column(name) for name in names)
    are_deletes = found.column(_IS_DELETE).to_numpy()
    if any(column.null_count for column in columns):
        raise _not_what_was_staged(file, "has keys that are null", table)
    has_sequence = _SEQUENCE in found.column_names
    return KeysOfFile(columns, are_deletes, found.column(_SEQUENCE) if has_sequence else None)


def _not_what_was_staged(file: KeyFile, problem: str, table: str) -> InvalidInputError:
    return InvalidInputError(
        f"the file of keys {file.path} {problem}, which is not what its task wrote: nothing was committed. Write the"
        " checkpoint again",
        table=table,
        path=file.path,
    )
