"""Rows of a snapshot: data files -> Arrow batches in the table's schema.

In: a table's head, its (already pruned) live files, the columns wanted and a row predicate. Out: batches, a file at
a time, whose columns missing from an old file are null and whose partition columns come from the log, which is the
truth about them (PROTOCOL.md, "Partition Value Serialization"); the directory names are never read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from txlog.errors import CorruptLogError, InvalidInputError, NotFoundError, StorageError, UnsupportedFeatureError
from txlog.log.predicates import Predicate
from txlog.log.state import TableHead
from txlog.protocol.partition_values import decode
from txlog.protocol.paths import resolve_data_path
from txlog.protocol.schema import Field, Struct, fold_name, to_arrow, type_to_arrow
from txlog.store.base import TableStore

__all__ = ["Scan"]

BATCH_ROWS = 131_072


@dataclass(frozen=True, slots=True)
class Scan:
    """What to read of one snapshot. ``columns`` None means all, in table order; names match whatever their case."""

    store: TableStore
    head: TableHead
    columns: tuple[str, ...] | None = None
    predicate: Predicate | None = None

    def schema(self) -> pa.Schema:
        """The schema of every batch. Raises ``InvalidInputError`` for a column the table does not have."""
        return to_arrow(Struct(tuple(self._wanted())))

    def batches(self, files: pa.Table) -> Iterator[pa.RecordBatch]:
        """The rows of ``files`` (rows of ``DeltaLog.files``) that satisfy the predicate.

        Raises ``NotFoundError`` for a file the log names and the store does not have, ``CorruptLogError`` for one
        that is no readable Parquet file, ``UnsupportedFeatureError`` for a deletion vector.
        """
        wanted = self._wanted()
        schema = to_arrow(Struct(tuple(wanted)))
        needed = self._with_predicate_columns(wanted)
        row_filter = self.predicate.to_arrow_expression() if self.predicate is not None else None
        for path, partition_values in self._readable(files):
            for batch in self._file_batches(path, partition_values, needed):
                if row_filter is not None:
                    batch = batch.filter(row_filter)
                if batch.num_rows:
                    yield pa.RecordBatch.from_arrays([batch.column(f.name) for f in wanted], schema=schema)

    # --- which columns --------------------------------------------------------------------------------------

    def _wanted(self) -> list[Field]:
        if self.columns is None:
            return [*self.head.schema.fields]
        wanted = [self._field(name) for name in self.columns]
        if len({field.name for field in wanted}) < len(wanted):
            raise InvalidInputError(f"a column is asked for twice: {', '.join(self.columns)}", table=self.store.uri)
        return wanted

    def _field(self, name: str) -> Field:
        found = self.head.schema.find(name) if isinstance(name, str) else None
        if found is None:
            raise InvalidInputError(
                f"there is no column {name!r}; the table has {', '.join(self.head.schema.names)}",
                table=self.store.uri,
                version=self.head.version,
            )
        return found

    def _with_predicate_columns(self, wanted: Sequence[Field]) -> list[Field]:
        names = {f.name for f in wanted}
        extra = sorted(self.predicate.columns() - names) if self.predicate is not None else []
        return [*wanted, *(self._field(name) for name in extra)]

    # --- one file -------------------------------------------------------------------------------------------

    def _readable(self, files: pa.Table) -> Iterator[tuple[str, dict[str, str | None]]]:
        """Decoded path and partition values of each file; refuses what this release cannot read."""
        vectors = files.column("deletionVector")
        if vectors.null_count < len(vectors):
            raise UnsupportedFeatureError(
                "some files have deletion vectors, which this release does not read; use another Delta reader",
                table=self.store.uri,
                version=self.head.version,
                features=("deletionVectors",),
            )
        for uri_path, values in zip(
            files.column("path").to_pylist(), files.column("partitionValues").to_pylist(), strict=True
        ):
            yield self._below_root(uri_path), dict(values or ())

    def _below_root(self, uri_path: str) -> str:
        found = resolve_data_path(uri_path)
        if not found.is_relative:
            raise UnsupportedFeatureError(
                "a file lies outside of the table's directory (a shallow clone?), which this release does not read",
                features=("absolute paths",),
                **self._at(uri_path),
            )
        return found.path

    def _file_batches(
        self, path: str, partition_values: dict[str, str | None], needed: Sequence[Field]
    ) -> Iterator[pa.RecordBatch]:
        import pyarrow.parquet as pq

        partition_columns = {fold_name(name) for name in self.head.partition_columns}
        constants = {f.name: f for f in needed if fold_name(f.name) in partition_columns}
        try:
            with (
                self.store.files.open(path) as source,
                pq.ParquetFile(source, coerce_int96_timestamp_unit="us") as parquet,
            ):
                present = [f.name for f in needed if f.name not in constants and f.name in parquet.schema_arrow.names]
                for batch in self._raw_batches(parquet, present):
                    columns = [
                        self._constant(f, partition_values, batch.num_rows)
                        if f.name in constants
                        else _fitted(batch, f)
                        for f in needed
                    ]
                    yield pa.RecordBatch.from_arrays(columns, names=[f.name for f in needed])
        except (FileNotFoundError, NotFoundError) as error:
            raise NotFoundError(
                f"the log names {path}, which is gone: vacuumed, or removed by hand", **self._at(path)
            ) from error
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise StorageError(f"a data file could not be read: {error}", **self._at(path)) from error
            # Arrow raises an OSError without a number for a damaged header or page.
            raise CorruptLogError(f"a data file cannot be read: {error}", **self._at(path)) from error

    @staticmethod
    def _raw_batches(parquet: Any, names: list[str]) -> Iterator[pa.RecordBatch]:
        if names:
            yield from parquet.iter_batches(batch_size=BATCH_ROWS, columns=names)
            return
        # Nothing of the file itself is wanted (partition columns, or columns it predates): only its row count.
        for start in range(0, parquet.metadata.num_rows, BATCH_ROWS):
            rows = min(BATCH_ROWS, parquet.metadata.num_rows - start)
            yield pa.RecordBatch.from_arrays([pa.nulls(rows)], names=[""])

    def _constant(self, field: Field, partition_values: dict[str, str | None], rows: int) -> pa.Array:
        """A partition column: one value of the log, repeated."""
        physical = next((key for key in partition_values if fold_name(key) == fold_name(field.name)), field.name)
        value = decode(partition_values.get(physical), field.type)
        return pa.repeat(pa.scalar(value, type_to_arrow(field.type)), rows)

    def _at(self, path: str) -> dict[str, Any]:
        return {"table": self.store.uri, "version": self.head.version, "path": path}


def _fitted(batch: pa.RecordBatch, field: Field) -> pa.Array:
    target = type_to_arrow(field.type)
    position = batch.schema.get_field_index(field.name)
    return pa.nulls(batch.num_rows, target) if position < 0 else _fit(batch.column(position), target)


def _fit(array: pa.Array, target: pa.DataType) -> pa.Array:
    """A file's array in the table's type: members a struct gained later are null, storage variants are cast."""
    if array.type.equals(target):
        return array
    if pa.types.is_struct(target) and pa.types.is_struct(array.type):
        return _fit_struct(array, target)
    if pa.types.is_map(target) and pa.types.is_map(array.type):
        items = _fit(array.items, target.item_type)
        return pa.MapArray.from_arrays(
            array.offsets, _fit(array.keys, target.key_type), items, target, mask=_mask(array)
        )
    if pa.types.is_list(target) and pa.types.is_list(array.type):
        return pa.ListArray.from_arrays(array.offsets, _fit(array.values, target.value_type), target, mask=_mask(array))
    # Nanoseconds in a file are finer than Delta's microseconds: readers drop the rest.
    return array.cast(target, safe=not pa.types.is_timestamp(target))


def _fit_struct(array: pa.Array, target: pa.DataType) -> pa.Array:
    have = {array.type.field(i).name: i for i in range(array.type.num_fields)}
    members = [
        _fit(array.field(have[f.name]), f.type) if f.name in have else pa.nulls(len(array), f.type) for f in target
    ]
    return pa.StructArray.from_arrays(members, fields=list(target), mask=_mask(array))


def _mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None
