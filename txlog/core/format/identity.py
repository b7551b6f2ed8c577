"""Identity columns: columns whose values a table counts, ``GENERATED ALWAYS`` or ``BY DEFAULT AS IDENTITY``.

In: a table's schema or metadata. Out: its `IdentityColumn`s, the next numbers of one, and metadata with a later
high-water mark: the last number that was given out, or reserved for a writer. A mark only moves in the direction of
the steps. Pure. PROTOCOL.md, "Identity Columns".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from txlog.core.format.actions import Metadata
from txlog.core.format.column_mapping import physical_name, schema_of
from txlog.core.format.schema import LONG, Field, Struct, fold_name, parse_schema, schema_to_json, type_name
from txlog.errors import CorruptLogError, InvalidInputError

IDENTITY_PREFIX = "delta.identity."
"""How the keys of their field metadata begin."""

_START, _STEP = f"{IDENTITY_PREFIX}start", f"{IDENTITY_PREFIX}step"
_MARK, _EXPLICIT = f"{IDENTITY_PREFIX}highWaterMark", f"{IDENTITY_PREFIX}allowExplicitInsert"
_LEAST, _GREATEST = -(1 << 63), (1 << 63) - 1


class IdentityColumn(msgspec.Struct, frozen=True):
    """``mark`` is the last number given out, None before the first one. ``physical`` is the column's name in files.
    Rows may have their own numbers only if the column ``takes_values`` (``BY DEFAULT``).
    """

    name: str
    physical: str
    start: int
    step: int
    mark: int | None
    takes_values: bool

    @property
    def kind(self) -> str:
        """``GENERATED ALWAYS AS IDENTITY``, or the same with ``BY DEFAULT``."""
        return f"GENERATED {'BY DEFAULT' if self.takes_values else 'ALWAYS'} AS IDENTITY"

    def next(self, count: int) -> tuple[int, int]:
        """The first and the last of the next ``count`` numbers. Raises InvalidInputError if there are not that many."""
        first = self.start if self.mark is None else self.mark + self.step
        last = first + (count - 1) * self.step
        if not (_LEAST <= first <= _GREATEST and _LEAST <= last <= _GREATEST):
            raise InvalidInputError(
                f"the identity column {self.name} has no {count:,} numbers left after {self.mark}: a bigint ends there."
                " Write the rows to a table with another column"
            )
        return first, last

    def is_beyond(self, number: int, mark: int | None) -> bool:
        """Whether ``number`` comes after ``mark`` in the direction of the steps."""
        return mark is None or (number > mark if self.step > 0 else number < mark)

    def rounded(self, number: int) -> int:
        """The first number of the column's own, from ``start`` on, that is not before ``number``; the last one that a
        bigint can hold if there is none."""
        steps = -((self.start - number) // self.step)
        found = self.start + steps * self.step
        return found if _LEAST <= found <= _GREATEST else found - self.step


def is_identity(field: Field) -> bool:
    """Whether a column has metadata of an identity column."""
    return any(key.startswith(IDENTITY_PREFIX) for key in field.metadata)


def identity_columns(schema: Struct) -> tuple[IdentityColumn, ...]:
    """The identity columns of a schema. Raises CorruptLogError for metadata that the protocol does not allow."""
    return tuple(_column(field) for field in schema.fields if is_identity(field))


def without_counted(schema: Struct) -> Struct:
    """The columns that rows may bring: without those that always count."""
    counted = {column.name for column in identity_columns(schema) if not column.takes_values}
    return Struct(tuple(field for field in schema.fields if field.name not in counted)) if counted else schema


def identity_metadata(*, start: int, step: int, takes_values: bool) -> dict[str, Any]:
    """The field metadata of a new identity column."""
    return {_START: start, _STEP: step, _EXPLICIT: takes_values}


def check_identity_columns(schema: Struct, partition_columns: Collection[str] = ()) -> None:
    """Check the identity columns of a new definition, as Spark does. Raises InvalidInputError."""
    partitioned = {*map(fold_name, partition_columns)}
    for field in schema.fields:
        if not is_identity(field):
            continue
        try:
            column = _column(field)
        except CorruptLogError as error:
            raise InvalidInputError(error.message) from None
        if field.type != LONG:
            raise InvalidInputError(f"the identity column {field.name} is {type_name(field.type)}: it must be bigint")
        others = [key for key in ("delta.generationExpression", "CURRENT_DEFAULT") if key in field.metadata]
        if others:
            raise InvalidInputError(
                f"the identity column {field.name} cannot also have a default or be computed ({', '.join(others)})"
            )
        if fold_name(field.name) in partitioned:
            raise InvalidInputError(f"a table cannot be partitioned by its identity column {field.name}")
        if not (_LEAST <= column.start <= _GREATEST and _LEAST <= column.step <= _GREATEST):
            raise InvalidInputError(f"the start and the step of the identity column {field.name} must fit in a bigint")


def with_mark(metadata: Metadata, column: IdentityColumn, mark: int) -> Metadata:
    """The metadata with another high-water mark of a column."""
    return with_marks(metadata, {column.name: mark})


def with_marks(metadata: Metadata, marks: Mapping[str, int]) -> Metadata:
    """The metadata with other high-water marks of some columns, by name."""
    if not marks:
        return metadata
    fields = parse_schema(metadata.schema_string).fields
    schema = Struct(tuple(_marked(field, marks.get(field.name)) for field in fields))
    return replace(metadata, schema_string=schema_to_json(schema))


def with_later_marks(metadata: Metadata, other: Metadata) -> Metadata:
    """``metadata`` with the high-water marks of the same identity columns in ``other`` that are further on."""
    if metadata is other or _MARK not in other.schema_string or _STEP not in metadata.schema_string:
        return metadata
    theirs = {physical_name(each): each.metadata.get(_MARK) for each in schema_of(other).fields if is_identity(each)}
    marks: dict[str, int] = {}
    for column in identity_columns(schema_of(metadata)):
        mark = theirs.get(column.physical)
        if isinstance(mark, int) and column.is_beyond(mark, column.mark):
            marks[column.name] = mark
    return with_marks(metadata, marks)


def created_again_ms(newest: Metadata, wanted: Metadata, now_ms: int, *, was_lost: bool = False) -> int | None:
    """When the definition ``wanted``, which is to replace ``newest``, was made.

    If an identity column comes back whose mark the newest version does not have, or whose mark ``was_lost`` before it,
    the definition is a new one, so nobody uses the numbers that were put aside before.
    """
    if _STEP not in wanted.schema_string:
        return wanted.created_time
    if not was_lost and has_columns_of(newest, wanted):
        return newest.created_time
    return max(now_ms, *((each.created_time or 0) + 1 for each in (newest, wanted)))


def has_columns_of(metadata: Metadata, other: Metadata) -> bool:
    """Whether ``metadata`` has every identity column of ``other``, with the same start and steps."""
    return _counted(other) <= _counted(metadata)


def is_same_but_for_marks(one: Metadata, other: Metadata) -> bool:
    """Whether two definitions of a table differ at most in high-water marks."""
    if one is other or one == other:
        return True
    if _STEP not in one.schema_string or replace(one, schema_string="") != replace(other, schema_string=""):
        return False
    return _without_marks(parse_schema(one.schema_string)) == _without_marks(parse_schema(other.schema_string))


def _counted(metadata: Metadata) -> set[tuple[str, int, int]]:
    if _STEP not in metadata.schema_string:
        return set()
    return {(each.physical, each.start, each.step) for each in identity_columns(schema_of(metadata))}


def _column(field: Field) -> IdentityColumn:
    found: Mapping[str, Any] = field.metadata
    start, step, mark = found.get(_START), found.get(_STEP), found.get(_MARK)
    if type(start) is not int or type(step) is not int or not step or not (mark is None or type(mark) is int):
        raise CorruptLogError(
            f"the identity column {field.name} has the start {start!r}, the step {step!r} and the high-water mark"
            f" {mark!r}: they must be whole numbers, and the step not 0"
        )
    return IdentityColumn(field.name, physical_name(field), start, step, mark, found.get(_EXPLICIT) is True)


def _marked(field: Field, mark: int | None) -> Field:
    return field if mark is None else replace(field, metadata={**field.metadata, _MARK: mark})


def _without_marks(schema: Struct) -> Struct:
    return Struct(tuple(_unmarked(field) if _MARK in field.metadata else field for field in schema.fields))


def _unmarked(field: Field) -> Field:
    return replace(field, metadata={key: value for key, value in field.metadata.items() if key != _MARK})
