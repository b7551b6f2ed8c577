"""`EventMirror`: tables that follow change events, such as those of Debezium, from a file or a pipe.

In: lines, each with an event; or with a message of Kafka as kcat writes it (``kcat -C -J``), whose key names the key's
columns. Out: Delta tables, each line's change exactly once: the number of the last line is the checkpoint of the commit
that has its rows. So a file that grows is read again from the beginning, and what the tables have is left out.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import pyarrow as pa

import txlog
from txlog.errors import InvalidInputError, SchemaMismatchError, TxlogError
from txlog.extend.catalogs import ambient, invalid, logger
from txlog.extend.envelopes import require_one_meaning
from txlog.mirror import commits
from txlog.mirror.changes import DELETE, INSERT, UPDATE_AFTER, Place, TableChanges
from txlog.mirror.columns import StreamColumn
from txlog.mirror.debezium import Event, EventField, event_of, json_of, row_of
from txlog.mirror.envelope import message_of
from txlog.mirror.history import END, START
from txlog.mirror.pgoutput import Values
from txlog.mirror.progress import MirrorCommit
from txlog.mirror.properties import MIRROR, MirrorColumn, Mirrored
from txlog.mirror.sources import SourceColumn, SourceTable, target_name
from txlog.mirror.target import MirrorTable
from txlog.mirror.transactions import NewColumns, WaitingChanges
from txlog.mirror.types import column_type_of, values_of
from txlog.mirror.unchanged import Key

_SYSTEM = "debezium"
_QUEUED = 10_000


class EventMirror:
    """Tables that follow events. See ``docs/mirror.md`` for what an event must have.

    Args:
        target: The catalog of the tables, or its address.
        name: The name of the source, which stays the same: it is what the tables know the lines by.
        keys: The columns that identify a row: for all tables, or by ``schema.table``. Not needed for messages of Kafka
            with keys.
        properties: Table properties of new tables.
        storage_options: The options of the store, if ``target`` is an address.
        max_delay_s: How long an event of a pipe waits at most for others, in seconds.
        max_bytes: How many bytes of events are committed at once.
        stored_as_scd_type: 1: a table has the newest row of each key. 2: it has every row that a key had, with the
            columns ``__START_AT`` and ``__END_AT``, the sequences at which it came and went; a current row has no end.
        sequence_by: With type 2, the number in the event's ``source`` that is the sequence, such as "source.lsn": a
            change that is not newer than what its key has there is left out, as where a connector sends events again.
            None: the number of the line.
        on_commit: Called after each commit.

    Raises:
        InvalidInputError: An argument is invalid.
    """

    def __init__(
        self,
        target: str | os.PathLike[str] | txlog.Catalog,
        name: str,
        *,
        keys: Sequence[str] | Mapping[str, Sequence[str]] = (),
        properties: Mapping[str, str] | None = None,
        storage_options: Mapping[str, str] | None = None,
        max_delay_s: float = 5.0,
        max_bytes: int = 256 << 20,
        stored_as_scd_type: Literal[1, 2] = 1,
        sequence_by: str | None = None,
        on_commit: Callable[[MirrorCommit], object] | None = None,
    ) -> None:
        if stored_as_scd_type not in (1, 2):
            raise invalid("stored_as_scd_type", stored_as_scd_type, "1 or 2")
        if sequence_by is not None and not (stored_as_scd_type == 2 and sequence_by.startswith("source.")):
            raise invalid("sequence_by", sequence_by, "source.NAME, with stored_as_scd_type=2")
        if isinstance(keys, str):
            raise invalid("keys", keys, "a list of names, or such a list for each table")
        self._catalog = (
            target if isinstance(target, txlog.Catalog) else txlog.Catalog(target, storage_options=storage_options)
        )
        self._name = name
        self._keys = keys
        self._properties = dict(properties or {})
        self._max_delay_s = max_delay_s
        self._max_bytes = max_bytes
        self._is_history = stored_as_scd_type == 2
        self._sequence_by = sequence_by
        self._on_commit = on_commit or (lambda commit: None)
        self._stops = threading.Event()

    def follow(self, lines: Iterable[bytes]) -> None:
        """Apply the events of lines, until they end or `stop` is called.

        Args:
            lines: All lines from the first one, such as an open file; those that the tables have are left out. Lines
                may come late, as from a pipe.

        Raises:
            InvalidInputError: A line is no event, a value has no place in Delta, or a table has no keys.
            SchemaMismatchError: A table's columns changed in a way that cannot be followed.
            TxlogError: A table cannot be written.
        """
        self._stops.clear()
        tables = _EventTables(
            self._catalog, self._name, self._keys, self._properties, self._is_history, self._sequence_by
        )
        since: ambient.Instant | None = None
        number = 0
        for line in _with_pauses(lines, self._stops, self._max_delay_s):
            if line is not None:
                number += 1
                try:
                    tables.take(number, line)
                except TxlogError as error:
                    if since is not None:
                        self._commit(tables, number - 1)
                    error.message = f"line {number:,} of {self._name}: {error.message}"
                    raise
                if since is None and tables.num_bytes:
                    since = ambient.instant()
            if since is not None and (ambient.age_s(since) >= self._max_delay_s or tables.num_bytes >= self._max_bytes):
                self._commit(tables, number)
                since = None
        if since is not None:
            self._commit(tables, number)

    def stop(self) -> None:
        """Let `follow` commit the events that it has, and return. From any thread or signal handler."""
        self._stops.set()

    @property
    def is_stopping(self) -> bool:
        """Whether `stop` was called."""
        return self._stops.is_set()

    def _commit(self, tables: _EventTables, number: int) -> None:
        rows = commits.apply(tables.waiting, number, together=False)
        committed_ms = tables.committed_ms
        tables.committed()
        self._on_commit(MirrorCommit(f"line {number:,}", rows, committed_ms))


class _EventTables:
    """The tables of the events so far, and their changes since the last commit."""

    def __init__(
        self,
        catalog: txlog.Catalog,
        name: str,
        keys: Sequence[str] | Mapping[str, Sequence[str]],
        properties: Mapping[str, str],
        is_history: bool,
        sequence_by: str | None,
    ) -> None:
        self._catalog = catalog
        self._is_history = is_history
        self._sequence_by = sequence_by
        self._name = name
        self._keys = keys
        self._properties = properties
        self._tables: dict[str, MirrorTable] = {}
        self._changes: dict[str, TableChanges] = {}
        self._columns: dict[str, NewColumns] = {}
        self._fields: dict[str, tuple[EventField, ...]] = {}
        self._deleted: dict[str, Key] = {}  # the keys of the rows that the last events of tables deleted
        self.num_bytes = 0
        self.committed_ms = 0

    @property
    def waiting(self) -> list[WaitingChanges]:
        """What is to be committed, by table."""
        return [
            WaitingChanges(self._tables[name], each, self._columns.get(name)) for name, each in self._changes.items()
        ]

    def committed(self) -> None:
        """Forget what waited: it is in the tables."""
        for changes in self._changes.values():
            changes.close()
        self._changes.clear()
        self._columns.clear()
        self.num_bytes = self.committed_ms = 0

    def take(self, number: int, line: bytes) -> None:
        """Add an event."""
        value, key = _message(line)
        event = event_of(value)
        if event is None:
            return
        table = self._table(event, key)
        if table.position is not None and number <= table.position:
            fields = self._fields.get(event.table, ()) if event.fields is None else event.fields
            self._remember(event, fields, table.state.keys)
            return
        if event.kind == "T":
            table.require_truncates()
        fields = self._fields_of(event)
        row = row_of((event.before if event.kind == "D" else event.after) or {}, fields)
        changes = self._changes_of(event, table, fields, number)
        self._remember(event, fields, table.state.keys)
        self.num_bytes += len(line)
        self.committed_ms = event.committed_ms
        place = Place(self._sequence(event, number), event.committed_ms, number)
        if event.kind == "T":
            changes.truncate()
        elif event.kind == "D":
            changes.add(DELETE, _key_of(row, fields, table.state.keys), place, len(line))
        else:
            changes.add(INSERT if event.kind == "I" else UPDATE_AFTER, row, place, len(line))

    def _sequence(self, event: Event, number: int) -> int:
        """What orders the versions of a row: the line, or a number of the event's source."""
        if self._sequence_by is None:
            return number
        found = event.source.get(self._sequence_by.removeprefix("source."))
        if not isinstance(found, int):
            raise InvalidInputError(f"the event's source has no number {self._sequence_by}, which orders the changes")
        return found

    def _remember(self, event: Event, fields: Sequence[EventField], keys: Sequence[str]) -> None:
        """Keep the key that an event deletes: where a key changes, Debezium writes a delete and an insert, which may
        lack large values of the deleted row."""
        self._deleted.pop(event.table, None)
        if event.kind == "D" and event.before is not None:
            of_name = {field.name: field for field in fields}
            if of_name.keys() >= set(keys):
                of_key = [of_name[name] for name in keys]
                texts = zip(of_key, row_of(event.before, of_key), strict=True)
                self._deleted[event.table] = tuple(
                    values_of(pa.array([text], pa.string()), field.type)[0].as_py() for field, text in texts
                )

    # --- tables -------------------------------------------------------------------------------------------------

    def _table(self, event: Event, key: tuple[str, ...]) -> MirrorTable:
        if event.table in self._tables:
            return self._tables[event.table]
        schema, _, name = event.table.partition(".")
        if not name:
            raise InvalidInputError("the event's source does not say which table it is of")
        given = self._keys.get(event.table, ()) if isinstance(self._keys, Mapping) else self._keys
        keys = tuple(given) or key or self._known_keys(schema, name)
        if not keys:
            raise InvalidInputError(f"it is not known which columns identify a row of {event.table}: pass them as keys")
        fields = event.fields
        if fields is None:
            fields = self._fields_of_table(schema, name)
        columns = tuple(SourceColumn(each.name, number, each.type) for number, each in enumerate(fields, 1))
        missing = [each for each in keys if each not in {column.name for column in columns}]
        if missing:
            raise InvalidInputError(f"{event.table} has no column {', '.join(missing)}, which its keys name")
        source = SourceTable(0, schema, name, columns, keys, False, True)
        state = Mirrored(
            _SYSTEM,
            event.database,
            self._name,
            event.table,
            tuple(MirrorColumn(each.name, each.number, each.type.delta) for each in columns),
            keys,
            is_history=self._is_history,
        )
        if event.fields is None:
            self._adopt(schema, name, state)
        table = MirrorTable.opened(self._catalog, source, state, self._properties)
        self._tables[event.table] = table
        return table

    def _known_keys(self, schema: str, name: str) -> tuple[str, ...]:
        """The keys that a table has from an earlier run."""
        named = target_name(schema, name)
        found = self._catalog.table(named).snapshot().properties.get(MIRROR) if self._catalog.exists(named) else None
        return () if found is None else Mirrored.of(found).keys

    def _adopt(self, schema: str, name: str, state: Mirrored) -> None:
        """Let a table that somebody else created follow the events."""
        table = self._catalog.table(target_name(schema, name))
        if MIRROR not in table.snapshot().properties:
            table.set_properties({MIRROR: state.text()})

    def _fields_of_table(self, schema: str, name: str) -> tuple[EventField, ...]:
        """The columns of a table that exists, for events without a schema."""
        named = target_name(schema, name)
        if not self._catalog.exists(named):
            raise InvalidInputError(
                f"there is no table {named}, and the event does not say its columns' types: let the converter write"
                " schemas (schemas.enable), or create the table"
            )
        beside = (START, END) if self._is_history else ()
        columns = (each for each in self._catalog.table(named).schema if each.name not in beside)
        return tuple(EventField(each.name, column_type_of(each.type), "") for each in columns)

    def _fields_of(self, event: Event) -> tuple[EventField, ...]:
        """The columns of an event: those of its schema, or of its table. Raises SchemaMismatchError for others."""
        if event.fields is not None:
            return event.fields
        fields = self._fields.get(event.table) or self._fields_of_table(*event.table.split(".", 1))
        more = sorted(set(event.after or event.before or {}) - {field.name for field in fields})
        if more:
            raise SchemaMismatchError(
                f"{event.table} has the new columns {', '.join(more)}, and the event does not have their types: let"
                " the converter write schemas (schemas.enable), or add the columns"
            )
        return fields

    def _changes_of(
        self, event: Event, table: MirrorTable, fields: tuple[EventField, ...], number: int
    ) -> TableChanges:
        """What waits for a table, with the columns of this event."""
        state = table.state
        shape = [(field.name, field.type.delta) for field in fields]
        # a killed mirror changed the columns, but not the rows before that
        is_old = number <= state.changed_at and shape == [(each.name, each.type) for each in state.earlier]
        if not is_old and fields != self._fields.get(event.table):
            self._follow(event.table, table, fields, number)
        self._fields[event.table] = fields
        stream = tuple(StreamColumn(field.name, field.type) for field in fields)
        new = self._columns.get(event.table)
        known = state.earlier if is_old else new.columns if new is not None else table.state.columns
        by_name = {column.name: column for column in known}
        columns = tuple(by_name[field.name] for field in fields)
        if event.table not in self._changes:
            changes = self._changes[event.table] = TableChanges(event.table, columns, stream)
            changes.deleted_before = self._deleted.get(event.table)
        changes = self._changes[event.table]
        if changes.columns != columns:
            changes.move(columns, stream)
        return changes

    def _follow(self, name: str, table: MirrorTable, fields: tuple[EventField, ...], number: int) -> None:
        """Give a table the columns of the events from here on, if it has others."""
        waiting = self._columns.get(name)
        known = waiting.columns if waiting is not None else table.state.columns
        if name not in self._changes and _may_be_renamed(known, fields):
            table.adopt_columns()  # somebody may have renamed them there, as the error says
            known = table.state.columns
        columns = _followed(name, known, fields)
        if columns is not None:
            stream = tuple(StreamColumn(field.name, field.type) for field in fields)
            self._columns[name] = NewColumns(columns, stream, number, table.state.keys)


