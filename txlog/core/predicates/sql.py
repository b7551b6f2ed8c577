"""SQL text to a bound expression: what the other rooms call.

In: the text of a condition or of a value, and the schema of one table or of two sides. Out: a bound, typed tree
(``tree``, ``predicates``). sqlglot parses the text. Each construct either has Spark's meaning in ANSI mode, or is
refused with an error that says what to write instead. Nothing is guessed: a DELETE must do what its author meant.

    value = parse("amount * 1.1", schema)                                   # value.type, columns_of(value)
    stored = assign("amount * 1.1", field, schema)                          # checked cast to the column's type
    where = parse_predicate("day >= '2026-11-20' AND upper(s) = 'A'", schema)
    on = parse_predicate("t.id = s.id", schema, source=rows, target_alias="t", source_alias="s")
    evaluate(value, batch); evaluate(on, target_batch, source_batch)        # pyarrow arrays

A string is in single quotes; ``''`` or ``\\'`` inside it is an apostrophe, and a backslash escapes as in Spark.
Backticks quote names. Double quotes are refused: Spark takes them for a string, the SQL standard for a name.
"""

from __future__ import annotations

import datetime
import functools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, cast

import sqlglot
from sqlglot import exp

from txlog.core.format.schema import DATE, STRING, TIMESTAMP, TIMESTAMP_NTZ, Field, Struct, type_name
from txlog.core.predicates.arrow_input import is_arrow_expression, read_arrow_expression
from txlog.core.predicates.build import assigned, lit
from txlog.core.predicates.grammar import ExpressionDialect, QueryDialect
from txlog.core.predicates.predicate import Column, Predicate, bind
from txlog.core.predicates.sql_reader import Scope, SqlReader, line_and_column
from txlog.core.predicates.tree import Expression, Value
from txlog.core.predicates.types import is_numeric
from txlog.core.predicates.zones import read_in
from txlog.core.util.arguments import described
from txlog.errors import InvalidInputError

if TYPE_CHECKING:
    from typing_extensions import Required, Unpack

__all__ = [
    "Context",
    "as_string",
    "assign",
    "bind_value",
    "parse",
    "parse_predicate",
    "parse_stored_condition",
    "parse_stored_value",
]

Read = TypeVar("Read", bound=Expression)

_WRITTEN_IN_QUOTES = (STRING, DATE, TIMESTAMP, TIMESTAMP_NTZ)
_PLAIN_NUMBER = re.compile(r"\s*[+-]?[\d.]+\s*")


class Context(TypedDict, total=False):
    """What an SQL text may name besides the columns of the target.

    Attributes:
        source: Columns of the source, if there is one.
        target_alias: The name before the dot of a target column; by default none, ``target`` if there is a source.
        source_alias: The same for the source, by default ``source``.
        zone: The time zone of times without one, of days and of hours (`time_zones.zone_name`).
        now: The value of ``current_timestamp()`` and ``current_date()``; without it they are refused.
    """

    zone: Required[str]
    source: Struct | None
    target_alias: str | None
    source_alias: str | None
    now: datetime.datetime | None


def parse(sql_text: str, schema: Struct, **context: Unpack[Context]) -> Expression:
    """A bound expression from its SQL text.

    Args:
        sql_text: A value or a condition, such as ``"amount * 1.1"``.
        schema: Columns of the target, with the names that users know.
        context: What else the text may name: see `Context`.

    Raises:
        InvalidInputError: Gives the text, the place, and what to write instead.
    """
    return _read(SqlReader.value, sql_text, Scope(schema, **context))


def parse_predicate(sql_text: str, schema: Struct, **context: Unpack[Context]) -> Predicate:
    """A bound condition from its SQL text; arguments and errors are those of `parse`."""
    return _read(SqlReader.condition, sql_text, Scope(schema, **context))


def parse_stored_condition(sql_text: str, schema: Struct, zone: str) -> Predicate:
    """A bound condition from the text that a table stores, in Spark's dialect: double quotes enclose strings.

    As in Spark, it is the writer's ``zone`` that its times are in.

    Raises:
        InvalidInputError: What `parse` raises.
    """
    return _read(SqlReader.condition, sql_text, Scope(schema, zone=zone), QueryDialect)


