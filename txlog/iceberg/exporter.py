"""Exports a table's versions as Iceberg metadata: reads the existing metadata and later commits, and writes the rest.

In: an open log. Out: ``_iceberg/metadata`` at the requested version. Exporters need no lock: the metadata is a pure
function of the table, and `MetadataFolder.publish` decides which exporter was first. The others look again, and find
their work done or continue from there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence, Set

import msgspec

from txlog.core import ambient
from txlog.core.format.actions import Metadata
from txlog.core.format.column_mapping import physical_names
from txlog.core.format.commit_file import Commit
from txlog.core.parallel import new_lock, parallel_map
from txlog.core.reading import DeletionVectorReader
from txlog.core.util import logger
from txlog.core.versions.decisions.state import TableState
from txlog.core.versions.files import DeltaLog
from txlog.errors import (
    CorruptLogError,
    IcebergExportError,
    NotFoundError,
    StorageError,
    TxlogError,
    UnsupportedFeatureError,
)
from txlog.iceberg.catalog_follow import follow
from txlog.iceberg.clean_up import clean_up_metadata
from txlog.iceberg.footers import (
    check_calendar,
    check_column_ids,
    check_element_ids,
    columns_without_ids,
    row_counts,
)
from txlog.iceberg.metadata.definition import define
from txlog.iceberg.metadata.export import DatedCommit, Export, Sources, export_commits, export_version
from txlog.iceberg.metadata.names import metadata_name, table_uuid
from txlog.iceberg.metadata.properties import ICEBERG, catalog_entry, format_name
from txlog.iceberg.metadata.schema import ColumnPath
from txlog.iceberg.metadata.table_metadata import Exported, MetadataPlace, columns_of_files, parsed
from txlog.iceberg.metadata.whole_table import FileBatches, in_manifests
from txlog.iceberg.metadata_folder import MetadataFile, MetadataFolder
from txlog.result import counted
from txlog.result.audits import IcebergExport

_ATTEMPTS = 20
_ALONE = "%s: Iceberg readers get v%d without the versions before it: %s"
_CALLS_AT_ONCE = 8
_DEFAULT_FORMAT = 2
_OF_ONE_VERSION = (CorruptLogError, IcebergExportError, NotFoundError, UnsupportedFeatureError)
"""Errors that only an older version may cause, such as a deletion vector that a vacuum has deleted since."""
_EXPORTS_PER_CLEAN_UP = 50


class IcebergLag(msgspec.Struct, frozen=True):
    """The exported version, and how many versions it is behind; or the problem of the metadata, and no numbers."""

    version: int | None = None
    lag: int | None = None
    problem: str | None = None


def place_of(uri: str) -> MetadataPlace:
    """The location of the table at ``uri`` for Iceberg readers: a path gets the scheme ``file``."""
    return MetadataPlace(uri if "://" in uri else f"file://{uri}")


class IcebergExporter:
    """Exports one table. Thread-safe: one export runs at a time."""

    def __init__(self, log: DeltaLog) -> None:
        if log.store.iceberg is None:
            raise IcebergExportError("this kind of store has no folder for Iceberg metadata", table=log.uri)
        self._log = log
        self._place = place_of(log.uri)
        self._folder = MetadataFolder(log.store.iceberg, self._place)
        self._lock = new_lock()
        self._clean_up_from_s = -math.inf

    def exported(self) -> Exported | None:
        """The newest metadata; None if the table was never exported.

        Raises IcebergExportError if txlog did not write it, StorageError.
        """
        with self._lock, TxlogError.located(self._log.uri):
            newest = self._folder.newest()
            return None if newest is None else self._folder.exported(newest)

    def lag(self, newest: int) -> IcebergLag | None:
        """How far Iceberg readers are behind the version ``newest``, without exporting; None if the table was never
        exported."""
        try:
            exported = self.exported()
        except TxlogError as error:
            return IcebergLag(problem=error.message)
        return None if exported is None else IcebergLag(exported.version, max(0, newest - exported.version))

    def export(self, state: TableState, *, rebuild: bool = False, is_on_disk: bool = False) -> IcebergExport:
        """Export every version up to ``state`` that is not exported yet.

        Args:
            state: The version to export.
            rebuild: Export the version in full, as the only snapshot, whatever metadata exists. If another exporter has
                exported a newer version meanwhile, export the newest one.
            is_on_disk: The commits up to this version are known to survive a power cut.

        Raises:
            IcebergExportError: The table cannot be exported, or another Iceberg writer committed; explains what to do.
            CorruptLogError: A commit is damaged.
            StorageError: The store does not answer, or other exporters were first every time.
        """
        _check_alone(state)
        with self._lock, TxlogError.located(self._log.uri):
            if not is_on_disk:  # Iceberg readers must not see a version that a power cut can remove from the log
                self._make_durable(state)
            for step in [state] if rebuild else self._steps(state):
                done = self._published(step, rebuild=rebuild)
        entry = catalog_entry(state.metadata.configuration)
        if entry is not None:
            self.move_entry(entry, done)
        return done

    def _published(self, state: TableState, *, rebuild: bool) -> IcebergExport:
        for attempt in range(1, _ATTEMPTS + 1):
            done = self._attempt(state, attempt, rebuild=rebuild)
            if done is not None:
                return done
        raise StorageError(f"{_ATTEMPTS} times, another exporter published Iceberg metadata first: export again")

    def _steps(self, state: TableState) -> list[TableState]:
        """The versions to export one after the other, the last of them ``state``: more than one if the format changes
        from 2 to 3 on the way, which the metadata then do at that version."""
        newest = self._folder.newest()
        try:
            before = None if newest is None else self._folder.exported(newest)
        except IcebergExportError:  # which is raised again where the version is exported
            before = None
        if before is None or not self._is_upgrade(before, state):
            return [state]
        try:
            commits = list(self._log.commits_between(before.version + 1, state.version))
            changed = next(each.version for each in commits if _asks_for_v3(each))
            found = {changed - 1, changed, state.version} - {before.version}
            return [state if each == state.version else self._log.state_at(each) for each in sorted(found)]
        except (NotFoundError, StopIteration):
            return [state]

    def move_entry(self, entry: str, done: IcebergExport) -> None:
        """Update a catalog entry to this export. Raises what `follow` raises."""
        assert self._log.store.iceberg is not None, "an exporter has a folder"
        with TxlogError.located(self._log.uri):
            follow(entry, done.metadata_location, MetadataFolder(self._log.store.iceberg, self._place))

    def _attempt(self, state: TableState, attempt: int, *, rebuild: bool) -> IcebergExport | None:
        began = ambient.instant()
        newest = self._folder.newest()
        before = None if newest is None or rebuild else self._folder.exported(newest)
        if rebuild and newest is not None and self._folder.is_newer(newest, state.version):
            state = self._log.newest_state()
            self._make_durable(state)
        if newest is not None:
            self._folder.make_durable(newest)
        if before is not None and self._is_continued(before, state):
            if before.version >= state.version:
                self._folder.hint(before.number)
                return self._result(before, 0, attempt)
            export = self._following(before, state)
        elif before is not None and self._is_upgrade(before, state) and before.version == state.version - 1:
            export = self._whole(state, before.number + 1, before, columns_of_files(before.document), older=before)
        else:
            export = "" if before is None else self._why_not_continued(before, state)
        if isinstance(export, str):
            if export:
                logger.warning(_ALONE, self._log.uri, state.version, export)
            export = self._whole(state, (newest.number if newest else 0) + 1, before, _known_columns(newest, state))
            assert isinstance(export, Export), "it continues nothing"
        self._folder.put_content(export.files)
        if not self._folder.publish(export.exported, began):
            return None
        self._folder.hint(export.exported.number)
        if rebuild or self._clean_up_is_due(export.exported):
            self._clean_up(export.exported)
        return self._result(export.exported, export.snapshots, attempt)

    def _make_durable(self, state: TableState) -> None:
        if self._log.versions.capabilities.needs_sync:
            self._log.make_durable(state)

    def _clean_up_is_due(self, exported: Exported) -> bool:
        """The metadata file's number decides, since many processes export once and end. One that exports often waits
        for old files."""
        return exported.number % _EXPORTS_PER_CLEAN_UP == 0 and ambient.monotonic_s() >= self._clean_up_from_s

    def _clean_up(self, exported: Exported) -> None:
        """Delete what no reader needs. A failure changes nothing for readers."""
        try:
            gone, wait_s = clean_up_metadata(self._folder, exported)
        except TxlogError as error:
            logger.warning("%s: the cleanup of the Iceberg metadata failed: %s", self._log.uri, error)
            return
        self._clean_up_from_s = ambient.monotonic_s() + wait_s
        if gone:
            logger.info("%s: deleted %s of the Iceberg metadata", self._log.uri, counted(len(gone), "file"))

    def _result(self, exported: Exported, snapshots: int, attempt: int) -> IcebergExport:
        location = f"{self._place.base}/{metadata_name(exported.number)}"
        return IcebergExport(exported.version, location, snapshots, attempt)

    def _is_continued(self, before: Exported, state: TableState) -> bool:
        """Whether the metadata is of this table, at this location, in the requested format. A copied table's is not."""
        return (
            before.document["location"] == self._place.location
            and before.document["table-uuid"] == table_uuid(state.metadata.id)
            and before.format_version == _format_version(state, before)
        )

    def _is_upgrade(self, before: Exported, state: TableState) -> bool:
        """Whether the metadata are of this table, at this location, and only lack the newer format."""
        return (
            before.document["location"] == self._place.location
            and before.document["table-uuid"] == table_uuid(state.metadata.id)
            and (before.format_version, _format_version(state, before)) == (2, 3)
        )

    def _why_not_continued(self, before: Exported, state: TableState) -> str:
        """Empty if the metadata are not of this table: nobody misses their snapshots."""
        if before.document["table-uuid"] != table_uuid(state.metadata.id):
            return ""
        wanted = _format_version(state, before)
        if before.format_version != wanted:
            return f"they are in Iceberg's format {before.format_version}, and {ICEBERG} asks for {wanted}"
        return f"they are of a table at {before.document['location']}"

    # --- what to write ---------------------------------------------------------------------------------------

    def _following(self, before: Exported, state: TableState) -> Export | str:
        """The export of the commits since ``before``; or why the table must be exported in full.

        If one of them cannot be exported but the newest version can, only that version is exported: otherwise the old
        version would stop every later export.
        """
        try:
            commits = list(self._log.commits_between(before.version + 1, state.version))
            if len(commits) > 1 and self._log.is_stray(before.version + 1):
                return f"a file of v{before.version + 1} may be left of another log"
            metadata = state.metadata
            if any(type(action) is Metadata for commit in commits for action in commit.actions):
                metadata = self._log.state_at(before.version).metadata
        except NotFoundError:
            return f"commits after v{before.version} were cleaned up"
        try:
            return export_commits(before, metadata, self._dated(commits), self._place, self._sources(state.version))
        except _OF_ONE_VERSION as error:
            alone = self._whole(state, before.number + 1, before, columns_of_files(before.document))
            logger.warning(_ALONE, self._log.uri, state.version, error)
            return alone

    def _dated(self, commits: Sequence[Commit]) -> list[DatedCommit]:
        if self._log.versions.capabilities.has_cheap_calls:
            return [DatedCommit(commit, self._timestamp_ms(commit)) for commit in commits]
        times = parallel_map(self._timestamp_ms, commits, threads=_CALLS_AT_ONCE)
        return [DatedCommit(commit, time) for commit, time in zip(commits, times, strict=True)]

    def _timestamp_ms(self, commit: Commit) -> int:
        if commit.in_commit_timestamp_ms is not None:
            return commit.in_commit_timestamp_ms
        return self._log.versions.stat(commit.version).modified_ms

    def _whole(
        self,
        state: TableState,
        number: int,
        before: Exported | None,
        columns: Set[ColumnPath],
        older: Exported | None = None,
    ) -> Export | str:
        format_version = _format_version(state, before)
        define(state.metadata, format_version, None)  # refused before the files are listed

        def export(read: FileBatches) -> Export | str:
            return export_version(
                state.metadata,
                state.version,
                in_manifests(read, physical_names(state.schema, state.partition_columns)),
                self._log.timestamp_ms(state.version),
                format_version=format_version,
                number=number,
                place=self._place,
                sources=self._sources(state.version),
                columns=columns,
                older=older,
            )

        try:
            return export(self._log.file_batches(state))
        except (CorruptLogError, NotFoundError):  # perhaps in a checkpoint, which another one may replace
            files = self._log.files(state)
            return export(lambda with_stats: iter(files.to_batches()))

    def _sources(self, version: int) -> Sources:
        store = self._log.store
        return Sources(
            manifest=self._folder.read_content,
            bitmaps=DeletionVectorReader(store, version).bitmaps,
            rows=lambda add: row_counts(store, [add])[0],
            check_element_ids=lambda adds: check_element_ids(store, adds),
            check_calendar=lambda adds: check_calendar(store, adds),
            check_column_ids=lambda adds, definition: check_column_ids(store, adds, definition),
            columns_without_ids=lambda adds: columns_without_ids(store, adds),
        )


