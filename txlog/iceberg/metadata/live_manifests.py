"""The manifests of a table's live files, updated commit by commit: new ones added, changed ones rewritten, many merged.

In: the manifests of the previous snapshot, and entries to add or paths to remove. Out: the manifests of the next
snapshot, and the new files that it needs. A manifest without a changed entry stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from txlog.errors import IcebergExportError
from txlog.iceberg.metadata.file_encoder import FileEncoder, PartitionValues
from txlog.iceberg.metadata.manifest import DATA, DELETED, EXISTING, Entry, ManifestWriter, file_paths, read_entries
from txlog.iceberg.metadata.manifest_list import ManifestFile, PartitionSummary
from txlog.iceberg.metadata.names import NewFile
from txlog.result import counted

_FAN_OUT_BITS = 5
"""Manifests of about the same size are merged when there are 2**5 of them: a list has some 50 manifests, and an entry
is rewritten once each time the table has grown by that factor."""
_TOP_LEVEL = 3  # 32,768 entries or more, some MB: not merged further


class Layout(msgspec.Struct, frozen=True):
    """How entries are written under one definition of the table. Snapshots are kept for ``retention_ms``."""

    writer: ManifestWriter
    encoder: FileEncoder
    retention_ms: int

    @property
    def spec_id(self) -> int:
        spec_id: int = self.writer.definition.spec["spec-id"]
        return spec_id


class Moment(msgspec.Struct, frozen=True):
    """The snapshot in progress: its id, and its Delta version, which is also its sequence number."""

    snapshot_id: int
    version: int


class FileCount(msgspec.Struct):
    """How many files were added or removed, with how many rows and bytes."""

    files: int = 0
    rows: int = 0
    size_bytes: int = 0


class LiveManifests:
    """The manifests of the newest snapshot, as changes are applied to them.

    ``read`` returns the bytes of an earlier manifest; ``new_files`` are the files to put.
    """

    def __init__(self, manifests: Iterable[ManifestFile], read: Callable[[str], bytes]) -> None:
        self.manifests = tuple(manifests)
        self.new_files: list[NewFile] = []
        self._read = read
        self._bodies: dict[str, bytes] = {}
        self._layouts: dict[int, Layout] = {}
        self._layout: Layout | None = None

    @property
    def layout(self) -> Layout:
        assert self._layout is not None, "the definition comes before the files"
        return self._layout

    def define(self, layout: Layout) -> None:
        """Write later entries under another definition. Manifests of earlier definitions can still be rewritten."""
        self._layouts[layout.spec_id] = self._layout = layout

    def add(
        self,
        entries: Sequence[Entry],
        content: int,
        partitions: Sequence[PartitionValues],
        moment: Moment,
        first_row_id: int | None = None,
    ) -> None:
        """Add a manifest of new files, with each file's partition values and, in v3, the first of their row ids."""
        layout = self.layout
        manifest = self._write(layout, entries, content, layout.encoder.summaries(partitions), moment, first_row_id)
        self.manifests = (manifest, *self.manifests)

    def add_new(self, manifests: Iterable[tuple[NewFile, ManifestFile]]) -> None:
        """Add finished manifests of new data files."""
        for file, manifest in manifests:
            self.new_files.append(file)
            self._bodies[manifest.path] = file.body
            self.manifests = (manifest, *self.manifests)

    def remove(self, paths: Mapping[str, PartitionValues | None], content: int, moment: Moment) -> FileCount:
        """Remove data files, or with DELETES their delete files.

        Args:
            paths: The absolute location of each data file, with its partition values if they are known.
            content: DATA or DELETES.
            moment: The snapshot that removes them.

        Raises:
            IcebergExportError: A path is in no manifest.
        """
        wanted = set(paths)
        removed = FileCount()
        if not wanted:
            return removed
        kept: list[ManifestFile] = []
        for manifest in self.manifests:
            changed = None
            if wanted and manifest.content == content and self._may_hold(manifest, paths):
                changed = self._without(manifest, wanted, moment, removed)
            kept.append(changed or manifest)
        if wanted:
            raise IcebergExportError(
                f"{counted(len(wanted), 'file')} that it removes, such as {min(wanted)}, or their deletion vectors,"
                " are not in the exported snapshot. Export the table again with rebuild=True"
            )
        self.manifests = tuple(kept)
        return removed

    def held(self, paths: Mapping[str, PartitionValues | None]) -> set[str]:
        """Which of these data files are live."""
        found: set[str] = set()
        for manifest in self.manifests:
            if manifest.content == DATA and self._may_hold(manifest, paths):
                found |= paths.keys() & {*file_paths(self._body(manifest), manifest.path)}
        return found

    def drop_empty(self) -> None:
        """Drop manifests that only list what an earlier snapshot deleted."""
        self.manifests = tuple(manifest for manifest in self.manifests if manifest.live_files)

    def merge(self, moment: Moment) -> None:
        """Merge manifests of about the same size, if there are many."""
        if len(self.manifests) < 1 << _FAN_OUT_BITS:
            return
        spec_id = self.layout.spec_id
        groups: dict[tuple[int, int], list[ManifestFile]] = {}
        for manifest in self.manifests:
            level = max(0, manifest.size_class - 1) // _FAN_OUT_BITS
            is_ours = manifest.added_snapshot_id == moment.snapshot_id
            if level < _TOP_LEVEL and not is_ours and manifest.partition_spec_id == spec_id:
                groups.setdefault((manifest.content, level), []).append(manifest)
        for (content, _), group in groups.items():
            if len(group) >= 1 << _FAN_OUT_BITS:
                self._merge(group, content, moment)

    def _merge(self, group: Sequence[ManifestFile], content: int, moment: Moment) -> None:
        layout = self.layout
        entries = [entry._replace(status=EXISTING) for manifest in group for entry in self._entries(manifest, layout)]
        summaries = layout.encoder.union([manifest.partitions for manifest in group])
        first_row_id = min((each.first_row_id for each in group if each.first_row_id is not None), default=None)
        merged = self._write(layout, entries, content, summaries, moment, first_row_id)
        gone = {manifest.path for manifest in group}
        self.manifests = (merged, *(manifest for manifest in self.manifests if manifest.path not in gone))

    def _may_hold(self, manifest: ManifestFile, paths: Mapping[str, PartitionValues | None]) -> bool:
        if not manifest.live_files:
            return False
        known = [values for values in paths.values() if values is not None]
        if len(known) < len(paths) or manifest.partition_spec_id != self.layout.spec_id:
            return True
        return self.layout.encoder.may_hold(manifest.partitions, known)

    def _without(
        self, manifest: ManifestFile, wanted: set[str], moment: Moment, removed: FileCount
    ) -> ManifestFile | None:
        layout = self._layouts.get(manifest.partition_spec_id)
        if layout is None:
            raise IcebergExportError(
                "a manifest of an earlier partitioning has to change. Export the table again with rebuild=True",
                path=manifest.path,
            )
        entries = self._entries(manifest, layout)
        if wanted.isdisjoint(entry.path for entry in entries):
            return None
        after = []
        for entry in entries:
            if entry.path in wanted:
                wanted.discard(entry.path)
                removed.files += 1
                removed.rows += entry.rows
                removed.size_bytes += entry.size_bytes
                after.append(entry._replace(status=DELETED, snapshot_id=moment.snapshot_id))
            else:
                after.append(entry._replace(status=EXISTING))
        return self._write(layout, after, manifest.content, manifest.partitions, moment, manifest.first_row_id)

    def _entries(self, manifest: ManifestFile, layout: Layout) -> list[Entry]:
        definition = layout.writer.definition
        return read_entries(self._body(manifest), definition.partition, definition.format_version, manifest.path)

    def _body(self, manifest: ManifestFile) -> bytes:
        body = self._bodies.get(manifest.path)
        return self._read(manifest.path) if body is None else body

    def _write(
        self,
        layout: Layout,
        entries: Sequence[Entry],
        content: int,
        summaries: Sequence[PartitionSummary],
        moment: Moment,
        first_row_id: int | None,
    ) -> ManifestFile:
        file, manifest = layout.writer.write(
            entries,
            content,
            summaries,
            snapshot_id=moment.snapshot_id,
            version=moment.version,
            first_row_id=first_row_id,
        )
        self.new_files.append(file)
        self._bodies[manifest.path] = file.body
        return manifest
