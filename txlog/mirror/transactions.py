"""What a stream's messages are to the mirrored tables: the changes of complete transactions, which a commit applies.

In: messages in order. Out: for each table the changes that wait, and the position behind the last complete transaction.
Transactions that a table has already, since the server sends them again, are left out there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from txlog.errors import InvalidInputError, SchemaMismatchError
from txlog.mirror.changes import (
    DELETE,
    INSERT,
    TRUNCATE,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    Place,
    TableChanges,
)
from txlog.mirror.columns import StreamColumn, followed
from txlog.mirror.pgoutput import (
    UNCHANGED,
    BeginMessage,
    ChangeMessage,
    CommitMessage,
    Message,
    RelationMessage,
    TruncateMessage,
    Values,
)
from txlog.mirror.properties import MirrorColumn
from txlog.mirror.same_log import SameLog
from txlog.mirror.target import MirrorTable

if TYPE_CHECKING:
    from txlog.mirror.source_tables import SourceTables


class NewColumns(NamedTuple):
    """The columns that a table gets, and what the stream has for them, from the transaction at ``changed_at`` on."""

    columns: tuple[MirrorColumn, ...]
    stream: tuple[StreamColumn, ...]
    changed_at: int
    keys: tuple[str, ...]


class WaitingChanges(NamedTuple):
    """What a commit applies to one table: its changes, and first the columns that it gets, if they changed."""

    table: MirrorTable
    changes: TableChanges
    columns: NewColumns | None


class _RowShape(NamedTuple):
    """The columns of a table's rows in the stream, as the mirror names them; and the places of its key."""

    table: MirrorTable
    columns: tuple[MirrorColumn, ...]
    stream: tuple[StreamColumn, ...]
    keys: tuple[int, ...]


