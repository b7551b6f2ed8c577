"""Threads that append through one handle at the same time: each has its own answer, and no append is lost or doubled.

The first append is held in its put until the others wait. The next put then carries all of them: what happens there is
the test.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

from txlog.core import ambient
from txlog.core.format.actions import AddFile
from txlog.core.format.log_names import commit_name
from txlog.core.store import PutOutcome, RetryPolicy, TableStore
from txlog.core.store._base import LOCAL_DISK, OBJECT_STORE
from txlog.core.versions._committer import Committer
from txlog.core.versions._open_table import OpenTable
from txlog.core.versions._peers import WriterPeers
from txlog.core.versions.decisions.proposal import Isolation, OperationInfo
from txlog.core.versions.decisions.proposal_builder import ProposalBuilder
from txlog.errors import (
    CommitStateUnknownError,
    ConcurrentTransactionError,
    InvalidInputError,
    MetadataChangedError,
    StorageError,
)
from txlog.hooks import CommitHooks
from txlog.result import WriteResult
from txlog.table import Table
from txlog.testing.faults import FaultyLogStore
from txlog.testing.memory_store import MemoryFileStore, MemoryLogStore

OTHERS = 5
LATEST_S = 60.0

Step = Callable[..., Any]


class Meeting:
    """A table in memory, a handle on it, and threads that append at the same time."""

    def __init__(self, kind: str = "object", hooks: CommitHooks | None = None, **properties: str) -> None:
        self.log = FaultyLogStore(MemoryLogStore())
        self.log.inner.capabilities = OBJECT_STORE if kind == "object" else LOCAL_DISK  # type: ignore[misc]
        self.files = MemoryFileStore()
        self.store = TableStore("memory://table", self.log, self.files)
        self.open_table = OpenTable(self.store, RetryPolicy(total_timeout=LATEST_S), hooks)
        self.table = Table(self.open_table)
        self.answers: dict[int, WriteResult | BaseException] = {}
        _create(self.open_table, {f"delta.{name}": value for name, value in properties.items()})
        self.open_table._commits.require_refusals(self.open_table.log.newest_state())  # its probe is a put too
        self.log.calls.clear()

    @property
    def committer(self) -> Any:
        return self.open_table._committer

    def meet(self, *appends: Callable[[], WriteResult], at_put: Step | None = None, first: Step | None = None) -> None:
        """Make one append, and while it is under way all ``appends``; ``at_put`` replaces the put that carries them."""

        def hold(real: Step, name: str, body: bytes) -> PutOutcome:
            _until(lambda: len(self.committer.waiting) == len(appends))
            return real(name, body) if first is None else first(real, name, body)  # type: ignore[no-any-return]

        self.log.script["put_if_absent"] = [hold, at_put]
        threads = [self._begin(0, lambda: self.append(0))]
        _until(lambda: self.log.names("put_if_absent"))
        for number, append in enumerate(appends, start=1):
            threads.append(self._begin(number, append))
            if number < len(appends):  # in their order; with the last one, the first put goes on
                _until(lambda number=number: len(self.committer.waiting) == number)
        for thread in threads:
            thread.join(LATEST_S)
            assert not thread.is_alive(), "nobody waits for ever"

    def append(self, number: int, **options: Any) -> WriteResult:
        return self.table.append(rows(number), **options)

    def appends(self, numbers: range = range(1, OTHERS + 1)) -> list[Callable[[], WriteResult]]:
        return [lambda number=number: self.append(number) for number in numbers]  # type: ignore[misc]

    def _begin(self, number: int, append: Callable[[], WriteResult]) -> threading.Thread:
        def work() -> None:
            try:
                self.answers[number] = append()
            except BaseException as error:
                self.answers[number] = error

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        return thread

    # --- what a reader finds ---------------------------------------------------------------------------------------

    def numbers(self) -> list[int]:
        """The rows of the table, as a new handle reads them."""
        found = Table(OpenTable(self.store)).snapshot().to_arrow().column("id").to_pylist()
        return sorted(found)

    def info(self, version: int) -> dict[str, Any]:
        body = self.log.inner.objects[commit_name(version)][0]  # type: ignore[attr-defined]
        info: dict[str, Any] = orjson.loads(body.splitlines()[0])["commitInfo"]
        return info

    def version_of(self, txn_id: str) -> list[int]:
        """The versions that hold this transaction, from the raw log."""
        names = [name for name in self.log.inner.objects if name.endswith(".json")]  # type: ignore[attr-defined]
        versions = sorted(int(name.removesuffix(".json")) for name in names)
        return [version for version in versions if txn_id in _ids(self.info(version))]

    def require_answers(self, *numbers: int) -> None:
        """Each of these appends was acknowledged, is in the version that it got, once, and counts its own row."""
        for number in numbers:
            result = self.answers[number]
            assert isinstance(result, WriteResult), result
            assert self.version_of(result.txn_id) == [result.version]
            assert (result.outcome, result.metrics.rows, result.metrics.files) == ("committed", 1, 1)


def rows(number: int) -> pa.Table:
    return pa.table({"id": pa.array([number], pa.int64())})


def _create(open_table: OpenTable, properties: dict[str, str]) -> None:
    from txlog.core.definition import Definition, commit_definition, new_table

    definition = Definition(*new_table(pa.schema([("id", pa.int64())]), (), properties))
    commit_definition(open_table, None, definition, "CREATE TABLE", {})


def _ids(info: dict[str, Any]) -> list[str]:
    return [info["txnId"], *(each["txnId"] for each in info["txlog"].get("joined", ()))]


def _until(holds: Callable[[], object]) -> None:
    """Wait for other threads."""
    end_s = ambient.monotonic_s() + LATEST_S
    while not holds():
        assert ambient.monotonic_s() < end_s
        ambient.sleep(0.001)


def interrupted(real: Step, name: str, body: bytes) -> PutOutcome:
    raise KeyboardInterrupt


def interrupted_after(real: Step, name: str, body: bytes) -> PutOutcome:
    real(name, body)
    raise KeyboardInterrupt


def lost_after(real: Step, name: str, body: bytes) -> PutOutcome:
    real(name, body)
    return PutOutcome.UNKNOWN


def lost_before(real: Step, name: str, body: bytes) -> PutOutcome:
    return PutOutcome.UNKNOWN


# --- one version ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["object", "local"])
def test_appends_that_wait_for_another_become_one_version(kind: str) -> None:
    meeting = Meeting(kind)
    meeting.meet(*meeting.appends())
    meeting.require_answers(*range(OTHERS + 1))
    assert {number: answer.version for number, answer in meeting.answers.items()} == {  # type: ignore[union-attr]
        0: 1,
        **dict.fromkeys(range(1, OTHERS + 1), 2),
    }
    assert meeting.numbers() == [*range(OTHERS + 1)]
    assert len({answer.txn_id for answer in meeting.answers.values()}) == OTHERS + 1  # type: ignore[union-attr]


def test_a_lone_append_is_committed_as_ever() -> None:
    meeting = Meeting()
    result = meeting.append(1)
    assert meeting.info(1)["txnId"] == result.txn_id
    assert "joined" not in meeting.info(1)["txlog"]
    assert len(meeting.log.names("put_if_absent")) == 1


def test_what_the_appends_say_stays_theirs() -> None:
    meeting = Meeting()
    meeting.meet(
        lambda: meeting.append(1, user_metadata="one"),
        lambda: meeting.append(2, app_id="app", checkpoint_id=7),
        lambda: meeting.table.append(pa.table({"id": [3, 4, 5]})),
    )
    joined = meeting.info(2)["txlog"]["joined"]
    assert [each.get("userMetadata") for each in joined] == ["one", None, None]
    assert [each.get("appId") for each in joined] == [None, "app", None]
    assert [each["rows"] for each in joined] == [1, 1, 3]
    assert [meeting.answers[number].metrics.rows for number in (1, 2, 3)] == [1, 1, 3]  # type: ignore[union-attr]
    assert meeting.info(2)["operationMetrics"]["numOutputRows"] == "5"


def test_many_threads_append_every_row_once_in_far_fewer_versions() -> None:
    meeting = Meeting()

    def slowly(real: Step, name: str, body: bytes) -> PutOutcome:
        ambient.sleep(0.01)
        return real(name, body)  # type: ignore[no-any-return]

    meeting.log.script["put_if_absent"] = [slowly] * 1000
    results: list[WriteResult] = []

    def work(thread: int) -> None:
        mine = [meeting.append(100 * thread + number) for number in range(5)]
        assert [result.version for result in mine] == sorted({result.version for result in mine}), "in its order"
        results.extend(mine)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LATEST_S)
    assert meeting.numbers() == sorted(100 * thread + number for thread in range(64) for number in range(5))
    assert all(meeting.version_of(result.txn_id) == [result.version] for result in results[::7])
    assert len(results) == 320
    assert len({result.version for result in results}) < 160


def test_the_definition_of_who_is_told_what_holds_for_hooks_too() -> None:
    told: list[tuple[int | None, str, int]] = []

    class Told(CommitHooks):
        def on_commit(self, table: str, result: WriteResult) -> None:
            told.append((result.version, result.txn_id, threading.get_ident()))

    meeting = Meeting(hooks=Told())
    told.clear()
    meeting.meet(*meeting.appends())
    assert Counter(version for version, _, _ in told) == {1: 1, 2: OTHERS}
    assert len({thread for _, _, thread in told}) == OTHERS + 1
    assert {txn_id for _, txn_id, _ in told} == {answer.txn_id for answer in meeting.answers.values()}  # type: ignore[union-attr]


# --- those that may not be joined ---------------------------------------------------------------------------------


def test_two_commits_of_one_checkpoint_become_two_versions_and_the_second_is_a_replay() -> None:
    meeting = Meeting()
    meeting.meet(*[lambda number=number: meeting.append(number, app_id="app", checkpoint_id=1) for number in (1, 2)])
    outcomes = Counter(answer.outcome for answer in meeting.answers.values())  # type: ignore[union-attr]
    assert outcomes == {"committed": 2, "already_committed": 1}
    assert len(meeting.numbers()) == 2


def test_one_conflict_among_good_appends_is_the_error_of_its_caller_alone() -> None:
    """While the first one puts, another process commits a later checkpoint of one of those that wait."""
    meeting = Meeting()
    rival = Table(OpenTable(meeting.store))

    def lose_the_race(real: Step, name: str, body: bytes) -> PutOutcome:
        rival.append(rows(100), app_id="app", checkpoint_id=9)
        return real(name, body)  # type: ignore[no-any-return]

    meeting.meet(
        lambda: meeting.append(1),
        lambda: meeting.append(2, app_id="app", checkpoint_id=3),
        lambda: meeting.append(3, app_id="other", checkpoint_id=3),
        at_put=lose_the_race,
    )
    meeting.require_answers(0, 1, 3)
    assert isinstance(meeting.answers[2], ConcurrentTransactionError)
    assert meeting.numbers() == [0, 1, 3, 100]


def test_a_replay_of_one_is_not_the_answer_of_the_others() -> None:
    meeting = Meeting()
    rival = Table(OpenTable(meeting.store))

    def lose_the_race(real: Step, name: str, body: bytes) -> PutOutcome:
        rival.append(rows(100), app_id="app", checkpoint_id=3)
        return real(name, body)  # type: ignore[no-any-return]

    meeting.meet(
        lambda: meeting.append(1),
        lambda: meeting.append(2, app_id="app", checkpoint_id=3),
        at_put=lose_the_race,
    )
    meeting.require_answers(0, 1)
    assert meeting.answers[2].outcome == "already_committed"  # type: ignore[union-attr]
    assert meeting.numbers() == [0, 1, 100]


def test_each_caller_gets_its_own_error_after_a_definition_change() -> None:
    meeting = Meeting()
    rival = Table(OpenTable(meeting.store))

    def lose_the_race(real: Step, name: str, body: bytes) -> PutOutcome:
        rival.set_properties({"delta.appendOnly": "true"})
        return real(name, body)  # type: ignore[no-any-return]

    meeting.meet(*meeting.appends(), at_put=lose_the_race)
    errors = [meeting.answers[number] for number in range(1, OTHERS + 1)]
    assert all(isinstance(error, MetadataChangedError) for error in errors)
    assert len({id(error) for error in errors}) == OTHERS
    assert meeting.numbers() == [0]


def test_an_append_that_no_reader_could_take_fails_alone() -> None:
    """On a table that tracks rows, a file without a row count cannot be numbered."""
    meeting = Meeting(enableRowTracking="true")

    def commit_without_statistics() -> WriteResult:
        state = meeting.open_table.log.newest_state()
        builder = ProposalBuilder(state)
        builder.add(AddFile("uncounted", {}, 1, 0, True))
        info = OperationInfo("WRITE", {"mode": '"Append"', "partitionBy": '"[]"'}, {"numOutputRows": "1"})
        return meeting.open_table.commit_change(builder, info, Isolation.WRITE_SERIALIZABLE)

    meeting.meet(lambda: meeting.append(1), commit_without_statistics, lambda: meeting.append(3))
    meeting.require_answers(0, 1, 3)
    assert isinstance(meeting.answers[2], InvalidInputError)
    assert meeting.numbers() == [0, 1, 3]


# --- a leader that does not come to its end -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["object", "local"])
@pytest.mark.parametrize("step", [interrupted, interrupted_after], ids=["before it lands", "after it landed"])
def test_an_interrupted_leader_loses_and_doubles_nobodys_append(step: Step, kind: str) -> None:
    meeting = Meeting(kind)
    meeting.meet(*meeting.appends(), at_put=step)
    interrupts = [number for number, answer in meeting.answers.items() if isinstance(answer, KeyboardInterrupt)]
    assert interrupts == [1], "whoever waited first has led"
    meeting.require_answers(0, *range(2, OTHERS + 1))
    expected = [number for number in range(OTHERS + 1) if number != 1 or step is interrupted_after]
    assert meeting.numbers() == expected
    meeting.append(9)
    assert 9 in meeting.numbers()


def test_a_leader_that_is_interrupted_while_it_reads_back_loses_nobodys_append() -> None:
    meeting = Meeting()

    def stop(real: Step, name: str) -> bytes:
        raise KeyboardInterrupt

    def lose(real: Step, name: str, body: bytes) -> PutOutcome:
        real(name, body)
        meeting.log.script["read"] = [stop]
        return PutOutcome.UNKNOWN

    meeting.meet(*meeting.appends(), at_put=lose)
    assert isinstance(meeting.answers[1], KeyboardInterrupt)
    meeting.require_answers(0, *range(2, OTHERS + 1))
    assert meeting.numbers() == [*range(OTHERS + 1)]


def test_a_hook_that_raises_anything_in_the_leader_harms_nobody() -> None:
    leader: list[str] = []

    class Fails(CommitHooks):
        def on_retry(self, table: str, lost: Any) -> None:
            if not leader:  # those that it carried may lose races to each other
                leader.append(lost.txn_id)
                raise SystemExit

    meeting = Meeting(hooks=Fails())
    rival = Table(OpenTable(meeting.store))

    def lose_the_race(real: Step, name: str, body: bytes) -> PutOutcome:
        rival.append(rows(100))
        return real(name, body)  # type: ignore[no-any-return]

    meeting.meet(*meeting.appends(), at_put=lose_the_race)
    assert isinstance(meeting.answers[1], SystemExit)
    meeting.require_answers(0, *range(2, OTHERS + 1))
    assert meeting.numbers() == [0, *range(2, OTHERS + 1), 100]


def test_a_hook_of_the_leader_may_append_itself() -> None:
    class Appends(CommitHooks):
        def on_retry(self, table: str, lost: Any) -> None:
            meeting.append(50)

    meeting = Meeting(hooks=Appends())
    rival = Table(OpenTable(meeting.store))

    def lose_the_race(real: Step, name: str, body: bytes) -> PutOutcome:
        rival.append(rows(100))
        return real(name, body)  # type: ignore[no-any-return]

    meeting.meet(*meeting.appends(), at_put=lose_the_race)
    meeting.require_answers(*range(OTHERS + 1))
    assert meeting.numbers() == [*range(OTHERS + 1), 50, 100]


def test_nobody_waits_for_ever_for_a_leader_that_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first put stands still until all others have been served without it."""
    meeting = Meeting()
    meeting.meet(*meeting.appends(), first=_standing_still(meeting, monkeypatch))
    meeting.require_answers(*range(OTHERS + 1))
    assert meeting.numbers() == [*range(OTHERS + 1)]


