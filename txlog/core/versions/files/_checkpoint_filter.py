"""Which row groups and rows of a Parquet checkpoint are needed, found from as few bytes as possible.

In: an open checkpoint file, and a `FilePruner` or `NamedFiles`. Out: the rows whose files may match, or that have one
of the names. A predicate's filter reads footers first, then the columns that decide alone (partition values, typed
statistics), then JSON statistics; a filter by names reads paths. Only rows that pass are read in full. PROTOCOL.md,
"Checkpoint Schema".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from txlog.core.format.arrow.arrays import STRING_MAP, flags_of, from_flags, from_numbers, members_of
from txlog.core.format.schema import leaf_paths
from txlog.core.predicates.skipping import ColumnFacts, FilePruner
from txlog.core.predicates.terms.tree import Path
from txlog.core.versions.decisions.files import NamedFiles, statistics_texts

Read: TypeAlias = Callable[[int, list[str]], Iterator[pa.RecordBatch]]
"""The rows of one row group: its number and the wanted columns."""

Rows: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
"""Numbers of rows in their row group, ascending."""

_PARTITION_VALUES, _TEXT, _TYPED = "add.partitionValues", "add.stats", "add.stats_parsed"
_STRING = pa.string()
_VALUE = "add.partitionValues.key_value.value"
JOINED_ROWS = 8_192
_TRUNCATED_FROM = 64  # some writers truncate the bounds in footers to this many bytes


class CheckpointFilter:
    """One predicate on one checkpoint file."""

    def __init__(self, pruner: FilePruner, metadata: Any) -> None:
        self._pruner = pruner
        self._metadata = metadata
        names = [metadata.schema.column(leaf).path for leaf in range(metadata.num_columns)]
        counts = Counter(names)  # column names may contain dots: leaves that share a path are not used
        self._leaves = {name: leaf for leaf, name in enumerate(names) if counts[name] == 1}
        self._typed = self._typed_columns()
        kinds = {metadata.schema.column(self._leaves[name]).physical_type for name in self._typed}
        self._is_typed_in_full = "INT96" not in kinds  # Spark's form of timestamps: their bounds are not used

    def batches(
        self, groups: Sequence[int], columns: Sequence[str], read: Read, apply: Any = map, *, at_once: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """The rows of these row groups that hold a file that may match, with these columns.

        ``apply`` is ``map``, or ``parallel_map`` if nothing else runs meanwhile. ``at_once`` reads JSON statistics
        together with all other columns, for fewer requests; otherwise it reads those only for rows that passed.
        """
        for group in groups:
            if self._may_match(group):
                yield from self._matching(columns, partial(read, group), apply, at_once)

    def _matching(
        self, columns: Sequence[str], read: Callable[[list[str]], Iterator[pa.RecordBatch]], apply: Any, at_once: bool
    ) -> Iterator[pa.RecordBatch]:
        partition_values = [_PARTITION_VALUES] if self._pruner.partition_columns else []
        rows: Rows | None = None
        if first := [*partition_values, *self._typed]:
            found = list(apply(self._mask_of, read(first)))
            rows = np.flatnonzero(np.concatenate([mask for mask, _ in found]))
            is_decided = all(decided for _, decided in found) and (self._is_typed_in_full or _TEXT not in columns)
            if is_decided or not len(rows):
                yield from (batch for _, batch in _joined(_chosen(read([*columns]), rows)))
                return
        in_steps = _TEXT in columns and not at_once
        typed = [_TYPED] if _TYPED in columns else []  # for files without the text
        asked = [_TEXT, *typed, *partition_values] if in_steps else [*columns]
        judged = apply(self._judged, _joined(_chosen(read(asked), rows)))
        if not in_steps:
            yield from (batch for left, batch in judged if len(left))
            return
        passed = list(judged)
        rows = np.concatenate([np.zeros(0, np.int64), *(left for left, _ in passed)])
        texts = pa.chunked_array(
            [_texts(members_of(batch.column("add")), len(left)) for left, batch in passed], _STRING
        )
        others = [column for column in columns if column != _TEXT]
        for left, batch in _joined(_chosen(read(others), rows)):
            yield _with_texts(batch, texts.slice(np.searchsorted(rows, left[0]), len(left)))

    def _judged(self, chosen: tuple[Rows, pa.RecordBatch]) -> tuple[Rows, pa.RecordBatch]:
        """The rows whose files may match, by partition values and JSON statistics."""
        rows, batch = chosen
        members = members_of(batch.column("add"))
        texts = _texts(members, len(rows))
        if texts.null_count and "stats_parsed" in members:
            texts = statistics_texts(texts, members["stats_parsed"])
        columns = [_maps(members, len(rows)), texts]
        may_match = self._pruner.mask(pa.RecordBatch.from_arrays(columns, ["partitionValues", "stats"]))
        return rows[may_match], batch.filter(from_flags(may_match))

    # --- columns ------------------------------------------------------------------------------------------------

    def _typed_columns(self) -> list[str]:
        """The leaves of ``stats_parsed`` for the predicate's columns; empty if one of these columns has none."""
        if not self._pruner.needs_statistics:
            return []
        wanted = [name for name in ("numRecords", "tightBounds") if f"add.stats_parsed.{name}" in self._leaves]
        of_schema = Counter(".".join(path) for path, _ in leaf_paths(self._pruner.schema))
        for leaf in self._pruner.leaves:
            if of_schema[".".join(leaf.path)] > 1:  # the file may have the leaf of the other column alone
                return []
            trees = ("minValues", "maxValues", "nullCount")
            found = [".".join((tree, *leaf.path)) for tree in trees if _leaf_name(tree, leaf.path) in self._leaves]
            if not found:
                return []
            wanted += found
        return [f"add.stats_parsed.{name}" for name in wanted]

    def _mask_of(self, batch: pa.RecordBatch) -> tuple[Any, bool]:
        """Which rows may match, and whether this decision is final."""
        adds = batch.column("add")
        mask = flags_of(adds.is_valid())
        if adds.null_count:
            adds = adds.filter(adds.is_valid())
        members = members_of(adds)
        maps = _maps(members, len(adds))
        parsed = members.get("stats_parsed")
        if parsed is None:
            mask[mask] = self._pruner.mask_of_partitions(maps)
            return mask, not self._pruner.needs_statistics
        found = self._pruner.mask_of_struct(maps, parsed)
        mask[mask] = found
        return mask, not (found & flags_of(parsed.is_null())).any()

    # --- footers ------------------------------------------------------------------------------------------------

    def _may_match(self, group: int) -> bool:
        """Whether a file in a row group may match, by the row group's statistics in the footer."""
        row_group = self._metadata.row_group(group)
        files = self._count(row_group, "add.path")
        if files is None:
            return True
        facts = {**self._partition_facts(row_group, files), **self._statistics_facts(row_group, files)}
        return not facts or self._pruner.may_match_any(facts)

    def _partition_facts(self, row_group: Any, files: int) -> Mapping[Path, ColumnFacts]:
        """Bounds of the partition column, for tables with exactly one where every file has a value."""
        if self._pruner.only_partition_column is None or self._count(row_group, _VALUE) != files:
            return {}
        low, high = self._bound(row_group, _VALUE, "min"), self._bound(row_group, _VALUE, "max")
        if not isinstance(low, str) or not isinstance(high, str):
            return {}
        is_whole = max(len(low.encode()), len(high.encode())) < _TRUNCATED_FROM
        return self._pruner.facts_of_texts(low, high, is_whole=is_whole)

    def _statistics_facts(self, row_group: Any, files: int) -> Mapping[Path, ColumnFacts]:
        """Bounds that hold for every file of a row group. A column has none if one of the files has none."""
        facts = {}
        for leaf in self._pruner.leaves if self._typed else ():
            low = high = None
            name = _leaf_name("minValues", leaf.path)
            if self._count(row_group, name) == files:
                low = leaf.bound(self._bound(row_group, name, "min"), is_maximum=False)
            name = _leaf_name("maxValues", leaf.path)
            if self._count(row_group, name) == files:
                high = leaf.bound(self._bound(row_group, name, "max"), is_maximum=True)
            if low is not None or high is not None:
                facts[leaf.path] = ColumnFacts(low, high)
        return facts

    def _count(self, row_group: Any, name: str) -> int | None:
        """How many values of a leaf are not null; None if the footer does not record it."""
        leaf = self._leaves.get(name)
        statistics = None if leaf is None else row_group.column(leaf).statistics
        if statistics is None or not statistics.has_null_count:
            return None
        count: int = row_group.column(leaf).num_values - statistics.null_count
        return count

    def _bound(self, row_group: Any, name: str, side: str) -> Any:
        statistics = row_group.column(self._leaves[name]).statistics
        try:
            return getattr(statistics, side) if statistics.has_min_max else None
        except (ValueError, OverflowError, ImportError, pa.ArrowException):
            return None  # a time outside Python's range, or bytes that are not UTF-8


