"""Appends of one machine to a table whose store takes time: threads on one handle, and processes.

Threads append to a store in memory that answers as late as an object store, so that nothing but txlog needs the
processors: once as txlog does, and once with every append committed alone. Processes append to an S3 server behind a
slow network. What had not finished when the time was up counts as a wait too.
"""

from __future__ import annotations

import random
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from fair_race import run_race
from servers import start_server
from slow_network import slow_network

import txlog
from benchmarks.measure import Bench, markdown_table
from txlog.core.definition import Definition, commit_definition, new_table
from txlog.core.store import TableStore
from txlog.core.store._base import OBJECT_STORE
from txlog.core.versions import OpenTable
from txlog.result import counted
from txlog.table import Table
from txlog.testing.memory_store import MemoryFileStore, MemoryLogStore

TITLE = "Appends of one machine to a store that answers late"

DELAY_S = 0.025
LATE_S = {"put_if_absent": 0.05, "put": 0.05, "write": 0.05, "read": 0.025, "stat": 0.025, "list_from": 0.04}
SPREAD = 0.3
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
    sizes, seconds = bench.scale(((1, 8, 64), 10.0), ((2,), 2.0))
    rows: list[tuple[str, ...]] = []
    for threads in sizes:
        for way in ("each alone", "together"):
            found = _threads(threads, seconds, is_alone=way == "each alone")
            bench.say(f"{threads} threads, {way}: {found.per_s:.1f}/s, p99 {found.wait_s(0.99):.3f} s")
            bench.record(threads=threads, way=way, appends=found.appends, waits_s=found.waits_s)
            rows.append((f"{counted(threads, 'thread')}, {way}", *_cells(found)))
    with (
        tempfile.TemporaryDirectory() as folder,
        start_server("versitygw", Path(folder) / "server") as server,
        slow_network(server.url, DELAY_S) as network,
    ):
        options = {**server.storage_options, "endpoint_url": network.url}
        processes = bench.scale(16, 2)
        uri = f"s3://{server.bucket}/processes"
        txlog.Table.create(uri, {"id": pa.int64()}, storage_options=options)
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
        f"{table}\n\nEach run takes {seconds:.0f} s on a new table. Threads: a store in memory where a put takes"
        f" {1000 * LATE_S['put']:.0f} ms, a read {1000 * LATE_S['read']:.0f} ms, each {SPREAD:.0%} more or less; their"
        f' waits are those after the first {WARM_S:.0f} s. "Each alone" is the same code with every append committed by'
        f" itself, as before. Processes: versitygw behind {1000 * DELAY_S:.0f} ms of delay each way. The longest wait"
        " includes appends that had not finished at the end."
    )


def _cells(run: Run) -> tuple[str, ...]:
    mean = sum(run.appends) / len(run.appends)
    waits = (f"{run.wait_s(share):.2f}" for share in (0.5, 0.99, 1.0))
    return f"{run.per_s:.1f}", f"{run.versions / run.seconds:.1f}", *waits, f"{min(run.appends)} of {mean:.1f}"


class _Late:
    """A store whose answers take time."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        found, late_s = getattr(self._inner, name), LATE_S.get(name)
        if late_s is None:
            return found

        def late(*given: Any, **named: Any) -> Any:
            time.sleep(late_s * random.uniform(1 - SPREAD, 1 + SPREAD))
            return found(*given, **named)

        return late


def _new_table(*, is_alone: bool) -> Table:
    log, files = MemoryLogStore(), MemoryFileStore()
    log.capabilities = OBJECT_STORE
    open_table = OpenTable(TableStore("memory://table", cast("Any", _Late(log)), cast("Any", _Late(files))))
    definition = Definition(*new_table(pa.schema([("id", pa.int64())]), (), {}))
    commit_definition(open_table, None, definition, "CREATE TABLE", {})
    if is_alone:
        committer: Any = open_table._committer
        committer.submit = committer.commit_alone
    return Table(open_table)


def _threads(threads: int, seconds: float, *, is_alone: bool) -> Run:
    table = _new_table(is_alone=is_alone)
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
    state = table._open_table.log.known_state
    done, versions = tuple(appends), state.version if state else 0
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
