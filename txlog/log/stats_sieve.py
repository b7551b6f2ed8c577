"""Files whose statistics show by their text alone that no row can match: they need not be read as JSON.

In: a bound predicate, and the texts of ``add.stats``. Out: the rows that are left for a closer look. The texts of one
writer differ in their values only, so their shape is learned from one of them: a regular expression that takes all of
such a text, with bounds beyond what the predicate asks for. Whatever it takes is strict JSON with each key once, so
what it says is what the rule for one file says. PROTOCOL.md, "Per-file Statistics".
"""

from __future__ import annotations

import calendar
import datetime
import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txlog.log.bounds_columns import Leaf
from txlog.log.predicates import And, Comparison, In, Or, Path, Predicate

__all__ = ["TextSieve"]

Beyond: TypeAlias = Mapping[Path, str]
"""Places in a text and patterns of values: where all of them have such values, no row can match."""

_SHAPES_MAX = 4
_TEXT_MAX = 4096

_WHOLE = r"-?(?:0|[1-9][0-9]{0,17})"  # more digits than 64 bits hold are read in more ways than one
_SCALAR = rf"(?:{_WHOLE}(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{{1,3}})?|true|false|null)"
_TEXT = r'(?:"[^"\\\x00-\x1f]*"|null)'


class TextSieve:
    """One predicate. Thread-safe: to learn the same twice, or to forget what two learned at once, does no harm."""

    def __init__(self, predicate: Predicate, leaves: Iterable[Leaf]) -> None:
        self._beyond = _beyond(predicate, {leaf.path: leaf.kind for leaf in leaves})
        self._patterns: tuple[str, ...] = ()

    def left(self, texts: pa.StringArray) -> Any:
        """The rows, ascending, of which the text alone does not show that they cannot match."""
        rows = np.arange(len(texts))
        for pattern in self._patterns:
            some = texts if len(rows) == len(texts) else texts.take(pa.array(rows))
            taken = pc.fill_null(pc.match_substring_regex(some, pattern), False)
            rows = rows[~taken.to_numpy(zero_copy_only=False)]
        return rows

    def learn(self, text: str) -> None:
        """Know texts of this shape from now on; ``text`` is one that was left, and of a file that cannot match."""
        if not self._beyond or len(self._patterns) >= _SHAPES_MAX or len(text) > _TEXT_MAX:
            return
        try:
            value = json.loads(text, object_pairs_hook=tuple)
        except (ValueError, RecursionError):
            return
        for beyond in self._beyond:
            shape = _shape(value, (), beyond)
            pattern = rf"^{shape}\z"
            if shape is not None and pc.match_substring_regex(pa.array([text]), pattern)[0].as_py():
                self._patterns = (*(known for known in self._patterns if known != pattern), pattern)
                return


def _shape(value: Any, path: Path, beyond: Beyond) -> str | None:
    """The pattern of all texts with the keys of ``value`` in its order; None where it is not of the usual kind."""
    if path in beyond:
        return beyond[path]
    needed = {place[len(path)] for place in beyond if place[: len(path)] == path}
    if not isinstance(value, tuple):
        return None if needed or isinstance(value, list) else _TEXT if isinstance(value, str) else _SCALAR
    names = [name for name, _ in value]
    shapes = [_shape(member, (*path, name), beyond) for name, member in value]
    if len(set(names)) < len(names) or not needed <= set(names) or None in shapes:
        return None
    keys = [re.escape(json.dumps(name, ensure_ascii=False)) for name in names]
    return r"\{" + ", ?".join(f"{key}: ?{shape}" for key, shape in zip(keys, shapes, strict=True)) + r"\}"


# --- what the predicate asks for ----------------------------------------------------------------------------------


def _beyond(predicate: Predicate, kinds: Mapping[Path, str]) -> list[Beyond]:
    """Conditions on a file's bounds, any one of which shows that the predicate is true of none of its rows."""
    match predicate:
        case And(left, right):
            return _beyond(left, kinds) + _beyond(right, kinds)
        case Or(left, right):
            pairs = itertools.product(_beyond(left, kinds), _beyond(right, kinds))
            both = ({**one, **other} for one, other in pairs if not one.keys() & other.keys())
            return list(itertools.islice(both, _SHAPES_MAX))
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
