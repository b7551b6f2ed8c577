"""What storage still holds of rows and columns deleted up to a version: the proof of a legal deletion.

In: an open table and a version. Out: a `DeletionCheck`, which names every file that may still hold something deleted up
to that version, and why it is kept. A file is clean only if the log proves it:

- it was live in that version, without a deletion vector and without a dropped column; or
- a later commit added it, with rows that were live then. Files that come back after they were removed, by a restore, a
  clone or the adding of files, are not clean, nor are files that a compaction wrote with a deletion vector because rows
  were deleted meanwhile. A log forgets what was removed, so a file that was written early enough to have been in the
  table before that version is not clean either. That includes files that another writer wrote by then and committed
  later.

A data file that no commit names is not clean either, unless it was written a day later: an abandoned write may have
read the rows before they were deleted. Commits, checkpoints, named versions and Iceberg manifests are not clean while
they hold statistics of such files, since bounds are values. Deletion vectors hold positions, and no values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from urllib.parse import unquote

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from txlog.core.changes.tasks import Folders
from txlog.core.format.actions import AddCDCFile, AddFile, RemoveFile
from txlog.core.format.arrow.arrays import are_among, array_of
from txlog.core.format.column_mapping import physical_names
from txlog.core.format.commit_file import Commit
from txlog.core.format.file_columns import file_ids
from txlog.core.format.log_names import SIDECARS, LogFileKind, parse_log_name, version_prefix
from txlog.core.format.path_set import PathSet, store_names
from txlog.core.format.paths import (
    canonical_path,
    canonical_paths,
    encode_path,
    path_below,
    resolve_data_path,
)
from txlog.core.format.properties import DAY_MS
from txlog.core.maintenance import (
    LAST_VACUUM,
    NamedVersion,
    files_of_named,
    files_with_dropped_columns,
    former_partition_columns,
    named_versions,
    unnamed_checkpoints,
)
from txlog.core.reading import KeyFolder, path_in_store
from txlog.core.sink import Staging
from txlog.core.store import ICEBERG, KEYS, QUARANTINE, STAGING, VERSIONS, WAITING, ObjectMeta
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.intents import named_intent
from txlog.core.versions.decisions.prepared import is_part
from txlog.core.versions.decisions.state import TableState
from txlog.core.versions.decisions.symlink_manifests import FOLDER, NAME, NOTE
from txlog.core.versions.files import LOG_DIRECTORY, list_log
from txlog.errors import IcebergExportError, NotFoundError
from txlog.result import moment
from txlog.result.audits import DeletionCheck, KeptBy, Remnant

_VECTOR = re.compile(r"(^|/)deletion_vector_[0-9a-fA-F-]{36}\.bin")
_HADOOP_CHECKSUM = re.compile(r"(^|/)\.[^/]+\.crc$")
_MANIFEST = rf"^{FOLDER}/(.*/)?{NAME}$"
_HOLDS_NO_VALUES = re.compile("|".join((_VECTOR.pattern, _HADOOP_CHECKSUM.pattern, _MANIFEST)))
"""Deletion vectors, checksums, and manifests, which name live files and nothing else."""
_TXLOG = STAGING.partition("/")[0]
_ICEBERG = ICEBERG.partition("/")[0]
_HIDDEN_FOLDERS: dict[str, KeptBy] = {LOG_DIRECTORY: "the log", _TXLOG: "no version", _ICEBERG: "Iceberg metadata"}


def check_deleted(open_table: OpenTable, *, version: int | None) -> DeletionCheck:
    """Check every file of the table. Raises what `Table.check_deleted` raises."""
    newest = open_table.log.newest_state()
    state = newest if version is None else _first_readable(open_table, version, newest)
    return _Check(open_table, state, newest, asked=newest.version if version is None else version).run()


def _first_readable(open_table: OpenTable, version: int, newest: TableState) -> TableState:
    """The state at ``version``, or at the first version after it that the log still has."""
    log = open_table.log
    try:
        log.read_commit(version, files=False)  # a checkpoint alone does not show what the commit right after it did
        return log.state_at(version)
    except NotFoundError:
        if version > newest.version:
            raise
    listing = list_log(log.store, version)
    first = min((each.version for each in listing.checkpoints), default=newest.version)
    return log.state_at(first)


class _Check:
    def __init__(self, open_table: OpenTable, state: TableState, newest: TableState, *, asked: int) -> None:
        self._open_table = open_table
        self._log = open_table.log
        self._state = state
        self._newest = newest
        self._listed: dict[str, ObjectMeta] = {}
        self._clean = PathSet(self._log.uri)
        self._written_before_ms, time_ms = self._times_ms()
        """No file that the table had before the version is newer than this."""
        self._given_up_until_ms = time_ms + DAY_MS
        """Until then, an abandoned write may have written rows that it read before they were deleted."""
        self._last_dirty = state.version - 1
        """The newest version with a live file that is not clean: the log has its bounds."""
        self._dirty_names: set[str] = set()
        """The names, without their folders, of all files that were live and not clean."""
        self._telling: set[int] = set()
        """Later commits with bounds of such files, and the delete itself: its condition may contain values."""
        if state.version == asked:
            self._telling.add(asked)

    def run(self) -> DeletionCheck:
        staged = Staging(self._log.store, self._open_table.retry).named_paths()
        for page in self._log.store.files.list(skip=lambda folder: folder in (LOG_DIRECTORY, _TXLOG, _ICEBERG)):
            self._listed |= {meta.name: meta for meta in page}
        self._follow(self._begin())
        named = named_versions(self._log.store)
        suspects = self._suspects()
        remains = [*self._data_files(suspects, staged, named), *self._log_files(), *self._checkpoints_of(named)]
        remains += [*self._iceberg_files(), *self._quarantined(), *self._staged_bounds(), *self._leftovers()]
        return DeletionCheck(self._state.version, len(self._listed), tuple(remains))

    # --- what is clean ----------------------------------------------------------------------------------------------

    def _begin(self) -> tuple[pa.ChunkedArray, set[str]]:
        """The version's clean live files, which have lost neither rows nor columns; and the others, normalized."""
        files = self._log.files(self._state)
        whole = files.filter(pc.is_null(files["deletionVector"]))
        listed = PathSet(self._log.uri)
        listed.add(self._listed)
        there = whole.filter(listed.holds(whole["path"]))
        dropped = files_with_dropped_columns(self._open_table, self._state, there)
        whole = whole.filter(pc.invert(pc.is_in(whole["path"], array_of(dropped, pa.string()))))
        others = files.filter(pc.invert(are_among(files["path"], whole["path"])))
        self._clean.add_logged(whole["path"])
        dirty = set(canonical_paths(others["path"]).to_pylist())
        if dirty:
            self._last_dirty = self._state.version
        self._note(dirty)
        return canonical_paths(whole["path"]), dirty

    def _follow(self, at_first: tuple[pa.ChunkedArray, set[str]]) -> None:
        """What later commits added, and until when unclean files were live."""
        whole, dirty = at_first
        commits = [
            _Changes.of(commit) for commit in self._log.commits_between(self._state.version + 1, self._newest.version)
        ]
        added = array_of([path for each in commits for path in each.added], pa.string())
        clean = set(added.filter(are_among(added, whole)).to_pylist())
        never_clean = dirty | self._removed_before({*added.to_pylist()} - clean - dirty)
        for each in commits:
            for path, file in each.added.items():
                if path in clean or path in never_clean or file.has_vector or each.is_restore:
                    continue
                if not self._is_from_before(path, file.modified_ms):
                    clean.add(path)
                    self._clean.add_uri(path)
            unclean = each.added.keys() - clean
            never_clean |= unclean
            dirty -= each.removed
            dirty |= unclean
            self._note(unclean)
            for path in each.change_files:
                self._clean.add_uri(path)
            if dirty:
                self._last_dirty = each.version
            if not each.bounded <= clean:
                self._telling.add(each.version)

    def _removed_before(self, paths: set[str]) -> set[str]:
        """Those of these paths, normalized, whose files the version's log says that the table had and removed: their
        rows may be the deleted ones."""
        if not paths:
            return paths
        _, tombstones = self._log.named_files(self._state, paths)
        return set(canonical_paths(tombstones["path"]).to_pylist())

    def _is_from_before(self, path: str, logged_ms: int) -> bool:
        """Whether the table may have had and removed the file, though no log says so any longer: a tombstone is dropped
        after its retention. The store says when a file was written; of a file that is gone, the commit that added it.
        """
        found = resolve_data_path(path)
        times = [self._listed[name].modified_ms for name in store_names(self._log.uri, found) if name in self._listed]
        if not times and path_below(self._log.uri, found) is not None:
            times = [logged_ms]
        return any(time_ms <= self._written_before_ms for time_ms in times)

    def _note(self, dirty: Iterable[str]) -> None:
        self._dirty_names |= {_last_name(path) for path in dirty}

    # --- what is not ------------------------------------------------------------------------------------------------

    def _suspects(self) -> dict[str, ObjectMeta]:
        names = [name for name in self._listed if not _HOLDS_NO_VALUES.search(name)]
        listed = PathSet(self._log.uri)
        listed.add(names)
        found = listed.column().filter(pc.invert(self._clean.holds(listed.column()))).to_pylist()
        return {name: self._listed[name] for name in sorted(found)}

    def _data_files(
        self, suspects: Mapping[str, ObjectMeta], staged: set[str], named: Iterable[NamedVersion]
    ) -> Iterator[Remnant]:
        live, tombstones = self._log.files_and_tombstones(self._newest, with_stats=False)
        live_names = _among(suspects, self._log.uri, live)
        tags = {
            name: each.name
            for each in named
            for name in _among(suspects, self._log.uri, files_of_named(self._log.store, each))
        }
        removed_ms = _removed_ms(suspects, tombstones)
        retention_ms = self._newest.properties.deleted_file_retention_ms
        columns = physical_names(self._newest.schema, self._newest.partition_columns)
        folders = Folders(columns, former=lambda: former_partition_columns(self._log, self._newest))
        for name, meta in suspects.items():
            until_ms = None  # what no vacuum deletes
            if not folders.hides(name):
                until_ms = max(meta.modified_ms, removed_ms.get(name, 0)) + retention_ms
            if name in live_names:
                yield Remnant(name, meta.size, "the newest version")
            elif name in staged:
                yield Remnant(name, meta.size, "staging")
            elif name in tags:
                yield Remnant(name, meta.size, "a named version", tags[name])
            elif name in removed_ms:
                yield Remnant(name, meta.size, "older versions", None, _moment(until_ms))
            elif name.startswith("_change_data/"):
                yield Remnant(name, meta.size, "change data", None, _moment(until_ms))
            elif meta.modified_ms < self._given_up_until_ms:
                yield Remnant(name, meta.size, "no version", None, _moment(until_ms))

    def _times_ms(self) -> tuple[int, int]:
        """When the version before and the version itself were committed, by the store's clock, which also dates the
        data files. A version before that the log has lost has the time of the version."""
        version = self._state.version
        times: dict[int, int] = {}
        for meta in self._log.store.log.list_from(version_prefix(max(version - 1, 0))):
            file = parse_log_name(meta.name)
            if file is not None and file.version <= version:
                times[file.version] = min(meta.modified_ms, times.get(file.version, meta.modified_ms))
        time_ms = times[version] if version in times else self._log.timestamp_ms(version)
        return times.get(version - 1, time_ms), time_ms

    # --- bounds of values ---------------------------------------------------------------------------------------------

    def _log_files(self) -> Iterator[Remnant]:
        retention_ms = self._newest.properties.log_retention_ms + DAY_MS  # it ends at midnight
        listed = self._log.store.log.list_from("")
        last_ms = 0
        for meta in listed:
            file = parse_log_name(meta.name)
            if file is None:
                continue
            is_commit = file.kind in (LogFileKind.COMMIT, LogFileKind.COMPACTED)
            covered = range(file.first_version, file.version + 1)
            if file.first_version <= self._last_dirty or (is_commit and any(each in covered for each in self._telling)):
                last_ms = max(last_ms, meta.modified_ms)
                yield _of_log(f"{LOG_DIRECTORY}/", meta, retention_ms)
        for meta in self._log.store.log.list_from(f"{SIDECARS}/"):
            if meta.modified_ms <= last_ms:
                yield _of_log(f"{LOG_DIRECTORY}/", meta, retention_ms)

    def _checkpoints_of(self, named: Sequence[NamedVersion]) -> Iterator[Remnant]:
        if self._log.store.named_versions is None:
            return
        holding = {each.checkpoint_name: each.name for each in named if each.version <= self._last_dirty}
        for meta in self._log.store.named_versions.list_from(""):
            if meta.name in holding:
                yield Remnant(f"{VERSIONS}/{meta.name}", meta.size, "a named version", holding[meta.name])
        for meta, until_ms in unnamed_checkpoints(self._log.store):
            if meta.modified_ms < self._given_up_until_ms:
                yield Remnant(f"{VERSIONS}/{meta.name}", meta.size, "no version", None, _moment(until_ms))

    def _quarantined(self) -> Iterator[Remnant]:
        for page in self._log.store.files.list(QUARANTINE):
            yield from (Remnant(meta.name, meta.size, "quarantine") for meta in page)

    def _staged_bounds(self) -> Iterator[Remnant]:
        """Staged work of a task, or of a transaction over several tables, names its files with their bounds."""
        store = self._log.store.staging
        for meta in store.list_from("") if store is not None else ():
            if ".task." in meta.name or is_part(meta.name):
                yield Remnant(f"{STAGING}/{meta.name}", meta.size, "staging")

    def _leftovers(self) -> Iterator[Remnant]:
        """Files next to the log and the metadata that neither names: left by a crash or another program."""
        keys_of_clean = self._keys_of_clean_files()
        for folder, kept_by in _HIDDEN_FOLDERS.items():
            for page in self._log.store.files.list(folder):
                for meta in page:
                    is_known = _is_known(meta.name) or meta.name in keys_of_clean
                    if meta.size and meta.modified_ms < self._given_up_until_ms and not is_known:
                        is_of_crash = (folder == LOG_DIRECTORY and meta.name.endswith(".tmp")) or _is_offer(meta.name)
                        until_ms = meta.modified_ms + DAY_MS if is_of_crash else None
                        yield Remnant(meta.name, meta.size, kept_by, None, _moment(until_ms))

    def _keys_of_clean_files(self) -> set[str]:
        """The files of keys, which hold values, of live files that have no deleted row."""
        kept = [meta.name for page in self._log.store.files.list(KEYS) for meta in page]
        if not kept:
            return set()
        live = file_ids(self._log.files(self._newest))
        paths = pa.array([path_in_store(self._log.uri, path) for path, *_ in live], pa.string())
        is_clean = self._clean.holds(paths).to_pylist()
        clean = {KeyFolder.name_of(file) for file, holds in zip(live, is_clean, strict=True) if holds}
        return {name for name in kept if name.rpartition("/")[2] in clean}

    def _iceberg_files(self) -> Iterator[Remnant]:
        """The manifests and lists of exported versions that name such files as live or removed."""
        store = self._log.store.iceberg
        if store is None:
            return
        exported = [meta for meta in store.list_from("") if meta.name.endswith(".avro")]
        if not exported:
            return
        from txlog.iceberg.metadata.names import content_version

        listed = [(meta, content_version(meta.name)) for meta in exported]
        holding: set[int | None] = {None}
        last = max(self._last_dirty, self._state.version)  # the delete itself names the files that it removed
        for meta, version in listed:
            if version is not None and (version <= last or self._is_named_as_deleted(meta.name)):
                holding.add(version)
        for meta, version in listed:
            if version in holding:
                yield Remnant(f"{ICEBERG}/{meta.name}", meta.size, "Iceberg metadata")

    def _is_named_as_deleted(self, name: str) -> bool:
        """Whether a manifest names an unclean file as deleted; until it is rewritten, it holds the file's bounds."""
        from txlog.iceberg.metadata.manifest import DATA, file_paths

        if not name.endswith(f"-m{DATA}.avro"):
            return False
        assert self._log.store.iceberg is not None
        try:
            body = self._log.store.iceberg.read(name)
            return any(_last_name(path) in self._dirty_names for path in file_paths(body, name, deleted=True))
        except IcebergExportError:
            return True  # unknown, so assume it does


