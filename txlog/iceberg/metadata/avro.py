"""Reads and writes Avro object containers, with only the types that Iceberg's manifests and manifest lists use.

In: values, or bytes that are already encoded. Out: the bytes of a container file, or its header, its blocks and a
reader for their records. The sync marker is derived from the header, so equal content makes equal files. Values of many
rows at once are Arrow columns of bytes that are joined row by row; no row becomes a Python object. Avro 1.11, "Object
Container Files" and "Binary Encoding".
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from hashlib import sha256
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txlog.core.format.arrow.arrays import flags_of, from_numbers, numbers_of

NULL, SOME = b"\0", b"\2"
"""The two branches of a nullable value, ``["null", type]``."""

Reader: TypeAlias = Callable[[bytes, int], tuple[Any, int]]
"""Takes bytes and a position, and returns the value there and the position after it."""

_MAGIC = b"Obj\x01"
_RAW_BYTES_MAX = 1 << 30  # in one block: a damaged file must not fill the memory
_COMPRESSION = 1  # output 3 % larger than with level 6, in a third of the time
_SMALL_BYTES = 32_768  # up to this size the window is small: a large one takes longer to prepare than to fill


class AvroError(ValueError):
    """The bytes are not an Avro container, or have a type that Iceberg's metadata does not use."""


class Container(NamedTuple):
    """A container file: its header entries, and each block's raw bytes and record count."""

    header: Mapping[str, bytes]
    blocks: tuple[tuple[int, bytes], ...]


# --- writing -----------------------------------------------------------------------------------------------------


def _long(number: int) -> bytes:
    zigzag = (number << 1) ^ (number >> 63)
    out = bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


_SMALL = [_long(number) for number in range(4096)]


def encode_long(number: int) -> bytes:
    """An ``int`` or ``long``."""
    return _SMALL[number] if 0 <= number < 4096 else _long(number)


def encode_bytes(body: bytes) -> bytes:
    """``bytes``, or a ``string`` in UTF-8."""
    return encode_long(len(body)) + body


class Block:
    """The block of a future container. It compresses records as they are added, so few are in memory.

    A ``small`` block holds a few kilobytes.
    """

    def __init__(self, *, small: bool = False) -> None:
        window, memory = (-12, 4) if small else (-15, 8)
        self._stream = zlib.compressobj(_COMPRESSION, zlib.DEFLATED, window, memory)
        self._parts: list[bytes] = []
        self.records = 0

    def add(self, records: int, body: bytes | memoryview) -> None:
        """Add some encoded records, one after the other."""
        self.records += records
        self._parts.append(self._stream.compress(body))

    def container(self, schema: bytes, header: Mapping[str, bytes]) -> bytes:
        """The container file with this block as its only one; after this, no record can be added.

        Args:
            schema: The Avro schema of a record, as JSON.
            header: More entries for the file's header.
        """
        entries = {"avro.schema": schema, "avro.codec": b"deflate", **header}
        head = [encode_long(len(entries))]
        for key, value in entries.items():
            head += [encode_bytes(key.encode()), encode_bytes(value)]
        start = _MAGIC + b"".join(head) + b"\0"
        sync = sha256(start).digest()[:16]
        if not self.records:
            return start + sync
        self._parts.append(self._stream.flush())
        size = encode_long(sum(map(len, self._parts)))
        return b"".join((start, sync, encode_long(self.records), size, *self._parts, sync))


def write_container(schema: bytes, header: Mapping[str, bytes], records: Sequence[bytes]) -> bytes:
    """A container of encoded records, in one compressed block; see `Block.container`."""
    raw = b"".join(records)
    block = Block(small=len(raw) <= _SMALL_BYTES)
    if records:
        block.add(len(records), raw)
    return block.container(schema, header)


# --- reading -----------------------------------------------------------------------------------------------------


