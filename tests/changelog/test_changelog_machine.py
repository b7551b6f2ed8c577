"""Random checkpoints of random changes alongside other writers, compared with a plain dict; crashes at every call.

The oracle is Python: a dict from key to row, to which changes are applied one after the other.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import txlog
from txlog.audit.verify import verify_table
from txlog.core.definition import create_table
from txlog.core.store import TableStore
from txlog.core.versions import OpenTable
from txlog.testing.faults import Crashed, FaultyFileStore, FaultyLogStore, StoreCall
from txlog.testing.memory_store import memory_table_store

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("v", pa.int64())])
CHANGES = pa.schema([("op", pa.string()), *SCHEMA, ("at", pa.int64())])
FEED = {"delta.enableChangeDataFeed": "true"}
TABLES = ({"delta.enableDeletionVectors": "true"}, {}, {"delta.enableDeletionVectors": "true"} | FEED, FEED)

_NEW = ("insert", "update_postimage")

Rows = dict[int, tuple[str, int]]
Change = tuple[str, int, str | None, int | None, int]

changes = st.lists(
    st.tuples(
        st.sampled_from(["+I", "+U", "-U", "-D"]),
        st.integers(0, 7),
        st.sampled_from(["a", "b"]),
        st.integers(0, 99),
        st.integers(0, 5),
    ),
    max_size=12,
)


def batch_of(rows: list[Change], *, with_sequence: bool = True) -> pa.Table:
    """Rows that go have only their key."""
    kept = [row if row[0] in ("+I", "+U") else (*row[:2], None, None, row[4]) for row in rows]
    return pa.Table.from_pylist([dict(zip(CHANGES.names, row, strict=True)) for row in kept], CHANGES).select(
        CHANGES.names if with_sequence else CHANGES.names[:-1]
    )


def applied(rows: Rows, given: list[Change], *, by_sequence: bool) -> Rows:
    """Change by change: of one key, in order of the sequence, where there is one. A -U that tells only its key deletes
    whatever row the key has."""
    found = dict(rows)
    for kind, key, part, value, _ in sorted(given, key=lambda row: row[4]) if by_sequence else given:
        if kind in ("+I", "+U"):
            assert part is not None
            assert value is not None
            found[key] = (part, value)
        else:
            found.pop(key, None)
    return found


def rows_in(table: txlog.Table) -> Rows:
    found = [tuple(row.values()) for row in table.snapshot().to_arrow().to_pylist()]
    assert len({row[0] for row in found}) == len(found), f"a key is there twice: {found}"
    return {key: (part, value) for key, part, value in found}


def feed_of(table: txlog.Table) -> Rows:
    """The rows that the change feed adds up to."""
    folded: Rows = {}
    feed = table.changes(0).read_all().to_pylist()
    for row in sorted(feed, key=lambda row: (row["_commit_version"], row["_change_type"] in _NEW)):
        if row["_change_type"] in _NEW:
            assert row["id"] not in folded, row
            folded[row["id"]] = (row["part"], row["v"])
        else:
            assert folded.pop(row["id"]) == (row["part"], row["v"]), row
    return folded


class Checkpoints(RuleBasedStateMachine):
    """One application with random checkpoints, restarts and replays, alongside writers of other keys and of the same
    keys."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.rows: Rows = {}
        self.last = 0
        self.sealed: tuple[int, list[Change]] | None = None
        self.table: Any = None

    def teardown(self) -> None:
        self.folder.cleanup()

    @precondition(lambda self: self.table is None)
    @rule(table=st.sampled_from(TABLES), mode=st.sampled_from(["upsert", "retract"]), by_sequence=st.booleans())
    def create(self, table: dict[str, str], mode: str, by_sequence: bool) -> None:
        self.mode, self.by_sequence = mode, by_sequence
        self.table = txlog.Table.create(f"{self.folder.name}/t", SCHEMA, ["part"], table)

    def sink(self) -> txlog.Sink:
        sequence_by = "at" if self.by_sequence else None
        options: dict[str, Any] = {"keys": ["id"], "row_kind": "op", "sequence_by": sequence_by}
        return txlog.Sink(self.table, "app", mode=self.mode, max_continuous_empty_commits=1, **options)

    def tasks(self, given: list[Change]) -> list[list[Change]]:
        """Keys are dealt out as the sink says."""
        placed = self.sink().partition_of(batch_of(given), 2).to_pylist()
        return [[row for row, at in zip(given, placed, strict=True) if at == task] for task in range(2)]

    @precondition(lambda self: self.table is not None and self.sealed is None)
    @rule(given=changes)
    def seal(self, given: list[Change]) -> None:
        sink, checkpoint_id = self.sink(), self.last + 1
        for task_id, rows in enumerate(self.tasks(given)):
            with sink.task(checkpoint_id, task_id) as task:
                half = len(rows) // 2
                for part in (rows[:half], rows[half:]):
                    task.write(batch_of(part, with_sequence=self.by_sequence))
            sink.stage(task.committable)
        sink.prepare(checkpoint_id, range(2))
        self.sealed = checkpoint_id, given

    @precondition(lambda self: self.sealed is not None)
    @rule(recovers=st.booleans())
    def commit(self, recovers: bool) -> None:
        assert self.sealed is not None
        self.last, given = self.sealed
        result = self.sink().recover().results[self.last] if recovers else self.sink().commit(self.last)
        assert result.outcome == "committed"
        self.rows = applied(self.rows, given, by_sequence=self.by_sequence)
        self.sealed = None

    @precondition(lambda self: self.last > 0 and self.sealed is None)
    @rule(given=changes)
    def replay(self, given: list[Change]) -> None:
        sink = self.sink()
        with sink.task(self.last) as task:
            task.write(batch_of(given, with_sequence=self.by_sequence))
        assert sink.commit(self.last, [task.committable]).outcome == "already_committed"

    @precondition(lambda self: self.table is not None)
    @rule(key=st.integers(0, 9), value=st.integers(100, 199))
    def somebody_upserts(self, key: int, value: int) -> None:
        other = txlog.Table.open(self.table.uri)
        other.upsert(pa.Table.from_pylist([{"id": key, "part": "a", "v": value}], SCHEMA), ["id"])
        self.rows[key] = ("a", value)

    @precondition(lambda self: self.table is not None)
    @rule()
    def somebody_compacts(self) -> None:
        txlog.Table.open(self.table.uri).optimize()

    @invariant()
    def the_table_is_what_the_changes_made(self) -> None:
        if self.table is not None:
            assert rows_in(self.table) == self.rows

    @precondition(lambda self: self.table is not None)
    @rule()
    def the_change_feed_tells_the_same(self) -> None:
        if not FEED.items() <= self.table.snapshot().properties.items():
            return
        assert feed_of(self.table) == self.rows
        assert verify_table(self.table._open_table.store).is_sound


