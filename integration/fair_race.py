"""Processes that append to one table as fast as they can, or at a pace, and how evenly the store serves them.

In: a table on an S3 server, the library, and how many writers. Out: a `Race`, which counts an append that had not
finished at the end as a wait too: a writer that starves never finishes one.

As a program it is one writer: it opens the table, waits for a line, and prints what it did as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Race", "run_race"]

_LATEST_S = 300.0


@dataclass(frozen=True, slots=True)
class Race:
    """What each writer got done in ``seconds``, all waits for an append, ascending, and what failed."""

    seconds: float
    appends: tuple[int, ...]
    waits_s: tuple[float, ...]
    failed: int

    @property
    def longest_s(self) -> float:
        return self.waits_s[-1]

    def wait_s(self, share: float) -> float:
        """The wait that this share of all waits does not exceed."""
        return self.waits_s[min(len(self.waits_s) - 1, int(share * len(self.waits_s)))]

    @property
    def per_s(self) -> float:
        """Acknowledged appends of all writers in a second."""
        return sum(self.appends) / self.seconds

    @property
    def least_share(self) -> float:
        """The appends of the least-served writer, as a share of the mean; 0.0 if one starved."""
        return min(self.appends) * len(self.appends) / (sum(self.appends) or 1)


def run_race(
    library: str,
    uri: str,
    storage_options: Mapping[str, str],
    writers: int,
    seconds: float,
    *,
    machines: Path | None = None,
    period_s: float = 0.0,
    warm_up_s: float = 0.0,
) -> Race:
    """Let ``writers`` processes append to the table at ``uri``, which exists.

    With ``machines``, a folder, each process has a folder for temporary files of its own, as on a machine of its own.
    With ``period_s``, an append of each is due that often, and waits from then on, after one that is not counted; else
    each appends at full speed. What ends in the first ``warm_up_s`` is not counted either.
    """
    given = [library, uri, json.dumps(dict(storage_options)), str(seconds), str(period_s), str(warm_up_s)]
    command = [sys.executable, __file__, *given]
    processes = []
    for number in range(writers):
        environment = dict(os.environ, OMP_NUM_THREADS="1", TOKIO_WORKER_THREADS="1")
        if machines is not None:
            environment["TMPDIR"] = str(machines / str(number))
            Path(environment["TMPDIR"]).mkdir(parents=True)
        processes.append(
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        )
    try:
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        reports = [json.loads(process.communicate(timeout=warm_up_s + seconds + _LATEST_S)[0]) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    return Race(
        seconds,
        tuple(report["appends"] for report in reports),
        tuple(sorted(wait_s for report in reports for wait_s in report["waits_s"])),
        sum(report["failed"] for report in reports),
    )


def _work(
    library: str, uri: str, storage_options: dict[str, str], seconds: float, period_s: float, warm_up_s: float
) -> None:
    append = _append_with(library, uri, storage_options)
    if period_s:
        append()  # what a process loads once is no part of its later waits
    print("ready", flush=True)
    sys.stdin.readline()
    counts_from_s = time.monotonic() + warm_up_s
    end_s = counts_from_s + seconds
    done: dict[str, Any] = {"appends": 0, "waits_s": [], "failed": 0}
    due_s = time.monotonic() + (os.getpid() % 100) / 100 * period_s
    began_s = [due_s]
    threading.Thread(target=_report_at, args=(end_s, done, began_s), daemon=True).start()
    while True:
        if period_s:
            time.sleep(max(0.0, due_s - time.monotonic()))
            began_s[0], due_s = due_s, due_s + period_s
        else:
            began_s[0] = time.monotonic()
        failed = 0
        try:
            append()
        except Exception as error:
            failed = 1
            print(error, file=sys.stderr)
        if time.monotonic() >= counts_from_s:
            done["failed"] += failed
            done["appends"] += 1 - failed
            done["waits_s"].append(time.monotonic() - began_s[0])
        began_s[0] = due_s if period_s else time.monotonic()


def _report_at(end_s: float, done: dict[str, Any], began_s: list[float]) -> None:
    """Print the report at ``end_s`` and end the process, whatever it is in."""
    time.sleep(max(0.0, end_s - time.monotonic()))
    waits_s = [*done["waits_s"], max(0.0, time.monotonic() - began_s[0])]
    print(json.dumps({**done, "waits_s": waits_s}), flush=True)
    os._exit(0)


def _append_with(library: str, uri: str, storage_options: dict[str, str]) -> Callable[[], object]:
    import pyarrow as pa

    row = pa.table({"id": pa.array([1], pa.int64())})
    if library == "txlog":
        import txlog

        table = txlog.Table.open(uri, storage_options=storage_options)
        return lambda: table.append(row)
    from deltalake import DeltaTable, write_deltalake

    handle = DeltaTable(uri, storage_options=storage_options)
    return lambda: write_deltalake(handle, row, mode="append")


if __name__ == "__main__":
    _work(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), *map(float, sys.argv[4:]))
