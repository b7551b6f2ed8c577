"""Arrow batches that wait: in memory, and in a temporary file once they are many."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import IO

import pyarrow as pa

_MEMORY_BYTES = 64 << 20


class Spool:
    """Batches in the order in which they came. May be read several times, and may grow in between."""

    def __init__(self, memory_bytes: int = _MEMORY_BYTES) -> None:
        self._memory_bytes = memory_bytes
        self._written: list[tuple[int, pa.Schema]] = []
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0
        self._file: IO[bytes] | None = None

    def append(self, batch: pa.RecordBatch) -> None:
        """Add a batch. Raises OSError if the folder of temporary files is full."""
        self._waiting.append(batch)
        self._waiting_bytes += batch.nbytes
        if self._waiting_bytes < self._memory_bytes:
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="txlog-mirror-")  # noqa: SIM115  `close` does
        self._file.seek(0, 2)
        for each in self._waiting:
            body = each.serialize()
            self._file.write(body)
            self._written.append((body.size, each.schema))
        self._waiting, self._waiting_bytes = [], 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        at = 0
        for size, schema in self._written:
            assert self._file is not None
            self._file.seek(at)
            yield pa.ipc.read_record_batch(pa.py_buffer(self._file.read(size)), schema)
            at += size
        yield from self._waiting

    def close(self) -> None:
        """Give up the memory and the file."""
        self._written, self._waiting, self._waiting_bytes = [], [], 0
        if self._file is not None:
            self._file.close()
            self._file = None
