"""The net change of a version: the deleted and inserted rows that are left when equal ones cancel out.

In: every row of a version's removed and added files, each with its change type. Out: the rows without a counterpart. A
row that a copy keeps is in both inputs and cancels out. A row that a transaction wrote and then changed is in neither.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator

import pyarrow as pa

from txlog.core.format.change_data import INSERT

_DIGEST_BYTES = 16


def net_changes(read: Callable[[], Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """The rows of the batches from ``read``, without pairs of an insert and a delete of equal rows.

    ``read`` is called twice and must return the same rows both times. The last column is the change type, insert or
    delete. Only a 16-byte digest of each row is in memory. Rows with equal values are equal, NaN and nulls included.
    """
    surplus: Counter[bytes] = Counter()
    for batch in read():
        for digest, sign in _rows(batch):
            surplus[digest] += sign
            if not surplus[digest]:
                del surplus[digest]
    left = surplus
    for batch in read():
        kept = []
        for at, (digest, sign) in enumerate(_rows(batch)):
            if left.get(digest, 0) * sign > 0:
                left[digest] -= sign
                kept.append(at)
        if kept:
            yield batch.take(pa.array(kept))


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[bytes, int]]:
    """A digest of each row's values, and 1 for an insert, -1 for a delete."""
    *columns, kinds = [plain_times(column).to_pylist() for column in batch.columns]
    for kind, *values in zip(kinds, *columns, strict=True):
        text = repr(values).encode("utf-8", "surrogatepass")
        yield hashlib.blake2b(text, digest_size=_DIGEST_BYTES).digest(), 1 if kind == INSERT else -1


def plain_times(column: pa.Array) -> pa.Array:
    """Dates and timestamps as numbers, at every depth: Python's own types end at the year 9999."""
    plain = _plain_type(column.type)
    return column if plain == column.type else column.cast(plain)


def _plain_type(data_type: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_date32(data_type):
        return pa.int32()
    if types.is_timestamp(data_type):
        return pa.int64()
    if types.is_struct(data_type):
        return pa.struct([field.with_type(_plain_type(field.type)) for field in data_type])
    if types.is_map(data_type):
        return pa.map_(_plain_type(data_type.key_type), _plain_type(data_type.item_type))
    if types.is_list(data_type):
        return pa.list_(data_type.value_field.with_type(_plain_type(data_type.value_type)))
    return data_type
