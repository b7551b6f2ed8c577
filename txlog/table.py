"""`Table` and `write`: the front door. Wiring and documentation; every decision is made behind it.

In: a location and data. Out: ``WriteResult``s and ``Snapshot``s.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias, get_args

import pyarrow as pa

from txlog.commands.batch_write import OnProgress, write_batch
from txlog.commands.table_definition import (
    Definition,
    check_added_columns,
    check_agrees,
    commit_definition,
    new_table,
    with_columns,
    with_properties,
    without_properties,
)
from txlog.commands.write_options import SchemaMode, WriteOptions, check_mode
from txlog.commit.open_table import OpenTable
from txlog.errors import InvalidInputError, MetadataChangedError, ProtocolChangedError, TableExistsError, TxlogError
from txlog.hooks import CommitHooks
from txlog.log.proposal import operation_parameters
from txlog.log_files.times import milliseconds
from txlog.maintenance.auto_compaction import AutoCompaction
from txlog.protocol.properties import ICEBERG_CATALOG, validate
from txlog.protocol.schema_input import from_any
from txlog.result import (
    LogCleanUp,
    LogCompaction,
    MaintenanceResult,
    RestoreResult,
    RewriteResult,
    VacuumResult,
    WriteResult,
)
from txlog.snapshot import Snapshot, version_summary
from txlog.store.open import open_store
from txlog.store.probe import probe_store
from txlog.store.retry import RetryPolicy
from txlog.transaction import IsolationLevel, Transaction
from txlog.util.api_hints import MADE_BY, Hinted, explains_call, explains_calls, no_attribute
from txlog.util.arguments import names_in, type_name_of, whole_number

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from txlog.commands.follow import CommittedBatch, OnChange
    from txlog.commands.merge_builder import MergeBuilder
    from txlog.commands.row_change.options import OnConflict, OnFiles, RowMode
    from txlog.commands.upsert.source import OnDuplicate
    from txlog.commands.upsert.upsert import WhenMatched, WhenNotMatched
    from txlog.expressions.predicates import Predicate
    from txlog.iceberg_files.exporter import IcebergExport
    from txlog.maintenance.named_versions import NamedVersion
    from txlog.maintenance.remains import DeletionCheck
    from txlog.read.dataset import SnapshotDataset

__all__ = ["Table", "write"]

Moment: TypeAlias = datetime | date | str | int
WriteMode: TypeAlias = Literal["append", "overwrite", "overwrite_partitions", "error", "errorifexists", "ignore"]


@explains_call
def write(
    uri: str | os.PathLike[str],
    data: Any,
    mode: WriteMode = "append",
    partition_by: str | Iterable[str] | None = None,
    *,
    where: str | Predicate | None = None,
    storage_options: Mapping[str, str] | None = None,
    schema_mode: SchemaMode = "strict",
    properties: Mapping[str, str] | None = None,
    app_id: str | None = None,
    checkpoint_id: int | None = None,
    fingerprint: str | None = None,
    user_metadata: str | None = None,
    target_file_size: int | None = None,
    row_mode: RowMode | None = None,
    on_conflict: OnConflict = "fail",
    read_version: int | None = None,
    retry: RetryPolicy | None = None,
    credential_provider: Any = None,
    hooks: CommitHooks | None = None,
    on_progress: OnProgress | None = None,
) -> WriteResult:
    """Write ``data`` to the Delta table at ``uri``, which is created with its first rows if it is absent.

    ``mode``: "append"; "overwrite" replaces every row, or those that satisfy ``where`` (see `Table.overwrite`);
    "overwrite_partitions" replaces the partitions that ``data`` has rows of; "error", or "errorifexists" as Spark calls
    it, refuses an existing table; "ignore" leaves one as it is (``outcome`` is then "ignored"). ``partition_by``
    (``["day", "region"]`` or ``"day,region"``) and ``properties`` define a new table; on an existing one
    ``partition_by`` must agree, except with ``schema_mode="overwrite"``. ``row_mode`` (``mode`` there), ``on_conflict``
    and ``read_version`` are those of `Table.overwrite`, the other arguments those of `Table.append` and `Table.open`.

    Raises ``TableExistsError`` (mode "error") and what `Table.append` raises.
    """
    if isinstance(data, str | os.PathLike) and not isinstance(uri, str | os.PathLike):
        raise InvalidInputError(f"txlog.write(uri, data): the location comes first, then the {type_name_of(uri)}")
    check_mode(mode, get_args(WriteMode))
    open_table = _open_table(uri, storage_options, retry, credential_provider, hooks)
    _probe_new_location(open_table)
    options = WriteOptions(
        mode="append" if mode in ("error", "errorifexists", "ignore") else mode,
        where=where,
        schema_mode=schema_mode,
        app_id=app_id,
        checkpoint_id=checkpoint_id,
        fingerprint=fingerprint,
        user_metadata=user_metadata,
        create=True,
        must_create=mode in ("error", "errorifexists", "ignore"),
        partition_by=None if partition_by is None else names_in("partition_by", partition_by),
        properties=properties or {},
        target_file_size_bytes=target_file_size,
        row_mode=row_mode,
        on_conflict=on_conflict,
        read_version=read_version,
    )
    return _written(open_table, data, options, on_progress, ignores_existing=mode == "ignore")


def _written(
    open_table: OpenTable, data: Any, options: WriteOptions, on_progress: OnProgress | None, *, ignores_existing: bool
) -> WriteResult:
    try:
        return write_batch(open_table, data, options, on_progress)
    except TableExistsError as error:
        if ignores_existing:
            return WriteResult(open_table.log.newest_state().version, "ignored", 0, "")
        error.message = f'{error.message}; mode="append" adds rows, mode="overwrite" replaces them'
        raise


def resolve(
    uri: str | os.PathLike[str],
    txn_id: str,
    version: int,
    schema: Any = None,
    partition_by: str | Iterable[str] | None = None,
    properties: Mapping[str, str] | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
    retry: RetryPolicy | None = None,
    credential_provider: Any = None,
) -> bool:
    """After ``CommitStateUnknownError``: whether the commit is in the log, also where there is no table to open.

    What `Table.resolve` answers, by location, so that a creation (version 0) can be settled too.

    Args:
        uri: the table's location, ``error.table``.
        txn_id: ``error.txn_id``.
        version: ``error.version``.
        schema: with ``partition_by`` and ``properties``, as for `Table.create`: on an object store, where the request
            may still be under way and nothing stands at version 0, the table is created empty, so that it never lands.
            A write may be run again on it then. Not needed on a local disk, where nothing stays under way.

    Returns:
        Whether the commit landed; final.

    Raises:
        CommitStateUnknownError: nothing stands at version 0 of an object store and no ``schema`` is given, or the store
            does not answer.
        TableNotFoundError: there is no table, and ``version`` is not 0.
        NotFoundError: the version was cleaned up.
    """
    from txlog.commit.resolve import resolve

    given: Any = {"storage_options": storage_options, "retry": retry, "credential_provider": credential_provider}

    def create() -> Table:
        return Table.create(uri, schema, partition_by, properties, **given)

    open_table = _open_table(uri, storage_options, retry, credential_provider)
    return resolve(open_table, txn_id, version, None if schema is None else create)


@explains_calls
class Table(metaclass=Hinted):
    """One Delta table, open. Thread-safe; pickles without secrets.

    A handle keeps what it knows of the log, so that an append costs the same whatever the table's size. Make one
    with `Table.open` or `Table.create`.
    """

    def __init__(self, open_table: OpenTable) -> None:
        if not isinstance(open_table, OpenTable):
            raise InvalidInputError(f"Do not call Table(): use {MADE_BY['Table']}")
        self._open_table = open_table
        open_table.after_commit = AutoCompaction(open_table).after

    # --- opening and creating -----------------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        uri: str | os.PathLike[str],
        schema: Any,
        partition_by: str | Iterable[str] | None = None,
        properties: Mapping[str, str] | None = None,
        *,
        exist_ok: bool = False,
        storage_options: Mapping[str, str] | None = None,
        retry: RetryPolicy | None = None,
        credential_provider: Any = None,
        hooks: CommitHooks | None = None,
        user_metadata: str | None = None,
        key_cache_size: int | None = None,
    ) -> Table:
        """Create an empty table as version 0.

        ``schema`` is a pyarrow, Spark or Delta schema, Arrow types by name, or DDL: ``"id bigint not null, day date"``.
        ``partition_by`` is ``["day", "region"]`` or ``"day,region"``. With ``exist_ok`` a table that is there already
        is opened, if it is what was asked for: it has these columns, this partitioning and these property values. It
        may have more properties, and nullable columns that were added since. Raises ``TableExistsError``;
        ``SchemaMismatchError`` listing how an existing table differs; ``InvalidInputError``,
        ``UnsupportedFeatureError``, ``StorageError`` (a store that ignores the condition of a conditional put is
        refused).
        """
        open_table = _open_table(uri, storage_options, retry, credential_provider, hooks, key_cache_size)
        with TxlogError.located(open_table.uri):
            definition = Definition(*new_table(schema, partition_by or (), properties))
        if not open_table.log.exists():
            _probe_new_location(open_table)
            try:
                commit_definition(
                    open_table, None, definition, "CREATE TABLE", _create_parameters(definition), user_metadata
                )
                return cls(open_table)
            except (ProtocolChangedError, MetadataChangedError):
                pass  # a concurrent writer created it first
        if not exist_ok:
            raise TableExistsError("there is a table here already; Table.open opens it", table=open_table.uri)
        state = open_table.log.reload()
        with TxlogError.located(open_table.uri, state.version):
            check_agrees(state, definition, properties or {})
        return cls(open_table)

    @classmethod
    def open(
        cls,
        uri: str | os.PathLike[str],
        *,
        storage_options: Mapping[str, str] | None = None,
        retry: RetryPolicy | None = None,
        credential_provider: Any = None,
        hooks: CommitHooks | None = None,
        key_cache_size: int | None = None,
    ) -> Table:
        """Open an existing table: a path, ``file://``, ``s3://``, ``az://``, ``abfs://`` or ``gs://`` URI.

        ``storage_options`` are those of the store, by the keys that deltalake takes (docs/storage.md lists them);
        ``credential_provider`` is one of ``obstore.auth``. ``retry`` says how long a commit keeps trying;
        ``hooks`` (see `CommitHooks`) are called for each commit, lost race and conflict of this handle.
        ``key_cache_size`` is how many bytes of memory the handle keeps the keys of data files in, from its second
        upsert on, so that small ones after that read no file of the table: 16 bytes for each row of the table where the
        key is one integer, date or timestamp, 24 for other keys. The default is 256 MiB; 0 turns it off.

        Raises ``TableNotFoundError``, ``UnsupportedFeatureError`` naming a reader feature this release lacks,
        ``CorruptLogError``, ``StorageError``, and ``InvalidInputError`` for an unknown storage option.
        """
        from txlog.protocol.features import check_can_read

        open_table = _open_table(uri, storage_options, retry, credential_provider, hooks, key_cache_size)
        state = open_table.log.newest_state()
        with TxlogError.located(open_table.uri, state.version):
            check_can_read(state.protocol, state.metadata)
        return cls(open_table)

    @staticmethod
    def exists(
        uri: str | os.PathLike[str],
        *,
        storage_options: Mapping[str, str] | None = None,
        credential_provider: Any = None,
    ) -> bool:
        """Whether there is a Delta table at ``uri``."""
        return _open_table(uri, storage_options, None, credential_provider).log.exists()

    @property
    def uri(self) -> str:
        """The location, without credentials."""
        return self._open_table.uri

    @property
    def version(self) -> int:
        """The newest version, looked up each time."""
        return self._open_table.log.newest_state().version

    @property
    def schema(self) -> pa.Schema:
        """The columns of the newest version (see `Snapshot.schema`), looked up each time."""
        return Snapshot(self._open_table.log, self._open_table.log.newest_state()).schema

    # --- reading ------------------------------------------------------------------------------------------------

    def snapshot(
        self, version: int | None = None, timestamp: Moment | None = None, *, tag: str | None = None
    ) -> Snapshot:
        """The newest version, or the one given, or the newest at or before ``timestamp``, or the one named ``tag``.

        ``timestamp`` is a ``datetime`` or an ISO 8601 string (without zone: UTC), a ``date`` (its first moment in UTC),
        or an integer, ms since the epoch. A time after the newest commit, such as now, is the newest version. Raises
        ``NotFoundError`` for a version or time before the first that the log retains, and a version after the newest.
        """
        if (version is not None) + (timestamp is not None) + (tag is not None) > 1:
            raise InvalidInputError("give a version, a timestamp or a tag, not several", table=self.uri)
        if tag is not None:
            from txlog.maintenance.named_versions import snapshot_named

            return snapshot_named(self._open_table, tag)
        log = self._open_table.log
        if timestamp is not None:
            version = log.version_at(milliseconds(timestamp))
        if version is None:
            state = log.newest_state()
            self._open_table.last_read.read(state.metadata.id, state.version)
            return Snapshot(log, state)
        return Snapshot(log, log.state_at(whole_number("version", version, table=self.uri)))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The newest version as an Arrow stream: ``polars.DataFrame(table)``, ``pyarrow.table(table)``."""
        return self.snapshot().__arrow_c_stream__(requested_schema)

    def to_arrow(self, columns: Sequence[str] | None = None, where: str | Predicate | None = None) -> pa.Table:
        """The rows of the newest version as one Arrow table; see `Snapshot.to_arrow`."""
        return self.snapshot().to_arrow(columns, where)

    def to_pandas(self, columns: Sequence[str] | None = None, where: str | Predicate | None = None) -> pd.DataFrame:
        """The rows of the newest version as a pandas DataFrame; see `Snapshot.to_pandas`."""
        return self.snapshot().to_pandas(columns, where)

    def to_polars(self, columns: Sequence[str] | None = None, where: str | Predicate | None = None) -> pl.DataFrame:
        """The rows of the newest version as a polars DataFrame; see `Snapshot.to_polars`."""
        return self.snapshot().to_polars(columns, where)

    def to_dataset(self) -> SnapshotDataset:
        """The newest version as a dataset, for duckdb, polars and others; see `Snapshot.to_dataset`."""
        return self.snapshot().to_dataset()

    def head(self, n: int = 5, columns: Sequence[str] | None = None, where: str | Predicate | None = None) -> pa.Table:
        """``n`` of the rows of the newest version; see `Snapshot.head`."""
        return self.snapshot().head(n, columns, where)

    def count(self, where: str | Predicate | None = None) -> int:
        """How many rows the newest version has, or how many match; see `Snapshot.count`."""
        return self.snapshot().count(where)

    def follow(
        self,
        from_version: int,
        from_file: int = 0,
        columns: Sequence[str] | None = None,
        where: str | Predicate | None = None,
        *,
        on_change: OnChange = "fail",
    ) -> Iterator[CommittedBatch]:
        """The rows that commits added from a version on, up to the newest version: for jobs that follow a table.

        After a batch with ``is_last_of_file``, (``batch.version``, ``batch.file + 1``) is where the next call goes on.

        Args:
            from_version: The first version, which may be the one to come.
            from_file: How many files of the first version are left out.
            columns: The columns to read; None means all.
            where: A condition in SQL on the rows.
            on_change: For versions that removed or changed rows: "fail", "skip" them, or give the files that they
                "added", in which unchanged rows come again. `changes` tells such rows apart.

        Returns:
            Batches with ``version``, ``file``, ``is_last_of_file`` and ``rows``, in the order of the commits.

        Raises:
            InvalidInputError: A version changed rows, its columns cannot be read with the newest schema, or an argument
                does not fit.
            NotFoundError: A version does not exist yet or was cleaned up, or a file of it was vacuumed.
            CorruptLogError: A file is damaged.
            StorageError: The store failed.
        """
        from txlog.commands.follow import follow_table

        return follow_table(self._open_table, from_version, from_file, columns, where, on_change)

    def changes(
        self,
        from_version: int,
        to_version: int | None = None,
        columns: Sequence[str] | None = None,
        where: str | Predicate | None = None,
    ) -> pa.RecordBatchReader:
        """The rows that versions inserted, updated and deleted: the table's change data feed.

        The table needs ``delta.enableChangeDataFeed`` at each of the versions. Any writer may have made them. Whoever
        follows a table starts from the version after the last one seen, which may be the one to come: it has no rows.

        Args:
            from_version: The first version whose changes are read.
            to_version: The last one, included; None means the newest.
            columns: The columns of the table to read; None means all.
            where: A condition on rows, in SQL, which may name the three columns below too.

        Returns:
            A stream of record batches, read once, ascending by version: the columns, in the types of the last version,
            then ``_change_type`` ("insert", "delete", "update_preimage" or "update_postimage"), ``_commit_version`` and
            ``_commit_timestamp`` (UTC). An update has both images. Files that only moved rows are no changes.

        Raises:
            InvalidInputError: The feed was off at a version, a version's columns cannot be read with the last schema,
                or a column or the condition does not fit the table.
            NotFoundError: A version does not exist yet or was cleaned up, or a file of it was vacuumed.
            CorruptLogError: A file is damaged.
            StorageError: The store failed.
        """
        from txlog.commands.changes import read_changes

        return read_changes(self._open_table, from_version, to_version, columns, where)

    def history(self, limit: int | None = None) -> list[dict[str, Any]]:
        """The retained commits, newest first: ``version``, ``timestamp`` (ms since the epoch) and the fields of
        ``commitInfo`` (``operation``, ``operationParameters``, ``operationMetrics``, ``userMetadata``, ...).

        Printed, it is a table with a line for each commit.
        """
        from txlog.commands.history import History

        return History(
            {
                **(entry.commit_info.fields if entry.commit_info else {}),
                "version": entry.version,
                "timestamp": entry.timestamp_ms,
            }
            for entry in self._open_table.log.history(limit)
        )

    # --- writing ------------------------------------------------------------------------------------------------

    def append(
        self,
        data: Any,
        *,
        schema_mode: SchemaMode = "strict",
        app_id: str | None = None,
        checkpoint_id: int | None = None,
        fingerprint: str | None = None,
        user_metadata: str | None = None,
        target_file_size: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> WriteResult:
        """Append ``data`` as one new version: atomic, durable when this returns.

        ``data`` is anything with ``__arrow_c_stream__`` (pyarrow, polars, pandas, a duckdb relation, a `Snapshot` or
        `Table`), a pyarrow Dataset, a polars LazyFrame, or an iterator of record batches; it is streamed, never
        collected. ``schema_mode="merge"`` adds columns the table lacks in the same commit; a new column of unsigned
        64-bit integers becomes decimal(20,0), one of UUIDs or JSON a string. ``app_id`` and ``checkpoint_id`` together
        make it exactly once: an equal replay answers ``"already_committed"``; ``fingerprint`` (such as source offsets)
        tells different work under one id apart. ``target_file_size`` is in bytes. ``on_progress`` is called with the
        rows taken so far.

        Data without rows makes a version too, as with Spark's Delta and deltalake, so that history shows the job;
        a `Sink` and a stream, which ask for a commit every few seconds, leave empty checkpoints out.

        Raises ``SchemaMismatchError`` listing every column that differs, ``InvalidInputError`` for rows that cannot
        be stored, ``ConflictError`` (nothing landed), ``CommitStateUnknownError`` (it may have; see `resolve`).
        """
        options = WriteOptions(
            schema_mode=schema_mode,
            app_id=app_id,
            checkpoint_id=checkpoint_id,
            fingerprint=fingerprint,
            user_metadata=user_metadata,
            target_file_size_bytes=target_file_size,
        )
        return write_batch(self._open_table, data, options, on_progress)

    def overwrite(
        self,
        data: Any,
        where: str | Predicate | None = None,
        *,
        schema_mode: SchemaMode = "strict",
        partition_by: str | Iterable[str] | None = None,
        app_id: str | None = None,
        checkpoint_id: int | None = None,
        fingerprint: str | None = None,
        user_metadata: str | None = None,
        target_file_size: int | None = None,
        mode: RowMode | None = None,
        on_conflict: OnConflict = "fail",
        read_version: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> WriteResult:
        """Replace rows of the table by ``data``, as one new version: every row, or those that satisfy ``where``.

        With ``where``, such as ``"day = '2026-11-20'"``, rows of ``data`` that do not satisfy it are refused, and every
        other row of the table stays (Spark's ``replaceWhere``). A commit of others that touches what is replaced is a
        conflict, also one that came before this call but after the rows were last read through this handle (by
        `snapshot`, or as an Arrow stream): rows made from what was read then would undo it. A blind append under the
        table's default isolation level counts as having come later: its rows stay.

        Args:
            data: The new rows; see `append`.
            where: A condition on the table's columns, in SQL; None replaces every row.
            schema_mode: "strict"; "merge" adds columns that the table lacks; "overwrite" gives the table the columns of
                ``data`` (not with ``where``).
            partition_by: With ``schema_mode="overwrite"``, the new partitioning; None keeps the table's, [] ends it.
            mode: How rows go from files with others, as for `delete`: "merge-on-read" or "copy-on-write".
            on_conflict: "fail", or "rerun": whatever this handle has read, what the newest version has in place of
                ``data`` is replaced, rows that others appended meanwhile too. For rows made from another source.
            read_version: The version that ``data`` was made from; a change since then is a conflict. None: with
                ``where`` the one that this handle last read, where it read any; else the newest.
            app_id: With ``checkpoint_id`` (and ``fingerprint``) as for `append`; so are the remaining options.

        Returns:
            The result; its metrics count the rows written, deleted and copied.

        Raises:
            InvalidInputError: A row lies outside of ``where``, or the table is append-only.
            ConflictError: A concurrent commit touched what is replaced; nothing landed. And what `append` raises.
        """
        options = WriteOptions(
            mode="overwrite",
            where=where,
            schema_mode=schema_mode,
            partition_by=None if partition_by is None else names_in("partition_by", partition_by),
            app_id=app_id,
            checkpoint_id=checkpoint_id,
            fingerprint=fingerprint,
            user_metadata=user_metadata,
            target_file_size_bytes=target_file_size,
            read_version=read_version,
            row_mode=mode,
            on_conflict=on_conflict,
        )
        return write_batch(self._open_table, data, options, on_progress)

    def overwrite_partitions(
        self,
        data: Any,
        *,
        schema_mode: SchemaMode = "strict",
        app_id: str | None = None,
        checkpoint_id: int | None = None,
        fingerprint: str | None = None,
        user_metadata: str | None = None,
        target_file_size: int | None = None,
        mode: RowMode | None = None,
        on_conflict: OnConflict = "fail",
        read_version: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> WriteResult:
        """Replace the partitions that ``data`` has rows of by ``data``, as one new version; all others stay.

        Spark's dynamic partition overwrite. Arguments are those of `append`; conflicts, ``mode``, ``on_conflict`` and
        ``read_version`` are those of `overwrite`, for the partitions touched, whose files go in either mode. Raises
        ``InvalidInputError`` for a table that is not partitioned or is append-only.
        """
        options = WriteOptions(
            mode="overwrite_partitions",
            schema_mode=schema_mode,
            app_id=app_id,
            checkpoint_id=checkpoint_id,
            fingerprint=fingerprint,
            user_metadata=user_metadata,
            target_file_size_bytes=target_file_size,
            read_version=read_version,
            row_mode=mode,
            on_conflict=on_conflict,
        )
        return write_batch(self._open_table, data, options, on_progress)

    def delete(
        self,
        where: str | Predicate | None = None,
        *,
        mode: RowMode | None = None,
        on_conflict: OnConflict = "rerun",
        read_version: int | None = None,
        app_id: str | None = None,
        checkpoint_id: int | None = None,
        fingerprint: str | None = None,
        user_metadata: str | None = None,
        on_progress: OnFiles | None = None,
    ) -> WriteResult:
        """Delete the rows for which ``where`` (a condition in SQL) is true; None deletes all.

        A delete never fails because of rows that others write meanwhile: after a lost race it is executed again on the
        newest version, and looks only into files that are new. The result is as if it had run alone, in the order of
        the commits. One that matches nothing commits nothing.

        Args:
            where: A condition in SQL, or one built from `txlog.col`. Rows for which it is unknown (null) stay.
            mode: "merge-on-read" marks rows dead by deletion vectors, "copy-on-write" writes their files again. None:
                vectors where the table enables them (``delta.enableDeletionVectors``), else copies. Files whose
                partition values or statistics prove that every row matches are never opened.
            on_conflict: "rerun", or "fail": conflict with commits that touch what was read, by Delta's rules.
            read_version: Delete as of this version, and conflict with later commits that touch what was read.
            app_id: With ``checkpoint_id`` (and ``fingerprint``) as for `append`: the delete happens at most once.
            on_progress: Called with the files looked into so far, and all that will be.

        Raises ``InvalidInputError`` for a condition that does not fit and for an append-only table, ``ConflictError``
        (nothing landed), ``CommitStateUnknownError`` (it may have; see `resolve`).
        """
        from txlog.commands.delete import delete_rows
        from txlog.commands.row_change.options import RowOptions

        options = RowOptions(
            mode, on_conflict, read_version, app_id, checkpoint_id, fingerprint, user_metadata, on_progress
        )
        return delete_rows(self._open_table, where, options)

    def update(
        self,
        values: Mapping[str, Any],
        where: str | Predicate | None = None,
        *,
        mode: RowMode | None = None,
        on_conflict: OnConflict = "rerun",
        read_version: int | None = None,
        app_id: str | None = None,
        checkpoint_id: int | None = None,
        fingerprint: str | None = None,
        user_metadata: str | None = None,
        on_progress: OnFiles | None = None,
    ) -> WriteResult:
        """Set columns of the rows for which ``where`` is true; None means all rows.

        Args:
            values: The columns to set. A string is an SQL expression over the row's old values (``"amount * 1.1"``; a
                string is quoted: ``"'paid'"``), any other value is itself, None is null, and a function gets rows
                as a ``pyarrow.RecordBatch`` and returns an array; it must return the same for the same rows.
                ``current_timestamp()`` is read once. Rows may move to other partitions.
            where: As for `delete`, as are the other arguments, the behaviour beside other writers and the errors.

        Besides, ``InvalidInputError`` for a value that does not fit its column, and for null where it is NOT NULL.
        """
        from txlog.commands.row_change.options import RowOptions
        from txlog.commands.update import update_rows

        options = RowOptions(
            mode, on_conflict, read_version, app_id, checkpoint_id, fingerprint, user_metadata, on_progress
        )
        return update_rows(self._open_table, values, where, options)

    def upsert(
        self,
        rows: Any,
        keys: Iterable[str],
        *,
        when_matched: WhenMatched = "update",
        when_not_matched: WhenNotMatched = "insert",
        update_columns: Sequence[str] | None = None,
        on_duplicate: OnDuplicate = "error",
        sequence_by: str | None = None,
        schema_mode: SchemaMode = "strict",
        merge_engine: str | Mapping[str, Any] | None = None,
        row_kind: str | None = None,
        row_kinds: Mapping[Any, str] | None = None,
        mode: RowMode | None = None,
        on_conflict: OnConflict = "rerun",
        read_version: int | None = None,
        app_id: str | None = None,
        checkpoint_id: int | None = None,
        fingerprint: str | None = None,
        user_metadata: str | None = None,
        on_progress: OnFiles | None = None,
    ) -> WriteResult:
        """Update the rows whose keys ``rows`` have, and insert the others, as one new version.

        An upsert never fails because of rows that others write meanwhile, of the same keys too: after a lost race it
        is executed again on the newest version, and the result is as if it had run alone, in the order of the commits.
        That is no protection for values that were computed from an earlier read: give ``read_version`` for those.

        Args:
            rows: Anything `append` takes, with every column of the table; read once, and put into a temporary file
                where it is large.
            keys: The columns that identify a row, or paths into structs ("address.zip"): integer, string, binary,
                boolean, date, timestamp or decimal. A null key in ``rows`` is an error; in the table it matches
                nothing. Several rows of the table with one key are all replaced by the one of ``rows``.
            when_matched: "update", or "ignore": rows whose keys the table has change nothing.
            when_not_matched: "insert", or "ignore": rows whose keys the table lacks change nothing.
            update_columns: The columns that matched rows get from ``rows``; all others keep their values. Then each
                row of the table with the key is updated. None: matched rows are replaced whole.
            on_duplicate: A key that two of ``rows`` have is an "error", or the "last" one counts.
            sequence_by: A column whose greatest value says which is the last; equal ones by arrival.
            schema_mode: "strict", or "merge": columns of ``rows`` that the table lacks are added to it.
            merge_engine: How rows of one key, the table's too, become one: "deduplicate", "partial-update",
                "aggregation", "first-row" or Paimon's options. None: as ``txlog.merge-engine`` of the table says.
            row_kind: The column that says what each row does: ``+I``, ``-U``, ``+U``, ``-D``, Debezium's words, others
                by ``row_kinds`` (``{"gone": "-D"}``).

        The other arguments are those of `delete`, and so are the errors; besides, ``SchemaMismatchError`` for columns
        that are absent or do not fit, and ``InvalidInputError`` naming a null or repeated key, or kinds of rows.
        """
        from txlog.commands.row_change.options import RowOptions
        from txlog.commands.upsert.upsert import UpsertOptions, upsert_rows

        options = RowOptions(
            mode, on_conflict, read_version, app_id, checkpoint_id, fingerprint, user_metadata, on_progress
        )
        given = keys, when_matched, when_not_matched, update_columns, on_duplicate, sequence_by, schema_mode
        how = UpsertOptions(*given, merge_engine, row_kind, row_kinds)
        return upsert_rows(self._open_table, rows, how, options)

    def merge(
        self,
        source: Any,
        on: str | Iterable[str],
        *,
        source_alias: str = "source",
        target_alias: str = "target",
        schema_mode: SchemaMode = "strict",
        mode: RowMode | None = None,
        on_conflict: OnConflict = "rerun",
        read_version: int | None = None,
        app_id: str | None = None,
        checkpoint_id: int | None = None,
        fingerprint: str | None = None,
        user_metadata: str | None = None,
        on_progress: OnFiles | None = None,
    ) -> MergeBuilder[WriteResult]:
        """Begin a merge of ``source`` into the table; clauses and ``execute()`` follow (see `MergeBuilder`).

        ``table.merge(rows, "target.id = source.id").when_matched_update_all().when_not_matched_insert_all().execute()``
        is what `upsert` does by keys, row by row of the table.

        Args:
            source: Anything `append` takes; columns that the table lacks may be used in conditions and values.
            on: Which rows match: equalities of a column of each side joined by AND, and terms on the table alone; or
                the names of key columns. A null matches nothing. Any other join is refused by name.
            source_alias: The name of the source in conditions and values.
            target_alias: The name of the table there.
            schema_mode: "strict", or "merge": columns of ``source`` that the table lacks are added to it, all of them
                by a clause for all columns, else those that clauses set. Columns that ``source`` lacks keep their
                values where a clause for all columns updates, and are null where it inserts.

        The other arguments, and the behaviour beside other writers, are those of `delete`.
        """
        from txlog.commands.merge import MergeOptions, merge_rows
        from txlog.commands.merge_builder import MergeBuilder
        from txlog.commands.row_change.options import RowOptions

        options = RowOptions(
            mode, on_conflict, read_version, app_id, checkpoint_id, fingerprint, user_metadata, on_progress
        )
        merge = MergeOptions(on, source_alias, target_alias, schema_mode)
        return MergeBuilder(
            self.uri, merge, lambda clauses: merge_rows(self._open_table, source, merge, clauses, options)
        )

    def add_files(
        self, paths: Sequence[str], *, user_metadata: str | None = None, on_progress: OnProgress | None = None
    ) -> WriteResult:
        """Take Parquet files that lie below the table's root already into the table, without rewriting them.

        ``paths`` are relative to the root; partition values are read from Hive-style directories (``day=2026-11-20/``).
        Statistics come from the footers. Raises ``SchemaMismatchError`` for a file whose columns differ,
        ``InvalidInputError`` for one that is in the table already, ``NotFoundError``.
        """
        from txlog.commands.add_files import adds_of

        with self.transaction(operation="ADD FILES", user_metadata=user_metadata) as transaction:
            transaction.add(*adds_of(self._open_table.store, transaction.snapshot, paths, on_progress))
        return transaction.result

    def transaction(
        self,
        isolation: IsolationLevel | None = None,
        *,
        operation: str | None = None,
        data_change: bool = True,
        user_metadata: str | None = None,
    ) -> Transaction:
        """Several reads and writes as one version (see `Transaction`); leaving the block normally commits."""
        return Transaction(
            self._open_table,
            isolation=isolation,
            operation=operation,
            data_change=data_change,
            user_metadata=user_metadata,
        )

    # --- the table's definition ---------------------------------------------------------------------------------

    def set_properties(self, properties: Mapping[str, str], *, user_metadata: str | None = None) -> WriteResult:
        """Set table properties. Raises ``InvalidInputError`` naming an unknown key or a value that is not valid."""
        state = self._open_table.writable_state()
        with TxlogError.located(self.uri, state.version):
            properties = validate(properties)
            definition = with_properties(state, properties)
        parameters = operation_parameters(properties=properties)
        return commit_definition(self._open_table, state, definition, "SET TBLPROPERTIES", parameters, user_metadata)

    def unset_properties(self, keys: Iterable[str], *, user_metadata: str | None = None) -> WriteResult:
        """Unset table properties. Raises ``InvalidInputError`` for one that is not set."""
        state = self._open_table.writable_state()
        keys = names_in("keys", keys)
        parameters = operation_parameters(properties=list(keys), ifExists=False)
        with TxlogError.located(self.uri, state.version):
            definition = without_properties(state, keys)
        return commit_definition(self._open_table, state, definition, "UNSET TBLPROPERTIES", parameters, user_metadata)

    def add_columns(self, schema: Any, *, user_metadata: str | None = None) -> WriteResult:
        """Add nullable columns, or members of nested structs; rows that are there read as null.

        ``schema`` (pyarrow, Spark or Delta, or DDL) holds the new columns. Raises ``SchemaMismatchError`` where a
        column exists with another type, ``InvalidInputError`` for a new column that is NOT NULL.
        """
        state = self._open_table.writable_state()
        with TxlogError.located(self.uri, state.version):
            new = from_any(schema)
            check_added_columns(state, new)
            parameters = operation_parameters(columns=[{"column": {"name": f.name}} for f in new.fields])
            definition = with_columns(state, new)
        return commit_definition(self._open_table, state, definition, "ADD COLUMNS", parameters, user_metadata)

    # --- data files -----------------------------------------------------------------------------------------------

    def optimize(
        self,
        where: str | Predicate | None = None,
        *,
        target_file_size: int | None = None,
        max_bytes: int | None = None,
        cluster_by: str | Sequence[str] | None = None,
        dry_run: bool = False,
        user_metadata: str | None = None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> RewriteResult:
        """Rewrite small files, and files with many dead rows, as fewer and larger ones. No row changes.

        Readers and writers go on meanwhile, and none of them loses a race to it: a row that another writer deletes
        from a file that is being rewritten is dead in the new file, and a bin whose files others removed is given up.
        Several commits are made for many files, so that an interruption costs the last one only. The old files stay
        until vacuum deletes them.

        Args:
            where: Which partitions, such as ``"day >= '2026-11-01'"``; names partition columns only. None: all.
            target_file_size: The size of the new files, in bytes. Default: ``delta.targetFileSize``, else 128 MiB.
                Files that are smaller, and files of which more than 5 % of the rows are dead, are rewritten.
            max_bytes: The most bytes to rewrite in this call, what gains most for its size first. Default: all.
            cluster_by: Columns that readers filter by, such as ``["customer", "time"]`` or ``"customer,time"``: all
                files of the partitions are rewritten with rows that are near each other in these columns in one file
                (along a Hilbert curve), so that filters on any of them skip files. Files that were clustered by them
                before are left as they are where nothing was added. What exceeds memory goes to a temporary folder.
                A table that Spark defined as clustered (``CLUSTER BY``) is clustered by its own columns without it.
            dry_run: Only tell what would be rewritten.
            user_metadata: A note for the table's history.
            on_progress: Called with the bytes rewritten so far and in all.

        Returns:
            The files and bytes before and after, and the versions committed.

        Raises:
            InvalidInputError: ``where`` names other columns, or an argument is out of range.
            UnsupportedFeatureError: The table needs a feature that this release cannot write.
            MetadataChangedError: The table's schema was changed meanwhile; groups committed before stay.
            NotFoundError: A data file is gone.
            CorruptLogError: A data file cannot be read.
            StorageError: The store failed.
        """
        from txlog.maintenance.optimize import optimize

        return optimize(
            self._open_table,
            where,
            target_file_size_bytes=target_file_size,
            max_bytes=max_bytes,
            cluster_by=cluster_by,
            dry_run=dry_run,
            user_metadata=user_metadata,
            on_progress=on_progress,
        )

    def purge(
        self,
        where: str | Predicate | None = None,
        *,
        dry_run: bool = False,
        user_metadata: str | None = None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> RewriteResult:
        """Rewrite every file that holds dead rows or values of dropped columns, without them. No live row changes.

        The first step of deleting for good: ``paths_removed`` of the result names the files that still hold the
        values, which the first vacuum after ``kept_until_ms`` deletes, unless a named version keeps them (``kept_by``).
        `check_deleted` proves that they are gone. As Spark's ``REORG TABLE ... APPLY (PURGE)``.

        Args:
            where: Which partitions, as for `optimize`.
            dry_run: Only tell what would be rewritten.
            user_metadata: A note for the table's history.
            on_progress: Called with the bytes rewritten so far and in all.

        Raises:
            What `optimize` raises.
        """
        from txlog.maintenance.optimize import purge

        return purge(self._open_table, where, dry_run=dry_run, user_metadata=user_metadata, on_progress=on_progress)

    def check_deleted(self, version: int | None = None) -> DeletionCheck:
        """Prove that nothing is left of what was deleted up to a version, or name every file that may hold some of it.

        Looks at each file in the table's folder, whatever names it: versions, named versions, change data, staging, the
        log with its bounds of values. Files elsewhere, which absolute paths of the log name, are not looked at.

        Args:
            version: That of the delete, such as ``table.delete(...).version``. Default: the newest version.

        Returns:
            ``is_gone`` where nothing is left, and ``rows_are_gone`` where the log alone may tell bounds of the values;
            ``remains`` has each file that is left, what keeps it, and until when.

        Raises ``NotFoundError`` for a version that does not exist yet, ``CorruptLogError``, ``StorageError``.
        """
        from txlog.maintenance.remains import check_deleted

        return check_deleted(self._open_table, None if version is None else whole_number("version", version))

    def restore(
        self,
        version: int | None = None,
        timestamp: Moment | None = None,
        *,
        allow_missing_files: bool = False,
        allow_expired_files: bool = False,
        dry_run: bool = False,
        user_metadata: str | None = None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> RestoreResult:
        """Make the table what it was at a version, or at a time, as a new version. No data file is read or written.

        Rows, schema, properties and partitioning come back; the protocol keeps its features, and ids that were given
        are not given again.

        Args:
            version: The version to go back to. Give it or ``timestamp``, which is as for `snapshot`.
            allow_missing_files: Leave out rows whose files are gone; the result names the files.
            allow_expired_files: Also take files past the retention, which a vacuum may delete. Only where none runs.
            dry_run: Change nothing, and return what would be changed and what is missing.
            on_progress: Called with the files looked up so far and in all.

        Raises ``NotFoundError`` listing files that are gone, ``InvalidInputError`` for files past the retention, and
        ``ConflictError`` if another writer committed meanwhile: nothing landed then.
        """
        from txlog.maintenance.restore import RestoreOptions, restore

        if (version is None) == (timestamp is None):
            raise InvalidInputError("restore takes a version or a timestamp", table=self.uri)
        named, asked = self.snapshot(version, timestamp).version, None if timestamp is None else str(timestamp)
        options = RestoreOptions(named, asked, allow_missing_files, allow_expired_files, dry_run, user_metadata)
        return restore(self._open_table, options, on_progress)

    def tag(self, name: str, version: int | None = None) -> NamedVersion:
        """Name a version, the newest by default; clean-up and vacuum of txlog keep it. ``snapshot(tag=name)`` reads it.

        Vacuums of other engines do not know of it. Raises ``InvalidInputError`` if the name is taken, or files of the
        version are past the retention; ``NotFoundError`` if the version or a file of it is gone.
        """
        from txlog.maintenance.named_versions import tag

        return tag(self._open_table, name, None if version is None else whole_number("version", version))

    def tags(self) -> list[NamedVersion]:
        """The named versions, by ``version``: each has a ``name``, and ``created_ms``, when it was named."""
        from txlog.maintenance.named_versions import named_versions

        return named_versions(self._open_table.store)

    def untag(self, name: str) -> None:
        """Remove the name of a version; the next vacuum may take its files. Raises ``NotFoundError``."""
        from txlog.maintenance.named_versions import untag

        untag(self._open_table, name)

    def vacuum(
        self,
        retention_hours: float | None = None,
        *,
        dry_run: bool = False,
        lite: bool = False,
        inventory: Any = None,
        force: bool = False,
        on_progress: Callable[[str, int, int], None] | None = None,
    ) -> VacuumResult:
        """Delete data files that the table has not needed for the retention: removed ones, and ones never committed.

        Time travel inside the retention, named versions, change data, staged work of sinks and files in progress stay
        whole. Writers and readers may go on meanwhile. History shows VACUUM START and VACUUM END.

        Args:
            retention_hours: Default: the table's ``delta.deletedFileRetentionDuration``, a week unless it is set.
            dry_run: Delete nothing, and return what would be deleted.
            lite: Take from the log which files were removed since the last vacuum, and do not list the table. That
                finds no file that no commit names. Where the log does not tell, the table is listed.
            inventory: An Arrow stream of all files, with ``path``, ``length``, ``isDir`` and ``modificationTime`` (ms).
            force: Accept a retention shorter than the table's. A write that is not committed yet loses its files.
            on_progress: Called with the name of a step, the files done and the files to do as far as is known.

        Raises ``InvalidInputError`` for a retention that is too short, ``CorruptLogError`` for a log that cannot be
        understood (nothing is deleted then), ``StorageError``, also if this machine's clock is ahead of the store's.
        """
        from txlog.maintenance.vacuum import VacuumOptions, vacuum

        options = VacuumOptions(retention_hours, dry_run, lite, inventory, force)
        return vacuum(self._open_table, options, on_progress)

    def maintain(
        self,
        *,
        small_files_min: int = 50,
        max_bytes: int | None = None,
        vacuum_every_hours: float | None = 24,
        dry_run: bool = False,
        interval_s: float | None = None,
        on_round: Callable[[MaintenanceResult], object] | None = None,
        on_progress: Callable[[str, int, int], None] | None = None,
    ) -> MaintenanceResult:
        """Do what is due to keep the table fast and small: compact, write a checkpoint, clean up the log, vacuum.

        For tables whose writers only write. A step that fails is in ``failures`` of the result and in the log; the
        other steps are done. Any number of maintainers may run at once, beside every writer and reader.

        Args:
            small_files_min: Partitions with fewer small files, or files with many dead rows, are left as they are.
            max_bytes: The most bytes to compact in a round, what gains most for its size first. Default: all.
            vacuum_every_hours: A vacuum with the table's retention runs when the last one, of any engine that notes
                it in the log's ``_last_vacuum_info``, is this long ago. None: never.
            dry_run: Change nothing, and return what would be done.
            interval_s: Do it again and again, this many seconds after each round, until an exception such as
                ``KeyboardInterrupt`` ends it. A store that does not answer is asked again in the next round.
                None: one round. The log's clean-up and the vacuum are looked at once an hour.
            on_round: Called with the result of each round.
            on_progress: Called with the name of a step, how much is done and how much there is to do.

        Returns:
            What the round did.

        Raises:
            InvalidInputError: An argument is out of range.
            TableNotFoundError: The table is gone.
            UnsupportedFeatureError: The table needs a feature that this release cannot maintain.
            CorruptLogError: The log cannot be understood.
            StorageError: The store failed before anything was begun, in a single round.
        """
        from txlog.maintenance.maintainer import Maintainer, MaintenanceOptions, watch

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
        """Let Iceberg readers see the newest version: write Iceberg metadata for all versions that have none yet.

        The metadata is in ``_iceberg/`` beside the log and names the same data files; no row is copied. Each version
        with changes of files becomes a snapshot, so that both kinds of readers can travel to the same versions. Where
        the property ``txlog.iceberg`` is ``v2`` or ``v3``, every commit is followed by an export in the background,
        and this call only waits for the newest one. Without the property it exports once, as v2.

        Args:
            rebuild: Export the newest version in full, as the only snapshot, whatever Iceberg metadata is there: after
                an Iceberg writer changed it, or to begin with fewer files.
            register: ``catalog.namespace.table``, an entry to make in an Iceberg catalog, or to move on. The table
                remembers it (property ``txlog.iceberg.catalog``), and every later export moves it on. The catalog is
                one that PyIceberg's configuration names; needs the extra ``iceberg``.

        Returns:
            The version that Iceberg readers see now, and the location of its metadata file.

        Raises:
            IcebergExportError: The table has something that Iceberg readers would not read, or read wrongly; or
                another Iceberg writer changed the metadata, or the catalog's entry. The message says what to do.
            InvalidInputError: The catalog is not configured, or the entry's name has another form.
            StorageError: The store or the catalog does not answer.
        """
        exporter = self._open_table.post_commit.iceberg.exporter()
        state = self._open_table.log.newest_state()
        done = exporter.export(state, rebuild=rebuild)
        if register is None or register == state.properties.iceberg_catalog:
            return done
        exporter.move_entry(register, done)
        self.set_properties({ICEBERG_CATALOG: register})
        return exporter.export(self._open_table.log.newest_state())

    def create_checkpoint(self) -> int:
        """Write a Delta checkpoint of the newest version, if it has none, and a checksum file; returns the version."""
        from txlog.upkeep.version_checksum import write_checkpoint_and_checksum

        return write_checkpoint_and_checksum(self._open_table.log, self._open_table.writable_state())

    def compact_log(self, *, on_progress: Callable[[int, int], None] | None = None) -> LogCompaction | None:
        """Write one file that readers may take for the commits since the last checkpoint; None for fewer than two."""
        from txlog.upkeep.log_compaction import compact_log

        return compact_log(self._open_table.log, self._open_table.log.newest_state(), on_progress=on_progress)

    def clean_up_log(
        self, dry_run: bool = False, *, on_progress: Callable[[int, int], None] | None = None
    ) -> LogCleanUp:
        """Delete the versions that ``delta.logRetentionDuration`` no longer keeps; ``dry_run`` only tells which files.

        Also runs by itself with checkpoints, unless ``delta.enableExpiredLogCleanup`` is false. What time travel
        inside the retention needs stays. ``on_progress`` is called with the files deleted and all that will be.
        """
        from txlog.upkeep.log_clean_up import clean_up_log

        return clean_up_log(
            self._open_table.log, self._open_table.log.newest_state(), dry_run=dry_run, on_progress=on_progress
        )

    def resolve(self, txn_id: str, version: int) -> bool:
        """After ``CommitStateUnknownError``: whether the commit is in the log. Its answer is final.

        Where nothing stands at ``version`` yet, an empty commit is put there first, so that a put still in flight
        can never land. Raises ``NotFoundError`` where the version was cleaned up, ``CommitStateUnknownError`` again
        where the store does not answer.
        """
        from txlog.commit.resolve import resolve

        return resolve(self._open_table, txn_id, version)

    # --- as a value ---------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        """Shows the newest version that the handle knows of; nothing is looked up for it."""
        known = self._open_table.log.known_state
        return f"Table({', '.join([self.uri, *([] if known is None else version_summary(known))])})"

    def _repr_html_(self) -> str:
        return self.snapshot()._as_html("Table")

    if not TYPE_CHECKING:  # a type checker reports a misspelt name

        def __getattr__(self, name: str) -> NoReturn:
            open_table = self.__dict__.get("_open_table")
            raise no_attribute(self, name, open_table and open_table.uri)

    def __getstate__(self) -> dict[str, Any]:
        size_bytes = self._open_table.key_cache.size_bytes_max
        return {"store": self._open_table.store, "retry": self._open_table.retry, "key_cache_size": size_bytes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Table.__init__(self, OpenTable(state["store"], state["retry"], key_cache_size_bytes=state["key_cache_size"]))


def _open_table(
    uri: str | os.PathLike[str],
    storage_options: Mapping[str, str] | None,
    retry: RetryPolicy | None,
    credential_provider: Any,
    hooks: CommitHooks | None = None,
    key_cache_size: int | None = None,
) -> OpenTable:
    return OpenTable(open_store(uri, storage_options, credential_provider), retry, hooks, key_cache_size)


def _probe_new_location(open_table: OpenTable) -> None:
    """A store that ignores the condition would lose data at the first race: refuse it before a table is made there."""
    if open_table.store.log.capabilities.refuses_taken_names or open_table.log.exists():
        return
    probe_store(open_table.store).require_safe()


def _create_parameters(definition: Definition) -> dict[str, str]:
    metadata = definition.metadata
    partition_by = list(metadata.partition_columns)
    return operation_parameters(isManaged=False, partitionBy=partition_by, properties=metadata.configuration)
