"""One write, planned: plain data that travels from the driver to its tasks and back to the one commit.

In: the table's metadata and the caller's options. Out: `WritePlan`, every decision about data files that does not
depend on the rows; `TaskIdentity`; and `WriteJob`, which also has what the `GlobalCommitter` commits besides the files.
Sizes are bytes; file names are made here, so a listing shows which files belong to one task. Nothing here can reach the
log, since jobs are unpickled on executors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from txlog.core import ambient
from txlog.core.format.actions import DomainMetadata, Metadata, Protocol
from txlog.core.format.column_mapping import is_mapped, physical_fields, physical_names, schema_of
from txlog.core.format.features import stores_partition_columns
from txlog.core.format.properties import CODEC_KEY, CONSTRAINT_PREFIX, PARQUET, PREFIX, TableProperties
from txlog.core.format.schema import VOID, Array, DataType, Field, Map, Struct, types_in
from txlog.core.util import UTC, invalid, pattern
from txlog.core.writing._data_file import ParquetSettings
from txlog.core.writing.commit_options import PLAIN_COMMIT, CommitOptions
from txlog.core.writing.write_intent import USUAL, MismatchPolicy, RowMode, WriteIntent
from txlog.errors import UnsupportedFeatureError

if TYPE_CHECKING:
    from txlog.core.format.defined_table import DefinedTable
    from txlog.core.predicates.terms.predicate import Predicate
    from txlog.core.row_rules import ComputedColumns, Constraint, TextLimit

Rows: TypeAlias = Literal["new", "completed", "old"]
"""What a plan writes: rows that may lack columns; rows whose generated columns are already computed or checked, along
with existing rows; or only existing rows, or rows that do not belong to the table."""

MIB = 1 << 20

TARGET_FILE_SIZE_BYTES = 128 * MIB
MEMORY_BUDGET_BYTES = 192 * MIB
MAX_OPEN_FILES = 1024
_NOT_IN_NAMES = pattern(r"[^A-Za-z0-9]+")
_RANDOM_NAME = pattern(r"(?:^|/)part-\d{5,}-[A-Za-z0-9-]+-\d+-[0-9a-f]{16}-\d{5,}-\d{3,}(?:\.[a-z0-9]+)?\.parquet$")


class TaskIdentity(msgspec.Struct, frozen=True):
    """Which attempt of which task of which job writes, and for which checkpoint of which application.

    ``job_id`` is a string that identifies the job (a uuid); it becomes part of the file names. ``app_id`` and
    ``checkpoint_id`` are only for the committable: file names do not contain them.
    """

    job_id: str
    task_id: int = 0
    attempt: int = 0
    app_id: str | None = None
    checkpoint_id: int | None = None

    def file_name_prefix(self, kind: str = "part") -> str:
        """The prefix of the names of all files of this attempt."""
        job = _NOT_IN_NAMES.sub("-", self.job_id)[:48].strip("-") or "job"
        return f"{kind}-{self.task_id:05d}-{job}-{self.attempt}"


class FileNames(msgspec.Struct, frozen=True):
    """The names of one attempt's files: job, task and attempt, and a random part that no other attempt has."""

    prefix: str
    suffix: str
    random_prefix_length: int = 0
    folder: str = ""

    @classmethod
    def of(cls, task: TaskIdentity, plan: WritePlan) -> FileNames:
        suffix = {"none": "", "gzip": ".gz"}.get(plan.parquet.codec, f".{plan.parquet.codec}")
        unique = ambient.uuid4().replace("-", "")[:16]
        prefix = task.file_name_prefix(plan.file_kind)
        return cls(f"{prefix}-{unique}", f"{suffix}.parquet", plan.random_prefix_length, plan.folder)

    def path(self, directory: str, ordinal: int, number: int) -> str:
        """The ``number``-th file of the ``ordinal``-th partition, in its directory."""
        if self.random_prefix_length:
            directory = ambient.uuid4().replace("-", "")[: self.random_prefix_length]
        name = f"{self.prefix}-{ordinal:05d}-{number:03d}{self.suffix}"
        return "/".join(part for part in (self.folder, directory, name) if part)


