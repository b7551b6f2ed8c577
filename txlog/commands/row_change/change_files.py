"""Change files: what a version does to each row, in the words of the change data feed.

In: the final classification of the rows that an attempt changes, and all file actions of its proposal. Out: files below
``_change_data/`` and their ``cdc`` actions. A version needs none if its added and removed files alone show the same
changes: rows that were appended, and files that were removed as a whole. If a deletion vector changes, or comes or goes
with its file, a copy holds rows that stay, or a row is updated, the version has all its changes in change files.
PROTOCOL.md, "Add CDC File", "Change Data Files".

A transaction may change rows that it wrote or copied itself. Then the changes of its operations do not add up to the
change of the version, so the net change is found from the files instead: a row that changed is a delete and an insert.
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

from txlog.commands.row_change.file_rows import FileRows
from txlog.commands.row_change.operation import BringsChanges, RowOperation, Touched
from txlog.commit.open_table import OpenTable
from txlog.errors import CorruptLogError, NotFoundError
from txlog.log.changes import incompatible_change
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
from txlog.protocol.changed_rows import ChangedRows, rows_between
from txlog.protocol.paths import canonical_path, encode_path
from txlog.protocol.schema import Struct, to_arrow
from txlog.read.change_rows import ChangeReader, VersionChanges
from txlog.read.scan_plan import select
from txlog.util import ambient
from txlog.util.logs import logger
from txlog.writer.committable import ChangeFile, PendingFile
from txlog.writer.input import DataStream
from txlog.writer.task_committer import seal_written
from txlog.writer.task_writer import TaskWriter
from txlog.writer.unsent_files import UnsentFiles
from txlog.writer.write_plan import TaskIdentity, WritePlan

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ChangeFiles", "RowChanges"]


class RowChanges(msgspec.Struct, frozen=True):
    """What one operation does to rows of files that also hold other rows.

    Attributes:
        operation: The operation.
        rows: Reads the files.
        touched: The files with rows that are removed.
        is_written: Which rows of the operation's source are written; None if it has no source.
        marked: The files of ``touched`` that stay, with their new vectors.
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
        """The operation, if the change feed shows the rows of its source as they came."""
        operation = self.operation
        return operation if isinstance(operation, BringsChanges) and operation.brings_changes else None

    @property
    def need_files(self) -> bool:
        """Whether added and removed files alone would not show the same changes."""
        if self.given is not None:  # a row that leaves the table as it was is shown too
            return True
        return bool(self.touched) and (
            self.operation.replaces_rows or bool(self.marked) or bool(self.new_files) or self.is_written is not None
        )


