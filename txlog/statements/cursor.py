"""A position in the tokens of a statement: what each statement's reader moves forward.

In: SQL text in Spark's words, and values for its ``:parameters``. Out: words, names, literals, and the texts of
conditions, values and queries as they were written. An expression is never taken apart here: a command gets its text,
as from Python. Whatever a reader does not expect is refused, with its line and column.
"""

from __future__ import annotations

import datetime
import decimal
import itertools
import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias, TypeVar

import pyarrow as pa
import sqlglot
from sqlglot import Token, TokenType
from sqlglot.dialects.databricks import Databricks
from sqlglot.dialects.duckdb import DuckDB

from txlog.core.format.scalars import plain, scalar_type
from txlog.core.format.schema import TIMES, DataType, backquoted, timestamp_of, type_name
from txlog.core.predicates import QueryDialect, float_text, is_parameter, lit
from txlog.core.predicates.terms.tree import Value
from txlog.core.util import cached_property, described, invalid, pattern
from txlog.errors import InvalidInputError

Read = TypeVar("Read")
Dialect: TypeAlias = Literal["spark", "duckdb"]
"""Whose SQL a text is."""
_OPENS, _CLOSES = "([{", ")]}"
_WITH_ANGLES = ("ARRAY", "MAP", "STRUCT")
_TIME_NAMES = tuple(each.name for each in TIMES)
_NUMBER = pattern(r"\d+(?:\.\d*)?|\.\d+")
_UNIT = pattern(r"(?:MICROSECOND|MILLISECOND|SECOND|MINUTE|HOUR|DAY|WEEK|MONTH|YEAR)S?")


class _Dialect(QueryDialect):
    """Spark's tokens. Each word is one, and none begins a command whose rest is one."""

    class Tokenizer(QueryDialect.Tokenizer):
        COMMANDS = set()  # noqa: RUF012
        KEYWORDS = {word: kind for word, kind in Databricks.Tokenizer.KEYWORDS.items() if " " not in word}  # noqa: RUF012
        NUMERIC_LITERALS = {}  # noqa: RUF012


class DuckdbDialect(DuckDB):
    """duckdb's SQL, in which backquotes too enclose the name of a table."""

    class Tokenizer(DuckDB.Tokenizer):
        IDENTIFIERS = ['"', "`"]  # noqa: RUF012


class _DuckdbWords(DuckdbDialect):
    """The tokens of duckdb's SQL, in which each word is one."""

    class Tokenizer(DuckdbDialect.Tokenizer):
        COMMANDS = set()  # noqa: RUF012
        KEYWORDS = {word: kind for word, kind in DuckDB.Tokenizer.KEYWORDS.items() if " " not in word}  # noqa: RUF012


def read_script(text: str, parameters: Mapping[str, object] | None = None, dialect: Dialect = "spark") -> list[Cursor]:
    """A cursor for each statement of a script; statements end with a semicolon.

    Raises InvalidInputError for text that has no tokens, and for a parameter without a value.
    """
    if not isinstance(text, str) or not text.strip():
        raise invalid("text", text, "an SQL statement, or several with a semicolon after each")
    try:
        tokens = sqlglot.tokenize(text, dialect=_DuckdbWords if dialect == "duckdb" else _Dialect)
    except sqlglot.errors.TokenError as error:
        cause = error.__cause__ or error
        why = "a comment is not closed: add */" if isinstance(cause, IndexError) else cause
        raise InvalidInputError(f"the SQL text cannot be read: {why}") from None
    script = _Script(text, parameters or {}, dialect)
    found, first = [], 0
    for at, token in [*enumerate(tokens), (len(tokens), None)]:
        if token is None or token.token_type is TokenType.SEMICOLON:
            if at > first:
                found.append(Cursor(script, tokens[first:at]))
            first = at + 1
    if not found:
        raise invalid("text", text, "an SQL statement, or several with a semicolon after each")
    if script.parameters:
        used = set().union(*(cursor.parameters() for cursor in found))
        unused = [name for name in script.parameters if name not in used]
        if unused:
            raise InvalidInputError(f"the SQL text has no :{unused[0]}, for which there is a value")
    return found


