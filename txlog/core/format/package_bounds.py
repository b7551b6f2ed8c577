"""Bounds of columns whose type a package brings: texts in the JSON of ``add.stats``, values of it in a checkpoint.

In: the type or the values of typed statistics, whose bounds may be another writer's and hostile. Out: the same with
texts in place of such bounds, or with values in place of the texts. No other bounds have binaries in them. PROTOCOL.md,
"Per-file Statistics".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from txlog.core.format.schema import PRIMITIVES
from txlog.core.format.type_support import all_supports, type_support

if TYPE_CHECKING:
    from txlog.core.format.type_support import TypeSupport


def is_package_bound(kind: pa.DataType) -> bool:
    """Whether a bound of this type may be a package's."""
    return pa.types.is_struct(kind) and any(_is_binary(member.type) for member in kind)


def text_form(kind: pa.StructType) -> pa.StructType:
    """The type of the same statistics with texts in place of these bounds."""
    members = []
    for field in kind:
        if is_package_bound(field.type):
            members.append(pa.field(field.name, pa.string()))
        else:
            members.append(field.with_type(text_form(field.type)) if pa.types.is_struct(field.type) else field)
    return pa.struct(members)


def with_typed_bounds(statistics: pa.StructArray, kind: pa.StructType) -> pa.StructArray:
    """Statistics of the type `text_form` as those of ``kind``. A text that is no bound becomes null."""
    members = []
    for at, field in enumerate(kind):
        member = statistics.field(at)
        support = _support(field.type)
        if support is not None:
            member = support.typed_bounds(member)
        elif pa.types.is_struct(field.type):
            member = with_typed_bounds(member, field.type)
        members.append(member)
    mask = statistics.is_null() if statistics.null_count else None
    return pa.StructArray.from_arrays(members, fields=list(kind), mask=mask)


def bounds_as_text(bounds: pa.StructArray) -> pa.StringArray:
    """Bounds in a checkpoint, which may have another form than the type's own; null for what is no bound."""
    for support in all_supports():
        own = _own(bounds, support)
        if own is not None:
            return support.bounds_as_text(own)
    return pa.nulls(len(bounds), pa.string())


def of_own_form(bounds: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """Bounds of a checkpoint as the type's own form, if that is ``kind``; None if they are none."""
    support = _support(kind)
    return None if support is None else _own(bounds, support)


def all_null(rows: int, kind: pa.DataType) -> pa.Array:
    """Nulls, of which those with bounds have the members that Parquet requires below a null too."""
    if is_package_bound(kind) and (support := _support(kind)) is not None:
        return support.typed_bounds(pa.nulls(rows, pa.string()))
    if not pa.types.is_struct(kind) or text_form(kind) == kind:
        return pa.nulls(rows, kind)
    members = [all_null(rows, member.type) for member in kind]
    return pa.StructArray.from_arrays(members, fields=list(kind), mask=pa.repeat(pa.scalar(True), rows))


def _own(bounds: pa.Array, support: TypeSupport) -> pa.Array | None:
    try:
        return support.from_file(bounds)
    except ValueError:  # one is damaged: skipping goes without those of its file
        return None


def _support(kind: pa.DataType) -> TypeSupport | None:
    """The package whose type has this form."""
    names = (name for name, facts in PRIMITIVES.items() if facts.by_package and facts.arrow == kind)
    return next((support for name in names if (support := type_support(name)) is not None), None)


def _is_binary(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind))
