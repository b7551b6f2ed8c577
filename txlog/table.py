"""`Table` and `write`: the main interface. It connects the other modules and documents them, and decides nothing.

In: a location and data. Out: ``WriteResult``s and ``Snapshot``s.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import pyarrow as pa

from txlog.core.operations import WriteOptions, check_mode, write_steps
from txlog.core.store import foreign_scheme, open_store
from txlog.core.util import (
    UTC,
    Hinted,
    cached_property,
    explains_call,
    explains_calls,
    explains_names,
    invalid,
    logger,
    names_in,
    one_of,
    type_name_of,
    whole_number,
)
from txlog.core.versions import OpenTable
from txlog.core.writing.commit_options import CommitOptions, OnConflict
from txlog.core.writing.write_intent import ColumnRules, RowMode, SchemaMode
from txlog.errors import ForkedTableError, InvalidInputError, TableExistsError, TableNotFoundError, TxlogError
from txlog.hooks import CommitHooks
from txlog.result import WriteResult, moment
from txlog.snapshot import Readable, Snapshot, Version, version_summary, with_values, with_values_of

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from zoneinfo import ZoneInfo

    from txlog.core.catalogs import TableCatalog, TablePlace
    from txlog.core.changes.plan import MergeBuilder
    from txlog.core.changes.tasks.operations import MissingColumns, OnDuplicate, WhenMatched, WhenNotMatched
    from txlog.core.maintenance import AutoCompaction, NamedVersion
    from txlog.core.operations import CommittedBatch, OnChange
    from txlog.core.predicates import AnyCondition, Parameters
    from txlog.core.progress import OnProgress
    from txlog.core.reading import Rows
    from txlog.core.store import RetryPolicy
    from txlog.core.versions.decisions.state import TableState
    from txlog.core.workers import GivenWorkers
    from txlog.result.audits import DeletionCheck, IcebergExport, Verification, VersionDiff
    from txlog.result.branches import BranchCheck, BranchInfo
    from txlog.result.maintenance import (
        CloneResult,
        ConvertResult,
        CopyResult,
        LogCleanUp,
        LogCompaction,
        MaintenanceResult,
        RepairResult,
        RestoreResult,
        RewriteResult,
        VacuumResult,
    )
    from txlog.result.report import Report
    from txlog.table_transaction import IsolationLevel, Transaction

__all__ = ["Table", "write"]


Moment: TypeAlias = datetime | date | str | int
WriteMode: TypeAlias = Literal["append", "overwrite", "overwrite_partitions", "error", "errorifexists", "ignore"]


@explains_call
def write(
    uri: str | os.PathLike[str],
    data: object,
    mode: WriteMode = "append",
    partition_by: str | Iterable[str] | None = None,
    *,
    parameters: Parameters | None = None,
    where: AnyCondition | None = None,
    storage_options: Mapping[str, str] | None = None,
    schema_mode: SchemaMode = "strict",
    cluster_by: str | Iterable[str] | None = None,
    properties: Mapping[str, str] | None = None,
    app_id: str | None = None,
    checkpoint_id: int | None = None,
    fingerprint: str | None = None,
    user_metadata: str | None = None,
    target_file_size: int | None = None,
    parquet: Mapping[str, object] | None = None,
    column_rules: ColumnRules | None = None,
    row_mode: RowMode | None = None,
    on_conflict: OnConflict = "fail",
    read_version: int | None = None,
    retry: RetryPolicy | None = None,
    credential_provider: Callable[[], object] | None = None,
    hooks: CommitHooks | None = None,
    on_progress: OnProgress | None = None,
    time_zone: str | ZoneInfo = UTC,
) -> WriteResult:
    """Write ``data`` to the Delta table at ``uri``. If there is no table, this creates it with the first rows.

    Args:
        uri: The table's location, as for `Table.open`.
        data: The rows: anything `Table.append` takes.
        mode: "append"; "overwrite" replaces every row, or the rows that satisfy ``where`` (see `Table.overwrite`);
            "overwrite_partitions" replaces the partitions in ``data``; "error" (in Spark "errorifexists", which works
            too) refuses an existing table; "ignore" leaves an existing table unchanged (``outcome`` is then "ignored").
        where: Which rows "overwrite" replaces.
        parameters: Values for ``:name`` in ``where``.
        partition_by: The partition columns of a new table, ``["day", "region"]`` or ``"day,region"``. An existing table
            must have the same, except with ``schema_mode="overwrite"``.
        cluster_by: The clustering columns of a new table (see `Table.create`). An existing table must have the same.
        properties: The properties of a new table.
        row_mode: As for `Table.overwrite`; ``column_rules``, ``on_conflict`` and ``read_version`` are its
            arguments too.

    The other arguments are the same as for `Table.append` and `Table.open`.

    Returns:
        What was written, in which version.

    Raises:
        TableExistsError: There is a table, and the mode is "error".
        TxlogError: What `Table.append` raises.
    """
    where = with_values(where, parameters)
    if isinstance(data, str | os.PathLike) and not isinstance(uri, str | os.PathLike):
        raise InvalidInputError(f"txlog.write(uri, data): pass the location first, then the {type_name_of(uri)}")
    check_mode(mode, get_args(WriteMode))
    options = WriteOptions(
        mode="append" if mode in ("error", "errorifexists", "ignore") else mode,
        where=where,
        schema_mode=schema_mode,
        commit=CommitOptions(app_id, checkpoint_id, fingerprint, user_metadata, read_version, on_conflict),
        create=True,
        must_create=mode in ("error", "errorifexists", "ignore"),
        partition_by=None if partition_by is None else names_in("partition_by", partition_by),
        cluster_by=cluster_by,
        properties=properties or {},
        target_file_size_bytes=target_file_size,
        parquet=parquet or {},
        row_mode=row_mode,
        column_rules=column_rules,
    )

    def write_at(place: str | os.PathLike[str]) -> WriteResult:
        open_table = _open_table(place, storage_options, retry, credential_provider, hooks, time_zone=time_zone)
        _probe_new_location(open_table)
        return _written(open_table, data, options, on_progress, ignores_existing=mode == "ignore")

    named = _named(uri, storage_options, credential_provider)
    if named is None:
        return write_at(uri)
    from txlog.core.catalogs import made_at_name

    return made_at_name(*named, write_at, may_exist=True, repeats=False)


def _written(
    open_table: OpenTable,
    data: object,
    options: WriteOptions,
    on_progress: OnProgress | None,
    *,
    ignores_existing: bool,
) -> WriteResult:
    try:
        return open_table.run(write_steps(open_table, data, options, on_progress))
    except TableExistsError as error:
        if ignores_existing:
            return WriteResult(open_table.log.newest_state().version, "ignored", 0, "")
        error.template = f'{error.template}; mode="append" adds rows, mode="overwrite" replaces them'
        raise


def resolve(
    uri: str | os.PathLike[str],
    txn_id: str,
    version: int,
    schema: object = None,
    partition_by: str | Iterable[str] | None = None,
    properties: Mapping[str, str] | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
    retry: RetryPolicy | None = None,
    credential_provider: Callable[[], object] | None = None,
) -> bool:
    """After ``CommitStateUnknownError``: whether the commit is in the log, even if there is no table to open.

    `Table.resolve` for a location, so it also works for the creation of a table (version 0).

    Args:
        uri: The table's location or name, ``error.table``.
        txn_id: ``error.txn_id``.
        version: ``error.version``.
        schema: The columns, as for `Table.create`. For an object store without a version 0, where the request may still
            be on its way: this creates the table empty, so the request can never land, and a write may then rerun. Not
            needed on a local disk, where no request can be delayed.
        partition_by: As for `Table.create`, with ``schema``.
        properties: As for `Table.create`, with ``schema``.

    The other arguments are the same as for `Table.open`.

    Returns:
        Whether the commit landed; final.

    Raises:
        CommitStateUnknownError: An object store has no version 0 and no ``schema`` is given, or the store does not
            answer.
        TableNotFoundError: There is no table, and ``version`` is not 0.
        NotFoundError: The version was cleaned up.
    """
    from txlog.core.versions import resolve, resolve_creation

    given: Any = {"storage_options": storage_options, "retry": retry, "credential_provider": credential_provider}

    def create() -> Table:
        return Table.create(uri, schema, partition_by, properties, **given)

    def opened() -> OpenTable:
        return _open_table(uri, storage_options, retry, credential_provider)

    making = None if schema is None else create
    try:
        open_table = opened()
    except TableNotFoundError:  # a name that its catalog does not know
        if version != 0:
            raise
        return resolve_creation(str(uri), opened, txn_id, making)
    return resolve(open_table, txn_id, version, making)


@explains_calls
@explains_names
class Table(Readable, metaclass=Hinted):
    """One Delta table, open. Thread-safe; pickles without secrets.

    A handle keeps what it has read of the log, so the cost of an append does not depend on the table's size. Make one
    with `Table.open` or `Table.create`.
    """

    def __init__(self, open_table: OpenTable) -> None:
        if not isinstance(open_table, OpenTable):
            raise InvalidInputError("Do not call Table(): use Table.open(uri) or Table.create(uri, schema)")
        self._open_table = open_table
        open_table.after_commit = _AfterCommit()

    # --- opening and creating -----------------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        uri: str | os.PathLike[str],
        schema: object,
        partition_by: str | Iterable[str] | None = None,
        properties: Mapping[str, str] | None = None,
        *,
        cluster_by: str | Iterable[str] | None = None,
        column_mapping: Literal["name", "id"] | None = None,
        name: str | None = None,
        description: str | None = None,
        exist_ok: bool = False,
        storage_options: Mapping[str, str] | None = None,
        retry: RetryPolicy | None = None,
        credential_provider: Callable[[], object] | None = None,
        hooks: CommitHooks | None = None,
        user_metadata: str | None = None,
        key_cache_size: int | None = None,
        time_zone: str | ZoneInfo = UTC,
    ) -> Table:
        """Create an empty table as version 0.

        Args:
            uri: The table's location, as for `open`.
            schema: A pyarrow, Spark or Delta schema, Arrow types by name, or DDL: ``"id bigint not null, day date"``.
            partition_by: The partition columns: ``["day", "region"]`` or ``"day,region"``.
            properties: Table properties, such as ``{"delta.appendOnly": "true"}``.
            cluster_by: Up to four columns of a clustered table, as in Spark's ``CLUSTER BY``: `optimize` then puts
                together rows that are near each other in these columns. Not with ``partition_by``.
            column_mapping: Whether columns get separate ids and names in the files, so that they can be renamed and
                dropped: the property ``delta.columnMapping.mode``. "name" is what Spark's Delta uses; docs/read.md
                lists the readers that refuse such a table, or read nulls.
            name: A name in the table's metadata, which has no effect.
            description: What the table is about. `set_description` changes both.
            exist_ok: Open an existing table if it has these columns, partition columns, clustering columns (if given)
                and property values. It may have more properties, and nullable columns that were added later.
            user_metadata: A note for the table's history.

        The other arguments are the same as for `open`.

        Returns:
            The table, open.

        Raises:
            TableExistsError: There is already a table.
            SchemaMismatchError: With ``exist_ok``: the table differs; the message lists how.
            InvalidInputError: The schema, a column or a property is invalid.
            UnsupportedFeatureError: The schema or a property needs a feature that this release lacks.
            StorageError: The store failed, or ignores the condition of a conditional put.
        """
        from txlog.core.definition import create_table

        given: Any = {"cluster_by": cluster_by, "exist_ok": exist_ok, "user_metadata": user_metadata}
        given |= {"column_mapping": column_mapping, "name": name, "description": description}
        if (named := _named(uri, storage_options, credential_provider)) is not None:
            from txlog.core.catalogs import made_at_name

            handle: Any = {"retry": retry, "hooks": hooks, "key_cache_size": key_cache_size, "time_zone": time_zone}

            def create_at(place: TablePlace) -> Table:
                return cls.create(place, schema, partition_by, properties, **given, **handle)

            return made_at_name(*named, create_at, may_exist=exist_ok)
        open_table = _open_table(
            uri, storage_options, retry, credential_provider, hooks, key_cache_size, time_zone=time_zone
        )
        create_table(open_table, schema, partition_by, properties, **given)
        return cls(open_table)

    @classmethod
    def open(
        cls,
        uri: str | os.PathLike[str],
        *,
        storage_options: Mapping[str, str] | None = None,
        retry: RetryPolicy | None = None,
        credential_provider: Callable[[], object] | None = None,
        hooks: CommitHooks | None = None,
        key_cache_size: int | None = None,
        workers: GivenWorkers | None = None,
        time_zone: str | ZoneInfo = UTC,
    ) -> Table:
        """Open an existing table: a path, ``file://``, ``s3://``, ``az://``, ``abfs://`` or ``gs://`` URI.

        Args:
            uri: The table's location: the folder that contains ``_delta_log``.
            storage_options: The store's options, with the keys of deltalake; docs/storage.md lists them.
            retry: How long a commit keeps trying.
            credential_provider: A provider of ``obstore.auth``.
            hooks: Called for each commit, lost race and conflict of this handle (see `CommitHooks`).
            key_cache_size: The memory in bytes for keys of data files; the default is 256 MiB, 0 turns the cache off.
                The handle keeps keys from its second upsert on, so later small upserts read no file of the table: 16
                bytes per table row if the key is one integer, date or timestamp, 24 for other keys.
            workers: Where the tasks of commands on this handle run: any ``concurrent.futures.Executor``, such as
                ``ProcessPoolExecutor(8)``, a Dask client or its executor, or ``txlog.spark.workers(spark)``. Default: a
                few threads. Workers in other processes open the data files by the location and the storage options;
                the log is read and written only here. Appends and overwrites run here, as do upserts and merges that
                add columns and upserts with a merge engine.
            time_zone: The zone of times without one: in conditions, values and SQL texts, in ``timestamp=`` and the
                like, and in the table's stored expressions, as Spark computes them in the zone of its session. A region
                such as "Europe/Berlin", or an offset such as "+02:00".

        Returns:
            The table, open.

        Raises:
            TableNotFoundError: There is no Delta table at the location.
            UnsupportedFeatureError: The table needs a reader feature that this release lacks.
            InvalidInputError: The location, a storage option or an argument is invalid.
            CorruptLogError: The log is damaged.
            StorageError: The store failed.
        """
        from txlog.core.format.features import check_can_read

        given = hooks, key_cache_size, workers, time_zone
        open_table = _open_table(uri, storage_options, retry, credential_provider, *given)
        try:
            state = open_table.log.newest_state()
        except ForkedTableError as error:  # `repair` and `verify` work, and everything else raises it again
            logger.warning("%s: %s", open_table.uri, error)
            return cls(open_table)
        with TxlogError.located(open_table.uri, state.version):
            check_can_read(state.protocol, state.metadata)
        return cls(open_table)

    @staticmethod
    def convert(
        uri: str | os.PathLike[str],
        partition_by: object = None,
        properties: Mapping[str, str] | None = None,
        *,
        iceberg_metadata: str | None = None,
        storage_options: Mapping[str, str] | None = None,
        retry: RetryPolicy | None = None,
        credential_provider: Callable[[], object] | None = None,
        user_metadata: str | None = None,
        on_progress: OnProgress | None = None,
        workers: GivenWorkers | None = None,
    ) -> ConvertResult:
        """Make a Delta table of the Parquet files in a folder, as version 0. No file is rewritten, moved or copied.

        The table gets the columns of all files, all nullable; statistics are read from the footers. Every file in the
        folder is taken, except symbolic links and names that begin with ``_`` or ``.``. Let no other program write
        there meanwhile.

        If the folder is an Iceberg table, its metadata says which files and columns there are, and which rows are
        deleted. Columns keep their ids, so the table maps its columns, and deleted rows are marked by deletion vectors.

        Args:
            uri: The folder, as for `open`.
            partition_by: The partition columns of directories such as ``day=2026-11-20``, with types in DDL:
                ``"day date, region string"``; or names only. Types that are not given are found: int, bigint or date
                if every value is one, else string. None: the columns that the directories name. For a Hive table, pass
                its types here.
            properties: Table properties, such as ``{"delta.columnMapping.mode": "name"}`` for names with spaces.
            iceberg_metadata: The Iceberg table's current ``metadata.json``, as its catalog knows it, in full or below
                the folder. None: the newest one in ``metadata/``, if there is one.
            user_metadata: A note for the table's history.
            on_progress: Called with the name of a step, how much of it is done, and the total (None if unknown).
            workers: Where footers are read, as for `open`.

        The other arguments are the same as for `open`.

        Returns:
            The version and the number of files. If the folder is a Delta table already, ``outcome`` is
            "already_a_table", and nothing was changed.

        Raises:
            SchemaMismatchError: A column has different types in two files; the message names both.
            InvalidInputError: There is no file, one is not a readable Parquet file or belongs to another Delta table,
                or directories differ.
            UnsupportedFeatureError: A file has a column that Delta or this release lacks, or Iceberg metadata names
                equality deletes or files that are not Parquet.
            NotFoundError: A file was deleted meanwhile.
            StorageError: The store failed.
        """
        if _named(uri, storage_options, credential_provider) is not None:
            raise InvalidInputError(
                f"{uri} is a name, and a conversion takes the location of files, which stay where they are: convert"
                " that, and clone the table into the name"
            )
        open_table = _open_table(uri, storage_options, retry, credential_provider)
        from txlog.core.operations import operation
        from txlog.core.progress import step_if

        done: ConvertResult = operation("convert")(
            open_table,
            partition_by=partition_by,
            properties=properties or {},
            iceberg_metadata=iceberg_metadata,
            user_metadata=user_metadata,
            on_progress=step_if(on_progress, "reading footers of files"),
            workers=workers,
        )
        return done

    @staticmethod
    def exists(
        uri: str | os.PathLike[str],
        *,
        storage_options: Mapping[str, str] | None = None,
        credential_provider: Callable[[], object] | None = None,
    ) -> bool:
        """Whether there is a Delta table at a location.

        Args:
            uri: The location, as for `open`.
            storage_options: As for `open`.
            credential_provider: As for `open`.

        Returns:
            True if the location has a log with a commit or a checkpoint.

        Raises:
            InvalidInputError: The location or a storage option is invalid.
            StorageError: The store failed.
        """
        try:
            return _open_table(uri, storage_options, None, credential_provider).log.exists()
        except TableNotFoundError:  # the name's catalog says so
            return False

    @property
    def uri(self) -> str:
        """The location, without credentials."""
        return str(self._open_table.uri)

    # --- reading ------------------------------------------------------------------------------------------------

    def snapshot(
        self, version: int | None = None, timestamp: Moment | None = None, *, tag: str | None = None
    ) -> Snapshot:
        """One version of the table, the newest by default.

        Args:
            version: The number of a version.
            timestamp: A time in place of a version: the newest version at or before it. A ``datetime`` or an ISO 8601
                string (without zone: in the ``time_zone`` of the handle), a ``date`` (its first moment there), or an
                integer, ms since the epoch. A time after the newest commit means the newest version.
            tag: The name of a version, from `tag`.

        Returns:
            The version, which stays the same whatever is committed later.

        Raises:
            NotFoundError: The version or time is before the first that the log retains, the version is after the
                newest, or no version has this name.
            InvalidInputError: More than one of the three is set, or one is invalid.
        """
        if (version is not None) + (timestamp is not None) + (tag is not None) > 1:
            raise InvalidInputError("pass a version, a timestamp or a tag, not several", table=self.uri)
        if tag is not None:
            from txlog.core.maintenance import snapshot_named

            return snapshot_named(self._open_table, tag)
        log = self._open_table.log
        if timestamp is not None:
            from txlog.core.versions.files import milliseconds

            version = log.version_at(milliseconds(timestamp, log.time_zone))
        if version is None:
            return self._snapshot_of(self._read_newest().state)
        return self._snapshot_of(log.state_at(whole_number("version", version, table=self.uri)))

    def _snapshot_of(self, state: TableState) -> Snapshot:
        return Snapshot(self._open_table.log, state, self._open_table.task_store)

    def _told(self) -> Version:
        return Version(self._open_table.log, self._open_table.log.newest_state(), self._open_table.task_store)

    def _read(self, where: AnyCondition | None = None) -> Version:
        if where is not None:
            return self._read_newest()
        with self._open_table.log.files_ahead():  # listed beside the look for a newer version
            read = self._read_newest()
            read.load_files()
        return read

    def _read_newest(self) -> Version:
        """The newest version, which is then the one that rows of an `overwrite` are made from."""
        told = self._told()
        self._open_table.last_read.read(told.state.metadata.id, told.state.version)
        return told

    def follow(
        self,
        from_version: int,
        from_file: int = 0,
        columns: Sequence[str] | None = None,
        where: AnyCondition | None = None,
        *,
        parameters: Parameters | None = None,
        on_change: OnChange = "fail",
    ) -> Iterator[CommittedBatch]:
        """The rows that commits added, from a version to the newest one: for jobs that follow a table.

        After a batch with ``is_last_of_file``, the next call can continue at (``batch.version``, ``batch.file + 1``).

        Args:
            from_version: The first version; it may be the next one to be committed.
            from_file: The number of files of the first version to skip.
            columns: The columns to read; None means all.
            where: A condition in SQL on the rows.
            parameters: Values for ``:name`` in the condition, as for `to_batches`.
            on_change: For versions that removed or changed rows: "fail"; "skip" the version; or "added", to return all
                rows of the files that it added, unchanged rows included. Use `changes` to tell changed and unchanged
                rows apart.

        Returns:
            Batches with ``version``, ``file``, ``is_last_of_file`` and ``rows``, in the order of the commits.

        Raises:
            InvalidInputError: A version changed rows, its columns cannot be read with the newest schema, or an argument
                does not fit.
            NotFoundError: A version does not exist yet or was cleaned up, or one of its files was vacuumed.
            CorruptLogError: A file is damaged.
            StorageError: The store failed.
        """
        from txlog.core.operations import follow_table

        where = with_values(where, parameters)
        return follow_table(self._open_table, from_version, from_file, columns, where, on_change)

    def changes(
        self,
        from_version: int | None = None,
        to_version: int | None = None,
        columns: Sequence[str] | None = None,
        where: AnyCondition | None = None,
        *,
        parameters: Parameters | None = None,
        from_timestamp: Moment | None = None,
        to_timestamp: Moment | None = None,
    ) -> Rows:
        """The rows that versions inserted, updated and deleted: the table's change data feed.

        The table must have ``delta.enableChangeDataFeed`` at each of the versions. Any writer may have made them. A job
        that follows a table starts from the version after the last one it saw; if that is not committed yet, there are
        no rows.

        Args:
            from_version: The first version whose changes are read.
            to_version: The last one, included; None means the newest.
            columns: The table columns to read; None means all.
            where: A condition in SQL on the rows, which may also use the three columns below.
            parameters: Values for ``:name`` in the condition, as for `to_batches`.
            from_timestamp: A time in place of ``from_version``: the first version at or after it, as `snapshot` takes
                times.
            to_timestamp: A time in place of ``to_version``: the last version at or before it.

        Returns:
            The rows, ascending by version, as Arrow, pandas or Polars, or as a stream of record batches: the columns,
            in the types of the last version, then ``_change_type`` ("insert", "delete", "update_preimage" or
            "update_postimage"), ``_commit_version`` and ``_commit_timestamp`` (UTC). An update has both images. Rows
            that were only moved to other files are left out.

        Raises:
            InvalidInputError: The feed was off at a version, a version's columns cannot be read with the last schema,
                a column or the condition does not fit the table, or a start is missing or given twice.
            NotFoundError: A version does not exist yet or was cleaned up, or one of its files was vacuumed.
            CorruptLogError: A file is damaged.
            StorageError: The store failed.
        """
        from txlog.core.operations import VersionSpan, read_changes

        where = with_values(where, parameters)
        span = VersionSpan(from_version, to_version, from_timestamp, to_timestamp)
        return read_changes(self._open_table, span, columns, where)

    def history(self, limit: int | None = None) -> list[dict[str, Any]]:
        """The commits that the log retains, newest first.

        Args:
            limit: The maximum number of commits; None means all.

        Returns:
            A list with a dict for each commit: ``version``, ``timestamp`` (a ``datetime`` in UTC) and the fields of
            ``commitInfo`` (``operation``, ``operationParameters``, ``operationMetrics``, ``userMetadata``, ...). If a
            commit holds the appends of several callers, ``txlog`` lists them under ``joined``. Printed, it is a table
            with one line for each commit.

        Raises:
            InvalidInputError: The limit is not a whole number.
            CorruptLogError: A commit is damaged.
        """
        from txlog.core.operations import History

        return History(
            {
                **(entry.commit_info.fields if entry.commit_info else {}),
                "version": entry.version,
                "timestamp": moment(entry.timestamp_ms),
            }
            for entry in self._open_table.log.history(limit)
        )

    # --- writing ------------------------------------------------------------------------------------------------

    def append(
        self,
        data: object,
        *,
        schema_mode: SchemaMode = "strict",
        app_id: str | None = None,
        checkpoint_id: int | None = None,
        fingerprint: str | None = None,
        user_metadata: str | None = None,
        target_file_size: int | None = None,
        parquet: Mapping[str, object] | None = None,
        on_progress: OnProgress | None = None,
    ) -> WriteResult:
        """Append ``data`` as one new version: atomic, and durable on return.

        Data without rows also makes a version, as with Spark's Delta and deltalake, so that the job shows in the
        history. A `Sink` and a stream, which commit every few seconds, make no version for empty checkpoints.

        Args:
            data: Anything with ``__arrow_c_stream__`` (pyarrow, polars, pandas, a duckdb relation, a `Snapshot` or
                `Table`), a pyarrow Dataset, a polars LazyFrame, or an iterator of record batches. It is streamed, never
                collected.
            schema_mode: "strict", or "merge" to add columns that the table lacks in the same commit. A new column of
                unsigned 64-bit integers becomes decimal(20,0), one of UUIDs or JSON becomes a string.
            app_id: The name of the job. With ``checkpoint_id`` it makes the append exactly once: an equal replay
                returns ``"already_committed"``.
            checkpoint_id: The number of the job's batch. It must grow.
            fingerprint: What the batch consists of, such as source offsets. A replay with another fingerprint is an
                error. So is a replay of the last batch once its commit, which has the fingerprint, was cleaned up.
            user_metadata: A note for the table's history.
            target_file_size: The size of the data files in bytes.
            parquet: How the data files are encoded, by the names of the table properties, which it overrides:
                ``{"parquet.compression": "zstd", "parquet.bloom.filter.enabled#id": True}``.
            on_progress: Called with the name of a step, how much of it is done, and the total (None if unknown).

        Returns:
            What was written, in which version.

        Raises:
            SchemaMismatchError: Columns of the data differ; the message lists all of them.
            InvalidInputError: A row cannot be stored, or the arguments do not fit together.
            ConflictError: A concurrent commit made the write invalid; nothing landed.
            CommitStateUnknownError: The commit may have landed; see `resolve`.
            StorageError: The store failed; nothing landed.
        """
        options = WriteOptions(
            schema_mode=schema_mode,
            commit=CommitOptions(app_id, checkpoint_id, fingerprint, user_metadata),
            target_file_size_bytes=target_file_size,
            parquet=parquet or {},
        )
        return self._open_table.run(write_steps(self._open_table, data, options, on_progress))

    def overwrite(
        self,
        data: object,
        where: AnyCondition | None = None,
        *,
        parameters: Parameters | None = None,
        schema_mode: SchemaMode = "strict",
        partition_by: str | Iterable[str] | None = None,
        app_id: str | None = None,
        checkpoint_id: int | None = None,
        fingerprint: str | None = None,
        user_metadata: str | None = None,
        target_file_size: int | None = None,
        parquet: Mapping[str, object] | None = None,
        column_rules: ColumnRules | None = None,
        row_mode: RowMode | None = None,
        on_conflict: OnConflict = "fail",
        read_version: int | None = None,
        dry_run: bool = False,
        on_progress: OnProgress | None = None,
    ) -> WriteResult:
        """Replace rows of the table with ``data``, as one new version: every row, or the rows that satisfy ``where``.

        With ``where``, such as ``"day = '2026-11-20'"``, rows of ``data`` that do not satisfy it are refused, and all
        other rows of the table stay (Spark's ``replaceWhere``). Another writer's commit that touches the replaced rows
        is a conflict, even before this call if it came after the last read through this handle (`snapshot`, or an Arrow
        stream): new rows from that read would undo it. A blind append under the table's default isolation level counts
        as later: its rows stay.

        Args:
            data: The new rows; see `append`.
            where: A condition on the table's columns, in SQL; None replaces every row.
            parameters: Values for ``:name`` in the condition, as for `to_batches`.
            schema_mode: "strict"; "merge" adds columns that the table lacks; "overwrite" gives the table the columns of
                ``data`` (not with ``where``).
            partition_by: With ``schema_mode="overwrite"``, the new partition columns; None keeps them, [] removes them.
            column_rules: With ``schema_mode="overwrite"``: "keep" keeps NOT NULL, comments, expressions of generated
                columns, defaults and lengths of text of columns that ``data`` has with the same type; "drop" drops
                them; None drops them too, and the result's ``notes`` and a warning in the log say which.
            row_mode: With ``where``, how to remove rows from files that keep other rows, as for `delete`:
                "merge-on-read" or "copy-on-write".
            on_conflict: "fail", or "rerun": replace what the newest version has, whatever this handle has read,
                including rows that others appended meanwhile. For rows from another source.
            read_version: The version that ``data`` comes from; a later change is a conflict. None: with ``where``, the
                version that this handle last read, if any; otherwise the newest.
            dry_run: Write nothing, and return what would be replaced, as for `delete`.

        The other arguments are the same as for `append`.

        Returns:
            The result; its metrics count the rows written, deleted and copied.

        Raises:
            InvalidInputError: A row is outside ``where``, or the table is append-only.
            ConflictError: A concurrent commit touched what is replaced; nothing landed. Also what `append` raises.
        """
        where = with_values(where, parameters)
        options = WriteOptions(
            mode="overwrite",
            where=where,
            schema_mode=schema_mode,
            partition_by=None if partition_by is None else names_in("partition_by", partition_by),
            commit=CommitOptions(app_id, checkpoint_id, fingerprint, user_metadata, read_version, on_conflict),
            target_file_size_bytes=target_file_size,
            parquet=parquet or {},
            row_mode=row_mode,
            column_rules=column_rules,
            dry_run=dry_run,
        )
        return self._open_table.run(write_steps(self._open_table, data, options, on_progress))

    def overwrite_partitions(
        self,
        data: object,
        *,
        schema_mode: SchemaMode = "strict",
        app_id: str | None = None,
        checkpoint_id: int | None = None,
        fingerprint: str | None = None,
        user_metadata: str | None = None,
        target_file_size: int | None = None,
        parquet: Mapping[str, object] | None = None,
        on_conflict: OnConflict = "fail",
        read_version: int | None = None,
        dry_run: bool = False,
        on_progress: OnProgress | None = None,
    ) -> WriteResult:
        """Replace the partitions that have rows in ``data``, as one new version; all other partitions stay.

        This is Spark's dynamic partition overwrite. Another writer's commit that touches the replaced partitions is a
        conflict, as for `overwrite`.

        Args:
            data: The new rows; see `append`.
            schema_mode: "strict", or "merge" to add columns that the table lacks.
            on_conflict: As for `overwrite`, for the replaced partitions.
            read_version: As for `overwrite`.
            dry_run: As for `overwrite`.

        The other arguments are the same as for `append`.

        Returns:
            What was written and removed, in which version.

        Raises:
            InvalidInputError: The table is not partitioned or is append-only.
            TxlogError: What `overwrite` raises.
        """
        options = WriteOptions(
            mode="overwrite_partitions",
            schema_mode=schema_mode,
            commit=CommitOptions(app_id, checkpoint_id, fingerprint, user_metadata, read_version, on_conflict),
            target_file_size_bytes=target_file_size,
            parquet=parquet or {},
            dry_run=dry_run,
        )
        return self._open_table.run(write_steps(self._open_table, data, options, on_progress))

    def delete(
        self,
        where: AnyCondition | None = None,
        *,
        parameters: Parameters | None = None,
        all: bool = False,
        row_mode: RowMode | None = None,
        parquet: Mapping[str, object] | None = None,
        on_conflict: OnConflict = "rerun",
        read_version: int | None = None,
        app_id: str | None = None,
        checkpoint_id: int | None = None,
        fingerprint: str | None = None,
        user_metadata: str | None = None,
        dry_run: bool = False,
        on_progress: OnProgress | None = None,
        workers: GivenWorkers | None = None,
    ) -> WriteResult:
        """Delete the rows for which ``where`` (a condition in SQL) is true, or every row with ``all=True``.

        A delete never fails because of rows that others write meanwhile: after a lost race it reruns on the newest
        version, and reads only new files. The result is as if the commits had run one after the other. A delete without
        matching rows commits nothing.

        Args:
            where: A condition in SQL, or one built from `txlog.col`. Rows for which it is unknown (null) stay.
            parameters: Values for ``:name`` in SQL text, each as `txlog.lit` takes it, or a list for ``IN (:name)``.
            all: Delete every row; then without ``where``.
            row_mode: "merge-on-read" marks rows as deleted in deletion vectors, "copy-on-write" rewrites their files.
                None: vectors if the table enables them (``delta.enableDeletionVectors``), otherwise copies. If
                partition values or statistics prove that every row of a file matches, the file is never read.
            parquet: How new files are encoded, as for `append`.
            on_conflict: "rerun", or "fail": conflict with commits that touch what was read, by Delta's rules.
            read_version: Delete as of this version, and conflict with later commits that touch what was read.
            app_id: With ``checkpoint_id`` as for `append`: the delete happens at most once.
            checkpoint_id: As for `append`.
            fingerprint: As for `append`.
            user_metadata: A note for the table's history.
            dry_run: Change nothing, and return what would be changed: the result's outcome is "dry_run", and its
                metrics count the rows and files. It runs in this process.
            on_progress: Called with the name of a step, how much of it is done, and the total (None if unknown).
            workers: Where its tasks run, as for `open`. Default: the workers of this handle.

        Returns:
            How many rows and files changed, in which version.

        Raises:
            InvalidInputError: There is neither a condition nor ``all=True``, the condition does not fit the table, or
                the table is append-only.
            ConflictError: A concurrent commit made the change invalid; nothing landed.
            CommitStateUnknownError: The commit may have landed; see `resolve`.
        """
        from txlog.core.changes.plan import RowOptions, change_where, check_delete
        from txlog.core.changes.tasks.operations import DeleteSpec

        where = with_values(where, parameters)
        check_delete(where, all)
        commit = CommitOptions(app_id, checkpoint_id, fingerprint, user_metadata, read_version, on_conflict)
        options = RowOptions(row_mode, commit, on_progress, parquet, dry_run)
        return change_where(self._open_table, DeleteSpec(where), options, workers)

    def update(
        self,
        values: Mapping[str, object],
        where: AnyCondition | None = None,
        *,
        parameters: Parameters | None = None,
        row_mode: RowMode | None = None,
        parquet: Mapping[str, object] | None = None,
        on_conflict: OnConflict = "rerun",
        read_version: int | None = None,
        app_id: str | None = None,
        checkpoint_id: int | None = None,
        fingerprint: str | None = None,
        user_metadata: str | None = None,
        dry_run: bool = False,
        on_progress: OnProgress | None = None,
        workers: GivenWorkers | None = None,
    ) -> WriteResult:
        """Set columns of the rows for which ``where`` is true; None means all rows.

        Args:
            values: The columns and struct fields (``"address.zip"``) to set, each to a value, to `txlog.lit` of a
                string, or to what `txlog.col` and `txlog.expr` compute from the row's old values:
                ``txlog.col("amount") * 2``, ``txlog.expr("round(amount * 1.1, 2)")``. A plain string is refused, since
                it could be text or SQL; None is null; lists and mappings are arrays, maps and structs. For a whole
                column, a function gets rows as a ``pyarrow.RecordBatch`` and returns an array; for the same rows it
                must return the same values. ``current_timestamp()`` has one value for all rows. A struct of which
                fields are set keeps the others, and is no longer null. Rows may move to other partitions.
            where: As for `delete`.
            parameters: Values for ``:name`` in the condition and in `txlog.expr`, as for `delete`.

        The other arguments and the concurrency are as for `delete`. ``workers`` in other processes need functions that
        can be pickled, such as the functions of a module.

        Returns:
            How many rows and files changed, in which version.

        Raises:
            InvalidInputError: A value does not fit its column, or is null for a NOT NULL column.
            TxlogError: What `delete` raises.
        """
        from txlog.core.changes.plan import RowOptions, change_where
        from txlog.core.changes.tasks.operations import UpdateSpec

        values, where = with_values_of(values, where, parameters)
        commit = CommitOptions(app_id, checkpoint_id, fingerprint, user_metadata, read_version, on_conflict)
        options = RowOptions(row_mode, commit, on_progress, parquet, dry_run)
        return change_where(self._open_table, UpdateSpec(values, where), options, workers)

    def upsert(
        self,
        data: object,
        keys: str | Iterable[str],
        *,
        when_matched: WhenMatched = "update",
        when_not_matched: WhenNotMatched = "insert",
        update_columns: Sequence[str] | None = None,
        missing_columns: MissingColumns = "error",
        on_duplicate: OnDuplicate = "error",
        sequence_by: str | None = None,
        schema_mode: SchemaMode = "strict",
        merge_engine: str | Mapping[str, object] | None = None,
        row_kind: str | None = None,
        row_kinds: Mapping[int, str] | Mapping[str, str] | None = None,
        row_mode: RowMode | None = None,
        parquet: Mapping[str, object] | None = None,
        on_conflict: OnConflict = "rerun",
        read_version: int | None = None,
        app_id: str | None = None,
        checkpoint_id: int | None = None,
        fingerprint: str | None = None,
        user_metadata: str | None = None,
        dry_run: bool = False,
        on_progress: OnProgress | None = None,
        workers: GivenWorkers | None = None,
    ) -> WriteResult:
        """Update the rows whose keys are in ``data``, and insert the others, as one new version.

        An upsert never fails because of rows that others write meanwhile, even rows with the same keys: after a lost
        race it reruns on the newest version, and the result is as if the commits had run one after the other. That does
        not protect values computed from an earlier read: pass ``read_version`` for those.

        Args:
            data: Anything `append` takes, with every column of the table, or as ``missing_columns`` allows; read once,
                and stored in a temporary file if large.
            keys: The columns that identify a row, or paths into structs ("address.zip"; a field whose name has a dot is
                in backticks): integer, string, binary, boolean, date, timestamp or decimal. A null key in ``data`` is
                an error; in the table it matches nothing. If several table rows have the same key, the row in ``data``
                replaces all of them.
            when_matched: "update", or "ignore" to leave out rows whose keys the table has.
            when_not_matched: "insert", or "ignore" to leave out rows whose keys the table lacks.
            update_columns: The columns that matched rows get from ``data``; all others keep their values, and each
                table row with the key is updated. None: whole rows are replaced.
            missing_columns: If ``data`` lacks columns of the table: "error"; or "default": matched rows keep their
                values, and inserted rows get defaults or nulls. A NOT NULL column without a default is an error.
            on_duplicate: If two rows of ``data`` have the same key: "error", or use the "last" or the "first" one.
            sequence_by: A column whose greatest value is the last; among equal values, the order of arrival decides.
            schema_mode: "strict", or "merge" to add columns of ``data`` that the table lacks.
            merge_engine: How rows with one key, including the table's, become one: "deduplicate", "partial-update",
                "aggregation", "first-row" or Paimon's options. None: the table's ``txlog.merge-engine``.
            row_kind: The column with the kind of each row: ``+I``, ``-U``, ``+U``, ``-D``, "insert", "update",
                "delete", Debezium's letters and others that docs/stream-changes.md lists, and the values that
                ``row_kinds`` adds (``{"gone": "-D"}``).

        The other arguments are the same as for `delete`. On ``workers``, each task gets all of ``data`` and some of the
        table's files. Upserts with a merge engine, and upserts that add columns, cannot use workers.

        Returns:
            How many rows were inserted, updated and deleted, in which version.

        Raises:
            SchemaMismatchError: Columns are missing or do not fit.
            InvalidInputError: A key is null or repeated, or a row kind is invalid.
            TxlogError: What `delete` raises.
        """
        from txlog.core.changes.plan import RowOptions, upsert_rows
        from txlog.core.changes.tasks.operations import UpsertOptions

        commit = CommitOptions(app_id, checkpoint_id, fingerprint, user_metadata, read_version, on_conflict)
        options = RowOptions(row_mode, commit, on_progress, parquet, dry_run)
        given = keys, when_matched, when_not_matched, update_columns, on_duplicate, sequence_by, schema_mode
        how = UpsertOptions(*given, merge_engine, row_kind, row_kinds, missing_columns)
        return upsert_rows(self._open_table, data, how, options, workers)

    def merge(
        self,
        data: object,
        on: AnyCondition | Iterable[str],
        *,
        parameters: Parameters | None = None,
        source_alias: str = "source",
        target_alias: str = "target",
        schema_mode: SchemaMode = "strict",
        row_mode: RowMode | None = None,
        parquet: Mapping[str, object] | None = None,
        on_conflict: OnConflict = "rerun",
        read_version: int | None = None,
        app_id: str | None = None,
        checkpoint_id: int | None = None,
        fingerprint: str | None = None,
        user_metadata: str | None = None,
        dry_run: bool = False,
        on_progress: OnProgress | None = None,
        workers: GivenWorkers | None = None,
    ) -> MergeBuilder[WriteResult]:
        """Start a merge of ``data`` into the table; add clauses, then call ``execute()`` (see `MergeBuilder`).

        ``table.merge(rows, "target.id = source.id").when_matched_update_all().when_not_matched_insert_all().execute()``
        does what `upsert` does, but updates each table row separately.

        Args:
            data: Anything `append` takes; conditions and values may also use columns that the table lacks.
            on: Which rows match: the names of key columns, or any SQL condition. Hashing finds equal values of both
                sides (``target.id = source.id``, ``lower(target.k) = source.k``, ``<=>``), and a search finds ranges
                (``source.ts BETWEEN target.start AND target.end``). Without either, every table row is compared with
                every source row.
            parameters: Values for ``:name`` in ``on`` and in the SQL of all clauses, as for `delete`.
            source_alias: The name of ``data`` in conditions and values.
            target_alias: The name of the table in conditions and values.
            schema_mode: "strict", or "merge" to add columns of ``data`` that the table lacks: all of them if there is
                a clause for all columns, otherwise those that clauses set. Columns that ``data`` lacks keep their
                values in rows that a clause for all columns updates, and are null in rows that it inserts.

        The other arguments and the concurrency are as for `delete`. On ``workers``, each task gets the whole source and
        some files of the table; a merge that adds columns cannot use workers.

        Returns:
            A builder, to which clauses are added. ``execute()`` returns the result.

        Raises:
            TxlogError: ``execute()`` raises what `upsert` raises.
        """
        from txlog.core.changes.plan import MergeBuilder, RowOptions, merge_rows
        from txlog.core.changes.tasks.operations import MergeOptions

        commit = CommitOptions(app_id, checkpoint_id, fingerprint, user_metadata, read_version, on_conflict)
        options = RowOptions(row_mode, commit, on_progress, parquet, dry_run)
        merge = MergeOptions(on, source_alias, target_alias, schema_mode, parameters)
        return MergeBuilder(
            self.uri, merge, lambda clauses: merge_rows(self._open_table, data, merge, clauses, options, workers)
        )

    def add_files(
        self,
        paths: str | Sequence[str],
        *,
        user_metadata: str | None = None,
        on_progress: OnProgress | None = None,
        workers: GivenWorkers | None = None,
    ) -> WriteResult:
        """Add Parquet files that are already below the table's root to the table, without rewriting them.

        Partition values are read from Hive-style directories (``day=2026-11-20/``), statistics from the footers.

        Args:
            paths: The files, by paths relative to the table's root. Or one string, a folder: all Parquet files in it
                that the table neither has nor had ("" is the root), so a call that failed can be repeated. Let nobody
                write to the folder meanwhile.
            user_metadata: A note for the table's history.
            on_progress: Called with the name of a step, how much of it is done, and the total (None if unknown).
            workers: Where footers are read, as for `open`. Default: the workers of this handle.

        Returns:
            What was added, in which version.

        Raises:
            SchemaMismatchError: The columns of a file differ from the table's.
            UnsupportedFeatureError: A column has timestamps in nanoseconds, 16-bit floats or UUIDs, which Spark cannot
                read from a file.
            InvalidInputError: A file is already in the table, its directories name no partition, or a folder has no
                Parquet file or one that a txlog write has not committed.
            NotFoundError: There is no file at a path.
        """
        from txlog.core.versions import state_of

        with self.transaction(operation="ADD FILES", user_metadata=user_metadata) as transaction:
            adds = self._operation("add_files")(
                state=state_of(transaction), paths=paths, on_progress=on_progress, workers=workers
            )
            transaction._take_over(adds, are_looked_at=True)
        return transaction.result

    def copy_into(
        self,
        source: str | os.PathLike[str],
        format: Literal["parquet", "csv", "json"] | None = None,
        pattern: str | None = None,
        *,
        schema_mode: Literal["strict", "merge"] = "strict",
        delimiter: str | None = None,
        header: bool = True,
        null_values: str | Iterable[str] = (),
        decimal_comma: bool = False,
        force: bool = False,
        dry_run: bool = False,
        storage_options: Mapping[str, str] | None = None,
        credential_provider: Callable[[], object] | None = None,
        user_metadata: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> CopyResult:
        """Load the files of a folder that were not loaded before, as one version. Each file is loaded exactly once.

        The version that adds a file's rows also records the file, so you can run this as often as you like, after any
        failure, or in several processes at once. Files are told apart by their location: a file that is written again
        under the same name is not loaded again. Names that begin with ``_`` or ``.`` and symbolic links are left out.
        Rows are checked as by `append`; if one file cannot be read, none is loaded.

        Args:
            source: The folder, as for `open`. Folders in it are read too. An object store has no folders: a name that
                is wrong there loads 0 files.
            format: What the files are. None: by suffix, such as ``.parquet``, ``.csv``, ``.jsonl.gz``. JSON has one
                object on each line.
            pattern: Only files whose path below the folder matches, such as ``"2026-*/*.csv"``; ``*`` also matches
                ``/``.
            schema_mode: "merge" adds columns that the table lacks.
            delimiter: What separates the values in CSV files. None: ``,``, or a tab in ``.tsv`` files.
            header: Whether the first line of CSV files has names; otherwise the columns are the table's, in order.
            null_values: Texts in CSV files that mean null, besides the empty one.
            decimal_comma: Whether numbers in CSV files are written as ``1,50``, with a comma and no point.
            force: Load all files, whether they were loaded before or not.
            dry_run: Change nothing, and return what would be loaded.
            storage_options: Options for the folder's store; None: this table's.
            credential_provider: Of the folder's store, as for `open`.
            user_metadata: A note for the table's history.
            on_progress: Called with the name of a step, how much of it is done, and the total (None if unknown).

        Returns:
            The files that were loaded and their rows, and how many were loaded before.

        Raises:
            InvalidInputError: A file cannot be read or is one of a Delta table, or a row cannot be stored; the message
                names the file or row.
            NotFoundError: There is no such folder on this disk.
            SchemaMismatchError: The files have other columns than the table.
            UnsupportedFeatureError: This release cannot write the table.
            ConflictError: Other commits came first, a hundred times.
            StorageError: A store failed.
        """
        from txlog.core.progress import step_if

        place = self._options_of_another_place(storage_options, credential_provider)
        done: CopyResult = self._operation("copy_into")(
            source=open_store(source, *place),
            format=format,
            pattern=pattern,
            schema_mode=schema_mode,
            delimiter=delimiter,
            header=header,
            null_values=(null_values,) if isinstance(null_values, str) else tuple(null_values),
            decimal_comma=decimal_comma,
            force=force,
            dry_run=dry_run,
            user_metadata=user_metadata,
            on_progress=step_if(on_progress, "reading bytes"),
        )
        return done

    def transaction(
        self,
        isolation: IsolationLevel | None = None,
        *,
        operation: str | None = None,
        data_change: bool = True,
        user_metadata: str | None = None,
        refresh: bool = True,
    ) -> Transaction:
        """Run several reads and writes as one version; it commits when the block ends normally (see `Transaction`).

        Args:
            isolation: "Serializable", "WriteSerializable" or, for rewrites that change no data, "SnapshotIsolation".
                None: the table's ``delta.isolationLevel``.
            operation: The operation in the history. None: DELETE if files were only removed, otherwise WRITE.
            data_change: False if the transaction only moves rows to other files; streams then skip it.
            user_metadata: A note for the table's history.
            refresh: Whether it begins with a look at the newest version. False: it begins at the version that this
                handle has seen in the last minute, which on an object store saves a round trip if nobody else has
                written since. The commit checks all versions after it, so one that reads or changes rows may end in a
                conflict.

        Returns:
            A context manager for one ``with`` block.

        Raises:
            InvalidInputError: The isolation level is unknown.
            UnsupportedFeatureError: The table needs a feature that this release cannot write.
            StorageError: The store failed.
        """
        from txlog.table_transaction import Transaction

        return Transaction(
            self._open_table,
            isolation=isolation,
            operation=operation,
            data_change=data_change,
            user_metadata=user_metadata,
            refresh=refresh,
        )

    # --- the table's definition ---------------------------------------------------------------------------------

    def set_properties(self, properties: Mapping[str, str], *, user_metadata: str | None = None) -> WriteResult:
        """Set table properties, and upgrade the protocol if they need it.

        ``delta.enableRowTracking`` = ``true`` first gives row ids to the table's existing files, in separate commits
        that change no row; other writers can continue meanwhile. After an interruption, call it again.

        Args:
            properties: The values by key. Keys under ``delta.`` must be known; other keys are your own.
            user_metadata: A note for the table's history.

        Returns:
            The version that has them; "nothing to change" if they were already set. Its ``notes`` say which readers and
            writers an upgrade of the protocol concerns; a warning in the log says it too.

        Raises:
            InvalidInputError: A key is unknown or a value is invalid.
            UnsupportedFeatureError: A property needs a feature that this release lacks.
        """
        from txlog.core.definition import set_properties

        return set_properties(self._open_table, properties, user_metadata)

    def drop_feature(
        self,
        name: str,
        *,
        truncate_history: bool = False,
        user_metadata: str | None = None,
        workers: GivenWorkers | None = None,
    ) -> WriteResult:
        """Drop a table feature, like Spark's ``ALTER TABLE ... DROP FEATURE``, for readers and writers that lack it.

        First, separate versions remove what the table has of the feature: deletion vectors (a `purge`), files with
        earlier types of columns, names of columns in files (all files are rewritten), row ids, V2 checkpoints,
        in-commit timestamps, and the counting of identity columns, whose values stay. If the definition uses the
        feature in another way, it is not dropped: the error says what to remove. Other writers can continue; if
        they make this fail, call it again.

        After a feature for readers was dropped, the table has the feature ``checkpointProtection``: older versions
        stay readable only for those who know the dropped feature, and the log is cleaned up to this version at once or
        not at all. Once they are cleaned up, ``checkpointProtection`` can be dropped too.

        Args:
            name: The feature, such as ``"deletionVectors"``.
            truncate_history: Remove the versions that need the feature from the log instead of protecting them, like
                Spark's ``TRUNCATE HISTORY``. They must be older than a day, so the first call removes what the table
                has of the feature and raises an error that says when to call again.
            user_metadata: A note for the table's history.
            workers: Where files are rewritten, as for `open`. Default: the workers of this handle.

        Returns:
            The version without the feature.

        Raises:
            InvalidInputError: The table does not have the feature, uses it, or has another one that needs it; or
                versions that need it are too young to be removed.
            UnsupportedFeatureError: The feature cannot be dropped: a catalog decides the table's versions.
            ConflictError: A concurrent commit changed the table's definition.
        """
        from txlog.core.maintenance import drop_feature

        return drop_feature(self._open_table, name, user_metadata, workers, truncate_history=truncate_history)

    def unset_properties(self, keys: Iterable[str], *, user_metadata: str | None = None) -> WriteResult:
        """Unset table properties.

        Args:
            keys: The keys to remove.
            user_metadata: A note for the table's history.

        Returns:
            The version without them.

        Raises:
            InvalidInputError: A property is not set, or cannot be unset.
        """
        from txlog.core.definition import unset_properties

        return unset_properties(self._open_table, keys, user_metadata)

    def add_columns(self, schema: object, *, user_metadata: str | None = None) -> WriteResult:
        """Add nullable columns, or fields of nested structs; they are null in existing rows.

        Args:
            schema: The new columns: a pyarrow, Spark or Delta schema, or DDL. A column that the table has with a
                narrower type gets the wider one if the table allows it (``delta.enableTypeWidening``).
            user_metadata: A note for the table's history.

        Returns:
            The version that has them; "nothing to change" if the table had all of them.

        Raises:
            SchemaMismatchError: A column exists with another type.
            InvalidInputError: A new column is NOT NULL.
        """
        from txlog.core.definition import added_columns, change_definition

        return change_definition(self._open_table, lambda state: added_columns(state, schema), user_metadata)

    def rename_column(self, column: str, name: str, *, user_metadata: str | None = None) -> WriteResult:
        """Rename a column or a struct field, like Spark's ``ALTER TABLE ... RENAME COLUMN``. Rewrites no file.

        The table must map its columns (``delta.columnMapping.mode``), which not every reader knows. Partitioning,
        clustering, ``delta.dataSkippingStatsColumns`` and the options of merge engines follow the new name.

        Args:
            column: The column; ``"a.b"`` for a struct field, ``"tags.element.b"`` in a list.
            name: The new name, without the struct's name.
            user_metadata: A note for the table's history.

        Returns:
            The version with the new name.

        Raises:
            InvalidInputError: There is no such column, the name is taken, the table does not map its columns, or a
                constraint or a generated column names the column.
            ConflictError: A concurrent commit changed the table's definition. Rows that others write do not matter.
        """
        from txlog.core.definition import change_definition, renamed_column

        return change_definition(self._open_table, lambda state: renamed_column(state, column, name), user_metadata)

    def drop_columns(self, columns: str | Iterable[str], *, user_metadata: str | None = None) -> WriteResult:
        """Drop columns or struct fields, like Spark's ``ALTER TABLE ... DROP COLUMNS``. Rewrites no file.

        The values stay in the files until `purge` rewrites them and `vacuum` deletes the old files.

        Args:
            columns: One column or several, as for `rename_column`.
            user_metadata: A note for the table's history.

        Returns:
            The version without the columns.

        Raises:
            InvalidInputError: There is no such column, the table does not map its columns, or something else names one:
                partitioning, clustering, a constraint, a generated column, or a merge engine.
            ConflictError: A concurrent commit changed the table's definition. Rows that others write do not matter.
        """
        from txlog.core.definition import change_definition, dropped_columns

        return change_definition(self._open_table, lambda state: dropped_columns(state, columns), user_metadata)

    def alter_column(
        self,
        column: str,
        *,
        type: str | pa.DataType | None = None,
        nullable: bool | None = None,
        comment: str | None = None,
        default: str | None = None,
        first: bool = False,
        after: str | None = None,
        user_metadata: str | None = None,
        workers: GivenWorkers | None = None,
    ) -> WriteResult:
        """Change properties of a column in one version, like Spark's ``ALTER TABLE ... ALTER COLUMN``.

        Args:
            column: The column as for `rename_column`; for ``type`` also ``"tags.element"``, ``"prices.key"`` or
                ``"prices.value"``.
            type: A wider type, in DDL or Arrow's. The table must allow it (``delta.enableTypeWidening``), which not
                every reader knows. No file is rewritten.
            nullable: False adds NOT NULL, after a check of all rows; True drops it.
            comment: The comment; an empty one removes it.
            default: The value of rows that lack the column, in SQL; empty for none. Existing rows stay as they are.
            first: Whether the column becomes the first of the table, or of its struct.
            after: The neighbor that the column comes after.
            user_metadata: A note for the table's history.
            workers: Where rows are checked for NOT NULL, as for `open`. Default: the workers of this handle.

        Returns:
            The version with the change; "nothing to change" if the column already was like this.

        Raises:
            InvalidInputError: There is no such column, the type is not wider or the table does not allow it, a
                constraint or a generated column would use other types, a row has no value for a NOT NULL
                column, or the default does not fit.
            ConflictError: A concurrent commit changed the table's definition. Rows that others write do not
                matter, but are checked for NOT NULL.
        """
        from txlog.core.definition import ColumnAlteration, altered_column, change_definition

        asked = ColumnAlteration(type, nullable, comment, default, first, after)
        return change_definition(
            self._open_table, lambda state: altered_column(state, column, asked), user_metadata, workers
        )

    def sync_identity(self, column: str, *, user_metadata: str | None = None) -> WriteResult:
        """Advance an identity column past its highest value, like Spark's ``ALTER COLUMN ... SYNC IDENTITY``.

        In a column that is ``GENERATED BY DEFAULT AS IDENTITY``, rows may have their own values, and these do not move
        the table's high-water mark. After this call, new rows get only values beyond all that the table has. The mark
        never goes back. The column is read; no file is rewritten.

        Args:
            column: The identity column.
            user_metadata: A note for the table's history.

        Returns:
            The version with the new mark; "nothing to change" if the mark is already beyond these values.

        Raises:
            InvalidInputError: There is no such identity column.
            ConflictError: A concurrent commit changed the table's definition. Rows that others write meanwhile are
                taken into account.
        """
        from txlog.core.definition import IdentitySync, change_definition

        return change_definition(self._open_table, IdentitySync(self._open_table, column), user_metadata)

    def set_description(
        self, description: str | None = None, *, name: str | None = None, user_metadata: str | None = None
    ) -> WriteResult:
        """Set the table's description, like Spark's ``COMMENT ON TABLE``, or its name.

        Args:
            description: The text; an empty one removes it, None leaves it as it is.
            name: The name in the table's metadata, which has no effect; an empty one removes it.
            user_metadata: A note for the table's history.

        Returns:
            The version that has them.

        Raises:
            InvalidInputError: Neither is set, or one is not text.
        """
        from txlog.core.definition import change_definition, described_table

        return change_definition(
            self._open_table, lambda state: described_table(state, description, name), user_metadata
        )

    def add_constraint(
        self,
        name: str,
        condition: str,
        *,
        user_metadata: str | None = None,
        workers: GivenWorkers | None = None,
    ) -> WriteResult:
        """Require a condition of every row from now on, in every engine (Spark's ``ALTER TABLE ... ADD CONSTRAINT``).

        Checks all rows of the table first, including rows that others add meanwhile. Upgrades the protocol.

        Args:
            name: The name of the constraint, in any case.
            condition: SQL, such as ``"amount > 0"``. A row violates it if it is false or NULL.
            user_metadata: A note for the table's history.
            workers: Where rows are checked, as for `open`. Default: the workers of this handle.

        Returns:
            The version that has the constraint.

        Raises:
            InvalidInputError: A row violates the condition, the condition does not fit the table, or the name is taken.
            ConflictError: A concurrent commit changed the table's definition.
        """
        from txlog.core.definition import add_constraint

        return add_constraint(self._open_table, name, condition, user_metadata, workers)

    def drop_constraint(self, name: str, *, if_exists: bool = False, user_metadata: str | None = None) -> WriteResult:
        """Drop a constraint; rows need no longer meet it.

        Args:
            name: The name of the constraint, in any case.
            if_exists: Whether to do nothing if there is none.
            user_metadata: A note for the table's history.

        Returns:
            The version without it.

        Raises:
            InvalidInputError: The table has no such constraint.
        """
        from txlog.core.definition import drop_constraint

        return drop_constraint(self._open_table, name, user_metadata, is_optional=if_exists)

    def cluster_by(self, columns: str | Iterable[str] | None, *, user_metadata: str | None = None) -> WriteResult:
        """Cluster the table by other columns from now on, or by none, like Spark's ``ALTER TABLE ... CLUSTER BY``.

        This rewrites no file: the next `optimize`, or Spark's, clusters by these columns. Upgrades the protocol of a
        table that was not clustered.

        Args:
            columns: Up to four columns, each with statistics; None for none.
            user_metadata: A note for the table's history.

        Returns:
            The version with this definition.

        Raises:
            InvalidInputError: The table cannot be clustered by these columns, or is partitioned.
            ConflictError: A concurrent commit changed the table's definition.
        """
        from txlog.core.definition import cluster_by

        return cluster_by(self._open_table, columns, user_metadata)

    # --- data files -----------------------------------------------------------------------------------------------

    def optimize(
        self,
        where: AnyCondition | None = None,
        *,
        parameters: Parameters | None = None,
        target_file_size: int | None = None,
        parquet: Mapping[str, object] | None = None,
        max_bytes: int | None = None,
        zorder_by: str | Sequence[str] | None = None,
        dry_run: bool = False,
        user_metadata: str | None = None,
        on_progress: OnProgress | None = None,
        workers: GivenWorkers | None = None,
    ) -> RewriteResult:
        """Rewrite small files, and files with many dead rows, into fewer and larger ones. No row changes.

        Readers and writers continue meanwhile, and no writer loses a race to it: a row that another writer deletes from
        a file being rewritten becomes dead in the new file, and if others remove one of the files in a bin, that bin is
        given up. Many files take several commits, so an interruption costs only the last one. The old files stay until
        a vacuum deletes them.

        Args:
            where: Which partitions, such as ``"day >= '2026-11-01'"``, by partition columns only. None: all.
            parameters: Values for ``:name`` in the condition, as for `to_batches`.
            parquet: How the new files are encoded, as for `append`.
            target_file_size: The size of the new files, in bytes. Default: ``delta.targetFileSize``, or 128 MiB.
                Rewrites smaller files, and files with more than 5 % dead rows.
            max_bytes: The maximum bytes to rewrite in this call; files with the most gain for their size come first.
                Default: all.
            zorder_by: Columns that readers filter by, such as ``["customer", "time"]`` or ``"customer,time"``. This
                call rewrites all files of the partitions so that rows near each other in these columns share files
                (along a Hilbert curve), and filters on any of them skip files. Files that an earlier call ordered by
                them stay as they are if nothing was added. Data that does not fit into memory goes to a temporary
                folder. The table does not remember the columns; `cluster_by` defines them for every later call, and for
                a table defined that way, ``zorder_by`` is refused.
            dry_run: Rewrite nothing, and return what would be rewritten.
            user_metadata: A note for the table's history.
            on_progress: Called with the name of a step, how much of it is done, and the total (None if unknown).
            workers: Where its tasks run, as for `open`. Default: the workers of this handle.

        Returns:
            The files and bytes before and after, and the versions committed.

        Raises:
            InvalidInputError: ``where`` names other columns, or an argument is out of range.
            UnsupportedFeatureError: The table needs a feature that this release cannot write.
            MetadataChangedError: The table's schema was changed meanwhile; already committed groups stay.
            NotFoundError: A data file is missing.
            CorruptLogError: A data file cannot be read.
            StorageError: The store failed.
        """
        from txlog.core.maintenance import optimize

        where = with_values(where, parameters)
        return optimize(
            self._open_table,
            where,
            target_file_size_bytes=target_file_size,
            parquet=parquet,
            max_bytes=max_bytes,
            zorder_by=zorder_by,
            dry_run=dry_run,
            user_metadata=user_metadata,
            on_progress=on_progress,
            workers=workers,
        )

    def purge(
        self,
        where: AnyCondition | None = None,
        *,
        parameters: Parameters | None = None,
        dry_run: bool = False,
        user_metadata: str | None = None,
        on_progress: OnProgress | None = None,
        workers: GivenWorkers | None = None,
    ) -> RewriteResult:
        """Rewrite every file that has dead rows or values of dropped columns, without them. No live row changes.

        This is the first step of deleting for good: ``paths_removed`` of the result lists the files that still hold the
        values. The first vacuum after ``kept_until`` deletes them, unless a named version keeps them (``kept_by``).
        `check_deleted` proves their deletion. Like Spark's ``REORG TABLE ... APPLY (PURGE)``.

        Args:
            where: Which partitions, as for `optimize`.
            parameters: Values for ``:name`` in the condition, as for `to_batches`.
            dry_run: Rewrite nothing, and return what would be rewritten.
            user_metadata: A note for the table's history.
            on_progress: Called with the name of a step, how much of it is done, and the total (None if unknown).
            workers: Where its tasks run, as for `open`. Default: the workers of this handle.

        Returns:
            The files and bytes before and after, and the versions committed.

        Raises:
            TxlogError: What `optimize` raises.
        """
        from txlog.core.maintenance import purge

        where = with_values(where, parameters)
        given: Any = {"dry_run": dry_run, "user_metadata": user_metadata, "on_progress": on_progress}
        return purge(self._open_table, where, workers=workers, **given)

    def check_deleted(self, version: int | None = None) -> DeletionCheck:
        """Prove that nothing is left of what was deleted up to a version, or list every file that may hold some of it.

        Checks every file in the table's folder: files of versions and named versions, change data, staging, and the log
        with its column bounds. It does not check files elsewhere, which absolute paths in the log may name.
        A file that was added later but is no newer than the commit before the version counts as one that may hold some
        of it: it may have come back.

        Args:
            version: The version of the delete, such as ``table.delete(...).version``. Default: the newest version.

        Returns:
            ``is_gone`` if nothing is left, and ``rows_are_gone`` if at most the log still has column bounds;
            ``remains`` lists each remaining file, with what keeps it and until when.

        Raises:
            NotFoundError: The version does not exist yet.
            CorruptLogError: The log is damaged.
            StorageError: The store failed.
        """
        wanted = None if version is None else whole_number("version", version)
        found: DeletionCheck = self._operation("check_deleted")(version=wanted)
        return found

    def restore(
        self,
        version: int | None = None,
        timestamp: Moment | None = None,
        *,
        allow_missing_files: bool = False,
        allow_expired_files: bool = False,
        dry_run: bool = False,
        user_metadata: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> RestoreResult:
        """Restore the table to a version, or to a time, as a new version. No data file is read or written.

        Rows, schema, properties and partition columns come back; the protocol keeps its features, and no id is ever
        reused. If row tracking was dropped meanwhile, it stays as it is now, and rows do not get their old ids back.

        Args:
            version: The version to restore. Pass it or ``timestamp``.
            timestamp: A time in place of a version, as for `snapshot`.
            allow_missing_files: Leave out rows whose files are missing; the result names the files.
            allow_expired_files: Also restore files past the retention. Only if no vacuum runs: it may delete them.
            dry_run: Change nothing, and return what would be changed and what is missing.
            user_metadata: A note for the table's history.
            on_progress: Called with the name of a step, how much of it is done, and the total (None if unknown).

        Returns:
            The version restored, its files, and the new version.

        Raises:
            NotFoundError: Files are missing; the message lists them.
            InvalidInputError: Files are past the retention.
            ConflictError: Another writer committed meanwhile; nothing landed.
        """
        from txlog.core.maintenance import RestoreOptions, restore
        from txlog.core.progress import step_if
        from txlog.core.versions import state_of

        if (version is None) == (timestamp is None):
            raise InvalidInputError("restore takes a version or a timestamp", table=self.uri)
        target = state_of(self.snapshot(version, timestamp))
        asked = None if timestamp is None else str(timestamp)
        missing, expired = allow_missing_files, allow_expired_files
        options = RestoreOptions(target.version, asked, missing, expired, dry_run, user_metadata)
        return restore(self._open_table, target, options, step_if(on_progress, "looking up files"))

    def repair(
        self,
        *,
        remove: bool = False,
        allow_empty: bool = False,
        user_metadata: str | None = None,
        workers: GivenWorkers | None = None,
    ) -> RepairResult:
        """Find live files that are gone, and with ``remove`` take them out of the table, so the rest can be read.

        Call it without arguments first: it then changes no version, and says which rows, partitions and bytes would be
        lost. Restore the files from a copy if there is one: rows that are taken out do not come back. A file also
        counts if its deletion vector is gone, since without it deleted rows would come back.

        Of a table that a catalog manages, published versions that the catalog has forgotten are first offered to it
        again, with and without ``remove``: nothing is lost by that.

        Args:
            remove: Remove the files from the table, as a new version. Files that are there again stay. If a catalog has
                another commit than the published one as a version, keep the published one, which is what writers of
                txlog acknowledged.
            allow_empty: Remove them even if not one file of the table is left.
            user_metadata: A note for the table's history.
            workers: Where files are looked up, as for `open`. Default: the workers of this handle.

        Returns:
            The missing files, what is lost with them, and the version that removed them.

        Raises:
            ForkedTableError: The catalog and the log's folder have different commits; the message says what each of
                them is, and which can be kept.
            InvalidInputError: No file of the table is there, or the table is append-only.
            StorageError: The store did not answer for every file; nothing was changed.
            CorruptLogError: The log is damaged.
            UnsupportedFeatureError: This release cannot change the table.
            ConflictError: Other commits removed the same files, ten times.
        """
        from txlog.core.operations import repair

        return repair(
            self._open_table, remove=remove, allow_empty=allow_empty, user_metadata=user_metadata, workers=workers
        )

    def clone(
        self,
        uri: str | os.PathLike[str],
        version: int | None = None,
        timestamp: Moment | None = None,
        *,
        shallow: bool = False,
        mode: Literal["error", "ignore", "replace"] = "error",
        properties: Mapping[str, str] | None = None,
        storage_options: Mapping[str, str] | None = None,
        credential_provider: Callable[[], object] | None = None,
        user_metadata: str | None = None,
        on_progress: OnProgress | None = None,
        workers: GivenWorkers | None = None,
    ) -> CloneResult:
        """Make another table with the definition and the rows of a version of this one.

        A deep clone has copies of the data files. With ``mode="replace"``, a later run copies only new files, and
        follows what was removed and how the definition changed, in one version; a run that was killed is continued. A
        shallow clone reads the files of this table: it costs one commit. A vacuum here deletes files that the clone
        still reads, and the clone's readers then fail; a vacuum of the clone never touches them. Writes to one of the
        two tables do not show in the other. The clone has its own history, row ids, tags and sinks' checkpoints.

        Args:
            uri: The clone's location, as for `open`. Not inside this table.
            version: The version to clone; None means the newest.
            timestamp: A time in place of a version, as for `snapshot`.
            shallow: Whether the clone reads this table's files instead of copies. Both tables must then be on this
                machine's disk, or this one in an object store that the clone's readers have access to.
            mode: If there is a table: "error" refuses it, "ignore" leaves it unchanged (``outcome`` is then
                "ignored"), "replace" gives it these rows and this definition, as a new version.
            properties: Table properties that the clone has in place of this table's.
            storage_options: Options for the clone's store; None: this table's.
            credential_provider: Of the clone's store, as for `open`.
            user_metadata: A note for the clone's history.
            on_progress: Called with the name of a step, how much of it is done, and the total (None if unknown).
            workers: Where files are copied, as for `open`. Default: the workers of this handle.

        Returns:
            Where the clone is, its version, and what was copied.

        Raises:
            TableExistsError: There is a table, and the mode is "error".
            NotFoundError: The version was cleaned up, or a file of it is missing.
            InvalidInputError: The location is inside this table, or a clone cannot have a property.
            UnsupportedFeatureError: This release cannot write such a table.
            ConflictError: Another writer changed the clone meanwhile; nothing landed.
            StorageError: A store failed; run it again.
        """
        from txlog.core.progress import step_if
        from txlog.core.versions import state_of

        given = self._options_of_another_place(storage_options, credential_provider)
        state = state_of(self.snapshot(version, timestamp))

        def clone_at(place: str | os.PathLike[str]) -> CloneResult:
            target = _open_table(place, given[0], self._open_table.retry, given[1])
            done: CloneResult = self._operation("clone")(
                state=state,
                target=target,
                is_shallow=shallow,
                mode=mode,
                properties=properties or {},
                user_metadata=user_metadata,
                on_progress=step_if(on_progress, "copying files"),
                workers=workers,
            )
            return done

        if (named := _named(uri, *given)) is None:
            return clone_at(uri)
        from txlog.core.catalogs import made_at_name

        return made_at_name(*named, clone_at, may_exist=mode != "error")

    # --- branches -----------------------------------------------------------------------------------------------

    def branch(self, name: str, version: int | None = None) -> Table:
        """Make a branch: a table that begins with the rows of a version of this one, and copies no file.

        What is written to the branch does not show here until `publish` commits all of it as one version. The branch
        lies in ``_branches/<name>`` of this table, and is an ordinary Delta table there, for any reader and writer.
        ``Table.open("/data/orders@name")`` opens it, as does a sink or Spark with this location. If a branch of this
        name is published or discarded, a new one begins in its place.

        Args:
            name: At most 100 letters, digits, ``.``, ``_`` and ``-``.
            version: The version that the branch begins with; None means the newest.

        Returns:
            The branch, open.

        Raises:
            TableExistsError: There is a branch of this name that is not published.
            InvalidInputError: The name is invalid, this table is a branch, or a vacuum may delete files of the version.
            NotFoundError: The version was cleaned up.
            UnsupportedFeatureError: A catalog decides the table's versions, or this release cannot write the table.
            StorageError: The store failed.
        """
        wanted = None if version is None else whole_number("version", version, table=self.uri)
        return Table(self._operation("branch")(name=name, version=wanted))

    def audit(
        self, checks: str | Sequence[str] = (), *, name: str | None = None, user_metadata: str | None = None
    ) -> AbstractContextManager[Table]:
        """Write to a branch, and publish it at the end of the block if its new rows pass the checks.

            with table.audit(["amount >= 0"]) as staged:
                staged.append(rows)

        If they do not, or the block raises, the branch is discarded, and the table stays as it was. If others changed
        what the branch read meanwhile, it is rebased and checked again. If the store fails while the branch is
        published, the branch stays: call `publish` of the branch to finish.

        Args:
            checks: Conditions and queries in SQL, as for `check`. The table's constraints are checked too.
            name: The name of the branch; None means a new one.
            user_metadata: A note for the table's history.

        Returns:
            A context manager that yields the branch, a `Table`.

        Raises:
            ChecksFailedError: A new row does not pass a check; ``check`` of the error has the rows.
            ConflictError: Others changed what the branch changed or read, and it could not be rebased.
            TxlogError: What `branch`, `check` and `publish` raise.
        """
        given = {"checks": checks, "name": name, "user_metadata": user_metadata}
        staged: AbstractContextManager[Table] = self._operation("audit")(**given)
        return staged

    def branches(self) -> list[BranchInfo]:
        """The branches, by name.

        Returns:
            For each branch its ``name``, ``uri``, newest ``version``, ``base_version``, ``status`` ("open",
            "published", "discarded" or "broken") and when it was ``created``.

        Raises:
            CorruptLogError: The log of a branch is damaged.
            StorageError: The store failed.
        """
        found: list[BranchInfo] = self._operation("branches")()
        return found

    def check(self, checks: str | Sequence[str] = ()) -> BranchCheck:
        """Check the rows of this branch that `publish` would add.

        They are checked against the constraints that the branch's table has now, and against conditions of your own.

        Args:
            checks: Conditions in SQL that each of these rows must meet, such as ``"amount >= 0"``; null counts as
                false. Or queries whose result must be empty, with ``{branch}`` and ``{table}`` in place of the names of
                the two: ``"SELECT id FROM {branch} GROUP BY id HAVING count(*) > 1"`` (the extra ``sql``).

        Returns:
            ``passed``, and for each condition that does not hold how many rows fail it, and the first of them.

        Raises:
            InvalidInputError: This table is not a branch, or a condition does not fit it.
            NotFoundError: A file of the branch is missing.
            StorageError: The store failed.
        """
        found: BranchCheck = self._operation("check")(checks=checks)
        return found

    def publish(self, *, keep: bool = False, user_metadata: str | None = None) -> WriteResult:
        """Commit what this branch did as one version of its table.

        No file is rewritten or moved: the table names the branch's files where they are. A branch of appends always
        lands on the newest version. Deletes, updates and merges land if nobody else changed the same rows meanwhile, or
        added rows that they would have read. It happens once: if a call fails, call it again, here or anywhere else.
        Then the branch ends, and a vacuum of the table deletes what is left of it.

        Args:
            keep: Do not end the branch: what is written to it later can be published too.
            user_metadata: A note for the table's history.

        Returns:
            The table's version. If everything was published before, ``outcome`` is "already_committed"; if the branch
            changed nothing, it is "empty".

        Raises:
            ConflictError: Others changed what this branch read or changed; the message says which commit did what.
                Nothing was published: `rebase` the branch, and publish it again.
            InvalidInputError: This table is not a branch, or was discarded.
            CommitStateUnknownError: The store did not answer; call it again.
            StorageError: The store failed.
        """
        done: WriteResult = self._operation("publish")(keep=keep, user_metadata=user_metadata)
        return done

    def rebase(self) -> WriteResult:
        """Move this branch onto the newest version of its table, as if it had begun there.

        New rows come along. What the branch deleted is deleted from the table's rows as they are now, including those
        that others added. Updates and merges are not computed again: they come along if nobody else changed the same
        rows, or added rows that they would have read. The branch also takes over what the table's definition became.

        Returns:
            The version of the branch. If the branch is on the newest version already, nothing changes.

        Raises:
            ConflictError: Others changed what this branch changed or read; the message says which commit did what.
            InvalidInputError: This table is not a branch, or a new row does not meet a constraint that the table got.
            NotFoundError: A file is missing.
            StorageError: The store failed.
        """
        done: WriteResult = self._operation("rebase")()
        return done

    def discard(self) -> WriteResult:
        """Throw this branch away: nothing more of it is published, and a vacuum of its table deletes its files.

        Returns:
            The last version of the branch, which says so.

        Raises:
            InvalidInputError: This table is not a branch.
            StorageError: The store failed.
        """
        done: WriteResult = self._operation("discard")()
        return done

    # --- named versions -----------------------------------------------------------------------------------------

    def tag(self, name: str, version: int | None = None) -> NamedVersion:
        """Name a version; txlog's log cleanup and vacuum keep it, and ``snapshot(tag=name)`` reads it.

        Other engines' vacuums do not keep it.

        Args:
            name: At most 100 letters, digits, ``.``, ``_`` and ``-``.
            version: The version to name; None means the newest.

        Returns:
            The name and its version.

        Raises:
            InvalidInputError: The name is taken or invalid, or files of the version are past the retention.
            NotFoundError: The version or one of its files is missing.
        """
        from txlog.core.maintenance import tag

        return tag(self._open_table, name, None if version is None else whole_number("version", version))

    def tags(self) -> list[NamedVersion]:
        """The named versions, by version.

        Returns:
            A list of ``name``, ``version`` and ``created`` (the time of naming).

        Raises:
            StorageError: The store failed.
        """
        from txlog.core.maintenance import named_versions

        return named_versions(self._open_table.store)

    def untag(self, name: str) -> None:
        """Remove the name of a version; the next vacuum may delete its files.

        Args:
            name: The name, from `tag`.

        Raises:
            NotFoundError: No version has this name.
        """
        from txlog.core.maintenance import untag

        untag(self._open_table, name)

    def vacuum(
        self,
        retention_hours: float | None = None,
        *,
        dry_run: bool = False,
        lite: bool = False,
        inventory: object = None,
        force: bool = False,
        on_progress: OnProgress | None = None,
        workers: GivenWorkers | None = None,
    ) -> VacuumResult:
        """Delete files that the table has not needed during the retention: removed ones, and ones never committed.

        It keeps all files for time travel within the retention, named versions, change data, sinks' staged work, and
        files in progress. Writers and readers may continue meanwhile. History shows VACUUM START and VACUUM END.

        Args:
            retention_hours: Default: the table's ``delta.deletedFileRetentionDuration``, a week unless it is set.
            dry_run: Delete nothing, and return what would be deleted.
            lite: Take the files removed since the last vacuum from the log, without listing the table. It does not find
                files that no commit names. If the log lacks some of the versions, it lists the table.
            inventory: An Arrow stream of all files, with ``path``, ``length``, ``isDir`` and ``modificationTime`` (ms).
            force: Accept a retention shorter than the table's. A write that is not committed yet loses its files.
            on_progress: Called with the name of a step, how much of it is done, and the total (None if unknown).
            workers: Where its tasks run, as for `open`. Workers in other processes list the table in ranges of names.

        Returns:
            The deleted files.

        Raises:
            InvalidInputError: The retention is too short.
            CorruptLogError: The log cannot be parsed; nothing was deleted.
            StorageError: The store failed, or this machine's clock is ahead of the store's.
        """
        from txlog.core.maintenance import VacuumOptions, vacuum

        options = VacuumOptions(retention_hours, dry_run, lite, inventory, force)
        return vacuum(self._open_table, options, on_progress, workers)

    def maintain(
        self,
        *,
        small_files_min: int = 50,
        max_bytes: int | None = None,
        vacuum_every_hours: float | None = 24,
        dry_run: bool = False,
        interval_s: float | None = None,
        on_round: Callable[[MaintenanceResult], object] | None = None,
        on_progress: OnProgress | None = None,
    ) -> MaintenanceResult:
        """Do all maintenance that is due: compact small files, write a checkpoint, clean up the log, vacuum.

        For tables whose writers only write. If a step fails, its error is in ``failures`` of the result and is logged;
        the other steps still run. Any number of maintainers may run at the same time, alongside all writers and
        readers.

        Args:
            small_files_min: Partitions with fewer small files (or files with many dead rows) stay as they are.
            max_bytes: The maximum bytes to compact in a round; files with the most gain for their size come first.
                Default: all.
            vacuum_every_hours: A vacuum with the table's retention runs if the last one, by any engine that records it
                in the log's ``_last_vacuum_info``, was this long ago. None: never.
            dry_run: Change nothing, and return what would be done.
            interval_s: Repeat, this many seconds after the end of each round, until an exception such as
                ``KeyboardInterrupt`` ends it. If the store does not answer, the next round tries again. None: one
                round. Log cleanup and vacuum are considered once an hour.
            on_round: Called with the result of each round.
            on_progress: Called with the name of a step, how much of it is done, and the total (None if unknown).

        Returns:
            What the round did.

        Raises:
            InvalidInputError: An argument is out of range.
            TableNotFoundError: The table was removed.
            UnsupportedFeatureError: This release cannot maintain the table.
            CorruptLogError: The log is damaged.
            StorageError: The store failed before the work began, in a single round.
        """
        from txlog.core.maintenance import Maintainer, MaintenanceOptions, watch

        options = MaintenanceOptions(small_files_min, max_bytes, vacuum_every_hours, dry_run)
        maintainer = Maintainer(self._open_table, options, on_progress)
        if interval_s is not None:
            watch(maintainer, interval_s, on_round or (lambda done: None))
        done = maintainer.round()
        if on_round is not None:
            on_round(done)
        return done

    # --- the log ------------------------------------------------------------------------------------------------

    def export_iceberg(self, *, rebuild: bool = False, register: str | None = None) -> IcebergExport:
        """Write Iceberg metadata for all versions that have none yet, so that Iceberg readers see the newest version.

        The metadata is in ``_iceberg/`` next to the log and names the same data files; no row is copied. Each version
        that changed files becomes a snapshot, so both kinds of readers can travel to the same versions. If the property
        ``txlog.iceberg`` is ``v2`` or ``v3``, an export follows every commit in the background, and this call only
        waits for the newest one. Without the property it exports once, as v2.

        Args:
            rebuild: Export the newest version in full, as the only snapshot, whatever Iceberg metadata exists: after an
                Iceberg writer changed it, or to reduce the number of files.
            register: ``catalog.namespace.table``, the entry in an Iceberg catalog to create or update. The table stores
                it (property ``txlog.iceberg.catalog``), and every later export updates it. The catalog must be
                configured in PyIceberg; needs the extra ``iceberg``.

        Returns:
            The version that Iceberg readers see now, and the location of its metadata file.

        Raises:
            IcebergExportError: Iceberg readers could not read the table or would misread it; or another Iceberg writer
                changed the metadata or the catalog entry. The message explains what to do.
            InvalidInputError: The catalog is not configured, or the entry's name has another form.
            StorageError: The store or the catalog does not answer.
        """
        done: IcebergExport = self._operation("export_iceberg")(rebuild=rebuild, register=register)
        return done

    def generate(self, mode: Literal["symlink_format_manifest"] = "symlink_format_manifest") -> int:
        """Write the manifests with which Presto, Athena, Redshift Spectrum and others read the newest version without
        Delta: ``_symlink_format_manifest/<partition>/manifest``, each with the URIs of the partition's files.

        With the table property ``delta.compatibility.symlinkFormatManifest.enabled`` every commit does this for the
        partitions that it changed.

        Args:
            mode: Only ``"symlink_format_manifest"``, as in Spark's ``GENERATE``.

        Returns:
            The number of manifests.

        Raises:
            InvalidInputError: Another ``mode``.
            UnsupportedFeatureError: A file has a deletion vector, or the table maps its columns: readers by manifest
                would see deleted rows, or other columns.
            StorageError: The store does not answer.
        """
        if mode != "symlink_format_manifest":
            raise invalid("mode", mode, one_of(["symlink_format_manifest"]))
        open_table = self._open_table
        state = open_table.log.newest_state()
        with TxlogError.located(open_table.uri, state.version):
            return open_table.post_commit.manifests.write_all(state)

    def create_checkpoint(self) -> int:
        """Write a Delta checkpoint of the newest version, if it has none, and a checksum file.

        Returns:
            The version of the checkpoint.

        Raises:
            CorruptLogError: The log is damaged; nothing was written.
            StorageError: The store failed.
        """
        from txlog.core.versions import write_checkpoint_and_checksum

        return write_checkpoint_and_checksum(self._open_table.log, self._open_table.writable_state())

    def compact_log(self, *, on_progress: OnProgress | None = None) -> LogCompaction | None:
        """Write one file that readers may use instead of the commits since the last checkpoint.

        Args:
            on_progress: Called with the name of a step, how much of it is done, and the total (None if unknown).

        Returns:
            The versions in the file; None if fewer than two commits follow the checkpoint.

        Raises:
            CorruptLogError: A commit is damaged.
            StorageError: The store failed.
        """
        from txlog.core.progress import step_if
        from txlog.core.versions import compact_log

        on_commit = step_if(on_progress, "reading commits")
        return compact_log(self._open_table.log, self._open_table.log.newest_state(), on_progress=on_commit)

    def clean_up_log(self, dry_run: bool = False, *, on_progress: OnProgress | None = None) -> LogCleanUp:
        """Delete the versions past ``delta.logRetentionDuration``, except those that time travel within it needs.

        Also runs automatically with checkpoints, unless ``delta.enableExpiredLogCleanup`` is false.

        Args:
            dry_run: Delete nothing, and return the files that would be deleted.
            on_progress: Called with the name of a step, how much of it is done, and the total (None if unknown).

        Returns:
            The deleted files.

        Raises:
            StorageError: The store failed; the log can be read as before.
        """
        from txlog.core.progress import step_if
        from txlog.core.versions import clean_up_log

        return clean_up_log(
            self._open_table.log,
            self._open_table.log.newest_state(),
            dry_run=dry_run,
            on_progress=step_if(on_progress, "deleting files of the log"),
        )

    def verify(
        self,
        keys: str | Iterable[str] | None = None,
        *,
        data_files: bool = True,
        footers: bool = False,
        on_progress: OnProgress | None = None,
        workers: GivenWorkers | None = None,
    ) -> Verification:
        """Check the log, its checkpoints and that each data file exists; with ``keys``, that no rows share a key.

        Args:
            keys: Columns that should identify a row, as for `upsert`: ``["id", "day"]``. They are read from all live
                rows, in bounded memory; what does not fit goes to temporary files.
            data_files: Whether to look up each data file and its size. On an object store, a listing shows most of
                them.
            footers: Whether to read the footer of each data file: that it can be read, and has as many rows as its
                statistics say. One or two requests a file.
            on_progress: Called with the name of a step, how much of it is done, and the total (None if unknown).
            workers: Where its tasks run, as for `open`. Default: the workers of this handle.

        Returns:
            ``is_sound``, the ``findings``, and in ``keys`` which keys several rows have, and where.

        Raises:
            InvalidInputError: A column cannot be a key.
            StorageError: The log cannot be read.
        """
        wanted = None if keys is None else names_in("keys", keys)
        found: Verification = self._operation("verify")(
            data_files=data_files, footers=footers, keys=wanted, on_progress=on_progress, workers=workers
        )
        return found

    def diff(self, from_version: int | None = None, to_version: int | None = None) -> VersionDiff:
        """What changed between two versions: columns, properties, files, and rows if the change data feed has them.

        Args:
            from_version: The version before. A branch has a default: the version with the rows that it began with.
            to_version: The version after; None means the newest.

        Returns:
            The changes of the definition, the counts of files, and the counts of rows.

        Raises:
            NotFoundError: A version does not exist, or was cleaned up.
            InvalidInputError: A version is not a whole number.
            CorruptLogError: The log is damaged.
            StorageError: The store failed.
        """
        first, last = self._span(from_version, to_version)
        found: VersionDiff = self._operation("diff")(from_version=first, to_version=last)
        return found

    def diff_rows(
        self,
        from_version: int | None = None,
        to_version: int | None = None,
        columns: Sequence[str] | None = None,
        where: AnyCondition | None = None,
        *,
        keys: str | Iterable[str] | None = None,
    ) -> Rows:
        """The rows that differ between two versions. The table needs no change data feed.

        Only files that one of the versions has and the other has not are read, and of files with different deletion
        vectors only the rows in which they differ. A row that both versions have equally often is left out, so a
        compaction changes nothing. NaN equals NaN, and null equals null.

        Args:
            from_version: The version before. A branch has a default: the version with the rows that it began with.
            to_version: The version after; None means the newest. It may be an older one.
            columns: The columns to compare and to return; None means all.
            where: A condition in SQL; only matching rows of both versions are compared.
            keys: Columns that identify a row, as for `upsert`, to find rows that were updated. None: an updated row is
                one deleted and one inserted.

        Returns:
            The rows, in no order, as Arrow, pandas or Polars, or as a stream of record batches: the columns, in the
            types of the newer version, then
            ``_change_type`` ("insert" or "delete"; with ``keys`` also "update_preimage", and after it
            "update_postimage", for a key that one deleted and one inserted row have).

        Raises:
            InvalidInputError: A column, a key, the condition or a version does not fit.
            SchemaMismatchError: Rows of the older version cannot be read with the columns of the newer one.
            NotFoundError: A version does not exist, or was cleaned up, or one of its files was vacuumed.
            CorruptLogError: A file is damaged.
            StorageError: The store failed, or there is no room for temporary files.
        """
        first, last = self._span(from_version, to_version)
        compared = {"columns": columns, "where": where, "keys": keys}
        found: Rows = self._operation("diff_rows")(from_version=first, to_version=last, **compared)
        return found

    def report(
        self,
        *,
        limit: int | None = None,
        orphans: bool = False,
        on_progress: OnProgress | None = None,
    ) -> Report:
        """A page about the newest version: commits, files, clustering, upkeep, who can read it, and what to do.

        It is one HTML file that works offline, and a notebook shows it. It is made from the log, and no data file is
        read.

        Args:
            limit: How many of the newest commits to read; None means all that the log retains.
            orphans: Also list the table's folder, for files that no version needs and for what a deletion waits for.
            on_progress: Called with the name of a step, how much of it is done, and the total (None if unknown).

        Returns:
            ``html``, ``save(path)`` and the ``facts`` as plain values.

        Raises:
            InvalidInputError: The limit is not a whole number greater than 0.
            CorruptLogError: The log is damaged.
            StorageError: The store failed.
        """
        made: Report = self._operation("report")(limit=limit, orphans=orphans, on_progress=on_progress)
        return made

    def resolve(self, txn_id: str, version: int) -> bool:
        """After ``CommitStateUnknownError``: whether the commit is in the log. The answer is final.

        If there is no ``version`` yet, this first puts an empty commit there, so a put that is still on its way can
        never land.

        Args:
            txn_id: ``error.txn_id``.
            version: ``error.version``.

        Returns:
            True if the commit is in the log; False if it never will be.

        Raises:
            NotFoundError: The version was cleaned up.
            CommitStateUnknownError: The store does not answer.
        """
        from txlog.core.versions import resolve

        return resolve(self._open_table, txn_id, version)

    # --- as a value ---------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        """The location, so that ``polars.scan_delta(table)`` and others that take a path find the table."""
        return self.uri

    def __repr__(self) -> str:
        """Shows the newest version that the handle knows, without reading the log."""
        known = self._open_table.log.known_state
        return f"Table({', '.join([self.uri, *([] if known is None else version_summary(known))])})"

    def _span(self, from_version: int | None, to_version: int | None) -> tuple[int, int]:
        """Two versions to compare: of a branch, the one that it began with, and the newest."""
        if from_version is None:
            from_version = int(self._operation("base_of_branch")())
        first = whole_number("from_version", from_version, table=self.uri)
        return first, self.version if to_version is None else whole_number("to_version", to_version, table=self.uri)

    def _operation(self, name: str) -> Callable[..., Any]:
        """An operation that a package brings, on this table."""
        from txlog.core.operations import operation

        return partial(operation(name), self._open_table)

    def _options_of_another_place(
        self, storage_options: Mapping[str, str] | None, credential_provider: Callable[[], object] | None
    ) -> tuple[Mapping[str, str] | None, Callable[[], object] | None]:
        """The options and the provider of a place that is not the table's: the table's own, unless any are given."""
        own = self._open_table
        if storage_options is None and credential_provider is None:
            return own.storage_options, own.credential_provider
        return own.storage_options if storage_options is None else storage_options, credential_provider

    def __getstate__(self) -> dict[str, Any]:
        size_bytes = self._open_table.key_cache_size_bytes
        kept = {"retry": self._open_table.retry, "time_zone": self._open_table.time_zone}
        return {"store": self._open_table.store, **kept, "key_cache_size_bytes": size_bytes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Table.__init__(self, OpenTable(**state))


class _AfterCommit:
    """What a handle does after each commit, if the table's property asks for it."""

    @cached_property
    def compaction(self) -> AutoCompaction:
        from txlog.core.maintenance import AutoCompaction

        return AutoCompaction()

    def __call__(self, open_table: OpenTable, state: TableState) -> None:
        if state.properties.auto_compact and not state.is_prepared:
            self.compaction.after(open_table, state)


def _named(
    uri: object, storage_options: Mapping[str, str] | None, credential_provider: Callable[[], object] | None
) -> tuple[TableCatalog, str] | None:
    """The catalog and the name of a table such as ``uc://catalog.schema.table``; None for a location."""
    if foreign_scheme(uri) is None:
        return None
    from txlog.core.catalogs import named_table

    return named_table(uri, storage_options, credential_provider)


def _open_table(
    uri: str | os.PathLike[str],
    storage_options: Mapping[str, str] | None,
    retry: RetryPolicy | None,
    credential_provider: Callable[[], object] | None,
    hooks: CommitHooks | None = None,
    key_cache_size: int | None = None,
    workers: GivenWorkers | None = None,
    time_zone: str | ZoneInfo = UTC,
) -> OpenTable:
    if type(uri) is str and foreign_scheme(uri) is None:
        store = open_store(uri, storage_options, credential_provider)
    else:
        from txlog.core.catalogs import place_at

        place = place_at(uri, storage_options, credential_provider)
        store, storage_options, credential_provider = place.store(), place.storage_options, place.credential_provider
    opened = OpenTable(store, retry, hooks, key_cache_size, storage_options, credential_provider, workers, time_zone)
    opened.after_commit = _AfterCommit()
    return opened


def _probe_new_location(open_table: OpenTable) -> None:
    """`create_table.probe_new_location`, which disks do not need."""
    if not open_table.store.log.capabilities.refuses_taken_names:
        from txlog.core.definition import probe_new_location

        probe_new_location(open_table)
