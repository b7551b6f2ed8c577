"""Which files of a log are past its retention, and in which order they may be deleted. Pure.

In: a listing, the table's retention settings, the newest version that is older than the retention. Out: a
``CleanUpPlan``. The log is valid after each of these steps, so a cleanup may stop anywhere, rerun, and run twice at the
same time:

1. A hint that names a checkpoint about to be deleted. Readers without a hint list the log; some readers fail on a hint
   that names a missing file.
2. Compacted files. Readers still have the commits that these files summarize.
3. Whole versions, oldest first: the commit, its checksum, then checkpoints of that version. A remaining old version can
   still be read from the oldest remaining checkpoint, or is below the first readable version.
4. Sidecars that no checkpoint names (`plan_sidecars`), then a checkpoint that was published meanwhile and names one.

PROTOCOL.md, "Metadata Cleanup", "Checkpoint Protection".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Generic, TypeVar

import msgspec

from txlog.core.format.actions import Metadata, Protocol
from txlog.core.format.log_names import LogFile, LogFileKind, parse_log_name
from txlog.core.format.properties import DAY_MS, TableProperties
from txlog.core.versions.decisions.segment import CheckpointFiles, ListedFile, read_listing

_PROTECTION_FEATURE = "checkpointProtection"
_PROTECTION_PROPERTY = "delta.requireCheckpointProtectionBeforeVersion"


File = TypeVar("File", bound=ListedFile)


class CleanUpPlan(msgspec.Struct, Generic[File], frozen=True):
    """``files`` may be deleted, in this order, once ``checkpoint`` is known to be readable and durable."""

    checkpoint: CheckpointFiles
    files: tuple[File, ...]

    @property
    def first_version(self) -> int:
        """The earliest version that can be read afterwards."""
        return self.checkpoint.version


def cutoff_ms(properties: TableProperties, *, now_ms: int, retention_ms: int | None = None) -> int:
    """Midnight UTC of the day that ``delta.logRetentionDuration`` reaches back to, as in Spark; with another
    ``retention_ms``, that time itself."""
    if retention_ms is not None:
        return now_ms - retention_ms
    return (now_ms - properties.log_retention_ms) // DAY_MS * DAY_MS


def protected_version(protocol: Protocol, metadata: Metadata) -> int:
    """Versions below this one are deleted together or not at all; 0 if the table does not protect its checkpoints.

    A value that is not a number protects everything.
    """
    if _PROTECTION_FEATURE not in (protocol.writer_features or ()):
        return 0
    text = metadata.configuration.get(_PROTECTION_PROPERTY, "0").strip()
    return int(text) if text.isdecimal() else 2**63 - 1


def kept_checkpoints(
    files: Iterable[ListedFile], *, cutoff_version: int | None, protected_version: int = 0
) -> list[CheckpointFiles]:
    """The complete checkpoints that may become the start of the log, best first. If there are none, delete nothing.

    ``cutoff_version`` is the newest version committed at or before `cutoff_ms`, None if all are younger. Time travel to
    the edge of the retention reads this version, so the checkpoint must not be newer.
    """
    if cutoff_version is None:
        return []
    checkpoints = read_listing(files).checkpoints
    return [found for found in checkpoints if protected_version <= found.version <= cutoff_version]


def plan_versions(files: Sequence[File], checkpoint: CheckpointFiles) -> CleanUpPlan[File]:
    """All files with versions below ``checkpoint``, and the compacted files that begin at or below it."""
    compacted: list[File] = []
    versions: list[tuple[int, int, str, File]] = []
    for file in files:
        parsed = parse_log_name(file.name)
        if parsed is None:
            continue
        if parsed.kind is LogFileKind.COMPACTED:
            if parsed.first_version <= checkpoint.version:
                compacted.append(file)
        elif parsed.version < checkpoint.version:
            versions.append((parsed.version, _rank(parsed), file.name, file))
    versions.sort(key=lambda entry: entry[:3])
    return CleanUpPlan(checkpoint, (*compacted, *(entry[3] for entry in versions)))


def planned_for_one_run(plan: CleanUpPlan[File], most: int | None, protected_version: int) -> tuple[File, ...]:
    """The files to delete in one run: the oldest ``most``, and all that belong to protected versions in any case.

    Those go together, since a rest of them can need features that the protocol no longer names.
    """
    protected = [place for place, file in enumerate(plan.files, 1) if _first_version(file) < protected_version]
    return plan.files if most is None else plan.files[: max([most, *protected[-1:]])]


def _first_version(file: ListedFile) -> int:
    parsed = parse_log_name(file.name)
    assert parsed is not None
    return parsed.first_version


def _rank(file: LogFile) -> int:
    if file.kind is LogFileKind.COMMIT:
        return 0
    return 2 if file.kind.is_checkpoint else 1


def plan_sidecars(sidecars: Iterable[File], referenced: Collection[str], *, now_ms: int) -> tuple[File, ...]:
    """The sidecars that no kept checkpoint names and that were at least a day old at the last midnight UTC.

    A younger one may belong to a checkpoint being written. ``referenced`` spells names as ``sidecars`` does.
    """
    oldest_in_progress_ms = (now_ms - DAY_MS) // DAY_MS * DAY_MS
    return tuple(file for file in sidecars if file.name not in referenced and file.modified_ms < oldest_in_progress_ms)
