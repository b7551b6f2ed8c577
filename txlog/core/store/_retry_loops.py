"""tenacity's retry loops, on the ambient clock.

In: when to end, and how long to wait. Out: an iterator that waits at each step, or the result of a repeated call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import tenacity

from txlog.core import ambient

T = TypeVar("T")


def pauses(has_ended: Callable[[], bool], wait_s: Callable[[], float]) -> Iterator[bool]:
    """Wait, then yield True, until the loop has ended."""
    attempts = iter(
        tenacity.Retrying(
            sleep=ambient.sleep,
            stop=lambda _: has_ended(),
            wait=lambda _: wait_s(),
            retry=tenacity.retry_always,
        )
    )
    attempt = next(attempts)
    while True:
        with attempt:
            pass
        try:
            attempt = next(attempts)
        except tenacity.RetryError:
            return
        yield True


def call_again(
    call: Callable[[], T], is_transient: Callable[[BaseException], bool], *, attempts: int, first_wait_s: float
) -> T:
    """The result of ``call``; transient errors are retried after longer and longer waits. Raises the last error."""
    retrying = tenacity.Retrying(
        sleep=ambient.sleep,
        stop=tenacity.stop_after_attempt(attempts),
        wait=lambda state: ambient.uniform(0.0, first_wait_s * 2 ** (state.attempt_number - 1)),
        retry=tenacity.retry_if_exception(is_transient),
        reraise=True,
    )
    return retrying(call)
