"""The session settings that change what Spark's own Delta does. txlog honors or refuses each, and ignores none.

The process that plans a Python write has no SparkSession, but Spark gives every task of a query the session's
settings as local properties. So a task reads them, its message carries them, and the driver checks them before it
commits. If a task finds a setting that the driver will refuse, it writes nothing, and the driver raises the error once.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from txlog.errors import InvalidInputError, UnsupportedFeatureError
from txlog.protocol.properties import KNOWN_KEYS
from txlog.spark.options import SparkWriteOptions
from txlog.writer.write_intent import OVERWRITE
from txlog.writer.write_plan import WriteJob

__all__ = ["SessionSettings", "require_own_mode"]

OVERWRITE_MODE = "spark.sql.sources.partitionOverwriteMode"
APP_ID = "spark.databricks.delta.write.txnAppId"
VERSION = "spark.databricks.delta.write.txnVersion"
VERSION_AUTO_RESET = "spark.databricks.delta.write.txnVersion.autoReset.enabled"
USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
MAX_RECORDS = "spark.sql.files.maxRecordsPerFile"
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
    *PROPERTY_DEFAULTS,
)


class SessionSettings(msgspec.Struct, frozen=True):
    """The relevant settings of a session, by name. The options of a write take precedence over all of them."""

    values: dict[str, str] = msgspec.field(default_factory=dict)

    @classmethod
    def seen_by(cls, local_property: Callable[[str], str | None]) -> SessionSettings:
        """Read the settings in a task: ``local_property`` is ``TaskContext.getLocalProperty``."""
        found = ((name, local_property(name)) for name in _WATCHED)
        return cls({name: value for name, value in found if value is not None})

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

    def max_records_per_file(self, options: SparkWriteOptions) -> int | None:
        """The limit of records per file, from the options or the session. In Spark, 0 and below mean no limit."""
        if options.max_records_per_file is not None:
            return options.max_records_per_file
        text = self.values.get(MAX_RECORDS, "0").strip()
        return int(text) if text.isdecimal() and int(text) > 0 else None


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
