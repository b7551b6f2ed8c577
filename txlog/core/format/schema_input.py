"""The forms in which a caller may pass a table's schema.

In: a pyarrow, Spark or Delta schema, DDL, or types by column name. Out: a ``Struct``, or ``InvalidInputError`` saying
what to give instead. ``schema_merge`` checks what a new table's schema may hold.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from txlog.core.format.schema import Struct, from_arrow, schema_from_json
from txlog.core.util import described, type_name_of
from txlog.errors import InvalidInputError

SCHEMA_EXAMPLE = '{"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": false, "metadata": {}}]}'


def from_any(schema: Any) -> Struct:
    """Convert a schema: ours, pyarrow's, Spark's (by its JSON; pyspark is not imported), Delta JSON or DDL.

    Also an object with ``__arrow_c_schema__``, and a dict from column names to Arrow types or to types in DDL.
    Raises InvalidInputError, UnsupportedFeatureError.
    """
    if isinstance(schema, Struct):
        return schema
    if isinstance(schema, str) and schema.strip()[:1] not in ("{", "[", '"'):
        from txlog.core.format.schema_ddl import parse_columns

        return parse_columns(schema)
    if isinstance(schema, dict) and _has_only(schema, pa.DataType):
        schema = pa.schema(list(schema.items()))
    if isinstance(schema, dict) and "type" not in schema and _has_only(schema, str):
        from txlog.core.format.schema_ddl import parse_types

        return parse_types(schema)
    try:
        if not isinstance(schema, pa.Schema) and not hasattr(schema, "__arrow_c_schema__"):
            return schema_from_json(schema.jsonValue() if hasattr(schema, "jsonValue") else schema)
        arrow = pa.schema(schema)
    except ValueError as error:
        what = "string" if isinstance(schema, str | bytes) else type_name_of(schema)
        raise InvalidInputError(
            f"this {what} is not a schema{_reason(schema, error)}: give a pyarrow.Schema,"
            " {'id': pyarrow.int64()} or {'id': 'bigint'}, a Spark StructType,"
            ' DDL such as "id bigint not null, name string", or the JSON of a Delta schema,'
            f" {SCHEMA_EXAMPLE}; txlog.write(uri, data) makes a table for data"
        ) from None
    return from_arrow(arrow)


def _reason(schema: Any, error: Exception) -> str:
    """Why a schema of the right form cannot be read; an object of another form needs no reason."""
    if isinstance(schema, dict) and "type" not in schema:
        for name, given in schema.items():
            if not isinstance(given, pa.DataType | str):
                return f" (the type of column {name!r} is {described(given)})"
        return " (its types are pyarrow's in part, and names in part)" if schema else " (it has no columns)"
    return f" ({error})" if isinstance(schema, dict | str | bytes) or hasattr(schema, "jsonValue") else ""


def _has_only(schema: dict[Any, Any], kind: type) -> bool:
    return bool(schema) and all(isinstance(each, kind) for each in schema.values())
