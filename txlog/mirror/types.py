"""PostgreSQL's types in Delta: which type a column gets, what differs, and values from PostgreSQL's texts. Pure.

In: types as the database's catalog has them, and values as texts, which the snapshot and the stream have in common.
Out: Arrow types and arrays. A type that Delta lacks becomes a string with PostgreSQL's own text; `ColumnType.differs`
says so. A value that the type in Delta lacks, such as the date ``infinity``, is refused, never changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from txlog.errors import InvalidInputError


class SourceType(NamedTuple):
    """A type of the database. ``base`` and ``base_modifier``: what a domain restricts; ``element``: of an array."""

    schema: str
    name: str
    base: SourceType | None = None
    base_modifier: int = -1
    element: SourceType | None = None


class ColumnType(NamedTuple):
    """What a column is in Delta. ``source``: its type in PostgreSQL's words; ``differs``: how the two differ, or None.

    ``element``: of an array.
    """

    source: str
    arrow: pa.DataType
    differs: str | None = None
    element: ColumnType | None = None

    @property
    def delta(self) -> str:
        """The type by which a change of it is noticed: two types with the same one have the same values."""
        return str(self.arrow)


def column_type_of(arrow: pa.DataType) -> ColumnType:
    """The type of a column of Delta, of which nothing else is known."""
    element = column_type_of(arrow.value_type) if hasattr(arrow, "value_type") else None
    return ColumnType(str(arrow), arrow, element=element)


_EXACT = {
    "bool": pa.bool_(),
    "int2": pa.int16(),
    "int4": pa.int32(),
    "int8": pa.int64(),
    "oid": pa.int64(),
    "float4": pa.float32(),
    "float8": pa.float64(),
    "text": pa.string(),
    "varchar": pa.string(),
    "bpchar": pa.string(),
    "name": pa.string(),
    "bytea": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
}
_DIGITS_MAX = 38
_HEADER = 4
"""By how much a type's modifier is greater than what it says."""


def column_type(given: SourceType, modifier: int, *, as_text: bool = False) -> ColumnType:
    """The type that a column gets; with ``as_text`` always a string."""
    while given.base is not None:
        given, modifier = given.base, given.base_modifier if modifier < 0 else modifier
    name = given.name if given.schema == "pg_catalog" else f"{given.schema}.{given.name}"
    if as_text:
        return ColumnType(name, pa.string(), "text, as asked for")
    if given.element is not None:
        element = column_type(given.element, modifier)
        differs = f"an array of {element.differs}" if element.differs else None
        return ColumnType(f"{element.source}[]", pa.list_(element.arrow), differs, element)
    if name == "numeric":
        return _numeric(modifier)
    exact = _EXACT.get(name)
    if exact is not None:
        return ColumnType(name, exact)
    return ColumnType(name, pa.string(), "text: Delta has no such type")


def _numeric(modifier: int) -> ColumnType:
    if modifier < _HEADER:
        return ColumnType("numeric", pa.string(), "text: decimals of Delta have a fixed scale")
    precision = (modifier - _HEADER) >> 16 & 0xFFFF
    scale = ((modifier - _HEADER & 0x7FF) ^ 0x400) - 0x400  # a negative one rounds before the point
    digits = max(precision, scale) if scale >= 0 else precision - scale
    name = f"numeric({precision},{scale})"
    if digits > _DIGITS_MAX:
        return ColumnType(name, pa.string(), f"text: decimals of Delta have at most {_DIGITS_MAX} digits")
    return ColumnType(name, pa.decimal128(digits, max(scale, 0)))


def values_of(texts: pa.Array, of: ColumnType) -> pa.Array:
    """The values of PostgreSQL's texts. Raises InvalidInputError with the first text that the type does not have."""
    try:
        return _values(texts, of)
    except (pa.ArrowInvalid, ValueError):
        for text in texts.to_pylist():
            try:
                _values(pa.array([text], pa.string()), of)
            except (pa.ArrowInvalid, ValueError):
                shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
                raise InvalidInputError(f"{of.source} {shown!r} is not a value of {_name(of)} in Delta") from None
        raise


_SHOWN = 60


def _name(of: ColumnType) -> str:
    return f"an array of {_name(of.element)}" if of.element else str(of.arrow)


def _values(texts: pa.Array, of: ColumnType) -> pa.Array:
    arrow = of.arrow
    if of.element is not None:
        return _arrays(texts, of.element)
    if pa.types.is_string(arrow):
        return texts
    if pa.types.is_boolean(arrow):
        return pc.equal(texts, "t")
    if pa.types.is_binary(arrow):
        return pa.array([None if text is None else _bytes(text) for text in texts.to_pylist()], pa.binary())
    if pa.types.is_timestamp(arrow) and arrow.tz is not None:
        naive = pc.cast(pc.replace_substring_regex(texts, r"\+00$", ""), pa.timestamp("us"))
        return pc.cast(pc.cast(naive, pa.int64()), arrow)
    return pc.cast(texts, arrow)


def _bytes(text: str) -> bytes:
    if not text.startswith("\\x"):
        raise ValueError("not the form of binary values that the session asked for")
    return bytes.fromhex(text[2:])


def _arrays(texts: pa.Array, element: ColumnType) -> pa.Array:
    """Arrays of one dimension, of any length."""
    offsets: list[int | None] = []
    found: list[str | None] = []
    for text in texts.to_pylist():
        offsets.append(None if text is None else len(found))
        if text is not None:
            found += elements(text)
    offsets.append(len(found))
    values = _values(pa.array(found, pa.string()), element)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)


def elements(text: str) -> Sequence[str | None]:
    """The elements of ``{1,NULL,"a \\"b\\""}``. PostgreSQL documentation, "Array Input and Output Syntax"."""
    if not (text.startswith("{") and text.endswith("}")):
        raise ValueError("an array whose first index is not 1, which Delta's arrays cannot have")
    found: list[str | None] = []
    at, end = 1, len(text) - 1
    while at < end:
        if text[at] == "{":
            raise ValueError("an array of several dimensions")
        if text[at] == '"':
            value, at = _quoted(text, at + 1)
            found.append(value)
        else:
            comma = text.find(",", at, end)
            stop = end if comma < 0 else comma
            word = text[at:stop]
            found.append(None if word == "NULL" else word)
            at = stop
        at += 1  # the comma
    return found


def _quoted(text: str, at: int) -> tuple[str, int]:
    """The text from behind a quote to the next one, and the place behind that."""
    parts = []
    while text[at] != '"':
        if text[at] == "\\":
            at += 1
        parts.append(text[at])
        at += 1
    return "".join(parts), at + 1
