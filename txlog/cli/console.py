"""The command line's output: one JSON document, or text for a person; an error as one line and an exit code.

In: plain data, a rich renderable, or an exception. Results go to stdout; progress and errors for people go to stderr,
so a pipe receives only the result.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TextIO

import orjson
import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.segment import Segment
from rich.text import Text

from txlog.cli.wording import in_commands
from txlog.core.progress import OnProgress, no_progress
from txlog.core.util import logger, public_fields
from txlog.core.wording import spelled
from txlog.errors import TxlogError

FAILED = 1
NOT_PRINTED = 3
"""The work is done, and only its result could not be printed: a retry would do it twice."""
INTERRUPTED = 130
PIPE_WIDTH = 400
UNFOLDED_WIDTH = 10_000

# Padding of a table's last column: spaces at the end of a line, perhaps before its last color code.
_PADDING = re.compile(r" +((?:\x1b\[[0-9;]*m)*)$", re.MULTILINE)

_ACTING = (*range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""What moves the cursor, changes colors or turns the direction of text, besides the first 32 characters."""
_SHOWN = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\t\n"} | dict.fromkeys(_ACTING, 0xFFFD)
_ESCAPED = {code: f"\\u{code:04x}" for code in _ACTING}
"""In JSON, which escapes the others."""

Advance = Callable[[int], None]


class Output:
    """The output of one command. ``as_json`` is its ``--json`` flag."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self.results_before: list[Any] = []  # of what was done when an error came, for JSON
        self._unprinted: OSError | None = None
        self._landed: int | None = None  # the version that the result which could not be printed is about
        # A pipe has no width, so lines for it are not wrapped.
        self.stdout = _console(width=None if sys.stdout.isatty() else PIPE_WIDTH)
        self.stderr = _console(stderr=True)

    def result(self, data: Any, *shown: RenderableType, is_folded: bool = True) -> None:
        """Print ``data`` with ``--json``, otherwise ``shown``. Lines wrap only if ``is_folded``.

        If stdout cannot be written, `reporting` says so in the end: the work that follows, such as the next statement
        of a script, is still done.
        """
        if not self._write(lambda: self._text(data, shown, is_folded)) and isinstance(data, Mapping):
            self._landed = data.get("version") if data.get("outcome") == "committed" else None

    def line(self, text: str) -> None:
        """Print one of many lines, and end the command if nobody can read them."""
        if not self._write(lambda: f"{text}\n"):
            raise typer.Exit(NOT_PRINTED)

    def _text(self, data: Any, shown: Iterable[RenderableType], is_folded: bool) -> str:
        if self.as_json:
            options = orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS | orjson.OPT_APPEND_NEWLINE
            return orjson.dumps(data, default=public_fields, option=options).decode().translate(_ESCAPED)
        console = self.stdout if is_folded else _console(width=UNFOLDED_WIDTH)
        with console.capture() as captured:
            for renderable in shown:
                console.print(renderable)
        return _PADDING.sub(r"\1", captured.get())

    def _write(self, render: Callable[[], str]) -> bool:
        """Write to stdout at once, as an error must not wait for the end of the process; return whether it worked."""
        try:
            sys.stdout.write(render())  # rich touches stdout while it renders, too
            sys.stdout.flush()
        except OSError as error:
            self._unprinted = error
            _discard(sys.stdout)
            return False
        return True

    @contextlib.contextmanager
    def reporting(self) -> Iterator[None]:
        """Turn an exception inside into one message and exit code 1, and a warning into one line. A result that could
        not be printed is no failure of the work, and has its own exit code."""
        try:
            with self._warnings():
                yield
        except typer.Exit:
            self._say_unprinted()
            raise
        except TxlogError as error:
            error.template = spelled(error.template, in_commands)
            self._fail(error.kind, str(error), error_to_json(error))
        except OSError as error:
            name = type(error).__name__
            self._fail(name, str(error), {"kind": name, "message": str(error), "path": error.filename})
        except KeyboardInterrupt:
            message = "the write is complete or absent; `txlog history` shows whether a version landed"
            self._fail("Interrupted", message, {"kind": "Interrupted", "message": message}, INTERRUPTED)
        if self._say_unprinted():
            raise typer.Exit(NOT_PRINTED)

    def _say_unprinted(self) -> bool:
        """Say on stderr that a result could not be printed; return whether that is so. A reader that closes the pipe
        early, such as ``head``, wants no message."""
        error, self._unprinted = self._unprinted, None
        if error is not None and not isinstance(error, BrokenPipeError):
            done = "is done" if self._landed is None else f"is done (v{self._landed} was committed)"
            self._tell(
                "NotPrinted",
                f"the command {done}, but its result could not be printed: stdout: {error.strerror or error}. Do not"
                " run a command that writes again: `txlog history` shows what landed",
            )
        return error is not None

    @contextlib.contextmanager
    def _warnings(self) -> Iterator[None]:
        """Print the library's warnings on stderr."""
        handler = logging.StreamHandler()
        handler.setLevel(logging.WARNING)
        handler.setFormatter(_Line("warning: %(message)s"))
        logger.logger.addHandler(handler)
        try:
            yield
        finally:
            logger.logger.removeHandler(handler)

    def _fail(self, kind: str, message: str, data: Mapping[str, Any], exit_code: int = FAILED) -> None:
        document = {"error": data, "results": self.results_before} if self.results_before else {"error": data}
        if not (self.as_json and self._write(lambda: self._text(document, (), is_folded=True))):
            self._tell(kind, message)
        self._unprinted = None  # the error says more
        raise typer.Exit(exit_code)

    def _tell(self, kind: str, message: str) -> None:
        """Print one line on stderr, if anybody can read it."""
        with contextlib.suppress(OSError):
            self.stderr.print(Text.assemble((f"{kind}: ", "bold red"), message), soft_wrap=True)

    @contextlib.contextmanager
    def progress(self, what: str, total: int, *, in_bytes: bool = False) -> Iterator[Advance]:
        """A progress bar on stderr if that is a terminal; the yielded function takes each step's progress."""
        if self._is_quiet:
            yield lambda done: None
            return
        amount: ProgressColumn = DownloadColumn() if in_bytes else MofNCompleteColumn()
        columns = (TextColumn("{task.description}"), BarColumn(), amount, TimeRemainingColumn())
        with Progress(*columns, console=self.stderr, transient=True) as bar:
            task = bar.add_task(what, total=total)
            yield lambda done: bar.advance(task, done)

    @contextlib.contextmanager
    def steps(self) -> Iterator[OnProgress]:
        """Progress bars for what calls ``on_progress``, one for each step, with an estimate of the time that is
        left."""
        if self._is_quiet:
            yield no_progress
            return
        columns = (TextColumn("{task.description}"), BarColumn(), _Amount(), TimeRemainingColumn())
        with Progress(*columns, console=self.stderr, transient=True) as bar:
            tasks: dict[str, TaskID] = {}

            def report(what: str, done: int, total: int | None) -> None:
                if what not in tasks:
                    tasks[what] = bar.add_task(what, total=total)
                bar.update(tasks[what], completed=done, total=total)

            yield report

    @contextlib.contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """A spinner on stderr with the elapsed time, for work that cannot report its progress."""
        if self._is_quiet:
            yield
            return
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        with Progress(*columns, console=self.stderr, transient=True) as bar:
            bar.add_task(what, total=None)
            yield

    @property
    def _is_quiet(self) -> bool:
        """Whether to create no bar at all: some rich releases print an empty line after a disabled bar."""
        return self.as_json or not self.stderr.is_terminal


