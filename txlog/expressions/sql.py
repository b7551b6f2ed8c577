"""SQL text to a predicate: the small part of Spark SQL that files and rows can be chosen by.

In: the text of a WHERE condition and the table's schema. Out: a bound predicate. sqlglot parses; what has no
place here (functions, arithmetic, subqueries, a column compared with a column) is refused by name, never
guessed at: a DELETE must not mean something else than its author. Taken are comparisons of a column with a
literal, AND, OR, NOT, IN, BETWEEN, IS NULL, LIKE 'prefix%' and bare boolean columns. As in Spark, "x" is a text,
`x` a name, and \\' an apostrophe inside a text.
"""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Callable
from typing import Any, cast

import sqlglot
from sqlglot import exp

from txlog.errors import InvalidInputError
from txlog.expressions.predicates import (
    And,
    Comparison,
    Constant,
    In,
    IsNull,
    Literal,
    Not,
    Or,
    Path,
    Predicate,
    StartsWith,
    bind,
    type_of,
)
from txlog.expressions.values import as_float32, parse_date, parse_timestamp
from txlog.protocol.schema import Struct

__all__ = ["parse_predicate"]

DIALECT = "databricks"

_COMPARISONS: dict[type[exp.Expression], tuple[str, str]] = {
    exp.EQ: ("=", "="),
    exp.NEQ: ("!=", "!="),
    exp.LT: ("<", ">"),
    exp.LTE: ("<=", ">="),
    exp.GT: (">", "<"),
    exp.GTE: (">=", "<="),
}
"""The operator as written, and the one that means the same with its sides exchanged."""


def parse_predicate(sql_text: str, schema: Struct) -> Predicate:
    """Parse a condition and bind it to a schema.

    Raises ``InvalidInputError`` with line and column where the text is not SQL, and naming the construct, or
    the column, where it is more than a predicate may hold.
    """
    try:
        statements = [statement for statement in sqlglot.parse(sql_text, dialect=DIALECT) if statement is not None]
        if len(statements) != 1:
            raise InvalidInputError(
                f"a predicate is one condition, such as id = 1: {sql_text!r} is {len(statements) or 'none'}"
            )
        condition = _Reader(sql_text, schema).condition(cast(exp.Expression, statements[0]))
        return bind(condition, schema)
    except sqlglot.errors.ParseError as error:
        raise InvalidInputError(f"cannot parse the predicate {sql_text!r}: {_first_fault(error)}") from None
    except sqlglot.errors.TokenError as error:
        raise InvalidInputError(f"cannot parse the predicate {sql_text!r}: {error}") from None
    except RecursionError:
        raise InvalidInputError("the predicate is nested too deeply: write a long list of values as IN (...)") from None


def _first_fault(error: sqlglot.errors.ParseError) -> str:
    if not error.errors:
        return str(error)
    fault = error.errors[0]
    # The parser names its own classes where an operand is missing.
    described = str(fault.get("description"))
    what = "an operand or a keyword is missing" if described.startswith("Required keyword") else described
    return f"{what} at line {fault.get('line')}, column {fault.get('col')}"


