"""Reads and checks the deletion vectors and the footers of a table's live files: a damaged one stops every reader.

In: a table's stores. Out: what is wrong, by data file. With a vector: its file is missing; a size, checksum or count
differs; a position is not in the data file; or the data file does not count its rows. With a footer: it cannot be read,
or has another number of rows than the statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from txlog.errors import TxlogError
from txlog.log_files.delta_log import DeltaLog
from txlog.store.table_store import TableStore
from txlog.tasks.check_files import CheckFooters, CheckVectors, FileProblem
from txlog.verify.places import Places
from txlog.workers.base import shares

__all__ = ["check_footers", "check_vectors", "newest_files"]

_PARALLEL = 16
_FILES_MAX = 64  # for each task
_FILES_AT_ONCE = 4096  # for each worker

OnFiles = Callable[[int, int], None]
"""Called with the number of files done, and the total."""


def check_vectors(store: TableStore, places: Places) -> Iterator[FileProblem]:
    """Read every vector of the newest version. Yields nothing if the log cannot be read, which is reported
    elsewhere."""
    found = newest_files(store, "path", "stats", "deletionVector")
    if found is not None:
        version, files = found
        with_vectors = files.filter(pc.is_valid(files.column("deletionVector")))
        yield from _checked(CheckVectors(places.store, version), with_vectors, places, lambda done, total: None)


def check_footers(store: TableStore, places: Places, on_files: OnFiles) -> Iterator[FileProblem]:
    """Read the footer of every data file of the newest version. Yields nothing if the log cannot be read."""
    found = newest_files(store, "path", "stats")
    if found is not None:
        version, files = found
        yield from _checked(CheckFooters(places.store, version), files, places, on_files)


def newest_files(store: TableStore, *columns: str) -> tuple[int, pa.Table] | None:
    """The newest version and these columns of its live files; None if the log cannot be read."""
    try:
        log = DeltaLog(store)
        state = log.newest_state()
        return state.version, log.files(state).select([*columns])
    except TxlogError:
        return None


def _checked(
    work: CheckFooters | CheckVectors, files: pa.Table, places: Places, on_files: OnFiles
) -> Iterator[FileProblem]:
    workers = places.workers(_PARALLEL)
    for start in range(0, files.num_rows, step := _FILES_AT_ONCE * workers.slots):
        rows = files.slice(start, step).to_pylist()
        found = dict(workers.map(work, shares(rows, workers, _FILES_MAX)))
        for at in sorted(found):
            yield from found[at]
        on_files(start + len(rows), files.num_rows)
