"""`foreach_batch`: the user's own function writes a stream's micro-batches, each write exactly once.

In: a table's path, or a function of (DataFrame, `MicroBatch`). Out: a function for
``df.writeStream.foreachBatch(...)``. The stream writer's rules apply: app_id is the query's id, checkpoint_id is the
batch's id. ``df.write.format("txlog")`` appends the rows, and the result is read back from the log. Upserts and merges
use ``txlog.spark`` in this process.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from txlog.core.changes.plan import MergeBuilder, RowOptions
from txlog.core.changes.tasks import MergeSpec, UpsertSpec
from txlog.core.changes.tasks.operations import MissingColumns, OnDuplicate, WhenMatched, WhenNotMatched
from txlog.core.format.actions import SetTransaction
from txlog.core.format.commit_file import Commit
from txlog.core.parallel import new_lock
from txlog.core.util import explains_call, explains_calls, invalid, names_in, one_of
from txlog.core.versions.decisions.joined_appends import member_of_checkpoint
from txlog.core.writing.commit_options import CommitOptions
from txlog.core.writing.write_intent import RowMode, SchemaMode
from txlog.errors import InvalidInputError
from txlog.result import WriteMetrics, WriteResult
from txlog.spark.errors import NOT_FOUND_ADVICE, crossing, error_from, typed_errors
from txlog.spark.hadoop import write_options_of_session
from txlog.spark.open_tables import process_table
from txlog.spark.options import SparkWriteOptions, parse_write_options
from txlog.spark.planning import answer_known, answer_renamed
from txlog.spark.rows.calls import Site, evolving, in_session, merge_builder, run_change, upsert_spec
from txlog.spark.settings import APP_ID, QUERY_ID, VERSION, SessionSettings, zone_of_session
from txlog.spark.task import batch_fingerprint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from txlog.catalog import Catalog
    from txlog.core.predicates import AnyCondition, Parameters
    from txlog.core.versions import OpenTable

_ANY_TABLE = ""
"""For a name that a statement of SQL has: which table it changes, only the statement knows."""


@explains_call
def foreach_batch(
    write: str | os.PathLike[str] | Callable[[DataFrame, MicroBatch], object],
    *,
    app_id: str | None = None,
    mode: str = "append",
    keys: str | Iterable[str] | None = None,
    options: Mapping[str, str] | None = None,
    skip_committed_batches: bool = False,
) -> Callable[[DataFrame, int], None]:
    """A function for ``df.writeStream.foreachBatch`` that writes each micro-batch exactly once, even after a crash.

    With a path, each batch is appended to that table (``mode="overwrite"`` replaces it, as complete mode needs):

        df.writeStream.foreachBatch(txlog.spark.foreach_batch(path)).option("checkpointLocation", ...).start()

    With ``mode="upsert"`` and ``keys`` each batch is upserted, as update mode needs:

        counts = df.groupBy("country").count().writeStream.outputMode("update")
        counts.foreachBatch(txlog.spark.foreach_batch(path, mode="upsert", keys=["country"])).start()

    A function is called with the batch and a `MicroBatch`, whose methods give the same guarantee:

        def each(batch, to):
            to.write(batch, orders)
            to.upsert(batch, newest, ["customer"], on_duplicate="last", sequence_by="time")

    Args:
        write: The table's path, or a function of (DataFrame, `MicroBatch`).
        app_id: The stream's name; by default the query's id, which is stored in the checkpoint folder.
        mode: "append", "overwrite" or "upsert"; only with a path. An upsert needs a table that exists.
        keys: The columns that identify a row; with ``mode="upsert"``.
        options: The options of ``df.write`` (``mergeSchema``, ``partitionBy``, ``storage.<key>``, ...); only with a
            path.
        skip_committed_batches: Drop a batch that is older than the last committed one. By default such a batch raises
            an error, since it means that the checkpoint folder was rewound or replaced.

    Returns:
        A function of (DataFrame, batch id). It raises txlog's typed errors. Spark ends the query with their text, from
        which `error_from` rebuilds them.

    Raises:
        InvalidInputError: ``mode``, ``keys`` or ``options`` came with a function, or contradict each other.
    """

    def write_batch(batch: DataFrame, batch_id: int) -> None:
        micro_batch = MicroBatch(batch, batch_id, app_id, skip_committed_batches, writes_once=not callable(write))
        with crossing():
            if callable(write):
                write(batch, micro_batch)
            elif mode == "upsert":
                micro_batch.upsert(batch, write, names, storage_options=stored)
            else:
                micro_batch.write(batch, write, mode=mode, options=options)

    if callable(write) and (mode != "append" or keys is not None or options):
        raise InvalidInputError(
            "mode, keys and options are for a path; inside a function, pass them to to.write(...) or to.upsert(...)"
        )
    names, stored = _upsert_arguments(mode, keys, options or {})
    return write_batch


def _upsert_arguments(
    mode: str, keys: str | Iterable[str] | None, options: Mapping[str, str]
) -> tuple[Iterable[str], dict[str, str]]:
    """The key columns and the store's options of an upsert; both are empty for other modes."""
    if (mode == "upsert") != (keys is not None):
        raise InvalidInputError('mode="upsert" and keys=[...] go together: pass both, or neither')
    if keys is None:
        return (), {}
    given = {key.lower(): value for key, value in options.items()}
    stored = {key.removeprefix("storage."): value for key, value in given.items() if key.startswith("storage.")}
    if len(stored) < len(given):
        raise InvalidInputError(
            'mode="upsert" accepts only the options storage.<key>; for others, pass a function that calls'
            " to.upsert(...). For a table with a merge engine, append with the option upsertKeys"
        )
    return names_in("keys", keys), stored


