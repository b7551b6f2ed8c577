"""The rows of a query as the rows of a table: each column is cast to the type of the one that it goes to.

In: batches of a query, and fields of the table in the same order. Out: batches of these fields. This is SQL's store
assignment in ANSI mode, as Spark's Delta has it: any value goes into a column that it can be cast to, and a value that
does not fit is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from txlog.errors import InvalidInputError
from txlog.expressions.evaluate import evaluate
from txlog.expressions.sql import parse
from txlog.protocol.schema import Array, DataType, Field, Map, Struct, from_arrow, type_name, type_to_arrow

__all__ = ["as_cast", "as_stored"]

Cast = Callable[[pa.RecordBatch], pa.Array]


def as_cast(value: str, kind: DataType) -> str:
    """The text of a value as a value of a column of this type."""
    return value if isinstance(kind, Struct | Array | Map) else f"CAST(({value}) AS {type_name(kind)})"


def as_stored(rows: pa.RecordBatchReader, fields: Sequence[Field]) -> pa.RecordBatchReader:
    """The rows with the names and types of ``fields``, one for each of their columns, in order.

    Raises InvalidInputError for a type that cannot be stored, and in the stream for a value that does not fit.
    """
    if len(rows.schema) != len(fields):
        raise InvalidInputError(
            f"the query has {len(rows.schema)} columns, and they go to {len(fields)}:"
            f" {', '.join(field.name for field in fields)}; name the columns: INSERT INTO table (a, b) SELECT ..."
        )
    given = pa.schema([field.with_name(f"c{number}") for number, field in enumerate(rows.schema)])
    casts = [_cast(given, number, field) for number, field in enumerate(fields)]
    schema = pa.schema([pa.field(field.name, type_to_arrow(field.type)) for field in fields])

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in rows:
            renamed = pa.RecordBatch.from_arrays(batch.columns, schema=given)
            yield pa.RecordBatch.from_arrays([cast(renamed) for cast in casts], schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _cast(given: pa.Schema, number: int, field: Field) -> Cast:
    wanted = type_to_arrow(field.type)
    if given.field(number).type == wanted:
        return lambda batch: batch.column(number)
    if isinstance(field.type, Struct | Array | Map):
        return lambda batch: _nested(batch.column(number), wanted, field.name)
    expression = parse(as_cast(f"c{number}", field.type), from_arrow(pa.schema([given.field(number)])))
    return lambda batch: evaluate(expression, batch)


def _nested(column: pa.Array, wanted: pa.DataType, name: str) -> pa.Array:
    try:
        return column.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInputError(f"column {name} cannot store the values of the query: {error}") from None
