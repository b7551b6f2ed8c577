"""What an export must know about data files and the log does not say: read from their footers, only if necessary.

In: a table's store and some ``add`` actions. Out: their row counts; or an error for a file where Iceberg readers would
not find the contents of lists and maps, or would find other columns; or columns that only files have. Most tables never
need it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from txlog.core.format.actions import AddFile
from txlog.core.format.arrow.old_calendar import old_calendar
from txlog.core.format.arrow.parquet_rows import row_count
from txlog.core.format.column_mapping import PARQUET_FIELD_ID, file_ids
from txlog.core.format.statistics import file_leaves
from txlog.core.parallel import parallel_map
from txlog.core.reading import path_in_store, read_footer
from txlog.core.store import TableStore
from txlog.errors import IcebergExportError, NotFoundError
from txlog.iceberg.metadata.definition import IcebergDefinition
from txlog.iceberg.metadata.schema import ColumnPath

_AT_ONCE = 8
_RESERVED_IDS = 2_147_483_447  # Iceberg reserves ids from here on for columns that users do not define


def row_counts(store: TableStore, adds: Sequence[AddFile]) -> list[int]:
    """The number of rows in each file, including dead ones.

    Raises:
        NotFoundError: A file is missing.
        CorruptLogError: A file is not a Parquet file.
        StorageError: The store failed.
    """
    return [row_count(footer) for footer in _footers(store, adds)]


def check_element_ids(store: TableStore, adds: Sequence[AddFile]) -> None:
    """Refuse files that have column ids but none inside lists and maps: some readers show nulls there.

    Raises what `row_counts` raises, and ``IcebergExportError`` naming the first such file and its column.
    """
    for add, footer in zip(adds, _footers(store, adds), strict=True):
        schema = footer.schema.to_arrow_schema()
        if not any(_has_id(column) for column in schema):
            continue  # from before the table mapped its columns: readers find everything in it by name
        for name in _without_id(schema):
            raise IcebergExportError(
                f"the data file has no id for {name}, which is inside a list or a map: some Iceberg readers would show"
                " it as null. txlog writes these ids, so rewriting the file helps: write the table's rows again",
                table=store.uri,
                path=add.path,
            )


def check_column_ids(store: TableStore, adds: Sequence[AddFile], definition: IcebergDefinition) -> set[ColumnPath]:
    """Refuse files with other column ids than the exported ones: if a file has ids, readers use only these; and those
    that `check_calendar` refuses. Returns `columns_without_ids`.

    A missing file is skipped, since every reader fails on it. Raises what `row_counts` raises, and
    ``IcebergExportError`` naming the first such file and its column.
    """
    without: set[ColumnPath] = set()
    for add, footer in zip(adds, parallel_map(lambda add: _present(store, add), adds, threads=_AT_ONCE), strict=True):
        _check_calendar(store, add, footer)
        found = dict(file_ids(footer.schema.to_arrow_schema())) if footer else {}
        if not any(found.values()):
            without.update(found)
            continue
        for path, number in found.items():
            wanted = definition.column_ids.get(path)
            if number != wanted and not (wanted is None and _is_free(number, definition)):
                raise IcebergExportError(
                    f"the data file {add.path} was written with its own column ids, which Iceberg readers would use:"
                    f" {'.'.join(path)} has {_shown(number)}, and the exported table {_shown(wanted)}."
                    " They would read nulls or another column. Have txlog write its rows again: read the file,"
                    " delete its rows from the table, and append them",
                    table=store.uri,
                    path=add.path,
                )
    return without


def check_calendar(store: TableStore, adds: Sequence[AddFile]) -> None:
    """Refuse files with dates or times in the calendar of Spark 2, which Iceberg readers take for other days.

    A missing file is skipped. Raises what `row_counts` raises, and ``IcebergExportError`` naming the first such file.
    """
    for add, footer in zip(adds, parallel_map(lambda add: _present(store, add), adds, threads=_AT_ONCE), strict=True):
        _check_calendar(store, add, footer)


def _check_calendar(store: TableStore, add: AddFile, footer: Any) -> None:
    if footer is None or old_calendar(footer.metadata) is None:
        return
    if any(pa.types.is_temporal(kind) for _, (_, kind) in file_leaves(footer.schema.to_arrow_schema())):
        raise IcebergExportError(
            f"the data file {add.path} has dates or times in the calendar of Spark 2, which Iceberg readers take for"
            " other days. Have txlog write its rows again: read the file, delete its rows from the table, and append"
            " them",
            table=store.uri,
            path=add.path,
        )


def columns_without_ids(store: TableStore, adds: Sequence[AddFile]) -> set[ColumnPath]:
    """The columns of files without column ids, and what is inside them. Leaves out missing files.

    Raises CorruptLogError and StorageError like `row_counts`.
    """
    found: set[ColumnPath] = set()
    for footer in parallel_map(lambda add: _present(store, add), adds, threads=_AT_ONCE):
        columns = dict(file_ids(footer.schema.to_arrow_schema())) if footer else {}
        if not any(columns.values()):
            found.update(columns)
    return found


def _present(store: TableStore, add: AddFile) -> Any:
    try:
        return _footer(store, add)
    except NotFoundError:
        return None


def _is_free(number: int | None, definition: IcebergDefinition) -> bool:
    """Whether no column of the table has this id, or ever will: tables with column mapping never reuse one."""
    if number is None or number >= _RESERVED_IDS:
        return True
    return definition.is_mapped and number not in definition.column_ids.values()


def _shown(number: int | None) -> str:
    return "no id" if number is None else f"the id {number}"


def _footers(store: TableStore, adds: Sequence[AddFile]) -> Iterator[Any]:
    return parallel_map(lambda add: _footer(store, add), adds, threads=_AT_ONCE)


def _footer(store: TableStore, add: AddFile) -> Any:
    return read_footer(store, path_in_store(store.uri, add.path), add.path)


def _without_id(fields: Any, prefix: str = "") -> Iterator[str]:
    """The elements, keys and values without an id, by their paths."""
    for column in fields:
        yield from _inside(column.type, f"{prefix}{column.name}")


def _inside(kind: pa.DataType, name: str) -> Iterator[str]:
    if pa.types.is_struct(kind):
        yield from _without_id(kind, f"{name}.")
    elif pa.types.is_map(kind):
        for part, item in (("key", kind.key_field), ("value", kind.item_field)):
            yield from _element(item, f"{name}.{part}")
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _element(kind.value_field, f"{name}.element")


def _element(item: pa.Field, name: str) -> Iterator[str]:
    if not _has_id(item):
        yield name
    yield from _inside(item.type, name)


def _has_id(column: pa.Field) -> bool:
    return PARQUET_FIELD_ID in (column.metadata or {})
