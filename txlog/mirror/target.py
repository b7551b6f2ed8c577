"""A mirrored table: a Delta table that has the rows of a database's table, or their changes, up to a position.

In: rows of a snapshot, changes, new columns. Out: versions of the table. The position is the checkpoint of the mirror's
application in the table's log, so it lands with the rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

import txlog
from txlog.errors import InvalidInputError, NotFoundError, SchemaMismatchError, TableNotFoundError
from txlog.extend import open_table_of
from txlog.extend.catalogs import ambient, logger
from txlog.mirror.changes import INSERT, TableChanges, beside_names
from txlog.mirror.columns import StreamColumn, moved_rows
from txlog.mirror.history import END, START, KnownKey, current_rows, known_of, versions
from txlog.mirror.properties import MIRROR, MirrorColumn, Mirrored
from txlog.mirror.sources import SourceTable, target_name
from txlog.mirror.types import ColumnType, column_type_of
from txlog.mirror.unchanged import Key, Row, completed

if TYPE_CHECKING:
    from txlog.mirror.snapshot import SourceSnapshot

_MAPPING = "delta.columnMapping.mode"
_LOG_COLUMNS = 4
"""How many of the names beside a change a log has: not which values were not sent."""
_LOOKED_UP = 5000


class MirrorTable:
    """A Delta table that follows one table. ``position``: it has all changes before it; None: it has no rows yet."""

    def __init__(self, table: txlog.Table, state: Mirrored, *, retracts: bool) -> None:
        self.table = table
        self.state = state
        self.retracts = retracts
        mode: Any = "append" if state.is_log else "retract" if retracts else "upsert"
        keys = [*state.keys, *([START] if state.is_history else [])]
        given: dict[str, Any] = {} if state.is_log else {"keys": keys, "row_kind": self._beside()[0]}
        self.sink = txlog.Sink(table, state.application, mode=mode, **given)
        self.position = self.sink.last_checkpoint_id()

    @classmethod
    def opened(
        cls, catalog: txlog.Catalog, source: SourceTable, state: Mirrored, properties: Mapping[str, str]
    ) -> MirrorTable:
        """The mirror of a table; made, if there is none. ``state`` is what a new one remembers.

        Raises InvalidInputError if the table there is no mirror, or that of another source.
        """
        name = target_name(source.schema, source.name)
        retracts = not source.key_is_immediate
        if state.is_history:
            _require_history(source)
        try:
            table = catalog.table(name)
        except TableNotFoundError:
            schema = _schema(source, state)
            table = catalog.create(name, schema, properties={**properties, MIRROR: state.text()})
            return cls(table, state, retracts=retracts)
        found = table.snapshot().properties.get(MIRROR)
        if found is None:
            raise InvalidInputError(
                "this table is not a mirror: move or drop it, or give the mirror another target", table=table.uri
            )
        known = Mirrored.of(found)
        if known.table != state.table and (known.system, known.database) == (state.system, state.database):
            raise InvalidInputError(
                f"{state.table} and {known.table} would both be mirrored to {name}: names there are in lower case, with"
                " letters, digits, _ and -. Leave one of the two out of this mirror, and give it a separate mirror"
                " and target; or rename one",
                table=table.uri,
            )
        if (known.system, known.database, known.table) != (state.system, state.database, state.table):
            raise InvalidInputError(
                f"this table mirrors {known.table} of the database {known.database} of another server, not this"
                f" {state.table}: give the mirror another target, or drop the table",
                table=table.uri,
            )
        if known.name != state.name:
            raise InvalidInputError(
                f"this table belongs to the mirror {known.name}: run it with --name {known.name}, or give the mirror"
                f" {state.name} another target",
                table=table.uri,
            )
        if known.is_history != state.is_history:
            has = "all rows that each key had" if known.is_history else "the newest row of each key"
            raise InvalidInputError(
                f"this table has {has} (SCD type {1 + known.is_history}), but the mirror was asked for type"
                f" {1 + state.is_history}: ask for the same type, or give the mirror another target",
                table=table.uri,
            )
        opened = cls(table, known, retracts=retracts)
        opened.end_change({column.name: column.type for column in source.columns})
        return opened

    @staticmethod
    def follows(catalog: txlog.Catalog, schema: str, name: str, state: Mirrored) -> bool:
        """Whether a table of the database has rows here from the mirror that wrote the state."""
        try:
            snapshot = catalog.table(target_name(schema, name)).snapshot()
        except TableNotFoundError:
            return False
        text = snapshot.properties.get(MIRROR)
        known = None if text is None else Mirrored.of(text)
        if known is None or known.table != f"{schema}.{name}":
            return False
        is_same = (known.system, known.database, known.name) == (state.system, state.database, state.name)
        return is_same and snapshot.transaction_version(known.application) is not None

    def require_truncates(self) -> None:
        """Raises InvalidInputError for a history, which does not say when a truncate ended its rows."""
        if self.state.is_history:
            raise InvalidInputError(
                f"{self.shown} was truncated, which SCD type 2 does not follow: delete the rows instead, or begin"
                f" a new history from a new snapshot: --resync {self.shown}"
            )

    @property
    def shown(self) -> str:
        """``schema.table`` of the source."""
        return self.state.table

    @property
    def passed(self) -> int:
        """Up to where the table knows that nothing in the source's log is the mirror's; 0: it does not."""
        return self.table.snapshot().transaction_version(f"{self.state.application}/passed") or 0

    def record_passed(self, position: int) -> None:
        """Have the table know that nothing up to the position is the mirror's."""
        with self.table.transaction(operation="MIRROR POSITION") as transaction:
            transaction.set_transaction(f"{self.state.application}/passed", position)

    @property
    def position_ms(self) -> int | None:
        """When the position was committed, by this machine's clock; None if the log does not say."""
        found = open_table_of(self.table).known_state().transactions.get(self.state.application)
        return None if found is None else found.last_updated

    # --- rows ---------------------------------------------------------------------------------------------------

    def stands_on(self, timeline: int, partitions: tuple[str, ...] | None) -> None:
        """Remember the timeline of the database's log and the partitions, if they are others than the table knows."""
        self.tell_of_gone(partitions)
        if self.position is not None and (self.state.timeline, self.state.partitions) != (timeline, partitions):
            state = msgspec.structs.replace(self.state, timeline=timeline, partitions=partitions)
            self.table.set_properties({MIRROR: state.text()})
            self.state = state

    def tell_of_gone(self, partitions: Sequence[str] | None) -> None:
        """Log which partitions are gone from the source: PostgreSQL publishes nothing of their rows' end."""
        gone = sorted({*(self.state.partitions or ())} - {*(partitions or ())})
        if self.position is not None and gone:
            logger.warning(
                "%s no longer has the partitions %s, and PostgreSQL does not publish when one goes: the mirror keeps"
                " their rows until somebody deletes them there, or --resync %s",
                *(self.shown, ", ".join(gone), self.shown),
            )

    def load(self, snapshot: SourceSnapshot, source: SourceTable, state: Mirrored) -> int:
        """Replace everything by a snapshot's rows, as one version; returns how many. ``state``: as it is then."""
        count = 0
        is_earlier = snapshot.position <= max(self.position or 0, self.passed)
        restored = self.state.restored + is_earlier
        state = msgspec.structs.replace(state, snapshot_at=snapshot.position, restored=restored)

        def rows() -> Iterator[pa.RecordBatch]:
            nonlocal count
            for batch in snapshot.rows(source):
                if state.is_history:
                    yield current_rows(batch, snapshot.position)
                else:
                    yield self._logged(batch, snapshot.position, count, state) if state.is_log else batch
                count += batch.num_rows

        self.table.set_properties({MIRROR: state.text()})
        schema = _schema(source, state)
        self.table.overwrite(
            pa.RecordBatchReader.from_batches(schema, (batch.cast(schema) for batch in rows())),
            schema_mode="overwrite",
            column_rules="drop",
            app_id=state.application,
            checkpoint_id=snapshot.position,
        )
        self.__init__(self.table, state, retracts=not source.key_is_immediate)  # type: ignore[misc]
        return count

    def staged(self, changes: TableChanges, checkpoint_id: int) -> Any:
        """The changes as a task of the sink: its committable."""
        with self.sink.task(checkpoint_id) as task:
            for batch in self._rows(changes):
                task.write(batch)
        return task.committable

    def replaced(self, changes: TableChanges, checkpoint_id: int) -> None:
        """Empty the table and apply the changes that follow, as one version."""
        with self.table.transaction(operation="TRUNCATE") as transaction:
            transaction.delete(all=True)
            if changes.num_rows:
                rows = list(self._rows(changes))
                reader = pa.RecordBatchReader.from_batches(rows[0].schema, rows)
                transaction.upsert(reader, list(self.state.keys), row_kind=changes.beside[0])
            transaction.set_transaction(self.state.application, checkpoint_id)

    # --- columns ------------------------------------------------------------------------------------------------

    def change_columns(self, columns: Sequence[MirrorColumn], types: Mapping[str, ColumnType], changed_at: int) -> None:
        """Give the table the columns that its source has since the transaction at ``changed_at``.

        New columns that are null in all rows cost no rewrite, nor do others if the table maps its columns. Otherwise
        the property says first what is to become of the table; a restart ends it.
        """
        names = {column.number: column.name for column in columns}
        numbers = {column.name: column.number for column in self.state.columns}
        keys = tuple(names.get(numbers[key], "") for key in self.state.keys)
        if self.state.is_log and _log_names([*names.values()]) != _log_names([*numbers]):
            raise SchemaMismatchError(
                f"{self.shown} has a new column with the name of one that its log has for each change: rename it, or"
                f" mirror the table from a new snapshot: --resync {self.shown}"
            )
        if "" in keys:
            raise SchemaMismatchError(
                f"{self.shown} lost a column of its key. Mirror it from a new snapshot: --resync {self.shown}"
            )
        state = msgspec.structs.replace(
            self.state, columns=tuple(columns), keys=keys, earlier=self.state.columns, changed_at=changed_at
        )
        kept = {column.number: column.name for column in self.state.columns if column.number in names}
        renamed = {old: names[number] for number, old in kept.items() if names[number] != old}
        dropped = [column.name for column in self.state.columns if column.number not in kept]
        added = [column for column in columns if column.number not in kept]
        maps = self.table.snapshot().properties.get(_MAPPING, "none") != "none"
        if any(column.existing is not None for column in added) or ((renamed or dropped) and not maps):
            self.table.set_properties({MIRROR: state.text()})
            self.state = state
            self.end_change(types)
        else:
            with self.table.transaction(operation="CHANGE COLUMNS") as transaction:
                transaction.set_properties({MIRROR: state.text()})
                if dropped:
                    transaction.drop_columns(dropped)
                for old, new in renamed.items():
                    transaction.rename_column(old, new)
                if added:
                    transaction.add_columns(pa.schema([(column.name, types[column.name].arrow) for column in added]))
        logger.info("%s: the columns follow %s: %s", self.table.uri, self.shown, ", ".join(names.values()))
        self.__init__(self.table, state, retracts=self.retracts)  # type: ignore[misc]

    def stream_columns(self) -> tuple[StreamColumn, ...]:
        """The table's columns by their types there."""
        return tuple(StreamColumn(each.name, column_type_of(each.type)) for each in self.table.snapshot().schema)

    def adopt_columns(self) -> None:
        """Remember the columns that the table has, where somebody has renamed or dropped some by hand."""
        of_name = {column.name: column for column in self.state.columns}
        numbers = itertools.count(max((column.number for column in self.state.columns), default=0) + 1)
        columns = tuple(
            of_name.get(each.name) or MirrorColumn(each.name, next(numbers), str(each.type))
            for each in self.table.snapshot().schema
            if each.name not in self._stored_beside()
        )
        if {*columns} != {*self.state.columns} and {*self.state.keys} <= {column.name for column in columns}:
            state = msgspec.structs.replace(self.state, columns=columns, earlier=(), changed_at=0)
            self.table.set_properties({MIRROR: state.text()})
            self.state = state

    def end_change(self, types: Mapping[str, ColumnType]) -> None:
        """Rewrite the rows with the columns that the property has, if the table does not have them yet."""
        beside = self._stored_beside()
        wanted = [*(column.name for column in self.state.columns), *beside]
        snapshot = self.table.snapshot()
        has = {column.name: column.type for column in snapshot.schema}
        if not self.state.earlier or sorted(has) == sorted(wanted):
            return
        unknown = [column.name for column in self.state.columns if column.name not in {**has, **types}]
        if unknown:
            raise SchemaMismatchError(
                f"the change of {self.shown} to new columns was interrupted, and the source no longer has"
                f" {', '.join(unknown)}. Mirror it from a new snapshot: --resync {self.shown}"
            )
        old = self.state.earlier
        names = [*(column.name for column in old), *beside]
        empty = moved_rows(_empty(has, names), old, self.state.columns, types)
        rows = (moved_rows(each, old, self.state.columns, types) for each in snapshot.to_batches(columns=names))
        self.table.overwrite(
            pa.RecordBatchReader.from_batches(empty.schema, rows),
            schema_mode="overwrite",
            column_rules="drop",
        )

    # --- helpers ------------------------------------------------------------------------------------------------

    def _rows(self, changes: TableChanges) -> Iterator[pa.RecordBatch]:
        """The changes as the sink takes them: complete, with their kind; those of a log with their place."""
        look_up = partial(self._look_up, deleted=changes.deleted_before)
        batches = completed(changes, self.state.keys, look_up) if changes.has_unchanged else changes.batches()
        names = [column.name for column in changes.columns]
        if self.state.is_history:
            yield from versions(batches, names, self.state.keys, changes.beside[:2], self._histories)
            return
        names += changes.beside[: _LOG_COLUMNS if self.state.is_log else 1]
        for batch in batches:
            yield batch.select(names)

    def _look_up(self, keys: Sequence[Key], columns: Sequence[str], *, deleted: Key | None = None) -> dict[Key, Row]:
        """The values of columns in the rows with these keys; the row of the key ``deleted`` is gone, by the last
        commit."""
        snapshot = self.table.snapshot()
        found: dict[Key, Row] = {}
        for begin in range(0, len(keys), _LOOKED_UP):
            found |= self._rows_of(snapshot, keys[begin : begin + _LOOKED_UP], columns)
        if deleted is not None and deleted in keys and deleted not in found:
            earlier = self._before_last_commit(snapshot)
            if earlier is not None and {*columns} <= {*earlier.schema.names}:
                found |= self._rows_of(earlier, [deleted], columns)
        return found

    def _rows_of(self, snapshot: txlog.Snapshot, keys: Sequence[Key], columns: Sequence[str]) -> dict[Key, Row]:
        """The rows of keys; of a history the current ones."""
        more = [START, END] if self.state.is_history else []
        found = self._versions_of(snapshot, keys, [*columns, *more])
        rows = {key: known_of(each).current if more else each[-1] for key, each in found.items()}
        return {key: row for key, row in rows.items() if row is not None}

    def _versions_of(
        self, snapshot: txlog.Snapshot, keys: Sequence[Key], columns: Sequence[str]
    ) -> dict[Key, list[Row]]:
        names = list(self.state.keys)
        conditions = [txlog.col(name).is_in({key[place] for key in keys}) for place, name in enumerate(names)]
        where = conditions[0]
        for condition in conditions[1:]:
            where = where & condition
        found: dict[Key, list[Row]] = {}
        wanted = {*keys}
        for batch in snapshot.to_batches(columns=[*names, *columns], where=where):
            for row in batch.to_pylist():
                key = tuple(row[name] for name in names)
                if key in wanted:
                    found.setdefault(key, []).append(row)
        return found

    def _histories(self, keys: Sequence[Key]) -> dict[Key, KnownKey]:
        snapshot = self.table.snapshot()
        columns = [name for name in snapshot.schema.names if name not in self.state.keys]
        found: dict[Key, KnownKey] = {}
        for begin in range(0, len(keys), _LOOKED_UP):
            some = self._versions_of(snapshot, keys[begin : begin + _LOOKED_UP], columns)
            found |= {key: known_of(rows) for key, rows in some.items()}
        return found

    def _before_last_commit(self, snapshot: txlog.Snapshot) -> txlog.Snapshot | None:
        """The version before the mirror's last commit; None if the table does not have it any more."""
        while snapshot.version and snapshot.transaction_version(self.state.application) == self.position:
            try:
                snapshot = self.table.snapshot(snapshot.version - 1)
            except NotFoundError:
                return None
        return snapshot

    def _logged(self, batch: pa.RecordBatch, position: int, before: int, state: Mirrored) -> pa.RecordBatch:
        now_us = ambient.now_ms() * 1000
        count = batch.num_rows
        arrays = [
            pa.array([INSERT] * count),
            pa.array([position] * count, pa.int64()),
            pa.array([now_us] * count, pa.timestamp("us", "UTC")),
            pa.array(range(before, before + count), pa.int64()),
        ]
        names = _log_names([column.name for column in state.columns])
        return pa.RecordBatch.from_arrays([*batch.columns, *arrays], names=[*batch.schema.names, *names])

    def _stored_beside(self) -> list[str]:
        """The table's columns beside those of its source."""
        if self.state.is_history:
            return [START, END]
        return _log_names([column.name for column in self.state.columns]) if self.state.is_log else []

    def _beside(self) -> list[str]:
        return beside_names([column.name for column in self.state.columns])