def _is_known(path: str) -> bool:
    """Whether a file in a hidden folder needs no separate check: it holds no values, or is found by its name."""
    folder, _, name = path.rpartition("/")
    if path == NOTE:
        return True
    if name.startswith("."):
        return _HADOOP_CHECKSUM.search(name) is not None
    if folder == LOG_DIRECTORY:
        return parse_log_name(name) is not None or name in ("_last_checkpoint", LAST_VACUUM)
    if _is_offer(path):  # it has the bounds of its files
        return False
    return folder in (f"{LOG_DIRECTORY}/{SIDECARS}", STAGING, VERSIONS, WAITING, ICEBERG) or f"{folder}/".startswith(
        f"{QUARANTINE}/"
    )


def _is_offer(path: str) -> bool:
    folder, _, name = path.rpartition("/")
    return folder == WAITING and named_intent(name) is not None


def _last_name(path: str) -> str:
    return unquote(path.rpartition("/")[2])


class _Added(msgspec.Struct, frozen=True):
    """What a commit says of a file that it added."""

    has_vector: bool
    modified_ms: int


class _Changes(msgspec.Struct, frozen=True):
    """What a commit did to the table's files, by their paths in one spelling.

    ``bounded`` are removed files with statistics in the commit.
    """

    version: int
    is_restore: bool
    added: dict[str, _Added]
    removed: set[str]
    bounded: set[str]
    change_files: tuple[str, ...]

    @classmethod
    def of(cls, commit: Commit) -> _Changes:
        removes = [action for action in commit.actions if isinstance(action, RemoveFile)]
        return cls(
            commit.version,
            commit.operation == "RESTORE",
            {
                canonical_path(action.path): _Added(action.deletion_vector is not None, action.modification_time)
                for action in commit.actions
                if isinstance(action, AddFile)
            },
            {canonical_path(action.path) for action in removes},
            {canonical_path(action.path) for action in removes if action.stats is not None},
            tuple(action.path for action in commit.actions if isinstance(action, AddCDCFile)),
        )


