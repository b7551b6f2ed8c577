"""Usage errors of the command line: one JSON document with ``--json``, and a hint at the right command.
In: the arguments, and the usage error that parsing them raised. Out: a message and exit code 2.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Any

import orjson
import typer
import typer.core

from txlog.cli.commands import COMMANDS, command_of_package, in_order

WRONG_CALL = 2

UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""Typer has no public name for the base of its usage errors."""

_GLOBAL = frozenset({"--time-zone"})
"""Options with a value that belong to no command, and are read before all of them."""
_READ = 'txlog head URI shows rows, and txlog sql "select * from delta.`URI`" queries them'
_INSTEAD = {
    "add": "append",
    "alter": "set URI KEY=VALUE",
    "audit": "branch URI NAME, append to URI@NAME, then check and publish URI@NAME",
    "check": "verify",
    "cleanup": "clean-up-log",
    "compact": "optimize",
    "config": "set URI KEY=VALUE",
    "fsck": "verify",
    "gc": "vacuum",
    "info": "show",
    "init": "create",
    "insert": "append",
    "load": "append",
    "log": "history",
    "ls": "files",
    "list": "files",
    "compare": "diff URI FROM TO",
    "probe": "probe-store",
    "properties": "set URI KEY=VALUE; txlog show URI lists the current ones",
    "property": "set URI KEY=VALUE; txlog show URI lists the current ones",
    "reorg": "purge",
    "rollback": "restore",
    "schema": "show",
    "stats": "show --files-summary",
    "undo": "restore URI --version NUMBER; txlog history URI lists the versions",
    "unset": "set URI --unset KEY",
    "write": "append",
    "z-order": "optimize --zorder-by COLUMNS",
    "zorder": "optimize --zorder-by COLUMNS",
}
"""Names that users try -> the txlog command that does it."""


_OF_OTHER_TOOLS = {
    "sql": {
        **dict.fromkeys(
            ("-e", "-q", "--query", "--execute", "--command"), 'pass the statement alone, as in txlog sql "select 1"'
        ),
        "--database": "name the folder of tables with --catalog",
    },
    "": {
        **dict.fromkeys(("-V", "-v"), "txlog --version shows the version"),
        "--verbose": "no command has it",
        "--catalog": "give the table's location, which txlog describe NAME --catalog URI prints",
    },
}
"""Options that users know of other commands -> what txlog has in their place, by the command."""


class CommandGroup(typer.core.TyperGroup):
    """The commands of `txlog`."""

    def make_context(self, info_name: str | None, args: list[str], *rest: Any, **extra: Any) -> Any:
        """Parses the arguments before the command's name, and the options of all commands wherever they stand."""
        wants_json = "--json" in args
        try:
            context = super().make_context(info_name, _with_globals_first(args), *rest, **extra)
        except UsageError as error:
            raise _reported(_advised(error), wants_json) from None
        context.meta["wants_json"] = wants_json
        return context

    def invoke(self, ctx: Any) -> Any:
        """Parses the command's own arguments, and runs it."""
        try:
            return super().invoke(ctx)
        except UsageError as error:
            raise _reported(_advised(error), ctx.meta["wants_json"]) from None

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands, of packages too, in the order of the help."""
        return in_order({*self.commands, *COMMANDS.names()})

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command of txlog's own, or else of a package; None if there is no such command."""
        found = self.commands.get(cmd_name) or command_of_package(cmd_name)
        if found is not None and not found.short_help:  # else the list of commands cuts the sentence off
            found.short_help = " ".join((found.help or "").partition("\n\n")[0].split()).partition(". ")[0].rstrip(".")
        return found

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Finds the command. If none has this name, the error names the right one."""
        try:
            return super().resolve_command(ctx, args)
        except UsageError as error:
            hint = _hint(args[0].lower() if args else "", self.list_commands(ctx))
            if hint and hasattr(error, "message"):
                error.message = f"No such command {args[0]!r}{hint}"
            raise


def _with_globals_first(args: list[str]) -> list[str]:
    """The arguments with the options that every command has in front, where the group reads them.

    Raises a usage error if one lacks its value.
    """
    end = args.index("--") if "--" in args else len(args)
    first: list[str] = []
    others: list[str] = []
    given = iter(args[:end])
    for arg in given:
        if arg.partition("=")[0] not in _GLOBAL:
            others.append(arg)
            continue
        first.append(arg)
        if "=" not in arg:
            value = next(given, None)
            if value is None:
                raise typer.BadParameter(f"Option {arg!r} requires an argument.")
            first.append(value)
    return [*first, *others, *args[end:]]


def _hint(name: str, commands: Sequence[str]) -> str | None:
    if name in ("help", "version"):
        return f": use txlog {'-h, or txlog COMMAND -h' if name == 'help' else '--version'}"
    if name in ("cat", "query", "read", "scan", "select"):
        return f": {_READ}"
    if name in _INSTEAD and _INSTEAD[name].split()[0] in commands:
        return f": use txlog {_INSTEAD[name]}"
    if close := difflib.get_close_matches(name, commands):
        return f". Did you mean {', '.join(map(repr, close))}?"
    return None


def _advised(error: Any) -> Any:
    """The error, which says more where it names an option or an argument that the command does not have."""
    command = getattr(error, "ctx", None) and error.ctx.command
    if command is None:
        return error
    name = command.name if error.ctx.parent else ""
    known = {**_OF_OTHER_TOOLS[""], **_OF_OTHER_TOOLS.get(name, {})}
    if getattr(error, "option_name", None) in known:
        error.message = f"No such option: {error.option_name}; {known[error.option_name]}"
        error.possibilities = []
    elif str(getattr(error, "message", "")).startswith("Got unexpected extra argument"):
        error.message += f": {_in_its_place(name, command, error.message)}"
    return error


def _in_its_place(name: str, command: Any, message: str) -> str:
    """Where an argument belongs that a command does not take; the message ends in the argument: ``(id > 1)``."""
    arguments = [each.metavar for each in command.params if each.param_type_name == "argument"]
    options = {each.name for each in command.params}
    if name == "sql":
        return 'write the whole statement in quotes, as in txlog sql "select 1"'
    if name == "check" and not re.search(r"\(\w+\)$", message):
        return 'write a condition in quotes after --check, as in --check "id > 0"'
    if name in ("check", "publish", "rebase", "discard"):
        return f"write the branch after the location, as in txlog {name} ./orders@dev"
    if name == "create":
        return 'write the columns in quotes after --columns, as in --columns "id int, day date"'
    if "where" in options:
        return 'write a condition in quotes after --where, as in --where "id = 1"'
    if "version" in options:
        return "write a version after --version, as in --version 3"
    return f"it takes {' '.join(arguments) or 'only options'}; quote an argument that has spaces"


def _reported(error: Exception, wants_json: bool) -> Exception:
    """The exception to raise: the error itself, which Typer prints; or, after printing it as JSON, an exit."""
    if not wants_json:
        return error
    message = str(error.format_message())  # type: ignore[attr-defined]
    document = {"error": {"kind": "UsageError", "message": message}}
    typer.echo(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode())
    return typer.Exit(WRONG_CALL)
