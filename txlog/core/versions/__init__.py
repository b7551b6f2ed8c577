"""The commit loop: the only room that puts a version."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from txlog.core.versions._cached_tables import KEPT_MAX, CachedTable
    from txlog.core.versions._commit_errors import READ_AGAIN, WRITE_AGAIN, raise_conflict
    from txlog.core.versions._commit_together import TablePart, commit_together, steps_together
    from txlog.core.versions._identity_ranges import GivesNumbers, numbers_of
    from txlog.core.versions._internals import builder_of, open_table_of, state_of
    from txlog.core.versions._open_table import OpenTable, Steps, ToCommit
    from txlog.core.versions._plan import Plan
    from txlog.core.versions._read_together import states_together
    from txlog.core.versions._resolve_unknown import resolve, resolve_creation
    from txlog.core.versions.upkeep._log_clean_up import clean_up_log
    from txlog.core.versions.upkeep._log_compaction import compact_log
    from txlog.core.versions.upkeep._post_commit import FollowsCommits, MakesFollower
    from txlog.core.versions.upkeep._version_checksum import write_checkpoint_and_checksum
else:
    from txlog.core.util import face

    __getattr__, __dir__ = face(
        __name__,
        """
        _cached_tables: KEPT_MAX CachedTable
        _commit_together: TablePart commit_together steps_together
        _identity_ranges: GivesNumbers numbers_of
        _internals: builder_of open_table_of state_of
        _open_table: OpenTable Steps ToCommit
        _plan: Plan
        _commit_errors: READ_AGAIN WRITE_AGAIN raise_conflict
        _read_together: states_together
        _resolve_unknown: resolve resolve_creation
        upkeep._log_clean_up: clean_up_log
        upkeep._log_compaction: compact_log
        upkeep._post_commit: FollowsCommits MakesFollower
        upkeep._version_checksum: write_checkpoint_and_checksum
        """,
    )

__all__ = [
    "KEPT_MAX",
    "READ_AGAIN",
    "WRITE_AGAIN",
    "CachedTable",
    "FollowsCommits",
    "GivesNumbers",
    "MakesFollower",
    "OpenTable",
    "Plan",
    "Steps",
    "TablePart",
    "ToCommit",
    "builder_of",
    "clean_up_log",
    "commit_together",
    "compact_log",
    "numbers_of",
    "open_table_of",
    "raise_conflict",
    "resolve",
    "resolve_creation",
    "state_of",
    "states_together",
    "steps_together",
    "write_checkpoint_and_checksum",
]
