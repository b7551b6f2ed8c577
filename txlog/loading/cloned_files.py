"""The files of a clone: how it names the source's files, or its own copies of them.

In: live files of the source. Out: the ``add`` actions of the clone. A shallow clone names the source's files by their
absolute paths, unless they are in its own folder. A deep clone has copies, whose names come from what they are copies
of, so that a later run finds them. Pure. PROTOCOL.md, "Add File and Remove File", "Deletion Vectors".
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from uuid import UUID

from msgspec.structs import replace

from txlog.core.format.actions import AddFile, DeletionVectorDescriptor
from txlog.core.format.deletion_vector import vector_path
from txlog.core.format.deletion_vector_bytes import descriptor_in, vector_file_name
from txlog.core.format.paths import (
    DataPath,
    canonical_path,
    encode_path,
    partition_directory,
    readable_path,
    resolve_data_path,
    stored_path,
)
from txlog.core.util import cached_property, pattern
from txlog.loading.copy_files import FileCopy

_DIGITS, _VECTOR_DIGITS = 32, 24  # the name of a file of vectors has room for no more
_COPY = pattern(r"clone-([0-9a-f]{32})-[0-9a-f]{8}\.[A-Za-z0-9.]*")
_VECTOR_NAME = r"deletion_vector_([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.bin"
_VECTORS = pattern(_VECTOR_NAME)
_VECTOR_PATH = pattern(rf"(?:([A-Za-z0-9_-]+)/)?{_VECTOR_NAME}")


class Referring:
    """How a shallow clone names the source's files: by absolute paths, or by relative ones if they are its own.

    A clone comes back to its own files when it replaces a table by a clone of it. Spark's VACUUM takes no absolute path
    of a deletion vector for one in the table's folder, and would delete the vector.

    Args:
        root: The source's location as a URI, escaped.
        below: The path of a file in the clone's folder; None if it is elsewhere.
    """

    def __init__(self, root: str, below: Callable[[DataPath], str | None]) -> None:
        self._root = root
        self._below = below

    def named(self, add: AddFile) -> AddFile:
        """A file of the source as the clone has it."""
        found = resolve_data_path(add.path)
        own = None if found.is_relative else self._below(found)
        path = self._absolute(found, add.path) if own is None else encode_path(own)
        return _as_new(replace(add, path=path, deletion_vector=self._vector(add.deletion_vector)))

    def _vector(self, vector: DeletionVectorDescriptor | None) -> DeletionVectorDescriptor | None:
        found = None if vector is None else vector_path(vector)
        if vector is None or found is None:
            return vector
        own = None if found.is_relative else self._below(found)
        if own is not None and (parts := _VECTOR_PATH.fullmatch(own)):
            return descriptor_in(parts[2], vector, parts[1] or "")
        return replace(vector, storage_type="p", path_or_inline=self._absolute(found, vector.path_or_inline))

    def _absolute(self, found: DataPath, text: str) -> str:
        return readable_path(f"{self._root}/{encode_path(found.path)}") if found.is_relative else text


def _as_new(add: AddFile) -> AddFile:
    """Row ids are the clone's own: it gives them again, as Spark's Delta does."""
    return replace(add, data_change=True, base_row_id=None, default_row_commit_version=None, extra={})


class Copies:
    """The copies that a deep clone of one table needs.

    Args:
        uri: The source's location.
        table_id: The source's id, so that another table at its location does not count as it.
        live: The live files of the clone.
        there: Lists the files in the clone's folder that a run may have left before it could commit, and that no vacuum
            is about to delete: paths and sizes. Called if a copy is needed.
        suffix: Eight hexadecimal digits that no other run has.
    """

    def __init__(
        self,
        uri: str,
        table_id: str,
        live: Iterable[AddFile],
        there: Callable[[], Iterable[tuple[str, int]]],
        suffix: str,
    ) -> None:
        self._uri = uri
        self._table_id = table_id
        self._suffix = suffix
        self._live = {found[1]: add for add in live if (found := _COPY.fullmatch(add.path.rpartition("/")[2]))}
        self._list = there
        self.wanted: dict[str, FileCopy] = {}
        """What is to be copied, by its path in the clone."""
        self.found: set[str] = set()
        """What an earlier run copied and did not commit, perhaps not durably."""

    @cached_property
    def _there(self) -> dict[str, tuple[str, int]]:
        """The path and size of each finished copy, by its digest, and of each file of vectors, by what may be one."""
        found: dict[str, tuple[str, int]] = {}
        for path, size_bytes in self._list():
            name = path.rpartition("/")[2]
            if copy := _COPY.fullmatch(name):
                found[copy[1]] = (path, size_bytes)
            elif vectors := _VECTORS.fullmatch(name):
                found[vectors[1].replace("-", "")[:_VECTOR_DIGITS]] = (path, size_bytes)
        return found

    def copied(self, add: AddFile) -> AddFile:
        """A file of the source as the clone has it; what is missing there is noted in `wanted`."""
        at = resolve_data_path(add.path)
        digest = self._digest(canonical_path(add.path), add.size, add.modification_time)
        known = self._live.get(digest)
        if known is None:
            source = stored_path(self._uri, at)
            # Polars takes partition values from folders, so a file from elsewhere has those of its partition too.
            folder = source.rpartition("/")[0] if at.is_relative else partition_directory(add.partition_values)
            path = self._path(source, digest, add.size, folder)
            return _as_new(replace(add, path=encode_path(path), deletion_vector=self._vector(add, None)))
        kept = _as_new(replace(add, path=known.path, modification_time=known.modification_time))
        return replace(
            kept,
            deletion_vector=self._vector(add, known.deletion_vector),
            base_row_id=known.base_row_id,
            default_row_commit_version=known.default_row_commit_version,
        )

    def _path(self, source: str, digest: str, size_bytes: int, folder: str) -> str:
        """The path of the copy, which is there already or will be, in the folder."""
        left = self._there.get(digest)
        if left is not None and left[1] == size_bytes:
            self.found.add(left[0])
            return left[0]
        name = source.rpartition("/")[2]
        ending = ".".join(part for part in name.split(".")[1:] if part.isascii() and part.isalnum()) or "parquet"
        copy = f"clone-{digest}-{self._suffix}.{ending}"
        path = f"{folder}/{copy}" if folder else copy
        self.wanted[path] = FileCopy(source, path, size_bytes)
        return path

    def _vector(self, add: AddFile, known: DeletionVectorDescriptor | None) -> DeletionVectorDescriptor | None:
        """The vector in the clone's copy of its file, which keeps the vector's place."""
        vector = add.deletion_vector
        found = None if vector is None else vector_path(vector)
        if vector is None or found is None:
            return vector
        source = stored_path(self._uri, found)
        digest = self._digest(source)[:_VECTOR_DIGITS]
        there = None if known is None else vector_path(known)
        left = self._there.get(digest)
        for path in (None if there is None else there.path, None if left is None else left[0]):
            digits = "" if path is None else path.rpartition("_")[2].removesuffix(".bin").replace("-", "")
            if path is not None and digits.startswith(digest):
                self.found.add(path)
                return descriptor_in(digits, vector)
        digits = digest + self._suffix
        path = vector_file_name(str(UUID(digits)))
        others = () if path not in self.wanted else self.wanted[path].vectors
        self.wanted[path] = FileCopy(source, path, vectors=(*others, vector))
        return descriptor_in(digits, vector)

    def _digest(self, *parts: object) -> str:
        text = "\n".join(map(str, (self._table_id, *parts)))
        return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