def _may_be_renamed(known: Sequence[MirrorColumn], fields: Sequence[EventField]) -> bool:
    names, now = {column.name for column in known}, {field.name for field in fields}
    return bool(names - now) and bool(now - names)


def _followed(
    table: str, known: Sequence[MirrorColumn], fields: Sequence[EventField]
) -> tuple[MirrorColumn, ...] | None:
    """The columns that a table gets; None if it has them. Raises SchemaMismatchError for a change with two meanings."""
    of_name = {column.name: column for column in known}
    for field in fields:
        old = of_name.get(field.name)
        if old is not None and old.type != field.type.delta:
            raise SchemaMismatchError(
                f"{table}: the type of the column {field.name} changed: it is {field.type.source}, and was {old.type}."
                " Drop the table and let Debezium snapshot it again"
            )
    added = [field.name for field in fields if field.name not in of_name]
    gone = [name for name in of_name if name not in {field.name for field in fields}]
    if not added and not gone:
        return None
    require_one_meaning(table, of_name, [field.name for field in fields])
    next_number = max((column.number for column in known), default=0) + 1
    numbers = {name: next_number + place for place, name in enumerate(added)}
    if unsaid := [field.name for field in fields if field.name in added and field.existing is None]:
        logger.warning(
            "%s has the new columns %s, for which the events have no default: rows that were there before are null"
            " there, whatever they have in the database",
            table,
            ", ".join(unsaid),
        )
    return tuple(
        of_name.get(field.name) or MirrorColumn(field.name, numbers[field.name], field.type.delta, field.existing)
        for field in fields
    )


def _key_of(row: Values, fields: Sequence[EventField], keys: Sequence[str]) -> Values:
    return [text if field.name in keys else None for field, text in zip(fields, row, strict=True)]


def _message(line: bytes) -> tuple[Any, tuple[str, ...]]:
    """The event in a line, and the names of the key's columns, if the line has them."""
    return message_of(json_of(line))


def _with_pauses(lines: Iterable[bytes], stops: threading.Event, pause_s: float) -> Iterator[bytes | None]:
    """The lines as they come, and None where none came for a while; until they end or it is asked to stop.

    They are read in a thread, which a line that does not come leaves waiting.
    """
    read: queue.Queue[bytes | BaseException | None] = queue.Queue(_QUEUED)

    def reading() -> None:
        end: BaseException | None = None
        try:
            for line in lines:
                read.put(line)
        except BaseException as error:
            end = error
        read.put(end)

    threading.Thread(target=reading, daemon=True, name="txlog-events").start()
    while not stops.is_set():
        try:
            line = read.get(timeout=max(0.01, min(pause_s, 0.5)))
        except queue.Empty:
            yield None
            continue
        if isinstance(line, BaseException):
            raise line
        if line is None:
            return
        yield line
