"""Which files are rewritten together: small ones, and those with many dead rows, in bins within one partition.

In: the live files of one version, in columns. Out: `PlannedBin`s. A table of ten million files is planned in columns:
`AddFile` objects are made for the bins that are about to be rewritten. Files are taken in the order of writing: rows
that came together stay together, and the new files' bounds stay narrow. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import txlog.core.format.arrow.python_values  # noqa: F401  has pyarrow import pandas
from txlog.core.format.arrow.arrays import array_of, coded, from_numbers
from txlog.core.format.clustering import CLUSTERED_BY, CLUSTERING_PROVIDER, cube_columns
from txlog.core.format.file_columns import FILES_SCHEMA, add_files_of
from txlog.core.format.partition_values import partition_key
from txlog.core.format.schema import Field
from txlog.core.format.statistics_read import num_records
from txlog.core.maintenance.rewriting._bin import Bin

if TYPE_CHECKING:
    from numpy.typing import NDArray

DEAD_FRACTION_MAX = 0.05
"""A file of any size is rewritten if more than this fraction of its rows is dead, as in Spark's OPTIMIZE."""


class PlannedBin(msgspec.Struct, frozen=True, eq=False):
    """A bin of a plan: which rows of the table of live files it has.

    ``gain`` is the number of files that disappear, plus the dead rows measured in files.
    """

    live: pa.Table
    rows: NDArray[np.int64]
    size_bytes: int
    gain: float

    @property
    def num_files(self) -> int:
        return len(self.rows)


def files_of(bins: Sequence[PlannedBin], columns: Sequence[str]) -> pa.Table:
    """These columns of the files of some bins of a plan, in the order of the list of live files."""
    if not bins:
        return pa.table({name: [] for name in columns})
    chosen = np.zeros(bins[0].live.num_rows, bool)
    for each in bins:
        chosen[each.rows] = True
    # To take rows by number would copy the whole column first.
    return bins[0].live.select(columns).filter(pa.array(chosen))


def bins_with_files(bins: Sequence[PlannedBin]) -> list[Bin]:
    """Bins of one plan with their files, for the tasks that rewrite them."""
    rows = np.sort(np.concatenate([np.empty(0, np.int64), *(each.rows for each in bins)]))
    adds = dict(zip(rows.tolist(), add_files_of(files_of(bins, FILES_SCHEMA.names)), strict=True))
    return [Bin(tuple(adds[row] for row in each.rows.tolist())) for each in bins]


def bins_of(
    files: pa.Table,
    partition_fields: Mapping[str, Field],
    target_bytes: int,
    *,
    files_min: int = 1,
    leaves_larger: bool = False,
) -> list[PlannedBin]:
    """The bins of a compaction to files of about ``target_bytes``.

    ``files`` are live files (``core.versions.decisions.files.FILES_SCHEMA``), ``partition_fields`` the partition
    columns by their physical names. A file counts with the size of its live rows. Next-fit: the first file that does
    not fit closes the bin. A bin of one file is made only if more than `DEAD_FRACTION_MAX` of its rows are dead.
    Partitions with fewer than ``files_min`` files to rewrite are left out.

    With ``leaves_larger``, a file is left as it is until the smaller ones of its partition are as large together, or
    many of its rows are dead: then a stream of small files rewrites each row as often as its files double, and not each
    time.
    """
    plan = _Plan(files, partition_fields)
    chosen = (plan.sizes < target_bytes) | (plan.dead > DEAD_FRACTION_MAX)
    bins = plan.bins(chosen, target_bytes, files_min, leaves_larger=leaves_larger)
    return [each for each in bins if each.num_files > 1 or plan.dead[each.rows[0]] > DEAD_FRACTION_MAX]


def bins_to_purge(files: pa.Table, also: Collection[str] = ()) -> list[PlannedBin]:
    """A bin for each of the live files that has a deletion vector, or whose ``path`` is in ``also``."""
    plan = _Plan(files, {})
    named = pc.is_in(files.column("path"), pa.array([*also], pa.string())).to_numpy()
    marked = files.column("deletionVector").is_valid().to_numpy()
    rows = plan.in_order(named | marked)
    return plan.cut(rows, np.arange(len(rows)))


