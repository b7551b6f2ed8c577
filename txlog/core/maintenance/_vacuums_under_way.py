"""Vacuums that have begun and not ended, and which files they may be deleting right now.

In: a table's log at its newest version, and removed files that must stay. Out: the files among them that a running
vacuum may have planned to delete.

A vacuum commits VACUUM START before its first deletion, and looks for new commits and names before each batch. So a
caller that brings files back must call this *after* the point where a vacuum can no longer miss it: for a restore, once
no VACUUM START can come before its commit; for a named version, once its name exists. Then one of the two always sees
the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from txlog.core import ambient
from txlog.core.format.actions import AddFile
from txlog.core.format.properties import DAY_MS
from txlog.core.maintenance._version_files import removed_before
from txlog.core.versions.decisions.state import TableState
from txlog.core.versions.files import CommitSummary, DeltaLog

START, END = "VACUUM START", "VACUUM END"

_HOUR_MS = 3_600_000
_LONGEST_MS = DAY_MS  # a vacuum that began earlier has crashed


class Endangered(msgspec.Struct, frozen=True):
    """``files`` may be deleted at any moment by the vacuum that began in ``version``."""

    version: int
    files: tuple[AddFile, ...]


def endangered_by_vacuum(
    log: DeltaLog, state: TableState, added: Sequence[AddFile], since_version: int
) -> Endangered | None:
    """The ``added`` files that a running vacuum may delete; all of them were live in ``since_version``.

    Only vacuums that began after that version, and within the last day, can delete them.
    """
    if not added:
        return None
    day_ago = log.newest_version_until(ambient.now_ms() - _LONGEST_MS, state)
    first = max(since_version, -1 if day_ago is None else day_ago) + 1
    for begun in _under_way(log.history(state.version - first + 1, state) if first <= state.version else []):
        retention_ms = _retention_ms(begun)
        cutoff_ms = begun.timestamp_ms - retention_ms + min(_HOUR_MS, retention_ms // 2)
        files = removed_before(log, state, added, cutoff_ms)
        if files:
            return Endangered(begun.version, tuple(files))
    return None


def _under_way(newest_first: Sequence[CommitSummary]) -> list[CommitSummary]:
    """The vacuums that began and did not end. A VACUUM END does not name its vacuum: assume the one that deletes
    least."""
    running: list[CommitSummary] = []
    for commit in reversed(newest_first):
        operation = commit.commit_info.operation if commit.commit_info else None
        if operation == START:
            running.append(commit)
        elif operation == END and running:
            running.remove(max(running, key=_retention_ms))
    return running


def _retention_ms(begun: CommitSummary) -> int:
    """The retention of the vacuum; 0 if its commit does not have it."""
    fields: Any = begun.commit_info.fields.get("operationParameters") if begun.commit_info else None
    parameters = fields if isinstance(fields, Mapping) else {}
    for key in ("specifiedRetentionMillis", "defaultRetentionMillis"):
        text = str(parameters.get(key, "")).strip('"')
        if text.isdecimal():
            return int(text)
    return 0
