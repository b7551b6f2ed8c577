"""The files of an older version that the newest one lacks: which they are, whether they exist, and whether they will
stay.

In: a table's log, and two versions. Out: the difference by path and deletion vector, whether row ids changed, the paths
missing from the store, and the files that a vacuum may be about to delete. PROTOCOL.md, "Add File and Remove File",
"Action Reconciliation".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from txlog.core import ambient
from txlog.core.changes.tasks import IsGone, TaskStore
from txlog.core.format.actions import AddFile, DeletionVectorDescriptor
from txlog.core.format.arrow.arrays import are_among, array_of
from txlog.core.format.deletion_vector import vector_path
from txlog.core.format.file_columns import add_files_of
from txlog.core.format.paths import DataPath, canonical_path, canonical_paths, resolve_data_path, stored_path
from txlog.core.progress import OnDone
from txlog.core.store import TableStore
from txlog.core.versions.decisions.files import live_files
from txlog.core.versions.decisions.state import TableState
from txlog.core.versions.files import DeltaLog
from txlog.core.workers import ThreadWorkers

EXPIRED = "were removed longer ago than the table's delta.deletedFileRetentionDuration, less an hour"

_HOUR_MS = 3_600_000
_LOOKS_AT_ONCE = 16


class VersionDifference(msgspec.Struct, frozen=True):
    """What the older version has and the newest one lacks, and vice versa; and the totals of the older one."""

    added: Sequence[AddFile]
    removed: Sequence[AddFile]
    num_files: int
    size_bytes: int


def difference(older: pa.Table, newest: pa.Table) -> VersionDifference:
    """Compare two lists of live files, ``core.versions.decisions.files.FILES_SCHEMA``."""
    older_keys, newest_keys = _keys(older), _keys(newest)
    return VersionDifference(
        added=add_files_of(older.filter(pc.invert(are_among(older_keys, newest_keys)))),
        removed=add_files_of(newest.filter(pc.invert(are_among(newest_keys, older_keys)))),
        num_files=older.num_rows,
        size_bytes=pc.sum(older["size"]).as_py() or 0,
    )


def is_renumbered(older: pa.Table, newest: pa.Table) -> bool:
    """Whether a file of both lists had row ids in the older one, and has none or others in the newest."""
    had = older.filter(older["baseRowId"].is_valid())
    if not had.num_rows:
        return False
    stays = are_among(_keys(had), _keys(newest))
    is_same = are_among(_with_ids(had), _with_ids(newest))
    return bool(pc.any(pc.and_not(stays, is_same)).as_py())


def paths_of(uri: str, add: AddFile) -> list[str]:
    """The files that a reader of ``add`` opens, as the store of the table at ``uri`` takes them."""
    vector = None if add.deletion_vector is None else vector_path(add.deletion_vector)
    found: list[DataPath] = [resolve_data_path(add.path)] + ([] if vector is None else [vector])
    return [stored_path(uri, at) for at in found]


def gone_paths(store: TableStore, paths: Iterable[str], on_files: OnDone | None = None) -> set[str]:
    """The ``paths`` missing from the store; looked up in parallel if each lookup is a request.

    Raises StorageError.
    """
    wanted = sorted(set(paths))
    workers = ThreadWorkers(1 if store.has_cheap_calls else _LOOKS_AT_ONCE)
    gone = set()
    for count, (number, is_gone) in enumerate(workers.map(IsGone(TaskStore.at(store)), wanted), 1):
        if is_gone:
            gone.add(wanted[number])
        if on_files is not None:
            on_files(count, len(wanted))
    return gone


def expired_files(log: DeltaLog, state: TableState, added: Sequence[AddFile]) -> list[AddFile]:
    """The ``added`` files that were removed so long ago that a vacuum may be about to delete them.

    A vacuum with the table's retention that does not yet know that they are needed began at most an hour ago.
    """
    retention_ms = state.properties.deleted_file_retention_ms
    return removed_before(log, state, added, ambient.now_ms() - retention_ms + min(_HOUR_MS, retention_ms // 2))


def removed_before(log: DeltaLog, state: TableState, added: Sequence[AddFile], since_ms: int) -> list[AddFile]:
    """The ``added`` files that were removed before this moment, as far as ``state`` shows, and are not live again."""
    if not added:
        return []
    tombstones = log.files_and_tombstones(state, with_stats=False)[1]
    removed_ms = _removed_ms(tombstones, [_key_of(add) for add in added])
    # A file without a tombstone was removed before every file that has one.
    expired = [add for add in added if removed_ms.get(_key_of(add), 0) < since_ms]
    live = {canonical_path(add.path) for add in live_files(log.files(state), [add.path for add in expired])}
    return [add for add in expired if not _has_one_file(add) or canonical_path(add.path) not in live]


def _keys(files: pa.Table) -> pa.ChunkedArray:
    """One string for each file or tombstone: its normalized path and its deletion vector's id."""
    batches = files.select(["path", "deletionVector"]).to_batches()
    return pa.chunked_array([_keys_of(*batch.columns) for batch in batches], pa.string())


def _with_ids(files: pa.Table) -> pa.ChunkedArray:
    """One text for each file, of its key and its first row id; null without one."""
    ids = files["baseRowId"].cast(pa.string())
    return pc.binary_join_element_wise(_keys(files), ids, array_of(["\n\n"], pa.string())[0])


def _keys_of(texts: pa.StringArray, of_files: pa.StructArray) -> pa.StringArray:
    paths, has_vector = canonical_paths(texts), of_files.is_valid()
    if not has_vector.true_count:
        return paths
    vectors = of_files.filter(has_vector).to_pylist()
    keys = [
        f"{path}\n{DeletionVectorDescriptor.from_json(vector).unique_id}"
        for path, vector in zip(paths.filter(has_vector).to_pylist(), vectors, strict=True)
    ]
    return pc.replace_with_mask(paths, has_vector, array_of(keys, pa.string()))


def _key_of(add: AddFile) -> str:
    vector = add.deletion_vector
    return canonical_path(add.path) + ("" if vector is None else f"\n{vector.unique_id}")


def _has_one_file(add: AddFile) -> bool:
    return add.deletion_vector is None or vector_path(add.deletion_vector) is None


def _removed_ms(tombstones: pa.Table, wanted: Sequence[str]) -> dict[str, int]:
    """When each of the ``wanted`` files was removed, as far as the log still has it."""
    keys = _keys(tombstones)
    is_wanted = pc.is_in(keys, value_set=array_of(list(wanted), pa.string()))
    times = tombstones["deletionTimestamp"].filter(is_wanted).to_pylist()
    return {key: time or 0 for key, time in zip(keys.filter(is_wanted).to_pylist(), times, strict=True)}
