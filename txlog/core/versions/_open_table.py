"""The working parts of one open table, wired once: store, log, committer, post-commit work.

In: a ``TableStore`` and a ``RetryPolicy``. Out: `OpenTable.commit`, the only way to commit a proposal: it checks,
commits, logs, and runs hooks and upkeep.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Generator, Mapping, Reversible, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from txlog import __version__
from txlog.core import ambient
from txlog.core.format.actions import SetTransaction
from txlog.core.format.commit_file import Commit
from txlog.core.format.features import check_can_maintain, check_can_write, check_owner
from txlog.core.format.properties import unknown_keys
from txlog.core.parallel import begin, new_lock
from txlog.core.store import RetryPolicy, TableStore, foreign_scheme, open_store
from txlog.core.util import UTC, cached_property, invalid, logger, whole_number
from txlog.core.versions._commit_context import CommitContext
from txlog.core.versions._committer import Committer
from txlog.core.versions.decisions.definition_changes import keeps_write_rules
from txlog.core.versions.decisions.proposal import Isolation, OperationInfo, Proposal, validate_proposal
from txlog.core.versions.decisions.state import TableState
from txlog.core.versions.files import DeltaLog
from txlog.core.versions.upkeep._post_commit import PostCommit
from txlog.core.writing import UnsentFiles
from txlog.errors import ConflictError, InvalidInputError, NotFoundError, TableNotFoundError, TxlogError
from txlog.hooks import CommitHooks, call, timed
from txlog.result import WriteMetrics, WriteResult, counted

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    import pyarrow as pa

    from txlog.core.changes.tasks import TaskStore, TaskTable
    from txlog.core.reading import KeyCache
    from txlog.core.row_rules import Numbers
    from txlog.core.versions._number_ranges import NumberRanges
    from txlog.core.versions._plan import Plan
    from txlog.core.versions.decisions.exactly_once import AlreadyCommitted
    from txlog.core.versions.decisions.proposal_builder import ProposalBuilder
    from txlog.core.workers import GivenWorkers, Workers

Out = TypeVar("Out")

KEY_CACHE_BYTES = 256 << 20
"""The default memory, in bytes, for a handle's cache of keys of data files."""
_OWN_MAX = 10_000
_WRITABLE = "writable"
_UNKNOWN = "unknown properties"
_DEFINES_COLUMNS = ("CREATE TABLE", "CLONE")
"""Operations that create a table with columns that somebody named, and not with those of some data."""


class ToCommit(msgspec.Struct, frozen=True):
    """The arguments of `OpenTable.commit`, for whoever makes the commit."""

    proposal: Proposal
    state: TableState | None
    metrics: WriteMetrics | None = None
    plan: Plan | None = None
    unsent: UnsentFiles | None = None


Steps: TypeAlias = Generator[ToCommit, WriteResult, Out]
"""A write that leaves its commit to its caller: it yields what is to be committed, gets the result or the error, and
goes on. So the same write is committed alone (`OpenTable.run`) or with those of other tables (``steps_together``)."""