_NO_SUBQUERY = (
    "there is no subquery here: WHERE of DELETE and UPDATE takes them, and SET of UPDATE. For a MERGE, make a column of"
    " it in the source: USING (SELECT *, k IN (SELECT ...) AS is_known FROM ...) AS s"
)


class _Script:
    """The whole text, and the values of its parameters: as they were given, and as literals of SQL."""

    def __init__(self, text: str, parameters: Mapping[str, object], dialect: Dialect) -> None:
        if not isinstance(parameters, Mapping):
            raise invalid("parameters", parameters, 'values by name, such as {"id": 7} for :id')
        self.text, self.dialect = text, dialect
        written = quoted if dialect == "spark" else _in_duckdb
        parameters = {str(name): _values(each) for name, each in parameters.items()}
        self.parameters = {
            name: [_plain(each, f":{name}") for each in value] if isinstance(value, list) else _plain(value, f":{name}")
            for name, value in parameters.items()
        }
        self.literals = {
            name: ", ".join(written(each, f":{name}") for each in (value if isinstance(value, list) else [value]))
            for name, value in parameters.items()
        }

    def line_and_column(self, at: int) -> str:
        before = bisect_left(self._line_ends, at)
        return f"line {before + 1}, column {at - (self._line_ends[before - 1] if before else -1)}"

    @cached_property
    def _line_ends(self) -> list[int]:
        return [at for at, sign in enumerate(self.text) if sign == "\n"]


Qualifier: TypeAlias = tuple[tuple[str, ...], str]
"""A table's name or alias, and the text in its place, with the dot: empty if a column is enough."""


