"""`OfferedAppend`: one append in the line of writers, as an intent that whoever is first in line commits; or one
overwrite of partitions.

In: a proposal that has lost its races, and the folder `core.store._base.WAITING`. Out: whether it is this writer's
turn, and the proposal that then carries its own change and all others of its kind that wait.
`core.versions.decisions.gathering` decides; here are the requests.

How it works. After two lost races, or at once if its handle has just seen others wait, a writer puts its append into
the folder and reads version after version. Mostly it finds its append in one that another writer made. If it is first
in line, it commits all appends that it sees as one version. If those ahead of it do not land in the time that they
would need, it does the same, since they may have crashed. Several writers may do that at once: put-if-absent decides
who wins, and the others find their appends in the winner's version, or go on.

An overwrite of partitions waits like an append. Whoever commits it executes it, on the version that it follows. If
another version has replaced its partitions, its writer leaves it again on that version, which shows that it still runs.

Once the intent is there, only a version can tell what became of the append: that it landed, or that it never will.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TypeAlias

from msgspec.structs import replace

from txlog.core import ambient
from txlog.core.format.actions import AddFile
from txlog.core.format.commit_file import Commit
from txlog.core.parallel import begin, parallel_map
from txlog.core.store import WAITING, ObjectMeta
from txlog.core.util import logger
from txlog.core.versions._read_versions import ReadVersions
from txlog.core.versions._waiting_line import STALL_S, WaitingLine, txn_id_of
from txlog.core.versions.decisions.gathering import Standing, joined_with, standing
from txlog.core.versions.decisions.intents import (
    INTENT_BYTES_MAX,
    Intent,
    can_be_offered,
    is_same_kind,
    members_of,
    named_intent,
)
from txlog.core.versions.decisions.proposal import Proposal
from txlog.core.versions.decisions.replaced_partitions import Partition, is_overtaken
from txlog.core.versions.decisions.state import TableState
from txlog.core.versions.files import DeltaLog
from txlog.core.writing import UnsentFiles
from txlog.errors import NotFoundError, StorageError, TxlogError

Listing: TypeAlias = Callable[[], Sequence[ObjectMeta]]
"""Waits for a list of the folder that was begun before."""

_LOOKS_PER_LIST = 6  # looks for the next version until the folder is listed again, while others are ahead
_LOOKS_PER_TURN = 3  # while others are ahead, in the time that the last version took
_LOOK_MIN_S = 0.01
_TAKE_OVER_MIN_S = 0.05
_ROUND_TRIPS_OF_A_TURN = 8  # an append at the front that has not landed after so many has crashed, or is too slow
_REQUESTS_AT_ONCE = 32


class OfferedAppend:
    """An append that others may commit. Used by one commit run."""

    def __init__(self, line: WaitingLine, read: ReadVersions, log: DeltaLog) -> None:
        self.is_open = False
        """Whether the intent may be in the folder, so that others may commit it."""
        self.took_others = False
        """Whether the last proposal of `gathered` has appends of others."""
        self._line = line
        self._read = read
        self._log = log
        self._name = ""
        self._names: list[str] = []  # all that it left
        self._base = -1  # the version up to which no other one has replaced the partitions of an overwrite
        self._left_s = self._moved_s = 0.0
        self._version = -1  # the newest that it has seen, since when, and how long that took
        self._version_s = self._turn_s = 0.0
        self._looks = 0  # since the folder was listed
        self._standing = Standing()
        self._ahead: tuple[str, ...] = ()
        self._intents: dict[str, Intent] = {}
        self._reading: Callable[[], object] | None = None

    def leave(self, proposal: Proposal, state: TableState, unsent: UnsentFiles | None) -> bool:
        """Put the intent into the folder. False if it cannot be offered: the commit goes on without. Further calls do
        nothing."""
        if self.is_open:
            return True
        if not can_be_offered(proposal):
            return False
        intent = Intent(state.metadata.id, state.version, members_of(proposal))
        body = intent.to_bytes()
        if len(body) > INTENT_BYTES_MAX:
            return False
        if unsent is not None:
            unsent.mark_sent()
        try:
            self._name, self._base, self.is_open = intent.name, state.version, True
            self._names.append(intent.name)
            self._line.marks.put_if_absent(self._name, body)
        except StorageError:  # certainly not there
            self.is_open = False
            self._line.is_out_of_order()
            return False
        self._left_s = self._moved_s = ambient.monotonic_s()
        return True

    def begin_look(self) -> Listing | None:
        """List the folder alongside what the caller does next, if nobody is ahead, if its turn is next, or if it was
        not listed for some time."""
        self._looks += 1
        is_due = not self._ahead or self._is_next or self._looks > _LOOKS_PER_LIST
        return self._begin_listing() if is_due else None

    def is_turn(self, proposal: Proposal, state: TableState, listing: Listing | None) -> bool:
        """Whether to commit all that wait, now that this handle has read up to ``state``: it is first in line, those
        ahead are late, or the folder does not tell.

        If versions that it has just read have replaced the partitions of an overwrite, it is left again, meanwhile:
        nobody else commits it otherwise (`replaced_partitions.is_overtaken`).
        """
        renewed = self._renewed(proposal, state)
        if renewed is None:
            return self._is_turn(state, listing)
        name = renewed.name
        renewing = begin(partial(self._line.marks.put_if_absent, name, renewed.to_bytes()))
        self._names.append(name)
        is_turn = self._is_turn(state, listing)
        if self._line.without_errors(renewing):  # the earlier one keeps the place in line
            self._name = name
        return is_turn

    def _is_turn(self, state: TableState, listing: Listing | None) -> bool:
        version = state.version
        self._note(version)
        if listing is None and self._ahead:
            return self._is_late()
        listing = listing or self._begin_listing()
        try:
            found = self._stand(version, listing())
        except TxlogError:
            self._line.is_out_of_order()
            found = None
        if found is None:  # nobody knows of this append, or how old the others are
            self._standing = Standing()
            return True
        ahead = tuple(filter(self._line.still_waits_for, found.ahead))
        if not {*self._ahead} <= {*ahead}:
            self._moved_s = ambient.monotonic_s()
        self._standing, self._ahead = found, ahead
        self._line.saw((*found.ahead, *found.others, *found.of_other_kind))
        if not ahead or self._is_late():
            return True
        self._end_reading()
        if self._is_next and not {*found.others} <= self._intents.keys():
            self._reading = begin(partial(self._others, state))  # what it reads now does not delay its own version
        return False

    def _renewed(self, proposal: Proposal, state: TableState) -> Intent | None:
        """The intent of an overwrite as it is left again; None if no version since the last time calls for it."""
        if not proposal.replaces_partitions or state.version <= self._base:
            return None
        last = Intent(state.metadata.id, self._base, members_of(proposal))
        self._base = state.version
        is_overtaken = self._is_overtaken(last, self._read.since(self._read.known(state.version)))
        return replace(last, base_version=state.version) if is_overtaken else None

    @property
    def _is_next(self) -> bool:
        """Whether all those ahead may go with one version, without this one: they are of the other kind."""
        return bool(self._ahead) and all(
            named_intent(name) is not None and not is_same_kind(name, self._name) for name in self._ahead
        )

    def _begin_listing(self) -> Listing:
        self._looks = 1
        return begin(lambda: self._line.marks.list_from(""))

    def _note(self, version: int) -> None:
        """Those whose appends are in a version that landed are no longer ahead."""
        now_s = ambient.monotonic_s()
        if version == self._version:
            return
        self._turn_s = now_s - self._version_s if self._version >= 0 else 0.0
        self._version, self._version_s = version, now_s
        settled = self._read.known(version).settled
        ahead = tuple(name for name in self._ahead if txn_id_of(name) not in settled)
        if len(ahead) < len(self._ahead):
            self._moved_s = now_s
        self._ahead = ahead
        self._line.saw(ahead)

    def gathered(self, own: Proposal, state: TableState) -> Proposal:
        """The own proposal, with every append that waits and may be in the next version."""
        self._end_reading()
        intents = self._others(state)
        since = self._read.since(self._read.known(state.version)) if intents else ()
        if own.replaces_partitions:  # whoever left these has crashed, or leaves them again
            self._line.pass_by(each.name for each in intents if self._is_overtaken(each, since))
        joining = joined_with(
            own,
            intents,
            since,
            table_id=state.metadata.id,
            append_only=state.properties.append_only,
            live=partial(self._live, state),
            now_ms=max(ambient.now_ms(), state.in_commit_timestamp_ms or 0),
        )
        self.took_others = len(joining.members) > len(members_of(own))
        return joining.proposal(ambient.uuid4(), state.version) if self.took_others else own

    def pause(self) -> None:
        """Wait before the next look at the log: where many wait, a version takes several round trips."""
        round_trip_s = self._line.round_trip_s()
        has_time = bool(self._ahead) and not self._is_next
        turn_s = min(self._turn_s, _ROUND_TRIPS_OF_A_TURN * round_trip_s) if has_time else 0.0
        pause_s = max(round_trip_s / 2, turn_s / _LOOKS_PER_TURN)
        ambient.sleep(max(_LOOK_MIN_S, ambient.uniform(0.5, 1.5) * pause_s))

    def landed_alone(self) -> None:
        """Nobody else waited: the next commits of this handle need no line."""
        has_company = self.took_others or self._standing.others or self._standing.of_other_kind
        if self.is_open and not has_company:
            self._line.crowded_until_s = -math.inf

    def close(self) -> None:
        """What became of the append is settled, or unknown for good: delete its intent, without a wait for it."""
        if not self.is_open:
            return
        self.is_open = False
        names = (*self._names, *self._standing.left_behind)
        self._line.beside(lambda: self._line.delete(*names))

    # --- the folder ---------------------------------------------------------------------------------------------

    def _stand(self, version: int, listed: Sequence[ObjectMeta]) -> Standing | None:
        bases = [found[0] for each in listed if (found := named_intent(each.name)) is not None]
        known = self._read.known(version, bases)
        waited_ms = int(1000 * (ambient.monotonic_s() - self._left_s))
        return standing(listed, self._name, known, waited_ms=waited_ms)

    def _end_reading(self) -> None:
        reading, self._reading = self._reading, None
        if reading is not None:
            reading()

    def _others(self, state: TableState) -> Sequence[Intent]:
        wanted = self._standing.others
        known = {name: self._intents[name] for name in wanted if name in self._intents}
        unread = [name for name in wanted if name not in known]
        read = parallel_map(partial(self._intent, state), unread, threads=_REQUESTS_AT_ONCE)
        known |= {name: intent for name, intent in zip(unread, read, strict=True) if intent is not None}
        self._intents = known
        return [known[name] for name in wanted if name in known]

    @staticmethod
    def _is_overtaken(intent: Intent, versions: Sequence[Commit]) -> bool:
        since = [each for each in versions if each.version > intent.base_version]
        return any(is_overtaken(member, since) for member in intent.members)

    def _live(self, state: TableState, partitions: Collection[Partition]) -> Sequence[AddFile]:
        from txlog.core.versions.decisions.partitions import files_in_partitions  # not imported for an append

        return files_in_partitions(self._log.files(state), state, partitions)

    def _intent(self, state: TableState, name: str) -> Intent | None:
        """The intent of this name; None if it is gone, or is none."""
        try:
            return Intent.from_bytes(name, self._line.marks.read(name), state)
        except NotFoundError:
            return None
        except TxlogError as error:
            logger.debug("%s: %s/%s is left to its writer: %s", self._log.uri, WAITING, name, error)
            return None

    def _is_late(self) -> bool:
        """Whether those ahead have not landed for longer than they need."""
        round_trips_s = _ROUND_TRIPS_OF_A_TURN * self._line.round_trip_s()
        patience_s = max(_TAKE_OVER_MIN_S, round_trips_s)
        for name in self._ahead:
            patience_s += max(_TAKE_OVER_MIN_S, round_trips_s) if named_intent(name) is not None else STALL_S
        is_late = bool(self._ahead) and ambient.monotonic_s() - self._moved_s > patience_s
        if is_late:  # those of its kind go with its own version, and its next ones need not wait for the others again
            self._line.pass_by(name for name in self._ahead if not is_same_kind(name, self._name))
        return is_late
