"""Handles that wait for one turn hand their appends over to the one that has it, as processes of one machine do."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from msgspec.structs import replace

from txlog.core import ambient
from txlog.core.format.log_names import commit_name
from txlog.core.store import PutOutcome, RetryPolicy, TableStore
from txlog.core.store import _commit_queue as commit_queue
from txlog.core.store._base import OBJECT_STORE
from txlog.core.store._commit_queue import MachineCommitQueue
from txlog.core.versions._committer import Committer, _Append, _Joined
from txlog.core.versions._open_table import OpenTable
from txlog.core.versions.decisions import handover_messages as handed_over
from txlog.core.versions.decisions.proposal import Isolation, OperationInfo
from txlog.core.versions.decisions.proposal_builder import ProposalBuilder
from txlog.core.versions.decisions.state import TableState
from txlog.errors import CommitStateUnknownError, ConcurrentAppendError, ConcurrentTransactionError, StorageError
from txlog.result import WriteResult
from txlog.table import Table
from txlog.testing.faults import FaultyLogStore
from txlog.testing.memory_store import MemoryFileStore, MemoryLogStore

Step = Callable[..., Any]
LATEST_S = 60.0
ROWS = pa.schema([("id", pa.int64()), ("by", pa.int64())])


class Machine:
    """A table in memory and a handle for each of some writers. All wait for turns in one folder."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, writers: int = 3) -> None:
        monkeypatch.setattr("tempfile.gettempdir", lambda: str(folder))
        self.log = FaultyLogStore(MemoryLogStore())
        self.log.inner.capabilities = OBJECT_STORE  # type: ignore[misc]
        self.store = TableStore("memory://table", self.log, MemoryFileStore(), commit_queue=MachineCommitQueue("table"))
        self.offers = folder / f"txlog-{os.getuid()}" / "table.offers"
        _create(OpenTable(self.store))
        self.tables = [Table(OpenTable(self.store, RetryPolicy(total_timeout=LATEST_S))) for _ in range(writers)]
        for table in self.tables:
            table._open_table._commits.require_refusals(table._open_table.log.newest_state())
        self.answers: dict[int, WriteResult | BaseException] = {}
        self.log.calls.clear()

    def meet(self, at_put: Step | None = None, *, append: Callable[[int], WriteResult] | None = None) -> None:
        """The first writer appends; while it puts, the others offer theirs. ``at_put`` is the put that follows."""
        others = len(self.tables) - 1

        def hold(real: Step, name: str, body: bytes) -> PutOutcome:
            _until(lambda: self.waiting() == others)
            return real(name, body)  # type: ignore[no-any-return]

        self.log.script["put_if_absent"] = [hold, at_put]
        threads = [threading.Thread(target=self._work, args=(0, self.append), daemon=True)]
        threads[0].start()
        _until(lambda: self.log.names("put_if_absent"))
        for writer in range(1, others + 1):
            threads.append(threading.Thread(target=self._work, args=(writer, append or self.append), daemon=True))
            threads[-1].start()
        for thread in threads:
            thread.join(LATEST_S)
            assert not thread.is_alive()

    def waiting(self) -> int:
        return sum(entry.endswith(".offer") for entry in os.listdir(self.offers)) if self.offers.exists() else 0

    def append(self, writer: int, **options: Any) -> WriteResult:
        return self.tables[writer].append(pa.table({"id": [writer], "by": [writer]}, ROWS), **options)

    def _work(self, writer: int, append: Callable[[int], WriteResult]) -> None:
        try:
            self.answers[writer] = append(writer)
        except BaseException as error:
            self.answers[writer] = error

    def rows(self) -> list[int]:
        return sorted(Table(OpenTable(self.store)).snapshot().to_arrow().column("id").to_pylist())

    def version_of(self, txn_id: str) -> list[int]:
        found = []
        for name, (body, _) in self.log.inner.objects.items():  # type: ignore[attr-defined]
            info = orjson.loads(body.splitlines()[0])["commitInfo"] if name.endswith(".json") else {"txnId": None}
            if txn_id in [info["txnId"], *(each["txnId"] for each in info.get("txlog", {}).get("joined", ()))]:
                found.append(int(name.removesuffix(".json")))
        return found

    def require_answers(self, *writers: int) -> None:
        for writer in writers:
            result = self.answers[writer]
            assert isinstance(result, WriteResult), result
            assert (result.outcome, result.metrics.rows) == ("committed", 1)
            assert self.version_of(result.txn_id) == [result.version]