class OpenTable:
    """Everything that acts on one table. Thread-safe."""

    def __init__(
        self,
        store: TableStore,
        retry: RetryPolicy | None = None,
        hooks: CommitHooks | None = None,
        key_cache_size_bytes: int | None = None,
        storage_options: Mapping[str, str] | None = None,
        credential_provider: Callable[[], object] | None = None,
        workers: GivenWorkers | None = None,
        time_zone: str | ZoneInfo = UTC,
        log: DeltaLog | None = None,
    ) -> None:
        self.store = store
        self.uri = store.uri
        self.storage_options = storage_options
        self.credential_provider = credential_provider
        if not isinstance(retry, RetryPolicy | None):
            raise invalid("retry", retry, "a txlog.RetryPolicy", table=store.uri)
        if not isinstance(hooks, CommitHooks | None):
            raise invalid("hooks", hooks, "an instance of a subclass of txlog.CommitHooks", table=store.uri)
        self.retry = retry or RetryPolicy()
        store.versions.wait_by(self.retry)
        self._hooks = hooks
        self.timed = partial(timed, hooks, self.uri)
        """``timed(name)`` reports a block to the hooks, as the step of this name."""
        size_bytes = KEY_CACHE_BYTES if key_cache_size_bytes is None else key_cache_size_bytes
        self.key_cache_size_bytes = whole_number("key_cache_size", size_bytes, table=store.uri)
        self._workers = None if workers is None else self._given(workers)
        self.log = log or DeltaLog(store, time_zone=UTC if time_zone == UTC else _checked(time_zone))
        self.post_commit = PostCommit(self.log, hooks)
        self.last_read = LastRead()
        self.after_commit: Callable[[OpenTable, TableState], None] | None = None
        """Called with this table and the state after each commit; must not raise. For background work that commits."""
        self.warned_of_dead_rows_ms: int | None = None
        """When this handle last warned of files of mostly dead rows."""
        self._warned_of_properties: set[str] = set()
        self.has_noted_copies = False
        """Whether a result of this handle said that a change copied many rows."""
        engine_info = f"txlog/{__version__}"
        self._commits = CommitContext(self.log, self.retry, engine_info=engine_info, hooks=hooks)
        self._commits.settle = _settle_of(weakref.ref(self))
        self._beside: weakref.WeakValueDictionary[str, OpenTable] = weakref.WeakValueDictionary()
        self._committer = Committer(self._commits)

    @property
    def time_zone(self) -> str:
        """The zone of times without one."""
        return self.log.time_zone

    @property
    def address(self) -> tuple[str, Mapping[str, str] | None]:
        """The location or name, and the options, by which any process opens the table."""
        return self.store.address or (self.uri, self.storage_options)

    @property
    def is_found_by_versions(self) -> bool:
        """Whether what decides the table's versions knows when the table's name is another one's by now."""
        return self.log.versions.capabilities.remembers_versions

    def beside(self, uri: str) -> OpenTable:
        """Another table, opened as this one is: at a location of the same store, for which this makes no request, or of
        a name.

        If that table is one of those that this one is known to change together with (`opened_together`), it is opened
        already, with options of its own. Raises InvalidInputError for a location that cannot be used, and for a name
        what `open_place` raises.
        """
        known = self._beside.get(uri)
        if known is not None:
            return known
        if foreign_scheme(uri) is None:
            store = open_store(uri, self.storage_options, self.credential_provider)
        else:
            from txlog.core.catalogs import open_place  # not imported for an append

            store = open_place(uri, self.storage_options, self.credential_provider)
        return self._on(store)

    def knowing(self, log: DeltaLog) -> OpenTable:
        """The same by what another handle of the table knows of its log, which the two share then."""
        return self._on(self.store, log)

    def _on(self, store: TableStore, log: DeltaLog | None = None) -> OpenTable:
        """A handle with the options of this one."""
        return OpenTable(
            store,
            self.retry,
            self._hooks,
            self.key_cache_size_bytes,
            self.storage_options,
            self.credential_provider,
            self._workers,
            self.time_zone,
            log,
        )

    @staticmethod
    def opened_together(tables: Sequence[OpenTable]) -> None:
        """Let each of these tables find the others as they are open here, while they are: `beside`."""
        for one in tables:
            one._beside.update({other.address[0]: other for other in tables if other is not one})

    def known_state(self) -> TableState:
        """The newest version that is known; a request is made only if none is. Raises as `DeltaLog.newest_state`."""
        return self.log.newest_state(refresh=False)

    def task_table(self, state: TableState, numbers: Numbers | None = None) -> TaskTable:
        """A version of the table as tasks get it, which open it by the same storage options in any process.

        ``numbers`` are for identity columns, if the tasks make new rows.
        """
        from txlog.core.changes.tasks import TaskTable

        return TaskTable.of(self.store, state, self.storage_options, self.credential_provider, numbers)

    def task_store(self) -> TaskStore:
        """The table's data files as tasks get them."""
        from txlog.core.changes.tasks import TaskStore

        return TaskStore.at(self.store, self.storage_options, self.credential_provider)

    def workers(self, given: GivenWorkers | None, slots: int) -> Workers:
        """Where a command's tasks run: on the given workers, else on this handle's, else in ``slots`` threads.

        Raises ``InvalidInputError`` for anything else than workers, and for workers that could not open the table.
        """
        from txlog.core.workers import ThreadWorkers

        return self.given_workers(given) or ThreadWorkers(slots)

    def given_workers(self, given: GivenWorkers | None) -> Workers | None:
        """The given workers, else this handle's; None if there are none. Raises what `workers` raises."""
        found = self._workers if given is None else self._given(given)
        if found is not None:
            from txlog.core.workers import require_openable

            require_openable(found, self.task_store())
        return found

    def _given(self, workers: GivenWorkers) -> Workers:
        from txlog.core.workers import given_workers

        return given_workers(workers, self.uri)

    @cached_property
    def number_ranges(self) -> NumberRanges:
        """The numbers of identity columns that are reserved for this handle."""
        from txlog.core.versions._number_ranges import NumberRanges

        return NumberRanges()

    @cached_property
    def key_cache(self) -> KeyCache:
        """The keys of data files that upserts of this handle have read."""
        from txlog.core.reading import KeyCache

        return KeyCache(self.key_cache_size_bytes, self.store)

    def state_if_exists(self, *, refresh: bool = True) -> TableState | None:
        """The newest version, or None if there is no table; with ``refresh=False`` the newest known one."""
        try:
            return self.log.newest_state(refresh=refresh)
        except TableNotFoundError:
            if self.store.owner is not None and self.log.known_state is not None:
                raise  # it says what became of the table
            return None

    def writable_state(self, *, refresh: bool = True) -> TableState:
        """The newest version of a table that this release can write; with ``refresh=False`` the newest known one, if it
        was confirmed lately.

        Raises ``TableNotFoundError``, and ``UnsupportedFeatureError`` before anything is written.
        """
        state = self.log.newest_state(refresh=refresh or not self.log.state_is_fresh())
        self.check_writable(state)
        return state

    def check_writable(self, state: TableState) -> None:
        """Raises ``UnsupportedFeatureError`` if the table needs a writer feature that this release lacks."""
        with TxlogError.located(self.uri, state.version):
            state.derived(_WRITABLE, lambda: _check_definition(state))
            _check_clustering(state)
            self._warn_of_unknown_properties(state)

    @staticmethod
    def vouch(state: TableState, like: TableState) -> None:
        """Have `check_writable` find of ``state`` what it finds of a version that is defined ``like`` it, but for
        properties that txlog knows and that need no feature."""
        if state.protocol == like.protocol:
            state.derived(_WRITABLE, lambda: like.derived(_WRITABLE, lambda: _check_definition(like)))
            state.derived(_UNKNOWN, lambda: like.derived(_UNKNOWN, lambda: _unknown_properties(like)))

    def check_maintainable(self, state: TableState) -> None:
        """The same for a commit without new data files, which needs fewer writer features."""
        with TxlogError.located(self.uri, state.version):
            check_can_maintain(state.protocol, state.metadata)
            self._warn_of_unknown_properties(state)

    def _warn_of_unknown_properties(self, state: TableState) -> None:
        """Say once for this handle which properties its commits do not heed."""
        found = state.derived(_UNKNOWN, lambda: _unknown_properties(state))
        unknown = [key for key in found if key not in self._warned_of_properties]
        if unknown:
            self._warned_of_properties.update(unknown)
            logger.warning(
                "%s: neither txlog nor an installed package knows %s of the table: commits from here may not do what it"
                " promises. Install the package that it belongs to, or unset it",
                self.uri,
                f"the property {unknown[0]!r}"
                if len(unknown) == 1
                else f"the properties {', '.join(map(repr, unknown))}",
            )

    def look_ahead(self, known: TableState) -> TableState:
        """The newest version, and what a commit checks first: requests that can run while data files are written.

        Raises the errors of `DeltaLog.newest_state`, and ``StorageError`` for a store that does not refuse names that
        are taken.
        """
        refuses = begin(lambda: self._commits.require_refusals(known))
        newest = self.log.newest_state()
        refuses()
        return newest

    def isolation(self, state: TableState | None, asked: Isolation | str | None = None) -> Isolation:
        """The level to commit at: the requested one, else the table's ``delta.isolationLevel``, if there is a table."""
        return Isolation(asked or ("WriteSerializable" if state is None else state.properties.isolation_level))

    def replay_of(
        self,
        state: TableState,
        app_id: str,
        checkpoint_id: int,
        fingerprint: str | None = None,
        *,
        quietly: bool = False,
        is_sealed: bool = False,
    ) -> AlreadyCommitted | None:
        """The commit of this checkpoint if the table already contains it, else None.

        Logs a warning for a dropped replay unless ``quietly``. ``is_sealed``: the caller holds the checkpoint's seal,
        which could be made only while the table did not have the checkpoint, and is all that a sink commits as it.
        Raises ``InvalidInputError`` for a checkpoint that is older than the last one and that no retained commit
        proves, for one that was committed with another fingerprint, and for the last one if a fingerprint is given that
        neither a retained commit nor a seal can confirm.
        """
        from txlog.core.versions.decisions.exactly_once import (
            AlreadyCommitted,
            FingerprintMismatch,
            Rewound,
            Unproven,
            check_replay,
        )

        last = state.transactions.get(app_id)
        if last is None or checkpoint_id > last.version:
            return None
        found = check_replay(app_id, checkpoint_id, fingerprint, last, self._proofs(state, checkpoint_id, last))
        if isinstance(found, AlreadyCommitted) and checkpoint_id < last.version and not self._can_read(found.version):
            found = Rewound(app_id, checkpoint_id, last.version)
        if is_sealed and isinstance(found, Unproven):
            found = AlreadyCommitted(None)
        if isinstance(found, Rewound | FingerprintMismatch | Unproven):
            error = InvalidInputError(found.message, table=self.uri, version=state.version)
            error.is_unproven = not isinstance(found, FingerprintMismatch)
            raise error
        assert isinstance(found, AlreadyCommitted)
        if found.version is not None:
            self.log.versions.make_durable(found.version)
        if not quietly:
            where = (self.uri, checkpoint_id, app_id, found.version)
            logger.info("%s: replay dropped: checkpoint %d of %r is in v%s already", *where)
        return found

    def replay_of_renamed(
        self, state: TableState, app_id: str, checkpoint_id: int, fingerprint: str, former: str | None = None
    ) -> AlreadyCommitted | None:
        """The commit of this checkpoint under another name, if its application got the name ``app_id`` afterwards: the
        last commit of that name has the same number and the same fingerprint. None if there is none. ``former`` is the
        only other name that counts; by default, any does.

        Reads the last commits of the applications that are at a checkpoint of this number.
        """
        from txlog.core.versions._replay_check import commit_of_last
        from txlog.core.versions.decisions.exactly_once import AlreadyCommitted
        from txlog.core.versions.decisions.joined_appends import fingerprint_of

        for other, last in state.transactions.items():
            if last.version != checkpoint_id or other == app_id or former not in (None, other):
                continue
            commit = commit_of_last(self.log, state.version, last)
            if commit is not None and fingerprint_of(commit, other, checkpoint_id) == fingerprint:
                self.log.versions.make_durable(commit.version)
                where = (self.uri, checkpoint_id, app_id, other, commit.version)
                logger.info("%s: replay dropped: checkpoint %d of %r is that of %r, in v%s already", *where)
                return AlreadyCommitted(commit.version)
        return None

    def _proofs(self, state: TableState, checkpoint_id: int, last: SetTransaction) -> Reversible[Commit]:
        """The retained commits that can prove that ``checkpoint_id`` was committed."""
        from txlog.core.versions._replay_check import RetainedCommits, commit_of_last

        if checkpoint_id != last.version:
            return RetainedCommits(self.log, state.version)
        found = commit_of_last(self.log, state.version, last)
        return () if found is None else (found,)

    def _can_read(self, version: int | None) -> bool:
        """Whether the commit is part of the log. A put that arrives late, after a cleanup, is not."""
        try:
            return version is not None and self.log.state_at(version) is not None
        except NotFoundError:
            return False

    def commit(
        self,
        proposal: Proposal,
        state: TableState | None,
        metrics: WriteMetrics | None = None,
        *,
        plan: Plan | None = None,
        unsent: UnsentFiles | None = None,
    ) -> WriteResult:
        """Commit ``proposal``, planned on ``state`` (None: it creates the table); ``metrics`` are what it wrote.

        ``unsent`` is notified before anything is sent. Nothing that follows the commit raises: log handlers, upkeep,
        hooks.

        Raises ``InvalidInputError`` for a commit the protocol forbids, and what ``Committer.submit`` raises.
        """
        with TxlogError.located(self.uri, state.version if state else None):
            validate_proposal(proposal, append_only=state.properties.append_only if state else False)
            if proposal.protocol is not None:
                is_owned = self.store.versions.capabilities.publishes
                check_owner(proposal.protocol, is_owned=is_owned, before=state.protocol if state else None)
        try:
            with TxlogError.located(self.uri), self.timed("commit"):
                if unsent is not None and state is not None:
                    unsent.require_kept(state.properties.deleted_file_retention_ms)
                    self._require_no_vacuum_of(proposal, state, unsent.known_version)
                outcome = self._committer.submit(proposal, state, plan=plan, unsent=unsent)
        except ConflictError as error:
            self.report_conflict(error)
            raise
        result = outcome.to_result(proposal.txn_id, metrics if plan is None else plan.metrics)
        if result.version is not None and result.outcome == "committed":
            if outcome.holds_others:
                self.last_read.committed_among_others(result.txn_id)
            else:
                self.last_read.committed(result.version)
        if proposal.protocol is not None and outcome.state is not None:
            result = self._noted(result, proposal.operation, state, outcome.state)
        self._log(proposal, result)
        if outcome.state is not None:
            self.post_commit.after(outcome.state, outcome.txn_id)
            if self.after_commit is not None:
                self.after_commit(self, outcome.state)
        elif state is not None and outcome.version is not None:
            self.post_commit.after_unread(state)
        if self._hooks is not None:
            call(self._hooks.on_commit, self.uri, result)
        return result

    def begin(self, proposal: Proposal, files: pa.Table) -> WriteResult | None:
        """Begin the log of a table with very many ``files`` (``FILES_SCHEMA``), which are no actions of the proposal:
        a checkpoint has them. Costs as much as reading and writing one checkpoint.

        It begins as a log begins of which what came before was cleaned up: with a version that has a checkpoint. Nobody
        can read it until the checkpoint is there. If this process dies before that, whoever meets the first commit
        (`begun`) finishes it (`finish`). None if another writer's commit is there.

        Raises ``InvalidInputError``, ``StorageError``, ``CorruptLogError``, ``CommitStateUnknownError``.
        """
        from txlog.core.versions._begin_log import begin_log

        with TxlogError.located(self.uri), self.timed("commit"):
            validate_proposal(proposal, append_only=False)
            begun = begin_log(self._commits, proposal, files)
        if begun is None:
            return None
        result = WriteResult(begun.version, "committed", 1, proposal.txn_id)
        self._log(proposal, result)
        self.post_commit.after(begun, proposal.txn_id)
        if self._hooks is not None:
            call(self._hooks.on_commit, self.uri, result)
        return result

    def begun(self) -> TableState | None:
        """The definition of a table whose log `begin` has begun, and whose checkpoint is not there yet, without files;
        None if the log is another one. Raises ``StorageError``, ``CorruptLogError``."""
        from txlog.core.versions._begin_log import begun

        return begun(self.log)

    def finish(self, begun: TableState, files: pa.Table) -> None:
        """Write the checkpoint of a log that was `begun`, whose files are these. Raises as `begin` does."""
        with TxlogError.located(self.uri, begun.version):
            self.log.begin(self.log.read_commit(begun.version), files)

    def settle(self, state: TableState | None = None) -> bool:
        """End the transaction over several tables that the table is prepared for, if it is; whether that could be told.

        ``state`` is the newest version that is known; None: look. Raises ``TxlogError`` of this table's store and log.
        """
        state = state or self.log.newest_state()
        if not state.is_prepared:
            return True
        from txlog.core.versions._prepared_tables import settle  # not imported for an append

        return settle(self, state)

    def is_awaited(self, state: TableState) -> bool:
        """Whether another table still needs this log up to ``state``, which decided a transaction of both."""
        from txlog.core.versions._prepared_tables import is_awaited

        return is_awaited(self, state)

    def unsent_files(self) -> UnsentFiles:
        """What owns the files of a write that begins now."""
        known = self.log.known_state
        return UnsentFiles(self.store.files, -1 if known is None else known.version)

    def _require_no_vacuum_of(self, proposal: Proposal, state: TableState, known_version: int) -> None:
        """Raise ``ConcurrentDeleteReadError`` if a vacuum began after ``known_version`` that may delete files of the
        proposal. The commit loop looks only at versions after ``state``, which may be younger than the files."""
        vacuum = state.vacuum
        if vacuum is None or vacuum.version <= known_version or not proposal.adds_are_new:
            return
        from txlog.core.versions._commit_errors import raise_conflict
        from txlog.core.versions.decisions.conflicts import endangered

        reason = endangered(proposal, vacuum)
        if reason is not None:
            raise_conflict((reason,), self.uri)

    def commit_change(
        self,
        builder: ProposalBuilder,
        info: OperationInfo,
        isolation: Isolation | None = None,
        metrics: WriteMetrics | None = None,
        unsent: UnsentFiles | None = None,
    ) -> WriteResult:
        """Commit what ``builder`` has collected: a change that no newer version makes again. Without ``isolation``, at
        the table's level. Raises what `commit` raises."""
        return self.commit(self.proposed(builder, info, isolation), builder.state, metrics, unsent=unsent)

    def proposed(self, builder: ProposalBuilder, info: OperationInfo, isolation: Isolation | None = None) -> Proposal:
        """What `commit_change` commits."""
        return builder.build(
            info,
            txn_id=ambient.uuid4(),
            now_ms=ambient.now_ms(),
            isolation=isolation or self.isolation(builder.state),
        )

    def commit_plan(
        self, plan: Plan, state: TableState, *, unsent: UnsentFiles | None = None, is_empty_too: bool = False
    ) -> WriteResult:
        """Execute ``plan`` on ``state`` and commit it. It reruns whenever others change files first.

        A plan that finds nothing to do at first commits nothing, unless ``is_empty_too``. ``unsent`` is notified before
        the first put: after that no file of the plan may be deleted. Raises what ``Plan.execute`` and `commit` raise.
        """
        return self.run(self.plan_steps(plan, state, unsent=unsent, is_empty_too=is_empty_too))

    def run(self, steps: Steps[Out]) -> Out:
        """Run a write, and make its commits. Raises what it raises."""
        try:
            wanted = next(steps)
            while True:
                try:
                    result = self.commit(
                        wanted.proposal, wanted.state, wanted.metrics, plan=wanted.plan, unsent=wanted.unsent
                    )
                except BaseException as error:
                    wanted = steps.throw(error)
                else:
                    wanted = steps.send(result)
        except StopIteration as end:
            found: Out = end.value
            return found

    def plan_steps(
        self, plan: Plan, state: TableState, *, unsent: UnsentFiles | None = None, is_empty_too: bool = False
    ) -> Steps[WriteResult]:
        """As `commit_plan`."""
        try:
            with self.timed("plan"):
                proposal = plan.execute(state)
        except NotFoundError:  # vacuumed, or cleaned up: an error only if the newest version still needs it
            newest = self.log.reload()
            is_other = newest.protocol != state.protocol or not keeps_write_rules(state.metadata, newest.metadata)
            if newest.version == state.version or is_other:
                raise
            state, proposal = newest, plan.execute(newest)
        if not proposal.actions and not is_empty_too:  # nothing to do, so no commit could make it wrong or right
            return WriteResult(state.version, "committed", 0, "")
        return (yield ToCommit(proposal, state, None, plan, unsent))

    def make_version_durable(self, version: int) -> None:
        """As ``CommitContext.make_version_durable``."""
        self._commits.make_version_durable(version)

    def is_on_disk(self, version: int) -> bool:
        """Whether this handle has made the version and all below it durable."""
        return version <= self._commits.durable_version

    def report_conflict(self, error: ConflictError) -> None:
        """Call the hooks with a conflict that is about to be raised."""
        if self._hooks is not None:
            call(self._hooks.on_conflict, self.uri, error)

    def _noted(self, result: WriteResult, operation: str, before: TableState | None, after: TableState) -> WriteResult:
        """Say which programs our upgrade of the protocol concerns, or the protocol of a table that has its columns from
        the data."""
        if before is None and (operation in _DEFINES_COLUMNS or not after.protocol.reader_features):
            return result
        from txlog.core.format.upgrade_note import concerns_readers, new_table_note, upgrade_note

        if before is None:
            note, level = new_table_note(after.protocol, after.metadata), logging.WARNING
        else:
            note = upgrade_note(before.protocol, after.protocol, after.metadata)
            level = logging.WARNING if concerns_readers(before.protocol, after.protocol) else logging.INFO
        if note is None:
            return result
        logger.log(level, "%s: v%s: %s", self.uri, result.version, note)
        return replace(result, notes=(*result.notes, note))

    def _log(self, proposal: Proposal, result: WriteResult) -> None:
        """Log one line per commit. The record has the result's fields as ``txlog``, for structured logging."""
        if result.outcome == "already_committed":
            logger.info(
                "%s: replay dropped: %s is in %s already",
                self.uri,
                ", ".join(f"checkpoint {txn.version} of {txn.app_id!r}" for txn in proposal.set_transactions),
                "a cleaned-up version" if result.version is None else f"v{result.version}",
            )
        elif logger.isEnabledFor(logging.INFO):
            did = result.metrics
            lost = ", ".join(f"{count} to {operation}" for operation, count in did.lost_to.items())
            logger.info(
                "%s: committed v%s %s: %s, %s, %d bytes; %s, %s lost%s, %.2f s waited, %s",
                *(self.uri, result.version, proposal.operation, counted(did.rows, "row"), counted(did.files, "file")),
                *(did.bytes, counted(result.attempts, "attempt"), counted(did.lost_races, "race")),
                *(f" ({lost})" if lost else "", did.waited_s, result.txn_id),
                extra={"txlog": {"table": self.uri, "operation": proposal.operation, **result.to_dict()}},
            )


