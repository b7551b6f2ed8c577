"""The export as a pure function: from Iceberg metadata and Delta commits to new metadata and new files.

Each Delta version with file actions becomes one snapshot; its sequence number is the version. The same metadata and
commits give the same files with the same names in every process, so racing exporters do the same work. Iceberg spec,
"Snapshots", "Scan Planning"; Delta PROTOCOL.md, "Actions".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txlog.core.format.actions import AddFile, DeletionVectorDescriptor, Metadata, RemoveFile
from txlog.core.format.arrow.arrays import numbers_of
from txlog.core.format.commit_file import Commit
from txlog.core.format.file_columns import add_files_of
from txlog.core.format.properties import TableProperties
from txlog.core.format.schema import DATE, TIMESTAMP, leaf_paths
from txlog.errors import TxlogError
from txlog.iceberg.metadata.definition import IcebergDefinition, define
from txlog.iceberg.metadata.deletes import Vector, delete_files
from txlog.iceberg.metadata.dropped_columns import may_have_dropped_columns
from txlog.iceberg.metadata.file_changes import FileChanges, file_changes
from txlog.iceberg.metadata.file_encoder import FileEncoder, PartitionValues, encode_files
from txlog.iceberg.metadata.live_manifests import FileCount, Layout, LiveManifests, Moment
from txlog.iceberg.metadata.manifest import ADDED, DATA, DELETES, Entry, ManifestWriter, origins
from txlog.iceberg.metadata.manifest_list import write_manifest_list
from txlog.iceberg.metadata.names import NewFile, content_name, snapshot_id
from txlog.iceberg.metadata.new_manifests import NewManifests
from txlog.iceberg.metadata.schema import ColumnPath
from txlog.iceberg.metadata.table_metadata import (
    Exported,
    MetadataPlace,
    current_snapshot,
    defined,
    with_columns_of_files,
    with_snapshot,
    with_version,
)

if TYPE_CHECKING:
    import pyarrow as pa

_DELTA_NAME = r"(^|/)part-[0-9]{5,}-[^/]*$"
"""The names of files that txlog, Spark and deltalake write, which have the table's column ids or none."""
_is_delta_name = re.compile(_DELTA_NAME).search
_ABSOLUTE = r"^(/|[A-Za-z][A-Za-z0-9+.-]*:)"
_is_absolute = re.compile(_ABSOLUTE).search
_SPARKS_NAME = r"[-.]c\d{3}\."
_DAY = r'"\d{4}-\d\d-\d\d'
_EARLY_DAY = r'"(?:0\d|1[0-8])\d\d-\d\d-\d\d'
"""Before 1900: only then does it matter which calendar a file has."""

_TOTALS = ("data-files", "records", "files-size", "delete-files", "position-deletes")


def _may_have_old_days(add: AddFile) -> bool:
    """Whether only the footer can tell if it has days of the calendar of Spark 2, which Spark alone writes."""
    stats = add.stats or ""
    has_new_days = re.search(_DAY, stats) is not None and re.search(_EARLY_DAY, stats) is None
    return re.search(_SPARKS_NAME, add.path) is not None and not has_new_days


class Sources(msgspec.Struct, frozen=True):
    """Access to files that the export must read.

    ``manifest`` returns a manifest's bytes by its path, ``bitmaps`` the dead rows of some deletion vectors as Delta's
    bitmaps, ``rows`` the row count of a file whose statistics lack it. ``check_element_ids`` raises IcebergExportError
    for files that have column ids but none inside lists and maps; ``check_calendar`` for files with days of an old
    calendar; ``check_column_ids`` for these and for files whose column ids differ from the definition, and it returns
    the columns of files that have no ids.
    ``columns_without_ids`` returns only the latter.
    """

    manifest: Callable[[str], bytes]
    bitmaps: Callable[[Sequence[DeletionVectorDescriptor]], list[bytes]]
    rows: Callable[[AddFile], int]
    check_element_ids: Callable[[Sequence[AddFile]], None]
    check_calendar: Callable[[Sequence[AddFile]], None]
    check_column_ids: Callable[[Sequence[AddFile], IcebergDefinition], set[ColumnPath]]
    columns_without_ids: Callable[[Sequence[AddFile]], set[ColumnPath]]


