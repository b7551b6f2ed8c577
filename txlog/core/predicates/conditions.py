"""A user's condition in any form, bound to a table's schema.

In: SQL text, a predicate built from `col`, or a ``pyarrow.compute.Expression``. Out: a `Predicate`. Only text needs the
SQL parser, which imports slowly.
"""

from __future__ import annotations

import datetime
from typing import Any

from txlog.core.format.schema import Struct
from txlog.core.predicates.predicate import Predicate, bind
from txlog.core.util.arguments import UTC, invalid
from txlog.errors import InvalidInputError

__all__ = ["bind_predicate"]


def bind_predicate(where: Any, schema: Struct, zone: str, *, now: datetime.datetime | None = None) -> Predicate:
    """A condition from a caller, bound to the table's schema.

    Args:
        where: SQL text, a predicate built from `col`, or a ``pyarrow.compute.Expression``.
        schema: The table's schema.
        zone: The time zone of times without one. An Arrow expression has none of these.
        now: The time of ``current_timestamp()`` and ``current_date()``; without it they are refused.

    Raises:
        InvalidInputError: The condition cannot be parsed, or does not fit the schema.
    """
    if isinstance(where, Predicate):
        return bind(where, schema, zone)
    from txlog.core.predicates.arrow_input import is_arrow_expression
    from txlog.core.predicates.build import as_condition
    from txlog.core.predicates.sql import bind_value, parse_predicate

    if isinstance(where, str):
        return parse_predicate(where, schema, zone=zone, now=now)
    if is_arrow_expression(where):
        try:
            return as_condition(bind_value(where, schema, zone=UTC))
        except ValueError as error:
            raise InvalidInputError(str(error)) from None
    example = "\"day = '2026-11-20' and amount > 100\""
    raise invalid("condition", where, f"SQL, such as {example}")
