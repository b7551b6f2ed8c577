"""`Committer`: the door through which every change of one table becomes a version; appends share versions.

In: a ``Proposal`` and the ``TableState`` it was planned on. Out: to each caller the outcome of its own commit, and its
own error. Appends that are made at the same time on one machine become one version.

How it works. A caller that finds nobody committing leads: it runs the commit loop (``CommitRun``) at once, as if it
were alone. Callers that come meanwhile wait. Before each put, the leader gathers those that wait and that the rules of
`core/versions/decisions/joined_appends` allow: one commit carries all. When it has ended, each of them has its answer,
and the first of those that still wait leads next. So an append waits for at most one commit that does not carry it, and
a handle makes as many appends in a round trip as there are callers. What may not be joined does not wait here at all.

Nobody depends on the leader. (1) An append is gathered for one version. If the decision about a lost race finds that
some may not go on, those try alone, on their own threads, and get their own errors; the others go on. (2) A leader that
is interrupted sends all others away to try alone. (3) If the commit does not move for some time, those that wait leave
it, and one of them leads next. That is safe although the old leader may still send its commit, as that one version:
`CommitRun` reads every version since an append was planned before it puts a later one, so it finds the append in a
commit of others (`joined.holds`). A definite error counts only if that version was read (``sent_as``).

Processes, and the other handles of this one, meet where they wait for a turn (`core.store._commit_queue`). A leader
that has to wait offers what it carries (`core.store._handover_folder`), and the leader that has the turn gathers offers
too. They are carried for one version as well, and errors never cross: the owner of an offer learns that it landed, or
commits itself. What a process offers is its own alone: an offer in an offer would land where its owner does not look.

A caller's files belong to the commit from the moment when they are gathered. After a fork, the child leads by itself.
"""

from __future__ import annotations

import copy
import enum
import os
import threading
from collections import deque
from collections.abc import Collection, Iterable
from contextvars import ContextVar
from typing import TYPE_CHECKING

from msgspec.structs import replace

from txlog.core import ambient
from txlog.core.parallel import new_lock
from txlog.core.util import logger
from txlog.core.versions._attempt import CommitOutcome
from txlog.core.versions._commit_context import CommitContext
from txlog.core.versions._commit_loop import CommitRun, RunResult
from txlog.core.versions._peers import WriterPeers
from txlog.core.versions.decisions.joined_appends import Joining, fits, may_join
from txlog.core.versions.decisions.proposal import Proposal
from txlog.core.versions.decisions.state import TableState
from txlog.core.writing import UnsentFiles
from txlog.errors import (
    CommitRetriesExhaustedError,
    CommitStateUnknownError,
    ConflictError,
    InvalidInputError,
    StorageError,
    TxlogError,
)

if TYPE_CHECKING:
    from txlog.core.store import HandOver, Offer, OfferState
    from txlog.core.versions._plan import Plan

_STALL_S = 10.0
"""How long callers wait for a commit that does not move before they go on without its leader."""

_leads: ContextVar[bool] = ContextVar("txlog_leads", default=False)
"""Whether this thread leads a commit. A hook of it that appends must not wait for itself."""


class _Part(enum.Enum):
    WAITS = "nobody carries it"
    CARRIED = "a commit of another caller carries it"
    LEADS = "its caller commits it, with others"
    ALONE = "its caller commits it without others"
    ENDED = "it has its outcome or its error"


