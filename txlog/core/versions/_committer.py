"""`Committer`: the door through which every change of one table becomes a version.

In: a ``Proposal`` and the ``TableState`` it was planned on. Out: a ``CommitOutcome``, acknowledged only when durable.
`alone` is the first implementation: each commit tries for the next version by itself.
"""

from __future__ import annotations

from typing import Protocol

from txlog.core.versions._outcome import CommitOutcome
from txlog.core.versions._plan import Plan
from txlog.core.versions.decisions.proposal import Proposal
from txlog.core.versions.decisions.state import TableState
from txlog.core.writing.unsent_files import UnsentFiles

__all__ = ["Committer"]


class Committer(Protocol):
    """Commits proposals to one table. Thread-safe."""

    @property
    def durable_version(self) -> int:
        """This version and all below it are known to be on disk; -1 if none is."""

    def submit(
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

    def require_refusals(self, state: TableState) -> None:
        """Check once that the store refuses to create a version that is taken. Raises ``StorageError`` if not."""

    def make_version_durable(self, version: int) -> None:
        """Sync a version and all below it to disk, before something durable depends on it.

        Raises ``NotFoundError`` if its commit is gone, ``StorageError``.
        """
