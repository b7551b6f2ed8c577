"""Clusters bins along one curve each, with workers that exchange rows.

In: bins of a version, and the columns. Out: `RewrittenBin`s. The driver holds a sample of the keys and the names of
files, and no row: it makes a curve of the sample, and the tasks in ``core/maintenance/rewriting/_clustering`` do the
rest. All bins of a call share their jobs, so many small partitions cost no more jobs than one large one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from txlog.core.changes.plan import parts_of
from txlog.core.changes.tasks import TaskTable
from txlog.core.format.statistics_read import num_records
from txlog.core.maintenance.rewriting._bin import Bin
from txlog.core.maintenance.rewriting._clustering import (
    KeySample,
    NumberedFile,
    RoutedFiles,
    RouteRows,
    SampledFiles,
    SampleKeys,
    SourceReport,
    WriteFile,
    first_of,
)
from txlog.core.maintenance.rewriting._curve import ClusterColumns, Curve
from txlog.core.maintenance.rewriting._rewrite_bin import FileOfBin, RewrittenBin, RewrittenFile
from txlog.core.progress import OnProgress
from txlog.core.wording import argument
from txlog.core.workers import Workers, spilled_shuffle
from txlog.errors import InvalidInputError

_SAMPLE_ROWS = 200_000  # of all bins together
_SAMPLE_ROWS_MIN = 5_000  # of each
_MEASURED_MAX = 8
PART_BYTES = 48 << 20  # of rows in memory, which a task sorts at a time
_PARTS_MAX = 1 << 14
_ROW_BYTES = 100  # of a file that the log does not count

OnFile = Callable[[FileOfBin, int], None]
"""Called with each new file as soon as it is known, and the share of the bins' bytes that it stands for."""


def check_can_cluster(workers: Workers, table: str) -> None:
    """Raises ``InvalidInputError`` for workers that cannot exchange rows."""
    if not workers.shares_disk and not hasattr(workers, "shuffle"):
        raise InvalidInputError(
            f"a clustering needs {argument('workers')} that exchange rows: a ProcessPoolExecutor, threads, or"
            " txlog.spark.workers(spark)",
            table=table,
        )


