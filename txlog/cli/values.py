"""Row values as JSON, for every command that prints rows or keys."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime
from typing import Any


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
