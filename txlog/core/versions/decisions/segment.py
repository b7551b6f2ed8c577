"""Which files of the log make up one version: the newest complete checkpoint, compacted commits, commits.

In: a listing (a hint: it may lack names). Out: a ``LogSegment``, whose ``plan`` says what to read, in order. A commit
that is absent when its version is read is a gap; the code that reads commits detects it. PROTOCOL.md, "Action
Reconciliation", "Checkpoints", "Log Compaction Files".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

import msgspec
from msgspec.structs import replace

from txlog.core.format.log_names import LogFile, LogFileKind, parse_log_name


class ListedFile(Protocol):
    """What this module needs to know about a listed object. `core.store._base.ObjectMeta` has these fields."""

    @property
    def name(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def modified_ms(self) -> int: ...


class CheckpointFiles(msgspec.Struct, frozen=True):
    """One complete checkpoint: all its top-level files. ``size_bytes`` is None if it is not known yet."""

    version: int
    kind: LogFileKind
    names: tuple[str, ...]
    size_bytes: int | None = None


class LogListing(msgspec.Struct, frozen=True):
    """A listing, sorted by kind of file. ``checkpoints`` holds only complete ones, newest first; ``checksums`` holds
    the versions with a checksum file, newest first.
    """

    commits: Mapping[int, ListedFile]
    checkpoints: tuple[CheckpointFiles, ...]
    compacted: tuple[LogFile, ...]
    checksums: tuple[int, ...] = ()

    @property
    def latest_version(self) -> int:
        """The newest version in the listing, -1 if it shows none. A newer one may exist."""
        newest_checkpoint = self.checkpoints[0].version if self.checkpoints else -1
        return max(newest_checkpoint, max(self.commits, default=-1))

    def up_to(self, version: int) -> LogListing:
        """Without what stands on newer versions, which their owner does not have (any more)."""
        return LogListing(
            {each: file for each, file in self.commits.items() if each <= version},
            tuple(each for each in self.checkpoints if each.version <= version),
            tuple(each for each in self.compacted if each.version <= version),
            tuple(each for each in self.checksums if each <= version),
        )


class LogSegment(msgspec.Struct, frozen=True):
    """The files that make up version ``version``.

    The commits after the checkpoint are dense, so this holds only their range: ``first_commit`` to ``version``.
    ``tail_bytes`` is the total size of the commits read so far.
    """

    version: int
    checkpoint: CheckpointFiles | None
    compacted: tuple[LogFile, ...] = ()
    tail_bytes: int = 0

    @property
    def first_commit(self) -> int:
        return self.checkpoint.version + 1 if self.checkpoint else 0

    @property
    def tail_commits(self) -> int:
        return self.version + 1 - self.first_commit

    def extended(self, size_bytes: int) -> LogSegment:
        """The segment of the next version, whose commit file has this size."""
        return LogSegment(self.version + 1, self.checkpoint, self.compacted, self.tail_bytes + size_bytes)

    def checkpointed(self, checkpoint: CheckpointFiles) -> LogSegment:
        """The same version on a newer checkpoint; the shorter tail's size is estimated from its share of the
        commits."""
        tail_commits = self.version - checkpoint.version
        share = tail_commits / self.tail_commits if self.tail_commits else 0.0
        return LogSegment(self.version, checkpoint, (), int(self.tail_bytes * share))

    def plan(self) -> Iterator[int | LogFile]:
        """What to read after the checkpoint, in ascending order: versions, and compacted files in place of some."""
        by_first = {file.first_version: file for file in self.compacted}
        version = self.first_commit
        while version <= self.version:
            compacted = by_first.get(version)
            if compacted is not None:
                yield compacted
                version = compacted.version + 1
            else:
                yield version
                version += 1


def read_listing(files: Iterable[ListedFile]) -> LogListing:
    """Sort the listed files by kind. Names that the protocol does not define are ignored."""
    commits: dict[int, ListedFile] = {}
    compacted: list[LogFile] = []
    checksums: list[int] = []
    single: list[CheckpointFiles] = []
    multipart: dict[tuple[int, int], list[tuple[LogFile, int]]] = {}
    for file in files:
        parsed = parse_log_name(file.name)
        if parsed is None:
            continue
        if parsed.kind is LogFileKind.COMMIT:
            commits[parsed.version] = file
        elif parsed.kind is LogFileKind.COMPACTED:
            compacted.append(parsed)
        elif parsed.kind is LogFileKind.CHECKSUM:
            checksums.append(parsed.version)
        elif parsed.kind is LogFileKind.MULTIPART_CHECKPOINT:
            multipart.setdefault((parsed.version, parsed.parts), []).append((parsed, file.size))
        elif parsed.kind.is_checkpoint:
            size_bytes = None if parsed.kind is LogFileKind.V2_CHECKPOINT else file.size  # its sidecars count too
            single.append(CheckpointFiles(parsed.version, parsed.kind, (file.name,), size_bytes))
    whole = [_whole(version, parts) for (version, count), parts in multipart.items() if len(parts) == count]
    checkpoints = sorted(single + whole, key=_preference, reverse=True)
    return LogListing(commits, tuple(checkpoints), tuple(compacted), tuple(sorted(checksums, reverse=True)))


def _whole(version: int, parts: list[tuple[LogFile, int]]) -> CheckpointFiles:
    names = tuple(sorted(part.name for part, _ in parts))
    return CheckpointFiles(version, LogFileKind.MULTIPART_CHECKPOINT, names, sum(size for _, size in parts))


def _preference(checkpoint: CheckpointFiles) -> tuple[int, bool, tuple[str, ...]]:
    # If a version has several, a single file is preferred: two writers of multi-part checkpoints can mix their parts.
    return checkpoint.version, checkpoint.kind is not LogFileKind.MULTIPART_CHECKPOINT, checkpoint.names


def choose_segment(
    listing: LogListing, *, target: int | None = None, excluded: frozenset[tuple[str, ...]] = frozenset()
) -> LogSegment | None:
    """The segment of ``target`` (by default, the newest version in the listing), or None if the log is empty.

    ``excluded`` are the ``names`` of checkpoints to skip because they could not be read.
    """
    version = listing.latest_version if target is None else target
    if version < 0 or (target is not None and listing.latest_version < 0):
        return None
    usable = (c for c in listing.checkpoints if c.version <= version and c.names not in excluded)
    checkpoint = next(usable, None)
    segment = LogSegment(version, checkpoint)
    return replace(segment, compacted=_choose_compacted(listing.compacted, segment.first_commit, version))


def is_stray(commit: ListedFile, later: LogListing, version: int, *, slack_ms: int) -> bool:
    """Whether the commit file of ``version`` is not part of the log, despite its name.

    A writer suspended for longer than the retention puts a version that others took and cleaned up long ago. Then there
    are ``later`` versions, and not all of them are younger than this file, or some are missing. ``slack_ms`` is how
    much file times may differ from the order of versions; less than the retention.
    """
    versions = sorted(later.commits)
    if later.latest_version <= version:
        return False
    is_dense = versions == list(range(version + 1, later.latest_version + 1))
    return not is_dense or any(file.modified_ms + slack_ms < commit.modified_ms for file in later.commits.values())


def _choose_compacted(candidates: Iterable[LogFile], first: int, last: int) -> tuple[LogFile, ...]:
    """For each start, the longest file with a range inside ``first`` to ``last``. ``plan`` uses the ones it meets."""
    longest: dict[int, LogFile] = {}
    for file in candidates:
        if first <= file.first_version < file.version <= last:
            known = longest.get(file.first_version)
            if known is None or known.version < file.version:
                longest[file.first_version] = file
    return tuple(longest.values())
