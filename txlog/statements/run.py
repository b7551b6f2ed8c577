"""Runs statements: each is a call of `Table` or `Catalog`, as a user of Python would write it.

In: statements, an engine, and a catalog. Out: rows for queries and for what tells about tables, else the result of the
call. A script is checked as a whole before its first statement runs: every table that it names exists, or is made by a
statement before, and the engine can run its queries.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial, singledispatchmethod
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from txlog.catalog import Catalog
from txlog.core import ambient
from txlog.core.catalogs import TablePlace, named_table
from txlog.core.changes.tasks.operations import MergeOptions
from txlog.core.format.properties import path_text
from txlog.core.format.schema import Array, Field, Map, Struct, backquoted, fold_name, type_name
from txlog.core.parallel import begin
from txlog.core.predicates import Sql, evaluate, parse
from txlog.core.row_rules import without_computed
from txlog.core.versions import KEPT_MAX, CachedTable
from txlog.core.wording import setting
from txlog.core.writing.commit_options import PLAIN_COMMIT, CommitOptions
from txlog.errors import (
    ConflictError,
    InvalidInputError,
    NotFoundError,
    TableExistsError,
    TableNotFoundError,
    TxlogError,
    UnsupportedFeatureError,
)
from txlog.extend import open_table_of
from txlog.result import counted
from txlog.snapshot import Snapshot
from txlog.statements import results as told
from txlog.statements.alter import alter, branch_of
from txlog.statements.changes import AlterTable, CheckBranch, ColumnComment, CreateBranch, DiffBranch, RenameTable
from txlog.statements.engine import Engine, Session, Source
from txlog.statements.names import AsOf, TableName
from txlog.statements.query import ChangesOf, Query, Reading, names_in
from txlog.statements.rows import (
    KEYS,
    SOURCE,
    Assignments,
    ChangeByQuery,
    CopyInto,
    Delete,
    Insert,
    Merge,
    Update,
    is_default,
)
from txlog.statements.session_names import SessionNames, keeps_names
from txlog.statements.show import (
    Describe,
    DescribeDetail,
    DescribeHistory,
    DescribeQuery,
    Explain,
    ShowBranches,
    ShowColumns,
    ShowCreate,
    ShowPartitions,
    ShowProperties,
    ShowSchemas,
    ShowTables,
    ShowViews,
)
from txlog.statements.show_create import create_text
from txlog.statements.sql_result import committed
from txlog.statements.store_assignment import as_cast, as_literal, constant
from txlog.statements.tables import Clone, Convert, CreateTable, CreateView, DropTable, DropView, Use
from txlog.statements.transaction_table import TransactionTable
from txlog.statements.transactions import BeginTransaction, CommitTransaction
from txlog.statements.upkeep import Generate, Optimize, Purge, Restore, Vacuum
from txlog.statements.wording import in_copy_into, in_sql, in_words_of_sql
from txlog.table import Table
from txlog.together import transaction

if TYPE_CHECKING:
    from collections.abc import Mapping

    from txlog.core.writing.write_intent import SchemaMode

_RERUNS = 4
"""How often a change by queries begins anew after it lost a race."""
_TABLES, _SCHEMAS = ("SHOW TABLES",), ("SHOW SCHEMAS",)
_FORMATS_OF_FILES = ("parquet", "csv", "json", "orc", "avro", "text", "iceberg")
_PASS_ONE = "pass the catalog (on the command line: --catalog)"
_BY_LOCATION = " A table by its location has a slash, as delta.`./location`"


class Runner:
    """What runs the statements of one session. ``catalog`` None: tables are named by location only."""

    def __init__(
        self, engine: Engine, catalog: Catalog | None = None, storage_options: Mapping[str, str] | None = None
    ) -> None:
        self._engine = engine
        self._catalog = catalog
        self._options = storage_options
        self._names = SessionNames()
        self._kept: OrderedDict[str, tuple[Table, CachedTable]] = OrderedDict()
        """The tables that statements have opened, by the keys of their names, least recently used first: what a handle
        knows of a table and of its keys serves all statements."""
        self._members: Mapping[str, TransactionTable] = {}
        """The tables of the transaction that runs, by the keys of their names."""

    def run(self, statements: Sequence[Any]) -> Iterator[Any]:
        """The result of each statement, run when it is asked for. Raises what the calls raise."""
        statements = self._check_tables(self._placed(statements))
        for query in filter(None, map(_query, statements)):
            self._engine.check(query, is_alone=len(statements) == 1)
        if self._engine.no_transactions is not None and any(isinstance(each, BeginTransaction) for each in statements):
            raise UnsupportedFeatureError(f"{self._engine.no_transactions}; nothing was run")
        return self._results(statements)

    def _results(self, statements: Iterable[Any]) -> Iterator[Any]:
        rest = iter(statements)
        for statement in rest:
            if isinstance(statement, BeginTransaction):
                yield from self._run_together([*takewhile(lambda each: not isinstance(each, CommitTransaction), rest)])
            else:
                yield self._run_one(statement)

    def _run_together(self, statements: Sequence[Any]) -> Iterator[Any]:
        """The results of the statements, and of their commit. If one fails, or the caller ends the iteration, nothing
        lands."""
        with in_words_of_sql(in_sql):
            opened = {name.key: (name, self._open(name)) for each in statements for name in self._together(each)}
            if not opened:
                raise InvalidInputError("this transaction changes and reads no table: leave BEGIN and COMMIT out")
            names = {table.uri: name.text for name, table in reversed(opened.values())}
            tables = {table.uri: table for _, table in opened.values()}
            with transaction([*tables.values()]) as joint:
                members = {uri: TransactionTable(table, joint[table]) for uri, table in tables.items()}
                self._members = {key: members[table.uri] for key, (_, table) in opened.items()}
                try:
                    for statement in statements:
                        yield self._run_one(statement)
                finally:
                    self._members = {}
        yield self._engine.told(committed(zip((names[uri] for uri in tables), joint.results, strict=True)))

    def _together(self, statement: Any) -> Iterator[TableName]:
        """The tables of a statement that take part in its transaction."""
        target: TableName | None = getattr(statement, "table", None)
        if target is not None:
            yield target
        query = _query(statement)
        for reading in () if query is None else query.readings:
            if _reads_newest(reading) and not self._is_engines(reading.table):
                yield reading.table

    def _placed(self, statements: Sequence[Any]) -> list[Any]:
        """The statements with what the session, and the statements before each, make of names."""
        names, found = self._names, []
        for statement in statements:
            if keeps_names(statement) and self._engine.keeps_names is not None:
                raise InvalidInputError(f"{self._engine.keeps_names}; nothing was run")
            found.append(names.placed(statement))
            names = names.after(found[-1])
        return found

    def _run_one(self, statement: Any) -> Any:
        try:
            with in_words_of_sql(in_copy_into if isinstance(statement, CopyInto) else in_sql):
                return self._run(statement)
        finally:
            if _changes_names(statement):
                self._kept.clear()

    # --- tables ---------------------------------------------------------------------------------------------------

    def _check_tables(self, statements: Sequence[Any]) -> list[Any]:
        """The statements, each with its table. Raises TableNotFoundError."""
        made: dict[str, bool] = {}
        """The tables that statements so far make, and remove."""
        branches: set[str] = set()
        """The locations of the branches that statements so far make."""
        found: set[tuple[str, bool]] = set()
        """The tables that are there, and whether a statement changes them: nothing is asked twice."""
        checked = []
        for statement in statements:
            if isinstance(statement, ColumnComment):
                statement = statement.on(self._commented(statement, made))
            checked.append(statement)
            for name in _needed(statement):
                is_written = name is getattr(statement, "table", None)
                if (name.key, is_written) in found and name.key not in made:
                    continue
                found.add((name.key, is_written))
                is_there = made[name.key] if name.key in made else self._is_there(name, is_written=is_written)
                if not is_there and not (branches and self._branch_location(name) in branches):
                    raise TableNotFoundError(
                        f"there is no table {name.text}, which is named at {name.at}; nothing was run."
                        f"{self._where(name)}",
                        table=name.location or (self._catalog.uri if self._catalog else None),
                    )
            if isinstance(statement, CreateTable | Clone):
                made[statement.table.key] = True
            elif isinstance(statement, Convert):
                made[statement.location] = True
            elif isinstance(statement, DropTable):
                made[statement.table.key] = False
            elif isinstance(statement, AlterTable) and isinstance(statement.change, RenameTable):
                made[statement.table.key], made[statement.change.name.key] = False, True
            elif isinstance(statement, AlterTable) and isinstance(statement.change, CreateBranch):
                branches.add(f"{self._location(statement.table)}@{statement.change.name}")
        return checked

    def _location(self, name: TableName) -> str:
        """A table's location in one spelling; as it is written if the table is not there yet."""
        with suppress(TableNotFoundError):
            return self._opened_anew(name).uri
        return name.key

    def _branch_location(self, name: TableName) -> str | None:
        """``/data/sales@backfill`` for a location with an ``@``, in one spelling."""
        table, at, branch = (name.location or "").rpartition("@")
        return f"{self._location(TableName(('delta', table), name.at))}@{branch}" if at else None

    def _commented(self, comment: ColumnComment, made: Mapping[str, bool]) -> TableName:
        """The table of a column; if there is none, the one with the longest name that there could be."""
        possible = []
        for name in comment.tables:
            with suppress(InvalidInputError):  # more parts than the catalog's names have
                if made[name.key] if name.key in made else self._exists(name):
                    return name
                possible.append(name)
        return (possible or comment.tables)[0]

    def _where(self, name: TableName) -> str:
        """What an error says of where a table of this name would be."""
        if name.location is not None:
            return ""
        why = ""
        try:
            self._named(name).names.resolve(name.text)
        except TxlogError as error:
            _, _, why = error.template.partition(" in this catalog: ")
        return f" {why[0].upper()}{why[1:]}.{_BY_LOCATION}" if why else _BY_LOCATION

    def _exists(self, name: TableName) -> bool:
        if name.location is not None:
            return Table.exists(name.location, storage_options=self._options)
        return self._named(name).exists(name.text)

    def _is_there(self, name: TableName, *, is_written: bool) -> bool:
        return (not is_written and self._is_engines(name)) or self._exists(name)

    def _is_engines(self, name: TableName) -> bool:
        """Whether the engine has a table or view of this name, which the catalog does not hide."""
        if name.location is not None or not self._engine.has_table(name.text):
            return False
        try:
            return self._catalog is None or not self._catalog.exists(name.text)
        except InvalidInputError:  # no name that this catalog could have
            return True

    def _named(self, name: TableName) -> Catalog:
        if self._catalog is None and name.parts in (_TABLES, _SCHEMAS):
            raise InvalidInputError(f"{name.text} lists the tables of a catalog: {_PASS_ONE}")
        if "/" in name.text and name.parts[0].lower() in _FORMATS_OF_FILES:
            raise InvalidInputError(
                f"{name.text} is not a Delta table: CONVERT TO DELTA parquet.`path` makes a table of Parquet files, and"
                " COPY INTO loads Parquet, CSV and JSON files into a table"
            )
        if self._catalog is None:
            of_delta = len(name.parts) == 2 and name.parts[0].lower() == "delta"
            location = f"./{name.parts[1]}" if of_delta else name.text if "/" in name.text else "./location"
            raise InvalidInputError(
                f"{name.text} is a name, and there is no catalog: {_PASS_ONE}, or write a location, which has a slash,"
                f" as delta.{backquoted(location)}"
            )
        return self._catalog

    def _open(self, name: TableName) -> Table:
        """The table of a name, whose newest version is known then. It stays open for the script, as long as the name is
        its name and no other table is in its place."""
        table, kept = self._kept.pop(name.key, (None, None))
        is_there = begin(partial(self._is_at, name, table)) if table is not None else bool  # beside the look at it
        if table is None or kept is None or not _is_current(kept) or not is_there():
            table = self._opened_anew(name)
            open_table = open_table_of(table)
            kept = CachedTable.of(open_table, open_table.known_state())
        self._kept[name.key] = table, kept
        while len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)
        return table

    def _is_at(self, name: TableName, table: Table) -> bool:
        """Whether a name is still the one of this table, and not of one elsewhere. A catalog that owns the versions of
        its tables is asked by the look at the table."""
        if name.location is not None or open_table_of(table).is_found_by_versions:
            return True
        try:
            return self._named(name).names.resolve(name.text).uri == table.uri
        except NotFoundError:
            return False

    def _opened_anew(self, name: TableName) -> Table:
        workers, zone = self._engine.workers, self._engine.time_zone
        if name.location is not None:
            return Table.open(name.location, storage_options=self._options, workers=workers, time_zone=zone)
        return self._named(name).table(name.text, workers=workers, time_zone=zone)

    def _create(self, name: TableName, location: str | None, make: Callable[[TablePlace], Any]) -> Any:
        """Have ``make`` create a table at the place for a name, or at a location that then gets the name."""
        at = name.location or location
        if at is None:
            return self._named(name).names.create(name.text, make)
        if name.location is None:
            self._named(name).names.require_registrable(name.text)
        named = named_table(at, self._options, None)
        made = make(TablePlace(at, name.text, self._options)) if named is None else named[0].create(named[1], make)
        if name.location is None:
            self._named(name).register(name.text, at)
        return made

    def _target(self, name: TableName) -> Any:
        """The table that a statement changes: a `Table`, or a `TransactionTable` of the transaction that runs."""
        return self._members.get(name.key) or self._open(name)

    def _write(self, target: Table | TransactionTable, rows: Any, mode: str, options: Mapping[str, Any]) -> Any:
        if isinstance(target, TransactionTable):
            return target.write(rows, mode, options)
        return self._engine.write(target, rows, mode, options)

    def _merge(self, target: Table | TransactionTable, rows: Any, merge: MergeOptions, commit: CommitOptions) -> Any:
        if isinstance(target, TransactionTable):
            return target.merge(rows, merge)
        return self._engine.merge(target, rows, merge, commit)

    def _snapshot(self, table: Table, as_of: AsOf) -> Snapshot:
        if as_of.timestamp is not None:
            return table.snapshot(timestamp=_moment(as_of.timestamp, self._engine.time_zone))
        return table.snapshot(as_of.version)

    def _rows(self, query: Query) -> Any:
        return self._engine.query(query, self._sources(query))

    def _rows_for(self, target: Table, query: Query) -> tuple[Any, CommitOptions]:
        """The rows of a query, and how to commit what they do to a table. They depend on it if the query reads the
        version that was the newest: the rows of an older one stay what they are."""
        sources = self._sources(query)
        for reading, source in zip(query.readings, sources, strict=True):
            if source is None:
                self._engine.check_own(reading.table, target)
        read = [
            source.snapshot.version
            for reading, source in zip(query.readings, sources, strict=True)
            if source is not None and source.table.uri == target.uri and _reads_newest(reading)
        ]
        commit = CommitOptions(read_version=read[0], reads_table=True) if read else PLAIN_COMMIT
        return self._engine.query(query, sources), commit

    def _sources(self, query: Query) -> list[Source | None]:
        opened: dict[str, tuple[Table, Snapshot]] = {}
        return [self._source(reading, opened) for reading in query.readings]

    def _source(self, reading: Reading, opened: dict[str, tuple[Table, Snapshot]]) -> Source | None:
        """A table of a query. The newest version is the same wherever a statement names the table."""
        name = reading.table
        if self._is_engines(name):
            return None
        member = self._members.get(name.key)
        if member is not None and _reads_newest(reading):
            if reading.changes is not None:
                raise InvalidInputError(
                    f"the changes of {name.text}, which are read at {name.at}, go up to its newest version, which a"
                    " transaction does not fix: name the last version too",
                    table=member.uri,
                )
            return member.source(reading)
        if name.key not in opened:
            table = self._open(name)
            opened[name.key] = table, table.snapshot()
        table, snapshot = opened[name.key]
        if reading.as_of != AsOf():
            snapshot = self._snapshot(table, reading.as_of)
        return Source(
            table, snapshot, None if reading.changes is None else _span(reading.changes, self._engine.time_zone)
        )

    # --- statements -----------------------------------------------------------------------------------------------

    @singledispatchmethod
    def _run(self, statement: Any) -> Any:
        raise AssertionError(f"no runner for {type(statement).__name__}")

    @_run.register
    def _(self, statement: Query) -> Any:
        return self._rows(statement)

    @_run.register
    def _(self, statement: Insert) -> Any:
        table = self._target(statement.table)
        snapshot = table.snapshot()
        fields = list(snapshot.delta_schema.fields)
        _check_partition(statement, snapshot.partition_columns)
        zone = self._engine.time_zone
        constants = {(field := _field(fields, name)): constant(text, field, zone) for name, text in statement.partition}
        given = [field for field in fields if field not in constants]
        if statement.with_defaults:
            statement = _with_defaults(statement, given, without_computed(snapshot.delta_schema))
        session = self._engine.session("insert")
        rows, commit = self._rows_for(table, statement.query)
        merges = statement.merges_schema or (session.merges_schema and self._has_more(statement, fields, rows))
        options: dict[str, Any] = {"schema_mode": "merge"} if merges else {}
        if not (merges and statement.by_name):
            columns = self._columns(statement, given, rows)
            rows = self._engine.stored(rows, columns, constants, by_name=statement.by_name)
        if not (statement.overwrites or statement.where):
            return self._write(table, rows, "append", options | {"commit": commit})
        where = statement.where
        if where is None and not session.overwrites_partitions:
            where = " AND ".join(
                f"{backquoted(field.name)} <=> {as_literal(value, field.type)}" for field, value in constants.items()
            )
        options |= {"where": where or None, "commit": _reruns(commit)}
        return self._write(table, rows, "overwrite", options)

    def _has_more(self, statement: Insert, fields: Sequence[Field], rows: Any) -> bool:
        """Whether the rows of INSERT BY NAME have columns that the table lacks."""
        known = {fold_name(field.name) for field in fields}
        return statement.by_name and any(fold_name(name) not in known for name in self._engine.columns_of(rows))

    def _columns(self, statement: Insert, fields: Sequence[Field], rows: Any) -> list[Field]:
        """The field that each column of the rows goes to. Raises InvalidInputError if one has none, or two have one."""
        names = self._engine.columns_of(rows)
        try:
            found = _filled(fields, names if statement.by_name else statement.columns)
        except InvalidInputError as error:
            if self._has_more(statement, fields, rows):
                error.template += f"; {setting('schema_mode', 'merge')} adds those that the table lacks"
            raise
        if len(names) != len(found):
            raise InvalidInputError(
                f"the query has {counted(len(names), 'column')}, and the statement fills {len(found)}:"
                f" {', '.join(field.name for field in found)}; name the columns: INSERT INTO table (a, b) SELECT ..."
            )
        return found

    @_run.register
    def _(self, statement: Delete) -> Any:
        table = self._target(statement.table)
        session = self._engine.session("delete", table=table)
        result = table.delete(statement.where, all=statement.where is None, **session.of_change())
        self._engine.has_named(session)
        return result

    @_run.register
    def _(self, statement: Update) -> Any:
        table = self._target(statement.table)
        schema, session = table.snapshot().delta_schema, self._engine.session("update", table=table)
        result = table.update(_values(schema, statement.values), statement.where, **session.of_change())
        self._engine.has_named(session)
        return result

    @_run.register
    def _(self, statement: ChangeByQuery) -> Any:
        """The rows of the query are the values of the columns that its conditions name, for which they hold: a merge
        finds the rows with these values, whatever the conditions are. It begins anew if it loses a race."""
        for _ in range(_RERUNS):
            try:
                return self._change_by_query(statement)
            except ConflictError:
                continue
        return self._change_by_query(statement)

    def _change_by_query(self, statement: ChangeByQuery) -> Any:
        table = self._target(statement.table)
        schema = table.snapshot().delta_schema
        columns = _columns_named(statement, schema)
        rows, commit = self._rows_for(table, statement.selecting(columns))
        alias = backquoted(statement.alias)
        on = " AND ".join(f"{alias}.{backquoted(name)} <=> {SOURCE}.{KEYS}{at}" for at, name in enumerate(columns))
        merge = self._merge(table, rows, MergeOptions(on, SOURCE, statement.alias), commit)
        if statement.values is None:
            merge.when_matched_delete()
        else:
            merge.when_matched_update(_values(schema, statement.values))
        return merge.execute()

    @_run.register
    def _(self, statement: Merge) -> Any:
        table = self._target(statement.table)
        rows, commit = self._rows_for(table, statement.query)
        schema = table.snapshot().delta_schema
        schema_mode: SchemaMode = "merge" if statement.merges_schema else "strict"
        options = MergeOptions(statement.on, statement.source_alias, statement.alias, schema_mode)
        merge = self._merge(table, rows, options, commit)
        for clause in statement.clauses:
            how = f"when_{clause.when.replace(' ', '_')}_{clause.then}"
            if clause.then == "delete":
                getattr(merge, how)(clause.condition)
            elif clause.values is None:
                getattr(merge, f"{how}_all")(clause.condition)
            else:
                values = _given(schema, clause.values) if clause.then == "insert" else clause.values
                getattr(merge, how)(_values(schema, values), clause.condition)
        return merge.execute()

    @_run.register
    def _(self, statement: CopyInto) -> Any:
        table, options = self._open(statement.table), _copy_options(statement)
        session = self._engine.session("copy", table=table)
        if session.merges_schema:
            options.setdefault("schema_mode", "merge")
        return table.copy_into(statement.source, **options, user_metadata=session.user_metadata)

    @_run.register
    def _(self, statement: CreateTable) -> Any:
        exists = self._exists(statement.table)
        if exists and statement.if_not_exists:
            return None
        if exists and not statement.replaces:
            raise TableExistsError(f"there is already a table {statement.table.text}", table=statement.table.location)
        if statement.query is not None:
            return self._create_as(statement, exists=exists)
        if exists:
            raise InvalidInputError(
                f"{statement.table.text} exists, and a table is replaced only by the rows of a query: CREATE OR REPLACE"
                " TABLE ... AS SELECT. Drop it first, or change it with ALTER TABLE"
            )
        if statement.columns is None:
            if statement.location is None:
                raise InvalidInputError(f"CREATE TABLE {statement.table.text} needs columns, a query or a LOCATION")
            self._named(statement.table).register(statement.table.text, statement.location)
            return None
        return self._create(statement.table, statement.location, lambda place: self._create_empty(place, statement))

    def _create_empty(self, place: TablePlace, statement: CreateTable) -> None:
        session = self._engine.session("create")
        properties = {
            **_with_defaults_of(session, statement.properties),
            **{f"delta.constraints.{name}": condition for name, condition in statement.constraints},
        }
        Table.create(
            place,
            statement.columns,
            statement.partition_by,
            properties,
            cluster_by=statement.cluster_by or None,
            description=statement.comment,
            user_metadata=session.user_metadata,
        )

    def _create_as(self, statement: CreateTable, *, exists: bool) -> Any:
        assert statement.query is not None
        options: dict[str, Any] = {"partition_by": statement.partition_by}
        if exists:
            if statement.properties or statement.cluster_by or statement.comment:
                raise InvalidInputError(
                    f"{statement.table.text} exists, and its properties, clustering and comment stay as they are when"
                    " a query replaces its rows and columns: change them with ALTER TABLE"
                )
            self._engine.session("create_as", "replace")
            table = self._open(statement.table)
            rows, commit = self._rows_for(table, statement.query)
            options |= {"schema_mode": "overwrite", "column_rules": "drop", "commit": _reruns(commit)}
            return self._engine.write(table, rows, "overwrite", options)
        if statement.comment:
            raise InvalidInputError("CREATE TABLE AS cannot have a COMMENT: write COMMENT ON TABLE after it")
        rows = self._rows(statement.query)

        def make(place: TablePlace) -> Any:
            properties = _with_defaults_of(self._engine.session("create_as"), statement.properties)
            made = options | {"properties": properties, "cluster_by": statement.cluster_by or None}
            return self._engine.write(place, rows, "error", made)

        return self._create(statement.table, statement.location, make)

    @_run.register
    def _(self, statement: Clone) -> Any:
        source = self._open(statement.source)
        version = self._snapshot(source, statement.as_of).version
        exists = self._exists(statement.table)
        if exists and statement.if_not_exists:
            return None
        if exists and not statement.replaces:
            raise TableExistsError(f"there is already a table {statement.table.text}", table=statement.table.location)
        session = self._engine.session("clone")

        def make(place: TablePlace) -> Any:
            mode: Any = "replace" if exists else "error"
            shallow, properties, note = statement.is_shallow, dict(statement.properties), session.user_metadata
            return source.clone(place, version, shallow=shallow, mode=mode, properties=properties, user_metadata=note)

        if exists and statement.table.location is None:
            return make(self._named(statement.table).names.resolve(statement.table.text))
        if exists:
            return make(TablePlace(statement.table.location or "", statement.table.text, self._options))
        return self._create(statement.table, statement.location, make)

    @_run.register
    def _(self, statement: Convert) -> Any:
        session = self._engine.session("convert")
        return Table.convert(
            statement.location,
            statement.partition_by,
            properties=session.properties,
            user_metadata=session.user_metadata,
            storage_options=self._options,
            workers=self._engine.workers,
        )

    @_run.register
    def _(self, statement: DropTable) -> Any:
        if statement.table.location is not None:
            raise InvalidInputError("DROP TABLE takes the name of a table in the catalog, not a location")
        self._named(statement.table).drop(statement.table.text, missing_ok=statement.if_exists)

    @_run.register
    def _(self, statement: AlterTable) -> Any:
        if isinstance(statement.change, RenameTable):
            return self._named(statement.table).rename(statement.table.text, statement.change.name.text)
        if isinstance(statement.change, CheckBranch):
            branch = branch_of(self._open(statement.table), statement.change.name)
            return self._engine.told(told.branch_check(branch.check(statement.change.checks)))
        if isinstance(statement.change, DiffBranch):
            branch = branch_of(self._open(statement.table), statement.change.name)
            return self._engine.told(told.branch_diff(branch.diff()))
        return alter(self._target(statement.table), statement.change, self._engine.session("alter"))

    @_run.register
    def _(self, statement: Optimize) -> Any:
        session, names = self._engine.session("optimize"), statement.zorder_by or None
        given = {**session.optimizing, "user_metadata": session.user_metadata}
        return self._open(statement.table).optimize(statement.where, zorder_by=names, **given)

    @_run.register
    def _(self, statement: Purge) -> Any:
        note = self._engine.session("purge").user_metadata
        return self._open(statement.table).purge(statement.where, user_metadata=note)

    @_run.register
    def _(self, statement: Vacuum) -> Any:
        table, session = self._open(statement.table), self._engine.session("vacuum")
        given = {**session.vacuuming, "dry_run": statement.dry_run}
        if statement.lite is not None:
            given["lite"] = statement.lite
        return table.vacuum(statement.retention_hours, **given)

    @_run.register
    def _(self, statement: Generate) -> Any:
        return self._open(statement.table).generate(statement.mode)  # type: ignore[arg-type]  # which refuses others

    @_run.register
    def _(self, statement: Restore) -> Any:
        table, to, note = self._open(statement.table), statement.to, self._engine.session("restore").user_metadata
        moment = None if to.timestamp is None else _moment(to.timestamp, self._engine.time_zone)
        return table.restore(to.version, moment, user_metadata=note)

    @_run.register(CreateView)
    @_run.register(DropView)
    @_run.register(Use)
    def _(self, statement: CreateView | DropView | Use) -> None:
        self._names = self._names.after(statement)

    @_run.register
    def _(self, statement: DescribeQuery) -> Any:
        schema = self._engine.schema_of(self._rows(statement.query))
        return self._engine.told(told.columns(schema) if statement.names_only else told.query_columns(schema))

    @_run.register
    def _(self, statement: Explain) -> Any:
        inner = statement.statement
        given: list[tuple[TableName, Snapshot, str | None]] = []
        if isinstance(inner, Merge):  # whose files its source decides
            given.append((inner.table, self._open(inner.table).snapshot(), None))
        if isinstance(inner, Delete | Update | Optimize | Purge):
            given.append((inner.table, self._open(inner.table).snapshot(), inner.where))
        elif (query := self._explained_query(inner)) is not None:
            sources = self._sources(query)
            conditions = self._engine.conditions(query, sources)
            found = zip(query.readings, sources, conditions, strict=True)
            given += [(reading.table, source.snapshot, where) for reading, source, where in found if source is not None]
        else:
            raise InvalidInputError("EXPLAIN says which files a statement reads: this one reads no rows")
        return self._engine.told(told.files_read((name.text, snapshot, where) for name, snapshot, where in given))

    def _explained_query(self, statement: Any) -> Query | None:
        if isinstance(statement, ChangeByQuery):
            return statement.selecting(_columns_named(statement, self._open(statement.table).snapshot().delta_schema))
        return None if isinstance(statement, Insert) and statement.with_defaults else _query(statement)

    @_run.register
    def _(self, statement: Describe) -> Any:
        table = self._open(statement.table)
        name, extended = _shown_name(statement.table), statement.is_extended
        return self._engine.told(told.description(table.snapshot(), table.uri, name, is_extended=extended))

    @_run.register
    def _(self, statement: DescribeDetail) -> Any:
        table = self._open(statement.table)
        return self._engine.told(told.detail(table.snapshot(), table.uri, _shown_name(statement.table)))

    @_run.register
    def _(self, statement: DescribeHistory) -> Any:
        return self._engine.told(told.history(self._open(statement.table), statement.limit))

    @_run.register
    def _(self, statement: ShowTables) -> Any:
        names = self._named(TableName(_TABLES)).tables(statement.schema)
        return self._engine.told(told.tables(names, statement.pattern))

    @_run.register
    def _(self, statement: ShowColumns) -> Any:
        return self._engine.told(told.columns(self._open(statement.table).snapshot().delta_schema))

    @_run.register
    def _(self, statement: ShowCreate) -> Any:
        text = create_text(self._open(statement.table).snapshot(), statement.table.parts)
        return self._engine.told(pa.table({"createtab_stmt": [text]}))

    @_run.register
    def _(self, statement: ShowSchemas) -> Any:
        return self._engine.told(told.schemas(self._named(TableName(_SCHEMAS)).tables(), statement.pattern))

    @_run.register
    def _(self, statement: ShowViews) -> Any:
        names = (view.name.text for view in self._names.views.values())
        return self._engine.told(told.views(names, statement.pattern))

    @_run.register
    def _(self, statement: ShowPartitions) -> Any:
        return self._engine.told(told.partitions(self._open(statement.table).snapshot()))

    @_run.register
    def _(self, statement: ShowBranches) -> Any:
        return self._engine.told(told.branches(self._open(statement.table).branches()))

    @_run.register
    def _(self, statement: ShowProperties) -> Any:
        return self._engine.told(told.properties(self._open(statement.table).snapshot(), statement.key))


