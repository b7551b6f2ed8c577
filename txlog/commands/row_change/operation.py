"""What one kind of row change means: `RowOperation`, and the rows of a file that it is about.

In: data files, looked into one by one. Out: positions, and new rows. An operation knows nothing of vectors, copies or
commits: `RowChange` makes those of what it says. What it finds in a file is a function of that file alone, dead rows
included, so that it holds on every version of the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from txlog.commands.row_change.file_rows import FileRows
from txlog.log.proposal_builder import ProposalBuilder
from txlog.protocol.actions import AddFile
from txlog.protocol.schema import Field
from txlog.result import WriteMetrics
from txlog.writer.committable import PendingFile

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

__all__ = [
    "BringsChanges",
    "BringsFiles",
    "DecidesByValues",
    "Hits",
    "LooksUpTogether",
    "RemembersFiles",
    "RowOperation",
    "Touched",
]


@dataclass(frozen=True, slots=True)
class Hits:
    """The rows of one data file that an operation matches.

    ``positions`` ascend and hold dead rows too. ``source_rows`` are, where the operation has a source, the rows of it
    that they match, or -1; ``is_replaced`` says which of them go (None: all); ``clauses`` is for the operation alone.
    """

    positions: NDArray[np.uint64]
    source_rows: NDArray[np.int64] | None = None
    is_replaced: NDArray[np.bool_] | None = None
    clauses: NDArray[np.int8] | None = None

    def at(self, places: Any) -> Hits:
        """Some of them: a mask, or places in ``positions``."""
        return Hits(
            self.positions[places],
            None if self.source_rows is None else self.source_rows[places],
            None if self.is_replaced is None else self.is_replaced[places],
            None if self.clauses is None else self.clauses[places],
        )


@dataclass(frozen=True, slots=True)
class Touched:
    """A live file with live rows that the operation matches, on one version.

    ``live`` marks those of ``hits`` that are not dead; ``replaced`` are the positions of live rows that go.
    """

    add: AddFile
    num_rows: int
    dead: NDArray[np.uint64]
    hits: Hits
    live: NDArray[np.bool_]
    replaced: NDArray[np.uint64]

    @property
    def live_source_rows(self) -> NDArray[np.int64]:
        """The rows of the source that a live row of this file matches."""
        assert self.hits.source_rows is not None
        return self.hits.source_rows[self.live]


class RowOperation(Protocol):
    """One delete, update, upsert or merge, bound to a table's definition. `look_up` is called by several threads."""

    name: str
    """What history says: ``"DELETE"``."""
    makes_images: bool
    """Whether replaced rows come back changed (an update); else they are gone."""
    replaces_rows: bool
    """Whether rows that the table has are written again with other values: by images, or by rows of the source."""
    image_fields: tuple[Field, ...]
    """The columns of the table that the new versions of rows are made of."""

    def declare_reads(self, builder: ProposalBuilder, files: Sequence[str]) -> None:
        """Say what it depends on, where it is not executed again; ``files`` are those that may hold a match."""

    def parameters(self) -> dict[str, str]:
        """commitInfo's ``operationParameters``, with Spark's names."""

    def metrics(self, done: WriteMetrics) -> dict[str, str]:
        """commitInfo's ``operationMetrics``, with Spark's names."""

    def candidates(self, files: pa.Table) -> NDArray[np.bool_]:
        """Which of these live files may hold a matching row. False only where no row can match."""

    def matches_whole_file(self, add: AddFile) -> bool:
        """Whether every row of the file certainly matches, and goes, so that nobody need look into it."""

    def look_up(self, rows: FileRows, add: AddFile) -> Hits:
        """The matching rows of one file."""

    def images(self, rows: pa.RecordBatch | None, hits: Hits) -> tuple[pa.RecordBatch, NDArray[np.int64] | None]:
        """The new versions of these rows, which are replaced, in the table's columns; none of a row that is deleted.

        With them the places in ``hits`` of the rows that they are versions of; None where they are those of all, in
        order. ``rows`` has `image_fields`, and is None where that is empty.
        """

    def inserted(self, touched: Sequence[Touched]) -> NDArray[np.bool_] | None:
        """Which rows of the source are written, given all matches on this version; None where there is no source."""

    @property
    def num_source_rows(self) -> int:
        """How many rows the source has; 0 where there is none."""

    @property
    def writes_every_source_row(self) -> bool:
        """Whether each row of the source is written whatever it matches, so that nobody need wait for the look-up."""

    def updated(self, touched: Sequence[Touched]) -> tuple[Sequence[NDArray[np.bool_]], NDArray[np.bool_]]:
        """For the change data feed: which of the ``replaced`` rows of each file come back changed, and which rows of
        the source these are then. The other rows are deleted, or inserted."""

    def source_batches(self, is_written: NDArray[np.bool_]) -> Iterator[pa.RecordBatch]:
        """Those rows of the source, in the table's columns."""

    def counts(self, touched: Sequence[Touched], is_written: NDArray[np.bool_] | None) -> tuple[int, int, int]:
        """How many rows that inserts, updates and deletes; what goes with whole files is counted apart."""


@runtime_checkable
class BringsChanges(Protocol):
    """A `RowOperation` whose source may be a changelog that is to be the table's change feed as it is."""

    brings_changes: bool
    """Whether it is; else the feed tells what happens to the rows of the table."""

    def changes(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The rows as they came, each batch with the feed's word for what happens to them."""


@runtime_checkable
class BringsFiles(Protocol):
    """A `RowOperation` whose source was written to files before, by tasks that did not know the table's rows."""

    source_files: tuple[PendingFile, ...]
    """Files with exactly the rows that `RowOperation.inserted` marks, which is the same on every version."""


@runtime_checkable
class DecidesByValues(Protocol):
    """A `RowOperation` whose new rows, and which rows go for them, depend on the rows that the table has."""

    num_decisions: int
    """Grows with each `decided` that changes what the rows of the source are written as."""

    def decided(self, touched: Sequence[Touched]) -> list[Touched]:
        """The same files, of whose matching rows those go that a new row replaces, or that are deleted.

        Called before `RowOperation.inserted`, at each execution.
        """


@runtime_checkable
class LooksUpTogether(Protocol):
    """A `RowOperation` whose look-up costs something besides what it reads, so that small files share one."""

    def look_up_all(self, rows: FileRows, adds: Sequence[AddFile]) -> list[Hits]:
        """The matching rows of each of these files, as `RowOperation.look_up` finds them."""


@runtime_checkable
class RemembersFiles(Protocol):
    """A `RowOperation` that knows files which earlier changes of the same handle looked into or wrote."""

    def recall(self, files: pa.Table, *, are_all_live: bool) -> dict[str, Hits]:
        """The matching rows of those of ``files`` that are known, by path, found without reading anything.

        ``are_all_live``: no other file is live on the newest version.
        """

    def keep(self) -> None:
        """Let later changes know the files that were looked into since the last call."""

    def keep_written(self, files: Sequence[PendingFile], is_written: NDArray[np.bool_]) -> None:
        """Let later changes know these files, which have the rows of the source that are marked, in order."""