def _among(names: Iterable[str], uri: str, files: pa.Table) -> set[str]:
    """The ``names`` (in the store) that are among ``files`` (in the log)."""

    paths = PathSet(uri)
    paths.add_logged(files["path"])
    wanted = array_of(list(names), pa.string())
    return set(wanted.filter(paths.holds(wanted)).to_pylist())


def _removed_ms(names: Iterable[str], tombstones: pa.Table) -> dict[str, int]:
    """When the files ``names`` with a tombstone were removed; the last time, if more than once."""
    name_of = {encode_path(name): name for name in names}
    paths = canonical_paths(tombstones["path"])
    is_wanted = pc.is_in(paths, array_of(list(name_of), pa.string()))
    found: dict[str, int] = {}
    times = tombstones["deletionTimestamp"].filter(is_wanted).to_pylist()
    for path, time in zip(paths.filter(is_wanted).to_pylist(), times, strict=True):
        found[name_of[path]] = max(time or 0, found.get(name_of[path], 0))
    return found


def _of_log(folder: str, meta: ObjectMeta, retention_ms: int) -> Remnant:
    return Remnant(f"{folder}{meta.name}", meta.size, "the log", None, moment(meta.modified_ms + retention_ms))


def _moment(until_ms: int | None) -> datetime | None:
    return None if until_ms is None else moment(until_ms)
