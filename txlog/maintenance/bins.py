"""Which files are rewritten together: small ones, and those with many dead rows, in bins within one partition.

In: the live files of one version. Out: `Bin`s. Files are taken in the order of writing: rows that came together stay
together, and the new files' bounds stay narrow. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

import txlog.arrow.python_values  # noqa: F401  has pyarrow import pandas
from txlog.protocol.actions import AddFile
from txlog.protocol.clustering import CLUSTERING_PROVIDER, in_a_cube
from txlog.protocol.file_columns import add_files_of
from txlog.protocol.partition_values import partition_key
from txlog.protocol.schema import Field
from txlog.protocol.statistics_read import num_records
from txlog.tasks.rewriting.bin import Bin

__all__ = [
    "CLUSTERED_BY",
    "DEAD_FRACTION_MAX",
    "bins_not_yet_clustered",
    "bins_of",
    "bins_to_cluster",
    "bins_to_purge",
    "cheapest_first",
    "gain",
    "grouped",
]

CLUSTERED_BY = "txlog.clusteredBy"
"""The tag of a data file whose rows were clustered: the columns, as a JSON list."""

DEAD_FRACTION_MAX = 0.05
"""A file of any size is rewritten if more than this fraction of its rows is dead, as in Spark's OPTIMIZE."""


def gain(each: Bin) -> float:
    """The number of files that disappear, plus the dead rows measured in files."""
    return len(each.files) - 1 + sum(map(dead_fraction, each.files))


def dead_fraction(add: AddFile) -> float:
    """The fraction of a file's rows that its deletion vector marks; 1 if the log does not count the rows."""
    if add.deletion_vector is None:
        return 0.0
    rows = num_records(add.stats)
    return min(1.0, add.deletion_vector.cardinality / rows) if rows else 1.0


def bins_of(
    files: pa.Table, partition_fields: Mapping[str, Field], target_bytes: int, *, files_min: int = 1
) -> list[Bin]:
    """The bins of a compaction to files of about ``target_bytes``.

    ``files`` are live files (``log.files.FILES_SCHEMA``), ``partition_fields`` the partition columns by their physical
    names. A file counts with the size of its live rows. Next-fit: the first file that does not fit closes the bin. A
    bin of one file is made only if more than `DEAD_FRACTION_MAX` of its rows are dead. Partitions with fewer than
    ``files_min`` files to rewrite are left out.
    """
    is_small = pc.less(files.column("size"), target_bytes)
    is_marked = pc.is_valid(files.column("deletionVector"))
    found = _in_order(files.filter(pc.or_(is_small, is_marked)))
    partitions: dict[tuple[str | None, ...], list[AddFile]] = {}
    for add in found:
        if add.size < target_bytes or dead_fraction(add) > DEAD_FRACTION_MAX:
            partitions.setdefault(partition_key(add.partition_values, partition_fields), []).append(add)
    bins = [each for adds in partitions.values() if len(adds) >= files_min for each in _next_fit(adds, target_bytes)]
    return [each for each in bins if len(each.files) > 1 or dead_fraction(each.files[0]) > DEAD_FRACTION_MAX]


def bins_to_purge(files: pa.Table, also: Collection[str] = ()) -> list[Bin]:
    """A bin for each of the live files that has a deletion vector, or whose ``path`` is in ``also``."""
    is_marked = pc.is_valid(files.column("deletionVector"))
    is_named = pc.is_in(files.column("path"), pa.array([*also], pa.string()))
    return [Bin((add,)) for add in _in_order(files.filter(pc.or_(is_marked, is_named)))]


def bins_to_cluster(
    files: pa.Table, partition_fields: Mapping[str, Field], clustered_by: str, bin_bytes: int
) -> list[Bin]:
    """The bins of a clustering: the files of each partition, at most about ``bin_bytes`` together.

    ``clustered_by`` is the value of the tag `CLUSTERED_BY` of files that are clustered the same way. A bin of only such
    files, with few dead rows, is left as it is.
    """
    partitions: dict[tuple[str | None, ...], list[AddFile]] = {}
    for add in _in_order(files):
        partitions.setdefault(partition_key(add.partition_values, partition_fields), []).append(add)
    bins = [each for adds in partitions.values() for each in _next_fit(adds, bin_bytes)]
    return [each for each in bins if not all(_is_clustered(add, clustered_by) for add in each.files)]


def bins_not_yet_clustered(
    files: pa.Table, clustered_by: Sequence[str], target_bytes: int, bin_bytes: int, *, files_min: int = 1
) -> list[Bin]:
    """The bins of a clustered table: files that are not clustered yet, at most about ``bin_bytes`` together.

    ``clustered_by`` is the list of columns in the tags of clustered files. Clustered files smaller than half of
    ``target_bytes`` are clustered again with the new ones or with each other, so there are never many of them; files
    with many dead rows are clustered again too. Files with another kind of clustering are left as they are. If there
    are fewer than ``files_min`` files to cluster, they are left too.
    """

    def is_done(add: AddFile) -> bool:
        return in_a_cube(add, clustered_by) and dead_fraction(add) <= DEAD_FRACTION_MAX

    ours = [add for add in _in_order(files) if add.clustering_provider in (None, CLUSTERING_PROVIDER)]
    found = [add for add in ours if not is_done(add) or 2 * add.size < target_bytes]
    bins = _next_fit(found, bin_bytes) if len(found) >= files_min else []
    return [each for each in bins if len(each.files) > 1 or not is_done(each.files[0])]


def _is_clustered(add: AddFile, clustered_by: str) -> bool:
    return (add.tags or {}).get(CLUSTERED_BY) == clustered_by and dead_fraction(add) <= DEAD_FRACTION_MAX


def cheapest_first(bins: Sequence[Bin], max_bytes: int | None) -> list[Bin]:
    """The bins that gain the most for the bytes to read, up to ``max_bytes`` in total; None takes every bin."""
    if max_bytes is None:
        return list(bins)
    taken, left = [], max_bytes
    for each in sorted(bins, key=lambda each: each.size_bytes / max(gain(each), 0.01)):
        if each.size_bytes <= left:
            taken.append(each)
            left -= each.size_bytes
    return taken


def grouped(bins: Sequence[Bin], group_bytes: int, group_files: int) -> list[list[Bin]]:
    """Bins that are committed together: at most this many bytes and files, or one bin that has more."""
    groups: list[list[Bin]] = []
    size = count = 0
    for each in bins:
        size += each.size_bytes
        count += len(each.files)
        if not groups or size > group_bytes or count > group_files:
            groups.append([])
            size, count = each.size_bytes, len(each.files)
        groups[-1].append(each)
    return groups


def _in_order(files: pa.Table) -> list[AddFile]:
    """By write time; files from the same millisecond stay in log order, since the sort is stable."""
    return add_files_of(files.sort_by([("modificationTime", "ascending")]))


def _next_fit(adds: Sequence[AddFile], target_bytes: int) -> list[Bin]:
    bins: list[list[AddFile]] = []
    size = 0.0
    for add in adds:
        live = add.size * (1 - dead_fraction(add))
        if not bins or size + live > target_bytes:
            bins.append([])
            size = 0.0
        bins[-1].append(add)
        size += live
    return [Bin(tuple(each)) for each in bins]