class ChangeFiles:
    """Collects what a proposal does to rows, and writes its change files. One thread.

    ``unsent`` owns the files. The files of an earlier attempt are named again if they hold exactly the same changes.
    """

    def __init__(
        self, open_table: OpenTable, state: TableState, unsent: UnsentFiles, *, is_redefined: bool = False
    ) -> None:
        self._is_redefined = is_redefined  # the columns of the version cannot show the rows that were there before
        self._store = open_table.store
        self._state = state
        self._unsent = unsent
        fields = (*state.schema.fields, CHANGE_TYPE)
        self._schema = to_arrow(Struct(fields))
        plan = WritePlan.of(
            state.metadata, table=open_table.uri, read_version=state.version, schema=state.schema, rows="old"
        )
        self._plan = replace(
            plan,
            schema=Struct(fields),
            folder=CHANGE_DATA_FOLDER,
            file_kind="cdc",
            # Readers never skip change files by statistics.
            configuration={**plan.configuration, "delta.dataSkippingNumIndexedCols": "0"},
        )
        self._reader = ChangeReader(self._store, select(open_table.uri, state), fields, None)
        self._job_id = ambient.uuid4()
        self._task_ids = itertools.count()
        self._collected: list[RowChanges] = []
        self._is_net = False  # an operation changed rows that an earlier one wrote or copied
        self._is_required = False
        self._written: tuple[bytes, tuple[ChangeFile, ...]] | None = None
        self.seconds = 0.0
        """The cost of the last write of change files."""

    @classmethod
    def of(
        cls, open_table: OpenTable, state: TableState, unsent: UnsentFiles, new_metadata: Metadata | None = None
    ) -> ChangeFiles | None:
        """None for a table whose change feed is off. The files have the columns of ``new_metadata``, if it is given."""
        before = state
        if new_metadata is not None:
            state = state.defined_as(new_metadata, None)
        if not state.properties.enable_change_data_feed:
            return None
        is_redefined = new_metadata is not None and (
            before.partition_columns != state.partition_columns
            or incompatible_change(before.schema, state.schema) is not None
        )
        return cls(open_table, state, unsent, is_redefined=is_redefined)

    def begin(self) -> None:
        """Forget what an earlier attempt did to rows."""
        self._collected = []
        self._is_net = False
        self._is_required = False

    def require(self) -> None:
        """Write a change file even if nothing changes: not every reader knows a vector on a new file for what it is."""
        self._is_required = True

    def collect(self, changes: RowChanges, builder: ProposalBuilder) -> None:
        """Call before ``changes`` are put into ``builder``."""
        self._is_net |= any(builder.is_new(each.add) for each in changes.touched)
        self._collected.append(changes)

    def finish(self, builder: ProposalBuilder) -> int:
        """Call last: add the change files of everything that ``builder`` does to it. Returns their number.

        Raises what writing files and reading changed files raises. Files that the operation itself need not read may
        be gone or damaged: a warning then says that the version has no change files.
        """
        if self._is_required or any(changes.need_files for changes in self._collected):
            return self._finish(builder)
        # deltalake's load_cdf takes the rows that a vector marks for those that come or go with their file.
        has_vectors = any(remove.deletion_vector is not None for remove in builder.removes) or any(
            add.deletion_vector is not None for add in builder.adds
        )
        if self._is_redefined or not has_vectors:
            return 0
        try:
            return self._finish(builder)
        except (NotFoundError, CorruptLogError) as error:
            logger.warning(
                "the version that follows v%s has no change files, since files with deletion vectors that it removes or"
                " brings back cannot be read; deltalake will read wrong changes of it: %s",
                self._state.version,
                error,
            )
            return 0

    def _finish(self, builder: ProposalBuilder) -> int:
        files = self.write(builder)
        if not files and (builder.adds or builder.removes):
            # A version without a change file: readers take the rows of added and removed files for its changes.
            files = (self._empty_file(),)
        builder.change_data(*(file.to_cdc() for file in files))
        return len(files)

    def write(self, builder: ProposalBuilder) -> tuple[ChangeFile, ...]:
        """The change files of everything that ``builder`` does, even where they are not needed; none if nothing
        changes.

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
        """A writer for rows that the caller brings: the table's columns and ``_change_type``. End it with `sealed`."""
        return TaskWriter(self._store.files, self._plan, task)

    def sealed(self, task: TaskIdentity, writer: TaskWriter) -> tuple[ChangeFile, ...]:
        """The change files of a `writer`, durable. Raises as ``seal_written``."""
        files = seal_written(self._store.files, self._plan, task, writer).files
        self._unsent.own(file.path for file in files)
        return tuple(ChangeFile(each.path, each.size_bytes, each.num_rows, each.partition_values) for each in files)

    # --- what else the proposal does ------------------------------------------------------------------------

    def _others(self, builder: ProposalBuilder) -> list[ChangedRows]:
        """The rows that come and go with files and are not among the collected changes. If collected changes touch rows
        that were changed again: all rows that come and go."""
        adds = {canonical_path(add.path): add for add in builder.adds}
        removes = {canonical_path(remove.path): remove for remove in builder.removes}
        covered_new, covered_vectors, covered_gone = self._covered()
        self._is_net |= any(path not in adds or adds[path].deletion_vector is not None for path in covered_new)
        if self._is_net:
            covered_new, covered_vectors, covered_gone = set(), {}, set()
        adds = {path: add for path, add in adds.items() if path not in covered_new}
        found: list[ChangedRows] = []
        for path in [*removes, *(path for path in adds if path not in removes)]:
            remove = removes.get(path)
            if path in covered_gone:
                continue
            if path in covered_vectors and remove is not None:
                remove = replace(remove, deletion_vector=covered_vectors[path])
            found += rows_between(remove, adds.get(path))
        return found

    def _covered(self) -> tuple[set[str], dict[str, DeletionVectorDescriptor], set[str]]:
        """What the collected changes cover: new files, files up to a vector, and removed files."""
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
        """A digest of everything that determines the rows."""
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
        """The rows that are removed, as they were, and their new versions where the operation makes them."""
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
                for images, _ in operation.images(old, hits.at(at[comes_back])):
                    yield self._labelled(images, UPDATE_POSTIMAGE)

    def _labelled(self, rows: pa.RecordBatch, kind: str) -> pa.RecordBatch:
        kinds = pa.repeat(pa.scalar(kind, pa.string()), rows.num_rows)
        return pa.RecordBatch.from_arrays([*rows.columns, kinds], schema=self._schema)
