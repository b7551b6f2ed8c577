"""A query run by duckdb, in the words of Spark's SQL, which sqlglot translates.

In: a `Query`, and the rows of its tables: datasets, of which duckdb reads the columns and rows that it needs, or
streams. Out: a stream of Arrow batches. duckdb sees these tables only: neither files nor Python's variables.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import duckdb
import pyarrow as pa
import sqlglot
from sqlglot import exp

from txlog.errors import InvalidInputError
from txlog.reading.dataset import may_hold_nan
from txlog.statements.cursor import QueryDialect
from txlog.statements.query import FAULTS, Query
from txlog.util import ambient
from txlog.util.arguments import UTC
from txlog.util.parallel import Threads
from txlog.util.time_zones import offset_of

__all__ = ["Duckdb"]

Out = TypeVar("Out")
_SETTINGS = ("enable_external_access = false", "python_enable_replacements = false")
_BATCH_ROWS = 1 << 16
_AGAIN_S = 0.05
_DATES = (exp.TsOrDsAdd, exp.AddMonths, exp.DateTrunc)
"""``date_add`` and ``date_sub``, ``add_months``, ``trunc``."""


class Duckdb:
    """One duckdb in memory, for any number of queries. Each has a connection of its own: another one sees neither its
    tables nor its settings."""

    def __init__(self, time_zone: str) -> None:
        self._instance = duckdb.connect()
        self._time_zone = time_zone

    def run(self, query: Query, tables: Sequence[Any]) -> pa.RecordBatchReader:
        """The rows of a query. Raises InvalidInputError, also in the stream."""
        running = _Running(self._instance)
        try:
            reader = running.call(_begun, running.connection, query, tables, self._time_zone)
        except BaseException as error:
            running.close()
            if isinstance(error, (duckdb.Error, *FAULTS)):
                raise _failed(query, error) from None
            raise

        def batches() -> Iterator[pa.RecordBatch]:
            try:
                while (batch := running.call(next, reader, None)) is not None:
                    yield batch
            except (duckdb.Error, pa.ArrowException, OSError) as error:
                raise _failed(query, error) from None
            finally:
                running.close()

        return pa.RecordBatchReader.from_batches(reader.schema, batches())


class _Running:
    """A connection, and the thread in which it works.

    The caller waits for a lock, which Ctrl-C interrupts as it does everywhere in Python. In the main thread, duckdb
    takes an interrupt for a failure of its own while a query begins, and does not notice one while rows are fetched.
    """

    def __init__(self, instance: duckdb.DuckDBPyConnection) -> None:
        self.connection = instance.cursor()
        self._threads = Threads(1, "txlog-query")
        self._rests = threading.Event()
        self._rests.set()
        self._is_closed = False

    def call(self, work: Callable[..., Out], *arguments: Any) -> Out:
        """What ``work`` returns or raises."""
        found: Out = self._threads.submit(self._work, work, *arguments).result()
        return found

    def _work(self, work: Callable[..., Out], *arguments: Any) -> Out:
        self._rests.clear()
        try:
            if self._is_closed:
                raise duckdb.InterruptException("the query was interrupted before it began")
            return work(*arguments)
        finally:
            self._rests.set()

    def close(self) -> None:
        """End the query, also one that runs: without an interrupt, duckdb would first bring it to its end."""
        self._is_closed = True
        self.connection.interrupt()
        while not self._rests.is_set():
            ambient.wait(self._rests, _AGAIN_S)
            self.connection.interrupt()  # again, since a query that begins after an interrupt does not notice it
        self._threads.close()
        self.connection.close()


def _begun(
    connection: duckdb.DuckDBPyConnection, query: Query, tables: Sequence[Any], time_zone: str
) -> pa.RecordBatchReader:
    for setting in (*_SETTINGS, f"TimeZone = '{duckdb_zone(time_zone)}'"):
        connection.execute(f"SET {setting}")
    names = [f"txlog_{number}" for number in range(len(tables))]
    for name, rows in zip(names, tables, strict=True):
        _register(connection, name, rows)
    parsed = sqlglot.parse_one(query.text(*names), read=QueryDialect)
    text = parsed.transform(_as_in_spark).sql("duckdb")
    found = connection.sql(text)
    if found is None:
        raise ValueError("it has no rows")
    reader = connection.sql(f"SELECT {_columns(found)} FROM ({text}) AS txlog").to_arrow_reader(_BATCH_ROWS)
    return reader if time_zone == UTC else reader.cast(pa.schema([_in_utc(field) for field in reader.schema]))


def _in_utc(field: pa.Field) -> pa.Field:
    """The same column, whose timestamps are said to be in UTC: duckdb names its zone, which changes no value."""
    kind = field.type
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return field.with_type(pa.timestamp(kind.unit, "UTC"))
    if pa.types.is_struct(kind):
        return field.with_type(pa.struct([_in_utc(member) for member in kind]))
    if pa.types.is_list(kind):
        return field.with_type(pa.list_(_in_utc(kind.value_field)))
    if pa.types.is_map(kind):
        return field.with_type(pa.map_(_in_utc(kind.key_field), _in_utc(kind.item_field)))
    return field


def duckdb_zone(name: str) -> str:
    """A zone by duckdb's name for it. Raises InvalidInputError for an offset that duckdb would round to whole hours."""
    offset_s = offset_of(name)
    if offset_s is None or offset_s == 0:
        return name if offset_s is None else UTC
    hours, rest = divmod(offset_s, 3600)
    if rest or not -12 <= hours <= 14:
        raise InvalidInputError(
            f"duckdb, which runs queries, has no time zone {name}: name a region, such as Asia/Kolkata. Statements"
            " without a query take any zone"
        )
    return f"Etc/GMT{-hours:+}"  # whose sign is that of POSIX