def _settle_of(reference: weakref.ref[OpenTable]) -> Callable[[TableState], bool]:
    """`OpenTable.settle`, of a handle that is freed as soon as its user lets go of it."""

    def settle(state: TableState) -> bool:
        open_table = reference()
        return open_table is not None and open_table.settle(state)

    return settle


class LastRead:
    """What a handle knows of its user's reads: the version it last returned, and the versions it committed itself.

    A selective overwrite brings rows that were computed from what the handle read, so changes in versions of others
    that the user has not seen must not be lost. Before the first read nothing is unseen: the user's rows come from
    elsewhere. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = new_lock()
        self._table_id: str | None = None
        self._version: int | None = None
        self._own: set[int] = set()
        self._own_appends: set[str] = set()

    def read(self, table_id: str, version: int) -> None:
        """Record that the user was given the rows of this version as the newest ones."""
        with self._lock:
            self._table_id, self._version = table_id, version
            self._own.clear()
            self._own_appends.clear()

    def committed(self, version: int) -> None:
        """Record that the user committed this version."""
        with self._lock:
            if self._version is None:
                return
            if version == self._version + 1:
                self._version = version
            elif len(self._own) < _OWN_MAX:  # further versions count as made by others
                self._own.add(version)

    def committed_among_others(self, txn_id: str) -> None:
        """Record that the user made this append, in a version that also has appends of others."""
        with self._lock:
            if self._version is not None and len(self._own_appends) < _OWN_MAX:
                self._own_appends.add(txn_id)

    @property
    def own_appends(self) -> frozenset[str]:
        """The ids of the user's appends in versions that are not only the user's."""
        with self._lock:
            return frozenset(self._own_appends)

    def version_of(self, table_id: str) -> int | None:
        """The version last read; None if there was none, or only of an earlier table at this location."""
        with self._lock:
            return self._version if self._table_id == table_id else None

    def is_own(self, version: int) -> bool:
        """Whether the user committed this version after the one last read."""
        with self._lock:
            return version in self._own


def _checked(time_zone: str | ZoneInfo) -> str:
    from txlog.core.format.time_zones import zone_name

    return zone_name(time_zone)


def _check_definition(state: TableState) -> None:
    check_can_write(state.protocol, state.metadata)


def _unknown_properties(state: TableState) -> list[str]:
    return unknown_keys(state.metadata.configuration)


def _check_clustering(state: TableState) -> None:
    if state.domains:
        from txlog.core.format.clustering import check_clustering

        check_clustering(state.domains, state.schema, state.properties, state.partition_columns)
