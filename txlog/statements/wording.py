"""Error words for SQL: arguments appear as the clauses that give them.

In: the words of an error's template. Out: its text. `txlog.core.wording` has the words.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from txlog.core.wording import Door, Word, in_python, spelled
from txlog.errors import TxlogError
from txlog.statements.cursor import quoted

_CLAUSES = {
    "cluster_by": "CLUSTER BY",
    "comment": "COMMENT",
    "partition_by": "PARTITIONED BY",
    "properties": "TBLPROPERTIES",
    "retention_hours": "RETAIN",
    "timestamp": "TIMESTAMP AS OF",
    "version": "VERSION AS OF",
    "where": "WHERE",
    "zorder_by": "ZORDER BY",
}
"""Argument -> clause of a statement."""

_ADVICE = {
    "find rows": "SELECT ... WHERE",
    "accept a short retention": "call table.vacuum(retention_hours=..., force=True) in Python",
    "name the sides": "AS gives each side another name",
    "make a branch": "ALTER TABLE ... CREATE BRANCH name",
}


def in_sql(word: Word) -> str:
    """The word as an author of SQL reads it."""
    if word.kind == "advice":
        return _ADVICE.get(word.name) or spelled(word.value, in_sql)
    clause = _CLAUSES.get(word.name)
    if word.kind == "argument" and clause is not None:
        return clause
    if word.kind == "setting" and (word.name, word.value) == ("schema_mode", "merge"):
        return "WITH SCHEMA EVOLUTION"
    if word.kind == "setting" and word.name == "retention_hours":
        return f"{clause} {word.value} HOURS"
    if word.kind == "call" and word.name in ("set_properties", "unset_properties"):
        verb = "SET" if word.name == "set_properties" else "UNSET"
        given = word.value.items() if verb == "SET" else ((key, None) for key in word.value)
        listed = ", ".join(quoted(key) if value is None else f"{quoted(key)} = {quoted(value)}" for key, value in given)
        return f"ALTER TABLE ... {verb} TBLPROPERTIES ({listed})"
    return in_python(word)


def in_copy_into(word: Word) -> str:
    """The word as an author of COPY INTO reads it."""
    if (word.kind, word.name, word.value) == ("setting", "schema_mode", "merge"):
        return "COPY_OPTIONS ('mergeSchema' = 'true')"
    option = {"delimiter": "delimiter", "null_values": "nullValue", "decimal_comma": "decimalComma"}.get(word.name)
    if word.kind == "setting" and option is not None:
        value = "true" if word.value is True else word.value
        return f"FORMAT_OPTIONS ({quoted(option)} = {quoted(value)})"
    return in_sql(word)


@contextmanager
def in_words_of_sql(door: Door = in_sql) -> Iterator[None]:
    """Spell an error of the block as SQL, except arguments of the call or the command that has the text."""

    def spell(word: Word) -> str:
        is_of_call = word.kind == "setting" and word.name in ("dialect", "engine")
        return word.token() if is_of_call else door(word)

    try:
        yield
    except TxlogError as error:
        error.template = spelled(error.template, spell)
        raise