def test_nobody_waits_for_ever_for_a_commit_that_carries_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The put that carries the others stands still until they have left it, and must not double them."""
    meeting = Meeting()
    meeting.meet(*meeting.appends(), at_put=_standing_still(meeting, monkeypatch))
    meeting.require_answers(*range(OTHERS + 1))
    assert meeting.numbers() == [*range(OTHERS + 1)]


def _standing_still(meeting: Meeting, monkeypatch: pytest.MonkeyPatch) -> Step:
    """A put that is sent after all the others have their answers. Their patience ends when it begins."""
    has_begun = threading.Event()
    monkeypatch.setattr(Committer, "_patience_s", lambda self, mine: 0.0 if has_begun.is_set() else 0.01)

    def stand_still(real: Step, name: str, body: bytes) -> PutOutcome:
        has_begun.set()
        _until(lambda: len(meeting.answers) == OTHERS)
        return real(name, body)  # type: ignore[no-any-return]

    return stand_still


def test_a_fork_while_another_thread_leads_leaves_a_child_that_commits_by_itself() -> None:
    meeting = Meeting()
    child_ended = []

    def fork(real: Step, name: str, body: bytes) -> PutOutcome:
        child = threading.Thread(target=lambda: child_ended.append(_in_child(lambda: meeting.append(50).version == 2)))
        child.start()
        child.join(LATEST_S)
        return real(name, body)  # type: ignore[no-any-return]

    meeting.meet(*meeting.appends(), at_put=fork)
    assert child_ended == [0]
    meeting.require_answers(*range(OTHERS + 1))


def _in_child(works: Callable[[], bool]) -> int:
    """How a child of this process ends: 0 if it ``works``."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if works() else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


