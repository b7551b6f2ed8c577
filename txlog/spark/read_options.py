"""The options of a Spark read: the names that txlog knows, how it reads their values, and what it refuses.

In: the options as Spark passes them (keys in lower case). Out: a `ReadOptions`, or a `StreamReadOptions` for a stream
from a table, complete and checked; no option is ever ignored. Options with Delta's names have Delta's meaning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from txlog.core.util import repr_without
from txlog.errors import InvalidInputError
from txlog.spark.option_values import (
    BadValue,
    Given,
    byte_count,
    column_list,
    flag,
    positive_count,
    text_value,
    whole_count,
    zone,
)
from txlog.spark.options import table_path

_OF_BOTH = ("path", "catalog", "columns", "where", "timeZone")
_OF_BATCHES = ("versionAsOf", "timestampAsOf")
_OF_STREAMS = (
    "startingVersion",
    "startingTimestamp",
    "maxFilesPerTrigger",
    "maxBytesPerTrigger",
    "ignoreDeletes",
    "ignoreChanges",
    "skipChangeCommits",
    "readChangeFeed",
    "failOnDataLoss",
)
KNOWN = (*_OF_BOTH, *_OF_BATCHES)
KNOWN_OF_STREAMS = (*_OF_BOTH, *_OF_STREAMS)
"""Options in their documented spelling. ``storage.<key>`` is accepted too."""

LATEST = "latest"
"""``startingVersion`` for the next version to be committed."""

_NO_PATH = (
    "read with .load(path) or .option('path', path). A name in Spark's catalog does not say where the table is:"
    " SELECT ... FROM t WITH (path='...'), or CREATE TEMPORARY VIEW v USING txlog OPTIONS (path '...')"
)


class ReadOptions(msgspec.Struct, frozen=True):
    """A read's typed options; None means: not given. ``storage_options`` may hold secrets, so the repr leaves it
    out."""

    path: str
    version: int | None = None
    timestamp: str | int | None = None
    columns: tuple[str, ...] | None = None
    where: str | None = None
    storage_options: Mapping[str, str] = msgspec.field(default_factory=dict)
    time_zone: str | None = None

    __repr__ = repr_without("storage_options")


def parse_read_options(options: Mapping[str, str]) -> ReadOptions:
    """Check and convert the options of ``spark.read``.

    Args:
        options: Option -> value; keys in any case.

    Returns:
        The typed options.

    Raises:
        InvalidInputError: An unknown name (with the nearest known one), a bad value, or no path.
    """
    given = Given(options)
    for name in _OF_STREAMS:
        if name.lower() in given.rest:
            raise InvalidInputError(
                f"option {name} is for streams: spark.readStream.format('txlog'). A batch read returns one version; for"
                " the changes of several versions, call table.changes()"
            )
    parsed = ReadOptions(
        path=_table_path(given),
        version=given.take("versionAsOf", whole_count),
        timestamp=_time(given.take("timestampAsOf", text_value)),
        columns=given.take("columns", column_list),
        where=given.take("where", text_value),
        time_zone=given.take("timeZone", zone),
        storage_options=given.take_storage(),
    )
    # Spark reads the schema of a stream, too, before it says that it wants a stream (see `has_stream_option`).
    given.refuse_rest(*KNOWN, *_OF_STREAMS, "storage.<key>")
    if parsed.version is not None and parsed.timestamp is not None:
        raise InvalidInputError("options versionAsOf and timestampAsOf both name a version: set only one")
    return parsed


class StreamReadOptions(msgspec.Struct, frozen=True):
    """A stream's typed options; sizes are in bytes. Without a start, it begins with all rows of the newest version.

    ``starting_version`` is the first version whose rows are read, or None with ``starts_at_latest``. With
    ``ignore_deletes`` the stream skips versions that only remove files. If a version changed rows, ``ignore_changes``
    reads the files that it added, and ``skip_change_commits`` skips it. ``storage_options`` may hold secrets, so the
    repr leaves it out.
    """

    path: str
    starting_version: int | None = None
    starts_at_latest: bool = False
    starting_timestamp: str | int | None = None
    max_files: int | None = None
    max_bytes: int | None = None
    ignore_deletes: bool = False
    ignore_changes: bool = False
    skip_change_commits: bool = False
    read_change_feed: bool = False
    columns: tuple[str, ...] | None = None
    where: str | None = None
    storage_options: Mapping[str, str] = msgspec.field(default_factory=dict)
    time_zone: str | None = None

    __repr__ = repr_without("storage_options")


def has_stream_option(options: Mapping[str, str]) -> bool:
    """Whether an option is for streams only. Spark asks for the schema before it says if it wants a stream."""
    return not {key.lower() for key in options}.isdisjoint(name.lower() for name in _OF_STREAMS)


def parse_stream_read_options(options: Mapping[str, str]) -> StreamReadOptions:
    """Check and convert the options of ``spark.readStream``.

    Args:
        options: Option -> value; keys in any case.

    Returns:
        The typed options.

    Raises:
        InvalidInputError: An unknown name (with the nearest known one), a bad value, no path, or options that
            contradict each other.
    """
    given = Given(options)
    for name in _OF_BATCHES:
        if name.lower() in given.rest:
            raise InvalidInputError(f"option {name} is for batch reads: for a stream, set startingVersion instead")
    start = given.take("startingVersion", _starting_version)
    given.take("failOnDataLoss", _only_true)
    parsed = StreamReadOptions(
        path=_table_path(given),
        starting_version=None if start == LATEST else start,
        starts_at_latest=start == LATEST,
        starting_timestamp=_time(given.take("startingTimestamp", text_value)),
        max_files=given.take("maxFilesPerTrigger", positive_count),
        max_bytes=given.take("maxBytesPerTrigger", byte_count),
        ignore_deletes=bool(given.take("ignoreDeletes", flag)),
        ignore_changes=bool(given.take("ignoreChanges", flag)),
        skip_change_commits=bool(given.take("skipChangeCommits", flag)),
        read_change_feed=bool(given.take("readChangeFeed", flag)),
        columns=given.take("columns", column_list),
        where=given.take("where", text_value),
        time_zone=given.take("timeZone", zone),
        storage_options=given.take_storage(),
    )
    given.refuse_rest(*KNOWN_OF_STREAMS, "storage.<key>")
    if start is not None and parsed.starting_timestamp is not None:
        raise InvalidInputError("options startingVersion and startingTimestamp both name a start: set only one")
    if parsed.read_change_feed and (parsed.ignore_deletes or parsed.ignore_changes or parsed.skip_change_commits):
        raise InvalidInputError(
            "a change feed (readChangeFeed) includes deleted and changed rows: leave out ignoreDeletes, ignoreChanges"
            " and skipChangeCommits"
        )
    return parsed


def _table_path(given: Given) -> str:
    """The table's location. Raises ``InvalidInputError`` if Spark passed none, or several in its option ``paths``."""
    if "paths" in given.rest:
        raise InvalidInputError(
            "Spark passed several paths, and a read returns one table: load each path by itself and combine the"
            " DataFrames with one.unionByName(other)"
        )
    return table_path(given.take("path", str), _NO_PATH)


def _starting_version(value: str) -> int | str:
    return LATEST if value.strip().lower() == LATEST else whole_count(value)


def _only_true(value: str) -> bool:
    if not flag(value):
        raise BadValue(
            "a stream from txlog stops at a version that was cleaned up. To skip it, start the stream with a new"
            " checkpointLocation and startingVersion"
        )
    return True


def _time(text: str | None) -> str | int | None:
    """A time as `Table.snapshot` accepts it; a number means milliseconds since the epoch."""
    return int(text) if text is not None and re.fullmatch(r"\d{1,18}", text) else text
