"""A table after a whole week of one upsert per second: what the log still has of it, and what that costs.

The removes from a shorter run's log are repeated under new names until the week is full, spread evenly over it, in
separate commits. The files that they name never existed: no reader opens a removed file, and a vacuum lists existing
files. So the log is a week's, and the data files come from the minutes measured here.
"""

from __future__ import annotations

import base64
import itertools
import json
import random
import statistics
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

import txlog
from benchmarks.measure import Bench, markdown_table, p99

Told: TypeAlias = dict[str, Any]
"""A remove, as in the log."""

_COMMIT_REMOVES = 50_000
_ROUND_EVERY = 60
_TO_Z85 = str.maketrans(
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~",
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#",
)


def removes_in(log: Path, since_ms: int) -> list[Told]:
    """The removes in a log's commits, for files that left the table after a moment."""
    lines = (json.loads(line) for each in sorted(log.glob("*.json")) for line in each.open() if '"remove"' in line)
    found = (line["remove"] for line in lines if "remove" in line)
    return [each for each in found if each["deletionTimestamp"] > since_ms]


def measure(bench: Bench, path: Path, removes: Sequence[Told], seconds: int, *, week_s: int, run_s: int) -> str:
    """Upserts into the table at ``path`` when its week ends. ``removes`` were committed within this many
    ``seconds``."""
    keys = txlog.Table.open(path).count()
    total = _live_the_week(path, removes, seconds, week_s)
    bench.say(f"the log has {total:,} removed files")
    table, maintainer = txlog.Table.open(path), txlog.Table.open(path)
    table.create_checkpoint()  # of a week's commits, which no table has without one
    table.set_properties({"of": "a version more"})
    begin_s, cpu_s = time.perf_counter(), time.process_time()
    table.create_checkpoint()
    found = {"checkpoint_s": time.perf_counter() - begin_s, "checkpoint_cpu_s": time.process_time() - cpu_s}
    found |= _run(bench, table, maintainer, keys, run_s) | _read(path, keys)
    bench.record(week_behind=True, **found)
    header = [
        *("with a week behind it", "upsert p50 / p99, ms", "share of one core in all", "upkeep of a minute, s"),
        *("one checkpoint, s / CPU s / MB", "removed files in it", "live files", "open, ms", "open and read all, ms"),
    ]
    line = [
        f"{run_s:,} s, one upsert a second",
        f"{found['upsert_p50_ms']:.1f} / {found['upsert_p99_ms']:.0f}",
        f"{found['cpu_share']:.2f}",
        f"{found['upkeep_round_s']:.1f}",
        f"{found['checkpoint_s']:.1f} / {found['checkpoint_cpu_s']:.1f} / {found['checkpoint_mb']:.0f}",
        *(f"{found[name]:,.0f}" for name in ("tombstones", "live_files", "open_ms", "read_ms")),
    ]
    reported = (
        f"Here the seconds are real, and the log has the files that {week_s:,} s removed, {total / week_s:.1f} a"
        " second. Twice the upserts mean twice the removed files in twice the checkpoints: the share of a core that"
        " checkpoints take grows with the square of the rate, and with the retention."
    )
    return f"{markdown_table(header, [line])}\n\n{reported}"


def _run(bench: Bench, table: txlog.Table, maintainer: txlog.Table, keys: int, run_s: int) -> dict[str, float]:
    chance = random.Random(2)
    took_ms: list[float] = []
    rounds_s: list[float] = []
    start_s, cpu_s = time.perf_counter(), time.process_time()
    for second in range(run_s):
        time.sleep(max(0.0, start_s + second * bench.scale(1.0, 0.01) - time.perf_counter()))
        row = pa.table({"id": [chance.randrange(keys)], "value": [float(second)]})
        begin_s = time.perf_counter()
        table.upsert(row, ["id"])
        took_ms.append((time.perf_counter() - begin_s) * 1e3)
        if second % _ROUND_EVERY == _ROUND_EVERY - 1:
            begin_s = time.perf_counter()
            done = maintainer.maintain(vacuum_every_hours=24)
            rounds_s.append(time.perf_counter() - begin_s)
            assert not done.failures, done
    return {
        "upsert_p50_ms": statistics.median(took_ms),
        "upsert_p99_ms": p99(took_ms),
        "cpu_share": (time.process_time() - cpu_s) / (time.perf_counter() - start_s),
        "upkeep_round_s": statistics.median(rounds_s),
    }


def _read(path: Path, keys: int) -> dict[str, float]:
    begin_s = time.perf_counter()
    fresh = txlog.Table.open(path)
    snapshot = fresh.snapshot()
    open_ms = (time.perf_counter() - begin_s) * 1e3
    assert snapshot.to_arrow().num_rows == keys
    read_ms = (time.perf_counter() - begin_s) * 1e3
    state = fresh._open_table.log.newest_state()
    return {
        "open_ms": open_ms,
        "read_ms": read_ms,
        "live_files": snapshot.files().num_rows,
        "tombstones": fresh._open_table.log.files_and_tombstones(state, with_stats=False)[1].num_rows,
        "checkpoint_mb": max(path.glob("_delta_log/*.checkpoint*.parquet")).stat().st_size / 1e6,
    }


# --- the week ---------------------------------------------------------------------------------------------------


def _live_the_week(path: Path, removes: Sequence[Told], seconds: int, week_s: int) -> int:
    """Commit the removes of a week that ends now; returns their number."""
    log = path / "_delta_log"
    version = max(int(each.stem) for each in log.glob("*.json"))
    total, now_ms = len(removes) * week_s // seconds, int(time.time() * 1e3)
    times = (now_ms - week_s * 1000 + week_s * 1000 * number // total for number in range(total))
    lines = (json.dumps({"remove": each}) for each in _renamed(removes, times, random.Random(3)))
    while batch := list(itertools.islice(lines, _COMMIT_REMOVES)):
        version += 1
        reported = {"timestamp": now_ms, "operation": "OPTIMIZE", "operationParameters": {}, "txnId": str(uuid.uuid4())}
        (log / f"{version:020}.json").write_text("\n".join([json.dumps({"commitInfo": reported}), *batch, ""]))
    return total


def _renamed(removes: Sequence[Told], times: Iterator[int], chance: random.Random) -> Iterator[Told]:
    """The removes over and over. A file that was removed repeatedly, each time with another vector, keeps one name
    within a round."""
    names: dict[str, str] = {}
    for at, removed_ms in enumerate(times):
        each = removes[at % len(removes)]
        if at % len(removes) == 0:
            names = {}
        name = names.setdefault(each["path"], f"part-00000-{_uuid(chance)}-0-00000-000.snappy.parquet")
        reported = {**each, "path": name, "deletionTimestamp": removed_ms}
        if "deletionVector" in each:
            unique = base64.b85encode(_uuid(chance).bytes).decode().translate(_TO_Z85)
            reported["deletionVector"] = {**each["deletionVector"], "pathOrInlineDv": unique}
        yield reported


def _uuid(chance: random.Random) -> uuid.UUID:
    return uuid.UUID(int=chance.getrandbits(128))
