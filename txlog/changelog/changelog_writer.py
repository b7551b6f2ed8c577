"""`ChangelogWriter`: one task of a write of changes: changelog batches in, a `Committable` out.

    batch -> kinds, sequence, the table's columns -> one change for each key -> data files and key files

The task reads only its own rows. The commit finds the table rows with their keys, on the version that it follows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from txlog.changelog.change_buffer import ChangeBuffer
from txlog.changelog.change_order import feed_columns, feed_order, is_feed, orders_feed
from txlog.changelog.collapse import Changes, in_order, joined, sorted_by_key
from txlog.changelog.key_files import key_plan, key_rows
from txlog.changelog.merge_engines.engine import MergeEngine
from txlog.changelog.merge_engines.engines import stored_engine
from txlog.changelog.required_values import check_columns, check_members, require_values
from txlog.changelog.retractions import compared_columns
from txlog.changelog.row_kinds import DELETE, TAKEN_BACK, UPDATE_AFTER, UPDATE_BEFORE, RowKinds
from txlog.changelog.spec import ChangelogSpec
from txlog.changelog.staged_rows import FEED_PLACES, open_rows, open_rows_plan, staged_rows, staged_rows_plan
from txlog.core.format.column_mapping import physical_name
from txlog.core.format.properties import CHANGELOG_PRODUCER
from txlog.core.format.schema import LONG, Array, Field, Map, Struct, fold_name, from_arrow
from txlog.core.row_rules import generated_of, key_columns
from txlog.core.store import FileStore
from txlog.core.util import cached_property
from txlog.core.wording import argument
from txlog.core.writing import (
    DataStream,
    KeepKeys,
    TaskCommitter,
    TaskIdentity,
    TaskWriter,
    WritePlan,
    completed,
    conformer_for,
    nullable,
    open_data,
)
from txlog.core.writing.committable import Committable, KeyFile, PendingFile
from txlog.errors import InvalidInputError, TxlogError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_KEPT_ROWS = 1 << 14  # for more rows, reading the keys back is a small part of a checkpoint


class ChangelogWriter:
    """Writes the changes of one attempt of one task. Called by one thread.

    Nothing is readable in the table before a commit names the files of the committable that `close` returns.

    Args:
        files: The table's files.
        plan: How data files are written. ``plan.memory_budget_bytes`` also limits the changes in memory.
        task: The task.
        spec: The columns that define what a row does.
        keep_keys: Called with the key columns of the new rows, in the order of the data file's rows, if that is
            certain.

    Raises:
        InvalidInputError: The table lacks a key column, or its type cannot be one.
    """

    def __init__(
        self,
        files: FileStore,
        plan: WritePlan,
        task: TaskIdentity,
        spec: ChangelogSpec,
        keep_keys: KeepKeys | None = None,
    ) -> None:
        self._files = files
        self._plan = plan
        self._task = task
        self._spec = spec
        self._keep_keys = keep_keys
        with TxlogError.located(plan.table):
            self._keys = key_columns(spec.keys, plan.schema, plan.partition_columns)
        self._nullable = nullable(plan.schema)
        has_generated = plan.computed is not None
        self._generated = None
        if has_generated:
            self._generated = generated_of(plan.schema, plan.table, plan.partition_columns, zone=plan.time_zone)
        self._kinds = RowKinds(spec.row_kinds)
        self._told = [name for name in (spec.row_kind, spec.sequence_by) if name is not None]
        compared = compared_columns(plan.schema, self._keys, self._told)
        of_feed = spec.mode == "upsert" and is_feed(spec.row_kind)
        self._buffer = ChangeBuffer(self._keys, plan.memory_budget_bytes, plan.table, compared, of_feed=of_feed)
        self._ordered_by: str | None = None
        self._sequence: Field | None = None
        self._has_deletes = False
        with TxlogError.located(plan.table):
            self._engine = _engine_of(plan, spec, [key.path[0] for key in self._keys])
        self._staged: TaskWriter | None = None
        self._committable: Committable | None = None
        self._is_aborted = False
        self.num_rows = 0
        """The number of rows taken, of any kind."""

    def write(self, data: Any) -> None:
        """Add rows of the changelog: a record batch, or anything `open_data` takes. An error aborts the task.

        Raises:
            InvalidInputError: A row has no kind, key or sequence, or cannot be stored.
            SchemaMismatchError: The columns do not fit the table.
            StorageError: There is no space for the rows.
        """
        self._take(open_data(data), None)

    def delete(self, data: Any) -> None:
        """Add rows to delete: it reads only their keys, and their sequence if the changelog has one.

        Raises what `write` raises.
        """
        self._take(open_data(data), DELETE)

    def close(self) -> Committable:
        """Write all changes and seal the files; the same result when called again.

        Raises:
            InvalidInputError: A row cannot be stored.
            StorageError: The store failed. Nothing is left of the task.
        """
        if self._committable is not None:
            return self._committable
        self._check_open()
        if self._engine is not None:
            self._committable = self._close_staged()
            return self._committable
        files = self._files
        # Generated columns were computed and checked when the changes came.
        rows_writer = TaskWriter(files, replace(self._plan, computed=None), self._task)
        written: list[pa.Table | None] = []
        key_writer = _LaterWriter(lambda: TaskWriter(files, self._key_plan(), self._task, encoders=1))
        open_writer = _LaterWriter(lambda: TaskWriter(files, self._open_plan, self._task, encoders=1))
        try:
            parts: Iterable[Changes] = self._buffer.drain()
            has_deletes = self._has_deletes
            if has_deletes and not self._buffer.is_spilled:  # at most one part, in which old versions may be left out
                parts = [*parts]
                has_deletes = any(part.are_deletes.any() for part in parts)
            # Without deletes and a sequence, the data files contain all keys that the commit needs.
            writes_keys = has_deletes or self._sequence is not None
            for changes in parts:
                by_key = sorted_by_key(self._without_open(changes, open_writer), self._keys)
                if writes_keys:
                    key_writer.write(DataStream.of(key_rows(self._key_plan(), by_key, self._keys)))
                upserts = by_key.filter(~by_key.are_deletes)
                if len(upserts):
                    rows_writer.write(DataStream.of(upserts.rows))
                    written.append(self._keys_to_keep(upserts))
            data_files = rows_writer.close()
            key_files = (*key_writer.close(), *open_writer.close())
            sealed = TaskCommitter(files, self._plan).seal(self._task, (*data_files, *key_files))
        except BaseException:
            for writer in (rows_writer, key_writer, open_writer):
                writer.abort()
            self.abort()
            raise
        self._buffer.close()
        self._committable = replace(sealed, files=tuple(data_files), keys=_key_files(key_files))
        if len(written) == len(data_files) == 1 and written[0] is not None and self._keep_keys is not None:
            self._keep_keys(data_files[0].path, written[0].combine_chunks().to_batches()[0])
        return self._committable

    def _without_open(self, changes: Changes, open_writer: _LaterWriter) -> Changes:
        """One change for each key. The changes of open keys are written for the commit; it gets their keys as deletes,
        unless it finds that they are not."""
        if changes.are_open is None or not changes.are_open.any():
            return changes
        left = changes.filter(changes.are_open)
        order, last_of_keys = in_order(left, self._keys)
        ordered = left.take(order)
        told = [physical_name(field) for field in map(self._plan.schema.find, self._told) if field is not None]
        rows = open_rows(self._open_plan, ordered.rows, ordered.kinds, json.dumps(told))
        open_writer.write(DataStream.of(rows))
        last = left.take(last_of_keys)
        as_deletes = replace(last, kinds=np.full(len(last), DELETE, dtype=np.int8))
        return joined([changes.filter(~changes.are_open), as_deletes])

    @cached_property
    def _open_plan(self) -> WritePlan:
        return open_rows_plan(self._plan)

    def _keys_to_keep(self, upserts: Changes) -> pa.Table | None:
        """The key columns of new rows. A single file of an unpartitioned table has its rows in the order of writing;
        for other files, and for many rows, nothing is kept."""
        if self._keep_keys is None or self._plan.partition_columns or len(upserts) > _KEPT_ROWS:
            return None
        names = {key.path[0] for key in self._keys}
        return upserts.rows.select([name for name in self._plan.schema.names if name in names])

    def _key_plan(self) -> WritePlan:
        return key_plan(self._plan, self._keys, None if self._sequence is None else self._sequence.type)

    def _close_staged(self) -> Committable:
        """Seal the rows as they arrived, in change files for the commit, without data files."""
        try:
            rows = self._staged.close() if self._staged is not None else ()
            sealed = TaskCommitter(self._files, self._plan).seal(self._task, ())
            files = TaskCommitter(self._files, self._staged_plan).seal(self._task, rows).files
        except BaseException:
            self.abort()
            raise
        return replace(sealed, keys=_key_files(files))

    def abort(self) -> None:
        """Drop the task. Never raises. Do not call it after a committer got the committable."""
        self._is_aborted = True
        if self._staged is not None:
            self._staged.abort()
        self._buffer.close()

    # --- rows ---------------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._is_aborted or self._committable is not None:
            state = "aborted" if self._is_aborted else "closed"
            raise InvalidInputError(f"this task's writer is {state}: start another attempt", table=self._plan.table)

    def _take(self, stream: DataStream, kind: int | None) -> None:
        self._check_open()
        try:
            with TxlogError.located(self._plan.table):
                for batch in (batch for batch in stream.batches if batch.num_rows):
                    if self._engine is None:
                        self._buffer.add(self._changes(batch, kind))
                    else:
                        self._stage(batch, kind, self._engine)
                    self.num_rows += batch.num_rows
        except BaseException:
            self.abort()
            raise

    @cached_property
    def _staged_plan(self) -> WritePlan:
        return staged_rows_plan(self._plan)

    def _stage(self, batch: pa.RecordBatch, kind: int | None, engine: MergeEngine) -> None:
        """Write rows as they arrived, for the commit to merge."""
        given = kind is not None
        batch, kinds = self._with_kinds(batch, kind)
        engine.check_kinds(kinds)
        rows = self._fitted(batch, kinds)
        self._check_keys(rows)
        self._check_required(engine, rows, kinds)
        if self._spec.mode == "retract" and engine.takes_last_row:
            kinds = kinds if given else np.where(kinds == DELETE, np.int8(TAKEN_BACK), kinds)
        if self._staged is None:
            self._staged = TaskWriter(self._files, self._staged_plan, self._task, encoders=1)
        staged = staged_rows(self._staged_plan, rows, kinds, self._places(batch, kinds))
        self._staged.write(DataStream.of(staged))

    def _places(self, batch: pa.RecordBatch, kinds: NDArray[np.int8]) -> NDArray[np.int64]:
        """The order of rows for a merge engine: a feed's, or their arrival."""
        of_feed = self._feed_order(batch, kinds)
        if of_feed is None:
            return np.arange(self.num_rows, self.num_rows + batch.num_rows)
        found: NDArray[np.int64] = FEED_PLACES + of_feed.to_numpy()
        return found

    def _feed_order(self, batch: pa.RecordBatch, kinds: NDArray[np.int8]) -> pa.Array | None:
        """The order of the rows of a change data feed; None if they are ordered otherwise."""
        spec = self._spec
        name = orders_feed(spec.row_kind, spec.sequence_by, batch.schema.names)
        if self.num_rows and name != self._ordered_by:
            raise InvalidInputError(
                f"the changes before row {self.num_rows} (counting from 0) are ordered by"
                f" {self._ordered_by or 'arrival'}, and those from it on by {name or 'arrival'}: give all batches the"
                " same columns"
            )
        self._ordered_by = name
        if name is None:
            return None
        return feed_order(batch.column(self._at(batch, name)), kinds, name, self.num_rows)

    def _with_kinds(self, batch: pa.RecordBatch, kind: int | None) -> tuple[pa.RecordBatch, NDArray[np.int8]]:
        """The columns to store, and the kind of each row."""
        spec = self._spec
        if kind is not None:
            needed = [*dict.fromkeys(self._at(batch, name) for name in self._needed_of_deletes())]
            return batch.select(needed), np.full(batch.num_rows, kind, dtype=np.int8)
        if spec.row_kind is None:
            return batch, np.full(batch.num_rows, UPDATE_AFTER, dtype=np.int8)
        at = self._at(batch, spec.row_kind)
        return batch, self._kinds.of(batch.column(at), batch.schema.names[at], self.num_rows)

    def _changes(self, batch: pa.RecordBatch, kind: int | None) -> Changes:
        spec = self._spec
        given = kind is not None
        if given and is_feed(spec.row_kind):
            raise InvalidInputError(
                f"the changes are a change data feed, whose versions order them, and these keys have none: write the"
                f" rows to delete with {spec.row_kind} = 'delete'"
            )
        batch, kinds = self._with_kinds(batch, kind)
        rows = self._fitted(batch, kinds)
        of_feed = None if given else self._feed_order(batch, kinds)
        sequence: pa.ChunkedArray | None = None
        if of_feed is not None:
            self._sequence, sequence = Field("sequence", LONG, False, {}), pa.chunked_array([of_feed])
        elif spec.sequence_by is not None:
            sequence = self._sequence_of(batch, rows, spec.sequence_by)
        if (spec.mode == "retract" and not given) or of_feed is not None:
            kinds = np.where(kinds == DELETE, np.int8(UPDATE_BEFORE), kinds)
        changes = Changes(pa.Table.from_batches([rows]), kinds, sequence)
        self._check_nulls(rows, changes.are_deletes)
        self._has_deletes |= bool(changes.are_deletes.any())
        return changes

    def _needed_of_deletes(self) -> list[str]:
        names = [key.path[0] for key in self._keys]
        if self._engine is not None:
            ordering = (*self._engine.sequence, *(name for group in self._engine.groups for name in group.sequence))
            return [*names, *ordering]
        return names if self._spec.sequence_by is None else [*names, self._spec.sequence_by]

    def _at(self, batch: pa.RecordBatch, name: str) -> int:
        found = [at for at, each in enumerate(batch.schema.names) if fold_name(each) == fold_name(name)]
        if not found:
            raise InvalidInputError(f"the changes have no column {name}; they have {', '.join(batch.schema.names)}")
        if len(found) > 1:
            names = ", ".join(batch.schema.names[at] for at in found)
            raise InvalidInputError(f"the changes have several columns {name}: {names}. Rename or drop all but one")
        return found[0]

    def _fitted(self, batch: pa.RecordBatch, kinds: NDArray[np.int8]) -> pa.RecordBatch:
        """The table's columns; null where deleted rows lack them."""
        told = (*feed_columns(self._spec.row_kind), self._spec.row_kind, self._spec.sequence_by)
        own = {fold_name(name) for name in told if name is not None}
        kept = [
            at
            for at, name in enumerate(batch.schema.names)
            if fold_name(name) not in own or self._plan.schema.find(name) is not None
        ]
        are_new = (kinds != DELETE) & (kinds != UPDATE_BEFORE)
        rows = batch if len(kept) == batch.num_columns else batch.select(kept)
        rows = require_values(self._plan.schema, self._keys, self._engine, rows, are_new, self.num_rows)
        return completed(self._nullable, rows, self._generated, self._plan.table, self.num_rows, are_new)

    def _sequence_of(self, batch: pa.RecordBatch, rows: pa.RecordBatch, name: str) -> pa.ChunkedArray:
        """The column that orders changes, with one type for all batches."""
        column = self._plan.schema.find(name)
        if column is not None:
            field, found = Field("sequence", column.type, False, {}), rows.column(column.name)
        else:
            at = self._at(batch, name)
            arrow = pa.schema([pa.field("sequence", batch.schema.field(at).type)])
            field = self._sequence or Field("sequence", from_arrow(arrow).fields[0].type, False, {})
            given = pa.record_batch([batch.column(at)], schema=arrow)
            wanted = Struct((replace(field, nullable=True),))
            found = conformer_for(wanted, arrow, self._plan.table).conform(given, self.num_rows).column(0)
        if isinstance(field.type, Struct | Array | Map):
            raise InvalidInputError(f"{argument('sequence_by')} column {name} has nested values, which have no order")
        if found.null_count:
            row = self.num_rows + int(found.is_null().index(True).as_py())
            raise InvalidInputError(
                f"{argument('sequence_by')} column {name} is null in row {row} (counting from 0): a row without a"
                " sequence has no order. Fill or drop such rows"
            )
        self._sequence = field
        return pa.chunked_array([found])

    def _check_nulls(self, rows: pa.RecordBatch, are_deletes: NDArray[np.bool_]) -> None:
        """Refuse null keys, and new rows without a value that the table requires."""
        self._check_keys(rows)
        check_columns(self._plan.schema, rows, ~are_deletes, self.num_rows, "which is not deleted")

    def _check_required(self, engine: MergeEngine, rows: pa.RecordBatch, kinds: NDArray[np.int8]) -> None:
        """Refuse nulls that no merge can fill. A null may get its value from another row of the key, except in an
        engine that takes whole rows; and a deleted row needs only its key, except in a feed of rows as they arrived."""
        schema, goes = self._plan.schema, (kinds == DELETE) | (kinds == UPDATE_BEFORE)
        tells_input = self._plan.configuration.get(CHANGELOG_PRODUCER) == "input"
        counts = np.ones_like(goes) if tells_input and not engine.ignores_deletes else ~goes
        if tells_input:
            reason = "which the change feed records as it arrived (txlog.changelog-producer = input)"
            check_columns(schema, rows, counts, self.num_rows, reason)
        elif engine.takes_whole_rows:
            check_columns(schema, rows, counts, self.num_rows, "which is not deleted")
        check_members(schema, rows, counts, self.num_rows)

    def _check_keys(self, rows: pa.RecordBatch) -> None:
        for key in self._keys:
            column = key.of(rows)
            if column.null_count:
                row = self.num_rows + int(column.is_null().index(True).as_py())
                raise InvalidInputError(
                    f"key {key.name} is null in row {row} (counting from 0): {key.why_not_null}. Fill or drop such rows"
                )


