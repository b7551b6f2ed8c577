"""`sql`: SQL on tables by name from a Spark program, without a jar.

In: a session, text, a catalog. Out: DataFrames for queries and for what tells about tables, else the results of the
calls. Spark runs queries, over pinned versions of the tables. Its tasks write the rows of INSERT and CREATE TABLE AS,
and do the work of the other commands.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from txlog.catalog import Catalog
from txlog.core.catalogs import TablePlace
from txlog.core.changes.plan import MergeBuilder
from txlog.core.format.schema import Field, Struct, backquoted
from txlog.core.util import explains_call
from txlog.core.writing.commit_options import PLAIN_COMMIT, CommitOptions
from txlog.errors import InvalidInputError
from txlog.extend import open_table_of
from txlog.result import WriteResult
from txlog.spark.errors import error_from
from txlog.spark.hadoop import check_session
from txlog.spark.rows.calls import begin_merge
from txlog.spark.rows.source import reads_table
from txlog.spark.scan import read
from txlog.spark.schema import frame_schema, struct_type
from txlog.spark.settings import SessionSettings, zone_of_session
from txlog.spark.spark_workers import SparkWorkers
from txlog.spark.store_assignment import store_assignment
from txlog.spark.text_settings import require_own_reading
from txlog.statements.cursor import quoted
from txlog.statements.engine import Session, Source
from txlog.statements.names import TableName
from txlog.statements.query import Query, Reading
from txlog.statements.sql import results_of
from txlog.statements.store_assignment import as_literal
from txlog.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from txlog.core.changes.tasks.operations import MergeOptions

_SCHEMA_MODES = {"merge": "mergeSchema", "overwrite": "overwriteSchema"}
_RAW_STRINGS = "spark.sql.parser.escapedStringLiterals"
_IN_JSON = (("partition_by", "partitionBy"), ("cluster_by", "clusterBy"), ("properties", "tableProperties"))
"""Arguments of `txlog.write`, and the options that have them as JSON: in it, names and texts stay what they are."""


@explains_call
def sql(
    spark: SparkSession,
    text: str,
    catalog: Catalog | str | os.PathLike[str] | None = None,
    parameters: Mapping[str, object] | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> Any:
    """`txlog.sql` with Spark: it runs the queries, and its tasks do the work of the commands. No jar is needed.

    A query may also name Spark's own tables and temporary views, where the catalog has no table of the name.

    Args:
        spark: The session (classic or Connect). Its executors need txlog installed, and reach the tables' locations.
        text: As for `txlog.sql`, like all that follow.
        catalog: As for `txlog.sql`.
        parameters: As for `txlog.sql`.
        storage_options: As for `txlog.sql`.

    Returns:
        What the last statement returns: a DataFrame for a query, DESCRIBE and SHOW, None for INSERT and CREATE TABLE,
        otherwise the result of the method of `Table`.

    Raises:
        TxlogError: What `txlog.sql` raises.
    """
    check_session(spark)
    if isinstance(text, str):
        require_own_reading(spark, text, is_script=True)
    *_, last = results_of(text, SparkEngine(spark), catalog, parameters, storage_options)
    return last


class SparkEngine:
    """A session as an `Engine`."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self.workers = SparkWorkers(spark)
        self.time_zone = zone_of_session(spark)
        self.keeps_names = (
            "the Spark session keeps views: make one of rows, as"
            " txlog.spark.read(spark, uri).createOrReplaceTempView('v'). Names of tables need their schema in front"
        )

        self.no_transactions = (
            "Spark's tasks write the rows of each statement to one table, so txlog.spark.sql has no transactions: use"
            " txlog.sql, or a group of sinks (txlog.SinkGroup) for rows that tasks make"
        )

    def session(self, *what: str, table: Table | None = None) -> Session:
        settings = SessionSettings.of(self._spark)
        settings.require(*what)
        if table is not None:
            settings.require_compaction(open_table_of(table).known_state().metadata.configuration)
        return Session(
            settings.note,
            settings.transaction(),
            next((settings.row_mode(each) for each in what if each in ("delete", "update")), None),
            settings.is_dynamic,
            settings.merges_schema,
            settings.defaults(),
            settings.optimizing(),
            settings.vacuuming(),
            settings.drops_missing_constraints,
        )

    def has_named(self, session: Session) -> None:
        if session.transaction is not None:
            SessionSettings.of(self._spark).use_up_version(self._spark)

    def has_table(self, name: str) -> bool:
        from pyspark.errors import AnalysisException

        try:
            return bool(self._spark.catalog.tableExists(name))
        except AnalysisException:  # a name with more parts than its catalogs have
            return False

    def check(self, query: Query, *, is_alone: bool) -> None:
        """Spark runs all queries."""

    def check_own(self, name: TableName, target: Table) -> None:
        if reads_table(self._spark.table(".".join(map(backquoted, name.parts))), target.uri):
            raise InvalidInputError(
                f"{name.text}, which is named at {name.at}, reads the table that the statement changes, and nobody"
                " knows at which version: rows that others write meanwhile could be lost. Name the table itself in the"
                " query, with VERSION AS OF for an older version",
                table=target.uri,
            )

    def query(self, query: Query, sources: Sequence[Source | None]) -> DataFrame:
        frames = {f"txlog_{number}": self._frame(source) for number, source in enumerate(sources) if source is not None}
        if query.whole is not None and frames:
            rows = frames["txlog_0"]
            return rows if query.whole.limit is None else rows.limit(query.whole.limit)
        names = [
            f"{{txlog_{number}}}" if source is not None else _in_spark(reading, escaped=bool(frames))
            for number, (reading, source) in enumerate(zip(query.readings, sources, strict=True))
        ]
        text = query.escaped().text(*names) if frames else query.text(*names)  # Spark formats the text for frames only
        if "\\" in text and str(self._spark.conf.get(_RAW_STRINGS, "false")).lower() == "true":
            raise InvalidInputError(
                f"the query at {query.at} has a backslash, perhaps in a parameter, which escapes nothing in this"
                f" session: set {_RAW_STRINGS} to false, its default; nothing was run"
            )
        try:
            return self._spark.sql(text, **frames)
        except Exception as error:
            raise self._typed(error, f"Spark cannot run the query at {query.at}") from None

    def conditions(self, query: Query, sources: Sequence[Source | None]) -> list[str | None]:
        raise InvalidInputError(
            "Spark plans queries itself: run the query by txlog.spark.sql, and call explain() on it"
        )

    def told(self, rows: pa.Table) -> DataFrame:
        return self._frame_of(rows)

    def columns_of(self, rows: DataFrame) -> list[str]:
        return list(rows.columns)

    def schema_of(self, rows: DataFrame) -> Struct:
        return frame_schema(rows.schema)

    def stored(
        self, rows: DataFrame, fields: Sequence[Field], constants: Mapping[Field, pa.Scalar], *, by_name: bool
    ) -> DataFrame:
        first, then = store_assignment([given.dataType for given in rows.schema], fields, by_name=by_name)
        then += [f"{as_literal(value, field.type)} AS {backquoted(field.name)}" for field, value in constants.items()]
        try:
            return rows.toDF(*(f"c{at}" for at in range(len(fields)))).selectExpr(*first).selectExpr(*then)
        except Exception as error:
            names = ", ".join(field.name for field in fields)
            raise self._typed(error, f"Spark cannot store the query's columns as {names}") from None

    def write(self, place: Table | TablePlace, rows: DataFrame, mode: str, options: Mapping[str, Any]) -> None:
        uri, storage = _address(place)
        settings = SessionSettings.of(self._spark)
        if settings.spreads_rows:
            rows = rows.hint("rebalance", *_partitioned_by(place, options))
        writer = rows.write.format("txlog").mode("overwrite" if mode == "overwrite" else "append")
        writer = writer.option("optimizeWrite", "false")  # the hint does it
        if mode == "error":
            writer = writer.option("mustCreate", "true")
        named = settings.transaction()
        if named is not None:
            writer = writer.option("txnAppId", named[0]).option("txnVersion", str(named[1]))
        for name, value in _write_options(options).items():
            writer = writer.option(name, value)
        for name, value in (storage or {}).items():
            writer = writer.option(f"storage.{name}", value)
        writer = writer.option("timeZone", self.time_zone)
        try:
            writer.save(uri)
        except Exception as error:
            raise self._typed(error, "Spark cannot write the rows") from None
        if named is not None:
            settings.use_up_version(self._spark)

    def merge(
        self, table: Table, rows: DataFrame, merge: MergeOptions, commit: CommitOptions
    ) -> MergeBuilder[WriteResult]:
        uri, storage = _address(table)
        return begin_merge(
            self._spark,
            uri,
            rows,
            merge.on,
            (merge.source_alias, merge.target_alias),
            "merge" if merge.schema_mode == "merge" else None,
            {"read_version": commit.read_version, "reads_table": commit.reads_table, "storage_options": storage},
            is_pinned=True,  # `_frame` reads one version of each table, and no view of Spark's reads this one
        )

    def _frame(self, source: Source) -> DataFrame:
        if source.changes is not None:
            return self._frame_of(source.table.changes(**source.changes).read_all())
        uri, storage = _address(source.table)
        return read(self._spark, uri, source.snapshot.version, storage_options=storage)

    def _frame_of(self, rows: pa.Table) -> DataFrame:
        return self._spark.createDataFrame(rows, struct_type(rows.schema))  # Spark alone takes times for instants

    def _typed(self, error: Exception, what: str) -> Exception:
        return error_from(error) or InvalidInputError(f"{what}: {error}")


