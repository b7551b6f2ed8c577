"""A growing set of paths, as Arrow columns: the files of a table that must stay.

In: paths as the log writes them (URI-encoded), deletion vectors, and paths of the store (relative, decoded). Out: which
of many paths are in the set. Nearly every path in a log equals the file's name in the store, and then needs no Python.
A path that cannot be parsed raises: it may mean any file, so nothing may be deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from txlog.core.format.actions import DeletionVectorDescriptor
from txlog.core.format.arrow.arrays import are_among, array_of
from txlog.core.format.deletion_vector import vector_path
from txlog.core.format.paths import DataPath, path_below, resolve_data_path

_NOT_PLAIN = r"[%:?#\\]|^/|//|(^|/)\.\.?(/|$)"
"""Matches log paths that differ from the file's name in the store, or may be invalid."""
CHUNK_PATHS = 65_536


class PathSet:
    """Paths below the root ``uri`` of one table."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._chunks: list[pa.Array] = []
        self._waiting: list[str] = []

    def add(self, paths: Iterable[str]) -> None:
        """Add store names."""
        for path in paths:
            self._waiting.append(path)
            if len(self._waiting) == CHUNK_PATHS:
                self._make_chunk()

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
        """Add the files of a column of deletion vectors, ``core.format.file_columns.DELETION_VECTOR``. Raises
        CorruptLogError."""
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
        return sum(map(len, self._chunks)) + len(self._waiting)

    def holds(self, paths: pa.Array | pa.ChunkedArray) -> Any:
        """For each of ``paths``, which are store names, whether it is in the set. It indexes the whole set first."""
        return are_among(paths, self.column())

    def column(self) -> pa.ChunkedArray:
        """All paths, as store names. They stay in chunks: together they may be more text than one array holds."""
        if self._waiting:
            self._make_chunk()
        return pa.chunked_array(self._chunks, pa.string())

    def _make_chunk(self) -> None:
        self._chunks.append(array_of(self._waiting, pa.string()))
        self._waiting = []

    def _vector_names(self, vector: DeletionVectorDescriptor) -> Iterator[str]:
        found = vector_path(vector)
        return iter(()) if found is None else self._names(found)

    def _names(self, found: DataPath) -> Iterator[str]:
        return store_names(self._uri, found)


def store_names(uri: str, found: DataPath) -> Iterator[str]:
    """What the store may call a file of the table at ``uri``.

    An absolute path may spell the table's own root differently (a link, another host name), so each of its suffixes
    counts.
    """
    path = path_below(uri, found)
    if path is not None:
        yield path
        return
    segments = found.path.split("/")
    for start in range(1, len(segments)):
        yield "/".join(segments[start:])
