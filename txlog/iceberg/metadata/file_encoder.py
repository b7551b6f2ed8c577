"""Files of a Delta commit as entries of Iceberg manifests: paths, partition values, counts and bounds.

In: ``add`` actions and delete files, or live files as ``FILES_SCHEMA``, under one definition of the table. Out: the
bytes of ``data_file`` records, and summaries of partition values. `FileEncoder` encodes one file; `encode_files` makes
the same bytes for a table of files, column by column, at a tenth of the cost, and leaves to `FileEncoder` files without
a row count, and statistics that Arrow reads differently. Iceberg spec, "Data File Fields".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import txlog.core.format.arrow.python_values  # noqa: F401  has pyarrow import pandas
from txlog.core.format.actions import AddFile
from txlog.core.format.arrow.arrays import (
    flags_of,
    from_flags,
    from_numbers,
    numbers_of,
    partition_texts,
    visible_member,
)
from txlog.core.format.file_columns import add_files_of
from txlog.core.format.partition_values import decode
from txlog.core.format.paths import resolve_data_path
from txlog.core.format.schema import DataType
from txlog.core.format.statistics_read import StatisticsReader, num_records
from txlog.core.predicates.skipping import BoundsColumns, bounds_of_parsed, leaves_of, parsed_statistics
from txlog.iceberg.metadata.avro import (
    NULL,
    SOME,
    binary_array,
    blobs,
    constant,
    encode_bytes,
    encode_long,
    fixed_blobs,
    joined,
    longs,
    maps,
)
from txlog.iceberg.metadata.definition import IcebergDefinition
from txlog.iceberg.metadata.deletes import DeleteFile
from txlog.iceberg.metadata.manifest import NO_SIZES, nullable_blobs, nullable_longs
from txlog.iceberg.metadata.manifest_list import PartitionSummary
from txlog.iceberg.metadata.values import avro_encoder, bound_encoder, fixed_form, order_key

PartitionValues: TypeAlias = "tuple[Any, ...]"
"""The value of each partition field of one file, None for null."""

_FILE_PATH_ID = 2_147_483_546  # Iceberg's reserved id of the column ``file_path`` in position delete files
PARQUET = encode_bytes(b"PARQUET")


def location_of(uri_text: str, root: str) -> str:
    """The absolute location of the file that ``add.path`` names. ``root`` is the table's URI."""
    found = resolve_data_path(uri_text)
    if found.is_relative:
        return f"{root}/{found.path}"
    return f"{found.scheme or 'file'}://{found.authority}{found.path}"


