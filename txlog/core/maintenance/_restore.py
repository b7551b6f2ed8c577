"""Restore: the table as it was at an older version, as a new version.

In: an open table and `RestoreOptions`. Out: a `RestoreResult`. Files that only the older version has are added again,
files that only the newest one has are removed, by path and deletion vector. Definition and clustering come from the
older version (`_restored_definition`). It reads and writes only the log, and change files if files with deletion
vectors come or go while the change data feed is on.

A file that comes back must still exist, and stay. Restore refuses a file that was removed longer ago than the retention
less an hour, because any engine's vacuum may delete it, and a file that a running vacuum may have planned to delete. A
vacuum that begins between this check and the commit is a conflict; one that begins later sees the restore. Restore
checks the files again after the commit: other engines' vacuums ignore what was committed meanwhile. PROTOCOL.md, "Add
File and Remove File", "Action Reconciliation".
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from txlog.core import ambient
from txlog.core.changes.plan import ChangeFiles
from txlog.core.format.actions import AddFile, operation_parameters
from txlog.core.format.features import check_promises
from txlog.core.maintenance._assigned_numbers import GivenNumbers, counts
from txlog.core.maintenance._restored_definition import merged_definition, restored_domains
from txlog.core.maintenance._vacuums_under_way import endangered_by_vacuum
from txlog.core.maintenance._version_files import (
    EXPIRED,
    VersionDifference,
    difference,
    expired_files,
    gone_paths,
    is_renumbered,
    paths_of,
)
from txlog.core.parallel import begin
from txlog.core.progress import OnDone
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.proposal import Isolation, OperationInfo
from txlog.core.versions.decisions.proposal_builder import ProposalBuilder
from txlog.core.versions.decisions.state import TableState
from txlog.core.wording import setting
from txlog.core.writing import UnsentFiles
from txlog.errors import InvalidInputError, NotFoundError, TxlogError
from txlog.result import WriteResult
from txlog.result.maintenance import RestoreResult

_SHOWN_MAX = 100


class RestoreOptions(msgspec.Struct, frozen=True):
    """The arguments of `Table.restore`, with the version that it names."""

    version: int
    timestamp: str | None = None
    allow_missing_files: bool = False
    allow_expired_files: bool = False
    dry_run: bool = False
    user_metadata: str | None = None


def restore(
    open_table: OpenTable, target: TableState, options: RestoreOptions, on_files: OnDone | None = None
) -> RestoreResult:
    """Make the version ``target`` the newest one again. Raises what `Table.restore` raises."""
    state = open_table.log.newest_state()
    open_table.check_maintainable(state)
    with TxlogError.located(open_table.uri, state.version):
        if target.metadata.id != state.metadata.id:
            raise InvalidInputError(
                f"version {target.version} belongs to another table that was at this location before"
            )
        for each in (state, target):
            check_promises(each.metadata.configuration)
    return _Restore(open_table, options, state, target, on_files or (lambda done, total: None)).run()


class _Restore:
    def __init__(
        self, open_table: OpenTable, options: RestoreOptions, state: TableState, target: TableState, on_files: OnDone
    ) -> None:
        self._open_table = open_table
        self._log = open_table.log
        self._options = options
        self._state = state
        self._target = target
        self._on_files = on_files

    def run(self) -> RestoreResult:
        found, has_other_ids = self._compared()
        paths = [paths_of(self._log.uri, add) for add in found.added]
        gone = gone_paths(self._log.store, itertools.chain(*paths), self._on_files)
        kept = [add for add, named in zip(found.added, paths, strict=True) if gone.isdisjoint(named)]
        self._check_missing(sorted(gone), len(found.added) - len(kept))
        self._check_age(kept)
        result = self._result(found, kept, sorted(gone))
        if self._options.dry_run:
            return result
        if self._target.version == self._state.version:
            return result.at(self._state.version)
        with self._open_table.unsent_files() as unsent:
            given = self._given(has_other_ids=has_other_ids)
            committed = self._commit(kept, found.removed, given, result, unsent)
        assert committed.version is not None
        self._check_again([path for named in paths for path in named], gone, committed.version)
        return result.at(committed.version)

    def _compared(self) -> tuple[VersionDifference, bool]:
        """The difference of the two versions, and whether files of both have other row ids now."""
        listed = partial(self._log.files, self._target)
        before = listed if self._log.store.has_cheap_calls else begin(listed)
        newest = self._log.files(self._state)
        older = before()
        return difference(older, newest), is_renumbered(older, newest)

    def _result(self, found: VersionDifference, kept: Sequence[AddFile], gone: Sequence[str]) -> RestoreResult:
        left_out = len(found.added) - len(kept)
        restored_bytes = sum(add.size for add in kept)
        left_out_bytes = sum(add.size for add in found.added) - restored_bytes
        return RestoreResult(
            version=None,
            restored_version=self._target.version,
            files_restored=len(kept),
            bytes_restored=restored_bytes,
            files_removed=len(found.removed),
            bytes_removed=sum(add.size for add in found.removed),
            files=found.num_files - left_out,
            size_bytes=found.size_bytes - left_out_bytes,
            missing=tuple(gone),
            dry_run=self._options.dry_run,
        )

    def _given(self, *, has_other_ids: bool) -> GivenNumbers:
        """What the restored version and all later ones gave out: only these show what a dropped feature counted."""
        given = GivenNumbers(self._target)
        given.begins_anew = has_other_ids
        if counts(self._target):
            for commit in self._log.commits_between(self._target.version + 1, self._state.version, files=False):
                with TxlogError.located(self._log.uri, commit.version):
                    given.see(commit.actions)
        return given

    def _commit(
        self,
        added: Sequence[AddFile],
        removed: Sequence[AddFile],
        given: GivenNumbers,
        result: RestoreResult,
        unsent: UnsentFiles,
    ) -> WriteResult:
        builder = ProposalBuilder(self._state)
        metadata, protocol = merged_definition(self._state, self._target, given, ambient.now_ms())
        builder.define(
            None if metadata == self._state.metadata else metadata,
            None if protocol == self._state.protocol else protocol,
        )
        for domain in restored_domains(self._state, self._target, given):
            builder.set_domain(domain)
        builder.read_table()
        builder.remove(*removed)
        builder.add(*(_unnumbered(add) if given.begins_anew else add for add in added), are_new=False)
        change_files = ChangeFiles.of(self._open_table, self._state, unsent, metadata)
        if change_files is not None:
            change_files.finish(builder)
        asked: dict[str, Any] = {"timestamp": self._options.timestamp}
        if self._options.timestamp is None:
            asked = {"version": self._target.version}
        info = OperationInfo(
            "RESTORE",
            operation_parameters(**asked),
            metrics={
                "numRestoredFiles": str(result.files_restored),
                "restoredFilesSize": str(result.bytes_restored),
                "numRemovedFiles": str(result.files_removed),
                "removedFilesSize": str(result.bytes_removed),
                "numOfFilesAfterRestore": str(result.files),
                "tableSizeAfterRestore": str(result.size_bytes),
            },
            user_metadata=self._options.user_metadata,
        )
        return self._open_table.commit_change(builder, info, Isolation.SERIALIZABLE, unsent=unsent)

    # --- are the files there, and will they stay --------------------------------------------------------------------

    def _check_missing(self, gone: Sequence[str], files: int) -> None:
        if not gone or self._options.allow_missing_files or self._options.dry_run:
            return
        more = f" and {len(gone) - _SHOWN_MAX:,} more" if len(gone) > _SHOWN_MAX else ""
        raise NotFoundError(
            f"version {self._target.version} cannot be restored in full: {files:,} of its files were vacuumed or"
            f" deleted by hand. Restore a newer version, or pass {setting('allow_missing_files', True)} to leave"
            f" their rows out. Missing: {', '.join(gone[:_SHOWN_MAX])}{more}",
            table=self._log.uri,
            version=self._target.version,
            path=gone[0],
        )

    def _check_age(self, added: Sequence[AddFile]) -> None:
        """Refuse files that a vacuum may be about to delete."""
        if self._options.allow_expired_files or self._options.dry_run:
            return
        expired = expired_files(self._log, self._state, added)
        if expired:
            raise InvalidInputError(
                f"{len(expired):,} files of version {self._target.version}, such as {expired[0].path}, {EXPIRED}: a"
                " vacuum may delete them at any moment. If no vacuum runs in any engine, pass"
                f" {setting('allow_expired_files', True)}; else raise the property first",
                table=self._log.uri,
                version=self._state.version,
                path=expired[0].path,
            )
        endangered = endangered_by_vacuum(self._log, self._state, added, self._target.version)
        if endangered is not None:
            raise InvalidInputError(
                f"a vacuum began in version {endangered.version} and has not ended: it may be deleting"
                f" {len(endangered.files):,} files of version {self._target.version}, such as"
                f" {endangered.files[0].path}. Run the restore again when the history shows VACUUM END. If the vacuum"
                f" crashed, pass {setting('allow_expired_files', True)}",
                table=self._log.uri,
                version=self._state.version,
                path=endangered.files[0].path,
            )

    def _check_again(self, paths: Sequence[str], gone_before: set[str], version: int) -> None:
        gone = sorted(gone_paths(self._log.store, paths, self._on_files) - gone_before)
        if gone:
            raise NotFoundError(
                f"version {version} restored version {self._target.version}, but a vacuum deleted {len(gone):,} of its"
                f" files meanwhile, such as {gone[0]}: restore a newer version, or this one with"
                f" {setting('allow_missing_files', True)}",
                table=self._log.uri,
                version=version,
                path=gone[0],
            )


def _unnumbered(add: AddFile) -> AddFile:
    """The file without row ids: the commit gives it new ones if the table tracks rows."""
    return replace(add, base_row_id=None, default_row_commit_version=None)