# --- one that waits, and is interrupted ---------------------------------------------------------------------------


class Interrupts(ambient.Ambient):
    """Ctrl-C while it waits, once ``when`` holds."""

    def __init__(self, when: Callable[[], object]) -> None:
        self._when = when

    def wait(self, event: threading.Event, seconds: float) -> None:
        _until(self._when)
        raise KeyboardInterrupt


def test_who_is_interrupted_before_it_is_carried_appends_nothing() -> None:
    meeting, has_begun = Meeting(), threading.Event()

    def append() -> WriteResult:
        with ambient.use(Interrupts(has_begun.is_set)):
            return meeting.append(1)

    def hold(real: Step, name: str, body: bytes) -> PutOutcome:
        has_begun.set()
        _until(lambda: 1 in meeting.answers)
        return real(name, body)  # type: ignore[no-any-return]

    meeting.meet(append, lambda: meeting.append(2), first=hold)
    assert isinstance(meeting.answers[1], KeyboardInterrupt)
    meeting.require_answers(0, 2)
    assert meeting.numbers() == [0, 2]
    assert len(meeting.files.objects) == 2, "its file is deleted"


def test_who_is_interrupted_while_it_is_carried_keeps_its_files() -> None:
    meeting = Meeting()

    def append() -> WriteResult:
        with ambient.use(Interrupts(lambda: len(meeting.log.names("put_if_absent")) == 2)):
            return meeting.append(2)

    def hold(real: Step, name: str, body: bytes) -> PutOutcome:
        _until(lambda: 2 in meeting.answers)
        return real(name, body)  # type: ignore[no-any-return]

    meeting.meet(lambda: meeting.append(1), append, lambda: meeting.append(3), at_put=hold)
    assert isinstance(meeting.answers[2], KeyboardInterrupt)
    meeting.require_answers(0, 1, 3)
    assert meeting.numbers() == [0, 1, 2, 3], "it was under way, as any append is whose put is interrupted"


