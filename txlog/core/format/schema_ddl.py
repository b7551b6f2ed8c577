"""The columns of a table in DDL, as Spark writes them: ``id bigint not null, day date generated always as (date(at))``.

In: the string between the parentheses of a CREATE TABLE in Spark's SQL. Out: a ``Struct``, or ``InvalidInputError``
that says what is not supported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sqlglot
from msgspec.structs import replace
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from txlog.core.format import schema as delta
from txlog.core.format.identity import identity_metadata
from txlog.core.format.schema import Array, DataType, Decimal, Field, Map, Struct, backquoted, member_name
from txlog.errors import InvalidInputError

_PRIMITIVES = {**delta.PARSED_TYPES, "VARBINARY": delta.BINARY}

_LIMITED = {"VARCHAR": "varchar", "CHAR": "char"}
"""Types of text with a length, which Delta stores as strings."""

_NAMES = ", ".join(dict.fromkeys(map(delta.type_name, delta.PARSED_TYPES.values())))
_TYPES = f"{_NAMES}, decimal(p,s), varchar(n), char(n), array<>, map<,> and struct<name: type>"


def parse_columns(text: str) -> Struct:
    """``"id bigint not null, tags array<string>"`` -> ``Struct``; raises ``InvalidInputError``.

    The list may be in parentheses, as in CREATE TABLE.
    """
    if text.strip().startswith("(") and text.strip().endswith(")"):
        text = text.strip()[1:-1]
    sql = f"CREATE TABLE t ({text}\n)"
    try:
        statement = sqlglot.parse_one(sql, dialect="databricks")
    except ParseError as error:
        near = (error.errors[0].get("highlight") or "its end") if error.errors else "its end"
        raise InvalidInputError(
            f"the column list {text!r} cannot be read, near {near}: write 'name type, name type not null'; types are"
            f" {_TYPES}"
        ) from None
    except TokenError as error:
        raise InvalidInputError(f"the column list {text!r} cannot be read: {error}") from None
    columns = statement.this.expressions if isinstance(statement.this, exp.Schema) else []
    if not columns or not all(isinstance(column, exp.ColumnDef) for column in columns):
        raise InvalidInputError(
            f"the column list {text!r} is not of the form 'name type, name type not null'; types are {_TYPES}"
        )
    kinds = (exp.ComputedColumnConstraint, exp.DefaultColumnConstraint, exp.GeneratedAsIdentityColumnConstraint)
    if not any(isinstance(rule.kind, kinds) for column in columns for rule in column.constraints):
        return Struct(tuple(_with_length(_column(column), column) for column in columns))
    expressions = _Expressions(sql)
    found = Struct(tuple(_with_length(_column(column, expressions), column) for column in columns))
    expressions.check_all_taken()
    return found


def parse_types(types: Mapping[str, str]) -> Struct:
    """``{"id": "bigint not null", "tags": "array<string>"}`` -> ``Struct``; raises ``InvalidInputError``."""
    fields: list[Field] = []
    for name, text in types.items():
        found = parse_columns(f"{backquoted(str(name))} {text}").fields
        if len(found) != 1:
            raise InvalidInputError(f"column {name!r} must have one type, has {text!r}; types are {_TYPES}")
        fields += found
    return Struct(tuple(fields))


class _Expressions:
    """The expressions of generated columns and defaults, in order, in the words of the DDL.

    sqlglot would give them in its own words, with the functions of some engine.
    """

    def __init__(self, sql: str) -> None:
        self._sql = sql
        self._tokens: Sequence[Any] = sqlglot.tokenize(sql, dialect="databricks")
        self._found = list(self._expressions())

    def take(self, rule: str, column: str) -> str:
        """The next one, which is a ``rule`` of this column."""
        if not self._found or self._found[0][0] != rule:
            raise self._unclear(f"the {rule} expression of column {column!r}")
        return self._found.pop(0)[1]

    def check_all_taken(self) -> None:
        """Raises ``InvalidInputError`` if there are more expressions than columns that have one."""
        if self._found:
            raise self._unclear(self._found[0][1] or f"an expression after {self._found[0][0].upper()}")

    def _unclear(self, what: str) -> InvalidInputError:
        return InvalidInputError(
            f"{what} cannot be found in {self._sql!r}: put names that are words of SQL into backticks, or give the JSON"
            " of a Delta schema"
        )

    def _expressions(self) -> Iterator[tuple[str, str]]:
        for at in range(len(self._tokens)):
            if self._words(at, 3) == ["GENERATED", "ALWAYS", "AS"] and self._words(at + 3, 1) == ["("]:
                yield "generated", self._text(at + 4, self._end(at + 4))
            elif self._words(at, 1) == ["DEFAULT"] and self._words(max(at - 1, 0), 1) != ["BY"]:
                yield "default", self._text(at + 1, self._end(at + 1, (",", "NOT", "COMMENT", "GENERATED")))

    def _words(self, at: int, count: int) -> list[str]:
        """This many tokens in capitals; "" for quoted ones."""
        tokens = self._tokens[at : at + count]
        return ["" if each.token_type.name in ("STRING", "IDENTIFIER") else each.text.upper() for each in tokens]

    def _end(self, at: int, stops: tuple[str, ...] = ()) -> int:
        """The token after an expression: the parenthesis that closes what is around it, or one of ``stops``."""
        depth = 0
        for end in range(at, len(self._tokens)):
            word = self._words(end, 1)[0]
            if not depth and (word == ")" or (word in stops and end > at)):
                return end
            depth += (word == "(") - (word == ")")
        return len(self._tokens)

    def _text(self, start: int, end: int) -> str:
        if not start < end <= len(self._tokens):
            return ""
        return self._sql[self._tokens[start].start : self._tokens[end - 1].end + 1]


def _column(column: exp.ColumnDef, expressions: _Expressions | None = None) -> Field:
    name = str(column.name)
    if column.kind is None:
        raise InvalidInputError(f"column {name!r} has no type; types are {_TYPES}")
    nullable, metadata = True, {}
    for constraint in column.constraints:
        if isinstance(constraint.kind, exp.NotNullColumnConstraint):
            nullable = bool(constraint.kind.args.get("allow_null"))
        elif isinstance(constraint.kind, exp.CommentColumnConstraint):
            metadata["comment"] = constraint.kind.this.name
        elif isinstance(constraint.kind, exp.ComputedColumnConstraint) and expressions is not None:
            metadata["delta.generationExpression"] = expressions.take("generated", name)
        elif isinstance(constraint.kind, exp.DefaultColumnConstraint) and expressions is not None:
            metadata["CURRENT_DEFAULT"] = expressions.take("default", name)
        elif isinstance(constraint.kind, exp.GeneratedAsIdentityColumnConstraint):
            metadata |= _identity(constraint.kind, name)
        else:
            raise InvalidInputError(
                f"column {name!r}: only NOT NULL, COMMENT, GENERATED ALWAYS AS (expression), DEFAULT and GENERATED"
                f" ALWAYS or BY DEFAULT AS IDENTITY are understood, and the last three not in structs: not"
                f" {constraint.sql()}"
            )
    return Field(name, _type(column.kind, name), nullable, metadata)


def _with_length(field: Field, column: exp.ColumnDef) -> Field:
    """The column with its type in Spark's words, if it has a length of text at any depth: in Delta it is a string."""
    if column.kind is None or not any(_is_limited(kind) for kind in column.kind.find_all(exp.DataType)):
        return field
    return replace(field, metadata={**field.metadata, delta.TEXT_LENGTH_KEY: _in_spark(column.kind)})


