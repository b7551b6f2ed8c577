"""What one kind of row change means: `RowOperation`, and the matching rows of a file.

In: data files to look into. Out: positions, and new rows. An operation knows nothing about vectors, copies or commits:
`RowWork` derives these from its answers. What it finds in a file depends on that file alone, dead rows included, so it
holds on every version of the table.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from txlog.core.changes.tasks._file_rows import FileRows
from txlog.core.format.actions import AddFile, FileId
from txlog.core.format.arrow.arrays import from_numbers
from txlog.core.format.schema import Field
from txlog.core.predicates.terms.predicate import Predicate
from txlog.core.writing.committable import PendingFile
from txlog.result import WriteMetrics

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyroaring import BitMap64

    from txlog.core.reading import KeyPlaces


class MatchedRows(msgspec.Struct, frozen=True):
    """The rows of one data file that an operation matches.

    ``positions`` ascend and include dead rows. If the operation has a source, ``source_rows`` are the source rows that
    they match, or -1. ``is_replaced`` marks the rows to remove (None: all). Only the operation reads ``clauses``.
    ``values`` has columns of the matched rows that the lookup kept, so they need not be read again. ``pairs`` has each
    source row of the rows that match several, with their places in ``positions``, if these are not told by keys.
    """

    positions: NDArray[np.uint64]
    source_rows: NDArray[np.int64] | None = None
    is_replaced: NDArray[np.bool_] | None = None
    clauses: NDArray[np.int16] | None = None
    values: pa.RecordBatch | None = None
    pairs: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None

    def at(self, places: Any) -> MatchedRows:
        """A selection of them, without ``pairs``: by a mask, or by indices into ``positions``."""
        values = self.values
        if values is not None:
            values = values.take(from_numbers(np.flatnonzero(places) if places.dtype == bool else places))
        return MatchedRows(
            self.positions[places],
            None if self.source_rows is None else self.source_rows[places],
            None if self.is_replaced is None else self.is_replaced[places],
            None if self.clauses is None else self.clauses[places],
            values,
        )

    def in_files(self, counts: NDArray[np.int64]) -> Iterator[MatchedRows]:
        """The same for each of several files that were looked into together, without ``values``; ``counts`` are the
        numbers of their rows."""
        ends = np.cumsum(counts)
        cuts = np.searchsorted(self.positions, ends.astype(np.uint64)).tolist()
        for start, end, first in zip([0, *cuts[:-1]], cuts, (ends - counts).tolist(), strict=True):
            pairs = None
            if self.pairs is not None:
                begin, stop = np.searchsorted(self.pairs[0], np.array([start, end]))
                pairs = self.pairs[0][begin:stop] - start, self.pairs[1][begin:stop]
            yield MatchedRows(
                self.positions[start:end] - np.uint64(first),
                None if self.source_rows is None else self.source_rows[start:end],
                None if self.is_replaced is None else self.is_replaced[start:end],
                None if self.clauses is None else self.clauses[start:end],
                pairs=pairs,
            )

    @staticmethod
    def of_files(found: Sequence[MatchedRows]) -> MatchedRows:
        """What `RowOperation.images` needs of rows of several files, in order; not their positions."""

        def joined(parts: Sequence[NDArray[Any] | None]) -> NDArray[Any] | None:
            there = [part for part in parts if part is not None]
            return np.concatenate(there) if there else None

        return MatchedRows(
            np.concatenate([each.positions for each in found]),
            joined([each.source_rows for each in found]),
            joined([each.is_replaced for each in found]),
            joined([each.clauses for each in found]),
        )


class MatchedFile(msgspec.Struct, frozen=True):
    """A live file with matching live rows, on one version.

    ``live`` marks the ``hits`` that are not dead; ``replaced`` are the positions of live rows to remove.
    """

    add: AddFile
    num_rows: int
    dead: BitMap64
    hits: MatchedRows
    live: NDArray[np.bool_]
    replaced: NDArray[np.uint64]

    @property
    def live_source_rows(self) -> NDArray[np.int64]:
        """The rows of the source that a live row of this file matches."""
        assert self.hits.source_rows is not None
        found = self.hits.source_rows[self.live]
        if self.hits.pairs is None:
            return found
        places, source_rows = self.hits.pairs
        return np.concatenate([found, source_rows[self.live[places]]])


Images: TypeAlias = "tuple[pa.RecordBatch, NDArray[np.int64]]"
"""New versions of rows in the table's columns, and the places of the old versions in ``hits``."""


class KnownFiles(Protocol):
    """What a handle knows of the keys in data files that earlier changes looked into or wrote."""

    def recall(self, files: Sequence[FileId], *, are_all_live: bool) -> dict[FileId, KeyPlaces]:
        """The rows with the keys of a source in those of the ``files`` that are known, found without reading anything.

        ``are_all_live``: no other file is live on the newest version.
        """

    def find_kept(self, adds: Sequence[AddFile]) -> dict[FileId, KeyPlaces]:
        """The same in those of these files whose keys are kept beside the table, found without reading the files."""

    def keep(self) -> None:
        """Let later changes `recall` the files looked into since the last call."""

    def keep_beside(self) -> None:
        """After the commit: keep beside the table what later processes can `find_kept`."""


