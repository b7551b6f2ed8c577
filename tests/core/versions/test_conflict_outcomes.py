"""The conflict matrix: what happens to each operation when each other one commits while it runs.

`GRID` is the whole table. What it expects is written from Delta's ConflictChecker (Spark's Scala source), not from
this code; `SPARK_DIFFERS` names every cell where Spark would answer otherwise, and why we do not (Spark itself is asked
in ``integration/test_spark_conflicts.py``). Each cell runs for real: two handles on one table in memory, the rival's
commit landing between the operation's plan and its put, so that what is proposed, what the committer does and what
rows are there in the end are all looked at.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest

from tests.writes import write_batch
from txlog.core import ambient
from txlog.core.definition import Definition, commit_definition, new_table
from txlog.core.format.actions import Action, DomainMetadata, Protocol
from txlog.core.format.commit_file import Commit, parse_commit
from txlog.core.format.log_names import commit_name
from txlog.core.operations import WriteOptions
from txlog.core.store import PutOutcome, TableStore
from txlog.core.versions._open_table import OpenTable
from txlog.core.versions.decisions.conflicts import Conflict, decide
from txlog.core.versions.decisions.exactly_once import AlreadyCommitted
from txlog.core.versions.decisions.proposal import Proposal, ReadSet
from txlog.core.versions.decisions.state import TableState
from txlog.core.writing.commit_options import CommitOptions
from txlog.errors import ConflictError, ConflictReason
from txlog.result import WriteResult
from txlog.snapshot import Snapshot
from txlog.table import Table
from txlog.table_transaction import Transaction
from txlog.testing.memory_store import MemoryFileStore, MemoryLogStore, memory_table_store

# Row: the operation that is judged. Column: the commit that came first. A cell is the outcome under Serializable and
# WriteSerializable, "|" between them where they differ:
#   .  it commits, as if it had begun after the winner      <  it commits, as if it had ended before the winner
#   A  ConcurrentAppendError   R  ConcurrentDeleteReadError   D  ConcurrentDeleteDeleteError
#   T  ConcurrentTransactionError   M  MetadataChangedError   P  ProtocolChangedError
#   -  cannot be: a table that is there is not created
# Several letters are several reasons; the first names the exception, and is the one that Spark would throw.
# The table has a file for Monday (ids 1, 3, 5) and one for Tuesday (2); unless it says otherwise an operation is
# about Monday. "append" and "append-tue" read nothing; "append-read" and "append-all" add what they computed from
# Monday or from all rows; "delete-rows" keeps 3 and 5; "merge" is by key and inserts one; "create" also stands
# before every other winner of its row.
GRID = """
                   append append-tue append-read append-all delete-rows delete-day overwrite dynamic merge rewrite schema property protocol txn domain create
