"""A growing set of paths, as Arrow columns: the files of a table that must stay.

In: paths as the log writes them (URI-encoded), deletion vectors, and paths of the store (relative, decoded). Out: which
of many paths are in the set. Nearly every path in a log equals the file's name in the store, and then needs no Python.
A path that cannot be parsed raises: it may mean any file, so nothing may be deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from txlog.arrow.arrays import array_of
from txlog.protocol.actions import DeletionVectorDescriptor
from txlog.protocol.deletion_vector import vector_path
from txlog.protocol.paths import DataPath, path_below, resolve_data_path

__all__ = ["PathSet"]

_NOT_PLAIN = r"[%:?#\\]|^/|//|(^|/)\.\.?(/|$)"
"""Matches log paths that differ from the file's name in the store, or may be invalid."""


class PathSet:
    """Paths below the root ``uri`` of one table."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._chunks: list[pa.Array] = []

    def add(self, paths: Iterable[str]) -> None:
        """Add store names."""
        found = list(paths)
        if found:
            self._chunks.append(array_of(found, pa.string()))

    def add_logged(self, uri_texts: pa.ChunkedArray) -> None:
        """Add paths from ``add.path`` and ``remove.path``. Raises CorruptLogError."""
        for chunk in uri_texts.chunks:
            others = pc.match_substring_regex(chunk, _NOT_PLAIN)
            if others.true_count:
                texts = chunk.filter(others).to_pylist()
                self.add(path for text in texts for path in self._names(resolve_data_path(text)))
                chunk = chunk.filter(pc.invert(others))
            self._chunks.append(chunk)

    def add_vectors(self, vectors: pa.ChunkedArray) -> None:
        """Add the files of a column of deletion vectors, ``log.files.DELETION_VECTOR``. Raises CorruptLogError."""
        if vectors.null_count == len(vectors):
            return
        texts = [pc.struct_field(vectors.drop_null(), name) for name in ("storageType", "pathOrInlineDv")]
        pairs = pa.table(texts, ["storageType", "pathOrInlineDv"]).group_by(["storageType", "pathOrInlineDv"])
        rows = pairs.aggregate([]).to_pylist()
        self.add(path for row in rows for path in self._vector_names(DeletionVectorDescriptor.from_json(row)))

    def add_vector(self, vector: DeletionVectorDescriptor | None) -> None:
        """Add the file of one deletion vector, if it has one. Raises CorruptLogError."""
        if vector is not None:
            self.add(self._vector_names(vector))

    def add_uri(self, uri_text: str) -> None:
        """Add one path as the log writes it. Raises CorruptLogError."""
        self.add(self._names(resolve_data_path(uri_text)))

    def __len__(self) -> int:
        return sum(map(len, self._chunks))

    def holds(self, paths: pa.Array | pa.ChunkedArray) -> pa.BooleanArray:
        """For each of ``paths``, which are store names, whether it is in the set. It indexes the whole set first."""
        return pc.is_in(paths, value_set=self.column())

    def column(self) -> pa.Array:
        """All paths, as store names."""
        if len(self._chunks) != 1:
            self._chunks = [pa.concat_arrays([array_of([], pa.string()), *self._chunks])]
        return self._chunks[0]

    def _vector_names(self, vector: DeletionVectorDescriptor) -> Iterator[str]:
        found = vector_path(vector)
        return iter(()) if found is None else self._names(found)

    def _names(self, found: DataPath) -> Iterator[str]:
        """What the store may call the file.

        An absolute path may spell the table's own root differently (a link, another host name), so each of its suffixes
        counts.
        """
        path = path_below(self._uri, found)
        if path is not None:
            yield path
            return
        segments = found.path.split("/")
        for start in range(1, len(segments)):
            yield "/".join(segments[start:])
