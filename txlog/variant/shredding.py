"""Shredded columns of variants: the parts that a writer stored in typed columns, put together again.

In: a column as a data file has it, a struct of ``metadata``, ``value`` and ``typed_value``, which may be hostile. Out:
the same variants as ``metadata`` and ``value`` alone. Pure. The rules are those of "Variant Shredding",
VariantShredding.md of apache/parquet-format.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import pyarrow as pa

from txlog.core.format.arrow.arrays import LIST_TYPES, offsets_and_mask
from txlog.variant.arrow_form import DamagedRowError
from txlog.variant.encoding import (
    MalformedVariantError,
    Nanoseconds,
    Part,
    Single,
    array_of,
    encode_value,
    metadata_of,
    names_of,
    object_of,
)

TYPED = "typed_value"

_NULL = b"\0"


class _Row:
    """The names of one row's variant, by index, and their indices: an object's fields may need new ones."""

    __slots__ = ("ids", "metadata", "names")

    def __init__(self, metadata: bytes) -> None:
        self.metadata = metadata
        self.names = names_of(metadata)
        self.ids = {name: at for at, name in enumerate(self.names)}

    @property
    def whole_metadata(self) -> bytes:
        """With the names of shredded fields that the writer left out."""
        if len(self.ids) == len(self.names) or {*self.ids} == {*self.names}:
            return self.metadata
        return metadata_of([*self.names, *(name for name in self.ids if name not in self.names)])

    def id_of(self, name: str) -> int:
        found = self.ids.get(name)
        if found is None:
            found = self.ids[name] = len(self.names) + sum(each not in self.names for each in self.ids)
        return found


Rebuild: TypeAlias = Callable[[int, _Row], "bytes | None"]
"""The encoded value in one row of a column; None if it is missing."""


def unshredded(array: pa.StructArray) -> list[tuple[bytes, bytes] | None]:
    """``(metadata, value)`` of each row; None where the column is null.

    Raises DamagedRowError for a row whose parts contradict each other or are no variants.
    """
    metadata = array.field("metadata").to_pylist()
    valid = array.is_valid().to_pylist()
    rebuild = _level(array)
    found: list[tuple[bytes, bytes] | None] = []
    for at, is_valid in enumerate(valid):
        if not is_valid:
            found.append(None)
            continue
        try:
            if metadata[at] is None:
                raise MalformedVariantError("it has no metadata")
            row = _Row(metadata[at])
            value = rebuild(at, row)
        except ValueError as error:
            raise DamagedRowError(at, str(error)) from None
        found.append((row.whole_metadata, _NULL if value is None else value))
    return found


def _level(array: pa.StructArray) -> Rebuild:
    """A pair of ``value`` and ``typed_value``, of a column, a field or an element ("Value Shredding")."""
    members = {array.type.field(at).name: at for at in range(array.type.num_fields)}
    values: list[bytes | None] = (
        array.field(members["value"]).to_pylist() if "value" in members else [None] * len(array)
    )
    if TYPED not in members:
        return lambda at, row: values[at]
    typed = array.field(members[TYPED])
    is_typed = typed.is_valid().to_pylist()
    if pa.types.is_struct(typed.type):
        rebuild = _object(typed, values)
    elif isinstance(typed.type, LIST_TYPES):
        rebuild = _list(typed)
    else:
        rebuild = _primitive(typed)
    may_have_both = pa.types.is_struct(typed.type)

    def found(at: int, row: _Row) -> bytes | None:
        if not is_typed[at]:
            return values[at]
        if values[at] is not None and not may_have_both:
            raise MalformedVariantError("it has a value and a typed value, but is not an object")
        return rebuild(at, row)

    return found


def _object(typed: pa.StructArray, values: list[bytes | None]) -> Rebuild:
    """The fields of typed columns, and those of ``value``, which has the rest ("Objects")."""
    fields: Mapping[str, Rebuild] = {
        typed.type.field(at).name: _level(typed.field(at)) for at in range(typed.type.num_fields)
    }

    def rebuild(at: int, row: _Row) -> bytes:
        found: dict[str, bytes] = {}
        rest = values[at]
        if rest is not None:
            part = Part(row.names, rest)
            if part.kind != "object":
                raise MalformedVariantError(f"it has typed fields, and its value is a {part.kind}")
            found = {name: each.encoded() for name, each in part.fields()}
        for name, field in fields.items():
            value = field(at, row)
            if value is not None:
                found[name] = value
        names = sorted(found, key=str.encode)
        return object_of([row.id_of(name) for name in names], [found[name] for name in names])

    return rebuild


def _list(typed: pa.Array) -> Rebuild:
    """The elements, of which none is missing ("Arrays")."""
    offsets = offsets_and_mask(typed)[0].to_pylist()
    element = _level(typed.flatten())

    def rebuild(at: int, row: _Row) -> bytes:
        items = (element(each, row) for each in range(offsets[at], offsets[at + 1]))
        return array_of([_NULL if item is None else item for item in items])

    return rebuild


def _primitive(typed: pa.Array) -> Rebuild:
    """The values of one type, each in the variant's own type of that name ("Shredded Value Types")."""
    types = pa.types
    if types.is_float32(typed.type):
        return _encoded([value if value is None else Single(value) for value in typed.to_pylist()], _plain)
    if isinstance(typed.type, pa.BaseExtensionType):
        typed = typed.storage
    if types.is_fixed_size_binary(typed.type) and typed.type.byte_width == 16:
        return _encoded([value and uuid.UUID(bytes=value) for value in typed.to_pylist()], _plain)
    if types.is_timestamp(typed.type) or types.is_time(typed.type):
        return _encoded(_times(typed), _plain)
    if types.is_nested(typed.type) or types.is_unsigned_integer(typed.type):
        raise MalformedVariantError(f"a typed value is a {typed.type}, which variants do not have")
    return _encoded(typed.to_pylist(), _plain)


def _times(typed: pa.Array) -> list[Any]:
    """Times as Python's; those with nanoseconds as numbers."""
    unit = typed.type.unit
    if unit != "ns":
        return list(typed.to_pylist())
    numbers = typed.cast(pa.int64()).to_pylist()
    if pa.types.is_time(typed.type):
        raise MalformedVariantError("a typed value is a time of day in nanoseconds, which variants do not have")
    return [None if number is None else Nanoseconds(number, typed.type.tz is not None) for number in numbers]


def _plain(value: Any) -> bytes:
    return encode_value(value, {})


def _encoded(values: list[Any], encode: Callable[[Any], bytes]) -> Rebuild:
    return lambda at, row: encode(values[at])
