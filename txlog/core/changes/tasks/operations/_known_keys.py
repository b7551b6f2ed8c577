"""The keys of data files that a handle has cached. Upserts and merges use them instead of reading files.

In: the keys of a source, and files of the table. Out: the rows of cached files that have one of the keys. Keys that an
upsert or merge reads from a file, or that an upsert writes, are cached for later ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from txlog.core.changes.tasks.operations._numbered_keys import NumberedKeys, numbers_in_parts
from txlog.core.changes.tasks.operations._sorted_keys import SortedKeys
from txlog.core.format.actions import AddFile, FileId
from txlog.core.format.column_mapping import physical_path
from txlog.core.format.defined_table import DefinedTable
from txlog.core.format.paths import canonical_path
from txlog.core.format.schema import fold_name, type_name, type_to_arrow
from txlog.core.format.statistics_read import num_records
from txlog.core.reading import CachedKeys, FileKeys, KeyCache, KeyNumbers, KeyPlaces, KeyValues
from txlog.core.row_rules import KeyColumn, KeyIndex
from txlog.core.writing.committable import PendingFile

if TYPE_CHECKING:
    from numpy.typing import NDArray


def cached_keys(cache: KeyCache, keys: Sequence[KeyColumn], table: DefinedTable) -> CachedKeys:
    """The cached keys of the table's files for these columns."""
    types = [type_to_arrow(key.type) for key in keys]
    paths = tuple(physical_path(table.schema, key.path) for key in keys)
    columns = tuple(zip(paths, (type_name(key.type) for key in keys), strict=True))
    return cache.of(table.metadata.id, columns, types, are_kept=are_kept(keys, table))


def are_kept(keys: Sequence[KeyColumn], table: DefinedTable) -> bool:
    """Whether the table's properties ask to keep the keys of its data files for these columns."""
    named = table.properties.key_index
    return bool(named) and {_folded(path) for path in named} == {_folded(key.path) for key in keys}


class KnownKeys:
    """Compares a source's keys with the cached keys of files. `keys_of` and `offer` are thread-safe.

    If several source rows have one key, the last one counts, as in `KeyIndex.source_rows`.
    """

    def __init__(self, cached: CachedKeys, index: KeyIndex | NumberedKeys | SortedKeys, table: DefinedTable) -> None:
        self._cached = cached
        self._is_partitioned = bool(table.partition_columns)
        self._row_of_key = None
        self._offered: list[FileKeys] = []
        self._to_keep: list[FileKeys] = []
        self._columns: Sequence[pa.Array] = ()
        if isinstance(index, SortedKeys):
            assert index.numbers is cached.numbers
            self._wanted = index.values
            return
        if isinstance(index, KeyIndex) and index.num_keys < index.num_rows:
            self._row_of_key = index.last_row_of_keys
        rows = None if self._row_of_key is None else pa.array(self._row_of_key)
        self._columns = index.columns if rows is None else [column.take(rows) for column in index.columns]
        self._wanted = numbers_in_parts(cached.numbers, self._columns)

    def recall(self, files: Sequence[FileId], *, are_all_live: bool) -> dict[FileId, KeyPlaces]:
        """The rows with source keys in each of the cached ``files``, with rows of the index as keys.

        With ``are_all_live``, these are all live files of the newest version, so the cache can drop all others.
        """
        found = self._cached.find(self._wanted, files)
        if are_all_live:
            self._cached.drop_others(files)
        return self._with_rows(found)

    def find_kept(self, adds: Sequence[AddFile]) -> dict[FileId, KeyPlaces]:
        """The same in each of these files whose keys are kept beside the table."""
        if self._cached.folder is None:
            return {}
        return self._with_rows(self._cached.find_kept(adds, self._wanted_by))

    def _wanted_by(self, numbers: KeyNumbers) -> KeyValues | None:
        if numbers is self._cached.numbers:
            return self._wanted
        return numbers_in_parts(numbers, self._columns) if self._columns else None

    def _with_rows(self, found: dict[FileId, KeyPlaces]) -> dict[FileId, KeyPlaces]:
        if self._row_of_key is None:
            return found
        return {file: KeyPlaces(at.positions, self._row_of_key[at.keys]) for file, at in found.items()}

    def keys_of(self, add: AddFile) -> KeysOfFile | None:
        """Takes all keys of a file, which `keep` will cache; None if they are not wanted."""
        folder = self._cached.folder
        is_to_keep = folder is not None and folder.is_wanted(add)
        is_wanted = self._cached.is_wanted(add.file_id, num_records(add.stats)) or is_to_keep
        return KeysOfFile(self._cached, add, self) if is_wanted else None

    def offer(self, keys: FileKeys) -> None:
        """Take the keys of a file, which `keep` will cache."""
        self._offered.append(keys)

    def keep(self) -> None:
        """Cache the keys that were offered."""
        offered, self._offered = self._offered, []
        self._cached.add(offered)
        if self._cached.folder is not None:
            self._to_keep += offered

    def keep_beside(self) -> None:
        """Keep what was offered beside the table too, after the commit. Never raises for a store that fails."""
        if self._cached.folder is not None:
            self._cached.folder.keep(self._to_keep)
            self._to_keep = []

    def keep_staged(self, files: Sequence[FileKeys]) -> None:
        """Cache the keys of these files of an unpartitioned table. Does nothing if no file is cached yet."""
        if not self._is_partitioned and not self._cached.is_empty:
            self._cached.add([FileKeys(_spelled(each.file), each.values, each.positions) for each in files])

    def keep_written(self, files: Sequence[PendingFile], is_written: NDArray[Any]) -> None:
        """Cache the keys of a new file with source rows, if it is certain where each row is: in an unpartitioned table,
        a single file has them in the source's order. (Several files get their row groups in turns.) Does nothing if no
        file is cached yet, unless the keys are kept beside the table. Each source row must have a different key.
        """
        assert self._row_of_key is None

        rows = np.flatnonzero(is_written)
        if self._is_partitioned or [file.num_rows for file in files] != [len(rows)]:
            return
        add = files[0].to_add()
        add = replace(add, path=canonical_path(add.path))  # as the log will name it
        folder = self._cached.folder
        is_to_keep = folder is not None and folder.is_wanted(add)
        if self._cached.is_empty and not is_to_keep:
            return
        keys = FileKeys.of(add.file_id, self._wanted.at(rows), np.arange(len(rows)))
        if not self._cached.is_empty:
            self._cached.add([keys])
        if is_to_keep:
            self._to_keep.append(keys)


