"""The table that a story begins with, and how every reader must see it at the end.

In: how many versions it has. Out: copies of one `World`, made once by txlog itself; handles on it that were open
before the story began; `World.check_readers`, which reads the table from every start point that its log offers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from explorer.invariants import Ledger
from explorer.rows import ROW_SCHEMA, RowHistory, file_of
from explorer.versions import InvariantBroken, State
from txlog.commands.table_definition import Definition, commit_definition, new_table
from txlog.commit.open_table import OpenTable
from txlog.errors import TxlogError
from txlog.hooks import CommitHooks
from txlog.log.state import TableState
from txlog.log_files.delta_log import DeltaLog
from txlog.protocol.actions import AddFile
from txlog.protocol.column_mapping import physical_name
from txlog.protocol.log_names import LAST_CHECKPOINT, commit_version
from txlog.sink.sink import Sink
from txlog.store.capabilities import LOCAL_DISK, OBJECT_STORE
from txlog.store.retry import RetryPolicy
from txlog.store.table_store import TableStore
from txlog.table import Table
from txlog.testing.memory_store import MemoryFileStore, MemoryLogStore
from txlog.testing.owned_versions import OwnedVersions, VersionOwner
from txlog.util import ambient
from txlog.util.background import Background

__all__ = [
    "BASE_MS",
    "CHANGES",
    "FILE_BYTES",
    "SEALED",
    "SEALED_CHANGES",
    "VACUUMED_MS",
    "World",
    "base_world",
    "opened",
    "seen_by",
]

BASE_MS = 1_700_000_000_000
PARTITIONS = ("a", "b")
SEALED = ("sealed changes", 1)
"""The application of a checkpoint that was sealed before a story began, and its id."""
CHANGES = pa.schema([("op", pa.string()), *ROW_SCHEMA, ("at", pa.int64())])
"""Row kind, key, partition, value and sequence."""
SEALED_CHANGES = (("+U", 4, "a", 80, 1), ("-D", 7, None, None, 1), ("+I", 50, "a", 80, 1))
VACUUMED_MS = 24 * 3600 * 1000
"""The retention that vacuums of stories ask for."""
_AGE_MS = 400 * 24 * 3600 * 1000
NARROW_SCHEMA = pa.schema([*list(ROW_SCHEMA)[:2], ("v", pa.int32()), ("note", pa.string())])
"""The columns of a table whose columns change: the values have a wider type in the files of the base."""
_CHANGES_SHAPE = {"delta.columnMapping.mode": "name", "delta.enableTypeWidening": "true"}
_NO_CHECKPOINTS = {"delta.checkpointInterval": "1000000"}


def _one_row() -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": pa.array([1], pa.int64())}), sink)
    return bytes(sink.getvalue().to_pybytes())


FILE_BYTES = _one_row()
"""A data file of one row, for stories that are not about rows."""


class _Still(ambient.Ambient):
    """A stopped clock, and UUIDs from a counter."""

    uses_threads = False

    def __init__(self, moment_ms: int) -> None:
        self._moment_ms = moment_ms
        self._drawn = 0

    def now_ms(self) -> int:
        return self._moment_ms

    def monotonic_s(self) -> float:
        return 1000.0

    def uuid4(self) -> str:
        self._drawn += 1
        return f"00000000-{self._drawn:04x}-4000-8000-{0:012x}"


class World(msgspec.Struct):
    """One table in memory, with the history of its log. ``head`` is what a handle opened on it knows."""

    log: MemoryLogStore
    files: MemoryFileStore
    ledger: Ledger
    state: TableState
    staging: MemoryLogStore = msgspec.field(default_factory=MemoryLogStore)
    iceberg: MemoryLogStore = msgspec.field(default_factory=MemoryLogStore)
    owner: VersionOwner | None = None
    """Who decides the versions; None: the log's folder does."""
    waiting: MemoryLogStore = msgspec.field(default_factory=MemoryLogStore)
    """What writers leave for each other while they wait."""
    named: MemoryLogStore = msgspec.field(default_factory=MemoryLogStore)
    """The named versions; no power cut changes them."""
    _paths_read: dict[tuple[str, ...], list[str]] = msgspec.field(default_factory=dict)

    @property
    def log_stores(self) -> tuple[MemoryLogStore, MemoryLogStore, MemoryLogStore]:
        """The log, the sinks' staging, and the Iceberg metadata."""
        return self.log, self.staging, self.iceberg

    def every_log_store(self) -> tuple[MemoryLogStore, ...]:
        """The same, and the book of the owner of the versions, if they have one."""
        return self.log_stores if self.owner is None else (*self.log_stores, self.owner)

    def copy(self) -> World:
        files = MemoryFileStore()
        files.objects, files.durable = dict(self.files.objects), set(self.files.durable)
        log, staging, iceberg = (_copied(store) for store in self.log_stores)
        owner = None if self.owner is None else self.owner.copy()
        ledger = self.ledger.copy(log if owner is None else owner, files, staging, iceberg)
        named, waiting = MemoryLogStore(), MemoryLogStore()
        named.capabilities = waiting.capabilities = self.log.capabilities
        return World(log, files, ledger, self.state, staging, iceberg, owner, waiting, named)

    def check_readers(self, ledger: Ledger) -> None:
        """Read the newest version from each start point that the log offers, by txlog's own readers.

        Only for the end of a story, like `check_handle`: it does not read again what was read from the same log files.
        """
        for path in ledger.states[ledger.latest].live:
            if path not in self.files.objects:
                raise InvariantBroken("live files stay", f"{path}, which v{ledger.latest} needs, was deleted")
        self._check_published()
        with ambient.use(_Still(BASE_MS)):
            self._check_rows(ledger)
            newest = self._read(ledger, self.log.objects, None)
            if newest != ledger.latest:
                raise InvariantBroken("a snapshot is the fold of the log", f"v{newest} is read as the newest")
            checkpoints = ledger.checkpoints()
            if not checkpoints:
                return
            objects = self.log.objects
            self._read(ledger, {name: found for name, found in objects.items() if name != LAST_CHECKPOINT}, None)
            for version in checkpoints:
                self._read(ledger, objects, version)
            if not ledger.gone:
                bare = {name: found for name, found in objects.items() if name.endswith(".json")}
                self._read(ledger, bare, None)

    def _check_published(self) -> None:
        """Check that the folder holds nothing but what the owner of the versions has accepted."""
        for name, (body, _) in self.log.objects.items() if self.owner is not None else ():
            record = self.owner.objects.get(name) if self.owner is not None else None
            if commit_version(name) is not None and (record is None or record[0] != body):
                raise InvariantBroken("only what was accepted is published", f"{name} was not")

    def _reader_store(self, log: MemoryLogStore) -> TableStore:
        """The table as a new reader finds it, with this ``log``."""
        owner = None if self.owner is None else OwnedVersions(self.owner, log)
        return TableStore("memory://reader", log, self.files, owner=owner)

    def check_handle(self, ledger: Ledger, table: Table) -> None:
        """Check that a handle that was open during the story reads the same as a new one."""
        try:
            snapshot = table.snapshot()
            paths = self._paths(table._open_table.log, snapshot._version.state)
        except TxlogError as error:
            raise InvariantBroken("a handle that lives long can read", str(error)) from error
        ledger.check_reader(snapshot.version, seen_by(snapshot._version.state, paths), not_before=ledger.latest)

    def _check_rows(self, ledger: Ledger) -> None:
        """Check, in a story about rows, that txlog's reader finds exactly the rows of the files."""
        if ledger.rows is None:
            return
        ledger.rows.require_quarantined()
        snapshot = opened(self._reader_store(self.log), None, {}).snapshot()
        names = {physical_name(field): field.name for field in snapshot._version.state.schema.fields}
        places = [place for place, name in enumerate(ROW_SCHEMA.names) if name in names]  # one may have been dropped
        rows = snapshot.to_arrow([names[ROW_SCHEMA.names[place]] for place in places])
        found = sorted(zip(*(column.to_pylist() for column in rows.columns), strict=True), key=repr)
        expected = [tuple(row[place] for place in places) for row in ledger.rows.at[ledger.latest]]
        if found != sorted(expected, key=repr):
            raise InvariantBroken("a snapshot is the fold of the log", f"a reader sees {found} at v{ledger.latest}")

    def _paths(self, delta_log: DeltaLog, state: TableState) -> list[str]:
        """The paths of the live files of ``state``, cached by the log files that they are read from."""
        segment = state.segment
        names = (*(segment.checkpoint.names if segment.checkpoint else ()), *map(str, segment.plan()))
        is_function = delta_log._held_files(state)[1] is None
        if is_function and names in self._paths_read:
            return self._paths_read[names]
        paths: list[str] = delta_log.files(state).column("path").to_pylist()
        if is_function:
            self._paths_read[names] = paths
        return paths

    def _read(self, ledger: Ledger, objects: dict[str, tuple[bytes, int]], version: int | None) -> int:
        log = MemoryLogStore()
        log.objects = objects
        log.capabilities = self.log.capabilities
        delta_log = DeltaLog(self._reader_store(log))
        try:
            state = delta_log.newest_state() if version is None else delta_log.state_at(version)
            paths = self._paths(delta_log, state)
        except TxlogError as error:
            raise InvariantBroken("a snapshot is the fold of the log", f"a reader got: {error}") from error
        ledger.check_reader(state.version, seen_by(state, paths))
        return state.version


