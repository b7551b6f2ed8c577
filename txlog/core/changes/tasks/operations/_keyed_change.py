"""What changes by keys share: the rows of a table that have a source's keys, and what becomes of them.

In: a `KeyedSource`, and what a table's handle knows of its keys. Out: `KeyedChange`, the base of the `RowOperation`s of
an upsert, of a merge engine and of a sink's checkpoint of row changes. The rows of a file with a source key are looked
up once. Which keys the table has is decided again at each execution, from all live files: another writer may have
deleted or added a key. Here, a source row replaces the rows with its key as a whole.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from txlog.core.changes.tasks import FileReader, FileRows, MatchedFile, MatchedRows, RowOperation
from txlog.core.changes.tasks.operations._known_keys import KnownKeys
from txlog.core.changes.tasks.operations._merge_history import merge_metrics
from txlog.core.changes.tasks.operations._numbered_keys import NumberedKeys
from txlog.core.changes.tasks.operations._sorted_keys import SortedKeys
from txlog.core.format.actions import AddFile, FileId, operation_parameters
from txlog.core.format.defined_table import DefinedTable
from txlog.core.predicates.skipping import KeyPruner, KeyRanges, key_range
from txlog.core.predicates.terms.predicate import Constant, Predicate
from txlog.core.row_rules import KeyIndex
from txlog.core.util import cached_property
from txlog.core.writing.committable import PendingFile
from txlog.result import WriteMetrics

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from txlog.core.reading import KeyPlaces

_SMALL_BYTES = 1 << 20  # a small file has at most one row group to skip, and checking costs as much
_PROBE_ROWS = 1 << 20  # looked up at a time: each lookup's cost grows with the number of source keys


class KeyedSource(Protocol):
    """Rows with distinct keys. Only a `UpsertSource` holds the rows themselves."""

    @property
    def index(self) -> KeyIndex | NumberedKeys | SortedKeys: ...

    @property
    def num_rows(self) -> int: ...

    @property
    def num_given(self) -> int:
        """The number of rows before rows with equal keys were dropped."""


class CachesKeys(RowOperation):
    """A `RowOperation` that looks for keys in files, and lets the table's handle keep them, if it keeps any."""

    name = "MERGE"
    has_source = True
    known: KnownKeys | None

    def note_keys(self, adds: Sequence[AddFile], counts: NDArray[np.int64], columns: Sequence[pa.Array]) -> None:
        """Take the keys of files that were read together, with these numbers of rows, if they are to be kept."""
        if self.known is None:
            return
        kept = [self.known.keys_of(add) for add in adds]
        firsts = np.cumsum(counts) - counts
        for each, first, count in zip(kept, firsts.tolist(), counts.tolist(), strict=True):
            if each is not None and count:
                each.note([column.slice(first, count) for column in columns], np.arange(count))
                each.offer()


