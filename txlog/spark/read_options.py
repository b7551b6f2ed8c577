"""The options of a Spark read: every name txlog knows, its value, and what is refused by name.

In: the options as Spark passes them (keys in lower case). Out: a `ReadOptions`, or a `StreamReadOptions` for a stream
from a table, complete and checked; nothing is ever ignored. Names that Delta has keep Delta's meaning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from txlog.errors import InvalidInputError
from txlog.spark.options import (
    BadValue,
    Given,
    byte_count,
    column_list,
    flag,
    positive_count,
    table_path,
    text_value,
    whole_count,
)

__all__ = ["ReadOptions", "StreamReadOptions", "are_of_stream", "parse_read_options", "parse_stream_read_options"]

_OF_BOTH = ("path", "columns", "where")
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
    "read with .load(path) or .option('path', path); in SQL, CREATE TEMPORARY VIEW v USING txlog OPTIONS (path '...')"
)


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """A read's options, typed; None means: not given. ``storage_options`` may hold secrets: it is not in the repr."""

    path: str
    version: int | None = None
    timestamp: str | int | None = None
    columns: tuple[str, ...] | None = None
    where: str | None = None
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)


def parse_read_options(options: Mapping[str, str]) -> ReadOptions:
    """Check and convert the options of ``spark.read``; keys in any case.

    Raises:
        InvalidInputError: An unknown name (with the nearest known one), a bad value, or no path.
    """
    given = Given({key.lower(): value for key, value in options.items()})
    for name in _OF_STREAMS:
        if name.lower() in given.rest:
            raise InvalidInputError(
                f"option {name} is of streams, spark.readStream.format('txlog'). A batch reads one version; the changes"
                " of several are in table.changes()"
            )
    parsed = ReadOptions(
        path=table_path(given.take("path", str), _NO_PATH),
        version=given.take("versionAsOf", whole_count),
        timestamp=_time(given.take("timestampAsOf", text_value)),
        columns=given.take("columns", column_list),
        where=given.take("where", text_value),
        storage_options=given.take_prefix("storage."),
    )
    given.refuse_rest(*KNOWN, "storage.<key>")
    if parsed.version is not None and parsed.timestamp is not None:
        raise InvalidInputError("options versionAsOf and timestampAsOf both name a version: set only one")
    return parsed


@dataclass(frozen=True, slots=True)
class StreamReadOptions:
    """A stream's options, typed; sizes in bytes. Without a start it begins with all rows of the newest version.

    ``starting_version`` is the first version whose rows are read, or None with ``starts_at_latest``.
    ``ignore_deletes`` passes over versions that only remove files; ``ignore_changes`` gives the files that a changing
    version added; ``skip_change_commits`` leaves such versions out. ``storage_options`` may hold secrets: they are not
    in the repr.
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
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)


def are_of_stream(options: Mapping[str, str]) -> bool:
    """Whether they name what only a stream has. Spark asks for the columns before it says which one it wants."""
    return not {key.lower() for key in options}.isdisjoint(name.lower() for name in _OF_STREAMS)


def parse_stream_read_options(options: Mapping[str, str]) -> StreamReadOptions:
    """Check and convert the options of ``spark.readStream``; keys in any case. Raises as `parse_read_options`."""
    given = Given({key.lower(): value for key, value in options.items()})
    for name in _OF_BATCHES:
        if name.lower() in given.rest:
            raise InvalidInputError(f"option {name} is of batch reads: begin a stream at startingVersion instead")
    start = given.take("startingVersion", _starting_version)
    given.take("failOnDataLoss", _only_true)
    parsed = StreamReadOptions(
        path=table_path(given.take("path", str), _NO_PATH),
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
        storage_options=given.take_prefix("storage."),
    )
    given.refuse_rest(*KNOWN_OF_STREAMS, "storage.<key>")
    if start is not None and parsed.starting_timestamp is not None:
        raise InvalidInputError("options startingVersion and startingTimestamp both name a start: set only one")
    if parsed.read_change_feed and (parsed.ignore_deletes or parsed.ignore_changes or parsed.skip_change_commits):
        raise InvalidInputError(
            "a change feed (readChangeFeed) tells deleted and changed rows: leave out ignoreDeletes, ignoreChanges and"
            " skipChangeCommits"
        )
    return parsed


def _starting_version(value: str) -> int | str:
    return LATEST if value.strip().lower() == LATEST else whole_count(value)


def _only_true(value: str) -> bool:
    if not flag(value):
        raise BadValue(
            "a stream from txlog stops at a version that was cleaned up. To pass over it, start the stream with a new"
            " checkpointLocation and startingVersion"
        )
    return True


def _time(text: str | None) -> str | int | None:
    """A time as `Table.snapshot` takes it; a number is in ms since the epoch."""
    return int(text) if text is not None and re.fullmatch(r"\d{1,18}", text) else text
