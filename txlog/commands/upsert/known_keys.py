"""What a handle knows of the keys of data files: used by upserts and merges instead of reading them, and added to.

In: the keys of a source, and files of the table. Out: the rows of known files that have one of the keys. What an upsert
or a merge reads of a file, or an upsert writes itself, is known to those after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from txlog.commands.upsert.sorted_keys import SortedKeys
from txlog.log.state import TableState
from txlog.protocol.actions import AddFile
from txlog.protocol.column_mapping import physical_path
from txlog.protocol.paths import canonical_path
from txlog.protocol.schema import type_name, type_to_arrow
from txlog.protocol.statistics_read import num_records
from txlog.read.key_cache import CachedKeys, FileKeys, KeyCache, Places
from txlog.read.key_values import KeyValues
from txlog.writer.committable import PendingFile
from txlog.writer.keys import KeyColumn, KeyIndex

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["KnownKeys", "KnownPart", "cached_keys", "known_keys"]

KnownPart = tuple[KeyValues, "NDArray[np.int64]"]
"""The keys of some rows of a file, as numbers, and the positions of the rows."""


def cached_keys(cache: KeyCache, keys: Sequence[KeyColumn], state: TableState) -> CachedKeys:
    """What is held of the keys of the table's files by these columns."""
    types = [type_to_arrow(key.type) for key in keys]
    paths = tuple(physical_path(state.schema, key.path) for key in keys)
    # A table that was made anew at the place, or a column of another type, is another matter.
    identity = (state.metadata.id, paths, tuple(type_name(key.type) for key in keys))
    return cache.of(identity, types)


class KnownKeys:
    """The keys of one source beside those of a table's files. `is_wanted`, `part_of` and `offer` are thread-safe.

    Of several rows of the source with one key the last counts, as in `KeyIndex.source_rows`.
    """

    def __init__(self, cached: CachedKeys, index: KeyIndex | SortedKeys, state: TableState) -> None:
        self._cached = cached
        self._is_partitioned = bool(state.partition_columns)
        self._row_of_key = None
        self._offered: list[FileKeys] = []
        if isinstance(index, SortedKeys):
            assert index.numbers is cached.numbers
            self._wanted = index.values
            return
        if index.num_keys < len(index.code_of_row):
            self._row_of_key = index.last_row_of_keys
        rows = None if self._row_of_key is None else pa.array(self._row_of_key)
        columns = index.columns if rows is None else [column.take(rows) for column in index.columns]
        self._wanted = cached.numbers.of(columns)[0]

    def recall(self, files: pa.Table, *, are_all_live: bool) -> dict[str, Places]:
        """The rows with keys of the source in each of ``files`` that is known, by path, with rows of the index as keys.

        ``are_all_live``: these are all live files of the newest version, so that others need not be known any more.
        """
        paths = files.column("path").to_pylist()
        ids = list(zip(paths, files.column("size").to_pylist(), strict=True))
        found = self._cached.find(self._wanted, ids)
        if are_all_live:
            self._cached.drop_others(ids)
        if self._row_of_key is not None:
            found = {file: Places(at.positions, self._row_of_key[at.keys]) for file, at in found.items()}
        return {path: places for (path, _), places in found.items()}

    def is_wanted(self, add: AddFile) -> bool:
        """Whether to read all keys of a file that is looked into, and `offer` them."""
        return self._cached.is_wanted((add.path, add.size), num_records(add.stats))

    def part_of(self, columns: Sequence[pa.Array], positions: NDArray[np.int64]) -> KnownPart:
        """The keys of some rows of a file."""
        values, rows = self._cached.numbers.of(columns)
        return values, positions if rows is None else positions[rows]

    def offer(self, add: AddFile, parts: Sequence[KnownPart]) -> None:
        """All keys of a file, which `keep` makes known."""
        import numpy as np

        if not parts:
            return
        second = [values.second for values, _ in parts if values.second is not None]
        values = KeyValues(
            np.concatenate([values.numbers for values, _ in parts]), np.concatenate(second) if second else None
        )
        positions = np.concatenate([positions for _, positions in parts])
        self._offered.append(FileKeys.of((add.path, add.size), values, positions))

    def keep(self) -> None:
        """Make known what was offered."""
        offered, self._offered = self._offered, []
        self._cached.add(offered)

    def keep_staged(self, files: Sequence[FileKeys]) -> None:
        """Make known these files of a table without partitions. Does nothing before files are known."""
        if not self._is_partitioned and not self._cached.is_empty:
            self._cached.add(
                [FileKeys((canonical_path(each.file[0]), each.file[1]), each.values, each.positions) for each in files]
            )

    def keep_written(self, files: Sequence[PendingFile], is_written: NDArray[Any]) -> None:
        """Make known the file of the rows of the source that were written, where it is certain which row is where: in
        a table without partitions, one file has them in the order of the source. Of several files each has row groups
        from here and there. Does nothing before files are known. Each row of the source has a key of its own."""
        import numpy as np

        assert self._row_of_key is None

        rows = np.flatnonzero(is_written)
        if self._is_partitioned or self._cached.is_empty or [file.num_rows for file in files] != [len(rows)]:
            return
        file = canonical_path(files[0].to_add().path), files[0].size_bytes
        self._cached.add([FileKeys.of(file, self._wanted.at(rows), np.arange(len(rows)))])


def known_keys(cache: KeyCache, index: KeyIndex, state: TableState) -> KnownKeys | None:
    """The keys of a source in memory; None where nothing is to be held, or asked for."""
    if not cache.size_bytes_max or not len(index.code_of_row):
        return None
    return KnownKeys(cached_keys(cache, index.keys, state), index, state)
