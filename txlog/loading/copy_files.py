"""What a task does to copy files between tables: reads one from its store, and writes it to another, byte by byte.

In: `FileCopy`s, each a place in the source and a new path in the target. Out: their sizes; the copies are complete, and
durable.
"""

from __future__ import annotations

import msgspec

from txlog.core.changes.tasks import TaskStore
from txlog.core.format.actions import DeletionVectorDescriptor
from txlog.core.reading import DeletionVectorReader
from txlog.errors import NotFoundError, StorageError

_CHUNK_BYTES = 4 << 20


class FileCopy(msgspec.Struct, frozen=True):
    """``source`` is the file as its table's store takes it, ``target`` a path below the other table's root.

    ``size_bytes`` is the size that the log records. It records none for a file of deletion vectors, whose ``vectors``
    are those of live files.
    """

    source: str
    target: str
    size_bytes: int | None = None
    vectors: tuple[DeletionVectorDescriptor, ...] = ()


class CopyFile(msgspec.Struct, frozen=True):
    """The work of a task: copy a file of the source at ``version``. Raises NotFoundError, StorageError, and
    CorruptLogError for a deletion vector that is damaged."""

    source: TaskStore
    target: TaskStore
    version: int

    def __call__(self, copy: FileCopy) -> int:
        """The size of the copy in bytes."""
        try:
            size_bytes = self._copy(copy)
        except (FileNotFoundError, NotFoundError) as error:
            raise NotFoundError(
                f"{copy.source} is missing from the source: a vacuum of it deleted the file, or someone did by hand. If"
                " that happened after the clone began, run it again: it does not copy a file twice",
                table=self.source.uri,
                path=copy.source,
            ) from error
        except OSError as error:
            raise StorageError(
                f"could not copy {copy.source}: {error}. Run the clone again; it continues",
                table=self.source.uri,
                path=copy.source,
            ) from error
        self.target.files.files.make_durable([copy.target])
        return size_bytes

    def _copy(self, copy: FileCopy) -> int:
        if copy.vectors:
            DeletionVectorReader(self.source.files, self.version).bitmaps(copy.vectors)
        with self.source.files.files.open(copy.source) as opened:
            size_bytes: int = opened.size()
            if copy.size_bytes not in (None, size_bytes):
                raise StorageError(
                    f"{copy.source} has {size_bytes} bytes, and the log of the source records {copy.size_bytes}: it was"
                    " damaged or replaced. `txlog verify` checks the source",
                    table=self.source.uri,
                    path=copy.source,
                )
            output = self.target.files.files.create(copy.target)
            try:
                while chunk := opened.read(_CHUNK_BYTES):
                    output.sink.write(chunk)
                output.publish()
            except BaseException:
                output.abort()
                raise
        return size_bytes
