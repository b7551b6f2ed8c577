"""Deleted rows for Iceberg readers: Delta's deletion vectors as Iceberg's delete files.

In: the vectors that one Delta version gives to data files. Out: files to put, and each vector's position in them.
In format version 2, a vector becomes a Parquet file of positions. In version 3, all vectors of a version become one
Puffin file, whose blobs are Delta's bytes. Iceberg spec, "Position Delete Files", "Deletion Vectors"; Puffin spec.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Sequence

import msgspec
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from txlog.core.format.actions import DeletionVectorDescriptor
from txlog.core.format.deletion_vector import dead_rows
from txlog.iceberg.metadata.names import NewFile, content_name

DELETED_FILE_ID, DELETED_POSITION_ID = 2147483546, 2147483545
"""The field ids of ``file_path`` and ``pos`` in a file of positions."""

_ROW_POSITION_ID = 2147483645
_MAGIC = b"PFA1"
_NO_FLAGS = bytes(4)
_ROWS_MAX = 1 << 63


class Vector(msgspec.Struct, frozen=True):
    """The dead rows of one data file.

    ``data_file`` is its absolute URI, as in manifests; ``bitmap`` is a roaring bitmap after Delta's magic number
    (`DeletionVectorReader.bitmaps`).
    """

    data_file: str
    bitmap: bytes
    cardinality: int


class DeleteFile(msgspec.Struct, frozen=True):
    """The manifest entry of the delete file for one data file.

    ``format`` is ``PARQUET`` or ``PUFFIN``; ``offset`` and ``length`` are the position of the vector in a Puffin file.
    """

    data_file: str
    path: str
    format: str
    records: int
    size_bytes: int
    offset: int | None = None
    length: int | None = None


def delete_files(
    vectors: Sequence[Vector], version: int, format_version: int, base: str
) -> tuple[list[NewFile], list[DeleteFile]]:
    """The delete files of one Delta version.

    Args:
        vectors: At most one per data file.
        version: The Delta version, which is part of the names.
        format_version: 2 or 3.
        base: The URI of the metadata folder, without a trailing slash.

    Returns:
        The files to put into the folder, and one entry for each vector, in order.

    Raises:
        CorruptLogError: A vector is not a roaring bitmap, or marks another number of rows than the log says.
    """
    if not vectors:
        return [], []
    if format_version >= 3:
        return _puffin(vectors, version, base)
    files, entries = [], []
    for vector in vectors:
        body = _positions(vector)
        file = NewFile(content_name(version, body, "-deletes.parquet"), body)
        files.append(file)
        path = f"{base}/{file.name}"
        entries.append(DeleteFile(vector.data_file, path, "PARQUET", vector.cardinality, len(body)))
    return files, entries


def _positions(vector: Vector) -> bytes:
    """A Parquet file that names one data file in each row. Readers learn that data file from the bounds of the manifest
    entry."""
    counted = DeletionVectorDescriptor("i", "", cardinality=vector.cardinality)
    rows = dead_rows(vector.bitmap, counted, _ROWS_MAX).view("int64")
    names = pa.DictionaryArray.from_arrays(pa.nulls(len(rows), pa.int32()).fill_null(0), pa.array([vector.data_file]))
    schema = pa.schema(
        [
            pa.field("file_path", pa.string(), False, {b"PARQUET:field_id": str(DELETED_FILE_ID).encode()}),
            pa.field("pos", pa.int64(), False, {b"PARQUET:field_id": str(DELETED_POSITION_ID).encode()}),
        ]
    )
    table = pa.Table.from_arrays([names.cast(pa.string()), pa.array(rows)], schema=schema)
    body = io.BytesIO()
    pq.write_table(table, body, compression="zstd", store_schema=False)
    return body.getvalue()


def _puffin(vectors: Sequence[Vector], version: int, base: str) -> tuple[list[NewFile], list[DeleteFile]]:
    body = bytearray(_MAGIC)
    places = []
    blobs = []
    for vector in vectors:
        size, checksum = len(vector.bitmap), zlib.crc32(vector.bitmap)
        block = size.to_bytes(4, "big") + vector.bitmap + checksum.to_bytes(4, "big")
        places.append((len(body), len(block)))
        blobs.append(
            {
                "type": "deletion-vector-v1",
                "fields": [_ROW_POSITION_ID],
                "snapshot-id": -1,  # per the spec, inherited from the manifest
                "sequence-number": -1,
                "offset": len(body),
                "length": len(block),
                "properties": {"referenced-data-file": vector.data_file, "cardinality": str(vector.cardinality)},
            }
        )
        body += block
    footer = orjson.dumps({"blobs": blobs, "properties": {"created-by": "txlog"}})
    body += _MAGIC + footer + len(footer).to_bytes(4, "little") + _NO_FLAGS + _MAGIC
    file = NewFile(content_name(version, bytes(body), "-dv.puffin"), bytes(body))
    path = f"{base}/{file.name}"
    entries = [
        DeleteFile(vector.data_file, path, "PUFFIN", vector.cardinality, len(body), offset, length)
        for vector, (offset, length) in zip(vectors, places, strict=True)
    ]
    return [file], entries
