"""The commands of `txlog` for files about versions: checkpoints, manifests, log compaction, log cleanup."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from txlog.cli.declared import CommandCall, of_operation
from txlog.result import counted, human_size
from txlog.result.maintenance import LogCleanUp, LogCompaction

_NAMES_SHOWN = 20


@of_operation("create_checkpoint")
def checkpoint(call: CommandCall) -> None:
    """Readers then start at it. If the version has a checkpoint already, nothing changes."""
    with call.opened() as (table, out):
        version = call.done(table, out, "writing a checkpoint")
        out.result({"table": table.uri, "version": version}, Text(f"version {version} has a checkpoint"))


@of_operation("compact_log")
def compact_log(call: CommandCall) -> None:
    """Readers that support log compaction read it in place of the commits since the last checkpoint, which stay."""
    with call.opened() as (table, out):
        done = call.done(table, out)
        facts = None if done is None else dict(done.to_dict())
        out.result({"table": table.uri, "compaction": facts}, _compaction_shown(done))


@of_operation("clean_up_log")
def clean_up_log(call: CommandCall) -> None:
    """The retention is delta.logRetentionDuration (default: 30 days). It keeps the files that time
    travel within the retention needs.
    """
    call.run(lambda table, done: _clean_up_shown(done))


@of_operation("generate")
def generate(call: CommandCall) -> None:
    """Presto, Athena and others read the table through them. With the table property
    delta.compatibility.symlinkFormatManifest.enabled = true every commit updates them.
    """
    with call.opened() as (table, out):
        count = call.done(table, out, "writing manifests")
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
