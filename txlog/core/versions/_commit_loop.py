"""The commit loop: each commit tries for the next version by itself. The only place that raises ``ConflictError``.

In: a ``Proposal`` and the ``TableState`` it was planned on. Out: a ``CommitOutcome``, acknowledged only when durable.

How it works. A put at version N has three answers, and an answer can get lost. So each round ends with one of two
facts, read from the log itself: *mine* (N holds our ``txnId``) or *foreign* (N holds another writer's commit, so that
no put of ours still in flight can land there; that commit is synced first, or a power cut could free N for our put).
Until one of the two is known, the loop sends the same bytes to N again, and never tries version N+1. After a foreign
commit, a pure function (``core/versions/decisions/conflicts``) decides on the whole tail: committed after all, a
replay, a conflict, or a rebase. A retry sends one small JSON body again. The loop never touches or deletes data files.

What surrounds the loop has its own modules: the appends that one commit carries (`joining`); the wait for a turn
(`core.store._commit_queue`), with what is read meanwhile (`read_ahead`); the wait in line (`waiting_line`); the plan of
a row change, which reruns if the tail changed files (`plan`).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast

from msgspec.structs import replace

from txlog.core.format.commit_file import Commit
from txlog.core.store import Attempt, PutOutcome, RetryPolicy, Turn, last_answer
from txlog.core.util import ambient
from txlog.core.util.lazy import cached_property
from txlog.core.util.logs import logger
from txlog.core.versions._attempt import EncodedAttempt, encode_attempt
from txlog.core.versions._outcome import CommitOutcome, next_step_after_conflict, raise_conflict, unknown_outcome
from txlog.core.versions._plan import Plan, Reexecution
from txlog.core.versions.decisions.joined_appends import holds, members, txn_ids
from txlog.core.versions.decisions.proposal import Proposal
from txlog.core.versions.decisions.retention import trusted_s
from txlog.core.versions.decisions.state import TableState
from txlog.core.versions.files import FRESH_MAX_S, DeltaLog, unsynced_versions
from txlog.core.writing.unsent_files import UnsentFiles
from txlog.errors import (
    CommitRetriesExhaustedError,
    CommitStateUnknownError,
    ConflictError,
    CorruptLogError,
    NotFoundError,
    StorageError,
    TxlogError,
)
from txlog.hooks import CommitHooks, LostRace, call, timed
from txlog.result import Outcome, counted

if TYPE_CHECKING:
    from txlog.core.versions._offer import OfferedAppend
    from txlog.core.versions._queue import PlaceInQueue, WaitingLine
    from txlog.core.versions._read_ahead import ReadAhead
    from txlog.core.versions._read_versions import ReadVersions
    from txlog.core.versions.decisions.conflicts import Apart

__all__ = ["CommitRun", "LoneCommitter"]

_OPERATION_CHARACTERS_MAX = 64  # of a winner's operation: its writer chose the text, and our commit repeats it
_FOLLOWED_MAX = 1000  # versions that are read before a wait in line looks at the line again
_WITHDRAWALS_MAX = 20  # versions for which a withdrawal is tried: mostly, the first of others has the append
_JUST_READ_S = 1.0  # about a round trip: a table that was deleted and made again since gets no commit of the old one
_FINAL = (ConflictError, CommitRetriesExhaustedError, CommitStateUnknownError)
"""Errors that say what became of a commit, whoever else may commit it: every writer decides on a conflict alike, and no
retries are exhausted before a version has withdrawn it."""


class _Seen(enum.Enum):
    MINE = "mine"
    FOREIGN = "foreign"
    NOTHING = "nothing readable"


Ended: TypeAlias = "CommitOutcome | Apart"
"""How a run ends without an error. `Apart`: of what was gathered, not all can go on together; of it, the log has only
what the decision names."""


class Company(Protocol):
    """Those with whom a run may share its commit."""

    def gather(self, state: TableState) -> Proposal:
        """What to send on top of ``state``, and what else with it: called for each attempt, while no put is open."""

    def gather_here(self, state: TableState) -> Proposal:
        """The same without what other processes handed over, which try by themselves: for an offer to other machines,
        which stays as it is."""

    def is_carried(self, state: TableState) -> bool:
        """During the wait for a turn: offer the commit to whoever has the turn, and return whether it has landed."""

    def withdraw(self) -> tuple[int, bool] | None:
        """Take the offer back. If somebody took it: the version as which it may be sent, and whether it landed."""


class _Next(enum.Enum):
    """What follows a round without an outcome."""

    WAIT = "a race was lost, and what is proposed is valid, or its plan is to be executed"
    EXECUTE = "the plan is behind by more work than its turn is for"


class LoneCommitter:
    """A `Committer` whose commits know nothing of each other. Here is what they remember from one to the next."""

    def __init__(
        self, log: DeltaLog, retry: RetryPolicy, *, engine_info: str, hooks: CommitHooks | None = None
    ) -> None:
        self.log = log
        self.retry = retry
        self.engine_info = engine_info
        self.hooks = hooks
        self.line = self._line(log)
        self.durable_version = -1
        self._read: ReadVersions | None = None
        self._probed_table_id: str | None = None

    def submit(
        self,
        proposal: Proposal,
        state: TableState | None,
        *,
        plan: Plan | None = None,
        unsent: UnsentFiles | None = None,
    ) -> CommitOutcome:
        if state is not None:
            self.require_refusals(state)
        outcome = CommitRun(self, proposal, state, plan, unsent).run()
        assert isinstance(outcome, CommitOutcome)
        return outcome

    @staticmethod
    def _line(log: DeltaLog) -> WaitingLine | None:
        """What this handle knows of the writers of all machines; None on a store where they do not wait."""
        if log.store.waiting is None:
            return None
        from txlog.core.versions._queue import WaitingLine

        return WaitingLine(log.store.waiting, log.versions.round_trip_s)

    @property
    def read(self) -> ReadVersions:
        """The versions that this handle has read, for tables whose appends are committed together."""
        if self._read is None:
            from txlog.core.versions._read_versions import ReadVersions

            self._read = ReadVersions(self.log)
        return self._read

    def make_version_durable(
        self, version: int, newest_foreign: int | None = None, *, keeps_order: bool = False
    ) -> None:
        """``newest_foreign`` and ``keeps_order`` are as in `unsynced_versions`; None: read them from the log."""
        if version <= self.durable_version:
            return
        if newest_foreign is None:
            newest_foreign = self.log.newest_state(refresh=False).newest_foreign
        known = self.durable_version
        unsynced = unsynced_versions(self.log.commits, version, newest_foreign, known, keeps_order=keeps_order)
        for each in reversed(unsynced):
            try:
                self.log.versions.make_durable(each)
            except NotFoundError:
                if each == version:
                    raise
        self.durable_version = version

    def require_refusals(self, state: TableState) -> None:
        """As `Committer.require_refusals`."""
        if self._probed_table_id != state.metadata.id and self._refuses_newest_commit():
            self._probed_table_id = state.metadata.id

    def _refuses_newest_commit(self) -> bool:
        """Raise if a version can be put twice: races would lose data. Disks and owners of versions do refuse.

        The probe puts the newest commit again with equal bytes, so it is harmless. An older commit may be cleaned up,
        and writing it again would make later versions look free. Returns False if nothing could be probed.
        """
        versions = self.log.versions
        if versions.capabilities.refuses_taken_names:
            return True
        from txlog.core.store import probe_newest_commit

        newest = self.log.newest_state(refresh=not self.log.state_is_fresh()).version
        loaded = self.log.commits.recent(_JUST_READ_S)
        try:
            body = (loaded and loaded.get(newest)) or versions.read(newest)
            return probe_newest_commit(versions, Attempt(newest, body))
        except NotFoundError:
            return False  # only its checkpoint is left: there is no commit to probe with


class CommitRun:
    """One commit: the version it tries for, what it has sent, and how long it may still try."""

    def __init__(
        self,
        committer: LoneCommitter,
        proposal: Proposal,
        state: TableState | None,
        plan: Plan | None = None,
        unsent: UnsentFiles | None = None,
        company: Company | None = None,
        sent_as: int | None = None,
        is_offered: bool = False,
    ) -> None:
        """``sent_as``: the version as which another run has sent the proposal, with others, and was not answered.
        ``is_offered``: another run has offered it to other writers."""
        self.committer = committer
        self.company = company
        self.plan = plan
        self.log = committer.log
        self.versions = committer.log.versions
        self.reexecution = Reexecution(committer.log, plan)
        self.proposal = proposal
        self.txn_id = proposal.txn_id
        self.state = state
        self.unsent = unsent
        self.sent_as = sent_as
        self.is_offered = is_offered  # other writers may commit what is proposed, until a version settles it
        self.sent: int | None = None  # the last version for which we sent a put
        self.sent_txn_id = proposal.txn_id  # of that put: it is another one if it carries appends of others
        self.sent_at = ambient.instant()
        self.confirmed_at: ambient.Instant | None = None  # when the version before the target was the newest
        self.uncertain = False  # that put may have landed, or may still land
        self.doubt = ""  # why the outcome is unknown
        self.last_words = ""  # what the store said last, to a put or a read that settled nothing
        self.has_warned = False  # that the store does not settle it
        self.read_version = proposal.base_version  # up to here it is known that the proposal has not landed
        self.attempts, self.lost_races, self.waited_s = 0, 0, 0.0
        self.lost_to: dict[str, int] = {}
        self.winner: Commit | None = None  # the foreign commit that was read back last
        self.pacing = committer.retry.pacing(self.versions.round_trip_s)
        self.began_s = ambient.monotonic_s()
        self.turn = Turn()
        self.place: PlaceInQueue | None = committer.line.place(proposal.txn_id, self._waits) if committer.line else None
        self.offer: OfferedAppend | None = None  # what is proposed, for other writers to commit
        self.is_withdrawing = False
        self.withdrawals = 0
        self.landed: dict[str, int] = {}  # in the version of another writer, by txnId
        self.moved_s = self.began_s  # when it last looked at the log, or sent something

    @property
    def may_land_unread(self) -> bool:
        """Whether another run may still send the proposal, as a version that this one has not read."""
        return self.sent_as is not None and self.read_version < self.sent_as

    @cached_property
    def ahead(self) -> ReadAhead:
        from txlog.core.versions._read_ahead import ReadAhead

        return ReadAhead(self.log)

    @property
    def target(self) -> int:
        return self.state.version + 1 if self.state else 0

    # --- the loop -------------------------------------------------------------------------------------------

    def run(self) -> Ended:
        try:
            return self._run()
        except TxlogError as error:
            if self.may_land_unread:
                why = f"another commit sent it, and this one failed ({error.message})"
                raise self._unknown(why, self.sent_as) from error
            if self.is_offered and not isinstance(error, _FINAL):
                raise self._unknown(f"other writers may commit it ({error.message})") from error
            raise
        except KeyboardInterrupt:
            self._report_interrupted()
            raise
        finally:
            if self.place is not None:
                self.place.leave()
            if self.offer is not None:
                self.offer.close()

    def _run(self) -> Ended:
        while True:
            settled: Ended | _Next | None = self._execute_outside_turn()
            if settled is None:
                try:
                    settled = self._take_turn() or self._round()
                finally:
                    self.turn.end()
            if settled is _Next.WAIT:
                self._wait_after_lost_race()
            elif settled is not None and settled is not _Next.EXECUTE:
                return settled

    def _round(self) -> Ended | _Next:
        """Try for one version."""
        settled: Ended | _Next | None = self._catch_up() or self._wait_in_line()
        if settled is not None:
            return settled
        if self.reexecution.is_behind:
            if self.reexecution.has_much_work(self.state):
                return _Next.EXECUTE
            self._execute()
            if self.reexecution.is_behind:
                return _Next.EXECUTE
        self._make_predecessor_durable()
        if self.company is not None and self.state is not None and not self.is_offered:
            self.proposal = self.company.gather(self.state)
        encoded = self._encode_attempt()
        if self.place is not None and not self.is_offered:
            self.place.look_beside()
        if self._take(encoded.attempt) is _Seen.MINE:
            outcome = self._acknowledge(encoded)
            if self.is_withdrawing:
                raise self._exhausted()
            return outcome
        self.lost_races += 1
        if self.is_withdrawing:
            self._require_another_withdrawal()
        if self.winner is not None and self._combines(self.state) and len(members(self.winner)) > 1:
            cast("WaitingLine", self.committer.line).saw_others()
        version, winner = self.target, self._winner_operation()
        self.lost_to[winner] = self.lost_to.get(winner, 0) + 1
        settled = self._follow_winners(self._winners_read())
        self.turn.end()  # the user's hook, which runs next, may take long
        if settled is None and self.committer.hooks is not None:
            lost = LostRace(self.txn_id, version, winner, self.attempts, self.waited_s)
            call(self.committer.hooks.on_retry, self.log.uri, lost)
        return settled or _Next.WAIT

    # --- plans ----------------------------------------------------------------------------------------------

    def _execute_outside_turn(self) -> Ended | None:
        """Execute the plan on the newest version, and again after each new commit, until little work is left."""
        while self.reexecution.is_behind and self.reexecution.has_much_work(self.state):
            self.reexecution.outside += 1
            self._execute()
            self._require_time()
            settled = self._catch_up()
            if settled is not None:
                return settled
        return None

    def _execute(self) -> None:
        """Execute the plan, while no put of ours is open. The plan may stay behind the newest version."""
        assert not self.uncertain
        with timed(self.committer.hooks, self.log.uri, "rerun"):
            self.proposal = self.reexecution.execute(self.proposal, self.state)

    # --- waiting, and what lands meanwhile --------------------------------------------------------------------

    def _take_turn(self) -> CommitOutcome | None:
        """Wait in this machine's commit queue, if it has one. Only writers elsewhere can then win a race.

        Meanwhile a writer that has the turn may commit this commit with its own: then that is the outcome.
        """
        if self.is_offered:  # the line of all machines has the order
            return None
        started_s, company, state = ambient.monotonic_s(), self.company, self.state
        if company is None or state is None or self.may_land_unread:
            self.turn = self.log.store.commit_queue.take(self.began_s, self._read_ahead)
            taken = None
        else:
            is_carried = partial(company.is_carried, state)
            try:
                self.turn = self.log.store.commit_queue.take(self.began_s, self._read_ahead, is_carried)
            finally:  # also where the wait is interrupted or fails: another process may have sent it by then
                taken = company.withdraw()
                if taken is not None:
                    self.sent_as = taken[0]
        self.waited_s += ambient.monotonic_s() - started_s
        if taken is None or not taken[1]:
            return None
        outcome = self._outcome(self.sent_as, "committed", None)
        return replace(outcome, txn_id="", holds_others=True)

    def _catch_up(self) -> Ended | None:
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
        if noted > max(newest, self.state.version):
            return self._follow_noted(noted)
        return self._follow_winners() if newest > self.state.version else None

    def _newest_by_one_look(self) -> int:
        """The newest version that one cheap look shows: the target, if another writer has it already."""
        try:
            self.versions.stat(self.target)
        except NotFoundError:  # where another thread of this handle knows newer versions, it was cleaned up
            return max(self.target - 1, self.log.newest_state(refresh=False).version)
        return self.target

    def _read_ahead(self, newest: int) -> None:
        """Read commits of which another writer of this machine knows, while this one waits for its turn."""
        if self.state is not None:
            self.ahead.read(self.target, newest)

    def _follow_noted(self, newest: int) -> Ended | None:
        """Decide on the commits up to ``newest``, of which another writer of this machine knows."""
        if self.ahead.read(self.target, newest, least=1):
            return self._follow_winners(self.ahead.commits)
        return self._step_over_cleaned_up()  # or the note is of a table that was here before

    def _wait_in_line(self) -> Ended | None:
        """Let writers of other machines commit first that have waited for longer; see `waiting_line`."""
        place = self.place
        if place is None or self.state is None or self.is_withdrawing:
            return None
        if not self.is_offered and not place.is_needed(self.lost_races):
            return None
        began_s = ambient.monotonic_s()
        try:
            if self._leave_offer(self.state):
                return self._gather()
            if not place.is_needed(self.lost_races):  # the folder refused the offer
                return None
            return cast("Ended | None", place.wait(self._follow_next, self._require_time))
        finally:
            self.waited_s += ambient.monotonic_s() - began_s

    def _waits(self, name: str) -> bool:
        """Whether a name in the folder of the line stands for somebody who waits, as far as this handle knows."""
        if self.state is None or not self._combines(self.state):
            return True
        from txlog.core.versions.decisions.gathering import may_be_taken
        from txlog.core.versions.decisions.intents import named_intent

        return named_intent(name) is None or may_be_taken(name, self.committer.read.known(self.state.version))

    def _leave_offer(self, state: TableState) -> bool:
        """Let other writers commit what is proposed, which then stays as it is, if the table's properties allow it."""
        line = self.committer.line
        if line is not None and self.offer is None and self.plan is None and self._combines(state):
            from txlog.core.versions._offer import OfferedAppend

            self.offer = OfferedAppend(line, self.committer.read, self.log.uri)
        if self.offer is None:
            return False
        was_offered, was_open = self.is_offered, self.offer.is_open
        if not was_offered:
            self._require_kept_files(state)
        if self.company is not None and not was_offered:
            self.proposal = self.company.gather_here(state)
        self.is_offered = True  # before anybody can see it
        if not self.offer.leave(self.proposal, state, self.unsent):
            self.is_offered = was_offered
        self.attempts += self.offer.is_open and not was_open
        return self.offer.is_open

    def _gather(self) -> Ended | None:
        """Wait until somebody has committed what is proposed, or until it is this run's turn to commit all that wait.

        None: the next version is to be tried for. Once the policy has ended, that version withdraws the offer.
        """
        assert self.offer is not None
        while True:
            assert self.state is not None
            self.moved_s = ambient.monotonic_s()
            listing = self.offer.begin_look()
            settled = self._follow_next() if self.log.state_is_fresh() else self._catch_up()
            if settled is not None:
                return settled
            if self.pacing.is_over():
                self.is_withdrawing = True
                return None
            if self.offer.is_turn(self.state.version, listing):
                return None
            self.offer.pause()

    def _proposed(self) -> Proposal:
        """What the next version is to hold."""
        if self.state is None or not self.is_offered:
            return self.proposal
        if not self.is_withdrawing:
            return self.proposal if self.offer is None else self.offer.gathered(self.proposal, self.state)
        from txlog.core.versions.decisions.fences import fence

        return fence(self.state, sorted(self._own_txn_ids()), txn_id=ambient.uuid4(), now_ms=ambient.now_ms())

    def _follow_next(self) -> Ended | None:
        """Decide on the versions that landed while this commit waited in line."""
        winners = self.log.commits.following(self.target - 1, files=True, most=_FOLLOWED_MAX)
        return self._follow_winners(winners) if winners else None

    # --- one version ------------------------------------------------------------------------------------------

    def _take(self, attempt: Attempt) -> _Seen:
        """Send the attempt until the log shows whose commit is at its version."""
        while True:
            self.attempts += 1
            outcome = self._put(attempt)
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
            self._warn_of_retries()
            if not self._pause():
                raise self._unknown(f"no readable answer came before the retry policy ended{self._said()}")

    def _wait_for_room(self) -> None:
        """Nothing of the last put landed. What an earlier one became stays as unknown as it was."""
        self._warn_of_retries()
        if not self._pause(bounded_by_count=False):
            raise self._unknown(f"the retry policy ended{self._said()}") if self.uncertain else self._exhausted()

    def _warn_of_retries(self) -> None:
        """Once in a commit: its writer waits for the store, and should know why."""
        if not self.has_warned:
            self.has_warned = True
            last_s = self.committer.retry.total_timeout - self.pacing.elapsed_s()
            where = self.log.uri, self.target, max(0.0, last_s), self._said()
            logger.warning("%s: the store does not take v%d; it is tried again for up to %.0f s%s", *where)

    def _said(self) -> str:
        return f"; the store's last answer: {self.last_words}" if self.last_words else ""

    def _require_kept_files(self, state: TableState | None) -> None:
        """Look for files that were written long ago, as long as nothing that names them can have landed."""
        if self.unsent is not None and state is not None and not self.uncertain:
            self.unsent.require_kept(state.properties.deleted_file_retention_ms)

    def _put(self, attempt: Attempt) -> PutOutcome:
        if not self.is_offered:
            self._require_kept_files(self.state)
        self.sent, self.sent_at = self.target, ambient.instant()
        if self.unsent is not None:
            self.unsent.mark_sent()
        last_answer.words = ""
        try:
            outcome = self.versions.put(attempt)
            self.last_words = last_answer.words or self.last_words
            return outcome
        except TxlogError as error:
            if self.uncertain:
                # An earlier put may have landed, and a definite failure of this one does not change that.
                raise self._unknown(f"a later attempt failed ({error.message})") from error
            error.table, error.version = self.log.uri, self.target if error.version is None else error.version
            self._take_back_files(error)
            raise

    def _take_back_files(self, error: TxlogError) -> None:
        """The store refused the put for certain, and nothing sent before can land: no commit will name the files.

        Another owner of versions may have taken a commit before it fails, and others may commit what was offered.
        """
        is_refused = isinstance(error, StorageError) and error.was_refused and self.log.store.owner is None
        if self.unsent is not None and is_refused and not self.is_offered and self.sent_as is None:
            self.unsent.take_back()

    def _read_back(self, attempt: Attempt) -> _Seen:
        """Whose commit is at ``target``. If it cannot be read, nothing is known, and the caller sends again."""
        try:
            found = self.versions.read(self.target)
        except NotFoundError:
            return _Seen.NOTHING
        except StorageError as error:
            self.last_words = error.message
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

    def _winner_operation(self) -> str:
        return self.winner.operation[:_OPERATION_CHARACTERS_MAX] if self.winner else "unknown"

    def _winners_read(self) -> list[Commit] | None:
        """The winner that was read back, where a look at the versions after it would cost requests: most races are lost
        to one commit. After each second lost race, None: many may have landed."""
        if self.versions.capabilities.has_cheap_calls or self.state is None or self.winner is None:
            return None
        return [self.winner] if self.lost_races % 2 else None

    # --- after a lost race ----------------------------------------------------------------------------------

    def _follow_winners(self, read: Sequence[Commit] | None = None) -> Ended | None:
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
        from txlog.core.versions.decisions.conflicts import AlreadyCommitted, Apart, Conflict, Rebase, Reexecute, decide

        decision = decide(self.proposal, winners)
        self.read_version = self.proposal.base_version + len(winners)
        if isinstance(decision, Rebase | Reexecute):
            for winner in winners:
                self.state = self.log.advance(self.state, winner, asked)
                self._note(winner)
            self.turn.note(self.target - 1)
            newest = decision.metadata if isinstance(decision, Rebase) else None
            self.proposal = self.proposal.rebased(self.target - 1, newest)
            self.reexecution.is_behind |= isinstance(decision, Reexecute)
            return None
        if isinstance(decision, Conflict):
            raise_conflict(decision.reasons, self.log.uri, next_step_after_conflict(self.proposal))
        if self.offer is not None:  # the next commit builds on the version of the writer that carried this one
            for winner in winners:
                self.state = self.log.advance(self.state, winner, asked)
                self._note(winner)
                self.landed.update(dict.fromkeys(txn_ids(winner), winner.version))
            self.turn.note(self.target - 1)
        if isinstance(decision, Apart):
            return decision
        self._make_found_commit_durable(decision.version)
        if isinstance(decision, AlreadyCommitted):
            return self._outcome(decision.version, "already_committed", None)
        found = next(winner for winner in winners if winner.version == decision.version)
        has_others = not {each.txn_id for each in members(found)} <= self._own_txn_ids()
        return replace(self._outcome(decision.version, "committed", None), holds_others=has_others)

    def found(self, txn_id: str) -> CommitOutcome | None:
        """The outcome of an append that another writer has committed, if it was in the offer of this run."""
        version = self.landed.get(txn_id)
        return None if version is None else replace(self._outcome(version, "committed", None), holds_others=True)

    def _own_txn_ids(self) -> set[str]:
        """The ids of all appends that are proposed."""
        return {each.txn_id for each in self.proposal.members or (self.proposal,)}

    def _note(self, commit: Commit) -> None:
        """A version has landed, which those may hold that others wait for."""
        if self.place is not None:
            for txn_id in txn_ids(commit):
                self.place.landed(txn_id)
        if self._combines(self.state):
            self.committer.read.note(commit)

    def _combines(self, state: TableState | None) -> bool:
        """Whether writers of several machines commit their appends to the table together."""
        return state is not None and self.committer.line is not None and state.properties.group_commit

    def _step_over_cleaned_up(self) -> CommitOutcome | None:
        """Go on after winners that were cleaned up unread, if a reload shows that they do no harm."""
        if self.is_offered:
            raise self._unknown("versions that may hold it were cleaned up from the log before they were read")
        after = self.log.reload()
        if self.sent_as is not None and self.may_land_unread:
            raise self._unknown("its version was cleaned up before it was read", self.sent_as)
        from txlog.core.versions.decisions.conflicts import AlreadyCommitted, Conflict, Reexecute, decide_unread

        decision = decide_unread(self.proposal, self.state, after)
        if isinstance(decision, AlreadyCommitted):
            return self._outcome(None, "already_committed", after)
        if isinstance(decision, Conflict):
            raise_conflict(decision.reasons, self.log.uri)
        self.state = after
        self.proposal = self.proposal.rebased(after.version)
        self.reexecution.is_behind = isinstance(decision, Reexecute)
        return None

    def _wait_after_lost_race(self) -> None:
        # A blind append and a plan stay valid after each race, so only time limits their attempts.
        if self.offer is not None and self.offer.is_open:
            self.turn.end()  # the wait in line is pause enough
        elif not self._pause(bounded_by_count=not self.proposal.is_blind_append and self.plan is None, is_steady=True):
            if not self.is_offered:
                raise self._exhausted()
            self.is_withdrawing = True

    def _require_time(self) -> None:
        if self.pacing.is_over():
            raise self._exhausted()

    def _require_another_withdrawal(self) -> None:
        """Raise if versions of others came first too often."""
        self.withdrawals += 1
        if self.withdrawals >= _WITHDRAWALS_MAX:
            raise self._unknown("the retry policy ended, and other writers may still commit it")

    def _exhausted(self) -> TxlogError:
        if self.is_offered and not self.is_withdrawing:
            return self._unknown("the retry policy ended, and other writers may still commit it")
        return CommitRetriesExhaustedError(
            f"lost {counted(self.lost_races, 'race')} in {counted(self.attempts, 'attempt')}, then the retry policy"
            f" ended{self._said()}. Nothing landed; run it again, or give the table handle a longer RetryPolicy",
            table=self.log.uri,
            version=self.target,
            attempts=self.attempts,
        )

    def _pause(self, *, bounded_by_count: bool = True, is_steady: bool = False) -> bool:
        self.turn.end()
        started_s = ambient.monotonic_s()
        can_go_on = self.pacing.pause(bounded_by_count=bounded_by_count, is_steady=is_steady)
        self.waited_s += ambient.monotonic_s() - started_s
        return can_go_on

    # --- durability and acknowledgement ---------------------------------------------------------------------

    def _encode_attempt(self) -> EncodedAttempt:
        proposed = self._proposed()
        encoded = encode_attempt(
            proposed,
            self.state,
            self.versions,
            version=self.target,
            engine_info=self.committer.engine_info,
            attempts=self.lost_races + 1,
            waited_s=self.waited_s,
            lost_to=self.lost_to,
            limits=self.log.limits,
        )
        if proposed is self.proposal:
            self.proposal = encoded.proposal
        self.sent_txn_id = proposed.txn_id
        return encoded

    def _make_predecessor_durable(self) -> None:
        """Before we link N+1, a foreign N must be on disk: otherwise a power cut could leave a gap below our commit.

        If a check costs nothing, N must also exist: if the table was replaced meanwhile, N+1 would leave a gap.
        """
        if self.state is None:
            return
        if not self.log.still_has(self.state):
            self._require_checkpoint_at_newest()
            return
        if not self.versions.capabilities.needs_sync and self.log.state_is_fresh():
            return  # it was seen within the last minute, and what can be seen is durable
        version, newest_foreign = self.state.version, self.state.newest_foreign
        try:
            make = partial(self.committer.make_version_durable, keeps_order=self.turn.keeps_order)
            self._made_durable(partial(make, version, newest_foreign))
        except NotFoundError:
            self._require_checkpoint_at_newest()

    def _make_found_commit_durable(self, version: int | None) -> None:
        """Sync a commit that was found by reading: its writer may not have done so yet. Where nothing has to be synced,
        what can be read is durable."""
        if version is None or not self.versions.capabilities.needs_sync:
            return
        try:
            self._made_durable(partial(self.versions.make_durable, version))
        except (NotFoundError, StorageError) as error:
            raise self._unknown(f"it was found in the log, but could not be synced ({error})", version) from error

    def _made_durable(self, make: Callable[[], None]) -> None:
        """Call what makes a version durable, again by the retry policy while the store does not take the version's
        published file."""
        while True:
            try:
                return make()
            except StorageError as error:
                self.last_words = error.message
                if not error.was_unanswered:
                    raise
                self._warn_of_retries()
                if not self._pause():
                    raise

    def _require_predecessor(self) -> None:
        """Raise if the version below is gone, or if later ones were there first: no reader would see this commit."""
        if self.versions.capabilities.remembers_versions:
            return
        at, state = self.confirmed_at, self.state
        was_free = at is not None and state and ambient.age_s(at) <= trusted_s(state.properties, FRESH_MAX_S)
        if state is not None and (not was_free or self.versions.capabilities.has_cheap_calls):
            try:
                self.versions.stat(state.version)
            except NotFoundError:
                self._require_checkpoint_at_newest()
            except StorageError as error:
                raise self._unknown(f"the version before it could not be read ({error.message})") from error
        if not was_free:
            self._require_not_passed()

    def _require_not_passed(self) -> None:
        """Raise if other writers took this version, moved on and cleaned up, all while this process was suspended. The
        version before ours may be there again: another suspended writer may have put it."""
        try:
            is_stray = self.log.is_stray(self.target)
        except (NotFoundError, StorageError) as error:
            raise self._unknown(f"the versions after it could not be read ({error.message})") from error
        if is_stray:
            raise self._unknown("later versions were in the log before it, so that readers may not see it")

    def _require_checkpoint_at_newest(self) -> None:
        """A copied table may hold a version only as a checkpoint. Check that it exists: in a table that was dropped and
        created again, neither the commit nor the checkpoint is there."""
        assert self.state is not None
        checkpoint = self.state.segment.checkpoint
        try:
            if checkpoint is not None and checkpoint.version == self.state.version:
                for name in checkpoint.names:
                    self.log.store.log.stat(name)
                return
        except NotFoundError:
            pass
        except StorageError as error:
            raise self._unknown(f"the checkpoint at its version could not be read ({error.message})") from error
        raise self._unknown(f"version {self.state.version}, which it builds on, is gone from the log")

    def _acknowledge(self, encoded: EncodedAttempt) -> CommitOutcome:
        version = self.target
        self.turn.note(version)
        self.committer.durable_version = version
        state: TableState | None = None
        try:
            commit = encoded.commit()
            if self.is_withdrawing:  # what it fences off is read from its bytes
                commit = self.log.commits.parsed(encoded.attempt.body, version)
            state = self.log.advance(self.state, commit, self.sent_at)
            self._note(commit)
            if self.offer is not None:
                self.offer.landed_alone()
        except Exception as error:  # the commit is valid; the next reader of the table reports what is wrong
            logger.warning("%s: v%d is committed, but its state was not cached: %s", self.log.uri, version, error)
        has_others = self.offer is not None and self.offer.took_others
        return replace(self._outcome(version, "committed", state), holds_others=has_others)

    def _outcome(self, version: int | None, outcome: Outcome, state: TableState | None) -> CommitOutcome:
        attempts = max(1, self.attempts) if outcome == "committed" else self.attempts  # another writer may have sent it
        races = self.lost_races, self.waited_s, self.lost_to
        return CommitOutcome(version, outcome, attempts, *races, state, self.reexecution.count, self.sent_txn_id)

    # --- refusals -------------------------------------------------------------------------------------------

    def _unknown(self, why: str, version: int | None = None) -> TxlogError:
        at = self.target if version is None else version
        if self.sent is None and self.sent_as is None and not self.is_offered:
            return StorageError(
                f"could not build on version {at}: {why}. Nothing landed", table=self.log.uri, version=at
            )
        self.doubt = why
        return unknown_outcome(self.log.store, self.txn_id, at, why)

    def _report_interrupted(self) -> None:
        """After Ctrl-C: log whether the commit landed, before the interrupt is raised again."""
        if self.is_offered:
            where = self.log.uri, self.txn_id, self.txn_id, self.target
            logger.warning("%s: interrupted; other writers may commit %s: resolve(%r, %d) finds out", *where)
            return
        at = self.sent_as if self.sent is None and self.may_land_unread else self.sent
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
