"""What an export has to know of data files and the log does not say: asked of their footers, where it has to be.

In: a table's store and some ``add`` actions. Out: how many rows they have; or an error that names a file in which
Iceberg readers would not find what is inside lists and maps, or would find other columns. Most tables never need it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from txlog.errors import CorruptLogError, IcebergExportError, NotFoundError
from txlog.iceberg.definition import Definition
from txlog.iceberg.schema import ColumnPath
from txlog.protocol.actions import AddFile
from txlog.protocol.column_mapping import PARQUET_FIELD_ID
from txlog.protocol.paths import path_below, resolve_data_path
from txlog.store.base import TableStore
from txlog.util.parallel import parallel_map

__all__ = ["check_column_ids", "check_element_ids", "row_counts"]

_AT_ONCE = 8
_RESERVED_IDS = 2_147_483_447  # Iceberg keeps them, and those above, for columns that no user makes


def row_counts(store: TableStore, adds: Sequence[AddFile]) -> list[int]:
    """How many rows each file has, dead ones included.

    Raises:
        IcebergExportError: A file lies outside of the table.
        NotFoundError: A file is gone.
        CorruptLogError: A file is no Parquet file.
        StorageError: The store failed.
    """
    return [footer.num_rows for footer in _footers(store, adds)]


def check_element_ids(store: TableStore, adds: Sequence[AddFile]) -> None:
    """Refuse files that have ids for their columns but none inside lists and maps: some readers show nulls there.

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


def check_column_ids(store: TableStore, adds: Sequence[AddFile], definition: Definition) -> None:
    """Refuse files with other column ids than the exported ones: where a file has ids, readers go by them alone.

    A file that is gone is passed over, since every reader fails on it. Raises ``IcebergExportError`` naming the first
    file and its column; else as `row_counts`.
    """
    for add, footer in zip(adds, parallel_map(lambda add: _present(store, add), adds, threads=_AT_ONCE), strict=True):
        found = dict(_column_ids(footer.schema.to_arrow_schema(), ())) if footer else {}
        if not any(found.values()):
            continue
        for path, number in found.items():
            wanted = definition.column_ids.get(path)
            if number != wanted and not (wanted is None and _is_free(number, definition)):
                raise IcebergExportError(
                    f"the data file {add.path} was written with column ids of its own, by which Iceberg readers would"
                    f" look for columns: {'.'.join(path)} has {_shown(number)}, and the exported table"
                    f" {_shown(wanted)}."
                    " They would read nulls or another column. Have txlog write its rows again: read the file,"
                    " delete its rows from the table, and append them",
                    table=store.uri,
                    path=add.path,
                )


def _present(store: TableStore, add: AddFile) -> Any:
    try:
        return _footer(store, add)
    except NotFoundError:
        return None


def _column_ids(fields: Any, above: ColumnPath) -> Iterator[tuple[ColumnPath, int | None]]:
    for column in fields:
        yield from _ids_inside(column, (*above, column.name))


def _ids_inside(column: pa.Field, path: ColumnPath) -> Iterator[tuple[ColumnPath, int | None]]:
    yield path, int(column.metadata[PARQUET_FIELD_ID]) if _has_id(column) else None
    kind = column.type
    if pa.types.is_struct(kind):
        yield from _column_ids(kind, path)
    elif pa.types.is_map(kind):
        yield from _ids_inside(kind.key_field, (*path, "key"))
        yield from _ids_inside(kind.item_field, (*path, "value"))
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _ids_inside(kind.value_field, (*path, "element"))


def _is_free(number: int | None, definition: Definition) -> bool:
    """Whether no column of the table has this id, or will ever have it: tables that map columns never reuse one."""
    if number is None or number >= _RESERVED_IDS:
        return True
    return definition.is_mapped and number not in definition.column_ids.values()


def _shown(number: int | None) -> str:
    return "no id" if number is None else f"the id {number}"


def _footers(store: TableStore, adds: Sequence[AddFile]) -> Iterator[Any]:
    return parallel_map(lambda add: _footer(store, add), adds, threads=_AT_ONCE)


def _footer(store: TableStore, add: AddFile) -> Any:
    import pyarrow.parquet as pq

    at: dict[str, Any] = {"table": store.uri, "path": add.path}
    path = path_below(store.uri, resolve_data_path(add.path))
    if path is None:
        raise IcebergExportError("the data file lies outside of the table's directory, so its footer is not read", **at)
    try:
        with store.files.open(path) as source:
            return pq.read_metadata(source)
    except (FileNotFoundError, NotFoundError) as error:
        raise NotFoundError("the log names a data file that is gone: vacuumed, or removed by hand", **at) from error
    except (pa.ArrowException, OSError) as error:
        raise CorruptLogError(f"a data file's footer cannot be read: {error}", **at) from error


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
