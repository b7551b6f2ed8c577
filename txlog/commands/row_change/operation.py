"""What one kind of row change means: `RowOperation`, and the matching rows of a file.

In: data files, looked into one by one. Out: positions, and new rows. An operation knows nothing of vectors, copies or
commits: `RowChange` derives those from its answers. What it finds in a file depends on that file alone, dead rows
included, so that it holds on every version of the table.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import msgspec
import numpy as np

from txlog.arrow.arrays import from_numbers
from txlog.commands.row_change.file_rows import FileRows
from txlog.log.proposal_builder import ProposalBuilder
from txlog.protocol.actions import AddFile, FileId
from txlog.protocol.schema import Field
from txlog.result import WriteMetrics
from txlog.writer.committable import PendingFile

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray
    from pyroaring import BitMap64

__all__ = [
    "BringsChanges",
    "BringsFiles",
    "DecidesByValues",
    "Hits",
    "Images",
    "KeepsTombstones",
    "LooksUpTogether",
    "RemembersFiles",
    "RowOperation",
    "Touched",
]


class Hits(msgspec.Struct, frozen=True):
    """The rows of one data file that an operation matches.

    ``positions`` ascend and include dead rows. If the operation has a source, ``source_rows`` are the source rows that
    they match, or -1. ``is_replaced`` marks those that are removed (None: all). Only the operation reads ``clauses``.
    ``values`` has columns of the matched rows that the look-up kept, so that they need not be read again.
    """

    positions: NDArray[np.uint64]
    source_rows: NDArray[np.int64] | None = None
    is_replaced: NDArray[np.bool_] | None = None
    clauses: NDArray[np.int16] | None = None
    values: pa.RecordBatch | None = None

    def at(self, places: Any) -> Hits:
        """A selection of them: by a mask, or by indices into ``positions``."""
        values = self.values
        if values is not None:
            values = values.take(from_numbers(np.flatnonzero(places) if places.dtype == bool else places))
        return Hits(
            self.positions[places],
            None if self.source_rows is None else self.source_rows[places],
            None if self.is_replaced is None else self.is_replaced[places],
            None if self.clauses is None else self.clauses[places],
            values,
        )


class Touched(msgspec.Struct, frozen=True):
    """A live file with live rows that the operation matches, on one version.

    ``live`` marks the ``hits`` that are not dead; ``replaced`` are the positions of live rows that are removed.
    """

    add: AddFile
    num_rows: int
    dead: BitMap64
    hits: Hits
    live: NDArray[np.bool_]
    replaced: NDArray[np.uint64]

    @property
    def live_source_rows(self) -> NDArray[np.int64]:
        """The rows of the source that a live row of this file matches."""
        assert self.hits.source_rows is not None
        return self.hits.source_rows[self.live]


Images: TypeAlias = "tuple[pa.RecordBatch, NDArray[np.int64]]"
"""New versions of rows in the table's columns, and the places in ``hits`` of the rows that they are versions of."""


