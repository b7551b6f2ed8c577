"""The commands of `txlog` that rewrite data files without changing rows: optimize, purge."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Annotated

import typer
from rich.text import Text

from txlog.cli.opened import opened
from txlog.cli.options import Json, ParquetSettings, Storage, Uri, UserMetadata, Workers, pairs, size
from txlog.result import counted, human_size
from txlog.result.maintenance import RewriteResult

__all__ = ["optimize", "purge"]

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
