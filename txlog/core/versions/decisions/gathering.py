"""Gathering: whose turn it is to commit all changes waiting in a table's folder, and which of them one commit takes.

In: a list of the folder, what a handle knows of the log, and intents that were read. Out: `Standing`, and the intents
that may share a version with the handle's own proposal. Pure; `core.versions._offered_append` makes the requests.

The rules; each prevents an append from landing twice, or after its writer was told that it did not land:

- A handle takes an intent only if it has read every version after the one that the intent's name carries, and none of
  them holds the append, or fences it off. Versions decide, never the folder: an intent that was deleted there may still
  land.
- The same function decides on every member as for its own writer (`conflicts.decide`). A changed definition, or a moved
  application, refuses the append everywhere and forever, so its writer may raise its own error.
- A version holds one checkpoint of an application, and each file once (`joined_appends.Joining`).
- A version holds appends, or overwrites of different partitions, as its own proposal is one of them. The others wait
  for the next one, which whoever has waited longest then makes. An overwrite is executed on the version that it
  follows, by whoever commits it (`replaced_partitions`); after a version that replaced or deleted rows of its
  partitions, by its own writer only: else an overwrite that crashed would undo the one that its job then made.
- An intent older than an hour, by the store's clock, is dead: other engines' vacuums do not know its files. The store's
  time comes from the newest name in a list, or from the own intent and the wait since; so a list without it says
  nothing.
- An intent that cannot be read, or breaks a rule of proposals, stays where it is.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

import msgspec
from msgspec.structs import replace

from txlog.core.format.commit_file import Commit
from txlog.core.versions.decisions.conflicts import Rebase, decide
from txlog.core.versions.decisions.intents import (
    INTENT_BYTES_MAX,
    Intent,
    is_same_kind,
    members_of,
    named_intent,
    transaction_named,
)
from txlog.core.versions.decisions.joined_appends import BYTES_MAX, MEMBERS_MAX, Joining, may_join
from txlog.core.versions.decisions.proposal import Proposal, ReadSet, validate_proposal
from txlog.core.versions.decisions.replaced_partitions import (
    LiveFiles,
    executed,
    is_overtaken,
    may_be_executed_by_others,
)
from txlog.core.versions.decisions.segment import ListedFile
from txlog.errors import InvalidInputError

DEAD_MS = 3_600_000
"""An intent that is older than the newest name of its folder by this much is ignored by everyone but its writer."""
_LEFT_BEHIND_MS = 10_000
"""By then, a live writer has deleted its intent if it landed."""


class KnownLog(msgspec.Struct, frozen=True):
    """What a handle knows of a log: it has read every version after ``after``, up to ``newest``. ``settled`` are the
    transactions that these versions hold, or fence off."""

    after: int
    newest: int
    settled: Container[str]


class Standing(msgspec.Struct, frozen=True):
    """Where a writer stands among the waiting ones.

    ``ahead`` are the names that go first, in order. ``others`` are the intents of its kind, which its commit may take,
    in order, and ``of_other_kind`` intents that come after it, which its commit may not take. ``left_behind`` are the
    names that nobody needs any more.
    """

    ahead: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    left_behind: tuple[str, ...] = ()
    of_other_kind: tuple[str, ...] = ()


def standing(listed: Iterable[ListedFile], own: str, known: KnownLog, *, waited_ms: int) -> Standing | None:
    """Where the writer of the intent ``own`` stands, by a list of the folder; None if the list does not show it.

    ``waited_ms`` is how long its own intent has been there, at least. Names that have waited longer go first, including
    marks. An intent that this handle must not take does not count: as far as it knows, it may have landed. A writer
    that left its intent again keeps its place.
    """
    order = sorted(listed, key=lambda each: (each.modified_ms, each.name))
    mine = next((each for each in order if each.name == own), None)
    if mine is None:
        return None
    now_ms = max(order[-1].modified_ms, mine.modified_ms + waited_ms)
    newest: dict[str, ListedFile] = {}  # the last one of each transaction, at the place of its first
    left_behind = []
    for each in order:
        intent = named_intent(each.name)
        age_ms = now_ms - each.modified_ms
        is_own = intent is not None and intent[1] == transaction_named(own)
        if age_ms > DEAD_MS and not is_own:
            left_behind.append(each.name)
        elif intent is None or is_own or may_be_taken(each.name, known):
            newest[transaction_named(each.name)] = each
        elif intent[1] in known.settled and age_ms > _LEFT_BEHIND_MS:
            left_behind.append(each.name)
    ahead, others, of_other_kind = [], [], []
    place = [*newest].index(transaction_named(own))
    size_bytes = mine.size
    for number, each in enumerate(newest.values()):
        if number == place:
            continue
        if number < place:
            ahead.append(each.name)
        if named_intent(each.name) is None:
            continue
        if not is_same_kind(each.name, own):
            if number > place:
                of_other_kind.append(each.name)
            continue
        size_bytes += each.size
        if each.size <= INTENT_BYTES_MAX and size_bytes <= BYTES_MAX:
            others.append(each.name)
    return Standing(tuple(ahead), tuple(others[: MEMBERS_MAX - 1]), tuple(left_behind), tuple(of_other_kind))


def may_be_taken(name: str, known: KnownLog) -> bool:
    """Whether a handle may take the intent of this name: it knows every version that could hold the append, and none
    does."""
    intent = named_intent(name)
    return intent is not None and known.after <= intent[0] <= known.newest and intent[1] not in known.settled


def joined_with(
    own: Proposal,
    intents: Iterable[Intent],
    winners: Sequence[Commit],
    *,
    table_id: str,
    append_only: bool,
    live: LiveFiles,
    now_ms: int,
) -> Joining:
    """The own proposal with all the intents, in order, that may share a version with it.

    ``winners`` are the commits that the handle has read, ascending without a gap up to the version that ``own`` is
    valid on. They may be parsed with ``files=False``. ``live`` lists files of that version, and ``now_ms`` is the time
    of files that overwrites remove.
    """
    joining = Joining(*members_of(own))
    first = winners[0].version if winners else own.base_version + 1
    valid = []
    for intent in intents:
        if intent.table_id != table_id or not first - 1 <= intent.base_version <= own.base_version:
            continue
        is_like_own = all(each.replaces_partitions == own.replaces_partitions for each in intent.members)
        since = winners[intent.base_version + 1 - first :]
        if is_like_own and all(_goes_on(each, since) for each in intent.members):
            valid.append(intent.members)
    if own.replaces_partitions:
        made = iter(executed([each for members in valid for each in members], live, now_ms))
        valid = [tuple(next(made) for _ in members) for members in valid]
    for members in valid:
        if all(_is_allowed(each, append_only) for each in members):
            joining.take(*members)
    return joining


def _goes_on(member: Proposal, since: Sequence[Commit]) -> bool:
    """Whether a member alone could be committed on top of the commits since its base version."""
    if not member.replaces_partitions:
        return may_join(member) and isinstance(decide(member, since), Rebase)
    # It is executed after the others, so what they did to files does not matter.
    as_append = replace(member, read_set=ReadSet(), is_reexecutable=False)
    return (
        may_be_executed_by_others(member)
        and isinstance(decide(as_append, since), Rebase)
        and not is_overtaken(member, since)
    )


def _is_allowed(member: Proposal, append_only: bool) -> bool:
    try:
        validate_proposal(member, append_only=append_only)
    except InvalidInputError:
        return False
    return True
