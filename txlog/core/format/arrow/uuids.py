"""Arrow's UUID extension type as the strings that other systems use for UUIDs.

In: an Arrow array of UUIDs. Out: a string array of their canonical form, ``6f1c0d0e-...``.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

_BYTES = 16
_DIGIT_POSITIONS = [*range(8), *range(9, 13), *range(14, 18), *range(19, 23), *range(24, 36)]
_LENGTH = 36


def is_uuid(arrow: pa.DataType) -> bool:
    """Whether this is the canonical extension type ``arrow.uuid``."""
    return getattr(arrow, "extension_name", None) == "arrow.uuid"


def uuid_strings(array: pa.Array) -> pa.Array:
    """Each UUID as its 36 characters, in lower case; nulls stay."""
    from txlog.core.format.arrow.compute import pc

    count, storage = len(array), array.storage
    values = storage.buffers()[1]
    if not count or array.null_count == count or values is None:
        return pa.nulls(count, pa.string())
    raw = np.frombuffer(values, np.uint8, count * _BYTES, storage.offset * _BYTES).reshape(count, _BYTES)
    digits = np.frombuffer(bytes(range(256)).hex().encode(), np.uint8).reshape(256, 2)
    characters = np.full((count, _LENGTH), ord("-"), np.uint8)
    characters[:, _DIGIT_POSITIONS] = digits[raw].reshape(count, 2 * _BYTES)
    offsets = np.arange(0, (count + 1) * _LENGTH, _LENGTH, dtype=np.int64)
    plain = pa.LargeStringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(characters.reshape(-1)))
    strings = plain.cast(pa.string())
    return pc.if_else(array.is_valid(), strings, pa.scalar(None, pa.string())) if array.null_count else strings