def parse_stored_value(sql_text: str, schema: Struct, zone: str, *, now: datetime.datetime | None = None) -> Expression:
    """The same for a value. ``now`` is the value of ``current_timestamp()``; without it the function is refused."""
    return _read(SqlReader.value, sql_text, Scope(schema, zone=zone, now=now), QueryDialect)


def _read(
    read: Callable[[SqlReader, exp.Expression], Read],
    sql_text: str,
    scope: Scope,
    dialect: type[ExpressionDialect] = ExpressionDialect,
) -> Read:
    try:
        with read_in(scope.zone):
            return read(SqlReader(sql_text, scope), _parsed(sql_text, dialect))
    except RecursionError:
        raise _too_deep() from None


def as_string(sql_text: str) -> str:
    """The end of an error about an SQL text: how to write it as a string, if it looks like one without its quotes."""
    is_word = sql_text.replace(" ", "").isalnum()
    return f". For the string {sql_text}, write \"'{sql_text}'\"" if is_word else ""


def bind_value(value: Any, schema: Struct, **context: Unpack[Context]) -> Expression:
    """A bound expression from what users pass as a value.

    A string is SQL text, as in the ``updates`` of deltalake and the ``set`` of Delta: one rule, whatever the columns
    are called. A string of numpy, which usually is a value of a row, is refused. Every other Python value is a literal.

    Args:
        value: SQL text, `col`, a condition, a bound expression, a ``pyarrow.compute.Expression`` that has an SQL
            equivalent, or a value that `lit` takes.
        schema: Columns of the target, with the names that users know.
        context: What else an SQL text may name: see `Context`.

    Raises:
        InvalidInputError: What `parse` raises. For a word that is not a column, it shows how to write the string.
    """
    if isinstance(value, str):
        if type(value).__module__.partition(".")[0] == "numpy":
            raise InvalidInputError(
                f"{str(value)!r} is a string of numpy, so it may be data, and a string is SQL here: pass"
                f" txlog.lit({str(value)!r}) for the string itself, or str(...) of it for SQL"
            )
        value = str.__str__(value)
        try:
            return parse(value, schema, **context)
        except InvalidInputError as error:
            hint = as_string(value)
            if not hint:
                raise
            raise InvalidInputError(f"{error}{hint}") from None
    if isinstance(value, Column):
        return Scope(schema, **context).find(value.path)
    if is_arrow_expression(value):
        return read_arrow_expression(value, Scope(schema, **context).find)
    if isinstance(value, Predicate):
        return bind(value, schema, Scope(schema, **context).zone)
    if isinstance(value, Value) and value.written is not None:
        value = value.written  # of `lit`, which knows no zone
    if isinstance(value, Expression):
        return value
    with read_in(Scope(schema, **context).zone):
        return lit(value)


def assign(value: Any, column: Field, schema: Struct, **context: Unpack[Context]) -> Expression:
    """A column's value as UPDATE SET and INSERT store it: cast to the column's type, and checked.

    SQL store assignment (Spark's ``ANSI`` policy): numbers go into any numeric type, decimals are rounded to the
    column's scale, and a number that does not fit fails at evaluation; a string is not a number. The caller checks
    whether NULL may be stored.

    Args:
        value: What `bind_value` takes.
        column: The column that takes the value.
        schema: Columns of the target, with the names that users know.
        context: What else an SQL text may name: see `Context`.

    Raises:
        InvalidInputError: What `bind_value` raises; or the column cannot store a value of this type.
    """
    try:
        bound = bind_value(value, schema, **context)
    except InvalidInputError as error:
        if isinstance(value, str):
            raise
        raise InvalidInputError(f"column {column.name} cannot be set to {described(value)}: {error}") from None
    if isinstance(value, str) and column.type in _WRITTEN_IN_QUOTES and is_numeric(bound.type):
        _refuse_a_sum_of_literals(value, column)
    try:
        with read_in(Scope(schema, **context).zone):
            return assigned(bound, column.type)
    except ValueError as error:
        raise InvalidInputError(
            f"column {column.name} ({type_name(column.type)}) cannot be set to {bound}: {error}"
        ) from None


