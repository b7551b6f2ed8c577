"""Keys as numbers for sorting and searching: the value itself if it is an integer, otherwise a 128-bit fingerprint.

In: key columns. Out: `KeyValues`. Equal keys have equal numbers. Different integers, dates and timestamps have
different numbers. Other keys are multiplied by secret random weights, drawn for each use (multilinear hashing, strongly
universal: D. Lemire and O. Kaser, "Strongly universal string hashing is fast", 2014), so that two different keys agree
with a probability of 2^-128 whatever their values: for a billion keys against a billion others, below 2^-68.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa

import txlog.core.format.arrow.python_values  # noqa: F401  has pyarrow import pandas
from txlog.core.format.actions import FileId
from txlog.core.format.arrow.arrays import flags_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NUM_SUMS = 4  # of 32 bits each
_BLOCK_ROWS = 1 << 15  # rows that fit into the processor's cache
_WORD_BYTES = 8
_WORDS_MAX = 64  # longer values are digested first
_DIGEST_BYTES = 16


class KeyValues(msgspec.Struct, frozen=True):
    """A number for each key; for fingerprints, the second half too."""

    numbers: NDArray[Any]
    second: NDArray[np.uint64] | None

    @classmethod
    def joined(cls, parts: Sequence[KeyValues]) -> KeyValues:
        """The keys of at least one part, which are of one `KeyNumbers`."""
        second = [part.second for part in parts if part.second is not None]
        return cls(np.concatenate([part.numbers for part in parts]), np.concatenate(second) if second else None)

    def __len__(self) -> int:
        return len(self.numbers)

    def at(self, places: Any) -> KeyValues:
        """A selection of them: by a mask, a slice, or indices."""
        return KeyValues(self.numbers[places], None if self.second is None else self.second[places])


class KeyPlaces(msgspec.Struct, frozen=True):
    """Where the wanted keys are in one file: positions, ascending, and each one's key."""

    positions: NDArray[np.uint64]
    keys: NDArray[np.int64]
    """Indices into the wanted keys."""


class FileKeys(msgspec.Struct, frozen=True):
    """The keys of one whole file, sorted by their first numbers, and their positions; without null keys."""

    file: FileId
    values: KeyValues
    positions: NDArray[np.uint32]

    @classmethod
    def of(cls, file: FileId, values: KeyValues, positions: NDArray[Any]) -> FileKeys:
        """Sort the keys. The positions must be below 2^32."""
        order = np.argsort(values.numbers)
        return cls(file, values.at(order), positions[order].astype(np.uint32))


