"""The Arrow form of variants: structs of the binaries ``value`` and ``metadata``.

In: pairs of bytes, or structs of the two in any order. Out: arrays of exactly the type that a table has. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from txlog.core.format.arrow.arrays import array_of, without_null_marks
from txlog.core.format.schema import VARIANT

_ARROW = VARIANT.facts.arrow


class DamagedRowError(ValueError):
    """A row whose parts are no variant. ``row`` counts from 0 in the array."""

    def __init__(self, row: int, why: str) -> None:
        super().__init__(f"row {row}: {why}")
        self.row, self.why = row, why


def struct_of(variants: Iterable[tuple[bytes, bytes] | None]) -> pa.StructArray:
    """The Arrow form of variants, each ``(metadata, value)``, or None."""
    found = list(variants)
    parts = {
        "metadata": [each[0] if each else b"" for each in found],
        "value": [each[1] if each else b"" for each in found],
    }
    mask = array_of([each is None for each in found], pa.bool_()) if None in found else None
    binaries = {name: array_of(each, pa.binary()) for name, each in parts.items()}
    return struct_from(**binaries, mask=mask)


def struct_from(metadata: pa.Array, value: pa.Array, mask: pa.Array | None) -> pa.StructArray:
    """The Arrow form of variants whose parts are binaries; ``mask`` is true where a variant is null."""
    parts = {"metadata": metadata, "value": value}
    return pa.StructArray.from_arrays([parts[member.name] for member in _ARROW], fields=list(_ARROW), mask=mask)


def in_order(array: pa.StructArray) -> pa.StructArray:
    """The two parts as binaries of the table's type. Raises `DamagedRowError` for a variant that lacks one."""
    mask = array.is_null() if array.null_count else None
    parts = []
    for member in _ARROW:
        part = array.field(array.type.get_field_index(member.name)).cast(member.type)
        if part.null_count:
            for row, (is_valid, has_part) in enumerate(zip(array.is_valid(), part.is_valid(), strict=True)):
                if is_valid.as_py() and not has_part.as_py():
                    raise DamagedRowError(row, f"it has no {member.name}")
            part = without_null_marks(part)
        parts.append(part)
    return pa.StructArray.from_arrays(parts, fields=list(_ARROW), mask=mask)