def _copied(store: MemoryLogStore) -> MemoryLogStore:
    copied = MemoryLogStore()
    copied.objects, copied.durable, copied.capabilities = dict(store.objects), dict(store.durable), store.capabilities
    return copied


def seen_by(state: TableState, paths: Iterable[str]) -> State:
    """What a reader saw of a version, in the form of the `Ledger`."""
    return State(
        state.metadata.to_json(),
        state.protocol.to_json(),
        dict.fromkeys(paths),
        {app_id: action.to_json() for app_id, action in state.transactions.items()},
        {name: domain.to_json() for name, domain in state.domains.items()},
    )


@cache
def base_world(
    versions: int,
    store: str,
    unseen: int = 0,
    properties: tuple[tuple[str, str], ...] = (),
    *,
    is_aged: bool = False,
    has_rows: bool = False,
    is_trimmed: bool = False,
    is_sealed: bool = False,
    is_exported: bool = False,
    is_owned: bool = False,
    is_mapped: bool = False,
) -> World:
    """A table partitioned by ``part`` with a file in each of two partitions, and ``versions`` versions.

    Open handles have not seen the newest ``unseen`` versions. ``is_aged``: it was written so long ago that no retention
    keeps what is below its newest checkpoint. ``has_rows``: each file has three rows, and the table has deletion
    vectors. ``is_trimmed``: its newest version has removed the first file. ``is_sealed``: a checkpoint of `SEALED`
    waits for its commit. ``is_exported``: Iceberg readers see the version before the newest. ``is_owned``: an owner
    decides the versions, and none is published. ``is_mapped``: it has one more version, which maps its columns, allows
    wider types, and has a further column without values.
    """
    if unseen:
        like = {"is_aged": is_aged, "has_rows": has_rows, "is_trimmed": is_trimmed, "is_owned": is_owned}
        world = base_world(versions, store, 0, properties, **like)
        known = base_world(versions - unseen, store, 0, properties, **like).state
        return World(world.log, world.files, world.ledger, known, owner=world.owner)
    files, (log, staging, iceberg) = MemoryFileStore(), (MemoryLogStore() for _ in range(3))
    owner = VersionOwner() if is_owned else None
    for each in (log, staging, iceberg):
        each.capabilities = OBJECT_STORE if store == "object" else LOCAL_DISK
    with ambient.use(_Still(BASE_MS - _AGE_MS if is_aged else BASE_MS)):
        owned = None if owner is None else OwnedVersions(owner, log)
        open_table = OpenTable(TableStore("memory://table", log, files, staging, iceberg=iceberg, owner=owned))
        open_table.post_commit._background = _Inline()
        schema = ROW_SCHEMA if has_rows else pa.schema([("id", pa.int64()), ("part", pa.string())])
        schema = NARROW_SCHEMA if is_mapped else schema
        with_vectors = {"delta.enableDeletionVectors": "true"} if has_rows else {}
        definition = Definition(*new_table(schema, ("part",), _NO_CHECKPOINTS | with_vectors | dict(properties)))
        commit_definition(open_table, None, definition, "CREATE TABLE", {})
        for version in range(1, versions):
            if is_exported and version == versions - 1:
                Table(open_table).export_iceberg()
            _add_file(Table(open_table), files, version, has_rows=has_rows)
        if is_trimmed:
            with Table(open_table).transaction() as txn:
                txn.remove("part=a/base-1.parquet")
        if is_sealed:
            _seal(Table(open_table))
        if is_mapped:
            Table(open_table).set_properties(_CHANGES_SHAPE)
        state = open_table.log.newest_state()
    ledger = Ledger(log if owner is None else owner, files, staging, iceberg, syncs=store == "local")
    ledger.rows = RowHistory(files) if has_rows else None
    ledger.sealed = {SEALED} if is_sealed else set()
    ledger.observe()
    return World(log, files, ledger, state, staging, iceberg, owner)


