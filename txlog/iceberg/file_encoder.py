"""The files of a Delta commit as entries of Iceberg manifests: paths, partition values, counts and bounds.

In: ``add`` actions and delete files, under one definition of the table. Out: the bytes of ``data_file`` records, and
summaries of partition values. Iceberg spec, "Data File Fields".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from txlog.iceberg.avro import NULL, SOME, encode_bytes, encode_long
from txlog.iceberg.definition import Definition
from txlog.iceberg.deletes import DeleteFile
from txlog.iceberg.manifest import NO_SIZES, nullable_blobs, nullable_longs
from txlog.iceberg.manifest_list import PartitionSummary
from txlog.iceberg.values import avro_encoder, bound_encoder, order_key
from txlog.protocol.actions import AddFile
from txlog.protocol.partition_values import decode
from txlog.protocol.paths import resolve_data_path
from txlog.protocol.statistics_read import StatisticsReader

__all__ = ["PARQUET", "FileEncoder", "PartitionValues", "location_of"]

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

    def __init__(self, definition: Definition, root: str) -> None:
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
