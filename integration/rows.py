"""A table's contents as values to compare, by more than one reader; and a check that nothing in it is wrong."""

from __future__ import annotations

import decimal
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import deltalake
import pyarrow as pa

from txlog.audit.verify import verify_table
from txlog.core.store import open_store

__all__ = ["as_rows", "assert_sound", "counted", "in_schema", "read_by_deltalake"]


def as_rows(table: pa.Table) -> list[str]:
    """The rows as sorted texts: order does not count, NaN equals itself, and 0.0 is not -0.0."""
    return sorted(map(repr, (_plain(row) for row in table.to_pylist())))


def in_schema(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Another engine's columns by name, in the types of ``schema``."""
    return pa.table([table.column(field.name).cast(field.type) for field in schema], names=schema.names)


def counted(rows: Any, *columns: str) -> Counter[tuple[Any, ...]]:
    """How often each row is there, as a tuple of the values of ``columns``."""
    return Counter(zip(*(rows[name].to_pylist() for name in columns), strict=True))


def read_by_deltalake(table: deltalake.DeltaTable, *columns: str) -> pa.Table:
    """The rows as deltalake's own engine reads them, with these columns or all."""
    query = deltalake.QueryBuilder().register("t", table)
    return pa.table(query.execute(f"select {', '.join(columns) or '*'} from t").read_all())


def assert_sound(uri: str, storage_options: Mapping[str, str] | None = None) -> None:
    """What `txlog verify` says: every commit parses, every file is there, every checkpoint equals the fold."""
    found = verify_table(open_store(uri, storage_options))
    assert found.findings == ()


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
