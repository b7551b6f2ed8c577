"""The time zone of a read by ``format("txlog")``, which Spark plans in a process that does not see the session.

In: the options of a read, and the table. Out: an `AssumedZone` if the read depends on the zone: it was planned for the
zone of the driver's machine, and each task, which sees the session, checks that before it returns a row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from pyspark import TaskContext

from txlog.core.format.schema import Struct
from txlog.core.predicates.conditions import bind_predicate
from txlog.core.util import ambient
from txlog.core.util.time_zones import FARTHEST
from txlog.core.versions.files import milliseconds
from txlog.errors import InvalidInputError
from txlog.spark.read_options import ReadOptions, StreamReadOptions
from txlog.spark.settings import TIME_ZONE, SessionSettings, zone_of_machine

__all__ = ["AssumedZone", "assumed_zone", "zone_of_read"]


class AssumedZone(msgspec.Struct, frozen=True):
    """The zone that a read was planned for, and the option that depends on it, with its value."""

    zone: str
    option: str

    def check(self) -> None:
        """Runs in a task. Raises ``InvalidInputError`` if the session has another zone, or does not show it."""
        context = TaskContext.get()
        found = None
        if context is not None:
            found = SessionSettings.seen_by(context.getLocalProperty).time_zone(None, self.zone)
        if found == self.zone:
            return
        raise InvalidInputError(
            f"option {self.option} has no time zone, and means another time in each. Spark plans this read where the"
            f" session's settings cannot be seen, so it was planned for {self.zone}, the zone of the driver's machine,"
            f" and the session's {TIME_ZONE} is {found or 'not known here'}. No row was returned. Add"
            f" .option('timeZone', '{found or 'UTC'}'), write the time with a zone, such as 2026-11-20T18:30:00Z, or"
            " use txlog.spark.read(spark, path, ...), which sees the session"
        )


def zone_of_read(options: ReadOptions | StreamReadOptions) -> str:
    """The zone in which a read is planned."""
    return options.time_zone or zone_of_machine()


def assumed_zone(
    options: ReadOptions | StreamReadOptions, moment: str | int | None, columns: Struct
) -> AssumedZone | None:
    """What tasks have to check; None if the read means the same in every zone, or says its zone.

    Args:
        options: The options of the read.
        moment: The value of ``timestampAsOf`` or ``startingTimestamp``.
        columns: The columns that the condition ``where`` may name.
    """
    if options.time_zone is not None:
        return None
    zone = zone_of_machine()
    if isinstance(moment, str) and _differ(lambda each: milliseconds(moment, each)):
        name = "timestampAsOf" if isinstance(options, ReadOptions) else "startingTimestamp"
        return AssumedZone(zone, f"{name} = {moment!r}")
    now = ambient.now()
    if options.where is not None and _differ(lambda each: bind_predicate(options.where, columns, zone=each, now=now)):
        return AssumedZone(zone, f"where = {options.where!r}")
    return None


def _differ(value_in: Callable[[str], Any]) -> bool:
    west, east = map(value_in, FARTHEST)
    return bool(west != east)
