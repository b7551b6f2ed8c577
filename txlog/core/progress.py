"""How long work says how far it is: one signature for every ``on_progress``.

In: a caller's function. Out: what an operation's parts call. What is counted ends the name of the step: files, rows or
bytes. In a notebook, a caller who passes no function sees a bar.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from txlog.core.util import invalid

OnProgress: TypeAlias = Callable[[str, int, int | None], object]
"""Called with the name of a step, how much of it is done, and the total; None if that is not known."""
OnDone: TypeAlias = Callable[[int, int | None], object]
"""Called by one step, with how much of it is done, and the total."""


def progress_of(on_progress: Any) -> OnProgress:
    """What work calls; without a function a bar, or nothing. Raises ``InvalidInputError`` for what cannot be called."""
    if on_progress is not None and not callable(on_progress):
        expected = "a function of the name of a step, how much of it is done, and the total"
        raise invalid("on_progress", on_progress, expected)
    found: OnProgress = _asked(on_progress) or no_progress
    return found


def step(on_progress: OnProgress, name: str) -> OnDone:
    """What a step of this name calls. Raises ``InvalidInputError`` for what cannot be called."""
    return partial(progress_of(on_progress), name)


def step_if(on_progress: OnProgress | None, name: str) -> OnDone | None:
    """The same; None if nobody asks."""
    asked = _asked(on_progress)
    return None if asked is None else step(asked, name)


def _asked(on_progress: OnProgress | None) -> OnProgress | None:
    """The caller's function, or a notebook's bar; None elsewhere. Only a notebook's shell has a kernel."""
    if on_progress is not None or "ipykernel" not in sys.modules:
        return on_progress
    if getattr(sys.modules["IPython"].get_ipython(), "kernel", None) is None:
        return None
    from txlog.core.notebook_bar import show_in_notebook

    return show_in_notebook


def no_progress(name: str, done: int, total: int | None) -> None:
    """For callers who do not ask."""
