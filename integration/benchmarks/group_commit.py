"""Processes on machines of their own append to one table on an S3 server behind a slow network, with and without
`txlog.groupCommit`: at full speed, and with one append a second each.

An append that had not finished when the time was up counts as a wait too: what starves never finishes.
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

TITLE = "Appends of many machines as one version"

DELAY_S = 0.025
SETTINGS = ("off", "on")


def run(bench: Bench) -> str:
    # How many writers, and the seconds between two appends of each; 0: as fast as answers come.
    crowds, seconds = bench.scale(
        (((1, 0.0), (2, 0.0), (4, 0.0), (64, 0.0), (30, 1.0), (100, 1.0)), 30.0), (((2, 0.0), (3, 1.0)), 3.0)
    )
    races: dict[tuple[int, float, str], Race] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        start_server("versitygw", Path(folder) / "server") as server,
        slow_network(server.url, DELAY_S) as network,
    ):
        options = {**server.storage_options, "endpoint_url": network.url}
        for writers, period_s in crowds:
            for setting in SETTINGS:
                name = f"{setting}-{writers}"
                race = _race(
                    setting, f"s3://{server.bucket}/{name}", options, writers, period_s, seconds, Path(folder) / name
                )
                did = f"{race.per_s:.1f}/s, p99 {race.wait_s(0.99):.2f} s"
                bench.say(f"{setting}, {writers} writers, period {period_s:g} s: {did}")
                bench.record(
                    setting=setting,
                    writers=writers,
                    period_s=period_s,
                    appends=race.appends,
                    p50_s=race.wait_s(0.5),
                    p99_s=race.wait_s(0.99),
                    longest_s=race.longest_s,
                )
                races[writers, period_s, setting] = race
    return _report(races, crowds, seconds)


def _race(
    setting: str,
    uri: str,
    options: Mapping[str, str],
    writers: int,
    period_s: float,
    seconds: float,
    machines: Path,
) -> Race:
    import txlog

    properties = {"txlog.groupCommit": setting == "on"}
    txlog.Table.create(uri, {"id": pa.int64()}, properties=properties, storage_options=options)
    race = run_race("txlog", uri, options, writers, seconds, machines=machines, period_s=period_s)
    rows = txlog.Table.open(uri, storage_options=options).snapshot().count()
    if rows < sum(race.appends):
        raise AssertionError(f"{setting}: {sum(race.appends)} appends were acknowledged, the table has {rows}")
    return race


def _report(races: Mapping[tuple[int, float, str], Race], crowds: tuple[tuple[int, float], ...], seconds: float) -> str:
    rows = []
    for writers, period_s in crowds:
        line = [races[writers, period_s, setting] for setting in SETTINGS]
        rates = [round(race.per_s, 1) for race in line]
        rows.append(
            (
                str(writers),
                f"one in {period_s:g} s" if period_s else "full speed",
                *best_in_bold(rates, [f"{rate:.1f}" for rate in rates], is_most=True),
                *(f"{race.wait_s(0.99):.2f}" for race in line),
                *(f"{min(race.appends)} to {max(race.appends)}" for race in line),
            )
        )
    table = markdown_table(
        [
            "writers",
            "each appends",
            *(f"{setting}: appends/s" for setting in SETTINGS),
            *(f"{setting}: p99 wait, s" for setting in SETTINGS),
            *(f"{setting}: appends of a writer" for setting in SETTINGS),
        ],
        rows,
    )
    failed = ", ".join(
        f"{setting} {sum(races[writers, period_s, setting].failed for writers, period_s in crowds)}"
        for setting in SETTINGS
    )
    return (
        f"{table}\n\nEach race takes {seconds:.0f} s on a new table, on versitygw behind {1000 * DELAY_S:.0f} ms of"
        " delay each way; each writer is a process with a queue of its own, as on a machine of its own. A writer of"
        " one append a second has appended once before. Waits include appends that had not finished at the end."
        f" Appends that failed: {failed}."
    )