def bins_to_cluster(
    files: pa.Table, partition_fields: Mapping[str, Field], clustered_by: str, bin_bytes: int
) -> list[PlannedBin]:
    """The bins of a clustering: the files of each partition, at most about ``bin_bytes`` together.

    ``clustered_by`` is the value of the tag `CLUSTERED_BY` of files that are clustered the same way. A bin of only such
    files, with few dead rows, is left as it is.
    """
    plan = _Plan(files, partition_fields)
    is_done = _has_tag(files, CLUSTERED_BY, clustered_by) & (plan.dead <= DEAD_FRACTION_MAX)
    bins = plan.bins(np.ones(files.num_rows, bool), bin_bytes)
    return [each for each in bins if not is_done[each.rows].all()]


def bins_not_yet_clustered(
    files: pa.Table, clustered_by: Sequence[str], target_bytes: int, bin_bytes: int, *, files_min: int = 1
) -> list[PlannedBin]:
    """The bins of a clustered table: files that are not clustered yet, at most about ``bin_bytes`` together.

    ``clustered_by`` is the list of columns in the tags of clustered files. Clustered files smaller than half of
    ``target_bytes`` are clustered again with the new ones or with each other, so there are never many of them; files
    with many dead rows are clustered again too. Files with another kind of clustering are left as they are. If there
    are fewer than ``files_min`` files to cluster, they are left too.
    """
    plan = _Plan(files, {})
    provider = files.column("clusteringProvider")
    is_liquid = _flags(pc.equal(provider, array_of([CLUSTERING_PROVIDER], pa.string())[0]))
    is_done = is_liquid & _has_tag(files, *cube_columns(clustered_by)) & (plan.dead <= DEAD_FRACTION_MAX)
    ours = is_liquid | provider.is_null().to_numpy()
    bins = plan.bins(ours & (~is_done | (2 * plan.sizes < target_bytes)), bin_bytes, files_min)
    return [each for each in bins if each.num_files > 1 or not is_done[each.rows[0]]]


def cheapest_first(bins: Sequence[PlannedBin], max_bytes: int | None) -> list[PlannedBin]:
    """The bins that gain the most for the bytes to read, up to ``max_bytes`` in total; None takes every bin."""
    if max_bytes is None:
        return list(bins)
    taken, left = [], max_bytes
    for each in sorted(bins, key=lambda each: each.size_bytes / max(each.gain, 0.01)):
        if each.size_bytes <= left:
            taken.append(each)
            left -= each.size_bytes
    return taken


def grouped(bins: Sequence[PlannedBin], group_bytes: int, group_files: int) -> list[list[PlannedBin]]:
    """Bins that are committed together: at most this many bytes and files, or one bin that has more."""
    groups: list[list[PlannedBin]] = []
    size = count = 0
    for each in bins:
        size += each.size_bytes
        count += each.num_files
        if not groups or size > group_bytes or count > group_files:
            groups.append([])
            size, count = each.size_bytes, each.num_files
        groups[-1].append(each)
    return groups