def read_container(body: bytes) -> Container:
    """The header and the decompressed blocks of a file. Raises AvroError."""
    if body[:4] != _MAGIC:
        raise AvroError("it does not begin with the magic bytes of an Avro file")
    try:
        header, at = _read_array(_HEADER_ENTRY, body, 4)
        entries = {pair["key"]: pair["value"] for pair in header}
        sync, at = body[at : at + 16], at + 16
        blocks = []
        while at < len(body):
            count, at = _read_long(body, at)
            block, at = _read_bytes(body, at)
            if body[at : at + 16] != sync:
                raise AvroError("a block does not end with the file's sync marker")
            at += 16
            blocks.append((count, _inflated(block, entries.get("avro.codec", b"null"))))
    except (IndexError, UnicodeDecodeError, zlib.error) as error:
        raise AvroError(f"it is cut or damaged: {error}") from None
    if len(sync) != 16:
        raise AvroError("it is cut off within its header")
    return Container(entries, tuple(blocks))


def _inflated(block: bytes, codec: bytes) -> bytes:
    if codec == b"null":
        return block
    if codec != b"deflate":
        raise AvroError(f"its codec {codec!r} is neither deflate nor null")
    stream = zlib.decompressobj(-15)
    raw = stream.decompress(block, _RAW_BYTES_MAX)
    if not stream.eof:
        raise AvroError("a block is cut off, or decompresses to more than 1 GiB")
    return raw


def reader_of(schema: Any) -> Reader:
    """A reader of values of a schema: records become dicts, arrays lists. A position past the end is an IndexError.

    Raises AvroError for a type that Iceberg's metadata does not have.
    """
    kind = schema["type"] if isinstance(schema, Mapping) and not isinstance(schema["type"], list) else schema
    if isinstance(schema, list):
        if len(schema) == 2 and schema[0] == "null":
            return partial(_read_optional, reader_of(schema[1]))
    elif kind == "record":
        return partial(_read_record, tuple((field["name"], reader_of(field["type"])) for field in schema["fields"]))
    elif kind == "array":
        return partial(_read_array, reader_of(schema["items"]))
    elif kind == "fixed":
        return partial(_read_fixed, schema["size"])
    elif isinstance(kind, str) and kind in _READERS:
        return _READERS[kind]
    raise AvroError(f"its schema has a type that Iceberg's metadata does not have: {kind!r}")