def _is_current(kept: CachedTable) -> bool:
    try:
        return kept.is_current_and_refreshed()
    except NotFoundError:  # a catalog says that it was dropped, or that it has another name by now
        return False


def _changes_names(statement: Any) -> bool:
    """Whether names may be those of other tables afterwards."""
    is_rename = isinstance(statement, AlterTable) and isinstance(statement.change, RenameTable)
    return is_rename or isinstance(statement, CreateTable | Clone | Convert | DropTable)


def _query(statement: Any) -> Query | None:
    """The query that a statement is, or has."""
    if isinstance(statement, Explain):
        return _query(statement.statement)
    return statement if isinstance(statement, Query) else getattr(statement, "query", None)


def _needed(statement: Any) -> list[TableName]:
    """The tables that must exist before a statement runs."""
    if isinstance(statement, Explain):
        return _needed(statement.statement)
    found: list[TableName] = []
    query = _query(statement)
    if query is not None:
        found += [reading.table for reading in query.readings]
    if isinstance(statement, Clone):
        found.append(statement.source)
    makes = isinstance(statement, CreateTable | Clone) or (isinstance(statement, DropTable) and statement.if_exists)
    if hasattr(statement, "table") and not makes:
        found.append(statement.table)
    return found


def _columns_named(statement: ChangeByQuery, schema: Struct) -> list[str]:
    """The columns of the table that its conditions and values may name; one of its columns if they name none."""
    names: set[str] = set()
    for name in names_in(statement.query):
        is_qualified = len(name) > 1 and fold_name(name[0]) == fold_name(statement.alias)
        names |= {fold_name(name[0]), fold_name(name[1] if is_qualified else name[0])}
    found = [field for field in schema.fields if fold_name(field.name) in names]
    for field in found:
        if isinstance(field.type, Struct | Array | Map):
            raise InvalidInputError(
                f"a condition with a subquery names column {field.name}, which is of type {type_name(field.type)}, and"
                " rows are found by the values of columns of simple types: write the statement as a MERGE"
            )
    simple = (field for field in schema.fields if not isinstance(field.type, Struct | Array | Map))
    return [field.name for field in found or [next(simple)]]


