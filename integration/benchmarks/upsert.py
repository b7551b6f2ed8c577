"""Row changes: txlog's upserts, deletes and updates in both modes, compared with deltalake and Spark's Delta.

Each change runs in a fresh process (`benchmarks.upsert_work`) on a table of linked files, with a warm page cache;
Spark's in one session, after a small one to warm up. txlog changes rows on a table with the default properties, where
it copies files as deltalake does, and on one with deletion vectors. Spark's Delta has them too. txlog syncs what it
writes, the others do not.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measure import Bench, best_in_bold, fresh_process, markdown_table, p99, times
from benchmarks.upsert_race import UpsertRace, race, together
from benchmarks.upsert_tables import (
    BY_DEFAULT,
    LAYOUTS,
    TABLE_OF,
    VECTORS,
    WITH_VECTORS,
    WITHOUT_KEY_CACHE,
    key_of,
    linked,
    make_table,
    save,
    source_rows,
    tree_bytes,
)
from benchmarks.upsert_work import CONDITION, NEAR, STREAM_ROWS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TITLE = "Row changes"
CONTESTANTS = (WITH_VECTORS, BY_DEFAULT, "deltalake")
Samples: TypeAlias = "dict[tuple[str, str], list[dict[str, float]]]"
"""By the kind of change, and by contestant."""


def run(bench: Bench) -> str:
    rows, files, changed = bench.scale((5_000_000, 20, 50_000), (20_000, 4, 200))
    tables = {layout: bench.scratch / f"upsert-{layout}" for layout in LAYOUTS if layout not in TABLE_OF}
    for layout, path in tables.items():
        bench.say(f"making {rows:,} rows: {LAYOUTS[layout]}")
        make_table(bench.folder(path.name), layout, rows, files)
    found: Samples = {}
    sources = {
        layout: save(source_rows(layout, changed, rows), bench.folder(f"source-{layout}.arrow")) for layout in LAYOUTS
    }
    for layout, source in sources.items():
        what = f"upsert: {LAYOUTS[layout]}"
        _compare(bench, found, what, "upsert", tables[TABLE_OF.get(layout, layout)], source)
    fed = _with_feed(tables["random"], bench)
    _compare(bench, found, "upsert with the change feed: integers, in no order", "upsert", fed, sources["random"])
    for work in ("delete", "update"):
        _compare(bench, found, f"{work} of one row in a hundred", work, tables["random"], sources["random"])
    for groups in (1, 8):
        near = bench.folder(f"upsert-groups-{groups}")
        make_table(near, "clustered", rows, files, row_groups=groups)
        what = f"delete of near rows, row groups in each file: {groups}"
        _compare(bench, found, what, "delete_near", near, sources["clustered"])
    _by_spark(bench, found, tables, sources)
    parts = [_report(found, rows, files, changed), _stream(bench, tables["random"], rows), _races(bench)]
    return "\n\n".join(parts)


def _with_feed(table: Path, bench: Bench) -> Path:
    """A copy whose writers record each row before and after its change."""
    import txlog

    copy = linked(table, bench.scratch / "upsert-fed")
    txlog.Table.open(copy).set_properties({"delta.enableChangeDataFeed": "true"})
    return copy


def _compare(bench: Bench, found: Samples, what: str, work: str, table: Path, source: Path) -> None:
    for turn in range(bench.scale(3, 1)):
        at = turn % len(CONTESTANTS)
        for name in CONTESTANTS[at:] + CONTESTANTS[:at]:
            found.setdefault((what, name), []).extend(in_fresh_process(bench, what, work, name, table, source))
    bench.say(", ".join([what, *(f"{name} {_middle(found[what, name])['wall_ms']:.0f} ms" for name in CONTESTANTS)]))


def in_fresh_process(
    bench: Bench, what: str, work: str, name: str, table: Path, source: Path, rounds: int = 1
) -> list[dict[str, float]]:
    copy = linked(table, bench.scratch / "copy")
    os.sync()
    done = fresh_process("-m", "benchmarks.upsert_work", work, name, str(copy), str(source), str(rounds))
    samples: list[dict[str, float]] = json.loads(done.stdout.splitlines()[-1])
    for number, sample in enumerate(samples):
        bench.record(what=what, contestant=name, call=number, **sample)
    return samples


def _middle(samples: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {field: statistics.median(sample[field] for sample in samples) for field in samples[0]}


# --- Spark ----------------------------------------------------------------------------------------------------------


@contextmanager
def _session(bench: Bench) -> Iterator[SparkSession]:
    from benchmarks.spark import session

    with session(bench) as spark:
        yield spark


def _by_spark(bench: Bench, found: Samples, tables: Mapping[str, Path], sources: Mapping[str, Path]) -> None:
    """Each change once, since it is slow; the first one, on a small table, does not count."""
    if not bench.with_spark:
        return
    small = bench.folder("upsert-small")
    make_table(small, "random", 1_000, 2)
    with _session(bench) as spark:
        few = save(source_rows("random", 10, 1_000), bench.folder("source-small.arrow"))
        for work in ("upsert", "delete", "update"):
            _change_by_spark(bench, spark, work, small, few)
        for layout, source in sources.items():
            what = f"upsert: {LAYOUTS[layout]}"
            table = tables[TABLE_OF.get(layout, layout)]
            found[what, "Spark's Delta"] = [_change_by_spark(bench, spark, "upsert", table, source, what)]
        for work in ("delete", "update"):
            what = f"{work} of one row in a hundred"
            sample = _change_by_spark(bench, spark, work, tables["random"], sources["random"], what)
            found[what, "Spark's Delta"] = [sample]


def _change_by_spark(
    bench: Bench, spark: SparkSession, work: str, table: Path, source: Path, what: str = "warm-up"
) -> dict[str, float]:
    import txlog
    from benchmarks.measure import timed
    from benchmarks.upsert_tables import load

    copy = linked(table, bench.scratch / "copy")
    txlog.Table.open(copy).set_properties(VECTORS)
    rows = bench.folder("source.parquet")
    pq.write_table(load(source), rows)
    spark.read.parquet(str(rows)).createOrReplaceTempView("source")
    merge = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    statements = {
        "upsert": f"MERGE INTO delta.`{copy}` t USING source s ON t.id = s.id {merge}",
        "delete": f"DELETE FROM delta.`{copy}` WHERE {CONDITION}",
        "update": f"UPDATE delta.`{copy}` SET price = price + 1 WHERE {CONDITION}",
    }
    before_bytes = tree_bytes(copy)
    os.sync()
    took = timed(lambda: spark.sql(statements[work]).collect())
    sample = {"wall_ms": took.wall_ms, "written_mb": (tree_bytes(copy) - before_bytes) / 1e6}
    bench.record(what=what, contestant="Spark's Delta", **sample)
    bench.say(f"{what}, Spark's Delta {took.wall_ms:.0f} ms")
    return sample


# --- one after the other --------------------------------------------------------------------------------------------


def _stream(bench: Bench, table: Path, rows: int) -> str:
    """Small upserts in a row through one handle, with random keys: nine in ten from the table, one new."""
    calls = {
        WITH_VECTORS: bench.scale(102, 6),
        WITHOUT_KEY_CACHE: bench.scale(22, 3),
        BY_DEFAULT: bench.scale(7, 4),
        "deltalake": bench.scale(5, 2),
    }
    source = save(_stream_rows(rows, max(calls.values())), bench.folder("source-stream.arrow"))
    cells: dict[str, tuple[object, ...]] = {}
    middle_ms: dict[str, float] = {}
    for name, count in calls.items():
        samples = in_fresh_process(bench, "stream", "upsert", name, table, source, count)
        warm = samples[2:] if name in (WITH_VECTORS, BY_DEFAULT) else samples[1:]
        wall_ms = [sample["wall_ms"] for sample in warm]
        tenth = max(1, min(10, len(wall_ms) // 2))
        growth = statistics.median(wall_ms[-tenth:]) / statistics.median(wall_ms[:tenth])
        middle_ms[name] = statistics.median(wall_ms)
        first_ms = " / ".join(f"{sample['wall_ms']:.0f}" for sample in samples[:2])
        cells[name] = (
            *(len(wall_ms), first_ms, f"{middle_ms[name]:.1f} / {p99(wall_ms):.0f}", f"{growth:.2f}"),
            *(f"{_middle(warm)[field]:.1f}" for field in ("cpu_ms", "written_mb")),
            f"{max(sample['extra_mb'] for sample in samples):.0f}",
        )
        bench.say(f"stream, {name}: {middle_ms[name]:.0f} ms")
    header = ["upserts in a row", "counted", "first / second, ms", "p50 / p99, ms", "last tenth : first"]
    ratios = [times(middle_ms[name], middle_ms["deltalake"]) for name in (WITH_VECTORS, BY_DEFAULT)]
    lines = [(name, *cells[name]) for name in calls]
    return (
        f"{markdown_table([*header, 'CPU p50, ms', 'written each, MB', 'memory, MB'], lines)}\n\n{STREAM_ROWS:,} rows"
        f" each, by one handle. deltalake : txlog with vectors {ratios[0]}, by default"
        f" {ratios[1]}. txlog's second upsert reads the keys that"
        " later ones find in memory; it and the first are not counted. *without its key cache* has deletion vectors."
    )


def _stream_rows(of_table: int, calls: int) -> pa.Table:
    random = np.random.default_rng(9)
    old, new = STREAM_ROWS * 9 // 10, STREAM_ROWS // 10
    parts = []
    for call in range(calls):
        known = random.choice(of_table, old, replace=False)
        fresh = np.arange(of_table + call * new, of_table + (call + 1) * new)
        parts.append(np.concatenate([known, fresh]))
    rows = source_rows("random", STREAM_ROWS * calls, max(of_table, STREAM_ROWS * calls))
    return rows.set_column(0, "id", key_of("random", np.concatenate(parts)))


# --- at once --------------------------------------------------------------------------------------------------------


def _races(bench: Bench) -> str:
    """Three races of each, in turns: all failures, and the medians of the medians."""
    processes, upserts = bench.scale((8, 25), (2, 2))
    found: dict[str, list[UpsertRace]] = {}
    for turn in range(bench.scale(3, 1)):
        at = turn % len(CONTESTANTS)
        for name in CONTESTANTS[at:] + CONTESTANTS[:at]:
            one = race(bench, name, processes, upserts)
            found.setdefault(name, []).append(one)
            bench.record(what="race", contestant=name, failed=one.failed, wall_ms=one.wall_ms)
            bench.say(f"race, {name}: {one.failed} of {one.tried} failed")
    whole = {name: together(found[name]) for name in CONTESTANTS}
    lines = [(name, *whole[name].cells) for name in CONTESTANTS]
    header = [f"{processes} processes x {upserts} upserts", "failed", "reruns", "p50 / p99, ms", "keys once"]
    return (
        f"{markdown_table(header, lines)}\n\n500 rows each of the same 20,000 keys, default retries of both; races of"
        f" each, alternating, {bench.scale(3, 1)} in all. The times include those of upserts that failed."
    )


# --- the report -----------------------------------------------------------------------------------------------------


def _report(found: Samples, rows: int, files: int, changed: int) -> str:
    lines = []
    for what in dict.fromkeys(what for what, _ in found):
        middle = {name: _middle(samples) for (each, name), samples in found.items() if each == what}
        wall_ms = {name: sample["wall_ms"] for name, sample in middle.items()}
        seconds = best_in_bold(wall_ms.values(), [f"{each / 1e3:.2f}" for each in wall_ms.values()])
        cpu_s = [f" / {middle[name]['cpu_ms'] / 1e3:.2f}" for name in CONTESTANTS]
        lines.append(
            (
                what,
                *(wall + cpu for wall, cpu in zip(seconds, cpu_s, strict=False)),
                seconds[3] if len(seconds) > 3 else "",
                *(times(wall_ms[name], wall_ms["deltalake"]) for name in (WITH_VECTORS, BY_DEFAULT)),
                " / ".join(f"{middle[name]['written_mb']:.1f}" for name in CONTESTANTS),
                " / ".join(f"{middle[name]['extra_mb']:.0f}" for name in CONTESTANTS),
            )
        )
    header = [
        *("what", "txlog, deletion vectors: s / CPU s", "txlog, default (copies): s / CPU s", "deltalake: s / CPU s"),
        *("Spark's Delta, deletion vectors: s", "deltalake : txlog with vectors", "deltalake : txlog by default"),
        *("written, MB, in this order", "memory, MB, in this order"),
    ]
    return (
        f"{markdown_table(header, lines)}\n\nUpserts of {changed:,} rows, half of them new, into {rows:,} rows of ten"
        f" columns in {files} files; deletes and updates of `{CONDITION}`, and deletes of `{NEAR}` from files of which"
        " each is a range. Medians of three alternating rounds, each change in a fresh process, from opening the table"
        " on;"
        " Spark's once. Deletion vectors are off by default: `delta.enableDeletionVectors` turns them on. deltalake"
        " writes none. Bold marks the fastest in each row."
    )