class FileEncoder:
    """Encodes files of tables with one definition. ``root`` is the table's URI, with a scheme."""

    def __init__(self, definition: IcebergDefinition, root: str) -> None:
        self._root = root
        self._is_v3 = definition.format_version >= 3
        self._statistics = StatisticsReader(definition.physical)
        self._columns = [
            (leaf.path, encode_long(leaf.field_id), bound_encoder(leaf.type), bound_encoder(leaf.type, upper=True))
            for leaf in definition.leaves
        ]
        self._partition = [
            (field, avro_encoder(field.type), bound_encoder(field.type), bound_encoder(field.type, upper=True))
            for field in definition.partition
        ]
        self._order = [order_key(field.type) for field in definition.partition]

    def location(self, uri_text: str) -> str:
        return location_of(uri_text, self._root)

    def partition_values(self, texts: Mapping[str, str | None]) -> PartitionValues:
        """The typed values of a file's ``partitionValues``. Raises CorruptLogError if one does not fit its column's
        type."""
        return tuple(
            decode(texts.get(field.physical_name), field.type, column=field.name) for field, *_ in self._partition
        )

    def partition_bytes(self, values: PartitionValues) -> bytes:
        return b"".join(
            [
                NULL if value is None else SOME + encode(value)
                for value, (_, encode, _, _) in zip(values, self._partition, strict=True)
            ]
        )

    def data_file(
        self, add: AddFile, rows_of: Callable[[AddFile], int], first_row_id: int | None = None
    ) -> tuple[bytes, int]:
        """A data file's record and its row count.

        Args:
            add: The file.
            rows_of: Counts the rows of a file whose statistics have no count.
            first_row_id: The id of its first row, if the file itself has none (v3).
        """
        known = self._statistics.read(add.stats)
        rows = rows_of(add) if known.num_records is None else known.num_records
        counts: list[tuple[bytes, int]] = []
        nulls: list[tuple[bytes, int]] = []
        lower: list[tuple[bytes, bytes]] = []
        upper: list[tuple[bytes, bytes]] = []
        for path, key, low, high in self._columns:
            null_count = known.null_count.get(path)
            if null_count is not None:
                counts.append((key, rows))
                nulls.append((key, null_count))
            _bound(lower, key, low, known.minimum.get(path))
            _bound(upper, key, high, known.maximum.get(path))
        if add.base_row_id is not None:
            first_row_id = add.base_row_id
        partition = self.partition_bytes(self.partition_values(add.partition_values))
        body = b"".join(
            (
                b"\0",
                encode_bytes(self.location(add.path).encode()),
                PARQUET,
                partition,
                encode_long(rows),
                encode_long(add.size),
                NO_SIZES,
                nullable_longs(counts),
                nullable_longs(nulls),
                nullable_blobs(lower),
                nullable_blobs(upper),
                NULL,
                self._v3(_nullable(first_row_id)),
                NULL,
                self._v3(NULL, NULL),
            )
        )
        return body, rows

    def delete_file(self, file: DeleteFile, partition: PartitionValues) -> bytes:
        """The record of a delete file. Its bounds name the one data file that it applies to.

        A deletion vector needs no bounds, but PyIceberg finds it only by its bounds or its partition, and NaN is not
        equal to itself.
        """
        about = file.data_file.encode()
        bounds = nullable_blobs([(encode_long(_FILE_PATH_ID), about)])
        return b"".join(
            (
                encode_long(1),
                encode_bytes(file.path.encode()),
                encode_bytes(file.format.encode()),
                self.partition_bytes(partition),
                encode_long(file.records),
                encode_long(file.size_bytes),
                NO_SIZES,
                NULL,
                NULL,
                bounds,
                bounds,
                NULL,
                self._v3(NULL),
                SOME + encode_bytes(about),
                self._v3(_nullable(file.offset), _nullable(file.length)),
            )
        )

    def _v3(self, *fields: bytes) -> bytes:
        return b"".join(fields) if self._is_v3 else b""

    # --- summaries of partition values -----------------------------------------------------------------------

    def summaries(self, files: Sequence[PartitionValues]) -> tuple[PartitionSummary, ...]:
        """For each partition field, a summary of its values in ``files``."""
        found = []
        for at, (_, _, low, high) in enumerate(self._partition):
            values = [values[at] for values in files if values[at] is not None]
            numbers = [value for value in values if value == value]
            found.append(
                PartitionSummary(
                    len(values) < len(files),
                    len(numbers) < len(values),
                    low(min(numbers)) if low and numbers else None,
                    high(max(numbers)) if high and numbers else None,
                )
            )
        return tuple(found)

    def union(self, parts: Sequence[tuple[PartitionSummary, ...]]) -> tuple[PartitionSummary, ...]:
        """Summaries that cover everything in ``parts``."""
        return tuple(
            PartitionSummary(
                any(each.contains_null for each in field),
                any(each.contains_nan for each in field),
                min((each.lower for each in field if each.lower is not None), key=order, default=None),
                max((each.upper for each in field if each.upper is not None), key=order, default=None),
            )
            for order, field in zip(self._order, zip(*parts, strict=True), strict=True)
        )

    def may_hold(self, summaries: Sequence[PartitionSummary], files: Iterable[PartitionValues]) -> bool:
        """Whether a manifest with these summaries may hold a file with one of these partition values."""
        return any(self._may_hold(summaries, values) for values in files)

    def _may_hold(self, summaries: Sequence[PartitionSummary], values: PartitionValues) -> bool:
        for value, summary, order, (_, _, low, _) in zip(values, summaries, self._order, self._partition, strict=True):
            if value is None:
                fits = summary.contains_null
            elif value != value:
                fits = summary.contains_nan
            elif summary.lower is None or summary.upper is None:
                fits = False
            else:
                encoded = low(value) if low else None
                fits = encoded is None or order(summary.lower) <= order(encoded) <= order(summary.upper)
            if not fits:
                return False
        return True


