"""Bugs of appends that share a version: lost, doubled, or answered for another one.

In: pytest's ``MonkeyPatch``. Out: the bug, until the patch is undone; `JOINING_MUTANTS` is a part of
``mutants.MUTANTS``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from txlog.core.versions import _committer as joining
from txlog.core.versions._attempt import CommitOutcome
from txlog.core.versions._committer import Committer, _Append, _Part
from txlog.core.versions._peers import WriterPeers
from txlog.core.versions.decisions import conflicts, proposal
from txlog.core.versions.decisions import handover_messages as handed_over
from txlog.core.versions.decisions.conflicts import Rebase, SplitAppends, decide
from txlog.core.versions.decisions.joined_appends import Joining

__all__ = ["JOINING_MUTANTS"]

Mutant = Callable[[pytest.MonkeyPatch], None]


def hands_out_the_outcome_of_another_one(patch: pytest.MonkeyPatch) -> None:
    """Who waits is answered by the commit that ended, whether it carried its append or not."""
    real = Committer._settle

    def settle(self: Any, commit: Any, run: Any, peers: Any, ended: Any) -> None:
        if isinstance(ended, CommitOutcome):
            commit.carried.extend(self.waiting)
            self.waiting.clear()
        real(self, commit, run, peers, ended)

    patch.setattr(Committer, "_settle", settle)


def loses_one_of_those_that_it_gathered(patch: pytest.MonkeyPatch) -> None:
    """An append is answered, and its files are not in the commit."""
    real = Joining.proposal

    def proposal(self: Any, txn_id: str, version: int) -> Any:
        if len(self.members) > 2:
            self.members = self.members[:-1]
        return real(self, txn_id, version)

    patch.setattr(Joining, "proposal", proposal)


def takes_an_interrupted_commit_for_one_that_did_not_land(patch: pytest.MonkeyPatch) -> None:
    """Those that it carried try again on the newest version, without a look at the one that was sent."""

    def send_away(self: Any, commit: Any, leaving: Any, sent_as: Any) -> None:
        for each in list(leaving):
            self.waiting.append(each)
            each.go_on(_Part.WAITS)

    patch.setattr(Committer, "_send_away", send_away)


def does_not_find_itself_in_the_commit_of_another(patch: pytest.MonkeyPatch) -> None:
    """Only the commit's own id is compared: who leaves a commit that landed commits a second time."""
    patch.setattr(conflicts, "holds", lambda commit, txn_id: commit.txn_id == txn_id)


def calls_it_a_failure_while_another_commit_may_carry_it(patch: pytest.MonkeyPatch) -> None:
    """Who left a commit reports a definite error, and that commit is still under way."""
    real = WriterPeers.__init__

    def begin(self: Any, *given: Any, **named: Any) -> None:
        named.pop("sent_as", None)
        real(self, *given, **named)

    patch.setattr(WriterPeers, "__init__", begin)


def carries_on_with_who_has_left(patch: pytest.MonkeyPatch) -> None:
    """An append that now tries alone stays in the commit, which sends it again as a later version."""

    def take_out(self: Any, mine: _Append) -> None:
        if mine.commit is not None:
            mine.sent_as = mine.commit.version

    patch.setattr(Committer, "_take_out", take_out)
    patch.setattr(conflicts, "decide", _without_apart)


def goes_on_with_appends_that_met_a_conflict(patch: pytest.MonkeyPatch) -> None:
    """Joined appends are rebased over whatever won the race."""
    patch.setattr(conflicts, "decide", _without_apart)


def joins_two_commits_of_one_checkpoint(patch: pytest.MonkeyPatch) -> None:
    """One version has the rows of a checkpoint twice."""
    real = Joining.take

    def take(self: Any, proposal: Any) -> bool:
        self._app_ids.clear()
        return real(self, proposal)

    patch.setattr(Joining, "take", take)


def answers_all_by_the_replay_of_one(patch: pytest.MonkeyPatch) -> None:
    """The winner has the checkpoint of one of them, so all count as committed already."""

    def whole(proposal: Any, winners: Any) -> Any:
        return decide(replace(proposal, members=()), winners)

    patch.setattr(conflicts, "decide", whole)


def joins_what_was_planned_on_another_definition(patch: pytest.MonkeyPatch) -> None:
    """Appends are gathered without a look at what has changed since they were planned."""
    patch.setattr(joining, "fits", lambda proposal, planned_on, newest: True)


def deletes_the_files_of_an_append_that_is_carried(patch: pytest.MonkeyPatch) -> None:
    """Its caller was interrupted while another one commits it."""

    def carried_by(self: Any, commit: Any) -> None:
        self.part, self.commit = _Part.CARRIED, commit

    patch.setattr(_Append, "carried_by", carried_by)


