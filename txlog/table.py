"""`Table` and `write`: the front door. Wiring and documentation; every decision is made behind it.

In: a location and data. Out: ``WriteResult``s and ``Snapshot``s.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias, get_args

import pyarrow as pa

from txlog.commands.batch_write import OnProgress, write_batch
from txlog.commands.table_definition import (
    Definition,
    check_agrees,
    commit_definition,
    new_table,
    with_columns,
    with_properties,
    without_properties,
)
from txlog.commands.write_planning import SchemaMode, WriteOptions
from txlog.commit.open_table import OpenTable
from txlog.errors import (
    InvalidInputError,
    MetadataChangedError,
    ProtocolChangedError,
    TableExistsError,
    TxlogError,
)
from txlog.hooks import CommitHooks
from txlog.log.proposal import operation_parameters
from txlog.log_files.times import milliseconds
from txlog.protocol.properties import validate
from txlog.protocol.schema_input import from_any
from txlog.result import LogCleanUp, LogCompaction, WriteResult
from txlog.snapshot import Snapshot
from txlog.store.open import open_store
from txlog.store.probe import probe_store
from txlog.store.retry import RetryPolicy
from txlog.transaction import IsolationLevel, Transaction
from txlog.util.api_hints import MADE_BY, explains_call, explains_calls, no_attribute
from txlog.util.arguments import described, names_in, type_name_of, whole_number

if TYPE_CHECKING:
    from txlog.commands.merge_builder import MergeBuilder
    from txlog.commands.row_change.options import OnConflict, OnFiles, RowMode
    from txlog.commands.upsert.source import OnDuplicate
    from txlog.commands.upsert.upsert import WhenMatched, WhenNotMatched
    from txlog.expressions.predicates import Predicate

__all__ = ["Table", "write"]

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
    ``partition_by`` must agree, except with ``schema_mode="overwrite"``. The other arguments are those of
    `Table.append` and `Table.open`.

    Raises ``TableExistsError`` (mode "error") and what `Table.append` raises.
    """
    if isinstance(data, str | os.PathLike) and not isinstance(uri, str | os.PathLike):
        raise InvalidInputError(f"txlog.write(uri, data): the location comes first, then the {type_name_of(uri)}")
    if not isinstance(mode, str) or mode not in get_args(WriteMode):
        raise InvalidInputError(f"mode must be one of {', '.join(get_args(WriteMode))}, is {described(mode)}")
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
    )
    try:
        return write_batch(open_table, data, options, on_progress)
    except TableExistsError as error:
        if mode == "ignore":
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

    connection: dict[str, Any] = {
        "storage_options": storage_options,
        "retry": retry,
        "credential_provider": credential_provider,
    }

    def create() -> Table:
        return Table.create(uri, schema, partition_by, properties, **connection)

    open_table = _open_table(uri, storage_options, retry, credential_provider)
    return resolve(open_table, txn_id, version, None if schema is None else create)