def _register(connection: duckdb.DuckDBPyConnection, name: str, rows: Any) -> None:
    """Name a table, so that duckdb itself compares the columns that can hold NaN.

    NaN is above all numbers in duckdb, as in Spark. But duckdb has Arrow filter the rows that it reads (by WHERE, the
    keys of a join, the best rows so far of a LIMIT), and Arrow finds NaN above nothing: rows would be lost. It hands
    over only filters on bare columns, so these columns are a CASE with the same values. The filters on others still
    skip files, and columns that are not needed are not read.
    """
    floats = [_quoted(field.name) for field in rows.schema if may_hold_nan(field.type)]
    if not floats:
        connection.register(name, rows)
        return
    connection.register(f"{name}_read", rows)
    same = ", ".join(f"CASE WHEN {column} IS NULL THEN NULL ELSE {column} END AS {column}" for column in floats)
    connection.execute(f"CREATE TEMP VIEW {name} AS SELECT * REPLACE ({same}) FROM {name}_read")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _as_in_spark(node: exp.Expression) -> exp.Expression:
    """A function as one of duckdb's with Spark's value, where sqlglot leaves one of the same name with another.

    Raises InvalidInputError for one that duckdb has only with other values.
    """
    if isinstance(node, exp.Anonymous) and node.name.lower() == "hash":
        raise InvalidInputError("hash() has other values in duckdb than in Spark: use md5() or sha2()")
    if isinstance(node, _DATES):  # duckdb's sum of a date and an interval is a timestamp
        return exp.cast(node, "date")
    if isinstance(node, exp.DayOfWeek):  # Sunday is 1
        return exp.paren(exp.func("isodow", node.this) % 7 + 1)
    if isinstance(node, exp.Anonymous) and node.name.lower() == "weekday" and len(node.expressions) == 1:  # Monday is 0
        return exp.paren(exp.func("isodow", exp.cast(node.expressions[0], "date")) - 1)
    start = node.args.get("start")
    if isinstance(node, exp.Substring) and isinstance(start, exp.Literal) and start.this == "0":  # as from 1
        start.replace(exp.Literal.number(1))
    return node


def _columns(found: duckdb.DuckDBPyRelation) -> str:
    """All columns; sums of integers are a bigint, as in Spark, and not duckdb's own type of 128 bits."""
    columns = []
    for number, (name, kind) in enumerate(zip(found.columns, found.types, strict=True), 1):
        quoted = _quoted(name)
        columns.append(f"CAST(#{number} AS BIGINT) AS {quoted}" if str(kind) == "HUGEINT" else f"#{number} AS {quoted}")
    return ", ".join(columns)


def _failed(query: Query, error: Exception) -> InvalidInputError:
    return InvalidInputError(f"duckdb cannot run the query at {query.at}: {error}")