class KeyNumbers:
    """Converts keys of these column types to numbers; only numbers from one object are comparable. Thread-safe.

    ``secret`` holds at least 16 random bytes.
    """

    def __init__(self, types: Sequence[pa.DataType], secret: bytes) -> None:
        self.is_exact = len(types) == 1 and _is_integer_like(types[0])
        self.types, self.secret = types, secret
        self._secret = hashlib.blake2b(secret, digest_size=32).digest()
        words = len(types) * (_WORDS_MAX + 1)
        drawn = np.frombuffer(hashlib.shake_256(secret).digest((words * 2 + 1) * _NUM_SUMS * 8), dtype="<u8")
        self._start = drawn[:_NUM_SUMS]
        # Each column has its own weights, so equal values in different columns are never confused.
        self._weights = drawn[_NUM_SUMS:].reshape(len(types), _WORDS_MAX + 1, 2, _NUM_SUMS)

    @property
    def key_bytes(self) -> int:
        """The memory of one key."""
        return 8 if self.is_exact else 16

    def of(self, columns: Sequence[pa.Array]) -> tuple[KeyValues, NDArray[np.int64] | None]:
        """The numbers of keys without a null, and the rows that have them; None means every row."""
        rows = None
        if any(column.null_count for column in columns):
            valid = np.logical_and.reduce([flags_of(column.is_valid()) for column in columns])
            rows = np.flatnonzero(valid)
            columns = [column.filter(pa.array(valid)) for column in columns]
        if self.is_exact:
            return KeyValues(_integers(columns[0]), None), rows
        words = [_words(column, self._secret) for column in columns]
        found = np.empty((_NUM_SUMS // 2, len(columns[0])), dtype=np.uint64)
        for start in range(0, len(columns[0]), _BLOCK_ROWS):
            end = min(start + _BLOCK_ROWS, len(columns[0]))
            sums = self._sums(words, start, end)
            half = np.uint64(32)
            found[:, start:end] = (sums[::2] >> half << half) | (sums[1::2] >> half)
        return KeyValues(found[0], found[1]), rows

    def _sums(self, words: Sequence[_Fixed | _Variable], start: int, end: int) -> NDArray[np.uint64]:
        sums = np.repeat(self._start[:, None], end - start, axis=1)
        for column, weights in zip(words, self._weights, strict=True):
            for number, (rows, word) in enumerate(column.words(start, end)):
                for half, each in enumerate((word & np.uint64(0xFFFFFFFF), word >> np.uint64(32))):
                    for weight, total in zip(weights[number, half], sums, strict=True):
                        if rows is None:
                            total += weight * each
                        else:
                            total[rows] += weight * each
        return sums


class _Fixed(msgspec.Struct, frozen=True):
    """Values with the same number of words; one row of ``columns`` for each word."""

    columns: NDArray[np.uint64]

    def words(self, start: int, end: int) -> Any:
        return ((None, column[start:end]) for column in self.columns)


class _Variable(msgspec.Struct, frozen=True):
    """Byte strings, with their length as the first word. ``starts`` are indices into ``at``, with one at each byte."""

    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    at: NDArray[np.uint64]
    marks: NDArray[np.uint64]
    """The first word: the length, even for a digested value."""

    def words(self, start: int, end: int) -> Any:
        yield None, self.marks[start:end]
        starts, lengths = self.starts[start:end], self.lengths[start:end]
        longest = int(lengths.max()) if len(lengths) else 0
        for first in range(0, longest, _WORD_BYTES):
            rows = None if int(lengths.min()) > first else np.flatnonzero(lengths > first)
            here, left = (starts, lengths - first) if rows is None else (starts[rows], lengths[rows] - first)
            word = self.at[here + first]
            short = np.flatnonzero(left < _WORD_BYTES)
            if len(short):
                bits = (left[short] * 8).astype(np.uint64)
                word[short] &= (np.uint64(1) << bits) - np.uint64(1)
            yield rows, word


def _is_integer_like(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_date32(kind) or pa.types.is_timestamp(kind))


def _integers(column: pa.Array) -> NDArray[np.int64]:
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    found: NDArray[np.int64] = column.cast(pa.int64()).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return found


def _words(column: pa.Array, secret: bytes) -> _Fixed | _Variable:
    """The bytes of a column without nulls, as 64-bit words."""
    kind = column.type
    if pa.types.is_boolean(kind):
        return _Fixed(flags_of(column).astype(np.uint64)[None, :])
    if _is_integer_like(kind):
        return _Fixed(_integers(column).view(np.uint64)[None, :])
    if pa.types.is_decimal128(kind):
        values = np.frombuffer(column.buffers()[1], dtype="<u8")[2 * column.offset : 2 * (column.offset + len(column))]
        return _Fixed(values.reshape(-1, 2).T)
    wide = column.cast(pa.large_binary())
    offsets = np.frombuffer(wide.buffers()[1], dtype=np.int64)[wide.offset : wide.offset + len(wide) + 1]
    if not len(wide):
        offsets = np.zeros(1, dtype=np.int64)
    body = wide.buffers()[2]
    first, end = int(offsets[0]), int(offsets[-1])
    text = b"" if body is None else memoryview(body)[first:end]
    starts, lengths = offsets[:-1] - first, np.diff(offsets)
    marks = lengths.astype(np.uint64)
    digests = bytearray()
    long = np.flatnonzero(lengths > _WORDS_MAX * _WORD_BYTES)
    if len(long):
        for row in long.tolist():
            value = text[starts[row] : starts[row] + lengths[row]]
            digests += hashlib.blake2b(value, key=secret, digest_size=_DIGEST_BYTES).digest()
        starts, lengths = starts.copy(), lengths.copy()
        starts[long] = end - first + _DIGEST_BYTES * np.arange(len(long))
        lengths[long] = _DIGEST_BYTES
    padded = b"".join((text, digests, bytes(_WORD_BYTES)))
    at: NDArray[np.uint64] = np.ndarray((len(padded) - _WORD_BYTES + 1,), dtype="<u8", buffer=padded, strides=(1,))
    return _Variable(starts, lengths, at, marks)
