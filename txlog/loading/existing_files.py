"""Existing Parquet files in the table's directory as ``add`` actions, as the work of tasks.

In: for each task some files. Out: adds whose columns, nulls, partition values and statistics are checked against the
table. Only footers are read, and floating-point columns once, since a footer does not record NaN.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from txlog.core.changes.tasks import TaskTable
from txlog.core.format.actions import AddFile
from txlog.core.format.arrow.parquet_rows import counted_batches
from txlog.core.format.schema import Array, DataType, Map, Struct, from_arrow, type_name
from txlog.core.format.statistics import FileStatistics, StatisticsPolicy
from txlog.core.store import ObjectMeta
from txlog.core.writing import Conformer, has_required
from txlog.errors import InvalidInputError, NotFoundError, SchemaMismatchError, TxlogError, UnsupportedFeatureError
from txlog.loading.footer_facts import as_spark_reads, foreign_parquet
from txlog.loading.hive_paths import values_in_path

BATCH_ROWS = 131_072


class ExistingFile(NamedTuple):
    """A file as the caller names it, as the log names it, and as the store does; and what a listing says of it."""

    given: str
    uri_path: str
    path: str
    listed: ObjectMeta | None = None


class ReadExisting(msgspec.Struct, frozen=True):
    """The work of a task: to make the ``add`` actions of some existing files."""

    table: TaskTable

    def __call__(self, files: Sequence[ExistingFile]) -> list[AddFile]:
        """One ``add`` per file, in order; its size and time are what the store says.

        Raises ``InvalidInputError`` for a file that is not Parquet, whose directories do not name every partition
        column, or that has a null in a NOT NULL column; ``UnsupportedFeatureError`` for a column that Spark cannot
        read; ``SchemaMismatchError``; ``NotFoundError``; ``StorageError``.
        """
        found = []
        for file in files:
            with naming(file.given), TxlogError.located(self.table.uri):
                found.append(self._add_of(file.path, file.uri_path, file.listed))
        return found

    def _add_of(self, path: str, uri_path: str, listed: ObjectMeta | None) -> AddFile:
        table = self.table
        partition_values = values_in_path(path, table.schema, table.partition_columns, table.uri)
        stored = table.schema.without(table.partition_columns)
        policy = StatisticsPolicy.of(table.schema, table.properties, table.partition_columns)
        with foreign_parquet(table, path, listed) as (parquet, believed, found):
            differing = list(_differences(stored, from_arrow(as_spark_reads(parquet, table.properties))))
            if differing:
                raise SchemaMismatchError(
                    "the file's columns differ:\n  " + "\n  ".join(differing), table=table.uri, path=path
                )
            statistics = FileStatistics(policy)
            for batch in _unknown_to_the_footer(parquet, stored):
                statistics.observe(batch)
            stats = statistics.finish(parquet.metadata, believed)
            _require_values(table.uri, stored, parquet, path)
        return AddFile(
            path=uri_path,
            partition_values=partition_values,
            size=found.size,
            modification_time=found.modified_ms,
            data_change=True,
            stats=stats,
        )


@contextlib.contextmanager
def naming(path: str) -> Iterator[None]:
    """Errors raised inside get the path they are about."""
    try:
        yield
    except NotFoundError as error:
        error.template += "; paths are relative to the table's root"
        raise
    except (InvalidInputError, UnsupportedFeatureError) as error:
        if isinstance(path, str) and repr(path) not in error.message:
            error.template = f"{path}: {error.template}"
        raise


def _differences(table: Struct, file: Struct, prefix: str = "") -> Iterator[str]:
    """Names and types must equal the table's, since the file is used as it is; nullable columns may be missing."""
    have = {field.name: field for field in file.fields}
    for field in table.fields:
        other = have.pop(field.name, None)
        name = prefix + field.name
        if other is None:
            if not field.nullable:
                yield f"{name}  table {type_name(field.type)} NOT NULL, absent from the file  -> write it"
        elif isinstance(field.type, Struct) and isinstance(other.type, Struct):
            yield from _differences(field.type, other.type, f"{name}.")
        elif not _same_type(field.type, other.type):
            yield f"{name}  table {type_name(field.type)}, file {type_name(other.type)}  -> append the rows instead"
    for extra in have:
        yield f"{prefix}{extra}  not in the table  -> add_columns, or append the rows instead"


def _same_type(table: DataType, file: DataType) -> bool:
    """Whether two types are equal except for nullability, which the rows decide."""
    if isinstance(table, Array) and isinstance(file, Array):
        return _same_type(table.element, file.element)
    if isinstance(table, Map) and isinstance(file, Map):
        return _same_type(table.key, file.key) and _same_type(table.value, file.value)
    if isinstance(table, Struct) and isinstance(file, Struct):
        return not any(_differences(table, file))
    return table == file


def _unknown_to_the_footer(parquet: Any, stored: Struct) -> Iterator[pa.RecordBatch]:
    """The columns whose statistics require reading rows: columns with floats, arrays or maps in them."""
    names = [f.name for f in stored.fields if f.name in parquet.schema_arrow.names and _needs_a_look(f.type)]
    if names:
        for _, batch in counted_batches(parquet, names, BATCH_ROWS):
            yield batch


def _needs_a_look(data_type: DataType) -> bool:
    if isinstance(data_type, Struct):
        return any(_needs_a_look(field.type) for field in data_type.fields)
    return isinstance(data_type, Array | Map) or type_name(data_type) in ("float", "double")


def _require_values(uri: str, stored: Struct, parquet: Any, path: str) -> None:
    """Check NOT NULL columns on the rows, whatever the file's schema declares."""
    present = parquet.schema_arrow.names
    below = [field for field in stored.fields if has_required(field.type) and field.name in present]
    required = [field for field in stored.fields if not field.nullable or field in below]
    if not required:
        return
    for row, batch in counted_batches(parquet, [field.name for field in required], BATCH_ROWS):
        for field in required:
            column = batch.column(field.name)
            if not field.nullable and column.null_count:
                at = row + column.is_null().index(True).as_py()
                raise InvalidInputError(f"column {field.name} is NOT NULL, row {at} is null", table=uri, path=path)
        if below:
            rows = batch.select([field.name for field in below])
            Conformer(Struct(tuple(below)), rows.schema, table=uri).conform(rows, row)
