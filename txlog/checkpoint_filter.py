"""Which row groups and rows of a Parquet checkpoint a predicate needs, found from as few bytes as possible.

In: an open checkpoint file and a `FilePruner`. Out: for each row group none, or a mask over its rows. Footers are asked
first, then the columns that decide alone (partition values, typed statistics); only what passes is read in full.
PROTOCOL.md, "Checkpoint Schema".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from txlog.log.file_pruning import FilePruner
from txlog.log.files import STRING_MAP
from txlog.log.predicate_pruning import Facts
from txlog.log.predicates import Path

__all__ = ["CheckpointFilter", "matching_rows"]

Read: TypeAlias = Callable[[int, list[str]], Iterator[pa.RecordBatch]]
"""The rows of one row group: its number and the columns wanted."""

_VALUE = "add.partitionValues.key_value.value"
_JUDGED_ROWS = 16_384
_TRUNCATED_FROM = 64  # some writers cut the bounds in footers to so many bytes


def matching_rows(pruner: FilePruner, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of a checkpoint batch whose files may match, by partition values and JSON statistics."""
    if batch.column("add").null_count:
        batch = batch.filter(batch.column("add").is_valid())
    members = _members(batch.column("add"))
    texts = members.get("stats")
    files = pa.RecordBatch.from_arrays(
        [
            _maps(members, batch.num_rows),
            pa.nulls(batch.num_rows, pa.string()) if texts is None else _cast(texts, pa.string()),
        ],
        ["partitionValues", "stats"],
    )
    return batch.filter(pa.array(pruner.mask(files)))


class CheckpointFilter:
    """One predicate on one checkpoint file."""

    def __init__(self, pruner: FilePruner, metadata: Any) -> None:
        self._pruner = pruner
        self._metadata = metadata
        names = [metadata.schema.column(leaf).path for leaf in range(metadata.num_columns)]
        counts = Counter(names)  # a dot may be part of a column's name: two leaves of one path tell nothing
        self._leaves = {name: leaf for leaf, name in enumerate(names) if counts[name] == 1}
        self._typed = self._typed_columns()

    def batches(
        self, groups: Sequence[int], columns: Sequence[str], read: Read, apply: Any = map
    ) -> Iterator[pa.RecordBatch]:
        """The rows of these row groups that hold a file that may match, with these columns.

        ``apply`` is ``map``, or ``side_by_side`` where nothing else is done meanwhile.
        """
        for group in groups:
            if not self._may_match(group):
                continue
            first = [*(["add.partitionValues"] if self._pruner.partition_columns else []), *self._typed]
            if not first:
                yield from apply(partial(matching_rows, self._pruner), read(group, [*columns]))
                continue
            found = list(apply(self._mask_of, read(group, first)))
            mask = np.concatenate([mask for mask, _ in found])
            if mask.any():
                yield from self._rest(group, columns, read, mask, is_decided=all(decided for _, decided in found))

    def _rest(
        self, group: int, columns: Sequence[str], read: Read, mask: Any, *, is_decided: bool
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a mask in full; where it does not decide alone, of those the ones that match.

        The few of each batch are judged together: to judge has its price however few they are.
        """
        start = rows = 0
        kept: list[pa.RecordBatch] = []
        for batch in read(group, [*columns]):
            chosen = mask[start : start + batch.num_rows]
            start += batch.num_rows
            if chosen.any():
                kept.append(batch.filter(pa.array(chosen)))
                rows += kept[-1].num_rows
            if rows >= _JUDGED_ROWS:
                yield from self._judged(kept, is_decided)
                kept, rows = [], 0
        yield from self._judged(kept, is_decided)

    def _judged(self, kept: list[pa.RecordBatch], is_decided: bool) -> Iterator[pa.RecordBatch]:
        for batch in pa.Table.from_batches(kept).combine_chunks().to_batches() if kept else ():
            yield batch if is_decided else matching_rows(self._pruner, batch)

    # --- columns ------------------------------------------------------------------------------------------------

    def _typed_columns(self) -> list[str]:
        """The leaves of ``stats_parsed`` that tell of the predicate's columns; none where one of these has none."""
        if not self._pruner.needs_statistics:
            return []
        wanted = [name for name in ("numRecords", "tightBounds") if f"add.stats_parsed.{name}" in self._leaves]
        for leaf in self._pruner.leaves:
            trees = ("minValues", "maxValues", "nullCount")
            found = [".".join((tree, *leaf.path)) for tree in trees if _leaf_name(tree, leaf.path) in self._leaves]
            if not found:
                return []
            wanted += found
        return [f"add.stats_parsed.{name}" for name in wanted]

    def _mask_of(self, batch: pa.RecordBatch) -> tuple[Any, bool]:
        """Which rows may match, and whether nothing more can be known of them."""
        adds = batch.column("add")
        mask = adds.is_valid().to_numpy(zero_copy_only=False).copy()
        if adds.null_count:
            adds = adds.filter(adds.is_valid())
        members = _members(adds)
        maps = _maps(members, len(adds))
        parsed = members.get("stats_parsed")
        if parsed is None:
            mask[mask] = self._pruner.mask_of_partitions(maps)
            return mask, not self._pruner.needs_statistics
        found = self._pruner.mask_of_struct(maps, parsed)
        mask[mask] = found
        return mask, not (found & parsed.is_null().to_numpy(zero_copy_only=False)).any()

    # --- footers ------------------------------------------------------------------------------------------------

    def _may_match(self, group: int) -> bool:
        """Whether some file of a row group may match, by the row group's statistics in the footer."""
        row_group = self._metadata.row_group(group)
        files = self._count(row_group, "add.path")
        if files is None:
            return True
        facts = {**self._partition_facts(row_group, files), **self._statistics_facts(row_group, files)}
        return not facts or self._pruner.may_match_any(facts)

    def _partition_facts(self, row_group: Any, files: int) -> Mapping[Path, Facts]:
        """Where a table has one partition column, and all files a value, the leaf of all values holds just these."""
        if self._pruner.only_partition_column is None or self._count(row_group, _VALUE) != files:
            return {}
        low, high = self._bound(row_group, _VALUE, "min"), self._bound(row_group, _VALUE, "max")
        if not isinstance(low, str) or not isinstance(high, str):
            return {}
        is_whole = max(len(low.encode()), len(high.encode())) < _TRUNCATED_FROM
        return self._pruner.facts_of_texts(low, high, is_whole=is_whole)

    def _statistics_facts(self, row_group: Any, files: int) -> Mapping[Path, Facts]:
        """Bounds that hold for every file of a row group; where one file has none, there is none."""
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
                facts[leaf.path] = Facts(low, high)
        return facts

    def _count(self, row_group: Any, name: str) -> int | None:
        """How many values a leaf has that are not null; None where the footer does not tell."""
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
            return None  # a time beyond Python's, text that is none


def _members(adds: pa.StructArray) -> dict[str, pa.Array]:
    return dict(zip((field.name for field in adds.type), adds.flatten(), strict=True))


def _maps(members: Mapping[str, pa.Array], length: int) -> pa.MapArray:
    """The partition values; a checkpoint whose files all have none has no leaf to read."""
    maps = members.get("partitionValues")
    return pa.nulls(length, STRING_MAP) if maps is None else _cast(maps, STRING_MAP)


def _cast(column: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Raises ArrowException where a damaged file has another type altogether."""
    return column if column.type == data_type else column.cast(data_type)


def _leaf_name(tree: str, path: Iterable[str]) -> str:
    return ".".join(("add.stats_parsed", tree, *path))
