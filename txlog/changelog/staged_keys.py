"""Combines the keys that the tasks of a checkpoint changed: at most one change for each key.

In: committables with key files. Out: `StagedKeys`. Each task has already combined its own changes of a key. If two
tasks changed one key, the changelog's sequence decides; without a sequence, the checkpoint is refused.

A checkpoint may have tens of millions of keys. So files are read batch by batch, only a number of 8 or 16 bytes stays
in memory for each key, and what only equal keys need (sequences, text for errors) is read again if there are any.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from txlog.changelog.key_files import StagedKeyRows, read_keys
from txlog.changelog.merge_engines.runs import ranks
from txlog.changelog.task_order import ONE_TASK_FOR_EACH_KEY, ties_of_tasks
from txlog.core.changes.tasks.operations import ColumnValues, SortedKeys, sort_order
from txlog.core.format.arrow.wide_years import python_value
from txlog.core.format.schema import type_to_arrow
from txlog.core.parallel import parallel_map
from txlog.core.reading import FileKeys, KeyNumbers, KeyValues
from txlog.core.row_rules import KeyColumn, key_text
from txlog.core.store import FileStore
from txlog.core.wording import argument
from txlog.core.writing.committable import Committable, KeyFile, PendingFile
from txlog.errors import InvalidInputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

NewRows: TypeAlias = Callable[[PendingFile], Iterable[pa.RecordBatch]]
"""Reads the rows of a staged data file, in file order."""

_FEW_KEYS = 1 << 20
_DISTINCT_MAX = 1 << 16  # with more keys, keep distinct values only for columns that repeat them: a day, a country


class StagedKeys(msgspec.Struct, frozen=True):
    """The keys of a checkpoint.

    Attributes:
        index: The keys.
        are_deletes: The keys without a new row.
        superseded: By task_id, the keys whose changes were superseded by another task's later changes.
        num_given: The number of keys of all tasks, superseded ones included.
        rows: Each key's index among all rows of the files that keys were read from, in file order; None if there are
            too many keys to use it.
    """

    index: SortedKeys
    are_deletes: NDArray[np.bool_]
    superseded: dict[int, SortedKeys]
    num_given: int
    rows: NDArray[np.int64] | None

    @property
    def num_rows(self) -> int:
        """The number of distinct keys."""
        return len(self.are_deletes)

    def in_one_file(self, committables: Sequence[Committable]) -> list[FileKeys]:
        """The keys of the new rows of each data file that keys were read from, or that is its task's only one, in the
        order of its key file.

        Only for unpartitioned tables: a partitioned write orders rows differently.
        """
        found: list[FileKeys] = []
        first = 0
        for each in committables:
            is_known = self.rows is not None and each.task_id not in self.superseded
            is_known &= not each.keys or len(each.files) == len(each.key_files) == 1
            for part in _parts(each):
                start, first = first, first + _num_keys(part)
                if not is_known or not each.files:
                    continue
                assert self.rows is not None
                file = part if isinstance(part, PendingFile) else each.files[0]
                at = np.flatnonzero((self.rows >= start) & (self.rows < first) & ~self.are_deletes)
                if len(at) == file.num_rows:
                    positions = np.empty(len(at), dtype=np.uint32)
                    positions[np.argsort(self.rows[at])] = np.arange(len(at))
                    found.append(FileKeys(file.to_add().file_id, self.index.values.at(at), positions))
        return found


def gather_keys(
    files: FileStore,
    committables: Sequence[Committable],
    keys: Sequence[KeyColumn],
    table: str,
    numbers: KeyNumbers,
    new_rows: NewRows,
) -> StagedKeys:
    """Read the keys of all tasks. ``numbers`` converts keys of these columns to numbers. ``new_rows`` reads at least
    the key columns of a data file.

    Raises ``InvalidInputError`` if two tasks changed one key without a sequence that decides between them, or if the
    files are not what the tasks wrote; ``NotFoundError``, ``StorageError``.
    """
    source = _KeyFiles(files, committables, keys, table, new_rows)
    values, are_deletes, columns = source.read(numbers)
    source.check_counts(are_deletes)
    order = sort_order(values)
    values = values.at(order)
    are_deletes = are_deletes[order]
    is_again = values.numbers[1:] == values.numbers[:-1]
    if values.second is not None:
        is_again &= values.second[1:] == values.second[:-1]
    superseded: dict[int, SortedKeys] = {}
    if is_again.any():
        stays, superseded = _settled(source, numbers, values, are_deletes, order, is_again)
        values, are_deletes, order = values.at(stays), are_deletes[stays], order[stays]
    ranges = [each.found() for each in columns] or [_as_column(values, keys[0])]
    index = SortedKeys(keys, numbers, values, ranges)
    rows = order if len(order) <= _FEW_KEYS else None
    return StagedKeys(index, np.ascontiguousarray(are_deletes), superseded, source.num_keys, rows)


def _as_column(values: KeyValues, key: KeyColumn) -> pa.Array:
    """The keys, for a key type whose values are their own numbers."""
    kind = type_to_arrow(key.type)
    found = pa.array(values.numbers)
    return found.cast(pa.int32()).cast(kind) if pa.types.is_date32(kind) else found.cast(kind)


def _parts(committable: Committable) -> Sequence[KeyFile | PendingFile]:
    """The files that a task's keys are read from: its data files if it wrote no key files."""
    return committable.key_files or committable.files


