"""Deletion vectors, made by hand from the format's description and held against what is read."""

from __future__ import annotations

import random
import struct
import uuid
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap, BitMap64

from txlog.core.format.actions import DeletionVectorDescriptor
from txlog.core.format.deletion_vector import (
    bitmap_in_block,
    block_size_bytes,
    dead_rows,
    inline_bitmap,
    vector_path,
)
from txlog.errors import CorruptLogError

MAGIC = struct.pack("<i", 1681511377)
Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def z85(data: bytes) -> str:
    """ZeroMQ's RFC 32, by its definition; padded to four bytes as Delta does."""
    text = ""
    for (number,) in struct.iter_unpack(">I", data + b"\0" * (-len(data) % 4)):
        digits = [number // 85**power % 85 for power in (4, 3, 2, 1, 0)]
        text += "".join(Z85[digit] for digit in digits)
    return text


def bitmap_of(rows: set[int]) -> bytes:
    """The bitmap by the description: magic, buckets in ascending order, each a 32-bit roaring bitmap."""
    buckets = sorted({row >> 32 for row in rows})
    body = b"".join(
        struct.pack("<i", high) + BitMap([row & 0xFFFFFFFF for row in rows if row >> 32 == high]).serialize()
        for high in buckets
    )
    return MAGIC + struct.pack("<q", len(buckets)) + body


def block_of(bitmap: bytes) -> bytes:
    return struct.pack(">i", len(bitmap)) + bitmap + struct.pack(">I", zlib.crc32(bitmap))


def descriptor(bitmap: bytes, cardinality: int, kind: str = "u", text: str = "", **more: Any) -> Any:
    return DeletionVectorDescriptor(kind, text, size_in_bytes=len(bitmap), cardinality=cardinality, **more)


@given(st.sets(st.integers(0, 2**33), max_size=60))
def test_every_set_of_rows_comes_back_from_a_block_and_from_a_descriptor(rows: set[int]) -> None:
    bitmap = bitmap_of(rows)
    in_file = descriptor(bitmap, len(rows), offset=1)
    assert dead_rows(bitmap_in_block(block_of(bitmap), in_file), in_file, 2**34).tolist() == sorted(rows)
    inline = descriptor(bitmap, len(rows), "i", z85(bitmap))
    assert inline_bitmap(inline) == bitmap
    assert dead_rows(bitmap, inline, 2**34).tolist() == sorted(rows)


def test_the_last_bytes_may_be_padded_as_writers_in_rust_do() -> None:
    bitmap = bitmap_of({3})
    whole, rest = bitmap[:32], bitmap[32:]
    assert len(rest) == 2
    padded = z85(whole) + "##" + z85(b"\0\0" + rest)[2:]
    assert padded.endswith("##093")
    found = descriptor(bitmap, 1, "i", padded)
    assert inline_bitmap(found) == bitmap
    assert dead_rows(inline_bitmap(found), found, 10).tolist() == [3]


@pytest.mark.parametrize("text", ["#zzzz", "####1", "#####"])
def test_padding_without_bytes_is_refused(text: str) -> None:
    with pytest.raises(CorruptLogError, match="not Z85"):
        inline_bitmap(DeletionVectorDescriptor("i", z85(BITMAP) + text, size_in_bytes=len(BITMAP), cardinality=3))


def test_containers_of_every_kind_are_read() -> None:
    drawn = random.Random(1)
    rows = {*range(70_000, 90_000), *drawn.sample(range(200_000, 260_000), 30_000), 1, 5}
    plain, runs = BitMap64(rows, optimize=False), BitMap64(rows)
    assert len(runs.serialize()) < len(plain.serialize())
    for bitmap in (MAGIC + plain.serialize(), MAGIC + runs.serialize()):
        found = dead_rows(bitmap, descriptor(bitmap, len(rows)), 300_000)
        assert np.array_equal(found, np.array(sorted(rows), np.uint64))


def test_a_vector_of_the_protocols_own_example_has_its_path() -> None:
    """PROTOCOL.md, "Deletion Vector Descriptor Schema": both of its examples."""
    relative = DeletionVectorDescriptor("u", "ab^-aqEH.-t@S}K{vb[*k^", offset=4, size_in_bytes=40, cardinality=6)
    found = vector_path(relative)
    assert found is not None
    assert found.path == "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    absolute = DeletionVectorDescriptor(
        "p",
        "s3://mytable/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin",
        offset=4,
        size_in_bytes=40,
        cardinality=6,
    )
    found = vector_path(absolute)
    assert found is not None
    assert (found.scheme, found.authority) == ("s3", "mytable")
    assert found.path == "/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"


