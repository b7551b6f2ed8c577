"""The commands of `txlog` that rewrite data files without changing rows: optimize, purge."""

from __future__ import annotations

from rich.text import Text

from txlog.cli.declared import CommandCall, of_operation
from txlog.result import counted, human_size
from txlog.result.maintenance import RewriteResult

_NOTHING_SMALL = "nothing to rewrite: no small files to combine, and no files with many dead rows"


@of_operation("optimize")
def optimize(call: CommandCall) -> None:
    """No row changes, and readers and writers continue meanwhile. The old files stay until a vacuum deletes them."""
    call.run(lambda table, done: Text(_shown(done, _NOTHING_SMALL)))


@of_operation("purge")
def purge(call: CommandCall) -> None:
    """The old files still have them, until a vacuum deletes those files."""
    nothing = "nothing to rewrite: no live file has deleted rows or dropped columns"
    call.run(lambda table, done: [Text(_shown(done, nothing)), *_still_kept(done)])


def _still_kept(done: RewriteResult) -> list[Text]:
    if done.kept_until is None:
        return []
    after = f"{done.kept_until:%Y-%m-%d %H:%M:%SZ}"
    lines = [Text(f"a vacuum after {after} deletes the old files, which still hold what was deleted")]
    if done.kept_by:
        lines.append(Text(f"except files of named versions, until txlog untag: {', '.join(done.kept_by)}"))
    return lines


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
