"""A query run by duckdb: of Spark's SQL, as `query_binder` writes it, or in duckdb's own.

In: a `Query`, and the rows of its tables: datasets, of which duckdb reads the columns and rows that it needs, or
streams. Out: a stream of Arrow batches. duckdb sees these tables only: neither files nor Python's variables.
"""

from __future__ import annotations

import inspect
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import duckdb
import pyarrow as pa
import sqlglot

from txlog.core import ambient
from txlog.core.format.arrow.arrays import offsets_and_mask, one_array
from txlog.core.format.schema import DataType, from_arrow, repeated_in_other_case, type_to_arrow, types_in
from txlog.core.format.time_zones import full_name, offset_of
from txlog.core.parallel import Threads
from txlog.core.predicates import IntervalType, QueryDialect
from txlog.core.reading import may_hold_nan
from txlog.core.util import UTC
from txlog.errors import InvalidInputError
from txlog.statements.duckdb_expressions import OWN_ERROR, duckdb_type, identifier
from txlog.statements.query import FAULTS, Query
from txlog.statements.query_binder import WAYS_OUT, Function, bind_query, check_functions

Out = TypeVar("Out")
_SETTINGS = ("enable_external_access = false", "python_enable_replacements = false")
_BATCH_ROWS = 1 << 16
_AGAIN_S = 0.05


class Duckdb:
    """One duckdb in memory, for any number of queries. Each has a connection of its own: another one sees neither its
    tables nor its settings."""

    def __init__(self, time_zone: str) -> None:
        self._instance = duckdb.connect()
        self._time_zone = time_zone
        self._numbers = itertools.count()

    def run(self, query: Query, tables: Sequence[Any]) -> pa.RecordBatchReader:
        """The rows of a query. Raises InvalidInputError, also in the stream."""
        running = _Running(self._instance)
        try:
            prefix = f"txlog_{next(self._numbers)}_"
            reader = running.call(_begun, running, query, tables, self._time_zone, prefix)
        except BaseException as error:
            running.close()
            if isinstance(error, (duckdb.Error, *FAULTS)) and not isinstance(error, InvalidInputError):
                raise _failed(query, running.fault or error) from None
            raise

        def batches() -> Iterator[pa.RecordBatch]:
            try:
                while (batch := running.call(next, reader, None)) is not None:
                    yield batch
            except (duckdb.Error, pa.ArrowException, OSError) as error:
                raise _failed(query, running.fault or error) from None
            finally:
                running.close()

        return pa.RecordBatchReader.from_batches(reader.schema, batches())


def conditions_of(query: Query, schemas: Sequence[pa.Schema], time_zone: str) -> list[str | None]:
    """By which conditions files of each table are skipped. Raises InvalidInputError."""
    names = [f"txlog_{number}" for number in range(len(schemas))]
    tables = {name: from_arrow(schema) for name, schema in zip(names, schemas, strict=True)}
    tree = sqlglot.parse_one(query.text(*names), read=QueryDialect)
    bound = bind_query(tree, tables, time_zone, ambient.now(), "", f"the query at {query.at}")
    return [" AND ".join(bound.conditions.get(name, ())) or None for name in names]


def check_calls(query: Query) -> None:
    """Raises InvalidInputError if the query calls a function that there is not, without a look at its tables."""
    text = query.text(*(f"txlog_{number}" for number in range(len(query.readings))))
    try:
        tree = sqlglot.parse_one(text, read=QueryDialect)
    except FAULTS:
        return  # its statement says what is wrong
    try:
        check_functions(tree)
    except ValueError as error:
        raise InvalidInputError(f"{error} (in the query at {query.at}){WAYS_OUT}; nothing was run") from None


