"""Reads statistics: the JSON of ``add.stats``, written by any engine, as typed bounds.

In: the JSON and the table's schema. Out: ``FileBounds`` with only trustworthy values. Statistics are hints:
invalid JSON, a value of the wrong type, or a bound that its writer is known to truncate wrongly is left
out and never an error. PROTOCOL.md, "Per-file Statistics".
"""

from __future__ import annotations

import datetime
import decimal
import json
import math
import struct
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias

import msgspec
import orjson

from txlog.core.format.schema import (
    DOUBLE,
    TIMESTAMP,
    TIMESTAMPS,
    DataType,
    Decimal,
    Field,
    Primitive,
    Struct,
    field_at,
    leaf_paths,
)
from txlog.core.format.statistics import LAST_CHARACTER, above_all
from txlog.core.format.wire import size_or_none
from txlog.core.util import pattern

ColumnPath: TypeAlias = tuple[str, ...]

OLD_LAST_CHARACTER = "\ufffd"
"""Older Delta releases append it to a maximum that they cut. Characters beyond the first plane sort above it, and where
the cut was inside one, the maximum has a question mark instead of its first half: such a maximum is no bound."""


class FileBounds(msgspec.Struct, frozen=True):
    """What is known about one file, by path of column names. An unknown fact has no entry.

    Every value that is neither null nor NaN lies from ``minimum`` to ``maximum``. Values are ``bool``, ``int``,
    ``float``, ``str``, ``decimal.Decimal``, ``datetime.date``, or ``datetime.datetime`` (UTC for ``timestamp``,
    naive for times without a zone), compared as Python does. A NaN in the data is covered only if the writer was
    Spark or txlog: other writers leave it out of their bounds.
    """

    num_records: int | None = None
    """Physical rows, including those that a deletion vector marks."""
    minimum: dict[ColumnPath, Any] = msgspec.field(default_factory=dict)
    maximum: dict[ColumnPath, Any] = msgspec.field(default_factory=dict)
    null_count: dict[ColumnPath, int] = msgspec.field(default_factory=dict)
    tight: bool = True
    """False if a deletion vector may have made the bounds wider than the rows that are left."""


def num_records(text: str | None) -> int | None:
    """The number of physical rows according to one ``add.stats``; None if absent. Never raises."""
    document = _load(text, exact=False) if text else None
    return size_or_none(document.get("numRecords")) if isinstance(document, Mapping) else None


class StatisticsReader:
    """Reads the statistics of many files of one table; ``columns`` limits the work to some leaf paths."""

    def __init__(self, schema: Struct, columns: Collection[ColumnPath] | None = None) -> None:
        self.schema = schema
        self._tree: _Tree = {}
        self._exact = False
        for path, data_type in leaf_paths(schema):
            if columns is None or path in columns:
                self._exact |= isinstance(data_type, Decimal)
                _plant(self._tree, path, _leaf(schema, path, data_type))

    def read(self, text: str | None) -> FileBounds:
        """The bounds in one ``add.stats`` (None: a file without). Never raises."""
        document = _load(text, exact=self._exact) if text else None
        if not isinstance(document, Mapping):
            return FileBounds()
        bounds = FileBounds(
            num_records=size_or_none(document.get("numRecords")), tight=document.get("tightBounds") is not False
        )
        _collect(document.get("minValues"), self._tree, (), bounds.minimum, _Leaf.minimum)
        _collect(document.get("maxValues"), self._tree, (), bounds.maximum, _Leaf.maximum)
        _collect(document.get("nullCount"), self._tree, (), bounds.null_count, lambda _, raw: size_or_none(raw))
        _keep_meaningful(bounds)
        return bounds


# --- JSON -----------------------------------------------------------------------------------------------------


def _load(text: str, *, exact: bool) -> Any:
    """Decoded JSON, with exact decimals if ``exact``; None for invalid JSON.

    Bare NaN and lone surrogates are accepted.
    """
    if not exact:
        try:
            return orjson.loads(text)
        except ValueError:
            pass
    try:
        return json.loads(text, parse_float=decimal.Decimal)
    except (ValueError, ArithmeticError, RecursionError):
        return None


def _collect(
    node: Any, tree: _Tree, path: ColumnPath, found: dict[ColumnPath, Any], read: Callable[[_Leaf, Any], Any]
) -> None:
    if not isinstance(node, Mapping):
        return
    for name, value in node.items():
        member = tree.get(name)
        below = (*path, name)
        if isinstance(member, dict):
            _collect(value, member, below, found, read)
        elif member is not None and value is not None:
            known = read(member, value)
            if known is not None:
                found[below] = known


def _keep_meaningful(bounds: FileBounds) -> None:
    """Drop null counts that carry no information: above the number of rows, or neither 0 nor all if bounds are not
    tight."""
    rows = bounds.num_records
    if rows is None and bounds.tight:
        return
    for path, count in list(bounds.null_count.items()):
        if (rows is not None and count > rows) or (not bounds.tight and count not in (0, rows)):
            del bounds.null_count[path]


# --- values -----------------------------------------------------------------------------------------------------


