"""Writes change files: the rows that operations change, as they were and as they are, each with its change type.

In: what operations did to rows (`ChangesOfFiles`), and the rows of other files that their version adds or removes. Out:
durable change files. PROTOCOL.md, "Add CDC File", "Change Data Files".
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from txlog.core import ambient
from txlog.core.changes.tasks._file_rows import FileRows
from txlog.core.changes.tasks._operation import MatchedFile, RowOperation
from txlog.core.format.actions import AddFile, DeletionVectorDescriptor
from txlog.core.format.change_data import (
    CHANGE_DATA_FOLDER,
    CHANGE_TYPE,
    DELETE,
    INSERT,
    UPDATE_POSTIMAGE,
    UPDATE_PREIMAGE,
)
from txlog.core.format.changed_rows import ChangedRows
from txlog.core.format.defined_table import DefinedTable
from txlog.core.format.schema import Struct, to_arrow
from txlog.core.reading import ChangeReader, VersionChanges, select
from txlog.core.store import TableFiles
from txlog.core.writing import DataStream, TaskIdentity, TaskWriter, UnsentFiles, WritePlan, seal_written
from txlog.core.writing.committable import ChangeFile, PendingFile

if TYPE_CHECKING:
    from numpy.typing import NDArray


class ChangesOfFiles(msgspec.Struct, frozen=True):
    """What one operation does to rows of files that also hold other rows.

    Attributes:
        operation: The operation.
        rows: Reads the files.
        touched: The files with rows that are removed.
        is_written: Which source rows are written; None if the operation has no source.
        marked: The files of ``touched`` that stay, with their new vectors.
        new_files: The files written for it: source rows, new versions of rows, copies.
    """

    operation: RowOperation
    rows: FileRows
    touched: Sequence[MatchedFile]
    is_written: NDArray[np.bool_] | None
    marked: Sequence[tuple[AddFile, DeletionVectorDescriptor]]
    new_files: Sequence[PendingFile]

    @property
    def need_files(self) -> bool:
        """Whether added and removed files alone would not show the same changes."""
        if self.operation.changelog() is not None:  # rows that leave the table as it was are shown too
            return True
        return bool(self.touched) and (
            self.operation.replaces_rows or bool(self.marked) or bool(self.new_files) or self.is_written is not None
        )


class ChangeFileWriter:
    """Collects what operations do to rows, and writes it to change files with the columns of ``table``. One thread.

    ``unsent`` owns the files. It reuses the files of an earlier attempt if they hold exactly the same changes.
    """

    def __init__(self, store: TableFiles, table: DefinedTable, unsent: UnsentFiles) -> None:
        self._files = store.files
        self._table = table
        self._unsent = unsent
        fields = (*table.schema.fields, CHANGE_TYPE)
        self._schema = to_arrow(Struct(fields))
        plan = WritePlan.of_table(table, store.uri, rows="old")
        self._plan = replace(
            plan,
            schema=Struct(fields),
            folder=CHANGE_DATA_FOLDER,
            file_kind="cdc",
            # Readers never skip change files by statistics.
            configuration={**plan.configuration, "delta.dataSkippingNumIndexedCols": "0"},
        )
        self._reader = ChangeReader(store, select(store.uri, table), fields, None)
        self._job_id = ambient.uuid4()
        self._task_ids = itertools.count()
        self.collected: list[ChangesOfFiles] = []
        self._written: tuple[bytes, tuple[ChangeFile, ...]] | None = None
        self.seconds = 0.0
        """The cost of the last write of change files."""

    def write(self, others: Sequence[ChangedRows], *, are_net: bool = False) -> tuple[ChangeFile, ...]:
        """The change files for what was collected and for ``others``; none if nothing changes.

        With ``are_net``, ``others`` are all rows of files that the version adds or removes; only their net change is
        recorded, without what was collected.

        Raises what writing files and reading changed files raises.
        """
        signature = self._signature(others)
        if self._written is None or self._written[0] != signature:
            started_s = ambient.monotonic_s()
            self._written = signature, self._write(self._net_rows(others) if are_net else self._rows(others))
            self.seconds = ambient.monotonic_s() - started_s
        return self._written[1]

    def writer(self, task: TaskIdentity) -> TaskWriter:
        """A writer for the caller's rows: the table's columns and ``_change_type``. End it with `sealed`."""
        return TaskWriter(self._files, self._plan, task)

    def sealed(self, task: TaskIdentity, writer: TaskWriter) -> tuple[ChangeFile, ...]:
        """The change files of a `writer`, durable. Raises what ``seal_written`` raises."""
        files = seal_written(self._files, self._plan, task, writer).files
        self._unsent.own(file.path for file in files)
        return tuple(ChangeFile(each.path, each.size_bytes, each.num_rows, each.partition_values) for each in files)

    # --- rows -----------------------------------------------------------------------------------------------

    def _signature(self, others: Sequence[ChangedRows]) -> bytes:
        """A digest of everything that determines the rows."""
        digest = hashlib.sha256(repr(others).encode())
        for changes in self.collected:
            for each in changes.touched:
                digest.update(repr((each.add.path, len(each.replaced))).encode() + each.replaced.tobytes())
            digest.update(b"-" if changes.is_written is None else changes.is_written.tobytes())
        return digest.digest()

    def _rows(self, others: Sequence[ChangedRows]) -> Iterator[pa.RecordBatch]:
        for changes in self.collected:
            yield from self._rows_of(changes)
        yield from self._rows_of_files(others)

    def _net_rows(self, files: Sequence[ChangedRows]) -> Iterator[pa.RecordBatch]:
        from txlog.core.changes.tasks._net_changes import net_changes

        return net_changes(lambda: self._rows_of_files(files))

    def _rows_of_files(self, files: Sequence[ChangedRows]) -> Iterator[pa.RecordBatch]:
        return self._reader.batches(VersionChanges(self._table.version, 0, tuple(files)))

    def _write(self, rows: Iterator[pa.RecordBatch]) -> tuple[ChangeFile, ...]:
        task = TaskIdentity(self._job_id, next(self._task_ids))
        with self.writer(task) as writer:
            writer.write(DataStream(self._schema, rows))
            return self.sealed(task, writer)

    def empty_file(self) -> ChangeFile:
        """A change file without rows. With one, readers do not take the rows of added and removed files for a version's
        changes."""
        task = TaskIdentity(self._job_id, next(self._task_ids))
        with self.writer(task) as writer:
            writer.write_empty_file()
            return self.sealed(task, writer)[0]

    def _rows_of(self, changes: ChangesOfFiles) -> Iterator[pa.RecordBatch]:
        operation = changes.operation
        changelog = operation.changelog()
        if changelog is not None:
            for kind, batch in changelog:
                yield self._labelled(batch, kind)
            return
        updated, updated_source = operation.updated(changes.touched)
        for each, is_updated in zip(changes.touched, updated, strict=True):
            yield from self._rows_of_file(changes, each, is_updated)
        is_written = changes.is_written
        if is_written is None:
            return
        for kind, mask in (
            (UPDATE_POSTIMAGE, is_written & updated_source),
            (INSERT, is_written & ~updated_source),
        ):
            if mask.any():
                for batch in operation.source_batches(mask):
                    yield self._labelled(batch, kind)

    def _rows_of_file(
        self, changes: ChangesOfFiles, each: MatchedFile, is_updated: NDArray[np.bool_]
    ) -> Iterator[pa.RecordBatch]:
        """The removed rows, as they were, and their new versions if the operation makes any."""
        operation = changes.operation
        hits = each.hits.at(np.searchsorted(each.hits.positions, each.replaced))
        names = [field.name for field in operation.image_fields]
        for here, rows in changes.rows.at(each.add, each.replaced, self._table.schema.fields):
            at = np.searchsorted(each.replaced, here)
            comes_back = is_updated[at]
            for kind, mask in ((DELETE, ~comes_back), (UPDATE_PREIMAGE, comes_back)):
                if mask.any():
                    yield self._labelled(rows.filter(pa.array(mask)), kind)
            if operation.makes_images and comes_back.any():
                old = rows.filter(pa.array(comes_back)).select(names) if names else None
                for images, _ in operation.images(old, hits.at(at[comes_back])):
                    yield self._labelled(images, UPDATE_POSTIMAGE)

    def _labelled(self, rows: pa.RecordBatch, kind: str) -> pa.RecordBatch:
        kinds = pa.repeat(pa.scalar(kind, pa.string()), rows.num_rows)
        return pa.RecordBatch.from_arrays([*rows.columns, kinds], names=self._schema.names)
