"""A one-row append through an open handle, at versions far apart: is its cost the same, and close to the disk's?

Four contestants in turns, each on its own copy of the same table: txlog, deltalake, and the *floor*: what every
durable append needs. The floor's Parquet and JSON bytes are ready; it writes them as a data file (create, write, fsync,
fsync of its directory) and as a commit (temporary file, fsync, link, unlink, fsync of the log directory). deltalake
syncs nothing. It measures each append alone, after others used the caches and the disk, and then twenty in a row, as in
a program that does nothing else.
"""

from __future__ import annotations

import io
import os
import statistics
from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

import txlog
from benchmarks.measure import (
    Bench,
    Sample,
    best_in_bold,
    cpu_p50,
    in_turns,
    markdown_table,
    p99,
    timed,
    times,
    wall_p50,
)
from benchmarks.tables import ONE_ROW, copy_for_each, grow

TITLE = "One-row append, open handle"

IN_A_ROW = 20
_CONTESTANTS = ("txlog", "deltalake", "floor", "encoding floor")


def run(bench: Bench) -> str:
    base = bench.folder("append")
    versions = bench.scale([100, 1_000, 3_000], [5, 20])
    rounds, warm_up = bench.scale((200, 10), (5, 1))
    blocks = bench.scale(10, 1)
    samples, rows = {}, {}  # by version, for each contestant: single appends, and the ms of each in a row
    for version in versions:
        bench.say(f"growing the table to version {version:,}")
        grow(base, version)
        bench.say(f"{rounds} rounds at version {version:,}")
        contestants, copies = _contestants(base, version)
        samples[version] = in_turns(bench, contestants, rounds, warm_up, version=version)
        rows[version] = {name: [] for name in contestants}
        row_of = {name: _in_a_row(append, rows[version][name]) for name, append in contestants.items()}
        in_turns(bench, row_of, blocks, 1, row_of=IN_A_ROW)
        _check(copies, version + rounds + warm_up + (blocks + 1) * IN_A_ROW)
    return _report(samples, rows)


def _contestants(base: Path, version: int) -> tuple[dict[str, Callable[[], object]], dict[str, Path]]:
    copies = copy_for_each(base, ["txlog", "deltalake", "floor", "encoding floor"])
    ours = txlog.Table.open(copies["txlog"])
    theirs = DeltaTable(copies["deltalake"])
    contestants: dict[str, Callable[[], object]] = {
        "txlog": lambda: ours.append(ONE_ROW),
        "deltalake": lambda: write_deltalake(theirs, ONE_ROW, mode="append"),
        "floor": Floor(copies["floor"], version).append,
        "encoding floor": EncodingFloor(copies["encoding floor"], version).append,
    }
    return contestants, copies


def _in_a_row(append: Callable[[], object], each_ms: list[float]) -> Callable[[], object]:
    """The first row is the warm-up, and not in ``each_ms``."""
    is_warm = False

    def row() -> None:
        nonlocal is_warm
        found_ms = [timed(append).wall_ms for _ in range(IN_A_ROW)]
        each_ms.extend(found_ms if is_warm else ())
        is_warm = True

    return row


def _check(copies: dict[str, Path], expected: int) -> None:
    for name, path in copies.items():
        reached = txlog.Table.open(path).snapshot().version
        if reached != expected:
            raise RuntimeError(f"{name} is at version {reached}, not at {expected}")


class Floor:
    """The bytes of one append, and the fewest steps that put them durably into the table at ``path``."""

    def __init__(self, path: Path, version: int) -> None:
        self._path = str(path)
        self._version = version
        self._rows = _encoded()
        last = path / "_delta_log" / f"{version:020}.json"
        self._commit = last.read_bytes()

    def append(self) -> None:
        self._version += 1
        log = f"{self._path}/_delta_log"
        _write_synced(f"{self._path}/floor-{self._version}.parquet", self._rows)
        _sync_directory(self._path)
        temporary = f"{log}/.floor-{self._version}.tmp"
        _write_synced(temporary, self._commit)
        os.link(temporary, f"{log}/{self._version:020}.json")
        os.unlink(temporary)
        _sync_directory(log)


