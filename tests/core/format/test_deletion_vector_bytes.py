"""Deletion vectors as they are written: held against the reader, and against the format's description byte by byte."""

from __future__ import annotations

import struct
import zlib

from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from txlog.core.format.deletion_vector import bitmap_in_block, block_size_bytes, dead_rows, vector_path
from txlog.core.format.deletion_vector_bytes import bitmap_bytes, pack_vectors, vector_file_name

UUID = "d2c639aa-8816-431a-aaf6-d3fe2512ff61"
positions = st.sets(st.integers(0, 2**34), min_size=1, max_size=40)


@given(st.lists(positions, min_size=1, max_size=6), st.sampled_from([64 << 20, 200, 1]))
def test_every_vector_comes_back_from_its_file_by_its_descriptor(vectors: list[set[int]], limit: int) -> None:
    found = []
    for packed in pack_vectors(map(BitMap64, vectors), file_size_max_bytes=limit):
        assert packed.body[:1] == b"\x01"
        assert len(packed.body) <= limit or len(packed.places) == 1
        for descriptor in packed.descriptors(UUID):
            assert descriptor.offset is not None
            block = packed.body[descriptor.offset : descriptor.offset + block_size_bytes(descriptor)]
            found.append(set(dead_rows(bitmap_in_block(block, descriptor), descriptor, 2**35).tolist()))
    assert found == vectors


def test_the_bytes_match_the_format() -> None:
    [packed] = pack_vectors([BitMap64({1, 5}), BitMap64({7})])
    (first, size, count), (second, _, _) = packed.places
    assert (first, count) == (1, 2)
    assert packed.body[1:5] == struct.pack(">i", size)
    assert packed.body[5:9] == struct.pack("<i", 1681511377)
    assert packed.body[9:17] == struct.pack("<q", 1), "one bucket of 32-bit positions"
    assert packed.body[5 + size : 9 + size] == struct.pack(">I", zlib.crc32(packed.body[5 : 5 + size]))
    assert second == 9 + size


def test_a_run_of_rows_takes_a_few_bytes_however_long() -> None:
    assert len(bitmap_bytes(BitMap64(range(1_000_000)))) < 300


def test_a_descriptor_names_the_file_by_its_uuid_and_random_prefix() -> None:
    [packed] = pack_vectors([BitMap64({3})])
    [plain], [prefixed] = packed.descriptors(UUID), packed.descriptors(UUID, "ab")
    assert plain.path_or_inline == "^-aqEH.-t@S}K{vb[*k^", "the example of the protocol's text"
    for descriptor, prefix in ((plain, ""), (prefixed, "ab")):
        path = vector_path(descriptor)
        assert path is not None
        assert path.path == vector_file_name(UUID, prefix)
        assert descriptor.max_row_index is None
        assert descriptor.storage_type == "u", "never inline: some readers take none of those"