class _Amount(ProgressColumn):
    """How much of a step is done: in units of size if it counts bytes."""

    def render(self, task: Task) -> Text:
        column: ProgressColumn = DownloadColumn() if task.description.endswith("bytes") else MofNCompleteColumn()
        return Text.assemble(column.render(task))  # type: ignore[arg-type]


class _Console(Console):
    """Shows the control characters of a table's names and values, which a terminal would obey. A closed pipe is an
    error, where rich ends the process."""

    def on_broken_pipe(self) -> None:  # while rich handles the BrokenPipeError
        raise

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        if isinstance(renderable, Text) and (shown := renderable.plain.translate(_SHOWN)) != renderable.plain:
            renderable = renderable.copy()
            renderable.plain = shown
        return super().render(renderable, options)


class _Line(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return super().format(record).translate(_SHOWN)


def _discard(stream: TextIO) -> None:
    """Let what a broken stream still holds go nowhere: the interpreter writes it at its end, and would fail again."""
    with contextlib.suppress(OSError):  # a stream in memory has no descriptor
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _console(**how: Any) -> Console:
    """With ``NO_COLOR``, text has no color and is not bold either."""
    return _Console(highlight=False, color_system=None if os.environ.get("NO_COLOR") else "auto", **how)


def error_to_json(error: TxlogError) -> dict[str, Any]:
    """Every attribute of the error that is set, under its own name, with ``kind`` and ``message``."""
    left_out = {name for name in vars(error) if name.startswith("_")} | {"template"}
    known = {name: value for name, value in vars(error).items() if value is not None and name not in left_out}
    if "reasons" in known:
        known["reasons"] = [
            {name: getattr(reason, name) for name in ("rule", "winner_version", "winner_operation", "detail")}
            for reason in known["reasons"]
        ]
    return {"kind": error.kind, "message": error.message, **known}
