"""The grammar of conditions, values and queries: Spark's, in which function calls stay as they are written.

In: text, for sqlglot to parse with one of these dialects. Out: sqlglot's tree, which `_sql_reader` binds.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Sequence
from typing import Any

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.databricks import Databricks

_OWN_PARSERS = ("CAST", "TRY_CAST")
_TRIMS = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}


class NullSafeEQ(exp.NullSafeEQ):
    """``<=>``. Around an operand of its own class, sqlglot puts parentheses that nobody wrote."""


def plain_equal(node: Any) -> Any:
    """A node of sqlglot's own classes, which sqlglot can write."""
    return exp.NullSafeEQ(**node.args) if isinstance(node, NullSafeEQ) else node


def _types(*names: str) -> frozenset[TokenType]:
    """The kinds of token with these names, as far as this release of sqlglot knows them."""
    return frozenset(kind for kind in TokenType if kind.name in names)


_BEFORE_AN_OPERAND = _types(
    *("L_PAREN", "L_BRACKET", "COMMA", "PLUS", "DASH", "SLASH", "MOD", "DIV", "PIPE", "DPIPE", "AMP", "CARET", "TILDE"),
    *("EQ", "NEQ", "LT", "LTE", "GT", "GTE", "NULLSAFE_EQ", "AND", "OR", "NOT", "BETWEEN", "IN", "LIKE", "ILIKE"),
    *("RLIKE", "CASE", "WHEN", "THEN", "ELSE", "SELECT", "WHERE", "HAVING", "ON", "GROUP_BY", "ORDER_BY"),
)
"""What no operand ends with, so that AS behind it can only be the name of a column."""

_AFTER_A_LIST = _types("R_PAREN", "R_BRACKET", "FROM", "WHERE", "GROUP_BY", "HAVING", "ORDER_BY", "LIMIT", "UNION")


def is_parameter(tokens: Sequence[Token], at: int) -> bool:
    """Whether a parameter is at a token: a colon, and a word right behind it. ``a:b`` and ``a::b`` are none."""
    if at + 1 >= len(tokens) or tokens[at].token_type is not TokenType.COLON:
        return False
    colon, word = tokens[at], tokens[at + 1]
    follows = at > 0 and tokens[at - 1].end + 1 == colon.start
    is_quoted = word.token_type in (TokenType.STRING, TokenType.IDENTIFIER)
    if is_quoted or not word.text.replace("_", "a").isalnum() or word.start != colon.end + 1:
        return False
    return not (follows and _is_operand(tokens[at - 1]))


def _is_operand(token: Token) -> bool:
    """Whether what a colon follows here has a part that the colon names, as ``a:b`` has."""
    is_quoted = token.token_type in (TokenType.STRING, TokenType.IDENTIFIER)
    return is_quoted or token.text[-1:].isalnum() or token.text[-1:] in ("_", ")", "]", ":")


SUFFIXES = {"L": "bIGINT", "S": "sMALLINT", "Y": "tINYINT", "D": "dOUBLE", "F": "fLOAT"}
"""What is behind the digits of a number, and the function that makes it one of the type. It is spelled as nobody spells
it: a column that is ``5D`` is called ``5.0``, and one that is ``double(5)`` is called ``5``."""


_DIGITS_MAX = 38
"""Of a decimal."""


def _call(name: str, number: Token) -> list[Token]:
    place = number.line, number.col, number.start, number.end
    return [
        Token(TokenType.VAR, name, *place),
        Token(TokenType.L_PAREN, "(", *place),
        number,
        Token(TokenType.R_PAREN, ")", *place),
    ]


def _is_of_decimal(suffix: Token, number: Token) -> bool:
    return suffix.text.upper() == "BD" and abs(decimal.Decimal(number.text).adjusted()) <= _DIGITS_MAX


def _as_decimal(number: Token) -> Token:
    """A number with a point, which is a decimal: ``5.`` for ``5``, ``100.`` for ``1e2``."""
    plain = f"{decimal.Decimal(number.text):f}" if "e" in number.text.lower() else number.text
    text = plain if "." in plain else f"{plain}."
    return Token(TokenType.NUMBER, text, number.line, number.col, number.start, number.end)


def _with_names(tokens: list[Token]) -> list[Token]:
    """The tokens, in which a parameter's word is a name, and ``as`` where it cannot say how something is called.
    ``1L`` is ``bigint(1)``: sqlglot makes it ``1::BIGINT``, which has another name as a column."""
    found: list[Token] = []
    for at, token in enumerate(tokens):
        if at > 1 and token.start == tokens[at - 2].start and _is_of_decimal(token, tokens[at - 2]):
            found.pop()  # 1.5 is a decimal without it
            found[-1] = _as_decimal(found[-1])
            continue
        if at > 1 and token.start == tokens[at - 2].start and token.text.upper() in SUFFIXES:
            found[-2:] = _call(SUFFIXES[token.text.upper()], tokens[at - 2])
            continue
        is_name = (at and is_parameter(tokens, at - 1)) or (
            token.token_type is TokenType.ALIAS
            and (not found or found[-1].token_type in (*_BEFORE_AN_OPERAND, TokenType.SEMICOLON))
        )
        if is_name:
            token = Token(
                TokenType.VAR, token.text, token.line, token.col, token.start, token.end, list(token.comments)
            )
        found.append(token)
    return found


