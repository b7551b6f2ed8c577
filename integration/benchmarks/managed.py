"""Append one row to a table that a catalog manages, beside the same by path, and open it at several versions.

The catalog is the stand-in of the test kit, in a process of its own: its time is named, since another server takes
another time for the same requests.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from unity_proxy import UnityProcess

import txlog
from benchmarks.measure import Bench, in_turns, markdown_table, p99, wall_p50
from benchmarks.tables import ONE_ROW
from txlog.unity.client import UnityClient

TITLE = "Managed tables: through a catalog, and by path"

NAME = "main.s.t"


def run(bench: Bench) -> str:
    server = UnityProcess(bench.folder("catalog"))
    try:
        catalog = txlog.Catalog(server.url)
        managed = catalog.create(NAME, ONE_ROW.schema)
        plain = txlog.Table.create(bench.folder("plain"), ONE_ROW.schema)
        rounds, warm_up = bench.scale((200, 20), (3, 1))
        with _requests() as asked:
            contestants: dict[str, Any] = {
                "by path": lambda: plain.append(ONE_ROW),
                "managed": lambda: managed.append(ONE_ROW),
            }
            samples = in_turns(bench, contestants, rounds, warm_up)
        calls = asked[-2 * rounds :]
        rows = [
            ("by path", f"{wall_p50(samples['by path']):.1f}", f"{_tail(samples['by path']):.0f}", "0", "-"),
            (
                "managed",
                f"{wall_p50(samples['managed']):.1f}",
                f"{_tail(samples['managed']):.0f}",
                f"{len(asked) / (rounds + warm_up):.1f}",
                f"{sum(calls) / rounds:.1f}",
            ),
        ]
        heads = ["one row", "p50, ms", "p99, ms", "requests to the catalog", "of these ms, waited for it"]
        return f"{markdown_table(heads, rows)}\n\n{_openings(bench, catalog)}"
    finally:
        server.kill()


def _tail(samples: list[Any]) -> float:
    return p99(sample.wall_ms for sample in samples)


def _openings(bench: Bench, catalog: txlog.Catalog) -> str:
    """How long it takes to open the table at a version, and with how many requests."""
    rows = []
    for version in bench.scale((1, 100, 10_000), (1, 10)):
        name = f"main.s.at{version}"
        table = catalog.create(name, ONE_ROW.schema)
        bench.say(f"growing a table to version {version:,}")
        while table.append(ONE_ROW).version != version:
            pass
        table._open_table.post_commit.drain()
        with _requests() as asked:
            rounds = bench.scale(30, 2)
            samples = in_turns(bench, {"open": lambda name=name: catalog.table(name)}, rounds, version=version)["open"]
        rows.append((f"{version:,}", f"{wall_p50(samples):.1f}", f"{len(asked) / rounds:.1f}"))
    return markdown_table(["versions", "open, p50 ms", "requests to the catalog"], rows)


@contextmanager
def _requests() -> Iterator[list[float]]:
    """The milliseconds of each request to the catalog in the block."""
    asked: list[float] = []
    real = UnityClient._exchange

    def exchange(self: Any, *given: Any) -> Any:
        began_s = time.perf_counter()
        try:
            return real(self, *given)
        finally:
            asked.append((time.perf_counter() - began_s) * 1e3)

    UnityClient._exchange = exchange  # type: ignore[method-assign]
    try:
        yield asked
    finally:
        UnityClient._exchange = real  # type: ignore[method-assign]
        assert not asked or statistics.median(asked) > 0
