"""What a caller may ask of a write: `WriteOptions`. A new option of `append` or `overwrite` begins here.

In: the arguments of the caller. Out: values of Python's own types, checked against each other. ``write_planning``
decides what they mean for one table; options of deletes, updates and upserts are in ``row_change.options``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from txlog.errors import InvalidInputError
from txlog.expressions.predicates import Predicate
from txlog.log.proposal import check_text
from txlog.util.arguments import described, whole_number
from txlog.writer.write_intent import RowMode

__all__ = ["SchemaMode", "WriteOptions", "check_app_id", "check_identity", "check_mode", "check_options"]

SchemaMode: TypeAlias = Literal["strict", "merge", "overwrite"]
"""Whether data must fit the table's columns ("strict"), may add columns ("merge"), or replaces them all ("overwrite",
for an overwrite of the whole table)."""

_MODES = ("append", "overwrite", "overwrite_partitions")
_SCHEMA_MODES = get_args(SchemaMode)


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What the caller of a write may ask for. Sizes are in bytes.

    ``mode`` is "append", "overwrite" (every row, or those that satisfy ``where``) or "overwrite_partitions" (the
    partitions of the data's rows). ``app_id`` with ``checkpoint_id`` makes the write exactly once; ``fingerprint``
    detects different work under the same id. ``partition_by`` and ``properties`` define a table that does not exist
    yet, if ``create`` allows it. For an existing table, ``partition_by`` must agree with it, and ``must_create``
    refuses it. ``read_version`` is the version from which the rows of a selective overwrite were made; None means the
    version that the handle last read. ``keys`` are the key columns of the mode "upsert", which only a sink has, and
    ``row_mode`` is how the rows that it takes out go.
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
    read_version: int | None = None
    keys: tuple[str, ...] = ()
    row_mode: RowMode | None = None

    def __post_init__(self) -> None:
        """Accept whole numbers of any library, and keep them as Python's own, since the log holds and compares them."""
        for field_name, name, at_least in _WHOLE_NUMBERS:
            if (value := getattr(self, field_name)) is not None:
                object.__setattr__(self, field_name, whole_number(name, value, at_least=at_least))


_WHOLE_NUMBERS = (
    ("checkpoint_id", "checkpoint_id", 0),
    ("read_version", "read_version", 0),
    ("target_file_size_bytes", "target_file_size", 1),
    ("max_records_per_file", "max_records_per_file", 0),
)


def check_options(options: WriteOptions) -> None:
    """Raise ``InvalidInputError`` for options that do not fit together, or that no table allows."""
    check_mode(options.mode, (*_MODES, "upsert") if options.keys else _MODES)
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
    if options.read_version is not None and options.where is None and options.mode != "overwrite_partitions":
        raise InvalidInputError(
            "read_version is for an overwrite of a part of the table: give where, or use overwrite_partitions"
        )
    check_identity(options.app_id, options.checkpoint_id)
    check_text("user_metadata", options.user_metadata)
    check_text("fingerprint", options.fingerprint)
    if options.fingerprint is not None and options.app_id is None:
        raise InvalidInputError("a fingerprint belongs to an app_id and a checkpoint_id; give both")
    if not isinstance(options.properties, Mapping):
        raise InvalidInputError(f"properties must be a mapping of strings, not {described(options.properties)}")


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
