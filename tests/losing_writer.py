"""A writer that loses its first race: the same for all tests of what a lost race does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import force_setattr

from txlog.core.store._commit_queue import OPEN
from txlog.hooks import CommitHooks
from txlog.table import Table

__all__ = ["losing_to"]


def losing_to(table: Table, rival: Callable[[Table], Any], hooks: CommitHooks | None = None) -> Table:
    """Another handle whose first put comes after what the rival does."""
    ours = Table.open(table.uri, hooks=hooks)
    force_setattr(ours._open_table.store, "commit_queue", OPEN)  # the rival would wait until our turn is over
    log = ours._open_table.store.log
    real, overtaken = log.put_if_absent, []

    def put(name: str, body: bytes) -> Any:
        if not overtaken:
            overtaken.append(name)
            rival(Table.open(table.uri))
        return real(name, body)

    log.put_if_absent = put  # type: ignore[method-assign]
    return ours