class _Reader:
    """Walks the tree of one text; each method takes the nodes that it knows whole and refuses the rest."""

    def __init__(self, sql_text: str, schema: Struct) -> None:
        self.sql_text = sql_text
        self.schema = schema

    def condition(self, node: exp.Expression) -> Predicate:
        operators = _COMPARISONS.get(type(node))
        if operators is not None:
            self._takes(node, "this", "expression")
            return self._comparison(node, *operators)
        match node:
            case exp.And() | exp.Or():
                return self._chain(node)
            case exp.Not():
                self._takes(node, "this")
                return Not(self.condition(node.this))
            case exp.Paren():
                self._takes(node, "this")
                return self.condition(node.this)
            case exp.Boolean():
                return Constant(bool(node.this))
            case exp.Null():
                return Constant(None)
            case exp.Column() | exp.Dot():
                return Comparison(self._path(node), "=", True)
            case exp.Between():
                self._takes(node, "this", "low", "high")
                low, high = exp.GTE(this=node.this, expression=node.args["low"]), node.args["high"]
                return And(self.condition(low), self.condition(exp.LTE(this=node.this.copy(), expression=high)))
            case exp.In():
                return self._membership(node)
            case exp.Like():
                return self._like(node)
            case exp.Is() if isinstance(node.expression, exp.Null):
                self._takes(node, "this", "expression")
                return IsNull(self._path(node.this))
        raise self._refused(node)

    def _chain(self, node: exp.Expression) -> Predicate:
        """A chain of one connector becomes a balanced tree: a thousand terms must not nest a thousand deep."""
        kind = type(node)
        terms: list[exp.Expression] = []
        waiting = [node]
        while waiting:
            term = waiting.pop()
            if type(term) is kind:
                self._takes(term, "this", "expression")
                waiting += [term.expression, term.this]
            else:
                terms.append(term)
        return _balanced([self.condition(term) for term in terms], And if kind is exp.And else Or)

    def _comparison(self, node: exp.Expression, operator: str, exchanged: str) -> Predicate:
        column, literal = node.this, node.expression
        if not _is_column(column):
            column, literal, operator = literal, column, exchanged
        if not _is_column(column):
            self._literal(column), self._literal(literal)  # whatever is no literal is the better thing to name
            raise self._refused(node, "a comparison without a column (for every row, write TRUE)")
        if _is_column(literal):
            raise self._refused(node, "a comparison of two columns (a text stands in single quotes)")
        path = self._path(column)
        value = self._literal(literal)
        if value is None:
            type_of(path, self.schema)
            return Constant(None)
        return Comparison(path, operator, value)

    def _membership(self, node: exp.Expression) -> Predicate:
        self._takes(node, "this", "expressions")
        values = [self._literal(item) for item in node.expressions]
        kept = tuple(value for value in values if value is not None)
        return In(self._path(node.this), kept, has_null=len(kept) < len(values))

    def _like(self, node: exp.Expression) -> Predicate:
        """sqlglot keeps NOT LIKE as a flag of the node in newer releases, as a NOT around it in older ones."""
        self._takes(node, "this", "expression", "negate")
        pattern = self._literal(node.expression)
        if not isinstance(pattern, str):
            raise self._refused(node)
        prefix = pattern[:-1] if pattern.endswith("%") else pattern
        if any(special in prefix for special in "%_\\"):
            raise self._refused(node, "a LIKE pattern other than 'prefix%'")
        path = self._path(node.this)
        found: Predicate = StartsWith(path, prefix) if pattern.endswith("%") else Comparison(path, "=", pattern)
        return Not(found) if node.args.get("negate") else found

    def _path(self, node: exp.Expression) -> Path:
        if isinstance(node, exp.Paren):
            return self._path(node.this)
        if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
            return (*self._path(node.this), str(node.expression.this))
        if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
            return tuple(str(part.this) for part in node.parts)
        raise self._refused(node, "something else than a column")

    def _literal(self, node: exp.Expression) -> Literal | None:
        match node:
            case exp.Null():
                return None
            case exp.Boolean():
                return bool(node.this)
            case exp.Literal():
                return str(node.this) if node.is_string else _number(str(node.this))
            case exp.Neg():
                value = self._literal(node.this)
                if isinstance(value, decimal.Decimal):
                    return value.copy_negate()  # a minus would round it to 28 digits
                if isinstance(value, (int, float)) and not isinstance(value, bool):
                    return -value
            case exp.Paren():
                return self._literal(node.this)
            case exp.HexString():
                return bytes.fromhex(str(node.this).rjust(len(str(node.this)) + len(str(node.this)) % 2, "0"))
            case exp.Cast() if isinstance(node.this, (exp.Literal, exp.Neg)):
                return self._cast(node)
            case exp.Concat():
                raise self._refused(node, "two texts side by side (inside a text, write \\' for an apostrophe)")
        raise self._refused(node)

    def _cast(self, node: exp.Expression) -> Literal:
        """A typed literal: ``DATE '2026-11-20'``, ``1.5D``, ``CAST('NaN' AS DOUBLE)``."""
        value = self._literal(node.this)
        convert = _CASTS.get(node.args["to"].this.name)
        if convert is None or value is None:
            raise self._refused(node)
        try:
            return convert(value)
        except (ValueError, TypeError, ArithmeticError):
            raise self._refused(node, "a literal that its type cannot hold") from None

    def _takes(self, node: exp.Expression, *names: str) -> None:
        """Refuse a node that says more than we read: a flag overlooked would change what is deleted."""
        for name, value in node.args.items():
            if name not in names and value not in (None, False, [], ""):
                raise self._refused(node)

    def _refused(self, node: exp.Expression, what: str | None = None) -> InvalidInputError:
        construct = what or f"{type(node).__name__.upper()}"
        if re.fullmatch(r"\d{4} - \d\d? - \d\d?", node.sql(dialect=DIALECT)):
            construct = "a date without quotes"
        return InvalidInputError(
            f"a predicate cannot hold {construct}: {node.sql(dialect=DIALECT)}. It may compare columns with"
            " literals (=, !=, <, <=, >, >=, BETWEEN, IN, LIKE 'prefix%', IS NULL), joined by AND, OR, NOT"
        )


def _balanced(terms: list[Predicate], connect: Callable[[Predicate, Predicate], Predicate]) -> Predicate:
    if len(terms) == 1:
        return terms[0]
    middle = len(terms) // 2
    return connect(_balanced(terms[:middle], connect), _balanced(terms[middle:], connect))


def _is_column(node: exp.Expression) -> bool:
    while isinstance(node, exp.Paren):
        node = node.this
    return isinstance(node, (exp.Column, exp.Dot))


def _number(text: str) -> Literal:
    """As Spark types it: 1 an integer, 1.5 a decimal, 1e3 a double."""
    if text.isdigit():
        return int(text)
    return float(text) if "e" in text.lower() else decimal.Decimal(text)


def _whole(value: Any) -> int:
    number = decimal.Decimal(value)
    if number != int(number):
        raise ValueError("not a whole number")
    return int(number)


def _zoneless(value: Any) -> datetime.datetime:
    moment = parse_timestamp(value)
    if moment.tzinfo is not None:
        raise ValueError("a zone in a timestamp without one")
    return moment


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value


_CASTS: dict[str, Callable[[Any], Literal]] = {
    "DATE": parse_date,
    "TIMESTAMP": parse_timestamp,
    "TIMESTAMPTZ": parse_timestamp,
    "TIMESTAMPLTZ": parse_timestamp,
    "TIMESTAMPNTZ": _zoneless,
    "TINYINT": _whole,
    "SMALLINT": _whole,
    "INT": _whole,
    "BIGINT": _whole,
    "FLOAT": lambda value: as_float32(float(value)),
    "DOUBLE": float,
    "DECIMAL": decimal.Decimal,
    "TEXT": _text,
    "VARCHAR": _text,
}
