"""Rewrites a bin so that rows near each other in several columns share files, in the order of a Hilbert curve.

In: a `Bin`, the columns to cluster by, and a folder for data that does not fit into memory. Out: a `RewrittenBin`.

    sample of keys -> ranks -> distance of each row -> parts of the curve, on disk -> each sorted -> files

Two passes over the files: the first takes a sample of the key columns, the second sends every row to its part of the
curve. A part is small enough to sort in memory. Each part also records where its rows came from, so a row that another
writer deletes meanwhile can be found in the new files.

One task clusters a whole bin, also its spill to disk: to spread a bin over tasks, workers would have to exchange its
rows, from which threads that share one disk gain nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa

from txlog.errors import InvalidInputError
from txlog.expressions.predicates import resolve
from txlog.protocol.clustering import named_columns
from txlog.protocol.properties import path_text
from txlog.protocol.schema import Struct, type_name, type_to_arrow
from txlog.protocol.statistics_read import num_records
from txlog.tasks.file_rows import FileRows
from txlog.tasks.rewriting.bin import Bin
from txlog.tasks.rewriting.hilbert import Ranks, bits_for, can_rank, hilbert_distance
from txlog.util.wording import argument

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ClusterColumns", "Clustering"]

_SAMPLE_ROWS = 200_000
_SAMPLE_FILES = 8
_PART_BYTES = 48 << 20
_PARTS_MAX = 512  # limits how many files are open at a time
_COLUMNS_MAX = 8


class ClusterColumns(msgspec.Struct, frozen=True):
    """Which columns a table is clustered by: paths into its schema, as their names and as fields."""

    paths: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, given: Any, schema: Struct, partition_columns: tuple[str, ...]) -> ClusterColumns:
        """Raises ``InvalidInputError`` for a column that does not exist, is a partition column or has no order."""
        asked = named_columns(given, schema)
        if not 0 < len(asked) <= _COLUMNS_MAX:
            raise InvalidInputError(f"{argument('cluster_by')} takes 1 to {_COLUMNS_MAX} columns, not {len(asked)}")
        paths = []
        for each in asked:
            path, data_type = resolve(each, schema)
            name = path_text(path)
            if path[0] in partition_columns:
                raise InvalidInputError(
                    f"{argument('cluster_by')} names {name}, a partition column, which has one value in each file:"
                    " leave it out"
                )
            if not can_rank(type_to_arrow(data_type)):
                raise InvalidInputError(
                    f"{argument('cluster_by')} names {name}, whose type {type_name(data_type)} has no order: leave it"
                    " out"
                )
            paths.append(path)
        if len(set(paths)) < len(paths):
            raise InvalidInputError(
                f"{argument('cluster_by')} names a column twice: {', '.join(map(path_text, asked))}"
            )
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
                array = pa.compute.struct_field(array, name)
            found.append(array)
        return found


class Clustering(msgspec.Struct):
    """Orders the rows of one bin. Used by one thread, once."""

    rows: FileRows
    schema: Struct
    columns: ClusterColumns
    folder: Path
    _ranks: list[Ranks] = msgspec.field(default_factory=list)

    def ordered(self, each: Bin, live_rows: Iterator[pa.RecordBatch]) -> Iterator[tuple[pa.RecordBatch, NDArray[Any]]]:
        """The rows in curve order; each batch with its rows' numbers in ``live_rows``."""
        sample, rows = self._sample(each)
        bits = bits_for(len(sample))
        self._ranks = [Ranks.of(column, bits) for column in sample]
        size = self._bytes(each, rows)
        parts = min(_PARTS_MAX, size // _PART_BYTES + 1)
        if parts == 1:
            batches, first = list(live_rows), 0
            # One batch, unless it cannot hold all the text: rows may be larger than estimated.
            for batch in pa.Table.from_batches(batches).combine_chunks().to_batches() if batches else ():
                numbers, first = np.arange(first, first + batch.num_rows), first + batch.num_rows
                yield from self._sorted(batch, numbers, self._distances(batch))
            return
        ranks = [ranks.of_values(values) for ranks, values in zip(self._ranks, sample, strict=True)]
        distances = np.sort(hilbert_distance(np.array(ranks), bits))
        cuts = np.unique(distances[(np.arange(1, parts) * len(distances)) // parts])
        spilled = self._spill(live_rows, cuts)
        for path in spilled:
            with pa.memory_map(str(path)) as source:
                table = pa.ipc.open_stream(source).read_all().combine_chunks()
            path.unlink()
            for batch in table.to_batches():
                kept = batch.select(range(batch.num_columns - 2))
                numbers, found = (batch.column(-2).to_numpy(), batch.column(-1).to_numpy())
                yield from self._sorted(kept, numbers, found)

    def _distances(self, batch: pa.RecordBatch) -> NDArray[np.uint64]:
        ranks = [ranks.of_values(values) for ranks, values in zip(self._ranks, self.columns.values(batch), strict=True)]
        return hilbert_distance(np.array(ranks), bits_for(len(ranks)))

    def _sorted(
        self, batch: pa.RecordBatch, numbers: NDArray[Any], distances: NDArray[np.uint64]
    ) -> Iterator[tuple[pa.RecordBatch, NDArray[Any]]]:
        order = np.argsort(distances, kind="stable")
        yield batch.take(pa.array(order)), numbers[order]

    def _sample(self, each: Bin) -> tuple[list[pa.Array], int]:
        """Every n-th row of the key columns, dead rows included, and the total number of rows."""
        names = dict.fromkeys(path[0] for path in self.columns.paths)
        fields = tuple(member for member in self.schema.fields if member.name in names)
        reader = self.rows.reader(fields)
        total = sum(self.rows.count(add) for add in each.files)
        step = max(1, total // _SAMPLE_ROWS)
        found: list[list[pa.Array]] = [[] for _ in self.columns.paths]
        for add in each.files:
            for positions, batch in reader.batches(add, with_dead_rows=True):
                taken = pa.array(np.flatnonzero(positions % step == 0))
                named = pa.RecordBatch.from_arrays(batch.columns, names=[member.name for member in fields])
                for columns, column in zip(found, self.columns.values(named), strict=True):
                    columns.append(column.take(taken))
        kinds = [type_to_arrow(resolve(path, self.schema)[1]) for path in self.columns.paths]
        return [
            pa.concat_arrays([pa.array([], kind), *arrays]) for kind, arrays in zip(kinds, found, strict=True)
        ], total

    def _bytes(self, each: Bin, rows: int) -> int:
        """An estimate of the rows' size in memory, from the first rows of some files: older files may lack columns."""
        size = counted = 0.0
        for add in each.files[:: -(-len(each.files) // _SAMPLE_FILES)]:
            for _, batch in self.rows.live(add):
                weight = num_records(add.stats) or batch.num_rows
                size += batch.nbytes / batch.num_rows * weight
                counted += weight
                break
        return int(size / max(counted, 1) * rows)

    def _spill(self, live_rows: Iterator[pa.RecordBatch], cuts: NDArray[np.uint64]) -> Sequence[Path]:
        """Write each row to the file for its part of the curve, with its number and its distance."""
        paths = [self.folder / f"part-{number:04}.arrow" for number in range(len(cuts) + 1)]
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        writers: dict[int, pa.RecordBatchStreamWriter] = {}
        first = 0
        with ExitStack() as stack:
            for batch in live_rows:
                distances = self._distances(batch)
                parts = np.searchsorted(cuts, distances, side="right")
                order = np.argsort(parts, kind="stable")
                numbers = pa.array(np.arange(first, first + batch.num_rows))
                columns = [*batch.columns, numbers, pa.array(distances)]
                names = [str(number) for number in range(len(columns))]
                rows = pa.RecordBatch.from_arrays(columns, names=names).take(pa.array(order))
                first += batch.num_rows
                ends = np.searchsorted(parts[order], np.arange(len(paths)), side="right")
                start = 0
                for part, end in enumerate(ends.tolist()):
                    if end > start:
                        if part not in writers:
                            sink = stack.enter_context(pa.OSFile(str(paths[part]), "wb"))
                            writers[part] = stack.enter_context(pa.ipc.new_stream(sink, rows.schema, options=options))
                        writers[part].write_batch(rows.slice(start, end - start))
                    start = end
        return [path for part, path in enumerate(paths) if part in writers]
