"""What follows a position in a table's history: for `Table.follow`, `Table.changes` and streams from a table.

In: a log, the version whose columns are read, a rule for versions that changed rows, and positions
(`core.versions.decisions.stream_offsets`). Out: the files that each version adds or changes, as tasks, in the order of
positions. A version whose rows those columns would misread, or that the rule does not allow, is an error. PROTOCOL.md,
"Add File and Remove File", "Change Data Files".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec
import numpy as np
import pyarrow as pa

from txlog.core import ambient
from txlog.core.format.actions import AddFile, Metadata, Protocol
from txlog.core.format.arrow.arrays import flags_of, numbers_of
from txlog.core.format.arrow.compute import pc
from txlog.core.format.arrow.take_rows import taken_column, taken_rows
from txlog.core.format.change_data import DELETE, FEED_FIELDS, INSERT, reserved_columns
from txlog.core.format.changed_rows import ChangedRows
from txlog.core.format.column_mapping import is_mapped, physical_name, physical_path
from txlog.core.format.commit_file import Commit
from txlog.core.format.features import CHECKPOINT_PROTECTION, check_can_read, features_of
from txlog.core.format.file_columns import adds_to_batch
from txlog.core.format.schema import Field, Struct
from txlog.core.parallel import parallel_map
from txlog.core.predicates import AnyCondition, bind_predicate
from txlog.core.predicates.skipping import prune_files
from txlog.core.predicates.terms.predicate import Predicate
from txlog.core.reading import ChangeTask, ScanPlan, ScanTask, Selection, VersionChanges
from txlog.core.versions.decisions.changes import (
    added_files,
    as_mapped_before,
    changed_rows,
    incompatible_change,
    redefinition,
)
from txlog.core.versions.decisions.state import TableState
from txlog.core.versions.decisions.stream_offsets import FileRange, StreamOffset, VersionSizes
from txlog.core.versions.files import DeltaLog
from txlog.core.wording import advice, call, setting
from txlog.errors import InvalidInputError, NotFoundError, SchemaMismatchError, TxlogError, UnsupportedFeatureError

RowRule = Literal["fail", "skip", "added", "skip_deletes"]
"""How to handle a version that removed rows: an error; none of its rows; the rows of all files that it added; or none
of its rows if it added no file, otherwise an error."""


class FeedSelection(msgspec.Struct, frozen=True):
    """The columns of the table and of the change data feed to return, and which rows (None: all)."""

    fields: tuple[Field, ...]
    predicate: Predicate | None


class _VersionFiles(msgspec.Struct):
    """The files of one version: as rows of a table of ``add`` actions in some order, or as changes for a feed.
    ``sizes`` are in bytes."""

    sizes: list[int]
    files: pa.Table | None = None
    order: Any = None
    changes: Sequence[ChangedRows] = ()
    timestamp_ms: int = 0


class _MappingRemoval(msgspec.Struct, frozen=True):
    """A version that removed the table's column mapping, and the schemas right before and after it."""

    version: int
    mapped: Struct
    unmapped: Struct


