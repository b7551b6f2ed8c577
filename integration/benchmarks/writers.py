"""Several processes append single rows to one table concurrently: commits per second, what fails, what gets lost."""

from __future__ import annotations

import contextlib
import multiprocessing
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure import Bench, best_in_bold, markdown_table, p99, times
from benchmarks.tables import ONE_ROW

TITLE = "Concurrent appends"

LIBRARIES = ("txlog", "deltalake")


@dataclass(frozen=True, slots=True)
class Race:
    """The result of one race of ``processes``; ``lost`` rows were acknowledged but are not in the table."""

    commits_per_s: float
    failed: int
    tried: int
    lost: int
    wall_ms: list[float]


def run(bench: Bench) -> str:
    sizes = bench.scale({1: 100, 4: 50, 16: 25}, {1: 3, 2: 3})
    rounds = bench.scale(3, 1)
    races: dict[tuple[str, int], list[Race]] = {}
    for turn in range(rounds):
        for processes, appends in sizes.items():
            for library in LIBRARIES if turn % 2 == 0 else LIBRARIES[::-1]:
                race = race_of(bench.folder(f"writers-{library}"), library, processes, appends)
                bench.say(f"{library}, {processes} processes: {race.commits_per_s:.1f} commits/s, {race.failed} failed")
                bench.record(library=library, processes=processes, round=turn, **fields(race))
                races.setdefault((library, processes), []).append(race)
    return _report(races, sizes, rounds)


def race_of(path: Path, library: str, processes: int, appends: int, schema: object = ONE_ROW.schema) -> Race:
    """Let processes append to a new table with this schema, which may have columns that the row lacks."""
    import txlog

    txlog.Table.create(path, schema)
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(processes), context.Queue()
    workers = [
        context.Process(target=_work, args=(library, str(path), appends, barrier, results)) for _ in range(processes)
    ]
    for worker in workers:
        worker.start()
    reported = [results.get() for _ in workers]
    for worker in workers:
        worker.join()
    took_s = max(end for _, end, _, _ in reported) - min(begin for begin, _, _, _ in reported)
    wall_ms = [sample for _, _, samples, _ in reported for sample in samples]
    acknowledged = sum(done for _, _, _, done in reported)
    return Race(
        commits_per_s=acknowledged / took_s,
        failed=processes * appends - acknowledged,
        tried=processes * appends,
        lost=acknowledged - _rows_in(path),
        wall_ms=wall_ms,
    )


def _work(library: str, path: str, appends: int, barrier: Any, results: Any) -> None:
    """One process: when all begin, its handle is open and has appended nothing."""
    append = _append_with(library, path)
    samples, done = [], 0
    barrier.wait()
    begin_s = time.monotonic()
    for _ in range(appends):
        before_s = time.monotonic()
        with contextlib.suppress(Exception):  # a failed attempt counts
            append()
            done += 1
        samples.append((time.monotonic() - before_s) * 1e3)
    results.put((begin_s, time.monotonic(), samples, done))


def _append_with(library: str, path: str) -> Callable[[], object]:
    if library == "txlog":
        import txlog

        table = txlog.Table.open(path)
        return lambda: table.append(ONE_ROW)
    from deltalake import DeltaTable, write_deltalake

    handle = DeltaTable(path)
    return lambda: write_deltalake(handle, ONE_ROW, mode="append")


def _rows_in(path: Path) -> int:
    """What deltalake reads from the table, whichever engine wrote it."""
    from deltalake import DeltaTable

    return int(DeltaTable(path).to_pyarrow_table().num_rows)


def fields(race: Race) -> dict[str, Any]:
    return {name: getattr(race, name) for name in Race.__slots__}


def _report(races: dict[tuple[str, int], list[Race]], sizes: dict[int, int], rounds: int) -> str:
    rows = []
    for processes, appends in sizes.items():
        ours, theirs = (races[library, processes] for library in LIBRARIES)
        speeds = [statistics.median(race.commits_per_s for race in each) for each in (ours, theirs)]
        rows.append(
            (
                f"{processes} x {appends}",
                *best_in_bold(speeds, [f"{each:.0f}" for each in speeds], is_most=True),
                times(speeds[1], speeds[0]),
                *[_failures(each) for each in (ours, theirs)],
                *[_latency(each) for each in (ours, theirs)],
            )
        )
    table = markdown_table(
        [
            "processes x appends",
            "txlog commits/s",
            "deltalake commits/s",
            "txlog : deltalake",
            "txlog failed",
            "deltalake failed",
            "txlog p50 / p99, ms",
            "deltalake p50 / p99, ms",
        ],
        rows,
    )
    lost = {
        library: sum(race.lost for (name, _), each in races.items() if name == library for race in each)
        for library in LIBRARIES
    }
    return (
        f"{table}\n\nMedians of {rounds} races on new tables, default retries of both. Acknowledged rows that the table"
        f" lacks: txlog {lost['txlog']}, deltalake {lost['deltalake']}."
    )


def _failures(races: list[Race]) -> str:
    failed, tried = sum(race.failed for race in races), sum(race.tried for race in races)
    return f"{failed} of {tried} ({100 * failed / tried:.1f} %)"


def _latency(races: list[Race]) -> str:
    wall_ms = [sample for race in races for sample in race.wall_ms]
    return f"{statistics.median(wall_ms):.1f} / {p99(wall_ms):.0f}"