@explains_calls
class Table:
    """One Delta table, open. Thread-safe; pickles without secrets.

    A handle keeps what it knows of the log, so that an append costs the same whatever the table's size. Make one
    with `Table.open` or `Table.create`.
    """

    def __init__(self, open_table: OpenTable) -> None:
        if not isinstance(open_table, OpenTable):
            raise InvalidInputError(f"Do not call Table(): use {MADE_BY['Table']}")
        self._open_table = open_table

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
        open_table = _open_table(uri, storage_options, retry, credential_provider, hooks)
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
    ) -> Table:
        """Open an existing table: a path, ``file://``, ``s3://``, ``az://``, ``abfs://`` or ``gs://`` URI.

        ``storage_options`` are those of the store, by the keys that deltalake takes (docs/storage.md lists them);
        ``credential_provider`` is one of ``obstore.auth``. ``retry`` says how long a commit keeps trying;
        ``hooks`` (see `CommitHooks`) are told of each commit, lost race and conflict of this handle.

        Raises ``TableNotFoundError``, ``UnsupportedFeatureError`` naming a reader feature this release lacks,
        ``CorruptLogError``, ``StorageError``, and ``InvalidInputError`` for an unknown storage option.
        """
        from txlog.protocol.features import check_can_read

        open_table = _open_table(uri, storage_options, retry, credential_provider, hooks)
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
        return self.snapshot().schema

    # --- reading ------------------------------------------------------------------------------------------------

    def snapshot(self, version: int | None = None, timestamp: datetime | date | str | int | None = None) -> Snapshot:
        """The newest version, or the one named, or the newest at or before ``timestamp``.

        ``timestamp`` is a ``datetime`` or an ISO 8601 string (without zone: UTC), a ``date`` (its first moment in UTC),
        or an integer, ms since the epoch. A time after the newest commit, such as now, is the newest version. Raises
        ``NotFoundError`` for a version or time before the first that the log retains, and a version after the newest.
        """
        log = self._open_table.log
        if version is not None and timestamp is not None:
            raise InvalidInputError("give a version or a timestamp, not both", table=self.uri)
        if timestamp is not None:
            version = log.version_at(milliseconds(timestamp))
        if version is None:
            return Snapshot(log, log.newest_state())
        return Snapshot(log, log.state_at(whole_number("version", version, table=self.uri)))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The newest version as an Arrow stream: ``polars.DataFrame(table)``, ``pyarrow.table(table)``."""
        return self.snapshot().__arrow_c_stream__(requested_schema)

    def history(self, limit: int | None = None) -> list[dict[str, Any]]:
        """The retained commits, newest first: ``version``, ``timestamp`` (ms since the epoch) and the fields of
        ``commitInfo`` (``operation``, ``operationParameters``, ``operationMetrics``, ``userMetadata``, ...)."""
        return [
            {
                **(entry.commit_info.fields if entry.commit_info else {}),
                "version": entry.version,
                "timestamp": entry.timestamp_ms,
            }
            for entry in self._open_table.log.history(limit)
        ]

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

        Data without rows makes a version too, as with Spark's Delta and deltalake, so that history tells of the job;
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
        on_progress: OnProgress | None = None,
    ) -> WriteResult:
        """Replace rows of the table by ``data``, as one new version: every row, or those that satisfy ``where``.

        With ``where``, such as ``"day = '2026-11-20'"``, rows of ``data`` that do not satisfy it are refused, and every
        other row of the table stays (Spark's ``replaceWhere``). Files of which all rows go are removed. Of a file with
        others besides, rows are marked as deleted where ``delta.enableDeletionVectors`` is set; else the others are
        copied. A concurrent commit that touches what is replaced is a conflict, except for a
        blind append under the table's default isolation level, which counts as having come later.

        Args:
            data: The new rows; see `append`.
            where: A condition on the table's columns, in SQL; None replaces every row.
            schema_mode: "strict"; "merge" adds columns that the table lacks; "overwrite" gives the table the columns of
                ``data`` (not with ``where``).
            partition_by: With ``schema_mode="overwrite"``, the new partitioning; None keeps the table's, [] ends it.
            app_id: With ``checkpoint_id`` (and ``fingerprint``) as for `append`; so are the remaining options.

        Returns:
            The result; its metrics count the rows written, deleted and copied.

        Raises:
            InvalidInputError: A row lies outside of ``where``, or the table is append-only.
            UnsupportedFeatureError: Rows would have to be copied, and the table records row changes or row ids.
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
        on_progress: OnProgress | None = None,
    ) -> WriteResult:
        """Replace the partitions that ``data`` has rows of by ``data``, as one new version; all others stay.

        Spark's dynamic partition overwrite. Arguments are those of `append`; conflicts are those of `overwrite`, for
        the partitions touched. Raises ``InvalidInputError`` for a table that is not partitioned or is append-only.
        """
        options = WriteOptions(
            mode="overwrite_partitions",
            schema_mode=schema_mode,
            app_id=app_id,
            checkpoint_id=checkpoint_id,
            fingerprint=fingerprint,
            user_metadata=user_metadata,
            target_file_size_bytes=target_file_size,
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

        Raises ``InvalidInputError`` for a condition that does not fit and for an append-only table,
        ``UnsupportedFeatureError`` for a table whose change data feed is on, ``ConflictError`` (nothing landed),
        ``CommitStateUnknownError`` (it may have; see `resolve`).
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
                text stands in quotes: ``"'paid'"``), any other value is itself, None is null, and a function gets rows
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

        The other arguments are those of `delete`, and so are the errors; besides, ``SchemaMismatchError`` for columns
        that are absent or do not fit, and ``InvalidInputError`` naming a null or repeated key.
        """
        from txlog.commands.row_change.options import RowOptions
        from txlog.commands.upsert.upsert import UpsertOptions, upsert_rows

        options = RowOptions(
            mode, on_conflict, read_version, app_id, checkpoint_id, fingerprint, user_metadata, on_progress
        )
        how = UpsertOptions(keys, when_matched, when_not_matched, update_columns, on_duplicate, sequence_by)
        return upsert_rows(self._open_table, rows, how, options)

    def merge(
        self,
        source: Any,
        on: str | Iterable[str],
        *,
        source_alias: str = "source",
        target_alias: str = "target",
        mode: RowMode | None = None,
        on_conflict: OnConflict = "rerun",
        read_version: int | None = None,
        app_id: str | None = None,
        checkpoint_id: int | None = None,
        fingerprint: str | None = None,
        user_metadata: str | None = None,
        on_progress: OnFiles | None = None,
    ) -> MergeBuilder:
        """Begin a merge of ``source`` into the table; clauses and ``execute()`` follow (see `MergeBuilder`).

        ``table.merge(rows, "target.id = source.id").when_matched_update_all().when_not_matched_insert_all().execute()``
        is what `upsert` does by keys, row by row of the table.

        Args:
            source: Anything `append` takes; columns that the table lacks may be used in conditions and values.
            on: Which rows match: equalities of a column of each side joined by AND, and terms on the table alone; or
                the names of key columns. A null matches nothing. Any other join is refused by name.
            source_alias: The name of the source in conditions and values.
            target_alias: The name of the table there.

        The other arguments, and the behaviour beside other writers, are those of `delete`.
        """
        from txlog.commands.merge import MergeOptions
        from txlog.commands.merge_builder import MergeBuilder
        from txlog.commands.row_change.options import RowOptions

        options = RowOptions(
            mode, on_conflict, read_version, app_id, checkpoint_id, fingerprint, user_metadata, on_progress
        )
        return MergeBuilder(self._open_table, source, MergeOptions(on, source_alias, target_alias), options)

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

        ``schema`` (pyarrow, Spark or Delta) holds the new columns. Raises ``SchemaMismatchError`` where a column
        exists with another type.
        """
        state = self._open_table.writable_state()
        with TxlogError.located(self.uri, state.version):
            new = from_any(schema)
            parameters = operation_parameters(columns=[{"column": {"name": f.name}} for f in new.fields])
            definition = with_columns(state, new)
        return commit_definition(self._open_table, state, definition, "ADD COLUMNS", parameters, user_metadata)

    # --- the log ------------------------------------------------------------------------------------------------

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
        return f"Table({self.uri})"

    if not TYPE_CHECKING:  # a type checker tells of a misspelt name

        def __getattr__(self, name: str) -> NoReturn:
            open_table = self.__dict__.get("_open_table")
            raise no_attribute(self, name, open_table and open_table.uri)

    def __getstate__(self) -> dict[str, Any]:
        return {"store": self._open_table.store, "retry": self._open_table.retry}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._open_table = OpenTable(state["store"], state["retry"])


def _open_table(
    uri: str | os.PathLike[str],
    storage_options: Mapping[str, str] | None,
    retry: RetryPolicy | None,
    credential_provider: Any,
    hooks: CommitHooks | None = None,
) -> OpenTable:
    return OpenTable(open_store(uri, storage_options, credential_provider), retry, hooks)


def _probe_new_location(open_table: OpenTable) -> None:
    """A store that ignores the condition would lose data at the first race: refuse it before a table is made there."""
    if open_table.store.log.capabilities.refuses_taken_names or open_table.log.exists():
        return
    probe_store(open_table.store).require_safe()


def _create_parameters(definition: Definition) -> dict[str, str]:
    metadata = definition.metadata
    partition_by = list(metadata.partition_columns)
    return operation_parameters(isManaged=False, partitionBy=partition_by, properties=metadata.configuration)
