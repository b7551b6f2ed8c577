"""An upsert of whole rows in which source rows become new versions of the table rows that they replace.

In: the source rows whose keys some files may hold. Out: a `RowOperation` for these files. It keeps row ids, and the
change data feed records a replaced row and its new version as one update, without a look at other files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from txlog.core.changes.tasks import Images, MatchedFile, MatchedRows
from txlog.core.changes.tasks.operations._upsert import UpsertOptions, UpsertRows
from txlog.core.changes.tasks.operations._upsert_source import UpsertSource
from txlog.core.format.arrow.take_rows import taken_batches
from txlog.core.format.defined_table import DefinedTable

if TYPE_CHECKING:
    from numpy.typing import NDArray


class UpsertInPlace(UpsertRows):
    """Args:
    source: Rows of the source.
    upsert: What to do; whole rows are updated.
    table: The table's definition.
    elsewhere: Whether another task writes each source row. This one only deletes its rows with such a key.
    """

    def __init__(
        self, source: UpsertSource, upsert: UpsertOptions, table: DefinedTable, elsewhere: NDArray[np.bool_]
    ) -> None:
        super().__init__(source, upsert, None, table, None)
        self.makes_images = True
        self.image_fields = ()
        self._elsewhere = elsewhere
        self._rows = list(self.source_batches(np.ones(self.num_source_rows, dtype=bool)))

    def _hits(self, positions: NDArray[np.uint64], source_rows: NDArray[np.int64]) -> MatchedRows:
        return replace(super()._hits(positions, source_rows), clauses=np.zeros(len(positions), dtype=np.int8))

    def inserted(self, touched: Sequence[MatchedFile]) -> NDArray[np.bool_]:
        """Record in ``clauses`` which hits are replaced by a source row. This needs the hits of all files."""
        for each, is_updated in zip(touched, self.updated(touched)[0], strict=True):
            assert each.hits.clauses is not None
            each.hits.clauses[np.searchsorted(each.hits.positions, each.replaced)] = is_updated
        return super().inserted(touched)

    def updated(self, touched: Sequence[MatchedFile]) -> tuple[Sequence[NDArray[np.bool_]], NDArray[np.bool_]]:
        found, written = super().updated(touched)
        here = []
        for each, is_updated in zip(touched, found, strict=True):
            here.append(is_updated & ~self._elsewhere[self.of_hits(each)])
        return here, written

    def images(self, rows: pa.RecordBatch | None, hits: MatchedRows) -> Iterator[Images]:
        assert hits.clauses is not None
        assert hits.source_rows is not None
        at = np.flatnonzero(hits.clauses)
        if not len(at):
            return
        for first, batch in taken_batches(pa.Table.from_batches(self._rows), hits.source_rows[at]):
            yield batch, at[first : first + batch.num_rows]
