"""Processes on machines of their own append to one table on an S3 server behind a slow network, with and without
`txlog.groupCommit`, at full speed. Those that append at a pace are in `paced`.

An append that had not finished when the time was up counts as a wait too: what starves never finishes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from fair_race import Race, run_race
from servers import start_server
from slow_network import slow_network

from benchmarks.measure import Bench, best_in_bold, markdown_table

TITLE = "Appends of many machines as one version"

SETTINGS = ("off", "on")
WARM_UP_PERIODS = 4


class Crowd(NamedTuple):
    """How many writers, the delay of the network each way, and the time between two appends of each writer; 0: as fast
    as answers come."""

    writers: int
    delay_s: float = 0.025
    period_s: float = 0.0


def run(bench: Bench) -> str:
    crowds, seconds = bench.scale(
        ((Crowd(1), Crowd(2), Crowd(4), Crowd(64)), 30.0),
        ((Crowd(2),), 3.0),
    )
    races = run_crowds(bench, crowds, seconds)
    rows = [(str(crowd.writers), *cells(races, crowd)) for crowd in crowds]
    table = markdown_table(["writers", *HEADINGS], rows)
    return (
        f"{table}\n\nEach race takes {seconds:.0f} s on a new table, on versitygw"
        f" behind {1000 * crowds[0].delay_s:.0f} ms of delay each way; {SAID_OF_ALL} {failures(races, crowds)}."
    )


SAID_OF_ALL = (
    "each writer is a process with its own queue, as if it had its own machine. Waits include appends that had not"
    " finished at the end. Appends that failed:"
)
HEADINGS = (
    *(f"{setting}: appends/s" for setting in SETTINGS),
    *(f"{setting}: p99 wait, s" for setting in SETTINGS),
    *(f"{setting}: appends of a writer" for setting in SETTINGS),
)


def run_crowds(bench: Bench, crowds: Sequence[Crowd], seconds: float) -> dict[tuple[Crowd, str], Race]:
    """The race of each crowd with each setting, on one server."""
    races: dict[tuple[Crowd, str], Race] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        start_server("versitygw", Path(folder) / "server") as server,
    ):
        for number, crowd in enumerate(crowds):
            with slow_network(server.url, crowd.delay_s) as network:
                options = {**server.storage_options, "endpoint_url": network.url}
                for setting in SETTINGS:
                    name = f"{setting}-{number}"
                    uri = f"s3://{server.bucket}/{name}"
                    race = races[crowd, setting] = _race(setting, uri, options, crowd, seconds, Path(folder) / name)
                    did = f"{race.per_s:.1f}/s, p99 {race.wait_s(0.99):.2f} s"
                    bench.say(f"{setting}, {crowd.writers} writers, period {crowd.period_s:g} s: {did}")
                    bench.record(
                        setting=setting,
                        **crowd._asdict(),
                        appends=race.appends,
                        p50_s=race.wait_s(0.5),
                        p99_s=race.wait_s(0.99),
                        longest_s=race.longest_s,
                        failed=race.failed,
                    )
    return races


def _race(setting: str, uri: str, options: Mapping[str, str], crowd: Crowd, seconds: float, machines: Path) -> Race:
    import txlog

    properties = {"txlog.groupCommit": setting == "on"}
    txlog.Table.create(uri, {"id": pa.int64()}, properties=properties, storage_options=options)
    race = run_race(
        *("txlog", uri, options, crowd.writers, seconds),
        machines=machines,
        period_s=crowd.period_s,
        warm_up_s=WARM_UP_PERIODS * crowd.period_s,
    )
    rows = txlog.Table.open(uri, storage_options=options).snapshot().count()
    if rows < sum(race.appends):
        raise AssertionError(f"{setting}: {sum(race.appends)} appends were acknowledged, the table has {rows}")
    return race


def cells(races: Mapping[tuple[Crowd, str], Race], crowd: Crowd) -> tuple[str, ...]:
    """One crowd under `HEADINGS`."""
    line = [races[crowd, setting] for setting in SETTINGS]
    rates = [round(race.per_s, 1) for race in line]
    return (
        *best_in_bold(rates, [f"{rate:.1f}" for rate in rates], is_most=True),
        *(f"{race.wait_s(0.99):.2f}" for race in line),
        *(f"{min(race.appends)} to {max(race.appends)}" for race in line),
    )


def failures(races: Mapping[tuple[Crowd, str], Race], crowds: Sequence[Crowd]) -> str:
    """How many appends failed, by setting."""
    return ", ".join(f"{setting} {sum(races[crowd, setting].failed for crowd in crowds)}" for setting in SETTINGS)
