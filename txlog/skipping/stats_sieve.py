"""Files whose statistics show by their text alone that no row can match: they need not be read as JSON.

In: a bound predicate, and the texts of ``add.stats``. Out: the rows that are left for a closer look. One regular
expression takes texts with bounds beyond what the predicate asks for, and reads no further than the last of these
bounds: most of a text stands behind them. So of a text that is JSON and names no member of an object twice it says
what the rule for one file says; of others, about which RFC 8259 promises nothing, what they say first.
PROTOCOL.md, "Per-file Statistics".
"""

from __future__ import annotations

import calendar
import datetime
import itertools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txlog.arrow.arrays import flags_of
from txlog.expressions.predicates import And, Comparison, In, Or, Path, Predicate
from txlog.skipping.bounds_columns import Leaf

__all__ = ["TextSieve"]

Beyond: TypeAlias = Mapping[Path, str]
"""Places in a text and patterns of values: where all of them have such values, no row can match."""

_CONDITIONS_MAX = 4
_PLACES_MAX = 4
_NAME = re.compile(r'[^"\\/\x00-\x1f\ud800-\udfff]{0,64}')  # never written with an escape but by its number
_TEXT_MAX = 4096  # a number of so many digits is one for every reader
_LAST = ord("}")
_DEPTH_MAX = 3


class TextSieve:
    """One predicate on columns that are nested at most ``depth`` deep, 1 for those of the table itself.

    Thread-safe: it never changes.
    """

    def __init__(self, predicate: Predicate, leaves: Iterable[Leaf], depth: int = 1) -> None:
        order = {leaf.path: number for number, leaf in enumerate(leaves)}
        beyond = _beyond(predicate, {leaf.path: leaf.kind for leaf in leaves})[:_CONDITIONS_MAX]
        shapes = [
            _object(dict(sorted(each.items(), key=lambda item: _place(item[0], order))), min(depth, _DEPTH_MAX))
            for each in beyond
            if len(each) <= _PLACES_MAX and all(_NAME.fullmatch(name) for place in each for name in place)
        ]
        self._pattern = rf"^(?:{'|'.join(shapes)})" if shapes else None

    @property
    def is_of_use(self) -> bool:
        """Whether it may drop a row at all."""
        return self._pattern is not None

    def left(self, texts: pa.StringArray) -> Any:
        """The rows, ascending, of which the text alone does not show that they cannot match."""
        if self._pattern is None:
            return np.arange(len(texts))
        taken = flags_of(pc.match_substring_regex(texts, self._pattern))
        if taken.any():
            offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
            letters = np.frombuffer(texts.buffers()[2], np.uint8)
            taken &= (np.diff(offsets) <= _TEXT_MAX) & (letters[offsets[1:] - 1] == _LAST)  # it was not cut off
        return np.flatnonzero(~taken)


def _place(place: Path, order: Mapping[Path, int]) -> tuple[bool, int]:
    """Where writers put it: minima before maxima, columns as the schema has them."""
    return place[0] == "maxValues", order[place[1:]]


# --- patterns of texts --------------------------------------------------------------------------------------------

_ESCAPE = r'\\["\\/bfnrt]'
_LETTER = rf'(?:[^"\\\x00-\x1f]|{_ESCAPE})'
_SCALAR = r"(?:-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?|true|false|null)"


def _object(beyond: Beyond, depth: int, *, is_whole: bool = False) -> str:
    """Objects that have all of these places, in this order, and between them any others; as far as the last of these
    places unless ``is_whole``."""
    names = list(dict.fromkeys(place[0] for place in beyond))
    other = f'"{_unlike(names)}": ?{_any_value(depth)}'
    members = []
    for name in names:
        reads_on = is_whole or name != names[-1]
        within = {place[1:]: pattern for place, pattern in beyond.items() if place[0] == name}
        if () in within:
            shape = within[()] + ("" if reads_on else "[,}]")
        else:
            shape = _object(within, max(0, depth - 1), is_whole=reads_on)
        members.append(rf'"{re.escape(name)}": ?{shape}' + (rf"(?:, ?{other})*" if reads_on else ""))
    return rf"\{{(?:{other}, ?)*{', ?'.join(members)}" + (r"\}" if is_whole else "")


def _any_value(depth: int) -> str:
    """Any but arrays: a scalar, or an object nested at most ``depth`` deep."""
    shapes = [f'"{_LETTER}*"', _SCALAR]
    if depth:
        member = f'"{_LETTER}*": ?{_any_value(depth - 1)}'
        shapes.append(rf"\{{(?:{member}(?:, ?{member})*)?\}}")
    return f"(?:{'|'.join(shapes)})"


def _unlike(names: Collection[str]) -> str:
    """Texts that are none of these, with no escape of these names' letters."""
    firsts = sorted({name[0] for name in names if name})
    known = "".join(rf"\x{{{ord(first):x}}}" for first in firsts)
    shapes = [rf'(?:[^"\\\x00-\x1f{known}]|{_ESCAPE}){_LETTER}*']
    for first in firsts:
        rest = _unlike([name[1:] for name in names if name[:1] == first])
        shapes.append(rf"\x{{{ord(first):x}}}{rest}")
    return f"(?:{'|'.join(shapes)}){'' if '' in names else '?'}"


# --- what the predicate asks for ----------------------------------------------------------------------------------


