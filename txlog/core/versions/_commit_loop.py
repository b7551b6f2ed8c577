"""The commit loop: one commit tries for the next version until the log says what became of it.

In: a ``Proposal`` and the ``TableState`` it was planned on. Out: a ``CommitOutcome``, acknowledged only when durable.
The only place that raises ``ConflictError``.

How it works. A put at version N has three answers, and an answer can get lost. So each round ends with one of two
facts, read from the log itself: *mine* (N holds our ``txnId``) or *foreign* (N holds another writer's commit, so that
no put of ours still in flight can land there; that commit is synced first, or a power cut could free N for our put).
Until one of the two is known, the loop sends the same bytes to N again, and never tries version N+1. After a foreign
commit, a pure function (``core/versions/decisions/conflicts``) decides on the whole tail: committed after all, a
replay, a conflict, or a rebase. A retry sends one small JSON body again. The loop never touches or deletes data files.

A commit does all of this alone. It has `Peers`, whom it asks at two moments: before a put, whose turn it is and what
else goes along; after a lost race or an error, whether they carried the commit, or still may. Whatever they say, only
the log tells what landed. `Peers` itself is nobody; ``_peers`` has those of real commits.
"""

from __future__ import annotations

import enum
import weakref
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import replace

from txlog.core import ambient
from txlog.core.format.commit_file import Commit
from txlog.core.store import Attempt, Patience, PutOutcome, Turn, last_answer
from txlog.core.util import cached_property, logger
from txlog.core.versions._attempt import CommitOutcome, EncodedAttempt, encode_attempt
from txlog.core.versions._commit_context import (
    BrokenBase,
    CommitContext,
    make_predecessor_durable,
    require_predecessor,
)
from txlog.core.versions.decisions.joined_appends import holds, members
from txlog.core.versions.decisions.proposal import Proposal
from txlog.core.versions.decisions.state import PREPARED, TableState
from txlog.core.writing import UnsentFiles
from txlog.errors import CommitRetriesExhaustedError, CorruptLogError, NotFoundError, StorageError, TxlogError
from txlog.hooks import LostRace, call, timed
from txlog.result import Outcome, counted

if TYPE_CHECKING:
    from txlog.core.format.actions import SetTransaction
    from txlog.core.versions._plan import Plan, Reexecution
    from txlog.core.versions._read_ahead import ReadAhead
    from txlog.core.versions.decisions.conflicts import SplitAppends

_OPERATION_CHARACTERS_MAX = 64  # of a winner's operation: its writer chose the text, and our commit repeats it

RunResult: TypeAlias = "CommitOutcome | SplitAppends"
"""How a run ends without an error. `SplitAppends`: of what was gathered, not all can go on together; of it, the log has
only what the decision names."""


class Peers:
    """Those with whom one commit shares turns and versions, as the loop asks for them. This one is nobody."""

    sent_as: int | None = None
    """The version as which a peer has sent what is proposed, and was not answered."""
    is_offered = False
    """Whether peers may commit what is proposed, as any version that comes, until one settles it."""

    # before a put

    def take_turn(self, run: CommitRun) -> CommitOutcome | None:
        """Wait for a turn, and give it to ``run``; the outcome if a peer commits it meanwhile."""
        return None

    def wait_in_line(self, run: CommitRun) -> RunResult | None:
        """Let those go first that have waited for longer; the result if the commit ends meanwhile."""
        return None

    def gather(self, run: CommitRun) -> Proposal:
        """What the next version is to hold: what is proposed, with all that goes along. Called before each put, while
        none is open."""
        return run.proposal

    # after it

    def saw(self, commit: Commit, state: TableState) -> None:
        """A version landed, of this run or of another writer; ``state`` is the table with it."""

    def lost_race(self, run: CommitRun) -> None:
        """A version of another writer was first: ``run.winner``, if it was read."""

    def acknowledged(self, run: CommitRun, outcome: CommitOutcome) -> CommitOutcome:
        """The put has landed: what the run returns for it."""
        return outcome

    def is_in_line(self) -> bool:
        """Whether the wait in line takes the place of a pause."""
        return False

    def take_back(self) -> bool:
        """The retry policy has ended. Whether the next versions have to take back what peers may commit."""
        return False

    def doubt(self, error: TxlogError, read_version: int) -> tuple[str, int | None] | None:
        """Why an error does not tell that nothing landed, and as which version it may have: a peer may commit what is
        proposed, after ``read_version``. None if the error says all."""
        return None

    def leave(self) -> None:
        """The run has ended."""


