"""Planning one write on the driver: from the data's schema and the caller's `WriteOptions` to a `WriteJob`.

In: an open table, an Arrow schema, `WriteOptions`. Out: a job. It checks the schema by the strict rules before any row
is read, and writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, cast

import pyarrow as pa
from msgspec.structs import replace

from txlog.core import ambient
from txlog.core.format.actions import Metadata, Protocol
from txlog.core.format.features import stores_partition_columns
from txlog.core.format.properties import means_same, stored, validate
from txlog.core.format.schema import Struct, fold_name, from_arrow
from txlog.core.operations._write_options import WriteOptions, check_options
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.definition_changes import (
    is_same_definition,
    lacked_columns,
    only_adds_harmless_features,
)
from txlog.core.versions.decisions.state import TableState
from txlog.core.wording import argument, call
from txlog.core.writing import DataStream, WriteJob, WritePlan, completer_for, fitting_stream
from txlog.core.writing.write_intent import IntentKind, WriteIntent
from txlog.errors import (
    InvalidInputError,
    SchemaMismatchError,
    TableExistsError,
    TableNotFoundError,
    TxlogError,
)

if TYPE_CHECKING:
    from txlog.core.definition import Definition


def plan_write(
    open_table: OpenTable, data_schema: pa.Schema, options: WriteOptions, known: TableState | None = None
) -> WriteJob:
    """Decide what a write of ``data_schema`` will do to the table, at its newest version or at the ``known`` one, or at
    the version that was read if its rows come from the table.

    Raises ``SchemaMismatchError`` listing every column that differs, ``InvalidInputError`` for an option and for an
    overwrite of an append-only table, ``TableNotFoundError``, ``UnsupportedFeatureError``.
    """
    check_options(options)
    state = known or open_table.state_if_exists()
    if state is None:
        if not options.create or options.commit.reads_table:
            raise TableNotFoundError("there is no Delta table here; create it first", table=open_table.uri)
        from txlog.core.definition import Definition, new_table
        from txlog.core.format.column_mapping import without_metadata
        from txlog.core.format.identity import IDENTITY_PREFIX

        with TxlogError.located(open_table.uri):
            # Rows bring their values: their column does not count, even if it did where they come from.
            columns = without_metadata(from_arrow(data_schema), IDENTITY_PREFIX)
            properties = {**open_table.store.new_properties, **options.properties}
            defined = new_table(columns, options.partition_by or (), properties, options.cluster_by)
            return _job(open_table, options, None, Definition(*defined))
    if options.must_create:
        raise TableExistsError("there is already a table here", table=open_table.uri, version=state.version)
    if options.commit.reads_table and options.commit.read_version != state.version:
        assert options.commit.read_version is not None
        state = open_table.log.state_at(options.commit.read_version)
    open_table.check_writable(state)
    with TxlogError.located(open_table.uri, state.version):
        if options.mode != "append":
            _check_removable(state, options)
        _check_partitioning(open_table, state, options)
        if options.properties:
            _check_same_properties(state, options.properties)
        if options.mode == "upsert":
            check_counted_columns(state)
        if options.mode != "append":
            from txlog.core.changes.plan import uses_vectors

            uses_vectors(state, options.row_mode)
        definition = _new_definition(state, data_schema, options)
        plan = _plan_for_data(open_table, options, state, data_schema) if definition is None else None
        job = _job(open_table, options, state, definition, plan)
    if definition is not None:
        completer_for(job.plan.schema, data_schema, job.plan.computed, open_table.uri, state.version)
    return job


def plan_for_rows(
    open_table: OpenTable, stream: DataStream, options: WriteOptions, known: TableState | None = None
) -> tuple[WriteJob, DataStream]:
    """`plan_write` for these rows, and the rows. Where columns do not fit, the first batch is requested: one without a
    value counts as a column of nulls, whatever its type is."""
    try:
        return plan_write(open_table, stream.schema, options, known), stream
    except SchemaMismatchError:
        state = known or open_table.log.known_state
        if state is None or options.schema_mode == "overwrite":
            raise
        fitting = fitting_stream(state.schema, stream)
        if fitting.schema.equals(stream.schema):
            raise
        return plan_write(open_table, fitting.schema, options, known), fitting


def _new_definition(state: TableState, data_schema: pa.Schema, options: WriteOptions) -> Definition | None:
    """The table's new definition; None if the data does not change it."""
    if options.schema_mode == "strict":
        return None
    from txlog.core.definition import with_columns, with_schema

    if options.schema_mode == "merge":
        return with_columns(state, _new_columns(state, data_schema))
    return with_schema(state, data_schema, options.partition_by, options.column_rules)


