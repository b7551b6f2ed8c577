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

from txlog.core.reading import may_hold_nan
from txlog.core.util import ambient
from txlog.core.util.arguments import UTC
from txlog.core.util.parallel import Threads
from txlog.core.util.time_zones import full_name, offset_of, zone_name
from txlog.errors import InvalidInputError
from txlog.statements.cursor import QueryDialect
from txlog.statements.duckdb_times import add_macros, in_zone, replaced
from txlog.statements.query import FAULTS, Query

__all__ = ["Duckdb"]

Out = TypeVar("Out")
_SETTINGS = ("enable_external_access = false", "python_enable_replacements = false")
_BATCH_ROWS = 1 << 16
_AGAIN_S = 0.05
_DATES = (exp.TsOrDsAdd, exp.AddMonths, exp.DateTrunc)
"""``date_add`` and ``date_sub``, ``add_months``, ``trunc``: duckdb's sum of a date and an interval is a timestamp."""
_TIMES = (exp.StrToTime, exp.TimestampFromParts)
"""``to_timestamp`` with a format, ``make_timestamp``: duckdb's have no zone."""
_SHIFTS = {"from_utc_timestamp": "txlog_from_utc", "to_utc_timestamp": "txlog_to_utc"}
_OTHERS = (*_DATES, *_TIMES, exp.Anonymous, exp.AtTimeZone, exp.Cast, exp.DayOfWeek, exp.In, exp.LastDay, exp.Substring)


class Duckdb:
    """One duckdb in memory, for any number of queries. Each has a connection of its own: another one sees neither its
    tables nor its settings."""

    def __init__(self, time_zone: str) -> None:
        self._instance = duckdb.connect()
        self._time_zone = time_zone
        add_macros(self._instance, duckdb_zone(time_zone), changes=offset_of(time_zone) is None)

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
    settings = (*_SETTINGS, f"TimeZone = '{duckdb_zone(time_zone)}'")
    for setting in settings:
        connection.execute(f"SET {setting}")
    names = [f"txlog_{number}" for number in range(len(tables))]
    for name, rows in zip(names, tables, strict=True):
        _register(connection, name, rows)
    parsed = replaced(sqlglot.parse_one(query.text(*names), read=QueryDialect), _as_in_spark, *_OTHERS)
    if offset_of(time_zone) is None:
        text = in_zone(connection, parsed, time_zone, names, settings)
    else:
        text = parsed.sql("duckdb", identify=True)
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
        return full_name(name) if offset_s is None else UTC
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


def _as_in_spark(node: Any) -> Any:
    """A function as one of duckdb's with Spark's value, where sqlglot leaves one of the same name with another.

    Raises InvalidInputError for one that duckdb has only with other values.
    """
    if isinstance(node, exp.AtTimeZone):
        raise InvalidInputError(
            "AT TIME ZONE is no part of Spark's SQL: write from_utc_timestamp(ts, 'Europe/Berlin'), or"
            " to_utc_timestamp(ts, 'Europe/Berlin')"
        )
    if isinstance(node, exp.In) and isinstance(node.this, exp.Column) and any(map(_is_time, node.expressions)):
        # duckdb hands no filter to Arrow then, for which it would need pytz
        column = node.this
        node.set("this", exp.Case(ifs=[exp.If(this=column.is_(exp.null()), true=exp.null())], default=column.copy()))
        return node
    if isinstance(node, exp.Anonymous):
        return _function_as_in_spark(node)
    if isinstance(node, exp.Cast):  # sqlglot's to_timestamp
        return _instant(node.this) if node.to.is_type(exp.DataType.Type.TIMESTAMP) else node
    if isinstance(node, _TIMES):
        return _instant(node)
    if isinstance(node, (exp.AddMonths, exp.LastDay)):  # of a timestamp, duckdb takes another day near a gap
        node.set("this", exp.cast(node.this, "date"))
    if isinstance(node, _DATES):
        return exp.cast(node, "date")
    if isinstance(node, exp.DayOfWeek):  # Sunday is 1
        return exp.paren(exp.func("isodow", node.this) % 7 + 1)
    start = node.args.get("start")
    if isinstance(node, exp.Substring) and isinstance(start, exp.Literal) and start.this == "0":  # as from 1
        start.replace(exp.Literal.number(1))
    return node


def _function_as_in_spark(node: exp.Anonymous) -> exp.Expr:
    name, given = node.name.lower(), node.expressions
    if name == "hash":
        raise InvalidInputError("hash() has other values in duckdb than in Spark: use md5() or sha2()")
    if name == "weekday" and len(given) == 1:  # Monday is 0
        return exp.paren(exp.func("isodow", exp.cast(given[0], "date")) - 1)
    if name in _SHIFTS and len(given) == 2:
        if not isinstance(given[1], exp.Literal):
            raise InvalidInputError(f"{name}() needs the name of a time zone as a text, such as 'Europe/Berlin'")
        zone = exp.Literal.string(duckdb_zone(zone_name(given[1].name, what=name)))
        return exp.func(_SHIFTS[name], _instant(given[0]), zone)
    return node


def _is_time(value: exp.Expr) -> bool:
    return isinstance(value, exp.Cast) or (isinstance(value, exp.Literal) and value.this.lstrip()[4:5] == "-")


def _instant(value: exp.Expr) -> exp.Expr:
    return exp.cast(value, exp.DataType.Type.TIMESTAMPTZ)


def _columns(found: duckdb.DuckDBPyRelation) -> str:
    """All columns; sums of integers are a bigint, as in Spark, and not duckdb's own type of 128 bits."""
    columns = []
    for number, (name, kind) in enumerate(zip(found.columns, found.types, strict=True), 1):
        quoted = _quoted(name)
        columns.append(f"CAST(#{number} AS BIGINT) AS {quoted}" if str(kind) == "HUGEINT" else f"#{number} AS {quoted}")
    return ", ".join(columns)


def _failed(query: Query, error: Exception) -> InvalidInputError:
    return InvalidInputError(f"duckdb cannot run the query at {query.at}: {error}")