class Cursor:
    """The tokens of one statement, or of a part of it in parentheses."""

    def __init__(
        self,
        script: _Script,
        tokens: Sequence[Token],
        qualifiers: tuple[Qualifier, ...] = (),
        common_queries: Sequence[Token] = (),
    ) -> None:
        self._script = script
        self._tokens = tokens
        self._at = 0
        self.qualifiers = qualifiers
        """What texts have otherwise in front of the name of a column."""
        self.common_queries = common_queries
        """``WITH c AS (...)`` in front of the statement, whose query may name c."""

    @property
    def dialect(self) -> Dialect:
        return self._script.dialect

    # --- words ----------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._tokens) - self._at

    def copy(self) -> Cursor:
        """Another cursor at the same place."""
        return Cursor(self._script, self._tokens[self._at :], self.qualifiers, self.common_queries)

    def behind_common_queries(self) -> Cursor:
        """What is left, with the queries in front of the statement before it. Moves to the end."""
        left, self._at = self._tokens[self._at :], len(self._tokens)
        return Cursor(self._script, [*self.common_queries, *left], self.qualifiers)

    def common_queries_alone(self) -> Cursor:
        """The queries in front of the statement."""
        return Cursor(self._script, self.common_queries)

    def take_common_queries(self) -> None:
        """Move behind ``WITH c AS (...), ...``, which `common_queries` is from then on."""
        begin = self._at
        self.expect("WITH")
        self.take("RECURSIVE")
        self.list(_common_query)
        self.common_queries = self._tokens[begin : self._at]

    @property
    def is_at_end(self) -> bool:
        return self._at >= len(self._tokens)

    def word(self, ahead: int = 0) -> str:
        """A word or sign in capitals; "" for what is quoted, and at the end."""
        at = self._at + ahead
        if at >= len(self._tokens) or self._tokens[at].token_type in (TokenType.STRING, TokenType.IDENTIFIER):
            return ""
        return self._tokens[at].text.upper()

    def looks_at(self, *words: str) -> bool:
        return all(self.word(ahead) == word for ahead, word in enumerate(words))

    def take(self, *words: str) -> bool:
        """Move behind these words, if they are next."""
        if not self.looks_at(*words):
            return False
        self._at += len(words)
        return True

    def take_one(self, *words: str) -> str | None:
        """Move behind the next word, if it is one of these."""
        return next((word for word in words if self.take(word)), None)

    def expect(self, *words: str) -> None:
        for word in words:
            if not self.take(word):
                raise self.refused(f"expected {' '.join(words)}")

    def expect_end(self) -> None:
        if not self.is_at_end:
            raise self.refused("expected the end of the statement")

    def refused(self, why: str) -> InvalidInputError:
        """The error with the place of the next token, to raise."""
        return InvalidInputError(f"the SQL text cannot be run, at {self.place()}: {why}; nothing was run")

    def place(self) -> str:
        text = self._script.text
        if self.is_at_end:
            last = self._tokens[-1].end + 1 if self._tokens else len(text)
            return f"{self._script.line_and_column(last)}, the end"
        token = shown_to = self._tokens[self._at]
        if token.token_type is TokenType.COLON and self._at + 1 < len(self._tokens):  # a colon alone says nothing
            shown_to = self._tokens[self._at + 1]
        return f"{self._script.line_and_column(token.start)}, {text[token.start : shown_to.end + 1][:40]}"

    # --- names and literals -----------------------------------------------------------------------------------------

    def name(self, what: str = "a name") -> str:
        """One part of a name: a word, or anything in backquotes."""
        token = None if self.is_at_end else self._tokens[self._at]
        is_word = token is not None and (token.text[:1].isalpha() or token.text[:1] == "_")
        if token is None or not (
            token.token_type is TokenType.IDENTIFIER or (is_word and token.token_type is not TokenType.STRING)
        ):
            raise self.refused(f"expected {what}")
        self._at += 1
        return token.text

    def names(self, what: str = "a name") -> tuple[str, ...]:
        """The parts of a name with dots."""
        found = [self.name(what)]
        while self.take("."):
            found.append(self.name(what))
        return tuple(found)

    def column(self) -> str:
        """A column or a field of a struct, as `Table` takes it."""
        return ".".join(backquoted(each) if _needs_quotes(each) else each for each in self.names("a column"))

    def key(self) -> str:
        """The key of a property: words with dots, or a string."""
        return self.string() if self.is_at_string() else ".".join(self.names("a key"))

    def string(self, what: str = "a string") -> str:
        if self.is_at_string():
            self._at += 1
            return self._tokens[self._at - 1].text
        name = self._parameter_at(self._at)
        if name is None:
            raise self.refused(f"expected {what}, in quotes")
        value = self._script.parameters[name]
        if not isinstance(value, str):
            raise self.refused(f"expected {what}, and its value is {value!r}")
        self._at += 2
        return value

    def string_or_null(self) -> str | None:
        name = self._parameter_at(self._at)
        if name is None or self._script.parameters[name] is not None:
            return None if self.take("NULL") else self.string("a string or NULL")
        self._at += 2
        return None

    def is_at_string(self) -> bool:
        return not self.is_at_end and self._tokens[self._at].token_type is TokenType.STRING

    def number(self, what: str = "a number") -> float:
        """A number without a sign; as a parameter it may be text, which all values from a command line are."""
        name = self._parameter_at(self._at)
        value = self.word() if name is None else self._script.parameters[name]
        is_number = isinstance(value, (int, float, decimal.Decimal)) and not isinstance(value, bool)
        if not (is_number or (isinstance(value, str) and _NUMBER.fullmatch(value))):
            raise self.refused(f"expected {what}" + ("" if name is None else f", and its value is {value!r}"))
        found = float(value)  # type: ignore[arg-type]
        if not math.isfinite(found) or found < 0:
            raise self.refused(f"expected {what}, not negative, and its value is {value!r}")
        self._at += 1 if name is None else 2
        return found

    def whole_number(self, what: str = "a whole number") -> int:
        at, found = self._at, self.number(what)
        if not found.is_integer():
            self._at = at
            raise self.refused(f"expected {what}")
        return int(found)

    # --- texts ------------------------------------------------------------------------------------------------------

    def text(self, what: str, *stops: str, is_type: bool = False) -> str:
        """The text up to the end, or to one of ``stops`` outside parentheses: words such as ``WHERE`` or ``SET DATA``.

        Strings are in single quotes, comments are left out, and parameters are values. With ``is_type``, the text
        begins with a type, and what is between ``<`` and ``>`` ends it as little as what is in parentheses. A query in
        it is refused.
        """
        found = self.part(what, *stops, is_type=is_type)
        query = found._query_at()
        if query is not None:
            found._at = query
            raise found.refused(_NO_SUBQUERY)
        return found.rendered()

    def part(self, what: str, *stops: str, is_type: bool = False) -> Cursor:
        """A cursor for what `text` gives the text of, which may have queries. This one moves behind it."""
        begin, depth, cases, angles = self._at, 0, 0, 0
        while not self.is_at_end:
            word = self.word()
            follows_distinct = self._at > begin and self.word(-1) == "DISTINCT"  # IS DISTINCT FROM, which ends nothing
            is_nested = depth or cases or angles or follows_distinct
            if not is_nested and any(self.looks_at(*stop.split()) for stop in stops):
                break
            if is_type:
                begins = word == "<" and self._at > begin and self.word(-1) in _WITH_ANGLES
                angles += begins - (word == ">" and angles > 0)
            if word and word in _CLOSES and not depth:
                break
            depth += (word != "" and word in _OPENS) - (word != "" and word in _CLOSES)
            cases += (word == "CASE") - (word == "END" and cases > 0)
            self._at += 1
        if begin == self._at:
            raise self.refused(f"expected {what}")
        return Cursor(self._script, self._tokens[begin : self._at], self.qualifiers, self.common_queries)

    @property
    def has_query(self) -> bool:
        """Whether a query in parentheses is part of it."""
        return self._query_at() is not None

    def _query_at(self) -> int | None:
        texts = [
            "" if token.token_type in (TokenType.STRING, TokenType.IDENTIFIER) else token.text.upper()
            for token in self._tokens
        ]
        pairs = enumerate(itertools.pairwise(texts))
        return next((at for at, (one, other) in pairs if one == "(" and other in ("SELECT", "WITH")), None)

    def primary(self, what: str) -> str:
        """The text of one literal, call, or expression in parentheses, perhaps with something added or subtracted."""
        begin = self._at
        while True:
            if self.take("INTERVAL"):
                self._interval()
            else:
                self._term(what)
            if self.take_one("+", "-") is None:
                return self.rendered(begin, self._at)

    def _interval(self) -> None:
        """Move behind ``1 DAY``, ``'1' DAY`` or ``'1 day'``."""
        has_unit = False
        if self._parameter_at(self._at) is not None:
            self._at += 2
        elif self.is_at_string():
            has_unit = len(self.string().split()) > 1
        else:
            self.number("a number and a unit, such as INTERVAL 1 DAY")
        if not has_unit and not _UNIT.fullmatch(self.word()):
            raise self.refused("expected a unit, such as DAY in INTERVAL 1 DAY")
        self._at += not has_unit

    def _term(self, what: str) -> None:
        if self._parameter_at(self._at) is not None:
            self._at += 2
        elif self.looks_at("("):
            self.inside()
        elif self.is_at_string():
            self._at += 1
        elif self.word():
            is_typed = self.word().lower() in _TIME_NAMES and not self.word(1)
            self._at += 2 if is_typed else 1
            if self.looks_at("("):
                self.inside()
        else:
            raise self.refused(f"expected {what}")

    def inside(self) -> Cursor:
        """A cursor for what is in the parentheses that open here; this one moves behind them."""
        self.expect("(")
        begin, depth = self._at, 1
        while depth:
            if self.is_at_end:
                raise self.refused("expected a closing parenthesis")
            depth += (self.word() == "(") - (self.word() == ")")
            self._at += 1
        return Cursor(self._script, self._tokens[begin : self._at - 1], self.qualifiers, self.common_queries)

    def rendered(self, begin: int = 0, end: int | None = None) -> str:
        """The text of these tokens, for a parser of expressions or queries."""
        pieces: list[str] = []
        source, at, replaced = self._script.text, begin, False
        end = len(self._tokens) if end is None else end
        while at < end:
            token = self._tokens[at]
            if at > begin and not replaced:
                pieces.append(self._gap(at))
            names, text = self._qualifier_at(at)
            replaced = bool(names)
            if replaced:
                pieces.append(text)
                at += 2 * len(names)
                continue
            name = self._parameter_at(at)
            if name is not None:
                pieces.append(self._literal_at(at, name))
            elif (
                token.token_type is TokenType.STRING
                and self.dialect == "spark"
                and (source[token.start] == '"' or "''" in self._written(at))
            ):
                pieces.append(quoted(token.text))  # before Spark 4, 'it''s' is its
            else:
                pieces.append(self._written(at))
            at += 1 if name is None else 2
        return "".join(pieces)

    def _literal_at(self, at: int, name: str) -> str:
        """The literal of a parameter, whose sign belongs to it whatever is around it."""
        if isinstance(self._script.parameters[name], list):
            self._check_list(at, name)
        value = self._script.literals[name]
        follows = self._tokens[at + 2 :][:1]
        if value[0] == "-" and follows and follows[0].token_type in (TokenType.DCOLON, TokenType.L_BRACKET):
            return f"({value})"
        begins_comment = value[0] == "-" and at > 0 and self._tokens[at - 1].text == "-"
        return f" {value}" if begins_comment else value

    def _check_list(self, at: int, name: str) -> None:
        """Raises InvalidInputError for a list where no list of values is, or without values."""
        before = [token.text.upper() for token in self._tokens[:at]]
        depth, begin = 0, at - 1
        while begin >= 0 and (depth or before[begin] != "("):
            depth += (before[begin] == ")") - (before[begin] == "(")
            begin -= 1
        wrong = ""
        if begin < 1 or before[begin - 1] != "IN" or before[at - 1] not in ("(", ","):
            wrong = f"the parameter :{name} is a list, which only IN accepts: a IN (:{name})"
        elif not self._script.parameters[name]:
            wrong = f"the list of :{name} is empty, and IN needs a value: leave the condition out"
        if wrong:
            self._at = at
            raise self.refused(wrong)

    def next_text(self, *, is_first: bool) -> str:
        """The text of the next token or parameter, with the space before it unless it is the first."""
        begin = self._at
        self._at += 1 if self._parameter_at(begin) is None else 2
        return self.rendered(begin, self._at) if is_first else self._gap(begin) + self.rendered(begin, self._at)

    def rest(self, what: str) -> str:
        """The text up to the end. Raises InvalidInputError if there is none."""
        found = self.text(what)
        self.expect_end()
        return found

    def _written(self, at: int) -> str:
        token = self._tokens[at]
        return self._script.text[token.start : token.end + 1]

    def _gap(self, at: int) -> str:
        """What is between a token and the one before it; a space for a comment."""
        gap = self._script.text[self._tokens[at - 1].end + 1 : self._tokens[at].start]
        return gap if not gap.strip() else " "

    def list(self, read: Callable[[Cursor], Read]) -> tuple[Read, ...]:
        """What ``read`` finds between commas."""
        found = [read(self)]
        while self.take(","):
            found.append(read(self))
        return tuple(found)

    def whole_list(self, read: Callable[[Cursor], Read]) -> tuple[Read, ...]:
        """The same, up to the end."""
        found = self.list(read)
        self.expect_end()
        return found

    def options(self) -> tuple[tuple[str, str], ...]:
        """``('key' = 'value', key = 3)``: the values as text."""

        def option(each: Cursor) -> tuple[str, str]:
            key = each.key()
            if not each.take("="):
                each.take("==")
            return key, each._option_value()

        return self.inside().whole_list(option)

    def _option_value(self) -> str:
        name = self._parameter_at(self._at)
        if name is None:
            return self.string() if self.is_at_string() else self.text("a value", ",")
        value = self._script.parameters[name]
        if not isinstance(value, (str, int, float, decimal.Decimal)):
            raise self.refused(f"expected a string, a number or a boolean, and its value is {value!r}")
        self._at += 2
        return str(value).lower() if isinstance(value, bool) else str(value)

    def _qualifier_at(self, at: int) -> Qualifier:
        """The qualifier that is here; one without names if none is."""
        if at and self._tokens[at - 1].text == ".":
            return (), ""
        for names, text in self.qualifiers:
            here = self._tokens[at : at + 2 * len(names) + 1]
            words, dots = here[:-1:2], here[1::2]
            if (
                len(here) == 2 * len(names) + 1
                and [word.text.lower() for word in words] == [name.lower() for name in names]
                and all(word.token_type is not TokenType.STRING for word in words)
                and all(dot.text == "." for dot in dots)
            ):
                return names, text
        return (), ""

    def parameters(self) -> set[str]:
        """The names of all parameters of the statement."""
        return {name for at in range(len(self._tokens)) if (name := self._parameter_at(at)) is not None}

    def is_at_digits(self) -> bool:
        """Whether a parameter is next whose value is text of digits only."""
        name = self._parameter_at(self._at)
        value = None if name is None else self._script.parameters[name]
        return isinstance(value, str) and value.isdecimal()

    def _parameter_at(self, at: int) -> str | None:
        """The name of the parameter at a token (`grammar.is_parameter`)."""
        if not is_parameter(self._tokens, at):
            return None
        word = self._tokens[at + 1]
        if word.text not in self._script.parameters:
            self._at = at
            raise self.refused(f"there is no value for the parameter :{word.text}")
        return word.text


