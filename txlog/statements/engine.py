"""Who runs the queries of SQL, and the work of commands.

In: a `Query` with the tables that it reads, each at one version. Out: rows, which the same engine writes to tables.
`LocalEngine` has duckdb run queries, and this process do the work; Spark's is ``txlog.spark.statements``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, get_args

import msgspec
import pyarrow as pa

from txlog.core.catalogs import TablePlace
from txlog.core.changes.plan import MergeBuilder, RowOptions, merge_rows
from txlog.core.format.schema import Field, Struct, from_arrow, type_to_arrow
from txlog.core.format.time_zones import zone_name
from txlog.core.operations import WriteOptions, write_steps
from txlog.core.points import Point
from txlog.core.util import UTC, how_to_install, invalid
from txlog.errors import InvalidInputError
from txlog.extend import open_table_of
from txlog.snapshot import Snapshot
from txlog.statements.query import Query
from txlog.statements.store_assignment import as_stored
from txlog.table import Table, write

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from txlog.core.changes.tasks.operations import MergeOptions
    from txlog.core.workers import GivenWorkers
    from txlog.core.writing.commit_options import CommitOptions
    from txlog.core.writing.write_intent import RowMode
    from txlog.result import WriteResult
    from txlog.statements.duckdb_query import Duckdb
    from txlog.statements.names import TableName

QueryEngine: TypeAlias = Literal["duckdb", "sail"]


class Source(msgspec.Struct, frozen=True):
    """One table of a query: a version of it, or with ``changes``, the arguments of `Table.changes`."""

    table: Table
    snapshot: Snapshot
    changes: Mapping[str, Any] | None = None


class Session(msgspec.Struct, frozen=True):
    """What a session says about its statements, where they do not say it themselves.

    ``transaction`` names a change, so that it is made once. INSERT OVERWRITE replaces only the partitions that its
    rows are in, with ``overwrites_partitions``; with ``merges_schema``, INSERT BY NAME adds columns. ``properties`` are
    for new tables, ``optimizing`` and ``vacuuming`` arguments of `Table.optimize` and `Table.vacuum`.
    """

    user_metadata: str | None = None
    transaction: tuple[str, int] | None = None
    row_mode: RowMode | None = None
    overwrites_partitions: bool = False
    merges_schema: bool = False
    properties: Mapping[str, str] = msgspec.field(default_factory=dict)
    optimizing: Mapping[str, Any] = msgspec.field(default_factory=dict)
    vacuuming: Mapping[str, Any] = msgspec.field(default_factory=dict)
    drops_missing_constraints: bool = False

    def of_change(self) -> dict[str, Any]:
        """The arguments of `Table.delete` and `Table.update` that it gives."""
        app_id, checkpoint_id = self.transaction or (None, None)
        given = {"app_id": app_id, "checkpoint_id": checkpoint_id, "user_metadata": self.user_metadata}
        return {**given, "row_mode": self.row_mode}


class Engine(Protocol):
    """``Rows`` are the engine's own: a stream of Arrow batches, or a DataFrame. `write` and `merge` themselves do what
    the session says; the runner does it for what is a call of `Table`."""

    @property
    def workers(self) -> GivenWorkers | None:
        """Where commands work; None for this process."""

    def session(self, *what: str, table: Table | None = None) -> Session:
        """What the session says now. Raises UnsupportedFeatureError if it says what these kinds of statements, or
        changes of this table, cannot do."""

    def has_named(self, session: Session) -> None:
        """Called after a change that has the transaction of ``session``."""

    @property
    def time_zone(self) -> str:
        """The zone of times without one, in queries and in commands."""

    @property
    def keeps_names(self) -> str | None:
        """How its own session keeps views and a current schema, if it does: statements then do not."""

    @property
    def no_transactions(self) -> str | None:
        """Why several statements cannot be one transaction here, if they cannot."""

    def has_table(self, name: str) -> bool:
        """Whether the engine itself has a table or view that the catalog lacks."""

    def check(self, query: Query, *, is_alone: bool) -> None:
        """Raise if nothing here can run such a query. ``is_alone``: no statement runs before it."""

    def check_own(self, name: TableName, target: Table) -> None:
        """Raise if a table or view of the engine's own, whose rows change a table, reads this table itself: at which
        version, nobody knows."""

    def query(self, query: Query, sources: Sequence[Source | None]) -> Any:
        """The rows of a query. None for a table that the engine has."""

    def conditions(self, query: Query, sources: Sequence[Source | None]) -> list[str | None]:
        """By which conditions on each table the query skips files. Raises InvalidInputError if nobody tells."""

    def told(self, rows: pa.Table) -> Any:
        """Rows about a table."""

    def columns_of(self, rows: Any) -> list[str]:
        """The names of the columns, whatever their types."""

    def schema_of(self, rows: Any) -> Struct:
        """The columns. Raises UnsupportedFeatureError for types that no table can have."""

    def stored(self, rows: Any, fields: Sequence[Field], constants: Mapping[Field, pa.Scalar], *, by_name: bool) -> Any:
        """The rows cast to ``fields``, of which there are as many as columns, and columns with one value for all rows.

        Fields of structs go by position, or with ``by_name`` by their names. A value that does not fit is an error,
        here or when the rows are read, never another value.
        """

    def write(self, place: Table | TablePlace, rows: Any, mode: str, options: Mapping[str, Any]) -> Any:
        """Append to or overwrite a table, with the options of `WriteOptions`; or create one at a place, with the
        arguments of `txlog.write`."""

    def merge(self, table: Table, rows: Any, merge: MergeOptions, commit: CommitOptions) -> MergeBuilder[WriteResult]:
        """`Table.merge`."""


class RunsQueries(Protocol):
    """Another engine than duckdb, for the queries of one session."""

    def rows(self, query: Query, sources: Sequence[Source | None]) -> pa.RecordBatchReader:
        """The rows of a query. Raises InvalidInputError for one that the engine cannot run."""


class QueryEngineOf(Protocol):
    """What a package offers in the group ``txlog.query_engines``."""

    def __call__(self, time_zone: str) -> RunsQueries:
        """The engine, for queries in which times without a zone are in this one."""


QUERY_ENGINES: Final[Point[QueryEngineOf]] = Point("txlog.query_engines", "the query engine")


class LocalEngine:
    """This process, with duckdb or another engine for queries. Commands work on ``workers``, if there are any."""

    def __init__(
        self, workers: GivenWorkers | None = None, time_zone: str | ZoneInfo = UTC, engine: QueryEngine = "duckdb"
    ) -> None:
        if engine not in get_args(QueryEngine):
            raise invalid("engine", engine, "'duckdb' or 'sail'")
        self.workers = workers
        self.time_zone = zone_name(time_zone)
        self.keeps_names = None
        self.no_transactions = None
        self._engine = engine
        self._duckdb: Duckdb | None = None
        self._other: RunsQueries | None = None

    def session(self, *what: str, table: Table | None = None) -> Session:
        return Session()

    def has_named(self, session: Session) -> None:
        """There are no transactions."""

    def has_table(self, name: str) -> bool:
        return False

    def check(self, query: Query, *, is_alone: bool) -> None:
        if query.dialect == "duckdb" and self._engine != "duckdb":
            raise InvalidInputError(
                f"the query at {query.at} is in duckdb's own SQL, which engine='{self._engine}' does not read: leave"
                " out one of dialect= and engine=; nothing was run"
            )
        if query.whole is None:
            self._started()
            if query.dialect == "spark" and self._engine == "duckdb" and not is_alone:  # or else it says so itself
                from txlog.statements.duckdb_query import check_calls

                check_calls(query)

    def check_own(self, name: TableName, target: Table) -> None:
        """There are none."""

    def query(self, query: Query, sources: Sequence[Source | None]) -> pa.RecordBatchReader:
        if query.whole is None and self._engine != "duckdb":
            return self._started_other().rows(query, sources)
        given = [_rows(source) for source in sources if source is not None]
        if query.whole is not None:
            rows = given[0] if isinstance(given[0], pa.RecordBatchReader) else given[0].scanner().to_reader()
            return rows if query.whole.limit is None else _first(rows, query.whole.limit)
        return self._started_duckdb().run(query, given)

    def _started(self) -> None:
        """Raises InvalidInputError if the engine is not installed."""
        if self._engine == "duckdb":
            self._started_duckdb()
        else:
            self._started_other()

    def _started_other(self) -> RunsQueries:
        if self._other is None:
            self._other = QUERY_ENGINES.load(self._engine)(self.time_zone)
        return self._other

    def _started_duckdb(self) -> Duckdb:
        """One for all queries, since it takes far longer to start than a short query. Raises InvalidInputError."""
        if self._duckdb is None:
            try:
                from txlog.statements.duckdb_query import Duckdb
            except ModuleNotFoundError:
                message = f"a query is run by duckdb, which is not installed: {how_to_install('sql')}. Nothing was run"
                raise InvalidInputError(message) from None
            self._duckdb = Duckdb(self.time_zone)
        return self._duckdb

    def conditions(self, query: Query, sources: Sequence[Source | None]) -> list[str | None]:
        if query.whole is not None or query.dialect == "duckdb":
            return [None] * len(sources)
        if self._engine != "duckdb":
            raise InvalidInputError(f"{self._engine} plans queries itself: EXPLAIN needs engine='duckdb'")
        self._started_duckdb()  # or an error that says how to install it
        from txlog.statements.duckdb_query import conditions_of

        given = [_rows(source) for source in sources if source is not None]
        return conditions_of(query, [rows.schema for rows in given], self.time_zone)

    def told(self, rows: pa.Table) -> pa.Table:
        return rows

    def columns_of(self, rows: pa.RecordBatchReader) -> list[str]:
        return list(rows.schema.names)

    def schema_of(self, rows: pa.RecordBatchReader) -> Struct:
        return from_arrow(rows.schema)

    def stored(
        self,
        rows: pa.RecordBatchReader,
        fields: Sequence[Field],
        constants: Mapping[Field, pa.Scalar],
        *,
        by_name: bool,
    ) -> pa.RecordBatchReader:
        return _with_constants(as_stored(rows, fields, self.time_zone, by_name=by_name), constants)

    def write(
        self, place: Table | TablePlace, rows: pa.RecordBatchReader, mode: str, options: Mapping[str, Any]
    ) -> WriteResult:
        if isinstance(place, TablePlace):
            return write(place, rows, mode, time_zone=self.time_zone, **options)  # type: ignore[arg-type]
        open_table = open_table_of(place)
        return open_table.run(write_steps(open_table, rows, WriteOptions(mode=mode, **options)))

    def merge(
        self, table: Table, rows: pa.RecordBatchReader, merge: MergeOptions, commit: CommitOptions
    ) -> MergeBuilder[WriteResult]:
        options, given = RowOptions(commit=commit), (open_table_of(table), rows, merge)
        return MergeBuilder(table.uri, merge, lambda clauses: merge_rows(*given, clauses, options))


def _rows(source: Source) -> Any:
    if source.changes is not None:
        return source.table.changes(**source.changes).to_batches()
    return source.snapshot.to_dataset()


def _first(rows: pa.RecordBatchReader, limit: int) -> pa.RecordBatchReader:
    def batches() -> Iterator[pa.RecordBatch]:
        left = limit
        while left and (batch := next(rows, None)) is not None:
            yield (found := batch.slice(0, left))
            left -= len(found)

    return pa.RecordBatchReader.from_batches(rows.schema, batches())


def _with_constants(rows: pa.RecordBatchReader, constants: Mapping[Field, pa.Scalar]) -> pa.RecordBatchReader:
    if not constants:
        return rows
    schema = pa.schema([*rows.schema, *(pa.field(field.name, type_to_arrow(field.type)) for field in constants)])

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in rows:
            columns = [*batch.columns, *(pa.repeat(value, len(batch)) for value in constants.values())]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())
