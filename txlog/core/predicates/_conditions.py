"""A user's condition in any form, bound to a table's schema.

In: SQL text, a condition built from `col` and `expr`, or a ``pyarrow.compute.Expression``. Out: a `Predicate`. What
reads each form is imported when a condition has it: the SQL parser, above all, imports slowly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from txlog.core.format.schema import Struct
from txlog.core.predicates.terms.predicate import Predicate
from txlog.core.util import UTC, invalid
from txlog.errors import InvalidInputError

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from txlog.core.predicates._scope import Context


def bind_predicate(where: Any, schema: Struct, **context: Unpack[Context]) -> Predicate:
    """A condition from a caller, bound to the table's schema.

    Args:
        where: SQL text, a condition built from `col` and `expr`, one of these that is a boolean itself, or a
            ``pyarrow.compute.Expression``, ``polars.Expr`` or ``narwhals.Expr``.
        schema: The table's schema.
        context: What else it may name: see `Context`. Those of other packages have no times without a zone.

    Raises:
        InvalidInputError: The condition cannot be parsed, or does not fit the schema.
    """
    from txlog.core.predicates._binding import bind_condition, bind_value
    from txlog.core.predicates._build import as_condition
    from txlog.core.predicates._scope import Scope
    from txlog.core.predicates._unbound import Operand, Sql

    if isinstance(where, Predicate):
        return bind_condition(where, Scope(schema, **context))
    if isinstance(where, str | Sql):
        from txlog.core.predicates._sql import parse_predicate

        if isinstance(where, Sql):
            context = {**context, "parameters": {**(context.get("parameters") or {}), **(where.parameters or {})}}
        return parse_predicate(str(where), schema, **context)
    if isinstance(where, Operand):
        return bind_condition(where.as_condition(), Scope(schema, **context))
    from txlog.core.predicates._arrow_input import is_arrow_expression
    from txlog.core.predicates._polars_input import is_frame_expression, read_frame_expression

    if is_frame_expression(where):
        return read_frame_expression(where, schema)
    if is_arrow_expression(where):
        try:
            context["zone"] = UTC
            return as_condition(bind_value(where, schema, **context))
        except ValueError as error:
            raise InvalidInputError(str(error)) from None
    example = "\"day = '2026-11-20' and amount > 100\""
    raise invalid("condition", where, f"SQL, such as {example}, or a condition such as txlog.col('amount') > 100")
