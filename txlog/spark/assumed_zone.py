"""The time zone of a read by ``format("txlog")``, which Spark plans in a process that does not see the session.

In: the options of a read, and the table. Out: an `AssumedZone` if the read depends on the zone: it was planned for the
zone of the driver's machine, and each task, which sees the session, checks that before it returns a row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from pyspark import TaskContext

from txlog.core import ambient
from txlog.core.format.schema import Struct
from txlog.core.format.time_zones import FARTHEST
from txlog.core.predicates import bind_predicate
from txlog.core.versions.files import milliseconds
from txlog.errors import InvalidInputError
from txlog.spark.read_options import ReadOptions, StreamReadOptions
from txlog.spark.settings import TIME_ZONE, SessionSettings, zone_of_machine
from txlog.spark.text_settings import is_concerned


class AssumedZone(msgspec.Struct, frozen=True):
    """What a read was planned for: a zone, and the option that depends on it, with its value; a ``condition`` that some
    settings would change. None: any."""

    zone: str | None
    option: str
    condition: str | None = None

    def check(self) -> None:
        """Runs in a task.

        Raises:
            InvalidInputError: The session has another zone, or does not show it.
            UnsupportedFeatureError: The session reads the condition otherwise.
        """
        context = TaskContext.get()
        found = None
        if context is not None:
            settings = SessionSettings.seen_by(context.getLocalProperty)
            settings.require_reading(self.condition)
            found = None if self.zone is None else settings.time_zone(None, self.zone)
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
    condition = options.where if is_concerned(options.where) else None
    unless_zone = None if condition is None else AssumedZone(None, "", condition)
    if options.time_zone is not None:
        return unless_zone
    zone = zone_of_machine()
    if isinstance(moment, str) and _differ(lambda each: milliseconds(moment, each)):
        name = "timestampAsOf" if isinstance(options, ReadOptions) else "startingTimestamp"
        return AssumedZone(zone, f"{name} = {moment!r}", condition)
    now = ambient.now()
    if options.where is not None and _differ(lambda each: bind_predicate(options.where, columns, zone=each, now=now)):
        return AssumedZone(zone, f"where = {options.where!r}", condition)
    return unless_zone


def _differ(value_in: Callable[[str], Any]) -> bool:
    west, east = map(value_in, FARTHEST)
    return bool(west != east)
