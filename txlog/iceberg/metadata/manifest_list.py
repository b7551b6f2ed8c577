"""Manifest lists: a snapshot's Avro file that names its manifests, with counts and ranges of partition values.

In: ``ManifestFile`` values. Out: the bytes of a list, and values read back. Iceberg spec, "Manifest Lists".
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from txlog.core.util import cached_property
from txlog.errors import IcebergExportError
from txlog.iceberg.metadata.avro import (
    NULL,
    SOME,
    AvroError,
    encode_bytes,
    encode_long,
    read_container,
    reader_of,
    write_container,
)


class PartitionSummary(NamedTuple):
    """A summary of the values of one partition field in a manifest: nulls, NaNs, and bounds as single-value bytes."""

    contains_null: bool
    contains_nan: bool
    lower: bytes | None
    upper: bytes | None


class ManifestFile(msgspec.Struct, frozen=True, dict=True):
    """The description of one manifest in a manifest list. ``path`` is absolute, ``length`` in bytes.

    ``sequence_number`` belongs to the snapshot that added the manifest. ``first_row_id`` is the first row id that v3
    reserves for its rows (None in v2, and for delete files).
    """

    path: str
    length: int
    partition_spec_id: int
    content: int
    sequence_number: int
    min_sequence_number: int
    added_snapshot_id: int
    added_files: int
    existing_files: int
    deleted_files: int
    added_rows: int
    existing_rows: int
    deleted_rows: int
    partitions: tuple[PartitionSummary, ...]
    first_row_id: int | None = None

    @property
    def live_files(self) -> int:
        return self.added_files + self.existing_files

    @cached_property
    def size_class(self) -> int:
        """The number of bits in the count of live files; 0 if there are none."""
        return self.live_files.bit_length()

    @cached_property
    def _encoded(self) -> bytes:
        """The entry without v3's field. A manifest stays in many lists, so its entry is encoded once."""
        numbers = (
            self.length,
            self.partition_spec_id,
            self.content,
            self.sequence_number,
            self.min_sequence_number,
            self.added_snapshot_id,
            self.added_files,
            self.existing_files,
            self.deleted_files,
            self.added_rows,
            self.existing_rows,
            self.deleted_rows,
        )
        summaries = [_encoded_summary(each) for each in self.partitions]
        listed = [encode_long(len(summaries)), *summaries, b"\0"] if summaries else [b"\0"]
        return b"".join([encode_bytes(self.path.encode()), *[encode_long(number) for number in numbers], SOME, *listed])

    def encoded(self, format_version: int) -> bytes:
        if format_version < 3:
            return self._encoded
        first = self.first_row_id
        return self._encoded + (NULL if first is None else SOME + encode_long(first))


def write_manifest_list(
    manifests: Sequence[ManifestFile],
    *,
    snapshot_id: int,
    parent_id: int | None,
    sequence_number: int,
    format_version: int,
) -> bytes:
    """The bytes of a snapshot's manifest list."""
    header = {
        "snapshot-id": b"%d" % snapshot_id,
        "parent-snapshot-id": b"null" if parent_id is None else b"%d" % parent_id,
        "sequence-number": b"%d" % sequence_number,
        "format-version": b"%d" % format_version,
    }
    records = [manifest.encoded(format_version) for manifest in manifests]
    return write_container(_schema_text(format_version), header, records)


def read_manifest_list(body: bytes, path: str) -> tuple[ManifestFile, ...]:
    """The manifests in a list that `write_manifest_list` wrote, in whichever format: older snapshots keep theirs.

    Raises IcebergExportError with ``path`` if the bytes are not such a list.
    """
    found = []
    try:
        container = read_container(body)
        read = reader_of(_schema(int(container.header["format-version"])))
        for count, block in container.blocks:
            at = 0
            for _ in range(count):
                record, at = read(block, at)
                found.append(_manifest_file(record))
    except (AvroError, LookupError, ValueError) as error:
        raise IcebergExportError(
            f"an Iceberg manifest list cannot be read: {error}. Export the table again with rebuild=True", path=path
        ) from None
    return tuple(found)


def _manifest_file(record: dict[str, Any]) -> ManifestFile:
    values: list[Any] = list(record.values())
    values[13] = tuple(PartitionSummary(*summary.values()) for summary in values[13] or ())
    return ManifestFile(*values)


def _encoded_summary(summary: PartitionSummary) -> bytes:
    return b"".join(
        (
            b"\1" if summary.contains_null else b"\0",
            SOME,
            b"\1" if summary.contains_nan else b"\0",
            NULL if summary.lower is None else SOME + encode_bytes(summary.lower),
            NULL if summary.upper is None else SOME + encode_bytes(summary.upper),
        )
    )


@functools.lru_cache(4)
def _schema_text(format_version: int) -> bytes:
    return json.dumps(_schema(format_version), separators=(",", ":")).encode()


def _schema(format_version: int) -> dict[str, Any]:
    summary = {
        "type": "record",
        "name": "r508",
        "fields": [
            {"name": "contains_null", "type": "boolean", "field-id": 509},
            {"name": "contains_nan", "type": ["null", "boolean"], "default": None, "field-id": 518},
            {"name": "lower_bound", "type": ["null", "bytes"], "default": None, "field-id": 510},
            {"name": "upper_bound", "type": ["null", "bytes"], "default": None, "field-id": 511},
        ],
    }
    fields: list[dict[str, Any]] = [{"name": "manifest_path", "type": "string", "field-id": 500}]
    fields += [{"name": name, "type": kind, "field-id": field_id} for name, kind, field_id in _NUMBERS]
    listed = {"type": "array", "items": summary, "element-id": 508}
    fields.append({"name": "partitions", "type": ["null", listed], "default": None, "field-id": 507})
    if format_version >= 3:
        fields.append({"name": "first_row_id", "type": ["null", "long"], "default": None, "field-id": 520})
    return {"type": "record", "name": "manifest_file", "fields": fields}


_NUMBERS = (
    ("manifest_length", "long", 501),
    ("partition_spec_id", "int", 502),
    ("content", "int", 517),
    ("sequence_number", "long", 515),
    ("min_sequence_number", "long", 516),
    ("added_snapshot_id", "long", 503),
    ("added_files_count", "int", 504),
    ("existing_files_count", "int", 505),
    ("deleted_files_count", "int", 506),
    ("added_rows_count", "long", 512),
    ("existing_rows_count", "long", 513),
    ("deleted_rows_count", "long", 514),
)
