"""`WriterPeers`: the other writers of a table, with whom a commit shares turns and versions.

In: a commit run, and the group of appends that it commits, if there is one. Out: the answers that the loop asks its
`Peers` for. Nothing here decides what landed: put-if-absent and the log do.

There are three kinds of peers. Appends of this *process* wait for one of them, which commits all: a `AppendGroup`
(``_committer``) says what goes along. Processes of one *machine* queue for a turn (``core.store._commit_queue``),
and those that wait hand their appends over to the one that has it, which the group does too. Writers of all *machines*
wait in line (``_queue``), and leave their appends there for the one that is first (``_offer``), if the table's
properties allow it. From then on others may commit what is proposed, so it stays as it is; and once the retry policy
has ended, only a version that fences it off says that it will not land.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol, cast

from msgspec.structs import replace

from txlog.core import ambient
from txlog.core.format.commit_file import Commit
from txlog.core.versions._attempt import CommitOutcome
from txlog.core.versions._commit_context import CommitContext
from txlog.core.versions._commit_loop import CommitRun, Peers, RunResult
from txlog.core.versions.decisions.joined_appends import members, txn_ids
from txlog.core.versions.decisions.proposal import Proposal
from txlog.core.versions.decisions.state import TableState
from txlog.errors import CommitRetriesExhaustedError, CommitStateUnknownError, ConflictError, TxlogError

if TYPE_CHECKING:
    from txlog.core.versions._offered_append import OfferedAppend
    from txlog.core.versions._waiting_line import PlaceInQueue

_FOLLOWED_MAX = 1000  # versions that are read before a wait in line looks at the line again
_WITHDRAWALS_MAX = 20  # versions for which a withdrawal is tried: mostly, the first of others has the append


class AppendGroup(Protocol):
    """The appends that one run commits together."""

    def gather(self, state: TableState) -> Proposal:
        """What to send on top of ``state``, and what else with it: called for each attempt, while no put is open."""

    def gather_here(self, state: TableState) -> Proposal:
        """The same without what other processes handed over, which try by themselves: for an offer to other machines,
        which stays as it is."""

    def is_carried(self, state: TableState) -> bool:
        """During the wait for a turn: offer the commit to whoever has the turn, and return whether it has landed."""

    def withdraw(self) -> tuple[int, bool] | None:
        """Take the offer back. If somebody took it: the version as which it may be sent, and whether it landed."""


class WriterPeers(Peers):
    """The peers of one commit run."""

    def __init__(
        self,
        context: CommitContext,
        txn_id: str,
        group: AppendGroup | None = None,
        sent_as: int | None = None,
        is_offered: bool = False,
    ) -> None:
        """``sent_as``: the version as which another run has sent the proposal, with others, and was not answered.
        ``is_offered``: another run has offered it to other writers."""
        self.sent_as = sent_as
        self.is_offered = is_offered
        self.moved_s = 0.0
        """When the run last looked at the log while it waited in line."""
        self._context = context
        self._line = context.line
        self._group = group
        self._state: TableState | None = None  # the newest that the run knows
        self._place: PlaceInQueue | None = None if self._line is None else self._line.place(txn_id, self._waits)
        self._offer: OfferedAppend | None = None  # what is proposed, for other writers to commit
        self._is_withdrawing = False
        self._is_withdrawn = False
        self._withdrawals = 0
        self._landed: dict[str, int] = {}  # the versions of appends that landed after the offer, by txnId

    def is_in_line(self) -> bool:
        return self._offer is not None and self._offer.is_open

    def may_land_unread(self, read_version: int) -> bool:
        """Whether another run may have sent the proposal, or may still, as a version after ``read_version``."""
        return self.sent_as is not None and read_version < self.sent_as

    def landed_as(self, txn_id: str) -> int | None:
        """The version of another writer in which an append of the offer is; None if none was seen."""
        return self._landed.get(txn_id)

    # --- before a put -------------------------------------------------------------------------------------------

    def take_turn(self, run: CommitRun) -> CommitOutcome | None:
        """Wait in this machine's commit queue, if it has one. Only writers elsewhere can then win a race.

        Meanwhile a writer that has the turn may commit this commit with its own: then that is the outcome.
        """
        if self.is_offered:  # the line of all machines has the order
            return None
        group, queue, taken = self._group, run.log.store.commit_queue, None
        with run.patience.waiting():
            if group is None or run.state is None or self.may_land_unread(run.read_version):
                run.turn = queue.take(run.began_s, run.read_ahead)
            else:
                try:
                    run.turn = queue.take(run.began_s, run.read_ahead, partial(group.is_carried, run.state))
                finally:  # also where the wait is interrupted or fails: another process may have sent it by then
                    taken = group.withdraw()
                    if taken is not None:
                        self.sent_as = taken[0]
        if taken is None or not taken[1]:
            return None
        return replace(run.outcome(taken[0]), txn_id="", holds_others=True)

    def wait_in_line(self, run: CommitRun) -> RunResult | None:
        """Let writers of other machines commit first that have waited for longer."""
        place, self._state = self._place, run.state
        if place is None or run.state is None or self._is_withdrawing:
            return None
        if not self.is_offered and not place.is_needed(run.lost_races):
            return None
        with run.patience.waiting():
            if self._leave_offer(run, run.state):
                run.turn.end()  # the line of all machines has the order now: others of this machine may join it too
                return self._await_version(run)
            if not place.is_needed(run.lost_races):  # the folder refused the offer
                return None
            return cast("RunResult | None", place.wait(partial(_follow_next, run), run.require_time))

    def gather(self, run: CommitRun) -> Proposal:
        self._state = run.state
        if run.state is None:
            return run.proposal
        if not self.is_offered:
            if self._group is not None:
                run.proposal = self._group.gather(run.state)
            if self._place is not None:
                self._place.look_beside()
            return run.proposal
        if not self._is_withdrawing:
            return run.proposal if self._offer is None else self._offer.gathered(run.proposal, run.state)
        from txlog.core.versions.decisions.fences import fence

        return fence(run.state, sorted(run.own_txn_ids()), txn_id=ambient.uuid4(), now_ms=ambient.now_ms())

    # --- after it -----------------------------------------------------------------------------------------------

    def saw(self, commit: Commit, state: TableState) -> None:
        """A version has landed, which those may hold that others wait for."""
        self._state = state
        if self._place is not None:
            for txn_id in txn_ids(commit):
                self._place.landed(txn_id)
        if self._combines(state):
            self._context.read.note(commit)
        if self._offer is not None:
            self._landed.update(dict.fromkeys(txn_ids(commit), commit.version))

    def lost_race(self, run: CommitRun) -> None:
        if self._is_withdrawing:
            self._withdrawals += 1
            if self._withdrawals >= _WITHDRAWALS_MAX:
                raise run.exhausted()
        is_joined = run.winner is not None and len(members(run.winner)) > 1
        if self._line is not None and is_joined and self._combines(run.state):
            self._line.saw_others()

    def acknowledged(self, run: CommitRun, outcome: CommitOutcome) -> CommitOutcome:
        if self._is_withdrawing:  # what landed is the fence
            self._is_withdrawn = True
            raise run.exhausted()
        if self._offer is None:
            return outcome
        self._offer.landed_alone()
        return replace(outcome, holds_others=self._offer.took_others)

    def take_back(self) -> bool:
        self._is_withdrawing = self.is_offered
        return self.is_offered

    def doubt(self, error: TxlogError, read_version: int) -> tuple[str, int | None] | None:
        """Every writer decides on a conflict alike, so it is final; so is an end of the policy if a fence says so."""
        if self.may_land_unread(read_version):
            return f"another commit sent it, and this one failed ({error.message})", self.sent_as
        if not self.is_offered or self._is_withdrawn or isinstance(error, ConflictError | CommitStateUnknownError):
            return None
        if isinstance(error, CommitRetriesExhaustedError):
            return "the retry policy ended, and other writers may still commit it", None
        return f"other writers may commit it ({error.message})", None

    def leave(self) -> None:
        if self._place is not None:
            self._place.leave()
        if self._offer is not None:
            self._offer.close()

    # --- the line of all machines ---------------------------------------------------------------------------------

    def _combines(self, state: TableState | None) -> bool:
        """Whether writers of several machines commit their appends to the table together."""
        return self._line is not None and state is not None and state.properties.group_commit

    def _waits(self, name: str) -> bool:
        """Whether a name in the folder of the line stands for somebody who waits, as far as this handle knows."""
        if self._state is None or not self._combines(self._state):
            return True
        from txlog.core.versions.decisions.gathering import may_be_taken
        from txlog.core.versions.decisions.intents import named_intent

        return named_intent(name) is None or may_be_taken(name, self._context.read.known(self._state.version))

    def _leave_offer(self, run: CommitRun, state: TableState) -> bool:
        """Let other writers commit what is proposed, which then stays as it is, if the table's properties allow it."""
        is_kept = run.plan is None or run.proposal.replaces_partitions  # other plans make another proposal each time
        if self._line is not None and self._offer is None and is_kept and self._combines(state):
            from txlog.core.versions._offered_append import OfferedAppend

            self._offer = OfferedAppend(self._line, self._context.read, run.log)
        if self._offer is None:
            return False
        was_offered, was_open = self.is_offered, self._offer.is_open
        if not was_offered:
            run.require_kept_files()
            if self._group is not None:
                run.proposal = self._group.gather_here(state)
        self.is_offered = True  # before anybody can see it
        if not self._offer.leave(run.proposal, state, run.unsent):
            self.is_offered = was_offered
        run.attempts += self._offer.is_open and not was_open
        return self._offer.is_open

    def _await_version(self, run: CommitRun) -> RunResult | None:
        """Wait until somebody has committed what is proposed, or until it is this run's turn to commit all that wait.

        None: the next version is to be tried for. Once the policy has ended, that version withdraws the offer.
        """
        assert self._offer is not None
        while True:
            assert run.state is not None
            self.moved_s = ambient.monotonic_s()
            listing = self._offer.begin_look()
            settled = _follow_next(run) if run.log.state_is_fresh() else run.catch_up()
            if settled is not None:
                return settled
            if run.patience.is_over():
                self._is_withdrawing = True
                return None
            if self._offer.is_turn(run.proposal, run.state, listing):
                return None
            self._offer.pause()


def _follow_next(run: CommitRun) -> RunResult | None:
    """Decide on the versions that landed while a commit waited in line."""
    winners = run.log.commits.following(run.target - 1, files=True, most=_FOLLOWED_MAX)
    return run.follow(winners) if winners else None