def _plan_for_data(
    open_table: OpenTable, options: WriteOptions, state: TableState, data_schema: pa.Schema
) -> WritePlan:
    """The plan for data that fits the table, reused for data with the same schema until the definition changes.

    Otherwise a writer of small batches would spend more time on planning than on its rows.
    """
    last: list[tuple[pa.Schema, WritePlan]] = state.derived(
        (
            "plan",
            open_table.uri,
            options.target_file_size_bytes,
            options.max_records_per_file,
            tuple(sorted(options.parquet.items())),
        ),
        list,
    )
    if last and last[0][0].equals(data_schema, check_metadata=True):
        return _numbered(open_table, state, last[0][1].at(state.version))
    plan = _plan(open_table, options, state, None)
    completer_for(plan.schema, data_schema, plan.computed, open_table.uri, state.version)
    if plan.computed is None or not plan.computed.is_of_now:
        last[:] = [(data_schema, plan)]  # without numbers, which are the handle's
    return _numbered(open_table, state, plan)


def _plan(
    open_table: OpenTable, options: WriteOptions, state: TableState | None, definition: Definition | None
) -> WritePlan:
    if state is not None and definition is None:
        plan = WritePlan.of_table(
            state,
            open_table.uri,
            target_file_size_bytes=options.target_file_size_bytes,
            max_records_per_file=options.max_records_per_file,
            parquet=options.parquet,
        )
    else:
        metadata, protocol = _defined(state, definition)
        plan = WritePlan.of(
            metadata,
            protocol,
            table=open_table.uri,
            read_version=state.version if state else -1,
            target_file_size_bytes=options.target_file_size_bytes,
            max_records_per_file=options.max_records_per_file,
            parquet=options.parquet,
            time_zone=open_table.time_zone,
        )
    if plan.computed is None:
        return plan
    return replace(plan, computed=plan.computed.at(ambient.now())) if plan.computed.is_of_now else plan


def _numbered(open_table: OpenTable, state: TableState | None, plan: WritePlan) -> WritePlan:
    """The plan with the numbers for new rows, if the table has identity columns."""
    if state is None or plan.computed is None or not plan.computed.identity:
        return plan
    from txlog.core.versions import numbers_of

    numbers = numbers_of(open_table, state)
    return plan if numbers is None else replace(plan, computed=plan.computed.numbered_by(numbers))


def _job(
    open_table: OpenTable,
    options: WriteOptions,
    state: TableState | None,
    definition: Definition | None,
    plan: WritePlan | None = None,
) -> WriteJob:
    plan = plan or _numbered(open_table, state, _plan(open_table, options, state, definition))
    rows_of_version, unseen_versions = _unseen(open_table, state, options)
    keys: tuple[str, ...] = ()
    if options.keys:
        from txlog.core.row_rules import key_columns

        keys = tuple(key.name for key in key_columns(options.keys, plan.schema))
    intent = WriteIntent(cast(IntentKind, options.mode), keys=keys)
    if options.where is not None:
        from txlog.core.predicates import bind_predicate

        plan = replace(plan, rows_where=bind_predicate(options.where, plan.schema, zone=plan.time_zone))
        where = options.where if isinstance(options.where, str) else str(plan.rows_where)
        intent = WriteIntent("overwrite_where", where)
    return WriteJob(
        job_id=ambient.uuid4(),
        intent=intent,
        plan=plan,
        read_version=plan.read_version,
        base_metadata=state.metadata if state else None,
        base_protocol=state.protocol if state else None,
        new_metadata=definition.metadata if definition else None,
        new_protocol=definition.protocol if definition else None,
        new_domains=definition.domains if definition else (),
        commit=options.commit,
        schema_mode=options.schema_mode,
        must_create=options.must_create,
        rows_of_version=rows_of_version,
        unseen_versions=unseen_versions,
        row_mode=options.row_mode,
        notes=definition.notes if definition else (),
    )


