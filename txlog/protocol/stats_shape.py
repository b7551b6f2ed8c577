"""The statistics of one writer read by columns: its texts have the same keys in the same order, and differ in values.

In: the JSON texts of ``add.stats``, none of them null. Out: those that have the shape of one of them, and their values,
typed. Such a text is strict JSON with each key once, so what is found in it is what any JSON reader finds, in less
time: texts are cut where the keys are known to stand. What is written in another way is left for a JSON reader.
PROTOCOL.md, "Per-file Statistics".
"""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txlog.arrow.arrays import array_of, from_numbers

__all__ = ["Cut", "Shape", "cut_alike"]

Path: TypeAlias = tuple[str, ...]
Numbers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

_TEXT_MAX = 65_536
_SPELLINGS = ((",", ":"), (", ", ": "))
_QUOTE, _BACKSLASH, _SPACE, _ZERO, _MINUS = b'"\\ 0-'
_SCALAR = r"^(?:-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null)$"


def cut_alike(texts: pa.StringArray) -> Cut | None:
    """The texts that have the shape of those met last, if half of them do, else of one of them; None if it has none.

    Raises ``ArrowInvalid`` or ``ValueError`` for bytes that are no text.
    """
    global _latest
    if _latest is not None:
        cut = _latest.cut(texts)
        if 2 * len(cut.rows) >= len(texts):
            return cut
    shape = Shape.of(texts[len(texts) // 2].as_py())
    if shape is None:
        return None
    _latest = shape
    return shape.cut(texts)


@dataclass(frozen=True, slots=True)
class Shape:
    """A text is the first of ``literals``, a value, the next literal, and so on, with a literal at the end.

    ``values`` are the paths of the values, with ``str`` for one in quotes, which belong to the literals, ``int`` for an
    integer, and ``object`` for any other. ``objects`` are the paths of all objects.
    """

    literals: tuple[bytes, ...]
    values: tuple[tuple[Path, type], ...]
    objects: frozenset[Path]

    @classmethod
    def of(cls, text: str) -> Shape | None:
        """The shape of a text; None where it is no object, or is written in a way that is not foreseen here."""
        if len(text) > _TEXT_MAX:
            return None
        try:
            value = json.loads(text, object_pairs_hook=tuple)
        except (ValueError, RecursionError):
            return None
        for comma, colon in _SPELLINGS:
            shape = _Builder(comma, colon).shape(value)
            if shape is not None and len(shape.cut(array_of([text], pa.string())).rows):
                return shape
        return None

    def cut(self, texts: pa.StringArray) -> Cut:
        """Those of the texts that have this shape. Raises ``ArrowInvalid`` for bytes that are no text."""
        offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
        body = texts.buffers()[2].slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
        letters = np.frombuffer(body, np.uint8)
        is_plain = bool(letters.view(np.int8).min(initial=_SPACE) >= _SPACE)  # printable ASCII
        if not is_plain:
            texts.validate(full=True)
        bounds = offsets - offsets[0]
        rows, quotes = _rows_with(sum(map(_quotes, self.literals)), bounds, letters, is_plain)
        places = self._places(bounds[:-1][rows], quotes, bounds[1:][rows])
        fit = places[:, 2::2] >= places[:, 1:-1:2]
        if not fit.all():
            chosen = fit.all(axis=1)
            rows, places = rows[chosen], places[chosen]
        wrong = self._lacking(letters, places)
        return Cut(self, rows, places, body) if wrong is None else Cut(self, rows[~wrong], places[~wrong], body)

    def _places(self, begins: Any, quotes: Any, ends: Any) -> Numbers:
        """Where each literal would begin and end in each row: the inner ones by the first quote in each.

        There are just as many quotes as the literals have. So where each of these is in its place, none is in a value.
        """
        known = np.cumsum([_quotes(literal) for literal in self.literals[:-1]])
        inner = self.literals[1:-1]
        before = [literal.index(b'"') for literal in inner]
        shifts = [(-at, len(literal) - at) for at, literal in zip(before, inner, strict=True)]
        places = np.empty((len(begins), 2 * len(self.literals)), np.int64)
        firsts = quotes.take(np.repeat(known[:-1], 2), axis=1)
        np.add(firsts, np.array(shifts, np.int64).reshape(-1), out=places[:, 2:-2])
        places[:, 0], places[:, 1] = begins, begins + len(self.literals[0])
        places[:, -2], places[:, -1] = ends - len(self.literals[-1]), ends
        return places

    def _lacking(self, letters: Any, places: Numbers) -> Numbers | None:
        """Which rows lack a literal in its place; None where none does. Those of one length are looked at together."""
        lacking = None
        for numbers, wanted in _repeated(self.literals, len(places)):
            size = len(self.literals[numbers[0]])
            # A window of as many bytes on each place of the text.
            windows: Any = np.ndarray((max(0, len(letters) - size + 1),), f"V{size}", letters, strides=(1,))
            found = windows[places.take([2 * number for number in numbers], axis=1)].view(np.uint8).reshape(-1)
            if not pa.py_buffer(found).equals(wanted):
                differs = (found != np.frombuffer(wanted, np.uint8)).reshape(len(places), -1).any(axis=1)
                lacking = differs if lacking is None else lacking | differs
        return lacking


_latest: Shape | None = None
"""The shape met last, since the statistics of a table come in many pieces. Any other in its place does no harm."""


class Cut:
    """Texts of one shape, cut into literals and values. ``rows`` are their numbers, ascending."""

    def __init__(self, shape: Shape, rows: Numbers, places: Numbers, body: pa.Buffer) -> None:
        self.rows = rows
        self._shape = shape
        self._width = places.shape[1]
        self._offsets = np.zeros(places.size + 1, np.int32)
        self._offsets[:-1] = places.reshape(-1)
        self._offsets[-1] = places[-1:, -1].max(initial=0)
        self._body = body
        self._numbers = {path: number for number, (path, _) in enumerate(shape.values)}

    def objects(self, kind: pa.StructType) -> pa.StructArray:
        """The values as ``kind`` has them, with null for what is not there.

        Raises ``ArrowException`` or ``ValueError`` where a value is no JSON, or does not fit.
        """
        whole = [number for number, (_, found) in enumerate(self._shape.values) if found is int]
        integers = self._integers(whole) if whole else {}
        for number, (path, found) in enumerate(self._shape.values):
            if found is not str and path not in integers and not _all(_matches(self._texts(number), _SCALAR)):
                raise ValueError("a value is no JSON")
        return self._member((), kind, integers)

    def _member(self, path: Path, kind: pa.DataType, integers: Mapping[Path, Any]) -> pa.Array:
        is_object, number = path in self._shape.objects, self._numbers.get(path)
        if not is_object and number is None:
            return pa.nulls(len(self.rows), kind)
        if is_object != pa.types.is_struct(kind):
            raise ValueError(f"{'.'.join(path)} is not of type {kind}")
        if number is None:
            members = [self._member((*path, field.name), field.type, integers) for field in kind]
            return pa.StructArray.from_arrays(members, fields=list(kind))
        if path in integers and pa.types.is_integer(kind):
            return from_numbers(integers[path]).cast(kind)
        return _typed(self._texts(number), kind, is_text=self._shape.values[number][1] is str)

    def _integers(self, numbers: Sequence[int]) -> dict[Path, Numbers]:
        """Those of these values that are integers in all texts."""
        try:
            found = self._pieces(numbers).cast(pa.int64())
        except pa.ArrowInvalid:
            found = None
        if found is None or self._is_padded(numbers):
            alone = (self._integers([number]) for number in numbers) if len(numbers) > 1 else ()
            return {path: values for each in alone for path, values in each.items()}
        values = np.frombuffer(found.buffers()[1], np.int64)[: len(found)].reshape(-1, self._width)
        return {self._shape.values[at][0]: np.ascontiguousarray(values[:, 2 * at + 1]) for at in numbers}

    def _is_padded(self, numbers: Sequence[int]) -> bool:
        """Whether one of these integers has a zero in front: Arrow takes it, and hexadecimal ones, JSON does not."""
        places = self._offsets[:-1].reshape(-1, self._width)
        columns = [2 * number + 1 for number in numbers]
        starts, stops = places.take(columns, axis=1), places.take([column + 1 for column in columns], axis=1)
        letters = np.frombuffer(self._body, np.uint8)
        first = letters[starts]
        negative = first == _MINUS
        if negative.any():
            starts = starts + negative
            first = letters[starts]
        return bool(((first == _ZERO) & (stops - starts > 1)).any())

    def _texts(self, number: int) -> pa.StringArray:
        return self._pieces().take(from_numbers(np.arange(2 * number + 1, len(self._offsets) - 1, self._width)))

    def _pieces(self, numbers: Sequence[int] | None = None) -> pa.StringArray:
        """A literal, a value, ..., a literal, and what stands between this text and the next; or only some values."""
        length = len(self._offsets) - 1
        chosen = None
        if numbers is not None:
            row = np.zeros(self._width, dtype=bool)
            row[[2 * number + 1 for number in numbers]] = True
            chosen = pa.py_buffer(np.packbits(np.tile(row, len(self.rows)), bitorder="little"))
        return pa.StringArray.from_buffers(length, pa.py_buffer(self._offsets), self._body, chosen)


# --- values -------------------------------------------------------------------------------------------------------


def _typed(texts: pa.StringArray, kind: pa.DataType, *, is_text: bool) -> pa.Array:
    """The texts of values, which are JSON, as Arrow's JSON reader has them. Raises ``ArrowInvalid``, ``ValueError``."""
    if is_text and (pa.types.is_string(kind) or pa.types.is_timestamp(kind)):
        return texts.cast(kind)
    if is_text and pa.types.is_date(kind):
        return texts.cast(pa.timestamp("s")).cast(kind)
    if is_text:
        raise ValueError(f"texts instead of {kind}")
    is_null = pc.equal(texts, array_of(["null"], pa.string())[0])
    if is_null.true_count:
        texts = pc.if_else(is_null, pa.scalar(None, pa.string()), texts)
    if texts.null_count < len(texts) and (pa.types.is_string(kind) or pa.types.is_temporal(kind)):
        raise ValueError(f"other values instead of {kind}")
    if not pa.types.is_boolean(kind):
        return texts.cast(kind)
    is_true = pc.equal(texts, "true")
    if not _all(pc.or_(is_true, pc.equal(texts, "false"))):
        raise ValueError("other values than true and false")
    return is_true


def _matches(texts: pa.StringArray, pattern: str) -> pa.BooleanArray:
    return pc.match_substring_regex(texts, pattern)


def _all(found: pa.BooleanArray) -> bool:
    return bool(found.true_count + found.null_count == len(found))


# --- texts --------------------------------------------------------------------------------------------------------


def _quotes(literal: bytes) -> int:
    return literal.count(b'"')


@functools.lru_cache(maxsize=4)
def _repeated(literals: tuple[bytes, ...], count: int) -> list[tuple[list[int], pa.Buffer]]:
    """The numbers of literals of one length, and these literals one after the other, ``count`` times."""
    order = sorted(range(len(literals)), key=lambda number: len(literals[number]))
    groups = [[*group] for _, group in itertools.groupby(order, key=lambda number: len(literals[number]))]
    return [(group, pa.py_buffer(b"".join(literals[number] for number in group) * count)) for group in groups]


def _rows_with(count: int, bounds: Any, letters: Any, is_plain: bool) -> tuple[Numbers, Numbers]:
    """The rows with just so many quotes, and where these are; none of rows with an escape, or a control character."""
    rows = np.arange(len(bounds) - 1)
    quotes = np.flatnonzero(letters == _QUOTE)
    is_plain = is_plain and not (letters == _BACKSLASH).any()
    if is_plain and len(quotes) == count * len(rows):
        grid = quotes.reshape(len(rows), count)
        if (grid[:, 0] >= bounds[:-1]).all() and (grid[:, -1] < bounds[1:]).all():
            return rows, grid
    owners = np.searchsorted(bounds[1:], quotes, side="right")
    fit = np.bincount(owners, minlength=len(rows)) == count
    if not is_plain:
        odd = np.flatnonzero((letters < _SPACE) | (letters == _BACKSLASH))
        fit[np.searchsorted(bounds[1:], odd, side="right")] = False
    return rows[fit], quotes[fit[owners]].reshape(-1, count)


class _Builder:
    """The parts of one shape, as they are met in a text that was read with its objects as tuples of pairs."""

    def __init__(self, comma: str, colon: str) -> None:
        self._comma, self._colon = comma, colon
        self._literals = [""]
        self._values: list[tuple[Path, type]] = []
        self._objects: set[Path] = set()

    def shape(self, value: Any) -> Shape | None:
        if not isinstance(value, tuple) or not self._add(value, ()) or not self._values:
            return None
        return Shape(tuple(each.encode() for each in self._literals), tuple(self._values), frozenset(self._objects))

    def _add(self, value: Any, path: Path) -> bool:
        """Whether there is nothing in it but objects with each key once, and values."""
        if isinstance(value, list):
            return False
        if not isinstance(value, tuple):
            kind = type(value) if type(value) in (str, int) else object
            quote = '"' if kind is str else ""
            self._values.append((path, kind))
            self._literals[-1] += quote
            self._literals.append(quote)
            return True
        self._objects.add(path)
        self._literals[-1] += "{"
        for number, (name, member) in enumerate(value):
            self._literals[-1] += (self._comma if number else "") + json.dumps(name, ensure_ascii=False) + self._colon
            if not self._add(member, (*path, name)):
                return False
        self._literals[-1] += "}"
        return len({name for name, _ in value}) == len(value)
