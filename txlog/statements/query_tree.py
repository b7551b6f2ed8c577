"""The tree of a parsed query: what its parts are, and the errors for those that nothing reads.

In: nodes of sqlglot. Out: their parts; `Unsupported`, which becomes an error
that names the other ways to run the query.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlglot import exp

from txlog.core.format.schema import DataType, fold_name, has_package_type, type_name
from txlog.core.predicates.terms.types import is_floating
from txlog.errors import InvalidInputError
from txlog.statements.aggregates import is_aggregate
from txlog.statements.duckdb_expressions import duckdb_type
from txlog.statements.query_scope import QueryColumn, QueryRows, QueryScope, columns_named

_SIZES = {"WEEK": 604_800_000_000, "DAY": 86_400_000_000, "HOUR": 3_600_000_000, "MINUTE": 60_000_000}
_SIZES |= {"SECOND": 1_000_000}


class Unsupported(Exception):
    """A part of a query that nothing here computes as Spark does."""


def takes(node: exp.Expression, *names: str) -> None:
    """Raise if a node has a part that its reader does not look at."""
    for name, value in node.args.items():
        if name not in names and value not in (None, False, [], ""):
            part = value[0] if isinstance(value, list) else value
            shown = part.sql(dialect="spark") if isinstance(part, exp.Expression) else name
            raise Unsupported(f"{shown.strip()} is not supported in a query")


def wrong_query(why: str) -> InvalidInputError:
    return InvalidInputError(f"the query cannot be run: {why}; nothing was run")


def without_parentheses(node: Any) -> Any:
    return without_parentheses(node.this) if isinstance(node, exp.Paren) else node


def column_named(name: str, columns: Sequence[QueryColumn]) -> QueryColumn:
    found = columns_named(columns, name)
    if len(found) != 1:
        raise wrong_query(f"a join USING {name} needs one column of this name on each side")
    return found[0]


def with_names(rows: QueryRows, names: Sequence[str], what: str) -> QueryRows:
    """The rows with these names for their columns; with their own if there are none."""
    if len(names) not in (0, len(rows.columns)):
        raise wrong_query(f"{what} has {len(rows.columns)} columns, and {len(names)} names for them")
    if not names:
        return rows
    return QueryRows(rows.text, tuple(zip(names, (kind for _, kind in rows.columns), strict=True)))


def terms_of(node: Any) -> list[Any]:
    """The terms of AND."""
    node = without_parentheses(node)
    if not isinstance(node, exp.And):
        return [node]
    found: list[Any] = []
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if isinstance(each, exp.And):
            waiting += [without_parentheses(each.expression), without_parentheses(each.this)]
        else:
            found.append(each)
    return found


def ordinal_of(node: Any) -> int | None:
    """The number that stands for a column of the query."""
    return int(node.this) if isinstance(node, exp.Literal) and not node.is_string and str(node.this).isdigit() else None


def is_column(node: exp.Column, scope: QueryScope) -> bool:
    try:
        scope.column((str(node.name),))
    except InvalidInputError:
        scope.lacks_a_name = False
        return False
    return True


def has_aggregate(node: Any) -> bool:
    """Whether a value is one of several rows of a group: an aggregate that is no window function, and in no query."""
    if isinstance(node, (QueryColumn, exp.Subquery, exp.Select)):
        return False
    if isinstance(node, exp.Window):
        inner = node.this
        while isinstance(inner, (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)):
            inner = inner.this
        rest = [each for key, each in node.args.items() if key != "this"]
        parts = [*inner.expressions, *rest]
        return any(map(has_aggregate, _flat(parts)))
    if isinstance(node, exp.Anonymous) and is_aggregate(str(node.this).lower()):
        return True
    return any(map(has_aggregate, _flat(node.args.values())))


def has_scalar_query(node: Any) -> bool:
    """Whether a part of an expression is a query in place of a value."""
    parts = node.walk(prune=lambda each: isinstance(each, exp.Query))
    return any(isinstance(each, exp.Subquery) and not isinstance(each.parent, exp.In) for each in parts)


def _flat(parts: Any) -> Iterator[Any]:
    for part in parts:
        if isinstance(part, list):
            yield from (each for each in part if isinstance(each, exp.Expression))
        elif isinstance(part, exp.Expression):
            yield part


def taken_apart(node: Any) -> tuple[str, Any, Any, Any, bool]:
    """An aggregate's name, its call, the conditions of FILTER, the order of WITHIN GROUP, and whether it ignores
    nulls."""
    where = order = None
    ignores = False
    while not isinstance(node, exp.Anonymous):
        match node:
            case exp.Filter():
                takes(node, "this", "expression")
                where = node.expression.this
            case exp.WithinGroup():
                takes(node, "this", "expression")
                order = node.expression
            case exp.IgnoreNulls():
                ignores = True
            case exp.RespectNulls():
                pass
            case _:
                raise Unsupported(f"{node.sql(dialect='spark')} is not supported in a query")
        node = node.this
    if len(node.expressions) == 1 and isinstance(node.expressions[0], exp.IgnoreNulls):
        ignores = True
        node = exp.Anonymous(this=node.this, expressions=[node.expressions[0].this])
    return str(node.this).lower(), node, where, order, ignores


def with_named_window(node: exp.Window, windows: Mapping[str, Any]) -> exp.Window:
    name = node.args.get("alias")
    if name is None:
        return node
    found = windows.get(fold_name(str(name.this)))
    if found is None:
        raise wrong_query(f"there is no WINDOW {name.this}")
    parts = {key: found.args.get(key) for key in ("partition_by", "order", "spec")}
    return exp.Window(this=node.this, over="OVER", **parts)


def bound_of_frame(value: Any, side: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, exp.Expression):
        if isinstance(value, exp.Interval):
            return f"INTERVAL {_microseconds_of(value)} MICROSECONDS {str(side).upper()}"
        number = ordinal_of(value)
        if number is None:
            raise Unsupported(f"a frame from {value.sql(dialect='spark')} is not supported")
        return f"{number} {str(side).upper()}"
    word = str(value).upper()
    return word if word == "CURRENT ROW" else f"{word} {str(side).upper()}"


def _microseconds_of(interval: exp.Interval) -> int:
    size = _SIZES.get(str(interval.args.get("unit")).upper().removesuffix("S"))
    count = str(getattr(interval.this, "this", ""))
    if size is None or not count.isdigit():
        raise Unsupported(
            f"a frame from {interval.sql(dialect='spark')} is not supported: write one number of days, hours, minutes"
            " or seconds"
        )
    return int(count) * size


def as_group(text: str, data_type: DataType) -> str:
    """A value of GROUP BY and DISTINCT: both zeros of a float are 0.0, as Spark shows them. Raises `Unsupported` for a
    type whose values are never equal."""
    if has_package_type(data_type):
        raise Unsupported(f"GROUP BY or DISTINCT of a value of type {type_name(data_type)} is not supported")
    return f"({text} + CAST(0 AS {duckdb_type(data_type)}))" if is_floating(data_type) else text
