"""`Compaction`: rewritten bins as a plan, so writers that change other rows never make a compaction fail.

In: `RewrittenBin`s and the newest version. Out: a proposal that replaces the sources by their new files. What other
writers did to a source since it was read decides what happens to its bin:

- nothing: the new files replace it;
- a deletion vector marks more rows than before: the new file gets a deletion vector for the same rows, found by their
  positions, and nothing is rewritten;
- the source was removed, or a restore brought back some of its rows: the bin is given up, and its files stay as they
  are.

Under Delta's own rules the last two cases would fail the whole commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from txlog.core import ambient
from txlog.core.format.actions import AddFile, DeletionVectorDescriptor, FileId, RemoveFile
from txlog.core.format.bitmaps import bitmap_of
from txlog.core.format.commit_file import Commit
from txlog.core.format.deletion_vector import vector_files
from txlog.core.format.file_columns import add_files_of
from txlog.core.format.paths import canonical_path
from txlog.core.format.wide_statistics import wide_statistics
from txlog.core.maintenance.rewriting._rewrite_bin import RewrittenBin, RewrittenFile
from txlog.core.reading import DeletionVectorReader
from txlog.core.versions import OpenTable, raise_conflict
from txlog.core.versions.decisions.proposal import OperationInfo, Proposal
from txlog.core.versions.decisions.proposal_builder import ProposalBuilder
from txlog.core.versions.decisions.state import TableState
from txlog.core.writing import UnsentFiles, write_vectors
from txlog.errors import ConflictReason, NotFoundError
from txlog.result import WriteMetrics

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from txlog.core.writing.committable import PendingFile

_CLOSE_S = 0.005  # fixed time of every execution
_VECTOR_S = 0.002  # time to read or write a vector


class CompactionOutcome(msgspec.Struct, frozen=True):
    """What the last executed proposal does. Sizes in bytes."""

    removed: tuple[AddFile, ...] = ()
    added: tuple[AddFile, ...] = ()
    rows: int = 0
    vectors_purged: int = 0
    vectors_moved: int = 0
    bins_given_up: int = 0


_Place: TypeAlias = tuple[int, int]
"""A new file: its bin's number, and its own number there."""


class _Marked(msgspec.Struct):
    """The vector written for a new file, and the rows it marks."""

    dead: NDArray[np.uint64]
    descriptor: DeletionVectorDescriptor


class RewriteDescription(msgspec.Struct, frozen=True):
    """How history describes the commit: ``operation`` and its parameters, with Spark's names."""

    operation: str
    parameters: Mapping[str, str] = msgspec.field(default_factory=dict)
    user_metadata: str | None = None
    tags: dict[str, str | None] | None = None
    """``add.tags`` of the new files."""
    clustering_provider: str | None = None
    """Their ``add.clusteringProvider``."""