def forgets_who_was_joined(patch: pytest.MonkeyPatch) -> None:
    """The commit does not list its appends, so that nobody finds one again."""
    patch.setattr(proposal, "_joined", lambda of: [])


# --- between processes ----------------------------------------------------------------------------------------------


def takes_an_offer_that_is_carried_for_one_that_landed(patch: pytest.MonkeyPatch) -> None:
    """Its owner is told that it is committed, and the commit that carries it may never land."""

    def withdraw(self: Any) -> Any:
        state = self.end_offer()
        return None if state is None or state.version is None else (state.version, True)

    patch.setattr(joining._Joined, "withdraw", withdraw)


def forgets_who_may_still_send_what_it_took_back(patch: pytest.MonkeyPatch) -> None:
    """Its owner reports a definite error, and the commit that carries it lands later."""

    def withdraw(self: Any) -> Any:
        state = self.end_offer()
        return (state.version, True) if state is not None and state.kind == "done" else None

    patch.setattr(joining._Joined, "withdraw", withdraw)


def carries_on_with_an_offer_whose_owner_has_left(patch: pytest.MonkeyPatch) -> None:
    """It is sent again as a later version, over a commit of its owner."""

    def keep_foreign(self: Any, place: Any, version: int) -> None:
        self.foreign = {name: (appends, version) for name, (appends, _) in self.foreign.items()}

    patch.setattr(joining._Joined, "keep_foreign", keep_foreign)
    patch.setattr(conflicts, "decide", _without_apart)


def takes_offers_for_another_definition(patch: pytest.MonkeyPatch) -> None:
    """What was planned on another definition is committed on this one."""
    patch.setattr(handed_over, "_definition", lambda state: "any")


def answers_offers_before_the_commit_has_landed(patch: pytest.MonkeyPatch) -> None:
    """Owners go on, and the commit fails."""
    real = joining._Joined._gather_offers

    def gather_offers(self: Any, place: Any, collected: Any, state: Any) -> None:
        real(self, place, collected, state)
        for name, (_, version) in self.foreign.items():
            place.landed(name, version)

    patch.setattr(joining._Joined, "_gather_offers", gather_offers)


def offers_what_was_offered_to_it(patch: pytest.MonkeyPatch) -> None:
    """A commit that lost a race offers the appends of others with its own: their owners hear of the wrong version."""
    real = joining._Joined.is_carried

    def is_carried(self: Any, state: Any) -> bool:
        with pytest.MonkeyPatch.context() as kept:
            kept.setattr(self, "answer_offers", lambda *given, **named: None)
            return real(self, state)

    patch.setattr(joining._Joined, "is_carried", is_carried)


def _without_apart(proposal: Any, winners: Any) -> Any:
    decision = decide(proposal, winners)
    return Rebase(decision.version) if isinstance(decision, SplitAppends) else decision


JOINING_MUTANTS: dict[str, tuple[Mutant, str]] = {
    mutant.__name__: (mutant, scenario)
    for mutant, scenario in (
        (hands_out_the_outcome_of_another_one, "appenders-together-beside-one-alone"),
        (loses_one_of_those_that_it_gathered, "three-append-together"),
        (takes_an_interrupted_commit_for_one_that_did_not_land, "appenders-together-and-a-reader"),
        (does_not_find_itself_in_the_commit_of_another, "three-append-together"),
        (calls_it_a_failure_while_another_commit_may_carry_it, "appenders-together-are-refused"),
        (carries_on_with_who_has_left, "appenders-together-and-a-reader"),
        (goes_on_with_appends_that_met_a_conflict, "appenders-together-and-a-definition-change"),
        (joins_two_commits_of_one_checkpoint, "one-application-together-twice"),
        (answers_all_by_the_replay_of_one, "applications-together"),
        (joins_what_was_planned_on_another_definition, "appenders-together-and-a-definition-change"),
        (deletes_the_files_of_an_append_that_is_carried, "three-append-together"),
        (forgets_who_was_joined, "three-append-together"),
        (takes_an_offer_that_is_carried_for_one_that_landed, "processes-in-turn"),
        (forgets_who_may_still_send_what_it_took_back, "processes-in-turn-are-refused"),
        (carries_on_with_an_offer_whose_owner_has_left, "processes-in-turn"),
        (takes_offers_for_another_definition, "processes-in-turn-and-a-definition-change"),
        (answers_offers_before_the_commit_has_landed, "processes-in-turn"),
        (offers_what_was_offered_to_it, "processes-in-turn-beside-another-machine"),
    )
}