def _num_keys(part: KeyFile | PendingFile) -> int:
    return part.num_keys if isinstance(part, KeyFile) else part.num_rows


class _KeyFiles:
    """The files with the keys of all tasks, in order: a key's row is its index among all their rows."""

    def __init__(
        self,
        files: FileStore,
        committables: Sequence[Committable],
        keys: Sequence[KeyColumn],
        table: str,
        new_rows: NewRows,
    ) -> None:
        self.keys = keys
        self.table = table
        self._files = files
        self._committables = committables
        self._new_rows = new_rows
        self._staged = [(each.task_id, part) for each in committables for part in _parts(each)]
        self._starts = np.cumsum([0, *(_num_keys(part) for _, part in self._staged)])

    @property
    def num_keys(self) -> int:
        return int(self._starts[-1])

    def read(self, numbers: KeyNumbers) -> tuple[KeyValues, NDArray[np.bool_], list[ColumnValues]]:
        """The number of each key, whether it is deleted, and the values of the columns (not for keys that are their own
        numbers)."""
        first = np.empty(self.num_keys, dtype=np.int64 if numbers.is_exact else np.uint64)
        second = None if numbers.is_exact else np.empty(self.num_keys, dtype=np.uint64)
        are_deletes = np.empty(self.num_keys, dtype=bool)
        keys = [] if numbers.is_exact else self.keys
        distinct_max = _FEW_KEYS if self.num_keys <= _FEW_KEYS else _DISTINCT_MAX

        def read(item: tuple[int, KeyFile | PendingFile]) -> list[ColumnValues]:
            at, part = item
            found = [ColumnValues(key, distinct_max) for key in keys]
            for rows in self._batches(part):
                here, at = slice(at, at + len(rows)), at + len(rows)
                values = numbers.of(rows.columns)[0]
                first[here], are_deletes[here] = values.numbers, rows.are_deletes
                if second is not None and values.second is not None:
                    second[here] = values.second
                for each, column in zip(found, rows.columns, strict=False):
                    each.add(column)
            return found

        columns = [ColumnValues(key, distinct_max) for key in keys]
        items = zip(self._starts.tolist(), (part for _, part in self._staged), strict=False)
        for found in parallel_map(read, items):
            for each, more in zip(columns, found, strict=True):
                each.join(more)
        return KeyValues(first, second), are_deletes, columns

    def _batches(self, part: KeyFile | PendingFile, *, with_sequence: bool = False) -> Iterator[StagedKeyRows]:
        """The keys of one file, as many as its task counted."""
        if isinstance(part, KeyFile):
            yield from read_keys(self._files, part, self.keys, self.table, with_sequence=with_sequence)
            return
        left = part.num_rows
        for batch in self._new_rows(part):
            columns = tuple(key.of(batch) for key in self.keys)
            left -= batch.num_rows
            if left < 0 or any(column.null_count for column in columns):
                break
            yield StagedKeyRows(columns, np.zeros(batch.num_rows, dtype=bool), None)
        else:
            if not left:
                return
        raise InvalidInputError(
            f"the data file {part.path} does not have a key in each of {part.num_rows} rows, which is not what its task"
            " wrote: nothing was committed. Write the checkpoint again",
            table=self.table,
            path=part.path,
        )

    def check_counts(self, are_deletes: NDArray[np.bool_]) -> None:
        """Check that each new row has its key, and each key that is not deleted has its row."""
        new_rows = {each.task_id: 0 for each in self._committables}
        for (task, _), (start, end) in zip(self._staged, itertools.pairwise(self._starts.tolist()), strict=True):
            new_rows[task] += int((~are_deletes[start:end]).sum())
        for each in self._committables:
            if new_rows[each.task_id] != each.num_rows:
                raise InvalidInputError(
                    f"task {each.task_id} wrote {each.num_rows} rows and {new_rows[each.task_id]} keys of new rows:"
                    " nothing was committed. Write the checkpoint again",
                    table=self.table,
                )

    def tasks_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The task_id of each row."""
        tasks = np.array([task for task, _ in self._staged], dtype=np.int64)
        found: NDArray[np.int64] = tasks[np.searchsorted(self._starts, rows, side="right") - 1]
        return found

    def sequence_of(self, rows: NDArray[np.int64]) -> pa.ChunkedArray | None:
        """The sequence of these rows, which ascend; None if a task has none. A sequence column that the table lacks may
        have different types in different tasks; they are compared if Arrow has a common type."""
        found: list[pa.Array] = []
        for at, batch in self._batches_with(rows, with_sequence=True):
            if batch.sequence is None:
                return None
            found.append(batch.sequence.take(pa.array(at)))
        try:
            tables = [pa.table({"sequence": each}) for each in found]
            return pa.concat_tables(tables, promote_options="permissive").column(0)
        except pa.ArrowException as error:
            types = sorted({str(each.type) for each in found})
            raise InvalidInputError(
                f"the {argument('sequence_by')} column has the types {' and '.join(types)} in different tasks, whose"
                " values cannot be compared: nothing was committed. Give it the same type in all tasks",
                table=self.table,
            ) from error

    def text_of(self, row: int) -> str:
        """The key of one row, for error messages."""
        at, batch = next(self._batches_with(np.array([row]), with_sequence=False))
        return key_text(self.keys, batch.columns, int(at[0]))

    def _batches_with(
        self, rows: NDArray[np.int64], *, with_sequence: bool
    ) -> Iterator[tuple[NDArray[np.int64], StagedKeyRows]]:
        """The batches that have some of these rows, which ascend, and the rows' indices in each batch."""
        for (_, part), (start, end) in zip(self._staged, itertools.pairwise(self._starts.tolist()), strict=True):
            if np.searchsorted(rows, start) == np.searchsorted(rows, end):
                continue
            for batch in self._batches(part, with_sequence=with_sequence):
                low, high = np.searchsorted(rows, [start, start + len(batch)])
                if low < high:
                    yield rows[low:high] - start, batch
                start += len(batch)