class RowOperation(Protocol):
    """One delete, update, upsert or merge, bound to a table's definition. `look_up` is called by several threads."""

    name: str
    """The operation's name in the history: ``"DELETE"``."""
    makes_images: bool
    """Whether removed rows come back changed (an update), or not at all."""
    replaces_rows: bool
    """Whether rows of the table are written again with other values: as images, or as rows of the source."""
    image_fields: tuple[Field, ...]
    """The columns of the table from which new versions of rows are made."""

    def declare_reads(self, builder: ProposalBuilder, files: Sequence[str]) -> None:
        """Declare what the change depends on, if it is not executed again; ``files`` are those that may hold a
        match."""

    def parameters(self) -> dict[str, str]:
        """commitInfo's ``operationParameters``, with Spark's names."""

    def metrics(self, done: WriteMetrics) -> dict[str, str]:
        """commitInfo's ``operationMetrics``, with Spark's names."""

    def candidates(self, files: pa.Table) -> NDArray[np.bool_]:
        """Which of these live files may hold a matching row. False only where no row can match."""

    def matches_whole_file(self, add: AddFile) -> bool:
        """Whether every row of the file certainly matches and is removed, so that the file need not be read."""

    def look_up(self, rows: FileRows, add: AddFile) -> Hits:
        """The matching rows of one file."""

    def images(self, rows: pa.RecordBatch | None, hits: Hits) -> Iterator[Images]:
        """The new versions of these rows; a deleted row has none.

        ``rows`` has `image_fields`, and is None if that is empty.
        """

    def inserted(self, touched: Sequence[Touched]) -> NDArray[np.bool_] | None:
        """Which rows of the source are written, given all matches on this version; None if there is no source."""

    @property
    def num_source_rows(self) -> int:
        """How many rows the source has; 0 if there is none."""

    @property
    def writes_every_source_row(self) -> bool:
        """Whether every row of the source is written whatever it matches, so that writing need not wait for the
        look-up."""

    def updated(self, touched: Sequence[Touched]) -> tuple[Sequence[NDArray[np.bool_]], NDArray[np.bool_]]:
        """For the change data feed: which of the ``replaced`` rows of each file come back changed, and which rows of
        the source are their new versions. All other rows are deleted or inserted."""

    def source_batches(self, is_written: NDArray[np.bool_]) -> Iterator[pa.RecordBatch]:
        """Those rows of the source, in the table's columns."""

    def counts(self, touched: Sequence[Touched], is_written: NDArray[np.bool_] | None) -> tuple[int, int, int]:
        """The number of inserted, updated and deleted rows. Rows that go with whole files are counted elsewhere."""


# An operation names the roles below as base classes. To ask whether an object fits a protocol, Python looks for every
# member, each time: for a small upsert that is a noticeable part of its work.


class BringsChanges(ABC):
    """A `RowOperation` whose source may be a changelog that goes to the table's change feed unchanged."""

    brings_changes: bool
    """Whether it does; otherwise the feed shows what happens to the rows of the table."""

    @abstractmethod
    def changes(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The rows as they came, each batch with its change type in the feed."""


class BringsFiles:
    """A `RowOperation` whose source was written to files before, by tasks that did not know the table's rows."""

    source_files: tuple[PendingFile, ...]
    """Files with exactly the rows that `RowOperation.inserted` marks, which is the same on every version."""


class DecidesByValues(ABC):
    """A `RowOperation` that decides by the values of existing rows which rows it writes and which it removes."""

    num_decisions: int
    """Grows with each call of `decided` that changes what is written for the rows of the source."""

    @abstractmethod
    def decided(self, touched: Sequence[Touched]) -> list[Touched]:
        """The same files; of their matching rows only those that a new row replaces, or that are deleted.

        Called before `RowOperation.inserted`, at each execution.
        """


class KeepsTombstones(ABC):
    """A `RowOperation` that may leave the keys of deleted rows in the table, as ``tombstones`` says, and heeds them."""

    @abstractmethod
    def see_tombstones(self, touched: Sequence[Touched]) -> None:
        """Files of tombstones, all rows of which are dead, that hold a match. Called before `DecidesByValues.decided`,
        at each execution."""

    @abstractmethod
    def tombstones(self) -> pa.RecordBatch | None:
        """The rows to leave, in the table's columns, after `DecidesByValues.decided`; None for none."""


class LooksUpTogether(ABC):
    """A `RowOperation` whose look-up has a cost besides reading, which small files share."""

    @abstractmethod
    def look_up_all(self, rows: FileRows, adds: Sequence[AddFile]) -> list[Hits]:
        """The matching rows of each of these files, as `RowOperation.look_up` finds them."""


class RemembersFiles(ABC):
    """A `RowOperation` that knows files which earlier changes of the same handle looked into or wrote."""

    @abstractmethod
    def recall(self, files: pa.Table, *, are_all_live: bool) -> dict[FileId, Hits]:
        """The matching rows of those of ``files`` that are known, found without reading anything.

        ``are_all_live``: no other file is live on the newest version.
        """

    @abstractmethod
    def keep(self) -> None:
        """Let later changes know the files that were looked into since the last call."""

    @abstractmethod
    def keep_written(self, files: Sequence[PendingFile], is_written: NDArray[np.bool_]) -> None:
        """Let later changes know these files, which have the rows of the source that are marked, in order."""
