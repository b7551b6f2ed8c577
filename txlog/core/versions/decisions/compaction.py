"""What a log compaction file holds: the commits of a range, reconciled into one list of actions. Pure.

In: commits in ascending order. Out: the bytes of ``X.Y.compacted.json`` and the number of its actions. Unlike a
checkpoint, it keeps every removal of a file or domain, since nothing is known about earlier versions. It leaves out
superseded actions, ``commitInfo`` and change data. PROTOCOL.md, "Log Compaction Files".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import orjson
from msgspec.structs import replace

from txlog.core.format.actions import Action, DomainMetadata, Metadata, Protocol, SetTransaction, action_to_json
from txlog.core.format.commit_file import Commit
from txlog.core.versions.decisions.files import fold_commits


def compacted_bytes(commits: Sequence[Commit]) -> tuple[bytes, int]:
    """The file for these commits, a dense range. Its ``add`` and ``remove`` actions have ``dataChange`` false."""
    small = _newest_small_actions(action for commit in commits for action in commit.actions)
    files = [replace(action, data_change=False) for action in fold_commits(commits).values()]
    # With a newline they are copies: orjson's own bytes keep the memory of its buffer, several times their size.
    lines = [orjson.dumps(action_to_json(action)) + b"\n" for action in (*small, *files)]
    return b"".join(lines), len(lines)


def _newest_small_actions(actions: Iterable[Action]) -> list[Action]:
    """The last protocol and metadata, and each application's and domain's last action."""
    newest: dict[tuple[str, str], Action] = {}
    for action in actions:
        if isinstance(action, Protocol | Metadata):
            newest[action.KEY, ""] = action
        elif isinstance(action, SetTransaction):
            newest[action.KEY, action.app_id] = action
        elif isinstance(action, DomainMetadata):
            newest[action.KEY, action.domain] = action
    return list(newest.values())
