"""The hash of keys that distributes rows to tasks: Spark's ``xxhash64``, so that engines agree on it.

In: key columns in the table's types. Out: for each row the number that Spark's ``xxhash64(columns)`` returns, and from
it the row's task. No file contains it, but programs rely on it, so it never changes between releases.

Spark hashes one column after the other; the seed is 42 for the first column, then the hash so far, and a null leaves it
unchanged. Bytes are hashed by XXH64 (github.com/Cyan4973/xxHash, doc/xxhash_spec.md), integers of up to 32 bits, dates
and booleans as 4 bytes, and longs, timestamps and decimals of up to 18 digits as 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from txlog.core.format.arrow.arrays import flags_of
from txlog.core.format.schema import Decimal, Primitive, Struct, fold_name
from txlog.core.row_rules import KeyColumn
from txlog.core.writing import conformer_for, nullable, open_data
from txlog.errors import InvalidInputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SEED = 42
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_MASK = (1 << 64) - 1
_LONG_DIGITS = 18
_STRIPE_BYTES = 32
_ROWS_AT_ONCE = 1 << 15


def tasks_of(keys: Sequence[KeyColumn], columns: Sequence[pa.Array], num_tasks: int) -> NDArray[np.int64]:
    """The task, from 0, of each key. Raises what `key_hashes` raises."""
    return key_hashes(keys, columns) % num_tasks


def task_of_rows(data: Any, keys: Sequence[KeyColumn], schema: Struct, num_tasks: int) -> pa.Array:
    """The task of each row of ``data``: anything `open_data` takes, with the key columns of a table of ``schema``.

    Raises ``InvalidInputError``, ``SchemaMismatchError``.
    """
    names = {key.path[0] for key in keys}
    wanted = nullable(Struct(tuple(field for field in schema.fields if field.name in names)))
    folded = {fold_name(name) for name in names}
    found: list[pa.Array] = []
    for batch in open_data(data).batches:
        rows = batch.select([at for at, name in enumerate(batch.schema.names) if fold_name(name) in folded])
        if rows.num_columns < len(names):
            raise InvalidInputError(
                f"the rows lack a key: they have {', '.join(batch.schema.names)}, keys are"
                f" {', '.join(key.name for key in keys)}"
            )
        fitted = conformer_for(wanted, rows.schema).conform(rows)
        found.append(pa.array(tasks_of(keys, [key.of(fitted) for key in keys], num_tasks)))
    return pa.concat_arrays(found) if found else pa.array([], pa.int64())


def key_hashes(keys: Sequence[KeyColumn], columns: Sequence[pa.Array], *, is_shared: bool = True) -> NDArray[np.int64]:
    """Spark's ``xxhash64`` of each row of ``columns``, which have the types of ``keys``.

    Raises ``InvalidInputError`` for a decimal with more than 18 digits, which Spark hashes in Java's representation. If
    the hash is not ``is_shared`` with Spark, the lower half of the decimal's bits is hashed.
    """
    hashes = np.full(len(columns[0]), _SEED, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for key, column in zip(keys, columns, strict=True):
            found = _hashed(key, column, hashes, is_shared=is_shared)
            hashes = np.where(flags_of(column.is_valid()), found, hashes) if column.null_count else found
    return hashes.view(np.int64)


def _hashed(key: KeyColumn, column: pa.Array, seeds: NDArray[np.uint64], *, is_shared: bool) -> NDArray[np.uint64]:
    if isinstance(key.type, Decimal):
        if key.type.precision > _LONG_DIGITS and is_shared:
            raise InvalidInputError(
                f"key {key.name} is a decimal with {key.type.precision} digits; with more than {_LONG_DIGITS} there is"
                " no hash that Spark and txlog share: distribute rows by another column of the key"
            )
        return _hash_8(_decimals(column), seeds)
    assert isinstance(key.type, Primitive)
    if key.type.name in ("string", "binary"):
        return _hash_bytes(column, seeds)
    if key.type.name == "boolean":
        return _hash_4(flags_of(column).astype(np.uint64), seeds)
    stored = key.type.facts.stored
    if stored == "i8":
        return _hash_8(_numbers(column, "<u8"), seeds)
    return _hash_4(_numbers(column, f"<{stored}").astype(np.int32).view(np.uint32).astype(np.uint64), seeds)


def _numbers(column: pa.Array, dtype: str) -> NDArray[Any]:
    """The stored numbers; undefined where the column is null."""
    found = np.frombuffer(column.buffers()[1] or b"", dtype)
    return found[column.offset : column.offset + len(column)]


def _decimals(column: pa.Array) -> NDArray[np.uint64]:
    """The unscaled values, which fit into the lower half of 128 bits."""
    halves = np.frombuffer(column.buffers()[1] or b"", "<u8").reshape(-1, 2)
    return halves[column.offset : column.offset + len(column), 0]


# --- XXH64 ------------------------------------------------------------------------------------------------------


def _rotated(values: NDArray[np.uint64], bits: int) -> NDArray[np.uint64]:
    found: NDArray[np.uint64] = (values << np.uint64(bits)) | (values >> np.uint64(64 - bits))
    return found


def _mixed(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    hashes = (hashes ^ (hashes >> np.uint64(33))) * np.uint64(_P2)
    hashes = (hashes ^ (hashes >> np.uint64(29))) * np.uint64(_P3)
    found: NDArray[np.uint64] = hashes ^ (hashes >> np.uint64(32))
    return found


def _with_4(hashes: NDArray[np.uint64], words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    found: NDArray[np.uint64] = _rotated(hashes ^ (words * np.uint64(_P1)), 23) * np.uint64(_P2) + np.uint64(_P3)
    return found


def _with_8(hashes: NDArray[np.uint64], words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    mixed = hashes ^ _round(np.zeros_like(words), words)
    found: NDArray[np.uint64] = _rotated(mixed, 27) * np.uint64(_P1) + np.uint64(_P4)
    return found


def _round(lane: NDArray[np.uint64], words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    found: NDArray[np.uint64] = _rotated(lane + words * np.uint64(_P2), 31) * np.uint64(_P1)
    return found


def _hash_4(words: NDArray[np.uint64], seeds: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return _mixed(_with_4(seeds + np.uint64((_P5 + 4) & _MASK), words))


def _hash_8(words: NDArray[np.uint64], seeds: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return _mixed(_with_8(seeds + np.uint64((_P5 + 8) & _MASK), words))


def _hash_bytes(column: pa.Array, seeds: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Hashes values of the same length together, as the rows of a byte matrix."""
    column = column.cast(pa.large_binary())
    offsets = np.frombuffer(column.buffers()[1] or b"", "<i8")[column.offset : column.offset + len(column) + 1]
    body = np.frombuffer(column.buffers()[2] or b"", np.uint8)
    lengths = np.diff(offsets)
    found = np.empty(len(column), dtype=np.uint64)
    for length in np.unique(lengths).tolist():
        of_length = np.flatnonzero(lengths == length)
        for first in range(0, len(of_length), _ROWS_AT_ONCE):
            rows = of_length[first : first + _ROWS_AT_ONCE]
            at = offsets[rows][:, None] + np.arange(length)
            found[rows] = _hash_matrix(body[at], seeds[rows])
    return found


