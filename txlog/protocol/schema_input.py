"""What a caller may hand over as a table's schema.

In: a pyarrow, Spark or Delta schema, DDL, or Arrow types by name. Out: a ``Struct``, or ``InvalidInputError`` saying
what to give instead. What a new table's schema may hold is looked at in ``schema_merge``.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from txlog.errors import InvalidInputError
from txlog.protocol.schema import Struct, from_arrow, schema_from_json
from txlog.util.arguments import type_name_of

__all__ = ["SCHEMA_EXAMPLE", "from_any"]

SCHEMA_EXAMPLE = '{"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": false, "metadata": {}}]}'


def from_any(schema: Any) -> Struct:
    """A schema as callers hold one: ours, pyarrow's, Spark's (by its JSON; pyspark is not imported), Delta JSON, DDL.

    Also what has ``__arrow_c_schema__``, and Arrow types by name. Raises InvalidInputError, UnsupportedFeatureError.
    """
    if isinstance(schema, Struct):
        return schema
    if isinstance(schema, str) and schema.strip()[:1] not in ("{", "[", '"'):
        from txlog.protocol.schema_ddl import parse_columns

        return parse_columns(schema)
    if isinstance(schema, dict) and schema and all(isinstance(kind, pa.DataType) for kind in schema.values()):
        schema = pa.schema(list(schema.items()))
    try:
        if not isinstance(schema, pa.Schema) and not hasattr(schema, "__arrow_c_schema__"):
            return schema_from_json(schema.jsonValue() if hasattr(schema, "jsonValue") else schema)
        arrow = pa.schema(schema)
    except ValueError as error:
        what = "string" if isinstance(schema, str | bytes) else type_name_of(schema)
        raise InvalidInputError(
            f"this {what} is not a schema ({error}): give a pyarrow.Schema or {{'id': pyarrow.int64()}}, a Spark"
            f' StructType, DDL such as "id bigint not null, name string", or the JSON of a Delta schema,'
            f" {SCHEMA_EXAMPLE}; txlog.write(uri, data) makes a table for data"
        ) from None
    return from_arrow(arrow)
