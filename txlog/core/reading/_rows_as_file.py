"""Rows of scan tasks as Parquet files in memory, for Arrow's own code: fragments of files that Arrow would misread.

In: a `ScanTask` and a table's files. Out: an Arrow file system with one file: the task's live rows under the table's
names and types. It is made when it is opened.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from txlog.core.parallel import new_lock
from txlog.core.reading._arrow_files import ReadOnlyHandler
from txlog.core.reading._scan_task import ScanTask, TaskReader
from txlog.core.store import TableFiles


def rows_as_file(store: TableFiles, task: ScanTask) -> pafs.FileSystem:
    """A file system in which every path is the file with the rows of ``task``. Can be pickled if ``store`` can."""
    return pafs.PyFileSystem(_RowsOfTask(store, task))


class _RowsOfTask(ReadOnlyHandler):
    """Arrow opens a file for its footer, and again for its rows: every second time, it gets the bytes of the first."""

    def __init__(self, store: TableFiles, task: ScanTask) -> None:
        self._store = store
        self._task = task
        self._lock = new_lock()
        self._kept: pa.Buffer | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _RowsOfTask, (self._store, self._task)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _RowsOfTask) and self._store == other._store and self._task == other._task

    __hash__ = None  # type: ignore[assignment]

    def get_file_info(self, paths: list[str]) -> list[pafs.FileInfo]:
        return [pafs.FileInfo(path, pafs.FileType.File) for path in paths]

    def open_input_file(self, path: str) -> pa.NativeFile:
        with self._lock:
            body, self._kept = self._kept, None
        if body is None:
            body = self._rows()
            with self._lock:
                self._kept = body
        return pa.BufferReader(body)

    def _rows(self) -> pa.Buffer:
        body = pa.BufferOutputStream()
        reader = TaskReader(self._store, self._task.selection)
        # Arrow would trust bounds, which leave out NaN.
        options = {"compression": "none", "use_dictionary": False, "write_statistics": False}
        with pq.ParquetWriter(body, self._task.selection.arrow_schema(), **options) as writer:
            for batch in reader.batches(self._task):
                writer.write_batch(batch)
        return body.getvalue()