def _unseen(
    open_table: OpenTable, state: TableState | None, options: WriteOptions
) -> tuple[int | None, tuple[int, ...]]:
    """The version that an overwrite's rows come from, and other writers' versions since then."""
    if state is None or options.mode == "append" or options.is_reexecuted or options.commit.reads_table:
        return None, ()
    read_version = options.commit.read_version
    if read_version is not None:
        if read_version > state.version:
            raise InvalidInputError(
                f"{argument('read_version')} is {read_version}, the newest version is {state.version}"
            )
        return read_version, tuple(range(read_version + 1, state.version + 1))
    if options.where is None and options.mode != "overwrite_partitions":
        return None, ()
    last_read = open_table.last_read
    version = last_read.version_of(state.metadata.id)
    if version is None:
        return None, ()
    return version, tuple(each for each in range(version + 1, state.version + 1) if not last_read.is_own(each))


def _defined(state: TableState | None, definition: Definition | None) -> tuple[Metadata, Protocol]:
    """The definition that the write commits, or the table's."""
    if definition is None:
        assert state is not None
        return state.metadata, state.protocol
    protocol = definition.protocol or (state.protocol if state else None)
    assert protocol is not None
    return definition.metadata, protocol


def _new_columns(state: TableState, data_schema: pa.Schema) -> Struct:
    """The data's columns that may add something: new ones, nested ones, whose members may be new, and wider ones.

    The strict rules check how the other columns fit; they accept more than equal types.
    """
    from txlog.core.definition import is_wider

    return from_arrow(
        pa.schema(
            [
                field
                for field in data_schema
                if pa.types.is_nested(field.type) or state.schema.find(field.name) is None or is_wider(state, field)
            ]
        )
    )


def _check_partitioning(open_table: OpenTable, state: TableState, options: WriteOptions) -> None:
    if options.mode == "overwrite_partitions" and not state.partition_columns:
        raise InvalidInputError(
            "the table is not partitioned, so no partitions of it can be overwritten: table.overwrite(data) replaces"
            " every row, table.overwrite(data, where=...) the rows that match a predicate",
            table=open_table.uri,
            version=state.version,
        )
    if options.cluster_by:
        _check_same_clustering(state, options.cluster_by)
    if options.partition_by is None or options.schema_mode == "overwrite":
        return
    asked = [fold_name(name) for name in options.partition_by]
    if asked != [fold_name(name) for name in state.partition_columns]:
        from txlog.core.format.partition_values import partitioning_text

        raise InvalidInputError(
            f"the table is {partitioning_text(state.partition_columns)}, and {argument('partition_by')} asks for one"
            f" that is {partitioning_text(options.partition_by)}: leave {argument('partition_by')} out, a table keeps"
            " its partitioning",
            table=open_table.uri,
            version=state.version,
        )


def check_counted_columns(state: TableState) -> None:
    """A changelog replaces whole rows, whose numbers would change."""
    from txlog.core.format.identity import identity_columns

    for column in identity_columns(state.schema):
        if not column.takes_values:
            raise InvalidInputError(
                f"column {column.name} is {column.kind}, and a sink of changes, or a stream with upsertKeys, replaces"
                " whole rows, so that they would get new values there: use Table.upsert, or txlog.spark.upsert in a"
                " function for foreachBatch, where rows keep them"
            )