def _with_defaults_of(session: Session, properties: Sequence[tuple[str, str]]) -> dict[str, str]:
    """The properties of a new table: the statement's own, and the session's for the others."""
    given = {name.lower() for name, _ in properties}
    defaults = {name: value for name, value in session.properties.items() if name.lower() not in given}
    return {**defaults, **dict(properties)}


def _shown_name(name: TableName) -> str | None:
    return None if name.location else name.text


def _field(fields: Sequence[Field], name: str) -> Field:
    found = Struct(tuple(fields)).find(name)
    if found is None:
        raise InvalidInputError(f"there is no column {name}: there are {', '.join(field.name for field in fields)}")
    return found


def _filled(fields: Sequence[Field], names: Sequence[str] | None) -> list[Field]:
    """The fields of these names, in their order; None: all. Raises InvalidInputError for a name that is there twice."""
    found = list(fields) if names is None else [_field(fields, name) for name in names]
    seen: set[str] = set()
    for field in found:
        if field.name in seen:
            raise InvalidInputError(f"column {field.name} is given twice")
        seen.add(field.name)
    return found


def _check_partition(statement: Insert, columns: Sequence[str]) -> None:
    if statement.partition and statement.merges_schema and statement.by_name:
        name, text = statement.partition[0]
        raise InvalidInputError(
            f"PARTITION does not go with WITH SCHEMA EVOLUTION and BY NAME: have the query say {text} AS {name}"
        )
    for name in (*(name for name, _ in statement.partition), *statement.left_to_rows):
        if fold_name(name) not in map(fold_name, columns):
            has = f"which has {', '.join(columns)}" if columns else "which is not partitioned"
            raise InvalidInputError(
                f"PARTITION names {name}, which is not a partition column of {statement.table.text}, {has}: put the"
                " value into the query, and use REPLACE WHERE to overwrite its rows"
            )


