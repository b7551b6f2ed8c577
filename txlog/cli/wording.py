"""Error words for the command line: arguments appear as options, and calls as commands.

In: the words of an error's template. Out: its text. `txlog.core.wording` has the words.
"""

from __future__ import annotations

import shlex
from contextvars import ContextVar
from typing import Final

from txlog.core.declarations import DECLARED
from txlog.core.wording import Word, in_python, spelled

of_environment: ContextVar[frozenset[str]] = ContextVar("of_environment", default=frozenset())
"""The arguments whose values come from the environment, since no option gives them."""

OPTIONS: Final = {
    **{
        argument.name: name
        for operation in reversed(DECLARED)
        for argument in operation.arguments
        if operation.command and (name := argument.option_name or "").startswith("--")
        if argument.name not in ("name", "schema")  # most commands take these by their place
    },
    **{"catalog": "--catalog", "dialect": "--dialect", "engine": "--engine", "time_zone": "--time-zone"},
    **{"keys": "--key", "storage_options": "--storage-option"},
}
"""Argument -> option of a command."""

_ADVICE = {
    "open an existing table": "--exist-ok accepts it",
    "booleans as row kinds": "convert them in the files",
    "the format of files": "rename it, or use --format parquet, csv or json",
    "open a branch": "URI@NAME",
    "make a branch": "txlog branch URI NAME",
    "find rows": "txlog head URI --where SQL",
    "convert a folder": "txlog convert FOLDER",
    "name the sides": "the command line has these two names only",
    "create the table": "create the table with txlog create or txlog append --create; for a table of a catalog,"
    " give the location that txlog describe NAME --catalog URI prints",
}


def in_commands(word: Word) -> str:
    """The word as a user of the command line reads it."""
    option = OPTIONS.get(word.name)
    if word.kind == "argument" and word.name in of_environment.get():
        return f"TXLOG_{word.name.upper()}"
    if word.kind == "argument" and option is not None:
        return option
    if word.kind == "setting":
        if (word.name, word.value) == ("schema_mode", "merge"):
            return "--merge-schema"
        if option is not None:
            return option if word.value is True else f"{option} {_shell_word(word.value)}"
    if word.kind == "call" and word.name == "set_properties":
        return f"txlog set URI {' '.join(f'{key}={value}' for key, value in word.value.items())}"
    if word.kind == "call" and word.name == "unset_properties":
        return f"txlog set URI {' '.join(f'--unset {key}' for key in word.value)}"
    if word.kind == "advice":
        return _ADVICE.get(word.name) or spelled(word.value, in_commands)
    return in_python(word) + (
        " (in Python)" if word.kind in ("argument", "setting") and word.name in _PYTHON_ONLY else ""
    )


def _shell_word(value: object) -> str:
    return "tab" if value == "\t" else shlex.quote(str(value))


_PYTHON_ONLY = {"fingerprint", "isolation", "on_mismatch", "schema_mode", "update_columns"}
"""Arguments without an option in any command."""