def test_the_protocols_inline_example_decodes_and_its_older_format_is_not_guessed_at() -> None:
    """The example's bitmap bears the magic number of a format that the text does not describe."""
    inline = DeletionVectorDescriptor(
        "i", "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", size_in_bytes=40, cardinality=6
    )
    assert vector_path(inline) is None
    bitmap = inline_bitmap(inline)
    assert struct.unpack("<6H", bitmap[-12:]) == (3, 4, 7, 11, 18, 29)
    assert bitmap[:4] == struct.pack(">i", 1681511376)
    with pytest.raises(CorruptLogError, match="64 39 d3 d0"):
        dead_rows(bitmap, inline, 30)


def test_a_random_uuid_is_found_below_its_prefix() -> None:
    number = uuid.UUID(int=random.Random(2).getrandbits(128))
    for prefix in ("", "a", "Zz09_-"):
        found = vector_path(DeletionVectorDescriptor("u", prefix + z85(number.bytes), offset=1, size_in_bytes=40))
        assert found is not None
        assert found.path == f"{prefix}/deletion_vector_{number}.bin".lstrip("/")


ROWS = {3, 70_000, 5}
BITMAP = bitmap_of(ROWS)
BLOCK = block_of(BITMAP)
GOOD = descriptor(BITMAP, 3, offset=1)


@pytest.mark.parametrize("at", range(len(BLOCK)))
def test_any_changed_byte_of_a_deletion_vector_is_detected(at: int) -> None:
    changed = bytearray(BLOCK)
    changed[at] ^= 0x41
    with pytest.raises(CorruptLogError):
        dead_rows(bitmap_in_block(bytes(changed), GOOD), GOOD, 100_000)


@pytest.mark.parametrize("length", [0, 3, 4, len(BLOCK) - 5, len(BLOCK) - 1])
def test_a_block_that_ends_too_soon_is_refused(length: int) -> None:
    with pytest.raises(CorruptLogError, match="short"):
        bitmap_in_block(BLOCK[:length], GOOD)


@pytest.mark.parametrize(
    ("bitmap", "cardinality", "num_rows", "reported"),
    [
        (BITMAP, 4, 100_000, "3 rows, the log counts 4"),
        (BITMAP, 3, 70_000, "row 70000 of a file that has 70000 rows"),
        (b"\0" * 4 + BITMAP[4:], 3, 100_000, "magic"),
        (BITMAP[:-3], 3, 100_000, "roaring"),
        (b"", 0, 100_000, "magic"),
        (MAGIC, 0, 100_000, "roaring"),
        (MAGIC + struct.pack("<q", 2**40) + BITMAP[12:], 3, 100_000, "roaring"),
    ],
)
def test_a_bitmap_that_contradicts_the_log_is_refused(
    bitmap: bytes, cardinality: int, num_rows: int, reported: str
) -> None:
    with pytest.raises(CorruptLogError, match=reported):
        dead_rows(bitmap, descriptor(bitmap, cardinality), num_rows)


def test_a_few_bytes_that_stand_for_billions_of_rows_are_refused_before_they_are_spelled_out() -> None:
    rows = BitMap64()
    rows.add_range(0, 2**33)
    bitmap = MAGIC + rows.serialize()
    with pytest.raises(CorruptLogError, match="of a file that has 10 rows"):
        dead_rows(bitmap, descriptor(bitmap, 2**33), 10)


@pytest.mark.parametrize(
    "broken",
    [
        DeletionVectorDescriptor("x", "whatever", size_in_bytes=40),
        DeletionVectorDescriptor("u", "too short", size_in_bytes=40),
        DeletionVectorDescriptor("u", "../" + z85(b"0" * 16), size_in_bytes=40),
        DeletionVectorDescriptor("u", "a" + "~" * 20, size_in_bytes=40),
        DeletionVectorDescriptor("u", "#####" * 4, size_in_bytes=40),
        DeletionVectorDescriptor("p", "file:///table/../../secret.bin", size_in_bytes=40),
    ],
)
def test_a_descriptor_that_names_no_file_is_refused(broken: Any) -> None:
    with pytest.raises(CorruptLogError):
        vector_path(broken)


@pytest.mark.parametrize("size", [-1, 0, len(BITMAP) - 4, len(BITMAP) + 4])
def test_an_inline_vector_of_another_size_than_stated_is_refused(size: int) -> None:
    with pytest.raises(CorruptLogError):
        inline_bitmap(DeletionVectorDescriptor("i", z85(BITMAP), size_in_bytes=size, cardinality=3))


@pytest.mark.parametrize(("offset", "size"), [(-1, 40), (1, 0), (1, -5)])
def test_an_invalid_offset_or_size_of_a_deletion_vector_is_refused(offset: int, size: int) -> None:
    with pytest.raises(CorruptLogError):
        block_size_bytes(DeletionVectorDescriptor("u", "x", offset=offset, size_in_bytes=size))
