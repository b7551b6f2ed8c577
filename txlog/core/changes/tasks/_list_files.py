"""The files in a table's folder, in columns, listed in one go or in ranges of names, each range as the work of a task.

In: a `FileStore`, or a `NameRange` of one. Out: record batches of `LISTED`, each with a bounded number of rows. Hidden
files and folders are left out. Names sort by their bytes, so ranges split a flat table as well as a partitioned one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txlog.core.changes.tasks._task_table import TaskStore
from txlog.core.format.arrow.arrays import array_of, flags_of, from_flags
from txlog.core.format.arrow.take_rows import taken_column
from txlog.core.format.paths import hidden_columns, is_folder_marker, is_hidden, is_in_progress
from txlog.core.store import FileStore, ObjectMeta, OnLink

LISTED = pa.schema([("path", pa.string()), ("size_bytes", pa.int64()), ("modified_ms", pa.int64())])
"""``path`` is relative to the table's root and decoded."""

_BATCH_FILES = 65_536
_MAYBE_HIDDEN = r"(^|/)([_.]|metadata(/|$))"
_MAYBE_MARKER = r"(?:^|/)[^./]*$|=[^/]*$|\$$"  # all that `is_folder_marker` takes


class NameRange(NamedTuple):
    """The files whose paths sort after ``after``, up to ``until``; None: to the last one."""

    after: str
    until: str | None

    def has_none_in(self, folder: str) -> bool:
        """Whether every path in a folder is outside the range."""
        first, beyond = f"{folder}/", f"{folder}0"  # 0 is the character after the slash
        return beyond <= self.after or (self.until is not None and first > self.until)


class Folders:
    """Decides which folders and files of a table are looked at, and counts the folders.

    ``within`` leaves out folders that hold none. Everything in a folder such as ``_p=1`` is hidden unless ``_p`` is a
    partition column. At the first such folder, ``former`` is called for those of older versions. With
    ``shows_doubted``, all of them are looked at, and the caller sorts them out.
    """

    def __init__(
        self,
        partition_columns: Iterable[str],
        within: NameRange | None = None,
        *,
        former: Callable[[], Iterable[str]] | None = None,
        shows_doubted: bool = False,
    ) -> None:
        self.partition_columns = tuple(partition_columns)
        self._within = within
        self._former = former
        self._shows_doubted = shows_doubted
        self.seen: set[str] = set()

    def __call__(self, folder: str) -> bool:
        """Whether everything in ``folder`` is left out. For `FileStore.list`."""
        if self.hides(f"{folder}/") or (self._within is not None and self._within.has_none_in(folder)):
            return True
        self.seen.add(folder)
        return False

    def __len__(self) -> int:
        """The number of folders, including the table's root."""
        return 1 + len(self.seen)

    def hides(self, path: str) -> bool:
        """Whether a path is left out. Includes temporary files left by a crash."""
        if not is_hidden(path, self.partition_columns) or is_in_progress(path, self.partition_columns):
            return False
        doubted = hidden_columns(path).difference(self.partition_columns)
        if doubted and self._shows_doubted:
            columns = (*self.partition_columns, *doubted)
            return is_hidden(path, columns) and not is_in_progress(path, columns)
        if doubted and self._former is not None:
            former, self._former = self._former, None
            self.partition_columns = tuple(dict.fromkeys((*self.partition_columns, *former())))
            return self.hides(path)
        return True


def listed(
    files: FileStore, folders: Folders, on_link: OnLink, within: NameRange | None = None, *, folder: str = ""
) -> Iterator[pa.RecordBatch]:
    """Every file of the table, or of a folder, or of a range of names. Raises StorageError."""
    after = None if within is None else within.after
    pages = files.list(folder, skip=folders, on_link=on_link, start_after=after)
    until = None if within is None else within.until
    waiting: list[ObjectMeta] = []
    for page in itertools.chain(pages, (None,)):
        is_last = page is None
        if page is not None:
            waiting += page if until is None else [meta for meta in page if meta.name <= until]
            is_last = until is not None and bool(page) and page[-1].name > until
        if waiting and (is_last or len(waiting) >= _BATCH_FILES):
            yield without_markers(listed_batch(*zip(*waiting, strict=True), folders=folders))
            waiting = []
        if is_last:
            return


def listed_batch(
    paths: Sequence[str], sizes: Sequence[int], times: Sequence[int], *, folders: Folders
) -> pa.RecordBatch:
    """These files, without hidden ones."""
    columns = [array_of(values, field.type) for values, field in zip((paths, sizes, times), LISTED, strict=True)]
    return without_hidden(pa.RecordBatch.from_arrays(columns, schema=LISTED), folders)


def without_hidden(found: pa.RecordBatch, folders: Folders) -> pa.RecordBatch:
    """The files that a vacuum may look at: see `core.format.paths.is_hidden`."""
    suspects = flags_of(pc.match_substring_regex(found["path"], _MAYBE_HIDDEN))
    if not suspects.any():
        return found
    keep = np.ones(len(suspects), bool)
    for row in np.flatnonzero(suspects).tolist():
        keep[row] = not folders.hides(found["path"][row].as_py())
    return found.filter(from_flags(keep))


def without_markers(found: pa.RecordBatch) -> pa.RecordBatch:
    """Without the empty objects that only mark a folder: see `core.format.paths.is_folder_marker`."""
    is_empty = flags_of(pc.equal(found["size_bytes"], array_of([0], pa.int64())[0]))
    if not is_empty.any():
        return found
    suspects = is_empty & flags_of(pc.match_substring_regex(found["path"], _MAYBE_MARKER))
    keep = ~suspects
    for row in np.flatnonzero(suspects).tolist():
        keep[row] = not is_folder_marker(found["path"][row].as_py(), 0)
    return found.filter(from_flags(keep))


def ranges_of(paths: pa.ChunkedArray, count: int) -> list[NameRange]:
    """At most ``count`` ranges of names, which together hold every name, with about as many of ``paths`` in each."""
    step = max(1, len(paths) // (64 * count))
    known = sorted(taken_column(paths, np.arange(0, len(paths), step)).to_pylist())
    cuts = sorted({known[at * len(known) // count] for at in range(1, count)}) if known else []
    return [NameRange(after, until) for after, until in zip(["", *cuts], [*cuts, None], strict=True)]


class FoundFiles(NamedTuple):
    """The files of a range, how many of them were looked at, its folders, and where its symbolic links lead."""

    files: pa.Table
    num_files: int
    folders: tuple[str, ...]
    links: tuple[str, ...]


class ListFiles(msgspec.Struct, frozen=True):
    """The work of a task: list a range of names, with everything that may be in a folder of a former partition column.

    ``before_ms`` leaves out files that are not older; None: none."""

    store: TaskStore
    partition_columns: tuple[str, ...]
    before_ms: int | None = None

    def __call__(self, within: NameRange) -> FoundFiles:
        """Raises ``StorageError``."""
        folders, links = Folders(self.partition_columns, within, shows_doubted=True), list[str]()
        kept, num_files = [], 0
        for batch in listed(self.store.files.files, folders, links.append, within):
            num_files += batch.num_rows
            if self.before_ms is not None:
                batch = batch.filter(pc.less(batch["modified_ms"], array_of([self.before_ms], pa.int64())[0]))
            kept.append(batch)
        return FoundFiles(pa.Table.from_batches(kept, LISTED), num_files, tuple(folders.seen), tuple(links))