def _settled(
    source: _KeyFiles,
    numbers: KeyNumbers,
    values: KeyValues,
    are_deletes: NDArray[np.bool_],
    order: NDArray[np.int64],
    is_again: NDArray[np.bool_],
) -> tuple[NDArray[np.bool_], dict[int, SortedKeys]]:
    """Which of the sorted keys stay if some are equal, and the resulting `StagedKeys.superseded`.

    ``is_again`` is true for each key that equals the one before it; it starts with the second key.
    """
    repeated = np.flatnonzero(np.append(is_again, False) | np.append(False, is_again))
    codes = np.cumsum(~np.append(False, is_again)[repeated]) - 1
    by_row = np.argsort(order[repeated])
    places, codes = repeated[by_row], codes[by_row]
    rows = order[places]
    tasks = source.tasks_of(rows)
    sequence = source.sequence_of(rows)

    def refuse(first: int, second: int) -> NoReturn:
        what = (
            "have no sequence" if sequence is None else f"have the same sequence, {python_value(sequence[first])!s:.60}"
        )
        raise InvalidInputError(
            f"tasks {tasks[first]} and {tasks[second]} both changed the row with {source.text_of(int(rows[first]))},"
            f" and their changes {what}: it is unknown which came later. Nothing was committed."
            f" {ONE_TASK_FOR_EACH_KEY}, or set {argument('sequence_by')}",
            table=source.table,
        )

    goes = ~_latest(codes, are_deletes[places], sequence, refuse)
    stays = np.ones(len(order), dtype=bool)
    stays[places[goes]] = False
    superseded = {}
    for task in np.unique(tasks[goes]).tolist():
        gone = np.sort(places[goes & (tasks == task)])
        superseded[task] = SortedKeys(source.keys, numbers, values.at(gone))
    return stays, superseded


def _latest(
    codes: NDArray[np.int64],
    are_deletes: NDArray[np.bool_],
    sequence: pa.ChunkedArray | None,
    refuse: Callable[[int, int], Any],
) -> NDArray[np.bool_]:
    """Which changes stay, by key number. If one key has several deletes, any may stay. ``refuse`` raises an error for
    two changes in unknown order."""
    rank = np.zeros(len(codes), dtype=np.int64) if sequence is None else ranks(sequence)
    # Of one task too: what no task of changes wrote may have several rows of a key.
    before, after = ties_of_tasks(codes, [rank], np.arange(len(codes)), by_last_alone=True)
    is_unclear = ~(are_deletes[before] & are_deletes[after])
    if is_unclear.any():
        at = int(np.argmax(is_unclear))
        refuse(*sorted((int(before[at]), int(after[at]))))
    order = np.lexsort((rank, codes))
    last = np.zeros(int(codes.max()) + 1, dtype=np.int64)
    last[codes[order]] = order
    found = np.zeros(len(codes), dtype=bool)
    found[last] = True
    return found
