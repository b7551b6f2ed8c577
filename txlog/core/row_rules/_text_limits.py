"""The lengths of ``varchar(n)`` and ``char(n)`` columns. Spark stores them as strings, with the type in column
metadata.

In: a table's schema. Out: the limits of its columns, the first row of a batch that breaks one, and a changed schema
with the same limits. As in Spark's Delta, a longer value is refused even if only spaces are too much, and a shorter
``char`` is stored as it is: Spark pads it when it reads. A length counts Unicode code points.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from txlog.core.format.column_mapping import physical_name
from txlog.core.format.schema import (
    STRING,
    TEXT_LENGTH_KEY,
    Array,
    DataType,
    Field,
    Map,
    Struct,
    fold_name,
    member_name,
    type_name,
)
from txlog.core.util import pattern
from txlog.errors import UnsupportedFeatureError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_Path: TypeAlias = tuple[str | int, ...]
"""From a column to a part of it: the name of a struct field; 0 for array elements or map keys, 1 for map values."""


class TextLimit(msgspec.Struct, frozen=True):
    """``name`` is the column or part as messages show it; ``sql`` is its type, such as ``varchar(3)``."""

    name: str
    path: _Path
    sql: str
    length: int

    def too_long(self, rows: pa.RecordBatch) -> tuple[int, int] | None:
        """The first row with a value above the limit, and the value's length; None if there is none."""
        column = rows.column(rows.schema.get_field_index(str(self.path[0])))
        return _first(column, self.path[1:], self.length, np.arange(len(column)))


def limits_of(schema: Struct, table: str | None = None) -> tuple[TextLimit, ...]:
    """The limits of all columns and of their parts.

    Raises:
        UnsupportedFeatureError: A column's metadata is not in Spark's format.
    """
    return tuple(
        limit for field in schema.fields for limit in _of_field(field.metadata, field.type, (field.name,), table)
    )


def with_limits_kept(before: Struct, after: Struct, added: Struct) -> Struct:
    """``after``, in which each part of a column that ``before`` has keeps its limit, whatever it is called now. New
    struct fields have the ones of ``added``.

    Spark describes all parts of a column by one text that has their names. Raises the errors of `limits_of`.
    """
    columns = Struct(tuple(field for field in before.fields if TEXT_LENGTH_KEY in field.metadata))
    limits = {_place(before, limit.path): limit.sql for limit in limits_of(columns)}
    new = (limit for limit in limits_of(added) if _place(before, limit.path) is None)
    limits |= {_place(after, limit.path): limit.sql for limit in new}
    types = {physical_name(field): field.type for field in before.fields}
    return Struct(tuple(_described(field, types, limits) for field in after.fields)) if limits else after


# --- rows -------------------------------------------------------------------------------------------------------


def _first(values: pa.Array, path: _Path, length: int, rows: NDArray[np.int64]) -> tuple[int, int] | None:
    """``rows`` are the values' row numbers. Values below a null do not count."""
    from txlog.core.format.arrow.compute import pc

    if not path:
        lengths = pc.utf8_length(values)
        at = pc.index(pc.fill_null(pc.greater(lengths, length), False), True).as_py()
        return None if at < 0 else (int(rows[at]), lengths[at].as_py())
    if values.null_count:
        there = values.is_valid()
        values, rows = values.filter(there), rows[there.to_numpy(zero_copy_only=False)]
    if not isinstance(values, pa.StructArray):
        return _first_below(values, path, length, rows)
    return _first(pc.struct_field(values, [str(path[0])]), path[1:], length, rows)


def _first_below(values: Any, path: _Path, length: int, rows: NDArray[np.int64]) -> tuple[int, int] | None:
    offsets = values.offsets.to_numpy()
    parts = (values.keys, values.items) if isinstance(values, pa.MapArray) else (values.values,)
    below = parts[int(path[0])].slice(offsets[0], offsets[-1] - offsets[0])
    return _first(below, path[1:], length, np.repeat(rows, np.diff(offsets)))


# --- schemas ----------------------------------------------------------------------------------------------------


def _of_field(metadata: Any, data_type: DataType, path: _Path, table: str | None) -> Iterator[TextLimit]:
    text = metadata.get(TEXT_LENGTH_KEY)
    if text is None:
        yield from _of_members(data_type, path, table)
        return
    try:
        found = _TypedTextReader(str(text)).whole()
        yield from _of_type(found, data_type, path)
    except ValueError:
        raise UnsupportedFeatureError(
            f"column {_shown(path)} has {text!r} as its type in Spark ({TEXT_LENGTH_KEY}), which txlog does not"
            " understand, so it cannot write rows to this table",
            table=table,
            features=("char and varchar",),
        ) from None


def _of_members(data_type: DataType, path: _Path, table: str | None) -> Iterator[TextLimit]:
    """Spark describes a whole column at its top. Others may describe a struct field at the field itself."""
    match data_type:
        case Struct(fields):
            for field in fields:
                yield from _of_field(field.metadata, field.type, (*path, field.name), table)
        case Array(element):
            yield from _of_members(element, (*path, 0), table)
        case Map(key, value):
            yield from _of_members(key, (*path, 0), table)
            yield from _of_members(value, (*path, 1), table)


