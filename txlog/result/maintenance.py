"""The results of maintenance, as data and as one readable line: for data files, the log and versions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Literal, NoReturn

import msgspec
from msgspec.structs import asdict, replace

from txlog.core.util import no_attribute
from txlog.errors import TxlogError
from txlog.result import counted, human_size, with_milliseconds

__all__ = [
    "CloneResult",
    "ConvertResult",
    "CopyResult",
    "LogCleanUp",
    "LogCompaction",
    "LostPartition",
    "MaintenanceResult",
    "RepairResult",
    "RestoreResult",
    "RewriteResult",
    "VacuumResult",
]


class RewriteResult(msgspec.Struct, frozen=True):
    """What `Table.optimize` or `Table.purge` did, or with ``dry_run`` what it would do now. No row changed.

    Attributes:
        versions: The committed versions, ascending; several for many files. Empty if there was nothing to do.
        files_removed: Data files rewritten and removed from the table.
        bytes_removed: Their total size.
        files_added: Data files that replaced them.
        bytes_added: Their total size; 0 for a dry run.
        rows: Rows in them; 0 for a dry run.
        vectors_purged: Rewritten files that had a deletion vector.
        vectors_moved: New files that got a deletion vector, since other writers deleted rows while they were written.
        bins_given_up: Groups of files left as they are, since other writers removed one of them meanwhile.
        paths_removed: The rewritten files, as the log names them. Their bytes stay until vacuum deletes them.
        kept_until: The earliest time at which a vacuum deletes them, in UTC; None if none were rewritten.
        kept_by: The named versions that keep some of them; only set by purge.
        dry_run: Whether nothing was changed.
    """

    versions: tuple[int, ...]
    files_removed: int
    bytes_removed: int
    files_added: int
    bytes_added: int = 0
    rows: int = 0
    vectors_purged: int = 0
    vectors_moved: int = 0
    bins_given_up: int = 0
    paths_removed: tuple[str, ...] = ()
    kept_until: datetime | None = None
    kept_by: tuple[str, ...] = ()
    dry_run: bool = False

    def to_dict(self) -> Mapping[str, object]:
        """Plain data for logs and JSON.

        Returns:
            The fields by name.
        """
        facts = with_milliseconds(asdict(self))
        return {name: list(value) if isinstance(value, tuple) else value for name, value in facts.items()}

    def __str__(self) -> str:
        parts = ["nothing to rewrite"]
        if self.files_removed:
            sizes = human_size(self.bytes_removed) + ("" if self.dry_run else f" as {human_size(self.bytes_added)}")
            parts = [f"{counted(self.files_removed, 'file')} as {self.files_added:,}", sizes]
        if self.vectors_purged:
            parts.append(f"{counted(self.vectors_purged, 'deletion vector')} purged")
        if self.bins_given_up:
            parts.append(f"{counted(self.bins_given_up, 'bin')} given up")
        if self.dry_run:
            parts.append("dry run")
        elif self.versions:
            parts.append(f"version {self.versions[-1]}")
        return f"RewriteResult({', '.join(parts)})"

    __repr__ = __str__

    if not TYPE_CHECKING:  # a type checker reports a misspelled name

        def __getattr__(self, name: str) -> NoReturn:
            raise no_attribute(self, name, None)


class CloneResult(msgspec.Struct, frozen=True):
    """What `Table.clone` did.

    Attributes:
        uri: The clone's location, for `Table.open`.
        version: The version of the clone that has the source's rows.
        source_version: The version of the source that was cloned.
        outcome: ``"committed"``; ``"unchanged"`` if the table there was this clone already, so no version was made;
            ``"ignored"`` if ``mode="ignore"`` found an existing table.
        is_shallow: Whether the clone reads the source's files.
        files: Data files of the clone.
        size_bytes: Their total size.
        files_added: Data files that this version added.
        files_removed: Data files of the clone that this version removed.
        files_copied: Files copied, deletion vector files included; 0 for a shallow clone.
        bytes_copied: Their total size.
    """

    uri: str
    version: int
    source_version: int
    outcome: Literal["committed", "unchanged", "ignored"]
    is_shallow: bool
    files: int = 0
    size_bytes: int = 0
    files_added: int = 0
    files_removed: int = 0
    files_copied: int = 0
    bytes_copied: int = 0

    def to_dict(self) -> Mapping[str, object]:
        """Plain data for logs and JSON.

        Returns:
            The fields by name.
        """
        return asdict(self)

    def __str__(self) -> str:
        parts = [f"version={self.version}", self.outcome, f"of version {self.source_version}"]
        if self.outcome == "committed":
            parts += [counted(self.files, "file"), human_size(self.size_bytes)]
        if self.files_copied:
            parts.append(f"{human_size(self.bytes_copied)} copied")
        return f"CloneResult({', '.join(parts)})"

    __repr__ = __str__


class ConvertResult(msgspec.Struct, frozen=True):
    """What `Table.convert` did.

    Attributes:
        uri: The table's location, for `Table.open`.
        version: The version that has the files; the newest version if there was a table already.
        outcome: ``"committed"``; ``"already_a_table"`` if the folder has a Delta log, so nothing was changed.
        files: Files taken into the table.
        size_bytes: Their total size.
        partition_columns: The columns that the table is partitioned by.
        notes: What else there is to know, as sentences: that directories name no partition columns.
    """

    uri: str
    version: int
    outcome: Literal["committed", "already_a_table"]
    files: int = 0
    size_bytes: int = 0
    partition_columns: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def to_dict(self) -> Mapping[str, object]:
        """Plain data for logs and JSON.

        Returns:
            The fields by name.
        """
        return {**asdict(self), "partition_columns": list(self.partition_columns), "notes": list(self.notes)}

    def __str__(self) -> str:
        if self.outcome == "already_a_table":
            return f"ConvertResult(version={self.version}, a Delta table already, nothing was changed)"
        done = f"ConvertResult(version={self.version}, {counted(self.files, 'file')}, {human_size(self.size_bytes)})"
        return "\n  ".join([done, *(f"note: {note}" for note in self.notes)])

    __repr__ = __str__


class CopyResult(msgspec.Struct, frozen=True):
    """What `Table.copy_into` loaded, or with ``dry_run`` what it would load now.

    Attributes:
        version: The version that has the rows; the newest version if there was nothing to load.
        files: The files loaded, relative to the folder, by name.
        files_skipped: Files that were loaded before.
        size_bytes: The total size of the loaded files.
        rows: Rows loaded; 0 for a dry run.
        dry_run: Whether nothing was changed.
        notes: Which programs an upgrade of the protocol concerns, as sentences.
    """

    version: int
    files: tuple[str, ...]
    files_skipped: int
    size_bytes: int = 0
    rows: int = 0
    dry_run: bool = False
    notes: tuple[str, ...] = ()

    def to_dict(self) -> Mapping[str, object]:
        """Plain data for logs and JSON.

        Returns:
            The fields by name.
        """
        return {**asdict(self), "files": list(self.files), "notes": list(self.notes)}

    def __str__(self) -> str:
        parts = [f"version={self.version}", counted(len(self.files), "file"), human_size(self.size_bytes)]
        if not self.dry_run:
            parts.append(counted(self.rows, "row"))
        parts.append(f"{self.files_skipped:,} loaded before")
        return f"CopyResult({', '.join([*parts, *(['dry run'] if self.dry_run else [])])})"

    __repr__ = __str__


class LogCleanUp(msgspec.Struct, frozen=True):
    """What a log cleanup deleted, or with ``dry_run`` what it would delete now.

    Attributes:
        names: The deleted files relative to ``_delta_log/``, in the order of deletion.
        size_bytes: Their total size.
        first_version: The earliest version that can be read afterwards. None if no version was old enough to delete.
        dry_run: Whether nothing was deleted.
    """

    names: tuple[str, ...]
    size_bytes: int
    first_version: int | None
    dry_run: bool

    def to_dict(self) -> Mapping[str, object]:
        """Plain data for logs and JSON.

        Returns:
            The fields by name.
        """
        return {
            "names": list(self.names),
            "files": len(self.names),
            "size_bytes": self.size_bytes,
            "first_version": self.first_version,
            "dry_run": self.dry_run,
        }

    def __str__(self) -> str:
        parts = [counted(len(self.names), "file"), human_size(self.size_bytes)]
        if self.first_version is not None:
            parts.append(f"first version {self.first_version}")
        if self.dry_run:
            parts.append("dry run")
        return f"LogCleanUp({', '.join(parts)})"

    __repr__ = __str__


class LogCompaction(msgspec.Struct, frozen=True):
    """The log compaction file that readers may now use in place of a range of commits. The commit files stay.

    Attributes:
        name: The compaction file, relative to ``_delta_log/``.
        first_version: The first version of the range.
        last_version: The last version of the range.
        actions: The number of actions in the file.
        size_bytes: Its size.
        replaced_bytes: The total size of the commit files of the range.
    """

    name: str
    first_version: int
    last_version: int
    actions: int
    size_bytes: int
    replaced_bytes: int

    def to_dict(self) -> Mapping[str, object]:
        """Plain data for logs and JSON.

        Returns:
            The fields by name.
        """
        return asdict(self)

    def __str__(self) -> str:
        versions = f"versions {self.first_version} to {self.last_version}"
        sizes = f"{human_size(self.replaced_bytes)} as {human_size(self.size_bytes)}"
        return f"LogCompaction({versions}, {counted(self.actions, 'action')}, {sizes})"

    __repr__ = __str__


class LostPartition(msgspec.Struct, frozen=True):
    """What a partition loses. ``values`` are strings as in the log, None for null, under the table's column names; none
    for a table without partitions. ``rows`` is None if the log does not say how many there were.

    Attributes:
        values: The partition's values.
        files: Files lost.
        rows: Rows lost.
        size_bytes: The total size of the files.
    """

    values: Mapping[str, str | None]
    files: int
    rows: int | None
    size_bytes: int


class RepairResult(msgspec.Struct, frozen=True):
    """Which live files are gone, and what the table loses with them.

    Attributes:
        version: The version that removed them; None if nothing was removed.
        files: The files, as the log names them.
        files_checked: The number of live files.
        rows: Rows lost; None if the log does not say how many a file had.
        size_bytes: The total size of the files.
        partitions: What each partition loses.
        without_vector: Those of the files that are there, but whose deletion vectors are missing: without these,
            deleted rows would come back. A vacuum deletes the files later, so what was in them can be saved until then.
        offered: Published versions that the table's catalog had forgotten, and has again.
        given_up: Commits of the catalog that are not in the table any more, since another one was published as their
            version, as files below the log.
    """

    version: int | None
    files: tuple[str, ...]
    files_checked: int
    rows: int | None = 0
    size_bytes: int = 0
    partitions: tuple[LostPartition, ...] = ()
    without_vector: tuple[str, ...] = ()
    offered: tuple[int, ...] = ()
    given_up: tuple[str, ...] = ()

    def at(self, version: int) -> RepairResult:
        """The result after its commit.

        Args:
            version: The version that removed the files.

        Returns:
            The result with this version.
        """
        return replace(self, version=version)

    def to_dict(self) -> Mapping[str, object]:
        """Plain data for logs and JSON.

        Returns:
            The fields by name.
        """
        partitions = [{**asdict(each), "values": dict(each.values)} for each in self.partitions]
        names = ("files", "without_vector", "offered", "given_up")
        lists = {name: list(getattr(self, name)) for name in names}
        return {**asdict(self), "partitions": partitions, **lists}

    def __str__(self) -> str:
        if not self.files:
            again = f", the catalog has {counted(len(self.offered), 'version')} again" if self.offered else ""
            return f"RepairResult(all {counted(self.files_checked, 'file')} are there{again})"
        rows = "an unknown number of rows" if self.rows is None else counted(self.rows, "row")
        parts = [
            f"{counted(len(self.files), 'file')} of {self.files_checked:,} missing",
            rows,
            human_size(self.size_bytes),
        ]
        if self.partitions and self.partitions[0].values:
            parts.append(f"in {counted(len(self.partitions), 'partition')}")
        parts.append("nothing was changed" if self.version is None else f"removed in version {self.version}")
        return f"RepairResult({', '.join(parts)})"

    __repr__ = __str__


class RestoreResult(msgspec.Struct, frozen=True):
    """What `Table.restore` did, or with ``dry_run`` what it would do now.

    Attributes:
        version: The version that was committed; the newest one if there was nothing to do; None for a dry run.
        restored_version: The version that the table now equals again.
        files_restored: Data files that came back, including those that came back with another deletion vector.
        bytes_restored: Their total size.
        files_removed: Data files removed from the table, including those that came back with another deletion vector.
        bytes_removed: Their total size.
        files: Data files of the table afterwards.
        size_bytes: Their total size.
        missing: Missing files, whose rows could not be restored: relative to the table's root.
        dry_run: Whether nothing was changed.
    """

    version: int | None
    restored_version: int
    files_restored: int
    bytes_restored: int
    files_removed: int
    bytes_removed: int
    files: int
    size_bytes: int
    missing: tuple[str, ...] = ()
    dry_run: bool = False

    def at(self, version: int) -> RestoreResult:
        """The same result, committed.

        Args:
            version: The new version of the table.

        Returns:
            A copy with ``version``.
        """
        return replace(self, version=version)

    def to_dict(self) -> Mapping[str, object]:
        """Plain data for logs and JSON.

        Returns:
            The fields by name.
        """
        return {**asdict(self), "missing": list(self.missing)}

    def __str__(self) -> str:
        parts = [f"version {self.restored_version}", f"{counted(self.files_restored, 'file')} restored"]
        parts.append(f"{counted(self.files_removed, 'file')} removed")
        if self.missing:
            parts.append(f"{counted(len(self.missing), 'file')} missing")
        parts.append("dry run" if self.dry_run else f"now version {self.version}")
        return f"RestoreResult({', '.join(parts)})"

    __repr__ = __str__


class VacuumResult(msgspec.Struct, frozen=True):
    """What `Table.vacuum` deleted, or with ``dry_run`` what it would delete now.

    Attributes:
        paths: The deleted files relative to the table's root, as the store names them.
        size_bytes: Their total size. A vacuum by the log alone adds the sizes that the log records.
        retention_hours: Files that were removed, or written but never committed, this long ago were deleted.
        mode: ``"full"`` if the vacuum listed the table's files, ``"lite"`` if only the log named what to delete.
        dry_run: Whether nothing was deleted.
        version: The version of the VACUUM END commit; None for a dry run.
    """

    paths: tuple[str, ...]
    size_bytes: int
    retention_hours: float
    mode: Literal["full", "lite"]
    dry_run: bool
    version: int | None = None

    def to_dict(self) -> Mapping[str, object]:
        """Plain data for logs and JSON.

        Returns:
            The fields by name.
        """
        facts = asdict(self)
        return {**facts, "paths": list(self.paths), "files": len(self.paths)}

    def __str__(self) -> str:
        parts = [counted(len(self.paths), "file"), human_size(self.size_bytes), f"{self.retention_hours:g} h kept"]
        if self.mode == "lite":
            parts.append("by the log")
        parts.append("dry run" if self.dry_run else f"version {self.version}")
        return f"VacuumResult({', '.join(parts)})"

    __repr__ = __str__


class MaintenanceResult(msgspec.Struct, frozen=True):
    """What one round of `Table.maintain` did, or with ``dry_run`` what it would do now.

    Attributes:
        version: The newest version after it; None if the store did not answer.
        compaction: The small files that were combined.
        checkpoint: The version of the checkpoint that was written; None if none was due.
        key_files: How many data files had their keys written beside the table, for the property ``txlog.keyIndex``.
        log_clean_up: The versions that were deleted from the log; None if it was not due.
        vacuum: The data files that were deleted; None if no vacuum was due.
        failures: What went wrong, by step. The other steps were done; the next round tries the failed ones again.
        dry_run: Whether nothing was changed.
    """

    version: int | None
    compaction: RewriteResult | None = None
    checkpoint: int | None = None
    key_files: int = 0
    log_clean_up: LogCleanUp | None = None
    vacuum: VacuumResult | None = None
    failures: Mapping[str, TxlogError] = msgspec.field(default_factory=dict)
    dry_run: bool = False

    def to_dict(self) -> Mapping[str, object]:
        """Plain data for logs and JSON.

        Returns:
            The fields by name.
        """
        steps = {name: getattr(self, name) for name in ("compaction", "log_clean_up", "vacuum")}
        return {
            "version": self.version,
            **{name: None if done is None else dict(done.to_dict()) for name, done in steps.items()},
            "checkpoint": self.checkpoint,
            "key_files": self.key_files,
            "failures": {name: f"{error.kind}: {error}" for name, error in self.failures.items()},
            "dry_run": self.dry_run,
        }

    def __str__(self) -> str:
        return f"MaintenanceResult({'; '.join(self.steps())}{'; dry run' if self.dry_run else ''})"

    __repr__ = __str__

    def steps(self) -> list[str]:
        """What was done, in words.

        Returns:
            One phrase for each step that did something.
        """
        found = [] if self.version is None else [f"version {self.version}"]
        if (files := self.compaction) is not None and (files.files_removed or files.bins_given_up):
            sizes = human_size(files.bytes_removed) + ("" if self.dry_run else f" as {human_size(files.bytes_added)}")
            found.append(f"compaction: {counted(files.files_removed, 'file')} as {files.files_added:,}, {sizes}")
            if files.bins_given_up:
                found.append(f"{counted(files.bins_given_up, 'group')} of files left to other writers")
        if self.checkpoint is not None:
            found.append(f"checkpoint of version {self.checkpoint}")
        if self.key_files:
            found.append(f"key index: keys of {counted(self.key_files, 'file')}")
        if self.log_clean_up is not None and self.log_clean_up.names:
            found.append(f"log cleanup: {counted(len(self.log_clean_up.names), 'file')}")
        if self.vacuum is not None:
            found.append(f"vacuum: {counted(len(self.vacuum.paths), 'file')}, {human_size(self.vacuum.size_bytes)}")
        if len(found) == (self.version is not None) and not self.failures:
            found.append("nothing to do")
        return found + [f"{name} failed: {error.kind}: {error.message}" for name, error in self.failures.items()]
