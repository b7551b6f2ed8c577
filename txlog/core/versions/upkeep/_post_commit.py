"""Work that follows an acknowledged commit in the background: checkpoint, checksum, cleanup. It never
fails the commit.

In: the table state after a commit. Out: nothing. When a checkpoint
is due, it is written, and then files that the log's retention no longer keeps are deleted, unless a recent search for
them took long. Every tenth version gets a checksum file. If a single writer commits slowly, every version gets one;
otherwise not, since a checksum file costs the disk as much as a small commit. A failure is logged as a warning: the log
is complete without these files.

The background thread imports nothing: Ctrl-C in the middle of an import can leave Python's import lock with the main
thread, and a thread that then imports would never end, nor would the process.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from txlog.core import ambient
from txlog.core.format.properties import is_of_a_package
from txlog.core.parallel import new_lock
from txlog.core.util import cached_property, logger
from txlog.core.versions.decisions.state import TableState
from txlog.core.versions.files import DeltaLog
from txlog.hooks import CommitHooks, timed
from txlog.result import counted

if TYPE_CHECKING:
    from txlog.core.background import Background
    from txlog.core.points import Point
    from txlog.core.versions.upkeep._symlink_manifests import SymlinkManifests

Step = Callable[[TableState], bool]

_CHECKSUM_EVERY = 10  # versions, at any commit rate, so a writer that opens the table finds a recent one
CHECKSUM_SPACING_S = 1.0  # if commits are at least this far apart, each of them gets a checksum file
_OVERDUE_WAIT_S = 30.0  # a job that is killed or frozen right after each commit writes no checkpoint in the background
_CLEANED_UP_AT_ONCE = 1000  # an ending process waits for the cleanup; the next checkpoint deletes the rest
_CLEAN_UP_SHARE = 100  # wait this many times the duration of the last search before the (long) log is listed again


class FollowsCommits(Protocol):
    """What keeps something up to date with a table, for one handle. Thread-safe."""

    @property
    def background(self) -> Background:
        """Its own thread: a process that ends waits for what it has begun there."""

    def after(self, state: TableState) -> None:
        """The table has a new version, which is acknowledged. Threads may report versions in any order.

        Do what takes long in the background, and let that include the versions that come meanwhile: a commit waits for
        this call. Import here what the background needs, never there. What this raises is logged as a warning.
        """


class MakesFollower(Protocol):
    def __call__(self, log: DeltaLog) -> FollowsCommits:
        """What follows the commits of one handle: an entry of the group ``txlog.after_commit`` that has the name of the
        property which switches it on. Makes no request. The package offers the property too (``txlog.properties``)."""


def _offered() -> Point[MakesFollower]:
    from txlog.core.points import Point  # most tables ask no package

    return Point("txlog.after_commit", "what follows the commits of tables with")


class PostCommit:
    """Runs the post-commit work of one table handle, at most one piece at a time, on its own thread.

    An ending process waits for the work, as `Background` says.
    """

    def __init__(self, log: DeltaLog, hooks: CommitHooks | None = None) -> None:
        self._log = log
        self._hooks = hooks
        self._lock = new_lock()
        self._checkpoints = False  # whether the running work writes a checkpoint
        self._checksum_begun_s = ambient.monotonic_s()
        self._clean_up_from_s = -math.inf
        self._last_version: int | None = None
        self._followers: dict[str, FollowsCommits] = {}

    @cached_property
    def _background(self) -> Background:
        from txlog.core.background import Background

        return Background("txlog-post-commit")

    def follower(self, key: str) -> FollowsCommits:
        """What follows the commits of this handle if the table has the property ``key``, whether it has it or not.

        Raises UnsupportedFeatureError if no package offers it.
        """
        with self._lock:
            found = self._followers.get(key)
            if found is None:
                found = self._followers[key] = _offered().load(key)(self._log)
        return found

    @cached_property
    def manifests(self) -> SymlinkManifests:
        from txlog.core.versions.upkeep._symlink_manifests import SymlinkManifests

        return SymlinkManifests(self._log)

    def after_unread(self, before: TableState) -> None:
        """A commit on ``before`` landed, and the version that it became was not read: readers of manifests still wait
        for it. Other work waits for the next commit. Never raises."""
        if before.properties.symlink_manifests:
            self._write_manifests(None)

    def _write_manifests(self, state: TableState | None) -> None:
        try:
            self.manifests.after(state or self._log.newest_state())
        except Exception as error:
            logger.warning(
                "%s: the manifests of its newest version were not written, so that readers by manifest do not see it,"
                " the commit is safe. The next commit, or generate(), writes them: %s",
                self._log.uri,
                error,
            )

    def after(self, state: TableState, txn_id: str | None = None) -> None:
        """Start the work due at ``state``. If other work is running, it waits for a later commit. Never raises.

        Manifests are written before it returns, as Spark's Delta does: who reads by them next sees the commit.
        """
        if state.properties.symlink_manifests:
            self._write_manifests(state)
        for key in filter(is_of_a_package, state.metadata.configuration):
            try:
                if _offered().get(key) is not None:
                    self.follower(key).after(state)
            except Exception as error:
                logger.warning(
                    "%s: what follows the commit of v%d for %s failed, the commit is safe: %s",
                    self._log.uri,
                    state.version,
                    key,
                    error,
                )
        try:
            self._begin(state, txn_id)
        except Exception as error:  # the store does not answer, or the interpreter is about to end
            logger.warning(
                "%s: the upkeep after v%d failed, the commit is safe: %s", self._log.uri, state.version, error
            )

    def _begin(self, state: TableState, txn_id: str | None) -> None:
        is_first = self._last_version is None  # it also does what a killed process left undone
        checkpoint, checksum = self._log.checkpoint_is_due(state, is_first=is_first), self._checksum_is_due(state)
        self._last_version = state.version
        if not checkpoint and not checksum:
            return
        from txlog.core.versions.files import FileLoader  # noqa: F401  the thread finds its module imported
        from txlog.core.versions.upkeep import _version_checksum as version_checksum  # noqa: F401

        if checkpoint:
            from txlog.core.versions.upkeep import _log_clean_up as log_clean_up  # noqa: F401

        with self._lock:
            if self._background.is_busy and (self._checkpoints or not checkpoint):
                return
            self._checksum_begun_s = ambient.monotonic_s()
            self._checkpoints = checkpoint
        write = partial(self._checkpoint, is_first=is_first) if checkpoint else None
        work = partial(self._work, state, txn_id, checkpoint=write, checksum=checksum)
        what = "checkpoint" if checkpoint else "checksum"
        self._background.begin(f"the {what} of {self._log.uri} at v{state.version}", work, waits=checkpoint)
        if checkpoint and is_first and self._log.checkpoint_is_overdue(state):
            self._background.drain(_OVERDUE_WAIT_S)

    def drain(self) -> None:
        """Wait for running work as the end of a process does. For processes that run no exit handlers, such as Spark's
        workers."""
        begun = [self._background] if "_background" in vars(self) else []
        begun += [each.background for each in self._followers.values()]
        if begun:
            from txlog.core.background import wait_for

            wait_for(begun)

    def _checksum_is_due(self, state: TableState) -> bool:
        if state.totals is None:
            return False
        if state.version % _CHECKSUM_EVERY == 0:
            return state.version > 0  # the first commit itself is the whole state
        if self._last_version not in (None, state.version - 1):
            return False  # others commit too, and need the disk
        return ambient.monotonic_s() - self._checksum_begun_s >= CHECKSUM_SPACING_S

    def _work(self, state: TableState, txn_id: str | None, *, checkpoint: Step | None, checksum: bool) -> None:
        is_written = checkpoint is not None and self._done("checkpoint", checkpoint, state)
        if is_written or checksum:
            self._done("checksum", partial(self._checksum, txn_id), state)
        cleans_up = state.properties.enable_expired_log_cleanup and not self._log.versions.capabilities.maintains
        if is_written and cleans_up:
            self._done("log cleanup", self._clean_up, state)

    def _done(self, what: str, step: Step, state: TableState) -> bool:
        try:
            return step(state)
        except Exception as error:
            logger.warning(
                "%s: the %s at v%d failed, the commit is safe: %s", self._log.uri, what, state.version, error
            )
            return False

    def _checkpoint(self, state: TableState, *, is_first: bool) -> bool:
        state = self._log.on_newest_checkpoint(state)
        if not self._log.checkpoint_is_due(state, is_first=is_first):
            return False  # another writer's came first
        with timed(self._hooks, self._log.uri, "checkpoint"):
            logger.debug("%s: checkpoint at v%d", self._log.uri, self._log.write_checkpoint(state))
        return True

    def _checksum(self, txn_id: str | None, state: TableState) -> bool:
        from txlog.core.versions.upkeep import _version_checksum as version_checksum

        return version_checksum.write_checksum(self._log, state, txn_id)

    def _clean_up(self, state: TableState) -> bool:
        from txlog.core.versions.upkeep import _log_clean_up as log_clean_up

        began_s = ambient.monotonic_s()
        if began_s < self._clean_up_from_s:
            return False
        done = log_clean_up.clean_up_log(self._log, state, most=_CLEANED_UP_AT_ONCE, has_written=True)
        if len(done.names) < _CLEANED_UP_AT_ONCE:
            ended_s = ambient.monotonic_s()
            self._clean_up_from_s = ended_s + _CLEAN_UP_SHARE * (ended_s - began_s)
        if done.names:
            logger.info(
                "%s: log cleanup deleted %s (%d bytes)",
                self._log.uri,
                counted(len(done.names), "file"),
                done.size_bytes,
            )
        return True
