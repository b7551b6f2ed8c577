"""Commands made from declarations: the arguments that an operation declares become those of its command.

In: the name of an operation, and a function that shows its result. Out: a function whose signature is the command's, as
``typer`` reads it. What no declaration says, such as the files that rows come from, the function takes itself.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Container, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer
import typer.models
from rich.console import RenderableType

import txlog
from txlog.cli.console import Output
from txlog.cli.file_rows import GivenFiles
from txlog.cli.opened import open_table, processes
from txlog.cli.options import Json, Storage, StorageOption, Uri, assignments, names, pairs, size
from txlog.core.declarations import Argument, Operation, declared

_EMPTY = inspect.Parameter.empty
_TYPES = {"text": str, "time": str, "whole": int, "number": float, "switch": bool, "size": int, "file": Path}
_OF_MANY = {
    *("row_mode", "parquet", "target_file_size", "on_conflict", "read_version"),
    *("app_id", "checkpoint_id", "workers", "user_metadata"),
}
"""Arguments that many operations have. Help lists them behind the others."""
_MILLISECONDS_MIN = len("20261120") + 1

Shown = Callable[[txlog.Table, Any], RenderableType | Iterable[RenderableType]]


class CommandCall:
    """One call of a command: the operation, and the values of its arguments by their names in Python."""

    def __init__(self, operation: Operation, values: dict[str, Any], files: GivenFiles | None = None) -> None:
        self.operation = operation
        self._files = files
        self.uri: str = values.pop("location")
        self.as_json: bool = values.pop("as_json")
        self.storage_options = pairs(values.pop("storage"), "--storage-option")
        self.workers: int | None = values.pop("workers", None)
        found = {each.name: _value(each, values.get(each.name)) for each in operation.arguments}
        self.given = {name: value for name, value in found.items() if value is not None}
        if files is not None:
            self.given["schema_mode"] = "merge" if files.merge_schema else "strict"
        if ("app_id" in self.given) != ("checkpoint_id" in self.given):
            raise typer.BadParameter("--app-id and --checkpoint-id must be used together")

    @contextlib.contextmanager
    def opened(self) -> Iterator[tuple[txlog.Table, Output]]:
        """The table and the output, which reports errors of the block."""
        out = Output(self.as_json)
        with out.reporting(), processes(self.workers) as executor:
            yield open_table(self.uri, self.storage_options, executor), out

    def done(self, table: txlog.Table, out: Output, waiting: str | None = None, **more: Any) -> Any:
        """The result of the method, with ``more`` arguments. Progress is shown, or what is ``waiting`` for."""
        method = getattr(table, self.operation.name)
        if any(each.name == "on_progress" for each in self.operation.arguments) and "on_progress" not in more:
            with out.steps() as on_progress:
                return method(**self.given, **more, on_progress=on_progress)
        with out.waiting(waiting) if waiting else contextlib.nullcontext():
            return method(**self.given, **more)

    def run(self, shown: Shown, *, waiting: str | None = None, **more: Any) -> Any:
        """Open the table, call the method, and print its result: its fields as JSON, or what ``shown`` makes of it."""
        with self.opened() as (table, out):
            done = self.done(table, out, waiting, **more)
            self.print(table, out, done, shown)
            return done

    @contextlib.contextmanager
    def rows(self, table: txlog.Table | None, out: Output, **how: Any) -> Iterator[Any]:
        """The rows of the command's files, as `GivenFiles.rows_for` reads them for a table. Progress is shown."""
        assert self._files is not None
        data = self._files.rows_for(table, **how)
        if table is None:
            data.require_types()
        with out.progress("reading", data.size_bytes, in_bytes=True) as advance, data.named():
            yield data.reader(advance)

    def print(self, table: txlog.Table, out: Output, done: Any, shown: Shown) -> None:
        text = shown(table, done)
        lines = [text] if isinstance(text, str) or not isinstance(text, Iterable) else [*text]
        out.result({"table": table.uri, **done.to_dict()}, *lines)


