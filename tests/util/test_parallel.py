"""Work that is done side by side: in order, a few ahead, and to the end even when the interpreter is about to leave."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from txlog.util.parallel import parallel_map

AT_THE_END = """
import concurrent.futures.thread as threads, time
from txlog.util.parallel import parallel_map

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


def test_a_process_that_is_shutting_down_finishes_the_work_without_threads() -> None:
    """Else no checkpoint that is due as a short-lived writer ends would ever be written."""
    done = subprocess.run([sys.executable, "-c", AT_THE_END], capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.stderr) == ("[0, 2, 4, 6, 8]", "")
