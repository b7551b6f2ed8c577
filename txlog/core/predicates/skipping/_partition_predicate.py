"""Judges files by their partition values: a predicate on partition columns alone decides for all rows of a file.

In: a table's definition, a predicate, and partition values as in the log. Out: whether all rows of a file are
selected or none. Unlike bounds, these values are exact for every function and type, so no file needs to be read.
PROTOCOL.md, "Partition Value Serialization".
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

import txlog.core.format.arrow.python_values  # noqa: F401  has pyarrow import pandas
from txlog.core.format.column_mapping import physical_fields
from txlog.core.format.defined_table import DefinedTable
from txlog.core.format.partition_values import decode, partition_key
from txlog.core.format.schema import Struct, to_arrow
from txlog.core.predicates import evaluate
from txlog.core.predicates.terms.predicate import Predicate


class PartitionPredicate:
    """Evaluates each combination of partition values once. Use `of`, which checks that the values decide."""

    def __init__(self, predicate: Predicate, table: DefinedTable) -> None:
        self._predicate = predicate
        self._fields = physical_fields(table.schema, table.partition_columns)
        self._schema = to_arrow(Struct(tuple(self._fields.values())))
        self._judged: dict[tuple[str | None, ...], bool] = {}

    @classmethod
    def of(cls, predicate: Predicate, table: DefinedTable) -> PartitionPredicate | None:
        """None if the predicate names a column that is not a partition column."""
        return cls(predicate, table) if predicate.columns() <= {*table.partition_columns} else None

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
        return evaluate(self._predicate, row)[0].as_py() is True
