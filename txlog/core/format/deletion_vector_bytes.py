"""Writes deletion vectors: the positions of dead rows as the bytes of a file that holds many vectors.

In: for each data file the positions of its dead rows, as a bitmap. Out: the bytes of ``deletion_vector_<uuid>.bin``
files, the place of each vector in them, and its descriptor for an ``add``. ``deletion_vector`` reads them.
PROTOCOL.md, "Deletion Vectors", "Deletion Vector File Storage Format", "Deletion Vector Format".
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from txlog.core.format.actions import DeletionVectorDescriptor
from txlog.core.format.deletion_vector import FILE_FORMAT_VERSION
from txlog.core.format.z85 import z85

if TYPE_CHECKING:
    from pyroaring import BitMap64

FILE_SIZE_MAX_BYTES = 64 << 20
"""A file of vectors ends before it grows beyond this: offsets are 32-bit integers."""

_MAGIC = (1681511377).to_bytes(4, "little")
_AROUND_BYTES = 8  # the size before a bitmap, and the checksum after it


class PackedVectors(msgspec.Struct, frozen=True):
    """The bytes of one file, and for each vector in it (offset, size, cardinality); sizes in bytes."""

    body: bytes
    places: tuple[tuple[int, int, int], ...]

    def descriptors(self, uuid: str, prefix: str = "") -> list[DeletionVectorDescriptor]:
        """How ``add`` actions name these vectors, once the bytes are the file ``vector_file_name(uuid, prefix)``."""
        name = prefix + _text_of(uuid)
        return [
            DeletionVectorDescriptor("u", name, offset, size_bytes, cardinality)
            for offset, size_bytes, cardinality in self.places
        ]


def descriptor_in(uuid: str, vector: DeletionVectorDescriptor, prefix: str = "") -> DeletionVectorDescriptor:
    """The same vector in the file ``vector_file_name(uuid, prefix)`` below the table's root."""
    return replace(vector, storage_type="u", path_or_inline=prefix + _text_of(uuid))


def vector_file_name(uuid: str, prefix: str = "") -> str:
    """The path of a file of vectors below the table's root; ``prefix`` is the random directory of the file."""
    name = f"deletion_vector_{uuid}.bin"
    return f"{prefix}/{name}" if prefix else name


def bitmap_bytes(dead: BitMap64) -> bytes:
    """The positions as a roaring bitmap in the portable 64-bit format, after its magic number."""
    dead.run_optimize()  # a smaller encoding of the same positions
    return bytes(_MAGIC + dead.serialize())


def pack_vectors(
    vectors: Iterable[BitMap64], *, file_size_max_bytes: int = FILE_SIZE_MAX_BYTES
) -> Iterator[PackedVectors]:
    """The vectors, in order, as the bytes of as few files as the size limit allows. A vector is never split.

    Each of ``vectors`` holds at least one position.
    """
    parts, size_bytes = [bytes((FILE_FORMAT_VERSION,))], 1
    places: list[tuple[int, int, int]] = []
    for dead in vectors:
        bitmap = bitmap_bytes(dead)
        block = len(bitmap).to_bytes(4, "big"), bitmap, zlib.crc32(bitmap).to_bytes(4, "big")
        block_size_bytes = len(bitmap) + _AROUND_BYTES
        if places and size_bytes + block_size_bytes > file_size_max_bytes:
            yield PackedVectors(b"".join(parts), tuple(places))
            parts, size_bytes, places = [bytes((FILE_FORMAT_VERSION,))], 1, []
        places.append((size_bytes, len(bitmap), len(dead)))
        parts += block  # joined once: a file of many vectors is large
        size_bytes += block_size_bytes
    if places:
        yield PackedVectors(b"".join(parts), tuple(places))


def _text_of(uuid: str) -> str:
    return z85(bytes.fromhex(uuid.replace("-", "")))