def _in_spark(reading: Reading, *, escaped: bool) -> str:
    """A table or view that only Spark knows, as its own SQL names it, perhaps for Python's ``str.format``; Spark says
    what it cannot read of it."""
    name = ".".join(map(backquoted, reading.table.parts))
    if escaped:
        name = name.replace("{", "{{").replace("}", "}}")
    if reading.changes is not None:
        bounds = filter(None, (reading.changes.first, reading.changes.last))
        return f"table_changes({', '.join((quoted(name), *bounds))})"
    if reading.as_of.version is not None:
        return f"{name} VERSION AS OF {reading.as_of.version}"
    if reading.as_of.timestamp is not None:
        return f"{name} TIMESTAMP AS OF {reading.as_of.timestamp}"
    return name


def _address(place: Table | TablePlace) -> tuple[str, Mapping[str, str] | None]:
    """The location or name, and the options, by which Spark's processes find a table."""
    if isinstance(place, TablePlace):
        return place.address or (place.uri, place.storage_options)
    return open_table_of(place).address


def _partitioned_by(place: Table | TablePlace, options: Mapping[str, Any]) -> list[str]:
    """The partition columns of the table that a write makes or changes."""
    given = options.get("partition_by")
    if given is None and isinstance(place, Table):
        given = open_table_of(place).known_state().partition_columns
    return list(given or ())


def _write_options(options: Mapping[str, Any]) -> dict[str, str]:
    commit: CommitOptions = options.get("commit", PLAIN_COMMIT)
    given = {
        "replaceWhere": options.get("where"),
        "readVersion": commit.read_version,
        "readsTable": commit.reads_table or None,
        "onConflict": commit.on_conflict,
    }
    found = {name: str(value) for name, value in given.items() if value is not None}
    if (mode := options.get("schema_mode")) is not None:
        found[_SCHEMA_MODES[mode]] = "true"
    if mode == "overwrite":  # whatever the session says about partitions, which a new definition may not have
        found["partitionOverwriteMode"] = "static"
    for name, key in _IN_JSON:
        if options.get(name):
            found[key] = msgspec.json.encode(options[name]).decode()
    return found
