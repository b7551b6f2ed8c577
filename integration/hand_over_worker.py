"""A process that appends to a table whose commits are slow, with the queue and the hand-over of its machine.

In: the folder of a table, the name of its queue, how long a put takes, this writer's number and how many appends. Out:
a line for each append that was acknowledged: its number, version and txn_id. The table is on a disk, so that no server
is needed; the queue is that of tables on object stores.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

import txlog
from txlog.core.store._commit_queue import MachineCommitQueue
from txlog.core.versions import OpenTable
from txlog.table import Table

__all__ = ["open_slow"]


class _Slow:
    """A store whose puts take as long as on an object store."""

    def __init__(self, inner: Any, put_s: float) -> None:
        self._inner, self._put_s = inner, put_s

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def put_if_absent(self, name: str, body: bytes) -> Any:
        time.sleep(self._put_s / 2)
        outcome = self._inner.put_if_absent(name, body)
        time.sleep(self._put_s / 2)
        return outcome


def open_slow(path: str, queue: str, put_s: float) -> Table:
    """A handle on the table at ``path``."""
    store = txlog.Table.open(path)._open_table.store
    slow: Any = _Slow(store.log, put_s)
    return Table(OpenTable(replace(store, log=slow, commit_queue=MachineCommitQueue(queue))))


def _work(path: str, queue: str, put_s: float, writer: int, appends: int) -> None:
    table = open_slow(path, queue, put_s)
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(appends):
        result = table.append(pa.table({"id": pa.array([1_000_000 * writer + number], pa.int64())}))
        print(number, result.version, result.txn_id, flush=True)


if __name__ == "__main__":
    _work(sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
