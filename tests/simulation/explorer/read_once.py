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

from txlog.log import state
from txlog.log_files import commits

__all__ = ["reading_once"]

_COMMITS_MAX = 4096
_DEFINITIONS_MAX = 4096


@contextlib.contextmanager
def reading_once() -> Iterator[None]:
    """Parse each commit and each definition once in the block.

    What a test put in place of one of the functions is remembered in the same way.
    """
    parsed = state._Parsed.__init__
    known: dict[tuple[int, int], dict[str, Any]] = {}

    def share(self: Any, protocol: Any, metadata: Any) -> None:
        key = id(protocol), id(metadata)  # `known` keeps both, so no other object gets their ids
        if key in known:
            self.__dict__ = known[key]
            return
        if len(known) >= _DEFINITIONS_MAX:
            known.clear()
        parsed(self, protocol, metadata)
        known[key] = self.__dict__

    parse = functools.lru_cache(_COMMITS_MAX)(vars(commits)["parse_commit"])
    with mock.patch.object(commits, "parse_commit", parse), mock.patch.object(state._Parsed, "__init__", share):
        yield
