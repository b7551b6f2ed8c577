"""Iceberg metadata: what an export costs after one commit, after many, and for a table with many files.

The first part commits and exports in turns, and appends the same rows to an Iceberg table with PyIceberg, whose commit
reads the metadata again. A commit's background work, such as a checkpoint, ends before the export begins, so its CPU
does not count. The last part exports logs with files that were never written: no export opens a data file.

Run as a program it is one export in full: `python -m benchmarks.iceberg TABLE`.
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

import txlog
from benchmarks.log_scale import make_seed
from benchmarks.measure import (
    Bench,
    Sample,
    cpu_p50,
    fresh_process,
    markdown_table,
    p99,
    peak_mb,
    timed,
    times,
    wall_p50,
)

TITLE = "Iceberg metadata"

_COLUMNS = 11
_SOME = 100  # commits whose median is shown separately: the cost must not grow


def run(bench: Bench) -> str:
    commits = bench.scale(1_000, 30)
    ours = _one_by_one(bench, commits)
    first, second, last = _of_ages(bench, (0, _SOME, commits - _SOME) if commits > _SOME else (0, 1, 2))
    theirs = _by_pyiceberg(bench, bench.scale(200, 10))
    catch_up = _catch_up(bench, bench.scale(500, 20))
    rows = [
        _row(f"export after each of {commits:,} commits", ours),
        _row(f"the last {min(_SOME, commits)} of them", ours[-_SOME:]),
        _row("PyIceberg appends the same rows", theirs),
    ]
    per_commit = markdown_table(["", "CPU p50, ms", "CPU p99, ms", "wall p50, ms", "CPU in all, s"], rows)
    scratch = [_whole(bench, files) for files in bench.scale((100_000, 1_000_000), (1_000,))]
    whole = [
        (f"catch up with {bench.scale(500, 20):,} commits", f"{catch_up.cpu_ms / 1e3:.2f}", "", ""),
        *(
            (
                f"export {each.files:,} files from scratch",
                f"{each.cpu_s:.1f}",
                f"{each.peak_mb:.0f}",
                f"{each.size_mb:.1f}",
            )
            for each in scratch
        ),
    ]
    ratio = times(cpu_p50(ours[-_SOME:]), cpu_p50(theirs))
    return "\n\n".join(
        [
            per_commit,
            f"PyIceberg's append, with the data file it writes, takes {ratio} the CPU of an export.",
            _by_hundreds(ours),
            f"In turns on three tables of different ages, the last {_SOME} exports take"
            f" {cpu_p50(last) / cpu_p50(second):.2f} times the CPU of the second {_SOME}, and"
            f" {cpu_p50(last) / cpu_p50(first):.2f} times that of the first {_SOME}, before which the table had no"
            " snapshots to keep.",
            markdown_table(["", "CPU, s", "MB at most", "MB of metadata"], whole),
        ]
    )


def _row(name: str, samples: list[Sample]) -> tuple[str, str, str, str, str]:
    return (
        name,
        f"{cpu_p50(samples):.2f}",
        f"{p99(sample.cpu_ms for sample in samples):.1f}",
        f"{wall_p50(samples):.2f}",
        f"{sum(sample.cpu_ms for sample in samples) / 1e3:.2f}",
    )


def _rows(number: int) -> pa.Table:
    """Ten rows of eleven columns."""
    ids = range(10 * number, 10 * number + 10)
    return pa.table({f"c{at}": list(ids) if at % 2 else [f"s{each}" for each in ids] for at in range(_COLUMNS)})


def _by_hundreds(samples: list[Sample]) -> str:
    parts = [samples[at : at + _SOME] for at in range(0, len(samples), _SOME)]
    header = ["exports", *(f"{at * _SOME + 1:,} to {at * _SOME + len(part):,}" for at, part in enumerate(parts))]
    rows = [
        ["CPU p50, ms", *(f"{cpu_p50(part):.2f}" for part in parts)],
        ["CPU p99, ms", *(f"{p99(sample.cpu_ms for sample in part):.1f}" for part in parts)],
    ]
    return markdown_table(header, rows)


def _one_by_one(bench: Bench, commits: int) -> list[Sample]:
    table = _exported(bench.folder("one-by-one"), 0)
    samples = []
    for number in range(commits):
        samples.append(_export_of(table, number))
        bench.record(contestant="txlog", number=number, wall_ms=samples[-1].wall_ms, cpu_ms=samples[-1].cpu_ms)
    return samples


def _of_ages(bench: Bench, ages: tuple[int, ...]) -> list[list[Sample]]:
    """Exports of tables with different numbers of earlier exports, in turns, so a busy moment of the machine affects
    all."""
    tables = [_exported(bench.folder(f"of-age-{age}"), age) for age in ages]
    samples: list[list[Sample]] = [[] for _ in ages]
    for number in range(bench.scale(_SOME, 5)):
        for table, age, found in zip(tables, ages, samples, strict=True):
            found.append(_export_of(table, age + number))
            sample = found[-1]
            bench.record(contestant="txlog", age=age, number=number, wall_ms=sample.wall_ms, cpu_ms=sample.cpu_ms)
    return samples


def _exported(path: Path, commits: int) -> txlog.Table:
    """A table that was exported after each of its commits."""
    table = txlog.Table.create(path, _rows(0).schema)
    table.export_iceberg()
    for number in range(commits):
        _export_of(table, number)
    return table


def _export_of(table: txlog.Table, number: int) -> Sample:
    """Commit, wait for the background work, and export."""
    table.append(_rows(number))
    table._open_table.post_commit.drain()
    return timed(table.export_iceberg)


def _by_pyiceberg(bench: Bench, commits: int) -> list[Sample]:
    from pyiceberg.catalog.memory import InMemoryCatalog

    folder = bench.folder("pyiceberg")
    folder.mkdir()
    catalog = InMemoryCatalog("bench", warehouse=f"file://{folder}")
    catalog.create_namespace("ns")
    table = catalog.create_table("ns.t", _rows(0).schema)
    samples = []
    for number in range(commits):
        rows = _rows(number)
        samples.append(timed(lambda rows=rows: table.append(rows)))  # type: ignore[misc]
        bench.record(contestant="pyiceberg", number=number, wall_ms=samples[-1].wall_ms, cpu_ms=samples[-1].cpu_ms)
    return samples


def _catch_up(bench: Bench, commits: int) -> Sample:
    table = txlog.Table.create(bench.folder("catch-up"), _rows(0).schema)
    table.export_iceberg()
    for number in range(commits):
        table.append(_rows(number))
    sample = timed(table.export_iceberg)
    bench.record(contestant="txlog", catch_up=commits, wall_ms=sample.wall_ms, cpu_ms=sample.cpu_ms)
    return sample


@dataclass(frozen=True, slots=True)
class _Whole:
    """A table exported in full, in a separate process."""

    files: int
    cpu_s: float
    peak_mb: float
    size_mb: float


def _whole(bench: Bench, files: int) -> _Whole:
    table = bench.folder("whole")
    bench.say(f"making a log of {files:,} files")
    make_seed(table, files, version=1)
    found = []
    for turn in range(bench.scale(3, 1)):
        shutil.rmtree(table / "_iceberg", ignore_errors=True)
        found.append(json.loads(fresh_process("-m", "benchmarks.iceberg", str(table)).stdout))
        bench.record(contestant="txlog", files=files, round=turn, **found[-1])
    size = sum(path.stat().st_size for path in (table / "_iceberg/metadata").iterdir())
    cpu_s, most_mb = (statistics.median(each[key] for each in found) for key in ("cpu_s", "peak_mb"))
    return _Whole(files, cpu_s, most_mb, size / 1e6)


def _export(path: Path) -> None:
    sample = timed(txlog.Table.open(path).export_iceberg)
    print(json.dumps({"cpu_s": sample.cpu_ms / 1e3, "wall_s": sample.wall_ms / 1e3, "peak_mb": peak_mb()}))


if __name__ == "__main__":
    _export(Path(sys.argv[1]))