class NameFilter:
    """The files or tombstones, under ``root``, that have one of some names. Footers do not help: names are random."""

    def __init__(self, named: NamedFiles, root: str) -> None:
        self._named = named
        self._root = root

    def batches(
        self, groups: Sequence[int], columns: Sequence[str], read: Read, apply: Any = map, *, at_once: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """See `CheckpointFilter.batches`. Most wanted names are in no checkpoint, so ``at_once`` would only read
        more."""
        for group in groups:
            masks = [np.zeros(0, bool), *apply(self._mask_of, read(group, [f"{self._root}.path"]))]
            rows = np.flatnonzero(np.concatenate(masks))
            if len(rows):
                yield from (batch for _, batch in _joined(_chosen(read(group, [*columns]), rows)))

    def _mask_of(self, batch: pa.RecordBatch) -> Any:
        actions = batch.column(self._root)
        mask = flags_of(actions.is_valid())
        paths = (actions.filter(actions.is_valid()) if actions.null_count else actions).flatten()[0]
        mask[mask] = self._named.rows(_cast(paths, _STRING))
        return mask


# --- rows -----------------------------------------------------------------------------------------------------------


def _chosen(batches: Iterable[pa.RecordBatch], rows: Rows | None) -> Iterator[tuple[Rows, pa.RecordBatch]]:
    """These rows of the batches, or all rows that hold a file. Reading stops after the last row."""
    start = 0
    for batch in batches if rows is None or len(rows) else ():
        stop = start + batch.num_rows
        if rows is None:
            left = start + np.flatnonzero(flags_of(batch.column("add").is_valid()))
        else:
            left = rows[np.searchsorted(rows, start) : np.searchsorted(rows, stop)]
        if len(left):
            yield left, batch if len(left) == batch.num_rows else batch.take(from_numbers(left - start))
        start = stop
        if rows is not None and rows[-1] < start:
            return


def _joined(chosen: Iterable[tuple[Rows, pa.RecordBatch]]) -> Iterator[tuple[Rows, pa.RecordBatch]]:
    """The same rows in larger groups, since each evaluation or conversion has a fixed cost."""
    kept: list[tuple[Rows, pa.RecordBatch]] = []
    count = 0
    for each in chosen:
        kept.append(each)
        count += len(each[0])
        if count >= JOINED_ROWS:
            yield from _as_one(kept)
            kept, count = [], 0
    yield from _as_one(kept)


def _as_one(kept: Sequence[tuple[Rows, pa.RecordBatch]]) -> Iterator[tuple[Rows, pa.RecordBatch]]:
    if len(kept) < 2:
        yield from kept
        return
    rows = np.concatenate([rows for rows, _ in kept])
    for batch in pa.Table.from_batches([batch for _, batch in kept]).combine_chunks().to_batches():
        yield rows[: batch.num_rows], batch
        rows = rows[batch.num_rows :]


def _with_texts(batch: pa.RecordBatch, texts: pa.ChunkedArray) -> pa.RecordBatch:
    members = {**members_of(batch.column("add")), "stats": texts.combine_chunks()}
    return pa.RecordBatch.from_arrays([pa.StructArray.from_arrays([*members.values()], [*members])], ["add"])


# --- members ----------------------------------------------------------------------------------------------------------


def _maps(members: Mapping[str, pa.Array], length: int) -> pa.MapArray:
    """The partition values. If no file has any, the checkpoint has no leaf to read."""
    maps = members.get("partitionValues")
    return pa.nulls(length, STRING_MAP) if maps is None else _cast(maps, STRING_MAP)


def _texts(members: Mapping[str, pa.Array], length: int) -> pa.StringArray:
    texts = members.get("stats")
    return pa.nulls(length, _STRING) if texts is None else _cast(texts, _STRING)


def _cast(column: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Raises ArrowException if a damaged file has an incompatible type."""
    return column if column.type == data_type else column.cast(data_type)


def _leaf_name(tree: str, path: Iterable[str]) -> str:
    return ".".join(("add.stats_parsed", tree, *path))
