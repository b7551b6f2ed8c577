"""SQL text to a bound expression: what the other rooms call.

In: the text of a condition or of a value, and the schema of one table or of two sides. Out: a bound, typed tree
(``tree``, ``predicates``). sqlglot parses the text. Each construct either has Spark's meaning in ANSI mode, or is
refused with an error that says what to write instead. Nothing is guessed: a DELETE must do what its author meant.

    value = parse("amount * 1.1", schema)                                   # value.type, columns_of(value)
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
from typing import TYPE_CHECKING, TypeVar, cast

import sqlglot
from sqlglot import exp

from txlog.core.format.schema import Struct
from txlog.core.predicates._grammar import ExpressionDialect, QueryDialect, is_parameter
from txlog.core.predicates._scope import Context, Scope
from txlog.core.predicates._sql_reader import SqlReader, line_and_column
from txlog.core.predicates.terms.predicate import Predicate
from txlog.core.predicates.terms.tree import Expression
from txlog.core.predicates.terms.zones import read_in
from txlog.errors import InvalidInputError

if TYPE_CHECKING:
    from typing_extensions import Unpack

Read = TypeVar("Read", bound=Expression)


def parse(sql_text: str, schema: Struct, **context: Unpack[Context]) -> Expression:
    """A bound expression from its SQL text.

    Args:
        sql_text: A value or a condition, such as ``"amount * 1.1"``.
        schema: Columns of the target, with the names that users know.
        context: What else the text may name: see `Context`.

    Raises:
        InvalidInputError: Gives the text, the place, and what to write instead.
    """
    return parse_in(sql_text, Scope(schema, **context))


def parse_predicate(sql_text: str, schema: Struct, **context: Unpack[Context]) -> Predicate:
    """A bound condition from its SQL text; arguments and errors are those of `parse`."""
    return _read(SqlReader.whole_condition, sql_text, Scope(schema, **context))


def parse_in(sql_text: str, scope: Scope) -> Expression:
    """A bound value or condition from its SQL text, which names what the scope has; errors are those of `parse`."""
    return _read(SqlReader.value, sql_text, scope)


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


def parameter_names(sql_text: str) -> frozenset[str]:
    """The names of its parameters, ``id`` for ``:id``; none if it cannot be read, which `parse` reports."""
    try:
        tokens = ExpressionDialect().tokenize(sql_text)
    except sqlglot.errors.TokenError:
        return frozenset()
    return frozenset(tokens[at + 1].text for at in range(len(tokens)) if is_parameter(tokens, at))


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
            text = token.text.replace("\\", "\\\\").replace("'", "\\'")
            raise InvalidInputError(
                f"double quotes in {sql_text!r}, at {line_and_column(sql_text, token.start)}:"
                f" Spark reads them as a string, the SQL standard as a name. Write '{text}' for the string, or"
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
