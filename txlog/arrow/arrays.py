"""Arrow arrays as Python or NumPy values and back, through their buffers; and what maps and lists of Arrow hold.

The first call of one of pyarrow's own conversions (``pa.array``, ``pa.scalar``, ``to_numpy``, a Python value as an
argument of a compute function; before pyarrow 26 even ``to_pandas_dtype``) imports pandas if it is installed. That
takes a quarter of a second, in a process that may only list a table's files. In: flat arrays, and lists of values from
a log. Out: lists and arrays of the same values. Columnar format, "Buffer Listing for Each Layout".
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

__all__ = [
    "LIST_TYPES",
    "STRING_MAP",
    "array_of",
    "flags_of",
    "from_flags",
    "from_numbers",
    "numbers_of",
    "offsets_and_mask",
    "partition_texts",
]


def array_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """``values`` (None for null) as an array of type ``kind``.

    Strings, integers, floats, booleans, and structs and maps of these are converted here; ``pa.array`` converts other
    types. A struct is a ``dict``, which may lack fields. A map is a sequence of pairs.
    """
    nulls = values.count(None)
    if nulls == len(values):
        return pa.nulls(len(values), kind)
    valid = np.array([value is not None for value in values], bool) if nulls else None
    validity = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    if pa.types.is_string(kind):
        encoded = [b"" if value is None else value.encode() for value in values]
        body = pa.py_buffer(b"".join(encoded))
        return pa.Array.from_buffers(kind, len(values), [validity, _offsets(encoded), body])
    if pa.types.is_map(kind):
        pairs = [pair for value in values for pair in value or ()]
        columns = [
            array_of([pair[at] for pair in pairs], type_) for at, type_ in enumerate((kind.key_type, kind.item_type))
        ]
        members = pa.StructArray.from_arrays(columns, fields=[kind.key_field, kind.item_field])
        offsets = _offsets([value or () for value in values])
        return pa.Array.from_buffers(kind, len(values), [validity, offsets], children=[members])
    if pa.types.is_struct(kind):
        members = [
            array_of([None if value is None else value.get(field.name) for value in values], field.type)
            for field in kind
        ]
        return pa.Array.from_buffers(kind, len(values), [validity], children=members)
    if pa.types.is_boolean(kind):
        flags = np.packbits(np.array([bool(value) for value in values], bool), bitorder="little")
        return pa.Array.from_buffers(kind, len(values), [validity, pa.py_buffer(flags)])
    if pa.types.is_integer(kind) or pa.types.is_float64(kind):
        numbers = np.array([0 if value is None else value for value in values], _number_type(kind))
        return pa.Array.from_buffers(kind, len(values), [validity, pa.py_buffer(numbers)])
    return pa.array(values, kind)


def from_flags(flags: np.ndarray[Any, np.dtype[np.bool_]]) -> pa.BooleanArray:
    return pa.Array.from_buffers(pa.bool_(), len(flags), [None, pa.py_buffer(np.packbits(flags, bitorder="little"))])


def from_numbers(numbers: np.ndarray[Any, Any], valid: np.ndarray[Any, np.dtype[np.bool_]] | None = None) -> pa.Array:
    """64-bit integers or floats, null where not ``valid``."""
    kind = pa.float64() if numbers.dtype == np.float64 else pa.int64()
    validity = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    body = pa.py_buffer(np.ascontiguousarray(numbers, _number_type(kind)))
    return pa.Array.from_buffers(kind, len(numbers), [validity, body])


def flags_of(array: pa.BooleanArray) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """False where null."""
    validity, bits = array.buffers()
    flags = _bits(bits, array)
    if array.null_count:
        flags &= _bits(validity, array)
    return flags


def numbers_of(array: pa.Array) -> np.ndarray[Any, Any]:
    """The values of an array of 8 to 64-bit numbers, without a copy. Null slots hold arbitrary values."""
    numbers: np.ndarray[Any, Any] = np.frombuffer(array.buffers()[1] or b"", _number_type(array.type))
    return numbers[array.offset : array.offset + len(array)]


def _number_type(kind: pa.DataType) -> str:
    """NumPy's name for an integer or float type."""
    letter = "f" if pa.types.is_floating(kind) else "u" if pa.types.is_unsigned_integer(kind) else "i"
    return f"{letter}{kind.bit_width // 8}"


def _bits(buffer: pa.Buffer | None, array: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    end = array.offset + len(array)
    found = np.unpackbits(np.frombuffer(buffer or b"", np.uint8), count=end, bitorder="little")
    return found[array.offset :].view(np.bool_)


def _offsets(values: Sequence[Any]) -> pa.Buffer:
    ends = itertools.accumulate(map(len, values), initial=0)
    return pa.py_buffer(np.fromiter(ends, np.int32, len(values) + 1))


# --- maps of strings, such as the partition values of many files ---------------------------------------------------

STRING_MAP = pa.map_(pa.string(), pa.string())


def partition_texts(maps: pa.MapArray, name: str) -> tuple[pa.StringArray, Any]:
    """The raw strings of one partition column, and a mask of the maps that lack it (None if no map lacks it)."""
    from txlog.arrow.compute import pc

    offsets = numbers_of(maps.offsets)
    start, length = int(offsets[0]), int(offsets[-1] - offsets[0])
    width = length // max(1, len(maps))
    # Nearly always all maps have the same keys in the same order. Looking up each map is six times slower.
    if width and not maps.null_count and (np.diff(offsets) == width).all():
        keys, items = maps.keys.slice(start, length), maps.items.slice(start, length)
        for slot in range(width):
            if keys[slot].as_py() == name:
                places = from_numbers(np.arange(slot, length, width))
                if pc.all(pc.equal(keys.take(places), array_of([name], pa.string())[0])).as_py():
                    return items if width == 1 else items.take(places), None
    absent = flags_of(pc.map_lookup(maps, name, "all").is_null())
    return pc.map_lookup(maps, name, "first"), absent if absent.any() else None


# --- Arrow's five kinds of list, read as one ----------------------------------------------------------------------

LIST_TYPES = (pa.ListType, pa.LargeListType, pa.FixedSizeListType, pa.ListViewType, pa.LargeListViewType)


def offsets_and_mask(array: pa.Array) -> tuple[pa.Array, pa.Array | None]:
    """Offsets into ``array.flatten()`` (which skips null lists and what lies outside a slice), and the null lists.

    Not ``Array.cast``: from list_view to list it silently loses elements (pyarrow 26).
    """
    from txlog.arrow.compute import pc

    mask = array.is_null() if array.null_count else None
    lengths = pc.list_value_length(array).fill_null(0)
    offsets = np.zeros(len(array) + 1, dtype=np.int64)
    np.cumsum(lengths.to_numpy(zero_copy_only=False), out=offsets[1:])
    return pa.array(offsets).cast(pa.int32()), mask
