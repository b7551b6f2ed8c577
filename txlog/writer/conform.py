"""The strict rules for data that a table accepts: columns by name, lossless conversions, NOT NULL checked on rows.

In: the table's schema, the data's Arrow schema, and record batches. Out: record batches of exactly the table's
Arrow schema, or SchemaMismatchError listing every column that differs. ``convert`` knows single types.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import pyarrow as pa
from msgspec.structs import replace

from txlog.errors import InvalidInputError, SchemaMismatchError
from txlog.protocol.schema import DataType, Struct, to_arrow
from txlog.writer.convert import BadRow, Convert, Difference, absent, conversion, match_fields, required

__all__ = ["Conformer", "conformer_for", "nullable"]


def conformer_for(
    table_schema: Struct, data_schema: pa.Schema, table: str | None = None, version: int | None = None
) -> Conformer:
    """A `Conformer`, built once for many small writes of the same shape: it holds no rows and is thread-safe."""
    try:
        # Without metadata: it does not affect types, and older pyarrow cannot hash a schema with metadata.
        return _built(table_schema, data_schema.remove_metadata(), table)
    except SchemaMismatchError as error:
        error.version = version  # every append has a new version: as part of the key, it would defeat the cache
        raise


@functools.lru_cache(maxsize=64)
def _built(table_schema: Struct, data_schema: pa.Schema, table: str | None) -> Conformer:
    return Conformer(table_schema, data_schema, table=table)


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
        found: list[Difference] = []
        positions = match_fields(table_schema.fields, list(data_schema), "", found)
        converts: list[Convert | None] = [
            None if at is None else conversion(field.type, data_schema.field(at).type, field.name, found)
            for field, at in zip(table_schema.fields, positions, strict=True)
        ]
        if found:
            order = {field.name: rank for rank, field in enumerate(table_schema.fields)}
            found.sort(key=lambda difference: order.get(difference.column.partition(".")[0], len(order)))
            raise SchemaMismatchError(_listed(found), table=table, version=version)
        self._columns = list(zip(self.schema, positions, converts, strict=True))
        self._is_identity = data_schema.equals(self.schema) and not any(
            convert or not field.nullable for field, _, convert in self._columns
        )

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
            raise InvalidInputError(
                f"column {bad.column} {bad.problem} (row {first_row + bad.row}, counting from 0)", table=self._table
            ) from None
        except (pa.ArrowException, OverflowError) as error:
            raise InvalidInputError(f"the data cannot be converted: {error}", table=self._table) from error
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    @staticmethod
    def _column(batch: pa.RecordBatch, field: pa.Field, at: int | None, convert: Convert | None) -> pa.Array:
        column = absent(batch.num_rows, field.type) if at is None else batch.column(at)
        if convert is not None:
            column = convert(column)
        return column if field.nullable else required(column, field.name)


def nullable(schema: Struct) -> Struct:
    """The same columns, where neither columns nor struct fields are required."""
    return Struct(tuple(replace(field, nullable=True, type=_nullable_type(field.type)) for field in schema.fields))


def _nullable_type(data_type: DataType) -> DataType:
    return nullable(data_type) if isinstance(data_type, Struct) else data_type


def _listed(found: Sequence[Difference]) -> str:
    """``1 column differs``, then one line per column: its name, both types and what to do."""
    width = max(len(difference.column) for difference in found)
    heading = "1 column differs" if len(found) == 1 else f"{len(found)} columns differ"
    lines = [
        f"  {each.column:<{width}}  table {each.table_type}, data {each.data_type}  -> {each.advice}" for each in found
    ]
    return "\n".join([heading, *lines])
