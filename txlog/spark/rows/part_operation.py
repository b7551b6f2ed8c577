"""The operation of a row change, restricted to one part: it changes rows of the part's files and adds no source rows.

In: an operation bound to the source rows whose keys the part's files may hold. Out: a ``RowOperation`` for these
files. The driver decides which source rows are added. If the table has row ids or a change data feed, each part of an
upsert itself writes the source rows that replace its rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from txlog.arrow.taken import taken_batches
from txlog.commands.row_change.file_rows import FileRows
from txlog.commands.row_change.operation import Hits, Images, RowOperation, Touched
from txlog.log.proposal_builder import ProposalBuilder
from txlog.protocol.actions import AddFile
from txlog.protocol.schema import Field
from txlog.result import WriteMetrics

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["PartOperation", "UpsertInPlace"]


class PartOperation:
    """An operation on a part of the table that adds no source rows."""

    num_source_rows = 0
    writes_every_source_row = False

    def __init__(self, inner: RowOperation) -> None:
        self._inner = inner
        self._is_written: NDArray[np.bool_] | None = None
        self.touched: Sequence[Touched] = ()
        self.name: str = inner.name
        self.makes_images: bool = inner.makes_images
        self.replaces_rows: bool = inner.replaces_rows
        self.image_fields: tuple[Field, ...] = inner.image_fields

    def declare_reads(self, builder: ProposalBuilder, files: Sequence[str]) -> None:
        self._inner.declare_reads(builder, files)

    def parameters(self) -> dict[str, str]:
        return self._inner.parameters()

    def metrics(self, done: WriteMetrics) -> dict[str, str]:
        return self._inner.metrics(done)

    def candidates(self, files: pa.Table) -> NDArray[np.bool_]:
        return self._inner.candidates(files)

    def matches_whole_file(self, add: AddFile) -> bool:
        return self._inner.matches_whole_file(add)

    def look_up(self, rows: FileRows, add: AddFile) -> Hits:
        return self._inner.look_up(rows, add)

    def images(self, rows: pa.RecordBatch | None, hits: Hits) -> Iterator[Images]:
        return self._inner.images(rows, hits)

    def updated(self, touched: Sequence[Touched]) -> tuple[Sequence[NDArray[np.bool_]], NDArray[np.bool_]]:
        return self._inner.updated(touched)

    def inserted(self, touched: Sequence[Touched]) -> NDArray[np.bool_] | None:
        self.touched = touched
        self._is_written = self._inner.inserted(touched)
        return None

    def source_batches(self, is_written: NDArray[np.bool_]) -> Iterator[pa.RecordBatch]:
        return iter(())

    def counts(self, touched: Sequence[Touched], is_written: NDArray[np.bool_] | None) -> tuple[int, int, int]:
        _, updated, deleted = self._inner.counts(touched, self._is_written)
        return 0, updated, deleted


class UpsertInPlace(PartOperation):
    """An upsert of whole rows in which source rows become new versions of the table rows that they replace.

    Args:
        inner: The upsert, bound to the part's source rows.
        elsewhere: Whether another part writes each source row. This part only deletes its rows with such a key.
    """

    def __init__(self, inner: RowOperation, elsewhere: NDArray[np.bool_]) -> None:
        super().__init__(inner)
        self.makes_images = True
        self.image_fields = ()
        self._elsewhere = elsewhere
        self._rows = list(inner.source_batches(np.ones(inner.num_source_rows, dtype=bool)))

    def look_up(self, rows: FileRows, add: AddFile) -> Hits:
        hits = super().look_up(rows, add)
        return replace(hits, clauses=np.zeros(len(hits.positions), dtype=np.int8))

    def inserted(self, touched: Sequence[Touched]) -> NDArray[np.bool_] | None:
        """Record in ``clauses`` which hits are replaced by a source row. This needs the hits of all files."""
        super().inserted(touched)
        for each, is_updated in zip(touched, self.updated(touched)[0], strict=True):
            assert each.hits.clauses is not None
            each.hits.clauses[np.searchsorted(each.hits.positions, each.replaced)] = is_updated
        return None

    def updated(self, touched: Sequence[Touched]) -> tuple[Sequence[NDArray[np.bool_]], NDArray[np.bool_]]:
        found, written = super().updated(touched)
        here = []
        for each, is_updated in zip(touched, found, strict=True):
            assert each.hits.source_rows is not None
            source_rows = each.hits.source_rows[np.searchsorted(each.hits.positions, each.replaced)]
            here.append(is_updated & ~self._elsewhere[source_rows])
        return here, written

    def images(self, rows: pa.RecordBatch | None, hits: Hits) -> Iterator[Images]:
        assert hits.clauses is not None
        assert hits.source_rows is not None
        at = np.flatnonzero(hits.clauses)
        if not len(at):
            return
        for first, batch in taken_batches(pa.Table.from_batches(self._rows), hits.source_rows[at]):
            yield batch, at[first : first + batch.num_rows]