def _is_limited(kind: exp.DataType) -> bool:
    return kind.this.name in _LIMITED and bool(kind.expressions)


def _in_spark(kind: exp.DataType) -> str:
    """As Spark writes it: ``struct<a:varchar(3),b:int>``, with the names in backticks that its parser does not read."""
    name = kind.this.name
    if _is_limited(kind):
        return f"{_LIMITED[name]}({kind.expressions[0].name})"
    if name == "STRUCT":
        members = (f"{member_name(each.name)}:{_in_spark(each.kind)}" for each in kind.expressions)
        return f"struct<{','.join(members)}>"
    if name in ("ARRAY", "MAP"):
        return f"{name.lower()}<{','.join(map(_in_spark, kind.expressions))}>"
    return delta.type_name(_type(kind, ""))


def _identity(kind: exp.GeneratedAsIdentityColumnConstraint, column: str) -> dict[str, Any]:
    """``(START WITH 5 INCREMENT BY -2)``; both are 1 if they are left out, as in Spark."""
    given = kind.args.get("start"), kind.args.get("increment")
    start, step = (1 if each is None else _whole_number(each) for each in given)
    if start is None or step is None:
        raise InvalidInputError(f"column {column!r}: START WITH and INCREMENT BY take whole numbers: not {kind.sql()}")
    return identity_metadata(start=start, step=step, takes_values=not kind.this)


def _whole_number(given: exp.Expression) -> int | None:
    try:
        return int(given.sql(dialect="spark").replace(" ", ""))
    except ValueError:
        return None


def _type(kind: Any, column: str) -> DataType:
    name = kind.this.name if isinstance(kind, exp.DataType) else ""
    parameters = kind.expressions if isinstance(kind, exp.DataType) else []
    if name == "DECIMAL":
        return _decimal(parameters, column)
    if name == "ARRAY" and len(parameters) == 1:
        return Array(_type(parameters[0], column))
    if name == "MAP" and len(parameters) == 2:
        return Map(_type(parameters[0], column), _type(parameters[1], column))
    if name == "STRUCT" and parameters and all(isinstance(member, exp.ColumnDef) for member in parameters):
        return Struct(tuple(_column(member) for member in parameters))
    if name in _LIMITED and len(parameters) == 1:
        if parameters[0].name.isdecimal() and int(parameters[0].name) > 0:
            return delta.STRING
        raise InvalidInputError(f"column {column!r}: {kind.sql()} must have a length of at least 1")
    if name in _PRIMITIVES and not parameters:
        return _PRIMITIVES[name]
    raise InvalidInputError(f"column {column!r}: {kind.sql()} is not a type of Delta tables; types are {_TYPES}")


def _decimal(parameters: list[Any], column: str) -> Decimal:
    numbers = [int(parameter.name) for parameter in parameters]
    precision, scale = [*numbers, *(10, 0)[len(numbers) :]]
    if not (1 <= precision <= 38 and 0 <= scale <= precision):
        raise InvalidInputError(
            f"column {column!r}: decimal({precision},{scale}) must have 0 <= scale <= precision <= 38"
        )
    return Decimal(precision, scale)
