"""The rows of single data files, with their positions: what a row change looks up, and what it copies.

In: an ``add`` of the log and the columns or condition wanted. Out: batches of the table's columns, with the position of
each row in its file. A position counts dead rows too, so it means the same whatever a deletion vector says.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from txlog.errors import CorruptLogError, NotFoundError, UnsupportedFeatureError
from txlog.expressions.predicates import Predicate
from txlog.log.state import TableState
from txlog.protocol.actions import AddFile
from txlog.protocol.paths import path_below, resolve_data_path
from txlog.protocol.schema import Field
from txlog.read.scan_task import ScanTask, Selection, TaskReader
from txlog.store.base import TableStore

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["FileReader", "FileRows"]


class FileReader:
    """Reads the same columns of many files. Thread-safe."""

    def __init__(self, store: TableStore, selection: Selection) -> None:
        self._reader = TaskReader(store, selection)
        self._selection = selection

    def batches(
        self, add: AddFile, *, with_dead_rows: bool, row_groups: tuple[int, ...] | None = None
    ) -> Iterator[tuple[NDArray[np.int64], pa.RecordBatch]]:
        """The positions of rows, ascending, and the rows. Raises ``NotFoundError``, ``CorruptLogError``,
        ``StorageError``, ``UnsupportedFeatureError`` for a file outside of the table."""
        vector = None if with_dead_rows else add.deletion_vector
        path = _below_root(self._selection.uri, add.path)
        task = ScanTask(path, add.path, add.size, self._selection, add.partition_values, vector, row_groups)
        columns = len(self._selection.fields)
        for batch in self._reader.batches(task):
            yield batch.column(columns).to_numpy(zero_copy_only=False), batch.select(range(columns))


class FileRows:
    """The data files of one table as it is defined at one version. Thread-safe."""

    def __init__(self, store: TableStore, state: TableState) -> None:
        self._store = store
        self._state = state
        self._everything = self.reader(state.schema.fields)

    def reader(self, fields: tuple[Field, ...], predicate: Predicate | None = None) -> FileReader:
        """Reads these columns, of the rows for which ``predicate`` is true."""
        state = self._state
        position = "position"
        while state.schema.find(position) is not None:
            position = f"_{position}"
        selection = Selection(
            self._store.uri,
            state.version,
            fields,
            predicate,
            state.schema,
            state.partition_columns,
            state.properties.column_mapping_mode,
            position_column=position,
        )
        return FileReader(self._store, selection)

    def live(self, add: AddFile) -> Iterator[tuple[NDArray[np.int64], pa.RecordBatch]]:
        """All columns of the rows that are not dead."""
        return self._everything.batches(add, with_dead_rows=False)

    def at(
        self, add: AddFile, positions: NDArray[np.uint64], fields: tuple[Field, ...]
    ) -> Iterator[tuple[NDArray[np.uint64], pa.RecordBatch]]:
        """These columns of the rows at ``positions``, which ascend; row groups without one of them are not read."""
        import numpy as np

        sizes = self.row_group_sizes(add)
        ends = np.cumsum(sizes)
        row_groups = tuple(np.unique(np.searchsorted(ends, positions, side="right")).tolist())
        for numbers, batch in self.reader(fields).batches(add, with_dead_rows=True, row_groups=row_groups):
            start, end = np.searchsorted(positions, numbers[[0, -1]].astype(np.uint64) + np.array([0, 1], np.uint64))
            if start < end:
                here = positions[start:end]
                rows = np.searchsorted(numbers, here.astype(np.int64))
                yield here, batch.take(pa.array(rows))

    def row_group_sizes(self, add: AddFile) -> list[int]:
        """How many rows each row group has, by the file's footer. Raises as `FileReader.batches`."""
        import pyarrow.parquet as pq

        at: dict[str, Any] = {"table": self._store.uri, "version": self._state.version, "path": add.path}
        try:
            with self._store.files.open(_below_root(self._store.uri, add.path)) as source:
                metadata = pq.read_metadata(source)
                return [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        except (FileNotFoundError, NotFoundError) as error:
            raise NotFoundError("the log names a data file that is gone: vacuumed, or removed by hand", **at) from error
        except (pa.ArrowException, OSError) as error:
            raise CorruptLogError(f"a data file's footer cannot be read: {error}", **at) from error

    def count(self, add: AddFile) -> int:
        """All rows of a file, dead ones included."""
        return sum(self.row_group_sizes(add))


def _below_root(uri: str, log_path: str) -> str:
    path = path_below(uri, resolve_data_path(log_path))
    if path is None:
        raise UnsupportedFeatureError(
            "a file lies outside of the table's directory (a shallow clone?), whose rows this release does not change",
            features=("absolute paths",),
            table=uri,
            path=log_path,
        )
    return path