class _Planned(msgspec.Struct, frozen=True):
    """A bin with its curve; its new files are the groups from ``first_group``, each of ``parts_in_file`` parts."""

    bin: Bin
    curve: Curve
    first_group: int
    parts_in_file: int

    @property
    def groups(self) -> range:
        return range(self.first_group, self.first_group - (-self.curve.num_parts // self.parts_in_file))


def cluster_bins(
    workers: Workers,
    table: TaskTable,
    bins: Sequence[Bin],
    columns: ClusterColumns,
    target_bytes: int,
    folder: Callable[[], str],
    on_file: OnFile,
    on_progress: OnProgress,
) -> list[RewrittenBin]:
    """Rewrite bins as files of about ``target_bytes``, each bin in the order of its curve.

    ``folder`` makes a folder on this machine for data that does not fit into memory; the result may need it.
    ``on_progress`` is told of the files that are read before the first new one is written. Raises what ``folder``,
    ``Workers.map`` and the tasks raise.
    """
    planned = list(_curves(workers, table, bins, columns, target_bytes, on_progress))
    numbered = _numbered(bins)
    items = [
        RoutedFiles(number, each.parts_in_file, each.first_group, part)
        for number, (each, files) in enumerate(zip(planned, numbered, strict=True))
        for part in _in_parts(files)
    ]
    bytes_of_group = {
        group: (each.bin.size_bytes + number) // len(each.groups)  # together they are the bin's, to the byte
        for each in planned
        for number, group in enumerate(each.groups)
    }
    files: dict[int, FileOfBin] = {}
    reports: dict[int, SourceReport] = {}
    route = RouteRows(table, tuple(each.curve for each in planned))
    for group, result in _shuffled(workers, folder, route, items, len(bytes_of_group) + 1, on_progress):
        if isinstance(result, FileOfBin):
            files[group] = result
            on_file(result, bytes_of_group[group])
        else:
            reports |= {report.number: report for report in result}
    return [_rewritten(table, each, of_bin, reports, files) for each, of_bin in zip(planned, numbered, strict=True)]


def _shuffled(
    workers: Workers,
    folder: Callable[[], str],
    route: RouteRows,
    items: Sequence[RoutedFiles],
    groups: int,
    on_progress: OnProgress,
) -> Iterator[tuple[int, Any]]:
    exchange = getattr(workers, "shuffle", None)
    if exchange is not None:
        yield from exchange(route, items, WriteFile(route.table, None), groups)
    else:
        place = folder()
        counts = [len(item.files) for item in items]
        left = dict(enumerate(counts))

        def on_item(number: int) -> None:
            del left[number]
            on_progress("distributing the rows of files", sum(counts) - sum(left.values()), sum(counts))

        yield from spilled_shuffle(workers, place, route, items, WriteFile(route.table, place), on_item)


def _rewritten(
    table: TaskTable,
    planned: _Planned,
    files: Sequence[NumberedFile],
    reports: dict[int, SourceReport],
    new: dict[int, FileOfBin],
) -> RewrittenBin:
    sources = []
    for number, add in files:
        report = reports[number]
        sources.append(RewrittenFile(add, report.num_rows, report.dead, first_of(number), report.num_live))
    rewritten = RewrittenBin(tuple(sources), tuple(new[group] for group in planned.groups if group in new))
    rewritten.check(table.uri, table.version)
    return rewritten


# --- curves -----------------------------------------------------------------------------------------------------------


def _curves(
    workers: Workers,
    table: TaskTable,
    bins: Sequence[Bin],
    columns: ClusterColumns,
    target_bytes: int,
    on_progress: OnProgress,
) -> Iterator[_Planned]:
    counts = [sum(map(_rows_of, each.files)) for each in bins]
    items: list[SampledFiles] = []
    bin_of: list[int] = []
    for number, (each, count) in enumerate(zip(bins, counts, strict=True)):
        wanted = max(_SAMPLE_ROWS_MIN, _SAMPLE_ROWS * count // max(1, sum(counts)))
        measured = {add.path for add in each.files[:: -(-len(each.files) // _MEASURED_MAX)]}
        for part in parts_of(each.files):
            step = max(1, count // wanted)
            items.append(SampledFiles(step, part, [add for add in part if add.path in measured]))
            bin_of.append(number)
    samples: dict[int, list[KeySample]] = {number: [] for number in range(len(bins))}
    total, done = sum(len(item.adds) for item in items), 0
    for at, sample in workers.map(SampleKeys(table, columns), items):
        samples[bin_of[at]].append(sample)
        done += len(items[at].adds)
        on_progress("sampling files", done, total)
    first_group = 0
    for number, each in enumerate(bins):
        files = max(1, round(each.size_bytes / target_bytes))
        size_bytes = _row_bytes(samples[number]) * counts[number]
        parts_in_file = int(min(max(1, -(-size_bytes // (files * PART_BYTES))), max(1, _PARTS_MAX // files)))
        found = [pa.concat_arrays(arrays) for arrays in zip(*(one.columns for one in samples[number]), strict=True)]
        planned = _Planned(each, Curve.of(columns, found, files * parts_in_file), first_group, parts_in_file)
        first_group = planned.groups.stop
        yield planned


def _rows_of(add: Any) -> int:
    return num_records(add.stats) or add.size // _ROW_BYTES


def _row_bytes(samples: Sequence[KeySample]) -> float:
    """The mean size of a row in memory."""
    return sum(sample.size_bytes for sample in samples) / max(1, sum(sample.num_rows for sample in samples))


def _numbered(bins: Sequence[Bin]) -> list[list[NumberedFile]]:
    found: list[list[NumberedFile]] = []
    number = 0
    for each in bins:
        found.append([NumberedFile(number + at, add) for at, add in enumerate(each.files)])
        number += len(each.files)
    return found


def _in_parts(files: Sequence[NumberedFile]) -> Iterator[list[NumberedFile]]:
    left = iter(files)
    for part in parts_of([file.add for file in files]):
        yield [next(left) for _ in part]
