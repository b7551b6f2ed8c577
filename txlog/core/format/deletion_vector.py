"""Deletion vectors: which rows of a data file are deleted, read from their bytes.

In: a descriptor from the log, and the bytes it points to. Out: the dead positions, ascending, each checked to be a row
of the file; or where those bytes are. Every size, checksum and count is checked: a vector that fails a check is
a CorruptLogError, since ignoring it would bring deleted rows back. Nothing is read or written here.
PROTOCOL.md, "Deletion Vectors", "Deletion Vector Format".
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from txlog.core.format.actions import DeletionVectorDescriptor
from txlog.core.format.paths import DataPath, resolve_data_path
from txlog.core.util import pattern
from txlog.errors import CorruptLogError

if TYPE_CHECKING:
    from numpy.typing import NDArray

FILE_FORMAT_VERSION = 1
"""The first byte of a file of deletion vectors."""

_INLINE, _RELATIVE, _ABSOLUTE = "i", "u", "p"
_MAGIC = (1681511377).to_bytes(4, "little")
_SIZE_BYTES = 4
_CHECKSUM_BYTES = 4
_UUID_CHARACTERS = 20
_PREFIX = pattern(r"[A-Za-z0-9_-]*")


def vector_path(descriptor: DeletionVectorDescriptor) -> DataPath | None:
    """The file that holds the vector; None if it is inside the descriptor. Raises CorruptLogError."""
    text = descriptor.path_or_inline
    if descriptor.storage_type == _INLINE:
        return None
    if descriptor.storage_type == _ABSOLUTE:
        return resolve_data_path(text)
    if descriptor.storage_type != _RELATIVE:
        raise CorruptLogError(f"a deletion vector has the unknown storage type {descriptor.storage_type!r}")
    prefix, encoded = text[:-_UUID_CHARACTERS], text[-_UUID_CHARACTERS:]
    number = _z85_bytes(encoded)
    if len(number) != 16 or not _PREFIX.fullmatch(prefix):
        raise CorruptLogError(f"a deletion vector is named by {text[:60]!r}, which is not a prefix and a UUID")
    digits = number.hex()
    uuid = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    name = f"deletion_vector_{uuid}.bin"
    return DataPath(f"{prefix}/{name}" if prefix else name)


def vector_files(descriptors: Iterable[DeletionVectorDescriptor]) -> list[str]:
    """The files that hold these vectors, each once. Raises CorruptLogError."""
    one_of_each = {(each.storage_type, each.path_or_inline): each for each in descriptors}
    return [path.path for path in map(vector_path, one_of_each.values()) if path is not None]


def inline_bitmap(descriptor: DeletionVectorDescriptor) -> bytes:
    """The bitmap inside a descriptor. Raises CorruptLogError."""
    decoded = _z85_bytes(descriptor.path_or_inline)
    size = descriptor.size_in_bytes
    if not len(decoded) - _SIZE_BYTES < size <= len(decoded):
        raise CorruptLogError(f"an inline deletion vector of {len(decoded)} bytes claims to have {size}")
    return decoded[:size]


def block_size_bytes(descriptor: DeletionVectorDescriptor) -> int:
    """How many bytes, from the descriptor's offset on, `bitmap_in_block` needs. Raises CorruptLogError."""
    if descriptor.size_in_bytes < len(_MAGIC) or (descriptor.offset or 0) < 0:
        raise CorruptLogError(
            f"a deletion vector cannot be at offset {descriptor.offset} with {descriptor.size_in_bytes} bytes"
        )
    return _SIZE_BYTES + descriptor.size_in_bytes + _CHECKSUM_BYTES


def bitmap_in_block(block: bytes, descriptor: DeletionVectorDescriptor) -> bytes:
    """The bitmap from a block of the file: the block's size, the bitmap, and its CRC-32.

    Raises CorruptLogError if these and the descriptor do not agree.
    """
    size = descriptor.size_in_bytes
    if len(block) != block_size_bytes(descriptor):
        raise CorruptLogError(f"it ends {block_size_bytes(descriptor) - len(block)} bytes short of the vector's end")
    stated = int.from_bytes(block[:_SIZE_BYTES], "big")
    if stated != size:
        raise CorruptLogError(f"it has a vector of {stated} bytes, but the log records {size}")
    bitmap = block[_SIZE_BYTES : _SIZE_BYTES + size]
    if zlib.crc32(bitmap) != int.from_bytes(block[-_CHECKSUM_BYTES:], "big"):
        raise CorruptLogError("the vector's bytes do not match the checksum that follows them")
    return bitmap


def dead_rows(bitmap: bytes, descriptor: DeletionVectorDescriptor, num_rows: int) -> NDArray[np.uint64]:
    """The positions of the dead rows in a file of ``num_rows`` rows, ascending, the first row being 0.

    Raises CorruptLogError if the bytes are not a roaring bitmap in the portable 64-bit format, mark another number
    of rows than the descriptor counts, or a row that the file does not have.
    """
    from txlog.core.format.bitmaps import deserialized

    if bitmap[: len(_MAGIC)] != _MAGIC:
        raise CorruptLogError(f"a deletion vector begins with {bitmap[:4].hex(' ')}, not with its magic number")
    try:
        rows: Any = deserialized(bitmap[len(_MAGIC) :])
    except (ValueError, IndexError, OverflowError):
        raise CorruptLogError("a deletion vector has no readable roaring bitmap") from None
    # Count before expanding: a few bytes of runs can encode billions of rows.
    if len(rows) != descriptor.cardinality:
        raise CorruptLogError(f"a deletion vector marks {len(rows)} rows, the log counts {descriptor.cardinality}")
    if rows and rows.max() >= num_rows:
        raise CorruptLogError(f"a deletion vector marks row {rows.max()} of a file that has {num_rows} rows")
    return np.frombuffer(rows.to_array(), dtype=np.uint64) if rows else np.empty(0, np.uint64)


def _z85_bytes(text: str) -> bytes:
    from txlog.core.format.z85 import z85_bytes

    try:
        return z85_bytes(text)
    except ValueError as error:
        raise CorruptLogError(f"a deletion vector's text {error}") from None
