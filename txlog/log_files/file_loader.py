"""The files of one version from the store: the checkpoint's, then what the commits after it say of them.

In: a ``TableState``. Out: its live files and tombstones as Arrow tables; with a predicate only the files that may
match, of which only what is needed is read. A checkpoint that fails is replaced by an older one, with a warning.
PROTOCOL.md, "Action Reconciliation".
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from txlog.arrow.small_pages import small_pages
from txlog.errors import CorruptLogError, NotFoundError
from txlog.log.files import Newest, coalesced, fold_commits, reconcile, reconcile_tombstones, with_added
from txlog.log.segment import CheckpointFiles, LogSegment, choose_segment, read_listing
from txlog.log.state import TableState
from txlog.log_files.checkpoint_reader import CheckpointReader
from txlog.log_files.commits import CommitReader
from txlog.log_files.state_loader import as_corrupt
from txlog.protocol.commit_file import Limits
from txlog.protocol.log_names import version_prefix
from txlog.store.base import TableStore

if TYPE_CHECKING:
    from txlog.skipping.many_files import FilePruner

__all__ = ["FileLoader"]

_logger = logging.getLogger("txlog")

T = TypeVar("T")


class FileLoader:
    """Loads the files of versions of one table. Thread-safe."""

    def __init__(self, store: TableStore, limits: Limits) -> None:
        self._store = store
        self._table = store.uri
        self._commits = CommitReader(store, limits)
        self._checkpoints = CheckpointReader(store, limits)
        self._looked_up: tuple[tuple[str, ...], int] = ((), 0)

    def files(self, state: TableState, pruner: FilePruner | None = None) -> pa.Table:
        """The live files of ``head``; with ``pruner`` those that may match, of which only what is needed is read.

        Raises ``CorruptLogError``, ``StorageError``, ``NotFoundError`` (cleaned up).
        """

        def read(checkpoint: CheckpointFiles | None, newest: Newest) -> pa.Table:
            adds = self._checkpoints.adds(checkpoint, pruner, newest=newest) if checkpoint else ()
            return with_added(adds, newest, pruner.mask if pruner else None)

        return self._read(state, read)

    def files_and_tombstones(self, state: TableState) -> tuple[pa.Table, pa.Table]:
        """The live files and the tombstones of ``head``, all that the log still tells of. Raises as `files`."""

        def read(checkpoint: CheckpointFiles | None, newest: Newest) -> tuple[pa.Table, pa.Table]:
            if checkpoint is None:
                return with_added((), newest), reconcile_tombstones((), newest)
            live = with_added(self._checkpoints.adds(checkpoint, newest=newest), newest)
            return live, reconcile_tombstones(self._checkpoints.removes(checkpoint, newest), newest)

        return self._read(state, read)

    def files_from(self, known: pa.Table, version: int, state: TableState) -> pa.Table:
        """The live files of ``head``, given those of an older ``version``: only the commits since are read.

        Raises as `files`.
        """
        commits = self._commits.read_range(version + 1, state.version, files=True)
        return coalesced(reconcile(known.to_batches(), fold_commits(commits)))

    def newest_checkpoint(self, state: TableState) -> CheckpointFiles | None:
        """The newest checkpoint up to ``head`` that the log has, whoever wrote it. Raises ``StorageError``."""
        known = state.segment.checkpoint
        listing = read_listing(self._store.log.list_from(version_prefix(known.version if known else 0)))
        return next((found for found in listing.checkpoints if found.version <= state.version), known)

    def checkpoint_bytes(self, checkpoint: CheckpointFiles) -> int:
        """What all files of a checkpoint take. Where neither listing nor hint told, it is looked up, once.

        Raises ``CorruptLogError``, ``StorageError``, ``NotFoundError``.
        """
        if checkpoint.size_bytes is not None:
            return checkpoint.size_bytes
        if self._looked_up[0] != checkpoint.names:
            self._looked_up = checkpoint.names, self._checkpoints.size_bytes(checkpoint)
        return self._looked_up[1]

    def newest_after(self, state: TableState, checkpoint: CheckpointFiles) -> Newest:
        """What the commits from ``checkpoint`` to ``head`` say of files. Raises as `files`."""
        return self._fold_tail(state, LogSegment(state.version, checkpoint))

    def _read(self, state: TableState, read: Callable[[CheckpointFiles | None, Newest], T]) -> T:
        """``read`` of the checkpoint and of what the commits after it say, of an older one where that fails."""
        segment = state.segment
        excluded: frozenset[tuple[str, ...]] = frozenset()
        while True:
            newest = self._fold_tail(state, segment)
            try:
                with small_pages():
                    return read(segment.checkpoint, newest)
            except (CorruptLogError, NotFoundError) as error:
                if segment.checkpoint is None:
                    raise
                _logger.warning("%s: falling back to an older checkpoint or the commits: %s", self._table, error)
                excluded |= {segment.checkpoint.names}
                listing = read_listing(self._store.log.list_from(version_prefix(0)))
                older = choose_segment(listing, target=state.version, excluded=excluded)
                if older is None or (older.checkpoint is None and 0 not in listing.commits):
                    raise as_corrupt(error, segment.checkpoint) from error
                segment = older

    def _fold_tail(self, state: TableState, segment: LogSegment) -> Newest:
        try:
            return fold_commits(self._commits.read_plan(segment, files=True))
        except NotFoundError as error:
            raise NotFoundError(
                f"the files of version {state.version} are no longer in the log: {error.message}. Load it again",
                table=self._table,
                version=state.version,
                path=error.path,
            ) from error
