"""The table's own files in which a branch changed rows, on a later version of the table.

In: what the branch did to such a file (`TouchedFile`), and the file as the table has it now. Out: the rows of it that
are dead then: those that the branch deleted, and those that others deleted meanwhile. It is a conflict if both changed
the same row, and if others removed or rewrote the file, or the branch did in which others deleted rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

from pyroaring import BitMap64

from txlog.branch.branch_work import BranchWork
from txlog.branch.changes import TouchedFile, key_of
from txlog.core.format.actions import AddFile, DeletionVectorDescriptor
from txlog.core.format.bitmaps import deserialized
from txlog.core.format.file_columns import add_files_of
from txlog.core.format.paths import canonical_path
from txlog.core.format.statistics_read import num_records
from txlog.errors import ConflictReason
from txlog.extend import OpenTable, TableState
from txlog.extend.commits import DeletionVectorReader, raise_conflict

NEXT_STEP = "rebase the branch on the newest version, check it, and publish it again"
UNKNOWN = "unknown"
"""The operation of a commit that nobody has looked up."""
_MAGIC_BYTES = 4


def conflict(table: OpenTable, rule: str, state: TableState, detail: str, next_step: str = NEXT_STEP) -> NoReturn:
    """Raise the ConflictError of something that a commit up to ``state`` did."""
    raise_conflict((ConflictReason(rule, state.version, UNKNOWN, detail),), table.uri, next_step)


class TouchedRows:
    """Reads the deletion vectors of a branch, and those of its table."""

    def __init__(self, work: BranchWork) -> None:
        self._table = work.table
        self._places = work.places
        self._changes = work.changes
        self._reader = DeletionVectorReader(work.branch.store, work.state.version)

    def live(self, state: TableState) -> Mapping[str, AddFile]:
        """The files that the branch touched, as a version of its table has them, by path."""
        wanted = [touched.path for touched in self._changes.touched]
        if not wanted:
            return {}
        files, _ = self._table.log.named_files(state, wanted)
        return {canonical_path(add.path): add for add in add_files_of(files)}

    def dead(self, touched: TouchedFile, there: AddFile | None, state: TableState, next_step: str) -> BitMap64 | None:
        """The dead rows of a file that is ``there`` in the table at ``state``; None if the file goes as a whole.

        Raises the ConflictError, and CorruptLogError for a vector that cannot be read.
        """
        if there is None:
            detail = f"or an earlier commit removed {touched.path}, of which the branch changes rows"
            conflict(self._table, "ConcurrentDeleteDeleteError", state, detail, next_step)
        seen = self._places.in_branch(there).deletion_vector
        is_as_before = key_of(seen) == key_of(touched.before)
        if touched.after is None:
            if not is_as_before and self._differ(touched.before, seen):
                detail = f"or an earlier commit deleted rows of {touched.path}, which the branch rewrote or removed"
                conflict(self._table, "ConcurrentDeleteDeleteError", state, detail, next_step)
            return None
        ours, base = self.rows([touched.after.deletion_vector, touched.before])
        if not is_as_before:
            (theirs,) = self.rows([seen])
            if base - theirs or (ours - base) & (theirs - base):
                detail = f"or an earlier commit changed rows of {touched.path} that the branch changes too"
                conflict(self._table, "ConcurrentDeleteDeleteError", state, detail, next_step)
            ours = ours | theirs
        total = num_records(touched.after.stats)
        return None if total is not None and len(ours) >= total else ours

    def _differ(self, *vectors: DeletionVectorDescriptor | None) -> bool:
        """Whether two vectors mark other rows. A publication writes a vector anew, with the same rows."""
        one, other = self.rows(vectors)
        return bool(one ^ other)

    def rows(self, vectors: Sequence[DeletionVectorDescriptor | None]) -> list[BitMap64]:
        """The dead rows of each vector, as the branch's log names it. Raises CorruptLogError, StorageError."""
        read = iter(self._reader.bitmaps([vector for vector in vectors if vector is not None]))
        return [BitMap64() if vector is None else deserialized(next(read)[_MAGIC_BYTES:]) for vector in vectors]
