"""Rows of a snapshot: data files -> Arrow batches in the table's schema.

In: a table's head, its (already pruned) live files, the columns wanted and a row predicate. Out: batches, a bounded
piece of one file at a time: row groups that cannot match are not read, rows that a deletion vector marks are left
out, columns stand under the table's names and in its types, and partition columns come from the log, which is the
truth about them; directory names are never read.
PROTOCOL.md, "Partition Value Serialization", "Deletion Vectors", "Column Mapping".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from txlog.errors import (
    CorruptLogError,
    InvalidInputError,
    NotFoundError,
    StorageError,
    TxlogError,
    UnsupportedFeatureError,
)
from txlog.expressions.predicates import Predicate
from txlog.log.state import TableState
from txlog.protocol.column_mapping import physical_name
from txlog.protocol.partition_values import decode
from txlog.protocol.paths import path_below, resolve_data_path
from txlog.protocol.schema import Field, Struct, fold_name, to_arrow, type_to_arrow
from txlog.read.deletion_vectors import DeletionVectorReader
from txlog.read.parquet_columns import ParquetColumns
from txlog.store.base import TableStore

if TYPE_CHECKING:
    from txlog.skipping.row_groups import RowGroupPruner

__all__ = ["Scan"]

BATCH_ROWS = 131_072

_REPAIR = (
    "Put its copy back, or take it out of the table, by txn.remove(path) in a table.transaction(), and write its rows"
    " again; `txlog verify` lists all that are gone or have another size"
)

# Equal values cost a file next to nothing, so only a bound far beyond honest files tells a false claim.
_ROWS_MIN = 1_000_000_000
_ROWS_PER_BYTE = 1_000


@dataclass(frozen=True)
class Scan:
    """What to read of one snapshot. ``columns`` None means all, in table order; names match whatever their case."""

    store: TableStore
    state: TableState
    columns: tuple[str, ...] | None = None
    predicate: Predicate | None = None

    def schema(self) -> pa.Schema:
        """The schema of every batch. Raises ``InvalidInputError`` for a column the table does not have."""
        return to_arrow(Struct(tuple(self._wanted)))

    def batches(self, files: pa.Table) -> Iterator[pa.RecordBatch]:
        """The rows of ``files`` (rows of ``DeltaLog.files``) that satisfy the predicate.

        Raises ``NotFoundError`` for a file the log names and the store does not have, ``CorruptLogError`` for one
        that is no readable Parquet file, and for a deletion vector that is absent or damaged.
        """
        schema = self.schema()
        names = schema.names
        row_filter = self.predicate.to_arrow_expression() if self.predicate is not None else None
        for file in self._files(files):
            for batch in file.batches():
                if row_filter is not None:
                    batch = batch.filter(row_filter)
                if batch.num_rows:
                    columns = [batch.column(name) for name in names]
                    # Only a selection of nothing keeps the number of rows.
                    yield pa.RecordBatch.from_arrays(columns, schema=schema) if columns else batch.select([])

    def _files(self, files: pa.Table) -> Iterator[_DataFile]:
        vectors = DeletionVectorReader(self.store, self.state.version)
        rows = files.select(["path", "partitionValues", "deletionVector"])
        for batch in rows.to_batches(max_chunksize=1024):
            for row in batch.to_pylist():
                values = dict(row["partitionValues"] or ())
                yield _DataFile(self, self._below_root(row["path"]), values, row["deletionVector"], vectors)

    def _below_root(self, uri_path: str) -> str:
        with TxlogError.located(self.store.uri, self.state.version):
            path = path_below(self.store.uri, resolve_data_path(uri_path))
        if path is None:
            raise UnsupportedFeatureError(
                "a file lies outside of the table's directory (a shallow clone?), which this release does not read",
                features=("absolute paths",),
                **self.at(uri_path),
            )
        return path

    def at(self, path: str) -> dict[str, Any]:
        """Where an error about one file is located."""
        return {"table": self.store.uri, "version": self.state.version, "path": path}

    # --- which columns --------------------------------------------------------------------------------------

    @cached_property
    def _wanted(self) -> list[Field]:
        if self.columns is None:
            return [*self.state.schema.fields]
        wanted = [self._field(name) for name in self.columns]
        if len({field.name for field in wanted}) < len(wanted):
            raise InvalidInputError(f"a column is asked for twice: {', '.join(self.columns)}", table=self.store.uri)
        return wanted

    def _field(self, name: str) -> Field:
        found = self.state.schema.find(name) if isinstance(name, str) else None
        if found is None:
            raise InvalidInputError(
                f"there is no column {name!r}; the table has {', '.join(self.state.schema.names)}",
                table=self.store.uri,
                version=self.state.version,
            )
        return found

    @cached_property
    def needed(self) -> list[Field]:
        """The columns wanted, then those that only the predicate looks at."""
        names = {f.name for f in self._wanted}
        extra = sorted(self.predicate.columns() - names) if self.predicate is not None else []
        return [*self._wanted, *(self._field(name) for name in extra)]

    @cached_property
    def row_group_pruner(self) -> RowGroupPruner | None:
        """Says which row groups may hold a row that the predicate keeps; None where nobody can say.

        Where columns are known by their ids a file may have them under any names, also under each other's.
        """
        if self.predicate is None or self.state.properties.column_mapping_mode == "id":
            return None
        from txlog.skipping.row_groups import RowGroupPruner

        return RowGroupPruner(self.predicate, self.state.schema, self.state.partition_columns)

    @cached_property
    def constants(self) -> dict[str, Field]:
        """Those of the needed columns that are partition columns, by name."""
        partition_columns = {fold_name(name) for name in self.state.partition_columns}
        return {field.name: field for field in self.needed if fold_name(field.name) in partition_columns}


@dataclass(frozen=True, slots=True)
class _DataFile:
    """One live file: its decoded path, and what the log says of it."""

    scan: Scan
    path: str
    partition_values: Mapping[str, str | None]
    vector: Mapping[str, Any] | None
    vectors: DeletionVectorReader

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The live rows, as the columns that the scan needs."""
        import pyarrow.parquet as pq

        from txlog.arrow.parquet_footer import read_footer

        at = self.scan.at(self.path)
        try:
            with self.scan.store.files.open(self.path) as source:
                footer = None if self.scan.row_group_pruner is None else read_footer(source)
                metadata = None if footer is None else pq.ParquetFile(pa.BufferReader(footer)).metadata
                with pq.ParquetFile(source, metadata=metadata, coerce_int96_timestamp_unit="us") as parquet:
                    self._check_rows(parquet.metadata.num_rows, source.size())
                    yield from self._batches(parquet, footer)
        except MemoryError as error:
            message = f"there is no memory for the rows of a data file ({error}): read fewer columns, or by to_batches"
            raise StorageError(message, **at) from error
        except (FileNotFoundError, NotFoundError) as error:
            raise NotFoundError(
                f"the log names {self.path}, which is gone: vacuumed, or removed by hand. {_REPAIR}", **at
            ) from error
        except CorruptLogError as error:
            if error.table is None:
                raise CorruptLogError(error.message, repair=_REPAIR, **at) from error
            raise
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise StorageError(f"a data file could not be read: {error}", **at) from error
            # For a damaged header or page Arrow raises an OSError without a number; its names may be no UTF-8.
            why = " ".join(str(error).split()).rstrip(".")
            raise CorruptLogError(f"a data file cannot be read: {why}", repair=_REPAIR, **at) from error

    def _check_rows(self, rows: int, size_bytes: int) -> None:
        """Where no column of the file is read, its rows are only counted out, however many its footer claims."""
        rows_max = _ROWS_MIN + _ROWS_PER_BYTE * size_bytes
        if not 0 <= rows <= rows_max:
            raise CorruptLogError(
                f"a data file of {size_bytes} bytes claims {rows} rows, more than the limit of {rows_max}",
                repair=_REPAIR,
                **self.scan.at(self.path),
            )

    def _batches(self, parquet: Any, footer: bytes | None) -> Iterator[pa.RecordBatch]:
        scan = self.scan
        stored = [field for field in scan.needed if field.name not in scan.constants]
        columns = ParquetColumns(parquet.schema_arrow, stored, scan.state.properties.column_mapping_mode)
        dead = None if self.vector is None else self.vectors.dead_rows(self.vector, parquet.metadata.num_rows)
        constants = {name: self._constant(field) for name, field in scan.constants.items()}
        pruner = scan.row_group_pruner
        groups = None
        if pruner is not None and footer is not None:
            groups = pruner.matching(parquet.metadata, footer, self.partition_values)
        for first_row, batch in _raw_batches(parquet, columns.names, groups):
            live = batch if dead is None else _without(batch, dead, first_row)
            arrays = [
                pa.repeat(constants[field.name], live.num_rows)
                if field.name in constants
                else columns.array(live, field)
                for field in scan.needed
            ]
            names = [field.name for field in scan.needed]
            yield pa.RecordBatch.from_arrays(arrays, names=names) if names else live.select([])

    def _constant(self, field: Field) -> pa.Scalar:
        """A partition column: one value of the log for all rows."""
        name = physical_name(field)
        key = next((key for key in self.partition_values if fold_name(key) == fold_name(name)), name)
        return pa.scalar(decode(self.partition_values.get(key), field.type), type_to_arrow(field.type))


