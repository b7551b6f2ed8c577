"""`RowChange`: a row change as a plan. It decides which files still need work, has it done, and proposes the result.

In: what a change means to rows, how its tasks run, and the newest version. Out: a proposal for it. Each execution
starts from the version's own files and vectors, and runs only tasks that no earlier execution did: for new files, and
for files whose earlier result no longer holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from txlog.core import ambient
from txlog.core.changes.plan._file_choice import FileChoice, InspectedFiles, JudgesFiles, LiveFiles
from txlog.core.changes.plan._options import RowOptions
from txlog.core.format.actions import AddCDCFile, AddFile, DeletionVectorDescriptor, FileId
from txlog.core.format.commit_file import Commit
from txlog.core.format.properties import BRANCH
from txlog.core.predicates.terms.predicate import Constant, Predicate
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.proposal import BecomeOfRows, Isolation, OperationInfo, Proposal
from txlog.core.versions.decisions.proposal_builder import ProposalBuilder
from txlog.core.versions.decisions.state import TableState
from txlog.result import WriteMetrics

if TYPE_CHECKING:
    from txlog.core.changes.plan._change_files import ChangeFiles
    from txlog.core.changes.tasks import ChangesOfFiles
    from txlog.core.definition import Definition

_CLOSE_S = 0.005  # fixed time of every execution
_BECOME_OF_ROWS: Mapping[str, BecomeOfRows] = {"DELETE": "deleted", "UPDATE": "changed"}
"""By its name, what a change does to each row that it reads; the others leave some as they are."""


class RowsReplaced(msgspec.Struct, frozen=True):
    """What a change does to the files of one version. Everything it names is durable.

    Attributes:
        removed: The removed live files, including files copied in part.
        marked: The files that stay, with their new vectors and matching statistics.
        added: The new files.
        metrics: The numbers.
        dead_fractions: The fraction of dead rows in each marked file.
        change_data: Change files that tasks wrote.
        row_changes: Returns what was done to rows, if the driver writes the change files; None if tasks did.
        tombstones: Files of deleted keys; None if the change leaves none.
    """

    removed: Sequence[AddFile]
    marked: Sequence[tuple[AddFile, DeletionVectorDescriptor, str]]
    added: Sequence[AddFile]
    metrics: WriteMetrics
    dead_fractions: Mapping[FileId, float] = msgspec.field(default_factory=dict)
    change_data: Sequence[AddCDCFile] = ()
    row_changes: Callable[[], ChangesOfFiles] | None = None
    tombstones: Sequence[AddFile] | None = None


class ChangeFacts(JudgesFiles, Protocol):
    """What the commit must know about a row change. A `RowOperation` provides it, or a `ChangeTarget` if only workers
    hold the source."""

    @property
    def name(self) -> str: ...

    @property
    def reads(self) -> Predicate | None:
        """The rows that the change depends on unless it reruns; None: every row of the table."""

    @property
    def keeps_row_ids(self) -> bool:
        """Whether updated and copied rows keep their ids."""

    def parameters(self) -> dict[str, str]: ...

    def metrics(self, done: WriteMetrics) -> dict[str, str]: ...


class RowTasks(InspectedFiles, Protocol):
    """Does the work of a row change, and keeps results while they hold. For one thread."""

    def follow(self, state: TableState, live: LiveFiles) -> None:
        """Adapt results to the vectors that ``live`` files have on this version, and forget results that no longer
        hold, so `knows` is false for these files."""

    def replaced(self, state: TableState, live: LiveFiles, new: Sequence[AddFile], choice: FileChoice) -> RowsReplaced:
        """Look into the ``new`` files, and do the remaining work for this version.

        ``choice`` has the files to remove as a whole, and learns which ``new`` files hold no match.
        """

    def would_do(self, state: TableState, live: LiveFiles, new: Sequence[AddFile], choice: FileChoice) -> WriteMetrics:
        """What `replaced` would do, without writing anything."""

    def cost_s(self, live: LiveFiles, new: Sequence[AddFile], choice: FileChoice) -> float:
        """The estimated seconds that `replaced` would take."""


def preview(state: TableState, what: ChangeFacts, tasks: RowTasks, files: pa.Table) -> WriteMetrics:
    """What a change would do to a version's rows and files, without writing anything.

    ``files`` are all live files that may hold a match. Raises what looking into files raises.
    """
    live, choice = LiveFiles.of(files), FileChoice(what)
    tasks.follow(state, live)
    return tasks.would_do(state, live, choice.new(live, tasks), choice)


class FilesOfVersion(msgspec.Struct, frozen=True):
    """Files of a version, and when they were asked for."""

    state: TableState
    asked: ambient.Instant
    files: LiveFiles

    @property
    def nbytes(self) -> int:
        """About the memory that they take."""
        return self.files.nbytes


class RowChange:
    """A ``core.versions._plan.Plan``.

    Args:
        open_table: The table.
        state: The version that the change was bound to.
        what: What the change is.
        options: How to execute and commit it.
        tasks: Does the work.
        definition: The new definition (with more columns) that the change commits too.
        change_files: Writes the change files, if tasks do not and the table's change data feed is on.
        held: All live files of an earlier version, from the handle's last change.
    """

    def __init__(
        self,
        open_table: OpenTable,
        state: TableState,
        what: ChangeFacts,
        options: RowOptions,
        tasks: RowTasks,
        *,
        definition: Definition | None = None,
        change_files: ChangeFiles | None = None,
        held: FilesOfVersion | None = None,
    ) -> None:
        self._open_table = open_table
        self._held = held
        self._planned_on = state.metadata
        self._what = what
        self._options = options
        self._tasks = tasks
        self._definition = definition
        self._change_files = change_files
        self._txn_id = ambient.uuid4()
        self._choice = FileChoice(what)
        self._listed: LiveFiles | None = None  # all files of the first version
        self._commits: list[Commit] = []  # after the list
        self._live: FilesOfVersion | None = None
        self._has_run = False
        self.done = RowsReplaced((), (), (), WriteMetrics())
        """What the last execution does."""
        self.metrics = WriteMetrics()

    @property
    def reads_rows(self) -> bool:
        """Whether the change depends on any rows that there may be; one without source rows does not."""
        return self._what.reads != Constant(False)

    def live(self) -> FilesOfVersion | None:
        """The live files of the last executed version; None before that."""
        if self._live is None or self._listed is None:
            return None
        return replace(self._live, files=self._listed.after(self._commits))

    def execute(self, state: TableState) -> Proposal:
        commit, builder = self._options.commit, ProposalBuilder(state)
        if commit.transaction is not None:
            builder.set_transaction(*commit.transaction)
        if commit.void_from is not None:
            builder.read_application(commit.void_from[0])
        live = self._live_at(state)
        if self._definition is not None:  # then the change is only valid for its version
            from txlog.core.definition import require_definition

            require_definition(self._open_table, state, self._planned_on)
            builder.define(self._definition.metadata, self._definition.protocol)
        if self._change_files is not None:
            self._change_files.begin()
        metrics = self._apply(state, builder, live)
        if self._change_files is not None:
            metrics = replace(metrics, change_files=self._change_files.finish(builder))
        self.metrics = metrics
        is_rerun = commit.is_reexecuted("rerun")
        tells_reads = is_rerun and BRANCH in state.metadata.configuration and not builder.has_files
        if is_rerun and not tells_reads:
            builder.read_table()
        else:
            self._declare_reads(builder, live)
        if commit.reads_table:
            builder.read_source(self._open_table.isolation(state, commit.isolation))
        if not self._what.keeps_row_ids:
            builder.give_new_row_ids()
        return builder.build(
            OperationInfo(
                self._what.name,
                self._what.parameters(),
                metrics=self._what.metrics(metrics),
                user_metadata=commit.user_metadata,
                fingerprint=commit.fingerprint,
            ),
            txn_id=self._txn_id,
            now_ms=ambient.now_ms(),
            isolation=Isolation.SERIALIZABLE
            if (is_rerun and not tells_reads) or commit.read_version is not None
            else self._open_table.isolation(state, commit.isolation),
            is_reexecutable=is_rerun,
            is_tied_to_version=commit.read_version is not None,
        )

    def apply(
        self, state: TableState, builder: ProposalBuilder, files: pa.Table, rows: BecomeOfRows | None = None
    ) -> WriteMetrics:
        """Put the change of these live files into ``builder``, which then depends on them by Delta's rules: the change
        does not rerun. Returns what it does.

        ``rows`` is what becomes of the rows that it reads; by default, what a change of this name does to them.
        """
        live = LiveFiles.of(files)
        metrics = self._apply(state, builder, live)
        self._declare_reads(builder, live, rows)
        return metrics

    def _apply(self, state: TableState, builder: ProposalBuilder, live: LiveFiles) -> WriteMetrics:
        self._open_table.log.check_zones(state)
        if self._has_run:
            self._tasks.follow(state, live)
            self._choice.forget({*live.keys})
        self._has_run = True
        done = self.done = self._tasks.replaced(state, live, self._choice.new(live, self._tasks), self._choice)
        if self._change_files is not None and done.row_changes is not None:
            self._change_files.collect(done.row_changes(), builder)
            if done.tombstones is not None:
                self._change_files.require()
        builder.remove(*done.removed)
        for add, vector, stats in done.marked:
            builder.replace_vector(add, vector, stats=stats)
        builder.add(*done.added, *(done.tombstones or ()))
        builder.change_data(*done.change_data)
        return done.metrics

    def _declare_reads(self, builder: ProposalBuilder, live: LiveFiles, rows: BecomeOfRows | None = None) -> None:
        reads = self._what.reads
        if reads is None:
            builder.read_table()
        else:
            files = [key[0][0] for key in live.keys if key not in self._choice.excluded]
            builder.read_where(reads, files, rows or _BECOME_OF_ROWS.get(self._what.name, "read"))

    def remaining_work_s(self, state: TableState) -> float:
        live = self._live_at(state)
        new = self._choice.new(live, self._tasks)
        repeated_s = self._change_files.seconds if self._change_files is not None else 0.0
        return _CLOSE_S + repeated_s + self._tasks.cost_s(live, new, self._choice)

    def _live_at(self, state: TableState) -> LiveFiles:
        """The live files of ``state``; after the first execution only those that matter to the change, and those that
        commits since then added, so that a lost race costs in proportion to what the winners changed."""
        log, known = self._open_table.log, self._live
        if known is not None and known.state.version == state.version:
            return known.files
        asked = ambient.instant()
        before = known or self._held_before(state)
        commits = None if before is None else log.commits_since(before.state, before.asked, state)
        if before is None or commits is None:
            files = self._listed = LiveFiles.of(log.files(state))
            self._commits = []
        elif known is None:
            files = self._listed = before.files.after(commits)
        else:
            files = self._choice.mattering(known.files, self._tasks).after(commits)
            self._commits += commits
        self._live = FilesOfVersion(state, asked, files)
        return files

    def _held_before(self, state: TableState) -> FilesOfVersion | None:
        """What the handle holds, if it is of this table. A long list is the log's, who makes the next one from it."""
        held = self._held
        is_usable = held is not None and held.files.are_few and held.state.metadata.id == state.metadata.id
        return held if is_usable else None
