"""One life of an actor: its program in a greenlet, its own clock and random numbers, and its stores.

In: a `Run` that decides when each call continues and with which fault. Out: what a program needs (`Session.table`,
`Session.attempt`). A life ends with its program or by a crash, after which nothing that it still does has an effect.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

import greenlet
import msgspec

from explorer.catalog_model import CatalogBook, PermissionDeniedError, VendedLogStore, versions_of
from explorer.machine import MachineQueue
from explorer.rows import RowHistory
from explorer.versions import Attempt, InvariantBroken
from explorer.world import BASE_MS, FILE_BYTES, opened
from txlog.core import ambient
from txlog.core.format.actions import AddFile
from txlog.core.store._base import FileStore, LogStore
from txlog.core.store._table_store import TableStore
from txlog.errors import AccessError, CommitStateUnknownError, TxlogError
from txlog.result import WriteResult
from txlog.testing.faults import Crashed, FaultyFileStore, FaultyLogStore, StoreCall

if TYPE_CHECKING:
    from explorer.run import Run
    from txlog.core.predicates.terms.predicate import Predicate
    from txlog.snapshot import Snapshot
    from txlog.table import Table
    from txlog.table_transaction import Transaction
    from txlog.testing.memory_store import MemoryLogStore

__all__ = ["Actor", "Clock", "Session", "see_others"]

Out = TypeVar("Out")


class Actor(msgspec.Struct, frozen=True):
    """``program`` acts on the table through its `Session`; after a crash it is restarted up to ``restarts`` times.

    Rights: ``checkpoints`` to change the hint, ``deletes`` to delete names from the log, ``vacuums`` to delete data
    files, ``tags`` to name versions, ``exports`` and ``cleans_exports`` to write and to delete Iceberg metadata,
    ``stages`` to use staged checkpoints. ``dies``: it may crash. Its clock is ``behind_ms`` behind that of others.
    ``sleeps``: its machine is suspended while time passes for all.
    """

    name: str
    program: Callable[[Session], None]
    restarts: int = 0
    checkpoints: bool = False
    deletes: bool = False
    vacuums: bool = False
    tags: bool = False
    exports: bool = False
    cleans_exports: bool = False
    stages: bool = True
    dies: bool = True
    behind_ms: int = 0
    sleeps: bool = False


class Clock(ambient.Ambient):
    """An actor's own time and random numbers. They depend only on its own calls, not on the order of the actors."""

    uses_threads = False  # the schedule orders the calls of one thread

    def __init__(self, number: int, behind_ms: int = 0) -> None:
        self.number = number
        self.behind_ms = behind_ms
        self.incarnation = 0
        self.attempt = 0
        self.elapsed_ms = number
        self.suspended_ms = 0
        self.waits: Callable[[threading.Event], None] | None = None
        self.life: Session | None = None
        self._home = threading.get_ident()
        self._drawn = {True: 0, False: 0}

    def now_ms(self) -> int:
        return BASE_MS + int(self.elapsed_ms) - self.behind_ms

    def monotonic_s(self) -> float:
        return 1000.0 + (self.elapsed_ms - self.suspended_ms) / 1000

    def beside(self, work: Callable[[], Out]) -> Callable[[], Out]:
        if self.life is None or not self.life.run.scenario.asks_beside:
            return super().beside(work)
        return self.life.beside(work)

    def sleep(self, seconds: float) -> None:
        self.elapsed_ms += max(1, int(seconds * 1000))

    def wait(self, event: threading.Event, seconds: float) -> None:
        """Let others act. An actor that resumes before the event has timed out."""
        if self.waits is not None:
            self.waits(event)
        if not event.is_set():
            self.sleep(seconds)

    def uniform(self, low: float, high: float) -> float:
        return (low + high) / 2

    def uuid4(self) -> str:
        """A UUID from a counter. Other threads than the actor's use another counter, since their order varies."""
        is_at_home = threading.get_ident() == self._home
        self._drawn[is_at_home] += 1
        return f"{self.key()}-{self._drawn[is_at_home]:04x}-4000-8000-{not is_at_home:012x}"

    def key(self) -> str:
        return f"{self.number:02x}{self.incarnation:02x}{self.attempt:04x}"


