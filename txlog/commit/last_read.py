"""What a table handle knows of the user's reads: the version it last returned, and the versions it committed itself.

In: versions, as they are read and committed. Out: the versions of other writers that the user has not seen. A selective
overwrite brings rows that were computed from what the handle read, so changes in those versions must not be lost.
"""

from __future__ import annotations

from txlog.util.locks import new_lock

__all__ = ["LastRead"]

_OWN_MAX = 10_000


class LastRead:
    """For one handle. Thread-safe. Before the first read nothing is unseen: the user's rows come from elsewhere."""

    def __init__(self) -> None:
        self._lock = new_lock()
        self._table_id: str | None = None
        self._version: int | None = None
        self._own: set[int] = set()
        self._own_appends: set[str] = set()

    def read(self, table_id: str, version: int) -> None:
        """Record that the user was given the rows of this version as the newest ones."""
        with self._lock:
            self._table_id, self._version = table_id, version
            self._own.clear()
            self._own_appends.clear()

    def committed(self, version: int) -> None:
        """Record that the user committed this version."""
        with self._lock:
            if self._version is None:
                return
            if version == self._version + 1:
                self._version = version
            elif len(self._own) < _OWN_MAX:  # further versions count as those of others
                self._own.add(version)

    def committed_among_others(self, txn_id: str) -> None:
        """Record that the user made this append, in a version that also has appends of others."""
        with self._lock:
            if self._version is not None and len(self._own_appends) < _OWN_MAX:
                self._own_appends.add(txn_id)

    @property
    def own_appends(self) -> frozenset[str]:
        """The ids of the user's appends in versions that are not only the user's."""
        with self._lock:
            return frozenset(self._own_appends)

    def version_of(self, table_id: str) -> int | None:
        """The version last read; None if there was none, or only of an earlier table at this location."""
        with self._lock:
            return self._version if self._table_id == table_id else None

    def is_own(self, version: int) -> bool:
        """Whether the user committed this version after the one last read."""
        with self._lock:
            return version in self._own
