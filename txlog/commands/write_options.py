"""The options of a write: `WriteOptions`. A new option of `append` or `overwrite` begins here.

In: the arguments of the caller. Out: values of Python's own types, checked against each other. ``write_planning``
decides what they mean for one table; options of deletes, updates and upserts are in ``row_change.options``, which
shares the checks below.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import msgspec
from msgspec.structs import force_setattr

from txlog.errors import InvalidInputError
from txlog.log.proposal import check_text
from txlog.util.arguments import invalid, one_of, whole_number
from txlog.writer.write_intent import RowMode

if TYPE_CHECKING:
    from txlog.expressions.predicates import Predicate

__all__ = [
    "OnConflict",
    "SchemaMode",
    "WriteOptions",
    "check_app_id",
    "check_choice",
    "check_identity",
    "check_mode",
    "check_options",
]

SchemaMode: TypeAlias = Literal["strict", "merge", "overwrite"]
"""Whether data must fit the table's columns ("strict"), may add columns ("merge"), or replaces them all ("overwrite",
for an overwrite of the whole table)."""

OnConflict: TypeAlias = Literal["rerun", "fail"]
"""After a lost race: execute the change again on the newest version, or apply Delta's rules to what was read."""

_MODES = ("append", "overwrite", "overwrite_partitions")


class WriteOptions(msgspec.Struct, frozen=True):
    """The options of a write. Sizes are in bytes.

    ``mode`` is "append", "overwrite" (every row, or those that satisfy ``where``) or "overwrite_partitions" (the
    partitions of the data's rows). ``app_id`` with ``checkpoint_id`` makes the write exactly once; ``fingerprint``
    detects different work under the same id. ``partition_by``, ``cluster_by`` and ``properties`` define a table that
    does not exist yet, if ``create`` allows it. For an existing table, the first two must agree with it, and
    ``must_create`` refuses it. ``read_version`` is the version from which the rows of an overwrite were made; None
    means, for a part of the table, the version that the handle last read. ``row_mode`` decides how rows are removed
    from files whose other rows stay, and ``on_conflict`` what an overwrite does after a lost race. ``keys`` are the key
    columns of the mode "upsert", which only sinks have.
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
    cluster_by: str | Iterable[str] | None = None
    properties: Mapping[str, str] = msgspec.field(default_factory=dict)
    target_file_size_bytes: int | None = None
    max_records_per_file: int | None = None
    compression: str | None = None
    read_version: int | None = None
    keys: tuple[str, ...] = ()
    row_mode: RowMode | None = None
    on_conflict: OnConflict = "fail"

    def __post_init__(self) -> None:
        """Accept integers of any library, and convert them to Python's own, which the log can store and compare."""
        for field_name, name, at_least in _WHOLE_NUMBERS:
            if (value := getattr(self, field_name)) is not None:
                force_setattr(self, field_name, whole_number(name, value, at_least=at_least))

    @property
    def is_reexecuted(self) -> bool:
        """Whether the overwrite runs again after a commit that changed files: not if it is tied to a version."""
        return self.mode != "append" and self.on_conflict == "rerun" and self.read_version is None


_WHOLE_NUMBERS = (
    ("checkpoint_id", "checkpoint_id", 0),
    ("read_version", "read_version", 0),
    ("target_file_size_bytes", "target_file_size", 1),
    ("max_records_per_file", "max_records_per_file", 0),
)


def check_options(options: WriteOptions) -> None:
    """Raise ``InvalidInputError`` for options that do not fit together or fit no table."""
    check_mode(options.mode, (*_MODES, "upsert") if options.keys else _MODES)
    if options.where is not None and options.mode != "overwrite":
        raise InvalidInputError(
            f'where selects the rows that an overwrite replaces: use mode="overwrite", not {options.mode}'
        )
    check_choice("schema_mode", options.schema_mode, SchemaMode)
    if options.schema_mode == "overwrite" and (options.mode != "overwrite" or options.where is not None):
        raise InvalidInputError(
            'schema_mode="overwrite" replaces the columns of the whole table, so the overwrite must replace every row,'
            ' without where; "merge" adds columns'
        )
    if options.read_version is not None and options.schema_mode == "overwrite":
        raise InvalidInputError(
            'read_version keeps rows that were appended after it, and schema_mode="overwrite" replaces the columns of'
            " all rows: leave one of them out"
        )
    if options.row_mode is not None:
        check_choice("mode", options.row_mode, RowMode)
    check_choice("on_conflict", options.on_conflict, OnConflict)
    if options.mode == "append":
        _check_replaces_nothing(options)
    check_identity(options.app_id, options.checkpoint_id)
    check_text("user_metadata", options.user_metadata)
    check_text("fingerprint", options.fingerprint)
    if options.fingerprint is not None and options.app_id is None:
        raise InvalidInputError("a fingerprint needs an app_id and a checkpoint_id: give both")
    if not isinstance(options.properties, Mapping):
        raise invalid("properties", options.properties, "a mapping of strings")


def _check_replaces_nothing(options: WriteOptions) -> None:
    """Raise ``InvalidInputError`` for options of an append that are about replaced rows."""
    on_conflict = None if options.on_conflict == "fail" else options.on_conflict
    given = {"row_mode": options.row_mode, "on_conflict": on_conflict, "read_version": options.read_version}
    for name, value in given.items():
        if value is not None:
            raise InvalidInputError(f"{name} is for overwrites, and an append replaces no row: leave it out")


def check_mode(mode: str, modes: tuple[str, ...] = _MODES) -> None:
    """Raises ``InvalidInputError`` for a value that is not one of the ``modes`` of a write."""
    if not isinstance(mode, str) or mode not in modes:
        raise invalid("mode", mode, one_of(modes))


def check_choice(name: str, value: Any, choices: Any) -> None:
    """Raises ``InvalidInputError`` for a value that is not one of the ``choices``, a ``Literal``."""
    if not isinstance(value, str) or value not in get_args(choices):
        raise invalid(name, value, one_of(get_args(choices)))


def check_identity(app_id: str | None, checkpoint_id: int | None) -> None:
    """Application and checkpoint must be given together or not at all. Raises ``InvalidInputError``."""
    if (app_id is None) != (checkpoint_id is None):
        raise InvalidInputError("an exactly-once write needs both app_id and checkpoint_id: give both, or neither")
    if app_id is not None:
        check_app_id(app_id)
    if checkpoint_id is not None:
        whole_number("checkpoint_id", checkpoint_id)


def check_app_id(app_id: str) -> None:
    """Raises ``InvalidInputError`` for an invalid application id."""
    if type(app_id) is not str or not app_id:
        raise invalid("app_id", app_id, "a non-empty string")
    check_text("app_id", app_id)