def _hash_matrix(values: NDArray[np.uint8], seeds: NDArray[np.uint64]) -> NDArray[np.uint64]:
    length = values.shape[1]
    words = np.ascontiguousarray(values[:, : length // 8 * 8]).view("<u8").reshape(len(values), -1)
    done = 0
    if length >= _STRIPE_BYTES:
        done = length // _STRIPE_BYTES * (_STRIPE_BYTES // 8)
        hashes = _stripes(words[:, :done], seeds)
    else:
        hashes = seeds + np.uint64(_P5)
    hashes = hashes + np.uint64(length)
    for at in range(done, words.shape[1]):
        hashes = _with_8(hashes, words[:, at])
    rest = values[:, words.shape[1] * 8 :]
    if rest.shape[1] >= 4:
        hashes = _with_4(hashes, np.ascontiguousarray(rest[:, :4]).view("<u4").reshape(-1).astype(np.uint64))
        rest = rest[:, 4:]
    for at in range(rest.shape[1]):
        byte = rest[:, at].astype(np.uint64)
        hashes = _rotated(hashes ^ (byte * np.uint64(_P5)), 11) * np.uint64(_P1)
    return _mixed(hashes)


def _stripes(words: NDArray[np.uint64], seeds: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mixes 32 bytes at a time into the seed, in four lanes."""
    starts = ((_P1 + _P2) & _MASK, _P2, 0, (-_P1) & _MASK)
    lanes = [seeds + np.uint64(start) for start in starts]
    for at in range(words.shape[1]):
        lanes[at % 4] = _round(lanes[at % 4], words[:, at])
    hashes = sum((_rotated(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)), np.uint64(0))
    for lane in lanes:
        hashes = (hashes ^ _round(np.zeros_like(lane), lane)) * np.uint64(_P1) + np.uint64(_P4)
    return hashes
