"""A user's log handlers and hooks, which fail whenever the story says so.

In: a function that is told of each call and answers whether it fails. Out: the hooks for a table handle; while the
observers are entered, a handler on txlog's logger. They raise `InvalidInputError`, as one does that writes what it is
told into another table: txlog must not take it for a refusal of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from txlog.errors import ConflictError, InvalidInputError
from txlog.hooks import CommitHooks, LostRace
from txlog.result import WriteResult

__all__ = ["Observers"]

_logger = logging.getLogger("txlog")  # noqa: TID251 -- what users attach handlers to


class Observers:
    """``fails(told)`` is asked at each record and each call of a hook, of which ``told`` is one line."""

    def __init__(self, fails: Callable[[str], bool]) -> None:
        self.hooks = _Hooks(self._called)
        self._fails = fails
        self._handler = _Handler(self._called)
        self._level = _logger.level

    def __enter__(self) -> Observers:
        self._level = _logger.level
        _logger.setLevel(logging.INFO)
        _logger.addHandler(self._handler)
        logging.raiseExceptions = False  # what a handler raises is not printed
        return self

    def __exit__(self, *_: Any) -> None:
        logging.raiseExceptions = True
        _logger.removeHandler(self._handler)
        _logger.setLevel(self._level)

    def _called(self, told: str) -> None:
        if self._fails(told):
            raise InvalidInputError(f"the observer of {told!r} fails")


class _Handler(logging.Handler):
    def __init__(self, called: Callable[[str], None]) -> None:
        super().__init__(logging.INFO)
        self._called = called

    def emit(self, record: logging.LogRecord) -> None:
        self._called(f"log record {record.msg[:40]}")


class _Hooks(CommitHooks):
    def __init__(self, called: Callable[[str], None]) -> None:
        self._called = called

    def on_commit(self, table: str, result: WriteResult) -> None:
        self._called("on_commit")

    def on_retry(self, table: str, lost: LostRace) -> None:
        self._called("on_retry")

    def on_conflict(self, table: str, error: ConflictError) -> None:
        self._called("on_conflict")