def _values(schema: Struct, values: Assignments) -> dict[str, object]:
    """The values to set by column or struct field, each cast to its type; DEFAULT is the column's, or null."""
    found: dict[str, object] = {}
    plain = without_computed(schema)
    for path, text in values:
        field = schema.find(path[0])
        for name in path[1:]:
            field = field.type.find(name) if field is not None and isinstance(field.type, Struct) else None
        name = path_text(path) if field is None or path[1:] else field.name
        if name in found:
            raise InvalidInputError(f"column {name} is set twice")
        if is_default(text) and schema.find(path[0]) is not None and plain.find(path[0]) is None:
            raise InvalidInputError(f"column {name} is set to DEFAULT, and the table computes it: leave it out")
        if field is None:  # a column that the change may add, or none, which it refuses
            found[name] = Sql(text)
        else:
            found[name] = Sql(as_cast(_default(field) if is_default(text) else text, field.type))
    return found


def _given(schema: Struct, values: Assignments) -> Assignments:
    """The values without DEFAULT for columns that the table computes, as it does for new rows that lack them."""
    computed = {fold_name(name) for name in schema.names} - {fold_name(name) for name in without_computed(schema).names}
    return tuple((path, text) for path, text in values if not (is_default(text) and fold_name(path[0]) in computed))


