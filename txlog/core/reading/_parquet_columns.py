"""The columns of one Parquet file as a table's columns: found by name or id, and converted to the table's types.

In: the file's Arrow schema and the requested fields of the table. Out: which of the file's columns to read, and each
batch of them as arrays of exactly the table's types. Columns and fields that the file lacks are null; an earlier
schema's narrower type is cast to the wider one; days of Spark 2's calendar become today's. PROTOCOL.md, "Column
Mapping", "Reader Requirements for Type Widening".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from txlog.core.format.arrow.arrays import LIST_TYPES, absent, offsets_and_mask
from txlog.core.format.arrow.old_calendar import old_calendar
from txlog.core.format.column_mapping import PARQUET_FIELD_ID, field_id, physical_name
from txlog.core.format.schema import Array, DataType, Field, Map, Primitive, Struct, fold_name, type_name, type_to_arrow
from txlog.core.format.type_support import type_support
from txlog.core.writing import read_as_required
from txlog.errors import CorruptLogError, UnsupportedFeatureError

Key = TypeVar("Key")


class ParquetColumns:
    """The mapping from a table's fields to one file's columns.

    ``mode`` is the table's ``delta.columnMapping.mode``; fields without an id, which are not table columns, are found
    by name in every mode, by the letter before any case. ``all_fields`` are the table's: a column of one field's own
    name is no other's. Raises CorruptLogError if two columns of the file match one field, or if the mode needs ids
    and the file has none.
    """

    def __init__(
        self, file_schema: pa.Schema, fields: Sequence[Field], mode: str, all_fields: Sequence[Field] = ()
    ) -> None:
        if mode == "id" and len(file_schema) and not any(_has_ids(column) for column in file_schema):
            raise CorruptLogError("the table finds its columns by id, but the file has no column ids")
        self._by_id = mode == "id"
        self._fields = fields
        self._calendar = old_calendar(file_schema.metadata)
        columns = list(file_schema)  # once: each list makes all of them
        positions = self._positions(fields, columns, all_fields)
        self._names = {name: columns[at].name for name, at in positions.items()}
        self.names = [*self._names.values()]
        """The file's columns to read."""

    @property
    def has_old_calendar(self) -> bool:
        """Whether dates and times mean others than the file's numbers and its statistics say."""
        return self._calendar is not None

    def file_column(self, name: str) -> str | None:
        """The file's name for the table's top-level column ``name``; None if the file lacks it."""
        return self._names.get(name)

    def array(self, batch: pa.RecordBatch, field: Field, *, keeps_dictionary: bool = False) -> pa.Array:
        """One field of the table, from a batch of the file's columns. Raises CorruptLogError, pa.ArrowException.

        With ``keeps_dictionary``, values of the right type may be in a dictionary.
        """
        name = self._names.get(field.name)
        target = type_to_arrow(field.type)
        if name is None:
            return absent(batch.num_rows, target)
        column = batch.column(name)
        if keeps_dictionary and pa.types.is_dictionary(column.type) and column.type.value_type == target:
            return column
        return self._fitted(column, field.type, target, field.name)

    def _positions(
        self, fields: Sequence[Field], columns: Sequence[pa.Field], all_fields: Sequence[Field]
    ) -> dict[str, int]:
        """Where among a file's columns, or a struct's, the fields are; a field that is not there is left out."""
        by_name = _places(column.name for column in columns)
        by_any_case = _places(fold_name(column.name) for column in columns)
        by_id = _places(map(_id_of, columns)) if self._by_id else {}
        found: dict[str, int] = {}
        for field in fields:
            if self._by_id and field_id(field) is not None:
                places = by_id.get(str(field_id(field)).encode(), [])
            else:
                name = physical_name(field)
                places = by_name.get(name) or by_any_case.get(fold_name(name), [])
                if places and columns[places[0]].name != name:
                    own = {*map(physical_name, all_fields)}
                    places = [at for at in places if columns[at].name not in own]
            if len(places) > 1:
                names = ", ".join(columns[at].name for at in places)
                raise CorruptLogError(f"column {field.name} matches several columns of the file: {names}")
            if places:
                found[field.name] = places[0]
        return found

    # --- values -----------------------------------------------------------------------------------------------

    def _fitted(self, array: pa.Array, data_type: DataType, target: pa.DataType, column: str) -> pa.Array:
        if isinstance(array.type, pa.BaseExtensionType):  # a type that the reading program registered
            array = array.storage
        if self._calendar is not None and pa.types.is_temporal(array.type):
            array = self._calendar.rebased(array, is_moment=getattr(target, "tz", None) is not None, column=column)
        if array.type.equals(target) and not isinstance(data_type, Struct | Array | Map):
            return array
        match data_type:
            case Struct(fields) if pa.types.is_struct(array.type):
                return self._struct(array, fields, target, column)
            case Map(key, value) if pa.types.is_map(array.type):
                keys = self._fitted(array.keys, key, target.key_type, f"{column}.key")
                items = self._fitted(array.items, value, target.item_type, f"{column}.value")
                return pa.MapArray.from_arrays(_offsets(array), keys, items, target, mask=_mask(array))
            case Array(element) if isinstance(array.type, LIST_TYPES):
                offsets, mask = offsets_and_mask(array)
                values = self._fitted(array.flatten(), element, target.value_type, f"{column}.element")
                return pa.ListArray.from_arrays(offsets, values, target, mask=mask)
        if isinstance(data_type, Primitive) and data_type.facts.by_package:
            return _of_package(array, data_type, target, column)
        if not _holds(array.type, target):
            raise CorruptLogError(f"column {column} is a {type_name(data_type)}, but the file has {array.type}")
        # Nanoseconds in a file are finer than Delta's microseconds: readers drop the rest.
        return array.cast(target, safe=not pa.types.is_timestamp(target))

    def _struct(self, array: pa.Array, fields: Sequence[Field], target: pa.DataType, column: str) -> pa.Array:
        positions = self._positions(fields, list(array.type), fields)
        members = []
        for field, member in zip(fields, target, strict=True):
            at = positions.get(field.name)
            name = f"{column}.{field.name}"
            if at is None:
                members.append(absent(len(array), member.type))
                continue
            values = self._fitted(array.field(at), field.type, member.type, name)
            members.append(values if field.nullable else read_as_required(values, array))
        if not members:
            return array
        return pa.StructArray.from_arrays(members, fields=list(target), mask=_mask(array))