class ExpressionDialect(Databricks):
    """Databricks' grammar with the SQL standard's quotes. Function calls stay as they are written.

    By default, sqlglot rewrites them to its own forms, each with the meaning of some engine.
    """

    class Tokenizer(Databricks.Tokenizer):
        QUOTES = ["'"]  # noqa: RUF012
        IDENTIFIERS = ["`", '"']  # noqa: RUF012
        STRING_ESCAPES = ["\\", "'"]  # noqa: RUF012

    class Parser(Databricks.Parser):  # type: ignore[valid-type, misc]
        EQUALITY = {**Databricks.Parser.EQUALITY, TokenType.NULLSAFE_EQ: NullSafeEQ}  # noqa: RUF012
        RANGE_PARSERS = {  # noqa: RUF012
            **Databricks.Parser.RANGE_PARSERS,
            TokenType.IS: lambda self, this: self._with_is(this),
        }
        COLUMN_OPERATORS = {  # noqa: RUF012
            **Databricks.Parser.COLUMN_OPERATORS,
            TokenType.DCOLON: lambda self, this, to: self._cast_by_colons(this, to),
        }
        FUNCTIONS = {}  # type: ignore[var-annotated]  # noqa: RUF012
        FUNCTION_PARSERS = {  # noqa: RUF012
            **{name: each for name, each in Databricks.Parser.FUNCTION_PARSERS.items() if name in _OWN_PARSERS},
            "EXTRACT": lambda self: self._extracted(),  # whose word is shown as it is written
            "SUBSTRING": lambda self: self._part_of("substring"),
            "SUBSTR": lambda self: self._part_of("substr"),
            "TRIM": lambda self: self._trimmed(),
        }

        UNARY_PARSERS = {  # noqa: RUF012
            **Databricks.Parser.UNARY_PARSERS,
            TokenType.PLUS: lambda self: self._positive(),  # sqlglot leaves it out
        }

        def _cast_by_colons(self, this: Any, to: Any) -> Any:
            """``this::to``, with the argument that the text of CAST leaves, and ``DATE '...'``, a cast to sqlglot too,
            does not."""
            cast = self.build_cast(strict=self.STRICT_CAST, this=this, to=to)
            cast.args.setdefault("action", None)
            return cast

        def _with_is(self, this: Any) -> Any:
            """``a IS NOT NULL``, which knows that it is no ``NOT a IS NULL``: as a column, that has another name."""
            made = self._parse_is(this)
            if isinstance(made, exp.Not):
                made.meta["is_not"] = True
            return made

        def _positive(self) -> Any:
            """``+n`` is ``positive(n)``."""
            operand = self._parse_unary()
            if operand is None:
                self.raise_error("a value is missing behind +")
            return exp.Anonymous(this="positive", expressions=[operand])

        def _extracted(self) -> Any:
            """``EXTRACT(word FROM value)``."""
            word = self._curr
            self._advance()
            is_word = word is not None and word.token_type is not TokenType.STRING and word.text.isidentifier()
            if not is_word or not self._match(TokenType.FROM):
                self.raise_error("EXTRACT takes a word and FROM, such as EXTRACT(YEAR FROM day)")
            return self._ended(exp.Extract(this=exp.Var(this=word.text), expression=self._parse_bitwise()))

        def _part_of(self, name: str) -> Any:
            """``substring(s FROM 2 FOR 3)`` is ``substring(s, 2, 3)``."""
            given = self._parse_csv(self._parse_lambda)
            if self._match(TokenType.FROM):
                name = "substring"
                given.append(self._parse_bitwise())
                if self._match(TokenType.FOR):
                    given.append(self._parse_bitwise())
            return self._ended(exp.Anonymous(this=name, expressions=given))

        def _trimmed(self) -> Any:
            """``trim(LEADING 'a' FROM s)`` is ``ltrim('a', s)``."""
            name = "trim"
            is_word = self._next is not None and self._next.token_type not in (TokenType.COMMA, TokenType.R_PAREN)
            if is_word and self._match_texts(_TRIMS):
                name = _TRIMS[self._prev.text.upper()]
            given = [] if self._match(TokenType.FROM, advance=False) else self._parse_csv(self._parse_lambda)
            if self._match(TokenType.FROM):
                given.append(self._parse_bitwise())
            return self._ended(exp.Anonymous(this=name, expressions=given))

        def _ended(self, node: Any) -> Any:
            if self._curr is None or self._curr.token_type is not TokenType.R_PAREN:
                self.raise_error("a closing parenthesis is missing")
            return node

        def parse(self, raw_tokens: list[Token], sql: str) -> Any:
            return super().parse(_with_names(raw_tokens), sql)

        def _parse_csv(self, parse_method: Callable[[], Any], sep: TokenType = TokenType.COMMA) -> list[Any]:
            """A list in which no item is missing: sqlglot leaves out what it cannot read as one."""
            items, count = [], 0
            while not count or self._match(sep):
                begin = self._index
                item = parse_method()
                count += 1
                if item is not None:
                    items.append(item)
                elif count == 1 and self._is_after(TokenType.GROUP_BY, TokenType.ALL):  # which name no column
                    continue
                elif (count > 1 or self._index != begin or self._ends_at(sep)) and self._ends_at(sep, *_AFTER_A_LIST):
                    self.raise_error("a value is missing in a list")
            return items

        def _is_after(self, *kinds: TokenType) -> bool:
            before = self._tokens[max(0, self._index - len(kinds)) : self._index]
            return [token.token_type for token in before] == [*kinds]

        def _ends_at(self, *kinds: TokenType) -> bool:
            return not self._curr or self._curr.token_type in kinds


class QueryDialect(ExpressionDialect):
    """The same with Spark's quotes: double quotes enclose a string too. A doubled quote in a string is a quote, as in
    Spark 4, and not two strings to join."""

    class Tokenizer(ExpressionDialect.Tokenizer):
        QUOTES = ["'", '"']  # noqa: RUF012
        IDENTIFIERS = ["`"]  # noqa: RUF012
        STRING_ESCAPES = ["\\", "'", '"']  # noqa: RUF012
