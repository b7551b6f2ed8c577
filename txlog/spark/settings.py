"""The session settings that change what Spark's own Delta does. txlog honors or refuses each, and ignores none.

The process that plans a Python write has no SparkSession, but Spark gives every task of a query the session's
settings as local properties. So a task reads them, its message carries them, and the driver checks them before it
commits. If a task finds a setting that the driver will refuse, it writes nothing, and the driver raises the error once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from txlog.errors import InvalidInputError, UnsupportedFeatureError
from txlog.protocol.properties import KNOWN_KEYS
from txlog.spark.options import SparkWriteOptions
from txlog.util.arguments import UTC
from txlog.util.time_zones import FARTHEST, zone_name
from txlog.writer.write_intent import OVERWRITE
from txlog.writer.write_plan import WriteJob, WritePlan

__all__ = ["SessionSettings", "require_own_mode", "require_own_zone", "zone_of_machine", "zone_of_session"]

OVERWRITE_MODE = "spark.sql.sources.partitionOverwriteMode"
APP_ID = "spark.databricks.delta.write.txnAppId"
VERSION = "spark.databricks.delta.write.txnVersion"
VERSION_AUTO_RESET = "spark.databricks.delta.write.txnVersion.autoReset.enabled"
USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
MAX_RECORDS = "spark.sql.files.maxRecordsPerFile"
TIME_ZONE = "spark.sql.session.timeZone"
_JAVA_OPTIONS = ("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions")
"""Where the zone of the driver's Java may be set, which a session has that does not set its own."""
_JAVA_ZONE = re.compile(r"-Duser\.timezone=[\"']?([^\s\"']+)")
_LOCAL_TIME, _ZONE_FILES = "/etc/localtime", "zoneinfo/"
CHECKPOINTS = "spark.sql.streaming.checkpointLocation"
QUERY_ID = "sql.streaming.queryId"
"""The local property by which Spark gives the tasks of a stream the id of its query."""
PROPERTY_DEFAULTS = tuple(
    f"spark.databricks.delta.properties.defaults.{name.removeprefix('delta.')}" for name in sorted(KNOWN_KEYS)
)
_WATCHED = (
    OVERWRITE_MODE,
    APP_ID,
    VERSION,
    VERSION_AUTO_RESET,
    USER_METADATA,
    MAX_RECORDS,
    CHECKPOINTS,
    TIME_ZONE,
    *PROPERTY_DEFAULTS,
)


class SessionSettings(msgspec.Struct, frozen=True):
    """The relevant settings of a session, by name. The options of a write take precedence over all of them."""

    values: dict[str, str] = msgspec.field(default_factory=dict)

    @classmethod
    def seen_by(cls, local_property: Callable[[str], str | None]) -> SessionSettings:
        """Read the settings in a task: ``local_property`` is ``TaskContext.getLocalProperty``."""
        found = {name: value for name in _WATCHED if (value := local_property(name)) is not None}
        if TIME_ZONE not in found:  # what else is in these options stays here: it may be a secret
            of_java = _JAVA_ZONE.search(" ".join(local_property(name) or "" for name in _JAVA_OPTIONS))
            found |= {} if of_java is None else {TIME_ZONE: of_java[1]}
        return cls(found)

    def refuse(self, options: SparkWriteOptions, *, overwrite: bool, creating: bool) -> None:
        """Check that this write can do what the session's settings request.

        Args:
            options: The options of the write.
            overwrite: Whether the write replaces rows.
            creating: Whether the write creates the table.

        Raises:
            InvalidInputError: A setting contradicts an option, or the settings name half a transaction.
            UnsupportedFeatureError: txlog does not support a setting.
        """
        if overwrite and options.overwrite_schema and self.overwrites_partitions(options):
            raise InvalidInputError(
                f"the session sets {OVERWRITE_MODE}=dynamic, which keeps rows of the table, but the option"
                " overwriteSchema replaces its columns. Nothing was written. To overwrite the whole table, add"
                " .option('partitionOverwriteMode', 'static')"
            )
        defaults = sorted(self.values.keys() & set(PROPERTY_DEFAULTS))
        if creating and defaults:
            raise UnsupportedFeatureError(
                f"the session sets {', '.join(defaults)} for new tables, which txlog's Spark writes do not read; "
                "pass the properties as options of the write: .option('delta.<property>', ...)",
                features=tuple(defaults),
            )
        self.transaction(options)

    def overwrites_partitions(self, options: SparkWriteOptions) -> bool:
        """Whether an overwrite replaces only the partitions that it has rows for; never with ``replaceWhere``."""
        if options.replace_where is not None:
            return False
        mode = options.partition_overwrite_mode or self.values.get(OVERWRITE_MODE, "static")
        return mode.lower() == "dynamic"

    def transaction(self, options: SparkWriteOptions) -> tuple[str, int] | None:
        """The (application id, version) that makes this write idempotent, from the options or the session; None without
        one.

        Raises:
            InvalidInputError: The session sets only one of them, or the version is not a whole number.
            UnsupportedFeatureError: The session requests versions that reset themselves.
        """
        if options.commit.transaction is not None:
            return options.commit.transaction
        app_id, version = self.values.get(APP_ID), self.values.get(VERSION)
        if app_id is None and version is None:
            return None
        if app_id is None or version is None or not version.isdecimal() or int(version) >= 2**63:
            raise InvalidInputError(
                f"the session sets {APP_ID}={app_id} and {VERSION}={version}: set both or neither, "
                "the version as a whole number"
            )
        if self.values.get(VERSION_AUTO_RESET, "false").lower() == "true":
            raise UnsupportedFeatureError(
                f"the session sets {VERSION_AUTO_RESET}, which needs to change the session after a write; txlog cannot "
                "do that from its own process. Give each write the options txnAppId and txnVersion",
                features=(VERSION_AUTO_RESET,),
            )
        return app_id, int(version)

    def refuse_transaction(self) -> None:
        """Raise InvalidInputError if the session names a transaction: a stream's batches have their own."""
        if APP_ID in self.values or VERSION in self.values:
            raise InvalidInputError(
                f"the session sets {APP_ID} or {VERSION}, which name one batch write: unset both. To name the stream "
                "by something other than its query id, use the option txnAppId"
            )

    def user_metadata(self, options: SparkWriteOptions) -> str | None:
        """The user metadata of the commit, from the options or the session."""
        return (
            options.commit.user_metadata if options.commit.user_metadata is not None else self.values.get(USER_METADATA)
        )

    def time_zone(self, given: str | None, of_machine: str) -> str:
        """The zone of times without one: that of the option, of the session (or the driver's Java), of its machine.

        Raises:
            InvalidInputError: Python knows no such zone.
        """
        if given is not None:
            return given
        return zone_name(self.values[TIME_ZONE], what=TIME_ZONE) if TIME_ZONE in self.values else of_machine

    def plan(self, options: SparkWriteOptions, plan: WritePlan) -> WritePlan:
        """A write's plan, with what the session says. The process that made it saw only the zone of its machine.

        Raises:
            InvalidInputError: Python does not know the session's zone.
        """
        found = plan.in_zone(self.time_zone(options.time_zone, plan.time_zone), options.replace_where)
        return replace(found, max_records_per_file=self.max_records_per_file(options))

    def max_records_per_file(self, options: SparkWriteOptions) -> int | None:
        """The limit of records per file, from the options or the session. In Spark, 0 and below mean no limit."""
        if options.max_records_per_file is not None:
            return options.max_records_per_file
        text = self.values.get(MAX_RECORDS, "0").strip()
        return int(text) if text.isdecimal() and int(text) > 0 else None