def _check_same_properties(state: TableState, properties: Mapping[str, str]) -> None:
    have = state.metadata.configuration
    asked = stored(validate(properties))
    differing = {key: value for key, value in asked.items() if not means_same(key, have.get(key), value)}
    if differing:
        raise InvalidInputError(
            f"a write does not change the properties of existing tables ({', '.join(sorted(differing))}): set them with"
            f" {call('set_properties', differing)}, or leave them out"
        )


def _check_same_clustering(state: TableState, cluster_by: str | Iterable[str]) -> None:
    from txlog.core.format.clustering import clustering_columns, clustering_text, named_columns

    found = clustering_columns(state.domains, state.schema)
    asked = named_columns("cluster_by", cluster_by, state.schema)
    if [*map(_folded, asked)] != [*map(_folded, found)]:
        raise InvalidInputError(
            f"the table is {clustering_text(found)}, and {argument('cluster_by')} asks for one that is"
            f" {clustering_text(asked)}: leave {argument('cluster_by')} out, or change it with"
            f" {call('cluster_by', ['.'.join(path) for path in asked])}"
        )


def _folded(path: tuple[str, ...]) -> list[str]:
    return [fold_name(name) for name in path]


def _check_removable(state: TableState, options: WriteOptions) -> None:
    """Refuse to overwrite an append-only table, even an empty one, as Spark does.

    An overwrite that landed before the table became append-only is a replay and gets its answer.
    """
    app_id, checkpoint_id = options.commit.transaction or ("", 0)
    last = state.transaction_version(app_id)
    if last is None or checkpoint_id > last:
        check_removable(state)


def check_removable(state: TableState) -> None:
    """Raises ``InvalidInputError`` for an append-only table."""
    if state.properties.append_only:
        raise InvalidInputError(
            "the table is append-only (delta.appendOnly): its rows cannot be overwritten. Append to it, or unset the"
            f" property first, with {call('unset_properties', ['delta.appendOnly'])}"
        )


def with_existing_table(job: WriteJob, state: TableState) -> WriteJob | None:
    """A job that was to create the table, changed to write to the table that a concurrent writer just created.

    None if the two tables differ, so files written for one do not fit the other.
    """
    from txlog.core.format.clustering import clustering_columns

    ours = job.new_metadata
    assert ours is not None
    theirs = state.metadata
    same = state.schema == job.plan.schema and theirs.partition_columns == ours.partition_columns
    mine = clustering_columns({domain.domain: domain for domain in job.new_domains}, state.schema) if same else ()
    same = same and clustering_columns(state.domains, state.schema) == mine
    same = same and stores_partition_columns(state.protocol, theirs) == job.plan.stores_partition_columns
    if not same or any(theirs.configuration.get(key) != value for key, value in ours.configuration.items()):
        return None
    return replace(
        job,
        read_version=state.version,
        base_metadata=theirs,
        base_protocol=state.protocol,
        new_metadata=None,
        new_protocol=None,
        new_domains=(),
    )


def on_newer_definition(job: WriteJob, state: TableState) -> WriteJob | None:
    """An append on a definition that other writers changed since it was planned; None if its files do not fit there.

    Columns that both add alike are there once, and other new columns of both stay.
    """
    base, protocol = job.base_metadata, job.base_protocol
    if not job.intent.is_append or job.commit.reads_table or base is None or protocol is None:
        return None
    if job.schema_mode != "merge" and not is_same_definition(base, state.metadata):
        return None
    newest = job.new_protocol or protocol
    if not (only_adds_harmless_features(protocol, state.protocol) or newest == state.protocol):
        return None
    lacked = lacked_columns(base, state.metadata, job.plan.schema)
    if lacked is None:
        return None
    definition = None
    if lacked.fields:
        from txlog.core.definition import with_columns

        definition = with_columns(state, lacked)
    return replace(
        job,
        read_version=state.version,
        base_metadata=state.metadata,
        base_protocol=state.protocol,
        new_metadata=definition.metadata if definition else None,
        new_protocol=definition.protocol if definition else None,
        new_domains=definition.domains if definition else (),
        notes=definition.notes if definition else (),
    )
