"""The schema of a table made from files that other programs wrote: found in their footers, and merged.

In: the columns of each file, and the partition columns of their directories. Out: the columns of the table, all
nullable, or an error that names two files that do not fit each other. Pure. PROTOCOL.md, "Schema Serialization Format".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from txlog.core.format.schema import Array, DataType, Field, Map, Struct, fold_name, type_name
from txlog.core.format.schema_input import from_any
from txlog.core.util.arguments import names_in
from txlog.core.util.wording import argument
from txlog.errors import InvalidInputError, SchemaMismatchError, TxlogError
from txlog.loading.hive_paths import directories_of, type_of_texts

__all__ = ["merged_schema", "names_given", "partition_fields"]


def partition_fields(paths: Sequence[str], given: Any, uri: str) -> tuple[Field, ...]:
    """The partition columns that the directories of all files name, in their order.

    ``given`` are their names, or their types in DDL or a schema; None: as found. Types that are not given are found in
    the values. Raises InvalidInputError naming a file whose directories differ.
    """
    with TxlogError.located(uri):
        named = {path: directories_of(path) for path in paths}
    first = paths[0]
    for path, found in named.items():
        if [*map(fold_name, found)] != [*map(fold_name, named[first])]:
            raise InvalidInputError(
                f"{path} is in directories that name {_listed(found)}, and {first} in ones that name"
                f" {_listed(named[first])}: every file must name the same partition columns",
                table=uri,
                path=path,
            )
    typed = _given(given)
    if typed is not None and {*map(fold_name, typed)} != {*map(fold_name, named[first])}:
        raise InvalidInputError(
            f"{argument('partition_by')} has {_listed(typed)}, and the directories of {first} name"
            f" {_listed(named[first])}",
            table=uri,
            path=first,
        )
    folded = {fold_name(name): field for name, field in (typed or {}).items()}
    fields = []
    for name in named[first]:
        known = folded.get(fold_name(name))
        texts = (text for found in named.values() for key, text in found.items() if fold_name(key) == fold_name(name))
        fields.append(known or Field(name, type_of_texts(texts)))
    return tuple(fields)


def names_given(given: Any) -> list[str]:
    """The partition columns that the caller names; none if he leaves that to the directories."""
    return [*(_given(given) or {})]


def _given(given: Any) -> dict[str, Field | None] | None:
    """The partition columns that the caller names, with their types if he gives them."""
    if given is None:
        return None
    is_ddl = isinstance(given, str) and " " in given.strip().replace(", ", ",")
    if not is_ddl and isinstance(given, str | list | tuple | set | frozenset):
        return dict.fromkeys(names_in("partition_by", given))
    return {field.name: _nullable(field) for field in from_any(given).fields}


def merged_schema(files: Mapping[str, Struct], partition: Sequence[Field], uri: str) -> Struct:
    """The columns of all files, then those of the partitioning. ``files`` are columns by path, in order.

    A file may lack columns, at any depth. Raises SchemaMismatchError naming a file in which a column has another type,
    or a name that differs only in case.
    """
    merged: dict[str, Any] = {}
    owners: dict[tuple[str, ...], str] = {}
    known: list[Struct] = []
    for path, schema in files.items():
        if schema in known:
            continue
        known.append(schema)
        _take(schema, merged, (), _Owners(path, owners, uri))
    columns = {fold_name(field.name) for field in partition}
    fields = [field for name, field in _fields(merged) if fold_name(name) not in columns]
    return Struct((*fields, *partition))


class _Owners:
    """Which file a column was first seen in."""

    def __init__(self, path: str, owners: dict[tuple[str, ...], str], uri: str) -> None:
        self._path = path
        self._owners = owners
        self._uri = uri

    def own(self, column: tuple[str, ...]) -> None:
        self._owners.setdefault(column, self._path)

    def refuse(self, column: tuple[str, ...], mine: str, other: str) -> SchemaMismatchError:
        before = self._owners.get(column, "another file")
        name = ".".join(column)
        return SchemaMismatchError(
            f"{name} is {mine} in {self._path}, and {other} in {before}: files of one table must agree. Write the files"
            " of one of the two types again, or convert them separately",
            table=self._uri,
            path=self._path,
        )


def _take(schema: Struct, merged: dict[str, Any], above: tuple[str, ...], owners: _Owners) -> None:
    """Add a file's columns to ``merged``: folded name -> (name, type, or a dict of the same kind for a struct)."""
    for field in schema.fields:
        column = (*above, field.name)
        found = merged.get(fold_name(field.name))
        if found is None:
            owners.own(column)
            inner: dict[str, Any] = {}
            merged[fold_name(field.name)] = (
                field.name,
                inner if isinstance(field.type, Struct) else _loose(field.type),
            )
            if isinstance(field.type, Struct):
                _take(field.type, inner, column, owners)
            continue
        name, there = found
        if name != field.name:
            raise owners.refuse((*above, name), f"written {field.name!r}", f"{name!r}")
        if isinstance(there, dict) and isinstance(field.type, Struct):
            _take(field.type, there, column, owners)
        elif there != _loose(field.type):
            other = "struct" if isinstance(there, dict) else type_name(there)
            raise owners.refuse(column, type_name(field.type), other)


def _fields(merged: Mapping[str, Any]) -> Iterator[tuple[str, Field]]:
    for name, there in merged.values():
        data_type = Struct(tuple(field for _, field in _fields(there))) if isinstance(there, dict) else there
        yield name, Field(name, data_type)


def _nullable(field: Field) -> Field:
    return Field(field.name, _loose(field.type))


def _loose(data_type: DataType) -> DataType:
    """The type without NOT NULL: what other programs promise of their files is not checked."""
    if isinstance(data_type, Struct):
        return Struct(tuple(map(_nullable, data_type.fields)))
    if isinstance(data_type, Array):
        return Array(_loose(data_type.element))
    if isinstance(data_type, Map):
        return Map(_loose(data_type.key), _loose(data_type.value))
    return data_type


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
