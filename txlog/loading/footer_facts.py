"""What a task finds out about a Parquet file that another program wrote, from its footer alone.

In: a path of a store; a file that was listed is not looked up again. Out: `FooterFacts`: its columns, and statistics
for an ``add``. Footers may be hostile. Float columns get no bounds, since a footer does not record NaN. PROTOCOL.md,
"Per-file Statistics".
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace

from txlog.core.changes.tasks import TaskStore
from txlog.core.format.arrow.footer_statistics import FooterStatistics
from txlog.core.format.arrow.parquet_annotations import check_annotated, with_annotated_types
from txlog.core.format.arrow.parquet_footer import check_footer, read_footer
from txlog.core.format.arrow.parquet_rows import check_chunks
from txlog.core.format.column_mapping import field_id, file_ids, physical_name
from txlog.core.format.properties import TableProperties
from txlog.core.format.schema import Struct, from_arrow
from txlog.core.format.statistics import FileStatistics, StatisticsPolicy
from txlog.core.store import ObjectMeta
from txlog.core.util import cached_property
from txlog.errors import InvalidInputError, StorageError, UnsupportedFeatureError


class FooterFacts(msgspec.Struct, frozen=True):
    """A file's columns as Spark reads them, its size in bytes, its time in ms since the epoch, and its statistics.

    ``ids`` are the Parquet field ids of its columns and of what is inside them (`file_ids`).
    """

    schema: Struct
    size_bytes: int
    modified_ms: int
    stats: str
    ids: Mapping[tuple[str, ...], int | None]


class ReadFooter(msgspec.Struct, frozen=True, dict=True):
    """The work of a task: read the footer of a file.

    ``schema`` has the columns for which statistics are kept; None: those of the file itself, but for
    ``partition_columns``. ``by_id``: its columns have ids, and a column of the file counts only if it has the same name
    and id. Raises InvalidInputError naming the file if it is not a readable Parquet file,
    UnsupportedFeatureError for a column that Delta lacks, NotFoundError, StorageError.
    """

    store: TaskStore
    configuration: Mapping[str, str]
    partition_columns: tuple[str, ...]
    schema: Struct | None = None
    by_id: bool = False

    @cached_property
    def _properties(self) -> TableProperties:
        return TableProperties.of(self.configuration)

    def __call__(self, path: str, listed: ObjectMeta | None = None) -> FooterFacts:
        uri = self.store.uri
        try:
            with foreign_parquet(self.store, path, listed) as (parquet, believed, found):
                schema = from_arrow(as_spark_reads(parquet, self._properties))
                ids = dict(file_ids(parquet.schema_arrow))
                kept = schema if self.schema is None else self.schema
                if self.by_id:
                    kept = _with_the_same_ids(kept, ids, ())
                policy = StatisticsPolicy.of(kept, self._properties, self.partition_columns)
                stats = FileStatistics(policy).finish(parquet.metadata, believed)
        except (InvalidInputError, UnsupportedFeatureError) as error:
            error.table, error.path = uri, path
            error.template = f"{path}: {error.template}"
            raise
        return FooterFacts(schema, found.size, found.modified_ms, stats, ids)


class ReadFooters(msgspec.Struct, frozen=True):
    """The work of a task: read the footers of some files. Raises what `ReadFooter` raises."""

    read: ReadFooter

    def __call__(self, files: Sequence[tuple[str, ObjectMeta | None]]) -> list[FooterFacts]:
        return [self.read(path, listed) for path, listed in files]


def _with_the_same_ids(schema: Struct, ids: Mapping[tuple[str, ...], int | None], above: tuple[str, ...]) -> Struct:
    """The columns that a file has under the same names and ids."""
    kept = []
    for field in schema.fields:
        path = (*above, physical_name(field))
        if field_id(field) is not None and ids.get(path) == field_id(field):
            inner = _with_the_same_ids(field.type, ids, path) if isinstance(field.type, Struct) else field.type
            kept.append(replace(field, type=inner))
    return Struct(tuple(kept))


def as_spark_reads(parquet: Any, properties: TableProperties) -> pa.Schema:
    """The file's columns; old 96-bit timestamps (INT96) are instants in UTC, which Arrow does not show in its schema.

    Raises UnsupportedFeatureError for a column that Arrow can read, and Spark, or readers of a table with the
    ``properties``, cannot; and InvalidInputError for two columns with one name.
    """
    _check_names(parquet.schema_arrow)
    _check_leaves(parquet.schema)
    found = with_moments(parquet)
    check_annotated(found, properties)
    return found


def with_moments(parquet: Any) -> pa.Schema:
    """The file's columns as Arrow reads them, but for old 96-bit timestamps (INT96), which are instants in UTC."""
    physical = (parquet.schema.column(at).physical_type for at in range(len(parquet.schema)))
    return with_annotated_types(
        pa.schema([_with_moments(column, physical) for column in parquet.schema_arrow]), parquet.metadata
    )


