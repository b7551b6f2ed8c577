"""Processes append to one table on an S3 server behind a slow network: whose commits land, and how long others wait.

An append that is unfinished when the time is up counts as a wait too: starving appends never finish.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
from fair_race import Race, run_race
from servers import start_server
from slow_network import slow_network

from benchmarks.measure import Bench, best_in_bold, markdown_table

TITLE = "Concurrent appends to an object store"

DELAY_S = 0.025
CONTESTANTS = ("txlog, one machine", "txlog, a machine each", "deltalake")


def run(bench: Bench) -> str:
    sizes, seconds = bench.scale(((1, 2, 4, 8, 16, 64), 30.0), ((1, 2), 3.0))
    races: dict[tuple[int, str], Race] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        start_server("versitygw", Path(folder) / "server") as server,
        slow_network(server.url, DELAY_S) as network,
    ):
        options = {**server.storage_options, "endpoint_url": network.url}
        for writers in sizes:
            for contestant in CONTESTANTS:
                uri = f"s3://{server.bucket}/{contestant.replace(', ', '-').replace(' ', '-')}-{writers}"
                race = _race(contestant, uri, options, writers, seconds, Path(folder))
                bench.say(f"{contestant}, {writers} writers: {race}")
                bench.record(contestant=contestant, writers=writers, appends=race.appends, longest_s=race.longest_s)
                races[writers, contestant] = race
    return _report(races, sizes, seconds)


def _race(contestant: str, uri: str, options: Mapping[str, str], writers: int, seconds: float, folder: Path) -> Race:
    import txlog

    txlog.Table.create(uri, {"id": pa.int64()}, storage_options=options)
    machines = folder / f"machines-{writers}" if "machine each" in contestant else None
    race = run_race(contestant.partition(",")[0], uri, options, writers, seconds, machines=machines)
    rows = txlog.Table.open(uri, storage_options=options).snapshot().count()
    if rows < sum(race.appends):
        raise AssertionError(f"{contestant}: {sum(race.appends)} appends were acknowledged, the table has {rows}")
    return race


def _report(races: Mapping[tuple[int, str], Race], sizes: tuple[int, ...], seconds: float) -> str:
    rows = []
    for writers in sizes:
        line = [races[writers, contestant] for contestant in CONTESTANTS]
        rows.append(
            (
                str(writers),
                *best_in_bold(
                    [round(race.per_s, 1) for race in line], [f"{race.per_s:.1f}" for race in line], is_most=True
                ),
                *(f"{min(race.appends)} of {sum(race.appends) / writers:.1f}" for race in line),
                *(f"{race.longest_s:.1f}" for race in line),
            )
        )
    table = markdown_table(
        [
            "writers",
            *(f"{contestant}: commits/s" for contestant in CONTESTANTS),
            *(f"{contestant}: fewest of mean" for contestant in CONTESTANTS),
            *(f"{contestant}: longest wait, s" for contestant in CONTESTANTS),
        ],
        rows,
    )
    failed = ", ".join(f"{name} {sum(races[size, name].failed for size in sizes)}" for name in CONTESTANTS)
    return (
        f"{table}\n\nEach race takes {seconds:.0f} s on a new table, on versitygw behind {1000 * DELAY_S:.0f} ms of"
        ' delay each way. "Fewest of mean" are the appends of the least-served writer and the mean of all. The longest'
        f" wait includes appends that had not finished at the end. Appends that failed: {failed}."
    )
