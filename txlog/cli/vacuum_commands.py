"""The command of `txlog` that deletes data files that a table no longer needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.text import Text

import txlog
from txlog.cli.declared import CommandCall, of_operation
from txlog.result import counted, human_size
from txlog.result.maintenance import VacuumResult

_PATHS_SHOWN = 20


@of_operation("vacuum")
def vacuum(call: CommandCall) -> None:
    """The retention is delta.deletedFileRetentionDuration (default: 7 days). Try it with --dry-run first."""
    with call.opened() as (table, out):
        inventory = _read(call.given.pop("inventory", None))
        call.print(table, out, call.done(table, out, inventory=inventory), lambda table, done: _shown(done))


def _read(inventory: Path | None) -> Any:
    if inventory is None:
        return None
    from pyarrow import ArrowException
    from pyarrow.parquet import read_table

    try:
        return read_table(inventory)
    except (ArrowException, OSError) as error:
        raise txlog.InvalidInputError(f"the inventory cannot be read: {error}", path=str(inventory)) from None


def _shown(done: VacuumResult) -> list[RenderableType]:
    if not done.paths:
        return [Text("nothing to delete: every file is needed, or younger than the retention")]
    shown: list[RenderableType] = [Text(path) for path in done.paths[:_PATHS_SHOWN]] if done.dry_run else []
    if done.dry_run and len(done.paths) > _PATHS_SHOWN:
        shown.append(Text(f"... and {len(done.paths) - _PATHS_SHOWN:,} more"))
    verb = "would delete" if done.dry_run else "deleted"
    return [*shown, Text(f"{verb} {counted(len(done.paths), 'file')}, {human_size(done.size_bytes)}")]
