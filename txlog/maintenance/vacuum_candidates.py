"""The files that a vacuum looks at, in columns: from a listing of the table, an inventory, or its log.

In: a `FileStore`, any Arrow stream of files, or a range of versions. Out: record batches of `CANDIDATES`, each with a
bounded number of rows. Hidden files and folders are left out here; another module decides what may be deleted.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txlog.arrow.arrays import array_of, flags_of, from_flags
from txlog.errors import InvalidInputError
from txlog.protocol.actions import AddCDCFile, RemoveFile
from txlog.protocol.commit_file import Commit
from txlog.protocol.deletion_vector import vector_path
from txlog.protocol.paths import DataPath, is_hidden, is_in_progress, path_below, resolve_data_path
from txlog.store.base import FileStore, ObjectMeta, OnLink
from txlog.util.arguments import invalid

__all__ = ["CANDIDATES", "Folders", "in_inventory", "in_listing", "removed_by", "without_hidden"]

CANDIDATES = pa.schema([("path", pa.string()), ("size_bytes", pa.int64()), ("modified_ms", pa.int64())])
"""``path`` is relative to the table's root and decoded."""

_BATCH_FILES = 65_536
_MAYBE_HIDDEN = r"(^|/)([_.]|metadata(/|$))"


class Folders:
    """Decides which folders of a table are listed, and counts them."""

    def __init__(self, partition_columns: Iterable[str]) -> None:
        self.partition_columns = tuple(partition_columns)
        self._seen: set[str] = set()

    def __call__(self, folder: str) -> bool:
        """Whether everything in ``folder`` is left out. For `FileStore.list`."""
        if is_hidden(folder, self.partition_columns):
            return True
        self._seen.add(folder)
        return False

    def __len__(self) -> int:
        """The number of folders, including the table's root."""
        return 1 + len(self._seen)


def in_listing(files: FileStore, folders: Folders, on_link: OnLink) -> Iterator[pa.RecordBatch]:
    """Every file of the table. Raises StorageError."""
    pages = files.list(skip=folders, on_link=on_link)
    waiting: list[ObjectMeta] = []
    for page in itertools.chain(pages, (None,)):
        if page is not None:
            waiting += page
        if waiting and (page is None or len(waiting) >= _BATCH_FILES):
            yield without_hidden(_batch(*zip(*waiting, strict=True)), folders.partition_columns)
            waiting = []


def in_inventory(uri: str, inventory: Any, folders: Folders) -> Iterator[pa.RecordBatch]:
    """The files of an inventory: ``path``, ``length``, ``isDir``, ``modificationTime`` (ms since the epoch), as Spark's
    VACUUM ... USING INVENTORY takes it.

    A path is a full URI or relative to the table's root, not escaped; paths outside the table are ignored.
    Raises InvalidInputError.
    """
    if not hasattr(inventory, "__arrow_c_stream__"):
        raise invalid("inventory", inventory, "an Arrow stream (a pyarrow table, a polars frame, ...)", table=uri)
    reader = pa.RecordBatchReader.from_stream(inventory)
    missing = [name for name in ("path", "length", "isDir", "modificationTime") if name not in reader.schema.names]
    if missing:
        raise InvalidInputError(
            f"the inventory lacks {', '.join(missing)}: it needs the columns path (string), length (bytes), isDir"
            " (boolean) and modificationTime (ms since the epoch)",
            table=uri,
        )
    for name in ("length", "modificationTime"):
        if not pa.types.is_integer(reader.schema.field(name).type):
            raise InvalidInputError(f"column {name} of the inventory must hold integers", table=uri)
    for batch in reader:
        found = [
            (path, row["length"] or 0, row["modificationTime"])
            for row in batch.select(["path", "length", "isDir", "modificationTime"]).to_pylist()
            if not row["isDir"] and row["modificationTime"] is not None and (path := _below(uri, row["path"]))
        ]
        for folder in {path.rpartition("/")[0] for path, _, _ in found} - {""}:
            folders(folder)
        if found:
            yield without_hidden(_batch(*zip(*found, strict=True)), folders.partition_columns)


def removed_by(commits: Iterable[Commit], uri: str, folders: Folders) -> Iterator[pa.RecordBatch]:
    """The files that commits removed, with their deletion vectors, and the commits' change data.

    ``modified_ms`` is the time of their removal; 0 if the log does not have it. Raises CorruptLogError.
    """
    for commit in commits:
        found: dict[str, tuple[int, int]] = {}
        for action in commit.actions:
            if isinstance(action, AddCDCFile):
                _note(found, uri, resolve_data_path(action.path), action.size, 0)
            elif isinstance(action, RemoveFile):
                removed_ms = action.deletion_timestamp or 0
                _note(found, uri, resolve_data_path(action.path), action.size or 0, removed_ms)
                if action.deletion_vector is not None:
                    _note(found, uri, vector_path(action.deletion_vector), 0, removed_ms)
        if found:
            sizes, times = zip(*found.values(), strict=True)
            yield without_hidden(_batch(tuple(found), sizes, times), folders.partition_columns)


def without_hidden(candidates: pa.RecordBatch, partition_columns: Sequence[str]) -> pa.RecordBatch:
    """The files that a vacuum may look at: see `protocol.paths.is_hidden`. Includes temporary files left by a crash."""
    suspects = flags_of(pc.match_substring_regex(candidates["path"], _MAYBE_HIDDEN))
    if not suspects.any():
        return candidates
    keep = np.ones(len(suspects), bool)
    for row in np.flatnonzero(suspects).tolist():
        path = candidates["path"][row].as_py()
        keep[row] = not is_hidden(path, partition_columns) or is_in_progress(path, partition_columns)
    return candidates.filter(from_flags(keep))


def _note(found: dict[str, tuple[int, int]], uri: str, at: DataPath | None, size_bytes: int, removed_ms: int) -> None:
    path = None if at is None else path_below(uri, at)
    if path is not None:
        found[path] = size_bytes, removed_ms


def _below(uri: str, text: Any) -> str | None:
    """An inventory's path relative to the table's root; None for a path outside it."""
    if not isinstance(text, str):
        return None
    scheme, separator, rest = text.partition("://")
    if separator:
        authority, slash, path = rest.partition("/")
        return path_below(uri, DataPath(slash + path, scheme.lower(), authority))
    return path_below(uri, DataPath(text.removeprefix("file:")))


def _batch(paths: Sequence[str], sizes: Sequence[int], times: Sequence[int]) -> pa.RecordBatch:
    columns = [array_of(values, field.type) for values, field in zip((paths, sizes, times), CANDIDATES, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=CANDIDATES)