def has_random_name(uri_text: str) -> bool:
    """Whether a log path has a name that `FileNames` makes: with its random part, no other file has it."""
    return _RANDOM_NAME.search(uri_text) is not None


class WritePlan(msgspec.Struct, frozen=True):
    """How the tasks of one write lay out their files.

    ``memory_budget_bytes`` bounds the rows that a task holds (see ``_task_writer``), ``max_open_files`` its open data
    files. ``random_prefix_length`` > 0 puts files below random directories instead of partition directories.
    ``rows_where``, bound to the schema, must be true for every row; None takes any row. So must ``constraints``, which
    are the table's, and ``text_limits``; plans for old rows have neither. ``computed`` are the columns that rows may
    lack; None if they have all columns. ``hidden_columns`` are columns of ``schema`` that the table lacks: files have
    them, statistics do not. With ``stores_partition_columns``, files have these too, last. Change files are below
    ``folder``; data files have none. File names begin with ``file_kind``.
    """

    table: str
    table_id: str
    read_version: int
    schema: Struct
    partition_columns: tuple[str, ...]
    configuration: dict[str, str] = msgspec.field(default_factory=dict)
    target_file_size_bytes: int = TARGET_FILE_SIZE_BYTES
    max_records_per_file: int | None = None
    parquet: ParquetSettings = ParquetSettings()
    memory_budget_bytes: int = MEMORY_BUDGET_BYTES
    max_open_files: int = MAX_OPEN_FILES
    random_prefix_length: int = 0
    rows_where: Predicate | None = None
    constraints: tuple[Constraint, ...] = ()
    computed: ComputedColumns | None = None
    hidden_columns: tuple[str, ...] = ()
    folder: str = ""
    file_kind: str = "part"
    text_limits: tuple[TextLimit, ...] = ()
    time_zone: str = UTC
    stores_partition_columns: bool = False

    @classmethod
    def of(
        cls,
        metadata: Metadata,
        protocol: Protocol,
        *,
        table: str,
        read_version: int = -1,
        schema: Struct | None = None,
        target_file_size_bytes: int | None = None,
        max_records_per_file: int | None = None,
        parquet: Mapping[str, str] | None = None,
        memory_budget_bytes: int | None = None,
        max_open_files: int | None = None,
        rows: Rows = "new",
        time_zone: str = UTC,
    ) -> WritePlan:
        """The plan for a table with this definition; options that are None come from its properties or a default.

        ``schema`` is the parsed ``metadata.schema_string``, if the caller has it. ``parquet`` are settings for data
        files by the names of their table properties, and win over the table's. Zero ``max_records_per_file``
        means no limit, as in Spark. Raises InvalidInputError, UnsupportedFeatureError.
        """
        properties = TableProperties.of(metadata.configuration)
        schema = schema if schema is not None else schema_of(metadata)
        _refuse_nested_void(schema, table)
        rules = _rules(metadata, schema, table, rows, time_zone)
        return cls(
            table=table,
            table_id=metadata.id,
            read_version=read_version,
            schema=schema,
            partition_columns=metadata.partition_columns,
            configuration=dict(metadata.configuration),
            target_file_size_bytes=_target_file_size(target_file_size_bytes, properties),
            max_records_per_file=_at_least_one("max_records_per_file", max_records_per_file or None),
            parquet=_parquet_settings(metadata, schema, parquet or {}),
            memory_budget_bytes=_at_least_one("memory_budget_bytes", memory_budget_bytes) or MEMORY_BUDGET_BYTES,
            max_open_files=_at_least_one("max_open_files", max_open_files) or MAX_OPEN_FILES,
            random_prefix_length=_random_prefix_length(properties, schema),
            time_zone=time_zone,
            stores_partition_columns=stores_partition_columns(protocol, metadata),
            **rules,
        )

    @classmethod
    def of_table(
        cls,
        table: DefinedTable,
        uri: str,
        *,
        rows: Rows = "new",
        target_file_size_bytes: int | None = None,
        max_records_per_file: int | None = None,
        parquet: Mapping[str, str] | None = None,
    ) -> WritePlan:
        """`of` a table's version; what all writes with the same options share is computed once for its definition."""
        plan = table.derived(
            ("files", uri, target_file_size_bytes, max_records_per_file, tuple(sorted((parquet or {}).items()))),
            lambda: WritePlan.of(
                table.metadata,
                table.protocol,
                table=uri,
                schema=table.schema,
                target_file_size_bytes=target_file_size_bytes,
                max_records_per_file=max_records_per_file,
                parquet=parquet,
                rows="old",
            ),
        )
        rules = table.derived(
            ("rules", uri, rows, table.time_zone),
            lambda: _rules(table.metadata, table.schema, uri, rows, table.time_zone),
        )
        return replace(plan, read_version=table.version, time_zone=table.time_zone, **rules)

    @property
    def has_rules(self) -> bool:
        """Whether some rows of the table's types are refused."""
        return self.rows_where is not None or bool(self.constraints or self.text_limits)

    def without_rules(self) -> WritePlan:
        """The same plan for rows that do not become rows of the table."""
        return replace(self, rows_where=None, constraints=(), text_limits=())

    def at(self, read_version: int) -> WritePlan:
        """The same plan for another version of the table."""
        return replace(self, read_version=read_version)

    def in_zone(self, time_zone: str, where: str | None = None) -> WritePlan:
        """The same plan for a writer in another time zone. ``where`` is the text of ``rows_where``, if there is any."""
        if time_zone == self.time_zone:
            return self
        found = replace(self, time_zone=time_zone)
        if where is not None:
            from txlog.core.predicates import bind_predicate

            found = replace(found, rows_where=bind_predicate(where, self.schema, zone=time_zone))
        if self.constraints:
            from txlog.core.row_rules import constraints_of

            rules = constraints_of(self.configuration, self.schema, self.table, time_zone)
            found = replace(found, constraints=rules)
        return found if self.computed is None else replace(found, computed=self.computed.in_zone(time_zone))

    @property
    def physical_partition_columns(self) -> tuple[str, ...]:
        """The partition columns, by their names in ``add.partitionValues``."""
        return physical_names(self.schema, self.partition_columns)

    @property
    def physical_partition_fields(self) -> dict[str, Field]:
        """The partition columns, by those names."""
        return physical_fields(self.schema, self.partition_columns)


