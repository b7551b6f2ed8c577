"""Existing Parquet files in the table's directory as ``add`` actions: reads footers, rewrites nothing.

In: paths below the root. Out: adds whose columns, nulls, partition values and statistics are checked against the table.
Floating-point columns are read once, since a footer does not record NaN.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from txlog.errors import (
    CorruptLogError,
    InvalidInputError,
    NotFoundError,
    SchemaMismatchError,
    StorageError,
    UnsupportedFeatureError,
)
from txlog.log.state import TableState
from txlog.log_files.delta_log import DeltaLog
from txlog.protocol.actions import AddFile
from txlog.protocol.column_mapping import is_mapped
from txlog.protocol.partition_values import decode
from txlog.protocol.paths import HIVE_NULL, canonical_path, encode_path, resolve_data_path
from txlog.protocol.schema import Array, DataType, Map, Struct, fold_name, from_arrow, type_name
from txlog.protocol.statistics import FileStatistics, StatisticsPolicy
from txlog.store.table_store import TableStore
from txlog.util.arguments import invalid
from txlog.writer.conform import Conformer
from txlog.writer.convert import has_required

__all__ = ["adds_of"]

BATCH_ROWS = 131_072


def adds_of(
    log: DeltaLog, state: TableState, paths: Sequence[str], on_progress: Callable[[int], None] | None = None
) -> list[AddFile]:
    """One ``add`` per path.

    Raises ``InvalidInputError`` for a path that is repeated or already in the table, or whose directories do not name
    every partition column; ``SchemaMismatchError``; ``NotFoundError``; ``UnsupportedFeatureError`` for a table with
    column mapping.
    """
    store = log.store
    if isinstance(paths, str) or not isinstance(paths, Iterable):
        raise invalid("paths", paths, "a list of paths", table=store.uri)
    if is_mapped(state.schema):
        raise UnsupportedFeatureError(
            "the table maps its columns (delta.columnMapping.mode), so files made elsewhere have other column names"
            " in them: append the rows instead",
            table=store.uri,
            version=state.version,
            features=("columnMapping",),
        )
    named: list[tuple[str, str, str]] = []
    for path in paths:
        with _naming(path):
            named.append((path, *_checked_path(store, path)))
    live = log.named_files(state, [uri_path for _, uri_path, _ in named])[0].column("path").to_pylist()
    taken = {canonical_path(path) for path in live}
    adds: list[AddFile] = []
    for count, (path, uri_path, relative) in enumerate(named, start=1):
        with _naming(path):
            if canonical_path(uri_path) in taken:
                raise InvalidInputError("the file is already in the table, or named twice", table=store.uri, path=path)
            taken.add(canonical_path(uri_path))
            adds.append(_add_of(store, state, relative, uri_path))
        if on_progress is not None:
            on_progress(count)
    return adds


@contextlib.contextmanager
def _naming(path: str) -> Iterator[None]:
    """Errors raised inside get the path they are about."""
    try:
        yield
    except NotFoundError as error:
        error.template += "; paths are relative to the table's root"
        raise
    except InvalidInputError as error:
        if isinstance(path, str) and repr(path) not in error.message:
            error.template = f"{path}: {error.template}"
        raise


def _checked_path(store: TableStore, path: object) -> tuple[str, str]:
    """The path as in the log, and as in the store."""
    if not isinstance(path, str):
        raise invalid("path", path, "a string, relative to the table's root", table=store.uri)
    try:
        uri_path = encode_path(path)
        found = resolve_data_path(uri_path)
    except (CorruptLogError, UnicodeEncodeError):
        message = "this is not the path of a data file below the table's root: expected a path such as day=1/a.parquet"
        raise InvalidInputError(message, table=store.uri, path=path) from None
    if not found.is_relative:
        raise InvalidInputError("a path must be relative to the table's root", table=store.uri, path=path)
    return uri_path, found.path


def _add_of(store: TableStore, state: TableState, path: str, uri_path: str) -> AddFile:
    from txlog.arrow.parquet_footer import read_footer

    found = store.files.stat(path)
    partition_values = _partition_values(store, state, path)
    stored = state.schema.without(state.partition_columns)
    policy = StatisticsPolicy.of(state.schema, state.properties, state.partition_columns)
    try:
        with (
            store.files.open(path) as source,
            pq.ParquetFile(source, metadata=_checked_metadata(read_footer(source))) as parquet,
        ):
            differing = list(_differences(stored, from_arrow(_as_spark_reads(parquet))))
            if differing:
                raise SchemaMismatchError(
                    "the file's columns differ:\n  " + "\n  ".join(differing), table=store.uri, path=path
                )
            statistics = FileStatistics(policy)
            for batch in _unknown_to_the_footer(parquet, stored):
                statistics.observe(batch)
            stats = statistics.finish(parquet.metadata)
            _require_values(store, stored, parquet, path)
    except MemoryError as error:
        raise StorageError(f"not enough memory to read the file ({error})", table=store.uri, path=path) from error
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise StorageError(f"the file could not be read: {error}", table=store.uri, path=path) from error
        # For a damaged header or page Arrow raises an OSError without an errno; its column names may be invalid UTF-8.
        raise InvalidInputError(f"not a readable Parquet file: {error}", table=store.uri, path=path) from error
    return AddFile(
        path=uri_path,
        partition_values=partition_values,
        size=found.size,
        modification_time=found.modified_ms,
        data_change=True,
        stats=stats,
    )


def _checked_metadata(footer: bytes) -> Any:
    from txlog.arrow.parquet_footer import check_footer

    metadata = pq.ParquetFile(pa.BufferReader(footer)).metadata
    check_footer(footer, metadata)
    return metadata


def _partition_values(store: TableStore, state: TableState, path: str) -> dict[str, str | None]:
    """The values in ``k=v`` directories, which must name every partition column and parse as its type."""
    named: dict[str, str | None] = {}
    for segment in path.split("/")[:-1]:
        key, equals, value = segment.partition("=")
        if equals:
            named[fold_name(unquote(key))] = None if value == HIVE_NULL else unquote(value)
    values: dict[str, str | None] = {}
    for column in state.partition_columns:
        field = state.schema.find(column)
        if field is None or fold_name(column) not in named:
            raise InvalidInputError(
                f"the path has no value for partition column {column!r}: expected a directory like {column}=...",
                table=store.uri,
                path=path,
            )
        values[column] = named[fold_name(column)]
        try:
            decode(values[column], field.type, column=column)
        except CorruptLogError as error:
            raise InvalidInputError(error.message, table=store.uri, path=path) from error
        if values[column] in (None, "") and not field.nullable:
            raise InvalidInputError(
                f"partition column {column} is NOT NULL, but the path has null", table=store.uri, path=path
            )
    return values


def _as_spark_reads(parquet: Any) -> pa.Schema:
    """The file's columns; old 96-bit timestamps (INT96) are instants in UTC, which Arrow does not show in its
    schema."""
    physical = (parquet.schema.column(at).physical_type for at in range(len(parquet.schema)))
    return pa.schema([_with_moments(column, physical) for column in parquet.schema_arrow])


def _with_moments(field: pa.Field, physical: Iterator[str]) -> pa.Field:
    """The field with timestamp types by the physical types of its leaves, which come in file order."""
    data_type = field.type.storage_type if isinstance(field.type, pa.BaseExtensionType) else field.type
    if not pa.types.is_nested(data_type):
        return field.with_type(pa.timestamp("us", "UTC")) if next(physical) == "INT96" else field
    members = [_with_moments(data_type.field(at), physical) for at in range(data_type.num_fields)]
    if all(member.equals(data_type.field(at)) for at, member in enumerate(members)):
        return field
    if pa.types.is_struct(data_type):
        return field.with_type(pa.struct(members))
    if pa.types.is_map(data_type):
        return field.with_type(pa.map_(*members[0].type))
    return field.with_type(pa.list_(members[0]))


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
        yield from parquet.iter_batches(batch_size=BATCH_ROWS, columns=names)


def _needs_a_look(data_type: DataType) -> bool:
    if isinstance(data_type, Struct):
        return any(_needs_a_look(field.type) for field in data_type.fields)
    return isinstance(data_type, Array | Map) or type_name(data_type) in ("float", "double")


def _require_values(store: TableStore, stored: Struct, parquet: Any, path: str) -> None:
    """Check NOT NULL columns on the rows, whatever the file's schema declares."""
    present = parquet.schema_arrow.names
    below = [field for field in stored.fields if has_required(field.type) and field.name in present]
    required = [field for field in stored.fields if not field.nullable or field in below]
    if not required:
        return
    row = 0
    for batch in parquet.iter_batches(batch_size=BATCH_ROWS, columns=[field.name for field in required]):
        for field in required:
            column = batch.column(field.name)
            if not field.nullable and column.null_count:
                at = row + column.is_null().index(True).as_py()
                raise InvalidInputError(
                    f"column {field.name} is NOT NULL, row {at} is null", table=store.uri, path=path
                )
        if below:
            rows = batch.select([field.name for field in below])
            Conformer(Struct(tuple(below)), rows.schema, table=store.uri).conform(rows, row)
        row += batch.num_rows
