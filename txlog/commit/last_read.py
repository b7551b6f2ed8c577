"""What a table handle knows of the table's rows: the version that it last gave out, and the versions it made itself.

In: versions, as they are read and committed. Out: the versions of others that its user has not seen. A selective
overwrite holds rows that were computed from what the handle read, so changes in those versions must not be lost.
"""

from __future__ import annotations

import threading

__all__ = ["LastRead"]

_OWN_MAX = 10_000


class LastRead:
    """Of one handle. Thread-safe. Nothing is unseen before the first read: the user took the rows from elsewhere."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._table_id: str | None = None
        self._version: int | None = None
        self._own: set[int] = set()

    def read(self, table_id: str, version: int) -> None:
        """The user was given the rows of this version as the newest ones."""
        with self._lock:
            self._table_id, self._version = table_id, version
            self._own.clear()

    def committed(self, version: int) -> None:
        """The user made this version."""
        with self._lock:
            if self._version is None:
                return
            if version == self._version + 1:
                self._version = version
            elif len(self._own) < _OWN_MAX:  # those beyond it count as made by others
                self._own.add(version)

    def version_of(self, table_id: str) -> int | None:
        """The version last read; None where none was, or only of a table that was here before."""
        with self._lock:
            return self._version if self._table_id == table_id else None

    def is_own(self, version: int) -> bool:
        """Whether the user made this version, after the one last read."""
        with self._lock:
            return version in self._own