def _rules(metadata: Metadata, schema: Struct, table: str, rows: Rows, zone: str) -> dict[str, Any]:
    """What new rows must meet or may lack. Most tables have no such rule, and their appends do without the code."""
    has_conditions = any(key.startswith(CONSTRAINT_PREFIX) for key in metadata.configuration)
    if rows == "old" or not (has_conditions or _has_field_metadata(schema)):
        return {}
    from txlog.core.row_rules import computed_columns, constraints_of, limits_of

    return {
        "constraints": constraints_of(metadata.configuration, schema, table, zone),
        "computed": computed_columns(schema, table, metadata.partition_columns, zone=zone) if rows == "new" else None,
        "text_limits": limits_of(schema, table),
    }


def _has_field_metadata(data_type: DataType) -> bool:
    match data_type:
        case Struct(fields):
            return any(member.metadata or _has_field_metadata(member.type) for member in fields)
        case Array(element):
            return _has_field_metadata(element)
        case Map(key, value):
            return _has_field_metadata(key) or _has_field_metadata(value)
    return False


def _parquet_settings(metadata: Metadata, schema: Struct, given: Mapping[str, str]) -> ParquetSettings:
    """The settings of the table and of this write. Most tables have none, and their appends do without the code."""
    keys = (*metadata.configuration, *given)
    if not any(key.startswith((PARQUET, PREFIX + PARQUET)) or key == CODEC_KEY for key in keys):
        return ParquetSettings()
    from txlog.core.writing._parquet_settings import settings_of

    return settings_of(metadata, schema, given)


