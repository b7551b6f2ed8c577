"""The driver's two steps of a Spark write: plan before the tasks run, and commit after them.

In: the options and schema of the write; later the committables of its tasks. Out: a ``WriteJob``; later one
version of the table. Kept apart from ``source``: tasks must not load code that only the driver needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from txlog.changelog.change_order import feed_columns, is_feed, orders_feed
from txlog.changelog.merge_engines.engine import MergeEngine
from txlog.changelog.merged_rows import merge_engine_of
from txlog.changelog.spec import ChangelogSpec
from txlog.core.catalogs import named_table, resolved
from txlog.core.changes.tasks.operations import UpsertOptions
from txlog.core.definition import create_table
from txlog.core.format.properties import DEFAULT_MERGE_ENGINE, MERGE_ENGINE, PREFIX, merge_options
from txlog.core.format.schema import Struct, fold_name, to_arrow
from txlog.core.operations import GlobalCommitter, WriteOptions, check_counted_columns, plan_write
from txlog.core.row_rules import generated_of, key_columns, without_generated
from txlog.core.store import probe_store
from txlog.core.util import logger
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.state import TableState
from txlog.core.wording import spelled
from txlog.core.writing import WriteJob, completer_for, nullable
from txlog.core.writing.committable import Committable
from txlog.core.writing.write_intent import USUAL
from txlog.errors import (
    InvalidInputError,
    SchemaMismatchError,
    TxlogError,
)
from txlog.result import WriteResult
from txlog.spark.open_tables import process_table
from txlog.spark.options import SparkWriteOptions, StreamOptions
from txlog.spark.schema import as_nullable, frame_schema
from txlog.spark.settings import AUTO_MERGE
from txlog.spark.wording import in_stream

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_streams: set[str] = set()
"""The streams of which this process has committed a batch."""

_OTHER_INPUT = (
    "its checkpointLocation was rewound or replaced. Nothing was written. For a new source, give the stream a new"
    " txnAppId; to drop the batches up to the last committed one, set skipCommittedBatches=true"
)


def plan(options: SparkWriteOptions, spark_schema: StructType, *, overwrite: bool) -> tuple[WriteJob, bool]:
    """Plan a write before any task runs.

    Args:
        options: The options of the write.
        spark_schema: The schema of the DataFrame.
        overwrite: Whether the write replaces rows.

    Returns:
        The planned write, and whether the table already contains it (a rerun of ``txnAppId`` and ``txnVersion``).

    Raises:
        SchemaMismatchError: The DataFrame does not fit the table.
        InvalidInputError: An option does not fit the table or another option.
        UnsupportedFeatureError: A column or the table needs a feature that txlog cannot write.
    """
    open_table = process_table(options)
    with TxlogError.located(open_table.uri):
        columns = frame_schema(spark_schema)
        if not columns.fields:
            raise SchemaMismatchError(
                "the DataFrame has no columns, and Spark passes none of its rows to a data source: select at least one"
                " column"
            )
    state = open_table.log.known_state
    if state is None or options.overwrite_schema:
        made_nullable = as_nullable(columns)
        assert isinstance(made_nullable, Struct)
        columns = made_nullable
    if state is None and not open_table.store.log.capabilities.refuses_taken_names:
        probe_store(open_table.store).require_safe()
    if options.changelog is None:
        try:
            job = _planned(open_table, state, columns, options, overwrite)
        except SchemaMismatchError as error:
            if state is not None and any(state.schema.find(name) is None for name in columns.names):
                error.template += f". The plan of a write does not see {AUTO_MERGE} of the session"
            raise
    else:
        job = _planned_changes(open_table, state, columns, options, options.changelog, overwrite=overwrite)
    return job, GlobalCommitter(open_table).replay_of(job, quietly=True, refresh=False) is not None


def staged_if_new(options: SparkWriteOptions) -> SparkWriteOptions:
    """The options with the place of a new table, if they name one that its catalog does not have.

    Tasks and the commit run in other processes, and must all find the place that this one was given.

    Raises:
        TxlogError: What the catalog answers.
    """
    named = named_table(options.path, options.storage_options, None)
    if named is None or resolved(*named) is not None:
        return options
    place = named[0].create(named[1], lambda place: place)
    return options if place.address is None else replace(options, path=place.address[0])


def commit(
    options: SparkWriteOptions,
    job: WriteJob,
    committables: Sequence[Committable],
    *,
    lives_on: bool = False,
    may_be_second: bool = False,
) -> WriteResult | None:
    """Commit the files of every task as one version.

    Args:
        options: The options of the write.
        job: The planned write.
        committables: What the tasks wrote.
        lives_on: Whether Spark keeps this process for later batches. If not, Spark may end it immediately, so this call
            also waits for a due Delta checkpoint.
        may_be_second: Whether the engine commits in a task, and may run that again after it committed.

    Returns:
        The result, or None if no task had a row and ``skipEmpty`` is set.

    Raises:
        TxlogError: What `GlobalCommitter.commit` raises.
    """
    if options.skip_empty and _adds_nothing(job, committables):
        return None
    # Another process may have planned the job on a newer version than this one knew before.
    open_table = process_table(options)
    if may_be_second and (done := GlobalCommitter(open_table).found(job)) is not None:
        return done
    return _commit(open_table, job, committables, lives_on=lives_on)


def _commit(
    open_table: OpenTable, job: WriteJob, committables: Sequence[Committable], *, lives_on: bool
) -> WriteResult:
    committer = GlobalCommitter(open_table)
    try:
        result = committer.commit(job, committables)
        committer.remove_keys(committables)
        return result
    finally:
        if not lives_on:
            open_table.post_commit.drain()


def commit_batch(options: StreamOptions, job: WriteJob, committables: Sequence[Committable]) -> WriteResult | None:
    """Commit one micro-batch of a stream as one version.

    Args:
        options: The stream's options.
        job: The planned write, with the stream's ``app_id`` and the batch id as ``checkpoint_id``.
        committables: What the tasks wrote.

    Returns:
        The result, even of a dropped replay; None if the batch has no row to append.

    Raises:
        TxlogError: What `answer_known` and `commit` raise.
    """
    assert job.commit.transaction is not None
    app_id, batch_id = job.commit.transaction
    open_table = process_table(options.write)
    batch = open_table, batch_id, job.commit.fingerprint
    known = answer_known(*batch, app_id, skip_committed=options.skip_committed_batches)
    if known is None and app_id not in _streams:  # a name that the stream has since this start
        known = answer_renamed(*batch, app_id)
    if known is not None:
        return known
    if _adds_nothing(job, committables):
        return None
    # After the first batch, Spark reuses this worker while the stream runs, so a batch need not wait for upkeep.
    lives_on = app_id in _streams
    _streams.add(app_id)
    return _commit(open_table, job, committables, lives_on=lives_on)


def answer_known(
    open_table: OpenTable, batch_id: int, fingerprint: str | None, app_id: str, *, skip_committed: bool
) -> WriteResult | None:
    """Decide whether a micro-batch is a replay of one that the table already contains.

    If the batch is the stream's last one in the table and has the same ``fingerprint``, Spark replays it after a crash.
    If it is older or comes from other input, the stream's checkpoint folder was rewound or replaced under the same
    stream name, and the batch holds other rows under an old number. If the log no longer has the last batch's commit,
    nothing tells the two cases apart, and the user has to.

    Args:
        open_table: The table, whose newest version is known.
        batch_id: The batch's number.
        fingerprint: Identifies the batch's input; None if it is not known.
        app_id: The stream's name.
        skip_committed: Whether to drop every batch that is not newer than the last one, whatever its input is.

    Returns:
        The result for a dropped batch, or None if the batch is new.

    Raises:
        InvalidInputError: The batch holds other rows under an old number, or may hold them, and ``skip_committed`` is
            false.
    """
    state = open_table.state_if_exists(refresh=False)
    last = state.transaction_version(app_id) if state else None
    if state is None or last is None or batch_id > last:
        return None
    if batch_id == last:
        try:
            found = open_table.replay_of(state, app_id, batch_id, None if skip_committed else fingerprint)
        except InvalidInputError as error:
            error.template = spelled(error.template, in_stream)
            if not error.is_unproven:  # if it is, the message says itself what to do
                error.template += f": {_OTHER_INPUT}"
            raise
        return WriteResult(found.version if found else None, "already_committed", 0, "")
    if not skip_committed:
        raise InvalidInputError(
            f"micro-batch {batch_id} of stream {app_id!r} comes after its batch {last} was committed: {_OTHER_INPUT}",
            table=open_table.uri,
            version=state.version,
        )
    logger.warning("%s: batch %d of stream %r was dropped (skipCommittedBatches)", open_table.uri, batch_id, app_id)
    return WriteResult(None, "already_committed", 0, "")


def answer_renamed(
    open_table: OpenTable, batch_id: int, fingerprint: str | None, app_id: str, former: str | None = None
) -> WriteResult | None:
    """The result for a batch that the table contains under another name than the stream's: the stream got this one
    after it wrote the batch. None for any other batch.

    Any other name counts only for a stream that writes each batch to a table once; ``former`` is the only one that
    counts for others.
    """
    state = open_table.state_if_exists(refresh=False)
    if state is None or fingerprint is None:
        return None
    found = open_table.replay_of_renamed(state, app_id, batch_id, fingerprint, former)
    return WriteResult(found.version, "already_committed", 0, "") if found else None


def _adds_nothing(job: WriteJob, committables: Sequence[Committable]) -> bool:
    is_empty = all(committable.is_empty for committable in committables)
    return is_empty and not job.intent.is_overwrite and job.new_metadata is None


def confirm_replay(options: SparkWriteOptions, job: WriteJob) -> WriteResult:
    """Finish a write whose tasks wrote nothing because the table contained it at planning time.

    Raises:
        InvalidInputError: The table no longer contains it.
    """
    result = GlobalCommitter(process_table(options)).replay_of(job)
    if result is None:
        app_id, version = job.commit.transaction or (None, None)
        raise InvalidInputError(
            f"the table contained txnVersion {version} of txnAppId {app_id!r} when the write was planned,"
            " but no longer does: the table was restored or recreated in between. Nothing was written; run the"
            " write again",
            table=job.plan.table,
        )
    return result


def _planned(
    open_table: OpenTable, state: TableState | None, columns: Struct, options: SparkWriteOptions, overwrite: bool
) -> WriteJob:
    if not overwrite:
        for name, value in (
            ("replaceWhere", options.replace_where),
            ("overwriteSchema", options.overwrite_schema or None),
            ("rowMode", options.row_mode),
            ("onConflict", options.commit.on_conflict),
            ("readVersion", None if options.commit.reads_table else options.commit.read_version),
            ("partitionOverwriteMode", "dynamic" if options.partition_overwrite_mode == "dynamic" else None),
        ):
            if value is not None:
                raise InvalidInputError(f"option {name} is for overwrites: use .mode('overwrite'), or leave it out")
    elif options.skip_empty:
        raise InvalidInputError(
            "option skipEmpty is for appends: an overwrite replaces the table's rows even if it brings none. Leave it"
            " out"
        )
    partition_by = options.partition_by
    if overwrite and options.overwrite_schema:
        partition_by = partition_by or ()  # as in Spark's Delta, a write without partitionBy removes the partitioning
    requested = WriteOptions(
        mode="overwrite" if overwrite else "append",
        where=options.replace_where,
        schema_mode="overwrite" if options.overwrite_schema else "merge" if options.merge_schema else "strict",
        commit=options.commit,
        create=True,
        must_create=options.must_create,
        partition_by=partition_by,
        cluster_by=options.cluster_by,
        properties=options.properties,
        target_file_size_bytes=options.target_file_size_bytes,
        max_records_per_file=options.max_records_per_file,
        parquet=options.parquet,
        row_mode=options.row_mode,
    )
    return plan_write(open_table, to_arrow(columns), requested, state)


def _planned_changes(
    open_table: OpenTable,
    state: TableState | None,
    columns: Struct,
    options: SparkWriteOptions,
    changelog: ChangelogSpec,
    *,
    overwrite: bool,
) -> WriteJob:
    """Plan a write that changes rows. The row-kind and sequence columns need not be table columns."""
    if overwrite:
        raise InvalidInputError(
            "option upsertKeys changes single rows, but an overwrite (or a stream's complete mode) replaces all rows:"
            " use .mode('append'), which upserts if the option is set, or leave the option out",
            table=open_table.uri,
        )
    if options.must_create:
        raise InvalidInputError(
            "option mustCreate makes a table, and upsertKeys changes rows of one: use one of the two"
        )
    with TxlogError.located(open_table.uri):
        own = _columns_of_changes(columns, changelog)
    if state is None:
        state = _created(open_table, columns, changelog, options)
    with TxlogError.located(open_table.uri, state.version):
        check_counted_columns(state)
        engine, asked_engine = _merge_engine(state, changelog, options.merge_engine)
        _require_columns(state, columns, changelog, engine)
    beside = {fold_name(name) for name in own if state.schema.find(name) is None}
    kept = Struct(tuple(field for field in columns.fields if fold_name(field.name) not in beside))
    generated = generated_of(state.schema, open_table.uri, state.partition_columns, zone=state.time_zone)
    completer_for(nullable(state.schema), to_arrow(kept), generated, open_table.uri, state.version)
    requested = WriteOptions(
        mode="upsert",
        keys=changelog.keys,
        commit=options.commit,
        partition_by=options.partition_by,
        cluster_by=options.cluster_by,
        properties=options.properties,
        target_file_size_bytes=options.target_file_size_bytes,
        max_records_per_file=options.max_records_per_file,
        parquet=options.parquet,
    )
    job = plan_write(open_table, to_arrow(state.schema), requested, state)
    return replace(
        job,
        plan=replace(job.plan, configuration={**job.plan.configuration, **asked_engine}),
        mismatch=options.mismatch or USUAL,
    )


def _columns_of_changes(columns: Struct, changelog: ChangelogSpec) -> list[str]:
    """The columns that say what each row is and in which order rows come. Raises ``InvalidInputError`` if one is
    missing."""
    own = [name for name in (changelog.row_kind, changelog.sequence_by) if name is not None]
    for name in own:
        if columns.find(name) is None:
            raise InvalidInputError(f"the DataFrame has no column {name}; it has {', '.join(columns.names)}")
    of_feed = orders_feed(changelog.row_kind, changelog.sequence_by, columns.names)
    if is_feed(changelog.row_kind) and of_feed is None and changelog.sequence_by is None:
        raise InvalidInputError(
            "the DataFrame is a change data feed without _commit_version, and the rows of a DataFrame have no"
            " order: keep it, which is not stored, or name another one that orders the changes with sequenceBy"
        )
    return [*own, *feed_columns(changelog.row_kind)]


def _created(
    open_table: OpenTable, columns: Struct, changelog: ChangelogSpec, options: SparkWriteOptions
) -> TableState:
    """The new table of a write that changes rows: version 0, without rows, with the DataFrame's columns but for the
    kind of each row. Another writer may create it at the same time."""
    with TxlogError.located(open_table.uri):
        key_columns(changelog.keys, columns)
        told = {fold_name(name) for name in (changelog.row_kind, *feed_columns(changelog.row_kind)) if name is not None}
        schema = Struct(tuple(field for field in columns.fields if fold_name(field.name) not in told))
        create_table(
            open_table,
            schema,
            options.partition_by,
            options.properties,
            cluster_by=options.cluster_by,
            exist_ok=True,
            user_metadata=options.commit.user_metadata,
        )
    return open_table.writable_state()


def _merge_engine(
    state: TableState, changelog: ChangelogSpec, given: Mapping[str, str]
) -> tuple[MergeEngine | None, dict[str, str]]:
    """How this write merges rows with the same key, and the defining properties; none if the table's own define it.

    Raises:
        InvalidInputError: The properties differ from the table's, or do not fit its columns.
    """
    is_stored = bool(merge_options(state.metadata.configuration))
    if not is_stored and given in ({}, {MERGE_ENGINE: DEFAULT_MERGE_ENGINE}):
        return None, {}  # tasks keep the last change of a key by themselves
    requested = UpsertOptions(changelog.keys, sequence_by=changelog.sequence_by, merge_engine=given)
    engine = merge_engine_of(state, requested)
    if is_stored:
        return engine, {}
    ordered = {} if changelog.sequence_by is None else {f"{PREFIX}sequence.field": changelog.sequence_by}
    return engine, {**given, **ordered}


def _require_columns(state: TableState, columns: Struct, changelog: ChangelogSpec, engine: MergeEngine | None) -> None:
    """Refuse a DataFrame whose rows would replace values with nulls. If rows have kinds, a task may find that all of
    them are deletes."""
    absent = [name for name in without_generated(state.schema).names if columns.find(name) is None]
    if absent and changelog.row_kind is None and (engine is None or not engine.leaves_absent_values):
        what = "a new row replaces the whole old one, and" if engine is None else f"merge-engine {engine.name}"
        partial = "; the option mergeEngine=partial-update leaves those that rows lack as they are"
        raise SchemaMismatchError(
            f"the DataFrame lacks {', '.join(absent)}: {what} would put nulls there. Add the columns"
            + (partial if engine is None else "")
        )