def _values(given: object) -> object:
    """A parameter: a value, or a list of values."""
    if isinstance(given, (list, tuple, set, frozenset)):
        return [_values(each) for each in given]
    return given


def quoted(value: object, what: str = "a value") -> str:
    """A Python value, or one of numpy, pandas or pyarrow, as a literal of SQL with its type. Raises InvalidInputError
    if it has none."""
    own = _plain(value, what)
    kind = _kind(value)
    if kind is None:
        return _of_python(own, what)
    if kind in TIMES and own is not None:
        return f"{type_name(kind).upper()} '{own}'"
    text = f"'{own!r}'" if isinstance(own, float) else _of_python(own, what)
    return f"CAST({text} AS {type_name(kind).upper()})"


def _kind(value: object) -> DataType | None:
    """The type of a value, if Python's own value does not say it."""
    if isinstance(value, Value):
        return None if value.type == lit(value.written).type else value.type
    return scalar_type(value)


def _of_python(value: object, what: str) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, decimal.Decimal) and value.is_finite():
        return f"{value:f}" if "." in f"{value:f}" else f"{value:f}."  # 5. is a decimal, and 5 an int
    if isinstance(value, float):  # a number with a point alone is a decimal
        return f"{value!r}D" if _has_one_name(value) else f"CAST('{_JAVAS.get(repr(value), repr(value))}' AS DOUBLE)"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, datetime.datetime):
        return f"TIMESTAMP '{value.isoformat(' ')}'"
    if isinstance(value, datetime.date):
        return f"DATE '{value.isoformat()}'"
    raise invalid(what, value, "None, a boolean, a number, a string, bytes, a date or a datetime")


