"""The format of a key index file: the sorted keys of one data file, with the position of each row.

In: the keys of a data file and what identifies it. Out: bytes, and in them the rows of given keys. Pure but for the
reads of what is passed in.

    magic "txlogky1" | length of the header, 4 bytes | CRC-32 of the header, 4 bytes | header (MessagePack) | blocks

All integers are little-endian. A block has the numbers of some keys (8 bytes each), the second halves of fingerprints
if the keys have them (8 bytes each), and the positions (4 bytes each). The header has the first number and the CRC-32
of each block, so a look-up reads and checks only blocks that may hold a wanted key. A file that is cut off, damaged or
of another format raises `DamagedKeyFileError`: its reader then reads the data file instead.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec
import numpy as np

from txlog.core.reading._key_values import KeyValues
from txlog.core.util import cached_property

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MAGIC = b"txlogky1"
_PRELUDE = struct.Struct("<8sII")
_FIRST_READ_BYTES = 64 << 10  # mostly the whole header
_HEADER_BYTES_MAX = 64 << 20
_BLOCK_ROWS = 512
_POSITION_BYTES = 4


class DamagedKeyFileError(ValueError):
    """These bytes are no key index file, or not all of one."""


class KeyFileHeader(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a key index file belongs to, and how it is stored."""

    columns: tuple[tuple[tuple[str, ...], str], ...]
    """The physical path and the type of each key column."""
    partition_values: Mapping[str, str | None]
    num_rows: int
    """All rows of the data file, those with a null in the key included."""
    footer: bytes
    """The digest of the data file's Parquet footer: `KeyIndex` compares it before it trusts the keys."""
    secret: bytes
    """What `KeyNumbers` made the fingerprints with; empty if the numbers are the values themselves."""
    num_keys: int = 0
    is_signed: bool = True
    block_rows: int = _BLOCK_ROWS
    firsts: bytes = b""
    checksums: bytes = b""


def key_file_bytes(header: KeyFileHeader, values: KeyValues, positions: NDArray[np.uint32]) -> bytes:
    """The file of these keys, which are sorted by their numbers. What the header says of blocks is filled in."""
    is_signed = values.second is None
    columns = [values.numbers.astype("<i8" if is_signed else "<u8", copy=False)]
    columns += [] if values.second is None else [values.second.astype("<u8", copy=False)]
    columns += [positions.astype("<u4", copy=False)]
    blocks = [
        b"".join(column[first : first + _BLOCK_ROWS].tobytes() for column in columns)
        for first in range(0, len(positions), _BLOCK_ROWS)
    ]
    stored = msgspec.msgpack.encode(
        msgspec.structs.replace(
            header,
            num_keys=len(positions),
            is_signed=is_signed,
            firsts=columns[0][::_BLOCK_ROWS].tobytes(),
            checksums=np.array([zlib.crc32(block) for block in blocks], "<u4").tobytes(),
        )
    )
    return b"".join((_PRELUDE.pack(_MAGIC, len(stored), zlib.crc32(stored)), stored, *blocks))


