"""Processes that upsert rows with the same keys concurrently: what fails, what reruns, and how long it takes."""

from __future__ import annotations

import multiprocessing
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.measure import Bench, p99
from benchmarks.upsert_tables import VECTORS, WITH_VECTORS

KEYS, ROWS_EACH = 20_000, 500
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])


@dataclass(frozen=True, slots=True)
class UpsertRace:
    """``reexecutions`` is the average per upsert."""

    failed: int
    tried: int
    reexecutions: float
    wall_ms: list[float]
    is_right: bool
    """Whether the table has each key once."""

    @property
    def cells(self) -> tuple[str, ...]:
        return (
            f"{self.failed} of {self.tried}",
            f"{self.reexecutions:.1f}",
            f"{statistics.median(self.wall_ms):.0f} / {p99(self.wall_ms):.0f}",
            "yes" if self.is_right else "no",
        )


def together(races: Sequence[UpsertRace]) -> UpsertRace:
    """Several races as one: all attempts, and all times."""
    return UpsertRace(
        failed=sum(each.failed for each in races),
        tried=sum(each.tried for each in races),
        reexecutions=statistics.mean(each.reexecutions for each in races),
        wall_ms=[wall_ms for each in races for wall_ms in each.wall_ms],
        is_right=all(each.is_right for each in races),
    )


def race(bench: Bench, contestant: str, processes: int, upserts: int) -> UpsertRace:
    import txlog

    path = bench.folder("race")
    table = txlog.Table.create(path, SCHEMA, properties=VECTORS if contestant == WITH_VECTORS else {})
    for first in range(0, KEYS, KEYS // 4):
        table.append(_rows(np.arange(first, first + KEYS // 4), -1))
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(processes), context.Queue()
    workers = [
        context.Process(target=_work, args=(contestant, str(path), number, upserts, barrier, results))
        for number in range(processes)
    ]
    for worker in workers:
        worker.start()
    reported = [results.get() for _ in workers]
    for worker in workers:
        worker.join()
    ids = txlog.Table.open(path).snapshot().to_arrow(columns=["id"]).column("id")
    landed = sum(done for done, _, _ in reported)
    return UpsertRace(
        failed=processes * upserts - landed,
        tried=processes * upserts,
        reexecutions=sum(again for _, again, _ in reported) / max(1, landed),
        wall_ms=[each for _, _, samples in reported for each in samples],
        is_right=len(ids) == len(ids.unique()) == KEYS,
    )


def _work(contestant: str, path: str, number: int, upserts: int, barrier: Any, results: Any) -> None:
    upsert = _upsert_by(contestant, path)
    random = np.random.default_rng(number)
    samples, done, again = [], 0, 0
    barrier.wait()
    for call in range(upserts):
        rows = _rows(random.choice(KEYS, ROWS_EACH, replace=False), number * upserts + call)
        begin_s = time.monotonic()
        try:
            again += upsert(rows)
            done += 1
        except Exception as error:  # a failed attempt counts
            if done == call == 0:
                print(f"{contestant}: {error}"[:200], file=sys.stderr, flush=True)
        samples.append((time.monotonic() - begin_s) * 1e3)
    results.put((done, again, samples))


def _upsert_by(contestant: str, path: str) -> Any:
    if contestant != "deltalake":
        import txlog

        table = txlog.Table.open(path)
        return lambda rows: table.upsert(rows, ["id"]).metrics.reexecutions
    from deltalake import DeltaTable

    def merge(rows: pa.Table) -> int:
        merger = DeltaTable(path).merge(rows, "t.id = s.id", source_alias="s", target_alias="t")
        merger.when_matched_update_all().when_not_matched_insert_all().execute()
        return 0

    return merge


def _rows(ids: Any, value: int) -> pa.Table:
    return pa.table([pa.array(ids, pa.int64()), pa.array(np.full(len(ids), value), pa.int64())], schema=SCHEMA)
