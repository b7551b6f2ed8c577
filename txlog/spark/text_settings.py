"""Settings of a session by which Spark itself reads an SQL text in another way than txlog does.

In: texts of conditions, values or statements, and the settings. Out: an error, if a setting gives one of these texts
another meaning: txlog reads every text as Spark does by default, and an UPDATE must not change other rows than a
SELECT with the same text shows. A text that no setting concerns is not held up, and costs no look at the session.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec
import pyspark

from txlog.core.predicates import texts_of
from txlog.errors import UnsupportedFeatureError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TOKEN = re.compile(
    r"""(?P<comment>--[^\n]*|/\*.*?\*/)|(?P<raw>r(?:'[^']*'|"[^"]*"))|(?P<string>'(?:[^'\\]|\\.|'')*')"""
    r"""|(?P<double>"(?:[^"\\]|\\.|"")*")|(?P<name>`(?:[^`]|``)*`)|(?P<word>[^\W\d]\w*)"""
    r"""|(?P<number>\d[\w.]*(?:(?<=e)[+-]\d+)?)|(?P<sign>[*/])""",
    re.IGNORECASE | re.DOTALL,
)
_FORMATTED = ("date_format", "from_unixtime", "to_date", "to_unix_timestamp", "try_to_date", "unix_timestamp")
_MAKE_TIMES = ("to_timestamp", "try_to_timestamp", "make_timestamp")
"""How the names of functions begin that take a pattern of times, and that make times."""
_CHANGES = frozenset(["alter", "create", "delete", "insert", "merge", "replace", "update"])
_Tokens = list[tuple[str, str]]
"""Kind and text."""


class _Setting(msgspec.Struct, frozen=True):
    """The values of a setting that change no text, which texts the others change, and how.

    ``is_syntax``: it changes what Spark makes of a query's text too. ``older_than``: the release of Spark before which
    there is no such setting, and texts have the other meaning always.
    """

    harmless: tuple[str, ...]
    concerns: Callable[[_Tokens], bool]
    advice: str
    is_syntax: bool = False
    older_than: tuple[int, int] = (0, 0)


def _has_backslash(tokens: _Tokens) -> bool:
    return any(kind in ("string", "double") and "\\" in text for kind, text in tokens)


def _has_doubled_quote(tokens: _Tokens) -> bool:
    return any(
        kind == each and quote * 2 in text[1:-1]
        for kind, text in tokens
        for each, quote in (("string", "'"), ("double", '"'))
    )


def _has_timestamp(tokens: _Tokens) -> bool:
    words = [text.lower() for kind, text in tokens if kind == "word"]
    followed = itertools.pairwise([*words, ""])
    named = any(word == "timestamp" and then not in ("as", "of") for word, then in followed)
    return named or any(word.startswith(_MAKE_TIMES) for word in words)


_SETTINGS = {
    "spark.sql.parser.escapedStringLiterals": _Setting(
        ("false",), _has_backslash, "In this session, a backslash in a string escapes nothing", is_syntax=True
    ),
    "spark.sql.ansi.doubleQuotedIdentifiers": _Setting(
        ("false",),
        lambda tokens: any(kind == "double" for kind, _ in tokens),
        "In this session, double quotes enclose a name: write `name` or 'string'",
        is_syntax=True,
    ),
    "spark.sql.legacy.consecutiveStringLiterals.enabled": _Setting(
        ("false",),
        _has_doubled_quote,
        "In this session, '' inside a string is not an apostrophe: write \\' for one",
        is_syntax=True,
        older_than=(4, 1),
    ),
    "spark.sql.timestampType": _Setting(
        ("timestamp_ltz",), _has_timestamp, "In this session, TIMESTAMP has no time zone: write TIMESTAMP_LTZ for one"
    ),
    "spark.sql.legacy.exponentLiteralAsDecimal.enabled": _Setting(
        ("false",),
        lambda tokens: any(kind == "number" and "e" in text.lower() for kind, text in tokens),
        "In this session, a number with an exponent is a decimal: write it without one, or CAST it",
    ),
    "spark.sql.legacy.timeParserPolicy": _Setting(
        ("corrected", "exception"),
        lambda tokens: any(
            kind == "word" and text.lower().startswith((*_FORMATTED, *_MAKE_TIMES[:2])) for kind, text in tokens
        ),
        "In this session, patterns of times follow the rules of Spark 2",
    ),
    "spark.sql.decimalOperations.allowPrecisionLoss": _Setting(
        ("true",),
        lambda tokens: any(kind == "sign" for kind, _ in tokens),
        "In this session, products and quotients of decimals have other digits",
    ),
}
TEXT_SETTINGS = tuple(_SETTINGS)
"""Their names."""


def require_own_reading(spark: SparkSession, *given: Any, is_script: bool = False) -> None:
    """Check that Spark would read some texts in this session as txlog does.

    Args:
        spark: The session.
        given: Conditions, values and mappings of values. What `txlog.col` builds has no text.
        is_script: They are statements. Spark runs the queries among them, by all of its settings but for the syntax.

    Raises:
        UnsupportedFeatureError: A setting gives one of the texts another meaning.
    """
    require_reading(lambda name: spark.conf.get(name, None), given, lambda: spark.version, is_script=is_script)


def require_reading(
    setting: Callable[[str], str | None],
    given: Iterable[Any],
    version: Callable[[], str] = lambda: pyspark.__version__,
    *,
    is_script: bool = False,
) -> None:
    """`require_own_reading`, by a session's settings and the version of its Spark."""
    for text in texts_of(*given):
        tokens = _tokens(text)
        only_queries = is_script and _CHANGES.isdisjoint(word.lower() for kind, word in tokens if kind == "word")
        for name, each in _SETTINGS.items():
            if (only_queries and not each.is_syntax) or not each.concerns(tokens):
                continue
            found = setting(name)
            if found is None and each.older_than > (0, 0) and _release(version()) < each.older_than:
                raise _misread(text, f"Spark {version()} has no {name}", each, name)
            if found is not None and found.strip().lower() not in each.harmless:
                raise _misread(text, f"the session sets {name}={found}", each, name)


def is_concerned(condition: str | None) -> bool:
    """Whether some setting would give the condition another meaning."""
    tokens = _tokens(condition or "")
    return any(each.concerns(tokens) for each in _SETTINGS.values())


def _tokens(text: str) -> _Tokens:
    return [(str(found.lastgroup), found[0]) for found in _TOKEN.finditer(text)]


def _release(version: str) -> tuple[int, int]:
    major, minor, *_ = version.split(".")
    return int(major), int(minor)


def _misread(text: str, why: str, setting: _Setting, name: str) -> UnsupportedFeatureError:
    shown = text if len(text) <= 200 else f"{text[:200]}..."
    return UnsupportedFeatureError(
        f"{why}, so Spark reads this text in another way than txlog: {shown}\n{setting.advice}. Nothing was done. Give"
        " the setting its default, or write the text without what the setting changes",
        features=(name,),
    )
