"""First imports that a signal handler cannot break off.

In: names of modules, before they are imported in a function. Out: the modules, imported whole.

Python runs signal handlers between any two steps of the main thread, also in the middle of an import. If a handler
raises there (Ctrl-C does), Python forgets the module that it was about to import, but keeps those that this module had
imported. A package of several modules, such as sqlglot, then comes back without its own parts; one with compiled parts
cannot be imported a second time; and another thread that waited for the module gets half of it. So handlers wait until
the import has ended. Then they run, and raise what they want to.
"""

from __future__ import annotations

import importlib
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

__all__ = ["whole_import"]


def whole_import(*names: str) -> None:
    """Import modules that are not imported yet; signal handlers of Python run once all of them are.

    Raises:
        ImportError: A module cannot be imported.
    """
    if all(_is_whole(name) for name in names):
        return
    waiting: dict[int, FrameType | None] = {}
    handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}
    try:
        with _handlers_wait(handlers, waiting):
            _import_all(names)
    finally:
        for number, frame in waiting.items():
            handlers[number](number, frame)


def _is_whole(name: str) -> bool:
    module = sys.modules.get(name)
    return module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False)


def _import_all(names: tuple[str, ...]) -> None:
    for name in names:
        importlib.import_module(name)


@contextmanager
def _handlers_wait(
    handlers: dict[int, Callable[[int, FrameType | None], Any]], waiting: dict[int, FrameType | None]
) -> Iterator[None]:
    """Within the block, signals that have a handler of Python are noted in ``waiting`` only."""

    def note(number: int, frame: FrameType | None) -> None:
        waiting[number] = frame

    try:
        for number in signal.valid_signals():
            handler = signal.getsignal(number)
            if callable(handler):
                handlers[number] = handler
                try:
                    signal.signal(number, note)
                except ValueError:  # not the main thread: no handler runs in it
                    break
        yield
    finally:
        _put_back(handlers, note)


def _put_back(handlers: dict[int, Callable[[int, FrameType | None], Any]], note: Any) -> None:
    """Put every handler back, also if one of them runs, and raises, as soon as it is back."""
    raised: BaseException | None = None
    left = dict(handlers)
    while left:
        try:
            for number in list(left):
                if signal.getsignal(number) is note:  # an imported module may have set a handler of its own
                    signal.signal(number, left[number])
                del left[number]
        except BaseException as error:
            raised = error
    if raised is not None:
        raise raised
