"""Which live files a row change must look at: it judges each once, and the judgment holds while the file is live.

In: a version's live files, and what can be said about a file without opening it. Out: the files to look into, files to
remove as a whole, and files without a match. If statistics exclude a file or prove something about it, that holds for
the ``add`` that carries them, not for its path: statistics next to a vector may describe live rows only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec
import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from txlog.core.format.actions import AddFile, FileId, FileKey, LiveKey, RemoveFile
from txlog.core.format.arrow.take_rows import taken_rows
from txlog.core.format.commit_file import Commit
from txlog.core.format.file_columns import add_files_of, adds_to_batch, live_keys
from txlog.core.format.paths import canonical_path
from txlog.core.util import cached_property

if TYPE_CHECKING:
    from numpy.typing import NDArray


_ACTION_BYTES = 1_000  # about the memory of an action without its statistics
FEW_FILES = 1_000
"""So many live files are kept as actions between the changes of a handle: a table of them would be made again each
time, column by column."""


class LiveFiles(msgspec.Struct, frozen=True, dict=True):
    """Live files of a version, and what identifies each; not all, if ``are_all`` is false.

    They are listed as ``FILES_SCHEMA``, or as actions. ``names`` are their paths and vectors in canonical spelling, if
    somebody needed them.
    """

    listed: pa.Table | list[AddFile]
    keys: list[LiveKey]
    are_all: bool = True
    names: list[FileKey] | None = None

    @classmethod
    def of(cls, table: pa.Table) -> LiveFiles:
        """The files of a table of live files."""
        return cls(table, live_keys(table))

    @property
    def are_few(self) -> bool:
        """Whether `after` leaves them as actions."""
        return len(self.keys) <= FEW_FILES

    @property
    def nbytes(self) -> int:
        """About the memory that they take."""
        if isinstance(self.listed, pa.Table):
            return int(self.listed.nbytes)
        return sum([_ACTION_BYTES + len(add.stats or "") for add in self.listed])

    @cached_property
    def table(self) -> pa.Table:
        """The files as a table."""
        if isinstance(self.listed, pa.Table):
            return self.listed
        return pa.Table.from_batches([adds_to_batch(self.listed)])

    def at(self, rows: list[int]) -> LiveFiles:
        """Some of the files; ``rows`` ascend."""
        keys = [self.keys[row] for row in rows]
        if isinstance(self.listed, pa.Table):
            return LiveFiles(self.take(rows), keys, are_all=False)
        return LiveFiles([self.listed[row] for row in rows], keys, are_all=False)

    def after(self, commits: Sequence[Commit]) -> LiveFiles:
        """What the commits that follow leave of them, and the files that they add."""
        if not commits:
            return self
        gone: set[FileKey] = set()
        new: dict[FileKey, AddFile] = {}
        for commit in commits:
            adds = [action for action in commit.actions if isinstance(action, AddFile)]
            removed = {_canonical(*action.key) for action in commit.actions if isinstance(action, RemoveFile)}
            added = {_canonical(*add.key): add for add in adds}
            new = {key: add for key, add in new.items() if key not in removed} | added
            gone |= {*removed, *added}
        names = self.names or [_canonical(path, vector) for (path, *_), vector in self.keys]
        rows = [row for row, name in enumerate(names) if name not in gone]
        keys = [*[self.keys[row] for row in rows], *[add.live_key for add in new.values()]]
        if self.are_few:
            before = add_files_of(self.listed) if isinstance(self.listed, pa.Table) else self.listed
            listed = [*[before[row] for row in rows], *map(_as_listed, new.values())]
            return LiveFiles(listed, keys, self.are_all, [*[names[row] for row in rows], *new])
        added_files = pa.Table.from_batches([adds_to_batch([*new.values()])]).cast(self.table.schema)
        return LiveFiles(pa.concat_tables([self.take(rows), added_files]), keys, self.are_all)

    def take(self, rows: list[int]) -> pa.Table:
        """Some of the files, as a table; ``rows`` ascend."""
        if not isinstance(self.listed, pa.Table):
            return pa.Table.from_batches([adds_to_batch([self.listed[row] for row in rows])])
        return taken_rows(self.listed, np.array(rows, np.int64)) if len(rows) < len(self.keys) else self.listed

    def adds(self, rows: list[int]) -> list[AddFile]:
        """Some of the files."""
        if not isinstance(self.listed, pa.Table):
            return [self.listed[row] for row in rows]
        return add_files_of(self.take(rows)) if rows else []


def _as_listed(add: AddFile) -> AddFile:
    """A file as a table of files has it, without unknown fields."""
    return replace(add, extra={}) if add.extra else add


def _canonical(path: str, vector: str | None) -> FileKey:
    return canonical_path(path), vector


class JudgesFiles(Protocol):
    """What a change says about files without opening them. A ``RowOperation`` is one."""

    def candidates(self, files: pa.Table) -> NDArray[np.bool_]:
        """Which of these live files may hold a matching row. False only if no row can match."""

    def matches_whole_file(self, add: AddFile) -> bool:
        """Whether every row of the file is sure to match and be removed."""


class InspectedFiles(Protocol):
    """The files already looked into."""

    def knows(self, key: LiveKey) -> bool:
        """Whether this file was looked into and needs no more work."""

    def matches(self, key: LiveKey) -> bool:
        """Whether this file, which was looked into, has a matching row."""

    def recall(self, files: Sequence[FileId], *, are_all_live: bool) -> Collection[FileId]:
        """The ``files`` that need no look, since their content is known otherwise.

        ``are_all_live``: no other file is live on this version.
        """


class FileChoice:
    """Judges files for one change. ``excluded`` hold no match, and ``whole`` are removed as they are."""

    def __init__(self, judge: JudgesFiles) -> None:
        self._judge = judge
        self.excluded: set[LiveKey] = set()
        self.whole: set[LiveKey] = set()
        self._first: tuple[LiveFiles, list[int]] | None = None

    def mattering(self, live: LiveFiles, looked: InspectedFiles) -> LiveFiles:
        """The files of which the change knows a match, or nothing yet. After the first judgment of all files of a
        version no other file is looked at."""
        rows: Iterable[int] = range(len(live.keys))
        if self._first is not None and self._first[0] is live:
            rows = self._first[1]
        return live.at([row for row in rows if self._matters(live.keys[row], looked)])

    def _matters(self, key: LiveKey, looked: InspectedFiles) -> bool:
        if key in self.whole:
            return True
        return key not in self.excluded and (not looked.knows(key) or looked.matches(key))

    def forget(self, live: set[LiveKey]) -> None:
        """Forget files that are no longer live, so a file that comes back (RESTORE) is judged again."""
        self.excluded &= live
        self.whole &= live

    def new(self, live: LiveFiles, looked: InspectedFiles) -> list[AddFile]:
        """The files to look into: they may hold a match, and no execution has looked into them."""
        keys = live.keys
        unknown = [
            row
            for row, key in enumerate(keys)
            if key not in self.excluded and key not in self.whole and not looked.knows(key)
        ]
        if not unknown:
            return []
        is_first = len(unknown) == len(keys)
        known: list[int] = []
        recalled = looked.recall([keys[row][0] for row in unknown], are_all_live=live.are_all and is_first)
        if recalled:
            known = [row for row in unknown if keys[row][0] in recalled]
            unknown = [row for row in unknown if keys[row][0] not in recalled]
            if not unknown:
                return []
        rows = live.take(unknown)
        is_candidate = self._judge.candidates(rows)
        self.excluded.update(keys[unknown[at]] for at in np.flatnonzero(~is_candidate).tolist())
        wanted = np.flatnonzero(is_candidate)
        if is_first:
            self._first = live, sorted([*known, *(unknown[at] for at in wanted.tolist())])
        adds = add_files_of(taken_rows(rows, wanted)) if len(wanted) else []
        whole = {add.live_key for add in adds if self._judge.matches_whole_file(add)}
        self.whole |= whole
        return [add for add in adds if add.live_key not in whole]
