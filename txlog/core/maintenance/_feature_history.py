"""Cuts off the versions that need a table feature, so that it can be dropped without `checkpointProtection`.

In: a table whose newest version has nothing of the feature. Out: nothing, once no version in the log needs it; before
that an error that says when. As in Spark, a version that does not need it must be a day old, and have a checkpoint, at
which the log then begins. PROTOCOL.md, "Metadata Cleanup".
"""

from __future__ import annotations

import datetime
from collections.abc import Callable

from txlog.core import ambient
from txlog.core.format.actions import AddFile, Metadata
from txlog.core.format.commit_file import Commit
from txlog.core.format.features import is_for_readers, use_of
from txlog.core.format.properties import DAY_MS, interval_ms
from txlog.core.versions import OpenTable, clean_up_log
from txlog.core.versions.decisions.state import TableState
from txlog.core.versions.files import list_log
from txlog.core.wording import argument
from txlog.errors import InvalidInputError, TxlogError

RETENTION_KEY = "delta.dropFeatureTruncateHistory.retentionDuration"
"""Spark's property for how old the first version must be that does not need the feature. Default: a day."""

Left = Callable[[OpenTable, TableState], "str | None"]
"""What a version's files and log have of the feature."""


def cut_off_history(open_table: OpenTable, feature: str, left: Left) -> None:
    """Clean the log up to where no version needs ``feature``.

    Raises ``InvalidInputError`` for a feature that only writers need, which has no history, and as long as no version
    without it is old enough.
    """
    if not is_for_readers(feature):
        raise InvalidInputError(
            f"the feature {feature} concerns writers only, so every reader reads older versions: leave"
            f" {argument('truncate_history')} out"
        )
    state, log = open_table.writable_state(), open_table.log
    listing = list_log(open_table.store)
    if _is_clear(open_table, min(listing.commits), state, feature, left):
        return
    with TxlogError.located(open_table.uri, state.version):
        retention_ms = _retention_ms(state)
    old_enough_ms = ambient.now_ms() - retention_ms
    starts = [found.version for found in listing.checkpoints]  # newest first
    start = next((version for version in starts if log.timestamp_ms(version) <= old_enough_ms), None)
    if start is not None and _is_clear(open_table, start, state, feature, left):
        clean_up_log(log, state, retention_ms=retention_ms)
        if min(list_log(open_table.store).commits) >= start:
            return
    clear = [version for version in starts if _is_clear(open_table, version, state, feature, left)]
    if not clear:
        log.write_checkpoint(state)
    first = min(clear, default=state.version)
    after_s = (log.timestamp_ms(first) + retention_ms) / 1000
    after = datetime.datetime.fromtimestamp(after_s, datetime.timezone.utc)
    raise InvalidInputError(
        f"versions before v{first} need the feature {feature}, which is gone from the newest version: run this again"
        f" after {after:%Y-%m-%d %H:%M} UTC, when v{first} is older than {RETENTION_KEY} and the log may begin with it."
        f" Or leave {argument('truncate_history')} out: then the versions stay, protected by the feature"
        " checkpointProtection"
    )


def _retention_ms(state: TableState) -> int:
    found = interval_ms(state.metadata.configuration, RETENTION_KEY)
    return DAY_MS if found is None else found


def _is_clear(open_table: OpenTable, version: int, newest: TableState, feature: str, left: Left) -> bool:
    """Whether no version from this one on needs the feature."""
    state = open_table.log.state_at(version)
    if use_of(feature, state.metadata) is not None or left(open_table, state) is not None:
        return False
    return not any(_needs(each, feature) for each in open_table.log.commits_between(version + 1, newest.version))


def _needs(commit: Commit, feature: str) -> bool:
    for action in commit.actions:
        if isinstance(action, Metadata) and use_of(feature, action) is not None:
            return True
        if isinstance(action, AddFile) and feature == "deletionVectors" and action.deletion_vector is not None:
            return True
    return False