def _schema(source: SourceTable, state: Mirrored) -> pa.Schema:
    """The columns of a new mirror. All may be null: that a column of the source may be is not in its stream."""
    fields = [(column.name, column.type.arrow) for column in source.columns]
    if state.is_log:
        types = (pa.string(), pa.int64(), pa.timestamp("us", "UTC"), pa.int64())
        fields += zip(_log_names([name for name, _ in fields]), types, strict=True)
    if state.is_history:
        fields += [(START, pa.int64()), (END, pa.int64())]
    return pa.schema(fields)


def _require_history(source: SourceTable) -> None:
    """Raises InvalidInputError for a table whose rows have no history by their keys."""
    if not source.keys:
        raise InvalidInputError(
            f"{source.shown} has no key, so its mirror is a log of changes already: leave SCD type 2 out, or give it"
            " one"
        )
    if not source.key_is_immediate:
        raise InvalidInputError(
            f"the key of {source.shown} is deferrable, so two rows may have the same key within a transaction: SCD"
            " type 2 needs a key that is not deferrable"
        )
    if taken := {START, END} & {column.name for column in source.columns}:
        raise InvalidInputError(f"{source.shown} has a column {sorted(taken)[0]}, which SCD type 2 adds")


def _log_names(columns: Sequence[str]) -> list[str]:
    return beside_names(columns)[:_LOG_COLUMNS]


def _empty(types: Mapping[str, pa.DataType], names: Sequence[str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], types[name]) for name in names], names=list(names))