append             .      .          .           .          .           .          .         .       .     .       M      M        P        .   .      -
append-tue         .      .          .           .          .           .          .         .       .     .       M      M        P        .   .      -
append-read        A|<    .          A           A          AR          R          AR        AR      AR    R       M      M        P        A|< .      -
append-all         A|<    A|<        A           A          AR          R          AR        AR      AR    R       M      M        P        A|< .      -
delete-rows        A|<    .          A           A          ARD         RD         ARD       ARD     ARD   RD      M      M        P        A|< .      -
delete-day         A|<    .          A           A          ARD         RD         ARD       ARD     ARD   RD      M      M        P        A|< .      -
delete-tue         .      A|<        .           .          .           .          RD        .       .     .       M      M        P        .   .      -
delete-id          .      .          .           .          RD          RD         RD        RD      RD    RD      M      M        P        .   .      -
overwrite          A|<    A|<        A           A          ARD         RD         ARD       ARD     ARD   RD      M      M        P        A|< .      -
overwrite-widening A      A          A           A          ARD         RD         ARD       ARD     ARD   RD      M      M        P        A   .      -
dynamic            A|<    .          A           A          ARD         RD         ARD       ARD     ARD   RD      M      M        P        A|< .      -
merge              .      .          .           .          RD          RD         RD        RD      ARD   RD      M      M        P        .   .      -
rewrite            .      .          .           .          RD          RD         RD        RD      RD    RD      M      M        P        .   .      -
rewrite-snapshot   .      .          .           .          RD          RD         RD        RD      RD    RD      M      M        P        .   .      -
schema             .      .          .           .          .           .          .         .       .     .       M      M        P        .   .      -
property           .      .          .           .          .           .          .         .       .     .       M      M        P        .   .      -
protocol           .      .          .           .          .           .          .         .       .     .       M      M        P        .   .      -
txn                .      .          .           .          .           .          .         .       .     .       M      M        P        T   .      -
domain             .      .          .           .          .           .          .         .       .     .       M      M        P        .   T      -
create             PM     PM         PM          PM         PM          PM         PM        PM      PM    PM      PM     PM       PM       PM  PM     PM
"""  # noqa: E501

# Cells that need a rival of their own kind: (operation, winner, outcome as above; "=": it is in the table already).
PARTICULARS = [
    ("txn-7", "txn-7", "="),  # a twin of ours committed the same checkpoint
    ("txn-7", "txn-8", "T"),  # a twin went on: ours is stale
    ("txn-8", "txn-7", "T"),  # a twin is behind: committing ours would leave it a checkpoint that went backwards
    ("txn-7", "txn-other", "."),
    ("domain", "domain-other", "."),
    ("append", "allow-deletion-vectors", "M"),
    (
        "delete-day",
        "append-undeclared",
        "A",
    ),  # a commit that does not declare a blind append counts as having read the table
    ("delete-tue", "append-undeclared", "."),
    ("rewrite-named-write", "append", "."),
    ("rewrite-named-write", "append-read", ".|A"),  # WriteSerializable: only what is known to move rows is let off
]

BY_PARTITION = "Spark holds the winner's files against the partition alone; their statistics show that no row matches"
NEW_RULES = (
    "Spark lets it through unless it changes the protocol too. Its files were made under the rules of before, and what"
    " a new feature asks of them is not known: run again, it is made under the new rules"
)
MOVED = "Spark counts rows that only moved as added. The files they came from are judged as removed, which is enough"
# (operations, winners, what Spark's Delta answers, why ours is another answer)
SPARK_DIFFERS = [
    ("append append-tue append-read append-all", "protocol", ".", NEW_RULES),
    ("delete-rows delete-day delete-tue delete-id overwrite overwrite-widening", "protocol", ".", NEW_RULES),
    ("dynamic merge rewrite rewrite-snapshot schema property txn domain", "protocol", ".", NEW_RULES),
    ("delete-id merge", "append append-tue txn", "A|<", BY_PARTITION),
    ("delete-id merge", "append-read append-all", "A", BY_PARTITION),
    ("delete-id merge", "delete-rows overwrite dynamic", "ARD", BY_PARTITION),
    ("delete-id", "merge", "ARD", BY_PARTITION),
    ("append-read append-all", "rewrite", "AR", MOVED),
    ("delete-rows delete-day delete-id overwrite overwrite-widening dynamic merge", "rewrite", "ARD", MOVED),
    ("txn-7", "txn-7", "T", "Spark throws, and finds the batch there when it is run again: the same, later"),
    (
        "append",
        "allow-deletion-vectors",
        ".",
        "Spark lets it pass over some changes of properties; ours is planned again, which guesses nothing",
    ),
]

RULES = {
    "ConcurrentAppendError": "A",
    "ConcurrentDeleteReadError": "R",
    "ConcurrentDeleteDeleteError": "D",
    "ConcurrentTransactionError": "T",
    "MetadataChangedError": "M",
    "ProtocolChangedError": "P",
}
MONDAY = "day = 'mon'"
BASE = [(1, "mon"), (3, "mon"), (5, "mon"), (2, "tue")]
FEATURES = ("appendOnly", "domainMetadata", "invariants")
PROTOCOL = Protocol(1, 7, None, FEATURES)
WINNER, LOSER = 10, 20  # what each one's new rows and values are made of

Row = tuple[int, str]


@dataclass(frozen=True)
class State:
    """A table as its readers see it: the dictionary that the real one is held against."""

    rows: tuple[Row, ...]
    columns: frozenset[str] = frozenset()
    team: str | None = None
    features: frozenset[str] = frozenset(FEATURES)
    applications: frozenset[tuple[str, int]] = frozenset()
    domains: frozenset[tuple[str, str]] = frozenset()

    def plus(self, *rows: Row) -> State:
        return replace(self, rows=tuple(sorted((*self.rows, *rows))))

    def only(self, keep: Callable[[int, str], bool]) -> State:
        return replace(self, rows=tuple(row for row in self.rows if keep(*row)))

    def at(self, application: str, version: int) -> State:
        others = {(name, found) for name, found in self.applications if name != application}
        return replace(self, applications=frozenset({*others, (application, version)}))

    def with_domain(self, domain: str, value: str) -> State:
        others = {(name, found) for name, found in self.domains if name != domain}
        return replace(self, domains=frozenset({*others, (domain, value)}))

    def total(self, day: str | None = None) -> int:
        return sum(id_ for id_, its_day in self.rows if day in (None, its_day))


@dataclass(frozen=True)
class Kind:
    """One operation: ``run`` does it to a table, ``model`` to a `State`; both take the number its values start from."""

    run: Callable[[OpenTable, int], object]
    model: Callable[[State, int], State]


# --- the operations -------------------------------------------------------------------------------------------


def rows_of(*rows: Row, **extra: list[Any]) -> pa.Table:
    ids, days = [id_ for id_, _ in rows], [day for _, day in rows]
    return pa.table({"id": pa.array(ids, pa.int64()), "day": pa.array(days, pa.string()), **extra})


def appends(day: str, **options: Any) -> Callable[[OpenTable, int], object]:
    return lambda open_table, n: write_batch(open_table, rows_of((n, day)), WriteOptions(**options))


def appends_a_sum(where: str | None) -> Callable[[OpenTable, int], object]:
    """What it writes depends on what it read, so that a wrong order shows in the rows."""

    def run(open_table: OpenTable, n: int) -> None:
        with Transaction(open_table) as transaction:
            read = transaction.read(where).column("id").to_pylist()
            transaction.append(rows_of((1000 * n + sum(read), "mon")))

    return run


def replaces(
    where: str,
    keep: Callable[[int, str], bool] = lambda id_, day: False,
    add: Callable[[int], list[Row]] = lambda n: [],
    **options: Any,
) -> Callable[[OpenTable, int], object]:
    """Copy on write: the files that may hold a row of ``where`` go, the rows of theirs that stay are written again."""

    def run(open_table: OpenTable, n: int) -> None:
        with Transaction(open_table, **options) as transaction:
            condition = where.format(n=n)
            transaction.read(condition)
            paths = transaction.snapshot.files(condition).column("path").to_pylist()
            days = {"mon" if "mon" in path else "tue" for path in paths}
            transaction.remove(*paths)
            new = [(id_, day) for id_, day in BASE if day in days and keep(id_, day)] + add(n)  # it sees nothing later
            if new:
                transaction.append(rows_of(*new))

    return run


def commits(*actions: Callable[[int], Action]) -> Callable[[OpenTable, int], object]:
    def run(open_table: OpenTable, n: int) -> None:
        state = open_table.writable_state()
        made = tuple(action(n) for action in actions)
        open_table.commit(proposal_on(open_table, state, made), state)

    return run


def proposal_on(open_table: OpenTable, state: TableState, actions: tuple[Action, ...]) -> Proposal:
    return Proposal(
        txn_id=ambient.uuid4(),
        read_version=state.version,
        actions=actions,
        read_set=ReadSet(),
        isolation=open_table.isolation(state),
        operation="MANUAL UPDATE",
        schema=state.schema,
        partition_columns=state.partition_columns,
    )


def creates(open_table: OpenTable, n: int) -> None:
    metadata, *_ = new_table(rows_of().schema, ["day"], {})
    definition = Definition(metadata, PROTOCOL)
    commit_definition(open_table, None, definition, "CREATE TABLE", {})


def appends_undeclared(open_table: OpenTable, n: int) -> None:
    """As old and foreign writers do: commitInfo says nothing of isBlindAppend."""
    appends("mon")(open_table, n)
    log = open_table.store.log
    assert isinstance(log, MemoryLogStore)
    name = max(name for name in log.objects if name.endswith(".json"))
    body, modified_ms = log.objects[name]
    log.objects[name] = (body.replace(b'"isBlindAppend":true,', b""), modified_ms)


KINDS: dict[str, Kind] = {
    "append": Kind(appends("mon"), lambda s, n: s.plus((n, "mon"))),
    "append-tue": Kind(appends("tue"), lambda s, n: s.plus((n, "tue"))),
    "append-read": Kind(appends_a_sum(MONDAY), lambda s, n: s.plus((1000 * n + s.total("mon"), "mon"))),
    "append-all": Kind(appends_a_sum(None), lambda s, n: s.plus((1000 * n + s.total(), "mon"))),
    "delete-rows": Kind(
        replaces(f"{MONDAY} and id != 3 and id != 5", keep=lambda id_, _: id_ in (3, 5), operation="DELETE"),
        lambda s, n: s.only(lambda id_, day: day != "mon" or id_ in (3, 5)),
    ),
    "delete-day": Kind(replaces(MONDAY, operation="DELETE"), lambda s, n: s.only(lambda _, day: day != "mon")),
    "delete-tue": Kind(replaces("day = 'tue'", operation="DELETE"), lambda s, n: s.only(lambda _, day: day != "tue")),
    "delete-id": Kind(
        replaces("id = 1", keep=lambda id_, _: id_ != 1, operation="DELETE"),
        lambda s, n: s.only(lambda id_, _: id_ != 1),
    ),
    "overwrite": Kind(appends("mon", mode="overwrite"), lambda s, n: replace(s, rows=((n, "mon"),))),
    "overwrite-widening": Kind(
        lambda open_table, n: write_batch(
            open_table, rows_of((n, "mon"), new=[n]), WriteOptions(mode="overwrite", schema_mode="merge")
        ),
        lambda s, n: replace(s, rows=((n, "mon"),), columns=s.columns | {"new"}),
    ),
    "dynamic": Kind(
        replaces(MONDAY, add=lambda n: [(n, "mon")], operation="WRITE"),
        lambda s, n: s.only(lambda _, day: day != "mon").plus((n, "mon")),
    ),
    "merge": Kind(
        replaces(
            "id = 1 or id = {n}",
            keep=lambda id_, _: id_ != 1,
            add=lambda n: [(100 * n + 1, "mon"), (n, "mon")],
            operation="MERGE",
        ),
        lambda s, n: s.only(lambda id_, _: id_ not in (1, n)).plus((100 * n + 1, "mon"), (n, "mon")),
    ),
    "rewrite": Kind(replaces(MONDAY, keep=lambda *_: True, operation="OPTIMIZE", data_change=False), lambda s, n: s),
    "rewrite-snapshot": Kind(
        replaces(MONDAY, keep=lambda *_: True, operation="WRITE", data_change=False, isolation="SnapshotIsolation"),
        lambda s, n: s,
    ),
    "schema": Kind(
        lambda open_table, n: Table(open_table).add_columns(pa.schema([(f"c{n}", pa.int64())])),
        lambda s, n: replace(s, columns=s.columns | {f"c{n}"}),
    ),
    "property": Kind(
        lambda open_table, n: Table(open_table).set_properties({"team": str(n)}), lambda s, n: replace(s, team=str(n))
    ),
    "protocol": Kind(
        commits(lambda n: Protocol(1, 7, None, (*FEATURES, "changeDataFeed"))),
        lambda s, n: replace(s, features=s.features | {"changeDataFeed"}),
    ),
    "txn": Kind(
        lambda open_table, n: appends("mon", commit=CommitOptions("orders", n))(open_table, n),
        lambda s, n: s.plus((n, "mon")).at("orders", n),
    ),
    "domain": Kind(
        commits(lambda n: DomainMetadata("txlog.test", str(n), False)),
        lambda s, n: s.with_domain("txlog.test", str(n)),
    ),
    "create": Kind(creates, lambda s, n: s),
    # --- of the particulars alone
    "domain-other": Kind(
        commits(lambda n: DomainMetadata("other", str(n), False)),
        lambda s, n: s.with_domain("other", str(n)),
    ),
    "txn-other": Kind(
        appends("mon", commit=CommitOptions("clicks", 7)),
        lambda s, n: s.plus((n, "mon")).at("clicks", 7),
    ),
    "allow-deletion-vectors": Kind(
        lambda open_table, n: Table(open_table).set_properties({"delta.enableDeletionVectors": "true"}),
        lambda s, n: replace(s, features=s.features | {"deletionVectors"}),
    ),
    "append-undeclared": Kind(appends_undeclared, lambda s, n: s.plus((n, "mon"))),
    "rewrite-named-write": Kind(
        replaces(MONDAY, keep=lambda *_: True, operation="WRITE", data_change=False),
        lambda s, n: s,
    ),
    **{
        f"txn-{version}": Kind(
            appends("mon", commit=CommitOptions("orders", version)),
            lambda s, n, version=version: s.plus((n, "mon")).at("orders", version),
        )
        for version in (7, 8)
    },
}

LEVELS = ("Serializable", "WriteSerializable")


def grid_cells() -> Iterator[tuple[str, str, str]]:
    header, *lines = GRID.strip("\n").splitlines()
    for line in lines:
        loser, *cells = line.split()
        for winner, cell in zip(header.split(), cells, strict=True):
            yield loser, winner, cell


def levels_of(number: int, cell: str) -> Iterator[tuple[str, str, bool]]:
    """Each level with its outcome, and whether it tells more: where the levels agree, one of them in turn does."""
    outcomes = cell.split("|") if "|" in cell else (cell, cell)
    for place, (level, outcome) in enumerate(zip(LEVELS, outcomes, strict=True)):
        yield level, outcome, "|" in cell or place == number % 2


CELLS = [*grid_cells(), *PARTICULARS]
CASES = [
    pytest.param(
        *(loser, winner, level, outcome),
        id=f"{loser}-over-{winner}-{level}",
        marks=() if tells_more else pytest.mark.hunt(part="conflicts"),
    )
    for number, (loser, winner, cell) in enumerate(CELLS)
    if cell != "-"
    for level, outcome, tells_more in levels_of(number, cell)
]


# --- two handles and a moment ---------------------------------------------------------------------------------


class RivalsMoment(MemoryLogStore):
    """The same log as seen by the handle under test: at its first put of a new commit, the rival commits first."""

    def __init__(self, shared: MemoryLogStore, rival: Callable[[], object]) -> None:
        super().__init__()
        self.lock, self.objects, self.durable = shared.lock, shared.objects, shared.durable
        self.rival: Callable[[], object] | None = rival

    def put_if_absent(self, name: str, body: bytes | memoryview) -> PutOutcome:
        if self.rival is not None and name not in self.objects:
            rival, self.rival = self.rival, None
            rival()
        return super().put_if_absent(name, body)


class Recorded(OpenTable):
    """An engine that keeps what was proposed through it."""

    def __init__(self, store: TableStore) -> None:
        super().__init__(store)
        self.proposals: list[Proposal] = []

    def commit(self, proposal: Proposal, state: TableState | None, *reported: Any, **more: Any) -> WriteResult:
        self.proposals.append(proposal)
        return super().commit(proposal, state, *reported, **more)


@dataclass(frozen=True)
class Stored:
    """What a table in memory holds, to be put into as many tables as there are tests."""

    log: dict[str, tuple[bytes, int]]
    files: dict[str, tuple[bytes, int]]

    @classmethod
    def of(cls, store: TableStore) -> Stored:
        assert isinstance(store.log, MemoryLogStore)
        assert isinstance(store.files, MemoryFileStore)
        return cls(dict(store.log.objects), dict(store.files.objects))

    def put_into(self, store: TableStore) -> None:
        assert isinstance(store.log, MemoryLogStore)
        assert isinstance(store.files, MemoryFileStore)
        store.log.objects.update(self.log)
        store.files.objects.update(self.files)


@functools.cache
def base_table(level: str, exists: bool) -> Stored:
    store = memory_table_store()
    if exists:
        open_table = OpenTable(store)
        metadata, *_ = new_table(rows_of().schema, ["day"], {"delta.isolationLevel": level})
        commit_definition(open_table, None, Definition(metadata, PROTOCOL), "CREATE TABLE", {})
        write_batch(open_table, rows_of(*BASE), WriteOptions())
    return Stored.of(store)


@functools.cache
def won_by(winner: str, level: str, exists: bool) -> Stored:
    """The table after the rival, who knows nothing of the operation that is under way."""
    store = memory_table_store()
    base_table(level, exists).put_into(store)
    rival = OpenTable(store)
    for name in (winner,) if exists else dict.fromkeys(("create", winner)):
        KINDS[name].run(rival, WINNER)
    return Stored.of(store)


def state_of(open_table: OpenTable) -> State:
    state = open_table.log.newest_state()
    rows = Snapshot(open_table.log, state).to_arrow().select(["id", "day"]).to_pydict()
    return State(
        rows=tuple(sorted(zip(rows["id"], rows["day"], strict=True))),
        columns=frozenset(field.name for field in state.schema.fields) - {"id", "day"},
        team=state.metadata.configuration.get("team"),
        features=frozenset(state.protocol.writer_features or ()),
        applications=frozenset((txn.app_id, txn.version) for txn in state.transactions.values()),
        domains=frozenset((domain.domain, domain.configuration) for domain in state.domains.values()),
    )


def letters(reasons: Sequence[ConflictReason]) -> str:
    return "".join(dict.fromkeys(RULES[reason.rule] for reason in reasons))


def outcome_of(proposal: Proposal, winners: Sequence[Commit]) -> str:
    """What the pure function says, in the letters of the grid: "." and "<" are one to it."""
    decision = decide(proposal, winners)
    if isinstance(decision, Conflict):
        return letters(decision.reasons)
    return "=" if isinstance(decision, AlreadyCommitted) else "."


# --- the tests ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("loser", "winner", "level", "outcome"), CASES)
def test_an_operation_that_lost_a_race_ends_as_in_the_matrix(
    loser: str, winner: str, level: str, outcome: str, clock: Any
) -> None:
    exists = loser != "create"
    store = memory_table_store()
    base_table(level, exists).put_into(store)
    log = store.log
    assert isinstance(log, MemoryLogStore)
    base = State(tuple(sorted(BASE)) if exists else ())
    base_version = len(log.objects) - 1
    moment = RivalsMoment(log, lambda: won_by(winner, level, exists).put_into(store))
    ours = Recorded(TableStore(store.uri, moment, store.files))
    refused = None
    try:
        KINDS[loser].run(ours, LOSER)
    except ConflictError as error:
        refused = error
    assert moment.rival is None, "the rival never had its moment"

    winner_first = KINDS[winner].model(base, WINNER)
    ours_last = KINDS[loser].model(winner_first, LOSER)
    ours_first = KINDS[winner].model(KINDS[loser].model(base, LOSER), WINNER)
    assert state_of(OpenTable(store)) == {".": ours_last, "<": ours_first}.get(outcome, winner_first)
    assert (letters(refused.reasons) if refused else ".") == ("." if outcome in "<=" else outcome)
    assert refused is None or refused.kind == refused.reasons[0].rule
    assert outcome != "<" or ours_first != ours_last, "where both orders come to the same, the table says so"

    winners = [commit for commit in commits_in(log, base_version) if commit.txn_id != ours.proposals[0].txn_id]
    assert outcome_of(ours.proposals[0], winners) == ("." if outcome == "<" else outcome)


def commits_in(log: MemoryLogStore, after: int) -> Iterator[Commit]:
    version = after + 1
    while commit_name(version) in log.objects:
        yield parse_commit(log.objects[commit_name(version)][0], version)
        version += 1


def test_the_conflict_matrix_has_every_ordered_pair_of_operations() -> None:
    winners = [winner for _, winner, _ in grid_cells()]
    losers = {loser for loser, _, _ in grid_cells()}
    assert losers >= set(winners), "an operation that can win can lose"
    assert len(winners) == len(losers) * len(set(winners))
    impossible = {(loser, winner) for loser, winner, cell in grid_cells() if cell == "-"}
    assert impossible == {(loser, "create") for loser in losers - {"create"}}


def test_each_difference_from_spark_is_a_cell_with_another_outcome() -> None:
    ours = {(loser, winner): cell for loser, winner, cell in CELLS}
    named = [
        ((loser, winner), theirs)
        for losers, winners, theirs, _ in SPARK_DIFFERS
        for loser in losers.split()
        for winner in winners.split()
    ]
    assert len(dict(named)) == len(named), "each cell once"
    assert not [pair for pair, theirs in named if ours[pair] == theirs]


def test_the_levels_differ_where_the_winner_is_an_append_that_read_nothing_and_nowhere_else() -> None:
    differing = {winner for _, winner, cell in grid_cells() if "|" in cell}
    assert differing == {"append", "append-tue", "txn"}
