"""Spark's name for a column of a query that has none: ``count(1)``, ``(a + b)``, ``CAST(a AS INT)``.

In: the expression as it was parsed. Out: its name.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from txlog.core.format.schema import PARSED_TYPES, TIMES, type_name

__all__ = ["result_name"]

_OPERATORS: dict[str, str] = {
    **{"Add": "+", "Sub": "-", "Mul": "*", "Div": "/", "Mod": "%", "IntDiv": "div", "EQ": "=", "LT": "<", "LTE": "<="},
    **{"GT": ">", "GTE": ">=", "NullSafeEQ": "<=>", "And": "AND", "Or": "OR"},
}
_TYPES = {parsed: type_name(data_type).upper() for parsed, data_type in PARSED_TYPES.items()}


def result_name(node: exp.Expression) -> str:
    """The name of a column that is computed so."""
    operator = _OPERATORS.get(type(node).__name__)
    if operator is not None:
        return f"({result_name(node.this)} {operator} {result_name(node.expression)})"
    write = _WRITERS.get(type(node).__name__)
    return str(node.sql(dialect="spark")) if write is None else write(node)


def _listed(nodes: list[exp.Expression]) -> str:
    return ", ".join(map(result_name, nodes))


def _function(node: exp.Expression) -> str:
    name = str(node.this)
    given = node.expressions
    if name.lower() == "count" and any(isinstance(each, exp.Star) for each in given):
        return "count(1)"
    return f"{name.lower()}({_listed(given)})"


def _literal(node: exp.Expression) -> str:
    return str(node.this)


def _cast(node: exp.Expression) -> str:
    kind = node.args["to"]
    is_text = isinstance(node.this, exp.Literal) and node.this.is_string and not isinstance(node, exp.TryCast)
    if is_text and PARSED_TYPES.get(kind.this.name) in TIMES:
        return f"{_type(kind)} '{node.this.this}'"
    word = "TRY_CAST" if isinstance(node, exp.TryCast) else "CAST"
    return f"{word}({result_name(node.this)} AS {_type(kind)})"


def _type(kind: exp.Expression) -> str:
    name = _TYPES.get(kind.this.name, kind.this.name)
    parameters = ",".join(parameter.sql() for parameter in kind.expressions)
    return f"{name}({parameters})" if parameters else str(name)


def _case(node: exp.Expression) -> str:
    operand = node.this
    parts = []
    for branch in node.args["ifs"]:
        condition = result_name(branch.this)
        condition = condition if operand is None else f"({result_name(operand)} = {condition})"
        parts.append(f"WHEN {condition} THEN {result_name(branch.args['true'])}")
    default = node.args.get("default")
    parts += [] if default is None else [f"ELSE {result_name(default)}"]
    return f"CASE {' '.join(parts)} END"


def _is(node: exp.Expression) -> str:
    return f"({result_name(node.this)} IS {result_name(node.expression)})"


def _not(node: exp.Expression) -> str:
    if isinstance(node.this, exp.Is) and isinstance(node.this.expression, exp.Null):
        return f"({result_name(node.this.this)} IS NOT NULL)"
    return f"(NOT {result_name(node.this)})"


def _like(node: exp.Expression) -> str:
    word = {"Like": "LIKE", "ILike": "ILIKE"}.get(type(node).__name__)
    left, right = result_name(node.this), result_name(node.expression)
    if word is None:
        return f"RLIKE({left}, {right})"
    return f"{left} {word} {right}" if word == "LIKE" else f"ilike({left}, {right})"


def _if(node: exp.Expression) -> str:
    false = node.args.get("false")
    parts = [result_name(node.this), result_name(node.args["true"]), "NULL" if false is None else result_name(false)]
    return f"(IF({', '.join(parts)}))"


def _extract(node: exp.Expression) -> str:
    return f"extract({node.this.this} FROM {result_name(node.expression)})"


def _bracket(node: exp.Expression) -> str:
    return f"{result_name(node.this)}[{_listed(node.expressions)}]"


def _distinct(node: exp.Expression) -> str:
    return f"DISTINCT {_listed(node.expressions)}"


def _last_part(node: exp.Expression) -> str:
    return str(node.name)


_WRITERS: dict[str, Callable[[exp.Expression], str]] = {
    "Anonymous": _function,
    "Between": lambda node: f"between({result_name(node.this)}, {_listed([node.args['low'], node.args['high']])})",
    "Boolean": lambda node: str(bool(node.this)).lower(),
    "Bracket": _bracket,
    "Case": _case,
    "Cast": _cast,
    "Column": _last_part,
    "CurrentDate": lambda node: "current_date()",
    "CurrentTimestamp": lambda node: "current_timestamp()",
    "Distinct": _distinct,
    "Dot": _last_part,
    "DPipe": lambda node: f"concat({_listed([node.this, node.expression])})",
    "Exists": lambda node: "exists()",
    "Extract": _extract,
    "If": _if,
    "ILike": _like,
    "In": lambda node: f"({result_name(node.this)} IN ({_listed(node.expressions)}))",
    "Is": _is,
    "Like": _like,
    "Literal": _literal,
    "NEQ": lambda node: f"(NOT ({result_name(node.this)} = {result_name(node.expression)}))",
    "Neg": lambda node: (
        f"(- {result_name(node.this)})" if not isinstance(node.this, exp.Literal) else f"-{node.this.this}"
    ),
    "Not": _not,
    "Null": lambda node: "NULL",
    "Paren": lambda node: result_name(node.this),
    "RegexpLike": _like,
    "Subquery": lambda node: "scalarsubquery()",
    "TryCast": _cast,
}
