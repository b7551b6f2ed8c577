"""Change files: what a version does to each row, in the words of the change data feed.

In: the final classification of the rows that an attempt changes, and all file actions of its proposal. Out: files below
``_change_data/`` and their ``cdc`` actions. A version has none where its added and removed files alone tell the same:
rows that were appended, and files that went as a whole. It has all its changes in them where a deletion vector changes,
a copy holds rows that stay, or a row is updated. PROTOCOL.md, "Add CDC File", "Change Data Files".

A transaction may change rows that it wrote or copied itself. What each operation did to its rows then says nothing of
the version any more, so the net change is found from the files instead: a row that changed is a delete and an insert.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from txlog.commands.row_change.file_rows import FileRows
from txlog.commands.row_change.operation import BringsChanges, RowOperation, Touched
from txlog.commit.open_table import OpenTable
from txlog.commit.unsent_files import UnsentFiles
from txlog.log.changes import ChangedRows, rows_between
from txlog.log.proposal_builder import ProposalBuilder
from txlog.log.state import TableState
from txlog.protocol.actions import AddFile, DeletionVectorDescriptor, Metadata
from txlog.protocol.change_data import (
    CHANGE_DATA_FOLDER,
    CHANGE_TYPE,
    DELETE,
    INSERT,
    UPDATE_POSTIMAGE,
    UPDATE_PREIMAGE,
)
from txlog.protocol.paths import canonical_path, encode_path
from txlog.protocol.schema import Struct, to_arrow
from txlog.read.change_rows import ChangeReader, VersionChanges
from txlog.read.scan_plan import select
from txlog.util import ambient
from txlog.writer.committable import ChangeFile, PendingFile
from txlog.writer.input import DataStream
from txlog.writer.task_committer import seal_written
from txlog.writer.task_writer import TaskWriter
from txlog.writer.write_plan import TaskIdentity, WritePlan

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["ChangeFiles", "RowChanges"]


@dataclass(frozen=True, slots=True)
class RowChanges:
    """What one operation does to rows of files that others are in too.

    Attributes:
        operation: The operation.
        rows: Reads the files.
        touched: The files with rows that go.
        is_written: Which rows of the operation's source are written; None if it has no source.
        marked: Those of the files that stay, with their new vectors.
        new_files: The files that were written for it: rows of the source, new versions of rows, copies.
    """

    operation: RowOperation
    rows: FileRows
    touched: Sequence[Touched]
    is_written: NDArray[np.bool_] | None
    marked: Sequence[tuple[AddFile, DeletionVectorDescriptor]]
    new_files: Sequence[PendingFile]

    @property
    def given(self) -> BringsChanges | None:
        """The operation, where the feed is to tell what its source says."""
        operation = self.operation
        return operation if isinstance(operation, BringsChanges) and operation.brings_changes else None

    @property
    def need_files(self) -> bool:
        """Whether added and removed files alone would not tell the same."""
        if self.given is not None:
            return bool(self.touched) or bool(self.new_files)
        return bool(self.touched) and (
            self.operation.replaces_rows or bool(self.marked) or bool(self.new_files) or self.is_written is not None
        )


class ChangeFiles:
    """Collects what a proposal does to rows, and writes its change files. One thread.

    ``unsent`` owns the files. Those of an attempt before are named again where they hold exactly the same changes.
    """

    def __init__(self, open_table: OpenTable, state: TableState, unsent: UnsentFiles) -> None:
        self._store = open_table.store
        self._state = state
        self._unsent = unsent
        fields = (*state.schema.fields, CHANGE_TYPE)
        self._schema = to_arrow(Struct(fields))
        plan = WritePlan.of(state.metadata, table=open_table.uri, read_version=state.version, schema=state.schema)
        self._plan = replace(
            plan,
            schema=Struct(fields),
            folder=CHANGE_DATA_FOLDER,
            file_kind="cdc",
            # Nobody prunes change files.
            configuration={**plan.configuration, "delta.dataSkippingNumIndexedCols": "0"},
        )
        self._reader = ChangeReader(self._store, select(open_table.uri, state), fields, None)
        self._job_id = ambient.uuid4()
        self._task_ids = itertools.count()
        self._collected: list[RowChanges] = []
        self._is_net = False  # an operation changed rows that one before it wrote or copied
        self._written: tuple[bytes, tuple[ChangeFile, ...]] | None = None
        self.seconds = 0.0
        """What writing them took last."""

    @classmethod
    def of(
        cls, open_table: OpenTable, state: TableState, unsent: UnsentFiles, new_metadata: Metadata | None = None
    ) -> ChangeFiles | None:
        """None for a table whose feed is off. Its files have the columns of ``new_metadata``, if that is given."""
        if new_metadata is not None:
            state = state.defined_as(new_metadata, None)
        return cls(open_table, state, unsent) if state.properties.enable_change_data_feed else None

    def begin(self) -> None:
        """Forget what an attempt before did to rows."""
        self._collected = []
        self._is_net = False

    def collect(self, changes: RowChanges, builder: ProposalBuilder) -> None:
        """Before ``changes`` are put into ``builder``."""
        self._is_net |= any(builder.is_new(each.add) for each in changes.touched)
        self._collected.append(changes)

    def finish(self, builder: ProposalBuilder) -> int:
        """After everything else: put the change files of all that ``builder`` does into it; how many there are.

        Raises what writing files and reading those that changed raises.
        """
        if not any(changes.need_files for changes in self._collected):
            return 0
        files = self.write(builder)
        if not files and (builder.adds or builder.removes):
            # Without a change file, readers take the rows of the added and removed files for changes.
            files = (self._empty_file(),)
        builder.change_data(*(file.to_cdc() for file in files))
        return len(files)

    def write(self, builder: ProposalBuilder) -> tuple[ChangeFile, ...]:
        """The change files of all that ``builder`` does, also where they are not needed; none if nothing changes.

        Raises as `finish`.
        """
        others = self._others(builder)
        signature = self._signature(others)
        if self._written is None or self._written[0] != signature:
            started_s = ambient.monotonic_s()
            self._written = signature, self._write(self._net_rows(others) if self._is_net else self._rows(others))
            self.seconds = ambient.monotonic_s() - started_s
        return self._written[1]

    def writer(self, task: TaskIdentity) -> TaskWriter:
        """Takes rows in the table's columns and ``_change_type`` from somebody who has them; `sealed` has to follow."""
        return TaskWriter(self._store.files, self._plan, task)

    def sealed(self, task: TaskIdentity, writer: TaskWriter) -> tuple[ChangeFile, ...]:
        """The change files of a `writer`, durable. Raises as ``seal_written``."""
        files = seal_written(self._store.files, self._plan, task, writer).files
        self._unsent.own(file.path for file in files)
        return tuple(ChangeFile(each.path, each.size_bytes, each.num_rows, each.partition_values) for each in files)

    # --- what else the proposal does ------------------------------------------------------------------------

    def _others(self, builder: ProposalBuilder) -> list[ChangedRows]:
        """The rows that come and go with files, apart from those that the collected changes tell of; all, if those
        tell of rows that were changed again."""
        adds = {canonical_path(add.path): add for add in builder.adds}
        removes = {canonical_path(remove.path): remove for remove in builder.removes}
        told_new, told_vectors, told_gone = self._told()
        self._is_net |= any(path not in adds or adds[path].deletion_vector is not None for path in told_new)
        if self._is_net:
            told_new, told_vectors, told_gone = set(), {}, set()
        adds = {path: add for path, add in adds.items() if path not in told_new}
        found: list[ChangedRows] = []
        for path in [*removes, *(path for path in adds if path not in removes)]:
            remove = removes.get(path)
            if path in told_gone:
                continue
            if path in told_vectors and remove is not None:
                remove = replace(remove, deletion_vector=told_vectors[path])
            found += rows_between(remove, adds.get(path))
        return found

    def _told(self) -> tuple[set[str], dict[str, DeletionVectorDescriptor], set[str]]:
        """What the collected changes tell of: new files, files up to a vector, and files that went."""
        new: set[str] = set()
        vectors: dict[str, DeletionVectorDescriptor] = {}
        gone: set[str] = set()
        for changes in self._collected:
            new.update(canonical_path(encode_path(file.path)) for file in changes.new_files)
            marked = {canonical_path(add.path): vector for add, vector in changes.marked}
            vectors |= marked
            gone.update(path for each in changes.touched if (path := canonical_path(each.add.path)) not in marked)
        return new, vectors, gone

    # --- rows -----------------------------------------------------------------------------------------------

    def _signature(self, others: Sequence[ChangedRows]) -> bytes:
        """What the rows are a function of."""
        digest = hashlib.sha256(repr(others).encode())
        for changes in self._collected:
            for each in changes.touched:
                digest.update(repr((each.add.path, len(each.replaced))).encode() + each.replaced.tobytes())
            digest.update(b"-" if changes.is_written is None else changes.is_written.tobytes())
        return digest.digest()

    def _rows(self, others: Sequence[ChangedRows]) -> Iterator[pa.RecordBatch]:
        for changes in self._collected:
            yield from self._rows_of(changes)
        yield from self._rows_of_files(others)

    def _net_rows(self, files: Sequence[ChangedRows]) -> Iterator[pa.RecordBatch]:
        from txlog.commands.row_change.net_changes import net_changes

        return net_changes(lambda: self._rows_of_files(files))

    def _rows_of_files(self, files: Sequence[ChangedRows]) -> Iterator[pa.RecordBatch]:
        return self._reader.batches(VersionChanges(self._state.version, 0, tuple(files)))

    def _write(self, rows: Iterator[pa.RecordBatch]) -> tuple[ChangeFile, ...]:
        task = TaskIdentity(self._job_id, next(self._task_ids))
        with self.writer(task) as writer:
            writer.write(DataStream(self._schema, rows))
            return self.sealed(task, writer)

    def _empty_file(self) -> ChangeFile:
        task = TaskIdentity(self._job_id, next(self._task_ids))
        with self.writer(task) as writer:
            writer.write_empty_file()
            return self.sealed(task, writer)[0]

    def _rows_of(self, changes: RowChanges) -> Iterator[pa.RecordBatch]:
        operation = changes.operation
        if changes.given is not None:
            for kind, batch in changes.given.changes():
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
        self, changes: RowChanges, each: Touched, is_updated: NDArray[np.bool_]
    ) -> Iterator[pa.RecordBatch]:
        """The rows that go, as they were, and as they come back where the operation makes new versions of them."""
        import numpy as np

        operation = changes.operation
        hits = each.hits.at(np.searchsorted(each.hits.positions, each.replaced))
        names = [field.name for field in operation.image_fields]
        for here, rows in changes.rows.at(each.add, each.replaced, self._state.schema.fields):
            at = np.searchsorted(each.replaced, here)
            comes_back = is_updated[at]
            for kind, mask in ((DELETE, ~comes_back), (UPDATE_PREIMAGE, comes_back)):
                if mask.any():
                    yield self._labelled(rows.filter(pa.array(mask)), kind)
            if operation.makes_images and comes_back.any():
                old = rows.filter(pa.array(comes_back)).select(names) if names else None
                images, _ = operation.images(old, hits.at(at[comes_back]))
                yield self._labelled(images, UPDATE_POSTIMAGE)

    def _labelled(self, rows: pa.RecordBatch, kind: str) -> pa.RecordBatch:
        kinds = pa.repeat(pa.scalar(kind, pa.string()), rows.num_rows)
        return pa.RecordBatch.from_arrays([*rows.columns, kinds], schema=self._schema)