class _Plan:
    """Live files in columns, with the fraction of dead rows of each."""

    def __init__(self, files: pa.Table, partition_fields: Mapping[str, Field]) -> None:
        self._files = files
        self._fields = partition_fields
        self.sizes = files.column("size").to_numpy()
        self.dead = _dead_fractions(files)

    def in_order(self, chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
        """The rows of these files by write time; files from the same millisecond stay in log order."""
        rows = np.flatnonzero(chosen)
        times = self._files.column("modificationTime").to_numpy()
        return rows[np.argsort(times[rows], kind="stable")]

    def cut(self, rows: NDArray[np.int64], starts: NDArray[np.int64]) -> list[PlannedBin]:
        """The bins that begin at these places of ``rows``. All are summed at once: there may be millions."""
        if not len(starts):
            return []
        ends = [*starts[1:].tolist(), len(rows)]
        sizes = np.add.reduceat(self.sizes[rows], starts).tolist()
        dead = np.add.reduceat(self.dead[rows], starts).tolist()
        return [
            PlannedBin(self._files, rows[start:end], size, end - start - 1 + gone)
            for start, end, size, gone in zip(starts.tolist(), ends, sizes, dead, strict=True)
        ]

    def bins(
        self, chosen: NDArray[np.bool_], bin_bytes: int, files_min: int = 1, *, leaves_larger: bool = False
    ) -> list[PlannedBin]:
        """These files by partition, in bins of about ``bin_bytes`` of live rows: the first that does not fit closes the
        bin."""
        rows = self.in_order(chosen)
        partitions = self._partitions(rows)
        if leaves_larger:
            is_taken = _not_larger(partitions, self.sizes[rows] * (1 - self.dead[rows]))
            is_taken |= self.dead[rows] > DEAD_FRACTION_MAX
            rows, partitions = rows[is_taken], partitions[is_taken]
        order = np.argsort(partitions, kind="stable")
        rows, partitions = rows[order], partitions[order]
        is_kept = (np.bincount(partitions) >= files_min)[partitions] if len(rows) else np.empty(0, bool)
        rows, partitions = rows[is_kept], partitions[is_kept]
        return self.cut(rows, _starts(partitions, self.sizes[rows] * (1 - self.dead[rows]), bin_bytes))

    def _partitions(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """For each row the number of its partition; the first row's partition is 0, and so on."""
        codes = np.zeros(len(rows), np.int64)
        if not len(rows) or not self._fields:
            return codes
        columns = []
        for name in self._fields:
            texts = pc.map_lookup(self._files.column("partitionValues"), array_of([name], pa.string())[0], "first")
            values, numbers = coded(texts)
            columns.append((values, numbers))
            codes = np.unique(codes * (len(values) + 1) + numbers[rows], return_inverse=True)[1]
        # The texts of one row of each combination: other writers may spell a value differently.
        _, first, codes = np.unique(codes, return_index=True, return_inverse=True)
        texts_of = [values.take(from_numbers(numbers[rows[first]])).to_pylist() for values, numbers in columns]
        named = (dict(zip(self._fields, texts, strict=True)) for texts in zip(*texts_of, strict=True))
        keys = [partition_key(values, self._fields) for values in named]
        by_key: dict[tuple[str | None, ...], int] = {}
        for at in np.argsort(first, kind="stable").tolist():
            by_key.setdefault(keys[at], len(by_key))
        return np.array([by_key[key] for key in keys], np.int64)[codes]


def _starts(partitions: NDArray[np.int64], live_bytes: NDArray[np.float64], bin_bytes: int) -> NDArray[np.int64]:
    """Where bins begin among files in the order of their partitions: next-fit within each."""
    found: list[int] = []
    partition, size = -1, 0.0
    for at, (own, live) in enumerate(zip(partitions.tolist(), live_bytes.tolist(), strict=True)):
        size += live
        if own != partition or size > bin_bytes:
            found.append(at)
            partition, size = own, live
    return np.array(found, np.int64)


def _not_larger(partitions: NDArray[np.int64], live_bytes: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which files are not larger than the smaller ones of their partition together, or smaller than such a file."""
    order = np.lexsort((live_bytes, partitions))
    sizes, own = live_bytes[order], partitions[order]
    starts = np.flatnonzero(np.diff(own, prepend=-1))
    lengths = np.diff(starts, append=len(own))
    before = np.cumsum(sizes) - sizes
    fits = sizes <= before - np.repeat(before[starts], lengths)
    # Of each partition, the files up to the last one that fits.
    last = np.full(len(starts), -1)
    at = np.repeat(np.arange(len(starts)), lengths)
    np.maximum.at(last, at[fits], np.flatnonzero(fits))
    found = np.zeros(len(own), bool)
    found[order] = np.arange(len(own)) <= last[at]
    return found


def _dead_fractions(files: pa.Table) -> NDArray[np.float64]:
    """The fraction of each file's rows that its deletion vector marks; 1 if the log does not count the rows."""
    found = np.zeros(files.num_rows)
    marked = np.flatnonzero(files.column("deletionVector").is_valid().to_numpy())
    if len(marked):
        some = files.select(["stats", "deletionVector"]).filter(files.column("deletionVector").is_valid())
        rows = np.array([num_records(text) or 0 for text in some.column("stats").to_pylist()])
        dead = np.array([vector["cardinality"] for vector in some.column("deletionVector").to_pylist()])
        found[marked] = np.where(rows > 0, np.minimum(1.0, dead / np.maximum(rows, 1)), 1.0)
    return found


def _has_tag(files: pa.Table, name: str, value: str) -> NDArray[np.bool_]:
    wanted, expected = array_of([name, value], pa.string())
    return _flags(pc.equal(pc.map_lookup(files.column("tags"), wanted, "first"), expected))


def _flags(flags: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Null counts as false."""
    found: NDArray[np.bool_] = pc.fill_null(flags, array_of([False], pa.bool_())[0]).to_numpy()
    return found