class DatedCommit(msgspec.Struct, frozen=True):
    """A Delta commit and its time, in ms since the epoch."""

    commit: Commit
    timestamp_ms: int


class Export(msgspec.Struct, frozen=True):
    """What to write: the new files first, then the metadata file. ``snapshots`` is the number of new snapshots."""

    files: tuple[NewFile, ...]
    exported: Exported
    snapshots: int


def export_commits(
    before: Exported, metadata: Metadata, commits: Sequence[DatedCommit], place: MetadataPlace, sources: Sources
) -> Export | str:
    """Export the Delta commits that follow the exported version.

    Args:
        before: The newest metadata.
        metadata: The table's metadata at the version of ``before``.
        commits: Every later commit up to the version to export, in order.
        place: Where the table is.
        sources: Access to files.

    Returns:
        What to write; or a text that says why `export_version` must export the table in full.

    Raises:
        IcebergExportError: The table cannot be exported; the message gives the reason.
        CorruptLogError: A partition value, a path or a deletion vector is not valid.
    """
    work = _Work(before, place, sources, before.format_version)
    why = work.define(metadata)
    for dated in commits:
        if why:
            return why
        with TxlogError.located(place.root, dated.commit.version):
            why = work.apply(dated)
    return why or work.finished(before.number + 1)


def export_version(
    metadata: Metadata,
    version: int,
    parts: Iterable[tuple[pa.Table, Any]],
    timestamp_ms: int,
    *,
    format_version: int,
    number: int,
    place: MetadataPlace,
    sources: Sources,
    columns: Set[ColumnPath] = frozenset(),
    older: Exported | None = None,
) -> Export | str:
    """Export one version in full, as the only snapshot, or behind the snapshots of an older format.

    Args:
        metadata: The table's metadata at that version.
        version: The Delta version.
        parts: Its live files as ``FILES_SCHEMA``, some at a time, each time with an array of their manifests' numbers.
        timestamp_ms: The time of its commit.
        format_version: 2 or 3.
        number: N of the ``vN.metadata.json`` to write.
        place: Where the table is.
        sources: Access to files.
        columns: Columns that only data files have, as far as an earlier export knew.
        older: The metadata of the version before, in format 2, if this one, in format 3, has the same files.

    Returns:
        What to write; with ``older``, a text if the history cannot go on, saying why.

    Raises:
        IcebergExportError: The table cannot be exported; the message gives the reason.
        CorruptLogError: A partition value, a path or a deletion vector is not valid.
    """
    work = _Work(None, place, sources, format_version) if older is None else _Work.upgraded(older, place, sources)
    why = work.define(metadata)
    if not why:
        why = work.add_all(parts, version, timestamp_ms, columns)
    return why or work.finished(number)


