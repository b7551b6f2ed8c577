"""Selects files by their partition values: by a predicate on partition columns, or by named partitions.

In: a table's definition, and partition values as the log has them. Out: for each file whether all of its rows are
selected or none. Unlike bounds the values are exact, for every function and type, so no file needs to be read.
PROTOCOL.md, "Partition Value Serialization".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pyarrow as pa

from txlog.arrow.maps import partition_texts
from txlog.expressions.predicates import Predicate
from txlog.log.files import add_files_of
from txlog.log.state import TableState
from txlog.protocol.actions import AddFile
from txlog.protocol.column_mapping import physical_fields
from txlog.protocol.partition_values import canonical_text, decode, partition_key
from txlog.protocol.schema import Struct, to_arrow

__all__ = ["PartitionPredicate", "files_in_partitions"]


class PartitionPredicate:
    """Evaluates each combination of partition values once. Use `of`, which checks that the values decide."""

    def __init__(self, predicate: Predicate, state: TableState) -> None:
        self._predicate = predicate
        self._fields = physical_fields(state.schema, state.partition_columns)
        self._schema = to_arrow(Struct(tuple(self._fields.values())))
        self._judged: dict[tuple[str | None, ...], bool] = {}

    @classmethod
    def of(cls, predicate: Predicate, state: TableState) -> PartitionPredicate | None:
        """None if the predicate names a column that is not a partition column."""
        return cls(predicate, state) if predicate.columns() <= {*state.partition_columns} else None

    def holds(self, partition_values: Mapping[str, str | None]) -> bool:
        """Whether it is true of the rows of a file with these values. Raises ``CorruptLogError`` for damaged ones."""
        key = partition_key(partition_values, self._fields)
        found = self._judged.get(key)
        if found is None:
            found = self._judged[key] = self._evaluated(key)
        return found

    def _evaluated(self, key: tuple[str | None, ...]) -> bool:
        values = [
            decode(text, each.type, column=each.name) for text, each in zip(key, self._fields.values(), strict=True)
        ]
        arrays = [pa.array([value], each.type) for value, each in zip(values, self._schema, strict=True)]
        row = pa.RecordBatch.from_arrays([*arrays, pa.nulls(1)], names=[*self._schema.names, ""])
        return self._predicate.evaluate(row)[0].as_py() is True


def files_in_partitions(files: pa.Table, state: TableState, keys: Collection[tuple[str | None, ...]]) -> list[AddFile]:
    """The live ``files`` in the partitions ``keys`` (see `partition_values.partition_key`)."""
    fields = physical_fields(state.schema, state.partition_columns)
    texts: dict[str, dict[str | None, str | None]] = {name: {} for name in fields}
    found = []
    for batch in files.to_batches():
        columns = [partition_texts(batch.column("partitionValues"), name)[0].to_pylist() for name in fields]
        for (name, each), column in zip(fields.items(), columns, strict=True):
            for text in set(column) - texts[name].keys():
                texts[name][text] = canonical_text(text, each.type)
        spelled = [[texts[name][text] for text in column] for name, column in zip(fields, columns, strict=True)]
        mask = [key in keys for key in zip(*spelled, strict=True)]
        found += add_files_of(pa.Table.from_batches([batch.filter(pa.array(mask, pa.bool_()))]))
    return found
