"""Commands that packages bring, and the order in which all commands are listed.

In: entry points of the group ``txlog.commands``, each under the name of its command. Out: the commands of the command
line. A package's module is imported when its command is called, or when all commands are listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import typer
import typer.main

from txlog.cli.console import Output
from txlog.core.points import Point
from txlog.errors import TxlogError

COMMANDS: Final[Point[Callable[..., None] | typer.Typer]] = Point("txlog.commands", "the command")
"""Entries are functions, whose arguments and docstring become the command's as ``typer`` makes them, or a
``typer.Typer`` with commands of its own. What they need of the command line is in `txlog.extend.cli`."""

# What people do first with a table comes first. Commands that are not named here come last.
_ORDER = (
    *("create", "set", "add-columns", "rename-column", "drop-columns", "alter-column", "drop-feature"),
    *(
        "sync-identity",
        "set-description",
        "constraint",
        "append",
        "overwrite",
        "overwrite-partitions",
        "delete",
        "update",
        "upsert",
        "merge",
    ),
    *(
        "head",
        "count",
        "show",
        "history",
        "files",
        "verify",
        "probe-store",
        "diff",
        "diff-rows",
        "report",
        "changes",
        "clone",
        "convert",
    ),
    *("copy-into", "checkpoint", "compact-log", "clean-up-log", "maintain", "iceberg", "generate", "optimize", "purge"),
    *("check-deleted", "restore", "repair", "tag", "tags", "untag", "branch", "branches", "check", "rebase", "publish"),
    *(
        "discard",
        "vacuum",
        "sql",
        "tables",
        "describe",
        "serve",
        "serve-token",
        "mirror",
        "sinks",
        "staging",
        "abandon",
    ),
)
_PLACES = {name: place for place, name in enumerate(_ORDER)}


def in_order(names: Iterable[str]) -> list[str]:
    """The commands' names as ``txlog --help`` lists them."""
    return sorted(names, key=lambda name: (_PLACES.get(name, len(_PLACES)), name))


def command_of_package(name: str) -> Any | None:
    """The command that an installed package brings under this name; None if none does.

    One that cannot be loaded, or that txlog's own packages would bring if they were installed, says so when it is
    called.
    """
    try:
        found = COMMANDS.load(name) if name in _PLACES else COMMANDS.get(name)
    except TxlogError as error:
        return _refused(name, error)
    if found is None:
        return None
    return typer.main.get_group(found) if isinstance(found, typer.Typer) else _command(name, found)


def _command(name: str, function: Callable[..., None], **how: Any) -> Any:
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command(name, **how)(function)
    return typer.main.get_command(alone)


def _refused(name: str, error: TxlogError) -> Any:
    def refused(context: typer.Context) -> None:
        with Output(context.meta["wants_json"]).reporting():
            raise error

    any_arguments = {"ignore_unknown_options": True, "allow_extra_args": True}
    return _command(name, refused, help=f"Cannot be used: {error.message}", context_settings=any_arguments)
