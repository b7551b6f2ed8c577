"""`Table` and `write`: the front door. Wiring and documentation; every decision is made behind it.

In: a location and data. Out: ``WriteResult``s and ``Snapshot``s.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias, get_args

from txlog.alter import Definition, check_agrees, new_table, with_columns, with_properties, without_properties
from txlog.arguments import described, type_name_of, whole_number
from txlog.commit_times import milliseconds
from txlog.engine import Engine
from txlog.errors import (
    InvalidInputError,
    MetadataChangedError,
    ProtocolChangedError,
    TableExistsError,
    TxlogError,
)
from txlog.hooks import CommitHooks
from txlog.log.transaction import operation_parameters
from txlog.protocol.properties import validate
from txlog.protocol.schema_input import from_any
from txlog.result import LogCleanUp, LogCompaction, WriteResult
from txlog.sink.batch_write import OnProgress, write_batch
from txlog.sink.planning import SchemaMode, WriteOptions
from txlog.snapshot import Snapshot
from txlog.store.open import open_store
from txlog.store.probe import probe_store
from txlog.store.retry import RetryPolicy
from txlog.transaction import IsolationLevel, Transaction
from txlog.unbuilt import MADE_BY, explains_call, explains_calls, no_attribute, not_built

__all__ = ["Table", "write"]

WriteMode: TypeAlias = Literal["append", "overwrite", "error", "ignore"]


@explains_call
def write(
    uri: str | os.PathLike[str],
    data: Any,
    mode: WriteMode = "append",
    partition_by: Iterable[str] | None = None,
    *,
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

    ``mode``: "append"; "overwrite" replaces every row; "error" refuses an existing table; "ignore" leaves one as it
    is (``outcome`` is then "ignored"). ``partition_by`` and ``properties`` define a new table; on an existing one
    ``partition_by`` must agree. The other arguments are those of `Table.append` and `Table.open`.

    Raises ``TableExistsError`` (mode "error") and what `Table.append` raises.
    """
    if isinstance(data, str | os.PathLike) and not isinstance(uri, str | os.PathLike):
        raise InvalidInputError(f"txlog.write(uri, data): the location comes first, then the {type_name_of(uri)}")
    if not isinstance(mode, str) or mode not in get_args(WriteMode):
        raise InvalidInputError(f"mode must be one of {', '.join(get_args(WriteMode))}, is {described(mode)}")
    engine = _engine(uri, storage_options, retry, credential_provider, hooks)
    _probe_new_location(engine)
    options = WriteOptions(
        mode="overwrite" if mode == "overwrite" else "append",
        schema_mode=schema_mode,
        app_id=app_id,
        checkpoint_id=checkpoint_id,
        fingerprint=fingerprint,
        user_metadata=user_metadata,
        create=True,
        must_create=mode in ("error", "ignore"),
        partition_by=None if partition_by is None else _names(partition_by),
        properties=properties or {},
        target_file_size_bytes=target_file_size,
    )
    try:
        return write_batch(engine, data, options, on_progress)
    except TableExistsError as error:
        if mode == "ignore":
            return WriteResult(engine.log.head().version, "ignored", 0, "")
        error.message = f'{error.message}; mode="append" adds rows, mode="overwrite" replaces them'
        raise


