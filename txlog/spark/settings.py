"""The session settings that change what Spark's own Delta does. txlog honors or refuses each, and ignores none.

What runs in the driver reads the session. The process that plans a Python write has no SparkSession, but Spark gives
every task of a query the session's settings as local properties. So a task reads them, its message carries them, and
the driver checks them before it commits. If a task finds a setting that the driver will refuse, it writes nothing, and
the driver raises the error once. Settings that only tune how fast Delta itself works are not read.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from txlog.core.format.features import FEATURE_NAMES
from txlog.core.format.properties import FEATURE_PREFIX, KNOWN_KEYS, TableProperties, size_bytes
from txlog.core.format.time_zones import FARTHEST, zone_name
from txlog.core.util import UTC
from txlog.core.writing import WriteJob, WritePlan
from txlog.core.writing.write_intent import OVERWRITE, RowMode
from txlog.errors import InvalidInputError, UnsupportedFeatureError
from txlog.spark.options import SparkWriteOptions
from txlog.spark.text_settings import TEXT_SETTINGS, require_reading
from txlog.spark.zone_rules import agreed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DELTA = "spark.databricks.delta."
OVERWRITE_MODE = "spark.sql.sources.partitionOverwriteMode"
APP_ID = f"{_DELTA}write.txnAppId"
VERSION = f"{_DELTA}write.txnVersion"
VERSION_AUTO_RESET = f"{_DELTA}write.txnVersion.autoReset.enabled"
USER_METADATA = f"{_DELTA}commitInfo.userMetadata"
AUTO_MERGE = f"{_DELTA}schema.autoMerge.enabled"
MAX_RECORDS = "spark.sql.files.maxRecordsPerFile"
TIME_ZONE = "spark.sql.session.timeZone"
_JAVA_OPTIONS = ("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions")
"""Where the zone of the driver's Java may be set, which a session has that does not set its own."""
_JAVA_ZONE = re.compile(r"-Duser\.timezone=[\"']?([^\s\"']+)")
_LOCAL_TIME, _ZONE_FILES = "/etc/localtime", "zoneinfo/"
OPTIMIZE_WRITE = f"{_DELTA}optimizeWrite.enabled"
AUTO_COMPACT = f"{_DELTA}autoCompact.enabled"
COMPACTED_SIZE = f"{_DELTA}optimize.maxFileSize"
RETENTION_CHECK = f"{_DELTA}retentionDurationCheck.enabled"
VACUUM_LITE = f"{_DELTA}vacuum.lite.enabled"
DROP_IF_EXISTS = f"{_DELTA}constraints.assumesDropIfExists.enabled"
CHECKPOINTS = "spark.sql.streaming.checkpointLocation"
QUERY_ID = "sql.streaming.queryId"
"""The local property by which Spark gives the tasks of a stream the id of its query."""

_DEFAULT = f"{_DELTA}properties.defaults."
_VECTORS = {what: f"{_DELTA}{what}.deletionVectors.persistent" for what in ("delete", "update", "merge")}
HONORED = (
    OVERWRITE_MODE,
    APP_ID,
    VERSION,
    VERSION_AUTO_RESET,
    USER_METADATA,
    AUTO_MERGE,
    MAX_RECORDS,
    OPTIMIZE_WRITE,
    AUTO_COMPACT,
    COMPACTED_SIZE,
    RETENTION_CHECK,
    VACUUM_LITE,
    DROP_IF_EXISTS,
    CHECKPOINTS,
    TIME_ZONE,
    *_VECTORS.values(),
)
"""The settings that txlog acts on, besides the defaults for new tables. What cannot act on one refuses it."""


class _Refused(msgspec.Struct, frozen=True):
    """A setting that nothing acts on: where it matters, and for which values. ``advice`` says what to do."""

    operations: frozenset[str]
    value: str | None
    advice: str

    def is_meant(self, value: str) -> bool:
        return self.value is None or value.strip().lower() == self.value


def _refused(operations: str, value: str | None, advice: str) -> _Refused:
    return _Refused(frozenset(operations.split()), value, advice)


