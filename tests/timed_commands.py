"""Each command on a table in an object store, and how many round trips it waits for: the same on every store.

In: a table of `FILES` commits of `FILE_ROWS` rows each, by a handle that has committed before. Out: a call that is one
command, and its round trips where each file is one request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import pyarrow as pa

import txlog

__all__ = ["COMMANDS", "COPIES", "FILES", "FILE_ROWS", "VECTORS", "Command", "rows_of"]

FILES, FILE_ROWS = 6, 100
FEED = {"delta.enableChangeDataFeed": "true"}
COPIES = {"delta.enableDeletionVectors": "false"}
VECTORS = {"delta.enableDeletionVectors": "true"}

Work = Callable[[], object]
Opened = Callable[[], txlog.Table]


def rows_of(ids: Iterable[int]) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


ROW = rows_of([1])
KNOWN = rows_of(range(50, 150))  # of two files


class Command(NamedTuple):
    """``ready`` is given a handle, and what opens another one; it returns the work whose round trips are counted."""

    trips: int
    ready: Callable[[txlog.Table, Opened], Work]
    properties: Mapping[str, str] = {}


def _upsert_again(table: txlog.Table, opened: Opened) -> Work:
    for _ in range(2):  # keys are kept when a file is read for the second time
        table.upsert(KNOWN, keys=["id"])
        table._open_table.post_commit.drain()
    return lambda: table.upsert(KNOWN, keys=["id"])


def _merge(table: txlog.Table, opened: Opened) -> Work:
    merge = table.merge(KNOWN, on="source.id = target.id")
    return merge.when_matched_update_all().when_not_matched_insert_all().execute


def _vacuum(table: txlog.Table, opened: Opened) -> Work:
    table.optimize()
    table._open_table.post_commit.drain()
    return lambda: table.vacuum(0, force=True)


def _sink_task(table: txlog.Table, opened: Opened) -> Work:
    sink = txlog.Sink(table, "job")

    def work() -> None:
        with sink.task(1, 0) as task:
            task.write(ROW)

    return work


def _sink_commit(table: txlog.Table, opened: Opened) -> Work:
    sink = txlog.Sink(table, "job")
    with sink.task(1, 0) as task:
        task.write(ROW)
    return lambda: sink.commit(1, [task.committable])


COMMANDS: dict[str, Command] = {
    "append": Command(2, lambda table, opened: lambda: table.append(ROW)),
    "append of a checkpoint": Command(
        2, lambda table, opened: lambda: table.append(ROW, app_id="job", checkpoint_id=1)
    ),
    "append of a reader": Command(2, lambda table, opened: lambda: table.append(ROW.to_reader())),
    "overwrite": Command(3, lambda table, opened: lambda: table.overwrite(ROW)),
    "delete by copies": Command(4, lambda table, opened: lambda: table.delete("id in (3, 103, 203)"), COPIES),
    "delete by vectors": Command(4, lambda table, opened: lambda: table.delete("id in (3, 103, 203)"), VECTORS),
    "update by copies": Command(
        4, lambda table, opened: lambda: table.update({"id": txlog.expr("id + 1000")}, "id in (3, 103)"), COPIES
    ),
    "update by vectors": Command(
        4, lambda table, opened: lambda: table.update({"id": txlog.expr("id + 1000")}, "id in (3, 103)"), VECTORS
    ),
    "upsert by copies": Command(4, lambda table, opened: lambda: table.upsert(KNOWN, keys=["id"]), COPIES),
    "upsert by vectors": Command(4, lambda table, opened: lambda: table.upsert(KNOWN, keys=["id"]), VECTORS),
    "upsert of known keys by copies": Command(3, _upsert_again, COPIES),
    "upsert of known keys by vectors": Command(3, _upsert_again, VECTORS),
    "merge by copies": Command(4, _merge, COPIES),
    "merge by vectors": Command(4, _merge, VECTORS),
    "optimize": Command(7, lambda table, opened: table.optimize),
    "vacuum": Command(8, _vacuum),
    "vacuum that finds nothing": Command(5, lambda table, opened: table.vacuum),
    "restore": Command(6, lambda table, opened: lambda: table.restore(3)),
    "history": Command(3, lambda table, opened: table.history),
    "open": Command(3, lambda table, opened: opened),
    "read": Command(2, lambda table, opened: table.to_arrow),
    "open and read": Command(5, lambda table, opened: lambda: opened().to_arrow()),
    "read an old version": Command(4, lambda table, opened: lambda: table.snapshot(version=3).to_arrow()),
    "changes": Command(3, lambda table, opened: lambda: table.changes(FILES + 1).read_all(), FEED),
    "changes of an old version": Command(5, lambda table, opened: lambda: table.changes(3, 3).read_all(), FEED),
    "sink: task": Command(2, _sink_task),
    "sink: commit": Command(4, _sink_commit),
}
