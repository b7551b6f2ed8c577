"""Arrow arrays as Python or NumPy values and back, through their buffers; what maps and lists of Arrow hold;
nulls of structs with required fields; and columns with more text than one array of strings holds.

The first call of one of pyarrow's own conversions (``pa.array``, ``pa.scalar``, ``to_numpy``, a Python value as an
argument of a compute function; before pyarrow 26 even ``to_pandas_dtype``) imports pandas if it is installed. That
takes a quarter of a second, in a process that may only list a table's files. In: flat arrays, and lists of values from
a log. Out: lists and arrays of the same values. Columnar format, "Buffer Listing for Each Layout".
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa


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
    import txlog.core.format.arrow.python_values  # noqa: F401  has pyarrow import pandas

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


def numbers_or(array: pa.Array, default: int) -> np.ndarray[Any, Any]:
    """The values of an array of 8 to 64-bit integers; ``default`` where null."""
    numbers = numbers_of(array)
    return np.where(flags_of(array.is_valid()), numbers, default) if array.null_count else numbers


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
    from txlog.core.format.arrow.compute import pc

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
    from txlog.core.format.arrow.compute import pc

    mask = array.is_null() if array.null_count else None
    lengths = pc.list_value_length(array).fill_null(0)
    offsets = np.zeros(len(array) + 1, dtype=np.int64)
    np.cumsum(lengths.to_numpy(zero_copy_only=False), out=offsets[1:])
    return pa.array(offsets).cast(pa.int32()), mask


def as_list_of_entries(array: pa.Array) -> pa.Array:
    """A map as a list of (key, value) structs, since Arrow flattens only lists."""
    if not pa.types.is_map(array.type):
        return array
    entries = pa.StructArray.from_arrays([array.keys, array.items], names=["key", "value"])
    offsets = pa.array(array.offsets.to_numpy(zero_copy_only=False).copy())
    return pa.ListArray.from_arrays(offsets, entries, mask=array.is_null() if array.null_count else None)


def absent(length: int, kind: pa.DataType) -> pa.Array:
    """Nulls for a column that rows lack. Required struct fields of it, which no reader reaches, have no null marks."""
    array = pa.nulls(length, kind)
    if not pa.types.is_struct(kind) or not length:
        return array
    members = [absent(length, member.type) for member in kind]
    if all(member.nullable for member in kind) and not any(pa.types.is_struct(member.type) for member in kind):
        return array
    kept = [each if member.nullable else without_null_marks(each) for member, each in zip(kind, members, strict=True)]
    return pa.StructArray.from_arrays(kept, fields=list(kind), mask=array.is_null())


def without_null_marks(array: pa.Array) -> pa.Array:
    """The array with every slot valid. Only for slots that no reader can reach."""
    if pa.types.is_struct(array.type):
        children = [array.field(position) for position in range(array.type.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(array.type))
    if pa.types.is_map(array.type) or pa.types.is_list(array.type):
        offsets, _ = offsets_and_mask(as_list_of_entries(array))
        if pa.types.is_list(array.type):
            return pa.ListArray.from_arrays(offsets, array.flatten(), type=array.type)
        entries = as_list_of_entries(array).flatten()
        return pa.MapArray.from_arrays(offsets, entries.field(0), entries.field(1), type=array.type)
    if pa.types.is_null(array.type):
        return array
    return pa.Array.from_buffers(array.type, len(array), [None, *array.buffers()[1:]], 0, array.offset)


# --- columns with more text than the 2 GiB that one array of strings or binaries holds --------------------------

BYTES_MAX = (1 << 31) - 1
_INDEX_BYTES = 1 << 30
_LARGE = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}


def cast_to(values: Any, kind: pa.DataType) -> Any:
    """``Array.cast``, which refuses a struct's required field that is null where its struct is null."""
    if values.type == kind:
        return values
    if isinstance(values, pa.ChunkedArray):
        return pa.chunked_array([cast_to(chunk, kind) for chunk in values.chunks], kind)
    if not (pa.types.is_struct(kind) and pa.types.is_struct(values.type)) or kind.num_fields != values.type.num_fields:
        return values.cast(kind)
    members = [*zip(values.flatten(), kind, strict=True)]
    if any(not member.nullable and part.null_count > values.null_count for part, member in members):
        return values.cast(kind)  # whose error says what is wrong
    parts = [cast_to(part if member.nullable else without_null_marks(part), member.type) for part, member in members]
    return pa.StructArray.from_arrays(parts, fields=list(kind), mask=values.is_null() if values.null_count else None)