class Transactions:
    """The changes since the last commit. ``sources``: asks the catalog when a table's columns change. ``proof``: sees
    that the stream is of the log that the tables have."""

    def __init__(self, tables: Mapping[str, MirrorTable], sources: Callable[[], SourceTables], proof: SameLog) -> None:
        self._tables = tables
        self._sources = sources
        self._proof = proof
        self._shapes: dict[int, _RowShape] = {}
        self._waiting: dict[str, TableChanges] = {}
        self._columns: dict[str, NewColumns] = {}
        self._relations: dict[int, RelationMessage] = {}
        self._begun: BeginMessage | None = None
        self._number = 0
        self.end = 0
        self.committed_ms = 0

    @property
    def is_open(self) -> bool:
        """Whether a transaction has begun that did not end."""
        return self._begun is not None

    @property
    def num_bytes(self) -> int:
        """About what the changes take, in bytes."""
        return sum(changes.num_bytes for changes in self._waiting.values())

    @property
    def waiting(self) -> list[WaitingChanges]:
        """What is to be committed, by table."""
        found = []
        for name, changes in self._waiting.items():
            columns = self._columns.get(name)
            if columns is not None or not changes.is_empty:
                found.append(WaitingChanges(self._tables[name], changes, columns))
        return found

    def committed(self) -> None:
        """Forget what waited: it is in the tables."""
        for changes in self._waiting.values():
            changes.close()
        self._waiting.clear()
        self._columns.clear()

    def take(self, message: Message, size: int) -> None:
        """Add a message of ``size`` bytes.

        Raises InvalidInputError for a value that Delta lacks, SchemaMismatchError for a change of columns that cannot
        be followed.
        """
        if isinstance(message, ChangeMessage):
            self._change(message, size)
        elif isinstance(message, BeginMessage):
            self._begun, self._number = message, 0
        elif isinstance(message, CommitMessage):
            assert self._begun is not None
            self._proof.ended(message.end)
            self.end, self.committed_ms, self._begun = message.end, self._begun.committed_ms, None
        elif isinstance(message, RelationMessage):
            self._relations[message.number] = message
            self._shapes.pop(message.number, None)
        else:
            self._truncate(message)

    # --- rows ---------------------------------------------------------------------------------------------------

    def _change(self, change: ChangeMessage, size: int) -> None:
        shape = self._shape(change.relation)
        if shape is None:
            return
        old, new = change.old, change.new
        if old is not None and new is not None:  # a value that was not sent, but is in the old row or in its key
            whole = range(len(new)) if change.old_is_whole else shape.keys
            new = [*new]
            for place in whole:
                new[place] = old[place] if new[place] is UNCHANGED else new[place]
        if new is None:
            assert old is not None
            whole_row = shape.table.retracts or shape.table.state.is_log
            self._add(shape, DELETE, old if whole_row else self._key(shape, old), size)
        elif old is None:
            self._add(shape, INSERT if change.kind == "I" else UPDATE_AFTER, new, size)
        elif shape.table.state.is_log or shape.table.retracts:
            self._add(shape, UPDATE_BEFORE, old, size // 2)
            self._add(shape, UPDATE_AFTER, new, size // 2)
        elif any(old[place] != new[place] for place in shape.keys):
            self._add(shape, DELETE, self._key(shape, old), 0)
            self._add(shape, INSERT, new, size)
        else:
            self._add(shape, UPDATE_AFTER, new, size)

    def _key(self, shape: _RowShape, row: Values) -> Values:
        return [value if place in shape.keys else None for place, value in enumerate(row)]

    def _truncate(self, truncate: TruncateMessage) -> None:
        for number in truncate.relations:
            shape = self._shape(number)
            if shape is None:
                continue
            if shape.table.state.is_log:
                self._add(shape, TRUNCATE, [None] * len(shape.columns), 0)
            else:
                shape.table.require_truncates()
                self._changes(shape).truncate()

    def _add(self, shape: _RowShape, kind: str, values: Values, size: int) -> None:
        assert self._begun is not None
        self._number += 1
        place = Place(self._begun.lsn, self._begun.committed_ms, self._number)
        self._changes(shape).add(kind, values, place, size)

    def _changes(self, shape: _RowShape) -> TableChanges:
        name = shape.table.shown
        if name not in self._waiting:
            self._waiting[name] = TableChanges(name, shape.columns, shape.stream)
        changes = self._waiting[name]
        if changes.columns != shape.columns:
            changes.move(shape.columns, shape.stream)
        return changes

    # --- columns ------------------------------------------------------------------------------------------------

    def _shape(self, number: int) -> _RowShape | None:
        """The columns of a table's rows; None if they are not wanted: the table has them, or is not mirrored."""
        relation = self._relations.get(number)
        if relation is None or self._begun is None:
            raise InvalidInputError("the database sent a change outside of a transaction, or of an unknown table")
        table = self._tables.get(f"{relation.schema}.{relation.name}")
        if table is None:
            self._require_unknown(relation, self._begun.lsn)
            return None
        if table.position is not None and self._begun.lsn < table.position:
            self._proof.left_out(table, self._begun)
            return None
        if number not in self._shapes:
            self._shapes[number] = self._shape_of(relation, table, self._begun.lsn)
        return self._shapes[number]

    def _require_unknown(self, relation: RelationMessage, lsn: int) -> None:
        """Raises SchemaMismatchError if a table with another name than the mirror's is one that it follows."""
        for name, table in self._tables.items():
            if table.state.number == relation.number and table.position is not None and table.position <= lsn:
                new = f"{relation.schema}.{relation.name}"
                raise SchemaMismatchError(
                    f"{name} was renamed to {new}. Run the mirror again: it mirrors {new} from a new snapshot, and the"
                    f" mirror of {name} stays as it is"
                )

    def _require_same_table(
        self, relation: RelationMessage, table: MirrorTable, keys: Sequence[str], columns: Sequence[MirrorColumn]
    ) -> None:
        """Raises SchemaMismatchError for another table of this name, one that was not published for a while, or another
        key than that of these columns."""
        name, sources = table.shown, self._sources()
        lost = None
        if table.state.number not in (0, relation.number):
            lost = f"{name} was dropped and made again"
        elif sources.entries([relation.number]).get(relation.number, table.state.entry) != table.state.entry:
            lost = f"{name} was taken out of the publication"
        if lost is not None:
            raise SchemaMismatchError(f"{lost}: mirror it from a new snapshot: txlog mirror ... --resync {name}")
        if table.state.partitions is not None:
            table.tell_of_gone(sources.partitions(relation.number))
        if table.state.is_log:
            return
        now = [column.name for column in relation.columns if column.is_of_key]
        if relation.logs_whole_rows:  # what the catalog says, which may have newer names, or the table no more
            there = sources.columns(relation.number, name)
            of_catalog = [MirrorColumn(each.name, each.number, "") for each in there]
            now = [*_renamed(sources.keys(relation.number), of_catalog, columns)] if there else [*keys]
        if sorted(now) != sorted(keys):
            raise SchemaMismatchError(
                f"the key of {name} is {', '.join(now) or 'gone'}, and was {', '.join(keys)}: mirror it from a new"
                f" snapshot: txlog mirror ... --resync {name}"
            )

    def _shape_of(self, relation: RelationMessage, table: MirrorTable, lsn: int) -> _RowShape:
        name, sources = table.shown, self._sources()
        stream = tuple(
            StreamColumn(each.name, sources.type_of(name, each.name, each.type, each.modifier))
            for each in relation.columns
        )
        state = table.state
        is_old = lsn <= state.changed_at
        if is_old and [(each.name, each.type.delta) for each in stream] == [
            each[:1] + each[2:3] for each in state.earlier
        ]:
            earlier_keys = self._earlier_keys(table)
            self._require_same_table(relation, table, earlier_keys, state.earlier)
            return _RowShape(table, state.earlier, stream, _places(stream, earlier_keys))
        now = self._columns[name].columns if name in self._columns else state.columns
        columns = followed(name, now, stream, sources.columns(relation.number, name))
        if columns is None:
            by_name = {column.name: column for column in now}
            columns = tuple(by_name[column.name] for column in stream)
            self._require_same_table(relation, table, self._keys(name, table), now)
            return _RowShape(table, columns, stream, _places(stream, self._keys(name, table)))
        if is_old:
            raise SchemaMismatchError(
                f"{name} changed its columns several times in transactions in which the mirror was killed. Mirror it"
                f" from a new snapshot: txlog mirror ... --resync {name}"
            )
        keys = _renamed(self._keys(name, table), now, columns)
        self._require_same_table(relation, table, keys, columns)
        self._columns[name] = NewColumns(columns, stream, lsn, keys)
        return _RowShape(table, columns, stream, _places(stream, keys))

    def _keys(self, name: str, table: MirrorTable) -> tuple[str, ...]:
        return self._columns[name].keys if name in self._columns else table.state.keys

    def _earlier_keys(self, table: MirrorTable) -> tuple[str, ...]:
        return _renamed(table.state.keys, table.state.columns, table.state.earlier)


def _places(stream: Sequence[StreamColumn], keys: Sequence[str]) -> tuple[int, ...]:
    return tuple(place for place, column in enumerate(stream) if column.name in keys)


def _renamed(names: Sequence[str], columns: Sequence[MirrorColumn], others: Sequence[MirrorColumn]) -> tuple[str, ...]:
    """What columns with these names are called among others of the same numbers; what is not there keeps its name."""
    numbers = {column.name: column.number for column in columns}
    other = {column.number: column.name for column in others}
    return tuple(other.get(numbers[name], name) for name in names)
