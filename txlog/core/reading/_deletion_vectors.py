"""Reads deletion vectors from the store: the deleted rows of a data file.

In: a table's store and the descriptor of an ``add``. Out: positions. Only the bytes of the one vector are requested.
``core/format/deletion_vector`` decodes and checks them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from txlog.core.format.actions import DeletionVectorDescriptor
from txlog.core.format.deletion_vector import (
    FILE_FORMAT_VERSION,
    bitmap_in_block,
    block_size_bytes,
    dead_rows,
    inline_bitmap,
    vector_path,
)
from txlog.core.format.paths import stored_path
from txlog.core.reading._footers import why_missing
from txlog.core.store import TableFiles
from txlog.errors import CorruptLogError, NotFoundError, StorageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_REPAIR = (
    "Without it deleted rows would reappear: restore it from a copy, or remove the data file from the table with"
    " txn.remove(path) in a table.transaction(), and write its live rows again"
)
_GONE = (
    "If only an old version has it, read a newer version; table.tag(name), or a longer"
    " delta.deletedFileRetentionDuration, keeps versions readable. If the newest version has it:"
    f" {_REPAIR[0].lower()}{_REPAIR[1:]}"
)


class DeletionVectorReader:
    """Reads the vectors of one table at one version."""

    def __init__(self, store: TableFiles, version: int) -> None:
        self._store = store
        self._version = version

    def dead_rows(self, descriptor: DeletionVectorDescriptor, num_rows: int) -> NDArray[np.uint64]:
        """The positions, ascending from 0, of the deleted rows in a data file of ``num_rows`` rows.

        Raises CorruptLogError naming the vector's file if it is missing or invalid, StorageError.
        """
        bitmap = self.bitmaps([descriptor])[0]
        try:
            return dead_rows(bitmap, descriptor, num_rows)
        except CorruptLogError as error:
            raise self._damaged(error, self._path(descriptor)) from error

    def bitmaps(self, descriptors: Sequence[DeletionVectorDescriptor]) -> list[bytes]:
        """Each vector's bitmap, after its magic number: checked against size and checksum, but not decoded.

        A file that holds several of the vectors is opened once. Raises what `dead_rows` raises.
        """
        found = [b""] * len(descriptors)
        for path, places in self._by_path(descriptors).items():
            here = [descriptors[at] for at in places]
            try:
                bitmaps = list(map(inline_bitmap, here)) if path is None else self._bitmaps_in(path, here)
            except CorruptLogError as error:
                raise self._damaged(error, path) from error
            for at, bitmap in zip(places, bitmaps, strict=True):
                found[at] = bitmap
        return found

    def _by_path(self, descriptors: Sequence[DeletionVectorDescriptor]) -> dict[str | None, list[int]]:
        """The positions in ``descriptors``, by file; vectors inside the log are under None."""
        places: dict[str | None, list[int]] = {}
        for at, descriptor in enumerate(descriptors):
            try:
                path = self._path(descriptor)
            except CorruptLogError as error:
                raise self._damaged(error, None) from error
            places.setdefault(path, []).append(at)
        return places

    def _path(self, descriptor: DeletionVectorDescriptor) -> str | None:
        """The file that holds the vector, as the store takes it."""
        found = vector_path(descriptor)
        if found is None:
            return None
        return stored_path(self._store.uri, found)

    def _bitmaps_in(self, path: str, descriptors: Sequence[DeletionVectorDescriptor]) -> list[bytes]:
        try:
            with self._store.files.open(path) as source:
                first = source.read(1)
                if first != bytes([FILE_FORMAT_VERSION]):
                    raise CorruptLogError(
                        f"it begins with {first!r}, not with the format version {FILE_FORMAT_VERSION}"
                    )
                return [bitmap_in_block(_block(source, each), each) for each in descriptors]
        except (FileNotFoundError, NotFoundError):
            raise CorruptLogError(
                f"the log names this deletion vector, but the file is missing: {why_missing(path)}",
                repair=_GONE,
            ) from None
        except OSError as error:
            raise StorageError(f"a deletion vector could not be read: {error}", **self._at(path)) from error

    def _damaged(self, error: CorruptLogError, path: str | None) -> CorruptLogError:
        return CorruptLogError(f"deletion vector: {error.message}", repair=error.repair or _REPAIR, **self._at(path))

    def _at(self, path: str | None) -> dict[str, Any]:
        return {"table": self._store.uri, "version": self._version, "path": path}


def _block(source: Any, descriptor: DeletionVectorDescriptor) -> bytes:
    """The vector's bytes. The size in the log is checked against the file before memory is allocated."""
    offset = descriptor.offset or 0
    source.seek(offset)
    return bytes(source.read(max(0, min(block_size_bytes(descriptor), source.size() - offset))))
