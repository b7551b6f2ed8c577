"""Rows as a table has them: columns by name, lossless conversions, NOT NULL checked, missing columns computed.

In: the table's schema, the data's Arrow schema, the table's `ComputedColumns`, and record batches. Out: record batches
of exactly the table's Arrow schema, or an error that lists every column that differs, or shows a row whose generated
column has another value than its expression. ``convert`` knows single types.
PROTOCOL.md, "Generated Columns", "Default Columns".
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from txlog.core.format.schema import DataType, Struct, fold_name, to_arrow, type_to_arrow
from txlog.core.writing._convert import BadRow, ColumnMismatch, Convert, conversion, match_fields, required
from txlog.core.writing._input import DataStream
from txlog.errors import InvalidInputError, SchemaMismatchError, TxlogError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from txlog.core.format.identity import IdentityColumn
    from txlog.core.row_rules import ComputedColumns


def conformer_for(
    table_schema: Struct, data_schema: pa.Schema, table: str | None = None, version: int | None = None
) -> Conformer:
    """A `Conformer`, built once for many small writes of the same shape: it holds no rows and is thread-safe."""
    try:
        # Without metadata: it does not affect types, and older pyarrow cannot hash a schema with metadata.
        return _built(table_schema, data_schema.remove_metadata()).of(table)
    except SchemaMismatchError as error:
        # Every append has a new version, and every branch another place: as parts of the key, they would defeat the
        # cache. A new table has -1.
        error.table = table
        error.version = None if version is None or version < 0 else version
        raise


@functools.lru_cache(maxsize=64)
def _built(table_schema: Struct, data_schema: pa.Schema) -> Conformer:
    return Conformer(table_schema, data_schema)


class Conformer:
    """Converts batches of one Arrow schema to a table's schema.

    The order and case of the data's columns do not matter, a missing nullable column becomes null, and all
    conversions are lossless. Raises SchemaMismatchError when built, listing each column with the table's
    type, the data's type and what to do; ``table`` and ``version`` begin its message.
    """

    __slots__ = ("_columns", "_data_schema", "_is_identity", "_table", "schema")

    def __init__(
        self,
        table_schema: Struct,
        data_schema: pa.Schema,
        *,
        table: str | None = None,
        version: int | None = None,
    ) -> None:
        self.schema: pa.Schema = to_arrow(table_schema)
        self._data_schema = data_schema
        self._table = table
        found: list[ColumnMismatch] = []
        positions = match_fields(table_schema.fields, list(data_schema), "", found)
        converts: list[Convert | None] = [
            None if at is None else conversion(field.type, data_schema.field(at).type, field.name, found)
            for field, at in zip(table_schema.fields, positions, strict=True)
        ]
        if found:
            order = {field.name: rank for rank, field in enumerate(table_schema.fields)}
            found.sort(key=lambda difference: order.get(difference.column.partition(".")[0], len(order)))
            names = tuple(each.column for each in found)
            raise SchemaMismatchError(_listed(found), table=table, version=version, columns=names)
        self._columns = list(zip(self.schema, positions, converts, strict=True))
        self._is_identity = data_schema.equals(self.schema) and not any(
            convert or not field.nullable for field, _, convert in self._columns
        )

    def of(self, table: str | None) -> Conformer:
        """The same for messages that name this table."""
        if table == self._table:
            return self
        found = object.__new__(Conformer)  # `copy.copy` takes as long as all else that a small write needs of it
        found.schema, found._data_schema, found._table = self.schema, self._data_schema, table
        found._columns, found._is_identity = self._columns, self._is_identity
        return found

    def accepts(self, data_schema: pa.Schema) -> bool:
        """Whether batches of this schema are what this conformer was built for."""
        return data_schema is self._data_schema or bool(data_schema.equals(self._data_schema))

    def conform(self, batch: pa.RecordBatch, first_row: int = 0) -> pa.RecordBatch:
        """The same rows in the table's schema (its Arrow metadata apart); columns that fit are shared, not copied.

        ``first_row`` is the number of rows before this batch, for messages. Raises InvalidInputError naming the
        column, the row (from 0) and the value, if the table cannot store a value.
        """
        if self._is_identity:
            return batch
        try:
            columns = [self._column(batch, *column) for column in self._columns]
        except BadRow as bad:
            raise _refused(bad, first_row, self._table) from None
        except (pa.ArrowException, OverflowError) as error:
            raise InvalidInputError(f"the data cannot be converted: {error}", table=self._table) from error
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    @staticmethod
    def _column(batch: pa.RecordBatch, field: pa.Field, at: int | None, convert: Convert | None) -> pa.Array:
        if at is None:
            from txlog.core.format.arrow.arrays import absent

            column = absent(batch.num_rows, field.type)
        else:
            column = batch.column(at)
        if convert is not None:
            column = convert(column)
        return column if field.nullable else required(column, field.name)


def _refused(bad: BadRow, first_row: int, table: str | None) -> InvalidInputError:
    row = first_row + bad.row
    return InvalidInputError(f"column {bad.column} {bad.problem} (row {row}, counting from 0)", table=table, row=row)


# --- columns without a value ---------------------------------------------------------------------------------------


def idle_as_null(schema: Struct, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch, in which a column that does not fit the table's, and is null throughout, has the table's type.

    Such a type says nothing: pandas gives a chunk of missing values as floats. Members of structs are treated alike.
    """
    columns = [
        _idle_as_null(_type_of(schema, field.name), values)
        for field, values in zip(batch.schema, batch.columns, strict=True)
    ]
    if all(new is old for new, old in zip(columns, batch.columns, strict=True)):
        return batch
    fields = [field.with_type(column.type) for field, column in zip(batch.schema, columns, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _idle_as_null(target: DataType | None, values: pa.Array) -> pa.Array:
    if target is None or _fits(target, values.type):
        return values
    if values.null_count == len(values) > 0:
        from txlog.core.format.arrow.arrays import absent

        return absent(len(values), type_to_arrow(target, ""))
    if not isinstance(target, Struct) or not pa.types.is_struct(values.type):
        return values
    names = [member.name for member in values.type]
    visible = [_idle_as_null(_type_of(target, name), each) for name, each in zip(names, values.flatten(), strict=True)]
    members = [member.with_type(each.type) for member, each in zip(values.type, visible, strict=True)]
    return pa.StructArray.from_arrays(visible, fields=members, mask=values.is_null())


def _fits(target: DataType, source: pa.DataType) -> bool:
    found: list[ColumnMismatch] = []
    conversion(target, source, "", found)
    return not found


def _type_of(struct: Struct, name: str) -> DataType | None:
    field = struct.find(name)
    return None if field is None else field.type


def fitting_stream(schema: Struct, stream: DataStream) -> DataStream:
    """The stream with its first batch as `idle_as_null` returns it. It requests that batch."""
    first = next(stream.batches, None)
    if first is None:
        return stream
    first = idle_as_null(schema, first)
    return DataStream(first.schema, itertools.chain((first,), stream.batches))


def nullable(schema: Struct) -> Struct:
    """The same columns, where neither columns nor struct fields are required."""
    return Struct(tuple(replace(field, nullable=True, type=_nullable_type(field.type)) for field in schema.fields))


def _nullable_type(data_type: DataType) -> DataType:
    return nullable(data_type) if isinstance(data_type, Struct) else data_type


def _listed(found: Sequence[ColumnMismatch]) -> str:
    """``1 column differs``, then one line per column: its name, both types and what to do."""
    width = max(len(difference.column) for difference in found)
    heading = "1 column differs" if len(found) == 1 else f"{len(found)} columns differ"
    lines = [
        f"  {each.column:<{width}}  table {each.table_type}, data {each.data_type}  -> {each.advice}" for each in found
    ]
    return "\n".join([heading, *lines])


# --- columns that rows may lack ------------------------------------------------------------------------------------


def completer_for(
    schema: Struct,
    data_schema: pa.Schema,
    computed: ComputedColumns | None,
    table: str | None = None,
    version: int | None = None,
) -> Conformer | Completer:
    """What converts new rows to the types of ``schema``, and computes the columns that they lack.

    Raises:
        SchemaMismatchError: The data does not fit.
        UnsupportedFeatureError: The data lacks a column whose default txlog cannot evaluate.
    """
    if computed is None:
        return conformer_for(schema, data_schema, table, version)
    return Completer(schema, data_schema, computed, table, version)


def completed(
    schema: Struct,
    batch: pa.RecordBatch,
    computed: ComputedColumns | None,
    table: str | None,
    first_row: int = 0,
    are_new: NDArray[np.bool_] | None = None,
) -> pa.RecordBatch:
    """One batch with all columns of ``schema``; arguments and errors as for `Completer`."""
    try:
        completer = completer_for(schema, batch.schema, computed, table)
    except SchemaMismatchError:
        batch = idle_as_null(schema, batch)
        completer = completer_for(schema, batch.schema, computed, table)
    if isinstance(completer, Conformer):
        return completer.conform(batch, first_row)
    return completer.conform(batch, first_row, are_new)


class Completer:
    """A `Conformer` that computes missing generated columns and defaults, checks the ones that data has, and numbers
    new rows.

    ``schema`` has the table's columns, or some of them; a generated column is only computed if the columns that it uses
    are among them.
    """

    def __init__(
        self,
        schema: Struct,
        data_schema: pa.Schema,
        computed: ComputedColumns,
        table: str | None = None,
        version: int | None = None,
    ) -> None:
        names = {fold_name(name) for name in data_schema.names}
        absent = {field.name for field in schema.fields if fold_name(field.name) not in names}
        known = {*schema.names}
        of_schema = [each for each in computed.generated if each.uses <= known]
        self._computed = computed
        self._table = table
        self._absent = [each for each in of_schema if each.name in absent]
        self._given = [each for each in of_schema if each.name in known - absent]
        self._numbered = [each for each in computed.identity if each.name in absent]
        for column in computed.identity:
            if column.name in known - absent:
                _refuse_given_numbers(column, table)
        defaults = {name: computed.default_of(name) for name in schema.names if name in absent}
        self._defaults = {name: value for name, value in defaults.items() if value is not None}
        left_out = {*self._defaults, *(each.name for each in self._absent), *(each.name for each in self._numbered)}
        kept = Struct(tuple(field for field in schema.fields if field.name not in left_out))
        self._conformer = conformer_for(kept, data_schema, table, version)
        self.schema: pa.Schema = to_arrow(schema)

    def accepts(self, data_schema: pa.Schema) -> bool:
        """Whether batches of this schema are what this completer was built for."""
        return self._conformer.accepts(data_schema)

    def conform(
        self, batch: pa.RecordBatch, first_row: int = 0, are_new: NDArray[np.bool_] | None = None
    ) -> pa.RecordBatch:
        """See `Conformer.conform`. Generated columns are checked in the rows ``are_new``; None means all."""
        rows = self._conformer.conform(batch, first_row)
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        if self._defaults:
            from txlog.core.predicates import evaluate

            columns.update({name: evaluate(value, rows) for name, value in self._defaults.items()})
        for column in self._numbered:
            columns[column.name] = self._computed.numbers_of(column, batch.num_rows)
        known = pa.RecordBatch.from_arrays([*columns.values()], names=[*columns])
        with contextlib.nullcontext() if self._table is None else TxlogError.located(self._table):
            columns.update({each.name: each.of(known) for each in self._absent})
            self._computed.check(self._given, known, first_row, are_new)
        return pa.RecordBatch.from_arrays(
            [self._checked(field, columns[field.name], first_row) for field in self.schema], schema=self.schema
        )

    def _checked(self, field: pa.Field, column: pa.Array, first_row: int) -> pa.Array:
        if field.nullable:
            return column
        try:
            return required(column, field.name)
        except BadRow as bad:
            raise _refused(bad, first_row, self._table) from None


def _refuse_given_numbers(column: IdentityColumn, table: str | None) -> None:
    from txlog.core.row_rules import refuse_given_numbers

    refuse_given_numbers(column, table)