class _Append:
    """The append of one caller."""

    def __init__(self, proposal: Proposal, state: TableState, unsent: UnsentFiles | None) -> None:
        self.proposal = proposal
        self.state = state
        self.unsent = unsent
        self.part = _Part.WAITS
        self.commit: _Joined | None = None
        self.sent_as: int | None = None  # a commit that may still be sent carries it as this version
        self.is_offered = False  # a commit that carried it has offered it to writers of other machines
        self.outcome: CommitOutcome | None = None
        self.error: TxlogError | None = None
        self.began_s = ambient.monotonic_s()
        self.waited_s = 0.0
        self.changed = threading.Event()

    @property
    def txn_id(self) -> str:
        return self.proposal.txn_id

    def go_on(self, part: _Part) -> None:
        """Wake its caller."""
        self.part, self.commit = part, None
        self.changed.set()

    def carried_by(self, commit: _Joined) -> None:
        """From now on a commit may name its files."""
        self.part, self.commit = _Part.CARRIED, commit
        self.waited_s = ambient.monotonic_s() - self.began_s
        if self.unsent is not None:
            self.unsent.mark_sent()


class _Joined:
    """The commit of a leader: those that it carries, the leader first, and offers of other processes. The `Group` of
    the leader's run."""

    def __init__(self, committer: Committer, leader: _Append) -> None:
        leader.part, leader.commit = _Part.LEADS, self
        self._committer = committer
        self.leader = leader
        self.carried = [leader]
        self.version: int | None = None  # as which it was sent, or is about to be
        self.moved_s = ambient.monotonic_s()
        self.peers: WriterPeers | None = None
        self.process_id = os.getpid()
        self.foreign: dict[str, tuple[tuple[Proposal, ...], int]] = {}  # by offer: appends, and as what they are sent
        self.offer: Offer | None = None
        self.has_offered = False
        self.taken_back: OfferState | None = None  # what had become of the offer

    @property
    def is_here(self) -> bool:
        """Whether this process began it: after a fork, the parent carries all but its leader's append."""
        return self.process_id == os.getpid()

    def keep_foreign(self, place: HandOver, version: int) -> None:
        """Go on carrying offers, as another version now, but those whose owners have left."""
        self.foreign = {
            name: (appends, version)
            for name, (appends, before) in self.foreign.items()
            if place.take(name, version, before)
        }

    def end_offer(self) -> OfferState | None:
        """Take back what was offered to other processes. If somebody may send it, that is its version."""
        offer, self.offer = self.offer, None
        if offer is not None:
            self.taken_back = offer.end()
            self.version = self.version if self.taken_back.version is None else self.taken_back.version
        return self.taken_back

    @property
    def others(self) -> list[_Append]:
        return self.carried[1:]

    @property
    def is_offered(self) -> bool:
        """Whether writers of other machines may commit what it carries. From then on it carries no more."""
        return self.peers is not None and self.peers.is_offered

    # --- what goes along --------------------------------------------------------------------------------------

    def gather(self, state: TableState) -> Proposal:
        """With offers of other processes."""
        with self._committer.lock:
            place = self._committer.place if self.is_here and not state.properties.group_commit else None
            if place is not None:
                self.keep_foreign(place, state.version + 1)
            joining = self._gather_here(state)
            if place is not None:
                self._gather_offers(place, joining, state)
            return joining.proposal(ambient.uuid4() if len(joining.members) > 1 else "", state.version)

    def gather_here(self, state: TableState) -> Proposal:
        """Without them: what is offered to other machines."""
        with self._committer.lock:
            self.answer_offers(landed=False, refused=())
            joining = self._gather_here(state)
            return joining.proposal(ambient.uuid4() if len(joining.members) > 1 else "", state.version)

    def _gather_here(self, state: TableState) -> Joining:
        """What is carried, and those of this process that wait and may be joined."""
        with self._committer.lock:
            joining = Joining(self.leader.proposal)
            for each in self.others if self.is_here else ():
                joining.take(each.proposal)
            for appends, _ in self.foreign.values() if self.is_here else ():
                joining.take(*appends)
            waiting = self._committer.waiting if self is self._committer.commit and self.is_here else ()
            for each in list(waiting):
                if each.state.version > state.version:
                    continue
                if not fits(each.proposal, each.state, state):
                    self._committer.waiting.remove(each)
                    each.go_on(_Part.ALONE)
                elif joining.take(each.proposal):
                    self._committer.waiting.remove(each)
                    self.carried.append(each)
                    each.carried_by(self)
            self.version, self.moved_s = state.version + 1, ambient.monotonic_s()
            return joining

    # --- other processes of this machine ----------------------------------------------------------------------

    def _gather_offers(self, place: HandOver, joining: Joining, state: TableState) -> None:
        """Carry offers of other processes in the version after ``state``."""
        version = state.version + 1
        offers = place.waiting()
        if not offers:
            return
        from txlog.core.versions.decisions import handover_messages as handed_over

        for name, body in offers:
            found = handed_over.from_bytes(self._committer.uri, body, state)
            if found is None or not place.take(name, version):
                continue
            if joining.take(*found):
                self.foreign[name] = found, version
            else:
                place.give_back(name, version)

    def is_carried(self, state: TableState) -> bool:
        """Offer the commit to a process that has the turn, and return whether that one has committed it."""
        self.moved_s = ambient.monotonic_s()
        place = self._committer.place if self.is_here and not state.properties.group_commit else None
        if place is not None and not self.has_offered:
            from txlog.core.versions.decisions import handover_messages as handed_over

            with self._committer.lock:
                self.has_offered = True
                self.answer_offers(landed=False, refused=())  # whoever takes this one would not answer them
                proposal = self._gather_here(state).proposal(ambient.uuid4(), state.version)
                body = handed_over.to_bytes(self._committer.uri, proposal, state)
                if body is not None:
                    if self.leader.unsent is not None:
                        self.leader.unsent.mark_sent()
                    self.offer = place.offer(ambient.uuid4(), body)
        with self._committer.lock:
            state_now = self.taken_back if self.offer is None else self.offer.state()
            return state_now is not None and state_now.kind == "done"

    def withdraw(self) -> tuple[int, bool] | None:
        """End the offer: the version as which another process may send it, and whether it landed; None: it may not."""
        with self._committer.lock:
            state = self.end_offer()
            self.has_offered, self.taken_back = False, None
        return None if state is None or state.version is None else (state.version, state.kind == "done")

    def answer_offers(self, *, landed: bool, refused: Collection[str] | None) -> None:
        """Tell the owners of offers what became of them. ``refused`` are the appends that their owners have to commit;
        None: all."""
        foreign, self.foreign = self.foreign, {}
        place = self._committer.place if self.is_here else None
        if place is None:
            return
        for name, (appends, version) in foreign.items():
            if landed:
                place.landed(name, version)
            elif refused is None or any(each.txn_id in refused for each in appends):
                place.send_back(name, version)
            else:
                place.give_back(name, version)