def zone_of_session(spark: Any) -> str:
    """The zone of a session, in which Spark reads times without one.

    Raises:
        InvalidInputError: Python knows no such zone.
    """
    return zone_name(spark.conf.get(TIME_ZONE, None) or UTC, what=TIME_ZONE)


def zone_of_machine() -> str:
    """The zone of this machine, which Spark has if nobody sets another. This process is on the driver's machine."""
    named = os.environ.get("TZ", "").removeprefix(":")
    if not named:
        named = os.path.realpath(_LOCAL_TIME).rpartition(_ZONE_FILES)[2] if os.path.exists(_LOCAL_TIME) else UTC
    try:
        return zone_name(named)
    except (InvalidInputError, UnsupportedFeatureError):
        return UTC


def require_own_zone(options: SparkWriteOptions, job: WriteJob) -> None:
    """Check that a write says its time zone, if it depends on one, where the session's settings cannot be seen.

    Raises:
        InvalidInputError: The option is missing.
    """
    if options.time_zone is None and (found := _dependent(options, job.plan)):
        raise InvalidInputError(
            f"{found} depends on the session's {TIME_ZONE}, which Sail does not show. Nothing was written. Add"
            " .option('timeZone', ...), such as 'UTC' or 'Europe/Berlin'",
            table=job.plan.table,
        )


def _dependent(options: SparkWriteOptions, plan: WritePlan) -> str | None:
    """What a write does that another time zone would change: the text that it depends on; None if nothing does."""
    west, east = (plan.in_zone(zone, options.replace_where) for zone in FARTHEST)
    if west.rows_where != east.rows_where:
        return f"replaceWhere, {options.replace_where},"
    for one, other in zip(west.constraints, east.constraints, strict=True):
        if one != other:
            return f"the {one.name} ({one.sql})"
    if west.computed is not None and east.computed is not None:
        for generated, there in zip(west.computed.generated, east.computed.generated, strict=True):
            if generated != there:
                return f"the value of column {generated.name} ({generated.sql})"
        for default, instead in zip(west.computed.defaults, east.computed.defaults, strict=True):
            if default != instead:
                return f"the default of column {default.name} ({default.sql})"
    return None


def require_own_mode(options: SparkWriteOptions, job: WriteJob) -> None:
    """Check that an overwrite says itself which partitions it replaces, where the session's settings cannot be seen.

    Raises:
        InvalidInputError: The table has partitions, and whether their rows stay depends on a setting of the session.
    """
    if job.intent == OVERWRITE and job.plan.partition_columns and options.partition_overwrite_mode is None:
        raise InvalidInputError(
            f"what this overwrite of a table with partitions replaces depends on the session's {OVERWRITE_MODE}, which"
            " Sail does not show. Nothing was written. Add .option('partitionOverwriteMode', 'static') to replace all"
            " rows, 'dynamic' to replace the partitions that the new rows are in, or replaceWhere",
            table=job.plan.table,
        )
