"""The shape of texts of JSON, and the variants of many texts of one shape: they are encoded column by column.

A shape is everything in a text but its scalars and the contents of its strings: the names, the brackets, the white
space. For each shape, numbers are read digit by digit for all texts at once, and the pieces of the variants' encoding
stand beside each other in a matrix with a row for each text, of which the bytes that count are taken. A text with an
unusual value is left out: an exponent, a number of more than 18 digits, a long string.

In: one text of a shape; the bytes of many texts, and where their marks are: brackets, commas and colons outside of
strings, and quotes. Out: which of them have the shape, and their variants, with the bytes that
`txlog.variant.encoding` makes of each. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from txlog.variant.encoding import ARRAY, OBJECT, names_of
from txlog.variant.json_text import encode_json

if TYPE_CHECKING:
    from numpy.typing import NDArray

Bytes: TypeAlias = "NDArray[np.uint8]"
Numbers: TypeAlias = "NDArray[np.int64]"
Flags: TypeAlias = "NDArray[np.bool_]"

ROWS_MIN = 96
"""Fewer texts of one shape are encoded faster one by one."""

PADDING = 8
"""So many bytes stand behind those of all texts."""

_DEPTH_MAX = 100
_STRING_MAX = 255
_SHORT_MAX = 63
_DIGITS_MAX = 18
_ROW_MAX = 0xFFFF
_COUNT_MAX = 255
_WORD = 8
_MIXED_MAX = 60
_MATRIX_BYTES = 16 << 20
_SPACE = b" \t\n\r"
_LITERALS = {b"true": 1 << 2, b"false": 2 << 2, b"null": 0}


class Group(NamedTuple):
    """Variants of one shape: the rows of their texts, their one metadata, and the starts of their values in ``body``,
    with its end."""

    rows: Numbers
    metadata: bytes
    starts: Numbers
    body: Bytes


class _VaryingText(NamedTuple):
    """What differs between the texts of a shape: from so many bytes behind a mark up to the next one. The contents of a
    string, a number or a literal."""

    mark: int
    distance: int
    is_string: bool


class _Inside(NamedTuple):
    """An object or array. ``head`` are its count, and the ids of its fields; ``values`` are in the order of the
    encoding."""

    kind: int
    head: bytes
    values: tuple[_Value, ...]


_Value: TypeAlias = "_VaryingText | _Inside"


class _OddShapeError(Exception):
    """Texts of this shape are encoded one by one."""


class Shape:
    """What is the same in many texts: the runs of bytes between their leaves, given by one text of JSON."""

    def __init__(self, text: bytes, marks: Numbers) -> None:
        self._metadata, _ = encode_json(text.decode())  # which refuses what is no JSON
        self._text, self._marks = text, marks.tolist()
        self._ids = {name: at for at, name in enumerate(names_of(self._metadata))}
        self._leaves: list[_VaryingText] = []
        self._root, _ = self._value(-1, 0)

    @classmethod
    def of(cls, data: Bytes, marks: Numbers) -> Shape | None:
        """The shape of one text; None if its texts are encoded one by one."""
        first = int(marks[0])
        text = data[first : int(marks[-1]) + 1].tobytes()
        try:
            return cls(text, marks - first)
        except (ValueError, _OddShapeError):
            return None

    def _gap(self, mark: int) -> bytes:
        """What is between a mark and the next one."""
        return self._text[self._marks[mark] + 1 : self._marks[mark + 1]] if mark >= 0 else b""

    def _char(self, mark: int) -> str:
        return chr(self._text[self._marks[mark]])

    def _leaf(self, mark: int, distance: int, *, is_string: bool) -> _VaryingText:
        leaf = _VaryingText(mark, distance, is_string)
        self._leaves.append(leaf)
        return leaf

    def _value(self, before: int, depth: int) -> tuple[_Value, int]:
        """The value behind a mark, and the mark behind the value."""
        gap = self._gap(before)
        text = gap.lstrip(_SPACE)
        if text:
            return self._leaf(before, 1 + len(gap) - len(text), is_string=False), before + 1
        at = before + 1
        if self._char(at) == '"':
            return self._leaf(at, 1, is_string=True), at + 2
        if depth > _DEPTH_MAX:
            raise _OddShapeError
        return self._array(at, depth) if self._char(at) == "[" else self._object(at, depth)

    def _object(self, at: int, depth: int) -> tuple[_Value, int]:
        found: dict[str, _Value] = {}
        while self._char(at) != "}":
            if self._char(at + 1) == "}":
                at += 1
                break
            name = self._gap(at + 1).decode()  # behind the first of two quotes, which a colon follows
            found[name], at = self._value(at + 3, depth + 1)
        ids = [self._ids[name] for name in sorted(found, key=str.encode)]
        if len(ids) > _COUNT_MAX or max(ids, default=0) > _COUNT_MAX:
            raise _OddShapeError
        values = tuple(found[name] for name in sorted(found, key=str.encode))
        return _Inside(OBJECT, bytes((len(found), *ids)), values), at + 1

    def _array(self, at: int, depth: int) -> tuple[_Value, int]:
        found: list[_Value] = []
        while self._char(at) != "]":
            if self._char(at + 1) == "]" and not self._gap(at).strip(_SPACE):
                at += 1
                break
            value, at = self._value(at, depth + 1)
            found.append(value)
        if len(found) > _COUNT_MAX:
            raise _OddShapeError
        return _Inside(ARRAY, bytes((len(found),)), tuple(found)), at + 1

    def is_of(self, data: Bytes, marks: Numbers) -> Flags:
        """Which texts, given by their marks, have the shape. ``data`` ends in bytes that are of no text."""
        words = np.ndarray((len(data) - _WORD + 1,), "<u8", data, strides=(1,))
        found = np.ones(marks.shape[1], bool)
        begins = [0, *(leaf.mark + 1 for leaf in self._leaves)]
        ends = [*(self._marks[leaf.mark] + leaf.distance for leaf in self._leaves), len(self._text)]
        for mark, end in zip(begins, ends, strict=True):
            run = self._text[self._marks[mark] : end]
            for at in range(0, len(run), _WORD):
                piece = run[at : at + _WORD]
                given = words[marks[mark] + at]
                if len(piece) < _WORD:
                    given &= np.uint64((1 << 8 * len(piece)) - 1)
                found &= given == np.uint64(int.from_bytes(piece, "little"))
        return found

    def encoded(self, data: Bytes, marks: Numbers, rows: Numbers) -> Iterator[Group]:
        """The variants of texts of the shape, which have these rows, but for those with an unusual value."""
        longest = sum(int((marks[leaf.mark + 1] - marks[leaf.mark]).max()) for leaf in self._leaves)
        step = max(_MATRIX_BYTES // (min(longest, _STRING_MAX * len(self._leaves)) + len(self._text)), ROWS_MIN)
        for first in range(0, len(rows), step):
            part = slice(first, first + step)
            yield from self._of_block(data, marks[:, part], rows[part])

    def _of_block(self, data: Bytes, marks: Numbers, rows: Numbers) -> Iterator[Group]:
        columns = _TextColumns(data, marks)
        root = columns.sized(self._root)
        usual = columns.usual & (root.sizes <= _ROW_MAX)
        for widths in np.unique(columns.widths[usual]):
            chosen = np.flatnonzero(usual & (columns.widths == widths))
            matrix, valid = columns.pieces(root, chosen)
            starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(root.sizes[chosen])))
            yield Group(rows[chosen], self._metadata, starts, matrix[valid])


# --- the values of all texts of a shape -----------------------------------------------------------------------------


class _Sized(NamedTuple):
    """A value in all texts: its size in each; its bytes by rows, of which the first ones count; what is in it."""

    sizes: Numbers
    matrix: Bytes
    own_sizes: Numbers
    inside: tuple[_Sized, ...] = ()
    node: _Inside | None = None
    is_wide: Flags | None = None


class _TextColumns:
    """The texts of one shape. ``usual`` says which are encoded here, and ``widths`` which have offsets of equal
    widths."""

    def __init__(self, data: Bytes, marks: Numbers) -> None:
        self._data, self._marks = data, marks
        self._count = marks.shape[1]
        self.usual: Flags = np.ones(self._count, bool)
        self.widths: Numbers = np.zeros(self._count, np.int64)
        self._mixed = 0

    def sized(self, value: _Value) -> _Sized:
        if isinstance(value, _VaryingText):
            return self._string(value) if value.is_string else self._scalar(value)
        inside = tuple(self.sized(each) for each in value.values)
        body = sum((each.sizes for each in inside), np.zeros(self._count, np.int64))
        is_wide = body > 255
        if is_wide.any() and not is_wide.all():
            self._mixed += 1
            if self._mixed > _MIXED_MAX:
                self.usual &= ~is_wide
            else:
                self.widths = self.widths * 2 + is_wide
        own = 1 + len(value.head) + (len(inside) + 1) * (1 + is_wide)
        return _Sized(body + own, np.empty((0, 0), np.uint8), own, inside, value, is_wide)

    def _gathered(self, starts: Numbers, width: int) -> Bytes:
        found: Bytes = self._data.take(starts[:, None] + np.arange(width), mode="clip")
        return found

    def _string(self, value: _VaryingText) -> _Sized:
        starts = self._marks[value.mark] + 1
        sizes = self._marks[value.mark + 1] - starts
        self.usual &= sizes <= _STRING_MAX
        sizes = np.minimum(sizes, _STRING_MAX)
        longest = int(sizes.max())
        if longest <= _SHORT_MAX:
            matrix = self._gathered(starts - 1, longest + 1)
            matrix[:, 0] = sizes << 2 | 1
            return _Sized(sizes + 1, matrix, sizes + 1)
        is_long = sizes > _SHORT_MAX
        matrix = self._gathered(starts - 5, longest + 5)
        matrix[:, :5] = 0
        matrix[:, 0], matrix[:, 1] = 16 << 2, sizes
        short = np.flatnonzero(~is_long)
        matrix[short, : _SHORT_MAX + 1] = self._gathered(starts[short] - 1, _SHORT_MAX + 1)
        matrix[short, 0] = sizes[short] << 2 | 1
        sizes = sizes + np.where(is_long, 5, 1)
        return _Sized(sizes, matrix, sizes)

    def _scalar(self, value: _VaryingText) -> _Sized:
        starts = self._marks[value.mark] + value.distance
        lengths = self._marks[value.mark + 1] - starts
        first = self._data[starts]
        is_word = (first == ord("t")) | (first == ord("f")) | (first == ord("n"))
        sizes = np.ones(self._count, np.int64)
        if is_word.all():
            matrix = self._words(starts, lengths)
            return _Sized(sizes, matrix, sizes)
        matrix, number_sizes, known = _numbers(self._data, starts, lengths, first)
        if is_word.any():
            at = np.flatnonzero(is_word)
            matrix[at, :1] = self._words(starts, lengths)[at]
            sizes = np.where(is_word, 1, number_sizes)
            self.usual &= known | is_word
            return _Sized(sizes, matrix, sizes)
        self.usual &= known
        return _Sized(number_sizes, matrix, number_sizes)

    def _words(self, starts: Numbers, lengths: Numbers) -> Bytes:
        """True, false and null; what is none of them is not usual."""
        letters = self._gathered(starts, 5)
        found = np.zeros((self._count, 1), np.uint8)
        known = self._data[starts] < ord("a")  # a number
        for text, encoded in _LITERALS.items():
            is_text = (lengths == len(text)) & (letters[:, : len(text)] == np.frombuffer(text, np.uint8)).all(1)
            found[is_text] = encoded
            known |= is_text
        self.usual &= known
        return found

    def pieces(self, root: _Sized, rows: Numbers) -> tuple[Bytes, Flags]:
        """The bytes of these variants, beside each other, and which of them count."""
        whole = len(rows) == self._count
        parts: list[tuple[Bytes, Numbers | None]] = []
        self._collect(root, slice(None) if whole else rows, len(rows), parts)
        width = sum(part.shape[1] for part, _ in parts)
        matrix = np.empty((len(rows), width), np.uint8)
        valid = np.ones((len(rows), width), bool)
        at = 0
        for part, sizes in parts:
            end = at + part.shape[1]
            matrix[:, at:end] = part
            if sizes is not None:
                np.less(np.arange(end - at), sizes[:, None], out=valid[:, at:end])
            at = end
        return matrix, valid

    def _collect(self, sized: _Sized, rows: Any, count: int, parts: list[tuple[Bytes, Numbers | None]]) -> None:
        if sized.node is None:
            parts.append((sized.matrix[rows], sized.own_sizes[rows]))
            return
        assert sized.is_wide is not None
        is_wide = bool(sized.is_wide[rows][0])
        head = bytes((sized.node.kind | is_wide << 2, *sized.node.head))
        parts.append((np.broadcast_to(np.frombuffer(head, np.uint8), (count, len(head))), None))
        offsets = np.zeros((count, len(sized.inside) + 1), "<u2" if is_wide else np.uint8)
        end = np.zeros(count, np.int64)
        for at, each in enumerate(sized.inside, 1):
            end = end + each.sizes[rows]
            offsets[:, at] = end
        parts.append((offsets.view(np.uint8).reshape(count, -1), None))
        for each in sized.inside:
            self._collect(each, rows, count, parts)


def _numbers(data: Bytes, starts: Numbers, lengths: Numbers, first: Bytes) -> tuple[Bytes, Numbers, Flags]:
    """Numbers without an exponent: their bytes in rows, how many count, and which texts are such numbers."""
    is_negative = first == ord("-")
    starts, lengths = starts + is_negative, lengths - is_negative
    known = (lengths >= 1) & (lengths <= _DIGITS_MAX + 1)
    longest = int(np.minimum(lengths, _DIGITS_MAX + 1).max(initial=1))
    number = np.zeros(len(starts), np.int64)
    scale = np.full(len(starts), -1)
    digits = np.zeros(len(starts), np.int64)
    last = np.zeros(len(starts), np.uint8)
    for at in range(longest):
        letter = data.take(starts + at, mode="clip")
        inside = at < lengths
        digit = letter - np.uint8(ord("0"))
        is_digit = inside & (digit < 10)
        is_point = inside & (letter == ord("."))
        if is_point.any():
            known &= ~is_point | ((scale < 0) & (digits > 0))
            scale[is_point] = 0
            scale += is_digit & (scale >= 0)
        else:
            scale += is_digit & (scale >= 0)
        known &= is_digit | is_point | ~inside
        if at == 1:  # no digit follows a zero
            known &= ~(is_digit & (last == ord("0")))
        number = np.where(is_digit, number * 10 + digit, number)
        digits += is_digit
        last = letter
    known &= (scale != 0) & (digits <= _DIGITS_MAX)
    number = np.where(is_negative, -number, number)
    return *_number_bytes(number, scale), known


def _number_bytes(number: Numbers, scale: Numbers) -> tuple[Bytes, Numbers]:
    """Integers as narrow as they can be, and decimals of 4 or 8 bytes; a scale below 0 is none."""
    eight = np.ascontiguousarray(number, "<i8").view(np.uint8).reshape(-1, 8)
    exponent = np.zeros(len(number), np.int64)
    for bits in (7, 15, 31):
        exponent += (number < -(1 << bits)) | (number >= 1 << bits)
    is_decimal = scale >= 0
    if not is_decimal.any():
        matrix = np.empty((len(number), 9), np.uint8)
        matrix[:, 0] = (3 + exponent) << 2
        matrix[:, 1:] = eight
        return matrix, 1 + (1 << exponent)
    is_large = (np.abs(number) >= 10**9) | (scale > 9)
    matrix = np.empty((len(number), 10), np.uint8)
    matrix[:, 0] = np.where(is_decimal, 8 + is_large, 3 + exponent) << 2
    matrix[:, 1] = np.where(is_decimal, scale, eight[:, 0])
    matrix[:, 2:] = eight
    whole = np.flatnonzero(~is_decimal)
    matrix[whole, 1:9] = eight[whole]
    return matrix, np.where(is_decimal, 6 + 4 * is_large, 1 + (1 << exponent))
