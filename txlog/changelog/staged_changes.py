"""Commits a checkpoint of changes: the rows in its tasks' files replace the table rows with the staged keys.

In: a job with the intent "upsert" and its tasks' committables. Out: a ``WriteResult``. The table rows with one of the
keys are looked up on the version before the commit. Like every upsert, the change reruns if others change files first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from txlog.changelog.merge_engines.deduplicate import Deduplicate
from txlog.changelog.merge_engines.engine import Merged
from txlog.changelog.merge_engines.engines import stored_engine
from txlog.changelog.merge_engines.keyed_rows import KeyedRows
from txlog.changelog.merged_rows import MergedRows
from txlog.changelog.mismatches import HeldBack, Mismatches
from txlog.changelog.quarantine_reader import QuarantineReader
from txlog.changelog.retractions import compared_columns
from txlog.changelog.staged_keys import NewRows, StagedKeys, gather_keys
from txlog.changelog.staged_merge import check_staged_rows, merge_steps
from txlog.changelog.staged_rows_reader import gather_rows
from txlog.core import ambient
from txlog.core.changes.plan import RowOptions, check_changeable, prepared_steps
from txlog.core.changes.tasks import FileReader, FileRows
from txlog.core.changes.tasks.operations import KnownKeys, SortedKeys, cached_keys
from txlog.core.format.column_mapping import physical_name
from txlog.core.format.schema import to_arrow, type_to_arrow
from txlog.core.reading import new_key_numbers
from txlog.core.row_rules import KeyColumn, key_columns
from txlog.core.versions import OpenTable, Steps
from txlog.core.versions.decisions.state import TableState
from txlog.core.writing import DataStream, TaskIdentity, UnsentFiles, WriteJob, write_task
from txlog.core.writing.committable import Committable, KeyFile, PendingFile
from txlog.errors import CorruptLogError, InvalidInputError, NotFoundError, TxlogError
from txlog.result import WriteResult

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
    opened = _open_changes(open_table, state, committables, staged)
    reader = QuarantineReader(open_table, state, committables, staged)

    def attempt(mismatches: Mismatches) -> Steps[WriteResult]:
        files = _files_of_latest(open_table, state, job, committables, staged, mismatches.held, unsent)
        known = KnownKeys(cached, staged.index, state) if open_table.key_cache.size_bytes_max else None
        operation = StagedChanges(open_table, state, staged, opened, files, known, mismatches, held.parameters)
        result = yield from prepared_steps(open_table, state, options, operation, unsent=unsent)
        if known is not None:
            known.keep_staged(staged.in_one_file(committables))
        open_table.key_cache.drop_staged(file.path for each in committables for file in each.files)
        return result

    return held.steps(staged.num_rows, attempt, state.schema, reader.rows, reader.text_of)


def _open_changes(
    open_table: OpenTable, state: TableState, committables: Sequence[Committable], staged: StagedKeys
) -> KeyedRows:
    """The changes whose result depends on the table's row: retractions of rows that tasks do not know."""
    in_order = sorted(committables, key=lambda each: each.task_id)
    files = [(each.task_id, file) for each in in_order for file in each.keys if file.is_open]
    keys = staged.index.keys
    if not files:
        return state.derived(
            ("no open changes", *[key.path for key in keys]), lambda: _opened(open_table, state, [], staged)
        )
    return _opened(open_table, state, files, staged)


def _opened(
    open_table: OpenTable, state: TableState, files: Sequence[tuple[int, KeyFile]], staged: StagedKeys
) -> KeyedRows:
    keys = staged.index.keys

    def counts(task_id: int, rows: pa.RecordBatch) -> NDArray[np.bool_]:
        found = staged.superseded.get(task_id)
        return np.ones(rows.num_rows, dtype=bool) if found is None else _places(found, rows) < 0

    found = gather_rows(open_table.store.files, files, state.schema, keys, open_table.uri, counts)
    beside = [field.name for field in state.schema.fields if physical_name(field) in found.told]
    compared = tuple(compared_columns(state.schema, keys, beside))
    return KeyedRows(found.rows, _places(staged.index, found.rows), found.kinds, compared=compared)


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


class StagedChanges(MergedRows):
    """The `RowOperation` of a checkpoint of a table without a merge engine: the last change of each key counts.

    For most keys the tasks know it: their rows are in ``files`` already, or they are deleted. For the others, whose
    changes are ``opened``, the engine ``deduplicate`` decides with the table's row.
    """

    def __init__(
        self,
        open_table: OpenTable,
        state: TableState,
        staged: StagedKeys,
        opened: KeyedRows,
        files: tuple[PendingFile, ...],
        known: KnownKeys | None,
        mismatches: Mismatches,
        more_parameters: Callable[[], dict[str, str]],
    ) -> None:
        bound = staged, opened, Deduplicate(), known, mismatches
        super().__init__(open_table, state, *bound, properties={}, more_parameters=more_parameters)
        self.writes_every_source_row = False
        self.source_files = self._new_files = files
        self._index: SortedKeys = staged.index
        self._is_decided: NDArray[np.bool_] = mismatches.held == 0
        self._are_new: NDArray[np.bool_] = self._is_decided & ~staged.are_deletes
        self._is_decided[opened.keys] = False
        self._retracted |= staged.are_deletes & self._is_decided

    def parameters(self) -> dict[str, str]:
        return self.history(["update", "delete"], **self._more_parameters())

    def _goes(self, merged: Merged) -> NDArray[np.bool_]:
        return self._is_decided | super()._goes(merged)

    def has_row(self) -> NDArray[np.bool_]:
        return self._are_new | super().has_row()

    def beside_files(self, is_written: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return is_written & ~self._are_new

    def source_batches(self, is_written: NDArray[np.bool_]) -> Iterator[pa.RecordBatch]:
        """Those of the tasks are read from their files, which have each new row once."""
        yield from super().source_batches(is_written)
        if not (is_written & self._are_new).any():
            return
        reader = self._files.reader(self._schema.fields)
        for file in self._new_files:
            for _, batch in reader.batches(file.to_add(), with_dead_rows=True):
                wanted = is_written[_places(self._index, batch)]
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


def _places(index: SortedKeys, batch: pa.RecordBatch | pa.Table) -> NDArray[np.int64]:
    """Each row's key, as its index in ``index``; -1 if it is not there."""
    return index.source_rows([key.of(batch) for key in index.keys])
