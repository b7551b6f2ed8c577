"""Constraints: conditions that every new row of a table must meet, which other engines set and check too.

In: a table's properties and schema. Out: the constraints, bound once for each plan. `RowGuard` checks rows. A condition
that is NULL for a row is violated, as in Spark.
PROTOCOL.md, "CHECK Constraints", "Column Invariants".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
import orjson

from txlog.core.format.properties import CONSTRAINT_PREFIX
from txlog.core.format.schema import Array, DataType, Field, Map, Struct
from txlog.core.util import UTC
from txlog.core.wording import argument
from txlog.errors import InvalidInputError, UnsupportedFeatureError

if TYPE_CHECKING:
    import pyarrow as pa

    from txlog.core.predicates.terms.predicate import Predicate

_INVARIANTS = "delta.invariants"
_SHOWN_CHARACTERS_MAX = 200


class Constraint(msgspec.Struct, frozen=True):
    """``name`` is as in messages, ``sql`` as in the table; ``condition`` is bound to the table's schema."""

    name: str
    sql: str
    condition: Predicate

    def violation(self, rows: pa.RecordBatch) -> tuple[int, str] | None:
        """The first row that violates it: its position, and the values that the condition names; None if all meet it.

        Raises:
            InvalidInputError: The condition has no value for some row, for example because of a division by zero.
        """
        try:
            return first_not_true(self.condition, rows)
        except InvalidInputError as error:
            error.template = f"the {self.name} ({self.sql}) cannot be checked: {error.template}"
            raise

    def zone_note(self, schema: Struct, zone: str) -> str:
        """What the error says besides, if another time zone than the writer's might have judged the row otherwise."""
        from txlog.core.format.time_zones import FARTHEST
        from txlog.core.predicates import parse_stored_condition

        west, east = (parse_stored_condition(self.sql, schema, each) for each in FARTHEST)
        if west == east:
            return ""
        return (
            f". Its times are in {zone}, the {argument('time_zone')} of this writer: rows that were written in another"
            " zone are changed there"
        )


def check_constraints(configuration: Mapping[str, str], schema: Struct) -> None:
    """Check the CHECK constraints and the column invariants of a new definition.

    Raises:
        InvalidInputError: One does not fit the schema, txlog cannot evaluate it, or an invariant is below an array or a
            map, where Delta checks none.
        UnsupportedFeatureError: An invariant does not have the protocol's form.
    """
    for name, text in stored_constraints(configuration, schema).items():
        from txlog.core.predicates import parse_stored_condition

        try:
            parse_stored_condition(text, schema, UTC)
        except InvalidInputError as error:
            error.template = f"the {name} ({text}) does not fit the schema: {error.template}"
            raise
    unchecked = [path for path, metadata in _members_of_lists(schema) if _INVARIANTS in metadata]
    if unchecked:
        raise InvalidInputError(
            f"{', '.join(unchecked)} has an invariant ({_INVARIANTS}) inside an array or a map, where Delta does not"
            " check it: remove it from the schema"
        )


def check_same_conditions(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Raises InvalidInputError if a change of properties would add, change or drop a CHECK constraint."""
    if _conditions(before) != _conditions(after):
        raise InvalidInputError(
            "a constraint cannot be set as a property, since the table's rows must meet it: use"
            " table.add_constraint(name, condition) and table.drop_constraint(name)"
        )


def _conditions(configuration: Mapping[str, str]) -> dict[str, str]:
    """The SQL text of each CHECK constraint by name, sorted by name."""
    found = sorted(item for item in configuration.items() if item[0].startswith(CONSTRAINT_PREFIX))
    return {key.removeprefix(CONSTRAINT_PREFIX): text for key, text in found}


def stored_constraints(configuration: Mapping[str, str], schema: Struct) -> dict[str, str]:
    """The SQL text of each constraint by name: CHECK constraints, then column invariants.

    Raises:
        UnsupportedFeatureError: An invariant does not have the protocol's form.
    """
    found = {f"constraint {name}": text for name, text in _conditions(configuration).items()}
    found.update((f"invariant of column {path}", _invariant(path, text)) for path, text in _invariants(schema, ""))
    return found


def constraints_of(configuration: Mapping[str, str], schema: Struct, table: str, zone: str) -> tuple[Constraint, ...]:
    """The constraints of a table with these properties and this schema, for a writer in this time zone.

    Raises:
        UnsupportedFeatureError: A condition uses something that txlog cannot evaluate, so no row may be written.
    """
    found = stored_constraints(configuration, schema)
    if not found:
        return ()
    from txlog.core.predicates import parse_stored_condition

    bound = []
    for name, text in found.items():
        try:
            bound.append(Constraint(name, text, parse_stored_condition(text, schema, zone)))
        except InvalidInputError as error:
            raise UnsupportedFeatureError(
                f"txlog cannot check the {name} ({text}), so it cannot write rows to this table: {error.message}. Use"
                " an engine that supports it, or drop it there first",
                table=table,
                features=("invariants" if name.startswith("invariant") else "checkConstraints",),
            ) from None
    return tuple(bound)


def _invariants(schema: Struct, prefix: str) -> Iterator[tuple[str, object]]:
    for field in schema.fields:
        path = prefix + field.name
        if _INVARIANTS in field.metadata:
            yield path, field.metadata[_INVARIANTS]
        yield from _invariants_below(field, path)


def _invariants_below(field: Field, path: str) -> Iterator[tuple[str, object]]:
    if isinstance(field.type, Struct):
        yield from _invariants(field.type, f"{path}.")


def _invariant(path: str, text: object) -> str:
    """The condition in ``{"expression": {"expression": "x > 3"}}``."""
    try:
        found = orjson.loads(text)["expression"]["expression"]  # type: ignore[arg-type]
    except (ValueError, KeyError, TypeError):
        found = None
    if not isinstance(found, str):
        raise UnsupportedFeatureError(
            f"the invariant of column {path} is {text!r}, which txlog does not understand, so it cannot write rows to"
            " this table",
            features=("invariants",),
        )
    return found


def _members_of_lists(data_type: DataType, path: str = "", *, is_below: bool = False) -> Iterator[tuple[str, Any]]:
    """The struct fields below arrays and maps, by their paths, with their metadata."""
    prefix = f"{path}." if path else ""
    match data_type:
        case Struct(fields):
            for field in fields:
                if is_below:
                    yield f"{prefix}{field.name}", field.metadata
                yield from _members_of_lists(field.type, f"{prefix}{field.name}", is_below=is_below)
        case Array(element):
            yield from _members_of_lists(element, f"{prefix}element", is_below=True)
        case Map(key, value):
            yield from _members_of_lists(key, f"{prefix}key", is_below=True)
            yield from _members_of_lists(value, f"{prefix}value", is_below=True)


def first_not_true(predicate: Predicate, rows: pa.RecordBatch) -> tuple[int, str] | None:
    """The first row for which a predicate is false or NULL: its position, and the values of the predicate's columns."""
    from txlog.core.format.arrow.compute import pc
    from txlog.core.format.arrow.wide_years import python_values
    from txlog.core.predicates import evaluate

    at = pc.index(pc.fill_null(evaluate(predicate, rows), False), False).as_py()
    if at < 0:
        return None
    sample = rows.slice(at, 1)
    values = ", ".join(f"{name} = {python_values(sample.column(name))[0]!r}" for name in sorted(predicate.columns()))
    return at, values[:_SHOWN_CHARACTERS_MAX]