@explains_calls
class MicroBatch:
    """One micro-batch of a running query, passed to the function given to `foreach_batch`.

    Attributes:
        batch_id: Spark's id of the batch.
    """

    def __init__(
        self,
        batch: DataFrame,
        batch_id: int,
        app_id: str | None,
        skip_committed_batches: bool,
        *,
        writes_once: bool = False,
    ) -> None:
        self.batch_id = batch_id
        self._writes_once = writes_once
        self._batch = batch
        self._query_id = _query_id_of(batch)  # read now: only the thread that Spark calls can see it
        self._fingerprint = None
        if self._query_id is not None:
            self._fingerprint = batch_fingerprint(self._query_id, _offsets_of(batch, self._query_id, batch_id))
        self._app_id = app_id
        self._skip_committed_batches = skip_committed_batches
        self._used: set[tuple[str, str]] = set()
        self._is_computed = False
        self._lock = new_lock()

    @property
    def app_id(self) -> str:
        """The default app_id of its writes: the name given to `foreach_batch`, or the query's id.

        Raises:
            InvalidInputError: There is no name, and Spark does not provide the query's id (Spark Connect).
        """
        found = self._app_id if self._app_id is not None else self._query_id
        if found is None:
            raise InvalidInputError("Spark did not provide the query's id: pass app_id to foreach_batch")
        return found

    def write(
        self,
        data: DataFrame,
        path: str | os.PathLike[str],
        *,
        app_id: str | None = None,
        mode: str = "append",
        options: Mapping[str, str] | None = None,
    ) -> WriteResult | None:
        """Write ``data``, which was made from the batch, as one version, exactly once.

        Args:
            data: The rows.
            path: The table.
            app_id: The name of this write. If a batch writes to one table twice, each write needs its own ``app_id``,
                the same in every run; otherwise the table could not tell them apart.
            mode: "append" or "overwrite".
            options: The options of ``df.write``.

        Returns:
            The result, even of a dropped replay; None if there was nothing to write.

        Raises:
            InvalidInputError: The mode or an option is invalid, or the ``app_id`` was used twice in this batch.
            TxlogError: What ``df.write`` raises, with its own type.
        """
        name = app_id if app_id is not None else self.app_id
        if mode not in ("append", "overwrite"):
            raise invalid("mode", mode, one_of(["append", "overwrite"]))
        given = {
            **write_options_of_session(self._batch.sparkSession, os.fspath(path)),
            "timeZone": zone_of_session(self._batch.sparkSession),
            **(options or {}),
            "path": os.fspath(path),
            "txnAppId": name,
            "txnVersion": str(self.batch_id),
        }
        if self._fingerprint is not None:
            given["txnFingerprint"] = self._fingerprint
        if mode == "append":
            given["skipEmpty"] = "true"

        def save(open_table: OpenTable) -> WriteResult | None:
            state = open_table.state_if_exists()
            before = state.version if state else -1
            _save(data, mode, given)
            return _find_result(open_table, before, name, self.batch_id)

        return self._once(parse_write_options(given), app_id, save)

    def upsert(
        self,
        data: DataFrame,
        path: str | os.PathLike[str],
        keys: str | Iterable[str],
        *,
        app_id: str | None = None,
        when_matched: WhenMatched = "update",
        when_not_matched: WhenNotMatched = "insert",
        update_columns: Sequence[str] | None = None,
        missing_columns: MissingColumns = "error",
        on_duplicate: OnDuplicate = "error",
        sequence_by: str | None = None,
        schema_mode: SchemaMode | None = None,
        row_mode: RowMode | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> WriteResult | None:
        """Upsert ``data``, which was made from the batch, into an existing table, exactly once.

        Args:
            data: The rows.
            path: The table.
            keys: The columns that identify a row.
            app_id: The name of this write, as for `write`.
            when_matched: As for `txlog.spark.upsert`, like all following arguments.
            when_not_matched: See there.
            update_columns: See there.
            missing_columns: See there.
            on_duplicate: See there.
            sequence_by: See there.
            schema_mode: See there.
            row_mode: See there.
            storage_options: See there.

        Returns:
            The result, even of a dropped replay; None if ``data`` has no row.

        Raises:
            InvalidInputError: An argument is invalid, or the ``app_id`` was used twice in this batch.
            TxlogError: What `txlog.spark.upsert` raises.
        """
        how = when_matched, when_not_matched, update_columns, on_duplicate, sequence_by, missing_columns
        spec = upsert_spec(keys, *how, schema_mode)
        return self._change(data, path, spec, schema_mode, app_id, row_mode, storage_options)

    def merge(
        self,
        data: DataFrame,
        path: str | os.PathLike[str],
        on: AnyCondition | Iterable[str],
        *,
        parameters: Parameters | None = None,
        app_id: str | None = None,
        source_alias: str = "source",
        target_alias: str = "target",
        schema_mode: SchemaMode | None = None,
        row_mode: RowMode | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> MergeBuilder[WriteResult | None]:
        """Begin a merge of ``data`` into an existing table. Add clauses, then call ``execute()`` once.

        Args:
            data: The source rows.
            path: The table.
            on: The condition or the key columns, as for `txlog.spark.merge`.
            parameters: As for `txlog.spark.merge`.
            app_id: The name of this write, as for `write`.
            source_alias: The name of ``data`` in conditions.
            target_alias: The name of the table in conditions.
            schema_mode: As for `txlog.spark.merge`.
            row_mode: As for `txlog.spark.merge`.
            storage_options: As for `txlog.spark.merge`.

        Returns:
            A builder. Its ``execute()`` returns what `upsert` returns.

        Raises:
            TxlogError: ``execute()`` raises what `upsert` and `txlog.spark.merge` raise.
        """
        return merge_builder(
            os.fspath(path),
            on,
            source_alias,
            target_alias,
            lambda spec: self._change(data, path, spec, schema_mode, app_id, row_mode, storage_options),
            schema_mode,
            parameters,
        )

    def sql(
        self,
        text: str,
        catalog: Catalog | str | os.PathLike[str] | None = None,
        parameters: Mapping[str, object] | None = None,
        *,
        app_id: str | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> Any:
        """Run one INSERT, UPDATE, DELETE or MERGE in the batch's session, exactly once.

        It reads the batch by a view: ``batch.createOrReplaceTempView("updates")``. Run everything else with
        ``txlog.spark.sql(batch.sparkSession, ...)``: it happens again if the batch does.

        Args:
            text: The statement, as for `txlog.spark.sql`, like all that follow.
            catalog: See there.
            parameters: See there.
            app_id: The name of this statement, the same in every run; by default the stream's, and "-sql". A second
                statement of a batch needs one of its own.
            storage_options: See there.

        Returns:
            What `txlog.spark.sql` returns, even of a dropped replay.

        Raises:
            InvalidInputError: The text is not one such statement, or the ``app_id`` was used twice in this batch.
            TxlogError: What `txlog.spark.sql` raises.
        """
        from txlog.spark.statements import sql
        from txlog.statements.rows import Delete, Insert, Merge, Update
        from txlog.statements.script import read_statements

        statements = read_statements(text, parameters)
        if len(statements) != 1 or not isinstance(statements[0], (Insert, Update, Delete, Merge)):
            raise InvalidInputError(
                "to.sql runs one INSERT, UPDATE, DELETE or MERGE, each exactly once: call it for each, and run what"
                " else there is with txlog.spark.sql(batch.sparkSession, ...)"
            )
        spark, name = self._batch.sparkSession, f"{self.app_id}-sql" if app_id is None else app_id
        with self._lock:
            if any(used == name for _, used in self._used):
                raise _used_twice(self.batch_id, "", name, None)
            self._used.add((_ANY_TABLE, name))
            try:
                with _naming(spark, name, self.batch_id):
                    result = sql(spark, text, catalog, parameters, storage_options=storage_options)
            except BaseException:
                self._used.remove((_ANY_TABLE, name))  # the caller may try again
                raise
        if isinstance(result, WriteResult) and result.outcome == "already_committed":
            self._compute_without_writing()
        return result

    def _change(
        self,
        data: DataFrame,
        path: str | os.PathLike[str],
        spec: UpsertSpec | MergeSpec,
        schema_mode: SchemaMode | None,
        app_id: str | None,
        row_mode: RowMode | None,
        storage_options: Mapping[str, str] | None,
    ) -> WriteResult | None:
        name = app_id if app_id is not None else self.app_id
        spark = self._batch.sparkSession
        stored = {f"storage.{key}": value for key, value in (storage_options or {}).items()}
        of_session = write_options_of_session(spark, os.fspath(path))
        at = {"path": os.fspath(path), "timeZone": zone_of_session(spark)}
        options = parse_write_options({**of_session, **stored, **at})
        settings = SessionSettings.of(spark)
        row_options = in_session(
            settings, "merge", RowOptions(row_mode, CommitOptions(name, self.batch_id, self._fingerprint))
        )
        what = evolving(spec, settings, schema_mode)

        def change(open_table: OpenTable) -> WriteResult | None:
            return run_change(Site(spark, open_table, settings), what, row_options, data, skips_empty=True)

        return self._once(options, app_id, change)

    def _once(
        self, options: SparkWriteOptions, app_id: str | None, change: Callable[[OpenTable], WriteResult | None]
    ) -> WriteResult | None:
        """Call ``change`` with the table, unless the table already contains the batch; return either result.

        ``app_id`` None: the write has the stream's name, before which it may have had the query's id.
        """
        name = app_id if app_id is not None else self.app_id
        with self._claimed(options, name) as open_table:
            batch = open_table, self.batch_id, self._fingerprint, name
            known = answer_known(*batch, skip_committed=self._skip_committed_batches)
            if known is None and app_id is None:  # other writes of a function have names of their own
                known = answer_renamed(*batch, None if self._writes_once else self._query_id)
            if known is None:
                return change(open_table)
        self._compute_without_writing()
        return known

    def _compute_without_writing(self) -> None:
        """Compute a replayed batch once. Spark fails a batch if nothing computed the state of its query."""
        with self._lock:
            is_first, self._is_computed = not self._is_computed, True
        if is_first:
            self._batch.write.format("noop").mode("overwrite").save()

    @contextlib.contextmanager
    def _claimed(self, options: SparkWriteOptions, app_id: str) -> Iterator[OpenTable]:
        """Open the table, and reserve ``app_id`` in it for the rest of the batch.

        The reservation is by the table's id, since several paths can lead to one table, and by its location, since
        there may be no table yet.
        """
        open_table = process_table(options)
        state = open_table.log.known_state
        claims = {(open_table.uri, app_id)} | ({(state.metadata.id, app_id)} if state else set())
        with self._lock:
            if (claims | {(_ANY_TABLE, app_id)}) & self._used:
                raise _used_twice(self.batch_id, " to this table", app_id, open_table.uri)
            self._used |= claims
        try:
            yield open_table
        except BaseException:
            with self._lock:
                self._used -= claims  # the caller may try again
            raise
        created = open_table.state_if_exists()
        if created is not None:
            with self._lock:
                self._used.add((created.metadata.id, app_id))


def _used_twice(batch_id: int, where: str, app_id: str, table: str | None) -> InvalidInputError:
    return InvalidInputError(
        f"micro-batch {batch_id} writes{where} a second time as {app_id!r}: the second write would be dropped as a"
        " replay of the first. Give each write of a batch its own app_id, such as"
        f" {app_id + '-totals'!r}, and use the same one in every run",
        table=table,
    )


@contextlib.contextmanager
def _naming(spark: Any, app_id: str, version: int) -> Iterator[None]:
    """Name the transaction of what the session changes meanwhile."""
    named = {APP_ID: app_id, VERSION: str(version)}
    before = {name: spark.conf.get(name, None) for name in named}
    try:
        for name, value in named.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            spark.conf.unset(name) if value is None else spark.conf.set(name, value)


def _query_id_of(batch: DataFrame) -> str | None:
    """The query's id, from the checkpoint folder: streams with one name in different folders have different ids."""
    try:
        found: str | None = batch.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
    except Exception:  # Connect has no SparkContext and raises its own error types
        return None
    return found


def _offsets_of(batch: DataFrame, query_id: str, batch_id: int) -> bytes | None:
    """What Spark recorded in the checkpoint folder before it ran the batch; None where there is no JVM to ask."""
    spark: Any = batch.sparkSession
    try:
        jvm, state = spark._jvm, spark._jsparkSession.sharedState()
        running = state.activeStreamingQueries().get(jvm.java.util.UUID.fromString(query_id))
        path = jvm.org.apache.hadoop.fs.Path(running.resolvedCheckpointRoot(), f"offsets/{batch_id}")
    except Exception:  # Connect has no JVM and raises its own error types
        return None
    stream = path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()).open(path)
    try:
        return bytes(jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
    finally:
        stream.close()


def _save(data: DataFrame, mode: str, options: Mapping[str, str]) -> None:
    """Write ``data``, even in a thread that the user's function started, where Spark does not find the source."""
    save = data.write.format("txlog").mode(mode).options(**options).save
    with typed_errors():
        try:
            save()
        except Exception as error:
            typed = error_from(error)
            if typed is None or typed.message != NOT_FOUND_ADVICE:
                raise
            from txlog.spark.registration import register

            register(data.sparkSession)
            save()


def _find_result(open_table: OpenTable, before: int, app_id: str, batch_id: int) -> WriteResult | None:
    """Read the result of the write from its commit. The processes that wrote the rows return nothing."""
    state = open_table.state_if_exists()
    for version in range(state.version if state else -1, before, -1):
        commit = open_table.log.read_commit(version, files=False)
        if any(
            isinstance(action, SetTransaction) and (action.app_id, action.version) == (app_id, batch_id)
            for action in commit.actions
        ):
            return _result_of(commit, app_id, batch_id)
    return None


def _result_of(commit: Commit, app_id: str, batch_id: int) -> WriteResult:
    info = commit.commit_info.fields if commit.commit_info else {}
    operation, own = info.get("operationMetrics") or {}, info.get("txlog") or {}
    lost_to = own.get("lostTo") or {}
    metrics = WriteMetrics(
        rows=int(operation.get("numOutputRows", 0)),
        files=int(operation.get("numFiles", 0)),
        bytes=int(operation.get("numOutputBytes", 0)),
        files_removed=int(operation.get("numRemovedFiles", 0)),
        lost_races=sum(lost_to.values()),
        waited_s=own.get("waitedMs", 0) / 1000,
        lost_to=lost_to,
    )
    txn_id, member = commit.txn_id or "", member_of_checkpoint(commit, app_id, batch_id)
    if member is not None:  # one of several appends of the commit
        txn_id = member.txn_id
        metrics = replace(metrics, rows=member.rows or 0, files=member.files, bytes=member.bytes)
    return WriteResult(commit.version, "committed", own.get("attempts", 1), txn_id, metrics)
