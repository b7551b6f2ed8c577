"""Merges beside deltalake and Spark's Delta: by a range, a history of changes (SCD type 2), inserts without repeats.

Each merge runs once in a fresh process on a table of linked files; Spark's in one session, after a small one of each
kind. All leave the same number of rows, which is checked.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.measure import Bench, best_in_bold, fresh_process, markdown_table, timed
from benchmarks.merges_work import MERGES, make, source_of
from benchmarks.upsert_tables import BY_DEFAULT, VECTORS, WITH_VECTORS, linked, load, save

TITLE = "Merges"
CONTESTANTS = (WITH_VECTORS, BY_DEFAULT, "deltalake")
SPARK = "Spark's Delta"
_MOST_S = 60
"""A merge that takes longer is ended."""


def run(bench: Bench) -> str:
    rows, files, changed, ranges = bench.scale((5_000_000, 20, 100_000, 100), (20_000, 4, 200, 5))
    table = bench.folder("merges-table")
    bench.say(f"making {rows:,} rows")
    make(table, rows, files)
    sources = {
        work: save(source_of(work, changed, rows, ranges), bench.folder(f"merges-{work}.arrow")) for work in MERGES
    }
    cells: dict[tuple[str, str], dict[str, float] | None] = {}
    counts: dict[str, set[int]] = {work: set() for work in MERGES}
    for work, source in sources.items():
        for name in CONTESTANTS:
            copy = linked(table, bench.scratch / "copy")
            cells[work, name] = _in_fresh_process(bench, work, name, copy, source)
            if cells[work, name] is not None:
                counts[work].add(_rows_in(copy))
    if bench.with_spark:
        _by_spark(bench, table, sources, cells, counts)
    assert all(len(found) == 1 for found in counts.values()), counts
    words = {
        "range": f"{ranges:,} ranges, which hold {rows // 100:,} rows",
        "history": f"SCD type 2: {changed:,} changes",
        "deduplication": f"insert what is absent: {changed:,} rows, half of them there",
    }
    names = [*CONTESTANTS, *([SPARK] if bench.with_spark else [])]
    lines = [(words[work], *_shown([cells[work, name] for name in names])) for work in MERGES]
    memory = [(words[work], *(_memory(cells[work, name]) for name in CONTESTANTS)) for work in MERGES]
    return (
        f"{markdown_table([f'into {rows:,} rows', *(f'{name}, s' for name in names)], lines)}\n\n"
        f"{markdown_table(['memory, MB', *CONTESTANTS], memory)}\n\n"
        f"Each once. A merge that took longer than {_MOST_S} s was ended."
    )


def _shown(samples: list[dict[str, float] | None]) -> list[str]:
    wall_s = [math.inf if sample is None else sample["wall_ms"] / 1e3 for sample in samples]
    return best_in_bold(wall_s, [f"> {_MOST_S}" if math.isinf(each) else f"{each:.2f}" for each in wall_s])


def _memory(sample: dict[str, float] | None) -> str:
    return "" if sample is None else f"{sample['extra_mb']:.0f}"


def _rows_in(table: Path) -> int:
    import txlog

    return txlog.Table.open(table).count()


def _in_fresh_process(bench: Bench, work: str, name: str, table: Path, source: Path) -> dict[str, float] | None:
    os.sync()
    try:
        done = fresh_process(
            "-m", "benchmarks.merges_work", work, name, str(table), str(source), timeout_s=_MOST_S + 15
        )
    except subprocess.TimeoutExpired:
        bench.say(f"{work}, {name}: ended")
        return None
    sample: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    bench.record(what=work, contestant=name, **sample)
    bench.say(f"{work}, {name}: {sample['wall_ms']:.0f} ms")
    return sample


def _by_spark(
    bench: Bench,
    table: Path,
    sources: dict[str, Path],
    cells: dict[tuple[str, str], dict[str, float] | None],
    counts: dict[str, set[int]],
) -> None:
    import txlog
    from benchmarks.spark import session

    small = bench.folder("merges-small")
    make(small, 5_000, 2)
    with session(bench) as spark:
        for work, merge in MERGES.items():
            for whole in (False, True):
                copy = linked(table if whole else small, bench.scratch / "copy")
                txlog.Table.open(copy).set_properties(VECTORS)
                rows = bench.folder("merges-source.parquet")
                pq.write_table(load(sources[work]) if whole else source_of(work, 10, 5_000, 2), rows)
                spark.read.parquet(str(rows)).createOrReplaceTempView("source")
                statement = f"MERGE INTO delta.`{copy}` t USING source s ON {merge.on} {merge.sql}"
                os.sync()
                took = timed(lambda statement=statement: spark.sql(statement).collect())  # type: ignore[misc]
            cells[work, SPARK] = {"wall_ms": took.wall_ms, "extra_mb": 0.0}
            counts[work].add(_rows_in(copy))
            bench.record(what=work, contestant=SPARK, wall_ms=took.wall_ms)
            bench.say(f"{work}, {SPARK}: {took.wall_ms:.0f} ms")
