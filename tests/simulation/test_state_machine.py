"""Whatever is done to a table, in whatever order, by whichever handle: it holds what a dictionary says it holds.

Hypothesis draws the operations; two handles, both open all the time and so often behind, do them on one table in
memory under a clock that moves only on request. The model is a dictionary of rows for every version, and what each
commit touched, by day. At the end deltalake reads the table too, and ``txlog verify`` looks at its log.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import txlog
from txlog.audit.verify import verify_table
from txlog.core import ambient
from txlog.core.definition._table_definition import Definition, commit_definition, new_table
from txlog.core.versions._open_table import OpenTable
from txlog.result import WriteResult
from txlog.table import Table
from txlog.table_transaction import Transaction
from txlog.testing.memory_store import MemoryFileStore, MemoryLogStore, memory_table_store

MS_PER_HOUR = 3_600_000
MS_PER_DAY = 24 * MS_PER_HOUR
RETENTION_DAYS = 3
DAYS = ("mon", "tue", "wed")
SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string())])

Row = dict[str, Any]

handles = st.integers(0, 1)
days = st.sampled_from(DAYS)
reads = st.sampled_from([None, "all", *DAYS])
new_rows = st.lists(st.tuples(days, st.integers(-5, 5)), min_size=1, max_size=4)


class VirtualClock(ambient.Ambient):
    """Time passes when an actor sleeps or a rule says so; identifiers are numbered, so a run can be repeated."""

    def __init__(self) -> None:
        self.moment_ms = 20_000 * MS_PER_DAY
        self.numbered = 0

    def now_ms(self) -> int:
        return self.moment_ms

    def monotonic_s(self) -> float:
        return self.moment_ms / 1000

    def sleep(self, seconds: float) -> None:
        self.moment_ms += max(1, int(seconds * 1000))

    def uniform(self, low: float, high: float) -> float:
        return high

    def uuid4(self) -> str:
        self.numbered += 1
        return f"00000000-0000-4000-8000-{self.numbered:012}"


@dataclass(frozen=True)
class Version:
    """The table at one version, and what the commit that made it touched."""

    committed_ms: int
    rows: dict[int, Row] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    team: str | None = None
    applications: dict[str, int] = field(default_factory=dict)
    added: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()
    is_blind: bool = False
    is_definition: bool = False


@dataclass
class Paused:
    """A transaction that was begun and not yet ended."""

    transaction: Transaction
    read_version: int
    days_read: frozenset[str]
    is_serializable: bool
    row: Row


class TableMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.exits = contextlib.ExitStack()
        self.clock = VirtualClock()
        self.exits.enter_context(ambient.use(self.clock))
        self.store = memory_table_store()
        self.tables = [Table(OpenTable(self.store)) for _ in range(2)]
        self.versions: list[Version] = []
        self.first = 0  # the earliest version that can still be read
        self.checkpoints: set[int] = set()
        self.paused: Paused | None = None
        self.next_id = 0
        self.epochs: dict[tuple[str, int], int] = {}
        self.acknowledged: dict[int, str] = {}

    @property
    def log(self) -> MemoryLogStore:
        assert isinstance(self.store.log, MemoryLogStore)
        return self.store.log

    @property
    def files(self) -> MemoryFileStore:
        assert isinstance(self.store.files, MemoryFileStore)
        return self.store.files

    @property
    def newest(self) -> Version:
        return self.versions[-1]

    def landed(self, result: WriteResult, **changes: Any) -> None:
        """A commit was acknowledged: it is the next version, and it is ``changes`` on top of the last."""
        assert (result.outcome, result.version) == ("committed", len(self.versions))
        touched = {"added": frozenset(), "removed": frozenset(), "is_blind": False, "is_definition": False}
        self.versions.append(replace(self.newest, committed_ms=self.clock.moment_ms, **(touched | changes)))
        self.acknowledged[len(self.versions) - 1] = result.txn_id
        self.clock.sleep(0.001)

    def rows(self, drawn: Iterable[tuple[str, int]]) -> dict[int, Row]:
        made: dict[int, Row] = {}
        for day, value in drawn:
            self.next_id += 1
            made[self.next_id] = {"id": self.next_id, "day": day, **dict.fromkeys(self.newest.columns[:1], value)}
        return made

    def days_of(self, rows: Iterable[Row]) -> frozenset[str]:
        return frozenset(row["day"] for row in rows)

    # --- the operations -----------------------------------------------------------------------------------------

    @initialize()
    def create(self) -> None:
        # Checkpoints come by rule alone: the ones that come by themselves are written on a thread with another clock.
        properties = {
            "delta.logRetentionDuration": f"interval {RETENTION_DAYS} days",
            "delta.checkpointInterval": "1000000",
        }
        metadata, protocol, _ = new_table(SCHEMA, ["day"], properties)
        open_table = OpenTable(self.store)
        result = commit_definition(open_table, None, Definition(metadata, protocol), "CREATE TABLE", {})
        assert result.version == 0
        self.versions.append(Version(self.clock.moment_ms))
        self.clock.sleep(0.001)

    @rule(handle=handles, drawn=new_rows)
    def append(self, handle: int, drawn: list[tuple[str, int]]) -> None:
        rows = self.rows(drawn)
        result = self.tables[handle].append(arrow(rows))
        self.landed(result, rows=self.newest.rows | rows, added=self.days_of(rows.values()), is_blind=True)

    @rule(handle=handles, drawn=new_rows)
    def append_with_a_new_column(self, handle: int, drawn: list[tuple[str, int]]) -> None:
        name = f"c{len(self.newest.columns)}"
        rows = {id_: row | {name: -id_} for id_, row in self.rows(drawn).items()}
        result = self.tables[handle].append(arrow(rows), schema_mode="merge")
        self.landed(
            result,
            rows=self.newest.rows | rows,
            columns=(*self.newest.columns, name),
            added=self.days_of(rows.values()),
            is_definition=True,
        )

    @rule(handle=handles, drawn=new_rows)
    def overwrite(self, handle: int, drawn: list[tuple[str, int]]) -> None:
        rows = self.rows(drawn)
        result = self.tables[handle].overwrite(arrow(rows))
        self.landed(
            result,
            rows=rows,
            added=self.days_of(rows.values()),
            removed=self.days_of(self.newest.rows.values()),
        )

    @rule(handle=handles, day=days, data=st.data())
    def delete_files(self, handle: int, day: str, data: st.DataObject) -> None:
        """What a file holds is read from its bytes, not through txlog."""
        paths = sorted(self.tables[handle].snapshot().files(f"day = '{day}'").column("path").to_pylist())
        if not paths:
            return
        chosen = data.draw(st.sets(st.sampled_from(paths), min_size=1), label="paths")
        gone = {id_ for path in chosen for id_ in ids_in(self.files.read(path))}
        with self.tables[handle].transaction(operation="DELETE") as transaction:
            transaction.remove(*sorted(chosen))
        assert all(self.newest.rows[id_]["day"] == day for id_ in gone)
        kept = {id_: row for id_, row in self.newest.rows.items() if id_ not in gone}
        self.landed(transaction.result, rows=kept, removed=frozenset({day}))

    @rule(handle=handles, day=days)
    def compact(self, handle: int, day: str) -> None:
        where = f"day = '{day}'"
        if not any(row["day"] == day for row in self.newest.rows.values()):
            return
        with self.tables[handle].transaction(operation="OPTIMIZE", data_change=False) as transaction:
            kept = transaction.read(where)
            transaction.remove(*transaction.snapshot.files(where).column("path").to_pylist())
            transaction.append(kept)
        self.landed(transaction.result, added=frozenset({day}), removed=frozenset({day}))

    @rule(handle=handles)
    def add_column(self, handle: int) -> None:
        name = f"c{len(self.newest.columns)}"
        result = self.tables[handle].add_columns(pa.schema([(name, pa.int64())]))
        self.landed(result, columns=(*self.newest.columns, name), is_definition=True)

    @rule(handle=handles)
    def set_property(self, handle: int) -> None:
        team = str(len(self.versions))
        self.landed(self.tables[handle].set_properties({"team": team}), team=team, is_definition=True)

    # --- exactly once -------------------------------------------------------------------------------------------

    @rule(handle=handles, drawn=new_rows, app_id=st.sampled_from(["a", "b"]), step=st.integers(1, 3))
    def commit_an_epoch(self, handle: int, drawn: list[tuple[str, int]], app_id: str, step: int) -> None:
        rows = self.rows(drawn)
        epoch = self.newest.applications.get(app_id, -1) + step
        result = self.tables[handle].append(
            arrow(rows), app_id=app_id, checkpoint_id=epoch, fingerprint=f"{app_id}{epoch}"
        )
        self.epochs[app_id, epoch] = len(self.versions)
        self.landed(
            result,
            rows=self.newest.rows | rows,
            applications=self.newest.applications | {app_id: epoch},
            added=self.days_of(rows.values()),
            is_blind=True,
        )

    @precondition(lambda self: self.newest.applications)
    @rule(handle=handles, data=st.data(), work=st.sampled_from(["same", "other", "not named"]))
    def replay_an_epoch(self, handle: int, data: st.DataObject, work: str) -> None:
        """Dropped where it is known to be in the table; refused, and never dropped or written again, where not."""
        app_id = data.draw(st.sampled_from(sorted(self.newest.applications)), label="app_id")
        last = self.newest.applications[app_id]
        epoch = data.draw(st.integers(0, last), label="epoch")
        landed = self.epochs.get((app_id, epoch))
        is_retained = landed is not None and landed >= self.first
        rows = arrow(self.rows([("mon", 0)]))
        replay: dict[str, Any] = {
            "app_id": app_id,
            "checkpoint_id": epoch,
            "fingerprint": {"same": f"{app_id}{epoch}", "other": "other"}.get(work),
        }
        if (is_retained and work != "other") or (epoch == last and not is_retained and work == "not named"):
            result = self.tables[handle].append(rows, **replay)
            assert (result.outcome, result.version) == ("already_committed", landed if is_retained else None)
        else:
            with pytest.raises(txlog.InvalidInputError):
                self.tables[handle].append(rows, **replay)

    # --- one transaction that takes its time --------------------------------------------------------------------

    @precondition(lambda self: self.paused is None)
    @rule(handle=handles, reads=reads, is_serializable=st.booleans(), day=days)
    def begin(self, handle: int, reads: str | None, is_serializable: bool, day: str) -> None:
        level = "Serializable" if is_serializable else "WriteSerializable"
        transaction = self.tables[handle].transaction(level)
        transaction.__enter__()
        if reads is not None:
            found = transaction.read(None if reads == "all" else f"day = '{reads}'")
            expected = [row for row in self.newest.rows.values() if reads in ("all", row["day"])]
            assert found.num_rows == len(expected)
        ((id_, row),) = self.rows([(day, 1)]).items()
        days_read = frozenset(DAYS if reads == "all" else () if reads is None else {reads})
        transaction.append(arrow({id_: row}))
        self.paused = Paused(transaction, len(self.versions) - 1, days_read, is_serializable, row)

    @precondition(lambda self: self.paused is not None)
    @rule()
    def finish(self) -> None:
        paused, self.paused = self.paused, None
        assert paused is not None
        if self.invalidates(paused):
            with pytest.raises(txlog.ConflictError):
                paused.transaction.__exit__(None, None, None)
            return
        paused.transaction.__exit__(None, None, None)
        self.landed(
            paused.transaction.result,
            rows=self.newest.rows | {paused.row["id"]: paused.row},
            added=frozenset({paused.row["day"]}),
            is_blind=not paused.days_read,
        )

    @precondition(lambda self: self.paused is None)
    @rule(handle=handles, reads=reads, is_serializable=st.booleans(), drawn=new_rows, compacts=st.booleans())
    def race(
        self, handle: int, reads: str | None, is_serializable: bool, drawn: list[tuple[str, int]], compacts: bool
    ) -> None:
        """The shortest of such transactions: the other handle commits one thing while it lasts."""
        day = drawn[0][0]
        self.begin(handle, reads, is_serializable, day)
        if compacts:
            self.compact(1 - handle, day)
        else:
            self.append(1 - handle, drawn)
        self.finish()

    def invalidates(self, paused: Paused) -> bool:
        winners = self.versions[paused.read_version + 1 :]
        if any(winner.is_definition for winner in winners):
            return True
        if winners and paused.days_read and self.first > paused.read_version + 1:
            return True  # some of them were cleaned up unseen
        return any(
            paused.days_read & winner.removed
            or (paused.days_read & winner.added and (paused.is_serializable or not winner.is_blind))
            for winner in winners
        )

    # --- the log ------------------------------------------------------------------------------------------------

    @rule(handle=handles)
    def checkpoint(self, handle: int) -> None:
        known = self.tables[handle].create_checkpoint()
        assert known == len(self.versions) - 1
        self.checkpoints.add(known)
        self.clock.sleep(0.001)

    @rule(handle=handles)
    def clean_up_log(self, handle: int) -> None:
        """The newest checkpoint that is as old as the retention, at midnight, becomes the start of the log."""
        cutoff_ms = (self.clock.moment_ms - RETENTION_DAYS * MS_PER_DAY) // MS_PER_DAY * MS_PER_DAY
        old = [n for n in self.checkpoints if self.versions[n].committed_ms <= cutoff_ms]
        self.tables[handle].clean_up_log()
        self.first = max([self.first, *old])
        self.checkpoints = {n for n in self.checkpoints if n >= self.first}
        left = sorted(int(name[:20]) for name in self.log.objects if name.endswith(".json") and name[0].isdigit())
        assert left == list(range(self.first, len(self.versions)))

    @rule(hours=st.sampled_from([1, 5, 24, 72, 120]))
    def let_time_pass(self, hours: int) -> None:
        self.clock.moment_ms += hours * MS_PER_HOUR

    @rule(handle=handles)
    def reopen(self, handle: int) -> None:
        self.tables[handle] = Table(OpenTable(self.store))

    # --- time travel --------------------------------------------------------------------------------------------

    @rule(handle=handles, data=st.data())
    def travel_to_a_version(self, handle: int, data: st.DataObject) -> None:
        version = data.draw(st.integers(0, len(self.versions)), label="version")
        if self.first <= version < len(self.versions):
            assert rows_in(self.tables[handle].snapshot(version)) == rows_of(self.versions[version])
            return
        with pytest.raises(txlog.NotFoundError):
            self.tables[handle].snapshot(version).to_arrow()

    @rule(handle=handles, data=st.data())
    def travel_to_a_time(self, handle: int, data: st.DataObject) -> None:
        version = data.draw(st.integers(0, len(self.versions) - 1), label="near version")
        moment_ms = self.versions[version].committed_ms + data.draw(st.integers(-1, 1), label="ms off")
        timestamp = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=moment_ms)
        readable = self.versions[self.first :]
        if readable[0].committed_ms <= moment_ms:  # a time after the newest version is the newest version
            expected = self.first + sum(found.committed_ms <= moment_ms for found in readable) - 1
            found = self.tables[handle].snapshot(timestamp=timestamp)
            assert found.version == expected
            assert rows_in(found) == rows_of(self.versions[expected])
            return
        with pytest.raises(txlog.NotFoundError):
            self.tables[handle].snapshot(timestamp=timestamp)

    # --- what holds -----------------------------------------------------------------------------------------------

    @rule(handle=handles)
    def read(self, handle: int) -> None:
        self.holds_what_the_dictionary_says(self.tables[handle])

    @invariant()
    def whoever_opens_it_sees_what_the_dictionary_says(self) -> None:
        """The two handles are left behind: only what they are asked to do lets them catch up."""
        if self.versions:
            self.holds_what_the_dictionary_says(Table(OpenTable(self.store)))

    def holds_what_the_dictionary_says(self, table: Table) -> None:
        snapshot = table.snapshot()
        assert snapshot.version == len(self.versions) - 1
        assert tuple(snapshot.schema.names[2:]) == self.newest.columns
        assert snapshot.properties.get("team") == self.newest.team
        for app_id in ("a", "b"):
            assert snapshot.transaction_version(app_id) == self.newest.applications.get(app_id)
        assert rows_in(snapshot) == rows_of(self.newest)

    def teardown(self) -> None:
        with self.exits:
            if self.versions:
                txn_ids = {version: txn for version, txn in self.acknowledged.items() if version >= self.first}
                assert not verify_table(self.store, txn_ids=txn_ids).findings
                self.another_reader_agrees()

    def another_reader_agrees(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for parent, objects in (("_delta_log", self.log.objects), (".", self.files.objects)):
                for name, (body, _) in [*objects.items()]:  # what follows a commit may still write
                    path = Path(folder) / parent / name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(body)
            table = deltalake.DeltaTable(folder)
            assert table.version() == len(self.versions) - 1
            read = deltalake.QueryBuilder().register("t", table).execute("select * from t").read_all()
            assert rows_in(pa.table(read)) == rows_of(self.newest)


def arrow(rows: dict[int, Row]) -> pa.Table:
    names = {name: None for row in rows.values() for name in row}
    return pa.table(
        {
            name: pa.array([row[name] for row in rows.values()], pa.string() if name == "day" else pa.int64())
            for name in names
        }
    )


def ids_in(body: bytes) -> list[int]:
    ids: list[int] = pq.read_table(pa.BufferReader(body)).column("id").to_pylist()
    return ids


def rows_in(read: Any) -> list[Row]:
    table = read if isinstance(read, pa.Table) else read.to_arrow()
    return sorted(table.to_pylist(), key=lambda row: row["id"])


def rows_of(version: Version) -> list[Row]:
    absent = dict.fromkeys(version.columns)
    return [absent | row for _, row in sorted(version.rows.items())]


TestTable = TableMachine.TestCase
TestTable.settings = settings(max_examples=settings.default.max_examples // 3, stateful_step_count=30)
