"""Work that is done side by side: in order, a few ahead, and to the end even when the interpreter is about to leave."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from txlog.core import ambient
from txlog.core.parallel import Threads, do_all, parallel_map
from txlog.core.writing._partition_writer import EncoderPool, JobQueue

AT_THE_END = """
import concurrent.futures.thread as threads, time
from txlog.core.parallel import parallel_map

def late():
    while not threads._shutdown:
        time.sleep(0.01)
    print(list(parallel_map(lambda number: number * 2, range(5))))

threads.ThreadPoolExecutor(1).submit(late)
"""


@pytest.mark.parametrize("count", [0, 1, 2, 3, 50])
def test_results_come_in_the_order_of_the_items(count: int) -> None:
    assert list(parallel_map(lambda number: number * 2, range(count))) == [number * 2 for number in range(count)]


@pytest.mark.parametrize("threads", [1, 2])
def test_only_a_few_items_are_drawn_ahead(threads: int) -> None:
    drawn = 0

    def items() -> Iterator[int]:
        nonlocal drawn
        for number in range(1, 51):
            drawn = number
            yield number

    for done, _ in enumerate(parallel_map(str, items(), threads=threads)):
        assert drawn - done <= threads + 2


def test_an_error_is_raised_in_place_of_the_result() -> None:
    results = parallel_map(lambda number: 1 // number, [1, 1, 0, 1])
    assert [next(results), next(results)] == [1, 1]
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_shared_workers_make_no_call_that_nobody_waits_for_any_more() -> None:
    made: list[int] = []
    may_go_on = threading.Event()

    def work(number: int) -> None:
        made.append(number)
        if number:
            may_go_on.wait()

    with Threads(1) as workers:
        results = workers.map(work, range(10), ahead=3)
        next(results)
        results.close()
        may_go_on.set()
        assert list(workers.map(str, range(2), ahead=1)) == ["0", "1"]
    assert made in ([0], [0, 1])


def test_a_process_that_is_shutting_down_finishes_the_work_without_threads() -> None:
    """Else no checkpoint that is due as a short-lived writer ends would ever be written."""
    done = subprocess.run([sys.executable, "-c", AT_THE_END], capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.stderr) == ("[0, 2, 4, 6, 8]", "")


@pytest.mark.parametrize(("count", "has_threads"), [(0, False), (2, False), (3, True)])
def test_few_calls_are_made_without_a_thread(count: int, has_threads: bool) -> None:
    made: list[tuple[int, bool]] = []
    here = threading.current_thread()
    do_all(lambda item: made.append((item, threading.current_thread() is not here)), range(count), threads=2, few=2)
    assert sorted(made) == [(item, has_threads) for item in range(count)]


def test_closed_workers_end_the_calls_that_have_begun_and_begin_no_other() -> None:
    begun, may_end = threading.Event(), threading.Event()

    def call() -> None:
        begun.set()
        may_end.wait()

    workers = Threads(1)
    running, waiting = workers.submit(call), workers.submit(call)
    begun.wait()
    closing = threading.Thread(target=workers.close)
    closing.start()
    while not waiting.cancelled():
        assert closing.is_alive()
    may_end.set()
    closing.join()
    assert running.done()


def test_a_call_sees_the_context_of_its_caller() -> None:
    class Scripted(ambient.Ambient):
        def now_ms(self) -> int:
            return 17

    with Threads(2) as workers, ambient.use(Scripted()):
        assert workers.submit(ambient.now_ms).result() == 17


def test_workers_make_as_many_parallel_calls_as_allowed() -> None:
    together = threading.Barrier(4)
    with Threads(4) as workers:
        for _ in range(20):
            calls = [workers.submit(together.wait, 30) for _ in range(4)]
            assert sorted(call.result() for call in calls) == [0, 1, 2, 3]


NEVER_ANSWERED = """
import threading
from txlog.core.background import Background
from txlog.core.parallel import parallel_map

begun = threading.Barrier(3)
def call(_):
    begun.wait()
    threading.Event().wait()

background = Background("test")
background.begin("its export", lambda: list(parallel_map(call, range(2))))
background.begin("its second export", lambda: print("begun after all"), waits=True)
begun.wait()
"""


@pytest.mark.parametrize("asked", ["0.2", "nan"])
def test_a_process_whose_background_gets_no_answer_ends_with_one_warning(asked: str) -> None:
    environment = {**os.environ, "TXLOG_END_WAIT_S": asked}
    command = [sys.executable, "-c", NEVER_ANSWERED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (0, "", 1)
    assert "The process ends without its export, its second export, which did not end within" in done.stderr


def test_a_wait_at_the_end_that_is_not_a_number_is_taken_as_the_usual_one() -> None:
    program = "from txlog.core.background import Background; Background('b').begin('x', lambda: print('done'))"
    environment = {**os.environ, "TXLOG_END_WAIT_S": "five minutes"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, env=environment)
    assert done.stdout == "done\n"
    assert "TXLOG_END_WAIT_S=five minutes is not a number of seconds; using 300" in done.stderr


def threads_with_calls() -> tuple[Callable[[Any], object], Callable[[], None]]:
    threads = Threads(1)
    return threads.submit, threads.close


def encoders_with_jobs() -> tuple[Callable[[Any], object], Callable[[], None]]:
    encoders = EncoderPool(1, 1)
    return partial(encoders.submit, JobQueue()), encoders.stop


@pytest.mark.parametrize("pool", [threads_with_calls, encoders_with_jobs])
def test_an_interruption_where_a_lock_is_taken_leaves_it_free(pool: Any) -> None:
    """Ctrl-C is raised most often where the main thread waits: a condition's own `__enter__` would keep the lock."""
    submit, close = pool()

    def interrupt(frame: Any, event: str, argument: object) -> None:
        is_taken = event == "return" and frame.f_code is threading.Condition.__enter__.__code__
        if is_taken and "txlog" in frame.f_back.f_code.co_filename:
            raise KeyboardInterrupt

    sys.setprofile(interrupt)
    try:
        with contextlib.suppress(KeyboardInterrupt):
            submit(int)
    finally:
        sys.setprofile(None)
    closing = threading.Thread(target=close, daemon=True)
    closing.start()
    closing.join(5)
    assert not closing.is_alive()