def _read_long(body: bytes, at: int) -> tuple[int, int]:
    byte = body[at]
    at += 1
    number = byte & 0x7F
    shift = 7
    while byte > 0x7F:
        byte = body[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if shift > 70:
            raise AvroError("it has a number with more than 64 bits")
    return (number >> 1) ^ -(number & 1), at


def _read_fixed(size: int, body: bytes, at: int) -> tuple[bytes, int]:
    end = at + size
    if size < 0 or end > len(body):
        raise IndexError("a value ends after the end of the data")
    return body[at:end], end


def _read_bytes(body: bytes, at: int) -> tuple[bytes, int]:
    size, at = _read_long(body, at)
    return _read_fixed(size, body, at)


def _read_string(body: bytes, at: int) -> tuple[str, int]:
    text, at = _read_bytes(body, at)
    return text.decode(), at


def _read_boolean(body: bytes, at: int) -> tuple[bool, int]:
    return body[at] == 1, at + 1


def _read_number(form: struct.Struct, body: bytes, at: int) -> tuple[float, int]:
    text, at = _read_fixed(form.size, body, at)
    return form.unpack(text)[0], at


def _read_optional(read: Reader, body: bytes, at: int) -> tuple[Any, int]:
    return (None, at + 1) if body[at] == 0 else read(body, at + 1)


def _read_record(fields: tuple[tuple[str, Reader], ...], body: bytes, at: int) -> tuple[dict[str, Any], int]:
    record = {}
    for name, read in fields:
        record[name], at = read(body, at)
    return record, at


def _read_array(read: Reader, body: bytes, at: int) -> tuple[list[Any], int]:
    found: list[Any] = []
    while True:
        count, at = _read_long(body, at)
        if count == 0:
            return found, at
        if count < 0:  # then the size of the block follows, for readers that skip it
            count = -count
            _, at = _read_long(body, at)
        if count > len(body):
            raise AvroError("it has a list with more items than bytes")
        for _ in range(count):
            value, at = read(body, at)
            found.append(value)


_READERS: dict[str, Reader] = {
    "int": _read_long,
    "long": _read_long,
    "boolean": _read_boolean,
    "bytes": _read_bytes,
    "string": _read_string,
    "float": partial(_read_number, struct.Struct("<f")),
    "double": partial(_read_number, struct.Struct("<d")),
}
_HEADER_ENTRY: Reader = partial(_read_record, (("key", _read_string), ("value", _read_bytes)))


# --- columns of encoded values -------------------------------------------------------------------------------------


def binary_array(values: Sequence[bytes | None]) -> pa.BinaryArray:
    sizes = np.fromiter(map(len, (value or b"" for value in values)), np.int32, len(values))
    valid = np.fromiter((value is not None for value in values), bool, len(values))
    return _from_parts(sizes, b"".join(value or b"" for value in values), valid)


def constant(body: bytes) -> pa.BinaryScalar:
    """The same bytes in every row: for `joined`."""
    return binary_array([body])[0]


def joined(columns: Sequence[Any]) -> pa.BinaryArray:
    """Each row's bytes from all columns, one after the other. At least one column is an array. Nulls are empty."""
    if len(columns) == 1:
        return columns[0]
    return pc.binary_join_element_wise(*columns, constant(b""), null_handling="replace", null_replacement=b"")


def longs(numbers: Any, valid: Any = None) -> pa.BinaryArray:
    """Each number as an ``int`` or ``long``; null where not ``valid``."""
    signed = np.asarray(numbers, np.int64)
    left = ((signed << 1) ^ (signed >> 63)).view(np.uint64)
    sizes = np.ones(len(left), np.int32)
    for bits in range(7, 64, 7):
        more = left >= np.uint64(1 << bits)
        if not more.any():
            break
        sizes += more
    if valid is not None:
        sizes = np.where(valid, sizes, 0).astype(np.int32)
    starts = np.cumsum(sizes) - sizes
    body = np.empty(int(sizes.sum()), np.uint8)
    for at in range(int(sizes.max(initial=0))):
        rows = np.flatnonzero(sizes > at)
        low = (left[rows] & np.uint64(0x7F)).astype(np.uint8)
        body[starts[rows] + at] = low | np.where(sizes[rows] > at + 1, 0x80, 0).astype(np.uint8)
        left = left >> np.uint64(7)
    return _from_parts(sizes, body, valid)


def blobs(values: pa.Array) -> pa.BinaryArray:
    """Each value of a column of strings or bytes as ``string`` or ``bytes``; null stays null."""
    body = values.cast(pa.binary())
    sizes = longs(numbers_of(pc.binary_length(body)))
    return pc.binary_join_element_wise(sizes, body, constant(b""))


def fixed_blobs(numbers: Any, valid: Any = None) -> pa.BinaryArray:
    """The bytes of each number of an array, all of one width, as ``bytes``; null where not ``valid``."""
    width = numbers.dtype.itemsize
    matrix = np.empty((len(numbers), 1 + width), np.uint8)
    matrix[:, 0] = encode_long(width)[0]
    matrix[:, 1:] = np.ascontiguousarray(numbers).view(np.uint8).reshape(len(numbers), width)
    return _from_parts(np.full(len(numbers), 1 + width, np.int32), matrix, valid)


def maps(pairs: Sequence[tuple[bytes, pa.BinaryArray]], length: int) -> Any:
    """Optional maps from an encoded column id to a value.

    Ids whose value is null are left out, and a map without any is null.
    """
    counts = np.zeros(length, np.int64)
    columns: list[Any] = []
    for key, values in pairs:
        if values.null_count:
            valid = flags_of(values.is_valid())
            counts += valid
            columns += [_taken([b"", key], valid), values]
        else:
            counts += 1
            columns += [constant(key), values]
    heads = [NULL, *[SOME + encode_long(count) for count in range(1, len(pairs) + 1)]]
    return joined([_taken(heads, counts), *columns, _taken([b"", b"\0"], counts > 0)])


def _taken(choices: Sequence[bytes], numbers: Any) -> pa.BinaryArray:
    """For each row, the choice with its number."""
    return binary_array(choices).take(from_numbers(numbers.astype(np.int64)))


def _from_parts(sizes: Any, body: Any, valid: Any) -> pa.BinaryArray:
    offsets = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    bitmap = None if valid is None or valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(pa.binary(), len(sizes), [bitmap, pa.py_buffer(offsets), pa.py_buffer(body)])
