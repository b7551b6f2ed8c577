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

from txlog.commit import run
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
    derived = state._Parsed
    known: dict[tuple[int, int], Any] = {}

    def of_definition(protocol: Any, metadata: Any) -> Any:
        key = id(protocol), id(metadata)  # `known` keeps both, so no other object gets their ids
        if key not in known:
            if len(known) >= _DEFINITIONS_MAX:
                known.clear()
            known[key] = derived(protocol, metadata)
        return known[key]

    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(state, "_Parsed", of_definition))
        for place in (commits, run):
            parse = functools.lru_cache(_COMMITS_MAX)(place.parse_commit)
            stack.enter_context(mock.patch.object(place, "parse_commit", parse))
        yield
