"""The schema of a table made from files that other programs wrote: found in their footers, and merged.

In: the columns of each file, and the partition columns of their directories. Out: the columns of the table, all
nullable, or an error that names two files that do not fit each other. Pure. PROTOCOL.md, "Schema Serialization Format".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from txlog.core.format.properties import ColumnPath
from txlog.core.format.schema import Array, DataType, Field, Map, Struct, fold_name, type_name, with_fields
from txlog.core.format.schema_input import from_any
from txlog.core.format.type_widening import ENABLED_KEY, may_widen, retyped
from txlog.core.util import names_in
from txlog.core.wording import argument, setting
from txlog.errors import InvalidInputError, SchemaMismatchError, TxlogError
from txlog.loading.hive_paths import directories_of, type_of_texts


def bare_levels(paths: Sequence[str]) -> int:
    """How many directories are above each file, if none of them is ``name=value`` and all files have as many."""
    depths = {path.count("/") for path in paths}
    has_names = any("=" in segment for path in paths for segment in path.split("/")[:-1])
    return depths.pop() if len(depths) == 1 and not has_names else 0


def names_of_levels(paths: Sequence[str], given: Any) -> tuple[str, ...]:
    """The partition columns that the caller names for directories without names, as in ``2024/01``: one for each."""
    names = names_given(given)
    return tuple(names) if names and bare_levels(paths) == len(names) else ()


def partition_fields(paths: Sequence[str], given: Any, uri: str) -> tuple[Field, ...]:
    """The partition columns that the directories of all files name, in their order.

    ``given`` are their names, or their types in DDL or a schema; None: as found. Types that are not given are found in
    the values. Raises InvalidInputError naming a file whose directories differ.
    """
    levels = names_of_levels(paths, given)
    with TxlogError.located(uri):
        named = {path: directories_of(path, levels) for path in paths}
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
            f" {_listed(named[first])}: directories without names, as in 2024/01, need as many columns as there are"
            " directories above each file",
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


def merged_schema(files: Mapping[str, Struct], partition: Sequence[Field], uri: str, *, widens: bool = False) -> Struct:
    """The columns of all files, then those of the partitioning. ``files`` are columns by path, in order.

    A file may lack columns, at any depth. If the table ``widens`` types, a column of several types has the widest, and
    its history has the others. Raises SchemaMismatchError naming a file in which a column has another type, or a name
    that differs only in case.
    """
    merged: dict[str, Any] = {}
    owners: dict[ColumnPath, str] = {}
    seen: dict[ColumnPath, dict[DataType, str]] = {}
    known: list[Struct] = []
    for path, schema in files.items():
        if schema in known:
            continue
        known.append(schema)
        _take(schema, merged, (), _Owners(path, owners, seen, uri, widens))
    columns = {fold_name(field.name) for field in partition}
    fields = [field for name, field in _fields(merged) if fold_name(name) not in columns]
    found = Struct((*fields, *partition))
    for column, types in seen.items():
        if fold_name(column[0]) not in columns:
            for wider in sorted(types, key=lambda each: sum(map(partial(may_widen, each), types)), reverse=True)[1:]:
                found = retyped(found, column, wider)
    return found


class _Owners:
    """Which file a column was first seen in; and for columns of several types, which file has each."""

    def __init__(
        self,
        path: str,
        owners: dict[ColumnPath, str],
        seen: dict[ColumnPath, dict[DataType, str]],
        uri: str,
        widens: bool,
    ) -> None:
        self._path = path
        self._owners = owners
        self._seen = seen
        self._uri = uri
        self._widens = widens

    def own(self, column: ColumnPath) -> None:
        self._owners.setdefault(column, self._path)

    def refuse(self, column: ColumnPath, mine: str, other: str, hint: str = "") -> SchemaMismatchError:
        before = self._owners.get(column, "another file")
        name = ".".join(column)
        return SchemaMismatchError(
            f"{name} is {mine} in {self._path}, and {other} in {before}: files of one table must agree. Write the files"
            f" of one of the two again, or convert them separately{hint}",
            table=self._uri,
            path=self._path,
        )

    def narrowest(self, column: ColumnPath, there: DataType, mine: DataType) -> DataType | None:
        """The type from which the column can become all that files have, at every depth; None if there is none."""
        match there, mine:
            case Array(one), Array(other):
                inner = self.narrowest((*column, "element"), one, other)
                return None if inner is None else Array(inner)
            case Map(key, value), Map(other_key, other_value):
                keys = self.narrowest((*column, "key"), key, other_key)
                values = self.narrowest((*column, "value"), value, other_value)
                return None if keys is None or values is None else Map(keys, values)
        if there == mine:
            return there
        types = self._seen.setdefault(column, {there: self._owners.get(column[:1], "another file")})
        if not all(may_widen(each, mine) or may_widen(mine, each) for each in types if each != mine):
            return None
        types[mine] = self._path
        return there if may_widen(there, mine) else mine

    def joined(self, column: ColumnPath, there: DataType, mine: DataType) -> DataType:
        """The type to go on with. Raises SchemaMismatchError for types that do not fit each other."""
        found = self.narrowest(column, there, mine)
        if found is not None and self._widens:
            return found
        hint = ""
        if found is not None:
            hint = f". With {setting('properties', {ENABLED_KEY: 'true'})} the column has the wider type"
        raise self.refuse(column, type_name(mine), type_name(there), hint)


def _take(schema: Struct, merged: dict[str, Any], above: ColumnPath, owners: _Owners) -> None:
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
            hint = ", or rename one of two columns of a file" if name in schema.names else ""
            raise owners.refuse((*above, name), f"written {field.name!r}", f"{name!r}", hint)
        if isinstance(there, dict) and isinstance(field.type, Struct):
            _take(field.type, there, column, owners)
        elif isinstance(there, dict):
            raise owners.refuse(column, type_name(field.type), "struct")
        elif there != (mine := _loose(field.type)):
            merged[fold_name(field.name)] = (name, owners.joined(column, there, mine))


def _fields(merged: Mapping[str, Any]) -> Iterator[tuple[str, Field]]:
    for name, there in merged.values():
        data_type = Struct(tuple(field for _, field in _fields(there))) if isinstance(there, dict) else there
        yield name, Field(name, data_type)


def _nullable(field: Field) -> Field:
    return Field(field.name, _loose(field.type))


def _loose(data_type: DataType) -> DataType:
    """The type without NOT NULL: what other programs promise of their files is not checked."""
    return with_fields(data_type, _nullable, parts_nullable=True)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
