"""What each command waits for on an S3 server behind a slow network: round trips, requests and bytes.

A round trip takes 50 ms here and the server's own work a few, so a command's time divided by one request's time says
how many requests it waits for, one after another.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from servers import start_server
from slow_network import Traffic, slow_network

import txlog
from benchmarks.measure import Bench, best_in_bold, markdown_table

TITLE = "Round trips to an object store"

DELAY_S = 0.025
COMMITS = 24  # of the table: two checkpoints, and a few commits after the last one
ROWS = 100
CONTESTANTS = ("txlog", "deltalake")

Work = Callable[[], object]
Found = dict[tuple[str, str], tuple[float, Traffic]]


def run(bench: Bench) -> str:
    rounds = bench.scale(9, 2)
    found: Found = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        start_server("versitygw", Path(folder) / "server") as server,
        slow_network(server.url, DELAY_S) as network,
    ):
        direct = dict(server.storage_options)
        uris = {contestant: f"s3://{server.bucket}/{contestant}" for contestant in CONTESTANTS}
        for uri in uris.values():
            _grow(uri, direct)
        options = {**direct, "endpoint_url": network.url, "aws_conditional_put": "etag"}
        trip_s = _round_trip_s(uris["txlog"], options)
        for command, works in _commands(uris, options).items():
            for contestant, work in works.items():
                times, traffic = [], Traffic(0, 0, 0)
                for turn in range(rounds + 1):
                    ready = work()
                    network.traffic()
                    begun_s = time.perf_counter()
                    ready()
                    times.append(time.perf_counter() - begun_s)
                    traffic = network.traffic()
                    bench.record(command=command, contestant=contestant, round=turn, s=times[-1], traffic=traffic)
                found[command, contestant] = statistics.median(times[1:]) / trip_s, traffic
                bench.say(f"{command}, {contestant}: {found[command, contestant]}")
    return _report(found, rounds, trip_s)


def _grow(uri: str, options: Mapping[str, str]) -> None:
    table = txlog.Table.create(uri, {"id": pa.int64()}, storage_options=dict(options))
    for commit in range(COMMITS):
        table.append(_rows(commit))
    table._open_table.post_commit.drain()


def _rows(start: int) -> pa.Table:
    return pa.table({"id": pa.array(range(start * ROWS, (start + 1) * ROWS), pa.int64())})


def _round_trip_s(uri: str, options: Mapping[str, str]) -> float:
    """The time of one small request on an open connection."""
    from txlog.store.open import open_store

    log = open_store(uri, options).log
    times = []
    for _ in range(6):
        begun_s = time.perf_counter()
        log.read("_last_checkpoint")
        times.append(time.perf_counter() - begun_s)
    return statistics.median(times[1:])


def _commands(uris: Mapping[str, str], options: dict[str, str]) -> dict[str, dict[str, Callable[[], Work]]]:
    """For each command and contestant, a function that prepares the next measured call and returns it."""
    ours, theirs = uris["txlog"], uris["deltalake"]
    table = txlog.Table.open(ours, storage_options=options)
    delta = DeltaTable(theirs, storage_options=options)
    row = _rows(0).slice(0, 1)

    def ready_to_merge() -> Work:
        delta.update_incremental()
        return merge

    def merge() -> object:
        changes = delta.merge(_rows(1), "source.id = target.id", source_alias="source", target_alias="target")
        return changes.when_matched_update_all().when_not_matched_insert_all().execute()

    return {
        "append in an open handle": {
            "txlog": lambda: lambda: table.append(row),
            "deltalake": lambda: lambda: write_deltalake(delta, row, mode="append"),
        },
        "open and append": {
            "txlog": lambda: lambda: txlog.Table.open(ours, storage_options=options).append(row),
            "deltalake": lambda: lambda: write_deltalake(theirs, row, mode="append", storage_options=options),
        },
        "open and list the files": {
            "txlog": lambda: lambda: txlog.Table.open(ours, storage_options=options).snapshot().files(),
            "deltalake": lambda: lambda: DeltaTable(theirs, storage_options=options).file_uris(),
        },
        "upsert of 100 rows in an open handle": {
            "txlog": lambda: lambda: table.upsert(_rows(1), keys=["id"]),
            "deltalake": ready_to_merge,
        },
    }


def _report(found: Found, rounds: int, trip_s: float) -> str:
    rows = []
    for command in dict.fromkeys(command for command, _ in found):
        line = [found[command, contestant] for contestant in CONTESTANTS]
        trips = [round(trips, 1) for trips, _ in line]
        rows.append(
            (
                command,
                *best_in_bold(trips, [f"{each:.1f}" for each in trips]),
                *(f"{traffic.requests:,}" for _, traffic in line),
                *(f"{(traffic.sent_bytes + traffic.received_bytes) / 1e3:,.1f}" for _, traffic in line),
            )
        )
    header = ["command", *(f"{name}: {what}" for what in ("round trips", "requests", "kB") for name in CONTESTANTS)]
    return (
        f"{markdown_table(header, rows)}\n\nThe median time of {rounds} calls, divided by the time of one request"
        f" ({1000 * trip_s:.0f} ms), on versitygw behind {1000 * DELAY_S:.0f} ms of delay each way; the table has"
        f" {COMMITS} commits of {ROWS} rows, made by txlog, at the beginning. Requests and bytes are from the last"
        " call, including what follows a commit."
    )
