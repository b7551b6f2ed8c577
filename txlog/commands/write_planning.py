"""Planning one write on the driver: from the data's schema and the caller's wishes to a `WriteJob`.

In: an engine, an Arrow schema, `WriteOptions`. Out: a job whose schema was judged by the strict rules before any
row was read. Nothing is written here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, cast, get_args

import pyarrow as pa

from txlog.commands.table_definition import Definition, new_table, with_columns, with_schema
from txlog.commit.open_table import OpenTable
from txlog.errors import InvalidInputError, TableExistsError, TableNotFoundError, TxlogError
from txlog.expressions.predicates import Predicate, bind_predicate
from txlog.log.proposal import check_text
from txlog.log.state import TableState
from txlog.protocol.actions import Metadata
from txlog.protocol.schema import Struct, fold_name, from_arrow
from txlog.util import ambient
from txlog.util.arguments import described, whole_number
from txlog.writer.conform import conformer_for
from txlog.writer.write_intent import IntentKind, WriteIntent
from txlog.writer.write_job import WriteJob
from txlog.writer.write_plan import WritePlan

__all__ = ["SchemaMode", "WriteOptions", "plan_write"]

SchemaMode: TypeAlias = Literal["strict", "merge", "overwrite"]
"""Whether data must fit the table's columns, may bring new ones with it, or defines all of them anew: that is for an
overwrite of the whole table."""

_MODES = ("append", "overwrite", "overwrite_partitions")
_SCHEMA_MODES = get_args(SchemaMode)


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What the caller of a write may ask for.

    ``mode`` is "append", "overwrite" (every row, or with ``where`` those that satisfy it) or "overwrite_partitions"
    (the partitions that the data has rows of).
    ``app_id`` with ``checkpoint_id`` makes the write exactly once; ``fingerprint`` tells two works under one id
    apart. ``partition_by`` and ``properties`` define a table that does not exist yet, where ``create`` allows it;
    on an existing table ``partition_by`` must agree with it, and ``must_create`` refuses it. Sizes in bytes.
    """

    mode: str = "append"
    where: str | Predicate | None = None
    schema_mode: str = "strict"
    app_id: str | None = None
    checkpoint_id: int | None = None
    fingerprint: str | None = None
    user_metadata: str | None = None
    isolation: str | None = None
    create: bool = False
    must_create: bool = False
    partition_by: Iterable[str] | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    target_file_size_bytes: int | None = None
    max_records_per_file: int | None = None
    compression: str | None = None

    def __post_init__(self) -> None:
        """A number may be of any library; what is written to the log, and compared, is Python's own."""
        for field_name, name, at_least in _WHOLE_NUMBERS:
            if (value := getattr(self, field_name)) is not None:
                object.__setattr__(self, field_name, whole_number(name, value, at_least=at_least))


_WHOLE_NUMBERS = (
    ("checkpoint_id", "checkpoint_id", 0),
    ("target_file_size_bytes", "target_file_size", 1),
    ("max_records_per_file", "max_records_per_file", 0),
)


def plan_write(open_table: OpenTable, data_schema: pa.Schema, options: WriteOptions) -> WriteJob:
    """Decide what a write of ``data_schema`` will do to the table.

    Raises ``SchemaMismatchError`` listing every column that differs, ``InvalidInputError`` for an option and for an
    overwrite of an append-only table, ``TableNotFoundError``, ``UnsupportedFeatureError``.
    """
    _check(options)
    state = open_table.state_if_exists()
    if state is None:
        if not options.create:
            raise TableNotFoundError("there is no Delta table here; create it first", table=open_table.uri)
        with TxlogError.located(open_table.uri):
            metadata, protocol = new_table(data_schema, options.partition_by or (), options.properties)
            return _job(open_table, options, None, Definition(metadata, protocol))
    if options.must_create:
        raise TableExistsError("there is a table here already", table=open_table.uri, version=state.version)
    open_table.check_writable(state)
    with TxlogError.located(open_table.uri, state.version):
        _check_removable(state, options)
        _check_partitioning(open_table, state, options)
        definition = _new_definition(state, data_schema, options)
        plan = _plan_for_data(open_table, options, state, data_schema) if definition is None else None
        job = _job(open_table, options, state, definition, plan)
    if definition is not None:
        conformer_for(job.plan.schema, data_schema, open_table.uri, state.version)
    return job


