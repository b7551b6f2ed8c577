"""Log cleanup: deletes versions older than the retention from the log, and nothing that a retained version needs.

In: a table's log and its newest state. Out: a ``LogCleanUp``. ``core/versions/decisions/clean_up`` decides what may be
deleted, and in which order. This module reads and syncs the remaining checkpoint before the first deletion, and deletes
each file by name. PROTOCOL.md, "Metadata Cleanup".
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from txlog.core import ambient
from txlog.core.format.actions import Metadata, Protocol, Sidecar
from txlog.core.format.features import check_can_write
from txlog.core.format.log_names import SIDECARS, LogFileKind, parse_log_name
from txlog.core.progress import OnDone
from txlog.core.store import LogStore, ObjectMeta
from txlog.core.util import logger
from txlog.core.versions.decisions import clean_up
from txlog.core.versions.decisions.segment import CheckpointFiles
from txlog.core.versions.decisions.state import TableState
from txlog.core.versions.files import CheckpointReader, DeltaLog, drop_hint_below, sidecar_name
from txlog.errors import CorruptLogError, NotFoundError, TxlogError
from txlog.result.maintenance import LogCleanUp

_LISTINGS_MAX = 10


def clean_up_log(
    log: DeltaLog,
    state: TableState,
    *,
    dry_run: bool = False,
    most: int | None = None,
    on_progress: OnDone | None = None,
    has_written: bool = False,
    retention_ms: int | None = None,
) -> LogCleanUp:
    """Delete what ``delta.logRetentionDuration`` no longer keeps; with ``dry_run`` only list it.

    ``most`` limits how many version files one run deletes; the oldest go first, the rest in the next run. Protected
    versions go in one run, however many they are.
    ``has_written`` states that the caller has just written to the log. Then the newest file shows the store's time, and
    nothing is deleted early if this machine's clock is ahead. ``retention_ms`` takes the place of the property. Raises
    ``UnsupportedFeatureError`` for a table this release may not write, ``StorageError``.
    """
    with TxlogError.located(log.uri, state.version):
        check_can_write(state.protocol, state.metadata)
    if not dry_run:
        log.require_maintained_here("the clean-up of the log")
    return _CleanUp(log, state, retention_ms, has_written=has_written).run(dry_run, most, on_progress)


class _CleanUp:
    def __init__(self, log: DeltaLog, state: TableState, retention_ms: int | None, *, has_written: bool) -> None:
        self._retention_ms = retention_ms
        self._has_written = has_written
        self._log = log
        self._store = log.store.log
        self._state = state
        self._protected_version = clean_up.protected_version(state.protocol, state.metadata)
        self._now_ms = ambient.now_ms()
        self._reader = CheckpointReader(log.store, log.limits)

    def run(self, dry_run: bool, most: int | None, on_progress: OnDone | None) -> LogCleanUp:
        files, is_settled = _settled_listing(self._store)
        if self._has_written:
            self._now_ms = min(self._now_ms, max((file.modified_ms for file in files), default=self._now_ms))
        plan = self._plan_versions(files)
        first_version = plan.first_version if plan else 0
        doomed = list(clean_up.planned_for_one_run(plan, most, self._protected_version) if plan else ())
        sidecars = self._plan_sidecars(files, first_version) if is_settled else ()
        doomed += sidecars
        temporaries = self._store.remove_stale_temporaries(dry_run=dry_run)
        if doomed and not dry_run:
            if plan is not None:
                self._make_durable(plan.checkpoint)
                drop_hint_below(self._store, self._log.uri, first_version)
            for count, file in enumerate(doomed, 1):
                self._store.delete(file.name)
                if on_progress is not None:
                    on_progress(count, len(doomed))
            doomed += self._delete_late_checkpoints(files, sidecars)
        gone = (*doomed, *temporaries)
        return LogCleanUp(
            names=tuple(file.name for file in gone),
            size_bytes=sum(file.size for file in gone),
            first_version=plan.first_version if plan else None,
            dry_run=dry_run,
        )

    # --- versions ------------------------------------------------------------------------------------------

    def _plan_versions(self, files: Sequence[ObjectMeta]) -> clean_up.CleanUpPlan[ObjectMeta] | None:
        """Plan to delete what is below the newest checkpoint that is old enough and readable; None if there is none."""
        state = self._state
        cutoff_ms = clean_up.cutoff_ms(state.properties, now_ms=self._now_ms, retention_ms=self._retention_ms)
        if not any(file.modified_ms <= cutoff_ms for file in files) and not state.properties.in_commit_timestamps:
            return None  # the usual result for a young table, after just the listing
        candidates = clean_up.kept_checkpoints(
            files,
            cutoff_version=self._log.newest_version_until(cutoff_ms, state),
            protected_version=self._protected_version,
        )
        for checkpoint in candidates:
            plan = clean_up.plan_versions(files, checkpoint)
            if not plan.files or self._is_readable(checkpoint):
                return plan
        return None

    def _is_readable(self, checkpoint: CheckpointFiles) -> bool:
        """Whether the whole checkpoint decodes: after the cleanup, nothing can replace it."""
        try:
            kinds = {type(action) for action in self._reader.small_actions(checkpoint)}
            if not {Protocol, Metadata} <= kinds:
                raise CorruptLogError(f"checkpoint {checkpoint.names[0]} has no protocol or no metaData")
            for batches in (self._reader.adds(checkpoint), self._reader.removes(checkpoint)):
                for _ in batches:
                    pass
        except (CorruptLogError, NotFoundError) as error:
            logger.warning("%s: the log below v%d is kept: %s", self._log.uri, checkpoint.version, error)
            return False
        return True

    def _make_durable(self, checkpoint: CheckpointFiles) -> None:
        for name in (*checkpoint.names, *self._sidecars_of(checkpoint)):
            self._store.make_durable(name)

    # --- sidecars ------------------------------------------------------------------------------------------

    def _plan_sidecars(self, files: Sequence[ObjectMeta], first_version: int) -> tuple[ObjectMeta, ...]:
        sidecars = self._store.list_from(f"{SIDECARS}/")
        if not clean_up.plan_sidecars(sidecars, (), now_ms=self._now_ms):
            return ()
        try:
            referenced = self._referenced(files, first_version)
        except (CorruptLogError, NotFoundError) as error:
            logger.warning("%s: sidecars are kept, since a checkpoint cannot be read: %s", self._log.uri, error)
            return ()
        return clean_up.plan_sidecars(sidecars, referenced, now_ms=self._now_ms)

    def _referenced(self, files: Sequence[ObjectMeta], first_version: int) -> set[str]:
        """The sidecars that the remaining checkpoints name, incomplete checkpoints included: parts may still arrive."""
        checkpoints = ((file, parse_log_name(file.name)) for file in files)
        kept = (file for file, parsed in checkpoints if parsed is not None and parsed.version >= first_version)
        return {name for file in kept for name in self._named_by(file)}

    def _delete_late_checkpoints(self, files: Sequence[ObjectMeta], sidecars: Sequence[ObjectMeta]) -> list[ObjectMeta]:
        """Delete the checkpoints published since ``files`` were listed that name a sidecar deleted here.

        Their writer was suspended for a day before it published them. It looks for its sidecars afterwards, but may
        have found them just before they were deleted. No reader can use such a checkpoint, and some engines fail on it.
        """
        if not sidecars:
            return []
        known, deleted = {file.name for file in files}, {file.name for file in sidecars}
        late = []
        for file in self._store.list_from(""):
            with contextlib.suppress(CorruptLogError, NotFoundError):
                if file.name not in known and not deleted.isdisjoint(self._named_by(file)):
                    self._store.delete(file.name)
                    late.append(file)
        return late

    def _named_by(self, file: ObjectMeta) -> list[str]:
        """The sidecars that a file of the log names."""
        parsed = parse_log_name(file.name)
        if parsed is None or not parsed.kind.is_checkpoint or parsed.kind is LogFileKind.MULTIPART_CHECKPOINT:
            return []
        return self._sidecars_of(CheckpointFiles(parsed.version, parsed.kind, (file.name,)))

    def _sidecars_of(self, checkpoint: CheckpointFiles) -> list[str]:
        actions = self._reader.small_actions(checkpoint)
        return [sidecar_name(action) for action in actions if isinstance(action, Sidecar)]


def _settled_listing(store: LogStore) -> tuple[list[ObjectMeta], bool]:
    """All names, and whether the list is sure to hold every checkpoint.

    A listing of a local directory that changes meanwhile can miss an old name. Two listings in a row must agree, since
    a missed checkpoint would lose its sidecars.
    """
    files = store.list_from("")
    for _ in range(0 if store.capabilities.lists_completely else _LISTINGS_MAX):
        before, files = _checkpoint_names(files), store.list_from("")
        if before == _checkpoint_names(files):
            break
    else:
        return files, store.capabilities.lists_completely
    return files, True


def _checkpoint_names(files: Sequence[ObjectMeta]) -> set[str]:
    return {file.name for file in files if (found := parse_log_name(file.name)) and found.kind.is_checkpoint}
