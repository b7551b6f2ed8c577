"""`Snapshot`: one version of a table, for users; and `Readable`, which it shares with `Table`: all ways to read one.

In: a ``DeltaLog`` and the ``TableState`` of a version. Out: files, rows and metadata of exactly that version, loaded on
demand. A `Readable` is an Arrow stream: polars, duckdb, pandas and pyarrow read it directly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa

from txlog.core import ambient
from txlog.core.format.actions import Protocol
from txlog.core.format.schema import Struct, to_arrow, type_name
from txlog.core.util import cached_property, explains_calls, no_attribute, whole_number
from txlog.core.versions.decisions.state import TableState
from txlog.core.versions.files import DeltaLog
from txlog.core.whole_import import require_library
from txlog.errors import InvalidInputError, TxlogError
from txlog.result import counted, moment

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from txlog.core.changes.tasks import ReadTask, TaskStore
    from txlog.core.predicates import AnyCondition, Parameters
    from txlog.core.predicates.terms.predicate import Predicate
    from txlog.core.reading import DtypeBackend, ScanPlan, SnapshotDataset, TypesMapper
    from txlog.core.store import TableStore

__all__ = ["Readable", "Snapshot", "Version", "version_summary", "with_values", "with_values_of"]

_COMMITS_SHOWN = 5
_COLUMNS_SHOWN = 12
_PARTS_OF_A_FILE_MAX = 1024


class Version:
    """A version of a table with its log, its state and its live files, read once. ``place`` makes what tasks open."""

    def __init__(self, log: DeltaLog, state: TableState, place: Callable[[], TaskStore] | None = None) -> None:
        self.log = log
        self.state = state
        self.place = place

    @cached_property
    def files(self) -> pa.Table:
        return self.log.files(self.state)

    def load_files(self) -> None:
        """Read the list of live files now."""
        _ = self.files

    def matching(self, predicate: Predicate | None) -> pa.Table:
        """The live files that may hold a row that matches."""
        return self.files if predicate is None else self.log.matching_files(self.state, predicate)

    def plan(self, columns: Sequence[str] | None, predicate: Predicate | None) -> ScanPlan:
        from txlog.core.reading import ScanPlan, select

        selection = select(self.log.uri, self.state, columns, predicate)
        self.log.check_zones(self.state, {field.name for field in selection.needed()})
        return ScanPlan(selection, self.matching(predicate))

    def predicate(self, where: AnyCondition | None) -> Predicate | None:
        """A condition, bound to the table's columns."""
        if where is None:
            return None
        from txlog.core.predicates import bind_predicate

        with TxlogError.located(self.log.uri, self.state.version):
            return bind_predicate(where, self.state.schema, zone=self.state.time_zone, now=ambient.now())

    def read_tasks(
        self, columns: Sequence[str] | None, where: AnyCondition | None, target_bytes: int
    ) -> list[ReadTask]:
        from txlog.core.changes.tasks import ReadTask, TaskStore
        from txlog.core.reading import OPEN_BYTES, balanced, in_shares

        plan = self.plan(columns, self.predicate(where))
        store = TaskStore.at(self.log.store) if self.place is None else self.place()
        # From two to four thirds of the target; but to open a file again costs as much as to read some of it.
        share_bytes = max(2 * target_bytes // 3, OPEN_BYTES)
        parts = [part for task in plan.tasks() for part in in_shares(task, share_bytes, _PARTS_OF_A_FILE_MAX)]
        wanted = -(-sum(part.size_bytes + OPEN_BYTES for part in parts) // target_bytes)
        return [ReadTask(store, plan.selection, tuple(group)) for group in balanced(parts, wanted)]

    def as_html(self, kind: str) -> str:
        from txlog.core.reading import version_as_html

        entries = self.log.history(_COMMITS_SHOWN, self.state)
        last = [(each.version, each.timestamp_ms, each.commit_info) for each in entries]
        return version_as_html(f"{kind} {self.log.uri}", self.state, self.files, last)


def with_values(where: AnyCondition | None, parameters: Parameters | None) -> Any:
    """The condition, with the values of its ``:name``. What reads them is imported only if there are any.

    Raises:
        InvalidInputError: What `unbound.with_parameters` raises.
    """
    if parameters is None:
        return where
    from txlog.core.predicates import with_parameters

    (found,) = with_parameters(parameters, where)
    return found


def with_values_of(
    values: Mapping[str, object], where: AnyCondition | None, parameters: Parameters | None
) -> tuple[Mapping[str, object], AnyCondition | None]:
    """The same for the values and the condition of an update, which share their parameters."""
    if parameters is None:
        return values, where
    from txlog.core.predicates import with_parameters

    values, where = with_parameters(parameters, values, where)
    return values, where


@explains_calls
class Readable:
    """The facts and rows of a version of a table. A `Snapshot` is one version; a `Table` reads as its newest version.

    A `Table` looks up its newest version each time: use one `Table.snapshot` for several facts about the same version.
    """

    def _told(self) -> Version:
        """The version that facts are about."""
        raise NotImplementedError

    def _read(self, where: AnyCondition | None = None) -> Version:
        """The version whose rows are about to be read: those that match, or all."""
        return self._told()

    # --- facts that need no file list -------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """The number of its commit, from 0."""
        return self._told().state.version

    @property
    def timestamp(self) -> datetime:
        """When this version was committed, in UTC: its in-commit timestamp, or the commit file's time.

        History and time travel use the same time: later versions have later times.
        """
        told = self._told()
        return moment(told.log.timestamp_ms(told.state.version))

    @property
    def table_id(self) -> str:
        """``metaData.id``: the same for all versions of a table, different after it is dropped and recreated."""
        return self._told().state.metadata.id

    @property
    def name(self) -> str | None:
        """The name in the table's metadata, which has no effect; None if there is none. `Table.set_description` sets
        it."""
        return self._told().state.metadata.name

    @property
    def description(self) -> str | None:
        """What the table is about, as `Table.set_description` or Spark's ``COMMENT ON TABLE`` set it; None if nothing
        says so."""
        return self._told().state.metadata.description

    @property
    def schema(self) -> pa.Schema:
        """The table's columns, including partition columns. Delta's field metadata is under `delta.metadata`."""
        return to_arrow(self.delta_schema)

    @property
    def delta_schema(self) -> Struct:
        """The same columns as `schema`, in Delta's own types."""
        told = self._told()
        with TxlogError.located(told.log.uri, told.state.version):
            return told.state.schema

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The names of the partition columns, in order; empty if the table is not partitioned."""
        return self._told().state.partition_columns

    @property
    def clustering_columns(self) -> tuple[str, ...]:
        """The clustering columns of a clustered table (``CLUSTER BY``); a struct field is ``a.b``."""
        from txlog.core.format.clustering import clustering_columns
        from txlog.core.format.properties import path_text

        told = self._told()
        with TxlogError.located(told.log.uri, told.state.version):
            return tuple(path_text(path) for path in clustering_columns(told.state.domains, told.state.schema))

    @property
    def properties(self) -> Mapping[str, str]:
        """A copy of the table properties, such as ``delta.appendOnly``."""
        return dict(self._told().state.metadata.configuration)

    @property
    def protocol(self) -> Protocol:
        """The protocol versions and features that readers and writers need. PROTOCOL.md, "Protocol Evolution"."""
        return self._told().state.protocol

    @property
    def transactions(self) -> Mapping[str, int]:
        """The last ``checkpoint_id`` (``txn`` version) of every application that is retained."""
        return {app_id: transaction.version for app_id, transaction in self._told().state.transactions.items()}

    def transaction_version(self, app_id: str) -> int | None:
        """The last ``checkpoint_id`` (``txn`` version) that an application committed.

        Args:
            app_id: The name of the application.

        Returns:
            The number; None if the application has committed nothing, or its record is past its retention.
        """
        return self._told().state.transaction_version(app_id)

    # --- files ------------------------------------------------------------------------------------------------

    @property
    def num_files(self) -> int:
        """The number of live data files; loads the list of them."""
        return int(self._told().files.num_rows)

    @property
    def size_bytes(self) -> int:
        """The total size of the live data files in bytes; loads the list of them."""
        from txlog.core.format.arrow.arrays import numbers_of

        return sum(int(numbers_of(sizes).sum()) for sizes in self._told().files.column("size").chunks)

    def files(
        self, where: AnyCondition | None = None, *, parameters: Parameters | None = None, statistics: bool = False
    ) -> pa.Table:
        """The live data files of this version.

        Args:
            where: A condition in SQL. Returns only files that may hold a matching row, by their partition values and
                statistics.
            parameters: Values for ``:name`` in the condition, as for `to_batches`.
            statistics: Return partition values and statistics as typed columns: ``partition`` (a struct of the
                partition columns), ``num_records`` (rows in the file, deleted ones included), ``null_count``, ``min``
                and ``max`` (structs of the other columns, null where the log knows nothing). Bounds hold for every
                row, but a writer may have cut a long string, and the log has timestamps in whole milliseconds, so a
                value may be above ``max`` by less than one.

        Returns:
            An Arrow table with one row per file: ``path`` (as in the log), ``partitionValues``, ``size`` (bytes),
            ``modificationTime`` (ms), ``stats`` (JSON) and the other fields of an ``add`` action.

        Raises:
            InvalidInputError: The predicate does not fit the table.
            CorruptLogError: A partition value is not of its column's type.
        """
        where = with_values(where, parameters)
        read = self._read(where)
        found = read.matching(read.predicate(where))
        if not statistics:
            return found
        from txlog.core.format.file_statistics import with_statistics

        with TxlogError.located(read.log.uri, read.state.version):
            return with_statistics(found, read.state)

    def partitions(self, where: AnyCondition | None = None, *, parameters: Parameters | None = None) -> pa.Table:
        """The partitions of this version that have files, in the order of their values.

        Args:
            where: A condition in SQL. Counts only files that may hold a matching row.
            parameters: Values for ``:name`` in the condition, as for `to_batches`.

        Returns:
            An Arrow table with one row per partition: ``partition`` (a struct of the partition columns, typed),
            ``num_files``, ``size_bytes`` and ``num_rows`` (null if the log does not count the rows of a file).

        Raises:
            InvalidInputError: The table is not partitioned, or the condition does not fit it.
            CorruptLogError: A partition value is not of its column's type.
        """
        from txlog.core.format.file_statistics import partitions_table

        where = with_values(where, parameters)
        read = self._read(where)
        with TxlogError.located(read.log.uri, read.state.version):
            if not read.state.partition_columns:
                raise InvalidInputError("the table is not partitioned: partition_columns is empty")
            return partitions_table(read.matching(read.predicate(where)), read.state)

    # --- rows -------------------------------------------------------------------------------------------------

    def to_batches(
        self,
        columns: Sequence[str] | None = None,
        where: AnyCondition | None = None,
        *,
        parameters: Parameters | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Stream the rows, a bounded batch at a time.

        Args:
            columns: The names of the columns to read; None means all.
            where: A condition in SQL (``"day = '2026-11-20' and amount > 100"``). Only matching rows are returned, with
                SQL's treatment of null. Files and row groups that cannot hold a matching row are not read.
            parameters: Values for ``:name`` in SQL text, each as `txlog.lit` takes it, or a list for ``IN (:name)``.

        Returns:
            A reader of record batches that can be read once.

        Raises:
            InvalidInputError: A column or the condition does not fit the table.
            NotFoundError: A data file is missing.
            CorruptLogError: A data file or deletion vector is damaged.
            StorageError: The store failed.
        """
        where = with_values(where, parameters)
        read = self._read(where)
        return read.plan(columns, read.predicate(where)).batches(read.log.store)

    def to_arrow(
        self,
        columns: Sequence[str] | None = None,
        where: AnyCondition | None = None,
        *,
        parameters: Parameters | None = None,
    ) -> pa.Table:
        """The rows as one Arrow table.

        Args:
            columns: The names of the columns to read; None means all.
            where: A condition in SQL; only matching rows are returned. See `to_batches`.
            parameters: Values for ``:name`` in the condition, as for `to_batches`.

        Returns:
            All matching rows, in memory.

        Raises:
            TxlogError: What `to_batches` raises.
        """
        where = with_values(where, parameters)
        read = self._read(where)
        return read.plan(columns, read.predicate(where)).to_arrow(read.log.store)

    def to_pandas(
        self,
        columns: Sequence[str] | None = None,
        where: AnyCondition | None = None,
        *,
        parameters: Parameters | None = None,
        types_mapper: TypesMapper | None = None,
        dtype_backend: DtypeBackend | None = None,
    ) -> pd.DataFrame:
        """The rows as a pandas DataFrame, with every value as it is in the table.

        Args:
            columns: The names of the columns to read; None means all.
            where: A condition in SQL; only matching rows are returned. See `to_batches`.
            parameters: Values for ``:name`` in the condition, as for `to_batches`.
            types_mapper: As in ``pyarrow.Table.to_pandas``: a function that gives an Arrow type its pandas dtype, or
                None for the default; such as ``pandas.ArrowDtype``.
            dtype_backend: As in ``pandas.read_parquet``: "numpy_nullable" or "pyarrow". None: numpy's types; a column
                of integers with nulls has pandas' nullable integers (``Int64``), since floats would round it.

        Returns:
            All matching rows, in memory. Needs pandas.

        Raises:
            InvalidInputError: pandas cannot be imported, or both ``types_mapper`` and ``dtype_backend`` are given.
            TxlogError: What `to_batches` raises.
        """
        require_library("pandas")
        from txlog.core.reading import Rows

        rows = Rows(self.to_arrow(columns, where, parameters=parameters))
        return rows.to_pandas(types_mapper=types_mapper, dtype_backend=dtype_backend)

    def to_polars(
        self,
        columns: Sequence[str] | None = None,
        where: AnyCondition | None = None,
        *,
        parameters: Parameters | None = None,
    ) -> pl.DataFrame:
        """The rows as a polars DataFrame.

        Args:
            columns: The names of the columns to read; None means all.
            where: A condition in SQL; only matching rows are returned. See `to_batches`.
            parameters: Values for ``:name`` in the condition, as for `to_batches`.

        Returns:
            All matching rows, in memory. Needs polars.

        Raises:
            InvalidInputError: polars cannot be imported.
            TxlogError: What `to_batches` raises.
        """
        where = with_values(where, parameters)
        require_library("polars")
        import polars

        return polars.DataFrame(self.to_arrow(columns, where))

    def to_lazy(self) -> pl.LazyFrame:
        """The rows as a polars LazyFrame, which reads only the columns and files that its query needs.

        ``polars.scan_delta(table.uri)`` reads the table too, with the package deltalake.

        Returns:
            A frame of all columns and rows of this version. Needs polars.

        Raises:
            InvalidInputError: polars cannot be imported.
            TxlogError: What `to_dataset` raises.
        """
        require_library("polars")
        return _lazy(self.to_dataset())

    def to_dataset(self) -> SnapshotDataset:
        """This version as a ``pyarrow.dataset.Dataset``, for engines that read only what a query needs.

        ``duckdb.sql("select sum(x) from dataset where id < 10")`` and ``polars.scan_pyarrow_dataset(dataset)`` pass it
        the query's columns and filter. Files and row groups whose statistics contradict the filter are not read.
        Deleted rows, renamed columns and widened types are as in `to_arrow`. Pickles without secrets.

        Returns:
            A dataset of all columns and rows.

        Raises:
            UnsupportedFeatureError: The table needs a reader feature that this release lacks.
        """
        from txlog.core.reading import SnapshotDataset

        read = self._read()
        plan = read.plan(None, None)
        return SnapshotDataset(read.log.store, plan.selection, plan.files)

    def scan_tasks(
        self,
        columns: Sequence[str] | None = None,
        where: AnyCondition | None = None,
        *,
        parameters: Parameters | None = None,
        target_bytes: int = 128 << 20,
    ) -> list[ReadTask]:
        """This version's rows as tasks for any engine: plain data, each read by any process on any machine.

        Each row is in exactly one task. Small files come together in one task; the row groups of a large file are
        spread over several. Deleted rows, renamed columns, widened types and partition values are as in `to_arrow`, and
        files that cannot hold a matching row are in no task. A pickled task contains the table's storage options, which
        may be secrets; on another machine it needs txlog and access to the location.

        Args:
            columns: The names of the columns to read; None means all.
            where: A condition in SQL; only matching rows are returned. See `to_batches`.
            parameters: Values for ``:name`` in the condition, as for `to_batches`.
            target_bytes: About how many bytes of data files each task reads.

        Returns:
            Tasks with ``schema``, ``size_bytes``, ``paths``, ``batches()`` and ``to_arrow()``; each is also an Arrow
            stream, which can be read again. No task if there is no file to read.

        Raises:
            InvalidInputError: A column, the condition or ``target_bytes`` does not fit.
        """
        where = with_values(where, parameters)
        read = self._read(where)
        return read.read_tasks(columns, where, whole_number("target_bytes", target_bytes, at_least=1))

    def head(
        self,
        n: int = 5,
        columns: Sequence[str] | None = None,
        where: AnyCondition | None = None,
        *,
        parameters: Parameters | None = None,
    ) -> pa.Table:
        """A few rows, from no more files than necessary.

        Args:
            n: The number of rows.
            columns: The names of the columns to read; None means all.
            where: A condition in SQL; only matching rows are returned. See `to_batches`.
            parameters: Values for ``:name`` in the condition, as for `to_batches`.

        Returns:
            At most ``n`` rows.

        Raises:
            TxlogError: What `to_batches` raises.
        """
        where = with_values(where, parameters)
        read = self._read(where)
        left = whole_number("n", n, table=read.log.uri)
        plan = read.plan(columns, read.predicate(where))
        taken = []
        for batch in plan.batches(read.log.store) if left else ():
            taken.append(batch.slice(0, left))
            left -= taken[-1].num_rows
            if not left:
                break
        return pa.Table.from_batches(taken, schema=plan.selection.arrow_schema())

    def count(self, where: AnyCondition | None = None, *, parameters: Parameters | None = None) -> int:
        """The number of rows, or of matching rows.

        Without a condition, the number comes from the log; only the footers of files without ``numRecords`` in their
        statistics are read. With a condition, its columns are read, but only from files for which partition values and
        statistics do not prove that every row matches.

        Args:
            where: A condition in SQL; None counts all rows.
            parameters: Values for ``:name`` in the condition, as for `to_batches`.

        Returns:
            The number.

        Raises:
            TxlogError: What `to_batches` raises.
        """
        from txlog.core.reading import count_matching_rows

        where = with_values(where, parameters)
        read = self._read(where)
        return count_matching_rows(read.log.store, read.plan([], read.predicate(where)), read.state)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The Arrow PyCapsule interface: ``pl.DataFrame(table)``, ``duckdb.from_arrow``, ``pa.table(table)``."""
        read = self._read()
        plan = read.plan(None, None)
        reader = pa.RecordBatchReader.from_batches(plan.selection.arrow_schema(), plan.batches(read.log.store))
        return reader.__arrow_c_stream__(requested_schema)

    def _repr_html_(self) -> str:
        return self._read().as_html(type(self).__name__)


@explains_calls
class Snapshot(Readable):
    """One version of a table. It does not change when the table changes. Made by `Table.snapshot`.

    ``polars.DataFrame(snapshot)``, ``pyarrow.table(snapshot)`` and other consumers of Arrow streams read all of it;
    `to_arrow` and `to_batches` read selected columns and rows. Thread-safe; pickles without secrets.
    """

    def __init__(self, log: DeltaLog, state: TableState, place: Callable[[], TaskStore] | None = None) -> None:
        self._version = Version(log, state, place)

    @property
    def _state(self) -> TableState:
        return self._version.state

    def _told(self) -> Version:
        return self._version

    def __repr__(self) -> str:
        return f"Snapshot({', '.join([self._version.log.uri, *version_summary(self._version.state)])})"

    if not TYPE_CHECKING:  # a type checker reports a misspelled name

        def __getattr__(self, name: str) -> NoReturn:
            version = self.__dict__.get("_version")
            raise no_attribute(self, name, version and version.log.uri)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Snapshot) and self._key() == other._key()

    def _key(self) -> tuple[str, str, int]:
        return self._version.log.uri, self.table_id, self.version

    def __reduce__(self) -> tuple[Any, ...]:
        log = self._version.log
        return _at, (log.store, self.version, log.time_zone)

    def __hash__(self) -> int:
        return hash(self._key())


def version_summary(state: TableState) -> list[str]:
    """A version at a glance: its number, its columns with their types, its partition columns."""
    fields = state.schema.fields
    columns = [f"{field.name} {type_name(field.type)}" for field in fields[:_COLUMNS_SHOWN]]
    more = [f"and {len(fields) - _COLUMNS_SHOWN} more"] if len(fields) > _COLUMNS_SHOWN else []
    parts = [f"version={state.version}", f"{counted(len(fields), 'column')}: {', '.join([*columns, *more])}"]
    return [*parts, f"partitioned by {', '.join(state.partition_columns)}"] if state.partition_columns else parts


def _at(store: TableStore, version: int, time_zone: str) -> Snapshot:
    """Unpickles a snapshot: the receiving process reads the log itself."""
    log = DeltaLog(store, time_zone=time_zone)
    return Snapshot(log, log.state_at(version))


def _lazy(dataset: SnapshotDataset) -> pl.LazyFrame:
    """Has Polars filter again what Arrow found. Polars hands its filters to Arrow, where a null is in no list, and so
    passes what asks for none of a list, and NaN is neither above nor below a number, where Polars and Spark have it
    above all: rows with a null or NaN in a column of the filter are left to Polars."""
    import polars
    from polars.io.plugins import register_io_source

    scan = polars.scan_pyarrow_dataset(dataset)
    schema = scan.collect_schema()

    def read(
        columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        found = scan
        if predicate is not None:
            filtered = predicate.meta.root_names()
            wide = predicate
            for name in filtered:
                wide |= polars.col(name).is_null()
                if schema[name].is_float():
                    wide |= polars.col(name).is_nan()
            if "nan" not in str(predicate).lower():  # Arrow finds no number below NaN
                found = found.filter(wide)
            if columns is not None:
                found = found.select(list(dict.fromkeys([*columns, *filtered])))
            found = found.collect().lazy().filter(predicate)
        if columns is not None:
            found = found.select(columns)
        yield (found if n_rows is None else found.head(n_rows)).collect()

    return register_io_source(read, schema=schema)
