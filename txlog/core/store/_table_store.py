"""The stores of one table, and who owns its versions.

In: what an opener found. Out: `TableStore`, all that the rest of txlog knows about where a table is.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from txlog.core.store._base import FileStore, LogStore
from txlog.core.store._commit_queue import OPEN, CommitQueue
from txlog.core.store._versions import FolderVersions, VersionLog


class TableStore(msgspec.Struct, frozen=True):
    """The stores of one table. ``uri`` is safe to show: no credentials, no query.

    ``log`` is the log's folder. To get a version, ask `versions`: it need not be a file in that folder.
    ``staging`` has the guarantees of a log, in the folder ``_txlog/staging``; None on stores where sinks cannot stage.
    ``named_versions`` has them in ``_txlog/versions``; None on stores where versions cannot be named.
    ``iceberg`` has them in ``_iceberg/metadata``; None on stores where Iceberg metadata cannot be exported.
    ``waiting`` has them in ``_txlog/waiting``; None on stores whose commit queue all writers share.
    ``commit_queue`` is where the table's writers queue before they commit.
    ``owner`` decides which commit becomes a version; None: whoever creates the next file in the folder.
    ``address`` is a location and options without secrets by which any process finds the table with its owner; None:
    ``uri`` is enough. ``new_properties`` are those that version 0 must have if the owner is to accept it.
    """

    uri: str
    log: LogStore
    files: FileStore
    staging: LogStore | None = None
    commit_queue: CommitQueue = OPEN
    named_versions: LogStore | None = None
    iceberg: LogStore | None = None
    waiting: LogStore | None = None
    owner: VersionLog | None = None
    address: tuple[str, Mapping[str, str]] | None = None
    new_properties: Mapping[str, str] = {}

    @property
    def known_as(self) -> str | None:
        """The name under which a catalog has the table; None for a table that was opened by its location."""
        return getattr(self.uri, "known_as", None)

    @property
    def versions(self) -> VersionLog:
        """The table's versions: the only way to put one, and to read one by number."""
        return FolderVersions(self.log) if self.owner is None else self.owner

    @property
    def has_cheap_calls(self) -> bool:
        """Whether a call to the store takes microseconds, see `LogCapabilities`."""
        return self.log.capabilities.has_cheap_calls