class _Running:
    """A connection, and the thread in which it works.

    The caller waits for a lock, which Ctrl-C interrupts as it does everywhere in Python. In the main thread, duckdb
    takes an interrupt for a failure of its own while a query begins, and does not notice one while rows are fetched.
    """

    def __init__(self, instance: duckdb.DuckDBPyConnection) -> None:
        self.connection = instance.cursor()
        self._registrar = instance.cursor()
        """Its functions can be removed while the connection has a result."""
        self.fault: BaseException | None = None
        """What a function raised that duckdb called."""
        self._functions: list[str] = []
        self._threads = Threads(1, "txlog-query")
        self._rests = threading.Event()
        self._rests.set()
        self._is_closed = False

    def call(self, work: Callable[..., Out], *arguments: Any) -> Out:
        """What ``work`` returns or raises."""
        found: Out = self._threads.submit(self._work, work, *arguments).result()
        return found

    def register(self, function: Function) -> None:
        """Have duckdb know a function."""
        kinds = [type_to_arrow(kind) for kind in function.arguments]

        def run(*columns: Any) -> pa.Array:
            try:
                return _without_void(function.run(*map(_array, columns, kinds)))
            except BaseException as error:
                self.fault = self.fault or error
                raise

        parameters = [inspect.Parameter(f"a{at}", inspect.Parameter.POSITIONAL_ONLY) for at in range(len(kinds))]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # by which duckdb counts them
        types = [duckdb_type(kind) for kind in function.arguments]
        self._registrar.create_function(
            function.name, run, types, duckdb_type(function.result), type="arrow", null_handling="special"
        )
        self._functions.append(function.name)

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
        for name in self._functions:
            self._registrar.remove_function(name)
        self._registrar.close()


def _begun(running: _Running, query: Query, tables: Sequence[Any], time_zone: str, prefix: str) -> pa.RecordBatchReader:
    connection = running.connection
    is_own = query.dialect == "duckdb"
    for setting in (*_SETTINGS, f"TimeZone = '{duckdb_zone(time_zone) if is_own else UTC}'"):
        connection.execute(f"SET {setting}")
    names = [f"txlog_{number}" for number in range(len(tables))]
    for name, rows in zip(names, tables, strict=True):
        _register(connection, name, rows)
    if is_own:
        _check_names(rows.schema for rows in tables)
        return _as_written(connection, query.text(*names))
    schemas = {name: from_arrow(rows.schema) for name, rows in zip(names, tables, strict=True)}
    tree = sqlglot.parse_one(query.text(*names), read=QueryDialect)
    bound = bind_query(tree, schemas, time_zone, ambient.now(), prefix, f"the query at {query.at}")
    for function in bound.functions:
        running.register(function)
    reader = connection.sql(bound.text).to_arrow_reader(_BATCH_ROWS)
    schema = pa.schema([pa.field(field.name, _nullable(_arrow_type(field.type))) for field in bound.columns])
    return pa.RecordBatchReader.from_batches(schema, (_as(batch, schema) for batch in reader))


def _arrow_type(kind: DataType) -> pa.DataType:
    return kind.facts.arrow if isinstance(kind, IntervalType) else type_to_arrow(kind)


def _check_names(schemas: Iterable[pa.Schema]) -> None:
    """Raise InvalidInputError for a table with columns, or fields, that are one for duckdb, which finds the first."""
    for schema in map(from_arrow, schemas):
        for data_type in (schema, *types_in(schema)):
            if twice := repeated_in_other_case(data_type):
                raise InvalidInputError(
                    f"duckdb cannot tell {', '.join(twice)} apart, which differ only in case: use Spark's dialect, or"
                    " table.to_arrow(where=...)"
                )


def _as_written(connection: duckdb.DuckDBPyConnection, text: str) -> pa.RecordBatchReader:
    """The rows of a query in duckdb's own SQL."""
    found = connection.sql(text)
    if found is None:
        raise ValueError("it has no rows")
    reader = connection.sql(f"SELECT {_columns(found)} FROM ({text}) AS txlog").to_arrow_reader(_BATCH_ROWS)
    return reader.cast(pa.schema([_in_utc(field) for field in reader.schema]))


