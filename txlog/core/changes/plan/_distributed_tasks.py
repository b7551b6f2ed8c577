"""`DistributedTasks`: does the work of a row change in parts of the table, each in one task on workers.

In: a `RowJob`, its source, and the files to change. Out: what the change does to a version. A task's report on a file
stays valid while the same rows of the file match and are live. If another writer gave such a file a new deletion vector
in between, the driver only merges that vector with the task's. Files that are new, or whose matching rows died, are
changed again: by the workers, or by the driver if they are few.

If parts write source rows in place of their own rows, two parts may hold the same key. One of them writes the source
row, and the other part reruns without that row. If a version has change files, feed readers read only these, so they
must record every change: as soon as one part has change files, the new rows get some too, and tasks also record the
rows of files removed as a whole.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

import msgspec
from msgspec.structs import replace

from txlog.core import ambient
from txlog.core.changes.plan._change import RowChange, RowsReplaced, preview
from txlog.core.changes.plan._file_choice import FileChoice, LiveFiles
from txlog.core.changes.plan._options import RowOptions, uses_vectors
from txlog.core.changes.plan._run import replayed, row_change_steps, state_to_change
from txlog.core.changes.plan._target import ChangeTarget, SourceSummary
from txlog.core.changes.tasks import (
    ChangePart,
    FileOutcome,
    NewRows,
    PartOutcome,
    PartSource,
    RowJob,
    RowSpec,
    SourceFile,
    TaskTable,
    adapted,
    change_part,
    write_new_rows,
)
from txlog.core.definition import Definition
from txlog.core.format.actions import AddCDCFile, AddFile, DeletionVectorDescriptor, FileId, LiveKey
from txlog.core.format.arrow.spill import no_room, temporary_folder
from txlog.core.format.bitmaps import bitmap_of, union, unpack
from txlog.core.format.deletion_vector import vector_files
from txlog.core.format.file_columns import live_rows
from txlog.core.format.paths import resolve_data_path
from txlog.core.format.wide_statistics import wide_statistics
from txlog.core.reading import DeletionVectorReader
from txlog.core.row_rules import NumbersOfPreview
from txlog.core.versions import OpenTable, numbers_of
from txlog.core.versions.decisions.state import TableState
from txlog.core.wording import argument
from txlog.core.workers import Workers, require_crossing
from txlog.core.writing import TaskIdentity, UnsentFiles, WritePlan, check_columns, write_vectors
from txlog.errors import InvalidInputError, TxlogError
from txlog.result import WriteMetrics, WriteResult

if TYPE_CHECKING:
    from pyroaring import BitMap64

PART_BYTES = 32 << 20
PARTS_PER_SLOT = 4
INLINE_BYTES = 4 << 20
_SENT_MAX_BYTES = 256 << 20
_PARTS_MAX = 2_000
_FEW_FILES = 16
_FEW_BYTES = 16 << 20
_JOB_S = 1.0  # the minimum time of a workers' job
_VECTOR_S = 0.002  # the time to read one vector and write another
_BYTES_PER_S = 100e6


class SpreadSource(Protocol):
    """A source whose rows the workers hold, not the driver. It brings source rows and table parts together."""

    def change(self, job: RowJob, parts: Sequence[Sequence[AddFile]], elsewhere: bytes) -> Iterable[PartOutcome]:
        """Change the files of each part with the source rows whose keys they hold. See `change_part` for
        ``elsewhere``."""

    def write_new_rows(self, job: RowJob, matched: bytes, *, with_change_files: bool) -> Iterable[NewRows]:
        """Write the rows that the source adds, given the numbers of the source rows that match."""


SourceFor: TypeAlias = "Callable[[TableState], tuple[SourceSummary, SpreadSource | None] | None]"
"""What the driver knows about a source, and the source itself, unless the driver holds all of it; None if it has no row
and there is nothing to do."""


class _PartDone(msgspec.Struct):
    """What a task did, with its files as of the plan's last executed version.

    ``leaves_rows`` is true if another part writes a source row that replaces one of this part's rows.
    """

    outcome: PartOutcome
    files: dict[FileId, FileOutcome]
    leaves_rows: bool = False


class _NewRows(msgspec.Struct, frozen=True):
    """The written new rows, the matched source rows they assume, and whether they have change files."""

    matched: BitMap64
    with_change_files: bool
    written: list[NewRows]


class DistributedTasks:
    """Implements ``RowTasks``. ``source_rows`` is given if the change has a source."""

    def __init__(
        self,
        open_table: OpenTable,
        job: RowJob,
        target: ChangeTarget,
        options: RowOptions,
        workers: Workers,
        source_rows: SpreadSource | None,
        unsent: UnsentFiles,
    ) -> None:
        self._store = open_table.store
        self._job = job
        self._target = target
        self._options = options
        self._workers = workers
        self._source_rows = source_rows
        self._unsent = unsent
        self._parts: list[_PartDone] = []
        self._new_rows: _NewRows | None = None
        self._random_prefix_length = WritePlan.of_table(job.table, job.table.uri, rows="old").random_prefix_length
        self._executions = 0
        self._touched: dict[LiveKey, FileOutcome] = {}

    def knows(self, key: LiveKey) -> bool:
        return key in self._touched

    def matches(self, key: LiveKey) -> bool:
        return key in self._touched

    def recall(self, files: Sequence[FileId], *, are_all_live: bool) -> Collection[FileId]:
        return ()

    def replaced(self, state: TableState, live: LiveFiles, new: Sequence[AddFile], choice: FileChoice) -> RowsReplaced:
        if new:
            self._change(new)
            choice.excluded |= {add.live_key for add in new} - self._touched.keys()
            self._report(len(new), len(new))
        self._record_whole_files(live, choice)
        found = self._replaced(live, choice)
        self._executions += 1
        return found

    def would_do(self, state: TableState, live: LiveFiles, new: Sequence[AddFile], choice: FileChoice) -> WriteMetrics:
        return self.replaced(state, live, new, choice).metrics

    def cost_s(self, live: LiveFiles, new: Sequence[AddFile], choice: FileChoice) -> float:
        seen = {file for file, _ in self._touched}
        merged = sum(key[0] in seen and key not in self._touched for key in live.keys)
        work_s = _VECTOR_S * merged
        left = [add for add in new if add.file_id not in seen]
        if not left:
            return work_s
        return work_s + (sum(add.size for add in left) / _BYTES_PER_S if self._is_done_here(left) else _JOB_S)

    # --- files that changed meanwhile -----------------------------------------------------------------------------

    def follow(self, state: TableState, live: LiveFiles) -> None:
        """Keep the parts whose files are live with the same matching rows, and drop the others."""
        files = dict(live.keys)
        before = {file: outcome.key for part in self._parts for file, outcome in part.files.items()}
        adds = {
            add.file_id: add
            for add in live.adds([row for row, key in enumerate(live.keys) if before.get(key[0], key) != key])
        }
        vectors = DeletionVectorReader(self._store, state.version)
        kept, grown = [], []
        for part in self._parts:
            if not all(file in files for file in part.files):
                continue
            followed = {file: self._followed(each, adds.get(file), vectors) for file, each in part.files.items()}
            if all(each is not None for each in followed.values()):
                kept.append(part)
                grown += [(part, file, *each) for file, each in followed.items() if each is not None]
        # A dropped part reruns, and must then not write the source rows that other parts left to it.
        if len(kept) < len(self._parts):
            kept = [part for part in kept if not part.leaves_rows]
            grown = [each for each in grown if not each[0].leaves_rows]
        self._set_parts(kept)
        self._write_vectors(grown)

    def _followed(
        self, each: FileOutcome, add: AddFile | None, vectors: DeletionVectorReader
    ) -> tuple[FileOutcome, BitMap64 | None] | None:
        """A file's outcome, adapted to the deletion vector of its current ``add``.

        Args:
            each: The outcome that a task reported.
            add: The file's current ``add``; None if it did not change.
            vectors: Reads deletion vectors.

        Returns:
            The adapted outcome, and the rows that a new vector must mark (None if it needs no new vector); None if the
            file must be changed again.
        """
        if add is None:
            return each, None
        if each.hits is None or not self._job.with_vectors or each.num_rows == 0:
            return None
        vector = add.deletion_vector
        dead = unpack(b"") if vector is None else bitmap_of(vectors.dead_rows(vector, each.num_rows))
        if dead & unpack(each.hits) != unpack(each.dead_hits):
            return None
        after = replace(each, key=add.live_key, num_dead=len(dead))
        replaced = unpack(each.replaced)
        if not replaced:
            return after, None
        if each.is_removed or len(dead | replaced) >= each.num_rows:
            return None  # only a new look at the file shows whether a row is left
        return after, dead | replaced

    def _write_vectors(self, grown: Sequence[tuple[_PartDone, FileId, FileOutcome, BitMap64 | None]]) -> None:
        new = [dead for _, _, _, dead in grown if dead is not None]
        if not grown:
            return
        descriptors, _ = write_vectors(self._store.files, new, random_prefix_length=self._random_prefix_length)
        self._own_vectors(descriptors)
        left = iter(descriptors)
        for part, file, outcome, dead in grown:
            part.files[file] = outcome if dead is None else replace(outcome, vector=next(left))
        self._set_parts(self._parts)

    # --- files that are new -----------------------------------------------------------------------------------------

    def _change(self, adds: Sequence[AddFile]) -> None:
        """Change these files. A part reruns if it wrote a source row that another part wrote too."""
        in_place = self._target.source is not None and self._target.source.spec.writes_in_place
        to_do = list(adds)
        while to_do:
            placed = union(part.outcome.matched for part in self._parts) if in_place else unpack(b"")
            elsewhere, known = bytes(placed.serialize()), placed.copy()
            again: set[FileId] = set()
            for outcome in self._changed(to_do, elsewhere):
                touched = {each.key[0]: each for each in outcome.files}
                self._own([*outcome.new_files, *outcome.change_files])
                self._own_vectors(each.vector for each in outcome.files if each.vector is not None)
                matched = unpack(outcome.matched) if in_place else unpack(b"")
                if (matched & placed) - known:
                    again |= touched.keys()
                    continue
                self._parts.append(_PartDone(outcome, touched, leaves_rows=bool(matched & known)))
                self._touched.update((each.key, each) for each in outcome.files)
                placed |= matched
            to_do = [add for add in to_do if add.file_id in again]

    def _changed(self, adds: Sequence[AddFile], elsewhere: bytes) -> Iterator[PartOutcome]:
        """The outcomes of all parts, in order of completion."""
        if self._is_done_here(adds):
            yield change_part(self._job, self._store, adds, self._target.few, elsewhere)
        elif self._target.is_spread and self._source_rows is not None:
            yield from self._source_rows.change(self._job, parts_of(adds), elsewhere)
        else:
            with self._source_of_tasks() as source:
                parts = parts_of(adds, self._parts_max)
                done = 0
                for number, outcome in self._workers.map(ChangePart(self._job, source, elsewhere), parts):
                    done += len(parts[number])
                    self._report(done, len(adds))
                    yield outcome

    def _report(self, done: int, total: int) -> None:
        if (on_files := self._options.on_files) is not None:
            on_files(done, total)

    @property
    def _parts_max(self) -> int:
        """Each part looks at all source rows that the driver holds, so a large source has few parts."""
        few = self._target.few
        is_large = few is not None and few.rows.nbytes > INLINE_BYTES
        return PARTS_PER_SLOT * self._workers.slots if is_large else _PARTS_MAX

    @contextlib.contextmanager
    def _source_of_tasks(self) -> Iterator[PartSource | SourceFile | None]:
        """The source rows as tasks get them: in a temporary file, if they are many and other processes can read it."""
        few = self._target.few
        is_small = few is None or few.rows.nbytes <= INLINE_BYTES
        if few is None or is_small or not self._workers.crosses:
            yield few
        elif self._workers.shares_disk:
            with contextlib.ExitStack() as until_done:
                try:
                    folder = until_done.enter_context(temporary_folder())
                    source = SourceFile.written(few.rows, f"{folder}/source.arrow")
                except OSError as error:
                    raise no_room("the rows of the source", error, self._store.uri) from error
                yield source
        elif few.rows.nbytes <= _SENT_MAX_BYTES:
            yield few
        else:
            raise InvalidInputError(
                f"the source has {few.rows.nbytes >> 20} MiB, and every task would be sent all of it: use"
                " txlog.spark.upsert or txlog.spark.merge, which spread the source too, processes of this machine as"
                f" {argument('workers')}, or leave {argument('workers')} out",
                table=self._store.uri,
            )

    def _record_whole_files(self, live: LiveFiles, choice: FileChoice) -> None:
        """If the version has change files, let tasks record the rows of files that are removed as a whole."""
        if self._has_change_files and choice.whole:
            left = choice.whole - self._touched.keys()
            self._change(live.adds([row for row, key in enumerate(live.keys) if key in left]))
            choice.whole.clear()

    @property
    def _has_change_files(self) -> bool:
        """Whether the version has change files."""
        return any(part.outcome.change_files for part in self._parts)

    def _is_done_here(self, adds: Sequence[AddFile]) -> bool:
        """Whether the driver changes these files. For a few files that is faster than a workers' job.

        The first execution always runs on the workers.
        """
        is_little = len(adds) <= _FEW_FILES and sum(add.size for add in adds) <= _FEW_BYTES
        return is_little and self._executions > 0 and not self._target.is_spread

    def _own(self, files: Iterable[AddFile | AddCDCFile]) -> None:
        self._unsent.own(resolve_data_path(file.path).path for file in files)

    def _own_vectors(self, vectors: Iterable[DeletionVectorDescriptor]) -> None:
        self._unsent.own(vector_files(vectors))

    def _set_parts(self, parts: list[_PartDone]) -> None:
        self._parts = parts
        self._touched = {outcome.key: outcome for part in parts for outcome in part.files.values()}

    # --- what the change does -----------------------------------------------------------------------------------------

    def _replaced(self, live: LiveFiles, choice: FileChoice) -> RowsReplaced:
        """What all parts and the new rows do. A file with a new vector keeps everything else of its current ``add``."""
        touched = self._touched
        removed: list[AddFile] = []
        whole: list[AddFile] = []
        marked: list[tuple[AddFile, DeletionVectorDescriptor, str]] = []
        for add in live.adds([row for row, key in enumerate(live.keys) if key in touched or key in choice.whole]):
            outcome = touched.get(add.live_key)
            if outcome is None:
                whole.append(add)
            elif outcome.is_removed:
                removed.append(add)
            elif outcome.vector is not None:
                stats = wide_statistics(add.stats, num_records=outcome.num_rows, dead_before=outcome.num_dead)
                marked.append((add, outcome.vector, stats))
        new_rows, num_matched = self._written_source_rows()
        fractions = self._dead_fractions()
        change_data = [file for part in self._parts for file in part.outcome.change_files]
        change_data += [file for each in new_rows for file in each.change_files]
        counted = self._counted(whole, new_rows, num_matched)
        return RowsReplaced(
            [*removed, *whole],
            marked,
            [
                *(file for part in self._parts for file in part.outcome.new_files),
                *(file for each in new_rows for file in each.files),
            ],
            replace(counted, change_files=len(change_data), dead_fraction=max(fractions.values(), default=0.0)),
            fractions,
            change_data,
        )

    def _dead_fractions(self) -> dict[FileId, float]:
        """The fraction of each file's rows that its new deletion vector marks as dead."""
        return {
            each.key[0]: (each.num_dead + len(unpack(each.replaced))) / each.num_rows
            for each in self._touched.values()
            if each.vector is not None and not each.is_removed
        }

    def _written_source_rows(self) -> tuple[list[NewRows], int]:
        """The new rows, rewritten if other source rows match than before, and the number of matched source rows."""
        source = self._target.source
        if source is None:
            return [], 0
        matched = union(part.outcome.matched for part in self._parts)
        if not source.spec.may_add(source.num_rows, len(matched)):
            return [], len(matched)
        relevant = unpack(b"") if source.spec.writes_every_row else matched
        recorded = self._has_change_files
        found = self._new_rows
        if found is None or found.matched != relevant or found.with_change_files != recorded:
            few = self._target.few
            if few is not None and (self._executions > 0 or self._source_rows is None):
                task = TaskIdentity(ambient.uuid4())
                written = self._own_new_rows(
                    [write_new_rows(self._job, self._store, task, [few], relevant, with_change_files=recorded)]
                )
            else:
                assert self._source_rows is not None
                written = self._own_new_rows(
                    self._source_rows.write_new_rows(self._job, bytes(relevant.serialize()), with_change_files=recorded)
                )
            found = self._new_rows = _NewRows(relevant, recorded, written)
        return found.written, len(matched)

    def _own_new_rows(self, written: Iterable[NewRows]) -> list[NewRows]:
        found = []
        for each in written:
            self._own([*each.files, *each.change_files])
            found.append(each)
        return found

    def _counted(self, whole: Sequence[AddFile], new_rows: Sequence[NewRows], num_matched: int) -> WriteMetrics:
        parts = _sum(part.outcome.metrics for part in self._parts)
        inserted, updated, deleted = 0, parts.rows_updated, parts.rows_deleted
        if self._target.source is not None:
            written = sum(each.rows for each in new_rows)
            inserted, updated, deleted = self._target.source.spec.counts(written, num_matched, parts)
        new_files = [file for each in new_rows for file in each.files]
        return WriteMetrics(
            rows=inserted + updated,
            files=parts.files + len(new_files),
            bytes=parts.bytes + sum(file.size for file in new_files),
            files_removed=parts.files_removed + len(whole),
            rows_inserted=inserted,
            rows_updated=updated,
            rows_deleted=deleted + sum(map(live_rows, whole)),
            rows_copied=parts.rows_copied,
            vectors=parts.vectors,
        )


