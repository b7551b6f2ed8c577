"""The log of a table that a stream reads: which files it reads in each version, as tasks.

In: the stream's options, the columns that Spark wants, offsets. Out: file sizes, in the order in which offsets count
files, and tasks. A `StreamLog` lives on the driver as long as the query. It reads rows with the table's schema at the
query's start. If that schema would misread a version's rows, or the options do not allow a version, the query fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from txlog.errors import InvalidInputError, NotFoundError, SchemaMismatchError, TxlogError, UnsupportedFeatureError
from txlog.expressions.predicates import Predicate, bind_predicate
from txlog.log.changes import added_files, changed_rows, incompatible_change, redefinition
from txlog.log.state import TableState
from txlog.log.stream_offsets import FileRange, StreamOffset, VersionSizes
from txlog.log_files.times import milliseconds
from txlog.protocol.actions import AddFile, Metadata, Protocol
from txlog.protocol.change_data import FEED_FIELDS, INSERT, reserved_columns
from txlog.protocol.changed_rows import ChangedRows
from txlog.protocol.column_mapping import physical_name
from txlog.protocol.commit_file import Commit
from txlog.protocol.features import check_can_read
from txlog.protocol.file_columns import adds_to_batch
from txlog.protocol.schema import Field, Struct, fold_name
from txlog.read.change_rows import VersionChanges
from txlog.read.scan_plan import ScanPlan
from txlog.read.scan_task import ScanTask, Selection
from txlog.skipping.many_files import prune_files
from txlog.spark.read_options import StreamReadOptions
from txlog.spark.table_version import TableVersion, open_version
from txlog.util import ambient
from txlog.util.parallel import parallel_map

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["ChangeTask", "StreamLog"]

_NEW_CHECKPOINT = "start the stream with a new checkpointLocation"
_SKIPS_DELETES = "ignoreDeletes=true skips versions that only delete whole files"
_REPEATS_ROWS = "ignoreChanges=true reads the files that they added, which repeats unchanged rows"


class ChangeTask(msgspec.Struct, frozen=True):
    """Changes of one version to read from one file: plain data, without credentials.

    ``table`` selects all columns of the table; ``fields`` are the columns to return, in this order, including the
    feed's columns.
    """

    table: Selection
    fields: tuple[Field, ...]
    predicate: Predicate | None
    changes: VersionChanges
    size_bytes: int


class _VersionFiles(msgspec.Struct):
    """The files of one version that a stream reads: as a table of ``add`` actions, or as a feed's changes.

    ``sizes`` are in bytes.
    """

    sizes: list[int]
    files: pa.Table | None = None
    changes: Sequence[ChangedRows] = ()
    timestamp_ms: int = 0


class StreamLog:
    """The log behind one running query.

    Args:
        options: The stream's options.
        schema: The columns that Spark wants, in this order.
        reads_all: Whether the stream reads all columns of the table, so that an added column is a change.

    Raises:
        SchemaMismatchError: The table's columns differ from ``schema``.
        InvalidInputError: The condition does not fit the table.
        TableNotFoundError, UnsupportedFeatureError, CorruptLogError, StorageError: What `open_version` raises.
    """

    def __init__(self, options: StreamReadOptions, schema: StructType, *, reads_all: bool) -> None:
        self._options = options
        table = open_version(options.path, options.storage_options)
        self._log, self._known = table.log, table.state
        self._check_requested(table, schema, reads_all=reads_all)
        known = self._known.schema
        if options.read_change_feed:
            self._predicate = self._bound_to_feed(known)
            self._selection = table.select()
            everything = {fold_name(each.name): each for each in (*known.fields, *FEED_FIELDS)}
            self._fields = tuple(everything[fold_name(each)] for each in schema.names)
        else:
            self._selection = table.select(schema.names, options.where)
            self._predicate, self._fields = self._selection.predicate, self._selection.fields
        read = {each.name for each in self._fields}
        read |= self._predicate.columns() if self._predicate is not None else frozenset()
        self._read = None if reads_all or read.issuperset(known.names) else frozenset(read)
        self._versions: dict[tuple[int, bool], _VersionFiles] = {}
        self._is_checked = False

    @property
    def table_id(self) -> str:
        return self._known.metadata.id

    def newest_version(self, *, refresh: bool = True) -> int:
        """The newest version, or without ``refresh`` the newest known one. Raises what ``DeltaLog.newest_state``
        raises."""
        return self._log.newest_state(refresh=refresh).version

    def start(self, newest: int) -> StreamOffset:
        """The offset at which a new stream begins, according to its options.

        Args:
            newest: The newest version of the table.

        Raises:
            NotFoundError: The version to start at does not exist yet.
            InvalidInputError: The time to start at is in the future.
        """
        options = self._options
        if options.starts_at_latest:
            return StreamOffset(self.table_id, newest + 1)
        if options.starting_timestamp is not None:
            return StreamOffset(self.table_id, self._first_version_from(options.starting_timestamp, newest))
        if options.starting_version is None:
            return StreamOffset(self.table_id, newest, is_initial=True)
        if options.starting_version > newest + 1:
            raise NotFoundError(
                f"startingVersion {options.starting_version} does not exist yet: the newest is {newest}",
                table=self._log.uri,
                version=options.starting_version,
            )
        return StreamOffset(self.table_id, options.starting_version)

    def versions_from(self, start: StreamOffset, last: int) -> Iterator[VersionSizes]:
        """The file sizes of each version from ``start`` to ``last``. Raises what `tasks` raises."""
        if start.is_initial:
            yield VersionSizes(start.version, True, self._files_of(start.version, is_initial=True).sizes)
        for version in range(start.version + int(start.is_initial), last + 1):
            yield VersionSizes(version, False, self._files_of(version, is_initial=False).sizes)

    def tasks(self, files: FileRange) -> list[ScanTask] | list[ChangeTask]:
        """The tasks that read some files of one version.

        Raises:
            SchemaMismatchError: The version's rows cannot be read with the stream's columns.
            InvalidInputError: The version changed or deleted rows, which the options do not allow, or its feed was off.
            NotFoundError: The version was cleaned up.
            UnsupportedFeatureError: The version needs a reader feature that this release lacks, or has a file outside
                the table's folder.
            CorruptLogError, StorageError: The log is damaged, or the store failed.
        """
        found = self._files_of(files.version, is_initial=files.is_initial)
        stop = len(found.sizes) if files.stop is None else min(files.stop, len(found.sizes))
        if not self._options.read_change_feed:
            assert found.files is not None
            return self._scan_tasks(found.files.slice(files.first, max(stop - files.first, 0)))
        if not files.is_initial and found.changes and (files.first, stop) != (0, len(found.changes)):
            raise InvalidInputError(
                f"the stream's checkpoint stopped in the middle of the changes of version {files.version}, but txlog"
                f" reads the changes of whole versions: continue with the source that wrote it, or {_NEW_CHECKPOINT}",
                table=self._log.uri,
                version=files.version,
            )
        return [
            ChangeTask(
                self._selection,
                self._fields,
                self._predicate,
                VersionChanges(files.version, found.timestamp_ms, (rows,)),
                rows.size_bytes,
            )
            for rows in found.changes[files.first : stop]
        ]

    def forget_before(self, offset: StreamOffset) -> None:
        """Forget the files of versions before ``offset``, which were read."""
        order = offset.version, not offset.is_initial
        self._versions = {key: found for key, found in self._versions.items() if (key[0], not key[1]) >= order}

    # --- files ------------------------------------------------------------------------------------------

    def _scan_tasks(self, files: pa.Table) -> list[ScanTask]:
        if self._predicate is not None and files.num_rows:
            judged_by = (self._predicate, self._known.schema, self._known.partition_columns)
            files = files.filter(prune_files(files, *judged_by, parallel_map))
        return list(ScanPlan(self._selection, files).tasks())

    def _files_of(self, version: int, *, is_initial: bool) -> _VersionFiles:
        found = self._versions.get((version, is_initial))
        if found is None:
            found = self._snapshot_files(version) if is_initial else self._commit_files(version)
            self._versions[version, is_initial] = found
        return found

    def _snapshot_files(self, version: int) -> _VersionFiles:
        """All live files of a version, in the order in which Delta's source counts them."""
        state = self._state_at(version)
        files = self._log.files(state).sort_by([("modificationTime", "ascending"), ("path", "ascending")])
        found = _VersionFiles(files.column("size").to_pylist(), files)
        if self._options.read_change_feed:
            found.changes = [
                ChangedRows(each.log_path, each.partition_values, each.size_bytes, INSERT, each.deletion_vector)
                for each in ScanPlan(self._selection, files).tasks()
            ]
            found.timestamp_ms = self._log.timestamp_ms(version)
        return found

    def _commit_files(self, version: int) -> _VersionFiles:
        """The files of a commit that the stream reads, in the order of the commit's lines."""
        try:
            commit = self._log.read_commit(version)
        except NotFoundError as error:
            raise self._cleaned_up(version) from error
        if not self._is_checked and version <= self._known.version:
            self._state_at(version)
        self._check_definition_in(commit)
        if not self._options.read_change_feed:
            added = self._added(commit)
            files = pa.Table.from_batches([adds_to_batch(added)])
            return _VersionFiles([add.size for add in added], files)
        with TxlogError.located(self._log.uri, version):
            rows = changed_rows(commit, is_partitioned=bool(self._known.partition_columns))
        timestamp_ms = self._log.timestamps_ms([commit])[version] if rows else 0
        return _VersionFiles([each.size_bytes for each in rows], None, rows, timestamp_ms)

    def _added(self, commit: Commit) -> list[AddFile]:
        added, changes_rows = added_files(commit)
        options = self._options
        if not changes_rows or (options.ignore_changes and not options.skip_change_commits):
            return added
        if options.skip_change_commits or (options.ignore_deletes and not added):
            return []
        what, option = ("changed rows", _REPEATS_ROWS) if added else ("deleted rows", _SKIPS_DELETES)
        raise InvalidInputError(
            f"version {commit.version} ({commit.operation}) {what}, which a stream of rows cannot show."
            f" skipChangeCommits=true skips such versions; {option}; readChangeFeed=true reads the change of each row,"
            " if the table has a change feed",
            table=self._log.uri,
            version=commit.version,
        )

    # --- definitions ------------------------------------------------------------------------------------

    def _check_requested(self, table: TableVersion, schema: StructType, *, reads_all: bool) -> None:
        """Check that the table still has the columns that ``load()`` found, maybe long ago."""
        feed = {fold_name(field.name) for field in FEED_FIELDS} if self._options.read_change_feed else set()
        requested = [each for each in schema.names if fold_name(each) not in feed]
        known = self._known.schema
        problem = table.differing_type(schema)
        if any(known.find(each) is None for each in requested) or (reads_all and len(requested) < len(known.fields)):
            problem = f"the table's columns are now {', '.join(known.names)}, not {', '.join(requested)}"
        if problem is not None:
            raise SchemaMismatchError(
                f"{problem}: call load() again, and cast columns after the read",
                table=self._log.uri,
                version=self._known.version,
            )

    def _state_at(self, version: int) -> TableState:
        """The state of a version, after a check that the stream's columns can read its rows."""
        try:
            state = self._log.state_at(version)
        except NotFoundError as error:
            raise self._cleaned_up(version) from error
        self._check_definition(state, version)
        self._is_checked = True
        return state

    def _check_definition_in(self, commit: Commit) -> None:
        metadata = next((each for each in commit.actions if isinstance(each, Metadata)), None)
        protocol = next((each for each in commit.actions if isinstance(each, Protocol)), None)
        if metadata is not None or (protocol is not None and commit.version > self._known.version):
            self._check_definition(self._known.defined_as(metadata or self._known.metadata, protocol), commit.version)

    def _check_definition(self, defined: TableState, version: int) -> None:
        known, is_newer = self._known, version > self._known.version
        with TxlogError.located(self._log.uri, version):
            if is_newer:
                check_can_read(defined.protocol, defined.metadata)
                problem = redefinition(known.schema, defined.schema, self._read)
            else:
                problem = incompatible_change(defined.schema, known.schema, self._read)
            if problem is None and _partitioning(defined) != _partitioning(known):
                problem = "the partition columns were different"
            if problem is not None:
                advice = (
                    "Restart the query, so that it reads with the columns of that version"
                    if is_newer
                    else f"Set the option columns to the columns that stayed the same, or {_NEW_CHECKPOINT}"
                )
                raise SchemaMismatchError(
                    "the rows of this version cannot be read with the stream's columns, which come from version"
                    f" {known.version}: {problem}. {advice}"
                )
            if self._options.read_change_feed and not defined.properties.enable_change_data_feed:
                raise InvalidInputError(
                    "the change data feed was off at this version, so its changes were not recorded: set"
                    f" delta.enableChangeDataFeed=true on the table, and {_NEW_CHECKPOINT} and a startingVersion after"
                    " that"
                )

    def _cleaned_up(self, version: int) -> NotFoundError:
        return NotFoundError(
            f"version {version}, which the stream reads next, was cleaned up (the query was stopped for longer than"
            f" delta.logRetentionDuration), so rows may be missing: {_NEW_CHECKPOINT}",
            table=self._log.uri,
            version=version,
        )

    def _first_version_from(self, timestamp: str | int, newest: int) -> int:
        moment_ms = milliseconds(timestamp)
        if moment_ms > ambient.now_ms():
            raise InvalidInputError(
                f"startingTimestamp {timestamp} is in the future; startingVersion=latest begins with the next version",
                table=self._log.uri,
            )
        return min(self._log.first_version_from(moment_ms, self._log.newest_state(refresh=False)), newest + 1)

    def _bound_to_feed(self, schema: Struct) -> Predicate | None:
        with TxlogError.located(self._log.uri, self._known.version):
            if taken := reserved_columns(schema):
                raise UnsupportedFeatureError(
                    f"the table has a column {taken[0]}, which is a name of the change data feed", features=(taken[0],)
                )
            if self._options.where is None:
                return None
            everything = Struct((*schema.fields, *FEED_FIELDS))
            return bind_predicate(self._options.where, everything, now=ambient.now())


def _partitioning(state: TableState) -> list[str]:
    """The physical names of the partition columns, which stay the same when a column is renamed."""
    found = [state.schema.find(name) for name in state.partition_columns]
    return [physical_name(each) for each in found if each is not None]
