"""Columns of which only some values, or some fields, are known, such as those of deleted keys.

In: arrays by the path of what they are in a row. Out: a column, null where nothing is known.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa


def column_of_parts(
    parts: Mapping[tuple[str, ...], pa.Array], path: tuple[str, ...], kind: pa.DataType, count: int
) -> pa.Array:
    """The column at ``path``, which may be a struct with only some of its fields among ``parts``; null if none is."""
    if path in parts:
        return parts[path]
    if not any(each[: len(path)] == path for each in parts):
        return pa.nulls(count, kind)
    members = [column_of_parts(parts, (*path, field.name), field.type, count) for field in kind]
    return pa.StructArray.from_arrays(members, fields=list(kind))