def _new_definition(state: TableState, data_schema: pa.Schema, options: WriteOptions) -> Definition | None:
    """The table's definition where the data changes it; None where it stays."""
    if options.schema_mode == "merge":
        return with_columns(state, _new_columns(state, data_schema))
    if options.schema_mode == "overwrite":
        return with_schema(state, data_schema, options.partition_by)
    return None


def _plan_for_data(
    open_table: OpenTable, options: WriteOptions, state: TableState, data_schema: pa.Schema
) -> WritePlan:
    """The plan for data that the table as it is can take; made once for like data until the table's definition changes.

    A writer of small batches would else spend more on planning than on its rows.
    """
    last: list[tuple[pa.Schema, WritePlan]] = state.derived(
        ("plan", open_table.uri, options.target_file_size_bytes, options.max_records_per_file, options.compression),
        list,
    )
    if last and last[0][0].equals(data_schema, check_metadata=True):
        return last[0][1].at(state.version)
    plan = _plan(open_table, options, state, None)
    conformer_for(plan.schema, data_schema, open_table.uri, state.version)
    last[:] = [(data_schema, plan)]
    return plan


def _plan(
    open_table: OpenTable, options: WriteOptions, state: TableState | None, definition: Definition | None
) -> WritePlan:
    return WritePlan.of(
        _metadata(state, definition),
        table=open_table.uri,
        read_version=state.version if state else -1,
        schema=state.schema if state and definition is None else None,
        target_file_size_bytes=options.target_file_size_bytes,
        max_records_per_file=options.max_records_per_file,
        compression=options.compression,
    )


def _job(
    open_table: OpenTable,
    options: WriteOptions,
    state: TableState | None,
    definition: Definition | None,
    plan: WritePlan | None = None,
) -> WriteJob:
    plan = plan or _plan(open_table, options, state, definition)
    intent = WriteIntent(cast(IntentKind, options.mode))
    if options.where is not None:
        plan = replace(plan, rows_where=bind_predicate(options.where, state.schema if state else plan.schema))
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
        app_id=options.app_id,
        checkpoint_id=options.checkpoint_id,
        fingerprint=options.fingerprint,
        user_metadata=options.user_metadata,
        isolation=options.isolation,
        schema_mode=options.schema_mode,
        must_create=options.must_create,
    )


def _metadata(state: TableState | None, definition: Definition | None) -> Metadata:
    if definition is not None:
        return definition.metadata
    assert state is not None
    return state.metadata


def _new_columns(state: TableState, data_schema: pa.Schema) -> Struct:
    """The data's columns that may add something: new ones, and nested ones, whose members may be new.

    How the others fit is the strict rules' business, which accept more than equal types.
    """
    return from_arrow(
        pa.schema([f for f in data_schema if pa.types.is_nested(f.type) or state.schema.find(f.name) is None])
    )


def _check(options: WriteOptions) -> None:
    check_mode(options.mode)
    if options.where is not None and options.mode != "overwrite":
        raise InvalidInputError(
            f'where says which rows an overwrite replaces: use mode="overwrite", not {options.mode}'
        )
    if not isinstance(options.schema_mode, str) or options.schema_mode not in _SCHEMA_MODES:
        raise InvalidInputError(
            f"schema_mode must be one of {', '.join(_SCHEMA_MODES)}, is {described(options.schema_mode)}"
        )
    if options.schema_mode == "overwrite" and (options.mode != "overwrite" or options.where is not None):
        raise InvalidInputError(
            'schema_mode="overwrite" replaces the columns of the whole table, and so needs an overwrite of every row,'
            ' without where; "merge" adds columns'
        )
    check_identity(options.app_id, options.checkpoint_id)
    check_text("user_metadata", options.user_metadata)
    check_text("fingerprint", options.fingerprint)
    if options.fingerprint is not None and options.app_id is None:
        raise InvalidInputError("a fingerprint belongs to an app_id and a checkpoint_id; give both")
    if not isinstance(options.properties, Mapping):
        raise InvalidInputError(f"properties are a mapping of texts, not {described(options.properties)}")


