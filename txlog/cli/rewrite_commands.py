"""The commands of `txlog` that rewrite data files without changing rows, and check what is left: optimize, purge."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from txlog.cli.console import FAILED
from txlog.cli.opened import opened
from txlog.cli.options import Json, ParquetSettings, Storage, Uri, UserMetadata, Workers, pairs, size
from txlog.result import counted, human_size
from txlog.result.maintenance import RewriteResult

if TYPE_CHECKING:
    from txlog.result.audits import DeletionCheck, Remnant

__all__ = ["check_deleted", "optimize", "purge"]

_REMAINS_SHOWN = 50

Where = Annotated[str | None, typer.Option(metavar="SQL", help="which partitions; default: all")]
_NOTHING_SMALL = "nothing to rewrite: no small files to combine, and no files with many dead rows"
DryRun = Annotated[bool, typer.Option("--dry-run", help="only show what would be rewritten")]


def optimize(
    uri: Uri,
    where: Where = None,
    target_file_size: Annotated[
        int | None, typer.Option(metavar="SIZE", parser=size, help="of the new files, such as 128mb")
    ] = None,
    max_bytes: Annotated[
        int | None, typer.Option(metavar="SIZE", parser=size, help="rewrite no more than this, such as 10gb")
    ] = None,
    cluster_by: Annotated[
        str | None, typer.Option(metavar="COLUMNS", help="cluster the rows by these, such as a,b")
    ] = None,
    parquet: ParquetSettings = None,
    dry_run: DryRun = False,
    workers: Workers = None,
    user_metadata: UserMetadata = None,
    storage_options: Storage = None,
    as_json: Json = False,
) -> None:
    """Rewrite small files, and files with many dead rows, as larger ones.

    No row changes, and readers and writers continue meanwhile. The old files stay until a vacuum deletes them.
    """
    with opened(uri, storage_options, as_json, workers) as (table, out):
        with out.steps(in_bytes=True) as report:
            done = table.optimize(
                where,
                target_file_size=target_file_size,
                max_bytes=max_bytes,
                cluster_by=cluster_by,
                parquet=pairs(parquet, "--parquet"),
                dry_run=dry_run,
                user_metadata=user_metadata,
                on_progress=lambda rewritten, total: report("rewriting", rewritten, total),
            )
        out.result({"table": table.uri, **done.to_dict()}, Text(_shown(done, _NOTHING_SMALL)))


def purge(
    uri: Uri,
    where: Where = None,
    dry_run: DryRun = False,
    workers: Workers = None,
    user_metadata: UserMetadata = None,
    storage_options: Storage = None,
    as_json: Json = False,
) -> None:
    """Rewrite every file that holds deleted rows or dropped columns, without them.

    The old files still hold them, and stay until a vacuum deletes them.
    """
    with opened(uri, storage_options, as_json, workers) as (table, out):
        with out.steps(in_bytes=True) as report:
            done = table.purge(
                where,
                dry_run=dry_run,
                user_metadata=user_metadata,
                on_progress=lambda rewritten, total: report("rewriting", rewritten, total),
            )
        nothing = "nothing to rewrite: no live file has deleted rows or dropped columns"
        out.result({"table": table.uri, **done.to_dict()}, Text(_shown(done, nothing)), *_still_kept(done))


def check_deleted(
    uri: Uri,
    version: Annotated[
        int | None,
        typer.Option("--version", min=0, metavar="NUMBER", help="the version of the delete; default: the newest"),
    ] = None,
    storage_options: Storage = None,
    as_json: Json = False,
) -> None:
    """Check that no file holds anything deleted up to a version. Exit code 1 if some may.

    Checks every file in the table's folder: data files of any version, named versions, change data, staging, the log.
    """
    with opened(uri, storage_options, as_json) as (table, out):
        with out.waiting("looking at files"):
            found = table.check_deleted(version)
        out.result({"table": table.uri, **found.to_dict()}, *_remains_shown(found))
        if not found.is_gone:
            raise typer.Exit(FAILED)


def _remains_shown(found: DeletionCheck) -> list[Text]:
    what = f"of what was deleted up to version {found.version}"
    if found.is_gone:
        return [Text(f"nothing is left {what}: looked at {counted(found.files, 'file')} and the log")]
    lines = [Text(f"{_kept(each)}  {each.path}") for each in found.remains if each.kept_by != "the log"]
    shown = lines[:_REMAINS_SHOWN]
    if len(lines) > len(shown):
        shown.append(Text(f"... and {len(lines) - len(shown):,} more"))
    of_log = [each for each in found.remains if each.kept_by == "the log"]
    if of_log:
        until = max(each.until_ms or 0 for each in of_log)
        bounds = f"{counted(len(of_log), 'file')} of the log may hold column bounds, until {_moment(until)}"
        shown.append(Text(bounds))
    files = "no data file is left" if found.rows_are_gone else f"{counted(len(lines), 'file')} may hold some"
    return [*shown, Text(f"{files} {what}")]


def _kept(each: Remnant) -> str:
    keeper = each.kept_by if each.name is None else f"{each.kept_by} ({each.name})"
    return keeper if each.until_ms is None else f"{keeper} until {_moment(each.until_ms)}"


def _still_kept(done: RewriteResult) -> list[Text]:
    if done.kept_until_ms is None:
        return []
    lines = [
        Text(f"a vacuum after {_moment(done.kept_until_ms)} deletes the old files, which still hold what was deleted")
    ]
    if done.kept_by:
        lines.append(Text(f"except files of named versions, until txlog untag: {', '.join(done.kept_by)}"))
    return lines


def _moment(moment_ms: int) -> str:
    return f"{datetime.fromtimestamp(moment_ms / 1000, timezone.utc):%Y-%m-%d %H:%M:%SZ}"


def _shown(done: RewriteResult, nothing: str) -> str:
    if not done.files_removed and not done.bins_given_up:
        return nothing
    if done.dry_run:
        files = f"would rewrite {counted(done.files_removed, 'file')} as {done.files_added:,}"
        return f"{files}, {human_size(done.bytes_removed)}"
    sizes = f"{human_size(done.bytes_removed)} as {human_size(done.bytes_added)}"
    parts = [f"rewrote {counted(done.files_removed, 'file')} as {done.files_added:,}, {sizes}"]
    if done.vectors_purged:
        parts.append(f"{counted(done.vectors_purged, 'deletion vector')} purged")
    if done.bins_given_up:
        parts.append(f"{counted(done.bins_given_up, 'group')} of files left to other writers")
    if done.versions:
        first, last = done.versions[0], done.versions[-1]
        parts.append(f"version {last}" if first == last else f"versions {first} to {last}")
    return "; ".join(parts)
