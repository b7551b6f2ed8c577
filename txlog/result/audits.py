"""The results of looking a table over, as data and as one readable line: checks, differences and exports.

What finds them are extensions; `Table` promises the types.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec.structs import asdict

from txlog.core.util import repr_without
from txlog.result import counted, human_size, whole_size, with_milliseconds

__all__ = [
    "Change",
    "DeletionCheck",
    "FilesSummary",
    "Finding",
    "IcebergExport",
    "KeptBy",
    "KeyCheck",
    "PartitionFiles",
    "Remnant",
    "RepeatedKey",
    "RowChanges",
    "RowsByFile",
    "SizeBin",
    "Verification",
    "VersionDiff",
]

KeptBy: TypeAlias = Literal[
    "the newest version",
    "older versions",
    "a named version",
    "change data",
    "staging",
    "quarantine",
    "no version",
    "the log",
    "Iceberg metadata",
]


_FINDINGS_SHOWN = 20


class Remnant(msgspec.Struct, frozen=True):
    """A file that may hold deleted data.

    Attributes:
        path: The file, relative to the table's root.
        size_bytes: Its size.
        kept_by: Why it is still there. "the newest version": run ``purge``, or delete again and check that version. "a
            named version": ``untag`` it. "staging": a sink has not committed or discarded it. "quarantine": changes
            that a sink held back; delete the file once they are dealt with. "no version": no commit names it; vacuum
            deletes it once it is old enough. "the log": the log cleanup deletes it once it is old enough. "Iceberg
            metadata": `Table.export_iceberg` with ``rebuild`` deletes it once it is older than an hour. Another
            program's hidden file has no ``until``, since nothing deletes it: delete it yourself.
        name: The named version that keeps it.
        until: The earliest time at which a vacuum or the log cleanup may delete it, in UTC; None if no time limit keeps
            it.
    """

    path: str
    size_bytes: int
    kept_by: KeptBy
    name: str | None = None
    until: datetime | None = None


class DeletionCheck(msgspec.Struct, frozen=True):
    """What `Table.check_deleted` found.

    Attributes:
        version: The check covers what was deleted up to this version. It is later than requested if the log was cleaned
            up.
        files: The number of files that were checked.
        remains: The files that may hold deleted data.
    """

    version: int
    files: int
    remains: tuple[Remnant, ...]

    __repr__ = repr_without("remains")

    @property
    def is_gone(self) -> bool:
        """Whether no file of the table holds anything deleted up to ``version``."""
        return not self.remains

    @property
    def rows_are_gone(self) -> bool:
        """Whether no data file holds any of it. The log may still hold column bounds."""
        return all(each.kept_by in ("the log", "Iceberg metadata") for each in self.remains)

    @property
    def until(self) -> datetime | None:
        """When the last time limit ends, in UTC; None if other reasons keep some of it, or if nothing is left."""
        times = [each.until for each in self.remains]
        return max((time for time in times if time is not None), default=None) if None not in times else None

    def to_dict(self) -> dict[str, object]:
        """Plain data for logs and JSON.

        Returns:
            The fields by name.
        """
        remains = [with_milliseconds(asdict(each)) for each in self.remains]
        return {"version": self.version, "files": self.files, "is_gone": self.is_gone, "remains": remains}

    def __str__(self) -> str:
        if self.is_gone:
            return f"DeletionCheck(version {self.version}, {counted(self.files, 'file')}: nothing is left)"
        kept = dict.fromkeys(each.kept_by for each in self.remains)
        size = human_size(sum(each.size_bytes for each in self.remains))
        left = f"{counted(len(self.remains), 'file')} left, {size}, kept by {', '.join(kept)}"
        return f"DeletionCheck(version {self.version}: {left})"


class Change(msgspec.Struct, frozen=True):
    """One thing that differs.

    Attributes:
        what: A column, a property, or a part of the definition.
        before: What it was; None if there was none.
        after: What it is; None if there is none.
    """

    what: str
    before: str | None
    after: str | None


class RowChanges(msgspec.Struct, frozen=True):
    """How many rows the versions changed, by the change data feed. A row that two versions changed counts twice.

    Attributes:
        inserted: Rows inserted.
        updated: Rows updated.
        deleted: Rows deleted.
    """

    inserted: int
    updated: int
    deleted: int


class VersionDiff(msgspec.Struct, frozen=True):
    """What `Table.diff` found.

    Attributes:
        from_version: The version before.
        to_version: The version after.
        columns: The columns that are new, gone, renamed or of another type.
        definition: Partitioning, clustering, protocol, name and description, where they differ.
        properties: The table properties that differ.
        files_added: Live files that only the version after has.
        bytes_added: Their total size.
        files_removed: Live files that only the version before has.
        bytes_removed: Their total size.
        files_marked: Files that both have, with different deletion vectors.
        rows_before: The rows of the version before; None if a file does not count its rows.
        rows_after: The rows of the version after.
        rows: What the change data feed has of the versions in between; None if it cannot tell.
        rows_unknown: Why it cannot.
    """

    from_version: int
    to_version: int
    columns: tuple[Change, ...]
    definition: tuple[Change, ...]
    properties: tuple[Change, ...]
    files_added: int
    bytes_added: int
    files_removed: int
    bytes_removed: int
    files_marked: int
    rows_before: int | None
    rows_after: int | None
    rows: RowChanges | None
    rows_unknown: str | None

    def __str__(self) -> str:
        said = [
            f"{counted(self.files_added, 'file')} added, {self.files_removed:,} removed, {self.files_marked:,} marked"
        ]
        if self.rows_before is not None and self.rows_after is not None:
            said.append(f"{counted(self.rows_before, 'row')} before, {self.rows_after:,} after")
        if (rows := self.rows) is not None:
            said.append(f"{counted(rows.inserted, 'row')} inserted, {rows.updated:,} updated, {rows.deleted:,} deleted")
        lines = [f"VersionDiff(version {self.from_version} to {self.to_version}: {'; '.join(said)})"]
        for each in (*self.columns, *self.definition, *self.properties):
            lines.append(f"  {each.what}: {each.before or 'none'} became {each.after or 'none'}")
        return "\n".join(lines)

    __repr__ = __str__

    def to_dict(self) -> Mapping[str, object]:
        """Plain data for logs and JSON.

        Returns:
            The fields by name.
        """
        found: Mapping[str, object] = msgspec.to_builtins(self)
        return found


class IcebergExport(msgspec.Struct, frozen=True):
    """The result of an export.

    Attributes:
        version: The newest Delta version that Iceberg readers see now.
        metadata_location: The URI of the newest metadata file, for readers and catalogs.
        snapshots: The number of snapshots that this call added: one for each version with file actions.
        attempts: The number of attempts; more than one if other exporters were first.
    """

    version: int
    metadata_location: str
    snapshots: int
    attempts: int

    def __str__(self) -> str:
        new = counted(self.snapshots, "new snapshot") if self.snapshots else "nothing new to export"
        return f"IcebergExport(version={self.version}, {new}, {self.metadata_location})"

    __repr__ = __str__


class Finding(msgspec.Struct, frozen=True):
    """One defect.

    Attributes:
        rule: The kind of defect: a stable name.
        message: What is wrong, and what to do about it, if anything.
        version: The version that has the defect.
        path: A name under ``_delta_log``, or the path of a data file.
        line: The line in the file, counted from 1.
        severity: "error", or "warning" if no reader gets a wrong result.
    """

    rule: str
    message: str
    version: int | None = None
    path: str | None = None
    line: int | None = None
    severity: str = "error"

    @property
    def where(self) -> str:
        """``"00000000000000000012.json:3"``."""
        return f"{self.path or ''}{f':{self.line}' if self.line else ''}"


class RowsByFile(msgspec.Struct, frozen=True):
    """How many live rows a finding is about, and in which files.

    Attributes:
        rows: The number of rows, in all files together.
        num_files: The number of files that have some of them.
        files: The rows in each file, by its path in the log; if there are many files, the first ones in log order.
    """

    rows: int = 0
    num_files: int = 0
    files: Mapping[str, int] = msgspec.field(default_factory=dict)


class RepeatedKey(msgspec.Struct, frozen=True):
    """A key that several live rows have: its values by key column, and the rows."""

    values: Mapping[str, Any]
    found: RowsByFile


class KeyCheck(msgspec.Struct, frozen=True):
    """Whether all live rows of a version have different keys.

    Attributes:
        columns: The key columns, as the table spells them.
        version: The version that was read.
        rows: The number of its live rows.
        repeated_keys: The number of keys that several rows have.
        repeated_rows: The number of rows with such keys.
        examples: The keys with the most rows, up to the requested number.
        nulls: The rows whose key is null, or has a null in one of its columns. No upsert finds them.
    """

    columns: tuple[str, ...]
    version: int
    rows: int
    repeated_keys: int
    repeated_rows: int
    examples: tuple[RepeatedKey, ...]
    nulls: RowsByFile


class Verification(msgspec.Struct, frozen=True):
    """What `Table.verify` checked and found.

    Attributes:
        table: The URI of the table.
        version: The newest version of the log.
        commits: The number of commits that were read.
        checkpoints: The number of checkpoints that were compared with the commits.
        data_files: The number of data files that were looked up.
        findings: The defects; none if the table is sound.
        keys: What `KeyCheck` says about the keys; None if no keys were requested, or they could not be read.
        footers: The number of data files whose footers were read.
    """

    table: str
    version: int
    commits: int
    checkpoints: int
    data_files: int
    findings: tuple[Finding, ...]
    keys: KeyCheck | None = None
    footers: int = 0

    @property
    def is_sound(self) -> bool:
        """Whether there are no errors; there may be warnings."""
        return all(finding.severity != "error" for finding in self.findings)

    def __str__(self) -> str:
        errors = sum(finding.severity == "error" for finding in self.findings)
        warnings = len(self.findings) - errors
        checked = [counted(self.commits, "commit"), counted(self.data_files, "data file")]
        checked += [counted(self.footers, "footer")] if self.footers else []
        checked += [f"keys of {counted(self.keys.rows, 'row')}"] if self.keys is not None else []
        said = ", ".join(counted(n, what) for n, what in ((errors, "error"), (warnings, "warning")) if n) or "no error"
        lines = [f"Verification(version {self.version}: {said} in {', '.join(checked)})"]
        for each in self.findings[:_FINDINGS_SHOWN]:
            lines.append(f"  {each.severity}: {each.message}{f' [{each.where}]' if each.path else ''}")
        if len(self.findings) > _FINDINGS_SHOWN:
            lines.append(f"  and {len(self.findings) - _FINDINGS_SHOWN:,} more in .findings")
        return "\n".join(lines)

    __repr__ = __str__


class SizeBin(msgspec.Struct, frozen=True):
    """The files from ``from_bytes`` up to, but not including, ``to_bytes`` (None: no upper limit)."""

    from_bytes: int
    to_bytes: int | None
    files: int
    size_bytes: int

    @property
    def size_range(self) -> str:
        """The range of sizes for people: ``below 1 MB``, ``1 MB to 8 MB``, ``1 GB or more``."""
        if self.to_bytes is None:
            return f"{whole_size(self.from_bytes)} or more"
        below = whole_size(self.to_bytes)
        return f"{whole_size(self.from_bytes)} to {below}" if self.from_bytes else f"below {below}"


class PartitionFiles(msgspec.Struct, frozen=True):
    """One partition. ``values`` are strings as in the log, None for null, under the table's column names."""

    values: Mapping[str, str | None]
    files: int
    size_bytes: int
    small_files: int


class FilesSummary(msgspec.Struct, frozen=True):
    """``partitions`` begins with the partitions that have the most files; one without values stands for an
    unpartitioned table.

    A small file is below ``small_below_bytes``. ``mergeable_files`` are small files that share a partition with another
    small file. ``removed_files`` counts the removed files that wait for a vacuum, which may delete ``expired_files`` of
    them now; the log still names files that the last vacuum deleted, and these do not count. ``removed_bytes`` adds up
    the removed files whose size the log records.
    """

    version: int
    files: int
    size_bytes: int
    smallest_bytes: int | None
    median_bytes: int | None
    largest_bytes: int | None
    sizes: tuple[SizeBin, ...]
    partitions: tuple[PartitionFiles, ...]
    small_below_bytes: int
    small_files: int
    small_bytes: int
    mergeable_files: int
    files_with_deleted_rows: int
    deleted_rows: int
    removed_files: int
    removed_bytes: int
    expired_files: int
