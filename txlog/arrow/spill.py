"""Stores batches of unknown size for several passes: in memory, and above a limit in a temporary file.

In: record batches of one schema. Out: one Arrow table. A spilled file is mapped into memory, so its pages take memory
only while they are used. It has no name, and disappears with the table.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections import deque
from collections.abc import Iterator

import pyarrow as pa

__all__ = ["held"]


def held(batches: Iterator[pa.RecordBatch], schema: pa.Schema, *, memory_max_bytes: int) -> pa.Table:
    """All rows as a table that can be read repeatedly. Raises ``OSError`` if the temporary file cannot be written, and
    what ``batches`` raises."""
    in_memory: deque[pa.RecordBatch] = deque()
    size_bytes = 0
    for batch in batches:
        in_memory.append(batch)
        size_bytes += batch.nbytes
        if size_bytes > memory_max_bytes:
            return _spilled(in_memory, batches, schema)
    return pa.Table.from_batches(in_memory, schema)


def _spilled(first: deque[pa.RecordBatch], rest: Iterator[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    descriptor, name = tempfile.mkstemp(prefix="txlog-", suffix=".arrow")
    os.close(descriptor)
    try:
        with pa.OSFile(name, "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            while first:
                writer.write_batch(first.popleft())
            for batch in rest:
                writer.write_batch(batch)
        return pa.ipc.open_file(pa.memory_map(name)).read_all()
    finally:
        with contextlib.suppress(OSError):  # a platform that locks mapped files cannot remove it yet
            os.unlink(name)