class KeyIndexFile(msgspec.Struct, frozen=True, dict=True):
    """An open key index file. ``body`` is a random-access file, such as ``pyarrow.NativeFile``."""

    header: KeyFileHeader
    body: Any
    begin: int
    """Where the blocks begin."""

    @classmethod
    def opened(cls, body: Any) -> KeyIndexFile:
        """Raises DamagedKeyFileError, and OSError if the file cannot be read."""
        start = bytes(body.read_at(_FIRST_READ_BYTES, 0))
        if len(start) < _PRELUDE.size:
            _damaged("it is too short")
        magic, length, checksum = _PRELUDE.unpack_from(start)
        if magic != _MAGIC:
            _damaged("it is of another format")
        begin = _PRELUDE.size + length
        if length > _HEADER_BYTES_MAX:
            _damaged("its header is too long")
        if len(start) < begin:
            start += bytes(body.read_at(begin - len(start), len(start)))
        stored = start[_PRELUDE.size : begin]
        if len(stored) != length or zlib.crc32(stored) != checksum:
            _damaged("its header is damaged")
        try:
            found = cls(msgspec.msgpack.decode(stored, type=KeyFileHeader), body, begin)
        except msgspec.MsgspecError as error:
            raise DamagedKeyFileError(f"its header is of another format ({error})") from error
        blocks = -(-found.header.num_keys // max(1, found.header.block_rows))
        header = found.header
        if header.block_rows < 1 or len(header.firsts) != 8 * blocks or len(header.checksums) != 4 * blocks:
            _damaged("its header does not fit its keys")
        if body.size() != begin + header.num_keys * found._key_bytes:
            _damaged("it is cut off, or longer than its keys")
        return found

    @property
    def _key_bytes(self) -> int:
        return (8 if self.header.is_signed else 16) + _POSITION_BYTES

    @cached_property
    def _firsts(self) -> NDArray[Any]:
        return np.frombuffer(self.header.firsts, "<i8" if self.header.is_signed else "<u8")

    @cached_property
    def _checksums(self) -> NDArray[np.uint32]:
        return np.frombuffer(self.header.checksums, "<u4")

    def near(self, wanted: NDArray[Any] | None) -> tuple[KeyValues, NDArray[np.uint32]]:
        """The keys, ascending, and positions of all blocks that may hold one of the ``wanted`` numbers; None: of all.

        Raises DamagedKeyFileError, and OSError if the file cannot be read.
        """
        blocks = range(len(self._firsts)) if wanted is None else self._blocks_of(wanted)
        header, key_bytes = self.header, self._key_bytes
        block_bytes, checksums, read_at = header.block_rows * key_bytes, self._checksums.tolist(), self.body.read_at
        end = self.begin + header.num_keys * key_bytes
        read = []
        for block in blocks:
            start = self.begin + block * block_bytes
            body = read_at(min(block_bytes, end - start), start)
            if zlib.crc32(body) != checksums[block]:
                _damaged("a block of it is damaged")
            read.append(body)
        rest = [read.pop()] if read and len(read[-1]) < block_bytes else []  # the last block may be shorter
        parts = [self._split(b"".join(read), header.block_rows), *(self._split(each, None) for each in rest)]
        numbers, second, positions = (np.concatenate(each) for each in zip(*parts, strict=True))
        if len(positions) and int(positions.max()) >= header.num_rows:
            _damaged("it names a row that the data file does not have")
        if header.is_signed:
            return KeyValues(numbers.astype(np.int64, copy=False), None), positions
        return KeyValues(numbers.astype(np.uint64, copy=False), second.astype(np.uint64, copy=False)), positions

    def _split(self, body: bytes, block_rows: int | None) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.uint32]]:
        """The numbers, second halves and positions in blocks of so many rows each; None: in one block."""
        rows = len(body) // self._key_bytes if block_rows is None else block_rows
        blocks = np.frombuffer(body, np.uint8).reshape(-1, rows * self._key_bytes)
        second = rows * (0 if self.header.is_signed else 8)
        columns = np.split(blocks, [8 * rows, 8 * rows + second], axis=1)
        kinds: Sequence[Any] = self._firsts.dtype, np.dtype("<u8"), np.dtype("<u4")
        numbers, seconds, positions = (
            np.ascontiguousarray(column).view(kind).ravel() for column, kind in zip(columns, kinds, strict=True)
        )
        return numbers, seconds, positions

    def _blocks_of(self, wanted: NDArray[Any]) -> list[int]:
        first = np.maximum(np.searchsorted(self._firsts, wanted, side="left") - 1, 0)  # equal keys may begin before
        last = np.searchsorted(self._firsts, wanted, side="right") - 1
        is_needed = np.zeros(len(self._firsts) + 1, dtype=np.int64)
        some = last >= first
        np.add.at(is_needed, first[some], 1)
        np.add.at(is_needed, last[some] + 1, -1)
        found: list[int] = np.flatnonzero(np.cumsum(is_needed[:-1]) > 0).tolist()
        return found


def _damaged(why: str) -> NoReturn:
    raise DamagedKeyFileError(why)
