"""The change data feed of a table: which rows each version inserted, updated and deleted.

In: an open table and a range of versions. Out: an Arrow stream. Before the first row, it checks all versions: the feed
must have been on, and the last version's schema must fit their rows. PROTOCOL.md, "Change Data Files".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa

from txlog.core.format.change_data import FEED_FIELDS
from txlog.core.format.commit_file import Commit
from txlog.core.format.features import check_can_read
from txlog.core.format.schema import Field, Struct, fold_name
from txlog.core.operations._follower import FeedSelection, Follower, bind_to_feed
from txlog.core.parallel import begin
from txlog.core.predicates import AnyCondition
from txlog.core.reading import ChangeReader, Rows, select
from txlog.core.util import invalid, whole_number
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.state import TableState
from txlog.core.versions.files import DeltaLog, milliseconds
from txlog.core.wording import argument
from txlog.errors import InvalidInputError, NotFoundError, TxlogError


class VersionSpan(msgspec.Struct, frozen=True):
    """Which versions to read, as `Table.changes` takes them: a start by version or time, and an end, or None."""

    from_version: Any
    to_version: Any = None
    from_timestamp: Any = None
    to_timestamp: Any = None


def read_changes(
    open_table: OpenTable,
    span: VersionSpan,
    columns: Sequence[str] | None,
    where: AnyCondition | None,
) -> Rows:
    """The changes of the versions in a range, including both ends; see `Table.changes`."""
    log, uri = open_table.log, open_table.uri
    newest = log.newest_state()
    first, last = _range(log, newest, span)
    dated: Callable[[], tuple[list[Commit], dict[int, int]]] = partial(_dated_commits, log, first, last)
    if not log.versions.capabilities.has_cheap_calls:
        dated = begin(dated)  # alongside the requests for the last version's definition
    end = newest if last >= newest.version else log.state_at(last)
    with TxlogError.located(uri, end.version):
        check_can_read(end.protocol, end.metadata)
        fields = _fields(end.schema, columns)
    predicate = bind_to_feed(uri, end, where)
    read = None
    if columns is not None:
        read = frozenset(f.name for f in fields) | (predicate.columns() if predicate is not None else frozenset())
    selection = select(uri, end)
    follower = Follower(log, end, selection, read, feed=FeedSelection(fields, predicate))
    commits, times = dated()
    if not commits:
        follower.check_definition(end, end.version)
    changes = follower.changes(commits, times)
    reader = ChangeReader(log.store, selection, fields, predicate)
    batches = (batch for each in changes for batch in reader.batches(each))
    return Rows(pa.RecordBatchReader.from_batches(reader.schema, batches))


def _range(log: DeltaLog, newest: TableState, span: VersionSpan) -> tuple[int, int]:
    """The first and the last version, for which times are looked up. The last is one before the first if nothing was
    committed between two times."""
    if (span.from_version is None) == (span.from_timestamp is None):
        raise InvalidInputError(
            f"pass {argument('from_version')} or {argument('from_timestamp')}, where the changes start", table=log.uri
        )
    if span.to_version is not None and span.to_timestamp is not None:
        raise InvalidInputError(f"pass {argument('to_version')} or {argument('to_timestamp')}, not both", table=log.uri)
    from_ms = None if span.from_timestamp is None else milliseconds(span.from_timestamp, log.time_zone)
    to_ms = None if span.to_timestamp is None else milliseconds(span.to_timestamp, log.time_zone)
    if from_ms is not None and to_ms is not None and from_ms > to_ms:
        raise InvalidInputError(
            f"{argument('from_timestamp')} {span.from_timestamp} is after {argument('to_timestamp')}"
            f" {span.to_timestamp}",
            table=log.uri,
        )
    first = whole_number("from_version", span.from_version, table=log.uri) if from_ms is None else None
    last = newest.version if span.to_version is None else whole_number("to_version", span.to_version, table=log.uri)
    if from_ms is not None:
        first = log.first_version_from(from_ms, newest)
    if to_ms is not None:
        last = log.version_at(to_ms)
    assert first is not None
    has_end = span.to_version is not None or to_ms is not None
    if last > newest.version or (not has_end and first > newest.version + 1):
        raise NotFoundError(
            f"version {max(first, last)} does not exist yet: the newest is {newest.version}",
            table=log.uri,
            version=max(first, last),
        )
    if has_end and first > last and not (to_ms is not None and first == last + 1):
        raise InvalidInputError(
            f"{argument('from_version')} {first} is after {argument('to_version')} {last}", table=log.uri
        )
    return first, last


def _fields(schema: Struct, columns: Any) -> tuple[Field, ...]:
    """The requested table columns, then the feed's columns."""
    if columns is None:
        return (*schema.fields, *FEED_FIELDS)
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        raise invalid("columns", columns, "a list of names")
    of_feed = {fold_name(field.name) for field in FEED_FIELDS}
    found: dict[str, Field] = {}
    for name in columns:
        if isinstance(name, str) and fold_name(name) in of_feed:
            continue
        field = schema.find(name) if isinstance(name, str) else None
        if field is None:
            raise InvalidInputError(f"there is no column {name!r}; the table has {', '.join(schema.names)}")
        found[field.name] = field
    return (*found.values(), *FEED_FIELDS)


def _dated_commits(log: DeltaLog, first: int, last: int) -> tuple[list[Commit], dict[int, int]]:
    """The commits of the range, and their times."""
    try:
        commits = list(log.commits_between(first, last))
    except NotFoundError as error:
        raise NotFoundError(
            f"the changes from version {first} on cannot be read: the commit of version {error.version} was cleaned up"
            " (delta.logRetentionDuration). Start from a version that table.history() lists, after reading the table"
            " as of the version before it",
            table=log.uri,
            version=error.version,
        ) from error
    return commits, log.timestamps_ms(commits)
