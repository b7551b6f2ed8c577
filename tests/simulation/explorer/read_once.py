"""Lets an exploration parse the same bytes once: its stories read the same few commits and schemas again and again.

In: nothing. Out: a ``with`` block in which two pure functions of txlog return what they returned before for the same
arguments: `parse_commit`, and what is derived from a protocol and a metadata action. Nobody changes what they return.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any
from unittest import mock

from txlog.core.versions.decisions import state
from txlog.core.versions.files import _commits as commits

__all__ = ["reading_once"]

_COMMITS_MAX = 4096
_DEFINITIONS_MAX = 4096


@contextlib.contextmanager
def reading_once() -> Iterator[None]:
    """Parse each commit and each definition once in the block.

    What a test put in place of one of the functions is remembered in the same way.
    """
    parsed = state._Parsed.__init__
    known: dict[tuple[int, int], state._Parsed] = {}

    def share(self: Any, protocol: Any, metadata: Any) -> None:
        parsed(self, protocol, metadata)
        if len(known) >= _DEFINITIONS_MAX:
            known.clear()
        # What is known keeps its protocol and its metadata, so no other object gets their ids.
        self.first = known.setdefault((id(protocol), id(metadata)), self)
        self.derived = self.first.derived

    parse = functools.lru_cache(_COMMITS_MAX)(vars(commits)["parse_commit"])
    with contextlib.ExitStack() as patches:
        patches.enter_context(mock.patch.object(commits, "parse_commit", parse))
        patches.enter_context(mock.patch.object(state._Parsed, "__init__", share))
        for name in ("schema", "properties"):
            patches.enter_context(mock.patch.object(state._Parsed, name, _of_first(name)))
        yield


def _of_first(name: str) -> Any:
    """The value that the first one of equals has read; all of them share its objects, and none its ``__dict__``."""
    read = vars(state._Parsed)[name].func

    def value(self: Any) -> Any:
        first = vars(self).get("first", self)
        return read(self) if first is self else getattr(first, name)

    shared = functools.cached_property(value)
    shared.__set_name__(state._Parsed, name)
    return shared