def _known_columns(newest: MetadataFile | None, state: TableState) -> set[ColumnPath]:
    """The columns that only data files of the table have, as the newest metadata knows them: the log may not, as after
    row tracking was dropped."""
    try:
        document = {} if newest is None else parsed(newest.body, metadata_name(newest.number))
    except IcebergExportError:  # another program wrote it, or it is damaged
        return set()
    return columns_of_files(document) if document.get("table-uuid") == table_uuid(state.metadata.id) else set()


def _format_version(state: TableState, before: Exported | None) -> int:
    """The format that the table's property requests, otherwise the last export's format."""
    wanted = format_name(state.metadata.configuration)
    if wanted is not None:
        return 3 if wanted == "v3" else 2
    return before.format_version if before else _DEFAULT_FORMAT


def _asks_for_v3(commit: Commit) -> bool:
    return any(type(action) is Metadata and format_name(action.configuration) == "v3" for action in commit.actions)


def _check_alone(state: TableState) -> None:
    """Raise IcebergExportError if another engine is asked to write Iceberg metadata too."""
    formats = state.metadata.configuration.get("delta.universalFormat.enabledFormats", "")
    if "iceberg" in formats.lower():
        raise IcebergExportError(
            f"delta.universalFormat.enabledFormats = {formats} makes another engine write Iceberg metadata, and readers"
            f" would not know which to follow. Unset that property in the engine, then set {ICEBERG}",
            version=state.version,
        )
