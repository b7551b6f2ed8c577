"""Properties that are computed once for each object."""

from __future__ import annotations

import importlib
import threading
from types import ModuleType
from typing import Any

import pytest

from txlog.core.util import _lazy
from txlog.core.util._lazy import cached_property, face


def test_a_property_is_computed_once_and_kept() -> None:
    counted: list[int] = []

    class Counted:
        @cached_property
        def number(self) -> int:
            """A number."""
            counted.append(1)
            return len(counted)

    one, other = Counted(), Counted()
    assert [one.number, one.number, other.number, one.number] == [1, 1, 2, 1]
    assert Counted.number.__doc__ == "A number."


def test_a_thread_that_computes_a_property_holds_up_no_other_object() -> None:
    """A lock of the class would also stay locked in a process that is forked meanwhile."""
    begun, may_end = threading.Event(), threading.Event()

    class Slow:
        def __init__(self, waits: bool) -> None:
            self.waits = waits

        @cached_property
        def number(self) -> int:
            if self.waits:
                begun.set()
                assert may_end.wait(60)
            return 1

    thread = threading.Thread(target=lambda: Slow(True).number)
    thread.start()
    assert begun.wait(60)
    found: list[int] = []
    other = threading.Thread(target=lambda: found.append(Slow(False).number), daemon=True)
    other.start()
    other.join(30)
    may_end.set()
    thread.join()
    assert found == [1]


def test_threads_that_compute_a_property_at_the_same_time_all_get_the_first_object() -> None:
    """It may have state, as a thread that works in the background."""
    both = threading.Barrier(2)

    class Slow:
        @cached_property
        def state(self) -> list[int]:
            both.wait(60)
            return []

    slow = Slow()
    found: list[list[int]] = []
    threads = [threading.Thread(target=lambda: found.append(slow.state)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] is found[1] is slow.state


def test_a_name_of_a_loaded_module_is_found_without_an_import_and_one_that_still_loads_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    imported: list[str] = []
    find, _ = face("txlog.core.util", "_lazy: pattern")

    def import_module(name: str) -> ModuleType:
        imported.append(name)
        return _lazy

    monkeypatch.setattr(importlib, "import_module", import_module)
    assert find("pattern") is _lazy.pattern
    assert imported == []
    spec: Any = _lazy.__spec__
    monkeypatch.setattr(spec, "_initializing", True, raising=False)
    assert find("pattern") is _lazy.pattern
    assert imported == ["txlog.core.util._lazy"]
