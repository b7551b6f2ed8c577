"""`delete`, `update`, `upsert` and `merge`: row changes in Spark tasks, called from the program's own process.

In: a session, a table's location, and for `upsert` and `merge` a DataFrame. Out: a ``WriteResult``, or one of txlog's
typed errors. The methods of ``txlog.Table`` with the same names have the same arguments and the same guarantees under
concurrent writes. ``spark/micro_batch`` also uses `run_change`, `upsert_spec` and `merge_builder`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from txlog.core import ambient
from txlog.core.catalogs import place_at
from txlog.core.changes.plan import (
    MergeBuilder,
    RowOptions,
    SourceSummary,
    added_columns,
    check_delete,
    columns_of_merge,
    made_again,
    run_in_parts,
    table_of_tasks,
)
from txlog.core.changes.tasks import MergeSpec, RowSpec, SourceSpec, UpsertSpec, adapted
from txlog.core.changes.tasks.operations import (
    DeleteSpec,
    MergeOptions,
    MissingColumns,
    OnDuplicate,
    UpdateSpec,
    UpsertOptions,
    WhenMatched,
    WhenNotMatched,
)
from txlog.core.definition import Definition
from txlog.core.format.schema import to_arrow
from txlog.core.predicates import AnyCondition, Operand, Parameters, with_parameters
from txlog.core.predicates.terms.predicate import Predicate
from txlog.core.progress import OnProgress
from txlog.core.store import RetryPolicy
from txlog.core.util import described, explains_options, logger, names_in
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.state import TableState
from txlog.core.wording import argument, setting
from txlog.core.writing.commit_options import CommitOptions, OnConflict
from txlog.core.writing.write_intent import RowMode, SchemaMode
from txlog.errors import InvalidInputError, StorageError, TxlogError
from txlog.hooks import CommitHooks
from txlog.result import WriteResult
from txlog.spark.hadoop import check_session, of_session
from txlog.spark.rows.source import lost_rows, prepare_source, reads_table
from txlog.spark.rows.spread_source import SparkSource
from txlog.spark.schema import frame_schema
from txlog.spark.settings import PLAIN_SESSION, SessionSettings, zone_of_session
from txlog.spark.spark_workers import SparkWorkers
from txlog.spark.text_settings import require_own_reading

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from typing_extensions import Unpack

Done = TypeVar("Done")

_COPIES_MAX = 3
"""A source whose rows were lost is computed again, and kept on one executor more."""


class Site(msgspec.Struct, frozen=True):
    """The session that does the work, the table, and what the session says about changes of it."""

    spark: SparkSession
    open_table: OpenTable
    settings: SessionSettings = PLAIN_SESSION


class ChangeOptions(TypedDict, total=False):
    """The keyword arguments of all four functions. All except the last four are the same as for `Table.delete`.

    ``dry_run``: Spark's tasks count what would change, and nothing is written.
    ``reads_table``: the source was made from the table's rows at ``read_version``, whichever, so that a commit since
    then that changes any row is a conflict, and not only one that touches what the call changes.
    ``on_progress`` is called after each Spark job. ``storage_options`` work as in `Table.open`, and override the
    session's ``fs.s3a.*`` settings, which apply to S3. ``retry`` limits how long a commit keeps trying. ``hooks`` are
    notified of the commit, lost races and conflicts.
    """

    row_mode: RowMode | None
    parquet: Mapping[str, object] | None
    on_conflict: OnConflict
    read_version: int | None
    app_id: str | None
    checkpoint_id: int | None
    fingerprint: str | None
    user_metadata: str | None
    dry_run: bool
    on_progress: OnProgress | None
    reads_table: bool
    storage_options: Mapping[str, str] | None
    retry: RetryPolicy | None
    hooks: CommitHooks | None


@explains_options(ChangeOptions)
def delete(
    spark: SparkSession,
    uri: str | os.PathLike[str],
    where: AnyCondition | None = None,
    *,
    parameters: Parameters | None = None,
    all: bool = False,
    **options: Unpack[ChangeOptions],
) -> WriteResult:
    """Delete the rows for which ``where`` is true, or every row with ``all=True``. Spark tasks search the files.

    Args:
        spark: The session whose executors do the work (classic or Connect); they need txlog installed.
        uri: The table's location, reachable from every executor.
        where: A condition in SQL, or one built from `txlog.col`; see docs/expressions.md.
        parameters: Values for ``:name`` in the condition, as for `Table.delete`.
        all: Delete every row; then without ``where``.
        options: See `ChangeOptions`.

    Returns:
        The result, as `Table.delete` returns it; it also describes concurrent changes.

    Raises:
        TxlogError: What `Table.delete` raises.
    """
    (where,) = with_parameters(parameters, where)
    site, row_options = _begun(spark, uri, options)
    check_delete(where, all)
    spec = DeleteSpec(where)
    return _in_session(site, "delete", row_options, lambda site, options: run_change(site, spec, options))


@explains_options(ChangeOptions)
def update(
    spark: SparkSession,
    uri: str | os.PathLike[str],
    values: Mapping[str, object],
    where: AnyCondition | None = None,
    *,
    parameters: Parameters | None = None,
    **options: Unpack[ChangeOptions],
) -> WriteResult:
    """Set columns of the rows for which ``where`` is true. Spark tasks search and rewrite the files.

    Args:
        spark: As for `txlog.spark.delete`.
        uri: The table's location, reachable from every executor.
        values: Column -> new value, as for `Table.update`: `txlog.expr` is SQL, and a plain string is refused.
        where: A condition as for `txlog.spark.delete`; None means all rows.
        parameters: Values for ``:name`` in the condition and in `txlog.expr`.
        options: See `ChangeOptions`.

    Returns:
        The result, as `Table.update` returns it.

    Raises:
        TxlogError: What `Table.update` raises.
    """
    values, where = with_parameters(parameters, values, where)
    site, row_options = _begun(spark, uri, options)
    spec = UpdateSpec(values, where)
    return _in_session(site, "update", row_options, lambda site, options: run_change(site, spec, options))


@explains_options(ChangeOptions)
def upsert(
    spark: SparkSession,
    uri: str | os.PathLike[str],
    data: DataFrame,
    keys: str | Iterable[str],
    *,
    when_matched: WhenMatched = "update",
    when_not_matched: WhenNotMatched = "insert",
    update_columns: Sequence[str] | None = None,
    missing_columns: MissingColumns = "error",
    on_duplicate: OnDuplicate = "error",
    sequence_by: str | None = None,
    schema_mode: SchemaMode | None = None,
    **options: Unpack[ChangeOptions],
) -> WriteResult:
    """Update the rows of the table whose keys are in ``data``, and insert the other rows, as one new version.

    ``data`` is computed once, before any file of the table is read, and kept in Spark. Tasks find and write all rows.
    The driver receives counts and positions, and the rows themselves only if the source is at most 4 MB.

    Args:
        spark: As for `txlog.spark.delete`.
        uri: The table's location, reachable from every executor.
        data: A DataFrame with every column of the table, or as ``missing_columns`` allows. If it reads the table
            itself, ``read_version`` is required.
        keys: The columns that identify a row, as for `Table.upsert`.
        when_matched: As for `Table.upsert`.
        when_not_matched: As for `Table.upsert`.
        update_columns: As for `Table.upsert`.
        missing_columns: As for `Table.upsert`.
        on_duplicate: What happens if two rows of ``data`` have the same key: "error", or "last", which keeps the last
            row. A DataFrame has no order, so "last" requires ``sequence_by``.
        sequence_by: The column whose greatest value makes a row the last of its key.
        schema_mode: "strict", or "merge" to add columns of ``data`` that the table lacks. By default as the session
            says by ``spark.databricks.delta.schema.autoMerge.enabled``.
        options: See `ChangeOptions`.

    Returns:
        The result, as `Table.upsert` returns it.

    Raises:
        TxlogError: What `Table.upsert` raises.
    """
    site, row_options = _begun(spark, uri, options)
    how = when_matched, when_not_matched, update_columns, on_duplicate, sequence_by, missing_columns
    spec = upsert_spec(keys, *how, schema_mode)

    def change(site: Site, options: RowOptions) -> WriteResult | None:
        return run_change(site, evolving(spec, site.settings, schema_mode), options, data)

    return _in_session(site, "merge", row_options, change)


@explains_options(ChangeOptions)
def merge(
    spark: SparkSession,
    uri: str | os.PathLike[str],
    data: DataFrame,
    on: AnyCondition | Iterable[str],
    *,
    parameters: Parameters | None = None,
    source_alias: str = "source",
    target_alias: str = "target",
    schema_mode: SchemaMode | None = None,
    **options: Unpack[ChangeOptions],
) -> MergeBuilder[WriteResult]:
    """Begin a merge of a DataFrame into the table. Add clauses, then call ``execute()`` (see `MergeBuilder`).

        (
            txlog.spark.merge(spark, uri, changes, "target.id = source.id")
            .when_matched_delete("source.op = 'd'")
            .when_matched_update_all()
            .when_not_matched_insert_all()
            .execute()
        )

    Args:
        spark: As for `txlog.spark.delete`.
        uri: The table's location, reachable from every executor.
        data: A DataFrame, which is computed once. If it reads the table itself, ``read_version`` is required.
        on: The condition or the key columns, as for `Table.merge`.
        parameters: Values for ``:name`` in ``on`` and in the SQL of all clauses.
        source_alias: The name of ``data`` in conditions.
        target_alias: The name of the table in conditions.
        schema_mode: "strict", or "merge" to add columns of ``data`` that the table lacks, as for `Table.merge`. By
            default as the session says by ``spark.databricks.delta.schema.autoMerge.enabled``.
        options: See `ChangeOptions`.

    Returns:
        A builder. Its ``execute()`` returns the result, as `Table.merge` does.

    Raises:
        TxlogError: ``execute()`` raises what `Table.merge` raises.
    """
    return begin_merge(spark, uri, data, on, (source_alias, target_alias), schema_mode, options, parameters=parameters)


def begin_merge(
    spark: SparkSession,
    uri: str | os.PathLike[str],
    source: DataFrame,
    on: AnyCondition | Iterable[str],
    aliases: tuple[str, str],
    schema_mode: SchemaMode | None,
    options: ChangeOptions,
    *,
    is_pinned: bool = False,
    parameters: Parameters | None = None,
) -> MergeBuilder[WriteResult]:
    """`merge`. ``is_pinned``: what the source reads of the table itself are versions that the caller named."""
    site, row_options = _begun(spark, uri, options)
    frame = _frame(source)

    def run(spec: MergeSpec) -> WriteResult:
        def change(site: Site, options: RowOptions) -> WriteResult | None:
            return run_change(site, evolving(spec, site.settings, schema_mode), options, frame, is_pinned=is_pinned)

        return _in_session(site, "merge", row_options, change)

    return merge_builder(site.open_table.uri, on, *aliases, run, schema_mode, parameters)


# --- arguments ------------------------------------------------------------------------------------------------------


def upsert_spec(
    keys: str | Iterable[str],
    when_matched: WhenMatched,
    when_not_matched: WhenNotMatched,
    update_columns: Sequence[str] | None,
    on_duplicate: OnDuplicate,
    sequence_by: str | None,
    missing_columns: MissingColumns = "error",
    schema_mode: SchemaMode | None = None,
) -> UpsertSpec:
    """The arguments of `upsert` as a spec.

    Raises:
        InvalidInputError: An argument is invalid.
    """
    updated = tuple(update_columns) if isinstance(update_columns, list) else update_columns
    given = names_in("keys", keys), when_matched, when_not_matched, updated, on_duplicate, sequence_by
    how = UpsertOptions(*given, schema_mode or "strict", missing_columns=missing_columns)
    if on_duplicate == "first":
        raise InvalidInputError(
            f"{setting('on_duplicate', 'first')} does not work here, since the rows of a DataFrame have no order: keep"
            f" the row with the greatest value of a column by {setting('on_duplicate', 'last')} and"
            f" {setting('sequence_by', '<column>')}"
        )
    if on_duplicate == "last" and sequence_by is None:
        raise InvalidInputError(
            f"{setting('on_duplicate', 'last')} needs {setting('sequence_by', '<column>')}: the rows of a DataFrame"
            " have no order, so only a column can define which is the last"
        )
    return UpsertSpec(how)


def merge_builder(
    uri: str,
    on: AnyCondition | Iterable[str],
    source_alias: str,
    target_alias: str,
    run: Callable[[MergeSpec], Done],
    schema_mode: SchemaMode | None = None,
    parameters: Parameters | None = None,
) -> MergeBuilder[Done]:
    """A builder whose ``execute()`` calls ``run``."""
    joined = on if isinstance(on, str | Operand | Predicate) else tuple(on)
    how = MergeOptions(joined, source_alias, target_alias, schema_mode or "strict", parameters)
    return MergeBuilder(uri, how, lambda clauses: run(MergeSpec(how, clauses, ambient.now())))


def _begun(spark: SparkSession, uri: str | os.PathLike[str], options: ChangeOptions) -> tuple[Site, RowOptions]:
    given: dict[str, Any] = dict(options)
    site = [given.pop(name, None) for name in ("storage_options", "retry", "hooks")]
    row_mode, on_progress, parquet = (given.pop(name, None) for name in ("row_mode", "on_progress", "parquet"))
    dry_run = given.pop("dry_run", False)
    row_options = RowOptions(row_mode, CommitOptions(**given), on_progress, parquet, dry_run)
    return _open(spark, uri, *site), row_options


def _open(
    spark: SparkSession,
    uri: str | os.PathLike[str],
    storage_options: Mapping[str, str] | None,
    retry: RetryPolicy | None,
    hooks: CommitHooks | None,
) -> Site:
    check_session(spark)
    path = os.fspath(uri) if isinstance(uri, str | os.PathLike) else uri
    place = place_at(path, of_session(spark, path) | dict(storage_options or {}))
    given = place.storage_options, place.credential_provider
    opened = OpenTable(place.store(), retry, hooks, 0, *given, time_zone=zone_of_session(spark))
    return Site(spark, opened)


def _frame(rows: object) -> Any:
    if not hasattr(rows, "mapInArrow"):
        raise InvalidInputError(
            f"the source must be a Spark DataFrame, not {described(rows)}: Arrow and pandas data go to"
            " txlog.Table.open(uri).upsert(...) and .merge(...), or to spark.createDataFrame(data) first"
        )
    return rows


# --- the session ----------------------------------------------------------------------------------------------------


def in_session(settings: SessionSettings, what: str, options: RowOptions) -> RowOptions:
    """The options of a "delete", "update" or "merge" with what the session says where they do not.

    Raises:
        UnsupportedFeatureError: The session sets what such a change cannot do.
    """
    settings.require(what)
    commit = options.commit
    note = commit.user_metadata if commit.user_metadata is not None else settings.note
    mode = options.mode if options.mode is not None else settings.row_mode(what)
    return replace(options, mode=mode, commit=replace(commit, user_metadata=note))


def evolving(
    spec: UpsertSpec | MergeSpec, settings: SessionSettings, schema_mode: SchemaMode | None
) -> UpsertSpec | MergeSpec:
    """The change, which adds columns to the table if the session says so and the call says nothing."""
    if schema_mode is not None or not settings.merges_schema:
        return spec
    if isinstance(spec, UpsertSpec):
        return replace(spec, upsert=replace(spec.upsert, schema_mode="merge"))
    return replace(spec, merge=replace(spec.merge, schema_mode="merge"))


def _in_session(
    site: Site, what: str, options: RowOptions, change: Callable[[Site, RowOptions], WriteResult | None]
) -> WriteResult:
    """The result of a change with the session's settings, of which it may use up the version of its transaction."""
    settings = SessionSettings.of(site.spark)
    options = in_session(settings, what, options)
    named = settings.transaction() if options.commit.app_id is None else None
    if named is not None:
        options = replace(options, commit=replace(options.commit, app_id=named[0], checkpoint_id=named[1]))
    result = change(replace(site, settings=settings), options)
    assert result is not None
    if named is not None and not options.dry_run:
        settings.use_up_version(site.spark)
    return result


