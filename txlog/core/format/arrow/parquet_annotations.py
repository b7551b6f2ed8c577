"""Parquet's annotation VARIANT, which pyarrow neither writes nor shows, in the footers of files.

In: the Arrow schema of a file, and the end of the file as pyarrow writes it. Out: the same end, with the annotation at
the groups that are variants: other readers than Delta's tell them from plain structs by it. And the opposite: the
variants in the Arrow schema of another writer's file. parquet-format: ``parquet.thrift``, ``LogicalTypes.md``,
"VARIANT".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from txlog.core.format.arrow.parquet_splice import footer_of, tail_of
from txlog.core.format.schema import as_variant_struct, is_variant_struct
from txlog.errors import UnsupportedFeatureError

if TYPE_CHECKING:
    from txlog.core.format.properties import TableProperties

Group: TypeAlias = tuple[str, ...]

_STRUCT, _BYTE = 12, 3
_VARIANT = (_STRUCT, {16: (_STRUCT, {1: (_BYTE, b"\1")})})
"""``LogicalType`` with ``VariantType`` of version 1."""


def annotated_groups(schema: pa.Schema) -> frozenset[Group]:
    """The groups of a file's Parquet schema that are variants, by their path of names."""
    nested = [member for member in schema if pa.types.is_nested(member.type)]
    return frozenset(path for member in nested for path in _groups((member.name,), member.type))


def _groups(path: Group, data_type: pa.DataType) -> Iterator[Group]:
    if is_variant_struct(data_type):
        yield path
    elif pa.types.is_struct(data_type):
        for member in data_type:
            yield from _groups((*path, member.name), member.type)
    elif pa.types.is_map(data_type):
        yield from _groups((*path, "key_value", "value"), data_type.item_type)
    elif pa.types.is_list(data_type):
        yield from _groups((*path, "list", "element"), data_type.value_type)


def with_annotated_types(schema: pa.Schema, metadata: Any) -> pa.Schema:
    """The Arrow schema of a file with pyarrow's ``metadata``, in which the groups with the annotation are variants."""
    if not any(pa.types.is_nested(member.type) and "metadata: " in str(member.type) for member in schema):
        return schema
    sink = pa.BufferOutputStream()
    metadata.write_metadata_file(sink)
    footer = footer_of(sink.getvalue().to_pybytes())
    if footer is None:
        return schema
    groups = {path for path, element in _paths(footer[2][1][1]) if 16 in element.get(10, (_STRUCT, {}))[1]}
    return pa.schema([_marked(member, (member.name,), groups) for member in schema], schema.metadata)


def _marked(field: pa.Field, path: Group, groups: set[Group]) -> pa.Field:
    kind = field.type
    if path in groups and pa.types.is_struct(kind):
        return field.with_type(as_variant_struct(kind))
    if pa.types.is_struct(kind):
        return field.with_type(pa.struct([_marked(each, (*path, each.name), groups) for each in kind]))
    if pa.types.is_map(kind):
        return field.with_type(pa.map_(kind.key_field, _marked(kind.item_field, (*path, "key_value", "value"), groups)))
    if pa.types.is_list(kind):
        return field.with_type(pa.list_(_marked(kind.value_field, (*path, "list", "element"), groups)))
    return field


def check_annotated(arrow: pa.Schema, properties: TableProperties) -> None:
    """Refuse a file whose variants are in typed columns, for a table whose ``properties`` do not say so: its readers
    need not know such files. PROTOCOL.md, "Variant Shredding". Raises UnsupportedFeatureError."""
    shredded = None if properties.enable_variant_shredding else next(_shredded(arrow, ""), None)
    if shredded is not None:
        raise UnsupportedFeatureError(
            f"column {shredded} is a shredded variant, and the table's readers need not know these: set"
            " delta.enableVariantShredding to true, or append the rows",
            features=("variantShredding",),
        )


def _shredded(fields: Iterable[pa.Field], above: str) -> Iterator[str]:
    """The columns, and what is in them, that are variants in typed columns."""
    for field in fields:
        path = f"{above}{field.name}"
        if is_variant_struct(field.type):
            yield from (path for member in field.type if member.name == "typed_value")
        elif pa.types.is_nested(field.type):
            inner = (field.type.field(at) for at in range(field.type.num_fields))
            yield from _shredded(inner, f"{path}.")


class AnnotatingSink:
    """A Python file around Arrow's, which holds back what is written from `hold` to `release`, the end of the file."""

    closed = False

    def __init__(self, sink: Any, groups: frozenset[Group]) -> None:
        self._sink, self._groups = sink, groups
        self._held: list[bytes] | None = None

    def write(self, data: bytes) -> int:
        if self._held is None:
            self._sink.write(data)
        else:
            self._held.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Arrow's file is flushed by its owner."""

    def hold(self) -> None:
        self._held = []

    def release(self) -> None:
        held, self._held = b"".join(self._held or ()), None
        self._sink.write(_annotated(held, self._groups))


def _annotated(end: bytes, groups: frozenset[Group]) -> bytes:
    """Unchanged if the footer is one that `footer_of` does not understand: Delta's readers need no annotation."""
    footer = footer_of(end)
    if footer is None:
        return end
    elements = footer[2][1][1]
    for path, element in _paths(elements):
        if path in groups:
            element[10] = _VARIANT
    return end[: -8 - int.from_bytes(end[-8:-4], "little")] + tail_of(footer)


def _paths(elements: list[dict[int, Any]]) -> Iterator[tuple[Group, dict[int, Any]]]:
    """``SchemaElement`` by their paths; they follow one another depth first, and the root is no part of a path."""
    waiting: list[tuple[Group, int]] = []
    for at, element in enumerate(elements):
        above = waiting[-1][0] if waiting else ()
        if waiting:
            waiting[-1] = (above, waiting[-1][1] - 1)
        path = (*above, bytes(element[4][1]).decode()) if at else ()
        yield path, element
        children = element[5][1] if 5 in element else 0
        if children:
            waiting.append((path, children))
        while waiting and not waiting[-1][1]:
            waiting.pop()