class Session:
    """What an actor's program works with. Each life of the actor has its own; a crash ends it."""

    def __init__(self, run: Run, actor: Actor, clock: Clock) -> None:
        self.run = run
        self.actor = actor
        self.clock = clock
        self.is_dead = False
        self.dies_after = False
        self.syncs_before = True
        self.pending: StoreCall | None = None
        self.pending_in: MemoryLogStore = run.world.log
        self.history = hash((actor.name, clock.incarnation))
        self.log, self.staging, self.iceberg = (
            FaultyLogStore(store, partial(self._at_log_call, store)) for store in run.world.log_stores
        )
        owner = run.world.owner
        self.owner = None if owner is None else FaultyLogStore(owner, partial(self._at_log_call, owner))
        self.waiting = FaultyLogStore(run.world.waiting, partial(self._at_log_call, run.world.waiting))
        second = () if run.world.second is None else run.world.second.log_stores[:2]
        self.of_second = [FaultyLogStore(store, partial(self._at_log_call, store)) for store in second]
        self.named = FaultyLogStore(run.world.named, self._at_named_call)
        self.files = FaultyFileStore(run.world.files, self._at_file_call)
        self.greenlet = greenlet.greenlet(self._live)
        self.waits_for: threading.Event | None = None
        clock.waits = self._wait
        self.handles: list[Table] = []
        clock.life = self
        self.has_crashed = False
        self._published = 0
        self._shown = ""
        """The credentials of its current request."""

    # --- for programs -----------------------------------------------------------------------------------------

    def table(
        self, *, fresh: bool = False, waits: bool = False, is_old: bool = False, elsewhere: bool = False, **retry: Any
    ) -> Table:
        """A handle on the table: opened before the story began, or now. ``retry`` goes to its `RetryPolicy`.

        Every handle is remembered, and must still work at the end of the story. In a story of writers that wait for
        each other, one that ``waits`` has just seen others, and one that ``is_old`` knows nothing of them. One
        ``elsewhere`` is on a machine of its own.
        """
        log = self._vended() if self.run.scenario.vends else self.log
        store = TableStore(
            *("memory://table", log, self.files, self.staging), named_versions=self.named, iceberg=self.iceberg
        )
        if self.owner is not None:
            owner = versions_of(self.owner, self.run.world.owner, log)
            store = msgspec.structs.replace(store, owner=owner)
        if self.run.scenario.gathers and not is_old:
            store = msgspec.structs.replace(store, waiting=self.waiting)
        if self.run.machine is not None and not elsewhere:
            store = msgspec.structs.replace(store, commit_queue=MachineQueue(self.run.machine, self))
        hooks = self.run.observers.hooks if self.run.observers else None
        is_new = fresh or self.clock.incarnation > 0  # after a restart there is no handle from before
        table = opened(store, None if is_new else self.run.base, retry, hooks)
        if waits:
            see_others(table)
        self.handles.append(table)
        return table

    def tables(self) -> tuple[Table, Table]:
        """New handles on both tables of a story about two."""
        assert self.run.world.second is not None, "the scenario does not say grouped"
        files = FaultyFileStore(self.run.world.second.files, self._at_file_call)
        log, staging = self.of_second
        both = self.table(fresh=True), opened(TableStore("memory://second", log, files, staging), None, {})
        stores = {table.uri: table._open_table.store for table in both}
        for table in both:
            table._open_table.store.log.beside = stores  # type: ignore[attr-defined]
        return both

    def _vended(self) -> LogStore:
        book = self.run.world.owner
        assert isinstance(book, CatalogBook), "the scenario does not say catalog"
        assert self.owner is not None

        def show(credentials: str) -> None:
            self._shown = credentials

        return cast("LogStore", VendedLogStore(self.log, self.owner, book, show))

    def shared_table(self, **retry: Any) -> Table:
        """The one handle of the story that its actors share, as threads of a process do."""
        table = self.run.shared_table(retry)
        self.handles.append(table)
        return table

    def new_file(self, part: str = "a", *, data_change: bool = True, files: FileStore | None = None) -> AddFile:
        """Publish a file of one row, whose writer has synced neither its contents nor its name; with ``files``, of
        another table and synced."""
        path = self.new_path(part)
        if files is None:
            self.run.world.files.publish(path, FILE_BYTES)
            self.run.world.files.unsynced.add(path)
        else:
            real = files.inner if isinstance(files, FaultyFileStore) else files
            real.publish(path, FILE_BYTES)  # type: ignore[attr-defined]
            real.make_durable([path])
        stats = '{"numRecords":1,"minValues":{"id":1},"maxValues":{"id":1},"nullCount":{"id":0}}'
        return AddFile(path, {"part": part}, len(FILE_BYTES), self.clock.now_ms(), data_change, stats)

    def new_path(self, part: str) -> str:
        """The path of a new file, unique to this life."""
        self._published += 1
        return f"part={part}/{self.actor.name}-{self.clock.incarnation}-{self._published}.parquet"

    @property
    def rows(self) -> RowHistory:
        """The rows of the story's table at each version; the scenario must have ``has_rows``."""
        assert self.run.ledger.rows is not None, "the scenario does not say has_rows"
        return self.run.ledger.rows

    def read(self, txn: Transaction, where: Predicate | None = None) -> list[str]:
        """Declare a read as `Transaction.read` does, without reading rows, which would take most of the time.

        Args:
            txn: The transaction.
            where: What is read; None means the whole table.

        Returns:
            The paths of the files that were read.
        """
        snapshot = txn.snapshot
        without_rows = _WithoutRows(snapshot)
        txn._snapshot = without_rows  # type: ignore[assignment]
        txn.read(where)
        txn._snapshot = snapshot
        found = snapshot.files() if without_rows.found is None else without_rows.found
        paths: list[str] = found.column("path").to_pylist()
        return paths

    def faulty_logs(self) -> Iterator[FaultyLogStore]:
        """The stores of names that this life calls."""
        yield from (self.log, self.staging, self.iceberg, self.waiting, *self.of_second)
        if self.owner is not None:
            yield self.owner

    @contextmanager
    def attempt(self, app: tuple[str, int] | None = None) -> Iterator[Attempt]:
        """One logical transaction. Its answer is the ``result`` that the block sets, or the error that it raises."""
        self.clock.attempt += 1
        attempt = Attempt(self.clock.key(), self.actor.name, app=app)
        self.run.ledger.attempts[attempt.key] = attempt
        try:
            yield attempt
        except CommitStateUnknownError as error:
            attempt.answer, attempt.error = "unknown", error
        except TxlogError as error:
            if isinstance(error, AccessError) and self.run.scenario.vends:
                raise InvariantBroken("credentials are renewed while work goes on", str(error)) from error
            attempt.answer, attempt.error = "refused", error
        else:
            result = attempt.result
            is_committed = result is not None and (result.attempts or result.outcome != "committed")
            attempt.answer = "committed" if is_committed else "nothing to do"
        self.run.record(f"{self.actor.name}: {attempt.answer} {attempt.result or attempt.error or ''}"[:150])
        self.history = hash((self.history, attempt.answer))
        self.run.ledger.check_answer(attempt)

    def let_days_pass(self, days: int) -> None:
        self.run.days_passed += days
        self.let_pass(days * 24 * 3600 * 1000)

    def let_pass(self, duration_ms: int) -> None:
        """Advance the clocks of all actors, in the middle of whatever they do. Suspended machines do not notice it."""
        self.run.suspend(self, StoreCall("time_passes", 1, str(duration_ms)))
        self.run.write_back()
        for life in self.run.lives:
            life.clock.elapsed_ms += duration_ms
            if life.actor.sleeps:
                life.clock.suspended_ms += duration_ms

    def resolve(self, attempt: Attempt, table: Any, txn_id: str, version: int) -> None:
        """Ask whether ``attempt`` was committed. The answer counts as an acknowledgement or a definite failure."""
        self.clock.attempt += 1
        try:
            landed = table.resolve(txn_id, version)
        except TxlogError as error:
            self.run.record(f"{self.actor.name}: resolve({version}) failed: {type(error).__name__}")
            return
        self.run.record(f"{self.actor.name}: resolve({version}) says {landed}")
        self.history = hash((self.history, landed))
        attempt.answer = "committed" if landed else "refused"
        # Another writer may have committed an append that waited in line as a later version than the unsettled one.
        version = max(version, self.run.ledger.txn_ids.get(txn_id, version))
        attempt.result = WriteResult(version, "committed", 1, txn_id) if landed else None
        self.run.ledger.check_answer(attempt)

    def beside(self, work: Callable[[], Out]) -> Callable[[], Out]:
        """Ask now, so that the answer is from the past once it is used, or when the answer is waited for."""
        is_late = self.run.choices.choose(2)
        self.history = hash((self.history, "beside", is_late))
        found = None if is_late else ambient.Ambient.beside(self.clock, work)

        def wait() -> Out:
            nonlocal found
            if found is None:
                found = ambient.Ambient.beside(self.clock, work)
            elif not (is_late or self.is_dead or self.run.is_over):
                self.run.suspend(self, StoreCall("answer", 1, ""))
            return found()

        return wait

    # --- a life -----------------------------------------------------------------------------------------------

    def _live(self) -> None:
        with ambient.use(self.clock):
            try:
                self.actor.program(self)
            except Crashed:
                self.has_crashed = True
            except InvariantBroken as broken:
                self.run.broken = self.run.broken or broken
            except TxlogError as error:
                self.run.record(f"{self.actor.name}: stopped by {type(error).__name__}")
            except Exception as error:
                self.run.broken = self.run.broken or InvariantBroken(
                    "only TxlogError escapes", f"{self.actor.name}: {error!r}"
                )
        self.pending = None
        self.is_dead = True

    def crash(self) -> None:
        """Kill the program at its current call. The store ignores what its ``finally`` blocks still request."""
        self.is_dead = True
        self.pending = None
        if not self.greenlet.dead:
            self.greenlet.throw(Crashed("killed"))

    def _wait(self, event: threading.Event) -> None:
        if not self.is_dead and not event.is_set():
            self.waits_for = event
            self.run.suspend(self, StoreCall("wait", 1, ""))
            self.waits_for = None
            self.history = hash((self.history, "wait", event.is_set()))

    @property
    def pending_operation(self) -> str | None:
        """The call that it is about to make."""
        return None if self.pending is None else self.pending.operation

    @property
    def waits_in_vain(self) -> bool:
        """Whether it waits for another actor that has not woken it."""
        return self.waits_for is not None and not self.waits_for.is_set()

    def _at_file_call(self, call: StoreCall) -> None:
        """Before a call on a data file. Each has one writer, so other actors matter only if vacuums delete files."""
        if self.run.is_over:
            return
        if not self.is_dead and threading.get_ident() == self.run.thread:
            self.run.at_file_call(self, call)
        if self.is_dead:
            raise Crashed(f"{call.operation} {call.name}: the process has died")

    def _at_named_call(self, call: StoreCall) -> None:
        """Before a call on the named versions, which has no faults."""
        if not self.run.is_over and not self.is_dead:
            self.run.at_named_call(self, call)
        if self.is_dead:
            raise Crashed(f"{call.operation} {call.name}: the process has died")

    def _at_log_call(self, store: MemoryLogStore, call: StoreCall) -> Any:
        if self.run.is_over:
            return None
        if self.is_dead:
            raise Crashed(f"{call.operation} {call.name}: the process has died")
        if threading.get_ident() != self.run.thread:
            return None
        fault = self.run.at_call(self, call, store)
        book = self.run.world.owner
        if self.run.scenario.vends and store is self.run.world.log and isinstance(book, CatalogBook):
            self.history = hash((self.history, self._shown == book.valid))
            if self._shown != book.valid:
                self.run.record(f"{self.actor.name}: {call.operation} is refused")
                raise PermissionDeniedError
        return fault


def see_others(table: Table) -> None:
    """Let a handle behave as if it had just seen others wait, so that its next append joins the line at once."""
    line = table._open_table._commits.line
    assert line is not None
    line.crowded_until_s = math.inf


class _WithoutRows:
    """A snapshot that finds the files of a read without opening them."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.found: Any = None
        self._snapshot = snapshot

    def files(self, where: Any = None) -> Any:
        self.found = self._snapshot.files(where)
        return self.found

    def to_arrow(self, columns: Any = None, where: Any = None) -> None:
        """Read nothing."""
