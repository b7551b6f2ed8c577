"""Texts of dates and times in all forms in which Spark casts them, written in the one form that Arrow reads.

In: an array of texts without space around them, of which some have Arrow's form already. Out: the same, with the others
rewritten. A text that is no value, or of a year that is not from 0 to 9999, stays as it is.
"""

from __future__ import annotations

import datetime
import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from txlog.core.format.schema import DATE, TIMESTAMP, DataType
from txlog.core.format.time_zones import zone_name
from txlog.core.predicates.terms.zones import as_instant
from txlog.errors import InvalidInputError

_DATE = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.DOTALL | re.ASCII)
_TIME = re.compile(
    r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T](\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?(\D.*)?)?)?)?)?)?",
    re.DOTALL | re.ASCII,
)
_SHORT_HOUR, _SHORT_MINUTE = re.compile(r"([+-])(\d):", re.ASCII), re.compile(r"([+-]\d\d):(\d)$", re.ASCII)


def in_one_form(texts: Any, target: DataType, form: str) -> Any:
    """The texts; those that do not match the pattern ``form`` are rewritten, if they are values of the type."""
    fits = pc.match_substring_regex(texts, form)
    if isinstance(texts, pa.Scalar):
        return texts if fits.as_py() is not False else pa.scalar(_rewritten(texts.as_py(), target), pa.string())
    others = pc.indices_nonzero(pc.invert(pc.fill_null(fits, True)))
    if not len(others):
        return texts
    known: dict[str, str] = {}
    found = [
        known[text] if text in known else known.setdefault(text, _rewritten(text, target))
        for text in texts.take(others).to_pylist()
    ]
    mask = pc.invert(pc.fill_null(fits, True))
    return pc.replace_with_mask(texts, mask, pa.array(found, texts.type))


def _rewritten(text: str, target: DataType) -> str:
    match = (_DATE if target == DATE else _TIME).fullmatch(text)
    if match is None:
        return text
    year, month, day = match[1], int(match[2] or 1), int(match[3] or 1)
    found = f"{year}-{month:02}-{day:02}"
    if target == DATE:
        return found
    found += f" {int(match[4] or 0):02}:{int(match[5] or 0):02}:{int(match[6] or 0):02}"
    fraction, zone = (match[7] or "")[:6], match[8]
    found += f".{fraction}" if fraction else ""
    if zone is None:
        return found
    try:
        return _in_utc(found, zone.strip()) if target == TIMESTAMP else _checked(found, zone.strip())
    except (InvalidInputError, ValueError):
        return text


def _in_utc(clock: str, zone: str) -> str:
    moment = datetime.datetime.fromisoformat(_filled(clock))
    # pa.scalar of a Python value would import pandas
    clocks = pa.array([moment], pa.timestamp("us"))
    found = as_instant(clocks, _zone(zone))[0].cast(pa.timestamp("us"))
    return str(found.cast(pa.string()).as_py()) + "Z"


def _checked(clock: str, zone: str) -> str:
    """The clock as it is: a time without a zone leaves out the zone, which must be one."""
    _zone(zone)
    return clock


def _zone(name: str) -> str:
    return zone_name(_SHORT_MINUTE.sub(r"\1:0\2", _SHORT_HOUR.sub(r"\g<1>0\2:", name)))


def _filled(clock: str) -> str:
    """With as many digits of the fraction as Python's oldest versions read."""
    second, point, fraction = clock.partition(".")
    return second + point + fraction.ljust(6, "0") if point else second
