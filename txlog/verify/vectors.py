"""Reads and checks the deletion vectors of a table's live files: a damaged vector stops every reader.

In: a table's stores. Out: what is wrong, by data file: the vector's file is missing; a size, checksum or count differs;
a position is not in the data file; or the data file does not count its rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow.compute as pc

from txlog.errors import TxlogError
from txlog.log_files.delta_log import DeltaLog
from txlog.store.table_store import TableStore
from txlog.tasks.check_files import CheckVector, FileProblem
from txlog.tasks.task_table import TaskStore
from txlog.workers.threads import ThreadWorkers

__all__ = ["check_vectors"]

_PARALLEL = 16


def check_vectors(store: TableStore) -> Iterator[FileProblem]:
    """Read every vector of the newest version. Yields nothing if the log cannot be read, which is reported
    elsewhere."""
    try:
        log = DeltaLog(store)
        state = log.newest_state()
        files = log.files(state).select(["path", "stats", "deletionVector"])
    except TxlogError:
        return
    work = CheckVector(TaskStore.at(store), state.version)
    for batch in files.filter(pc.is_valid(files.column("deletionVector"))).to_batches(max_chunksize=1024):
        found = dict(ThreadWorkers(_PARALLEL).map(work, batch.to_pylist()))
        yield from (problem for at in sorted(found) if (problem := found[at]) is not None)
