"""Partitions rows into temporary files, each read back as a whole: for more rows than fit into memory.

In: tables of one schema, with a bucket for each row. Out: the rows of each bucket, in order of arrival.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from txlog.core.format.arrow.spill import temporary_folder

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Buckets:
    """A temporary folder with one file for each bucket. `close` removes it; so does the end of the process."""

    def __init__(self, num_buckets: int) -> None:
        self.num_buckets = num_buckets
        self._folder = temporary_folder()
        self._writers: dict[int, Any] = {}

    def add(self, rows: pa.Table, buckets: NDArray[np.int64]) -> None:
        """Write rows to their buckets. Raises ``OSError`` if there is no space."""
        order = np.argsort(buckets, kind="stable")
        ends = np.searchsorted(buckets[order], np.arange(self.num_buckets), side="right").tolist()
        start = 0
        for bucket, end in enumerate(ends):
            if end > start:
                self._writer(bucket, rows.schema).write_table(rows.take(pa.array(order[start:end])))
            start = end

    def drain(self) -> Iterator[pa.Table]:
        """Yield the rows of each non-empty bucket, and remove them. No rows may be added afterwards."""
        for writer in self._writers.values():
            writer.close()
        for bucket in sorted(self._writers):
            path = self._path(bucket)
            with pa.OSFile(path, "rb") as source:
                rows = pa.ipc.open_stream(source).read_all()
            os.unlink(path)
            yield rows

    def close(self) -> None:
        """Remove what is left. Never raises."""
        self._writers = {}
        self._folder.cleanup()

    def _writer(self, bucket: int, schema: pa.Schema) -> Any:
        found = self._writers.get(bucket)
        if found is None:
            found = self._writers[bucket] = pa.ipc.new_stream(self._path(bucket), schema)
        return found

    def _path(self, bucket: int) -> str:
        return os.path.join(self._folder.name, f"{bucket}.arrow")
