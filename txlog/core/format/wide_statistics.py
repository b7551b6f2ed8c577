"""A data file's statistics after a vector deleted some of its rows: true bounds that are marked as wide.

In: the JSON text of ``add.stats`` as it was, and how many rows the file has. Out: the text for the new ``add``. No row
is read: bounds stay as they are, and a null count now means only "none", "all" or "some".
PROTOCOL.md, "Per-file Statistics" (``tightBounds``).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any

import orjson

_INT64_MAX = 2**63 - 1


def wide_statistics(stats: str | None, *, num_records: int, dead_before: int = 0) -> str:
    """The statistics for an ``add`` whose deletion vector grows.

    Args:
        stats: The JSON text of the ``add`` before; None, or text that is not a JSON object, counts as no statistics.
        num_records: The number of all rows of the file, dead ones included.
        dead_before: The number of rows that the earlier vector marked, which tight null counts leave out.
    """
    if stats is not None and _are_wide(stats, num_records):
        return stats
    document = _load(stats)
    counts = document.get("nullCount")
    if isinstance(counts, Mapping):
        is_tight = document.get("tightBounds") is not False
        live_before = num_records - dead_before
        document["nullCount"] = _null_counts(counts, live_before if is_tight else num_records, num_records)
    document["numRecords"] = num_records
    document["tightBounds"] = False
    try:
        return orjson.dumps(document).decode()
    except TypeError:  # a string that is not valid UTF-8: its bounds are useless
        return orjson.dumps({"numRecords": num_records, "tightBounds": False}).decode()


@functools.lru_cache(maxsize=256)
def _are_wide(stats: str, num_records: int) -> bool:
    """Whether an earlier vector already made them wide; a fast parser decides. Small changes in a row ask again and
    again about the same files."""
    try:
        found = orjson.loads(stats)
    except ValueError:
        return False
    return isinstance(found, dict) and found.get("tightBounds") is False and found.get("numRecords") == num_records


def _null_counts(counts: Mapping[str, Any], all_null: int, num_records: int) -> dict[str, Any]:
    """0 stays 0, and the count of all rows means "all". A column without a count stays without one."""
    return {
        name: _null_counts(value, all_null, num_records)
        if isinstance(value, Mapping)
        else (num_records if value == all_null and value != 0 else value)
        for name, value in counts.items()
    }


def _load(stats: str | None) -> dict[str, Any]:
    """Numbers other than small integers keep their digits: a rounded bound could exclude a row."""
    if stats is None:
        return {}
    try:
        found = json.loads(stats, parse_float=_as_written, parse_int=_integer, parse_constant=_as_written)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _as_written(text: str) -> Any:
    return orjson.Fragment(text)


def _integer(text: str) -> Any:
    return int(text) if len(text) < 19 and abs(int(text)) <= _INT64_MAX else _as_written(text)