def _as(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [_shaped(column, field.type) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _shaped(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """The column as this type, also where duckdb has integers in place of nulls without a type."""
    if column.type == kind:
        return column
    if pa.types.is_null(kind):
        return pa.nulls(len(column))
    if pa.types.is_struct(kind):
        parts = [_shaped(part, member.type) for part, member in zip(column.flatten(), kind, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=column.is_null())
    if pa.types.is_list(kind):
        offsets, mask = offsets_and_mask(column)
        return pa.ListArray.from_arrays(offsets, _shaped(column.flatten(), kind.value_type), kind, mask=mask)
    return column.cast(kind)


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


def _nullable(kind: pa.DataType) -> pa.DataType:
    """The type, in which any part may be null: an expression promises no more."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, _nullable(each.type), metadata=each.metadata) for each in kind])
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", _nullable(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(_nullable(kind.key_type), _nullable(kind.item_type))
    return kind


def _without_void(column: pa.Array) -> pa.Array:
    """Nulls without a type are integers in duckdb."""
    kind = _with_integers(column.type)
    return column if kind is column.type else column.cast(kind)


def _with_integers(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_null(kind):
        return pa.int32()
    if pa.types.is_struct(kind):
        members = [(member.name, _with_integers(member.type)) for member in kind]
        changes = any(found is not member.type for (_, found), member in zip(members, kind, strict=True))
        return pa.struct(members) if changes else kind
    if pa.types.is_list(kind):
        found = _with_integers(kind.value_type)
        return kind if found is kind.value_type else pa.list_(found)
    return kind


def _array(column: Any, kind: pa.DataType) -> pa.Array:
    """A column of duckdb's as the kernels take it."""
    return _shaped(one_array(column), kind)


def _register(connection: duckdb.DuckDBPyConnection, name: str, rows: Any) -> None:
    """Name a table, so that duckdb itself compares the columns that can hold NaN.

    NaN is above all numbers in duckdb, as in Spark. But duckdb has Arrow filter the rows that it reads (by WHERE, the
    keys of a join, the best rows so far of a LIMIT), and Arrow finds NaN above nothing: rows would be lost. It hands
    over only filters on bare columns, so these columns are a CASE with the same values. The filters on others still
    skip files, and columns that are not needed are not read.
    """
    numbers = [f"c{at}" for at in range(len(rows.schema))]
    floats = [column for column, field in zip(numbers, rows.schema, strict=True) if may_hold_nan(field.type)]
    if not floats:
        connection.register(name, rows)
        return
    connection.register(f"{name}_read", rows)
    same = ", ".join(f"CASE WHEN {column} IS NULL THEN NULL ELSE {column} END AS {column}" for column in floats)
    given = numbers if repeated_in_other_case(from_arrow(rows.schema)) else map(identifier, rows.schema.names)
    connection.execute(
        f"CREATE TEMP VIEW {name}({', '.join(given)}) AS"
        f" SELECT * REPLACE ({same}) FROM {name}_read AS r({', '.join(numbers)})"
    )


def _columns(found: duckdb.DuckDBPyRelation) -> str:
    """All columns; sums of integers are a bigint, as in Spark, and not duckdb's own type of 128 bits."""
    columns = []
    for number, (name, kind) in enumerate(zip(found.columns, found.types, strict=True), 1):
        quoted = identifier(name)
        columns.append(f"CAST(#{number} AS BIGINT) AS {quoted}" if str(kind) == "HUGEINT" else f"#{number} AS {quoted}")
    return ", ".join(columns)


def _failed(query: Query, error: BaseException) -> InvalidInputError:
    """What txlog's functions say of a row is the reason itself, also where duckdb's text for one of them says it."""
    _, is_own, why = str(error).partition(OWN_ERROR)
    if is_own or isinstance(error, InvalidInputError):
        return InvalidInputError(f"{why or error} (in the query at {query.at})")
    return InvalidInputError(f"duckdb cannot run the query at {query.at}: {error}")