def _create(open_table: OpenTable) -> None:
    from txlog.core.definition import Definition, commit_definition, new_table

    commit_definition(open_table, None, Definition(*new_table(ROWS, (), {})), "CREATE TABLE", {})


def _until(holds: Callable[[], object]) -> None:
    end_s = ambient.monotonic_s() + LATEST_S
    while not holds():
        assert ambient.monotonic_s() < end_s
        ambient.sleep(0.001)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def test_those_that_wait_for_a_turn_become_one_version(machine: Machine) -> None:
    machine.meet()
    machine.require_answers(0, 1, 2)
    assert {answer.version for answer in machine.answers.values()} == {1, 2}  # type: ignore[union-attr]
    assert machine.rows() == [0, 1, 2]
    assert os.listdir(machine.offers) == []


@pytest.mark.parametrize("has_landed", [True, False])
def test_an_append_interrupted_while_another_writer_commits_it_is_not_reported_as_unsent(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, has_landed: bool
) -> None:
    original, is_taken = _Joined.is_carried, threading.Event()

    def interrupt(commit: _Joined, state: TableState) -> bool:
        found = original(commit, state)
        if commit.offer is not None and commit.offer.state().kind == "taken" and not is_interrupted():
            is_taken.set()
            if has_landed:
                _until(lambda: commit_name(2) in machine.log.inner.objects)  # type: ignore[attr-defined]
            raise KeyboardInterrupt
        return found

    def is_interrupted() -> bool:
        return any(isinstance(answer, KeyboardInterrupt) for answer in machine.answers.values())

    def hold(real: Step, name: str, body: bytes) -> PutOutcome:
        _until(is_taken.is_set if has_landed else is_interrupted)
        return real(name, body)  # type: ignore[no-any-return]

    monkeypatch.setattr(_Joined, "is_carried", interrupt)
    with caplog.at_level("WARNING", "txlog"):
        machine.meet(hold)
    assert is_interrupted()
    assert machine.rows() == [0, 1, 2]
    (message,) = [record.getMessage() for record in caplog.records if "interrupted" in record.getMessage()]
    assert ("is in the log" if has_landed else "may still be committed by another writer") in message


def test_a_lone_append_leaves_no_offer(machine: Machine) -> None:
    machine.append(0)
    assert not machine.offers.exists()


@pytest.mark.parametrize("has_landed", [True, False])
def test_a_carrier_that_is_interrupted_loses_and_doubles_nobodys_append(machine: Machine, has_landed: bool) -> None:
    def interrupt(real: Step, name: str, body: bytes) -> PutOutcome:
        if has_landed:
            real(name, body)
        raise KeyboardInterrupt

    machine.meet(interrupt)
    interrupts = [writer for writer, answer in machine.answers.items() if isinstance(answer, KeyboardInterrupt)]
    assert len(interrupts) == 1
    machine.require_answers(*{0, 1, 2} - {*interrupts})
    assert machine.rows() == [writer for writer in range(3) if has_landed or writer not in interrupts]


def test_who_finds_itself_in_its_carriers_version_has_sent_one_commit_and_has_not_seen_the_carriers_rows(
    machine: Machine,
) -> None:
    def die(real: Step, name: str, body: bytes) -> PutOutcome:
        real(name, body)
        raise KeyboardInterrupt

    machine.tables[0].set_properties({"delta.isolationLevel": "Serializable"})
    for table in machine.tables:
        table.to_arrow()
    machine.log.calls.clear()
    machine.meet(die)
    carrier, carried = sorted({1, 2}, key=lambda writer: isinstance(machine.answers[writer], WriteResult))
    result = machine.answers[carried]
    assert isinstance(result, WriteResult)
    assert (result.outcome, result.attempts) == ("committed", 1)
    unseen, where = pa.table({"id": [7], "by": [carrier]}, ROWS), f"by = {carrier}"
    with pytest.raises(ConcurrentAppendError):
        machine.tables[carried].overwrite(unseen, where=where)
    assert machine.rows() == [0, 1, 2]