class Committer:
    """Commits proposals to one table. Thread-safe. Appends share versions; every other commit is made alone."""

    def __init__(self, context: CommitContext) -> None:
        self._context = context
        self.uri = context.log.uri
        self.lock = new_lock()  # around every step between the parts of an append; never around a request
        self.waiting: deque[_Append] = deque()
        self.commit: _Joined | None = None
        self._process_id = os.getpid()
        self.place = context.log.store.commit_queue.hand_over

    def submit(
        self,
        proposal: Proposal,
        state: TableState | None,
        *,
        plan: Plan | None = None,
        unsent: UnsentFiles | None = None,
    ) -> CommitOutcome:
        """Commit, or raise: nothing landed (``ConflictError``, ``CommitRetriesExhaustedError``, ``StorageError``),
        or it may have (``CommitStateUnknownError``, which names version and ``txn_id``).

        ``state`` is the table as the proposal was planned on it; None creates the table at version 0.
        ``plan`` made the proposal, and makes another one if commits that change files come first. ``unsent`` is
        notified before each put.
        """
        if state is not None:
            self._context.require_refusals(state)
        if state is None or plan is not None or _leads.get() or not may_join(proposal):
            return self.commit_alone(proposal, state, plan=plan, unsent=unsent)
        mine = _Append(proposal, state, unsent)
        try:
            self._begin(mine)
            while mine.part is not _Part.ENDED:
                if mine.part is _Part.LEADS:
                    self._lead(mine)
                elif mine.part is _Part.ALONE:
                    return self.commit_alone(
                        mine.proposal,
                        mine.state,
                        unsent=mine.unsent,
                        sent_as=mine.sent_as,
                        is_offered=mine.is_offered,
                    )
                else:
                    self._wait(mine)
        except BaseException:
            self._leave(mine)
            raise
        if mine.error is not None:
            raise mine.error
        assert mine.outcome is not None
        return mine.outcome

    # --- a caller ---------------------------------------------------------------------------------------------

    def _begin(self, mine: _Append) -> None:
        with self.lock:
            if self._process_id != os.getpid():  # forked: the other callers are in the parent
                self._process_id, self.commit = os.getpid(), None
                self.waiting.clear()
            if self.commit is None:
                self.commit = _Joined(self, mine)
            else:
                self.waiting.append(mine)

    def _wait(self, mine: _Append) -> None:
        """Wait for another part. Go on without a leader whose commit does not move."""
        ambient.wait(mine.changed, self._patience_s(mine))
        with self.lock:
            mine.changed.clear()
            if mine.part not in (_Part.WAITS, _Part.CARRIED) or self._patience_s(mine) > 0:
                return
            if mine.part is _Part.CARRIED:
                self._take_out(mine)
                mine.go_on(_Part.ALONE)
            else:
                self.waiting.remove(mine)
                self.commit = _Joined(self, mine)

    def _patience_s(self, mine: _Append) -> float:
        """How long to wait for the commit before it counts as one that does not move."""
        commit = mine.commit or self.commit
        if commit is None:
            return 0.0
        moved_s = commit.moved_s if commit.peers is None else max(commit.moved_s, commit.peers.moved_s)
        return moved_s + _STALL_S - ambient.monotonic_s()

    def _take_out(self, mine: _Append) -> None:
        """It leaves the commit that carries it, which may be under way."""
        if mine.commit is not None and mine in mine.commit.carried:
            mine.commit.end_offer()  # from now on, nobody may take it for a later version
            mine.sent_as, mine.is_offered = mine.commit.version, mine.commit.is_offered
            mine.commit.carried.remove(mine)

    def _leave(self, mine: _Append) -> None:
        """Its caller was interrupted, or failed."""
        with self.lock:
            if mine.part is _Part.WAITS and mine in self.waiting:
                self.waiting.remove(mine)
            elif mine.part is _Part.CARRIED:
                self._take_out(mine)
                where = self.uri, mine.txn_id, mine.sent_as
                logger.warning("%s: interrupted; another thread commits %s, which may land as version %s", *where)
            elif mine.part is _Part.LEADS and mine.commit is not None:
                mine.commit.end_offer()
                self._send_away(mine.commit, mine.commit.others, mine.commit.version)
                self._hand_on(mine.commit)
            mine.part = _Part.ENDED

    def commit_alone(
        self,
        proposal: Proposal,
        state: TableState | None,
        *,
        plan: Plan | None = None,
        unsent: UnsentFiles | None = None,
        sent_as: int | None = None,
        is_offered: bool = False,
    ) -> CommitOutcome:
        """As `submit`, without appends of other callers; the last two arguments are those of `WriterPeers`."""
        peers = WriterPeers(self._context, proposal.txn_id, sent_as=sent_as, is_offered=is_offered)
        outcome = CommitRun(self._context, proposal, state, peers, plan, unsent).run()
        assert isinstance(outcome, CommitOutcome)
        return outcome

    # --- the leader -------------------------------------------------------------------------------------------

    def _lead(self, mine: _Append) -> None:
        """Commit what is carried. Afterwards each append has another part."""
        commit = mine.commit
        assert commit is not None
        proposal, state, known = mine.proposal, mine.state, self._context.log.known_state
        if known is not None and fits(proposal, state, known):  # it was never sent, so no commit so far holds it
            proposal, state = proposal.rebased(max(known.version, proposal.base_version)), known
        commit.peers = peers = WriterPeers(self._context, proposal.txn_id, commit)
        run = CommitRun(self._context, proposal, state, peers, unsent=mine.unsent)
        token = _leads.set(True)
        try:
            self._settle(commit, run, peers, run.run())
        except TxlogError as error:
            self._fail(commit, run, peers, error)
        finally:
            _leads.reset(token)

    def _settle(self, commit: _Joined, run: CommitRun, peers: WriterPeers, ended: RunResult) -> None:
        """Give each append its outcome. Of those that cannot go on together, each named one tries alone."""
        with self.lock:
            if isinstance(ended, CommitOutcome):
                ended = replace(ended, holds_others=ended.holds_others or bool(commit.foreign))
                commit.answer_offers(landed=True, refused=())
            else:
                commit.answer_offers(landed=False, refused=ended.txn_ids)
            if isinstance(ended, CommitOutcome):  # the leader is last: until then an interrupt sends all away
                for each in reversed(commit.carried):
                    of_leader = ended.state if each is commit.leader else None
                    waited_s = max(each.waited_s, ended.waited_s)
                    each.outcome = replace(ended, waited_s=waited_s, state=of_leader)
                    each.go_on(_Part.ENDED)
            elif peers.may_land_unread(run.read_version):
                self._send_away(commit, commit.carried, peers.sent_as)
            else:
                for each in reversed(commit.carried):
                    version = peers.landed_as(each.txn_id)
                    if version is not None:
                        each.outcome = replace(run.outcome(version), holds_others=True)
                        each.go_on(_Part.ENDED)
                    elif each.txn_id in ended.txn_ids:
                        each.go_on(_Part.ALONE)
                    else:  # up to the decision's version the log does not hold it, and nothing of it is under way
                        self.waiting.appendleft(each)
                        each.go_on(_Part.WAITS)
            self._hand_on(commit)

    def _fail(self, commit: _Joined, run: CommitRun, peers: WriterPeers, error: TxlogError) -> None:
        """Give each append its error: what became of the commit is the same for all. An error that one of them may have
        caused is no error of the others: each tries alone."""
        may_land = run.sent == commit.version or peers.may_land_unread(run.read_version)
        with self.lock:
            leader = commit.leader
            is_clear = isinstance(error, CommitRetriesExhaustedError | StorageError | InvalidInputError | ConflictError)
            if is_clear or not may_land:  # else their owners find out, as this one has to
                commit.answer_offers(landed=False, refused=None)
            if not commit.others:
                leader.error = error
                leader.go_on(_Part.ENDED)
            elif isinstance(error, CommitStateUnknownError | CommitRetriesExhaustedError | StorageError):
                for each in commit.carried:
                    each.error = error if each is leader else self._error_of(each, run, error)
                    each.go_on(_Part.ENDED)
            else:
                self._send_away(commit, commit.carried, commit.version if may_land else None)
            self._hand_on(commit)

    def _error_of(self, each: _Append, run: CommitRun, error: TxlogError) -> TxlogError:
        if isinstance(error, CommitStateUnknownError):
            from txlog.core.versions._commit_errors import unknown_outcome

            return unknown_outcome(self._context.log.store, each.txn_id, error.version, run.doubt)
        return copy.copy(error)

    def _send_away(self, commit: _Joined, leaving: Iterable[_Append], sent_as: int | None) -> None:
        """Let them try alone. As ``sent_as`` they may have landed, or may still land."""
        for each in leaving:
            each.sent_as, each.is_offered = sent_as, commit.is_offered
            each.go_on(_Part.ALONE)

    def _hand_on(self, commit: _Joined) -> None:
        """The commit has ended: the first of those that wait leads next."""
        commit.carried.clear()
        if self.commit is commit:
            self.commit = None
            if self.waiting:
                first = self.waiting.popleft()
                self.commit = _Joined(self, first)
                first.changed.set()