def large_type(kind: pa.DataType) -> pa.DataType:
    """The type of the same values with offsets of 64 bits; ``kind`` itself if it has no offsets of 32 bits."""
    return _LARGE.get(kind, kind)


def one_array(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """All values in one array of their own type; see `joined_chunks`."""
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def members_of(rows: pa.StructArray) -> dict[str, pa.Array]:
    """The members of structs by name, as a reader sees them: null where the struct is."""
    return dict(zip((field.name for field in rows.type), rows.flatten(), strict=True))


def visible_member(column: pa.Array, path: Sequence[str]) -> pa.Array:
    """A member of structs in structs, null where one of those around it is."""
    for name in path:
        column = column.flatten()[column.type.get_field_index(name)]
    return column


def joined_chunks(column: pa.ChunkedArray) -> pa.Array:
    """All values in one array; of `large_type` if they have too much text for their own type."""
    if column.type in _LARGE and column.nbytes > BYTES_MAX:
        column = column.cast(_LARGE[column.type])
    return column.combine_chunks()


def are_among(values: pa.Array | pa.ChunkedArray, among: pa.ChunkedArray, index_bytes: int = _INDEX_BYTES) -> Any:
    """For each of ``values``, whether it is one of ``among``, however much text these have together.

    Arrow indexes at most 2 GiB of text, so ``values`` are looked up in one part of ``among`` after the other. The index
    of a part is at most about ``index_bytes`` in memory, or one chunk.
    """
    from txlog.core.format.arrow.compute import pc

    parts: list[list[pa.Array]] = [[]]
    held_bytes = 0
    for chunk in among.chunks:
        held_bytes += chunk.nbytes
        if held_bytes > index_bytes and parts[-1]:
            parts.append([])
            held_bytes = chunk.nbytes
        parts[-1].append(chunk)
    flags = (pc.is_in(values, value_set=pa.chunked_array(part, among.type)) for part in parts)
    return functools.reduce(pc.or_, flags)


def coded(texts: pa.ChunkedArray) -> tuple[pa.Array, np.ndarray[Any, np.dtype[np.int64]]]:
    """The distinct values of ``texts``, and for each row which of them it has; null is a value."""
    chunks = texts.dictionary_encode("encode").chunks  # they share one dictionary
    if not chunks:
        return pa.nulls(0, texts.type), np.empty(0, np.int64)
    return chunks[-1].dictionary, np.concatenate([numbers_of(chunk.indices) for chunk in chunks]).astype(np.int64)


def small_offsets(array: pa.Array) -> pa.Array:
    """Large strings or binaries of at most 2 GiB, with offsets that begin at 0, so a cast accepts them.

    A slice keeps its parent's offsets, and Arrow refuses to cast offsets that need more than 32 bits.
    """
    if not len(array) or (body := array.buffers()[2]) is None:
        return array
    offsets = np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array) + 1]
    first, end = int(offsets[0]), int(offsets[-1])
    if end <= BYTES_MAX:
        return array
    validity = array.is_valid().buffers()[1] if array.null_count else None
    moved = pa.py_buffer(offsets - first)
    return pa.Array.from_buffers(array.type, len(array), [validity, moved, body.slice(first, end - first)])


def without_views(schema: pa.Schema) -> pa.Schema:
    """The schema with strings in place of string views, and binaries in place of binary views, at every depth.

    Arrow takes no rows of views (pyarrow 26). deltalake and Polars write files whose schema has them.
    """
    return pa.schema([field.with_type(_without_views(field.type)) for field in schema], schema.metadata)


def _without_views(kind: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_string_view(kind):
        return pa.string()
    if types.is_binary_view(kind):
        return pa.binary()
    if types.is_struct(kind):
        return pa.struct([field.with_type(_without_views(field.type)) for field in kind])
    if types.is_map(kind):
        key, item = (part.with_type(_without_views(part.type)) for part in (kind.key_field, kind.item_field))
        return kind if (key, item) == (kind.key_field, kind.item_field) else pa.map_(key, item)
    if types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_without_views(kind.value_type)))
    if types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_without_views(kind.value_type)))
    return kind
