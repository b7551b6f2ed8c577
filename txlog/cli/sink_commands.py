"""The commands of `txlog` for sinks: which applications write to a table, and what they staged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from typing import Annotated, Any

import typer
from msgspec.structs import asdict
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

import txlog
from txlog.cli.console import Output
from txlog.cli.opened import opened
from txlog.cli.options import Json, Storage, Uri, pairs
from txlog.cli.tables import table_of
from txlog.core.catalogs import open_place
from txlog.core.sink import Application, StagedState, applications, clean_staging, staged_states
from txlog.core.versions import OpenTable
from txlog.errors import InvalidInputError
from txlog.extend import open_table_of
from txlog.result import counted, human_size

HOUR_MS = 60 * 60 * 1000


def sinks(uri: Uri, storage_options: Storage = None, as_json: Json = False) -> None:
    """List the applications that write exactly once.

    Shows the last checkpoint of each, when it was committed, and the rows of its commit.
    """
    options = pairs(storage_options, "--storage-option")
    out = Output(as_json)
    with out.reporting():
        open_table = OpenTable(open_place(uri, options))
        found = applications(open_table)
        out.result([_application_facts(each) for each in found], *_applications_shown(found))


def staging(
    uri: Uri,
    clean: Annotated[bool, typer.Option("--clean", help="remove unsealed and committed checkpoints")] = False,
    older_than: Annotated[
        float, typer.Option(metavar="HOURS", min=1, help="--clean removes only older checkpoints")
    ] = 168.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only list what --clean would remove")] = False,
    storage_options: Storage = None,
    as_json: Json = False,
) -> None:
    """List what sinks staged but did not commit, and clean it up.

    A sealed checkpoint waits for its application's recovery and is never removed. A vacuum removes the data files.
    """
    if dry_run and not clean:
        raise typer.BadParameter("--dry-run needs --clean")
    options = pairs(storage_options, "--storage-option")
    out = Output(as_json)
    with out.reporting():
        open_table = OpenTable(open_place(uri, options))
        age_ms = int(older_than * HOUR_MS)
        found = clean_staging(open_table, age_ms, dry_run=dry_run) if clean else staged_states(open_table)
        verb = f"{'would remove' if dry_run else 'removed'} " if clean else ""
        out.result([_state_facts(each) for each in found], *_states_shown(found, verb))


def abandon(
    uri: Uri,
    app_id: Annotated[str, typer.Option(metavar="TEXT", help="the application")],
    checkpoint_id: Annotated[int, typer.Option(metavar="NUMBER", min=0, help="its checkpoint")],
    unstaged: Annotated[bool, typer.Option("--unstaged", help="even if nothing is staged for it")] = False,
    user_metadata: Annotated[str | None, typer.Option(metavar="TEXT", help="a note for the table's history")] = None,
    storage_options: Storage = None,
    as_json: Json = False,
) -> None:
    """Give up a checkpoint that cannot be committed, so that its stream can continue.

    Its rows never reach the table. `txlog staging` shows what waits for a commit.
    """
    with opened(uri, storage_options, as_json) as (table, out):
        sink = txlog.Sink(table, app_id, user_metadata=user_metadata)
        if not unstaged:
            _require_staged(table, sink, app_id, checkpoint_id)
        found = sink.abandon(checkpoint_id)
        given_up = {name: value for name, value in asdict(found).items() if name != "result"}
        done = {"outcome": found.result.outcome, "version": found.result.version}
        facts = {"table": table.uri, "app_id": app_id, **done, **given_up}
        files = [f"its files stay until a vacuum: {', '.join(found.files)}"] if found.files else []
        out.result(facts, Text(str(found)), *map(Text, files))


def _require_staged(table: txlog.Table, sink: txlog.Sink, app_id: str, checkpoint_id: int) -> None:
    """A mistyped number would skip all checkpoints below it, and a mistyped name make an application."""
    staged = [each.checkpoint_id for each in staged_states(open_table_of(table)) if each.app_id == app_id]
    if checkpoint_id not in staged and sink.committed(checkpoint_id) is None:
        others = f"staged are {', '.join(map(str, staged))}" if staged else "it has staged nothing"
        raise InvalidInputError(
            f"nothing is staged for checkpoint {checkpoint_id} of {app_id!r}; {others}. --unstaged gives it up anyway:"
            " every checkpoint up to it is refused from then on",
            parameter="checkpoint_id",
        )


def _application_facts(application: Application) -> dict[str, Any]:
    """Times in ms since the epoch."""
    return {
        "app_id": application.app_id,
        "checkpoint_id": application.checkpoint_id,
        "timestamp_ms": application.updated_ms,
        "version": application.version,
        "rows": application.rows,
    }


def _applications_shown(found: Sequence[Application]) -> list[RenderableType]:
    if not found:
        return [Text("no application has written here with an app_id")]
    rows = [(each.app_id, each.checkpoint_id, _time(each.updated_ms), each.version, each.rows) for each in found]
    return [_table(("app_id", "checkpoint", "time (UTC)", "version", "rows"), rows)]


def _state_facts(state: StagedState) -> dict[str, Any]:
    """Sizes in bytes, times in ms since the epoch."""
    return {
        "app_id": state.app_id,
        "checkpoint_id": state.checkpoint_id,
        "state": state.state,
        "mode": state.mode,
        "tasks": state.tasks,
        "rows": state.rows,
        "files": state.files,
        "size_bytes": state.size_bytes,
        "modified_ms": state.modified_ms,
        "names": list(state.staged.names),
    }


def _states_shown(found: Sequence[StagedState], verb: str) -> list[RenderableType]:
    if not found:
        return [Text(f"{verb}nothing" if verb else "nothing is staged")]
    rows = [
        (
            each.app_id if each.app_id is not None else each.staged.key,
            each.checkpoint_id,
            each.state,
            each.mode,
            each.tasks,
            each.rows,
            "" if each.size_bytes is None else human_size(each.size_bytes),
            _time(each.modified_ms),
        )
        for each in found
    ]
    names = ("app_id", "checkpoint", "state", "mode", "tasks", "rows", "size", "modified (UTC)")
    return [_table(names, rows), Text(f"{verb}{counted(len(found), 'checkpoint')}")]


def _table(names: Sequence[str], rows: Iterable[Sequence[str | int | None]]) -> Table:
    """A table with right-aligned numbers; ids are shown as they are, counts with thousands separators."""
    table = table_of(*names, numbers=("checkpoint", "version", "tasks", "rows", "size"))
    for row in rows:
        texts = (
            "" if cell is None else f"{cell:,}" if name in ("tasks", "rows") else str(cell)
            for name, cell in zip(names, row, strict=True)
        )
        table.add_row(*map(Text, texts))
    return table


def _time(timestamp_ms: int | None) -> str:
    if timestamp_ms is None:
        return ""
    return datetime.fromtimestamp(timestamp_ms / 1000, timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