class EncodingFloor(Floor):
    """The same, with the least that makes these bytes in Python."""

    def __init__(self, path: Path, version: int) -> None:
        super().__init__(path, version)
        self._lines = [msgspec.json.decode(line) for line in self._commit.splitlines()]

    def append(self) -> None:
        self._rows = _encoded()
        self._commit = b"\n".join(map(msgspec.json.encode, self._lines))
        super().append()


def _encoded() -> bytes:
    buffer = io.BytesIO()
    pq.write_table(ONE_ROW, pa.PythonFile(buffer, "w"), use_dictionary=False, store_schema=False)
    return buffer.getvalue()


def _write_synced(path: str, body: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    os.write(descriptor, body)
    os.fsync(descriptor)
    os.close(descriptor)


def _sync_directory(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(descriptor)
    os.close(descriptor)


def _report(samples: dict[int, dict[str, list[Sample]]], rows_ms: dict[int, dict[str, list[float]]]) -> str:
    rows = []
    for version, found in samples.items():
        ours, theirs, floor, encoding = (wall_p50(found[name]) for name in _CONTESTANTS)
        tails = [p99(sample.wall_ms for sample in found[name]) for name in ("txlog", "deltalake")]
        bold = best_in_bold((ours, theirs), (f"{ours:.2f}", f"{theirs:.1f}"))
        rows.append(
            (
                f"{version:,}",
                f"{floor:.2f} / {encoding:.2f}",
                f"{bold[0]} / {tails[0]:.1f}",
                f"{bold[1]} / {tails[1]:.0f}",
                times(ours, theirs),
                f"{ours - floor:+.2f} / {ours - encoding:+.2f}",
                f"{cpu_p50(found['txlog']):.2f} / {cpu_p50(found['deltalake']):.1f}",
            )
        )
    table = markdown_table(
        [
            "at version",
            "floor / encoding floor p50, ms",
            "txlog p50 / p99, ms",
            "deltalake p50 / p99, ms",
            "deltalake : txlog",
            "txlog over the floor / the encoding floor, ms",
            "CPU p50 txlog / deltalake, ms",
        ],
        rows,
    )
    first, last = samples[min(samples)], samples[max(samples)]
    growth = [f"{name} {wall_p50(last[name]) / wall_p50(first[name]):.2f}x" for name in _CONTESTANTS[:3]]
    return (
        f"{table}\n\n{_row_table(rows_ms)}\n\nFrom version {min(samples):,} to {max(samples):,} the median of the first"
        f" table grows: {', '.join(growth)}."
    )


def _row_table(rows_ms: dict[int, dict[str, list[float]]]) -> str:
    rows = []
    for version, found in rows_ms.items():
        ours, theirs, floor, encoding = (statistics.median(found[name]) for name in _CONTESTANTS)
        bold = best_in_bold((ours, theirs), (f"{ours:.2f}", f"{theirs:.1f}"))
        rows.append(
            (
                f"{version:,}",
                f"{floor:.2f} / {encoding:.2f}",
                f"{bold[0]} / {statistics.mean(found['txlog']):.2f}",
                f"{bold[1]} / {statistics.mean(found['deltalake']):.1f}",
                times(ours, theirs),
                f"{ours - floor:+.2f} / {ours - encoding:+.2f}",
            )
        )
    return markdown_table(
        [
            f"at version, {IN_A_ROW} in a row",
            "floor / encoding floor p50, ms",
            "txlog p50 / mean, ms",
            "deltalake p50 / mean, ms",
            "deltalake : txlog",
            "txlog over the floor / the encoding floor, ms",
        ],
        rows,
    )