def of_operation(
    name: str, about: str = "", *, optional: Container[str] = (), from_files: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a command of a function that gets a `CommandCall`, and its own arguments by name.

    The command has the arguments that the operation declares, and those of the function; with ``from_files``, also
    those of `GivenFiles`, which its rows come from. Its help is what the operation is ``about``, and the function's
    docstring. Arguments in ``optional`` need not be given here.
    """
    operation = declared(name)
    taken = [each for each in operation.arguments if each.option is not None]

    def made(function: Callable[..., None]) -> Callable[..., None]:
        own = _own_parameters(function, [*inspect.signature(function).parameters.values()][1:])
        of_files = _own_parameters(GivenFiles, inspect.signature(GivenFiles).parameters.values()) if from_files else []

        def command(**values: Any) -> None:
            of_function = {each.name: values.pop(each.name) for each in own}
            files = GivenFiles(**{each.name: values.pop(each.name) for each in of_files}) if from_files else None
            function(CommandCall(operation, values, files), **of_function)

        given = [
            _parameter(operation, each, is_optional=each.name in optional) for each in taken if each.option != "URI"
        ]
        found = [
            _plain("location", Uri),
            *of_files[:1],
            *given,
            *own,
            *of_files[1:],
            _plain("storage", _storage(own), None),
            _plain("as_json", Json, False),
        ]
        found.sort(key=_place)
        command.__signature__ = inspect.Signature(found)  # type: ignore[attr-defined]
        command.__annotations__ = {each.name: each.annotation for each in found}
        command.__name__, command.__module__ = function.__name__, function.__module__
        command.__doc__ = "\n\n".join(filter(None, [about or operation.about, inspect.getdoc(function)]))
        return command

    return made


def _own_parameters(of: Any, parameters: Iterable[inspect.Parameter]) -> list[inspect.Parameter]:
    hints = get_type_hints(of, include_extras=True)
    kind = inspect.Parameter.KEYWORD_ONLY
    return [each.replace(annotation=_annotated(hints[each.name]), kind=kind) for each in parameters]


def _annotated(hint: Any) -> Any:
    """The annotation as it is written: around one of an argument with the default None, Python 3.10 puts Optional."""
    return hint if hasattr(hint, "__metadata__") else get_args(hint)[0]


def _storage(own: Iterable[inspect.Parameter]) -> Any:
    """The storage options, without their letter if the function takes it for something else."""
    taken = [name for each in own for name in getattr(each.annotation.__metadata__[0], "param_decls", None) or ()]
    return StorageOption if "-o" in taken else Storage


def _plain(name: str, annotation: Any, default: Any = _EMPTY) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _place(parameter: inspect.Parameter) -> int:
    """Places come first, then what must be given, then the rest, with what all commands have at the end."""
    if isinstance(parameter.annotation.__metadata__[0], typer.models.ArgumentInfo):
        return 0
    if parameter.default is _EMPTY:
        return 1
    return 4 if parameter.name in ("storage", "as_json") else 3 if parameter.name in _OF_MANY else 2


def _parameter(operation: Operation, argument: Argument, *, is_optional: bool) -> inspect.Parameter:
    kind, option = argument.kind, str(argument.option_name)
    default = inspect.signature(getattr(txlog.Table, operation.name)).parameters[argument.name].default
    how: dict[str, Any] = {"help": argument.about, "metavar": kind.shown or None}
    if kind.minimum is not None:
        how["min"] = kind.minimum
    if kind.type == "size":
        how["parser"] = size
    if kind.type == "file":
        how |= {"exists": True, "dir_okay": False}
    of_one: Any = _TYPES[kind.type]
    of_value: Any = list.__class_getitem__(of_one) if kind.many else of_one
    if not option.startswith("--"):
        how |= {"metavar": option, "show_default": False}
        is_needed = not option.startswith("[")
        annotation: Any = Annotated[of_value if is_needed else of_value | None, typer.Argument(**how)]
        return _plain(argument.name, annotation, _EMPTY if is_needed else None)
    decls = _declared_names(argument, is_on=default is True)
    if kind.type == "switch" and decls[0].startswith("--no-"):
        default = False
    elif is_optional or (kind.many and default is not _EMPTY):
        default = None
    annotation = Annotated[of_value | None if default is None else of_value, typer.Option(*decls, **how)]
    return _plain(argument.name, annotation, default)


def _declared_names(argument: Argument, *, is_on: bool) -> list[str]:
    """The option's names as ``typer`` takes them: two words for a switch that can be turned on and off."""
    option = argument.option or f"--{argument.name.replace('_', '-')}"
    if argument.kind.type != "switch":
        return option.split("/")
    if is_on and not argument.option:
        return [f"{option}/--no-{option.removeprefix('--')}"]
    return [option]


def _value(argument: Argument, value: Any) -> Any:
    """The argument of Python; None for what is not given. Raises a usage error."""
    if value is None or argument.option is None:
        return None
    option = str(argument.option_name)
    if argument.kind.many == "names":
        return names(value) or None
    if argument.kind.shown == "COLUMN=SQL":
        return assignments(value, option)
    if argument.kind.many == "pairs":
        return pairs(value, option if option.startswith("--") else "property", argument.kind.shown) or None
    if argument.kind.many:
        return value or None
    if argument.kind.type == "switch" and option.startswith("--no-"):
        return not value
    if argument.kind.type == "time" and value.isdecimal() and len(value) >= _MILLISECONDS_MIN:
        return int(value)
    return value
