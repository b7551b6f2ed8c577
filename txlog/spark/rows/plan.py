"""`SparkRowPlan`: a row change as a commit plan whose work Spark tasks do.

In: a spec, its source, and the newest version. Out: a proposal for this version. What a task reported for a file stays
valid as long as the same rows of the file match and are live. If another writer gave such a file a new deletion vector
in between, the driver only merges that vector with the task's. Files that are new, or whose matching rows died, are
changed again: in Spark, or by the driver if they are few.

If parts write source rows in place of their own rows, two parts may hold the same key. One of them writes the source
row, and the other part is executed again without that row. If a version has change files, readers of the feed read only
these, so they must record every change: as soon as one part has change files, the new rows get some too, and tasks also
record the rows of files that are removed as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec
import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from txlog.commands.row_change.options import RowOptions
from txlog.commit.open_table import OpenTable
from txlog.log.proposal import Isolation, Proposal
from txlog.log.proposal_builder import ProposalBuilder
from txlog.log.state import TableState
from txlog.protocol.actions import AddCDCFile, AddFile, DeletionVectorDescriptor, FileId, LiveKey
from txlog.protocol.bitmaps import bitmap_of, union, unpack
from txlog.protocol.deletion_vector import vector_files
from txlog.protocol.file_columns import add_files_of, live_keys, live_rows
from txlog.protocol.paths import resolve_data_path
from txlog.protocol.properties import TableProperties
from txlog.protocol.wide_statistics import wide_statistics
from txlog.read.deletion_vectors import DeletionVectorReader
from txlog.result import WriteMetrics
from txlog.spark.rows.part import FileOutcome, NewRows, PartOutcome, RowJob, change_part, write_new_rows
from txlog.spark.rows.target import Target
from txlog.util import ambient
from txlog.writer.unsent_files import UnsentFiles
from txlog.writer.vector_file import write_vectors
from txlog.writer.write_plan import TaskIdentity, WritePlan

if TYPE_CHECKING:
    from pyroaring import BitMap64

__all__ = ["Jobs", "SparkRowPlan"]

_FEW_FILES = 16
_FEW_BYTES = 16 << 20
_JOB_S = 1.0  # the least time of a Spark job
_CLOSE_S = 0.005  # the fixed time of an execution
_VECTOR_S = 0.002  # the time to read one vector and write another
_BYTES_PER_S = 100e6


class Jobs(Protocol):
    """Runs parts of a change outside the driver; `SparkJobs` implements it."""

    def change(self, adds: Sequence[AddFile], elsewhere: bytes) -> list[PartOutcome]: ...

    def write_new_rows(self, matched: bytes, *, with_change_files: bool) -> list[NewRows]: ...


class _Part(msgspec.Struct):
    """What a task did, with its files as of the newest version that the plan was executed on.

    ``leaves_rows`` is true if another part writes the source row that replaces one of this part's rows.
    """

    outcome: PartOutcome
    files: dict[FileId, FileOutcome]
    leaves_rows: bool = False


class _NewRows(msgspec.Struct, frozen=True):
    """The written new rows, the matched source rows that they assume, and whether they have change files."""

    matched: BitMap64
    with_change_files: bool
    written: list[NewRows]


class SparkRowPlan:
    """Implements ``commit.plan.Plan``."""

    def __init__(
        self, open_table: OpenTable, job: RowJob, target: Target, options: RowOptions, jobs: Jobs, unsent: UnsentFiles
    ) -> None:
        self._open_table = open_table
        self._store = open_table.store
        self._job = job
        self._target = target
        self._options = options
        self._jobs = jobs
        self._unsent = unsent
        self._txn_id = ambient.uuid4()
        self._excluded: set[LiveKey] = set()
        self._whole: set[LiveKey] = set()
        self._parts: list[_Part] = []
        self._new_rows: _NewRows | None = None
        self._random_prefix_length = WritePlan.of(job.metadata, table=job.uri, rows="old").random_prefix_length
        self._has_feed = TableProperties.of(job.metadata.configuration).enable_change_data_feed
        self._executions = 0
        self._metrics = WriteMetrics()
        self._live_files: pa.Table | None = None  # kept so that listing a newer version costs only its new files

    @property
    def metrics(self) -> WriteMetrics:
        return self._metrics

    @property
    def dead_fractions(self) -> dict[str, float]:
        """The fraction of each file's rows that its new deletion vector marks as dead, by path."""
        return {
            path: (each.num_dead + len(unpack(each.replaced))) / each.num_rows
            for part in self._parts
            for (path, _, _), each in part.files.items()
            if each.vector is not None and not each.is_removed
        }

    def execute(self, state: TableState) -> Proposal:
        options, commit, builder = self._options, self._options.commit, ProposalBuilder(state)
        if commit.transaction is not None:
            builder.set_transaction(*commit.transaction)
        files = self._live_files = self._open_table.log.files(state)
        keys = live_keys(files)
        self._follow(state, files, keys)
        self._change_new_files(files, keys)
        self._record_whole_files(files, keys)
        self._metrics = self._build(builder, files, keys)
        self._executions += 1
        if options.is_reexecuted:
            builder.read_table()
        else:
            self._target.declare_reads(builder, [key[0][0] for key in keys if key not in self._excluded])
        is_serial = options.is_reexecuted or commit.read_version is not None
        return builder.build(
            txn_id=self._txn_id,
            now_ms=ambient.now_ms(),
            isolation=Isolation.SERIALIZABLE if is_serial else self._open_table.isolation(state, commit.isolation),
            operation=self._target.name,
            parameters=self._target.parameters(),
            metrics=self._target.metrics(self._metrics),
            user_metadata=commit.user_metadata,
            fingerprint=commit.fingerprint,
            is_reexecutable=options.is_reexecuted,
            is_tied_to_version=commit.read_version is not None,
        )

    def remaining_work_s(self, state: TableState) -> float:
        files = self._live_files = self._open_table.log.files(state)
        keys = live_keys(files)
        touched = self._touched()
        seen = {file for file, _ in touched}
        known = touched.keys() | self._excluded | self._whole
        unknown = [row for row, key in enumerate(keys) if key not in known]
        merged = sum(keys[row][0] in seen for row in unknown)
        new = self._candidates(files, keys, [row for row in unknown if keys[row][0] not in seen])
        work_s = _CLOSE_S + _VECTOR_S * merged
        if not new:
            return work_s
        return work_s + (sum(add.size for add in new) / _BYTES_PER_S if self._is_done_here(new) else _JOB_S)

    # --- files that changed meanwhile -----------------------------------------------------------------------------

    def _follow(self, state: TableState, files: pa.Table, keys: Sequence[LiveKey]) -> None:
        """Keep the parts whose files are live with the same matching rows, and drop the other parts."""
        live = dict(keys)
        self._excluded &= set(keys)
        self._whole &= set(keys)
        before = {file: outcome.key for part in self._parts for file, outcome in part.files.items()}
        changed = [row for row, key in enumerate(keys) if before.get(key[0], key) != key]
        adds = {add.file_id: add for add in add_files_of(files.take(changed))} if changed else {}
        vectors = DeletionVectorReader(self._store, state.version)
        kept, grown = [], []
        for part in self._parts:
            if not all(file in live for file in part.files):
                continue
            followed = {file: self._followed(each, adds.get(file), vectors) for file, each in part.files.items()}
            if all(each is not None for each in followed.values()):
                kept.append(part)
                grown += [(part, file, *each) for file, each in followed.items() if each is not None]
        # A dropped part is executed again, and may then not write the source rows that other parts left to it.
        if len(kept) < len(self._parts):
            kept = [part for part in kept if not part.leaves_rows]
            grown = [each for each in grown if not each[0].leaves_rows]
        self._parts = kept
        self._write_vectors(grown)

    def _followed(
        self, each: FileOutcome, add: AddFile | None, vectors: DeletionVectorReader
    ) -> tuple[FileOutcome, BitMap64 | None] | None:
        """The outcome of a file, adapted to the deletion vector that its current ``add`` has.

        Args:
            each: The outcome that a task reported.
            add: The current ``add`` of the file; None if it did not change.
            vectors: Reads deletion vectors.

        Returns:
            The adapted outcome, and the rows that a new vector must mark (None if no new vector is needed); None if
            the file must be changed again.
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

    def _write_vectors(self, grown: Sequence[tuple[_Part, FileId, FileOutcome, BitMap64 | None]]) -> None:
        new = [dead for _, _, _, dead in grown if dead is not None]
        if not grown:
            return
        descriptors, _ = write_vectors(self._store.files, new, random_prefix_length=self._random_prefix_length)
        self._own_vectors(descriptors)
        left = iter(descriptors)
        for part, file, outcome, dead in grown:
            part.files[file] = outcome if dead is None else replace(outcome, vector=next(left))

    # --- files that are new -----------------------------------------------------------------------------------------

    def _change_new_files(self, files: pa.Table, keys: Sequence[LiveKey]) -> None:
        """Change the files that no execution has seen yet, and remember those without a match."""
        known = self._touched().keys() | self._excluded | self._whole
        unknown = [row for row, key in enumerate(keys) if key not in known]
        adds = self._candidates(files, keys, unknown)
        whole = {
            add.live_key for add in adds if self._target.matches_whole_file(add) and not self._is_recorded_alone(add)
        }
        self._whole |= whole
        to_do = [add for add in adds if add.live_key not in whole]
        self._excluded |= {keys[row] for row in unknown} - {add.live_key for add in adds}
        if not to_do:
            return
        self._change(to_do)
        self._excluded |= {add.live_key for add in to_do} - self._touched().keys()
        if self._options.on_progress is not None:
            self._options.on_progress(len(to_do), len(to_do))

    def _change(self, adds: Sequence[AddFile]) -> None:
        """Change these files. A part that wrote a source row which another part wrote too is executed again."""
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
                self._parts.append(_Part(outcome, touched, leaves_rows=bool(matched & known)))
                placed |= matched
            to_do = [add for add in to_do if add.file_id in again]

    def _changed(self, adds: Sequence[AddFile], elsewhere: bytes) -> list[PartOutcome]:
        if self._is_done_here(adds):
            return [change_part(self._job, self._store, adds, self._target.few, elsewhere)]
        return self._jobs.change(adds, elsewhere)

    def _record_whole_files(self, files: pa.Table, keys: Sequence[LiveKey]) -> None:
        """If the version has change files, let tasks record the rows of files that are removed as a whole."""
        rows = [row for row, key in enumerate(keys) if key in self._whole] if self._has_change_files else []
        if rows:
            self._change(add_files_of(files.take(rows)))
            self._whole.clear()

    def _is_recorded_alone(self, add: AddFile) -> bool:
        """Whether a file that is removed as a whole needs change files, as in ``ChangeFiles.finish``."""
        return self._has_feed and add.deletion_vector is not None

    @property
    def _has_change_files(self) -> bool:
        """Whether the version has change files."""
        return any(part.outcome.change_files for part in self._parts)

    def _candidates(self, files: pa.Table, keys: Sequence[LiveKey], rows: Sequence[int]) -> list[AddFile]:
        """The files, among these rows of ``files``, that may hold a match."""
        if not rows:
            return []
        chosen = files.take(rows) if len(rows) < files.num_rows else files
        wanted = np.flatnonzero(self._target.candidates(chosen))
        return add_files_of(chosen.take(wanted)) if len(wanted) else []

    def _is_done_here(self, adds: Sequence[AddFile]) -> bool:
        """Whether the driver changes these files. For a few files that is faster than a Spark job.

        The first execution always runs in Spark.
        """
        is_little = len(adds) <= _FEW_FILES and sum(add.size for add in adds) <= _FEW_BYTES
        return is_little and self._executions > 0 and not self._target.is_in_spark

    def _own(self, files: Iterable[AddFile | AddCDCFile]) -> None:
        self._unsent.own(resolve_data_path(file.path).path for file in files)

    def _own_vectors(self, vectors: Iterable[DeletionVectorDescriptor]) -> None:
        self._unsent.own(vector_files(vectors))

    def _touched(self) -> dict[LiveKey, FileOutcome]:
        return {outcome.key: outcome for part in self._parts for outcome in part.files.values()}

    # --- the proposal -------------------------------------------------------------------------------------------------

    def _build(self, builder: ProposalBuilder, files: pa.Table, keys: Sequence[LiveKey]) -> WriteMetrics:
        """Put the actions of the change into ``builder``, and return its metrics.

        A file that gets a new vector keeps everything else of its current ``add``.
        """
        touched = self._touched()
        rows = [row for row, key in enumerate(keys) if key in touched or key in self._whole]
        whole: list[AddFile] = []
        for add in add_files_of(files.take(rows)) if rows else []:
            outcome = touched.get(add.live_key)
            if outcome is None:
                whole.append(add)
            elif outcome.is_removed:
                builder.remove(add)
            elif outcome.vector is not None:
                stats = wide_statistics(add.stats, num_records=outcome.num_rows, dead_before=outcome.num_dead)
                builder.replace_vector(add, outcome.vector, stats=stats)
        builder.remove(*whole)
        for part in self._parts:
            builder.add(*part.outcome.new_files)
        new_rows, num_matched = self._source_rows()
        builder.add(*(file for each in new_rows for file in each.files))
        change_files = [file for part in self._parts for file in part.outcome.change_files]
        change_files += [file for each in new_rows for file in each.change_files]
        builder.change_data(*change_files)
        return replace(self._counted(whole, new_rows, num_matched), change_files=len(change_files))

    def _source_rows(self) -> tuple[list[NewRows], int]:
        """The new rows, written again if other source rows match than before, and the number of matched source rows."""
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
            if few is not None and self._executions > 0:
                task = TaskIdentity(ambient.uuid4())
                written = [write_new_rows(self._job, self._store, task, [few], relevant, with_change_files=recorded)]
            else:
                written = self._jobs.write_new_rows(bytes(relevant.serialize()), with_change_files=recorded)
            for each in written:
                self._own([*each.files, *each.change_files])
            found = self._new_rows = _NewRows(relevant, recorded, written)
        return found.written, len(matched)

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
            dead_fraction=max(self.dead_fractions.values(), default=0.0),
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
