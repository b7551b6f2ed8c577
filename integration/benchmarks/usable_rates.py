"""Usable throughput: which share of transactions succeeds as more are due, after C. Douglas' simulations of Iceberg.

Writers on machines of their own, one transaction a second each, work on one table on an object store behind a slow
network: appends to a random partition, and overwrites of one. One that fails, or ends late, has not succeeded. Catalogs
of Iceberg and DuckLake are on this machine, without the network's delay. Spark's Delta is not here: its commits on S3
need a lock service between processes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from postgres import Postgres, postgres
from servers import S3Server, start_server
from slow_network import slow_network

from benchmarks import process_tree
from benchmarks.measure import ROOT, Bench, markdown_table, p99, surroundings
from benchmarks.usable_rates_work import PATIENCE_S, SCHEMA, Place, open_writer

TITLE = "Usable throughput"

DELAY_S = 0.025
PEERS = {
    "txlog": "txlog, one handle each",
    "txlog-group": "txlog, group commit",
    "deltalake": "deltalake",
    "pyiceberg": "PyIceberg",
    "ducklake-sqlite": "DuckLake, SQLite",
    "ducklake-postgres": "DuckLake, PostgreSQL",
}
MIXES = {"appends alone": 0.0, "one overwrite in ten": 0.1, "as many overwrites as appends": 0.5}
_ONLY_TXLOG_ABOVE = 8
PLOT = ROOT / "docs" / "images" / "usable_rates.png"


@dataclass(frozen=True, slots=True)
class Rate:
    """What became of the transactions of one peer at one rate. The waits are of those that succeeded."""

    due: int
    waits_s: tuple[float, ...]
    errors: tuple[str, ...]
    cpu_s: float
    peak_mb: float
    sent_mb: float

    @property
    def share(self) -> float:
        return len(self.waits_s) / self.due


def run(bench: Bench) -> str:
    rates, seconds = bench.scale(((1, 4, 8, 16, 40), 10.0), ((2,), 2.0))
    mixes = bench.scale(tuple(MIXES), ("as many overwrites as appends",))
    found: dict[tuple[str, int, str], Rate] = {}
    with tempfile.TemporaryDirectory() as folder, postgres() as catalogs:
        names = [name for name in PEERS if catalogs or "postgres" not in name]
        with start_server("versitygw", Path(folder) / "server") as server:
            for mix in mixes:
                for rate in rates:
                    for name in names if rate <= _ONLY_TXLOG_ABOVE else names[:2]:
                        at = Path(folder) / f"{name}-{len(found)}"
                        one = _measured(server, catalogs, name, rate, seconds, MIXES[mix], at)
                        found[mix, rate, name] = one
                        _say(bench, mix, rate, name, one)
    plot = PLOT if not bench.quick else bench.scratch.parent / PLOT.name
    _plot(bench, found, mixes, names, plot)
    header = ["transactions", "a second", *(f"{PEERS[name]}: succeed" for name in names)]
    header += [
        "p99 wait, s, in this order",
        "CPU ms a transaction",
        "peak memory of a writer, MB",
        "sent kB a transaction",
    ]
    lines = [_line(mix, rate, names, found) for mix in mixes for rate in rates]
    return (
        f"{markdown_table(header, lines)}\n\n![Transactions that succeed, by rate](images/{PLOT.name})\n\nEach for"
        f" {seconds:.0f} s on a new table, on versitygw behind"
        f" {1000 * DELAY_S:.0f} ms of delay each way, one transaction a second of each writer, which has a machine"
        f" of its own; one that takes more than {PATIENCE_S:.0f} s has not succeeded. Rates above"
        f" {_ONLY_TXLOG_ABOVE} are txlog's alone. The rows of acknowledged transactions are checked at the end."
        " The last columns have the programs in the same order; their servers and catalogs do not count."
    )


def _line(mix: str, rate: int, names: Sequence[str], found: dict[tuple[str, int, str], Rate]) -> list[str]:
    line = [found.get((mix, rate, name)) for name in names]
    return [
        *(mix, str(rate)),
        *("" if each is None else f"{100 * each.share:.0f} %" for each in line),
        " / ".join("-" if not each.waits_s else f"{p99(each.waits_s):.1f}" for each in line if each),
        " / ".join(f"{1e3 * each.cpu_s / each.due:.0f}" for each in line if each),
        " / ".join(f"{each.peak_mb / rate:.0f}" for each in line if each),
        " / ".join(f"{1e3 * each.sent_mb / each.due:.1f}" for each in line if each),
    ]


def _plot(
    bench: Bench,
    found: dict[tuple[str, int, str], Rate],
    mixes: Sequence[str],
    names: Sequence[str],
    path: Path,
) -> None:
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        bench.say("no plot: matplotlib is not installed (pip install matplotlib)")
        return
    figure, axes = plt.subplots(1, len(mixes), figsize=(4 * len(mixes), 4.2), layout="constrained", squeeze=False)
    rates = sorted({rate for _, rate, _ in found})
    for axis, mix in zip(axes[0], mixes, strict=True):
        for name in names:
            points = [
                (rate, 100 * one.share) for (each, rate, peer), one in found.items() if (each, peer) == (mix, name)
            ]
            axis.plot(*zip(*points, strict=True), marker="o", label=PEERS[name])
        axis.set(title=mix, xscale="log", xlabel="transactions a second", ylabel="% that succeed", ylim=(0, 105))
        axis.set_xticks(rates, [str(rate) for rate in rates], minor=False)
        axis.set_xticks([], minor=True)
        axis.grid(alpha=0.3)
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=len(names), fontsize=8)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _say(bench: Bench, mix: str, rate: int, name: str, one: Rate) -> None:
    kinds = Counter(each.partition(":")[0] for each in one.errors)
    bench.say(f"{mix}, {rate} a second, {PEERS[name]}: {100 * one.share:.0f} % {dict(kinds) or ''}")
    facts = {"share": one.share, "cpu_s": one.cpu_s, "peak_mb": one.peak_mb, "sent_mb": one.sent_mb}
    bench.record(mix=mix, rate=rate, contestant=PEERS[name], **facts, errors=one.errors[:5])


def _measured(
    server: S3Server,
    catalogs: Postgres | None,
    name: str,
    rate: int,
    seconds: float,
    overwrites: float,
    folder: Path,
) -> Rate:
    folder.mkdir()
    catalog = str(folder / "iceberg.sqlite")
    if name.startswith("ducklake"):
        catalog = f"sqlite:{folder / 'ducklake.sqlite'}"
    if name == "ducklake-postgres":
        assert catalogs is not None
        catalog = f"postgres:{catalogs.new_database(folder.name.replace('-', '_'))}"
    place = Place(name, f"s3://{server.bucket}/{folder.name}", dict(server.storage_options), catalog)
    _make(place)
    with slow_network(server.url, DELAY_S) as network:
        slow = place._replace(options={**place.options, "endpoint_url": network.url})
        writers = [_start(slow, number, seconds, overwrites, folder) for number in range(rate)]
        try:
            for number, each in enumerate(writers):
                _ready(each, folder / f"errors-{number}")
            network.traffic()
            with process_tree.measured_peak([each.pid for each in writers]) as peak:
                reports = _reported(writers, seconds)
            sent_mb = network.traffic().sent_bytes / 1e6
        finally:
            for each in writers:
                each.kill()
                each.wait()
    done = [one for report in reports for one in report["done"]]
    _check(place, done, rate)
    good = [each for each in done if _succeeded(each)]
    return Rate(
        sum(report["due"] for report in reports),
        tuple(each["end_s"] - each["due_s"] for each in good),
        tuple(each["error"] or "late" for each in done if not _succeeded(each)),
        *(sum(report["cpu_s"] for report in reports), peak.mb, sent_mb),
    )


def _make(place: Place) -> None:
    if place.peer in ("txlog", "txlog-group", "deltalake"):
        import txlog

        properties = {"txlog.groupCommit": "true"} if place.peer == "txlog-group" else {}
        txlog.Table.create(
            place.uri, SCHEMA, partition_by=["part"], properties=properties, storage_options=place.options
        )
    else:
        open_writer(place)


def _start(place: Place, number: int, seconds: float, overwrites: float, folder: Path) -> subprocess.Popen[str]:
    machine = folder / f"machine-{number}"
    machine.mkdir()
    environment = {**surroundings(), "TMPDIR": str(machine), "OMP_NUM_THREADS": "1", "TOKIO_WORKER_THREADS": "1"}
    given = [json.dumps(place), str(number), "1.0", str(seconds), str(overwrites)]
    command = [sys.executable, "-m", "benchmarks.usable_rates_work", *given]
    pipe = subprocess.PIPE
    errors = (folder / f"errors-{number}").open("w")
    with errors:
        return subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=errors, text=True)


def _ready(writer: subprocess.Popen[str], errors: Path) -> None:
    assert writer.stdout is not None
    if writer.stdout.readline() != "ready\n":
        raise RuntimeError(f"a writer did not start: {errors.read_text()[-2000:]}")


def _reported(writers: Sequence[subprocess.Popen[str]], seconds: float) -> list[dict[str, Any]]:
    for each in writers:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
    return [json.loads(each.communicate(timeout=seconds + 6 * PATIENCE_S)[0]) for each in writers]


def _succeeded(one: dict[str, Any]) -> bool:
    return not one["error"] and one["end_s"] is not None and one["end_s"] - one["due_s"] <= PATIENCE_S


def _check(place: Place, done: Sequence[dict[str, Any]], writers: int) -> None:
    """Raise if a row is there twice, or an acknowledged one is not that no overwrite can have removed."""
    ids = open_writer(place).ids()
    if len(ids) != len(set(ids)):
        raise RuntimeError(f"{place.peer}: a row is there twice")
    last_overwrite: dict[int, float] = {}
    for one in done:
        if one["overwrite"]:
            last_overwrite[one["part"]] = max(last_overwrite.get(one["part"], 0.0), one["end_s"] or float("inf"))
    missing = [
        one
        for one in done
        if one["end_s"] is not None
        and not one["error"]
        and not one["overwrite"]
        and one["due_s"] > last_overwrite.get(one["part"], 0.0)
        and one["id"] not in set(ids)
    ]
    if missing:
        raise RuntimeError(f"{place.peer}: acknowledged and not there: {missing[:3]}")
