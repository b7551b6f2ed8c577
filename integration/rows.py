"""Rows as values to compare: what several of the integration tests need to say about two tables."""

from __future__ import annotations

import decimal
import math
from typing import Any

import pyarrow as pa

__all__ = ["as_rows", "in_schema"]


def as_rows(table: pa.Table) -> list[str]:
    """The rows as sorted texts: order does not count, NaN equals itself, and 0.0 is not -0.0."""
    return sorted(map(repr, (_plain(row) for row in table.to_pylist())))


def in_schema(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Another engine's columns by name, in the types of ``schema``."""
    return pa.table([table.column(field.name).cast(field.type) for field in schema], names=schema.names)


def _plain(value: Any) -> Any:
    """Values that print alike where they are alike: engines differ in Python types, such as of a map's entries."""
    if isinstance(value, dict):
        return {key: _plain(member) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(member) for member in value]
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, decimal.Decimal):
        return str(value)
    return value
