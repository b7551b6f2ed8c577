"""A table that takes one upsert per second alongside `txlog maintain`: do its log and its files stay bounded?

A week is scaled down. The table's clock and file times are scripted, a second for each upsert, and the retention of
removed files is half of the run: the second half is the steady state, where files leave as fast as they come. The
commits, the files and the measured times are real. Commits stay in the log for at least a day, whatever the scale. The
checkpoint's content grows with the retention: `week_behind` then measures what a whole week leaves in it.
"""

from __future__ import annotations

import contextlib
import os
import random
import statistics
import time
from pathlib import Path

import pyarrow as pa

import txlog
from benchmarks import week_behind
from benchmarks.measure import Bench, markdown_table
from txlog.core import ambient

TITLE = "One upsert a second, with upkeep"

_WEEK_S = 604_800
_ROUND_EVERY = 60
_QUARTERS = 4


class _Clock(ambient.Ambient):
    """A second for each upsert, begun early enough to stay behind the store's clock: a vacuum refuses a clock that is
    ahead of it.
    """

    def __init__(self, seconds: int) -> None:
        self._moment_ms = super().now_ms() - seconds * 1000

    def now_ms(self) -> int:
        return self._moment_ms

    def pass_second(self) -> None:
        self._moment_ms += 1000

    def date_files(self, table: Path) -> None:
        """Give files below a table that are newer than this clock its time."""
        moment_s = self._moment_ms / 1000
        for each in (*table.iterdir(), *(table / "_delta_log").iterdir()):
            with contextlib.suppress(FileNotFoundError):  # a temporary file that has its final name by now
                if each.stat().st_mtime > moment_s:
                    os.utime(each, (moment_s, moment_s))


def run(bench: Bench) -> str:
    upserts, keys = bench.scale((6_000, 1_000_000), (240, 1_000))
    path = bench.folder("week")
    retention_s = upserts // 2
    clock = _Clock(upserts)
    with ambient.use(clock):
        table = _table(path, keys, retention_s=retention_s)
        maintainer = txlog.Table.open(path)
        chance = random.Random(1)
        lines = []
        for quarter in range(1, _QUARTERS + 1):
            took_ms: list[float] = []
            upkeep_s = 0.0
            for number in range(upserts // _QUARTERS):
                clock.pass_second()
                row = pa.table({"id": [chance.randrange(keys)], "value": [float(number)]})
                begin_s = time.perf_counter()
                table.upsert(row, ["id"])
                took_ms.append((time.perf_counter() - begin_s) * 1e3)
                if number % _ROUND_EVERY == _ROUND_EVERY - 1:
                    clock.date_files(path)
                    begin_s = time.perf_counter()
                    done = maintainer.maintain(vacuum_every_hours=upserts / 10 / 3600)
                    upkeep_s += time.perf_counter() - begin_s
                    assert not done.failures, done
            lines.append(_line(bench, path, quarter, took_ms, upkeep_s))
        assert table.count() == keys
        removes = week_behind.removes_in(path / "_delta_log", clock.now_ms() - retention_s * 1000)
    behind = bench.folder("week-behind")
    week_s, run_s = bench.scale((_WEEK_S, 150), (1_000, 60))
    _table(behind, keys, retention_s=week_s)
    after = week_behind.measure(bench, behind, removes, retention_s, week_s=week_s, run_s=run_s)
    header = [
        *("quarter of the run", "upsert p50, ms", "upkeep, share of a second", "read all rows, ms"),
        *("live files", "data files on disk", "removed files in the checkpoint", "its size, kB", "commits in the log"),
    ]
    reported = (
        f"{upserts:,} upserts of one row into {keys:,}, removed files kept for {retention_s:,} s: a week of seconds"
        f" has {_WEEK_S / retention_s:.0f} times as many of them in its checkpoints."
    )
    return f"{markdown_table(header, lines)}\n\n{reported}\n\n{after}"


def _table(path: Path, keys: int, *, retention_s: int) -> txlog.Table:
    properties = {
        "delta.enableDeletionVectors": "true",
        "delta.deletedFileRetentionDuration": f"interval {retention_s} seconds",
    }
    table = txlog.Table.create(path, "id bigint, value double", properties=properties)
    table.append(pa.table({"id": range(keys), "value": [0.0] * keys}))
    return table


def _line(bench: Bench, path: Path, quarter: int, took_ms: list[float], upkeep_s: float) -> list[str]:
    fresh = txlog.Table.open(path)
    begin_s = time.perf_counter()
    fresh.to_arrow()
    read_ms = (time.perf_counter() - begin_s) * 1e3
    log = path / "_delta_log"
    checkpoint = max(log.glob("*.checkpoint*.parquet"), default=None)
    state = fresh._open_table.log.newest_state()
    found = {
        "upsert_p50_ms": statistics.median(took_ms),
        "upkeep_share": upkeep_s / len(took_ms),
        "read_ms": read_ms,
        "live_files": fresh.snapshot().files().num_rows,
        "data_files": sum(1 for _ in path.glob("*.parquet")) + sum(1 for _ in path.glob("*.bin")),
        "tombstones": fresh._open_table.log.files_and_tombstones(state, with_stats=False)[1].num_rows,
        "checkpoint_kb": checkpoint.stat().st_size / 1e3 if checkpoint else 0.0,
        "commits": sum(1 for _ in log.glob("*.json")),
    }
    bench.record(quarter=quarter, **found)
    shares = f"{found['upsert_p50_ms']:.1f}", f"{found['upkeep_share']:.3f}", f"{read_ms:.0f}"
    counts = (f"{found[name]:,.0f}" for name in ("live_files", "data_files", "tombstones", "checkpoint_kb", "commits"))
    return [str(quarter), *shares, *counts]