def _raw_batches(parquet: Any, names: list[str], groups: list[int] | None) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Batches of these columns, each with the position of its first row in the file; ``groups`` None means all."""
    metadata = parquet.metadata
    for run, row, rows in _runs(metadata, range(metadata.num_row_groups) if groups is None else groups):
        if names:
            for batch in parquet.iter_batches(batch_size=BATCH_ROWS, columns=names, row_groups=run):
                yield row, batch
                row += batch.num_rows
        else:
            # Nothing of the file itself is wanted (partition columns, or columns it predates): only its row count.
            for start in range(0, rows, BATCH_ROWS):
                yield row + start, pa.RecordBatch.from_arrays([pa.nulls(min(BATCH_ROWS, rows - start))], names=[""])


def _runs(metadata: Any, groups: Iterable[int]) -> Iterator[tuple[list[int], int, int]]:
    """Row groups that lie one after the other, the position of their first row, and how many rows they have."""
    sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    run: list[int] = []
    for group in [*groups, len(sizes) + 1]:
        if run and group != run[-1] + 1:
            yield run, sum(sizes[: run[0]]), sum(sizes[run[0] : run[-1] + 1])
            run = []
        run.append(group)


def _without(batch: pa.RecordBatch, dead: Any, first_row: int) -> pa.RecordBatch:
    """The rows of a batch that begins at ``first_row`` of its file, less those at the ``dead`` positions."""
    import numpy as np

    start, end = np.searchsorted(dead, np.array([first_row, first_row + batch.num_rows], dtype=np.uint64))
    if start == end:
        return batch
    live = np.ones(batch.num_rows, dtype=bool)
    live[dead[start:end] - np.uint64(first_row)] = False
    return batch.filter(pa.array(live))
