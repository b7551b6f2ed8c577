"""The partition columns of the versions before the newest: the folders of their files are named after them.

In: a table's log and its newest state. Out: physical names. A vacuum that finds ``_p=1/`` asks whether the table had a
partition column ``_p``: if no version and no removed file says so, the folder is another program's, and stays.
"""

from __future__ import annotations

from urllib.parse import unquote

import pyarrow.compute as pc

from txlog.core.format.actions import Metadata
from txlog.core.format.column_mapping import physical_names
from txlog.core.format.paths import hidden_columns
from txlog.core.format.schema import parse_schema
from txlog.core.versions.decisions.state import TableState
from txlog.core.versions.files import DeltaLog, list_log
from txlog.errors import CorruptLogError, NotFoundError

_MAY_BE_HIDDEN = "(^|/)(_|[.]|%2E|%5F)"


def former_partition_columns(log: DeltaLog, state: TableState) -> set[str]:
    """Those that the log still tells of: the columns of its versions, and the folders of removed files.

    Raises StorageError.
    """
    _, tombstones = log.files_and_tombstones(state, with_stats=False)
    paths = tombstones["path"]
    suspects = paths.filter(pc.match_substring_regex(paths, _MAY_BE_HIDDEN, ignore_case=True))
    found = {name for path in suspects.to_pylist() for name in hidden_columns(unquote(path))}
    listing = list_log(log.store)
    first = min(listing.commits, default=state.version + 1)
    try:
        if listing.checkpoints and first > 0:
            oldest = log.state_at(listing.checkpoints[-1].version)
            found.update(physical_names(oldest.schema, oldest.partition_columns))
        for commit in log.commits_between(first, state.version, files=False):
            for action in commit.actions:
                if isinstance(action, Metadata):
                    found.update(physical_names(parse_schema(action.schema_string), action.partition_columns))
    except (NotFoundError, CorruptLogError):
        pass  # cleaned up meanwhile, or damaged: what is not known to be the table's stays
    return found
