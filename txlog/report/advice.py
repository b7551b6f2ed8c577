"""What to do about a table: commands that can be copied, each with what it will do and cost.

In: the facts of a report. Out: `Advice`, the most urgent first; none if all is well. Pure.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from txlog.core.format.properties import DAY_MS
from txlog.report.facts import Advice, Identity, Upkeep
from txlog.report.files import Files
from txlog.result import counted, human_size, utc_text
from txlog.result.maintenance import RewriteResult

_READ_BYTES_PER_S = 60_000_000
"""About what one machine with a few cores rewrites in a second: people want to know whether it takes minutes or
hours."""
_WORTH_SAYING_S = 20
_MANY_FILES = 1_000
"""Opening this many files more than necessary takes seconds on an object store."""
_HOUR_MS = DAY_MS // 24


def advice_for(
    table: Identity, files: Files, upkeep: Upkeep, optimize: RewriteResult | None, *, now_ms: int
) -> tuple[Advice, ...]:
    """``optimize`` is what the dry run says; None if this release may not rewrite the table."""
    found = [
        *_of_streams(table, upkeep, now_ms),
        *_of_the_log(table, upkeep),
        *_of_files(table, files, optimize),
        *_of_removed_files(table, files),
        *_of_iceberg(table, upkeep),
        *_of_old_versions(table, upkeep),
    ]
    return tuple(sorted(found, key=lambda each: (not each.is_urgent, each.is_optional)))


def _command(table: Identity, command: str, *more: str) -> str:
    return shlex.join(["txlog", command, table.uri, *more])


def _of_streams(table: Identity, upkeep: Upkeep, now_ms: int) -> Iterator[Advice]:
    old = [each for each in upkeep.staged if now_ms - each.modified_ms > _HOUR_MS]
    if old:
        yield Advice(
            f"Commit what {counted(len(old), 'sealed checkpoint')} staged",
            f"{', '.join(dict.fromkeys(each.app_id for each in old))} sealed rows that no commit holds, the oldest at"
            f" {utc_text(min(each.modified_ms for each in old))} UTC.",
            _command(table, "staging"),
            "Lists them. Start the application again: its recovery commits them. txlog abandon gives one up.",
            is_urgent=True,
        )


def _of_the_log(table: Identity, upkeep: Upkeep) -> Iterator[Advice]:
    log = upkeep.log
    if log.is_due:
        since = "no checkpoint" if log.checkpoint_version is None else f"version {log.checkpoint_version}"
        yield Advice(
            "Write a checkpoint",
            f"Readers replay {counted(log.commits_since, 'commit')} after {since} to open the table.",
            _command(table, "checkpoint"),
            "Reads the log once and writes one file. Nothing else changes.",
            is_urgent=log.is_overdue,
        )


def _of_files(table: Identity, files: Files, optimize: RewriteResult | None) -> Iterator[Advice]:
    dead = files.dead
    if optimize is not None and optimize.files_removed:
        fewer = optimize.files_removed - optimize.files_added
        gains = [f"{counted(fewer, 'file')} fewer to open" if fewer else "rows that are dead are no longer read"]
        if dead.many and fewer:
            gains.append(f"dead rows leave {counted(dead.many, 'file')}")
        yield Advice(
            f"Combine {counted(optimize.files_removed, 'file')} into {optimize.files_added:,}"
            if fewer
            else f"Rewrite {counted(optimize.files_removed, 'file')} without dead rows",
            f"{'; '.join(gains)}.".capitalize(),
            _command(table, "optimize"),
            f"Reads and writes {human_size(optimize.bytes_removed)}{_duration(optimize.bytes_removed)}. Readers and"
            f" writers continue; the old files stay for {_days(files.removed.retention_ms)}.",
            is_urgent=fewer >= _MANY_FILES,
        )
    if dead.files:
        yield Advice(
            f"If deleted values must go: purge {counted(dead.dead, 'row')} from {counted(dead.files, 'file')}",
            "Deletion vectors hide rows from readers; the files still hold them.",
            _command(table, "purge"),
            f"Reads and writes {human_size(dead.size_bytes)}{_duration(dead.size_bytes)}. Then vacuum after"
            f" {_days(files.removed.retention_ms)}, and check with txlog check-deleted.",
            is_optional=True,
        )


def _of_removed_files(table: Identity, files: Files) -> Iterator[Advice]:
    removed = files.removed
    if removed.expired:
        yield Advice(
            f"Free {human_size(removed.expired_bytes)}",
            f"{counted(removed.expired, 'removed file')} {'is' if removed.expired == 1 else 'are'} past the retention"
            f" of {_days(removed.retention_ms)}.",
            _command(table, "vacuum"),
            "Lists the table's folder and deletes files. Versions from before the retention can then not be read;"
            " named versions stay. Look first with --dry-run.",
            is_urgent=removed.expired_bytes > files.summary.size_bytes,
        )


def _of_iceberg(table: Identity, upkeep: Upkeep) -> Iterator[Advice]:
    found = upkeep.iceberg
    if found is None or (found.problem is None and not found.lag):
        return
    yield Advice(
        "Export for Iceberg readers",
        found.problem or f"Iceberg readers see version {found.version}, {counted(found.lag or 0, 'version')} behind.",
        _command(table, "iceberg"),
        "Writes metadata for the same data files.",
        is_urgent=found.problem is not None,
    )


def _of_old_versions(table: Identity, upkeep: Upkeep) -> Iterator[Advice]:
    log = upkeep.log
    if log.expired_files:
        yield Advice(
            f"Delete {counted(log.expired_files, 'old file')} of the log",
            f"{human_size(log.expired_bytes)} past the log retention of {_days(log.retention_ms)}.",
            _command(table, "clean-up-log"),
            "Deletes versions that time travel within the retention does not need.",
        )


def _duration(size_bytes: int) -> str:
    """Nothing for a short time."""
    seconds = size_bytes / _READ_BYTES_PER_S
    if seconds < _WORTH_SAYING_S:
        return ""
    number, unit = (seconds / 60, "minute") if seconds < 5400 else (seconds / 3600, "hour")
    return f", about {counted(max(1, round(number)), unit)} on one machine"


def _days(duration_ms: int) -> str:
    return counted(duration_ms // DAY_MS, "day") if duration_ms >= DAY_MS else counted(duration_ms // _HOUR_MS, "hour")
