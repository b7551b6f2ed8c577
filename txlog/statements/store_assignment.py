"""The rows of a query as the rows of a table: each column is cast to the type of the one that it goes to.

In: batches of a query, and a field of the table for each of their columns. Out: batches of these fields. This is SQL's
store assignment in ANSI mode, as Spark's Delta has it: any value goes into a column that it can be cast to, and a value
that does not fit is an error. A struct has all fields of its column, and no others: none gets NULL or is dropped
unasked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import pyarrow as pa

from txlog.core import ambient
from txlog.core.format.arrow.arrays import LIST_TYPES, as_list_of_entries, offsets_and_mask
from txlog.core.format.schema import (
    Array,
    DataType,
    Field,
    Map,
    Struct,
    fold_name,
    from_arrow,
    places_by_name,
    type_name,
    type_to_arrow,
)
from txlog.core.predicates import Sql, assign, evaluate, parse
from txlog.core.wording import setting
from txlog.errors import InvalidInputError
from txlog.statements.cursor import quoted

Cast: TypeAlias = Callable[[pa.Array], pa.Array]
PairFields: TypeAlias = Callable[[Sequence[Field], Sequence[str], str], list[int]]
"""For each field of a column's struct, the position of its value among the names of the query's. Raises
InvalidInputError with the column if they do not fit."""


def as_cast(value: str, kind: DataType) -> str:
    """The text of a value as a value of a column of this type."""
    return value if isinstance(kind, Struct | Array | Map) else f"CAST(({value}) AS {type_name(kind)})"


def constant(text: str, field: Field, zone: str) -> pa.Scalar:
    """The value that PARTITION gives a column, for all rows. Raises InvalidInputError: no column has a name in it."""
    value = assign(Sql(as_cast(text, field.type)), field, Struct(()), zone=zone, now=ambient.now())
    return evaluate(value, pa.RecordBatch.from_pydict({"row": [0]}))[0]


def as_literal(value: pa.Scalar, kind: DataType) -> str:
    """A value as SQL that every engine reads as this value."""
    return as_cast(quoted(value.as_py()), kind)


def as_stored(
    rows: pa.RecordBatchReader, fields: Sequence[Field], zone: str, *, by_name: bool = False
) -> pa.RecordBatchReader:
    """The rows with the names and types of ``fields``, one for each of their columns, in order.

    The fields of a struct go by position too, as in Spark, or with ``by_name`` by their names in any case. ``zone`` is
    that of times without one.

    Raises InvalidInputError for a type that cannot be stored, and in the stream for a value that does not fit.
    """
    how = _Storing(pairing(by_name=by_name), zone)
    casts = [_cast(given.type, field.type, field.name, how) for given, field in zip(rows.schema, fields, strict=True)]
    schema = pa.schema([pa.field(field.name, type_to_arrow(field.type)) for field in fields])

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in rows:
            columns = [cast(column) for cast, column in zip(casts, batch.columns, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def pairing(*, by_name: bool) -> PairFields:
    """How the fields of a query's structs go to those of the table's."""
    return _fields_by_name if by_name else _fields_by_position


def _fields_by_name(fields: Sequence[Field], given: Sequence[str], column: str) -> list[int]:
    """For each field of a struct, the position of its value among ``given``, by name in any case.

    Raises InvalidInputError if the names are not the same.
    """
    names = [fold_name(name) for name in given]
    if sorted(names) != sorted(fold_name(field.name) for field in fields):
        message = f"{_differing(fields, given, column)}: BY NAME needs each of them once, by its name"
        if {fold_name(field.name) for field in fields} < {*names}:
            message += f"; {setting('schema_mode', 'merge')} adds those that the table lacks"
        raise InvalidInputError(message)
    places_of = places_by_name(given)
    return [places_of(field.name)[0] for field in fields]


def _fields_by_position(fields: Sequence[Field], given: Sequence[str], column: str) -> list[int]:
    if len(given) != len(fields):
        raise InvalidInputError(f"{_differing(fields, given, column)}: give it a value for each field, in this order")
    return list(range(len(fields)))


def _differing(fields: Sequence[Field], given: Sequence[str], column: str) -> str:
    wanted = ", ".join(field.name for field in fields)
    return f"column {column} is a struct of {wanted}, and the query has one of {', '.join(given)}"


def unstorable(column: str, target: DataType, source: object) -> InvalidInputError:
    """The error, to raise, for a column of a query whose type no cast makes that of the table's."""
    return InvalidInputError(f"column {column} is a {type_name(target)}: it cannot store {source}")


class _Storing(NamedTuple):
    pair: PairFields
    zone: str


def _cast(source: pa.DataType, target: DataType, column: str, how: _Storing) -> Cast:
    wanted = type_to_arrow(target)
    if source == wanted:
        return lambda array: array
    match target:
        case Struct() if pa.types.is_struct(source):
            store = _struct_cast(source, target, column, how)
        case Array() if isinstance(source, LIST_TYPES):
            store = _list_cast(source, target, column, how)
        case Map() if pa.types.is_map(source):
            store = _map_cast(source, target, column, how)
        case Struct() | Array() | Map():
            store = _refusal(unstorable(column, target, source))
        case _:
            store = _plain_cast(source, target, how.zone)
    return lambda array: pa.nulls(len(array), wanted) if array.null_count == len(array) else store(array)


def _struct_cast(source: pa.StructType, target: Struct, column: str, how: _Storing) -> Cast:
    wanted = type_to_arrow(target)
    places = how.pair(target.fields, [field.name for field in source], column)
    casts = [
        _cast(source.field(at).type, field.type, f"{column}.{field.name}", how)
        for at, field in zip(places, target.fields, strict=True)
    ]

    def cast(array: pa.Array) -> pa.Array:
        visible = array.flatten()  # a value below a null struct is null: it may be one that does not fit
        members = [member(visible[at]) for at, member in zip(places, casts, strict=True)]
        return pa.StructArray.from_arrays(members, fields=list(wanted), mask=array.is_null())

    return cast


def _list_cast(source: pa.DataType, target: Array, column: str, how: _Storing) -> Cast:
    wanted = type_to_arrow(target)
    element = _cast(source.value_type, target.element, f"{column}.element", how)

    def cast(array: pa.Array) -> pa.Array:
        offsets, mask = offsets_and_mask(array)
        return pa.ListArray.from_arrays(offsets, element(array.flatten()), type=wanted, mask=mask)

    return cast


def _map_cast(source: pa.MapType, target: Map, column: str, how: _Storing) -> Cast:
    wanted = type_to_arrow(target)
    key = _cast(source.key_type, target.key, f"{column}.key", how)
    value = _cast(source.item_type, target.value, f"{column}.value", how)

    def cast(array: pa.Array) -> pa.Array:
        lists = as_list_of_entries(array)
        offsets, mask = offsets_and_mask(lists)
        entries = lists.flatten()
        return pa.MapArray.from_arrays(offsets, key(entries.field(0)), value(entries.field(1)), wanted, mask=mask)

    return cast


def _plain_cast(source: pa.DataType, target: DataType, zone: str) -> Cast:
    given = pa.schema([pa.field("value", source)])
    try:
        expression = parse(as_cast("value", target), from_arrow(given), zone=zone)
    except InvalidInputError as error:
        return _refusal(error)
    return lambda array: evaluate(expression, pa.RecordBatch.from_arrays([array], schema=given))


def _refusal(error: InvalidInputError) -> Cast:
    """What raises for values: NULL without a type has some type in a query, so the type alone is no error."""

    def refuse(array: pa.Array) -> pa.Array:
        raise error

    return refuse
