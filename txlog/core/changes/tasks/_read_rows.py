"""`ReadTask`: some of a version's rows, as plain data that any process on any machine reads.

In: scan tasks of one selection, and the place of the table's files. Out: Arrow batches in the table's names and types,
without deleted rows and rows that the condition excludes.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pyarrow as pa

from txlog.core.changes.tasks._task_table import TaskStore
from txlog.core.reading import ScanTask, Selection, TaskReader


class ReadTask(msgspec.Struct, frozen=True):
    """A part of a scan. Made by `Snapshot.scan_tasks`. Plain data that can be pickled: it opens the data files by the
    table's location and its storage options, which may be secrets, and never the log.

    Also an Arrow stream: ``polars.DataFrame(task)``, ``pyarrow.table(task)``.
    """

    store: TaskStore
    selection: Selection
    tasks: tuple[ScanTask, ...]

    @property
    def size_bytes(self) -> int:
        """About how many bytes of data files it reads, before columns are left out."""
        return sum(task.size_bytes for task in self.tasks)

    @property
    def paths(self) -> tuple[str, ...]:
        """The data files that it reads from, as the log names them."""
        return tuple(task.log_path for task in self.tasks)

    @property
    def schema(self) -> pa.Schema:
        """The columns of its batches."""
        return self.selection.arrow_schema()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Its rows, a bounded batch at a time.

        Returns:
            Batches of `schema`.

        Raises:
            NotFoundError: A data file is missing.
            CorruptLogError: A data file or deletion vector is damaged.
            StorageError: The store failed.
        """
        yield from TaskReader(self.store.files, self.selection).in_order(self.tasks, wants_all=True)

    def to_arrow(self) -> pa.Table:
        """Its rows as one Arrow table.

        Returns:
            All its rows, in memory.

        Raises:
            TxlogError: What `batches` raises.
        """
        return pa.Table.from_batches(self.batches(), schema=self.schema)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The Arrow PyCapsule interface."""
        return pa.RecordBatchReader.from_batches(self.schema, self.batches()).__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        """Without storage options."""
        return f"ReadTask({self.store.uri}, version {self.selection.version}, {len(self.tasks)} parts of files)"