class KeyedChange(CachesKeys):
    """A `RowOperation` that finds the rows to change by the keys of a source."""

    def __init__(
        self, source: KeyedSource, table: DefinedTable, known: KnownKeys | None, *, replaces_rows: bool = True
    ) -> None:
        """``replaces_rows``: matched rows go, and the source's come. Otherwise they stay as they are."""
        self.known = known
        self._source = source
        self._table = table
        self.num_source_rows = source.num_rows
        self.replaces_rows = replaces_rows
        self._index = source.index
        self._paths = [key.path for key in self._index.keys]
        names = {path[0] for path in self._paths}
        self._fields = tuple(field for field in table.schema.fields if field.name in names)

    @cached_property
    def _pruner(self) -> KeyPruner:
        """Made only if a file is not known: for a small source it costs more than everything else."""
        return KeyPruner(self._paths, self._values_of_keys, self._table.schema, self._table.partition_columns)

    @cached_property
    def _range(self) -> Predicate | None:
        return key_range(self._paths, self._values_of_keys, self._table.schema)

    @property
    def _values_of_keys(self) -> Sequence[pa.Array | KeyRanges]:
        """The values of each key column, or ranges that hold them."""
        return self._index.ranges if isinstance(self._index, NumberedKeys) else self._index.columns

    @property
    def reads(self) -> Predicate | None:
        return self._range if self.num_source_rows else Constant(False)

    def history(self, matched: Sequence[str], not_matched: Sequence[str] = ("insert",), **more: str) -> dict[str, str]:
        """The parameters of a merge on these keys in Spark's form, with clauses of these actions, and ``more``."""
        condition = " AND ".join(f"(t.{key.name} = s.{key.name})" for key in self._index.keys)
        return operation_parameters(
            predicate=[condition],
            matchedPredicates=[{"actionType": action} for action in matched],
            notMatchedPredicates=[{"actionType": action} for action in not_matched],
            notMatchedBySourcePredicates=[],
            **more,
        )

    def metrics(self, done: WriteMetrics) -> dict[str, str]:
        return merge_metrics(self._source.num_given, done)

    def of_hits(self, each: MatchedFile) -> NDArray[np.int64]:
        """The source row of each row of a file that is replaced."""
        source_rows = each.hits.at(np.searchsorted(each.hits.positions, each.replaced)).source_rows
        assert source_rows is not None
        return source_rows

    # --- look-up --------------------------------------------------------------------------------------------

    def candidates(self, files: pa.Table) -> NDArray[np.bool_]:
        return self._pruner.mask_of_table(files)

    def look_up(self, rows: FileRows, add: AddFile) -> MatchedRows:
        kept = None if self.known is None else self.known.keys_of(add)
        is_narrow = (
            kept is None
            and add.size > _SMALL_BYTES
            and self._pruner.of_one_file.holds_others(add.partition_values, add.stats)
        )
        positions, source_rows = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        reader = rows.reader(self._fields, self._range if is_narrow else None, filters_rows=False)
        for numbers, columns in self._keys_in(reader, add):
            at, matched = self._index.matches(columns)
            positions.append(numbers[at])
            source_rows.append(matched)
            if kept is not None:
                kept.note(columns, numbers)
        if kept is not None:
            kept.offer()
        return self._hits(np.concatenate(positions).astype(np.uint64), np.concatenate(source_rows))

    def look_up_all(self, rows: FileRows, adds: Sequence[AddFile]) -> Iterator[MatchedRows]:
        for joined in rows.joined(adds, self._fields):
            if joined.rows is None:
                yield self.look_up(rows, joined.adds[0])
                continue
            if not joined.rows.num_rows:
                yield from self._hits(np.empty(0, np.uint64), np.empty(0, np.int64)).in_files(joined.counts)
                continue
            columns = [key.of(joined.rows) for key in self._index.keys]
            self.note_keys(joined.adds, joined.counts, columns)
            at, source_rows = self._index.matches(columns)
            yield from self._hits(at.astype(np.uint64), source_rows).in_files(joined.counts)

    def _keys_in(self, reader: FileReader, add: AddFile) -> Iterator[tuple[NDArray[np.int64], list[pa.Array]]]:
        """The positions and key columns of a file, many rows at a time."""
        batches = reader.batches(add, with_dead_rows=True)
        at_once = 0 if self._index.is_cheap else _PROBE_ROWS
        waiting: list[tuple[NDArray[np.int64], pa.RecordBatch]] = []
        for each in itertools.chain(batches, [None]):
            if each is not None:
                waiting.append(each)
            if waiting and (each is None or sum(len(numbers) for numbers, _ in waiting) >= at_once):
                table = pa.Table.from_batches([batch for _, batch in waiting])
                numbers = np.concatenate([numbers for numbers, _ in waiting])
                waiting = []
                yield numbers, [key.of(table) for key in self._index.keys]

    def _hits(self, positions: NDArray[np.uint64], source_rows: NDArray[np.int64]) -> MatchedRows:
        stays = None if self.replaces_rows else np.zeros(len(positions), dtype=bool)
        return MatchedRows(positions, source_rows, stays)

    def hits_at(self, places: Mapping[FileId, KeyPlaces]) -> dict[FileId, MatchedRows]:
        none = self._hits(np.empty(0, np.uint64), np.empty(0, np.int64))  # in most files if there are many
        return {file: self._hits(at.positions, at.keys) if len(at.positions) else none for file, at in places.items()}

    def keep_written(self, files: Sequence[PendingFile], is_written: NDArray[np.bool_]) -> None:
        if self.known is not None:
            self.known.keep_written(files, is_written)

    # --- rows -----------------------------------------------------------------------------------------------

    def has_row(self) -> NDArray[np.bool_] | None:
        """Which keys of the source have a row afterwards; None: all."""
        return None

    def updated(self, touched: Sequence[MatchedFile]) -> tuple[Sequence[NDArray[np.bool_]], NDArray[np.bool_]]:
        """If several rows have one key, the first comes back as the source row."""
        comes_back = np.zeros(self.num_source_rows, dtype=bool)
        found = []
        for each in touched:
            source_rows = self.of_hits(each)
            is_first = np.zeros(len(source_rows), dtype=bool)
            is_first[np.unique(source_rows, return_index=True)[1]] = True
            found.append(is_first & ~comes_back[source_rows])
            comes_back[source_rows] = True
        stays = self.has_row()
        if stays is None:
            return found, comes_back
        kept = [flags & stays[self.of_hits(each)] for flags, each in zip(found, touched, strict=True)]
        return kept, comes_back & stays

    def counts(self, touched: Sequence[MatchedFile], is_written: NDArray[np.bool_] | None) -> tuple[int, int, int]:
        assert is_written is not None
        is_matched = self.matched(touched)
        replaced = sum(len(each.replaced) for each in touched)
        updated = int((is_written & is_matched).sum())
        return int((is_written & ~is_matched).sum()), updated, replaced - updated

    def matched(self, touched: Sequence[MatchedFile]) -> NDArray[np.bool_]:
        """Which source rows have a table row with their key."""
        is_matched = np.zeros(self.num_source_rows, dtype=bool)
        for each in touched:
            is_matched[each.live_source_rows] = True
        return is_matched
