"""The time zone in which texts are read, and times of day in it.

In: the zone of a table's handle, or of a Spark session. Out: `current_zone`, which the functions of ``build`` and
``_time_functions`` ask while a text is read; and Arrow kernels between instants and what clocks show. Bound expressions
name their zone themselves, so it counts only while they are made.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import pyarrow as pa

from txlog.core.format.time_zones import clock_times, instants
from txlog.core.predicates.terms.arguments import as_arrays, as_given
from txlog.core.util import UTC

__all__ = ["UTC", "as_clock", "as_instant", "current_zone", "read_in"]

_zone: ContextVar[str] = ContextVar("zone", default=UTC)
_CLOCK, _INSTANT = pa.timestamp("us"), pa.timestamp("us", "UTC")


def current_zone() -> str:
    """The zone of the times without one in the text that is being read."""
    return _zone.get()


@contextlib.contextmanager
def read_in(zone: str) -> Iterator[None]:
    """Read texts in this zone meanwhile. Its name is checked (`time_zones.zone_name`)."""
    token = _zone.set(zone)
    try:
        yield
    finally:
        _zone.reset(token)


def as_clock(values: Any, zone: str) -> Any:
    """Timestamps as what a clock in the zone shows. Raises ``OverflowError``."""
    return _computed(_CLOCK, lambda given: clock_times(given, zone), values)


def as_instant(values: Any, zone: str, near: Any = None, *, starts_days: bool = False) -> Any:
    """Times of a clock in the zone as timestamps; arguments and errors are those of `time_zones.instants`."""
    if near is None:
        return _computed(_INSTANT, lambda given: instants(given, zone, starts_days=starts_days), values)
    return _computed(_INSTANT, lambda given, beside: instants(given, zone, beside), values, near)


def _computed(kind: pa.DataType, compute: Any, *columns: Any) -> Any:
    """``compute`` of the microseconds in each column; a null in the first stays null."""
    arrays = as_arrays(columns)
    is_null = arrays[0].is_null().to_numpy(zero_copy_only=False) if arrays[0].null_count else None
    micros = [each.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False) for each in arrays]
    return as_given(columns, pa.array(compute(*micros), pa.int64(), mask=is_null).cast(kind))