def check_mode(mode: str, modes: tuple[str, ...] = _MODES) -> None:
    """Raises ``InvalidInputError`` for what is not one of the ``modes`` of a write."""
    if not isinstance(mode, str) or mode not in modes:
        raise InvalidInputError(f"mode must be one of {', '.join(modes)}, is {described(mode)}")


def check_identity(app_id: str | None, checkpoint_id: int | None) -> None:
    """An application and its checkpoint come together or not at all. Raises ``InvalidInputError``."""
    if (app_id is None) != (checkpoint_id is None):
        raise InvalidInputError("app_id and checkpoint_id make a write exactly once together: give both, or neither")
    if app_id is not None:
        check_app_id(app_id)
    if checkpoint_id is not None:
        whole_number("checkpoint_id", checkpoint_id)


def check_app_id(app_id: str) -> None:
    """Raises ``InvalidInputError`` for what names no application."""
    if type(app_id) is not str or not app_id:
        raise InvalidInputError(f"app_id must be a non-empty string, is {described(app_id)}")
    check_text("app_id", app_id)


def _check_partitioning(open_table: OpenTable, state: TableState, options: WriteOptions) -> None:
    if options.mode == "overwrite_partitions" and not state.partition_columns:
        raise InvalidInputError(
            "the table is not partitioned, so no partitions of it can be overwritten: table.overwrite(data) replaces"
            " every row, table.overwrite(data, where=...) those of a predicate",
            table=open_table.uri,
            version=state.version,
        )
    if options.partition_by is None or options.schema_mode == "overwrite":
        return
    asked = [fold_name(name) for name in options.partition_by]
    if asked != [fold_name(name) for name in state.partition_columns]:
        raise InvalidInputError(
            f"the table is partitioned by {', '.join(state.partition_columns) or 'nothing'},"
            f" not by {', '.join(options.partition_by) or 'nothing'}: leave that out, the table keeps its own",
            table=open_table.uri,
            version=state.version,
        )


def _check_removable(state: TableState, options: WriteOptions) -> None:
    """An append-only table is not overwritten, one without a row neither, as in Spark.

    An overwrite that landed before the table became append-only is a replay, and answered as one.
    """
    if options.mode == "append":
        return
    last = None if options.app_id is None else state.transaction_version(options.app_id)
    if last is None or options.checkpoint_id is None or options.checkpoint_id > last:
        check_removable(state)


def check_removable(state: TableState) -> None:
    """Raises ``InvalidInputError`` for an append-only table."""
    if state.properties.append_only:
        raise InvalidInputError(
            "the table is append-only (delta.appendOnly): its rows cannot be overwritten. Append to it, or unset the"
            ' property first, by table.unset_properties(["delta.appendOnly"])'
        )


def with_existing_table(job: WriteJob, state: TableState) -> WriteJob | None:
    """A job that wanted to create the table, turned onto the one a concurrent writer just created.

    None where the two tables are not the same, so that the files written for one do not fit the other.
    """
    ours = job.new_metadata
    assert ours is not None
    theirs = state.metadata
    same = state.schema == job.plan.schema and theirs.partition_columns == ours.partition_columns
    if not same or any(theirs.configuration.get(key) != value for key, value in ours.configuration.items()):
        return None
    return replace(
        job,
        read_version=state.version,
        base_metadata=theirs,
        base_protocol=state.protocol,
        new_metadata=None,
        new_protocol=None,
    )
