"""Whole columns of variants, made and read.

In: texts, values, or Arrow arrays. Out: Arrow arrays of variants (structs of ``value`` and ``metadata``), texts, or
lists of values. A null is a null: SQL's, not the null of JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import pyarrow as pa

from txlog.core.format.arrow.arrays import array_of
from txlog.core.format.schema import VARIANT
from txlog.core.format.time_zones import zone_name
from txlog.core.util import invalid
from txlog.core.writing import BadRow
from txlog.errors import InvalidInputError
from txlog.variant.arrow_form import struct_of
from txlog.variant.encoding import Part, encode, names_of
from txlog.variant.json_batches import Texts, variants_of
from txlog.variant.json_text import text_of
from txlog.variant.type_support import SUPPORT


def parse_json(texts: Texts) -> pa.StructArray:
    """Variants of texts of JSON, as Spark's ``parse_json`` makes them.

    Numbers are exact: integers as narrow as they can be, then decimals of up to 38 digits; one with an exponent, or
    with more digits, is a double.

    Args:
        texts: Strings; None is a null.

    Returns:
        A column of as many variants.

    Raises:
        InvalidInputError: Names the first text that is not JSON, or whose object has a name twice.
    """
    return variants_of(_values(texts), _refusal("text of JSON"))


def try_parse_json(texts: Texts) -> pa.StructArray:
    """The same, with null for a text that `parse_json` refuses.

    Args:
        texts: Strings; None is a null.

    Returns:
        A column of as many variants.

    Raises:
        InvalidInputError: This is one text, and not a list of them.
    """
    return variants_of(_values(texts), lambda row, error: None)


def from_python(values: Iterable[Any]) -> pa.StructArray:
    """Variants of Python values: numbers, strings, bytes, booleans, dates, times, UUIDs, and lists and dicts of them.

    Args:
        values: One for each row. None is a null; in a list or dict, it is the null of JSON.

    Returns:
        A column of as many variants.

    Raises:
        InvalidInputError: Names the first value that no variant holds.
    """
    given = _values(values)
    refused = _refusal("value")
    found: list[tuple[bytes, bytes] | None] = []
    for row, value in enumerate(given.to_pylist() if isinstance(given, (pa.Array, pa.ChunkedArray)) else given):
        try:
            found.append(None if value is None else encode(value))
        except (ValueError, TypeError) as error:
            refused(row, error)
    return struct_of(found)


def to_python(variants: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values, as `from_python` takes them. A null of SQL and one of JSON are both None.

    Times that Python's ``datetime`` does not have are `Timestamp` or `Nanoseconds`.

    Args:
        variants: A column as a table returns it.

    Returns:
        A value for each row.

    Raises:
        InvalidInputError: It is no column of variants, or one of them is damaged.
    """
    return _read(variants, lambda value: value)


def to_json(variants: pa.Array | pa.ChunkedArray, *, time_zone: str = "UTC") -> pa.StringArray:
    """The texts of JSON, as Spark's ``to_json`` writes them.

    Args:
        variants: A column as a table returns it.
        time_zone: Instants are written as clocks there show them, as in Spark's session.

    Returns:
        A text for each row.

    Raises:
        InvalidInputError: It is no column of variants, or one of them is damaged.
    """
    zone = zone_name(time_zone)
    return array_of(_read(variants, lambda value: text_of(value, zone)), pa.string())


def _refusal(what: str) -> Callable[[int, Exception], NoReturn]:
    def refused(row: int, error: Exception) -> NoReturn:
        raise InvalidInputError(f"row {row} has no {what} for a variant: {error}") from None

    return refused


def _values(values: Any) -> Any:
    if isinstance(values, (str, bytes)):
        raise invalid("values", values, "a list or an Arrow array of them: [value]")
    return values


def _read(variants: Any, read: Callable[[Any], Any]) -> list[Any]:
    if isinstance(variants, pa.ChunkedArray):
        return [value for chunk in variants.chunks for value in _read(chunk, read)]
    convert = SUPPORT.conversion(variants.type, "variants") if isinstance(variants, pa.Array) else None
    if convert is None:
        given = variants.type if isinstance(variants, pa.Array) else type(variants).__name__
        raise InvalidInputError(f"variants are structs of the binaries value and metadata, and this column has {given}")
    if variants.type != VARIANT.facts.arrow:  # texts of JSON, or shredded variants
        try:
            variants = convert(variants)
        except BadRow as error:
            raise InvalidInputError(f"row {error.row} {error.problem}") from None
    names: dict[bytes, tuple[str, ...]] = {}
    found: list[Any] = []
    for row, each in enumerate(variants.to_pylist()):
        try:
            if each is None:
                found.append(None)
                continue
            metadata = each["metadata"]
            if metadata not in names:
                names[metadata] = names_of(metadata)
            found.append(read(Part(names[metadata], each["value"]).python()))
        except ValueError as error:
            raise InvalidInputError(f"row {row} is not a variant: {error}") from None
    return found
