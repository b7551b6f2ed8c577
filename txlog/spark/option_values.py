"""Reads the values of Spark options: from text to typed values, with errors that name the option.

In: the options as Spark passes them (keys in lower case, values as text). Out: typed values; an option that nobody read
is an error.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from txlog.core.format.properties import size_bytes
from txlog.core.format.time_zones import zone_name
from txlog.core.util import invalid, one_of
from txlog.errors import InvalidInputError


class BadValue(ValueError):
    """The value of an option is invalid; the message says what is expected."""


class Given:
    """The options that have not been read yet, by lower-case key."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.rest = {key.lower(): value for key, value in options.items()}

    def take(self, name: str, read: Callable[[str], Any]) -> Any:
        """The typed value of one option, or None if it is not set. An error names the option."""
        text = self.rest.pop(name.lower(), None)
        if text is None:
            return None
        try:
            return read(text)
        except BadValue as error:
            raise invalid(f"option {name}", text, str(error)) from None

    def take_prefix(self, prefix: str) -> dict[str, str]:
        """The options whose key begins with ``prefix``, without the prefix."""
        found = [key for key in self.rest if key.startswith(prefix)]
        return {key[len(prefix) :]: self.rest.pop(key) for key in found}

    def take_storage(self) -> dict[str, str]:
        """The options of the store and the catalog. Raises InvalidInputError for a token, which a plan would show."""
        found = self.take_prefix("storage.")
        if "catalog_token" in found:
            raise InvalidInputError(
                "option storage.catalog_token would show the token in Spark's plan and send it to every task: set"
                " TXLOG_CATALOG_TOKEN where the driver and the executors run, or pass storage.catalog_token_file"
            )
        catalog = self.take("catalog", str)
        return found if catalog is None else {**found, "catalog": catalog}

    def refuse_rest(self, *known: str) -> None:
        """Raise InvalidInputError that names each remaining option, with the nearest known one."""
        if not self.rest:
            return
        by_folded = {name.lower(): name for name in known}
        lines = []
        for key in sorted(self.rest):
            near = difflib.get_close_matches(key, by_folded, n=1, cutoff=0.5)
            lines.append(f"{key!r}" + (f" (did you mean {by_folded[near[0]]!r}?)" if near else ""))
        raise InvalidInputError(
            f"unknown option {', '.join(lines)}; known options (in any case): {', '.join(by_folded.values())}"
        )


def text_value(value: str) -> str:
    """A non-empty string."""
    if not value:
        raise BadValue("a non-empty string")
    return value


def object_name(value: str) -> str:
    """A name of the form ``module:name``."""
    if not re.fullmatch(r"[\w.]+:\w+", value):
        raise BadValue("module:name, importable where Spark's driver runs Python")
    return value


def flag(value: str) -> bool:
    """``true`` or ``false`` in any case."""
    return choice("true", "false")(value) == "true"


def choice(*choices: str) -> Callable[[str], str]:
    """A reader that accepts one of the words, in any case, and returns it in lower case."""

    def read(value: str) -> str:
        if value.strip().lower() not in choices:
            raise BadValue(one_of(choices))
        return value.strip().lower()

    return read


def choice_by_name(choices: Sequence[str], names: Sequence[str]) -> Callable[[str], dict[str, str]]:
    """A reader that accepts one of the words for all names, or words for some of them: ``name=word,name=word``."""

    def read(value: str) -> dict[str, str]:
        word = value.strip().lower()
        if word in choices:
            return dict.fromkeys(names, word)
        pairs = [tuple(part.strip().lower() for part in each.split("=")) for each in value.split(",")]
        found = {pair[0]: pair[-1] for pair in pairs if len(pair) == 2 and pair[0] in names and pair[1] in choices}
        if len(found) < len(pairs):
            raise BadValue(
                f"{one_of(choices)}, or some of {', '.join(names)}, each with such a word:"
                f" {names[0]}={choices[0]},{names[1]}={choices[1]}"
            )
        return found

    return read


def text_by_key(value: str) -> dict[str, str]:
    """A JSON object of strings: unlike the names of options, its keys keep their case."""
    try:
        return msgspec.json.decode(value, type=dict[str, str])
    except msgspec.DecodeError:
        raise BadValue("a JSON object of strings") from None


def zone(value: str) -> str:
    """The name of a time zone."""
    return zone_name(value, what="option timeZone")


def whole_count(value: str) -> int:
    """A whole number from 0 to 2**63-1."""
    if not re.fullmatch(r"\s*\d{1,19}\s*", value) or int(value) >= 2**63:
        raise BadValue("a whole number from 0 to 2**63-1")
    return int(value)


def positive_count(value: str) -> int:
    """A whole number from 1 to 2**63-1."""
    number = whole_count(value)
    if number == 0:
        raise BadValue("a whole number of at least 1")
    return number


def milliseconds(value: str) -> float:
    """Seconds, from a whole number of milliseconds."""
    return whole_count(value) / 1000


def byte_count(value: str) -> int:
    """A size as Spark writes it: a number of bytes, or a number with a binary unit (``128mb``, ``1g``)."""
    try:
        return size_bytes(value)
    except ValueError:
        raise BadValue("a size in bytes, such as 134217728 or 128mb") from None


def column_list(value: str) -> tuple[str, ...]:
    """Column names from a comma-separated list, or from a JSON list if a name contains a comma."""
    if value.lstrip().startswith("["):
        try:
            names = json.loads(value)
        except ValueError:
            names = None
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise BadValue("a comma-separated list of columns, or a JSON list of strings")
    else:
        names = [name.strip() for name in value.split(",")] if value.strip() else []
    if not all(names):
        raise BadValue("a list without empty names")
    return tuple(names)
