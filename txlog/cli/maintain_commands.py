"""The command of `txlog` that keeps a table fast and small, once or continuously."""

from __future__ import annotations

import signal
from contextlib import nullcontext
from types import FrameType
from typing import Annotated, Any

import orjson
import typer
from rich.text import Text

import txlog
from txlog.cli.console import FAILED, Output
from txlog.cli.declared import CommandCall, of_operation
from txlog.core import ambient
from txlog.core.progress import no_progress
from txlog.result.maintenance import MaintenanceResult

_INTERVAL_S = 60.0


@of_operation("maintain")
def maintain(
    call: CommandCall,
    watch: Annotated[bool, typer.Option("--watch", help="repeat until SIGTERM or Ctrl-C, one line per round")] = False,
) -> None:
    """Use it if the table's writers do no maintenance themselves. Readers and writers can
    continue meanwhile. With --watch --json, each round is
    one line of JSON.
    """
    interval_s = call.given.pop("interval_s", None)
    if interval_s is not None and not watch:
        raise typer.BadParameter("--interval is the time between the rounds of --watch")
    with call.opened() as (table, out):
        # No bars with --watch: they would appear between the lines of the rounds.
        with _Stop() as stop, nullcontext(no_progress) if watch else out.steps() as report:

            def on_progress(what: str, done: int, total: int | None) -> None:
                report(what, done, total)
                stop.at_safe_point()

            def on_round(done: MaintenanceResult) -> None:
                _report_round(out, table, done)
                stop.before_waiting()

            every = call.given["vacuum_every_hours"] or None
            work = {**call.given, "vacuum_every_hours": every, "on_progress": on_progress}
            if watch:
                _until_stopped(out, table, work | {"interval_s": interval_s or _INTERVAL_S, "on_round": on_round})
                return
            done = table.maintain(**work)
        out.result({"table": table.uri, **done.to_dict()}, Text(_shown(done)))
        if done.failures:
            raise typer.Exit(FAILED)


def _until_stopped(out: Output, table: txlog.Table, work: dict[str, Any]) -> None:
    try:
        table.maintain(**work)
    except KeyboardInterrupt:
        if not out.as_json:
            out.stderr.print("stopped")


def _report_round(out: Output, table: txlog.Table, done: MaintenanceResult) -> None:
    if out.as_json:
        out.line(orjson.dumps({"timestamp_ms": ambient.now_ms(), "table": table.uri, **done.to_dict()}).decode())
    else:
        out.line(f"{ambient.now():%Y-%m-%d %H:%M:%SZ}  {_shown(done)}")


def _shown(done: MaintenanceResult) -> str:
    return "; ".join([*done.steps(), *(["dry run"] if done.dry_run else [])])


class _Stop:
    """Handles SIGTERM and Ctrl-C. The first signal stops the work at its next safe point, the second immediately."""

    def __init__(self) -> None:
        self._stop_requested = False
        self._is_waiting = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> _Stop:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._stop_requested or self._is_waiting:
            raise KeyboardInterrupt
        self._stop_requested = True

    def at_safe_point(self) -> None:
        self._is_waiting = False
        if self._stop_requested:
            raise KeyboardInterrupt

    def before_waiting(self) -> None:
        self._is_waiting = True  # first: from here on, a signal ends the wait by itself
        if self._stop_requested:
            raise KeyboardInterrupt
