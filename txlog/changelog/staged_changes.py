"""Commits a checkpoint of changes: the rows in its tasks' files replace the table rows with the staged keys.

In: a job with the intent "upsert" and its tasks' committables. Out: a ``WriteResult``. The table rows with one of the
keys are looked up on the version before the commit. Like every upsert, the change reruns if others change files first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from txlog.changelog.merge_engines.engines import stored_engine
from txlog.changelog.mismatches import HeldBack, Mismatches, MismatchFound
from txlog.changelog.open_changes import OpenChanges, OpenRowsFound, read_open_changes
from txlog.changelog.quarantine_reader import QuarantineReader
from txlog.changelog.staged_keys import NewRows, StagedKeys, gather_keys
from txlog.changelog.staged_merge import check_staged_rows, merge_steps
from txlog.core import ambient
from txlog.core.changes.plan import RowOptions, check_changeable, prepared_steps
from txlog.core.changes.tasks import FileReader, FileRows, Touched
from txlog.core.changes.tasks.operations import KeyedChange, KnownKeys, SortedKeys, cached_keys
from txlog.core.format.schema import to_arrow, type_to_arrow
from txlog.core.reading import new_key_numbers
from txlog.core.row_rules import KeyColumn, key_columns
from txlog.core.versions import OpenTable, Steps
from txlog.core.versions.decisions.state import TableState
from txlog.core.writing import DataStream, TaskIdentity, UnsentFiles, WriteJob, write_task
from txlog.core.writing.committable import Committable, PendingFile
from txlog.errors import CorruptLogError, InvalidInputError, NotFoundError, TxlogError
from txlog.result import WriteResult

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["check_staged_keys", "rows_reader", "staged_steps"]


def check_staged_keys(open_table: OpenTable, job: WriteJob, committables: Sequence[Committable]) -> None:
    """Refuse changes that no commit could apply, before they are sealed. Raises what `gather_keys` raises."""
    keys = key_columns(job.intent.keys, job.plan.schema, job.plan.partition_columns)
    engine = stored_engine(job.plan.configuration, job.plan.schema, [key.path[0] for key in keys])
    if engine is not None:
        check_staged_rows(open_table, committables, job.plan.schema, keys, engine)
    elif sum(bool(each.keys or each.files) for each in committables) > 1:
        numbers = new_key_numbers([type_to_arrow(key.type) for key in keys])
        new_rows = rows_reader(open_table, open_table.log.newest_state(refresh=False), keys)
        gather_keys(open_table.store.files, committables, keys, open_table.uri, numbers, new_rows)


def staged_steps(
    open_table: OpenTable, state: TableState, job: WriteJob, committables: Sequence[Committable]
) -> Steps[WriteResult]:
    """One commit for a checkpoint of changes. ``state`` has the definition that the files were written for.

    Raises what `gather_keys` and ``OpenTable.plan_steps`` raise.
    """
    options = RowOptions(job.row_mode, job.commit)
    with TxlogError.located(open_table.uri, state.version):
        check_changeable(state, "an upsert")
        keys = key_columns(job.intent.keys, state.schema, state.partition_columns)
        # The plan has the table's properties, or the ones that the write sets on a table without any.
        engine = stored_engine(job.plan.configuration, state.schema, [key.path[0] for key in keys])
    with open_table.unsent_files() as unsent:
        app_id, checkpoint_id = job.commit.transaction or ("batch", 0)
        name = f"{re.sub(r'[^A-Za-z0-9]+', '-', app_id)[:40]}.{checkpoint_id}"
        held = HeldBack(open_table, job.mismatch, unsent, name)
        if engine is not None:
            result = yield from merge_steps(open_table, state, options, committables, keys, engine, held, unsent)
        else:
            result = yield from _keys_steps(open_table, state, options, job, committables, keys, held, unsent)
        held.report(result.version)
        return result


def _keys_steps(
    open_table: OpenTable,
    state: TableState,
    options: RowOptions,
    job: WriteJob,
    committables: Sequence[Committable],
    keys: Sequence[KeyColumn],
    held: HeldBack,
    unsent: UnsentFiles,
) -> Steps[WriteResult]:
    cached = cached_keys(open_table.key_cache, keys, state)
    new_rows = rows_reader(open_table, state, keys)
    staged = gather_keys(open_table.store.files, committables, keys, open_table.uri, cached.numbers, new_rows)
    reader = QuarantineReader(open_table, state, committables, staged)

    def superseded(task_id: int, batch: pa.RecordBatch) -> NDArray[np.bool_]:
        found = staged.superseded.get(task_id)
        return np.zeros(batch.num_rows, dtype=bool) if found is None else _places(found, batch) >= 0

    opened = read_open_changes(open_table, state, committables, keys, staged, superseded)
    chosen = np.full(staged.num_rows if opened else 0, -1, dtype=np.int64)
    more: tuple[PendingFile, ...] = ()
    while True:
        mismatches = Mismatches(job.mismatch, staged.num_rows, held.cases)
        files = _files_of_latest(open_table, state, job, committables, staged, mismatches.held, unsent)
        known = KnownKeys(cached, staged.index, state) if open_table.key_cache.size_bytes_max else None
        operation = StagedChanges(open_table, state, staged, (*files, *more), known, mismatches, held, opened, chosen)
        try:
            result = yield from prepared_steps(open_table, state, options, operation, unsent=unsent)
        except MismatchFound as found:
            held.begin_again(found, state.schema, reader.rows, reader.text_of)
            continue
        except OpenRowsFound as found:
            assert opened is not None
            chosen = found.rows
            more = _written(open_table, state, job, opened.new_rows(chosen), unsent)
            continue
        if known is not None:
            known.keep_staged(staged.in_one_file(committables))
        open_table.key_cache.drop_staged(file.path for each in committables for file in each.files)
        return result


def rows_reader(open_table: OpenTable, state: TableState, keys: Sequence[KeyColumn]) -> NewRows:
    """Reads the key columns of staged data files."""
    names = {key.path[0] for key in keys}
    fields = tuple(field for field in state.schema.fields if field.name in names)
    types = [(field.name, type_to_arrow(field.type)) for field in fields]
    reader: FileReader | None = None

    def read(file: PendingFile) -> Iterator[pa.RecordBatch]:
        nonlocal reader
        known = open_table.key_cache.staged(file.path)
        if known is not None and known.num_rows == file.num_rows and types == [(f.name, f.type) for f in known.schema]:
            yield known
            return
        reader = reader or FileRows(open_table.store, state).reader(fields)
        try:
            for _, batch in reader.batches(file.to_add(), with_dead_rows=True):
                yield batch
        except NotFoundError as error:
            raise NotFoundError("a staged data file is missing", table=open_table.uri, path=file.path) from error
        except CorruptLogError as error:
            raise InvalidInputError(
                f"the data file {file.path} is not what its task wrote: {error.message}. Nothing was committed. Write"
                " the checkpoint again",
                table=open_table.uri,
                path=file.path,
            ) from error

    return read


def _written(
    open_table: OpenTable, state: TableState, job: WriteJob, rows: pa.Table, unsent: UnsentFiles
) -> tuple[PendingFile, ...]:
    """The rows that open keys get, in files of their own."""
    if not rows.num_rows:
        return ()
    plan = replace(job.plan, computed=None)  # the tasks computed generated columns
    named = pa.Table.from_arrays(rows.columns, schema=to_arrow(state.schema))
    task = TaskIdentity(ambient.uuid4(), 0, 0)
    found = tuple(write_task(open_table.store.files, plan, task, DataStream.of(named)).files)
    unsent.own(file.path for file in found)
    return found


class StagedChanges(KeyedChange):
    """The `RowOperation` of a checkpoint: an upsert whose new rows are already in files, and which also deletes keys.

    ``chosen`` are the rows of open changes that ``files`` has, by key.
    """

    def __init__(
        self,
        open_table: OpenTable,
        state: TableState,
        staged: StagedKeys,
        files: tuple[PendingFile, ...],
        known: KnownKeys | None,
        mismatches: Mismatches,
        held: HeldBack,
        opened: OpenChanges | None,
        chosen: NDArray[np.int64],
    ) -> None:
        super().__init__(staged, state, known)
        self._opened, self._chosen = opened, chosen
        self._staged = staged
        self.source_files = self._new_files = files
        self._mismatches = mismatches
        self._held = held
        self._are_new: NDArray[np.bool_] = ~staged.are_deletes & (mismatches.held == 0)
        if opened is not None:
            self._are_new |= chosen >= 0
        self._open_table, self._state = open_table, state

    def parameters(self) -> dict[str, str]:
        return self.history(["update", "delete"], **self._held.parameters())

    def decided(self, touched: Sequence[Touched], tombstones: Sequence[Touched]) -> list[Touched]:
        """The rows of held-back keys stay, and those that the changes of open keys leave."""
        retracted = self._staged.are_deletes
        if self._opened is None:
            return self._mismatches.judge(touched, retracted)
        found = self._mismatches.judge(touched, self._opened.only_retracted(retracted))
        resolved = self._opened.resolved(FileRows(self._open_table.store, self._state), self._state, touched)
        self._mismatches.judge_odd(resolved.is_odd)
        chosen = np.where(self._mismatches.held == 0, resolved.row, -1)
        if (chosen != self._chosen).any():
            raise OpenRowsFound(chosen)
        return [self._without_kept(each, resolved.stays) for each in found]

    def _without_kept(self, each: Touched, stays: NDArray[np.bool_]) -> Touched:
        keys = self.of_hits(each)
        return replace(each, replaced=each.replaced[~stays[keys]]) if stays[keys].any() else each

    def report(self) -> None:
        self._mismatches.report_odd(self._open_table.uri)

    def inserted(self, touched: Sequence[Touched]) -> NDArray[np.bool_]:
        return self._are_new

    def has_row(self) -> NDArray[np.bool_]:
        return self._are_new

    def source_batches(self, is_written: NDArray[np.bool_]) -> Iterator[pa.RecordBatch]:
        """Read from the tasks' files, which have each new row once."""
        reader = FileRows(self._open_table.store, self._table).reader(self._table.schema.fields)
        for file in self._new_files:
            for _, batch in reader.batches(file.to_add(), with_dead_rows=True):
                wanted = is_written[_places(self._staged.index, batch)]
                if wanted.any():
                    yield batch.filter(pa.array(wanted))


