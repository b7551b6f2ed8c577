"""Following a table: the rows that its commits add, version by version and file by file.

In: an open table and a position. Out: `CommittedBatch`es up to the newest version. A caller that keeps the position
after the last file it finished can continue there, also in another process. PROTOCOL.md, "Add File and Remove File".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, get_args

import msgspec
import pyarrow as pa

from txlog.commit.open_table import OpenTable
from txlog.errors import InvalidInputError, NotFoundError, TxlogError
from txlog.expressions.predicates import Predicate, bind_predicate
from txlog.log.changes import added_files, incompatible_change
from txlog.log.state import TableState
from txlog.protocol.actions import AddFile, Metadata
from txlog.protocol.commit_file import Commit
from txlog.protocol.file_columns import adds_to_batch
from txlog.read.scan_plan import ScanPlan, select
from txlog.read.scan_task import ScanTask, Selection, TaskReader
from txlog.util import ambient
from txlog.util.arguments import invalid, one_of, whole_number
from txlog.util.wording import setting

__all__ = ["CommittedBatch", "OnChange", "follow_table"]

OnChange = Literal["fail", "skip", "added"]


class CommittedBatch(msgspec.Struct, frozen=True):
    """Rows that one commit added.

    Attributes:
        version: The version that added them.
        file: The index, in the order of the commit, of the added file that the rows are from.
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
    where: str | Predicate | None,
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
        predicate = None if where is None else bind_predicate(where, newest.schema, now=ambient.now())
    selection = select(uri, newest, columns, predicate)
    return _batches(open_table, newest, selection, first, skipped, on_change)


def _batches(
    open_table: OpenTable, newest: TableState, selection: Selection, first: int, skipped: int, on_change: OnChange
) -> Iterator[CommittedBatch]:
    reader = TaskReader(open_table.store, selection)
    read = frozenset(each.name for each in selection.needed())
    for version in range(first, newest.version + 1):
        commit = _commit(open_table, version)
        if version == first or any(isinstance(action, Metadata) for action in commit.actions):
            _check_schema(open_table, newest, version, read)
        files = ScanPlan(selection, pa.Table.from_batches([adds_to_batch(_added(open_table.uri, commit, on_change))]))
        for number, task in enumerate(files.tasks()):
            if version == first and number < skipped:
                continue
            held: pa.RecordBatch | None = None
            for batch in _rows_of(reader, task, version):
                if held is not None:
                    yield CommittedBatch(version, number, False, held)
                held = batch
            if held is not None:
                yield CommittedBatch(version, number, True, held)


def _rows_of(reader: TaskReader, task: ScanTask, version: int) -> Iterator[pa.RecordBatch]:
    """The rows of one file. Errors name the version that added it: a later one may have removed it since."""
    try:
        yield from reader.batches(task)
    except NotFoundError as error:
        raise NotFoundError(
            f"version {version} added {task.path}, which is gone: most likely a later version removed it and a vacuum"
            " deleted it. Read the table as it is now, and follow it from the version after that",
            table=error.table,
            version=version,
            path=task.path,
        ) from error
    except TxlogError as error:
        error.version = version
        raise


def _commit(open_table: OpenTable, version: int) -> Commit:
    try:
        return open_table.log.read_commit(version)
    except NotFoundError as error:
        raise NotFoundError(
            f"the rows added by version {version} are unknown: its commit was cleaned up (delta.logRetentionDuration)."
            " Read the table as of a version that table.history() lists, and follow it from the version after that",
            table=open_table.uri,
            version=version,
        ) from error


def _added(uri: str, commit: Commit, on_change: OnChange) -> list[AddFile]:
    """The files whose rows a commit added, without files that only hold moved rows."""
    added, changes_rows = added_files(commit)
    if on_change == "added" or not changes_rows:
        return added
    if on_change == "skip":
        return []
    raise InvalidInputError(
        f"version {commit.version} changed or deleted rows, which following does not show."
        f" {setting('on_change', 'skip')} leaves such versions out; {setting('on_change', 'added')} returns the files"
        " that they added, including their unchanged rows; table.changes() returns the rows that were inserted,"
        " updated and deleted",
        table=uri,
        version=commit.version,
    )


def _check_schema(open_table: OpenTable, newest: TableState, version: int, read: frozenset[str]) -> None:
    state = newest if version == newest.version else open_table.log.state_at(version)
    problem = incompatible_change(state.schema, newest.schema, read)
    if problem is not None:
        raise InvalidInputError(
            f"the rows of version {version} cannot be read with the schema of version {newest.version}: {problem}. Read"
            " only columns that stayed the same, or the table as it is now",
            table=open_table.uri,
            version=version,
        )
