"""Compact 1,002 small files, and cluster a table by columns of equal and different types, compared with deltalake.

Every sample is a fresh copy of the table and a fresh process. Both write Snappy. txlog syncs what it writes. A
clustering is also judged by how many files may hold a box of a tenth of each column's values, by the bounds in the log.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import statistics
from pathlib import Path

import numpy as np
import pyarrow as pa

import txlog
from benchmarks.measure import Bench, best_in_bold, fresh_process, markdown_table, times

TITLE = "Compact and cluster"

_CONTESTANTS = ("txlog", "deltalake")
_CLUSTERINGS = {"two int64 columns": "x,y", "an int32, a double and an int64 column": "small,f,y"}


def run(bench: Bench) -> str:
    source = bench.folder("small-files")
    files, rows, rounds = bench.scale((1_002, 2_000, 5), (12, 100, 1))
    bench.say(f"writing {files:,} files of {rows:,} rows")
    table = txlog.Table.create(source, rows_of(0, 1).schema)
    for number in range(files):
        table.append(rows_of(number, rows))
    size_bytes = sum(table.snapshot().files().column("size").to_pylist())
    lines = [_line(bench, source, "compact", f"{files:,} files of {rows:,} rows into one", 128 << 20, rounds)]
    for words, columns in _CLUSTERINGS.items():
        lines.append(_line(bench, source, columns, f"cluster by {words}", size_bytes // 20, max(1, rounds - 2)))
    header = [
        *("", "txlog, s", "deltalake, s", "deltalake : txlog", "CPU, s: txlog / deltalake"),
        *("more memory, MB: txlog / deltalake", "share of files in a box: txlog / deltalake"),
    ]
    return markdown_table(header, lines)


def rows_of(seed: int, count: int) -> pa.Table:
    chance = np.random.default_rng(seed)
    return pa.table(
        {
            "id": np.arange(count) + seed * count,
            "x": chance.integers(0, 1_000_000, count),
            "y": chance.integers(0, 1_000_000, count),
            "small": chance.integers(0, 1_000_000, count, dtype=np.int32),
            "f": chance.random(count) * 1_000_000,
            "s": [f"customer {number}" for number in chance.integers(0, 10_000, count)],
        }
    )


def _line(bench: Bench, source: Path, work: str, words: str, target_bytes: int, rounds: int) -> list[str]:
    found: dict[str, list[dict[str, float]]] = {name: [] for name in _CONTESTANTS}
    shares = {}
    for turn in range(rounds):
        for name in _CONTESTANTS if turn % 2 == 0 else _CONTESTANTS[::-1]:
            copy = bench.folder(f"copy-{name}")
            shutil.copytree(source, copy)
            os.sync()
            reported = fresh_process(
                "-m", "benchmarks.compaction_work", work, name, str(copy), str(target_bytes)
            ).stdout
            found[name].append(json.loads(reported))
            bench.record(work=work, contestant=name, round=turn, **found[name][-1])
            shares[name] = None if work == "compact" else share_in_a_box(copy, work.split(","))
            shutil.rmtree(copy)
    median = {
        name: {key: statistics.median(sample[key] for sample in samples) for key in samples[0]}
        for name, samples in found.items()
    }
    ours, theirs = median["txlog"], median["deltalake"]
    boxes = "" if work == "compact" else " / ".join(_bold_shares([shares["txlog"], shares["deltalake"]]))
    walls_s = [each["wall_ms"] / 1e3 for each in (ours, theirs)]
    return [
        words,
        *best_in_bold(walls_s, [f"{each:.2f}" for each in walls_s]),
        times(ours["wall_ms"], theirs["wall_ms"]),
        f"{ours['cpu_ms'] / 1e3:.2f} / {theirs['cpu_ms'] / 1e3:.2f}",
        f"{ours['extra_mb']:.0f} / {theirs['extra_mb']:.0f}",
        boxes,
    ]


def _bold_shares(shares: list[float | None]) -> list[str]:
    known = [share for share in shares if share is not None]
    return best_in_bold(known, [f"{share:.1%}" for share in known])


def share_in_a_box(table: Path, columns: list[str]) -> float:
    """The mean over a hundred boxes, each with a tenth of each column's values."""
    snapshot, chance = txlog.Table.open(table).snapshot(), random.Random(1)
    total = snapshot.files().num_rows
    shares = []
    for _ in range(100):
        lows = {column: chance.randrange(900_000) for column in columns}
        box = " and ".join(f"{column} between {low} and {low + 100_000}" for column, low in lows.items())
        shares.append(snapshot.files(where=box).num_rows / total)
    return statistics.mean(shares)