def _default(field: Field) -> str:
    return str(field.metadata.get("CURRENT_DEFAULT") or "NULL")


def _with_defaults(statement: Insert, fields: Sequence[Field], plain: Struct) -> Insert:
    """The statement with each DEFAULT of its VALUES in the words of its column, and without columns that the table
    computes, as it does where rows lack them.

    Args:
        fields: The columns that rows fill if the statement names none.
        plain: The columns that the table does not compute.

    Raises:
        InvalidInputError: A row has another number of values than there are columns; or some rows have DEFAULT for a
            column that the table computes, and others have values.
    """
    columns, rows = _filled(fields, statement.columns), statement.with_defaults
    for number, row in enumerate(rows, 1):
        if len(row) != len(columns):
            raise InvalidInputError(
                f"row {number} of VALUES has {counted(len(row), 'value')}, and the statement fills {len(columns)}:"
                f" {', '.join(field.name for field in columns)}"
            )
    kept = []
    for at, field in enumerate(columns):
        are_defaults = [is_default(row[at]) for row in rows]
        is_computed = plain.find(field.name) is None
        if is_computed and any(are_defaults) and not all(are_defaults):
            raise InvalidInputError(
                f"row {are_defaults.index(True) + 1} of VALUES has DEFAULT for column {field.name}, which the table"
                f" computes, and row {are_defaults.index(False) + 1} has a value: insert them by two statements"
            )
        if not (is_computed and all(are_defaults)):
            kept.append(at)
    if not kept:
        raise InvalidInputError(
            f"VALUES has DEFAULT for all of {', '.join(field.name for field in columns)}, which the table computes:"
            " give a value to another column, such as NULL"
        )
    texts = [[_default(columns[at]) if is_default(row[at]) else row[at] for at in kept] for row in rows]
    values = ", ".join(f"({', '.join(row)})" for row in texts)
    query = Query((f"VALUES {values}",), (), statement.query.at)
    return msgspec.structs.replace(statement, query=query, columns=tuple(columns[at].name for at in kept))