class _Leaf(msgspec.Struct, frozen=True):
    """One leaf column. ``value`` gives the typed value or None (or ValueError). ``widen`` turns a written maximum
    into a true upper bound, ``lower`` a written minimum into a true lower bound.
    """

    value: Callable[[Any], Any] | None
    widen: Callable[[Any], Any]
    lower: Callable[[Any], Any] | None = None

    def minimum(self, raw: Any) -> Any:
        return self._bound(raw, self.lower)

    def maximum(self, raw: Any) -> Any:
        return self._bound(raw, self.widen)

    def _bound(self, raw: Any, move: Callable[[Any], Any] | None) -> Any:
        if self.value is None:
            return None
        try:
            value = self.value(raw)
            return value if value is None or move is None else move(value)
        except (ValueError, ArithmeticError):
            return None


_Tree: TypeAlias = "dict[str, _Leaf | _Tree]"

_MILLISECOND = datetime.timedelta(milliseconds=1)
_HALF_PAIR = pattern("[\ud800-\udfff]")
_FRACTION = pattern(r"\.(\d+)")


def _plant(tree: _Tree, path: ColumnPath, leaf: _Leaf) -> None:
    for name in path[:-1]:
        member = tree.setdefault(name, {})
        assert isinstance(member, dict)
        tree = member
    tree[path[-1]] = leaf


def _leaf(schema: Struct, path: ColumnPath, data_type: DataType) -> _Leaf:
    if isinstance(data_type, Decimal):
        return _Leaf(_decimal, _same)
    if data_type == DOUBLE and _was_float(field_at(schema, path)):
        return _Leaf(_double, lambda value: max(value, _single(value)), lambda value: min(value, _single(value)))
    return _BY_NAME.get(data_type.name, _NO_BOUNDS) if isinstance(data_type, Primitive) else _NO_BOUNDS


def _was_float(field: Field) -> bool:
    if not field.metadata:
        return False
    from txlog.core.format.type_widening import was_float

    return was_float(field)


def _same(value: Any) -> Any:
    return value


def _boolean(raw: Any) -> bool | None:
    return raw if type(raw) is bool else None


def _integer(raw: Any) -> int | None:
    return raw if type(raw) is int else None


def _double(raw: Any) -> float | None:
    """A number, or one of the strings that writers use for infinity. NaN is not a bound."""
    if isinstance(raw, bool):
        return None
    value = float(raw) if isinstance(raw, int | float | decimal.Decimal | str) else math.nan
    return None if math.isnan(value) else value


def _float(raw: Any) -> float | None:
    """The nearest 32-bit value: Spark writes 3.14 for a float a little above it."""
    value = _double(raw)
    return None if value is None else _single(value)


def _single(value: float) -> float:
    if math.isinf(value):
        return value
    nearest: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return nearest


def _decimal(raw: Any) -> decimal.Decimal | None:
    """Exact. Some writers write decimals as strings."""
    if isinstance(raw, bool) or not isinstance(raw, int | decimal.Decimal | str):
        return None
    value = decimal.Decimal(raw)
    return value if value.is_finite() else None


def _string(raw: Any) -> str | None:
    """A string without half a surrogate pair, which cannot be ordered."""
    return raw if isinstance(raw, str) and _HALF_PAIR.search(raw) is None else None


def widened_maximum(value: str) -> str | None:
    """A string at or above all values of a file, by the maximum that a writer wrote; None if there is none.

    A writer cuts a long maximum and appends the last character of all, which is not above a value that goes on with
    that very character: then no value is known to be at most the maximum, only that all begin with at most the rest.
    """
    if value.endswith(OLD_LAST_CHARACTER):
        return None
    return above_all(value) if value.endswith(LAST_CHARACTER) else value


def _date(raw: Any) -> datetime.date | None:
    return datetime.date.fromisoformat(raw) if isinstance(raw, str) else None


def _moment(raw: Any) -> datetime.datetime | None:
    if not isinstance(raw, str):
        return None
    text = raw[:-1] + "+00:00" if raw.endswith("Z") else raw
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError:
        return datetime.datetime.fromisoformat(_FRACTION.sub(lambda m: "." + m[1][:6].ljust(6, "0"), text))


def _timestamp(raw: Any) -> datetime.datetime | None:
    """An instant. A value without a zone is in the writer's zone, which is unknown."""
    value = _moment(raw)
    return None if value is None or value.tzinfo is None else value.astimezone(datetime.timezone.utc)


def _clock(raw: Any) -> datetime.datetime | None:
    value = _moment(raw)
    return None if value is None or value.tzinfo is not None else value


def _widen_timestamp(value: datetime.datetime) -> datetime.datetime | None:
    """Writers cut timestamps down to milliseconds, maxima too (PROTOCOL.md, "Per-file Statistics")."""
    try:
        return value + _MILLISECOND
    except OverflowError:
        return None


_NO_BOUNDS = _Leaf(None, _same)
_BY_NAME = {
    "boolean": _Leaf(_boolean, _same),
    **{name: _Leaf(_integer, _same) for name in ("byte", "short", "integer", "long")},
    "float": _Leaf(_float, _same),
    "double": _Leaf(_double, _same),
    "string": _Leaf(_string, widened_maximum),
    "date": _Leaf(_date, _same),
    **{each.name: _Leaf(_timestamp if each == TIMESTAMP else _clock, _widen_timestamp) for each in TIMESTAMPS},
}
