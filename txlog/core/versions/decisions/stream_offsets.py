"""How far a stream has read a table: offsets in the format of Delta's own Spark source, and what is between two.

In: an offset, the sizes of the files that follow it, and limits. Out: the offset where a batch ends, and the ranges of
files of a batch. Pure decisions. A stream reads the files of one version (the initial snapshot) and then the files that
each later commit added; an offset names the last file that was read. Snapshot files are counted in the order of
(modificationTime, path), a commit's files in the order of its lines. Delta's source does the same, so either can
continue from the other's checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from txlog.errors import InvalidInputError

_FORMAT = 1
_FORMAT_MAX = 3
"""Format 3 marks a schema change by a negative index, before the version's first file."""
_BEFORE_FILES = -1
_AFTER_FILES = 1 << 62
"""Delta's source writes an index above this when every file of a version was read."""
_VERSION_MAX = (1 << 63) - 1


class StreamOffset(msgspec.Struct, frozen=True):
    """A position in a table's history.

    Attributes:
        table_id: The table's id, from its metadata.
        version: The version that is being read.
        index: The last of the version's files that was read, from 0; -1 if none was.
        is_initial: Whether the files are all files of the version, not only the ones that it added.
    """

    table_id: str
    version: int
    index: int = _BEFORE_FILES
    is_initial: bool = False

    def to_json(self) -> dict[str, Any]:
        """The value that Spark stores in the stream's checkpoint."""
        return {
            "sourceVersion": _FORMAT,
            "reservoirId": self.table_id,
            "reservoirVersion": self.version,
            "index": self.index,
            "isStartingVersion": self.is_initial,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any], table_id: str) -> StreamOffset:
        """The offset in a checkpoint.

        Args:
            value: What `to_json` or Delta's source wrote.
            table_id: The id of the table being read.

        Raises:
            InvalidInputError: It is not such an offset, or it is for another table.
        """
        of_table: Any = value.get("reservoirId")
        version: Any = value.get("reservoirVersion")
        index: Any = value.get("index")
        is_initial: Any = value.get("isStartingVersion")
        if not isinstance(of_table, str) or not _is_count(version) or type(index) is not int:
            raise InvalidInputError(
                f"the stream's checkpoint has an offset that is not a Delta table's: {dict(value)!r}."
                " Is it the checkpoint of another query?"
            )
        source_version: Any = value.get("sourceVersion")
        if not _is_count(source_version) or source_version > _FORMAT_MAX or type(is_initial) is not bool:
            raise InvalidInputError(
                f"the stream's checkpoint has an offset in a format that this release cannot read: {dict(value)!r}."
                " Continue with the source that wrote it, or start with a new checkpointLocation"
            )
        if of_table != table_id:
            raise InvalidInputError(
                f"the stream's checkpoint is for the table with id {of_table}, but the location now has the table"
                f" with id {table_id}: the table was dropped and recreated, or the path is another one. Start with"
                " a new checkpointLocation"
            )
        if index >= _AFTER_FILES and not is_initial:
            return cls(of_table, version + 1)
        return cls(of_table, version, max(index, _BEFORE_FILES), is_initial)

    @property
    def is_start_of_snapshot(self) -> bool:
        """Whether it is before the first file of an initial snapshot."""
        return self.is_initial and self.index == _BEFORE_FILES

    def after_version(self) -> StreamOffset:
        """The position before the first file that the next version adds."""
        return StreamOffset(self.table_id, self.version + 1)


class ReadLimits(msgspec.Struct, frozen=True):
    """How much a batch reads. A batch has at least one file; the file that reaches ``size_bytes`` is its last.

    Attributes:
        files: The maximum number of files; None means no limit.
        size_bytes: The bytes after which no new file begins; None means no limit.
        by_version: Whether a batch ends only between versions, as change feeds do; snapshots are cut between files.
    """

    files: int | None = None
    size_bytes: int | None = None
    by_version: bool = False


class VersionSizes(msgspec.Struct, frozen=True):
    """The sizes in bytes of the files that a stream reads in one version, by index."""

    version: int
    is_initial: bool
    sizes: Sequence[int]


class FileRange(msgspec.Struct, frozen=True):
    """Files of one version, from ``first`` up to, but not including, ``stop``; None means up to the last."""

    version: int
    is_initial: bool
    first: int
    stop: int | None


def end_of_batch(start: StreamOffset, versions: Iterable[VersionSizes], limits: ReadLimits) -> StreamOffset:
    """Where a batch ends that begins at ``start``; ``start`` itself if nothing follows.

    A batch that begins an initial snapshot ends with it at the latest. After a crash in the first batch, Spark asks for
    a new initial offset; only with this rule can `replayed_start` find the snapshot's version.

    Args:
        start: Where the batch begins.
        versions: The version of ``start`` and the following ones, ascending, without gaps. Takes only as many as the
            limits need.
        limits: How much to read.
    """
    at, files, size_bytes = start, 0, 0
    for each in versions:
        first = start.index + 1 if (each.version, each.is_initial) == (start.version, start.is_initial) else 0
        whole = limits.by_version and not each.is_initial
        for index in range(first, len(each.sizes)):
            if _is_full(limits, files, size_bytes) and not (whole and index > first):
                return at
            files, size_bytes = files + 1, size_bytes + each.sizes[index]
            at = StreamOffset(start.table_id, each.version, index, each.is_initial)
        at = StreamOffset(start.table_id, each.version).after_version()
        if start.is_start_of_snapshot or _is_full(limits, files, size_bytes):
            break
    return at


def file_ranges(start: StreamOffset, end: StreamOffset) -> Iterator[FileRange]:
    """The files between two offsets, version by version.

    Raises:
        InvalidInputError: No batch can begin and end there.
    """
    if end.is_initial and (not start.is_initial or start.version != end.version):
        raise InvalidInputError(
            f"the stream's checkpoint has a batch from {start.to_json()} to {end.to_json()}, which cannot be of one"
            " stream: start with a new checkpointLocation"
        )
    if start.is_initial:
        stop = end.index + 1 if end.is_initial else None
        yield FileRange(start.version, True, start.index + 1, stop)
        if end.is_initial:
            return
        start = start.after_version()
    for version in range(start.version, end.version + 1):
        first = start.index + 1 if version == start.version else 0
        stop = end.index + 1 if version == end.version else None
        if stop is None or first < stop:
            yield FileRange(version, False, first, stop)


def replayed_start(start: StreamOffset, end: StreamOffset) -> StreamOffset:
    """The start of a batch that Spark planned before it was stopped, and now reruns.

    Spark stores only where batches end. For the first batch it asks for the initial offset again, which may be later
    by then if it is the snapshot of the newest version; the end shows which version it was.
    """
    if not start.is_start_of_snapshot:
        return start
    of_end = end.version if end.is_initial else end.version - 1
    return replace(start, version=of_end) if 0 <= of_end < start.version else start


def _is_full(limits: ReadLimits, files: int, size_bytes: int) -> bool:
    return (limits.files is not None and files >= limits.files) or (
        limits.size_bytes is not None and files > 0 and size_bytes >= limits.size_bytes
    )


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _VERSION_MAX