def _target_file_size(asked_bytes: int | None, properties: TableProperties) -> int:
    """The caller's option, or the table's property, or the default."""
    asked = _at_least_one("target_file_size_bytes", asked_bytes)
    return asked or properties.target_file_size_bytes or TARGET_FILE_SIZE_BYTES


def _random_prefix_length(properties: TableProperties, schema: Struct) -> int:
    """Mapped columns have meaningless names, so files go into random directories, as in Spark."""
    return properties.random_prefix_length if properties.randomize_file_prefixes or is_mapped(schema) else 0


def _at_least_one(name: str, value: int | None) -> int | None:
    if value is not None and value < 1:
        raise invalid(name, value, "at least 1")
    return value


def _refuse_nested_void(schema: Struct, table: str) -> None:
    for member in schema.fields:
        if member.type != VOID and _has_lasting_void(member.type):
            raise UnsupportedFeatureError(
                f"column {member.name} has a void type inside it, which Parquet cannot store: drop that field",
                table=table,
                features=("void",),
            )


def _has_lasting_void(data_type: DataType) -> bool:
    """Whether files would have to store a void: in an array or a map, or as the only field of a struct. Else they are
    without the field."""
    match data_type:
        case Struct(fields):
            inner = [member.type for member in fields if member.type != VOID]
            return not inner or any(map(_has_lasting_void, inner))
        case Array(element):
            return _holds_void(element)
        case Map(key, value):
            return _holds_void(key) or _holds_void(value)
    return False


def _holds_void(data_type: DataType) -> bool:
    return VOID in types_in(data_type)


def without_void(schema: Struct) -> Struct:
    """The columns and fields that files have: Spark's Delta leaves out those of type void, too."""
    kept = (
        replace(field, type=without_void(field.type)) if isinstance(field.type, Struct) else field
        for field in schema.fields
        if field.type != VOID
    )
    return Struct(tuple(kept))


# --- the job -------------------------------------------------------------------------------------------------------


class WriteJob(msgspec.Struct, frozen=True):
    """A planned write of one checkpoint (or of one batch without an application).

    ``intent`` decides what happens to existing rows. ``read_version`` is the version that it was planned on, -1 if it
    creates the table; ``base_metadata`` and ``base_protocol`` are that version's. ``new_metadata`` and ``new_protocol``
    are committed too if the write creates the table or changes its schema, as ``schema_mode`` ("strict", "merge",
    "overwrite") allows, and so are ``new_domains``. With ``must_create``, an existing table is an error. ``commit``
    holds the caller's commit options. ``rows_of_version`` is the version that an overwrite's rows come from, if known,
    and ``unseen_versions`` are other writers' versions after it, up to ``read_version``. ``row_mode`` decides how to
    remove rows from files that keep other rows; None leaves it to the table. ``mismatch`` decides what happens to
    changes that do not fit the table's rows. ``notes`` are for the commit's result.
    """

    job_id: str
    intent: WriteIntent
    plan: WritePlan
    read_version: int
    base_metadata: Metadata | None
    base_protocol: Protocol | None
    new_metadata: Metadata | None = None
    new_protocol: Protocol | None = None
    new_domains: tuple[DomainMetadata, ...] = ()
    commit: CommitOptions = PLAIN_COMMIT
    schema_mode: str = "strict"
    must_create: bool = False
    rows_of_version: int | None = None
    unseen_versions: tuple[int, ...] = ()
    row_mode: RowMode | None = None
    mismatch: MismatchPolicy = USUAL
    notes: tuple[str, ...] = ()

    @property
    def creates_table(self) -> bool:
        return self.base_metadata is None

    @property
    def is_reexecuted(self) -> bool:
        """Whether the write is an overwrite that, after a lost race, replaces what the newest version has."""
        return self.intent.is_overwrite and self.commit.is_reexecuted("fail")

    def task(self, task_id: int = 0, attempt: int = 0) -> TaskIdentity:
        return TaskIdentity(self.job_id, task_id, attempt, self.commit.app_id, self.commit.checkpoint_id)
