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
from txlog.tasks.check_files import CheckVectors, FileProblem
from txlog.verify.places import Places
from txlog.workers.base import shares

__all__ = ["check_vectors"]

_PARALLEL = 16
_VECTORS_MAX = 64  # for each task
_VECTORS_AT_ONCE = 4096  # for each worker


def check_vectors(store: TableStore, places: Places) -> Iterator[FileProblem]:
    """Read every vector of the newest version. Yields nothing if the log cannot be read, which is reported
    elsewhere."""
    try:
        log = DeltaLog(store)
        state = log.newest_state()
        files = log.files(state).select(["path", "stats", "deletionVector"])
    except TxlogError:
        return
    work, workers = CheckVectors(places.store, state.version), places.workers(_PARALLEL)
    with_vectors = files.filter(pc.is_valid(files.column("deletionVector")))
    for start in range(0, with_vectors.num_rows, step := _VECTORS_AT_ONCE * workers.slots):
        rows = with_vectors.slice(start, step).to_pylist()
        found = dict(workers.map(work, shares(rows, workers, _VECTORS_MAX)))
        for at in sorted(found):
            yield from found[at]
