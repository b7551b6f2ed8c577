"""`CommitContext`: what all commits of one handle use and remember.

In: a log, a ``RetryPolicy``, hooks. Out: which versions are on disk, whether the store refuses a version that is taken,
and what the handle knows of the writers of other machines. One commit's own state is a ``CommitRun``.

Also what must hold of the version below the one that a commit puts: it is on disk before the put, and still a part of
the log after it. A power cut could otherwise leave a gap below the commit, and a table that was replaced, or a log that
was cleaned up while this process slept, would have a version that no reader sees.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from txlog.core import ambient
from txlog.core.store import Attempt, Patience, RetryPolicy
from txlog.core.util import cached_property
from txlog.core.versions.decisions.retention import trusted_s
from txlog.core.versions.decisions.state import TableState
from txlog.core.versions.files import FRESH_MAX_S, DeltaLog, unsynced_versions
from txlog.errors import NotFoundError, StorageError
from txlog.hooks import CommitHooks

if TYPE_CHECKING:
    from txlog.core.versions._read_versions import ReadVersions
    from txlog.core.versions._waiting_line import WaitingLine

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
        self.settle: Callable[[TableState], bool] | None = None
        """Ends the transaction over several tables that a version is prepared for; whether it could. None: nobody does.
        """
        self.durable_version = -1
        """This version and all below it are known to be on disk; -1 if none is."""
        self.line = self._line(log)
        self._probed_table_id: str | None = None

    @staticmethod
    def _line(log: DeltaLog) -> WaitingLine | None:
        """What this handle knows of the writers of all machines; None on a store where they do not wait."""
        if log.store.waiting is None:
            return None
        from txlog.core.versions._waiting_line import WaitingLine

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


class BrokenBase(Exception):
    """Why a commit cannot build on the version below it, or may not have."""


def make_predecessor_durable(
    context: CommitContext, state: TableState, patience: Patience, *, keeps_order: bool
) -> None:
    """Before we link N+1, a foreign N must be on disk: otherwise a power cut could leave a gap below our commit.

    If a check costs nothing, N must also exist: if the table was replaced meanwhile, N+1 would leave a gap.
    ``keeps_order`` is as in `CommitContext.make_version_durable`.
    """
    log = context.log
    if not log.still_has(state):
        return _require_checkpoint(context, state)
    if not log.versions.capabilities.needs_sync and log.state_is_fresh():
        return None  # it was seen within the last minute, and what can be seen is durable
    make = partial(context.make_version_durable, keeps_order=keeps_order)
    try:
        return patience.until_answered(partial(make, state.version, state.newest_foreign), state.version + 1)
    except NotFoundError:
        return _require_checkpoint(context, state)


def require_predecessor(
    context: CommitContext, state: TableState | None, confirmed_at: ambient.Instant | None, version: int
) -> None:
    """The ``version`` after ``state`` is ours. Raise if the one below is gone, or if later ones were there first: no
    reader would see this commit. ``confirmed_at``: when the one below was the newest, if that is known."""
    versions = context.log.versions
    if versions.capabilities.remembers_versions:
        return
    was_free = (
        state is not None
        and confirmed_at is not None
        and ambient.age_s(confirmed_at) <= trusted_s(state.properties, FRESH_MAX_S)
    )
    if state is not None and (not was_free or versions.capabilities.has_cheap_calls):
        try:
            versions.stat(state.version)
        except NotFoundError:
            _require_checkpoint(context, state)
        except StorageError as error:
            raise BrokenBase(f"the version before it could not be read ({error.message})") from error
    if not was_free:
        _require_not_passed(context, version)


def _require_not_passed(context: CommitContext, version: int) -> None:
    """Raise if other writers took this version, moved on and cleaned up, all while this process was suspended. The
    version before ours may be there again: another suspended writer may have put it."""
    try:
        is_stray = context.log.is_stray(version)
    except (NotFoundError, StorageError) as error:
        raise BrokenBase(f"the versions after it could not be read ({error.message})") from error
    if is_stray:
        raise BrokenBase("later versions were in the log before it, so that readers may not see it")


def _require_checkpoint(context: CommitContext, state: TableState) -> None:
    """A copied table may hold a version only as a checkpoint. Check that it exists: in a table that was dropped and
    created again, neither the commit nor the checkpoint is there."""
    checkpoint = state.segment.checkpoint
    try:
        if checkpoint is not None and checkpoint.version == state.version:
            for name in checkpoint.names:
                context.log.store.log.stat(name)
            return
    except NotFoundError:
        pass
    except StorageError as error:
        raise BrokenBase(f"the checkpoint at its version could not be read ({error.message})") from error
    raise BrokenBase(f"version {state.version}, which it builds on, is gone from the log")
