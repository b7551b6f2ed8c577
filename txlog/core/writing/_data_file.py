"""One Parquet data file: how its columns are encoded, and how it becomes pending.

In: tables of the file's schema, one row group each. Out: a `PendingFile` whose statistics come from the footer just
written, without a second pass. This module knows nothing about threads, rolling and names. PROTOCOL.md, "Data Files".

A sample of the rows decides which columns get a Parquet dictionary. If values repeat, a dictionary makes numbers less
than half as large and faster to write, and strings a third as large in 1.0 to 1.5 times the time. If they do not,
hashing takes up to seven times as long and saves nothing (all measured).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from txlog.core.format.statistics import FileLeaf, FileStatistics, StatisticsPolicy
from txlog.core.store import FileStore, OutputFile
from txlog.core.util import cached_property
from txlog.core.writing.committable import FileTail, PendingFile
from txlog.errors import StorageError

if TYPE_CHECKING:
    from txlog.core.format.type_support import FileForm

SMALL_CHUNK_ROWS = 2_048
"""Chunks smaller than this on average are joined first, which costs less than encoding each."""


class ColumnSettings(msgspec.Struct, frozen=True):
    """What is set for one column, or for a field in it: ``column`` is its path, with periods, in lower case.

    None means that it is as for all columns. ``distinct_values`` and ``false_positives`` size its bloom filter.
    """

    column: str
    dictionary: bool | None = None
    bloom_filter: bool | None = None
    distinct_values: int | None = None
    false_positives: float | None = None
    encoding: str | None = None


class ParquetSettings(msgspec.Struct, frozen=True):
    """How data files are written: one value for all writers of a table. ``core.writing._parquet_settings`` reads it.

    ``codec`` and ``level`` as pyarrow names them. Sizes are in bytes: a row group has at most ``row_group_bytes`` of
    uncompressed values and ``row_group_rows`` rows. None means the writer's own choice; ``dictionary`` None decides by
    a sample of the rows.
    """

    codec: str = "snappy"
    level: int | None = None
    row_group_bytes: int | None = None
    row_group_rows: int | None = None
    page_bytes: int | None = None
    page_rows: int | None = None
    dictionary_page_bytes: int | None = None
    dictionary: bool | None = None
    bloom_filters: bool = False
    columns: tuple[ColumnSettings, ...] = ()

    @property
    def has_columns(self) -> bool:
        """Whether a setting is about columns, so that it depends on the schema of the files."""
        return bool(self.columns) or self.bloom_filters or self.dictionary is not None


class WriterOptions(msgspec.Struct, frozen=True):
    """Arguments of a ``ParquetWriter``, and which columns have a dictionary or none, by their paths in the file.

    A bloom filter without ``ndv`` is sized for the rows of a row group.
    """

    arguments: dict[str, Any]
    dictionary: dict[str, bool]
    bloom_filters: dict[str, dict[str, Any]]


class PackageColumn(msgspec.Struct, frozen=True):
    """A column, or a field of structs, whose form in a file a package chooses: its places from the outermost on, the
    table's names of these, and its type."""

    places: tuple[int, ...]
    names: tuple[str, ...]
    type: str