class KeysOfFile:
    """Gathers the keys of one file while its rows are read."""

    def __init__(self, cached: CachedKeys, add: AddFile, known: KnownKeys | None = None) -> None:
        self._cached = cached
        self._add = add
        self._known = known
        self._values: list[KeyValues] = []
        self._positions: list[NDArray[np.int64]] = []

    def note(self, columns: Sequence[pa.Array], positions: NDArray[np.int64]) -> None:
        """Take the keys of some rows."""
        values, rows = self._cached.numbers.of(columns)
        self._values.append(values)
        self._positions.append(positions if rows is None else positions[rows])

    def all(self) -> FileKeys | None:
        """The keys of all rows; None if there are none."""
        if not self._values:
            return None
        return FileKeys.of(self._add.file_id, KeyValues.joined(self._values), np.concatenate(self._positions))

    def offer(self) -> None:
        """Let `KnownKeys.keep` cache them."""
        found = self.all()
        if found is not None and self._known is not None:
            self._known.offer(found)


def known_keys(cache: KeyCache, index: KeyIndex | NumberedKeys, table: DefinedTable) -> KnownKeys | None:
    """A source's keys in memory; None if nothing is cached or may be cached."""
    if not index.num_rows or not (cache.size_bytes_max or are_kept(index.keys, table)):
        return None
    return KnownKeys(cached_keys(cache, index.keys, table), index, table)


def keys_of_file(
    cached: CachedKeys,
    keys: Sequence[KeyColumn],
    add: AddFile,
    batches: Iterable[tuple[NDArray[np.int64], pa.RecordBatch]],
) -> FileKeys | None:
    """All keys of a file, whose rows come with their positions; None if it has no rows."""
    found = KeysOfFile(cached, add)
    for positions, batch in batches:
        found.note([key.of(batch) for key in keys], positions)
    return found.all()


def _folded(path: Sequence[str]) -> tuple[str, ...]:
    return tuple(map(fold_name, path))


def _spelled(file: FileId) -> FileId:
    """The file as the log will name it."""
    path, size_bytes, modified_ms = file
    return canonical_path(path), size_bytes, modified_ms
