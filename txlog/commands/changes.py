"""The change data feed of a table: which rows each version inserted, updated and deleted.

In: an open table and a range of versions. Out: an Arrow stream. Before the first row is read, all versions are checked:
the feed must have been on, and the schema of the last version must fit their rows. PROTOCOL.md, "Change Data Files".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from txlog.commit.open_table import OpenTable
from txlog.errors import InvalidInputError, NotFoundError, TxlogError, UnsupportedFeatureError
from txlog.expressions.predicates import Predicate, bind_predicate
from txlog.log.changes import changed_rows, incompatible_change
from txlog.log.state import TableState, advance
from txlog.protocol.actions import Metadata
from txlog.protocol.change_data import FEED_FIELDS, reserved_columns
from txlog.protocol.column_mapping import physical_path
from txlog.protocol.commit_file import Commit
from txlog.protocol.features import check_can_read
from txlog.protocol.schema import Field, Struct, fold_name
from txlog.read.change_rows import ChangeReader, VersionChanges
from txlog.read.scan_plan import select
from txlog.util import ambient
from txlog.util.arguments import invalid, whole_number
from txlog.util.wording import argument, call

__all__ = ["read_changes"]


def read_changes(
    open_table: OpenTable,
    from_version: int,
    to_version: int | None,
    columns: Sequence[str] | None,
    where: str | Predicate | None,
) -> pa.RecordBatchReader:
    """The changes of the versions in a range, including both ends; see `Table.changes`."""
    log, uri = open_table.log, open_table.uri
    newest = log.newest_state()
    first, last = _range(uri, newest, from_version, to_version)
    end = newest if last >= newest.version else log.state_at(last)
    with TxlogError.located(uri, end.version):
        check_can_read(end.protocol, end.metadata)
        if taken := reserved_columns(end.schema):
            raise UnsupportedFeatureError(
                f"the table has a column {taken[0]}, which is a name of the change data feed", features=(taken[0],)
            )
        fields = _fields(end.schema, columns)
        everything = Struct((*end.schema.fields, *FEED_FIELDS))
        predicate = None if where is None else bind_predicate(where, everything, now=ambient.now())
    reader = ChangeReader(log.store, select(uri, end), fields, predicate)
    commits = _commits(open_table, first, last)
    read = None
    if columns is not None:
        read = frozenset(f.name for f in fields) | (predicate.columns() if predicate is not None else frozenset())
    _check_versions(open_table, commits, end, read)
    times = log.timestamps_ms(commits)
    changes = []
    for commit in commits:
        with TxlogError.located(uri, commit.version):
            rows = changed_rows(commit, is_partitioned=bool(end.partition_columns))
        changes.append(VersionChanges(commit.version, times[commit.version], tuple(rows)))
    batches = (batch for each in changes for batch in reader.batches(each))
    return pa.RecordBatchReader.from_batches(reader.schema, batches)


def _range(uri: str, newest: TableState, from_version: Any, to_version: Any) -> tuple[int, int]:
    first = whole_number("from_version", from_version, table=uri)
    last = newest.version if to_version is None else whole_number("to_version", to_version, table=uri)
    if last > newest.version or (to_version is None and first > newest.version + 1):
        raise NotFoundError(
            f"version {max(first, last)} does not exist yet: the newest is {newest.version}", table=uri, version=first
        )
    if to_version is not None and first > last:
        raise InvalidInputError(
            f"{argument('from_version')} {first} is after {argument('to_version')} {last}", table=uri
        )
    return first, last


def _fields(schema: Struct, columns: Any) -> tuple[Field, ...]:
    """The requested columns of the table, then those of the feed."""
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


def _commits(open_table: OpenTable, first: int, last: int) -> list[Commit]:
    try:
        return list(open_table.log.commits_between(first, last))
    except NotFoundError as error:
        raise NotFoundError(
            f"the changes from version {first} on cannot be read: the commit of version {error.version} was cleaned up"
            " (delta.logRetentionDuration). Start from a version that table.history() lists, after reading the table"
            " as of the version before it",
            table=open_table.uri,
            version=error.version,
        ) from error


def _check_versions(
    open_table: OpenTable, commits: Sequence[Commit], end: TableState, read: frozenset[str] | None
) -> None:
    """Refuse a range in which the feed was off, or a schema that the last one cannot read.

    A version that changes the table's definition is checked with its own definition, which its rows are written by.
    """
    if not commits:
        _check_state(open_table.uri, end, end, read)
        return
    state = _state_at(open_table, commits[0].version)
    _check_state(open_table.uri, state, end, read)
    for commit in commits[1:]:
        state = advance(state, commit)
        if any(isinstance(action, Metadata) for action in commit.actions):
            _check_state(open_table.uri, state, end, read)


def _state_at(open_table: OpenTable, version: int) -> TableState:
    newest = open_table.log.newest_state(refresh=False)
    return newest if newest.version == version else open_table.log.state_at(version)


def _check_state(uri: str, state: TableState, end: TableState, read: frozenset[str] | None) -> None:
    if not state.properties.enable_change_data_feed:
        raise InvalidInputError(
            f"the change data feed was off at version {state.version}, so its changes were not recorded. Read from the"
            f" version that turned it on; {call('set_properties', {'delta.enableChangeDataFeed': 'true'})} turns it on"
            " for later versions",
            table=uri,
            version=state.version,
        )
    with TxlogError.located(uri, state.version):
        problem = incompatible_change(state.schema, end.schema, read)
    if problem is not None or _partitions(state) != _partitions(end):
        why = problem or "the table had other partition columns"
        raise InvalidInputError(
            f"the changes of version {state.version} cannot be read with the schema of version {end.version}: {why}."
            " Read the versions before and after that in two calls, or only columns that stayed the same",
            table=uri,
            version=state.version,
        )


def _partitions(state: TableState) -> list[tuple[str, ...]]:
    """The partition columns by their physical names, which a renamed column keeps."""
    return [physical_path(state.schema, (name,)) for name in state.partition_columns]
