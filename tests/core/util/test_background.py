"""Background work of a handle: what an interrupt at its start leaves."""

from __future__ import annotations

import threading

import pytest

from txlog.core.background import Background


@pytest.mark.parametrize("runs_already", [False, True], ids=["before the thread runs", "when the thread runs"])
def test_an_interrupt_at_the_start_of_the_thread_does_not_end_later_work(
    runs_already: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, done = threading.Thread.start, threading.Event()

    def interrupted(thread: threading.Thread) -> None:
        if runs_already:
            start(thread)
        raise KeyboardInterrupt

    background = Background("upkeep")
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            background.begin("the first piece", lambda: None)
    assert background.drain(10)
    assert not background.is_busy
    assert background.begin("the second piece", done.set)
    assert background.drain(10)
    assert done.is_set()
