"""Writers on one machine queue before they commit to a local log, and none waits forever."""

from __future__ import annotations

import fcntl
import os
import pickle
import random
import signal
import subprocess
import sys
import tempfile
import threading
import types
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import txlog
from txlog.core import ambient
from txlog.core.format.log_names import commit_name
from txlog.core.store import _commit_queue as commit_queue
from txlog.core.store._commit_queue import LocalCommitQueue, MachineCommitQueue, Turn

ROW = pa.table({"id": pa.array([1], pa.int64())})


class Scripted(ambient.Ambient):
    """A clock that moves by what is slept, and a moment in each sleep for something to happen."""

    def __init__(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.slept_s = 0.0
        self._meanwhile = meanwhile

    def monotonic_s(self) -> float:
        return 1_000_000 + self.slept_s

    def sleep(self, seconds: float) -> None:
        self.slept_s += seconds
        self._meanwhile()


def is_taken(directory: Path) -> bool:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def descriptors() -> set[str]:
    """The files that this process has open, but for the descriptor that looks; other tests may leave sockets to end."""
    found = {each: _target(each) for each in os.listdir("/proc/self/fd")}
    return {f"{each} {target}" for each, target in found.items() if target and not target.startswith("socket:")}


def _target(descriptor: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except FileNotFoundError:
        return ""


@pytest.fixture(autouse=True)
def _turns_are_as_long_as_for_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_queue, "WAIT_MAX_S", 2.0)


@pytest.fixture
def stopped_peer(tmp_path: Path) -> Iterator[Path]:
    """A log directory whose turn a process holds that was stopped (SIGSTOP) meanwhile."""
    program = (
        "import fcntl, os, sys; fd = os.open(sys.argv[1], 0); fcntl.flock(fd, 2); print(flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as peer:
        assert peer.stdout is not None
        peer.stdout.readline()
        peer.send_signal(signal.SIGSTOP)
        yield tmp_path
        peer.kill()


def test_a_free_turn_is_taken_immediately_and_released_once(tmp_path: Path) -> None:
    with ambient.use(Scripted()) as clock:
        turn = LocalCommitQueue(str(tmp_path)).take()
    assert clock.slept_s == 0
    assert is_taken(tmp_path)
    turn.end()
    turn.end()
    assert not is_taken(tmp_path)


def test_a_writer_waits_until_the_turn_is_given_back(tmp_path: Path) -> None:
    first = LocalCommitQueue(str(tmp_path)).take()
    pauses: list[float] = []

    def third_pause_ends_it() -> None:
        pauses.append(clock.slept_s)
        if len(pauses) == 3:
            first.end()

    with ambient.use(clock := Scripted(third_pause_ends_it)):
        second = LocalCommitQueue(str(tmp_path)).take()
    assert len(pauses) == 3
    assert is_taken(tmp_path)
    second.end()
    assert not is_taken(tmp_path)


def test_after_a_wait_without_a_turn_no_writer_of_the_process_asks_again_for_a_while(tmp_path: Path) -> None:
    held = LocalCommitQueue(str(tmp_path)).take()
    with ambient.use(Scripted()) as clock:
        LocalCommitQueue(str(tmp_path)).take().end()
        waited_s = clock.slept_s
        assert waited_s == pytest.approx(2.0, abs=0.01)
        for _ in range(100):
            LocalCommitQueue(str(tmp_path)).take().end()
        assert clock.slept_s == waited_s
        clock.slept_s += 10
        LocalCommitQueue(str(tmp_path)).take().end()
        assert clock.slept_s == pytest.approx(waited_s + 12, abs=0.01)
    held.end()


def test_after_a_successful_wait_the_next_turn_is_requested_immediately(tmp_path: Path) -> None:
    held = LocalCommitQueue(str(tmp_path)).take()
    with ambient.use(Scripted()) as clock:
        LocalCommitQueue(str(tmp_path)).take().end()
        held.end()
        clock.slept_s += 10
        LocalCommitQueue(str(tmp_path)).take().end()
        turn = LocalCommitQueue(str(tmp_path)).take()
        assert is_taken(tmp_path)
        turn.end()


def test_waits_behind_a_stopped_process_leave_neither_threads_nor_descriptors(stopped_peer: Path) -> None:
    # Threads of other tests may end meanwhile.
    open_before, threads_before = descriptors(), set(threading.enumerate())
    with ambient.use(Scripted()) as clock:
        for wait in range(1, 101):
            LocalCommitQueue(str(stopped_peer)).take().end()
            assert clock.slept_s >= 2 * wait
            clock.slept_s += 10
    assert descriptors() <= open_before
    assert set(threading.enumerate()) <= threads_before
    assert is_taken(stopped_peer)


def test_many_threads_that_wait_behind_a_stopped_process_all_go_ahead(stopped_peer: Path) -> None:
    before = descriptors()

    def wait(_: int) -> bool:
        with ambient.use(Scripted()):
            turn = LocalCommitQueue(str(stopped_peer)).take()
            turn.end()
            return turn.keeps_order

    with ThreadPoolExecutor(16) as pool:
        assert not any(pool.map(wait, range(64)))
    assert descriptors() == before


# --- who goes first ---------------------------------------------------------------------------------------------------


class VirtualTime(ambient.Ambient):
    """One clock for several threads: it moves to the next moment at which one of them wakes once all of them sleep."""

    def __init__(self, threads: int, seed: int) -> None:
        self._now_s = 1_000.0
        self._random = random.Random(seed)
        self._running = threads
        self._sleepers: list[float] = []
        self._changed = threading.Condition()

    def monotonic_s(self) -> float:
        return self._now_s

    def uniform(self, low: float, high: float) -> float:
        with self._changed:
            return self._random.uniform(low, high)

    def sleep(self, seconds: float) -> None:
        with self._changed:
            until_s = self._now_s + seconds
            self._sleepers.append(until_s)
            self._leave()
            self._changed.wait_for(lambda: self._running == 0 and min(self._sleepers) == until_s, 60)
            self._now_s, self._running = until_s, 1
            self._sleepers.remove(until_s)

    def wait_for_sleepers(self, count: int) -> None:
        with self._changed:
            self._changed.wait_for(lambda: len(self._sleepers) == count, 60)

    def end(self) -> None:
        with self._changed:
            self._leave()

    def _leave(self) -> None:
        self._running -= 1
        self._changed.notify_all()


def order_of_turns(directory: Path, ages_s: list[float], turn_s: float, seed: int) -> list[int]:
    """Who gets a turn after whom, by place in ``ages_s``, where all begin to wait during another's turn."""
    clock, order, queue = VirtualTime(len(ages_s) + 1, seed), [], LocalCommitQueue(str(directory))
    held = queue.take()

    def work(place: int) -> None:
        with ambient.use(clock):
            turn = LocalCommitQueue(str(directory)).take(clock.monotonic_s() - ages_s[place])
            order.append(place)
            clock.sleep(turn_s * (1 + place / 1_000))
            turn.end()
            clock.end()

    threads = [threading.Thread(target=work, args=(place,)) for place in range(len(ages_s))]
    for number, thread in enumerate(threads, start=1):
        thread.start()
        clock.wait_for_sleepers(number)
    with ambient.use(clock):
        clock.sleep(turn_s)
    held.end()
    clock.end()
    for thread in threads:
        thread.join()
    return order


def test_writers_that_waited_longest_mostly_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ages_s, turn_s = [0.0, 0.4, 2.5], 0.05
    monkeypatch.setattr(commit_queue, "TURN_S", turn_s)
    orders = [order_of_turns(tmp_path, ages_s, turn_s, seed) for seed in range(60)]
    assert all(sorted(order) == [0, 1, 2] for order in orders)
    mean = [sum(order.index(place) for order in orders) / len(orders) for place in range(3)]
    assert mean == sorted(mean, reverse=True), "the older, the earlier"
    assert sum(order[0] == 2 for order in orders) > 30, "by chance it would be 20"
    assert sum(order[-1] == 2 for order in orders) < 10


def test_the_older_a_commit_the_more_often_it_looks_but_never_all_the_time(tmp_path: Path) -> None:
    pauses_s = []
    for age_s in (0.0, 0.02, 100.0):
        log = tmp_path / f"{age_s}"
        log.mkdir()
        held = LocalCommitQueue(str(log)).take()
        slept: list[float] = []
        with ambient.use(Scripted(lambda slept=slept: slept.append(clock.slept_s))) as clock:
            LocalCommitQueue(str(log)).take(clock.monotonic_s() - age_s).end()
        pauses_s.append(slept[0])
        held.end()
    assert pauses_s == sorted(pauses_s, reverse=True)
    assert pauses_s[0] > 2 * pauses_s[2]
    assert 0.000_5 <= pauses_s[-1] <= 0.001


def test_a_writer_waits_while_commits_land_and_not_for_ever(tmp_path: Path) -> None:
    """Going ahead without a turn, it would lose races to those that have one."""
    held = LocalCommitQueue(str(tmp_path)).take()
    landed = [0]

    def land() -> None:
        if clock.slept_s >= landed[0] and landed[0] < 7:
            (tmp_path / f"{landed[0]}.json").touch()
            os.utime(tmp_path, ns=(landed[0], landed[0]))
            landed[0] += 1

    with ambient.use(clock := Scripted(land)):
        LocalCommitQueue(str(tmp_path)).take().end()
    assert clock.slept_s == pytest.approx(6 + 2, abs=0.03), "two seconds after the last one landed"
    held.end()


def test_a_writer_waits_at_most_ten_seconds_while_commits_land(tmp_path: Path) -> None:
    held = LocalCommitQueue(str(tmp_path)).take()
    with ambient.use(clock := Scripted(lambda: os.utime(tmp_path, ns=(round(clock.slept_s * 1e9),) * 2))):
        LocalCommitQueue(str(tmp_path)).take().end()
        assert clock.slept_s == pytest.approx(10, abs=0.03)
        clock.slept_s += 10
        LocalCommitQueue(str(tmp_path)).take().end()
        assert clock.slept_s == pytest.approx(22, abs=0.05), "the turn may be held by a stopped process"
    held.end()


class Interrupts:
    """Ctrl-C before the ``at``-th instruction of Python that the commit queue's code runs."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, frame: types.FrameType, event: str, argument: object) -> Any:
        if frame.f_code.co_filename != commit_queue.__file__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self


@pytest.mark.parametrize("must_wait", [False, True])
def test_an_interrupt_at_any_step_leaves_no_turn_taken_and_nothing_open(tmp_path: Path, must_wait: bool) -> None:
    before, queue = descriptors(), LocalCommitQueue(str(tmp_path))
    steps, was_interrupted = 0, True
    while was_interrupted:
        steps += 1
        others = LocalCommitQueue(str(tmp_path)).take() if must_wait else Turn()
        was_interrupted = _is_interrupted(queue, steps, others)
        others.end()
        assert not is_taken(tmp_path), f"step {steps}"
        assert descriptors() == before, f"step {steps}"
    assert steps > 50


def _is_interrupted(queue: LocalCommitQueue, at: int, others: Turn) -> bool:
    turn = None
    tracing = sys.gettrace()
    try:
        with ambient.use(Scripted(others.end)):
            sys.settrace(Interrupts(at))
            turn = queue.take()
            turn.end()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(tracing)
        del turn
    return False


def test_a_real_interrupt_during_a_wait_blocks_no_other_writer(tmp_path: Path) -> None:
    held = LocalCommitQueue(str(tmp_path)).take()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    try:
        with ambient.use(Scripted(lambda: signal.raise_signal(signal.SIGINT))), pytest.raises(KeyboardInterrupt):
            LocalCommitQueue(str(tmp_path)).take()
    finally:
        signal.signal(signal.SIGINT, before)
    held.end()
    assert not is_taken(tmp_path)


@pytest.mark.parametrize("is_there", [False, True])
def test_without_a_lockable_directory_no_writer_waits(tmp_path: Path, is_there: bool) -> None:
    place = tmp_path / "log"
    if is_there:
        place.write_text("not a directory")
    with ambient.use(Scripted()) as clock:
        LocalCommitQueue(str(place)).take().end()
    assert clock.slept_s == 0


def test_a_child_that_was_forked_during_a_turn_does_not_keep_it(tmp_path: Path) -> None:
    turn = LocalCommitQueue(str(tmp_path)).take()
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(read_end, 1)  # until the test has looked
        os._exit(0)
    try:
        turn.end()
        assert not is_taken(tmp_path)
    finally:
        os.write(write_end, b"x")
        os.waitpid(child, 0)
        os.close(read_end)
        os.close(write_end)


def test_writers_that_queue_lose_no_race(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_queue, "WAIT_MAX_S", 600.0)
    uri = txlog.Table.create(tmp_path / "t", ROW.schema).uri

    def write(_: int) -> list[txlog.WriteResult]:
        table = txlog.Table.open(uri)
        return [table.append(ROW) for _ in range(5)]

    with ThreadPoolExecutor(4) as pool:
        results = [result for each in pool.map(write, range(4)) for result in each]
    assert sorted(result.version or 0 for result in results) == list(range(1, 21))
    assert {result.metrics.lost_races for result in results} == {0}


def test_a_writer_that_holds_its_turn_for_ever_blocks_no_writer_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_queue, "WAIT_MAX_S", 0.01)
    table = txlog.Table.create(tmp_path / "t", ROW.schema)
    stopped = LocalCommitQueue(f"{table.uri}/_delta_log").take()
    result = table.append(ROW)
    assert result.version == 1
    assert result.metrics.waited_s >= 0.01
    stopped.end()


def test_a_commit_gives_its_turn_back_before_it_waits_for_anything(tmp_path: Path) -> None:
    at_hook: list[bool] = []

    class Looking(txlog.CommitHooks):
        def on_retry(self, table: str, lost: object) -> None:
            at_hook.append(is_taken(log))

    table = txlog.Table.create(tmp_path / "t", ROW.schema, hooks=Looking())
    held: list[bool] = []  # one for each commit of a writer elsewhere
    log = Path(table.uri) / "_delta_log"
    store = table._open_table.log.store.log
    put = store.put_if_absent

    def raced(name: str, body: bytes | memoryview) -> object:
        if name in (commit_name(1), commit_name(2)):
            held.append(is_taken(log))
            put(name, b'{"commitInfo":{"operation":"WRITE"}}\n')
        return put(name, body)

    store.put_if_absent = raced  # type: ignore[method-assign, assignment]
    at_sleep: list[bool] = []
    with ambient.use(Scripted(lambda: at_sleep.append(is_taken(log)))):
        result = table.append(ROW)
    assert (result.version, result.metrics.lost_races) == (3, 2)
    assert held == [True, True]
    assert at_sleep == at_hook == [False, False]
    assert not is_taken(log)


# --- tables on an object store ----------------------------------------------------------------------------------


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files, empty."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_writers_of_one_remote_table_queue_here_and_writers_of_other_tables_do_not(temporary: Path) -> None:
    held = MachineCommitQueue("a").take()
    with ambient.use(Scripted(held.end)) as clock:
        MachineCommitQueue("b").take().end()
        assert clock.slept_s == 0
        turn = MachineCommitQueue("a").take()
        assert clock.slept_s > 0
        turn.end()


def test_a_turn_at_a_remote_table_learns_the_newest_version_from_the_one_before(temporary: Path) -> None:
    queue = MachineCommitQueue("a")
    first = queue.take()
    assert first.newest_version == -1
    first.note(41)
    assert MachineCommitQueue("b").take().newest_version == -1
    first.end()
    second = pickle.loads(pickle.dumps(queue)).take()
    assert second.newest_version == 41
    second.note(7)  # the table was made again
    second.end()
    assert second.newest_version == -1, "the turn is over"
    assert queue.take().newest_version == 7


def test_a_local_turn_notes_nothing(tmp_path: Path) -> None:
    turn = LocalCommitQueue(str(tmp_path)).take()
    turn.note(41)
    assert turn.newest_version == -1
    assert os.listdir(tmp_path) == []
    turn.end()


def test_a_writer_that_waits_for_a_remote_table_is_told_of_new_versions(temporary: Path) -> None:
    queue, told = MachineCommitQueue("a"), list[int]()
    held = queue.take()
    versions = iter((5, 6, 7))

    def commits() -> None:
        version = next(versions, None)
        if version is None:
            held.end()
        else:
            held.note(version)

    with ambient.use(Scripted(commits)):
        queue.take(None, told.append).end()
    assert told == [5, 6, 7, 7]


def test_a_wait_for_a_remote_table_continues_while_commits_land(temporary: Path) -> None:
    queue = MachineCommitQueue("a")
    held = queue.take()

    def commits() -> None:
        if clock.slept_s < 120:
            os.utime(next((temporary / f"txlog-{os.getuid()}").iterdir()), ns=(0, int(clock.slept_s * 1e9)))
        else:
            held.end()

    with ambient.use(clock := Scripted(commits)):
        turn = queue.take()
    assert 120 <= clock.slept_s < 122
    assert turn._descriptors
    turn.end()


def test_a_wait_for_a_remote_table_in_which_nothing_lands_ends_without_a_turn(temporary: Path) -> None:
    held = MachineCommitQueue("stuck").take()  # its name is passed by from then on
    with ambient.use(Scripted()) as clock:
        turn = MachineCommitQueue("stuck").take()
    assert clock.slept_s == pytest.approx(10, abs=0.6)
    assert turn._descriptors == []
    held.end()


def test_of_two_writers_the_older_one_looks_more_often(temporary: Path) -> None:
    queue = MachineCommitQueue("a")
    turn = queue.take()
    turn.note_wait(8.0)
    assert queue._pause_s(9.0, turn) < queue._pause_s(7.5, turn) < queue._pause_s(1.0, turn)
    turn.end()


@pytest.mark.parametrize("what", ["a link", "a file", "nothing that can be made"])
def test_without_a_folder_of_ones_own_a_commit_takes_no_turn(what: str, temporary: Path) -> None:
    folder = temporary / f"txlog-{os.getuid()}"
    if what == "a link":
        (temporary / "elsewhere").mkdir()
        folder.symlink_to(temporary / "elsewhere")
    elif what == "a file":
        folder.write_text("not a folder")
    else:
        tempfile.tempdir = str(temporary / "absent")
    turn = MachineCommitQueue("a").take()
    assert turn._descriptors == []
    assert not (temporary / "elsewhere").exists() or not os.listdir(temporary / "elsewhere")
    turn.end()
