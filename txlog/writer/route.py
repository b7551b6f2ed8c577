"""Which partition each row belongs to: groups rows with array operations, never one by one.

In: a conformed record batch. Out: for each partition in it, one batch of its rows, in order, without the partition
columns. Two values belong to one partition if and only if their text in ``add.partitionValues`` is equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from txlog.arrow.arrays import flags_of, from_numbers, numbers_of
from txlog.errors import InvalidInputError
from txlog.protocol.partition_values import encode_array
from txlog.protocol.schema import Decimal, Field, Primitive, Struct, type_name

__all__ = ["PartitionKey", "Router"]

PartitionKey: TypeAlias = tuple[str | None, ...]
"""The partition's values as text, in the order of the table's partition columns."""

Codes: TypeAlias = Any
"""A numpy array of small integers, one per row."""


class Router:
    """Splits batches by partition. Knows the table's partition columns, but holds no rows."""

    def __init__(self, schema: Struct, partition_columns: Sequence[str]) -> None:
        self._columns: list[Field] = []
        for name in partition_columns:
            found = schema.find(name)
            if found is None:
                raise InvalidInputError(f"partition column {name} is not a column of the table")
            if not isinstance(found.type, (Primitive, Decimal)):
                raise InvalidInputError(f"{name} is a {type_name(found.type)}: a table cannot be partitioned by it")
            self._columns.append(found)

    def route(self, batch: pa.RecordBatch, data_columns: list[str]) -> Iterator[tuple[PartitionKey, pa.RecordBatch]]:
        """One (partition, rows) pair for each partition in ``batch``; rows keep their order and own their memory.

        One take sorts all rows, which are then copied partition by partition. A take per partition would cost several
        times as much if there are many, and slices without copies would keep all rows in memory. The batch itself is
        released before the copies are made. Raises InvalidInputError for a value that has no text.
        """
        codes, keys = self._codes(batch)
        rows = batch.select(data_columns)
        del batch
        counts = np.bincount(codes, minlength=len(keys))
        present = np.flatnonzero(counts).tolist()
        if len(present) == 1:
            yield self._checked(keys[present[0]]), rows
            return
        rows = rows.take(from_numbers(np.argsort(codes, kind="stable")))
        nothing = rows.slice(0, 0)
        ends, counts = np.cumsum(counts).tolist(), counts.tolist()
        for code in present:
            start = ends[code] - counts[code]
            yield self._checked(keys[code]), pa.concat_batches([rows.slice(start, counts[code]), nothing])

    def _codes(self, batch: pa.RecordBatch) -> tuple[Codes, list[PartitionKey]]:
        """A code for each row, and the partition of each code."""
        first, *others = self._columns
        codes, texts = _column_codes(batch.column(first.name), first)
        keys: list[PartitionKey] = [(text,) for text in texts]
        for field in others:
            more, texts = _column_codes(batch.column(field.name), field)
            codes = codes.astype(np.int64) * len(texts) + more
            used, codes = _renumbered(codes, len(keys) * len(texts))
            keys = [(*keys[code // len(texts)], texts[code % len(texts)]) for code in used]
        # up to 16 bits, this is a radix sort, which is several times faster
        width = np.uint8 if len(keys) <= 1 << 8 else np.uint16 if len(keys) <= 1 << 16 else np.int64
        return codes.astype(width, copy=False), keys

    def _checked(self, key: PartitionKey) -> PartitionKey:
        for field, text in zip(self._columns, key, strict=True):
            if text is None and not field.nullable:
                raise InvalidInputError(
                    f"partition column {field.name} is NOT NULL, but has an empty value, which Delta stores as null"
                )
        return key


def _column_codes(values: pa.Array, field: Field) -> tuple[Codes, list[str | None]]:
    """A code for each row of one column, and the text of each code. The last code means null."""
    by_value = values.dictionary_encode()
    # Different values can share a text: "" and null.
    by_text = encode_array(by_value.dictionary, field.type, column=field.name).dictionary_encode()
    null_code = len(by_text.dictionary)
    code_of_value = np.append(_indices(by_text.indices, null_code), null_code).astype(np.int32)
    return code_of_value[_indices(by_value.indices, -1)], [*by_text.dictionary.to_pylist(), None]


def _indices(indices: pa.Array, null: int) -> Codes:
    numbers = numbers_of(indices)
    return np.where(flags_of(indices.is_valid()), numbers, null) if indices.null_count else numbers


def _renumbered(codes: Codes, bound: int) -> tuple[list[int], Codes]:
    """The codes in use, ascending, and each row's place among them."""
    if bound <= 1 << 20:
        used = np.flatnonzero(np.bincount(codes, minlength=bound))
        place = np.zeros(bound, dtype=np.int64)
        place[used] = np.arange(len(used))
        return used.tolist(), place[codes]
    used, places = np.unique(codes, return_inverse=True)
    return used.tolist(), places.reshape(-1)