class _Work:
    """An export in progress: a document and the manifests of its current snapshot."""

    def __init__(self, before: Exported | None, place: MetadataPlace, sources: Sources, format_version: int) -> None:
        self._document: Mapping[str, Any] | None = before.document if before else None
        self._live = LiveManifests(before.manifests if before else (), sources.manifest)
        self._place = place
        self._sources = sources
        self._format_version = format_version
        self._snapshots = 0
        self._table_id = ""
        self._defined = before.layout if before else None
        self._origins: dict[str, tuple[int, int]] | None = None
        """The snapshots that added the files which an older format has."""

    @classmethod
    def upgraded(cls, older: Exported, place: MetadataPlace, sources: Sources) -> _Work:
        """From format 2 to 3: its snapshots stay as they are, and have no row ids. Iceberg spec, "Row Lineage for
        Upgraded Tables"."""
        work = cls(None, place, sources, 3)
        work._document = {**older.document, "format-version": 3, "next-row-id": 0}
        work._origins = {}
        for manifest in older.manifests:
            if manifest.content == DATA:
                work._origins.update(origins(sources.manifest(manifest.path), manifest.path))
        return work

    @property
    def document(self) -> Mapping[str, Any]:
        assert self._document is not None, "the definition comes first"
        return self._document

    def finished(self, number: int) -> Export:
        return Export(
            tuple(self._live.new_files),
            Exported(number, self.document, self._live.manifests, self._defined),
            self._snapshots,
        )

    def define(self, metadata: Metadata) -> str:
        """Apply a definition. The text says why it requires a full export of the table; empty if it does not."""
        if self._defined is None or self._defined[0] != metadata:
            definition = define(metadata, self._format_version, self._document)
            if definition.drops_history:
                return "a column's name or id means another column now, or a partition column has another type"
            self._document = defined(self._document, definition, self._place, metadata.id)
            properties = TableProperties.of(metadata.configuration)
            layout = Layout(
                ManifestWriter(definition, self._place.base),
                FileEncoder(definition, self._place.root),
                min(properties.log_retention_ms, properties.deleted_file_retention_ms),
            )
            self._defined = (metadata, layout)
        self._live.define(self._defined[1])
        self._table_id = metadata.id
        return ""

    # --- one commit ------------------------------------------------------------------------------------------

    def apply(self, dated: DatedCommit) -> str:
        """Apply one commit. The text says why it requires a full export of the table; empty if it does not."""
        commit = dated.commit
        for action in commit.actions:
            if type(action) is Metadata and (why := self.define(action)):
                return why
        changes = file_changes(commit.actions)
        if changes is not None and (live := self._live_again(changes, may_repeat=_may_repeat(commit))):
            has_only_ids = commit.operation in _OF_ROW_IDS and not changes.removed and len(live) == len(changes.added)
            if self._format_version > 2 or not has_only_ids:
                return f"v{commit.version} ({commit.operation}) adds live files again, with other statistics or row ids"
            changes = None  # Iceberg has no row ids in this format
        if changes is not None and commit.operation == "RESTORE" and self._may_have_dropped_columns():
            self._add_columns(self._sources.columns_without_ids(changes.added))
        if changes is not None:
            first_row_id = self.document.get("next-row-id")
            summary = self._change(changes, self._moment(commit.version))
            summary["delta-operation"] = commit.operation
            self._add_snapshot(summary, commit.version, dated.timestamp_ms, first_row_id)
        self._document = with_version(self.document, commit.version, dated.timestamp_ms)
        return ""

    def _may_have_dropped_columns(self) -> bool:
        assert self._defined is not None, "the definition comes first"
        return may_have_dropped_columns(self._defined[0])

    def _add_columns(self, paths: set[ColumnPath]) -> None:
        """Add the columns of files to the name mapping."""
        if paths:
            self._document = with_columns_of_files(self.document, paths)

    def _live_again(self, changes: FileChanges, *, may_repeat: bool) -> set[str]:
        """The live files that are added again without a remove, as for statistics or row ids that are computed later.

        Such an add brings no rows and should have ``dataChange`` false, but other engines may leave it true. Adds of
        compacted files have it too, so this searches the manifests, except for files that txlog wrote for the commit:
        those are new.
        """
        encoder = self._live.layout.encoder
        again = [add for add in changes.added if may_repeat or not add.data_change]
        paths = {encoder.location(add.path): encoder.partition_values(add.partition_values) for add in again}
        return self._live.held(paths) if paths else set()

    def _moment(self, version: int) -> Moment:
        return Moment(snapshot_id(version, self._table_id), version)

    def _change(self, changes: FileChanges, moment: Moment) -> dict[str, str]:
        """Apply the changes to the manifests. Returns the snapshot's summary."""
        live = self._live
        live.drop_empty()
        removed = live.remove(self._located(changes.removed), DATA, moment)
        dropped = live.remove(self._located(changes.without_vector), DELETES, moment)
        live.merge(moment)
        added = self._add_files(changes.added, moment)
        deletes = self._add_vectors(changes.vectors, moment)
        return _summary(
            operation=_operation(added, removed, deletes, dropped, changes_data=changes.changes_data),
            before=_totals(self.document),
            added=added,
            removed=removed,
            deletes=deletes,
            dropped=dropped,
        )

    def _located(self, removes: Sequence[RemoveFile]) -> dict[str, PartitionValues | None]:
        """The locations of files, with their partition values. If a metaData action of the same commit changed the
        partition columns, manifests of the earlier partitioning are not searched by value."""
        encoder = self._live.layout.encoder
        return {
            encoder.location(each.path): None
            if each.partition_values is None
            else encoder.partition_values(each.partition_values)
            for each in removes
        }

    def _add_files(self, adds: Sequence[AddFile], moment: Moment) -> FileCount:
        if not adds:
            return FileCount()
        layout = self._live.layout
        encoder = layout.encoder
        self._add_columns(self._check_ids(adds, [add for add in adds if self._is_taken_over(add.path)]))
        if self._has_days():
            self._sources.check_calendar([add for add in adds if _may_have_old_days(add)])
        next_row_id = self.document.get("next-row-id")
        rows, records = [], []
        for add in adds:
            body, count = encoder.data_file(add, self._sources.rows, next_row_id)
            records.append(body)
            rows.append(count)
            if next_row_id is not None:  # row tracking's ids only grow, and so must Iceberg's
                next_row_id = max(next_row_id, (next_row_id if add.base_row_id is None else add.base_row_id) + count)
        entries = [
            Entry(ADDED, moment.snapshot_id, moment.version, encoder.location(add.path), count, add.size, body)
            for add, count, body in zip(adds, rows, records, strict=True)
        ]
        partitions = [encoder.partition_values(add.partition_values) for add in adds]
        self._live.add(entries, DATA, partitions, moment, self.document.get("next-row-id"))
        if next_row_id is not None:
            self._document = {**self.document, "next-row-id": next_row_id}
        return FileCount(len(adds), sum(rows), sum(add.size for add in adds))

    def _check_ids(self, adds: Sequence[AddFile], taken_over: Sequence[AddFile]) -> set[ColumnPath]:
        """Raise IcebergExportError for files whose columns Iceberg readers would miss or confuse. Returns the columns
        of the files that were taken over, which may be more than the table's."""
        definition = self._live.layout.writer.definition
        if definition.files_need_element_ids:
            self._sources.check_element_ids(adds)
        return self._sources.check_column_ids(taken_over, definition) if taken_over else set()

    def _is_taken_over(self, path: str) -> bool:
        """Whether a file may come from another program, with its own column ids, or from a table without ids, which may
        have had other columns for row ids."""
        is_mapped = self._live.layout.writer.definition.is_mapped
        return not _is_delta_name(path) or (not is_mapped and _is_absolute(path) is not None)

    def _has_days(self) -> bool:
        return any(kind in (DATE, TIMESTAMP) for _, kind in leaf_paths(self._live.layout.writer.definition.physical))

    def _add_vectors(self, adds: Sequence[AddFile], moment: Moment) -> FileCount:
        added = FileCount()
        if not adds:
            return added
        encoder = self._live.layout.encoder
        descriptors = [add.deletion_vector for add in adds if add.deletion_vector is not None]
        bitmaps = self._sources.bitmaps(descriptors)
        vectors = [
            Vector(encoder.location(add.path), bitmap, descriptor.cardinality)
            for add, descriptor, bitmap in zip(adds, descriptors, bitmaps, strict=True)
        ]
        files, deletes = delete_files(vectors, moment.version, self._format_version, self._place.base)
        self._live.new_files.extend(files)
        partitions: list[PartitionValues] = [encoder.partition_values(add.partition_values) for add in adds]
        entries = []
        for file, values in zip(deletes, partitions, strict=True):
            body = encoder.delete_file(file, values)
            size_bytes = file.size_bytes if file.length is None else file.length
            entries.append(
                Entry(ADDED, moment.snapshot_id, moment.version, file.data_file, file.records, size_bytes, body)
            )
            added.files += 1
            added.rows += file.records
            added.size_bytes += size_bytes
        self._live.add(entries, DELETES, partitions, moment)
        return added

    # --- a whole version -------------------------------------------------------------------------------------

    def add_all(
        self, parts: Iterable[tuple[pa.Table, Any]], version: int, timestamp_ms: int, known: Set[ColumnPath]
    ) -> str:
        """Make the snapshot of a version whose live files are all listed anew. The text says why they cannot be."""
        moment = self._moment(version)
        first_row_id = next_row_id = self.document.get("next-row-id")
        layout = self._live.layout
        definition = layout.writer.definition
        manifests = NewManifests(layout, moment, self._origins)
        added = FileCount()
        vectors: list[AddFile] = []
        columns = {*known}
        finds_columns = self._may_have_dropped_columns()
        for files, numbers in parts:
            every = add_files_of(files) if finds_columns or definition.files_need_element_ids else []
            columns |= self._check_ids(every, add_files_of(_taken_over(files, is_mapped=definition.is_mapped)))
            if self._has_days():
                self._sources.check_calendar(add_files_of(_of_old_days(files)))
            if finds_columns:
                columns |= self._sources.columns_without_ids(every)
            found = encode_files(files, definition, layout.encoder, self._sources.rows, next_row_id)
            next_row_id = found.next_row_id
            locations = [*map(layout.encoder.location, files.column("path").to_pylist())] if self._origins else []
            if any(each not in (self._origins or {}) for each in locations):
                return "the format changes together with the files"
            manifests.add(found, numbers, locations)
            added.files, added.rows = added.files + files.num_rows, added.rows + int(found.rows.sum())
            added.size_bytes += int(sum(map(np.sum, map(numbers_of, files.column("size").chunks))))
            vectors += add_files_of(files.filter(files.column("deletionVector").is_valid()))
        self._add_columns(columns)
        self._live.add_new(manifests.finished(first_row_id))
        if next_row_id is not None:
            self._document = {**self.document, "next-row-id": next_row_id}
        deletes = self._add_vectors(vectors, moment)
        if added.files:
            self._add_snapshot(self._summary_of_all(added, deletes), version, timestamp_ms, first_row_id)
        self._document = with_version(self.document, version, timestamp_ms)
        return ""

    def _summary_of_all(self, added: FileCount, deletes: FileCount) -> dict[str, str]:
        nothing, totals = FileCount(), dict.fromkeys(_TOTALS, 0)
        if self._origins is None:
            operation = "overwrite" if deletes.files else "append"
            return _summary(
                operation=operation, before=totals, added=added, removed=nothing, deletes=deletes, dropped=nothing
            )
        totals |= {"data-files": added.files, "records": added.rows, "files-size": added.size_bytes}
        return _summary(
            operation="replace", before=totals, added=nothing, removed=nothing, deletes=deletes, dropped=nothing
        )

    def _add_snapshot(self, summary: dict[str, str], version: int, timestamp_ms: int, first_row_id: int | None) -> None:
        document, live = self.document, self._live
        parent_id = document.get("current-snapshot-id")
        snapshot: dict[str, Any] = {
            "snapshot-id": snapshot_id(version, self._table_id),
            "sequence-number": version,
            "timestamp-ms": max(timestamp_ms, document["last-updated-ms"]),
            "schema-id": document["current-schema-id"],
            "summary": {**summary, "delta-version": str(version)},
        }
        if parent_id is not None:
            snapshot["parent-snapshot-id"] = parent_id
        if first_row_id is not None:
            snapshot["first-row-id"] = first_row_id
            snapshot["added-rows"] = document["next-row-id"] - first_row_id
        body = write_manifest_list(
            live.manifests,
            snapshot_id=snapshot["snapshot-id"],
            parent_id=parent_id,
            sequence_number=version,
            format_version=self._format_version,
        )
        file = NewFile(content_name(version, body, "-list.avro"), body)
        live.new_files.append(file)
        snapshot["manifest-list"] = f"{self._place.base}/{file.name}"
        self._document = with_snapshot(document, snapshot, live.layout.retention_ms)
        self._snapshots += 1


