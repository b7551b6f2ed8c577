"""The waiting batches of one table, and the thread that commits them.

In: batches that were checked. Out: an answer for each. All rows that wait when a commit has ended become the next one,
as far as they do the same to the table. If every client has its answer, since the journal has the rows, they wait for
more rows until the oldest is ``max_delay_s`` old, or until they fill a file.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from functools import partial

import msgspec

import txlog
from txlog.errors import TxlogError
from txlog.extend import Background
from txlog.extend.catalogs import ambient, logger
from txlog.serve.batches import Answer, Batch, StoppingError
from txlog.serve.counts import Counts, Room, Tick
from txlog.serve.journal import Journal
from txlog.serve.landing import Landing, out_of_order

_RETRY_MIN_S, _RETRY_MAX_S = 0.5, 30.0
_GATHER_MAX_S = 0.1
_SETTLED_AT_ONCE = 500
"""Among many clients each lock is a wait, so it is taken for many batches; but not for as many as a commit may have."""
_COMMITS_MAX = 2000
"""So many small files are joined before it is time."""


class Pace(msgspec.Struct, frozen=True):
    """How rows are gathered.

    Args:
        max_delay_s: How old rows may get that only the journal has.
        file_bytes: So many bytes are committed without a wait, and a commit takes no more.
        gather_s: After a commit, the wait for as many clients to send their next batch, at the most: a commit for one
            of them would make all others wait. After a slow commit, a third of the time that it took.
        maintain_every_s: How often the table is maintained beside its commits; 0: never.
        streams_max: How many streams a table may have whose streams do not expire.
    """

    max_delay_s: float = 5.0
    file_bytes: int = 64 << 20
    gather_s: float = 0.02
    maintain_every_s: float = 300.0
    streams_max: int = 10_000


class Intake:
    """Takes the batches of one table. Thread-safe.

    Args:
        name: The table's name at the service.
        table: The table.
        pace: How rows are gathered.
        room: What bounds the rows that wait in all tables: each batch has taken its bytes there.
        counts: What counts batches and commits.
        journal: The journal, if the service has one.
        on_tick: Called after each commit.
    """

    def __init__(
        self,
        name: str,
        table: txlog.Table,
        pace: Pace,
        room: Room,
        counts: Counts,
        journal: Journal | None = None,
        on_tick: Callable[[Tick], None] | None = None,
    ) -> None:
        self.name = name
        self.table = table
        self._pace = pace
        self._room = room
        self._counts = counts
        self._journal = journal
        self._on_tick = on_tick
        of_journal = None if journal is None else f"serve-journal/{journal.id}"
        self._landing = Landing(table, of_journal, pace.streams_max, self._settle)
        if journal is not None and of_journal is not None:
            known = self._landing.snapshot.transaction_version(of_journal)
            journal.skip_to(0 if known is None else known + 1)
        self._changed = threading.Condition()
        self._waiting: list[Batch] = []
        self._waiting_bytes = 0
        self._streams: dict[str, dict[int, Batch]] = {}  # the batches of each stream that are not settled
        self._in_a_hurry = 0  # waiting batches whose clients wait too
        self._took_s = 0.0  # the last commit
        self._enough = 0  # batches of the last commit: so many clients may be about to send the next
        self._committed: dict[str, int] = {}  # where streams stand by the commits since the snapshot
        self._is_closing = False
        self._landed_rows = self._landed_batches = 0
        self._landed_version: int | None = None
        self._commits_since_upkeep, self._upkeep_at_s = 0, ambient.monotonic_s()
        self._upkeep = Background(f"txlog-serve-maintain-{name}")
        self.last_error: TxlogError | None = None
        """What the newest commit failed with; None if it landed."""
        self._thread = threading.Thread(target=self._run, name=f"txlog-serve-{name}", daemon=True)
        self._thread.start()

    # --- for the doors ------------------------------------------------------------------------------------------

    def put(self, batch: Batch, *, is_durable: bool = False) -> Future[Answer]:
        """Take a batch, whose bytes are taken in the room. They are given back when it waits no longer.

        Args:
            batch: The batch.
            is_durable: Whether the answer may come from the journal.

        Returns:
            The answer to come. For a batch that came before and still waits, the same as then.

        Raises:
            StreamOrderError: The batch does not follow its stream's last one.
            StoppingError: The service is stopping.
        """
        journal = self._journal if is_durable else None
        if journal is not None:
            batch.pack()
        for is_last in (False, True):
            with self._changed:
                if self._is_closing:
                    raise StoppingError("the service is stopping: send the batch to another one, or later")
                known = self._known(batch, is_durable)
                if known is not None:
                    self._room.give_back(batch.size_bytes)
                    return known
                if batch.number is None or self._follows(batch):
                    if journal is not None:
                        early, answer = self._will_answer_early(batch), self._durable(batch)
                        journal.keep(self.name, batch, partial(_tell, early, answer))
                    self._take(batch)
                    return batch.answer
            if not is_last:
                self._landing.snapshot = self.table.snapshot()  # another service may have the batches between
        assert batch.stream is not None
        assert batch.number is not None
        raise out_of_order(self.table.uri, batch.stream, batch.number, self.position(batch.stream)[1])

    def take_back(self, batch: Batch) -> None:
        """Take a batch that the journal has had since before this process."""
        self._will_answer_early(batch).set_result(self._durable(batch))
        batch.is_urgent = True  # it has waited long enough
        with self._changed:
            self._take(batch)

    def position(self, stream: str) -> tuple[int, int]:
        """The stream's last batch in the table, and its last one that was taken; -1 for none."""
        with self._changed:
            return self._position(stream), self._last(stream)

    def look(self) -> None:
        """Read the table's newest version, for `position`."""
        self._landing.snapshot = self.table.snapshot()

    @property
    def waiting(self) -> tuple[int, int, float]:
        """How many batches and bytes wait, and for how many seconds the oldest has."""
        with self._changed:
            age_s = ambient.monotonic_s() - self._waiting[0].taken_at_s if self._waiting else 0.0
            return len(self._waiting), self._waiting_bytes, age_s

    def close(self) -> None:
        """Take no more, commit what waits, and end. What the store does not take by then stays in the journal."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self._thread.join()
        self._upkeep.drain()

    # --- taking, with the lock held -----------------------------------------------------------------------------

    def _known(self, batch: Batch, is_durable: bool) -> Future[Answer] | None:
        """The answer to a batch that is in the table or waits already."""
        if batch.stream is None or batch.number is None:
            return None
        waiting = self._streams.get(batch.stream, {}).get(batch.number)
        if waiting is not None:
            if is_durable:
                return waiting.answer
            if not waiting.is_urgent:
                waiting.is_urgent = True
                self._in_a_hurry += waiting in self._waiting
                self._changed.notify_all()
            waiting.landed = waiting.landed or Future()
            return waiting.landed
        if batch.number > self._position(batch.stream):
            return None
        self._counts.add("batches", self.name, outcome="already_committed")
        answer: Future[Answer] = Future()
        answer.set_result(Answer("already_committed", rows=batch.rows.num_rows))
        return answer

    def _position(self, stream: str) -> int:
        return max(self._committed.get(stream, -1), self._landing.position(stream))

    def _last(self, stream: str) -> int:
        """The stream's last batch that was taken."""
        waiting = self._streams.get(stream)
        return next(reversed(waiting)) if waiting else self._position(stream)

    def _follows(self, batch: Batch) -> bool:
        assert batch.stream is not None
        assert batch.number is not None
        last = self._last(batch.stream)
        return batch.number == last + 1 or (batch.may_skip and batch.number > last)

    def _will_answer_early(self, batch: Batch) -> Future[Answer]:
        """The answer that does not wait for the commit."""
        batch.is_urgent, batch.landed = False, None
        return batch.answer

    @staticmethod
    def _durable(batch: Batch) -> Answer:
        return Answer("durable", None, batch.rows.num_rows, batch.quarantined)

    def _take(self, batch: Batch) -> None:
        batch.taken_at_s = ambient.monotonic_s()
        if batch.stream is not None and batch.number is not None:
            self._streams.setdefault(batch.stream, {})[batch.number] = batch
        self._waiting.append(batch)
        self._waiting_bytes += batch.size_bytes
        self._in_a_hurry += batch.is_urgent
        is_full = self._waiting_bytes >= self._pace.file_bytes
        if is_full or self._in_a_hurry == 1 or len(self._waiting) in (1, self._enough):
            self._changed.notify_all()

    # --- the thread that commits --------------------------------------------------------------------------------

    def _run(self) -> None:
        retry_s = 0.0
        while True:
            with self._changed:
                if retry_s and not self._is_closing:
                    self._changed.wait(retry_s)
                taken = self._next_batches()
            if not taken:
                return
            failed = self._commit(taken)
            retry_s = min(_RETRY_MAX_S, max(_RETRY_MIN_S, 2 * retry_s)) if failed else 0.0
            if failed and self._is_closing:
                self._turn_away()
                return
            self._maintain()

    def _next_batches(self) -> list[Batch]:
        """Wait for batches that are due, and take those of one commit. None if the service stops."""
        gather_until_s = ambient.monotonic_s() + max(self._pace.gather_s, self._took_s / 3)
        while True:
            if self._is_closing:
                return self._chosen()
            now_s = ambient.monotonic_s()
            due_s = self._due_s()
            if self._in_a_hurry and len(self._waiting) < self._enough:
                due_s = gather_until_s
            if due_s is not None and due_s <= now_s:
                return self._chosen()
            self._changed.wait(None if due_s is None else due_s - now_s)

    def _due_s(self) -> float | None:
        """When the waiting batches are due, by the monotonic clock; None if nothing waits."""
        if not self._waiting:
            return None
        if self._in_a_hurry or self._waiting_bytes >= self._pace.file_bytes:
            return 0.0
        return self._waiting[0].taken_at_s + self._pace.max_delay_s

    def _chosen(self) -> list[Batch]:
        """The waiting batches that do what the first does, in the order of their streams and of the journal."""
        chosen: list[Batch] = []
        rest: list[Batch] = []
        held: set[str | None] = set()  # streams whose next batch stays; None is the journal
        size_bytes = 0
        for each in self._waiting:
            fits = not chosen or (size_bytes + each.size_bytes <= self._pace.file_bytes and each.is_like(chosen[0]))
            if fits and (not held or held.isdisjoint(each.orders)):
                chosen.append(each)
                size_bytes += each.size_bytes
            else:
                rest.append(each)
                held |= each.orders
        self._waiting = rest
        self._waiting_bytes -= size_bytes
        self._in_a_hurry = sum(each.is_urgent for each in rest)
        return chosen

    def _commit(self, taken: Sequence[Batch]) -> bool:
        """Commit the batches and settle them; whether the store failed and some are to be tried again."""
        began_s = ambient.monotonic_s()
        self._landed_rows = self._landed_batches = 0
        with self._changed:  # the snapshot has the commits before the last one
            stands_at = self._landing.position
            self._committed = {name: last for name, last in self._committed.items() if last > stands_at(name)}
        try:
            self._landing.land(taken)
            self.last_error = None
        except TxlogError as error:
            self.last_error = error
        except Exception as error:  # a bug must not stop the thread, nor leave clients without an answer
            logger.exception("%s: a commit of the service failed", self.table.uri)
            self.last_error = TxlogError(f"the service failed: {error!r}", table=self.table.uri)
        self._took_s = min(ambient.monotonic_s() - began_s, _GATHER_MAX_S * 3) if self._pace.gather_s else 0.0
        if self._landed_batches:
            self._report(taken, ambient.monotonic_s() - began_s)
        if self.last_error is None:
            self._enough = len(taken)
            return False
        self._counts.add("failed_commits", self.name)
        return self._give_up(taken, self.last_error)

    def _give_up(self, taken: Sequence[Batch], error: TxlogError) -> bool:
        """Refuse what nobody but its client has, and keep what the journal has; whether there is some of that."""
        kept = [each for each in taken if not each.is_settled and each.is_durable]
        self._settle([(each, error) for each in taken if not each.is_settled and not each.is_durable])
        if kept:
            logger.warning("%s: rows of the journal wait, since a commit failed: %s", self.table.uri, error)
            with self._changed:
                for each in kept:  # who waits for the commit is told of the error, and the rows land later
                    if each.landed is not None:
                        _tell(each.landed, error)
                    each.landed, each.is_urgent = None, False
                self._waiting = kept + self._waiting
                self._waiting_bytes += sum(each.size_bytes for each in kept)
        return bool(kept)

    def _turn_away(self) -> None:
        """Tell those who wait that the service ends without their rows. What the journal has stays there."""
        with self._changed:
            waiting, self._waiting = self._waiting, []
        error = StoppingError("the service has stopped: send the batch to another one, or later")
        self._settle([(each, error) for each in waiting if not each.is_durable])

    def _settle(self, outcomes: Sequence[tuple[Batch, Answer | TxlogError]]) -> None:
        """These batches are in the table, or never will be."""
        outcomes = [(batch, outcome) for batch, outcome in outcomes if not batch.is_settled]
        for begin in range(0, len(outcomes), _SETTLED_AT_ONCE):
            self._settle_some(outcomes[begin : begin + _SETTLED_AT_ONCE])

    def _settle_some(self, outcomes: Sequence[tuple[Batch, Answer | TxlogError]]) -> None:
        for batch, outcome in outcomes:
            if isinstance(outcome, TxlogError) and batch.place is not None and self._journal is not None:
                path = self._journal.set_aside(self.name, batch, str(outcome))
                why = (self.table.uri, path, outcome)
                logger.warning("%s: the table refuses rows of the journal, which are now in %s: %s", *why)
        with self._changed:
            for batch, outcome in outcomes:
                batch.is_settled = True
                self._close(batch, isinstance(outcome, Answer))
        self._room.give_back(sum(batch.size_bytes for batch, _ in outcomes))
        places = [batch.place for batch, _ in outcomes if batch.place is not None]
        if places and self._journal is not None:
            self._journal.done(places)
        self._count(outcomes)
        for batch, outcome in outcomes:
            _tell(batch.answer, outcome)
            if batch.landed is not None and batch.landed is not batch.answer:
                _tell(batch.landed, outcome)

    def _close(self, batch: Batch, is_in_table: bool) -> None:
        """The stream waits for the batch no longer."""
        if batch.stream is None or batch.number is None:
            return
        open_batches = self._streams[batch.stream]
        open_batches.pop(batch.number, None)
        if not open_batches:
            del self._streams[batch.stream]
        if is_in_table:
            self._committed[batch.stream] = max(self._committed.get(batch.stream, -1), batch.number)

    def _count(self, outcomes: Sequence[tuple[Batch, Answer | TxlogError]]) -> None:
        names = Counter(found.outcome if isinstance(found, Answer) else "refused" for _, found in outcomes)
        for name, count in names.items():
            self._counts.add("batches", self.name, count, outcome=name)
        for batch, found in outcomes:
            if isinstance(found, Answer) and found.outcome == "committed":
                self._landed_rows += batch.rows.num_rows
                self._landed_batches += 1
                self._landed_version = found.version

    def _report(self, taken: Sequence[Batch], seconds: float) -> None:
        self._commits_since_upkeep += 1
        size_bytes = sum(each.size_bytes for each in taken)
        tick = Tick(self.name, self._landed_version, self._landed_batches, self._landed_rows, size_bytes, seconds)
        self._counts.ticked(tick)
        if self._on_tick is not None:
            self._on_tick(tick)

    def _maintain(self) -> None:
        """Maintain the table beside its commits, if it is time."""
        every_s, now_s = self._pace.maintain_every_s, ambient.monotonic_s()
        is_due = now_s - self._upkeep_at_s >= every_s or self._commits_since_upkeep >= _COMMITS_MAX
        if not every_s or not self._commits_since_upkeep or not is_due:
            return
        self._commits_since_upkeep, self._upkeep_at_s = 0, now_s
        self._upkeep.begin(f"maintaining {self.table.uri}", self.table.maintain)


def _tell(answer: Future[Answer], outcome: Answer | TxlogError) -> None:
    """Tell the client, unless it was told before: the journal and the commit may do so at the same time."""
    if answer.done():
        return
    with contextlib.suppress(InvalidStateError):
        if isinstance(outcome, Answer):
            answer.set_result(outcome)
        else:
            answer.set_exception(outcome)
