"""A session's own catalog, and through it a Hive Metastore: ``schema.table`` is a table that Spark knows.

In: a session. Out: a `Catalog` of the tables that the session has as Delta tables: those that others made by
``CREATE TABLE ... USING delta LOCATION ...`` are found. Reading and writing them needs no jar. A new name does: only
Spark's Delta enters a table there as one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from txlog.catalog import Catalog
from txlog.core.catalogs import TablePlace, name_parts, name_text
from txlog.core.format.schema import backquoted
from txlog.errors import (
    InvalidInputError,
    NotFoundError,
    StorageError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from txlog.spark.hadoop import check_session, of_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Made = TypeVar("Made")

_ESCAPED = str.maketrans({each: f"%{ord(each):02X}" for each in "%?#"})


def catalog(spark: SparkSession) -> Catalog:
    """The tables of a session's catalog by their names, for `txlog.sql`, `txlog.spark.sql` and Python.

        txlog.spark.catalog(spark).table("sales.orders").append(rows)

    Args:
        spark: The session (classic or Connect). With ``enableHiveSupport()``, its catalog is the Hive Metastore.

    Returns:
        The catalog. Tables are opened with the session's S3 credentials.

    Raises:
        InvalidInputError: ``spark`` is no session.
    """
    check_session(spark)
    return Catalog(SessionCatalog(spark))


class SessionCatalog:
    """The Delta tables of a session's catalog, as a `TableCatalog`."""

    uri = "spark_catalog"

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def resolve(self, name: str) -> TablePlace:
        parts = self._parts(name)
        facts = self._facts(parts)
        if facts.get("Provider", "").lower() != "delta":
            raise InvalidInputError(f"{name_text(parts)} of Spark's catalog is not a Delta table", table=self.uri)
        return self._place(parts, _uri_of(facts["Location"]))

    def tables(self, schema: str | None = None) -> list[str]:
        schemas = [row[0] for row in self._run("SHOW DATABASES")] if schema is None else [schema]
        names = [
            (each, row.tableName)
            for each in schemas
            for row in self._run(f"SHOW TABLES IN {_quoted([each])}")
            if not row.isTemporary
        ]
        return sorted(name_text(name) for name in names if self._is_delta(name))

    def create(self, name: str, make: Callable[[TablePlace], Made]) -> Made:
        parts = self._parts(name)
        self._require_free(parts)
        facts = {row[0]: row[1] for row in self._run(f"DESCRIBE DATABASE EXTENDED {_quoted(parts[:1])}")}
        location = f"{facts['Location'].rstrip('/')}/{parts[1]}"
        made = make(self._place(parts, _uri_of(location)))
        self._enter(parts, location)
        return made

    def require_registrable(self, name: str) -> None:
        self._parts(name)

    def register(self, name: str, uri: str) -> None:
        parts = self._parts(name)
        self._require_free(parts)
        store = self._place(parts, uri).store()
        if not store.log.list_from(""):
            raise TableNotFoundError("there is no Delta table to register here", table=store.uri)
        self._enter(parts, store.uri)

    def drop(self, name: str) -> None:
        parts = self._parts(name)
        self._run(f"DROP TABLE {_quoted(parts)}")

    def rename(self, name: str, to: str) -> None:
        old, new = self._parts(name), self._parts(to)
        self._facts(old)
        self._require_free(new)
        self._run(f"ALTER TABLE {_quoted(old)} RENAME TO {_quoted(new)}")

    def _parts(self, name: str) -> tuple[str, ...]:
        if isinstance(name, str) and name.lower().startswith("spark_catalog."):
            name = name[len("spark_catalog.") :]
        return name_parts(name, 2, (self._spark.catalog.currentDatabase(),), takes_dots=True)

    def _place(self, parts: tuple[str, ...], location: str) -> TablePlace:
        return TablePlace(location, name_text(parts), of_session(self._spark, location) or None)

    def _is_delta(self, parts: tuple[str, ...]) -> bool:
        try:
            return self._facts(parts).get("Provider", "").lower() == "delta"
        except TableNotFoundError:  # dropped since it was listed
            return False
        except NotFoundError:  # Delta has not found its folder
            return True

    def _facts(self, parts: tuple[str, ...]) -> dict[str, str]:
        """What the catalog knows about a table besides its columns."""
        rows = [(row[0], row[1] or "") for row in self._run(f"DESCRIBE TABLE EXTENDED {_quoted(parts)}")]
        begin = next((at for at, row in enumerate(rows) if row[0].startswith("# Detailed Table")), len(rows))
        return dict(rows[begin:])

    def _require_free(self, parts: tuple[str, ...]) -> None:
        try:
            self._facts(parts)
        except TableNotFoundError:
            return
        except NotFoundError:  # a table whose folder is gone still has its name
            pass
        raise TableExistsError(f"there is already a table {name_text(parts)} in this catalog", table=self.uri)

    def _enter(self, parts: tuple[str, ...], location: str) -> None:
        text = location.replace("\\", "\\\\").replace("'", "\\'")
        self._run(f"CREATE TABLE {_quoted(parts)} USING delta LOCATION '{text}'")

    def _run(self, text: str) -> list[Any]:
        try:
            return list(self._spark.sql(text).collect())
        except Exception as error:
            condition = getattr(error, "getCondition", lambda: None)() or ""
            if condition.startswith("TABLE_OR_VIEW_NOT_FOUND") or condition.startswith("SCHEMA_NOT_FOUND"):
                raise TableNotFoundError(
                    f"Spark's catalog has no such table or schema: {text}", table=self.uri
                ) from None
            if condition.startswith("DELTA_PATH_DOES_NOT_EXIST"):
                raise NotFoundError(
                    "the folder of the table is gone, and its name is left: drop the table, or restore its folder:"
                    f" {text}",
                    table=self.uri,
                ) from None
            if condition.startswith("TABLE_OR_VIEW_ALREADY_EXISTS"):
                raise TableExistsError(f"Spark's catalog has this table already: {text}", table=self.uri) from None
            if condition.startswith("DATA_SOURCE_NOT_FOUND"):
                raise UnsupportedFeatureError(
                    "a session without Spark's Delta cannot enter a table into its catalog: the table is there, so open"
                    f" it by its location, or run this where Delta is: {text}",
                    table=self.uri,
                ) from None
            raise StorageError(f"Spark refused {text}: {error}", table=self.uri) from None


def _uri_of(location: str) -> str:
    """Hadoop's form of a location as a URI: Hadoop shows the characters of a path as they are."""
    return location.translate(_ESCAPED)


def _quoted(parts: Sequence[str]) -> str:
    return ".".join(map(backquoted, parts))
