"""Folders in a table's folder that packages own, such as ``_branches``: what a vacuum must know of them.

In: an open table. Out: the table's files that what is in such a folder needs, whatever the table's own log says of
them, and the files in it that may go. A vacuum deletes those of the latter that are as old as any file that it deletes,
and that nothing needs. Packages offer a `FolderKeeper` as ``txlog.kept_files``, under the folder's name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol

import pyarrow as pa

from txlog.core.changes.tasks import LISTED
from txlog.core.format.arrow.arrays import array_of
from txlog.core.points import Point
from txlog.core.store import ObjectMeta
from txlog.core.versions import OpenTable


class FolderKeeper(Protocol):
    """What knows the files of a folder: a module or an object with these functions."""

    def needed(self, open_table: OpenTable, cutoff_ms: int) -> Iterator[tuple[str, Callable[[], Iterator[pa.Table]]]]:
        """The table's files that the folder's owner needs. A running vacuum asks again and again.

        Args:
            open_table: The table that has the folder; or one that lies in the folder of another table, which may need
                files of it.
            cutoff_ms: What its own logs removed before this time, in ms since the epoch, it needs no more.

        Yields:
            A text that is another one when other files are needed, and what lists them: tables with the columns
            ``path`` and ``deletionVector`` of the Delta log, of which absolute paths count. It is called once for each
            text.

        Raises:
            TxlogError: It cannot tell. Nothing is deleted then.
        """

    def disposable(self, open_table: OpenTable, cutoff_ms: int) -> Iterator[Sequence[ObjectMeta]]:
        """The files of the folder that may go if they are older than the time, and the table does not need them.

        Names are relative to the table's root. A file that must outlive others is in a later page.

        Raises:
            TxlogError: It cannot tell. Nothing is deleted then.
        """

    def seal(self, open_table: OpenTable) -> None:
        """Before any of these files is deleted: see to it that nobody begins to need one. `needed` is asked once more
        after it.

        Raises:
            TxlogError: It cannot. Nothing is deleted then.
        """


KEEPERS: Final[Point[FolderKeeper]] = Point("txlog.kept_files", "what keeps the files of the folder")


def keepers_of(open_table: OpenTable) -> list[FolderKeeper]:
    """What knows the folders of packages that the table has, and those of another table in which it lies. Raises
    StorageError."""
    return [
        KEEPERS.load(folder)
        for folder in KEEPERS.names()
        if f"/{folder}/" in open_table.uri or _has(open_table, folder)
    ]


def _has(open_table: OpenTable, folder: str) -> bool:
    return any(open_table.store.files.list(folder))


def disposable_files(
    open_table: OpenTable, keepers: Sequence[FolderKeeper], cutoff_ms: int
) -> Iterator[pa.RecordBatch]:
    """The files in these folders that may go, as batches of ``LISTED``."""
    for keeper in keepers:
        for page in keeper.disposable(open_table, cutoff_ms):
            if page:
                columns = [
                    array_of(values, field.type) for values, field in zip(zip(*page, strict=True), LISTED, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=LISTED)
