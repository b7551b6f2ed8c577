"""Find the files that no commit names: a dry run of vacuum over 50,000 orphans, compared with deltalake's full one."""

from __future__ import annotations

import os
import time

import deltalake
import pyarrow as pa

import txlog
from benchmarks.measure import Bench, best_in_bold, cpu_p50, in_turns, markdown_table, times, wall_p50

TITLE = "Vacuum: find 50,000 orphans"

_OLD_S = 9 * 86_400


def run(bench: Bench) -> str:
    path = bench.folder("vacuum")
    orphans = bench.scale(50_000, 500)
    rounds, warm_up = bench.scale((15, 2), (2, 1))
    table = txlog.Table.create(path, "id bigint")
    table.append(pa.table({"id": [1]}))
    bench.say(f"writing {orphans:,} files that no commit names")
    old_s = time.time() - _OLD_S
    for number in range(orphans):
        name = path / f"part-{number:05d}-6d448e28-1c36-42ca-a4cd-468b28148dd1-c000.snappy.parquet"
        name.touch()
        os.utime(name, (old_s, old_s))
    other = deltalake.DeltaTable(path)
    found = in_turns(
        bench,
        {
            "txlog": lambda: table.vacuum(dry_run=True),
            "deltalake": lambda: other.vacuum(dry_run=True, full=True),
        },
        rounds,
        warm_up,
    )
    assert len(table.vacuum(dry_run=True).paths) == orphans
    ours, theirs = found["txlog"], found["deltalake"]
    rows = []
    for what, middle in (("wall", wall_p50), ("CPU", cpu_p50)):
        middle_ms = [middle(each) for each in (ours, theirs)]
        rows.append((what, *best_in_bold(middle_ms, [f"{each:.0f}" for each in middle_ms]), times(*middle_ms)))
    return markdown_table(
        [f"dry run, {orphans:,} orphans", "txlog p50, ms", "deltalake p50, ms", "deltalake : txlog"], rows
    )