def _moment(text: str, zone: str) -> Any:
    """The time that an expression says."""
    expression = parse(f"CAST({text} AS TIMESTAMP)", Struct(()), zone=zone, now=ambient.now())
    value = evaluate(expression, pa.RecordBatch.from_pydict({"row": [0]}))[0].as_py()
    if value is None:
        raise InvalidInputError(f"{text} is not a time")
    return value


def _reads_newest(reading: Reading) -> bool:
    """Whether what a query reads of a table depends on which version is the newest."""
    return reading.as_of == AsOf() if reading.changes is None else reading.changes.last is None


def _reruns(commit: CommitOptions) -> CommitOptions:
    """The same commit of an overwrite, which replaces what the newest version has if its rows come from elsewhere."""
    return commit if commit.reads_table else CommitOptions(on_conflict="rerun")


def _span(changes: ChangesOf, zone: str) -> dict[str, Any]:
    """The arguments of `Table.changes`: numbers are versions."""
    found: dict[str, Any] = {}
    for side, text in (("from", changes.first), ("to", changes.last)):
        if text is not None:
            found.update(
                {f"{side}_version": int(text)} if text.isdecimal() else {f"{side}_timestamp": _moment(text, zone)}
            )
    return found


def _copy_options(statement: CopyInto) -> dict[str, Any]:
    given = {key.lower(): value for key, value in (*statement.format_options, *statement.copy_options)}
    options: dict[str, Any] = {"format": statement.format, "pattern": statement.pattern}
    for key, value in given.items():
        if key == "mergeschema":
            options["schema_mode"] = "merge" if value.lower() == "true" else "strict"
        elif key in ("header", "force", "decimalcomma"):
            options["decimal_comma" if key == "decimalcomma" else key] = value.lower() == "true"
        elif key in ("delimiter", "sep"):
            options["delimiter"] = value
        elif key == "nullvalue":
            options["null_values"] = value
        elif key != "inferschema":  # columns always get the table's types
            raise InvalidInputError(
                f"COPY INTO has no option {key}: it has header, delimiter, nullValue, decimalComma, mergeSchema, force"
            )
    if statement.format == "csv":
        options.setdefault("header", False)
    return options
