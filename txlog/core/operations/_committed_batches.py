"""Follows a table: the rows that its commits add, version by version and file by file.

In: an open table and a position. Out: `CommittedBatch`es up to the newest version. A caller that stores the position
after its last finished file can continue there, even in another process. PROTOCOL.md, "Add File and Remove File".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, get_args

import msgspec
import pyarrow as pa

from txlog.core import ambient
from txlog.core.operations._follower import Follower
from txlog.core.predicates import AnyCondition, bind_predicate
from txlog.core.reading import ScanTask, TaskReader, select
from txlog.core.util import invalid, one_of, whole_number
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.stream_offsets import StreamOffset, file_ranges
from txlog.errors import NotFoundError, TxlogError

OnChange = Literal["fail", "skip", "added"]


class CommittedBatch(msgspec.Struct, frozen=True):
    """Rows that one commit added.

    Attributes:
        version: The version that added them.
        file: The index, in commit order, of the added file that the rows come from.
        is_last_of_file: Whether the file has no more rows. If so, continue at (``version``, ``file`` + 1).
        rows: The rows.
    """

    version: int
    file: int
    is_last_of_file: bool
    rows: pa.RecordBatch


def follow_table(
    open_table: OpenTable,
    from_version: Any,
    from_file: Any,
    columns: Sequence[str] | None,
    where: AnyCondition | None,
    on_change: Any,
) -> Iterator[CommittedBatch]:
    """What the commits from a position to the newest version added; see `Table.follow`."""
    log, uri = open_table.log, open_table.uri
    if on_change not in get_args(OnChange):
        raise invalid("on_change", on_change, one_of(get_args(OnChange)))
    first, skipped = whole_number("from_version", from_version), whole_number("from_file", from_file)
    newest = log.newest_state()
    if first > newest.version + 1:
        raise NotFoundError(
            f"version {first} does not exist yet: the newest is {newest.version}", table=uri, version=first
        )
    with TxlogError.located(uri, newest.version):
        predicate = None
        if where is not None:
            predicate = bind_predicate(where, newest.schema, zone=newest.time_zone, now=ambient.now())
    selection = select(uri, newest, columns, predicate)
    read = frozenset(each.name for each in selection.needed())
    start = StreamOffset(newest.metadata.id, first, skipped - 1)
    return _batches(TaskReader(open_table.store, selection), Follower(log, newest, selection, read, on_change), start)


def _batches(reader: TaskReader, follower: Follower, start: StreamOffset) -> Iterator[CommittedBatch]:
    end = StreamOffset(start.table_id, follower.known.version).after_version()
    for files in file_ranges(start, end) if start.version < end.version else ():
        if files.version == end.version:
            return
        for number, task in follower.scan_tasks(files):
            held: pa.RecordBatch | None = None
            for batch in _rows_of(reader, task, files.version):
                if held is not None:
                    yield CommittedBatch(files.version, number, False, held)
                held = batch
            if held is not None:
                yield CommittedBatch(files.version, number, True, held)
        follower.forget_before(StreamOffset(start.table_id, files.version).after_version())


def _rows_of(reader: TaskReader, task: ScanTask, version: int) -> Iterator[pa.RecordBatch]:
    """The rows of one file. Errors name the version that added it: a later one may have removed it."""
    try:
        yield from reader.batches(task)
    except NotFoundError as error:
        raise NotFoundError(
            f"version {version} added {task.path}, which is missing: most likely a later version removed it and a"
            " vacuum deleted it. Read the table as it is now, and follow it from the next version",
            table=error.table,
            version=version,
            path=task.path,
        ) from error
    except TxlogError as error:
        error.version = version
        raise