_JAVAS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def _has_one_name(value: float) -> bool:
    """Whether a column that is this literal has the same name in each Spark."""
    try:
        float_text(pa.array([value]))
    except pa.ArrowInvalid:
        return False
    return math.isfinite(value)


def _in_duckdb(value: object, what: str) -> str:
    """The same for duckdb."""
    if _kind(value) is not None:
        return quoted(value, what).replace(type_name(timestamp_of(has_zone=False)).upper(), "TIMESTAMP")
    value = _plain(value, what)
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bytes):
        return f"unhex('{value.hex()}')"
    if isinstance(value, datetime.datetime):
        kind = "TIMESTAMP" if value.tzinfo is None else "TIMESTAMPTZ"
        return f"{kind} '{value.isoformat(' ')}'"
    if isinstance(value, float) and math.isfinite(value):
        return f"CAST('{value!r}' AS DOUBLE)"
    return quoted(value, what)


def _plain(value: object, what: str) -> object:
    if isinstance(value, Value):
        return value.written
    try:
        return plain(value)
    except ValueError as error:
        raise InvalidInputError(f"{described(value)} cannot be {what}: {error}") from None


def _common_query(cursor: Cursor) -> None:
    cursor.name("the name of a query")
    if cursor.looks_at("(") and cursor.word(1) not in ("SELECT", "WITH", "VALUES", "TABLE", "FROM", "("):
        cursor.inside()
    if cursor.take("MAX", "RECURSION", "LEVEL"):
        cursor.whole_number()
    cursor.take("AS")
    cursor.inside()


def _needs_quotes(name: str) -> bool:
    return not name.replace("_", "a").isalnum()