class Compaction:
    """A `Plan`: the rewritten bins of ``version``, in which all sources are live, applied to any later version."""

    def __init__(
        self,
        open_table: OpenTable,
        version: int,
        bins: Sequence[RewrittenBin],
        description: RewriteDescription,
        unsent: UnsentFiles,
        *,
        random_prefix_length: int = 0,
    ) -> None:
        self._open_table = open_table
        self._bins = bins
        self._description = description
        self._unsent = unsent
        self._random_prefix_length = random_prefix_length
        self._txn_id = ambient.uuid4()
        self._written: dict[_Place, _Marked] = {}
        self._looked_up: tuple[TableState, list[tuple[int, RewrittenFile, AddFile | None]]] | None = None
        adds = [source.add for each in bins for source in each.sources]
        self._by_path = {canonical_path(add.path): add.file_id for add in adds}
        self._followed: tuple[int, Mapping[FileId, AddFile]] = (version, {add.file_id: add for add in adds})
        self.done = CompactionOutcome()
        self.has_nothing_left = False
        """Whether it ended because it had to give up every bin."""

    @property
    def metrics(self) -> WriteMetrics:
        done = self.done
        return WriteMetrics(
            rows=done.rows,
            files=len(done.added),
            bytes=sum(add.size for add in done.added),
            files_removed=len(done.removed),
            rows_copied=done.rows,
            vectors=done.vectors_moved,
        )

    def remaining_work_s(self, state: TableState) -> float:
        """Only vectors for sources that changed: all other files are already written."""
        return _CLOSE_S + _VECTOR_S * sum(
            live is not None and live.key != source.add.key for _, source, live in self._sources(state)
        )

    def execute(self, state: TableState) -> Proposal:
        numbers = self._dead_numbers(state)
        kept = {number: rows for number, rows in numbers.items() if rows is not None}
        dead = {
            (number, place): new.places(rows, self._open_table.store.files)
            for number, rows in kept.items()
            for place, new in enumerate(self._bins[number].files)
        }
        vectors, stats = self._vectors(dead)
        builder = ProposalBuilder(state, data_change=False)
        removed: list[AddFile] = []
        live = {(number, source.add.path): add for number, source, add in self._sources(state)}
        for number in kept:
            removed += [add for source in self._bins[number].sources if (add := live[number, source.add.path])]
        if not kept:
            self._give_up(state)
        with_rows = [at for at, marks in dead.items() if len(marks) < self._new_file(at).num_rows]
        added = tuple(self._add_of(at, vectors.get(at), stats.get(at)) for at in with_rows)
        builder.remove(*removed)
        builder.add(*added)
        self.done = CompactionOutcome(
            tuple(removed),
            added,
            sum(self._new_file(at).num_rows for at in with_rows),
            vectors_purged=sum(add.deletion_vector is not None for add in removed),
            vectors_moved=len(vectors),
            bins_given_up=len(self._bins) - len(kept),
        )
        return builder.build(
            OperationInfo(
                self._description.operation,
                self._description.parameters,
                metrics=operation_metrics(self.done),
                user_metadata=self._description.user_metadata,
            ),
            txn_id=self._txn_id,
            now_ms=ambient.now_ms(),
            isolation=self._open_table.isolation(state),
            is_reexecutable=True,
        )

    def _new_file(self, at: _Place) -> PendingFile:
        number, place = at
        return self._bins[number].files[place].file

    def _add_of(self, at: _Place, vector: DeletionVectorDescriptor | None, stats: str | None) -> AddFile:
        """The action of a new file. With a vector, its statistics are those of the rows that are left."""
        add = self._new_file(at).to_add(data_change=False)
        if vector is not None:
            add = replace(add, deletion_vector=vector, stats=stats)
        described = self._description
        return replace(add, tags=described.tags, clustering_provider=described.clustering_provider)

    def _give_up(self, state: TableState) -> NoReturn:
        self.has_nothing_left = True
        names = [source.add.path for each in self._bins for source in each.sources]
        detail = f"removed or restored {names[0]}{' and others' if len(names) > 1 else ''}, which was being rewritten"
        operation = self._description.operation
        raise_conflict(
            (ConflictReason("ConcurrentDeleteDeleteError", state.version, operation, detail),), self._open_table.uri
        )

    # --- what became of the sources -----------------------------------------------------------------------------

    def _sources(self, state: TableState) -> list[tuple[int, RewrittenFile, AddFile | None]]:
        """Every source with its bin's number and its live file in ``state``; None if the file was removed, even if
        another one has its path."""
        if self._looked_up is not None and self._looked_up[0] is state:
            return self._looked_up[1]
        live = self._live_at(state)
        found = [
            (number, source, live.get(source.add.file_id))
            for number, each in enumerate(self._bins)
            for source in each.sources
        ]
        self._looked_up = state, found
        return found

    def _live_at(self, state: TableState) -> Mapping[FileId, AddFile]:
        """The sources that are live, by id. Only what commits changed since the last look is read, however many files
        the table has."""
        version, live = self._followed
        if version < state.version:
            try:
                live = self._changed_by(self._open_table.log.commits_between(version + 1, state.version), live)
            except NotFoundError:  # cleaned up meanwhile
                live = self._listed(state)
        elif version > state.version:
            live = self._listed(state)
        self._followed = state.version, live
        return live

    def _changed_by(self, commits: Iterable[Commit], before: Mapping[FileId, AddFile]) -> dict[FileId, AddFile]:
        live = dict(before)
        for commit in commits:
            added = []
            for action in commit.actions:
                if isinstance(action, AddFile | RemoveFile):
                    source = self._by_path.get(canonical_path(action.path))
                    if source is None:
                        continue
                    if isinstance(action, AddFile):
                        added.append((source, action))
                    elif (known := live.get(source)) is not None and _vector_id(known) == _vector_id(action):
                        del live[source]
            for source, add in added:
                live.pop(source, None)
                if add.file_id == source:  # else another file has taken its path
                    live[source] = add
        return live

    def _listed(self, state: TableState) -> dict[FileId, AddFile]:
        paths = pa.array([source.add.path for each in self._bins for source in each.sources], pa.string())
        files = self._open_table.log.files(state)
        return {add.file_id: add for add in add_files_of(files.filter(pc.is_in(files.column("path"), paths)))}

    def _dead_numbers(self, state: TableState) -> dict[int, NDArray[np.uint64] | None]:
        """For each bin, the numbers of the rows that died since it was read; None if the bin is given up."""
        reader = DeletionVectorReader(self._open_table.store, state.version)
        found: dict[int, list[NDArray[np.uint64]] | None] = {number: [] for number in range(len(self._bins))}
        for number, source, live in self._sources(state):
            marks = found[number]
            if marks is None:
                continue
            new = None if live is None else rows_to_mark(source, live, reader)
            if new is None:
                found[number] = None
            else:
                marks.append(new)
        empty = np.empty(0, np.uint64)
        return {number: None if marks is None else np.concatenate([empty, *marks]) for number, marks in found.items()}

    def _vectors(
        self, dead: Mapping[_Place, NDArray[np.uint64]]
    ) -> tuple[dict[_Place, DeletionVectorDescriptor], dict[_Place, str]]:
        """The vectors of new files in which some but not all rows are dead, and the matching statistics."""
        files = {place: self._bins[place[0]].files[place[1]].file for place in dead}
        marked = {place: rows for place, rows in dead.items() if 0 < len(rows) < files[place].num_rows}
        known = {
            place: self._written[place]
            for place, rows in marked.items()
            if place in self._written and np.array_equal(self._written[place].dead, rows)
        }
        new = [place for place in marked if place not in known]
        descriptors, _ = write_vectors(
            self._open_table.store.files,
            [bitmap_of(marked[place]) for place in new],
            random_prefix_length=self._random_prefix_length,
        )
        self._unsent.own(vector_files(descriptors))
        known |= {place: _Marked(marked[place], each) for place, each in zip(new, descriptors, strict=True)}
        self._written |= known
        stats = {place: wide_statistics(files[place].stats, num_records=files[place].num_rows) for place in known}
        return {place: each.descriptor for place, each in known.items()}, stats


