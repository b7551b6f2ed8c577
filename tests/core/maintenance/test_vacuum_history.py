"""After any history and any vacuum, every version inside of the retention reads as it did, and nothing else is kept."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import txlog
from txlog.core import ambient
from txlog.core.definition import create_table
from txlog.core.sink import Staging
from txlog.core.store import RetryPolicy
from txlog.core.versions import OpenTable
from txlog.testing.memory_store import memory_table_store
from txlog.testing.stopped_clock import StoppedClock

HOUR_MS = 3_600_000
RETENTION_HOURS = 48
STEPS = (
    *("append", "append", "delete one", "delete many", "overwrite", "replace a day", "checkpoint", "restart"),
    *("stage", "commit staged", "orphan", "retention"),
)


@dataclass
class History:
    """One table, what each of its versions held and until when it was the newest one."""

    clock: StoppedClock = field(default_factory=StoppedClock)
    store: Any = field(default_factory=memory_table_store)
    rows: dict[int, list[int]] = field(default_factory=dict)
    replaced_ms: dict[int, int] = field(default_factory=dict)
    next_id: int = 0
    staged: int = 0

    def open(self) -> txlog.Table:
        return txlog.Table(OpenTable(self.store))

    def note(self, table: txlog.Table) -> None:
        """Take down the newest version, if it is a new one."""
        snapshot = table.snapshot()
        for version in range(max(self.rows, default=-1) + 1, snapshot.version + 1):
            self.rows[version] = sorted(table.snapshot(version).to_arrow()["id"].to_pylist())
            if version:
                self.replaced_ms[version - 1] = self.clock.moment_ms

    def new_rows(self, count: int = 3) -> pa.Table:
        ids = list(range(self.next_id, self.next_id + count))
        self.next_id += count
        return pa.table({"id": ids, "day": ["ab"[at % 2] for at in ids]})


def do(history: History, table: txlog.Table, step: str) -> None:
    sink = txlog.Sink(table, "app")
    match step:
        case "append":
            table.append(history.new_rows())
        case "delete one":
            table.delete(f"id % 5 = {history.next_id % 5}")
        case "delete many":
            table.delete("id % 3 <> 0")
        case "overwrite":
            table.overwrite(history.new_rows(), where="id >= 0")
        case "replace a day":
            table.delete("day = 'a'")
        case "checkpoint":
            table.create_checkpoint()
        case "stage":
            history.staged += 1
            with sink.task(history.staged) as task:
                task.write(history.new_rows())
            sink.stage(task.committable)
            sink.prepare(history.staged, [0])
        case "commit staged":
            with contextlib.suppress(txlog.InvalidInputError):  # sealed so long ago that other vacuums may take it
                sink.recover()
        case "orphan":
            history.next_id += 1
            history.store.files.publish(f"day=a/orphan-{history.next_id}.parquet", b"x")
        case "retention":
            hours = 1 + history.next_id % RETENTION_HOURS
            table.set_properties({"delta.deletedFileRetentionDuration": f"interval {hours} hours"})


@given(
    st.lists(st.tuples(st.sampled_from(STEPS), st.integers(1, 30)), min_size=4, max_size=14),
    st.sampled_from([0, 10, RETENTION_HOURS, 100]),
    st.booleans(),
    st.booleans(),
)
def test_every_version_inside_of_the_retention_reads_as_before(
    steps: list[tuple[str, int]], hours: int, lite: bool, vectors: bool
) -> None:
    history = History()
    with ambient.use(history.clock):
        properties = {
            "delta.enableDeletionVectors": str(vectors).lower(),
            "delta.logRetentionDuration": "interval 9 weeks",
        }
        create_table(OpenTable(history.store), "id bigint, day string", ("day",), properties)
        table = history.open()
        for step, passing_hours in steps:
            if step == "restart":
                table = history.open()
            do(history, table, step)
            history.note(table)
            history.clock.pass_hours(passing_hours)
            if passing_hours % 7 == 0:
                check_vacuum(history, table, hours, lite)
        check_vacuum(history, table, hours, lite=False)
        assert Staging(history.store, RetryPolicy()).named_paths() <= set(history.store.files.objects)


def check_vacuum(history: History, table: txlog.Table, hours: int, lite: bool) -> None:
    now_ms = history.clock.moment_ms
    files = set(history.store.files.objects)
    done = table.vacuum(hours, lite=lite, force=True)
    history.note(table)
    assert set(history.store.files.objects) == files - set(done.paths)
    fresh = history.open()
    for version, ids in history.rows.items():
        if history.replaced_ms.get(version, now_ms) >= now_ms - hours * HOUR_MS:
            assert sorted(fresh.snapshot(version).to_arrow()["id"].to_pylist()) == ids, f"version {version}"
    if done.mode == "full":
        assert not table.vacuum(hours, force=True).paths, "the first one left something"
        history.note(table)
