"""Writers of one machine queue before they commit to a local log, and nobody waits for ever."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
import types
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import txlog
from txlog.protocol.log_names import commit_name
from txlog.store import commit_queue
from txlog.store.commit_queue import LocalCommitQueue, Turn
from txlog.util import ambient

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
    """What this process has open, but for the descriptor that looks."""
    return {f"{each} {_target(each)}" for each in os.listdir("/proc/self/fd") if _target(each)}


def _target(descriptor: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except FileNotFoundError:
        return ""


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


def test_a_free_turn_is_taken_at_once_and_released_once(tmp_path: Path) -> None:
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


def test_after_a_successful_wait_the_next_turn_is_requested_at_once(tmp_path: Path) -> None:
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
    before = descriptors(), threading.active_count()
    with ambient.use(Scripted()) as clock:
        for wait in range(1, 101):
            LocalCommitQueue(str(stopped_peer)).take().end()
            assert clock.slept_s >= 2 * wait
            clock.slept_s += 10
    assert (descriptors(), threading.active_count()) == before
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
    monkeypatch.setattr(commit_queue, "_WAIT_MAX_S", 600.0)
    uri = txlog.Table.create(tmp_path / "t", ROW.schema).uri

    def write(_: int) -> list[txlog.WriteResult]:
        table = txlog.Table.open(uri)
        return [table.append(ROW) for _ in range(5)]

    with ThreadPoolExecutor(4) as pool:
        results = [result for each in pool.map(write, range(4)) for result in each]
    assert sorted(result.version or 0 for result in results) == list(range(1, 21))
    assert {result.metrics.lost_races for result in results} == {0}


def test_a_writer_that_holds_its_turn_for_ever_holds_up_nobody_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_queue, "_WAIT_MAX_S", 0.01)
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