# --- execution ------------------------------------------------------------------------------------------------------


def run_change(
    site: Site,
    spec: RowSpec | SourceSpec,
    options: RowOptions,
    frame: DataFrame | None = None,
    *,
    skips_empty: bool = False,
    is_pinned: bool = False,
) -> WriteResult | None:
    """Execute a change and commit it.

    Args:
        site: The session and the table.
        spec: The change.
        options: How to execute and commit it.
        frame: The source of an upsert or a merge.
        skips_empty: Whether to make no version if the source has no row and nothing else would change.
        is_pinned: Whether the source may read the table itself, because it reads versions that the caller named.

    Returns:
        The result; None if ``skips_empty`` applied.

    Raises:
        TxlogError: What the method of `Table` raises.
    """
    require_own_reading(site.spark, *_conditions_of(spec))
    for copies in range(1, _COPIES_MAX + 1):
        try:
            how = partial(_run_change, site, spec, options, frame, copies, skips_empty=skips_empty, is_pinned=is_pinned)
            return made_again(how, _schema_mode(spec), options.commit)
        except Exception as error:
            if not lost_rows(error):
                raise
            uri = site.open_table.uri
            if copies == _COPIES_MAX:
                raise StorageError(
                    f"Spark lost executors that held rows of the source of {spec.what}, {copies} times: nothing was"
                    " committed. Run it again when the executors stay, or write the source to a table first, and read"
                    " that",
                    table=uri,
                ) from error
            logger.warning("%s: an executor with rows of the source is gone: %s begins again", uri, spec.what)
    raise AssertionError


