"""The commands of `txlog` that bring a table back: to an older version, or to the files that are left."""

from __future__ import annotations

import typer
from rich.console import RenderableType
from rich.text import Text

from txlog.cli.declared import CommandCall, of_operation
from txlog.result import counted, human_size
from txlog.result.maintenance import RepairResult, RestoreResult

_PATHS_SHOWN = 20


@of_operation("restore")
def restore(call: CommandCall) -> None:
    """The versions in between stay in the history."""
    if ("version" in call.given) == ("timestamp" in call.given):
        raise typer.BadParameter("give --version or --timestamp")
    call.run(lambda table, done: _shown(done))


def _shown(done: RestoreResult) -> list[RenderableType]:
    shown: list[RenderableType] = [Text(f"missing: {path}") for path in done.missing[:_PATHS_SHOWN]]
    if len(done.missing) > _PATHS_SHOWN:
        shown.append(Text(f"... and {len(done.missing) - _PATHS_SHOWN:,} more"))
    verb = "would restore" if done.dry_run else "restored"
    now = "" if done.dry_run else f", as version {done.version}"
    return [
        *shown,
        Text(
            f"{verb} version {done.restored_version}{now}: {counted(done.files_restored, 'file')} back"
            f" ({human_size(done.bytes_restored)}), {counted(done.files_removed, 'file')} removed"
        ),
    ]


@of_operation("repair")
def repair(call: CommandCall) -> None:
    """Without --remove, this only shows them. With it, their rows are lost, so restore the
    files from a copy if you can. If a catalog has forgotten published versions, it
    gets them back.
    """
    call.run(lambda table, done: _repaired(done), waiting="looking for files")


def _repaired(done: RepairResult) -> list[RenderableType]:
    shown: list[RenderableType] = [Text(f"version {version}: the catalog has it again") for version in done.offered]
    shown += [Text(f"given up for what is published: {path}") for path in done.given_up]
    shown += [Text(f"missing: {path}") for path in done.files[:_PATHS_SHOWN]]
    if len(done.files) > _PATHS_SHOWN:
        shown.append(Text(f"... and {len(done.files) - _PATHS_SHOWN:,} more"))
    for each in done.partitions[:_PATHS_SHOWN]:
        named = ", ".join(f"{name}={'null' if value is None else value}" for name, value in each.values.items())
        rows = "unknown rows" if each.rows is None else counted(each.rows, "row")
        shown += [Text(f"{named}: {rows}, {counted(each.files, 'file')}")] if named else []
    if not done.files:
        return [*shown, Text(f"all {counted(done.files_checked, 'file')} are there")]
    rows = "an unknown number of rows" if done.rows is None else counted(done.rows, "row")
    size = f"{counted(len(done.files), 'file')} of {done.files_checked:,}, {rows}, {human_size(done.size_bytes)}"
    end = f"took out {size}, as version {done.version}"
    return [*shown, Text(f"--remove would take out {size}" if done.version is None else end)]
