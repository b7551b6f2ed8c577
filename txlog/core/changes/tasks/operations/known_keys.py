"""The keys of data files that a handle has cached. Upserts and merges use them instead of reading files.

In: the keys of a source, and files of the table. Out: the rows of cached files that have one of the keys. Keys that an
upsert or merge reads from a file, or that an upsert writes, are cached for later ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from txlog.core.changes.tasks.operations.numbered_keys import NumberedKeys, numbers_in_parts
from txlog.core.changes.tasks.operations.sorted_keys import SortedKeys
from txlog.core.format.actions import AddFile, FileId
from txlog.core.format.column_mapping import physical_path
from txlog.core.format.defined_table import DefinedTable
from txlog.core.format.file_columns import file_ids
from txlog.core.format.paths import canonical_path
from txlog.core.format.schema import type_name, type_to_arrow
from txlog.core.format.statistics_read import num_records
from txlog.core.reading import CachedKeys, FileKeys, KeyCache, KeyPlaces, KeyValues
from txlog.core.writing.committable import PendingFile
from txlog.core.writing.keys import KeyColumn, KeyIndex

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["KnownKeys", "KnownPart", "cached_keys", "known_keys"]

KnownPart = tuple[KeyValues, "NDArray[np.int64]"]
"""The keys of some rows of a file, as numbers, and the rows' positions."""


def cached_keys(cache: KeyCache, keys: Sequence[KeyColumn], table: DefinedTable) -> CachedKeys:
    """The cached keys of the table's files for these columns."""
    types = [type_to_arrow(key.type) for key in keys]
    paths = tuple(physical_path(table.schema, key.path) for key in keys)
    # A table recreated at the same location, or a column with another type, has its own cache.
    identity = (table.metadata.id, paths, tuple(type_name(key.type) for key in keys))
    return cache.of(identity, types)


class KnownKeys:
    """Compares a source's keys with the cached keys of files. `is_wanted`, `part_of`, `offer` are thread-safe.

    If several source rows have one key, the last one counts, as in `KeyIndex.source_rows`.
    """

    def __init__(self, cached: CachedKeys, index: KeyIndex | NumberedKeys | SortedKeys, table: DefinedTable) -> None:
        self._cached = cached
        self._is_partitioned = bool(table.partition_columns)
        self._row_of_key = None
        self._offered: list[FileKeys] = []
        if isinstance(index, SortedKeys):
            assert index.numbers is cached.numbers
            self._wanted = index.values
            return
        if isinstance(index, KeyIndex) and index.num_keys < index.num_rows:
            self._row_of_key = index.last_row_of_keys
        rows = None if self._row_of_key is None else pa.array(self._row_of_key)
        columns = index.columns if rows is None else [column.take(rows) for column in index.columns]
        self._wanted = numbers_in_parts(cached.numbers, columns)

    def recall(self, files: pa.Table, *, are_all_live: bool) -> dict[FileId, KeyPlaces]:
        """The rows with source keys in each of the cached ``files``, with rows of the index as keys.

        With ``are_all_live``, these are all live files of the newest version, so the cache can drop all others.
        """
        ids = file_ids(files)
        found = self._cached.find(self._wanted, ids)
        if are_all_live:
            self._cached.drop_others(ids)
        if self._row_of_key is not None:
            found = {file: KeyPlaces(at.positions, self._row_of_key[at.keys]) for file, at in found.items()}
        return found

    def is_wanted(self, add: AddFile) -> bool:
        """Whether to read all keys of a file, and to `offer` them."""
        return self._cached.is_wanted(add.file_id, num_records(add.stats))

    def part_of(self, columns: Sequence[pa.Array], positions: NDArray[np.int64]) -> KnownPart:
        """The keys of some rows of a file."""
        values, rows = self._cached.numbers.of(columns)
        return values, positions if rows is None else positions[rows]

    def offer(self, add: AddFile, parts: Sequence[KnownPart]) -> None:
        """Take all keys of a file, which `keep` will cache."""
        if not parts:
            return
        second = [values.second for values, _ in parts if values.second is not None]
        values = KeyValues(
            np.concatenate([values.numbers for values, _ in parts]), np.concatenate(second) if second else None
        )
        positions = np.concatenate([positions for _, positions in parts])
        self._offered.append(FileKeys.of(add.file_id, values, positions))

    def keep(self) -> None:
        """Cache the keys that were offered."""
        offered, self._offered = self._offered, []
        self._cached.add(offered)

    def keep_staged(self, files: Sequence[FileKeys]) -> None:
        """Cache the keys of these files of an unpartitioned table. Does nothing if no file is cached yet."""
        if not self._is_partitioned and not self._cached.is_empty:
            self._cached.add([FileKeys(_spelled(each.file), each.values, each.positions) for each in files])

    def keep_written(self, files: Sequence[PendingFile], is_written: NDArray[Any]) -> None:
        """Cache the keys of a new file with source rows, if it is certain where each row is: in an unpartitioned table,
        a single file has them in the source's order. (Several files get their row groups in turns.) Does nothing if no
        file is cached yet. Each source row must have a different key.
        """
        assert self._row_of_key is None

        rows = np.flatnonzero(is_written)
        if self._is_partitioned or self._cached.is_empty or [file.num_rows for file in files] != [len(rows)]:
            return
        file = _spelled(files[0].to_add().file_id)
        self._cached.add([FileKeys.of(file, self._wanted.at(rows), np.arange(len(rows)))])


def known_keys(cache: KeyCache, index: KeyIndex | NumberedKeys, table: DefinedTable) -> KnownKeys | None:
    """A source's keys in memory; None if nothing is cached or may be cached."""
    if not cache.size_bytes_max or not index.num_rows:
        return None
    return KnownKeys(cached_keys(cache, index.keys, table), index, table)


def _spelled(file: FileId) -> FileId:
    """The file as the log will name it."""
    path, size_bytes, modified_ms = file
    return canonical_path(path), size_bytes, modified_ms
