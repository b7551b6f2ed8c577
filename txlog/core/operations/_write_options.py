"""The options of a write: `WriteOptions`. A new option of `append` or `overwrite` begins here.

In: the arguments of the caller. Out: values of Python's own types, checked against each other. ``write_planning``
decides what they mean for one table. The options of deletes, updates and upserts are in ``row_change.options``, and the
commit options of every write in ``core.writing.commit_options``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import force_setattr

from txlog.core.util import invalid, one_of, whole_number
from txlog.core.wording import argument, setting
from txlog.core.writing.commit_options import PLAIN_COMMIT, CommitOptions, check_choice, check_isolation
from txlog.core.writing.write_intent import ColumnRules, RowMode, SchemaMode
from txlog.errors import InvalidInputError

if TYPE_CHECKING:
    from txlog.core.predicates import AnyCondition

_MODES = ("append", "overwrite", "overwrite_partitions")


class WriteOptions(msgspec.Struct, frozen=True):
    """The options of a write. Sizes are in bytes.

    ``mode`` is "append", "overwrite" (every row, or those that satisfy ``where``) or "overwrite_partitions" (the
    partitions of the data's rows). ``commit`` holds the commit options; for an overwrite of a part of the table, its
    ``read_version`` None means the version that the handle last read. ``partition_by``, ``cluster_by`` and
    ``properties`` define a table that does not exist yet, if ``create`` allows it. For an existing table, the first two
    must agree with it, and ``must_create`` refuses it. ``row_mode`` decides how to remove rows from files that keep
    other rows, and ``column_rules`` whether a new schema keeps NOT NULL, comments and the like. ``parquet`` sets
    properties of data files for this write. ``keys`` are the key columns of the mode "upsert", which only sinks have.
    With ``dry_run``, an overwrite is looked at and not made.
    """

    mode: str = "append"
    where: AnyCondition | None = None
    schema_mode: str = "strict"
    commit: CommitOptions = PLAIN_COMMIT
    create: bool = False
    must_create: bool = False
    partition_by: Iterable[str] | None = None
    cluster_by: str | Iterable[str] | None = None
    properties: Mapping[str, str] = msgspec.field(default_factory=dict)
    target_file_size_bytes: int | None = None
    max_records_per_file: int | None = None
    parquet: Mapping[str, Any] = msgspec.field(default_factory=dict)
    keys: tuple[str, ...] = ()
    row_mode: RowMode | None = None
    column_rules: ColumnRules | None = None
    dry_run: bool = False

    def __post_init__(self) -> None:
        """Convert any library's integers to Python's, which the log can store and compare, and settings to text."""
        for field_name, name, at_least in _WHOLE_NUMBERS:
            if (value := getattr(self, field_name)) is not None:
                force_setattr(self, field_name, whole_number(name, value, at_least=at_least))
        if self.parquet:
            from txlog.core.writing import checked_settings

            force_setattr(self, "parquet", checked_settings(self.parquet))

    @property
    def is_reexecuted(self) -> bool:
        """Whether the overwrite reruns after a commit that changed files: not if it is tied to a version."""
        return self.mode != "append" and self.commit.is_reexecuted("fail")


_WHOLE_NUMBERS = (
    ("target_file_size_bytes", "target_file_size", 1),
    ("max_records_per_file", "max_records_per_file", 0),
)


def check_options(options: WriteOptions) -> None:
    """Raise ``InvalidInputError`` for options that do not fit together or fit no table."""
    check_mode(options.mode, (*_MODES, "upsert") if options.keys else _MODES)
    if options.where is not None and options.mode != "overwrite":
        raise InvalidInputError(
            f"{argument('where')} selects the rows that an overwrite replaces: use {setting('mode', 'overwrite')}, not"
            f" {options.mode}"
        )
    check_choice("schema_mode", options.schema_mode, SchemaMode)
    if options.schema_mode == "overwrite" and (options.mode != "overwrite" or options.where is not None):
        raise InvalidInputError(
            f"{setting('schema_mode', 'overwrite')} replaces the columns of the whole table, so the overwrite must"
            f" replace every row, without {argument('where')}. {setting('schema_mode', 'merge')} adds columns"
        )
    is_partly_tied = options.commit.read_version is not None and not options.commit.reads_table
    if is_partly_tied and options.schema_mode == "overwrite":
        raise InvalidInputError(
            f"{argument('read_version')} keeps rows that were appended after it, and"
            f" {setting('schema_mode', 'overwrite')} replaces the columns of all rows: leave one of them out"
        )
    if options.column_rules is not None:
        check_choice("column_rules", options.column_rules, ColumnRules)
        if options.schema_mode != "overwrite":
            raise InvalidInputError(
                f"{argument('column_rules')} is for {setting('schema_mode', 'overwrite')}, which replaces the columns:"
                f" leave {argument('column_rules')} out"
            )
    if options.row_mode is not None:
        check_choice("row_mode", options.row_mode, RowMode)
    if options.mode == "append":
        _check_replaces_nothing(options)
    elif options.mode != "upsert":
        _check_overwrite(options)
    if not isinstance(options.properties, Mapping):
        raise invalid("properties", options.properties, "a mapping of strings")


def _check_replaces_nothing(options: WriteOptions) -> None:
    """Raise ``InvalidInputError`` for options of an append that are about replaced rows."""
    commit = options.commit
    on_conflict = None if commit.on_conflict == "fail" else commit.on_conflict
    read_version = None if commit.reads_table else commit.read_version
    given = {"row_mode": options.row_mode, "on_conflict": on_conflict, "read_version": read_version}
    for name, value in given.items():
        if value is not None:
            raise InvalidInputError(f"{argument(name)} is for overwrites, but an append replaces no row: leave it out")


def _check_overwrite(options: WriteOptions) -> None:
    """Raise ``InvalidInputError`` for options that the overwrite would not honor."""
    commit = options.commit
    if options.row_mode is not None and options.where is None:
        raise InvalidInputError(
            f"{argument('row_mode')} decides how to remove rows from files that keep other rows, but an overwrite"
            f" without {argument('where')} removes whole files: leave {argument('row_mode')} out"
        )
    if commit.on_conflict == "rerun" and commit.read_version is not None:
        raise InvalidInputError(
            f"{argument('read_version')} ties the overwrite to one version, so it cannot rerun on a newer"
            f" one, as {argument('on_conflict')} requests: leave one of them out"
        )
    check_isolation(commit, "fail")


def check_mode(mode: str, modes: tuple[str, ...] = _MODES) -> None:
    """Raises ``InvalidInputError`` for a value that is not one of the ``modes`` of a write."""
    if not isinstance(mode, str) or mode not in modes:
        raise invalid("mode", mode, one_of(modes))