# --- lost answers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["object", "local"])
@pytest.mark.parametrize("step", [lost_after, lost_before])
def test_a_lost_answer_is_found_out_for_all(step: Step, kind: str) -> None:
    meeting = Meeting(kind)
    meeting.meet(*meeting.appends(), at_put=step)
    meeting.require_answers(*range(OTHERS + 1))
    assert meeting.numbers() == [*range(OTHERS + 1)]


@pytest.mark.parametrize("landed", [True, False])
def test_an_unknown_outcome_is_unknown_for_each_and_resolve_answers_for_each(landed: bool) -> None:
    meeting = Meeting()
    meeting.open_table._commits.retry = RetryPolicy(total_timeout=0.0)  # type: ignore[attr-defined]

    def lose(real: Step, name: str, body: bytes) -> PutOutcome:
        if landed:
            real(name, body)
        meeting.log.script["read"] = [_unreadable] * 3
        return PutOutcome.UNKNOWN

    meeting.meet(*meeting.appends(), at_put=lose)
    meeting.log.script.clear()
    errors = [meeting.answers[number] for number in range(1, OTHERS + 1)]
    txn_ids = set()
    for error in errors:
        assert isinstance(error, CommitStateUnknownError), error
        assert error.version == 2
        assert error.txn_id in str(error)
        txn_ids.add(error.txn_id)
        assert meeting.table.resolve(error.txn_id, error.version) is landed
        assert Table(OpenTable(meeting.store)).resolve(error.txn_id, error.version) is landed
    assert len(txn_ids) == OTHERS
    assert meeting.numbers() == ([*range(OTHERS + 1)] if landed else [0])


def _unreadable(real: Step, name: str) -> bytes:
    raise StorageError("503")


def test_a_definite_failure_of_the_store_is_an_error_of_each() -> None:
    meeting = Meeting()

    def refuse(real: Step, name: str, body: bytes) -> PutOutcome:
        raise StorageError("no permission")

    meeting.meet(*meeting.appends(), at_put=refuse)
    errors = [meeting.answers[number] for number in range(1, OTHERS + 1)]
    assert all(isinstance(error, StorageError) and "no permission" in str(error) for error in errors)
    assert len({id(error) for error in errors}) == OTHERS
    assert meeting.numbers() == [0]


def test_what_another_commit_sent_is_in_doubt_until_its_version_was_read(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "t"), pa.schema({"id": pa.int64()}))
    peers = WriterPeers(table._open_table._commits, "a transaction", sent_as=5)
    error = StorageError("no answer")
    assert (peers.may_land_unread(4), peers.may_land_unread(5)) == (True, False)
    doubt = peers.doubt(error, 4)
    assert doubt is not None
    assert doubt[1] == 5
    assert peers.doubt(error, 5) is None
