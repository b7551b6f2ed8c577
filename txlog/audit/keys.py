"""Finds keys that several live rows of a table have, and rows whose key is null.

In: a table's stores and the names of key columns. Out: a `KeyCheck`, and its findings. Workers read the key columns
once and turn every key into a number of 8 or 16 bytes (see ``key_values``). The check counts equal keys in one file
together, then spreads all keys by their numbers over temporary files, and sorts each of these by itself. So memory is
bounded, however large the table is and however many rows one key has. At the end it looks up the values of the keys to
report, each in one data file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from txlog.audit.read_keys import ReadKeys
from txlog.audit.task_places import TaskPlaces
from txlog.core import ambient
from txlog.core.format.arrow.buckets import Buckets
from txlog.core.format.arrow.spill import no_room
from txlog.core.format.arrow.wide_years import python_value
from txlog.core.format.schema import type_to_arrow
from txlog.core.format.statistics_read import num_records
from txlog.core.progress import OnDone
from txlog.core.reading import KeyNumbers, KeyValues, ScanPlan, ScanTask, TaskReader, count_rows, select
from txlog.core.row_rules import KeyColumn, key_columns
from txlog.core.store import TableStore
from txlog.core.versions.decisions.state import TableState
from txlog.core.versions.files import DeltaLog
from txlog.errors import InvalidInputError, TxlogError
from txlog.result import counted
from txlog.result.audits import Finding, KeyCheck, RepeatedKey, RowsByFile

if TYPE_CHECKING:
    from numpy.typing import NDArray

EXAMPLES_MAX = 20
FILES_MAX = 20
"""The maximum number of files listed with their row counts for one key."""
_FILES_SHOWN = 3
PART_ROWS = 1 << 20  # sorted at a time
PARTS_AT_ONCE = 256  # files open at a time
CHUNK_ROWS = 1 << 18
TASK_ROWS = 1 << 20
_TASK_BYTES = 64 << 20  # of files in one task, where each task has a cost
_FILES_AT_ONCE = 2
_REQUESTS_AT_ONCE = 4
_MULTIPLIER = 0x9E3779B97F4A7C15  # 2^64 / golden ratio: consecutive integers spread over the upper bits


def require_keys(store: TableStore, names: Sequence[str]) -> None:
    """Raises ``InvalidInputError`` for columns that cannot be a key. A table that cannot be read passes."""
    try:
        key_columns(names, DeltaLog(store).newest_state().schema)
    except InvalidInputError as error:
        error.table = error.table or store.uri
        raise
    except TxlogError:
        return


def key_findings(
    store: TableStore, names: Sequence[str], places: TaskPlaces, on_progress: OnDone
) -> tuple[KeyCheck | None, tuple[Finding, ...]]:
    """Check the keys of the newest version. An error that prevents this is a finding."""
    try:
        check = check_keys(store, names, places, on_progress=on_progress)
    except TxlogError as error:
        message = f"the keys could not be checked: {error.message}"
        return None, (Finding("keys-not-checked", message, error.version, error.path),)
    return check, tuple(_findings(check))


def check_keys(
    store: TableStore,
    names: Sequence[str],
    places: TaskPlaces,
    *,
    on_progress: OnDone = lambda done, total: None,
) -> KeyCheck:
    """Read the keys of all live rows of the newest version.

    Args:
        store: The table's stores.
        names: The key columns; paths with dots lead into structs.
        places: Where the keys are read.
        on_progress: Called with the number of rows read so far, and of all rows.

    Raises:
        InvalidInputError: A column does not exist, or has a type that keys cannot have.
        NotFoundError, CorruptLogError: A file is missing or damaged.
        StorageError: The store failed, or there is no space for temporary files.
        UnsupportedFeatureError: The table needs a reader feature that this release lacks.
    """
    log = DeltaLog(store)
    state = log.newest_state()
    with TxlogError.located(store.uri, state.version):
        keys = key_columns(names, state.schema)
    scan = _KeyScan(store, places, state, log.files(state), keys, on_progress)
    repeated_keys = repeated_rows = 0
    found: list[_Group] = []
    try:
        for part in scan.parts():
            groups = part.repeated()
            repeated_keys += len(groups.starts)
            repeated_rows += int(groups.rows.sum())
            found += groups.largest(EXAMPLES_MAX)
            found = sorted(found, key=lambda group: (-group.rows, min(group.by_file)))[:EXAMPLES_MAX]
    except OSError as error:
        raise no_room("keys that did not fit into memory", error, store.uri) from error
    return KeyCheck(
        tuple(key.name for key in keys),
        state.version,
        scan.num_rows,
        repeated_keys,
        repeated_rows,
        scan.examples(found),
        scan.by_file(scan.nulls),
    )


# --- reading keys -----------------------------------------------------------------------------------------------------


class _KeyScan:
    """The keys of a version's live rows. ``num_rows`` and ``nulls`` count what was read so far, by file number."""

    def __init__(
        self,
        store: TableStore,
        places: TaskPlaces,
        state: TableState,
        files: pa.Table,
        keys: Sequence[KeyColumn],
        on_progress: OnDone,
    ) -> None:
        self._store = store
        self._places = places
        self._keys = tuple(keys)
        self._on_progress = on_progress
        secret = f"{ambient.uuid4()}{ambient.uuid4()}".encode()
        self._numbers = KeyNumbers([type_to_arrow(key.type) for key in keys], secret)
        columns = list(dict.fromkeys(key.path[0] for key in keys))
        self._plan = ScanPlan(select(store.uri, state, columns), files)
        self._paths = files.column("path").to_pylist()
        self._expected_rows = count_rows(store, select(store.uri, state, []), files)
        self.num_rows = 0
        self.nulls: Counter[int] = Counter()

    def parts(self) -> Iterator[_Keys]:
        """All keys in parts, each sorted by key, and no key in two parts."""
        num_parts = -(-self._expected_rows // PART_ROWS)
        if num_parts <= 1:
            yield _joined(list(self._chunks()))
            return
        for first in range(0, num_parts, PARTS_AT_ONCE):
            buckets = Buckets(min(PARTS_AT_ONCE, num_parts - first))
            try:
                for chunk in self._chunks():
                    part = chunk.part(num_parts) - first
                    here = (part >= 0) & (part < buckets.num_buckets)
                    buckets.add(chunk.at(here).to_arrow(), part[here])
                for rows in buckets.drain():
                    yield _joined([_Keys.of(rows)])
            finally:
                buckets.close()

    def _chunks(self) -> Iterator[_Keys]:
        """All keys, many at a time."""
        self.num_rows = 0
        self.nulls.clear()
        workers = self._places.workers(_FILES_AT_ONCE if self._store.has_cheap_calls else _REQUESTS_AT_ONCE)
        parts = list(self._parts(_TASK_BYTES if workers.crosses else 0))
        work = ReadKeys(self._places.store, self._keys, self._numbers)
        waiting: list[_Keys] = []
        for at, in_files in workers.map(work, [tasks for _, tasks in parts]):
            for number, found in zip(parts[at][0], in_files, strict=True):
                if found.nulls:
                    self.nulls[number] += found.nulls
                if found.num_rows:
                    waiting.append(_Keys.in_file(found.values, number))
                self.num_rows += found.num_rows
            self._on_progress(self.num_rows, max(self.num_rows, self._expected_rows))
            if sum(map(len, waiting)) >= CHUNK_ROWS:
                yield _joined(waiting)
                waiting = []
        yield _joined(waiting)

    def _parts(self, size_bytes: int) -> Iterator[tuple[list[int], list[ScanTask]]]:
        """What each task reads, with the numbers of the files: about ``size_bytes`` of files, or a part of a large
        one."""
        numbers, tasks, left = list[int](), list[ScanTask](), size_bytes
        for number, (task, stats) in enumerate(zip(self._plan.tasks(), self._plan.files["stats"], strict=True)):
            count = -(-(num_records(stats.as_py()) or 1) // TASK_ROWS)
            if count > 1:
                yield from (([number], [replace(task, share=(share, count))]) for share in range(count))
                continue
            numbers.append(number)
            tasks.append(task)
            left -= task.size_bytes
            if left <= 0:
                yield numbers, tasks
                numbers, tasks, left = [], [], size_bytes
        if tasks:
            yield numbers, tasks

    def examples(self, groups: Sequence[_Group]) -> tuple[RepeatedKey, ...]:
        """The values of these keys, each read from the first file that has it."""
        wanted: dict[int, list[_Group]] = {}
        for group in groups:
            wanted.setdefault(min(group.by_file), []).append(group)
        paths = pa.array([self._paths[number] for number in wanted], pa.string())
        files = self._plan.files.filter(pc.is_in(self._plan.files.column("path"), value_set=paths))
        number_of = {path: number for number, path in enumerate(self._paths)}
        reader = TaskReader(self._store, self._plan.selection)
        values_of: dict[int, Mapping[str, Any]] = {}
        batches = (
            (task, batch) for task in ScanPlan(self._plan.selection, files).tasks() for batch in reader.batches(task)
        )
        for task, batch in batches:
            number, columns = number_of[task.log_path], [key.of(batch) for key in self._keys]
            values, rows = self._numbers.of(columns)
            for group in wanted[number]:
                at = np.flatnonzero(group.equals(values))[:1]
                if len(at) and id(group) not in values_of:
                    row = int(at[0] if rows is None else rows[at[0]])
                    names = zip(self._keys, columns, strict=True)
                    values_of[id(group)] = {key.name: python_value(column[row]) for key, column in names}
        return tuple(RepeatedKey(values_of[id(group)], self.by_file(group.by_file)) for group in groups)

    def by_file(self, rows: Mapping[int, int]) -> RowsByFile:
        """Row counts by file number as row counts by path: the total, and the counts of the first files."""
        shown = {self._paths[number]: rows[number] for number in sorted(rows)[:FILES_MAX]}
        return RowsByFile(sum(rows.values()), len(rows), shown)


# --- keys as numbers --------------------------------------------------------------------------------------------------


class _Keys(msgspec.Struct, frozen=True):
    """Keys, each with the number of a file that has it and how many of the file's rows have it."""

    values: KeyValues
    files: NDArray[np.int32]
    rows: NDArray[np.int64]

    @classmethod
    def in_file(cls, values: KeyValues, number: int) -> _Keys:
        return cls(values, np.full(len(values), number, np.int32), np.ones(len(values), np.int64))

    @classmethod
    def of(cls, table: pa.Table) -> _Keys:
        numbers, *second, files, rows = (column.to_numpy() for column in table.columns)
        return cls(KeyValues(numbers, second[0] if second else None), files, rows)

    def to_arrow(self) -> pa.Table:
        second = [] if self.values.second is None else [self.values.second]
        columns = [self.values.numbers, *second, self.files, self.rows]
        return pa.table({str(number): column for number, column in enumerate(columns)})

    def __len__(self) -> int:
        return len(self.files)

    def at(self, places: Any) -> _Keys:
        return _Keys(self.values.at(places), self.files[places], self.rows[places])

    def part(self, num_parts: int) -> NDArray[np.int64]:
        """Which of ``num_parts`` parts each key belongs to."""
        mixed = (self.values.numbers.view(np.uint64) * np.uint64(_MULTIPLIER)) >> np.uint64(32)
        found: NDArray[np.int64] = ((mixed * np.uint64(num_parts)) >> np.uint64(32)).astype(np.int64)
        return found

    def repeated(self) -> _RepeatedKeys:
        """The keys that several rows have. The keys must be sorted."""
        starts = np.flatnonzero(_is_new(self.values))
        rows = np.add.reduceat(self.rows, starts) if len(starts) else np.empty(0, np.int64)
        again = rows > 1
        return _RepeatedKeys(self, starts[again], np.append(starts, len(self))[1:][again], rows[again])


class _RepeatedKeys(msgspec.Struct, frozen=True):
    """Keys that several rows have: where each begins and ends among ``keys``, and how many rows have it."""

    keys: _Keys
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    rows: NDArray[np.int64]

    def largest(self, count: int) -> list[_Group]:
        """The keys with the most rows; among equals, the first ones."""
        found = []
        for at in np.argsort(-self.rows, kind="stable")[:count].tolist():
            keys = self.keys.at(slice(self.starts[at], self.ends[at]))
            by_file = dict(zip(keys.files.tolist(), keys.rows.tolist(), strict=True))
            found.append(_Group(keys.values.at(slice(0, 1)), int(self.rows[at]), by_file))
        return found


class _Group(msgspec.Struct, frozen=True):
    """One key that several rows have, and how many of these rows each file has, by file number."""

    value: KeyValues
    rows: int
    by_file: Mapping[int, int]

    def equals(self, values: KeyValues) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = values.numbers == self.value.numbers
        if values.second is not None and self.value.second is not None:
            found &= values.second == self.value.second
        return found


def _is_new(values: KeyValues) -> NDArray[np.bool_]:
    """Where each key differs from the one before it."""
    found = np.ones(len(values), dtype=bool)
    found[1:] = values.numbers[1:] != values.numbers[:-1]
    if values.second is not None:
        found[1:] |= values.second[1:] != values.second[:-1]
    return found


def _joined(parts: Sequence[_Keys]) -> _Keys:
    """Merge the keys of files: one entry for each key and file, sorted by key, then by file."""
    if not parts:
        return _Keys(KeyValues(np.empty(0, np.int64), None), np.empty(0, np.int32), np.empty(0, np.int64))
    values = KeyValues.joined([part.values for part in parts])
    keys = _Keys(values, np.concatenate([part.files for part in parts]), np.concatenate([part.rows for part in parts]))
    if (keys.files[1:] < keys.files[:-1]).any():  # workers ended in another order
        keys = keys.at(np.argsort(keys.files, kind="stable"))
    # Both sorts are stable, so a key's files stay in order.
    numbers, second = keys.values.numbers, keys.values.second
    keys = keys.at(np.argsort(numbers, kind="stable") if second is None else np.lexsort((second, numbers)))
    is_new = _is_new(keys.values)
    is_new[1:] |= keys.files[1:] != keys.files[:-1]
    starts = np.flatnonzero(is_new)
    if len(starts) == len(keys):
        return keys
    kept = keys.at(starts)
    return _Keys(kept.values, kept.files, np.add.reduceat(keys.rows, starts))


# --- findings ---------------------------------------------------------------------------------------------------------


def _findings(check: KeyCheck) -> Iterator[Finding]:
    for example in check.examples:
        values = ", ".join(f"{name}={str(value)[:60]}" for name, value in example.values.items())
        message = f"{values} is the key of {counted(example.found.rows, 'row')}{_where(example.found)}"
        yield Finding("repeated-key", message, check.version, next(iter(example.found.files)))
    more = check.repeated_keys - len(check.examples)
    if more:
        message = f"and {counted(more, 'more key')} with several rows; {check.repeated_rows:,} rows have such a key"
        yield Finding("repeated-key", message, check.version)
    if check.nulls.rows:
        message = (
            f"{counted(check.nulls.rows, 'row')} with a null in the key ({', '.join(check.columns)}), which no upsert"
            f" finds{_where(check.nulls)}"
        )
        yield Finding("null-key", message, check.version, next(iter(check.nulls.files)), severity="warning")


def _where(found: RowsByFile) -> str:
    """Which files have the rows. The first file is the finding's path, which is shown with the message."""
    if found.num_files == 1:
        return ", all in this file" if found.rows > 1 else ", in this file"
    first, *others = list(found.files.items())[:_FILES_SHOWN]
    more = found.num_files - 1 - len(others)
    shown = [f"{first[1]:,} in this file", *(f"{rows:,} in {path}" for path, rows in others)]
    return ": " + ", ".join([*shown, *([f"and {counted(more, 'more file')}"] if more else [])])
