"""Says yes or no to a batch before it is taken: its columns, its values, its keys and kinds of rows.

In: record batches as a client sent them. Out: the rows as the table has them, and the rows that it refuses, with the
reason for each. A batch that passes can still be refused when it is committed, if somebody changes the table meanwhile.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

import txlog
from txlog.errors import InvalidInputError, SchemaMismatchError, StorageError
from txlog.extend import RowCheck, open_table_of
from txlog.extend.catalogs import ambient
from txlog.extend.merge_engines import DELETE, UPDATE_BEFORE, RowKinds
from txlog.serve.batches import How

QUARANTINE = pa.schema(
    [
        ("received", pa.timestamp("us", "UTC")),
        ("source", pa.string()),
        ("stream", pa.string()),
        ("batch", pa.int64()),
        ("row", pa.int64()),
        ("reason", pa.string()),
        ("content", pa.string()),
    ]
)
"""The columns of a table of rows that another table, ``source``, cannot store; ``content`` is JSON, or the line as it
came."""
_SCHEMAS_MAX = 64


class RowChecks:
    """The checks of one table, kept by the columns of batches. Thread-safe."""

    def __init__(self, table: txlog.Table) -> None:
        self._table = table
        self._open_table = open_table_of(table)
        self._lock = threading.Lock()
        self._known: dict[pa.Schema, RowCheck] = {}
        self._upserts: dict[object, object] = {}  # the definition that they were tried by

    def taken(
        self, rows: pa.RecordBatch, how: How, merges: Mapping[str, pa.Array] | None = None, *, tries: bool = False
    ) -> pa.RecordBatch:
        """The rows as they are to be committed.

        Args:
            rows: The rows.
            how: What they do to the table.
            merges: Add columns that the table lacks: by the name of some, what rows get that are there by now; None:
                add none.
            tries: Whether to refuse what only a commit would find out, for rows whose client does not wait for it.

        Raises:
            SchemaMismatchError: The columns do not fit.
            InvalidInputError: A row cannot be stored; the message names it.
            TxlogError: The columns could not be added to the table.
        """
        if how.mode == "upsert":
            are_new = self._check_changes(rows, how, merges)
            if tries:
                self._try_upsert(rows, how, are_new)
            return rows
        check, rows = self._check(rows, merges)
        taken = check.taken(rows)
        return rows if check.completes_rows else taken

    def parted(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, dict[int, str]]:
        """The rows that can be stored, as they came, and why each other one cannot be, by its number.

        Raises SchemaMismatchError.
        """
        check, rows = self._check(rows)
        refused = check.refused_rows(rows)
        stay = np.ones(rows.num_rows, bool)
        stay[list(refused)] = False
        return rows.filter(pa.array(stay)), refused

    def _check(
        self,
        rows: pa.RecordBatch,
        merges: Mapping[str, pa.Array] | None = None,
        checked: Sequence[tuple[int, int]] | None = None,
    ) -> tuple[RowCheck, pa.RecordBatch]:
        """``checked`` are the runs of rows whose values count, all by default."""
        schema = rows.schema.remove_metadata()
        with self._lock:
            known = self._known.get(schema)
        if known is not None and known.metadata == self._open_table.known_state().metadata:
            return known, rows
        try:
            check, rows = RowCheck.of(self._open_table, rows)
        except SchemaMismatchError:
            self._table.snapshot()  # somebody else may have added the columns
            check, rows = self._checked_again(rows, merges, [(0, rows.num_rows)] if checked is None else checked)
        with self._lock:
            if len(self._known) >= _SCHEMAS_MAX:
                self._known.clear()
            self._known[rows.schema.remove_metadata()] = check
        return check, rows

    def _checked_again(
        self, rows: pa.RecordBatch, merges: Mapping[str, pa.Array] | None, checked: Sequence[tuple[int, int]]
    ) -> tuple[RowCheck, pa.RecordBatch]:
        try:
            return RowCheck.of(self._open_table, rows)
        except SchemaMismatchError:
            if merges is None:
                raise
        self._check_known(rows, checked)
        self._add_columns(rows, merges)
        return RowCheck.of(self._open_table, rows)

    def _check_known(self, rows: pa.RecordBatch, checked: Sequence[tuple[int, int]]) -> None:
        """Check the columns that the table has: a batch that is refused adds none. Raises InvalidInputError."""
        has = {name.lower() for name in self._table.snapshot().schema.names}
        known = rows.select([name for name in rows.schema.names if name.lower() in has])
        try:
            check, known = RowCheck.of(self._open_table, known)
        except SchemaMismatchError:  # by a field that is new, too
            return
        for start, count in checked:
            check.taken(known.slice(start, count), start)

    def _add_columns(self, rows: pa.RecordBatch, existing: Mapping[str, pa.Array]) -> None:
        """Add the columns that the table lacks, in one version with what the rows there have in them by now."""
        has = {name.lower() for name in self._table.snapshot().schema.names}
        filled = [name for name in existing if name.lower() not in has]
        if filled:
            with self._table.transaction() as txn:
                txn.add_columns(pa.schema([rows.schema.field(name) for name in filled]))
                txn.update({name: txlog.lit(existing[name][0].as_py()) for name in filled})
        self._table.append(rows.slice(0, 0), schema_mode="merge")

    def _check_changes(self, rows: pa.RecordBatch, how: How, merges: Mapping[str, pa.Array] | None) -> Any:
        """Check keys and kinds, and the values of all rows but deleted ones, which need only their keys. Returns which
        rows are not deleted."""
        for name in (*how.keys, how.row_kind, how.sequence_by):
            root = None if name is None else name.partition(".")[0]
            if root is not None and root not in rows.schema.names:
                raise InvalidInputError(f"the rows have no column {name!r}", table=self._table.uri)
        for key in how.keys:
            if key in rows.schema.names and rows.column(key).null_count:
                row = pc.index(pc.is_null(rows.column(key)), True).as_py()
                raise InvalidInputError(f"column {key} is null (row {row}), but it is a key", table=self._table.uri)
        are_new = np.ones(rows.num_rows, bool)
        if how.row_kind is not None:
            kinds = RowKinds().of(rows.column(how.row_kind), how.row_kind)
            are_new = ~np.isin(kinds, (DELETE, UPDATE_BEFORE))
        columns = {field.name for field in self._open_table.known_state().schema.fields}
        beside = {how.row_kind, how.sequence_by} - columns
        rows = rows.select([name for name in rows.schema.names if name not in beside])
        runs = _runs(are_new)
        check, rows = self._check(rows, merges, runs)
        for start, count in runs:
            check.taken(rows.slice(start, count), start)
        return are_new

    def _try_upsert(self, rows: pa.RecordBatch, how: How, are_new: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> None:
        """Raises what the table refuses every upsert of such rows with. A merge engine is asked for a deleted row, too.
        If the store does not answer, the rows are not tried."""
        state = self._open_table.known_state()
        of_these = rows.schema.remove_metadata(), how, bool(are_new.any()), bool(are_new.all())
        with self._lock:
            if self._upserts.get(of_these) == state.metadata:
                return
        deleted = np.flatnonzero(~are_new)[: int("txlog.merge-engine" in state.metadata.configuration)]
        try:
            self._try(rows.take(pa.array(deleted, pa.int64())), how, how.row_kind)
            if are_new.any():
                self._try(rows.slice(0, 0), how, None)
        except StorageError:
            return
        with self._lock:
            if len(self._upserts) >= _SCHEMAS_MAX:
                self._upserts.clear()
            self._upserts[of_these] = state.metadata

    def _try(self, rows: pa.RecordBatch, how: How, row_kind: str | None) -> None:
        if row_kind is None and how.row_kind is not None and how.row_kind not in self._table.schema.names:
            rows = rows.drop_columns([how.row_kind])
        with contextlib.suppress(_Tried), self._table.transaction(refresh=False) as txn:
            txn.upsert(rows, how.keys, row_kind=row_kind, sequence_by=how.sequence_by, on_duplicate="last")
            raise _Tried


class _Tried(Exception):
    """Ends a transaction that is not to be committed."""


def _runs(flags: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> list[tuple[int, int]]:
    """Where runs of true values begin, and how long they are."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], flags, [False])).astype(np.int8)))
    return [(int(start), int(end - start)) for start, end in zip(edges[::2], edges[1::2], strict=True)]


def quarantined(
    source: str, stream: str | None, number: int | None, reasons: Mapping[int, str], contents: Sequence[str]
) -> pa.RecordBatch:
    """The rows that ``source`` refused as rows of the other table."""
    count = len(reasons)
    columns = [[ambient.now()] * count, [source] * count, [stream] * count, [number] * count]
    columns += [[*reasons], [*reasons.values()], [*contents]]
    return pa.RecordBatch.from_arrays(
        [pa.array(values, field.type) for values, field in zip(columns, QUARANTINE, strict=True)], schema=QUARANTINE
    )


def contents_of(rows: pa.RecordBatch, numbers: Sequence[int]) -> list[str]:
    """Rows as JSON, for people."""
    return [
        orjson.dumps(row, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
        for row in rows.take(pa.array(numbers, pa.int64())).to_pylist()
    ]
