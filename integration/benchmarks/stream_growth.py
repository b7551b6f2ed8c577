"""A thousand micro-batches of one query: does a batch take longer as the table grows?

`noop` writes nowhere: it shows how much Spark's own bookkeeping grows.
"""

from __future__ import annotations

import statistics

from benchmarks.measure import Bench, markdown_table
from benchmarks.spark import session
from benchmarks.stream import batches_of

TITLE = "Structured Streaming, a thousand micro-batches"


def run(bench: Bench) -> str:
    batches = bench.scale(1_000, 10)
    with session(bench) as spark:
        found = {name: batches_of(bench, spark, name, batches) for name in ("noop", "txlog")}
    tenth = max(1, batches // 10)
    header = ["sink", *(f"batches {start:,}-{start + tenth - 1:,}" for start in range(0, batches, tenth))]
    lines = [
        [name, *(f"{statistics.median(took_ms[at : at + tenth]):.0f}" for at in range(0, batches, tenth))]
        for name, took_ms in found.items()
    ]
    first, last = (statistics.median(found["txlog"][part]) for part in (slice(None, tenth), slice(-tenth, None)))
    return (
        f"{markdown_table(header, lines)}\n\nOne query each, one small file per micro-batch: the p50 of each tenth of"
        f" {batches:,} batches, in ms. txlog's last tenth takes {last / first:.2f} times its first."
    )
