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
from txlog.protocol.schema import (
    Array,
    DataType,
    Field,
    Map,
    Struct,
    backquoted,
    fold_name,
    from_arrow,
    type_name,
    type_to_arrow,
)
from txlog.result import counted
from txlog.statements.cursor import quoted

__all__ = ["as_cast", "as_stored", "set_text"]

Cast = Callable[[pa.RecordBatch], pa.Array]


def as_cast(value: str, kind: DataType) -> str:
    """The text of a value as a value of a column of this type."""
    return value if isinstance(kind, Struct | Array | Map) else f"CAST(({value}) AS {type_name(kind)})"


def set_text(field: Field, values: Sequence[tuple[tuple[str, ...], str]], reference: str) -> str:
    """The text of a column's new value, from the values of the column or of fields of its struct, by their paths.

    ``reference`` is how a text names the column. A struct gets its other fields from itself.
    """
    whole = [text for path, text in values if not path]
    if whole and len(values) == 1:
        return as_cast(whole[0], field.type)
    if whole or not isinstance(field.type, Struct):
        raise InvalidInputError(f"{field.name} is set twice" if whole else f"{field.name} is no struct")
    members = {fold_name(member.name): member for member in field.type.fields}
    for path, _ in values:
        if fold_name(path[0]) not in members:
            raise InvalidInputError(f"{field.name} has no field {path[0]}: it has {', '.join(members)}")
    parts = []
    for key, member in members.items():
        inner = [(path[1:], text) for path, text in values if fold_name(path[0]) == key]
        own = f"{reference}.{backquoted(member.name)}"
        parts.append(f"{quoted(member.name)}, {set_text(member, inner, own) if inner else own}")
    return f"named_struct({', '.join(parts)})"


def as_stored(rows: pa.RecordBatchReader, fields: Sequence[Field]) -> pa.RecordBatchReader:
    """The rows with the names and types of ``fields``, one for each of their columns, in order.

    Raises InvalidInputError for a type that cannot be stored, and in the stream for a value that does not fit.
    """
    if len(rows.schema) != len(fields):
        raise InvalidInputError(
            f"the query has {counted(len(rows.schema), 'column')}, and the statement fills {len(fields)}:"
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
    store = (
        _nested(field, wanted) if isinstance(field.type, Struct | Array | Map) else _plain(given.field(number), field)
    )

    def cast(batch: pa.RecordBatch) -> pa.Array:
        column = batch.column(number)
        return pa.nulls(len(column), wanted) if column.null_count == len(column) else store(batch, column)

    return cast


def _plain(given: pa.Field, field: Field) -> Callable[[pa.RecordBatch, pa.Array], pa.Array]:
    try:
        expression = parse(as_cast(given.name, field.type), from_arrow(pa.schema([given])))
    except InvalidInputError as error:  # NULL without a type has some type in a query, so only a value is an error
        refusal = error

        def refuse(batch: pa.RecordBatch, column: pa.Array) -> pa.Array:
            raise refusal

        return refuse
    return lambda batch, column: evaluate(expression, batch)


def _nested(field: Field, wanted: pa.DataType) -> Callable[[pa.RecordBatch, pa.Array], pa.Array]:
    def cast(batch: pa.RecordBatch, column: pa.Array) -> pa.Array:
        try:
            return column.cast(wanted)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InvalidInputError(f"column {field.name} cannot store the values of the query: {error}") from None

    return cast
