"""Processes on machines of their own append to one table at a pace, with and without `txlog.groupCommit`.

A hundred of them with one append a second each need more processors than a small machine has. So the large crowd has
everything eight times as slow: the round trips of an append and what of them overlaps stay as they are, and its CPU is
spread over eight times the time.
"""

from __future__ import annotations

from benchmarks.group_commit import (
    HEADINGS,
    SAID_OF_ALL,
    SETTINGS,
    WARM_UP_PERIODS,
    Crowd,
    cells,
    failures,
    run_crowds,
)
from benchmarks.measure import Bench, markdown_table

TITLE = "Appends of many machines at a pace"


def run(bench: Bench) -> str:
    crowds, seconds = bench.scale(
        ((Crowd(30, 0.025, 1.0), Crowd(100, 0.2, 8.0)), 40.0),
        ((Crowd(3, 0.025, 1.0),), 3.0),
    )
    races = run_crowds(bench, crowds, seconds)
    rows = [
        (
            str(crowd.writers),
            f"{crowd.period_s:g} s",
            f"{2000 * crowd.delay_s:.0f} ms",
            *cells(races, crowd),
            *(f"{races[crowd, setting].wait_s(0.99) / crowd.delay_s / 2:.0f}" for setting in SETTINGS),
        )
        for crowd in crowds
    ]
    headings = ["writers", "one append in", "round trip", *HEADINGS]
    headings += [f"{setting}: p99 in round trips" for setting in SETTINGS]
    return (
        f"{markdown_table(headings, rows)}\n\nEach race takes {seconds:.0f} s on a new table, on versitygw, after"
        f" {WARM_UP_PERIODS} appends of each writer that are not counted; {SAID_OF_ALL} {failures(races, crowds)}."
    )