def _bound(found: list[tuple[bytes, bytes]], key: bytes, encode: Any, value: Any) -> None:
    if encode is not None and value is not None:
        encoded = encode(value)
        if encoded is not None:
            found.append((key, encoded))


def _nullable(number: int | None) -> bytes:
    return NULL if number is None else SOME + encode_long(number)


# --- many files at once --------------------------------------------------------------------------------------------


_PLAIN_PATH = "^[A-Za-z0-9_=-][A-Za-z0-9_.=-]*(/[A-Za-z0-9_=-][A-Za-z0-9_.=-]*)*$"


class EncodedTable(NamedTuple):
    """Each file's record, its row count, and the index of its partition values in ``partitions``.

    ``next_row_id`` is the row id after the last one; None in v2.
    """

    records: pa.BinaryArray
    rows: Any
    partition_numbers: Any
    partitions: list[PartitionValues]
    next_row_id: int | None


def encode_files(
    files: pa.Table,
    definition: IcebergDefinition,
    encoder: FileEncoder,
    rows_of: Callable[[AddFile], int],
    next_row_id: int | None,
) -> EncodedTable:
    """Encode a table of live files.

    Args:
        files: As ``FILES_SCHEMA``, in the order of the result.
        definition: The table's definition.
        encoder: The encoder for single files of this definition.
        rows_of: Counts the rows of a file whose statistics have no count.
        next_row_id: The first unused row id; None in v2.

    Raises:
        CorruptLogError: A path or a partition value is not valid.
    """
    rows, odd, statistics = _statistics(files.column("stats").combine_chunks(), definition)
    singles = {at: add_files_of(files.slice(at, 1))[0] for at in np.flatnonzero(odd).tolist()}
    for at, add in singles.items():
        known = num_records(add.stats)
        rows[at] = rows_of(add) if known is None else known
    numbers, partitions = _partitions(files, encoder, definition)
    first_row_ids, next_row_id = _row_ids(files, rows, next_row_id)
    columns = [
        constant(b"\0"),
        blobs(_locations(files.column("path").combine_chunks(), encoder)),
        constant(PARQUET),
        binary_array([encoder.partition_bytes(values) for values in partitions]).take(from_numbers(numbers)),
        longs(rows),
        longs(numbers_of(files.column("size").combine_chunks())),
        constant(NO_SIZES),
        *statistics,
        constant(NULL),
    ]
    if next_row_id is not None:
        columns += [constant(SOME), longs(first_row_ids)]
    records = joined([*columns, constant(NULL * 3 if next_row_id is not None else NULL)])
    if singles:
        found = records.to_pylist()
        for at, add in singles.items():
            count = int(rows[at])
            found[at], _ = encoder.data_file(add, lambda _, count=count: count, first_row_ids[at])  # type: ignore[misc]
        records = binary_array(found)
    return EncodedTable(records, rows, numbers, partitions, next_row_id)


def _row_ids(files: pa.Table, rows: Any, next_row_id: int | None) -> tuple[Sequence[int | None], int | None]:
    """The first row id of each file: its own, or the next ones."""
    tracked = files.column("baseRowId").to_pylist()
    if next_row_id is None:
        return tracked, None
    found = []
    for base, count in zip(tracked, rows.tolist(), strict=True):
        first = next_row_id if base is None else base
        found.append(first)
        next_row_id = max(next_row_id, first + count)
    return found, next_row_id


def _locations(paths: pa.StringArray, encoder: FileEncoder) -> pa.Array:
    if not pc.all(pc.match_substring_regex(paths, _PLAIN_PATH)).as_py():
        return binary_array([encoder.location(text).encode() for text in paths.to_pylist()])
    return joined([constant(encoder.location("x")[:-1].encode()), paths.cast(pa.binary())])