class RowOperation(ABC):
    """One delete, update, upsert or merge, bound to a table's definition.

    The default methods suit an operation that has no source and changes what its lookup finds.
    """

    name: str
    """The operation's name in the history: ``"DELETE"``."""
    makes_images: bool = False
    """Whether removed rows come back changed (an update), or not at all."""
    replaces_rows: bool = False
    """Whether table rows are rewritten with other values: as images, or as source rows."""
    image_fields: tuple[Field, ...] = ()
    """The table columns that new versions of rows are made from."""
    changed_fields: tuple[Field, ...] = ()
    """If there are any: new versions of rows differ from the old ones at most in these table columns, and `changes`
    computes just these."""
    fields_for_changes: tuple[Field, ...] = ()
    """The table columns that `changes` needs."""
    has_source: bool = False
    """Whether it has a source, some of whose rows it may write."""
    num_source_rows: int = 0
    """How many rows the source has; 0 if there is none."""
    writes_every_source_row: bool = False
    """Whether every source row is written whatever it matches, so writing need not wait for the lookup."""
    source_files: tuple[PendingFile, ...] | None = None
    """Files of source rows that other tasks wrote; the same on every version. They are those that `inserted` marks, but
    for the ones that `beside_files` has."""
    known: KnownFiles | None = None
    """What the handle knows of files from earlier changes; None if the operation has no use for that."""
    num_decisions: int = 0
    """Grows with each call of `decided` that changes what is written for the source rows."""

    # --- for the commit -------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def reads(self) -> Predicate | None:
        """The rows that the change depends on unless it reruns; None: every row of the table."""

    @abstractmethod
    def parameters(self) -> dict[str, str]:
        """commitInfo's ``operationParameters``, with Spark's names."""

    @abstractmethod
    def metrics(self, done: WriteMetrics) -> dict[str, str]:
        """commitInfo's ``operationMetrics``, with Spark's names."""

    @property
    def keeps_row_ids(self) -> bool:
        """Whether updated and copied rows keep their ids: files that other tasks wrote have none."""
        return self.source_files is None

    # --- which files ----------------------------------------------------------------------------------------

    @abstractmethod
    def candidates(self, files: pa.Table) -> NDArray[np.bool_]:
        """Which of these live files may hold a matching row. False only if no row can match."""

    def matches_whole_file(self, add: AddFile) -> bool:
        """Whether every row of the file is sure to match and be removed, so the file need not be read."""
        return False

    def hits_at(self, places: Mapping[FileId, KeyPlaces]) -> dict[FileId, MatchedRows]:
        """The matching rows of files in which `known` has found these; a file that is left out has to be read."""
        return {}

    # --- which rows -----------------------------------------------------------------------------------------

    @abstractmethod
    def look_up(self, rows: FileRows, add: AddFile) -> MatchedRows:
        """The matching rows of one file. Called by several threads."""

    def look_up_all(self, rows: FileRows, adds: Sequence[AddFile]) -> Iterable[MatchedRows]:
        """The matching rows of each of these small files, as `look_up` finds them. For lookups with a cost besides
        reading, which the files can share."""
        return (self.look_up(rows, add) for add in adds)

    def decided(self, touched: Sequence[MatchedFile], tombstones: Sequence[MatchedFile]) -> list[MatchedFile]:
        """The same files with only the matching rows that are replaced or deleted, which may depend on existing values.
        Called before `inserted`, at each execution.

        ``tombstones`` are files of deleted keys that hold a match; all their rows are dead.
        """
        return list(touched)

    def inserted(self, touched: Sequence[MatchedFile]) -> NDArray[np.bool_]:
        """Which source rows are written, given all matches on this version."""
        return np.zeros(self.num_source_rows, dtype=bool)

    def matched(self, touched: Sequence[MatchedFile]) -> NDArray[np.bool_]:
        """Which source rows match a live row of these files."""
        return np.zeros(self.num_source_rows, dtype=bool)

    @abstractmethod
    def updated(self, touched: Sequence[MatchedFile]) -> tuple[Sequence[NDArray[np.bool_]], NDArray[np.bool_]]:
        """For the change data feed: which ``replaced`` rows of each file come back changed, and which source rows are
        their new versions. All other rows are deleted or inserted."""

    @abstractmethod
    def counts(self, touched: Sequence[MatchedFile], is_written: NDArray[np.bool_] | None) -> tuple[int, int, int]:
        """The number of inserted, updated and deleted rows. Rows removed with whole files are counted elsewhere."""

    # --- new rows -------------------------------------------------------------------------------------------

    def images(self, rows: pa.RecordBatch | None, hits: MatchedRows) -> Iterator[Images]:
        """The new versions of these rows; a deleted row has none.

        ``rows`` has `image_fields`, and is None if that is empty.
        """
        return iter(())

    def changes(self, rows: pa.RecordBatch, hits: MatchedRows) -> Iterator[Images]:
        """`images` with only the columns of `changed_fields`. ``rows`` has `fields_for_changes`."""
        return iter(())

    def source_batches(self, is_written: NDArray[np.bool_]) -> Iterator[pa.RecordBatch]:
        """These source rows, in the table's columns."""
        return iter(())

    def beside_files(self, is_written: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which of the written source rows are not in `source_files`."""
        return is_written

    def tombstones(self) -> pa.RecordBatch | None:
        """The deleted keys to leave in the table, in its columns, after `decided`; None for none."""
        return None

    def changelog(self) -> Iterator[tuple[str, pa.RecordBatch]] | None:
        """The source rows if the change feed shows the source itself, each batch with its change type; None if the feed
        shows what happens to the table's rows."""
        return None

    # --- after the commit -----------------------------------------------------------------------------------

    def report(self) -> None:  # noqa: B027 - most operations tell nothing
        """Log what the caller of a change that is done should know beside its result."""

    def keep_written(self, files: Sequence[PendingFile], is_written: NDArray[np.bool_]) -> None:  # noqa: B027
        """Let `known` have these files, which hold the marked source rows, in order."""