def _refuse_a_sum_of_literals(sql_text: str, column: Field) -> None:
    """In SQL ``2026-11-01`` is the number 2014, which is never meant for a string or a date column."""
    if not (any(each.isalpha() or each in "'`" for each in sql_text) or _PLAIN_NUMBER.fullmatch(sql_text)):
        quoted = "'" + sql_text + "'"
        raise InvalidInputError(
            f"column {column.name} is a {type_name(column.type)}, and {sql_text} is arithmetic on numbers: for the"
            f' {type_name(column.type)} {sql_text}, write "{quoted}"'
            + (f"; for the number as a string, CAST({sql_text} AS STRING)" if column.type == STRING else "")
        )


def _parsed(sql_text: str, dialect: type[ExpressionDialect] = ExpressionDialect) -> exp.Expression:
    try:
        if dialect is ExpressionDialect:
            _refuse_double_quotes(sql_text)
        text = f"({sql_text}\n)" if _begins_with_a_column(sql_text) else sql_text
        statements = [statement for statement in sqlglot.parse(text, dialect=dialect) if statement is not None]
    except sqlglot.errors.ParseError as error:
        raise InvalidInputError(f"cannot parse the expression {sql_text!r}: {_first_fault(error)}") from None
    except sqlglot.errors.TokenError as error:
        raise InvalidInputError(f"cannot parse the expression {sql_text!r}: {_token_fault(error)}") from None
    if not statements:
        raise InvalidInputError(
            f"the expression {sql_text!r} is empty: write one condition, such as id = 1, or one value;"
            " the SQL for an empty string is ''"
        )
    if len(statements) > 1:
        raise InvalidInputError(
            f"an expression is one condition, such as id = 1, or one value: {sql_text!r} contains {len(statements)}"
        )
    return cast(exp.Expression, statements[0])


def _begins_with_a_column(sql_text: str) -> bool:
    """Whether the first word would begin a statement, such as COMMENT or SET, and is the name of a column here."""
    found = _FIRST_OF_CONDITION.match(sql_text)
    return found is not None and found[1].upper() in _statement_words()


@functools.cache
def _statement_words() -> frozenset[str]:
    begins = {*ExpressionDialect.parser_class.STATEMENT_PARSERS, *ExpressionDialect.tokenizer_class.COMMANDS}
    return frozenset(word for word, kind in ExpressionDialect.tokenizer_class.KEYWORDS.items() if kind in begins)


_FIRST_OF_CONDITION = re.compile(r"\s*(\w+)\s*(?:[=<>!+\-*/%|.,]|$|(?:is|in|not|like|between|and|or)\b)", re.IGNORECASE)


def _refuse_double_quotes(sql_text: str) -> None:
    if '"' not in sql_text:
        return
    for token in ExpressionDialect().tokenize(sql_text):
        if sql_text[token.start] == '"':
            raise InvalidInputError(
                f"double quotes in {sql_text!r}, at {line_and_column(sql_text, token.start)}:"
                f" Spark reads them as a string, the SQL standard as a name. Write '{token.text}' for the string, or"
                f" `{token.text}` for the column"
            )


def _token_fault(error: sqlglot.errors.TokenError) -> str:
    # The tokenizer chains its reason, "Missing ' from 1:6", to an error that only quotes the preceding text.
    reason = str(error.__cause__ or error)
    return f"the closing {reason.split()[1]} is missing" if reason.startswith("Missing ") else reason


def _first_fault(error: sqlglot.errors.ParseError) -> str:
    if not error.errors:
        return str(error)
    fault = error.errors[0]
    # If an operand is missing, the parser's message names sqlglot's classes.
    described = str(fault.get("description"))
    what = "an operand or a keyword is missing" if described.startswith("Required keyword") else described
    return f"{what} at line {fault.get('line')}, column {fault.get('col')}"


def _too_deep() -> InvalidInputError:
    return InvalidInputError("the expression is nested too deeply: write a long list of values as IN (...)")