def _partitions(
    files: pa.Table, encoder: FileEncoder, definition: IcebergDefinition
) -> tuple[Any, list[PartitionValues]]:
    """The partition values of the files: an index for each file, and the values; each combination is decoded once."""
    names = [field.physical_name for field in definition.partition]
    numbers = np.zeros(files.num_rows, np.int64)
    if not names:
        return numbers, [()]
    values = files.column("partitionValues").combine_chunks()
    for name in names:
        texts = partition_texts(values, name)[0].dictionary_encode(null_encoding="encode")
        combined = numbers * len(texts.dictionary) + numbers_of(texts.indices)
        _, first, numbers = np.unique(combined, return_index=True, return_inverse=True)
    found = values.take(from_numbers(first)).to_pylist()
    return numbers, [encoder.partition_values(dict(each)) for each in found]


# --- statistics ---------------------------------------------------------------------------------------------------


def _statistics(texts: pa.StringArray, definition: IcebergDefinition) -> tuple[Any, Any, list[Any]]:
    """Row counts (-1 if unknown), which files need `FileEncoder`, and columns of counts, nulls, lower and upper
    bounds."""
    leaves = leaves_of(definition.physical, frozenset(leaf.path for leaf in definition.leaves))
    unreadable = np.full(len(texts), -1), np.ones(len(texts), bool), [constant(NULL * 4)]
    if texts.null_count:
        return unreadable
    try:
        parsed = parsed_statistics(texts, leaves)
        bounds = bounds_of_parsed(parsed, leaves)
    except (pa.ArrowException, ValueError):
        return unreadable
    rows = _numbers(parsed.field("numRecords"))
    odd = bounds.odd | (rows < 0)
    ends = [_bounds(bounds, definition, len(texts), upper=upper) for upper in (False, True)]
    return rows, odd, [*_counts(parsed, rows, definition), *ends]


def _counts(parsed: pa.StructArray, rows: Any, definition: IcebergDefinition) -> list[Any]:
    """The maps from column id to value count and to null count."""
    loose = flags_of(pc.fill_null(pc.invert(parsed.field("tightBounds")), False))
    encoded = longs(rows)
    counts, nulls = [], []
    for leaf in definition.leaves:
        found = _numbers(visible_member(parsed.field("nullCount"), leaf.path))
        known = (found >= 0) & (found <= rows) & ~(loose & (found != 0) & (found != rows))
        key = encode_long(leaf.field_id)
        counts.append(
            (key, encoded if known.all() else pc.if_else(from_flags(known), encoded, binary_array([None])[0]))
        )
        nulls.append((key, longs(found, known)))
    return [maps(counts, len(rows)), maps(nulls, len(rows))]


def _bounds(bounds: BoundsColumns, definition: IcebergDefinition, length: int, *, upper: bool) -> Any:
    """For each file the map from column id to bound."""
    found = []
    for leaf in definition.leaves:
        column = bounds.columns[leaf.path]
        values = column.high if upper else column.low
        if values is None or values.null_count == length:
            continue
        form = fixed_form(leaf.type)
        encoded = _variable(values, leaf.type, upper=upper) if form is None else _fixed(values, form, upper=upper)
        found.append((encode_long(leaf.field_id), encoded))
    return maps(found, length)


def _fixed(values: pa.Array, form: str, *, upper: bool) -> pa.BinaryArray:
    """Bounds of a fixed width."""
    numbers = numbers_of(values)
    if form in ("<f4", "<f8"):  # as in `values.bound_encoder`: a bound of zero holds for both zeros
        numbers = np.where(numbers == 0, 0.0 if upper else -0.0, numbers)
    return fixed_blobs(numbers.astype(form), flags_of(values.is_valid()) if values.null_count else None)


def _variable(values: pa.Array, data_type: DataType, *, upper: bool) -> pa.BinaryArray:
    if pa.types.is_string(values.type):
        return blobs(values)
    encode = bound_encoder(data_type, upper=upper)
    assert encode is not None, "a type with bounds"
    return blobs(binary_array([None if value is None else encode(value) for value in values.to_pylist()]))


def _numbers(column: pa.Array) -> Any:
    """Numbers from 0; -1 for nulls and for negative numbers."""
    return np.maximum(np.where(flags_of(column.is_valid()), numbers_of(column), -1), -1)