TestCheckpoints = Checkpoints.TestCase
TestCheckpoints.settings = settings(max_examples=15, stateful_step_count=14, deadline=None)


# --- crashes ----------------------------------------------------------------------------------------------------

BEFORE: Rows = {1: ("a", 10), 2: ("a", 20), 3: ("b", 30)}
GIVEN: list[list[Change]] = [
    [("+U", 1, "b", 11, 1), ("-D", 2, None, None, 1), ("+I", 5, "a", 50, 1)],
    [("+I", 9, "a", 90, 1), ("+U", 5, "b", 51, 2)],
]
AFTER: Rows = {1: ("b", 11), 3: ("b", 30), 5: ("b", 51), 9: ("a", 90)}


SUM = {"txlog.merge-engine": "aggregation", "txlog.fields.v.aggregate-function": "sum"}
MERGED: Rows = {1: ("b", 21), 2: ("a", 20), 3: ("b", 30), 5: ("b", 101), 9: ("a", 90)}
"""By `SUM`, each row once: a merge that is done twice, or left out, shows."""


def a_table(properties: dict[str, str]) -> TableStore:
    store = memory_table_store()
    create_table(OpenTable(store), SCHEMA, ["part"], properties)
    rows = [{"id": key, "part": part, "v": value} for key, (part, value) in BEFORE.items()]
    txlog.Table(OpenTable(store)).append(pa.Table.from_pylist(rows, SCHEMA))
    return store


def life(store: TableStore, attempt: int) -> None:
    """An application: commits a checkpoint that an earlier life sealed; otherwise writes, seals and commits it."""
    table = txlog.Table(OpenTable(store))
    merges = "txlog.merge-engine" in table.snapshot().properties
    sequence_by = None if merges else "at"
    sink = txlog.Sink(table, "app", mode="upsert", keys=["id"], row_kind="op", sequence_by=sequence_by)
    sink.recover()
    if sink.last_checkpoint_id() == 1:
        return
    tasks = [[change for task in GIVEN for change in task], []] if merges else GIVEN
    for task_id, rows in enumerate(tasks):
        with sink.task(1, task_id, attempt) as task:
            task.write(batch_of(rows, with_sequence=not merges))
        sink.stage(task.committable)
    sink.prepare(1, dict.fromkeys(range(2), attempt))
    sink.commit(1)
    table._open_table.post_commit.drain()