def _beyond(predicate: Predicate, kinds: Mapping[Path, str]) -> list[Beyond]:
    """Conditions on a file's bounds, any one of which shows that the predicate is true of none of its rows."""
    match predicate:
        case And(left, right):
            return _beyond(left, kinds) + _beyond(right, kinds)
        case Or(left, right):
            pairs = itertools.product(_beyond(left, kinds), _beyond(right, kinds))
            both = ({**one, **other} for one, other in pairs if not one.keys() & other.keys())
            return list(itertools.islice(both, _CONDITIONS_MAX))
        case Comparison(path, operator, value):
            return _outside(path, operator, [value], kinds.get(path, ""))
        case In(path, values):
            return _outside(path, "=", values, kinds.get(path, ""))
    return []


def _outside(path: Path, operator: str, values: Sequence[Any], kind: str) -> list[Beyond]:
    if kind not in (*_INTEGERS, *_DAY_ENDINGS) or not values:
        return []
    first, last = max(values), min(values)  # all rows are out where the minimum is past the one, or the maximum before
    if _DAY_ENDINGS.get(kind):
        # By days, those of the values and their neighbours left out: maxima were cut to milliseconds.
        first, last = first // _DAY_US + 1, (last - _CUT_US) // _DAY_US - 1
    else:
        first, last = first + (operator != "<"), last - (operator != ">")
    found: list[Beyond] = []
    if operator in ("<", "<=", "="):
        found += [{("minValues", *path): pattern} for pattern in _values(kind, first, up=True)]
    if operator in (">", ">=", "="):
        found += [{("maxValues", *path): pattern} for pattern in _values(kind, last, up=False)]
    return found


# --- patterns of values -------------------------------------------------------------------------------------------

_DIGITS_MAX = 18
_EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()
_DAY_US = 86_400_000_000
_CUT_US = 2_000

_INTEGERS = ("byte", "short", "integer", "long")
_CLOCK = r"T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?"
_DAY_ENDINGS = {"date": "", "timestamp": f"{_CLOCK}Z", "timestamp_ntz": _CLOCK}


def _values(kind: str, bound: int, *, up: bool) -> list[str]:
    """The texts of values from ``bound`` on, up or down, as one pattern; none where there is none to be had."""
    if kind in _INTEGERS:
        return _integers(bound, up=up)
    return [f'"{pattern}{_DAY_ENDINGS[kind]}"' for pattern in _days(bound, up=up)]


def _any_of(patterns: Iterable[str]) -> list[str]:
    """One pattern; none where there is nothing to choose from."""
    found = "|".join(patterns)
    return [f"(?:{found})"] if found else []


def _same_width(digits: str, *, up: bool) -> list[str]:
    """Numbers of as many digits, without a leading zero: ``digits`` itself and those above (below) it."""
    patterns = [digits]
    for at, digit in enumerate(digits):
        low, high = (int(digit) + 1, 9) if up else (0 if at else 1, int(digit) - 1)
        if low <= high:
            patterns.append(f"{digits[:at]}[{low}-{high}][0-9]{{{len(digits) - at - 1}}}")
    return patterns


def _magnitudes(bound: int, *, up: bool) -> list[str]:
    """Numbers from ``bound``, which is positive, on up; or from 1 up to it."""
    digits = str(bound)
    patterns = _same_width(digits, up=up)
    if up and len(digits) < _DIGITS_MAX:
        patterns.append(f"[1-9][0-9]{{{len(digits)},{_DIGITS_MAX - 1}}}")
    if not up and len(digits) > 1:
        patterns.append(f"[1-9][0-9]{{0,{len(digits) - 2}}}")
    return patterns


def _integers(bound: int, *, up: bool) -> list[str]:
    """Integers from ``bound`` on, up or down."""
    if len(str(abs(bound))) > _DIGITS_MAX:
        return []
    ahead, behind = ("", "-") if up else ("-", "")
    magnitude = bound if up else -bound
    if magnitude > 0:
        return _any_of(ahead + pattern for pattern in _magnitudes(magnitude, up=True))
    patterns = ["0", f"{ahead}[1-9][0-9]{{0,{_DIGITS_MAX - 1}}}"]
    if magnitude < 0:
        patterns += [behind + pattern for pattern in _magnitudes(-magnitude, up=False)]
    return _any_of(patterns)


def _days(day: int, *, up: bool) -> list[str]:
    """Dates from a day since the epoch on, up or down, in the years 1000 to 9999."""
    ordinal = day + _EPOCH_DAY
    if not datetime.date(1001, 1, 1).toordinal() <= ordinal < datetime.date(9999, 1, 1).toordinal():
        return []
    date = datetime.date.fromordinal(ordinal)
    other_years = _same_width(f"{date.year + (1 if up else -1):04}", up=up)
    patterns = [f"(?:{'|'.join(other_years)})-(?:{'|'.join(_month(2023, month) for month in range(1, 13))})"]
    months = range(date.month + 1, 13) if up else range(1, date.month)
    patterns += [f"{date.year:04}-{_month(date.year, month)}" for month in months]
    patterns.append(f"{date.year:04}-{_month(date.year, date.month, date.day, up=up)}")
    return _any_of(patterns)


def _month(year: int, month: int, day: int | None = None, *, up: bool = True) -> str:
    """The days of a month, all or from one on."""
    last = calendar.monthrange(year, month)[1]
    days = range(1, last + 1) if day is None else range(day, last + 1) if up else range(1, day + 1)
    return f"{month:02}-(?:{'|'.join(f'{each:02}' for each in days)})"
