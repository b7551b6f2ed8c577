"""`CommitContext`: what all commits of one handle use and remember.

In: a log, a ``RetryPolicy``, hooks. Out: which versions are on disk, whether the store refuses a version that is taken,
and what the handle knows of the writers of other machines. One commit's own state is a ``CommitRun``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from txlog.core.store import Attempt, RetryPolicy
from txlog.core.util.lazy import cached_property
from txlog.core.versions.decisions.state import TableState
from txlog.core.versions.files import DeltaLog, unsynced_versions
from txlog.errors import NotFoundError
from txlog.hooks import CommitHooks

if TYPE_CHECKING:
    from txlog.core.versions._queue import WaitingLine
    from txlog.core.versions._read_versions import ReadVersions

__all__ = ["CommitContext"]

_JUST_READ_S = 1.0  # about a round trip: a table that was deleted and made again since gets no commit of the old one


class CommitContext:
    """What the commits of one handle have in common. Thread-safe."""

    def __init__(
        self, log: DeltaLog, retry: RetryPolicy, *, engine_info: str, hooks: CommitHooks | None = None
    ) -> None:
        self.log = log
        self.retry = retry
        self.engine_info = engine_info
        self.hooks = hooks
        self.durable_version = -1
        """This version and all below it are known to be on disk; -1 if none is."""
        self.line = self._line(log)
        self._probed_table_id: str | None = None

    @staticmethod
    def _line(log: DeltaLog) -> WaitingLine | None:
        """What this handle knows of the writers of all machines; None on a store where they do not wait."""
        if log.store.waiting is None:
            return None
        from txlog.core.versions._queue import WaitingLine

        return WaitingLine(log.store.waiting, log.versions.round_trip_s)

    @cached_property
    def read(self) -> ReadVersions:
        """The versions that this handle has read, for tables whose appends are committed together."""
        from txlog.core.versions._read_versions import ReadVersions

        return ReadVersions(self.log)

    def make_version_durable(
        self, version: int, newest_foreign: int | None = None, *, keeps_order: bool = False
    ) -> None:
        """Sync a version and all below it to disk, before something durable depends on it.

        ``newest_foreign`` and ``keeps_order`` are as in `unsynced_versions`; None: read them from the log. Raises
        ``NotFoundError`` if its commit is gone, ``StorageError``.
        """
        if version <= self.durable_version:
            return
        if newest_foreign is None:
            newest_foreign = self.log.newest_state(refresh=False).newest_foreign
        known = self.durable_version
        unsynced = unsynced_versions(self.log.commits, version, newest_foreign, known, keeps_order=keeps_order)
        for each in reversed(unsynced):
            try:
                self.log.versions.make_durable(each)
            except NotFoundError:
                if each == version:
                    raise
        self.durable_version = version

    def require_refusals(self, state: TableState) -> None:
        """Check once that the store refuses to create a version that is taken. Raises ``StorageError`` if not."""
        if self._probed_table_id != state.metadata.id and self._refuses_newest_commit():
            self._probed_table_id = state.metadata.id

    def _refuses_newest_commit(self) -> bool:
        """Raise if a version can be put twice: races would lose data. Disks and owners of versions do refuse.

        The probe puts the newest commit again with equal bytes, so it is harmless. An older commit may be cleaned up,
        and writing it again would make later versions look free. Returns False if nothing could be probed.
        """
        versions = self.log.versions
        if versions.capabilities.refuses_taken_names:
            return True
        from txlog.core.store import probe_newest_commit

        newest = self.log.newest_state(refresh=not self.log.state_is_fresh()).version
        loaded = self.log.commits.recent(_JUST_READ_S)
        try:
            body = (loaded and loaded.get(newest)) or versions.read(newest)
            return probe_newest_commit(versions, Attempt(newest, body))
        except NotFoundError:
            return False  # only its checkpoint is left: there is no commit to probe with