def _of_type(found: _Type, data_type: DataType, path: _Path) -> Iterator[TextLimit]:
    """Fields that the text lacks have no limit: they were added to the struct later."""
    match data_type:
        case Struct(fields):
            parts = {fold_name(name): part for name, part in found.members()}
            for field in fields:
                if (part := parts.get(fold_name(field.name))) is not None:
                    yield from _of_type(part, field.type, (*path, field.name))
        case Array(element):
            yield from _of_type(found.parts("array", 1)[0], element, (*path, 0))
        case Map(key, value):
            parts_of_map = found.parts("map", 2)
            yield from _of_type(parts_of_map[0], key, (*path, 0))
            yield from _of_type(parts_of_map[1], value, (*path, 1))
        case _ if data_type == STRING and (matched := _LIMITED.fullmatch(found.name)):
            yield TextLimit(_shown(path), path, found.name, int(matched[1]))


_Place: TypeAlias = tuple[str | int, ...]
"""A `_Path` by the names that the parts have in files, which stay."""


def _place(schema: Struct, path: _Path) -> _Place | None:
    """The place of a part of a column; None if there is no such part."""
    here: DataType = schema
    place: list[str | int] = []
    for part in path:
        match here:
            case Struct(fields):
                found = next((each for each in fields if fold_name(each.name) == fold_name(str(part))), None)
                if found is None:
                    return None
                place.append(physical_name(found))
                here = found.type
                continue
            case Array(element):
                here = element
            case Map(key, value):
                here = value if part else key
            case _:
                return None
        place.append(part)
    return tuple(place)


def _described(field: Field, before: Mapping[str, DataType], limits: Mapping[_Place | None, str]) -> Field:
    """A column whose parts changed, with the text that describes them."""
    name = physical_name(field)
    if not isinstance(field.type, Struct | Array | Map) or before.get(name, field.type) == field.type:
        return field
    if not any(place is not None and place[0] == name for place in limits):
        return field
    return replace(field, metadata={**field.metadata, TEXT_LENGTH_KEY: _text(field.type, (name,), limits)})


def _text(data_type: DataType, place: _Place, limits: Mapping[_Place | None, str]) -> str:
    match data_type:
        case Struct(fields):
            parts = (
                f"{member_name(each.name)}:{_text(each.type, (*place, physical_name(each)), limits)}" for each in fields
            )
            return f"struct<{','.join(parts)}>"
        case Array(element):
            return f"array<{_text(element, (*place, 0), limits)}>"
        case Map(key, value):
            return f"map<{_text(key, (*place, 0), limits)},{_text(value, (*place, 1), limits)}>"
    return limits.get(place, type_name(data_type))


_LIMITED = pattern(r"(?:var)?char\(\s*(\d+)\s*\)", re.IGNORECASE)
_NAME_OF_MEMBER = pattern(r"\s*(?:`((?:[^`]|``)*)`|([^:`]+?))\s*:")
_PLAIN_TYPE = pattern(r"\s*([A-Za-z_][\w ]*(?:\([\d\s,]*\))?)\s*")
_COMMENT = pattern(r"\s*COMMENT\s+'(?:[^'\\]|\\.)*'", re.IGNORECASE)


class _Type(msgspec.Struct, frozen=True):
    """A type as Spark writes it: its name, and the types in its angle brackets with the field names."""

    name: str
    inner: tuple[tuple[str, _Type], ...] = ()

    def members(self) -> tuple[tuple[str, _Type], ...]:
        if self.name != "struct":
            raise ValueError(self.name)
        return self.inner

    def parts(self, name: str, count: int) -> list[_Type]:
        if self.name != name or len(self.inner) != count:
            raise ValueError(self.name)
        return [part for _, part in self.inner]


class _TypedTextReader:
    """Reads the text of one type from the start. Raises ValueError if it has another form."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def whole(self) -> _Type:
        found = self._type()
        if self._text[self._at :].strip():
            raise ValueError(self._text)
        return found

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str]:
        found = pattern.match(self._text, self._at)
        if found is None:
            raise ValueError(self._text)
        self._at = found.end()
        return found

    def _type(self) -> _Type:
        name = self._take(_PLAIN_TYPE)[1].strip().lower()
        if name not in ("struct", "array", "map"):
            return _Type(name)
        self._take(re.compile("<"))
        inner: list[tuple[str, _Type]] = []
        while not self._text.startswith(">", self._at):
            if inner:
                self._take(re.compile(r"\s*,\s*"))
            inner.append((self._name_of_member() if name == "struct" else "", self._type()))
            if (comment := _COMMENT.match(self._text, self._at)) is not None:
                self._at = comment.end()
        self._at += 1
        return _Type(name, tuple(inner))

    def _name_of_member(self) -> str:
        found = self._take(_NAME_OF_MEMBER)
        return found[2] if found[1] is None else found[1].replace("``", "`")


def _shown(path: _Path) -> str:
    """As other messages name parts of columns: ``tags.element``, ``labels.value``."""
    return ".".join(str(part) if isinstance(part, str) else ("element", "value")[part] for part in path)
