"""Log handlers and hooks of a user that fail on request.

In: a function that decides for each call whether it fails. Out: the hooks for a table handle, and inside a ``with``
block a handler on txlog's logger. They raise `InvalidInputError`, as a hook might that writes into another table:
txlog must not mistake it for its own refusal of the commit.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from txlog.errors import ConflictError, InvalidInputError
from txlog.hooks import CommitHooks, LostRace
from txlog.result import WriteResult

__all__ = ["Observers"]

_logger = logging.getLogger("txlog")


class Observers:
    """Hooks and a log handler. ``fails(call)`` decides for each of their calls, described by one line, if it raises."""

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

    def _called(self, call: str) -> None:
        if self._fails(call):
            raise InvalidInputError(f"the observer of {call!r} fails")


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
