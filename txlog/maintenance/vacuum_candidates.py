"""The files that a vacuum looks at without listing the table, in columns: from an inventory, or from the log.

In: any Arrow stream of files, or a range of versions. Out: record batches of ``tasks.list_files.LISTED``, each with a
bounded number of rows. Hidden files and folders are left out here; another module decides what may be deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from txlog.errors import InvalidInputError
from txlog.protocol.actions import AddCDCFile, RemoveFile
from txlog.protocol.commit_file import Commit
from txlog.protocol.deletion_vector import vector_path
from txlog.protocol.paths import DataPath, path_below, resolve_data_path
from txlog.tasks.list_files import Folders, listed_batch
from txlog.util.arguments import invalid

__all__ = ["in_inventory", "removed_by"]


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
            yield listed_batch(*zip(*found, strict=True), partition_columns=folders.partition_columns)


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
            yield listed_batch(tuple(found), sizes, times, partition_columns=folders.partition_columns)


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