def _run_change(
    site: Site,
    spec: RowSpec | SourceSpec,
    options: RowOptions,
    frame: DataFrame | None,
    copies: int,
    *,
    skips_empty: bool,
    is_pinned: bool,
) -> WriteResult | None:
    """`run_change`, once: its source is on as many executors as there are ``copies``."""
    open_table = site.open_table

    def source_for(state: TableState) -> tuple[SourceSummary, SparkSource] | None:
        if not is_pinned:
            _refuse_to_lose_updates(_frame(frame), options, state, open_table.uri)
        with TxlogError.located(open_table.uri, state.version):
            fitted = adapted(spec.for_columns(frame.schema.names, state), state)  # type: ignore[union-attr]
        target = table_of_tasks(open_table, state, dry_run=options.dry_run)
        rows, extent = prepare_source(frame, fitted, target, open_table.uri, copies=copies)
        if skips_empty and not extent.num_given and not extent.spec.reads_every_file:
            return None
        return extent, SparkSource(site.spark, rows, extent)

    def definition_for(state: TableState) -> Definition | None:
        site.settings.require_compaction(state.metadata.configuration)
        return None if frame is None else _columns_of(spec, to_arrow(frame_schema(_frame(frame).schema)), state)

    workers = SparkWorkers(site.spark)
    return run_in_parts(open_table, spec, options, workers, None if frame is None else source_for, definition_for)


