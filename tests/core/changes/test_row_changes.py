"""Row changes alongside other writers: whatever lands first, the table is as if the operations ran one after the other.

Every example is a tree of operations: each one's first put is held back until those below it have landed, so that it
loses to them, with the files it looked into changed or gone. The oracle runs them one by one, in the order of commits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import txlog
from txlog.audit.verify import verify_table
from txlog.core.changes.plan._file_choice import FileChoice
from txlog.core.changes.tasks import RowWork
from txlog.core.changes.tasks import _rewrite as rewrite
from txlog.core.changes.tasks._rewrite import FileRewriter
from txlog.core.definition import create_table
from txlog.core.maintenance import _compaction as compaction
from txlog.core.maintenance._compaction import Compaction
from txlog.core.maintenance.rewriting._rewrite_bin import RewrittenFile
from txlog.core.store import PutOutcome, RetryPolicy, TableStore
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions import conflicts
from txlog.core.versions.decisions.conflicts import Rebase, Reexecute, decide
from txlog.core.versions.decisions.proposal_builder import ProposalBuilder
from txlog.table import Table
from txlog.testing.faults import FaultyLogStore
from txlog.testing.memory_store import MemoryFileStore, MemoryLogStore

Row: TypeAlias = tuple[int | None, str, int | None]
SCHEMA = pa.schema([("k", pa.int64()), ("day", pa.string()), ("v", pa.int64())])
VECTORS = {"delta.enableDeletionVectors": "true"}

keys = st.one_of(st.integers(0, 7), st.none())
days = st.sampled_from("ab")
values = st.one_of(st.integers(0, 50), st.none())
table_rows = st.lists(st.tuples(keys, days, values), min_size=1, max_size=5)
source_rows = st.lists(st.tuples(st.integers(0, 7), days, values), min_size=1, max_size=4, unique_by=lambda row: row[0])
CONDITIONS: dict[str, Callable[[Row], bool]] = {
    "v = 1": lambda row: row[2] == 1,
    "v = 2": lambda row: row[2] == 2,
    "v > 25": lambda row: row[2] is not None and row[2] > 25,
    "k in (1, 2, 3)": lambda row: row[0] in (1, 2, 3),
    "day = 'a'": lambda row: row[1] == "a",
    "v is null": lambda row: row[2] is None,
    "not (v > 10 or day = 'b')": lambda row: row[2] is not None and not (row[2] > 10 or row[1] == "b"),
    "k >= 0": lambda row: row[0] is not None,
}


@dataclass
class Operation:
    """``act`` on a table; ``on`` rows as the oracle has them. ``before`` are those that it loses to."""

    name: str
    act: Callable[[Table], Any]
    on: Callable[[list[Row]], list[Row]]
    before: list[Operation] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"{self.name}{f' after {self.before}' if self.before else ''}"


def table_of(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def append(rows: list[Row]) -> Operation:
    return Operation(f"append {rows}", lambda table: table.append(table_of(rows)), lambda old: old + rows)


def delete(condition: str, mode: str | None) -> Operation:
    matches = CONDITIONS[condition]
    return Operation(
        f"delete {condition} {mode}",
        lambda table: table.delete(condition, row_mode=mode),
        lambda old: [row for row in old if not matches(row)],
    )


def delete_all() -> Operation:
    return Operation("delete all", lambda table: table.delete(all=True), lambda old: [])


def upsert(rows: list[Row], matched: str, other: str, mode: str | None) -> Operation:
    def on(old: list[Row]) -> list[Row]:
        there, mine = {row[0] for row in old}, {row[0] for row in rows}
        kept = [row for row in old if row[0] not in mine or matched == "ignore"]
        return kept + [row for row in rows if (matched == "update" if row[0] in there else other == "insert")]

    def act(table: Table) -> Any:
        return table.upsert(table_of(rows), ["k"], when_matched=matched, when_not_matched=other, row_mode=mode)

    return Operation(f"upsert {rows} {matched} {other} {mode}", act, on)


def upsert_value(rows: list[Row], mode: str | None) -> Operation:
    """Of matched rows only v is set, in each of them."""

    def on(old: list[Row]) -> list[Row]:
        mine = {row[0]: row[2] for row in rows}
        there = {row[0] for row in old}
        changed = [(row[0], row[1], mine[row[0]] if row[0] in mine else row[2]) for row in old]
        return changed + [row for row in rows if row[0] not in there]

    def act(table: Table) -> Any:
        return table.upsert(table_of(rows), ["k"], update_columns=["v"], row_mode=mode)

    return Operation(f"upsert v of {rows} {mode}", act, on)


def update(condition: str, mode: str | None) -> Operation:
    """Counts v up, and moves the rows to the other partition."""
    matches = CONDITIONS[condition]

    def changed(row: Row) -> Row:
        return (row[0], "b" if row[1] == "a" else "a", None if row[2] is None else row[2] + 1)

    return Operation(
        f"update {condition} {mode}",
        lambda table: table.update(
            {"v": txlog.expr("v + 1"), "day": txlog.expr("if(day = 'a', 'b', 'a')")}, condition, row_mode=mode
        ),
        lambda old: [changed(row) if matches(row) else row for row in old],
    )


def merge(rows: list[Row], mode: str | None) -> Operation:
    """Deletes matched rows of small values, adds to others, and inserts what is new."""

    def on(old: list[Row]) -> list[Row]:
        mine = {row[0]: row for row in rows}
        there = {row[0] for row in old}
        result: list[Row] = []
        for key, day, value in old:
            if key not in mine:
                result.append((key, day, value))
            elif value is None or value >= 10:
                added = mine[key][2]
                result.append((key, mine[key][1], None if value is None or added is None else value + added))
        return result + [row for row in rows if row[0] not in there]

    def act(table: Table) -> Any:
        begun = table.merge(table_of(rows), ["k"], row_mode=mode).when_matched_delete("target.v < 10")
        begun.when_matched_update({"v": txlog.expr("target.v + source.v"), "day": txlog.expr("source.day")})
        return begun.when_not_matched_insert_all().execute()

    return Operation(f"merge {rows} {mode}", act, on)


def compact() -> Operation:
    """Moves all live rows into one file, as an optimizer does; where it loses it gives up, which changes no row."""

    def act(table: Table) -> None:
        try:
            with table.transaction(operation="OPTIMIZE", data_change=False, isolation="SnapshotIsolation") as txn:
                files = txn.snapshot.files()
                if files.num_rows:
                    txn.append(txn.snapshot.to_arrow())
                    txn.remove(files.column("path"))
        except txlog.ConflictError:
            pass

    return Operation("compact", act, lambda old: old)


def optimize() -> Operation:
    """As a plan: vectors that others write meanwhile move to the new files."""
    return Operation("optimize", lambda table: table.optimize(), lambda old: old)


def cluster() -> Operation:
    """The same with rows that are put into another order, in several files."""
    return Operation("cluster", lambda table: table.optimize(zorder_by="v,k", target_file_size=700), lambda old: old)


def purge() -> Operation:
    return Operation("purge", lambda table: table.purge(), lambda old: old)


modes = st.sampled_from([None, "copy-on-write"])
leaves = st.one_of(
    table_rows.map(append),
    st.builds(delete, st.sampled_from(sorted(CONDITIONS)), modes),
    st.builds(
        lambda rows, how, mode: upsert(rows, *how, mode),
        source_rows,
        st.sampled_from([("update", "insert"), ("update", "insert"), ("ignore", "insert"), ("update", "ignore")]),
        modes,
    ),
    st.builds(upsert_value, source_rows, modes),
    st.builds(merge, source_rows, modes),
    st.builds(update, st.sampled_from(sorted(CONDITIONS)), modes),
    st.just(None).map(lambda _: compact()),
    st.just(None).map(lambda _: optimize()),
    st.just(None).map(lambda _: cluster()),
    st.just(None).map(lambda _: purge()),
    st.just(None).map(lambda _: delete_all()),
)


@st.composite
def operations(draw: Any, depth: int = 2) -> Operation:
    operation: Operation = draw(leaves)
    if depth:
        operation.before = draw(st.lists(operations(depth - 1), max_size=2))
    return operation


class World:
    """One table in memory, a handle for each operation, and the rows that the oracle has."""

    def __init__(self, properties: dict[str, str], *, is_disk: bool = True) -> None:
        self.log = FaultyLogStore(MemoryLogStore())
        self.log.inner.checks_predecessor = is_disk  # type: ignore[attr-defined]
        self.files = MemoryFileStore()
        self.rows: list[Row] = []
        create_table(self.handle()._open_table, SCHEMA, ["day"], properties)

    def handle(self) -> Table:
        store = TableStore("memory://table", self.log, self.files)
        return Table(OpenTable(store, RetryPolicy(min_wait=0.0, max_wait=0.0, total_timeout=600)))

    def run(self, operation: Operation) -> None:
        """The operations before it land while its first commit is on its way; then it lands."""

        def first_the_others(real: Any, name: str, body: bytes) -> PutOutcome:
            for each in operation.before:
                self.run(each)
            return real(name, body)  # type: ignore[no-any-return]

        script = self.log.script.setdefault("put_if_absent", [])
        assert not script
        if operation.before:
            script.append(first_the_others)
        operation.act(self.handle())
        if script:  # it found nothing to do, so nothing was put
            script.clear()
            for each in operation.before:
                self.run(each)
            return self._check(operation)
        self.rows = operation.on(self.rows)
        return self._check(operation)

    def _check(self, operation: Operation) -> None:
        found = self.handle().snapshot().to_arrow().to_pylist()
        assert sorted(map(repr, (tuple(row.values()) for row in found))) == sorted(map(repr, self.rows)), operation


@pytest.mark.parametrize("properties", [VECTORS, {}], ids=["vectors", "copies"])
@given(st.lists(operations(), min_size=1, max_size=4))
def test_every_history_equals_its_operations_one_by_one(properties: dict[str, str], given: list[Operation]) -> None:
    world = World(properties)
    for operation in given:
        world.run(operation)
    store = TableStore("memory://table", world.log, world.files)
    assert verify_table(store).findings == ()
    for name, (body, _) in world.log.inner.objects.items():  # type: ignore[attr-defined]
        for line in body.splitlines() if name.endswith(".json") else ():
            add = orjson.loads(line).get("add")
            if add and add.get("deletionVector"):
                vector, stats = add["deletionVector"], orjson.loads(add["stats"])
                assert vector["storageType"] == "u"
                assert 0 < vector["cardinality"] < stats["numRecords"]
                assert stats["tightBounds"] is False
    durable = {name for name in world.files.objects if name.endswith(".bin")}
    assert durable <= world.files.durable, "a vector that a commit may name was not made durable"


class Together(MemoryFileStore):
    """Each new file waits until three others are being written, as one that waits for a slow disk."""

    def __init__(self) -> None:
        super().__init__()
        self.meeting: threading.Barrier | None = None

    def create(self, path: str) -> Any:
        if self.meeting is not None:
            self.meeting.wait(30)
        return super().create(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.update({"v": txlog.expr("v + 1")}, "v = 1"),
        lambda table: table.delete("v = 1"),
        lambda table: (
            table.merge(table_of([(1, "a", 9)]), ["k"]).when_matched_update({"v": txlog.expr("source.v")}).execute()
        ),
    ],
    ids=["update", "delete", "merge"],
)
def test_the_copies_in_many_partitions_are_written_at_the_same_time(change: Callable[[Table], Any]) -> None:
    world, files = World({}), Together()
    world.files = files
    for day in "abcdefgh":
        world.handle().append(table_of([(1, day, 1), (2, day, 2)]))
    files.meeting = threading.Barrier(4)
    change(world.handle())
    rows = world.handle().snapshot().to_arrow()
    assert rows.num_rows in (8, 16)
    assert {name for name in files.objects if name.endswith(".parquet")} <= files.durable


def test_many_new_rows_are_written_beside_the_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewrite, "FEW_ROWS", 1)
    world, files = World({}), Together()
    world.files = files
    world.handle().append(table_of([(1, "a", 1), (2, "a", 2)]))
    files.meeting = threading.Barrier(2)
    merge = world.handle().merge(table_of([(1, "a", 9), (3, "a", 3), (4, "a", 4)]), ["k"])
    merge.when_matched_update({"v": txlog.expr("source.v")}).when_not_matched_insert_all().execute()
    found = world.handle().snapshot().to_arrow().to_pylist()
    assert sorted((row["k"], row["v"]) for row in found) == [(1, 9), (2, 2), (3, 3), (4, 4)]


# --- the check can fail ---------------------------------------------------------------------------------------

ROWS: list[Row] = [(1, "a", 1), (2, "a", 2), (3, "b", 30)]
FEW: list[Row] = [(4, "a", 7), (1, "a", 1), (2, "a", 2), (5, "a", 8)]
MORE: list[Row] = [(1, "a", 1), (6, "a", 11), (2, "a", 2), (7, "a", 12), (8, "a", 13)]


def losing(operation: Operation, *winners: Operation) -> Operation:
    operation.before = list(winners)
    return operation


def scenarios() -> list[list[Operation]]:
    """Each loses a race whose winner matters to what it does."""
    mine: list[Row] = [(1, "a", 9)]
    theirs: list[Row] = [(1, "b", 8), (2, "b", 8)]
    both, insert = ("update", "insert"), ("ignore", "insert")
    return [
        [append(ROWS), losing(upsert(mine, *both, None), upsert(theirs, *both, None))],
        [append(ROWS), losing(upsert(mine, *both, None), append(theirs))],
        [append(ROWS), losing(upsert(mine, *insert, None), delete("k in (1, 2, 3)", None))],
        [append(ROWS[1:]), losing(upsert(mine, *insert, None), append(theirs))],
        [append(ROWS), losing(upsert_value(mine, None), delete("day = 'a'", None))],
        [append(ROWS), losing(delete("v > 25", None), compact())],
        [append(FEW), append(MORE), losing(optimize(), delete("v = 2", None), update("v = 1", None))],
        [append(FEW), append(MORE), delete("v = 1", None), losing(optimize(), delete("v = 2", None))],
        [append(FEW), append(MORE), losing(cluster(), delete("v = 2", None), update("v = 1", None))],
        [append(FEW), append(MORE), losing(delete("v = 2", None), cluster())],
        [append(FEW), append(MORE), losing(optimize(), delete("v = 2", "copy-on-write"))],
        [append(FEW), append(MORE), losing(optimize(), optimize(), append(ROWS))],
        [append(FEW), append(MORE), losing(optimize(), delete("day = 'a'", None))],
        [append(FEW), append(MORE), losing(delete("v = 2", None), optimize())],
        [append(FEW), append(MORE), losing(upsert(mine, *both, None), optimize(), update("v = 2", None))],
        [append(MORE), delete("v = 1", None), losing(purge(), delete("v = 2", None), append(ROWS))],
        [append(ROWS), losing(update("k >= 0", None), update("day = 'a'", None))],
        [append(ROWS), losing(update("k >= 0", None), upsert([(1, "b", 8)], *both, None))],
        [append(ROWS), losing(merge([(3, "a", 5)], None), update("k >= 0", None))],
        [append(ROWS), losing(delete("k in (1, 2, 3)", None), delete("day = 'a'", None), append(ROWS))],
        [
            append([(1, "a", 1), (2, "a", 30), (4, "a", 4)]),
            losing(delete("v > 25", None), upsert([(1, "b", 1)], *both, None)),
        ],
    ]


def never_again(proposal: Any, winners: Any) -> Any:
    decision = decide(proposal, winners)
    return Rebase(decision.version) if isinstance(decision, Reexecute) else decision


def mutate_first_look_only(patch: pytest.MonkeyPatch) -> None:
    new = FileChoice.new
    has_looked: set[int] = set()

    def once(self: FileChoice, *given: Any) -> Any:
        found = new(self, *given)
        if id(self) in has_looked:
            self.excluded.update(add.live_key for add in found)
            return []
        has_looked.add(id(self))
        return found

    patch.setattr(FileChoice, "new", once)


def mutate_old_vectors(patch: pytest.MonkeyPatch) -> None:
    """What is dead is remembered by the path alone."""
    dead_rows = RowWork._dead_rows
    known: dict[Any, Any] = {}

    def by_path(self: RowWork, add: Any, *rest: Any) -> Any:
        return known.setdefault((id(self), add.path), dead_rows(self, add, *rest))

    patch.setattr(RowWork, "_dead_rows", by_path)


def mutate_old_images(patch: pytest.MonkeyPatch) -> None:
    images = FileRewriter._images

    def kept(self: FileRewriter, touched: Any) -> Any:
        return self._written.images or images(self, touched)

    patch.setattr(FileRewriter, "_images", kept)


def mutate_old_source_rows(patch: pytest.MonkeyPatch) -> None:
    source = FileRewriter._source

    def kept(self: FileRewriter, is_written: Any, ids: Any) -> Any:
        return source(self, is_written, ids) if self._written.source is None else self._written.source.files

    patch.setattr(FileRewriter, "_source", kept)


def mutate_cardinality(patch: pytest.MonkeyPatch) -> None:
    """The vector marks only what is new."""
    marked = FileRewriter._marked

    def without_old(self: FileRewriter, touched: Any) -> Any:
        return marked(self, [replace(each, dead=each.dead[:0]) for each in touched])

    patch.setattr(FileRewriter, "_marked", without_old)


def mutate_place(patch: pytest.MonkeyPatch) -> None:
    """A row is looked for one place further in the compacted file."""
    numbers = RewrittenFile.numbers
    patch.setattr(
        RewrittenFile, "numbers", lambda self, positions: numbers(self, positions) + np.uint64(len(positions) > 0)
    )


def mutate_place_of_file(patch: pytest.MonkeyPatch) -> None:
    """Each file is taken for the first in the compacted one."""
    numbers = RewrittenFile.numbers
    patch.setattr(RewrittenFile, "numbers", lambda self, positions: numbers(replace(self, first=0), positions))


def mutate_left_out_rows(patch: pytest.MonkeyPatch) -> None:
    """Rows that were left out count as if they were in the compacted file."""
    numbers = RewrittenFile.numbers
    patch.setattr(
        RewrittenFile, "numbers", lambda self, positions: numbers(replace(self, dead=self.dead[:0]), positions)
    )


def mutate_moved_vectors(patch: pytest.MonkeyPatch) -> None:
    """What others deleted meanwhile is not looked at."""
    patch.setattr(compaction, "rows_to_mark", lambda source, live, reader: source.dead[:0])


def mutate_gone_sources(patch: pytest.MonkeyPatch) -> None:
    """A file that is gone counts as one that did not change."""
    sources = Compaction._sources

    def all_live(self: Compaction, state: Any) -> Any:
        return [(number, source, live or source.add) for number, source, live in sources(self, state)]

    patch.setattr(Compaction, "_sources", all_live)


def mutate_kept_source(patch: pytest.MonkeyPatch) -> None:
    """One of the files stays next to the one that it became part of."""
    remove = ProposalBuilder.remove

    def all_but_one(self: ProposalBuilder, *files: Any) -> None:
        remove(self, *(files[1:] if len(files) > 1 else files))

    patch.setattr(ProposalBuilder, "remove", all_but_one)


def mutate_decision(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(conflicts, "decide", never_again)


MUTANTS = [
    mutate_decision,
    mutate_first_look_only,
    mutate_old_vectors,
    mutate_old_images,
    mutate_old_source_rows,
    mutate_cardinality,
    mutate_place,
    mutate_place_of_file,
    mutate_left_out_rows,
    mutate_moved_vectors,
    mutate_gone_sources,
    mutate_kept_source,
]


def run_all() -> None:
    for each in scenarios():
        world = World(VECTORS)
        for operation in each:
            world.run(operation)


def test_each_scenario_of_retried_row_changes_gives_the_expected_rows() -> None:
    run_all()


@pytest.mark.parametrize(
    "mutate",
    [
        pytest.param(mutate, id=mutate.__name__, marks=pytest.mark.hunt(part="mutants") if at % 3 else ())
        for at, mutate in enumerate(MUTANTS)
    ],
)
def test_a_bug_put_into_the_retry_of_row_changes_fails_a_scenario(mutate: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        mutate(patch)
        with pytest.raises((AssertionError, txlog.TxlogError)):
            run_all()