REFUSED: dict[str, _Refused] = {
    f"{_DELTA}replaceWhere.constraintCheck.enabled": _refused(
        "replaceWhere", "false", "the rows of a replaceWhere must match its condition"
    ),
    f"{_DELTA}replaceWhere.dataColumns.enabled": _refused(
        "replaceWhere", "false", "the condition of a replaceWhere may name any column"
    ),
    f"{_DELTA}dynamicPartitionOverwrite.enabled": _refused(
        "dynamic", "false", f"{OVERWRITE_MODE}=dynamic replaces the partitions that the rows of an overwrite are in"
    ),
    f"{_DELTA}optimize.minFileSize": _refused(
        "optimize", None, f"every file smaller than the new ones is rewritten: set {COMPACTED_SIZE}"
    ),
    f"{_DELTA}optimize.maxDeletedRowsRatio": _refused(
        "optimize", None, "files with more than 5 % dead rows are rewritten"
    ),
    f"{_DELTA}vacuum.logging.enabled": _refused("vacuum", "false", "the history shows each vacuum"),
    f"{_DELTA}restore.protocolDowngradeAllowed": _refused(
        "restore clone", "true", "a table keeps its features: drop one with ALTER TABLE t DROP FEATURE"
    ),
    f"{_DELTA}replace.protocolDowngradeAllowed": _refused(
        "replace", "true", "a table keeps its features: drop one with ALTER TABLE t DROP FEATURE"
    ),
    f"{_DELTA}clone.replaceEnabled": _refused("clone", "false", "CREATE OR REPLACE replaces a table by a clone"),
    f"{_DELTA}convert.partitionValues.ignoreCastFailure": _refused(
        "convert", "true", "a folder whose value does not fit its column's type is an error"
    ),
    "spark.sql.storeAssignmentPolicy": _refused(
        "insert create_as update merge", "strict", "values are stored as the policy ANSI says"
    ),
}
"""The settings that nothing in txlog acts on. Each is refused where Delta would do otherwise because of it."""

