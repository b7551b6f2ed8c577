"""Columns that only data files have, for the name mapping.

In: a table's definition, and the columns of its files without ids. Out: a name mapping with all of these columns.
Once a table maps its columns, it can drop one without a new file. Files of clones and other programs may have more
columns than the table, and files from before row tracking was dropped still have its columns. If the name mapping
lacks a column of a file, PyIceberg refuses the file, and DuckDB reads the whole struct that holds it as null. Iceberg
spec, "Column Projection".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any

from txlog.core.format.actions import Metadata
from txlog.core.format.column_mapping import MAX_COLUMN_ID_KEY, ids_of, is_mapped, physical_name, schema_of
from txlog.iceberg.metadata.schema import ColumnPath

_LOWEST_ID, _HIGHEST_ID = 2_000_000_000, 2_147_483_445
"""Ids that no column gets, below Iceberg's reserved ids and the id of ``_change_type``."""
_NEW_NAME = "col-"


def may_have_dropped_columns(metadata: Metadata) -> bool:
    """Whether files without column ids may have a column that the schema lacks.

    Such files are from before the table mapped its columns. Columns from that time keep their names in files; later
    ones are named ``col-`` and a UUID. A dropped column leaves its id unused.
    """
    schema = schema_of(metadata)
    if not is_mapped(schema) or all(physical_name(each).startswith(_NEW_NAME) for each in schema.fields):
        return False
    highest = metadata.configuration.get(MAX_COLUMN_ID_KEY, "")
    return not highest.isdigit() or len({*ids_of(schema)}) < int(highest)


def hidden_columns(mapping: list[dict[str, Any]], above: ColumnPath = ()) -> Iterator[ColumnPath]:
    """The columns of a name mapping that only data files have: those of `with_columns` and of row tracking."""
    for entry in mapping:
        path = (*above, entry["names"][0])
        if entry["field-id"] >= _LOWEST_ID:
            yield path
        yield from hidden_columns(entry.get("fields", []), path)


def with_columns(mapping: list[dict[str, Any]], paths: Iterable[ColumnPath]) -> list[dict[str, Any]]:
    """The name mapping, extended by the columns that it lacks, each before what is inside it."""
    ours = [number for number in _numbers(mapping) if _LOWEST_ID <= number <= _HIGHEST_ID]
    numbers = count(min(ours, default=_HIGHEST_ID + 1) - 1, -1)
    for path in sorted(paths):
        mapping = _with_column(mapping, path, numbers)
    return mapping


def _with_column(mapping: list[dict[str, Any]], path: ColumnPath, numbers: Iterator[int]) -> list[dict[str, Any]]:
    name, *below = path
    at = next((at for at, entry in enumerate(mapping) if name in entry["names"]), None)
    if at is None:
        return [*mapping, {"field-id": next(numbers), "names": [name]}]
    if not below:
        return mapping
    inner = _with_column(mapping[at].get("fields", []), tuple(below), numbers)
    return [*mapping[:at], {**mapping[at], "fields": inner}, *mapping[at + 1 :]]


def _numbers(mapping: list[dict[str, Any]]) -> Iterator[int]:
    for entry in mapping:
        yield entry["field-id"]
        yield from _numbers(entry.get("fields", []))
