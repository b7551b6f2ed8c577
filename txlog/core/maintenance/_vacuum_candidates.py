"""The files that a vacuum looks at without listing the table, in columns: from an inventory, or from the log.

In: any Arrow stream of files, or a range of versions. Out: record batches of ``core.changes.tasks._list_files.LISTED``,
each with a bounded number of rows. Hidden files and folders are left out here; another module decides what may be
deleted.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import txlog.core.format.arrow.python_values  # noqa: F401  has pyarrow import pandas
from txlog.core.changes.tasks import LISTED, Folders, listed_batch, without_hidden, without_markers
from txlog.core.format.actions import AddCDCFile, RemoveFile
from txlog.core.format.arrow.arrays import array_of, flags_of, from_flags, small_offsets
from txlog.core.format.arrow.text import cut_by_text
from txlog.core.format.commit_file import Commit
from txlog.core.format.deletion_vector import vector_path
from txlog.core.format.paths import DataPath, path_below, resolve_data_path
from txlog.core.util import invalid
from txlog.errors import InvalidInputError

_NOT_RELATIVE = "://|^/|^file:"


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
    if not _holds_text(reader.schema.field("path").type):
        raise InvalidInputError("column path of the inventory must hold text", table=uri)
    for batch in itertools.chain.from_iterable(map(cut_by_text, reader)):
        found = _files_below(uri, batch)
        for folder in _folders_of(found["path"]):
            folders(folder)
        if found.num_rows:
            yield without_hidden(without_markers(found), folders)


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
            yield listed_batch(tuple(found), sizes, times, folders=folders)


def _note(found: dict[str, tuple[int, int]], uri: str, at: DataPath | None, size_bytes: int, removed_ms: int) -> None:
    path = None if at is None else path_below(uri, at)
    if path is not None:
        found[path] = size_bytes, removed_ms


def _holds_text(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return any(is_it(kind) for is_it in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view))


def _files_below(uri: str, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The files of an inventory's batch in the columns of a listing."""
    is_folder = pc.fill_null(batch["isDir"].cast(pa.bool_()), array_of([False], pa.bool_())[0])
    batch = batch.filter(pc.and_(pc.invert(is_folder), batch["modificationTime"].is_valid()))
    sizes = pc.fill_null(batch["length"].cast(pa.int64()), array_of([0], pa.int64())[0])
    columns = [_paths_below(uri, _plain(batch["path"])), sizes, batch["modificationTime"].cast(pa.int64())]
    found = pa.RecordBatch.from_arrays(columns, schema=LISTED)
    return found.filter(pc.greater(pc.binary_length(found["path"]), array_of([0], pa.int32())[0]))


def _plain(texts: pa.Array) -> pa.StringArray:
    """In small arrays: one batch may be a whole inventory, with more text than a string column holds."""
    return (small_offsets(texts) if pa.types.is_large_string(texts.type) else texts).cast(pa.string())


def _paths_below(uri: str, texts: pa.StringArray) -> pa.StringArray:
    """An inventory's paths relative to the table's root; null for those outside it.

    Nearly all are relative, or begin as the table's URI does, and then need no Python.
    """
    root = f"{uri.rstrip('/')}/"
    is_below = pc.starts_with(texts, root)
    found = pc.if_else(is_below, pc.utf8_slice_codeunits(texts, len(root)), texts)
    others = flags_of(pc.fill_null(pc.and_not(pc.match_substring_regex(texts, _NOT_RELATIVE), is_below), False))
    if others.any():
        mask = from_flags(others)
        resolved = [_below(uri, text) for text in texts.filter(mask).to_pylist()]
        found = pc.replace_with_mask(found, mask, array_of(resolved, pa.string()))
    return found


def _folders_of(paths: pa.StringArray) -> list[str]:
    nested = paths.filter(pc.match_substring(paths, "/"))
    found: list[str] = pc.replace_substring_regex(nested, "/[^/]*$", "").unique().to_pylist()
    return [folder for folder in found if folder]


def _below(uri: str, text: str) -> str | None:
    scheme, separator, rest = text.partition("://")
    if separator:
        authority, slash, path = rest.partition("/")
        return path_below(uri, DataPath(slash + path, scheme.lower(), authority))
    return path_below(uri, DataPath(text.removeprefix("file:")))
