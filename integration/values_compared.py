"""What an engine says of the texts of query_texts.py, and how two answers differ.

An `Answer` has the type of the values (Delta's name), the names of the columns of a query, and for each row, by its
``id`` or ``g``, the value as JSON; rows for which the engine raises are in ``raises``.
"""

from __future__ import annotations

import datetime
import decimal
import gzip
import json
import math
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from txlog.core.format.schema import from_arrow, type_name
from txlog.errors import InvalidInputError

__all__ = ["RECORDED", "Answer", "answer_of", "difference", "read_recorded"]

NEAR = 1e-9
RECORDED = Path(__file__).parent.parent / "tests" / "statements" / "spark_values.jsonl.gz"


class Answer(msgspec.Struct, frozen=True):
    """``is_refused``: the text is no query of the engine. ``why`` says what it raised."""

    kind: str
    text: str
    type: str = ""
    names: tuple[str, ...] = ()
    values: dict[str, str] = {}
    raises: tuple[str, ...] = ()
    is_refused: bool = False
    why: str = ""


def answer_of(kind: str, text: str, rows: pa.Table, raises: tuple[str, ...] = ()) -> Answer:
    """The answer that these rows are: with a key and a value each, or those of a whole query."""
    types = [_type_of(field.type) for field in rows.schema]
    columns = [[_shown(value) for value in _python(column)] for column in rows.columns]
    if kind == "query":
        values = {str(at): json.dumps(row) for at, row in enumerate(zip(*columns, strict=True))}
        return Answer(kind, text, ", ".join(types), tuple(rows.column_names), values)
    values = {str(key): json.dumps(value) for key, value in zip(*columns, strict=True)}
    return Answer(kind, text, types[1], (rows.column_names[1],), values, raises)


def _type_of(kind: pa.DataType) -> str:
    """Delta's name of a type, or Arrow's for one that Delta lacks."""
    try:
        return type_name(from_arrow(pa.schema([pa.field("c", kind)])).fields[0].type)
    except InvalidInputError:
        return str(kind)


def _python(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    return list(column.to_pylist())


def _shown(value: Any) -> Any:
    match value:
        case float():
            return f"float {value!r}"
        case decimal.Decimal() | datetime.date() | datetime.datetime() | datetime.timedelta():
            return str(value)
        case bytes():
            return value.hex()
        case list() | tuple():
            return [_shown(each) for each in value]
        case dict():
            return {name: _shown(each) for name, each in value.items()}
    return value


def difference(expected: Answer, found: Answer) -> str:
    """How an answer differs from Spark's: "" if it is right, "refused" or "raises" if it says so itself, "digit" if
    floats differ in their last digits, and otherwise what nobody would be told of: "value", "type", "name" or
    "accepted"."""
    if found.is_refused:
        return "" if expected.is_refused else "refused"
    if expected.is_refused:
        return "" if found.raises and not found.values else "accepted"
    if not found.values and found.raises:
        return "" if expected.raises and not expected.values else "refused"
    kinds = set()
    for key, value in found.values.items():
        if key in expected.values:
            kinds.add(_compared(json.loads(expected.values[key]), json.loads(value)))
        else:
            kinds.add("value")
    missing = set(expected.values) - set(found.values) - set(found.raises)
    if missing or "value" in kinds:
        return "value"
    if expected.type and found.type != expected.type:
        return "type"
    if expected.names and found.names != expected.names:
        return "name"
    if "digit" in kinds:
        return "digit"
    return "raises" if set(found.raises) - set(expected.raises) else ""


def _compared(one: Any, other: Any) -> str:
    if one == other:
        return ""
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return max(
            (_compared(*each) for each in zip(one, other, strict=True)), key=["", "digit", "value"].index, default=""
        )
    if not (
        isinstance(one, str) and isinstance(other, str) and one.startswith("float ") and other.startswith("float ")
    ):
        return "value"
    left, right = float(one[6:]), float(other[6:])
    if left == right:
        return "digit"
    return "digit" if math.isclose(left, right, rel_tol=NEAR) else "value"


def read_recorded() -> list[Answer]:
    """Spark's answers."""
    with gzip.open(RECORDED) as file:
        return [msgspec.json.decode(line, type=Answer) for line in file]
