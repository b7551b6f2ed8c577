"""Stores batches of unknown size for several passes: in memory, and above a limit in a temporary file. And temporary
folders.

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

from txlog.errors import StorageError


class SpillError(Exception):
    """The temporary file could not be made or written; the text says why, and ``__cause__`` is the ``OSError``."""


def no_room(what: str, error: Exception, table: str | None = None, consequence: str = "") -> StorageError:
    """The error for ``what`` (many of it) that could not be written to a temporary file, and what follows from that."""
    return StorageError(
        f"{what} could not be written to a temporary file: {error}. {consequence}Make room in the folder for temporary"
        " files, or name another one in the environment variable TMPDIR, then run it again",
        table=table,
    )


def temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """A new folder for files that do not outlive a call. Raises ``OSError`` if none can be made."""
    return tempfile.TemporaryDirectory(prefix="txlog-", ignore_cleanup_errors=True)


def held(batches: Iterator[pa.RecordBatch], schema: pa.Schema, *, memory_max_bytes: int) -> pa.Table:
    """All rows as a table that can be read repeatedly. Raises `SpillError`, and unchanged what ``batches``
    raises, which may be an ``OSError`` too."""
    in_memory: deque[pa.RecordBatch] = deque()
    size_bytes = 0
    for batch in batches:
        in_memory.append(batch)
        size_bytes += batch.nbytes
        if size_bytes > memory_max_bytes:
            return _spilled(in_memory, batches, schema)
    return pa.Table.from_batches(in_memory, schema)


def _spilled(first: deque[pa.RecordBatch], rest: Iterator[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    given = _Given(rest)
    name: str | None = None
    try:
        descriptor, name = tempfile.mkstemp(prefix="txlog-", suffix=".arrow")
        os.close(descriptor)
        with pa.OSFile(name, "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            while first:
                writer.write_batch(first.popleft())
            for batch in given:
                writer.write_batch(batch)
        return pa.ipc.open_file(pa.memory_map(name)).read_all()
    except OSError as error:
        if error is given.failure:
            raise
        raise SpillError(str(error)) from error
    finally:
        if name is not None:
            with contextlib.suppress(OSError):  # a platform that locks mapped files cannot remove it yet
                os.unlink(name)


class _Given:
    """The batches, and the error with which their own source failed."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self.failure: OSError | None = None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._batches
        except OSError as error:
            self.failure = error
            raise