class FileFormat(msgspec.Struct, frozen=True, dict=True):
    """The settings that all files of one task share. ``schema`` has no partition columns, or has them last; ``leaves``
    get ``statistics``.

    ``columns`` are the table's column names, which differ from the file's if the table maps its columns.
    """

    schema: pa.Schema
    parquet: ParquetSettings
    statistics: StatisticsPolicy
    leaves: tuple[FileLeaf, ...]
    columns: tuple[str, ...]
    is_mapped: bool = False
    options: WriterOptions | None = None
    """The settings that depend on the schema or that few tables have; None if there are none."""
    by_package: tuple[PackageColumn, ...] = ()
    configuration: Mapping[str, str] = msgspec.field(default_factory=dict)
    forms: tuple[tuple[tuple[int, ...], FileForm], ...] = ()
    """The forms that were chosen for one file, and the places of their columns."""

    def beginning_with(self, rows: pa.Table) -> FileFormat:
        """The settings of one file whose first rows these are."""
        from txlog.core.format.type_support import type_support

        forms: list[tuple[tuple[int, ...], FileForm]] = []
        schema = self.schema
        for column in self.by_package:
            support = type_support(column.type)
            at, *inside = column.places
            first = rows.column(at).combine_chunks()
            for place in inside:
                first = first.flatten()[place]
            form = None if support is None else support.file_form(self.configuration, column.names, first)
            if form is not None:
                forms.append((column.places, form))
                schema = schema.set(at, _retyped(schema.field(at), inside, form.kind))
        if not forms:
            return self
        leaves = self.statistics.leaves_in(schema)
        return replace(self, schema=schema, leaves=leaves, forms=tuple(forms))

    def in_form(self, rows: pa.Table) -> pa.Table:
        """The rows as the file stores them."""
        for (at, *inside), form in self.forms:
            stored = [_stored(chunk, inside, form) for chunk in rows.column(at).chunks]
            kind = _retyped(rows.field(at), inside, form.kind)
            rows = rows.set_column(at, kind, pa.chunked_array(stored, kind.type))
        return rows

    @cached_property
    def footer_statistics(self) -> bool | list[str]:
        """The Parquet paths of the columns whose row groups have statistics in the footer: all (True) but floats.

        Parquet's bounds leave NaN out, and a reader to which NaN is the greatest number, such as Spark, would skip
        row groups that hold the rows it looks for. The log's statistics have a float's bounds if it has no NaN.
        """
        return _columns_with_statistics(self.schema)

    def labelled(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of ``columns`` under the file's names, including nested ones; no values are copied."""
        if not self.is_mapped:
            return batch
        columns = [_labelled(column, field.type) for column, field in zip(batch.columns, self.schema, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _retyped(field: pa.Field, places: Sequence[int], kind: pa.DataType) -> pa.Field:
    """The field with another type at these places in it."""
    if not places:
        return field.with_type(kind)
    members = [*field.type]
    members[places[0]] = _retyped(members[places[0]], places[1:], kind)
    return field.with_type(pa.struct(members))


def _stored(array: Any, places: Sequence[int], form: FileForm) -> pa.Array:
    """The column in which what is at these places has the file's form."""
    if not places:
        return form.stored(array)
    members = array.flatten()  # with the nulls of the struct around them
    members[places[0]] = _stored(members[places[0]], places[1:], form)
    fields = [member.with_type(found.type) for member, found in zip(array.type, members, strict=True)]
    return pa.StructArray.from_arrays(members, fields=fields, mask=array.is_null() if array.null_count else None)


def _names_at(schema: pa.Schema, places: Sequence[int]) -> tuple[str, ...]:
    names: list[str] = []
    fields: Any = schema
    for place in places:
        names.append(fields.field(place).name)
        fields = fields.field(place).type
    return tuple(names)


def _labelled(array: Any, kind: pa.DataType) -> pa.Array:
    """The same values as a type that differs only in names, and has no fields without a type.

    Not through Arrow's C interface, which loses the buffer of an empty slice, and then cannot join the chunks.
    """
    if array.type == kind:
        return array
    if pa.types.is_struct(kind):
        stored = [at for at, member in enumerate(array.type) if not pa.types.is_null(member.type)]
        members = [_labelled(array.field(at), member.type) for at, member in zip(stored, kind, strict=True)]
        return pa.StructArray.from_arrays(members, fields=[*kind], mask=array.is_null() if array.null_count else None)
    is_map = pa.types.is_map(kind)
    values = _labelled(array.values, pa.struct([kind.key_field, kind.item_field]) if is_map else kind.value_type)
    return pa.Array.from_buffers(
        kind, len(array), array.buffers()[:2], array.null_count, array.offset, children=[values]
    )


class DataFileWriter:
    """Writes one file. Readers see nothing before `finish`, and nothing after `abort`.

    With ``in_one_piece``, the encoded bytes wait in memory and go to the store together, so a small file is a single
    write, and no handle stays open meanwhile.
    """

    def __init__(
        self,
        files: FileStore,
        path: str,
        file_format: FileFormat,
        partition_values: dict[str, str | None],
        dictionary: tuple[str, ...],
        *,
        in_one_piece: bool = False,
        rows_expected: int = 0,
    ) -> None:
        settings = file_format.parquet
        self._format = file_format
        self._row_group_bytes, self._row_group_rows = settings.row_group_bytes, settings.row_group_rows

        self._files = files
        self._path = path
        self._partition_values = partition_values
        self._statistics = FileStatistics(file_format.statistics, file_format.leaves)
        self._collected: list[Any] = []
        self._output: OutputFile | None = None if in_one_piece else files.create(path)
        self._sink = pa.BufferOutputStream() if self._output is None else _arrow_sink(self._output)
        try:
            self._writer = _parquet_writer(self._sink, file_format, dictionary, rows_expected, self._collected)
        except BaseException as error:
            if self._output is not None:
                self._output.abort()
            if isinstance(error, OSError):
                raise self._not_stored(error) from error
            raise
        self.num_rows = 0

    @property
    def size_bytes(self) -> int:
        """Encoded bytes so far, without the footer and an unfinished row group."""
        return int(self._sink.tell())

    def write(self, table: pa.Table) -> None:
        """Append rows as one row group, or as several of about equal size if it would be larger than the settings
        allow."""
        chunks = table.column(0).num_chunks
        if chunks > 1 and table.num_rows < chunks * SMALL_CHUNK_ROWS:
            table = table.combine_chunks()
        self._statistics.observe(table)
        if self._format.forms:
            table = self._format.in_form(table)
        try:
            self._writer.write_table(table, row_group_size=self._group_rows(table))
        except OSError as error:
            raise self._not_stored(error) from error
        self.num_rows += table.num_rows

    def _group_rows(self, table: pa.Table) -> int:
        rows = table.num_rows
        groups: int = 1 if self._row_group_rows is None else -(-rows // self._row_group_rows)
        if self._row_group_bytes is not None:
            groups = max(groups, min(-(-table.nbytes // self._row_group_bytes), rows))
        group_rows: int = max(-(-rows // max(groups, 1)), 1)
        return group_rows

    def finish(self) -> PendingFile:
        """Close and publish: the bytes are durable under the final name. Raises StorageError."""
        try:
            self._writer.close()
        except OSError as error:
            raise self._not_stored(error) from error
        footer = self._collected[0]
        if footer.num_rows != self.num_rows:
            raise StorageError(
                f"{self.num_rows} rows were written but the footer says {footer.num_rows}: the file was not published",
                path=self._path,
            )
        for places, form in self._format.forms:
            self._statistics.bound(_names_at(self._format.schema, places), *form.bounds())
        stats = self._statistics.finish(footer)
        tail = None
        if self._output is None:
            encoded = self._sink.getvalue()
            meta = self._files.write(self._path, encoded)
            tail = FileTail.of(encoded)
        else:
            meta = self._output.publish()
        return PendingFile(
            path=self._path,
            size_bytes=meta.size,
            num_rows=self.num_rows,
            modified_ms=meta.modified_ms,
            partition_values=self._partition_values,
            stats=stats,
            _tail=tail,
        )

    def abort(self) -> None:
        """Remove the file: no readable file stays. Never raises."""
        if self._output is not None:
            self._output.abort()
        # a writer that is garbage-collected while open would write its footer into the sink
        self._writer.is_open = False

    def _not_stored(self, error: OSError) -> StorageError:
        """The error to raise. Arrow reports a full or broken disk as the operating system does."""
        why = error.strerror or error
        return StorageError(
            f"could not write {self._path}: {why}. No commit names it; fix the cause and run it again", path=self._path
        )


def encoded(rows: pa.Table, file_format: FileFormat, dictionary: tuple[str, ...]) -> pa.Buffer:
    """A Parquet file with one row group: these rows of all columns of ``file_format``, or of some.

    Columns that are dictionaries in memory get no statistics; to find these takes Arrow twice as long as all else.
    """
    sink = pa.BufferOutputStream()
    schema = None if rows.schema.equals(file_format.schema) else rows.schema
    writer = _parquet_writer(sink, file_format, dictionary, rows.num_rows, [], schema)
    writer.write_table(rows, row_group_size=max(rows.num_rows, 1))
    writer.close()
    return sink.getvalue()


def _parquet_writer(
    sink: Any,
    file_format: FileFormat,
    dictionary: tuple[str, ...],
    rows_expected: int,
    collected: list[Any],
    schema: pa.Schema | None = None,
) -> Any:
    """What `open_writer` returns, with the settings of a table; ``schema`` has the columns to write, None means all.

    Decimals of up to 18 digits are stored as integers, as Spark writes them and Iceberg wants them: Arrow reads them in
    half the time (measured). The footer is in ``collected`` at the end.
    """
    from txlog.core.format.arrow.parquet_writer import open_writer

    return open_writer(
        sink,
        file_format.schema if schema is None else schema,
        collected,
        use_dictionary=list(dictionary) or False,
        store_schema=False,
        store_decimal_as_integer=True,
        write_statistics=file_format.footer_statistics if schema is None else _columns_with_statistics(schema),
        **_arguments(file_format, rows_expected),
    )


def _columns_with_statistics(schema: pa.Schema) -> bool | list[str]:
    leaves = [leaf for field in schema for leaf in _leaf_types(field.name, field.type)]
    without = {path for path, kind in leaves if pa.types.is_floating(kind) or pa.types.is_dictionary(kind)}
    return [path for path, _ in leaves if path not in without] if without else True


def _arguments(file_format: FileFormat, rows_expected: int) -> dict[str, Any]:
    """The settings of the table as arguments of a ``ParquetWriter``."""
    found: dict[str, Any] = {
        "compression": file_format.parquet.codec,
        "dictionary_pagesize_limit": DICTIONARY_PAGE_BYTES,
    }
    if file_format.options is not None:
        found |= file_format.options.arguments
        if file_format.options.bloom_filters:
            rows = max(rows_expected, 1)
            found["bloom_filter_options"] = {
                path: {"ndv": rows, **each} for path, each in file_format.options.bloom_filters.items()
            }
    return found


def _arrow_sink(output: OutputFile) -> Any:
    """Arrow's own file, which knows its position; a Python file is wrapped."""
    sink = output.sink
    return sink if isinstance(sink, pa.NativeFile) else pa.PythonFile(sink, mode="w")


# --- dictionary encoding -------------------------------------------------------------------------------------------


DICTIONARY_PAGE_BYTES = 8 << 20
"""Above this size, a column chunk falls back to plain encoding.

Parquet's usual 1 MiB is too small for large row groups.
"""

SAMPLE_ROWS_MIN = 1_000
"""A dictionary saves next to nothing on fewer rows."""

_SLICES = 8
_SLICE_ROWS = 2_500

_TEXT_SHARE = 1 / 4
_NUMBER_SHARE = 1 / 64
"""The maximum share of distinct values at which a dictionary saves space."""


def dictionary_columns(rows: pa.Table) -> tuple[str, ...]:
    """Parquet paths of the columns of ``rows`` that get a dictionary."""
    if rows.num_rows < SAMPLE_ROWS_MIN:
        return ()
    samples = _samples(rows)
    return tuple(
        path
        for name in rows.column_names
        for path, slices in _leaves(name, [sample.column(name) for sample in samples])
        if _pays(slices, rows.num_rows)
    )


def _samples(rows: pa.Table) -> list[pa.RecordBatch]:
    """Slices spread over the rows, so neither sorted data nor a long first run misleads."""
    step = max(rows.num_rows // _SLICES, _SLICE_ROWS)
    slices = (rows.slice(start, _SLICE_ROWS).combine_chunks() for start in range(0, rows.num_rows, step))
    return [batch for table in slices for batch in table.to_batches()]


def _leaf_types(path: str, kind: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    """A column's leaf columns by their Parquet paths, with their types."""
    if pa.types.is_struct(kind):
        for member in kind:
            yield from _leaf_types(f"{path}.{member.name}", member.type)
    elif pa.types.is_map(kind):
        yield from _leaf_types(f"{path}.key_value.key", kind.key_type)
        yield from _leaf_types(f"{path}.key_value.value", kind.item_type)
    elif pa.types.is_list(kind):
        yield from _leaf_types(f"{path}.list.element", kind.value_type)
    else:
        yield path, kind


def _leaves(path: str, slices: list[pa.Array]) -> Iterator[tuple[str, list[pa.Array]]]:
    """A column's leaf columns by their Parquet paths."""
    kind = slices[0].type
    if pa.types.is_struct(kind):
        for position, member in enumerate(kind):
            yield from _leaves(f"{path}.{member.name}", [values.field(position) for values in slices])
    elif pa.types.is_map(kind):
        from txlog.core.format.arrow.arrays import as_list_of_entries

        entries = [as_list_of_entries(values).flatten() for values in slices]
        yield from _leaves(f"{path}.key_value.key", [values.field(0) for values in entries])
        yield from _leaves(f"{path}.key_value.value", [values.field(1) for values in entries])
    elif pa.types.is_list(kind):
        yield from _leaves(f"{path}.list.element", [values.flatten() for values in slices])
    else:
        yield path, [values.slice(0, _SLICE_ROWS) for values in slices]


def _pays(slices: list[pa.Array], num_rows: int) -> bool:
    from txlog.core.format.arrow.compute import pc

    kind = slices[0].type
    sampled = sum(map(len, slices))
    if pa.types.is_boolean(kind) or not sampled:
        return False
    is_text = pa.types.is_string(kind) or pa.types.is_binary(kind)
    share = _TEXT_SHARE if is_text else _NUMBER_SHARE
    enough = int(share * num_rows) + 1
    looks_first = sampled <= num_rows and 2 * enough <= len(slices[0])
    if looks_first and pc.count_distinct(slices[0].slice(0, 2 * enough)).as_py() >= enough:
        return False  # so many distinct values in the first rows are too many for all rows
    overall = pc.count_distinct(pa.chunked_array(slices)).as_py()
    if overall > 0.9 * sampled:
        return False  # nearly every value is distinct: shared values of the slices do not matter
    in_slices = overall if len(slices) == 1 else sum(pc.count_distinct(values).as_py() for values in slices)
    distinct = _expected_distinct(sampled, in_slices, overall, num_rows)
    width = sum(values.nbytes for values in slices) / sampled
    return distinct <= num_rows * share and distinct * width <= DICTIONARY_PAGE_BYTES


def _expected_distinct(sampled: int, in_slices: int, overall: int, num_rows: int) -> float:
    """The likely number of distinct values in ``num_rows`` rows.

    If the slices share almost no values, each range of rows has its own, and the number grows with the rows. Otherwise
    values are drawn from a pool, whose size follows from the number of distinct values in the sample.
    """
    if overall > 0.9 * in_slices:
        return num_rows * overall / sampled
    low, high = float(overall), 100.0 * sampled
    while high - low > 0.01 * low + 1:
        pool = (low + high) / 2
        if pool * -math.expm1(-sampled / pool) < overall:
            low = pool
        else:
            high = pool
    return high * -math.expm1(-num_rows / high)
