"""Where a stream from a table begins: its options, bound to the table as it is when the query begins.

In: the stream's options, and the columns that Spark wants. Out: a `StreamLog`, which lives on the driver as long as the
query. What follows a position is decided by ``core.operations._follower``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from txlog.core import ambient
from txlog.core.format.change_data import FEED_FIELDS
from txlog.core.format.schema import Struct, fold_name
from txlog.core.operations import FeedSelection, Follower, RowRule, bind_to_feed
from txlog.core.versions.decisions.stream_offsets import StreamOffset
from txlog.core.versions.files import milliseconds
from txlog.errors import InvalidInputError, NotFoundError, SchemaMismatchError
from txlog.spark.assumed_zone import assumed_zone, zone_of_read
from txlog.spark.read_options import StreamReadOptions
from txlog.spark.table_version import TableVersion, open_version

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class StreamLog:
    """The table behind one running query, and its ``follower``.

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
        table = open_version(options.path, zone_of_read(options), options.storage_options)
        self._log, self._known = table.log, table.state
        self._check_requested(table, schema, reads_all=reads_all)
        self.follower = self._follower(table, schema, reads_all=reads_all)
        columns = Struct((*self._known.schema.fields, *(FEED_FIELDS if options.read_change_feed else ())))
        self.assumed = assumed_zone(options, options.starting_timestamp, columns)
        """What the tasks have to check."""

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

    def _follower(self, table: TableVersion, schema: StructType, *, reads_all: bool) -> Follower:
        options, known = self._options, self._known.schema
        feed = None
        if options.read_change_feed:
            predicate = bind_to_feed(self._log.uri, self._known, options.where)
            selection = table.select()
            everything = {fold_name(each.name): each for each in (*known.fields, *FEED_FIELDS)}
            fields = tuple(everything[fold_name(each)] for each in schema.names)
            feed = FeedSelection(fields, predicate)
        else:
            selection = table.select(schema.names, options.where)
            predicate, fields = selection.predicate, selection.fields
        read = {each.name for each in fields} | (predicate.columns() if predicate is not None else frozenset())
        is_whole = reads_all or read.issuperset(known.names)
        return Follower(self._log, self._known, selection, None if is_whole else frozenset(read), _rule(options), feed)

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

    def _first_version_from(self, timestamp: str | int, newest: int) -> int:
        moment_ms = milliseconds(timestamp, self._log.time_zone)
        if moment_ms > ambient.now_ms():
            raise InvalidInputError(
                f"startingTimestamp {timestamp} is in the future; startingVersion=latest begins with the next version",
                table=self._log.uri,
            )
        return min(self._log.first_version_from(moment_ms, self._log.newest_state(refresh=False)), newest + 1)


def _rule(options: StreamReadOptions) -> RowRule:
    """What the options do with versions that removed rows; of several, the one that leaves out the most."""
    if options.skip_change_commits:
        return "skip"
    if options.ignore_changes:
        return "added"
    return "skip_deletes" if options.ignore_deletes else "fail"
