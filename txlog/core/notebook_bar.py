"""`show_in_notebook`: how far long work is, as a bar below the notebook's cell that does it.

In: what any ``on_progress`` is called with. Out: nothing for the first second, then a bar that is drawn at most five
times a second and stays with its last state, as the bars of other libraries do.
"""

from __future__ import annotations

import threading

import msgspec
from IPython import get_ipython
from IPython.display import DisplayHandle, display

from txlog.core import ambient
from txlog.core.util import element
from txlog.result import human_size

_QUIET_S, _BETWEEN_S = 1.0, 0.2


class _Bar(msgspec.Struct):
    """The bar of one step of the work of one cell."""

    cell: object
    step: str
    begun_s: float
    done: int = 0
    drawn_s: float = 0.0
    handle: DisplayHandle | None = None


_lock = threading.Lock()
_bars: dict[int, _Bar] = {}
"""By thread, the last bar."""


def show_in_notebook(name: str, done: int, total: int | None) -> None:
    """Draw a step's progress, if it is time to. Another step, another cell and a new start get their own bar."""
    now_s, cell = ambient.monotonic_s(), getattr(get_ipython(), "execution_count", None)
    with _lock:
        bar = _bars.get(threading.get_ident())
        if bar is None or (bar.cell, bar.step) != (cell, name) or done < bar.done:
            bar = _bars[threading.get_ident()] = _Bar(cell, name, now_s)
        bar.done = done
        is_due = now_s - bar.begun_s >= _QUIET_S and now_s - bar.drawn_s >= _BETWEEN_S
        if not is_due and not (bar.handle is not None and done == total):
            return
        bar.drawn_s = now_s
        shown = _drawn(name, done, total, now_s - bar.begun_s)
        if bar.handle is None:
            bar.handle = display(shown, raw=True, display_id=True)
        else:
            bar.handle.update(shown, raw=True)


def _drawn(name: str, done: int, total: int | None, seconds: float) -> dict[str, str]:
    counts = [human_size(each) if name.endswith("bytes") else f"{each:,}" for each in (done, total) if each is not None]
    text = f"{name}: {' of '.join(counts)}, {seconds:.0f} s"
    bar = element("progress", {"value": done, "max": total, "style": "width:20em;vertical-align:middle"})
    return {"text/plain": text, "text/html": element("div", {}, *([] if total is None else [bar, " "]), text)}