class _Seen(enum.Enum):
    MINE = "mine"
    FOREIGN = "foreign"
    NOTHING = "nothing readable"


class _Next(enum.Enum):
    """What follows a round without an outcome."""

    WAIT = "a race was lost, and what is proposed is valid, or its plan is to be executed"
    EXECUTE = "the plan is behind by more work than its turn is for"
    SETTLE = "a transaction over several tables may still write here, and ends first"


class CommitRun:
    """One commit: the version it tries for, what it has sent, and how long it may still try."""

    def __init__(
        self,
        context: CommitContext,
        proposal: Proposal,
        state: TableState | None,
        peers: Peers,
        plan: Plan | None = None,
        unsent: UnsentFiles | None = None,
        first: int = 0,
    ) -> None:
        self.first = first
        self.context = context
        self.log = context.log
        self.versions = context.log.versions
        self.peers = peers
        self.plan = plan
        self.reexecution = None if plan is None else self._reexecution(plan)
        self.proposal = proposal
        self.txn_id = proposal.txn_id
        self.state = state
        self.unsent = unsent
        self.sent: int | None = None  # the last version for which we sent a put
        self.sent_txn_id = proposal.txn_id  # of that put: it is another one if it carries appends of others
        self.sent_at = ambient.instant()
        self.confirmed_at: ambient.Instant | None = None  # when the version before the target was the newest
        self.uncertain = False  # that put may have landed, or may still land
        self.doubt = ""  # why the outcome is unknown
        self.read_version = proposal.base_version  # up to here it is known that the proposal has not landed
        self.attempts, self.lost_races = 0, 0
        self.lost_to: dict[str, int] = {}
        self.winner: Commit | None = None  # the foreign commit that was read back last
        self.passes: SetTransaction | None = None  # a transaction over several tables that cannot be ended from here
        self.began_s = ambient.monotonic_s()
        self.turn = Turn()
        run = weakref.proxy(self)  # else what was committed would stay in memory until the next garbage collection
        self.patience = Patience(context.retry, self.versions.round_trip_s, self.log.uri, lambda: run.turn.end())

    def _reexecution(self, plan: Plan) -> Reexecution:
        from txlog.core.versions._plan import Reexecution  # not imported for an append

        return Reexecution(self.log, plan)

    @property
    def target(self) -> int:
        return self.state.version + 1 if self.state else self.first

    def read_ahead(self, newest: int) -> None:
        """Read commits of which another writer of this machine knows, while this one waits for its turn."""
        if self.state is not None:
            self.ahead.read(self.target, newest)

    @cached_property
    def ahead(self) -> ReadAhead:
        """What was read of the log while this commit waited for its turn."""
        from txlog.core.versions._read_ahead import ReadAhead

        return ReadAhead(self.log)

    # --- the loop -------------------------------------------------------------------------------------------

    def run(self) -> RunResult:
        try:
            while True:
                settled: RunResult | _Next | None = self._execute_outside_turn()
                if settled is None:
                    try:
                        found = self.peers.take_turn(self) or self._next_attempt()
                        if not isinstance(found, EncodedAttempt):
                            settled = found
                        elif self._take(found.attempt) is _Seen.MINE:
                            settled = self._acknowledge(found)
                        else:
                            settled = self._follow_winner() or _Next.WAIT
                    finally:
                        self.turn.end()
                if settled is _Next.WAIT:
                    self._wait_after_lost_race()
                elif settled is _Next.SETTLE:
                    self._settle_prepared()
                elif settled is not None and settled is not _Next.EXECUTE:
                    return settled
        except TxlogError as error:
            doubt = self.peers.doubt(error, self.read_version)
            if doubt is None:
                raise
            raise self._unknown(*doubt) from error
        except KeyboardInterrupt:
            self._report_interrupted()
            raise
        finally:
            self.peers.leave()

    def take_first(self) -> Commit | None:
        """Make what is proposed the first version of a log; None if another writer's commit is there."""
        encoded = self._encode(self.proposal)
        return encoded.commit() if self._take(encoded.attempt) is _Seen.MINE else None

    def _next_attempt(self) -> EncodedAttempt | RunResult | _Next:
        """What is to be put as the next version; otherwise how the commit ended, or what comes first."""
        settled: RunResult | _Next | None = self.catch_up() or self.peers.wait_in_line(self)
        if settled is not None:
            return settled
        if self.state is not None and self.state.is_prepared and self._has_to_wait(self.state):
            return _Next.SETTLE
        rerun = self.reexecution
        if rerun is not None and rerun.is_behind:
            if rerun.has_much_work(self.state):
                return _Next.EXECUTE
            self._execute(rerun)
            if rerun.is_behind:
                return _Next.EXECUTE
        self._make_predecessor_durable()
        return self._encode(self.peers.gather(self))

    def _follow_winner(self) -> RunResult | None:
        """Another writer's commit is at ``target``: decide on it as `follow` does, and call the hooks."""
        self.lost_races += 1
        self.peers.lost_race(self)
        version, winner = self.target, self.winner.operation[:_OPERATION_CHARACTERS_MAX] if self.winner else "unknown"
        self.lost_to[winner] = self.lost_to.get(winner, 0) + 1
        settled = self.follow(self._winners_read())
        self.turn.end()  # the user's hook, which runs next, may take long
        if settled is None and self.context.hooks is not None:
            lost = LostRace(self.txn_id, version, winner, self.attempts, self.patience.waited_s)
            call(self.context.hooks.on_retry, self.log.uri, lost)
        return settled

    def _has_to_wait(self, prepared: TableState) -> bool:
        """Whether the transaction that the newest version is prepared for ends before this commit."""
        from txlog.core.versions.decisions.prepared import ends  # not imported for an append

        is_passed = self.passes is not None and self.passes == prepared.transactions[PREPARED]
        return self.context.settle is not None and not is_passed and not ends(self.proposal, prepared)

    def _settle_prepared(self) -> None:
        assert self.state is not None
        assert self.context.settle is not None
        if not self.context.settle(self.state):
            self.passes = self.state.transactions[PREPARED]

    def _execute_outside_turn(self) -> RunResult | None:
        """Execute the plan on the newest version, and again after each new commit, until little work is left."""
        rerun = self.reexecution
        while rerun is not None and rerun.is_behind and rerun.has_much_work(self.state):
            rerun.outside += 1
            self._execute(rerun)
            self.require_time()
            settled = self.catch_up()
            if settled is not None:
                return settled
        return None

    def _execute(self, rerun: Reexecution) -> None:
        """Execute the plan, while no put of ours is open. The plan may stay behind the newest version."""
        assert not self.uncertain
        with timed(self.context.hooks, self.log.uri, "rerun"):
            self.proposal = rerun.execute(self.proposal, self.state)

    # --- what has landed ------------------------------------------------------------------------------------

    def catch_up(self) -> RunResult | None:
        """Decide on the commits that landed since the state was loaded, before anything is sent.

        `DeltaLog.newest_state` reloads a state that is too old, so an absent version was never committed.
        """
        if self.state is None:
            return None
        if not self.log.state_is_fresh():
            newest = self.log.newest_state().version
        elif self.versions.capabilities.has_cheap_calls:
            newest = self._newest_by_one_look()
        else:
            newest = self.log.newest_state(refresh=False).version
        noted = self.turn.newest_version
        self.confirmed_at = self.log.confirmed_at  # not later: another thread may look again after a long sleep
        if noted > max(newest, self.state.version):  # another writer of this machine knows more
            if self.ahead.read(self.target, noted, least=1):
                return self.follow(self.ahead.commits)
            return self._step_over_cleaned_up()  # or the note is of a table that was here before
        return self.follow() if newest > self.state.version else None

    def _newest_by_one_look(self) -> int:
        """The newest version that one cheap look shows: the target, if another writer has it already."""
        try:
            self.versions.stat(self.target)
        except NotFoundError:  # where another thread of this handle knows newer versions, it was cleaned up
            return max(self.target - 1, self.log.newest_state(refresh=False).version)
        return self.target

    def follow(self, read: Sequence[Commit] | None = None) -> RunResult | None:
        """Decide on the commits that were ``read``, or on the whole tail.

        Returns None to go on after a rebase, else how the commit ended.
        """
        try:
            if self.state is not None:
                self.log.still_has(self.state)
            asked = ambient.instant()
            if read is not None and self.confirmed_at is not None:
                asked = self.confirmed_at  # nobody looked whether there are later ones
            winners = read or self.log.commits_after(self.state.version if self.state else -1)
            if winners and not self.log.state_is_fresh() and self.log.is_stray(winners[0].version):
                raise NotFoundError("the commits after the known state were cleaned up")
        except NotFoundError:
            return self._step_over_cleaned_up()
        from txlog.core.versions._commit_errors import next_step_after_conflict, raise_conflict
        from txlog.core.versions.decisions.conflicts import Committed, Conflict, Rebase, Reexecute, SplitAppends, decide
        from txlog.core.versions.decisions.exactly_once import AlreadyCommitted

        decision = decide(self.proposal, winners)
        self.read_version = self.proposal.base_version + len(winners)
        if isinstance(decision, Rebase | Reexecute):
            self._advance(winners, asked)
            newest = decision.metadata if isinstance(decision, Rebase) else None
            self.proposal = self.proposal.rebased(self.target - 1, newest)
            if isinstance(decision, Reexecute):
                assert self.reexecution is not None
                self.reexecution.is_behind = True
            return None
        if isinstance(decision, Conflict):
            raise_conflict(decision.reasons, self.log.uri, next_step_after_conflict(self.proposal))
        if self.peers.is_offered:  # the next commit builds on the version of the writer that carried this one
            self._advance(winners, asked, decision.version if isinstance(decision, Committed) else None)
        if isinstance(decision, SplitAppends):
            return decision
        self._make_found_commit_durable(decision.version)
        if isinstance(decision, AlreadyCommitted):
            return self.outcome(decision.version, "already_committed")
        found = next(winner for winner in winners if winner.version == decision.version)
        has_others = not {each.txn_id for each in members(found)} <= self.own_txn_ids()
        return replace(self.outcome(decision.version), holds_others=has_others)

    def _advance(self, winners: Sequence[Commit], asked: ambient.Instant, found: int | None = None) -> None:
        """The table after the commits of other writers. ``asked``: when somebody looked for later ones. ``found`` is
        the one that carries what is proposed."""
        for winner in winners:
            if winner.version == found:
                self._learn_effects()
            self.state = self.log.advance(self.state, winner, asked)
            self.peers.saw(winner, self.state)
        self.turn.note(self.target - 1)

    def _learn_effects(self) -> None:
        """Another writer has executed the plan on this state. So does this one, to tell its caller what it did."""
        if self.plan is not None and self.state is not None:
            try:
                self.plan.execute(self.state)
            except TxlogError as error:
                logger.debug("%s: it is unknown what the plan did on v%d: %s", self.log.uri, self.state.version, error)

    def own_txn_ids(self) -> set[str]:
        """The ids of all appends that are proposed."""
        return {each.txn_id for each in self.proposal.members or (self.proposal,)}

    def _winners_read(self) -> list[Commit] | None:
        """The winner that was read back, where a look at the versions after it would cost requests: most races are lost
        to one commit. After each second lost race, None: many may have landed."""
        if self.versions.capabilities.has_cheap_calls or self.state is None or self.winner is None:
            return None
        return [self.winner] if self.lost_races % 2 else None

    def _step_over_cleaned_up(self) -> CommitOutcome | None:
        """Go on after winners that were cleaned up unread, if a reload shows that they do no harm."""
        after = self.log.reload()
        unread = NotFoundError("versions that may hold it were cleaned up from the log before they were read")
        if self.peers.doubt(unread, self.read_version) is not None:
            raise unread
        from txlog.core.versions._commit_errors import raise_conflict
        from txlog.core.versions.decisions.conflicts import Conflict, Reexecute, decide_unread
        from txlog.core.versions.decisions.exactly_once import AlreadyCommitted

        decision = decide_unread(self.proposal, self.state, after)
        if isinstance(decision, AlreadyCommitted):
            return self.outcome(None, "already_committed", after)
        if isinstance(decision, Conflict):
            raise_conflict(decision.reasons, self.log.uri)
        self.state = after
        self.proposal = self.proposal.rebased(after.version)
        assert self.reexecution is not None or not isinstance(decision, Reexecute)
        if self.reexecution is not None:
            self.reexecution.is_behind = isinstance(decision, Reexecute)
        return None

    # --- one version ------------------------------------------------------------------------------------------

    def _encode(self, proposed: Proposal) -> EncodedAttempt:
        encoded = encode_attempt(
            proposed,
            self.state,
            self.versions,
            version=self.target,
            engine_info=self.context.engine_info,
            attempts=self.lost_races + 1,
            waited_s=self.patience.waited_s,
            lost_to=self.lost_to,
            limits=self.log.limits,
        )
        if proposed is self.proposal:
            self.proposal = encoded.proposal
        self.sent_txn_id = proposed.txn_id
        return encoded

    def _take(self, attempt: Attempt) -> _Seen:
        """Send the attempt until the log shows whose commit is at its version."""
        while True:
            self.attempts += 1
            self._begin_put()
            try:
                outcome = self.versions.put(attempt)
            except TxlogError as error:
                self._put_failed(error)
                raise
            self.patience.last_words = last_answer.words or self.patience.last_words
            if outcome is PutOutcome.BLOCKED:
                self._wait_for_room()
                continue
            if outcome is PutOutcome.WRITTEN:
                self._require_predecessor()
                return _Seen.MINE
            if outcome is PutOutcome.NOT_DURABLE:
                raise self._unknown("it is visible, but the log directory could not be synced to disk")
            seen = self._read_back(attempt)
            may_be_in_flight = self.uncertain or outcome is PutOutcome.UNKNOWN
            self.uncertain = seen is _Seen.NOTHING
            if seen is _Seen.MINE or (seen is _Seen.FOREIGN and may_be_in_flight):
                self._make_found_commit_durable(self.target)
            if seen is _Seen.MINE:
                self._require_predecessor()
            if not self.uncertain:
                return seen
            self.patience.warn(self.target)
            if not self.patience.pause():
                raise self._unknown(f"no readable answer came before the retry policy ended{self.patience.said()}")

    def _begin_put(self) -> None:
        """From now on a commit may name the files."""
        if not self.peers.is_offered:
            self.require_kept_files()
        self.sent, self.sent_at = self.target, ambient.instant()
        if self.unsent is not None:
            self.unsent.mark_sent()
        last_answer.words = ""

    def _put_failed(self, error: TxlogError) -> None:
        """A put failed for certain. If nothing sent before can land, no commit will name the files.

        Another owner of versions may have taken a commit before it fails, and others may commit what was offered.
        Raises ``CommitStateUnknownError`` if an earlier put may have landed: this failure does not change that.
        """
        if self.uncertain:
            raise self._unknown(f"a later attempt failed ({error.message})") from error
        error.table, error.version = self.log.uri, self.target if error.version is None else error.version
        is_refused = isinstance(error, StorageError) and error.was_refused and self.log.store.owner is None
        if self.unsent is not None and is_refused and not self.peers.is_offered and self.peers.sent_as is None:
            self.unsent.take_back()

    def require_kept_files(self) -> None:
        """Look for files that were written long ago, as long as nothing that names them can have landed."""
        if self.unsent is not None and self.state is not None and not self.uncertain:
            self.unsent.require_kept(self.state.properties.deleted_file_retention_ms)

    def _read_back(self, attempt: Attempt) -> _Seen:
        """Whose commit is at ``target``. If it cannot be read, nothing is known, and the caller sends again."""
        try:
            found = self.versions.read(self.target)
        except NotFoundError:
            return _Seen.NOTHING
        except StorageError as error:
            self.patience.last_words = error.message
            return _Seen.NOTHING
        if found == attempt.body:
            return _Seen.MINE
        try:
            commit = self.log.commits.parsed(found, self.target)
        except CorruptLogError as error:
            if attempt.body.startswith(found):
                raise self._unknown("its version has a torn commit that may be ours") from error
            raise
        if commit.txn_id == self.sent_txn_id:
            return _Seen.MINE
        self.winner = commit
        return _Seen.FOREIGN

    def _acknowledge(self, encoded: EncodedAttempt) -> CommitOutcome:
        version = self.target
        self.turn.note(version)
        self.context.durable_version = version
        state: TableState | None = None
        try:
            commit = encoded.commit()
            state = self.log.advance(self.state, commit, self.sent_at)
            self.peers.saw(commit, state)
        except Exception as error:  # the commit is valid; the next reader of the table reports what is wrong
            logger.warning("%s: v%d is committed, but its state was not cached: %s", self.log.uri, version, error)
        return self.peers.acknowledged(self, self.outcome(version, state=state))

    def outcome(
        self, version: int | None, outcome: Outcome = "committed", state: TableState | None = None
    ) -> CommitOutcome:
        """The run ends with what it has found so far."""
        attempts = max(1, self.attempts) if outcome == "committed" else self.attempts  # another writer may have sent it
        races = self.lost_races, self.patience.waited_s, self.lost_to
        reruns = 0 if self.reexecution is None else self.reexecution.count
        return CommitOutcome(version, outcome, attempts, *races, state, reruns, self.sent_txn_id)

    # --- durability -------------------------------------------------------------------------------------------

    def _make_predecessor_durable(self) -> None:
        if self.state is not None:
            keeps_order = self.turn.keeps_order
            try:
                make_predecessor_durable(self.context, self.state, self.patience, keeps_order=keeps_order)
            except BrokenBase as broken:
                raise self._unknown(str(broken)) from broken.__cause__

    def _require_predecessor(self) -> None:
        try:
            require_predecessor(self.context, self.state, self.confirmed_at, self.target)
        except BrokenBase as broken:
            raise self._unknown(str(broken)) from broken.__cause__

    def _make_found_commit_durable(self, version: int | None) -> None:
        """Sync a commit that was found by reading: its writer may not have done so yet. Where nothing has to be synced,
        what can be read is durable."""
        if version is None or not self.versions.capabilities.needs_sync:
            return
        try:
            self.patience.until_answered(partial(self.versions.make_durable, version), self.target)
        except (NotFoundError, StorageError) as error:
            raise self._unknown(f"it was found in the log, but could not be synced ({error})", version) from error

    # --- waiting, and the end of it -----------------------------------------------------------------------------

    def _wait_after_lost_race(self) -> None:
        # A blind append and a plan stay valid after each race, so only time limits their attempts.
        if self.peers.is_in_line():
            return
        bounded_by_count = not self.proposal.is_blind_append and self.plan is None
        if not self.patience.pause(bounded_by_count=bounded_by_count, is_steady=True) and not self.peers.take_back():
            raise self.exhausted()

    def _wait_for_room(self) -> None:
        """Nothing of the last put landed. What an earlier one became stays as unknown as it was."""
        self.patience.warn(self.target)
        if not self.patience.pause(bounded_by_count=False):
            raise self._unknown(f"the retry policy ended{self.patience.said()}") if self.uncertain else self.exhausted()

    def require_time(self) -> None:
        """Raise if the retry policy has ended."""
        if self.patience.is_over():
            raise self.exhausted()

    def exhausted(self) -> CommitRetriesExhaustedError:
        """The error for a commit that lost its races for as long as the policy allows."""
        return CommitRetriesExhaustedError(
            f"lost {counted(self.lost_races, 'race')} in {counted(self.attempts, 'attempt')}, then the retry policy"
            f" ended{self.patience.said()}. Nothing landed; run it again, or give the table handle a longer"
            " RetryPolicy",
            table=self.log.uri,
            version=self.target,
            attempts=self.attempts,
        )

    def _unknown(self, why: str, version: int | None = None) -> TxlogError:
        at = self.target if version is None else version
        if self.sent is None and self.peers.sent_as is None and not self.peers.is_offered:
            return StorageError(
                f"could not build on version {at}: {why}. Nothing landed", table=self.log.uri, version=at
            )
        from txlog.core.versions._commit_errors import unknown_outcome

        self.doubt = why
        return unknown_outcome(self.log.store, self.txn_id, at, why)

    def _report_interrupted(self) -> None:
        """After Ctrl-C: log whether the commit landed, before the interrupt is raised again."""
        if self.peers.is_offered:
            where = self.log.uri, self.txn_id, self.txn_id, self.target
            logger.warning("%s: interrupted; other writers may commit %s: resolve(%r, %d) finds out", *where)
            return
        at, sent_as = self.sent, self.peers.sent_as
        if at is None and sent_as is not None and sent_as > self.read_version:
            at = sent_as
        if at is None:
            logger.warning("%s: interrupted before anything was sent; nothing landed", self.log.uri)
            return
        try:
            is_there = holds(self.log.read_commit(at, files=False), self.txn_id)
        except TxlogError:
            is_there = False
        if self.sent is None and not is_there:
            found = "may still be committed by another writer"
        else:
            found = "is in the log" if is_there else "was not seen in the log"
        logger.warning("%s: interrupted; commit %s %s at version %d", self.log.uri, self.txn_id, found, at)
