"""`Curve`: where each row of some files is on one Hilbert curve, and which part of the curve that is.

In: the columns to cluster by, and a sample of their values in all of the files. Out: for a batch of rows, the pieces
for each part. Parts have about the same number of rows: rows that have the same place on the curve, as in a column with
few values, are spread over several parts if one does not hold them. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa

from txlog.core.format.clustering import named_columns
from txlog.core.format.properties import path_text
from txlog.core.format.schema import Struct, type_name, type_to_arrow
from txlog.core.maintenance.rewriting._hilbert import Ranks, bits_for, can_rank, hilbert_distance, stable_order
from txlog.core.predicates.terms.predicate import resolve
from txlog.core.wording import argument
from txlog.errors import InvalidInputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_COLUMNS_MAX = 8


class ClusterColumns(msgspec.Struct, frozen=True):
    """Which columns a table is clustered by: paths into its schema, as their names and as fields."""

    paths: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, given: Any, schema: Struct, partition_columns: tuple[str, ...]) -> ClusterColumns:
        """Raises ``InvalidInputError`` for a column that does not exist, is a partition column or has no order."""
        asked = named_columns("zorder_by", given, schema)
        if not 0 < len(asked) <= _COLUMNS_MAX:
            raise InvalidInputError(f"{argument('zorder_by')} takes 1 to {_COLUMNS_MAX} columns, not {len(asked)}")
        paths = []
        for each in asked:
            path, data_type = resolve(each, schema)
            name = path_text(path)
            if path[0] in partition_columns:
                raise InvalidInputError(
                    f"{argument('zorder_by')} names {name}, a partition column, which has one value in each file:"
                    " leave it out"
                )
            if not can_rank(type_to_arrow(data_type)):
                raise InvalidInputError(
                    f"{argument('zorder_by')} names {name}, whose type {type_name(data_type)} has no order: leave it"
                    " out"
                )
            paths.append(path)
        if len(set(paths)) < len(paths):
            raise InvalidInputError(f"{argument('zorder_by')} names a column twice: {', '.join(map(path_text, asked))}")
        return cls(tuple(paths))

    @property
    def names(self) -> list[str]:
        """The names in SQL form: backticks around a name with a dot."""
        return [path_text(path) for path in self.paths]

    def values(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """The columns of a batch; a field of a null struct is null."""
        found = []
        for path in self.paths:
            array = batch.column(path[0])
            for name in path[1:]:
                array = pa.compute.struct_field(array, [name])  # a bare ".x" would be the path to x
            found.append(array)
        return found


class Curve(msgspec.Struct, frozen=True):
    """What a task needs to place a row: the ranks of each column, and where parts begin. Can be pickled.

    ``cuts`` ascend. A place that occurs several times among them fills several parts.
    """

    columns: ClusterColumns
    ranks: tuple[Ranks, ...]
    cuts: NDArray[np.uint64]

    @classmethod
    def of(cls, columns: ClusterColumns, sample: Sequence[pa.Array], parts: int) -> Curve:
        """The curve through the values of ``sample``, which has an array for each column, in ``parts`` parts."""
        bits = bits_for(len(sample))
        ranks = tuple(Ranks.of(column, bits) for column in sample)
        here = [each.of_values(values) for each, values in zip(ranks, sample, strict=True)]
        known = np.sort(hilbert_distance(np.array(here), bits))
        cuts = known[(np.arange(1, parts) * len(known)) // parts] if len(known) else np.empty(0, np.uint64)
        return cls(columns, ranks, cuts)

    @property
    def num_parts(self) -> int:
        return len(self.cuts) + 1

    def distances(self, batch: pa.RecordBatch) -> NDArray[np.uint64]:
        """The place of each row. ``batch`` has the table's columns by their names."""
        ranks = [each.of_values(values) for each, values in zip(self.ranks, self.columns.values(batch), strict=True)]
        return hilbert_distance(np.array(ranks), bits_for(len(ranks)))

    def parts(self, distances: NDArray[np.uint64], numbers: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The part of each row, ascending with the distance; the rows' numbers spread those of one place."""
        last = np.searchsorted(self.cuts, distances, side="right")
        if (self.cuts[1:] > self.cuts[:-1]).all():
            return last
        ties = last - np.searchsorted(self.cuts, distances, side="left")
        spread = (numbers % np.maximum(ties, 1).astype(np.uint64)).astype(np.int64)
        found: NDArray[np.int64] = last - spread
        return found

    def pieces(self, batch: pa.RecordBatch, numbers: NDArray[np.uint64]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The rows of each part, with two more columns: their numbers and their distances."""
        distances = self.distances(batch)
        parts = self.parts(distances, numbers)
        order = stable_order(parts.astype(np.uint64))
        columns = [*batch.columns, pa.array(numbers), pa.array(distances)]
        names = [str(number) for number in range(len(columns))]
        rows = pa.RecordBatch.from_arrays(columns, names=names).take(pa.array(order))
        counts = np.bincount(parts)
        found = np.flatnonzero(counts)
        ends = np.cumsum(counts)[found]
        for part, end, count in zip(found.tolist(), ends.tolist(), counts[found].tolist(), strict=True):
            yield part, rows.slice(end - count, count)
