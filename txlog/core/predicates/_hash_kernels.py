"""``hash`` and ``xxhash64``: Spark's hashes of one or several values, for all rows at a time.

In: the values as arrays or scalars. Out: a 32-bit Murmur3 or a 64-bit xxHash, with the seed 42. The hash of each value
is the seed of the next; a null, and an empty array, leave it as it is. Murmur3 takes the bytes after the last whole
word one by one, as Spark always did.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from txlog.core.format.arrow.arrays import from_numbers
from txlog.core.predicates.terms.arguments import as_arrays, as_given
from txlog.core.predicates.terms.tree import Call

if TYPE_CHECKING:
    from numpy.typing import NDArray

Numbers: TypeAlias = Any
"""A numpy array of unsigned numbers: of 32 bits for Murmur3, of 64 for xxHash."""

_SEED = 42
_DECIMAL_DIGITS_OF_LONG = 18
_EXACT = decimal.Context(prec=80)


class _Bytes:
    """The bytes of strings, one after the other: where each begins, and how many it has."""

    def __init__(self, values: pa.Array) -> None:
        values = values.cast(pa.large_binary())
        buffer = values.buffers()[2]
        # eight bytes more, so that a word can be read at every place
        content = np.frombuffer(buffer, np.uint8) if buffer is not None else np.empty(0, np.uint8)
        self.content = np.concatenate([content, np.zeros(8, np.uint8)])
        offsets = np.frombuffer(values.buffers()[1], np.int64)[values.offset : values.offset + len(values) + 1]
        self.starts, self.lengths = offsets[:-1], np.diff(offsets)

    def words(self, places: NDArray[np.int64], size: int) -> Numbers:
        """The little-endian words of ``size`` bytes at some places."""
        found = np.zeros(len(places), np.uint64)
        for at in range(size):
            found |= self.content[places + at].astype(np.uint64) << np.uint64(8 * at)
        return found


# --- Murmur3, 32 bits -------------------------------------------------------------------------------------------


def _rotated(values: Numbers, count: int) -> Numbers:
    kind = values.dtype.type
    bits = values.dtype.itemsize * 8
    return (values << kind(count)) | (values >> kind(bits - count))


def _mixed(hashes: Numbers, words: Numbers) -> Numbers:
    words = _rotated(words * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    return _rotated(hashes ^ words, 13) * np.uint32(5) + np.uint32(0xE6546B64)


def _finished(hashes: Numbers, lengths: Any) -> Numbers:
    hashes = hashes ^ np.asarray(lengths).astype(np.uint32)
    hashes = (hashes ^ (hashes >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    hashes = (hashes ^ (hashes >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return hashes ^ (hashes >> np.uint32(16))


def _murmur_int(seeds: Numbers, values: NDArray[np.int32]) -> Numbers:
    return _finished(_mixed(seeds, values.view(np.uint32)), 4)


def _murmur_long(seeds: Numbers, values: NDArray[np.int64]) -> Numbers:
    bits = values.view(np.uint64)
    low, high = bits.astype(np.uint32), (bits >> np.uint64(32)).astype(np.uint32)
    return _finished(_mixed(_mixed(seeds, low), high), 8)


def _murmur_bytes(seeds: Numbers, values: _Bytes) -> Numbers:
    hashes = seeds.copy()
    words = values.lengths // 4
    for at in range(int(words.max(initial=0))):
        rows = np.flatnonzero(words > at)
        hashes[rows] = _mixed(hashes[rows], values.words(values.starts[rows] + 4 * at, 4).astype(np.uint32))
    for at in range(3):
        rows = np.flatnonzero(values.lengths % 4 > at)
        single = values.content[values.starts[rows] + 4 * words[rows] + at].view(np.int8)
        hashes[rows] = _mixed(hashes[rows], single.astype(np.int32).view(np.uint32))
    return _finished(hashes, values.lengths)


# --- xxHash, 64 bits --------------------------------------------------------------------------------------------

_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)


def _avalanche(hashes: Numbers) -> Numbers:
    hashes = (hashes ^ (hashes >> np.uint64(33))) * _P2
    hashes = (hashes ^ (hashes >> np.uint64(29))) * _P3
    return hashes ^ (hashes >> np.uint64(32))


def _with_int(hashes: Numbers, words: Numbers) -> Numbers:
    return _rotated(hashes ^ (words * _P1), 23) * _P2 + _P3


def _round(states: Numbers, words: Numbers) -> Numbers:
    return _rotated(states + words * _P2, 31) * _P1


def _with_long(hashes: Numbers, words: Numbers) -> Numbers:
    return _rotated(hashes ^ _round(np.zeros_like(words), words), 27) * _P1 + _P4


def _xx_int(seeds: Numbers, values: NDArray[np.int32]) -> Numbers:
    return _avalanche(_with_int(seeds + _P5 + np.uint64(4), values.view(np.uint32).astype(np.uint64)))


def _xx_long(seeds: Numbers, values: NDArray[np.int64]) -> Numbers:
    return _avalanche(_with_long(seeds + _P5 + np.uint64(8), values.view(np.uint64)))


def _xx_bytes(seeds: Numbers, values: _Bytes) -> Numbers:
    starts, lengths = values.starts, values.lengths
    hashes = seeds + _P5
    blocks = lengths // 32
    long = np.flatnonzero(blocks)
    if len(long):
        hashes[long] = _of_blocks(seeds[long], values, long)
    hashes += lengths.astype(np.uint64)
    done = 32 * blocks
    for _ in range(3):
        rows = np.flatnonzero(lengths - done >= 8)
        hashes[rows] = _with_long(hashes[rows], values.words(starts[rows] + done[rows], 8))
        done[rows] += 8
    rows = np.flatnonzero(lengths - done >= 4)
    hashes[rows] = _with_int(hashes[rows], values.words(starts[rows] + done[rows], 4))
    done[rows] += 4
    for _ in range(3):
        rows = np.flatnonzero(lengths > done)
        single = values.content[starts[rows] + done[rows]].astype(np.uint64)
        hashes[rows] = _rotated(hashes[rows] ^ (single * _P5), 11) * _P1
        done[rows] += 1
    return _avalanche(hashes)


def _of_blocks(seeds: Numbers, values: _Bytes, rows: NDArray[np.intp]) -> Numbers:
    """The state of strings of at least 32 bytes after their whole blocks."""
    starts, blocks = values.starts[rows], values.lengths[rows] // 32
    states = [seeds + _P1 + _P2, seeds + _P2, seeds.copy(), seeds - _P1]
    for at in range(int(blocks.max(initial=0))):
        here = np.flatnonzero(blocks > at)
        for lane, state in enumerate(states):
            state[here] = _round(state[here], values.words(starts[here] + 32 * at + 8 * lane, 8))
    found = _rotated(states[0], 1) + _rotated(states[1], 7) + _rotated(states[2], 12) + _rotated(states[3], 18)
    for state in states:
        found = (found ^ _round(np.zeros_like(state), state)) * _P1 + _P4
    return found


# --- values of all types ----------------------------------------------------------------------------------------

_HASHES: dict[str, tuple[Any, Any, Callable[..., Numbers], Callable[..., Numbers], Callable[..., Numbers]]] = {
    "hash": (np.uint32, np.int32, _murmur_int, _murmur_long, _murmur_bytes),
    "xxhash64": (np.uint64, np.int64, _xx_int, _xx_long, _xx_bytes),
}


def _hashed(call: Call, *given: Any) -> Any:
    unsigned, signed, *_ = _HASHES[call.name]
    columns = as_arrays(given)
    hashes = np.full(len(columns[0]), _SEED, unsigned)
    for values in columns:
        hashes = _chained(call.name, hashes, values)
    return as_given(given, from_numbers(hashes.view(signed)))


def _chained(name: str, seeds: Numbers, values: pa.Array) -> Numbers:
    """The hashes after these values; those of nulls are the seeds."""
    kind = values.type
    if pa.types.is_struct(kind):
        for member in values.flatten():
            seeds = _chained(name, seeds, member)
        return seeds
    if pa.types.is_null(kind):
        return seeds
    valid = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
    present = values.drop_null() if len(valid) < len(values) else values
    found = seeds.copy()
    found[valid] = _of_present(name, seeds[valid], present)
    return found


def _of_present(name: str, seeds: Numbers, values: pa.Array) -> Numbers:
    kind = values.type
    _, _, of_int, of_long, of_bytes = _HASHES[name]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _of_elements(name, seeds, values)
    if pa.types.is_floating(kind):
        # One NaN and one zero: Spark's are those of Java.
        numbers = values.to_numpy(zero_copy_only=False) + kind.to_pandas_dtype()(0)
        numbers[np.isnan(numbers)] = np.nan
        return of_int(seeds, numbers.view(np.int32)) if kind == pa.float32() else of_long(seeds, numbers.view(np.int64))
    if pa.types.is_decimal(kind):
        unscaled = [int(value.scaleb(kind.scale, _EXACT)) for value in values.to_pylist()]
        if kind.precision <= _DECIMAL_DIGITS_OF_LONG:
            return of_long(seeds, np.array(unscaled, np.int64))
        texts = [number.to_bytes(_bytes_of(number), "big", signed=True) for number in unscaled]
        return of_bytes(seeds, _Bytes(pa.array(texts, pa.binary())))
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return of_bytes(seeds, _Bytes(values))
    if pa.types.is_timestamp(kind) or kind == pa.int64():
        return of_long(seeds, values.cast(pa.int64()).to_numpy(zero_copy_only=False))
    return of_int(seeds, values.cast(pa.int32()).to_numpy(zero_copy_only=False))


def _of_elements(name: str, seeds: Numbers, values: pa.Array) -> Numbers:
    lengths = values.value_lengths().to_numpy(zero_copy_only=False).astype(np.int64)
    elements, starts = values.flatten(), np.cumsum(lengths) - lengths
    found = seeds.copy()
    for at in range(int(lengths.max(initial=0))):
        rows = np.flatnonzero(lengths > at)
        found[rows] = _chained(name, found[rows], elements.take(pa.array(starts[rows] + at)))
    return found


def _bytes_of(number: int) -> int:
    """The length of Java's ``BigInteger.toByteArray``."""
    return (number if number >= 0 else ~number).bit_length() // 8 + 1


HASH_KERNELS: dict[str, Callable[..., Any]] = {"hash": _hashed, "xxhash64": _hashed}
