"""`RowChange`: a row operation as a plan. It computes what the operation does to the files of one version.

In: a `RowOperation` and the newest version. Out: a proposal for it. Each execution starts from the version's own files
and vectors; what is kept between executions is only what cannot change: which rows of an immutable file match, what a
vector of a given id marks, and files written for exactly the same rows.

Theory of operation. T(f), the rows of file f that match, is looked up once. On a version with dead rows D(f), the rows
T(f) - D(f) go: by a vector that marks both D(f) and these rows, or by a copy without them, or, if no row is left, with
the whole file. New versions of rows (images) and rows of a source go to new files. When statistics exclude a file or
prove something of it, that holds for the ``add`` that carries them, not for its path: statistics beside a vector may
describe live rows only.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from msgspec.structs import replace

import txlog.arrow.python_values  # noqa: F401  has pyarrow import pandas
from txlog.commands.row_change.change_files import ChangeFiles, RowChanges
from txlog.commands.row_change.file_rows import FileRows
from txlog.commands.row_change.operation import (
    BringsFiles,
    DecidesByValues,
    Hits,
    KeepsTombstones,
    LooksUpTogether,
    RemembersFiles,
    RowOperation,
    Touched,
)
from txlog.commands.row_change.options import RowOptions
from txlog.commands.row_change.rewrite import FileRewriter
from txlog.commands.row_change.tombstones import is_tombstones
from txlog.commands.table_definition import Definition, require_definition
from txlog.commit.open_table import OpenTable
from txlog.errors import TxlogError
from txlog.log.proposal import Isolation, Proposal
from txlog.log.proposal_builder import ProposalBuilder
from txlog.log.state import TableState
from txlog.protocol.actions import AddFile, FileId, LiveKey
from txlog.protocol.bitmaps import bitmap_of, is_in, unpack
from txlog.protocol.file_columns import add_files_of, live_keys, live_rows
from txlog.protocol.statistics_read import num_records
from txlog.read.deletion_vectors import DeletionVectorReader
from txlog.result import WriteMetrics
from txlog.util import ambient
from txlog.util.parallel import parallel_map
from txlog.writer.committable import PendingFile
from txlog.writer.unsent_files import UnsentFiles

if TYPE_CHECKING:
    import pyarrow as pa
    from pyroaring import BitMap64

__all__ = ["RowChange"]

_LOOK_UPS_AT_ONCE = 2
_SMALL_BYTES = 1 << 20
_TOGETHER = 64  # number of small files that are looked into at once
_BYTES_PER_S = 200e6  # first guess of the speed at which files are looked into
_FILE_S = 0.002  # additional time for each touched file: its vector is read and written
_VECTOR_S = 0.0005  # time to read a vector that replaced a known one
_CLOSE_S = 0.005  # fixed time of every execution


class _Rate(msgspec.Struct):
    """How fast files were looked into so far."""

    size_bytes: float = _BYTES_PER_S
    seconds: float = 1.0

    def seconds_for(self, size_bytes: float) -> float:
        return size_bytes * self.seconds / self.size_bytes


class RowChange:
    """A `Plan`. ``with_vectors``: rows go by deletion vectors, else their files are written again.

    ``definition`` is the new definition (more columns) that the change commits with it, and that ``operation`` is bound
    to. ``change_files`` collects what happens to rows; given where the table's change data feed is on.
    """

    def __init__(
        self,
        open_table: OpenTable,
        state: TableState,
        operation: RowOperation,
        options: RowOptions,
        unsent: UnsentFiles,
        *,
        with_vectors: bool,
        definition: Definition | None = None,
        change_files: ChangeFiles | None = None,
    ) -> None:
        self._open_table = open_table
        self._change_files = change_files
        self._operation = operation
        self._options = options
        self._txn_id = ambient.uuid4()
        self._planned_on = self._bound_to = state.metadata
        self._definition = definition
        if definition is not None:
            state = state.defined_as(definition.metadata, definition.protocol)
        self._rows = FileRows(open_table.store, state)
        self._with_vectors = with_vectors
        self._rewriter = FileRewriter(open_table, state, operation, self._rows, unsent, with_vectors=with_vectors)
        self._excluded: set[LiveKey] = set()
        self._whole: set[LiveKey] = set()
        self._hits: dict[FileId, Hits] = {}
        self._dead: dict[LiveKey, BitMap64] = {}
        self._num_rows: dict[FileId, int] = {}
        self._rate = _Rate()
        self._metrics = WriteMetrics()
        self._live_keys: set[LiveKey] = set()
        self.removed: list[AddFile] = []
        """The live files that the last `apply` removed, including those that were copied in part."""
        self.new_files: list[PendingFile] = []
        """The files that the last `apply` added."""
        self.dead_fractions: Mapping[str, float] = {}
        """The fraction of dead rows in each file that the last `apply` marked, by path."""
        self._keyed: tuple[pa.Table, list[LiveKey]] | None = None
        self._live_files: pa.Table | None = None  # kept, so that listing a newer version reads only what is new

    @property
    def metrics(self) -> WriteMetrics:
        return self._metrics

    # --- the plan -------------------------------------------------------------------------------------------

    def execute(self, state: TableState) -> Proposal:
        options, commit, builder = self._options, self._options.commit, ProposalBuilder(state)
        if commit.transaction is not None:
            builder.set_transaction(*commit.transaction)
        files = self._files_of(state)
        self._define(state, builder)
        if self._change_files is not None:
            self._change_files.begin()
        self._metrics = self.apply(state, builder, files)
        if self._change_files is not None:
            self._metrics = replace(self._metrics, change_files=self._change_files.finish(builder))
        is_serial = options.is_reexecuted or commit.read_version is not None
        if options.is_reexecuted:
            builder.read_table()
        else:
            self.declare_reads(builder, files)
        return builder.build(
            txn_id=self._txn_id,
            now_ms=ambient.now_ms(),
            isolation=Isolation.SERIALIZABLE if is_serial else self._open_table.isolation(state, commit.isolation),
            operation=self._operation.name,
            parameters=self._operation.parameters(),
            metrics=self._operation.metrics(self._metrics),
            user_metadata=commit.user_metadata,
            fingerprint=commit.fingerprint,
            is_reexecutable=options.is_reexecuted,
            is_tied_to_version=commit.read_version is not None,
            keeps_row_ids=not isinstance(self._operation, BringsFiles),  # those files were written without row ids
        )

    def _define(self, state: TableState, builder: ProposalBuilder) -> None:
        """A change with a definition holds only for the version it was made on."""
        if self._definition is not None:
            require_definition(self._open_table, state, self._planned_on)
            builder.define(self._definition.metadata, self._definition.protocol)

    def apply(self, state: TableState, builder: ProposalBuilder, files: pa.Table) -> WriteMetrics:
        """Put the change of these live files into ``builder``. Returns what it does."""
        if self._definition is None and state.metadata is not self._bound_to:
            self._rewriter.bind(state)
            self._bound_to = state.metadata
        if self._operation.writes_every_source_row:
            self._rewriter.begin_source(self._operation.num_source_rows)
        try:
            with TxlogError.located(self._open_table.uri, state.version):
                whole, touched = self._matches(state, files)
                is_written = self._operation.inserted(touched)
                changed = self._rewriter.change(touched, is_written)
        finally:
            self._rewriter.join_source()
        if self._change_files is not None:
            going = [each for each in touched if len(each.replaced)]
            marked = [(add, vector) for add, vector, _ in changed.marked]
            done = RowChanges(self._operation, self._rows, going, is_written, marked, changed.new_files)
            self._change_files.collect(done, builder)
        self.removed, self.new_files = [*whole, *changed.removed], changed.new_files
        self.dead_fractions = changed.dead_fractions
        builder.remove(*self.removed)
        for add, vector, stats in changed.marked:
            builder.replace_vector(add, vector, stats=stats)
        builder.add(*(file.to_add() for file in changed.new_files))
        tombstones = self._operation.tombstones() if isinstance(self._operation, KeepsTombstones) else None
        if tombstones is not None:
            builder.add(*self._rewriter.tombstones(tombstones))
            if self._change_files is not None:
                self._change_files.require()
        inserted, updated, deleted = self._operation.counts(touched, is_written)
        return WriteMetrics(
            rows=inserted + updated,
            files=len(changed.new_files),
            bytes=sum(file.size_bytes for file in changed.new_files) + changed.vector_bytes,
            files_removed=len(self.removed),
            rows_inserted=inserted,
            rows_updated=updated,
            rows_deleted=deleted + sum(map(live_rows, whole)),
            rows_copied=changed.rows_copied,
            vectors=len(changed.marked),
            dead_fraction=max(changed.dead_fractions.values(), default=0.0),
        )

    def would_do(self, state: TableState, files: pa.Table | None = None) -> WriteMetrics:
        """What `apply` would do to the rows and files of this version, computed without writing anything.

        ``files`` are all live files that may hold a match; None: every live file.
        """
        whole, touched = self._matches(state, self._files_of(state) if files is None else files)
        inserted, updated, deleted = self._operation.counts(touched, self._operation.inserted(touched))
        changed = [each for each in touched if len(each.replaced)]
        left = [each.num_rows - len(each.dead) - len(each.replaced) for each in changed]
        marked = sum(rows > 0 for rows in left) if self._with_vectors else 0
        return WriteMetrics(
            rows=inserted + updated,
            files_removed=len(whole) + len(changed) - marked,
            rows_inserted=inserted,
            rows_updated=updated,
            rows_deleted=deleted + sum(map(live_rows, whole)),
            rows_copied=0 if self._with_vectors else sum(left),
            vectors=marked,
        )

    def declare_reads(self, builder: ProposalBuilder, files: pa.Table) -> None:
        """After `apply`: declare which of these files the change depends on. For a change that is not executed
        again."""
        self._operation.declare_reads(builder, [key[0][0] for key in self._keys_of(files) if key not in self._excluded])

    def remaining_work_s(self, state: TableState) -> float:
        files = self._files_of(state)
        new = self._new_files(files)
        sizes = sum(add.size for add in new if add.file_id not in self._hits)
        changed = sum(self._has_unread_vector(key) for key in self._keys_of(files))
        repeated_s = self._rewriter.repeated_work_s + (self._change_files.seconds if self._change_files else 0.0)
        known_s = _FILE_S * len(new) + _VECTOR_S * changed + repeated_s
        return _CLOSE_S + self._rate.seconds_for(sizes) + known_s

    def _has_unread_vector(self, key: LiveKey) -> bool:
        """Whether a file got a new vector after it was looked into, and has rows that match."""
        hits = None if key[1] is None or key in self._dead else self._hits.get(key[0])
        return hits is not None and len(hits.positions) > 0

    # --- which rows -----------------------------------------------------------------------------------------

    def _matches(self, state: TableState, files: pa.Table) -> tuple[list[AddFile], list[Touched]]:
        """The live files that are removed as they are, and those with live rows that match."""
        self._look_into(self._new_files(files))
        keys = self._keys_of(files)
        found = [
            row
            for row, key in enumerate(keys)
            if key in self._whole or (key not in self._excluded and len(self._hits[key[0]].positions))
        ]
        self._forget(set(keys))
        adds = add_files_of(files.take(found)) if found else []
        vectors = DeletionVectorReader(self._open_table.store, state.version)
        whole = [add for add in adds if add.live_key in self._whole]
        touched = [self._touched(add, vectors) for add in adds if add.live_key not in self._whole]
        if isinstance(self._operation, KeepsTombstones):
            self._operation.see_tombstones([each for each in touched if is_tombstones(each.add)])
        touched = [each for each in touched if each.live.any()]
        if isinstance(self._operation, DecidesByValues):
            with TxlogError.located(self._open_table.uri, state.version):
                touched = self._operation.decided(touched)
        return whole, touched

    def _keys_of(self, files: pa.Table) -> list[LiveKey]:
        """`live_keys`, made once of the list of a version."""
        if self._keyed is None or self._keyed[0] is not files:
            self._keyed = files, live_keys(files)
        return self._keyed[1]

    def _files_of(self, state: TableState) -> pa.Table:
        self._live_files = self._open_table.log.files(state)
        return self._live_files

    def _new_files(self, files: pa.Table) -> list[AddFile]:
        """Files that may hold a match and were not looked into yet; excluded files are remembered."""
        keys = self._keys_of(files)
        unknown = [
            row
            for row, key in enumerate(keys)
            if key not in self._excluded and key not in self._whole and key[0] not in self._hits
        ]
        if not unknown:
            return []
        rows = files.take(unknown) if len(unknown) < files.num_rows else files
        recalled = self._recalled(rows, are_all_live=rows is files and self._options.commit.read_version is None)
        if recalled:
            unknown = [row for row in unknown if keys[row][0] not in recalled]
            if not unknown:
                return []
            rows = files.take(unknown)
        is_candidate = self._operation.candidates(rows)
        self._excluded.update(keys[unknown[at]] for at in np.flatnonzero(~is_candidate).tolist())
        wanted = np.flatnonzero(is_candidate)
        return add_files_of(rows.take(wanted)) if len(wanted) else []

    def _recalled(self, files: pa.Table, *, are_all_live: bool) -> dict[FileId, Hits]:
        """The hits in files that earlier changes looked into, which are added to those of this change."""
        if not isinstance(self._operation, RemembersFiles):
            return {}
        found = self._operation.recall(files, are_all_live=are_all_live)
        self._hits.update(found)
        return found

    def remember(self) -> None:
        """Keep what this committed change found out and wrote for later changes of the handle."""
        if not isinstance(self._operation, RemembersFiles) or self._live_files is None:
            return
        if self._rewriter.source_files is not None:
            is_written, files = self._rewriter.source_files
            self._operation.keep_written(files, is_written)
        cache, written = self._open_table.key_cache, self._rewriter.vectors
        found = {**cache.vectors, **self._dead}
        vectors = {key: found[key] for key in found.keys() & self._live_keys if key not in written}
        vectors |= {(key[0], descriptor.unique_id): dead for key, (dead, descriptor) in written.items()}
        cache.hold(self._live_files, vectors)

    def _look_into(self, adds: Sequence[AddFile]) -> None:
        to_read = []
        for add in adds:
            if self._operation.matches_whole_file(add):
                self._whole.add(add.live_key)
            else:
                to_read.append(add)
        if not to_read:
            return
        started_s = ambient.monotonic_s()
        largest_first = sorted(to_read, key=lambda add: -add.size)
        # Small files on a disk cost mostly Python time, and two threads would hinder each other.
        alone_bytes = _SMALL_BYTES if self._open_table.store.log.capabilities.has_cheap_calls else 0
        large = bisect.bisect_left(largest_first, -alone_bytes, key=lambda add: -add.size)
        looked_up = itertools.chain(
            parallel_map(self._looked_up, largest_first[:large], threads=_LOOK_UPS_AT_ONCE),
            self._small_looked_up(largest_first[large:]),
        )
        for done, (add, hits) in enumerate(looked_up, start=1):
            self._hits[add.file_id] = hits
            if self._options.on_progress is not None:
                self._options.on_progress(done, len(to_read))
        if isinstance(self._operation, RemembersFiles):
            self._operation.keep()
        self._rate.size_bytes += sum(add.size for add in to_read)
        self._rate.seconds += ambient.monotonic_s() - started_s

    def _looked_up(self, add: AddFile) -> tuple[AddFile, Hits]:
        return add, self._operation.look_up(self._rows, add)

    def _small_looked_up(self, adds: Sequence[AddFile]) -> Iterator[tuple[AddFile, Hits]]:
        if not isinstance(self._operation, LooksUpTogether):
            yield from map(self._looked_up, adds)
            return
        for first in range(0, len(adds), _TOGETHER):
            some = adds[first : first + _TOGETHER]
            yield from zip(some, self._operation.look_up_all(self._rows, some), strict=True)

    def _touched(self, add: AddFile, vectors: DeletionVectorReader) -> Touched:
        hits, num_rows = self._hits[add.file_id], self._count(add)
        dead = self._dead_rows(add, num_rows, vectors)
        live = ~is_in(hits.positions, dead)
        replaced = hits.positions[live if hits.is_replaced is None else live & hits.is_replaced]
        is_doubtful = len(hits.positions) > 0 and hits.positions[-1] >= num_rows
        if is_doubtful or len(dead) + len(replaced) >= num_rows:
            # The file itself decides whether a row is left: a count that is too low would lose the other rows.
            num_rows = self._num_rows[add.file_id] = self._rows.count(add)
        return Touched(add, num_rows, dead, hits, live, replaced)

    def _dead_rows(self, add: AddFile, num_rows: int, vectors: DeletionVectorReader) -> BitMap64:
        if add.deletion_vector is None:
            return unpack(b"")
        key = add.live_key
        found = self._dead.get(key)
        if found is None:
            found = self._open_table.key_cache.vectors.get(key)
            if found is None:
                found = bitmap_of(vectors.dead_rows(add.deletion_vector, num_rows))
            self._dead[key] = found
        return found

    def _count(self, add: AddFile) -> int:
        """The number of all rows of a file: from the log or, if the log does not have it, from the file's footer."""
        found = self._num_rows.get(add.file_id)
        if found is None:
            counted = num_records(add.stats)
            found = self._num_rows[add.file_id] = self._rows.count(add) if counted is None else counted
        return found

    def _forget(self, live: set[LiveKey]) -> None:
        """Forget vectors that are no longer live, so that a file that comes back (RESTORE) is looked into again."""
        self._live_keys = live
        self._dead = {key: dead for key, dead in self._dead.items() if key in live}
        files = {file for file, _ in live}
        self._hits = {file: hits for file, hits in self._hits.items() if file in files}
        self._excluded &= live
        self._whole &= live