_KEYS = (*sorted(KNOWN_KEYS), *(f"{FEATURE_PREFIX}{name}" for name in FEATURE_NAMES))
_DEFAULTS_OF_TASKS = tuple(f"{_DEFAULT}{key.removeprefix('delta.')}" for key in _KEYS)
_WATCHED = (*HONORED, *REFUSED, *TEXT_SETTINGS, *_DEFAULTS_OF_TASKS)


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

    @classmethod
    def of(cls, spark: SparkSession) -> SessionSettings:
        """Read the settings of a session, classic or Connect, in the driver or its client."""
        given: Any = None
        with contextlib.suppress(Exception):  # an older Spark Connect, or Sail, does not list its settings
            given = dict(spark.conf.getAll)
        if given is None:
            given = {name: spark.conf.get(name, None) for name in _WATCHED}
        kept = {name: str(value) for name, value in given.items() if value is not None and _is_watched(name)}
        return cls(kept)

    # --- what is refused ------------------------------------------------------------------------------------------

    def refuse(
        self, options: SparkWriteOptions, *, overwrite: bool, creating: bool, obeys_overwrite_mode: bool = False
    ) -> None:
        """Check that this write can do what the session's settings request.

        Args:
            options: The options of the write.
            overwrite: Whether the write replaces rows.
            creating: Whether the write creates the table.
            obeys_overwrite_mode: Whether the partition overwrite mode could matter: in a batch write to a table with
                partitions. Spark's Delta checks the mode of an append, too.

        Raises:
            InvalidInputError: A setting contradicts an option, or the settings name half a transaction.
            UnsupportedFeatureError: txlog does not support a setting.
        """
        by_partition = overwrite and self.overwrites_partitions(options)
        if by_partition and options.overwrite_schema:
            raise InvalidInputError(
                f"the session sets {OVERWRITE_MODE}=dynamic, which keeps rows of the table, but the option"
                " overwriteSchema replaces its columns. Nothing was written. To overwrite the whole table, add"
                " .option('partitionOverwriteMode', 'static')"
            )
        defaults = self._missing_defaults(options.properties) if creating else []
        if defaults:
            raise UnsupportedFeatureError(
                f"the session sets {', '.join(defaults)} for new tables, which txlog's Spark writes do not read; "
                "pass the properties as options of the write: .option('delta.<property>', ...)",
                features=tuple(defaults),
            )
        if options.optimize_write is None and self._is_true(OPTIMIZE_WRITE):
            raise UnsupportedFeatureError(
                f"the session sets {OPTIMIZE_WRITE}=true, and a data source of Python cannot shuffle the rows of"
                " df.write: repartition the DataFrame before the write, and add .option('optimizeWrite', 'false')."
                " txlog.spark.sql does it for INSERT and CREATE TABLE AS. Nothing was written",
                features=(OPTIMIZE_WRITE,),
            )
        is_dynamic = obeys_overwrite_mode and self.overwrites_partitions(options)
        self.require("replaceWhere" * (options.replace_where is not None), "dynamic" * is_dynamic)
        if options.replace_where is not None:
            self.require_reading(options.replace_where)
        self.transaction(options)
        if options.commit.transaction is None and APP_ID in self.values and self.resets_version:
            raise UnsupportedFeatureError(
                f"the session sets {VERSION_AUTO_RESET}, which needs to change the session after a write; txlog cannot "
                "do that from its own process. Give each write the options txnAppId and txnVersion",
                features=(VERSION_AUTO_RESET,),
            )

    def require(self, *operations: str) -> None:
        """Raise UnsupportedFeatureError if the session sets what none of these operations can act on."""
        for name, refused in REFUSED.items():
            value = self.values.get(name)
            if value is not None and refused.operations.intersection(operations) and refused.is_meant(value):
                raise UnsupportedFeatureError(
                    f"the session sets {name}={value}, which txlog does not do: {refused.advice}. Nothing was written;"
                    f" unset it with spark.conf.unset({name!r})",
                    features=(name,),
                )

    def require_reading(self, *texts: Any) -> None:
        """Raise UnsupportedFeatureError if the session's Spark reads one of these texts otherwise than txlog."""
        require_reading(self.values.get, texts)

    def require_compaction(self, configuration: Mapping[str, str]) -> None:
        """Raise UnsupportedFeatureError unless a table with these properties is compacted after commits, or not, as
        the session says."""
        value = self.values.get(AUTO_COMPACT)
        if value is None:
            return
        wanted = "false" if value.strip().lower() == "false" else "true"
        if TableProperties.of(configuration).auto_compact is not (wanted == "true"):
            raise UnsupportedFeatureError(
                f"the session sets {AUTO_COMPACT}={value}, and txlog compacts after commits as the table says: set its"
                f" property delta.autoOptimize.autoCompact to {wanted}, or unset the setting. Nothing was written",
                features=(AUTO_COMPACT,),
            )

    def refuse_transaction(self) -> None:
        """Raise InvalidInputError if the session names a transaction: a stream's batches have their own."""
        if APP_ID in self.values or VERSION in self.values:
            raise InvalidInputError(
                f"the session sets {APP_ID} or {VERSION}, which name one batch write: unset both. To name the stream "
                "by something other than its query id, use the option txnAppId"
            )

    # --- what a write takes from the session ----------------------------------------------------------------------

    def overwrites_partitions(self, options: SparkWriteOptions) -> bool:
        """Whether an overwrite replaces only the partitions that it has rows for; never with ``replaceWhere``."""
        if options.replace_where is not None:
            return False
        mode = options.partition_overwrite_mode
        return self.is_dynamic if mode is None else mode.lower() == "dynamic"

    @property
    def is_dynamic(self) -> bool:
        """Whether overwrites replace only the partitions that their rows are in."""
        return self.values.get(OVERWRITE_MODE, "static").lower() == "dynamic"

    def transaction(self, options: SparkWriteOptions | None = None) -> tuple[str, int] | None:
        """The (application id, version) that makes a write idempotent, from its options or the session; None without
        one.

        Raises:
            InvalidInputError: The session sets only one of them, or the version is not a whole number.
        """
        if options is not None and options.commit.transaction is not None:
            return options.commit.transaction
        app_id, version = self.values.get(APP_ID), self.values.get(VERSION)
        if app_id is None and version is None:
            return None
        if app_id is None or version is None or not version.isdecimal() or int(version) >= 2**63:
            raise InvalidInputError(
                f"the session sets {APP_ID}={app_id} and {VERSION}={version}: set both or neither, "
                "the version as a whole number"
            )
        return app_id, int(version)

    @property
    def resets_version(self) -> bool:
        """Whether the version of the session's transaction is for one write only."""
        return self._is_true(VERSION_AUTO_RESET)

    def use_up_version(self, spark: SparkSession) -> None:
        """After a write that the session named: unset the version, if it is for one write only."""
        if self.resets_version:
            spark.conf.unset(VERSION)

    @property
    def merges_schema(self) -> bool:
        """Whether writes and merges add the columns that the table lacks."""
        return self._is_true(AUTO_MERGE)

    @property
    def spreads_rows(self) -> bool:
        """Whether rows are shuffled before they are written, so that each partition gets few files."""
        return self._is_true(OPTIMIZE_WRITE)

    @property
    def note(self) -> str | None:
        """The user metadata of commits."""
        return self.values.get(USER_METADATA)

    def user_metadata(self, options: SparkWriteOptions) -> str | None:
        """The user metadata of the commit, from the options or the session."""
        return options.commit.user_metadata if options.commit.user_metadata is not None else self.note

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

    def max_records_per_file(self, options: SparkWriteOptions | None = None) -> int | None:
        """The limit of records per file, from the options or the session. In Spark, 0 and below mean no limit."""
        if options is not None and options.max_records_per_file is not None:
            return options.max_records_per_file
        text = self.values.get(MAX_RECORDS, "0").strip()
        return int(text) if text.isdecimal() and int(text) > 0 else None

    # --- what other commands take from it -------------------------------------------------------------------------

    def row_mode(self, what: str) -> RowMode | None:
        """How "delete", "update" or "merge" removes rows: by copies if the session does not want deletion vectors."""
        return "copy-on-write" if self.values.get(_VECTORS[what], "true").lower() == "false" else None

    def defaults(self) -> dict[str, str]:
        """The properties of new tables that do not say otherwise."""
        return {
            f"delta.{name.removeprefix(_DEFAULT)}": value
            for name, value in self.values.items()
            if name.startswith(_DEFAULT)
        }

    def optimizing(self) -> dict[str, Any]:
        """The arguments of `Table.optimize` that the session gives.

        Raises:
            InvalidInputError: The size of new files is no size.
        """
        text = self.values.get(COMPACTED_SIZE)
        if text is None:
            return {}
        try:
            return {"target_file_size": size_bytes(text)}
        except ValueError:
            raise InvalidInputError(f"the session sets {COMPACTED_SIZE}={text}: expected a size in bytes") from None

    def vacuuming(self) -> dict[str, Any]:
        """The arguments of `Table.vacuum` that the session gives."""
        force = self.values.get(RETENTION_CHECK, "true").lower() == "false"
        return {**({"force": True} if force else {}), **({"lite": True} if self._is_true(VACUUM_LITE) else {})}

    @property
    def drops_missing_constraints(self) -> bool:
        """Whether dropping a constraint that is not there is no error."""
        return self._is_true(DROP_IF_EXISTS)

    def _is_true(self, name: str) -> bool:
        return self.values.get(name, "false").strip().lower() == "true"

    def _missing_defaults(self, properties: dict[str, str]) -> list[str]:
        """The names of the session's defaults for properties that a new table does not have otherwise."""
        given = {name.lower() for name in properties}
        return sorted(f"{_DEFAULT}{name[6:]}" for name in self.defaults() if name.lower() not in given)


PLAIN_SESSION = SessionSettings()


def _is_watched(name: str) -> bool:
    return name in _WATCHED_NAMES or name.startswith(_DEFAULT)


_WATCHED_NAMES = frozenset(_WATCHED)


def zone_of_session(spark: Any) -> str:
    """The zone of a session, in which Spark reads times without one.

    Raises:
        InvalidInputError: Python knows no such zone.
    """
    return agreed(spark, zone_name(spark.conf.get(TIME_ZONE, None) or UTC, what=TIME_ZONE))


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