def _files_of_latest(
    open_table: OpenTable,
    state: TableState,
    job: WriteJob,
    committables: Sequence[Committable],
    staged: StagedKeys,
    held: NDArray[np.int8],
    unsent: UnsentFiles,
) -> tuple[PendingFile, ...]:
    """The tasks' files. A file with rows that are held back, or superseded by another task's later changes, is copied
    without these.

    A deletion vector would save the copy, but not every reader of the change feed supports one on a new file.
    """
    if not staged.superseded and not held.any():
        return tuple(file for each in committables for file in each.files)
    reader = FileRows(open_table.store, state).reader(state.schema.fields)
    schema = to_arrow(state.schema)
    plan = replace(job.plan, computed=None)  # the tasks computed generated columns
    found: list[PendingFile] = []
    for each in committables:
        superseded = staged.superseded.get(each.task_id)
        if superseded is None and not held.any():
            found += each.files
            continue
        for number, file in enumerate(each.files):
            batches = [batch for _, batch in reader.batches(file.to_add(), with_dead_rows=True)]
            stays = [_stays(batch, staged, superseded, held) for batch in batches]
            if all(mask.all() for mask in stays):
                found.append(file)
                continue
            kept = (batch.filter(pa.array(mask)) for batch, mask in zip(batches, stays, strict=True))
            task = TaskIdentity(ambient.uuid4(), each.task_id, number)
            named = (pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in kept)
            copies = write_task(open_table.store.files, plan, task, DataStream(schema, named)).files
            unsent.own(copy.path for copy in copies)
            found += copies
    return tuple(found)


def _stays(
    batch: pa.RecordBatch, staged: StagedKeys, superseded: SortedKeys | None, held: NDArray[np.int8]
) -> NDArray[np.bool_]:
    """Which of a task's new rows are written."""
    stays: NDArray[np.bool_] = held[_places(staged.index, batch)] == 0
    return stays if superseded is None else stays & (_places(superseded, batch) < 0)


def _places(index: SortedKeys, batch: pa.RecordBatch) -> NDArray[np.int64]:
    """Each row's key, as its index in ``index``; -1 if it is not there."""
    return index.source_rows([key.of(batch) for key in index.keys])
