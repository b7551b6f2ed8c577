"""New rows with all columns of their table: computes generated columns and defaults that data lacks.

In: data, and the `ComputedColumns` of its table. Out: batches of exactly the table's Arrow schema, as from
``conform``, or an error that shows a row whose generated column differs from its expression.
PROTOCOL.md, "Generated Columns", "Default Columns".
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from txlog.errors import InvalidInputError, TxlogError
from txlog.protocol.schema import Struct, fold_name, to_arrow
from txlog.writer.conform import Conformer, conformer_for
from txlog.writer.convert import BadRow, required
from txlog.writer.generated_columns import ComputedColumns

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Completer", "completed", "completer_for"]


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
    if computed is None:
        return conformer_for(schema, batch.schema, table).conform(batch, first_row)
    return Completer(schema, batch.schema, computed, table).conform(batch, first_row, are_new)


class Completer:
    """A `Conformer` that computes missing generated columns and defaults, and checks the ones that data has.

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
        defaults = {name: computed.default_of(name) for name in schema.names if name in absent}
        self._defaults = {name: value for name, value in defaults.items() if value is not None}
        left_out = {*self._defaults, *(each.name for each in self._absent)}
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
            from txlog.expressions.evaluate import evaluate

            columns.update({name: evaluate(value, rows) for name, value in self._defaults.items()})
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
            raise InvalidInputError(
                f"column {bad.column} {bad.problem} (row {first_row + bad.row}, counting from 0)", table=self._table
            ) from None
