"""Reads deletion vectors from the store: the deleted rows of a data file.

In: a table's store and the descriptor of an ``add``. Out: positions. Only the bytes of the one vector are requested.
``protocol/deletion_vector`` decodes and checks them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from txlog.errors import CorruptLogError, NotFoundError, StorageError, UnsupportedFeatureError
from txlog.protocol.actions import DeletionVectorDescriptor
from txlog.protocol.deletion_vector import (
    FILE_FORMAT_VERSION,
    bitmap_in_block,
    block_size_bytes,
    dead_rows,
    inline_bitmap,
    vector_path,
)
from txlog.protocol.paths import DataPath, path_below
from txlog.store.base import TableStore

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["DeletionVectorReader"]

_REPAIR = (
    "Without it deleted rows would reappear: restore it from a copy, or remove the data file from the table with"
    " txn.remove(path) in a table.transaction(), and write its live rows again"
)


class DeletionVectorReader:
    """Reads the vectors of one table at one version."""

    def __init__(self, store: TableStore, version: int) -> None:
        self._store = store
        self._version = version

    def dead_rows(self, descriptor: DeletionVectorDescriptor, num_rows: int) -> NDArray[np.uint64]:
        """The positions, ascending from 0, of the deleted rows in a data file of ``num_rows`` rows.

        Raises CorruptLogError naming the vector's file if it is missing or invalid, UnsupportedFeatureError if it is
        outside of the table's directory, StorageError.
        """
        path: str | None = None
        try:
            found = vector_path(descriptor)
            if found is None:
                return dead_rows(inline_bitmap(descriptor), descriptor, num_rows)
            path = self._below_root(found)
            return dead_rows(bitmap_in_block(self._block(path, descriptor), descriptor), descriptor, num_rows)
        except CorruptLogError as error:
            raise CorruptLogError(f"deletion vector: {error.message}", repair=_REPAIR, **self._at(path)) from error

    def _below_root(self, found: DataPath) -> str:
        path = path_below(self._store.uri, found)
        if path is None:
            raise UnsupportedFeatureError(
                "a deletion vector is outside of the table's directory (a shallow clone?), which this release does not"
                " support",
                features=("absolute paths",),
                **self._at(found.path),
            )
        return path

    def _block(self, path: str, descriptor: DeletionVectorDescriptor) -> bytes:
        try:
            with self._store.files.open(path) as source:
                first = source.read(1)
                if first != bytes([FILE_FORMAT_VERSION]):
                    raise CorruptLogError(
                        f"it begins with {first!r}, not with the format version {FILE_FORMAT_VERSION}"
                    )
                offset = descriptor.offset or 0
                source.seek(offset)
                # The size in the log is checked against the file before memory is allocated.
                return bytes(source.read(max(0, min(block_size_bytes(descriptor), source.size() - offset))))
        except (FileNotFoundError, NotFoundError):
            raise CorruptLogError("the log names this deletion vector, but the file is gone") from None
        except OSError as error:
            raise StorageError(f"a deletion vector could not be read: {error}", **self._at(path)) from error

    def _at(self, path: str | None) -> dict[str, Any]:
        return {"table": self._store.uri, "version": self._version, "path": path}
