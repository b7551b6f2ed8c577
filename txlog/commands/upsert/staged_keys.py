"""The keys that the tasks of a checkpoint changed, brought together: at most one change for each key.

In: committables with files of keys. Out: `StagedKeys`. What one task did to a key it has decided itself; where two
tasks changed one, the sequence of the changelog decides, and without one the checkpoint is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from txlog.errors import InvalidInputError
from txlog.protocol.schema import type_to_arrow
from txlog.store.base import FileStore
from txlog.util.parallel import parallel_map
from txlog.writer.changelog.key_files import KeysOfFile, read_keys
from txlog.writer.committable import Committable, KeyFile
from txlog.writer.keys import KeyColumn, KeyIndex, key_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["StagedKeys", "gather_keys"]


@dataclass(frozen=True, slots=True)
class StagedKeys:
    """The keys of a checkpoint.

    Attributes:
        index: The keys.
        are_deletes: Which of them have no new row.
        outdone: By task_id, the index of the keys whose new rows another task's later changes took the place of.
        num_given: The keys of all tasks, those that were outdone among them.
    """

    index: KeyIndex
    are_deletes: NDArray[np.bool_]
    outdone: dict[int, KeyIndex]
    num_given: int


def gather_keys(
    files: FileStore, committables: Sequence[Committable], keys: Sequence[KeyColumn], table: str
) -> StagedKeys:
    """Read the keys of all tasks.

    Raises ``InvalidInputError`` where two tasks changed one key and nothing says which of them was later, and where the
    files are not what the tasks wrote; ``NotFoundError``, ``StorageError``.
    """
    import numpy as np

    staged = [(each.task_id, file) for each in committables for file in each.keys]
    parts = [*parallel_map(lambda each: read_keys(files, each[1], keys, table), staged)]
    _check_counts(committables, staged, parts, table)
    columns = [
        pa.chunked_array([chunk for part in parts for chunk in part.columns[at].chunks], type_to_arrow(key.type))
        for at, key in enumerate(keys)
    ]
    index = KeyIndex(keys, [column.combine_chunks() for column in columns])
    are_deletes = np.concatenate([part.are_deletes for part in parts]) if parts else np.empty(0, dtype=bool)
    if index.num_keys == len(are_deletes):
        return StagedKeys(index, are_deletes, {}, len(are_deletes))
    tasks = np.repeat([task for task, _ in staged], [len(part.are_deletes) for part in parts])
    stays = _latest(index, are_deletes, tasks, _sequence(parts, table), table)
    outdone = {
        task: KeyIndex(keys, [column.filter(pa.array(gone)) for column in index.columns])
        for task in np.unique(tasks).tolist()
        if (gone := ~stays & ~are_deletes & (tasks == task)).any()
    }
    kept = KeyIndex(keys, [column.filter(pa.array(stays)) for column in index.columns])
    return StagedKeys(kept, are_deletes[stays], outdone, len(are_deletes))


def _check_counts(
    committables: Sequence[Committable],
    staged: Sequence[tuple[int, KeyFile]],
    parts: Sequence[KeysOfFile],
    table: str,
) -> None:
    """Each new row has its key, and each key that is not deleted its row."""
    new_rows = {each.task_id: 0 for each in committables}
    for (task, _), part in zip(staged, parts, strict=True):
        new_rows[task] += int((~part.are_deletes).sum())
    for each in committables:
        if new_rows[each.task_id] != each.num_rows:
            raise InvalidInputError(
                f"task {each.task_id} wrote {each.num_rows} rows and {new_rows[each.task_id]} keys of new rows: nothing"
                " was committed. Write the checkpoint again",
                table=table,
            )


def _sequence(parts: Sequence[KeysOfFile], table: str) -> pa.ChunkedArray | None:
    """The sequence of all keys; None where a task has none. Of a column that is not of the table, tasks may have found
    different types, whose values are compared where Arrow has a type for both."""
    found = [part.sequence for part in parts if part.sequence is not None]
    if len(found) < len(parts):
        return None
    try:
        whole = pa.concat_tables([pa.table({"sequence": each}) for each in found], promote_options="permissive")
    except pa.ArrowException as error:
        types = sorted({str(each.type) for each in found})
        raise InvalidInputError(
            f"the column sequence_by has the types {' and '.join(types)} in different tasks, whose values cannot be"
            " compared: nothing was committed. Give it one type in all tasks",
            table=table,
        ) from error
    return whole.column(0)


def _latest(
    index: KeyIndex,
    are_deletes: NDArray[np.bool_],
    tasks: NDArray[np.int64],
    sequence: pa.ChunkedArray | None,
    table: str,
) -> NDArray[np.bool_]:
    """Which changes stay. Of several deletes of one key, any may."""
    import numpy as np

    codes = index.code_of_row
    if sequence is None:
        rank = np.zeros(len(codes), dtype=np.int64)
    else:
        rank = pc.rank(sequence, tiebreaker="dense").to_numpy().astype(np.int64)
    order = np.lexsort((rank, codes))
    greatest = np.zeros(index.num_keys, dtype=np.int64)
    greatest[codes[order]] = rank[order]
    before, after = order[:-1], order[1:]
    # Two that are the last of their key together: nobody knows which of them came later.
    unclear = (codes[before] == codes[after]) & (rank[before] == rank[after]) & (rank[after] == greatest[codes[after]])
    unclear &= ~(are_deletes[before] & are_deletes[after])
    if unclear.any():
        at = int(np.argmax(unclear))
        first, second = sorted((int(before[at]), int(after[at])))
        what = "have no sequence" if sequence is None else f"have one sequence, {sequence[first].as_py()!s:.60}"
        raise InvalidInputError(
            f"tasks {tasks[first]} and {tasks[second]} both changed the row with"
            f" {key_text(index.keys, index.columns, first)}, and their changes {what}: nobody knows which came"
            " later. Nothing was committed. Send all rows of a key to one task (Sink.partition_of), or give"
            " sequence_by",
            table=table,
        )
    found = np.zeros(len(codes), dtype=bool)
    last = np.zeros(index.num_keys, dtype=np.int64)
    last[codes[order]] = order
    found[last] = True
    return found
