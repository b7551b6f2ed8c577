"""Words of a message that each interface spells differently: an argument's name, a setting, a call, some advice.

In: what is meant, as a value: `argument("read_version")`. Out: a token for the text of an error, which keeps it. The
interfaces (Python, Spark, the command line) spell it: ``read_version``, ``readVersion``, ``--read-version``. A token
stands between two noncharacters, which Unicode reserves for a program's internal use.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

_BEGIN, _END = "\ufdd0", "\ufdd1"


class NamedLocation(str):
    """A table's location that people know by another name: errors and log lines show ``known_as``.

    It is the location wherever it is used as a text, and what is made of that text has no other name.
    """

    __slots__ = ("known_as",)

    known_as: str

    def __new__(cls, location: str, known_as: str) -> NamedLocation:
        named = super().__new__(cls, location)
        named.known_as = known_as
        return named

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]  # what `__new__` takes
        return str(self), self.known_as


class Word:
    """A word that interfaces spell differently, by its ``kind``.

    An "argument" has a ``name``; a "setting" also has the argument's ``value``, and a "call" of a `Table` method has
    the value of its one argument. A "batch" has its application's name and its number. "advice" has a name and, as its
    value, the text for Python users.
    """

    __slots__ = ("kind", "name", "value")

    def __init__(self, kind: str, name: str, value: Any = None) -> None:
        self.kind: Final = kind
        self.name: Final = name
        self.value: Final = value

    def token(self) -> str:
        """The word as it stands in an error's template."""
        return f"{_BEGIN}{json.dumps([self.kind, self.name, self.value])}{_END}"


Door: TypeAlias = Callable[[Word], str]
"""How an interface spells a word."""


def argument(name: str) -> str:
    """The name of an argument."""
    return Word("argument", name).token()


def setting(name: str, value: Any) -> str:
    """An argument with a value: ``schema_mode="merge"``."""
    return Word("setting", name, value).token()


def call(name: str, value: Any) -> str:
    """A call of a method of `Table` with one argument: ``table.set_properties({...})``."""
    return Word("call", name, value).token()


def batch(app_id: str, checkpoint_id: int) -> str:
    """A batch of an application: ``checkpoint 7 of 'orders'``."""
    return Word("batch", app_id, checkpoint_id).token()


def advice(name: str, text: str) -> str:
    """A part of a sentence: ``text``, which may contain words too, or what interfaces that know its name write
    instead."""
    return Word("advice", name, text).token()


def is_worded(text: str) -> bool:
    """Whether a text has words that interfaces spell differently."""
    return _BEGIN in text


def spelled(text: str, door: Door) -> str:
    """A text as an interface spells it."""
    return "".join(piece if isinstance(piece, str) else door(piece) for piece in _pieces(text))


def words_in(text: str) -> Iterator[Word]:
    """The words of a text that interfaces spell differently, in order."""
    return (piece for piece in _pieces(text) if isinstance(piece, Word))


def in_python(word: Word) -> str:
    """How Python spells a word."""
    if word.kind == "argument":
        return word.name
    if word.kind == "setting":
        return f"{word.name}={_source_of(word.value)}"
    if word.kind == "call":
        return f"table.{word.name}({_source_of(word.value)})"
    return f"checkpoint {word.value} of {word.name!r}" if word.kind == "batch" else spelled(word.value, in_python)


def _source_of(value: Any) -> str:
    """A value as in Python source, with strings in double quotes."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_source_of(key)}: {_source_of(each)}" for key, each in value.items()) + "}"
    return "[" + ", ".join(map(_source_of, value)) + "]" if isinstance(value, list) else repr(value)


def _pieces(text: str) -> Iterator[str | Word]:
    first, *rest = text.split(_BEGIN)
    yield first
    for each in rest:
        token, _, after = each.partition(_END)
        try:
            yield Word(*json.loads(token))
        except (ValueError, TypeError):  # these characters come from a user's data
            yield token
        yield after