class _LaterWriter:
    """A writer that is made for its first rows: most tasks write none of these files."""

    def __init__(self, make: Callable[[], TaskWriter]) -> None:
        self._make = make
        self._writer: TaskWriter | None = None

    def write(self, rows: DataStream) -> None:
        self._writer = self._writer or self._make()
        self._writer.write(rows)

    def close(self) -> tuple[PendingFile, ...]:
        return () if self._writer is None else self._writer.close()

    def abort(self) -> None:
        if self._writer is not None:
            self._writer.abort()


def _key_files(files: tuple[PendingFile, ...]) -> tuple[KeyFile, ...]:
    return tuple(KeyFile(file.path, file.size_bytes, file.num_rows, file.modified_ms) for file in files)


def _engine_of(plan: WritePlan, spec: ChangelogSpec, keys: Sequence[str]) -> MergeEngine | None:
    """The table's merge engine, which a checkpoint's commit will use; None if it has none."""
    found = stored_engine(plan.configuration, plan.schema, keys)
    if found is None or spec.sequence_by is None:
        return found
    column = plan.schema.find(spec.sequence_by)
    if column is None or found.sequence != (column.name,):
        ordered = f"by {', '.join(found.sequence)}" if found.sequence else "by arrival or by sequence groups"
        raise InvalidInputError(
            f"the table orders rows with one key {ordered} (merge-engine {found.name}), not by {spec.sequence_by}:"
            f" leave {argument('sequence_by')} out, or set txlog.sequence.field"
        )
    return found