def _check_names(fields: Iterable[pa.Field], above: str = "") -> None:
    fields = list(fields)
    name, count = max(Counter(field.name for field in fields).items(), key=itemgetter(1), default=("", 0))
    if count > 1:
        raise InvalidInputError(f"the file has {count} columns named {above + name!r}")
    for field in fields:
        kind = field.type.storage_type if isinstance(field.type, pa.BaseExtensionType) else field.type
        _check_names(map(kind.field, range(kind.num_fields)), f"{above}{field.name}.")


def _check_leaves(schema: Any) -> None:
    for leaf in map(schema.column, range(len(schema))):
        kind = leaf.logical_type.type
        if kind == "TIMESTAMP" and '"nanoseconds"' in leaf.logical_type.to_json():
            kind = "TIMESTAMP(NANOS)"
        if kind in _UNREADABLE:
            what, instead = _UNREADABLE[kind]
            raise UnsupportedFeatureError(
                f"column {leaf.path} has {what}, which Spark cannot read from a Parquet file: write the file again with"
                f" {instead}, or append its rows"
            )


_UNREADABLE = {
    "TIMESTAMP(NANOS)": ("timestamps in nanoseconds", "microseconds"),
    "FLOAT16": ("16-bit floats", "32-bit ones"),
    "UUID": ("UUIDs of 16 bytes", "strings"),
}


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


@contextlib.contextmanager
def foreign_parquet(
    store: TaskStore, path: str, listed: ObjectMeta | None = None
) -> Iterator[tuple[Any, FooterStatistics, ObjectMeta]]:
    """A Parquet file of another program, open, with a footer that is safe to look into; its true statistics; and its
    size and time.

    These are the ``listed`` ones if the file still has this size. Errors of the body become typed ones too. Raises
    ``InvalidInputError`` if it is not a readable Parquet file, ``NotFoundError``, ``StorageError``.
    """
    where: dict[str, Any] = {"table": store.uri, "path": path}
    files = store.files.files
    try:
        found = files.stat(path) if listed is None else listed
        with files.open(path) as source:
            metadata, believed = _checked_metadata(source)
            with pq.ParquetFile(source, metadata=metadata) as parquet:
                if source.size() != found.size:  # it was written again meanwhile
                    found = files.stat(path)
                yield parquet, believed, found
    except MemoryError as error:
        raise StorageError(f"not enough memory to read the file ({error})", **where) from error
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise StorageError(f"the file could not be read: {error}", **where) from error
        # For a damaged header or page Arrow raises an OSError without an errno; its column names may be invalid UTF-8.
        raise InvalidInputError(f"not a readable Parquet file: {error}", **where) from error


def _checked_metadata(source: Any) -> tuple[Any, FooterStatistics]:
    """The footer of an open file. Raises ``pa.ArrowException``, ``OSError``."""
    footer = read_footer(source)
    metadata = pq.ParquetFile(pa.BufferReader(footer)).metadata
    orders = check_footer(footer, metadata)
    check_chunks(metadata)
    return metadata, FooterStatistics(metadata, orders)