@explains_calls
class Table:
    """One Delta table, open. Thread-safe; pickles without secrets.

    A handle keeps what it knows of the log, so that an append costs the same whatever the table's size. Make one
    with `Table.open` or `Table.create`.
    """

    def __init__(self, engine: Engine) -> None:
        if not isinstance(engine, Engine):
            raise InvalidInputError(f"Table() is not for callers: {MADE_BY['Table']}")
        self._engine = engine

    # --- opening and creating -----------------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        uri: str | os.PathLike[str],
        schema: Any,
        partition_by: Iterable[str] | None = None,
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

        ``schema`` is a pyarrow, Spark or Delta schema, or Arrow types by name. With ``exist_ok`` a table that is there
        already is opened, if it is what was asked for: it has these columns, this partitioning and these property
        values. It may have more properties, and nullable columns that were added since. Raises ``TableExistsError``;
        ``SchemaMismatchError`` listing how an existing table differs; ``InvalidInputError``,
        ``UnsupportedFeatureError``, ``StorageError`` (a store that ignores the condition of a conditional put is
        refused).
        """
        engine = _engine(uri, storage_options, retry, credential_provider, hooks)
        with TxlogError.located(engine.uri):
            definition = Definition(*new_table(schema, _names(partition_by or ()), properties))
        if not engine.log.exists():
            _probe_new_location(engine)
            try:
                engine.commit_definition(
                    None, definition, "CREATE TABLE", _create_parameters(definition), user_metadata
                )
                return cls(engine)
            except (ProtocolChangedError, MetadataChangedError):
                pass  # a concurrent writer created it first
        if not exist_ok:
            raise TableExistsError("there is a table here already; Table.open opens it", table=engine.uri)
        head = engine.log.reload()
        with TxlogError.located(engine.uri, head.version):
            check_agrees(head, definition, properties or {})
        return cls(engine)

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

        ``storage_options`` are those of the store, by the keys that deltalake takes (txlog/store/README.md lists them);
        ``credential_provider`` is one of ``obstore.auth``. ``retry`` says how long a commit keeps trying;
        ``hooks`` (see `CommitHooks`) are told of each commit, lost race and conflict of this handle.

        Raises ``TableNotFoundError``, ``UnsupportedFeatureError`` naming a reader feature this release lacks,
        ``CorruptLogError``, ``StorageError``, and ``InvalidInputError`` for an unknown storage option.
        """
        from txlog.protocol.features import check_can_read

        engine = _engine(uri, storage_options, retry, credential_provider, hooks)
        head = engine.log.head()
        with TxlogError.located(engine.uri, head.version):
            check_can_read(head.protocol, head.metadata)
        return cls(engine)

    @staticmethod
    def exists(
        uri: str | os.PathLike[str],
        *,
        storage_options: Mapping[str, str] | None = None,
        credential_provider: Any = None,
    ) -> bool:
        """Whether there is a Delta table at ``uri``."""
        return _engine(uri, storage_options, None, credential_provider).log.exists()

    @property
    def uri(self) -> str:
        """The location, without credentials."""
        return self._engine.uri

    # --- reading ------------------------------------------------------------------------------------------------

    def snapshot(self, version: int | None = None, timestamp: datetime | date | str | None = None) -> Snapshot:
        """The newest version, or the one named, or the newest at or before ``timestamp``.

        ``timestamp`` is a ``datetime`` or ISO 8601 text (without zone: UTC), or a ``date`` (its first moment in UTC).
        Raises ``NotFoundError`` for a version or time before the first that the log retains, or after the newest.
        """
        log = self._engine.log
        if version is not None and timestamp is not None:
            raise InvalidInputError("give a version or a timestamp, not both", table=self.uri)
        if timestamp is not None:
            version = log.version_at(milliseconds(timestamp))
        if version is None:
            return Snapshot(log, log.head())
        return Snapshot(log, log.head_at(whole_number("version", version, table=self.uri)))

    def history(self, limit: int | None = None) -> list[dict[str, Any]]:
        """The retained commits, newest first: ``version``, ``timestamp`` (ms since the epoch) and the fields of
        ``commitInfo`` (``operation``, ``operationParameters``, ``operationMetrics``, ``userMetadata``, ...)."""
        return [
            {
                **(entry.commit_info.fields if entry.commit_info else {}),
                "version": entry.version,
                "timestamp": entry.timestamp_ms,
            }
            for entry in self._engine.log.history(limit)
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

        ``data`` is anything with ``__arrow_c_stream__`` (pyarrow, polars, pandas, duckdb) or an iterator of record
        batches; it is streamed, never collected. ``schema_mode="merge"`` adds columns the table lacks in the same
        commit. ``app_id`` and ``checkpoint_id`` together make it exactly once: an equal replay answers
        ``"already_committed"``; ``fingerprint`` (such as source offsets) tells different work under one id apart.
        ``target_file_size`` is in bytes. ``on_progress`` is called with the rows taken so far.

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
        return write_batch(self._engine, data, options, on_progress)

    def overwrite(
        self,
        data: Any,
        where: None = None,
        *,
        schema_mode: SchemaMode = "strict",
        app_id: str | None = None,
        checkpoint_id: int | None = None,
        fingerprint: str | None = None,
        user_metadata: str | None = None,
        target_file_size: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> WriteResult:
        """Replace every row of the table by ``data``, as one new version. Arguments and errors as for `append`.

        Replacing only the rows a predicate names (``where``) is not in this release and is refused.
        """
        if where is not None:
            raise not_built("overwrite(where=...)", self.uri)
        options = WriteOptions(
            mode="overwrite",
            schema_mode=schema_mode,
            app_id=app_id,
            checkpoint_id=checkpoint_id,
            fingerprint=fingerprint,
            user_metadata=user_metadata,
            target_file_size_bytes=target_file_size,
        )
        return write_batch(self._engine, data, options, on_progress)

    def add_files(
        self, paths: Sequence[str], *, user_metadata: str | None = None, on_progress: OnProgress | None = None
    ) -> WriteResult:
        """Take Parquet files that lie below the table's root already into the table, without rewriting them.

        ``paths`` are relative to the root; partition values are read from Hive-style directories (``day=2026-11-20/``).
        Statistics come from the footers. Raises ``SchemaMismatchError`` for a file whose columns differ,
        ``InvalidInputError`` for one that is in the table already, ``NotFoundError``.
        """
        from txlog.add_files import adds_of

        with self.transaction(operation="ADD FILES", user_metadata=user_metadata) as transaction:
            transaction.add(*adds_of(self._engine.store, transaction.snapshot, paths, on_progress))
        return transaction.result

    def transaction(
        self,
        isolation: IsolationLevel | None = None,
        *,
        operation: str = "WRITE",
        data_change: bool = True,
        user_metadata: str | None = None,
    ) -> Transaction:
        """Several reads and writes as one version (see `Transaction`); leaving the block normally commits."""
        return Transaction(
            self._engine, isolation=isolation, operation=operation, data_change=data_change, user_metadata=user_metadata
        )

    # --- the table's definition ---------------------------------------------------------------------------------

    def set_properties(self, properties: Mapping[str, str], *, user_metadata: str | None = None) -> WriteResult:
        """Set table properties. Raises ``InvalidInputError`` naming an unknown key or a value that is not valid."""
        head = self._engine.writable_head()
        with TxlogError.located(self.uri, head.version):
            properties = validate(properties)
            definition = with_properties(head, properties)
        parameters = operation_parameters(properties=properties)
        return self._engine.commit_definition(head, definition, "SET TBLPROPERTIES", parameters, user_metadata)

    def unset_properties(self, keys: Iterable[str], *, user_metadata: str | None = None) -> WriteResult:
        """Unset table properties. Raises ``InvalidInputError`` for one that is not set."""
        head = self._engine.writable_head()
        keys = _names(keys)
        parameters = operation_parameters(properties=list(keys), ifExists=False)
        with TxlogError.located(self.uri, head.version):
            definition = without_properties(head, keys)
        return self._engine.commit_definition(head, definition, "UNSET TBLPROPERTIES", parameters, user_metadata)

    def add_columns(self, schema: Any, *, user_metadata: str | None = None) -> WriteResult:
        """Add nullable columns, or members of nested structs; rows that are there read as null.

        ``schema`` (pyarrow, Spark or Delta) holds the new columns. Raises ``SchemaMismatchError`` where a column
        exists with another type.
        """
        head = self._engine.writable_head()
        with TxlogError.located(self.uri, head.version):
            new = from_any(schema)
            parameters = operation_parameters(columns=[{"column": {"name": f.name}} for f in new.fields])
            definition = with_columns(head, new)
        return self._engine.commit_definition(head, definition, "ADD COLUMNS", parameters, user_metadata)

    # --- the log ------------------------------------------------------------------------------------------------

    def create_checkpoint(self) -> int:
        """Write a Delta checkpoint of the newest version, if it has none, and a checksum file; returns the version."""
        from txlog.upkeep.version_checksum import write_checkpoint_and_checksum

        return write_checkpoint_and_checksum(self._engine.log, self._engine.writable_head())

    def compact_log(self, *, on_progress: Callable[[int, int], None] | None = None) -> LogCompaction | None:
        """Write one file that readers may take for the commits since the last checkpoint; None for fewer than two."""
        from txlog.upkeep.log_compaction import compact_log

        return compact_log(self._engine.log, self._engine.log.head(), on_progress=on_progress)

    def clean_up_log(
        self, dry_run: bool = False, *, on_progress: Callable[[int, int], None] | None = None
    ) -> LogCleanUp:
        """Delete the versions that ``delta.logRetentionDuration`` no longer keeps; ``dry_run`` only tells which files.

        Also runs by itself with checkpoints, unless ``delta.enableExpiredLogCleanup`` is false. What time travel
        inside the retention needs stays. ``on_progress`` is called with the files deleted and all that will be.
        """
        from txlog.upkeep.log_clean_up import clean_up_log

        return clean_up_log(self._engine.log, self._engine.log.head(), dry_run=dry_run, on_progress=on_progress)

    def resolve(self, txn_id: str, version: int) -> bool:
        """After ``CommitStateUnknownError``: whether the commit is in the log. Its answer is final.

        Where nothing stands at ``version`` yet, an empty commit is put there first, so that a put still in flight
        can never land. Raises ``NotFoundError`` where the version was cleaned up, ``CommitStateUnknownError`` again
        where the store does not answer.
        """
        from txlog.resolve import resolve

        return resolve(self._engine, txn_id, version)

    # --- as a value ---------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"Table({self.uri})"

    if not TYPE_CHECKING:  # a type checker tells of a misspelt name

        def __getattr__(self, name: str) -> NoReturn:
            engine = self.__dict__.get("_engine")
            raise no_attribute(self, name, engine and engine.uri)

    def __getstate__(self) -> dict[str, Any]:
        return {"store": self._engine.store, "retry": self._engine.retry}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._engine = Engine(state["store"], state["retry"])


def _engine(
    uri: str | os.PathLike[str],
    storage_options: Mapping[str, str] | None,
    retry: RetryPolicy | None,
    credential_provider: Any,
    hooks: CommitHooks | None = None,
) -> Engine:
    return Engine(open_store(uri, storage_options, credential_provider), retry, hooks)


def _probe_new_location(engine: Engine) -> None:
    """A store that ignores the condition would lose data at the first race: refuse it before a table is made there."""
    if engine.store.log.checks_predecessor or engine.log.exists():
        return
    probe_store(engine.store).require_safe()


def _create_parameters(definition: Definition) -> dict[str, str]:
    metadata = definition.metadata
    partition_by = list(metadata.partition_columns)
    return operation_parameters(isManaged=False, partitionBy=partition_by, properties=metadata.configuration)


def _names(names: Iterable[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise InvalidInputError(f"give a list of names, not the text {names!r}: [{names!r}]")
    try:
        found = tuple(names)
    except TypeError:
        raise InvalidInputError(f"give a list of names, not {described(names)}") from None
    if not all(isinstance(name, str) for name in found):
        raise InvalidInputError(f"a name is a text: give a list of those, not {described(names)}")
    return found
