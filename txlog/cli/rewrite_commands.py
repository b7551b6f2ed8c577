"""The commands of `txlog` that rewrite data files without changing a row: optimize, purge."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

import txlog
from txlog.cli.console import Output
from txlog.cli.options import Json, Storage, Uri, pairs
from txlog.cli.write_commands import UserMetadata
from txlog.result import RewriteResult, counted, human_size

__all__ = ["optimize", "purge"]

Where = Annotated[str | None, typer.Option(metavar="SQL", help="the partitions meant; default: all")]
_NOTHING_SMALL = "nothing to rewrite: no small files that can be put together, and none with many dead rows"
DryRun = Annotated[bool, typer.Option("--dry-run", help="only say what would be rewritten")]


def optimize(
    uri: Uri,
    where: Where = None,
    target_file_size: Annotated[int | None, typer.Option(metavar="BYTES", help="size of the new files", min=1)] = None,
    max_bytes: Annotated[int | None, typer.Option(metavar="BYTES", help="rewrite no more than this", min=1)] = None,
    cluster_by: Annotated[str | None, typer.Option(metavar="COLUMNS", help="put near rows together, as in a,b")] = None,
    dry_run: DryRun = False,
    user_metadata: UserMetadata = None,
    storage_options: Storage = None,
    as_json: Json = False,
) -> None:
    """Rewrite small files, and files with many dead rows, as larger ones.

    No row changes, and readers and writers go on meanwhile. The old files stay until vacuum deletes them.
    """
    options = pairs(storage_options, "--storage-option")
    out = Output(as_json)
    with out.reporting():
        table = txlog.Table.open(uri, storage_options=options)
        with out.steps() as tell:
            done = table.optimize(
                where,
                target_file_size=target_file_size,
                max_bytes=max_bytes,
                cluster_by=cluster_by,
                dry_run=dry_run,
                user_metadata=user_metadata,
                on_progress=lambda rewritten, total: tell("rewriting bytes", rewritten, total),
            )
        out.result({"table": table.uri, **done.to_dict()}, Text(_shown(done, _NOTHING_SMALL)))


def purge(
    uri: Uri,
    where: Where = None,
    dry_run: DryRun = False,
    user_metadata: UserMetadata = None,
    storage_options: Storage = None,
    as_json: Json = False,
) -> None:
    """Rewrite every file that holds deleted rows or dropped columns, without them.

    The old files, which still hold them, stay until vacuum deletes them.
    """
    options = pairs(storage_options, "--storage-option")
    out = Output(as_json)
    with out.reporting():
        table = txlog.Table.open(uri, storage_options=options)
        with out.steps() as tell:
            done = table.purge(
                where,
                dry_run=dry_run,
                user_metadata=user_metadata,
                on_progress=lambda rewritten, total: tell("rewriting bytes", rewritten, total),
            )
        nothing = "nothing to rewrite: no live file holds deleted rows or dropped columns"
        out.result({"table": table.uri, **done.to_dict()}, Text(_shown(done, nothing)))


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
