"""Appends of one machine to a table on an S3 server behind a slow network: threads on one handle, and processes.

Threads append as fast as they can, once as txlog does, and once with every append committed alone. What had not
finished when the time was up counts as a wait too.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from fair_race import run_race
from servers import start_server
from slow_network import slow_network

from benchmarks.measure import Bench, markdown_table

TITLE = "Appends of one machine to an object store"

DELAY_S = 0.025
WARM_S = 2.0


@dataclass(frozen=True, slots=True)
class Run:
    """What ``appends`` of each writer came to in ``seconds``, and how long each took."""

    seconds: float
    appends: tuple[int, ...]
    waits_s: tuple[float, ...]
    versions: int

    @property
    def per_s(self) -> float:
        return sum(self.appends) / self.seconds

    def wait_s(self, share: float) -> float:
        """The wait that this share of all appends did not exceed."""
        return sorted(self.waits_s)[min(len(self.waits_s) - 1, int(share * len(self.waits_s)))]


def run(bench: Bench) -> str:
    sizes, seconds = bench.scale(((1, 8, 64), 15.0), ((2,), 2.0))
    rows: list[tuple[str, ...]] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        start_server("versitygw", Path(folder) / "server") as server,
        slow_network(server.url, DELAY_S) as network,
    ):
        options = {**server.storage_options, "endpoint_url": network.url}
        for threads in sizes:
            for way in ("each alone", "together"):
                uri = f"s3://{server.bucket}/{way.replace(' ', '-')}-{threads}"
                found = _threads(uri, options, threads, seconds, is_alone=way == "each alone")
                bench.say(f"{threads} threads, {way}: {found.per_s:.1f}/s, p99 {found.wait_s(0.99):.3f} s")
                bench.record(threads=threads, way=way, appends=found.appends, waits_s=found.waits_s)
                rows.append((f"{threads} threads, {way}", *_cells(found)))
        processes = bench.scale(16, 2)
        uri = f"s3://{server.bucket}/processes"
        _create(uri, options)
        race = run_race("txlog", uri, options, processes, seconds)
        bench.say(f"{processes} processes: {race}")
        bench.record(processes=processes, appends=race.appends, longest_s=race.longest_s)
        rows.append(
            (
                f"{processes} processes, together",
                f"{race.per_s:.1f}",
                "",
                "",
                "",
                f"{race.longest_s:.2f}",
                f"{min(race.appends)} of {sum(race.appends) / processes:.1f}",
            )
        )
    table = markdown_table(
        ["writers", "appends/s", "versions/s", "p50, s", "p99, s", "longest wait, s", "fewest of mean"], rows
    )
    return (
        f"{table}\n\nEach run takes {seconds:.0f} s on a new table, on versitygw behind {1000 * DELAY_S:.0f} ms of"
        f' delay each way; the waits of threads are those after the first {WARM_S:.0f} s. "Each alone" is the same code'
        " with every append committed by itself, as before. The longest wait includes appends that had not finished at"
        " the end."
    )


def _cells(run: Run) -> tuple[str, ...]:
    mean = sum(run.appends) / len(run.appends)
    waits = (f"{run.wait_s(share):.2f}" for share in (0.5, 0.99, 1.0))
    return f"{run.per_s:.1f}", f"{run.versions / run.seconds:.1f}", *waits, f"{min(run.appends)} of {mean:.1f}"


def _create(uri: str, options: Mapping[str, str]) -> Any:
    import txlog

    return txlog.Table.create(uri, {"id": pa.int64()}, storage_options=options)


def _threads(uri: str, options: Mapping[str, str], threads: int, seconds: float, *, is_alone: bool) -> Run:
    table = _create(uri, options)
    if is_alone:
        table._open_table._committer = table._open_table._committer._lone
    row = pa.table({"id": pa.array([1], pa.int64())})
    appends, waits, began = [0] * threads, list[tuple[float, float]](), [0.0] * threads
    end_s = time.monotonic() + seconds

    def work(number: int) -> None:
        while (began_s := time.monotonic()) < end_s:
            began[number] = began_s
            table.append(row)
            ended_s = time.monotonic()
            if ended_s < end_s:
                appends[number] += 1
                waits.append((began_s, ended_s - began_s))

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    time.sleep(max(0.0, end_s - time.monotonic()))
    done, versions = tuple(appends), table._open_table.log.known_state.version
    unfinished = [(began_s, end_s - began_s) for began_s in began]
    for worker in workers:
        worker.join()
    late = [
        wait_s for began_s, wait_s in [*waits, *unfinished] if began_s > end_s - seconds + WARM_S or wait_s > WARM_S
    ]
    found = table.snapshot().count()
    if found < sum(done):
        raise AssertionError(f"{sum(done)} appends were acknowledged, the table has {found}")
    return Run(seconds, done, tuple(late or [seconds]), versions)
