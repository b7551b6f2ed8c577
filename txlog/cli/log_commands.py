"""The commands of `txlog` for files about versions: checkpoints, manifests, log compaction, log cleanup."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from txlog.cli.opened import opened
from txlog.cli.options import Json, Storage, Uri
from txlog.result import counted, human_size
from txlog.result.maintenance import LogCleanUp, LogCompaction

__all__ = ["checkpoint", "clean_up_log", "compact_log", "generate"]

_NAMES_SHOWN = 20


def checkpoint(uri: Uri, storage_options: Storage = None, as_json: Json = False) -> None:
    """Write a Delta checkpoint of the newest version.

    Readers then start there. An existing checkpoint stays as it is.
    """
    with opened(uri, storage_options, as_json) as (table, out):
        with out.waiting("writing a checkpoint"):
            version = table.create_checkpoint()
        out.result({"table": table.uri, "version": version}, Text(f"version {version} has a checkpoint"))


def compact_log(uri: Uri, storage_options: Storage = None, as_json: Json = False) -> None:
    """Write one file that combines many commits.

    Readers that support log compaction read it instead of the commits since the last checkpoint. The commits stay.
    """
    with opened(uri, storage_options, as_json) as (table, out):
        with out.steps() as report:
            done = table.compact_log(on_progress=lambda read, total: report("reading commits", read, total))
        facts = None if done is None else dict(done.to_dict())
        out.result({"table": table.uri, "compaction": facts}, _compaction_shown(done))


def clean_up_log(
    uri: Uri,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only list what would be deleted")] = False,
    storage_options: Storage = None,
    as_json: Json = False,
) -> None:
    """Delete versions that are past the log retention.

    The retention is delta.logRetentionDuration (default: 30 days). Files that time travel within it needs are kept.
    """
    with opened(uri, storage_options, as_json) as (table, out):
        with out.steps() as report:
            done = table.clean_up_log(dry_run, on_progress=lambda gone, total: report("deleting files", gone, total))
        out.result({"table": table.uri, **done.to_dict()}, *_clean_up_shown(done))


def generate(uri: Uri, storage_options: Storage = None, as_json: Json = False) -> None:
    """Write the symlink manifests of the newest version, for readers without Delta.

    Presto, Athena and others read the table by them. With the table property
    delta.compatibility.symlinkFormatManifest.enabled = true every commit updates them.
    """
    with opened(uri, storage_options, as_json) as (table, out):
        with out.waiting("writing manifests"):
            count = table.generate()
        out.result({"table": table.uri, "manifests": count}, Text(f"wrote {counted(count, 'manifest')}"))


def _compaction_shown(done: LogCompaction | None) -> RenderableType:
    if done is None:
        return Text("nothing to compact: fewer than two commits follow the last checkpoint")
    return Text(
        f"versions {done.first_version} to {done.last_version} as one file of {done.actions:,} actions:"
        f" {human_size(done.size_bytes)} in place of {human_size(done.replaced_bytes)}\n{done.name}"
    )


def _clean_up_shown(done: LogCleanUp) -> list[RenderableType]:
    if not done.names:
        return [Text("nothing to delete: every file of the log is within the retention, or needed by one that is")]
    shown: list[RenderableType] = [Text(name) for name in done.names[:_NAMES_SHOWN]] if done.dry_run else []
    if done.dry_run and len(done.names) > _NAMES_SHOWN:
        shown.append(Text(f"... and {len(done.names) - _NAMES_SHOWN:,} more"))
    verb = "would delete" if done.dry_run else "deleted"
    count = counted(len(done.names), "file")
    first = done.first_version
    since = "" if first is None else f"; the first version is {'then' if done.dry_run else 'now'} {first}"
    return [*shown, Text(f"{verb} {count}, {human_size(done.size_bytes)}{since}")]