_OF_ROW_IDS = ("ROW TRACKING BACKFILL", "ROW TRACKING UNBACKFILL")
"""Operations that add live files again, which get row ids or lose them, and else stay as they are."""


def _may_repeat(commit: Commit) -> bool:
    """Whether an added file may be live already: not if the commit says how much the table grows."""
    return commit.is_foreign or commit.commit_info is None or commit.commit_info.net_files is None


def _operation(
    added: FileCount, removed: FileCount, deletes: FileCount, dropped: FileCount, *, changes_data: bool
) -> str:
    """The operation of the Iceberg snapshot. ``replace``: the same rows in other files, which a changelog may omit."""
    if not removed.files and not deletes.files and not dropped.files:
        return "append"
    if not added.files and not dropped.files:
        return "delete"
    if not changes_data and not deletes.files and removed.rows - dropped.rows >= added.rows:
        return "replace"
    return "overwrite"


def _totals(document: Mapping[str, Any]) -> dict[str, int]:
    snapshot = current_snapshot(document)
    if snapshot is None:
        return dict.fromkeys(_TOTALS, 0)
    return {key: int(snapshot["summary"][f"total-{key}"]) for key in _TOTALS}


def _summary(
    *,
    operation: str,
    before: Mapping[str, int],
    added: FileCount,
    removed: FileCount,
    deletes: FileCount,
    dropped: FileCount,
) -> dict[str, str]:
    changes = {
        "added-data-files": added.files,
        "added-records": added.rows,
        "added-files-size": added.size_bytes + deletes.size_bytes,
        "deleted-data-files": removed.files,
        "deleted-records": removed.rows,
        "removed-files-size": removed.size_bytes + dropped.size_bytes,
        "added-delete-files": deletes.files,
        "added-position-deletes": deletes.rows,
        "removed-delete-files": dropped.files,
        "removed-position-deletes": dropped.rows,
    }
    totals = {
        "total-data-files": before["data-files"] + added.files - removed.files,
        "total-records": before["records"] + added.rows - removed.rows,
        "total-files-size": before["files-size"] + changes["added-files-size"] - changes["removed-files-size"],
        "total-delete-files": before["delete-files"] + deletes.files - dropped.files,
        "total-position-deletes": before["position-deletes"] + deletes.rows - dropped.rows,
        "total-equality-deletes": 0,
    }
    counts = {key: value for key, value in changes.items() if value}
    return {"operation": operation, **{key: str(value) for key, value in {**counts, **totals}.items()}}


def _of_old_days(files: pa.Table) -> pa.Table:
    """`_may_have_old_days` of live files (``FILES_SCHEMA``)."""
    stats = pc.fill_null(files.column("stats"), "")
    has_new_days = pc.and_not(pc.match_substring_regex(stats, _DAY), pc.match_substring_regex(stats, _EARLY_DAY))
    return files.filter(pc.and_not(pc.match_substring_regex(files.column("path"), _SPARKS_NAME), has_new_days))


def _taken_over(files: pa.Table, *, is_mapped: bool) -> pa.Table:
    """`_Work._is_taken_over` of live files (``FILES_SCHEMA``)."""
    paths = files.column("path")
    is_other = pc.invert(pc.match_substring_regex(paths, _DELTA_NAME))
    return files.filter(is_other if is_mapped else pc.or_(is_other, pc.match_substring_regex(paths, _ABSOLUTE)))
