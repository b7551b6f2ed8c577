"""`Committer`: commits proposals to one table, each by a `CommitRun`.

In: a ``Proposal`` and the ``TableState`` it was planned on. Out: a ``CommitOutcome``, acknowledged only when durable.
"""

from __future__ import annotations

from txlog.commit.outcome import CommitOutcome
from txlog.commit.plan import Plan
from txlog.commit.run import CommitRun
from txlog.commit.unsent_files import UnsentFiles
from txlog.commit.waiting_line import WaitingLine
from txlog.errors import (
    NotFoundError,
)
from txlog.hooks import CommitHooks
from txlog.log.proposal import Proposal
from txlog.log.state import TableState
from txlog.log_files.delta_log import DeltaLog
from txlog.log_files.durability import unsynced_versions
from txlog.protocol.log_names import commit_name
from txlog.store.retry import RetryPolicy

__all__ = ["Committer"]


class Committer:
    """Commits proposals to one table. Thread-safe; holds no state of a commit."""

    def __init__(
        self, log: DeltaLog, retry: RetryPolicy, *, engine_info: str, hooks: CommitHooks | None = None
    ) -> None:
        self.log = log
        self.retry = retry
        self.engine_info = engine_info
        self.hooks = hooks
        self.line = WaitingLine(log.store)
        self._probed_table_id: str | None = None
        self.durable_version = -1
        """This version and all below it are known to be on disk."""

    def commit(
        self,
        proposal: Proposal,
        state: TableState | None,
        *,
        plan: Plan | None = None,
        unsent: UnsentFiles | None = None,
    ) -> CommitOutcome:
        """Commit, or raise: nothing landed (``ConflictError``, ``CommitRetriesExhaustedError``, ``StorageError``),
        or it may have (``CommitStateUnknownError``, which names version and ``txn_id``).

        ``state`` is the table as the proposal was planned on it; None creates the table at version 0.
        ``plan`` made the proposal, and makes another one if commits that change files come first. ``unsent`` is
        notified before each put.
        """
        if state is not None and self._probed_table_id != state.metadata.id and self._refuses_newest_commit():
            self._probed_table_id = state.metadata.id
        run = CommitRun(self, proposal, state, plan, unsent)
        try:
            return run.run()
        except KeyboardInterrupt:
            run.report_interrupted()
            raise

    def make_version_durable(
        self, version: int, newest_foreign: int | None = None, *, keeps_order: bool = False
    ) -> None:
        """Sync a version and all below it to disk, before something durable depends on it.

        ``newest_foreign`` and ``keeps_order`` are those of `unsynced_versions`; None: read them from the log.
        Raises ``NotFoundError`` if its commit is gone, ``StorageError``.
        """
        if version <= self.durable_version:
            return
        if newest_foreign is None:
            newest_foreign = self.log.newest_state(refresh=False).newest_foreign
        unsynced = unsynced_versions(self.log, version, newest_foreign, self.durable_version, keeps_order=keeps_order)
        for each in reversed(unsynced):
            try:
                self.log.store.log.make_durable(commit_name(each))
            except NotFoundError:
                if each == version:
                    raise
        self.durable_version = version

    def _refuses_newest_commit(self) -> bool:
        """Raise if the store overwrites existing names instead of refusing: races would lose data. Disks do refuse.

        The probe puts the newest commit again with equal bytes, so it is harmless. An older commit may be cleaned up,
        and writing it again would make later versions look free. Returns False if nothing could be probed.
        """
        if (store := self.log.store.log).capabilities.refuses_taken_names:
            return True
        from txlog.store.probe import probe_newest_commit

        newest = self.log.newest_state(refresh=not self.log.state_is_fresh())
        name = commit_name(newest.version)
        try:
            return probe_newest_commit(store, name, store.read(name))
        except NotFoundError:
            return False  # only its checkpoint is left: there is no commit to probe with
