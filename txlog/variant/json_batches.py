"""Many texts of JSON become variants together.

Texts of machines have few shapes: those of one are encoded column by column (`json_shapes`), in a tenth of the time.
What is unusual is left to `json_text.encode_json`, text by text: escapes, rare shapes, unusual values, and whatever is
no JSON. Both ways have the same bytes.

In: texts. Out: an Arrow array of variants. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from txlog.core.format.arrow.arrays import array_of, flags_of, from_flags, from_numbers, joined_chunks
from txlog.variant.arrow_form import struct_from
from txlog.variant.json_shapes import PADDING, ROWS_MIN, Group, Shape
from txlog.variant.json_text import encode_json

if TYPE_CHECKING:
    from numpy.typing import NDArray

Bytes: TypeAlias = "NDArray[np.uint8]"
Numbers: TypeAlias = "NDArray[np.int64]"
Texts: TypeAlias = "pa.Array | pa.ChunkedArray | Iterable[str | None]"

_CHUNK_ROWS = 16_384
_CHUNK_BYTES = 4 << 20
_TOTAL_BYTES = 1 << 30
_SHAPES_MAX = 8  # of one number of marks, in a chunk
_MARKS_MAX = 2_000

_IS_MARK, _IS_ODD = 1, 2
_CLASSES = bytes(
    _IS_MARK if each in b'{}[],:"' else _IS_ODD if each == ord("\\") or each < ord(" ") else 0 for each in range(256)
)


def variants_of(texts: Texts, refused: Callable[[int, Exception], None]) -> pa.StructArray:
    """The variants of texts of JSON; null for None.

    ``refused`` gets the row and the error of a text that is refused, which becomes null if that returns. Rows come in
    their order.
    """
    given: Any = joined_chunks(texts) if isinstance(texts, pa.ChunkedArray) else texts
    if not isinstance(given, pa.Array):
        given = list(given)
    count = len(given)
    groups = list(_groups_in(given)) if count >= ROWS_MIN else []
    left = np.ones(count, bool)
    for group in groups:
        left[group.rows] = False
    rows = np.flatnonzero(left)
    metadata: dict[bytes, int] = {}
    kinds = np.zeros(count, np.int64)
    for group in groups:
        kinds[group.rows] = metadata.setdefault(group.metadata, len(metadata))
    found: list[bytes] = []
    for row, text in zip(rows.tolist(), _some(given, rows), strict=True):
        encoded = _NONE
        try:
            if text is not None:
                encoded = encode_json(text)
                left[row] = False
        except (ValueError, TypeError) as error:
            refused(row, error)
        kinds[row] = metadata.setdefault(encoded[0], len(metadata))
        found.append(encoded[1])
    parts = [_binaries(group.starts, group.body) for group in groups] + [array_of(found, pa.binary())]
    order = np.concatenate([*(group.rows for group in groups), rows])
    values = pa.concat_arrays(parts)
    if len(groups) > 0 and (np.diff(order) < 0).any():
        places = np.empty(count, np.int64)
        places[order] = np.arange(count)
        values = values.take(from_numbers(places))
    names = array_of(list(metadata), pa.binary()).take(from_numbers(kinds))
    return struct_from(names, values, from_flags(left) if left.any() else None)


_NONE = (b"", b"")


def _some(given: Any, rows: Numbers) -> Sequence[Any]:
    """The texts of these rows."""
    if isinstance(given, pa.Array):
        found: list[Any] = (given if len(rows) == len(given) else given.take(from_numbers(rows))).to_pylist()
        return found
    return given if len(rows) == len(given) else [given[row] for row in rows.tolist()]


def _binaries(starts: Numbers, body: Bytes) -> pa.Array:
    offsets = pa.py_buffer(starts.astype(np.int32))
    return pa.Array.from_buffers(pa.binary(), len(starts) - 1, [None, offsets, pa.py_buffer(body)])


# --- groups -------------------------------------------------------------------------------------------------------


def _groups_in(given: Any) -> Iterator[Group]:
    """The variants of those texts that share a shape with others."""
    found = _bytes_of_arrow(given) if isinstance(given, pa.Array) else _bytes_of_list(given)
    if found is None or len(found[0]) > _TOTAL_BYTES:
        return
    data, offsets = found
    first = 0
    while first < len(offsets) - 1:
        fitting = int(np.searchsorted(offsets, offsets[first] + _CHUNK_BYTES, side="right")) - 1
        end = min(max(fitting, first + 1), first + _CHUNK_ROWS, len(offsets) - 1)
        limits = offsets[first : end + 1]
        chunk = np.zeros(limits[-1] - limits[0] + PADDING, np.uint8)
        chunk[:-PADDING] = data[limits[0] : limits[-1]]
        yield from _Chunk(chunk, limits - limits[0], np.arange(first, end)).groups()
        first = end


def _bytes_of_list(texts: Sequence[Any]) -> tuple[Bytes, Numbers] | None:
    """The UTF-8 of texts, of which None has none, and where each begins, with the end; None if one is no such text."""
    try:
        joined = "".join(texts)
    except TypeError:
        if None not in texts:
            return None
        return _bytes_of_list(["" if text is None else text for text in texts])
    try:
        sizes = map(len, texts if joined.isascii() else (text.encode() for text in texts))
        offsets = np.zeros(len(texts) + 1, np.int64)
        np.cumsum(np.fromiter(sizes, np.int64, len(texts)), out=offsets[1:])
        return np.frombuffer(joined.encode(), np.uint8), offsets
    except UnicodeEncodeError:
        return None


def _bytes_of_arrow(texts: pa.Array) -> tuple[Bytes, Numbers] | None:
    """The same of an Arrow array."""
    if not (pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type)):
        return None
    _, ends, body = texts.buffers()
    width = np.int32 if pa.types.is_string(texts.type) else np.int64
    offsets = np.frombuffer(ends, width)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    data = np.frombuffer(body or b"", np.uint8)[offsets[0] : offsets[-1]]
    try:
        if len(data) and data.max() >= 128:
            data.tobytes().decode()
    except UnicodeDecodeError:
        return None
    offsets -= offsets[0]
    if texts.null_count == 0:
        return data, offsets
    sizes = np.diff(offsets) * flags_of(texts.is_valid())
    return _gathered(data, offsets[:-1], sizes, 0)


def _gathered(data: Bytes, starts: Numbers, sizes: Numbers, padding: int) -> tuple[Bytes, Numbers]:
    """Some texts beside each other, and where each begins, with the end."""
    limits = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
    found = np.zeros(limits[-1] + padding, np.uint8)
    found[: limits[-1]] = data[np.repeat(starts - limits[:-1], sizes) + np.arange(limits[-1])]
    return found, limits


class _Chunk:
    """Texts, their rows, and the marks in them: brackets, commas and colons outside of strings, and quotes."""

    def __init__(self, data: Bytes, limits: Numbers, rows: Numbers) -> None:
        self._data, self._limits, self._rows = data, limits, rows

    def groups(self) -> Iterator[Group]:
        classes = np.frombuffer(self._data.tobytes().translate(_CLASSES), np.uint8)
        marks = np.flatnonzero(classes == _IS_MARK)
        is_quote = self._data[marks] == ord('"')
        quotes = np.cumsum(is_quote, dtype=np.int32)
        places = np.searchsorted(marks, self._limits)
        before = np.concatenate((np.zeros(1, np.int32), quotes))[places]
        usual = np.diff(before) & 1 == 0
        odd = np.flatnonzero(classes[: self._limits[-1]] == _IS_ODD)
        usual[np.searchsorted(self._limits, odd, side="right") - 1] = False
        if not usual.all():  # without them, so that strings are told from what is between them
            yield from self._of(np.flatnonzero(usual))
            return
        outside = is_quote | (quotes & 1 == 0)
        inside = np.flatnonzero(~outside)
        if len(inside):
            marks = marks[outside]
            places = places - np.searchsorted(inside, places)
        yield from self._by_count(marks, places)

    def _of(self, chosen: Numbers) -> Iterator[Group]:
        """The groups of some of the texts."""
        if len(chosen) < ROWS_MIN:
            return
        sizes = np.diff(self._limits)[chosen]
        data, limits = _gathered(self._data, self._limits[:-1][chosen], sizes, PADDING)
        yield from _Chunk(data, limits, self._rows[chosen]).groups()

    def _by_count(self, marks: Numbers, places: Numbers) -> Iterator[Group]:
        """The groups of texts, given by the places of their first marks."""
        counts = np.diff(places)
        for count in np.unique(counts):
            chosen = np.flatnonzero(counts == count)
            if not 2 <= count <= _MARKS_MAX or len(chosen) < ROWS_MIN:
                continue
            if len(chosen) == len(counts):
                found = np.ascontiguousarray(marks.reshape(len(chosen), count).T)
            else:
                found = marks[places[:-1][chosen] + np.arange(count)[:, None]]
            yield from self._by_shape(found, chosen)

    def _by_shape(self, marks: Numbers, chosen: Numbers) -> Iterator[Group]:
        """The groups of texts with the same number of marks; ``marks`` has a row for each mark."""
        whole = (marks[0] == self._limits[:-1][chosen]) & (marks[-1] + 1 == self._limits[1:][chosen])
        marks, rows = (marks, self._rows[chosen]) if whole.all() else (marks[:, whole], self._rows[chosen[whole]])
        for _ in range(_SHAPES_MAX):
            if len(rows) < ROWS_MIN:
                return
            shape = Shape.of(self._data, marks[:, 0])
            if shape is None:
                marks, rows = marks[:, 1:], rows[1:]
                continue
            same = shape.is_of(self._data, marks)
            if same.all():
                yield from shape.encoded(self._data, marks, rows)
                return
            if same.sum() >= ROWS_MIN:
                yield from shape.encoded(self._data, marks[:, same], rows[same])
            marks, rows = marks[:, ~same], rows[~same]