def _add_file(table: Table, files: MemoryFileStore, version: int, *, has_rows: bool) -> None:
    """Commit the file of a version of the base."""
    part = PARTITIONS[(version - 1) % 2]
    path = f"part={part}/base-{version}.parquet"
    rows = ((3 * version - 2, 0), (3 * version - 1, None), (3 * version, 0))
    body = file_of(rows) if has_rows else FILE_BYTES
    files.publish(path, body)
    files.make_durable([path])
    with table.transaction() as txn:
        stats = f'{{"numRecords":{3 if has_rows else 1}}}'
        txn.add(AddFile(path, {"part": part}, len(body), BASE_MS, True, stats))


def _seal(table: Table) -> None:
    """Seal what a task of `SEALED` wrote, as a coordinator that then died."""
    door = Sink(table, SEALED[0], mode="upsert", keys=["id"], row_kind="op", sequence_by="at")
    with door.task(SEALED[1]) as task:
        task.write(
            pa.Table.from_pylist([dict(zip(CHANGES.names, row, strict=True)) for row in SEALED_CHANGES], CHANGES)
        )
    door.stage(task.committable)
    door.prepare(SEALED[1], [0])


def opened(store: TableStore, base: World | None, retry: dict[str, Any], hooks: CommitHooks | None = None) -> Table:
    """A handle on ``store``; with ``base``, a handle that was opened when the table was in that state."""
    open_table = OpenTable(store, RetryPolicy(**retry), hooks)
    if base is not None:
        open_table.log._state = base.state
        open_table.log.confirmed_at = ambient.instant()
    open_table.post_commit._background = _Inline()
    return Table(open_table)


class _Inline(Background):
    """Runs each piece of work at once, so that post-commit work is part of its actor's story."""

    def __init__(self) -> None:
        super().__init__("inline")

    def begin(self, what: str, work: Callable[[], Any], *, waits: bool = False) -> bool:
        work()
        return True