def _sum(metrics: Iterable[WriteMetrics]) -> WriteMetrics:
    each = list(metrics)
    return WriteMetrics(
        files=sum(one.files for one in each),
        bytes=sum(one.bytes for one in each),
        files_removed=sum(one.files_removed for one in each),
        rows_updated=sum(one.rows_updated for one in each),
        rows_deleted=sum(one.rows_deleted for one in each),
        rows_copied=sum(one.rows_copied for one in each),
        vectors=sum(one.vectors for one in each),
    )


def parts_of(adds: Sequence[AddFile], most: int = _PARTS_MAX) -> list[list[AddFile]]:
    """Split the files, in order, into about ``most`` parts of about equal size, or fewer."""
    size = max(PART_BYTES, sum(add.size for add in adds) // most)
    parts: list[list[AddFile]] = []
    left = 0
    for add in adds:
        if not parts or left < add.size:
            parts.append([])
            left = size
        parts[-1].append(add)
        left -= add.size
    return parts


def table_of_tasks(open_table: OpenTable, state: TableState, *, dry_run: bool = False) -> TaskTable:
    """A version of the table for tasks that may add rows to it; with ``dry_run``, only to count them."""
    numbers = numbers_of(open_table, state)
    return open_table.task_table(state, NumbersOfPreview() if dry_run and numbers is not None else numbers)


def defined_as(state: TableState, definition: Definition | None) -> TableState:
    """The version with the definition that a change will commit, if it commits one."""
    return state if definition is None else state.defined_as(definition.metadata, definition.protocol)


def run_in_parts(
    open_table: OpenTable,
    spec: RowSpec,
    options: RowOptions,
    workers: Workers,
    source_for: SourceFor | None = None,
    definition_for: Callable[[TableState], Definition | None] = lambda state: None,
) -> WriteResult | None:
    """One row change on workers, from its arguments to its acknowledgement; None if its source says so.

    ``definition_for`` is the definition, with more columns, that the change commits too; None if the table keeps its
    own. Raises ``InvalidInputError`` before it starts if the change cannot be sent to the workers; and what
    `state_to_change` and `change_on_workers` raise.
    """
    state = state_to_change(open_table, options, spec.what)
    with TxlogError.located(open_table.uri, state.version):
        with_vectors = uses_vectors(state, options.mode)
    found = replayed(open_table, state, options)
    if found is not None:
        return found
    if workers.crosses:
        require_crossing(spec, f"{spec.what} with this condition or these values", open_table.uri)
    with TxlogError.located(open_table.uri, state.version):
        definition = definition_for(state)
    source = None
    if source_for is not None:
        source = source_for(defined_as(state, definition))
        if source is None:
            return None
    extent, rows = source or (None, None)
    spec = spec if extent is None else extent.spec  # fitted to the source's columns
    change = open_table, state, spec, options, extent, workers, rows
    return change_on_workers(*change, with_vectors=with_vectors, definition=definition)


def change_on_workers(
    open_table: OpenTable,
    state: TableState,
    spec: RowSpec,
    options: RowOptions,
    source: SourceSummary | None,
    workers: Workers,
    source_rows: SpreadSource | None,
    *,
    with_vectors: bool,
    definition: Definition | None = None,
) -> WriteResult:
    """Execute a change whose source is materialized on ``workers``, and commit it.

    ``source`` is what the driver knows about the source, and ``source_rows`` the source itself; None for a change
    without one. ``definition`` is the one to which both are bound, if the change commits another than the table's.
    Raises what `row_change_steps` and tasks raise.
    """
    bound_to = defined_as(state, definition)
    spec = adapted(spec, bound_to)
    source = None if source is None else replace(source, spec=adapted(source.spec, bound_to))
    table = table_of_tasks(open_table, bound_to, dry_run=options.dry_run)
    with TxlogError.located(open_table.uri, state.version):
        if options.parquet:
            check_columns(options.parquet, bound_to.schema, bound_to.partition_columns)
            table = table.with_parquet(options.parquet)
        target = ChangeTarget(table, spec, source)
    job = RowJob(table, spec, with_vectors, options.dry_run)
    with open_table.unsent_files() as unsent:
        tasks = DistributedTasks(open_table, job, target, options, workers, source_rows, unsent)
        if options.dry_run:
            open_table.log.check_zones(state)
            return WriteResult(
                state.version, "dry_run", 0, "", preview(state, target, tasks, open_table.log.files(state))
            )
        change = RowChange(open_table, state, target, options, tasks, definition=definition)
        return open_table.run(row_change_steps(open_table, state, options, change, unsent))
