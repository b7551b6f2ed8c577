"""Deletion vectors as Iceberg's delete files, held against pyarrow and the byte layout of Puffin's specification."""

from __future__ import annotations

import io
import zlib

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from txlog.core.format.deletion_vector_bytes import bitmap_bytes, pack_vectors
from txlog.errors import CorruptLogError
from txlog.iceberg.metadata.deletes import DeleteFile, Vector, delete_files

BASE = "s3://bucket/table/_iceberg/metadata"
positions = st.sets(st.integers(0, 2**33), min_size=1, max_size=30)


def vector(number: int, rows: set[int]) -> Vector:
    bitmap = bitmap_bytes(BitMap64(rows))
    return Vector(f"s3://bucket/table/part-{number}.parquet", bitmap, len(rows))


@given(st.lists(positions, min_size=1, max_size=4))
def test_version_2_has_one_parquet_file_of_positions_for_each_data_file(rows: list[set[int]]) -> None:
    vectors = [vector(number, each) for number, each in enumerate(rows)]
    files, entries = delete_files(vectors, 7, 2, BASE)
    for file, entry, given_vector, dead in zip(files, entries, vectors, rows, strict=True):
        assert entry == DeleteFile(
            given_vector.data_file, f"{BASE}/{file.name}", "PARQUET", len(dead), len(file.body), None, None
        )
        found = pq.read_table(io.BytesIO(file.body))
        assert found.to_pydict() == {"file_path": [given_vector.data_file] * len(dead), "pos": sorted(dead)}


def test_the_columns_of_a_file_of_positions_have_icebergs_ids_and_are_required() -> None:
    [file], _ = delete_files([vector(0, {1})], 7, 2, BASE)
    schema = pq.read_schema(io.BytesIO(file.body))
    key = b"PARQUET:field_id"
    assert [(each.name, each.type, each.nullable, each.metadata[key]) for each in schema] == [
        ("file_path", pa.string(), False, b"2147483546"),
        ("pos", pa.int64(), False, b"2147483545"),
    ]


@given(st.lists(positions, min_size=1, max_size=4))
def test_version_3_has_one_puffin_file_whose_blobs_are_deltas_bytes(rows: list[set[int]]) -> None:
    vectors = [vector(number, each) for number, each in enumerate(rows)]
    [file], entries = delete_files(vectors, 7, 3, BASE)
    [delta] = pack_vectors([BitMap64(each) for each in rows])
    body = file.body
    assert body[:4] == body[-4:] == b"PFA1"
    size = int.from_bytes(body[-12:-8], "little")
    assert body[-8:-4] == bytes(4)
    assert body[-16 - size : -12 - size] == b"PFA1"
    blobs = orjson.loads(body[-12 - size : -12])["blobs"]
    for entry, blob, given_vector, (offset, length, count) in zip(entries, blobs, vectors, delta.places, strict=True):
        assert (entry.path, entry.format, entry.size_bytes) == (f"{BASE}/{file.name}", "PUFFIN", len(body))
        assert (entry.data_file, entry.records) == (given_vector.data_file, count)
        assert blob == {
            "type": "deletion-vector-v1",
            "fields": [2147483645],
            "snapshot-id": -1,
            "sequence-number": -1,
            "offset": entry.offset,
            "length": entry.length,
            "properties": {"referenced-data-file": given_vector.data_file, "cardinality": str(count)},
        }
        assert entry.offset is not None
        assert entry.length is not None
        block = body[entry.offset : entry.offset + entry.length]
        assert block == delta.body[offset : offset + 8 + length]
        assert zlib.crc32(block[4:-4]) == int.from_bytes(block[-4:], "big")


@pytest.mark.parametrize("format_version", [2, 3])
def test_names_of_delete_files_are_derived_from_their_content_and_version(format_version: int) -> None:
    files, _ = delete_files([vector(0, {1, 2})], 7, format_version, BASE)
    assert files == delete_files([vector(0, {1, 2})], 7, format_version, BASE)[0]
    assert files != delete_files([vector(0, {1, 3})], 7, format_version, BASE)[0]
    assert all(file.name.startswith(f"{7:020d}-") for file in files)


@pytest.mark.parametrize("format_version", [2, 3])
def test_a_version_without_vectors_has_no_delete_files(format_version: int) -> None:
    assert delete_files([], 7, format_version, BASE) == ([], [])


def test_a_bitmap_that_does_not_hold_what_it_counts_is_no_delete_file() -> None:
    found = vector(0, {1, 2})
    with pytest.raises(CorruptLogError, match="marks 2 rows"):
        delete_files([Vector(found.data_file, found.bitmap, 3)], 7, 2, BASE)