def _vector_id(action: AddFile | RemoveFile) -> str | None:
    return action.key[1]


def rows_to_mark(source: RewrittenFile, live: AddFile, reader: DeletionVectorReader) -> NDArray[np.uint64] | None:
    """The numbers of the rows that are dead because ``live``, the current source, marks them.

    None if a row that was left out is live again, since no new file has it. Raises ``CorruptLogError``.
    """
    if live.key == source.add.key:
        return np.empty(0, np.uint64)
    if live.deletion_vector is None:
        dead = np.empty(0, np.uint64)
    else:
        dead = reader.dead_rows(live.deletion_vector, source.num_rows)
    if not np.isin(source.dead, dead, assume_unique=True).all():
        return None
    return source.numbers(np.setdiff1d(dead, source.dead, assume_unique=True))


def operation_metrics(done: CompactionOutcome) -> dict[str, str]:
    """commitInfo's ``operationMetrics`` of an OPTIMIZE, with Spark's names."""
    sizes = sorted(add.size for add in done.added)
    metrics = {
        "numRemovedFiles": len(done.removed),
        "numRemovedBytes": sum(add.size for add in done.removed),
        "numAddedFiles": len(done.added),
        "numAddedBytes": sum(sizes),
        "numDeletionVectorsRemoved": done.vectors_purged,
    }
    if sizes:
        shares = {"minFileSize": 0.0, "p25FileSize": 0.25, "p50FileSize": 0.5, "p75FileSize": 0.75, "maxFileSize": 1.0}
        metrics |= {name: sizes[min(len(sizes) - 1, int(share * len(sizes)))] for name, share in shares.items()}
    return {name: str(value) for name, value in metrics.items()}