def test_who_was_carried_finds_out_what_its_carrier_does_not_know(machine: Machine) -> None:
    for table in machine.tables:
        table._open_table._commits.retry = RetryPolicy(total_timeout=0.0)  # type: ignore[attr-defined]

    def lose(real: Step, name: str, body: bytes) -> PutOutcome:
        real(name, body)
        machine.log.script["read"] = [_unreadable]
        return PutOutcome.UNKNOWN

    machine.meet(lose)
    unknown = [writer for writer, answer in machine.answers.items() if isinstance(answer, CommitStateUnknownError)]
    assert len(unknown) == 1
    machine.require_answers(*{0, 1, 2} - {*unknown})
    error: Any = machine.answers[unknown[0]]
    assert machine.tables[0].resolve(error.txn_id, error.version)
    assert machine.rows() == [0, 1, 2]


def _unreadable(real: Step, name: str) -> bytes:
    raise StorageError("503")


def test_a_carrier_that_stands_still_does_not_block_who_it_carries(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the turn, and sends its commit when the other one has its answer."""

    def stand_still(real: Step, name: str, body: bytes) -> PutOutcome:
        monkeypatch.setattr(commit_queue, "FAR_WAIT_MAX_S", 0.05)
        _until(lambda: len(machine.answers) == 2)
        return real(name, body)  # type: ignore[no-any-return]

    monkeypatch.setattr(commit_queue, "FAR_PAUSE_MAX_S", 0.01)
    looks = _Impatient(monkeypatch)
    machine.meet(lambda *given: (looks.begin(), stand_still(*given))[1])
    machine.require_answers(0, 1, 2)
    assert machine.rows() == [0, 1, 2]


class _Impatient:
    """From `begin` on a wait for a turn ends without one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._has_begun = threading.Event()
        real = commit_queue.Turn.lock

        def lock(turn: Any) -> bool:
            if self._has_begun.is_set():
                raise OSError("no turn")
            return real(turn)

        monkeypatch.setattr(commit_queue.Turn, "lock", lock)

    def begin(self) -> None:
        self._has_begun.set()


def test_one_conflict_among_good_appends_is_the_error_of_its_caller_alone(
    machine: Machine,
) -> None:
    rival = Table(OpenTable(TableStore("memory://table", machine.log, machine.store.files)))

    def lose_the_race(real: Step, name: str, body: bytes) -> PutOutcome:
        rival.append(pa.table({"id": [100], "by": [100]}, ROWS), app_id="app", checkpoint_id=9)
        return real(name, body)  # type: ignore[no-any-return]

    def append(writer: int) -> WriteResult:
        return machine.append(writer, **({"app_id": "app", "checkpoint_id": 3} if writer == 2 else {}))

    machine.meet(lose_the_race, append=append)
    machine.require_answers(0, 1)
    assert isinstance(machine.answers[2], ConcurrentTransactionError)
    assert machine.rows() == [0, 1, 100]


def test_without_room_for_an_offer_everybody_waits_for_a_turn(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def full(path: Any, flags: int, mode: int = 0o777, **named: Any) -> int:
        if str(path).endswith(".tmp"):
            raise OSError(errno.ENOSPC, "no space left on device")
        return real(path, flags, mode, **named)

    monkeypatch.setattr(os, "open", full)
    monkeypatch.setattr(machine, "waiting", lambda: len(machine.tables) - 1)
    machine.meet()
    machine.require_answers(0, 1, 2)
    assert {answer.version for answer in machine.answers.values()} == {1, 2, 3}  # type: ignore[union-attr]


def test_what_another_one_carried_counts_as_the_users_own_and_the_others_rows_do_not(machine: Machine) -> None:
    """An overwrite of what the user read and wrote keeps the rows that others appended in the same version."""
    for table in machine.tables:
        table.snapshot().to_arrow()
    machine.meet()
    shared = [writer for writer in (1, 2) if machine.answers[writer].version == 2]  # type: ignore[union-attr]
    assert shared == [1, 2]
    machine.tables[1].overwrite(pa.table({"id": [50], "by": [50]}, ROWS), where="id >= 0")
    assert machine.rows() == [0, 2, 50]


@pytest.mark.parametrize(
    "spoilt",
    [b"", b"{}", b"null\n", b'{"format":2}\n', b"\xff\xff", b'{"format":1,"table":"memory://table"}\n'],
)
def test_an_offer_that_cannot_be_read_is_left_to_its_owner(machine: Machine, spoilt: bytes) -> None:
    state = machine.tables[0]._open_table.log.newest_state()
    assert handed_over.from_bytes("memory://table", spoilt, state) is None
    machine.offers.mkdir(parents=True)
    (machine.offers / "spoilt.offer").write_bytes(spoilt)
    assert machine.append(0).version == 1
    assert machine.log.inner.objects.keys() >= {commit_name(1)}  # type: ignore[attr-defined]
    assert (machine.offers / "spoilt.offer").exists()


def test_each_hears_of_its_version_though_its_carrier_lost_races_and_was_carried_itself(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writer 0 carries writer 1, loses races to another machine, and then is carried by writer 2."""
    queue = machine.store.commit_queue
    real_take, done = queue.take, {"turns of 0": 0}
    turn_of_2, offered_by_0 = threading.Event(), threading.Event()

    def take(since_s: float, meanwhile: Any, answered: Any = None) -> commit_queue.Turn:
        writer = threading.current_thread().name
        done["turns of 0"] += writer == "0"
        if writer == "1" or (writer == "0" and done["turns of 0"] == 3):  # it gets no turn, and so has to be carried
            if writer == "0":
                assert turn_of_2.wait(LATEST_S)
                answered()
                offered_by_0.set()
            _until(answered)
            return commit_queue.Turn()
        turn = real_take(since_s, meanwhile, answered)
        if writer == "2":
            turn_of_2.set()
            assert offered_by_0.wait(LATEST_S)
        return turn

    def lose(until: Callable[[], object], starts: int | None) -> Step:
        def put(real: Step, name: str, body: bytes) -> PutOutcome:
            if starts is not None:
                threads[starts].start()
            _until(until)
            elsewhere.append(pa.table({"id": [9], "by": [9]}, ROWS))
            return real(name, body)  # type: ignore[no-any-return]

        return put

    monkeypatch.setattr(queue, "take", take)
    elsewhere = Table(OpenTable(replace(machine.store, log=machine.log.inner, commit_queue=commit_queue.OPEN)))
    threads = [
        threading.Thread(target=machine._work, args=(writer, machine.append), name=str(writer), daemon=True)
        for writer in range(3)
    ]
    machine.log.script["put_if_absent"] = [
        lose(lambda: machine.waiting() == 1, starts=1),  # then 0 carries 1
        lose(lambda: True, starts=2),
    ]
    threads[0].start()
    _until(lambda: len(machine.answers) == 3)
    machine.require_answers(0, 1, 2)
    assert {answer.version for answer in machine.answers.values()} == {3}  # type: ignore[union-attr]
    assert machine.rows() == [0, 1, 2, 9, 9]


def test_an_append_that_leaves_a_commit_which_another_process_took_knows_as_which_version_it_may_land(
    machine: Machine,
) -> None:
    committer = machine.tables[0]._open_table._committer
    assert isinstance(committer, Committer)
    place = machine.store.commit_queue.hand_over
    assert place is not None
    state = machine.tables[0]._open_table.log.newest_state()
    facts: Any = {"now_ms": 0, "isolation": Isolation.SERIALIZABLE}
    leader, leaver = (
        _Append(ProposalBuilder(state).build(OperationInfo("WRITE"), txn_id=txn_id, **facts), state, None)
        for txn_id in ("leader", "leaver")
    )
    commit = _Joined(committer, leader)
    commit.carried.append(leaver)
    leaver.carried_by(commit)
    commit.version, commit.offer = 1, place.offer("both", b"their appends")
    assert place.take("both", 7)
    committer._leave(leaver)
    assert leaver.sent_as == 7
    assert not place.take("both", 8, before=7), "it is in no later version"
    assert commit.withdraw() == (7, False), "the leader hears of that version, too"
