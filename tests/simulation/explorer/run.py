"""One run of a schedule: actors in greenlets over one table in memory, one step at a time, checked after each step.

In: a `Scenario` and the `Choices` that decide. Out: nothing, or `InvariantBroken`; on request, the ``story`` of what
happened. The actors are in ``actors``, the promises in ``invariants``.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from typing import Any, cast

import greenlet
import msgspec
from msgspec.structs import replace

from explorer.branch_programs import BranchBook, end_branch
from explorer.ending import (
    export_what_was_exported,
    gather_what_waits,
    mend_what_was_lost,
    recover_groups,
    recover_what_is_sealed,
)
from explorer.invariants import Ledger
from explorer.joint_programs import JointBook, end_joint
from explorer.machine import Machine
from explorer.observers import Observers
from explorer.schedule import Choices
from explorer.session import Actor, Clock, Session
from explorer.turns import answer, file_needs_no_turn, named_needs_no_turn, needs_no_turn
from explorer.world import VACUUMED_MS, World, base_world, grouped_world, opened
from txlog.core import ambient
from txlog.core.store._table_store import TableStore
from txlog.core.util import logger
from txlog.errors import NotFoundError, StorageError
from txlog.iceberg.metadata.names import content_version
from txlog.table import Table
from txlog.testing.faults import Fault, InFlightPut, StoreCall
from txlog.testing.memory_store import MemoryLogStore

__all__ = ["SERIALIZABLE", "Pruned", "Run", "Scenario", "StoryTooLong"]

_GATHERS = ("txlog.groupCommit", "true")
SERIALIZABLE = ("delta.isolationLevel", "Serializable")

_STEPS_MAX = 600
_LONG_PAUSE_S = 7200.0
_HUB = 253  # the number of the clock of what happens between the steps

logger.logger.addHandler(logging.NullHandler())


class Pruned(Exception):
    """The run reached a state that was explored before."""


class StoryTooLong(Exception):
    """An actor still runs after `_STEPS_MAX` steps, so a loop may not end."""


class Scenario(msgspec.Struct, frozen=True):
    """The actors, their table, and how much may go wrong, of which kinds.

    ``store`` is "local" (names are linked, then synced; listings may be incomplete) or "object" (each request is atomic
    and consistent). ``deletes``: names may disappear from the log. ``pauses``: actors may sleep for two hours before a
    put. ``splits_sync``: others may act between link and sync. ``observers_fail``: hooks and log handlers may raise;
    each time counts as a fault. The table begins with ``versions`` versions and these ``properties``; open handles have
    not seen the newest ``unseen`` versions. ``aged``: all versions are older than any retention. ``has_rows``: the rows
    are checked against the operations, applied one by one. ``trimmed``: vacuums find files to delete. ``sealed``: an
    application sealed a checkpoint of row changes and died. ``exported``: Iceberg readers see the version before the
    newest. ``owned``: somebody else decides the versions, which are in no folder before an actor publishes them.
    ``catalog``: that is a catalog, which "remembers" repeats of published commits or "forgets" them, or "loses" commits
    that it has accepted. ``vends``: it gives out the credentials that the log's folder requires.
    ``gathers``: writers wait in the table's folder, and commit each other's appends. ``round_trip_s``: what waits are
    scaled to.
    ``mapped``: the table's columns can be renamed, dropped and widened. ``counted``: it has an identity column.
    ``asks_beside``: what an actor asks while it does something else is answered before or after that; others may act
    between an answer and its use.
    ``queues``: the actors are processes of one machine, which wait for turns and hand appends over.
    ``grouped``: there is a second table. "joint": transactions change both. "branched": it is a branch of the first;
    "unbranched": it becomes one. Otherwise a group of sinks fills both, and its checkpoint is "new", "staged" or
    "sealed".
    """

    name: str
    actors: tuple[Actor, ...]
    faults: int = 0
    crashes: int = 0
    power_cuts: int = 0
    store: str = "local"
    kinds: tuple[str, ...] = (
        "fail_before",
        "fail_after",
        "conflict",
        "late",
        "refused",
        "not_durable",
        "stale",
        "hole",
    )
    deletes: bool = False
    pauses: bool = False
    splits_sync: bool = False
    observers_fail: bool = False
    versions: int = 1
    aged: bool = False
    unseen: int = 0
    properties: tuple[tuple[str, str], ...] = ()
    has_rows: bool = False
    trimmed: bool = False
    sealed: bool = False
    exported: bool = False
    owned: bool = False
    catalog: str = ""
    vends: bool = False
    gathers: bool = False
    round_trip_s: float = 0.0
    mapped: bool = False
    counted: bool = False
    asks_beside: bool = False
    queues: bool = False
    grouped: str = ""


class Run:
    """One story. ``visited`` holds the states of an exhaustive exploration, ``read_before`` the logs that readers have
    been checked on at the end of earlier runs. ``keeps_story`` records the story for people to read.
    """

    def __init__(
        self,
        scenario: Scenario,
        choices: Choices,
        *,
        visited: set[int] | None = None,
        read_before: set[int] | None = None,
        keeps_story: bool = False,
    ) -> None:
        self.scenario = scenario
        self.choices = choices
        self.base = base_world(
            *(scenario.versions, scenario.store, scenario.unseen, _properties(scenario)),
            is_aged=scenario.aged,
            has_rows=scenario.has_rows,
            is_trimmed=scenario.trimmed,
            is_sealed=scenario.sealed,
            is_exported=scenario.exported,
            is_owned=scenario.owned,
            catalog=scenario.catalog,
            is_mapped=scenario.mapped,
            is_counted=scenario.counted,
        )
        if scenario.grouped:
            self.base = grouped_world(scenario.versions, scenario.store, _properties(scenario), scenario.grouped)
        self.world: World = self.base.copy()
        self.ledger: Ledger = self.world.ledger
        self.joint = JointBook()
        self.branches = BranchBook()
        self.ledger.is_serializable = SERIALIZABLE in scenario.properties
        self.story: list[str] = []
        self.steps = 0
        self.days_passed = 0
        self.left_to_kernel: set[str] = set()
        self.is_over = False
        self.retention_ms = self.base.state.properties.log_retention_ms
        self.observers = Observers(self._at_observer) if scenario.observers_fail else None
        self.faults_left = scenario.faults
        self.crashes_left = scenario.crashes
        self.cuts_left = scenario.power_cuts
        self.broken: Exception | None = None
        self.thread = threading.get_ident()
        self._keeps_story = keeps_story
        self._visited = visited
        self._read_before = set() if read_before is None else read_before
        self._hub = greenlet.getcurrent()
        self._faults: dict[str, Fault] = {kind: Fault(kind) for kind in scenario.kinds}
        self._current: Session | None = None
        self._shared: Table | None = None
        self.machine = Machine(self.ledger.attempts) if scenario.queues else None
        self.lives: list[Session] = []
        self._left = {actor.name: actor.restarts for actor in scenario.actors}
        for store in self.world.every_log_store():
            store.before_sync = self._before_sync
        # How long readers may still need a metadata file is a matter of which was put first.
        self.world.iceberg.now_ms = self.now_ms
        # Who has waited for longer, and how old an intent is, are told by the store's clock.
        self.world.waiting.now_ms = self.now_ms
        self.world.log.round_trip_s = lambda: scenario.round_trip_s  # type: ignore[method-assign]

    def let_go(self) -> None:
        """Take apart what refers to each other, once the run is over: to find it takes the garbage collector long."""
        for attempt in self.ledger.attempts.values():
            attempt.error = None  # its traceback refers to all that ran
        for life in self.lives:
            vars(life).clear()
        vars(self).clear()

    def shared_table(self, retry: dict[str, Any]) -> Table:
        """A handle that was open before the story, or was opened after a power cut. Each of its calls is one of the
        actor that makes it."""
        if self._shared is None:
            stores = (_OfActor(self, name) for name in ("log", "files", "staging"))
            hooks = self.observers.hooks if self.observers else None
            store = TableStore("memory://table", *cast("Any", stores))
            if self.scenario.gathers:
                store = replace(store, waiting=cast("Any", _OfActor(self, "waiting")))
            is_from_before = self.cuts_left == self.scenario.power_cuts
            self._shared = opened(store, self.base if is_from_before else None, retry, hooks)
        return self._shared

    def acting(self) -> Session:
        """Whose greenlet this is; once the story is over, any that has not crashed."""
        current = greenlet.getcurrent()
        found = (life for life in self.lives if life.greenlet is current or (self.is_over and not life.has_crashed))
        return next(found)

    def record(self, line: str) -> None:
        if self._keeps_story:
            self.story.append(line)

    # --- the loop ---------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run the story. Raises `InvariantBroken`, `StoryTooLong`, or `Pruned` if ``visited`` has the state."""
        try:
            with ambient.use(Clock(_HUB)), self.observers or contextlib.nullcontext():
                for number, actor in enumerate(self.scenario.actors, start=1):
                    self._begin(actor, Clock(number, actor.behind_ms))
                while alive := self._alive():
                    self._step(alive)
            with ambient.use(Clock(_HUB)):
                self._epilogue()
        finally:
            for life in self.lives:
                life.crash()

    def _begin(self, actor: Actor, clock: Clock) -> None:
        life = Session(self, actor, clock)
        self.lives.append(life)
        self._resume(life)

    def _alive(self) -> list[Session]:
        return [life for life in self.lives if life.pending is not None]

    def _in_flight(self) -> list[tuple[Session, InFlightPut]]:
        return [(life, put) for life in self.lives for faulty in life.faulty_logs() for put in faulty.in_flight]

    def _step(self, alive: list[Session]) -> None:
        self.steps += 1
        if self.steps > _STEPS_MAX:
            raise StoryTooLong(f"{self.steps} steps: {', '.join(life.actor.name for life in alive)}")
        self._prune()
        if self._current in alive:  # continuing with the same actor is the uneventful choice
            alive.remove(self._current)
            alive.insert(0, self._current)
        if (
            self._shared is not None or self.machine is not None
        ):  # others wait while one of them puts, so that they meet
            alive.sort(key=lambda life: (life.waits_in_vain, life.pending_operation == "put_if_absent"))
        in_flight = self._in_flight()
        crashable = [life for life in alive if life.actor.dies] if self.crashes_left else []
        width = len(alive) + len(in_flight) + len(crashable) + bool(self.cuts_left)
        choice = self.choices.choose(width, calm=0.5)
        if choice < len(alive):
            self._resume(alive[choice])
        elif choice < len(alive) + len(in_flight):
            self._land(*in_flight[choice - len(alive)])
        elif choice < len(alive) + len(in_flight) + len(crashable):
            self._crash(crashable[choice - len(alive) - len(in_flight)])
        else:
            self._cut_power()
        self.check()

    def _resume(self, life: Session) -> None:
        self._current = life
        life.pending = None
        life.greenlet.switch()

    def check(self) -> None:
        if self.broken is not None:
            raise self.broken
        retained = self.now_ms() - self.retention_ms
        self.ledger.observe(oldest_retained_ms=retained if self.scenario.deletes else None)
        if self.world.second is not None:
            self.world.second.ledger.observe()
            if self.scenario.grouped.endswith("branched"):
                self.branches.check(self.world, self.world.second)
        if self.scenario.trimmed and not self.scenario.grouped:  # what a branch needs is checked at the end
            self.ledger.require_files(self.now_ms() - VACUUMED_MS)

    def _prune(self) -> None:
        if self._visited is None or not self.choices.is_past_given:
            return
        log, staging, iceberg = self.world.log_stores
        state = hash(
            (
                frozenset((name, found[0]) for name, found in log.objects.items()),
                frozenset(log.durable),
                frozenset(staging.objects),
                frozenset(staging.durable),
                frozenset((name, found[0]) for name, found in iceberg.objects.items()),
                frozenset(iceberg.durable),
                frozenset(self.world.waiting.objects.items()),
                frozenset((name, found[0]) for name, found in self.world.named.objects.items()),
                frozenset(self.world.files.objects) if self.scenario.trimmed else None,
                _contents(self.world.owner) if self.world.owner is not None else None,
                _contents_of_both(self.world.second) if self.world.second is not None else None,
                frozenset((life.history, life.is_dead, life.pending, life.clock.elapsed_ms) for life in self.lives),
                frozenset((put.name, put.body) for _, put in self._in_flight()),
                self.faults_left,
                self.crashes_left,
                self.cuts_left,
            )
        )
        if state in self._visited:
            raise Pruned
        self._visited.add(state)

    # --- what happens -----------------------------------------------------------------------------------------

    def at_call(self, life: Session, call: StoreCall, store: MemoryLogStore) -> Fault | None:
        """Before a store call of an actor, in its greenlet: let the others act first, then choose its fault."""
        life.clock.elapsed_ms += 1
        may_die = bool(self.cuts_left or (self.crashes_left and life.actor.dies))
        commutes = needs_no_turn(call, store, self.world, self._others(life), may_die=may_die)
        if not commutes:
            self.suspend(life, call, store)
        fault = Fault("crash_after") if life.dies_after else self._fault(life, call, store)
        if self._keeps_story and (fault is not None or not commutes):
            self.record(f"{life.actor.name}: {call.operation} {_short(call.name)}{f'  ** {fault}' if fault else ''}")
        life.history = hash((life.history, call.operation, call.name, fault, answer(call, store.objects)))
        return fault

    def at_file_call(self, life: Session, call: StoreCall) -> None:
        """Before a call on a data file: if the table has removed files, other actors may delete them."""
        if self.scenario.trimmed and call.operation in ("stat", "delete"):
            if not file_needs_no_turn(call, self._others(life)):
                self.suspend(life, call)
            self.record(f"{life.actor.name}: {call.operation} {call.name}")
            life.history = hash((life.history, call.operation, call.name, call.name in self.world.files.objects))

    def at_named_call(self, life: Session, call: StoreCall) -> None:
        """Before a call on the named versions: vacuums read them, and keep the files of those that they find."""
        if not named_needs_no_turn(self._others(life)):
            self.suspend(life, call)
        self.record(f"{life.actor.name}: {call.operation} {call.name}")
        life.history = hash((life.history, call.operation, call.name, answer(call, self.world.named.objects)))

    def _others(self, life: Session) -> list[Actor]:
        return [other.actor for other in self.lives if other is not life and not other.is_dead]

    def suspend(self, life: Session, call: StoreCall, store: MemoryLogStore | None = None) -> None:
        """Let other actors act first, or let this one die here. ``store`` is the store it calls, None for the log."""
        life.pending, life.pending_in = call, store or self.world.log
        self._hub.switch()

    def _fault(self, life: Session, call: StoreCall, store: MemoryLogStore) -> Fault | None:
        if self.scenario.pauses and call.operation == "put_if_absent" and self.choices.choose(2, calm=0.8):
            self._pause()
        if not self.faults_left:
            return None
        offered = [self._faults[kind] for kind in self._possible(call, store) if kind in self._faults]
        choice = self.choices.choose(1 + len(offered), calm=0.7) if offered else 0
        if not choice:
            return None
        self.faults_left -= 1
        return offered[choice - 1]

    def _pause(self) -> None:
        """Suspend the current actor for a long time; it passes for everyone: no clock moves alone.

        Otherwise it would take for old what others have just written.
        """
        for life in self.lives:
            life.clock.sleep(_LONG_PAUSE_S)
        self.write_back()

    def _possible(self, call: StoreCall, store: MemoryLogStore) -> tuple[str, ...]:
        """The faults that make a difference here."""
        match call.operation:
            case "put_if_absent" if call.name not in store.objects:
                return ("fail_before", "fail_after", "conflict", "late", "refused")
            case "put_if_absent":
                return ("fail_before",)
            case "list_from" if self.scenario.store == "local" and store in self._logs():
                return ("stale", "hole")
            case "read" | "make_durable" if call.name in store.objects:
                return ("refused",)
            case "put" if store is self.world.iceberg:
                return ("fail_before", "fail_after")
        return ()

    def _logs(self) -> tuple[MemoryLogStore, ...]:
        return (self.world.log,) if self.world.second is None else (self.world.log, self.world.second.log)

    def _at_observer(self, call: str) -> bool:
        """Whether a hook or a log handler of the current actor fails now."""
        life = self._current
        if life is None or greenlet.getcurrent() is not life.greenlet or not self.faults_left:
            return False
        if not self.choices.choose(2, calm=0.7):
            return False
        self.faults_left -= 1
        self.record(f"{life.actor.name}: {call}  ** raises")
        life.history = hash((life.history, "raises", call))
        return True

    def _before_sync(self, name: str) -> bool:
        """Between link and sync of a put by an actor: others may see the name, and the actor may die here."""
        life = self._current
        if life is None or greenlet.getcurrent() is not life.greenlet:
            return False  # a delayed put is executed when no process is left to sync it
        if self.scenario.store == "object":
            return True
        if self.scenario.splits_sync and content_version(name) is None:
            self.suspend(life, StoreCall("sync", 1, name))
        if life.is_dead or not life.syncs_before:
            return False
        if self.faults_left and "not_durable" in self._faults and self.choices.choose(2, calm=0.8):
            self.faults_left -= 1
            self.record(f"{life.actor.name}: sync {_short(name)}  ** not_durable")
            life.history = hash((life.history, "not_durable"))
            return False
        return True

    def _land(self, life: Session, put: InFlightPut) -> None:
        faulty = next(each for each in life.faulty_logs() if put in each.in_flight)
        faulty.in_flight.remove(put)
        try:
            with ambient.use(life.clock):
                arrived = put.land().value
        except StorageError as error:  # an owner of versions refuses it, and nobody hears of that
            arrived = error.message
        self.record(f"{life.actor.name}'s put of {_short(put.name)} arrives: {arrived}")
        if self.scenario.store == "object":
            with contextlib.suppress(NotFoundError):
                faulty.inner.make_durable(put.name)

    def _crash(self, life: Session) -> None:
        self.crashes_left -= 1
        call = life.pending
        assert call is not None
        lands = call.operation == "put_if_absent" and call.name not in life.pending_in.objects
        moment = self.choices.choose(3 if self.scenario.store == "local" else 2) if lands else 0
        if moment:
            life.dies_after, life.syncs_before = True, moment == 1
            self._resume(life)
        else:
            self.record(f"{life.actor.name}: CRASHES before {call.operation} {_short(call.name)}")
            life.crash()
        self._restart(life)

    def _restart(self, life: Session) -> None:
        if not self._left[life.actor.name]:
            return
        self._left[life.actor.name] -= 1
        clock = Clock(life.clock.number, life.clock.behind_ms)
        clock.incarnation = life.clock.incarnation + 1
        clock.elapsed_ms = life.clock.elapsed_ms + 1000
        clock.suspended_ms = life.clock.suspended_ms
        self.record(f"{life.actor.name}: starts again")
        self._begin(life.actor, clock)

    def _cut_power(self) -> None:
        self.cuts_left -= 1
        self.record("POWER CUT")
        self._shared = None
        ended = self._alive()
        for life in self.lives:
            life.crash()
            life.has_crashed = True  # also ends actors whose program is done, with their handles
        unsafe = sorted(name for store in self.world.every_log_store() for name in store.unsafe())
        surviving = self._kept_in_order(unsafe, [name for name in unsafe if self.choices.choose(2)])
        for store in self.world.every_log_store():
            store.power_cut(surviving)
        self.record(f"lost: {', '.join(_short(name) for name in unsafe if name not in surviving) or 'nothing'}")
        self.ledger.power_was_cut()
        if self.world.second is not None:
            self.world.second.ledger.power_was_cut()
        for life in ended:
            self._restart(life)

    def now_ms(self) -> int:
        """The time of the disk: the latest of all actors' clocks."""
        return max(life.clock.now_ms() for life in self.lives)

    def write_back(self) -> None:
        """Make durable what other engines did not sync, as a kernel does after some time."""
        for name in self.left_to_kernel & self.world.log.objects.keys():
            self.world.log.make_durable(name)
        self.left_to_kernel.clear()

    def _kept_in_order(self, unsafe: list[str], surviving: list[str]) -> list[str]:
        """The surviving names without commits after the first lost one, since the kernel writes commits in order."""
        lost = min((name for name in unsafe if _is_commit(name) and name not in surviving), default=None)
        return [name for name in surviving if lost is None or not _is_commit(name) or name < lost]

    # --- the end ----------------------------------------------------------------------------------------------

    def _epilogue(self) -> None:
        """Execute delayed puts, in order; then check that every way of reading the table shows the same."""
        for life, put in self._in_flight():
            self._land(life, put)
            self.check()
        self.check()
        self.is_over = True
        for store in self.world.every_log_store():
            store.before_sync = None
        mend_what_was_lost(self)
        if self.scenario.grouped == "joint":
            end_joint(self)
        elif self.scenario.grouped.endswith("branched"):
            end_branch(self)
        elif self.scenario.grouped:
            recover_groups(self)
        else:
            recover_what_is_sealed(self)
        if self.scenario.gathers:
            gather_what_waits(self)
        for life in self.lives:
            for table in () if life.has_crashed else life.handles:
                with ambient.use(life.clock):
                    self.world.check_handle(self.ledger, table)
        log, exports = _contents(self.world.log), _contents(self.world.iceberg)
        if self.world.owner is not None:
            log = hash((log, _contents(self.world.owner)))
        if log not in self._read_before:  # the same bytes are read the same way
            self.world.check_readers(self.ledger)
        if exports and hash((log, exports)) not in self._read_before:
            export_what_was_exported(self)
        self._read_before |= {log, hash((log, exports))}


class _OfActor:
    """A store of whichever actor calls it."""

    def __init__(self, run: Run, name: str) -> None:
        self._run, self._name = run, name

    def __getattr__(self, name: str) -> Any:
        return getattr(getattr(self._run.acting(), self._name), name)


def _properties(scenario: Scenario) -> tuple[tuple[str, str], ...]:
    """The table's properties. No two stories may share a table that only one of them gathers on."""
    return (*scenario.properties, *((_GATHERS,) if scenario.gathers else ()))


def _contents(store: MemoryLogStore) -> int:
    """0 if it is empty."""
    return hash(frozenset((name, found[0]) for name, found in store.objects.items())) if store.objects else 0


def _contents_of_both(world: World) -> int:
    return hash((_contents(world.log), _contents(world.staging), frozenset(world.staging.durable)))


def _is_commit(name: str) -> bool:
    return name.endswith(".json") and name[:20].isdigit() and len(name) == 25


def _short(name: str) -> str:
    """``00000000000000000002.json`` as ``2.json``."""
    return name.lstrip("0") if name[:1] == "0" and not name.startswith(f"{0:020d}") else name.replace(f"{0:020d}", "0")
