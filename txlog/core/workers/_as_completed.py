"""The results of tasks that were submitted as futures, in the order in which they end.

In: a function that submits a task, and the tasks' items. Out: results. A bounded number of tasks is submitted ahead.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

In = TypeVar("In")
Out = TypeVar("Out")


def as_they_end(
    submit: Callable[[In], Future[Out]],
    items: Sequence[In],
    ahead: int,
    stop: Callable[[Collection[Future[Out]]], object],
) -> Iterator[tuple[int, Out]]:
    """See ``Workers.map``.

    Args:
        submit: Submits the task of an item.
        items: The items.
        ahead: The maximum number of tasks that are submitted and not done.
        stop: Called in the end with these tasks: when it returns, the running ones have ended and no other begins.
    """
    from concurrent.futures import FIRST_COMPLETED, wait

    left = iter(enumerate(items))
    running: dict[Future[Out], int] = {}
    failed: BaseException | None = None
    try:
        while True:
            for number, item in itertools.islice(left, ahead - len(running)):
                running[submit(item)] = number
            if not running:
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                if (error := future.exception()) is not None:
                    raise error
                yield running.pop(future), future.result()
    except GeneratorExit:
        raise
    except BaseException as error:  # a task's error, or this thread was interrupted
        failed = error
    finally:
        stop(running)
    for future, number in running.items():
        if future.done() and not future.cancelled() and future.exception() is None:
            yield number, future.result()
    if failed is not None:
        raise failed
