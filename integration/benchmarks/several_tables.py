"""Transactions over several tables: how long they take, and how long other engines can see a part of one alone.

That moment lies between the deciding commit and the last part. It is read from the times at which the disk, or the disk
of the S3 server, got the files of these versions.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from servers import start_server
from slow_network import slow_network

import txlog
from benchmarks.measure import Bench, markdown_table, timed

TITLE = "Transactions over several tables"
_ROW = pa.table({"id": pa.array([1], pa.int64())})
_NUMBERS = (2, 3, 9)
_DELAY_S = 0.05


def run(bench: Bench) -> str:
    found = []
    for number in _NUMBERS:
        folder = bench.folder(f"several-{number}")
        found.append(_measured(bench, "local disk", number, str(folder), folder, {}, bench.scale(50, 2)))
    with (
        tempfile.TemporaryDirectory() as folder,
        start_server("versitygw", Path(folder) / "server") as server,
        slow_network(server.url, _DELAY_S) as network,
    ):
        options = {**server.storage_options, "endpoint_url": network.url}
        for number in _NUMBERS:
            uri, objects = (
                f"s3://{server.bucket}/several-{number}",
                server.objects / server.bucket / f"several-{number}",
            )
            found.append(_measured(bench, "S3, 50 ms each way", number, uri, objects, options, bench.scale(10, 1)))
    header = ["store", "tables", "one transaction", "decision to last part", "the longest"]
    return f"{markdown_table(header, found)}\n\nOne row for each table; medians."


def _measured(
    bench: Bench, store: str, number: int, uri: str, folder: Path, options: Mapping[str, str], times: int
) -> Sequence[object]:
    names = [f"t{at}" for at in range(number)]
    for name in names:
        txlog.Table.create(f"{uri}/{name}", {"id": pa.int64()}, storage_options=options)
    tables = [txlog.Table.open(f"{uri}/{name}", storage_options=options) for name in names]
    took_ms, gaps_ms = [], []
    for _ in range(times):
        took_ms.append(timed(lambda: _append(tables)).wall_ms)
        put_ms = [_put_ms(folder / name / "_delta_log", table) for name, table in zip(names, tables, strict=True)]
        decided = max(range(number), key=lambda at: tables[at].table_id)
        gaps_ms.append(max(put_ms) - put_ms[decided])
    bench.record(store=store, tables=number, took_ms=took_ms, gaps_ms=gaps_ms)
    medians = (f"{statistics.median(each):.0f} ms" for each in (took_ms, gaps_ms))
    return store, number, *medians, f"{max(gaps_ms):.0f} ms"


def _append(tables: Sequence[txlog.Table]) -> None:
    with txlog.transaction(tables) as txn:
        for member in txn:
            member.append(_ROW)


def _put_ms(log: Path, table: txlog.Table) -> float:
    """When the store got the table's newest version."""
    return (log / f"{table.version:020}.json").stat().st_ctime_ns / 1e6
