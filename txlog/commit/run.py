"""One commit on its way: the commit loop itself. The only place that raises ``ConflictError``.

In: a ``Proposal`` and the ``TableState`` it was planned on. Out: a ``CommitOutcome``, acknowledged only when durable.

Theory of operation. A put at version N has three answers, and an answer can get lost, so each round ends in one
of two facts read from the log itself: *mine* (N holds our ``txnId``) or *foreign* (N holds somebody else's commit,
so that no put of ours still in flight can ever land there). Until one of the two is known the same bytes go to the
same N again; version N+1 is never tried before a foreign commit was seen at N. A foreign winner makes the pure
decision (``log/conflicts``) look at the whole tail: committed after all, a replay, a conflict, or a rebase. A retry
re-sends one small JSON body; data files are never touched here, and nothing here ever deletes one.

A change of rows comes with its `Plan`. Where the tail changed files, the plan is executed again on the newest version:
never while it is unknown what a put of ours did, and outside of the commit queue's turn until little work is left, so
that a long look-up holds nobody up.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from txlog.commit.attempt import Attempt, encode_attempt
from txlog.commit.outcome import CommitOutcome, raise_conflict
from txlog.commit.plan import LITTLE_WORK_S, Plan
from txlog.commit.unsent_files import UnsentFiles
from txlog.errors import (
    CommitRetriesExhaustedError,
    CommitStateUnknownError,
    ConflictReason,
    CorruptLogError,
    NotFoundError,
    StorageError,
    TxlogError,
)
from txlog.hooks import LostRace, call
from txlog.log.conflicts import Committed, Conflict, Rebase, Reexecute, decide
from txlog.log.proposal import Proposal, validate_proposal
from txlog.log.state import TableState
from txlog.protocol.commit_file import parse_commit
from txlog.protocol.log_names import commit_name
from txlog.result import Outcome, counted
from txlog.store.base import PutOutcome
from txlog.store.commit_queue import Turn
from txlog.util import ambient
from txlog.util.logs import logger

if TYPE_CHECKING:
    from txlog.commit.committer import Committer

__all__ = ["CommitRun"]

_OPERATION_CHARACTERS_MAX = 64  # of a winner's operation, which its writer chose and our commit repeats


class _Seen(enum.Enum):
    MINE = "mine"
    FOREIGN = "foreign"
    NOTHING = "nothing readable"


class _Next(enum.Enum):
    """What follows a round that settled nothing."""

    WAIT = "a race was lost, and what is proposed is valid, or its plan is to be executed"
    EXECUTE = "the plan is behind by more work than its turn is for"


class CommitRun:
    """One commit on its way: where it aims, what it has sent, how long it may still try."""

    def __init__(
        self,
        committer: Committer,
        proposal: Proposal,
        state: TableState | None,
        plan: Plan | None = None,
        unsent: UnsentFiles | None = None,
    ) -> None:
        self.committer = committer
        self.plan = plan
        self.is_behind = False  # files changed since the plan was executed
        self.reexecutions = 0
        self.log = committer.log
        self.store = committer.log.store.log
        self.proposal = proposal
        self.state = state
        self.unsent = unsent
        self.sent: int | None = None  # the last version a put of ours went to
        self.uncertain = False  # that put may have landed, or still land
        self.attempts = 0
        self.lost_races = 0
        self.waited_s = 0.0
        self.lost_to: dict[str, int] = {}
        self.winner_operation = "unknown"  # of the foreign commit that was read back last
        self.pacing = committer.retry.pacing(self.store.round_trip_s)
        self.turn = Turn()

    @property
    def target(self) -> int:
        return self.state.version + 1 if self.state else 0

    # --- the loop -------------------------------------------------------------------------------------------

    def run(self) -> CommitOutcome:
        while True:
            settled: CommitOutcome | _Next | None = self._execute_outside_turn()
            if settled is None:
                self._take_turn()
                try:
                    settled = self._round()
                finally:
                    self.turn.end()
            if isinstance(settled, CommitOutcome):
                return settled
            if settled is _Next.WAIT:
                self._wait_after_lost_race()

    def _round(self) -> CommitOutcome | _Next:
        """One version tried."""
        settled = self._catch_up()
        if settled is not None:
            return settled
        if self.is_behind:
            if self._remaining_work_s() > LITTLE_WORK_S:
                return _Next.EXECUTE
            self._execute()
            if self.is_behind:
                return _Next.EXECUTE
        self._make_predecessor_durable()
        attempt = self._encode_attempt()
        if self._take(attempt.data) is _Seen.MINE:
            return self._acknowledge(attempt)
        self.turn.end()  # what the user's hook does next may take long
        self.lost_races += 1
        version, winner = self.target, self.winner_operation
        self.lost_to[winner] = self.lost_to.get(winner, 0) + 1
        settled = self._follow_winners()
        if settled is None and self.committer.hooks is not None:
            lost = LostRace(self.proposal.txn_id, version, winner, self.attempts, self.waited_s)
            call(self.committer.hooks.on_retry, self.log.uri, lost)
        return settled or _Next.WAIT

    # --- plans ----------------------------------------------------------------------------------------------

    def _execute_outside_turn(self) -> CommitOutcome | None:
        """Bring the plan to the newest version, and to what landed while it was executed, until little is left."""
        while self.is_behind and self._remaining_work_s() > LITTLE_WORK_S:
            self._execute()
            if self.pacing.is_over():
                raise self._exhausted()
            settled = self._catch_up()
            if settled is not None:
                return settled
        return None

    def _execute(self) -> None:
        """No put of ours is open: each version that was tried holds a foreign commit. The plan may stay behind."""
        assert self.plan is not None
        assert self.state is not None
        assert not self.uncertain
        try:
            proposal = self.plan.execute(self.state)
        except NotFoundError:  # vacuumed, or cleaned up: an error only where the newest version still needs it
            if self.log.reload().version == self.state.version:
                raise
            return
        assert proposal.txn_id == self.proposal.txn_id
        assert proposal.base_version == self.state.version
        with TxlogError.located(self.log.uri, self.state.version):
            validate_proposal(proposal, append_only=self.state.properties.append_only)
        self.proposal = proposal
        self.is_behind = False
        self.reexecutions += 1

    def _remaining_work_s(self) -> float:
        assert self.plan is not None
        assert self.state is not None
        return self.plan.remaining_work_s(self.state)

    def _take_turn(self) -> None:
        """Among the writers of this machine, where they queue; a race is lost to others only."""
        started_s = ambient.monotonic_s()
        self.turn = self.log.store.commit_queue.take()
        self.waited_s += ambient.monotonic_s() - started_s

    def _catch_up(self) -> CommitOutcome | None:
        """Judge the commits that landed since the head was established, before anything is sent.

        Also keeps "absent means never taken" true: `DeltaLog.newest_state` reloads what is too old to build on.
        """
        if self.state is None:
            return None
        if not self.log.state_is_fresh():
            newest = self.log.newest_state().version
        elif self.store.capabilities.has_cheap_calls:
            newest = self._newest_at_a_look()
        else:
            newest = self.log.newest_state(refresh=False).version
        return self._follow_winners() if newest > self.state.version else None

    def _newest_at_a_look(self) -> int:
        """The version tried, where somebody has it already."""
        try:
            self.store.stat(commit_name(self.target))
        except NotFoundError:
            return self.target - 1
        return self.target

    def _take(self, body: bytes) -> _Seen:
        """Send ``body`` to ``target`` until the log shows whose commit stands there."""
        while True:
            self.attempts += 1
            outcome = self._put(body)
            if outcome is PutOutcome.WRITTEN:
                self._require_predecessor()
                return _Seen.MINE
            if outcome is PutOutcome.NOT_DURABLE:
                raise self._unknown("it is visible, but the log directory could not be synced to disk")
            seen = self._read_back(body)
            if seen is _Seen.FOREIGN:
                self.uncertain = False
                return seen
            if seen is _Seen.MINE:
                self._make_found_commit_durable(self.target)
                self._require_predecessor()
                return seen
            self.uncertain = True
            if not self._pause():
                raise self._unknown("no readable answer came before the retry policy ended")

    def _put(self, body: bytes) -> PutOutcome:
        self.sent = self.target
        if self.unsent is not None:
            self.unsent.mark_sent()
        try:
            return self.store.put_if_absent(commit_name(self.target), body)
        except StorageError as error:
            if self.uncertain:
                # A put before this one may have landed: a definite failure now does not take that back.
                raise self._unknown(f"a later attempt failed ({error.message})") from error
            error.table, error.version = self.log.uri, self.target
            raise

    def _read_back(self, body: bytes) -> _Seen:
        """Who holds ``target``. Absent and unreadable come to the same: nothing is known, send again."""
        try:
            found = self.store.read(commit_name(self.target))
        except (NotFoundError, StorageError):
            return _Seen.NOTHING
        if found == body:
            return _Seen.MINE
        try:
            commit = parse_commit(found, self.target, table=self.log.uri, limits=self.log.limits, files=False)
        except CorruptLogError as error:
            if body.startswith(found):
                raise self._unknown("its version holds a torn commit that may be ours") from error
            raise
        if commit.txn_id == self.proposal.txn_id:
            return _Seen.MINE
        self.winner_operation = commit.operation[:_OPERATION_CHARACTERS_MAX]
        return _Seen.FOREIGN

    # --- after a lost race ----------------------------------------------------------------------------------

    def _follow_winners(self) -> CommitOutcome | None:
        """Judge the whole tail. None: rebased, go on; an outcome: it was committed after all."""
        try:
            if self.state is not None:
                self.log.still_has(self.state)
            winners = self.log.commits_after(self.state.version if self.state else -1)
        except NotFoundError:
            return self._step_over_cleaned_up()
        decision = decide(self.proposal, winners)
        if isinstance(decision, Rebase | Reexecute):
            for winner in winners:
                self.state = self.log.advance(self.state, winner)
            self.proposal = self.proposal.rebased(self.target - 1)
            self.is_behind |= isinstance(decision, Reexecute)
            return None
        if isinstance(decision, Conflict):
            raise_conflict(decision.reasons, self.log.uri)
        self._make_found_commit_durable(decision.version)
        word: Outcome = "committed" if isinstance(decision, Committed) else "already_committed"
        return self._outcome(decision.version, word, None)

    def _step_over_cleaned_up(self) -> CommitOutcome | None:
        """Winners were cleaned up unseen: what a reload cannot show to be harmless is a conflict."""
        before, after = self.state, self.log.reload()
        reasons = []
        rule = "ConcurrentDeleteReadError"
        if not self.proposal.is_blind_append and self.plan is None:
            reasons.append((rule, "and later commits were cleaned up from the log before this one could look at them"))
        if before is None or before.protocol != after.protocol:
            reasons.append(("ProtocolChangedError", "or a later, cleaned-up commit changed the protocol"))
        if before is None or before.metadata != after.metadata:
            reasons.append(("MetadataChangedError", "or a later, cleaned-up commit changed the metadata"))
        for mine in self.proposal.set_transactions:
            seen = after.transaction_version(mine.app_id)
            if before is not None and seen != before.transaction_version(mine.app_id):
                if seen == mine.version:
                    return self._outcome(None, "already_committed", after)
                reasons.append(("ConcurrentTransactionError", f"or a later commit moved app_id {mine.app_id!r}"))
        if reasons:
            raise_conflict(
                tuple(ConflictReason(rule, self.target, "unknown", detail) for rule, detail in reasons), self.log.uri
            )
        self.state = after
        self.proposal = self.proposal.rebased(after.version)
        self.is_behind = self.plan is not None
        return None

    def _wait_after_lost_race(self) -> None:
        # A blind append never stops being valid, nor does a plan, so only time bounds their races.
        if not self._pause(bounded_by_count=not self.proposal.is_blind_append and self.plan is None):
            raise self._exhausted()

    def _exhausted(self) -> CommitRetriesExhaustedError:
        return CommitRetriesExhaustedError(
            f"lost {counted(self.lost_races, 'race')} in {counted(self.attempts, 'attempt')}, then the retry policy"
            " ended. Nothing landed; run it again, or give the table handle a longer RetryPolicy",
            table=self.log.uri,
            version=self.target,
            attempts=self.attempts,
        )

    def _pause(self, *, bounded_by_count: bool = True) -> bool:
        self.turn.end()
        started_s = ambient.monotonic_s()
        try:
            return self.pacing.pause(bounded_by_count=bounded_by_count)
        finally:
            self.waited_s += ambient.monotonic_s() - started_s

    # --- durability and acknowledgement ---------------------------------------------------------------------

    def _encode_attempt(self) -> Attempt:
        attempt = encode_attempt(
            self.proposal,
            self.state,
            self.store,
            engine_info=self.committer.engine_info,
            attempts=self.lost_races + 1,
            waited_s=self.waited_s,
            lost_to=self.lost_to,
            limits=self.log.limits,
        )
        self.proposal = attempt.proposal
        return attempt

    def _make_predecessor_durable(self) -> None:
        """Before N+1 is linked, a foreign N must be on disk: else a power cut could leave a hole below ours.

        Where a look is free, N must be there besides: in a table that was replaced meanwhile N+1 would be the hole.
        """
        if self.state is None:
            return
        if not self.log.still_has(self.state):
            self._require_checkpoint_at_newest()
            return
        version, newest_foreign = self.state.version, self.state.newest_foreign
        try:
            self.committer.make_version_durable(version, newest_foreign, keeps_order=self.turn.keeps_order)
        except NotFoundError:
            self._require_checkpoint_at_newest()

    def _make_found_commit_durable(self, version: int | None) -> None:
        """A commit that was found by reading may not be on disk yet, whoever wrote it."""
        if version is None:
            return
        try:
            self.store.make_durable(commit_name(version))
        except (NotFoundError, StorageError) as error:
            raise self._unknown(f"it was found in the log, but could not be synced ({error})", version) from error

    def _require_predecessor(self) -> None:
        """A commit on top of a version that is gone would be invisible to every reader."""
        if self.state is None:
            return
        if not self.store.capabilities.has_cheap_calls and self.log.state_is_fresh():
            return
        try:
            self.store.stat(commit_name(self.state.version))
        except NotFoundError:
            self._require_checkpoint_at_newest()
        except StorageError as error:
            raise self._unknown(f"the version before it could not be looked at ({error.message})") from error

    def _require_checkpoint_at_newest(self) -> None:
        """Copied tables may hold a version only as a checkpoint. It is looked at: in a table that was dropped and made
        again neither is there."""
        assert self.state is not None
        checkpoint = self.state.segment.checkpoint
        try:
            if checkpoint is not None and checkpoint.version == self.state.version:
                for name in checkpoint.names:
                    self.store.stat(name)
                return
        except NotFoundError:
            pass
        except StorageError as error:
            raise self._unknown(f"the checkpoint at its version could not be looked at ({error.message})") from error
        raise self._unknown(f"version {self.state.version}, which it builds on, is gone from the log")

    def _acknowledge(self, attempt: Attempt) -> CommitOutcome:
        version = self.target
        self.committer.durable_version = version
        state: TableState | None = None
        try:
            state = self.log.advance(self.state, attempt.commit(version))
        except Exception as error:  # the commit stands; whoever reads the table next says what is wrong with it
            logger.warning("%s: v%d is committed, its state was not kept: %s", self.log.uri, version, error)
        return self._outcome(version, "committed", state)

    def _outcome(self, version: int | None, outcome: Outcome, state: TableState | None) -> CommitOutcome:
        races = self.lost_races, self.waited_s, self.lost_to
        return CommitOutcome(version, outcome, self.attempts, *races, state, self.reexecutions)

    # --- refusals -------------------------------------------------------------------------------------------

    def _unknown(self, why: str, version: int | None = None) -> TxlogError:
        at = self.target if version is None else version
        if self.sent is None:
            return StorageError(
                f"could not build on version {at}: {why}. Nothing landed", table=self.log.uri, version=at
            )
        place = f"txlog.resolve({self.log.uri!r}, " if at == 0 else "table.resolve("  # there may be no table to open
        return CommitStateUnknownError(
            f"commit {self.proposal.txn_id} may or may not be in the log: {why}. Do not run it again blindly:"
            f" {place}{self.proposal.txn_id!r}, {at}) tells which",
            table=self.log.uri,
            version=at,
            txn_id=self.proposal.txn_id,
        )

    def report_interrupted(self) -> None:
        """Ctrl-C: say whether the commit landed before the interrupt goes on its way."""
        if self.sent is None:
            logger.warning("%s: interrupted before anything was sent; nothing landed", self.log.uri)
            return
        try:
            body = self.store.read(commit_name(self.sent))
            found = parse_commit(body, self.sent, limits=self.log.limits, files=False).txn_id
        except TxlogError:
            found = None
        landed = "is in the log" if found == self.proposal.txn_id else "was not seen in the log"
        logger.warning(
            "%s: interrupted; commit %s %s at version %d", self.log.uri, self.proposal.txn_id, landed, self.sent
        )
