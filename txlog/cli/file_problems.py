"""Why a text file cannot be read: Arrow's error messages, rewritten for users of the command line.

In: Arrow's message about a CSV or JSON file, and the types of the columns that are known beforehand. Out: a message
with the column's name, its type as ``txlog show`` writes it, and what to do; Arrow's own message if it is not known.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from txlog.errors import TxlogError
from txlog.protocol.schema import from_arrow, type_name
from txlog.util.arguments import described

__all__ = ["csv_problem", "json_problem"]

ColumnTypes = Mapping[str, pa.DataType]

_CSV_COLUMN = re.compile(r"In CSV column #(?P<at>\d+): (?:Row #\d+: )?(?:CSV conversion error )?(?P<why>.*)", re.DOTALL)
_CSV_VALUE = re.compile(r"to (?P<type>.+?): invalid value '(?P<value>.*)'", re.DOTALL)
_CSV_ZONE = re.compile(r"to timestamp.*: expected (?P<lack>a|no) zone offset in '(?P<value>.*?)'", re.DOTALL)
_JSON_KIND = re.compile(r"JSON parse error: Column\(/?(?P<path>.*)\) changed from (?P<was>\w+) to (?P<now>\w+) in row")
_JSON_TWICE = re.compile(r"JSON parse error: Column\(/(?P<path>.*)\) was specified twice")
_JSON_VALUE = re.compile(r"Failed to convert JSON to (?P<type>.+?)(?:, couldn't parse:|: )(?P<value>.*)", re.DOTALL)
_JSON_TIME = re.compile(
    r"Failed to parse string: '(?P<value>.*)' as a scalar of type (?P<type>.+?)(?:: expected (?P<lack>a|no) zone.*)?",
    re.DOTALL,
)
_EMPTY = "the file is empty, so its columns are unknown"


def csv_problem(arrow_says: str, names: Callable[[], Sequence[str]], types: ColumnTypes) -> str:
    """The message for a CSV file. ``names`` reads the column names from the file."""
    if arrow_says == "Empty CSV file":
        return _EMPTY
    found = _CSV_COLUMN.match(arrow_says)
    header = names() if found else ()
    if found is None or int(found["at"]) >= len(header):
        return arrow_says
    name, why = header[int(found["at"])], found["why"]
    if zone := _CSV_ZONE.match(why):
        return f"{_typed(name, types, 'timestamp')}: {_other_zone(zone)}"
    if value := _CSV_VALUE.match(why):
        text = value["value"]
        null = f"; if it stands for null: --null {shlex.quote(text)}" if _may_be_null(text, value["type"]) else ""
        return f"{_typed(name, types, value['type'])}, and {described(text)} is not{_form(value['type'])}{null}"
    if "would cause data loss" in why:
        return f"{_typed(name, types, 'decimal')}, and a value has more digits after the point: round it"
    if "invalid UTF8" in why:
        return f"column {name!r} is not UTF-8: convert the file, for example with iconv"
    return f"column {name!r}: {why}"


def json_problem(arrow_says: str, types: ColumnTypes) -> str:
    if arrow_says == "Empty JSON stream":
        return _EMPTY
    if kind := _JSON_KIND.match(arrow_says):
        return _of_another_kind(kind["path"].replace("/", "."), kind["was"], kind["now"], types)
    if twice := _JSON_TWICE.match(arrow_says):
        return f"an object has {twice['path'].replace('/', '.')!r} twice"
    if value := _JSON_VALUE.match(arrow_says) or _JSON_TIME.fullmatch(arrow_says):
        text = described(value["value"].partition(" requires ")[0])
        # Arrow does not name the column, so it may be any column of this type.
        columns = " or ".join(_typed(name, types, "") for name, type_ in types.items() if str(type_) == value["type"])
        if value.groupdict().get("lack"):
            return f"{columns or value['type']}: {_other_zone(value)}"
        return f"{columns or value['type']}, and {text} is not{_form(value['type'])}"
    return f"each line must be one JSON object: {arrow_says.removeprefix('JSON parse error: ')}"


def _of_another_kind(path: str, was: str, now: str, types: ColumnTypes) -> str:
    if not path:
        instead = ", not all of them in one array; jq -c '.[]' writes them so" if now == "array" else f", not {_a(now)}"
        return f"each line must be one JSON object{instead}"
    if path in types:
        return f"{_typed(path, types, was)}, and {_a(now)} in the file"
    return f"column {path!r} has {_a(was)} first and then {_a(now)}: use one type"


def _a(kind: str) -> str:
    return kind if kind == "null" else f"{'an' if kind[0] in 'ao' else 'a'} {kind}"


def _typed(column: str, types: ColumnTypes, inferred: str) -> str:
    try:
        known = type_name(from_arrow(pa.schema([(column, types[column])])).fields[0].type)
    except (KeyError, TxlogError):
        return f"column {column!r} is {inferred} in its first rows"
    return f"column {column!r} is {known} in the table"


def _other_zone(found: re.Match[str]) -> str:
    form = "with its zone, such as 2026-11-20T18:30:00Z"
    if found["lack"] == "no":
        form = "without a zone, such as 2026-11-20T18:30:00"
    return f"write {described(found['value'])} {form}"


def _form(arrow_type: str) -> str:
    if arrow_type.startswith("date"):
        return ": write it as 2026-11-20"
    return ": write true or false" if arrow_type == "bool" else ""


def _may_be_null(text: str, arrow_type: str) -> bool:
    return arrow_type != "bool" and bool(text) and not any(character.isdigit() for character in text)