def _of_package(array: pa.Array, data_type: Primitive, target: pa.DataType, column: str) -> pa.Array:
    """A column of a type that a package makes. Without the package, only the form that it has in memory is read."""
    support = type_support(data_type.name)
    try:
        found = _as_stored(array, target) if support is None else support.from_file(array)
    except ValueError as error:
        raise CorruptLogError(f"column {column} has a damaged {type_name(data_type)}: {error}") from None
    if found is None and support is None and pa.types.is_struct(array.type):
        raise UnsupportedFeatureError(
            f"column {column} is a {type_name(data_type)}, which the file has as {array.type}: only the package for"
            " this type reads that form (an entry point of the group txlog.types): install it",
            features=(data_type.facts.feature,),
        )
    if found is None:
        raise CorruptLogError(f"column {column} is a {type_name(data_type)}, but the file has {array.type}")
    return found


def _as_stored(array: pa.Array, target: pa.DataType) -> pa.Array | None:
    """A struct with the members of ``target``, in any order."""
    if not pa.types.is_struct(array.type) or not pa.types.is_struct(target):
        return None
    names = {array.type.field(at).name: at for at in range(array.type.num_fields)}
    if names.keys() != {member.name for member in target}:
        return None
    parts = [array.field(names[member.name]).cast(member.type) for member in target]
    return pa.StructArray.from_arrays(parts, fields=list(target), mask=_mask(array))


def _id_of(column: pa.Field) -> bytes | None:
    return (column.metadata or {}).get(PARQUET_FIELD_ID)


def _places(keys: Iterable[Key]) -> dict[Key, list[int]]:
    found: dict[Key, list[int]] = {}
    for at, key in enumerate(keys):
        found.setdefault(key, []).append(at)
    return found


def _has_ids(column: pa.Field) -> bool:
    return _id_of(column) is not None


def _mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


def _offsets(array: pa.Array) -> pa.Array:
    """Offsets into ``array.values`` in their own buffer: Arrow accepts no mask together with sliced offsets."""
    offsets = array.offsets
    if offsets.offset or offsets.type != pa.int32():
        offsets = pa.array(offsets.to_numpy(zero_copy_only=False), pa.int32())
    return offsets


def _holds(file: pa.DataType, target: pa.DataType) -> bool:
    """Whether a file's column may be read as a table column of the other type: the same kind, or widened.

    Integers may even be wider in the file if every value fits: the cast checks each.
    """
    types = pa.types
    if types.is_dictionary(file):
        return _holds(file.value_type, target)
    if file.equals(target) or types.is_null(file):
        return True
    if types.is_integer(file):
        return bool(types.is_integer(target) or types.is_decimal(target) or target == pa.float64())
    if types.is_floating(file):
        return bool(types.is_floating(target) and file.bit_width <= target.bit_width)
    if types.is_decimal(file):
        return bool(types.is_decimal(target))
    if types.is_date(file):
        return bool(types.is_date(target) or (types.is_timestamp(target) and target.tz is None))
    if types.is_timestamp(file):
        return bool(types.is_timestamp(target))
    return bool(_is_text(file) and _is_text(target))


def _is_text(kind: Any) -> bool:
    """Whether the file has binary for a string column: old writers left out the annotation that marks strings."""
    types = pa.types
    return any(
        is_one(kind)
        for is_one in (
            types.is_string,
            types.is_large_string,
            types.is_string_view,
            types.is_binary,
            types.is_large_binary,
            types.is_binary_view,
            types.is_fixed_size_binary,
        )
    )
