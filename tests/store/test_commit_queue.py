"""Writers of one machine queue before they commit to a local log, and nobody waits for ever."""

from __future__ import annotations

import fcntl
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

import txlog
from txlog.protocol.log_names import commit_name
from txlog.store import commit_queue
from txlog.store.commit_queue import LocalTurnstile
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


def places_in_the_queue() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "txlog-commit_queue" and thread.is_alive()]


def wait_for_a_place() -> None:
    while not places_in_the_queue():
        time.sleep(0.001)


def test_a_turn_is_had_at_once_where_nobody_has_it_and_given_back_once(tmp_path: Path) -> None:
    with ambient.use(Scripted()) as clock:
        turn = LocalTurnstile(str(tmp_path)).take()
    assert clock.slept_s == 0
    assert is_taken(tmp_path)
    turn.end()
    turn.end()
    assert not is_taken(tmp_path)


def test_the_next_one_waits_until_the_turn_is_given_back(tmp_path: Path) -> None:
    first = LocalTurnstile(str(tmp_path)).take()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(LocalTurnstile(str(tmp_path)).take)
        wait_for_a_place()
        assert not waiting.done()
        first.end()
        second = waiting.result()
    assert is_taken(tmp_path)
    second.end()
    assert not is_taken(tmp_path)


def test_who_waits_in_vain_goes_ahead_without_and_does_not_ask_again_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_queue, "_WAIT_MAX_S", 0.01)
    held = LocalTurnstile(str(tmp_path)).take()
    queue = LocalTurnstile(str(tmp_path))
    with ambient.use(Scripted()) as clock:
        queue.take().end()
        places = places_in_the_queue()
        assert places  # left standing, to let the next one pass
        queue.take().end()
        assert places_in_the_queue() == places
        clock.slept_s += 10
        queue.take().end()
        assert len(places_in_the_queue()) == len(places) + 1
    held.end()
    for place in places_in_the_queue():
        place.join(10)
    assert not is_taken(tmp_path)


def test_who_is_interrupted_while_waiting_holds_nobody_up(tmp_path: Path) -> None:
    held = LocalTurnstile(str(tmp_path)).take()
    waiting = threading.current_thread()

    def interrupt() -> None:
        wait_for_a_place()
        signal.pthread_kill(waiting.ident or 0, signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    try:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(interrupt)
            with pytest.raises(KeyboardInterrupt):
                LocalTurnstile(str(tmp_path)).take()
    finally:
        signal.signal(signal.SIGINT, before)
    held.end()
    for place in places_in_the_queue():
        place.join(10)
    assert not is_taken(tmp_path)


@pytest.mark.parametrize("is_there", [False, True])
def test_where_no_turn_can_be_had_nobody_waits(tmp_path: Path, is_there: bool) -> None:
    place = tmp_path / "log"
    if is_there:
        place.write_text("not a directory")
    with ambient.use(Scripted()) as clock:
        LocalTurnstile(str(place)).take().end()
    assert clock.slept_s == 0


def test_a_child_that_was_forked_during_a_turn_does_not_keep_it(tmp_path: Path) -> None:
    turn = LocalTurnstile(str(tmp_path)).take()
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
    stopped = LocalTurnstile(f"{table.uri}/_delta_log").take()
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
