"""Bugs of writers that commit each other's appends: landed twice, landed after a refusal, or lost.

In: pytest's ``MonkeyPatch``. Out: the bug, until the patch is undone; `GATHERING_MUTANTS` is a part of
``mutants.MUTANTS``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from txlog.core.format.actions import AddFile, RemoveFile
from txlog.core.maintenance import _needed_files as needed_files
from txlog.core.versions import _offered_append as offer
from txlog.core.versions import _read_versions as read_versions
from txlog.core.versions import _resolve_unknown as resolve
from txlog.core.versions._commit_loop import CommitRun
from txlog.core.versions._offered_append import OfferedAppend
from txlog.core.versions._peers import WriterPeers
from txlog.core.versions._read_versions import ReadVersions
from txlog.core.versions.decisions import conflicts, gathering
from txlog.core.versions.decisions import joined_appends as joining
from txlog.core.versions.decisions.gathering import KnownLog
from txlog.core.versions.decisions.intents import members_of, named_intent
from txlog.core.versions.decisions.joined_appends import Joining

__all__ = ["GATHERING_MUTANTS"]

Mutant = Callable[[pytest.MonkeyPatch], None]


def does_not_compare_intents_with_what_it_read(patch: pytest.MonkeyPatch) -> None:
    """What is in the folder counts as not committed yet."""
    known = ReadVersions.known
    patch.setattr(ReadVersions, "known", lambda self, newest, bases=(): _without_settled(known(self, newest, bases)))
    patch.setattr(gathering, "_goes_on", lambda member, since: True)


def takes_intents_older_than_what_it_read(patch: pytest.MonkeyPatch) -> None:
    """An append is taken by a handle that has not read the version that holds it."""
    patch.setattr(gathering, "may_be_taken", _may_be_taken_at_any_age)
    patch.setattr(offer, "joined_with", _joined_at_any_age)
    patch.setattr(ReadVersions, "_keeps_all", lambda self: False)


def takes_an_append_back_by_deleting_it(patch: pytest.MonkeyPatch) -> None:
    """Who has read it before may still commit it."""

    def await_version(self: Any, run: Any) -> Any:
        if run.patience.is_over():
            self._is_withdrawing = self._is_withdrawn = True
            raise run.exhausted()
        return real(self, run)

    real = WriterPeers._await_version
    patch.setattr(WriterPeers, "_await_version", await_version)


def ignores_fences(patch: pytest.MonkeyPatch) -> None:
    """A version that names an append stops only puts of that version."""
    for module in (conflicts, read_versions):
        patch.setattr(module, "fenced_off", lambda commit: frozenset())


def fences_without_a_name(patch: pytest.MonkeyPatch) -> None:
    """``resolve`` puts a version that no gatherer can know for what it is."""
    real = resolve.fence
    patch.setattr(resolve, "fence", lambda state, txn_ids, **how: real(state, ("another",), **how))


def gives_up_while_others_may_commit_it(patch: pytest.MonkeyPatch) -> None:
    """A failure after an append was offered is reported as if it could not land any more."""
    real = CommitRun.run

    def run(self: Any) -> Any:
        try:
            return real(self)
        except Exception as error:
            raise error.__cause__ or error from None

    patch.setattr(CommitRun, "run", run)


def deletes_the_files_of_what_it_offers(patch: pytest.MonkeyPatch) -> None:
    """They count as unsent, since their own writer has not put a version yet."""
    real = OfferedAppend.leave
    patch.setattr(OfferedAppend, "leave", lambda self, proposal, state, unsent: real(self, proposal, state, None))
    patch.setattr(CommitRun, "_begin_put", _begin_put_without_a_mark)


def does_not_find_itself_in_the_version_of_another(patch: pytest.MonkeyPatch) -> None:
    """A version is somebody's own only if it has no other's name."""
    patch.setattr(conflicts, "holds", lambda commit, txn_id: commit.txn_id == txn_id)


def gathers_over_a_changed_definition(patch: pytest.MonkeyPatch) -> None:
    """Whoever gathers does not decide on what landed since."""
    patch.setattr(gathering, "_goes_on", lambda member, since: True)


def joins_two_checkpoints_of_one_application(patch: pytest.MonkeyPatch) -> None:
    """A version has two of them, or one that another writer has committed already."""

    def take(self: Any, *proposals: Any) -> bool:
        self.members += proposals
        return True

    patch.setattr(Joining, "take", take)


def vacuums_what_is_offered(patch: pytest.MonkeyPatch) -> None:
    """A vacuum deletes files that a writer has offered for longer than they are kept, and a commit names them, of
    which nobody asks whether a vacuum came first."""
    patch.setattr(needed_files, "offered_paths", lambda store, state: set())
    patch.setattr(conflicts, "endangered", lambda proposal, vacuum: None)


def removes_what_it_knew_when_it_offered(patch: pytest.MonkeyPatch) -> None:
    """An overwrite of another writer is executed on the version that its intent was made on."""
    real = gathering.joined_with

    def joined(own: Any, intents: Any, winners: Any, *, live: Any, **how: Any) -> Joining:
        intents = list(intents)
        since = {path for winner in winners for path in _ADDED.get(winner.version, ())}
        return real(
            own, intents, winners, live=lambda keys: [file for file in live(keys) if file.path not in since], **how
        )

    note = ReadVersions.note

    def noted(self: Any, commit: Any) -> None:
        _ADDED[commit.version] = {action.path for action in commit.actions if type(action) is AddFile}
        note(self, commit)

    patch.setattr(ReadVersions, "note", noted)
    patch.setattr(offer, "joined_with", joined)


_ADDED: dict[int, set[str]] = {}


def takes_overwrites_older_than_what_it_read(patch: pytest.MonkeyPatch) -> None:
    """An overwrite is taken by a handle that has not read the version that holds it, and that does not see that the
    table has its file."""

    def joined(own: Any, intents: Any, winners: Any, **how: Any) -> Joining:
        joined = Joining(own)
        members = [each for intent in intents for each in intent.members]
        for each in gathering.executed(members, how["live"], how["now_ms"]):
            joined.take(each)
        return joined

    patch.setattr(joining, "_paths", lambda proposals: [])
    patch.setattr(gathering, "may_be_taken", _may_be_taken_at_any_age)
    patch.setattr(offer, "joined_with", joined)
    patch.setattr(ReadVersions, "_keeps_all", lambda self: False)


def takes_an_overwrite_for_an_append(patch: pytest.MonkeyPatch) -> None:
    """It adds the files of an overwrite, and removes none."""
    patch.setattr(gathering, "executed", lambda proposals, live, now_ms: proposals)


def replaces_one_partition_twice_in_a_version(patch: pytest.MonkeyPatch) -> None:
    """Nobody looks whether an earlier member replaces the partition too; what it removes is removed once."""
    patch.setattr(joining, "_replaced_by", lambda *proposals: set())
    real = gathering.executed

    def executed(proposals: Any, live: Any, now_ms: int) -> Any:
        gone: set[str] = set()
        found = []
        for each in real(proposals, live, now_ms):
            kept = [action for action in each.actions if type(action) is not RemoveFile or action.path not in gone]
            gone |= {action.path for action in each.removes}
            found.append(replace(each, actions=tuple(kept)))
        return found

    patch.setattr(gathering, "executed", executed)


def removes_a_file_twice_in_a_version(patch: pytest.MonkeyPatch) -> None:
    """The files and the partitions of two members are not compared."""
    patch.setattr(joining, "_replaced_by", lambda *proposals: set())
    patch.setattr(joining, "_paths", lambda proposals: [])


def carries_overwrites_with_appends(patch: pytest.MonkeyPatch) -> None:
    """A version of appends, of which others believe that it read nothing, replaces partitions."""
    patch.setattr(joining, "_kind", lambda proposal: 0)
    patch.setattr(gathering, "is_same_kind", lambda name, other: True)
    real = gathering.joined_with

    def joined(own: Any, intents: Any, winners: Any, **how: Any) -> Joining:
        found = real(own, intents, winners, **how)
        if not own.replaces_partitions:
            others = [each for intent in intents for each in intent.members if each.replaces_partitions]
            for each in gathering.executed(others, how["live"], how["now_ms"]):
                found.take(each)
        return found

    patch.setattr(offer, "joined_with", joined)


def _without_settled(known: KnownLog) -> KnownLog:
    return KnownLog(known.after, known.newest, ())


def _may_be_taken_at_any_age(name: str, known: KnownLog) -> bool:
    intent = named_intent(name)
    return intent is not None and intent[0] <= known.newest and intent[1] not in known.settled


def _joined_at_any_age(own: Any, intents: Any, winners: Any, **how: Any) -> Joining:
    joining = Joining(*members_of(own))
    for intent in intents:
        joining.take(*intent.members)
    return joining


def _begin_put_without_a_mark(self: Any) -> None:
    self.sent = self.target


GATHERING_MUTANTS: dict[str, tuple[Mutant, str]] = {
    mutant.__name__: (mutant, scenario)
    for mutant, scenario in (
        (does_not_compare_intents_with_what_it_read, "late-to-the-line"),
        (takes_intents_older_than_what_it_read, "late-to-the-line"),
        (takes_an_append_back_by_deleting_it, "one-in-line-and-one-that-leaves"),
        (ignores_fences, "one-in-line-and-one-that-leaves"),
        (fences_without_a_name, "another-asks-for-those-in-line"),
        (gives_up_while_others_may_commit_it, "one-fails-in-line"),
        (deletes_the_files_of_what_it_offers, "one-in-line-asks"),
        (does_not_find_itself_in_the_version_of_another, "two-in-line"),
        (gathers_over_a_changed_definition, "two-in-line-and-a-new-definition"),
        (joins_two_checkpoints_of_one_application, "one-application-twice-in-line"),
        (vacuums_what_is_offered, "a-vacuum-after-a-day-in-line"),
        (removes_what_it_knew_when_it_offered, "an-overwrite-in-line-beside-an-older-release"),
        (takes_overwrites_older_than_what_it_read, "late-to-overwrites-in-line"),
        (takes_an_overwrite_for_an_append, "two-overwrites-in-line"),
        (replaces_one_partition_twice_in_a_version, "overwrites-of-one-partition-in-line"),
        (removes_a_file_twice_in_a_version, "overwrites-of-one-partition-in-line"),
        (carries_overwrites_with_appends, "overwrites-and-appends-in-line"),
    )
}
"""Each bug, and the scenario whose exploration must find it."""