class Follower:
    """Follows a table from version to version.

    Args:
        log: The table's log.
        known: The version whose columns are read; versions before and after it may follow.
        selection: The columns and rows to read; all columns of the table with a feed.
        read: The columns to read; None means all, and then no version may have another column.
        rule: How to handle versions that removed rows.
        feed: Read the changes of each row instead of added rows.
    """

    def __init__(
        self,
        log: DeltaLog,
        known: TableState,
        selection: Selection,
        read: frozenset[str] | None,
        rule: RowRule = "fail",
        feed: FeedSelection | None = None,
    ) -> None:
        self._log = log
        self.known = known
        self._selection = selection
        self._read = read
        self._rule = rule
        self._feed = feed
        self._versions: dict[tuple[int, bool], _VersionFiles] = {}
        self._file_times: dict[int, int] = {}
        self._has_begun = False
        self._unchecked: TableState | None = None
        """The definition at the version that was read last, if no version with rows followed it yet."""
        self._removals: list[_MappingRemoval] | None = None

    def versions_from(self, start: StreamOffset, last: int) -> Iterator[VersionSizes]:
        """The sizes of the files of each version from ``start`` to ``last``. Raises the errors of `tasks`."""
        if start.is_initial:
            yield VersionSizes(start.version, True, self._files_of(start.version, is_initial=True).sizes)
        for version in range(start.version + int(start.is_initial), last + 1):
            yield VersionSizes(version, False, self._files_of(version, is_initial=False).sizes)

    def tasks(self, files: FileRange) -> list[ScanTask] | list[ChangeTask]:
        """The tasks that read some files of one version.

        Raises:
            SchemaMismatchError: The version's rows cannot be read with the known columns.
            InvalidInputError: The version changed or deleted rows and the rule does not allow it, or its feed was off.
            NotFoundError: The version was cleaned up.
            UnsupportedFeatureError: The version needs a reader feature that this release lacks, or has a file outside
                the table's folder.
            CorruptLogError, StorageError: The log is damaged, or the store failed.
        """
        return self._change_tasks(files) if self._feed is not None else [task for _, task in self.scan_tasks(files)]

    def scan_tasks(self, files: FileRange) -> Iterator[tuple[int, ScanTask]]:
        """The same without a feed, each task with the index of its file. Leaves out files without a matching row.

        Raises the errors of `tasks`.
        """
        found = self._files_of(files.version, is_initial=files.is_initial)
        assert found.files is not None
        chosen = taken_rows(found.files, found.order[files.first : files.stop])
        indices = np.arange(files.first, files.first + chosen.num_rows)
        if self._selection.predicate is not None and chosen.num_rows:
            judged_by = (self._selection.predicate, self.known.schema, self.known.partition_columns)
            may_match = prune_files(chosen, *judged_by, parallel_map)
            chosen, indices = chosen.filter(may_match), indices[flags_of(may_match)]
        return zip(indices.tolist(), ScanPlan(self._selection, chosen).tasks(), strict=True)

    def changes(self, commits: Sequence[Commit], times: Mapping[int, int]) -> list[VersionChanges]:
        """What each of these successive versions changed; ``times`` says when, in ms. Raises the errors of `tasks`."""
        for commit in commits:
            self._check_commit(commit)
        return [VersionChanges(each.version, times[each.version], tuple(self._changed(each))) for each in commits]

    def forget_before(self, offset: StreamOffset) -> None:
        """Forget the files of versions before ``offset``: they were read."""
        order = offset.version, not offset.is_initial
        self._versions = {key: found for key, found in self._versions.items() if (key[0], not key[1]) >= order}

    # --- files ------------------------------------------------------------------------------------------

    def _change_tasks(self, files: FileRange) -> list[ChangeTask]:
        assert self._feed is not None
        found = self._files_of(files.version, is_initial=files.is_initial)
        stop = len(found.sizes) if files.stop is None else min(files.stop, len(found.sizes))
        if not files.is_initial and found.changes and (files.first, stop) != (0, len(found.changes)):
            raise InvalidInputError(
                f"the stream's checkpoint stopped in the middle of the changes of version {files.version}, but txlog"
                " reads the changes of whole versions: continue with the source that wrote it, or start the stream with"
                " a new checkpointLocation",
                table=self._log.uri,
                version=files.version,
            )
        return [
            ChangeTask(
                self._selection,
                self._feed.fields,
                self._feed.predicate,
                VersionChanges(files.version, found.timestamp_ms, (rows,)),
                rows.size_bytes,
            )
            for rows in found.changes[files.first : stop]
        ]

    def _files_of(self, version: int, *, is_initial: bool) -> _VersionFiles:
        found = self._versions.get((version, is_initial))
        if found is None:
            found = self._snapshot_files(version) if is_initial else self._commit_files(version)
            self._versions[version, is_initial] = found
        return found

    def _snapshot_files(self, version: int) -> _VersionFiles:
        """All live files of a version, in the order of Delta's source."""
        state = self._checked_state(version)
        files = self._log.files(state)
        order = numbers_of(pc.sort_indices(files, [("modificationTime", "ascending"), ("path", "ascending")]))
        found = _VersionFiles(taken_column(files.column("size"), order).to_pylist(), files, order)
        if self._feed is not None:
            found.changes = [
                ChangedRows(each.log_path, each.partition_values, each.size_bytes, INSERT, each.deletion_vector)
                for each in ScanPlan(self._selection, taken_rows(files, order)).tasks()
            ]
            found.timestamp_ms = self._log.timestamp_ms(version)
        return found

    def _commit_files(self, version: int) -> _VersionFiles:
        """The files of a commit to read, in the order of the commit's lines."""
        try:
            commit = self._log.read_commit(version)
        except NotFoundError as error:
            raise self._cleaned_up(version) from error
        self._check_commit(commit)
        if self._feed is None:
            added = self._added(commit)
            files = pa.Table.from_batches([adds_to_batch(added)])
            return _VersionFiles([add.size for add in added], files, np.arange(len(added)))
        rows = self._changed(commit)
        timestamp_ms = self._log.timestamps_ms([commit], self._file_times)[version] if rows else 0
        return _VersionFiles([each.size_bytes for each in rows], changes=rows, timestamp_ms=timestamp_ms)

    def _changed(self, commit: Commit) -> list[ChangedRows]:
        with TxlogError.located(self._log.uri, commit.version):
            return changed_rows(commit, is_partitioned=bool(self.known.partition_columns))

    def _added(self, commit: Commit) -> list[AddFile]:
        added, removes_rows = added_files(commit)
        if not removes_rows or self._rule == "added":
            return added
        if self._rule == "skip" or (self._rule == "skip_deletes" and not added):
            return []
        ways = (
            f"{setting('on_change', 'skip')} leaves such versions out; {setting('on_change', 'added')} returns the"
            " files that they added, including their unchanged rows; table.changes() returns the rows that were"
            " inserted, updated and deleted"
        )
        raise InvalidInputError(
            f"version {commit.version} ({commit.operation}) {'changed' if added else 'deleted'} rows, which following"
            f" does not show. {advice('follow changed rows' if added else 'follow deleted rows', ways)}",
            table=self._log.uri,
            version=commit.version,
        )

    # --- definitions ------------------------------------------------------------------------------------

    def _checked_state(self, version: int) -> TableState:
        """The state of a version, checked: the known columns can read its rows."""
        state = self._state(version)
        self.check_definition(state, version)
        self._has_begun = True
        return state

    def _state(self, version: int) -> TableState:
        try:
            return self.known if version == self.known.version else self._log.state_at(version)
        except NotFoundError as error:
            raise self._cleaned_up(version) from error

    def _check_commit(self, commit: Commit) -> None:
        """Check the definition that a version's rows follow: the first version's, then each new one.

        Columns that no row up to the known version has cannot be misread, so they are no reason to stop.
        """
        metadata = next((each for each in commit.actions if isinstance(each, Metadata)), None)
        protocol = next((each for each in commit.actions if isinstance(each, Protocol)), None)
        if commit.version > self.known.version:
            if metadata is not None or protocol is not None:
                self.check_definition(self.known.defined_as(metadata or self.known.metadata, protocol), commit.version)
            return
        is_first = not self._has_begun
        follows_unchecked = is_first or self._unchecked is not None
        if is_first or metadata is not None:
            self._unchecked = self._definition_of(commit) if metadata is None else self.known.defined_as(metadata)
            self._check_feed(self._unchecked, commit.version)
            self._has_begun = True
        if self._unchecked is None or not self._has_rows(commit):
            return
        self.check_definition(self._unchecked, commit.version)
        self._unchecked = None
        if follows_unchecked and metadata is not None and self._feed is not None:
            self._check_removed(commit)

    def _definition_of(self, commit: Commit) -> TableState:
        """The definition of a version that did not change it. Where the log has its commit, and no more what came
        before, as Spark's cleanup may leave it, it is the known one, unless a later commit changed it."""
        try:
            return self._state(commit.version)
        except NotFoundError:
            later = self._log.commits_between(commit.version + 1, self.known.version, files=False)
            changed = next((each.version for each in later if any(isinstance(a, Metadata) for a in each.actions)), None)
            if changed is None:
                return self.known
            way = f"Begin with version {changed}, or read the table as it is now, and follow it from the next version"
            raise NotFoundError(
                f"the rows of version {commit.version} cannot be read: version {changed} changed the table's"
                " definition, and the log no longer has the one before (delta.logRetentionDuration)."
                f" {advice('follow what is left', way)}",
                table=self._log.uri,
                version=commit.version,
            ) from None

    def _has_rows(self, commit: Commit) -> bool:
        """Whether the version has rows to read, or removed some."""
        if self._feed is not None:
            return bool(self._changed(commit))
        added, removes_rows = added_files(commit)
        return bool(added) or removes_rows

    def _check_removed(self, commit: Commit) -> None:
        """Check that the known columns can read what the first version with rows removed, which follows the definition
        before."""
        if commit.version == 0 or not any(each.change_type == DELETE for each in self._changed(commit)):
            return
        try:
            before = self._log.state_at(commit.version - 1)
        except NotFoundError:  # cleaned up: then the files tell
            return
        read = frozenset(self.known.schema.names) if self._read is None else self._read
        problem = self._misread(before, commit.version - 1, read)
        if problem is None and _partitioning(before) != _partitioning(self.known):
            problem = "the partition columns were different"
        if problem is not None:
            way = "Read only columns that stayed the same, or begin with the next version"
            raise SchemaMismatchError(
                f"the rows that version {commit.version} removed cannot be read with the columns of version"
                f" {self.known.version}: {problem}. {advice('follow an old definition', way)}",
                table=self._log.uri,
                version=commit.version,
            )

    def check_definition(self, defined: TableState, version: int) -> None:
        """Check that the known columns can read the rows of a version with this definition, and that its feed was on.

        Raises the errors of `tasks`.
        """
        known, is_newer = self.known, version > self.known.version
        with TxlogError.located(self._log.uri, version):
            if is_newer:
                check_can_read(defined.protocol, defined.metadata)
                problem = redefinition(known.schema, defined.schema, self._read)
            else:
                problem = self._misread(defined, version, self._read)
            if problem is None and _partitioning(defined) != _partitioning(known):
                problem = "the partition columns were different"
            if problem is not None:
                what_to_do = (
                    advice("follow a new definition", "Start again, with the columns of that version")
                    if is_newer
                    else advice(
                        "follow an old definition",
                        "Read only columns that stayed the same, or the table as it is now, and what follows it",
                    )
                )
                raise SchemaMismatchError(
                    f"the rows of version {version} cannot be read with the columns of version {known.version}:"
                    f" {problem}. {what_to_do}"
                )
        self._check_feed(defined, version)

    def _misread(self, defined: TableState, version: int, read: frozenset[str] | None) -> str | None:
        """What keeps the known columns from reading rows of this earlier definition; None if nothing does."""
        known = self.known.schema
        problem = incompatible_change(defined.schema, known, read)
        if problem is not None or version == self.known.version:
            return problem
        if self._removals is None:  # of all versions to come
            self._removals = self._mapping_removals(defined, version)
        for removal in reversed(self._removals):
            if removal.version > version:
                known = as_mapped_before(known, removal.unmapped, removal.mapped)
        return None if known is self.known.schema else incompatible_change(defined.schema, known, read)

    def _mapping_removals(self, defined: TableState, version: int) -> list[_MappingRemoval]:
        """The versions after ``version`` that removed the column mapping: older files may have other columns under the
        names of today. A table in which that can have been has a trace of it in its protocol."""
        writers = features_of(self.known.protocol)[1]
        can_be_mistaken = any(physical_name(field) == field.name for field in self.known.schema.fields)
        if not can_be_mistaken or not {"columnMapping", CHECKPOINT_PROTECTION}.intersection(writers):
            return []
        found = []
        try:
            for commit in self._log.commits_between(version + 1, self.known.version, files=False):
                metadata = next((each for each in commit.actions if isinstance(each, Metadata)), None)
                if metadata is None:
                    continue
                mapped, defined = defined.schema, defined.defined_as(metadata)
                if is_mapped(mapped) and not is_mapped(defined.schema):
                    found.append(_MappingRemoval(commit.version, mapped, defined.schema))
        except NotFoundError as error:
            raise self._cleaned_up(version + 1 if error.version is None else error.version) from error
        return found

    def _check_feed(self, defined: TableState, version: int) -> None:
        if self._feed is None or defined.properties.enable_change_data_feed:
            return
        turns_on = call("set_properties", {"delta.enableChangeDataFeed": "true"})
        way = f"Read from the version that turned it on; {turns_on} turns it on for later versions"
        raise InvalidInputError(
            f"the change data feed was off at version {version}, so its changes were not recorded."
            f" {advice('follow with a feed', way)}",
            table=self._log.uri,
            version=version,
        )

    def _cleaned_up(self, version: int) -> NotFoundError:
        way = "Read the table as of a version that table.history() lists, and follow it from the next version"
        return NotFoundError(
            f"the rows of version {version} are unknown: its commit was cleaned up (delta.logRetentionDuration)."
            f" {advice('follow what is left', way)}",
            table=self._log.uri,
            version=version,
        )


def bind_to_feed(uri: str, state: TableState, where: AnyCondition | None) -> Predicate | None:
    """A condition on rows of the feed, which may use its columns.

    Raises:
        UnsupportedFeatureError: The table has a column with the name of a feed column.
        InvalidInputError: The condition does not fit the table.
    """
    with TxlogError.located(uri, state.version):
        if taken := reserved_columns(state.schema):
            raise UnsupportedFeatureError(
                f"the table has a column {taken[0]}, a name that the change data feed uses", features=(taken[0],)
            )
        if where is None:
            return None
        columns = Struct((*state.schema.fields, *FEED_FIELDS))
        return bind_predicate(where, columns, zone=state.time_zone, now=ambient.now())


def _partitioning(state: TableState) -> list[tuple[str, ...]]:
    """The partition columns by physical name; a renamed column keeps it."""
    return [physical_path(state.schema, (name,)) for name in state.partition_columns]
