"""Reads and checks the deletion vectors and the footers of a table's live files: a damaged one stops every reader.

In: a table's stores. Out: what is wrong, by data file. With a vector: its file is missing; a size, checksum or count
differs; a position is not in the data file; or the data file does not count its rows. With a footer: it cannot be read,
or has another number of rows than the statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from txlog.audit.task_places import TaskPlaces
from txlog.core.changes.tasks import CheckFooters, CheckVectors, FileProblem
from txlog.core.format.paths import canonical_path, canonical_paths
from txlog.core.progress import OnDone
from txlog.core.store import TableStore
from txlog.core.versions.files import DeltaLog
from txlog.core.workers import shares
from txlog.errors import TxlogError

_PARALLEL = 16
_FILES_MAX = 64  # for each task
_FILES_AT_ONCE = 4096  # for each worker


def check_vectors(store: TableStore, version: int, places: TaskPlaces) -> Iterator[FileProblem]:
    """Read every vector of a version. Yields nothing if the log cannot be read, which is reported elsewhere."""
    files = files_of(store, version, "path", "stats", "deletionVector")
    if files is not None:
        with_vectors = files.filter(pc.is_valid(files.column("deletionVector")))
        yield from _checked(CheckVectors(places.store, version), with_vectors, places, lambda done, total: None)


def check_footers(store: TableStore, version: int, places: TaskPlaces, on_files: OnDone) -> Iterator[FileProblem]:
    """Read the footer of every data file of a version. Yields nothing if the log cannot be read."""
    files = files_of(store, version, "path", "stats")
    if files is not None:
        yield from _checked(CheckFooters(places.store, version), files, places, on_files)


def files_of(store: TableStore, version: int | None, *columns: str) -> pa.Table | None:
    """These columns of the live files of a version, None: of the newest. Returns None if the log cannot be read."""
    try:
        log = DeltaLog(store)
        newest = log.newest_state()
        state = newest if version in (None, newest.version) else log.state_at(version or 0)
        return log.files(state).select([*columns])
    except TxlogError:
        return None


def changed_since(store: TableStore, version: int) -> Callable[[str], bool]:
    """Whether a live file of a version is no longer live, or has another vector, in the newest version: a vacuum may
    have deleted what the older one needs. If a version cannot be read, nothing has changed."""
    before, after = (files_of(store, each, "path", "deletionVector") for each in (version, None))
    if before is None or after is None:
        return lambda path: False
    kept = {*_with_vectors(after)}
    gone = {path for path, vector in _with_vectors(before) if (path, vector) not in kept}
    return lambda path: canonical_path(path) in gone


def _with_vectors(files: pa.Table) -> Iterator[tuple[str, str]]:
    vectors = files["deletionVector"].to_pylist()
    return zip(canonical_paths(files["path"]).to_pylist(), map(repr, vectors), strict=True)


def _checked(
    work: CheckFooters | CheckVectors, files: pa.Table, places: TaskPlaces, on_files: OnDone
) -> Iterator[FileProblem]:
    workers = places.workers(_PARALLEL)
    for start in range(0, files.num_rows, step := _FILES_AT_ONCE * workers.slots):
        rows = files.slice(start, step).to_pylist()
        found = dict(workers.map(work, shares(rows, workers, _FILES_MAX)))
        for at in sorted(found):
            yield from found[at]
        on_files(start + len(rows), files.num_rows)
