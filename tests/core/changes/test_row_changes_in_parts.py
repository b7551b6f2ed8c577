"""Row changes in parts, run elsewhere, alongside other writers: the table is as if each had run alone, in turn.

Here the parts are done in this process, each with its own copy of the job, as a task has one; integration tests give
them to Spark. The oracle is `txlog.Table`, which does the same operations one after the other on a second table.
"""

from __future__ import annotations

import itertools
import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import txlog
from txlog.audit.verify import verify_table
from txlog.core import ambient
from txlog.core.changes.plan import RowOptions, SourceSummary, uses_vectors
from txlog.core.changes.plan import _distributed_tasks as parts
from txlog.core.changes.plan._distributed_tasks import DistributedTasks, change_on_workers
from txlog.core.changes.tasks import (
    ChangePart,
    MergeSpec,
    NewRows,
    PartOutcome,
    PartSource,
    RowJob,
    RowSpec,
    TaskTable,
    UpsertSpec,
    adapted,
    change_part,
    keys_in_files,
    write_new_rows,
)
from txlog.core.changes.tasks.operations import DeleteSpec, MergeClause, MergeOptions, UpdateSpec, UpsertOptions
from txlog.core.definition import create_table
from txlog.core.format.actions import AddFile
from txlog.core.format.bitmaps import pack, unpack
from txlog.core.format.file_columns import add_files_of
from txlog.core.format.paths import resolve_data_path
from txlog.core.format.schema import from_arrow
from txlog.core.reading import DeletionVectorReader
from txlog.core.store import PutOutcome, RetryPolicy, TableStore
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.proposal_builder import ProposalBuilder
from txlog.core.writing import TaskIdentity
from txlog.core.writing.commit_options import CommitOptions
from txlog.table import Table
from txlog.testing.faults import FaultyLogStore
from txlog.testing.memory_store import MemoryFileStore, MemoryLogStore

Row: TypeAlias = tuple[int | None, str, int | None]
SCHEMA = pa.schema([("k", pa.int64()), ("day", pa.string()), ("v", pa.int64())])
VECTORS = {"delta.enableDeletionVectors": "true"}
KEPT = {"delta.enableChangeDataFeed": "true", "delta.enableRowTracking": "true"}
WAYS = {"vectors": VECTORS, "copies": {}, "vectors, feed and ids": {**KEPT, **VECTORS}, "copies, feed and ids": KEPT}
CONDITIONS = ["v > 25", "k in (1, 2, 3)", "day = 'a'", "v is null", "k >= 0"]
VALUES = {"v": txlog.expr("v + 1"), "day": txlog.expr("if(day = 'a', 'b', 'a')")}


@pytest.fixture(scope="module", autouse=True)
def two_files_a_part() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "parts_of", lambda adds, most=0: [adds[at : at + 2] for at in range(0, len(adds), 2)])
        yield


