"""Row values as JSON or CSV, for every command that prints rows or keys."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from typing import Any

import orjson

_QUOTED = re.compile(r'[",\r\n]')


def plain(value: Any) -> Any:
    """A value in JSON types: times in ISO 8601, intervals as Spark writes them, bytes in hexadecimal, decimals as
    strings."""
    if isinstance(value, dict):
        return {str(plain(name)): plain(member) for name, member in value.items()}
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, timedelta):
        return _interval(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, str | int | float | None):
        return value
    if isinstance(value, Iterable):
        return [plain(member) for member in value]
    return str(value)


def _interval(value: timedelta) -> str:
    """``INTERVAL '2 03:00:00.5' DAY TO SECOND``, which is Spark's text in CSV too."""
    whole = value // timedelta(microseconds=1)
    seconds, fraction = divmod(abs(whole), 1_000_000)
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    day, hour = divmod(hours, 24)
    rest = f".{fraction:06}".rstrip("0") if fraction else ""
    return f"INTERVAL '{'-' * (whole < 0)}{day} {hour:02}:{minute:02}:{second:02}{rest}' DAY TO SECOND"


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