class Death:
    """Ends a process at its ``at``-th call of the store, before the call is done or after it."""

    def __init__(self, at: int, *, is_after: bool) -> None:
        self.left, self.is_after, self.is_dead = at, is_after, False
        self.step = ""

    def store(self, real: TableStore) -> TableStore:
        assert real.staging is not None
        logs = [FaultyLogStore(each, self) for each in (real.log, real.staging)]
        return TableStore(real.uri, logs[0], FaultyFileStore(real.files, self), logs[1])

    def __call__(self, call: StoreCall) -> Callable[..., Any] | None:
        if self.is_dead:
            raise Crashed(self.step)
        self.left -= 1
        if self.left >= 0:
            return None
        self.is_dead, self.step = True, f"{call.operation} {call.name}"
        return self.done if self.is_after else self.not_done

    def done(self, real: Callable[..., Any], *arguments: Any) -> Any:
        real(*arguments)
        raise Crashed(self.step)

    def not_done(self, real: Callable[..., Any], *arguments: Any) -> Any:
        raise Crashed(self.step)


@pytest.mark.parametrize(
    ("properties", "is_after", "expected"),
    [
        pytest.param(TABLES[0], False, AFTER, marks=pytest.mark.hunt(part="crashes")),
        (TABLES[0], True, AFTER),
        pytest.param(FEED, False, AFTER, marks=pytest.mark.hunt(part="crashes")),
        (TABLES[2] | SUM, False, MERGED),
        pytest.param(TABLES[0] | SUM, True, MERGED, marks=pytest.mark.hunt(part="crashes")),
    ],
    ids=[
        "before-each-call",
        "after-each-call",
        "before-each-call-with-a-feed",
        "before-each-call-of-a-merge",
        "after-each-call-of-a-merge",
    ],
)
def test_a_sink_of_changes_that_dies_at_any_call_is_ended_by_its_next_life(
    properties: dict[str, str], is_after: bool, expected: Rows
) -> None:
    steps = []
    while True:
        store = a_table(properties)
        death = Death(len(steps), is_after=is_after)
        with contextlib.suppress(Crashed):
            life(death.store(store), attempt=0)
        if not death.is_dead:
            break
        steps.append(death.step)
        life(store, attempt=1)
        table = txlog.Table(OpenTable(store))
        assert rows_in(table) == expected, f"died at {death.step}"
        assert table.version == 2, f"died at {death.step}"
        assert store.staging is not None
        assert store.staging.list_from("") == [], f"died at {death.step}"
        assert verify_table(store).is_sound
        if FEED.items() <= properties.items():
            assert feed_of(table) == expected, f"died at {death.step}"
    for wanted in ("task.0.0", "task.1.0", ".manifest", "keys-", "part-", "00002.json"):
        assert any(wanted in step for step in steps), f"no process died at {wanted}"


def test_a_coordinator_that_wakes_up_after_anothers_commit_changes_nothing() -> None:
    """A coordinator that was suspended before its commit wakes up after another one has ended the checkpoint."""
    store = a_table(TABLES[0])
    twin = txlog.Sink(txlog.Table(OpenTable(store)), "app", mode="upsert", keys=["id"], row_kind="op", sequence_by="at")
    for task_id, rows in enumerate(GIVEN):
        with twin.task(1, task_id) as task:
            task.write(batch_of(rows))
        twin.stage(task.committable)
    twin.prepare(1, range(2))
    life(store, attempt=1)
    txlog.Table(OpenTable(store)).delete("id = 9")
    assert twin.commit(1).outcome == "already_committed"
    assert rows_in(txlog.Table(OpenTable(store))) == {key: row for key, row in AFTER.items() if key != 9}


@pytest.mark.parametrize("operation", ["stat", "read_from"])
def test_a_coordinator_whose_key_files_another_deleted_finds_the_checkpoint_committed(operation: str) -> None:
    """The other coordinator is at it at the same time: it ends the checkpoint just before this one reads the keys."""
    store = a_table(TABLES[0])
    asleep = False

    def wake_the_twin(call: StoreCall) -> None:
        nonlocal asleep
        if asleep and call.operation == operation and "keys-" in call.name:
            asleep = False
            life(store, attempt=1)

    files = FaultyFileStore(store.files, wake_the_twin)
    table = txlog.Table(OpenTable(TableStore(store.uri, store.log, files, store.staging)))
    sink = txlog.Sink(table, "app", mode="upsert", keys=["id"], row_kind="op", sequence_by="at")
    one_task = [change for task in GIVEN for change in task]
    with sink.task(1) as task:
        task.write(batch_of(one_task))
    sink.stage(task.committable)
    sink.prepare(1, [0])
    asleep = True
    assert sink.commit(1).outcome == "already_committed"
    assert not asleep
    assert rows_in(txlog.Table(OpenTable(store))) == AFTER
