"""WITH RECURSIVE: a query that reads the rows of its last step, again and again until a step makes none.

In: the parsed query of WITH, and the queries before it. Out: duckdb's text of it, which counts the steps and fails
after as many as Spark takes by default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlglot import exp

from txlog.core.format.schema import fold_name, type_name
from txlog.statements.duckdb_expressions import raised
from txlog.statements.query_pivot import ReadsQueries
from txlog.statements.query_scope import QueryRows
from txlog.statements.query_tree import Unsupported, has_aggregate, with_names, without_parentheses, wrong_query

_Common = Mapping[str, tuple[str, QueryRows]]
_STEPS_MAX = 100
"""``spark.sql.cteRecursionLevelLimit``."""
_SIDES = {"LEFT": "right", "FULL": "either", "RIGHT": "left", "SEMI": "right", "ANTI": "right"}
"""On which side of a join Spark refuses the query itself."""


def names_itself(node: exp.CTE) -> bool:
    """Whether a query of WITH reads its own rows."""
    return any(_is_of(table, node) for table in node.this.find_all(exp.Table))


def recursive_query(
    binder: ReadsQueries, node: exp.CTE, names: Sequence[str], common: _Common, own: str
) -> tuple[str, QueryRows]:
    """duckdb's text of the query that it calls ``own``, and its rows.

    Raises:
        InvalidInputError: It is wrong.
        Unsupported: Spark's rows of it are not known here.
    """
    whole = node.this
    is_union = isinstance(whole, exp.Union) and not whole.args.get("distinct")
    if not is_union or any(whole.args.get(each) for each in ("order", "limit", "offset", "with_", "with")):
        raise wrong_query(
            f"the recursive query {node.alias} is a query, UNION ALL, and a query that reads {node.alias}"
        )
    first, step = whole.this, without_parentheses(whole.expression)
    if any(_is_of(table, node) for table in first.find_all(exp.Table)):
        raise wrong_query(f"the part of {node.alias} before UNION ALL reads {node.alias} itself")
    _check_step(step, node)
    begun = with_names(binder.query(first, None, common), names, node.alias)
    known = {**common, fold_name(node.alias): (own, begun)}
    next_rows = binder.query(step, None, known)
    kinds = [[kind for _, kind in rows.columns] for rows in (begun, next_rows)]
    if kinds[0] != kinds[1]:
        shown = [", ".join(map(type_name, each)) for each in kinds]
        raise Unsupported(
            f"{node.alias} begins with columns of types {shown[0]}, and its steps make {shown[1]}: CAST them"
        )
    listed = ", ".join(f"c{at}" for at in range(len(begun.columns)))
    rows, last = binder.alias(), binder.alias()
    error = raised(f"cannot compute {node.alias} in {_STEPS_MAX} steps, after which Spark stops too", "INTEGER")
    level = f"CASE WHEN {last}.step >= {_STEPS_MAX - 1} THEN {error} ELSE {last}.step + 1 END"
    text = (
        f"SELECT {listed}, 0 AS step FROM ({begun.text}) AS {binder.alias()} UNION ALL"
        f" SELECT {listed}, {level} FROM ({next_rows.text}) AS {rows}"
        f" CROSS JOIN (SELECT max(step) AS step FROM {own}) AS {last}"
    )
    return text, begun


def _is_of(table: exp.Table, node: exp.CTE) -> bool:
    return isinstance(table.this, exp.Identifier) and fold_name(table.name) == fold_name(node.alias)


def _check_step(step: Any, node: exp.CTE) -> None:
    """Raise for a step that Spark refuses, or whose rows are others there."""
    name = node.alias
    if not isinstance(step, exp.Select):
        raise Unsupported(f"a step of {name} is one SELECT that reads {name}")
    parts = ("group", "having", "qualify", "order", "limit", "offset", "with_", "with", "windows")
    has_window = any(each.find(exp.Window) is not None for each in step.expressions)
    if any(step.args.get(each) for each in parts) or has_window or any(map(has_aggregate, step.expressions)):
        raise wrong_query(f"a step of {name} takes no GROUP BY, aggregates, window functions, ORDER BY, LIMIT or WITH")
    begin = step.args.get("from_") or step.args.get("from")
    joins = [*(begin.this.args.get("joins") or ()), *(step.args.get("joins") or ())] if begin is not None else []
    sources = [] if begin is None else [begin.this, *(join.this for join in joins)]
    own = [at for at, each in enumerate(sources) if isinstance(each, exp.Table) and _is_of(each, node)]
    if len(own) != 1 or sum(_is_of(table, node) for table in step.find_all(exp.Table)) != 1:
        raise wrong_query(f"a step of {name} names {name} once, in FROM or a JOIN")
    for at, join in enumerate(joins, 1):
        words = [str(join.args.get(each) or "").upper() for each in ("side", "kind")]
        refused = {_SIDES[word] for word in words if word in _SIDES}
        where = "right" if at == own[0] else "left" if at > own[0] else ""
        if where and refused & {where, "either"}:
            raise wrong_query(f"{name} cannot be where a {' '.join(filter(None, words))} JOIN may have no row of it")
