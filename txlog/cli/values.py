"""Row values as JSON or CSV, for every command that prints rows or keys."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date, datetime
from typing import Any

import orjson

_QUOTED = re.compile(r'[",\r\n]')


def plain(value: Any) -> Any:
    """A value in JSON types: times in ISO 8601, bytes in hexadecimal, decimals as strings."""
    if isinstance(value, dict):
        return {str(plain(name)): plain(member) for name, member in value.items()}
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, str | int | float | None):
        return value
    if isinstance(value, Iterable):
        return [plain(member) for member in value]
    return str(value)


def csv_line(values: Iterable[Any]) -> str:
    """A line of CSV, in which null is an empty field and an empty string is one in quotes."""
    return ",".join(map(_csv_field, values))


def _csv_field(value: Any) -> str:
    shown = plain(value)
    if shown is None:
        return ""
    if isinstance(shown, str):
        text = shown
    elif isinstance(shown, bool | dict | list):
        text = orjson.dumps(shown).decode()
    else:
        text = str(shown)
    return text if text and not _QUOTED.search(text) else '"' + text.replace('"', '""') + '"'
