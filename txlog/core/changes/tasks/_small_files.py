"""Small files that one row change reads as a whole, once: to look up rows, to copy them, to record what it changes.

In: ``add``s of small files. Out: `JoinedFiles`, the rows of many files in one batch: a file of a few rows takes less
time to read than anything takes that is done for it alone. They stay in memory as far as there is room.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec
import numpy as np
import pyarrow as pa

from txlog.core.format.actions import AddFile, FileId
from txlog.core.format.schema import Field

if TYPE_CHECKING:
    from numpy.typing import NDArray

HELD_FILE_BYTES = 256 << 10
"""Of a larger file, reading some columns takes much less than reading all."""
HELD_BYTES = 32 << 20
JOINED_BYTES = 8 << 20


class WholeFiles(Protocol):
    """A `FileReader`."""

    def whole(self, adds: Iterable[AddFile], bytes_max: int) -> tuple[pa.RecordBatch | None, list[int]]: ...


class JoinedFiles(msgspec.Struct, frozen=True, eq=False):
    """Rows of several files, one file after the other. ``counts`` says how many rows each has.

    ``rows`` is None for a single file that is too large to be read as a whole.
    """

    adds: Sequence[AddFile]
    rows: pa.RecordBatch | None
    counts: NDArray[np.int64]


class HeldFile(msgspec.Struct, frozen=True, eq=False):
    """All rows of a file, dead ones included: ``count`` rows of ``joined``, from ``first`` on."""

    joined: pa.RecordBatch
    first: int
    count: int

    @property
    def rows(self) -> pa.RecordBatch:
        return self.joined.slice(self.first, self.count)


class SmallFiles:
    """Reads small files for one change. Files are held with the columns ``held``; with none, no file is. One thread
    joins files."""

    def __init__(self, held: tuple[Field, ...]) -> None:
        self._held_fields = held
        self.held: dict[FileId, HeldFile] = {}
        """The files in memory."""
        self._room_bytes = HELD_BYTES

    def joined(
        self,
        adds: Sequence[AddFile],
        fields: tuple[Field, ...],
        reader: Callable[[tuple[Field, ...]], WholeFiles],
        *,
        holds: bool = True,
    ) -> Iterator[JoinedFiles]:
        """These columns of all rows of the files, in the files' order; of files that are held from now on, more
        columns. Without ``holds``, none is. ``reader`` reads columns. Raises what `FileReader.batches` raises."""
        names = {field.name for field in fields}
        more = tuple(field for field in self._held_fields if field.name not in names)
        left = deque(adds)
        while left:
            is_held = holds and self._is_to_hold(left[0])
            alike = itertools.takewhile(lambda add: not holds or self._is_to_hold(add) == is_held, tuple(left))  # noqa: B023
            rows, counts = reader((*fields, *more) if is_held else fields).whole(alike, JOINED_BYTES)
            joined = JoinedFiles([left.popleft() for _ in counts or [0]], rows, np.array(counts or [0]))
            if is_held and joined.rows is not None:
                self._hold(joined, joined.rows)
            yield joined

    def _is_to_hold(self, add: AddFile) -> bool:
        return bool(self._held_fields) and add.size <= HELD_FILE_BYTES and self._room_bytes > 0

    def _hold(self, joined: JoinedFiles, rows: pa.RecordBatch) -> None:
        self._room_bytes -= rows.nbytes
        firsts = np.cumsum(joined.counts) - joined.counts
        for add, first, count in zip(joined.adds, firsts.tolist(), joined.counts.tolist(), strict=True):
            self.held[add.file_id] = HeldFile(rows, first, count)
