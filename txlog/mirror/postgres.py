"""`Mirror`: Delta tables that follow the tables of a PostgreSQL database.

In: the database's address, a catalog, names of tables. Out: for each table a Delta table, first with the rows of a
snapshot, then with each transaction's changes, exactly once. The position in the database's log is the checkpoint of
the tables' commits; the database forgets a change only when its table has it. So whoever is killed, the database, the
mirror or both, goes on where the tables are.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import txlog
from txlog.errors import InvalidInputError, StorageError
from txlog.extend.catalogs import ambient, invalid, logger
from txlog.mirror import commits
from txlog.mirror.connection import Queries, SourceAway, Stream, identifier, source_name, told_if_it_waits
from txlog.mirror.pgoutput import decoded, lsn_text
from txlog.mirror.progress import MirrorCommit
from txlog.mirror.properties import MirrorColumn, Mirrored
from txlog.mirror.same_log import SameLog
from txlog.mirror.snapshot import source_snapshot
from txlog.mirror.source_tables import SourceTables, require_server
from txlog.mirror.sources import SourceTable
from txlog.mirror.target import MirrorTable
from txlog.mirror.timelines import ends_in, why_not
from txlog.mirror.transactions import Transactions

_NAME = re.compile(r"[a-z0-9_]{1,50}")
_IDLE_BYTES = 16 << 20
"""So much of the log that concerns no table is kept before one of them records that it may go, which is a version."""
_POLL_S = 0.5
_POLL_TO_GOAL_S = 0.02
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 15.0


_SLOT = """
select plugin, wal_status, (coalesce(confirmed_flush_lsn, '0/0') - '0/0')::bigint from pg_catalog.pg_replication_slots
where slot_name = %s
"""


class Mirror:
    """Tables of a PostgreSQL database as Delta tables that follow it.

        mirror = Mirror("postgres://replicator@db/shop", "s3://bucket/mirror", tables=["orders", "lines"])
        mirror.run()

    A table ``schema.table`` becomes the table of this name in the catalog. Each commit has complete transactions; the
    tables that one transaction changed get it by one checkpoint of a group. A table with a key has the rows of its
    source. One without has a log of the changes.

    Only one process runs a mirror; others wait until it ends. The mirror makes a publication and a replication slot
    with its name in the database. A publication of that name that is there already is used as it is.

    Args:
        source: The database, as libpq names it: ``postgres://user@host/database`` or ``host=... dbname=...``. A
            password is better in ``PGPASSWORD`` or a password file.
        target: The catalog of the tables, or its address: a folder, a bucket or a catalog of tables by name.
        tables: The tables, as ``schema.table``, or ``table`` in the schema ``public``. None: those of the publication
            if there is one, otherwise all tables of the database. A table that is added later is snapshotted then.
        name: The mirror's name: lower-case letters, digits and underscores. None: one made of the source and target.
        as_text: Columns, as ``schema.table.column``, that are stored as PostgreSQL's text: for values that the column's
            type in Delta lacks.
        properties: Table properties of new tables, such as ``{"delta.enableDeletionVectors": "true"}``.
        storage_options: The options of the store, if ``target`` is an address.
        max_delay_s: How long a transaction waits at most for others that are committed with it, in seconds.
        max_bytes: How many bytes of changes are committed at once; a larger transaction is committed as a whole.
        stored_as_scd_type: 1: a table has the rows of its source. 2: it has every row that a key had, with the columns
            ``__START_AT`` and ``__END_AT``, the places in the database's log at which it came and went; a current row
            has no end.
        patience_s: How long the database may be away before `run` gives up, in seconds.
        on_commit: Called after each commit.

    Raises:
        InvalidInputError: An argument is invalid, or psycopg is not installed.
    """

    def __init__(
        self,
        source: str,
        target: str | os.PathLike[str] | txlog.Catalog,
        *,
        tables: Sequence[str] | None = None,
        name: str | None = None,
        as_text: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        storage_options: Mapping[str, str] | None = None,
        max_delay_s: float = 5.0,
        max_bytes: int = 256 << 20,
        stored_as_scd_type: Literal[1, 2] = 1,
        patience_s: float = 600.0,
        on_commit: Callable[[MirrorCommit], object] | None = None,
    ) -> None:
        self.source = source_name(source)
        if isinstance(target, txlog.Catalog):
            if storage_options is not None:
                raise InvalidInputError("the options of the store belong to the Catalog, which is given already")
            self._catalog = target
        else:
            self._catalog = txlog.Catalog(target, storage_options=storage_options)
        if tables is not None and (isinstance(tables, str) or not tables):
            raise invalid("tables", tables, "a list of names, or None for all tables")
        self.name = _default_name(self.source, self._catalog.uri) if name is None else name
        if not _NAME.fullmatch(self.name):
            raise invalid("name", name, "up to 50 lower-case letters, digits and underscores")
        self._address = source
        self._wanted = tables
        self._as_text = tuple(as_text)
        self._properties = dict(properties or {})
        if stored_as_scd_type not in (1, 2):
            raise invalid("stored_as_scd_type", stored_as_scd_type, "1 or 2")
        self._is_history = stored_as_scd_type == 2
        self._max_delay_s = max_delay_s
        self._max_bytes = max_bytes
        self._patience_s = patience_s
        self._on_commit = on_commit or (lambda commit: None)
        self._stops = threading.Event()
        self._resync: set[str] = set()
        self._heard = ambient.instant()

    def run(self, *, until_current: bool = False, resync: Sequence[str] = ()) -> None:
        """Snapshot the tables that have no rows yet, then follow their changes, until `stop`.

        Args:
            until_current: Return when the tables have everything that the database had committed when this began.
            resync: Tables to snapshot again.

        Raises:
            StorageError: The database was away for longer than ``patience_s``, or the target's store failed.
            AccessError: The database refuses the user, or what the user asks for.
            SchemaMismatchError: A table's columns changed in a way that cannot be followed.
            InvalidInputError: A table cannot be mirrored, a value has no place in Delta, or the slot is gone.
            UnsupportedFeatureError: The database cannot publish changes.
        """
        self._stops.clear()
        self._resync = {name if "." in name else f"public.{name}" for name in resync}
        self._heard = ambient.instant()
        pause_s = _FIRST_PAUSE_S
        while not self._stops.is_set():
            begun = self._heard
            try:
                self._session(until_current)
                return
            except SourceAway as error:
                pause_s = _FIRST_PAUSE_S if self._heard is not begun else min(pause_s * 2, _LONGEST_PAUSE_S)
                away_s = ambient.age_s(self._heard)
                if away_s > self._patience_s:
                    raise StorageError(
                        f"{self.source} has not answered for {away_s:,.0f} s: {error}. Run the mirror again when it"
                        f" does; the database keeps what the tables lack, in the slot {self.name}"
                    ) from error
                logger.warning("%s does not answer, and is tried again in %.1f s: %s", self.source, pause_s, error)
                ambient.wait(self._stops, pause_s)

    def stop(self) -> None:
        """Let `run` commit the complete transactions that it has, and return. From any thread or signal handler."""
        self._stops.set()

    @property
    def is_stopping(self) -> bool:
        """Whether `stop` was called."""
        return self._stops.is_set()

    # --- one connection -----------------------------------------------------------------------------------------

    def _session(self, until_current: bool) -> None:
        """Everything from the connection to its end. Raises `SourceAway` when the database ends it."""
        queries = Queries(self._address)
        try:
            require_server(queries)
            lock = "select pg_try_advisory_lock(hashtext('txlog mirror'), hashtext(%s))"
            if not queries.rows(lock, self.name)[0][0]:
                raise SourceAway(f"another process runs the mirror {self.name}")
            stream = Stream(self._address)
            try:
                self._follow(queries, stream, until_current)
            finally:
                stream.close()
        finally:
            queries.close()

    def _follow(self, queries: Queries, stream: Stream, until_current: bool) -> None:
        ((database,),) = queries.rows("select current_database()")
        sources = SourceTables(queries, self._as_text)
        found = sources.published(self.name, self._wanted)
        system, timeline, log_end = stream.system()
        tables = {
            each.shown: MirrorTable.opened(
                self._catalog, each, self._state(each, system, database, timeline), self._properties
            )
            for each in found
        }
        self._require_all(sources.left_out(self.name, found), next(iter(tables.values())).state)
        unknown = sorted(self._resync - set(tables))
        if unknown:
            raise InvalidInputError(f"the mirror has no table {', '.join(unknown)}: it has {', '.join(tables)}")
        commits.recover(tables.values())
        self._require_same_tables(found, tables)
        self._require_history(stream, tables, timeline)
        confirmed = self._require_slot(queries, tables, log_end)
        for source in found:
            tables[source.shown].stands_on(timeline, source.partitions)
        self._heard = ambient.instant()
        begun = [each for name, each in tables.items() if each.position is not None and name not in self._resync]
        self._snapshot(tables, system, database, timeline)
        ((goal,),) = queries.rows("select (pg_current_wal_flush_lsn() - '0/0')::bigint")
        stream.start(self.name, self.name)
        ((source_ms,),) = queries.rows("select (extract(epoch from clock_timestamp()) * 1000)::bigint")
        proof = SameLog(begun, confirmed, max(0, source_ms - ambient.now_ms()))
        transactions = Transactions(tables, lambda: sources, proof)
        _Loop(self, stream, transactions, [*tables.values()], goal if until_current else None).run()

    def _state(self, table: SourceTable, system: str, database: str, timeline: int) -> Mirrored:
        columns = tuple(MirrorColumn(each.name, each.number, each.type.delta) for each in table.columns)
        return Mirrored(
            *(system, database, self.name, table.shown, columns, table.keys),
            number=table.number,
            entry=table.entry,
            partitions=table.partitions,
            is_log=not table.keys and not self._is_history,
            is_history=self._is_history,
            timeline=timeline,
        )

    def _require_all(self, left_out: Sequence[tuple[str, str]], state: Mirrored) -> None:
        """Raises InvalidInputError if a table that this mirror follows is not to be followed: the slot would pass the
        changes that it lacks."""
        for schema, name in left_out:
            if MirrorTable.follows(self._catalog, schema, name, state):
                raise InvalidInputError(
                    f"the mirror {self.name} follows {schema}.{name} too, which would miss changes: name it with the"
                    f" other tables, or end its mirror: ALTER PUBLICATION {identifier(self.name)} DROP TABLE"
                    f" {identifier(schema, name)}"
                )

    def _require_same_tables(self, sources: Sequence[SourceTable], tables: Mapping[str, MirrorTable]) -> None:
        """Raises InvalidInputError if another table has the name of one that is mirrored, or if the publication did not
        have it all the time."""
        for source in sources:
            table = tables[source.shown]
            known = table.state
            if table.position is None or source.shown in self._resync or not known.number:
                continue
            if known.number != source.number:
                raise self._lost([source.shown], "the table was dropped and made again")
            if known.entry != source.entry:
                raise self._lost([source.shown], f"the publication {self.name} was without the table for a while")

    def _require_history(self, stream: Stream, tables: Mapping[str, MirrorTable], timeline: int) -> None:
        """Raises InvalidInputError if another server took over before it had all that the tables have."""
        stand = {
            name: (each.state.timeline, each.position)
            for name, each in tables.items()
            if each.position is not None and name not in self._resync and each.state.timeline not in (0, timeline)
        }
        if not stand:
            return
        ends = ends_in(stream.history(timeline)) if timeline > 1 else {}
        found = {name: why_not(*place, timeline, ends) for name, place in stand.items()}
        if lost := {name: why for name, why in found.items() if why is not None}:
            raise self._lost(sorted(lost), lost[min(lost)])

    def _require_slot(self, queries: Queries, tables: Mapping[str, MirrorTable], log_end: int) -> int:
        """Make the slot for a mirror whose tables have nothing yet. One that is gone took changes with it; so did one
        that is ahead of what the tables know, since the mirror confirms nothing that they do not. Returns the position
        from which it sends."""
        found = queries.rows(_SLOT, self.name)
        behind = sorted(name for name, each in tables.items() if each.position is not None and name not in self._resync)
        if found and found[0][0] != "pgoutput":
            raise InvalidInputError(
                f"{self.source} has a slot {self.name} of the plugin {found[0][0]}: give the mirror another name"
            )
        if found and found[0][1] == "lost":
            if behind:
                raise self._lost(
                    behind,
                    "the database gave up what it kept for the slot (max_slot_wal_keep_size, or"
                    " idle_replication_slot_timeout of PostgreSQL 18)",
                )
            queries.rows("select pg_drop_replication_slot(%s)", self.name)
        elif found:
            known = commits.passed(tables.values())
            if behind and found[0][2] > known:
                raise self._lost(
                    behind,
                    f"the slot {self.name} begins at {lsn_text(found[0][2])}, but the tables end at {lsn_text(known)}."
                    " Somebody recreated or advanced it, so it lacks the changes in between",
                )
            if behind and log_end < known:
                raise self._lost(
                    behind,
                    f"its log ends at {lsn_text(log_end)}, and the tables have changes up to {lsn_text(known)}."
                    " It was restored to an earlier time",
                )
            return int(found[0][2])
        elif behind:
            raise self._lost(behind, "the slot is gone: somebody dropped it, or this is a copy of the database")
        with told_if_it_waits(self._address):
            queries.rows("select pg_create_logical_replication_slot(%s, 'pgoutput')", self.name)
        return 0

    def _lost(self, tables: Sequence[str], why: str) -> InvalidInputError:
        again = " ".join(f"--resync {each}" for each in tables)
        return InvalidInputError(
            f"{self.source} does not have the changes after the last ones of {', '.join(tables)}: {why}. Mirror these"
            f" tables from a new snapshot: txlog mirror ... {again}"
        )

    def _snapshot(self, tables: Mapping[str, MirrorTable], system: str, database: str, timeline: int) -> None:
        """Give the tables without rows, and those to be snapshotted again, the rows of one moment."""
        new = [name for name, each in tables.items() if each.position is None or name in self._resync]
        if not new:
            return

        def find(queries: Queries) -> list[SourceTable]:
            return SourceTables(queries, self._as_text).published(self.name, new)

        with source_snapshot(self._address, f"{self.name}_snapshot", find) as (snapshot, sources):
            for source in sources:
                table = tables[source.shown]
                began_ms = ambient.now_ms()
                rows = table.load(snapshot, source, self._state(source, system, database, timeline))
                self._resync.discard(source.shown)
                self._heard = ambient.instant()
                self._on_commit(
                    MirrorCommit(
                        lsn_text(snapshot.position), {source.shown: rows}, began_ms, True, _differences(source)
                    )
                )


class _Loop:
    """Reads a stream, and commits complete transactions."""

    def __init__(
        self,
        mirror: Mirror,
        stream: Stream,
        transactions: Transactions,
        tables: Sequence[MirrorTable],
        goal: int | None,
    ) -> None:
        self._mirror = mirror
        self._stream = stream
        self._transactions = transactions
        self._tables = tables
        self._known = commits.passed(tables)
        self._goal = goal
        self._since: ambient.Instant | None = None
        self._seen = 0
        """Up to where the stream was read."""

    def run(self) -> None:
        while True:
            poll_s = _POLL_S if self._goal is None else _POLL_TO_GOAL_S
            frame = self._stream.next(poll_s if self._since is None else min(poll_s, self._left_s()))
            if frame is None:
                self._stream.confirm(wants_answer=True)
            else:
                self._mirror._heard = ambient.instant()
                self._take(frame.lsn, frame.data)
            if self._transactions.is_open:
                continue
            ends = self._mirror._stops.is_set() or (self._goal is not None and self._seen >= self._goal)
            if self._since is not None and (ends or self._left_s() <= 0 or self._is_full()):
                self._commit()
            if ends:
                if self._since is None:
                    self._pass(self._seen)
                return

    def _take(self, lsn: int, data: bytes) -> None:
        transactions = self._transactions
        if not data:
            self._seen = max(self._seen, lsn)
            if self._since is None and not transactions.is_open:
                self._pass(lsn)
            return
        message = decoded(data)
        if message is None:
            return
        transactions.take(message, len(data))
        if not transactions.is_open:
            self._seen = max(self._seen, transactions.end)
            if self._since is None and transactions.waiting:
                self._since = ambient.instant()

    def _pass(self, lsn: int) -> None:
        """Let the server forget what concerns no table. What is confirmed is known to the tables first: a slot that is
        ahead of them is another one."""
        if self._tables and lsn - self._known >= _IDLE_BYTES:
            self._tables[0].record_passed(lsn)
            self._known = lsn
        self._stream.confirm(min(lsn, self._known))

    def _commit(self) -> None:
        transactions = self._transactions
        rows = commits.apply(transactions.waiting, transactions.end)
        transactions.committed()
        self._since = None
        self._known = max(self._known, transactions.end)
        self._stream.confirm(transactions.end)
        self._mirror._heard = ambient.instant()
        self._mirror._on_commit(MirrorCommit(lsn_text(transactions.end), rows, transactions.committed_ms))

    def _left_s(self) -> float:
        return 0.0 if self._since is None else max(0.0, self._mirror._max_delay_s - ambient.age_s(self._since))

    def _is_full(self) -> bool:
        return self._transactions.num_bytes >= self._mirror._max_bytes


def _differences(table: SourceTable) -> dict[str, str]:
    columns = [column for column in table.columns if column.type.differs is not None]
    found = {column.name: f"{column.type.source} is {column.type.differs}" for column in columns}
    if table.has_partitions:
        found["its partitions"] = (
            "PostgreSQL does not publish that one is attached, detached, dropped or truncated by itself: snapshot the"
            f" table again after that (--resync {table.shown})"
        )
    return found


def _default_name(source: str, target: str) -> str:
    return f"txlog_{hashlib.sha256(f'{source} {target}'.encode()).hexdigest()[:12]}"