def _conditions_of(spec: RowSpec | SourceSpec) -> list[Any]:
    """The conditions and the new values of a change, as the call gave them."""
    match spec:
        case DeleteSpec(where=where):
            return [where]
        case UpdateSpec(values=values, where=where):
            return [values, where]
        case MergeSpec(merge=merge, clauses=clauses):
            return [merge.on, *(given for each in clauses for given in (each.predicate, each.values))]
    return []


def _schema_mode(spec: RowSpec | SourceSpec) -> SchemaMode | None:
    if isinstance(spec, UpsertSpec):
        return spec.upsert.schema_mode
    return spec.merge.schema_mode if isinstance(spec, MergeSpec) else None


def _columns_of(spec: RowSpec | SourceSpec, source: pa.Schema, state: TableState) -> Definition | None:
    """The table with the source's new columns, if the change adds them."""
    if isinstance(spec, UpsertSpec):
        return added_columns(state, source, spec.upsert)
    return columns_of_merge(state, source, spec.merge, spec.clauses) if isinstance(spec, MergeSpec) else None


def _refuse_to_lose_updates(frame: DataFrame, options: RowOptions, state: TableState, uri: str) -> None:
    """Refuse a source computed from the table, unless the call says from which version."""
    if options.commit.is_reexecuted("rerun") and reads_table(frame, uri):
        raise InvalidInputError(
            "the source reads the table itself, so it could silently overwrite changes that others make meanwhile:"
            f" read one version of the table (such as version={state.version}), and pass it as"
            f" {argument('read_version')}",
            table=uri,
            version=state.version,
        )