def table_of(rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


Crossed = TypeVar("Crossed")


def crossed(value: Crossed) -> Crossed:
    """What arrives of it in another process."""
    return pickle.loads(pickle.dumps(value))  # type: ignore[no-any-return]


class Elsewhere:
    """Workers, and a source that only they hold: each part is done with a pickled copy of the job and of its files;
    rows of the source are written by twos."""

    def __init__(self, store: TableStore, source: PartSource | None, extent: SourceSummary | None) -> None:
        self.store = store
        self.source = source
        self.extent = extent
        self.changed: list[list[str]] = []

    def map(self, work: Any, items: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        self.changed.append([add.path for part in items for add in part])
        for number, adds in reversed([*enumerate(items)]):
            part: ChangePart = crossed(work)
            yield number, crossed(change_part(part.job, self.store, crossed(adds), part.source, part.elsewhere))

    def change(self, job: RowJob, parts: Sequence[Sequence[AddFile]], elsewhere: bytes) -> Iterator[PartOutcome]:
        """A large source comes in parts: the rows whose keys the files hold, as a join in Spark finds them."""
        assert self.source is not None
        assert self.extent is not None
        self.changed.append([add.path for part in parts for add in part])
        for adds in parts:
            within = None if self.extent.spec.reads_every_file else self.extent.key_range(job.table)
            found = keys_in_files(crossed(job), self.store, adds, self.extent.shape.table_keys, within)
            has_key = pc.is_in(self.source.rows["k"], value_set=found.field("k0")).to_numpy(zero_copy_only=False)
            rows = PartSource(self.source.rows.filter(pa.array(has_key)), self.source.numbers[has_key])
            yield crossed(change_part(crossed(job), self.store, adds, rows, elsewhere))

    def write_new_rows(self, job: RowJob, matched: bytes, *, with_change_files: bool) -> list[NewRows]:
        assert self.source is not None
        written = []
        for start in range(0, self.source.rows.num_rows, 2):
            part = PartSource(self.source.rows.slice(start, 2), self.source.numbers[start : start + 2])
            task = TaskIdentity(ambient.uuid4(), start)
            matches = unpack(matched)
            written.append(
                write_new_rows(crossed(job), self.store, task, [part], matches, with_change_files=with_change_files)
            )
        return written


@dataclass
class Change:
    """One operation: by parts elsewhere, and by `Table`."""

    name: str
    spec: RowSpec
    by_table: Callable[[Table], Any]
    rows: pa.Table | None = None
    is_small: bool = True

    def __repr__(self) -> str:
        return self.name

    def run(self, world: World, mode: Any, **options: Any) -> tuple[txlog.WriteResult, Elsewhere]:
        open_table = world.handle()._open_table
        state = open_table.writable_state()
        asked = RowOptions(mode, CommitOptions(**options))
        source = extent = None
        if self.rows is not None:
            numbers = np.arange(self.rows.num_rows, dtype=np.int64) * 3 + (1 << 33)
            source = PartSource(self.rows, numbers)
            column = self.rows["k"].drop_null()
            ends = pc.min_max(column)
            extent = SourceSummary(
                self.spec,  # type: ignore[arg-type]
                self.spec.shape(open_table.task_table(state), from_arrow(SCHEMA), "t"),  # type: ignore[attr-defined]
                self.rows.num_rows,
                self.rows.num_rows,
                (pa.array([ends["min"].as_py(), ends["max"].as_py()] if len(column) else [], pa.int64()),),
                source if self.is_small else None,
            )
        elsewhere = Elsewhere(world.store(), source, extent)
        result = change_on_workers(
            open_table,
            state,
            self.spec,
            asked,
            extent,
            elsewhere,
            None if source is None else elsewhere,
            with_vectors=uses_vectors(state, asked.mode),
        )
        return result, elsewhere


class World:
    """A table in memory, and a second one with the operations done by `Table`, one by one."""

    def __init__(self, properties: dict[str, str]) -> None:
        self.log = FaultyLogStore(MemoryLogStore())
        self.log.inner.checks_predecessor = True  # type: ignore[attr-defined]
        self.files = MemoryFileStore()
        self.twin: World | None = None
        create_table(self.handle()._open_table, SCHEMA, ["day"], properties)

    def store(self) -> TableStore:
        return TableStore("memory://table", self.log, self.files)

    def handle(self) -> Table:
        return Table(OpenTable(self.store(), RetryPolicy(min_wait=0.0, max_wait=0.0, total_timeout=600)))

    def rows(self) -> list[str]:
        return sorted(map(repr, self.handle().snapshot().to_arrow().to_pylist()))

    def losing_to(self, winners: Sequence[Callable[[Table], Any]]) -> None:
        """The next put is held back until these have landed."""

        def first_the_others(real: Any, name: str, body: bytes) -> PutOutcome:
            for winner in winners:
                winner(self.handle())
            return real(name, body)  # type: ignore[no-any-return]

        if winners:
            self.log.script.setdefault("put_if_absent", []).append(first_the_others)

    def forget_script(self) -> bool:
        """Whether a put was still held back: the operation found nothing to do."""
        script = self.log.script.get("put_if_absent", [])
        held_back = bool(script)
        script.clear()
        return held_back


def delete(where: str) -> Change:
    return Change(f"delete {where}", DeleteSpec(where), lambda table: table.delete(where))


def update(where: str) -> Change:
    return Change(f"update {where}", UpdateSpec(VALUES, where), lambda t: t.update(VALUES, where))


def upsert(rows: Sequence[Row], is_small: bool = True, **how: Any) -> Change:
    data = table_of(rows)
    spec = UpsertSpec(UpsertOptions(("k",), **how))
    return Change(f"upsert {rows} {how}", spec, lambda t: t.upsert(data, ["k"], **how), data, is_small)


def merge(rows: Sequence[Row], is_small: bool = True) -> Change:
    data = table_of(rows)
    clauses = (
        MergeClause("matched", "delete", None, "target.v < 10"),
        MergeClause(
            "matched", "update", {"v": txlog.expr("target.v + source.v"), "day": txlog.expr("source.day")}, None
        ),
        MergeClause("not matched", "insert", None, "source.v is not null"),
        MergeClause("not matched by source", "update", {"v": txlog.expr("0")}, "target.v > 40"),
    )
    spec = MergeSpec(MergeOptions(("k",), "source", "target"), clauses, ambient.now())

    def by_table(table: Table) -> Any:
        begun = table.merge(data, ["k"]).when_matched_delete("target.v < 10")
        begun.when_matched_update({"v": txlog.expr("target.v + source.v"), "day": txlog.expr("source.day")})
        begun.when_not_matched_insert_all("source.v is not null")
        return begun.when_not_matched_by_source_update({"v": txlog.expr("0")}, "target.v > 40").execute()

    return Change(f"merge {rows}", spec, by_table, data, is_small)


def merge_several(rows: Sequence[Row], is_small: bool = True) -> Change:
    """Several source rows with one key may delete a row; those with the value 50 update rows instead."""
    data = table_of(rows)
    clauses = (
        MergeClause("matched", "delete", None, "source.v < 50 and source.day = target.day"),
        MergeClause(
            "matched", "update", {"day": txlog.expr("source.day")}, "source.v = 50 and source.day != target.day"
        ),
        MergeClause("not matched", "insert", None, "source.v > 10"),
    )
    spec = MergeSpec(MergeOptions(("k",), "source", "target"), clauses, ambient.now())

    def by_table(table: Table) -> Any:
        begun = table.merge(data, ["k"]).when_matched_delete(clauses[0].predicate)
        begun.when_matched_update({"day": txlog.expr("source.day")}, clauses[1].predicate)
        return begun.when_not_matched_insert_all("source.v > 10").execute()

    return Change(f"merge several {rows}", spec, by_table, data, is_small)


def compact(table: Table) -> None:
    with table.transaction(operation="OPTIMIZE", data_change=False) as txn:
        files = txn.snapshot.files()
        if files.num_rows:
            txn.append(txn.snapshot.to_arrow())
            txn.remove(files.column("path"))


def changes_of(world: World, version: int) -> list[tuple[str, str]]:
    """The feed of a version: the kind of each change, and its row."""
    reported = world.handle().changes(version, version).read_all()
    kinds, rows = reported.column("_change_type").to_pylist(), reported.select(SCHEMA.names).to_pylist()
    return list(zip(kinds, map(repr, rows), strict=True))


def kinds_of_changes(world: World) -> Counter[str]:
    """The number of changes of each kind in the feed of the newest version; empty if there is no feed."""
    snapshot = world.handle().snapshot()
    if "delta.enableChangeDataFeed" not in snapshot.properties:
        return Counter()
    return Counter(kind for kind, _ in changes_of(world, snapshot.version))


def assert_feed_leads_from_each_version_to_the_next(world: World) -> None:
    if "delta.enableChangeDataFeed" not in world.handle().snapshot().properties:
        return
    rows: Counter[str] = Counter()
    for version in range(1, world.handle().version + 1):
        for kind, row in changes_of(world, version):
            rows[row] += 1 if kind in ("insert", "update_postimage") else -1
        found = Counter(map(repr, world.handle().snapshot(version).to_arrow().to_pylist()))
        assert {row: count for row, count in rows.items() if count} == found, version


def ids_of_rows(world: World) -> dict[int | None, tuple[int, int]]:
    """The id and commit version of live rows by their keys, from files and log alone; {} where rows have no ids.

    Asserts that no two rows have one id.
    """
    snapshot = world.handle().snapshot()
    if "delta.enableRowTracking" not in snapshot.properties:
        return {}
    names = [
        snapshot.properties[f"delta.rowTracking.materialized{each}ColumnName"] for each in ("RowId", "RowCommitVersion")
    ]
    vectors = DeletionVectorReader(world.store(), snapshot.version)
    found: list[tuple[int | None, tuple[int, int]]] = []
    for add in add_files_of(snapshot.files()):
        with world.files.open(str(resolve_data_path(add.path).path)) as source:
            file = pq.read_table(source)
        count = file.num_rows
        stored = [file[name].to_pylist() if name in file.schema.names else [None] * count for name in names]
        dead = set() if add.deletion_vector is None else {*vectors.dead_rows(add.deletion_vector, count).tolist()}
        for at, (key, id, version) in enumerate(zip(file["k"].to_pylist(), *stored, strict=True)):
            if at not in dead:
                assert add.base_row_id is not None
                assert add.default_row_commit_version is not None
                fresh = (add.base_row_id + at, add.default_row_commit_version)
                found.append((key, (fresh[0] if id is None else id, fresh[1] if version is None else version)))
    assert len({id for _, (id, _) in found}) == len(found), "two rows have one id"
    return dict(found)


keys = st.one_of(st.integers(0, 7), st.none())
values = st.one_of(st.integers(0, 50), st.none())
table_rows = st.lists(st.tuples(keys, st.sampled_from("ab"), values), min_size=1, max_size=5)
source_rows = st.lists(
    st.tuples(st.integers(0, 7), st.sampled_from("ab"), values), min_size=1, max_size=4, unique_by=lambda row: row[0]
)
repeated_rows = st.lists(
    st.tuples(st.integers(0, 7), st.sampled_from("ab"), st.integers(0, 49)), min_size=1, max_size=8
)
HOW: list[dict[str, Any]] = [
    {},
    {"when_matched": "ignore"},
    {"when_not_matched": "ignore"},
    {"update_columns": ["v"]},
    {"update_columns": ["v"], "when_not_matched": "ignore"},
]
changes = st.one_of(
    st.sampled_from(CONDITIONS).map(delete),
    st.sampled_from(CONDITIONS).map(update),
    st.builds(lambda rows, small, how: upsert(rows, small, **how), source_rows, st.booleans(), st.sampled_from(HOW)),
    st.builds(merge, source_rows, st.booleans()),
    st.builds(merge_several, repeated_rows, st.booleans()),
)
winners = st.lists(
    st.one_of(
        table_rows.map(lambda rows: lambda table: table.append(table_of(rows))),
        st.sampled_from(CONDITIONS).map(lambda where: lambda table: table.delete(where)),
        source_rows.map(lambda rows: lambda table: table.upsert(table_of(rows), ["k"])),
        st.just(compact),
    ),
    max_size=3,
)


@pytest.mark.parametrize(
    "properties",
    [
        pytest.param(given, id=name, marks=() if given.keys() >= KEPT.keys() else pytest.mark.hunt(part="properties"))
        for name, given in WAYS.items()
    ],
)
@given(
    st.lists(table_rows, min_size=1, max_size=3),
    st.lists(st.tuples(changes, winners, st.sampled_from([None, "copy-on-write"])), min_size=1, max_size=3),
)
def test_parts_done_elsewhere_make_what_the_table_makes_in_the_order_of_the_commits(
    properties: dict[str, str], first: list[list[Row]], steps: list[Any]
) -> None:
    world, twin = World(properties), World(properties)
    for rows in first:
        for each in (world, twin):
            each.handle().append(table_of(rows))
    for change, before, mode in steps:
        world.losing_to(before)
        result, _ = change.run(world, mode)
        if world.forget_script():
            before = []
        for winner in before:
            winner(twin.handle())
        expected = change.by_table(twin.handle())
        assert world.rows() == twin.rows(), change
        if result.attempts and expected.attempts:
            reported = ("rows_inserted", "rows_updated", "rows_deleted")
            assert [getattr(result.metrics, name) for name in reported] == [
                getattr(expected.metrics, name) for name in reported
            ], change
            ours, theirs = (each.handle().history(1)[0] for each in (world, twin))
            assert ours["operation"] == theirs["operation"]
            assert ours["operationParameters"] == theirs["operationParameters"]
            assert ours["operationMetrics"].keys() == theirs["operationMetrics"].keys()
            assert kinds_of_changes(world) == kinds_of_changes(twin), change
    assert_feed_leads_from_each_version_to_the_next(world)
    ids_of_rows(world)
    assert verify_table(world.store()).findings == ()


# --- what is looked into again ----------------------------------------------------------------------------------------

ROWS: list[Row] = [(1, "a", 1), (2, "a", 2), (3, "b", 30)]


@pytest.mark.parametrize(
    "change", [delete("k = 1"), upsert([(1, "a", 9)]), upsert([(1, "a", 9)], is_small=False)], ids=repr
)
def test_after_a_race_lost_to_an_append_only_its_file_is_looked_into(change: Change) -> None:
    world = World(VECTORS)
    world.handle().append(table_of(ROWS))
    world.losing_to([lambda table: table.append(table_of([(1, "b", 7), (0, "b", 7)]))])
    result, elsewhere = change.run(world, None)
    assert result.metrics.reexecutions == 1
    assert len(elsewhere.changed[0]) in (1, 2)
    again = [path for call in elsewhere.changed[1:] for path in call]
    assert not set(again) & set(elsewhere.changed[0])
    assert (len(again) == 1) == (not change.is_small), "few files are changed here, unless the source is in Spark alone"
    assert not any("'k': 1," in row and "9" not in row for row in world.rows())


def test_another_writers_vector_on_other_rows_is_joined_with_ours_without_a_new_look() -> None:
    world = World(VECTORS)
    world.handle().append(table_of([(n, "a", n) for n in range(10)]))
    world.losing_to([lambda table: table.delete("k = 5")])
    result, elsewhere = upsert([(1, "a", 99)], is_small=False).run(world, None)
    assert result.metrics.reexecutions == 1
    assert len(elsewhere.changed) == 1
    assert (result.metrics.rows_inserted, result.metrics.rows_updated) == (0, 1)
    live = {row["k"]: row["v"] for row in world.handle().snapshot().to_arrow().to_pylist()}
    assert live == {n: n for n in range(10) if n != 5} | {1: 99}


def test_a_file_that_loses_its_last_rows_to_two_writers_is_removed() -> None:
    world = World(VECTORS)
    world.handle().append(table_of([(1, "a", 1), (2, "a", 2)]))
    world.losing_to([lambda table: table.delete("k = 2")])
    result, _ = delete("k = 1").run(world, None)
    assert result.metrics.reexecutions == 1
    assert world.handle().snapshot().files().num_rows == 0


def test_the_fraction_of_dead_rows_counts_another_writers_deletes() -> None:
    world = World(VECTORS)
    world.handle().append(table_of([(n, "a", n) for n in range(10)]))
    world.losing_to([lambda table: table.delete("k in (5, 6)")])
    result, _ = delete("k = 1").run(world, None)
    assert result.metrics.reexecutions == 1
    assert result.metrics.dead_fraction == 0.3


def test_inserted_rows_get_into_the_feed_if_only_a_reexecution_changes_other_rows() -> None:
    world = World(KEPT)
    world.handle().append(table_of([(1, "a", 1)]))
    world.losing_to([lambda table: table.append(table_of([(3, "b", 50)]))])
    result, _ = merge([(9, "a", 5)]).run(world, None)
    assert result.metrics.reexecutions == 1
    assert kinds_of_changes(world) == {"insert": 1, "update_preimage": 1, "update_postimage": 1}
    assert_feed_leads_from_each_version_to_the_next(world)


def test_new_rows_are_chosen_again_if_as_many_but_other_source_rows_match() -> None:
    world = World(VECTORS)
    world.handle().append(table_of([(1, "a", 1), (2, "a", 2)]))
    moved = [lambda table: table.delete("k = 1"), lambda table: table.append(table_of([(50, "b", 0)]))]
    world.losing_to(moved)
    upsert([(1, "b", 99), (50, "b", 99)], is_small=False, when_matched="ignore").run(world, None)
    expected = [(1, "b", 99), (2, "a", 2), (50, "b", 0)]
    assert world.rows() == sorted(map(repr, table_of(expected).to_pylist()))


def test_a_concurrently_restored_row_survives_a_delete_of_all_others_in_its_file() -> None:
    world = World(VECTORS)
    before = world.handle().append(table_of([(n, "a", n) for n in range(4)])).version
    world.handle().delete("k = 2")
    world.losing_to([lambda table: table.restore(before)])
    delete("k != 2").run(world, None)
    assert world.rows() == ["{'k': 2, 'day': 'a', 'v': 2}"]


def test_a_row_that_died_meanwhile_is_not_updated_and_its_key_is_inserted() -> None:
    world = World(VECTORS)
    world.handle().append(table_of([(n, "a", n) for n in range(10)]))
    world.losing_to([lambda table: table.delete("k = 1")])
    result, elsewhere = upsert([(1, "b", 99), (50, "b", 99)], is_small=False, when_matched="ignore").run(world, None)
    assert len(elsewhere.changed) == 2
    assert (result.metrics.rows_inserted, result.metrics.rows_updated) == (2, 0)
    assert "{'k': 1, 'day': 'b', 'v': 99}" in world.rows()


@pytest.mark.parametrize("is_small", [True, False])
@pytest.mark.parametrize("properties", [{**KEPT, **VECTORS}, KEPT], ids=["vectors", "copies"])
def test_rows_that_tasks_write_again_keep_their_ids(properties: dict[str, str], is_small: bool) -> None:
    world, twin = World(properties), World(properties)
    for first in (0, 10, 20, 30, 40):
        for each in (world, twin):
            each.handle().append(table_of([(n, "a", n) for n in range(first, first + 10)]))
    steps = [
        update("k in (1, 2, 11, 41)"),
        upsert([(2, "b", 7), (12, "b", 7), (41, "a", 7), (60, "a", 7)], is_small),
        upsert([(3, "b", 8), (22, "b", 8), (61, "b", 8)], is_small, update_columns=["v"]),
        merge([(4, "b", 9), (60, "b", 9), (44, "a", 9), (62, "a", 9)], is_small),
        delete("k in (5, 15)"),
    ]
    for change in steps:
        before, version = ids_of_rows(world), world.handle().version
        change.run(world, None)
        change.by_table(twin.handle())
        assert world.rows() == twin.rows(), change
        old = {key: id for key, id in ids_of_rows(world).items() if key in before}
        assert {key: id for key, (id, _) in old.items()} == {key: before[key][0] for key in old}, change
        by_table = ids_of_rows(twin)
        assert all(by_table[key] == id for key, id in old.items() if key is not None and key < 50), change
        changed = {key for key, each in old.items() if each != before[key]}
        assert all(old[key][1] == version + 1 for key in changed)
        tags = world.handle().history(1)[0]["tags"]
        assert tags["delta.rowTracking.preserved"] == "true"


@pytest.mark.parametrize("properties", WAYS.values(), ids=WAYS.keys())
@pytest.mark.parametrize("is_small", [True, False], ids=["small", "large"])
def test_of_several_source_rows_with_a_key_the_one_that_a_clause_applies_to_changes_the_row(
    properties: dict[str, str], is_small: bool
) -> None:
    world = World(properties)
    for number in range(3):
        world.handle().append(table_of([(1, "a", number), (number + 10, "a", 0)]))
    source: list[Row] = [(1, "a", 50), (1, "b", 50), (11, "a", 1), (11, "a", 2), (9, "a", 50), (1, "b", 1)]
    result, _ = merge_several(source, is_small).run(world, None)
    assert (result.metrics.rows_inserted, result.metrics.rows_updated, result.metrics.rows_deleted) == (1, 3, 1)
    expected = [(1, "b", 0), (1, "b", 1), (1, "b", 2), (9, "a", 50), (10, "a", 0), (12, "a", 0)]
    assert world.rows() == sorted(map(repr, table_of(expected).to_pylist()))
    assert_feed_leads_from_each_version_to_the_next(world)
    with pytest.raises(
        txlog.InvalidInputError, match=r"two source rows match the same row of the table, by k=10 \(row"
    ):
        merge_several([(10, "b", 50), (10, "a", 1)], is_small).run(world, None)
    assert world.rows() == sorted(map(repr, table_of(expected).to_pylist()))


def test_of_the_parts_that_have_a_key_one_writes_the_row_and_all_take_out_theirs() -> None:
    world = World({**KEPT, **VECTORS})
    for number in range(6):
        world.handle().append(table_of([(1, "a", number), (number + 10, "a", 0)]))
    result, _ = upsert([(1, "b", 99), (13, "b", 99), (50, "b", 99)]).run(world, None)
    assert (result.metrics.rows_inserted, result.metrics.rows_updated, result.metrics.rows_deleted) == (1, 2, 5)
    assert kinds_of_changes(world) == {"update_preimage": 2, "update_postimage": 2, "delete": 5, "insert": 1}
    assert_feed_leads_from_each_version_to_the_next(world)
    assert [row for row in world.rows() if "'k': 1," in row] == ["{'k': 1, 'day': 'b', 'v': 99}"]


def test_a_row_is_written_by_another_part_where_the_one_that_wrote_it_lost_its_own() -> None:
    world = World({**KEPT, **VECTORS})
    world.handle().append(table_of([(n, "a", n) for n in range(10)]))
    world.losing_to([lambda table: table.append(table_of([(1, "b", 50)]))])
    world.log.script["put_if_absent"].append(lambda real, name, body: real(name, body))  # that of the append
    world.losing_to([lambda table: table.delete("k = 1 and v = 1")])
    result, _ = upsert([(1, "b", 99)], is_small=False).run(world, None)
    assert result.metrics.reexecutions == 2
    assert [row for row in world.rows() if "'k': 1," in row] == ["{'k': 1, 'day': 'b', 'v': 99}"]
    assert kinds_of_changes(world) == {"update_preimage": 1, "update_postimage": 1}
    assert_feed_leads_from_each_version_to_the_next(world)


def test_rows_of_removed_files_are_in_the_feed_if_other_rows_are_deleted_too() -> None:
    world = World(KEPT)
    world.handle().append(table_of([(1, "a", 1), (2, "a", 2)]))
    world.handle().append(table_of([(3, "b", 3), (9, "b", 9)]))
    delete("k <= 3").run(world, None)
    assert sorted(changes_of(world, world.handle().version)) == [
        ("delete", repr({"k": k, "day": day, "v": k})) for k, day in ((1, "a"), (2, "a"), (3, "b"))
    ]
    delete("day = 'b'").run(world, None)
    assert [kind for kind, _ in changes_of(world, world.handle().version)] == ["delete"]
    assert_feed_leads_from_each_version_to_the_next(world)


def test_rows_of_removed_files_are_in_the_feed_once_after_a_lost_race() -> None:
    world = World(KEPT)
    world.handle().append(table_of([(1, "a", 1), (2, "a", 2)]))
    world.handle().append(table_of([(3, "b", 3), (9, "b", 9)]))
    world.losing_to([lambda table: table.append(table_of([(20, "a", 20)]))])
    result, _ = delete("k <= 3").run(world, None)
    assert result.metrics.reexecutions == 1
    assert kinds_of_changes(world) == {"delete": 3}
    assert_feed_leads_from_each_version_to_the_next(world)


def test_a_removed_file_with_a_vector_has_its_rows_in_change_files() -> None:
    world = World({"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "true"})
    world.handle().append(table_of([(1, "a", 1), (2, "a", 2), (3, "b", 3)]))
    world.handle().delete("k = 1")
    delete("day = 'a'").run(world, None)
    table = world.handle()
    (commit,) = table._open_table.log.commits_between(table.version, table.version)
    assert [type(action).__name__ for action in commit.actions if "File" in type(action).__name__] == [
        "RemoveFile",
        "AddCDCFile",
    ]
    assert changes_of(world, table.version) == [("delete", repr({"k": 2, "day": "a", "v": 2}))]
    assert_feed_leads_from_each_version_to_the_next(world)


@pytest.mark.parametrize("properties", WAYS.values(), ids=WAYS.keys())
def test_a_task_changes_files_and_writes_rows_without_the_log(properties: dict[str, str], tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", SCHEMA, ["day"], properties)
    table.append(table_of([(n, "a", n) for n in range(10)]))
    open_table = table._open_table
    state = open_table.writable_state()
    source = PartSource(table_of([(1, "b", 7), (50, "b", 7)]), np.arange(2))
    adds = add_files_of(open_table.log.files(state))
    here = TaskTable.of(open_table.store, state)
    for spec in (upsert([(1, "b", 7)]).spec, update("k = 3").spec, delete("k = 4").spec):
        fit = adapted(spec, state)
        job = crossed(RowJob(here, fit, with_vectors=uses_vectors(state, None)))
        given = source if isinstance(fit, UpsertSpec) else None
        outcome = change_part(job, job.table.files, adds, given)
        assert [len(unpack(each.replaced)) for each in outcome.files] == [1]
        assert bool(outcome.change_files) == ("delta.enableChangeDataFeed" in properties)
        if given is not None:
            written = write_new_rows(job, job.table.files, TaskIdentity("job"), [source], unpack(outcome.matched))
            assert written.rows == (1 if fit.writes_in_place else 2)


def test_a_change_that_fails_before_its_put_leaves_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World({})
    world.handle().append(table_of(ROWS))
    before = set(world.files.objects)

    def fail(*_: Any, **__: Any) -> Any:
        raise txlog.StorageError("the log is gone")

    monkeypatch.setattr(ProposalBuilder, "build", fail)
    with pytest.raises(txlog.StorageError, match="the log is gone"):
        upsert([(1, "a", 5), (9, "b", 5)], is_small=False).run(world, None)
    assert set(world.files.objects) == before


def test_a_large_source_is_only_looked_for_in_files_within_its_keys() -> None:
    world = World(VECTORS)
    for first in (0, 100, 200):
        world.handle().append(table_of([(n, "a", n) for n in range(first, first + 10)]))
    _, elsewhere = upsert([(104, "a", -1), (108, "a", -1)], is_small=False).run(world, None)
    assert [len(call) for call in elsewhere.changed] == [1]


@pytest.mark.parametrize("is_small", [True, False])
def test_with_read_version_only_later_changes_of_matching_keys_conflict(
    is_small: bool,
) -> None:
    world = World(VECTORS)
    world.handle().append(table_of([(n, "a", n) for n in range(10)]))
    world.handle().append(table_of([(n, "b", n) for n in range(100, 110)]))
    source = upsert([(1, "a", -1), (2, "a", -1)], is_small=is_small)
    world.losing_to([lambda table: table.delete("k = 105")])
    assert source.run(world, None, read_version=world.handle().version)[0].outcome == "committed"
    for winner in (lambda t: t.append(table_of([(2, "a", 0)])), lambda t: t.update({"v": txlog.expr("7")}, "k = 2")):
        world.losing_to([winner])
        with pytest.raises(txlog.ConflictError):
            source.run(world, None, read_version=world.handle().version)


# --- the check can fail ---------------------------------------------------------------------------------------------


def forget_dead_hits(patch: pytest.MonkeyPatch) -> None:
    """What a task did is kept although rows that it matched died."""
    followed = DistributedTasks._followed

    def kept(self: DistributedTasks, each: Any, add: Any, vectors: Any) -> Any:
        dead = pack(vectors.dead_rows(add.deletion_vector, each.num_rows)) if add and add.deletion_vector else b""
        hits = (
            each
            if each.hits is None
            else replace(each, dead_hits=bytes((unpack(dead) & unpack(each.hits)).serialize()))
        )
        return followed(self, hits, add, vectors)

    patch.setattr(DistributedTasks, "_followed", kept)


def keep_own_vectors(patch: pytest.MonkeyPatch) -> None:
    """The vectors of tasks replace those that others wrote meanwhile."""

    def kept(self: DistributedTasks, each: Any, add: Any, vectors: Any) -> Any:
        return (each if add is None else replace(each, key=add.live_key)), None

    patch.setattr(DistributedTasks, "_followed", kept)


def look_once(patch: pytest.MonkeyPatch) -> None:
    replaced = DistributedTasks.replaced

    def once(self: DistributedTasks, state: Any, live: Any, new: Any, choice: Any) -> Any:
        if self._executions > 0:
            choice.excluded.update(add.live_key for add in new)
            new = []
        return replaced(self, state, live, new, choice)

    patch.setattr(DistributedTasks, "replaced", once)


def write_source_once(patch: pytest.MonkeyPatch) -> None:
    source_rows = DistributedTasks._written_source_rows

    def once(self: DistributedTasks) -> Any:
        found = self._new_rows
        return source_rows(self) if found is None else (found.written, len(found.matched))

    patch.setattr(DistributedTasks, "_written_source_rows", once)


def write_rows_of_other_parts(patch: pytest.MonkeyPatch) -> None:
    changed = DistributedTasks._changed
    patch.setattr(DistributedTasks, "_changed", lambda self, adds, elsewhere: changed(self, adds, b""))


def scenarios() -> list[tuple[list[Row], Change, Callable[[Table], Any]]]:
    ten: list[Row] = [(n, "a", n) for n in range(10)]
    insert = upsert([(1, "b", 99), (50, "b", 99)], is_small=False, when_matched="ignore")
    return [
        (ten, insert, lambda table: table.delete("k = 1")),
        (ten, insert, lambda table: table.append(table_of([(50, "b", 0)]))),
        (ten, upsert([(1, "b", 99)], is_small=False), lambda table: table.delete("k = 5")),
        (ten, upsert([(1, "b", 99)], is_small=False), lambda table: table.append(table_of([(1, "b", 0)]))),
        (ten, update("k in (1, 2, 3)"), lambda table: table.delete("k = 2")),
        (ten, delete("k in (1, 2, 3)"), lambda table: table.append(table_of([(1, "b", 0)]))),
    ]


def run_scenarios() -> None:
    for properties, (rows, change, winner) in itertools.product((VECTORS, {**KEPT, **VECTORS}), scenarios()):
        world, twin = World(properties), World(properties)
        for each in (world, twin):
            each.handle().append(table_of(rows))
        world.losing_to([winner])
        change.run(world, None)
        winner(twin.handle())
        change.by_table(twin.handle())
        assert world.rows() == twin.rows(), change


def test_each_scenario_of_retried_spark_row_changes_gives_the_expected_rows() -> None:
    run_scenarios()


@pytest.mark.parametrize(
    "mutate",
    [forget_dead_hits, keep_own_vectors, look_once, write_source_once, write_rows_of_other_parts],
    ids=lambda mutate: mutate.__name__,
)
def test_a_bug_put_into_the_retry_of_spark_row_changes_fails_a_scenario(
    mutate: Callable[[pytest.MonkeyPatch], None],
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        mutate(patch)
        with pytest.raises((AssertionError, txlog.TxlogError)):
            run_scenarios()
