"""The options of a Spark read: every name txlog knows, its value, and what is refused by name.

In: the options as Spark passes them (keys in lower case). Out: a `ReadOptions`, complete and checked; nothing is ever
ignored. Names that Delta has keep Delta's meaning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from txlog.errors import InvalidInputError
from txlog.spark.options import Given, column_list, table_path, text_value, whole_count

__all__ = ["ReadOptions", "parse_read_options"]

KNOWN = ("path", "versionAsOf", "timestampAsOf", "columns", "where")
"""Options in their documented spelling. ``storage.<key>`` is accepted too."""

_NO_PATH = (
    "read with .load(path) or .option('path', path); in SQL, CREATE TEMPORARY VIEW v USING txlog OPTIONS (path '...')"
)


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """A read's options, typed; None means: not given. ``storage_options`` may hold secrets: it is not in the repr."""

    path: str
    version: int | None = None
    timestamp: str | int | None = None
    columns: tuple[str, ...] | None = None
    where: str | None = None
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)


def parse_read_options(options: Mapping[str, str]) -> ReadOptions:
    """Check and convert the options of ``spark.read``; keys in any case.

    Raises:
        InvalidInputError: An unknown name (with the nearest known one), a bad value, or no path.
    """
    given = Given({key.lower(): value for key, value in options.items()})
    parsed = ReadOptions(
        path=table_path(given.take("path", str), _NO_PATH),
        version=given.take("versionAsOf", whole_count),
        timestamp=_time(given.take("timestampAsOf", text_value)),
        columns=given.take("columns", column_list),
        where=given.take("where", text_value),
        storage_options=given.take_prefix("storage."),
    )
    given.refuse_rest(*KNOWN, "storage.<key>")
    if parsed.version is not None and parsed.timestamp is not None:
        raise InvalidInputError("options versionAsOf and timestampAsOf both name a version: set only one")
    return parsed


def _time(text: str | None) -> str | int | None:
    """A time as `Table.snapshot` takes it; a number is in ms since the epoch."""
    return int(text) if text is not None and re.fullmatch(r"\d{1,18}", text) else text
